//! Later fragments have no ports, and go where the first one of their datagram went, without being put
//! together.
//!
//! 1. What became of a first fragment is remembered, as the function wants it (`C`): 2,048 of them, the
//!    oldest of four makes room. Which four that are, a secret decides.
//! 2. A later one that comes before the first is held (RFC 4787 REQ-14), at most 64 of them and 16 from one
//!    address. It goes on when the first one comes, in the same batch or later, and is dropped when its time
//!    ([`WAIT`]) is over.
//!
//! A later fragment that overlaps the first one is dropped: it could replace the ports (RFC 1858, RFC 5722).

use crate::keyed_hash::{KeyedHash, two};
use crate::{Nanos, Slot, ticks};
use alloc::vec;
use alloc::vec::Vec;

/// How long a later fragment waits for its first one, unless those are remembered for less: half of the
/// host's longest hold (1 s, unless the operator says otherwise), behind which the host takes packets back.
/// With what ticks and a timer of 250 ms add it stays below that, and the function itself says why the packet
/// is dropped.
pub const WAIT: Nanos = Nanos::from_millis(500);
/// Datagrams remembered at a time.
const DATAGRAMS: usize = 2048;
/// Places that a datagram may be in.
const WAYS: usize = 4;
/// Fragments held at a time.
const HELD: usize = 64;
/// Of these, from one address.
const HELD_OF_ONE: usize = 16;
/// Bytes of fragments held at a time.
const HELD_BYTES: usize = 256 * 1024;

/// What all fragments of a datagram have in common, as they come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Datagram {
    /// Source and destination; of IPv4 one word each, the rest zeros.
    pub addresses: [u32; 8],
    /// The datagram's number.
    pub identification: u32,
    /// Protocol and VLANs.
    pub kind: u32,
    /// The interface that it came in by.
    pub ingress: u16,
}

#[derive(Clone, Copy, Debug)]
struct First<C> {
    datagram: Datagram,
    course: C,
    expires: u32,
    /// Bytes of the datagram that it had.
    length: u32,
}

/// A fragment that waits for the first one.
#[derive(Debug)]
pub struct Held {
    datagram: Datagram,
    /// Where it belongs in the datagram, in bytes.
    pub offset: u32,
    /// The packet's slot.
    pub slot: Slot,
    /// The packet.
    pub bytes: Vec<u8>,
    /// The tenant's mark.
    pub mark: u64,
    expires: u32,
}

/// What becomes of a later fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Later<C> {
    /// It goes where the first one went.
    Follows(C),
    /// It may be held.
    Early,
    /// It overlaps the first one, or there is no room to hold it.
    Refused,
}

/// First fragments that passed and later ones that wait.
pub struct Fragments<C> {
    firsts: Vec<Option<First<C>>>,
    hash: KeyedHash<6>,
    held: Vec<Held>,
    bytes: usize,
    /// Ticks that a first one is remembered for.
    timeout: u32,
    /// Ticks that a later one waits for it.
    wait: u32,
}

impl<C: Copy> Fragments<C> {
    /// No memory is taken before the first fragment. `timeout`: ticks that later fragments may follow the
    /// first one for. `seed`: the table's secret.
    pub fn new(timeout: u32, seed: u64) -> Fragments<C> {
        let wait = timeout.min(ticks::span(WAIT));
        let hash = KeyedHash::new(seed);
        Fragments { firsts: Vec::new(), hash, held: Vec::new(), bytes: 0, timeout, wait }
    }

    /// The first of the places that a datagram may be in.
    fn home(&self, datagram: &Datagram) -> usize {
        let Datagram { addresses: [a, b, c, d, e, f, g, h], identification, kind, ingress } = *datagram;
        let rest = [two(identification, kind), u64::from(ingress)];
        let hash = self.hash.of(&[two(a, b), two(c, d), two(e, f), two(g, h), rest[0], rest[1]]);
        hash as usize % (DATAGRAMS / WAYS) * WAYS
    }

