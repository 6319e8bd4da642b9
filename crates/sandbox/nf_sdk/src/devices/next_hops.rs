//! Packets on their way to a neighbour, and those that wait until it is known.
//!
//! Limits: [`MAX_HELD_FOR_ADDRESS`] packets wait for an address, [`MAX_HELD`] for an interface, and none for
//! longer than the host holds packets (1 s by default), or for longer than 1 s when the function made it: a
//! packet beyond that is dropped for the function's own reason. An address is asked for once in a second
//! while packets for it come and it is not known, and once a minute when it is.

use super::{Devices, Link, Mac};
use crate::{Host, Nanos, Packet, Slot, Verdict};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

/// Most packets that wait for one address.
pub const MAX_HELD_FOR_ADDRESS: usize = 8;

/// Most packets that wait behind one interface.
pub const MAX_HELD: usize = 256;

/// How long no other question for an address follows one, and how long full queues are not looked through
/// again for packets that the host has taken back.
const ASK_AGAIN: Nanos = Nanos::from_secs(1);
const LOOK_AGAIN: Nanos = Nanos::from_millis(100);

/// How long a packet waits that the function made; the host takes back those that came in.
const LONGEST_WAIT: Nanos = Nanos::from_secs(1);

/// How often neighbours that packets are sent to are asked for again, so that the platform keeps them.
const KEEP: Nanos = Nanos::from_secs(60);

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It has its addresses and leaves by the interface.
    Sent,
    /// It waits for the neighbour's answer.
    Held,
    /// It is dropped: the neighbour does not answer, or too many wait already.
    Dropped,
}

/// A packet that waits.
#[derive(Debug)]
struct Held {
    slot: Slot,
    mark: u64,
    since: Nanos,
    /// Whether the function made it.
    is_own: bool,
}

/// Packets that wait for an address.
#[derive(Debug, Default)]
struct Waiting {
    packets: Vec<Held>,
    asked: Option<Nanos>,
}

impl Waiting {
    /// Asks for the address, unless that was done a moment ago.
    fn ask(&mut self, host: &mut Host, interface: u16, address: IpAddr, now: Nanos) {
        if self.asked.is_none_or(|asked| now.since(asked) >= ASK_AGAIN)
            && host.ask(interface, address).is_ok()
        {
            self.asked = Some(now);
        }
    }
}

/// Sends packets to neighbours.
#[derive(Debug)]
pub struct NextHops {
    devices: Devices,
    no_neighbour: u16,
    waiting: BTreeMap<(u16, IpAddr), Waiting>,
    looked: Nanos,
    /// When neighbours that are in use are asked for next.
    keep_at: Nanos,
}

impl NextHops {
    /// `no_neighbour` is the index, in the manifest's `drop_reasons`, of the function's reason
    /// `no-neighbour`.
    pub const fn new(no_neighbour: u16) -> NextHops {
        NextHops {
            devices: Devices::new(),
            no_neighbour,
            waiting: BTreeMap::new(),
            looked: Nanos(0),
            keep_at: Nanos(0),
        }
    }

    /// The table, as it was last read.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// Packets that wait.
    pub fn held(&self) -> usize {
        self.waiting.values().map(|waiting| waiting.packets.len()).sum()
    }

    /// Sends a packet by an interface to an address on its link: writes its Ethernet addresses and gives its
    /// verdict. The function needs `access: write`.
    pub fn send(
        &mut self,
        host: &mut Host,
        packet: &mut Packet<'_>,
        interface: u16,
        address: IpAddr,
        now: Nanos,
    ) -> Sent {
        self.look_after(host, now);
        match self.devices.link(interface, address) {
            Link::Known { source, destination } if write(packet.bytes_mut(), source, destination) => {
                packet.verdict(Verdict::Interface(interface));
                return Sent::Sent;
            }
            Link::Unknown => {
                if self.may_wait(host, interface, address, now)
                    && let Some(slot) = host.slot()
                {
                    packet.verdict(Verdict::Hold(slot.number()));
                    let held = Held { slot, mark: packet.mark(), since: now, is_own: false };
                    self.wait(host, held, interface, address);
                    return Sent::Held;
                }
            }
            Link::Known { .. } | Link::Unreachable => {}
        }
        packet.verdict(Verdict::Drop(self.no_neighbour));
        Sent::Dropped
    }

    /// Sends a packet that the function made ([`Host::packet_new`]) as [`NextHops::send`] does one that came
    /// in.
    pub fn send_own(
        &mut self,
        host: &mut Host,
        slot: Slot,
        interface: u16,
        address: IpAddr,
        now: Nanos,
    ) -> Sent {
        self.look_after(host, now);
        let (verdict, sent) = match self.devices.link(interface, address) {
            Link::Known { source, destination }
                if host.held(&slot).is_some_and(|bytes| write(bytes, source, destination)) =>
            {
                (Verdict::Interface(interface), Sent::Sent)
            }
            Link::Unknown if self.may_wait(host, interface, address, now) => {
                self.wait(host, Held { slot, mark: 0, since: now, is_own: true }, interface, address);
                return Sent::Held;
            }
            _ => (Verdict::Drop(self.no_neighbour), Sent::Dropped),
        };
        // It is in its slot: it was made in this call or the caller keeps it.
        let _ = host.emit(slot, verdict, 0);
        sent
    }

