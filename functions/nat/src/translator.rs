//! The translation itself: which session a packet belongs to, whether it may begin one, and where it goes.

use crate::binding::{Bindings, Hashes, NoMapping, Target};
use crate::course::Course;
use crate::metrics::Reason;
use crate::permissions::Permissions;
use crate::session::{
    BEGUN_OUTSIDE, COUNTED, HAIRPIN, InsideEnds, OutsideEnds, Sessions, State, at, flag, is_tcp, step,
};
use crate::settings::{Filtering, Settings};
use crate::unsolicited::Unsolicited;
use nf_sdk::later_fragments::Fragments;
use nf_sdk::wire::{Address, ICMP, UDP};
use nf_sdk::{Nanos, Secret};

/// Nanoseconds in which all sessions are swept once, as a power of two: 8.6 s.
const SWEEP_BITS: u32 = 33;
/// Time between two sweeps, at least.
const SWEEP_PAUSE: Nanos = Nanos::from_millis(1);
/// Sessions that are ended at most to find one new session a free port.
const MAKE_ROOM: usize = 8;

/// What is worked out of the ends of a packet from inside before its session is looked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sought {
    /// The hash of both ends.
    pub session: u64,
    /// That of the inside end alone.
    pub inside: Hashes,
    /// The remote end is in the pool.
    pub is_hairpin: bool,
}

/// Sessions, mappings and what belongs to them.
pub struct Translator {
    /// The configuration.
    pub settings: Settings,
    /// All sessions.
    pub sessions: Sessions,
    /// Hosts and mappings.
    pub bindings: Bindings,
    /// With address-dependent filtering alone.
    permissions: Option<Permissions>,
    /// Fragments.
    pub fragments: Fragments<Course>,
    /// SYNs that nothing asked for.
    pub unsolicited: Unsolicited,
    /// Sessions opened, expired and evicted, and ICMP errors sent.
    pub turnover: [u64; 4],
    swept: Option<Nanos>,
    cursor: u32,
    credit: u64,
    /// The last identification of an IPv4 packet that was made of one of IPv6.
    identification: u16,
}

impl Translator {
    /// Takes the memory, keys the tables, and makes the mappings of forwarded ports; `None` when there is not
    /// as much memory.
    pub fn new(settings: Settings, secret: &Secret) -> Option<Translator> {
        let permissions = match settings.filtering {
            Filtering::AddressDependent => {
                Some(Permissions::new(settings.max_sessions, secret.seed("permissions"))?)
            }
            _ => None,
        };
        Some(Translator {
            sessions: Sessions::new(&settings, secret.seed("sessions"))?,
            bindings: Bindings::new(&settings, secret)?,
            permissions,
            fragments: Fragments::new(settings.timeouts.fragment, secret.seed("fragments")),
            unsolicited: Unsolicited::default(),
            turnover: [0; 4],
            swept: None,
            cursor: 1,
            credit: 0,
            identification: secret.seed("identifications") as u16,
            settings,
        })
    }

    /// The identification of an IPv4 packet that was made of one of IPv6 and may be fragmented on its way:
    /// each another one, or fragments of two packets would be put together (RFC 7915 section 5.1, RFC 6864).
    pub fn next_identification(&mut self) -> u16 {
        self.identification = self.identification.wrapping_add(1);
        self.identification
    }

    /// Moves time on and sweeps at most `most` sessions.
    #[inline(always)]
    pub fn advance(&mut self, now: Nanos, tick: u32, most: usize) {
        self.sessions.now = tick;
        if self.swept.is_none_or(|before| now.since(before) >= SWEEP_PAUSE) {
            self.sweep(now, most);
        }
    }

    #[inline(never)]
    fn sweep(&mut self, now: Nanos, most: usize) {
        let before = self.swept.replace(now).unwrap_or(now);
        let bound = u64::from(self.sessions.bound());
        let elapsed = now.since(before).0.min(1 << SWEEP_BITS);
        self.credit = (self.credit + elapsed * bound).min(bound << SWEEP_BITS);
        let due = (self.credit >> SWEEP_BITS).min(most as u64);
        self.credit -= due << SWEEP_BITS;
        for _ in 0..due {
            self.cursor = if self.cursor + 1 >= self.sessions.bound() { 1 } else { self.cursor + 1 };
            let line = self.sessions.get(self.cursor);
            if line.0[at::STATE] & 0xff != 0 && !self.sessions.is_live(line) {
                self.close(self.cursor);
                self.turnover[1] += 1;
            }
        }
    }

    /// Whether this address is one of the pool.
    #[inline(always)]
    pub fn is_outside(&self, address: Address) -> bool {
        self.bindings.ports.find(address).is_some()
    }

    /// Whether a source from inside is translated.
    pub fn is_inside(&self, address: Address) -> bool {
        let bits = address.swap_bytes();
        let inside = &self.settings.inside;
        inside.is_empty() || inside.iter().any(|(first, mask)| bits & mask == *first)
    }

