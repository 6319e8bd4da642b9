//! Private memory without what is zero.
//!
//! Functions touch little of the memory that they may, and what they touch they use in cache lines: a table
//! of flows has one line here and one there. So a page is kept as the lines of it that are not zero, with a
//! bit for each.

use crate::error::ContentError;
use crate::limits;
use std::borrow::Cow;
use std::ops::Range;

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Bytes of a line, the smallest part that is kept or left out.
pub const LINE: usize = 64;

/// A page with bytes other than zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its address over [`PAGE`].
    pub number: u32,
    /// A bit for each [`LINE`] of it that is kept, the lowest for the first.
    pub lines: u64,
}

impl Page {
    /// Puts the kept lines of the page where they belong; the rest of the page stays as it is.
    pub fn place(self, lines: &[u8], page: &mut [u8; PAGE]) {
        if self.lines == u64::MAX
            && let Ok(whole) = lines.try_into()
        {
            *page = whole;
            return;
        }
        let mut rest = lines;
        for run in runs(self.lines) {
            let Some((here, left)) = rest.split_at_checked(run.len()) else { return };
            if let Some(target) = page.get_mut(run) {
                target.copy_from_slice(here);
            }
            rest = left;
        }
    }

    /// Bytes that are kept of it.
    fn kept(self) -> usize {
        self.lines.count_ones() as usize * LINE
    }
}

/// Private memory of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory<'a> {
    /// Bytes of it.
    size: u64,
    /// Most bytes that it may grow to.
    limit: u64,
    pages: Vec<Page>,
    /// The kept lines, page by page.
    bytes: Cow<'a, [u8]>,
}

impl<'a> Memory<'a> {
    /// Memory of `size` bytes, all zero so far.
    pub fn new(size: u64, limit: u64) -> Memory<'static> {
        Memory { size, limit, ..Memory::default() }
    }

    /// Memory that holds `bytes`, which are zero outside of `ranges`: these begin at pages, and are in order.
    pub fn of(bytes: &[u8], limit: u64, ranges: &[Range<usize>]) -> Memory<'static> {
        let mut memory = Memory::new(bytes.len() as u64, limit);
        memory.pages.reserve_exact(ranges.iter().map(Range::len).sum::<usize>() / PAGE);
        for range in ranges {
            let first = (range.start / PAGE) as u32;
            memory.pages.extend(in_use(first, bytes.get(range.clone()).unwrap_or_default()));
        }
        memory.pages.shrink_to_fit();
        memory.copy(0, bytes, 0);
        memory
    }

    /// What was read from a snapshot, checked.
    pub(crate) fn read(
        size: u64,
        limit: u64,
        pages: Vec<Page>,
        bytes: &'a [u8],
    ) -> Result<Memory<'a>, ContentError> {
        let memory = Memory { size, limit, pages, bytes: Cow::Borrowed(bytes) };
        memory.check()?;
        Ok(memory)
    }

    /// Keeps what is not zero of the pages from `first` on, whose bytes these are. Pages come in the order of
    /// their numbers; bytes behind the last whole page are left out, memory has none.
    pub fn keep(&mut self, first: u32, bytes: &[u8]) {
        let before = self.pages.len();
        self.pages.extend(in_use(first, bytes));
        self.copy(before, bytes, first);
    }

    /// Copies the lines that are kept of the pages from index `from` of the list on, out of `bytes`, which
    /// begin with page `first`. All lines are counted before any is copied: room for all that a function
    /// touched would be many times what is kept, and the kernel would make that room page by page.
    fn copy(&mut self, from: usize, bytes: &[u8], first: u32) {
        let pages = self.pages.get(from..).unwrap_or_default();
        let kept = self.bytes.to_mut();
        kept.reserve_exact(pages.iter().map(|page| page.kept()).sum());
        let (source, _) = bytes.as_chunks::<PAGE>();
        for page in pages {
            let Some(source) = source.get((page.number - first) as usize) else { break };
            if page.lines == u64::MAX {
                kept.extend_from_slice(source);
                continue;
            }
            let (lines, mut left) = (source.as_chunks::<LINE>().0, page.lines);
            // One by one: most lines that are kept have none beside them, and one is copied without a call.
            while let Some(line) = lines.get(left.trailing_zeros() as usize) {
                kept.extend_from_slice(line);
                left &= left - 1;
            }
        }
    }

    /// Bytes of memory.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Most bytes that it may grow to.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Pages with bytes other than zero, in order.
    pub fn pages(&self) -> &[Page] {
        &self.pages
    }

    /// The kept lines, page by page.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes that this value takes beside itself.
    pub fn footprint(&self) -> usize {
        let owned = match &self.bytes {
            Cow::Owned(bytes) => bytes.capacity(),
            Cow::Borrowed(_) => 0,
        };
        owned + self.pages.capacity() * size_of::<Page>()
    }

    /// Each page with its kept lines.
    pub fn iter(&self) -> impl Iterator<Item = (Page, &[u8])> {
        let mut rest: &[u8] = &self.bytes;
        self.pages.iter().map_while(move |page| {
            let (lines, left) = rest.split_at_checked(page.kept())?;
            rest = left;
            Some((*page, lines))
        })
    }

    /// Writes everything that is not zero into `memory`, which is zero and begins at address 0. What of it
    /// does not fit is left out: the caller has made room for [`Memory::size`] bytes.
    pub fn write_to(&self, memory: &mut [u8]) {
        let (target, _) = memory.as_chunks_mut::<PAGE>();
        for (page, lines) in self.iter() {
            let Some(target) = target.get_mut(page.number as usize) else { break };
            page.place(lines, target);
        }
    }

    /// The same with bytes of its own.
    pub fn into_owned(self) -> Memory<'static> {
        Memory { bytes: Cow::Owned(self.bytes.into_owned()), ..self }
    }

    pub(crate) fn check(&self) -> Result<(), ContentError> {
        let Memory { size, limit, .. } = *self;
        if limit > limits::MEMORY_BYTES {
            let what = "bytes as the limit of memory";
            return Err(ContentError::TooMany { what, found: limit, allowed: limits::MEMORY_BYTES });
        }
        if size > limit || !size.is_multiple_of(limits::MEMORY_UNIT) {
            return Err(ContentError::MemorySize { size, limit });
        }
        let (mut first, end, mut needed) = (0, size / PAGE as u64, 0);
        for page in &self.pages {
            let number = u64::from(page.number);
            if number < first || number >= end || page.lines == 0 {
                return Err(ContentError::Page { number: page.number, first, last: end as i64 - 1 });
            }
            first = number + 1;
            needed += page.kept() as u64;
        }
        let found = self.bytes.len() as u64;
        if found == needed { Ok(()) } else { Err(ContentError::MemoryBytes { found, needed }) }
    }
}

