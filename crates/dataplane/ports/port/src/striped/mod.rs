//! What stands in a striped bond between its links and what opens it: a pair of ports, each of which gives
//! out what the other one is handed.
//!
//! 1. [`pair`] makes both. The inside is wired to the bond's openers, the outside to its links.
//! 2. [`Inside::transmit`] cuts what is still to be segmented, puts a sequence header on each packet and
//!    leaves it for [`Outside::receive`], from where it goes by the links in turn.
//! 3. [`Outside::transmit`] is handed what the links bring. It takes the headers off, puts the packets in
//!    order ([`stripe::Receiver`]) and leaves them for [`Inside::receive`]. All links lead here, so one
//!    worker keeps the order, whichever workers poll the links.
//! 4. Waiting for what is missing ends when the outside is polled for the second time after it is due
//!    ([`Outside::wake`]): what has come meanwhile, while the worker did something else, is looked at before.
//!
//! Packets are counted by the port that was handed them until the other one gives them out: neither is an end
//! of their way.
//!
//! Limits: [`PACKETS`] wait on either way for their taker, beside those that wait for others
//! ([`stripe::WINDOW`]). What finds no room is dropped as `queue-full`; senders are not held back. Frames
//! without a sequence header are `no-sequence`, and those that come too late or twice `out-of-sequence`. What
//! is in a pair when its worker stops is `held-at-stop`. The ends may be on different workers, each of which
//! waits for the other's lock as long as a batch of pointers takes.

mod queue;
#[cfg(test)]
mod tests;

use crate::{Port, PortCounters, Wake};
use packet_memory::{Packet, Pool};
use queue::Queue;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use stripe::{ADDRESSES, EtherType, HEADER, Header, Late, Receiver, Sender, Session};
use telemetry::DropReason;
use telemetry::clock::Nanos;
use virtio_net::{is_whole, split};

/// Packets that wait on either way for their taker.
pub const PACKETS: usize = 1024;

/// Bytes of addresses and EtherType, which every frame has.
const ETHERNET: u32 = 14;

/// The port towards what opens the bond.
pub struct Inside {
    ether_type: EtherType,
    sender: Sender,
    shared: Arc<Shared>,
    segments: Vec<Packet>,
    counters: PortCounters,
}

/// The port towards the bond's links.
pub struct Outside {
    ether_type: EtherType,
    receiver: Receiver<Packet>,
    shared: Arc<Shared>,
    in_order: Vec<Packet>,
    /// Waiting is over, and the links are looked at once more.
    is_due: bool,
    counters: PortCounters,
}

/// What both know.
struct Shared {
    to_links: Queue,
    to_openers: Queue,
    /// The smallest MTU of the links; [`u32::MAX`]: not known.
    mtu: Arc<AtomicU32>,
}

/// Both ports, of a sender that begins a session. `mtu` has the smallest MTU of the links, or [`u32::MAX`] as
/// long as none is known.
///
/// # Errors
/// The kernel's refusal of a descriptor.
pub fn pair(ether_type: EtherType, session: Session, mtu: Arc<AtomicU32>) -> io::Result<(Inside, Outside)> {
    let shared = Arc::new(Shared { to_links: Queue::new()?, to_openers: Queue::new()?, mtu });
    let inside = Inside {
        ether_type,
        sender: Sender::new(session),
        shared: shared.clone(),
        segments: Vec::new(),
        counters: PortCounters::default(),
    };
    let outside = Outside {
        ether_type,
        receiver: Receiver::default(),
        shared,
        in_order: Vec::new(),
        is_due: false,
        counters: PortCounters::default(),
    };
    Ok((inside, outside))
}

impl Inside {
    /// Puts a header on a packet.
    fn number(&mut self, pool: &Pool, packet: &mut Packet) -> Result<(), DropReason> {
        let (addresses, length) = pool.head::<ADDRESSES>(packet);
        if length < ADDRESSES || packet.length() < ETHERNET {
            return Err(DropReason::Malformed);
        }
        let front = self.sender.header().put_on(self.ether_type, &addresses);
        pool.replace_front(packet, ADDRESSES, &front).map_err(|_| DropReason::TooLong)?;
        // A packet that does not go leaves no gap.
        self.sender.advance();
        Ok(())
    }

    fn drop(&mut self, pool: &Pool, packet: Packet, reason: DropReason) {
        self.counters.ledger.dropped[reason] += 1;
        pool.free(packet);
    }
}

