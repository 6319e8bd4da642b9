//! The folder in which a host keeps images: content by its digest, and an index of references.
//!
//! ```text
//! oci-layout             what other tools know the folder by (OCI image specification 1.1, "Image Layout")
//! index.json             which reference means which manifest, and since when
//! blobs/sha256/DIGITS    manifests, configurations, layers, single images; when a manifest was modified is when it was used last
//! pins/OWNER             digests of manifests and of single images that OWNER needs, one a line
//! unfinished/            files that are being written
//! lock                   held while any of this is changed
//! ```
//!
//! Everything is on disk and nothing in memory, so that a daemon and a command share a folder. A process that
//! changes something holds the lock. A file is written under `unfinished`, synchronised, renamed to its
//! place, and its folder is synchronised; the index comes after the content it names. So what [`Images::add`]
//! and [`Images::pin`] have returned from survives a loss of power, and whatever a crash leaves behind is
//! named in no index and no pin: it goes at the next [`Images::open`]. Readers take no lock: they check what
//! they read by its digest, and content that was evicted meanwhile is content that is not there.

mod error;
mod evict;
mod files;
mod index;

use crate::{Artifact, Client, Digest, MAX_DOCUMENT, Manifest, Reference, RegistryError};
pub use error::ImagesError;

use evict::{Content, Room};
use files::Folder;
use image::Image;
use index::Index;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, SystemTime};
use thiserror::Error;

/// How long one waits for another process that changes the folder.
const LOCK_WAIT: Duration = Duration::from_secs(30);

/// Longest name of an owner of pins, in bytes.
const MAX_OWNER: usize = 32;

/// Artifacts that a folder has at most without a pin.
const SPARE: usize = 1024;

/// A folder of images.
#[derive(Debug)]
pub struct Images {
    folder: Folder,
    limit: u64,
    spare: usize,
}

/// What the folder holds under one reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The reference as it was pulled, without what it is pinned to.
    pub reference: String,
    /// The digest of the manifest.
    pub digest: Digest,
    /// The digest of the image itself.
    pub image: Digest,
    /// Bytes of manifest, configuration and layer.
    pub bytes: u64,
    /// Since when the reference means this.
    pub stored: SystemTime,
    /// When it was read last.
    pub used: SystemTime,
    /// Whether an owner pins it.
    pub pinned: bool,
}

/// An image, and where it came from.
#[derive(Clone, Debug)]
pub struct Pulled {
    /// The reference, pinned to what it means.
    pub reference: Reference,
    /// The digest of the manifest.
    pub digest: Digest,
    /// The image.
    pub image: Image,
    /// Where its content came from.
    pub origin: Origin,
}

/// Where content came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was in the folder.
    Folder,
    /// It was fetched.
    Registry,
}

/// Why an image is not to be had.
#[derive(Debug, Error)]
pub enum PullError {
    /// Of the registry.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Of the folder.
    #[error(transparent)]
    Images(#[from] ImagesError),
}

impl Images {
    /// Opens a folder, which is made if it is not there; what a crash left in it goes.
    ///
    /// `limit` is how many bytes its content may have in all.
    ///
    /// # Errors
    /// [`ImagesError`].
    pub fn open(path: &Path, limit: u64) -> Result<Images, ImagesError> {
        let images = Images { folder: Folder::open(path)?, limit, spare: SPARE };
        let _lock = images.folder.lock(LOCK_WAIT)?;
        images.folder.finish()?;
        let mut index = Index::read(&images.folder)?;
        let content = Content::survey(&images.folder, &index)?;
        if index.retain(|digest| content.has(digest)) {
            index.write(&images.folder)?;
        }
        content.sweep(&images.folder)?;
        Ok(images)
    }

    /// That the folder is not there any more, or another one is: functions run on, and a start does not find
    /// their images.
    pub fn removed(&self) -> Option<String> {
        self.folder.removed()
    }

    /// The image of this manifest, checked in all its bytes. `None`: there is none.
    ///
    /// # Errors
    /// [`ImagesError::Damaged`] and others.
    pub fn get(&self, digest: Digest) -> Result<Option<Image>, ImagesError> {
        let Some(manifest) = self.folder.blob(digest)? else { return Ok(None) };
        // Only artifacts are put here, so that anything else was not found under this name.
        let Ok(manifest) = Manifest::parse(&manifest) else { return Ok(None) };
        let Some(layer) = self.folder.blob(manifest.layer.digest)? else { return Ok(None) };
        let image = Image::load(&layer).map_err(|source| ImagesError::Image { digest, source })?;
        self.folder.touch(digest)?;
        Ok(Some(image))
    }

    /// An image that is kept for itself, under the digest of its own bytes, checked. `None`: it is not there.
    ///
    /// # Errors
    /// [`ImagesError::Damaged`] and others.
    pub fn get_single(&self, digest: Digest) -> Result<Option<Image>, ImagesError> {
        let Some(bytes) = self.folder.blob(digest)? else { return Ok(None) };
        // What is no image was not put here under this name.
        Ok(Image::load(&bytes).ok())
    }

