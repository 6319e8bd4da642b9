//! The program between other implementations of what it speaks: tunnels, servers and routers, of packets and
//! of groups, started in namespaces of the test and ended by process. `make peers` runs them, `scripts/setup
//! peers` installs the peers; a test whose peer is not installed says so and passes.

mod address_translation;
mod advertisements;
mod dhcp;
mod dissectors;
#[path = "../support/guest_system.rs"]
mod guest_system;
mod guests;
mod inspection;
mod kernel;
mod layer_seven;
mod multicast;
mod open_vswitch;
mod resolution;
mod routing;
#[allow(dead_code, reason = "others use more of it")]
#[path = "../support/mod.rs"]
mod support;
mod virtual_machines;
mod web_servers;
#[path = "../support/whole_packets.rs"]
mod whole_packets;

use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use testbed::{Background, Line, Namespace, TestbedError};

/// For one command, and for what is waited for. Below that of [`testbed::isolated`].
const LIMIT: Duration = Duration::from_secs(40);

/// `superfluid run` in the middle of a line.
struct Product {
    program: Option<Background>,
    /// Has the file that it runs, where it is the product's own.
    _folder: Option<tempfile::TempDir>,
}

impl Product {
    fn start(line: &Line, text: &str) -> Product {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("peers.yaml");
        fs::write(&file, text).expect("written");
        Product { _folder: Some(folder), ..Product::of(line, &file, &[]) }
    }

    /// With a file of the test's, and more arguments.
    fn of(line: &Line, file: &Path, arguments: &[&OsStr]) -> Product {
        let mut command = line.middle.command(env!("CARGO_BIN_EXE_superfluid"));
        command.args(["run", "--json"]).args(arguments);
        let program = Background::start(command.arg(file)).expect("it starts");
        Product { program: Some(program), _folder: None }
    }

    /// Waits until something is so.
    fn until(&mut self, what: &str, mut is_so: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            if let Some(ended) = self.program.take_if(|program| !program.is_running()) {
                panic!("{what}: the program has ended: {}", ended.finish().1);
            }
            assert!(begin.elapsed() < LIMIT, "{what}: not in time");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until a command of a host succeeds.
    fn until_done(&mut self, host: &Namespace, words: &str) {
        self.until(words, || host.run(words, LIMIT).is_ok());
    }

    /// Ends it; its account, which balances.
    fn end(self) -> Value {
        let program = self.program.expect("it runs");
        let shown = program.interrupt(LIMIT).unwrap_or_else(|error| panic!("{error}")).stdout;
        let mut events = shown.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let account = events.rfind(|event| event["event"] == "final").expect("an account");
        assert_eq!(account["balanced"], true, "{account}");
        account
    }
}

/// Starts a peer; says so and gives none when it is not installed.
fn peer(command: &mut Command, package: &str) -> Option<Background> {
    match Background::start(command) {
        Ok(running) => Some(running),
        Err(TestbedError::Missing { program, .. }) => {
            eprintln!("skipped: there is no {program} (Debian: {package})");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Whether a host has a program; says so when not.
fn is_installed(host: &Namespace, program: &str, package: &str) -> bool {
    peer(host.command(program).arg("--version"), package).is_some()
}

/// What a command of a host prints.
fn shown(host: &Namespace, words: &str) -> String {
    host.run(words, LIMIT).unwrap_or_else(|error| panic!("{error}")).stdout
}

/// Sets a value of `/proc/sys/net` of a host.
fn set(host: &Namespace, key: &str, value: &str) {
    let path = format!("/proc/sys/net/{key}");
    host.enter(|| fs::write(&path, value).unwrap_or_else(|error| panic!("{path}: {error}")));
}
