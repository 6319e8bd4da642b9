//! The AF_XDP port on veth pairs, with the kernel's own traffic: what its tests share.

mod life;
mod traffic;

use packet_memory::{BufferSize, Packet, Pool};
use port::{Port, PortEvent, PortStatus};
use port_af_xdp::{AfXdpPort, Settings};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use telemetry::clock::Nanos;
use testbed::{
    Line, Relay, RunningRelay, broadcast_frame as frame, events_until_up, pattern, receive, wait_for,
};

const SECOND: Duration = Duration::from_secs(1);

/// Runs `body` in namespaces of its own. AF_XDP is for the host's root alone: for any other user the test is
/// whether the port says so.
fn privileged(test: &str, body: impl FnOnce()) {
    testbed::isolated(test, || {
        let map = std::fs::read_to_string("/proc/self/uid_map").expect("a map of users");
        if map.split_whitespace().eq(["0", "0", "4294967295"]) {
            return body();
        }
        let _line = Line::new().expect("a line");
        let refused = AfXdpPort::open(Settings::new("sf-lan"), small()).err().expect("not for other users");
        assert!(refused.to_string().contains("not of a user namespace (it has them"), "{refused}");
    });
}

fn pool(buffers: u32, buffer_size: BufferSize) -> Arc<Pool> {
    Arc::new(testbed::pool(buffers, buffer_size))
}

fn small() -> Arc<Pool> {
    pool(2048, BufferSize::DEFAULT)
}

fn open(name: &str, pool: &Arc<Pool>) -> AfXdpPort {
    open_with(Settings::new(name), pool)
}

fn open_with(settings: Settings, pool: &Arc<Pool>) -> AfXdpPort {
    AfXdpPort::open(settings, Arc::clone(pool)).unwrap_or_else(|error| panic!("{error}"))
}

fn start(pool: &Arc<Pool>) -> RunningRelay {
    start_with(pool, |_| {})
}

fn start_with(pool: &Arc<Pool>, change: impl Fn(&mut Settings)) -> RunningRelay {
    let ports = ["sf-lan", "sf-wan"].map(|name| -> Box<dyn Port> {
        let mut settings = Settings::new(name);
        change(&mut settings);
        Box::new(open_with(settings, pool))
    });
    Relay::between(Arc::clone(pool), ports).start()
}

fn detail(details: &[(&'static str, u64)], name: &str) -> u64 {
    details.iter().find(|(known, _)| *known == name).map(|(_, count)| *count).expect("a detail of this name")
}

fn notices(events: &[PortEvent]) -> Vec<&str> {
    let mut words = Vec::new();
    for event in events {
        if let PortEvent::Notice(notice) = event {
            words.push(notice.as_str());
        }
    }
    words
}

/// No receiver has dropped a TCP segment for its checksum.
fn assert_checksums_were_right(line: &Line) {
    for host in [&line.client, &line.server] {
        let table = host.enter(|| std::fs::read_to_string("/proc/thread-self/net/snmp")).expect("statistics");
        let tcp: Vec<&str> = table.lines().filter(|row| row.starts_with("Tcp:")).collect();
        let column = tcp[0].split(' ').position(|name| name == "InCsumErrors").expect("the column");
        assert_eq!(tcp[1].split(' ').nth(column), Some("0"), "{table}");
    }
}

/// Events that change a port's state.
fn changes(events: &[PortEvent]) -> Vec<PortEvent> {
    events.iter().filter(|event| !matches!(event, PortEvent::Notice(_))).cloned().collect()
}

fn send(
    port: &mut AfXdpPort,
    pool: &Pool,
    frames: &[Vec<u8>],
    change: impl Fn(usize, &mut nf_abi::PacketRecord),
) {
    let mut packets = Vec::new();
    for (n, frame) in frames.iter().enumerate() {
        let mut packet = pool.allocate().expect("a buffer");
        pool.write(&mut packet, frame).expect("it fits");
        packet.edit(|record| change(n, record));
        packets.push(packet);
    }
    port.transmit(pool, Nanos(0), &mut packets);
    assert!(packets.is_empty());
}

/// Whether the kernel says that an XDP program hangs on the interface.
fn is_attached(line: &Line, name: &str) -> bool {
    let output = line.middle.run(&format!("ip link show {name}"), SECOND * 5).expect("it is there");
    output.stdout.contains("xdp")
}
