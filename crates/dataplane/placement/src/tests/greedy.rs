//! What `docs/decisions/056-balancing-keeps-its-calm.md` compares: whole components placed greedily, and a
//! chain cut where that pays, without smoothing, cooldown and hysteresis.

use super::machine::Machine;
use super::*;

const SHORT: f64 = 0.8;
const GAIN: f64 = 0.1;
/// Each period shows so much too much or too little, as bursts do.
const NOISE: f64 = 0.5;
const PERIODS: usize = 300;

fn loads(homes: &[usize], busy: &[f64], workers: usize) -> Vec<f64> {
    let mut loads = vec![0.0; workers];
    homes.iter().zip(busy).for_each(|(home, busy)| loads[*home] += busy);
    loads
}

fn busiest(homes: &[usize], busy: &[f64], workers: usize) -> f64 {
    loads(homes, busy, workers).into_iter().fold(0.0, f64::max)
}

/// Where the parts of chains of these lengths are to be, by what they used in one period: unless that makes
/// the busiest worker less busy by [`GAIN`] they stay.
fn greedy(lengths: &[usize], busy: &[f64], before: &[usize], workers: usize) -> Vec<usize> {
    let least =
        |loads: &[f64]| (0..loads.len()).min_by(|a, b| loads[*a].total_cmp(&loads[*b])).expect("a worker");
    let mut chains: Vec<std::ops::Range<usize>> = Vec::new();
    for length in lengths {
        let first = chains.last().map_or(0, |chain| chain.end);
        chains.push(first..first + length);
    }
    chains.sort_by(|a, b| busy[b.clone()].iter().sum::<f64>().total_cmp(&busy[a.clone()].iter().sum()));
    let (mut homes, mut loads) = (before.to_vec(), vec![0.0; workers]);
    for chain in &chains {
        let home = least(&loads);
        loads[home] += busy[chain.clone()].iter().sum::<f64>();
        homes[chain.clone()].fill(home);
    }
    // The one cut that helps most, if one does.
    let whole = busiest(&homes, busy, workers);
    if whole >= SHORT {
        let cuts = chains.iter().flat_map(|chain| (chain.start + 1..chain.end).map(|at| (at, chain.end)));
        let cut = cuts.map(|(at, end)| {
            let mut cut = homes.clone();
            cut[at..end].fill(least(&loads));
            cut
        });
        let best = cut.min_by(|a, b| busiest(a, busy, workers).total_cmp(&busiest(b, busy, workers)));
        homes = best.filter(|cut| busiest(cut, busy, workers) <= whole - GAIN).unwrap_or(homes);
    }
    if busiest(&homes, busy, workers) <= busiest(before, busy, workers) - GAIN {
        homes
    } else {
        before.to_vec()
    }
}

/// What both come to once each has had its time: parts moved, and the packets that pass, which cost nothing
/// to move here.
#[test]
fn placed_greedily_parts_move_with_every_burst() {
    let (mut random, mut moved, mut passed) = (Random(7), [0, 0], [0.0, 0.0]);
    for case in 0..24 {
        let workers = 2 + case % 2;
        let costs: Vec<Vec<f64>> = (0..2 + case % 5)
            .map(|_| (0..1 + (4.0 * random.part()) as usize).map(|_| 0.05 + 0.45 * random.part()).collect())
            .collect();
        let lengths: Vec<usize> = costs.iter().map(Vec::len).collect();
        let costs: Vec<&[f64]> = costs.iter().map(Vec::as_slice).collect();
        let mut machine = Machine::new(&costs, 0.4 + 2.0 * random.part(), workers);
        let mut homes = machine.homes();
        for measured in [false, true] {
            let mut rates = machine.rates_at(&homes);
            for _ in 0..PERIODS {
                let busy = machine.busy(&rates, NOISE, &mut random);
                if busiest(&homes, &busy, workers) >= SHORT {
                    let next = greedy(&lengths, &busy, &homes, workers);
                    let moves = next.iter().zip(&homes).filter(|(next, home)| next != home).count();
                    if moves > 0 {
                        homes = next;
                        rates = machine.rates_at(&homes);
                        moved[0] += if measured { moves } else { 0 };
                    }
                }
                passed[0] += if measured { rates.iter().sum() } else { 0.0 };
            }
        }
        machine.run(PERIODS, NOISE, &mut random);
        for _ in 0..PERIODS {
            moved[1] +=
                machine.run(1, NOISE, &mut random).iter().map(|moved| moved.parts.len()).sum::<usize>();
            passed[1] += machine.rates().iter().sum::<f64>();
        }
    }
    let percent = passed[0] * 100.0 / passed[1];
    println!(
        "greedy: {} parts moved, {percent:.1}% of the packets; as it is: {} parts moved",
        moved[0], moved[1]
    );
    assert!(moved[0] > 100 * moved[1].max(1), "{moved:?}");
}
