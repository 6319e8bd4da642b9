//! Copies of a running store.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{contents, folder, put};
use crate::{BackUpError, Store};

#[test]
fn a_back_up_is_one_state_although_commits_go_on() {
    let (folder, other) = (folder(), folder());
    let store = Store::open(folder.path()).unwrap();
    for at in 0..300 {
        store.commit(&[put(&format!("f{at}"), &[at as u8; 700])]).unwrap();
    }
    let copy = other.path().join("deep/copy");
    let stop = AtomicBool::new(false);
    let (revision, last) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut round = 0u32;
            while !stop.load(Ordering::Relaxed) {
                let value = round.to_le_bytes();
                store.commit(&[put("left", &value), put("right", &value)]).unwrap();
                round += 1;
            }
            store.revision()
        });
        while store.revision().0 < 310 {
            std::thread::yield_now();
        }
        let revision = store.back_up(&copy).unwrap();
        stop.store(true, Ordering::Relaxed);
        (revision, writer.join().unwrap())
    });
    assert!(revision.0 >= 310 && revision <= last);
    let copied = Store::open(&copy).unwrap();
    let all = contents(&copied);
    assert_eq!(all.len(), 302);
    let half = |name: &str| all[&("function".to_owned(), name.to_owned())].clone();
    assert_eq!(half("left"), half("right"));
    assert_eq!(half("left").0, revision);
    // What the running store committed after the copy has numbers that the copy does not give out again.
    assert!(copied.commit(&[put("new", b"")]).unwrap() > last);
    assert!(matches!(store.back_up(&copy), Err(BackUpError::NotEmpty(_))));
}

#[test]
fn a_back_up_that_fails_leaves_nothing() {
    let folder = folder();
    let store = Store::open(folder.path()).unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, b"").unwrap();
    assert!(store.back_up(&file.join("copy")).is_err());
    assert!(store.back_up(&file).is_err());
    assert!(file.exists());
}
