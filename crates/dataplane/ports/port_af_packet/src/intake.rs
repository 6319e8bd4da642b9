//! From a frame in the ring to a packet in the pool.

use crate::cutting::Cutting;
use crate::slot::{self, Frame, VlanTag};
use nf_abi::offload;
use packet_memory::{Packet, Pool};
use port::PortCounters;
use std::io;
use telemetry::DropReason;
use telemetry::clock::Nanos;
use virtio_net::VnetHeader;

/// Bytes of the two addresses at the beginning of an Ethernet frame; a VLAN tag stands behind them.
pub(crate) const ADDRESSES: usize = 12;

/// Bytes of an Ethernet header.
pub(crate) const HEADER: usize = 14;

/// Times of arrival further away than this from the worker's clock are replaced by that clock.
const PLAUSIBLE: Nanos = Nanos::from_millis(1_000);

/// Something about the frames that is told once, with what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// A frame of so many bytes is longer than what a buffer has room for.
    TooLong { length: u32, room: u32 },
    /// A frame's checksum is not computed, and the port does not carry that.
    ChecksumMissing,
    /// A frame was longer than a slot, and the socket's queue had no room for it.
    Crowded,
    /// The ring does not make sense.
    Malformed,
}

impl Trouble {
    pub fn explain(self, interface: &str) -> String {
        match self {
            Trouble::TooLong { length, room } => format!(
                "interface `{interface}`: a frame of {length} bytes is longer than the {room} that a buffer has room \
                 for; such frames are dropped. Larger buffers (`buffer_size: 64KiB`) take them; `ethtool -K \
                 {interface} gro off lro off` here, and `tso off gso off` where they are sent, avoids them"
            ),
            Trouble::ChecksumMissing => format!(
                "interface `{interface}`: frames arrive without checksum, which `offload: off` cannot carry; they are \
                 dropped. Set `offload: on`, or run `ethtool -K IF tx off` on the interface that sends them (of a \
                 veth pair, the other end)"
            ),
            Trouble::Crowded => format!(
                "interface `{interface}`: frames that are longer than a slot of the ring found their queue full and were lost \
                 in the kernel; a larger `ring` gives it room, as far as the process may (CAP_NET_ADMIN, or \
                 `sysctl -w net.core.rmem_max=`)"
            ),
            Trouble::Malformed => {
                format!("interface `{interface}`: the kernel's receive ring held what makes no sense")
            }
        }
    }
}

/// A frame that was read whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LongFrame {
    /// Its bytes.
    pub length: usize,
    /// Checksum and segmentation state, when the socket carries it.
    pub vnet: Option<VnetHeader>,
}

/// Where frames wait whole that are longer than a slot, in the order of their slots.
pub(crate) trait LongFrames {
    /// Reads the oldest into the packet, as far as that has a length. When it is to be tagged, it leaves room
    /// for a tag behind the addresses.
    fn take(&mut self, pool: &Pool, packet: &mut Packet, tagged: bool) -> io::Result<LongFrame>;

    /// Reads the oldest into plain memory, as far as that reaches; otherwise as [`LongFrames::take`].
    fn read(&mut self, into: &mut [u8], tagged: bool) -> io::Result<LongFrame>;

    /// Gives the oldest up.
    fn discard(&mut self) -> io::Result<()>;
}

/// What receiving keeps besides the ring; apart from it, so that a frame can borrow the ring meanwhile.
#[derive(Default)]
pub(crate) struct Intake {
    pub counters: PortCounters,
    pub troubles: Vec<Trouble>,
    spare: Vec<Packet>,
    pub(crate) cutting: Cutting,
}

/// Where frames go to.
pub(crate) struct Target<'a> {
    pub pool: &'a Pool,
    pub now: Nanos,
    pub out: &'a mut Vec<Packet>,
    /// Packets that `out` may come to hold.
    pub most: usize,
}

impl Intake {
    /// Takes buffers for so many frames, as far as there are any.
    #[inline]
    pub fn reserve(&mut self, pool: &Pool, frames: usize) {
        pool.allocate_batch(frames, &mut self.spare);
    }

    /// Gives back the buffers that found no frame.
    #[inline]
    pub fn give_back(&mut self, pool: &Pool) {
        if !self.spare.is_empty() {
            pool.free_batch(self.spare.drain(..));
        }
    }

    /// Takes the frame of a slot, into a buffer that was reserved; `vnet` says whether frames have virtio-net
    /// headers. False: there is more of it to come, and the slot is to be shown again.
    #[inline]
    pub fn take(
        &mut self,
        slot: &[u8],
        vnet: bool,
        queue: &mut dyn LongFrames,
        target: &mut Target<'_>,
    ) -> bool {
        if self.cutting.is_under_way() {
            return self.cutting.go_on(&mut self.counters, target);
        }
        let ledger = &mut self.counters.ledger;
        match slot::parse(slot, vnet) {
            Ok(frame) if frame.outgoing => {
                if frame.queued {
                    self.pass_over(queue);
                }
            }
            Ok(frame) if !frame.queued && frame.bytes.len() < frame.length as usize => {
                self.counters.kernel_lost += 1;
                self.tell(Trouble::Crowded);
            }
            Ok(frame) => {
                let tag = if frame.vlan.is_some() { VlanTag::LENGTH as u32 } else { 0 };
                let length = frame.length.saturating_add(tag);
                ledger.received += 1;
                self.counters.received_bytes += u64::from(length);
                // Of a frame in the queue only its own header says whether it is to be segmented.
                let segmented = |vnet: VnetHeader| frame.queued || vnet.gso_type != offload::GSO_NONE;
                if length > target.pool.room() && frame.vnet.is_some_and(segmented) {
                    return self.cut(&frame, length, queue, target);
                }
                let stored = match frame.queued {
                    false => self.store(&frame, length, target),
                    true => self.store_long(&frame, length, queue, target),
                };
                if let Err(reason) = stored {
                    self.counters.ledger.dropped[reason] += 1;
                }
            }
            Err(_) => {
                ledger.received += 1;
                ledger.dropped[DropReason::Malformed] += 1;
                self.tell(Trouble::Malformed);
            }
        }
        true
    }

