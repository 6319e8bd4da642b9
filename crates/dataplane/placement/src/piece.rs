//! Connected units of one component that are on one worker.

use crate::unit::Units;

/// A piece.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    /// Along a spanning tree from its first unit on: the units that hang from a unit follow it without a gap.
    pub(crate) units: Vec<usize>,
    /// For each of them the end of those that hang from it.
    pub(crate) ends: Vec<usize>,
    pub(crate) worker: usize,
    pub(crate) component: usize,
    /// Whether any of its units is.
    pub(crate) is_pinned: bool,
    pub(crate) load: f64,
    /// Places of units that a wire leads away from, and the pieces that it leads to.
    pub(crate) borders: Vec<(usize, usize)>,
}

/// All pieces.
#[derive(Clone, Debug)]
pub(crate) struct Pieces {
    pub(crate) list: Vec<Piece>,
    /// How many each component has.
    pub(crate) of_component: Vec<usize>,
}

impl Pieces {
    pub(crate) fn new(units: &Units, homes: &[usize], loads: &[f64]) -> Pieces {
        let mut pieces = Pieces { list: Vec::new(), of_component: vec![0; units.components.len()] };
        let mut of_unit = vec![None; units.list.len()];
        for first in 0..units.list.len() {
            if of_unit[first].is_none() {
                let piece = grow(first, pieces.list.len(), units, homes, loads, &mut of_unit);
                pieces.of_component[piece.component] += 1;
                pieces.list.push(piece);
            }
        }
        for (number, piece) in pieces.list.iter_mut().enumerate() {
            for (place, unit) in piece.units.iter().enumerate() {
                let others = units.list[*unit].beside.iter().filter_map(|other| of_unit[*other]);
                piece.borders.extend(others.filter(|other| *other != number).map(|other| (place, other)));
            }
        }
        pieces
    }

    /// Whether any component is torn.
    pub(crate) fn are_torn(&self) -> bool {
        self.list.len() > self.of_component.len()
    }

    /// The workers of those that are beside a piece.
    pub(crate) fn neighbours(&self, piece: &Piece) -> Vec<usize> {
        let mut workers: Vec<usize> =
            piece.borders.iter().map(|(_, other)| self.list[*other].worker).collect();
        workers.sort_unstable();
        workers.dedup();
        workers
    }

    /// How many pieces on a worker some units of a piece would become one with.
    pub(crate) fn met_by(&self, piece: &Piece, moves: impl Fn(usize) -> bool, worker: usize) -> usize {
        let met = piece.borders.iter().filter(|(place, _)| moves(*place)).map(|(_, other)| *other);
        let mut met: Vec<usize> = met.filter(|other| self.list[*other].worker == worker).collect();
        met.sort_unstable();
        met.dedup();
        met.len()
    }
}

/// The piece that a unit belongs to, by a search into the depth.
fn grow(
    first: usize,
    number: usize,
    units: &Units,
    homes: &[usize],
    loads: &[f64],
    of_unit: &mut [Option<usize>],
) -> Piece {
    let (worker, component) = (homes[first], units.list[first].component);
    let (mut members, mut parents) = (Vec::new(), Vec::new());
    let mut ways = vec![(first, 0)];
    while let Some((unit, parent)) = ways.pop() {
        if of_unit[unit].is_some() {
            continue;
        }
        of_unit[unit] = Some(number);
        let place = members.len();
        members.push(unit);
        parents.push(parent);
        let beside = units.list[unit].beside.iter();
        let here = beside.filter(|other| homes[**other] == worker && of_unit[**other].is_none());
        ways.extend(here.map(|other| (*other, place)));
    }
    let mut ends: Vec<usize> = (1..=members.len()).collect();
    for place in (1..members.len()).rev() {
        ends[parents[place]] = ends[parents[place]].max(ends[place]);
    }
    let is_pinned = members.iter().any(|unit| units.list[*unit].pinned.is_some());
    let load = members.iter().map(|unit| loads[*unit]).sum();
    Piece { units: members, ends, worker, component, is_pinned, load, borders: Vec::new() }
}
