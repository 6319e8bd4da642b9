//! No space: commits fail and say so, reads go on, and commits succeed once there is space.
//!
//! Twice: with files that may not grow beyond a limit, which works everywhere, and with a file system of 2
//! MiB, which needs the right to make a namespace. Both run in processes of their own ([`in_a_child`]).

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use store::{Change, CommitError, Store};

const SIGXFSZ: i32 = 25;

#[test]
#[ignore = "run by the other tests, in processes of their own"]
fn in_a_child() {
    let Some(folder) = std::env::var_os("STORE_TEST_FOLDER") else { return };
    let folder = Path::new(&folder);
    match std::env::var("STORE_TEST_ROLE").as_deref() {
        Ok("limit") => {
            // Otherwise the process is killed by what should be an error.
            signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).unwrap();
            let before = getrlimit(Resource::Fsize);
            let allow = |bytes: Option<u64>| {
                setrlimit(Resource::Fsize, Rlimit { current: bytes.or(before.current), ..before }).unwrap();
            };
            fill(folder, || allow(Some(600_000)), || allow(None), false);
        }
        Ok("small") => {
            let ballast = folder.join("ballast");
            let store = folder.join("store");
            fill(
                &store,
                || std::fs::write(&ballast, vec![1; 700_000]).unwrap(),
                || std::fs::remove_file(&ballast).unwrap(),
                true,
            );
        }
        role => panic!("no such role: {role:?}"),
    }
    println!("\nall is well");
}

fn object(at: usize) -> Change {
    Change::put("function", format!("f{at}"), vec![at as u8; 20_000])
}

/// Writes until there is no space, makes space, writes on.
fn fill(folder: &Path, take_space: impl Fn(), give_space: impl Fn(), really_full: bool) {
    let store = Store::open(folder).unwrap();
    let first = store.commit(&[object(0)]).unwrap();
    store.wait_durable(first).unwrap();
    take_space();
    let mut held = 1;
    let check = |store: &Store, held: usize| {
        let page = store.list("function", "", 1_000);
        assert_eq!(page.objects.len(), held);
        for at in 0..held {
            let found = store.read("function", &format!("f{at}")).unwrap();
            assert!(found.value.iter().all(|&byte| byte == at as u8));
        }
    };
    // A log that was carried over makes room for further commits, whenever that ends: it is full for good
    // when many commits in a row fail.
    let mut refused = 0;
    while refused < 20 {
        let revision = store.revision();
        match store.commit(&[object(held), object(held + 1)]) {
            Ok(_) => (held, refused) = (held + 2, 0),
            Err(error) => {
                match &error {
                    CommitError::DiskFull(_) => {}
                    CommitError::Write(_) if !really_full => {}
                    error => panic!("{error}"),
                }
                refused += 1;
                assert_eq!(store.revision(), revision);
                if matches!(error, CommitError::DiskFull(_)) {
                    assert!(store.standing().disk.is_some_and(|told| told.contains("the disk is full")));
                }
            }
        }
        check(&store, held);
        assert!(held < 500, "it is never full");
    }
    let revision = store.revision();
    give_space();
    let after = store.commit(&[Change::put("function", "f0", vec![0; 30_000])]).unwrap();
    assert!(after > revision);
    if really_full {
        assert_eq!(store.standing().disk, None);
    }
    store.wait_durable(after).unwrap();
    check(&store, held);
    drop(store);
    let store = Store::open(folder).unwrap();
    check(&store, held);
    assert_eq!(store.read("function", "f0").unwrap().value.len(), 30_000);
}

fn check(output: &Output) {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("all is well"), "{out}\n{err}");
}

#[test]
fn files_that_may_not_grow() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "in_a_child", "--ignored", "--nocapture"])
        .env("STORE_TEST_ROLE", "limit")
        .env("STORE_TEST_FOLDER", folder.path())
        .output()
        .unwrap();
    check(&output);
}

#[test]
fn a_small_file_system() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c"])
        .arg("mount -t tmpfs -o size=2m tmpfs \"$STORE_TEST_FOLDER\" || exit 77; exec \"$0\" --exact in_a_child --ignored --nocapture")
        .arg(std::env::current_exe().unwrap())
        .env("STORE_TEST_ROLE", "small")
        .env("STORE_TEST_FOLDER", folder.path())
        .output();
    match output {
        Ok(output)
            if output.status.code() != Some(77)
                && !String::from_utf8_lossy(&output.stderr).starts_with("unshare:") =>
        {
            check(&output);
        }
        Ok(output) => {
            eprintln!("not run, no namespace here: {}", String::from_utf8_lossy(&output.stderr).trim())
        }
        Err(error) => eprintln!("not run, no unshare here: {error}"),
    }
}
