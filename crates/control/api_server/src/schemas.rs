//! The schemas of the interface's description: those of the types of `api`, and what each kind says more.

use crate::spec;
use api::Kind;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

/// 1 to 65535.
const SERVICE: &str =
    "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])";
/// What has a name in the operator's file.
const PART: &str = "[A-Za-z][A-Za-z0-9_-]{0,31}";
/// An interface of a function.
const INTERFACE: &str = "(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?";

pub(crate) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// A kind as a type's name: `Function`.
pub(crate) fn type_of(kind: Kind) -> String {
    let name = kind.as_str();
    name[..1].to_ascii_uppercase() + &name[1..]
}

pub(crate) fn schemas() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut types = SchemaGenerator::new(settings);
    // Each is there with all that it is made of.
    types.subschema_for::<api::CheckReport>();
    types.subschema_for::<api::DeviceStatus>();
    types.subschema_for::<api::Difference>();
    types.subschema_for::<api::Event>();
    types.subschema_for::<api::PastEvents>();
    types.subschema_for::<api::FunctionEvent>();
    types.subschema_for::<api::FunctionReport>();
    types.subschema_for::<api::FunctionStatus>();
    types.subschema_for::<api::DeviceNeighbours>();
    types.subschema_for::<api::Graph>();
    types.subschema_for::<api::HistoryMoment>();
    types.subschema_for::<api::HistoryLine>();
    types.subschema_for::<api::Health>();
    types.subschema_for::<api::Image>();
    types.subschema_for::<api::LogLine>();
    types.subschema_for::<api::Operation>();
    types.subschema_for::<api::Problem>();
    types.subschema_for::<api::Adopt>();
    types.subschema_for::<api::Restore>();
    types.subschema_for::<api::RotatedKey>();
    types.subschema_for::<api::Save>();
    types.subschema_for::<api::Snapshot>();
    types.subschema_for::<api::Upgrade>();
    types.subschema_for::<api::Trace>();
    types.subschema_for::<api::TraceLine>();
    types.subschema_for::<api::Capture>();
    types.subschema_for::<api::Token>();
    types.subschema_for::<api::NewToken>();
    types.subschema_for::<api::IssuedToken>();
    types.subschema_for::<api::PageLink>();
    types.subschema_for::<api::RegistryLogin>();
    types.subschema_for::<api::NewRegistryLogin>();
    types.subschema_for::<api::Object>();
    types.subschema_for::<api::List>();
    types.subschema_for::<api::Desired>();
    let mut schemas = Value::Object(types.take_definitions(true));
    for kind in Kind::ALL {
        let name = type_of(kind);
        let mut object = schemas["Object"].clone();
        object["properties"]["kind"] = json!({"const": kind.as_str()});
        object["properties"]["spec"] = spec::schema(kind);
        object["properties"]["status"] = match kind {
            Kind::Function => reference("FunctionStatus"),
            Kind::Device => reference("DeviceStatus"),
            _ => json!({"type": "object", "description": "How it is, as far as there is something to tell."}),
        };
        schemas[name.as_str()] = object;
        let mut list = schemas["List"].clone();
        list["properties"]["items"]["items"] = reference(&name);
        list["properties"]["next"] =
            json!({"type": "string", "description": "There are more: `after` for the next part."});
        schemas[format!("{name}List")] = list;
        let mut desired = schemas["Desired"].clone();
        desired["properties"]["spec"] = spec::schema(kind);
        schemas[format!("Desired{name}")] = desired;
    }
    schemas["Document"] = document_schema();
    if let Some(schemas) = schemas.as_object_mut() {
        // Those of the kinds say more.
        for general in ["Object", "List", "Desired"] {
            schemas.shift_remove(general);
        }
    }
    enumerate(&mut schemas);
    schemas
}

/// Says of texts of which there are only a few that they are an enumeration, which generators of clients know
/// better than a choice between constants.
fn enumerate(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(enumerate),
        Value::Object(entries) => {
            let choices = entries.get("oneOf").and_then(Value::as_array);
            let names = choices.and_then(|choices| {
                let text = |choice: &Value| choice.get("const").filter(|text| text.is_string()).cloned();
                choices.iter().map(text).collect::<Option<Vec<_>>>()
            });
            if let Some(names) = names
                && let Some(Value::Array(choices)) = entries.shift_remove("oneOf")
            {
                let of = |choice: &Value| {
                    Some(format!("`{}`: {}", choice["const"].as_str()?, choice["description"].as_str()?))
                };
                let said: Vec<String> = choices.iter().filter_map(of).collect();
                let about = entries.get("description").and_then(Value::as_str).map(str::to_owned);
                let about: Vec<String> = about.into_iter().chain(said).collect();
                entries.insert("type".to_owned(), json!("string"));
                entries.insert("description".to_owned(), json!(about.join(" ")));
                entries.insert("enum".to_owned(), Value::Array(names));
            }
            entries.values_mut().for_each(enumerate);
        }
        _ => {}
    }
}

/// The operator's file.
fn document_schema() -> Value {
    let mut sections = Map::new();
    sections.insert(
        "superfluid".to_owned(),
        json!({
            "description": "Version of the format.",
            "anyOf": [{"type": "integer", "const": 1}, {"type": "string", "const": "1"}],
        }),
    );
    for kind in Kind::ALL {
        let section = match kind {
            Kind::Workers => or_nothing(spec::schema(kind)),
            Kind::Wire => json!({"type": ["array", "null"], "items": spec::schema(kind)}),
            Kind::Tenant | Kind::Switch => named_section(kind, or_nothing(spec::schema(kind))),
            _ => named_section(kind, spec::schema(kind)),
        };
        sections.insert(kind.plural().to_owned(), section);
    }
    json!({
        "type": "object",
        "description": "The operator's file.",
        "required": ["superfluid"],
        "properties": sections,
        "additionalProperties": false,
    })
}

fn named_section(kind: Kind, spec: Value) -> Value {
    json!({
        "type": ["object", "null"],
        "propertyNames": name_schema(Some(kind)),
        "additionalProperties": spec,
    })
}

/// What may also be left empty.
fn or_nothing(schema: Value) -> Value {
    json!({"anyOf": [schema, {"type": "null"}]})
}

pub(crate) fn name_schema(kind: Option<Kind>) -> Value {
    match kind {
        Some(Kind::Workers) => json!({"type": "string", "const": "workers"}),
        Some(Kind::Service) => {
            json!({"type": "string", "pattern": format!("^({PART}:)?{SERVICE}$")})
        }
        Some(Kind::Wire) => {
            json!({"type": "string", "pattern": format!("^{PART}{INTERFACE}~{PART}{INTERFACE}$")})
        }
        Some(_) => json!({"type": "string", "pattern": format!("^{PART}$")}),
        None => json!({"type": "string", "pattern": api::NAME_PATTERN}),
    }
}
