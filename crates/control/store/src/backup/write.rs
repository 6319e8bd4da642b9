//! An archive of a folder.

use crate::backup::about::{About, FORMAT};
use crate::backup::error::WriteError;
use crate::backup::{ABOUT, FILES_MAX, SUMS, is_part};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType, Header};

/// Writes an archive of all that is part of a backup in `folder`; whatever else is there is left out. The
/// files must not change meanwhile. `program` and `created` are told of the archive, and so is `revision`.
///
/// # Errors
/// [`WriteError`]; what was written until then does not pass for an archive.
pub fn write(
    folder: &Path,
    (program, created, revision): (&str, &str, u64),
    to: impl Write,
) -> Result<About, WriteError> {
    let mut files = BTreeMap::new();
    find(folder, "", &mut files)?;
    let found = files.len() as u64;
    if found > FILES_MAX {
        return Err(WriteError::Many { found });
    }
    let about = About {
        format: FORMAT,
        program: program.to_owned(),
        created: created.to_owned(),
        revision,
        files: found,
        bytes: files.values().map(|(_, bytes)| bytes).sum(),
    };
    let mut sums = String::new();
    let mut archive = Builder::new(to);
    // Numbers and text can always be written.
    let first = serde_json::to_vec(&about).unwrap_or_default();
    entry(&mut archive, ABOUT, first.len() as u64, &mut first.as_slice(), &mut sums)?;
    for (name, (path, bytes)) in &files {
        let failed = |source| WriteError::File { path: path.clone(), source };
        let mut file = Exactly { file: File::open(path).map_err(failed)?, left: *bytes };
        entry(&mut archive, name, *bytes, &mut file, &mut sums)?;
    }
    let last = std::mem::take(&mut sums);
    entry(&mut archive, SUMS, last.len() as u64, &mut last.as_bytes(), &mut sums)?;
    archive.into_inner().and_then(|mut to| to.flush()).map_err(WriteError::Archive)?;
    Ok(about)
}

/// Files below a folder that are part of a backup, by their path from there, with their size.
fn find(folder: &Path, below: &str, files: &mut BTreeMap<String, (PathBuf, u64)>) -> Result<(), WriteError> {
    let failed = |source| WriteError::File { path: folder.to_owned(), source };
    for found in std::fs::read_dir(folder).map_err(failed)? {
        let found = found.map_err(failed)?;
        let Some(name) = found.file_name().to_str().map(|name| format!("{below}{name}")) else { continue };
        let path = found.path();
        let failed = |source| WriteError::File { path: path.clone(), source };
        // Links are not followed.
        let kind = found.metadata().map_err(failed)?;
        if kind.is_dir() {
            find(&path, &format!("{name}/"), files)?;
        } else if kind.is_file() && is_part(&name) {
            files.insert(name, (path, kind.len()));
        }
    }
    Ok(())
}

/// Writes one entry, and its line of the sums.
fn entry(
    archive: &mut Builder<impl Write>,
    name: &str,
    bytes: u64,
    from: &mut dyn Read,
    sums: &mut String,
) -> Result<(), WriteError> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o600);
    header.set_size(bytes);
    let mut summed = Summed { from, sum: Sha256::new() };
    archive.append_data(&mut header, name, &mut summed).map_err(WriteError::Archive)?;
    sums.push_str(&line(name, summed.sum));
    Ok(())
}

/// What `sha256sum` prints of a file.
pub(crate) fn line(name: &str, sum: Sha256) -> String {
    let digits: String = sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{digits}  {name}\n")
}

/// Sums up what is read.
struct Summed<'a> {
    from: &'a mut dyn Read,
    sum: Sha256,
}

impl Read for Summed<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(to)?;
        self.sum.update(&to[..read]);
        Ok(read)
    }
}

/// A file that has to have so many bytes.
struct Exactly {
    file: File,
    left: u64,
}

impl Read for Exactly {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(to.len());
        let read = self.file.read(&mut to[..most])?;
        self.left -= read as u64;
        match read {
            0 if most > 0 => Err(io::Error::other("a file became shorter while it was read")),
            _ => Ok(read),
        }
    }
}
