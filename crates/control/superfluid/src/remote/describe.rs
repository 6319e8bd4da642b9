//! `superfluid describe`: all of one object.

use super::columns::cell;
use super::describe_device;
use super::failure::{Done, Failure, print};
use super::function_events;
use super::get::not_found;
use super::kinds::objects;
use super::options::DescribeOptions;
use crate::Outcome;
use crate::output::{Format, block, one};
use api::{DEFAULT_TENANT, Kind, LogLine, Object};
use client::{Client, harmless};
use serde_json::{Value, json};

/// Lines of a function's log that are shown.
const LOG_LINES: usize = 10;

pub(crate) fn describe(options: &DescribeOptions) -> Done {
    let objects = objects(&options.what).map_err(|wrong| Failure::new(wrong, Outcome::BadInput))?;
    let [(kind, name)] = objects.as_slice() else {
        let wrong = "several objects are named; allowed: one, as KIND NAME or KIND/NAME";
        return Err(Failure::new(wrong, Outcome::BadInput));
    };
    let client = options.connection.client()?;
    let object = client.object(*kind, name).map_err(|error| not_found(&client, *kind, name, error))?;
    let format = options.shown.output;
    if matches!(format, Format::Json | Format::Yaml) {
        return print(&one(&json!(object), format));
    }
    let mut text = format!("{}  version {}\n", cell(&object.id().to_string()), object.version);
    text.push_str(&part("spec", &object.spec));
    if object.kind == Kind::Device {
        text.push_str(&describe_device::parts(&client, &object, format)?);
    } else if let Some(status) = &object.status {
        text.push_str(&part("status", status));
    }
    text.push_str(&lines("named by", &named_by(&client, &object)?));
    if *kind == Kind::Function {
        let (faults, alerts) = function_events::last(&client, name)?;
        text.push_str(&lines("last faults", &faults));
        text.push_str(&lines("last alerts", &alerts));
        text.push_str(&lines("log", &said(&client, name)?));
    }
    print(&text)
}

/// A value under a head.
fn part(head: &str, value: &Value) -> String {
    // Quoted text cannot control a terminal: JSON writes control characters as escapes. What turns writing
    // round is left.
    let text = match value {
        Value::Object(entries) if !entries.is_empty() => block(entries, 1),
        other => format!("  {other}\n"),
    };
    let safe: Vec<_> = text.lines().map(|line| harmless(line, 4000)).collect();
    format!("{head}:\n{}\n", safe.join("\n"))
}

fn lines(head: &str, lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    format!("{head}:\n  {}\n", lines.join("\n  "))
}

/// The other objects in whose specs its name stands.
fn named_by(client: &Client, object: &Object) -> Result<Vec<String>, Failure> {
    let kinds: &[Kind] = match object.kind {
        Kind::Port => &[Kind::Chain, Kind::Wire, Kind::Observer, Kind::Service, Kind::Function, Kind::Device],
        Kind::Function | Kind::Switch | Kind::Device => {
            &[Kind::Chain, Kind::Wire, Kind::Observer, Kind::Service, Kind::Function]
        }
        Kind::Tenant => &[Kind::Port, Kind::Group, Kind::Device, Kind::Function],
        Kind::Group => &[Kind::Device],
        _ => &[],
    };
    let mut named = Vec::new();
    for kind in kinds {
        for other in client.all(*kind, None)? {
            let observes = *kind == Kind::Observer && other.name == object.name;
            if other.id() != object.id() && (observes || names(object, &other)) {
                named.push(format!("{}  {}", cell(&other.id().to_string()), cell(&brief(&other))));
            }
        }
    }
    Ok(named)
}

fn brief(object: &Object) -> String {
    match object.kind {
        Kind::Function | Kind::Port => {
            object.spec.get("attach").map_or_else(String::new, |attach| format!("attach {attach}"))
        }
        _ => object.spec.to_string(),
    }
}

fn names(object: &Object, other: &Object) -> bool {
    let named = |value: &Value| {
        api::attached_to(value).is_some_and(|text| text.split(':').next() == Some(object.name.as_str()))
    };
    let any = |value: Option<&Value>| match value {
        Some(Value::Array(items)) => items.iter().any(named),
        Some(Value::Object(entries)) => entries.values().any(named),
        Some(value) => named(value),
        None => false,
    };
    match (object.kind, other.kind) {
        (Kind::Tenant, _) => {
            let tenant = other.spec.get("tenant").and_then(Value::as_str).unwrap_or(DEFAULT_TENANT);
            tenant == object.name
        }
        (Kind::Group, _) => any(other.spec.get("groups")),
        (_, Kind::Device) => match other.spec.get("over") {
            Some(Value::Object(ports)) => ports.contains_key(&object.name),
            over => any(over),
        },
        (_, Kind::Observer) => {
            let items = other.spec.get("at").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            items.iter().filter_map(Value::as_str).flat_map(api::names_at).any(|name| name == object.name)
        }
        (_, Kind::Function) => any(other.spec.get("attach")),
        _ => any(Some(&other.spec)),
    }
}

/// The last lines of a function's log.
fn said(client: &Client, name: &str) -> Result<Vec<String>, Failure> {
    let mut all = client.logs(name, 0, Some(10_000), false)?.collect::<Result<Vec<LogLine>, _>>()?;
    let last = all.split_off(all.len().saturating_sub(LOG_LINES));
    Ok(last.iter().map(super::events::log_line).collect())
}
