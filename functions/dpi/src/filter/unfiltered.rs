//! Rules without a literal: those for addresses, flags and lengths, and expressions that begin with anything.
//! There is nothing to search for, so they are told apart by what they ask of headers.
//!
//! 1. Rules that ask the same of TCP flags and of the flow are a group, and it is asked once for all of them.
//! 2. Within a group, a rule for few addresses is found by the packet's.
//! 3. What is left is named for every packet of the group.

use crate::conditions::{Context, have};
use crate::rules::compare::Flags;
use crate::rules::{FlowCondition, Rules};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

/// Most addresses of a rule that is found by them.
const MAX_ADDRESSES: usize = 64;
/// Most addresses of all such rules.
const MAX_ENTRIES: usize = 16_384;

/// An address: whether it is of IPv4, and its number.
type Address = (bool, u128);

fn number(address: IpAddr) -> Address {
    match address {
        IpAddr::V4(address) => (true, u128::from(address.to_bits())),
        IpAddr::V6(address) => (false, address.to_bits()),
    }
}

/// What the rules of a group ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    flags: Option<Flags>,
    flow: FlowCondition,
    has_content: bool,
    is_address_only: bool,
}

impl Asked {
    #[inline]
    fn holds(&self, context: &Context<'_>, has_payload: bool) -> bool {
        (has_payload || !self.has_content)
            && (context.judges_addresses || !self.is_address_only)
            && self.flags.is_none_or(|flags| have(flags, context.view))
            && self.flow.direction.is_none_or(|direction| context.direction == Some(direction))
            && self.flow.established.is_none_or(|established| context.is_established == established)
    }
}

/// Rules that ask the same.
#[derive(Debug, Default)]
struct Group {
    /// Found by the source's address, and by the destination's: sorted.
    hosts: [Vec<(Address, u32)>; 2],
    /// All others.
    rest: Vec<u32>,
}

/// Rules without a literal.
#[derive(Debug, Default)]
pub struct Unfiltered {
    groups: Vec<(Asked, Group)>,
}

impl Unfiltered {
    /// Puts these rules into groups.
    pub fn new(numbers: &[u32], rules: &Rules) -> Unfiltered {
        let mut groups: BTreeMap<Asked, Group> = BTreeMap::new();
        let mut room = MAX_ENTRIES;
        for number in numbers {
            let rule = &rules.list[*number as usize];
            let asked = Asked {
                flags: rule.flags,
                flow: rule.flow,
                has_content: rule.has_content(),
                is_address_only: rule.is_address_only,
            };
            let group = groups.entry(asked).or_default();
            let few = |end: usize| rules.addresses(rule.ends[end].0).few(MAX_ADDRESSES.min(room));
            // Where there are fewer addresses, fewer packets come.
            let sets = [0, 1].into_iter().filter_map(|end| few(end).map(|few| (few.len(), end, few)));
            match sets.min().filter(|_| !rule.is_bidirectional) {
                Some((count, end, addresses)) => {
                    room -= count;
                    group.hosts[end].extend(addresses.into_iter().map(|address| (address, *number)));
                }
                None => group.rest.push(*number),
            }
        }
        for group in groups.values_mut() {
            group.hosts.iter_mut().for_each(|hosts| hosts.sort_unstable());
        }
        Unfiltered { groups: groups.into_iter().collect() }
    }

    /// Names the rules that a packet's headers may fit.
    #[inline]
    pub fn name(&self, context: &Context<'_>, has_payload: bool, out: &mut Vec<u32>) {
        for (asked, group) in &self.groups {
            if asked.holds(context, has_payload) {
                group.name(context, out);
            }
        }
    }
}

