//! A snapshot's file: a line that says what it is, the seal, the function.

use crate::FolderError;
use crate::key::{Key, Keys, hexadecimal};
use crate::seal::{SEAL_MAX, Seal, sum};
use api::{Name, Snapshot};
use snapshot::Saved;
use std::io::{BufRead, BufReader, Read};

/// Longest first line, in bytes.
pub const LINE_MAX: u64 = 4 << 20;
/// Largest file that is read, in bytes.
pub const FILE_MAX: u64 = 1 << 30;

/// What stands before the function.
#[derive(Debug)]
pub(crate) struct Head {
    /// What the snapshot is. Of one that is imported the tenant is none, and `imported` is set.
    pub(crate) told: Snapshot,
    /// The line that says so, as it stands there.
    pub(crate) line: Vec<u8>,
    /// The seal, whether it holds or not.
    pub(crate) seal: Option<Seal>,
}

/// Reads what stands before the function; the reader is then where that begins. `bytes` are those of the
/// file.
pub(crate) fn head<R: Read>(
    keys: &Keys,
    (name, shown): (&Name, &str),
    bytes: u64,
    from: &mut BufReader<R>,
) -> Result<Head, FolderError> {
    let io = |source| FolderError::Io { file: shown.to_owned(), source };
    let wrong = |reason: String| FolderError::Line { file: shown.to_owned(), reason };
    let mut line = Vec::new();
    from.by_ref().take(LINE_MAX).read_until(b'\n', &mut line).map_err(io)?;
    if line.last() != Some(&b'\n') {
        return Err(wrong(format!("it does not end within {LINE_MAX} bytes")));
    }
    let mut told: Snapshot = serde_json::from_slice(&line).map_err(|error| wrong(error.to_string()))?;
    // Files of before there were seals have none: the snapshot itself follows, which begins with another
    // byte.
    let seal = match from.fill_buf().map_err(io)?.first() {
        Some(b's') => {
            let mut sealed = Vec::new();
            from.by_ref().take(SEAL_MAX).read_until(b'\n', &mut sealed).map_err(io)?;
            let seal = Seal::read(&sealed);
            Some(seal.ok_or_else(|| wrong("what follows it is no seal and no snapshot".to_owned()))?)
        }
        _ => None,
    };
    let own = seal.as_ref().is_some_and(|seal| seal.holds(keys, name, &line)) && told.name == *name;
    told.imported = !own;
    told.tenant = told.tenant.filter(|_| own);
    told.name = name.clone();
    told.bytes = bytes;
    Ok(Head { told, line, seal })
}

/// Reads a file as a whole: what the snapshot is, and the function. `shown` is how errors call it.
///
/// # Errors
/// What was found, and what is allowed.
pub fn read(
    keys: &Keys,
    (name, shown): (&Name, &str),
    bytes: u64,
    from: impl Read,
) -> Result<(Snapshot, Saved<'static>), FolderError> {
    let mut from = BufReader::new(from);
    let Head { told, seal, .. } = head(keys, (name, shown), bytes, &mut from)?;
    let mut encoded = Vec::new();
    let failed = |source| FolderError::Io { file: shown.to_owned(), source };
    from.take(FILE_MAX + 1).read_to_end(&mut encoded).map_err(failed)?;
    let found = encoded.len() as u64;
    if found > FILE_MAX {
        return Err(FolderError::Large { file: shown.to_owned(), found, allowed: FILE_MAX });
    }
    // A foreign seal is no proof of anything, but a transfer may have damaged what it names.
    if let Some(seal) = seal {
        let (length, sha256) = sum(&encoded);
        let damaged = |found, sealed| FolderError::Damaged { file: shown.to_owned(), found, sealed };
        if length != seal.bytes {
            return Err(damaged(format!("{length} bytes follow its seal"), format!("{}", seal.bytes)));
        }
        if sha256 != seal.sha256 {
            let shown = |digest: &[u8; 32]| format!("sha256:{}", hexadecimal(digest));
            return Err(damaged(shown(&sha256), shown(&seal.sha256)));
        }
    }
    let saved =
        Saved::decode(&encoded).map_err(|source| FolderError::Snapshot { file: shown.to_owned(), source })?;
    Ok((told, saved.into_owned()))
}

/// A file as a whole, sealed. What `told` says of bytes does not count.
///
/// # Errors
/// What of it no snapshot may hold.
pub fn encoded(key: &Key, told: &Snapshot, saved: &Saved<'_>) -> Result<Vec<u8>, FolderError> {
    let function = saved.encode()?;
    let line = |error: serde_json::Error| FolderError::Line {
        file: told.name.to_string(),
        reason: error.to_string(),
    };
    let mut file = written(key, told, sum(&function)).map_err(line)?;
    file.extend_from_slice(&function);
    Ok(file)
}

/// What stands before a function that is to be written: the line and the seal.
pub(crate) fn written(
    key: &Key,
    told: &Snapshot,
    rest: (u64, [u8; 32]),
) -> Result<Vec<u8>, serde_json::Error> {
    // Whether it is imported is for the seal to say, and bytes for the file.
    let told = Snapshot { imported: false, bytes: 0, ..told.clone() };
    let mut line = serde_json::to_vec(&told)?;
    line.push(b'\n');
    let seal = Seal::new(key, &told.name, &line, rest);
    line.extend_from_slice(seal.line().as_bytes());
    Ok(line)
}
