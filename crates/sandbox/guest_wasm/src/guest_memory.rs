// UNSAFETY: this is where Wasmtime is handed the memory that compiled code works on without bounds checks.
// Miri runs no compiled code; `tests/sandbox` does.
#![allow(unsafe_code)]
//! A guest's linear memory, for Wasmtime: the private part of a shell. The window is not part of its size.

use crate::shell::{Access, GUARD, RESERVATION, Shell, Shells};
use crate::watchdog::{self, Reach};
use packet_memory::Pool;
use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wasmtime::{LinearMemory, MemoryCreator, MemoryType};

/// What the next memory made by this thread is to be: Wasmtime's interface has no room for an argument.
pub(crate) struct MemoryRequest {
    pub(crate) pool: Arc<Pool>,
    pub(crate) access: Access,
    /// Most bytes of private memory.
    pub(crate) limit: u64,
    /// What is told where the memory is.
    pub(crate) reach: Arc<Reach>,
}

thread_local! {
    static REQUEST: RefCell<Option<MemoryRequest>> = const { RefCell::new(None) };
    static MADE: RefCell<Option<LentShell>> = const { RefCell::new(None) };
}

/// Runs `instantiate` so that the memory it makes meets the request; the shell behind that memory, if it made
/// one.
pub(crate) fn with_request<T>(
    request: MemoryRequest,
    instantiate: impl FnOnce() -> T,
) -> (T, Option<LentShell>) {
    REQUEST.set(Some(request));
    let result = instantiate();
    REQUEST.set(None);
    (result, MADE.take())
}

/// The shell of a memory that belongs to a store: Wasmtime's interface leaves no way to the memory itself.
#[derive(Clone)]
pub(crate) struct LentShell(Arc<Mutex<Option<Shell>>>);

impl LentShell {
    /// Does something with the shell; `None` when its store has gone.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Shell) -> R) -> Option<R> {
        self.lock().as_mut().map(work)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Shell>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes guests' memories out of shells.
pub(crate) struct ShellMemoryCreator(pub(crate) Arc<Shells>);

// SAFETY: memories are reserved in full (`RESERVATION` and `GUARD` behind it), never move, are zero when
// made, and every address of the reservation is private memory, the window, or inaccessible.
unsafe impl MemoryCreator for ShellMemoryCreator {
    fn new_memory(
        &self,
        _type: MemoryType,
        minimum: usize,
        _maximum: Option<usize>,
        reserved: Option<usize>,
        guard: usize,
    ) -> Result<Box<dyn LinearMemory>, String> {
        let request = REQUEST.take().ok_or("a memory that was not asked for")?;
        if reserved.is_none_or(|bytes| bytes > RESERVATION) || guard > GUARD {
            return Err(format!("a reservation of {reserved:?} and {guard} bytes is more than a shell has"));
        }
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        if minimum > limit {
            return Err(format!("the module needs {minimum} bytes of memory, {limit} are allowed"));
        }
        let shell = self.0.take(&request.pool, request.access, minimum);
        let mut shell = shell.map_err(|error| error.to_string())?;
        shell.make_private_only(minimum).map_err(|error| error.to_string())?;
        let base = shell.base();
        request.reach.is_at(base as usize);
        let shell = LentShell(Arc::new(Mutex::new(Some(shell))));
        MADE.set(Some(shell.clone()));
        Ok(Box::new(GuestMemory {
            shells: self.0.clone(),
            shell,
            base: Base(base),
            size: minimum,
            minimum,
            limit,
        }))
    }
}

/// Host address of guest address zero.
struct Base(*mut u8);

// SAFETY: an address; what is there belongs to the memory beside it.
unsafe impl Send for Base {}
// SAFETY: as above.
unsafe impl Sync for Base {}

struct GuestMemory {
    shells: Arc<Shells>,
    /// There until the drop.
    shell: LentShell,
    base: Base,
    size: usize,
    minimum: usize,
    limit: usize,
}

// SAFETY: the base never moves; `byte_size` bytes from it are always readable and writable; growth up to the
// capacity stays below the window.
unsafe impl LinearMemory for GuestMemory {
    fn byte_size(&self) -> usize {
        self.size
    }

    fn byte_capacity(&self) -> usize {
        RESERVATION
    }

    fn grow_to(&mut self, size: usize) -> wasmtime::Result<()> {
        if size > self.limit {
            wasmtime::bail!("{size} bytes are more than the {} that are allowed", self.limit);
        }
        // A call that is overdue has no more of it.
        watchdog::touch(|| self.shell.with(|shell| shell.make_private(size)))?.transpose()?;
        self.size = size;
        Ok(())
    }

    fn as_ptr(&self) -> *mut u8 {
        self.base.0
    }
}

impl Drop for GuestMemory {
    fn drop(&mut self) {
        let shell = self.shell.lock().take();
        if let Some(shell) = shell {
            self.shells.put_back(shell, self.minimum);
        }
    }
}
