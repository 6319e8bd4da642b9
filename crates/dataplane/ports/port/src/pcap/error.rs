//! Why a port was not opened, and where a capture breaks.

use std::io;
use std::path::PathBuf;

/// Why a port was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The configuration names no file.
    #[error("neither a file to read nor one to write is named")]
    NoPath,
    /// The file cannot be read or made.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// It is a directory, a pipe or a device.
    #[error("{}: not a regular file", path.display())]
    NotRegular {
        /// The file.
        path: PathBuf,
    },
    /// Reading and writing are of one file.
    #[error("{}: the file to read and the file to write are one", path.display())]
    SameFile {
        /// The file.
        path: PathBuf,
    },
    /// The file is no capture that can be read.
    #[error("{}: {source}", path.display())]
    Capture {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Foreign,
    },
}

/// Why a file is no capture that can be read.
#[derive(Debug, thiserror::Error)]
pub enum Foreign {
    /// It does not begin like one.
    #[error("no capture: it begins with {0:02x?}, which is neither pcap nor pcapng")]
    Magic(Vec<u8>),
    /// The first header is cut or impossible.
    #[error("no capture: {0}")]
    Header(Fault),
    /// The packets are neither Ethernet frames nor what can be given an Ethernet header.
    #[error(
        "packets of link type {}; allowed: Ethernet (1), Linux cooked (113, 276), IP (12, 14, 101, 228, 229), loopback (0, 108)",
        named(*.0)
    )]
    LinkType(u16),
}

/// Where a capture breaks. What is before has been read.
#[derive(Debug, thiserror::Error)]
#[error("at byte {offset}, in record {record}: {cause}")]
pub struct Fault {
    /// Number of the packet that could not be read, from 1.
    pub record: u64,
    /// Where the broken part begins, in bytes from the file's first.
    pub offset: u64,
    /// What is wrong.
    pub cause: Cause,
}

/// What is wrong with a part of a capture.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The file ends in the middle.
    #[error("the file ends after {found} of {needed} bytes")]
    Ends {
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that there are.
        found: u64,
    },
    /// A length is impossible.
    #[error("an impossible length of {found} bytes for {what}")]
    Length {
        /// Whose length.
        what: &'static str,
        /// What it says.
        found: u64,
    },
    /// The lengths before and behind a block differ.
    #[error("the block says that it is {before} bytes long, and at its end {behind}")]
    Trailer {
        /// Length in front.
        before: u32,
        /// Length at the end.
        behind: u32,
    },
    /// A section does not say its byte order.
    #[error("a section whose byte order mark is {0:02x?}")]
    ByteOrder([u8; 4]),
    /// A version of the format that is not known.
    #[error("version {0} of the format")]
    Version(u16),
    /// A packet of an interface that was not described.
    #[error("interface {found} of {known}")]
    Interface {
        /// The interface's number, from 0.
        found: u32,
        /// How many were described.
        known: usize,
    },
    /// The file could not be read.
    #[error("{0}")]
    Read(#[from] io::Error),
}

/// A link type with its name, if that is a common one.
pub(super) fn named(link_type: u16) -> String {
    let name = match link_type {
        0 | 108 => "loopback",
        12 | 14 | 101 | 228 | 229 => "IP without link header",
        105 | 127 => "wireless LAN",
        113 | 276 => "Linux cooked, as of the interface `any`",
        189 | 220 => "USB",
        _ => return link_type.to_string(),
    };
    format!("{link_type} ({name})")
}
