//! Files of the folder: private, written whole or not at all, checked when they are read.

use super::{ImagesError, absent};
use crate::Digest;
use local_file::Place;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Largest blob that is read; nothing larger is ever put here.
const MAX_BLOB: u64 = 1 << 30;

const BLOBS: &str = "blobs/sha256";
/// Largest file that says which layout it is.
const MAX_LAYOUT: u64 = 4096;
const UNFINISHED: &str = "unfinished";
const LAYOUT: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;

/// A folder that is this user's alone.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// It, and the folders in it.
    places: Vec<Place>,
    /// Names for unfinished files.
    next: AtomicU64,
}

/// Holds the lock until it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Folder, ImagesError> {
        let make = |path: &Path| {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
            made.map_err(ImagesError::file(path))
        };
        make(path)?;
        let found = fs::metadata(path).map_err(ImagesError::file(path))?;
        let not_private = |found: String| ImagesError::NotPrivate { path: path.to_owned(), found };
        let user = rustix::process::geteuid().as_raw();
        if found.uid() != user {
            return Err(not_private(format!("it belongs to user {}, this is user {user}", found.uid())));
        }
        if found.mode() & 0o077 != 0 {
            return Err(not_private(format!("others may enter it (mode {:03o})", found.mode() & 0o777)));
        }
        let mut places = Vec::new();
        for below in ["", BLOBS, "pins", UNFINISHED] {
            let path = if below.is_empty() { path.to_owned() } else { path.join(below) };
            make(&path)?;
            places.push(Place::of(&path).map_err(ImagesError::file(&path))?);
        }
        Ok(Folder { path: path.to_owned(), places, next: AtomicU64::new(0) })
    }

    /// That it, or a folder in it, is not there any more, or another one is.
    pub(super) fn removed(&self) -> Option<String> {
        self.places.iter().find_map(Place::removed)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes unfinished files and completes the folder. Only under the lock, when no process writes.
    pub(super) fn finish(&self) -> Result<(), ImagesError> {
        for (path, _) in self.list(UNFINISHED)? {
            self.remove(&path)?;
        }
        let layout = self.path.join("oci-layout");
        if absent(local_file::read(&layout, MAX_LAYOUT)).map_err(ImagesError::file(&layout))?.as_deref()
            != Some(LAYOUT)
        {
            self.put(Path::new("oci-layout"), LAYOUT)?;
        }
        Ok(())
    }

    /// Waits until no other process changes the folder.
    pub(super) fn lock(&self, most: Duration) -> Result<Lock, ImagesError> {
        let path = self.path.join("lock");
        let file = local_file::open_with(
            &path,
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600),
        );
        let file = file.map_err(ImagesError::file(&path))?;
        let begin = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Lock { _file: file }),
                Err(TryLockError::WouldBlock) if begin.elapsed() < most => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(TryLockError::WouldBlock) => return Err(ImagesError::Locked { path, waited: most }),
                Err(TryLockError::Error(source)) => return Err(ImagesError::File { path, source }),
            }
        }
    }

    /// Files of a folder below this one, by path and name.
    pub(super) fn list(&self, below: &str) -> Result<Vec<(PathBuf, String)>, ImagesError> {
        let folder = self.path.join(below);
        let mut found = Vec::new();
        for entry in fs::read_dir(&folder).map_err(ImagesError::file(&folder))? {
            let entry = entry.map_err(ImagesError::file(&folder))?;
            found.push((entry.path(), entry.file_name().to_string_lossy().into_owned()));
        }
        Ok(found)
    }

    pub(super) fn remove(&self, path: &Path) -> Result<(), ImagesError> {
        absent(fs::remove_file(path)).map(drop).map_err(ImagesError::file(path))
    }

    /// Writes a file, so that it has the old content or the new, now and after a loss of power.
    pub(super) fn put(&self, name: &Path, bytes: &[u8]) -> Result<(), ImagesError> {
        let path = self.path.join(name);
        self.write(&path, bytes)?;
        sync(path.parent().unwrap_or(&self.path))
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), ImagesError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let unfinished = self.path.join(UNFINISHED).join(format!("{}.{number}", std::process::id()));
        let written = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&unfinished)
            .and_then(|mut file| {
                file.write_all(bytes)?;
                file.sync_all()
            })
            .and_then(|()| fs::rename(&unfinished, path));
        written.map_err(|source| {
            // The first error is the one to tell; what is left goes when the folder is opened.
            let _ = fs::remove_file(&unfinished);
            ImagesError::File { path: path.to_owned(), source }
        })
    }

    pub(super) fn blob_path(&self, digest: Digest) -> PathBuf {
        self.path.join(BLOBS).join(digest.hex())
    }

    /// Writes content, unless it is there and as it should be. [`Folder::sync_blobs`] makes it last.
    pub(super) fn put_blob(&self, digest: Digest, bytes: &[u8]) -> Result<(), ImagesError> {
        match self.blob(digest) {
            Ok(Some(_)) => Ok(()),
            Ok(None) | Err(ImagesError::Damaged { .. }) => self.write(&self.blob_path(digest), bytes),
            Err(error) => Err(error),
        }
    }

    pub(super) fn sync_blobs(&self) -> Result<(), ImagesError> {
        sync(&self.path.join(BLOBS))
    }

    /// Content that is what it is called.
    pub(super) fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>, ImagesError> {
        let path = self.blob_path(digest);
        let Some(file) = absent(local_file::open(&path)).map_err(ImagesError::file(&path))? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        file.take(MAX_BLOB).read_to_end(&mut bytes).map_err(ImagesError::file(&path))?;
        let found = Digest::of(&bytes);
        if found != digest {
            return Err(ImagesError::Damaged { path, found: found.to_string() });
        }
        Ok(Some(bytes))
    }

    pub(super) fn size(&self, digest: Digest) -> Result<Option<u64>, ImagesError> {
        let path = self.blob_path(digest);
        let found = absent(fs::metadata(&path)).map_err(ImagesError::file(&path))?;
        Ok(found.map(|found| found.len()))
    }

    pub(super) fn has(&self, digest: Digest) -> Result<bool, ImagesError> {
        Ok(self.size(digest)?.is_some())
    }

    /// When a manifest was used last.
    pub(super) fn used(&self, digest: Digest) -> Result<Option<SystemTime>, ImagesError> {
        let path = self.blob_path(digest);
        absent(fs::metadata(&path).and_then(|found| found.modified())).map_err(ImagesError::file(&path))
    }

    /// Notes that a manifest is used now.
    pub(super) fn touch(&self, digest: Digest) -> Result<(), ImagesError> {
        let path = self.blob_path(digest);
        let touched = local_file::open_with(&path, OpenOptions::new().append(true));
        absent(touched.and_then(|file| file.set_modified(SystemTime::now())))
            .map(drop)
            .map_err(ImagesError::file(&path))
    }

    /// All content, by digest, with sizes; and files that are none.
    pub(super) fn blobs(&self) -> Result<(BTreeMap<Digest, u64>, Vec<PathBuf>), ImagesError> {
        let (mut blobs, mut others) = (BTreeMap::new(), Vec::new());
        for (path, name) in self.list(BLOBS)? {
            match format!("sha256:{name}").parse() {
                Ok(digest) => blobs.extend(self.size(digest)?.map(|size| (digest, size))),
                Err(_) => others.push(path),
            }
        }
        Ok((blobs, others))
    }
}

fn sync(folder: &Path) -> Result<(), ImagesError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(ImagesError::file(folder))
}
