//! The outer form of a spec, by kind: what the description of the interface says of it, and what is checked
//! here. All that is within is for the host to check, which knows images and drivers.

use crate::document::found;
use api::{Kind, check_name, wire_name};
use serde_json::{Value, json};

/// An end of a wire: a name, and perhaps an interface.
const END: &str = "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?$";

/// The form as a JSON schema.
pub(crate) fn schema(kind: Kind) -> Value {
    let map = |of: &str| json!({"type": "object", "description": of});
    match kind {
        Kind::Workers => json!({
            "description": "How many workers there are, or a map with `count`, `processors`, `slice` and more.",
            "anyOf": [{"type": "integer", "minimum": 1, "maximum": 256}, {"type": "object"}],
        }),
        Kind::Tenant => map("`pool`, `cpu`."),
        Kind::Port => json!({
            "type": "object",
            "description": "`type`, which is the driver, and the driver's own keys.",
            "required": ["type"],
            "properties": {"type": {"type": "string", "minLength": 1}},
        }),
        Kind::Switch => map("`age`, `entries`."),
        Kind::Group => json!({
            "type": "object",
            "description": "`rules`, what it allows, and `tenant`, whose it is.",
            "properties": {"rules": {"type": "array", "maxItems": 4096, "items": {"type": "object"}}},
        }),
        Kind::Device => json!({
            "type": "object",
            "description": "`mode`, `over`, the ports that it is over, `share`, `open_to` and more.",
            "required": ["mode"],
            "properties": {"mode": {"type": "string", "enum": ["direct", "bond", "bridge", "rootless"]}},
        }),
        Kind::Function => json!({
            "type": "object",
            "description": "`image`, the image's own `config`, and how the function is run; or `guest`, what else it is, and what that takes.",
            "anyOf": [{"required": ["image"]}, {"required": ["guest"]}],
            "properties": {"image": {"type": "string", "minLength": 1}, "guest": {"type": "string", "minLength": 1}},
        }),
        Kind::Chain => json!({
            "type": "array",
            "description": "A port, switch or device, functions, a port, switch or device.",
            "items": {"type": "string"},
            "minItems": 2,
        }),
        Kind::Wire => json!({
            "type": "array",
            "description": "Its two ends: ports, switches, devices, or interfaces of functions such as `fw:0`; those of its name.",
            "items": {"type": "string", "pattern": END},
            "minItems": 2,
            "maxItems": 2,
        }),
        Kind::Observer => json!({
            "type": "object",
            "description": "`at`, a list of what it observes: functions, ports, devices, sides of devices, wires.",
            "required": ["at"],
            "properties": {
                "at": {
                    "type": "array", "minItems": 1, "maxItems": 4096,
                    "items": {"type": "string", "minLength": 1, "maxLength": 200},
                },
                "filter": {"type": "string", "minLength": 1, "maxLength": 4096},
                "sample": {"type": "string", "pattern": "^1/[1-9][0-9]*$"},
            },
        }),
        Kind::Service => json!({
            "description": "Where packets for it go, or a map with `to`, which says so, and `for`, other tenants whose functions may \
                            send there too.",
            "anyOf": [
                {"type": "string", "description": "A port, a switch, a device, or an interface of a function such as `fw:0`.", "minLength": 1},
                {
                    "type": "object",
                    "required": ["to"],
                    "properties": {
                        "to": {"type": "string", "minLength": 1, "maxLength": 200},
                        "for": {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1, "maxLength": 200}},
                    },
                    "additionalProperties": false,
                },
            ],
        }),
    }
}

/// Keys whose values are text, and what that says.
const TEXTS: &[(&str, Kind, &str)] = &[
    ("type", Kind::Port, "the driver"),
    ("mode", Kind::Device, "such as `direct`, `bond`, `bridge` or `rootless`"),
    ("image", Kind::Function, "a stock image's name, a path, or a reference to a registry"),
    ("guest", Kind::Function, "such as `container` or `program`"),
];

