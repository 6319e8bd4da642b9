//! Fragments of IP packets put together (RFC 791 section 3.2, RFC 8200 section 4.5): in any order, with
//! overlaps as the receiver has them, in memory and time that are bounded.
//!
//! 1. [`Fragments::take`] is shown every frame that [`dissect`](::packet::dissect) calls a fragment.
//! 2. With the last one that was missing it gives the datagram back as one frame, with the headers of the
//!    first fragment: what reads frames reads it.
//! 3. What is incomplete when its time is over makes room, with the next fragment or by
//!    [`Fragments::expire`].
//! 4. A function that drops a datagram says so ([`Fragments::bar`]): the fragment that was missing comes
//!    again.
//!
//! Limits: a datagram of up to 65,535 bytes; sixteen incomplete ones between two addresses and of those that
//! share their place in the table. Where room is scarce a source has a part of it. A fragment that there is
//! no room for is refused, and no other one forgotten for it: what refuses it knows that the datagram will
//! not be seen. Or the datagram makes room that was waited for the longest ([`Limits::makes_room`]).

use crate::Nanos;
use crate::keyed_hash::KeyedHash;
use crate::pieces::{Overlap, PIECE_COST, Pieces};
use ::packet::{Dissection, Fragment, checksum, ipv4, ipv6, protocol};
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

/// Incomplete datagrams that may have the same place in the table.
const WAYS: usize = 16;
/// What a source may have of the room when less than that is left: a fraction.
const PART: usize = 4;
/// Places in the table that are looked at for a datagram that makes room.
const CANDIDATES: usize = 8;
/// Numbers by which datagrams are barred.
const BARRED: usize = 4096;
const SECOND: u64 = 1_000_000_000;
/// Longest datagram behind its header, in bytes.
const LONGEST: usize = 65_535;

/// What may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Incomplete datagrams.
    pub datagrams: usize,
    /// Bytes of their fragments, [`PIECE_COST`] for each included.
    pub bytes: usize,
    /// How long one is waited for, from its first fragment.
    pub timeout: Nanos,
    /// A datagram that was waited for the longest makes room for another one's fragments, and is forgotten;
    /// else these are refused.
    pub makes_room: bool,
}

/// Which fragment counts where two overlap. IPv6 knows no choice (RFC 5722): the datagram is given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FragmentOverlap {
    /// The one that came first.
    First,
    /// The one that came last.
    Last,
    /// None: the datagram is given up, except for a fragment that comes again. Linux's, since 4.19.
    #[default]
    Discard,
    /// A later one that begins before and ends behind another, else the first. Windows'.
    Around,
}

/// What becomes of a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The datagram is complete: as a frame in one piece.
    Whole(Vec<u8>),
    /// Others are missing.
    Waiting,
    /// No receiver takes it: it is empty, ends behind the longest datagram, contradicts where the datagram
    /// ends, or overlaps another one where that is not allowed. What came of its datagram is forgotten.
    Discarded,
    /// There is no room for it.
    Refused,
}

/// What all fragments of a datagram have in common: addresses, identification with the protocol (IPv4 alone),
/// and the caller's context.
type Key = [u64; 6];

#[derive(Debug)]
struct Datagram {
    key: Key,
    began: Nanos,
    /// Number of its source.
    source: u8,
    pieces: Pieces,
    /// Bytes behind the header, once the last fragment has come.
    length: Option<u64>,
    /// The first fragment's bytes up to its data, and where the IP header begins in them.
    head: Vec<u8>,
    l3: usize,
}

impl Datagram {
    fn cost(&self) -> usize {
        self.pieces.cost() + self.head.len() + PIECE_COST
    }
}

/// Which datagram makes room first: whether its source has no more than its part, and when it began.
type Rank = (bool, Nanos);

/// How often something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turnover {
    /// Datagrams that were put together.
    pub whole: u64,
    /// Datagrams whose time was over before the last fragment came.
    pub expired: u64,
    /// Fragments that no receiver takes.
    pub discarded: u64,
    /// Fragments that there was no room for.
    pub refused: u64,
}

/// All incomplete datagrams.
#[derive(Debug)]
pub struct Fragments {
    sets: Vec<Vec<Datagram>>,
    limits: Limits,
    overlap: FragmentOverlap,
    hash: KeyedHash<5>,
    bytes: usize,
    count: usize,
    /// Datagrams and bytes by the sources' numbers.
    used: Vec<(usize, usize)>,
    hand: usize,
    /// Until when fragments of datagrams with these numbers are barred, in seconds.
    barred: Vec<u64>,
    /// How often something happened.
    pub turnover: Turnover,
}

