//! The reference of manifests, `docs/function-yaml.md`, says what the code does.

use manifest::Manifest;
use schema::{Files, Schema, Value};
use yaml_document::Document;

const PAGE: &str = include_str!("../../../../docs/function-yaml.md");

/// The file that the page's example names.
struct OneFile;

impl Files for OneFile {
    fn read(&self, _path: &str, _most: u64) -> Result<Vec<u8>, String> {
        Ok(b"abc".to_vec())
    }
}

/// The cells of the table of types: type, what belongs to it, example, value, CBOR.
fn rows() -> Vec<[&'static str; 5]> {
    let (_, table) = PAGE.split_once("| type | belongs to it |").expect("the table of types");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells = |line: &'static str| -> [&'static str; 5] {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(|cell| cell.trim()).collect();
        cells.try_into().unwrap_or_else(|cells| panic!("five cells: {cells:?}"))
    };
    rows.map(cells).collect()
}

fn code(cell: &str) -> &str {
    cell.trim_matches('`')
}

#[test]
fn its_example_is_a_manifest() {
    let (_, example) = PAGE.split_once("```yaml\n").expect("an example");
    let (example, _) = example.split_once("```").expect("its end");
    let manifest = Manifest::parse("function.yaml", example).expect("a manifest");
    assert_eq!(manifest.schema.keys().len(), 2);
}

#[test]
fn every_type_is_there_with_what_belongs_to_it() {
    // The message about a type that there is not names all.
    let faults = Schema::from_text("x", "k: {type: nothing, required: true}").expect_err("no such type");
    let message = faults[0].to_string();
    let (_, types) = message.split_once("allowed: ").expect("what is allowed");
    let types: Vec<&str> = types.split(';').next().unwrap_or_default().split(", ").collect();
    assert_eq!(rows().iter().map(|[name, ..]| code(name)).collect::<Vec<_>>(), types);
    for [name, own, ..] in rows() {
        // So does the message about a key that is not of the type.
        let text = format!("k: {{type: {}, nothing: 1, required: true}}", code(name));
        let faults = Schema::from_text("x", &text).expect_err("no such key");
        let message = faults.iter().map(ToString::to_string).find(|fault| fault.contains("unknown key"));
        let message = message.expect("the key is told");
        let (_, allowed) = message.split_once("allowed: ").expect("what is allowed");
        let allowed = allowed.split(';').next().unwrap_or_default();
        let beside = ["type", "required", "default", "unit", "help"];
        let own_keys: Vec<&str> = allowed.split(", ").filter(|key| !beside.contains(key)).collect();
        let outside_of_brackets: String =
            own.split('(').map(|part| part.split_once(')').map_or(part, |(_, rest)| rest)).collect();
        let told: Vec<&str> = outside_of_brackets
            .split(',')
            .map(|key| code(key.trim()))
            .filter(|key| !key.is_empty())
            .collect();
        assert_eq!(told, own_keys, "{name}");
    }
}

#[test]
fn values_become_the_cbor_that_is_told() {
    for [name, _, example, value, cbor] in rows() {
        let schema = Schema::from_text("x", &format!("k: {}", code(example))).expect("a description");
        let document = Document::parse("x", &format!("k: {}", code(value))).expect("YAML");
        let place = yaml_document::Location::new("x", "", document.root().position);
        let mut faults = Vec::new();
        let checked = schema.check_with(&place, Some(document.root()), &[], &OneFile, &mut faults);
        assert!(faults.is_empty(), "{name}: {}", faults[0]);
        let bytes = checked.as_ref().and_then(|map| map.get("k")).map(Value::to_cbor).expect("a value");
        let hexadecimal: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hexadecimal, code(cbor), "{name}");
    }
}
