//! Many instances of one snapshot, which share its memory until they write.
//!
//! The life of clones:
//! 1. [`Clones::new`] puts a snapshot's memory into a sealed memory file, once.
//! 2. [`Clones::start`] makes an instance and maps the file privately into its shell: what the instance reads
//!    is shared by all, a page that it writes becomes its own.
//! 3. A clone that ends leaves its shell without that mapping: the next guest in the shell begins with
//!    zeroes.
//!
//! A clone has the memory, the globals and the deadline of the saved instance. It is an instance of its own,
//! so it begins without what can be in one place only: packets, log lines and events; and its counters begin
//! at 0. For the packets that the saved instance held, it is as if they had been held for too long.
//!
//! Limits: memory that the snapshot has as zero is shared up to its last byte that is not; clones have no
//! huge pages in that part. Clones of one snapshot may belong to several tenants only if those may know of
//! each other which pages of it they read: reading brings shared pages into the processor's caches.

use crate::error::{InstanceError, RestoreError};
use crate::program::Program;
use crate::restore::{self, Content, Pace, Source, revive};
use crate::settings::InstanceSettings;
use crate::shared_memory::SharedMemory;
use guest::Guest;
use packet_memory::Pool;
use snapshot::{HostState, Identity, Saved};
use std::sync::Arc;
use wasmtime::Val;

/// A snapshot that instances are made of by the thousand.
pub struct Clones {
    program: Arc<Program>,
    memory: Arc<SharedMemory>,
    size: u64,
    values: Vec<Val>,
    identity: Identity,
    host: HostState,
}

impl Clones {
    /// Makes the memory that all will share.
    ///
    /// # Errors
    /// [`RestoreError`]: it is no snapshot of this program, or there is no memory for it.
    pub fn new(program: &Arc<Program>, saved: &Saved<'_>) -> Result<Clones, RestoreError> {
        let values = restore::check(program, saved)?;
        let memory = SharedMemory::new(&program.facts().name, &saved.memory).map_err(|error| {
            let (name, reason) = (program.facts().name.clone(), error.to_string());
            RestoreError::Instance(InstanceError::Memory { name, reason })
        })?;
        let host = HostState {
            batch: saved.host.batch,
            now: saved.host.now,
            deadline: saved.host.deadline,
            counters: vec![0; saved.host.counters.len()],
            ..HostState::default()
        };
        Ok(Clones {
            program: program.clone(),
            memory: Arc::new(memory),
            size: saved.memory.size(),
            values,
            identity: saved.identity.clone(),
            host,
        })
    }

    /// Makes one more, of the kind that the settings ask for.
    ///
    /// # Errors
    /// [`RestoreError`]; everything taken is given back.
    pub fn start(
        &self,
        pool: &Arc<Pool>,
        settings: InstanceSettings,
    ) -> Result<Box<dyn Guest>, RestoreError> {
        let pace = Pace::new(&settings);
        let mut state = restore::state(&self.program, pool, settings, &self.identity)?;
        state.restore(&self.host);
        let content = Content {
            memory: Source::Shared(&self.memory),
            size: self.size,
            values: &self.values,
            batch: self.host.batch,
        };
        revive(&self.program, pace, &content, &mut state)
    }

    /// Bytes that all share: pages of the snapshot that are not zero.
    pub fn shared_bytes(&self) -> usize {
        self.memory.used().iter().map(std::ops::Range::len).sum()
    }

    /// The configuration that the saved instance was told, and that its clones have.
    pub fn config(&self) -> &[u8] {
        &self.identity.config
    }
}

impl std::fmt::Debug for Clones {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clones")
            .field("name", &self.identity.name)
            .field("shared_bytes", &self.shared_bytes())
            .finish_non_exhaustive()
    }
}
