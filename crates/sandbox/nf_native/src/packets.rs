// UNSAFETY: packets are shown to the function where they lie, in memory that the engine has as well, and are
// written there. Which buffers the process has it knows from the rings; Miri knows no memory that processes
// share, and the tests of this crate run all of it between an engine's ports.
#![allow(unsafe_code)]
//! The packets of a batch, in the pool: what the function sees of them, and what it has made of them.

use crate::ports::Ports;
use guest::to_other_version;
use manifest::{Access, Manifest};
use nf_abi::WINDOW_BASE;
use nf_sdk::native::Runner;
use nf_sdk::{Nanos, NetworkFunction, PacketRecord, Verdict};
use superfluid_native::Packet;

/// Where packets lie, and what may be done with them.
#[derive(Debug)]
pub(crate) struct Pool {
    window: *mut u8,
    buffer_size: u32,
    /// Whether the function may change extents.
    writes: bool,
}

impl Pool {
    /// That of these ports, which live as long as it is used.
    pub fn of(ports: &Ports, manifest: &Manifest) -> Pool {
        Pool {
            window: ports.window(),
            buffer_size: ports.buffer_size(),
            writes: manifest.access == Access::Write,
        }
    }

    /// What the function is told of a packet.
    pub fn record(&self, packet: &Packet, ingress: usize, now: Nanos) -> PacketRecord {
        PacketRecord {
            offset: packet.offset,
            length: packet.length,
            buffer: WINDOW_BASE.wrapping_add(packet.buffer.wrapping_mul(self.buffer_size)),
            mark: packet.mark,
            timestamp: now.0,
            flow_hash: packet.flow_hash,
            vlan: self.vlan(packet),
            ingress: ingress as u16,
            hop_budget: 1,
            offload_flags: packet.flags,
            gso_type: packet.gso_type,
            gso_size: packet.gso_size,
            csum_start: packet.csum_start,
            csum_offset: packet.csum_offset,
            ..PacketRecord::default()
        }
    }

    /// Tag control information of the outermost VLAN tag (IEEE 802.1Q, 802.1ad); 0 without one.
    fn vlan(&self, packet: &Packet) -> u16 {
        if packet.length < 16 {
            return 0;
        }
        let at = packet.buffer as usize * self.buffer_size as usize + packet.offset as usize + 12;
        // SAFETY: the engine has given the process this packet, whose bytes lie in the pool, which is mapped
        // as long as the ports are there; four of them are read, at any alignment.
        let tag = unsafe { self.window.add(at).cast::<[u8; 4]>().read_unaligned() };
        match tag {
            [0x81, 0x00, high, low] | [0x88, 0xa8, high, low] => u16::from_be_bytes([high, low]),
            _ => 0,
        }
    }

    /// Shows packets to the function, and notes which of them it holds.
    pub fn show<F: NetworkFunction>(&self, runner: &mut Runner<F>, records: &mut [PacketRecord], now: Nanos) {
        // SAFETY: the records are those of packets that the engine has given the process, each once, so that
        // no two lie in one buffer and all in the pool, which is mapped for writing if the function writes.
        // They are the process's alone but for functions of its tenant that write to what they have passed
        // on, as in the sandbox. A held packet stays the process's until it is given up or taken back.
        unsafe {
            runner.process(self.window, records, now);
            for record in records {
                if let Some(Verdict::Hold(_)) = Verdict::decode(Verdict::split(record.verdict).0) {
                    runner.hold(self.window, record);
                }
            }
        }
    }

    /// What the function has made of a packet: its new extent, mark and segments, and its verdict; `None` is
    /// one that it may not give.
    pub fn take_over(&self, packet: &mut Packet, record: &PacketRecord) -> Option<Verdict> {
        let (wire, is_other) = Verdict::split(record.verdict);
        if !self.set_extent(packet, (record.offset, record.length)) {
            return None;
        }
        packet.mark = record.mark;
        if is_other {
            let mut segments = *record;
            if !self.writes || !to_other_version(&mut segments) {
                return None;
            }
            (packet.gso_type, packet.gso_size) = (segments.gso_type, segments.gso_size);
        }
        Verdict::decode(wire)
    }

    /// Gives a packet another extent, if it may have it.
    pub fn set_extent(&self, packet: &mut Packet, (offset, length): (u32, u32)) -> bool {
        if (offset, length) == (packet.offset, packet.length) {
            return true;
        }
        let fits = offset.checked_add(length).is_some_and(|end| end <= self.buffer_size);
        if fits && self.writes {
            (packet.offset, packet.length) = (offset, length);
        }
        fits && self.writes
    }

    /// Makes a packet of an empty buffer; false when the bytes do not fit.
    pub fn fill(&self, packet: &mut Packet, bytes: &[u8]) -> bool {
        if bytes.len() > packet.length as usize {
            return false;
        }
        packet.length = bytes.len() as u32;
        let at = packet.buffer as usize * self.buffer_size as usize + packet.offset as usize;
        // SAFETY: the engine has given the process this empty buffer, with room for as many bytes, in a pool
        // that is mapped for writing: of any other it gives none. No packet lies there.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.window.add(at), bytes.len()) };
        true
    }
}
