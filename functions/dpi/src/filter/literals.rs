//! The bytes of each rule that packets are filtered by.

use super::Findings;
use crate::rules::Rule;
use crate::rules::buffer::Buffer;
use crate::rules::content::Content;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

/// Longest literal; of longer contents the rarest part is taken.
pub const LONGEST: usize = 32;
/// Shortest literal.
const SHORTEST: usize = 2;
/// Shortest that is looked for in the payload for a rule about messages: such cost no further scan. One of a
/// message that is not shorter tells enough by itself.
const TELLING: usize = 7;

/// Bytes that a payload must have for a rule to match.
#[derive(Debug)]
pub struct Literal {
    /// [`SHORTEST`] to [`LONGEST`]; lower-case when `nocase`.
    pub bytes: Vec<u8>,
    /// ASCII letters match in both cases.
    pub nocase: bool,
    /// Where its windows begin.
    pub fragment: usize,
    /// The rules that need it.
    pub rules: Vec<u32>,
}

impl Literal {
    /// Whether these bytes, as many as it has, are it.
    #[inline]
    pub fn is(&self, bytes: &[u8]) -> bool {
        if self.nocase {
            self.bytes.iter().zip(bytes).all(|(a, b)| *a == b.to_ascii_lowercase())
        } else {
            self.bytes.iter().zip(bytes).all(|(a, b)| a == b)
        }
    }
}

/// The literals of all rules, each once.
#[derive(Debug, Default)]
pub struct Literals {
    /// All of them.
    pub list: Vec<Literal>,
    /// A rule's literal, by the rule's number.
    pub of_rule: Vec<Option<u32>>,
    /// Where it is looked for; `None` for the payload.
    pub buffers: Vec<Option<Buffer>>,
    /// What is looked for in payloads, by the rule's number: its literal, or for a rule about messages, of
    /// which the literal tells little (a method), another one that must be in the payload as well.
    pub in_payload: Vec<Option<u32>>,
    /// Whether a rule's contents match where its literal does, and nothing else need be looked for.
    pub is_whole: Vec<bool>,
}

/// How often bytes are met in traffic, roughly: the higher, the more often.
pub(super) fn commonness(byte: u8) -> u32 {
    match byte.to_ascii_lowercase() {
        b' ' | b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b's' | b'r' => 14,
        b'a'..=b'z' => 10,
        b'0'..=b'9' | b'/' | b'.' | b'\r' | b'\n' | 0 => 9,
        b'-' | b':' | b'=' | b'"' | b'<' | b'>' | b',' | b';' | 0xff => 7,
        b'!'..=b'~' => 4,
        _ => 2,
    }
}

/// How often windows occur in the contents of all rules: those that many have in common tell little.
struct Census {
    counts: Vec<u16>,
}

impl Census {
    const BITS: u32 = 16;

    fn place(window: &[u8]) -> usize {
        let folded = window.iter().fold(0u32, |word, byte| word << 8 | u32::from(byte | 0x20));
        (folded.wrapping_mul(0x85eb_ca6b) >> (32 - Census::BITS)) as usize
    }

    fn new(rules: &[Rule]) -> Census {
        let mut counts = vec![0u16; 1 << Census::BITS];
        for content in rules.iter().flat_map(contents).map(|(.., content)| content) {
            for window in content.bytes.windows(width(content.bytes.len())) {
                let count = &mut counts[Census::place(window)];
                *count = count.saturating_add(1);
            }
        }
        Census { counts }
    }

    fn cost(&self, window: &[u8]) -> u32 {
        let others = u32::from(self.counts[Census::place(window)]);
        others * 6 + window.iter().map(|byte| commonness(*byte)).sum::<u32>() * 4 / window.len() as u32
    }

    /// The best place for a fragment in bytes of at least [`SHORTEST`], and what it costs.
    fn best(&self, bytes: &[u8]) -> (u32, usize) {
        let (stride, width) = (stride(bytes.len()), width(bytes.len()));
        let last = bytes.len() + 1 - stride - width;
        let cost = |start: usize| -> u32 {
            (start..start + stride).map(|at| self.cost(&bytes[at..at + width])).sum::<u32>() / stride as u32
        };
        (0..=last).map(|start| (cost(start), start)).min().unwrap_or_default()
    }
}

/// Distance of samples for literals of this length.
fn stride(length: usize) -> usize {
    match length {
        7.. => 4,
        4.. => 2,
        _ => 1,
    }
}

/// Width of samples for literals of this length.
fn width(length: usize) -> usize {
    match length {
        7.. => 4,
        4.. => 3,
        _ => SHORTEST,
    }
}

/// Where a content stands in its rule: the field, chain, place in it.
type Standing = (Option<usize>, usize, usize);

