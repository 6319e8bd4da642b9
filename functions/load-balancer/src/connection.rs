//! Connections by client, in memory that is taken once.
//!
//! 1. A connection is found by its client's address and port, the port that the client sends to and the
//!    service. Answers have the same key: the server's address and port tell the service. One line of the
//!    index and the entry are touched, whichever way a packet goes.
//! 2. Entries are half a cache line; the rest of an IPv6 address stands in a table of its own.
//! 3. Those that only one side has agreed to ([`State::is_half_open`]) are in a list, the oldest first: they
//!    have a bound of their own, and when the table is full the oldest makes room. Of others only those whose
//!    answers do not pass do ([`crate::balancer`]), by how long they have been idle ([`Connections::idle`]).

use crate::ends::Words;
use alloc::boxed::Box;
use nf_sdk::index::Index;
use nf_sdk::keyed_hash::{KeyedHash, two};
use nf_sdk::slab::Slab;
use nf_sdk::{HalfLine, QuarterLine, zeroed_table};

/// What a client and a service have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// The client's address.
    pub client: Words,
    /// As packets have them: the client's port in the lower half, the one that it sends to in the upper.
    pub ports: u32,
    /// The service.
    pub service: u16,
    /// The addresses are of IPv6.
    pub is_v6: bool,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// The client has sent a SYN; where answers do not pass, anything.
    Opening = 1,
    /// The server has answered it.
    Answered = 2,
    /// The client has sent something else, and the server has not answered.
    OneSided = 3,
    /// Both sides of a TCP connection have agreed.
    Established = 4,
    /// One side has ended it.
    Closing = 5,
    /// One side has reset it. Any other packet shows that the other side did not believe that.
    Reset = 6,
    /// UDP of both sides.
    Udp = 7,
}

impl State {
    /// A state by its number.
    pub fn of(number: u32) -> Option<State> {
        use State::*;
        [Opening, Answered, OneSided, Established, Closing, Reset, Udp]
            .into_iter()
            .find(|state| *state as u32 == number)
    }

    /// Only one side has agreed.
    pub fn is_half_open(self) -> bool {
        matches!(self, State::Opening | State::Answered | State::OneSided)
    }
}

/// Words of an entry.
pub mod at {
    /// The client's address; of IPv6 its last word.
    pub const CLIENT: usize = 0;
    /// Ports, as [`super::Key`] has them.
    pub const PORTS: usize = 1;
    /// The server in the lower half, the service in the upper.
    pub const OWNER: usize = 2;
    /// State, and [`super::IS_V6`].
    pub const STATE: usize = 3;
    /// When it ends, in ticks.
    pub const EXPIRES: usize = 4;
    /// The acknowledgment that shows that the client has seen the server's SYN.
    pub const EXPECTED: usize = 5;
    /// The next one of those that are half open.
    pub const NEXT: usize = 6;
    /// The one before it.
    pub const PREVIOUS: usize = 7;
}

/// Of a state: the addresses are of IPv6.
pub const IS_V6: u32 = 0x100;
/// The states, a bit each, in which a packet without SYN, FIN and RST changes nothing but the time.
const USUAL: u32 = 1 << State::Established as u32 | 1 << State::Closing as u32 | 1 << State::Udp as u32;

/// How long connections may be idle, in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// TCP, both sides have agreed.
    pub tcp: u32,
    /// TCP, ended or reset.
    pub closing: u32,
    /// UDP.
    pub udp: u32,
    /// Only one side has agreed.
    pub opening: u32,
}

/// All connections.
pub struct Connections {
    entries: Slab<HalfLine>,
    /// The first three words of IPv6 addresses, by entry.
    upper: Box<[QuarterLine]>,
    index: Index,
    hash: KeyedHash<3>,
    /// Now, in ticks.
    pub now: u32,
    /// By state.
    timeouts: [u32; 8],
    oldest: u32,
    newest: u32,
    half_open: usize,
    max_half_open: usize,
}

impl Connections {
    /// None yet; `None` when there is no memory for so many. `seed`: the index' secret.
    pub fn new(max: usize, max_half_open: usize, timeouts: Timeouts, seed: u64) -> Option<Connections> {
        let Timeouts { tcp, closing, udp, opening } = timeouts;
        Some(Connections {
            entries: Slab::new(max)?,
            upper: zeroed_table(max + 1)?,
            index: Index::new(max)?,
            hash: KeyedHash::new(seed),
            now: 0,
            timeouts: [0, opening, opening, opening, tcp, closing, closing, udp],
            oldest: 0,
            newest: 0,
            half_open: 0,
            max_half_open,
        })
    }

    /// Connections, ended ones that were not swept yet included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Most connections.
    pub fn limit(&self) -> usize {
        self.entries.limit()
    }

    /// Those that only one side has agreed to.
    pub fn half_open(&self) -> usize {
        self.half_open
    }

