//! `SPECIFICATION.md` names benches that there are, every result once and with a bound, and tells of nothing
//! missed that it does not promise.

use crate::Bench;
use std::collections::BTreeSet;

/// The cells of the table's rows that has this head.
fn table(head: &str) -> Vec<Vec<String>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../SPECIFICATION.md");
    let text = std::fs::read_to_string(path).expect("the specification");
    let rows = text.lines().skip_while(|line| *line != head).skip(2).take_while(|line| line.starts_with('|'));
    let rows: Vec<Vec<String>> = rows
        .map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect();
    assert!(!rows.is_empty(), "no table `{head}`");
    rows
}

/// The results that a cell names, such as "`idle/a-us`, `b-us`".
fn results(cell: &str) -> Vec<String> {
    let mut bench = "";
    let names = cell.split('`').skip(1).step_by(2);
    names
        .map(|name| match name.split_once('/') {
            Some((of, _)) => {
                bench = of;
                name.to_owned()
            }
            None => format!("{bench}/{name}"),
        })
        .collect()
}

#[test]
fn every_result_is_promised_once_with_a_bound_and_the_command_that_prints_it() {
    let mut seen = BTreeSet::new();
    for row in table("| result | what is measured | bound | command |") {
        let [names, _, bound, command] = row.as_slice() else { panic!("four cells: {row:?}") };
        assert!(bound.chars().any(|c| c.is_ascii_digit()), "{names}: no bound: {bound}");
        let bench = command.strip_prefix("`superfluid bench ").and_then(|rest| rest.strip_suffix('`'));
        let bench = bench.unwrap_or_else(|| panic!("{names}: no bench: {command}"));
        assert!(Bench::from_name(bench).is_ok(), "{names}: {command}");
        for result in results(names) {
            assert!(result.starts_with(&format!("{bench}/")), "{result} is not of {command}");
            assert!(seen.insert(result.clone()), "{result} is promised twice");
        }
    }
    for name in crate::NAMES {
        assert!(seen.iter().any(|result| result.starts_with(&format!("{name}/"))), "nothing of {name}");
    }
}

#[test]
fn what_is_told_of_missed_results_is_of_results_that_are_promised() {
    let promised: BTreeSet<String> = table("| result | what is measured | bound | command |")
        .iter()
        .flat_map(|row| results(&row[0]))
        .collect();
    for row in table("| result | read | what limits |") {
        assert_eq!(row.len(), 3, "{row:?}");
        for result in results(&row[0]) {
            assert!(promised.contains(&result), "{result} is promised nowhere");
        }
    }
}
