// UNSAFETY: this is where Wasmtime is handed the memory that compiled code works on without bounds checks.
// Miri runs no compiled code; `tests/sandbox` does.
#![allow(unsafe_code)]
//! A guest's linear memory, for Wasmtime: the private part of a shell. The window is not part of its size.

use crate::shell::{Access, GUARD, RESERVATION, Shell, Shells};
use crate::watchdog;
use packet_memory::Pool;
use std::cell::RefCell;
use std::sync::Arc;
use wasmtime::{LinearMemory, MemoryCreator, MemoryType};

/// What the next memory made by this thread is to be: Wasmtime's interface has no room for an argument.
pub(crate) struct MemoryRequest {
    pub(crate) pool: Arc<Pool>,
    pub(crate) access: Access,
    /// Most bytes of private memory.
    pub(crate) limit: u64,
}

thread_local! {
    static REQUEST: RefCell<Option<MemoryRequest>> = const { RefCell::new(None) };
}

/// Runs `instantiate` so that the memory it makes meets the request.
pub(crate) fn with_request<T>(request: MemoryRequest, instantiate: impl FnOnce() -> T) -> T {
    REQUEST.set(Some(request));
    let result = instantiate();
    REQUEST.set(None);
    result
}

/// Makes guests' memories out of shells.
pub(crate) struct ShellMemoryCreator(pub(crate) Arc<Shells>);

// SAFETY: memories are reserved in full (`RESERVATION` and `GUARD` behind it), never move, are zero when made, and
// every address of the reservation is private memory, the window, or inaccessible.
unsafe impl MemoryCreator for ShellMemoryCreator {
    fn new_memory(
        &self,
        _type: MemoryType,
        minimum: usize,
        _maximum: Option<usize>,
        reserved: Option<usize>,
        guard: usize,
    ) -> Result<Box<dyn LinearMemory>, String> {
        let request = REQUEST.take().ok_or("a memory that nobody asked for")?;
        if reserved.is_none_or(|bytes| bytes > RESERVATION) || guard > GUARD {
            return Err(format!("a reservation of {reserved:?} and {guard} bytes is more than a shell has"));
        }
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        if minimum > limit {
            return Err(format!("the module needs {minimum} bytes of memory, its manifest allows {limit}"));
        }
        let mut shell = self.0.take(&request.pool, request.access).map_err(|error| error.to_string())?;
        shell.make_private_only(minimum).map_err(|error| error.to_string())?;
        Ok(Box::new(GuestMemory {
            shells: self.0.clone(),
            shell: Some(shell),
            size: minimum,
            minimum,
            limit,
        }))
    }
}

struct GuestMemory {
    shells: Arc<Shells>,
    /// Present until the drop.
    shell: Option<Shell>,
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
        if watchdog::overdue() {
            wasmtime::bail!("the call that asks for more memory is overdue");
        }
        if size > self.limit {
            wasmtime::bail!("{size} bytes are more than the {} that the manifest allows", self.limit);
        }
        if let Some(shell) = &mut self.shell {
            shell.make_private(size)?;
        }
        self.size = size;
        Ok(())
    }

    fn as_ptr(&self) -> *mut u8 {
        self.shell.as_ref().map_or(std::ptr::null_mut(), Shell::base)
    }
}

impl Drop for GuestMemory {
    fn drop(&mut self) {
        if let Some(shell) = self.shell.take() {
            self.shells.put_back(shell, self.minimum);
        }
    }
}
