//! Frames to measure with: 64 bytes each, all different, brought into warm buffers as a port would.

use engine::classify;
use guest_wasm::watchdog;
use packet_memory::{Packet, Pool};

/// Packets that differ, at the least.
pub(crate) const DISTINCT: usize = 131_072;
/// Bytes of a frame.
pub(crate) const FRAME: usize = 64;
/// TCP's number in IP's header.
const TCP: u8 = 6;
/// Packets in a batch.
pub(crate) const BATCH: usize = 32;

/// One frame.
pub(crate) type Frame = [u8; FRAME];

/// A small generator of numbers (splitmix64), so that every run has the same packets.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    /// Those of a seed from its `n`th on.
    #[inline]
    pub(crate) fn at(seed: u64, n: u64) -> Numbers {
        Numbers(seed.wrapping_add(n.wrapping_mul(Numbers::STEP)))
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Numbers::STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for n in (1..items.len()).rev() {
            items.swap(n, self.below(n as u64 + 1) as usize);
        }
    }
}

/// A flow of IPv4 packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) source: u32,
    pub(crate) destination: u32,
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) protocol: u8,
}

impl Flow {
    pub(crate) fn reverse(self) -> Flow {
        Flow {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            protocol: self.protocol,
        }
    }

    /// A frame of this flow; `flags` are TCP's.
    #[inline]
    pub(crate) fn frame(self, flags: u8, serial: u32) -> Frame {
        let mut frame = [0; FRAME];
        frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[14..24].copy_from_slice(&[0x45, 0, 0, 50, 0, 0, 0x40, 0, 64, self.protocol]);
        frame[18..20].copy_from_slice(&(serial as u16).to_be_bytes());
        frame[26..30].copy_from_slice(&self.source.to_be_bytes());
        frame[30..34].copy_from_slice(&self.destination.to_be_bytes());
        let checksum = !ones_complement(&frame[14..34]);
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
        frame[34..36].copy_from_slice(&self.source_port.to_be_bytes());
        frame[36..38].copy_from_slice(&self.destination_port.to_be_bytes());
        if self.protocol == TCP {
            frame[38..42].copy_from_slice(&serial.to_be_bytes());
            frame[42..46].copy_from_slice(&1u32.to_be_bytes());
            frame[46..50].copy_from_slice(&[0x50, flags, 0xff, 0xff]);
        } else {
            frame[38..40].copy_from_slice(&30u16.to_be_bytes());
        }
        frame
    }
}

#[inline]
fn ones_complement(bytes: &[u8]) -> u16 {
    let sum: u32 = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// The head of a packet that has as many bytes as `size` says.
pub(crate) fn lengthened(mut frame: Frame, size: usize) -> Frame {
    let ip = size.saturating_sub(14) as u16;
    frame[16..18].copy_from_slice(&ip.to_be_bytes());
    frame[24..26].copy_from_slice(&[0, 0]);
    let checksum = !ones_complement(&frame[14..34]);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    if frame[23] != TCP {
        frame[38..40].copy_from_slice(&ip.saturating_sub(20).to_be_bytes());
    }
    frame
}

/// Writes frames into packets and classifies them, as a port and the engine do; the metadata is what the
/// engine gives. What this costs is not measured.
pub(crate) fn fill(
    pool: &Pool,
    packets: &mut [Packet],
    frames: &[impl AsRef<[u8]>],
    ingress: impl Fn(usize) -> u16,
) {
    // Functions go by what packets are stamped with.
    let now = watchdog::clock().now();
    for (n, (packet, frame)) in packets.iter_mut().zip(frames).enumerate() {
        let written = pool.write(packet, frame.as_ref());
        debug_assert!(written.is_ok(), "a frame fits into a buffer");
        packet.edit(|record| (record.ingress, record.verdict, record.timestamp) = (ingress(n), 0, now.0));
    }
    classify(pool, packets, true);
}
