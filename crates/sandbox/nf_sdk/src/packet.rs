//! One packet of a batch: its bytes, what the host says about it, and what becomes of it.
// UNSAFETY: packet bytes lie outside anything Rust allocated, in a window that the host maps; forming a slice
// over them is the one thing that every function needs and none should write itself.
#![allow(unsafe_code)]

use crate::slots::Slot;
use crate::window::Window;
use crate::{Nanos, PacketRecord, Verdict, offload};
use nf_abi::OTHER_VERSION;

/// A packet, for as long as the batch is being processed.
///
/// A value of this type is the only path to its record and its bytes: [`crate::Batch`] hands out each record
/// once at a time, and the record's own extent is changed by the checked methods here alone.
pub struct Packet<'a> {
    record: &'a mut PacketRecord,
    window: Window,
}

impl<'a> Packet<'a> {
    #[inline(always)]
    pub(crate) fn new(record: &'a mut PacketRecord, window: Window) -> Packet<'a> {
        Packet { record, window }
    }

    /// The packet, from its first byte (of the Ethernet header) to its last.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the host wrote an extent that lies in the packet's buffer, which is mapped and this call's
        // alone (natively: the runner's caller promised it); `adjust_head` and `trim` only keep it inside.
        // The record, and with it the packet, is borrowed for as long as the slice lives.
        unsafe {
            core::slice::from_raw_parts(self.window.first_byte(self.record), self.record.length as usize)
        }
    }

    /// The packet for writing. Only an image that declares `access: write` may use the slice: the window of
    /// any other is read-only, and a store into it ends the function.
    #[inline(always)]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; `self` is borrowed mutably, and no two packets of a batch share a buffer.
        unsafe {
            core::slice::from_raw_parts_mut(self.window.first_byte(self.record), self.record.length as usize)
        }
    }

    /// The first `N` bytes, when there are as many: one check for a whole header.
    #[inline(always)]
    pub fn header<const N: usize>(&self) -> Option<&[u8; N]> {
        self.bytes().first_chunk()
    }

    /// Length in bytes.
    #[allow(clippy::len_without_is_empty)]
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.record.length as usize
    }

    /// Decides what happens to the packet; the last call counts.
    #[inline(always)]
    pub fn verdict(&mut self, verdict: Verdict) {
        self.record.verdict = verdict.encode();
    }

    /// The same for a packet whose IP header was replaced by one of the other version, as NAT64 does: what is
    /// still to be segmented then is by that version. Segments of TCP that become longer by their header get
    /// 20 bytes less of payload.
    #[inline]
    pub fn verdict_in_other_version(&mut self, verdict: Verdict) {
        let is_whole = self.record.gso_type & !offload::GSO_ECN != offload::GSO_NONE;
        self.record.verdict = verdict.encode() | if is_whole { OTHER_VERSION } else { 0 };
    }

    /// Stores a verdict that was encoded before.
    #[inline(always)]
    pub fn verdict_encoded(&mut self, wire: u32) {
        self.record.verdict = wire;
    }

    /// Keeps the packet beyond this call, in a slot from [`crate::Host::slot`]. [`crate::Host::emit`] lets it
    /// go; the host does so itself after the longest hold time.
    #[inline]
    pub fn hold(&mut self, slot: &Slot) {
        self.record.verdict = Verdict::Hold(slot.number()).encode();
    }

    /// Moves the first byte: takes `delta` bytes off the front, or with a negative `delta` adds room there,
    /// whose contents are whatever was in the buffer. False, and nothing changed, when the packet is shorter
    /// than that or the buffer has no such room in front.
    #[inline]
    pub fn adjust_head(&mut self, delta: i32) -> bool {
        let offset = i64::from(self.record.offset) + i64::from(delta);
        let length = i64::from(self.record.length) - i64::from(delta);
        let (Ok(offset), Ok(length)) = (u32::try_from(offset), u32::try_from(length)) else { return false };
        self.record.offset = offset;
        self.record.length = length;
        true
    }

    /// Shortens the packet to `length` bytes; false when it is shorter already.
    #[inline]
    pub fn trim(&mut self, length: usize) -> bool {
        if length > self.len() {
            return false;
        }
        self.record.length = length as u32;
        true
    }

    /// The instance's interface that the packet came in by.
    #[inline(always)]
    pub fn ingress(&self) -> u16 {
        self.record.ingress
    }

    /// The tenant's own mark.
    #[inline(always)]
    pub fn mark(&self) -> u64 {
        self.record.mark
    }

    /// Sets the tenant's own mark; it travels with the packet.
    #[inline(always)]
    pub fn set_mark(&mut self, mark: u64) {
        self.record.mark = mark;
    }

    /// Outermost VLAN tag control information (IEEE 802.1Q), 0 when untagged. The tag is in the bytes too.
    #[inline(always)]
    pub fn vlan(&self) -> u16 {
        self.record.vlan
    }

    /// Hash over addresses, protocol and ports, equal for both directions; 0 when not computed. It is
    /// computed for functions whose manifest says `flow_hash: true`.
    #[inline(always)]
    pub fn flow_hash(&self) -> u32 {
        self.record.flow_hash
    }

    /// Time of reception.
    #[inline(always)]
    pub fn timestamp(&self) -> Nanos {
        Nanos(self.record.timestamp)
    }

    /// Bytes that the packet had on the wire: more than [`Packet::len`] where a capture has only a part of
    /// it.
    #[inline(always)]
    pub fn original_len(&self) -> usize {
        self.len() + usize::from(self.record.snapped())
    }

    /// Kind of tunnel that it came through ([`crate::tunnel`]) and the tunnel's key.
    #[inline(always)]
    pub fn tunnel(&self) -> (u8, u32) {
        (self.record.tunnel_type, self.record.tunnel_key)
    }

    /// By which port of its device it came, counted from 1; 0: by none.
    #[inline(always)]
    pub fn device_port(&self) -> u8 {
        self.record.device_port
    }

    /// Everything the host says about the packet.
    #[inline(always)]
    pub fn record(&self) -> &PacketRecord {
        self.record
    }
}
