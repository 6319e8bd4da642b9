//! An expression as alternatives of conditions, for those that look many filters up at once.

use super::{End, Expression, Filter, Test};
use std::net::IpAddr;

/// Something that one header of a packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The EtherType behind the tags.
    Ethertype(u16),
    /// The IP protocol, of the family of this EtherType or of any.
    Protocol(Option<u16>, u8),
    /// The tag at this place, from 0, of this VLAN or any.
    Vlan(u8, Option<u16>),
    /// An Ethernet address.
    Ethernet(Side, [u8; 6]),
    /// An IP address, or one of ARP, within a prefix.
    Network(Side, IpAddr, u8),
    /// A port from the first to the last, of this protocol or of any that has ports.
    Port(Option<u8>, Side, u16, u16),
    /// It carries VXLAN or Geneve, of this network or any.
    Vni(Option<u32>),
    /// It has a label at this place of its stack, from 0, of this value or any.
    Mpls(u8, Option<u32>),
    /// It carries GRE, with this key or with any or none.
    Gre(Option<u32>),
}

/// Which end of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Where it comes from.
    Source,
    /// Where it goes.
    Destination,
}

/// Conditions that hold together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternative {
    /// Each about the packet inside of so many tunnels.
    pub conditions: Vec<(u8, Condition)>,
    /// A packet of which they hold matches. Otherwise the filter has to be asked.
    pub is_exact: bool,
}

impl Alternative {
    /// Nothing is known.
    fn unknown() -> Alternative {
        Alternative { conditions: Vec::new(), is_exact: false }
    }
}

impl Filter {
    /// The filter as alternatives, `most` at the most: of a packet that matches, all conditions of one of
    /// them hold.
    pub fn alternatives(&self, most: usize) -> Vec<Alternative> {
        self.expression.alternatives(most)
    }
}

impl Expression {
    fn alternatives(&self, most: usize) -> Vec<Alternative> {
        match self {
            Expression::Not(_) => vec![Alternative::unknown()],
            Expression::Is(level, test) => test.alternatives(*level),
            Expression::Any(parts) => {
                let all: Vec<_> = parts.iter().flat_map(|part| part.alternatives(most)).collect();
                if all.len() > most { vec![Alternative::unknown()] } else { all }
            }
            Expression::All(parts) => {
                let mut all = vec![Alternative { conditions: Vec::new(), is_exact: true }];
                for part in parts {
                    let part = part.alternatives(most);
                    if all.len() * part.len() > most {
                        // The others are conditions all the same.
                        all.iter_mut().for_each(|alternative| alternative.is_exact = false);
                        continue;
                    }
                    let with = |one: &Alternative, other: &Alternative| Alternative {
                        conditions: [&one.conditions[..], &other.conditions].concat(),
                        is_exact: one.is_exact && other.is_exact,
                    };
                    all = all.iter().flat_map(|one| part.iter().map(move |other| with(one, other))).collect();
                }
                all
            }
        }
    }
}

impl Test {
    fn alternatives(&self, level: u8) -> Vec<Alternative> {
        let holds = |conditions: &[Condition]| Alternative {
            conditions: conditions.iter().map(|condition| (level, *condition)).collect(),
            is_exact: true,
        };
        let at = |end: End, condition: &dyn Fn(Side) -> Condition| {
            let [source, destination] = [Side::Source, Side::Destination].map(condition);
            match end {
                End::Source => vec![holds(&[source])],
                End::Destination => vec![holds(&[destination])],
                End::Either => vec![holds(&[source]), holds(&[destination])],
                End::Both => vec![holds(&[source, destination])],
            }
        };
        let condition = match *self {
            Test::Ethertype(ethertype) => Condition::Ethertype(ethertype),
            Test::Protocol(family, protocol) => Condition::Protocol(family, protocol),
            Test::Vlan(place, id) => Condition::Vlan(place, id),
            Test::Vni(id) => Condition::Vni(id),
            Test::Mpls(place, label) => Condition::Mpls(place, label),
            Test::Gre(key) => Condition::Gre(key),
            Test::Ethernet(end, address) => return at(end, &|side| Condition::Ethernet(side, address)),
            Test::Network(end, ip, length) => return at(end, &|side| Condition::Network(side, ip, length)),
            Test::Ports(protocol, end, first, last) => {
                return at(end, &|side| Condition::Port(protocol, side, first, last));
            }
            Test::AtMost(_) | Test::AtLeast(_) | Test::Became(_) => return vec![Alternative::unknown()],
        };
        vec![holds(&[condition])]
    }
}
