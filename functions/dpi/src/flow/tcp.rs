//! A TCP connection as its ends have it (RFC 9293 section 3.10.7), as far as a packet in the middle tells:
//! the handshake, which segments the receiver takes, and which bytes of them are new.
//!
//! What receivers ignore changes nothing here: a segment without acknowledgement, with one of what was never
//! sent or of long ago, with an old timestamp, with a signature that was not agreed on, beyond any window, or
//! a reset that does not have exactly the expected number. Receivers differ in these, and the middle does not
//! know all that they know: the bytes of such a segment, and those that lie beyond the window that was told,
//! are doubtful. They wait until they are acknowledged, and anything else for the same bytes counts instead.
//!
//! Where packets pass between interfaces, an end is behind one of them: a segment that comes by another one
//! is not its own, and an answer does not come by the interface of the SYN.

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
    /// The receiver ignores it as far as can be told; if not, its bytes have their place in the stream.
    pub is_doubtful: bool,
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
        let sent = next.wrapping_add(length as u32);
        *self = Side {
            next,
            sent,
            acked: next,
            window: self.window,
            held: self.held,
            from: self.from,
            is_pinned: self.is_pinned,
            is_seen: self.is_seen,
            ..Side::default()
        };
    }

    fn pin(&mut self, from: u16) {
        (self.from, self.is_pinned) = (from, true);
    }
}

/// A segment as it comes.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// It comes from the end that is second in the key.
    pub is_second: bool,
    /// The interface.
    pub from: u16,
    /// The header.
    pub tcp: Tcp,
    /// Bytes of data.
    pub length: usize,
}

/// How connections are followed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Also those whose beginning was not seen.
    pub pick_up: bool,
    /// Packets pass between interfaces: both ends of a connection are not behind the same.
    pub is_between: bool,
}

impl Opening {
    fn new(Segment { is_second, from, tcp, .. }: Segment) -> Opening {
        let next = tcp.seq.wrapping_add(1);
        let Tcp { window, scale, stamp, has_digest, .. } = tcp;
        Opening { is_second, from, is_answer: false, next, window, scale, stamp, has_digest }
    }
}

/// Makes the sender of the SYN the client.
fn begin(flow: &mut Flow, opening: Opening, length: usize) {
    if flow.client_is_second != opening.is_second {
        flow.client_is_second = opening.is_second;
        flow.sides.swap(0, 1);
    }
    flow.fate = Fate::Open;
    flow.barred = 0;
    flow.reopening = None;
    flow.is_twice = false;
    flow.sides[0].open(opening.next, length);
    flow.sides[1].open(0, 0);
    flow.sides[0].pin(opening.from);
    flow.sides[1].is_pinned = false;
    flow.sides[0].scale = opening.scale;
    flow.sides[0].has_stamp = opening.stamp.is_some();
    flow.sides[0].stamp = opening.stamp.unwrap_or(0);
    flow.sides[0].has_digest = opening.has_digest;
    flow.sides[0].widest = u32::from(opening.window);
    flow.sides[1].edge = u32::from(opening.window);
    flow.stage = Stage::SynSent;
}

