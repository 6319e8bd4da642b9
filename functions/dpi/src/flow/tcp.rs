//! A TCP connection as its ends have it (RFC 9293 section 3.10.7), as far as a packet in the middle tells:
//! the handshake, which segments the receiver takes, and which bytes of them are new.
//!
//! What a receiver certainly ignores changes nothing here: a segment without acknowledgement, with one of
//! what was never sent, with an old timestamp, beyond any window, or a reset that does not have exactly the
//! expected number. What it may take or not, because the middle does not know its window yet, is doubtful:
//! it waits until it is acknowledged, and anything else for the same bytes counts instead.

use super::{Fate, Flow, Opening, Side, Stage};
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
    /// Something before them is missing, or they come with the handshake.
    Ahead,
    /// The receiver ignores the segment.
    Ignored,
}

/// How far segments may lie from what is expected where the window is not known.
const PLAUSIBLE: u32 = 1 << 30;
/// How much older a timestamp may be, as Linux has it.
const STAMP_SLACK: i32 = 1;

/// What a segment did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The side that sent it.
    pub side: usize,
    /// What its bytes are.
    pub place: Place,
    /// How many of its bytes lie before where the stream is.
    pub skip: usize,
    /// Number in the stream of the first of the others.
    pub at: u64,
    /// How many of its bytes the receiver certainly takes.
    pub sure: usize,
    /// A connection began with it: what is known of streams is of another one.
    pub has_begun: bool,
    /// A reset ended the connection with it.
    pub was_reset: bool,
    /// It is its side's end.
    pub is_end: bool,
}

/// Whether `a` lies behind `b`.
fn is_behind(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 > 0
}

impl Side {
    /// Number in the stream of the first byte that is not acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.position.saturating_add_signed(i64::from(self.acked.wrapping_sub(self.next) as i32))
    }

    /// Sequence number of the stream's first byte.
    fn start(&self) -> u32 {
        self.next.wrapping_sub(self.position as u32)
    }

    fn open(&mut self, next: u32, length: usize) {
        let held = (self.window, self.held);
        let sent = next.wrapping_add(length as u32);
        *self = Side { next, sent, acked: next, is_seen: self.is_seen, from: self.from, ..Side::default() };
        (self.window, self.held) = held;
    }
}

impl Opening {
    fn new(is_second: bool, tcp: Tcp) -> Opening {
        let next = tcp.seq.wrapping_add(1);
        Opening { is_second, next, window: tcp.window, scale: tcp.scale, stamp: tcp.stamp }
    }
}

/// Makes the sender of the SYN the client.
fn begin(flow: &mut Flow, opening: Opening, length: usize) {
    flow.client_is_second = opening.is_second;
    flow.fate = Fate::Open;
    flow.reopening = None;
    flow.has_stamps = opening.stamp.is_some();
    flow.sides[0].open(opening.next, length);
    flow.sides[1].open(0, 0);
    flow.sides[0].scale = opening.scale;
    flow.sides[0].stamp = opening.stamp.unwrap_or(0);
    flow.sides[1].edge = u32::from(opening.window);
    flow.stage = Stage::SynSent;
}