/// A literal's bytes, whether it is one in both cases, and where it is looked for.
type Form = (Vec<u8>, bool, Option<Buffer>);

/// The literals that there are.
type Numbers = BTreeMap<Form, u32>;

/// The contents that must be there, with their places. A rule about messages is looked for in their parts.
fn contents(rule: &Rule) -> impl Iterator<Item = (Standing, Option<Buffer>, &Content)> {
    let payload = (!rule.has_fields()).then_some((None, None, &rule.payload));
    let fields = rule.fields.iter().enumerate();
    let fields = fields.map(|(number, (buffer, pattern))| (Some(number), Some(*buffer), pattern));
    payload.into_iter().chain(fields).flat_map(|(number, buffer, pattern)| {
        let contents = pattern.contents();
        contents.map(move |((chain, place), content)| ((number, chain, place), buffer, content))
    })
}

impl Literals {
    /// Notes a literal if it is at a place in the data, and behind `seam` or across it, as
    /// [`super::Filter::scan`] says. The place is that of one of its bytes, and where among them that is.
    #[inline]
    pub(super) fn meet(
        &self,
        number: u32,
        data: &[u8],
        (at, offset): (usize, i32),
        seam: usize,
        findings: &mut Findings,
    ) {
        let Some(start) = at.checked_add_signed(-offset as isize) else {
            findings.reaches_before = true;
            return;
        };
        let literal = &self.list[number as usize];
        let end = start + literal.bytes.len();
        if end > data.len() {
            findings.reaches_behind = true;
            return;
        }
        let is_new = (seam == 0 || start < seam && end > seam) && !findings.has(number);
        if is_new && data.get(start..end).is_some_and(|bytes| literal.is(bytes)) {
            findings.add(number);
        }
    }

    /// The number of a content's literal, which is added if it is not there, and its length.
    fn number(
        &mut self,
        content: &Content,
        buffer: Option<Buffer>,
        census: &Census,
        numbers: &mut Numbers,
    ) -> (u32, usize) {
        let (_, fragment) = census.best(&content.bytes);
        let start = fragment.saturating_sub(LONGEST / 2).min(content.bytes.len().saturating_sub(LONGEST));
        let bytes = &content.bytes[start..content.bytes.len().min(start + LONGEST)];
        let next = self.list.len() as u32;
        let number = *numbers.entry((bytes.to_vec(), content.nocase, buffer)).or_insert(next);
        if number == next {
            self.list.push(Literal {
                bytes: bytes.to_vec(),
                nocase: content.nocase,
                fragment: fragment - start,
                rules: Vec::new(),
            });
        }
        (number, bytes.len())
    }

    /// Chooses the literals of all rules.
    pub fn new(rules: &[Rule]) -> Literals {
        let census = Census::new(rules);
        let mut literals = Literals::default();
        let mut numbers = Numbers::new();
        for (rule_number, rule) in rules.iter().enumerate() {
            let long_enough = || contents(rule).filter(|(.., content)| content.bytes.len() >= SHORTEST);
            let rank = |content: &Content| {
                let (cost, _) = census.best(&content.bytes);
                // A class that is sampled more often costs every packet.
                (
                    core::cmp::Reverse(stride(content.bytes.len())),
                    cost,
                    core::cmp::Reverse(content.bytes.len()),
                )
            };
            let chosen = long_enough()
                .find(|(place, ..)| rule.fast == Some(*place))
                .or_else(|| long_enough().min_by_key(|(.., content)| rank(content)));
            let carried = rule.payload.contents().map(|(_, content)| content);
            let carried = carried.filter(|content| content.bytes.len() >= TELLING).min_by_key(|c| rank(c));
            let tells_little = chosen.is_none_or(|(.., content)| content.bytes.len() < TELLING);
            let carried = carried.filter(|_| rule.has_fields() && tells_little);
            let carried = carried.map(|content| literals.number(content, None, &census, &mut numbers).0);
            let Some((_, buffer, content)) = chosen else {
                literals.in_payload.push(carried);
                literals.of_rule.push(None);
                literals.buffers.push(None);
                literals.is_whole.push(false);
                continue;
            };
            let (number, length) = literals.number(content, buffer, &census, &mut numbers);
            literals.list[number as usize].rules.push(rule_number as u32);
            literals.of_rule.push(Some(number));
            literals.in_payload.push(if rule.has_fields() { carried } else { Some(number) });
            let is_plain = content.relative.is_none() && !content.is_absolute && !content.at_end;
            literals.buffers.push(buffer);
            let is_alone = rule.all_elements().count() == 1 && rule.tls_version.is_none();
            literals.is_whole.push(is_plain && is_alone && length == content.bytes.len());
        }
        literals
    }
}
