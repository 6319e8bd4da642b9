//! Connection tracking: which packets belong to a flow, which may open one, and when flows end.
//!
//! A flow whose time is over is over at once, whether it was swept yet or not; sweeping only gives its place
//! back. Every batch sweeps in proportion to the time that has passed, at most a few groups, and a timer does
//! the same when no packets come.

use crate::flow_table::{Flow, FlowTable, Slot};
use crate::header::{ACK, FIN, Header, RST, SYN};
use crate::rule::{ICMP, ICMPV6, TCP, UDP};
use crate::settings::{Timeouts, Tracking};
use crate::tcp::{self, BEGUN_OUTSIDE, DOUBTED, Doubt, Segment, State, Step, USUAL_INSIDE, acknowledges};
use alloc::boxed::Box;
use alloc::vec;
use core::cell::Cell;
use nf_sdk::ticks::span;
use nf_sdk::{HalfLine, Line, Nanos, Secret};

/// Nanoseconds in which the whole table is swept once, as a power of two: 8.6 s.
const SWEEP_BITS: u32 = 33;
/// Most groups of a table that one batch sweeps.
pub const SWEEP_PER_BATCH: usize = 64;
/// Time between two sweeps, at least.
const SWEEP_PAUSE: Nanos = Nanos::from_millis(1);

/// Ends of flows, by [`State`].
pub type TimeoutTicks = [u32; 16];

/// What became of a packet of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracked {
    /// It passes.
    Pass,
    /// A rule denied it.
    Denied,
    /// It belongs to no flow and cannot open one.
    NoFlow,
    /// It is not valid in the state of its flow.
    BadState,
    /// There is no room for another flow.
    TableFull,
}

/// How many flows began and ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turnover {
    /// Accepted by a rule and put into the table.
    pub opened: u64,
    /// Idle for longer than their state allows, or replaced by another connection of the same ends.
    pub expired: u64,
    /// Unanswered, and gone for a new flow because there was no room.
    pub evicted: u64,
}

/// What all flows share.
pub struct Terms {
    /// Now, in ticks.
    pub now: u32,
    /// By state.
    pub timeouts: TimeoutTicks,
    /// TCP may be picked up in the middle.
    pub pick_up: bool,
    /// How many flows began and ended.
    pub turnover: Turnover,
    /// Connections that a segment within the window may have ended.
    pub doubts: Doubts,
}

/// Connections about which there is a doubt that are kept at a time.
const DOUBTS: usize = 256;

/// Doubts about connections, by the hash of their keys; a newer one takes an older one's place. A doubt that
/// is lost leaves a connection as it is.
pub struct Doubts {
    places: Box<[(u64, Doubt)]>,
}

impl Doubts {
    fn new() -> Doubts {
        Doubts { places: vec![(0, Doubt::None); DOUBTS].into_boxed_slice() }
    }

    fn place(hash: u64) -> usize {
        (hash >> 16) as usize % DOUBTS
    }

    fn about(&self, flow: &Flow, hash: u64) -> Doubt {
        if flow.state & DOUBTED == 0 {
            return Doubt::None;
        }
        self.places
            .get(Self::place(hash))
            .filter(|(known, _)| *known == hash)
            .map_or(Doubt::None, |(_, doubt)| *doubt)
    }

    fn keep(&mut self, flow: &Flow, hash: u64, doubt: Doubt) {
        if flow.state & DOUBTED != 0
            && doubt != Doubt::None
            && let Some(place) = self.places.get_mut(Self::place(hash))
        {
            *place = (hash, doubt);
        }
    }
}

/// Both families' flows.
pub struct Tracker {
    /// IPv4.
    pub v4: FlowTable<HalfLine>,
    /// IPv6.
    pub v6: FlowTable<Line>,
    /// What they share.
    pub terms: Terms,
    /// When it was swept last.
    swept: Option<Nanos>,
    pace: [Pace; 2],
}

/// How far the sweep is behind, in groups of 2^[`SWEEP_BITS`].
#[derive(Default)]
struct Pace {
    credit: u64,
}

impl Pace {
    fn due<S: Slot>(&mut self, table: &FlowTable<S>, elapsed: u64, at_most: usize) -> usize {
        if table.is_empty() {
            self.credit = 0;
            return 0;
        }
        let groups = table.groups() as u64;
        let round = groups << SWEEP_BITS;
        self.credit = (self.credit + elapsed.min(1 << SWEEP_BITS) * groups).min(round);
        let due = (self.credit >> SWEEP_BITS).min(at_most as u64);
        self.credit -= due << SWEEP_BITS;
        due as usize
    }
}

fn timeout_ticks(timeouts: &Timeouts) -> TimeoutTicks {
    let mut by_state = [0; 16];
    for state in State::ALL {
        by_state[state as usize] = span(match state {
            State::SynSent | State::SynReceived => timeouts.tcp_opening,
            State::Established => timeouts.tcp_established,
            State::FinWait | State::Closing => timeouts.tcp_closing,
            State::Reset => timeouts.tcp_reset,
            State::Udp => timeouts.udp,
            State::UdpAnswered => timeouts.udp_answered,
            State::Echo => timeouts.icmp,
            State::Other | State::OtherAnswered => timeouts.other,
        });
    }
    by_state
}

