//! A value without columns of its own, for people: what stands alone as lines, what has many of one form as
//! tables.

use super::columns::cell;
use super::numbers::bytes;
use crate::output::{Format, Listing};
use client::harmless;
use serde_json::{Map, Value};

/// Most columns of a table that is not wide.
const COLUMNS: usize = 8;
/// Most characters of a line of it, as many as an ordinary terminal has.
const WIDTH: usize = 80;

/// Longest text that stands alone, in characters.
const LINE: usize = 500;

/// A value as text. What is zero everywhere or null is left out, unless it is to be wide.
pub(crate) fn tree(value: &Value, wide: bool) -> String {
    let Value::Object(entries) = value else { return format!("{}\n", shown("", value)) };
    let mut text = String::new();
    let mut alone = Vec::new();
    let mut tables = Vec::new();
    for (key, value) in entries {
        match rows(value) {
            Some(rows) => tables.push((key, rows)),
            None => match texts(value) {
                Some(texts) => {
                    let keys = std::iter::once(key.as_str()).chain(std::iter::repeat(""));
                    alone.extend(keys.zip(texts).map(|(key, text)| (key.to_owned(), text.clone())));
                }
                None => flat(key, value, &mut alone),
            },
        }
    }
    let width = alone.iter().map(|(key, _)| key.chars().count()).max().unwrap_or(0);
    for (key, value) in &alone {
        if wide || !nothing(value) {
            let value = match value {
                Value::String(text) => harmless(text, LINE),
                value => shown(key, value),
            };
            text.push_str(&format!("{:width$}  {value}\n", cell(key)));
        }
    }
    for (key, rows) in tables {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&table(key, &rows, wide));
    }
    text
}

/// The items of a list of texts, which are told a line each.
fn texts(value: &Value) -> Option<&Vec<Value>> {
    value.as_array().filter(|items| !items.is_empty() && items.iter().all(Value::is_string))
}

/// The rows of a map or list whose values are all maps.
fn rows(value: &Value) -> Option<Vec<(String, &Map<String, Value>)>> {
    let rows: Vec<_> = match value {
        Value::Object(entries) => entries
            .iter()
            .map(|(key, value)| Some((key.clone(), value.as_object()?)))
            .collect::<Option<_>>()?,
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(n, item)| Some((n.to_string(), item.as_object()?)))
            .collect::<Option<_>>()?,
        _ => return None,
    };
    (!rows.is_empty()).then_some(rows)
}

/// Values below a value, each with the way to it.
fn flat(way: &str, value: &Value, into: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(entries) => {
            entries.iter().for_each(|(key, value)| flat(&format!("{way}.{key}"), value, into));
        }
        other => into.push((way.to_owned(), other.clone())),
    }
}

fn table(name: &str, rows: &[(String, &Map<String, Value>)], wide: bool) -> String {
    let rows: Vec<(String, Vec<(String, Value)>)> = rows
        .iter()
        .map(|(name, entries)| {
            let mut cells = Vec::new();
            entries.iter().for_each(|(key, value)| flat(key, value, &mut cells));
            (name.clone(), cells)
        })
        .collect();
    let mut columns: Vec<&str> = Vec::new();
    for (key, _) in rows.iter().flat_map(|(_, cells)| cells) {
        if !columns.contains(&key.as_str()) {
            columns.push(key);
        }
    }
    let something = |column: &&str| {
        let mut cells = rows.iter().flat_map(|(_, cells)| cells);
        cells.any(|(key, value)| key == column && !nothing(value))
    };
    columns.retain(|column| wide || something(column));
    let all = columns.len();
    if !wide {
        columns.truncate(COLUMNS);
    }
    let mut text = of_columns(name, &rows, &columns);
    while !wide && columns.len() > 1 && text.lines().any(|line| line.chars().count() > WIDTH) {
        columns.pop();
        text = of_columns(name, &rows, &columns);
    }
    let left_out = all - columns.len();
    if left_out > 0 {
        let (columns, them) = if left_out == 1 { ("column", "it") } else { ("columns", "them") };
        text.push_str(&format!("... {left_out} more {columns}; -o wide shows {them}\n"));
    }
    text
}

