//! Whether what came out is what was wanted, and whether two images did the same.

use crate::outcome::{Outcome, words};
use crate::{Case, TEST_FILE};
use manifest::Manifest;

/// Compares with what the test wants.
///
/// # Errors
/// The first difference, in one line.
pub(crate) fn wanted(case: &Case, outcome: &Outcome, manifest: &Manifest) -> Result<(), String> {
    let all = case.packets.iter().flat_map(|shown| std::iter::repeat_n(shown, shown.times));
    for (shown, seen) in all.zip(&outcome.packets) {
        let fault = |what: String| Err(format!("{TEST_FILE}:{}: case `{}`: {what}", shown.line, case.name));
        if seen.verdict != shown.verdict.encode() {
            let (found, wanted) = (words(manifest, seen.verdict), words(manifest, shown.verdict.encode()));
            return fault(format!("found `{found}`, wanted `{wanted}`"));
        }
        let length = shown.becomes_length.unwrap_or(shown.bytes.len());
        if seen.bytes.len() != length {
            return fault(format!("the packet has {} bytes, wanted {length}", seen.bytes.len()));
        }
        if let Some(becomes) = &shown.becomes {
            let at = becomes.iter().zip(&seen.bytes).position(|(wanted, found)| wanted != found);
            if let Some(at) = at {
                let (found, wanted) = (seen.bytes[at], becomes[at]);
                return fault(format!("byte {at} of the packet is {found:02x}, wanted {wanted:02x}"));
            }
            if becomes.len() > seen.bytes.len() {
                return fault(format!("the packet has {} bytes, wanted {}", seen.bytes.len(), becomes.len()));
            }
        }
        if let Some(mark) = shown.becomes_mark.filter(|mark| *mark != seen.mark) {
            return fault(format!("the mark is {}, wanted {mark}", seen.mark));
        }
    }
    for (index, name, wanted) in &case.counters {
        let found = outcome.counters.get(*index).copied().unwrap_or(0);
        if found != *wanted {
            return Err(format!(
                "{TEST_FILE}: case `{}`: the counter `{name}` is {found}, wanted {wanted}",
                case.name
            ));
        }
    }
    Ok(())
}

/// Compares two images.
///
/// # Errors
/// What is different, in one line.
pub(crate) fn same(case: &Case, built: &Outcome, cut: &Outcome) -> Result<(), String> {
    let what = [
        ("a packet", built.packets != cut.packets),
        ("a packet of its own", built.emitted != cut.emitted),
        ("a counter", built.counters != cut.counters),
        ("its log", built.log != cut.log),
        ("its events", built.events != cut.events),
        ("its report", built.report != cut.report),
        ("its state", built.state != cut.state),
        ("its deadline", built.deadline != cut.deadline),
    ];
    match what.iter().find(|(_, differs)| *differs) {
        Some((what, _)) => Err(format!("{TEST_FILE}: case `{}`: {what} is not as before", case.name)),
        None => Ok(()),
    }
}
