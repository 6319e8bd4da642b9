//! Pieces of a sequence of bytes that come in any order and may overlap, as fragments of a datagram and
//! segments of a stream do. Which of two pieces counts where they overlap is the receiver's choice, and
//! receivers differ: [`Overlap`] names the choices.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// What a piece costs beside its bytes, in bytes: the map's node and the vector.
pub const PIECE_COST: usize = 64;

/// Which piece counts where two overlap. The places of both are those that they came with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// The one that came first.
    First,
    /// The one that came last.
    Last,
    /// The one that begins before; of two that begin together the longer; else the first. Linux's for TCP.
    #[default]
    Longer,
    /// The one that begins before, else the first. Windows' and BSD's for TCP.
    Before,
    /// A later one that begins before and ends behind the other, else the first. Windows' for fragments.
    Around,
}

impl Overlap {
    /// Whether a piece takes the place of one that came before it. Beginnings and ends, in bytes.
    pub fn replaces(self, old: (u64, u64), new: (u64, u64)) -> bool {
        match self {
            Overlap::First => false,
            Overlap::Last => true,
            Overlap::Longer => new.0 < old.0 || new.0 == old.0 && new.1 > old.1,
            Overlap::Before => new.0 < old.0,
            Overlap::Around => new.0 < old.0 && new.1 > old.1,
        }
    }
}

/// A run of bytes that came in one piece, as far as it counts.
#[derive(Clone, Debug)]
struct Piece {
    data: Vec<u8>,
    /// Beginning and end of what it came in.
    origin: (u64, u64),
    /// Anything else counts instead.
    is_doubtful: bool,
}

/// What became of a piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inserted {
    /// It overlaps another one.
    pub overlaps: bool,
    /// Both say something different there.
    pub differs: bool,
}

/// The pieces of one sequence, no two of which overlap any more.
#[derive(Clone, Debug, Default)]
pub struct Pieces {
    map: BTreeMap<u64, Piece>,
    bytes: usize,
}

impl Pieces {
    /// No piece.
    pub const fn new() -> Pieces {
        Pieces { map: BTreeMap::new(), bytes: 0 }
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Their bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What they take, in bytes: their own and [`PIECE_COST`] each.
    pub fn cost(&self) -> usize {
        self.bytes + self.map.len() * PIECE_COST
    }

    /// Where the first one begins.
    pub fn first(&self) -> Option<u64> {
        self.map.first_key_value().map(|(at, _)| *at)
    }

    /// Where the last one ends.
    pub fn end(&self) -> Option<u64> {
        self.map.last_key_value().map(|(at, piece)| at + piece.data.len() as u64)
    }

    /// The pieces in order: where each begins, and its bytes.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.map.iter().map(|(at, piece)| (*at, piece.data.as_slice()))
    }

    /// Puts in a piece. One that is doubtful, because its receiver may not have taken it, counts only where
    /// nothing else is.
    pub fn insert(&mut self, at: u64, data: &[u8], overlap: Overlap, is_doubtful: bool) -> Inserted {
        let end = at + data.len() as u64;
        let mut inserted = Inserted::default();
        // Pieces do not overlap: those that meet the new one end behind its beginning, the last first.
        let meeting: Vec<u64> = self
            .map
            .range(..end)
            .rev()
            .take_while(|(start, piece)| *start + piece.data.len() as u64 > at)
            .map(|(start, _)| *start)
            .collect();
        let mut from = at;
        for start in meeting.into_iter().rev() {
            let Some(old) = self.map.get(&start) else { continue };
            let old_end = start + old.data.len() as u64;
            let (first, last) = (start.max(at), old_end.min(end));
            inserted.overlaps = true;
            let said = &data[(first - at) as usize..(last - at) as usize];
            inserted.differs |= old.data[(first - start) as usize..(last - start) as usize] != *said;
            let replaces = match (old.is_doubtful, is_doubtful) {
                (true, false) => true,
                (false, true) => false,
                _ => overlap.replaces(old.origin, (at, end)),
            };
            if replaces {
                self.cut(start, first, last);
            } else {
                if from < first {
                    self.put(
                        from,
                        &data[(from - at) as usize..(first - at) as usize],
                        (at, end),
                        is_doubtful,
                    );
                }
                from = last;
            }
        }
        if from < end {
            self.put(from, &data[(from - at) as usize..], (at, end), is_doubtful);
        }
        inserted
    }

