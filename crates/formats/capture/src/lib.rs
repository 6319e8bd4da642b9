//! Captures: packets that were seen at some place, in a pcapng file.
//!
//! The life of a capture:
//! 1. [`Filter::parse`] reads what is wanted, in the language of pcap-filter(7) as far as that goes.
//! 2. [`begin`] makes the file, writes its headers and starts a thread that writes. It returns a
//!    [`Recorder`], which is given the packets, and a [`Capture`], which tells how the capture goes and ends
//!    it.
//! 3. [`Recorder::record`] copies what the filter lets through into a chunk, and hands full chunks over
//!    without ever waiting: what the thread cannot take is counted as lost.
//! 4. An error of the file (a full disk) ends the capture and nothing else; the file ends with a whole
//!    packet.
//! 5. When the recorder is gone, [`Capture::finish`] waits for the rest and says what became of it.
//!
//! [`Splitter`] finds the blocks of a capture that comes bit by bit, and [`words`] says in a line what a
//! packet is.
//!
//! [`Blocks`] and [`CaptureFile`] are the two halves of writing pcapng, for callers that need no thread.
//!
//! Limits: Ethernet; one interface in a file; memory of [`WAITING`] chunks of [`CHUNK`] bytes for each
//! capture.

#![forbid(unsafe_code)]

mod block;
mod file;
mod filter;
mod recorder;
mod splitter;
#[cfg(test)]
mod tests;
mod words;

pub use block::{Blocks, Direction, Entry, Interface, Statistics};
pub use file::{CaptureFile, Target};
pub use filter::{Alternative, Condition, Filter, FilterError, Outcome, Side};
pub use recorder::{CHUNK, Capture, Recorder, Settings, Sighting, Summary, WAITING, begin, begin_to};
pub use splitter::{Block, NotPcapng, Seen, Splitter};
pub use words::words;