/// Checks the form.
///
/// # Errors
/// What was found, and what is allowed.
pub(crate) fn check(kind: Kind, name: &str, spec: &Value) -> Result<(), String> {
    if let Some((place, value)) = word_for_name(spec) {
        return Err(format!("found {} as `{place}`; allowed: a name, as text", found(value)));
    }
    let texts = |list: &Value| list.as_array().is_some_and(|list| list.iter().all(Value::is_string));
    let text = |key: &str| spec.get(key).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    let (fits, allowed) = match kind {
        Kind::Workers => (
            spec.is_object() || spec.as_u64().is_some_and(|count| (1..=256).contains(&count)),
            "the number of workers, 1 to 256, or a map",
        ),
        Kind::Tenant | Kind::Switch => (spec.is_object(), "a map"),
        Kind::Port => (text("type"), "a map with `type`, the driver"),
        Kind::Group => (spec.is_object(), "a map with `rules`, a list"),
        Kind::Device => (text("mode"), "a map with `mode`: direct, bond, bridge or rootless"),
        Kind::Function => (
            // What each guest needs is within.
            text("image") || text("guest"),
            "a map with `image`, a stock image's name or a path, or with `guest`, what else it is",
        ),
        Kind::Chain => (
            texts(spec) && spec.as_array().is_some_and(|list| list.len() >= 2),
            "a list of two or more names, such as `[lan, fw, wan]`",
        ),
        Kind::Wire => {
            let of = wire_of(spec)?;
            if of == name {
                return Ok(());
            }
            return Err(format!(
                "found the ends of the wire `{of}`; allowed: those of `{name}`, as in its name"
            ));
        }
        Kind::Observer => (spec.get("at").is_some_and(texts), "a map with `at`, a list of names"),
        Kind::Service => (
            spec.as_str().is_some_and(|end| !end.is_empty())
                || (text("to") && spec.get("for").is_none_or(texts)),
            "the name of a port, switch or device, or a function's with an interface, such as `fw:0`, or a map with `to` and `for`",
        ),
    };
    if fits {
        return Ok(());
    }
    // The key that the kind needs is there, and is no text.
    let no_text = TEXTS.iter().filter(|(_, of, _)| *of == kind).find_map(|(key, _, is)| {
        let value = spec.get(key).filter(|value| value.as_str().is_none_or(str::is_empty))?;
        Some(format!("found {} as `{key}`; allowed: text, {is}", found(value)))
    });
    Err(no_text.unwrap_or_else(|| format!("found {}; allowed: {allowed}", found(spec))))
}

/// A place for a name where `true` or `false` stands without quotation marks. The configuration reads the
/// name that it is as text, and what looks here for names, such as whose a port is, would not see it.
fn word_for_name(spec: &Value) -> Option<(String, &Value)> {
    let tenant = || Some(("tenant".to_owned(), spec.get("tenant").filter(|tenant| tenant.is_boolean())?));
    let over = || {
        let mut ports = spec.get("over")?.as_array()?.iter().enumerate();
        let (n, port) = ports.find(|(_, port)| port.is_boolean())?;
        Some((format!("over[{n}]"), port))
    };
    let attach = || {
        let ends = spec.get("attach")?.as_object()?.iter();
        let mut ends = ends.map(|(interface, end)| (interface, end.get("to").unwrap_or(end)));
        let (interface, end) = ends.find(|(_, end)| end.is_boolean())?;
        Some((format!("attach.{}", yaml_document::spelling::shown(interface)), end))
    };
    tenant().or_else(over).or_else(attach)
}

/// The name of a wire with this spec.
///
/// # Errors
/// What was found, and what is allowed.
pub(crate) fn wire_of(spec: &Value) -> Result<String, String> {
    let ends = match spec.as_array().map(Vec::as_slice) {
        Some([Value::String(a), Value::String(b)]) => Some((a, b)),
        _ => None,
    };
    let Some((a, b)) = ends else {
        return Err(format!("found {}; allowed: a list of two ends, such as `[lan, fw:0]`", found(spec)));
    };
    let name = wire_name(a, b).map_err(|error| error.to_string())?;
    check_name(Kind::Wire, &name).map_err(|error| error.to_string())?;
    Ok(name)
}
