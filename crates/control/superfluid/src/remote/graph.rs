//! `superfluid graph`: what is wired to what, and what passes there in a second.
//!
//! 1. The daemon is asked twice; what it counted between makes the rates of a [`Picture`].
//! 2. [`layout`] gives each node a layer: its distance from an end of what it is connected with.
//! 3. [`text`] shows it as a tree, [`svg`] draws it, [`document`] is the same for programs.

mod document;
mod layout;
mod svg;
mod text;

use super::failure::{Done, print};
use super::options::{GraphFormat, GraphOptions};
use api::{EdgeKind, EdgeTraffic, Graph, NodeKind};
use client::harmless;
use std::collections::{BTreeMap, HashMap};

/// Longest name that is shown, in characters.
const NAME: usize = 64;

/// What passes in a second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rate {
    packets: f64,
    /// Where bytes are counted.
    bits: Option<f64>,
}

/// A node between two readings.
#[derive(Clone, Debug, PartialEq)]
struct Node {
    name: String,
    kind: NodeKind,
    tenant: Option<String>,
    state: Option<String>,
    worker: Option<u32>,
    rate: Option<Rate>,
    /// Drops in a second, and since it is there.
    drops: (f64, u64),
}

/// An edge between two readings. Its ends are places in [`Picture::nodes`].
#[derive(Clone, Debug, PartialEq)]
struct Link {
    kind: EdgeKind,
    from: usize,
    from_part: Option<String>,
    to: usize,
    to_part: Option<String>,
    there: Option<Rate>,
    back: Option<Rate>,
    drops: Option<f64>,
}

/// What is shown.
#[derive(Clone, Debug, Default, PartialEq)]
struct Picture {
    seconds: f64,
    nodes: Vec<Node>,
    links: Vec<Link>,
}

pub(crate) fn graph(options: &GraphOptions) -> Done {
    let client = options.connection.client()?;
    let before = client.graph()?;
    std::thread::sleep(options.every);
    let picture = Picture::between(&before, &client.graph()?);
    print(&match options.output {
        GraphFormat::Text => text::shown(&picture),
        GraphFormat::Json => document::shown(&picture),
        GraphFormat::Svg => svg::drawn(&picture),
    })
}

impl Picture {
    /// What there is now, with what passed since.
    fn between(before: &Graph, now: &Graph) -> Picture {
        let seconds = now.time_ns.saturating_sub(before.time_ns) as f64 / 1e9;
        // What began anew meanwhile has done what it has counted since.
        let rate = |old: u64, new: u64| match seconds > 0.0 {
            true => (if new < old { new } else { new - old }) as f64 / seconds,
            false => 0.0,
        };
        let passed = |old: Option<EdgeTraffic>, new: Option<EdgeTraffic>| {
            let (old, new) = old.zip(new)?;
            let bits = old.bytes.zip(new.bytes).map(|(old, new)| rate(old, new) * 8.0);
            Some(Rate { packets: rate(old.packets, new.packets), bits })
        };
        let old: BTreeMap<_, _> = before.nodes.iter().map(|node| ((&node.name, node.kind), node)).collect();
        let nodes = now.nodes.iter().map(|node| {
            let old = old.get(&(&node.name, node.kind));
            let traffic = |node: &api::GraphNode| {
                node.packets.map(|packets| EdgeTraffic { packets, bytes: node.bytes })
            };
            Node {
                name: harmless(&node.name, NAME),
                kind: node.kind,
                tenant: node.tenant.as_deref().map(|text| harmless(text, NAME)),
                state: node.state.as_deref().map(|text| harmless(text, NAME)),
                worker: node.worker,
                rate: passed(old.and_then(|node| traffic(node)), traffic(node)),
                drops: (old.map_or(0.0, |old| rate(old.drops, node.drops)), node.drops),
            }
        });
        let nodes = nodes.collect();
        let places: HashMap<&str, usize> =
            now.nodes.iter().enumerate().map(|(place, node)| (node.name.as_str(), place)).collect();
        let same = |edge: &api::GraphEdge| {
            (edge.from.clone(), edge.from_part.clone(), edge.to.clone(), edge.to_part.clone(), edge.kind)
        };
        let old: BTreeMap<_, _> = before.edges.iter().map(|edge| (same(edge), edge)).collect();
        let links = now.edges.iter().filter_map(|edge| {
            let old = old.get(&same(edge));
            let part = |text: &Option<String>| text.as_deref().map(|text| harmless(text, NAME));
            Some(Link {
                kind: edge.kind,
                from: *places.get(edge.from.as_str())?,
                from_part: part(&edge.from_part),
                to: *places.get(edge.to.as_str())?,
                to_part: part(&edge.to_part),
                there: passed(old.and_then(|old| old.there), edge.there),
                back: passed(old.and_then(|old| old.back), edge.back),
                drops: old.and_then(|old| old.drops).zip(edge.drops).map(|(old, new)| rate(old, new)),
            })
        });
        Picture { seconds, links: links.collect(), nodes }
    }

