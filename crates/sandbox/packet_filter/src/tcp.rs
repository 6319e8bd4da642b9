//! The states of a TCP connection as seen from the middle (RFC 9293 section 3.3.2).
//!
//! ```text
//!             SYN            SYN+ACK              ACK              FIN            other FIN
//! (no flow) ------> SynSent ---------> SynReceived ----> Established ----> FinWait ----> Closing
//!                      \_________________\_____________________\___ RST _____\__________> Reset
//! ```

use crate::flow_table::Flow;
use crate::header::{ACK, FIN, RST, SYN};

/// What a flow is going through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum State {
    /// TCP: a SYN was seen.
    SynSent = 1,
    /// TCP: the other side's SYN was seen too.
    SynReceived = 2,
    /// TCP: one side has sent FIN.
    FinWait = 3,
    /// TCP: both have.
    Closing = 4,
    /// TCP: a valid RST was seen.
    Reset = 5,
    /// UDP, packets one way.
    Udp = 6,
    /// Another protocol, packets one way.
    Other = 7,
    /// TCP: the handshake is complete.
    Established = 8,
    /// UDP, packets both ways.
    UdpAnswered = 9,
    /// Another protocol, packets both ways.
    OtherAnswered = 10,
    /// ICMP echo.
    Echo = 11,
}

impl State {
    /// Every state.
    pub const ALL: [State; 11] = [
        State::SynSent,
        State::SynReceived,
        State::FinWait,
        State::Closing,
        State::Reset,
        State::Udp,
        State::Other,
        State::Established,
        State::UdpAnswered,
        State::OtherAnswered,
        State::Echo,
    ];

    /// Reads a [`Flow::state`].
    pub fn of(word: u32) -> Option<State> {
        State::ALL.into_iter().find(|state| *state as u32 == word & 0xff)
    }

    /// Whether both sides have agreed to the flow: such a flow never makes room for another.
    pub fn is_agreed(self) -> bool {
        use State::{Closing, Established, FinWait, OtherAnswered, UdpAnswered};
        matches!(self, Established | UdpAnswered | OtherAnswered | FinWait | Closing)
    }

    /// Whether it is a state of TCP.
    pub fn is_tcp(self) -> bool {
        (self as u8) < State::Udp as u8 || self == State::Established
    }
}

/// In [`Flow::state`]: set when the flow was begun from outside.
pub const BEGUN_OUTSIDE: u32 = 1 << 8;
/// In [`Flow::state`]: FIN was seen from inside; the next bit, from outside.
pub const FIN_INSIDE: u32 = 1 << 9;
/// In [`Flow::state`]: the responder sent data before the handshake was complete (RFC 7413).
pub const EARLY_DATA: u32 = 1 << 11;
/// In [`Flow::state`]: a [`Doubt`] may be kept about the connection.
pub const DOUBTED: u32 = 1 << 12;
/// In [`Flow::state`]: the usual packet from inside changes nothing but times and sequence numbers; the next
/// bit, from outside.
pub const USUAL_INSIDE: u32 = 1 << 16;
/// Where in [`Flow::state`] the connection's window is, as a power of two of bytes.
pub const WINDOW_AT: u32 = 24;
const WINDOW: u32 = 31 << WINDOW_AT;
/// All bits that a connection may be handed over with.
pub const LASTING: u32 = 0xff | BEGUN_OUTSIDE | FIN_INSIDE | FIN_INSIDE << 1 | EARLY_DATA | WINDOW;

/// The largest such power: 64 KiB shifted by the largest scale.
pub const MOST_WINDOW: u32 = 16 + MOST_SCALE as u32;
/// The window of a connection whose window scale is not known: 1 MiB.
const UNKNOWN_WINDOW: u32 = 20;
/// The largest window scale, RFC 7323 section 2.3.
const MOST_SCALE: u8 = 14;

/// Bytes that a side of the connection may have under way: the largest window that it could announce.
#[inline(always)]
pub fn window(state: u32) -> u32 {
    1 << (state >> WINDOW_AT & 31)
}