/// A table of these columns.
fn of_columns(name: &str, rows: &[(String, Vec<(String, Value)>)], columns: &[&str]) -> String {
    let heads: Vec<String> =
        std::iter::once(name).chain(columns.iter().copied()).map(|head| cell(head).to_uppercase()).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut listing = Listing::new(&heads, &[]);
    for (name, cells) in rows {
        let of = |column: &&str| {
            let found = cells.iter().find(|(key, _)| key == column);
            found.map_or_else(|| "-".to_owned(), |(key, value)| shown(key, value))
        };
        let cells = std::iter::once(cell(name)).chain(columns.iter().map(of)).collect();
        listing.add(cells, Value::Null);
    }
    listing.shown(Format::Table)
}

fn nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Object(_) => false,
    }
}

/// A value in a cell. Numbers of bytes have a unit.
fn shown(key: &str, value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => cell(text),
        Value::Number(number) if is_of_bytes(key) => number.as_f64().map_or("-".to_owned(), bytes),
        other => cell(&other.to_string()),
    }
}

/// Whether a value is a number of bytes, by the last part of the way to it.
fn is_of_bytes(key: &str) -> bool {
    let last = key.rsplit('.').next().unwrap_or_default();
    last == "bytes" || last.ends_with("_bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_of_one_form_is_a_table() {
        let value = json!({
            "process": {"resident_bytes": 65536, "swapped_bytes": 0},
            "functions": {"fw": {"private_bytes": 1536, "calls": 3, "none": 0}, "ids": {"private_bytes": 0, "calls": 12}},
            "workers": [{"asleep": 7}],
            "balanced": true,
            "empty": {},
        });
        let told = "process.resident_bytes  64.0KiB\nbalanced                true\n\nFUNCTIONS  PRIVATE_BYTES  CALLS\nfw         1.50KiB        3\nids        0B             12\n\nWORKERS  ASLEEP\n0        7\n";
        assert_eq!(tree(&value, false), told);
        let wide = tree(&value, true);
        assert!(wide.contains("process.swapped_bytes") && wide.contains("NONE"), "{wide}");
        let ways = ["bytes", "history.bytes", "pool_bytes", "history.limit_bytes"];
        assert!(ways.iter().all(|way| is_of_bytes(way)) && !is_of_bytes("bytes.kept"));
        let many: Map<_, _> = (1..20).map(|n| (format!("c{n}"), json!(n))).collect();
        let narrow = tree(&json!({"t": {"a": many}}), false);
        assert!(narrow.contains("... 11 more columns; -o wide shows them"), "{narrow}");
        assert!(!tree(&json!({"t": {"a": many}}), true).contains("more columns"));
        // Few columns, but wide ones.
        let long: Map<_, _> = (1..7).map(|n| (format!("a_column_with_a_long_name_{n}"), json!(n))).collect();
        let narrow = tree(&json!({"t": {"a": long}}), false);
        assert!(narrow.lines().all(|line| line.chars().count() <= WIDTH), "{narrow}");
        assert!(narrow.contains("... 4 more columns; -o wide shows them"), "{narrow}");
        // Columns keep their order, whichever row is the first that has something there.
        let rows = json!({"a": {"packets": 0, "cycles": 7}, "b": {"packets": 5, "cycles": 0}});
        assert_eq!(tree(&json!({"t": rows}), false), "T  PACKETS  CYCLES\na  0        7\nb  5        0\n");
        let long = "x".repeat(200);
        let warned = tree(&json!({"healthy": true, "warnings": ["a", &long], "troubles": []}), false);
        assert_eq!(warned, format!("healthy   true\nwarnings  a\n          {long}\n"));
        assert_eq!(tree(&json!(5), false), "5\n");
        assert_eq!(tree(&json!({"a\u{1b}": "\u{1b}[2J"}), false), "a\\u{1b}  \\u{1b}[2J\n");
    }
}
