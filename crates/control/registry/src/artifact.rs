//! The documents around an image: the manifest and the configuration of its artifact.
//!
//! Sources: OCI image specification 1.1 ("Image Manifest", "Content Descriptors"), CNCF TAG Runtime "Wasm OCI
//! Artifact layout".

use crate::{Digest, harmless};
use image::Image;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

/// Media type of the manifest.
pub const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";

/// Media type of the configuration, by which an artifact is known to be WebAssembly.
pub const CONFIG_TYPE: &str = "application/vnd.wasm.config.v0+json";

/// Media type of the layer.
pub const LAYER_TYPE: &str = "application/wasm";

/// Longest manifest and longest configuration, in bytes.
pub const MAX_DOCUMENT: u64 = 1 << 20;

/// The only architecture of the layout.
const ARCHITECTURE: &str = "wasm";

/// What the layout says for modules that are no components.
const OS: &str = "wasip1";

/// When every configuration was made: the layout wants a time, and the same image has to give the same
/// digest.
const CREATED: &str = "1970-01-01T00:00:00Z";

/// What names content: its type, its digest and its size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// What it is.
    pub media_type: String,
    /// Its name.
    pub digest: Digest,
    /// Its bytes.
    pub size: u64,
}

impl Descriptor {
    fn of(media_type: &str, bytes: &[u8]) -> Descriptor {
        Descriptor { media_type: media_type.to_owned(), digest: Digest::of(bytes), size: bytes.len() as u64 }
    }
}

/// Why a document is not what it ought to be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DocumentFault {
    /// It is not the JSON that was expected.
    #[error("it cannot be read: {0}")]
    Json(String),
    /// It is of another version.
    #[error("it has schemaVersion {0}; allowed: 2")]
    Version(u64),
    /// Something in it is of a type that is not taken.
    #[error("its {part} is of type `{found}`; allowed: {allowed}")]
    Type {
        /// What.
        part: &'static str,
        /// Its type.
        found: String,
        /// What is taken.
        allowed: &'static str,
    },
    /// It has another number of layers.
    #[error("it has {0} layers; allowed: one, of type application/wasm")]
    Layers(usize),
    /// The configuration is not for WebAssembly.
    #[error("its architecture is `{0}`; allowed: wasm")]
    Architecture(String),
    /// The configuration belongs to another manifest.
    #[error("it names other layers than the manifest, which has {0}")]
    OtherLayers(Digest),
}

/// What is read of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Of type [`CONFIG_TYPE`].
    pub config: Descriptor,
    /// Of type [`LAYER_TYPE`].
    pub layer: Descriptor,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadManifest {
    schema_version: u64,
    media_type: Option<String>,
    config: Descriptor,
    layers: Vec<Descriptor>,
}

impl Manifest {
    /// Reads a manifest, which is untrusted input.
    ///
    /// # Errors
    /// [`DocumentFault`].
    pub fn parse(bytes: &[u8]) -> Result<Manifest, DocumentFault> {
        let ReadManifest { schema_version, media_type, config, layers } = json(bytes)?;
        if schema_version != 2 {
            return Err(DocumentFault::Version(schema_version));
        }
        let typed = |part, found: &str, allowed| {
            if found == allowed {
                return Ok(());
            }
            Err(DocumentFault::Type { part, found: harmless(found, 80), allowed })
        };
        typed("own text", media_type.as_deref().unwrap_or(MANIFEST_TYPE), MANIFEST_TYPE)?;
        typed("configuration", &config.media_type, CONFIG_TYPE)?;
        let [layer]: [Descriptor; 1] =
            layers.try_into().map_err(|layers: Vec<_>| DocumentFault::Layers(layers.len()))?;
        typed("layer", &layer.media_type, LAYER_TYPE)?;
        Ok(Manifest { config, layer })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadConfig {
    architecture: Option<String>,
    layer_digests: Option<Vec<Digest>>,
}

/// Checks a configuration, which is untrusted input. Nothing in it is needed, so that what is not there is
/// not missed; but it must not contradict the manifest.
///
/// # Errors
/// [`DocumentFault`].
pub fn check_config(bytes: &[u8], layer: &Descriptor) -> Result<(), DocumentFault> {
    let ReadConfig { architecture, layer_digests } = json(bytes)?;
    if let Some(other) = architecture.filter(|found| found != ARCHITECTURE) {
        return Err(DocumentFault::Architecture(harmless(&other, 80)));
    }
    match layer_digests {
        Some(digests) if digests != [layer.digest] => Err(DocumentFault::OtherLayers(layer.digest)),
        _ => Ok(()),
    }
}

fn json<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, DocumentFault> {
    // A list of the values in their order would be read as well.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(DocumentFault::Json("it is no JSON object".to_owned()));
    }
    serde_json::from_slice(bytes).map_err(|error| DocumentFault::Json(harmless(&error.to_string(), 200)))
}

/// An image with the documents around it.
#[derive(Clone, Debug)]
pub struct Artifact {
    pub(crate) manifest: Vec<u8>,
    pub(crate) config: Vec<u8>,
    pub(crate) image: Image,
    pub(crate) digest: Digest,
}

impl Artifact {
    /// The artifact of an image: the same bytes for the same image.
    pub fn of(image: Image) -> Artifact {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Config {
            created: &'static str,
            architecture: &'static str,
            os: &'static str,
            layer_digests: [Digest; 1],
        }
        #[derive(Serialize)]
        struct Layer {
            #[serde(flatten)]
            descriptor: Descriptor,
            annotations: BTreeMap<&'static str, String>,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Document {
            schema_version: u8,
            media_type: &'static str,
            config: Descriptor,
            layers: [Layer; 1],
            annotations: BTreeMap<&'static str, String>,
        }
        let descriptor = Descriptor::of(LAYER_TYPE, image.wasm());
        let config = written(&Config {
            created: CREATED,
            architecture: ARCHITECTURE,
            os: OS,
            layer_digests: [descriptor.digest],
        });
        // For people who look into the registry; nothing here reads them.
        let about = image.manifest();
        let name = about.name.as_str();
        let title = BTreeMap::from([("org.opencontainers.image.title", format!("{name}.wasm"))]);
        let annotations = BTreeMap::from([
            ("org.opencontainers.image.title", name.to_owned()),
            ("org.opencontainers.image.version", about.version.clone()),
            ("org.opencontainers.image.description", about.summary.clone()),
        ]);
        let manifest = written(&Document {
            schema_version: 2,
            media_type: MANIFEST_TYPE,
            config: Descriptor::of(CONFIG_TYPE, &config),
            layers: [Layer { descriptor, annotations: title }],
            annotations,
        });
        Artifact { digest: Digest::of(&manifest), manifest, config, image }
    }

    /// The digest of the manifest, by which the artifact is pinned.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The manifest's text.
    pub fn manifest(&self) -> &[u8] {
        &self.manifest
    }

    /// The configuration's text.
    pub fn config(&self) -> &[u8] {
        &self.config
    }

    /// The image.
    pub fn image(&self) -> &Image {
        &self.image
    }
}

fn written(document: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(document)
        .unwrap_or_else(|error| unreachable!("strings and numbers can be written as JSON: {error}"))
}

#[cfg(test)]
#[path = "artifact/tests.rs"]
mod tests;
