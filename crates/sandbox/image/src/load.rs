//! Reads an image, which is untrusted input.

mod contract;
mod error;
mod module;

pub use error::ImageError;
pub use module::ModuleFacts;

use crate::Digest;
use manifest::Manifest;
use std::sync::Arc;
use yaml_document as yaml;

/// What faults call the manifest inside an image.
const MANIFEST_NAME: &str = "manifest";

/// A checked image. Copies share the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    manifest: Arc<Manifest>,
    facts: Arc<ModuleFacts>,
    wasm: Arc<[u8]>,
    digest: Digest,
}

impl Image {
    /// Reads an image.
    ///
    /// Whatever passes is a valid module within [`crate::limits`] whose instances can be made: it imports
    /// nothing but the host's calls, exports what the contract requires, and its segments fit into its memory
    /// and its table.
    ///
    /// # Errors
    /// What was found and what is allowed.
    pub fn load(bytes: &[u8]) -> Result<Image, ImageError> {
        let checked = module::check(bytes)?;
        let text = yaml::text(MANIFEST_NAME, checked.manifest)
            .map_err(|fault| ImageError::Manifest { faults: vec![fault] })?;
        let manifest =
            Manifest::parse(MANIFEST_NAME, text).map_err(|faults| ImageError::Manifest { faults })?;
        let facts = checked.facts;
        let allowed = manifest.memory_limit.min(nf_abi::PRIVATE_MAX);
        if facts.memory_bytes > allowed {
            return Err(ImageError::MemoryMinimum { found: facts.memory_bytes, allowed });
        }
        Ok(Image {
            manifest: Arc::new(manifest),
            facts: Arc::new(facts),
            digest: Digest::of(bytes),
            wasm: bytes.into(),
        })
    }

    /// What the function says of itself.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The same for those that keep it.
    pub fn shared_manifest(&self) -> Arc<Manifest> {
        self.manifest.clone()
    }

    /// What its module consists of.
    pub fn facts(&self) -> &ModuleFacts {
        &self.facts
    }

    /// The whole image, as it is in its file.
    pub fn wasm(&self) -> &[u8] {
        &self.wasm
    }

    /// The name of its content.
    pub fn digest(&self) -> Digest {
        self.digest
    }
}
