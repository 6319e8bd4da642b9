//! Reading a manifest.

use crate::{Access, FunctionName, Language, MAX_TEXT, Manifest};
use schema::{Kind, Schema, Value};
use std::sync::LazyLock;
use yaml_document::{Document, Fault, Location, Node, Position, spelling};

/// The keys beside `config`. A test proves that the text is a schema.
pub(crate) static KEYS: LazyLock<Schema> =
    LazyLock::new(|| Schema::from_text("manifest.yaml", include_str!("manifest.yaml")).unwrap_or_default());

impl Manifest {
    /// Reads a manifest; `file` is what faults call it.
    ///
    /// # Errors
    /// All that is wrong with it. A manifest for another version of the contract has that one fault: its keys
    /// may mean something else.
    pub fn parse(file: &str, text: &str) -> Result<Manifest, Vec<Fault>> {
        if text.len() > MAX_TEXT {
            let place = Location::new(file, "", Position::START);
            return Err(vec![
                place.fault(format!("found {} bytes; allowed: at most {MAX_TEXT}", text.len())),
            ]);
        }
        let document = Document::parse(file, text).map_err(|fault| vec![fault])?;
        let root = document.root();
        let place = Location::new(file, "", root.position);
        same_abi(&place, root).map_err(|fault| vec![fault])?;
        let mut faults = Vec::new();
        let values = KEYS.check_at(&place, Some(root), &["config"], &mut faults);
        let schema = match root.entry("config") {
            None => Schema::default(),
            Some((_, node)) => {
                Schema::parse(&place.key("config", node.position), node).unwrap_or_else(|more| {
                    faults.extend(more);
                    Schema::default()
                })
            }
        };
        let name = check_name(&place, root, &mut faults);
        check_version(&place, root, &mut faults);
        if let Some(values) = &values {
            check_resident(&place, root, values, &mut faults);
            check_optional(&place, root, values, &mut faults);
        }
        for (key, what) in
            [("interfaces", "interface"), ("drop_reasons", "drop reason"), ("counters", "counter")]
        {
            check_names(&place, root, key, what, &mut faults);
        }
        if let Some(values) = &values {
            check_differences(&place, root, values, &schema, &mut faults);
        }
        match (values, name, faults.is_empty()) {
            (Some(values), Some(name), true) => Ok(manifest(&values, name, schema, text)),
            _ => {
                faults.sort_by_key(|fault| fault.position);
                Err(faults)
            }
        }
    }
}

fn manifest(values: &Value, name: FunctionName, schema: Schema, source: &str) -> Manifest {
    let text = |key| values.get(key).and_then(Value::as_text).unwrap_or_default();
    let texts = |key| {
        let items = values.get(key).and_then(Value::as_list).unwrap_or_default();
        items.iter().filter_map(Value::as_text).map(str::to_owned).collect()
    };
    Manifest {
        name,
        version: text("version").to_owned(),
        abi: nf_abi::ABI_VERSION,
        summary: text("summary").to_owned(),
        language: if text("language") == "c" { Language::C } else { Language::Rust },
        access: if text("access") == "write" { Access::Write } else { Access::Read },
        interfaces: texts("interfaces"),
        optional_interfaces: texts("optional_interfaces"),
        memory_limit: values.get("memory_limit").and_then(Value::as_size).unwrap_or_default(),
        resident: values.get("resident").and_then(Value::as_size),
        drop_reasons: texts("drop_reasons"),
        counters: texts("counters"),
        flow_hash: values.get("flow_hash").and_then(Value::as_bool).unwrap_or_default(),
        memory_layout: values
            .get("memory_layout")
            .and_then(Value::as_integer)
            .and_then(|it| u32::try_from(it).ok())
            .filter(|it| *it > 0),
        differences: texts("differences"),
        schema,
        source: source.to_owned(),
    }
}

/// What may be left without a wire is one of its interfaces.
fn check_optional(place: &Location<'_>, root: &Node, values: &Value, faults: &mut Vec<Fault>) {
    let list =
        |key| values.get(key).and_then(Value::as_list).unwrap_or_default().iter().filter_map(Value::as_text);
    let Some((_, node)) = root.entry("optional_interfaces") else { return };
    for name in list("optional_interfaces").filter(|name| !list("interfaces").any(|it| it == *name)) {
        place.key("optional_interfaces", node.position).report(faults, || {
            let allowed = spelling::listed(list("interfaces"));
            format!("found `{}`; allowed: of its interfaces {allowed}", spelling::shown(name))
        });
    }
}

