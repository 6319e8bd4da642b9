//! Which remote addresses a mapping lets in, with address-dependent filtering.

use nf_sdk::HalfLine;
use nf_sdk::index::Index;
use nf_sdk::keyed_hash::{KeyedHash, two};
use nf_sdk::slab::Slab;
use nf_sdk::wire::Address;

/// The addresses that inside ends have sent to, for address-dependent filtering: how many sessions a mapping
/// has with each remote address.
pub struct Permissions {
    entries: Slab<HalfLine>,
    index: Index,
    hash: KeyedHash<1>,
}

impl Permissions {
    /// Room for as many as there are sessions; `None` when there is no memory for it. `seed`: the index'
    /// secret.
    pub fn new(limit: usize, seed: u64) -> Option<Permissions> {
        let (entries, index) = (Slab::new(limit)?, Index::new(limit)?);
        Some(Permissions { entries, index, hash: KeyedHash::new(seed) })
    }

    fn find(&self, mapping: u32, remote: Address) -> (u64, Option<u32>) {
        let hash = self.hash.of(&[two(mapping, remote)]);
        let found = self.index.find(hash, |number| {
            let [_, of, address, count, ..] = self.entries.get(number).0;
            count != 0 && of == mapping && address == remote
        });
        (hash, found)
    }

    /// Whether the mapping has a session with this address.
    pub fn has(&self, mapping: u32, remote: Address) -> bool {
        self.find(mapping, remote).1.is_some()
    }

    /// The mapping has another session with this address. What finds no room is refused by the filter.
    pub fn add(&mut self, mapping: u32, remote: Address) {
        match self.find(mapping, remote) {
            (_, Some(number)) => self.entries.get_mut(number).0[3] += 1,
            (hash, None) => {
                let entry = HalfLine([0, mapping, remote, 1, 0, 0, 0, 0]);
                if let Some(number) = self.entries.take(entry)
                    && !self.index.insert(hash, number)
                {
                    self.entries.give_back(number);
                }
            }
        }
    }

    /// The mapping has one less.
    pub fn remove(&mut self, mapping: u32, remote: Address) {
        let (hash, Some(number)) = self.find(mapping, remote) else { return };
        let count = &mut self.entries.get_mut(number).0[3];
        *count -= 1;
        if *count == 0 {
            self.index.remove(hash, number);
            self.entries.give_back(number);
        }
    }
}
