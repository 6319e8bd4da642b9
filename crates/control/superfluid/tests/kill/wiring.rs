//! Chains, wires, switches, devices, security groups and observers that come and go, one by one and in files.

use crate::model::Random;
use crate::support::http::Socket;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Section of the file and path, and name.
pub type Object = (&'static str, String);

/// Functions that only chains, wires and observers lead to: what one uses the other does not.
pub const FUNCTIONS: [&str; 5] = ["c0", "c1", "w0", "w1", EYE];
/// All wires that there may be.
const WIRES: [[&str; 2]; 3] = [["hall", "w0:left"], ["w0:right", "w1:left"], ["alley", "w1:right"]];
/// Forms of the chain.
const CHAINS: [&[&str]; 3] =
    [&["hall", "c0", "court"], &["hall", "c0", "c1", "court"], &["hall", "c1", "c0", "court"]];
/// Switches that stay.
const STAY: [&str; 3] = ["hall", "court", "alley"];
/// Switches beside them.
const SWITCHES: u64 = 2;

/// The function that observers are of.
pub const EYE: &str = "eye";
/// Where it observes, in turns.
const PLACES: [&[&str]; 3] = [&["fw"], &["source"], &["out", "fw"]];
/// Security groups.
const GROUPS: u64 = 2;

/// What such a function is.
pub fn function(name: &str) -> Value {
    let image = if name == EYE { "monitor" } else { "forwarder" };
    json!({"image": image, "max_call": "10s"})
}

/// One of them, as it is to be; `None`: it goes.
pub fn any(random: &mut Random) -> (Object, Option<Value>) {
    let (object, spec) = match random.below(6) {
        0 => {
            let form = CHAINS[random.below(CHAINS.len() as u64) as usize];
            (("chains", "line".to_owned()), json!(form))
        }
        1 => {
            let ends = WIRES[random.below(WIRES.len() as u64) as usize];
            (("wires", ends.join("~")), json!(ends))
        }
        2 => {
            let name = format!("pair{}", random.below(SWITCHES));
            let share = ["single", "duplicate", "balance"][random.below(3) as usize];
            (("devices", name), json!({"mode": "rootless", "share": share}))
        }
        3 => {
            let at = PLACES[random.below(PLACES.len() as u64) as usize];
            let sample = ["1/1", "1/10"][random.below(2) as usize];
            (("observers", EYE.to_owned()), json!({"at": at, "sample": sample}))
        }
        4 => {
            let name = format!("group{}", random.below(GROUPS));
            let port = (1 + random.below(8)).to_string();
            let rule = json!({"direction": "in", "protocol": "tcp", "ports": port, "from": "192.0.2.0/24"});
            (("groups", name), json!({"rules": [rule]}))
        }
        _ => {
            let name = format!("yard{}", random.below(SWITCHES));
            (("switches", name), json!({"entries": 8_u64 << random.below(6)}))
        }
    };
    let goes = random.below(3) == 0;
    (object, (!goes).then_some(spec))
}

/// Some of them, as a file has them.
pub fn several(random: &mut Random) -> BTreeMap<Object, Value> {
    let count = random.below(5);
    (0..count).map(|_| any(random)).filter_map(|(object, spec)| Some((object, spec?))).collect()
}

/// The file that has these.
pub fn document(objects: &BTreeMap<Object, Value>) -> Value {
    let mut document = json!({"superfluid": 1});
    for ((plural, name), spec) in objects {
        match *plural {
            "wires" => {
                let wires = document["wires"].as_array().cloned().unwrap_or_default();
                document["wires"] = wires.into_iter().chain([spec.clone()]).collect();
            }
            _ => document[*plural][name] = spec.clone(),
        }
    }
    document
}

/// Those that are there.
pub fn found(socket: &mut Socket) -> BTreeMap<Object, Value> {
    let mut found = BTreeMap::new();
    for plural in ["chains", "wires", "switches", "devices", "observers", "groups"] {
        let listing = socket.get(&format!("/v1/{plural}?limit=1000"));
        for object in listing["items"].as_array().expect("a list") {
            let name = object["name"].as_str().expect("a name").to_owned();
            if !STAY.contains(&name.as_str()) {
                found.insert((plural, name), object["spec"].clone());
            }
        }
    }
    found
}
