// UNSAFETY: address space is reserved, protected, mapped and cleared here, through the kernel's interface.
// Miri and Kani know no mmap; the tests in `tests/sandbox` run it.
#![allow(unsafe_code)]
//! Shells: reserved address space with a packet window in it, made ready before it is needed and used again.
//!
//! A shell belongs to a key (pool, protection of the window). It goes back only to its own key, cleared, with
//! its private part shrunk to nothing beyond what is resident and zero, so nothing of a former life can be
//! seen.

use crate::shared_memory::SharedMemory;
use crate::touched::make_resident;
use nf_abi::WINDOW_BASE;
use packet_memory::{PageKind, Pool};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Bytes that a guest can name with a 32-bit address.
pub(crate) const RESERVATION: usize = 4 << 30;
/// Bytes behind them that no mapping ever covers: largest constant offset that needs no check of its own.
pub(crate) const GUARD: usize = 32 << 20;
/// Shells start at multiples of this, so that the window can use huge pages.
const ALIGNMENT: usize = 2 << 20;
/// Ordinary page.
pub(crate) const PAGE: usize = 4 << 10;
/// Private memory up to here is cleared page by page where it is resident; beyond, it is given back.
const CLEARED_IN_PLACE: usize = 256 << 10;
/// Most shells that wait for use, for each key.
const MOST_SPARE: usize = 64;
/// Most shells that are made in advance, for each key.
const MOST_READY: usize = 512;
/// What a guest may do with the packets that it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read them.
    Read,
    /// Read and write them.
    Write,
}

impl Access {
    fn protection(self) -> libc::c_int {
        match self {
            Access::Read => libc::PROT_READ,
            Access::Write => libc::PROT_READ | libc::PROT_WRITE,
        }
    }
}

/// Reserved address space, mapped and ready.
#[derive(Debug)]
pub(crate) struct Shell {
    base: usize,
    /// Bytes from the base on that can be read and written.
    private: usize,
    /// Bytes from the base on that are a clone's: private pages over memory that others share.
    shared: usize,
    /// Private memory up to here is about to come from another shell.
    expected: usize,
    /// Pages up to here may be huge ones, or were populated in advance; beyond the private part they are
    /// inaccessible until it grows.
    populated: usize,
    /// Its memory is inaccessible and stays so: it is not used again.
    lost: bool,
    /// Keeps the window's memory alive.
    pool: Arc<Pool>,
    access: Access,
}

impl Shell {
    fn reserve(pool: &Arc<Pool>, access: Access) -> io::Result<Shell> {
        let length = RESERVATION + GUARD;
        // SAFETY: a new inaccessible mapping at an address of the kernel's choice; then its misaligned ends,
        // which no other code knows of yet, are given back.
        let base = unsafe {
            let start = map(std::ptr::null_mut(), length + ALIGNMENT, libc::PROT_NONE, RESERVE, -1)?;
            let base = start.next_multiple_of(ALIGNMENT);
            if base > start {
                libc::munmap(start as *mut _, base - start);
            }
            let end = start + length + ALIGNMENT;
            if end > base + length {
                libc::munmap((base + length) as *mut _, end - (base + length));
            }
            base
        };
        let shell = Shell {
            base,
            private: 0,
            shared: 0,
            expected: 0,
            populated: 0,
            lost: false,
            pool: pool.clone(),
            access,
        };
        small_pages(base, WINDOW_BASE as usize);
        let memory = pool.memory();
        // A handful of large pages is entered at once; thousands of small ones are when they are first
        // touched, most of them never.
        let populate = if memory.pages() == PageKind::Huge { libc::MAP_POPULATE } else { 0 };
        // SAFETY: the range lies inside the reservation: a pool is at most 1 GiB and the window begins at 2
        // GiB.
        unsafe {
            map(
                (base + WINDOW_BASE as usize) as *mut _,
                memory.len(),
                access.protection(),
                libc::MAP_SHARED | libc::MAP_FIXED | populate,
                memory.as_fd().as_raw_fd(),
            )?;
        }
        Ok(shell)
    }

    /// Host address of guest address zero.
    pub(crate) fn base(&self) -> *mut u8 {
        self.base as *mut u8
    }

