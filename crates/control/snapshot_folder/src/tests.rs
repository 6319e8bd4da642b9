//! Seals are held to every bit of a file; files to what may be opened at all; rotations to what stays and
//! what goes.

use crate::key::KEY_FILE;
use crate::{FILE_MAX, Folder, FolderError, Key, Keys, encoded, read};
use api::{Name, Snapshot};
use proptest::prelude::*;
use serde_json::json;
use snapshot::{HostState, Identity, Memory, Saved};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn saved() -> Saved<'static> {
    let mut memory = Memory::new(65536, 65536);
    let mut page = vec![0; 4096];
    page[100] = 7;
    memory.keep(0, &page);
    Saved {
        identity: Identity { image: [7; 32], name: "fw".into(), abi: 1, config: vec![1, 2, 3] },
        memory,
        globals: Vec::new(),
        host: HostState { counters: vec![1, 2], ..HostState::default() },
        packets: Vec::new(),
        tallies: Vec::new(),
    }
}

fn told(called: &str, tenant: &str) -> Snapshot {
    Snapshot {
        name: name(called),
        function: name("fw"),
        image: "sha256:07".into(),
        saved: "2026-01-01T00:00:00Z".into(),
        bytes: 0,
        tenant: Some(name(tenant)),
        imported: false,
        spec: json!({"image": "firewall", "tenant": tenant}),
    }
}

fn open(state: &Path) -> Folder {
    Folder::open(state).expect("opens").0
}

fn file(state: &Path, called: &str) -> PathBuf {
    state.join("snapshots").join(format!("{called}.snapshot"))
}

fn tenant(folder: &Folder, called: &str) -> Option<String> {
    let told = folder.read(&name(called)).expect("is there");
    assert_eq!(told.imported, told.tenant.is_none());
    told.tenant.map(String::from)
}

/// Keys, and a file that they have sealed.
fn sealed() -> (Keys, Vec<u8>) {
    let key = Key::generate().expect("a key");
    let file = encoded(&key, &told("monday", "red"), &saved()).expect("encodes");
    (Keys::of(key), file)
}

/// What is asked for a tenant costs nothing for what others have: their files are not looked at, here because
/// they are none that could be read.
#[test]
fn a_tenants_snapshots_are_known_without_a_look_at_others_files() {
    let state = tempfile::tempdir().expect("a folder");
    let folder = open(state.path());
    for (called, tenant) in [("monday", "red"), ("tuesday", "red"), ("sunday", "blue")] {
        folder.write(&told(called, tenant), &saved(), FILE_MAX).expect("writes");
    }
    let names = |tenant| -> Vec<String> {
        folder.list_of(tenant).into_iter().map(|told| told.name.to_string()).collect()
    };
    assert_eq!(
        (names("red"), names("blue")),
        (vec!["monday".into(), "tuesday".into()], vec!["sunday".into()])
    );
    assert_eq!(folder.images_of("blue"), ["firewall"]);
    // One is given up, one is adopted by another tenant, and a file is exchanged for one of another tenant.
    assert!(folder.remove(&name("tuesday")).expect("removes"));
    folder.adopt(&name("sunday"), &name("red")).expect("adopts");
    std::fs::write(file(state.path(), "monday"), "broken").expect("writes");
    assert_eq!((names("red"), names("blue")), (vec!["sunday".into()], Vec::new()));
    assert_eq!((folder.images_of("red").len(), folder.images_of("blue").len()), (2, 0));
    // After a start the files say it.
    let again = open(state.path());
    assert_eq!(again.images_of("red"), ["firewall"]);
}

