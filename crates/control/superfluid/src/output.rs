//! Lists of things for people and for programs: `-o table|wide|json|yaml`.

use crate::live_table::{Size, shortened};
use clap::ValueEnum;
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// How a list is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// The columns that matter most.
    #[default]
    Table,
    /// All columns.
    Wide,
    /// JSON: an array, or the one object that was named.
    Json,
    /// The same as YAML.
    Yaml,
}

/// Narrowest that a column is made where a table has too little room.
const NARROWEST: usize = 8;

/// What follows a table of which something is cut.
const CUT: &str = "`~` stands for what there is no room for; `-o wide` shows all\n";

/// A list: rows for people, objects for programs.
pub(crate) struct Listing {
    /// How many columns a narrow table has.
    narrow: usize,
    rows: Vec<Vec<String>>,
    objects: Vec<Value>,
}

impl Listing {
    /// An empty list with these columns, and with these more when it is wide.
    pub(crate) fn new(columns: &[&str], wide: &[&str]) -> Listing {
        let heads = columns.iter().chain(wide).map(|head| (*head).to_owned()).collect();
        Listing { narrow: columns.len(), rows: vec![heads], objects: Vec::new() }
    }

    /// One more: a cell for each column, those of the wide table included, and the object.
    pub(crate) fn add(&mut self, cells: Vec<String>, object: Value) {
        self.rows.push(cells);
        self.objects.push(object);
    }

    /// What is in the list.
    pub(crate) fn objects(&self) -> &[Value] {
        &self.objects
    }

    /// The rows of another list of the same columns as they stand below this one. What is wider widens this
    /// one.
    pub(crate) fn row_below(&mut self, other: &Listing, format: Format) -> String {
        self.rows.extend(other.rows.iter().skip(1).cloned());
        let below = other.rows.len().saturating_sub(1);
        let (text, _) = match format {
            Format::Wide => self.table(usize::MAX, usize::MAX),
            _ => self.table(self.narrow, Size::of_output().columns),
        };
        let lines = text.lines().count();
        let shown: String = text.lines().skip(lines - below).map(|line| format!("{line}\n")).collect();
        // The widest of each column are kept, in one row.
        let widest =
            |n: usize| self.rows.iter().filter_map(|row| row.get(n)).max_by_key(|cell| cell.chars().count());
        let heads: Vec<String> =
            (0..self.rows[0].len()).map(|n| widest(n).cloned().unwrap_or_default()).collect();
        self.rows = vec![heads];
        shown
    }

    /// The list for standard output: on a terminal a table is as wide as that, and says so where it is cut.
    pub(crate) fn printed(&self, format: Format) -> String {
        self.fitting(format, Size::of_output().columns)
    }

    /// The same with room for so many characters in a line.
    pub(crate) fn fitting(&self, format: Format, room: usize) -> String {
        if format != Format::Table {
            return self.shown(format);
        }
        let (mut text, cut) = self.table(self.narrow, room);
        if cut {
            text.push_str(CUT);
        }
        text
    }

    /// The list as text, with a line end. Hidden characters are escaped, in JSON and YAML by escapes that
    /// mean them.
    pub(crate) fn shown(&self, format: Format) -> String {
        match format {
            Format::Table => self.table(self.narrow, usize::MAX).0,
            Format::Wide => self.table(usize::MAX, usize::MAX).0,
            Format::Json => one(&Value::Array(self.objects.clone()), format),
            Format::Yaml if self.objects.is_empty() => "[]\n".to_owned(),
            Format::Yaml => {
                let mut text = String::new();
                self.objects.iter().for_each(|object| item(&mut text, object, 0));
                printable::yaml(&text).into_owned()
            }
        }
    }

