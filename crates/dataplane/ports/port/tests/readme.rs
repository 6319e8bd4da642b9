//! The README says what the schemas say, and its examples are accepted.

use schema::Schema;
use std::path::Path;
use yaml_document::{Document, Location};

const TYPES: [(&str, &str); 4] = [
    ("null", port::null::SCHEMA),
    ("sink", port::sink::SCHEMA),
    ("generator", port::generator::SCHEMA),
    ("pcap", port::pcap::SCHEMA),
];

/// A key of every port.
const FAULT: &str = "fault";

fn readme() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap()
}

fn schema(name: &str) -> Schema {
    let every = TYPES.iter().copied().chain([(FAULT, port::fault::SCHEMA)]);
    let (_, text) = every.into_iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no port `{name}`"));
    Schema::from_text(name, text).unwrap()
}

#[test]
fn tables_are_those_of_the_schemas() {
    let readme = readme();
    for name in TYPES.map(|(name, _)| name).into_iter().chain([FAULT]) {
        let table = schema(name).to_markdown();
        assert!(readme.contains(&table), "the table of `{name}` should be:\n{table}");
    }
}

#[test]
fn examples_are_accepted() {
    let readme = readme();
    let mut seen = Vec::new();
    for example in readme.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()) {
        let document = Document::parse("README.md", example).unwrap();
        let (_, ports) = document.root().entry("ports").unwrap();
        for (name, node) in ports.as_map().unwrap() {
            let kind = node.entry("type").unwrap().1.as_text().unwrap();
            let mut faults = Vec::new();
            let place = Location::new("README.md", &name.text, node.position);
            let value = schema(kind).check_at(&place, Some(node), &["type", FAULT], &mut faults);
            let value = value.unwrap_or_else(|| panic!("{faults:?}"));
            let refused = match kind {
                "null" => port::null::Config::from_value(&value).err(),
                "sink" => port::sink::Config::from_value(&value).err(),
                "generator" => port::generator::Config::from_value(&value).err(),
                _ => port::pcap::Config::from_value(&value).err(),
            };
            assert_eq!(refused, None, "{}", name.text);
            seen.push(kind.to_owned());
            if let Some((_, node)) = node.entry(FAULT) {
                let value = schema(FAULT).check_at(&place, Some(node), &[], &mut faults);
                let value = value.unwrap_or_else(|| panic!("{faults:?}"));
                assert!(port::fault::Config::from_value(&value).is_ok(), "{}", name.text);
                seen.push(FAULT.to_owned());
            }
        }
    }
    let shown = |name: &str| seen.iter().any(|kind| kind == name);
    assert!(TYPES.iter().all(|(name, _)| shown(name)) && shown(FAULT), "{seen:?}");
}
