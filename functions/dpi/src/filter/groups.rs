//! Filters by protocol, direction and port. Ports for which the same rules are written are one class; the
//! classes with most rules have filters of their own, all others share one. Where rules ask for a direction,
//! each has filters of its own, so that what is looked for in requests costs responses nothing.

use super::Filter;
use super::literals::Literals;
use crate::rules::network::Ports;
use crate::rules::{Direction, Protocol, Rules};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

/// Most classes of destination ports, and of source ports, beside the one without rules of its own.
const MAX_CLASSES: usize = 6;
/// Most ports or ranges at which something changes; with more, all rules are for all ports.
const MAX_CORNERS: usize = 4096;

/// Classes of one end's ports.
#[derive(Debug, Default)]
struct Classes {
    /// By port; empty when there is only class 0.
    of_port: Vec<u8>,
    /// Rules of each class but 0.
    rules: Vec<Vec<u32>>,
}

impl Classes {
    /// Rules with the sets of ports that they are for.
    fn new(rules: &[(u32, u32)], sets: &[Ports]) -> Classes {
        let mut by_set: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (rule, set) in rules {
            by_set.entry(*set).or_default().push(*rule);
        }
        let mut corners = BTreeSet::from([0u32]);
        for set in by_set.keys() {
            for (first, last) in sets[*set as usize].ranges() {
                corners.extend([u32::from(first), u32::from(last) + 1]);
            }
        }
        if by_set.is_empty() || corners.len() > MAX_CORNERS {
            return Classes::default();
        }
        let mut classes = Classes { of_port: vec![0; 1 << 16], rules: Vec::new() };
        // Intervals by the sets that they are in.
        let mut alike: BTreeMap<Vec<u32>, Vec<(u32, u32)>> = BTreeMap::new();
        let ends = corners.iter().skip(1).copied().chain([1 << 16]);
        for (first, end) in corners.iter().copied().zip(ends).filter(|(first, end)| first < end) {
            let inside = by_set.keys().filter(|set| sets[**set as usize].contains(first as u16));
            let inside: Vec<u32> = inside.copied().collect();
            if !inside.is_empty() {
                alike.entry(inside).or_default().push((first, end));
            }
        }
        let count = |inside: &[u32]| inside.iter().map(|set| by_set[set].len()).sum::<usize>();
        let mut alike: Vec<_> = alike.into_iter().collect();
        alike.sort_by_key(|(inside, _)| core::cmp::Reverse(count(inside)));
        for (number, (inside, intervals)) in alike.into_iter().enumerate() {
            let class = number.min(MAX_CLASSES - 1);
            if classes.rules.len() <= class {
                classes.rules.push(Vec::new());
            }
            classes.rules[class].extend(inside.iter().flat_map(|set| &by_set[set]));
            for (first, end) in intervals {
                classes.of_port[first as usize..end as usize].fill(class as u8 + 1);
            }
        }
        classes
    }

    #[inline]
    fn of(&self, port: u16) -> usize {
        self.of_port.get(usize::from(port)).map_or(0, |class| usize::from(*class))
    }
}

/// Filters of a protocol: one without rules for certain ports, those of the destination's classes, those of
/// the source's, and one with all rules.
#[derive(Debug, Default)]
struct Family {
    destination: Classes,
    source: Classes,
    filters: Vec<Filter>,
}

/// All filters.
#[derive(Debug, Default)]
pub struct Groups {
    families: Vec<Family>,
    /// By protocol, and by direction as [`way`] has it.
    places: [[u8; WAYS]; 4],
}

/// Directions, and packets without one.
const WAYS: usize = 3;

/// Number of a direction.
fn way(direction: Option<Direction>) -> usize {
    match direction {
        None => 0,
        Some(Direction::ToServer) => 1,
        Some(Direction::ToClient) => 2,
    }
}

/// Number of a protocol's filters.
fn family(protocol: u8) -> usize {
    match protocol {
        6 => 0,
        17 => 1,
        1 | 58 => 2,
        _ => 3,
    }
}