/// Takes a segment with `length` bytes. `is_second`: it comes from the end that is second in the key.
pub fn step(flow: &mut Flow, is_second: bool, tcp: Tcp, length: usize, pick_up: bool) -> Step {
    let (flags, mut has_begun) = (tcp.flags, false);
    let side = |flow: &Flow| usize::from(flow.client_is_second != is_second);
    let done = |flow: &Flow, place, has_begun, was_reset| {
        let side = side(flow);
        Step { side, place, skip: 0, at: 0, sure: 0, has_begun, was_reset, is_end: false }
    };
    if flags & RST != 0 {
        let sender = side(flow);
        let was_reset = reset(flow, sender, tcp);
        let is_known = !matches!(flow.stage, Stage::Unknown | Stage::Closed);
        let place = if is_known { Place::Ignored } else { Place::None };
        return done(flow, place, false, was_reset);
    }
    if flags & SYN != 0 && flags & ACK == 0 {
        let opening = Opening::new(is_second, tcp);
        // What follows a drop or a pass is another connection; else what is known goes on until the other
        // side answers, and so tells that it is one.
        let is_over = flow.stage == Stage::Closed && flow.fate != Fate::Open;
        if flow.stage == Stage::Unknown || is_over {
            begin(flow, opening, length);
            has_begun = true;
        } else if flow.stage == Stage::SynSent && side(flow) == 0 && flow.sides[0].next == opening.next {
            // The same again.
        } else {
            flow.reopening = Some(opening);
            return done(flow, Place::None, false, false);
        }
        // Whether its data count, the acknowledgement tells.
        let place = if length == 0 { Place::None } else { Place::Ahead };
        return done(flow, place, has_begun, false);
    }
    if flags & SYN != 0 {
        return answer(flow, is_second, tcp, length, pick_up);
    }
    if flow.stage == Stage::Unknown && flags & ACK != 0 && pick_up && length > 0 {
        begin(flow, Opening { is_second, next: tcp.seq, ..Opening::default() }, 0);
        flow.sides[1].open(tcp.ack, 0);
        (flow.stage, flow.has_stamps, has_begun) = (Stage::Established, false, true);
    }
    let sender = side(flow);
    if flow.stage <= Stage::SynSent {
        return done(flow, Place::None, has_begun, false);
    }
    if !is_acceptable(flow, sender, tcp, length) {
        return done(flow, Place::Ignored, has_begun, false);
    }
    if flow.stage == Stage::SynReceived {
        flow.stage = Stage::Established;
    }
    acknowledge(flow, sender, tcp);
    let me = &mut flow.sides[sender];
    let end = tcp.seq.wrapping_add(length as u32);
    if flow.has_stamps
        && let Some(stamp) = tcp.stamp
        && !is_behind(tcp.seq, me.acked)
        && is_behind(stamp, me.stamp)
    {
        me.stamp = stamp;
    }
    let beyond = if me.knows_edge && is_behind(end, me.edge) { end.wrapping_sub(me.edge) } else { 0 };
    let sure = length - (beyond as usize).min(length);
    let ahead = i64::from(tcp.seq.wrapping_sub(me.next) as i32);
    let skip = usize::try_from(-ahead).unwrap_or(0);
    let at = me.position + u64::try_from(ahead).unwrap_or(0);
    let place = match () {
        () if length == 0 => Place::None,
        () if skip >= length => Place::Old,
        // Something is missing, or nothing of it is certain yet.
        () if ahead > 0 || skip >= sure => Place::Ahead,
        () => Place::Next { skip },
    };
    let sent = end.wrapping_add(u32::from(flags & FIN != 0));
    if is_behind(sent, me.sent) {
        me.sent = sent;
    }
    // The end is where the stream is, or will be with these bytes.
    let is_end = matches!(place, Place::Next { .. }) || place != Place::Ahead && end == me.next;
    let is_end = flags & FIN != 0 && beyond == 0 && is_end && !me.is_finished;
    if is_end {
        me.is_finished = true;
        if flow.sides.iter().all(|side| side.is_finished) {
            flow.stage = Stage::Closed;
        }
    }
    Step { side: sender, place, skip, at, sure, has_begun, was_reset: false, is_end }
}

/// Takes a SYN with an acknowledgement.
fn answer(flow: &mut Flow, is_second: bool, tcp: Tcp, length: usize, pick_up: bool) -> Step {
    let server = usize::from(flow.client_is_second != is_second);
    let client = &flow.sides[0];
    let acknowledges = |first: u32, sent: u32| !is_behind(first, tcp.ack) && !is_behind(tcp.ack, sent);
    let is_answer = flow.stage == Stage::SynSent && server == 1 && acknowledges(client.next, client.sent);
    let is_again = flow.stage >= Stage::SynReceived
        && server == 1
        && (tcp.ack == client.start() || tcp.seq.wrapping_add(1) == flow.sides[1].start());
    // One of several SYN packets may have been answered: where the answer fits no connection that is known,
    // it is that of another one.
    let reopening =
        flow.reopening.filter(|opening| opening.is_second != is_second && !is_again && !is_answer);
    let mut has_begun = false;
    if let Some(opening) = reopening {
        let next = if acknowledges(opening.next, opening.next.wrapping_add(1 << 16)) {
            opening.next
        } else {
            tcp.ack
        };
        begin(flow, Opening { next, ..opening }, 0);
        flow.sides[0].sent = tcp.ack;
        has_begun = true;
    } else if flow.stage == Stage::Unknown && pick_up {
        begin(flow, Opening { is_second: !is_second, next: tcp.ack, ..Opening::default() }, 0);
        has_begun = true;
    }
    let knows_client = !has_begun || reopening.is_some();
    if is_answer || has_begun {
        let next = tcp.seq.wrapping_add(1);
        let window = flow.sides[1].edge;
        flow.sides[1].open(next, length);
        flow.has_stamps &= tcp.stamp.is_some();
        flow.sides[1].stamp = tcp.stamp.unwrap_or(0);
        flow.sides[1].scale = tcp.scale;
        if flow.sides.iter().any(|side| side.scale.is_none()) {
            // Shifted by both or by none.
            flow.sides[0].scale = None;
            flow.sides[1].scale = None;
        }
        flow.sides[0].acked = tcp.ack;
        flow.sides[0].edge = tcp.ack.wrapping_add(u32::from(tcp.window));
        flow.sides[1].edge = next.wrapping_add(window);
        for side in &mut flow.sides {
            side.knows_edge = knows_client;
        }
        flow.stage = Stage::SynReceived;
    }
    let side = usize::from(flow.client_is_second != is_second);
    let place = match () {
        () if (is_answer || has_begun) && length > 0 => Place::Ahead,
        () if is_answer || has_begun || is_again || flow.stage <= Stage::SynSent => Place::None,
        () => Place::Ignored,
    };
    Step { side, place, skip: 0, at: 0, sure: 0, has_begun, was_reset: false, is_end: false }
}

