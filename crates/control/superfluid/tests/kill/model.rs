//! What was acknowledged, and what may or may not have been done when the daemon was killed.

use crate::images;
use crate::support::http::Socket;
use crate::wiring::{self, Object};
use crate::{TAP, names};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Functions that come and go.
const FUNCTIONS: u64 = 6;
/// Snapshots that come and go.
const SNAPSHOTS: u64 = 3;

/// Numbers that look like chance, the same in every run.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// From 0 to below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        // Xorshift, after Marsaglia.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// A thing that is done through the interface.
#[derive(Clone, Debug)]
pub enum Step {
    Create(String, u64),
    Delete(String),
    Pause(String, bool),
    Upgrade(u64),
    Save(String),
    Forget(String),
    Restore(String, String),
    Tap(bool),
    /// A chain, a wire, a switch, a device, an observer or a group as it is to be; `None`: it goes.
    Put(Object, Option<Value>),
    /// The function that runs an image from a file, which has this one.
    Image(u8),
    /// A file: functions and other objects as they are to be; whether all else goes.
    Apply(BTreeMap<String, u64>, BTreeMap<Object, Value>, bool),
}

/// How a function is to be.
#[derive(Clone, Debug, PartialEq)]
struct Function {
    spec: Value,
    paused: bool,
}

/// All that is to be there.
#[derive(Clone, Debug, Default, PartialEq)]
struct Wanted {
    functions: BTreeMap<String, Function>,
    /// By name, the configuration that was saved.
    snapshots: BTreeMap<String, Value>,
    /// Chains, wires, switches, devices, observers and groups.
    objects: BTreeMap<Object, Value>,
    tap: bool,
}

/// See the module's documentation.
pub struct Model {
    /// Where the daemon is.
    folder: PathBuf,
    wanted: Wanted,
    /// What was asked for and not answered, and what would be there with it.
    asked: Option<(Step, Wanted)>,
}

impl Step {
    /// Something that can be done now.
    pub fn any(random: &mut Random, model: &Model) -> Step {
        let function = format!("f{}", random.below(FUNCTIONS));
        let snapshot = format!("s{}", random.below(SNAPSHOTS));
        let there = model.wanted.functions.contains_key(&function);
        let saved = model.wanted.snapshots.contains_key(&snapshot);
        match random.below(22) {
            0..=3 if !there => Step::Create(function, random.below(8)),
            0..=1 => Step::Create(function, random.below(8)),
            2..=4 if there => Step::Delete(function),
            5..=6 if there => Step::Pause(function, random.below(2) == 0),
            7..=9 if saved => match random.below(3) {
                0 => Step::Forget(snapshot),
                1 => Step::Restore(snapshot, "fw".to_owned()),
                _ => Step::Restore(snapshot, "clone".to_owned()),
            },
            7..=9 => Step::Save(snapshot),
            10 => Step::Tap(random.below(2) == 0),
            12..=15 => {
                let (object, spec) = wiring::any(random);
                Step::Put(object, spec)
            }
            16..=17 => Step::Image(random.below(images::NUMBERS) as u8),
            18..=21 => {
                // A file names an image, and would mean what the file has by then.
                let prune = random.below(2) == 0 && !model.wanted.functions.contains_key(images::FUNCTION);
                let functions = (0..FUNCTIONS).filter(|_| random.below(2) == 0).collect::<Vec<_>>();
                let functions = functions.into_iter().map(|n| (format!("f{n}"), random.below(8)));
                Step::Apply(functions.collect(), wiring::several(random), prune)
            }
            _ => Step::Upgrade(random.below(64)),
        }
    }

