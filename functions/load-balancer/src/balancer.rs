//! Which server a client's packet goes to, and what both sides' packets make of a connection.
//!
//! 1. A connection that is known goes to its server. A server that is down loses it: the client gets a reset,
//!    or another server the packets.
//! 2. A new one gets a server that is up: the client's one before (affinity), the least loaded, or Maglev's.
//!    It is half open until both sides have agreed: the client has acknowledged the server's SYN, or the
//!    server has answered. Where answers do not pass, the client's second packet stands for that.
//! 3. Where there is no room for another half-open one, the packet goes to Maglev's server without being
//!    remembered (`stateless`), and so does what follows until there is room: a flood of SYNs costs no
//!    connection its place, and servers answer it with SYN cookies as they would without a balancer. A client
//!    that is known (affinity) has its server there too.
//! 4. In a full table the oldest half-open one makes room, if its packets go to the same server without being
//!    remembered; what takes its place is chosen so that this holds for it too. So the handshake of a client
//!    is not torn between two servers, however many forged SYNs come behind its own.
//!
//! Sequence numbers are not looked at but for the handshake. A connection that was reset goes on with any
//! packet that is no reset, so that a forged one ends nothing.

use crate::affinity::{Affinity, Known};
use crate::connection::{Connections, Key, State};
use crate::ends::Words;
use crate::metrics::Reason;
use crate::services::Services;
use crate::settings::Settings;
use alloc::string::String;
use nf_sdk::index::{finish, mix};
use nf_sdk::{Nanos, Secret};

/// Bits of TCP's flags.
pub mod flag {
    /// The sender will send no more.
    pub const FIN: u8 = 1;
    /// A connection begins.
    pub const SYN: u8 = 2;
    /// It is reset.
    pub const RST: u8 = 4;
    /// The acknowledgment counts.
    pub const ACK: u8 = 16;
}

/// Nanoseconds in which all entries are swept once, as a power of two: 8.6 s.
const SWEEP_BITS: u32 = 33;
/// Time between two sweeps, at least.
const SWEEP_PAUSE: Nanos = Nanos::from_millis(1);
/// Among how many connections whose answers do not pass one is looked for that makes room.
const COMPARED: u32 = 32;

/// What is read of a TCP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// See [`flag`].
    pub flags: u8,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgment number.
    pub acknowledgment: u32,
}

impl Segment {
    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Why a packet of a client goes to no server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is dropped.
    Drop(Reason),
    /// It is dropped as [`Reason::ServerDown`], and the client is told that the connection is reset.
    Reset,
}

/// What began and ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turnover {
    /// Connections that were put into the table.
    pub opened: u64,
    /// Those whose time was over.
    pub expired: u64,
    /// Half-open ones, and idle ones whose answers do not pass, that made room.
    pub evicted: u64,
    /// Packets of clients that went to Maglev's server without being remembered.
    pub stateless: u64,
    /// Connections that went to another server because theirs was down.
    pub moved: u64,
}

/// Services and connections.
pub struct Balancer {
    /// The services.
    pub services: Services,
    /// The connections.
    pub connections: Connections,
    /// Where clients' connections went before.
    pub affinity: Affinity,
    /// What began and ended.
    pub turnover: Turnover,
    swept: Option<Nanos>,
    credit: u64,
    cursor: u32,
    /// The connection that was last compared with others to make room.
    hand: u32,
}

/// The hash by which Maglev chooses: of the client's end, with affinity of its address alone.
fn choice_hash(key: &Key, by_address: bool) -> u64 {
    let [a, b, c, d]: Words = key.client;
    let port = if by_address { 0 } else { key.ports & 0xffff };
    finish(mix(mix(0, a, b), c, d), port, u32::from(key.is_v6))
}

impl Balancer {
    /// As the configuration says, with tables that the secret keys.
    ///
    /// # Errors
    /// What contradicts itself, or that there is no memory.
    pub fn new(settings: Settings, secret: &Secret) -> Result<Balancer, String> {
        let no_memory = || String::from("not enough memory for max_connections and max_clients");
        let max_half_open = settings.max_half_open.min(settings.max_connections);
        let (most, seed) = (settings.max_connections, secret.seed("connections"));
        let connections = Connections::new(most, max_half_open, settings.timeouts, seed);
        let needs_clients = settings.services.iter().any(|service| service.affinity.is_some());
        let clients = if needs_clients { settings.max_clients } else { 0 };
        Ok(Balancer {
            services: Services::new(settings.services)?,
            connections: connections.ok_or_else(no_memory)?,
            affinity: Affinity::new(clients, secret.seed("clients")).ok_or_else(no_memory)?,
            turnover: Turnover::default(),
            swept: None,
            credit: 0,
            cursor: 0,
            hand: 0,
        })
    }

    /// Moves time on and sweeps at most `most` entries.
    #[inline(always)]
    pub fn advance(&mut self, now: Nanos, tick: u32, most: usize) {
        self.connections.now = tick;
        if self.swept.is_none_or(|before| now.since(before) >= SWEEP_PAUSE) {
            self.sweep(now, most);
        }
    }

