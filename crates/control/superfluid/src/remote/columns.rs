//! What is told of each kind in a table.

use super::numbers::{bytes, percent};
use crate::output::Listing;
use api::{
    DEFAULT_TENANT, DeviceStatus, FunctionStatus, Image, Kind, Object, Operation, OperationState,
    RegistryLogin, Snapshot, Token,
};
use client::harmless;
use serde_json::{Value, json};

/// Longest cell, in characters.
const CELL: usize = 100;

/// Text from outside, for a cell.
pub(crate) fn cell(text: &str) -> String {
    harmless(text, CELL)
}

/// A value for a cell: text as it is, everything else as JSON.
fn value_cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => cell(text),
        other => cell(&other.to_string()),
    }
}

fn key(object: &Object, key: &str) -> String {
    value_cell(object.spec.get(key).unwrap_or(&Value::Null))
}

/// A function's image, with so much of the digest that it is pinned to as tells it from others.
fn image(object: &Object) -> String {
    let shown = key(object, "image");
    let Some(text) = object.spec.get("image").and_then(Value::as_str) else { return shown };
    match text.split_once("@sha256:") {
        Some((name, digest)) => {
            let digest: String = digest.chars().take(12).collect();
            cell(&format!("{name}@{digest}"))
        }
        None => shown,
    }
}

/// The spec without these keys, as JSON.
fn rest(object: &Object, without: &[&str]) -> String {
    match &object.spec {
        Value::Object(entries) => {
            let others = entries.iter().filter(|(key, _)| !without.contains(&key.as_str()));
            let others: Vec<_> = others.map(|(key, value)| format!("{key}: {}", value_cell(value))).collect();
            if others.is_empty() { "-".to_owned() } else { cell(&others.join(", ")) }
        }
        other => value_cell(other),
    }
}

/// The ends of a row of ends: `lan - fw - wan`.
fn ends(spec: &Value) -> String {
    match spec.as_array() {
        Some(ends) => cell(&ends.iter().map(value_cell).collect::<Vec<_>>().join(" - ")),
        None => value_cell(spec),
    }
}

fn tenant(object: &Object) -> String {
    object.spec.get("tenant").and_then(Value::as_str).map_or(DEFAULT_TENANT.to_owned(), cell)
}

/// How a function is, if the daemon says so as this version knows it.
pub(crate) fn function_status(object: &Object) -> Option<FunctionStatus> {
    serde_json::from_value(object.status.clone()?).ok()
}

/// The `state` of a status, of any kind of object, with the `reason` where there is one.
fn state_of(object: &Object) -> String {
    let of_status = |key: &str| object.status.as_ref().and_then(|status| status.get(key));
    let state = value_cell(of_status("state").unwrap_or(&Value::Null));
    match of_status("reason").and_then(Value::as_str) {
        Some(reason) => cell(&format!("{state}: {reason}")),
        None => state,
    }
}

