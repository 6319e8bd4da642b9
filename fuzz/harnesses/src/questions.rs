//! DNS messages are recognised, and the names that they ask for taken, as a reader has them that follows a
//! name label by label.

use dpi::message::dns::{questions, recognise};
use dpi::message::fields::Fields;
use dpi::rules::buffer::Buffer;

/// Longest name: of each label its bytes and one more.
const LONGEST: usize = 255;

/// The labels from a place on, and the place behind them. `left`: how long they may be; `jumps`: how often
/// they may be elsewhere, which is always before.
fn name(data: &[u8], at: usize, left: usize, jumps: usize) -> Option<(Vec<&[u8]>, usize)> {
    let first = usize::from(*data.get(at)?);
    if first == 0 {
        return Some((vec![], at + 1));
    }
    if first >= 0xc0 {
        let place = (first - 0xc0) * 256 + usize::from(*data.get(at + 1)?);
        let (labels, _) = name(data, Some(place).filter(|place| *place < at)?, left, jumps.checked_sub(1)?)?;
        return Some((labels, at + 2));
    }
    let label = data.get(at + 1..at + 1 + first).filter(|_| first < 64)?;
    let (mut labels, end) = name(data, at + 1 + first, left.checked_sub(first + 1)?, jumps)?;
    labels.insert(0, label);
    Some((labels, end))
}

/// Whether it is a response, and what it asks for.
fn read(data: &[u8]) -> Option<(bool, Vec<Vec<u8>>)> {
    let word = |at: usize| Some(u16::from_be_bytes([*data.get(at)?, *data.get(at + 1)?]));
    let [flags, asked, answers, authorities, others] = [2, 4, 6, 8, 10].map(word);
    let (flags, asked, answers) = (flags?, asked?, answers?);
    let (authorities, others) = (authorities?, others?);
    let (is_response, operation) = (flags >= 0x8000, flags >> 11 & 15);
    let has_few = is_response || operation == 5 || answers < 2 && authorities < 2;
    if !(1..=16).contains(&asked) || ![0, 1, 2, 4, 5].contains(&operation) || !has_few || others > 64 {
        return None;
    }
    let (mut at, mut names) = (12, vec![]);
    for _ in 0..asked {
        let (labels, end) = name(data, at, LONGEST, 8)?;
        if ![1, 3, 4, 254, 255].contains(&(word(end + 2)? & 0x7fff)) {
            return None;
        }
        at = end + 4;
        names.push(labels.join(&b'.'));
    }
    Some((is_response, names))
}

pub fn run(data: &[u8]) {
    let expected = read(data);
    assert_eq!(recognise(data), expected.as_ref().map(|(is_response, _)| *is_response));
    let mut fields = Fields::default();
    questions(data, &mut fields);
    if let Some((_, names)) = expected {
        assert_eq!(fields.all(Buffer::DnsQuery).collect::<Vec<_>>(), names);
    }
}
