//! Reading an archive, which may be anything.

use crate::backup::about::{About, FORMAT};
use crate::backup::error::BackupError;
use crate::backup::write::line;
use crate::backup::{ABOUT, ABOUT_MAX, FILES_MAX, NAME_MAX, SUMS, is_part};
use sha2::{Digest, Sha256};
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use tar::{Archive, Entries, EntryType};

/// Most characters of a reason that are shown.
const REASON_MAX: usize = 256;

/// Reads an archive through to its end.
///
/// # Errors
/// [`BackupError`]: what is wrong with it.
pub fn check(from: impl Read) -> Result<About, BackupError> {
    read(from, |_, entry| discard(entry).map_err(Lost::Reading))
}

/// Makes the folder again of which an archive was made, in the empty folder `to`; all of it is on disk when
/// this returns.
///
/// # Errors
/// [`BackupError`]; whatever was written until then is still there.
pub fn unpack(from: impl Read, to: &Path) -> Result<About, BackupError> {
    let about = read(from, |name, entry| {
        let path = to.join(name);
        let failed = |source| Lost::Writing(BackupError::File { path: path.clone(), source });
        let folder = path.parent().unwrap_or(to);
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let mut file =
            File::options().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
        let mut bytes = vec![0; 64 << 10];
        loop {
            let read = entry.read(&mut bytes).map_err(Lost::Reading)?;
            if read == 0 {
                break;
            }
            file.write_all(&bytes[..read]).map_err(failed)?;
        }
        file.sync_all().map_err(failed)
    })?;
    sync_folders(to)?;
    Ok(about)
}

/// Writes the entries of a folder and of those below it to disk.
fn sync_folders(folder: &Path) -> Result<(), BackupError> {
    let failed = |source| BackupError::File { path: folder.to_owned(), source };
    for below in std::fs::read_dir(folder).map_err(failed)? {
        let below = below.map_err(failed)?;
        if below.file_type().map_err(failed)?.is_dir() {
            sync_folders(&below.path())?;
        }
    }
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
}

/// Why the bytes of a file came to nothing.
enum Lost {
    Reading(io::Error),
    Writing(BackupError),
}

/// Reads all entries, has each file taken, and compares with the sums.
fn read(
    from: impl Read,
    mut take: impl FnMut(&str, &mut dyn Read) -> Result<(), Lost>,
) -> Result<About, BackupError> {
    let mut archive = Archive::new(from);
    let no_backup = |error: io::Error| BackupError::NoBackup(told(&error));
    let mut entries = archive.entries().map_err(no_backup)?.raw(true);
    let mut progress = Progress { files: 0, of: 0 };
    let mut sums = String::new();
    let about = first(&mut entries, &mut sums)?;
    progress.of = about.files;
    let (mut bytes, mut last) = (0u64, String::new());
    while progress.files < about.files {
        let Head { name, size, mut entry } = next(&mut entries, &progress)?;
        let in_order = name > last;
        if !is_part(&name) || !in_order {
            let found = format!("the entry {name:?}");
            return Err(BackupError::Entry { found, allowed: "files of a daemon's state, by their names" });
        }
        bytes = bytes.saturating_add(size);
        if bytes > about.bytes {
            let found = format!("more than {} bytes", about.bytes);
            return Err(BackupError::Entry { found, allowed: "as many as the first entry says" });
        }
        let mut counted = Counted { from: &mut entry, sum: Sha256::new(), read: 0 };
        take(&name, &mut counted).map_err(|lost| match lost {
            Lost::Reading(error) => progress.cut_off(&error),
            Lost::Writing(error) => error,
        })?;
        if counted.read != size {
            return Err(progress.cut_off(&format!("{name} has {} of {size} bytes", counted.read)));
        }
        sums.push_str(&line(&name, counted.sum));
        last = name;
        progress.files += 1;
    }
    if bytes != about.bytes {
        let found = format!("{bytes} bytes where the first entry says {}", about.bytes);
        return Err(BackupError::Entry { found, allowed: "as many" });
    }
    compare(&mut entries, &sums, &progress)?;
    match entries.next() {
        None => Ok(about),
        Some(Err(error)) => Err(progress.cut_off(&error)),
        Some(Ok(_)) => {
            let found = format!("something behind {SUMS}");
            Err(BackupError::Entry { found, allowed: "nothing" })
        }
    }
}

/// How far one came.
struct Progress {
    files: u64,
    of: u64,
}

impl Progress {
    fn cut_off(&self, reason: &impl ToString) -> BackupError {
        BackupError::CutOff { files: self.files, of: self.of, reason: told(reason) }
    }
}

/// A reason as a message may show it: the archive's own bytes may stand in it.
fn told(reason: &impl ToString) -> String {
    printable::harmless(&reason.to_string(), REASON_MAX)
}

