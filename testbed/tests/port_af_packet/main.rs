//! The AF_PACKET port on veth pairs, with the kernel's own traffic: what its tests share.

mod frames;
mod life;
mod traffic;

use kernel_interface::Owner;
use nf_abi::offload;
use packet_memory::{BufferSize, Packet, Pool};
use port::{Port, PortEvent, PortStatus};
use port_af_packet::{AfPacketPort, OpenError, Settings};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};
use telemetry::DropReason;
use telemetry::clock::Nanos;
use testbed::{
    CLIENT, Iperf, Line, Relay, RunningRelay, SERVER, audit, broadcast_frame as frame, echo, events_until_up,
    isolated, pattern, pool, receive, wait_for,
};

const SECOND: Duration = Duration::from_secs(1);

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
