//! Where each part is at first, and which graphs have no placement.

use super::*;
use crate::GraphFault;

#[test]
fn components_stay_together_and_are_spread_by_their_functions() {
    let graph = chains(&[1, 3, 2, 1, 1]);
    assert_eq!(homes(&place(&graph, 2), &graph), [1, 0, 0, 0, 1, 1, 0, 1]);
    assert_eq!(homes(&place(&graph, 1), &graph), [0; 8]);
}

#[test]
fn a_pinned_function_takes_its_chain_along_as_far_as_other_pins_allow() {
    let mut graph = chains(&[6, 1]);
    graph.parts[0].pinned = Some(2);
    assert_eq!(homes(&place(&graph, 3), &graph), [2, 2, 2, 2, 2, 2, 0]);
    graph.parts[5].pinned = Some(1);
    assert_eq!(homes(&place(&graph, 3), &graph), [2, 2, 2, 1, 1, 1, 0]);
}

#[test]
fn parts_that_have_a_worker_stay_and_new_ones_join_their_neighbours() {
    let mut graph = chains(&[3, 1, 1]);
    graph.parts[1].at = Some(1);
    graph.parts[3].at = Some(1);
    // A worker that has gone is none.
    graph.parts[4].at = Some(7);
    assert_eq!(homes(&place(&graph, 2), &graph), [1, 1, 1, 1, 0]);
    graph.parts[1].pinned = Some(0);
    assert_eq!(homes(&place(&graph, 2), &graph), [0, 0, 0, 1, 1]);
}

#[test]
fn ports_are_with_their_functions_and_observers_with_what_they_observe() {
    let mut graph = chains(&[2, 1, 1]);
    graph.parts.extend([PartFacts::new(Kind::Port); 3]);
    graph.wires.extend([(Part(4), Part(0)), (Part(1), Part(5)), (Part(6), Part(3))]);
    graph.together.push((Part(2), Part(1)));
    graph.parts[0].pinned = Some(0);
    graph.parts[1].pinned = Some(1);
    let placement = place(&graph, 2);
    assert_eq!(homes(&placement, &graph), [0, 1, 1, 0, 0, 1, 0]);
    assert!(placement.is_torn());
}

#[test]
fn a_pinned_port_attracts_no_part() {
    let mut graph = chains(&[1, 1]);
    let port = PartFacts { pinned: Some(1), ..PartFacts::new(Kind::Port) };
    graph.parts.push(port);
    graph.wires.push((Part(2), Part(0)));
    let placement = place(&graph, 2);
    assert_eq!(homes(&placement, &graph), [0, 1, 1]);
    assert!(!placement.is_torn(), "it is apart because it should be");
}

#[test]
fn nothing_is_placed_without_ado() {
    let mut placement = place(&Graph::default(), 3);
    assert_eq!(placement.observe(&[]), None);
}

#[test]
fn contradictions_are_told() {
    let fault = |graph: &Graph, workers| Placement::new(graph, workers).expect_err("a fault").to_string();
    let mut graph = chains(&[2]);
    assert_eq!(fault(&graph, 0), "there are 0 workers; at least 1 is needed");
    graph.parts[1].pinned = Some(2);
    assert_eq!(fault(&graph, 2), "part 1 is pinned to worker 2, but there are only 2 workers");
    graph.parts[0].pinned = Some(0);
    graph.together.push((Part(0), Part(1)));
    assert_eq!(fault(&graph, 3), "parts 0 and 1 may not be apart, but are pinned to different workers");
    graph.together[0].1 = Part(2);
    let expected = GraphFault::NoSuchPart { part: Part(2), count: 2 };
    assert_eq!(Placement::new(&graph, 3).expect_err("a fault"), expected);
    graph.together.clear();
    graph.wires.push((Part(9), Part(0)));
    assert_eq!(fault(&graph, 3), "part 9 is named in a pair, but there are only 2 parts");
}
