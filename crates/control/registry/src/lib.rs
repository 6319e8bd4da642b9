//! Images of functions as artifacts in OCI registries, and the folder in which a host keeps those it has.
//!
//! An artifact is laid out as CNCF's "Wasm OCI Artifact" guide says: an image manifest with a configuration
//! of type `application/vnd.wasm.config.v0+json` and one layer of type `application/wasm`, the image as it
//! is. The function's own manifest is inside the image, so that nothing beside the layer has to be believed;
//! see docs/decisions/022.
//!
//! The life of an artifact:
//! 1. [`Artifact::of`] makes the documents around an image, the same ones for the same image every time.
//! 2. [`Client::push`] sends what the registry lacks, the manifest last.
//! 3. [`Client::resolve`] asks which digest a tag means now. A reference that is [pinned](Reference::pinned)
//!    to a digest means the same for ever, whatever the registry says later.
//! 4. [`Client::pull`] fetches manifest, configuration and layer. The size of each is checked before more is
//!    read, the digest of each before it is used, and the layer is an image that the engine would take, or an
//!    error.
//! 5. [`Images::pull`] keeps it. From then on the digest needs no registry; [`Images::get`] checks the
//!    content every time.
//! 6. [`Images::pin`] says what is needed. The rest leaves, the longest unused first, when room is needed.
//!
//! Images of containers have layers instead: [`ContainerImages`] is a folder with an OCI image layout for
//! each one that a tenant has, which the launcher checks again and unpacks.
//!
//! All calls block, within the limits of [`Settings`]; none needs a runtime. An asynchronous caller uses its
//! threads for blocking calls. [`Client`] and [`Images`] are shared between threads.
//!
//! Limits: SHA-256 alone; no proxies; no programs that keep credentials (`credHelpers`); of functions one
//! layer, images of at most 32 MiB unless told otherwise, manifests and configurations of at most 1 MiB.

#![forbid(unsafe_code)]

mod artifact;
mod authentication;
mod client;
mod container_images;
mod credentials;
mod digest;
mod error;
mod exchange;
mod images;
mod reference;
mod settings;
mod trust;
mod url;

pub use artifact::{
    Artifact, CONFIG_TYPE, Descriptor, DocumentFault, LAYER_TYPE, MANIFEST_TYPE, MAX_DOCUMENT, Manifest,
    check_config,
};
use printable::harmless;

pub use authentication::{Challenge, challenges};
pub use client::{Client, Pushed};
pub use container_images::ContainerImages;
pub use credentials::{Credentials, CredentialsError, Login};
pub use digest::{Digest, NoDigest};
pub use error::{Fault, RegistryError, Step};
pub use images::{Images, ImagesError, Kept, Origin, PullError, Pulled};
pub use reference::{MAX_REFERENCE, Reference, ReferenceError, ReferenceFault};
pub use settings::{Settings, SettingsError};