/// A fragment as it came: where its data belongs, and what comes before that in the frame.
struct Part<'a> {
    is_ipv4: bool,
    l3: usize,
    /// IPv6 alone: the byte that announces the fragment header, and what it says without that header.
    announced: Option<(usize, u8)>,
    offset: u64,
    more: bool,
    head: &'a [u8],
    data: &'a [u8],
}

impl Fragments {
    /// No memory is taken before the first fragment. `seed` is the table's secret.
    pub fn new(limits: Limits, overlap: FragmentOverlap, seed: u64) -> Fragments {
        Fragments {
            sets: Vec::new(),
            limits,
            overlap,
            hash: KeyedHash::new(seed),
            bytes: 0,
            count: 0,
            used: Vec::new(),
            hand: 0,
            barred: Vec::new(),
            turnover: Turnover::default(),
        }
    }

    /// Incomplete datagrams.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes that are kept, [`PIECE_COST`] for each fragment included.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes a frame that `dissection` calls a fragment. `context` tells networks apart whose addresses may
    /// be the same: VLANs, tunnels.
    pub fn take(&mut self, frame: &[u8], dissection: &Dissection, context: u64, now: Nanos) -> Outcome {
        let outcome = match (key(dissection, context), part(frame, dissection)) {
            (Some(key), Some(part)) => self.put(key, &part, now),
            _ => Outcome::Discarded,
        };
        match outcome {
            Outcome::Whole(_) => self.turnover.whole += 1,
            Outcome::Waiting => {}
            Outcome::Discarded => self.turnover.discarded += 1,
            Outcome::Refused => self.turnover.refused += 1,
        }
        outcome
    }

    /// Notes that a datagram that was put together does not go on: its receiver may have all of its fragments
    /// but the last, and that one could come again. [`Fragments::is_barred`] says so for as long as receivers
    /// keep them. There is nothing to be forgotten for others: a few in thousands of other datagrams are
    /// barred with it.
    pub fn bar(&mut self, dissection: &Dissection, context: u64, now: Nanos) {
        if self.barred.is_empty() {
            self.barred = vec![0; BARRED];
        }
        if let Some(place) = self.barred_place(dissection, context) {
            self.barred[place] = now.saturating_add(self.limits.timeout).0.div_ceil(SECOND);
        }
    }

    /// Whether a fragment is of a datagram that does not go on.
    pub fn is_barred(&self, dissection: &Dissection, context: u64, now: Nanos) -> bool {
        !self.barred.is_empty()
            && self.barred_place(dissection, context).is_some_and(|place| self.barred[place] > now.0 / SECOND)
    }

