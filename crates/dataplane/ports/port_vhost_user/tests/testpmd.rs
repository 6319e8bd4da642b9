//! The port and DPDK's testpmd with a device of virtio_user, as client and as server: what is sent comes
//! back, with its addresses swapped.

use packet_memory::{PageKind, Pool, PoolConfig};
use port::{Port, PortStatus};
use port_vhost_user::{Role, Settings, VhostUserPort};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use telemetry::clock::Nanos;

const NOW: Nanos = Nanos(1_700_000_000_000_000_000);
/// Met by a hang alone.
const LONG: Duration = Duration::from_secs(60);
/// Packets that have to come back.
const ENOUGH: u64 = 20_000;
const BUFFERS: u32 = 2048;

/// A process of this test, ended with it.
struct Running(Child);

impl Running {
    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// What testpmd is called here, if it is there.
fn testpmd() -> Option<&'static str> {
    let is_there = |name: &&str| {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&paths).any(|folder| folder.join(name).is_file())
    };
    ["dpdk-testpmd", "testpmd"].into_iter().find(is_there)
}

fn start(program: &str, options: &str, queues: u32, folder: &std::path::Path) -> Running {
    let socket = folder.join("vhost.sock");
    let device = format!("--vdev=net_virtio_user0,path={},queues={queues}{options}", socket.display());
    let queues = [format!("--rxq={queues}"), format!("--txq={queues}")];
    let child = Command::new(program)
        .args(["--lcores=0@0,1@1", "--no-huge", "-m", "256", "--no-pci", "--no-shconf", "--no-telemetry"])
        .args([&device, "--", "--forward-mode=macswap", "--auto-start", "--total-num-mbufs=8192"])
        .args(queues)
        .env("RUNTIME_DIRECTORY", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Running(child.expect("it was found"))
}

fn passes(role: Role, options: &str, queues: u32) {
    let Some(program) = testpmd() else {
        eprintln!("skipped: DPDK's testpmd is not on the path (apt-get install dpdk-dev)");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let config = PoolConfig { buffers: BUFFERS, pages: Some(PageKind::Ordinary), ..PoolConfig::default() };
    let pool = Pool::new("test", config).expect("a pool");
    let path = folder.path().join("vhost.sock");
    let settings = Settings { queues, ..Settings::new(role, path.to_str().expect("text")) };
    let mut port = VhostUserPort::open(settings).expect("opened");
    // It is killed in the middle of its packets, and another one comes.
    for life in 0..2 {
        let mut running = start(program, options, queues, folder.path());
        let (mut back, mut out) = (0, Vec::new());
        let mut by_flow = [0; 32];
        let begun = Instant::now();
        while back < ENOUGH || by_flow.contains(&0) {
            assert!(
                begun.elapsed() < LONG && running.0.try_wait().expect("it is ours").is_none(),
                "{role:?}, life {life}: {back} came back: {:?}, {:?}",
                port.status(),
                port.counters().ledger
            );
            port.maintain(NOW);
            if port.status() != PortStatus::Up {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            let mut packets = Vec::new();
            pool.allocate_batch(32, &mut packets);
            for (n, packet) in packets.iter_mut().enumerate() {
                let length = if n == 7 { 1_514 } else { 60 + n };
                let bytes =
                    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5][..], &vec![n as u8; length - 14]];
                pool.write(packet, &bytes.concat()).expect("room");
                // Flows that all queues have their part of.
                packet.edit(|record| record.flow_hash = (n as u32) << 27);
            }
            port.transmit(&pool, NOW, &mut packets);
            port.receive(&pool, NOW, 64, &mut out);
            for packet in out.drain(..) {
                let bytes = pool.to_vec(&packet);
                let n = bytes[14];
                assert_eq!(bytes[..14], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
                let strange = bytes[14..].iter().position(|byte| *byte != n);
                assert_eq!(strange, None, "packet {n} of {} bytes, {back} before it", bytes.len());
                assert_eq!(bytes.len(), if n == 7 { 1_514 } else { 60 + usize::from(n) });
                back += 1;
                by_flow[usize::from(n)] += 1;
                pool.free(packet);
            }
            // Both have one processor in the worst case.
            std::thread::yield_now();
        }
        running.end();
        let begun = Instant::now();
        while port.status() == PortStatus::Up {
            assert!(begun.elapsed() < LONG, "its end is noticed");
            port.maintain(NOW);
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(pool.available(), BUFFERS as usize);
        // A server that was killed leaves its socket, which DPDK does not replace.
        if role == Role::Client {
            let _ = std::fs::remove_file(&path);
        }
    }
}

#[test]
fn testpmd_as_client_sends_back_what_it_gets() {
    passes(Role::Server, "", 1);
}

#[test]
fn testpmd_as_server_sends_back_what_it_gets() {
    passes(Role::Client, ",server=1", 1);
}

#[test]
fn testpmd_without_merging_and_in_any_order_sends_back_what_it_gets() {
    passes(Role::Server, ",mrg_rxbuf=0,in_order=0", 1);
}

#[test]
fn testpmd_has_several_queues() {
    passes(Role::Server, "", 2);
}
