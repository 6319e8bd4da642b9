//! The graph as a picture: one self-contained SVG, which a browser shows light or dark as its reader likes.
//!
//! Components stand below each other, layers beside each other. An edge is as thick as what passes it; its
//! colour says what it is, and the colour of a node's side what that is. Whatever is text from outside is
//! escaped.

use super::{Link, Node, Picture, Rate, word};
use crate::remote::numbers::count;
use api::{EdgeKind, NodeKind};
use std::fmt::Write as _;

/// Sizes, in pixels.
const MARGIN: f64 = 24.0;
const NODE_HEIGHT: f64 = 44.0;
const ROW: f64 = 64.0;
const BETWEEN_LAYERS: f64 = 150.0;
const BETWEEN_COMPONENTS: f64 = 28.0;
const NARROWEST: f64 = 110.0;
/// A character of a name.
const CHARACTER: f64 = 7.6;

const STYLE: &str = "\
svg{--back:#ffffff;--ink:#1b1f24;--soft:#57606a;--box:#f6f8fa;--line:#afb8c1;--port:#0969da;--device:#8250df;\
--switch:#9a6700;--function:#1a7f37;--service:#bf3989;--bad:#cf222e;background:var(--back);\
font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}\
@media(prefers-color-scheme:dark){svg{--back:#0d1117;--ink:#e6edf3;--soft:#8b949e;--box:#161b22;--line:#484f58;\
--port:#58a6ff;--device:#bc8cff;--switch:#d29922;--function:#3fb950;--service:#f778ba;--bad:#f85149}}\
.box{fill:var(--box);stroke:var(--line)}.down .box{stroke:var(--bad);stroke-width:2}\
.still .box{stroke-dasharray:4 3}.name{fill:var(--ink);font-size:13px;font-weight:600}\
.what,.rate{fill:var(--soft);font-size:11px}.bad{fill:var(--bad)}\
.rate{paint-order:stroke;stroke:var(--back);stroke-width:4px;stroke-linejoin:round;text-anchor:middle}\
.edge{fill:none;stroke:var(--line);stroke-linecap:round}.opens{stroke:var(--device)}.over{stroke:var(--port)}\
.leads{stroke:var(--service)}.observes{stroke-dasharray:2 5}";

/// Where a node is drawn.
#[derive(Clone, Copy, Default)]
struct Spot {
    x: f64,
    y: f64,
    width: f64,
}

impl Spot {
    fn middle(self) -> f64 {
        self.y + NODE_HEIGHT / 2.0
    }

    fn right(self) -> f64 {
        self.x + self.width
    }
}

