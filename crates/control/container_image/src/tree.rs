//! The folder that is unpacked into: each name is resolved by the kernel as if the folder were the root.

use crate::{LayerError, NAME_MAX, Owners};
use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Uid};
use rustix::io::Errno;
use std::cell::Cell;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Deepest folder that a layer removes with what is below it.
const DEPTH_MAX: usize = 256;
/// Most files and folders that are removed at once: what is being filled meanwhile has an end.
const REMOVED_MAX: u64 = 1 << 24;

/// Links of the image are followed within the folder, others are none.
const INSIDE: ResolveFlags = ResolveFlags::IN_ROOT.union(ResolveFlags::NO_MAGICLINKS);

/// How a folder is opened.
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

#[derive(Debug)]
pub(crate) struct Tree {
    root: OwnedFd,
    owners: Owners,
    /// Folders that were made because a name lies in them.
    made: Cell<u64>,
}

/// A name as messages show it.
pub(crate) fn shown(name: &[u8]) -> String {
    printable::harmless(&String::from_utf8_lossy(name), 128)
}

/// A name of a layer as a relative path: without `..`, without a `/` in front or a zero inside. The root
/// itself is the empty path.
pub(crate) fn relative(name: &[u8]) -> Result<PathBuf, LayerError> {
    let wrong = |reason| Err(LayerError::Name { name: shown(name), reason });
    if name.len() as u64 > NAME_MAX {
        return wrong("is too long");
    }
    if name.contains(&0) {
        return wrong("has a zero in it");
    }
    if name.first() == Some(&b'/') {
        return wrong("is absolute");
    }
    let mut path = PathBuf::new();
    for part in name.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => return wrong("leads upwards"),
            part if part.len() > 255 => return wrong("has a part of more than 255 bytes"),
            part => path.push(OsStr::from_bytes(part)),
        }
    }
    Ok(path)
}

impl Tree {
    pub(crate) fn new(root: OwnedFd, owners: Owners) -> io::Result<Tree> {
        let tree = Tree { root, owners, made: Cell::new(0) };
        tree.give(tree.root.as_fd(), 0, 0, 0o755)?;
        Ok(tree)
    }

    pub(crate) fn owners(&self) -> Owners {
        self.owners
    }

    /// How many folders were made since the last call, because names lie in them.
    pub(crate) fn take_made(&self) -> u64 {
        self.made.take()
    }

    /// Opens the folder of a path, which is made where it is missing, as the image's root.
    pub(crate) fn folder(&self, path: &Path) -> io::Result<OwnedFd> {
        let open = |path: &Path| {
            let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
            rustix::fs::openat2(&self.root, path, FOLDER, Mode::empty(), INSIDE)
        };
        match open(path) {
            Err(Errno::NOENT) => {}
            opened => return is_near(opened?),
        }
        let mut folder = open(Path::new(""))?;
        let mut down = PathBuf::new();
        for part in path.components() {
            down.push(part);
            // From the folder above it, or by the whole path where it is a link: that leads from the root.
            let beside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            folder = match rustix::fs::openat2(&folder, part.as_os_str(), FOLDER, Mode::empty(), beside) {
                Err(Errno::NOENT) => {
                    rustix::fs::mkdirat(&folder, part.as_os_str(), Mode::from_bits_truncate(0o755))?;
                    self.made.set(self.made.get() + 1);
                    let made = open_folder(&folder, part.as_os_str())?;
                    self.give(made.as_fd(), 0, 0, 0o755)?;
                    is_near(made)?
                }
                Err(Errno::LOOP) => open(&down)?,
                opened => opened?,
            };
        }
        is_near(folder)
    }

    /// Gives a file or folder its owner, then its permissions, which a change of the owner would take away.
    pub(crate) fn give(&self, to: BorrowedFd<'_>, user: u32, group: u32, mode: u32) -> io::Result<()> {
        if let Owners::Shifted { first, .. } = self.owners {
            rustix::fs::fchown(to, Some(Uid::from_raw(first + user)), Some(Gid::from_raw(first + group)))?;
        }
        Ok(rustix::fs::fchmod(to, Mode::from_bits_truncate(mode))?)
    }