    /// Reads the table the first time, and keeps neighbours that are in use.
    fn look_after(&mut self, host: &mut Host, now: Nanos) {
        if !self.devices.was_read() {
            // An unreadable table knows no neighbour.
            let _ = self.devices.read(host);
        }
        if now >= self.keep_at {
            self.keep(host, now);
        }
    }

    /// Asks again for neighbours that packets were sent to.
    #[cold]
    fn keep(&mut self, host: &mut Host, now: Nanos) {
        let done = self.devices.each_used(|interface, address| host.ask(interface, address).is_ok());
        // Where the host takes no more, it does a moment later.
        self.keep_at = now.saturating_add(if done { KEEP } else { LOOK_AGAIN });
    }

    /// Whether one more packet may wait for an address, which is asked for again where packets wait for it
    /// already.
    fn may_wait(&mut self, host: &mut Host, interface: u16, address: IpAddr, now: Nanos) -> bool {
        if !self.has_room(interface, address) && now.since(self.looked) >= LOOK_AGAIN {
            self.looked = now;
            self.forget_expired(host, now);
        }
        let has_room = self.has_room(interface, address);
        // An address that nothing waits for is not remembered: there is no end of them.
        if !has_room && let Some(waiting) = self.waiting.get_mut(&(interface, address)) {
            waiting.ask(host, interface, address, now);
        }
        has_room
    }

    /// Has a packet wait, and asks for the address.
    fn wait(&mut self, host: &mut Host, held: Held, interface: u16, address: IpAddr) {
        let waiting = self.waiting.entry((interface, address)).or_default();
        waiting.ask(host, interface, address, held.since);
        waiting.packets.push(held);
    }

    fn has_room(&self, interface: u16, address: IpAddr) -> bool {
        let count = |waiting: &Waiting| waiting.packets.len();
        self.waiting.get(&(interface, address)).map_or(0, count) < MAX_HELD_FOR_ADDRESS
            && self.of(interface).map(count).sum::<usize>() < MAX_HELD
    }

    fn of(&self, interface: u16) -> impl Iterator<Item = &Waiting> {
        self.waiting
            .iter()
            .filter(move |((waits_at, _), _)| *waits_at == interface)
            .map(|(_, waiting)| waiting)
    }

    /// Gives slots back whose packets the host has held for too long, and drops the function's own that have
    /// waited for too long. What came a moment ago is passed over: a packet is not in its slot before the
    /// call ends in which it came.
    fn forget_expired(&mut self, host: &mut Host, now: Nanos) {
        let no_neighbour = self.no_neighbour;
        self.waiting.retain(|_, waiting| {
            let mut kept = Vec::new();
            for held in waiting.packets.drain(..) {
                if held.is_own && now.since(held.since) >= LONGEST_WAIT {
                    let _ = host.emit(held.slot, Verdict::Drop(no_neighbour), 0);
                } else if now.since(held.since) < LOOK_AGAIN || host.held(&held.slot).is_some() {
                    kept.push(held);
                } else {
                    host.release(held.slot);
                }
            }
            waiting.packets = kept;
            !waiting.packets.is_empty()
        });
    }

    /// The table has changed: reads it, and sends or drops what waited for an answer that is there now. To be
    /// called by [`NetworkFunction::devices`](crate::NetworkFunction::devices).
    pub fn update(&mut self, host: &mut Host, now: Nanos) {
        // As it was: it is read again with the next change.
        let _ = self.devices.read(host);
        self.looked = now;
        self.forget_expired(host, now);
        let (devices, no_neighbour) = (&self.devices, self.no_neighbour);
        self.waiting.retain(|(interface, address), waiting| {
            let link = devices.link(*interface, *address);
            if link == Link::Unknown {
                return true;
            }
            for Held { slot, mark, .. } in waiting.packets.drain(..) {
                let Some(bytes) = host.held(&slot) else {
                    // The host took it back, and counted it.
                    host.release(slot);
                    continue;
                };
                let verdict = match link {
                    Link::Known { source, destination } if write(bytes, source, destination) => {
                        Verdict::Interface(*interface)
                    }
                    _ => Verdict::Drop(no_neighbour),
                };
                // Nothing takes it back between the look and here.
                let _ = host.emit(slot, verdict, mark);
            }
            false
        });
    }
}

/// Writes the addresses of an Ethernet header; false when there is none.
fn write(frame: &mut [u8], source: Mac, destination: Mac) -> bool {
    let Some(addresses) = frame.first_chunk_mut::<12>() else { return false };
    addresses[..6].copy_from_slice(&destination);
    addresses[6..].copy_from_slice(&source);
    true
}
