//! Waiting for the disk, and a disk that fails.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use super::{contents, folder, put};
use crate::{CommitError, NotDurable, Revision, Settings, Store};

#[test]
fn durability_is_told_and_comes_in_groups() {
    let folder = folder();
    let syncs = Arc::new(AtomicU64::new(0));
    let settings = Settings { gather: Duration::from_secs(30), ..Settings::default() };
    let store = Store::open_syncing(folder.path(), settings, |log| {
        let syncs = syncs.clone();
        Box::new(move || {
            syncs.fetch_add(1, Ordering::Relaxed);
            log.sync_data()
        })
    })
    .unwrap();
    let mut last = Revision(0);
    for at in 0..100 {
        last = store.commit(&[put(&format!("f{at}"), b"x")]).unwrap();
    }
    assert_eq!(store.durable_revision(), Revision(0));
    // A thread that waits does not wait for the 30 s.
    store.wait_durable(last).unwrap();
    assert_eq!(store.durable_revision(), last);
    assert_eq!(syncs.load(Ordering::Relaxed), 1);
    let next = Revision(last.0 + 1);
    assert_eq!(store.wait_durable(next), Err(NotDurable::NotCommitted { asked: next, last }));
    let (sender, receiver) = mpsc::channel();
    assert_eq!(store.commit(&[put("g", b"y")]), Ok(next));
    store.when_durable(next, move |told| sender.send(told).unwrap());
    assert_eq!(receiver.recv_timeout(Duration::from_secs(20)).unwrap(), Ok(()));
    assert_eq!(store.durable_revision(), next);
}

#[test]
fn commits_become_durable_by_themselves() {
    let folder = folder();
    let store = Store::open(folder.path()).unwrap();
    for at in 0..3 {
        let revision = store.commit(&[put(&format!("f{at}"), b"x")]).unwrap();
        let begin = std::time::Instant::now();
        while store.durable_revision() < revision {
            assert!(begin.elapsed() < Duration::from_secs(20), "never durable");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn a_failed_write_to_disk_is_final() {
    let folder = folder();
    let broken = Arc::new(AtomicBool::new(false));
    let store = Store::open_syncing(folder.path(), Settings::default(), |log| {
        let broken = broken.clone();
        // Fails once; afterwards all seems well, as after the system dropped what it could not write.
        Box::new(move || match broken.swap(false, Ordering::Relaxed) {
            true => Err(io::Error::other("the disk is on fire")),
            false => log.sync_data(),
        })
    })
    .unwrap();
    let good = store.commit(&[put("good", b"1")]).unwrap();
    store.wait_durable(good).unwrap();
    broken.store(true, Ordering::Relaxed);
    let bad = store.commit(&[put("bad", b"2")]).unwrap();
    let error = store.wait_durable(bad).unwrap_err();
    assert!(error.to_string().contains("the disk is on fire"), "{error}");
    assert_eq!(store.commit(&[put("more", b"3")]), Err(CommitError::NotDurable(error.clone())));
    let (sender, receiver) = mpsc::channel();
    store.when_durable(bad, move |told| sender.send(told).unwrap());
    assert_eq!(receiver.recv().unwrap(), Err(error.clone()));
    store.wait_durable(good).unwrap();
    assert_eq!(store.standing().failure, Some(error));
    assert_eq!(&*store.read("function", "good").unwrap().value, b"1");
    drop(store);
    // It was not closed in order: revisions go on where none was ever given out.
    let store = Store::open(folder.path()).unwrap();
    assert!(contents(&store).contains_key(&("function".into(), "good".into())));
    assert!(store.revision() > bad);
    assert!(store.changes_after(bad, 10).is_err());
    assert!(store.commit(&[put("more", b"3")]).unwrap() > bad);
}
