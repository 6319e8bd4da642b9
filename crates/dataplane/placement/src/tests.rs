//! Placements that are told loads, and what they do about it.

mod calm;
mod chains;
mod graphs;
mod greedy;
mod invariants;
mod machine;
mod quality;

use crate::{Graph, Kind, Move, Part, PartFacts, Placement, Reason};

/// Chains of functions without ports, of these lengths, numbered one after the other.
fn chains(lengths: &[usize]) -> Graph {
    let mut graph = Graph::default();
    for length in lengths {
        let first = graph.parts.len() as u32;
        graph.parts.extend((0..*length).map(|_| PartFacts::new(Kind::Instance)));
        graph.wires.extend((first..first + *length as u32).skip(1).map(|n| (Part(n - 1), Part(n))));
    }
    graph
}

fn place(graph: &Graph, workers: usize) -> Placement {
    Placement::new(graph, workers).expect("a graph that can be placed")
}

fn homes(placement: &Placement, graph: &Graph) -> Vec<usize> {
    (0..graph.parts.len() as u32).map(|part| placement.worker_of(Part(part))).collect()
}

/// Shows the same loads for so many periods; all moves.
fn steady(placement: &mut Placement, busy: &[f64], periods: usize) -> Vec<Move> {
    (0..periods).filter_map(|_| placement.observe(busy)).collect()
}

fn reasons(moves: &[Move]) -> Vec<Reason> {
    moves.iter().map(|moved| moved.why).collect()
}

/// Random numbers that a seed repeats (xorshift).
struct Random(u64);

impl Random {
    /// From 0 to 1.
    fn part(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}
