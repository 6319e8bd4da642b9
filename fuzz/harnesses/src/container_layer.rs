//! Any bytes as a layer of a container's image, and any entries with headers that are right: refused in
//! words, or unpacked within the folder, beside which nothing changes.

use container_image::{Bounds, ImageError, Layout, Owners};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::path::Path;

const BOUNDS: Bounds = Bounds { bytes: 1 << 16, entries: 64, processor: std::time::Duration::from_secs(60) };

/// Writes content by its digest; its descriptor.
fn blob(layout: &Path, kind: &str, bytes: &[u8]) -> std::io::Result<serde_json::Value> {
    let digits: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    fs::write(layout.join("blobs/sha256").join(&digits), bytes)?;
    let kind = format!("application/vnd.oci.image.{kind}");
    Ok(serde_json::json!({"mediaType": kind, "digest": format!("sha256:{digits}"), "size": bytes.len()}))
}

/// Unpacks a layout of this one layer, in a folder of its own.
fn unpack(layer: &[u8]) -> std::io::Result<()> {
    let folder = tempfile::tempdir()?;
    let (layout, beside) = (folder.path().join("layout"), folder.path().join("beside"));
    fs::create_dir_all(layout.join("blobs/sha256"))?;
    fs::create_dir_all(beside.join("root"))?;
    fs::write(beside.join("canary"), "as it was")?;
    let stored = blob(&layout, "layer.v1.tar", layer)?;
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let config = serde_json::json!({"os": "linux", "architecture": architecture,
        "rootfs": {"type": "layers", "diff_ids": [stored["digest"]]}});
    let config = blob(&layout, "config.v1+json", config.to_string().as_bytes())?;
    let manifest = serde_json::json!({"config": config, "layers": [stored]});
    let manifest = blob(&layout, "manifest.v1+json", manifest.to_string().as_bytes())?;
    fs::write(layout.join("index.json"), serde_json::json!({"manifests": [manifest]}).to_string())?;

    let to = File::open(beside.join("root"))?.into();
    let image = Layout::open(File::open(&layout)?.into(), None).expect("a layout that is right");
    if let Err(error) = image.unpack(to, Owners::Caller, BOUNDS) {
        assert!(!error.to_string().contains(|c: char| c.is_control()), "{error:?}");
        assert!(!matches!(error, ImageError::Content { .. }), "{error:?}");
    }
    assert_eq!(fs::read_dir(&beside)?.count(), 2);
    assert_eq!(fs::read(beside.join("canary"))?, b"as it was");
    Ok(())
}

pub fn run(data: &[u8]) {
    // A full disk is no fault of what is fuzzed.
    let _ = unpack(data);
    let mut layer = Vec::new();
    let mut rest = data;
    // A kind, the lengths of a name, of what it leads to and of what is in it, and these.
    while let &[kind, name, link, length, ref bytes @ ..] = rest {
        let (name, bytes) = bytes.split_at(usize::from(name).min(bytes.len()).min(100));
        let (link, bytes) = bytes.split_at(usize::from(link).min(bytes.len()).min(100));
        let (content, after) = bytes.split_at(usize::from(length).min(bytes.len()));
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o755);
        header.set_uid(0);
        header.set_gid(0);
        header.set_entry_type(tar::EntryType::new(kind));
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link);
        header.set_cksum();
        layer.extend_from_slice(header.as_bytes());
        layer.extend_from_slice(content);
        layer.resize(layer.len().next_multiple_of(512), 0);
        rest = after;
    }
    layer.resize(layer.len() + 1024, 0);
    let _ = unpack(&layer);
}
