//! From settings to an outcome: which captures go to which side, and what is compared.

use crate::captures::{self, Capture, Captures};
use crate::difference::{self, Compared, Difference};
use crate::frames::Inside;
use crate::product::{self, Ran};
use crate::rules::{GENERATED, Rules};
use crate::table::{Alerts, Flows};
use crate::tshark::Seen;
use crate::{Error, firewall, nft, suricata, tshark};
use peers::Folder;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Most captures of one process of the product, and most bytes of them together.
const BATCH: (usize, u64) = (8, 128 << 20);
/// Exit status of the product when what it is told is refused, and nothing was started.
const REFUSED: i32 = 2;

/// What to compare.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The product, `superfluid`.
    pub program: PathBuf,
    /// A folder of captures; `None` for the seeded one and those of Debian's packages.
    pub captures: Option<PathBuf>,
    /// A folder of rules; `None` for the generated ones.
    pub rules: Option<PathBuf>,
    /// Flows of the seeded capture.
    pub flows: u32,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Outcome {
    /// By rule, flow and number.
    pub alerts: Compared,
    /// By ends, packets and bytes.
    pub flows: Compared,
    /// By frame.
    pub verdicts: Compared,
    /// Alerts of Suricata.
    pub suricata_alerts: u64,
    /// Flows of tshark, both directions one.
    pub tshark_flows: u64,
    /// Rules, of which `dpi` accepted so many, and Suricata.
    pub rules: u64,
    /// See `rules`; `None` while no capture was read.
    pub accepted: Option<u64>,
    /// See `rules`.
    pub suricata_accepted: Option<u64>,
    /// What the other rules ask for, and how many do.
    pub lacking: Vec<(String, u64)>,
    /// Captures that were compared.
    pub captures: u64,
    /// What crashed, hung or was refused, and what was left out.
    pub failures: Vec<Difference>,
    /// Where captures and rules came from, and what was left out.
    pub sources: Vec<String>,
}

/// Compares all captures. `progress` is told the fraction done and what is at work.
///
/// # Errors
/// [`Error`]: captures or rules cannot be read. What fails on one capture is in the outcome.
pub fn run(settings: &Settings, progress: &mut dyn FnMut(f64, &str)) -> Result<Outcome, Error> {
    let rules = match &settings.rules {
        Some(folder) => Rules::of_folder(folder)?,
        None => Rules::generate(GENERATED),
    };
    let folder = Folder::new()?;
    let mut found = match &settings.captures {
        Some(folder) => Captures::of_folder(folder)?,
        None => Captures::packaged(),
    };
    let mut outcome = Outcome { rules: rules.count(), ..Outcome::default() };
    outcome.sources.push(format!("rules: {}", rules.source));
    match &settings.captures {
        Some(folder) => {
            outcome.sources.push(format!("captures: {} in {}", found.captures.len(), folder.display()));
        }
        None => {
            let packaged = found.captures.len();
            outcome
                .sources
                .push(format!("captures: one of {} seeded flows, {packaged} of packages", settings.flows));
            progress(0.0, "compare: the seeded capture");
            // Its traffic is made for the generated rules, whichever rules it is looked at with.
            let seeded = Rules::generate(GENERATED);
            found.captures.insert(0, captures::seeded(&folder.file("seeded.pcap"), &seeded, settings.flows)?);
        }
    }
    outcome.sources.extend(found.left_out.iter().map(|line| format!("left out: {line}")));
    let batches = batches(&found.captures);
    let (all, mut done) = (found.captures.len().max(1) as f64, 0);
    for batch in batches {
        progress(done as f64 / all, &format!("compare: {}", batch[0].name));
        compare(settings, batch, &rules, &mut outcome)?;
        done += batch.len();
    }
    Ok(outcome)
}

/// Captures in groups for one process each.
fn batches(captures: &[Capture]) -> Vec<&[Capture]> {
    let mut batches = Vec::new();
    let (mut from, mut bytes) = (0, 0);
    for (at, capture) in captures.iter().enumerate() {
        if at > from && (at - from == BATCH.0 || bytes + capture.bytes > BATCH.1) {
            batches.push(&captures[from..at]);
            (from, bytes) = (at, 0);
        }
        bytes += capture.bytes;
    }
    if from < captures.len() {
        batches.push(&captures[from..]);
    }
    batches
}

