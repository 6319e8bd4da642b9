//! Stations of the platform's own at a port: what neighbours on the link know a device by, beside the packets
//! of functions.
//!
//! 1. A [`StationPort`] stands before a port from when it is opened. Without a station it hands everything
//!    through, and looks at no packet.
//! 2. [`Stations::attach`] puts a station there, while packets pass or not, and gives the [`Link`] by which
//!    the control plane reads and sends frames. Dropping the link takes the station away.
//! 3. Of packets that come in, those of neighbour protocols ([`mod@select`]) go to the stations: those for
//!    one alone are taken and counted as consumed, those for all are copied and go on.
//! 4. Whether the port is up is told with it ([`Link::is_up`]), as often as the port is maintained.
//! 5. Frames of the link go out with the port's next look outside; the link wakes its worker for that. They
//!    are counted as generated.
//!
//! Limits: [`FRAMES`] frames wait on either way, and a station takes [`RATE`] in a second; as many again of
//! answers to what it asked ([`Awaited`]). Of what is beyond, copies are not made and frames for the station
//! alone are dropped as `port-full`. A station is where frames have no VLAN tags, where they have one
//! ([`Tag`]), or inside of a tunnel between two ends ([`Tunnel`]). A port that nothing is wired to is not
//! looked at by its worker, so its stations are silent.

mod link;
mod select;
#[cfg(test)]
mod tests;
mod tunnel;
#[cfg(test)]
mod tunnel_tests;

pub use link::{Link, Stations};
pub use select::{Around, Awaited, Identity, Tag};
pub use tunnel::{NextHop, Tunnel};

use crate::merged::Merged;
use crate::{Port, PortCounters, PortEvent, PortStatus, Wake};
use link::Seat;
use packet_memory::{Packet, Pool};
use select::{HEAD, LONG_HEAD, Take};
use std::io;
use std::sync::Arc;
use telemetry::Ledger;
use telemetry::clock::Nanos;
use tunnel::{Head, IN_TUNNEL};
use virtio_net::finish_checksum;

/// Frames that wait on either way.
pub const FRAMES: usize = 256;

/// Frames that a station takes in a second, and as many at once as wait.
pub const RATE: u64 = 10_000;

/// Frames of a station that go out at one look.
const SENT_AT_ONCE: usize = 32;

/// A port with room for stations. See the module's documentation.
pub struct StationPort {
    inner: Box<dyn Port>,
    stations: Arc<Stations>,
    seats: Vec<Seat>,
    merged: Merged,
    passing: Vec<Packet>,
    ledger: Ledger,
    /// Frames of stations for which there was no buffer.
    unsent: u64,
    /// Frames that stations missed that are gone.
    missed: u64,
    /// Of the inner port and the stations; only kept when there was a station.
    counters: Option<PortCounters>,
}

impl StationPort {
    /// Stands before a port.
    ///
    /// # Errors
    /// The kernel's refusal of a descriptor.
    pub fn new(inner: Box<dyn Port>) -> io::Result<StationPort> {
        let stations = Arc::new(Stations::new()?);
        let merged = Merged::with(stations.event())?;
        let (seats, passing, ledger) = (Vec::new(), Vec::new(), Ledger::default());
        let port = StationPort {
            inner,
            stations,
            seats,
            merged,
            passing,
            ledger,
            unsent: 0,
            missed: 0,
            counters: None,
        };
        port.note_status();
        Ok(port)
    }

    /// Tells the stations whether the port is up, if that has changed.
    fn note_status(&self) {
        if self.stations.set_down(matches!(self.inner.status(), PortStatus::Down(_))) {
            self.seats.iter().for_each(Seat::tell_status);
        }
    }

    /// Takes notice of links that came and of frames that they left.
    #[cold]
    fn attend(&mut self, pool: &Pool, now: Nanos) {
        self.stations.clear(&mut self.seats);
        if self.counters.is_none() && self.seats.is_empty() {
            return;
        }
        for seat in &mut self.seats {
            for _ in 0..SENT_AT_ONCE {
                let Some(frame) = seat.next_frame() else { break };
                let Some(mut packet) = pool.allocate() else {
                    self.unsent += 1;
                    continue;
                };
                if frame.is_empty() || pool.write(&mut packet, &frame).is_err() {
                    self.unsent += 1;
                    pool.free(packet);
                    continue;
                }
                packet.edit(|record| record.timestamp = now.0);
                self.ledger.generated += 1;
                self.passing.push(packet);
            }
        }
        let missed = &mut self.missed;
        self.seats.retain(|seat| {
            let is_gone = seat.is_gone();
            *missed += if is_gone { seat.missed() } else { 0 };
            !is_gone
        });
        if self.seats.iter().any(Seat::has_frames) {
            self.stations.signal();
        }
        if !self.passing.is_empty() {
            self.inner.transmit(pool, now, &mut self.passing);
            // The worker has handed out nothing, and would wake nothing at the end of its turn.
            self.inner.signal();
        }
        self.count();
    }

