//! What is promised: the first table of `SPECIFICATION.md`, which is part of this program. A bench says what
//! it measured; its figures are judged by what is written there, and a result that is promised and was not
//! measured does not hold.
//!
//! A row names results, `` `bench/a-us`, `b-us` ``, and says their bounds: one for all of them, or one for
//! each, with semicolons between. A bound is `at most 30 us`, `at least 1,500,000` or `0.95 to 1.4`; in
//! brackets behind it stands the one for a host that other machines use too.

use crate::report::{Bound, Measurement};
use std::sync::LazyLock;

/// What is promised of one result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Promise {
    pub(crate) bench: String,
    /// The result's name within the bench.
    pub(crate) name: String,
    pub(crate) bound: Bound,
    pub(crate) on_shared_host: Option<f64>,
}

const SPECIFICATION: &str = include_str!("../../../SPECIFICATION.md");
const HEAD: &str = "| result | what is measured | bound | command |";

/// All promises, in the document's order. A row that is written otherwise promises nothing; a test holds that
/// there is none.
static PROMISES: LazyLock<Vec<Promise>> =
    LazyLock::new(|| rows(HEAD).filter_map(|row| promises_of(&row).ok()).flatten().collect());

/// What is promised of a result.
pub(crate) fn of(bench: &str, name: &str) -> Option<&'static Promise> {
    PROMISES.iter().find(|promise| promise.bench == bench && promise.name == name)
}

/// A bench's figures with what is promised of them, and those that are promised and were not measured.
pub(crate) fn judge(bench: &str, mut results: Vec<Measurement>) -> Vec<Measurement> {
    for result in &mut results {
        let promise = of(bench, &result.name);
        result.bound = promise.map(|promise| promise.bound);
        result.on_shared_host = promise.and_then(|promise| promise.on_shared_host);
    }
    for promise in PROMISES.iter().filter(|promise| promise.bench == bench) {
        if !results.iter().any(|result| result.name == promise.name) {
            let missing = Measurement::missing(&promise.name, "", "not-measured");
            results.push(Measurement {
                bound: Some(promise.bound),
                on_shared_host: promise.on_shared_host,
                ..missing
            });
        }
    }
    results
}

/// The cells of the rows of the table that has this head.
pub(crate) fn rows(head: &str) -> impl Iterator<Item = Vec<&'static str>> {
    let lines = SPECIFICATION.lines().skip_while(move |line| *line != head).skip(2);
    lines
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
}

/// The results that a cell names, as bench and name.
pub(crate) fn results(cell: &str) -> Vec<(&str, &str)> {
    let mut bench = "";
    let names = cell.split('`').skip(1).step_by(2);
    names
        .map(|result| match result.split_once('/') {
            Some((of, name)) => {
                bench = of;
                (of, name)
            }
            None => (bench, result),
        })
        .collect()
}

/// The promises of a row.
///
/// # Errors
/// What is written otherwise than a promise.
pub(crate) fn promises_of(row: &[&str]) -> Result<Vec<Promise>, String> {
    let [names, _, bounds, _] = row else { return Err(format!("{row:?}: not four cells")) };
    let bounds = bounds.split("; ").map(bound).collect::<Result<Vec<_>, _>>()?;
    let names = results(names);
    if bounds.len() != 1 && bounds.len() != names.len() {
        return Err(format!("{} results, {} bounds: {row:?}", names.len(), bounds.len()));
    }
    let promises = names.into_iter().zip(bounds.iter().cycle());
    Ok(promises
        .map(|((bench, name), &(bound, on_shared_host))| Promise {
            bench: bench.to_owned(),
            name: name.to_owned(),
            bound,
            on_shared_host,
        })
        .collect())
}

/// A bound, and the one for a shared host.
fn bound(text: &str) -> Result<(Bound, Option<f64>), String> {
    let wrong = || format!("`{text}` is no bound");
    let (quiet, shared) = match text.split_once(" (") {
        Some((quiet, shared)) => {
            let shared = shared.strip_suffix(')').and_then(number).ok_or_else(wrong)?;
            (quiet, Some(shared))
        }
        None => (text, None),
    };
    let bound = if let Some(most) = quiet.strip_prefix("at most ") {
        number(most).map(Bound::AtMost)
    } else if let Some(least) = quiet.strip_prefix("at least ") {
        number(least).map(Bound::AtLeast)
    } else {
        let ends = quiet.split_once(" to ");
        ends.and_then(|(least, most)| Some(Bound::Within(number(least)?, number(most)?)))
    };
    Ok((bound.ok_or_else(wrong)?, shared))
}

/// The number that a text begins with, thousands by commas; a unit may follow.
fn number(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',').unwrap_or(text.len());
    text[..end].replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read_with_units_thousands_and_those_of_shared_hosts() {
        for (text, expected) in [
            ("at most 15 ns (30)", Some((Bound::AtMost(15.0), Some(30.0)))),
            ("at least 1,500,000", Some((Bound::AtLeast(1_500_000.0), None))),
            ("at most 0.5% of a core", Some((Bound::AtMost(0.5), None))),
            ("0.95 to 1.4", Some((Bound::Within(0.95, 1.4), None))),
            ("at most 300 us (1,000)", Some((Bound::AtMost(300.0), Some(1_000.0)))),
            ("at most", None),
            ("0", None),
            ("at most 5 (many)", None),
        ] {
            assert_eq!(bound(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn a_row_has_one_bound_for_all_results_or_one_for_each() {
        let row = |bounds| promises_of(&["`a/x-us`, `y-us`", "what", bounds, "`superfluid bench a`"]);
        let bounds = |row: Vec<Promise>| row.into_iter().map(|promise| promise.bound).collect::<Vec<_>>();
        assert_eq!(row("at most 5").map(bounds), Ok(vec![Bound::AtMost(5.0); 2]));
        let each = vec![Bound::AtMost(5.0), Bound::AtLeast(2.0)];
        assert_eq!(row("at most 5 us; at least 2").map(bounds), Ok(each));
        assert!(row("at most 5; at most 6; at most 7").is_err());
    }

    #[test]
    fn figures_are_judged_by_the_document_and_what_is_missing_does_not_hold() {
        let measured = vec![
            Measurement::new("hop-per-packet", "instr", &[30.5]),
            Measurement::new("something-else", "instr", &[1e9]),
        ];
        let results = judge("instructions", measured);
        let told: Vec<_> = results.iter().map(|result| (result.name.as_str(), result.holds())).collect();
        assert_eq!(told, [("hop-per-packet", false), ("something-else", true), ("hop-per-batch", false)]);
        assert_eq!(results[0].bound, Some(Bound::AtMost(30.0)));
        assert_eq!(results[2].missing, Some("not-measured"));
    }
}
