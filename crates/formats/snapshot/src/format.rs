//! Header, table of sections, checksums, and how versions live together.
//!
//! - What every reader of this major version has to know is in sections marked as required. A reader that
//!   does not know such a section refuses the snapshot, and says which.
//! - What a reader can do without comes in sections that are not: a reader that does not know one passes over
//!   it. A newer minor version adds such sections and changes nothing else, so that both directions work.
//! - A change of what a section of version 1 means makes a new section, or a new major version. Readers
//!   refuse other major versions.
//!
//! Snapshots of each version are kept in `tests/golden`, and read for as long as this crate lives.

use crate::error::{ContentError, DecodeError};
use crate::memory::Memory;
use crate::parts::Parts;
use crate::saved::Saved;
use crate::wire::{Reader, Writer};
use crate::{limits, sections};
use twox_hash::XxHash3_64;

/// The first bytes of every snapshot. Not text, and different when a transfer took it for text.
pub const MAGIC: [u8; 8] = *b"\x89SFN\r\n\x1a\n";
/// The version that is written here, and the only major one that is read.
pub const MAJOR: u16 = 1;
/// What was added since the major version.
pub const MINOR: u16 = 0;
/// Bytes before the table.
pub const HEADER_BYTES: usize = 24;
/// Bytes of each entry of the table.
pub const ENTRY_BYTES: usize = 24;
/// Bytes of a checksum.
pub const CHECKSUM_BYTES: usize = 8;
/// Flag of a section that no reader can do without. The other flags are 0, and a section with one of them set
/// is as unknown as one of an unknown kind.
pub const REQUIRED: u16 = 1;

/// Numbers of the sections.
pub mod kind {
    /// Digest, contract version and name of the image; configuration.
    pub const IDENTITY: u16 = 1;
    /// Size and limit of memory, and which lines of which pages are kept.
    pub const PAGES: u16 = 2;
    /// The kept lines.
    pub const MEMORY: u16 = 3;
    /// Mutable globals.
    pub const GLOBALS: u16 = 4;
    /// What the host keeps: place of the records, times, counters.
    pub const HOST: u16 = 5;
    /// Log lines and events that have not been collected; left out when there are none.
    pub const OUTPUT: u16 = 6;
    /// Packets; left out when there are none.
    pub const PACKETS: u16 = 7;
    /// What the engine counted; left out when it counted nothing.
    pub const TALLIES: u16 = 8;
}

/// xxh3-64, seed 0: as fast as memory is read.
pub fn checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

impl Saved<'_> {
    /// The snapshot as bytes; [`Saved::parts`] says the same without copying the memory.
    ///
    /// # Errors
    /// What of it no snapshot may hold.
    pub fn encode(&self) -> Result<Vec<u8>, ContentError> {
        self.parts().map(Parts::into_vec)
    }

    /// The snapshot as bytes, in pieces.
    ///
    /// # Errors
    /// What of it no snapshot may hold.
    pub fn parts(&self) -> Result<Parts<'_>, ContentError> {
        self.check()?;
        let memory = &self.memory;
        let mut made = vec![
            (kind::IDENTITY, REQUIRED, sections::write_identity(&self.identity)),
            (kind::PAGES, REQUIRED, sections::write_pages(memory.size(), memory.limit(), memory.pages())),
            (kind::GLOBALS, REQUIRED, sections::write_globals(&self.globals)),
            (kind::HOST, REQUIRED, sections::write_host(&self.host)),
        ];
        let host = &self.host;
        let lost = (host.lines_lost, host.events_lost);
        if !host.log.is_empty() || !host.events.is_empty() || lost != (0, 0) {
            made.push((kind::OUTPUT, 0, sections::write_output(host)));
        }
        if !self.packets.is_empty() {
            // Required, because to do without them would be to lose packets without a word.
            made.push((kind::PACKETS, REQUIRED, sections::write_packets(&self.packets)));
        }
        if !self.tallies.is_empty() {
            made.push((kind::TALLIES, 0, sections::write_tallies(&self.tallies)));
        }

        let table = made.iter().map(|(kind, flags, bytes)| (*kind, *flags, bytes.as_slice()));
        let head = head((MAJOR, MINOR), table.chain([(kind::MEMORY, REQUIRED, memory.bytes())]));
        let mut out = Writer(head);
        out.0.reserve_exact(made.iter().map(|(_, _, bytes)| bytes.len()).sum());
        made.iter().for_each(|(_, _, bytes)| out.0.extend_from_slice(bytes));
        Ok(Parts { head: out.0, memory: memory.bytes() })
    }
}

