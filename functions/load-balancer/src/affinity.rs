//! Which server a client's connections went to before.
//!
//! A client is in one of four places, which its address and service choose; the one whose time is over first
//! makes room. Only connections that both sides have agreed to are noted, so that forged sources push out no
//! client. Where answers do not pass (`forward: direct`) that cannot be known, and none is noted.

use crate::ends::Words;
use alloc::boxed::Box;
use nf_sdk::keyed_hash::{KeyedHash, two};
use nf_sdk::{HalfLine, zeroed_table};

/// Places that a client may be in.
const WAYS: usize = 4;
/// Words of an entry: the client's address, then these.
const SERVICE: usize = 4;
const SERVER: usize = 5;
const EXPIRES: usize = 6;
const TAKEN: usize = 7;

/// Clients by address and service.
pub struct Affinity {
    lines: Box<[HalfLine]>,
    hash: KeyedHash<3>,
}

/// What is known of a client: its address, the service and the server, and when that ends, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Address.
    pub client: Words,
    /// Service.
    pub service: u16,
    /// Server.
    pub server: u16,
    /// When it ends.
    pub expires: u32,
}

impl Affinity {
    /// For so many clients; `None` when there is no memory for them. `seed`: the table's secret.
    pub fn new(clients: usize, seed: u64) -> Option<Affinity> {
        let sets = clients.div_ceil(WAYS);
        Some(Affinity { lines: zeroed_table(sets * WAYS)?, hash: KeyedHash::new(seed) })
    }

    fn set(&self, client: &Words, service: u16) -> usize {
        let [a, b, c, d] = *client;
        let hash = self.hash.of(&[two(a, b), two(c, d), u64::from(service)]);
        hash as usize % (self.lines.len() / WAYS).max(1) * WAYS
    }

    /// The server that a client's connections go to.
    pub fn find(&self, client: &Words, service: u16, now: u32) -> Option<u16> {
        let set = self.set(client, service);
        let is_same = |line: &&HalfLine| {
            line.0[TAKEN] != 0
                && line.0[..SERVICE] == *client
                && line.0[SERVICE] == u32::from(service)
                && line.0[EXPIRES].wrapping_sub(now) as i32 > 0
        };
        self.lines.get(set..set + WAYS)?.iter().find(is_same).map(|line| line.0[SERVER] as u16)
    }

    /// Notes where a client's connection went.
    pub fn note(&mut self, known: &Known, now: u32) {
        let set = self.set(&known.client, known.service);
        let Some(ways) = self.lines.get_mut(set..set + WAYS) else { return };
        let service = u32::from(known.service);
        let is_same = |line: &HalfLine| {
            line.0[TAKEN] != 0 && line.0[..SERVICE] == known.client && line.0[SERVICE] == service
        };
        let left = |line: &HalfLine| match line.0[TAKEN] {
            0 => i64::MIN,
            _ => i64::from(line.0[EXPIRES].wrapping_sub(now) as i32),
        };
        let place = ways.iter().position(is_same).or_else(|| (0..WAYS).min_by_key(|way| left(&ways[*way])));
        if let Some(line) = place.and_then(|place| ways.get_mut(place)) {
            let [a, b, c, d] = known.client;
            *line = HalfLine([a, b, c, d, service, u32::from(known.server), known.expires, 1]);
        }
    }

    /// All that are known.
    pub fn iter(&self, now: u32) -> impl Iterator<Item = Known> + '_ {
        let is_live =
            move |line: &&HalfLine| line.0[TAKEN] != 0 && line.0[EXPIRES].wrapping_sub(now) as i32 > 0;
        self.lines.iter().filter(is_live).map(|line| {
            let [a, b, c, d, service, server, expires, _] = line.0;
            Known { client: [a, b, c, d], service: service as u16, server: server as u16, expires }
        })
    }
}
