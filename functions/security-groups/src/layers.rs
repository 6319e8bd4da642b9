//! The administrator's rules and the tenant's: what both allow passes.

use alloc::vec::Vec;
use core::net::IpAddr;
use packet_filter::rule::{Action, Rule, View};
use packet_filter::rule_set::{RuleSet, Rules};

/// An address that a member of a group learned, and the number of the list that it is on. By address first:
/// what is no member's is found out without a look at any rule.
pub type Member = (IpAddr, u32);

/// A rule whose other end is one of the addresses that the members of a group learned.
#[derive(Debug)]
pub struct OfMembers {
    /// What else it says.
    pub rule: Rule,
    /// The number of the list of members.
    pub list: u32,
    /// How often it decided.
    pub hits: u64,
}

impl OfMembers {
    /// A rule for a list of members.
    pub fn new(rule: Rule, list: u32) -> OfMembers {
        OfMembers { rule, list, hits: 0 }
    }
}

/// The rules of one list, as configured.
#[derive(Debug, Default)]
pub struct List {
    /// Those for other ends that are known.
    pub rules: Vec<Rule>,
    /// Those for what members learned.
    pub of_members: Vec<OfMembers>,
}

/// Two lists of rules, all of which allow. A list that is there and has no rule for a packet denies it.
#[derive(Debug, Default)]
pub struct Lists {
    /// The administrator's.
    pub administrator: Option<List>,
    /// The tenant's.
    pub tenant: Option<List>,
}

/// A list, compiled.
pub struct Layer {
    /// Rules for other ends that are known.
    pub rules: RuleSet,
    /// Rules for what members learned, which are asked about what no other one allows.
    pub of_members: Vec<OfMembers>,
}

/// Both, compiled; at least one of them is there.
pub struct Layers {
    /// The administrator's.
    pub administrator: Option<Layer>,
    /// The tenant's.
    pub tenant: Option<Layer>,
    /// What members learned.
    members: Vec<Member>,
}

impl Layers {
    /// Compiles the rules; `None` when there is no memory for them. No member is known yet.
    pub fn new(lists: Lists) -> Option<Layers> {
        let compile = |list| match list {
            Some(List { rules, of_members }) => {
                RuleSet::new(rules, Action::Drop).map(|rules| Some(Layer { rules, of_members }))
            }
            None => Some(None),
        };
        let (administrator, tenant) = (compile(lists.administrator)?, compile(lists.tenant)?);
        Some(Layers { administrator, tenant, members: Vec::new() })
    }

    /// What members learned, in order.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// They have learned these addresses and no others. The addresses that went from a list, in order.
    pub fn set_members(&mut self, mut members: Vec<Member>) -> Vec<IpAddr> {
        members.sort_unstable();
        members.dedup();
        let stays = |member: &&Member| members.binary_search(member).is_ok();
        let gone = self.members.iter().filter(|member| !stays(member)).map(|(address, _)| *address).collect();
        self.members = members;
        gone
    }

    fn layers(&self) -> impl Iterator<Item = &Layer> {
        self.administrator.iter().chain(&self.tenant)
    }
}

/// Finds the rule of a layer that allows what no other one does.
fn of_members<const W: usize>(rules: &[OfMembers], members: &[Member], view: &View<W>) -> Option<usize> {
    if rules.is_empty() {
        return None;
    }
    let outside = outside(view);
    let first = members.partition_point(|(address, _)| *address < outside);
    let on = members.get(first..)?;
    let on = &on[..on.partition_point(|(address, _)| *address == outside)];
    if on.is_empty() {
        return None;
    }
    let is_on = |list: u32| on.binary_search_by_key(&list, |(_, list)| *list).is_ok();
    rules.iter().position(|of| is_on(of.list) && of.rule.matches(view))
}

/// The address of the other end of a packet: its source, if it came in from outside.
fn outside<const W: usize>(view: &View<W>) -> IpAddr {
    let is_in = view.kind >> 8 != 0;
    let words = if is_in { &view.addresses[..W / 2] } else { &view.addresses[W / 2..] };
    match *words {
        [word] => IpAddr::from(word.to_le_bytes()),
        _ => {
            let mut octets = [0; 16];
            for (four, word) in octets.as_chunks_mut::<4>().0.iter_mut().zip(words) {
                *four = word.to_le_bytes();
            }
            IpAddr::from(octets)
        }
    }
}

impl Layer {
    /// Counts the decision of the rule that was found; whether it accepts.
    fn decide<const W: usize>(&mut self, found: usize, members: &[Member], view: &View<W>) -> bool {
        if found == self.rules.rules.len()
            && let Some(number) = of_members(&self.of_members, members, view)
        {
            self.of_members[number].hits += 1;
            return true;
        }
        self.rules.count(found)
    }

    /// Whether a member's rule accepts.
    fn accepts<const W: usize>(&self, members: &[Member], view: &View<W>) -> bool {
        of_members(&self.of_members, members, view).is_some()
    }
}

/// The tenant's rules are asked about what the administrator's allow.
impl Rules for Layers {
    fn decide4(&mut self, view: &View<2>) -> bool {
        let Layers { administrator, tenant, members } = self;
        administrator.iter_mut().chain(tenant).all(|layer| {
            let found = layer.rules.v4.find(view);
            layer.decide(found, members, view)
        })
    }

    fn decide6(&mut self, view: &View<8>) -> bool {
        let Layers { administrator, tenant, members } = self;
        administrator.iter_mut().chain(tenant).all(|layer| {
            let found = layer.rules.v6.find(view);
            layer.decide(found, members, view)
        })
    }

    fn accepts4(&self, view: &View<2>) -> bool {
        self.layers().all(|layer| layer.rules.accepts4(view) || layer.accepts(&self.members, view))
    }

    fn accepts6(&self, view: &View<8>) -> bool {
        self.layers().all(|layer| layer.rules.accepts6(view) || layer.accepts(&self.members, view))
    }
}
