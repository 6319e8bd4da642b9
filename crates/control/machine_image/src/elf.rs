//! What the dynamic linker reads of a program or library: which interpreter it has, which libraries it needs,
//! and where it says that they are (elf(5), gABI chapter 5). Bytes come from packages and files of others:
//! every offset is checked.

/// What is read of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elf {
    /// 64 bits to an address.
    pub wide: bool,
    /// `e_machine`.
    pub machine: u16,
    /// The dynamic linker's path; none of a static program or a library.
    pub interpreter: Option<String>,
    /// Names of libraries, as `DT_NEEDED` has them.
    pub needed: Vec<String>,
    /// Folders of `DT_RPATH` and `DT_RUNPATH`, `$ORIGIN` among them.
    pub folders: Vec<String>,
}

/// Why a file is not one that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElfFault {
    /// It does not begin as one.
    #[error("it is no ELF file")]
    Magic,
    /// Numbers are in the other order.
    #[error("its bytes are in big-endian order")]
    Order,
    /// Something in it leads outside of it.
    #[error("it is damaged: {0} lies outside of it")]
    Outside(&'static str),
}

const MAGIC: &[u8] = b"\x7fELF";
const LOAD: u64 = 1;
const DYNAMIC: u64 = 2;
const INTERPRETER: u64 = 3;
const NEEDED: u64 = 1;
const STRINGS: u64 = 5;
const RPATH: u64 = 15;
const RUNPATH: u64 = 29;
/// Most entries of any table.
const ENTRIES_MAX: usize = 4096;

/// Whether a file begins like one.
pub fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// A part of the file that is mapped.
struct Segment {
    offset: u64,
    address: u64,
    length: u64,
}

struct Reader<'a> {
    bytes: &'a [u8],
    wide: bool,
}

