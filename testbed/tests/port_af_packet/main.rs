//! The AF_PACKET port on veth pairs, with the kernel's own traffic: what its tests share.

mod frames;
mod life;
mod traffic;

use kernel_interface::Owner;
use nf_abi::offload;
use packet_memory::{BufferSize, Packet, PageKind, Pool, PoolConfig};
use port::{Port, PortEvent, PortStatus};
use port_af_packet::{AfPacketPort, OpenError, Settings};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};
use telemetry::DropReason;
use telemetry::clock::{Clock, Nanos};
use testbed::{CLIENT, Iperf, Line, Relay, RunningRelay, SERVER, audit, echo, isolated, pattern};

const SECOND: Duration = Duration::from_secs(1);

fn pool(buffers: u32, buffer_size: BufferSize) -> Pool {
    let config = PoolConfig { buffers, buffer_size, headroom: 128, pages: Some(PageKind::Ordinary) };
    Pool::new("testbed", config).expect("a small pool")
}

fn large() -> Pool {
    pool(512, BufferSize::LARGEST)
}

fn small() -> Pool {
    pool(512, BufferSize::DEFAULT)
}

fn start(pool: Pool) -> RunningRelay {
    start_with(pool, |_| {})
}

fn start_with(pool: Pool, change: impl Fn(&mut Settings)) -> RunningRelay {
    let [lan, wan] = ["sf-lan", "sf-wan"].map(|name| {
        let mut settings = Settings::new(name);
        change(&mut settings);
        settings
    });
    Relay::open(pool, lan, wan).expect("both interfaces are there").start()
}

/// Receives until there are `wanted` packets; fails after a second.
fn receive(port: &mut AfPacketPort, pool: &Pool, wanted: usize) -> Vec<Packet> {
    let (clock, begin, mut packets) = (Clock::calibrate(), Instant::now(), Vec::new());
    while packets.len() < wanted {
        assert!(begin.elapsed() < SECOND * 20, "{} of {wanted} packets came", packets.len());
        port.receive(pool, clock.now(), 64, &mut packets);
        thread::sleep(Duration::from_micros(200));
    }
    packets
}

fn wait_for(mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < SECOND * 20, "it did not come to pass");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The kernel takes its time, a second at most, to tell of a carrier that has returned.
fn wait_until_up(port: &mut AfPacketPort) {
    events_until_up(port);
}

/// What is told until it is up.
fn events_until_up(port: &mut AfPacketPort) -> Vec<PortEvent> {
    let mut events = Vec::new();
    wait_for(|| {
        events.extend(port.maintain(Nanos(0)));
        port.status() == PortStatus::Up
    });
    events
}

fn send(
    port: &mut AfPacketPort,
    pool: &Pool,
    frames: &[Vec<u8>],
    change: impl Fn(&mut nf_abi::PacketRecord),
) {
    let mut packets = Vec::new();
    for frame in frames {
        let mut packet = pool.allocate().expect("a buffer");
        pool.write(&mut packet, frame).expect("it fits");
        packet.edit(&change);
        packets.push(packet);
    }
    port.transmit(pool, Nanos(0), &mut packets);
    assert!(packets.is_empty());
}

/// A broadcast frame of the local experimental type (IEEE 802, 0x88b5).
fn frame(length: usize) -> Vec<u8> {
    let mut frame = pattern(length);
    frame[..6].fill(0xff);
    frame[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 0x88, 0xb5]);
    frame
}
