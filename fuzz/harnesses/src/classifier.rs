//! Any filters of up to 16 devices at a port, and any packet: what the classifier finds by hashing words of
//! the packet is what one finds who asks the filters one after the other.

use capture::{Filter, Outcome};
use classifier::{Classifier, Rule};

pub fn run(data: &[u8]) {
    // Lines of a priority, a mark of those that observe, and an expression; what follows the first zero is
    // the packet.
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let Ok(text) = std::str::from_utf8(&data[..end]) else { return };
    let packet = data.get(end + 1..).unwrap_or_default();
    let rules: Vec<Rule> =
        (0..).zip(text.lines().take(16)).filter_map(|(class, line)| rule(class, line)).collect();
    let length = packet.len() as u32;
    let wants = |rule: &Rule| {
        rule.filter.as_ref().is_none_or(|filter| filter.matches(packet, length, Outcome::Passed))
    };
    let takers = rules.iter().filter(|rule| !rule.observes && wants(rule));
    let taken = takers.min_by_key(|rule| rule.priority).map(|rule| rule.class);
    let seen: Vec<u16> =
        rules.iter().filter(|rule| rule.observes && wants(rule)).map(|rule| rule.class).collect();

    let classifier = Classifier::new(rules);
    let mut told = Vec::new();
    assert_eq!(classifier.classify(packet, length, |class| told.push(class)), taken);
    told.sort_unstable();
    assert_eq!(told, seen);
}

fn rule(class: u16, line: &str) -> Option<Rule> {
    let mut rest = line.chars();
    let priority = rest.next()?.to_digit(10)?;
    let text = rest.as_str();
    let (observes, text) = match text.strip_prefix('o') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let filter = match text.trim() {
        "" => None,
        text => Some(Filter::parse(text).ok().filter(|filter| !filter.uses_outcome())?),
    };
    Some(Rule { filter, priority, class, observes })
}
