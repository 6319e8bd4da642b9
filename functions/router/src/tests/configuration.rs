//! What is accepted, and what is told otherwise.

use super::refusal;
use crate::Router;
use manifest::Manifest;
use nf_sdk::native::Runner;
use std::format;
use std::string::String;
use std::vec;
use yaml_document::Document;

#[test]
fn the_example_of_the_readme_is_one() {
    let (_, rest) = include_str!("../../README.md").split_once("```yaml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let document = Document::parse("README.md", example).expect("YAML");
    let node = |keys: &[&str]| keys.iter().fold(document.root(), |node, key| node.get(key).expect("a key"));
    let manifest = Manifest::parse("function.yaml", include_str!("../../function.yaml")).expect("in order");
    let mut faults = vec![];
    let config = node(&["functions", "core", "config"]);
    let value = manifest.schema.check("README.md", "", Some(config), &mut faults);
    assert_eq!(faults, []);
    let runner = Runner::<Router>::new(&value.expect("without faults").to_cbor()).expect("it works");
    assert_eq!(super::report(&runner)["routes"]["next_hops"], 3);
}

#[test]
fn names_of_counters_and_reasons_are_the_manifests() {
    let manifest = Manifest::parse("function.yaml", include_str!("../../function.yaml")).expect("in order");
    let counters: vec::Vec<&str> = manifest.counters.iter().map(|name| name.as_str()).collect();
    assert_eq!(counters, crate::metrics::NAMES);
    let reasons: vec::Vec<&str> = manifest.drop_reasons.iter().map(|name| name.as_str()).collect();
    assert_eq!(reasons, crate::metrics::NAMES[crate::metrics::DROPPED..crate::metrics::ICMP_SENT]);
}

#[test]
fn contradictions_are_told() {
    for (more, wanted) in [
        ("routes: [{to: 10.0.0.0/8}]", "routes: entry 1: neither a next hop nor an interface"),
        (
            "routes: [{to: 10.0.0.0/8, via: '2001:db8:b::2'}]",
            "routes: entry 1: next hop 2001:db8:b::2 is not of the family of 10.0.0.0; allowed: both of one",
        ),
        (
            "routes: [{to: 10.0.0.0/8, via: 198.51.100.2}, {to: 11.0.0.0/8, via: 203.0.113.1}]",
            "routes: entry 2: 203.0.113.1 is in the network of no interface; `dev` (in a file) or `interface` names one",
        ),
        (
            "routes: [{to: 10.0.0.0/8, interface: c}]",
            "routes: entry 1: `c` is no interface of this router; allowed: a, b",
        ),
        (
            "routes: [{to: 10.0.0.0/8, interface: b, action: reject}]",
            "routes: entry 1: `reject` has neither `via` nor `interface`",
        ),
        (
            "routes: [{to: 127.1.0.0/16, action: reject}]",
            "routes: entry 1: addresses of 127.0.0.0/8 are never routed",
        ),
        (
            "routes: [{to: 'fe80::/64', interface: b}]",
            "routes: entry 1: addresses of fe80::/10 are never routed",
        ),
    ] {
        assert_eq!(refusal(more, ""), wanted, "{more}");
    }
    for (interfaces, wanted) in [
        (
            "{name: a, mac: '02:00:00:00:00:01'}, {name: a, mac: '02:00:00:00:00:02'}",
            "interfaces: `a` is there twice",
        ),
        ("{name: a, mac: '03:00:00:00:00:01'}", "interfaces: a: mac: allowed is the address of one host"),
        (
            "{name: a, mac: '02:00:00:00:00:01', addresses: [192.0.2.1]}",
            "interfaces: a: addresses: `192.0.2.1`: allowed is an address with the length of its network, such as 192.0.2.1/24",
        ),
        (
            "{name: a, mac: '02:00:00:00:00:01', addresses: [192.0.2.255/24]}",
            "interfaces: a: addresses: `192.0.2.255/24`: it is not the address of a host",
        ),
        (
            "{name: a, mac: '02:00:00:00:00:01', addresses: [192.0.2.1/24, 192.0.2.1/25]}",
            "interfaces: a: addresses: `192.0.2.1/25` is there twice",
        ),
    ] {
        let config =
            super::configure(&format!("interfaces: [{interfaces}]"), "").expect("the schema allows it");
        let error = Runner::<Router>::new(&config).err().map(|error| format!("{error}"));
        assert_eq!(error.as_deref(), Some(wanted));
    }
    let config = |neighbours: &str| {
        let text = format!(
            "interfaces: [{{name: a, mac: '02:00:00:00:00:01', addresses: [192.0.2.1/24]}}]\nneighbours: [{neighbours}]"
        );
        let config = super::configure(&text, "").expect("the schema allows it");
        Runner::<Router>::new(&config).err().map(|error| format!("{error}")).unwrap_or_default()
    };
    assert_eq!(
        config("{address: 10.0.0.1, mac: '02:00:00:00:00:07'}"),
        "neighbours: 10.0.0.1: it is in the network of no interface; `interface` names one"
    );
    assert_eq!(
        config(
            "{address: 192.0.2.7, mac: '02:00:00:00:00:07'}, {address: 192.0.2.7, mac: '02:00:00:00:00:08'}"
        ),
        "neighbours: 192.0.2.7 is there twice"
    );
}

#[test]
fn a_line_that_is_none_is_named() {
    const WAYS: &str = "allowed after the prefix: `via ADDRESS`, `via ADDRESS dev INTERFACE`, `dev INTERFACE`, `blackhole`, `reject`";
    for (line, wanted) in [
        ("10.0.0.0 via 198.51.100.2", "it does not begin with a prefix such as 10.0.0.0/8"),
        ("10.0.0.256/32 via 198.51.100.2", "it does not begin with a prefix such as 10.0.0.0/8"),
        ("10.0.0.0/33 via 198.51.100.2", "it does not begin with a prefix such as 10.0.0.0/8"),
        ("10.0.0.0/08 via 198.51.100.2", "it does not begin with a prefix such as 10.0.0.0/8"),
        ("10.0.0.1/8 via 198.51.100.2", "bits beyond the length; meant is 10.0.0.0/8"),
        ("2001:db8::1/32 via 2001:db8:b::2", "bits beyond the length; meant is 2001:db8::/32"),
        ("10.0.0.0/8", WAYS),
        ("10.0.0.0/8 198.51.100.2", WAYS),
        ("10.0.0.0/8 via", WAYS),
        ("10.0.0.0/8 via 198.51.100.2 blackhole", WAYS),
        ("10.0.0.0/8 blackhole 1", WAYS),
        ("10.0.0.0/8 via 198.51.100.2 dev q", "`q` is no interface of this router; allowed: a, b"),
        ("::/0 via 198.51.100.2", "next hop 198.51.100.2 is not of the family of ::; allowed: both of one"),
        ("224.0.0.0/8 dev b", "addresses of 224.0.0.0/4 are never routed"),
    ] {
        let file = format!("11.0.0.0/8 via 198.51.100.2\n\n{line}\n12.0.0.0/8 via 198.51.100.2");
        let wanted = format!("routes_file: full.routes: line 3: {wanted}: `{line}`");
        assert_eq!(refusal("routes_file: full.routes", &file), wanted);
    }
    // What a line of the same way before it says does not hold for another family.
    let file = "0.0.0.0/0 via 198.51.100.2\n::/0 via 198.51.100.2";
    assert!(refusal("routes_file: r", file).contains("line 2"));
    let long = format!("10.0.0.0/8 {}", "x".repeat(500));
    assert!(refusal("routes_file: r", &long).len() < 300);
    let paths: String = (2..70).map(|n| format!("10.0.0.0/8 via 198.51.100.{n}\n")).collect();
    assert!(refusal("routes_file: r", &paths).starts_with("too many next hops; allowed: "));
}