/// The pages of these that hold anything; `first` is the number of the first.
fn in_use(first: u32, bytes: &[u8]) -> impl Iterator<Item = Page> {
    let pages = (first..).zip(bytes.as_chunks::<PAGE>().0);
    pages.map(|(number, page)| Page { number, lines: lines_in_use(page) }).filter(|page| page.lines != 0)
}

/// The byte ranges of neighbouring lines.
fn runs(lines: u64) -> impl Iterator<Item = Range<usize>> {
    let mut left = lines;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let start = left.trailing_zeros();
        let count = (left >> start).trailing_ones();
        // A run up to the last line ends the word, and a shift by its width does not.
        left = left.checked_shr(start + count).map_or(0, |rest| rest << (start + count));
        Some(start as usize * LINE..(start + count) as usize * LINE)
    })
}

/// A bit for each line that is not zero.
#[inline]
fn lines_in_use(page: &[u8; PAGE]) -> u64 {
    let mut lines = 0;
    for (n, line) in page.as_chunks::<LINE>().0.iter().enumerate() {
        let any = line.as_chunks::<8>().0.iter().fold(0, |any, word| any | u64::from_ne_bytes(*word));
        lines |= u64::from(any != 0) << n;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_and_put_back() {
        for (at, bits) in [
            (vec![], 0u64),
            (vec![0], 1),
            (vec![63], 1),
            (vec![64], 2),
            (vec![4095], 1 << 63),
            (vec![0, 64, 4032], 3 | 1 << 63),
            ((0..64).map(|n| n * 64 + n).collect(), u64::MAX),
        ] {
            let mut page = [0; PAGE];
            at.iter().for_each(|at: &usize| page[*at] = 7);
            assert_eq!(lines_in_use(&page), bits, "{at:?}");
            let mut memory = Memory::new(65_536, 65_536);
            memory.keep(3, &page);
            assert_eq!(memory.check(), Ok(()));
            assert_eq!(memory.bytes().len(), bits.count_ones() as usize * LINE);
            let mut back = vec![0; 65_536];
            memory.write_to(&mut back);
            assert_eq!(back[3 * PAGE..4 * PAGE], page);
            assert!(back[..3 * PAGE].iter().chain(&back[4 * PAGE..]).all(|byte| *byte == 0));
        }
    }

    #[test]
    fn ranges_are_kept_as_all_of_the_memory_is() {
        let mut bytes = vec![0; 16 * PAGE];
        [2 * PAGE, 3 * PAGE + 65, 9 * PAGE - 1].iter().for_each(|at| bytes[*at] = 1);
        bytes[12 * PAGE..13 * PAGE].fill(2);
        let mut all = Memory::new(16 * PAGE as u64, 65_536);
        all.keep(0, &bytes);
        let ranges = [2 * PAGE..4 * PAGE, 8 * PAGE..10 * PAGE, 12 * PAGE..16 * PAGE];
        let of = Memory::of(&bytes, 65_536, &ranges);
        assert_eq!((&of, of.check()), (&all, Ok(())));
        // A function has much more than it uses.
        let kept = of.bytes().len() + size_of_val(of.pages());
        assert_eq!((of.footprint(), of.bytes().len()), (kept, 3 * LINE + PAGE));
        // Ranges that are not in it are left out.
        let beyond = Memory::of(&bytes, 65_536, std::slice::from_ref(&(12 * PAGE..17 * PAGE)));
        assert_eq!((beyond.pages(), beyond.check()), (&[][..], Ok(())));
    }

    #[test]
    fn runs_cover_exactly_the_bits() {
        for bits in [0, 1, 0b1011, 1 << 63, u64::MAX, u64::MAX << 1, u64::MAX >> 1, 0xaaaa_aaaa_aaaa_aaaa] {
            let mut again = 0u64;
            for run in runs(bits) {
                assert!(run.start.is_multiple_of(LINE) && run.end.is_multiple_of(LINE) && run.end <= PAGE);
                (run.start / LINE..run.end / LINE).for_each(|n| again |= 1 << n);
            }
            assert_eq!(again, bits, "{bits:#x}");
        }
    }
}
