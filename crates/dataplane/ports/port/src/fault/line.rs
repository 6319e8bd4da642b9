//! One direction: packets go in as they come, and come out late, spoiled, twice or not at all.

use super::config::Direction;
use super::dice::{Decision, Dice};
use super::spoil;
use packet_memory::{Packet, Pool};
use std::collections::VecDeque;
use telemetry::clock::Nanos;
use telemetry::{DropReason, Ledger};

/// How long a packet waits to be overtaken.
pub(super) const LONGEST_WAIT: Nanos = Nanos::from_millis(10);

/// Most packets that wait to be overtaken; others go as they came.
const MOST_SET_ASIDE: usize = 64;

const SECOND: u64 = 1_000_000_000;

/// What happened to packets, beside the ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Happened {
    pub lost: u64,
    pub duplicated: u64,
    /// Were to be duplicated, and the pool had no buffer.
    pub not_duplicated: u64,
    pub truncated: u64,
    pub flipped: u64,
    pub reordered: u64,
    /// Came while as many as may were waiting.
    pub overflowed: u64,
}

/// A packet that waits for its time.
#[derive(Debug)]
struct Waiting {
    packet: Packet,
    due: Nanos,
    overtaken_by: u32,
    was_overtaken: bool,
}

/// One direction of a port.
#[derive(Debug)]
pub(super) struct Line {
    config: Direction,
    held: usize,
    dice: Dice,
    /// In order of arrival. None goes before the one in front of it, so jitter reorders nothing.
    waiting: VecDeque<Waiting>,
    /// Packets whose time has come, but which others are to overtake; `due` is when that is not waited for
    /// any longer.
    overtaken: Vec<Waiting>,
    /// When the rate allows the next packet, and what was rounded off, in parts of a nanosecond: `rate` of
    /// them.
    free: Nanos,
    rounded: u64,
    pub ledger: Ledger,
    pub happened: Happened,
}

impl Line {
    pub fn new(config: Direction, held: u32, dice: Dice) -> Line {
        Line {
            config,
            held: held.max(1) as usize,
            dice,
            waiting: VecDeque::new(),
            overtaken: Vec::new(),
            free: Nanos(0),
            rounded: 0,
            ledger: Ledger::default(),
            happened: Happened::default(),
        }
    }

    /// Packets that wait.
    pub fn held(&self) -> usize {
        self.waiting.len() + self.overtaken.len()
    }

    /// When the next one is due.
    pub fn next(&self) -> Option<Nanos> {
        let late = self.overtaken.iter().map(|waiting| waiting.due).min();
        let front = self.waiting.front().map(|waiting| waiting.due);
        [late, front].into_iter().flatten().min()
    }

    /// Takes a packet in.
    pub fn put(&mut self, pool: &Pool, now: Nanos, mut packet: Packet) {
        let decision = self.dice.decide(&self.config);
        if decision.lost {
            self.happened.lost += 1;
            return self.lose(pool, packet, DropReason::InjectedFault);
        }
        if let Some(place) = decision.cut {
            self.happened.truncated += u64::from(spoil::cut(pool, &mut packet, place));
        }
        if let Some(bit) = decision.flip {
            self.happened.flipped += u64::from(spoil::flip(pool, &mut packet, bit));
        }
        let twin = if decision.duplicated { self.twin(pool, &packet) } else { None };
        self.queue(pool, now, packet, decision);
        if let Some(twin) = twin {
            self.queue(pool, now, twin, Decision { overtaken_by: 0, ..decision });
        }
    }

    /// A copy in the same tenant's pool: marks are kept.
    fn twin(&mut self, pool: &Pool, packet: &Packet) -> Option<Packet> {
        // It came from a buffer of the same size, but perhaps from further in front of it than copies begin.
        let mut twin = pool.copy_from(pool, packet).ok().flatten();
        match &mut twin {
            Some(twin) => {
                twin.edit(|record| *record = *packet.record());
                self.happened.duplicated += 1;
                self.ledger.copied += 1;
            }
            None => self.happened.not_duplicated += 1,
        }
        twin
    }

    fn queue(&mut self, pool: &Pool, now: Nanos, packet: Packet, decision: Decision) {
        if self.held() >= self.held {
            self.happened.overflowed += 1;
            return self.lose(pool, packet, DropReason::PortFull);
        }
        let leaves = self.departure(now);
        let due = leaves.saturating_add(self.config.delay).saturating_add(decision.jitter);
        self.waiting.push_back(Waiting {
            packet,
            due,
            overtaken_by: decision.overtaken_by,
            was_overtaken: false,
        });
    }

    /// When the rate lets a packet go that came now.
    fn departure(&mut self, now: Nanos) -> Nanos {
        let Some(rate) = self.config.rate.filter(|rate| *rate > 0) else { return now };
        let leaves = self.free.max(now);
        if leaves > self.free {
            self.rounded = 0;
        }
        self.rounded += SECOND % rate;
        let carried = self.rounded / rate;
        self.rounded %= rate;
        self.free = leaves.saturating_add(Nanos(SECOND / rate + carried));
        leaves
    }

    /// Appends up to `budget` packets that are due to `out`.
    pub fn take(&mut self, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        let end = out.len().saturating_add(budget);
        while out.len() < end {
            // A packet that was overtaken often enough, or has waited long enough for it, goes before those
            // that came later.
            if let Some(place) = self.overtaken.iter().position(|waiting| waiting.due <= now) {
                out.push(self.overtaken.remove(place).packet);
                continue;
            }
            let Some(waiting) = self.waiting.pop_front_if(|waiting| waiting.due <= now) else { break };
            if waiting.overtaken_by > 0 && self.overtaken.len() < MOST_SET_ASIDE {
                self.overtaken.push(Waiting { due: now.saturating_add(LONGEST_WAIT), ..waiting });
                continue;
            }
            out.push(waiting.packet);
            self.passed(now);
        }
    }

    /// One packet has gone by all that others are to overtake.
    fn passed(&mut self, now: Nanos) {
        for late in &mut self.overtaken {
            self.happened.reordered += u64::from(!std::mem::replace(&mut late.was_overtaken, true));
            late.overtaken_by -= 1;
            if late.overtaken_by == 0 {
                late.due = late.due.min(now);
            }
        }
    }

    /// Drops everything.
    pub fn clear(&mut self, pool: &Pool) {
        let held = self.held() as u64;
        self.ledger.dropped[DropReason::HeldAtStop] += held;
        let waiting = self.waiting.drain(..).chain(self.overtaken.drain(..));
        pool.free_batch(waiting.map(|waiting| waiting.packet));
    }

    fn lose(&mut self, pool: &Pool, packet: Packet, reason: DropReason) {
        self.ledger.dropped[reason] += 1;
        pool.free(packet);
    }
}