    /// Makes `[0, bytes)` readable and writable.
    pub(crate) fn make_private(&mut self, bytes: usize) -> io::Result<()> {
        let bytes = bytes.next_multiple_of(PAGE);
        if bytes <= self.private {
            return Ok(());
        }
        if bytes > WINDOW_BASE as usize {
            return Err(io::Error::other("private memory ends where the window begins"));
        }
        if bytes <= self.expected {
            self.private = bytes;
            return Ok(());
        }
        let (start, length) = (self.base + self.private, bytes - self.private);
        // SAFETY: inside the reservation and below the window, as just checked.
        unsafe {
            if libc::mprotect(start as *mut _, length, libc::PROT_READ | libc::PROT_WRITE) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        self.private = bytes;
        Ok(())
    }

    /// Populates `[0, bytes)` with pages, huge ones where there are any: the calls that use it first do not
    /// fault. Pages beyond the private part stay inaccessible until it grows to them. Advice only: where the
    /// kernel refuses, pages come as they are touched. Memory that is shared with others is left as it is.
    pub(crate) fn populate(&mut self, bytes: usize) {
        let bytes = bytes.min(WINDOW_BASE as usize).next_multiple_of(PAGE);
        if self.shared > 0 || bytes == 0 {
            return;
        }
        let beyond = ((self.base + self.private) as *mut libc::c_void, bytes.saturating_sub(self.private));
        // SAFETY: inside the reservation and below the window; nothing of the guest runs now.
        let protect = |how| beyond.1 == 0 || unsafe { libc::mprotect(beyond.0, beyond.1, how) } == 0;
        let within =
            if protect(libc::PROT_READ | libc::PROT_WRITE) { bytes } else { self.private.min(bytes) };
        self.populated = self.populated.max(within);
        make_resident(self.base, within);
        if !protect(libc::PROT_NONE) {
            // It is accessible now, so it is private memory that the engine does not know of: cleared with
            // the rest.
            self.private = self.private.max(within);
        }
    }

    /// Makes exactly `[0, bytes)` readable and writable: what a former user of the shell had beyond must
    /// trap.
    pub(crate) fn make_private_only(&mut self, bytes: usize) -> io::Result<()> {
        let bytes = bytes.next_multiple_of(PAGE);
        if bytes < self.private {
            let (start, length) = ((self.base + bytes) as *mut libc::c_void, self.private - bytes);
            // SAFETY: inside the private part, which is not in use yet.
            if unsafe { libc::mprotect(start, length, libc::PROT_NONE) } != 0 {
                return Err(io::Error::last_os_error());
            }
            self.private = bytes;
        }
        self.make_private(bytes)
    }

    /// Whether pages of private memory that are touched from now on are huge ones. Advice only.
    pub(crate) fn advise_huge(&mut self, huge: bool) {
        if self.private < ALIGNMENT || self.shared > 0 {
            return;
        }
        if huge {
            self.populated = self.private;
            // SAFETY: advice for the private part; it changes no byte. What instantiation wrote lies on small
            // pages at its beginning, and is moved to a huge one.
            unsafe {
                libc::madvise(self.base as *mut _, self.private, libc::MADV_HUGEPAGE);
                libc::madvise(self.base as *mut _, ALIGNMENT, libc::MADV_COLLAPSE);
            }
        } else {
            small_pages(self.base, self.private);
        }
    }

    /// Whether its memory stays inaccessible.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost
    }

    /// Makes memory accessible again that a watchdog made inaccessible over a call; whether that could be
    /// done.
    pub(crate) fn reopen(&mut self) -> bool {
        let (window, pool) = (self.base + WINDOW_BASE as usize, self.pool.memory().len());
        // SAFETY: the private part and the window of this shell's own reservation, as they were before.
        let opened = unsafe {
            libc::mprotect(self.base as *mut _, self.private, libc::PROT_READ | libc::PROT_WRITE) == 0
                && libc::mprotect(window as *mut _, pool, self.access.protection()) == 0
        };
        self.lost |= !opened;
        opened
    }

