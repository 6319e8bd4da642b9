//! Tags and tunnels in filters, against a plain model: packets are built from what they are, and expressions
//! are answered from that, not from the bytes.

use super::{Filter, Outcome};
use proptest::prelude::*;

/// A packet of TCP or UDP between 10.1.0.X and 10.2.0.X in tags, and what carries it.
#[derive(Clone, Debug)]
struct Packet {
    tags: Vec<u16>,
    host: u8,
    body: Body,
}

#[derive(Clone, Debug)]
enum Body {
    Tcp(u16),
    Udp(u16),
    Vxlan(u32, Box<Packet>),
    Geneve(u32, Box<Packet>),
    Gre(Option<u32>, Box<Packet>),
    /// Not in IP; it carries IP itself.
    Mpls(Vec<u32>, Box<Packet>),
}

impl Packet {
    fn inside(&self) -> Option<&Packet> {
        match &self.body {
            Body::Tcp(_) | Body::Udp(_) => None,
            Body::Vxlan(_, inner) | Body::Geneve(_, inner) | Body::Gre(_, inner) | Body::Mpls(_, inner) => {
                Some(inner)
            }
        }
    }

    fn ethernet(&self) -> Vec<u8> {
        let mut bytes = vec![2; 12];
        for tag in &self.tags {
            bytes.extend([0x81, 0]);
            bytes.extend(tag.to_be_bytes());
        }
        bytes.extend(if matches!(self.body, Body::Mpls(..)) { [0x88, 0x47] } else { [0x08, 0x00] });
        bytes.extend(self.network());
        bytes
    }

    fn network(&self) -> Vec<u8> {
        let udp = |port: u16, body: Vec<u8>| {
            let mut bytes = [4000, port, 8 + body.len() as u16, 0].map(u16::to_be_bytes).concat();
            bytes.extend(body);
            (17, bytes)
        };
        let (protocol, payload) = match &self.body {
            Body::Tcp(port) => {
                let mut bytes = [4000u16.to_be_bytes(), port.to_be_bytes()].concat();
                bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 0]);
                (6, bytes)
            }
            Body::Udp(port) => udp(*port, vec![]),
            Body::Vxlan(vni, inner) => {
                udp(4789, [vec![8, 0, 0, 0], (vni << 8).to_be_bytes().into(), inner.ethernet()].concat())
            }
            Body::Geneve(vni, inner) => {
                let header = vec![1, 0, 0x65, 0x58];
                let option = vec![0, 1, 2, 0];
                udp(6081, [header, (vni << 8).to_be_bytes().into(), option, inner.ethernet()].concat())
            }
            Body::Gre(key, inner) => {
                let mut bytes = vec![if key.is_some() { 0x20 } else { 0 }, 0, 0x65, 0x58];
                bytes.extend(key.iter().flat_map(|key| key.to_be_bytes()));
                bytes.extend(inner.ethernet());
                (47, bytes)
            }
            Body::Mpls(labels, inner) => {
                let last = labels.len() - 1;
                let entries = labels.iter().enumerate();
                let entry = |(place, label): (usize, &u32)| {
                    (label << 12 | u32::from(place == last) << 8 | 64).to_be_bytes()
                };
                let mut bytes: Vec<u8> = entries.flat_map(entry).collect();
                bytes.extend(inner.network());
                return bytes;
            }
        };
        let mut bytes = vec![0x45, 0];
        bytes.extend((20 + payload.len() as u16).to_be_bytes());
        bytes.extend([0, 0, 0, 0, 64, protocol, 0, 0, 10, 1, 0, self.host, 10, 2, 0, self.host]);
        bytes.extend(payload);
        bytes
    }
}

/// An expression, and how it is written.
#[derive(Clone, Debug)]
enum Said {
    Tcp,
    Port(u16),
    Host(u8),
    Vlan(Option<u16>),
    Vni(Option<u32>),
    Gre(Option<Option<u32>>),
    Mpls(Option<u32>),
    Not(Box<Said>),
    /// Joined by `and` (true) or `or`, from the left.
    Joined(Box<Said>, Vec<(bool, Said)>),
}

impl Said {
    fn text(&self) -> String {
        let number = |word: &str, number: Option<u32>| {
            number.map_or(word.to_owned(), |number| format!("{word} {number}"))
        };
        match self {
            Said::Tcp => "tcp".into(),
            Said::Port(port) => format!("dst port {port}"),
            Said::Host(host) => format!("src 10.1.0.{host}"),
            Said::Vlan(id) => number("vlan", id.map(u32::from)),
            Said::Vni(id) => number("vni", *id),
            Said::Gre(None) => "gre".into(),
            Said::Gre(Some(key)) => format!("gre key {}", key.unwrap_or(0)),
            Said::Mpls(label) => number("mpls", *label),
            Said::Not(inner) => format!("not {}", inner.text()),
            Said::Joined(first, rest) => {
                let mut text = format!("({}", first.text());
                for (and, part) in rest {
                    text.push_str(if *and { " and " } else { " || " });
                    text.push_str(&part.text());
                }
                text + ")"
            }
        }
    }
}

