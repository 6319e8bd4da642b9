//! A rule that is being read: what is wrong with it, and whether that is a mistake or what this function
//! lacks.

use super::text::Faults;
use alloc::string::String;

/// The option by which a rule says what it is for.
const REQUIRES: &str = "requires";

/// What a rule has said so far, and what is wrong with it.
#[derive(Default)]
pub struct Reading {
    /// What is wrong.
    pub faults: Faults,
    /// What this function lacks for it, and how many of its faults tell so.
    missing: Option<String>,
    missing_faults: usize,
    /// Its `gid` and `sid`, as far as they could be read.
    pub identity: Option<(u32, u32)>,
    /// The line of the rule that it replaces.
    pub replaces: Option<u32>,
}

impl Reading {
    /// The last fault tells that this function lacks something.
    pub fn lacks(&mut self, name: String) {
        self.missing_faults += 1;
        // Whatever else such a rule has may be for another version.
        if name == REQUIRES {
            self.missing = Some(name);
        } else {
            self.missing.get_or_insert(name);
        }
    }

    /// What this function lacks for the rule, if that is all that is wrong with it.
    pub fn lack(&self) -> Option<&String> {
        let is_all = |missing: &&String| *missing == REQUIRES || self.faults.total == self.missing_faults;
        self.missing.as_ref().filter(is_all)
    }
}
