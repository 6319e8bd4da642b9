//! What the functions find and decide, beside Suricata, tshark and nft on the same captures and rules. The
//! work is that of the crate `compare`; this makes results of it, and lines for each difference.

use crate::product::superfluid;
use crate::{BenchError, Inputs, Measurement};
use compare::captures::SEEDED_FLOWS;
use compare::difference::Difference;
use compare::{Outcome, Settings};

/// Fewer alerts of Suricata than these are no measurement.
const LEAST_ALERTS: u64 = 1_000;
/// Fewer flows of tshark than these are none.
const LEAST_FLOWS: u64 = 10_000;

pub(crate) fn run(
    inputs: &Inputs,
    progress: &mut dyn FnMut(f64, &str),
) -> Result<(Vec<Measurement>, Vec<String>), BenchError> {
    compare::missing().map_err(BenchError::setup)?;
    let settings = Settings {
        program: superfluid()?,
        captures: inputs.captures.clone(),
        rules: inputs.rules.clone(),
        flows: SEEDED_FLOWS,
    };
    let outcome = compare::run(&settings, progress).map_err(BenchError::setup)?;
    Ok((results(&outcome), notes(&outcome)))
}

fn results(outcome: &Outcome) -> Vec<Measurement> {
    let percent = |name: &str, value: f64, is_measured: bool| {
        if is_measured {
            Measurement::new(name, "%", &[value])
        } else {
            Measurement::missing(name, "%", "not-measured")
        }
    };
    let accepted = outcome.accepted.unwrap_or_default() as f64 * 100.0 / outcome.rules.max(1) as f64;
    let mut results = vec![
        percent(
            "alerts-percent",
            outcome.alerts.agreement.percent(),
            outcome.suricata_alerts >= LEAST_ALERTS,
        ),
        percent("flows-percent", outcome.flows.agreement.percent(), outcome.tshark_flows >= LEAST_FLOWS),
        percent("rules-percent", accepted, outcome.accepted.is_some()),
    ];
    // Nothing is promised of it: it is left out where no capture has two sides.
    if outcome.verdicts.agreement.union > 0 {
        let agreement = outcome.verdicts.agreement.percent();
        results.push(Measurement::new("verdicts-percent", "%", &[agreement]));
    }
    results
}

/// What was compared, then every difference.
fn notes(outcome: &Outcome) -> Vec<String> {
    let mut notes = vec![outcome.sources.join("\n")];
    let of_suricata = outcome.suricata_accepted.map_or("an unknown number".to_owned(), |n| n.to_string());
    let of_dpi = outcome.accepted.map_or("an unknown number".to_owned(), |n| n.to_string());
    notes.push(format!("rules: {}; accepted by dpi {of_dpi}, by Suricata {of_suricata}", outcome.rules));
    if !outcome.lacking.is_empty() {
        let lines = outcome.lacking.iter().map(|(name, count)| format!("\n{count} ask for {name}"));
        notes.push("rules that dpi left out:".to_owned() + &lines.collect::<String>());
    }
    let differ: Vec<_> = outcome.alerts.rules.iter().filter(|(_, rule)| rule.same < rule.union).collect();
    let lines = differ.iter().map(|(sid, agreement)| format!("\nrule {sid}: {agreement}"));
    notes.push(format!(
        "alerts: {}; {} rules alerted, {} of them not alike:{}",
        outcome.alerts.agreement,
        outcome.alerts.rules.len(),
        differ.len(),
        lines.collect::<String>()
    ));
    notes.push(format!("flows, each direction: {}", outcome.flows.agreement));
    notes.push(format!("verdicts, frame by frame: {}", outcome.verdicts.agreement));
    for (of, least, found) in [
        ("alerts of Suricata", LEAST_ALERTS, outcome.suricata_alerts),
        ("flows of tshark", LEAST_FLOWS, outcome.tshark_flows),
    ] {
        if found < least {
            notes.push(format!("{found} {of}, fewer than {least}: not measured"));
        }
    }
    let mut list = |of: &str, differences: &[Difference]| {
        if !differences.is_empty() {
            let lines = differences.iter().map(|difference| format!("\n{difference}"));
            notes.push(format!("{of}:{}", lines.collect::<String>()));
        }
    };
    list("captures that a program did not read", &outcome.failures);
    list("alerts that differ", &outcome.alerts.differences);
    list("flows that differ", &outcome.flows.differences);
    list("verdicts that differ", &outcome.verdicts.differences);
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Report;
    use compare::difference::{Agreement, Compared};

    fn outcome(alerts: u64, flows: u64) -> Outcome {
        let difference =
            Difference { capture: "a.pcap".to_owned(), frame: Some(7), what: "rule 5, something".to_owned() };
        let agreement = Agreement { same: 3_999, union: 4_000 };
        Outcome {
            alerts: Compared {
                agreement,
                rules: [(5, agreement), (6, Agreement { same: 1, union: 1 })].into(),
                differences: vec![difference],
            },
            flows: Compared { agreement: Agreement { same: 99, union: 100 }, ..Compared::default() },
            suricata_alerts: alerts,
            tshark_flows: flows,
            rules: 200,
            accepted: Some(190),
            lacking: vec![("lua".to_owned(), 10)],
            ..Outcome::default()
        }
    }

    fn report(outcome: &Outcome) -> Report {
        Report::new("compare", String::new(), results(outcome), notes(outcome))
    }

    #[test]
    fn results_have_their_bounds_and_every_difference_has_a_line() {
        let report = report(&outcome(1_000, 10_000));
        let holds: Vec<_> = report.results.iter().map(|result| (result.value, result.holds())).collect();
        assert_eq!(holds, [(99.975, true), (99.0, false), (95.0, true)]);
        let table = report.to_table();
        for part in
            ["a.pcap frame 7:", "rule 5: 3999 of 4000", "2 rules alerted, 1 of them", "10 ask for lua"]
        {
            assert!(table.contains(part), "{part}: {table}");
        }
        assert!(!table.contains("rule 6:"), "{table}");
    }

    #[test]
    fn few_alerts_or_flows_are_no_measurement() {
        let missing = |alerts, flows| -> Vec<bool> {
            report(&outcome(alerts, flows)).results.iter().map(|result| result.missing.is_some()).collect()
        };
        assert_eq!(missing(999, 10_000), [true, false, false]);
        assert_eq!(missing(1_000, 9_999), [false, true, false]);
        let nothing = report(&Outcome { rules: 5, ..Outcome::default() });
        assert!(nothing.results.iter().all(|result| result.missing.is_some() && !result.holds()));
        assert!(nothing.to_table().contains("0 flows of tshark, fewer than 10000"), "{}", nothing.to_table());
    }
}
