//! A capture file, record by record.

use super::classic::Classic;
use super::error::{Cause, Fault, Foreign};
use super::input::Input;
use super::link::Link;
use super::section::Section;
use std::io::{Read, Seek};

/// Ethernet, among the link types (IANA-like list of tcpdump.org, "Link-layer header types").
pub const LINK_TYPE_ETHERNET: u16 = 1;

/// Longest packet that a capture may hold, in bytes; as in libpcap.
pub const MAX_PACKET: u32 = 262_144;

/// A packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it was captured, in nanoseconds since the Unix epoch, if that was recorded.
    pub timestamp: Option<u64>,
    /// Bytes that were captured.
    pub length: u32,
    /// Bytes that it had.
    pub original_length: u32,
    /// What its first header is.
    pub link_type: u16,
}

/// What the next step through a capture gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A packet. [`Capture::bytes`] are its bytes until the next step.
    Record(Record),
    /// Something else, which was passed over. There is more.
    Passed,
    /// The end.
    End,
}

/// A record in the input's window.
pub(super) struct Found {
    pub record: Record,
    /// Bytes before the packet's first.
    pub header: usize,
    /// Bytes of header, packet and what belongs to them.
    pub total: usize,
}

/// What a format's parser found at the input's beginning.
pub(super) enum Step {
    Packet(Found),
    /// Consumed already.
    Passed,
    End,
}

#[derive(Debug)]
enum Format {
    Classic(Classic),
    Sections(Section),
}

/// A capture being read: pcap (microseconds and nanoseconds, both byte orders) or pcapng (any number of
/// sections and interfaces).
///
/// Memory is bounded, whatever the file says. After a fault the capture has ended.
#[derive(Debug)]
pub struct Capture<R> {
    input: Input<R>,
    format: Format,
    /// The record in the window: where its bytes are, and how many are to be consumed.
    packet: std::ops::Range<usize>,
    held: usize,
    records: u64,
    broken: bool,
}

impl<R: Read + Seek> Capture<R> {
    /// Begins to read.
    ///
    /// # Errors
    /// [`Foreign`], when it is no capture, or of a link whose packets can be given no Ethernet header. In
    /// pcapng the interfaces come later, see [`Record::link_type`].
    pub fn new(source: R) -> Result<Capture<R>, Foreign> {
        let header_fault = |cause| Foreign::Header(Fault { record: 1, offset: 0, cause });
        let mut input = Input::new(source).map_err(|error| header_fault(error.into()))?;
        let format = Capture::format(&mut input)?;
        Ok(Capture { input, format, packet: 0..0, held: 0, records: 0, broken: false })
    }

    fn format(input: &mut Input<R>) -> Result<Format, Foreign> {
        let header_fault = |cause| Foreign::Header(Fault { record: 1, offset: 0, cause });
        let found = input.fill(4).map_err(|error| header_fault(error.into()))?;
        let Some(magic) = input.bytes().first_chunk::<4>() else {
            return Err(Foreign::Magic(input.bytes()[..found].to_vec()));
        };
        if *magic == Section::MAGIC {
            return Ok(Format::Sections(Section::begin(input).map_err(header_fault)?));
        }
        let Some(format) = Classic::of_magic(*magic) else { return Err(Foreign::Magic(magic.to_vec())) };
        let classic = format.begin(input).map_err(header_fault)?;
        match Link::of(classic.link_type) {
            Some(_) => Ok(Format::Classic(classic)),
            None => Err(Foreign::LinkType(classic.link_type)),
        }
    }

    /// Reads it again from the beginning.
    ///
    /// # Errors
    /// As [`Capture::new`]: the file may have been changed.
    pub fn rewind(&mut self) -> Result<(), Foreign> {
        let failed =
            |error: std::io::Error| Foreign::Header(Fault { record: 1, offset: 0, cause: error.into() });
        self.input.rewind().map_err(failed)?;
        self.format = Capture::format(&mut self.input)?;
        (self.packet, self.held, self.records, self.broken) = (0..0, 0, 0, false);
        Ok(())
    }

    /// Goes one step on.
    ///
    /// # Errors
    /// [`Fault`], where the capture breaks.
    #[inline]
    pub fn step(&mut self) -> Result<Next, Fault> {
        self.input.consume(self.held);
        (self.held, self.packet) = (0, 0..0);
        if self.broken {
            return Ok(Next::End);
        }
        let offset = self.input.offset();
        let step = match &mut self.format {
            Format::Classic(classic) => classic.step(&mut self.input),
            Format::Sections(section) => section.step(&mut self.input),
        };
        match step {
            Ok(Step::Packet(found)) => {
                self.held = found.total;
                self.packet = found.header..found.header + found.record.length as usize;
                self.records += 1;
                Ok(Next::Record(found.record))
            }
            Ok(Step::Passed) => Ok(Next::Passed),
            Ok(Step::End) => Ok(Next::End),
            Err(cause) => {
                self.broken = true;
                Err(Fault { record: self.records + 1, offset, cause })
            }
        }
    }

    /// Bytes of the last record.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.input.bytes().get(self.packet.clone()).unwrap_or(&[])
    }

    /// Packets read since the beginning.
    pub fn records(&self) -> u64 {
        self.records
    }
}

/// Makes sure that `needed` bytes are in the window.
#[inline]
pub(super) fn require<R: Read + Seek>(input: &mut Input<R>, needed: usize) -> Result<(), Cause> {
    let found = input.fill(needed)?;
    if found < needed {
        return Err(Cause::Ends { needed: needed as u64, found: found as u64 });
    }
    Ok(())
}

/// The byte order that a file was written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    #[inline]
    pub fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let word = bytes.get(at..).and_then(|b| b.first_chunk()).copied().unwrap_or_default();
        match self {
            ByteOrder::Little => u16::from_le_bytes(word),
            ByteOrder::Big => u16::from_be_bytes(word),
        }
    }

    #[inline]
    pub fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let word = bytes.get(at..).and_then(|b| b.first_chunk()).copied().unwrap_or_default();
        match self {
            ByteOrder::Little => u32::from_le_bytes(word),
            ByteOrder::Big => u32::from_be_bytes(word),
        }
    }

    #[inline]
    pub fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let word = bytes.get(at..).and_then(|b| b.first_chunk()).copied().unwrap_or_default();
        match self {
            ByteOrder::Little => u64::from_le_bytes(word),
            ByteOrder::Big => u64::from_be_bytes(word),
        }
    }
}