impl Terms {
    /// Whether the flow's time is not over.
    #[inline(always)]
    pub fn is_live(&self, flow: &Flow) -> bool {
        flow.state != 0 && flow.expires.wrapping_sub(self.now) as i32 > 0
    }

    /// When a flow in this state ends, if nothing more comes.
    #[inline(always)]
    pub fn expiry(&self, state: u32) -> u32 {
        self.now.wrapping_add(self.timeouts[state as usize & 15])
    }
}

impl Tracker {
    /// Takes the tables' memory, and keys them; `None` when there is not as much.
    pub fn new(settings: &Tracking, secret: &Secret) -> Option<Tracker> {
        let (mut v4, mut v6) =
            (FlowTable::new(settings.max_flows)?, FlowTable::new(settings.max_flows_ipv6)?);
        v4.set_seed(secret.seed("flows"));
        v6.set_seed(secret.seed("flows of IPv6"));
        Some(Tracker {
            v4,
            v6,
            terms: Terms {
                now: 0,
                timeouts: timeout_ticks(&settings.timeouts),
                pick_up: settings.pick_up,
                turnover: Turnover::default(),
                doubts: Doubts::new(),
            },
            swept: None,
            pace: [Pace::default(), Pace::default()],
        })
    }

    /// Moves time on and sweeps at most `groups` groups of each table.
    #[inline(always)]
    pub fn advance(&mut self, time: Nanos, tick: u32, groups: usize) {
        self.terms.now = tick;
        if self.swept.is_none_or(|before| time.since(before) >= SWEEP_PAUSE) {
            self.sweep(time, groups);
        }
    }

    #[inline(never)]
    fn sweep(&mut self, time: Nanos, groups: usize) {
        let Some(before) = self.swept.replace(time) else { return };
        let elapsed = time.since(before).0;
        let due = [self.pace[0].due(&self.v4, elapsed, groups), self.pace[1].due(&self.v6, elapsed, groups)];
        let terms = &self.terms;
        let ended = self.v4.sweep(due[0], |slot| !terms.is_live(&slot.flow()))
            + self.v6.sweep(due[1], |slot| !terms.is_live(&slot.flow()));
        self.terms.turnover.expired += ended as u64;
    }

    /// How many flows were opened, expired and evicted.
    #[inline(always)]
    pub fn turnover(&self) -> [u64; 3] {
        let Turnover { opened, expired, evicted } = self.terms.turnover;
        [opened, expired, evicted]
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.v4.clear();
        self.v6.clear();
    }

    /// Flows in both tables, ended ones that were not swept yet included.
    pub fn flows(&self) -> usize {
        self.v4.len() + self.v6.len()
    }
}

/// In [`Ahead::flags`]: the rest is set.
pub const COMMON: u32 = 1 << 8;

/// What is kept of a packet between the look-up and its turn.
#[derive(Clone, Copy, Default)]
pub struct Ahead<K> {
    /// Its flow's key.
    pub key: K,
    /// The key's hash.
    pub hash: u64,
    /// TCP flags or what stands for them, and [`COMMON`]; 0 for a packet whose key is not known yet.
    pub flags: u32,
    /// The sequence number behind the segment.
    pub end: u32,
    /// The acknowledgement number.
    pub ack: u32,
    /// The interface that it came in by.
    pub ingress: u32,
    /// Of a packet that was read completely.
    pub header: Header,
}

/// The usual packet of the usual flow: it is in the slot where it was expected, the packet changes no state
/// that the flow can be in, and TCP's numbers are within the window. True when it was that, and the flow was
/// brought up to date. Numbers of other protocols are all 0, and so within any window.
#[inline(always)]
pub fn usual<S: Slot>(table: &mut FlowTable<S>, terms: &Terms, packet: &Ahead<S::Key>, slot: u32) -> bool {
    let Some(slot) = table.entry_if(slot, &packet.key) else { return false };
    let flow = slot.flow();
    let side = packet.ingress as usize & 1;
    let is_usual = flow.state & (USUAL_INSIDE << side) != 0
        && packet.flags & u32::from(SYN | FIN | RST | ACK) == u32::from(ACK)
        && terms.is_live(&flow)
        && tcp::in_window(flow.state, packet.end, flow.ends[side])
        && acknowledges(flow.state, packet.ack, flow.ends[side ^ 1]);
    if is_usual {
        slot.refresh(terms.expiry(flow.state), side, packet.end);
    }
    is_usual
}

/// The usual packet of a flow that is in another slot than was expected.
#[inline(never)]
pub fn usual_elsewhere<S: Slot>(table: &mut FlowTable<S>, terms: &Terms, packet: &Ahead<S::Key>) -> bool {
    table.find(&packet.key, packet.hash).is_some_and(|slot| usual(table, terms, packet, slot))
}

