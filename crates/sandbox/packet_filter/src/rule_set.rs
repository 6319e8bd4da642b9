//! All rules: those of one family are compiled to the way of matching that suits their number, and counted.

use crate::bit_vector::BitVectorRules;
use crate::linear::{self, LinearRules};
use crate::rule::{Action, Rule, View};
use alloc::vec;
use alloc::vec::Vec;

/// The rules of one family.
pub struct FamilyRules<const W: usize, const C: usize> {
    pub(crate) matcher: Matcher<W, C>,
    /// The rule of the whole set, by place among this family's; the last is the default.
    pub(crate) numbers: Vec<u16>,
}

/// A way of matching.
pub enum Matcher<const W: usize, const C: usize> {
    /// For few rules.
    Linear(LinearRules<W>),
    /// For many.
    BitVector(BitVectorRules<W, C>),
}

/// Rules for IPv4.
pub type Rules4 = FamilyRules<2, 7>;
/// Rules for IPv6.
pub type Rules6 = FamilyRules<8, 19>;

impl<const W: usize, const C: usize> FamilyRules<W, C> {
    /// Takes the rules that concern the family: up to `linear_at_most` of them are looked at in order, for
    /// more there are tables. `None` when there is no memory for them.
    pub fn new(rules: &[Rule], linear_at_most: usize) -> Option<Self> {
        let mut numbers = vec![];
        let mut chosen = vec![];
        for (number, rule) in rules.iter().enumerate().filter(|(_, rule)| rule.concerns::<W>()) {
            numbers.push(u16::try_from(number).ok()?);
            chosen.push(rule.clone());
        }
        numbers.push(u16::try_from(rules.len()).ok()?);
        let matcher = if chosen.len() <= linear_at_most.min(linear::MAX_RULES) {
            Matcher::Linear(LinearRules::new(&chosen))
        } else {
            Matcher::BitVector(BitVectorRules::new(&chosen)?)
        };
        Some(FamilyRules { matcher, numbers })
    }

    /// The number of the first rule that matches; the number of rules when none does.
    #[inline(always)]
    pub fn find(&self, view: &View<W>) -> usize {
        let place = match &self.matcher {
            Matcher::Linear(rules) => rules.find(view),
            Matcher::BitVector(rules) => rules.find(view),
        };
        usize::from(self.numbers[place])
    }
}

/// Something that says which packets may pass.
pub trait Rules {
    /// Decides about an IPv4 packet, and counts: whether it is accepted.
    fn decide4(&mut self, view: &View<2>) -> bool;
    /// The same about an IPv6 packet.
    fn decide6(&mut self, view: &View<8>) -> bool;
    /// Whether an IPv4 packet would be accepted. Nothing is counted.
    fn accepts4(&self, view: &View<2>) -> bool;
    /// The same of an IPv6 packet.
    fn accepts6(&self, view: &View<8>) -> bool;
}

/// Every rule with its action and how often it decided.
pub struct RuleSet {
    /// As configured, in order.
    pub rules: Vec<Rule>,
    /// What happens when none matches.
    pub default_action: Action,
    /// For IPv4.
    pub v4: Rules4,
    /// For IPv6.
    pub v6: Rules6,
    /// By number; the last is the default's.
    pub decisions: Vec<Decision>,
}

/// A rule's action and its hits, beside each other because they are used together.
#[derive(Clone, Copy, Debug)]
pub struct Decision {
    /// How often the rule decided.
    pub hits: u64,
    /// Whether it accepts.
    pub accept: bool,
}

impl RuleSet {
    /// Compiles the rules; `None` when there is no memory for them.
    pub fn new(rules: Vec<Rule>, default_action: Action) -> Option<RuleSet> {
        let decision = |action| Decision { hits: 0, accept: action == Action::Accept };
        let actions = rules.iter().map(|rule| rule.action).chain([default_action]);
        Some(RuleSet {
            v4: FamilyRules::new(&rules, linear::MAX_RULES)?,
            v6: FamilyRules::new(&rules, linear::MAX_RULES)?,
            decisions: actions.map(decision).collect(),
            default_action,
            rules,
        })
    }

    /// Counts a hit; whether the rule accepts.
    #[inline(always)]
    pub fn count(&mut self, number: usize) -> bool {
        let decision = &mut self.decisions[number];
        decision.hits += 1;
        decision.accept
    }
}

impl Rules for RuleSet {
    #[inline(always)]
    fn decide4(&mut self, view: &View<2>) -> bool {
        let number = self.v4.find(view);
        self.count(number)
    }

    fn decide6(&mut self, view: &View<8>) -> bool {
        let number = self.v6.find(view);
        self.count(number)
    }

    fn accepts4(&self, view: &View<2>) -> bool {
        self.decisions[self.v4.find(view)].accept
    }

    fn accepts6(&self, view: &View<8>) -> bool {
        self.decisions[self.v6.find(view)].accept
    }
}
