//! Images of every kind of malice, as an ordinary user: what is outside of the folder stays as it was.

use super::*;
use rustix::fs::{Mode, OFlags};
use sha2::{Digest as _, Sha256};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

const BOUNDS: Bounds = Bounds { bytes: 1 << 20, entries: 100, processor: Duration::from_secs(600) };

fn sum(bytes: &[u8]) -> String {
    let mut text = String::from("sha256:");
    Sha256::digest(bytes).iter().for_each(|byte| text.push_str(&format!("{byte:02x}")));
    text
}

fn open(path: &Path) -> OwnedFd {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("a folder")
}

/// An entry: its type, name, what it leads to, and what is in it. The name is written as it is.
fn entry(kind: EntryType, name: &str, to: &str, content: &str) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.as_old_mut().linkname[..to.len()].copy_from_slice(to.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o4755);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(content.len() as u64);
    header.set_cksum();
    let mut builder = Builder::new(Vec::new());
    builder.append(&header, content.as_bytes()).expect("appended");
    builder.get_ref().clone()
}

fn file(name: &str, content: &str) -> Vec<u8> {
    entry(EntryType::Regular, name, "", content)
}

fn folder(name: &str) -> Vec<u8> {
    entry(EntryType::Directory, name, "", "")
}

fn symlink(name: &str, to: &str) -> Vec<u8> {
    entry(EntryType::Symlink, name, to, "")
}

/// Writes content by its digest; its descriptor.
fn blob(layout: &Path, kind: &str, bytes: &[u8]) -> serde_json::Value {
    let digest = sum(bytes);
    std::fs::write(layout.join("blobs/sha256").join(&digest[7..]), bytes).expect("written");
    serde_json::json!({"mediaType": kind, "digest": digest, "size": bytes.len()})
}

/// A layout of these layers, each a list of entries.
fn layout(layers: &[Vec<Vec<u8>>]) -> TempDir {
    let made = tempfile::tempdir().expect("a folder");
    std::fs::create_dir_all(made.path().join("blobs/sha256")).expect("made");
    let (mut ids, mut stored) = (Vec::new(), Vec::new());
    for entries in layers {
        let mut plain = entries.concat();
        plain.extend([0; 1024]);
        ids.push(sum(&plain));
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&plain).expect("packed");
        stored.push(blob(made.path(), documents::LAYER_GZIP[0], &packed.finish().expect("packed")));
    }
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let config = serde_json::json!({
        "os": "linux", "architecture": architecture, "config": {"Cmd": ["/bin/true"], "Env": null},
        "rootfs": {"type": "layers", "diff_ids": ids},
    });
    let config = blob(made.path(), "application/vnd.oci.image.config.v1+json", config.to_string().as_bytes());
    let manifest = serde_json::json!({"schemaVersion": 2, "config": config, "layers": stored});
    let manifest = blob(made.path(), documents::MANIFEST[0], manifest.to_string().as_bytes());
    let index = serde_json::json!({"schemaVersion": 2, "manifests": [manifest]});
    std::fs::write(made.path().join("index.json"), index.to_string()).expect("written");
    made
}

/// Unpacks into a folder beside which nothing else may change.
fn unpack(layers: &[Vec<Vec<u8>>]) -> (TempDir, Result<(), ImageError>) {
    let made = layout(layers);
    let to = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(to.path().join("root")).expect("made");
    let image = Layout::open(open(made.path()), None).expect("a layout");
    assert_eq!(image.config().cmd, ["/bin/true"]);
    let unpacked = image.unpack(open(&to.path().join("root")), Owners::Caller, BOUNDS);
    let beside: Vec<_> = std::fs::read_dir(to.path()).expect("a folder").collect();
    assert_eq!(beside.len(), 1, "{beside:?}");
    (to, unpacked)
}

fn told(layers: &[Vec<Vec<u8>>]) -> String {
    unpack(layers).1.expect_err("refused").to_string()
}

fn read(to: &TempDir, name: &str) -> Option<String> {
    std::fs::read_to_string(to.path().join("root").join(name)).ok()
}