/// Where the next primitive looks: into so many tunnels, behind so many tags, behind so many labels of the
/// last.
type Place = (usize, usize, usize);

/// Whether it holds, and where what follows looks; `None` where more is asked for than is allowed.
fn holds(said: &Said, packet: &Packet, place: Place) -> Option<(bool, Place)> {
    let (level, tags, labels) = place;
    let at = |level| (0..level).try_fold(packet, |packet, _| packet.inside());
    let here = at(level);
    let is = |test: &dyn Fn(&Packet) -> bool| here.is_some_and(test);
    let is_id = |wanted: Option<u32>, found: u32| wanted.is_none_or(|wanted| wanted == found);
    let inside = (level + 1, 0, 0);
    Some(match said {
        Said::Tcp => (is(&|packet| matches!(packet.body, Body::Tcp(_))), place),
        Said::Port(wanted) => {
            let port = |packet: &Packet| match packet.body {
                Body::Tcp(port) | Body::Udp(port) => Some(port),
                Body::Vxlan(..) => Some(4789),
                Body::Geneve(..) => Some(6081),
                Body::Gre(..) | Body::Mpls(..) => None,
            };
            (is(&|packet| port(packet) == Some(*wanted)), place)
        }
        Said::Host(host) => {
            (is(&|packet| packet.host == *host && !matches!(packet.body, Body::Mpls(..))), place)
        }
        Said::Vlan(id) => {
            let tag = |packet: &Packet| packet.tags.get(tags).copied();
            let holds = is(&|packet| tag(packet).is_some_and(|tag| is_id(id.map(u32::from), tag.into())));
            (tags < 2).then_some((holds, (level, tags + 1, labels)))?
        }
        Said::Mpls(label) if labels > 0 => {
            let found = at(level - 1).and_then(|packet| match &packet.body {
                Body::Mpls(list, _) => list.get(labels).copied(),
                _ => None,
            });
            (found.is_some_and(|found| is_id(*label, found)), (level, tags, labels + 1))
        }
        Said::Vni(_) | Said::Gre(_) | Said::Mpls(_) if level == 4 => return None,
        Said::Vni(id) => {
            let holds = |packet: &Packet| match packet.body {
                Body::Vxlan(vni, _) | Body::Geneve(vni, _) => is_id(*id, vni),
                _ => false,
            };
            (is(&holds), inside)
        }
        Said::Gre(wanted) => {
            let holds = |packet: &Packet| match (&packet.body, wanted) {
                (Body::Gre(key, _), Some(wanted)) => *key == Some(wanted.unwrap_or(0)),
                (Body::Gre(..), None) => true,
                _ => false,
            };
            (is(&holds), inside)
        }
        Said::Mpls(label) => {
            let holds = |packet: &Packet| match &packet.body {
                Body::Mpls(list, _) => is_id(*label, list[0]),
                _ => false,
            };
            (is(&holds), (level + 1, 0, 1))
        }
        Said::Not(inner) => (!holds(inner, packet, place)?.0, place),
        Said::Joined(first, rest) => {
            let (mut all, mut behind) = holds(first, packet, place)?;
            for (and, part) in rest {
                if *and {
                    let (holds, then) = holds(part, packet, behind)?;
                    (all, behind) = (all && holds, then);
                } else {
                    let (holds, then) = holds(part, packet, place)?;
                    (all, behind) = (all || holds, if then == behind { behind } else { place });
                }
            }
            (all, behind)
        }
    })
}

fn packets() -> impl Strategy<Value = Packet> {
    let tags = || prop::collection::vec(0u16..3, 0..4);
    let plain = (tags(), 0u8..3, 0u16..3, any::<bool>()).prop_map(|(tags, host, port, tcp)| Packet {
        tags,
        host,
        body: if tcp { Body::Tcp(port) } else { Body::Udp(port) },
    });
    plain.prop_recursive(4, 4, 1, move |inner| {
        let key = prop::option::of(0u32..3);
        let labels = prop::collection::vec(0u32..3, 1..4);
        (tags(), 0u8..3, 0u32..3, key, labels, 0..4, inner).prop_map(
            |(tags, host, vni, key, labels, kind, inner)| {
                let inner = Box::new(inner);
                // MPLS carries IP here, so no tags and no MPLS.
                let is_ip = inner.tags.is_empty() && !matches!(inner.body, Body::Mpls(..));
                let body = match kind {
                    0 => Body::Vxlan(vni, inner),
                    1 => Body::Geneve(vni, inner),
                    2 if is_ip => Body::Mpls(labels, inner),
                    _ => Body::Gre(key, inner),
                };
                Packet { tags, host, body }
            },
        )
    })
}

