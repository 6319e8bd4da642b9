// UNSAFETY: the kernel is asked which pages exist, through an ioctl that writes into a buffer of ours.
// Miri knows no page tables; the tests below run it.
#![allow(unsafe_code)]
//! Which pages of a range of this process's memory may hold anything: all others are zero because they were
//! never touched.
//!
//! Three ways, the first that works: the kernel lists them (PAGEMAP_SCAN, Linux 6.7), the kernel says it page
//! by page (`/proc/self/pagemap`), or all are looked at. mincore(2) is none of them: it does not tell a page
//! that was swapped out from one that never was.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

const PAGE: usize = 4096;
const HUGE_PAGE: usize = 2 << 20;

/// `struct page_region` of linux/fs.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

/// `struct pm_scan_arg` of linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct ScanArgument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::c_ulong =
    (3 << 30) | ((size_of::<ScanArgument>() as libc::c_ulong) << 16) | (0x66 << 8) | 16;
/// It is a file's, or memory that others have as well.
const PAGE_IS_FILE: u64 = 1 << 2;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
const PAGE_IS_PFNZERO: u64 = 1 << 5;

/// Bits of an entry of `/proc/self/pagemap` (Documentation/admin-guide/mm/pagemap.rst).
const ENTRY_PRESENT: u64 = 1 << 63;
const ENTRY_SWAPPED: u64 = 1 << 62;
const ENTRY_FILE: u64 = 1 << 61;

/// Bytes of `[base, base + bytes)` of this process's memory that are there, in memory or swapped out, and are
/// not shared with others. What is not mapped any more counts for nothing. Costs a system call for some
/// hundred runs of pages, and stops no thread.
pub fn resident(base: usize, bytes: usize) -> u64 {
    if base == 0 || !base.is_multiple_of(PAGE) {
        return 0;
    }
    let mut runs = Vec::new();
    find(base, bytes, Whose::Own, &mut runs);
    runs.iter().map(|run| run.len() as u64).sum()
}

/// Populates the pages of `[base, base + bytes)` of this process's private memory: what writes to them next
/// does not wait for the kernel. They are huge pages where 2 MiB of the range can be one, also where small
/// ones were there before: large tables are walked at random, and with small pages every step would also miss
/// the TLB. What they hold stays as it is. Advice only: where the kernel refuses, nothing changes.
///
/// Pages that are touched later in the same mapping are small ones, whatever the system's setting.
pub fn make_resident(base: usize, bytes: usize) {
    let bytes = bytes - bytes % PAGE;
    if base != 0 && base.is_multiple_of(PAGE) && bytes > 0 {
        let huge = bytes >= HUGE_PAGE;
        let advise = |advice| {
            // SAFETY: the kernel fills page tables and changes no byte; a range that is not mapped, or not
            // writable, it refuses.
            unsafe { libc::madvise(base as *mut _, bytes, advice) };
        };
        if huge {
            advise(libc::MADV_HUGEPAGE);
        }
        advise(libc::MADV_POPULATE_WRITE);
        if huge {
            advise(libc::MADV_COLLAPSE);
            advise(libc::MADV_NOHUGEPAGE);
        }
    }
}

/// Adds the pages of `[base, base + length)` that may hold anything to `out`, as byte ranges counted from the
/// base, in order. `base` is at a page's beginning; an incomplete page at the end is left out.
pub(crate) fn touched(base: usize, length: usize, out: &mut Vec<Range<usize>>) {
    find(base, length, Whose::Any, out);
}

/// Which pages are meant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// All.
    Any,
    /// Those that are not shared with others.
    Own,
}

fn find(base: usize, length: usize, whose: Whose, out: &mut Vec<Range<usize>>) {
    static PAGEMAP: OnceLock<Option<File>> = OnceLock::new();
    let length = length - length % PAGE;
    let pagemap = PAGEMAP.get_or_init(|| File::open("/proc/self/pagemap").ok()).as_ref();
    let found = pagemap.is_some_and(|file| {
        listed(file, base, length, whose, out).is_some() || asked(file, base, length, whose, out).is_some()
    });
    if !found && length > 0 {
        add(out, 0..length);
    }
}

fn add(out: &mut Vec<Range<usize>>, range: Range<usize>) {
    match out.last_mut().filter(|last| last.end == range.start) {
        Some(last) => last.end = range.end,
        None => out.push(range),
    }
}

