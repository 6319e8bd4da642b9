//! What the operator wants, as objects: the entries of the operator's file, each by its kind and name.
//!
//! A change is checked as the file would be that it makes of them: the objects are put together to a document, and
//! `config` says what is wrong with it. A function that comes alone, or goes alone, is checked with those objects only that
//! it names, so that one function more costs the same beside ten and beside ten thousand. What is wrong with a change is always
//! told by the check of the whole.

use crate::Host;
use crate::catalog::Catalog;
use crate::parts::Parts;
use api::{Fault, Kind};
use config::Catalog as _;
use manifest::Manifest;
use schema::Schema;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use wiring::{Claimant, Edge, Endpoint, Instance, Plan, Wiring};
use yaml_document::{Document, Key, Node, NodeValue, Position};

/// What faults call the document.
const DOCUMENT: &str = "desired";

/// What becomes of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectChange {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// What it is to be, as in the operator's file; `None`: it is deleted.
    pub spec: Option<Value>,
}

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub struct Desired {
    objects: BTreeMap<(Kind, String), Value>,
    /// How many other objects name one of this name.
    named: HashMap<String, usize>,
    /// Objects that ask for a part of a core that they are sure to get.
    reserves: usize,
}

/// A change that fits.
#[derive(Clone, Debug)]
pub struct Checked {
    /// How to get there from what runs.
    pub plan: Plan,
    /// What is allowed but probably not meant; none is told of a function that was looked at alone.
    pub warnings: Vec<Fault>,
}

impl Desired {
    /// Takes changes over that were carried out.
    pub fn take_over(&mut self, changes: impl IntoIterator<Item = ObjectChange>) {
        for ObjectChange { kind, name, spec } in changes {
            let key = (kind, name);
            if let Some(before) = self.objects.remove(&key) {
                self.count(&key, &before, |count| *count -= 1);
            }
            if let Some(spec) = spec {
                self.count(&key, &spec, |count| *count += 1);
                self.objects.insert(key, spec);
            }
        }
    }

    fn count(&mut self, key: &(Kind, String), spec: &Value, change: impl Fn(&mut usize)) {
        for name in names_in(key.0, &key.1, spec) {
            let count = self.named.entry(name.clone()).or_default();
            change(count);
            if *count == 0 {
                self.named.remove(&name);
            }
        }
        if spec.pointer("/cpu/reserve").is_some() {
            change(&mut self.reserves);
        }
    }

    /// What an object is to be.
    pub fn spec(&self, kind: Kind, name: &str) -> Option<Value> {
        self.objects.get(&(kind, name.to_owned())).cloned()
    }

    /// What the images of functions are called, one for each function.
    pub fn images(&self) -> impl Iterator<Item = &str> {
        let first = (Kind::Function, String::new());
        let functions = self.objects.range(first..).take_while(|((kind, _), _)| *kind == Kind::Function);
        functions.filter_map(|(_, spec)| spec.get("image")?.as_str())
    }

    /// Whether there is an object of this name.
    pub fn has(&self, kind: Kind, name: &str) -> bool {
        self.objects.contains_key(&(kind, name.to_owned()))
    }

    /// Checks changes against all else that is wanted and what runs. Functions that are to begin `anew` do, even if nothing about
    /// them changes.
    ///
    /// # Errors
    /// All that is wrong, each with its place, such as `functions.fw.config.rules[2].action`.
    pub fn check(
        &self,
        changes: &[ObjectChange],
        anew: &[String],
        host: &Host,
        catalog: &Catalog,
    ) -> Result<Checked, Vec<Fault>> {
        let parts = host.parts();
        if let [ObjectChange { kind: Kind::Function, name, spec }] = changes {
            let alone = match spec {
                Some(spec) => self.check_new_function(name, spec, &parts, catalog),
                None => self.check_old_function(name, &parts),
            };
            if let Some(plan) = alone {
                return Ok(Checked { plan, warnings: Vec::new() });
            }
        }
        let mut next = self.clone();
        next.take_over(changes.iter().cloned());
        let running = Running { catalog, parts: &parts, changes };
        let (mut wiring, warnings) = read(&next.document(), &running)?;
        keep_same_images(&mut wiring, &parts.wiring, catalog);
        let mut plan = Plan::between(&parts.wiring, &wiring);
        for name in anew {
            plan.replace(&wiring, name);
        }
        Ok(Checked { plan, warnings })
    }

