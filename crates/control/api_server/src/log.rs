//! The daemon's own log, on standard error: JSON lines, or words on a terminal.
//!
//! No logging crate: there is one destination, no level to filter by, and no dependency that logs something
//! worth keeping. What is written is what an operator acts on.

use crate::time;
use serde_json::{Map, Value};
use std::io::IsTerminal;
use std::sync::LazyLock;

static TERMINAL: LazyLock<bool> = LazyLock::new(|| std::io::stderr().is_terminal());

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Notice,
    Warning,
    Error,
}

/// Queues one line; never waits. A line that standard error does not take is lost and counted.
pub(crate) fn log(severity: Severity, text: &str, fields: &[(&str, Value)]) {
    let line = line(*TERMINAL, &time::now(), severity, text, fields);
    console::error().write(line);
}

fn line(terminal: bool, time: &str, severity: Severity, text: &str, fields: &[(&str, Value)]) -> String {
    let severity = match severity {
        Severity::Notice => "notice",
        Severity::Warning => "warning",
        Severity::Error => "error",
    };
    if terminal {
        let mut line = format!("{time} {severity}: {}", printable::harmless(text, usize::MAX));
        for (name, value) in fields {
            line.push_str(&format!(" {name}={}", printable::json(&value.to_string())));
        }
        line.push('\n');
        return line;
    }
    let mut map = Map::new();
    for (name, value) in [("time", time), ("severity", severity), ("text", text)] {
        map.insert(name.to_owned(), Value::from(value));
    }
    map.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    format!("{}\n", printable::json(&Value::Object(map).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn hidden_characters_are_escaped() {
        let fields = [("who", json!("a\u{202e}\u{2028}\u{9b}b"))];
        let line = |terminal| line(terminal, "T", Severity::Warning, "x\u{2066}\ny", &fields);
        assert_eq!(line(true), "T warning: x\\u{2066}\\ny who=\"a\\u202e\\u2028\\u009bb\"\n");
        let told = line(false);
        assert!(told.trim_end().is_ascii(), "{told:?}");
        let read: Value = serde_json::from_str(&told).expect("JSON");
        assert_eq!((&read["text"], &read["who"]), (&json!("x\u{2066}\ny"), &fields[0].1));
    }

    #[test]
    fn a_line_is_words_on_a_terminal_and_json_elsewhere() {
        let fields = [("requests", json!(3)), ("who", json!("a \"b\"\n"))];
        let line = |terminal| line(terminal, "T", Severity::Warning, "it ends", &fields);
        assert_eq!(line(true), "T warning: it ends requests=3 who=\"a \\\"b\\\"\\n\"\n");
        assert_eq!(
            line(false),
            "{\"time\":\"T\",\"severity\":\"warning\",\"text\":\"it ends\",\"requests\":3,\"who\":\"a \\\"b\\\"\\n\"}\n"
        );
    }
}
