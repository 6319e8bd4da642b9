//! Bits that turn over, files that are cut off or gone: told, or without consequence; never a panic, never
//! less than what was durable.

use std::fs;
use std::path::Path;

use super::{Contents, contents, copy, folder, put};
use crate::{Change, OpenError, Store};

/// Bytes of a page of the database; of the log's header, and of what stands there before each page.
const PAGE: usize = 2_048;
const LOG_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// Places of a file in which a bit is turned over: of every page of the database its header, some of the
/// pointers behind it, places all over it and its last bytes; of the log the same of every page, and what
/// stands before it; of small files every byte.
fn places(name: &str, length: usize) -> Vec<usize> {
    let (begin, before) = match name {
        "store.db" => (0, 0),
        "store.db-wal" => (LOG_HEADER, FRAME_HEADER),
        "store.db-shm" => return (0..length).step_by(127).collect(),
        _ => return (0..length).collect(),
    };
    let mut places: Vec<usize> = (0..length.min(100)).collect();
    for (number, page) in (begin..length).step_by(before + PAGE).enumerate() {
        let within = (0..before).step_by(3);
        let header = (0..12).step_by(2).chain([12, 13]);
        // Another place in each page, so that all together they are everywhere.
        let all_over = (0..8).map(|part| 16 + (part * 251 + number * 37) % (PAGE - 32));
        let in_page = header.chain(all_over).chain([PAGE - 16, PAGE - 1]);
        places.extend(within.chain(in_page.map(|at| before + at)).map(|at| page + at));
    }
    places.retain(|at| *at < length);
    places.sort_unstable();
    places.dedup();
    places
}

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
        let (mut times, mut pages) = (0, std::collections::BTreeSet::new());
        for at in places(name, length) {
            pages.insert(at / PAGE);
            let told =
                damage(folder.path(), &expected, name, &format!("bit {} of byte {at}", at % 8), |bytes| {
                    bytes[at] ^= 1 << (at % 8);
                });
            times += usize::from(told);
        }
        assert_eq!(pages.len(), length.div_ceil(PAGE), "{name}: every page");
        // The third is made anew; of the fourth every bit counts.
        match name {
            "store.db-shm" => assert_eq!(times, 0),
            "durable" => assert_eq!(times, length),
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
        // The log is as long as it was before it was carried over: what counts is at its beginning, and only
        // what follows may be missing.
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
