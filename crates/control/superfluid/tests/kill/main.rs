//! The daemon killed at any moment, hundreds of times, and what is wrong on its disk. What was acknowledged
//! is there afterwards and runs, what was not is there as a whole or not at all, and nothing else is left.
//!
//! Runs in namespaces of its own, as root or in a user namespace.

mod disk;
mod images;
mod model;
#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "other tests need more of it")]
mod support;
mod wiring;

use model::{Model, Random, Step};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use support::daemon::Options;
use support::http::Socket;

/// Kills, unless time runs out.
const KILLS: u32 = 400;
/// For how long it is killed. Namespaces are given 50 s in all.
const TIME: Duration = Duration::from_secs(35);
/// What even a slow machine has to come to.
const LEAST: u32 = 25;
/// The tap's interface.
const TAP: &str = "sfkill";

/// A daemon whose cache is not in its folder, of which every file is known.
fn options(folder: &Path) -> Options {
    Options::new(folder).shared_cache()
}

#[test]
fn killed_at_any_moment_it_loses_nothing_and_leaves_nothing() {
    testbed::isolated("killed_at_any_moment_it_loses_nothing_and_leaves_nothing", || {
        let folder = tempfile::tempdir().expect("a folder");
        let _told = Log(folder.path());
        let options = options(folder.path());
        let mut random = Random::new(0x5eed);
        let mut model = Model::new(folder.path());
        let mut survived: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
        let daemon = options.start();
        model.begin(&mut daemon.connect());
        let mut daemon = Some(daemon);
        let (began, mut kills) = (Instant::now(), 0);
        while kills < KILLS && began.elapsed() < TIME {
            let running = match daemon.take() {
                Some(running) => running,
                None => options.start(),
            };
            let mut socket = running.connect();
            if let Some((step, after)) = model.check(&mut socket) {
                let count = survived.entry(step.name()).or_default();
                *(if after { &mut count.1 } else { &mut count.0 }) += 1;
            }
            whole(folder.path(), &mut socket, &model);
            // From the first microsecond of a step to the middle of many later ones.
            let pause =
                Duration::from_micros(1 << random.below(15)) + Duration::from_micros(random.below(200));
            std::thread::scope(|scope| {
                let client = scope.spawn(|| work(&mut model, &mut random, socket));
                std::thread::sleep(pause);
                running.kill();
                client.join().expect("a client that is told when the daemon goes");
            });
            kills += 1;
            gone(folder.path());
            if kills % 7 == 0 {
                // In the middle of its start as well.
                let starting = options.spawn();
                std::thread::sleep(Duration::from_micros(random.below(60_000)));
                starting.kill();
                kills += 1;
                gone(folder.path());
            }
        }
        println!("{kills} kills in {:?}; in flight: (not done, done) {survived:?}", began.elapsed());
        assert!(kills >= LEAST, "{kills}");
        let (before, after) = survived.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        assert!(before > 0, "no kill was in the middle of a step");
        // A step is done for a short time only before it is answered.
        assert!(after > 0 || kills < 200, "no kill was between what is done and its answer");
        let last = options.start();
        model.check(&mut last.connect());
        let printed = last.end();
        assert!(printed.contains("the account balances"), "{printed}");
        gone(folder.path());
    });
}

/// What the last daemon said, told when the test fails.
struct Log<'a>(&'a Path);

impl Drop for Log<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the daemon said: {}", std::fs::read_to_string(self.0.join("log")).unwrap_or_default());
        }
    }
}

/// One step after the other, until the daemon is gone.
fn work(model: &mut Model, random: &mut Random, mut socket: Socket) {
    loop {
        let step = Step::any(random, model);
        if !model.take(&step, &mut socket) {
            return;
        }
    }
}

/// Everything is there that should be, and works.
fn whole(folder: &Path, socket: &mut Socket, model: &Model) {
    let account = socket.get("/v1/account");
    assert_eq!(account["balanced"], true, "{account}");
    assert!(socket.text("/metrics").starts_with(b"# HELP"));
    let health = socket.get("/v1/health");
    assert_eq!(health["healthy"], true, "{health}");
    let taps = interfaces().iter().filter(|name| *name == TAP).count();
    assert_eq!(taps, usize::from(model.has_tap()), "its own interface, if it has one");
    assert_eq!(
        files(&folder.join("state/snapshots")).iter().filter(|name| name.ends_with(".part")).count(),
        0
    );
    images::kept(&folder.join("state"));
    let store = files(&folder.join("state/store"));
    let known = ["durable", "lock", "store.db", "store.db-shm", "store.db-wal"];
    assert!(store.iter().all(|name| known.contains(&name.as_str())), "{store:?}");
}

/// Nothing is left of a daemon that is gone but what it is to find again.
fn gone(folder: &Path) {
    let began = Instant::now();
    // The kernel takes interfaces away a moment after the process.
    while interfaces().iter().any(|name| name == TAP) {
        assert!(began.elapsed() < Duration::from_secs(60), "an interface is left");
        std::thread::sleep(Duration::from_millis(1));
    }
    // A folder in which the socket was being made is replaced at the next start.
    let known = ["log", "s.sock", "s.sock.lock", "s.sock.new", "state", images::FILE];
    let left = files(folder);
    assert!(left.iter().all(|name| known.contains(&name.as_str())), "{left:?}");
    // A key that was being written when the daemon was killed is replaced at the next start.
    let known = [
        "audit.jsonl",
        "container-images",
        "events",
        "images",
        "snapshot-keys.json",
        "snapshot-keys.part",
        "snapshots",
        "store",
    ];
    let left = files(&folder.join("state"));
    assert!(left.iter().all(|name| known.contains(&name.as_str())), "{left:?}");
}

/// Interfaces of this network namespace.
fn interfaces() -> Vec<String> {
    let table = std::fs::read_to_string("/proc/net/dev").expect("a network namespace");
    table.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect()
}

fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Names of what a listing lists.
fn names(listing: &Value) -> Vec<String> {
    let items = listing["items"].as_array().expect("a list");
    items.iter().map(|item| item["name"].as_str().expect("a name").to_owned()).collect()
}
