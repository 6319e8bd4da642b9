//! Archives that are whole, that were damaged, and that were made to do harm.

use crate::backup::{About, BackupError, FORMAT, check, unpack, write};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use tar::{Builder, EntryType, Header};

const WHO: (&str, &str, u64) = ("1.2.3", "2026-01-02T03:04:05Z", 17);

fn folder(files: &BTreeMap<String, Vec<u8>>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, bytes) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, bytes).expect("written");
    }
    folder
}

fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut below = vec![folder.to_owned()];
    while let Some(path) = below.pop() {
        for entry in std::fs::read_dir(path).expect("a folder") {
            let entry = entry.expect("an entry").path();
            if entry.is_dir() {
                below.push(entry);
            } else {
                let name = entry.strip_prefix(folder).expect("below").to_str().expect("text");
                found.insert(name.to_owned(), std::fs::read(&entry).expect("read"));
            }
        }
    }
    found
}

fn some() -> BTreeMap<String, Vec<u8>> {
    let digits = "0123456789abcdef".repeat(4);
    [
        ("store/store.db".to_owned(), vec![1; 5000]),
        ("store/durable".to_owned(), vec![2; 32]),
        (format!("images/blobs/sha256/{digits}"), vec![3; 512]),
        (format!("snapshots/{}.snapshot", "long".repeat(32)), vec![4; 700]),
        ("snapshots/empty.snapshot".to_owned(), Vec::new()),
    ]
    .into()
}

fn archive(files: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    let mut archive = Vec::new();
    write(folder(files).path(), WHO, &mut archive).expect("written");
    archive
}

#[test]
fn what_is_not_part_of_a_backup_is_left_out() {
    let mut files = some();
    let whole = archive(&files);
    files.insert("audit.jsonl".to_owned(), b"x".to_vec());
    files.insert("store/lock".to_owned(), Vec::new());
    files.insert("images/unfinished/1.2".to_owned(), b"x".to_vec());
    let with = folder(&files);
    std::os::unix::fs::symlink("/etc/passwd", with.path().join("snapshots/link.snapshot")).expect("a link");
    let mut again = Vec::new();
    write(with.path(), WHO, &mut again).expect("written");
    assert_eq!(whole, again);
}

#[test]
fn an_archive_is_one_for_tar_and_sha256sum() {
    let (files, to) = (some(), tempfile::tempdir().expect("a folder"));
    let file = to.path().join("b.tar");
    std::fs::write(&file, archive(&files)).expect("written");
    let said = std::process::Command::new("sh")
        .args(["-c", "tar -xf b.tar && sha256sum --check --strict --quiet SHA256SUMS"])
        .current_dir(to.path())
        .output()
        .expect("a shell");
    assert!(said.status.success(), "{said:?}");
    let mut found = contents(to.path());
    found.retain(|name, _| name.contains('/'));
    assert_eq!(found, files);
}

#[test]
fn one_that_is_cut_off_anywhere_is_told() {
    let whole = archive(&some());
    // What is missing of the two last blocks is nothing.
    let end = whole.iter().rposition(|byte| *byte != 0).expect("something").next_multiple_of(512);
    assert!(check(&whole[..end]).is_ok());
    for length in (0..end).step_by(97).chain([end - 1, end - 512]) {
        let error = check(&whole[..length]).expect_err("it is not whole");
        assert!(matches!(error, BackupError::CutOff { .. } | BackupError::NoBackup(_)), "{length}: {error}");
    }
}

#[test]
fn one_byte_that_is_another_is_told_with_its_file() {
    let files = some();
    let whole = archive(&files);
    for (name, bytes) in files.iter().filter(|(_, bytes)| !bytes.is_empty()) {
        let at = whole.windows(bytes.len()).position(|window| window == bytes).expect("it is there");
        let mut damaged = whole.clone();
        damaged[at + bytes.len() / 2] ^= 1;
        match check(damaged.as_slice()).expect_err("it is damaged") {
            BackupError::Sum { name: told } => assert_eq!(told, *name),
            other => panic!("{name}: {other}"),
        }
    }
}

/// An archive of one file, made by hand.
fn made(about: &About, name: &str, prepare: impl FnOnce(&mut Header), bytes: &[u8]) -> Vec<u8> {
    let mut archive = Builder::new(Vec::new());
    let text = serde_json::to_vec(about).expect("text");
    let mut header = Header::new_gnu();
    header.set_size(text.len() as u64);
    archive.append_data(&mut header, crate::backup::ABOUT, text.as_slice()).expect("appended");
    let mut header = Header::new_gnu();
    header.set_size(bytes.len() as u64);
    // Not by what refuses such names.
    header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
    prepare(&mut header);
    header.set_cksum();
    archive.append(&header, bytes).expect("appended");
    archive.into_inner().expect("written")
}

/// What reads the archive quotes fields that are no numbers, and they may hold anything.
#[test]
fn a_refusal_shows_no_control_character_of_the_archive() {
    let whole = archive(&some());
    for (field, digits) in [(100, 8), (124, 12), (136, 12), (148, 8)] {
        for begin in [0, 1024] {
            let mut damaged = whole.clone();
            damaged[begin + field..begin + field + digits]
                .copy_from_slice(&b"1\x1b[2J\n\r\x07\x11\xe2\x80\xae"[..digits]);
            if field != 148 {
                let header = &mut damaged[begin..begin + 512];
                header[148..156].fill(b' ');
                let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
                header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            }
            match check(damaged.as_slice()) {
                // Modes and times are not read.
                Ok(_) => assert!([100, 136].contains(&field)),
                Err(error) => {
                    let text = error.to_string();
                    assert!(!text.contains(printable::is_hidden), "{field} of {begin}: {text:?}");
                    assert!(text.len() < 1024, "{text}");
                }
            }
        }
    }
}

