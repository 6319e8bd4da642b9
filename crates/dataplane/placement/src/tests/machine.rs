//! Chains that use what they get: a model of workers that share their core among the parts that have work.

use super::*;

/// Chains in a line, with so much work for each packet in each part.
pub(super) struct Machine {
    pub(super) graph: Graph,
    pub(super) placement: Placement,
    workers: usize,
    /// For each chain the part it begins with, and the cost of each part at a rate of one.
    chains: Vec<(usize, Vec<f64>)>,
    /// The rate of packets offered to each.
    pub(super) offered: Vec<f64>,
}

impl Machine {
    pub(super) fn new(costs: &[&[f64]], offered: f64, workers: usize) -> Machine {
        let graph = chains(&costs.iter().map(|costs| costs.len()).collect::<Vec<_>>());
        let mut first = 0;
        let chains = costs.iter().map(|costs| {
            first += costs.len();
            (first - costs.len(), costs.to_vec())
        });
        let chains: Vec<_> = chains.collect();
        let placement = place(&graph, workers);
        Machine { offered: vec![offered; chains.len()], placement, workers, chains, graph }
    }

    /// The rate of each chain: all grow alike until a core that they need is full.
    pub(super) fn rates(&self) -> Vec<f64> {
        self.rates_at(&self.homes())
    }

    /// The same with parts elsewhere.
    pub(super) fn rates_at(&self, homes: &[usize]) -> Vec<f64> {
        const STEP: f64 = 1.0 / 256.0;
        let mut rates = vec![0.0; self.chains.len()];
        let mut used = vec![0.0; self.workers];
        let mut grows = vec![true; self.chains.len()];
        while grows.contains(&true) {
            for (chain, (first, costs)) in self.chains.iter().enumerate() {
                let mut then = used.clone();
                for (part, cost) in costs.iter().enumerate() {
                    then[homes[first + part]] += cost * STEP;
                }
                let fits = then.iter().zip(&used).all(|(then, used)| then == used || *then <= 1.0);
                grows[chain] &= fits && rates[chain] + STEP <= self.offered[chain];
                if grows[chain] {
                    rates[chain] += STEP;
                    used = then;
                }
            }
        }
        rates
    }

    /// So many periods, measured by so much too much or too little; all moves.
    pub(super) fn run(&mut self, periods: usize, noise: f64, random: &mut Random) -> Vec<Move> {
        let mut rates = self.rates();
        let mut moves = Vec::new();
        for _ in 0..periods {
            let busy = self.busy(&rates, noise, random);
            if let Some(moved) = self.placement.observe(&busy) {
                moves.push(moved);
                rates = self.rates();
            }
        }
        moves
    }

    /// What each part is measured to use at these rates.
    pub(super) fn busy(&self, rates: &[f64], noise: f64, random: &mut Random) -> Vec<f64> {
        let chains = self
            .chains
            .iter()
            .zip(rates)
            .flat_map(|((_, costs), rate)| costs.iter().map(move |cost| cost * rate));
        chains.map(|busy| busy * (1.0 + noise * (2.0 * random.part() - 1.0))).collect()
    }

    pub(super) fn homes(&self) -> Vec<usize> {
        homes(&self.placement, &self.graph)
    }
}
