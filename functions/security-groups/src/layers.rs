//! The administrator's rules and the tenant's: what both allow passes.

use alloc::vec::Vec;
use packet_filter::rule::{Action, Rule, View};
use packet_filter::rule_set::{RuleSet, Rules};

/// Two lists of rules, all of which allow. A list that is there and has no rule for a packet denies it.
#[derive(Debug, Default)]
pub struct Lists {
    /// The administrator's.
    pub administrator: Option<Vec<Rule>>,
    /// The tenant's.
    pub tenant: Option<Vec<Rule>>,
}

/// The same, compiled; at least one of them is there.
pub struct Layers {
    /// The administrator's.
    pub administrator: Option<RuleSet>,
    /// The tenant's.
    pub tenant: Option<RuleSet>,
}

impl Layers {
    /// Compiles the rules; `None` when there is no memory for them.
    pub fn new(lists: Lists) -> Option<Layers> {
        let compile = |rules| match rules {
            Some(rules) => RuleSet::new(rules, Action::Drop).map(Some),
            None => Some(None),
        };
        Some(Layers { administrator: compile(lists.administrator)?, tenant: compile(lists.tenant)? })
    }
}

/// The tenant's rules are asked about what the administrator's allow.
impl Rules for Layers {
    fn decide4(&mut self, view: &View<2>) -> bool {
        self.administrator.as_mut().is_none_or(|rules| rules.decide4(view))
            && self.tenant.as_mut().is_none_or(|rules| rules.decide4(view))
    }

    fn decide6(&mut self, view: &View<8>) -> bool {
        self.administrator.as_mut().is_none_or(|rules| rules.decide6(view))
            && self.tenant.as_mut().is_none_or(|rules| rules.decide6(view))
    }

    fn accepts4(&self, view: &View<2>) -> bool {
        self.administrator.as_ref().is_none_or(|rules| rules.accepts4(view))
            && self.tenant.as_ref().is_none_or(|rules| rules.accepts4(view))
    }

    fn accepts6(&self, view: &View<8>) -> bool {
        self.administrator.as_ref().is_none_or(|rules| rules.accepts6(view))
            && self.tenant.as_ref().is_none_or(|rules| rules.accepts6(view))
    }
}
