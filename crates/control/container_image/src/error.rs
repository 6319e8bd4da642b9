//! What can be wrong with an image.

use crate::Digest;
use std::io;
use std::time::Duration;

/// Why an image is not used.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// A text that should be a digest.
    #[error("found the digest `{0}`; allowed: sha256: and 64 digits of 0-9 and a-f")]
    NoDigest(String),
    /// A file of the layout cannot be read.
    #[error("{file} of the layout: {source}")]
    File {
        /// Its name, from the layout's folder.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// A file of the layout is no regular file.
    #[error("{file} of the layout is not a regular file; allowed: regular files, without links on the way")]
    NotRegular {
        /// Its name, from the layout's folder.
        file: String,
    },
    /// A document that is too long.
    #[error("{file} of the layout has {found} bytes; allowed: at most {allowed}")]
    TooLong {
        /// Its name.
        file: String,
        /// How long it is.
        found: u64,
        /// The most.
        allowed: u64,
    },
    /// A document that is not what it should be.
    #[error("{file} of the layout: {reason}")]
    Document {
        /// Its name.
        file: String,
        /// What the parser says.
        reason: String,
    },
    /// Content that is not what it is called.
    #[error(
        "{file} of the layout has the digest {found} and {size} bytes; {digest} and {expected} bytes are named"
    )]
    Content {
        /// Its name.
        file: String,
        /// What the bytes have.
        found: Digest,
        /// How many there are.
        size: u64,
        /// What they should have.
        digest: Digest,
        /// How many there should be.
        expected: u64,
    },
    /// No manifest, or several, for this machine.
    #[error("the index has {found} manifests for linux/{architecture}; allowed: 1")]
    Manifests {
        /// How many.
        found: usize,
        /// This machine's.
        architecture: &'static str,
    },
    /// The manifest is another than the one that was asked for.
    #[error("the image is {found}; {pinned} was asked for")]
    Pinned {
        /// The layout's manifest.
        found: Digest,
        /// What was asked for.
        pinned: Digest,
    },
    /// An image for another machine.
    #[error("the image is for {found}; allowed: linux/{architecture}")]
    Platform {
        /// What it says.
        found: String,
        /// This machine's.
        architecture: &'static str,
    },
    /// A kind of content that is not read.
    #[error("{what} is of the type `{found}`; allowed: {allowed}")]
    MediaType {
        /// The manifest or a layer.
        what: String,
        /// What it says.
        found: String,
        /// What is read.
        allowed: &'static str,
    },
    /// Too many layers, or not one `diff_id` for each.
    #[error("the image has {layers} layers and {ids} diff_ids; allowed: as many of both, 1 to {allowed}")]
    Layers {
        /// Layers of the manifest.
        layers: usize,
        /// Digests of the configuration.
        ids: usize,
        /// The most.
        allowed: usize,
    },
    /// A layer that is wrong.
    #[error("layer {number} ({digest}): {error}")]
    Layer {
        /// Counted from 1.
        number: usize,
        /// Which.
        digest: Digest,
        /// What is wrong.
        error: LayerError,
    },
    /// The folder to unpack into.
    #[error("the folder to unpack into: {0}")]
    To(io::Error),
}

/// What is wrong with a layer.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// It cannot be read, or ends too early.
    #[error("it cannot be read: {0}")]
    Read(io::Error),
    /// A name that leads elsewhere, or is none.
    #[error("the name {name:?} {reason}; allowed: relative names without `..`, of at most 4095 bytes")]
    Name {
        /// Which, with hidden characters escaped.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// An entry that is no file, folder or link.
    #[error("{name:?} is {found}; allowed: files, folders, symbolic and hard links")]
    Kind {
        /// Its name.
        name: String,
        /// What it is.
        found: String,
    },
    /// An owner outside of the tenant's range.
    #[error("{name:?} belongs to user {user} and group {group}; allowed: below {count}")]
    Owner {
        /// Its name.
        name: String,
        /// Its user.
        user: u64,
        /// Its group.
        group: u64,
        /// How many the tenant has.
        count: u32,
    },
    /// More than the image may be.
    #[error("the image is more than {allowed} {unit}")]
    TooMuch {
        /// The most.
        allowed: u64,
        /// `bytes` or `entries`.
        unit: &'static str,
    },
    /// It takes more time than the image may.
    #[error("to unpack the image takes more than {} s of a processor", allowed.as_secs())]
    TooSlow {
        /// The most.
        allowed: Duration,
    },
    /// The uncompressed layer is not the one that the configuration names.
    #[error("uncompressed it has the digest {found}; the configuration names {expected}")]
    DiffId {
        /// What the bytes have.
        found: Digest,
        /// What they should have.
        expected: Digest,
    },
    /// It cannot be written.
    #[error("{name:?} cannot be unpacked: {source}")]
    Write {
        /// The entry.
        name: String,
        /// Why.
        source: io::Error,
    },
}
