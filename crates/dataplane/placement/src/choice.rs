//! Which move is made, if any: relief, a cut, or a join.

use crate::cut::Cut;
use crate::piece::{Piece, Pieces};
use crate::settings::{CUT_GAIN, FULL, GAIN, HELP_GAIN, PIECE, SHORT, TOGETHER};
use crate::unit::Units;

/// Why something moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Its worker was short of time, and another was not.
    Relief,
    /// The same, and nothing could move as a whole: the other side of a wire stays behind.
    Cut,
    /// It was apart from what it is wired to, and there is room for both.
    Join,
    /// Its worker had no time left in a single period, in which another had.
    Help,
}

/// Units that move.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) units: Vec<usize>,
    pub(crate) to: usize,
    pub(crate) why: Reason,
}

/// Everything that a choice depends on.
pub(crate) struct View<'a> {
    pub(crate) units: &'a Units,
    pub(crate) pieces: &'a Pieces,
    /// By unit, and by worker.
    pub(crate) unit_loads: &'a [f64],
    pub(crate) loads: &'a [f64],
    /// Which components may move.
    pub(crate) may_move: &'a [bool],
    /// Which workers' loads can be relied on.
    pub(crate) is_measured: &'a [bool],
}

/// A choice with what speaks for it.
struct Rated {
    /// How busy the busier of both workers is afterwards, and something for the pieces.
    cost: f64,
    parts: usize,
    choice: Choice,
}