    /// Ends a session, with its mapping if it was the last one.
    pub fn close(&mut self, number: u32) {
        let words = self.sessions.get(number).0;
        self.sessions.close(number);
        let mapping = words[at::MAPPING];
        if let Some(permissions) = &mut self.permissions
            && is_permission(words[at::STATE])
        {
            permissions.remove(mapping, words[at::REMOTE]);
        }
        self.bindings.release(mapping, words[at::STATE] & COUNTED != 0);
    }

    /// The live session with these inside ends; one whose time is over ends here.
    pub fn known_inside(&mut self, ends: &InsideEnds) -> Option<u32> {
        let number = self.sessions.find_inside(ends, self.sessions.inside_hash(ends))?;
        self.if_live(number)
    }

    /// The live session with these outside ends; one whose time is over ends here.
    pub fn known_outside(&mut self, ends: &OutsideEnds) -> Option<u32> {
        let number = self.sessions.find_outside(ends)?;
        self.if_live(number)
    }

    fn if_live(&mut self, number: u32) -> Option<u32> {
        if self.sessions.is_live(self.sessions.get(number)) {
            return Some(number);
        }
        self.close(number);
        self.turnover[1] += 1;
        None
    }

    /// A packet from inside: the session that it belongs to or begins. `is_request`: it may begin one, as
    /// far as its protocol says so; TCP's flags say it themselves.
    ///
    /// # Errors
    /// Why it is dropped.
    pub fn outward(
        &mut self,
        ends: &InsideEnds,
        flags: u8,
        is_request: bool,
        mac: [u32; 2],
    ) -> Result<u32, Reason> {
        let sought = Sought {
            session: self.sessions.inside_hash(ends),
            inside: self.bindings.hashes(ends),
            is_hairpin: self.is_outside(ends.remote),
        };
        self.outward_by(ends, &sought, flags, is_request, mac)
    }

    /// The same by what was worked out of the ends before.
    pub fn outward_by(
        &mut self,
        ends: &InsideEnds,
        sought: &Sought,
        flags: u8,
        is_request: bool,
        mac: [u32; 2],
    ) -> Result<u32, Reason> {
        let Sought { session: hash, inside: hashes, is_hairpin } = sought;
        let known = self.sessions.find_inside(ends, *hash);
        if let Some(number) = known.and_then(|number| self.if_live(number)) {
            self.progress(number, flags, true);
            return Ok(number);
        }
        let state = match ends.kind as u8 {
            UDP => State::Asked,
            ICMP if is_request => State::Query,
            ICMP => return Err(Reason::NoSession),
            _ if flags & (flag::SYN | flag::ACK | flag::FIN | flag::RST) == flag::SYN => State::InsideInit,
            _ => return Err(Reason::NoSession),
        };
        if self.sessions.is_full() && !self.make_room() {
            return Err(Reason::TableFull);
        }
        let mut mapping = self.bindings.obtain(ends, hashes, mac);
        // The port of a session without an answer is worth less than a new one.
        for _ in 0..MAKE_ROOM {
            if mapping != Err(NoMapping::NoPort) || !self.make_room() {
                break;
            }
            mapping = self.bindings.obtain(ends, hashes, mac);
        }
        let mapping = mapping.map_err(|why| match why {
            NoMapping::HostLimit => Reason::HostLimit,
            NoMapping::NoPort => Reason::NoPort,
            NoMapping::Full => Reason::TableFull,
        })?;
        self.open(ends, *hash, state, COUNTED | hairpin(*is_hairpin), mapping).ok_or(Reason::TableFull)
    }

    /// A packet from outside: where it goes.
    ///
    /// # Errors
    /// Why it is dropped.
    pub fn inward(&mut self, ends: &OutsideEnds, flags: u8, is_reply: bool) -> Result<Target, Reason> {
        if let Some(number) = self.known_outside(ends) {
            self.progress(number, flags, false);
            return Ok(self.target_of(number));
        }
        let target =
            self.bindings.target(ends.outside, ends.kind, ends.ports as u16).ok_or(Reason::NoMapping)?;
        let is_let_in = match self.settings.filtering {
            _ if target.is_forwarded => true,
            Filtering::EndpointIndependent => true,
            Filtering::AddressDependent => self
                .permissions
                .as_ref()
                .is_some_and(|permissions| permissions.has(target.mapping, ends.remote)),
            Filtering::AddressAndPortDependent => false,
        };
        if !is_let_in {
            return Err(Reason::Filtered);
        }
        match ends.kind as u8 {
            // No session: what comes from outside alone keeps nothing alive (RFC 4787 REQ-6).
            UDP => Ok(target),
            ICMP if is_reply => Ok(target),
            ICMP => Err(Reason::NoMapping),
            _ if flags & (flag::SYN | flag::ACK | flag::FIN | flag::RST) == flag::SYN => {
                let target = match self.sessions.is_full() {
                    false => target,
                    true if !self.make_room() => return Err(Reason::TableFull),
                    // The last session of the mapping may have made room, and the mapping went with it.
                    true => self
                        .bindings
                        .target(ends.outside, ends.kind, ends.ports as u16)
                        .ok_or(Reason::NoMapping)?,
                };
                let inside = InsideEnds {
                    upper: [target.address[0], target.address[1], target.address[2]],
                    inside: target.address[3],
                    remote: ends.remote,
                    ports: ends.ports & 0xffff_0000 | u32::from(target.port),
                    kind: ends.kind,
                    is_v6: target.is_v6,
                };
                let hash = self.sessions.inside_hash(&inside);
                let flags = BEGUN_OUTSIDE | hairpin(self.is_outside(ends.remote));
                self.open(&inside, hash, State::OutsideInit, flags, target.mapping)
                    .map(|_| target)
                    .ok_or(Reason::TableFull)
            }
            _ => Err(Reason::NoSession),
        }
    }