/// Takes a segment.
pub fn step(flow: &mut Flow, segment: Segment, manner: Manner) -> Step {
    let Segment { is_second, from, tcp, length } = segment;
    let (flags, mut has_begun) = (tcp.flags, false);
    let side = |flow: &Flow| usize::from(flow.client_is_second != is_second);
    let done = |flow: &Flow, place, has_begun, was_reset| {
        let side = side(flow);
        let (skip, at, sure, is_end, is_doubtful) = (0, 0, 0, false, false);
        Step { side, place, skip, at, sure, has_begun, was_reset, is_end, is_doubtful }
    };
    let is_syn = flags & (SYN | ACK | RST) == SYN;
    // Before the answer, who sent the SYN is not certain, and another SYN may be the right one.
    let is_certain = flags & SYN == 0 || flow.stage > Stage::SynSent;
    if manner.is_between && is_certain && flow.is_stranger(side(flow), from) {
        return done(flow, Place::Ignored, false, false);
    }
    if flags & RST != 0 {
        let sender = side(flow);
        let was_reset = reset(flow, sender, tcp);
        let is_known = !matches!(flow.stage, Stage::Unknown | Stage::Closed);
        let place = if is_known { Place::Ignored } else { Place::None };
        return done(flow, place, false, was_reset);
    }
    if is_syn {
        let opening = Opening::new(segment);
        // What follows a drop or a pass is another connection; else what is known goes on until the other
        // side answers, and so tells that it is one.
        let is_over = flow.stage == Stage::Closed && flow.fate != Fate::Open;
        let is_first = flow.stage == Stage::SynSent && side(flow) == 0;
        // Of SYN packets by both interfaces one of each is kept: the answer tells which of them it is to.
        let keeps_other = manner.is_between
            && is_first
            && flow.sides[0].from == from
            && flow.reopening.is_some_and(|other| other.from != from);
        if is_first && flow.sides[0].next == opening.next {
            // The same again; what passes by twice comes back by the other interface.
            flow.is_twice |= manner.is_between && flow.sides[0].from != from;
        } else if flow.stage == Stage::Unknown || is_over {
            begin(flow, opening, length);
            has_begun = true;
        } else if keeps_other {
            let other = flow.reopening;
            begin(flow, opening, length);
            (flow.reopening, has_begun) = (other, true);
        } else {
            flow.reopening = Some(opening);
            return done(flow, Place::None, false, false);
        }
        // Whether its data count, the acknowledgement tells.
        let place = if length == 0 { Place::None } else { Place::Ahead };
        return done(flow, place, has_begun, false);
    }
    if flags & SYN != 0 {
        return answer(flow, segment, manner);
    }
    if flow.stage == Stage::Unknown && flags & ACK != 0 && manner.pick_up && length > 0 {
        begin(flow, Opening { is_second, from, next: tcp.seq, ..Opening::default() }, 0);
        flow.sides[1].open(tcp.ack, 0);
        (flow.stage, has_begun) = (Stage::Established, true);
    }
    let sender = side(flow);
    if flow.stage <= Stage::SynSent {
        return done(flow, Place::None, has_begun, false);
    }
    if flow.stage == Stage::SynReceived && sender == 0 {
        choose_answer(flow, tcp);
    }
    if !is_plausible(&flow.sides[sender], tcp) {
        return done(flow, Place::Ignored, has_begun, false);
    }
    let me = &flow.sides[sender];
    let ahead = i64::from(tcp.seq.wrapping_sub(me.next) as i32);
    let skip = usize::try_from(-ahead).unwrap_or(0);
    let at = me.position + u64::try_from(ahead).unwrap_or(0);
    if !is_acceptable(flow, sender, tcp, length) {
        let is_doubtful = flow.stage >= Stage::Established && skip < length;
        let (me, end) = (&mut flow.sides[sender], tcp.seq.wrapping_add(length as u32));
        if is_doubtful && is_behind(end, me.sent) {
            me.sent = end;
        }
        return Step { skip, at, is_doubtful, ..done(flow, Place::Ignored, has_begun, false) };
    }
    let both_finished = flow.sides.iter().all(|side| side.is_finished);
    // What goes on behind its own reset has sent one that was not to arrive.
    let goes_on = flow.stage == Stage::Closed && flow.sides[sender].has_reset && length > skip;
    if flow.stage == Stage::SynReceived || goes_on && !both_finished {
        flow.stage = Stage::Established;
        flow.sides[sender].has_reset = false;
    }
    if !flow.sides[sender].is_pinned {
        flow.sides[sender].pin(from);
    }
    acknowledge(flow, sender, tcp);
    let has_stamps = flow.has_stamps();
    let window = u32::from(tcp.window) << flow.scale(sender);
    let me = &mut flow.sides[sender];
    me.widest = me.widest.max(window);
    let end = tcp.seq.wrapping_add(length as u32);
    // What lies as a whole before what is acknowledged, no receiver learns a timestamp from.
    if has_stamps
        && let Some(stamp) = tcp.stamp
        && ahead <= 0
        && !is_behind(me.acked, end)
        && (me.stamp == 0 || is_behind(stamp, me.stamp))
    {
        me.stamp = stamp;
    }
    let beyond = if me.knows_edge && is_behind(end, me.edge) { end.wrapping_sub(me.edge) } else { 0 };
    let sure = length - (beyond as usize).min(length);
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
    Step { side: sender, place, skip, at, sure, has_begun, was_reset: false, is_end, is_doubtful: false }
}

