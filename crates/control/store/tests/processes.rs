//! Processes that are killed while they write, and two that want the same store.
//!
//! The processes are this test itself: [`in_a_child`] is run by the tests alone.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use store::{Change, Revision, Store};

/// Objects of the kind `log`, which come and go.
const SLOTS: u64 = 50;

fn child(role: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "in_a_child", "--ignored", "--nocapture", "--quiet"])
        .env("STORE_TEST_ROLE", role)
        .env("STORE_TEST_FOLDER", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "run by the other tests, in processes of their own"]
fn in_a_child() {
    let Some(folder) = std::env::var_os("STORE_TEST_FOLDER") else { return };
    match std::env::var("STORE_TEST_ROLE").as_deref() {
        Ok("write") => write_for_ever(Path::new(&folder)),
        Ok("open") => {
            let answer = Store::open(Path::new(&folder)).map(drop).map_err(|error| error.to_string());
            println!("\nanswer {answer:?}");
        }
        role => panic!("no such role: {role:?}"),
    }
}

/// Commits batches and says so of each, until it is killed.
fn write_for_ever(folder: &Path) {
    let store = Store::open(folder).unwrap();
    let mut number = number_of(&store);
    let mut out = std::io::stdout().lock();
    writeln!(out).unwrap();
    loop {
        number += 1;
        let bytes = number.to_le_bytes();
        // Long ones now and then, so that batches take several pages.
        let long = vec![number as u8; if number.is_multiple_of(7) { 9_000 } else { 40 }];
        let revision = store
            .commit(&[
                Change::put("pair", "left", bytes),
                Change::put("log", format!("{}", number % SLOTS), [&bytes[..], &long].concat()),
                Change::delete("log", format!("{}", (number + SLOTS / 2) % SLOTS)),
                Change::put("pair", "right", bytes),
            ])
            .unwrap();
        writeln!(out, "committed {number} {revision}").unwrap();
        out.flush().unwrap();
    }
}

fn number_of(store: &Store) -> u64 {
    let number = |name| {
        store.read("pair", name).map_or(0, |object| u64::from_le_bytes((*object.value).try_into().unwrap()))
    };
    assert_eq!(number("left"), number("right"), "half a batch");
    number("left")
}

/// Lets a process write for so long after its start, or after its first commit; kills it, and compares what
/// it said with what is there.
fn kill_after(folder: &Path, first: bool, delay: Duration, last: &mut (u64, Revision)) {
    let mut child = child("write", folder);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let (tell, committed) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut acknowledged = Vec::new();
        let mut line = String::new();
        while out.read_line(&mut line).unwrap() > 0 {
            // A line without an end was cut off by the kill.
            if let Some(line) = line.strip_suffix('\n').and_then(|line| line.strip_prefix("committed ")) {
                let (number, revision) = line.split_once(' ').unwrap();
                acknowledged.push((number.parse::<u64>().unwrap(), Revision(revision.parse().unwrap())));
                // Not waited for in all rounds.
                let _ = tell.send(());
            }
            line.clear();
        }
        acknowledged
    });
    if first {
        committed.recv_timeout(Duration::from_secs(60)).expect("it commits");
    }
    std::thread::sleep(delay);
    child.kill().unwrap();
    child.wait().unwrap();
    let acknowledged = reader.join().unwrap();
    for &(number, revision) in &acknowledged {
        assert!(number == last.0 + 1 || acknowledged[0].0 == number, "{number} after {}", last.0);
        assert!(revision > last.1, "revision {revision} after {}", last.1);
        *last = (number, revision);
    }

    let store = Store::open(folder).unwrap();
    let number = number_of(&store);
    assert!(number == last.0 || number == last.0 + 1, "{} was acknowledged, {number} is there", last.0);
    if number == last.0 && number > 0 {
        assert_eq!(store.read("pair", "left").unwrap().version, last.1);
    }
    for slot in 0..SLOTS {
        // The last batches that put this one, and that deleted it.
        let latest = |what: u64| (number + SLOTS - what % SLOTS) % SLOTS;
        let (put, deleted) = (latest(slot), latest(slot + SLOTS / 2));
        let found = store.read("log", &slot.to_string()).map(|object| {
            assert!(object.value[8..].iter().all(|&byte| byte == object.value[0]));
            u64::from_le_bytes(object.value[..8].try_into().unwrap())
        });
        let expected = (put < deleted && number > put).then(|| number - put);
        assert_eq!(found, expected, "log {slot} at {number}");
    }
    // The one that was committed and not said any more is known now.
    let version = store.read("pair", "left").map_or(Revision(0), |object| object.version);
    *last = (number, version.max(last.1));
}

fn kill_often(folder: &Path, times: u32, most: Duration) {
    let mut last = (0, Revision(0));
    for round in 0..times {
        // Anything from before the store is open to long after.
        let delay = most * (round.wrapping_mul(2_654_435_761) >> 16 & 0xff) / 0xff;
        kill_after(folder, round % 2 == 1, delay, &mut last);
    }
}

#[test]
fn what_was_acknowledged_survives_kills() {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    kill_often(folder.path(), 300, Duration::from_millis(24));
}

#[test]
fn what_was_acknowledged_survives_kills_while_the_disk_is_written() {
    let folder = tempfile::tempdir().unwrap();
    kill_often(folder.path(), 40, Duration::from_millis(160));
}

#[test]
fn a_second_process_is_told_that_the_store_is_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let ask = || {
        let output = child("open", folder.path()).wait_with_output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let store = Store::open(folder.path()).unwrap();
    let answer = ask();
    assert!(answer.contains("answer Err(") && answer.contains("in use by another process"), "{answer}");
    drop(store);
    let answer = ask();
    assert!(answer.contains("answer Ok("), "{answer}");
}
