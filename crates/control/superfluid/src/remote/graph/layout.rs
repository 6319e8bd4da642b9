//! Layers of a graph: each node's is its distance from an end of what it is connected with, so that edges
//! lead to the same layer or to the next one. Within a layer nodes are near those that they are connected
//! with.

use std::collections::VecDeque;

/// Passes in which nodes come nearer to what they are connected with.
const PASSES: usize = 8;

/// The nodes `0..count` by component, and within it by layer. `order` says which node comes first where
/// nothing else does, so that one graph has one layout.
pub(super) fn layers<K: Ord>(
    count: usize,
    links: &[(usize, usize)],
    order: impl Fn(usize) -> K,
) -> Vec<Vec<Vec<usize>>> {
    let mut beside: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (a, b) in links.iter().filter(|(a, b)| a != b) {
        beside[*a].push(*b);
        beside[*b].push(*a);
    }
    for others in &mut beside {
        others.sort_by_cached_key(|other| order(*other));
        others.dedup();
    }
    let mut all: Vec<usize> = (0..count).collect();
    all.sort_by_cached_key(|place| order(*place));
    let mut seen = vec![false; count];
    let mut components = Vec::new();
    for first in all {
        if seen[first] {
            continue;
        }
        // The end that is farthest from an end that is farthest away: two ends of the longest way, or nearly.
        let far = farthest(&distances(first, &beside), &order);
        let other = farthest(&distances(far, &beside), &order);
        let root = if order(other) < order(far) { other } else { far };
        let distances = distances(root, &beside);
        let mut component: Vec<Vec<usize>> = Vec::new();
        for (place, distance) in &distances {
            seen[*place] = true;
            if component.len() <= *distance {
                component.resize(distance + 1, Vec::new());
            }
            component[*distance].push(*place);
        }
        for layer in &mut component {
            layer.sort_by_cached_key(|place| order(*place));
        }
        near(&mut component, &beside, count);
        components.push(component);
    }
    components
}

/// All nodes that a node is connected with, and how far they are, the nearest first.
fn distances(from: usize, beside: &[Vec<usize>]) -> Vec<(usize, usize)> {
    let mut seen = vec![false; beside.len()];
    seen[from] = true;
    let (mut next, mut all) = (VecDeque::from([(from, 0)]), Vec::new());
    while let Some((place, distance)) = next.pop_front() {
        all.push((place, distance));
        for other in &beside[place] {
            if !seen[*other] {
                seen[*other] = true;
                next.push_back((*other, distance + 1));
            }
        }
    }
    all
}

fn farthest<K: Ord>(distances: &[(usize, usize)], order: impl Fn(usize) -> K) -> usize {
    let far = distances.iter().map(|(_, distance)| *distance).max().unwrap_or(0);
    let ends = distances.iter().filter(|(_, distance)| *distance == far).map(|(place, _)| *place);
    ends.min_by_key(|place| order(*place)).unwrap_or(0)
}

/// Orders each layer by where its nodes' neighbours in the layer before are on average, then after, and so on
/// (Sugiyama's method, 1981).
fn near(layers: &mut [Vec<usize>], beside: &[Vec<usize>], count: usize) {
    let mut at = vec![(usize::MAX, 0.0); count];
    let note = |at: &mut Vec<(usize, f64)>, number: usize, layer: &[usize]| {
        for (n, place) in layer.iter().enumerate() {
            at[*place] = (number, (n as f64 + 0.5) / layer.len() as f64);
        }
    };
    layers.iter().enumerate().for_each(|(number, layer)| note(&mut at, number, layer));
    for pass in 0..PASSES {
        let numbers: Vec<usize> = match pass % 2 {
            0 => (1..layers.len()).collect(),
            _ => (0..layers.len().saturating_sub(1)).rev().collect(),
        };
        for number in numbers {
            let towards = if pass % 2 == 0 { number - 1 } else { number + 1 };
            let mut means: Vec<(usize, f64)> = layers[number]
                .iter()
                .map(|place| {
                    let near: Vec<f64> = beside[*place]
                        .iter()
                        .map(|other| at[*other])
                        .filter(|(layer, _)| *layer == towards)
                        .map(|(_, height)| height)
                        .collect();
                    let mean = near.iter().sum::<f64>() / near.len().max(1) as f64;
                    (*place, if near.is_empty() { at[*place].1 } else { mean })
                })
                .collect();
            means.sort_by(|a, b| a.1.total_cmp(&b.1));
            layers[number] = means.into_iter().map(|(place, _)| place).collect();
            note(&mut at, number, &layers[number]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_lies_in_a_row() {
        // 2 - 0 - 1 - 3
        let layers = layers(4, &[(0, 1), (2, 0), (3, 1)], |place| place);
        assert_eq!(layers, [[[2], [0], [1], [3]]]);
    }

    #[test]
    fn what_is_not_connected_is_a_component_of_its_own() {
        assert_eq!(layers(3, &[(0, 2)], |place| place), [vec![vec![0], vec![2]], vec![vec![1]]]);
        assert_eq!(layers(0, &[], |place| place), [[[0usize; 0]; 0]; 0]);
    }

    #[test]
    fn edges_do_not_cross_where_they_need_not() {
        // 0 and 1 are at 2; 3 hangs at 1 and 4 at 0.
        let layers = layers(6, &[(5, 0), (5, 1), (0, 4), (1, 3), (4, 2)], |place| place);
        let all: Vec<usize> = layers.iter().flatten().flatten().copied().collect();
        assert_eq!(all.len(), 6);
        let row = |place: usize| layers[0].iter().find_map(|layer| layer.iter().position(|at| *at == place));
        assert_eq!(row(0) < row(1), row(4) < row(3), "{layers:?}");
    }

    #[test]
    fn every_node_has_one_place_and_edges_lead_to_the_next_layer() {
        // Marsaglia's xorshift (2003): graphs of all densities, the same ones each time.
        let mut random = 0x9e37_79b9_u32;
        let mut below = |most: usize| {
            random ^= random << 13;
            random ^= random >> 17;
            random ^= random << 5;
            random as usize % most
        };
        for _ in 0..500 {
            let count = 1 + below(40);
            let links: Vec<(usize, usize)> = (0..below(60)).map(|_| (below(count), below(count))).collect();
            let layers = layers(count, &links, |place| place);
            let mut all: Vec<usize> = layers.iter().flatten().flatten().copied().collect();
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
            let at = |place: usize| {
                layers.iter().enumerate().find_map(|(component, layers)| {
                    let layer = layers.iter().position(|layer| layer.contains(&place))?;
                    Some((component, layer))
                })
            };
            for (a, b) in links {
                let (a, b) = (at(a).expect("a place"), at(b).expect("a place"));
                assert!(a.0 == b.0 && a.1.abs_diff(b.1) <= 1, "{layers:?}");
            }
        }
    }
}