#[test]
fn what_a_host_writes_it_believes_and_a_file_under_another_name_not() {
    let state = tempfile::tempdir().expect("a folder");
    let folder = open(state.path());
    let written = folder.write(&told("monday", "red"), &saved(), FILE_MAX).expect("writes");
    assert_eq!(written.bytes, std::fs::metadata(file(state.path(), "monday")).expect("is there").len());
    assert_eq!(folder.read(&name("monday")), Some(written.clone()));
    assert_eq!(folder.load(&name("monday")).expect("loads"), (written, saved()));
    assert_eq!(folder.bytes_of("fw"), folder.read(&name("monday")).expect("is there").bytes);
    // The same file by another name is not what was sealed.
    std::fs::copy(file(state.path(), "monday"), file(state.path(), "tuesday")).expect("copies");
    assert_eq!(tenant(&folder, "tuesday"), None);
    // Of another host neither, and its tenant here stays the same.
    let other = tempfile::tempdir().expect("a folder");
    let foreign = open(other.path());
    std::fs::copy(file(state.path(), "monday"), file(other.path(), "monday")).expect("copies");
    assert_eq!(tenant(&foreign, "monday"), None);
    assert_eq!(foreign.load(&name("monday")).expect("is whole").1, saved());
    // It counts for no function of this host.
    drop(foreign);
    let (foreign, lines) = Folder::open(other.path()).expect("opens");
    assert!(lines.iter().any(|line| line.contains("monday") && line.contains("adopt")), "{lines:?}");
    assert_eq!(foreign.bytes_of("fw"), 0);
    // Until an administrator gives it to a tenant here.
    foreign.adopt(&name("monday"), &name("blue")).expect("adopts");
    assert_eq!(tenant(&foreign, "monday").as_deref(), Some("blue"));
    assert_eq!(foreign.read(&name("monday")).expect("is there").spec["tenant"], "blue");
    assert_eq!(tenant(&folder, "monday").as_deref(), Some("red"));
}

#[test]
fn no_flipped_bit_of_a_file_is_believed() {
    let (keys, good) = sealed();
    let called = name("monday");
    let whole = |bytes: &[u8]| read(&keys, (&called, "monday"), bytes.len() as u64, bytes);
    assert!(!whole(&good).expect("as it was written").0.imported);
    let mut imported = 0;
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        if let Ok((told, _)) = whole(&bad) {
            assert!(told.imported && told.tenant.is_none(), "bit {bit} of {}", good.len() * 8);
            imported += 1;
        }
    }
    // The tenant's name, say, is text that can be changed without making it another thing than JSON.
    assert!(imported > 0, "some are read, and belong to no tenant");
    for end in 0..good.len() {
        assert!(!matches!(whole(&good[..end]), Ok((told, _)) if !told.imported), "cut off at {end}");
    }
    let longer = [&good[..], b"\0"].concat();
    assert!(whole(&longer).is_err());
}

proptest! {
    #[test]
    fn no_changed_file_is_believed(
        at in any::<prop::sample::Index>(),
        cut in 0_usize..200,
        put in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let (keys, good) = sealed();
        let at = at.index(good.len());
        let end = (at + cut).min(good.len());
        let bad = [&good[..at], &put, &good[end..]].concat();
        prop_assume!(bad != good);
        if let Ok((told, _)) = read(&keys, (&name("monday"), "monday"), bad.len() as u64, bad.as_slice()) {
            prop_assert!(told.imported && told.tenant.is_none());
        }
    }

    #[test]
    fn any_bytes_are_refused_or_imported(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let keys = Keys::of(Key::generate().expect("a key"));
        let read = read(&keys, (&name("x"), "x"), bytes.len() as u64, bytes.as_slice());
        prop_assert!(read.is_err() || read.is_ok_and(|(told, _)| told.imported));
    }
}

#[test]
fn files_of_before_there_were_seals_are_imported() {
    let state = tempfile::tempdir().expect("a folder");
    let folder = open(state.path());
    let mut old = serde_json::to_vec(&json!({
        "name": "old", "function": "fw", "image": "sha256:07", "saved": "2025-01-01T00:00:00Z", "bytes": 9,
        "spec": {"image": "firewall", "tenant": "red"},
    }))
    .expect("JSON");
    old.push(b'\n');
    old.extend_from_slice(&saved().encode().expect("encodes"));
    std::fs::write(file(state.path(), "old"), &old).expect("writes");
    assert_eq!(tenant(&folder, "old"), None);
    assert_eq!(folder.load(&name("old")).expect("loads").1, saved());
    let rotated = folder.rotate().expect("rotates");
    assert_eq!((rotated.sealed, rotated.imported), (0, 1));
    folder.adopt(&name("old"), &name("red")).expect("adopts");
    assert_eq!(tenant(&folder, "old").as_deref(), Some("red"));
}

