//! memif ports of a daemon: DPDK's testpmd at a master and at a slave, killed and started again; and two
//! ports of one daemon with each other. Needs no privileges.

#[allow(dead_code, reason = "other tests need more of it")]
mod support;

use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use support::daemon::{Daemon, Options};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

/// A process of this test, ended with it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// testpmd with the guide's devices, in this role.
fn testpmd(role: &str, folder: &Path) -> Running {
    let device = |number: usize, name: &str| {
        let socket = folder.join(name);
        format!("--vdev=net_memif{number},role={role},socket={},socket-abstract=no", socket.display())
    };
    let [first, second] = [device(0, "in.sock"), device(1, "out.sock")];
    let child = Command::new("dpdk-testpmd")
        .args(["--lcores=0@0,1@1", "--no-huge", "-m", "256", "--no-pci", "--no-shconf", "--no-telemetry"])
        .args([&first, &second])
        .args(["--", "--forward-mode=macswap", "--auto-start", "--total-num-mbufs=8192"])
        .env("RUNTIME_DIRECTORY", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Running(child.expect("it was found"))
}

fn has_testpmd() -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&paths).any(|folder| folder.join("dpdk-testpmd").is_file());
    if !is_there {
        eprintln!("skipped: DPDK's testpmd is not on the path (apt-get install dpdk-dev)");
    }
    is_there
}

fn port(daemon: &Daemon, name: &str) -> Value {
    daemon.get(&format!("/v1/ports/{name}"))["status"].clone()
}

fn delivered(daemon: &Daemon) -> u64 {
    daemon.get("/v1/account")["ports"]["end"]["packets"]["delivered"].as_u64().unwrap_or(0)
}

/// The guide's first example, or the one without copies, with its sockets in a folder.
fn guide(folder: &Path, without_copies: bool) -> String {
    let guide = std::fs::read_to_string(Path::new(ROOT).join("docs/memif.md")).expect("the guide");
    let part = if without_copies { guide.split("## Without copies").nth(1) } else { Some(guide.as_str()) };
    let file =
        part.and_then(|part| part.split("```yaml\n").nth(1)?.split("```").next()).expect("its example");
    file.replace("/run/superfluid/", &format!("{}/", folder.to_str().expect("text")))
}

#[test]
fn testpmd_stands_in_a_chain_in_both_roles_and_may_be_killed() {
    if !has_testpmd() {
        return;
    }
    for (ours, theirs) in
        [("master", "client"), ("slave", "server"), ("slave that shares the pool", "server")]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let daemon = Options::new(folder.path()).shared_cache().start();
        let file = guide(folder.path(), ours.contains("pool"));
        daemon.write("file.yaml", &file.replace("role: master", &format!("role: {ours}")));
        daemon.done("apply -f file.yaml");
        let down = port(&daemon, "in");
        assert!(down.to_string().contains("no peer is connected at"), "{down}");
        for life in 0..2 {
            let before = delivered(&daemon);
            let running = testpmd(theirs, folder.path());
            daemon.wait("packets pass testpmd", || delivered(&daemon) > before + 2_000);
            drop(running);
            daemon.wait("it is noticed", || port(&daemon, "in").to_string().contains("no peer is connected"));
            let account = daemon.get("/v1/account");
            assert_eq!(account["balanced"], true, "{ours}, life {life}: {account}");
            if ours != "master" {
                // DPDK does not replace a socket that was left behind.
                for name in ["in.sock", "out.sock"] {
                    std::fs::remove_file(folder.path().join(name)).expect("it was left");
                }
            }
        }
        assert!(daemon.end().contains("the account balances"));
    }
}

#[test]
fn two_ports_of_one_daemon_are_joined_by_a_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().to_str().expect("text");
    let file = format!(
        "superfluid: 1
ports:
  source: {{type: generator, rate: 20kpps, sizes: [{{size: 60}}, {{size: 1514}}]}}
  out: {{type: memif, role: slave, socket: {place}/a.sock, buffer: 512}}
  in: {{type: memif, role: master, socket: {place}/a.sock}}
  end: {{type: sink, check: checksums}}
functions:
  before: {{image: forwarder}}
  behind: {{image: forwarder}}
chains:
  there: [source, before, out]
  here: [in, behind, end]
"
    );
    let daemon = Options::new(folder.path()).shared_cache().start();
    daemon.write("file.yaml", &file);
    daemon.done("apply -f file.yaml");
    daemon.wait("packets pass", || delivered(&daemon) > 2_000);
    let account = daemon.get("/v1/account");
    assert_eq!(account["balanced"], true, "{account}");
    // Another port in its place: both find each other again.
    daemon.write("file.yaml", &file.replacen("buffer: 512", "buffer: 1024", 1));
    daemon.done("apply -f file.yaml");
    let before = delivered(&daemon);
    daemon.wait("packets pass again", || delivered(&daemon) > before + 2_000);
    assert!(daemon.end().contains("the account balances"));
}