    /// Fragments held.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Remembers a first fragment of `length` bytes behind its header; those that waited for it.
    pub fn first(&mut self, datagram: &Datagram, course: C, length: u32, now: u32) -> Vec<Held> {
        if self.firsts.is_empty() {
            self.firsts = vec![None; DATAGRAMS];
        }
        let home = self.home(datagram);
        let ways = self.firsts.get_mut(home..home + WAYS).unwrap_or_default();
        let is_same = |way: &Option<First<C>>| way.is_some_and(|first| first.datagram == *datagram);
        let place = ways.iter().position(is_same).or_else(|| {
            let left =
                |way: &Option<First<C>>| way.map_or(i32::MIN, |first| first.expires.wrapping_sub(now) as i32);
            (0..ways.len()).min_by_key(|number| left(&ways[*number]))
        });
        if let Some(way) = place.and_then(|place| ways.get_mut(place)) {
            let expires = now.wrapping_add(self.timeout);
            *way = Some(First { datagram: *datagram, course, expires, length });
        }
        let waiting = self.held.extract_if(.., |held| held.datagram == *datagram);
        let mut waiting: Vec<Held> = waiting.collect();
        self.bytes -= waiting.iter().map(|held| held.bytes.len()).sum::<usize>();
        waiting.sort_by_key(|held| held.offset);
        waiting
    }

    /// What becomes of a later fragment of `length` bytes.
    pub fn later(&self, datagram: &Datagram, offset: u32, length: usize, now: u32) -> Later<C> {
        let home = self.home(datagram);
        let ways = self.firsts.get(home..home + WAYS).unwrap_or_default();
        let first = ways
            .iter()
            .flatten()
            .find(|first| first.datagram == *datagram && first.expires.wrapping_sub(now) as i32 > 0);
        if let Some(first) = first {
            return if offset >= first.length { Later::Follows(first.course) } else { Later::Refused };
        }
        let of_one = self.held.iter().filter(|held| held.datagram.addresses[..4] == datagram.addresses[..4]);
        if self.held.len() >= HELD || of_one.count() >= HELD_OF_ONE || self.bytes + length > HELD_BYTES {
            return Later::Refused;
        }
        Later::Early
    }

    /// Holds a later fragment, for [`WAIT`] at most.
    pub fn hold(&mut self, datagram: &Datagram, offset: u32, packet: (Slot, Vec<u8>, u64), now: u32) {
        let (slot, bytes, mark) = packet;
        self.bytes += bytes.len();
        let expires = now.wrapping_add(self.wait);
        self.held.push(Held { datagram: *datagram, offset, slot, bytes, mark, expires });
    }

    /// Fragments that waited for too long, or all of them.
    pub fn expired(&mut self, now: u32, all: bool) -> Vec<Held> {
        let over = self.held.extract_if(.., |held| all || held.expires.wrapping_sub(now) as i32 <= 0);
        let over: Vec<Held> = over.collect();
        self.bytes -= over.iter().map(|held| held.bytes.len()).sum::<usize>();
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(identification: u32) -> Datagram {
        let addresses = [0x0a00_0001, 0xc000_0201, 0, 0, 0, 0, 0, 0];
        Datagram { addresses, identification, kind: 17, ingress: 0 }
    }

    /// What a table says of a datagram when these have come behind it.
    fn later(mut table: Fragments<u8>, known: Datagram, rivals: &[Datagram]) -> Later<u8> {
        for (number, datagram) in [known].iter().chain(rivals).enumerate() {
            table.first(datagram, number as u8, 8, 0);
        }
        table.later(&known, 8, 8, 1)
    }

    /// Datagrams that were chosen to push one out do so under the secret that they were chosen for.
    #[test]
    fn what_pushes_out_what_is_a_secret() {
        let table = |seed| Fragments::<u8>::new(100, seed);
        let (one, known) = (table(1), datagram(0));
        let all = (1..1 << 16).map(datagram);
        let rivals: Vec<_> = all.filter(|other| one.home(other) == one.home(&known)).take(WAYS).collect();
        assert_eq!(rivals.len(), WAYS);
        assert_eq!(later(one, known, &rivals), Later::Early);
        for seed in 2..20 {
            assert_eq!(later(table(seed), known, &rivals), Later::Follows(0), "seed {seed}");
        }
    }
}
