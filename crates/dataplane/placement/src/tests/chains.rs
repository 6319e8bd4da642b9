//! What becomes of chains that want more or less than a core.

use super::machine::Machine;
use super::*;

/// One that starts with all of the chains on worker 0.
fn loaded(costs: &[&[f64]], offered: f64, workers: usize) -> Machine {
    let mut machine = Machine::new(costs, offered, workers);
    machine.graph.parts.iter_mut().for_each(|facts| facts.at = Some(0));
    machine.placement = place(&machine.graph, workers);
    machine
}

#[test]
fn two_equal_chains_that_want_a_core_each_get_one_each() {
    let mut machine = loaded(&[&[0.5, 0.5], &[0.5, 0.5]], 4.0, 2);
    let moves = machine.run(200, 0.0, &mut Random(1));
    assert_eq!(reasons(&moves), [Reason::Relief]);
    let homes = machine.homes();
    assert!(homes == [0, 0, 1, 1] || homes == [1, 1, 0, 0], "{homes:?}");
}

#[test]
fn chains_on_full_workers_stay() {
    let mut machine = Machine::new(&[&[0.5, 0.5], &[0.5, 0.5], &[1.0]], 4.0, 2);
    assert_eq!(machine.run(500, 0.0, &mut Random(1)), []);
}

#[test]
fn a_chain_that_wants_more_than_a_core_is_cut_where_both_sides_cost_the_same() {
    let mut machine = Machine::new(&[&[0.1, 0.2, 0.1, 0.4, 0.2]], 4.0, 2);
    let before = machine.rates()[0];
    let moves = machine.run(300, 0.0, &mut Random(1));
    assert_eq!(reasons(&moves), [Reason::Cut]);
    let homes = machine.homes();
    assert!(homes == [0, 0, 0, 1, 1] || homes == [1, 1, 1, 0, 0], "{homes:?}");
    assert!(machine.rates()[0] > 1.6 * before, "{} after {before}", machine.rates()[0]);
}

#[test]
fn a_chain_is_cut_once_for_each_worker_and_no_more() {
    let costs = [0.1; 12];
    for workers in 2..=4 {
        let mut machine = Machine::new(&[&costs], 40.0, workers);
        let moves = machine.run(2_000, 0.0, &mut Random(1));
        assert!(moves.iter().any(|moved| moved.why == Reason::Cut));
        let homes = machine.homes();
        let cuts = homes.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert_eq!(cuts, workers - 1, "{homes:?}");
        let mut used = homes.clone();
        used.sort_unstable();
        used.dedup();
        assert_eq!(used.len(), workers, "{homes:?}");
    }
}

#[test]
fn a_torn_chain_comes_together_when_little_is_offered() {
    let mut machine = Machine::new(&[&[0.25; 4]], 4.0, 2);
    assert_eq!(reasons(&machine.run(100, 0.0, &mut Random(1))), [Reason::Cut]);
    assert!(machine.placement.is_torn());
    // Less than a core, but not so little that it would not soon be torn again.
    machine.offered = vec![0.75];
    assert_eq!(machine.run(300, 0.0, &mut Random(1)), []);
    machine.offered = vec![0.5];
    assert_eq!(reasons(&machine.run(300, 0.0, &mut Random(1))), [Reason::Join]);
    assert!(!machine.placement.is_torn());
}

#[test]
fn a_torn_chain_comes_together_elsewhere_when_there_is_no_room_where_it_is() {
    let mut graph = chains(&[2, 1, 1]);
    for (part, worker) in [(0, 0), (1, 1), (2, 0), (3, 1)] {
        graph.parts[part].at = Some(worker);
    }
    graph.parts[2].pinned = Some(0);
    graph.parts[3].pinned = Some(1);
    let mut placement = place(&graph, 3);
    let moves = steady(&mut placement, &[0.2, 0.2, 0.5, 0.5], 50);
    assert_eq!(moves, [Move { parts: vec![Part(0), Part(1)], to: 2, why: Reason::Join }]);
}