    /// What kind of thing it is.
    pub fn name(&self) -> &'static str {
        match self {
            Step::Create(..) => "create",
            Step::Delete(_) => "delete",
            Step::Pause(..) => "pause",
            Step::Upgrade(_) => "upgrade",
            Step::Save(_) => "save",
            Step::Forget(_) => "forget",
            Step::Restore(..) => "restore",
            Step::Tap(_) => "tap",
            Step::Put((kind, _), _) => kind,
            Step::Image(_) => "image",
            Step::Apply(_, _, false) => "apply",
            Step::Apply(_, _, true) => "prune",
        }
    }

    /// The request.
    fn request(&self, wanted: &Wanted) -> (&'static str, String, Option<Value>) {
        match self {
            Step::Create(name, variant) => {
                ("PUT", format!("/v1/functions/{name}?wait=true"), Some(json!({"spec": forwarder(*variant)})))
            }
            Step::Delete(name) => ("DELETE", format!("/v1/functions/{name}"), None),
            Step::Pause(name, true) => ("POST", format!("/v1/functions/{name}/pause"), None),
            Step::Pause(name, false) => ("POST", format!("/v1/functions/{name}/resume"), None),
            Step::Upgrade(variant) => (
                "POST",
                "/v1/functions/fw/upgrade?wait=true".to_owned(),
                Some(json!({"image": "firewall", "config": filter(*variant)})),
            ),
            Step::Save(name) => {
                ("POST", "/v1/functions/fw/snapshots".to_owned(), Some(json!({ "name": name })))
            }
            Step::Forget(name) => ("DELETE", format!("/v1/snapshots/{name}"), None),
            Step::Restore(name, function) => (
                "POST",
                format!("/v1/snapshots/{name}/restore?wait=true"),
                Some(json!({ "function": function })),
            ),
            Step::Tap(true) => ("PUT", "/v1/ports/tap".to_owned(), Some(json!({ "spec": tap() }))),
            Step::Tap(false) => ("DELETE", "/v1/ports/tap".to_owned(), None),
            Step::Put((plural, name), spec) => {
                let method = if spec.is_some() { "PUT" } else { "DELETE" };
                let body = spec.as_ref().map(|spec| json!({ "spec": spec }));
                (method, format!("/v1/{plural}/{name}"), body)
            }
            Step::Image(_) => {
                let spec = json!({"image": format!("./{}", images::FILE)});
                // Images that hand nothing over: one in another's place begins anew.
                let path = format!("/v1/functions/{}?wait=true&allow_restart=true", images::FUNCTION);
                ("PUT", path, Some(json!({ "spec": spec })))
            }
            Step::Apply(functions, objects, prune) => {
                let functions = functions.iter().map(|(name, variant)| (name.clone(), forwarder(*variant)));
                let mut document = wiring::document(objects);
                document["functions"] = functions.collect();
                if *prune {
                    wanted.name_what_stays(&mut document);
                }
                ("POST", format!("/v1/apply?wait=true&prune={prune}"), Some(document))
            }
        }
    }
}

fn forwarder(variant: u64) -> Value {
    json!({
        "image": "forwarder", "config": {"reflect": variant.is_multiple_of(2)}, "max_call": "10s",
        "longest_hold": format!("{}s", 1 + variant), "attach": {"left": "hall"},
    })
}

fn tap() -> Value {
    json!({"type": "tap", "interface": TAP})
}

