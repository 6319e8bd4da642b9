//! What can go wrong with the folder.

use super::MAX_OWNER;
use crate::Digest;
use image::ImageError;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// Why the folder cannot be used, or has not what it should.
#[derive(Debug, Error)]
pub enum ImagesError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Others could read it, or put something into it.
    #[error("{}: {found}; allowed: a folder that only this user may enter (chmod 700)", path.display())]
    NotPrivate {
        /// The folder.
        path: PathBuf,
        /// What was found.
        found: String,
    },
    /// Another process does not let go of it.
    #[error("{}: another process has been changing the images for {waited:?}", path.display())]
    Locked {
        /// The lock.
        path: PathBuf,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The index is none. The content is all right, but the names are lost.
    #[error("{}: not as this program writes it: {reason}; remove the file, and pull the images again", path.display())]
    Index {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// What a file holds is not what it is called after. It takes no room any more once it is pulled again.
    #[error("{}: damaged: its content is {found}; pull the image again", path.display())]
    Damaged {
        /// Its file.
        path: PathBuf,
        /// The digest of what is in it.
        found: String,
    },
    /// The content is as it was, but this program does not take it.
    #[error("{digest}: {source}")]
    Image {
        /// The manifest.
        digest: Digest,
        /// Why not.
        source: ImageError,
    },
    /// There is no room, and nothing may leave.
    #[error("{}: no room for {wanted} bytes: {pinned} bytes of {limit} are pinned", path.display())]
    Full {
        /// The folder.
        path: PathBuf,
        /// What was to be kept.
        wanted: u64,
        /// What may not leave.
        pinned: u64,
        /// What the folder may hold.
        limit: u64,
    },
    /// A name for an owner of pins is none.
    #[error("`{found}` is no owner of pins; allowed: 1 to {MAX_OWNER} lower-case letters, digits and `-`")]
    Owner {
        /// What was found.
        found: String,
    },
}

impl ImagesError {
    pub(crate) fn file(path: &Path) -> impl FnOnce(std::io::Error) -> ImagesError {
        let path = path.to_owned();
        move |source| ImagesError::File { path, source }
    }
}