/// A list of objects of one kind.
pub(crate) fn objects(kind: Kind, objects: &[Object]) -> Listing {
    let (columns, wide): (&[&str], &[&str]) = match kind {
        Kind::Function => (
            &["NAME", "STATE", "IMAGE", "TENANT", "WORKER", "PACKETS", "DROPPED", "CPU"],
            &["BYTES", "QUEUE", "PROMISED", "MEMORY", "FAULTS", "RESTARTS", "DIGEST", "VERSION"],
        ),
        Kind::Port => (
            &["NAME", "TYPE", "STATE", "RECEIVED", "DELIVERED", "DROPPED", "TENANT", "SETTINGS"],
            &["RECEIVED_BYTES", "DELIVERED_BYTES", "VERSION"],
        ),
        Kind::Device => (
            &["NAME", "STATE", "MODE", "OVER", "OPENERS", "TENANT", "PACKETS", "DROPPED"],
            &["ADDRESSES", "NEIGHBOURS", "COPIED", "WARNINGS", "SETTINGS", "VERSION"],
        ),
        Kind::Group => (&["NAME", "RULES", "TENANT"], &["STATUS", "VERSION"]),
        Kind::Tenant | Kind::Switch | Kind::Workers => (&["NAME", "SETTINGS"], &["STATUS", "VERSION"]),
        Kind::Chain => (&["NAME", "WAY"], &["STATUS", "VERSION"]),
        Kind::Wire => (&["NAME", "ENDS"], &["STATUS", "VERSION"]),
        Kind::Observer => (&["NAME", "AT"], &["SETTINGS", "STATUS", "VERSION"]),
        Kind::Service => (&["NUMBER", "TO", "FOR"], &["STATUS", "VERSION"]),
    };
    let mut listing = Listing::new(columns, wide);
    for object in objects {
        let mut cells = vec![cell(&object.name)];
        match kind {
            Kind::Function => cells.extend(function(object)),
            Kind::Port => {
                cells.extend([key(object, "type"), state_of(object)]);
                let [received, delivered, dropped, bytes @ ..] = port_counts(object);
                cells.extend([received, delivered, dropped]);
                cells.extend([tenant(object), rest(object, &["type", "tenant"])]);
                cells.extend(bytes);
            }
            Kind::Device => cells.extend(device(object)),
            Kind::Group => {
                let rules = object.spec.get("rules").and_then(Value::as_array).map_or(0, Vec::len);
                cells.extend([rules.to_string(), tenant(object)]);
            }
            Kind::Tenant | Kind::Switch | Kind::Workers => cells.push(rest(object, &[])),
            Kind::Chain | Kind::Wire => cells.push(ends(&object.spec)),
            Kind::Observer => {
                cells.push(ends(object.spec.get("at").unwrap_or(&object.spec)));
                cells.push(rest(object, &["at"]));
            }
            Kind::Service => {
                cells.push(value_cell(object.spec.get("to").unwrap_or(&object.spec)));
                let granted =
                    object.spec.get("for").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let granted: Vec<String> = granted.iter().map(value_cell).collect();
                cells.push(if granted.is_empty() { "-".to_owned() } else { granted.join(",") });
            }
        }
        if !matches!(kind, Kind::Function | Kind::Device | Kind::Port) {
            cells.push(value_cell(object.status.as_ref().unwrap_or(&Value::Null)));
        }
        cells.push(object.version.to_string());
        listing.add(cells, json!(object));
    }
    listing
}

/// Packets that a port received, delivered and dropped, bytes received and delivered.
fn port_counts(object: &Object) -> [String; 5] {
    let status = object.status.as_ref().unwrap_or(&Value::Null);
    let packets = &status["packets"];
    let dropped = packets["dropped"].as_object().map(|reasons| {
        let counts = reasons.values().filter_map(Value::as_u64);
        json!(counts.fold(0u64, |sum, count| sum.saturating_add(count)))
    });
    let dropped = dropped.unwrap_or_default();
    let [received, delivered] = [&packets["received"], &packets["delivered"]];
    [received, delivered, &dropped, &status["received_bytes"], &status["delivered_bytes"]].map(value_cell)
}

/// All of a function but its name and its version.
fn function(object: &Object) -> Vec<String> {
    let none = || "-".to_owned();
    let image = image(object);
    let Some(status) = function_status(object) else {
        let mut cells = vec!["unknown".to_owned(), image, tenant(object)];
        cells.resize(14, none());
        return cells;
    };
    let digest = status.image.strip_prefix("sha256:").unwrap_or(&status.image);
    vec![
        status.state.as_str().to_owned(),
        image,
        tenant(object),
        status.worker.map_or_else(none, |worker| worker.to_string()),
        status.packets.to_string(),
        dropped(&status).to_string(),
        percent(status.got_share),
        status.bytes.to_string(),
        status.queue.to_string(),
        percent(status.promised_share),
        bytes(memory(&status) as f64),
        status.faults.to_string(),
        status.restarts.to_string(),
        harmless(digest, 12).trim_end_matches("...").to_owned(),
    ]
}

