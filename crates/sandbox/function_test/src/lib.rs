//! A function's own test of its image: what goes in, what has to come out, and whether it does.
//!
//! The life of a test:
//! 1. Its author writes `tests/image.yaml` in the function's folder: cases, each with a configuration and
//!    packets.
//! 2. [`ImageTest::open`] reads it; a fault says where, what was found and what is allowed.
//! 3. [`Judge::passes`](image::cut::Trial::passes) runs the image in a sandbox, as the engine would, and
//!    compares verdicts, bytes, marks and counters with what the test wants.
//! 4. [`Judge::same`](image::cut::Trial::same) runs two images with the same packets, and compares everything
//!    that can be seen of a function: also what it sends of its own, its log, its events, its report and its
//!    state.
//! 5. [`Judge::cost`](image::cut::Trial::cost) measures what the test's packets cost in two images, in turns.
//!
//! Time in a test is what the test says, so that the same image always does the same. Costs are measured on
//! the real processor.
//!
//! Limits: [`MAX_CASES`] cases, [`MAX_SHOWN`] packets in all; a packet has at most 9,000 bytes; a call may
//! take 1 s, and all of a test 30 s. The flow hash of packets is 0.

#![forbid(unsafe_code)]

mod compare;
mod cost;
mod devices;
mod judge;
mod outcome;
mod read;
mod run;
#[cfg(test)]
mod tests;

pub use judge::{Judge, Ran, RanPacket};
pub use read::TestError;

use nf_abi::{DeviceEntry, Verdict};

/// Where the test lies in a function's folder.
pub const TEST_FILE: &str = "tests/image.yaml";

/// Longest test, in bytes.
pub const MAX_TEXT: usize = 1 << 20;

/// Most cases.
pub const MAX_CASES: usize = 64;

/// Most packets in all cases together, each as often as it comes.
pub const MAX_SHOWN: usize = 65_536;

/// A function's own test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageTest {
    /// At least one.
    pub(crate) cases: Vec<Case>,
}

/// One instance, its packets, and what has to become of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// As the function reads it.
    pub(crate) config: Vec<u8>,
    /// What it is told of its devices; empty: nothing.
    pub(crate) devices: Vec<DeviceEntry>,
    /// At least one.
    pub(crate) packets: Vec<Shown>,
    /// Index of a counter, its name, and what it has to be at the end.
    pub(crate) counters: Vec<(usize, String, u64)>,
}

/// A packet, and what has to become of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Where the test says so.
    pub(crate) line: u32,
    pub(crate) bytes: Vec<u8>,
    pub(crate) ingress: u16,
    pub(crate) mark: u64,
    /// Nanoseconds from the beginning of the case.
    pub(crate) at: u64,
    pub(crate) times: usize,
    pub(crate) verdict: Verdict,
    pub(crate) becomes: Option<Vec<u8>>,
    pub(crate) becomes_length: Option<usize>,
    pub(crate) becomes_mark: Option<u64>,
}

impl ImageTest {
    /// How many cases it has.
    pub fn cases(&self) -> usize {
        self.cases.len()
    }

    /// How many packets it shows.
    pub fn packets(&self) -> usize {
        self.cases.iter().flat_map(|case| &case.packets).map(|shown| shown.times).sum()
    }
}