#[test]
fn the_key_is_for_its_owner_alone_and_without_it_everything_is_imported() {
    let state = tempfile::tempdir().expect("a folder");
    let folder = open(state.path());
    folder.write(&told("monday", "red"), &saved(), FILE_MAX).expect("writes");
    let key = state.path().join(KEY_FILE);
    assert_eq!(std::fs::metadata(&key).expect("is there").mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(file(state.path(), "monday")).expect("is there").mode() & 0o777, 0o600);
    let secret = std::fs::read_to_string(&key).expect("reads");
    let digits = secret.split('"').max_by_key(|part| part.len()).expect("some").to_owned();
    assert_eq!(digits.len(), 64);
    assert!(!format!("{folder:?}").contains(&digits), "not in what is printed of it");
    drop(folder);
    for (mode, text) in [(0o640, secret.as_str()), (0o600, "{}"), (0o600, ""), (0o600, "{\"keys\":[]}")] {
        std::fs::write(&key, text).expect("writes");
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).expect("sets");
        let told = Folder::open(state.path()).expect_err("no key").to_string();
        assert!(told.contains(KEY_FILE) && told.contains("allowed: ") && !told.contains(&digits), "{told}");
    }
    std::fs::remove_file(&key).expect("removes");
    let (folder, lines) = Folder::open(state.path()).expect("opens");
    assert_eq!(tenant(&folder, "monday"), None);
    assert!(lines.iter().any(|line| line.contains("no key") && line.contains("monday")), "{lines:?}");
}

#[test]
fn a_rotation_seals_what_is_the_hosts_own_and_the_key_before_counts_no_more() {
    let state = tempfile::tempdir().expect("a folder");
    let folder = open(state.path());
    for (called, of) in [("a", "red"), ("b", "blue")] {
        folder.write(&told(called, of), &saved(), FILE_MAX).expect("writes");
    }
    let before = std::fs::read(file(state.path(), "a")).expect("reads");
    let old_keys = std::fs::read(state.path().join(KEY_FILE)).expect("reads");
    let rotated = folder.rotate().expect("rotates");
    assert_eq!((rotated.sealed, rotated.imported), (2, 0));
    assert_eq!(tenant(&folder, "a").as_deref(), Some("red"));
    assert_eq!(folder.load(&name("b")).expect("loads").1, saved());
    let keys = std::fs::read_to_string(state.path().join(KEY_FILE)).expect("reads");
    assert_eq!(keys.matches("\"id\"").count(), 1, "the key before is gone");
    assert!(keys.contains(&rotated.key));
    // What is sealed with the key before is not believed any more.
    std::fs::write(file(state.path(), "a"), &before).expect("writes");
    assert_eq!(tenant(&folder, "a"), None);
    drop(folder);
    // A rotation that was cut off is brought to its end: some files have the old seal, some the new one.
    let old: serde_json::Value = serde_json::from_slice(&old_keys).expect("JSON");
    let new: serde_json::Value = serde_json::from_str(&keys).expect("JSON");
    let both = json!({"keys": [new["keys"][0], old["keys"][0]]});
    std::fs::write(state.path().join(KEY_FILE), both.to_string()).expect("writes");
    let folder = open(state.path());
    assert_eq!(tenant(&folder, "a").as_deref(), Some("red"));
    assert_eq!(tenant(&folder, "b").as_deref(), Some("blue"));
    let keys = std::fs::read_to_string(state.path().join(KEY_FILE)).expect("reads");
    assert_eq!(keys.matches("\"id\"").count(), 1);
}

