//! Copies of segments that came before what precedes them.

use alloc::vec::Vec;

/// Most segments that one direction of a connection holds.
const MAX_SEGMENTS: usize = 64;

/// Why a segment is not held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Too much is held already, or it lies too far ahead.
    NoRoom,
}

/// What one direction holds: segments by sequence number.
#[derive(Debug, Default)]
struct Held {
    segments: Vec<(u32, Vec<u8>)>,
    bytes: usize,
}

/// All held segments.
#[derive(Debug)]
pub struct Reorder {
    list: Vec<Held>,
    free: Vec<u32>,
    /// Most bytes of one direction, and of all.
    limits: (usize, usize),
    bytes: usize,
}

impl Reorder {
    /// Room for so many bytes of one direction, and of all.
    pub fn new(of_one: usize, of_all: usize) -> Reorder {
        Reorder { list: Vec::new(), free: Vec::new(), limits: (of_one, of_all), bytes: 0 }
    }

    /// Bytes that are held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Holds a copy. `number` is the direction's, counted from 1, and is set when it held nothing before;
    /// `next` is the sequence number that it waits for.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn hold(&mut self, number: &mut u32, next: u32, seq: u32, data: &[u8]) -> Result<(), Refusal> {
        let ahead = seq.wrapping_sub(next) as usize + data.len();
        if ahead > self.limits.0 || self.bytes + data.len() > self.limits.1 {
            return Err(Refusal::NoRoom);
        }
        if *number == 0 {
            let free = self.free.pop().unwrap_or_else(|| {
                self.list.push(Held::default());
                self.list.len() as u32 - 1
            });
            *number = free + 1;
        }
        let held = &mut self.list[*number as usize - 1];
        let order = |other: &(u32, Vec<u8>)| other.0.wrapping_sub(next) <= seq.wrapping_sub(next);
        let place = held.segments.partition_point(order);
        // The same segment again adds nothing: what came first counts.
        if let Some((before, bytes)) = place.checked_sub(1).map(|before| &held.segments[before])
            && *before == seq
            && bytes.len() >= data.len()
        {
            return Ok(());
        }
        if held.segments.len() >= MAX_SEGMENTS || held.bytes + data.len() > self.limits.0 {
            return Err(Refusal::NoRoom);
        }
        held.segments.insert(place, (seq, data.to_vec()));
        held.bytes += data.len();
        self.bytes += data.len();
        Ok(())
    }

    /// Where the first held segment begins.
    pub fn first(&self, number: u32) -> Option<u32> {
        let held = self.list.get((number as usize).checked_sub(1)?)?;
        held.segments.first().map(|(seq, _)| *seq)
    }

    /// The first held segment that begins at `next` or before.
    pub fn due(&mut self, number: u32, next: u32) -> Option<(u32, Vec<u8>)> {
        let held = self.list.get_mut((number as usize).checked_sub(1)?)?;
        let (seq, _) = held.segments.first()?;
        if seq.wrapping_sub(next) as i32 > 0 {
            return None;
        }
        let segment = held.segments.remove(0);
        held.bytes -= segment.1.len();
        self.bytes -= segment.1.len();
        Some(segment)
    }

    /// Gives a direction's place back with what it holds; how many segments that were.
    pub fn give_back(&mut self, number: &mut u32) -> usize {
        let Some(place) = (*number as usize).checked_sub(1) else { return 0 };
        let held = core::mem::take(&mut self.list[place]);
        self.bytes -= held.bytes;
        self.free.push(place as u32);
        *number = 0;
        held.segments.len()
    }

    /// Gives the place back when nothing is held there.
    pub fn tidy(&mut self, number: &mut u32) {
        if self.list.get((*number as usize).wrapping_sub(1)).is_some_and(|held| held.segments.is_empty()) {
            self.give_back(number);
        }
    }
}
