//! Nothing moves without need.

use super::machine::Machine;
use super::*;
use crate::cooldown::Cooldown;
use crate::settings::COOLDOWN;
use proptest::prelude::*;

#[test]
fn nothing_moves_while_no_worker_is_short() {
    let mut graph = chains(&[1, 1, 2]);
    graph.parts.iter_mut().for_each(|facts| facts.at = Some(1));
    let mut placement = place(&graph, 3);
    assert_eq!(steady(&mut placement, &[0.25, 0.25, 0.2, 0.09], 500), []);
    assert!((placement.load_of(1) - 0.79).abs() < 1e-9);
    assert_eq!(placement.load_of(0), 0.0);
}

#[test]
fn many_small_ones_move_at_once() {
    let mut graph = chains(&[1; 100]);
    graph.parts.iter_mut().for_each(|facts| facts.at = Some(0));
    let mut placement = place(&graph, 2);
    let moves = steady(&mut placement, &[0.01; 100], 100);
    // As soon as the smoothed load is high enough; later observations find no worker short of time.
    assert_eq!(reasons(&moves), [Reason::Relief]);
    assert!((45..=50).contains(&moves[0].parts.len()), "{}", moves[0].parts.len());
}

#[test]
fn one_moves_rather_than_many_when_that_is_about_as_good() {
    let mut graph = chains(&[1; 7]);
    graph.parts.iter_mut().for_each(|facts| facts.at = Some(0));
    let mut placement = place(&graph, 2);
    let moves = steady(&mut placement, &[0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1], 100);
    assert_eq!(moves, [Move { parts: vec![Part(0)], to: 1, why: Reason::Relief }]);
}

#[test]
fn what_cannot_move_is_let_be() {
    let mut machine = Machine::new(&[&[1.0], &[0.5]], 4.0, 1);
    assert_eq!(machine.run(100, 0.0, &mut Random(1)), [], "each is alone on its worker");
    let mut graph = chains(&[2, 1]);
    graph.parts.iter_mut().for_each(|facts| facts.pinned = Some(0));
    assert_eq!(steady(&mut place(&graph, 2), &[0.5, 0.5, 0.5], 100), [], "all are pinned");
    assert_eq!(steady(&mut place(&chains(&[2]), 2), &[0.9, 0.1], 100), [], "a cut brings too little");
    assert_eq!(steady(&mut place(&chains(&[1]), 2), &[1.0], 100), [], "a function is not cut");
}

#[test]
fn what_has_to_move_again_and_again_does_so_less_and_less() {
    let mut graph = chains(&[1, 1]);
    graph.parts[1].pinned = Some(0);
    graph.parts[0].at = Some(0);
    let mut moved = Vec::new();
    let mut placement = place(&graph, 2);
    // A neighbour that is in the way wherever it is.
    for period in 0..2_000 {
        let away = placement.worker_of(Part(0)) == 1;
        if placement.observe(&[if away { 0.0 } else { 0.5 }, 0.5]).is_some() {
            moved.push(period);
            placement.refused();
        }
    }
    let waits: Vec<usize> = moved.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640]);
}

#[test]
fn a_refused_move_is_taken_back() {
    let mut graph = chains(&[1, 1]);
    graph.parts.iter_mut().for_each(|facts| facts.at = Some(0));
    let mut placement = place(&graph, 2);
    while placement.observe(&[0.5, 0.5]).is_none() {}
    assert_eq!(homes(&placement, &graph).iter().sum::<usize>(), 1);
    placement.refused();
    assert_eq!(homes(&placement, &graph), [0, 0]);
    placement.refused();
    assert_eq!(homes(&placement, &graph), [0, 0]);
    assert_eq!(steady(&mut placement, &[0.5, 0.5], 100).len(), 1);
    placement.refused();
    assert_eq!(homes(&placement, &graph).iter().sum::<usize>(), 1, "only the very last period's");
}

#[test]
fn a_torn_chain_that_is_taken_over_is_not_joined_before_its_loads_are_known() {
    let mut graph = chains(&[2]);
    graph.parts[0].at = Some(0);
    graph.parts[1].at = Some(1);
    assert_eq!(steady(&mut place(&graph, 2), &[0.6, 0.15], 500), []);
    // The first period is a short one, as it is when a wiring has just been carried out.
    let mut placement = place(&graph, 2);
    assert_eq!(placement.observe(&[0.1, 0.0]), None);
    assert_eq!(steady(&mut placement, &[0.6, 0.15], 500), []);
}