#[test]
fn a_snapshot_that_was_cut_off_keeps_no_key_from_being_replaced() {
    let state = tempfile::tempdir().expect("a folder");
    let folder = open(state.path());
    folder.write(&told("whole", "red"), &saved(), FILE_MAX).expect("writes");
    folder.write(&told("cut", "red"), &saved(), FILE_MAX).expect("writes");
    let bytes = std::fs::read(file(state.path(), "cut")).expect("reads");
    std::fs::write(file(state.path(), "cut"), &bytes[..bytes.len() - 10]).expect("writes");
    assert!(matches!(folder.load(&name("cut")), Err(FolderError::Damaged { .. })));
    let rotated = folder.rotate().expect("rotates");
    assert_eq!((rotated.sealed, rotated.imported), (1, 1));
    assert_eq!(tenant(&folder, "whole").as_deref(), Some("red"));
}

#[test]
fn nothing_but_regular_files_in_the_folder_is_opened() {
    let state = tempfile::tempdir().expect("a folder");
    let folder = open(state.path());
    folder.write(&told("good", "red"), &saved(), FILE_MAX).expect("writes");
    symlink(file(state.path(), "good"), file(state.path(), "link")).expect("links");
    std::fs::create_dir(file(state.path(), "dir")).expect("makes");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        file(state.path(), "pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .expect("makes a pipe");
    // With one more than is read, without taking that room.
    std::fs::File::create(file(state.path(), "large"))
        .and_then(|file| file.set_len((1 << 30) + 1))
        .expect("makes");
    for wrong in ["link", "dir", "pipe", "large"] {
        assert_eq!(folder.read(&name(wrong)), None, "{wrong}");
        let told = folder.load(&name(wrong)).expect_err("is none").to_string();
        assert!(told.contains("allowed: "), "{wrong}: {told}");
    }
    let list: Vec<String> = folder.list().iter().map(|told| told.name.to_string()).collect();
    assert_eq!(list, ["good"]);
    // What is written under the name of a link replaces the link, not what it leads to.
    let target = state.path().join("target");
    std::fs::write(&target, "untouched").expect("writes");
    symlink(&target, state.path().join("snapshots/new.part")).expect("links");
    symlink(&target, file(state.path(), "new")).expect("links");
    folder.write(&told("new", "red"), &saved(), FILE_MAX).expect("writes");
    assert_eq!(std::fs::read_to_string(&target).expect("reads"), "untouched");
    assert_eq!(tenant(&folder, "new").as_deref(), Some("red"));
}

#[test]
fn what_is_larger_than_it_may_be_is_not_written_and_leaves_the_one_before() {
    let state = tempfile::tempdir().expect("a folder");
    let folder = open(state.path());
    let bytes = folder.write(&told("monday", "red"), &saved(), FILE_MAX).expect("writes").bytes;
    let error = folder.write(&told("monday", "blue"), &saved(), bytes - 1).expect_err("is too large");
    assert!(matches!(error, FolderError::TooMuch { allowed, .. } if allowed == bytes - 1), "{error}");
    assert_eq!(tenant(&folder, "monday").as_deref(), Some("red"));
    assert_eq!(folder.list_of("blue"), []);
}

/// A later version's, say, or one that the disk has damaged: it is not listed, and a function that is saved
/// under its name is another one.
#[test]
fn what_cannot_be_read_is_not_written_over() {
    let state = tempfile::tempdir().expect("a folder");
    let folder = open(state.path());
    let file = file(state.path(), "monday");
    std::fs::write(&file, "of a later version\n").expect("writes");
    assert!(folder.read(&name("monday")).is_none());
    let error = folder.write(&told("monday", "red"), &saved(), FILE_MAX).expect_err("is there");
    assert!(matches!(error, FolderError::Unreadable { .. }), "{error}");
    assert!(!error.to_string().contains("snapshots/"), "a tenant is told it: {error}");
    assert_eq!(std::fs::read(&file).expect("reads"), b"of a later version\n");
}
