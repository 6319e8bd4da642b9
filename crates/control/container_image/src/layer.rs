//! Applying a layer: its entries in their order, and what its whiteouts remove.

use crate::tar_entry::{Head, Kind, next};
use crate::tree::{Tree, empty, is_folder, open_folder, relative, remove, shown};
use crate::{Bounds, LayerError, Owners};
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::ffi::{OsStr, OsString};
use std::hash::BuildHasher;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::Duration;
use tar::Archive;

/// A file of this name removes that of the rest of the name, of layers before.
const WHITEOUT: &[u8] = b".wh.";
/// A file of this name removes all of layers before that is in its folder.
const OPAQUE: &[u8] = b".wh..wh..opq";

/// What has come of an image so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Applied {
    bytes: u64,
    /// Folders that no entry made, but a name that lies in them, are some as well.
    entries: u64,
    /// What its thread had used of a processor before.
    began: Duration,
}

impl Applied {
    pub(crate) fn new() -> Applied {
        Applied { bytes: 0, entries: 0, began: processor_time() }
    }

    fn count(&mut self, more: u64, bounds: Bounds) -> Result<(), LayerError> {
        self.entries += more;
        if self.entries > bounds.entries {
            return Err(LayerError::TooMuch { allowed: bounds.entries, unit: "entries" });
        }
        if processor_time().saturating_sub(self.began) > bounds.processor {
            return Err(LayerError::TooSlow { allowed: bounds.processor });
        }
        Ok(())
    }
}

/// What this thread has used of a processor.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// What a layer has made: 128 bits of each name, whose keys no layer knows. A million names as they are would
/// be gigabytes.
#[derive(Debug, Default)]
struct Made {
    keys: [RandomState; 2],
    names: HashSet<u128>,
}

impl Made {
    fn key(&self, path: &Path) -> u128 {
        let [high, low] = &self.keys;
        let name = path.as_os_str().as_bytes();
        (u128::from(high.hash_one(name)) << 64) | u128::from(low.hash_one(name))
    }

    fn insert(&mut self, path: &Path) {
        self.names.insert(self.key(path));
    }

    fn contains(&self, path: &Path) -> bool {
        self.names.contains(&self.key(path))
    }
}

/// Applies a layer, an uncompressed archive.
pub(crate) fn apply(
    from: impl Read,
    tree: &Tree,
    bounds: Bounds,
    applied: &mut Applied,
) -> Result<(), LayerError> {
    let mut archive = Archive::new(from);
    let mut entries = archive.entries().map_err(LayerError::Read)?.raw(true);
    // Whiteouts concern layers before alone, wherever in their own they stand.
    let mut made = Made::default();
    while let Some(mut head) = next(&mut entries)? {
        applied.count(1, bounds)?;
        if let Kind::File { size } = head.kind {
            applied.bytes = applied.bytes.saturating_add(size);
            if applied.bytes > bounds.bytes {
                return Err(LayerError::TooMuch { allowed: bounds.bytes, unit: "bytes" });
            }
        }
        put(&mut head, tree, &mut made)?;
        applied.count(tree.take_made(), bounds)?;
    }
    Ok(())
}

fn put<R: Read>(head: &mut Head<'_, R>, tree: &Tree, made: &mut Made) -> Result<(), LayerError> {
    let path = relative(&head.name)?;
    let (user, group) = owner(head, tree)?;
    let label = shown(&head.name);
    let write = |source: io::Error| LayerError::Write { name: label.clone(), source };
    let Some(name) = path.file_name() else {
        // The root itself, of which only the permissions matter.
        let root = tree.folder(Path::new("")).map_err(write)?;
        return tree.give(root.as_fd(), user, group, head.mode).map_err(write);
    };
    let parent = path.parent().unwrap_or(Path::new(""));
    let folder = tree.folder(parent).map_err(write)?;
    if name.as_bytes() == OPAQUE {
        return empty(&folder, parent, &|path| made.contains(path)).map_err(write);
    }
    if let Some(gone) = name.as_bytes().strip_prefix(WHITEOUT) {
        if gone.is_empty() || matches!(gone, b"." | b"..") {
            let reason = "is a whiteout of nothing";
            return Err(LayerError::Name { name: shown(&head.name), reason });
        }
        let gone = OsStr::from_bytes(gone);
        if made.contains(&parent.join(gone)) {
            return Ok(());
        }
        return remove(&folder, gone).map_err(write);
    }
    let put = match &head.kind {
        Kind::Folder => make_folder(tree, &folder, name, user, group, head.mode),
        Kind::File { size } => remove(&folder, name)
            .and_then(|()| tree.write(&folder, name, &mut head.entry, *size))
            .and_then(|file| tree.give(file.as_fd(), user, group, head.mode)),
        Kind::Symlink(to) => {
            let to = OsString::from_vec(to.clone());
            remove(&folder, name)
                .and_then(|()| Ok(rustix::fs::symlinkat(&to, &folder, name)?))
                .and_then(|()| tree.give_link(&folder, name, user, group))
        }
        Kind::Link(to) => link(tree, &relative(to)?, &folder, name),
    };
    put.map_err(write)?;
    made.insert(&path);
    Ok(())
}

/// The owner, within the tenant's range.
fn owner<R: Read>(head: &Head<'_, R>, tree: &Tree) -> Result<(u32, u32), LayerError> {
    let Owners::Shifted { count, .. } = tree.owners() else { return Ok((0, 0)) };
    let within = |id: u64| u32::try_from(id).ok().filter(|id| *id < count);
    match (within(head.user), within(head.group)) {
        (Some(user), Some(group)) => Ok((user, group)),
        _ => Err(LayerError::Owner { name: shown(&head.name), user: head.user, group: head.group, count }),
    }
}

/// A folder that is there keeps what is in it.
fn make_folder(
    tree: &Tree,
    parent: &OwnedFd,
    name: &OsStr,
    user: u32,
    group: u32,
    mode: u32,
) -> io::Result<()> {
    if !is_folder(parent, name) {
        remove(parent, name)?;
        rustix::fs::mkdirat(parent, name, Mode::from_bits_truncate(0o700))?;
    }
    tree.give(open_folder(parent, name)?.as_fd(), user, group, mode)
}

/// A hard link to a file of the image, which must be there and no link itself.
fn link(tree: &Tree, to: &Path, folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let Some(target) = to.file_name() else { return Err(io::Error::other("a hard link to a folder")) };
    let from = tree.folder(to.parent().unwrap_or(Path::new("")))?;
    let found = rustix::fs::statat(&from, target, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("a hard link to what is no file"));
    }
    let here = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    if here.is_ok_and(|here| here.st_ino == found.st_ino && here.st_dev == found.st_dev) {
        return Ok(());
    }
    remove(folder, name)?;
    // Without AT_SYMLINK_FOLLOW: what has been looked at is what is linked to.
    Ok(rustix::fs::linkat(&from, target, folder, name, AtFlags::empty())?)
}