    #[inline(never)]
    fn sweep(&mut self, now: Nanos, most: usize) {
        for _ in 0..most {
            let Some(number) = self.connections.expired_half_open() else { break };
            self.close(number);
            self.turnover.expired += 1;
        }
        let before = self.swept.replace(now).unwrap_or(now);
        let bound = u64::from(self.connections.bound());
        let elapsed = now.since(before).0.min(1 << SWEEP_BITS);
        self.credit = (self.credit + elapsed * bound).min(bound << SWEEP_BITS);
        let due = (self.credit >> SWEEP_BITS).min(most as u64);
        self.credit -= due << SWEEP_BITS;
        for _ in 0..due {
            self.cursor = self.after(self.cursor);
            if self.connections.is_over(self.cursor) {
                self.close(self.cursor);
                self.turnover.expired += 1;
            }
        }
    }

    /// The place behind another one, round the table.
    fn after(&self, place: u32) -> u32 {
        if place + 1 >= self.connections.bound() { 1 } else { place + 1 }
    }

    /// Ends a connection.
    pub fn close(&mut self, number: u32) {
        let server = self.connections.server(number);
        self.connections.remove(number);
        self.services.count(server, false);
    }

    /// Puts a connection in; `None` when there is no room.
    pub fn open(&mut self, key: &Key, server: u16, state: State) -> Option<u32> {
        let number = self.connections.insert(key, server, state)?;
        self.services.count(server, true);
        Some(number)
    }

    /// The connection of a key; one whose time is over ends here.
    pub fn find(&mut self, key: &Key) -> Option<u32> {
        match self.connections.find(key)? {
            Ok(number) => Some(number),
            Err(number) => {
                self.close(number);
                self.turnover.expired += 1;
                None
            }
        }
    }

    /// The server of a client's packet; `segment` is that of TCP.
    ///
    /// # Errors
    /// Why it goes to none.
    pub fn client_packet(&mut self, key: &Key, segment: Option<Segment>) -> Result<u16, Refused> {
        let is_syn = segment.is_some_and(|segment| segment.flags & (flag::SYN | flag::ACK) == flag::SYN);
        let mut was_moved = false;
        if let Some(number) = self.find(key) {
            let server = self.connections.server(number);
            if !self.services.is_up(server) {
                self.close(number);
                let moves = self.services.get(key.service).is_some_and(|service| service.settings.moves);
                // A SYN begins anew whatever was there.
                if !moves && !is_syn && segment.is_some() {
                    return Err(Refused::Reset);
                }
                was_moved = true;
            } else {
                self.step_of_client(number, key, segment);
                return Ok(server);
            }
        }
        let server = self.begin_connection(key, segment, is_syn)?;
        self.turnover.moved += u64::from(was_moved);
        Ok(server)
    }

    /// The server that Maglev finds, for packets whose connection is not known.
    pub fn by_hash(&self, key: &Key) -> Option<u16> {
        let by_address = self.services.get(key.service)?.settings.affinity.is_some();
        self.services.by_hash(key.service, choice_hash(key, by_address))
    }

    /// The server of the client's connections before (affinity), if it takes further ones.
    fn server_before(&self, key: &Key) -> Option<u16> {
        self.services.get(key.service)?.settings.affinity?;
        let before = self.affinity.find(&key.client, key.service, self.connections.now);
        before.filter(|server| self.services.takes_new(*server))
    }

    fn begin_connection(
        &mut self,
        key: &Key,
        segment: Option<Segment>,
        is_syn: bool,
    ) -> Result<u16, Refused> {
        let none = Refused::Drop(Reason::NoServer);
        let settings = &self.services.get(key.service).ok_or(none)?.settings;
        let has_affinity = settings.affinity.is_some();
        // Nothing shows there that a client's address is not forged: none is noted.
        let is_by_address = has_affinity && settings.is_direct;
        // What nothing vouches for has to be able to make room, however the table was filled.
        let by_hash_alone = is_by_address || settings.is_direct && self.connections.is_half_full();
        let before = self.server_before(key);
        // Without being remembered too: a later packet of the connection goes the same way when there is room
        // again.
        let unremembered = before.or_else(|| self.by_hash(key)).ok_or(none)?;
        // A reset begins nothing.
        let begins = segment.is_none_or(|segment| !segment.has(flag::RST));
        let is_full = self.connections.is_full();
        if !begins || !self.connections.takes_half_open() || is_full && !self.makes_room() {
            self.turnover.stateless += 1;
            return Ok(unremembered);
        }
        // The middle of a connection that is not known went where Maglev sent its SYN, and what may have to
        // make room goes there from its first packet on.
        let is_new = (is_syn || segment.is_none()) && !by_hash_alone && !is_full && before.is_none();
        let server = match is_new {
            true => self.services.for_new(key.service, choice_hash(key, has_affinity)).ok_or(none)?,
            false => unremembered,
        };
        let is_direct = self.services.rewrite(server).is_some_and(|server| server.is_direct);
        let state = if is_syn || is_direct { State::Opening } else { State::OneSided };
        match self.open(key, server, state) {
            Some(_) => {
                self.turnover.opened += 1;
                Ok(server)
            }
            // All places that its hash may have are taken.
            None => {
                self.turnover.stateless += 1;
                Ok(unremembered)
            }
        }
    }

