//! Bits that turn over, files that are cut off or gone: told, or without consequence; never a panic, never less than
//! what was durable.

use std::fs;
use std::path::Path;

use super::{Contents, contents, copy, folder, put};
use crate::{Change, OpenError, Store};

/// Places looked at per file.
const PLACES: usize = 260;

/// A store with objects in the main file and in the log, long values, and free pages.
fn make(folder: &Path) -> Contents {
    let store = Store::open(folder).unwrap();
    for at in 0..30 {
        let length = if at % 10 == 0 { 5_000 } else { 60 };
        store.commit(&[put(&format!("f{at}"), &vec![at; length])]).unwrap();
    }
    drop(store);
    // What is in the log when a store is opened is carried over at once.
    let store = Store::open(folder).unwrap();
    let begin = std::time::Instant::now();
    while store.standing().log_bytes > 0 {
        assert!(begin.elapsed().as_secs() < 20, "the log is never carried over");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    store.commit(&[Change::delete("function", "f10"), Change::delete("function", "f11")]).unwrap();
    for at in 0..4 {
        store.commit(&[put(&format!("g{at}"), &[at; 300]), put("f3", &[at; 20])]).unwrap();
    }
    let all = contents(&store);
    drop(store);
    all
}

/// Opens a store that was damaged, and says whether that was told.
fn told(folder: &Path, expected: &Contents, damage: &str) -> bool {
    let file = |name: &str| fs::read(folder.join(name)).ok();
    let before = ["store.db", "store.db-wal", "durable"].map(file);
    match Store::open(folder) {
        Ok(store) => {
            assert_eq!(&contents(&store), expected, "{damage}: opened with something else in it");
            // Nor does it do harm later.
            let mut expected = expected.clone();
            for at in 0..8 {
                let revision = store.commit(&[put(&format!("h{at}"), &[at; 3_000])]).unwrap();
                expected.insert(("function".into(), format!("h{at}")), (revision, vec![at; 3_000]));
            }
            drop(store);
            let store = Store::open(folder).unwrap_or_else(|error| panic!("{damage}: found late: {error}"));
            assert_eq!(contents(&store), expected, "{damage}: did harm later");
            false
        }
        Err(
            error @ (OpenError::Damaged { .. }
            | OpenError::Lost { .. }
            | OpenError::Newer { .. }
            | OpenError::Database { .. }),
        ) => {
            assert!(!error.to_string().contains('\n'), "{damage}: {error}");
            let after = ["store.db", "store.db-wal", "durable"].map(file);
            assert!(before == after, "{damage}: what is damaged was changed further");
            true
        }
        Err(error) => panic!("{damage}: {error}"),
    }
}

/// Copies the store, damages a file of the copy, opens it.
fn damage(of: &Path, expected: &Contents, name: &str, what: &str, how: impl FnOnce(&mut Vec<u8>)) -> bool {
    let place = folder();
    copy(of, place.path());
    let file = place.path().join(name);
    let mut bytes = fs::read(&file).unwrap();
    how(&mut bytes);
    fs::write(&file, bytes).unwrap();
    told(place.path(), expected, &format!("{name}, {what}"))
}

#[test]
fn turned_bits_are_told_or_do_nothing() {
    let folder = folder();
    let expected = make(folder.path());
    for name in ["store.db", "store.db-wal", "store.db-shm", "durable"] {
        let length = fs::metadata(folder.path().join(name)).unwrap().len() as usize;
        let step = length.div_ceil(PLACES).max(1) | 1;
        let mut times = 0;
        for at in (0..length).step_by(step).chain(0..length.min(100)) {
            let told =
                damage(folder.path(), &expected, name, &format!("bit {} of byte {at}", at % 8), |bytes| {
                    bytes[at] ^= 1 << (at % 8);
                });
            times += usize::from(told);
        }
        // The third is made anew; of the fourth every bit counts.
        match name {
            "store.db-shm" => assert_eq!(times, 0),
            "durable" => assert_eq!(times, 2 * length),
            _ => assert!(times > 50, "{name}: {times} times told"),
        }
    }
}

#[test]
fn files_that_are_cut_off_are_told() {
    let folder = folder();
    let expected = make(folder.path());
    for name in ["store.db", "store.db-wal", "durable"] {
        let length = fs::metadata(folder.path().join(name)).unwrap().len() as usize;
        let mut untold = Vec::new();
        for at in (0..length).step_by(length.div_ceil(60)).chain([length - 1]) {
            let what = format!("cut off at {at} of {length}");
            if !damage(folder.path(), &expected, name, &what, |bytes| bytes.truncate(at)) {
                untold.push(at);
            }
        }
        // The log is as long as it was before it was carried over: what counts is at its beginning, and only what
        // follows may be missing.
        let first = untold.first().copied().unwrap_or(length);
        assert!(
            untold.iter().all(|&at| at >= first) && (name == "store.db-wal" || untold.is_empty()),
            "{name}: {untold:?}"
        );
        assert!(first > 5 * 2_048 || name == "durable", "{name}: told up to {first} only");
    }
}

#[test]
fn files_that_are_gone_are_told() {
    let folder = folder();
    let expected = make(folder.path());
    for name in ["store.db", "store.db-wal"] {
        let place = super::folder();
        copy(folder.path(), place.path());
        fs::remove_file(place.path().join(name)).unwrap();
        let error =
            Store::open(place.path()).err().unwrap_or_else(|| panic!("{name} is gone, and nothing told"));
        assert!(matches!(error, OpenError::Damaged { .. } | OpenError::Lost { .. }), "{name}: {error}");
    }
    // Without the mark the store is taken as it is, and without the others there is nothing to miss.
    for name in ["durable", "store.db-shm", "lock"] {
        let place = super::folder();
        copy(folder.path(), place.path());
        fs::remove_file(place.path().join(name)).unwrap();
        assert_eq!(contents(&Store::open(place.path()).unwrap()), expected);
    }
}

#[test]
fn a_store_whose_making_was_interrupted_is_made() {
    let folder = folder();
    for left in ["store.new", "store.new-journal", "store.new-wal"] {
        fs::write(folder.path().join(left), b"half").unwrap();
    }
    let store = Store::open(folder.path()).unwrap();
    store.commit(&[put("a", b"")]).unwrap();
    assert!(!folder.path().join("store.new-wal").exists());
}
