//! Which of many classes a packet belongs to: the filters of all devices at one port as one classifier.
//!
//! 1. [`Classifier::new`] takes the [`Rule`]s of a port, one for each device.
//! 2. [`Classifier::classify`] says for each packet which class takes it, and calls `see` for each class that
//!    observes it.
//! 3. [`Classifier::shadowed`] says which rules lose packets to others, for warnings.
//!
//! A classifier does not change: another set of rules is another classifier.
//!
//! A packet is read once, into a few words (`key`). A filter is a number of *terms*: bits of these words that
//! have to have certain values (`term`). Terms with the same mask are in one hash table, and a few bytes of
//! the packet say which tables can have something for it (`tables`). So the cost depends on how many of the
//! masks fit to a packet, hardly on the number of rules. A filter that has no such form (`not`, `less`, a
//! second label, what is inside of a second tunnel) is asked itself, for packets that fit to what of it has
//! that form; such filters cost as many evaluations as there are. With more than 64 masks, those of the
//! fewest terms are looked for in the tables of others.
//!
//! Limits: what became of a packet is not known here, so `dropped` matches nothing and `passed` everything
//! ([`capture::Filter::uses_outcome`] tells such filters).
//!
//! `cargo test --release -p classifier -- --ignored --nocapture cost` measures it.

#![forbid(unsafe_code)]

mod key;
mod shadow;
mod tables;
mod term;
#[cfg(test)]
mod tests;

use capture::{Filter, Outcome};
use key::{Key, Needs, Reader};
pub use shadow::MAX_PAIRS;
use tables::{Candidate, Check, Tables};
use term::Term;

/// One class that wants packets.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Which packets it wants; `None`: all.
    pub filter: Option<Filter>,
    /// Lower goes first, then the order of rules.
    pub priority: u32,
    /// What [`Classifier::classify`] answers.
    pub class: u16,
    /// It sees a packet that another takes all the same, and takes none.
    pub observes: bool,
}

impl Rule {
    fn wants(&self, head: &[u8], length: u32) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.matches(head, length, Outcome::Passed))
    }
}

/// A rule and its terms.
#[derive(Debug)]
struct Ranked {
    rule: Rule,
    /// Its place among the rules as they were given.
    index: usize,
    terms: Vec<Term>,
}

/// The rules of a port. See the crate's documentation.
#[derive(Debug, Default)]
pub struct Classifier {
    /// In the order in which they go.
    rules: Vec<Ranked>,
    reader: Reader,
    takers: Tables,
    observers: Tables,
}

impl Classifier {
    /// A classifier of these rules.
    pub fn new(rules: Vec<Rule>) -> Classifier {
        let rules = rules.into_iter().enumerate();
        let mut rules: Vec<Ranked> =
            rules.map(|(index, rule)| Ranked { terms: Term::of(&rule), rule, index }).collect();
        rules.sort_by_key(|ranked| ranked.rule.priority);
        let needs = rules
            .iter()
            .flat_map(|ranked| &ranked.terms)
            .fold(Needs::default(), |needs, term| needs.and(term.needs()));
        let tables = |observes: bool| {
            let ranked = (0..).zip(&rules).filter(|(_, ranked)| ranked.rule.observes == observes);
            let ranked = ranked.map(|(rank, Ranked { rule, terms, .. })| (rank, rule.class, terms));
            Tables::new(ranked.map(|(rank, class, terms)| tables::Ranked { rank, class, terms }))
        };
        let (takers, observers) = (tables(false), tables(true));
        Classifier { rules, reader: Reader::new(needs), takers, observers }
    }

    /// The class that takes the packet: the first one in order that wants it. Calls `see` for each observing
    /// class that wants it, in no order. `head` is the packet's beginning, `length` its whole length in
    /// bytes.
    pub fn classify(&self, head: &[u8], length: u32, mut see: impl FnMut(u16)) -> Option<u16> {
        let mut key = Key::default();
        self.reader.read(head, &mut key);
        if !self.observers.is_empty() {
            self.observers.search(&key, |candidate| {
                // A packet of several of a rule's terms is seen once.
                if self.wants(candidate, &key, head, length) && !self.held_before(candidate, &key) {
                    see(candidate.class);
                }
                None
            });
        }
        let mut taken = None;
        self.takers.search(&key, |candidate| {
            self.wants(candidate, &key, head, length).then(|| {
                taken = Some(candidate.class);
                candidate.rank
            })
        });
        taken
    }

    #[inline(always)]
    fn wants(&self, candidate: &Candidate, key: &Key, head: &[u8], length: u32) -> bool {
        candidate.check == Check::None || self.is_wanted(candidate, key, head, length)
    }

    #[inline(never)]
    fn is_wanted(&self, candidate: &Candidate, key: &Key, head: &[u8], length: u32) -> bool {
        let Some(ranked) = self.rules.get(candidate.rank as usize) else { return false };
        let holds = ranked.terms.get(candidate.term as usize).is_some_and(|term| term.holds(key));
        holds && (candidate.check == Check::Term || ranked.rule.wants(head, length))
    }

    /// Whether the packet is of a term of its rule before this one.
    fn held_before(&self, candidate: &Candidate, key: &Key) -> bool {
        let terms = self.rules.get(candidate.rank as usize).map_or(&[][..], |ranked| &ranked.terms);
        terms.iter().take(candidate.term as usize).any(|term| term.holds(key))
    }
}
