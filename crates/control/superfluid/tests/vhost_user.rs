//! vhost-user ports of a daemon: DPDK's testpmd with two devices of virtio_user, at servers and at clients,
//! killed and started again; and a front end that holds its port's thread up. Needs no privileges.

#[allow(dead_code, reason = "other tests need more of it")]
mod support;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{OFlags, fcntl_setfl};
use serde_json::{Value, json};
use std::fs::{read_dir, read_to_string};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
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

/// The daemon's threads of a name.
fn threads(daemon: &Daemon, name: &str) -> Vec<PathBuf> {
    let all = read_dir(format!("/proc/{}/task", daemon.id())).expect("it runs");
    let all = all.filter_map(|entry| Some(entry.ok()?.path()));
    all.filter(|thread| read_to_string(thread.join("comm")).is_ok_and(|it| it.trim() == name)).collect()
}

/// Whether a thread waits within `write`.
fn is_writing(thread: &Path) -> bool {
    let number = if cfg!(target_arch = "x86_64") { "1 " } else { "64 " };
    read_to_string(thread.join("syscall")).is_ok_and(|call| call.starts_with(number))
}

/// A front end's `SET_VRING_CALL` of ring 0.
fn set_call(connection: &OwnedFd, call: &OwnedFd) {
    let header = [13_u32, 1, 8].into_iter().flat_map(u32::to_ne_bytes);
    let message: Vec<u8> = header.chain(0_u64.to_ne_bytes()).collect();
    // It is not read where the thread is held up.
    let _ = local_socket::send(connection, &message, &[call.as_fd()]);
}

/// Ends a thread, however the test ends.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// How often a front end has its eventfd written to before it looks whether that waits.
const ATTEMPTS: usize = 6;

/// A front end that has filled its eventfd makes it blocking again and again: in the end between the two
/// calls by which the port's thread makes it non-blocking and writes to it.
#[test]
fn a_port_whose_thread_a_front_end_holds_up_is_deleted_while_packets_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("a.sock");
    let daemon = Options::new(folder.path()).shared_cache().limit(Duration::from_secs(60)).start();
    daemon.put("/v1/ports/source", json!({"type": "generator", "rate": "20kpps"}));
    daemon.put("/v1/ports/end", json!({"type": "sink"}));
    daemon.put("/v1/functions/fw", json!({"image": "forwarder"}));
    daemon.put("/v1/chains/other", json!(["source", "fw", "end"]));
    let hostile = json!({"type": "vhost-user", "role": "server", "socket": socket});
    daemon.put("/v1/ports/hostile", hostile.clone());
    // It gives itself its name.
    daemon.wait("it has a thread", || !threads(&daemon, "vhost-user").is_empty());
    let thread = &threads(&daemon, "vhost-user")[0];

    let call = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    rustix::io::write(&call, &(u64::MAX - 1).to_ne_bytes()).expect("it is empty");
    let connection = OwnedFd::from(UnixStream::connect(&socket).expect("it listens"));
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _with_this = Ends(&ends);
        scope.spawn(|| {
            while !ends.load(Relaxed) {
                fcntl_setfl(&call, OFlags::empty()).expect("an eventfd");
            }
        });
        daemon.wait("the thread is held up", || {
            // No more than are read in a second.
            (0..ATTEMPTS).for_each(|_| set_call(&connection, &call));
            std::thread::sleep(Duration::from_millis(2));
            // By nothing that will be over soon.
            (0..10).all(|_| {
                let writes = is_writing(thread);
                std::thread::sleep(Duration::from_millis(u64::from(writes)));
                writes
            })
        });
    });

    let answer = std::thread::scope(|scope| {
        let deleting = scope.spawn(|| daemon.ask("DELETE", "/v1/ports/hostile", None));
        daemon.wait("a thread of its own waits for it", || !threads(&daemon, "ports-end").is_empty());
        let before = delivered(&daemon);
        daemon.wait("packets go on", || delivered(&daemon) > before + 1_000);
        deleting.join().expect("it is answered")
    });
    assert!(matches!(answer.0, 200..=204), "{answer:?}");
    assert_eq!(daemon.ask("GET", "/v1/ports/hostile", None).0, 404);
    assert!(is_writing(thread), "it is held up still");
    daemon.wait("it is left behind", || threads(&daemon, "ports-end").is_empty());
    assert!(is_writing(thread), "it is held up still");

    rustix::io::read(&call, &mut [0_u8; 8]).expect("it is full");
    daemon.wait("it ends", || threads(&daemon, "vhost-user").is_empty());
    daemon.put("/v1/ports/hostile", hostile);
    daemon.wait("the next one listens", || UnixStream::connect(&socket).is_ok());
    assert!(daemon.end().contains("the account balances"));
}
