//! A file of objects: what it names, as JSON, and where everything stands in it.
//!
//! What is wrong with the file's form is told here, with line and column. What is wrong within an object the
//! daemon says, which knows the images and the other objects; its faults get the line and the column of the
//! place that they name.

use super::connection::Connection;
use super::failure::Failure;
use super::paths::Paths;
use crate::Outcome;
use api::{Fault, Kind, ObjectName, check_name, wire_name};
use api_server::json_of;
use serde_json::{Map, Value};
use std::io::Read;
use std::path::Path;
use yaml_document::{Document, Location, MAX_TEXT, Node, NodeValue, Position, spelling};

/// See the module's documentation.
pub(crate) struct File {
    /// What the user calls it.
    name: String,
    document: Document,
    objects: Vec<ObjectName>,
}

impl File {
    /// Reads a file, `-` for standard input.
    pub(crate) fn read(path: &Path) -> Result<File, Failure> {
        let mut bytes = Vec::new();
        let standard = path == Path::new("-");
        let name = if standard { "standard input".to_owned() } else { path.display().to_string() };
        let most = MAX_TEXT as u64 + 1;
        let read = if standard {
            std::io::stdin().take(most).read_to_end(&mut bytes)
        } else {
            local_file::open_given(path).and_then(|file| file.take(most).read_to_end(&mut bytes))
        };
        read.map_err(|error| Failure::new(format_args!("{name}: {error}"), Outcome::BadInput))?;
        File::parse(name, &bytes)
    }

    /// The same of text, which the user calls `name`.
    pub(crate) fn parse(name: String, bytes: &[u8]) -> Result<File, Failure> {
        let wrong = |faults: &[yaml_document::Fault]| {
            let lines: Vec<_> = faults.iter().map(ToString::to_string).collect();
            Failure::new(lines.join("\n"), Outcome::BadInput)
        };
        let document = yaml_document::text(&name, bytes)
            .and_then(|text| Document::parse(&name, text))
            .map_err(|fault| wrong(&[fault]))?;
        let mut faults = Vec::new();
        let objects =
            objects(&Location::new(&name, "", document.root().position), document.root(), &mut faults);
        if faults.is_empty() { Ok(File { name, document, objects }) } else { Err(wrong(&faults)) }
    }

    /// The objects that it names, those first that others are made from.
    pub(crate) fn objects(&self) -> &[ObjectName] {
        &self.objects
    }

    /// The file as the daemon reads it. Paths in it are made such that the daemon finds what they name.
    pub(crate) fn as_json(&self, connection: &Connection) -> Value {
        let mut value = json_of(self.document.root());
        let folder = match self.name.as_str() {
            "standard input" => Path::new("."),
            name => Path::new(name).parent().unwrap_or(Path::new(".")),
        };
        Paths::new(folder, connection).in_document(&mut value);
        value
    }

    /// What an object is to be.
    pub(crate) fn spec(&self, document: &Value, object: &ObjectName) -> Value {
        let section = document.get(object.kind.plural());
        let spec = match (object.kind, section) {
            (Kind::Workers, section) => section,
            (Kind::Wire, Some(Value::Array(wires))) => {
                wires.iter().find(|wire| name_of_wire(wire).is_some_and(|name| name == object.name))
            }
            (_, section) => section.and_then(|section| section.get(&object.name)),
        };
        spec.cloned().unwrap_or_default()
    }

    /// A refusal with the place in the file that each fault names.
    pub(crate) fn placed(&self, error: client::ClientError) -> Failure {
        let outcome = super::failure::outcome(&error);
        match error.problem() {
            Some(problem) if !problem.faults.is_empty() => {
                let lines: Vec<_> = problem.faults.iter().map(|fault| self.place(fault)).collect();
                Failure::new(lines.join("\n"), outcome)
            }
            _ => error.into(),
        }
    }

    /// A fault with the place in the file that it names. Of what a function says of its configuration, a line
    /// each, those lines have a place too that begin with the way to a key.
    pub(crate) fn place(&self, fault: &Fault) -> String {
        let mut lines = fault.message.split('\n');
        let mut placed = self.placed_line(&Fault::new(&*fault.at, lines.next().unwrap_or_default()));
        for line in lines {
            placed.push('\n');
            placed.push_str(&self.of_configuration(&fault.at, line).unwrap_or_else(|| line.to_owned()));
        }
        placed
    }

