// UNSAFETY: a signal handler is installed here, which maps memory in the place of a peer's that is gone. It
// calls only `mmap` and `sigaction`, which are plain system calls, and touches atomics alone. Miri knows no
// signals; `tests::memory` runs it with files that are cut and files whose pages are given back.
#![allow(unsafe_code)]
//! Surviving memory that its owner takes away.
//!
//! Reading or writing a mapping behind the end of its file, or a huge page that was given back when none is
//! free, raises SIGBUS. QEMU seals its memory against shrinking, DPDK does not, and no seal keeps huge pages.
//! So each mapping of a peer is noted in a table; the handler puts private, empty memory in the place of one
//! that faults, says so in the table, and the access is done again. What else raises SIGBUS is left to the
//! handler before.

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, fence};

/// Mappings of peers that a process can have.
const SLOTS: usize = 2048;

/// A mapping, for the handler. `version` is odd while the others change.
struct Slot {
    taken: AtomicBool,
    version: AtomicU32,
    start: AtomicUsize,
    length: AtomicUsize,
    lost: AtomicBool,
}

static TABLE: [Slot; SLOTS] = [const {
    Slot {
        taken: AtomicBool::new(false),
        version: AtomicU32::new(0),
        start: AtomicUsize::new(0),
        length: AtomicUsize::new(0),
        lost: AtomicBool::new(false),
    }
}; SLOTS];

impl Slot {
    fn set(&self, start: usize, length: usize) {
        self.version.fetch_add(1, AcqRel);
        fence(SeqCst);
        self.start.store(start, Relaxed);
        self.length.store(length, Relaxed);
        self.lost.store(false, Relaxed);
        self.version.fetch_add(1, Release);
    }

    /// The mapping that there is, if it has this address. One that is being changed has it not: its owner
    /// does not touch it yet, or no more.
    fn with(&self, address: usize) -> Option<(usize, usize)> {
        let version = self.version.load(Acquire);
        let (start, length) = (self.start.load(Relaxed), self.length.load(Relaxed));
        fence(Acquire);
        let holds = version.is_multiple_of(2) && self.version.load(Relaxed) == version;
        (holds && address.wrapping_sub(start) < length).then_some((start, length))
    }
}

/// A mapping's entry in the table, from after it was made until before it ends.
#[derive(Debug)]
pub(crate) struct Guarded(usize);

impl Guarded {
    /// Notes a mapping.
    ///
    /// # Errors
    /// The table is full, or the handler cannot be installed.
    pub fn new(start: NonNull<u8>, length: usize) -> io::Result<Guarded> {
        install()?;
        let free = |slot: &Slot| slot.taken.compare_exchange(false, true, AcqRel, Relaxed).is_ok();
        let index = TABLE.iter().position(free).ok_or_else(|| {
            io::Error::other(format!("{SLOTS} pieces of memory of peers are mapped, and no more can be"))
        })?;
        TABLE[index].set(start.as_ptr().addr(), length);
        Ok(Guarded(index))
    }

    /// Whether the memory was taken away, and is empty memory of this process's own since.
    #[inline]
    pub fn is_lost(&self) -> bool {
        TABLE[self.0].lost.load(Relaxed)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        TABLE[self.0].set(0, 0);
        TABLE[self.0].taken.store(false, Release);
    }
}

/// The action that was there before.
struct Before(UnsafeCell<MaybeUninit<libc::sigaction>>);

// SAFETY: written once, before the handler that reads it can run.
unsafe impl Sync for Before {}

static BEFORE: Before = Before(UnsafeCell::new(MaybeUninit::zeroed()));

fn install() -> io::Result<()> {
    static DONE: OnceLock<Option<i32>> = OnceLock::new();
    let failed = DONE.get_or_init(|| {
        // SAFETY: a zeroed sigaction is valid; the handler has the signature that SA_SIGINFO asks for. The
        // action before is asked for first, so that the handler never finds none.
        let result = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as extern "C" fn(_, _, _) as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            match libc::sigaction(libc::SIGBUS, std::ptr::null(), (*BEFORE.0.get()).as_mut_ptr()) {
                0 => libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut()),
                failed => failed,
            }
        };
        (result != 0).then(|| io::Error::last_os_error().raw_os_error().unwrap_or(0))
    });
    failed.map_or(Ok(()), |error| Err(io::Error::from_raw_os_error(error)))
}

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo_t to a handler installed with SA_SIGINFO.
    let (address, code) = unsafe { ((*info).si_addr().addr(), (*info).si_code) };
    // A positive code is a fault; others are sent by processes, and have no address.
    let found = TABLE.iter().find_map(|slot| Some((slot, slot.with(address).filter(|_| code > 0)?)));
    // SAFETY: this thread's own errno, which the calls below may change.
    let errno = unsafe { *libc::__errno_location() };
    if let Some((slot, (start, length))) = found {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the place of a mapping of a peer's memory, whose owner touches it just now and so does not
        // end it. It is used by raw pointers and atomics alone, for which other contents are nothing new.
        let mapped = unsafe { libc::mmap(start as *mut libc::c_void, length, protection, flags, -1, 0) };
        if mapped != libc::MAP_FAILED {
            slot.lost.store(true, Relaxed);
            // SAFETY: as above.
            unsafe { *libc::__errno_location() = errno };
            return;
        }
    }
    // SAFETY: the action before is valid. A fault happens again when this returns, and is that one's; what
    // was sent is sent again.
    unsafe {
        libc::sigaction(libc::SIGBUS, (*BEFORE.0.get()).as_ptr(), std::ptr::null_mut());
        if code <= 0 {
            libc::raise(signal);
        }
        *libc::__errno_location() = errno;
    }
}
