//! The entries of a layer, with their long names put together.
//!
//! Entries are read raw: a name that comes as an entry of its own (GNU `L` and `K`, pax `x`) is read within
//! [`NAME_MAX`], where the archive's reader would take whatever size the archive says.

use crate::{LayerError, NAME_MAX};
use std::io::Read;
use tar::{Entries, Entry, EntryType, PaxExtensions};

/// Longest set of pax records, in bytes: two names, numbers, times and a few attributes.
const PAX_MAX: u64 = 64 << 10;

/// What an entry makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File {
        size: u64,
    },
    Folder,
    /// A symbolic link with what it says, which is never followed here.
    Symlink(Vec<u8>),
    /// A hard link to the file of this name.
    Link(Vec<u8>),
}

/// An entry of a layer.
pub(crate) struct Head<'a, R: Read> {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: Kind,
    /// Permissions, without other bits.
    pub(crate) mode: u32,
    pub(crate) user: u64,
    pub(crate) group: u64,
    pub(crate) entry: Entry<'a, R>,
}

/// What entries before an entry say about it.
#[derive(Default)]
struct Said {
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    user: Option<u64>,
    group: Option<u64>,
}

/// The next entry that makes something; `None` at the end.
pub(crate) fn next<'a, R: Read>(entries: &mut Entries<'a, R>) -> Result<Option<Head<'a, R>>, LayerError> {
    let mut said = Said::default();
    // One of each kind may come before an entry.
    for _ in 0..8 {
        let Some(entry) = entries.next() else { return Ok(None) };
        let mut entry = entry.map_err(LayerError::Read)?;
        match entry.header().entry_type() {
            EntryType::GNULongName => said.name = Some(long(&mut entry, NAME_MAX + 1)?),
            EntryType::GNULongLink => said.link = Some(long(&mut entry, NAME_MAX + 1)?),
            EntryType::XHeader => pax(&long(&mut entry, PAX_MAX)?, &mut said)?,
            // What is said of all entries: comments, as builders use it.
            EntryType::XGlobalHeader => drop(long(&mut entry, PAX_MAX)?),
            _ => return head(entry, said).map(Some),
        }
    }
    Err(LayerError::Read(std::io::Error::other("more than 8 entries about one entry")))
}

/// The bytes of an entry that says something about the next one.
fn long<R: Read>(entry: &mut Entry<'_, R>, most: u64) -> Result<Vec<u8>, LayerError> {
    let size = entry.header().entry_size().map_err(LayerError::Read)?;
    if size > most {
        return Err(LayerError::Read(std::io::Error::other(format!(
            "a name or record of {size} bytes; allowed: {most}"
        ))));
    }
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes).map_err(LayerError::Read)?;
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    Ok(bytes)
}

fn pax(records: &[u8], said: &mut Said) -> Result<(), LayerError> {
    let wrong = |what: &str| LayerError::Read(std::io::Error::other(format!("pax records: {what}")));
    for record in PaxExtensions::new(records) {
        let record = record.map_err(LayerError::Read)?;
        let number = || {
            let text = record.value().ok();
            text.and_then(|text| text.parse().ok()).ok_or_else(|| wrong("a number is none"))
        };
        match record.key_bytes() {
            b"path" => said.name = Some(record.value_bytes().to_vec()),
            b"linkpath" => said.link = Some(record.value_bytes().to_vec()),
            b"uid" => said.user = Some(number()?),
            b"gid" => said.group = Some(number()?),
            // The header has it as well, for files of up to 8 GiB.
            b"size" => return Err(wrong("a file of more than 8 GiB")),
            key if key.starts_with(b"GNU.sparse") => return Err(wrong("a sparse file")),
            _ => {}
        }
    }
    Ok(())
}

fn head<R: Read>(entry: Entry<'_, R>, said: Said) -> Result<Head<'_, R>, LayerError> {
    let header = entry.header();
    let name = said.name.unwrap_or_else(|| header.path_bytes().into_owned());
    let shown = || crate::tree::shown(&name);
    let link = || said.link.clone().or_else(|| header.link_name_bytes().map(|name| name.into_owned()));
    let no_target = LayerError::Name { name: shown(), reason: "is a link to nothing" };
    let kind = match header.entry_type() {
        EntryType::Regular | EntryType::Continuous => {
            Kind::File { size: header.entry_size().map_err(LayerError::Read)? }
        }
        EntryType::Directory => Kind::Folder,
        EntryType::Symlink => Kind::Symlink(link().filter(|to| !to.is_empty()).ok_or(no_target)?),
        EntryType::Link => Kind::Link(link().filter(|to| !to.is_empty()).ok_or(no_target)?),
        other => {
            let found = match other {
                EntryType::Block | EntryType::Char => "a device".to_owned(),
                EntryType::Fifo => "a pipe".to_owned(),
                other => format!("of the type {:?}", char::from(other.as_byte())),
            };
            return Err(LayerError::Kind { name: shown(), found });
        }
    };
    let mode = header.mode().map_err(LayerError::Read)? & 0o777;
    let user = said.user.map_or_else(|| header.uid(), Ok).map_err(LayerError::Read)?;
    let group = said.group.map_or_else(|| header.gid(), Ok).map_err(LayerError::Read)?;
    Ok(Head { name, kind, mode, user, group, entry })
}
