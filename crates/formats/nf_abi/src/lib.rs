//! What the host and a network function agree on: layouts, numbers and names, and nothing else.
//!
//! The same file is compiled into the engine and, through `nf_sdk`, into every function;
//! `include/superfluid.h` says the same in C. The contract in prose, with the order of calls, is
//! `docs/nf-abi.md`.
//!
//! 1. The host writes up to [`MAX_BATCH`] [`PacketRecord`]s at the address that the guest's `sf_batch`
//!    returned.
//! 2. It calls `sf_process(count, now)`. The guest reads packet bytes through the window and sets each
//!    record's verdict, offset, length and mark.
//! 3. The host reads each of these four fields once, clamps it, and carries the verdict out.
//!
//! Limits: all integers are little-endian; a record is 64 bytes; this crate has no code that can fail.
#![no_std]
#![forbid(unsafe_code)]

mod devices;

pub use devices::{DEVICE_ENTRY, DeviceEntry, MAX_ASKS, MAX_DEVICE_ENTRIES, NeighbourState};

/// The version of the contract. It is also part of the import module's name, [`IMPORT_MODULE`], so that a
/// function for another version does not link.
pub const ABI_VERSION: u32 = 1;

/// Name of the module that a function imports its host calls from.
pub const IMPORT_MODULE: &str = "superfluid_v1";

/// Guest address at which the packet window begins, in every image.
pub const WINDOW_BASE: u32 = 0x8000_0000;

/// How many functions may see a packet, from a port to a port, before it is dropped as a loop.
pub const HOP_BUDGET: u8 = 128;

/// Largest packet window, in bytes.
pub const WINDOW_MAX: u32 = 1 << 30;

/// Largest private memory of a guest, in bytes: what lies below the window.
pub const PRIVATE_MAX: u64 = WINDOW_BASE as u64;

/// Most packets in one call of `sf_process`.
pub const MAX_BATCH: usize = 64;

/// Most packets that one instance may hold or own at a time, whatever its quota: the size of its slot table.
pub const MAX_SLOTS: u32 = 1 << 16;

/// Bytes of [`stream::RANDOM`].
pub const RANDOM: usize = 32;

/// Longest event in bytes.
pub const MAX_EVENT: usize = 8 << 10;

/// Name of the WebAssembly custom section that carries an image's manifest.
pub const MANIFEST_SECTION: &str = "superfluid.manifest";

/// Prefix of the exports by which the rewriting pass makes every mutable global visible to snapshots.
pub const GLOBAL_EXPORT_PREFIX: &str = "sf_global_";

/// One packet as a function sees it, and as the engine keeps it: 64 bytes, one cache line.
///
/// The first group is read back from the guest; everything else is the host's word and changes in the guest's
/// copy have no effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct PacketRecord {
    /// Out: what is to happen to the packet, see [`Verdict`]. Zero when the call begins.
    pub verdict: u32,
    /// In and out: the packet's first byte, counted from the buffer's first byte.
    pub offset: u32,
    /// In and out: the packet's length in bytes.
    pub length: u32,
    /// In: guest address of the buffer's first byte, inside the window.
    pub buffer: u32,
    /// In and out: the tenant's own mark; cleared when a packet crosses to another tenant.
    pub mark: u64,
    /// In: time of reception in nanoseconds since the Unix epoch.
    pub timestamp: u64,
    /// In: hash over the addresses, protocol and ports, equal for both directions of a flow; 0 when not
    /// computed.
    pub flow_hash: u32,
    /// In: key of the tunnel that the packet came through (a VNI, say).
    pub tunnel_key: u32,
    /// In: service path identifier (upper 24 bits) and service index (lower 8 bits), RFC 8300 section 2.3.
    pub nsh_path: u32,
    /// In: the service ID that led the packet here, 0 when none did.
    pub service_id: u16,
    /// In: outermost VLAN tag control information (IEEE 802.1Q); the tag itself is in the packet's bytes. 0:
    /// untagged.
    pub vlan: u16,
    /// In: the instance's interface that the packet came in by.
    pub ingress: u16,
    /// In: class of the flow, chosen by the classifier.
    pub flow_class: u8,
    /// In: how many more functions may see this packet.
    pub hop_budget: u8,
    /// In: kind of tunnel, see [`tunnel`].
    pub tunnel_type: u8,
    /// In: checksum state, see [`offload`].
    pub offload_flags: u8,
    /// In: segmentation type as in virtio-net, see [`offload`].
    pub gso_type: u8,
    /// In: one more than the index, among its device's ports, of the port by which the packet came; 0: by no
    /// device's port.
    pub device_port: u8,
    /// In: payload bytes per segment when the packet is to be segmented. With `gso_type`
    /// [`offload::GSO_NONE`] the bytes that a capture left out at its end, see [`PacketRecord::snapped`].
    pub gso_size: u16,
    /// In: where checksumming starts, from the packet's first byte.
    pub csum_start: u16,
    /// In: where the checksum is stored, from `csum_start`.
    pub csum_offset: u16,
    /// Room for a later version; zero.
    pub reserved2: u16,
}

