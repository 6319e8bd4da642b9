//! The memory of searches for expressions: it stays for those that were searched for last, so that a rule
//! whose literals are met often does not make its automaton anew for each packet, and is bounded. Most
//! expressions have a table that is made with the rule, and need none.

use crate::rules::{Element, Rule};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Most expressions whose searches keep their memory, unless a single rule has more.
pub const MAX_CACHES: usize = 64;

fn expressions(rule: &Rule) -> impl Iterator<Item = &crate::rules::regex::Regex> {
    rule.all_elements().filter_map(|element| match element {
        Element::Regex(regex) if regex.keeps_memory() => Some(regex),
        _ => None,
    })
}

/// Which rules' expressions have memory, of those that need it.
#[derive(Debug, Default)]
pub struct Caches {
    /// How many such expressions each rule has.
    counts: Vec<u16>,
    /// Whether a rule is in `held`.
    is_held: Vec<bool>,
    /// Rules, those that came first in front.
    held: VecDeque<u32>,
    /// Their expressions.
    total: usize,
}

impl Caches {
    /// For these rules.
    pub fn new(rules: &[Rule]) -> Caches {
        let count = |rule: &Rule| u16::try_from(expressions(rule).count()).unwrap_or(u16::MAX);
        Caches {
            counts: rules.iter().map(count).collect(),
            is_held: alloc::vec![false; rules.len()],
            held: VecDeque::new(),
            total: 0,
        }
    }

    /// A rule is verified: its expressions may take memory, and the rules that have had theirs the longest
    /// give it back.
    #[inline]
    pub fn verified(&mut self, number: u32, rules: &[Rule]) {
        let count = self.counts[number as usize];
        if count > 0 && !self.is_held[number as usize] {
            self.hold(number, usize::from(count), rules);
        }
    }

    #[inline(never)]
    fn hold(&mut self, number: u32, count: usize, rules: &[Rule]) {
        while self.total + count > MAX_CACHES
            && let Some(oldest) = self.held.pop_front()
        {
            self.is_held[oldest as usize] = false;
            self.total -= usize::from(self.counts[oldest as usize]);
            for regex in expressions(&rules[oldest as usize]) {
                regex.release();
            }
        }
        self.is_held[number as usize] = true;
        self.total += count;
        self.held.push_back(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rules;
    use alloc::collections::BTreeMap;

    fn rules(texts: impl Iterator<Item = alloc::string::String>) -> Vec<Rule> {
        let text: alloc::string::String = texts.collect();
        Rules::parse(text.as_bytes(), &BTreeMap::new()).expect("rules").list
    }

    fn with_memory(rules: &[Rule]) -> Vec<usize> {
        let has = |rule: &Rule| expressions(rule).any(|regex| regex.has_cache());
        (0..rules.len()).filter(|number| has(&rules[*number])).collect()
    }

    fn search(number: usize, caches: &mut Caches, rules: &[Rule]) {
        caches.verified(number as u32, rules);
        for regex in expressions(&rules[number]) {
            assert_eq!(regex.find(b"a word and another one", 0, 0), Ok(None));
        }
    }

    #[test]
    fn the_last_expressions_that_were_searched_for_keep_their_memory() {
        let rules = rules((1..=100).map(|sid| {
            alloc::format!("alert tcp any any -> any any (pcre:\"/[b-x].{{15}}q\\d{sid}/\"; sid:{sid};)\n")
        }));
        let mut caches = Caches::new(&rules);
        for number in 0..100 {
            search(number, &mut caches, &rules);
            search(number, &mut caches, &rules);
            let all: Vec<usize> = ((number + 1).saturating_sub(MAX_CACHES)..=number).collect();
            assert_eq!(with_memory(&rules), all);
        }
    }

    #[test]
    fn expressions_count_and_not_rules() {
        let rules = rules((1..=10).map(|sid| {
            let all = (0..30).map(|n| alloc::format!("pcre:\"/[b-x].{{15}}q\\d{n}/\"; "));
            let all = all.collect::<alloc::string::String>();
            alloc::format!("alert tcp any any -> any any ({all}sid:{sid};)\n")
        }));
        let mut caches = Caches::new(&rules);
        (0..10).for_each(|number| search(number, &mut caches, &rules));
        assert_eq!(with_memory(&rules), [8, 9]);
    }
}