    /// `  rules[0]: message` of the function at `functions.fw`.
    fn of_configuration(&self, at: &str, line: &str) -> Option<String> {
        let (way, message) = line.strip_prefix("  ")?.split_once(": ")?;
        let function = self.document.root().get("functions")?.get(at.strip_prefix("functions.")?)?;
        function.get("config")?.get(way.split(['.', '[']).next()?)?;
        Some(format!("  {}", self.placed_line(&Fault::new(format!("{at}.config.{way}"), message))))
    }

    fn placed_line(&self, fault: &Fault) -> String {
        let at_key = fault.message.starts_with("unknown key");
        match self.document.root().position_of(&fault.at, at_key) {
            Some(Position { line, column }) => format!("{}:{line}:{column}: {fault}", self.name),
            None => format!("{}: {fault}", self.name),
        }
    }
}

/// A document of objects: what [`File::parse`] reads as these.
pub(crate) fn document_of<'a>(objects: impl IntoIterator<Item = (&'a ObjectName, &'a Value)>) -> Value {
    let mut document = Map::from_iter([("superfluid".to_owned(), Value::from(1))]);
    for (id, spec) in objects {
        let section = document.entry(id.kind.plural());
        match id.kind {
            Kind::Workers => drop(section.or_insert(spec.clone())),
            Kind::Wire => {
                let wires = section.or_insert_with(|| Value::Array(Vec::new()));
                wires.as_array_mut().into_iter().for_each(|wires| wires.push(spec.clone()));
            }
            _ => {
                let named = section.or_insert_with(|| Value::Object(Map::new()));
                let entry = (id.name.clone(), spec.clone());
                named.as_object_mut().into_iter().for_each(|named| named.extend([entry.clone()]));
            }
        }
    }
    Value::Object(document)
}

/// Checks the outer form, and gathers the names, in the order of [`Kind::ALL`].
fn objects(place: &Location<'_>, root: &Node, faults: &mut Vec<yaml_document::Fault>) -> Vec<ObjectName> {
    let mut names = Vec::new();
    let Some(sections) = root.as_map() else {
        let mut allowed = "a map with `superfluid: 1` and sections such as `functions`".to_owned();
        let first = root.as_list().and_then(|items| items.first());
        if first.is_some_and(|first| first.get("kind").is_some() && first.get("spec").is_some()) {
            allowed.push_str(", which `superfluid get KIND --document` prints");
        }
        place.report(faults, || format!("{}; allowed: {allowed}", root.found()));
        return names;
    };
    match root.get("superfluid") {
        None => place.report(faults, || {
            "the required key `superfluid` is missing; write `superfluid: 1`, the version of this format"
                .to_owned()
        }),
        Some(version) if version.as_text() == Some("1") => {}
        Some(version) => place
            .key("superfluid", version.position)
            .report(faults, || format!("{} as the version of this format; allowed: 1", version.found())),
    }
    for (key, node) in sections {
        let kind = Kind::from_plural(&key.text);
        match kind {
            Some(kind) => section(&place.key(&key.text, node.position), kind, node, &mut names, faults),
            None if key.text == "superfluid" => {}
            None => place.key(&key.text, key.position).report(faults, || {
                let known = ["superfluid"].into_iter().chain(Kind::ALL.map(Kind::plural));
                let choices = spelling::choices(&key.text, known);
                format!("unknown key `{}`{choices}", spelling::shown(&key.text))
            }),
        }
    }
    names.sort_by_key(|name: &ObjectName| name.kind);
    names
}

fn section(
    place: &Location<'_>,
    kind: Kind,
    node: &Node,
    names: &mut Vec<ObjectName>,
    faults: &mut Vec<yaml_document::Fault>,
) {
    match (kind, &node.value) {
        (_, NodeValue::Null) => {}
        (Kind::Workers, _) => names.push(ObjectName::new(kind, "workers")),
        (Kind::Wire, NodeValue::List(wires)) => {
            for (n, wire) in wires.iter().enumerate() {
                match name_of_wire(&json_of(wire)) {
                    Some(name) => names.push(ObjectName::new(kind, name)),
                    None => place.item(n, wire.position).report(faults, || {
                        format!("{}; allowed: a list of two ends, such as `[lan, fw:0]`", wire.found())
                    }),
                }
            }
        }
        (Kind::Wire, _) => place.report(faults, || {
            format!("{}; allowed: a list of pairs, such as `[[lan, fw:0]]`", node.found())
        }),
        (_, NodeValue::Map(entries)) => {
            for (key, _) in entries {
                match check_name(kind, &key.text) {
                    Ok(_) => names.push(ObjectName::new(kind, key.text.clone())),
                    Err(error) => {
                        place.key(&key.text, key.position).report(faults, || error.to_string());
                    }
                }
            }
        }
        _ => place.report(faults, || format!("{}; allowed: a map of names", node.found())),
    }
}