/// The kernel lists them. `None`, and nothing is added, when it cannot.
fn listed(
    pagemap: &File,
    base: usize,
    length: usize,
    whose: Whose,
    out: &mut Vec<Range<usize>>,
) -> Option<()> {
    // Not the page of zeroes that is mapped when a page is read before it was written.
    let not = PAGE_IS_PFNZERO | if whose == Whose::Own { PAGE_IS_FILE } else { 0 };
    let (before, end) = (out.len(), (base + length) as u64);
    let mut regions = [PageRegion::default(); 128];
    let mut start = base as u64;
    while start < end {
        let mut argument = ScanArgument {
            size: size_of::<ScanArgument>() as u64,
            start,
            end,
            vec: regions.as_mut_ptr() as u64,
            vec_len: regions.len() as u64,
            category_inverted: not,
            category_mask: not,
            category_anyof_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
            return_mask: PAGE_IS_PRESENT,
            ..ScanArgument::default()
        };
        // SAFETY: the argument has the layout and size that it says; the kernel writes at most `vec_len`
        // regions.
        let count = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut argument) };
        let progress = argument.walk_end > start && argument.walk_end <= end;
        let Some(found) = usize::try_from(count).ok().filter(|_| progress).and_then(|n| regions.get(..n))
        else {
            out.truncate(before);
            return None;
        };
        for region in found {
            add(out, region.start as usize - base..region.end as usize - base);
        }
        start = argument.walk_end;
    }
    Some(())
}

/// The kernel says it of each page. `None`, and nothing is added, when it does not.
fn asked(
    pagemap: &File,
    base: usize,
    length: usize,
    whose: Whose,
    out: &mut Vec<Range<usize>>,
) -> Option<()> {
    let (before, mut entries) = (out.len(), [0u8; 8 * 512]);
    for start in (0..length).step_by(512 * PAGE) {
        let pages = (length - start).div_ceil(PAGE).min(512);
        let entries = entries.get_mut(..8 * pages)?;
        if pagemap.read_exact_at(entries, ((base + start) / PAGE * 8) as u64).is_err() {
            out.truncate(before);
            return None;
        }
        for (n, entry) in entries.as_chunks::<8>().0.iter().enumerate() {
            let entry = u64::from_le_bytes(*entry);
            let is_others = whose == Whose::Own && entry & ENTRY_FILE != 0;
            if entry & (ENTRY_PRESENT | ENTRY_SWAPPED) != 0 && !is_others {
                let at = start + n * PAGE;
                add(out, at..at + PAGE);
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A private mapping of whole pages, some of them written and some only read.
    struct Mapping {
        base: usize,
        length: usize,
    }

    impl Mapping {
        fn new(pages: usize) -> Mapping {
            let length = pages * PAGE;
            // SAFETY: a new mapping at an address of the kernel's choice.
            let base = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    length,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                    -1,
                    0,
                )
            };
            assert_ne!(base, libc::MAP_FAILED);
            // SAFETY: advice for that mapping, so that single pages stay single.
            unsafe { libc::madvise(base, length, libc::MADV_NOHUGEPAGE) };
            Mapping { base: base as usize, length }
        }

        fn write(&self, page: usize) {
            // SAFETY: inside the mapping.
            unsafe { ((self.base + page * PAGE) as *mut u8).write_volatile(1) };
        }

        fn read(&self, page: usize) {
            // SAFETY: inside the mapping.
            unsafe { ((self.base + page * PAGE) as *const u8).read_volatile() };
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: the mapping made in `new`, given back once.
            unsafe { libc::munmap(self.base as *mut _, self.length) };
        }
    }

    #[test]
    fn every_way_finds_what_was_written() {
        let mapping = Mapping::new(3000);
        // More runs than fit into one answer of the kernel, and neighbours.
        let written: Vec<usize> =
            (0..2900).filter(|n| n % 7 == 0 || n % 97 == 1).chain([2998, 2999]).collect();
        written.iter().for_each(|page| mapping.write(*page));
        mapping.read(3);
        let file = File::open("/proc/self/pagemap").expect("this process's own");
        let mut expected = Vec::new();
        written.iter().for_each(|page| add(&mut expected, page * PAGE..(page + 1) * PAGE));

        let mut found = Vec::new();
        asked(&file, mapping.base, mapping.length, Whose::Any, &mut found).expect("an answer");
        assert!(found.iter().any(|range| range.contains(&(3 * PAGE))), "a page of zeroes is told as well");
        let covers = |found: &[Range<usize>], at: usize| found.iter().any(|range| range.contains(&at));
        assert!(written.iter().all(|page| covers(&found, page * PAGE)));
        assert!(!covers(&found, 2 * PAGE) && !covers(&found, 2950 * PAGE));

        let mut found = Vec::new();
        if listed(&file, mapping.base, mapping.length, Whose::Any, &mut found).is_some() {
            assert_eq!(found, expected);
        }
        let mut found = Vec::new();
        touched(mapping.base, mapping.length, &mut found);
        assert!(written.iter().all(|page| covers(&found, page * PAGE)));
        let counted = resident(mapping.base, mapping.length) / PAGE as u64;
        // Kernels that cannot list them count the page of zeroes as well.
        assert!((0..=1).contains(&(counted - written.len() as u64)), "{counted}");
        assert_eq!(resident(0, mapping.length), 0);
    }

    #[test]
    fn nothing_is_added_for_nothing() {
        let mapping = Mapping::new(8);
        let mut found = Vec::new();
        touched(mapping.base, 0, &mut found);
        touched(mapping.base, mapping.length, &mut found);
        assert_eq!(found, []);
        mapping.write(7);
        touched(mapping.base, mapping.length, &mut found);
        assert_eq!((found.len(), found.first()), (1, Some(&(7 * PAGE..8 * PAGE))));
    }
}
