//! Bonds: which of several links a packet takes.

use crate::settings::Balance;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use telemetry::clock::Nanos;
use virtual_switch::SwitchPort;

/// Slots by which flowlets are told apart.
pub const FLOWLETS: usize = 4096;

/// A flowlet's time is kept in units of 256 ns, beside the link in the lowest byte.
const UNIT: u32 = 8;

/// The links of a device: whether each is up, and what balancing over them remembers.
#[derive(Debug)]
pub(crate) struct Links {
    up: Vec<AtomicBool>,
    /// Packets, or flowlets, that were given out in turn.
    next: AtomicU64,
    flowlets: Arc<[AtomicU64]>,
}

impl Links {
    pub(crate) fn new(
        ports: &[SwitchPort],
        with_flowlets: bool,
        before: Option<(&[SwitchPort], &Links)>,
    ) -> Links {
        let was_up = |port: &SwitchPort| {
            let (former, links) = before?;
            let index = former.iter().position(|other| other == port)?;
            Some(links.up[index].load(Ordering::Relaxed))
        };
        let same = before.filter(|(former, _)| *former == ports).map(|(_, links)| links);
        let kept = same.map(|links| &links.flowlets).filter(|slots| with_flowlets && !slots.is_empty());
        let slots = if with_flowlets { FLOWLETS } else { 0 };
        Links {
            up: ports.iter().map(|port| AtomicBool::new(was_up(port).unwrap_or(true))).collect(),
            next: AtomicU64::new(0),
            flowlets: kept.cloned().unwrap_or_else(|| (0..slots).map(|_| AtomicU64::new(0)).collect()),
        }
    }

    pub(crate) fn set_up(&self, index: usize, up: bool) {
        if let Some(link) = self.up.get(index) {
            link.store(up, Ordering::Relaxed);
        }
    }

    /// The first of so many turns.
    #[inline]
    pub(crate) fn take_turns(&self, count: usize) -> u64 {
        self.next.fetch_add(count as u64, Ordering::Relaxed)
    }

    /// The link that a packet takes. `turn` is its place in the round.
    #[inline]
    pub(crate) fn choose(&self, balance: Balance, flow_hash: u32, turn: u64, now: Nanos) -> usize {
        let links = self.up.len();
        match balance {
            Balance::RoundRobin => self.up_from((turn % links as u64) as usize),
            Balance::Flow => self.up_from(scale(flow_hash, links)),
            Balance::Flowlet { gap } => self.flowlet(flow_hash, gap, now),
            Balance::ActiveBackup => self.up_from(0),
        }
    }

    /// The link of a flow's present flowlet. Of two workers that begin one at once the later one's stays: a
    /// flow is on one worker.
    fn flowlet(&self, flow_hash: u32, gap: Nanos, now: Nanos) -> usize {
        let Some(slot) = self.flowlets.get(scale(flow_hash, FLOWLETS)) else { return self.up_from(0) };
        let (seen, time) = (slot.load(Ordering::Relaxed), now.0 >> UNIT);
        let (before, link) = (seen >> 8, (seen & 0xff) as usize);
        // An empty slot names no link: they are numbered from 1.
        let goes_on = link > 0 && link <= self.up.len() && time.saturating_sub(before) <= gap.0 >> UNIT;
        let link = match goes_on {
            true => self.up_from(link - 1),
            false => self.up_from((self.take_turns(1) % self.up.len() as u64) as usize),
        };
        slot.store(time << 8 | (link as u64 + 1), Ordering::Relaxed);
        link
    }

    /// This link, or the next one that is up; this one when none is.
    #[inline]
    fn up_from(&self, index: usize) -> usize {
        let is_up = |index: &usize| self.up.get(*index).is_some_and(|up| up.load(Ordering::Relaxed));
        if is_up(&index) {
            return index;
        }
        let links = self.up.len();
        (0..links).map(|n| (index + n) % links).find(is_up).unwrap_or(index)
    }
}

/// A hash as a number below a bound, by multiplication: no bound is worse than another.
#[inline]
pub(crate) fn scale(hash: u32, bound: usize) -> usize {
    ((u64::from(hash) * bound as u64) >> 32) as usize
}