fn name_of_wire(wire: &Value) -> Option<String> {
    match wire.as_array()?.as_slice() {
        [Value::String(a), Value::String(b)] => wire_name(a, b).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<File, String> {
        File::parse("f.yaml".to_owned(), text.as_bytes()).map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn a_file_names_objects_in_the_order_in_which_they_are_made() {
        let text = "superfluid: 1\nchains:\n  c: [lan, fw]\nfunctions: {fw: {image: x}}\nwires: [[b, a:1]]\nports:\nworkers: {count: 2}\n";
        let file = parsed(text).expect("good");
        let names: Vec<_> = file.objects().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["workers/workers", "function/fw", "chain/c", "wire/a:1~b"]);
        let json = json_of(file.document.root());
        let spec = |n: usize| file.spec(&json, &file.objects()[n]).to_string();
        assert_eq!((spec(0), spec(1)), (r#"{"count":2}"#.into(), r#"{"image":"x"}"#.into()));
        assert_eq!((spec(2), spec(3)), (r#"["lan","fw"]"#.into(), r#"["b","a:1"]"#.into()));
    }

    #[test]
    fn faults_of_the_form_have_their_place_and_the_nearest_spelling() {
        for (text, wanted) in [
            ("superfluid: 1\nfuctions: {}\n", "f.yaml:2:1: fuctions: unknown key `fuctions`"),
            ("superfluid: 1\nfuctions: {}\n", "did you mean `functions`?"),
            ("functions: {}\n", "f.yaml:1:1: the required key `superfluid` is missing"),
            ("superfluid: 2\n", "f.yaml:1:13: superfluid: found `2` as the version"),
            ("superfluid: 1\nports:\n  - a\n", "f.yaml:3:3: ports: found a list; allowed: a map of names"),
            ("superfluid: 1\nwires: [[a]]\n", "f.yaml:2:9: wires[0]: found a list"),
            ("superfluid: 1\nports: {a b: {}}\n", "f.yaml:2:9: ports.a b: found ` ` as character 2"),
            ("a: [\n", "f.yaml:"),
            ("- a\n", "found a list; allowed: a map with `superfluid: 1`"),
            ("- {kind: port, name: a, spec: {}}\n", "which `superfluid get KIND --document` prints"),
        ] {
            let failure = parsed(text).err().expect("wrong");
            assert!(failure.contains(wanted), "{text:?}: {failure}");
        }
    }

    #[test]
    fn a_fault_of_the_daemon_is_placed() {
        let text = "superfluid: 1\nfunctions:\n  edge.fw:\n    image: firewall\n    config:\n      rules:\n        - {a: 1}\n        - {action: x}\n  edge: {image: y, fw: }\n";
        let file = parsed(text).expect("good");
        let place = |at: &str, message: &str| file.place(&Fault::new(at, message));
        assert_eq!(
            place("functions.edge.fw.config.rules[1].action", "found `x`"),
            "f.yaml:8:20: functions.edge.fw.config.rules[1].action: found `x`"
        );
        assert_eq!(
            place("functions.edge.fw", "unknown key `fw`"),
            "f.yaml:3:3: functions.edge.fw: unknown key `fw`"
        );
        assert_eq!(place("functions.edge.image.x", "no"), "f.yaml:9:17: functions.edge.image.x: no");
        assert_eq!(place("functions.edge.fw.config.rules[7]", "no").split(": ").next(), Some("f.yaml:7:9"));
        assert_eq!(
            place(
                "functions.edge.fw",
                "it refuses its configuration:\n  rules[1]: no ports\n  x.rules:1:3: no\n  policers[0]: no"
            ),
            "f.yaml:4:5: functions.edge.fw: it refuses its configuration:\n  \
             f.yaml:8:11: functions.edge.fw.config.rules[1]: no ports\n  x.rules:1:3: no\n  policers[0]: no"
        );
        assert_eq!(place("ports.lan", "in use"), "f.yaml: ports.lan: in use");
        assert_eq!(place("", "no room"), "f.yaml: no room");
    }

    #[test]
    fn yaml_is_json_as_it_was_written() {
        let document =
            Document::parse("f", "[1, 1.5, 010, 1e3, true, yes, '7', ~, 64KiB, 0x10, -0]").expect("YAML");
        let json = json_of(document.root()).to_string();
        assert_eq!(json, r#"[1,1.5,"010","1e3",true,"yes","7",null,"64KiB","0x10","-0"]"#);
    }
}
