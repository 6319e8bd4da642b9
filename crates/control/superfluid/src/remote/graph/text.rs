//! The graph as a tree, in 80 columns: what each node is, and what passes between it and the node above it.

use super::{Node, Picture, Rate, word};
use crate::remote::numbers::count;
use api::EdgeKind;
use std::fmt::Write as _;

/// Columns of a node and what it is.
const WIDTH: usize = 50;
/// Deepest indentation, in steps of two columns.
const DEEPEST: usize = 10;

/// What is still to be shown: a node, the edge by which it was come to, and how deep it stands.
struct Next {
    place: usize,
    by: Option<usize>,
    depth: usize,
}

pub(super) fn shown(picture: &Picture) -> String {
    if picture.nodes.is_empty() {
        return "nothing is wired\n".to_owned();
    }
    let mut text = format!("{:<WIDTH$}  {:>8} {:>8} {:>8}\n", "", "IN PKT/S", "OUT PKT/S", "DROPS/S");
    let mut links: Vec<Vec<usize>> = vec![Vec::new(); picture.nodes.len()];
    for (number, link) in picture.links.iter().enumerate() {
        links[link.from].push(number);
        if link.to != link.from {
            links[link.to].push(number);
        }
    }
    let mut seen = vec![false; picture.nodes.len()];
    let mut told = vec![false; picture.links.len()];
    for component in picture.layers() {
        let Some(root) = component.first().and_then(|layer| layer.first()) else { continue };
        let mut next = vec![Next { place: *root, by: None, depth: 0 }];
        seen[*root] = true;
        while let Some(Next { place, by, depth }) = next.pop() {
            text.push_str(&line(picture, place, by, depth));
            let mut below = Vec::new();
            for number in &links[place] {
                if std::mem::replace(&mut told[*number], true) {
                    continue;
                }
                let link = &picture.links[*number];
                let other = if link.from == place { link.to } else { link.from };
                if std::mem::replace(&mut seen[other], true) {
                    // It stands elsewhere: that it is connected with this one is told in a line.
                    let shown = format!("{}{}", indent(depth + 1), joint(picture, *number, place));
                    text.push_str(&row(&shown, rates(picture, *number, place), None));
                } else {
                    below.push((other, *number));
                }
            }
            // One way on is no branch.
            let deeper = if below.len() > 1 { depth + 1 } else { depth };
            next.extend(below.into_iter().rev().map(|(place, by)| Next {
                place,
                by: Some(by),
                depth: deeper,
            }));
        }
    }
    text
}

fn indent(depth: usize) -> String {
    "  ".repeat(depth.min(DEEPEST))
}

/// How an edge leads on from a node, and where to: `outside - bridge0:nic2`.
fn joint(picture: &Picture, number: usize, from: usize) -> String {
    let link = &picture.links[number];
    let (here, there, to) = match link.from == from {
        true => (&link.from_part, &link.to_part, link.to),
        false => (&link.to_part, &link.from_part, link.from),
    };
    let sign = if link.kind == EdgeKind::Observes { "~" } else { "-" };
    let here = here.as_ref().map(|part| format!("{part} ")).unwrap_or_default();
    let there = there.as_ref().map(|part| format!(":{part}")).unwrap_or_default();
    format!("{here}{sign} {}{there}", picture.nodes[to].name)
}

/// What goes to the node at the end of an edge that begins at `from`, and what comes from it.
fn rates(picture: &Picture, number: usize, from: usize) -> (Option<Rate>, Option<Rate>) {
    let link = &picture.links[number];
    if link.from == from { (link.there, link.back) } else { (link.back, link.there) }
}

fn line(picture: &Picture, place: usize, by: Option<usize>, depth: usize) -> String {
    let node = &picture.nodes[place];
    let (name, rates) = match by {
        None => (node.name.clone(), (None, None)),
        Some(number) => {
            let link = &picture.links[number];
            let above = if link.from == place { link.to } else { link.from };
            (joint(picture, number, above), self::rates(picture, number, above))
        }
    };
    let shown = format!("{}{name}  {}", indent(depth), what(node));
    row(&shown, rates, Some(node.drops.0))
}

/// What a node is: its kind, its state where that is not the usual one, its worker.
fn what(node: &Node) -> String {
    let mut text = word(node.kind).to_owned();
    if let Some(state) = node.state.as_deref().filter(|state| !["up", "running"].contains(state)) {
        let _ = write!(text, " {state}");
    }
    if let Some(worker) = node.worker {
        let _ = write!(text, ", worker {worker}");
    }
    text
}

fn row(shown: &str, (into, out): (Option<Rate>, Option<Rate>), drops: Option<f64>) -> String {
    let mut shown = shown.to_owned();
    if shown.chars().count() > WIDTH {
        shown = shown.chars().take(WIDTH - 3).collect::<String>() + "...";
    }
    let rate = |rate: Option<Rate>| rate.map_or("-".to_owned(), |rate| count(rate.packets));
    let drops = drops.map_or("-".to_owned(), count);
    let line = format!("{shown:<WIDTH$}  {:>8} {:>8} {drops:>8}", rate(into), rate(out));
    line.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::tests::picture;
    use super::super::{Node, Picture};
    use super::*;

    #[test]
    fn a_graph_is_a_tree_in_80_columns() {
        let text = shown(&picture());
        let wanted = "                                                    IN PKT/S OUT PKT/S  DROPS/S
lan  port                                                  -        -       10
- nat:inside  function, worker 0                       1.00k      500       10
outside - wan  port                                        -        -       10
nic1  port                                                 -        -       10
- bridge0  device                                      1.00k      500       10
  nic2 - edge_firewall:outside                           500    1.00k        -
  nic1 - edge_firewall:inside  function, worker 0        500    1.00k       10
  ~ flows  function, worker 0                              -        -       10
  - nic2  port                                           500    1.00k       10
";
        assert_eq!(text, wanted);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(shown(&Picture::default()), "nothing is wired\n");
    }

    #[test]
    fn a_long_chain_is_not_indented() {
        let one = picture().nodes[1].clone();
        let name = |n: usize| format!("a_function_with_a_long_name_{n:04}");
        let nodes: Vec<Node> = (0..50).map(|n| Node { name: name(n), ..one.clone() }).collect();
        let link = picture().links[0].clone();
        let links = (1..50).map(|n| super::super::Link { from: n - 1, to: n, ..link.clone() }).collect();
        let text = shown(&Picture { seconds: 1.0, nodes, links });
        assert_eq!(text.lines().count(), 51);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
