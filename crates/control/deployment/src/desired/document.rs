//! Objects as the document that they are in the operator's file, and what they name in it.

use api::Kind;
use serde_json::Value;
use yaml_document::{Document, Key, Node, NodeValue, Position};

/// What faults call the document.
pub(super) const DOCUMENT: &str = "desired";

/// Objects, in the order of their kinds, as the document that they are together: without the detour over
/// text, and so without lines.
pub(super) fn tree_of<'a>(objects: impl Iterator<Item = (Kind, &'a str, Part<'a>)>) -> Document {
    let mut nodes = Nodes(0);
    let position = nodes.place();
    let mut sections = vec![nodes.entry("superfluid", |nodes| nodes.plain("1".to_owned()))];
    let mut last = None;
    for (kind, name, Part { spec, bare }) in objects {
        if kind == Kind::Workers {
            sections.push(nodes.entry("workers", |nodes| nodes.of(spec)));
            continue;
        }
        if last.replace(kind) != Some(kind) {
            let none = if kind == Kind::Wire { NodeValue::List(vec![]) } else { NodeValue::Map(vec![]) };
            sections.push(nodes.entry(kind.plural(), |nodes| Node { position: nodes.place(), value: none }));
        }
        match sections.last_mut().map(|(_, section)| &mut section.value) {
            Some(NodeValue::List(wires)) => wires.push(nodes.of(spec)),
            Some(NodeValue::Map(entries)) => entries.push(nodes.entry(name, |nodes| match spec {
                Value::Object(spec) if bare => {
                    nodes.map(spec.iter().filter(|(key, _)| key.as_str() != "attach"))
                }
                _ => nodes.of(spec),
            })),
            _ => {}
        }
    }
    Document::of(Node { position, value: NodeValue::Map(sections) })
}

/// An object of a document; of a function that is `bare` the wires are left out.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) spec: &'a Value,
    pub(super) bare: bool,
}

impl<'a> Part<'a> {
    pub(super) fn whole(spec: &'a Value) -> Part<'a> {
        Part { spec, bare: false }
    }
}

/// Makes nodes, each with a place of its own.
struct Nodes(u32);

impl Nodes {
    fn place(&mut self) -> Position {
        self.0 += 1;
        Position { line: 0, column: self.0 }
    }

    fn entry(&mut self, key: &str, value: impl FnOnce(&mut Nodes) -> Node) -> (Key, Node) {
        let key = Key { position: Position { line: 0, column: self.0 }, text: key.to_owned() };
        (key, value(self))
    }

    fn plain(&mut self, text: String) -> Node {
        Node { position: self.place(), value: NodeValue::Scalar { text, quoted: false } }
    }

    fn map<'a>(&mut self, entries: impl Iterator<Item = (&'a String, &'a Value)>) -> Node {
        let position = self.place();
        let entries = entries.map(|(key, value)| self.entry(key, |nodes| nodes.of(value)));
        Node { position, value: NodeValue::Map(entries.collect()) }
    }

    fn of(&mut self, value: &Value) -> Node {
        let value = match value {
            Value::Null => NodeValue::Null,
            Value::Bool(value) => return self.plain(value.to_string()),
            Value::Number(value) => return self.plain(value.to_string()),
            Value::String(text) => NodeValue::Scalar { text: text.clone(), quoted: true },
            Value::Array(items) => {
                let position = self.place();
                let items = items.iter().map(|item| self.of(item)).collect();
                return Node { position, value: NodeValue::List(items) };
            }
            Value::Object(entries) => return self.map(entries.iter()),
        };
        Node { position: self.place(), value }
    }
}

/// The names of ports, switches, devices and functions that an object names beside its own.
pub(super) fn names_in(kind: Kind, name: &str, spec: &Value) -> Vec<String> {
    let of = |text: &Value| {
        let text = api::attached_to(text)?;
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
            let items = spec.get("at").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let mut names: Vec<String> =
                items.iter().filter_map(Value::as_str).flat_map(api::names_at).map(str::to_owned).collect();
            names.push(name.to_owned());
            names
        }
        Kind::Device => match spec.get("over") {
            Some(Value::Object(over)) => over.keys().cloned().collect(),
            over => values(over),
        },
        Kind::Workers | Kind::Tenant | Kind::Port | Kind::Switch | Kind::Group => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
            assert_eq!(shape(&Nodes(0).of(&value)), shape(parsed.root()), "{value}");
        }
    }

    #[test]
    fn objects_are_put_together_as_they_stand_in_a_file() {
        let specs = [
            json!({"count": 2}),
            json!({}),
            json!({"image": "a", "attach": {"left": "s"}}),
            json!({"attach": 1, "image": "b"}),
            json!(["f:0", "p"]),
            json!(["g", "p"]),
        ];
        let kinds = [Kind::Workers, Kind::Switch, Kind::Function, Kind::Function, Kind::Wire, Kind::Wire];
        let names = ["workers", "s", "f", "g", "x", "y"];
        let objects = kinds.into_iter().zip(names).zip(&specs);
        let objects = objects.map(|((kind, name), spec)| (kind, name, Part { spec, bare: name == "g" }));
        let document = tree_of(objects);
        let expected = json!({
            "superfluid": 1,
            "workers": {"count": 2},
            "switches": {"s": {}},
            "functions": {"f": {"image": "a", "attach": {"left": "s"}}, "g": {"image": "b"}},
            "wires": [["f:0", "p"], ["g", "p"]],
        });
        assert_eq!(shape(document.root()), shape(&Nodes(0).of(&expected)));
    }
}