    /// So many columns as a table that is no wider than there is room, as far as that goes; whether cells are
    /// cut for it.
    fn table(&self, columns: usize, room: usize) -> (String, bool) {
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let heads = self.rows[0].iter().take(columns).map(|head| head.chars().count().max(NARROWEST));
        let least: Vec<usize> = heads.collect();
        let mut widths: Vec<usize> = (0..least.len()).map(width).collect();
        let wanted = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        let (mut over, mut cut) = (wanted.saturating_sub(room), false);
        // The widest give way first, all of them down to the same width. A number that is cut is another one.
        let is_number = |cell: &String| cell.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        let of_numbers = |n: usize| self.rows[1..].iter().filter_map(|row| row.get(n)).all(is_number);
        let may_give: Vec<usize> = (0..widths.len()).filter(|n| !of_numbers(*n)).collect();
        while over > 0 {
            let long = may_give.iter().copied().filter(|n| widths[*n] > least[*n]);
            let Some(widest) = long.max_by_key(|n| widths[*n]) else { break };
            widths[widest] -= 1;
            (over, cut) = (over - 1, true);
        }
        let mut text = String::new();
        for row in &self.rows {
            let cells: String =
                row.iter().zip(&widths).map(|(cell, width)| shortened(cell, *width) + "  ").collect();
            text.push_str(cells.trim_end());
            text.push('\n');
        }
        (text, cut)
    }
}

/// One object, for programs; a table of one is for the caller to make.
pub(crate) fn one(object: &Value, format: Format) -> String {
    match (format, object) {
        (Format::Yaml, Value::Object(entries)) if !entries.is_empty() => block(entries, 0),
        (Format::Yaml, other) => printable::yaml(&format!("{other}\n")).into_owned(),
        (_, object) => printable::json_lines(&format!("{object:#}\n")).into_owned(),
    }
}

/// A map as a block of YAML, indented by so many steps.
pub(crate) fn block(entries: &Map<String, Value>, depth: usize) -> String {
    let mut text = String::new();
    for (key, value) in entries {
        text.push_str(&"  ".repeat(depth));
        entry(&mut text, key, value, depth);
    }
    printable::yaml(&text).into_owned()
}

/// One value of a list, as a block of YAML 1.2. Text is always quoted: JSON's quoting is YAML's.
fn item(text: &mut String, value: &Value, depth: usize) {
    let mut lead = format!("{:1$}- ", "", depth * 2);
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            for (key, value) in entries {
                text.push_str(&lead);
                entry(text, key, value, depth + 1);
                lead = " ".repeat(lead.len());
            }
        }
        // JSON is YAML.
        other => line(text, &format!("{lead}{other}")),
    }
}

fn entry(text: &mut String, key: &str, value: &Value, depth: usize) {
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            line(text, &format!("{}:", keyed(key)));
            for (key, value) in entries {
                text.push_str(&"  ".repeat(depth + 1));
                entry(text, key, value, depth + 1);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            line(text, &format!("{}:", keyed(key)));
            items.iter().for_each(|value| item(text, value, depth + 1));
        }
        other => line(text, &format!("{}: {other}", keyed(key))),
    }
}

/// A key; one that is no plain word is quoted.
fn keyed(key: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let word = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && key.chars().all(plain);
    // Words that mean something else in YAML, in 1.1 too.
    let meant = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    if word && !meant.contains(&key.to_lowercase().as_str()) {
        key.to_owned()
    } else {
        Value::from(key).to_string()
    }
}