/// Keys whose changes it takes have to be files of its configuration.
fn check_differences(
    place: &Location<'_>,
    root: &Node,
    values: &Value,
    schema: &Schema,
    faults: &mut Vec<Fault>,
) {
    let names = values.get("differences").and_then(Value::as_list).unwrap_or_default();
    let Some((_, node)) = root.entry("differences") else { return };
    let is_file = |name: &&str| schema.key(name).is_some_and(|key| matches!(key.kind, Kind::File { .. }));
    for name in names.iter().filter_map(Value::as_text).filter(|name| !is_file(name)) {
        place.key("differences", node.position).report(faults, || {
            format!("found `{}`; allowed: keys of `config` of the type `file`", spelling::shown(name))
        });
    }
}

/// Is it for this version of the contract? What is no number at all is told with the other faults.
fn same_abi(place: &Location<'_>, root: &Node) -> Result<(), Fault> {
    let Some((_, node)) = root.entry("abi") else { return Ok(()) };
    match node.as_text().and_then(|text| text.parse::<u32>().ok()) {
        Some(abi) if abi != nf_abi::ABI_VERSION => Err(place.key("abi", node.position).fault(format!(
            "the function is made for version {abi} of the contract with the host; allowed: version {} \
                 (build it anew with this version's SDK)",
            nf_abi::ABI_VERSION
        ))),
        _ => Ok(()),
    }
}

fn check_name(place: &Location<'_>, root: &Node, faults: &mut Vec<Fault>) -> Option<FunctionName> {
    let (_, node) = root.entry("name")?;
    let text = node.as_text().filter(|text| !text.is_empty() && text.chars().count() <= 32)?;
    let name = FunctionName::new(text);
    if name.is_none() {
        place.key("name", node.position).report(faults, || {
            format!("{}; allowed: a lower-case letter, then lower-case letters, digits and `-`", node.found())
        });
    }
    name
}

fn check_version(place: &Location<'_>, root: &Node, faults: &mut Vec<Fault>) {
    let Some((_, node)) = root.entry("version") else { return };
    let Some(text) = node.as_text().filter(|text| (5..=32).contains(&text.chars().count())) else { return };
    let number = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    if text.split('.').count() != 3 || !text.split('.').all(number) {
        place.key("version", node.position).report(faults, || {
            format!("{}; allowed: three numbers with dots between them, such as `1.0.0`", node.found())
        });
    }
}

/// What is populated is part of what the function may have.
fn check_resident(place: &Location<'_>, root: &Node, values: &Value, faults: &mut Vec<Fault>) {
    let size = |key| values.get(key).and_then(Value::as_size);
    let (Some((_, node)), Some(resident), Some(limit)) =
        (root.entry("resident"), size("resident"), size("memory_limit"))
    else {
        return;
    };
    if resident > limit {
        place.key("resident", node.position).report(faults, || {
            format!("{}; allowed: at most {limit} bytes, its `memory_limit`", node.found())
        });
    }
}

/// Checks the names in a list; what is no text of the right length is told with the other faults.
fn check_names(place: &Location<'_>, root: &Node, key: &str, what: &str, faults: &mut Vec<Fault>) {
    let Some((_, list)) = root.entry(key) else { return };
    let place = place.key(key, list.position);
    let items = list.as_list().unwrap_or_default();
    for (n, item) in items.iter().enumerate().take(256) {
        let place = place.item(n, item.position);
        let Some(text) = item.as_text().filter(|text| !text.is_empty() && text.chars().count() <= 32) else {
            continue;
        };
        let good = text.starts_with(|c: char| c.is_ascii_lowercase())
            && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_'));
        if !good {
            place.report(faults, || {
                format!(
                    "{}; allowed: a lower-case letter, then lower-case letters, digits, `-` and `_`",
                    item.found()
                )
            });
        } else if items[..n].iter().any(|other| other.as_text() == Some(text)) {
            place.report(faults, || format!("the {what} `{}` is named twice", spelling::shown(text)));
        }
    }
}
