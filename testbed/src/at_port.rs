//! What tests do at a port by hand: its pool, packets in and out, and waiting for what the kernel takes its
//! time for.

use crate::pattern;
use packet_memory::{BufferSize, Packet, PageKind, Pool, PoolConfig};
use port::{Port, PortEvent, PortStatus};
use std::thread;
use std::time::{Duration, Instant};
use telemetry::clock::{Clock, Nanos};

/// A wait that is longer is a hang.
const LONGEST: Duration = Duration::from_secs(20);

/// A pool on ordinary pages.
///
/// # Panics
/// There is no memory for it.
pub fn pool(buffers: u32, buffer_size: BufferSize) -> Pool {
    let config = PoolConfig { buffers, buffer_size, headroom: 128, pages: Some(PageKind::Ordinary) };
    Pool::new("testbed", config).expect("a small pool")
}

/// Waits until something holds.
///
/// # Panics
/// It does not within 20 s.
pub fn wait_for(mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < LONGEST, "it did not come to pass");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Receives until there are `wanted` packets.
///
/// # Panics
/// They have not come within 20 s.
pub fn receive(port: &mut dyn Port, pool: &Pool, wanted: usize) -> Vec<Packet> {
    let (clock, begin, mut packets) = (Clock::calibrate(), Instant::now(), Vec::new());
    while packets.len() < wanted {
        assert!(begin.elapsed() < LONGEST, "{} of {wanted} packets came", packets.len());
        port.receive(pool, clock.now(), 64, &mut packets);
        thread::sleep(Duration::from_micros(200));
    }
    packets
}

/// Looks after a port until it is up; what happened meanwhile. The kernel takes its time, a second at most,
/// to tell of a carrier.
///
/// # Panics
/// It is not within 20 s.
pub fn events_until_up(port: &mut dyn Port) -> Vec<PortEvent> {
    let mut events = Vec::new();
    wait_for(|| {
        events.extend(port.maintain(Nanos(0)));
        port.status() == PortStatus::Up
    });
    events
}

/// A broadcast frame of the local experimental type (IEEE 802, 0x88b5).
pub fn broadcast_frame(length: usize) -> Vec<u8> {
    let mut frame = pattern(length);
    let header = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 9, 0x88, 0xb5];
    let count = length.min(header.len());
    frame[..count].copy_from_slice(&header[..count]);
    frame
}