#[test]
fn a_cut_moves_along_the_chain_when_loads_do() {
    let mut graph = chains(&[4]);
    for (part, worker) in [(0, 0), (1, 0), (2, 1), (3, 1)] {
        graph.parts[part].at = Some(worker);
    }
    let mut placement = place(&graph, 2);
    assert_eq!(steady(&mut placement, &[0.3, 0.3, 0.3, 0.3], 50), []);
    let moves = steady(&mut placement, &[0.5, 0.4, 0.1, 0.1], 50);
    assert_eq!(moves, [Move { parts: vec![Part(1)], to: 1, why: Reason::Cut }]);
}

#[test]
fn the_far_side_of_a_pinned_function_moves() {
    let mut graph = chains(&[3, 1]);
    graph.parts[0].pinned = Some(1);
    graph.parts[3].pinned = Some(1);
    let mut placement = place(&graph, 2);
    assert_eq!(homes(&placement, &graph), [1, 1, 1, 1]);
    let moves = steady(&mut placement, &[0.2, 0.2, 0.2, 0.4], 50);
    assert_eq!(moves, [Move { parts: vec![Part(1), Part(2)], to: 0, why: Reason::Cut }]);
}

#[test]
fn a_ring_is_cut_in_two() {
    let mut graph = chains(&[6]);
    graph.wires.push((Part(5), Part(0)));
    let mut placement = place(&graph, 2);
    let moves = steady(&mut placement, &[0.16; 6], 50);
    assert_eq!(reasons(&moves), [Reason::Cut]);
    assert_eq!(moves[0].parts.len(), 3);
}

#[test]
fn what_may_move_whole_later_is_waited_for_rather_than_cut_another() {
    let mut graph = chains(&[1, 2]);
    graph.parts.iter_mut().for_each(|facts| facts.at = Some(0));
    graph.parts[1].pinned = Some(0);
    let mut placement = place(&graph, 2);
    let busy = [0.45, 0.2, 0.25];
    let whole = (0..50).find_map(|_| placement.observe(&busy)).expect("a relief");
    assert_eq!((whole.parts, whole.why), (vec![Part(0)], Reason::Relief));
    placement.refused();
    assert_eq!(reasons(&steady(&mut placement, &busy, 50)), [Reason::Relief]);
}

#[test]
fn nothing_is_cut_while_a_worker_settles_that_may_have_room() {
    let mut graph = chains(&[1, 1, 1, 2, 1]);
    for (part, worker) in [(0, 0), (1, 0), (2, 1), (3, 1), (4, 1), (5, 3)] {
        graph.parts[part].at = Some(worker);
    }
    graph.parts[0].pinned = Some(0);
    graph.parts[5].pinned = Some(3);
    let mut placement = place(&graph, 4);
    let moves = steady(&mut placement, &[0.8, 0.22, 0.5, 0.3, 0.2, 0.6], 100);
    assert_eq!(reasons(&moves), [Reason::Relief, Reason::Relief]);
    assert_eq!((&moves[0].parts, moves[0].to, moves[1].to), (&vec![Part(1)], 2, 2));
}

#[test]
fn a_piece_goes_to_the_rest_of_its_chain_when_that_is_nearly_as_good() {
    let mut graph = chains(&[2, 1, 1]);
    for (part, worker) in [(1, 1), (2, 0), (3, 2)] {
        graph.parts[part].pinned = Some(worker);
    }
    graph.parts[0].at = Some(0);
    let moved = |there: f64| {
        let moves = steady(&mut place(&graph, 3), &[0.5, 0.2, 0.4, there], 100);
        moves.into_iter().map(|moved| (moved.parts, moved.to)).collect::<Vec<_>>()
    };
    assert_eq!(moved(0.17), [(vec![Part(0)], 1)]);
    assert_eq!(moved(0.12), [(vec![Part(0)], 2)]);
}
