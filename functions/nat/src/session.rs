//! Sessions: which inside end talks to which remote end, and under which outside end.
//!
//! A session is one cache line. It is found by its inside ends and by its outside ends, through an index
//! each. Sessions that have no answer yet or have ended wait in a list, the oldest first: when there is no
//! room, the first of them goes. A session whose time is over counts as absent at once, whether it was swept
//! or not.

use crate::settings::{Settings, Timeouts};
use nf_sdk::Line;
use nf_sdk::index::Index;
use nf_sdk::keyed_hash::{KeyedHash, two};
use nf_sdk::slab::Slab;
use nf_sdk::wire::{Address, ICMP, Port, TCP, gain, gain_half};

/// The words of a session.
pub mod at {
    /// Inside address; of IPv6 the last word.
    pub const INSIDE: usize = 0;
    /// Remote IPv4 address.
    pub const REMOTE: usize = 1;
    /// Inside port in the lower half, remote port in the upper.
    pub const INSIDE_PORTS: usize = 2;
    /// Protocol, and the identifiers of two VLANs.
    pub const KIND: usize = 3;
    /// Outside IPv4 address.
    pub const OUTSIDE: usize = 4;
    /// Outside port in the lower half, remote port in the upper.
    pub const OUTSIDE_PORTS: usize = 5;
    /// The first three words of an inside IPv6 address; zeros for IPv4.
    pub const UPPER: usize = 6;
    /// State and flags.
    pub const STATE: usize = 9;
    /// When it ends, in ticks.
    pub const EXPIRES: usize = 10;
    /// The number of its mapping.
    pub const MAPPING: usize = 11;
    /// The next newer one in the list of those that may go.
    pub const NEWER: usize = 12;
    /// The next older one.
    pub const OLDER: usize = 13;
    /// What the sums of packets from inside gain: in the lower half that of the IPv4 header, in the upper
    /// that of the transport header.
    pub const GAIN: usize = 14;
}

/// What a session is in; TCP's states are those of RFC 6146 section 3.5.2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// TCP, SYN from inside.
    InsideInit = 1,
    /// TCP, SYN from outside.
    OutsideInit = 2,
    /// TCP, SYN of both sides.
    Established = 3,
    /// TCP, FIN from inside.
    InsideFin = 4,
    /// TCP, FIN from outside.
    OutsideFin = 5,
    /// TCP, FIN of both sides.
    Ended = 6,
    /// TCP, reset; goes on with any other packet.
    Reset = 7,
    /// UDP, packets from inside alone.
    Asked = 8,
    /// UDP, packets of both sides.
    Answered = 9,
    /// An ICMP query without a reply.
    Query = 10,
    /// An ICMP query with one.
    Replied = 11,
    /// TCP, reset by the inside; goes on with any other packet, and goes when there is no room.
    Abandoned = 12,
}

impl State {
    /// Every state.
    pub const ALL: [State; 12] = [
        State::InsideInit,
        State::OutsideInit,
        State::Established,
        State::InsideFin,
        State::OutsideFin,
        State::Ended,
        State::Reset,
        State::Asked,
        State::Answered,
        State::Query,
        State::Replied,
        State::Abandoned,
    ];

    /// Reads the word [`at::STATE`].
    pub fn of(word: u32) -> Option<State> {
        State::ALL.into_iter().find(|state| *state as u32 == word & 0xff)
    }

    /// Whether packets that leave the state as it is give the session more time.
    fn is_refreshed(self) -> bool {
        use State::{Answered, Asked, Established, InsideFin, OutsideFin, Query, Replied};
        matches!(self, Established | InsideFin | OutsideFin | Asked | Answered | Query | Replied)
    }

    /// Whether it is a state of TCP.
    pub fn is_tcp(self) -> bool {
        !matches!(self, State::Asked | State::Answered | State::Query | State::Replied)
    }

    /// Whether a session in this state goes when there is no room.
    fn may_go(self) -> bool {
        use State::{Abandoned, Asked, Ended, InsideInit, OutsideInit, Query};
        matches!(self, InsideInit | OutsideInit | Asked | Query | Ended | Abandoned)
    }
}

