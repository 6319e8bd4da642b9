//! A schema in words.

use crate::{Kind, Presence, Schema, SchemaKey};
use std::fmt;

/// One key in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDocumentation {
    /// The way to it: `rules[].action`.
    pub key: String,
    /// What is allowed.
    pub allowed: String,
    /// Must it be there?
    pub required: bool,
    /// What it is when left out, as one would write it.
    pub default: Option<String>,
    /// Unit of a number.
    pub unit: Option<String>,
    /// What it is for; may be empty.
    pub help: String,
}

impl Schema {
    /// All keys in words, those of maps and of lists of maps below their own.
    pub fn documentation(&self) -> Vec<KeyDocumentation> {
        let mut lines = Vec::new();
        describe(self, "", &mut lines);
        lines
    }

    /// The keys as a table in Markdown.
    pub fn to_markdown(&self) -> String {
        let mut table = String::from("| key | | allowed | default | meaning |\n|---|---|---|---|---|\n");
        for line in self.documentation() {
            let cell = |text: &str| text.replace('|', "\\|");
            let presence = if line.required { "Required" } else { "Optional" };
            let default = line.default.as_ref().map(|d| format!("`{}`", cell(d))).unwrap_or_default();
            table.push_str(&format!(
                "| `{}` | {presence} | {} | {default} | {} |\n",
                line.key,
                cell(&line.allowed_with_unit()),
                cell(&line.help)
            ));
        }
        table
    }
}

impl KeyDocumentation {
    fn allowed_with_unit(&self) -> String {
        match &self.unit {
            Some(unit) => format!("{} (unit: {unit})", self.allowed),
            None => self.allowed.clone(),
        }
    }
}

/// One line:
/// `max_flows: Optional, default 65536; an integer from 1 to 10 (unit: flows). Flows that are tracked.`
impl fmt::Display for KeyDocumentation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, if self.required { "Required" } else { "Optional" })?;
        if let Some(default) = &self.default {
            write!(f, ", default {default}")?;
        }
        write!(f, "; {}.", self.allowed_with_unit())?;
        if !self.help.is_empty() {
            write!(f, " {}", self.help)?;
        }
        Ok(())
    }
}

fn describe(schema: &Schema, path: &str, lines: &mut Vec<KeyDocumentation>) {
    for key in schema.keys() {
        let way = if path.is_empty() { key.name.clone() } else { format!("{path}.{}", key.name) };
        lines.push(line(key, way.clone()));
        below(&key.kind, &way, lines);
    }
}

fn below(kind: &Kind, path: &str, lines: &mut Vec<KeyDocumentation>) {
    match kind {
        Kind::Map(schema) => describe(schema, path, lines),
        Kind::List { items, .. } => below(items, &format!("{path}[]"), lines),
        _ => {}
    }
}

fn line(key: &SchemaKey, way: String) -> KeyDocumentation {
    KeyDocumentation {
        key: way,
        allowed: allowed(&key.kind),
        required: key.presence == Presence::Required,
        default: match &key.presence {
            Presence::Default(value) => Some(key.kind.spelled(value)),
            _ => None,
        },
        unit: key.unit.clone(),
        help: key.help.clone(),
    }
}

/// As in messages, but a list's items are told as well unless they have lines of their own.
fn allowed(kind: &Kind) -> String {
    match kind {
        Kind::Map(_) => "a map".to_owned(),
        Kind::List { items, .. } => match items.as_ref() {
            Kind::Map(_) => format!("{}, each a map", kind.allowed()),
            items => format!("{}, each: {}", kind.allowed(), allowed(items)),
        },
        _ => kind.allowed(),
    }
}