/// Whether the receiver looks at a segment that is neither a SYN nor a reset.
fn is_acceptable(flow: &Flow, sender: usize, tcp: Tcp, length: usize) -> bool {
    let (me, other) = (&flow.sides[sender], &flow.sides[1 - sender]);
    if tcp.flags & ACK == 0 {
        return false;
    }
    // RFC 7323 section 5.3.
    if flow.has_stamps
        && let Some(stamp) = tcp.stamp
        && me.stamp.wrapping_sub(stamp) as i32 > STAMP_SLACK
    {
        return false;
    }
    let ahead = tcp.seq.wrapping_sub(me.next);
    let behind = me.next.wrapping_sub(tcp.seq);
    if ahead >= PLAUSIBLE && behind >= PLAUSIBLE {
        return false;
    }
    // Beyond the window: bytes may be taken when it opens, anything else is not.
    if length == 0 && me.knows_edge && is_behind(tcp.seq, me.edge) {
        return false;
    }
    // Acknowledged are bytes that were sent (RFC 9293), and that not long ago (RFC 5961 section 5). A
    // direction that does not come by here tells nothing.
    if !other.is_seen {
        return true;
    }
    let oldest = other.acked.wrapping_sub(0xffff << me.scale.unwrap_or(0));
    let oldest = if flow.stage == Stage::SynReceived { other.next } else { oldest };
    !is_behind(tcp.ack, other.sent) && !is_behind(oldest, tcp.ack)
}

/// What the segment says about the other side's data.
fn acknowledge(flow: &mut Flow, sender: usize, tcp: Tcp) {
    let scale = flow.sides[sender].scale.unwrap_or(0);
    let other = &mut flow.sides[1 - sender];
    if !other.is_seen && is_behind(tcp.ack, other.sent) {
        // It does not come by here.
        (other.sent, other.next) = (tcp.ack, tcp.ack);
    }
    if is_behind(tcp.ack, other.acked) {
        other.acked = tcp.ack;
    }
    let edge = tcp.ack.wrapping_add(u32::from(tcp.window) << scale);
    if is_behind(edge, other.edge) {
        other.edge = edge;
    }
}

/// Only a reset with exactly the expected number ends a connection: with another, its receiver goes on (RFC
/// 5961 section 3). What follows is looked at all the same: whether the receiver got it is not known.
fn reset(flow: &mut Flow, sender: usize, tcp: Tcp) -> bool {
    let (client, me) = (&flow.sides[0], &flow.sides[sender]);
    let ends = match (flow.stage, sender) {
        // The answer to a SYN tells more than a reset behind it.
        (Stage::Unknown | Stage::Closed, _) | (Stage::SynSent, 0) => false,
        (Stage::SynSent, _) => {
            tcp.flags & ACK != 0 && !is_behind(client.next, tcp.ack) && !is_behind(tcp.ack, client.sent)
        }
        _ => tcp.seq == me.next || me.is_finished && tcp.seq == me.next.wrapping_add(1),
    };
    if ends {
        flow.stage = Stage::Closed;
    }
    ends
}
