//! SYNs from outside that nothing asked for (RFC 5382 REQ-4): an ICMP error goes back after six seconds,
//! unless the inside end sent a SYN of its own in between, as in a simultaneous open.

use crate::session::OutsideEnds;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use nf_sdk::Nanos;
use nf_sdk::headers::checksum;
use nf_sdk::ticks::span;
use nf_sdk::wire::{put_half, word};

/// SYNs that wait at a time; further ones get no answer.
const WAITING: usize = 256;
/// How long they wait.
const WAIT: Nanos = Nanos::from_secs(6);
/// Bytes of a packet's payload that an error carries at least (RFC 792).
const CARRIED: usize = 8;

/// A SYN that waits.
struct Syn {
    due: u32,
    ends: OutsideEnds,
    answer: Vec<u8>,
}

/// All that wait, the oldest first.
#[derive(Default)]
pub struct Unsolicited {
    waiting: VecDeque<Syn>,
}

impl Unsolicited {
    /// None waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Notes a SYN with what is to be answered. One that is sent again is noted once.
    pub fn note(&mut self, ends: OutsideEnds, now: u32, answer: impl FnOnce() -> Option<Vec<u8>>) {
        if self.waiting.len() >= WAITING || self.waiting.iter().any(|syn| syn.ends == ends) {
            return;
        }
        if let Some(answer) = answer() {
            self.waiting.push_back(Syn { due: now.wrapping_add(span(WAIT)), ends, answer });
        }
    }

    /// The next one whose time is over.
    pub fn due(&mut self, now: u32) -> Option<(OutsideEnds, Vec<u8>)> {
        let first = self.waiting.front().filter(|syn| syn.due.wrapping_sub(now) as i32 <= 0)?;
        let _ = first;
        self.waiting.pop_front().map(|syn| (syn.ends, syn.answer))
    }
}

/// An ICMP unreachable message to the sender of an IPv4 packet whose header begins at `l3` and ends at `l4`,
/// as a frame back to where it came from. It comes from `source`, or from where the packet was sent.
pub fn unreachable(frame: &[u8], l3: usize, l4: usize, code: u8, source: Option<u32>) -> Option<Vec<u8>> {
    let carried = frame.get(l3..(l4 + CARRIED).min(frame.len()))?;
    let mut out = Vec::with_capacity(l3 + 28 + carried.len());
    out.extend_from_slice(frame.get(6..12)?);
    out.extend_from_slice(frame.get(..6)?);
    // Tags and EtherType.
    out.extend_from_slice(frame.get(12..l3)?);
    let total = u16::try_from(28 + carried.len()).ok()?.to_be_bytes();
    out.extend_from_slice(&[0x45, 0, total[0], total[1], 0, 0, 0, 0, 64, 1, 0, 0]);
    out.extend_from_slice(&source.or(word(frame, l3 + 16))?.to_le_bytes());
    out.extend_from_slice(&word(frame, l3 + 12)?.to_le_bytes());
    out.extend_from_slice(&[3, code, 0, 0, 0, 0, 0, 0]);
    out.extend_from_slice(carried);
    let header = checksum::of(out.get(l3..l3 + 20)?);
    put_half(&mut out, l3 + 10, header.swap_bytes());
    let message = checksum::of(out.get(l3 + 20..)?);
    put_half(&mut out, l3 + 22, message.swap_bytes());
    Some(out)
}