    /// Whether there is content of this digest, without a look at it.
    ///
    /// # Errors
    /// [`ImagesError`].
    pub fn has(&self, digest: Digest) -> Result<bool, ImagesError> {
        self.folder.has(digest)
    }

    fn room(&self, most: u64) -> Room {
        Room { limit: self.limit, most, spare: self.spare }
    }

    /// Bytes that the folder may have.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes of those of these artifacts and single images that are here, what they share counted once.
    ///
    /// # Errors
    /// [`ImagesError`].
    pub fn bytes_of(&self, digests: &BTreeSet<Digest>) -> Result<u64, ImagesError> {
        let content = Content::survey(&self.folder, &Index::read(&self.folder)?)?;
        Ok(content.bytes(|digest| digests.contains(&digest)))
    }

    /// Whether there is an artifact of this digest; its manifest is read for that.
    ///
    /// # Errors
    /// [`ImagesError`].
    pub fn has_artifact(&self, digest: Digest) -> Result<bool, ImagesError> {
        if self.folder.size(digest)?.is_none_or(|size| size > MAX_DOCUMENT) {
            return Ok(false);
        }
        let text = self.folder.blob(digest)?.unwrap_or_default();
        match Manifest::parse(&text) {
            Ok(manifest) => self.folder.has(manifest.layer.digest),
            Err(_) => Ok(false),
        }
    }

    /// Keeps an image for itself, without a reference, as long as an owner [pins](Images::pin) its digest,
    /// which this returns: pin it first.
    ///
    /// # Errors
    /// [`ImagesError`]; nothing is changed then but what had to leave.
    pub fn keep(&self, image: &Image) -> Result<Digest, ImagesError> {
        let digest = Digest::from(image.digest());
        let _lock = self.folder.lock(LOCK_WAIT)?;
        let mut index = Index::read(&self.folder)?;
        let parts = [(digest, image.wasm().len() as u64)];
        evict::make_room(&self.folder, &mut index, digest, &parts, self.room(self.limit))?;
        self.folder.put_blob(digest, image.wasm())?;
        self.folder.sync_blobs()?;
        Ok(digest)
    }

    /// The manifest that a reference means here: its digest if it is pinned, or else what its tag meant when
    /// it was pulled last.
    ///
    /// # Errors
    /// [`ImagesError`].
    pub fn find(&self, reference: &Reference) -> Result<Option<Digest>, ImagesError> {
        let Some(digest) = reference.digest() else {
            return Ok(Index::read(&self.folder)?.find(&reference.store_name()));
        };
        Ok(self.folder.has(digest)?.then_some(digest))
    }

    /// The image that a reference means: out of the folder when the reference is pinned and the folder has
    /// it, without a request to any registry; or else as the registry says now, fetching only what the folder
    /// lacks.
    ///
    /// # Errors
    /// [`PullError`]. Content that is damaged is no error: it is fetched again.
    pub fn pull(&self, client: &Client, reference: &Reference) -> Result<Pulled, PullError> {
        if let Some(digest) = reference.digest()
            && let Some(image) = self.sound(digest)?
        {
            return Ok(Pulled { reference: reference.clone(), digest, image, origin: Origin::Folder });
        }
        self.pull_allowed(client, reference, self.limit)
    }

    /// As [`Images::pull`], but the registry is asked for the manifest in any case: whether the client may
    /// have the image is the registry's to say, also of one that the folder has. And it comes in only if what
    /// is pinned has `most` bytes with it.
    ///
    /// # Errors
    /// As [`Images::pull`].
    pub fn pull_allowed(
        &self,
        client: &Client,
        reference: &Reference,
        most: u64,
    ) -> Result<Pulled, PullError> {
        let mut there = None;
        let fetched = client.pull_unless(reference, |digest| {
            there = Some(self.sound(digest));
            matches!(there, Some(Ok(Some(_))))
        })?;
        let (digest, image, origin) = match (fetched, there) {
            (Ok(artifact), _) => {
                self.add_within(reference, &artifact, most)?;
                (artifact.digest, artifact.image, Origin::Registry)
            }
            (Err(digest), Some(Ok(Some(image)))) => {
                self.name(reference, digest)?;
                (digest, image, Origin::Folder)
            }
            (Err(_), _) => unreachable!("it is not fetched only when it is there"),
        };
        Ok(Pulled { reference: reference.pinned(digest), digest, image, origin })
    }

    /// As [`Images::get`], and nothing where it is damaged.
    fn sound(&self, digest: Digest) -> Result<Option<Image>, ImagesError> {
        match self.get(digest) {
            Err(ImagesError::Damaged { .. }) => Ok(None),
            other => other,
        }
    }

