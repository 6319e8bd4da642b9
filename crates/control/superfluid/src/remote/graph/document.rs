//! The graph for programs: `docs/cli.md` has the shape.

use super::{Picture, Rate, word};
use crate::output::{Format, one};
use serde_json::{Value, json};

pub(super) fn shown(picture: &Picture) -> String {
    let name = |place: usize| picture.nodes[place].name.as_str();
    let rate = |rate: Option<Rate>| match rate {
        Some(rate) => json!({"packets_per_s": rate.packets, "bits_per_s": rate.bits}),
        None => Value::Null,
    };
    let nodes = picture.nodes.iter().map(|node| {
        json!({
            "name": node.name, "kind": word(node.kind), "tenant": node.tenant, "state": node.state,
            "worker": node.worker, "packets_per_s": node.rate.map(|rate| rate.packets),
            "bits_per_s": node.rate.and_then(|rate| rate.bits), "drops_per_s": node.drops.0, "drops": node.drops.1,
        })
    });
    let edges = picture.links.iter().map(|link| {
        json!({
            "kind": link.kind, "from": name(link.from), "from_part": link.from_part, "to": name(link.to),
            "to_part": link.to_part, "there": rate(link.there), "back": rate(link.back), "drops_per_s": link.drops,
        })
    });
    let (nodes, edges): (Vec<Value>, Vec<Value>) = (nodes.collect(), edges.collect());
    one(&json!({"seconds": picture.seconds, "nodes": nodes, "edges": edges}), Format::Json)
}

#[cfg(test)]
mod tests {
    use super::super::tests::picture;
    use super::*;

    #[test]
    fn nodes_and_edges_have_what_is_documented() {
        let text = shown(&picture());
        assert_eq!(text, shown(&picture()), "one graph has one text");
        let read: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(
            read["nodes"][1],
            json!({
                "name": "edge_firewall", "kind": "function", "tenant": "default", "state": "running", "worker": 0,
                "packets_per_s": 1000.0, "bits_per_s": 1_000_000.0, "drops_per_s": 10.0, "drops": 30,
            })
        );
        assert_eq!(
            read["edges"][3],
            json!({
                "kind": "wire", "from": "lan", "from_part": null, "to": "nat", "to_part": "inside",
                "there": {"packets_per_s": 1000.0, "bits_per_s": 1_000_000.0},
                "back": {"packets_per_s": 500.0, "bits_per_s": null}, "drops_per_s": 0.0,
            })
        );
        assert_eq!(read["edges"][4]["there"], Value::Null);
    }
}
