//! The compile cache: machine code is run only when it is what this compiler wrote, where no other user
//! could.

use crate::support::*;
use guest_wasm::{Access, CacheError, CompileCache, Sandbox};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A directory that goes with the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("guest-wasm-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("a temporary directory");
        Place(path)
    }

    fn cache(&self) -> CompileCache {
        CompileCache::open(&self.0.join("cache")).expect("a private directory")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn good(n: u32) -> Vec<u8> {
    wasm(&process(&format!("(i32.store (i32.const 1024) (i32.const 0x102)) (drop (i32.const {n}))")))
}

/// Takes the program through the cache and runs it; whether it had to be compiled.
fn compiled(cache: &CompileCache, wasm: &[u8]) -> bool {
    let mut compiled = false;
    let program = sandbox()
        .compile_cached(cache, wasm, facts(Access::Read), |sandbox: &Sandbox, wasm| {
            compiled = true;
            sandbox.precompile(wasm)
        })
        .expect("a program");
    Room::new().run(&program, 0).expect("it works");
    compiled
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> =
        fs::read_dir(directory).expect("it is there").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

#[test]
fn an_entry_is_used_again() {
    let place = Place::new("again");
    let cache = place.cache();
    assert!(compiled(&cache, &good(1)));
    assert!(!compiled(&cache, &good(1)));
    assert!(compiled(&cache, &good(2)), "another module");
    assert!(!compiled(&CompileCache::open(&place.0.join("cache")).expect("again"), &good(2)));
    let modes: Vec<u32> = entries(&place.0.join("cache"))
        .iter()
        .map(|path| fs::metadata(path).expect("an entry").permissions().mode() & 0o7777)
        .collect();
    assert_eq!(modes, [0o600, 0o600]);
}

#[test]
fn a_harmed_entry_is_compiled_anew() {
    let place = Place::new("harmed");
    let cache = place.cache();
    let wasm = good(1);
    assert!(compiled(&cache, &wasm));
    let path = entries(&place.0.join("cache")).remove(0);
    let bytes = fs::read(&path).expect("the entry");
    let mut harms: Vec<(String, Vec<u8>)> = Vec::new();
    let step = bytes.len() / 40;
    for at in [0, 1, 31, 32, 33, 64, bytes.len() - 1].into_iter().chain((0..bytes.len()).step_by(step)) {
        let mut harmed = bytes.clone();
        harmed[at] ^= 1 << (at % 8);
        harms.push((format!("bit flipped at {at}"), harmed));
    }
    for length in [0, 1, 31, 32, 33, bytes.len() / 2, bytes.len() - 1] {
        harms.push((format!("cut to {length}"), bytes[..length].to_vec()));
    }
    harms.push(("longer".to_owned(), [&bytes[..], b"x"].concat()));
    harms.push(("zeroes".to_owned(), vec![0; bytes.len()]));
    harms.push(("without its digest".to_owned(), bytes[32..].to_vec()));
    for (harm, harmed) in harms {
        fs::write(&path, harmed).expect("written");
        assert!(compiled(&cache, &wasm), "{harm}");
        assert_eq!(fs::read(&path).expect("the entry").len(), bytes.len(), "{harm}: repaired");
        assert!(!compiled(&cache, &wasm), "{harm}");
    }
}

#[test]
fn an_entry_is_good_under_its_own_name_alone() {
    let place = Place::new("names");
    let cache = place.cache();
    assert!(compiled(&cache, &good(1)));
    let first = entries(&place.0.join("cache")).remove(0);
    assert!(compiled(&cache, &good(2)));
    let second =
        entries(&place.0.join("cache")).into_iter().find(|path| *path != first).expect("two entries");
    fs::copy(&first, &second).expect("copied");
    assert!(compiled(&cache, &good(2)), "the code of another module");
}

#[test]
fn what_is_no_private_file_is_not_an_entry() {
    let place = Place::new("files");
    let cache = place.cache();
    let wasm = good(1);
    assert!(compiled(&cache, &wasm));
    let path = entries(&place.0.join("cache")).remove(0);
    let kept = place.0.join("kept");
    fs::copy(&path, &kept).expect("copied");

    fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).expect("ours");
    assert!(compiled(&cache, &wasm), "others may write it");
    assert!(!compiled(&cache, &wasm));

    fs::remove_file(&path).expect("ours");
    symlink(&kept, &path).expect("linked");
    assert!(compiled(&cache, &wasm), "a symbolic link");
    assert!(fs::symlink_metadata(&path).expect("the entry").is_file(), "replaced, not followed");
    assert!(!compiled(&cache, &wasm));

    fs::remove_file(&path).expect("ours");
    fs::create_dir(&path).expect("made");
    assert!(compiled(&cache, &wasm), "a directory");
    fs::remove_dir(&path).expect("ours");

    let made = std::process::Command::new("mkfifo").arg(&path).status().is_ok_and(|status| status.success());
    if made {
        let (cache, wasm) = (cache.clone(), wasm.clone());
        assert!(in_time(move || compiled(&cache, &wasm)), "a pipe without a writer");
    }

    if chown(&path, Some(1), None).is_ok() {
        assert!(compiled(&cache, &wasm), "another user's file");
    }
}

#[test]
fn a_directory_that_others_may_use_is_refused() {
    let place = Place::new("directories");
    let directory = place.0.join("cache");
    let refused =
        |directory: &Path| matches!(CompileCache::open(directory), Err(CacheError::NotPrivate { .. }));
    fs::create_dir(&directory).expect("made");
    for mode in [0o755, 0o701, 0o710, 0o777, 0o720] {
        fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).expect("ours");
        assert!(refused(&directory), "{mode:o}");
    }
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).expect("ours");
    assert!(!refused(&directory));
    let link = place.0.join("link");
    symlink(&directory, &link).expect("linked");
    assert!(refused(&link), "a symbolic link");
    let file = place.0.join("file");
    fs::write(&file, b"").expect("written");
    assert!(CompileCache::open(&file).is_err());
    if chown(&directory, Some(1), None).is_ok() {
        assert!(refused(&directory), "another user's");
    }
}

