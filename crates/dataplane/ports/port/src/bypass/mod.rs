//! Two ports as the two sides of something that packets pass by while it is gone.
//!
//! A [`BypassPort`] stands before each of two ports that lead to one program, say a container that is wired
//! in line. While its own port is up it hands everything through. While that is down, what is to go out by it
//! comes in by the other one, as if the program had passed it on: the side it was sent to counts it as
//! delivered, the other one as received.
//!
//! A port is found to be down when it is maintained, and when it drops a packet for that; what it drops until
//! then is counted there. The two may be on two workers, and in one pool.
//!
//! Limits: [`WAITING`] packets wait for the other side; what is beyond is dropped as `port-full`.

#[cfg(test)]
mod tests;

use crate::merged::Merged;
use crate::sync::Event;
use crate::{Port, PortCounters, PortEvent, PortStatus, Wake};
use packet_memory::{Packet, Pool};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use telemetry::DropReason;
use telemetry::clock::Nanos;

/// Packets that wait for a side.
pub const WAITING: usize = 1024;

/// Where the two ports of a program find each other, by the program's name.
#[derive(Clone, Debug, Default)]
pub struct Bypasses(Arc<Mutex<HashMap<String, Weak<[Side; 2]>>>>);

/// What has passed by and is to come in by one of the two.
#[derive(Debug)]
struct Side {
    queue: Mutex<Queue>,
    /// How many there are, for a look without the lock.
    waiting: AtomicUsize,
    /// Signalled while there are any.
    event: Event,
}

#[derive(Debug, Default)]
struct Queue {
    packets: VecDeque<Packet>,
    /// A port takes them.
    open: bool,
}

/// See the module's documentation.
pub struct BypassPort {
    inner: Box<dyn Port>,
    number: usize,
    sides: Arc<[Side; 2]>,
    merged: Merged,
    down: bool,
    /// What has passed by.
    own: PortCounters,
    /// Of the inner port and what has passed by; only kept when something has.
    counters: Option<PortCounters>,
}

impl Side {
    fn new() -> io::Result<Side> {
        Ok(Side { queue: Mutex::default(), waiting: AtomicUsize::new(0), event: Event::new()? })
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bypasses {
    /// Stands before the port of a program's side: its first (0), or its second (1).
    ///
    /// # Errors
    /// The kernel's refusal of a descriptor.
    pub fn join(&self, program: &str, second: bool, inner: Box<dyn Port>) -> io::Result<BypassPort> {
        let sides = self.sides(program)?;
        let number = usize::from(second);
        let merged = Merged::with(sides[number].event.as_fd())?;
        sides[number].queue().open = true;
        let down = matches!(inner.status(), PortStatus::Down(_));
        Ok(BypassPort { inner, number, sides, merged, down, own: PortCounters::default(), counters: None })
    }

    fn sides(&self, program: &str) -> io::Result<Arc<[Side; 2]>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, sides| sides.strong_count() > 0);
        if let Some(sides) = known.get(program).and_then(Weak::upgrade) {
            return Ok(sides);
        }
        let sides = Arc::new([Side::new()?, Side::new()?]);
        known.insert(program.to_owned(), Arc::downgrade(&sides));
        Ok(sides)
    }
}

impl BypassPort {
    fn note_status(&mut self) {
        self.down = matches!(self.inner.status(), PortStatus::Down(_));
    }

    fn count(&mut self) {
        let mut counters = self.inner.counters().clone();
        counters.ledger.merge(&self.own.ledger);
        counters.received_bytes += self.own.received_bytes;
        counters.delivered_bytes += self.own.delivered_bytes;
        self.counters = Some(counters);
    }

    /// Takes what has passed by, up to a number.
    #[cold]
    fn take(&mut self, budget: usize, out: &mut Vec<Packet>) {
        let first = out.len();
        let side = &self.sides[self.number];
        let mut queue = side.queue();
        let count = queue.packets.len().min(budget);
        out.extend(queue.packets.drain(..count));
        side.waiting.store(queue.packets.len(), Release);
        if queue.packets.is_empty() {
            side.event.clear();
        }
        drop(queue);
        self.own.ledger.received += (out.len() - first) as u64;
        self.own.received_bytes += out[first..].iter().map(|packet| u64::from(packet.length())).sum::<u64>();
    }

    /// Has packets come in by the other side; false: there is none.
    #[cold]
    fn pass_by(&mut self, pool: &Pool, packets: &mut Vec<Packet>) -> bool {
        let side = &self.sides[1 - self.number];
        let mut queue = side.queue();
        if !queue.open {
            return false;
        }
        let were = queue.packets.len();
        let count = packets.len().min(WAITING.saturating_sub(were));
        self.own.ledger.delivered += count as u64;
        self.own.delivered_bytes += packets[..count].iter().map(|it| u64::from(it.length())).sum::<u64>();
        queue.packets.extend(packets.drain(..count));
        side.waiting.store(queue.packets.len(), Release);
        if were == 0 && count > 0 {
            side.event.signal();
        }
        drop(queue);
        self.own.ledger.dropped[DropReason::PortFull] += packets.len() as u64;
        pool.free_batch(packets.drain(..));
        true
    }
}

impl Port for BypassPort {
    delegate_to_inner!();

    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        let first = out.len();
        if budget > 0 && self.sides[self.number].waiting.load(Acquire) > 0 {
            self.take(budget, out);
        }
        self.inner.receive(pool, now, budget - (out.len() - first), out);
        if self.counters.is_some() || out.len() > first && self.own.ledger.received > 0 {
            self.count();
        }
    }

    fn transmit(&mut self, pool: &Pool, now: Nanos, packets: &mut Vec<Packet>) {
        if self.down && self.pass_by(pool, packets) {
            return self.count();
        }
        let before = self.inner.counters().ledger.dropped[DropReason::PortDown];
        self.inner.transmit(pool, now, packets);
        if self.inner.counters().ledger.dropped[DropReason::PortDown] > before {
            self.note_status();
        }
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
            details.push(("passed_by", self.own.ledger.delivered));
        }
        details
    }

    fn in_flight(&self) -> u64 {
        self.inner.in_flight()
    }

    fn close(&mut self, pool: &Pool) -> Result<(), String> {
        let side = &self.sides[self.number];
        let mut queue = side.queue();
        queue.open = false;
        side.waiting.store(0, Release);
        side.event.clear();
        let left = std::mem::take(&mut queue.packets);
        drop(queue);
        // They had come in, had they been taken.
        self.own.ledger.received += left.len() as u64;
        self.own.ledger.dropped[DropReason::HeldAtStop] += left.len() as u64;
        let some_left = !left.is_empty();
        pool.free_batch(left);
        let closed = self.inner.close(pool);
        if some_left || self.counters.is_some() {
            self.count();
        }
        closed
    }
}
