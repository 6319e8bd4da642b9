//! Which ports there are.

use crate::place::SwitchPort;
use std::sync::atomic::{AtomicU64, Ordering};

const WORDS: usize = (1 << 16) / 64;

/// Numbers that are given out, one bit each.
#[derive(Debug)]
pub(crate) struct Ports(Box<[AtomicU64; WORDS]>);

impl Ports {
    pub fn new() -> Ports {
        Ports(Box::new([const { AtomicU64::new(0) }; WORDS]))
    }

    /// The lowest free number.
    pub fn attach(&self) -> Option<SwitchPort> {
        for (n, word) in self.0.iter().enumerate() {
            let mut taken = word.load(Ordering::Relaxed);
            while taken != u64::MAX {
                let bit = taken.trailing_ones();
                match word.compare_exchange(taken, taken | 1 << bit, Ordering::AcqRel, Ordering::Relaxed) {
                    Ok(_) => return Some(SwitchPort(n as u16 * 64 + bit as u16)),
                    Err(now) => taken = now,
                }
            }
        }
        None
    }

    /// Whether it was there.
    pub fn detach(&self, port: SwitchPort) -> bool {
        let (word, bit) = self.place(port);
        word.fetch_and(!bit, Ordering::AcqRel) & bit != 0
    }

    pub fn contains(&self, port: SwitchPort) -> bool {
        let (word, bit) = self.place(port);
        word.load(Ordering::Acquire) & bit != 0
    }

    pub fn iter(&self) -> impl Iterator<Item = SwitchPort> {
        self.0.iter().enumerate().flat_map(|(n, word)| {
            let word = word.load(Ordering::Acquire);
            (0..64u16).filter(move |bit| word >> bit & 1 != 0).map(move |bit| SwitchPort(n as u16 * 64 + bit))
        })
    }

    fn place(&self, port: SwitchPort) -> (&AtomicU64, u64) {
        (&self.0[usize::from(port.0 >> 6)], 1 << (port.0 & 63))
    }
}
