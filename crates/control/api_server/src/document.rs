//! What stands in a body: JSON or YAML, to one tree, and a whole document to its objects.

use crate::spec;
use api::{Fault, FaultKind, Kind, ObjectName, check_name};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::collections::BTreeSet;
use std::fmt;
use yaml_document::{Document, Node, NodeValue, spelling};

/// Most faults that are told of one document; the last one then says that there are more.
pub(crate) const FAULTS_MAX: usize = yaml_document::MAX_FAULTS;

/// The languages that bodies are read in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// `application/json`.
    Json,
    /// `application/yaml` (RFC 9512).
    Yaml,
}

/// Reads a body.
///
/// # Errors
/// Where it is not what it should be.
pub fn read(language: Language, bytes: &[u8]) -> Result<Value, Fault> {
    match language {
        Language::Json => json(bytes),
        Language::Yaml => yaml(bytes),
    }
}

/// JSON in which no key stands twice in one object, which `serde_json` by itself would pass over.
fn json(bytes: &[u8]) -> Result<Value, Fault> {
    let fault = |error: &serde_json::Error| {
        let at = format!("line {}, column {}", error.line(), error.column());
        let told = error.to_string();
        let message = told.split(" at line ").next().unwrap_or(&told);
        Fault::new(
            "",
            match message {
                // The reader's word for what it bounds.
                "recursion limit exceeded" => {
                    format!("{at}: lists and maps are nested too deeply; allowed: 127 levels")
                }
                message if error.is_data() => format!("{at}: {message}"),
                message => format!("this is no JSON: {at}: {message}"),
            },
        )
    };
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Strict.deserialize(&mut reader).map_err(|error| fault(&error))?;
    reader.end().map_err(|error| fault(&error))?;
    Ok(value)
}

#[derive(Clone, Copy)]
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number is too large"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Strict)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format!(
                    "the key `{}` stands twice; allowed: once",
                    spelling::shown(&key)
                )));
            }
            map.insert(key, entries.next_value_seed(Strict)?);
        }
        Ok(Value::Object(map))
    }
}

fn yaml(bytes: &[u8]) -> Result<Value, Fault> {
    let told = |fault: yaml_document::Fault| {
        let at = format!("line {}, column {}", fault.position.line, fault.position.column);
        Fault::new(fault.key, format!("this is no YAML: {at}: {}", fault.message))
    };
    let text = yaml_document::text("document", bytes).map_err(told)?;
    let document = Document::parse("document", text).map_err(told)?;
    Ok(json_of(document.root()))
}

/// YAML as JSON. Plain words that JSON would spell the same are numbers and truth values; all others are
/// text, which means the same to every reader of a spec.
pub fn json_of(node: &Node) -> Value {
    match &node.value {
        NodeValue::Null => Value::Null,
        NodeValue::Scalar { text, quoted: true } => Value::from(text.as_str()),
        NodeValue::Scalar { text, quoted: false } => match text.as_str() {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            text => match text.parse::<Number>() {
                Ok(number) if number.to_string() == text => Value::Number(number),
                _ => Value::from(text),
            },
        },
        NodeValue::List(items) => Value::Array(items.iter().map(json_of).collect()),
        NodeValue::Map(entries) => {
            Value::Object(entries.iter().map(|(key, node)| (key.text.clone(), json_of(node))).collect())
        }
    }
}