/// How a device is, if the daemon says so as this version knows it.
pub(crate) fn device_status(object: &Object) -> Option<DeviceStatus> {
    serde_json::from_value(object.status.clone()?).ok()
}

/// All of a device but its name and its version.
fn device(object: &Object) -> Vec<String> {
    let none = || "-".to_owned();
    let ports: Vec<String> = match object.spec.get("over") {
        Some(Value::Object(ports)) => ports.keys().map(|name| cell(name)).collect(),
        Some(Value::Array(ports)) => ports.iter().map(value_cell).collect(),
        _ => Vec::new(),
    };
    let over = match ports.len() {
        0 => none(),
        1..=3 => ports.join(","),
        count => format!("{},... ({count})", ports[0]),
    };
    let mut cells = vec![state_of(object), key(object, "mode"), over];
    let settings = rest(object, &["mode", "over", "tenant"]);
    let Some(status) = device_status(object) else {
        cells.extend([none(), tenant(object)]);
        cells.resize(11, none());
        cells.push(settings);
        return cells;
    };
    let came = status.ports.iter().map(|port| port.received);
    let came = came.chain(status.openers.iter().map(|opener| opener.sent)).flatten();
    let packets = came.fold(0u64, |sum, traffic| sum.saturating_add(traffic.packets));
    let dropped = status.drops.values().fold(0u64, |sum, count| sum.saturating_add(*count));
    let addresses: Vec<String> = status.addresses.iter().map(|own| cell(&own.address)).collect();
    cells.extend([
        (status.openers.len() as u64).saturating_add(status.other_openers).to_string(),
        tenant(object),
        packets.to_string(),
        dropped.to_string(),
        if addresses.is_empty() { none() } else { cell(&addresses.join(",")) },
        status.neighbours.to_string(),
        status.copied.to_string(),
        status.warnings.len().to_string(),
        settings,
    ]);
    cells
}

/// All packets that a function lost or dropped. Those that it dropped for reasons of its own,
/// `function:NAME`, are parts of what it dropped, `function`.
pub(crate) fn dropped(status: &FunctionStatus) -> u64 {
    let reasons = status.drops.iter().filter(|(reason, _)| !reason.starts_with("function:"));
    reasons.fold(0, |sum, (_, count)| sum.saturating_add(*count))
}

/// All memory that a function takes.
pub(crate) fn memory(status: &FunctionStatus) -> u64 {
    let memory = &status.memory;
    memory.private.saturating_add(memory.page_tables).saturating_add(memory.runtime)
}

/// Objects of several kinds.
pub(crate) fn mixed(objects: &[Object]) -> Listing {
    let mut listing = Listing::new(&["OBJECT", "STATE"], &["SPEC", "VERSION"]);
    for object in objects {
        let cells = vec![
            cell(&object.id().to_string()),
            state_of(object),
            value_cell(&object.spec),
            object.version.to_string(),
        ];
        listing.add(cells, json!(object));
    }
    listing
}

/// Images on the host.
pub(crate) fn images(images: &[Image]) -> Listing {
    let mut listing = Listing::new(
        &["REFERENCE", "VERSION", "SIZE", "COMPILED", "FUNCTIONS"],
        &["DIGEST", "PINNED", "SUMMARY"],
    );
    for image in images {
        let text = |text: &Option<String>| text.as_deref().map_or("-".to_owned(), cell);
        let compiled = if image.compiled { "yes" } else { "no" };
        let cells = vec![
            cell(&image.reference),
            text(&image.version),
            bytes(image.bytes as f64),
            compiled.to_owned(),
            image.functions.to_string(),
            cell(&image.digest),
            image.pinned.as_deref().map_or("-".to_owned(), |pinned| harmless(pinned, 700)),
            text(&image.summary),
        ];
        listing.add(cells, json!(image));
    }
    listing
}