    /// A function that is not there yet; `None`: everything has to be looked at, because something is wrong as well: what there
    /// is to choose from is told with it.
    fn check_new_function(&self, name: &str, spec: &Value, parts: &Parts, catalog: &Catalog) -> Option<Plan> {
        let taken = [Kind::Function, Kind::Port, Kind::Switch];
        if self.reserves > 0
            || spec.pointer("/cpu/reserve").is_some()
            || self.named.contains_key(name)
            || taken.iter().any(|kind| self.objects.contains_key(&(*kind, name.to_owned())))
        {
            return None;
        }
        let part = tree(&self.document_about(name, spec));
        let wiring = config::check_part(DOCUMENT, &part, catalog).ok()?.wiring;
        let instance = wiring.instances.get(name)?;
        if !parts.wiring.tenants.contains_key(&instance.tenant) {
            return None;
        }
        let mine = |edge: &&Edge| edge.ends().iter().any(|end| end.name() == name);
        let wire: std::collections::BTreeSet<Edge> = wiring.edges.iter().filter(mine).cloned().collect();
        if wire.iter().flat_map(Edge::ends).any(|end| parts.wired.contains_key(end))
            || !parts.has_room_for(instance, catalog.memory())
        {
            return None;
        }
        let add_instances = [(name.to_owned(), instance.clone())].into_iter().collect();
        Some(Plan { add_instances, wire, ..Plan::default() })
    }

    /// A function that goes, and that nobody else names; `None`: everything has to be looked at.
    fn check_old_function(&self, name: &str, parts: &Parts) -> Option<Plan> {
        if self.named.contains_key(name) || self.reserves > 0 {
            return None;
        }
        let instance: &Instance = parts.wiring.instances.get(name)?;
        let ends = (0..instance.interfaces).map(|number| Endpoint::Interface(name.to_owned(), number));
        let unwire = ends.filter_map(|end| parts.wired.get(&end).cloned()).collect();
        Some(Plan { unwire, remove_instances: [name.to_owned()].into(), ..Plan::default() })
    }

    /// All objects as one document.
    fn document(&self) -> Value {
        let mut document = Map::from_iter([("superfluid".to_owned(), json!(1))]);
        for ((kind, name), spec) in &self.objects {
            add(&mut document, *kind, name, spec.clone());
        }
        Value::Object(document)
    }

    /// A document of one function and of what it names.
    fn document_about(&self, name: &str, spec: &Value) -> Value {
        let mut document = Map::from_iter([("superfluid".to_owned(), json!(1))]);
        let first = (Kind::Tenant, String::new());
        for ((kind, name), spec) in
            self.objects.range(first..).take_while(|((kind, _), _)| *kind == Kind::Tenant)
        {
            add(&mut document, *kind, name, spec.clone());
        }
        if let Some(workers) = self.objects.get(&(Kind::Workers, "workers".to_owned())) {
            add(&mut document, Kind::Workers, "workers", workers.clone());
        }
        for other in names_in(Kind::Function, name, spec) {
            for kind in [Kind::Port, Kind::Switch, Kind::Function] {
                if let Some(spec) = self.objects.get(&(kind, other.clone())) {
                    let mut spec = spec.clone();
                    if let (Kind::Function, Value::Object(spec)) = (kind, &mut spec) {
                        spec.remove("attach");
                    }
                    add(&mut document, kind, &other, spec);
                }
            }
        }
        add(&mut document, Kind::Function, name, spec.clone());
        Value::Object(document)
    }
}

