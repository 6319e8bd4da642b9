//! Writing families and samples, in either notation.

use crate::{Family, Notation, Type};
use std::fmt::Write;
use telemetry::clock::Nanos;

/// Bytes that a sample has at most beside its name and its labels: a value, two spaces and braces.
const SAMPLE: usize = 32;

/// What is measured, in the unit that it is written in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    Count(u64),
    /// Written in seconds.
    Time(Nanos),
    Ratio(f64),
}

impl Value {
    pub const fn flag(holds: bool) -> Value {
        Value::Count(holds as u64)
    }

    fn is_zero(self) -> bool {
        matches!(self, Value::Count(0) | Value::Time(Nanos(0))) || self == Value::Ratio(0.0)
    }
}

/// The labels of many samples, escaped once and used for each family: `{function="fw",tenant="t"`, without
/// the brace at the end.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    text: String,
    ends: Vec<usize>,
}

impl Labels {
    /// No labels, for what there is one of.
    pub fn none() -> Labels {
        Labels { text: String::new(), ends: vec![0] }
    }

    /// Of things that have a name alone.
    pub fn named<'a>(label: &str, names: impl Iterator<Item = &'a str>) -> Labels {
        let mut labels = Labels::default();
        names.for_each(|name| labels.push(&[(label, name)]));
        labels
    }

    pub fn push(&mut self, pairs: &[(&str, &str)]) {
        for (n, (name, value)) in pairs.iter().enumerate() {
            self.text.push(if n == 0 { '{' } else { ',' });
            label(name, value, &mut self.text);
        }
        self.ends.push(self.text.len());
    }

    fn get(&self, n: usize) -> &str {
        let begin = if n == 0 { 0 } else { self.ends[n - 1] };
        &self.text[begin..self.ends[n]]
    }

    /// Room for a sample of each.
    fn room(&self, family: &Family) -> usize {
        self.text.len() + self.ends.len() * (family.name.len() + SAMPLE)
    }
}

/// Where a family is being written.
pub(crate) struct Text<'a> {
    to: &'a mut String,
    notation: Notation,
}

impl<'a> Text<'a> {
    pub fn new(notation: Notation, to: &'a mut String) -> Text<'a> {
        Text { to, notation }
    }

    /// Begins a family, for samples that have these labels.
    pub fn family<'b>(&'b mut self, family: &'b Family, labels: &'b Labels) -> Samples<'b> {
        let counted = matches!(self.notation, Notation::Prometheus) || family.kind == Type::Histogram;
        let suffix = if counted { family.kind.suffix() } else { "" };
        let name = family.name;
        self.to.reserve(labels.room(family) + 512);
        let _ = write!(self.to, "# HELP {name}{suffix} ");
        help(self.notation, family.help, self.to);
        let _ = writeln!(self.to, "\n# TYPE {name}{suffix} {}", family.kind.word(self.notation));
        if let (Notation::OpenMetrics, Some(unit)) = (self.notation, family.told_unit()) {
            let _ = writeln!(self.to, "# UNIT {name} {unit}");
        }
        let name = [name, family.kind.suffix()].concat();
        Samples { to: self.to, family, name, labels }
    }
}

/// Where a family's samples are being written.
pub(crate) struct Samples<'a> {
    to: &'a mut String,
    family: &'a Family,
    name: String,
    labels: &'a Labels,
}

