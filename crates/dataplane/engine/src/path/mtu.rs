//! Packets that are longer than the link takes by which they leave a device: they are fragmented, or their
//! sender is told, as if the answer had come by that port. What is still to be segmented is the port's to
//! cut, unless its segments are too long.

use crate::ids::{Holder, SwitchId};
use crate::path::classify::classify;
use crate::worker::Worker;
use packet_memory::{Packet, Pool};
use path_mtu::{Remedy, too_long};
use telemetry::DropReason;
use virtio_net::{finish_checksum, is_whole, longest_segment, split};
use virtual_device::Device;
use virtual_switch::SwitchPort;

/// Where a frame says what it carries, and bytes of a VLAN tag there.
const ETHERTYPE: usize = 12;
const TAG: u32 = 4;
/// Tags that do not count, and how deep that is looked.
const TAGS: u32 = 2;
/// Bytes of an Ethernet header.
const ETHERNET: u32 = 14;

impl Worker {
    fn device(&self, id: SwitchId) -> Option<&Device> {
        self.switch(id).forwarding.device()
    }

    /// Whether all of these packets fit the link by which they leave.
    #[inline]
    pub(crate) fn fit_mtu(&self, source: Holder, id: SwitchId, plug: SwitchPort, batch: &[Packet]) -> bool {
        let longest = self.device(id).map_or(u32::MAX, |device| device.longest(plug));
        let pool = &self.pools[usize::from(self.pool_of(source).0)];
        let fits = |it: &Packet| longest_segment(pool, it) <= longest.saturating_add(tags(pool, it));
        batch.iter().all(|it| it.length() <= longest || fits(it))
    }

    /// Ends a packet that is longer, with headers of so many bytes in front, than the link of a port takes.
    #[cold]
    pub(crate) fn leave_oversized(
        &mut self,
        source: Holder,
        id: SwitchId,
        plug: SwitchPort,
        mut packet: Packet,
        headers: u32,
    ) {
        let Some(device) = self.device(id) else {
            return self.drop_batch(source, vec![packet], DropReason::NoDevice);
        };
        let (longest, here) = (device.longest(plug), device.device_port(plug));
        let pool = self.pools[usize::from(self.pool_of(source).0)].clone();
        finish_checksum(&pool, &mut packet);
        // With headers in front the packet's own tags are inside of them, and count.
        let inside = if headers > 0 { tags(&pool, &packet) } else { 0 };
        let mtu = longest.saturating_sub(ETHERNET + headers + inside);
        let (is_deep, now) = (self.batches.in_a_row > 2, self.time.now.nanos);
        match too_long(&pool.to_vec(&packet), mtu) {
            // Each segment is a packet of its own, and some may fit.
            Remedy::Fragments(_) if !is_deep && is_whole(&packet) => {
                let mut segments = self.batches.spare();
                self.segments(source, packet, &mut segments);
                self.leave_by(source, id, plug, segments);
            }
            Remedy::Fragments(fragments) if !is_deep => {
                let likeness = pool.likeness(&packet);
                pool.free(packet);
                self.ledger_of(source).split += fragments.len() as u64 - 1;
                let mut batch = self.batches.spare();
                for fragment in fragments {
                    match pool.make_like(&likeness, [&fragment, &[]]) {
                        Some(made) => batch.push(made),
                        None => self.ledger_of(source).dropped[DropReason::NoBuffer] += 1,
                    }
                }
                self.leave_by(source, id, plug, batch);
            }
            Remedy::Answer(answer) if !is_deep && self.device(id).is_some_and(|it| it.may_answer(now)) => {
                let (timestamp, mark) = (packet.record().timestamp, packet.record().mark);
                self.drop_batch(source, vec![packet], DropReason::TooLong);
                let Some(mut made) = pool.allocate() else { return };
                self.ledger_of(source).generated += 1;
                if pool.write(&mut made, &answer).is_err() {
                    return self.drop_batch(source, vec![made], DropReason::TooLong);
                }
                let here = here.unwrap_or(0);
                made.edit(|it| (it.timestamp, it.mark, it.device_port) = (timestamp, mark, here));
                classify(&pool, std::slice::from_mut(&mut made), self.polling.flow_hash);
                self.batches.in_a_row += 1;
                self.enter(source, id, plug, vec![made]);
                self.batches.in_a_row -= 1;
            }
            _ => self.drop_batch(source, vec![packet], DropReason::TooLong),
        }
    }

    /// Cuts a packet that is still to be cut into segments, in its pool; another packet is its own.
    pub(crate) fn segments(&mut self, source: Holder, packet: Packet, segments: &mut Vec<Packet>) {
        if !is_whole(&packet) {
            return segments.push(packet);
        }
        let pool = &self.pools[usize::from(self.pool_of(source).0)];
        match split(pool, packet, pool.room() as usize, segments) {
            Ok(split) => {
                let ledger = self.ledger_of(source);
                ledger.split += split.more;
                ledger.dropped[DropReason::NoBuffer] += split.lost;
            }
            Err(packet) => self.drop_batch(source, vec![packet], DropReason::Malformed),
        }
    }
}

/// Bytes of the tags of a packet's own.
fn tags(pool: &Pool, packet: &Packet) -> u32 {
    let tagged = |n: &u32| {
        let kind = pool.word(packet, ETHERTYPE + (n * TAG) as usize);
        kind.is_some_and(|[k0, k1, ..]| packet::ethernet::is_tag(u16::from_be_bytes([k0, k1])))
    };
    (0..TAGS).take_while(tagged).count() as u32 * TAG
}