impl Family {
    /// For the rules of a protocol that may match what goes in this direction; without one those that ask for
    /// none.
    fn new(rules: &Rules, literals: &Literals, protocol: Protocol, direction: Option<Direction>) -> Family {
        let (mut any, mut to, mut from) = (Vec::new(), Vec::new(), Vec::new());
        for (number, rule) in rules.list.iter().enumerate() {
            let is_of_way = rule.flow.direction.is_none_or(|asked| direction == Some(asked));
            // Of rules about messages only what the payload must have is looked for here.
            let is_elsewhere = rule.has_fields() && literals.in_payload[number].is_none();
            if !is_of_way || is_elsewhere || rule.protocol != protocol && rule.protocol != Protocol::Ip {
                continue;
            }
            let number = number as u32;
            let is_narrow = |set: u32| {
                let ports = rules.ports(set).ranges().map(|(first, last)| u32::from(last - first) + 1);
                ports.sum::<u32>() <= 1 << 15
            };
            let [(_, source), (_, destination)] = rule.ends;
            if rule.is_bidirectional {
                any.push(number);
            } else if is_narrow(destination) {
                to.push((number, destination));
            } else if is_narrow(source) {
                from.push((number, source));
            } else {
                any.push(number);
            }
        }
        let (destination, source) = (Classes::new(&to, &rules.ports), Classes::new(&from, &rules.ports));
        // What could not be put in classes is for all ports.
        if destination.rules.is_empty() {
            any.extend(to.iter().map(|(rule, _)| *rule));
        }
        if source.rules.is_empty() {
            any.extend(from.iter().map(|(rule, _)| *rule));
        }
        let filter = |more: &[Vec<u32>]| {
            let numbers: BTreeSet<u32> = any.iter().chain(more.iter().flatten()).copied().collect();
            Filter::new(&numbers.into_iter().collect::<Vec<_>>(), &literals.in_payload, rules, literals)
        };
        let mut filters = vec![filter(&[])];
        filters.extend(destination.rules.iter().map(|rules| filter(core::slice::from_ref(rules))));
        filters.extend(source.rules.iter().map(|rules| filter(core::slice::from_ref(rules))));
        if !destination.rules.is_empty() && !source.rules.is_empty() {
            let all: Vec<Vec<u32>> = destination.rules.iter().chain(&source.rules).cloned().collect();
            filters.push(filter(&all));
        }
        Family { destination, source, filters }
    }
}

impl Groups {
    /// Makes the filters for all rules.
    pub fn new(rules: &Rules, literals: &Literals) -> Groups {
        let mut groups = Groups::default();
        let protocols = [Protocol::Tcp, Protocol::Udp, Protocol::Icmp, Protocol::Ip];
        for (protocol, places) in protocols.into_iter().zip(&mut groups.places) {
            let asks = |direction: Direction| {
                rules.list.iter().any(|rule| {
                    rule.flow.direction == Some(direction)
                        && (rule.protocol == protocol || rule.protocol == Protocol::Ip)
                })
            };
            let first = groups.families.len() as u8;
            *places = [first; WAYS];
            groups.families.push(Family::new(rules, literals, protocol, None));
            for direction in [Direction::ToServer, Direction::ToClient] {
                if asks(direction) {
                    places[way(Some(direction))] = groups.families.len() as u8;
                    groups.families.push(Family::new(rules, literals, protocol, Some(direction)));
                }
            }
        }
        groups
    }

    /// The filter for a packet.
    #[inline]
    pub fn filter(
        &self,
        protocol: u8,
        source: u16,
        destination: u16,
        direction: Option<Direction>,
    ) -> &Filter {
        let place = self.places[family(protocol)][way(direction)];
        let family = &self.families[usize::from(place)];
        let place = match (family.destination.of(destination), family.source.of(source)) {
            (class, 0) => class,
            (0, class) => family.destination.rules.len() + class,
            _ => family.filters.len() - 1,
        };
        &family.filters[place]
    }

    /// Bytes of the longest literal of a TCP rule.
    pub fn longest_tcp(&self) -> usize {
        let families = self.places[0].iter().map(|place| &self.families[usize::from(*place)]);
        families.flat_map(|family| &family.filters).map(|filter| filter.longest).max().unwrap_or(0)
    }
}