    /// Gives a link its owner.
    pub(crate) fn give_link(&self, folder: &OwnedFd, name: &OsStr, user: u32, group: u32) -> io::Result<()> {
        if let Owners::Shifted { first, .. } = self.owners {
            let (user, group) = (Uid::from_raw(first + user), Gid::from_raw(first + group));
            rustix::fs::chownat(folder, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    }

    /// Writes a new file of exactly `size` bytes.
    pub(crate) fn write(
        &self,
        folder: &OwnedFd,
        name: &OsStr,
        from: &mut dyn Read,
        size: u64,
    ) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::openat(folder, name, flags, Mode::from_bits_truncate(0o600))?;
        let mut file = File::from(made);
        let written = io::copy(&mut from.take(size), &mut file)?;
        if written != size {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("it ends after {written} bytes"),
            ));
        }
        Ok(file)
    }
}

/// Whether there is a folder of this name, which is no link to one.
pub(crate) fn is_folder(folder: &OwnedFd, name: &OsStr) -> bool {
    let found = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory)
}

/// Removes what has this name, with all that is below it. Links are removed and never followed.
pub(crate) fn remove(folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    clear(folder, Path::new(name), &|_| false, 0).map(drop)
}

/// Removes all that the folder of the path `path` has in it, but for what `keep` names by its path, and the
/// folders that such lie in.
pub(crate) fn empty(folder: &OwnedFd, path: &Path, keep: &dyn Fn(&Path) -> bool) -> io::Result<()> {
    for name in names(folder)? {
        clear(folder, &path.join(OsStr::from_bytes(name.to_bytes())), keep, 0)?;
    }
    Ok(())
}

/// Removes the path's last part from its folder; `false` if something of it is kept.
fn clear(folder: &OwnedFd, path: &Path, keep: &dyn Fn(&Path) -> bool, depth: usize) -> io::Result<bool> {
    let Some(name) = path.file_name() else { return Ok(false) };
    let kept = keep(path);
    if !is_folder(folder, name) {
        if kept {
            return Ok(false);
        }
        return unlink(folder, name).map(|()| true);
    }
    if depth == DEPTH_MAX {
        return Err(io::Error::other("folders are too deep"));
    }
    let inside = open_folder(folder, name)?;
    let mut all = !kept;
    for name in names(&inside)? {
        all &= clear(&inside, &path.join(OsStr::from_bytes(name.to_bytes())), keep, depth + 1)?;
    }
    if all {
        rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR)?;
    }
    Ok(all)
}

/// Removes a folder with all that is in it, however deep that lies. A removal that holds each folder on its
/// way down runs out of descriptors or of stack, so what lies deeper is moved up first. Links are removed and
/// never followed.
///
/// # Errors
/// What the system says; what was not removed by then is still there.
pub fn remove_folder(path: &Path) -> io::Result<()> {
    let top = rustix::fs::open(path, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
    let (mut number, mut left) = (0_u64, REMOVED_MAX);
    loop {
        let mut moved = false;
        for name in names(&top)? {
            let name = OsStr::from_bytes(name.to_bytes());
            if !is_folder(&top, name) {
                unlink(&top, name)?;
                continue;
            }
            let inside = open_folder(&top, name)?;
            for inner in names(&inside)? {
                let inner = OsStr::from_bytes(inner.to_bytes());
                left = left.checked_sub(1).ok_or_else(|| io::Error::other("there is more and more in it"))?;
                if !is_folder(&inside, inner) {
                    unlink(&inside, inner)?;
                    continue;
                }
                loop {
                    number += 1;
                    let up = format!(".{number}");
                    match rustix::fs::renameat_with(&inside, inner, &top, up, RenameFlags::NOREPLACE) {
                        Err(Errno::EXIST) => {}
                        done => break done?,
                    }
                }
                moved = true;
            }
            rustix::fs::unlinkat(&top, name, AtFlags::REMOVEDIR)?;
        }
        if !moved {
            return std::fs::remove_dir(path);
        }
    }
}

/// Removes a file; one that is gone is no error.
fn unlink(folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Refuses a folder that is farther from the root than one path can say, which links make: each name below it
/// would cost the kernel a walk of all that.
fn is_near(folder: OwnedFd) -> io::Result<OwnedFd> {
    match rustix::fs::readlink(format!("/proc/self/fd/{}", folder.as_raw_fd()), Vec::new()) {
        Err(Errno::NAMETOOLONG) => Err(io::Error::other("its folder is too deep")),
        // Without /proc it is not known.
        _ => Ok(folder),
    }
}

/// What is in a folder.
fn names(folder: &OwnedFd) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

pub(crate) fn open_folder(folder: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(folder, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?)
}