impl Port for Inside {
    fn receive(&mut self, _pool: &Pool, _now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        self.shared.to_openers.take(budget, out);
    }

    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        let mut segments = std::mem::take(&mut self.segments);
        for packet in packets.drain(..) {
            if !is_whole(&packet) {
                segments.push(packet);
                continue;
            }
            let room = (pool.room() as usize).saturating_sub(HEADER);
            match split(pool, packet, room, &mut segments) {
                Ok(split) => self.counters.note_split(split),
                Err(packet) => self.drop(pool, packet, DropReason::Malformed),
            }
        }
        let room = self.shared.to_links.room();
        for mut packet in segments.drain(..) {
            let numbered = match packets.len() < room {
                true => self.number(pool, &mut packet),
                false => Err(DropReason::QueueFull),
            };
            match numbered {
                Ok(()) => packets.push(packet),
                Err(reason) => self.drop(pool, packet, reason),
            }
        }
        self.shared.to_links.put(packets);
        self.segments = segments;
        // There was room, and only what is taken out changes that.
        while let Some(packet) = packets.pop() {
            self.drop(pool, packet, DropReason::QueueFull);
        }
    }

    fn wake(&self) -> Wake<'_> {
        self.shared.to_openers.wake()
    }

    fn mtu(&self) -> Option<u32> {
        let mtu = self.shared.mtu.load(Relaxed);
        (mtu < u32::MAX).then(|| mtu.saturating_sub(HEADER as u32))
    }

    fn waits_outside(&self) -> bool {
        false
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }

    fn in_flight(&self) -> u64 {
        self.shared.to_links.len() as u64
    }

    fn close(&mut self, pool: &Pool) -> Result<(), String> {
        close(pool, &self.shared.to_links, Vec::new(), &mut self.counters);
        Ok(())
    }
}

impl Outside {
    /// Takes the header off a packet and gives it to the receiver. It comes back if it is to be dropped, with
    /// the reason.
    fn order(&mut self, pool: &Pool, mut packet: Packet, now: Nanos) -> Option<(Packet, DropReason)> {
        let (head, length) = pool.head::<{ ADDRESSES + HEADER }>(&packet);
        let taken = Header::take_off(self.ether_type, &head[..length]);
        // Packets are numbered by one: several in one are no sender's.
        let Some((addresses, header)) = taken.filter(|_| !is_whole(&packet)) else {
            return Some((packet, DropReason::NoSequence));
        };
        if pool.replace_front(&mut packet, ADDRESSES + HEADER, &addresses).is_err() {
            return Some((packet, DropReason::NoSequence));
        }
        let accepted = self.receiver.accept(header, packet, now, &mut self.in_order);
        accepted.err().map(|Late(packet)| (packet, DropReason::OutOfSequence))
    }

    /// Leaves for the openers what is in order by now.
    fn give_on(&mut self, pool: &Pool) {
        self.shared.to_openers.put(&mut self.in_order);
        self.counters.ledger.dropped[DropReason::QueueFull] += self.in_order.len() as u64;
        pool.free_batch(self.in_order.drain(..));
    }
}

impl Port for Outside {
    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        let is_due = self.receiver.deadline().is_some_and(|due| due <= now);
        if is_due && self.is_due {
            self.receiver.expire(now, &mut self.in_order);
            self.give_on(pool);
        }
        self.is_due = is_due;
        self.shared.to_links.take(budget, out);
    }

    fn transmit(&mut self, pool: &Pool, now: Nanos, packets: &mut Vec<Packet>) {
        for packet in packets.drain(..) {
            if let Some((packet, reason)) = self.order(pool, packet, now) {
                self.counters.ledger.dropped[reason] += 1;
                pool.free(packet);
            }
        }
        self.give_on(pool);
    }

    fn wake(&self) -> Wake<'_> {
        let wake = self.shared.to_links.wake();
        Wake { at: wake.at.or(self.receiver.deadline()), ..wake }
    }

    fn waits_outside(&self) -> bool {
        false
    }

    fn needs_maintenance(&self) -> bool {
        false
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }

    fn details(&self) -> Vec<(&'static str, u64)> {
        vec![("stripe_waited", self.receiver.waited()), ("stripe_given_up", self.receiver.given_up())]
    }

    fn in_flight(&self) -> u64 {
        (self.receiver.waiting() + self.shared.to_openers.len()) as u64
    }

    fn close(&mut self, pool: &Pool) -> Result<(), String> {
        let waiting = self.receiver.drain().collect();
        close(pool, &self.shared.to_openers, waiting, &mut self.counters);
        Ok(())
    }
}

/// Ends what waits, beside these packets.
fn close(pool: &Pool, queue: &Queue, mut held: Vec<Packet>, counters: &mut PortCounters) {
    queue.take(usize::MAX, &mut held);
    counters.ledger.dropped[DropReason::HeldAtStop] += held.len() as u64;
    pool.free_batch(held);
}
