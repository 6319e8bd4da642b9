//! Packets as the bytes of a fuzzer describe them.

use crate::Nanos;

/// When the first one comes at the earliest.
const BEGIN: Nanos = Nanos(1 << 60);

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'a, const N: usize> {
    /// From the Ethernet header on, up to 255 bytes.
    pub frame: &'a [u8],
    /// What else is to be made of it: its interface, say.
    pub choice: [u8; N],
    /// How much later than the one before it comes, in units of the script.
    pub later: u8,
    /// When it comes.
    pub now: Nanos,
}

/// Packets one after the other: a length, `N` bytes of choice, how much later it comes, and as many bytes as
/// the length says or there are. What is too short to begin a packet is left out.
#[derive(Clone, Debug)]
pub struct Script<'a, const N: usize> {
    rest: &'a [u8],
    now: Nanos,
    unit: u32,
}

impl<'a, const N: usize> Script<'a, N> {
    /// The packets of `bytes`; times in units of 2 to the power of `unit` nanoseconds.
    pub fn new(bytes: &'a [u8], unit: u32) -> Script<'a, N> {
        Script { rest: bytes, now: BEGIN, unit }
    }
}

impl<'a, const N: usize> Iterator for Script<'a, N> {
    type Item = Step<'a, N>;

    fn next(&mut self) -> Option<Step<'a, N>> {
        let (&length, rest) = self.rest.split_first()?;
        let (&choice, rest) = rest.split_first_chunk()?;
        let (&later, rest) = rest.split_first()?;
        let (frame, rest) = rest.split_at(usize::from(length).min(rest.len()));
        self.rest = rest;
        self.now = self.now.saturating_add(Nanos(u64::from(later) << self.unit));
        Some(Step { frame, choice, later, now: self.now })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn packets_one_after_the_other() {
        let steps: Vec<_> = Script::new(&[2, 7, 1, 10, 11, 0, 8, 0, 9, 6, 2, 12, 1, 1], 4).collect();
        let step = |frame, choice, later, after: u64| Step {
            frame,
            choice: [choice],
            later,
            now: BEGIN.saturating_add(Nanos(after)),
        };
        let expected = [step(&[10, 11][..], 7, 1, 16), step(&[], 8, 0, 16), step(&[12, 1, 1], 6, 2, 48)];
        assert_eq!(steps, expected, "the last one is cut short");
        assert_eq!(Script::<1>::new(&[0, 1], 4).count(), 0);
    }
}
