//! Unpacked images: a folder for each image of each tenant, made whole or not at all.

use crate::permits::USERS;
use crate::{LauncherError, Refusal};
use container_image::{Bounds, Config, Digest, Layout, Owners, remove_folder};
use rustix::fs::{Mode, OFlags};
use std::collections::HashMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Images of one tenant that are kept unpacked; more only while containers use them.
const KEPT: usize = 16;
/// Most files of one image.
const ENTRIES: u64 = 1 << 20;
/// Most processor time that one image takes to be unpacked: some times that of the largest.
const PROCESSOR: Duration = Duration::from_secs(600);
/// Where images are that are not whole. No tenant is called so.
const UNFINISHED: &str = ".unfinished";
/// The nice value at which images are unpacked and removed: as that of what is done beside the workers.
const NICE: i32 = 15;

#[derive(Debug)]
pub(crate) struct Images {
    folder: PathBuf,
    /// One image of a tenant is unpacked at a time: two starts may need the same one. Others' are not waited
    /// for.
    turns: Mutex<HashMap<String, Arc<Mutex<()>>>>,
}

/// The images of a tenant, while no other thread changes them.
#[derive(Debug)]
pub(crate) struct ImagesOfTenant<'a> {
    folder: &'a Path,
    tenant: &'a str,
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
        let unfinished = folder.join(UNFINISHED);
        match remove_folder(&unfinished) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(LauncherError::file(&unfinished)(error));
            }
            _ => {}
        }
        fs::create_dir(&unfinished).map_err(LauncherError::file(&unfinished))?;
        Ok(Images { folder: folder.to_owned(), turns: Mutex::default() })
    }

    /// The configuration of a layout, if it is one, for this machine, and the one that is pinned; and where
    /// the tenant has it unpacked, if it does. Its layers are not read.
    pub(crate) fn known(
        &self,
        tenant: &str,
        uids: u32,
        layout: OwnedFd,
        pinned: Option<&Digest>,
    ) -> Result<(Config, Option<PathBuf>), Refusal> {
        let layout = Layout::open(layout, pinned).map_err(Refusal::of("image"))?;
        let root = folder_of(&self.folder, tenant, uids).join(layout.digest().hex());
        Ok((layout.config().clone(), Some(root).filter(|root| root.exists())))
    }

    /// Works on the images of a tenant, when no other thread does, by a thread of low priority.
    pub(crate) fn for_tenant<T: Send>(
        &self,
        tenant: &str,
        work: impl FnOnce(&ImagesOfTenant<'_>) -> Result<T, Refusal> + Send,
    ) -> Result<T, Refusal> {
        let turn = self.turn_of(tenant);
        let done = std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
                // Of a thread, on Linux. A refusal leaves it as it is.
                let _ = rustix::process::setpriority_process(None, NICE);
                work(&ImagesOfTenant { folder: &self.folder, tenant })
            });
            worker.join()
        });
        done.unwrap_or_else(|_| Err(Refusal::new("image: the thread that unpacks it ended")))
    }

    /// What is locked while a tenant's images are changed.
    fn turn_of(&self, tenant: &str) -> Arc<Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that nothing holds or waits for are not needed.
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        turns.entry(tenant.to_owned()).or_default().clone()
    }
}

impl ImagesOfTenant<'_> {
    /// Removes images that no container uses, the oldest first, until one more is not too many.
    pub(crate) fn make_room(&self, used: &[PathBuf]) -> std::io::Result<()> {
        let mut unused = Vec::new();
        let mut count = 0;
        let ranges = match fs::read_dir(self.folder.join(self.tenant)) {
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
            remove_folder(&path)?;
            count -= 1;
        }
        Ok(())
    }

    /// Checks a layout and unpacks it, unless that has been done.
    pub(crate) fn unpack(
        &self,
        layout: OwnedFd,
        pinned: Option<&Digest>,
        uids: u32,
        bytes: u64,
    ) -> Result<Unpacked, Refusal> {
        let layout = Layout::open(layout, pinned).map_err(Refusal::of("image"))?;
        let failed =
            |error: std::io::Error| Refusal::new(format!("image: the folder of unpacked images: {error}"));
        let folder = folder_of(self.folder, self.tenant, uids);
        let root = folder.join(layout.digest().hex());
        if !root.exists() {
            passable(&self.folder.join(self.tenant)).map_err(failed)?;
            passable(&folder).map_err(failed)?;
            let unfinished = self.folder.join(UNFINISHED).join(self.tenant);
            fs::create_dir(&unfinished).map_err(failed)?;
            // No other process may look at it before it is whole.
            let unpacked = fs::set_permissions(&unfinished, fs::Permissions::from_mode(0o700))
                .map_err(failed)
                .and_then(|()| fs::create_dir(unfinished.join("root")).map_err(failed))
                .and_then(|()| {
                    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                    let to = rustix::fs::open(unfinished.join("root"), flags, Mode::empty());
                    let to = to.map_err(|error| failed(error.into()))?;
                    let bounds = Bounds { bytes, entries: ENTRIES, processor: PROCESSOR };
                    let owners = Owners::Shifted { first: uids, count: USERS };
                    layout.unpack(to, owners, bounds).map_err(Refusal::of("image"))
                })
                .and_then(|()| fs::rename(unfinished.join("root"), &root).map_err(failed));
            let removed = remove_folder(&unfinished).map_err(failed);
            unpacked.and(removed)?;
        }
        Ok(Unpacked { root, config: layout.config().clone() })
    }
}

/// Where a tenant's images are. Of its users as well: a tenant whose range is another one in the file now
/// cannot use the files of before.
fn folder_of(folder: &Path, tenant: &str, uids: u32) -> PathBuf {
    folder.join(tenant).join(uids.to_string())
}

/// Makes a folder through which other users may pass and in which they cannot look around: the tenants' users
/// reach what is theirs below it.
pub(crate) fn passable(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o711))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn images_of_one_tenant_keep_no_other_waiting() {
        let folder = tempfile::tempdir().expect("a folder");
        let images = Images::open(folder.path()).expect("it opens");
        let (go, wait) = channel::<()>();
        let (told, at) = channel();
        std::thread::scope(|scope| {
            let work = |name: &'static str, wait: Option<std::sync::mpsc::Receiver<()>>| {
                let (images, told) = (&images, told.clone());
                scope.spawn(move || {
                    images.for_tenant(name, |_| {
                        let _ = told.send(name);
                        let _ = wait.map(|wait| wait.recv());
                        Ok(rustix::process::getpriority_process(None).unwrap_or(0))
                    })
                })
            };
            let slow = work("red", Some(wait));
            assert_eq!(at.recv(), Ok("red"));
            // Another one's are unpacked meanwhile, and red's next one is not.
            let next = work("red", None);
            assert_eq!(work("blue", None).join().expect("no panic").map_err(|it| it.to_string()), Ok(NICE));
            assert_eq!(at.recv(), Ok("blue"));
            assert!(images.turn_of("red").try_lock().is_err() && at.try_recv().is_err());
            go.send(()).expect("it waits");
            for work in [slow, next] {
                assert!(work.join().expect("no panic").is_ok());
            }
        });
        assert_eq!(at.try_iter().count(), 1);
        assert!(images.turn_of("red").try_lock().is_ok());
    }
}