    /// One more than the largest number of an entry so far.
    pub fn bound(&self) -> u32 {
        self.entries.bound()
    }

    /// The hash of a key of IPv4.
    #[inline(always)]
    pub fn hash4(&self, client: u32, ports: u32, service: u16) -> u64 {
        self.hash.of_first(&[two(ports, u32::from(service)), u64::from(client)])
    }

    fn hash(&self, key: &Key) -> u64 {
        let [a, b, c, d] = key.client;
        if !key.is_v6 {
            return self.hash4(a, key.ports, key.service);
        }
        self.hash.of(&[two(key.ports, u32::from(key.service)), two(a, b), two(c, d)])
    }

    /// Reads the index' line of a hash, to have it in the cache.
    #[inline(always)]
    pub fn touch_index(&self, hash: u64) -> u32 {
        self.index.touch(hash)
    }

    /// The entry that a hash probably has.
    #[inline(always)]
    pub fn probable(&self, hash: u64) -> u32 {
        self.index.probable(hash)
    }

    /// Reads a word of an entry, to have it in the cache.
    #[inline(always)]
    pub fn touch(&self, number: u32) -> u32 {
        self.entries.get(number).0[at::STATE]
    }

    /// The words of an entry; zeros where there is none.
    #[inline(always)]
    pub fn get(&self, number: u32) -> &[u32; 8] {
        &self.entries.get(number).0
    }

    /// The owner of an IPv4 connection with this key, if a packet without SYN, FIN and RST that came by this
    /// interface (0: from the client) changes nothing of it but the time, which is brought up to date.
    #[inline(always)]
    pub fn usual(&mut self, number: u32, client: u32, ports: u32, service: u16, ingress: u32) -> Option<u32> {
        if number >= self.entries.bound() {
            return None;
        }
        let now = self.now;
        let words = &mut self.entries.get_mut(number).0;
        let differs = words[at::CLIENT] ^ client
            | words[at::PORTS] ^ ports
            | words[at::OWNER] >> 16 ^ u32::from(service);
        // A state of IPv6 is beyond the bits.
        let state = words[at::STATE];
        let left = words[at::EXPIRES].wrapping_sub(now) as i32;
        if differs != 0 || state >= 8 || left <= 0 {
            return None;
        }
        if USUAL >> state & 1 != 0 {
            words[at::EXPIRES] = now.wrapping_add(self.timeouts[state as usize & 7]);
            return Some(words[at::OWNER]);
        }
        // What the server has not answered gets more time, and its place in the list, when half of it is
        // over.
        let one_sided = State::OneSided as u32;
        let is_early =
            state == one_sided && ingress == 0 && left > (self.timeouts[one_sided as usize] / 2) as i32;
        if !is_early {
            return None;
        }
        Some(words[at::OWNER])
    }

    /// The key of an entry.
    pub fn key(&self, number: u32) -> Key {
        let words = self.get(number);
        let is_v6 = words[at::STATE] & IS_V6 != 0;
        let mut client = [words[at::CLIENT], 0, 0, 0];
        if is_v6 && let Some(QuarterLine(upper)) = self.upper.get(number as usize) {
            for (word, four) in client.iter_mut().zip(upper.as_chunks::<4>().0) {
                *word = u32::from_le_bytes(*four);
            }
            client[3] = words[at::CLIENT];
        }
        Key { client, ports: words[at::PORTS], service: (words[at::OWNER] >> 16) as u16, is_v6 }
    }

    /// The entry of a key whose time is not over; one whose time is over is told by `Err`.
    pub fn find(&self, key: &Key) -> Option<Result<u32, u32>> {
        let number = self.index.find(self.hash(key), |number| self.key(number) == *key)?;
        let is_live = self.get(number)[at::EXPIRES].wrapping_sub(self.now) as i32 > 0;
        Some(if is_live { Ok(number) } else { Err(number) })
    }

    /// The state of an entry.
    pub fn state(&self, number: u32) -> Option<State> {
        State::of(self.get(number)[at::STATE] & 0xff)
    }

    /// The server of an entry.
    pub fn server(&self, number: u32) -> u16 {
        self.get(number)[at::OWNER] as u16
    }

    /// Whether another one that only one side has agreed to may come.
    pub fn takes_half_open(&self) -> bool {
        self.half_open < self.max_half_open
    }

    /// All are taken.
    pub fn is_full(&self) -> bool {
        self.entries.is_full()
    }

    /// At least half of all are taken.
    pub fn is_half_full(&self) -> bool {
        self.entries.len() * 2 >= self.entries.limit()
    }

