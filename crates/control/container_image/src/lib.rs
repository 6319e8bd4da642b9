//! Images of containers: an OCI image layout on disk, checked and unpacked into a folder.
//!
//! The life of an image:
//! 1. [`Layout::open`] takes the descriptor of a folder with `oci-layout`, `index.json` and `blobs/sha256`,
//!    and finds the one manifest for this machine's platform. Every document is read through its digest and
//!    size.
//! 2. [`Layout::unpack`] applies the layers in their order to an empty folder: each is read once, and what
//!    comes out counts only if the compressed bytes have the digest and size that the manifest names and the
//!    uncompressed ones the `diff_id` of the configuration.
//! 3. [`Config`] says what the image runs: command, environment, user, working directory, volumes.
//!
//! What fetches an image makes such a folder of it: [`parts`] says what a document names, [`index_of`] what
//! the folder's index is.
//!
//! All of an image is hostile. A name is relative, has no `..`, and is resolved below the folder by the
//! kernel (`openat2(2)`, `RESOLVE_IN_ROOT`), so that a link of one layer leads the next one nowhere else.
//! Files, folders and links are unpacked; devices, sockets and pipes are refused. Permissions lose setuid,
//! setgid and the sticky bit; owners are moved into the range of user IDs that [`Owners`] gives, and one
//! outside of it is refused. Extended attributes, and capabilities among them, are left out.
//!
//! Sources: OCI Image Format Specification 1.0 (layout, index, manifest, config, layer with its whiteouts);
//! pax(1) and GNU tar for long names.
//!
//! Limits: [`DOCUMENT_MAX`], [`LAYERS_MAX`], [`NAME_MAX`], and those that the caller gives as [`Bounds`].

#![forbid(unsafe_code)]

mod contents;
mod digest;
mod documents;
mod error;
mod layer;
mod layout;
mod tar_entry;
#[cfg(test)]
mod tests;
mod tree;

pub use contents::{ACCEPT, Part, Parts, index_of, parts};
pub use digest::Digest;
pub use documents::Config;
pub use error::{ImageError, LayerError};
pub use layout::Layout;
pub use tree::remove_folder;

use std::time::Duration;

/// Longest index, manifest or configuration, in bytes.
pub const DOCUMENT_MAX: u64 = 4 << 20;

/// Most layers of one image.
pub const LAYERS_MAX: usize = 128;

/// Longest name of a file within an image, in bytes (`PATH_MAX` less its zero).
pub const NAME_MAX: u64 = 4095;

/// How much one image may be on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of all files of all layers, also of those that a later layer removes.
    pub bytes: u64,
    /// Entries of all layers, and folders that are made because a name lies in them.
    pub entries: u64,
    /// Processor time of the thread that unpacks it, its layers' reading included: names that lead through
    /// many links cost the kernel more than they are long.
    pub processor: Duration,
}

/// Which users of the host the image's users become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owners {
    /// User and group N of the image are `first + N` here, for N below `count`.
    Shifted {
        /// The host's user that the image's root becomes.
        first: u32,
        /// How many there are.
        count: u32,
    },
    /// All files are the calling user's: what can be done without privileges.
    Caller,
}

/// What this machine is called in images (`GOARCH`).
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: &str = "amd64";
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: &str = "arm64";

/// Reads a document; `name` is what errors call it.
fn parsed<T: serde::de::DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<T, ImageError> {
    serde_json::from_slice(bytes).map_err(|error| ImageError::Document {
        file: name.to_owned(),
        reason: printable::harmless(&error.to_string(), 256),
    })
}
