//! Native ports of a daemon: a program in C between two of them, killed and started again, and a port that
//! changes under it. Needs no privileges.

#[allow(dead_code, reason = "other tests need more of it")]
mod support;

#[path = "support/native_forwarder.rs"]
mod native_forwarder;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use support::commands::PROGRAM;
use support::daemon::{Daemon, Options};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

/// The guide's program.
fn forwarder(folder: &Path) -> PathBuf {
    let program = folder.join("forwarder");
    native_forwarder::compile(&program, &[]);
    program
}

/// The program, ended with this value.
struct Running(Child);

impl Running {
    fn start(program: &Path, folder: &Path) -> Running {
        let child = Command::new(program).args([folder.join("in.sock"), folder.join("out.sock")]).spawn();
        Running(child.expect("it was just made"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn port(daemon: &Daemon, name: &str) -> Value {
    daemon.get(&format!("/v1/ports/{name}"))["status"].clone()
}

fn delivered(daemon: &Daemon) -> u64 {
    daemon.get("/v1/account")["ports"]["end"]["packets"]["delivered"].as_u64().unwrap_or(0)
}

#[test]
fn a_program_in_c_stands_in_a_chain_may_be_killed_and_loses_nothing_of_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let guide = std::fs::read_to_string(Path::new(ROOT).join("docs/native.md")).expect("the guide");
    let file =
        guide.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("its example");
    let place = folder.path().to_str().expect("text");
    let file = file.replace("/run/superfluid/", &format!("{place}/"));
    let program = forwarder(folder.path());
    let daemon = Options::new(folder.path()).shared_cache().start();
    daemon.write("file.yaml", &file);
    daemon.done("apply -f file.yaml");
    let down = port(&daemon, "in");
    assert!(down.to_string().contains("no process is attached at"), "{down}");
    for life in 0..3 {
        let before = delivered(&daemon);
        let running = Running::start(&program, folder.path());
        daemon.wait("packets pass the process", || delivered(&daemon) > before + 2_000);
        drop(running);
        daemon
            .wait("it is noticed", || port(&daemon, "in").to_string().contains("no process is attached at"));
        let account = daemon.get("/v1/account");
        assert_eq!(account["balanced"], true, "life {life}: {account}");
    }
    // Another port in its place, at the same socket: it takes the socket over from the one that goes.
    daemon.write("file.yaml", &file.replacen("write: true", "write: true, ring: 64", 1));
    daemon.done("apply -f file.yaml");
    let before = delivered(&daemon);
    daemon.wait("the socket is the new port's", || {
        port(&daemon, "in").to_string().contains("no process is attached at")
    });
    let _running = Running::start(&program, folder.path());
    daemon.wait("packets pass the process again", || delivered(&daemon) > before + 2_000);
    assert_eq!(daemon.get("/v1/account")["balanced"], true);
    assert!(daemon.end().contains("the account balances"));
}

/// `nf_native`'s own tests run functions; the example's interfaces and keys are these.
#[test]
fn the_function_in_rust_of_the_guide_is_checked() {
    let guide = std::fs::read_to_string(Path::new(ROOT).join("docs/native.md")).expect("the guide");
    let file = guide.split("```yaml\n").nth(3).and_then(|rest| rest.split("```").next()).expect("its third");
    assert!(file.contains("/opt/nf/firewall"), "{file}");
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("file.yaml"), file).expect("written");
    let checked = Command::new(PROGRAM).arg("check").arg(folder.path().join("file.yaml")).output();
    let checked = checked.expect("it runs");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn a_program_that_stands_by_takes_over_as_the_guide_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let guide = std::fs::read_to_string(Path::new(ROOT).join("docs/native.md")).expect("the guide");
    let mut blocks = guide.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let file = blocks.find(|block| block.contains("standby: 1")).expect("its example");
    let file = file.replace("/run/superfluid/", &format!("{}/", folder.path().to_str().expect("text")));
    let program = forwarder(folder.path());
    let daemon = Options::new(folder.path()).shared_cache().start();
    daemon.write("file.yaml", &file);
    daemon.done("apply -f file.yaml");
    let mut first = Running::start(&program, folder.path());
    daemon.wait("packets pass the process", || delivered(&daemon) > 1_000);
    for life in 1..=3 {
        let second = Running::start(&program, folder.path());
        let counted = |name: &str, count: u64| {
            let account = daemon.get("/v1/account");
            ["in", "out"].iter().all(|port| account["ports"][port]["details"][name] == count)
        };
        daemon.wait("it stands by", || counted("processes_standby", 1));
        drop(std::mem::replace(&mut first, second));
        daemon.wait("it has taken over", || counted("takeovers", life));
        let before = delivered(&daemon);
        daemon.wait("packets pass it", || delivered(&daemon) > before + 1_000);
        assert_eq!(daemon.get("/v1/account")["balanced"], true);
    }
    assert!(daemon.end().contains("the account balances"));
}