/// Notes the window of a connection: 64 KiB shifted by the larger of both sides' scales.
fn set_window(flow: &mut Flow, exponent: u32) {
    flow.state = flow.state & !WINDOW | exponent << WINDOW_AT;
}

fn exponent(scale: Option<u8>) -> u32 {
    16 + u32::from(scale.unwrap_or(0).min(MOST_SCALE))
}

/// What is kept of a segment that its receiver may answer with a challenge acknowledgement (RFC 5961): only
/// that answer, and what follows it, say whether the connection is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Doubt {
    /// Nothing.
    #[default]
    None,
    /// This side (0 inside, 1 outside) sent a reset within the window. The acknowledgement number that the
    /// other side sent since then, if it did.
    Reset {
        /// The side that reset.
        side: u8,
        /// What the other side expects next.
        expected: Option<u32>,
    },
    /// The side that had begun the connection sent a SYN: the number behind it, and the window's exponent.
    Synchronise {
        /// What acknowledges the SYN.
        end: u32,
        /// As in [`Flow::state`].
        exponent: u32,
    },
}

/// What a segment means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It passes, and the time begins anew.
    Pass,
    /// It passes; the flow's time runs on.
    PassUnrefreshed,
    /// It begins a new connection with the addresses and ports of one that has ended.
    Reopen,
    /// It is not valid in this state.
    Invalid,
}

/// A segment, as far as the state machine looks at it.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// The interface that it came in by.
    pub ingress: u32,
    /// TCP flags.
    pub flags: u8,
    /// Sequence number of its first byte, and the one behind its last.
    pub seq: u32,
    /// See `seq`.
    pub end: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Window scale, with a SYN.
    pub scale: Option<u8>,
}

/// Whether a sequence number is within the window of the connection, on either side of the newest byte that
/// was seen: what the receiver has not got yet may lie before it.
#[inline(always)]
pub fn in_window(state: u32, number: u32, newest: u32) -> bool {
    let window = window(state);
    number.wrapping_add(window).wrapping_sub(newest) <= 2 * window
}

/// Whether an acknowledgement number is one of bytes that were sent, and not older than two windows: one that
/// the receiver had not read, and one under way (RFC 5961 section 5).
#[inline(always)]
pub fn acknowledges(state: u32, ack: u32, newest: u32) -> bool {
    newest.wrapping_sub(ack) <= 2 * window(state)
}

/// Marks for the fast path which sides' usual packets change nothing.
pub fn mark(flow: &mut Flow) {
    let (inside, outside) = (USUAL_INSIDE, USUAL_INSIDE << 1);
    flow.state &= !(inside | outside);
    let from_originator = if flow.state & BEGUN_OUTSIDE == 0 { inside } else { outside };
    flow.state |= match State::of(flow.state) {
        _ if flow.state & DOUBTED != 0 => 0,
        Some(State::Established | State::UdpAnswered | State::OtherAnswered | State::Echo) => {
            inside | outside
        }
        // Only the other side's packet is an answer.
        Some(State::Udp | State::Other) => from_originator,
        _ => 0,
    };
}

/// Whether the flags make sense together.
pub fn flags_are_valid(flags: u8) -> bool {
    matches!(flags & (SYN | FIN | RST | ACK), f if f == SYN || f == SYN | ACK || f == ACK || f == FIN | ACK || f == RST || f == RST | ACK)
}

/// The state of a connection that this segment opens; `None` when it opens none.
pub fn open(segment: &Segment, pick_up: bool) -> Option<Flow> {
    let begun = if segment.ingress == 0 { 0 } else { BEGUN_OUTSIDE };
    let mut ends = [0; 2];
    let side = segment.ingress as usize & 1;
    ends[side] = segment.end;
    let (state, exponent) = match segment.flags & (SYN | FIN | RST | ACK) {
        f if f == SYN => (State::SynSent, exponent(segment.scale)),
        // Seen in the middle: what this side has, it acknowledges.
        f if f == ACK && pick_up => {
            ends[side ^ 1] = segment.ack;
            (State::Established, UNKNOWN_WINDOW)
        }
        _ => return None,
    };
    let mut flow = Flow { expires: 0, state: state as u32 | begun, ends };
    set_window(&mut flow, exponent);
    Some(flow)
}

