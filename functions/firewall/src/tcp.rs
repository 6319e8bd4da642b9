//! The states of a TCP connection as seen from the middle (RFC 9293 section 3.3.2).
//!
//! ```text
//!             SYN            SYN+ACK              ACK              FIN            other FIN
//! (no flow) ------> SynSent ---------> SynReceived ----> Established ----> FinWait ----> Closing
//!                      \_________________\_____________________\___ RST _____\__________> Reset
//! ```

use crate::flow_table::Flow;
use crate::header::{ACK, FIN, RST, SYN};

/// What a flow is going through. States of [`State::FAST`] and above are those in which the usual packet
/// changes nothing.
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
    /// The first of the states in which the usual packet changes nothing.
    pub const FAST: u32 = State::Established as u32;

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

/// How far in front of the newest byte a reset, or a segment quoted in an ICMP error, may be. The largest
/// windows in use on paths of some length; a blind attacker has to send thousands of packets per port to get
/// in (RFC 5961).
const RESET_WINDOW: u32 = 1 << 20;
/// How far behind the newest byte that was seen: segments that were lost before they came here.
const RESET_AHEAD: u32 = 1 << 16;

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
}

/// Whether the sequence number can be one of this side's, whose newest is `end`.
pub fn is_plausible(seq: u32, end: u32) -> bool {
    seq.wrapping_add(RESET_WINDOW).wrapping_sub(end) <= RESET_WINDOW + RESET_AHEAD
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
    let state = match segment.flags & (SYN | FIN | RST | ACK) {
        f if f == SYN => State::SynSent,
        // Seen in the middle: what this side has, it acknowledges.
        f if f == ACK && pick_up => {
            ends[side ^ 1] = segment.ack;
            State::Established
        }
        _ => return None,
    };
    Some(Flow { expires: 0, state: state as u32 | begun, ends })
}

/// Applies a segment to a connection.
pub fn step(flow: &mut Flow, segment: &Segment) -> Step {
    let side = segment.ingress as usize & 1;
    let by_originator = (flow.state & BEGUN_OUTSIDE != 0) == (side == 1);
    let Some(state) = State::of(flow.state) else { return Step::Invalid };
    let flags = segment.flags;
    if !flags_are_valid(flags) {
        return Step::Invalid;
    }
    if flags & RST != 0 {
        return reset(flow, segment, state, by_originator);
    }
    if flags & SYN != 0 {
        return synchronise(flow, segment, state, by_originator);
    }
    let next = match (state, by_originator) {
        // The responder has a connection that the originator has forgotten: its acknowledgement is answered
        // by a reset (RFC 9293 section 3.5.1).
        (State::SynSent, false) if flags & FIN == 0 => return Step::PassUnrefreshed,
        (State::SynSent, _) => return Step::Invalid,
        // Data of a responder that has not heard the end of the handshake (RFC 7413).
        (State::SynReceived, false) if flags & FIN == 0 => State::SynReceived,
        (State::Reset, _) => return Step::PassUnrefreshed,
        (State::SynReceived, _) => State::Established,
        (state, _) => state,
    };
    advance(&mut flow.ends[side], segment.end);
    let mut next = next;
    if flags & FIN != 0 {
        flow.state |= FIN_INSIDE << side;
        let both = FIN_INSIDE | FIN_INSIDE << 1;
        next = if flow.state & both == both { State::Closing } else { State::FinWait };
    }
    set(flow, next);
    Step::Pass
}

fn set(flow: &mut Flow, state: State) {
    flow.state = flow.state & !0xff | state as u32;
}

/// Moves the newest byte on, never back.
#[inline(always)]
pub fn advance(newest: &mut u32, end: u32) {
    if end.wrapping_sub(*newest) as i32 > 0 {
        *newest = end;
    }
}

fn synchronise(flow: &mut Flow, segment: &Segment, state: State, by_originator: bool) -> Step {
    let side = segment.ingress as usize & 1;
    let acknowledges = segment.flags & ACK != 0;
    match state {
        State::Closing | State::Reset if !acknowledges => Step::Reopen,
        State::SynSent if by_originator && !acknowledges => {
            // Sent again, or another attempt with a sequence number of its own.
            flow.ends[side] = segment.end;
            Step::Pass
        }
        State::SynSent if !by_originator => {
            // An acknowledgement of a SYN that was never sent is answered by a reset, and opens nothing.
            if acknowledges && !is_plausible(segment.ack, flow.ends[side ^ 1]) {
                return Step::PassUnrefreshed;
            }
            flow.ends[side] = segment.end;
            set(flow, State::SynReceived);
            Step::Pass
        }
        State::SynReceived => Step::Pass,
        // Answered by a challenge acknowledgement, RFC 5961 section 4.
        State::Established | State::FinWait => Step::PassUnrefreshed,
        _ => Step::Invalid,
    }
}

fn reset(flow: &mut Flow, segment: &Segment, state: State, by_originator: bool) -> Step {
    let side = segment.ingress as usize & 1;
    let is_valid = if state == State::SynSent && !by_originator {
        // The answer to a SYN has no sequence number of its own (RFC 9293 section 3.10.7.1).
        segment.flags & ACK != 0 && segment.ack == flow.ends[side ^ 1]
    } else {
        is_plausible(segment.seq, flow.ends[side])
    };
    if !is_valid {
        return Step::Invalid;
    }
    if state == State::Reset {
        return Step::PassUnrefreshed;
    }
    set(flow, State::Reset);
    Step::Pass
}