const _: () = assert!(core::mem::size_of::<PacketRecord>() == 64);

impl PacketRecord {
    /// Bytes that the packet had on the wire behind those that a capture kept of it, 65,535 for that many and
    /// more; 0 for a packet that is there as a whole.
    #[inline]
    pub const fn snapped(&self) -> u16 {
        if self.gso_type == offload::GSO_NONE { self.gso_size } else { 0 }
    }
}

/// Tunnel kinds in [`PacketRecord::tunnel_type`].
pub mod tunnel {
    /// The packet came through no tunnel.
    pub const NONE: u8 = 0;
    /// VXLAN, RFC 7348; the key is its network.
    pub const VXLAN: u8 = 1;
    /// Geneve, RFC 8926; the key is its network.
    pub const GENEVE: u8 = 2;
    /// GRE, RFC 2784; the key is that of RFC 2890, 0 without one.
    pub const GRE: u8 = 3;
    /// NVGRE, RFC 7637; the key is its virtual subnet.
    pub const NVGRE: u8 = 4;
    /// MPLS, RFC 3032; the key is the label.
    pub const MPLS: u8 = 5;
    /// IP in IP, RFC 2003; without a key.
    pub const IP_IN_IP: u8 = 6;
}

/// Values of the offload fields; the same as in virtio-net (Virtio 1.2, section 5.1.6).
pub mod offload {
    /// `offload_flags`: the checksum at `csum_start + csum_offset` is partial and is to be completed.
    pub const NEEDS_CHECKSUM: u8 = 1;
    /// `offload_flags`: the checksum was verified.
    pub const CHECKSUM_VALID: u8 = 2;
    /// `gso_type`: not segmented.
    pub const GSO_NONE: u8 = 0;
    /// `gso_type`: TCP over IPv4.
    pub const GSO_TCPV4: u8 = 1;
    /// `gso_type`: UDP fragmentation.
    pub const GSO_UDP: u8 = 3;
    /// `gso_type`: TCP over IPv6.
    pub const GSO_TCPV6: u8 = 4;
    /// `gso_type`: UDP segmentation.
    pub const GSO_UDP_L4: u8 = 5;
    /// `gso_type`, a bit beside the others: the TCP header has ECN.
    pub const GSO_ECN: u8 = 0x80;
}

/// A bit of a verdict's wire form in a record, beside any kind: the packet's IP header has become one of the
/// other version, and so do the segments that it is still to be cut into. For packets with a
/// [`PacketRecord::gso_type`] alone.
pub const OTHER_VERSION: u32 = 1 << 24;

/// What a function decides about a packet. On the wire: the kind in the low 8 bits, its argument in the 16
/// above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing was decided. The host drops the packet, reason `no-verdict`.
    None,
    /// Drop it. The argument is an index into the manifest's `drop_reasons`.
    Drop(u16),
    /// Send it out by this interface of the instance.
    Interface(u16),
    /// Send it to the endpoint that the service table names.
    Service(u16),
    /// Keep it in this slot of the instance's table until [`imports::PACKET_EMIT`] or the longest hold time.
    Hold(u16),
    /// The function is where the packet was going; counted as consumed, not as dropped.
    Consume,
}

impl Verdict {
    /// The wire form. `const`, so that a function's constant verdict costs one store.
    #[inline]
    pub const fn encode(self) -> u32 {
        match self {
            Verdict::None => 0,
            Verdict::Drop(reason) => 1 | ((reason as u32) << 8),
            Verdict::Interface(k) => 2 | ((k as u32) << 8),
            Verdict::Service(id) => 3 | ((id as u32) << 8),
            Verdict::Hold(slot) => 4 | ((slot as u32) << 8),
            Verdict::Consume => 5,
        }
    }