fn compare(
    settings: &Settings,
    batch: &[Capture],
    rules: &Rules,
    outcome: &mut Outcome,
) -> Result<(), Error> {
    let folder = Folder::new()?;
    match product::run(&settings.program, batch, rules, &folder) {
        Ok(all) => {
            for (capture, ran) in batch.iter().zip(all) {
                one(capture, Some(&ran), rules, outcome);
                if let Err(error) = verdicts(settings, capture, outcome) {
                    outcome.failures.push(failure(capture, &error.to_string()));
                }
            }
        }
        // One of them is to blame: each alone says which.
        Err(_) if batch.len() > 1 => {
            for capture in batch {
                compare(settings, std::slice::from_ref(capture), rules, outcome)?;
            }
        }
        Err(error) => {
            let is_refused = matches!(&error, Error::Failed { status, .. } if status.code() == Some(REFUSED));
            for capture in batch {
                outcome.failures.push(failure(capture, &error.to_string()));
                if !is_refused {
                    one(capture, None, rules, outcome);
                }
            }
        }
    }
    Ok(())
}

fn failure(capture: &Capture, what: &str) -> Difference {
    let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
    Difference { capture: capture.name.clone(), frame: None, what }
}

/// Compares one capture; what the product does not say, because it failed, counts as nothing.
fn one(capture: &Capture, ran: Option<&Ran>, rules: &Rules, outcome: &mut Outcome) {
    outcome.captures += 1;
    if let Some(ran) = ran {
        outcome.accepted = Some(ran.loaded);
        outcome.lacking.clone_from(&ran.lacking);
    }
    let seen = match tshark::read(&capture.path) {
        Ok(seen) => {
            let both: BTreeMap<_, ()> = seen.flows.keys().map(|flow| (flow.undirected(), ())).collect();
            outcome.tshark_flows += both.len() as u64;
            let none = Flows::new();
            let ours = ran.map_or(&none, |ran| &ran.flows);
            outcome.flows.add(difference::flows(&capture.name, ours, &seen.flows));
            seen
        }
        Err(error) => {
            outcome.failures.push(failure(capture, &error.to_string()));
            Seen::default()
        }
    };
    let ours = match ran.map(|ran| ran.alerts(|micros, flow| seen.frame_at(micros, flow))) {
        Some(Ok(alerts)) => alerts,
        Some(Err(error)) => {
            outcome.failures.push(failure(capture, &error.to_string()));
            Alerts::new()
        }
        None => Alerts::new(),
    };
    match suricata::read(&capture.path, rules) {
        Ok(read) => {
            outcome.suricata_alerts += read.alerts.values().map(|alerted| alerted.count).sum::<u64>();
            outcome.suricata_accepted = read.loaded.or(outcome.suricata_accepted);
            outcome.alerts.add(difference::alerts(&capture.name, &ours, &read.alerts));
        }
        Err(error) => outcome.failures.push(failure(capture, &error.to_string())),
    }
}

/// Compares verdicts, where a capture has an inner network.
fn verdicts(settings: &Settings, capture: &Capture, outcome: &mut Outcome) -> Result<(), Error> {
    let Some(inside) = Inside::of(&capture.path)? else { return Ok(()) };
    let ours = firewall::read(&settings.program, &capture.path, inside)?;
    let theirs = nft::read(&capture.path, inside)?;
    outcome.verdicts.add(difference::verdicts(&capture.name, &ours, &theirs));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_have_few_captures_and_few_bytes() {
        let capture = |bytes| Capture { name: String::new(), path: PathBuf::new(), bytes };
        let sizes = |bytes: &[u64]| {
            let captures: Vec<_> = bytes.iter().map(|bytes| capture(*bytes)).collect();
            batches(&captures).iter().map(|batch| batch.len()).collect::<Vec<_>>()
        };
        assert!(sizes(&[]).is_empty());
        assert_eq!(sizes(&[1; 17]), [8, 8, 1]);
        assert_eq!(sizes(&[200 << 20, 1, 1, 127 << 20, 1 << 20, 1]), [1, 3, 2]);
    }
}