/// The catalog, and what runs already: of those who ask for memory, whoever has it comes first.
struct Running<'a> {
    catalog: &'a Catalog,
    parts: &'a Parts,
    changes: &'a [ObjectChange],
}

impl config::Catalog for Running<'_> {
    fn image(&self, reference: &str) -> Result<Manifest, String> {
        self.catalog.image(reference)
    }

    fn file(&self, path: &str, most: u64) -> Result<Vec<u8>, String> {
        self.catalog.file(path, most)
    }

    fn image_names(&self) -> Vec<&str> {
        self.catalog.image_names()
    }

    fn driver(&self, name: &str) -> Option<&Schema> {
        self.catalog.driver(name)
    }

    fn faults(&self) -> &Schema {
        self.catalog.faults()
    }

    fn driver_names(&self) -> Vec<&str> {
        self.catalog.driver_names()
    }

    fn processors(&self) -> Vec<usize> {
        self.catalog.processors()
    }

    fn memory(&self) -> Option<u64> {
        self.catalog.memory()
    }

    fn is_there(&self, whose: &Claimant) -> bool {
        let (kind, name, is_there) = match whose {
            Claimant::Tenant(name) => (Kind::Tenant, name, self.parts.wiring.tenants.contains_key(name)),
            Claimant::Instance(name) => {
                (Kind::Function, name, self.parts.wiring.instances.contains_key(name))
            }
        };
        is_there && !self.changes.iter().any(|change| change.kind == kind && &change.name == name)
    }
}

/// Puts an object where it stands in the file.
fn add(document: &mut Map<String, Value>, kind: Kind, name: &str, spec: Value) {
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

/// A function whose image is named otherwise than before, and is the same, goes on with it.
fn keep_same_images(wiring: &mut Wiring, runs: &Wiring, catalog: &Catalog) {
    let digest = |image: &str| catalog.load(image).ok().map(|image| image.digest());
    for (name, instance) in &mut wiring.instances {
        let Some(there) = runs.instances.get(name).filter(|there| there.image != instance.image) else {
            continue;
        };
        let found = digest(&instance.image);
        if found.is_some() && found == digest(&there.image) {
            instance.image.clone_from(&there.image);
        }
    }
}

/// Reads a document as the operator's file.
fn read(document: &Value, catalog: &dyn config::Catalog) -> Result<(Wiring, Vec<Fault>), Vec<Fault>> {
    let told = |fault: yaml_document::Fault| Fault { at: fault.key, message: fault.message };
    match config::check_document(DOCUMENT, &tree(document), catalog) {
        Ok(read) => Ok((read.wiring, read.warnings.into_iter().map(told).collect())),
        Err(faults) => Err(faults.into_iter().map(told).collect()),
    }
}

/// JSON as a document, without the detour over text.
fn tree(value: &Value) -> Document {
    fn node(value: &Value, next: &mut u32) -> Node {
        *next += 1;
        let position = Position { line: 1, column: *next };
        let plain = |text: String| NodeValue::Scalar { text, quoted: false };
        let value = match value {
            Value::Null => NodeValue::Null,
            Value::Bool(value) => plain(value.to_string()),
            Value::Number(value) => plain(value.to_string()),
            Value::String(text) => NodeValue::Scalar { text: text.clone(), quoted: true },
            Value::Array(items) => NodeValue::List(items.iter().map(|item| node(item, next)).collect()),
            Value::Object(entries) => {
                let entry = |(text, value): (&String, &Value)| {
                    let key = Key { position: Position { line: 1, column: *next }, text: text.clone() };
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
fn names_in(kind: Kind, name: &str, spec: &Value) -> Vec<String> {
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
        Kind::Chain | Kind::Wire | Kind::Service => values(Some(spec)),
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