impl<'a> Saved<'a> {
    /// Reads a snapshot, which is untrusted input. Its memory stays where the bytes are.
    ///
    /// # Errors
    /// What was found and what is allowed.
    pub fn decode(bytes: &'a [u8]) -> Result<Saved<'a>, DecodeError> {
        let mut found: [Option<&'a [u8]>; 9] = [None; 9];
        for section in split(bytes)? {
            let known = (section.flags & !REQUIRED == 0)
                .then(|| found.get_mut(usize::from(section.kind)))
                .flatten()
                .filter(|_| section.kind != 0);
            match known {
                Some(place) if place.is_none() => *place = Some(section.bytes),
                Some(_) => return Err(DecodeError::Twice { kind: section.kind }),
                None if section.flags & REQUIRED == 0 => {}
                None => {
                    let (kind, flags, version) = (section.kind, section.flags, format!("{MAJOR}.{MINOR}"));
                    return Err(DecodeError::Unknown { kind, flags, version });
                }
            }
        }
        let section = |kind: u16| found.get(usize::from(kind)).copied().flatten();
        let optional = |kind, name| section(kind).map(|bytes| Reader::new(name, bytes));
        let required = |kind, name| optional(kind, name).ok_or(DecodeError::Missing { section: name });

        let identity = sections::read_identity(required(kind::IDENTITY, "identity")?)?;
        let (size, limit, pages) = sections::read_pages(required(kind::PAGES, "pages")?)?;
        let lines = section(kind::MEMORY).ok_or(DecodeError::Missing { section: "memory" })?;
        let memory = Memory::read(size, limit, pages, lines)?;
        let globals = sections::read_globals(required(kind::GLOBALS, "globals")?)?;
        let mut host = sections::read_host(required(kind::HOST, "host")?)?;
        if let Some(output) = optional(kind::OUTPUT, "output") {
            sections::read_output(output, &mut host)?;
        }
        let packets = optional(kind::PACKETS, "packets").map(sections::read_packets).transpose()?;
        let tallies = optional(kind::TALLIES, "tallies").map(sections::read_tallies).transpose()?;
        let (packets, tallies) = (packets.unwrap_or_default(), tallies.unwrap_or_default());
        let saved = Saved { identity, memory, globals, host, packets, tallies };
        saved.check()?;
        Ok(saved)
    }
}

/// A section as the table names it.
struct Section<'a> {
    kind: u16,
    flags: u16,
    bytes: &'a [u8],
}

/// Header, table and the checksum of both.
fn head<'a>(version: (u16, u16), table: impl Iterator<Item = (u16, u16, &'a [u8])> + Clone) -> Vec<u8> {
    let count = table.clone().count();
    let before = HEADER_BYTES + count * ENTRY_BYTES + CHECKSUM_BYTES;
    let whole = before + table.clone().map(|(_, _, bytes)| bytes.len()).sum::<usize>();
    let mut out = Writer(Vec::with_capacity(before));
    out.0.extend_from_slice(&MAGIC);
    out.u16(version.0);
    out.u16(version.1);
    out.count(count);
    out.u64(whole as u64);
    for (kind, flags, bytes) in table {
        out.u16(kind);
        out.u16(flags);
        out.u32(0);
        out.u64(bytes.len() as u64);
        out.u64(checksum(bytes));
    }
    out.u64(checksum(&out.0));
    out.0
}

/// A snapshot of these sections, whatever they are: what a newer version would write. For tests of readers.
pub fn assemble(version: (u16, u16), table: &[(u16, u16, &[u8])]) -> Vec<u8> {
    let mut bytes = head(version, table.iter().copied());
    table.iter().for_each(|(_, _, section)| bytes.extend_from_slice(section));
    bytes
}

/// The sections of a snapshot, each as long and as undamaged as the table says.
fn split(bytes: &[u8]) -> Result<Vec<Section<'_>>, DecodeError> {
    if !bytes.starts_with(&MAGIC) {
        let first: Vec<String> = bytes.iter().take(MAGIC.len()).map(|byte| format!("{byte:02x}")).collect();
        let found = if first.is_empty() { "nothing".to_owned() } else { first.join(" ") };
        return Err(DecodeError::Magic { found });
    }
    let short = |needed: usize| DecodeError::Length { found: bytes.len() as u64, needed: needed as u64 };
    let header = bytes.get(MAGIC.len()..HEADER_BYTES).ok_or_else(|| short(HEADER_BYTES))?;
    let mut header = Reader::new("header", header);
    let (major, minor) = (header.u16()?, header.u16()?);
    if major != MAJOR {
        return Err(DecodeError::Version { major, minor, allowed: MAJOR });
    }
    let (count, whole) = (header.u32()? as usize, header.u64()?);
    if whole != bytes.len() as u64 {
        return Err(DecodeError::Length { found: bytes.len() as u64, needed: whole });
    }
    if count > limits::SECTIONS {
        let (found, allowed) = (count as u64, limits::SECTIONS as u64);
        return Err(ContentError::TooMany { what: "sections", found, allowed }.into());
    }
    let end = HEADER_BYTES + count * ENTRY_BYTES;
    let (head, rest) = bytes.split_at_checked(end).ok_or_else(|| short(end))?;
    let (written, mut rest) = rest.split_first_chunk().ok_or_else(|| short(end + CHECKSUM_BYTES))?;
    undamaged("the table", head, u64::from_le_bytes(*written))?;

    let mut table = Reader::new("table", head.get(HEADER_BYTES..).unwrap_or_default());
    let mut sections = Vec::with_capacity(count);
    for _ in 0..count {
        let (kind, flags, zero, length) = (table.u16()?, table.u16()?, table.u32()?, table.u64()?);
        let written = table.u64()?;
        if zero != 0 {
            return Err(table.fault(format!("section {kind} has {zero:#x} where 0 belongs")));
        }
        let taken = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
        let Some((section, left)) = taken else {
            return Err(table.fault(format!("section {kind} has {length} bytes, {} are left", rest.len())));
        };
        undamaged(&format!("section {kind}"), section, written)?;
        rest = left;
        sections.push(Section { kind, flags, bytes: section });
    }
    match rest.len() {
        0 => Ok(sections),
        left => Err(table.fault(format!("the sections end {left} bytes before the snapshot does"))),
    }
}

fn undamaged(place: &str, bytes: &[u8], written: u64) -> Result<(), DecodeError> {
    match checksum(bytes) {
        found if found == written => Ok(()),
        found => Err(DecodeError::Damaged { place: place.to_owned(), found, written }),
    }
}
