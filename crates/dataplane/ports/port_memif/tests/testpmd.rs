//! The port and DPDK's testpmd, in both roles: what is sent comes back, with its addresses swapped.

use packet_memory::{PageKind, Pool, PoolConfig};
use port::{Port, PortEvent, PortStatus};
use port_memif::{MemifPort, Peers, Role, Settings};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use telemetry::clock::Nanos;

const NOW: Nanos = Nanos(1_700_000_000_000_000_000);
/// Met by a hang alone.
const LONG: Duration = Duration::from_secs(60);
/// Packets that have to come back.
const ENOUGH: u64 = 20_000;

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

fn start(program: &str, role: &str, queues: u32, folder: &std::path::Path) -> Running {
    let socket = folder.join("memif.sock");
    let device = format!(
        "--vdev=net_memif0,role={role},id=4,secret=open,bsize=2048,rsize=9,socket={},socket-abstract=no",
        socket.display()
    );
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

fn passes(role: Role, theirs: &str, queues: u32, write: bool) {
    let Some(program) = testpmd() else {
        eprintln!("skipped: DPDK's testpmd is not on the path (apt-get install dpdk-dev)");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let config = PoolConfig {
        buffers: 2048,
        pages: Some(PageKind::Ordinary),
        buffer_size: packet_memory::BufferSize::new(16_384).expect("allowed"),
        ..PoolConfig::default()
    };
    let pool = Arc::new(Pool::new("test", config).expect("a pool"));
    let path = folder.path().join("memif.sock");
    let mut settings = Settings::new(role, path.to_str().expect("text"));
    (settings.id, settings.secret, settings.queues) = (4, Some("open".into()), queues);
    (settings.ring, settings.write) = (256, write);
    let mut port = MemifPort::open_over(settings, &pool, &Peers::default()).expect("opened");
    // It is killed in the middle of its packets, and another one comes.
    for life in 0..2 {
        let mut running = start(program, theirs, queues, folder.path());
        let (mut back, mut out, mut jumbo) = (0, Vec::new(), 0);
        let mut by_flow = [0; 32];
        let begun = Instant::now();
        while back < ENOUGH || jumbo == 0 || by_flow.contains(&0) {
            assert!(
                begun.elapsed() < LONG && running.0.try_wait().expect("it is ours").is_none(),
                "{role:?}, life {life}: {back} came back, {jumbo} of them long: {:?}, {:?}",
                port.status(),
                port.counters().ledger
            );
            if let Some(PortEvent::CameUp(how)) = port.maintain(NOW).first() {
                assert!(how.contains(&format!("rings: {queues} to it, {queues} from it")), "{how}");
            }
            if port.status() != PortStatus::Up {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            let mut packets = Vec::new();
            pool.allocate_batch(32, &mut packets);
            for (n, packet) in packets.iter_mut().enumerate() {
                let length = if n == 7 { 5_000 } else { 60 + n };
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
                assert_eq!(bytes.len(), if n == 7 { 5_000 } else { 60 + usize::from(n) });
                (back, jumbo) = (back + 1, jumbo + u64::from(n == 7));
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
        let begun = Instant::now();
        while pool.available() != 2048 {
            assert!(begun.elapsed() < LONG, "{} buffers are back", pool.available());
            std::thread::sleep(Duration::from_millis(1));
        }
        // A master that was killed leaves its socket, which DPDK does not replace.
        if role == Role::Slave {
            let _ = std::fs::remove_file(&path);
        }
    }
}

#[test]
fn testpmd_as_slave_sends_back_what_it_gets() {
    passes(Role::Master, "client", 1, false);
}

#[test]
fn testpmd_as_master_sends_back_what_it_gets() {
    passes(Role::Slave, "server", 1, false);
}

#[test]
fn testpmd_as_master_that_may_write_sends_back_what_it_gets_and_is_killed() {
    passes(Role::Slave, "server", 1, true);
    passes(Role::Slave, "server", 2, true);
}

#[test]
fn testpmd_as_slave_has_several_queues() {
    passes(Role::Master, "client", 2, false);
}

#[test]
fn testpmd_as_master_has_several_queues() {
    passes(Role::Slave, "server", 2, false);
}

#[test]
fn testpmd_as_master_with_fewer_queues_says_that_it_refuses() {
    let Some(program) = testpmd() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("memif.sock");
    let mut settings = Settings::new(Role::Slave, path.to_str().expect("text"));
    (settings.id, settings.secret, settings.queues) = (4, Some("open".into()), 3);
    let mut port = MemifPort::open(settings).expect("opened");
    let _running = start(program, "server", 2, folder.path());
    let begun = Instant::now();
    while !format!("{:?}", port.status()).contains("the peer has disconnected: Invalid ring index") {
        assert!(begun.elapsed() < LONG, "{:?}", port.status());
        port.maintain(NOW);
        std::thread::sleep(Duration::from_millis(1));
    }
}
