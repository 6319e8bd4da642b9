//! A frame that is longer than a buffer, and that its sender left to be cut into segments: it is cut here.
//!
//! 1. [`Cutting::begin`] copies the frame out of the slot or the queue, once, into memory of its own.
//! 2. [`Cutting::go_on`] makes packets of it, as many as may come now; the slot stays the port's until there
//!    are no more, so that the socket stays readable.
//! 3. The account has the frame as received and each piece but the first as split.

use crate::intake::{ADDRESSES, LongFrames, Target, arrival};
use crate::slot::{Frame, VlanTag};
use port::PortCounters;
use telemetry::DropReason;
use telemetry::clock::Nanos;
use virtio_net::{Cut, VnetHeader};

/// No frame is longer, with its tag.
const LONGEST: usize = (64 << 10) + 64;

/// The frame that is being cut, if there is one.
#[derive(Default)]
pub(crate) struct Cutting {
    /// Made when the first frame has to be cut.
    bytes: Option<Box<[u8]>>,
    cut: Option<Cut>,
    timestamp: Nanos,
    /// Whether the frame itself, as its first piece, is still to come.
    first: bool,
}

impl Cutting {
    /// Whether there is more to come of a frame.
    #[inline]
    pub fn is_under_way(&self) -> bool {
        self.cut.is_some()
    }

    /// Takes over a frame of `length` bytes, its tag included; from the queue it is gone in any case.
    ///
    /// # Errors
    /// Why the frame is to be dropped.
    pub fn begin(
        &mut self,
        frame: &Frame<'_>,
        length: u32,
        queue: &mut dyn LongFrames,
        target: &Target<'_>,
    ) -> Result<(), DropReason> {
        let tagged = frame.vlan.is_some();
        let bytes = self.bytes.get_or_insert_with(|| vec![0; LONGEST].into_boxed_slice());
        let Some(bytes) = bytes.get_mut(..length as usize) else {
            if frame.queued {
                queue.discard().map_err(|_| DropReason::Malformed)?;
            }
            return Err(DropReason::TooLong);
        };
        let vnet = match frame.queued {
            true => {
                let read = queue.read(bytes, tagged).map_err(|_| DropReason::Malformed)?;
                read.vnet.filter(|_| read.length == frame.length as usize)
            }
            false => {
                let behind = ADDRESSES + if tagged { VlanTag::LENGTH } else { 0 };
                let whole = frame.bytes.get(..frame.length as usize);
                let parts = whole.and_then(|whole| whole.split_at_checked(ADDRESSES));
                let (addresses, rest) = parts.ok_or(DropReason::Malformed)?;
                bytes[..ADDRESSES].copy_from_slice(addresses);
                bytes[behind..].copy_from_slice(rest);
                frame.vnet
            }
        };
        let mut vnet: VnetHeader = vnet.ok_or(DropReason::Malformed)?;
        if let Some(tag) = frame.vlan {
            let place = bytes.get_mut(ADDRESSES..ADDRESSES + VlanTag::LENGTH).ok_or(DropReason::Malformed)?;
            place.copy_from_slice(&tag.to_bytes());
            vnet.csum_start = vnet.csum_start.saturating_add(VlanTag::LENGTH as u16);
        }
        let cut = Cut::new(bytes, &vnet, target.pool.room() as usize).ok_or(DropReason::TooLong)?;
        (self.cut, self.first, self.timestamp) = (Some(cut), true, arrival(frame.timestamp, target.now));
        Ok(())
    }

    /// Makes packets of the frame, as many as there is room for; true when that was all of it.
    pub fn go_on(&mut self, counters: &mut PortCounters, target: &mut Target<'_>) -> bool {
        let (Some(bytes), Some(cut)) = (&self.bytes, &mut self.cut) else { return true };
        while target.out.len() < target.most {
            let Some(piece) = cut.next() else { break };
            if !std::mem::take(&mut self.first) {
                counters.ledger.split += 1;
            }
            let Some(mut packet) = target.pool.allocate() else {
                counters.ledger.dropped[DropReason::NoBuffer] += 1;
                continue;
            };
            let (headers, payload) = (piece.headers, &bytes[piece.payload.clone()]);
            let pool = target.pool;
            let written = pool.set_length(&mut packet, headers.len() + payload.len()).is_ok()
                && pool.patch(&mut packet, 0, headers).is_ok()
                && pool.patch(&mut packet, headers.len(), payload).is_ok();
            if !written {
                counters.ledger.dropped[DropReason::TooLong] += 1;
                pool.free(packet);
                continue;
            }
            packet.edit(|record| {
                record.timestamp = self.timestamp.0;
                piece.vnet.note(record, 0);
            });
            target.out.push(packet);
        }
        if cut.left() == 0 {
            self.cut = None;
        }
        self.cut.is_none()
    }

    /// Gives up what is left of a frame, counted as held; true if there was one, whose slot is to be
    /// released.
    pub fn give_up(&mut self, counters: &mut PortCounters) -> bool {
        let Some(cut) = self.cut.take() else { return false };
        let left = cut.left() as u64;
        counters.ledger.split += left - u64::from(std::mem::take(&mut self.first));
        counters.ledger.dropped[DropReason::HeldAtStop] += left;
        true
    }
}
