//! Memory of snapshots that functions share until they write it.
//!
//! 1. A function that begins as a snapshot maps the snapshot's memory, instead of a copy of it.
//!    [`SharedImages::of`] makes that memory, or finds the one that another function of the same tenant and
//!    image maps already: it has to be the same byte by byte.
//! 2. It exists for as long as a function maps it.
//! 3. Its tenant is charged for it once, beside what its functions are promised, since they may come to write
//!    all of it. Where there is no room for that, the function gets a copy in its own memory, which it is
//!    promised anyway.
//!
//! Tenants share nothing with each other: which pages of it are read shows in the processor's caches.

use guest_wasm::SharedMemory;
use snapshot::Saved;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct SharedImages {
    list: Mutex<Vec<Shared>>,
}

#[derive(Debug)]
struct Shared {
    tenant: String,
    /// The digest of the function's image.
    image: [u8; 32],
    memory: Weak<SharedMemory>,
}

impl SharedImages {
    /// The memory of a snapshot for a function of a tenant. `has_room` is asked whether the tenant may be
    /// charged for so many bytes more; `None`: it may not.
    ///
    /// # Errors
    /// The kernel's refusal of memory.
    pub(crate) fn of(
        &self,
        tenant: &str,
        saved: &Saved<'_>,
        has_room: impl FnOnce(u64) -> bool,
    ) -> io::Result<Option<Arc<SharedMemory>>> {
        let image = saved.identity.image;
        let there: Vec<Arc<SharedMemory>> = {
            let list = self.list();
            let of = list.iter().filter(|shared| shared.tenant == tenant && shared.image == image);
            of.filter_map(|shared| shared.memory.upgrade()).collect()
        };
        // To compare takes as long as to read the memory: nothing is held meanwhile.
        if let Some(same) = there.into_iter().find(|memory| memory.holds(&saved.memory)) {
            return Ok(Some(same));
        }
        let bytes = saved.memory.pages().len() as u64 * snapshot::PAGE as u64;
        if !has_room(bytes) {
            return Ok(None);
        }
        let memory = Arc::new(SharedMemory::new(&saved.identity.name, &saved.memory)?);
        let shared = Shared { tenant: tenant.to_owned(), image, memory: Arc::downgrade(&memory) };
        self.list().push(shared);
        Ok(Some(memory))
    }

    /// Bytes that a tenant is charged for.
    pub fn bytes_of(&self, tenant: &str) -> u64 {
        let list = self.list();
        let of = list.iter().filter(|shared| shared.tenant == tenant);
        of.filter_map(|shared| shared.memory.upgrade()).map(|memory| memory.resident()).sum()
    }

    /// Those that exist; the others are forgotten.
    fn list(&self) -> MutexGuard<'_, Vec<Shared>> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.retain(|shared| shared.memory.strong_count() > 0);
        list
    }
}
