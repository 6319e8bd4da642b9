//! What became of first fragments, so that the later ones, which have no ports, follow them: it is decided
//! once for all fragments of a datagram.
//!
//! 1. A first fragment that is accepted or refused is remembered. An accepted one takes the place of a
//!    refused one or of the oldest, a refused one that of no accepted one.
//! 2. A later one passes if its first one was accepted, and is dropped if that was refused or is overlapped.
//! 3. Before the first one, it is held ([`crate::waiting`]) until that comes or its time is over.

use crate::header::{Class, Header, KEY4, KEY6};
use crate::waiting::Waiting;
use alloc::boxed::Box;
use nf_sdk::keyed_hash::{KeyedHash, two};
use nf_sdk::later_fragments::WAIT;
use nf_sdk::{Host, Line, Nanos, Packet, ticks, zeroed_table};

/// Datagrams remembered at a time; 64 bytes each, taken when the first fragment is seen.
pub const FRAGMENTS: usize = 2048;
/// Places that a datagram may be in. Which those are, a secret decides.
const WAYS: usize = 4;

/// Words of a line behind the key without ports: identification, whether the place is taken (with the
/// interface and the family), when it ends, and the first fragment's length.
const ID: usize = KEY6;
const TAKEN: usize = KEY6 + 1;
const EXPIRES: usize = KEY6 + 2;
const LENGTH: usize = KEY6 + 3;
/// Stands for the length of a first fragment that was refused: nothing is behind it.
const REFUSED: u32 = u32::MAX;

/// First fragments, and later ones that wait for them.
pub struct Fragments {
    /// A small table.
    lines: Box<[Line]>,
    hash: KeyedHash<{ EXPIRES / 2 }>,
    /// Those that wait.
    pub waiting: Waiting,
    /// The later fragment that was asked about last, if its first one is not known: what it has in common
    /// with that, and its offset.
    early: Option<(Line, u32)>,
    /// Ticks that a first one is remembered for.
    timeout: u32,
    /// Ticks that a later one waits for it.
    wait: u32,
}

/// The parts that all fragments of a datagram share, as the line has them.
fn identity(header: &Header) -> Line {
    let mut line = Line([0; 16]);
    let is_ipv4 = header.fragment.is_ipv4;
    let words = if is_ipv4 { KEY4 } else { KEY6 };
    line.0[..words].copy_from_slice(&header.key[..words]);
    if is_ipv4 {
        line.0[2] = 0;
        (line.0[4], line.0[5]) = (header.path as u32, (header.path >> 32) as u32);
    } else {
        line.0[8] = 0;
        // The first fragment's protocol may stand behind further extension headers, which the later ones
        // lack.
        line.0[9] &= !0xff;
    }
    line.0[ID] = header.fragment.id;
    line.0[TAKEN] = 1 | header.ingress() << 1 | u32::from(is_ipv4) << 2;
    line
}

/// Whether two are of one datagram.
pub fn same(line: &Line, identity: &Line) -> bool {
    line.0[..EXPIRES] == identity.0[..EXPIRES]
}

/// The source address, and the interface that the datagram came in by.
pub fn sender(identity: &Line) -> (&[u32], u16) {
    let words = if identity.0[TAKEN] & 4 == 0 { 4 } else { 1 };
    let ingress = (identity.0[TAKEN] >> 1 & 1) as usize;
    (&identity.0[ingress * words..][..words], ingress as u16)
}

/// Whether a later fragment follows its first one, and leaves alone what was judged there: a fragment that
/// overlaps the first could replace its ports (RFC 1858, RFC 5722).
pub fn follows(first: &Line, offset: u32) -> bool {
    offset >= first.0[LENGTH]
}

impl Fragments {
    /// No memory is taken before the first fragment. `timeout`: how long later fragments may follow the first
    /// one. `seed`: the table's secret.
    pub fn new(timeout: Nanos, seed: u64) -> Fragments {
        Fragments {
            lines: Box::default(),
            hash: KeyedHash::new(seed),
            waiting: Waiting::default(),
            early: None,
            timeout: ticks::span(timeout),
            wait: ticks::span(timeout.min(WAIT)),
        }
    }

    /// The first of the places that a datagram may be in.
    fn home(&self, identity: &Line) -> usize {
        let (pairs, _) = identity.0.as_chunks::<2>();
        let word = |place: usize| pairs.get(place).map_or(0, |[low, high]| two(*low, *high));
        self.hash.of(&core::array::from_fn(word)) as usize % (FRAGMENTS / WAYS) * WAYS
    }

