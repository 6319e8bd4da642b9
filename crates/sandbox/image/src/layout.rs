//! Whether an instance of one image can go on with the memory of an instance of another.
//!
//! Both authors must say so in their manifests, by the same name and `memory_layout`. As far as it can be
//! seen it is also checked: everything of the two modules but code and custom sections must be the same: data
//! at the same addresses, the same functions in the table, the same types, globals and exports. How code
//! reads what it finds in memory only its author knows.

use crate::Image;
use sha2::{Digest as _, Sha256};
use wasmparser::{Parser, Payload};

impl Image {
    /// Two images with the same one lay out their memory alike; that of an image which says nothing is its
    /// own alone.
    pub fn layout(&self) -> [u8; 32] {
        let manifest = self.manifest();
        let Some(version) = manifest.memory_layout else { return *self.digest().as_bytes() };
        let mut hash = Sha256::new();
        hash.update(b"superfluid memory layout\0");
        hash.update(manifest.name.as_str());
        hash.update(version.to_le_bytes());
        hash.update(manifest.memory_limit.to_le_bytes());
        for payload in Parser::new(0).parse_all(self.wasm()) {
            // It has been checked as a whole when it was loaded.
            let Ok(payload) = payload else { return *self.digest().as_bytes() };
            if matches!(payload, Payload::CodeSectionStart { .. }) {
                continue;
            }
            if let Some((id, range)) = payload.as_section()
                && id != CUSTOM
            {
                hash.update([id]);
                hash.update((range.len() as u64).to_le_bytes());
                hash.update(self.wasm().get(range).unwrap_or_default());
            }
        }
        hash.finalize().into()
    }
}

/// The number of custom sections.
const CUSTOM: u8 = 0;