/// In [`at::STATE`]: begun from outside.
pub const BEGUN_OUTSIDE: u32 = 1 << 8;
/// In [`at::STATE`]: the inside end is of IPv6.
pub const IPV6: u32 = 1 << 9;
/// In [`at::STATE`]: it is in the list of those that may go.
const LISTED: u32 = 1 << 10;
/// In [`at::STATE`]: it counts for its host's limit.
pub const COUNTED: u32 = 1 << 11;
/// In [`at::STATE`]: the remote end is in the pool, so that every packet is translated twice.
pub const HAIRPIN: u32 = 1 << 12;
/// In [`at::STATE`]: the usual packet from inside changes nothing but the time; the next bit, from outside.
pub const USUAL: u32 = 1 << 16;

/// The ends of a session as a packet of the inside has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InsideEnds {
    /// The first three words of an IPv6 address.
    pub upper: [u32; 3],
    /// IPv4 address, or the last word.
    pub inside: Address,
    /// Remote address.
    pub remote: Address,
    /// Inside port in the lower half, remote port in the upper.
    pub ports: u32,
    /// Protocol and VLANs.
    pub kind: u32,
    /// The inside is of IPv6.
    pub is_v6: bool,
}

/// The ends of a session as a packet of the outside has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutsideEnds {
    /// Address in the pool.
    pub outside: Address,
    /// Remote address.
    pub remote: Address,
    /// Outside port in the lower half, remote port in the upper.
    pub ports: u32,
    /// Protocol and VLANs.
    pub kind: u32,
}

/// All sessions.
pub struct Sessions {
    lines: Slab<Line>,
    inside: Index,
    outside: Index,
    hash: KeyedHash<4>,
    /// The list of those that may go: the oldest and the newest.
    oldest: u32,
    newest: u32,
    /// Now, in ticks.
    pub now: u32,
    /// Time that a session has when it comes into a state.
    first: [u32; 16],
    /// Time that a packet from inside gives a session, by state; then that of one from outside. 0: none.
    refresh: [[u32; 16]; 2],
}

impl Sessions {
    /// Takes the memory; `None` when there is not as much. `seed`: the indexes' secret.
    pub fn new(settings: &Settings, seed: u64) -> Option<Sessions> {
        let (mut first, mut refresh) = ([0; 16], [[0; 16]; 2]);
        for state in State::ALL {
            let place = state as usize;
            first[place] = first_time(&settings.timeouts, state);
            refresh[0][place] = if state.is_refreshed() { first[place] } else { 0 };
            let by_outside = state.is_tcp() || settings.inbound_refresh;
            refresh[1][place] = if by_outside { refresh[0][place] } else { 0 };
        }
        Some(Sessions {
            lines: Slab::new(settings.max_sessions)?,
            inside: Index::new(settings.max_sessions)?,
            outside: Index::new(settings.max_sessions)?,
            hash: KeyedHash::new(seed),
            oldest: 0,
            newest: 0,
            now: 0,
            first,
            refresh,
        })
    }

    /// Sessions, ended ones that were not swept yet included.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Most sessions.
    pub fn limit(&self) -> usize {
        self.lines.limit()
    }

