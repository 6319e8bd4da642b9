//! What can only move as one, and what is better off together.

use crate::error::GraphFault;
use crate::graph::{Graph, Kind, Part};
use std::collections::BTreeMap;

/// Parts that are never apart.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    /// In ascending order.
    pub(crate) parts: Vec<Part>,
    pub(crate) instances: usize,
    pub(crate) pinned: Option<usize>,
    /// Where it is already.
    pub(crate) at: Option<usize>,
    /// Units that wires lead to, in ascending order.
    pub(crate) beside: Vec<usize>,
    pub(crate) component: usize,
}

/// All units of a graph.
#[derive(Clone, Debug)]
pub(crate) struct Units {
    pub(crate) list: Vec<Unit>,
    pub(crate) of_part: Vec<usize>,
    /// Units that wires connect.
    pub(crate) components: Vec<Vec<usize>>,
}

impl Units {
    pub(crate) fn new(graph: &Graph, workers: usize) -> Result<Units, GraphFault> {
        check(graph, workers)?;
        let mut units = glue(graph, workers)?;
        units.wire(graph);
        units.find_components();
        Ok(units)
    }

    fn wire(&mut self, graph: &Graph) {
        // A pinned port is served apart from what it feeds.
        let is_apart = |unit: &Unit| unit.instances == 0 && unit.pinned.is_some();
        for (one, other) in &graph.wires {
            let (one, other) = (self.of_part[one.index()], self.of_part[other.index()]);
            if one != other && !is_apart(&self.list[one]) && !is_apart(&self.list[other]) {
                self.list[one].beside.push(other);
                self.list[other].beside.push(one);
            }
        }
        for unit in &mut self.list {
            unit.beside.sort_unstable();
            unit.beside.dedup();
        }
    }

    fn find_components(&mut self) {
        let mut found = vec![false; self.list.len()];
        for first in 0..self.list.len() {
            if std::mem::replace(&mut found[first], true) {
                continue;
            }
            let component = self.components.len();
            let mut members = vec![first];
            let mut next = 0;
            while let Some(&unit) = members.get(next) {
                next += 1;
                self.list[unit].component = component;
                for &other in &self.list[unit].beside {
                    if !std::mem::replace(&mut found[other], true) {
                        members.push(other);
                    }
                }
            }
            self.components.push(members);
        }
    }
}

/// Whether everything that is named exists.
fn check(graph: &Graph, workers: usize) -> Result<(), GraphFault> {
    if workers == 0 {
        return Err(GraphFault::NoWorkers);
    }
    let count = graph.parts.len();
    for &(one, other) in graph.wires.iter().chain(&graph.together) {
        for part in [one, other] {
            if graph.facts(part).is_none() {
                return Err(GraphFault::NoSuchPart { part, count });
            }
        }
    }
    for (part, facts) in (0..).map(Part).zip(&graph.parts) {
        if let Some(worker) = facts.pinned.filter(|worker| *worker >= workers) {
            return Err(GraphFault::NoSuchWorker { part, worker, workers });
        }
    }
    Ok(())
}

/// Makes units of parts that must stay together, and of functions with their ports.
fn glue(graph: &Graph, workers: usize) -> Result<Units, GraphFault> {
    let mut groups = Groups((0..graph.parts.len()).collect());
    for (one, other) in &graph.together {
        groups.unite(one.index(), other.index());
    }
    let mut is_fed = vec![false; graph.parts.len()];
    for &(one, other) in &graph.wires {
        for (port, function) in [(one.index(), other.index()), (other.index(), one.index())] {
            let [ends, feeds] = [port, function].map(|part| graph.parts[part]);
            let goes_along = ends.kind == Kind::Port && ends.pinned.is_none() && feeds.kind == Kind::Instance;
            if goes_along && !std::mem::replace(&mut is_fed[port], true) {
                groups.unite(port, function);
            }
        }
    }

    let mut units = Units { list: Vec::new(), of_part: Vec::new(), components: Vec::new() };
    let mut of_group = BTreeMap::new();
    for (part, facts) in (0..).map(Part).zip(&graph.parts) {
        let number = *of_group.entry(groups.group(part.index())).or_insert(units.list.len());
        if number == units.list.len() {
            let (parts, beside) = (Vec::new(), Vec::new());
            units.list.push(Unit { parts, instances: 0, pinned: None, at: None, beside, component: 0 });
        }
        let unit = &mut units.list[number];
        if let (Some(here), Some(there)) = (facts.pinned, unit.pinned)
            && here != there
        {
            let pinned = |other: &&Part| graph.parts[other.index()].pinned.is_some();
            let one = unit.parts.iter().find(pinned).copied().unwrap_or(part);
            return Err(GraphFault::PinnedApart { one, other: part });
        }
        unit.pinned = unit.pinned.or(facts.pinned);
        unit.at = unit.at.or(facts.at.filter(|worker| *worker < workers));
        unit.instances += usize::from(facts.kind == Kind::Instance);
        unit.parts.push(part);
        units.of_part.push(number);
    }
    Ok(units)
}

/// Disjoint sets: each part names another of its set, up to one that names itself.
struct Groups(Vec<usize>);

impl Groups {
    fn group(&mut self, mut part: usize) -> usize {
        while self.0[part] != part {
            self.0[part] = self.0[self.0[part]];
            part = self.0[part];
        }
        part
    }

    fn unite(&mut self, one: usize, other: usize) {
        let (one, other) = (self.group(one), self.group(other));
        self.0[one.max(other)] = one.min(other);
    }
}