pub(super) fn drawn(picture: &Picture) -> String {
    let (spots, width, height) = places(picture);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} \
         {height:.0}\" role=\"img\">\n<title>Superfluid: {} nodes, {} edges</title>\n<style>{STYLE}</style>\n",
        picture.nodes.len(),
        picture.links.len()
    );
    let busiest = picture.links.iter().map(busy).fold(0.0, f64::max);
    // Rates lie above all edges, and nodes above these.
    let (mut edges, mut rates) = (String::new(), String::new());
    let mut beside: std::collections::HashMap<(usize, usize), usize> = std::collections::HashMap::new();
    for link in &picture.links {
        let pair = (link.from.min(link.to), link.from.max(link.to));
        let nth = beside.entry(pair).or_default();
        edge(picture, link, (spots[link.from], spots[link.to]), *nth, busiest, (&mut edges, &mut rates));
        *nth += 1;
    }
    svg.push_str(&edges);
    svg.push_str(&rates);
    for (place, spot) in picture.nodes.iter().zip(&spots) {
        node(place, *spot, &mut svg);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Where each node is, and how large the whole is.
fn places(picture: &Picture) -> (Vec<Spot>, f64, f64) {
    let mut spots = vec![Spot::default(); picture.nodes.len()];
    let (mut top, mut widest) = (MARGIN, 0.0_f64);
    for component in picture.layers() {
        let rows = component.iter().map(Vec::len).max().unwrap_or(0) as f64;
        let mut x = MARGIN;
        for layer in component {
            let longest = layer.iter().map(|place| picture.nodes[*place].name.chars().count()).max();
            let width = (longest.unwrap_or(0) as f64 * CHARACTER + 28.0).max(NARROWEST);
            let above = (rows - layer.len() as f64) * ROW / 2.0;
            for (n, place) in layer.iter().enumerate() {
                spots[*place] = Spot { x, y: top + above + n as f64 * ROW, width };
            }
            x += width + BETWEEN_LAYERS;
        }
        widest = widest.max(x - BETWEEN_LAYERS);
        top += (rows - 1.0) * ROW + NODE_HEIGHT + BETWEEN_COMPONENTS;
    }
    let height = if picture.nodes.is_empty() { 2.0 * MARGIN } else { top - BETWEEN_COMPONENTS + MARGIN };
    (spots, widest.max(NARROWEST) + MARGIN, height)
}

/// What passes an edge both ways.
fn busy(link: &Link) -> f64 {
    link.there.map_or(0.0, |rate| rate.packets) + link.back.map_or(0.0, |rate| rate.packets)
}

fn edge(
    picture: &Picture,
    link: &Link,
    (from, to): (Spot, Spot),
    nth: usize,
    busiest: f64,
    (edges, rates): (&mut String, &mut String),
) {
    // From the left one to the right one; within a layer, by their right sides.
    let is_turned = to.x < from.x;
    let (left, right) = if is_turned { (to, from) } else { (from, to) };
    // Edges of one pair lie beside each other.
    let apart = nth.div_ceil(2) as f64 * if nth.is_multiple_of(2) { 1.0 } else { -1.0 };
    let (beside, apart) = (apart * 50.0, apart * 12.0);
    let (a, b) = (left.middle() + apart, right.middle() + apart);
    let (path, x, y) = if left.x == right.x {
        let (x, out) = (left.right(), left.right() + 46.0 + nth as f64 * 12.0);
        (
            format!("M{x:.1} {a:.1}C{out:.1} {a:.1} {out:.1} {b:.1} {x:.1} {b:.1}"),
            out - 8.0,
            f64::midpoint(a, b),
        )
    } else {
        let (x, end) = (left.right(), right.x);
        let middle = f64::midpoint(x, end);
        (
            format!("M{x:.1} {a:.1}C{middle:.1} {a:.1} {middle:.1} {b:.1} {end:.1} {b:.1}"),
            middle,
            f64::midpoint(a, b),
        )
    };
    let kind = match link.kind {
        EdgeKind::Wire => "wire",
        EdgeKind::Over => "over",
        EdgeKind::Opens => "opens",
        EdgeKind::Observes => "observes",
        EdgeKind::Leads => "leads",
    };
    let thick = if busiest > 0.0 { 1.5 + 4.5 * (1.0 + busy(link)).ln() / (1.0 + busiest).ln() } else { 1.5 };
    let end = |place: usize, part: &Option<String>| match part {
        Some(part) => format!("{}:{part}", picture.nodes[place].name),
        None => picture.nodes[place].name.clone(),
    };
    let about = format!(
        "{kind}: {} to {}: {}; back: {}",
        end(link.from, &link.from_part),
        end(link.to, &link.to_part),
        told(link.there),
        told(link.back)
    );
    let about = escaped(&about);
    let _ = writeln!(
        edges,
        "<path class=\"edge {kind}\" stroke-width=\"{thick:.1}\" d=\"{path}\"><title>{about}</title></path>"
    );
    let (there, back) = if is_turned { (link.back, link.there) } else { (link.there, link.back) };
    let mut line = |rate: Option<Rate>, arrow: &str, y: f64| {
        if let Some(rate) = rate.filter(|rate| rate.packets > 0.0) {
            let shown = count(rate.packets);
            let shown =
                if arrow == "\u{2190}" { format!("{arrow} {shown}") } else { format!("{shown} {arrow}") };
            let x = x + beside;
            let _ = writeln!(rates, "<text class=\"rate\" x=\"{x:.1}\" y=\"{y:.1}\">{shown}</text>");
        }
    };
    line(there, "\u{2192}", y - 4.0);
    line(back, "\u{2190}", y + 12.0);
}

/// What passes in a second, in words.
fn told(rate: Option<Rate>) -> String {
    match rate {
        None => "not counted".to_owned(),
        Some(Rate { packets, bits: None }) => format!("{} packets/s", count(packets)),
        Some(Rate { packets, bits: Some(bits) }) => {
            format!("{} packets/s, {} bit/s", count(packets), count(bits))
        }
    }
}

fn node(node: &Node, spot: Spot, svg: &mut String) {
    let class = match node.state.as_deref() {
        Some("down") => "down",
        Some("paused" | "frozen" | "starting" | "finished") => "still",
        _ => "node",
    };
    let mut what = word(node.kind).to_owned();
    if let Some(state) = node.state.as_deref().filter(|state| !["up", "running"].contains(state)) {
        let _ = write!(what, " {state}");
    }
    if let Some(rate) = node.rate {
        let _ = write!(what, " \u{b7} {}/s", count(rate.packets));
    }
    let tenant = node.tenant.as_deref().map(|tenant| format!(", tenant {tenant}")).unwrap_or_default();
    let worker = node.worker.map(|worker| format!(", worker {worker}")).unwrap_or_default();
    let about = format!(
        "{} {}{tenant}{worker}: {}; {} drops/s, {} in all",
        word(node.kind),
        node.name,
        told(node.rate),
        count(node.drops.0),
        node.drops.1
    );
    let colour = match node.kind {
        NodeKind::Port => "port",
        NodeKind::Device => "device",
        NodeKind::Switch => "switch",
        NodeKind::Function => "function",
        NodeKind::Service => "service",
    };
    let Spot { x, y, width } = spot;
    let _ = writeln!(
        svg,
        "<g class=\"{class}\"><title>{}</title><rect class=\"box\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
         height=\"{NODE_HEIGHT}\" rx=\"7\"/><rect x=\"{x:.1}\" y=\"{:.1}\" width=\"4\" height=\"{}\" rx=\"2\" \
         fill=\"var(--{colour})\"/><text class=\"name\" x=\"{:.1}\" y=\"{:.1}\">{}</text><text class=\"what\" x=\"{:.1}\" \
         y=\"{:.1}\">{}{}</text></g>",
        escaped(&about),
        y + 7.0,
        NODE_HEIGHT - 14.0,
        x + 14.0,
        y + 18.0,
        escaped(&node.name),
        x + 14.0,
        y + 34.0,
        escaped(&what),
        match node.drops.0 > 0.0 {
            true => format!(" <tspan class=\"bad\">\u{2212}{}/s</tspan>", count(node.drops.0)),
            false => String::new(),
        }
    );
}

/// Text between tags, or as an attribute's value (XML 1.0, section 2.4).
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other if other.is_control() => safe.push(' '),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::super::tests::{example, picture};
    use super::*;

    #[test]
    fn the_example_is_drawn_as_it_was() {
        let svg = drawn(&picture());
        assert_eq!(svg, drawn(&picture()), "one graph has one picture");
        if let Some(path) = std::env::var_os("UPDATE_GRAPH") {
            std::fs::write(path, &svg).expect("a file");
        }
        assert_eq!(svg, include_str!("example.svg"), "UPDATE_GRAPH=FILE writes it anew");
    }

    #[test]
    fn names_are_escaped() {
        let mut graph = example(3000);
        graph.nodes[0].name = "<script>&\"'\u{7}".into();
        let svg = drawn(&Picture::between(&graph, &graph));
        assert!(!svg.contains("<script") && svg.contains("&lt;script&gt;&amp;&quot;&#39;"), "{svg}");
        assert_eq!(escaped("a\u{0}b"), "a b");
    }

    #[test]
    fn nodes_do_not_lie_on_each_other() {
        let one = picture().nodes[1].clone();
        let nodes = (0..100).map(|n| Node { name: format!("function{n}"), ..one.clone() }).collect();
        let link = picture().links[0].clone();
        let links = (1..100).map(|n| Link { from: (n - 1) / 3, to: n, ..link.clone() }).collect();
        let (spots, width, height) = places(&Picture { seconds: 1.0, nodes, links });
        for (n, a) in spots.iter().enumerate() {
            assert!(a.x >= 0.0 && a.right() <= width && a.y >= 0.0 && a.y + NODE_HEIGHT <= height);
            for b in &spots[n + 1..] {
                let apart = a.right() < b.x || b.right() < a.x || (a.y - b.y).abs() > NODE_HEIGHT;
                assert!(apart, "{n}");
            }
        }
        assert!(drawn(&Picture::default()).ends_with("</svg>\n"));
    }
}