#[test]
fn layers_come_over_one_another() {
    let (to, unpacked) = unpack(&[
        vec![
            folder("etc/"),
            file("etc/a", "1"),
            file("etc/b", "1"),
            file("./bin/tool", "x"),
            symlink("sbin", "bin"),
        ],
        vec![file("etc/a", "2"), file("etc/.wh.b", ""), file("sbin/other", "y")],
        vec![entry(EntryType::Link, "bin/again", "bin/tool", "")],
    ]);
    unpacked.expect("unpacked");
    assert_eq!(read(&to, "etc/a").as_deref(), Some("2"));
    assert_eq!(read(&to, "etc/b"), None);
    assert_eq!(read(&to, "bin/other").as_deref(), Some("y"), "a link within the image is followed within it");
    assert_eq!(read(&to, "bin/again").as_deref(), Some("x"));
    let mode = std::fs::metadata(to.path().join("root/bin/tool")).expect("there").permissions().mode();
    assert_eq!(mode & 0o7777, 0o755, "no file keeps setuid");
}

#[test]
fn an_opaque_folder_shows_nothing_of_layers_before() {
    let (to, unpacked) = unpack(&[
        vec![file("d/old", "1"), file("d/sub/old", "1")],
        vec![file("d/new", "2"), file("d/sub/new", "2"), file("d/.wh..wh..opq", ""), file("d/.wh.new", "")],
    ]);
    unpacked.expect("unpacked");
    assert_eq!((read(&to, "d/old"), read(&to, "d/sub/old")), (None, None));
    assert_eq!(read(&to, "d/new").as_deref(), Some("2"), "a whiteout does not concern its own layer");
    assert_eq!(read(&to, "d/sub/new").as_deref(), Some("2"));
}

#[test]
fn names_lead_nowhere_else() {
    // What nothing else has made there.
    let elsewhere = format!("superfluid-{}-elsewhere", std::process::id());
    for name in [
        format!("../{elsewhere}"),
        format!("a/../../{elsewhere}"),
        format!("/{elsewhere}"),
        "a/..".to_owned(),
    ] {
        assert!(told(&[vec![file(&name, "x")]]).contains("allowed: relative names"), "{name}");
    }
    // Through links: the folder is the root, so that these lie below it.
    for to in ["/", "../../..", "/tmp"] {
        let name = format!("way/{elsewhere}");
        let (_kept, unpacked) = unpack(&[vec![symlink("way", to)], vec![file(&name, "x")]]);
        assert!(unpacked.is_ok() || unpacked.is_err_and(|error| error.to_string().contains(&name)));
    }
    assert!(["/", "/tmp"].iter().all(|folder| !Path::new(folder).join(&elsewhere).exists()));
}

#[test]
fn a_hard_link_leads_to_files_of_the_image_alone() {
    for to in ["/etc/passwd", "../../etc/passwd"] {
        assert!(
            told(&[vec![entry(EntryType::Link, "x", to, "")]]).contains("allowed: relative names"),
            "{to}"
        );
    }
    let through = [vec![symlink("x", "/etc/passwd"), entry(EntryType::Link, "y", "x", "")]];
    assert!(told(&through).contains("hard link to what is no file"));
}

#[test]
fn a_file_is_never_written_through_a_link() {
    let outside = tempfile::NamedTempFile::new().expect("a file");
    let path = outside.path().to_str().expect("text");
    let (to, unpacked) = unpack(&[vec![symlink("x", path)], vec![file("x", "written")]]);
    unpacked.expect("unpacked");
    assert_eq!(read(&to, "x").as_deref(), Some("written"));
    assert_eq!(std::fs::read_to_string(outside.path()).expect("read"), "");
}

#[test]
fn devices_and_pipes_are_refused() {
    for kind in [EntryType::Char, EntryType::Block, EntryType::Fifo, EntryType::GNUSparse] {
        assert!(told(&[vec![entry(kind, "dev/x", "", "")]]).contains("allowed: files, folders"), "{kind:?}");
    }
}