/// A connection from an instance that did not know its window.
pub fn adopt(flow: &mut Flow) {
    if flow.state & WINDOW == 0 {
        set_window(flow, UNKNOWN_WINDOW);
    }
}

/// Applies a segment to a connection. `doubt` is what is kept about it; the caller keeps it again while
/// [`DOUBTED`] is set.
pub fn step(flow: &mut Flow, segment: &Segment, doubt: &mut Doubt) -> Step {
    let side = segment.ingress as usize & 1;
    let by_originator = (flow.state & BEGUN_OUTSIDE != 0) == (side == 1);
    let Some(state) = State::of(flow.state) else { return Step::Invalid };
    let flags = segment.flags;
    if !flags_are_valid(flags) {
        return Step::Invalid;
    }
    if flags & RST != 0 {
        return reset(flow, segment, state, by_originator, doubt);
    }
    if flags & SYN != 0 {
        return synchronise(flow, segment, state, by_originator, doubt);
    }
    let is_early = state == State::SynReceived && !by_originator && segment.end != flow.ends[side];
    match (state, by_originator) {
        // The responder has a connection that the originator has forgotten: its acknowledgement is answered
        // by a reset (RFC 9293 section 3.5.1).
        (State::SynSent, false) if flags & FIN == 0 => return Step::PassUnrefreshed,
        (State::SynSent, _) => return Step::Invalid,
        (State::Reset, _) => return Step::PassUnrefreshed,
        _ => {}
    }
    let newest = flow.ends[side ^ 1];
    let acknowledged = match (state, by_originator) {
        // The end of the handshake: a sender that did not see the answer cannot know its number.
        (State::SynReceived, true) if flow.state & EARLY_DATA == 0 => segment.ack == newest,
        _ => acknowledges(flow.state, segment.ack, newest),
    };
    if !acknowledged || !in_window(flow.state, segment.end, flow.ends[side]) {
        return Step::Invalid;
    }
    let mut next = match (state, by_originator) {
        // Data of a responder that has not heard the end of the handshake (RFC 7413).
        (State::SynReceived, false) if flags & FIN == 0 => State::SynReceived,
        (State::SynReceived, _) => State::Established,
        (state, _) => state,
    };
    if is_early {
        flow.state |= EARLY_DATA;
    }
    advance(&mut flow.ends[side], segment.end);
    if flags & FIN != 0 {
        flow.state |= FIN_INSIDE << side;
        let both = FIN_INSIDE | FIN_INSIDE << 1;
        next = if flow.state & both == both { State::Closing } else { State::FinWait };
    }
    set(flow, next);
    if flow.state & DOUBTED != 0 {
        resolve(flow, segment, doubt);
    }
    Step::Pass
}

/// A segment that is neither SYN nor reset, of a connection in doubt.
fn resolve(flow: &mut Flow, segment: &Segment, doubt: &mut Doubt) {
    match doubt {
        Doubt::Reset { side, expected } if u32::from(*side) != segment.ingress => {
            *expected = Some(segment.ack);
        }
        // The answer to a SYN may be a challenge; what comes from the side that sent it is not known yet.
        Doubt::Synchronise { .. } => {}
        // It goes on: the reset was not its own, or there is nothing that is known.
        Doubt::Reset { .. } | Doubt::None => {
            *doubt = Doubt::None;
            flow.state &= !DOUBTED;
            mark(flow);
        }
    }
}

fn set(flow: &mut Flow, state: State) {
    flow.state = flow.state & !0xff | state as u32;
    mark(flow);
}

/// Keeps a doubt; until it is resolved, no packet of the connection is usual.
fn raise(flow: &mut Flow, doubt: &mut Doubt, new: Doubt) {
    *doubt = new;
    flow.state |= DOUBTED;
    mark(flow);
}

/// Moves the newest byte on, never back.
#[inline(always)]
pub fn advance(newest: &mut u32, end: u32) {
    if end.wrapping_sub(*newest) as i32 > 0 {
        *newest = end;
    }
}

