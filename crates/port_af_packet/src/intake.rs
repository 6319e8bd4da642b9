//! From a frame in the ring to a packet in the pool.

use crate::block::{Frame, Reader, VlanTag};
use clock::Nanos;
use packet_memory::{Packet, Pool};
use port::PortCounters;
use telemetry::DropReason;

/// Bytes of the two addresses at the beginning of an Ethernet frame; a VLAN tag stands behind them.
const ADDRESSES: usize = 12;

/// Bytes of an Ethernet header.
const HEADER: usize = 14;

/// Times of arrival further away than this from the worker's clock are replaced by that clock.
const PLAUSIBLE: Nanos = Nanos::from_millis(1_000);

/// Something about the frames that is told once, with what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// A frame of so many bytes is longer than what a buffer has room for.
    TooLong { length: u32, room: u32 },
    /// A frame's checksum is not computed, and the port does not carry that.
    ChecksumMissing,
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
            Trouble::Malformed => {
                format!(
                    "interface `{interface}`: the kernel's receive ring held headers that point out of it"
                )
            }
        }
    }
}

/// What receiving keeps besides the ring; apart from it, so that a frame can borrow the ring meanwhile.
#[derive(Default)]
pub(crate) struct Intake {
    pub counters: PortCounters,
    pub troubles: Vec<Trouble>,
    spare: Vec<Packet>,
}

/// Where frames go to.
pub(crate) struct Target<'a> {
    pub pool: &'a Pool,
    pub now: Nanos,
    pub out: &'a mut Vec<Packet>,
}

impl Intake {
    /// Takes up to `budget` frames of a block; returns how many were walked.
    #[inline]
    pub fn take_block(
        &mut self,
        block: &[u8],
        reader: &mut Reader,
        vnet: bool,
        budget: usize,
        target: &mut Target<'_>,
    ) -> usize {
        let wanted = budget.min(reader.remaining() as usize);
        target.pool.allocate_batch(wanted, &mut self.spare);
        for _ in 0..wanted {
            match reader.next(block, vnet) {
                Ok(Some(frame)) => self.take(&frame, target),
                Ok(None) => break,
                Err(_) => {
                    let lost = reader.abandon();
                    self.counters.ledger.received += u64::from(lost);
                    self.counters.ledger.dropped[DropReason::Malformed] += u64::from(lost);
                    self.tell(Trouble::Malformed);
                    break;
                }
            }
        }
        if !self.spare.is_empty() {
            target.pool.free_batch(self.spare.drain(..));
        }
        wanted
    }

    #[inline]
    fn take(&mut self, frame: &Frame<'_>, target: &mut Target<'_>) {
        if frame.outgoing {
            return;
        }
        let tag = if frame.vlan.is_some() { VlanTag::LENGTH as u32 } else { 0 };
        let length = frame.length.saturating_add(tag);
        self.counters.ledger.received += 1;
        self.counters.received_bytes += u64::from(length);
        if let Err(reason) = self.store(frame, length, target) {
            self.counters.ledger.dropped[reason] += 1;
        }
    }

    #[inline]
    fn store(&mut self, frame: &Frame<'_>, length: u32, target: &mut Target<'_>) -> Result<(), DropReason> {
        let room = target.pool.room();
        if length > room || frame.bytes.len() < frame.length as usize {
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
        let mut packet = self.spare.pop().ok_or(DropReason::NoBuffer)?;
        let stored = match frame.vlan {
            None => target.pool.write(&mut packet, frame.bytes).is_ok(),
            Some(tag) => write_tagged(target.pool, &mut packet, frame.bytes, tag),
        };
        if !stored {
            self.spare.push(packet);
            return Err(DropReason::TooLong);
        }
        let shift = if frame.vlan.is_some() { VlanTag::LENGTH as u16 } else { 0 };
        packet.edit(|record| {
            record.timestamp = arrival(frame.timestamp, target.now).0;
            if let Some(vnet) = &frame.vnet {
                vnet.note(record, shift);
            }
        });
        target.out.push(packet);
        Ok(())
    }

    /// Tells a trouble once.
    fn tell(&mut self, trouble: Trouble) {
        let same = |told: &Trouble| std::mem::discriminant(told) == std::mem::discriminant(&trouble);
        if !self.troubles.iter().any(same) {
            self.troubles.push(trouble);
        }
    }
}

/// Stores a frame with its tag between the addresses and the rest.
fn write_tagged(pool: &Pool, packet: &mut Packet, bytes: &[u8], tag: VlanTag) -> bool {
    let (addresses, rest) = bytes.split_at(ADDRESSES);
    pool.set_length(packet, bytes.len() + VlanTag::LENGTH).is_ok()
        && pool.patch(packet, 0, addresses).is_ok()
        && pool.patch(packet, ADDRESSES, &tag.to_bytes()).is_ok()
        && pool.patch(packet, ADDRESSES + VlanTag::LENGTH, rest).is_ok()
}

/// The kernel's time of arrival, unless its clock and the worker's, which does not follow steps, have come apart. Never
/// later than now.
fn arrival(kernel: Nanos, now: Nanos) -> Nanos {
    if now.since(kernel) > PLAUSIBLE || kernel.since(now) > PLAUSIBLE { now } else { kernel.min(now) }
}