impl Group {
    fn name(&self, context: &Context<'_>, out: &mut Vec<u32>) {
        for (hosts, end) in self.hosts.iter().zip([context.view.source, context.view.destination]) {
            if !hosts.is_empty() {
                let address = number(end.ip());
                let first = hosts.partition_point(|(known, _)| *known < address);
                let alike = hosts[first..].iter().take_while(|(known, _)| *known == address);
                out.extend(alike.map(|(_, rule)| *rule));
            }
        }
        out.extend_from_slice(&self.rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions;
    use crate::header::{Frame, outermost, read};
    use crate::rules::Direction;
    use crate::tests::frames::{flags, tcp};
    use alloc::format;
    use alloc::string::String;
    use alloc::vec;

    /// The rules that are named for a segment of the client's, and those whose header it fits.
    fn named(text: &str, (from, to): (&str, &str), flags: u8, direction: Direction) -> (Vec<u32>, Vec<u32>) {
        let rules = Rules::parse(text.as_bytes(), &BTreeMap::new()).expect("rules");
        let all: Vec<u32> = (0..rules.list.len() as u32).collect();
        let frame = tcp((from, 40_000), (to, 80), flags, 1, 1, b"data");
        let level = outermost(&frame).expect("a frame");
        let Frame::Ip(view) = read(&frame, &level) else { panic!("{from}, {to}") };
        let context = Context {
            view: &view,
            direction: Some(direction),
            is_established: true,
            judges_addresses: true,
            app: None,
        };
        let mut found = Vec::new();
        Unfiltered::new(&all, &rules).name(&context, true, &mut found);
        found.sort_unstable();
        let fits = |number: &u32| conditions::hold(&rules, &rules.list[*number as usize], &context, true);
        (found, all.into_iter().filter(fits).collect())
    }

    #[test]
    fn of_many_addresses_only_the_packets_own_are_named() {
        let line = |n: u32| {
            let (a, b) = (n >> 8, n & 255);
            let set = match n % 3 {
                0 => format!("198.18.{a}.{b}"),
                1 => format!("[198.18.{a}.{b},2001:db8::{n:x}]"),
                _ => format!("[198.18.{a}.{b}/31,203.0.113.1]"),
            };
            let ends =
                if n < 500 { format!("any any -> {set} any") } else { format!("{set} any -> any any") };
            format!("alert tcp {ends} (flags:S; sid:{};)\n", n + 1)
        };
        let text: String = (0..1000).map(line).collect();
        let hosts = ["198.18.0.4", "198.18.1.255", "198.18.3.231", "203.0.113.1", "192.0.2.1"];
        let of_v6 = ["2001:db8::7", "2001:db8::2bd", "2001:db8:1::1"];
        for (from, to) in hosts.iter().flat_map(|a| hosts.iter().map(move |b| (*a, *b))) {
            let (found, fits) = named(&text, (from, to), flags::SYN, Direction::ToServer);
            assert_eq!(found, fits, "{from} to {to}");
        }
        for (from, to) in of_v6.iter().flat_map(|a| of_v6.iter().map(move |b| (*a, *b))) {
            let (found, fits) = named(&text, (from, to), flags::SYN, Direction::ToServer);
            assert_eq!(found, fits, "{from} to {to}");
        }
        let (found, _) = named(&text, ("192.0.2.1", "198.18.0.4"), flags::SYN, Direction::ToServer);
        assert_eq!(found, [4, 5]);
    }

    #[test]
    fn what_a_group_asks_of_flags_and_flows_is_asked_before_its_rules_are_named() {
        let text = "alert tcp any any -> any any (flags:S; ttl:64; sid:1;)\n\
                    alert tcp any any -> any any (flags:A+; ttl:1; sid:2;)\n\
                    alert tcp any any -> any any (flow:to_client; pcre:\"/[a-z]/\"; sid:3;)\n\
                    alert tcp any any -> any any (flow:to_server; pcre:\"/[a-z]/\"; sid:4;)\n\
                    alert tcp any any <> 198.18.0.1 any (flags:A+; sid:5;)\n";
        let ends = ("198.18.0.1", "192.0.2.1");
        let named = |flags, direction| named(text, ends, flags, direction);
        assert_eq!(named(flags::SYN, Direction::ToServer), (vec![0, 3], vec![0, 3]));
        assert_eq!(named(flags::ACK, Direction::ToServer), (vec![1, 3, 4], vec![3, 4]));
        assert_eq!(named(flags::ACK, Direction::ToClient), (vec![1, 2, 4], vec![2, 4]));
    }
}