impl Reader<'_> {
    /// A number of so many bytes.
    fn number(&self, at: u64, bytes: usize, what: &'static str) -> Result<u64, ElfFault> {
        let at = usize::try_from(at).map_err(|_| ElfFault::Outside(what))?;
        let end = at.checked_add(bytes).ok_or(ElfFault::Outside(what))?;
        let found = self.bytes.get(at..end).ok_or(ElfFault::Outside(what))?;
        Ok(found.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// An address or offset.
    fn word(&self, at: u64, what: &'static str) -> Result<u64, ElfFault> {
        self.number(at, if self.wide { 8 } else { 4 }, what)
    }

    /// A text up to its zero.
    fn text(&self, at: u64, what: &'static str) -> Result<String, ElfFault> {
        let from = usize::try_from(at).ok().and_then(|at| self.bytes.get(at..));
        let from = from.ok_or(ElfFault::Outside(what))?;
        let end = from.iter().take(4096).position(|byte| *byte == 0).ok_or(ElfFault::Outside(what))?;
        Ok(String::from_utf8_lossy(&from[..end]).into_owned())
    }
}

/// Reads the headers of a file.
///
/// # Errors
/// [`ElfFault`].
pub fn read(bytes: &[u8]) -> Result<Elf, ElfFault> {
    if !is_elf(bytes) {
        return Err(ElfFault::Magic);
    }
    let wide = bytes.get(4) == Some(&2);
    if bytes.get(5) != Some(&1) {
        return Err(ElfFault::Order);
    }
    let reader = Reader { bytes, wide };
    let head = "its header";
    let (table, size, count) = if wide { (32, 54, 56) } else { (28, 42, 44) };
    let mut elf = Elf { wide, machine: reader.number(18, 2, head)? as u16, ..Elf::default() };
    let (table, size) = (reader.word(table, head)?, reader.number(size, 2, head)?);
    let (mut segments, mut dynamic) = (Vec::new(), None);
    for number in 0..reader.number(count, 2, head)?.min(ENTRIES_MAX as u64) {
        let what = "its table of segments";
        let at = table.checked_add(number * size).ok_or(ElfFault::Outside(what))?;
        let kind = reader.number(at, 4, what)?;
        // Offset, address and length in the file (gABI, figure 5-1).
        let places = if wide { [8, 16, 32] } else { [4, 8, 16] };
        let mut found = [0; 3];
        for (found, place) in found.iter_mut().zip(places) {
            *found = reader.word(at.saturating_add(place), what)?;
        }
        let [offset, address, length] = found;
        match kind {
            LOAD => segments.push(Segment { offset, address, length }),
            DYNAMIC => dynamic = Some((offset, length)),
            INTERPRETER => elf.interpreter = Some(reader.text(offset, "its interpreter")?),
            _ => {}
        }
    }
    if let Some((offset, length)) = dynamic {
        linked(&reader, &segments, (offset, length), &mut elf)?;
    }
    Ok(elf)
}

/// Reads the dynamic section.
fn linked(
    reader: &Reader<'_>,
    segments: &[Segment],
    (offset, length): (u64, u64),
    elf: &mut Elf,
) -> Result<(), ElfFault> {
    let what = "its dynamic section";
    let word = if reader.wide { 8 } else { 4 };
    let (mut strings, mut named) = (None, Vec::new());
    for number in 0..(length / (2 * word)).min(ENTRIES_MAX as u64) {
        let at = offset.checked_add(number * 2 * word).ok_or(ElfFault::Outside(what))?;
        let (tag, value) = (reader.word(at, what)?, reader.word(at.saturating_add(word), what)?);
        match tag {
            0 => break,
            STRINGS => strings = Some(value),
            NEEDED | RPATH | RUNPATH => named.push((tag, value)),
            _ => {}
        }
    }
    let table = "its table of names";
    let in_file = |address: u64| {
        let segment =
            segments.iter().find(|it| (it.address..it.address.saturating_add(it.length)).contains(&address));
        segment.and_then(|it| it.offset.checked_add(address - it.address)).ok_or(ElfFault::Outside(table))
    };
    if named.is_empty() {
        return Ok(());
    }
    let strings = in_file(strings.ok_or(ElfFault::Outside(table))?)?;
    for (tag, value) in named {
        let text = reader.text(strings.saturating_add(value), table)?;
        match tag {
            NEEDED => elf.needed.push(text),
            _ => elf.folders.extend(text.split(':').filter(|it| !it.is_empty()).map(str::to_owned)),
        }
    }
    Ok(())
}

/// Makes small files for tests, here and of what follows them.
#[cfg(test)]
pub(crate) mod made {
    use super::*;

    /// A file of 64 bits with these contents.
    pub(crate) fn elf(interpreter: Option<&str>, needed: &[&str], folders: Option<&str>) -> Vec<u8> {
        let mut strings = vec![0u8];
        let mut put = |text: &str| {
            let at = strings.len() as u64;
            strings.extend(text.bytes().chain([0]));
            at
        };
        let mut tags: Vec<(u64, u64)> = needed.iter().map(|name| (NEEDED, put(name))).collect();
        tags.extend(folders.map(|folders| (RUNPATH, put(folders))));
        let interpreter = interpreter.map(&mut put);
        // One segment maps the whole file at this address.
        let (base, heads) = (0x40_0000u64, 64 + 3 * 56u64);
        tags.push((STRINGS, base + heads));
        tags.push((0, 0));
        let dynamic = (heads + strings.len() as u64).next_multiple_of(8);
        let length = dynamic + tags.len() as u64 * 16;
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(16, 0);
        let mut half = |value: u16| bytes.extend(value.to_le_bytes());
        [3, 62].into_iter().for_each(&mut half);
        bytes.extend(1u32.to_le_bytes());
        [0u64, 64, 0].iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        bytes.extend(0u32.to_le_bytes());
        [64u16, 56, 3, 0, 0, 0].iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        let mut segment = |kind: u64, offset: u64, length: u64| {
            bytes.extend((kind as u32).to_le_bytes());
            bytes.extend(4u32.to_le_bytes());
            for value in [offset, base + offset, base + offset, length, length, 8] {
                bytes.extend(value.to_le_bytes());
            }
        };
        segment(LOAD, 0, length);
        match interpreter {
            Some(at) => segment(INTERPRETER, heads + at, 1),
            None => segment(4, 0, 0),
        }
        segment(DYNAMIC, dynamic, tags.len() as u64 * 16);
        bytes.extend(strings);
        bytes.resize(dynamic as usize, 0);
        for (tag, value) in tags {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_file_needs_is_read() {
        let bytes =
            made::elf(Some("/lib64/ld.so"), &["libc.so.6", "libz.so.1"], Some("$ORIGIN/../lib:/opt/x"));
        let elf = read(&bytes).expect("it is one");
        assert!(elf.wide && elf.machine == 62);
        assert_eq!(elf.interpreter.as_deref(), Some("/lib64/ld.so"));
        assert_eq!(elf.needed, ["libc.so.6", "libz.so.1"]);
        assert_eq!(elf.folders, ["$ORIGIN/../lib", "/opt/x"]);
        let elf = read(&made::elf(None, &[], None)).expect("it is one");
        assert_eq!((elf.interpreter, elf.needed.len()), (None, 0));
        assert_eq!(read(b"#!/bin/sh\n"), Err(ElfFault::Magic));
        assert_eq!(read(b"\x7fELF\x02\x02"), Err(ElfFault::Order));
        assert!(matches!(read(&bytes[..100]), Err(ElfFault::Outside(_))));
    }

    #[test]
    fn this_program_is_read() {
        let own = std::fs::read("/proc/self/exe").expect("this test");
        let elf = read(&own).expect("it is one");
        assert!(elf.needed.iter().any(|name| name.starts_with("libc.so")), "{elf:?}");
        assert!(elf.interpreter.is_some());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(change in proptest::collection::vec((0usize..400, any::<u8>()), 0..12), cut in 0usize..500) {
            let mut bytes = made::elf(Some("/lib64/ld.so"), &["libc.so.6"], Some("/x"));
            for (at, byte) in change {
                if let Some(there) = bytes.get_mut(at) {
                    *there = byte;
                }
            }
            bytes.truncate(cut);
            let _ = read(&bytes);
        }

        #[test]
        fn noise_is_read_or_refused(noise in proptest::collection::vec(any::<u8>(), 0..600)) {
            let mut bytes = b"\x7fELF\x02\x01".to_vec();
            bytes.extend(noise);
            let _ = read(&bytes);
        }
    }
}