    /// How long a connection has been idle, in ticks, if it is not half open and that is as long as one that
    /// is half open may be.
    pub fn idle(&self, number: u32) -> Option<u32> {
        let state = self.state(number).filter(|state| !state.is_half_open())?;
        let left = self.get(number)[at::EXPIRES].wrapping_sub(self.now) as i32;
        let idle = self.timeouts[state as usize].saturating_sub(left.max(0) as u32);
        (idle >= self.timeouts[State::Opening as usize]).then_some(idle)
    }

    /// The oldest that only one side has agreed to.
    pub fn oldest_half_open(&self) -> Option<u32> {
        (self.oldest != 0).then_some(self.oldest)
    }

    /// Puts a connection in whose key is not there; `None` when there is no room.
    pub fn insert(&mut self, key: &Key, server: u16, state: State) -> Option<u32> {
        let hash = self.hash(key);
        let mut words = [0; 8];
        words[at::CLIENT] = if key.is_v6 { key.client[3] } else { key.client[0] };
        words[at::PORTS] = key.ports;
        words[at::OWNER] = u32::from(server) | u32::from(key.service) << 16;
        let number = self.entries.take(HalfLine(words))?;
        if !self.index.insert(hash, number) {
            self.entries.give_back(number);
            return None;
        }
        if key.is_v6 {
            let mut upper = [0; 16];
            for (four, word) in upper.as_chunks_mut::<4>().0.iter_mut().zip(&key.client[..3]) {
                *four = word.to_le_bytes();
            }
            self.upper[number as usize] = QuarterLine(upper);
            self.entries.get_mut(number).0[at::STATE] = IS_V6;
        }
        self.set_state(number, state);
        Some(number)
    }

    /// Takes an entry out.
    pub fn remove(&mut self, number: u32) {
        if self.state(number).is_some_and(State::is_half_open) {
            self.unlink(number);
        }
        let hash = self.hash(&self.key(number));
        self.index.remove(hash, number);
        self.entries.give_back(number);
    }

    /// Changes an entry's state; its time begins anew.
    pub fn set_state(&mut self, number: u32, state: State) {
        if self.state(number).is_some_and(State::is_half_open) {
            self.unlink(number);
        }
        let words = &mut self.entries.get_mut(number).0;
        words[at::STATE] = words[at::STATE] & IS_V6 | state as u32;
        words[at::EXPIRES] = self.now.wrapping_add(self.timeouts[state as usize]);
        if state.is_half_open() {
            self.link(number);
        }
    }

    /// Gives an entry more time.
    pub fn refresh(&mut self, number: u32) {
        if let Some(state) = self.state(number) {
            self.set_state(number, state);
        }
    }

    /// Sets when an entry ends; no later than its state allows.
    pub fn set_left(&mut self, number: u32, left: u32) {
        let now = self.now;
        let words = &mut self.entries.get_mut(number).0;
        let most = self.timeouts[words[at::STATE] as usize & 7];
        words[at::EXPIRES] = now.wrapping_add(left.min(most));
    }

    /// The server has answered a SYN: what the client acknowledges if it has seen that. The time goes on.
    pub fn answered(&mut self, number: u32, expected: u32) {
        let words = &mut self.entries.get_mut(number).0;
        words[at::STATE] = words[at::STATE] & IS_V6 | State::Answered as u32;
        words[at::EXPECTED] = expected;
    }

    /// The acknowledgment that shows that the client has seen the server's SYN.
    pub fn expected(&self, number: u32) -> u32 {
        self.get(number)[at::EXPECTED]
    }

    /// The oldest one that only one side has agreed to, if its time is over.
    pub fn expired_half_open(&self) -> Option<u32> {
        let is_over = self.get(self.oldest)[at::EXPIRES].wrapping_sub(self.now) as i32 <= 0;
        (self.oldest != 0 && is_over).then_some(self.oldest)
    }

    /// Whether an entry's time is over.
    pub fn is_over(&self, number: u32) -> bool {
        let words = self.get(number);
        words[at::STATE] & 0xff != 0 && words[at::EXPIRES].wrapping_sub(self.now) as i32 <= 0
    }

    fn link(&mut self, number: u32) {
        let before = core::mem::replace(&mut self.newest, number);
        if before == 0 {
            self.oldest = number;
        } else {
            self.entries.get_mut(before).0[at::NEXT] = number;
        }
        let words = &mut self.entries.get_mut(number).0;
        (words[at::PREVIOUS], words[at::NEXT]) = (before, 0);
        self.half_open += 1;
    }

    fn unlink(&mut self, number: u32) {
        let words = self.get(number);
        let (before, after) = (words[at::PREVIOUS], words[at::NEXT]);
        if before == 0 {
            self.oldest = after;
        } else {
            self.entries.get_mut(before).0[at::NEXT] = after;
        }
        if after == 0 {
            self.newest = before;
        } else {
            self.entries.get_mut(after).0[at::PREVIOUS] = before;
        }
        self.half_open -= 1;
    }
}
