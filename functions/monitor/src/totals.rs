//! Sums over all packets.

use crate::sighting::Sighting;
use alloc::vec::Vec;
use nf_sdk::Nanos;
use packet::tunnel::Tunnel;

/// EtherTypes that are counted one by one; later ones are counted together.
pub(crate) const MOST_ETHERTYPES: usize = 32;
/// Classes of size: below 64 bytes, then from each power of two to below the next; the last is open.
pub(crate) const SIZE_CLASSES: usize = 11;
/// Kinds of tunnels.
pub(crate) const TUNNELS: usize = Tunnel::ALL.len();
/// Values below are lengths of IEEE 802.3 frames, all counted under 0.
const FIRST_ETHERTYPE: u16 = 0x0600;

/// Where sums end that are handed over by others. No instance's own come near, and from here on counting
/// cannot overflow.
pub(crate) const LARGEST: u64 = 1 << 60;

/// The sum of two counts, [`LARGEST`] at most.
pub(crate) fn sum(one: u64, other: u64) -> u64 {
    one.saturating_add(other).min(LARGEST)
}

/// Packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Count {
    #[inline(always)]
    fn add(&mut self, bytes: u64) {
        self.packets += 1;
        self.bytes += bytes;
    }

    fn merge(&mut self, other: Count) {
        self.packets = sum(self.packets, other.packets);
        self.bytes = sum(self.bytes, other.bytes);
    }
}

/// All sums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    /// When the first packet came; 0 before it.
    pub(crate) since: Nanos,
    /// When the last packet came.
    pub(crate) until: Nanos,
    pub(crate) all: Count,
    pub(crate) malformed: Count,
    pub(crate) tagged: Count,
    pub(crate) fragments: Count,
    /// Packets of which a capture has only a part.
    pub(crate) snapped: Count,
    /// Packets with an IPv4 length of 0.
    pub(crate) unsegmented: Count,
    /// IP packets by protocol.
    pub(crate) protocols: [Count; 256],
    /// In order of appearance.
    pub(crate) ethertypes: Vec<(u16, Count)>,
    pub(crate) other_ethertypes: Count,
    /// Packets that are in a tunnel of each kind, in the order of [`Tunnel::ALL`]; one in several counts for
    /// each.
    pub(crate) tunnels: [Count; TUNNELS],
    /// Packets by class of size.
    pub(crate) sizes: [u64; SIZE_CLASSES],
}

impl Totals {
    pub(crate) fn new() -> Totals {
        Totals {
            since: Nanos(0),
            until: Nanos(0),
            all: Count::default(),
            malformed: Count::default(),
            tagged: Count::default(),
            fragments: Count::default(),
            snapped: Count::default(),
            unsegmented: Count::default(),
            protocols: [Count::default(); 256],
            ethertypes: Vec::with_capacity(MOST_ETHERTYPES),
            other_ethertypes: Count::default(),
            tunnels: [Count::default(); TUNNELS],
            sizes: [0; SIZE_CLASSES],
        }
    }

    /// Notes when packets came.
    #[inline(always)]
    pub(crate) fn at(&mut self, now: Nanos) {
        if self.all.packets == 0 {
            self.since = now;
        }
        self.until = self.until.max(now);
    }

    /// Counts a packet.
    #[inline(always)]
    pub(crate) fn count(&mut self, seen: &Sighting, bytes: u64) {
        self.all.add(bytes);
        if let Some(class) = self.sizes.get_mut(size_class(bytes)) {
            *class += 1;
        }
        if let Some(flow) = &seen.flow
            && let Some(protocol) = self.protocols.get_mut(usize::from(flow.protocol()))
        {
            protocol.add(bytes);
        }
        if let Some(ethertype) = seen.ethertype {
            self.ethertype(ethertype).add(bytes);
        }
        if seen.malformed {
            self.malformed.add(bytes);
        }
        if seen.tagged {
            self.tagged.add(bytes);
        }
        if seen.fragment {
            self.fragments.add(bytes);
        }
        if seen.unsegmented {
            self.unsegmented.add(bytes);
        }
    }

    /// Counts a packet that is there only in part, beside what was counted of it.
    pub(crate) fn count_snapped(&mut self, bytes: u64) {
        self.snapped.add(bytes);
    }

    /// Counts a packet in a tunnel, which was counted without it before.
    pub(crate) fn count_inside(&mut self, tunnel: Tunnel, bytes: u64) {
        if let Some(count) = self.tunnels.get_mut(tunnel as usize - 1) {
            count.add(bytes);
        }
    }

    /// Counts a packet whose tunnels could not be read to the end.
    pub(crate) fn count_malformed(&mut self, bytes: u64) {
        self.malformed.add(bytes);
    }

    #[inline(always)]
    fn ethertype(&mut self, ethertype: u16) -> &mut Count {
        let ethertype = if ethertype < FIRST_ETHERTYPE { 0 } else { ethertype };
        let known = self.ethertypes.iter().position(|(other, _)| *other == ethertype);
        let place = known.unwrap_or_else(|| {
            if self.ethertypes.len() < MOST_ETHERTYPES {
                self.ethertypes.push((ethertype, Count::default()));
                self.ethertypes.len() - 1
            } else {
                MOST_ETHERTYPES
            }
        });
        self.ethertypes.get_mut(place).map_or(&mut self.other_ethertypes, |(_, count)| count)
    }

    /// Adds another's sums.
    pub(crate) fn merge(&mut self, other: &Totals) {
        if other.all.packets > 0 {
            let first = self.all.packets == 0 || other.since < self.since;
            self.since = if first { other.since } else { self.since };
            self.until = self.until.max(other.until);
        }
        self.all.merge(other.all);
        self.malformed.merge(other.malformed);
        self.tagged.merge(other.tagged);
        self.fragments.merge(other.fragments);
        self.snapped.merge(other.snapped);
        self.unsegmented.merge(other.unsegmented);
        self.other_ethertypes.merge(other.other_ethertypes);
        for (ethertype, count) in &other.ethertypes {
            self.ethertype(*ethertype).merge(*count);
        }
        for (mine, theirs) in self.protocols.iter_mut().zip(other.protocols) {
            mine.merge(theirs);
        }
        for (mine, theirs) in self.tunnels.iter_mut().zip(other.tunnels) {
            mine.merge(theirs);
        }
        for (mine, theirs) in self.sizes.iter_mut().zip(other.sizes) {
            *mine = sum(*mine, theirs);
        }
    }
}

/// The class of a size: 0 below 64, 1 below 128, and so on.
#[inline(always)]
pub(crate) fn size_class(bytes: u64) -> usize {
    ((u64::BITS - (bytes >> 6).leading_zeros()) as usize).min(SIZE_CLASSES - 1)
}

/// Smallest and largest size in a class; the last class has no largest.
pub(crate) fn class_bounds(class: usize) -> (u64, Option<u64>) {
    let from = if class == 0 { 0 } else { 32 << class };
    (from, (class + 1 < SIZE_CLASSES).then(|| (64 << class) - 1))
}