    /// There is no room for another one.
    pub fn is_full(&self) -> bool {
        self.lines.is_full()
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// One more than the largest number of a session so far.
    pub fn bound(&self) -> u32 {
        self.lines.bound()
    }

    /// A session.
    #[inline(always)]
    pub fn get(&self, number: u32) -> &Line {
        self.lines.get(number)
    }

    /// The hash of ends of IPv4, inside or outside.
    #[inline(always)]
    pub fn hash(&self, local: u32, remote: u32, ports: u32, kind: u32) -> u64 {
        self.hash.of_first(&[two(local, remote), two(ports, kind)])
    }

    /// The hash of inside ends.
    pub fn inside_hash(&self, ends: &InsideEnds) -> u64 {
        if ends.is_v6 {
            let [a, b, c] = ends.upper;
            let [addresses, ports] = [two(ends.inside, ends.remote), two(ends.ports, ends.kind)];
            return self.hash.of(&[addresses, ports, two(a, b), two(c, IPV6)]);
        }
        self.hash(ends.inside, ends.remote, ends.ports, ends.kind)
    }

    fn outside_hash(&self, ends: &OutsideEnds) -> u64 {
        self.hash(ends.outside, ends.remote, ends.ports, ends.kind)
    }

    /// Reads the index' line for a packet of this interface, to have it in the cache.
    #[inline(always)]
    pub fn touch_index(&self, hash: u64, ingress: u32) -> u32 {
        if ingress == 0 { self.inside.touch(hash) } else { self.outside.touch(hash) }
    }

    /// The session that a packet of this interface probably belongs to.
    #[inline(always)]
    pub fn probable(&self, hash: u64, ingress: u32) -> u32 {
        if ingress == 0 { self.inside.probable(hash) } else { self.outside.probable(hash) }
    }

    /// Reads a word of a session, to have it in the cache.
    #[inline(always)]
    pub fn touch(&self, number: u32) -> u32 {
        self.lines.get(number).0[at::STATE]
    }

    /// Whether its time is not over.
    #[inline(always)]
    pub fn is_live(&self, line: &Line) -> bool {
        line.0[at::STATE] & 0xff != 0 && line.0[at::EXPIRES].wrapping_sub(self.now) as i32 > 0
    }

    /// The session if it has these ends of IPv4, is live, and the usual packet of `ingress` changes nothing
    /// but its time; the time is brought up to date.
    #[inline(always)]
    pub fn usual(
        &mut self,
        number: u32,
        [local, remote, ports, kind]: [u32; 4],
        ingress: u32,
    ) -> Option<&Line> {
        let now = self.now;
        let side = ingress as usize & 1;
        let place = number as usize;
        if place >= self.lines.bound() as usize {
            return None;
        }
        let line = self.lines.get_mut(number);
        let words = &mut line.0;
        // Not `==` of arrays, which in the sandbox is a call.
        let (own, own_ports) = if side == 0 {
            (words[at::INSIDE], words[at::INSIDE_PORTS])
        } else {
            (words[at::OUTSIDE], words[at::OUTSIDE_PORTS])
        };
        let differs = own ^ local | own_ports ^ ports | words[at::REMOTE] ^ remote | words[at::KIND] ^ kind;
        let state = words[at::STATE];
        let is_usual = differs == 0
            && state & (USUAL << side | IPV6) == USUAL << side
            && words[at::EXPIRES].wrapping_sub(now) as i32 > 0;
        if !is_usual {
            return None;
        }
        let more = self.refresh[side][state as usize & 15];
        words[at::EXPIRES] = if more == 0 { words[at::EXPIRES] } else { now.wrapping_add(more) };
        Some(line)
    }

    /// The session with these inside ends, by their hash.
    pub fn find_inside(&self, ends: &InsideEnds, hash: u64) -> Option<u32> {
        self.inside.find(hash, |number| {
            let words = &self.lines.get(number).0;
            words[at::INSIDE] == ends.inside
                && words[at::REMOTE] == ends.remote
                && words[at::INSIDE_PORTS] == ends.ports
                && words[at::KIND] == ends.kind
                && (words[at::STATE] & IPV6 != 0) == ends.is_v6
                && words[at::UPPER..at::UPPER + 3] == ends.upper
        })
    }

    /// The session with these outside ends.
    pub fn find_outside(&self, ends: &OutsideEnds) -> Option<u32> {
        self.outside.find(self.outside_hash(ends), |number| {
            let words = &self.lines.get(number).0;
            words[at::OUTSIDE] == ends.outside
                && words[at::REMOTE] == ends.remote
                && words[at::OUTSIDE_PORTS] == ends.ports
                && words[at::KIND] == ends.kind
        })
    }

    /// Begins a session; `None` when there is no room. `hash` is that of its inside ends, `flags` are of
    /// [`at::STATE`].
    pub fn open(
        &mut self,
        inside: &InsideEnds,
        hash: u64,
        outside: (Address, Port),
        state: State,
        flags: u32,
        mapping: u32,
    ) -> Option<u32> {
        let mut line = Line([0; 16]);
        let words = &mut line.0;
        words[at::INSIDE] = inside.inside;
        words[at::REMOTE] = inside.remote;
        words[at::INSIDE_PORTS] = inside.ports;
        words[at::KIND] = inside.kind;
        words[at::OUTSIDE] = outside.0;
        words[at::OUTSIDE_PORTS] = inside.ports & 0xffff_0000 | u32::from(outside.1);
        words[at::UPPER..at::UPPER + 3].copy_from_slice(&inside.upper);
        let version = if inside.is_v6 { IPV6 } else { 0 };
        words[at::STATE] = flags | version | state as u32 | usual(state, flags);
        words[at::EXPIRES] = self.now.wrapping_add(self.first[state as usize & 15]);
        words[at::MAPPING] = mapping;
        let network = gain(inside.inside, outside.0);
        let ports = gain_half(inside.ports as u16, outside.1);
        let transport = if inside.kind as u8 == ICMP {
            ports
        } else {
            nf_sdk::wire::folded(u32::from(network) + u32::from(ports))
        };
        words[at::GAIN] = u32::from(network) | u32::from(transport) << 16;
        let ends = OutsideEnds {
            outside: outside.0,
            remote: inside.remote,
            ports: words[at::OUTSIDE_PORTS],
            kind: inside.kind,
        };
        let number = self.lines.take(line)?;
        if !self.inside.insert(hash, number) {
            self.lines.give_back(number);
            return None;
        }
        if !self.outside.insert(self.outside_hash(&ends), number) {
            self.inside.remove(hash, number);
            self.lines.give_back(number);
            return None;
        }
        if state.may_go() {
            self.list(number);
        }
        Some(number)
    }

    /// Ends a session.
    pub fn close(&mut self, number: u32) {
        let (inside, outside) = (self.inside_ends(number), self.outside_ends(number));
        self.unlist(number);
        self.inside.remove(self.inside_hash(&inside), number);
        self.outside.remove(self.outside_hash(&outside), number);
        self.lines.give_back(number);
    }

    /// The inside ends of a session.
    pub fn inside_ends(&self, number: u32) -> InsideEnds {
        let words = &self.lines.get(number).0;
        let mut upper = [0; 3];
        upper.copy_from_slice(&words[at::UPPER..at::UPPER + 3]);
        InsideEnds {
            upper,
            inside: words[at::INSIDE],
            remote: words[at::REMOTE],
            ports: words[at::INSIDE_PORTS],
            kind: words[at::KIND],
            is_v6: words[at::STATE] & IPV6 != 0,
        }
    }

    /// The outside ends of a session.
    pub fn outside_ends(&self, number: u32) -> OutsideEnds {
        let words = &self.lines.get(number).0;
        OutsideEnds {
            outside: words[at::OUTSIDE],
            remote: words[at::REMOTE],
            ports: words[at::OUTSIDE_PORTS],
            kind: words[at::KIND],
        }
    }

    /// Puts a session into a state, and into the list of those that may go or out of it.
    pub fn set_state(&mut self, number: u32, state: State) {
        let word = &mut self.lines.get_mut(number).0[at::STATE];
        *word = *word & !(0xff | USUAL | USUAL << 1) | state as u32 | usual(state, *word);
        let (is_listed, may_go) = (*word & LISTED != 0, state.may_go());
        if may_go && !is_listed {
            self.list(number);
        } else if is_listed && !may_go {
            self.unlist(number);
        }
    }

    /// Sets flags of [`at::STATE`].
    pub fn set_flags(&mut self, number: u32, flags: u32) {
        self.lines.get_mut(number).0[at::STATE] |= flags;
    }

    /// Gives a session the time that its state begins with.
    pub fn begin_time(&mut self, number: u32) {
        let now = self.now;
        let words = &mut self.lines.get_mut(number).0;
        words[at::EXPIRES] = now.wrapping_add(self.first[words[at::STATE] as usize & 15]);
    }

    /// Gives a session the time that a packet from inside (0) or outside (1) gives one in its state.
    pub fn refresh(&mut self, number: u32, side: usize) {
        let now = self.now;
        let words = &mut self.lines.get_mut(number).0;
        let more = self.refresh[side & 1][words[at::STATE] as usize & 15];
        if more != 0 {
            words[at::EXPIRES] = now.wrapping_add(more);
        }
    }

    /// Gives a session so many ticks from now, at most as many as its state has.
    pub fn set_left(&mut self, number: u32, left: u32) {
        let now = self.now;
        let words = &mut self.lines.get_mut(number).0;
        let most = self.first[words[at::STATE] as usize & 15];
        words[at::EXPIRES] = now.wrapping_add(left.min(most));
    }

    /// The oldest session that may go.
    pub fn oldest(&self) -> Option<u32> {
        (self.oldest != 0).then_some(self.oldest)
    }

    fn list(&mut self, number: u32) {
        let older = self.newest;
        let words = &mut self.lines.get_mut(number).0;
        words[at::STATE] |= LISTED;
        (words[at::OLDER], words[at::NEWER]) = (older, 0);
        match older {
            0 => self.oldest = number,
            _ => self.lines.get_mut(older).0[at::NEWER] = number,
        }
        self.newest = number;
    }

    fn unlist(&mut self, number: u32) {
        let words = &mut self.lines.get_mut(number).0;
        if words[at::STATE] & LISTED == 0 {
            return;
        }
        words[at::STATE] &= !LISTED;
        let (older, newer) = (words[at::OLDER], words[at::NEWER]);
        match older {
            0 => self.oldest = newer,
            _ => self.lines.get_mut(older).0[at::NEWER] = newer,
        }
        match newer {
            0 => self.newest = older,
            _ => self.lines.get_mut(newer).0[at::OLDER] = older,
        }
    }
}

/// Whether usual packets of a session in this state, with these flags, change nothing but its time.
fn usual(state: State, flags: u32) -> u32 {
    match state {
        _ if flags & HAIRPIN != 0 => 0,
        State::Established | State::InsideFin | State::OutsideFin | State::Ended | State::Answered => {
            USUAL | USUAL << 1
        }
        State::Replied => USUAL | USUAL << 1,
        State::Asked | State::Query => USUAL,
        State::InsideInit | State::OutsideInit | State::Reset | State::Abandoned => 0,
    }
}

/// Time that a session has when it comes into a state.
fn first_time(timeouts: &Timeouts, state: State) -> u32 {
    match state {
        State::Established | State::InsideFin | State::OutsideFin => timeouts.established,
        State::Asked | State::Answered => timeouts.udp,
        State::Query | State::Replied => timeouts.icmp,
        State::InsideInit | State::OutsideInit | State::Ended | State::Reset | State::Abandoned => {
            timeouts.transitory
        }
    }
}

/// What a TCP segment does to its session (RFC 6146 section 3.5.2.2); `None`: nothing.
pub fn step(state: State, flags: u8, from_inside: bool) -> Option<State> {
    use flag::{ACK, FIN, RST, SYN};
    let is_syn = flags & SYN != 0;
    let is_opening = is_syn && flags & (ACK | FIN | RST) == 0;
    match state {
        State::InsideInit if is_syn && !from_inside => Some(State::Established),
        State::OutsideInit if is_syn && from_inside => Some(State::Established),
        State::InsideInit | State::OutsideInit => None,
        // A new connection between the same ends.
        State::Ended | State::Reset | State::Abandoned if is_opening => {
            Some(if from_inside { State::InsideInit } else { State::OutsideInit })
        }
        State::Ended => None,
        State::Reset | State::Abandoned => (flags & RST == 0).then_some(State::Established),
        _ if flags & RST != 0 => Some(if from_inside { State::Abandoned } else { State::Reset }),
        State::Established if flags & FIN != 0 => {
            Some(if from_inside { State::InsideFin } else { State::OutsideFin })
        }
        State::InsideFin if flags & FIN != 0 && !from_inside => Some(State::Ended),
        State::OutsideFin if flags & FIN != 0 && from_inside => Some(State::Ended),
        _ => None,
    }
}

/// TCP flags, RFC 9293 section 3.1.
pub mod flag {
    /// No more data.
    pub const FIN: u8 = 0x01;
    /// Synchronize.
    pub const SYN: u8 = 0x02;
    /// Reset.
    pub const RST: u8 = 0x04;
    /// Acknowledgement.
    pub const ACK: u8 = 0x10;
}

/// Whether a protocol's sessions go through TCP's states.
pub fn is_tcp(kind: u32) -> bool {
    kind as u8 == TCP
}
