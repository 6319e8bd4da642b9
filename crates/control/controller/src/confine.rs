//! What of a function is the host's: a tenant that asks with a token leaves it as an administrator has
//! written it.
//!
//! - `image`: a stock image, or one in a registry that `--tenant-registry` names. A file of the host is none,
//!   and no registry is asked that the administrator has not named.
//! - Files that a function's `config` names.
//! - All of a container but its wires, where its tenant may not have containers (`guests: [container]`);
//!   where it may, an image that is a folder of the host, interfaces that are
//!   [privileged](PRIVILEGED_INTERFACES), and [`HOSTS_OF_CONTAINERS`]. All of a program but its wires.
//! - [`HOSTS`]: what takes the time of a worker from others.

use super::controller::Controller;
use api::{DEFAULT_TENANT, Fault, GuestKind};
use config::Catalog as _;
use deployment::Named;
use schema::{Kind, Schema};
use serde_json::Value;
use yaml_document::spelling;

/// Places of a spec, as a pointer and as people read it.
const HOSTS: [(&str, &str); 7] = [
    ("/cpu/reserve", "cpu.reserve"),
    ("/events", "events"),
    ("/max_call", "max_call"),
    ("/pauses", "pauses"),
    ("/pool/pages", "pool.pages"),
    ("/restart", "restart"),
    ("/worker", "worker"),
];

/// The same of containers: files of the host, and what takes the processors from others.
const HOSTS_OF_CONTAINERS: [(&str, &str); 4] =
    [("/cpu", "cpu"), ("/mounts", "mounts"), ("/restart", "restart"), ("/worker", "worker")];

/// What an interface is not (`as`) that a tenant asks for: kinds whose ports take rights that others do not.
const PRIVILEGED_INTERFACES: [&str; 1] = ["af_xdp"];

/// What a tenant that may not have containers may not change of one, which is all but its wires.
fn all_of_container(spec: &Value, now: Option<&Value>) -> Vec<Fault> {
    let bare = |spec: &Value| {
        let mut spec = spec.clone();
        spec.as_object_mut().and_then(|keys| keys.shift_remove("attach"));
        spec
    };
    if now.is_some_and(|now| bare(now) == bare(spec)) {
        return Vec::new();
    }
    let allowed = if now.is_some() { "another `attach`, and all else as it is" } else { "`guest: wasm`" };
    let is_program = |spec: &Value| api::guest_of(spec) == GuestKind::Program;
    let kind = if is_program(spec) || now.is_some_and(is_program) { "programs" } else { "containers" };
    vec![Fault::new(
        "guest",
        format!("this tenant's {kind} are an administrator's to make and change; allowed: {allowed}"),
    )]
}

/// Interfaces that only an administrator makes or changes.
fn privileged_interfaces(spec: &Value, now: Option<&Value>) -> Vec<Fault> {
    let interfaces = |spec: &Value| spec.get("interfaces").and_then(Value::as_object).cloned();
    let there = now.and_then(interfaces).unwrap_or_default();
    let kind = |interface: &Value| interface.get("as").and_then(Value::as_str).map(str::to_owned);
    let privileged =
        |interface: &Value| kind(interface).filter(|it| PRIVILEGED_INTERFACES.contains(&it.as_str()));
    let mut faults = Vec::new();
    for (name, interface) in interfaces(spec).unwrap_or_default() {
        let now = there.get(&name);
        let Some(kind) = privileged(&interface).or_else(|| now.and_then(privileged)) else { continue };
        if now != Some(&interface) {
            let allowed = if now.is_some() { "it as it is" } else { "another kind" };
            faults.push(Fault::new(
                format!("interfaces.{name}.as"),
                format!("interfaces that are `{kind}` are an administrator's to make; allowed: {allowed}"),
            ));
        }
    }
    faults
}

impl Controller {
    /// All of a spec that is not a tenant's to ask for, unless it is so now.
    pub(super) fn confined(&self, spec: &Value, now: Option<&Value>) -> Vec<Fault> {
        let mut faults = Vec::new();
        let is_container = |spec: &Value| api::guest_of(spec).is_launched();
        let contained = is_container(spec);
        if contained || now.is_some_and(is_container) {
            let owner = |spec: &Value| self.may_have_containers(spec);
            if !owner(spec) || !now.is_none_or(owner) {
                return all_of_container(spec, now);
            }
        }
        // What the same keys say of another kind of guest is no reason to have them.
        let now = now.filter(|now| is_container(now) == contained);
        let hosts = if contained { HOSTS_OF_CONTAINERS.as_slice() } else { HOSTS.as_slice() };
        for (pointer, place) in hosts {
            let there = now.and_then(|now| now.pointer(pointer));
            if spec.pointer(pointer) != there {
                let allowed = match there {
                    Some(there) => format!("`{}`, as it is", spelling::shown(&there.to_string())),
                    None => "nothing, as it is".to_owned(),
                };
                let message = format!("this is an administrator's to set; allowed: {allowed}");
                faults.push(Fault::new(*place, message));
            }
        }
        if contained {
            faults.extend(privileged_interfaces(spec, now));
        }
        let Some(image) = spec.get("image").and_then(Value::as_str) else { return faults };
        let same_image = now.filter(|now| now.get("image").and_then(Value::as_str) == Some(image));
        let refused = || if contained { self.refused_layout(image) } else { self.refused_image(image) };
        if same_image.is_none()
            && let Some(message) = refused()
        {
            faults.push(Fault::new("image", message));
            return faults;
        }
        if contained {
            return faults;
        }
        // What has to be fetched first is looked at again when it is here.
        let is_here = match Named::read(image) {
            Ok(Named::Stock(_)) => true,
            // What the tenant has no right to is not read, and its schema not told.
            Ok(named) => {
                let tenant = spec.get("tenant").and_then(Value::as_str).unwrap_or(DEFAULT_TENANT);
                named
                    .digest()
                    .is_some_and(|digest| same_image.is_some() || self.held(Some(tenant)).has(digest))
            }
            Err(_) => false,
        };
        if let (true, Some(config)) = (is_here, spec.get("config"))
            && let Ok(manifest) = self.catalog.image(image)
        {
            let known: Vec<&Value> = same_image.and_then(|now| now.get("config")).into_iter().collect();
            files(&manifest.schema, config, &known, "config", &mut faults);
        }
        faults
    }