    fn barred_place(&self, dissection: &Dissection, context: u64) -> Option<usize> {
        let [a, b, c, d, number, context] = key(dissection, context)?;
        let hash = self.hash.of(&[a, b, c, d, context ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)]);
        Some(hash as usize % BARRED)
    }

    /// Forgets datagrams whose time is over.
    pub fn expire(&mut self, now: Nanos) {
        for set in 0..self.sets.len() {
            self.expire_set(set, now);
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        (self.sets, self.used, self.barred) = (Vec::new(), Vec::new(), Vec::new());
        (self.bytes, self.count) = (0, 0);
    }

    fn expire_set(&mut self, set: usize, now: Nanos) {
        let timeout = self.limits.timeout;
        let is_over = |datagram: &Datagram| now.since(datagram.began) > timeout;
        while let Some(place) = self.sets[set].iter().position(is_over) {
            self.forget(set, place);
            self.turnover.expired += 1;
        }
    }

    /// Takes an incomplete datagram out.
    fn forget(&mut self, set: usize, place: usize) -> Datagram {
        let datagram = self.sets[set].swap_remove(place);
        self.count -= 1;
        self.account(datagram.source, datagram.cost(), 0);
        self.used[usize::from(datagram.source)].0 -= 1;
        datagram
    }

    /// What a source's fragments take is now as much.
    fn account(&mut self, source: u8, before: usize, now: usize) {
        self.bytes = self.bytes - before + now;
        let used = &mut self.used[usize::from(source)].1;
        *used = *used - before + now;
    }

    /// Whether a source has its part of the room, which is scarce.
    fn is_greedy(&self, source: u8, needed: usize) -> bool {
        let Limits { datagrams, bytes, .. } = self.limits;
        let (count, cost) = self.used[usize::from(source)];
        let is_over = |used: usize, all: usize, limit: usize| {
            limit.saturating_sub(all) < limit / PART && used > limit / PART
        };
        is_over(count, self.count, datagrams) || is_over(cost + needed, self.bytes + needed, bytes)
    }

    /// Forgets the datagram that was waited for the longest, of those in a set or of a few others that are
    /// next; not the one at `but`. Those of sources that have more than their part come first.
    fn make_room(&mut self, set: Option<usize>, but: Option<(usize, usize)>) -> bool {
        let count = self.sets.len();
        let hand = self.hand;
        let first = set.unwrap_or(hand);
        let mut looked = 0;
        // Its rank, and where it is.
        let mut best: Option<(Rank, usize, usize)> = None;
        for step in 0..if set.is_some() { 1 } else { count } {
            let set = (first + step) % count;
            looked += usize::from(!self.sets[set].is_empty());
            for (place, datagram) in self.sets[set].iter().enumerate() {
                let rank = (!self.is_greedy(datagram.source, 0), datagram.began);
                if but != Some((set, place)) && best.is_none_or(|(known, ..)| rank < known) {
                    best = Some((rank, set, place));
                }
            }
            if looked == CANDIDATES {
                break;
            }
        }
        let Some((_, found, place)) = best else { return false };
        if set.is_none() {
            self.hand = (found + 1) % count;
        }
        self.forget(found, place);
        self.turnover.expired += 1;
        true
    }

    fn put(&mut self, key: Key, part: &Part<'_>, now: Nanos) -> Outcome {
        if self.sets.is_empty() {
            self.sets.resize_with((2 * self.limits.datagrams / WAYS).max(1).next_power_of_two(), Vec::new);
            self.used = vec![(0, 0); usize::from(u8::MAX) + 1];
        }
        let hashed = hash(&self.hash, &key);
        let set = hashed as usize & (self.sets.len() - 1);
        let source = self.hash.of_first(&[key[0], if part.is_ipv4 { key[1] } else { 0 }]) as u8;
        self.expire_set(set, now);
        // An overlap may cut another piece in two.
        let needed = part.data.len() + part.head.len() + 3 * PIECE_COST;
        let mut known;
        loop {
            known = self.sets[set].iter().position(|datagram| datagram.key == key);
            let is_set_full = known.is_none() && self.sets[set].len() >= WAYS.min(self.limits.datagrams);
            let is_full = known.is_none() && self.count >= self.limits.datagrams
                || needed > self.limits.bytes.saturating_sub(self.bytes);
            if !is_set_full && !is_full && !self.is_greedy(source, needed) {
                break;
            }
            let may_make_room =
                self.limits.makes_room && needed <= self.limits.bytes && (is_set_full || is_full);
            if !may_make_room || !self.make_room(is_set_full.then_some(set), known.map(|place| (set, place)))
            {
                return Outcome::Refused;
            }
        }
        let place = known.unwrap_or_else(|| {
            let (pieces, head) = (Pieces::new(), Vec::new());
            self.sets[set].push(Datagram { key, began: now, source, pieces, length: None, head, l3: 0 });
            self.count += 1;
            self.used[usize::from(source)].0 += 1;
            self.account(source, 0, PIECE_COST);
            self.sets[set].len() - 1
        });
        let datagram = &mut self.sets[set][place];
        let before = datagram.cost();
        let fits = datagram.add(part, self.overlap);
        let (is_whole, cost) = (datagram.is_whole(), datagram.cost());
        self.account(source, before, cost);
        if fits && !is_whole {
            return Outcome::Waiting;
        }
        let datagram = self.forget(set, place);
        match datagram.frame(part.is_ipv4).filter(|_| fits) {
            Some(frame) => Outcome::Whole(frame),
            None => Outcome::Discarded,
        }
    }
}

impl Datagram {
    /// Adds a fragment; false when no receiver goes on with the datagram.
    fn add(&mut self, part: &Part<'_>, overlap: FragmentOverlap) -> bool {
        let end = part.offset + part.data.len() as u64;
        let reaches = self.pieces.end().unwrap_or(0);
        match self.length {
            Some(length) if end > length || !part.more && end != length => return false,
            None if !part.more && end < reaches => return false,
            _ => {}
        }
        if !part.more {
            self.length = Some(end);
        }
        let (policy, may_overlap) = match overlap {
            _ if !part.is_ipv4 => (Overlap::First, false),
            FragmentOverlap::First => (Overlap::First, true),
            FragmentOverlap::Last => (Overlap::Last, true),
            FragmentOverlap::Discard => (Overlap::First, false),
            FragmentOverlap::Around => (Overlap::Around, true),
        };
        // What comes again says the same, and adds nothing.
        let before = self.pieces.bytes();
        let inserted = self.pieces.insert(part.offset, part.data, policy, false);
        let comes_again = !inserted.differs && self.pieces.bytes() == before;
        if inserted.overlaps && !may_overlap && !comes_again {
            return false;
        }
        if part.offset == 0 && (self.head.is_empty() || policy == Overlap::Last) {
            (self.head, self.l3) = (part.head.to_vec(), part.l3);
            if let Some((at, next)) = part.announced
                && let Some(byte) = self.head.get_mut(at)
            {
                *byte = next;
            }
        }
        true
    }

