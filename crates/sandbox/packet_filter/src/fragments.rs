//! First fragments that were accepted, so that the later ones, which have no ports, can follow them.

use crate::header::{Header, KEY4, KEY6};
use alloc::boxed::Box;
use nf_sdk::{Line, zeroed_table};

/// Datagrams remembered at a time; 64 bytes each, taken when the first fragment is seen.
pub const FRAGMENTS: usize = 2048;
/// Places that a datagram may be in.
const WAYS: usize = 4;

/// Words of a line behind the key without ports: identification, whether the place is taken, when it ends,
/// and the first fragment's length.
const ID: usize = KEY6;
const TAKEN: usize = KEY6 + 1;
const EXPIRES: usize = KEY6 + 2;
const LENGTH: usize = KEY6 + 3;

/// A small table; the oldest makes room.
#[derive(Default)]
pub struct Fragments {
    lines: Box<[Line]>,
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

fn hash(identity: &Line) -> usize {
    let mixed = identity.0[..EXPIRES]
        .iter()
        .fold(0u32, |hash, word| (hash ^ word).wrapping_mul(0x9e37_79b1).rotate_left(15));
    mixed as usize % (FRAGMENTS / WAYS) * WAYS
}

fn same(line: &Line, identity: &Line) -> bool {
    line.0[..EXPIRES] == identity.0[..EXPIRES]
}

impl Fragments {
    /// Remembers a first fragment that was accepted, until `expires`.
    pub fn accept(&mut self, header: &Header, now: u32, expires: u32) {
        if self.lines.is_empty() {
            // Without memory, later fragments are dropped.
            let Some(lines) = zeroed_table(FRAGMENTS) else { return };
            self.lines = lines;
        }
        let mut identity = identity(header);
        let home = hash(&identity);
        let ways = &mut self.lines[home..home + WAYS];
        let place = ways.iter().position(|line| same(line, &identity)).or_else(|| {
            let left = |line: &Line| match line.0[TAKEN] {
                0 => i64::MIN,
                _ => i64::from(line.0[EXPIRES].wrapping_sub(now) as i32),
            };
            (0..WAYS).min_by_key(|way| left(&ways[*way]))
        });
        identity.0[EXPIRES] = expires;
        identity.0[LENGTH] = header.fragment.length;
        if let Some(place) = place {
            ways[place] = identity;
        }
    }

    /// Whether a later fragment follows one that was accepted, and leaves alone what was judged there: a
    /// fragment that overlaps the first could replace its ports (RFC 1858, RFC 5722).
    pub fn follows(&self, header: &Header, now: u32) -> bool {
        let identity = identity(header);
        let home = hash(&identity);
        let ways = self.lines.get(home..home + WAYS).unwrap_or(&[]);
        ways.iter().any(|line| {
            same(line, &identity)
                && line.0[EXPIRES].wrapping_sub(now) as i32 > 0
                && header.fragment.offset >= line.0[LENGTH]
        })
    }

    /// Datagrams remembered, ended ones that nothing replaced included.
    pub fn count(&self) -> usize {
        self.lines.iter().filter(|line| line.0[TAKEN] != 0).count()
    }
}