#[test]
fn flaws_of_measuring_change_nothing() {
    let mut placement = place(&chains(&[1, 1]), 2);
    steady(&mut placement, &[0.5, 0.5], 50);
    for flaw in [f64::NAN, f64::INFINITY, -1.0, f64::NEG_INFINITY, 1e300] {
        assert_eq!(placement.observe(&[flaw, 0.5]), None);
        steady(&mut placement, &[0.5, 0.5], 2);
        assert!((placement.load_of(0) - 0.5).abs() < 1e-9, "{flaw}: {}", placement.load_of(0));
    }
    steady(&mut placement, &[7.0, f64::NAN], 50);
    assert!((placement.load_of(0) - 1.0).abs() < 1e-6 && (placement.load_of(1) - 0.5).abs() < 1e-9);
}

#[test]
#[should_panic(expected = "there is one figure for each part")]
fn a_missing_figure_is_the_callers_defect() {
    place(&chains(&[2]), 1).observe(&[0.5]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn one_odd_period_moves_nothing(
        lengths in prop::collection::vec(1usize..4, 1..6),
        workers in 2usize..4,
        seed in 1u64..,
        odd in prop::collection::vec(0.0f64..1.5, 15),
    ) {
        let graph = chains(&lengths);
        let mut placement = place(&graph, workers);
        let mut random = Random(seed);
        let busy: Vec<f64> = graph.parts.iter().map(|_| 0.5 * random.part()).collect();
        steady(&mut placement, &busy, 5_000);
        prop_assert_eq!(placement.observe(&odd[..busy.len()]), None);
        prop_assert_eq!(steady(&mut placement, &busy, 500), []);
    }

    #[test]
    fn a_tenth_of_noise_causes_no_moves(
        costs in prop::collection::vec(prop::collection::vec(0.05f64..0.5, 1..4), 1..7),
        offered in 0.2f64..3.0,
        workers in 2usize..4,
        seed in 1u64..,
    ) {
        let costs: Vec<&[f64]> = costs.iter().map(Vec::as_slice).collect();
        let mut machine = Machine::new(&costs, offered, workers);
        let mut random = Random(seed);
        machine.run(3_000, 0.1, &mut random);
        let moves = machine.run(3_000, 0.1, &mut random);
        // Whatever is just at a threshold may cross it once, but never to and fro.
        prop_assert!(moves.len() <= 2, "{:?}", moves);
    }
}

#[test]
fn help_comes_after_one_period_and_only_while_it_helps() {
    let mut graph = chains(&[1, 1, 1]);
    graph.parts.iter_mut().for_each(|facts| facts.at = Some(0));
    let mut placement = place(&graph, 2);
    let busy = [0.5, 0.3, 0.2];
    assert_eq!(steady(&mut placement, &busy, 2), [], "too early for the smoothed loads");
    let helped = placement.help().expect("one has no time left, the other all of it");
    assert_eq!(helped, Move { parts: vec![Part(0)], to: 1, why: Reason::Help });
    assert_eq!(placement.worker_of(Part(0)), 1);
    assert_eq!(steady(&mut placement, &busy, 2), []);
    assert_eq!(placement.help(), None, "no worker is full any more");
}

#[test]
fn no_help_is_given_that_would_only_exchange_roles() {
    let all = |busy: &[f64], lengths: &[usize]| {
        let mut graph = chains(lengths);
        graph.parts.iter_mut().for_each(|facts| facts.at = Some(0));
        let mut placement = place(&graph, 2);
        steady(&mut placement, busy, 2);
        placement.help()
    };
    assert_eq!(all(&[1.0], &[1]), None, "one that fills its worker");
    assert_eq!(all(&[0.5, 0.5], &[2]), None, "a chain that does");
    let mut graph = chains(&[1, 1, 1]);
    (graph.parts[0].at, graph.parts[1].at, graph.parts[2].at) = (Some(0), Some(0), Some(1));
    let mut placement = place(&graph, 2);
    steady(&mut placement, &[0.5, 0.5, 0.6], 2);
    assert_eq!(placement.help(), None, "more than the other one could take");
}

#[test]
fn help_is_as_many_as_divide_the_load() {
    let mut graph = chains(&[1; 8]);
    graph.parts.iter_mut().for_each(|facts| facts.at = Some(0));
    let mut placement = place(&graph, 2);
    steady(&mut placement, &[0.125; 8], 2);
    let helped = placement.help().expect("one has no time left, the other all of it");
    assert_eq!((helped.parts.len(), helped.to, helped.why), (4, 1, Reason::Help));
}

#[test]
fn what_helps_again_and_again_does_not_have_to_stay_for_longer() {
    let over_after_twice = |again: fn(&mut Cooldown, u64)| {
        let mut rest = Cooldown::default();
        again(&mut rest, 0);
        again(&mut rest, COOLDOWN);
        (rest.is_over(2 * COOLDOWN - 1), rest.is_over(2 * COOLDOWN))
    };
    assert_eq!(over_after_twice(Cooldown::helped), (false, true));
    assert_eq!(
        over_after_twice(Cooldown::moved),
        (false, false),
        "a move that did not help is waited for twice as long"
    );
}
