//! Tests of the store within one process; those that end processes and fill disks are in `tests/`.

mod back_up;
mod commits;
mod damage;
mod durable;
mod follow;
mod model;

use std::collections::BTreeMap;
use std::path::Path;

use crate::{Change, PAGE_MAX, Revision, Store};

/// A folder for a store, in memory if the system has such a place: these tests open stores by the hundred.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary folder")
}

fn put(name: &str, value: &[u8]) -> Change {
    Change::put("function", name, value)
}

type Contents = BTreeMap<(String, String), (Revision, Vec<u8>)>;

/// Everything in a store.
fn contents(store: &Store) -> Contents {
    let mut all = Contents::new();
    for (kind, count) in store.kinds() {
        let page = store.list(&kind, "", PAGE_MAX);
        assert_eq!(page.objects.len(), count);
        assert_eq!(page.next, None);
        for object in page.objects {
            let key = (object.kind.to_string(), object.name.to_string());
            all.insert(key, (object.version, object.value.to_vec()));
        }
    }
    assert_eq!(store.standing().objects, all.len() as u64);
    all
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}