fn segment(header: &Header) -> Segment {
    Segment {
        ingress: header.ingress() & 1,
        flags: header.flags,
        seq: header.seq,
        end: header.end,
        ack: header.ack,
        scale: header.scale,
    }
}

/// The flow that a packet opens, if it may open one.
fn open(header: &Header, terms: &Terms) -> Option<Flow> {
    let begun = if header.ingress() & 1 == 0 { 0 } else { BEGUN_OUTSIDE };
    let state = match header.protocol() {
        TCP => return tcp::open(&segment(header), terms.pick_up),
        UDP => State::Udp,
        // Only a request opens; it is marked as such by the flag.
        ICMP | ICMPV6 if header.flags == SYN => State::Echo,
        ICMP | ICMPV6 => return None,
        _ => State::Other,
    };
    let mut flow = Flow { expires: 0, state: state as u32 | begun, ends: [0, 0] };
    tcp::mark(&mut flow);
    Some(flow)
}

/// Applies a packet that is not TCP.
fn step(flow: &mut Flow, header: &Header) -> Step {
    let by_originator = (flow.state & BEGUN_OUTSIDE != 0) == (header.ingress() & 1 == 1);
    let answered = match State::of(flow.state) {
        Some(State::Udp) => State::UdpAnswered,
        Some(State::Other) => State::OtherAnswered,
        Some(_) => return Step::Pass,
        None => return Step::Invalid,
    };
    if !by_originator {
        flow.state = flow.state & !0xff | answered as u32;
        tcp::mark(flow);
    }
    Step::Pass
}

/// Any packet of a flow, or one that may open one; `decide` asks the rules.
#[inline(never)]
pub fn track<S: Slot>(
    table: &mut FlowTable<S>,
    terms: &mut Terms,
    header: &Header,
    hash: u64,
    key: &S::Key,
    decide: impl FnOnce() -> bool,
) -> Tracked {
    let known = table.find(key, hash);
    if let Some(slot) = known {
        let mut flow = table.get(slot).flow();
        if terms.is_live(&flow) {
            let step = match header.protocol() {
                TCP => {
                    let mut doubt = terms.doubts.about(&flow, hash);
                    let step = tcp::step(&mut flow, &segment(header), &mut doubt);
                    terms.doubts.keep(&flow, hash, doubt);
                    step
                }
                _ => step(&mut flow, header),
            };
            match step {
                Step::Invalid => return Tracked::BadState,
                Step::Pass => flow.expires = terms.expiry(flow.state),
                Step::PassUnrefreshed | Step::Reopen => {}
            }
            if step != Step::Reopen {
                table.get_mut(slot).set_flow(&flow);
                return Tracked::Pass;
            }
        }
    }
    let Some(mut flow) = open(header, terms) else { return Tracked::NoFlow };
    if !decide() {
        return Tracked::Denied;
    }
    flow.expires = terms.expiry(flow.state);
    if let Some(slot) = known {
        terms.turnover.expired += 1;
        table.get_mut(slot).set_flow(&flow);
    } else if !table.insert(key, hash, flow.value()) && !replace(table, terms, hash, key, &flow) {
        return Tracked::TableFull;
    }
    terms.turnover.opened += 1;
    Tracked::Pass
}

/// Makes room for a flow: what has ended goes first, then the flow that has waited longest for an answer. Of
/// several that came in one tick it is any, which a flood cannot foretell: were it the newest, none that came
/// with the flood would live until its answer comes.
#[cold]
fn replace<S: Slot>(
    table: &mut FlowTable<S>,
    terms: &mut Terms,
    hash: u64,
    key: &S::Key,
    flow: &Flow,
) -> bool {
    const OLDEST: u32 = u32::MAX >> 4;
    // The hash has a secret.
    let place = Cell::new(hash as u32);
    let rank = |slot: &S| {
        let flow = slot.flow();
        if !terms.is_live(&flow) {
            return Some(0);
        }
        place.set(place.get().wrapping_add(1));
        let agreed = State::of(flow.state).is_some_and(State::is_agreed);
        // Time has another length after another configuration.
        let age = (terms.expiry(flow.state).wrapping_sub(flow.expires) as i32).max(0) as u32;
        (!agreed).then(|| (OLDEST - age.min(OLDEST - 1)) << 4 | place.get() & 15)
    };
    let Some(victim) = table.victim(hash, rank) else { return false };
    if terms.is_live(&table.get(victim).flow()) {
        terms.turnover.evicted += 1;
    } else {
        terms.turnover.expired += 1;
    }
    table.remove(victim);
    table.insert(key, hash, flow.value())
}

/// Whether an ICMP error is about a packet that a live flow could have sent.
pub fn is_related<S: Slot>(table: &FlowTable<S>, terms: &Terms, carried: &Header, key: &S::Key) -> bool {
    let Some(slot) = table.find(key, table.hash(key)) else { return false };
    let flow = table.get(slot).flow();
    let side = carried.ingress() as usize & 1;
    terms.is_live(&flow)
        && (carried.protocol() != TCP || tcp::in_window(flow.state, carried.seq, flow.ends[side]))
}
