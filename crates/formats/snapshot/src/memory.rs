//! Private memory without what is zero.
//!
//! Functions touch little of the memory that they may, and what they touch they use in cache lines: a table
//! of flows has one line here and one there. So a page is kept as the lines of it that are not zero, with a
//! bit for each.

use crate::error::ContentError;
use crate::limits;
use std::borrow::Cow;

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
    /// Memory of `size` bytes, all zero so far, with room made for `touched` bytes.
    pub fn new(size: u64, limit: u64, touched: usize) -> Memory<'static> {
        let pages = Vec::with_capacity(touched / PAGE);
        Memory { size, limit, pages, bytes: Cow::Owned(Vec::with_capacity(touched)) }
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
        let kept = self.bytes.to_mut();
        for (number, page) in (first..).zip(bytes.as_chunks::<PAGE>().0) {
            let lines = lines_in_use(page);
            if lines == u64::MAX {
                kept.extend_from_slice(page);
            } else {
                for run in runs(lines) {
                    kept.extend_from_slice(page.get(run).unwrap_or_default());
                }
            }
            if lines != 0 {
                self.pages.push(Page { number, lines });
            }
        }
    }

    /// Gives back room that was made for more than there was.
    pub fn shrink(&mut self) {
        self.bytes.to_mut().shrink_to_fit();
        self.pages.shrink_to_fit();
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

/// The byte ranges of neighbouring lines.
fn runs(lines: u64) -> impl Iterator<Item = std::ops::Range<usize>> {
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
            let mut memory = Memory::new(65_536, 65_536, 0);
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