    /// Begins to cut a frame that is longer than a buffer and still to be cut into segments.
    #[cold]
    fn cut(
        &mut self,
        frame: &Frame<'_>,
        length: u32,
        queue: &mut dyn LongFrames,
        target: &mut Target<'_>,
    ) -> bool {
        match self.cutting.begin(frame, length, queue, target) {
            Ok(()) => self.cutting.go_on(&mut self.counters, target),
            Err(reason) => {
                self.counters.ledger.dropped[reason] += 1;
                self.tell(match reason {
                    DropReason::TooLong => Trouble::TooLong { length, room: target.pool.room() },
                    _ => Trouble::Malformed,
                });
                true
            }
        }
    }

    #[inline]
    fn store(&mut self, frame: &Frame<'_>, length: u32, target: &mut Target<'_>) -> Result<(), DropReason> {
        let mut packet = self.buffer(frame, length, target)?;
        let stored = match frame.vlan {
            None => target.pool.write(&mut packet, frame.bytes).is_ok(),
            Some(tag) => write_tagged(target.pool, &mut packet, frame.bytes, tag),
        };
        if !stored {
            self.spare.push(packet);
            return Err(DropReason::TooLong);
        }
        hand_over(packet, frame, frame.vnet, target)
    }

    /// As `store`, for a frame that waits in the queue and has to leave it in any case.
    #[cold]
    fn store_long(
        &mut self,
        frame: &Frame<'_>,
        length: u32,
        queue: &mut dyn LongFrames,
        target: &mut Target<'_>,
    ) -> Result<(), DropReason> {
        let mut packet = match self.buffer(frame, length, target) {
            Ok(packet) => packet,
            Err(reason) => {
                self.pass_over(queue);
                return Err(reason);
            }
        };
        let tagged = frame.vlan.is_some();
        let read = match target.pool.set_length(&mut packet, length as usize) {
            Ok(()) => queue.take(target.pool, &mut packet, tagged).ok(),
            Err(_) => None,
        };
        let whole = read.filter(|long| long.length == frame.length as usize);
        let complete = match (whole, frame.vlan) {
            (Some(_), Some(tag)) => target.pool.patch(&mut packet, ADDRESSES, &tag.to_bytes()).is_ok(),
            (whole, _) => whole.is_some(),
        };
        let Some(long) = whole.filter(|_| complete) else {
            self.spare.push(packet);
            self.tell(Trouble::Malformed);
            return Err(DropReason::Malformed);
        };
        hand_over(packet, frame, long.vnet, target)
    }

    /// A buffer for a frame that can be taken.
    #[inline]
    fn buffer(&mut self, frame: &Frame<'_>, length: u32, target: &Target<'_>) -> Result<Packet, DropReason> {
        let room = target.pool.room();
        if length > room {
            self.tell(Trouble::TooLong { length, room });
            return Err(DropReason::TooLong);
        }
        if frame.checksum_missing && frame.vnet.is_none() {
            self.tell(Trouble::ChecksumMissing);
            return Err(DropReason::Malformed);
        }
        if frame.bytes.len() < HEADER {
            return Err(DropReason::Malformed);
        }
        self.spare.pop().ok_or(DropReason::NoBuffer)
    }

    fn pass_over(&mut self, queue: &mut dyn LongFrames) {
        if queue.discard().is_err() {
            self.tell(Trouble::Malformed);
        }
    }

    /// Tells a trouble once.
    fn tell(&mut self, trouble: Trouble) {
        let same = |told: &Trouble| std::mem::discriminant(told) == std::mem::discriminant(&trouble);
        if !self.troubles.iter().any(same) {
            self.troubles.push(trouble);
        }
    }
}

/// Notes what is known of a frame in its packet, and passes it on, if it can be as its sender says.
#[inline]
fn hand_over(
    mut packet: Packet,
    frame: &Frame<'_>,
    vnet: Option<VnetHeader>,
    target: &mut Target<'_>,
) -> Result<(), DropReason> {
    let shift = if frame.vlan.is_some() { VlanTag::LENGTH as u16 } else { 0 };
    packet.edit(|record| record.timestamp = arrival(frame.timestamp, target.now).0);
    if vnet.is_some_and(|vnet| !vnet.admit(target.pool, &mut packet, shift)) {
        target.pool.free(packet);
        return Err(DropReason::Malformed);
    }
    target.out.push(packet);
    Ok(())
}

/// Stores a frame with its tag between the addresses and the rest.
fn write_tagged(pool: &Pool, packet: &mut Packet, bytes: &[u8], tag: VlanTag) -> bool {
    let (addresses, rest) = bytes.split_at(ADDRESSES);
    pool.set_length(packet, bytes.len() + VlanTag::LENGTH).is_ok()
        && pool.patch(packet, 0, addresses).is_ok()
        && pool.patch(packet, ADDRESSES, &tag.to_bytes()).is_ok()
        && pool.patch(packet, ADDRESSES + VlanTag::LENGTH, rest).is_ok()
}

/// The kernel's time of arrival, unless its clock and the worker's, which does not follow steps, have come
/// apart. Never later than now.
pub(crate) fn arrival(kernel: Nanos, now: Nanos) -> Nanos {
    if now.since(kernel) > PLAUSIBLE || kernel.since(now) > PLAUSIBLE { now } else { kernel.min(now) }
}