fn synchronise(
    flow: &mut Flow,
    segment: &Segment,
    state: State,
    by_originator: bool,
    doubt: &mut Doubt,
) -> Step {
    let side = segment.ingress as usize & 1;
    let acknowledges = segment.flags & ACK != 0;
    match state {
        State::Closing | State::Reset if !acknowledges => Step::Reopen,
        State::SynSent if by_originator && !acknowledges => {
            // Sent again, or another attempt with a sequence number of its own.
            flow.ends[side] = segment.end;
            set_window(flow, exponent(segment.scale));
            Step::Pass
        }
        State::SynSent if !by_originator => {
            // An acknowledgement of a SYN that was never sent is answered by a reset, and opens nothing. What
            // came with the SYN may be left unacknowledged (RFC 7413).
            if acknowledges && flow.ends[side ^ 1].wrapping_sub(segment.ack) > u32::from(u16::MAX) {
                return Step::PassUnrefreshed;
            }
            flow.ends[side] = segment.end;
            if segment.end != segment.seq.wrapping_add(1) {
                flow.state |= EARLY_DATA;
            }
            // Scales count when both sides have sent one.
            let offered = flow.state >> WINDOW_AT & 31;
            let both = segment.scale.map_or(16, |scale| offered.max(exponent(Some(scale))));
            set_window(flow, both);
            set(flow, State::SynReceived);
            Step::Pass
        }
        State::SynReceived => Step::Pass,
        // The receiver answers by a challenge acknowledgement (RFC 5961 section 4), or, when it has forgotten
        // the connection, as it answers any SYN: a new one begins.
        State::Established | State::FinWait => {
            if by_originator && !acknowledges {
                let exponent = exponent(segment.scale);
                raise(flow, doubt, Doubt::Synchronise { end: segment.end, exponent });
            } else if acknowledges
                && let Doubt::Synchronise { end, exponent } = *doubt
                && !by_originator
                && segment.ack == end
            {
                *doubt = Doubt::None;
                flow.state &= BEGUN_OUTSIDE;
                (flow.ends[side], flow.ends[side ^ 1]) = (segment.end, end);
                let scale = segment.scale.map(|scale| exponent.max(self::exponent(Some(scale))));
                set_window(flow, scale.unwrap_or(16));
                set(flow, State::SynReceived);
                return Step::Pass;
            }
            Step::PassUnrefreshed
        }
        _ => Step::Invalid,
    }
}

/// RFC 5961 section 3: only the number that the receiver expects next ends a connection. A reset elsewhere
/// within the window is answered by a challenge, and one that belongs to the connection is then sent again
/// with the number that the challenge told.
fn reset(flow: &mut Flow, segment: &Segment, state: State, by_originator: bool, doubt: &mut Doubt) -> Step {
    let side = segment.ingress as usize & 1;
    let (is_exact, is_near) = match (state, by_originator) {
        // The answer to a SYN has no sequence number of its own (RFC 9293 section 3.10.7.1).
        (State::SynSent, false) => (segment.flags & ACK != 0 && segment.ack == flow.ends[side ^ 1], false),
        _ => {
            let told = match *doubt {
                Doubt::Reset { side: doubted, expected } if usize::from(doubted) == side => expected,
                _ => None,
            };
            let is_near = in_window(flow.state, segment.seq, flow.ends[side]);
            (segment.seq == flow.ends[side] || is_near && told == Some(segment.seq), is_near)
        }
    };
    if !is_exact {
        if is_near && matches!(state, State::Established | State::FinWait | State::Closing) {
            let expected = match *doubt {
                Doubt::Reset { side: doubted, expected } if usize::from(doubted) == side => expected,
                _ => None,
            };
            raise(flow, doubt, Doubt::Reset { side: side as u8, expected });
        }
        return if is_near { Step::PassUnrefreshed } else { Step::Invalid };
    }
    if state == State::Reset {
        return Step::PassUnrefreshed;
    }
    flow.state &= !DOUBTED;
    *doubt = Doubt::None;
    set(flow, State::Reset);
    Step::Pass
}