/// What never changes, by its path.
fn base() -> [(&'static str, Value); 6] {
    [
        ("tenants/default", json!({"pool": {"buffers": 2048, "pages": "ordinary"}})),
        ("ports/source", json!({"type": "generator", "rate": "20kpps", "flows": 50})),
        ("ports/out", json!({"type": "sink"})),
        ("switches/hall", json!({})),
        // Where what begins at the other ends: one from which the way leads back would be refused.
        ("switches/court", json!({})),
        ("switches/alley", json!({})),
    ]
}

fn filter(variant: u64) -> Value {
    json!({"default_action": "accept", "max_flows": 4096 + variant})
}

impl Wanted {
    /// What is there after a step.
    fn after(&self, step: &Step) -> Wanted {
        let mut next = self.clone();
        match step {
            Step::Create(name, variant) => {
                let paused = self.functions.get(name).is_some_and(|function| function.paused);
                next.functions.insert(name.clone(), Function { spec: forwarder(*variant), paused });
            }
            Step::Delete(name) => drop(next.functions.remove(name)),
            Step::Pause(name, paused) => {
                next.functions.get_mut(name).expect("it is there").paused = *paused;
            }
            Step::Upgrade(variant) => {
                next.functions.get_mut("fw").expect("it is there").spec["config"] = filter(*variant);
            }
            Step::Save(name) => {
                next.snapshots.insert(name.clone(), self.functions["fw"].spec["config"].clone());
            }
            Step::Forget(name) => drop(next.snapshots.remove(name)),
            Step::Restore(name, function) => {
                let mut spec = self.functions["fw"].spec.clone();
                spec["config"] = self.snapshots[name].clone();
                if function != "fw" {
                    spec.as_object_mut().expect("a map").remove("attach");
                }
                let paused = self.functions.get(function).is_some_and(|function| function.paused);
                next.functions.insert(function.clone(), Function { spec, paused });
            }
            Step::Tap(there) => next.tap = *there,
            Step::Put(object, Some(spec)) => drop(next.objects.insert(object.clone(), spec.clone())),
            Step::Put(object, None) => drop(next.objects.remove(object)),
            Step::Image(number) => {
                let paused = self.functions.get(images::FUNCTION).is_some_and(|function| function.paused);
                let spec = images::shown(&images::digest(*number));
                next.functions.insert(images::FUNCTION.to_owned(), Function { spec, paused });
            }
            Step::Apply(functions, objects, prune) => {
                if *prune {
                    next.functions.retain(|name, _| self.stays(name) || functions.contains_key(name));
                    next.objects.clear();
                }
                for (name, variant) in functions {
                    let paused = self.functions.get(name).is_some_and(|function| function.paused);
                    next.functions.insert(name.clone(), Function { spec: forwarder(*variant), paused });
                }
                next.objects.extend(objects.clone());
            }
        }
        next
    }

    /// Whether a function is none of those that come and go in files.
    fn stays(&self, function: &str) -> bool {
        !(0..FUNCTIONS).any(|n| function == format!("f{n}"))
    }

    /// Adds to a file what is there besides the functions that come and go, and chains, wires and switches.
    fn name_what_stays(&self, document: &mut Value) {
        for (path, spec) in base() {
            let (plural, name) = path.split_once('/').expect("a kind and a name");
            document[plural][name] = spec;
        }
        for (name, function) in self.functions.iter().filter(|(name, _)| self.stays(name)) {
            document["functions"][name] = function.spec.clone();
        }
        if self.tap {
            document["ports"]["tap"] = tap();
        }
    }

    /// What is there now, as far as it is to be compared.
    fn found(socket: &mut Socket) -> Wanted {
        let mut found = Wanted::default();
        let listing = socket.get("/v1/functions?limit=1000");
        for object in listing["items"].as_array().expect("a list") {
            let name = object["name"].as_str().expect("a name").to_owned();
            let state = &object["status"]["state"];
            // Whatever is wanted runs; one that was paused for long is frozen.
            let paused = match state.as_str() {
                Some("running") => false,
                Some("paused" | "frozen") => true,
                other => panic!("{name} is {other:?}: {object}"),
            };
            let spec = match name == images::FUNCTION {
                true => images::shown(object["status"]["image"].as_str().expect("a digest")),
                false => object["spec"].clone(),
            };
            found.functions.insert(name, Function { spec, paused });
        }
        found.objects = wiring::found(socket);
        for snapshot in socket.get("/v1/snapshots")["items"].as_array().expect("a list") {
            let name = snapshot["name"].as_str().expect("a name").to_owned();
            found.snapshots.insert(name, snapshot["spec"]["config"].clone());
        }
        found.tap = names(&socket.get("/v1/ports")).iter().any(|name| name == "tap");
        found
    }
}

impl Model {
    pub fn new(folder: &Path) -> Model {
        Model { folder: folder.to_owned(), wanted: Wanted::default(), asked: None }
    }

    /// What stays: a source, a firewall, a sink, a switch, and functions for chains and wires.
    pub fn begin(&mut self, socket: &mut Socket) {
        let mut put = |path: &str, spec: &Value| {
            socket.done("PUT", &format!("/v1/{path}?wait=true"), Some(&json!({ "spec": spec })));
        };
        for (path, spec) in base() {
            put(path, &spec);
        }
        let firewall = json!({
            "image": "firewall", "config": filter(0), "max_call": "10s",
            "attach": {"inside": "source", "outside": "out"},
        });
        put("functions/fw", &firewall);
        self.wanted.functions.insert("fw".to_owned(), Function { spec: firewall, paused: false });
        for name in wiring::FUNCTIONS {
            let spec = wiring::function(name);
            put(&format!("functions/{name}"), &spec);
            self.wanted.functions.insert(name.to_owned(), Function { spec, paused: false });
        }
        // Compiled, so that what is killed later is not the compiler.
        put("functions/f0", &forwarder(0));
        self.wanted.functions.insert("f0".to_owned(), Function { spec: forwarder(0), paused: false });
    }

    pub fn has_tap(&self) -> bool {
        self.wanted.tap
    }

    /// Does a step; whether the daemon is still there.
    pub fn take(&mut self, step: &Step, socket: &mut Socket) -> bool {
        let (method, path, body) = step.request(&self.wanted);
        if let Step::Image(number) = step {
            images::write(&self.folder, *number);
        }
        let after = self.wanted.after(step);
        self.asked = Some((step.clone(), after));
        let Some((status, answer)) = socket.ask(method, &path, body.as_ref()) else { return false };
        match (status, step) {
            (200..=204, _) => self.wanted = self.asked.take().map(|(_, after)| after).unwrap_or_default(),
            // Deleted twice.
            (404, Step::Delete(_) | Step::Forget(_) | Step::Tap(false) | Step::Put(_, None)) => {
                self.asked = None
            }
            _ => panic!("{step:?}: {status} {answer}"),
        }
        true
    }

    /// Compares what is there with what was acknowledged. What was not answered has been done or has not;
    /// which, if there was such a step.
    pub fn check(&mut self, socket: &mut Socket) -> Option<(Step, bool)> {
        let found = Wanted::found(socket);
        let asked = self.asked.take();
        if let Some((step, after)) = asked
            && after != self.wanted
        {
            let done = found == after;
            assert!(done || found == self.wanted, "after {step:?}: {found:#?}\nand not {:#?}", self.wanted);
            self.wanted = found;
            return Some((step, done));
        }
        assert_eq!(found, self.wanted);
        None
    }
}
