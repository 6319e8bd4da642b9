//! Any expression and any packet: refused with its column, or a filter that agrees with its own negation.

use capture::{Filter, Outcome};

pub fn run(data: &[u8]) {
    // What follows the first zero is the packet.
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    let Ok(text) = std::str::from_utf8(&data[..end]) else { return };
    let packet = data.get(end + 1..).unwrap_or_default();
    match Filter::parse(text) {
        Ok(filter) => {
            let Ok(inverse) = Filter::parse(&format!("not ({text})")) else {
                // One level deeper, or some characters longer, than is allowed.
                return;
            };
            for outcome in [Outcome::Passed, Outcome::Dropped] {
                let length = packet.len() as u32;
                assert_ne!(filter.matches(packet, length, outcome), inverse.matches(packet, length, outcome));
            }
        }
        Err(error) => assert!((1..=text.chars().count() + 1).contains(&error.column)),
    }
}