    /// Puts shared memory in the place of private memory, up to its last byte that is not zero: what is read
    /// comes from there, what is written is this shell's own. What was in that place is gone.
    pub(crate) fn map_shared(&mut self, memory: &SharedMemory) -> io::Result<()> {
        let bytes = memory.bytes();
        if bytes > self.private {
            return Err(io::Error::other("shared memory that ends beyond private memory"));
        }
        if bytes == 0 {
            return Ok(());
        }
        // Noted first: a shell of which it is not known what it maps is cleared as one that maps shared
        // memory.
        self.shared = bytes;
        // SAFETY: inside the private part, as just checked. The mapping is private: the file, sealed, stays
        // as it is.
        unsafe {
            map(
                self.base as *mut _,
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE,
                memory.as_fd().as_raw_fd(),
            )?;
        }
        Ok(())
    }

    /// Private memory up to here will come from another shell: until then it is not made ready.
    pub(crate) fn expect(&mut self, bytes: usize) {
        self.expected = bytes.next_multiple_of(PAGE);
    }

    /// Moves the pages of private memory from one shell to another, where what was there is gone. What they
    /// leave behind is empty, and as accessible as before.
    ///
    /// # Errors
    /// The kernel's refusal: the memory is where it was, and the other shell's private memory is unknown.
    pub(crate) fn move_private(from: &mut Shell, to: &mut Shell) -> io::Result<()> {
        to.expected = 0;
        if to.populated > to.private {
            to.forget(to.private, to.populated)?;
        }
        to.populated = 0;
        if from.private != to.private || from.shared > 0 || to.shared > 0 {
            return Err(io::Error::other("private memory of different sizes, or shared with others"));
        }
        let (old, new, length) = (from.base as *mut libc::c_void, to.base as *mut libc::c_void, from.private);
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
        // SAFETY: both ranges are private parts of reservations that are in our hands, and no guest runs in
        // them. The old range stays mapped, so that no other mapping can come to lie there.
        if length == 0 || unsafe { libc::mremap(old, length, length, flags, new) } != libc::MAP_FAILED {
            // Huge pages stay huge where they come to.
            to.populated = from.populated.min(length);
            return Ok(());
        }
        let refusal = io::Error::last_os_error();
        // The kernel may have cleared the way before it refused: the reservation must have no hole.
        // SAFETY: it replaces nothing; where something is left, it is our own reservation.
        match unsafe { map(new, length, libc::PROT_NONE, RESERVE | libc::MAP_FIXED_NOREPLACE, -1) } {
            Ok(_) => to.private = 0,
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
            // A hole in which others' memory could come to lie would be in reach of a guest.
            Err(_) => std::process::abort(),
        }
        Err(refusal)
    }