    /// A packet was judged: remembers that if it is a first fragment.
    pub fn judged(&mut self, header: &Header, accept: bool, now: u32) {
        // What is not readable as far as its ports has no key.
        let is_read = !matches!(header.class, Class::LaterFragment | Class::ShortFragment | Class::Malformed);
        if header.fragment.is_fragment && is_read {
            self.remember(header, accept, now);
        }
    }

    #[inline(never)]
    fn remember(&mut self, header: &Header, accept: bool, now: u32) {
        let mut first = identity(header);
        first.0[EXPIRES] = now.wrapping_add(self.timeout);
        first.0[LENGTH] = if accept { header.fragment.length } else { REFUSED };
        self.waiting.decide(&first);
        if self.lines.is_empty() {
            // Without memory, what comes later waits and is dropped.
            let Some(lines) = zeroed_table(FRAGMENTS) else { return };
            self.lines = lines;
        }
        let home = self.home(&first);
        let ways = &mut self.lines[home..home + WAYS];
        // How much is lost with a line.
        let worth = |line: &Line| {
            let left = i64::from(line.0[EXPIRES].wrapping_sub(now) as i32);
            match line.0[TAKEN] {
                0 => i64::MIN,
                _ if line.0[LENGTH] == REFUSED => left - (1 << 32),
                _ => left,
            }
        };
        let known = ways.iter().position(|line| same(line, &first));
        let place = known.or_else(|| (0..WAYS).min_by_key(|way| worth(&ways[*way])));
        if let Some(line) = place.map(|place| &mut ways[place])
            && (accept || worth(line) <= 0)
        {
            *line = first;
        }
    }

    /// Whether a later fragment follows one that was accepted. If not, [`Fragments::hold`] has to be asked.
    pub fn follows(&mut self, header: &Header, now: u32) -> bool {
        let identity = identity(header);
        let home = self.home(&identity);
        let ways = self.lines.get(home..home + WAYS).unwrap_or(&[]);
        let is_known = |line: &&Line| same(line, &identity) && line.0[EXPIRES].wrapping_sub(now) as i32 > 0;
        let offset = header.fragment.offset;
        match ways.iter().find(is_known) {
            Some(first) => follows(first, offset),
            None => {
                self.early = Some((identity, offset));
                false
            }
        }
    }

    /// Holds the packet that was judged last if it came before its first fragment and there is room.
    #[inline(always)]
    pub fn hold(&mut self, packet: &mut Packet<'_>, host: &mut Host, now: u32) -> bool {
        self.early.is_some() && self.hold_early(packet, host, now)
    }

    #[cold]
    fn hold_early(&mut self, packet: &mut Packet<'_>, host: &mut Host, now: u32) -> bool {
        let early = self.early.take();
        early.is_some_and(|early| self.waiting.hold(early, packet, host, now.wrapping_add(self.wait)))
    }

    /// Datagrams remembered, ended ones that nothing replaced included.
    pub fn count(&self) -> usize {
        self.lines.iter().filter(|line| line.0[TAKEN] != 0).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::Fragment;
    use alloc::vec::Vec;

    /// A fragment of the datagram with this number.
    fn fragment(id: u32, class: Class, offset: u32) -> Header {
        let fragment = Fragment { is_fragment: true, is_ipv4: true, id, offset, length: 8 };
        let mut header = Header { class, fragment, ..Header::default() };
        header.key[..2].copy_from_slice(&[0x0a00_0001, 0xc000_0201]);
        header
    }

    fn first(id: u32) -> Header {
        fragment(id, Class::Flow4, 0)
    }

    /// Whether a later fragment of datagram 0 follows when first ones of these have come behind its own.
    fn follows(mut table: Fragments, rivals: &[u32]) -> bool {
        for id in [0].iter().chain(rivals) {
            table.judged(&first(*id), true, 0);
        }
        table.follows(&fragment(0, Class::LaterFragment, 8), 1)
    }

    /// Datagrams that were chosen to push one out do so under the secret that they were chosen for.
    #[test]
    fn what_pushes_out_what_is_a_secret() {
        let table = |seed| Fragments::new(Nanos::from_secs(5), seed);
        let one = table(1);
        let home = |id| one.home(&identity(&first(id)));
        let rivals: Vec<u32> = (1..1 << 16).filter(|id| home(*id) == home(0)).take(WAYS).collect();
        assert_eq!(rivals.len(), WAYS);
        assert!(!follows(table(1), &rivals));
        assert!((2..20).all(|seed| follows(table(seed), &rivals)));
    }
}
