//! What passes between functions, which nothing counts: what has to have passed, by what is counted at their
//! ends.
//!
//! Of a function it is known how many packets came to it, and, where all that it sends on leaves by its
//! edges, how many left. Where all other ways into it or out of it are known, the last one is what remains.
//! What is found at one function is known at the next, so that along a chain all is found from its ports.
//! Packets that wait at this moment make the numbers small amounts too large or too small: they are kept from
//! falling where a history is made of them.

use api::{EdgeKind, EdgeTraffic, GraphEdge};
use std::collections::HashMap;

/// What went through a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Through {
    /// Packets that came by edges; none where they come by other ways too.
    pub(super) came: Option<u64>,
    /// Packets that left by edges; none where they leave by other ways too, or are copied on their way.
    pub(super) left: Option<u64>,
}

/// One way along an edge: its number, and whether it is from the one to the other.
type Way = (usize, bool);

/// Fills in what has to have passed along edges of which it is not known.
pub(super) fn infer(edges: &mut [GraphEdge], functions: &HashMap<&str, Through>) {
    let mut ways: HashMap<String, [Vec<Way>; 2]> = HashMap::new();
    for (number, edge) in edges.iter().enumerate() {
        if !matches!(edge.kind, EdgeKind::Wire | EdgeKind::Opens) {
            continue;
        }
        for (name, into) in [(&edge.to, true), (&edge.from, false)] {
            if functions.contains_key(name.as_str()) {
                let [inward, outward] = ways.entry(name.clone()).or_default();
                inward.push((number, into));
                outward.push((number, !into));
            }
        }
    }
    let mut open: Vec<String> = ways.keys().cloned().collect();
    while let Some(name) = open.pop() {
        let (Some(both), Some(through)) = (ways.get(&name), functions.get(name.as_str())) else { continue };
        for (of, all) in both.iter().zip([through.came, through.left]) {
            let (Some(all), Some(way)) = (all, only_unknown(edges, of)) else { continue };
            let known: u64 = of.iter().filter_map(|way| traffic(edges, *way)).map(|it| it.packets).sum();
            let (number, there) = way;
            let edge = &mut edges[number];
            let found = Some(EdgeTraffic { packets: all.saturating_sub(known), bytes: None });
            *(if there { &mut edge.there } else { &mut edge.back }) = found;
            // Both ends know more now; each way is found once, so that this comes to an end.
            open.extend([edge.from.clone(), edge.to.clone()]);
        }
    }
}

fn traffic(edges: &[GraphEdge], (number, there): Way) -> Option<EdgeTraffic> {
    let edge = &edges[number];
    if there { edge.there } else { edge.back }
}

/// The one way of which nothing is known, if it is one.
fn only_unknown(edges: &[GraphEdge], ways: &[Way]) -> Option<Way> {
    let mut unknown = ways.iter().filter(|way| traffic(edges, **way).is_none());
    match (unknown.next(), unknown.next()) {
        (Some(way), None) => Some(*way),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: &str, to: &str, there: Option<u64>, back: Option<u64>) -> GraphEdge {
        let traffic = |packets: Option<u64>| packets.map(|packets| EdgeTraffic { packets, bytes: None });
        GraphEdge {
            kind: EdgeKind::Wire,
            from: from.to_owned(),
            from_part: None,
            to: to.to_owned(),
            to_part: None,
            there: traffic(there),
            back: traffic(back),
            drops: None,
        }
    }

    fn found(
        edges: &mut [GraphEdge],
        functions: &[(&str, Option<u64>, Option<u64>)],
    ) -> Vec<[Option<u64>; 2]> {
        let functions =
            functions.iter().map(|(name, came, left)| (*name, Through { came: *came, left: *left }));
        infer(edges, &functions.collect());
        let packets = |traffic: Option<EdgeTraffic>| traffic.map(|traffic| traffic.packets);
        edges.iter().map(|edge| [packets(edge.there), packets(edge.back)]).collect()
    }

    #[test]
    fn along_a_chain_all_is_found_from_its_ports() {
        // 1,000 go there, of which b drops 100; 50 come back.
        let mut edges = [
            edge("lan", "a", Some(1000), Some(50)),
            edge("a", "b", None, None),
            edge("b", "c", None, None),
            edge("c", "wan", Some(900), Some(50)),
        ];
        let through =
            [("a", Some(1050), Some(1050)), ("b", Some(1050), Some(950)), ("c", Some(950), Some(950))];
        let told = found(&mut edges, &through);
        assert_eq!(told[1..3], [[Some(1000), Some(50)], [Some(900), Some(50)]]);
        // One that sends to services keeps what lies behind it unknown, and what is known stays.
        let mut edges =
            [edge("lan", "a", Some(7), Some(0)), edge("a", "b", None, None), edge("b", "c", None, None)];
        let told =
            found(&mut edges, &[("a", Some(7), None), ("b", Some(7), Some(7)), ("c", Some(7), Some(0))]);
        assert_eq!(told[0], [Some(7), Some(0)]);
        assert_eq!(told[1], [Some(7), Some(0)], "what comes back to a is what remains of its packets");
    }

    #[test]
    fn where_two_ways_are_unknown_there_is_no_number_and_none_is_below_zero() {
        let mut edges =
            [edge("a", "b", None, None), edge("a", "c", None, None), edge("lan", "a", Some(9), Some(1))];
        let told = found(&mut edges, &[("a", Some(12), Some(10))]);
        assert_eq!(told[..2], [[None, None], [None, None]]);
        // More has come in by the port than the function was shown yet.
        let mut edges = [edge("lan", "a", Some(9), Some(0)), edge("a", "b", None, None)];
        assert_eq!(found(&mut edges, &[("a", Some(7), Some(7))])[1], [Some(7), Some(0)]);
        // A circle comes to an end.
        let mut edges = [edge("a", "b", None, Some(3)), edge("b", "a", None, Some(0))];
        found(&mut edges, &[("a", Some(5), Some(5)), ("b", Some(5), Some(5))]);
    }
}