    /// Looks through packets that came in, from `first` on.
    fn look(&mut self, pool: &Pool, now: Nanos, first: usize, out: &mut Vec<Packet>) {
        let (seats, ledger) = (&mut self.seats, &mut self.ledger);
        for seat in seats.iter_mut() {
            seat.refill(now);
        }
        // Before anything is given back: the pool's lists are locked meanwhile.
        let taken = out.extract_if(first.., |packet| {
            let (head, length) = pool.head::<HEAD>(packet);
            let Some(head) = head.get(..length) else { return false };
            let mut is_taken = false;
            for seat in seats.iter_mut() {
                let in_tunnel = match seat.tunnel() {
                    None => None,
                    Some(tunnel) => match inside(tunnel, pool, packet) {
                        Some(head) => Some(head),
                        None => continue,
                    },
                };
                let take = match &in_tunnel {
                    None => seat.selects(head),
                    Some((head, length)) => seat.selects(head.get(..*length).unwrap_or_default()),
                };
                if take == Take::Pass {
                    continue;
                }
                // The protocols verify what they get.
                finish_checksum(pool, packet);
                let (head, length) = in_tunnel.unwrap_or_else(|| pool.head::<LONG_HEAD>(packet));
                let has_it = seat.put(head.get(..length).unwrap_or_default(), || pool.to_vec(packet));
                if take == Take::All {
                    match has_it {
                        Ok(()) => ledger.consumed += 1,
                        Err(reason) => ledger.dropped[reason] += 1,
                    }
                    is_taken = true;
                    break;
                }
            }
            is_taken
        });
        let taken: Vec<Packet> = taken.collect();
        if !taken.is_empty() {
            pool.free_batch(taken);
        }
        self.seats.iter_mut().for_each(Seat::tell);
        self.count();
    }

    fn count(&mut self) {
        let mut counters = self.inner.counters().clone();
        counters.ledger.merge(&self.ledger);
        self.counters = Some(counters);
    }
}

/// The first bytes of what is inside of a packet that is in a tunnel.
fn inside(tunnel: &Tunnel, pool: &Pool, packet: &Packet) -> Option<Head> {
    let (head, length) = pool.head::<IN_TUNNEL>(packet);
    let head = head.get(..length)?;
    Some(tunnel.inside(head, packet.length())?.head(head))
}

impl Port for StationPort {
    delegate_to_inner!();

    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        if self.stations.is_signalled() {
            self.attend(pool, now);
        }
        let first = out.len();
        self.inner.receive(pool, now, budget, out);
        if !self.seats.is_empty() {
            self.look(pool, now, first, out);
        } else if self.counters.is_some() {
            self.count();
        }
    }

    fn transmit(&mut self, pool: &Pool, now: Nanos, packets: &mut Vec<Packet>) {
        self.inner.transmit(pool, now, packets);
        if self.counters.is_some() {
            self.count();
        }
    }

    fn wake(&self) -> Wake<'_> {
        self.merged.wake(self.inner.wake())
    }

    fn status(&self) -> PortStatus {
        self.inner.status()
    }

    fn maintain(&mut self, now: Nanos) -> Vec<PortEvent> {
        let events = self.inner.maintain(now);
        if !events.is_empty() {
            // The interface may have come back with another descriptor of the same number.
            self.merged.forget();
        }
        self.note_status();
        if self.counters.is_some() {
            self.count();
        }
        events
    }

    fn counters(&self) -> &PortCounters {
        self.counters.as_ref().unwrap_or_else(|| self.inner.counters())
    }

    fn details(&self) -> Vec<(&'static str, u64)> {
        let mut details = self.inner.details();
        if self.counters.is_some() {
            let missed = self.missed + self.seats.iter().map(Seat::missed).sum::<u64>();
            details.push(("station_frames_missed", missed));
            details.push(("station_frames_unsent", self.unsent));
        }
        details
    }

    fn in_flight(&self) -> u64 {
        self.inner.in_flight()
    }

    fn stations(&self) -> Option<Arc<Stations>> {
        Some(self.stations.clone())
    }

    fn close(&mut self, pool: &Pool) -> Result<(), String> {
        let closed = self.inner.close(pool);
        if self.counters.is_some() {
            self.count();
        }
        closed
    }
}