#[test]
fn writers_at_the_same_time_leave_whole_entries() {
    let place = Place::new("writers");
    let cache = place.cache();
    let count = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (cache, count) = (cache.clone(), count.clone());
            std::thread::spawn(move || {
                for round in 0..8 {
                    count.fetch_add(usize::from(compiled(&cache, &good(round))), Ordering::Relaxed);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no writer fails");
    }
    assert!((8..=32).contains(&count.load(Ordering::Relaxed)));
    for round in 0..8 {
        assert!(!compiled(&cache, &good(round)), "whole and usable");
    }
    assert_eq!(entries(&place.0.join("cache")).len(), 8, "no unfinished files");
}

#[test]
fn a_cache_that_cannot_be_written_is_passed_by() {
    let place = Place::new("gone");
    let cache = place.cache();
    fs::remove_dir_all(place.0.join("cache")).expect("ours");
    assert!(compiled(&cache, &good(1)));
    assert!(compiled(&cache, &good(1)));
}

/// Entries that nothing asks for leave when others come; the newest stays, however large it is.
#[test]
fn the_longest_unused_entries_leave_when_there_is_no_room() {
    let place = Place::new("bound");
    let cache = place.cache();
    let one = (0..3).map(|n| assert!(compiled(&cache, &good(n)))).count();
    let files = entries(&place.0.join("cache"));
    assert_eq!((one, files.len()), (3, 3));
    let size = fs::metadata(&files[0]).expect("it is there").len();
    // As if they had been used one after the other, long ago; the first again now.
    for (n, file) in files.iter().enumerate() {
        let then = std::time::SystemTime::now() - std::time::Duration::from_secs(1000 - n as u64);
        fs::File::open(file).and_then(|file| file.set_modified(then)).expect("set");
    }
    assert!(!compiled(&cache, &good(0)));
    let unfinished = place.0.join("cache/left.tmp");
    fs::write(&unfinished, b"half").expect("written");
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    fs::File::open(&unfinished).and_then(|file| file.set_modified(long_ago)).expect("set");
    let bounded = cache.with_max(2 * size + size / 2);
    assert!(compiled(&bounded, &good(3)));
    assert_eq!(entries(&place.0.join("cache")).len(), 2, "room for two");
    assert!(!compiled(&bounded, &good(0)) && !compiled(&bounded, &good(3)));
    let least = bounded.with_max(1);
    assert!(compiled(&least, &good(4)));
    assert_eq!(entries(&place.0.join("cache")).len(), 1);
    assert!(!compiled(&least, &good(4)));
}