#[test]
fn nothing_hostile_is_unpacked() {
    let about = |files, bytes| About {
        format: FORMAT,
        program: "1".to_owned(),
        created: String::new(),
        revision: 1,
        files,
        bytes,
    };
    let one = about(1, 4);
    let link = |header: &mut Header| {
        header.set_entry_type(EntryType::Symlink);
        header.set_link_name("/etc").expect("a name");
    };
    let of = |kind: EntryType| move |header: &mut Header| header.set_entry_type(kind);
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (made(&one, "../escaped", |_| (), b"evil"), "the entry \"../escaped\""),
        (made(&one, "/etc/passwd", |_| (), b"evil"), "the entry \"/etc/passwd\""),
        (made(&one, "store/../../escaped", |_| (), b"evil"), "allowed: files of a daemon's state"),
        (made(&one, "store/lock", |_| (), b"evil"), "the entry \"store/lock\""),
        (made(&one, "images/x", |_| (), b"evil"), "the entry \"images/x\""),
        (made(&one, "store", link, b""), "of type Symlink; allowed: plain files"),
        (made(&one, "store/store.db", of(EntryType::Link), b""), "of type Link"),
        (made(&one, "store/store.db", of(EntryType::Char), b""), "of type Char"),
        (made(&one, "store/", of(EntryType::Directory), b""), "of type Directory"),
        (made(&one, "store/store.db", of(EntryType::GNUSparse), b"evil"), "of type GNUSparse"),
        (made(&one, "x", of(EntryType::XHeader), b"evil"), "of type XHeader"),
        (made(&one, "x", of(EntryType::GNULongName), &[b'a'; 300]), "a name of 300 bytes"),
        (made(&one, "store/store.db", |_| (), b"more than that"), "more than 4 bytes"),
        (made(&about(1, 5), "store/store.db", |_| (), b"less"), "4 bytes where the first entry says 5"),
        (made(&one, "store/store.db", |header| header.set_size(1 << 60), b"huge"), "more than 4 bytes"),
        (
            made(&about(1, u64::MAX), "store/store.db", |header| header.set_size(1 << 60), b"huge"),
            "cut off or damaged after 0 of 1 files",
        ),
        (made(&about(u64::MAX, 4), "store/store.db", |_| (), b"many"), "18446744073709551615 files"),
        (made(&about(2, 4), "store/store.db", |_| (), b"less"), "after 1 of 2 files: it ends"),
        (made(&one, "store/store.db", |_| (), b"sums"), "after 1 of 1 files: it ends"),
        (made(&about(0, 0), "store/store.db", |_| (), b"sums"), "allowed: SHA256SUMS"),
        (
            made(&About { format: 2, ..about(0, 0) }, "x", |_| (), b""),
            "layout 2, written by superfluid 1; allowed: layout 1",
        ),
        (b"not a tar file at all".to_vec(), "this is no backup"),
        (Vec::new(), "this is no backup"),
        (vec![0; 4096], "this is no backup"),
    ];
    for (archive, says) in cases {
        let to = tempfile::tempdir().expect("a folder");
        let inner = to.path().join("inner");
        std::fs::create_dir(&inner).expect("made");
        let error = unpack(archive.as_slice(), &inner).expect_err(says).to_string();
        assert!(error.contains(says), "{says}: {error}");
        assert!(!error.contains(|c: char| c.is_control()), "{error:?}");
        for name in contents(to.path()).keys() {
            assert!(
                crate::backup::is_part(name.strip_prefix("inner/").expect("nothing beside it")),
                "{name}"
            );
        }
    }
}

fn part() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("store/store.db".to_owned()),
        Just("store/durable".to_owned()),
        Just("images/index.json".to_owned()),
        "images/pins/[a-z]{1,8}",
        "images/blobs/sha256/[0-9a-f]{64}",
        "snapshots/[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\\.snapshot",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn what_is_unpacked_is_what_was_packed(
        files in prop::collection::btree_map(part(), prop::collection::vec(any::<u8>(), 0..1500), 0..12)
    ) {
        let whole = archive(&files);
        let to = tempfile::tempdir().expect("a folder");
        let about = unpack(whole.as_slice(), to.path()).expect("it is whole");
        prop_assert_eq!(&about, &check(whole.as_slice()).expect("it is whole"));
        prop_assert_eq!((about.files, about.revision), (files.len() as u64, 17));
        prop_assert_eq!(contents(to.path()), files);
    }

    #[test]
    fn no_change_of_an_archive_goes_unnoticed(at in any::<prop::sample::Index>(), with in 1..=255u8) {
        let files = some();
        let whole = archive(&files);
        let mut damaged = whole.clone();
        let at = at.index(whole.len());
        damaged[at] ^= with;
        let to = tempfile::tempdir().expect("a folder");
        if unpack(damaged.as_slice(), to.path()).is_ok() {
            // It was in what carries nothing, such as the modes of files and the ends of blocks.
            prop_assert_eq!(contents(to.path()), files, "{}", at);
        }
    }
}