    /// Where packets from outside for a session go.
    pub fn target_of(&self, number: u32) -> Target {
        let ends = self.sessions.inside_ends(number);
        Target {
            address: [ends.upper[0], ends.upper[1], ends.upper[2], ends.inside],
            is_v6: ends.is_v6,
            port: ends.ports as u16,
            mapping: self.sessions.get(number).0[at::MAPPING],
            is_forwarded: false,
        }
    }

    /// Begins a session. Making room for it may have ended what the mapping was made for, never the mapping:
    /// room is made before.
    fn open(&mut self, ends: &InsideEnds, hash: u64, state: State, flags: u32, mapping: u32) -> Option<u32> {
        let outside = self.bindings.outside_end(mapping);
        let Some(number) = self.sessions.open(ends, hash, outside, state, flags, mapping) else {
            self.bindings.drop_unused(mapping);
            return None;
        };
        self.bindings.hold(mapping, flags & COUNTED != 0);
        if let Some(permissions) = &mut self.permissions
            && is_permission(flags)
        {
            permissions.add(mapping, ends.remote);
        }
        self.turnover[0] += 1;
        Some(number)
    }

    /// Ends the oldest session that may go; false when there is none.
    fn make_room(&mut self) -> bool {
        let Some(number) = self.sessions.oldest() else { return false };
        let is_live = self.sessions.is_live(self.sessions.get(number));
        self.turnover[if is_live { 2 } else { 1 }] += 1;
        self.close(number);
        true
    }

    /// A packet of a session: its state and its time go on.
    fn progress(&mut self, number: u32, flags: u8, from_inside: bool) {
        let words = &self.sessions.get(number).0;
        let Some(state) = State::of(words[at::STATE]) else { return };
        let next = if is_tcp(words[at::KIND]) {
            step(state, flags, from_inside)
        } else {
            match state {
                State::Asked if !from_inside => Some(State::Answered),
                State::Query if !from_inside => Some(State::Replied),
                _ => None,
            }
        };
        match next {
            Some(next) => {
                self.sessions.set_state(number, next);
                if is_tcp(self.sessions.get(number).0[at::KIND]) {
                    self.sessions.begin_time(number);
                }
                if next == State::Established {
                    self.agree(number);
                }
            }
            None => self.sessions.refresh(number, usize::from(!from_inside)),
        }
        // A SYN that is sent again.
        if state == State::InsideInit && from_inside && flags & flag::SYN != 0 {
            self.sessions.begin_time(number);
        }
    }

    /// Both sides have agreed to a connection: one that was begun from outside counts for its host from now
    /// on, and lets in what its remote address sends.
    fn agree(&mut self, number: u32) {
        let words = self.sessions.get(number).0;
        if words[at::STATE] & COUNTED != 0 {
            return;
        }
        self.sessions.set_flags(number, COUNTED);
        self.bindings.count(words[at::MAPPING]);
        if let Some(permissions) = &mut self.permissions {
            permissions.add(words[at::MAPPING], words[at::REMOTE]);
        }
    }

    /// Takes a session over from another instance; `None` when its outside end cannot be had or there is no
    /// room.
    pub fn restore(
        &mut self,
        ends: &InsideEnds,
        outside: (Address, u16),
        state: State,
        flags: u32,
        mac: [u32; 2],
    ) -> Option<u32> {
        let hash = self.sessions.inside_hash(ends);
        if self.sessions.is_full() || self.sessions.find_inside(ends, hash).is_some() {
            return None;
        }
        let is_translated =
            if ends.is_v6 { self.settings.nat64.is_some() } else { self.is_inside(ends.inside) };
        if !is_translated {
            return None;
        }
        let mapping = self.bindings.restore(ends, outside, mac)?;
        let flags = flags & (COUNTED | BEGUN_OUTSIDE) | hairpin(self.is_outside(ends.remote));
        let number = self.open(ends, hash, state, flags, mapping);
        self.turnover[0] -= u64::from(number.is_some());
        number
    }
}

/// The flag of a session whose remote end is in the pool.
const fn hairpin(is_hairpin: bool) -> u32 {
    if is_hairpin { HAIRPIN } else { 0 }
}

/// Whether a session lets in what its remote address sends: the inside has sent to it.
fn is_permission(state: u32) -> bool {
    state & COUNTED != 0
}
