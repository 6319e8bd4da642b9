//! `SPECIFICATION.md` names benches that there are, every result once and with a bound that can be read, and
//! tells of nothing missed that it does not promise.

use crate::Bench;
use crate::promises::{promises_of, results, rows};
use std::collections::BTreeSet;

const PROMISED: &str = "| result | what is measured | bound | command |";
const MISSED: &str = "| result | read | what limits |";

#[test]
fn every_result_is_promised_once_with_a_bound_and_the_command_that_prints_it() {
    let mut seen = BTreeSet::new();
    for row in rows(PROMISED) {
        let promises = promises_of(&row).unwrap_or_else(|wrong| panic!("{wrong}"));
        let command = row[3];
        let bench = command.strip_prefix("`superfluid bench ").and_then(|rest| rest.strip_suffix('`'));
        let bench = bench.unwrap_or_else(|| panic!("{row:?}: no bench: {command}"));
        assert!(Bench::from_name(bench).is_ok(), "{row:?}");
        for promise in promises {
            assert_eq!(promise.bench, bench, "{} is not of {command}", promise.name);
            assert!(seen.insert((promise.bench.clone(), promise.name.clone())), "{promise:?} is there twice");
        }
    }
    for name in crate::NAMES {
        assert!(seen.iter().any(|(bench, _)| bench == name), "nothing of {name}");
    }
}

#[test]
fn what_is_told_of_missed_results_is_of_results_that_are_promised() {
    let promised: BTreeSet<_> = rows(PROMISED).flat_map(|row| results(row[0])).collect();
    let mut missed = rows(MISSED).peekable();
    assert!(missed.peek().is_some(), "no table `{MISSED}`");
    for row in missed {
        assert_eq!(row.len(), 3, "{row:?}");
        for result in results(row[0]) {
            assert!(promised.contains(&result), "{result:?} is promised nowhere");
        }
    }
}