    /// Ends a connection of a full table: the oldest half-open one, or an idle one whose answers do not pass;
    /// false, and nothing ends, when the packets of neither would go to the same server then.
    fn makes_room(&mut self) -> bool {
        let oldest = self.connections.oldest_half_open().filter(|oldest| self.goes_the_same_way(*oldest));
        let Some(number) = oldest.or_else(|| self.idle_and_direct()) else { return false };
        self.close(number);
        self.turnover.evicted += 1;
        true
    }

    /// Whether a connection's packets go to its server without being remembered too, or it is down.
    fn goes_the_same_way(&self, number: u32) -> bool {
        let (key, server) = (self.connections.key(number), self.connections.server(number));
        !self.services.is_up(server)
            || self.server_before(&key).or_else(|| self.by_hash(&key)) == Some(server)
    }

    /// Of the next ones round the table, the one that has been idle longest of those that no answer vouches
    /// for and that lose no server by it: the approximate order of a clock, without a list that each packet
    /// would have to keep.
    fn idle_and_direct(&mut self) -> Option<u32> {
        if !self.services.has_direct() {
            return None;
        }
        let mut found: Option<(u32, u32)> = None;
        for _ in 0..COMPARED.min(self.connections.bound()) {
            self.hand = self.after(self.hand);
            let number = self.hand;
            let Some(idle) = self.connections.idle(number) else { continue };
            let is_direct = || {
                let server = self.services.rewrite(self.connections.server(number));
                server.is_some_and(|server| server.is_direct)
            };
            if found.is_none_or(|(most, _)| idle > most) && is_direct() && self.goes_the_same_way(number) {
                found = Some((idle, number));
            }
        }
        found.map(|(_, number)| number)
    }

    /// Both sides have agreed; where answers do not pass, the client has sent a second packet.
    fn confirm(&mut self, number: u32, state: State) {
        self.connections.set_state(number, state);
        let key = self.connections.key(number);
        let settings = self.services.get(key.service).map(|service| &service.settings);
        let affinity = settings.filter(|settings| !settings.is_direct).and_then(|settings| settings.affinity);
        if let Some(span) = affinity {
            let (server, now) = (self.connections.server(number), self.connections.now);
            let expires = now.wrapping_add(span);
            self.affinity.note(&Known { client: key.client, service: key.service, server, expires }, now);
        }
    }

    fn step_of_client(&mut self, number: u32, key: &Key, segment: Option<Segment>) {
        let is_direct = self.services.get(key.service).is_some_and(|service| service.settings.is_direct);
        let Some(state) = self.connections.state(number) else { return };
        let Some(segment) = segment else {
            match state {
                State::Opening if is_direct => self.confirm(number, State::Udp),
                // It goes on, whether it is answered or not.
                _ => self.connections.refresh(number),
            }
            return;
        };
        if segment.flags & (flag::SYN | flag::RST) != 0 && state.is_half_open() {
            return;
        }
        match state {
            State::Opening if is_direct => self.confirm(number, State::Established),
            State::Answered
                if segment.has(flag::ACK) && segment.acknowledgment == self.connections.expected(number) =>
            {
                self.confirm(number, State::Established);
                self.step_of_both(number, State::Established, segment);
            }
            State::Opening | State::Answered | State::OneSided => {}
            _ => self.step_of_both(number, state, segment),
        }
    }

    /// A packet from a server: what it makes of its connection, if that is known.
    pub fn server_packet(&mut self, key: &Key, server: u16, segment: Option<Segment>) {
        let Some(number) = self.find(key) else { return };
        let Some(state) = self.connections.state(number) else { return };
        if self.connections.server(number) != server {
            return;
        }
        let Some(segment) = segment else {
            match state {
                State::OneSided => self.confirm(number, State::Udp),
                _ => self.connections.refresh(number),
            }
            return;
        };
        match state {
            State::Opening | State::Answered | State::OneSided if segment.has(flag::RST) => {
                self.close(number)
            }
            State::Opening | State::Answered if segment.has(flag::SYN) => {
                self.connections.answered(number, segment.sequence.wrapping_add(1));
            }
            State::OneSided if !segment.has(flag::SYN) => self.confirm(number, State::Established),
            State::Opening | State::Answered | State::OneSided => {}
            _ => self.step_of_both(number, state, segment),
        }
    }

    /// What either side's segment makes of a connection that both have agreed to.
    fn step_of_both(&mut self, number: u32, state: State, segment: Segment) {
        let next = match state {
            // What comes next shows whether the other side believed it.
            _ if segment.has(flag::RST) => State::Reset,
            _ if segment.has(flag::FIN) => State::Closing,
            // The client's next connection from the same port, with the same server: a forged SYN changes
            // nothing.
            State::Closing if segment.has(flag::SYN) => State::Established,
            State::Reset => State::Established,
            state => state,
        };
        // A segment that is sent again gives no further time to what was reset.
        if !(state == State::Reset && next == State::Reset) {
            self.connections.set_state(number, next);
        }
    }
}