#[test]
fn an_image_is_bounded() {
    let large = "x".repeat(600_000);
    assert!(told(&[vec![file("a", &large)], vec![file("b", &large)]]).contains("more than 1048576 bytes"));
    let many: Vec<_> = (0..101).map(|n| file(&format!("{n}"), "")).collect();
    assert!(told(&[many]).contains("more than 100 entries"));
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::GNULongName);
    header.set_size(1 << 40);
    header.set_cksum();
    assert!(told(&[vec![header.as_bytes().to_vec()]]).contains("a name or record of"));
}

/// An entry whose name, or what it leads to, is longer than a header has room for.
fn long(kind: EntryType, name: &str, to: &str) -> Vec<u8> {
    let mut all = entry(EntryType::GNULongName, "long", "", name);
    if !to.is_empty() {
        all.extend(entry(EntryType::GNULongLink, "long", "", to));
    }
    all.extend(entry(kind, "x", if to.is_empty() { "" } else { "x" }, ""));
    all
}

/// A folder costs as much as a file, whether an entry makes it or a name that lies in it.
#[test]
fn folders_that_no_entry_makes_are_counted() {
    let deep = |depth: usize| long(EntryType::Directory, &"a/".repeat(depth), "");
    unpack(&[vec![deep(100)]]).1.expect("as many as are allowed");
    assert!(told(&[vec![deep(101)]]).contains("more than 100 entries"));
    assert!(
        told(&[vec![deep(90)], vec![file("b/c/d/e/f/g/h/i/j/k/l", "")]]).contains("more than 100 entries")
    );
}

/// What is behind the end of an archive is read for its digest: of all layers together no more than one may
/// have.
#[test]
fn layers_are_bounded_together() {
    let padded = |name| vec![file(name, ""), vec![0; 1 << 20]];
    unpack(&[padded("a"), padded("b")]).1.expect("within the bounds");
    let refused = told(&[padded("a"), padded("b"), padded("c")]);
    assert!(refused.contains("more than") && refused.contains("layer 3"), "{refused}");
}

/// Each link leads to the deepest folder so far, so that every name below it is a walk of all of them.
#[test]
fn links_make_no_folders_deeper_than_a_path_can_say() {
    let (mut entries, mut from) = (Vec::new(), String::new());
    for number in 0..3 {
        let deep = format!("{from}{}", "a/".repeat(1000));
        entries.push(long(EntryType::Directory, &deep, ""));
        entries.push(long(EntryType::Symlink, &format!("l{number}"), &deep));
        from = format!("l{number}/");
    }
    let (made, to) = (layout(&[entries]), tempfile::tempdir().expect("a folder"));
    let image = Layout::open(open(made.path()), None).expect("a layout");
    let bounds = Bounds { entries: 1 << 20, ..BOUNDS };
    let refused = image.unpack(open(to.path()), Owners::Caller, bounds).expect_err("refused").to_string();
    assert!(refused.contains("its folder is too deep"), "{refused}");
    remove_folder(to.path()).expect("removed");
    // A folder below a link is made as the others are.
    let (to, unpacked) = unpack(&[vec![folder("d/e/"), symlink("way", "d/e"), folder("way/f/g/")]]);
    unpacked.expect("unpacked");
    assert!(to.path().join("root/d/e/f/g").is_dir());
}

#[test]
fn the_time_of_an_image_is_bounded() {
    let made = layout(&[vec![file("a", "1")]]);
    let to = tempfile::tempdir().expect("a folder");
    let image = Layout::open(open(made.path()), None).expect("a layout");
    let refused =
        image.unpack(open(to.path()), Owners::Caller, Bounds { processor: Duration::ZERO, ..BOUNDS });
    assert!(refused.expect_err("no time").to_string().contains("more than 0 s of a processor"));
}