    /// Whether the tenant of a function may make it by its token, if that is a container.
    fn may_have_containers(&self, spec: &Value) -> bool {
        if api::guest_of(spec) == GuestKind::Program {
            return false;
        }
        let tenant = spec.get("tenant").and_then(Value::as_str).unwrap_or(DEFAULT_TENANT);
        let guests = self.desired().spec(api::Kind::Tenant, tenant);
        let guests = guests.as_ref().and_then(|tenant| tenant.get("guests")?.as_array());
        guests.is_some_and(|guests| guests.iter().any(|guest| guest == "container"))
    }

    /// Why a tenant may not have an image of a container.
    fn refused_layout(&self, image: &str) -> Option<String> {
        let allowed = || match self.tenant_registries.as_slice() {
            [] => "none; no registry is tenants' (`superfluid daemon --tenant-registry`)".to_owned(),
            hosts => {
                format!("an image of a registry: {}", spelling::listed(hosts.iter().map(String::as_str)))
            }
        };
        match Named::of_container(image) {
            // What is wrong with it is told when the change is checked.
            Err(_) => None,
            Ok(Named::Artifact(reference)) => {
                let host = reference.host();
                let known = self.tenant_registries.iter().any(|known| known == host);
                (!known).then(|| {
                    format!("found the registry `{}`; allowed: {}", spelling::shown(host), allowed())
                })
            }
            Ok(_) => Some(format!("found a folder of the host; allowed: {}", allowed())),
        }
    }

    /// Why a tenant may not have an image.
    fn refused_image(&self, image: &str) -> Option<String> {
        let allowed = || match self.tenant_registries.as_slice() {
            [] => "an image of this program".to_owned(),
            hosts => format!(
                "an image of this program, or of a registry: {}",
                spelling::listed(hosts.iter().map(String::as_str))
            ),
        };
        match Named::read(image) {
            // What is wrong with it is told when the change is checked.
            Ok(Named::Stock(_)) | Err(_) => None,
            Ok(Named::File { .. }) => Some(format!("found a file of the host; allowed: {}", allowed())),
            Ok(Named::Artifact(reference)) => {
                let host = reference.host();
                let known = self.tenant_registries.iter().any(|known| known == host);
                (!known).then(|| {
                    format!("found the registry `{}`; allowed: {}", spelling::shown(host), allowed())
                })
            }
        }
    }
}

/// Files that a configuration names, but for those that one of `known` names at the same place.
fn files(schema: &Schema, config: &Value, known: &[&Value], at: &str, faults: &mut Vec<Fault>) {
    for key in schema.keys() {
        if let Some(value) = config.get(&key.name) {
            let known: Vec<&Value> = known.iter().filter_map(|known| known.get(&key.name)).collect();
            file(&key.kind, value, &known, &format!("{at}.{}", key.name), faults);
        }
    }
}

fn file(kind: &Kind, value: &Value, known: &[&Value], at: &str, faults: &mut Vec<Fault>) {
    match kind {
        Kind::File { .. } if !known.contains(&value) => {
            faults.push(Fault::new(at, "this names a file of the host, which is an administrator's to name"));
        }
        Kind::List { items, .. } => {
            for (n, value) in value.as_array().into_iter().flatten().enumerate() {
                let known: Vec<&Value> = known.iter().filter_map(|known| known.get(n)).collect();
                file(items, value, &known, &format!("{at}[{n}]"), faults);
            }
        }
        Kind::Map(schema) => files(schema, value, known, at, faults),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn files_are_found_wherever_they_stand_and_those_that_were_there_stay() {
        let schema = "
rules: {type: file, required: false}
name: {type: string, required: false}
lists:
  type: list
  default: []
  items: {type: map, keys: {from: {type: file, required: true}}}
";
        let schema = Schema::from_text("s", schema).expect("a schema");
        let told = |config: Value, known: &[&Value]| -> Vec<String> {
            let mut faults = Vec::new();
            files(&schema, &config, known, "config", &mut faults);
            faults.into_iter().map(|fault| fault.at).collect()
        };
        let config =
            json!({"rules": "/etc/passwd", "name": "/etc/passwd", "lists": [{"from": "a"}, {"from": "b"}]});
        assert_eq!(
            told(config.clone(), &[]),
            ["config.rules", "config.lists[0].from", "config.lists[1].from"]
        );
        assert!(told(config.clone(), &[&config]).is_empty());
        let other = json!({"name": "/etc/passwd", "lists": [{"from": "a"}, {"from": "c"}]});
        assert_eq!(told(config, &[&other]), ["config.rules", "config.lists[1].from"]);
        assert!(told(json!({"rules": null, "lists": "x"}), &[]).contains(&"config.rules".to_owned()));
        assert!(told(json!([1]), &[]).is_empty());
    }
}
