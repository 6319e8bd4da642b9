//! What is accepted, and what is told otherwise.

use super::frames::{config, rule, to_port};
use crate::SecurityGroups;
use crate::metrics::NAMES;
use manifest::Manifest;
use nf_sdk::native::{ConfigValue, Runner};
use yaml_document::Document;

fn manifest() -> Manifest {
    Manifest::parse("function.yaml", include_str!("../../function.yaml")).expect("in order")
}

#[test]
fn the_example_of_the_readme_is_one() {
    let (_, rest) = include_str!("../../README.md").split_once("```yaml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let document = Document::parse("README.md", example).expect("YAML");
    let keys = ["functions", "red_groups", "config"];
    let config = keys.iter().fold(document.root(), |node, key| node.get(key).expect("a key"));
    let mut faults = vec![];
    let value = manifest().schema.check("README.md", "", Some(config), &mut faults);
    assert_eq!(faults, []);
    Runner::<SecurityGroups>::new(&value.expect("without faults").to_cbor()).expect("it works");
}

#[test]
fn names_of_counters_and_reasons_are_the_manifests() {
    let manifest = manifest();
    let counters: Vec<&str> = manifest.counters.iter().map(|name| name.as_str()).collect();
    assert_eq!(counters[..NAMES.len()], NAMES);
    let reasons: Vec<&str> = manifest.drop_reasons.iter().map(|name| name.as_str()).collect();
    assert_eq!(reasons, NAMES[1..]);
}

#[test]
fn contradictions_are_told() {
    let refusal = |layers: &[(&str, Vec<ConfigValue>)]| {
        Runner::<SecurityGroups>::new(&config(layers, true)).err().expect("refused").message().to_string()
    };
    let ports = rule("in", &[("ports", ConfigValue::PortRange(1, 2))]);
    let told = refusal(&[("tenant", vec![to_port("in", "tcp", 1), ports])]);
    assert_eq!(told, "tenant[1]: protocol: `any` with ports; allowed: tcp or udp");
    let kind = rule("out", &[("icmp_type", ConfigValue::Integer(8)), ("protocol", ConfigValue::text("tcp"))]);
    let told = refusal(&[("administrator", vec![kind])]);
    assert_eq!(
        told,
        "administrator[0]: protocol: `tcp` with icmp_type or icmp_code; allowed: icmp or icmpv6"
    );
    assert_eq!(refusal(&[]), "`administrator` and `tenant`: neither is there; allowed: one of them or both");
}
