//! Why packets are dropped, and counts of packets.

use crate::waiting::Left;
use nf_sdk::{Host, Verdict};

/// Why a packet is dropped; the numbers are places in a manifest's `drop_reasons`, which may go on with
/// others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Reason {
    /// A rule or the default action says so.
    Denied = 0,
    /// A header contradicts itself.
    Malformed = 1,
    /// It belongs to no flow and cannot open one.
    NoFlow = 2,
    /// It is not valid in the state of its flow.
    BadState = 3,
    /// There is no room for another flow.
    TableFull = 4,
    /// A later fragment whose first one was refused, did not come in time or is overlapped, or one that may
    /// not be.
    Fragment = 5,
    /// Neither IPv4 nor IPv6.
    NonIp = 6,
    /// IP that ends before its headers say, or has too many of them.
    Unreadable = 7,
}

impl From<Reason> for u16 {
    #[inline(always)]
    fn from(reason: Reason) -> u16 {
        reason as u16
    }
}

/// Counts of packets: the accepted ones, then those dropped, by the reason's place. A manifest's counters
/// begin with these `N`, and go on with flows opened, expired and evicted.
#[derive(Debug)]
pub struct Tally<const N: usize> {
    /// Since the start.
    pub totals: [u64; N],
    batch: [u32; N],
    turnover: [u64; 3],
}

impl<const N: usize> Default for Tally<N> {
    fn default() -> Tally<N> {
        Tally { totals: [0; N], batch: [0; N], turnover: [0; 3] }
    }
}

impl<const N: usize> Tally<N> {
    /// Counts accepted and denied packets of the batch.
    #[inline(always)]
    pub fn add(&mut self, accepted: u32, denied: u32) {
        self.batch[0] += accepted;
        self.batch[1] += denied;
    }

    /// Counts a packet that took the long way; its verdict.
    pub fn judge<R: Into<u16>>(&mut self, judgement: Result<(), R>, onward: u32) -> u32 {
        let (place, verdict) = match judgement.map_err(Into::into) {
            Ok(()) => (0, onward),
            Err(reason) => (1 + usize::from(reason), Verdict::Drop(reason).encode()),
        };
        if let Some(count) = self.batch.get_mut(place) {
            *count += 1;
        }
        verdict
    }

    /// Counts fragments that no longer wait for their first one.
    #[inline(always)]
    pub fn no_longer_waiting(&mut self, left: Left) {
        self.batch[0] += left.accepted;
        self.batch[1 + Reason::Fragment as usize] += left.dropped;
    }

    /// Tells the host what the batch added: a host call for each counter that changed.
    #[inline(always)]
    pub fn flush(&mut self, host: &mut Host) {
        for (place, count) in self.batch.iter_mut().enumerate() {
            if *count != 0 {
                self.totals[place] += u64::from(*count);
                host.counter_add(place as u32, u64::from(*count));
                *count = 0;
            }
        }
    }

    /// Tells the host how many flows began and ended since the last time.
    #[inline(always)]
    pub fn flush_turnover(&mut self, now: [u64; 3], host: &mut Host) {
        if now != self.turnover {
            for (place, (now, before)) in now.into_iter().zip(self.turnover).enumerate() {
                host.counter_add((N + place) as u32, now - before);
            }
            self.turnover = now;
        }
    }
}
