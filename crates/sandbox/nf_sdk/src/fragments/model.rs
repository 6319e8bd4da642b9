//! Datagrams put together in the plainest form: an array of bytes for each, of which every one remembers the
//! fragment that it came in.

use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

/// Which fragment counts where two overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The one that came first.
    First,
    /// The one that came last.
    Last,
    /// None: the datagram is given up, unless the fragment says again what is known.
    Discard,
    /// A later one that lies around the other on both sides, else the first.
    Around,
}

/// What becomes of a fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The datagram is complete: the number of the fragment whose header it has, and its bytes.
    Whole(usize, Vec<u8>),
    /// Others are missing.
    Waiting,
    /// The datagram is given up.
    Discarded,
}

/// A fragment.
#[derive(Clone, Copy, Debug)]
pub struct Fragment<'a> {
    /// Its number among all fragments.
    pub number: usize,
    /// Where its bytes belong.
    pub at: usize,
    /// Others follow.
    pub more: bool,
    /// What it says.
    pub data: &'a [u8],
}

/// A byte, and where the fragment that it came in begins and ends.
type Cell = Option<(u8, usize, usize)>;

struct Datagram {
    began: u64,
    cells: Vec<Cell>,
    /// Where it ends, once that was said.
    end: Option<usize>,
    /// The fragment whose header counts.
    head: Option<usize>,
}

/// All datagrams of which something is missing, by what names them.
pub struct Model<K> {
    datagrams: BTreeMap<K, Datagram>,
    /// How long one is waited for.
    timeout: u64,
}

impl<K: Ord> Model<K> {
    /// Waits for `timeout` for each, in the unit of the times that it is told.
    pub fn new(timeout: u64) -> Model<K> {
        Model { datagrams: BTreeMap::new(), timeout }
    }

    /// Takes a fragment.
    pub fn take(&mut self, key: K, policy: Policy, fragment: Fragment<'_>, now: u64) -> Expected {
        let Fragment { number, at, more, data } = fragment;
        self.expire(now);
        let mut datagram = self.datagrams.remove(&key).unwrap_or(Datagram {
            began: now,
            cells: vec![],
            end: None,
            head: None,
        });
        let end = at + data.len();
        // Nothing lies behind the end, and there is one end.
        let known = datagram.end.or((!more).then_some(end));
        let reaches = datagram.cells.len().max(end);
        if known.is_some_and(|known| reaches > known || !more && end != known) {
            return Expected::Discarded;
        }
        datagram.end = known;
        datagram.cells.resize(reaches, None);
        let cells = &mut datagram.cells[at..end];
        let meets = cells.iter().any(Option::is_some);
        let says_the_same =
            cells.iter().zip(data).all(|(cell, byte)| cell.is_some_and(|(old, ..)| old == *byte));
        if policy == Policy::Discard && meets && !says_the_same {
            return Expected::Discarded;
        }
        for (cell, byte) in cells.iter_mut().zip(data) {
            let counts = cell.is_none_or(|(_, from, to)| match policy {
                Policy::First | Policy::Discard => false,
                Policy::Last => true,
                Policy::Around => at < from && end > to,
            });
            if counts {
                *cell = Some((*byte, at, end));
            }
        }
        if at == 0 && (datagram.head.is_none() || policy == Policy::Last) {
            datagram.head = Some(number);
        }
        let bytes: Option<Vec<u8>> = datagram.cells.iter().map(|cell| cell.map(|(byte, ..)| byte)).collect();
        match (datagram.head, bytes) {
            (Some(head), Some(bytes)) if datagram.end == Some(bytes.len()) => Expected::Whole(head, bytes),
            _ => {
                self.datagrams.insert(key, datagram);
                Expected::Waiting
            }
        }
    }

    /// Forgets datagrams that were waited for in vain; how many others there are.
    pub fn expire(&mut self, now: u64) -> usize {
        let timeout = self.timeout;
        self.datagrams.retain(|_, datagram| now - datagram.began <= timeout);
        self.datagrams.len()
    }
}