    /// Zeroes the private part and makes all of it inaccessible but `keep` bytes.
    fn clear(&mut self, keep: usize) -> io::Result<()> {
        if self.lost {
            return Err(io::Error::other("its memory is inaccessible"));
        }
        if self.shared > 0 {
            // Given back pages would be the shared memory's again, not zero: the mapping has to go.
            self.forget(0, self.private)?;
            (self.shared, self.private) = (0, 0);
            return Ok(());
        }
        self.expected = 0;
        let mut keep = keep.next_multiple_of(PAGE).min(self.private).min(CLEARED_IN_PLACE);
        if self.populated > 0 {
            // A part of a huge page would keep all of it.
            keep = 0;
            if self.populated > self.private {
                self.discard(self.private, self.populated - self.private)?;
            }
            self.populated = 0;
        }
        if self.private > keep {
            self.discard(keep, self.private - keep)?;
            let (start, length) = ((self.base + keep) as *mut libc::c_void, self.private - keep);
            // SAFETY: inside the private part, which is not in use any more.
            if unsafe { libc::mprotect(start, length, libc::PROT_NONE) } != 0 {
                return Err(io::Error::last_os_error());
            }
            self.private = keep;
        }
        let mut resident = [0u8; CLEARED_IN_PLACE / PAGE];
        // SAFETY: the range is mapped and the vector has one byte for each of its pages.
        if keep > 0 && unsafe { libc::mincore(self.base as *mut _, keep, resident.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut first = 0;
        for run in resident[..keep / PAGE].chunk_by(|a, b| a & 1 == b & 1) {
            let (start, length) = (first * PAGE, run.len() * PAGE);
            if run[0] & 1 != 0 {
                // SAFETY: inside the private part, which is not in use any more.
                unsafe { std::ptr::write_bytes(self.base().add(start), 0, length) };
            } else {
                // Not resident is either never touched or swapped out, and the latter is still a guest's
                // data.
                self.discard(start, length)?;
            }
            first += run.len();
        }
        Ok(())
    }

    /// Makes `[start, end)` of the private part reserved address space again, of which no page is left.
    fn forget(&mut self, start: usize, end: usize) -> io::Result<()> {
        // SAFETY: inside the reservation and below the window; nothing uses the private part any more.
        unsafe {
            map((self.base + start) as *mut _, end - start, libc::PROT_NONE, RESERVE | libc::MAP_FIXED, -1)?
        };
        small_pages(self.base + start, end - start);
        Ok(())
    }

    /// Gives private pages back to the kernel, wherever they are; they read as zero from then on.
    fn discard(&mut self, start: usize, length: usize) -> io::Result<()> {
        // SAFETY: inside the private part, which is not in use any more.
        match unsafe { libc::madvise((self.base + start) as *mut _, length, libc::MADV_DONTNEED) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // SAFETY: the reservation made in `reserve`, given back once.
        unsafe { libc::munmap(self.base as *mut _, RESERVATION + GUARD) };
    }
}

const RESERVE: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

/// Has pages of a reservation come in 4 KiB when they are touched: a guest that touches one byte in each huge
/// page would have the kernel zero 2 MiB for each. Advice only: a kernel without huge pages refuses it.
fn small_pages(start: usize, bytes: usize) {
    // SAFETY: advice for a mapping of this shell; it changes no byte.
    unsafe { libc::madvise(start as *mut _, bytes, libc::MADV_NOHUGEPAGE) };
}

/// # Safety
/// As for mmap(2): with MAP_FIXED the range must belong to the caller.
unsafe fn map(
    at: *mut libc::c_void,
    length: usize,
    protection: libc::c_int,
    flags: libc::c_int,
    fd: libc::c_int,
) -> io::Result<usize> {
    // SAFETY: the caller's promise.
    let address = unsafe { libc::mmap(at, length, protection, flags, fd, 0) };
    if address == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(address as usize) }
}

/// The shells that wait for use, by key.
#[derive(Debug, Default)]
pub(crate) struct Shells {
    spare: Mutex<HashMap<Key, Spare>>,
}

/// Shells of one key.
#[derive(Debug)]
struct Spare {
    shells: Vec<Shell>,
    pool: Weak<Pool>,
    /// How many were taken since [`Shells::refill`] was last called, less those that came back since and were
    /// kept.
    out: isize,
    /// The most that this has been: how many had to be ready. Functions that are only tried, one after the
    /// other, need one between them, however many they are.
    most_out: usize,
    /// How many are to be ready; it follows how many had to be.
    wanted: usize,
    /// Bytes of private memory that the last one was taken for.
    private: usize,
}

impl Spare {
    fn new(pool: &Arc<Pool>) -> Spare {
        Spare { shells: Vec::new(), pool: Arc::downgrade(pool), out: 0, most_out: 0, wanted: 0, private: 0 }
    }

    /// Most that are kept.
    fn most(&self) -> usize {
        MOST_SPARE.max(self.wanted)
    }
}

/// Address of the pool and protection. The address stays valid for as long as a shell of the key exists,
/// because the shell keeps its pool.
type Key = (usize, Access);

/// How many shells wait for use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShellCounts {
    /// Cleared and ready.
    pub spare: usize,
}

fn key(pool: &Arc<Pool>, access: Access) -> Key {
    (Arc::as_ptr(pool) as usize, access)
}

impl Shells {
    /// A shell with this window, from the spare ones or new, to be given so much private memory. Those that
    /// are made in advance have as much.
    pub(crate) fn take(&self, pool: &Arc<Pool>, access: Access, private: usize) -> io::Result<Shell> {
        let spare = {
            let mut all = self.lock();
            let spare = all.entry(key(pool, access)).or_insert_with(|| Spare::new(pool));
            spare.out += 1;
            spare.most_out = spare.most_out.max(spare.out.max(0) as usize);
            spare.private = private.min(CLEARED_IN_PLACE);
            spare.shells.pop()
        };
        match spare {
            Some(shell) => Ok(shell),
            None => Shell::reserve(pool, access).map_err(explain),
        }
    }

