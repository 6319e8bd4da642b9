// UNSAFETY: a memory file is made here, through the kernel's interface.
// Miri knows no memory files; `tests/sandbox/clones.rs` runs it.
#![allow(unsafe_code)]
//! A snapshot's memory in a sealed file, which any number of instances map until they write.

use snapshot::{Memory, PAGE};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd};
use std::os::unix::fs::FileExt;

/// Bytes of a function's name in the file's: the kernel takes 249 in all.
const LONGEST_NAME: usize = 200;

/// Memory that clones share. Nothing can change it once it is made.
#[derive(Debug)]
pub struct SharedMemory {
    file: File,
    /// Bytes up to the last page that is not zero.
    bytes: usize,
    /// Where it is not zero.
    used: Vec<Range<usize>>,
}

impl SharedMemory {
    /// A snapshot's memory. The function's name is part of the file's, so that `/proc/PID/smaps` tells whose
    /// clones take how much.
    ///
    /// # Errors
    /// The kernel's refusal to make the file or to write it.
    pub fn new(function: &str, memory: &Memory<'_>) -> io::Result<SharedMemory> {
        let end = function.floor_char_boundary(LONGEST_NAME);
        let shown = function.get(..end).unwrap_or_default().replace('\0', "");
        let name = CString::new(format!("superfluid-clones:{shown}"))?;
        let bytes = memory.pages().last().map_or(0, |page| (page.number as usize + 1) * PAGE);
        // SAFETY: a valid C string; the result is checked before it is taken as a descriptor.
        let file = unsafe {
            let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING | libc::MFD_NOEXEC_SEAL;
            let mut fd = libc::memfd_create(name.as_ptr(), flags);
            if fd < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
                // Before Linux 6.3 there is no such flag.
                fd = libc::memfd_create(name.as_ptr(), flags & !libc::MFD_NOEXEC_SEAL);
            }
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            File::from_raw_fd(fd)
        };
        file.set_len(bytes as u64)?;
        let mut used: Vec<Range<usize>> = Vec::new();
        let mut page = [0; PAGE];
        for (entry, lines) in memory.iter() {
            let start = entry.number as usize * PAGE;
            page.fill(0);
            entry.place(lines, &mut page);
            file.write_all_at(&page, start as u64)?;
            match used.last_mut().filter(|range| range.end == start) {
                Some(range) => range.end += PAGE,
                None => used.push(start..start + PAGE),
            }
        }
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE | libc::F_SEAL_SEAL;
        // SAFETY: a plain system call on a descriptor that we own.
        if unsafe { libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&file), libc::F_ADD_SEALS, seals) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(SharedMemory { file, bytes, used })
    }

    /// Bytes that it takes: its pages that are not zero.
    pub fn resident(&self) -> u64 {
        self.used.iter().map(Range::len).sum::<usize>() as u64
    }

    /// Whether it is this memory, byte by byte.
    pub fn holds(&self, memory: &Memory<'_>) -> bool {
        let mut pages = self.used.iter().flat_map(|range| range.clone().step_by(PAGE));
        let mut same = memory.pages().iter().all(|page| pages.next() == Some(page.number as usize * PAGE));
        same &= pages.next().is_none();
        let (mut here, mut there) = ([0; PAGE], [0; PAGE]);
        same && memory.iter().all(|(entry, lines)| {
            there.fill(0);
            entry.place(lines, &mut there);
            let read = self.file.read_exact_at(&mut here, entry.number as u64 * PAGE as u64);
            read.is_ok() && here == there
        })
    }

    /// Bytes to be mapped.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where it is not zero, in order.
    pub(crate) fn used(&self) -> &[Range<usize>] {
        &self.used
    }
}

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
