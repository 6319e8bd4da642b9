//! Images of containers: OCI layouts, and what a registry answers that has one.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::Path;

/// Writes a layout with an image of this one layer, an archive; the digest of its manifest.
pub fn write(layout: &Path, archive: &[u8]) -> String {
    let folder = layout.join("blobs/sha256");
    fs::create_dir_all(&folder).expect("made");
    let blob = |kind: &str, bytes: &[u8]| -> Value {
        let digits: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        fs::write(folder.join(&digits), bytes).expect("written");
        json!({"mediaType": format!("application/vnd.oci.image.{kind}"), "digest": format!("sha256:{digits}"), "size": bytes.len()})
    };
    let layer = blob("layer.v1.tar", archive);
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let config = json!({"os": "linux", "architecture": architecture,
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}});
    let config = blob("config.v1+json", config.to_string().as_bytes());
    let manifest = json!({"schemaVersion": 2, "config": config, "layers": [layer]});
    let manifest = blob("manifest.v1+json", manifest.to_string().as_bytes());
    fs::write(layout.join("index.json"), json!({"schemaVersion": 2, "manifests": [manifest]}).to_string())
        .expect("written");
    manifest["digest"].as_str().expect("text").to_owned()
}

/// What a registry answers to a path that has the layout's image under every tag: the media type, and the
/// content.
pub fn answer(layout: &Path, path: &str) -> Option<(String, Vec<u8>)> {
    let index: Value =
        serde_json::from_slice(&fs::read(layout.join("index.json")).expect("an index")).expect("JSON");
    let manifest = &index["manifests"][0];
    let text = |key: &str| manifest[key].as_str().expect("text").to_owned();
    let name = path.rsplit('/').next()?;
    let (media_type, digest) = match path.contains("/manifests/") {
        true if !name.starts_with("sha256:") || name == text("digest") => (text("mediaType"), text("digest")),
        true => return None,
        false => ("application/octet-stream".to_owned(), name.to_owned()),
    };
    let bytes = fs::read(layout.join("blobs/sha256").join(digest.strip_prefix("sha256:")?)).ok()?;
    Some((media_type, bytes))
}