impl Samples<'_> {
    /// The sample with labels number `n`.
    #[inline]
    pub fn one(&mut self, n: usize, value: Value) {
        if self.family.sparse && value.is_zero() {
            return;
        }
        self.to.push_str(&self.name);
        let labels = self.labels.get(n);
        self.to.push_str(labels);
        self.to.push_str(if labels.is_empty() { " " } else { "} " });
        number(value, self.to);
        self.to.push('\n');
    }

    /// The same with one label more.
    pub fn more(&mut self, n: usize, (name, of): (&str, &str), value: Value) {
        if !(self.family.sparse && value.is_zero()) {
            self.put("", n, Some((name, of)), value);
        }
    }

    /// A histogram: how many are not above each bound, in seconds as text, then all, and their sum.
    pub fn histogram(&mut self, n: usize, bounds: &[&str], counts: &[u64], sum: Nanos) {
        for (bound, count) in bounds.iter().zip(counts) {
            self.put("_bucket", n, Some(("le", bound)), Value::Count(*count));
        }
        self.put("_count", n, None, Value::Count(counts.last().copied().unwrap_or_default()));
        self.put("_sum", n, None, Value::Time(sum));
    }

    fn put(&mut self, suffix: &str, n: usize, more: Option<(&str, &str)>, value: Value) {
        self.to.push_str(&self.name);
        self.to.push_str(suffix);
        let labels = self.labels.get(n);
        self.to.push_str(labels);
        if let Some((name, of)) = more {
            self.to.push(if labels.is_empty() { '{' } else { ',' });
            label(name, of, self.to);
        }
        self.to.push_str(if labels.is_empty() && more.is_none() { " " } else { "} " });
        number(value, self.to);
        self.to.push('\n');
    }
}

/// `name="value"`, in which a backslash, a quote and the end of a line are escaped, and nothing else may be.
fn label(name: &str, value: &str, to: &mut String) {
    to.push_str(name);
    to.push_str("=\"");
    escape(value, &['\\', '"', '\n'], to);
    to.push('"');
}

/// Help has no quotes around it, and only OpenMetrics escapes those within.
fn help(notation: Notation, text: &str, to: &mut String) {
    match notation {
        Notation::Prometheus => escape(text, &['\\', '\n'], to),
        Notation::OpenMetrics => escape(text, &['\\', '"', '\n'], to),
    }
}

fn escape(mut text: &str, escaped: &[char], to: &mut String) {
    while let Some(at) = text.find(escaped) {
        to.push_str(&text[..at]);
        to.push('\\');
        let found = text.as_bytes()[at];
        to.push(if found == b'\n' { 'n' } else { char::from(found) });
        text = &text[at + 1..];
    }
    to.push_str(text);
}

#[inline]
fn number(value: Value, to: &mut String) {
    match value {
        Value::Count(count) => to.push_str(itoa::Buffer::new().format(count)),
        Value::Time(Nanos(nanos)) => seconds(nanos, to),
        Value::Ratio(ratio) => float(ratio, to),
    }
}

/// Exactly, without a float on the way.
fn seconds(nanos: u64, to: &mut String) {
    to.push_str(itoa::Buffer::new().format(nanos / 1_000_000_000));
    let rest = nanos % 1_000_000_000;
    if rest > 0 {
        let mut buffer = itoa::Buffer::new();
        // A one in front keeps the zeros.
        let digits = &buffer.format(rest + 1_000_000_000)[1..];
        to.push('.');
        to.push_str(digits.trim_end_matches('0'));
    }
}

fn float(value: f64, to: &mut String) {
    if value.is_finite() {
        // Cannot fail: the text grows.
        let _ = write!(to, "{value}");
    } else {
        to.push_str(if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "+Inf"
        } else {
            "-Inf"
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut String)) -> String {
        let mut text = String::new();
        write(&mut text);
        text
    }

    #[test]
    fn seconds_are_exact() {
        for (nanos, expected) in [
            (0, "0"),
            (1, "0.000000001"),
            (1_500_000_000, "1.5"),
            (20_000_000_100, "20.0000001"),
            (u64::MAX, "18446744073.709551615"),
        ] {
            assert_eq!(text(|to| seconds(nanos, to)), expected);
        }
    }

    #[test]
    fn floats_are_as_both_notations_spell_them() {
        for (value, expected) in [
            (0.25, "0.25"),
            (1.0, "1"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(text(|to| float(value, to)), expected);
        }
    }

    #[test]
    fn quotes_in_help_are_escaped_in_one_notation_alone() {
        let of = |notation| text(|to| help(notation, "a \"b\" \\\nc", to));
        assert_eq!(of(Notation::Prometheus), "a \"b\" \\\\\\nc");
        assert_eq!(of(Notation::OpenMetrics), "a \\\"b\\\" \\\\\\nc");
        assert_eq!(text(|to| label("l", "a\"\\n\n\r\u{e9}", to)), "l=\"a\\\"\\\\n\\n\r\u{e9}\"");
    }
}
