//! What is refused, and what a refused commit leaves behind: nothing.

use super::{contents, folder, put};
use crate::{Change, CommitError, NAME_MAX, OpenError, Precondition, Revision, Settings, Store, VALUE_MAX};

#[test]
fn a_conflict_names_the_object_and_undoes_the_whole_commit() {
    let folder = folder();
    let store = Store::open(folder.path()).unwrap();
    let first = store.commit(&[put("a", b"1")]).unwrap();
    let before = contents(&store);
    let error = store
        .commit(&[put("b", b"2"), put("a", b"3").only_if(Precondition::Version(Revision(first.0 + 7)))])
        .unwrap_err();
    assert_eq!(error.to_string(), "function a: expected version 8, found version 1");
    let error = store.commit(&[Change::delete("function", "c").only_if(Precondition::Present)]).unwrap_err();
    assert_eq!(error.to_string(), "function c: expected such an object, found no such object");
    assert_eq!(contents(&store), before);
    assert_eq!(store.revision(), first);
}

#[test]
fn sizes_are_bounded() {
    let folder = folder();
    let store = Store::open(folder.path()).unwrap();
    let long = "n".repeat(NAME_MAX + 1);
    for change in [
        put("", b""),
        put(&long, b""),
        Change::put("", "name", *b""),
        put("large", &vec![0; VALUE_MAX + 1]),
        Change::delete("function", &*long),
    ] {
        let error = store.commit(&[change]).unwrap_err();
        assert!(matches!(error, CommitError::Size { .. }) && error.to_string().len() < 200, "{error}");
    }
    assert_eq!(store.revision(), Revision(0));
    store.commit(&[put(&long[1..], &vec![7; VALUE_MAX])]).unwrap();
    drop(store);
    let store = Store::open(folder.path()).unwrap();
    assert_eq!(store.read("function", &long[1..]).unwrap().value.len(), VALUE_MAX);
}

#[test]
fn memory_is_bounded_and_deleting_makes_room() {
    let folder = folder();
    let settings = Settings { max_bytes: 10_000, ..Settings::default() };
    let store = Store::open_with(folder.path(), settings.clone()).unwrap();
    let mut held = 0;
    let error = loop {
        match store.commit(&[put(&format!("f{held}"), &[0; 1_000])]) {
            Ok(_) => held += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, CommitError::TooLarge { allowed: 10_000, .. }), "{error}");
    assert_eq!(held, 8);
    store.commit(&[Change::delete("function", "f0")]).unwrap();
    store.commit(&[put("again", &[0; 1_000])]).unwrap();
    drop(store);
    Store::open_with(folder.path(), settings.clone()).unwrap();
    let error = Store::open_with(folder.path(), Settings { max_bytes: 5_000, ..settings }).err().unwrap();
    assert!(matches!(error, OpenError::TooLarge { allowed: 5_000, .. }), "{error}");
}

#[test]
fn one_store_has_one_user() {
    let folder = folder();
    let store = Store::open(folder.path()).unwrap();
    assert!(matches!(Store::open(folder.path()), Err(OpenError::InUse { .. })));
    drop(store);
    Store::open(folder.path()).unwrap();
}

#[test]
fn a_newer_format_is_told_as_such() {
    use std::os::unix::fs::FileExt as _;
    let folder = folder();
    drop(Store::open(folder.path()).unwrap());
    let file = std::fs::OpenOptions::new().write(true).open(folder.path().join("store.db")).unwrap();
    file.write_all_at(&9u32.to_be_bytes(), 60).unwrap();
    let error = Store::open(folder.path()).err().unwrap();
    assert!(matches!(error, OpenError::Newer { found: 9, newest: 1, .. }), "{error}");
}

#[test]
fn many_objects_are_found_again_after_the_log_was_carried_over() {
    let folder = folder();
    let store = Store::open(folder.path()).unwrap();
    for batch in 0..20 {
        let changes: Vec<_> = (0..500).map(|at| put(&format!("f{batch}-{at}"), &[batch; 500])).collect();
        store.commit(&changes).unwrap();
    }
    // More than what is carried over while commits wait.
    for round in 0..2_000u32 {
        store.commit(&[put(&format!("f3-{}", round % 500), &[1; 8_000])]).unwrap();
    }
    let log = std::fs::metadata(folder.path().join("store.db-wal")).unwrap().len();
    assert!(log < 80 << 20, "a log of {log} bytes");
    let before = contents(&store);
    assert_eq!(before.len(), 10_000);
    drop(store);
    assert_eq!(contents(&Store::open(folder.path()).unwrap()), before);
}
