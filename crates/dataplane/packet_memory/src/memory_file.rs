// UNSAFETY: memory is mapped and unmapped here, and only here, through the kernel's interface.
// Miri and Kani know no memory files; `tests/ownership.rs` runs it.
#![allow(unsafe_code)]
//! A sealed memory file, allocated in full and mapped for the host.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// Which pages back a memory file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// 2 MiB pages from the host's reserve.
    Huge,
    /// Ordinary pages.
    Ordinary,
}

impl PageKind {
    /// Bytes in a page.
    pub const fn size(self) -> usize {
        match self {
            PageKind::Huge => 2 << 20,
            PageKind::Ordinary => 4 << 10,
        }
    }
}

/// Memory that can be mapped into several places at once, and cannot shrink under any of them.
#[derive(Debug)]
pub struct MemoryFile {
    file: OwnedFd,
    base: NonNull<u8>,
    length: usize,
    pages: PageKind,
}

// SAFETY: the mapping is plain memory that belongs to this value until it is dropped; all access goes through
// raw pointers.
unsafe impl Send for MemoryFile {}
// SAFETY: as above; a shared MemoryFile hands out a pointer, never a reference.
unsafe impl Sync for MemoryFile {}

impl MemoryFile {
    /// Makes a memory file of at least `length` bytes, rounded up to whole pages, zeroed.
    ///
    /// # Errors
    /// The kernel's refusal: for [`PageKind::Huge`] also when the host has too few huge pages free, told here
    /// and not by a bus error later.
    pub fn new(name: &str, length: usize, pages: PageKind) -> io::Result<MemoryFile> {
        let length = length.max(1).next_multiple_of(pages.size());
        let name = CString::new(name.replace('\0', "")).unwrap_or_default();
        let huge = match pages {
            PageKind::Huge => libc::MFD_HUGETLB | libc::MFD_HUGE_2MB,
            PageKind::Ordinary => 0,
        };
        // SAFETY: a valid C string; the result is checked before it is taken as a descriptor.
        let file = unsafe {
            let fd = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | huge);
            OwnedFd::from_raw_fd(checked(fd)?)
        };
        let fd = file.as_raw_fd();
        let size = libc::off_t::try_from(length).map_err(io::Error::other)?;
        // SAFETY: plain system calls on a descriptor that we own.
        unsafe {
            checked(libc::ftruncate(fd, size))?;
            checked(libc::fallocate(fd, 0, 0, size))?;
            // A memory file can be opened again by a process that has a descriptor of it, with the rights
            // that its mode gives: none to other users.
            checked(libc::fchmod(fd, 0o600))?;
            checked(libc::fcntl(
                fd,
                libc::F_ADD_SEALS,
                libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL,
            ))?;
        }
        // SAFETY: a new shared mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                fd,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        Ok(MemoryFile { file, base, length, pages })
    }

    /// The host's mapping. Valid for [`MemoryFile::len`] bytes as long as this value lives.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// A descriptor by which the memory can be read and never written: not by a mapping, and by a process of
    /// another user not by opening it again either, which the file's mode forbids.
    ///
    /// # Errors
    /// The kernel's refusal; `/proc` has to be there.
    pub fn read_only(&self) -> io::Result<OwnedFd> {
        std::fs::File::open(format!("/proc/self/fd/{}", self.file.as_raw_fd())).map(OwnedFd::from)
    }

    /// Bytes, whole pages.
    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Never: a memory file has at least one page.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The pages behind it.
    pub fn pages(&self) -> PageKind {
        self.pages
    }
}

impl AsFd for MemoryFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `new`, unmapped once.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
