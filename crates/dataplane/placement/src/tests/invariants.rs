//! What holds whatever is observed.

use super::*;
use proptest::prelude::*;

const PARTS: usize = 14;

/// Any graph without contradictions, of functions and ports in a ratio of 2 to 1.
fn graph(workers: usize) -> impl Strategy<Value = Graph> {
    let pair = || (0..PARTS as u32, 0..PARTS as u32).prop_map(|(one, other)| (Part(one), Part(other)));
    let pinned = prop::option::weighted(0.2, 0..workers);
    let facts = (prop::bool::weighted(0.33), pinned, prop::option::of(0usize..6));
    let facts = facts.prop_map(|(is_port, pinned, at)| {
        let kind = if is_port { Kind::Port } else { Kind::Instance };
        PartFacts { kind, pinned, at }
    });
    let parts = prop::collection::vec(facts, PARTS);
    let (wires, together) = (prop::collection::vec(pair(), 0..18), prop::collection::vec(pair(), 0..5));
    (parts, wires, together).prop_map(|(mut parts, wires, mut together)| {
        // Only functions observe, and those together are pinned alike.
        let is_function = |part: &Part| parts[part.index()].kind == Kind::Instance;
        together.retain(|(one, other)| is_function(one) && is_function(other));
        // A pin reaches one more of a row of pairs each time.
        for _ in 0..together.len() {
            for (one, other) in &together {
                let pins = [one, other].map(|part| parts[part.index()].pinned);
                let pinned = pins.into_iter().flatten().min();
                parts[one.index()].pinned = pinned;
                parts[other.index()].pinned = pinned;
            }
        }
        Graph { parts, wires, together }
    })
}

/// Loads that are the same for so many periods, and whether moves are refused meanwhile.
#[derive(Clone, Debug)]
struct Span {
    busy: Vec<f64>,
    periods: usize,
    refuses: bool,
}

fn span() -> impl Strategy<Value = Span> {
    (prop::collection::vec(-0.2f64..1.2, PARTS), 1usize..30, any::<bool>())
        .prop_map(|(busy, periods, refuses)| Span { busy, periods, refuses })
}

/// Whether each part is where it may be.
fn check(graph: &Graph, homes: &[usize], workers: usize) -> Result<(), TestCaseError> {
    for (part, (home, facts)) in homes.iter().zip(&graph.parts).enumerate() {
        prop_assert!(*home < workers);
        prop_assert!(facts.pinned.is_none_or(|pinned| pinned == *home));
        let other = |(a, b): &(Part, Part)| match (a.index() == part, b.index() == part) {
            (true, false) => Some(b.index()),
            (false, true) => Some(a.index()),
            _ => None,
        };
        let mut wired = graph.wires.iter().filter_map(other);
        let function = wired.find(|other| graph.parts[*other].kind == Kind::Instance);
        if let (Kind::Port, None, Some(function)) = (facts.kind, facts.pinned, function) {
            prop_assert_eq!(*home, homes[function], "a port is with its function");
        }
    }
    for (one, other) in &graph.together {
        prop_assert_eq!(homes[one.index()], homes[other.index()]);
    }
    Ok(())
}

proptest! {
    #[test]
    fn pins_pairs_and_ports_hold_and_moves_say_all_that_changes(
        (workers, graph) in (1usize..5).prop_flat_map(|workers| (Just(workers), graph(workers))),
        spans in prop::collection::vec(span(), 1..20),
    ) {
        let mut placement = place(&graph, workers);
        let mut expected = homes(&placement, &graph);
        check(&graph, &expected, workers)?;
        for Span { busy, periods, refuses } in spans {
            for _ in 0..periods {
                let before = expected.clone();
                if let Some(moved) = placement.observe(&busy) {
                    prop_assert!(!moved.parts.is_empty() && moved.parts.is_sorted());
                    for part in &moved.parts {
                        prop_assert_ne!(expected[part.index()], moved.to);
                        expected[part.index()] = moved.to;
                    }
                    prop_assert_eq!(&homes(&placement, &graph), &expected);
                    check(&graph, &expected, workers)?;
                    if refuses {
                        placement.refused();
                        expected = before;
                    }
                }
                prop_assert_eq!(&homes(&placement, &graph), &expected);
            }
        }
    }
}
