//! A TCP connection as seen from the middle (RFC 9293 section 3.3.2), as far as streams of bytes need it: its
//! handshake, and which bytes of a segment are new.

use super::{Fate, Flow, Side, Stage};
use crate::header::Tcp;
use crate::header::flag::{ACK, FIN, RST, SYN};

/// What a segment's bytes are to its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The segment is part of no stream, or has no bytes.
    None,
    /// New behind the first `skip` bytes, which were there already.
    Next {
        /// Bytes to leave out.
        skip: usize,
    },
    /// All of them were there already.
    Old,
    /// Something before them is missing.
    Ahead,
}

/// How far acknowledgements and segments may lie from what is expected to be taken for anything.
const PLAUSIBLE: u32 = 1 << 30;

/// What a segment did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The side that sent it.
    pub side: usize,
    /// What its bytes are.
    pub place: Place,
    /// A connection began with it: what is known of streams is of another one.
    pub has_begun: bool,
}

/// Makes the sender of the packet the client.
fn begin(flow: &mut Flow, is_second: bool, next: [u32; 2]) {
    flow.client_is_second = is_second;
    flow.fate = Fate::Open;
    flow.reopening = None;
    for (side, next) in flow.sides.iter_mut().zip(next) {
        (side.next, side.position, side.is_finished, side.is_judged) = (next, 0, false, false);
    }
}

/// Takes a segment with `length` bytes. `is_second`: it comes from the end that is second in the key.
pub fn step(flow: &mut Flow, is_second: bool, tcp: Tcp, length: usize, pick_up: bool) -> Step {
    let flags = tcp.flags;
    let side = |flow: &Flow| usize::from(flow.client_is_second != is_second);
    let mut has_begun = false;
    match (flags & SYN != 0, flags & ACK != 0) {
        _ if flags & RST != 0 => {
            let sender = side(flow);
            reset(flow, sender, tcp);
            return Step { side: sender, place: Place::None, has_begun };
        }
        (true, false) => {
            let is_over = flow.sides.iter().all(|side| side.is_finished);
            let is_free = matches!(flow.stage, Stage::Unknown | Stage::Closed) || is_over;
            if is_free {
                begin(flow, is_second, [tcp.seq.wrapping_add(1), 0]);
                flow.stage = Stage::SynSent;
                has_begun = true;
            } else {
                // Whether a connection begins with this one, the other side's answer tells.
                flow.reopening = Some((is_second, tcp.seq.wrapping_add(1)));
            }
            return Step { side: side(flow), place: Place::None, has_begun };
        }
        (true, true) => {
            let is_answer = flow.stage == Stage::SynSent && side(flow) == 1 && tcp.ack == flow.sides[0].next;
            let is_reopened = flow.reopening == Some((!is_second, tcp.ack));
            if is_reopened || flow.stage == Stage::Unknown && pick_up {
                begin(flow, !is_second, [tcp.ack, 0]);
                has_begun = true;
            }
            if is_answer || has_begun {
                flow.sides[1].next = tcp.seq.wrapping_add(1);
                flow.stage = Stage::SynReceived;
            }
            return Step { side: side(flow), place: Place::None, has_begun };
        }
        (false, true) if flow.stage == Stage::SynReceived => {
            let sender = side(flow);
            if tcp.ack.wrapping_sub(flow.sides[1 - sender].next) < PLAUSIBLE {
                flow.stage = Stage::Established;
            }
        }
        (false, true) if flow.stage == Stage::Unknown && pick_up && length > 0 => {
            begin(flow, is_second, [tcp.seq, tcp.ack]);
            flow.stage = Stage::Established;
            has_begun = true;
        }
        _ => {}
    }
    let sender = side(flow);
    if flow.stage != Stage::Established {
        return Step { side: sender, place: Place::None, has_begun };
    }
    let place = place(&flow.sides[sender], tcp.seq, length);
    if flags & FIN != 0 && matches!(place, Place::None | Place::Next { .. } | Place::Old) {
        let end = tcp.seq.wrapping_add(length as u32);
        let expected = match place {
            Place::Next { .. } => end,
            _ => flow.sides[sender].next,
        };
        if end == expected {
            flow.sides[sender].is_finished = true;
        }
    }
    Step { side: sender, place, has_begun }
}

/// What bytes from `seq` on are to the stream.
pub fn place(side: &Side, seq: u32, length: usize) -> Place {
    let ahead = seq.wrapping_sub(side.next);
    let behind = side.next.wrapping_sub(seq);
    match () {
        () if length == 0 => Place::None,
        () if ahead == 0 => Place::Next { skip: 0 },
        () if behind < PLAUSIBLE && behind as usize >= length => Place::Old,
        () if behind < PLAUSIBLE => Place::Next { skip: behind as usize },
        () if ahead < PLAUSIBLE => Place::Ahead,
        () => Place::None,
    }
}

/// Only a reset with exactly the expected number ends a connection: with another, its receiver goes on (RFC
/// 5961), and so do we.
fn reset(flow: &mut Flow, sender: usize, tcp: Tcp) {
    let is_refusal = flow.stage == Stage::SynSent && sender == 1 && tcp.ack == flow.sides[0].next;
    let is_exact = flow.stage >= Stage::SynReceived && tcp.seq == flow.sides[sender].next;
    if is_refusal || is_exact || flow.stage == Stage::SynSent && sender == 0 {
        flow.stage = Stage::Closed;
    }
}
