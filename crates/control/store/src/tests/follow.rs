//! Following the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{folder, put};
use crate::{Change, Gone, Revision, Settings, Store};

#[test]
fn changes_come_by_whole_commits_and_the_oldest_go() {
    let folder = folder();
    let store = Store::open_with(folder.path(), Settings { changes_kept: 4, ..Settings::default() }).unwrap();
    assert_eq!(store.changes_after(Revision(0), 10), Ok(vec![]));
    store.commit(&[put("a", b""), put("b", b""), put("c", b"")]).unwrap();
    assert_eq!(store.changes_after(Revision(0), 1).unwrap().len(), 3);
    store.commit(&[put("d", b"")]).unwrap();
    assert_eq!(store.changes_after(Revision(0), 1).unwrap().len(), 3);
    assert_eq!(store.changes_after(Revision(0), 4).unwrap().len(), 4);
    assert_eq!(store.changes_after(Revision(1), 9).unwrap().len(), 1);
    store.commit(&[Change::delete("function", "a")]).unwrap();
    let gone = Gone { asked: Revision(0), oldest: Revision(1), newest: Revision(3) };
    assert_eq!(store.changes_after(Revision(0), 10), Err(gone));
    assert_eq!(store.changes_after(Revision(1), 10).unwrap().len(), 2);
    assert!(store.changes_after(Revision(4), 10).is_err());
    let large: Vec<_> = (0..6).map(|at| put(&format!("l{at}"), b"")).collect();
    store.commit(&large).unwrap();
    assert!(store.changes_after(Revision(3), 10).is_err());
    assert_eq!(store.changes_after(Revision(4), 10), Ok(vec![]));
}

#[test]
fn subscribers_are_told_until_they_leave() {
    let folder = folder();
    let store = Store::open(folder.path()).unwrap();
    let told = Arc::new(AtomicU64::new(0));
    let subscription = store.subscribe({
        let told = told.clone();
        move |revision| told.store(revision.0, Ordering::Relaxed)
    });
    let revision = store.commit(&[put("a", b"")]).unwrap();
    assert_eq!(told.load(Ordering::Relaxed), revision.0);
    drop(subscription);
    store.commit(&[put("a", b"")]).unwrap();
    assert_eq!(told.load(Ordering::Relaxed), revision.0);
}