    /// Keeps an artifact under a reference. Others leave if there is no room: those that are not pinned, the
    /// longest unused first. What was there under the reference stays, under its digest, until its room is
    /// needed.
    ///
    /// # Errors
    /// [`ImagesError`]; nothing is changed then but what had to leave.
    pub fn add(&self, reference: &Reference, artifact: &Artifact) -> Result<(), ImagesError> {
        self.add_within(reference, artifact, self.limit)
    }

    fn add_within(&self, reference: &Reference, artifact: &Artifact, most: u64) -> Result<(), ImagesError> {
        let _lock = self.folder.lock(LOCK_WAIT)?;
        let mut index = Index::read(&self.folder)?;
        let parts = [artifact.config.as_slice(), artifact.image.wasm(), &artifact.manifest];
        let named = parts.map(|bytes| (Digest::of(bytes), bytes.len() as u64));
        evict::make_room(&self.folder, &mut index, artifact.digest, &named, self.room(most))?;
        for ((digest, _), bytes) in named.iter().zip(parts) {
            self.folder.put_blob(*digest, bytes)?;
        }
        self.folder.sync_blobs()?;
        index.set(
            &reference.store_name(),
            artifact.digest,
            artifact.manifest.len() as u64,
            SystemTime::now(),
        );
        index.write(&self.folder)
    }

    /// Lets a reference mean what is there already.
    fn name(&self, reference: &Reference, digest: Digest) -> Result<(), ImagesError> {
        let _lock = self.folder.lock(LOCK_WAIT)?;
        let mut index = Index::read(&self.folder)?;
        let name = reference.store_name();
        let Some(size) = self.folder.size(digest)? else { return Ok(()) };
        if index.find(&name) == Some(digest) {
            return Ok(());
        }
        index.set(&name, digest, size, SystemTime::now());
        index.write(&self.folder)
    }

    /// Says what an owner needs, from now on and until it says otherwise: these manifests and single images,
    /// and no others. They do not leave. What is not there yet may be pinned.
    ///
    /// # Errors
    /// [`ImagesError`].
    pub fn pin(&self, owner: &str, digests: &[Digest]) -> Result<(), ImagesError> {
        let sound = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if !(1..=MAX_OWNER).contains(&owner.len()) || !owner.bytes().all(sound) {
            return Err(ImagesError::Owner { found: crate::harmless(owner, 80) });
        }
        let _lock = self.folder.lock(LOCK_WAIT)?;
        let lines: String = digests.iter().map(|digest| format!("{digest}\n")).collect();
        self.folder.put(&Path::new("pins").join(owner), lines.as_bytes())
    }

    /// All that is kept, by reference.
    ///
    /// # Errors
    /// [`ImagesError`].
    pub fn list(&self) -> Result<Vec<Kept>, ImagesError> {
        let index = Index::read(&self.folder)?;
        let content = Content::survey(&self.folder, &index)?;
        let pins = evict::pins(&self.folder)?;
        let mut kept = Vec::new();
        for (reference, digest, stored) in index.entries() {
            // What left meanwhile is not there.
            let Some(used) = self.folder.used(digest)? else { continue };
            let (Some(bytes), Some(image)) = (content.bytes_of(digest), content.image_of(digest)) else {
                continue;
            };
            let pinned = pins.contains(&digest);
            let reference = reference.to_owned();
            kept.push(Kept { reference, digest, image, bytes, stored, used, pinned });
        }
        kept.sort_by(|a, b| a.reference.cmp(&b.reference));
        Ok(kept)
    }

    /// Lets a reference mean nothing any more; whether it meant something. Its content goes, unless another
    /// reference means it or an owner pins it.
    ///
    /// # Errors
    /// [`ImagesError`].
    pub fn forget(&self, reference: &Reference) -> Result<bool, ImagesError> {
        let _lock = self.folder.lock(LOCK_WAIT)?;
        let mut index = Index::read(&self.folder)?;
        let there = index.forget(&reference.store_name());
        if there {
            index.write(&self.folder)?;
            Content::survey(&self.folder, &index)?.sweep(&self.folder)?;
        }
        Ok(there)
    }
}

/// `None` for what is not there.
fn absent<T>(result: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// A small image; another one for each number.
#[cfg(test)]
pub(crate) fn test_image(number: u32) -> Image {
    let module = format!(
        r#"(module (memory (export "memory") 1) (func (export "sf_batch") (result i32) (i32.const 64))
        (func (export "sf_init") (result i32) (i32.const 0)) (func (export "sf_process") (param i32 i64))
        (data (i32.const 1024) "{number}"))"#
    );
    let manifest = "name: echo\nversion: 1.2.3\nabi: 1\nsummary: Does nothing.\nlanguage: c\naccess: read\ninterfaces: [wire]\nmemory_limit: 128KiB\n";
    let module = wat::parse_str(module).expect("a module");
    image::assemble(&module, manifest, image::Names::Dropped).expect("an image").0
}

#[cfg(test)]
mod tests;
