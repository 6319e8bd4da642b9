//! The documents of a layout, as far as they matter here: unknown keys are allowed by the specification.

use crate::Digest;
use serde::Deserialize;
use std::collections::BTreeMap;

// The first of each is OCI's, the second Docker's: "Image Manifest Version 2, Schema 2" has the same keys.
pub(crate) const INDEX: [&str; 2] =
    ["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"];
pub(crate) const MANIFEST: [&str; 2] =
    ["application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json"];
pub(crate) const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
pub(crate) const LAYER_GZIP: [&str; 2] =
    ["application/vnd.oci.image.layer.v1.tar+gzip", "application/vnd.docker.image.rootfs.diff.tar.gzip"];

/// Names content by digest, size and kind.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub(crate) media_type: String,
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    pub(crate) platform: Option<Platform>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Platform {
    pub(crate) architecture: String,
    pub(crate) os: String,
}

/// `index.json`.
#[derive(Debug, Deserialize)]
pub(crate) struct Index {
    pub(crate) manifests: Vec<Descriptor>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
}

/// The configuration's document.
#[derive(Debug, Deserialize)]
pub(crate) struct Document {
    pub(crate) architecture: String,
    pub(crate) os: String,
    #[serde(default)]
    pub(crate) config: Config,
    pub(crate) rootfs: RootFs,
}

#[derive(Debug, Deserialize)]
pub(crate) struct RootFs {
    pub(crate) diff_ids: Vec<Digest>,
}

/// What an image runs where nothing else is said: the specification's `config`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Config {
    /// The program and its first arguments.
    #[serde(deserialize_with = "null_is_empty")]
    pub entrypoint: Vec<String>,
    /// Further arguments, or the program where there is no entry point.
    #[serde(deserialize_with = "null_is_empty")]
    pub cmd: Vec<String>,
    /// `NAME=VALUE`.
    #[serde(deserialize_with = "null_is_empty")]
    pub env: Vec<String>,
    /// The user that it runs as, by numbers or names of the image: `UID`, `UID:GID`.
    pub user: String,
    /// Where it begins; `/` if it is empty.
    pub working_dir: String,
    /// Folders that it writes to.
    #[serde(deserialize_with = "null_is_empty")]
    pub volumes: BTreeMap<String, serde_json::Value>,
}

/// Builders write `null` for what is empty.
fn null_is_empty<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(from).map(Option::unwrap_or_default)
}
