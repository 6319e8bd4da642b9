//! Moves come to an end, and what they lead to is not far from the best.

use super::*;
use crate::load::Loads;
use proptest::prelude::*;

/// How busy the busiest worker is in the best placement of whole components, by trying them all.
fn best(loads: &[f64], workers: usize) -> f64 {
    let ways = workers.pow(loads.len() as u32);
    let busiest = |way: usize| {
        let mut used = vec![0.0; workers];
        loads.iter().fold(way, |way, load| {
            used[way % workers] += load;
            way / workers
        });
        used.into_iter().fold(0.0, f64::max)
    };
    (0..ways).map(busiest).fold(f64::INFINITY, f64::min)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn steady_loads_come_to_rest_not_far_from_the_best(
        components in prop::collection::vec(prop::collection::vec(0.0f64..0.6, 1..4), 1..=8),
        start in prop::collection::vec(0usize..3, 24),
        workers in 2usize..=3,
    ) {
        let mut graph = chains(&components.iter().map(Vec::len).collect::<Vec<_>>());
        for (facts, start) in graph.parts.iter_mut().zip(start) {
            facts.at = Some(start % workers);
        }
        let mut placement = place(&graph, workers);
        let busy: Vec<f64> = components.iter().flatten().copied().collect();
        steady(&mut placement, &busy, 6_000);
        prop_assert_eq!(steady(&mut placement, &busy, 6_000), []);

        let busiest = (0..workers).map(|worker| placement.load_of(worker)).fold(0.0, f64::max);
        let sums: Vec<f64> = components.iter().map(|loads| loads.iter().sum()).collect();
        let best = best(&sums, workers);
        let factor = 2.0 * workers as f64 / (workers as f64 + 1.0);
        prop_assert!(busiest <= (factor * best + 0.1).max(0.8), "{} instead of {}", busiest, best);
    }

    #[test]
    fn a_move_makes_the_busier_of_both_less_busy_or_joins_where_there_is_room(
        components in prop::collection::vec(prop::collection::vec(0.0f64..0.6, 1..4), 1..=8),
        workers in 2usize..=4,
        seed in 1u64..,
    ) {
        let graph = chains(&components.iter().map(Vec::len).collect::<Vec<_>>());
        let mut placement = place(&graph, workers);
        let mut smooth = Loads::new(graph.parts.len());
        let mut random = Random(seed);
        let mut busy: Vec<f64> = components.into_iter().flatten().collect();
        for period in 0..600 {
            if period % 60 == 0 {
                busy.iter_mut().for_each(|busy| *busy = 0.6 * random.part());
            }
            let before = homes(&placement, &graph);
            smooth.observe(&busy);
            let Some(moved) = placement.observe(&busy) else { continue };
            let used = |homes: &[usize], worker: usize| -> f64 {
                (0..homes.len()).filter(|part| homes[*part] == worker).map(|part| smooth.of(part)).sum()
            };
            let after = homes(&placement, &graph);
            let there = used(&after, moved.to);
            for from in moved.parts.iter().map(|part| before[part.index()]) {
                let (was, is) = (used(&before, from), used(&after, from));
                let at_least = |gain: f64| was >= 0.8 && is.max(there) <= was - gain + 1e-9;
                match moved.why {
                    Reason::Relief | Reason::Help => prop_assert!(at_least(0.1), "{} to {} and {}", was, is, there),
                    Reason::Cut => prop_assert!(at_least(0.15), "{} to {} and {}", was, is, there),
                    Reason::Join => prop_assert!(there <= 0.6 + 1e-9, "{}", there),
                }
            }
        }
    }
}
