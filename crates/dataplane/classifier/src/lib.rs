//! Which of many classes a packet belongs to: the filters of all devices at one port as one classifier.
//!
//! 1. [`Classifier::new`] takes the [`Rule`]s of a port, one for each device.
//! 2. [`Classifier::classify`] says for each packet which class takes it, and calls `see` for each class that
//!    observes it.
//! 3. [`Classifier::shadowed`] says which rules lose packets to others, for warnings.
//!
//! A classifier does not change: another set of rules is another classifier.
//!
//! Limits: what became of a packet is not known here, so `dropped` matches nothing and `passed` everything
//! ([`capture::Filter::uses_outcome`] tells such filters).

#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use capture::{Filter, Outcome};

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

/// The rules of a port. See the crate's documentation.
#[derive(Debug, Default)]
pub struct Classifier {
    rules: Vec<Rule>,
    /// Indexes of the rules that take packets, first the one that goes first.
    takers: Vec<usize>,
    observers: Vec<usize>,
}

impl Classifier {
    /// A classifier of these rules.
    pub fn new(rules: Vec<Rule>) -> Classifier {
        let mut order: Vec<usize> = (0..rules.len()).collect();
        order.sort_by_key(|index| rules.get(*index).map(|rule| rule.priority));
        let (observers, takers) =
            order.into_iter().partition(|index| rules.get(*index).is_some_and(|rule| rule.observes));
        Classifier { rules, takers, observers }
    }

    /// The class that takes the packet: the first one in order that wants it. Calls `see` for each observing
    /// class that wants it. `head` is the packet's beginning, `length` its whole length in bytes.
    pub fn classify(&self, head: &[u8], length: u32, mut see: impl FnMut(u16)) -> Option<u16> {
        let wants = |index: &usize| self.rules.get(*index).filter(|rule| rule.wants(head, length));
        self.observers.iter().filter_map(wants).for_each(|rule| see(rule.class));
        self.takers.iter().find_map(wants).map(|rule| rule.class)
    }

    /// Pairs of rules, by index, of which the later loses packets to the earlier. A rule without a filter
    /// takes all that those after it want, and of two rules with the same filter the first takes all.
    pub fn shadowed(&self) -> Vec<(usize, usize)> {
        let mut pairs = Vec::new();
        for (place, later) in self.takers.iter().enumerate() {
            for earlier in self.takers.iter().take(place) {
                let (Some(first), Some(second)) = (self.rules.get(*earlier), self.rules.get(*later)) else {
                    continue;
                };
                if first.filter.is_none() || first.filter == second.filter {
                    pairs.push((*earlier, *later));
                }
            }
        }
        pairs
    }
}
