//! vhost-user ports of a daemon: DPDK's testpmd with two devices of virtio_user, at servers and at clients,
//! killed and started again. Needs no privileges.

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

/// testpmd with the guide's devices.
fn testpmd(options: &str, folder: &Path) -> Running {
    let device = |number: usize, name: &str| {
        format!("--vdev=net_virtio_user{number},path={}{options}", folder.join(name).display())
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

/// The guide's example of a program on DPDK, with its sockets in a folder.
fn guide(folder: &Path) -> String {
    let guide = std::fs::read_to_string(Path::new(ROOT).join("docs/vhost-user.md")).expect("the guide");
    let file =
        guide.split("```yaml\n").nth(3).and_then(|rest| rest.split("```").next()).expect("its example");
    file.replace("/run/superfluid/", &format!("{}/", folder.to_str().expect("text")))
}

#[test]
fn testpmd_stands_in_a_chain_and_may_be_killed() {
    if !has_testpmd() {
        return;
    }
    for (ours, options) in [("server", ""), ("client", ",server=1")] {
        let folder = tempfile::tempdir().expect("a folder");
        let daemon = Options::new(folder.path()).shared_cache().start();
        daemon.write("file.yaml", &guide(folder.path()).replace("role: server", &format!("role: {ours}")));
        daemon.done("apply -f file.yaml");
        let down = port(&daemon, "in");
        assert!(down.to_string().contains("no front end is connected at"), "{down}");
        for life in 0..2 {
            let before = delivered(&daemon);
            let running = testpmd(options, folder.path());
            daemon.wait("packets pass testpmd", || delivered(&daemon) > before + 2_000);
            drop(running);
            daemon.wait("it is noticed", || port(&daemon, "in").to_string().contains("no front end"));
            let account = daemon.get("/v1/account");
            assert_eq!(account["balanced"], true, "{ours}, life {life}: {account}");
            if ours == "client" {
                // DPDK does not replace a socket that was left behind.
                for name in ["in.sock", "out.sock"] {
                    std::fs::remove_file(folder.path().join(name)).expect("it was left");
                }
            }
        }
        assert!(daemon.end().contains("the account balances"));
    }
}
