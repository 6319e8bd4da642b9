//! Unpacked images: a folder for each image of each tenant, made whole or not at all.

use crate::permits::USERS;
use crate::{LauncherError, Refusal};
use container_image::{Bounds, Config, Digest, Layout, Owners};
use rustix::fs::{Mode, OFlags};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Images of one tenant that are kept unpacked; more only while containers use them.
const KEPT: usize = 16;
/// Most files of one image.
const ENTRIES: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Images {
    folder: PathBuf,
    /// One is unpacked at a time: it is the disk's time, and two starts may need the same one.
    unpacking: Mutex<()>,
}

/// An image that is there.
#[derive(Debug)]
pub(crate) struct Unpacked {
    pub(crate) root: PathBuf,
    pub(crate) config: Config,
}

impl Images {
    /// Opens the folder, and removes what was not finished.
    pub(crate) fn open(folder: &Path) -> Result<Images, LauncherError> {
        passable(folder).map_err(LauncherError::file(folder))?;
        let unfinished = folder.join("unfinished");
        match fs::remove_dir_all(&unfinished) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(LauncherError::file(&unfinished)(error));
            }
            _ => {}
        }
        Ok(Images { folder: folder.to_owned(), unpacking: Mutex::new(()) })
    }

    /// Waits until no other image is unpacked.
    pub(crate) fn one_at_a_time(&self) -> MutexGuard<'_, ()> {
        self.unpacking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes images of a tenant that no container uses, the oldest first, until one more is not too many.
    pub(crate) fn make_room(
        &self,
        _one: &MutexGuard<'_, ()>,
        tenant: &str,
        used: &[PathBuf],
    ) -> std::io::Result<()> {
        let mut unused = Vec::new();
        let mut count = 0;
        let ranges = match fs::read_dir(self.folder.join(tenant)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            ranges => ranges?,
        };
        for range in ranges {
            for image in fs::read_dir(range?.path())? {
                let path = image?.path();
                count += 1;
                if !used.contains(&path) {
                    unused.push((fs::metadata(&path)?.modified()?, path));
                }
            }
        }
        unused.sort_unstable();
        for (_, path) in unused {
            if count < KEPT {
                break;
            }
            fs::remove_dir_all(path)?;
            count -= 1;
        }
        Ok(())
    }

    /// Checks a layout and unpacks it for a tenant, unless that has been done.
    pub(crate) fn unpack(
        &self,
        _one: &MutexGuard<'_, ()>,
        tenant: &str,
        layout: OwnedFd,
        pinned: Option<&Digest>,
        uids: u32,
        bytes: u64,
    ) -> Result<Unpacked, Refusal> {
        let layout = Layout::open(layout, pinned).map_err(Refusal::of("image"))?;
        let failed =
            |error: std::io::Error| Refusal::new(format!("image: the folder of unpacked images: {error}"));
        // Of its users as well: a tenant whose range is another one in the file now cannot use the files of before.
        let folder = self.folder.join(tenant).join(uids.to_string());
        let root = folder.join(layout.digest().hex());
        if !root.exists() {
            passable(&self.folder.join(tenant)).map_err(failed)?;
            passable(&folder).map_err(failed)?;
            let unfinished = self.folder.join("unfinished");
            fs::create_dir(&unfinished).map_err(failed)?;
            // No other process may look at it before it is whole.
            let unpacked = fs::set_permissions(&unfinished, fs::Permissions::from_mode(0o700))
                .map_err(failed)
                .and_then(|()| fs::create_dir(unfinished.join("root")).map_err(failed))
                .and_then(|()| {
                    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                    let to = rustix::fs::open(unfinished.join("root"), flags, Mode::empty());
                    let to = to.map_err(|error| failed(error.into()))?;
                    let bounds = Bounds { bytes, entries: ENTRIES };
                    let owners = Owners::Shifted { first: uids, count: USERS };
                    layout.unpack(to, owners, bounds).map_err(Refusal::of("image"))
                })
                .and_then(|()| fs::rename(unfinished.join("root"), &root).map_err(failed));
            let removed = fs::remove_dir_all(&unfinished).map_err(failed);
            unpacked.and(removed)?;
        }
        Ok(Unpacked { root, config: layout.config().clone() })
    }
}

/// Makes a folder through which other users may pass and in which they cannot look around: the tenants' users
/// reach what is theirs below it.
pub(crate) fn passable(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o711))
}