/// Saved functions.
pub(crate) fn snapshots(snapshots: &[Snapshot]) -> Listing {
    let mut listing = Listing::new(&["NAME", "FUNCTION", "TENANT", "SIZE", "SAVED"], &["IMAGE", "DIGEST"]);
    for snapshot in snapshots {
        let cells = vec![
            cell(&snapshot.name),
            cell(&snapshot.function),
            snapshot.tenant.as_deref().map_or_else(|| "(imported)".to_owned(), cell),
            bytes(snapshot.bytes as f64),
            cell(&snapshot.saved),
            value_cell(snapshot.spec.get("image").unwrap_or(&Value::Null)),
            cell(&snapshot.image),
        ];
        listing.add(cells, json!(snapshot));
    }
    listing
}

/// Logins at registries.
pub(crate) fn registry_logins(logins: &[RegistryLogin]) -> Listing {
    let mut listing = Listing::new(&["REGISTRY", "USERNAME", "TENANT"], &["SET"]);
    for login in logins {
        let cells = [&login.registry, &login.username, &login.tenant, &login.set];
        listing.add(cells.map(|text| cell(text)).to_vec(), json!(login));
    }
    listing
}

/// Tokens, of tenants and of the host.
pub(crate) fn tokens(tokens: &[Token]) -> Listing {
    let mut listing = Listing::new(&["NAME", "TENANT", "RIGHTS", "EXPIRES"], &["CREATED"]);
    for token in tokens {
        let cells = vec![
            cell(&token.name),
            token.tenant.as_deref().map_or("(host)".to_owned(), cell),
            if token.read_only { "read" } else { "change" }.to_owned(),
            token.expires.as_deref().map_or("never".to_owned(), cell),
            cell(&token.created),
        ];
        listing.add(cells, json!(token));
    }
    listing
}

