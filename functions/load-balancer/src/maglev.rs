//! Consistent hashing by a lookup table (Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load
//! Balancer", NSDI 2016, section 3.4).
//!
//! 1. Each server has an order of preference over all places of the table, made of its address and port.
//! 2. In turns each server takes the first place of its order that is free, until none is. A server of less
//!    weight has fewer turns.
//! 3. A connection's hash leads to a place. When a server goes, its places go to others, and nearly all
//!    others keep theirs, because the orders stay as they are.
//!
//! The hashes have no secret: several balancers with the same servers choose alike, and so does one that was
//! started anew. A client can hence choose among the servers by its port.

use alloc::vec;
use alloc::vec::Vec;
use nf_sdk::index::{finish, mix};

/// Sizes of tables, all prime, so that every step leads through all places.
const SIZES: [usize; 5] = [251, 1021, 4093, 16_381, 65_537];
/// Places for each server, at least: what one has too many is then at most a hundredth (section 5.3), but for
/// more servers than the largest table has room for.
const PER_SERVER: usize = 100;

/// Most places that are looked at for a server that may be chosen. Of 300 servers of which one is up, it is
/// found among so many with a probability of 0.97.
pub const LONGEST_WALK: usize = 1024;

/// A server as the table knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// What is told of servers by place.
    pub number: u16,
    /// Made of its address and port by [`name`].
    pub name: u64,
    /// Share of the places.
    pub weight: u32,
}

/// A server's name: its address and port in a word.
pub fn name(address: [u32; 4], port: u16) -> u64 {
    let [a, b, c, d] = address;
    finish(mix(mix(0x6d61_676c, a, b), c, d), u32::from(port), 1)
}

/// Places of a table for so many servers.
pub fn size(servers: usize) -> usize {
    let wanted = servers.saturating_mul(PER_SERVER);
    SIZES.into_iter().find(|size| *size >= wanted).unwrap_or(SIZES[SIZES.len() - 1])
}

/// The table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maglev {
    places: Vec<u16>,
}

impl Maglev {
    /// A table of `size` places, one of [`size`]; empty without a server of some weight.
    pub fn new(size: usize, members: &[Member]) -> Maglev {
        let most = members.iter().map(|member| member.weight).max().unwrap_or(0);
        if most == 0 || size == 0 {
            return Maglev::default();
        }
        struct Turn {
            next: usize,
            skip: usize,
            credit: u32,
        }
        let turn = |member: &Member| Turn {
            next: (finish(member.name, 2, 0) % size as u64) as usize,
            skip: (finish(member.name, 3, 0) % (size as u64 - 1).max(1)) as usize + 1,
            credit: 0,
        };
        let mut turns: Vec<Turn> = members.iter().map(turn).collect();
        let mut places = vec![u16::MAX; size];
        let mut free = size;
        'fill: loop {
            for (member, turn) in members.iter().zip(&mut turns) {
                turn.credit += member.weight;
                if turn.credit < most {
                    continue;
                }
                turn.credit -= most;
                while places[turn.next] != u16::MAX {
                    turn.next = (turn.next + turn.skip) % size;
                }
                places[turn.next] = member.number;
                free -= 1;
                if free == 0 {
                    break 'fill;
                }
            }
        }
        Maglev { places }
    }

    /// The server of a hash, or the next one that may be chosen; `None` when there is none among
    /// [`LONGEST_WALK`] places.
    pub fn choose(&self, hash: u64, may_be: impl Fn(u16) -> bool) -> Option<u16> {
        let place = ((hash >> 32) * self.places.len() as u64) >> 32;
        let (before, from) = self.places.split_at_checked(place as usize)?;
        from.iter().chain(before).take(LONGEST_WALK).copied().find(|server| may_be(*server))
    }

    /// All places.
    pub fn places(&self) -> &[u16] {
        &self.places
    }
}