/// Folders of any depth: beyond what one path can say, what descriptors can hold, and what a recursion comes
/// back from.
#[test]
fn folders_of_any_depth_are_removed() {
    let to = tempfile::tempdir().expect("a folder");
    let root = to.path().join("root");
    std::fs::create_dir(&root).expect("made");
    let mut deepest = open(&root);
    for _ in 0..10_000 {
        rustix::fs::mkdirat(&deepest, "a", Mode::RWXU).expect("made");
        deepest = tree::open_folder(&deepest, "a".as_ref()).expect("a folder");
    }
    // Names that the removal itself gives.
    std::fs::write(root.join(".1"), "x").expect("written");
    std::fs::create_dir_all(root.join(".2/x")).expect("made");
    std::os::unix::fs::symlink(to.path(), root.join("out")).expect("linked");
    remove_folder(&root).expect("removed");
    assert!(!root.exists() && to.path().exists());
    let absent = remove_folder(&root).expect_err("it is gone");
    assert_eq!(absent.kind(), std::io::ErrorKind::NotFound);
    std::os::unix::fs::symlink("/tmp", &root).expect("linked");
    remove_folder(&root).expect_err("a link is no folder");
}

#[test]
fn content_that_is_not_what_it_is_called_is_refused() {
    let made = layout(&[vec![file("a", "1")]]);
    let names: Vec<_> = std::fs::read_dir(made.path().join("blobs/sha256")).expect("a folder").collect();
    for name in names {
        let path = name.expect("an entry").path();
        let good = std::fs::read(&path).expect("read");
        for bad in [good[..good.len() - 1].to_vec(), [&good[..], b" "].concat()] {
            std::fs::write(&path, bad).expect("written");
            let to = tempfile::tempdir().expect("a folder");
            let opened = Layout::open(open(made.path()), None);
            let done = opened.and_then(|image| image.unpack(open(to.path()), Owners::Caller, BOUNDS));
            assert!(done.is_err(), "{}", path.display());
        }
        std::fs::write(&path, good).expect("written");
    }
    let other = Digest::try_from(sum(b"other")).expect("a digest");
    let error = Layout::open(open(made.path()), Some(&other)).expect_err("another one");
    assert!(error.to_string().contains("was asked for"), "{error}");
}

#[test]
fn a_blob_that_is_a_link_is_refused() {
    let made = layout(&[vec![file("a", "1")]]);
    std::fs::rename(made.path().join("index.json"), made.path().join("index")).expect("moved");
    std::os::unix::fs::symlink("index", made.path().join("index.json")).expect("linked");
    assert!(matches!(Layout::open(open(made.path()), None), Err(ImageError::File { .. })));
}

/// It is known from the manifest: no layer is read for it.
#[test]
fn a_layer_of_a_kind_that_is_not_read_is_known_from_the_documents() {
    let made = layout(&[vec![file("a", "1")]]);
    let read = |path: &Path| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(path).expect("read")).expect("JSON")
    };
    let index = read(&made.path().join("index.json"));
    let digest = index["manifests"][0]["digest"].as_str().expect("a digest");
    let mut manifest = read(&made.path().join("blobs/sha256").join(&digest[7..]));
    manifest["layers"][0]["mediaType"] = "application/vnd.oci.image.layer.v1.tar+zstd".into();
    let manifest = blob(made.path(), documents::MANIFEST[0], manifest.to_string().as_bytes());
    let index = serde_json::json!({"schemaVersion": 2, "manifests": [manifest]});
    std::fs::write(made.path().join("index.json"), index.to_string()).expect("written");
    let error = Layout::open(open(made.path()), None).expect_err("it cannot be unpacked").to_string();
    let wanted = "layer 1 is of the type `application/vnd.oci.image.layer.v1.tar+zstd`; allowed: tar and tar+gzip layers";
    assert_eq!(error, wanted);
}

#[test]
fn users_beyond_the_range_are_refused() {
    let made = layout(&[vec![file("a", "1")]]);
    let image = Layout::open(open(made.path()), None).expect("a layout");
    let to = tempfile::tempdir().expect("a folder");
    let own = rustix::process::getuid().as_raw();
    let error = image.unpack(open(to.path()), Owners::Shifted { first: own, count: 0 }, BOUNDS);
    assert!(error.is_err());
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_an_error_or_an_image(bytes: Vec<u8>) {
        let made = layout(&[vec![bytes]]);
        let to = tempfile::tempdir().expect("a folder");
        let image = Layout::open(open(made.path()), None).expect("a layout");
        let _ = image.unpack(open(to.path()), Owners::Caller, BOUNDS);
    }
}