    fn put(&mut self, at: u64, data: &[u8], origin: (u64, u64), is_doubtful: bool) {
        self.bytes += data.len();
        self.map.insert(at, Piece { data: data.to_vec(), origin, is_doubtful });
    }

    /// Takes the bytes from `first` to `last` out of the piece that begins at `start`.
    fn cut(&mut self, start: u64, first: u64, last: u64) {
        let Some(mut piece) = self.map.remove(&start) else { return };
        self.bytes -= piece.data.len();
        let behind = (last - start) as usize;
        if behind < piece.data.len() {
            self.put(last, &piece.data[behind..], piece.origin, piece.is_doubtful);
        }
        if first > start {
            piece.data.truncate((first - start) as usize);
            self.bytes += piece.data.len();
            self.map.insert(start, piece);
        }
    }

    /// Takes out the first piece when it begins at `at` or before; where it begins and its bytes. Of a
    /// doubtful one, only what lies before `sure` is taken.
    pub fn take(&mut self, at: u64, sure: u64) -> Option<(u64, Vec<u8>)> {
        let entry = self.map.first_entry()?;
        let start = *entry.key();
        if start > at {
            return None;
        }
        let is_doubtful = entry.get().is_doubtful;
        if is_doubtful && sure <= start {
            return None;
        }
        let mut piece = entry.remove();
        self.bytes -= piece.data.len();
        let known = usize::try_from(sure.saturating_sub(start)).unwrap_or(usize::MAX);
        if is_doubtful && known < piece.data.len() {
            let rest = piece.data.split_off(known);
            self.put(sure, &rest, piece.origin, true);
        }
        Some((start, piece.data))
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.map.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A byte of the model: what it says, and what it came in.
    type Cell = Option<(u8, (u64, u64), bool)>;

    fn any_overlap() -> impl Strategy<Value = Overlap> {
        prop::sample::select(alloc::vec![
            Overlap::First,
            Overlap::Last,
            Overlap::Longer,
            Overlap::Before,
            Overlap::Around,
        ])
    }

    proptest! {
        /// Byte for byte, what an array of bytes holds that decides for each byte alone.
        #[test]
        fn equal_to_an_array_of_bytes(
            overlap in any_overlap(),
            inserts in prop::collection::vec((0usize..60, prop::collection::vec(any::<u8>(), 1..20), any::<bool>()), 1..20),
        ) {
            let mut cells: [Cell; 80] = [None; 80];
            let mut pieces = Pieces::new();
            for (at, data, is_doubtful) in inserts {
                let new = (at as u64, (at + data.len()) as u64);
                let mut expected = Inserted::default();
                for (cell, byte) in cells[at..].iter_mut().zip(&data) {
                    let wins = match cell {
                        None => true,
                        Some((old, origin, was_doubtful)) => {
                            expected.overlaps = true;
                            expected.differs |= old != byte;
                            if *was_doubtful == is_doubtful { overlap.replaces(*origin, new) } else { *was_doubtful }
                        }
                    };
                    if wins {
                        *cell = Some((*byte, new, is_doubtful));
                    }
                }
                prop_assert_eq!(pieces.insert(at as u64, &data, overlap, is_doubtful), expected);
                prop_assert_eq!(pieces.bytes(), cells.iter().flatten().count());
                prop_assert!(pieces.cost() <= pieces.bytes() * (1 + PIECE_COST));
            }
            let mut held: [Option<u8>; 80] = [None; 80];
            while let Some((at, data)) = pieces.take(u64::MAX, u64::MAX) {
                for (cell, byte) in held[at as usize..].iter_mut().zip(data) {
                    prop_assert!(cell.replace(byte).is_none());
                }
            }
            prop_assert_eq!(held, cells.map(|cell| cell.map(|(byte, ..)| byte)));
            prop_assert!(pieces.is_empty() && pieces.cost() == 0);
        }
    }

    #[test]
    fn what_is_doubtful_waits_until_it_is_sure() {
        let mut pieces = Pieces::new();
        pieces.insert(10, b"doubtful", Overlap::First, true);
        assert_eq!(pieces.take(10, 10), None);
        assert_eq!(pieces.take(10, 12), Some((10, b"do".to_vec())));
        assert_eq!(pieces.take(12, 12), None);
        assert!(pieces.insert(12, b"ABTFUL", Overlap::First, false).differs);
        assert_eq!(pieces.take(12, 12), Some((12, b"ABTFUL".to_vec())));
        assert_eq!(pieces.first(), None);
    }
}
