//! Ways to divide a piece in two, each side connected.

use crate::piece::Piece;
use crate::unit::Units;

/// One side of a wire of a piece's spanning tree: the side that would move.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// Places in the piece of those beyond the wire.
    start: usize,
    end: usize,
    /// Whether those move, or all others.
    moves_beyond: bool,
    /// What moves.
    pub(crate) load: f64,
    pub(crate) parts: usize,
}

impl Cut {
    /// All ways, each with a side that may move.
    pub(crate) fn all<'a>(
        piece: &'a Piece,
        units: &'a Units,
        loads: &'a [f64],
    ) -> impl Iterator<Item = Cut> + 'a {
        // Load, parts and pins up to each place.
        let mut sums = vec![(0.0, 0, 0)];
        sums.extend(piece.units.iter().scan((0.0, 0, 0), |(load, parts, pins), unit| {
            *load += loads[*unit];
            *parts += units.list[*unit].parts.len();
            *pins += usize::from(units.list[*unit].pinned.is_some());
            Some((*load, *parts, *pins))
        }));
        (1..piece.units.len()).flat_map(move |start| {
            let (end, all) = (piece.ends[start], piece.units.len());
            let load = sums[end].0 - sums[start].0;
            let parts = sums[end].1 - sums[start].1;
            let pins = sums[end].2 - sums[start].2;
            let beyond = (pins == 0).then_some(Cut { start, end, moves_beyond: true, load, parts });
            let rest =
                Cut { start, end, moves_beyond: false, load: sums[all].0 - load, parts: sums[all].1 - parts };
            [beyond, (pins == sums[all].2).then_some(rest)].into_iter().flatten()
        })
    }

    /// Whether the unit at a place of the piece moves.
    pub(crate) fn moves(&self, place: usize) -> bool {
        (self.start..self.end).contains(&place) == self.moves_beyond
    }

    /// The units that move.
    pub(crate) fn units(&self, piece: &Piece) -> Vec<usize> {
        let places = piece.units.iter().enumerate();
        places.filter(|(place, _)| self.moves(*place)).map(|(_, unit)| *unit).collect()
    }
}