    fn is_whole(&self) -> bool {
        !self.head.is_empty() && self.length == Some(self.pieces.bytes() as u64)
    }

    /// The datagram as one frame.
    fn frame(mut self, is_ipv4: bool) -> Option<Vec<u8>> {
        let (mut frame, l3) = (core::mem::take(&mut self.head), self.l3);
        let header = frame.len().checked_sub(l3)?;
        while let Some((_, data)) = self.pieces.take(u64::MAX, u64::MAX) {
            frame.extend_from_slice(&data);
        }
        let total = frame.len() - l3;
        if is_ipv4 {
            let total = u16::try_from(total).ok()?;
            let header = frame.get_mut(l3..l3 + header)?;
            header.get_mut(ipv4::field::TOTAL_LENGTH)?.copy_from_slice(&total.to_be_bytes());
            // Neither a fragment nor allowed to become one any more: the flag DF stays.
            *header.get_mut(6)? &= 0x40;
            *header.get_mut(7)? = 0;
            header.get_mut(ipv4::field::CHECKSUM)?.fill(0);
            let sum = checksum::of(header);
            header.get_mut(ipv4::field::CHECKSUM)?.copy_from_slice(&sum.to_be_bytes());
        } else {
            let length = u16::try_from(total.checked_sub(ipv6::HEADER_LENGTH)?).ok()?;
            let at = l3 + ipv6::field::PAYLOAD_LENGTH.start;
            frame.get_mut(at..at + 2)?.copy_from_slice(&length.to_be_bytes());
        }
        Some(frame)
    }
}

fn hash(hash: &KeyedHash<5>, key: &Key) -> u64 {
    let [a, b, c, d, _, context] = *key;
    // The identification does not choose the place: what floods with one pair of addresses fills one set.
    hash.of(&[a, b, c, d, context])
}

fn key(dissection: &Dissection, context: u64) -> Option<Key> {
    let network = dissection.network.as_ref()?;
    let (Fragment::First { identification } | Fragment::Later { identification, .. }) = network.fragment
    else {
        return None;
    };
    let words = |address: IpAddr| match address {
        IpAddr::V4(address) => [0xffff, u64::from(address.to_bits())],
        IpAddr::V6(address) => [(address.to_bits() >> 64) as u64, address.to_bits() as u64],
    };
    let [a, b] = words(network.source);
    let [c, d] = words(network.destination);
    let kind = if network.source.is_ipv4() { 1 << 8 | u64::from(network.protocol) } else { 0 };
    Some([a, b, c, d, u64::from(identification) << 16 | kind, context])
}

/// Takes a fragment apart; `None` when no receiver takes it.
fn part<'a>(frame: &'a [u8], dissection: &Dissection) -> Option<Part<'a>> {
    let network = dissection.network.as_ref()?;
    let (offset, more) = match network.fragment {
        Fragment::Whole => return None,
        Fragment::First { .. } => (0, true),
        Fragment::Later { offset, more, .. } => (usize::from(offset), more),
    };
    let l3 = dissection.l3_offset;
    let is_ipv4 = network.source.is_ipv4();
    let (head_end, data_at, announced) = if is_ipv4 {
        (network.l4_offset, network.l4_offset, None)
    } else {
        let (pointer, at) = fragment_header(frame, l3)?;
        (at, at + ipv6::FRAGMENT_HEADER_LENGTH, Some((pointer, *frame.get(at)?)))
    };
    // A frame that was cut short tells less than the datagram has.
    let mut data = frame.get(data_at..network.end)?;
    if more && data.len() % 8 != 0 {
        if !is_ipv4 {
            return None;
        }
        data = &data[..data.len() / 8 * 8];
    }
    let header = head_end.checked_sub(l3 + if is_ipv4 { 0 } else { ipv6::HEADER_LENGTH })?;
    if data.is_empty() || offset + data.len() + header > LONGEST {
        return None;
    }
    let head = frame.get(..head_end)?;
    Some(Part { is_ipv4, l3, announced, offset: offset as u64, more, head, data })
}

/// Where the fragment header is, and the byte that announces it.
fn fragment_header(frame: &[u8], l3: usize) -> Option<(usize, usize)> {
    let (mut pointer, mut at) = (l3 + ipv6::field::NEXT_HEADER, l3 + ipv6::HEADER_LENGTH);
    for _ in 0..ipv6::MAX_EXTENSIONS {
        match *frame.get(pointer)? {
            protocol::FRAGMENT => return Some((pointer, at)),
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS => {
                let length = 8 * (usize::from(*frame.get(at + 1)?) + 1);
                (pointer, at) = (at, at + length);
            }
            protocol::AUTHENTICATION => {
                let length = 8 + 4 * usize::from(*frame.get(at + 1)?);
                (pointer, at) = (at, at + length);
            }
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests;