/// Takes a SYN with an acknowledgement.
fn answer(flow: &mut Flow, segment: Segment, manner: Manner) -> Step {
    let Segment { is_second, from, tcp, length } = segment;
    let server = usize::from(flow.client_is_second != is_second);
    if flow.stage == Stage::SynSent && server == 0 && is_simultaneous(flow, segment, manner) {
        return meet(flow, segment);
    }
    let client = &flow.sides[0];
    let acknowledges = |first: u32, sent: u32| !is_behind(first, tcp.ack) && !is_behind(tcp.ack, sent);
    // One that is signed, in answer to a SYN that is not, no client takes.
    let is_foreign = tcp.has_digest && !client.has_digest;
    // A reset instead of an answer, when one follows, was not the server's.
    let waits = flow.stage == Stage::SynSent || flow.stage == Stage::Closed && !flow.sides[1].is_pinned;
    let is_stranger = manner.is_between && flow.is_stranger(server, from);
    let is_answer =
        waits && server == 1 && !is_stranger && !is_foreign && acknowledges(client.next, client.sent);
    let is_again = flow.stage >= Stage::SynReceived
        && server == 1
        && !is_answer
        && (tcp.ack == client.start() || tcp.seq.wrapping_add(1) == flow.sides[1].start());
    // One of several SYN packets may have been answered: where the answer fits no connection that is known,
    // it is that of another one.
    let reopening = flow.reopening.filter(|opening| {
        let is_apart = !manner.is_between || opening.from != from || flow.is_twice;
        let is_foreign = tcp.has_digest && !opening.has_digest;
        !opening.is_answer
            && opening.is_second != is_second
            && is_apart
            && !is_again
            && !is_answer
            && !is_foreign
    });
    if flow.stage == Stage::SynReceived
        && is_again
        && !is_foreign
        && tcp.seq.wrapping_add(1) != flow.sides[1].start()
    {
        // Which of two the client has taken, its acknowledgement tells.
        flow.reopening = Some(Opening { is_answer: true, ..Opening::new(segment) });
    }
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
    } else if flow.stage == Stage::Unknown && manner.pick_up {
        begin(flow, Opening { is_second: !is_second, next: tcp.ack, ..Opening::default() }, 0);
        // By which interface the client comes, its own packets tell.
        flow.sides[0].is_pinned = false;
        has_begun = true;
    }
    let knows_client = !has_begun || reopening.is_some();
    if is_answer || has_begun {
        open_server(flow, &Opening::new(segment), length, tcp.ack);
        for side in &mut flow.sides {
            side.knows_edge = knows_client;
        }
        flow.stage = Stage::SynReceived;
    }
    let side = usize::from(flow.client_is_second != is_second);
    let place = match () {
        () if (is_answer || has_begun) && length > 0 => Place::Ahead,
        () if is_answer || has_begun || is_again => Place::None,
        () if flow.stage <= Stage::SynSent && !is_stranger && !is_foreign => Place::None,
        () => Place::Ignored,
    };
    let (skip, at, sure, was_reset, is_end, is_doubtful) = (0, 0, 0, false, false, false);
    Step { side, place, skip, at, sure, has_begun, was_reset, is_end, is_doubtful }
}

/// Whether the client answers a SYN of the server's that crossed its own, or came instead of an answer (RFC
/// 9293 section 3.5).
fn is_simultaneous(flow: &Flow, Segment { tcp, is_second, from, .. }: Segment, manner: Manner) -> bool {
    let is_to = |other: Opening| {
        let is_apart = !manner.is_between || other.from != from || flow.is_twice;
        is_apart && !other.is_answer && other.is_second != is_second && other.next == tcp.ack
    };
    tcp.seq.wrapping_add(1) == flow.sides[0].start() && flow.reopening.is_some_and(is_to)
}