/// A plain file.
struct Head<'a, R: Read> {
    name: String,
    size: u64,
    entry: tar::Entry<'a, R>,
}

/// The first entry.
fn first<R: Read>(entries: &mut Entries<'_, R>, sums: &mut String) -> Result<About, BackupError> {
    let no_backup = |what: String| BackupError::NoBackup(told(&what));
    let head = next(entries, &Progress { files: 0, of: 0 }).map_err(|error| match error {
        BackupError::CutOff { reason, .. } => no_backup(reason),
        other => no_backup(other.to_string()),
    })?;
    if head.name != ABOUT || head.size > ABOUT_MAX {
        return Err(no_backup(format!("it begins with {:?} of {} bytes", head.name, head.size)));
    }
    let mut text = Vec::new();
    let mut entry = head.entry;
    entry.read_to_end(&mut text).map_err(|error| no_backup(error.to_string()))?;
    let about: About =
        serde_json::from_slice(&text).map_err(|error| no_backup(format!("{ABOUT}: {error}")))?;
    if about.format != FORMAT {
        let program = printable::harmless(&about.program, 64);
        return Err(BackupError::Format { found: about.format, program, allowed: FORMAT });
    }
    if about.files > FILES_MAX {
        let found = format!("{} files", about.files);
        return Err(BackupError::Entry { found, allowed: "4194304" });
    }
    let mut sum = Sha256::new();
    sum.update(&text);
    sums.push_str(&line(ABOUT, sum));
    Ok(about)
}

/// The next entry, if it is a plain file; a longer name may come before it as an entry of its own.
fn next<'a, R: Read>(entries: &mut Entries<'a, R>, progress: &Progress) -> Result<Head<'a, R>, BackupError> {
    let mut one = || match entries.next() {
        Some(Ok(entry)) => Ok(entry),
        Some(Err(error)) => Err(progress.cut_off(&error)),
        None => Err(progress.cut_off(&"it ends")),
    };
    let mut entry = one()?;
    let mut long = None;
    if entry.header().entry_type() == EntryType::GNULongName {
        let size = entry.header().entry_size().map_err(|error| progress.cut_off(&error))?;
        if size > NAME_MAX + 1 {
            let found = format!("a name of {size} bytes");
            return Err(BackupError::Entry { found, allowed: "255" });
        }
        let mut name = Vec::new();
        entry.read_to_end(&mut name).map_err(|error| progress.cut_off(&error))?;
        if name.last() == Some(&0) {
            name.pop();
        }
        long = Some(name);
        entry = one()?;
    }
    let header = entry.header();
    let name = long.unwrap_or_else(|| header.path_bytes().into_owned());
    let name = String::from_utf8(name).map_err(|error| progress.cut_off(&error))?;
    if header.entry_type() != EntryType::Regular {
        let found = format!("the entry {name:?} of type {:?}", header.entry_type());
        return Err(BackupError::Entry { found, allowed: "plain files" });
    }
    let size = header.entry_size().map_err(|error| progress.cut_off(&error))?;
    Ok(Head { name, size, entry })
}

/// Compares the sums in the archive with those of what was read.
fn compare<R: Read>(
    entries: &mut Entries<'_, R>,
    sums: &str,
    progress: &Progress,
) -> Result<(), BackupError> {
    let Head { name, size, mut entry } = next(entries, progress)?;
    if name != SUMS || size != sums.len() as u64 {
        let found = format!("the entry {name:?} of {size} bytes");
        return Err(BackupError::Entry { found, allowed: "SHA256SUMS, with a line for each file" });
    }
    let mut told = Vec::new();
    entry.read_to_end(&mut told).map_err(|error| progress.cut_off(&error))?;
    if told.len() != sums.len() {
        return Err(progress.cut_off(&format!("{SUMS} has {} of {size} bytes", told.len())));
    }
    if told == sums.as_bytes() {
        return Ok(());
    }
    let mut told = told.split_inclusive(|byte| *byte == b'\n');
    let differs = sums
        .lines()
        .find(|line| told.next().and_then(|told| told.strip_suffix(b"\n")) != Some(line.as_bytes()));
    let name = differs.and_then(|line| line.split_once("  ")).map_or(SUMS, |(_, name)| name);
    Err(BackupError::Sum { name: name.to_owned() })
}

fn discard(from: &mut dyn Read) -> io::Result<()> {
    io::copy(from, &mut io::sink()).map(drop)
}

/// Sums up and counts what is read.
struct Counted<'a> {
    from: &'a mut dyn Read,
    sum: Sha256,
    read: u64,
}

impl Read for Counted<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(to)?;
        self.sum.update(&to[..read]);
        self.read += read as u64;
        Ok(read)
    }
}