    /// Nodes by component, and within it by layer.
    fn layers(&self) -> Vec<Vec<Vec<usize>>> {
        let links: Vec<(usize, usize)> = self.links.iter().map(|link| (link.from, link.to)).collect();
        let order = |place: usize| {
            let node = &self.nodes[place];
            (node.kind != NodeKind::Port, node.name.clone())
        };
        layout::layers(self.nodes.len(), &links, order)
    }
}

/// A kind as a word.
fn word(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Port => "port",
        NodeKind::Device => "device",
        NodeKind::Switch => "switch",
        NodeKind::Function => "function",
        NodeKind::Service => "service",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{GraphEdge, GraphNode};

    fn node(name: &str, kind: NodeKind, packets: u64) -> GraphNode {
        GraphNode {
            name: name.into(),
            kind,
            tenant: Some("default".into()),
            state: Some(if kind == NodeKind::Port { "up" } else { "running" }.into()),
            worker: (kind == NodeKind::Function).then_some(0),
            packets: Some(packets),
            bytes: Some(packets * 125),
            drops: packets / 100,
        }
    }

    fn edge(kind: EdgeKind, from: &str, to: (&str, &str), packets: Option<u64>) -> GraphEdge {
        let traffic = packets.map(|packets| EdgeTraffic { packets, bytes: Some(packets * 125) });
        let part = (!to.1.is_empty()).then(|| to.1.to_owned());
        let (from, from_part) = from.split_once(':').map_or((from, None), |(name, part)| (name, Some(part)));
        GraphEdge {
            kind,
            from: from.into(),
            from_part: from_part.map(str::to_owned),
            to: to.0.into(),
            to_part: part,
            there: traffic,
            back: traffic.map(|there| EdgeTraffic { packets: there.packets / 2, bytes: None }),
            drops: Some(0),
        }
    }

    /// A bridge between two ports, with a firewall in it that an observer watches, and a chain beside it.
    pub(super) fn example(packets: u64) -> Graph {
        Graph {
            time_ns: packets * 1_000_000,
            nodes: vec![
                node("bridge0", NodeKind::Device, packets),
                node("edge_firewall", NodeKind::Function, packets),
                node("flows", NodeKind::Function, packets),
                node("lan", NodeKind::Port, packets),
                node("nat", NodeKind::Function, packets),
                node("nic1", NodeKind::Port, packets),
                node("nic2", NodeKind::Port, packets),
                node("wan", NodeKind::Port, packets),
            ],
            edges: vec![
                edge(EdgeKind::Opens, "edge_firewall:inside", ("bridge0", "nic1"), Some(packets)),
                edge(EdgeKind::Opens, "edge_firewall:outside", ("bridge0", "nic2"), Some(packets)),
                edge(EdgeKind::Observes, "edge_firewall", ("flows", ""), None),
                edge(EdgeKind::Wire, "lan", ("nat", "inside"), Some(packets)),
                edge(EdgeKind::Wire, "nat:outside", ("wan", ""), None),
                edge(EdgeKind::Over, "nic1", ("bridge0", ""), Some(packets)),
                edge(EdgeKind::Over, "nic2", ("bridge0", ""), Some(packets)),
            ],
        }
    }

    pub(super) fn picture() -> Picture {
        Picture::between(&example(1000), &example(3000))
    }

    #[test]
    fn rates_are_between_two_readings() {
        let picture = picture();
        assert_eq!(picture.seconds, 2.0);
        assert_eq!(picture.nodes[0].rate, Some(Rate { packets: 1000.0, bits: Some(1_000_000.0) }));
        assert_eq!(picture.nodes[0].drops, (10.0, 30));
        let wire =
            picture.links.iter().find(|link| link.to_part.as_deref() == Some("inside")).expect("a wire");
        assert_eq!(
            (picture.nodes[wire.from].name.as_str(), picture.nodes[wire.to].name.as_str()),
            ("lan", "nat")
        );
        assert_eq!(wire.there, Some(Rate { packets: 1000.0, bits: Some(1_000_000.0) }));
        assert_eq!(wire.back, Some(Rate { packets: 500.0, bits: None }));
        // Of two readings at one moment there is no rate, and none of what was not there before.
        let same = Picture::between(&example(1000), &example(1000));
        assert_eq!(same.nodes[0].rate.map(|rate| rate.packets), Some(0.0));
        assert_eq!(Picture::between(&Graph::default(), &example(1000)).nodes[0].rate, None);
    }

    #[test]
    fn an_edge_to_what_is_not_shown_is_left_out() {
        let mut now = example(3000);
        now.nodes.retain(|node| node.name != "bridge0");
        let picture = Picture::between(&example(1000), &now);
        assert_eq!(picture.links.len(), 3);
    }
}