    /// A wire form without [`OTHER_VERSION`], and whether it had that.
    #[inline]
    pub const fn split(wire: u32) -> (u32, bool) {
        (wire & !OTHER_VERSION, wire & OTHER_VERSION != 0)
    }

    /// The interface that it sends packets to.
    #[inline]
    pub const fn interface(self) -> Option<u16> {
        match self {
            Verdict::Interface(k) => Some(k),
            _ => None,
        }
    }

    /// Reads the wire form. Anything that no function built by `encode` is `None` here, never a guess.
    #[inline]
    pub const fn decode(wire: u32) -> Option<Verdict> {
        if wire >> 24 != 0 {
            return None;
        }
        let argument = (wire >> 8) as u16;
        match (wire & 0xff, argument) {
            (0, 0) => Some(Verdict::None),
            (1, reason) => Some(Verdict::Drop(reason)),
            (2, k) => Some(Verdict::Interface(k)),
            (3, id) => Some(Verdict::Service(id)),
            (4, slot) => Some(Verdict::Hold(slot)),
            (5, 0) => Some(Verdict::Consume),
            _ => None,
        }
    }
}

/// Functions that a guest exports to the host.
pub mod exports {
    /// The guest's linear memory.
    pub const MEMORY: &str = "memory";
    /// `() -> i32`: address of [`crate::MAX_BATCH`] records in private memory, 64-byte aligned. Required.
    pub const BATCH: &str = "sf_batch";
    /// `() -> i32`: called once, before any packet; 0 when ready, else the function's own error number.
    /// Required.
    pub const INIT: &str = "sf_init";
    /// `(count: i32, now: i64)`: one batch; `now` in nanoseconds since the Unix epoch. Required.
    pub const PROCESS: &str = "sf_process";
    /// `(now: i64)`: the deadline set by [`crate::imports::TIMER_SET`] has passed. Optional.
    pub const TIMER: &str = "sf_timer";
    /// `(now: i64) -> i32`: the program stops, and what is still to go out is given now; 1 when there is more
    /// to give, 0 when there is not. Optional.
    pub const FINISH: &str = "sf_finish";
    /// `(now: i64)`: what [`crate::stream::DEVICES`] says has changed. Optional.
    pub const DEVICES: &str = "sf_devices";
    /// `(now: i64) -> i32`: a file of the configuration has changed, see [`crate::stream::CHANGE`]; one of
    /// [`crate::change`]. Optional.
    pub const CHANGE: &str = "sf_change";
    /// `(now: i64)`: write the JSON report to [`crate::stream::REPORT`]. Optional.
    pub const REPORT: &str = "sf_report";
    /// `() -> i32`: write entries to [`crate::stream::STATE`]; 0 when complete. Optional.
    pub const EXPORT_STATE: &str = "sf_export_state";
    /// `() -> i32`: read entries from [`crate::stream::STATE`]; 0 when taken over. Optional.
    pub const IMPORT_STATE: &str = "sf_import_state";
}

/// What [`exports::CHANGE`] answers.
pub mod change {
    /// The function is as it would be with the changed file.
    pub const TAKEN: i32 = 0;
    /// There is more to do: it is called again in another turn.
    pub const MORE: i32 = 1;
    /// The function is as it was: another instance is to take its place. So is any other answer.
    pub const REFUSED: i32 = 2;
    /// Longest line of [`stream::CHANGE`](crate::stream::CHANGE), in bytes.
    pub const MAX_LINE: usize = 4096;
}

/// Functions that the host offers. There are six; each takes only ranges inside private memory.
pub mod imports {
    /// `(stream: i32, offset: i32, address: i32, capacity: i32) -> i32`: copies bytes
    /// `[offset, offset + capacity)` of an input stream, as far as there are any; returns the stream's whole
    /// length or a negative [`crate::error`].
    pub const READ: &str = "read";
    /// `(stream: i32, address: i32, length: i32) -> i32`: appends to an output stream; 0 or a negative error.
    pub const WRITE: &str = "write";
    /// `(index: i32, amount: i64) -> i32`: adds to a counter named in the manifest; 0 or a negative error.
    pub const COUNTER_ADD: &str = "counter_add";
    /// `(slot: i32, address: i32, length: i32) -> i32`: a packet of the function's own, with these bytes, in
    /// an empty slot; returns the guest address of its first byte, or 0 when it was refused (quota, pool,
    /// slot or range).
    pub const PACKET_NEW: &str = "packet_new";
    /// `(slot: i32, verdict: i32, offset: i32, length: i32, mark: i64) -> i32`: gives up a held or own packet
    /// with a verdict; an `offset` of -1 leaves offset and length as they are. 0 or a negative error.
    pub const PACKET_EMIT: &str = "packet_emit";
    /// `(deadline: i64) -> i32`: the one next deadline, nanoseconds since the Unix epoch; 0 cancels it.
    /// Returns 0.
    pub const TIMER_SET: &str = "timer_set";
}