fn expressions() -> impl Strategy<Value = Said> {
    let id = || prop::option::of(0u32..3);
    let primitive = prop_oneof![
        Just(Said::Tcp),
        prop_oneof![0u16..3, Just(4789), Just(6081)].prop_map(Said::Port),
        (0u8..3).prop_map(Said::Host),
        id().prop_map(|id| Said::Vlan(id.map(|id| id as u16))),
        id().prop_map(Said::Vni),
        prop::option::of(id()).prop_map(Said::Gre),
        id().prop_map(Said::Mpls),
    ];
    primitive.prop_recursive(4, 16, 4, |inner| {
        let rest = prop::collection::vec((any::<bool>(), inner.clone()), 1..4);
        prop_oneof![
            1 => inner.clone().prop_map(|inner| Said::Not(Box::new(inner))),
            4 => (inner, rest).prop_map(|(first, rest)| Said::Joined(Box::new(first), rest)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn tags_and_tunnels_are_what_the_model_says(packet in packets(), said in expressions()) {
        let bytes = packet.ethernet();
        let text = said.text();
        match (Filter::parse(&text), holds(&said, &packet, (0, 0, 0))) {
            (Ok(filter), Some((holds, _))) => {
                prop_assert_eq!(filter.matches(&bytes, bytes.len() as u32, Outcome::Passed), holds, "{}", text);
            }
            (Err(error), None) => prop_assert!(error.message.contains("at most"), "{}", error),
            (read, model) => prop_assert!(false, "{}: {:?} {:?}", text, read, model),
        }
    }
}

fn tcp(tags: &[u16]) -> Packet {
    Packet { tags: tags.into(), host: 1, body: Body::Tcp(80) }
}

#[test]
fn primitives_before_a_tunnel_mean_the_outer_headers_and_those_after_it_the_inner() {
    let vxlan = Packet { tags: vec![5], host: 2, body: Body::Vxlan(7, Box::new(tcp(&[9, 10]))) };
    let mpls = Packet { tags: vec![], host: 0, body: Body::Mpls(vec![100, 200], Box::new(vxlan.clone())) };
    let gre = Packet { tags: vec![], host: 3, body: Body::Gre(None, Box::new(tcp(&[]))) };
    for (text, packet, expected) in [
        ("udp and vni 7 and tcp", &vxlan, true),
        ("vni 7 and udp", &vxlan, false),
        ("vlan 5 and vni 7 and vlan 9 and vlan 10", &vxlan, true),
        ("vni 8", &vxlan, false),
        ("udp and (vni 8 or vni 7) and tcp port 80", &vxlan, true),
        ("udp port 4789 and vni 7 and ether src 2:2:2:2:2:2", &vxlan, true),
        ("vni 7 and ether src 2:2:2:2:2:3", &vxlan, false),
        ("mpls 100 and mpls 200 and vni 7 and tcp", &mpls, true),
        ("mpls 200", &mpls, false),
        ("mpls 100 and mpls 200 and mpls 300", &mpls, false),
        ("vni 7", &mpls, false),
        ("gre and tcp", &gre, true),
        ("gre key 0", &gre, false),
    ] {
        // A tag in front of IP is none behind MPLS.
        let mut packet = packet.clone();
        if let Body::Mpls(_, inner) = &mut packet.body {
            inner.tags.clear();
        }
        let bytes = packet.ethernet();
        let filter = Filter::parse(text).expect(text);
        assert_eq!(filter.matches(&bytes, bytes.len() as u32, Outcome::Passed), expected, "{text}");
    }
}

#[test]
fn numbers_and_depths_that_are_not_allowed_are_told() {
    for (text, error) in [
        ("vlan 4096", "column 6: found `4096`; allowed: a VLAN, 0 to 4095"),
        ("vni 16777216", "column 5: found `16777216`; allowed: a VNI, 0 to 16777215"),
        ("mpls 1048576", "column 6: found `1048576`; allowed: a label, 0 to 1048575"),
        ("gre key", "column 8: it ends here; allowed: a key, 0 to 4294967295"),
        ("gre and gre and vni and vni 3 and gre", "column 35: found `gre`; allowed: at most 4 tunnels"),
        ("vlan and vlan and vlan", "column 19: found `vlan`; allowed: at most 2 tags"),
    ] {
        let found = Filter::parse(text).expect_err(text).to_string();
        assert!(found.starts_with(error), "{text}: {found}");
    }
}

#[test]
fn words_that_are_misspelt_are_told_with_what_was_meant() {
    let told = |text: &str| Filter::parse(text).map(drop).expect_err(text).to_string();
    for (text, column, meant) in [
        ("tpc", 1, "tcp"),
        ("tcp prt 80", 5, "port"),
        ("hots 10.0.0.1", 1, "host"),
        ("tcp adn udp", 5, "and"),
        ("not dorpped", 5, "dropped"),
        ("ip proto icpm", 10, "icmp"),
    ] {
        let told = told(text);
        assert!(told.starts_with(&format!("column {column}: found `")), "{told}");
        assert!(told.ends_with(&format!("; did you mean `{meant}`?")), "{told}");
    }
    for text in ["frobnicate", "tcp and", "vlan 4096", "port http"] {
        assert!(!told(text).contains("did you mean"), "{}", told(text));
    }
}
