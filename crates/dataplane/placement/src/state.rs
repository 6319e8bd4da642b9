//! The state machine.

use crate::choice::{Choice, Reason, View};
use crate::cooldown::Cooldown;
use crate::error::GraphFault;
use crate::graph::{Graph, Part};
use crate::initial;
use crate::load::Loads;
use crate::piece::Pieces;
use crate::settings::{FULL, SHORT, SOON, UNMEASURED};
use crate::unit::Units;

/// Parts that move to another worker, all at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// In ascending order; none of them is there yet.
    pub parts: Vec<Part>,
    /// Where they are from now on.
    pub to: usize,
    /// Why they move.
    pub why: Reason,
}

/// The assignment of parts to workers.
#[derive(Clone, Debug)]
pub struct Placement {
    units: Units,
    /// The worker of each unit.
    homes: Vec<usize>,
    loads: Loads,
    /// By worker, as of the last period.
    busy: Vec<f64>,
    /// By component.
    cooldowns: Vec<Cooldown>,
    /// By worker: from when on its load can be relied on.
    measured_from: Vec<u64>,
    /// By worker: from when on what it did in a single period can be.
    seen: Vec<u64>,
    /// Periods observed.
    now: u64,
    /// The units that moved last, and where from.
    moved: Vec<(usize, usize)>,
}

impl Placement {
    /// Gives each part a worker, from 0 to one less than there are.
    ///
    /// # Errors
    /// [`GraphFault`]: something is named that does not exist, or pins are against each other.
    pub fn new(graph: &Graph, workers: usize) -> Result<Placement, GraphFault> {
        let units = Units::new(graph, workers)?;
        Ok(Placement {
            homes: initial::place(&units, workers),
            loads: Loads::new(graph.parts.len()),
            busy: vec![0.0; workers],
            cooldowns: vec![Cooldown::default(); units.components.len()],
            measured_from: vec![UNMEASURED; workers],
            seen: vec![SOON; workers],
            now: 0,
            moved: Vec::new(),
            units,
        })
    }

    /// Where a part is.
    ///
    /// # Panics
    /// If the graph has no such part.
    pub fn worker_of(&self, part: Part) -> usize {
        self.homes[self.units.of_part[part.index()]]
    }

    /// How much of its core a worker uses, without the noise of single periods.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn load_of(&self, worker: usize) -> f64 {
        self.busy[worker]
    }

    /// Whether parts that wires connect are on different workers.
    pub fn is_torn(&self) -> bool {
        let apart = |(unit, home): (usize, &usize)| {
            self.units.list[unit].beside.iter().any(|other| self.homes[*other] != *home)
        };
        self.homes.iter().enumerate().any(apart)
    }

    /// Takes in how much of a core each part used in the last period, from 0 to 1, in the order of the parts,
    /// and says which parts move. From then on [`Placement::worker_of`] says where they are.
    ///
    /// # Panics
    /// If there is not one figure for each part.
    pub fn observe(&mut self, busy: &[f64]) -> Option<Move> {
        assert_eq!(busy.len(), self.units.of_part.len(), "there is one figure for each part");
        self.now += 1;
        self.loads.observe(busy);
        let of_unit = |parts: &[Part]| parts.iter().map(|part| self.loads.of(part.index())).sum();
        let unit_loads: Vec<f64> = self.units.list.iter().map(|unit| of_unit(&unit.parts)).collect();
        self.busy.fill(0.0);
        for (home, load) in self.homes.iter().zip(&unit_loads) {
            self.busy[*home] += load;
        }
        self.moved.clear();
        if !self.is_torn() && self.busy.iter().all(|load| *load < SHORT) {
            return None;
        }

        let may_move: Vec<bool> = self.cooldowns.iter().map(|cooldown| cooldown.is_over(self.now)).collect();
        let is_measured: Vec<bool> = self.measured_from.iter().map(|from| self.now >= *from).collect();
        let choice = View {
            units: &self.units,
            pieces: &Pieces::new(&self.units, &self.homes, &unit_loads),
            unit_loads: &unit_loads,
            loads: &self.busy,
            may_move: &may_move,
            is_measured: &is_measured,
        }
        .choose()?;
        Some(self.carry_out(choice))
    }

    /// Says which parts move because of the load of the last period alone: whole components, from a worker
    /// without any time left to one that had enough for what they used. For callers that observe so often
    /// that help for a moment pays. `None` when the last observation has led to a move already.
    pub fn help(&mut self) -> Option<Move> {
        if !self.moved.is_empty() {
            return None;
        }
        let of_unit = |parts: &[Part]| parts.iter().map(|part| self.loads.last_of(part.index())).sum();
        let unit_loads: Vec<f64> = self.units.list.iter().map(|unit| of_unit(&unit.parts)).collect();
        let mut loads = vec![0.0; self.busy.len()];
        for (home, load) in self.homes.iter().zip(&unit_loads) {
            loads[*home] += load;
        }
        if loads.iter().all(|load| *load < FULL) {
            return None;
        }
        let may_move: Vec<bool> = self.cooldowns.iter().map(|cooldown| cooldown.is_over(self.now)).collect();
        let is_measured: Vec<bool> = self.seen.iter().map(|from| self.now >= *from).collect();
        let choice = View {
            units: &self.units,
            pieces: &Pieces::new(&self.units, &self.homes, &unit_loads),
            unit_loads: &unit_loads,
            loads: &loads,
            may_move: &may_move,
            is_measured: &is_measured,
        }
        .help()?;
        Some(self.carry_out(choice))
    }

    /// Takes back the move that the last observation led to: it could not be carried out. Others may move
    /// instead; the same parts are tried again when they have stayed where they are for a while. Without
    /// effect when there was none.
    pub fn refused(&mut self) {
        for (unit, from) in self.moved.drain(..) {
            let to = std::mem::replace(&mut self.homes[unit], from);
            self.measured_from[from] = self.now;
            self.measured_from[to] = self.now;
        }
    }

    fn carry_out(&mut self, choice: Choice) -> Move {
        let Choice { units, to, why } = choice;
        let mut parts = Vec::new();
        let mut components = Vec::new();
        for unit in units {
            let from = std::mem::replace(&mut self.homes[unit], to);
            self.moved.push((unit, from));
            self.measured_from[from] = self.now + UNMEASURED;
            self.seen[from] = self.now + SOON;
            parts.extend(&self.units.list[unit].parts);
            components.push(self.units.list[unit].component);
        }
        self.measured_from[to] = self.now + UNMEASURED;
        self.seen[to] = self.now + SOON;
        components.sort_unstable();
        components.dedup();
        for component in components {
            let cooldown = &mut self.cooldowns[component];
            if why == Reason::Help { cooldown.helped(self.now) } else { cooldown.moved(self.now) }
        }
        parts.sort_unstable();
        Move { parts, to, why }
    }
}