/// Streams of [`imports::READ`] and [`imports::WRITE`].
pub mod stream {
    /// Read: the checked configuration in CBOR (RFC 8949), a map by key.
    pub const CONFIG: u32 = 0;
    /// Read during `sf_import_state`, write during `sf_export_state`: entries of
    /// `u32 key length, u32 value length, key, value`.
    pub const STATE: u32 = 1;
    /// Write during `sf_report`: one JSON value.
    pub const REPORT: u32 = 2;
    /// Write: one event, a JSON object in UTF-8 of at most [`super::MAX_EVENT`] bytes.
    pub const EVENT: u32 = 3;
    /// Read: entries about the devices behind the interfaces, see [`super::DeviceEntry`]. They change between
    /// two calls alone, and [`super::exports::DEVICES`] is called then. Write: one entry,
    /// [`super::DeviceEntry::ask`].
    pub const DEVICES: u32 = 4;
    /// Read: of the slot whose number the offset is, the guest address of its packet's first byte and the
    /// packet's length, two `u32`; both 0 for an empty slot.
    pub const SLOTS: u32 = 5;
    /// Read in `sf_change`: what has changed about a file of the configuration that the manifest's
    /// `differences` names. The key in the first line, then each line that the file has no more, with `-` in
    /// front, and each that it has now, with `+`; all end with a line feed.
    pub const CHANGE: u32 = 6;
    /// Read: [`super::RANDOM`] bytes that the host drew from the system's random source for this start of the
    /// instance. They do not change as long as it lives, and no other instance has them.
    pub const RANDOM: u32 = 7;
    /// Write: one log line in UTF-8, severity error.
    pub const LOG_ERROR: u32 = 8;
    /// Write: one log line, severity warning.
    pub const LOG_WARNING: u32 = 9;
    /// Write: one log line, severity info.
    pub const LOG_INFO: u32 = 10;
    /// Write: one log line, severity debug.
    pub const LOG_DEBUG: u32 = 11;
}

/// What host calls answer when they refuse. Negative, so that a result of zero or more is a success.
pub mod error {
    /// The range is not wholly inside private memory, or its bytes are no entry that the stream takes.
    pub const RANGE: i32 = -1;
    /// No such stream, or not at this time.
    pub const STREAM: i32 = -2;
    /// No such counter.
    pub const COUNTER: i32 = -3;
    /// The slot is empty, taken or beyond the quota.
    pub const SLOT: i32 = -4;
    /// The verdict is none that may be given here.
    pub const VERDICT: i32 = -5;
    /// A bound on how much may be written, sent or logged was reached.
    pub const LIMIT: i32 = -6;
}

#[cfg(test)]
mod tests {
    use super::{OTHER_VERSION, Verdict};

    #[test]
    fn every_verdict_survives_the_wire() {
        for argument in [0u16, 1, 255, 256, u16::MAX] {
            for verdict in [
                Verdict::Drop(argument),
                Verdict::Interface(argument),
                Verdict::Service(argument),
                Verdict::Hold(argument),
                Verdict::Consume,
                Verdict::None,
            ] {
                let wire = verdict.encode();
                assert_eq!(Verdict::decode(wire), Some(verdict));
                assert_eq!(Verdict::decode(wire | OTHER_VERSION), None);
                assert_eq!(Verdict::split(wire | OTHER_VERSION), (wire, true));
                assert_eq!(Verdict::split(wire), (wire, false));
            }
        }
    }

    #[test]
    fn garbage_is_no_verdict() {
        for wire in [6, 0xff, 0x0100_0002, 0xffff_ffff, 0x0000_0100, 0x0000_0105] {
            assert_eq!(Verdict::decode(wire), None, "{wire:#x}");
        }
    }
}