/// Both have sent a SYN: the one that sent the first goes on being the client, as it has it itself.
fn meet(flow: &mut Flow, Segment { tcp, .. }: Segment) -> Step {
    if let Some(opening) = flow.reopening.take() {
        let acked = flow.sides[0].next;
        open_server(flow, &opening, 0, acked);
        flow.sides[0].widest = flow.sides[0].widest.max(u32::from(tcp.window));
        for side in &mut flow.sides {
            side.knows_edge = true;
        }
        flow.stage = Stage::SynReceived;
    }
    let (skip, at, sure, has_begun, was_reset, is_end, is_doubtful) = (0, 0, 0, false, false, false, false);
    Step { side: 0, place: Place::None, skip, at, sure, has_begun, was_reset, is_end, is_doubtful }
}

/// The server begins as this answer of its says, which acknowledges `acked`.
fn open_server(flow: &mut Flow, answer: &Opening, length: usize, acked: u32) {
    let window = flow.sides[1].edge;
    flow.sides[1].open(answer.next, length);
    flow.sides[1].pin(answer.from);
    flow.sides[1].has_stamp = answer.stamp.is_some();
    flow.sides[1].stamp = answer.stamp.unwrap_or(0);
    flow.sides[1].scale = answer.scale;
    flow.sides[1].has_digest = answer.has_digest;
    flow.sides[1].widest = u32::from(answer.window);
    flow.sides[0].acked = acked;
    flow.sides[0].edge = acked.wrapping_add(u32::from(answer.window));
    flow.sides[1].edge = answer.next.wrapping_add(window);
}

/// The client's first acknowledgement tells which of two answers it has taken.
fn choose_answer(flow: &mut Flow, tcp: Tcp) {
    let Some(answer) = flow.reopening.filter(|opening| opening.is_answer) else { return };
    if tcp.flags & ACK == 0 || tcp.ack == flow.sides[1].next {
        return;
    }
    if tcp.ack == answer.next {
        let knows_edge = flow.sides[0].knows_edge;
        // As it was in the SYN.
        flow.sides[1].edge = flow.sides[1].edge.wrapping_sub(flow.sides[1].next);
        let acked = flow.sides[0].acked;
        open_server(flow, &answer, 0, acked);
        for side in &mut flow.sides {
            side.knows_edge = knows_edge;
        }
        flow.reopening = None;
    }
}

/// Whether a segment lies so near to where its stream is that it may be part of it.
fn is_plausible(me: &Side, tcp: Tcp) -> bool {
    tcp.seq.wrapping_sub(me.next) < PLAUSIBLE || me.next.wrapping_sub(tcp.seq) < PLAUSIBLE
}

/// Whether all receivers look at a segment that is neither a SYN nor a reset.
fn is_acceptable(flow: &Flow, sender: usize, tcp: Tcp, length: usize) -> bool {
    let (me, other) = (&flow.sides[sender], &flow.sides[1 - sender]);
    // Linux ignores signatures that were not agreed on, with their segments; others ignore them alone.
    if tcp.flags & ACK == 0 || tcp.has_digest != flow.has_digests() {
        return false;
    }
    // RFC 7323 section 5.3. What is not known, or 0, is older than nothing.
    if flow.has_stamps()
        && let Some(stamp) = tcp.stamp
        && me.stamp != 0
        && me.stamp.wrapping_sub(stamp) as i32 > STAMP_SLACK
    {
        return false;
    }
    // Beyond the window: bytes may be taken when it opens, anything else is not.
    if length == 0 && me.knows_edge && is_behind(tcp.seq, me.edge) {
        return false;
    }
    // Acknowledged are bytes that were sent (RFC 9293), and that not longer ago than the sender's widest
    // window (RFC 5961 section 5), nor before the first one, as Linux has it since 6.7. A direction that does
    // not come by here tells nothing.
    if !other.is_seen {
        return true;
    }
    let back = u64::from(me.widest).min(other.acknowledged()) as u32;
    let oldest = if flow.stage == Stage::SynReceived { other.next } else { other.acked.wrapping_sub(back) };
    !is_behind(tcp.ack, other.sent) && !is_behind(oldest, tcp.ack)
}

/// What the segment says about the other side's data.
fn acknowledge(flow: &mut Flow, sender: usize, tcp: Tcp) {
    let scale = flow.scale(sender);
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
    let is_signed = flow.stage > Stage::SynSent && flow.has_digests();
    if tcp.has_digest != is_signed {
        return false;
    }
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
        flow.sides[sender].has_reset = true;
    }
    ends
}