/// The objects of a whole document, as the operator's file has them, in the order of [`Kind::ALL`].
///
/// # Errors
/// All that is wrong with the document's outer form; what is wrong within an object is for the host to say.
pub fn objects(document: Value) -> Result<Vec<(ObjectName, Value)>, Vec<Fault>> {
    let Value::Object(mut sections) = document else {
        let found = found(&document);
        return Err(vec![Fault::new(
            "",
            format!("found {found}; allowed: a map with `superfluid: 1` and sections such as `functions`"),
        )]);
    };
    let mut faults = Faults(Vec::new());
    match sections.shift_remove("superfluid") {
        Some(version) if version == 1 || version == "1" => {}
        Some(other) => faults
            .add("superfluid", format!("found {} as the version of this format; allowed: 1", found(&other))),
        None => faults.add(
            "superfluid",
            "the required key is missing; write `superfluid: 1`, the version of this format",
        ),
    }
    let mut objects = Vec::new();
    for kind in Kind::ALL {
        match sections.shift_remove(kind.plural()) {
            None | Some(Value::Null) => {}
            Some(section) => read_section(kind, section, &mut objects, &mut faults),
        }
    }
    for key in sections.keys() {
        let known = ["superfluid"].into_iter().chain(Kind::ALL.map(Kind::plural));
        let shown = spelling::shown(key);
        let message = format!("unknown key `{shown}`{}", spelling::choices(key, known));
        faults.push(Fault { kind: FaultKind::UnknownKey, ..Fault::new(shown, message) });
    }
    if faults.0.is_empty() { Ok(objects) } else { Err(faults.0) }
}

fn read_section(kind: Kind, section: Value, objects: &mut Vec<(ObjectName, Value)>, faults: &mut Faults) {
    let plural = kind.plural();
    match (kind, section) {
        (Kind::Workers, spec) => match spec::check(kind, "workers", &spec) {
            Ok(()) => objects.push((ObjectName::new(kind, "workers"), spec)),
            Err(what) => faults.add(plural, what),
        },
        (Kind::Wire, Value::Array(wires)) => {
            let mut names = BTreeSet::new();
            for (n, spec) in wires.into_iter().enumerate() {
                match spec::wire_of(&spec) {
                    Ok(name) if names.insert(name.clone()) => {
                        objects.push((ObjectName::new(kind, name), spec))
                    }
                    Ok(name) => faults
                        .add(format!("wires[{n}]"), format!("the wire `{name}` stands twice; allowed: once")),
                    Err(what) => faults.add(format!("wires[{n}]"), what),
                }
            }
        }
        (Kind::Wire, other) => {
            faults.add(
                plural,
                format!("found {}; allowed: a list of pairs, such as `[[lan, fw:0]]`", found(&other)),
            );
        }
        (_, Value::Object(entries)) => {
            for (name, mut spec) in entries {
                // `lan:` with nothing behind it is a map without keys, as in the operator's file.
                if spec.is_null() && matches!(kind, Kind::Tenant | Kind::Switch) {
                    spec = Value::Object(Map::new());
                }
                let checked = check_name(kind, &name).map_err(|error| error.to_string());
                match checked.and_then(|checked| spec::check(kind, &checked, &spec)) {
                    Ok(()) => objects.push((ObjectName::new(kind, name), spec)),
                    Err(what) => faults.add(format!("{plural}.{}", spelling::shown(&name)), what),
                }
            }
        }
        (_, other) => faults.add(plural, format!("found {}; allowed: a map of names", found(&other))),
    }
}

/// Faults as they are found, of which so many are told that no answer is larger than what asked for it.
#[derive(Default)]
pub(crate) struct Faults(Vec<Fault>);

impl Faults {
    fn add(&mut self, at: impl Into<String>, message: impl Into<String>) {
        self.push(Fault::new(at, message));
    }

    pub fn push(&mut self, fault: Fault) {
        match self.0.len() {
            ..FAULTS_MAX => self.0.push(fault),
            FAULTS_MAX => self.0.push(Fault::new("", "there is more that is wrong")),
            _ => {}
        }
    }

    pub fn extend(&mut self, faults: impl IntoIterator<Item = Fault>) {
        faults.into_iter().for_each(|fault| self.push(fault));
    }

    pub fn into_vec(self) -> Vec<Fault> {
        self.0
    }
}

/// What stands there, in the words of a fault.
pub(crate) fn found(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(value) => format!("`{value}`"),
        Value::Number(value) => format!("`{value}`"),
        Value::String(text) => format!("the text \"{}\"", spelling::shown(text)),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "a map".to_owned(),
    }
}