    /// Takes a shell back, cleared; `keep` is the private size that most users of the key want.
    pub(crate) fn put_back(&self, mut shell: Shell, keep: usize) {
        if shell.clear(keep).is_err() {
            return; // Unmapped by its drop: what could not be cleared is never shown to a guest.
        }
        let mut all = self.lock();
        let spare = all.entry(key(&shell.pool, shell.access)).or_insert_with(|| Spare::new(&shell.pool));
        if spare.shells.len() < spare.most() {
            spare.out -= 1;
            spare.shells.push(shell);
        }
    }

    /// Makes shells where they are taken, twice as many as were out at a time since the last call, and gives
    /// those up that are not taken any more. Says whether any were taken. To be called every few
    /// milliseconds, on a thread that no other waits for.
    pub(crate) fn refill(&self) -> io::Result<bool> {
        let (mut missing, mut superfluous, mut busy) = (Vec::new(), Vec::new(), false);
        self.lock().retain(|(_, access), spare| {
            let needed = std::mem::take(&mut spare.most_out);
            spare.out = 0;
            busy |= needed > 0;
            spare.wanted = (needed * 2).max(spare.wanted - spare.wanted.div_ceil(16)).min(MOST_READY);
            superfluous.extend(spare.shells.drain(spare.most().min(spare.shells.len())..));
            let Some(pool) = spare.pool.upgrade() else { return false };
            let count = spare.wanted.saturating_sub(spare.shells.len());
            missing.push((pool, *access, count, spare.private));
            true
        });
        drop(superfluous);
        for (pool, access, count, private) in missing {
            for _ in 0..count {
                let mut shell = Shell::reserve(&pool, access).map_err(explain)?;
                shell.make_private(private).map_err(explain)?;
                if let Some(spare) = self.lock().get_mut(&key(&pool, access)) {
                    spare.shells.push(shell);
                }
            }
        }
        Ok(busy)
    }

    pub(crate) fn counts(&self) -> ShellCounts {
        ShellCounts { spare: self.lock().values().map(|spare| spare.shells.len()).sum() }
    }

