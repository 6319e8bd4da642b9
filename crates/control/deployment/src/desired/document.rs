//! Objects as the document that they are in the operator's file, and what they name in it.

use api::Kind;
use serde_json::{Map, Value, json};
use yaml_document::{Document, Key, Node, NodeValue, Position};

/// What faults call the document.
pub(super) const DOCUMENT: &str = "desired";

/// A document without any object.
pub(super) fn empty() -> Map<String, Value> {
    Map::from_iter([("superfluid".to_owned(), json!(1))])
}

/// Puts an object where it stands in the file.
pub(super) fn add(document: &mut Map<String, Value>, kind: Kind, name: &str, spec: Value) {
    match kind {
        Kind::Workers => drop(document.insert("workers".to_owned(), spec)),
        Kind::Wire => {
            let wires = document.entry("wires").or_insert_with(|| json!([]));
            if let Value::Array(wires) = wires {
                wires.push(spec);
            }
        }
        _ => {
            let section = document.entry(kind.plural()).or_insert_with(|| json!({}));
            if let Value::Object(section) = section {
                section.insert(name.to_owned(), spec);
            }
        }
    }
}

/// JSON as a document, without the detour over text, and so without lines.
pub(super) fn tree(value: &Value) -> Document {
    fn node(value: &Value, next: &mut u32) -> Node {
        *next += 1;
        let position = Position { line: 0, column: *next };
        let plain = |text: String| NodeValue::Scalar { text, quoted: false };
        let value = match value {
            Value::Null => NodeValue::Null,
            Value::Bool(value) => plain(value.to_string()),
            Value::Number(value) => plain(value.to_string()),
            Value::String(text) => NodeValue::Scalar { text: text.clone(), quoted: true },
            Value::Array(items) => NodeValue::List(items.iter().map(|item| node(item, next)).collect()),
            Value::Object(entries) => {
                let entry = |(text, value): (&String, &Value)| {
                    let key = Key { position: Position { line: 0, column: *next }, text: text.clone() };
                    (key, node(value, next))
                };
                NodeValue::Map(entries.iter().map(entry).collect())
            }
        };
        Node { position, value }
    }
    Document::of(node(value, &mut 0))
}

/// The names of ports, switches and functions that an object names beside its own.
pub(super) fn names_in(kind: Kind, name: &str, spec: &Value) -> Vec<String> {
    let of = |text: &Value| {
        let text = text.as_str()?;
        Some(text.split_once(':').map_or(text, |(name, _)| name).to_owned())
    };
    let values = |value: Option<&Value>| -> Vec<String> {
        match value {
            Some(Value::Array(items)) => items.iter().filter_map(of).collect(),
            Some(Value::Object(entries)) => entries.values().filter_map(of).collect(),
            Some(text) => of(text).into_iter().collect(),
            None => Vec::new(),
        }
    };
    match kind {
        Kind::Function => {
            let mut names = values(spec.get("attach"));
            names.retain(|other| other != name);
            names
        }
        Kind::Chain | Kind::Wire => values(Some(spec)),
        Kind::Service => values(Some(spec.get("to").unwrap_or(spec))),
        Kind::Observer => {
            let mut names = values(spec.get("at"));
            names.push(name.to_owned());
            names
        }
        Kind::Workers | Kind::Tenant | Kind::Port | Kind::Switch => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A document without its positions.
    fn shape(node: &Node) -> Value {
        match &node.value {
            NodeValue::Null => Value::Null,
            NodeValue::Scalar { text, quoted } => json!([text, quoted]),
            NodeValue::List(items) => json!({ "list": items.iter().map(shape).collect::<Vec<_>>() }),
            NodeValue::Map(entries) => {
                Value::Object(entries.iter().map(|(key, node)| (key.text.clone(), shape(node))).collect())
            }
        }
    }

    #[test]
    fn json_is_the_same_document_as_its_text() {
        let values = [
            json!({"superfluid": 1, "functions": {"f": {"image": "forwarder", "attach": {"left": "a:0"}}}}),
            json!({"a": [1, -2, 0.5, 1e300, true, false, null, "", "true", "1", "~", "a\nb\t\"c\u{7f}\u{e9}"]}),
            json!({"": {"deep": [[[{"er": []}], {}]]}}),
        ];
        for value in values {
            let parsed = Document::parse("text", &value.to_string()).expect("JSON is YAML");
            assert_eq!(shape(tree(&value).root()), shape(parsed.root()), "{value}");
        }
    }
}