/// Work that takes long.
pub(crate) fn operations(operations: &[Operation]) -> Listing {
    let mut listing = Listing::new(&["ID", "STATE", "WHAT", "ASKED"], &["ENDED", "PROBLEM"]);
    for operation in operations {
        let state = match operation.state {
            OperationState::Waiting => "waiting",
            OperationState::Running => "running",
            OperationState::Done => "done",
            OperationState::Failed => "failed",
        };
        let cells = vec![
            cell(&operation.id),
            state.to_owned(),
            cell(&operation.what),
            cell(&operation.asked),
            operation.ended.as_deref().map_or("-".to_owned(), cell),
            operation.problem.as_ref().map_or("-".to_owned(), |problem| cell(&problem.detail)),
        ];
        listing.add(cells, json!(operation));
    }
    listing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Format;

    #[test]
    fn packets_that_a_function_drops_for_its_own_reasons_are_counted_once() {
        let drops = [("function", 20), ("function:too-long", 15), ("function:denied", 5), ("queue-full", 3)];
        let drops = drops.map(|(reason, count)| (reason.to_owned(), count)).into();
        assert_eq!(dropped(&FunctionStatus { drops, ..FunctionStatus::down(String::new()) }), 23);
    }

    #[test]
    fn every_kind_has_as_many_cells_as_columns() {
        let status = json!({
            "state": "running", "worker": 1, "image": format!("sha256:{}", "ab".repeat(32)), "packets": 5, "bytes": 300,
            "calls": 1, "cycles": 9, "promised_share": 0.5, "got_share": 0.25, "queue": 2, "drops": {"a": 1, "b": 2},
            "memory": {"private": 65536, "page_tables": 0, "runtime": 0, "disk": 0}, "faults": 0, "restarts": 0
        });
        for kind in Kind::ALL {
            for status in [None, Some(status.clone())] {
                let object = Object {
                    kind,
                    name: "x\u{1b}\u{202e}\u{2028}\u{200b}\u{feff}".to_owned(),
                    version: 3,
                    spec: json!({"image": "firewall", "type": "null"}),
                    status,
                };
                let listing = objects(kind, &[object]);
                let shown = listing.shown(Format::Wide);
                let [head, row] = shown.lines().collect::<Vec<_>>().try_into().expect("two lines");
                assert!(head.ends_with("VERSION") && row.ends_with(" 3"), "{shown}");
                // The last cell stands below its head.
                assert_eq!(head.find("VERSION"), row.rfind("3"), "{shown}");
                assert!(
                    shown.contains("\\u{202e}") && shown.is_ascii() && !shown.contains('\u{1b}'),
                    "{shown}"
                );
            }
        }
    }

    #[test]
    fn a_port_that_is_down_is_told_with_its_reason_in_words() {
        let object = Object {
            kind: Kind::Port,
            name: "lan".to_owned(),
            version: 3,
            spec: json!({"type": "af_packet"}),
            status: Some(json!({"state": "down", "reason": "interface `eth9` is not there; waiting for it"})),
        };
        let shown = objects(Kind::Port, std::slice::from_ref(&object)).shown(Format::Table);
        assert!(shown.contains(" down: interface `eth9` is not there; waiting for it  -"), "{shown}");
    }

    #[test]
    fn a_port_is_told_with_what_passed_and_what_was_lost() {
        let object = Object {
            kind: Kind::Port,
            name: "lan".to_owned(),
            version: 3,
            spec: json!({"type": "af_packet", "interface": "eth1"}),
            status: Some(json!({
                "state": "up", "packets": {"received": 15, "delivered": 11, "dropped": {"port-down": 4, "no-buffer": 3}},
                "received_bytes": 900, "delivered_bytes": 660
            })),
        };
        let shown = objects(Kind::Port, std::slice::from_ref(&object)).shown(Format::Wide);
        let row = shown.lines().nth(1).expect("a row");
        let cells: Vec<_> = row.split_whitespace().collect();
        assert_eq!(cells[..7], ["lan", "af_packet", "up", "15", "11", "7", "default"], "{shown}");
        assert_eq!(cells[7..], ["interface:", "eth1", "900", "660", "3"], "{shown}");
    }

    #[test]
    fn functions_with_long_names_fit_80_columns() {
        let object = |number: u64| Object {
            kind: Kind::Function,
            name: format!("firewall-of-a-customer-in-rack-{number}"),
            version: 3,
            spec: json!({"image": "security-groups"}),
            status: Some(json!({
                "state": "running", "worker": 11, "image": "sha256:ab", "packets": 123_456_789_012_u64, "bytes": 300,
                "calls": 1, "cycles": 9, "promised_share": 0.5, "got_share": 0.25, "queue": 2, "drops": {"a": 123_456},
                "memory": {"private": 65536, "page_tables": 0, "runtime": 0, "disk": 0}, "faults": 0, "restarts": 0
            })),
        };
        let listing = objects(Kind::Function, &[object(1), object(2)]);
        let shown = listing.fitting(Format::Table, 80);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines.len() == 4 && lines.iter().all(|line| line.chars().count() <= 80), "{shown}");
        assert!(lines[1].contains('~') && lines[1].contains("  123456789012  123456   25.0%"), "{shown}");
        assert!(lines[1] != lines[2], "they are told apart: {shown}");
    }

    #[test]
    fn functions_are_told_with_what_matters() {
        let object = Object {
            kind: Kind::Function,
            name: "fw".to_owned(),
            version: 3,
            spec: json!({"image": "firewall"}),
            status: Some(json!({"state": "of another version"})),
        };
        let shown = objects(Kind::Function, std::slice::from_ref(&object)).shown(Format::Table);
        assert!(
            shown.lines().nth(1).expect("a row").starts_with("fw    unknown  firewall  default"),
            "{shown}"
        );
        let pinned = json!({"image": format!("r.example/nf/fw:1.2@sha256:{}", "ab".repeat(32))});
        let shown = objects(Kind::Function, &[Object { spec: pinned, ..object }]).shown(Format::Table);
        assert!(shown.contains(" r.example/nf/fw:1.2@abababababab  "), "{shown}");
    }
}