    /// Gives up the shells of a pool that is going away.
    pub(crate) fn forget(&self, pool: &Arc<Pool>) {
        let mut spare = self.lock();
        for access in [Access::Read, Access::Write] {
            spare.remove(&key(pool, access));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Spare>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says what a refusal of the kernel usually means here.
fn explain(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENOMEM) => io::Error::new(
            error.kind(),
            "no address space or no mapping left for another instance (each needs 4 GiB of address space and three \
             mappings; `sysctl vm.max_map_count` shows the limit on mappings, `sysctl -w vm.max_map_count=262144` \
             raises it)",
        ),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet_memory::PoolConfig;

    fn pool() -> Arc<Pool> {
        let config = PoolConfig { buffers: 16, pages: Some(PageKind::Ordinary), ..PoolConfig::default() };
        Arc::new(Pool::new("shells", config).expect("a small pool"))
    }

    #[test]
    fn a_used_shell_comes_back_clean_and_only_to_its_key() {
        let (shells, here, there) = (Shells::default(), pool(), pool());
        let mut shell = shells.take(&here, Access::Read, 0).expect("address space");
        shell.make_private(300 << 10).expect("private");
        let base = shell.base();
        // SAFETY: just made private.
        unsafe { std::ptr::write_bytes(base, 0xa5, 300 << 10) };
        shells.put_back(shell, 128 << 10);
        assert_eq!(shells.counts().spare, 1);

        let other = shells.take(&there, Access::Read, 0).expect("address space");
        assert_ne!(other.base(), base, "never to another tenant");
        let other = shells.take(&here, Access::Write, 0).expect("address space");
        assert_ne!(other.base(), base, "never with another protection");
        let mut again = shells.take(&here, Access::Read, 0).expect("the spare one");
        assert_eq!(again.base(), base);
        assert_eq!(again.private, 128 << 10, "what the former user had beyond is inaccessible");
        again.make_private(300 << 10).expect("private");
        // SAFETY: just made private.
        let bytes = unsafe { std::slice::from_raw_parts(again.base(), 300 << 10) };
        assert!(bytes.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn as_many_are_made_in_advance_as_are_taken() {
        let (shells, pool) = (Shells::default(), pool());
        let taken: Vec<Shell> =
            (0..5).map(|_| shells.take(&pool, Access::Read, 0).expect("address space")).collect();
        assert_eq!(shells.counts().spare, 0);
        assert!(shells.refill().expect("address space"));
        assert_eq!(shells.counts().spare, 10);
        let again = shells.take(&pool, Access::Read, 3 * PAGE).expect("a spare one");
        assert_eq!((shells.counts().spare, again.private), (9, 0));
        drop((taken, again));
        // As much of those that are made is private as the last one was taken for.
        let rest: Vec<Shell> =
            (0..9).map(|_| shells.take(&pool, Access::Read, 3 * PAGE).expect("a spare one")).collect();
        assert!(shells.refill().expect("address space"));
        let mut made = shells.take(&pool, Access::Read, PAGE).expect("a spare one");
        assert_eq!(made.private, 3 * PAGE);
        made.make_private_only(PAGE).expect("private");
        assert_eq!(made.private, PAGE, "the one that takes it has what it asks for");
        drop((rest, made));
        // None is taken any more: what is wanted falls, and nothing is made.
        assert!(shells.refill().expect("address space"));
        for _ in 0..100 {
            assert!(!shells.refill().expect("nothing to do"));
        }
        assert!(shells.counts().spare <= 20);
        // With its pool everything goes.
        let before = Arc::strong_count(&pool);
        shells.forget(&pool);
        assert!(Arc::strong_count(&pool) < before);
        assert_eq!(shells.counts().spare, 0);
    }

    #[test]
    fn shells_that_come_back_at_once_have_no_others_made() {
        let (shells, pool) = (Shells::default(), pool());
        for _ in 0..100 {
            let shell = shells.take(&pool, Access::Read, 0).expect("address space");
            shells.put_back(shell, 0);
        }
        assert!(shells.refill().expect("address space"), "some were taken");
        assert_eq!(shells.counts().spare, 2, "twice as many as were out at a time");
        // What comes back from long ago serves what comes next: nothing has to be made for them.
        let taken: Vec<Shell> =
            (0..8).map(|_| shells.take(&pool, Access::Read, 0).expect("address space")).collect();
        shells.refill().expect("address space");
        let ready = shells.counts().spare;
        taken.into_iter().for_each(|shell| shells.put_back(shell, 0));
        let again: Vec<Shell> =
            (0..8).map(|_| shells.take(&pool, Access::Read, 0).expect("a spare one")).collect();
        assert!(!shells.refill().expect("nothing to do"), "none was missing");
        assert!(shells.counts().spare <= ready);
        // More come back than are kept: those that are given up serve nothing.
        let many: Vec<Shell> =
            (0..100).map(|_| shells.take(&pool, Access::Read, 0).expect("address space")).collect();
        for _ in 0..500 {
            shells.refill().expect("address space");
        }
        many.into_iter().chain(again).for_each(|shell| shells.put_back(shell, 0));
        assert_eq!(shells.counts().spare, MOST_SPARE);
        let taken: Vec<Shell> =
            (0..90).map(|_| shells.take(&pool, Access::Read, 0).expect("address space")).collect();
        assert!(shells.refill().expect("address space"), "some were missing");
        drop(taken);
    }

    #[test]
    fn pages_that_were_populated_are_given_back_whole_where_they_were_moved_to() {
        const SIZE: usize = 4 << 20;
        let (shells, pool) = (Shells::default(), pool());
        let [mut from, mut to] = [0; 2].map(|_| shells.take(&pool, Access::Read, 0).expect("address space"));
        for shell in [&mut from, &mut to] {
            shell.make_private(SIZE).expect("private");
        }
        from.populate(SIZE);
        // SAFETY: just made private.
        unsafe { from.base().write(0xa5) };
        Shell::move_private(&mut from, &mut to).expect("it moves");
        // SAFETY: private, with what was moved.
        assert_eq!(unsafe { to.base().read() }, 0xa5);
        // A part of a huge page that is kept would keep all of it.
        to.clear(PAGE).expect("it is cleared");
        assert_eq!(to.private, 0);
        // Pages that come one by one are kept in place.
        from.populated = 0;
        from.clear(PAGE).expect("it is cleared");
        assert_eq!(from.private, PAGE);
    }

    #[test]
    fn private_memory_ends_at_the_window() {
        let mut shell = Shells::default().take(&pool(), Access::Read, 0).expect("address space");
        assert!(shell.make_private(WINDOW_BASE as usize + 1).is_err());
    }
}
