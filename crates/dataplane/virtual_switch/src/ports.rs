//! Which ports there are.

use crate::place::SwitchPort;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, SeqCst},
};

const WORDS: usize = (1 << 16) / 64;

/// Numbers, one bit each.
type Bits = Box<[AtomicU64; WORDS]>;

/// Numbers that are given out.
#[derive(Debug)]
pub(crate) struct Ports {
    given: Bits,
    /// Where something may have been learned since the number was given out.
    learned: Bits,
}

impl Ports {
    pub fn new() -> Ports {
        let none = || Box::new([const { AtomicU64::new(0) }; WORDS]);
        Ports { given: none(), learned: none() }
    }

    /// The lowest free number.
    pub fn attach(&self) -> Option<SwitchPort> {
        for (n, word) in self.given.iter().enumerate() {
            let mut taken = word.load(Relaxed);
            while taken != u64::MAX {
                let bit = taken.trailing_ones();
                match word.compare_exchange(taken, taken | 1 << bit, AcqRel, Relaxed) {
                    Ok(_) => return Some(SwitchPort(n as u16 * 64 + bit as u16)),
                    Err(now) => taken = now,
                }
            }
        }
        None
    }

    /// Takes a number back: whether something may have been learned there; `None` if it was not given out.
    pub fn detach(&self, port: SwitchPort) -> Option<bool> {
        let (n, bit) = place(port);
        let was_given = self.given[n].fetch_and(!bit, SeqCst) & bit != 0;
        was_given.then(|| self.learned[n].fetch_and(!bit, SeqCst) & bit != 0)
    }

    /// Notes that something is about to be learned at a port; whether there is such a port.
    ///
    /// It comes before [`detach`](Ports::detach), which finds the note, or after it, and finds no port: both
    /// write first and look then, in the one order that `SeqCst` gives them.
    pub fn learns(&self, port: SwitchPort) -> bool {
        let (n, bit) = place(port);
        self.learned[n].fetch_or(bit, SeqCst);
        self.given[n].load(SeqCst) & bit != 0
    }

    pub fn iter(&self) -> impl Iterator<Item = SwitchPort> {
        self.given.iter().enumerate().flat_map(|(n, word)| {
            let word = word.load(Acquire);
            (0..64u16).filter(move |bit| word >> bit & 1 != 0).map(move |bit| SwitchPort(n as u16 * 64 + bit))
        })
    }
}

/// The word and the bit of a port.
fn place(port: SwitchPort) -> (usize, u64) {
    (usize::from(port.0 >> 6), 1 << (port.0 & 63))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_learned_at_a_port_is_noted_until_its_end() {
        let ports = Ports::new();
        let given: Vec<SwitchPort> = (0..70).filter_map(|_| ports.attach()).collect();
        let (silent, heard) = (given[64], given[65]);
        assert!(ports.learns(heard) && ports.learns(heard));
        assert_eq!([ports.detach(silent), ports.detach(heard)], [Some(false), Some(true)]);
        assert_eq!([ports.detach(silent), ports.detach(heard)], [None, None]);
        assert!(!ports.learns(heard), "it is no port any more");
        assert_eq!([ports.attach(), ports.attach()], [Some(silent), Some(heard)]);
        // What came too late is learned nowhere, and costs its number no more than a look in vain.
        assert_eq!([ports.detach(silent), ports.detach(heard)], [Some(false), Some(true)]);
    }
}