impl View<'_> {
    pub(crate) fn choose(&self) -> Option<Choice> {
        self.relieve().or_else(|| self.join())
    }

    /// Relieves the busiest worker that can be.
    fn relieve(&self) -> Option<Choice> {
        let is_short = |worker: &usize| self.loads[*worker] >= SHORT && self.is_measured[*worker];
        let mut short: Vec<usize> = (0..self.loads.len()).filter(is_short).collect();
        short.sort_by(|one, other| self.loads[*other].total_cmp(&self.loads[*one]));
        short.into_iter().find_map(|worker| {
            let whole = self.whole(worker, |piece| self.may_move[piece.component]);
            // What could move as a whole, but not yet, is waited for: it may make a cut needless.
            let must_cut = || self.is_measured.iter().all(|is| *is) && self.whole(worker, |_| true).is_none();
            whole.or_else(|| must_cut().then(|| self.cut(worker)).flatten())
        })
    }

    /// The best move of whole pieces away from a worker.
    fn whole(&self, from: usize, may_move: impl Fn(&Piece) -> bool) -> Option<Choice> {
        let least = self.least_busy(from)?;
        let movable =
            |piece: &&Piece| piece.worker == from && !piece.is_pinned && piece.load > 0.0 && may_move(piece);
        let movable: Vec<&Piece> = self.pieces.list.iter().filter(movable).collect();

        let ways = movable.iter().flat_map(|piece| {
            let beside = self.pieces.neighbours(piece).into_iter().filter(|to| *to != least);
            beside.chain([least]).map(|to| (*piece, to))
        });
        let rated = ways.filter_map(|(piece, to)| {
            let after = self.relieved(from, to, piece.load, GAIN)?;
            let met = self.pieces.met_by(piece, |_| true, to);
            let choice = Choice { units: piece.units.clone(), to, why: Reason::Relief };
            Some(self.rate(after - PIECE * met as f64, choice))
        });
        let one = rated.min_by(Rated::order);

        let (load, units) = self.half_the_difference(from, least, movable);
        let many = self.relieved(from, least, load, GAIN);
        let is_better = |after: &f64| one.as_ref().is_none_or(|one| *after + GAIN <= one.cost);
        match many.filter(is_better) {
            Some(_) => Some(Choice { units, to: least, why: Reason::Relief }),
            None => one.map(|one| one.choice),
        }
    }

    /// The best move of one side of a wire away from a worker.
    fn cut(&self, from: usize) -> Option<Choice> {
        let least = self.least_busy(from)?;
        let divisible = |piece: &&Piece| piece.worker == from && self.may_move[piece.component];
        let rated = self.pieces.list.iter().filter(divisible).flat_map(|piece| {
            let mut targets = self.pieces.neighbours(piece);
            if !targets.contains(&least) {
                targets.push(least);
            }
            let best = Cut::all(piece, self.units, self.unit_loads).flat_map(move |cut| {
                let targets = targets.clone();
                targets.into_iter().filter_map(move |to| Some((self.cost_of(&cut, piece, to)?, cut, to)))
            });
            let best =
                best.min_by(|(one, a, _), (other, b, _)| one.total_cmp(other).then(a.parts.cmp(&b.parts)));
            best.map(|(cost, cut, to)| {
                self.rate(cost, Choice { units: cut.units(piece), to, why: Reason::Cut })
            })
        });
        rated.min_by(Rated::order).map(|best| best.choice)
    }

    /// What a cut costs, if it may be made.
    fn cost_of(&self, cut: &Cut, piece: &Piece, to: usize) -> Option<f64> {
        let after = self.relieved(piece.worker, to, cut.load, CUT_GAIN)?;
        let met = self.pieces.met_by(piece, |place| cut.moves(place), to);
        let may_be_more = self.pieces.of_component[piece.component] < self.loads.len();
        (met > 0 || may_be_more).then_some(after + PIECE * (1.0 - met as f64))
    }

    /// Brings pieces of a torn component together where there is room: a piece to one beside it, or else all
    /// of the component to a worker where nothing of it need be.
    fn join(&self) -> Option<Choice> {
        if !self.pieces.are_torn() {
            return None;
        }
        let movable = |piece: &&Piece| {
            !piece.is_pinned && self.may_move[piece.component] && self.is_measured[piece.worker]
        };
        let one = self.pieces.list.iter().filter(movable).flat_map(|piece| {
            let beside = self.pieces.neighbours(piece).into_iter().filter(|to| self.is_measured[*to]);
            let fits = beside.filter(|to| self.loads[*to] + piece.load <= TOGETHER);
            fits.map(|to| {
                let choice = Choice { units: piece.units.clone(), to, why: Reason::Join };
                self.rate(piece.load, choice)
            })
        });
        one.min_by(Rated::order).or_else(|| self.gather()).map(|best| best.choice)
    }

    /// The least of what brings all of a torn component together.
    fn gather(&self) -> Option<Rated> {
        let mut torn: Vec<Vec<&Piece>> = vec![Vec::new(); self.units.components.len()];
        for piece in &self.pieces.list {
            torn[piece.component].push(piece);
        }
        torn.retain(|pieces| {
            let movable = |piece: &&Piece| {
                !piece.is_pinned && self.may_move[piece.component] && self.is_measured[piece.worker]
            };
            pieces.len() > 1 && pieces.iter().all(movable)
        });
        let ways = torn.iter().flat_map(|pieces| (0..self.loads.len()).map(move |to| (pieces, to)));
        let rated = ways.filter_map(|(pieces, to)| {
            let absent: Vec<_> = pieces.iter().filter(|piece| piece.worker != to).collect();
            let load: f64 = absent.iter().map(|piece| piece.load).sum();
            let fits = self.is_measured[to] && self.loads[to] + load <= TOGETHER;
            fits.then(|| {
                let units = absent.iter().flat_map(|piece| piece.units.iter().copied()).collect();
                self.rate(load, Choice { units, to, why: Reason::Join })
            })
        });
        rated.min_by(Rated::order)
    }

    /// Whole components from a worker that is full to the one with most time to spare: the one, or the few,
    /// that leave the busier of both least busy.
    pub(crate) fn help(&self) -> Option<Choice> {
        let full = |worker: &usize| self.loads[*worker] >= FULL && self.is_measured[*worker];
        let from = (0..self.loads.len()).filter(full);
        let from = from.max_by(|one, other| self.loads[*one].total_cmp(&self.loads[*other]))?;
        let to = self.least_busy(from)?;
        let movable = |piece: &&Piece| {
            piece.worker == from
                && !piece.is_pinned
                && piece.load > 0.0
                && self.may_move[piece.component]
                && self.pieces.of_component[piece.component] == 1
        };
        let movable: Vec<&Piece> = self.pieces.list.iter().filter(movable).collect();
        let mut ways: Vec<_> = movable.iter().map(|piece| (piece.load, piece.units.clone())).collect();
        ways.push(self.half_the_difference(from, to, movable));
        let relieved = |(load, units)| Some((self.relieved(from, to, load, HELP_GAIN)?, units));
        let best = ways.into_iter().filter_map(relieved);
        let (_, units) = best.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
        Some(Choice { units, to, why: Reason::Help })
    }

    /// Half of the difference between two workers, in as few of these pieces as make it up: their load, and
    /// their units.
    fn half_the_difference(&self, from: usize, to: usize, mut pieces: Vec<&Piece>) -> (f64, Vec<usize>) {
        pieces.sort_by(|one, other| other.load.total_cmp(&one.load));
        let (mut load, mut units) = (0.0, Vec::new());
        for piece in pieces {
            if load + piece.load <= (self.loads[from] - self.loads[to]) / 2.0 {
                load += piece.load;
                units.extend(&piece.units);
            }
        }
        (load, units)
    }

    /// How busy the busier of two workers is after some load has moved, if that is better by some gain.
    fn relieved(&self, from: usize, to: usize, load: f64, gain: f64) -> Option<f64> {
        let after = (self.loads[from] - load).max(self.loads[to] + load);
        let may_be = from != to && self.is_measured[to];
        (may_be && after <= self.loads[from] - gain).then_some(after)
    }

    fn least_busy(&self, except: usize) -> Option<usize> {
        let others = (0..self.loads.len()).filter(|worker| *worker != except && self.is_measured[*worker]);
        others.min_by(|one, other| self.loads[*one].total_cmp(&self.loads[*other]))
    }

    fn rate(&self, cost: f64, choice: Choice) -> Rated {
        let parts = choice.units.iter().map(|unit| self.units.list[*unit].parts.len()).sum();
        Rated { cost, parts, choice }
    }
}

impl Rated {
    /// The cheapest first, among equals the smallest.
    fn order(&self, other: &Rated) -> std::cmp::Ordering {
        self.cost.total_cmp(&other.cost).then(self.parts.cmp(&other.parts))
    }
}