fn line(text: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_yaml() {
        let mut listing = Listing::new(&["A"], &[]);
        assert_eq!(
            (listing.shown(Format::Yaml), listing.shown(Format::Json)),
            ("[]\n".into(), "[]\n".into())
        );
        listing.add(
            vec!["x".into()],
            json!({"a": {"b": [1, {"c": null, "d": "no: \"x\""}], "e": {}}, "f": [], "g": true}),
        );
        listing.add(vec!["y".into()], json!("plain"));
        let wanted = "- a:\n    b:\n      - 1\n      - c: null\n        d: \"no: \\\"x\\\"\"\n    e: {}\n  f: []\n  g: true\n- \"plain\"\n";
        assert_eq!(listing.shown(Format::Yaml), wanted);
        assert_eq!(listing.shown(Format::Table), "A\nx\ny\n");
        let mut list = Listing::new(&["A", "B"], &["C"]);
        list.add(vec!["long".into(), "b".into(), "c".into()], json!(1));
        let mut other = Listing::new(&["A", "B"], &["C"]);
        other.add(vec!["x".into(), "y".into(), "z".into()], json!(2));
        assert_eq!(list.row_below(&other, Format::Table), "x     y\n");
        assert_eq!(list.row_below(&other, Format::Wide), "x     y  z\n", "as wide as before");
        let object = json!({"a": {"10": 1, "no": [], "a: b": "x"}, "c": [1]});
        assert_eq!(
            one(&object, Format::Yaml),
            "a:\n  \"10\": 1\n  \"no\": []\n  \"a: b\": \"x\"\nc:\n  - 1\n"
        );
        assert_eq!(one(&json!({}), Format::Yaml), "{}\n");
        assert_eq!(one(&json!({"a": 1}), Format::Json), "{\n  \"a\": 1\n}\n");
    }

    #[test]
    fn a_table_is_as_wide_as_its_terminal_and_says_what_is_cut() {
        let mut listing = Listing::new(&["NAME", "STATE", "IMAGE"], &["DIGEST"]);
        let names = ["firewall-of-the-first-customer-1", "firewall-of-the-first-customer-2", "nat"];
        for name in names {
            listing.add(vec![name.into(), "running".into(), "firewall".into(), "0123".into()], json!(name));
        }
        let whole = listing.shown(Format::Table);
        assert_eq!(listing.fitting(Format::Table, 80), whole, "there is room");
        assert_eq!(listing.fitting(Format::Table, 51), whole, "just so");
        let cut = listing.fitting(Format::Table, 30);
        let lines: Vec<&str> = cut.lines().collect();
        assert_eq!(lines[0], "NAME         STATE    IMAGE");
        assert_eq!(lines[1..3], ["firew~mer-1  running  firewall", "firew~mer-2  running  firewall"]);
        assert_eq!(lines[3..], ["nat          running  firewall", CUT.trim_end()]);
        // Heads and a few characters stay, however narrow it is.
        assert!(listing.fitting(Format::Table, 5).starts_with("NAME      STATE    IMAGE\nfire~r-1  running"));
        assert!(listing.fitting(Format::Wide, 30).contains(names[0]));
        assert!(listing.fitting(Format::Json, 30).contains(names[0]));
    }

    #[test]
    fn documents_hide_no_character_and_mean_the_same() {
        let hidden = "a\u{202e}b\u{2028}\u{9b}\u{7f}\u{feff}\u{e0041}\n";
        let object = json!({hidden: [hidden, {hidden: hidden}, [hidden]], "m": {hidden: {}}});
        let mut listing = Listing::new(&["A"], &[]);
        listing.add(vec![String::new()], object.clone());
        for shown in [listing.shown(Format::Json), one(&object, Format::Json)] {
            assert!(shown.is_ascii() && !shown.contains('\u{7f}'), "{shown}");
            let read: Value = serde_json::from_str(&shown).expect("JSON");
            assert!(read == object || read == json!([object]), "{shown}");
        }
        for shown in [listing.shown(Format::Yaml), one(&object, Format::Yaml)] {
            assert!(shown.is_ascii() && !shown.contains('\u{7f}'), "{shown}");
            let read = api_server::read(api_server::Language::Yaml, shown.as_bytes()).expect("YAML");
            assert!(read == object || read == json!([object]), "{shown}");
        }
        assert_eq!(one(&json!("\u{e0041}"), Format::Yaml), "\"\\U000e0041\"\n");
    }
}
