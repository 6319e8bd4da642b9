use crate::{Access, FunctionName, Language, MAX_TEXT, Manifest, parse::KEYS};
use proptest::prelude::*;

const FIREWALL: &str = "\
name: firewall
version: 1.0.0
abi: 1
summary: One line.
language: rust
access: read
interfaces: [inside, outside]
memory_limit: 128MiB
drop_reasons: [denied, invalid]
counters: [accepted]
config:
  max_flows: {type: integer, min: 1, max: 4000000, default: 65536}
";

fn faults(text: &str) -> Vec<String> {
    match Manifest::parse("function.yaml", text) {
        Ok(manifest) => panic!("accepted: {manifest:?}"),
        Err(faults) => faults.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn the_schema_of_manifests_is_one() {
    assert_eq!(KEYS.keys().len(), 15);
    let limit = KEYS.key("memory_limit").unwrap().kind.allowed();
    assert!(limit.contains("from 64KiB to 2GiB"), "{limit}");
    assert_eq!(nf_abi::PRIVATE_MAX, 2 << 30);
}

#[test]
fn the_reference_has_all_keys() {
    let page = include_str!("../../../../docs/function-yaml.md");
    let table = KEYS.to_markdown();
    assert!(page.contains(&table), "the table of keys should be:\n{table}");
}

#[test]
fn a_manifest_is_read() {
    let manifest = Manifest::parse("function.yaml", FIREWALL).unwrap();
    assert_eq!(manifest.name.as_str(), "firewall");
    assert_eq!((manifest.version.as_str(), manifest.abi), ("1.0.0", 1));
    assert_eq!((manifest.language, manifest.access), (Language::Rust, Access::Read));
    assert_eq!(manifest.interfaces, ["inside", "outside"]);
    assert_eq!(manifest.memory_limit, 128 << 20);
    assert_eq!(manifest.drop_reasons, ["denied", "invalid"]);
    assert_eq!(manifest.counters, ["accepted"]);
    assert!(manifest.schema.key("max_flows").is_some());
    assert_eq!(manifest.source, FIREWALL);
    assert_eq!(manifest.interface("outside"), Some(1));
    assert_eq!(manifest.interface("0"), Some(0));
    assert_eq!(manifest.interface("2"), None);
    assert_eq!(manifest.interface("side"), None);
}

#[test]
fn what_may_be_left_out_may_be_left_out() {
    let text: String = FIREWALL.lines().take(8).map(|line| format!("{line}\n")).collect();
    let manifest = Manifest::parse("function.yaml", &text).unwrap();
    assert!(manifest.drop_reasons.is_empty() && manifest.counters.is_empty());
    assert!(manifest.schema.keys().is_empty());
}

#[test]
fn files_whose_changes_are_taken_are_keys_of_the_configuration() {
    let with = |names: &str| {
        let more = format!(
            "differences: [{names}]\nconfig:\n  list: {{type: file, max: 1MiB, required: false, help: A list.}}\n  n: {{type: integer, min: 0, max: 1, default: 0, help: A number.}}\n"
        );
        let text: String = FIREWALL.lines().take(8).map(|line| format!("{line}\n")).collect();
        Manifest::parse("function.yaml", &format!("{text}{more}"))
    };
    assert_eq!(with("list").unwrap().differences, ["list"]);
    for (names, found) in [("n", "found `n`"), ("lists", "found `lists`")] {
        let faults = with(names).unwrap_err();
        let told = format!("differences: {found}; allowed: keys of `config` of the type `file`");
        assert!(faults.iter().any(|fault| fault.to_string().ends_with(&told)), "{faults:?}");
    }
}

#[test]
fn all_faults_are_told_at_once() {
    let text = "\
name: Fire_wall
version: v1.0
summary: ''
language: go
access: rw
interfaces: [inside, inside, 0]
memory_limit: 4GiB
drop_reason: [denied]
config:
  max_flows: {type: integer, min: 1, default: 0}
";
    let expected = "\
function.yaml:1:1: abi: the required key `abi` is missing; allowed: an integer from 1 to 65535
function.yaml:1:7: name: found `Fire_wall`; allowed: a lower-case letter, then lower-case letters, digits and `-`
function.yaml:2:10: version: found `v1.0`; allowed: text of 5 to 32 characters
function.yaml:3:10: summary: found the text \"\"; allowed: text of 1 to 200 characters
function.yaml:4:11: language: found `go`; allowed: one of rust, c
function.yaml:5:9: access: found `rw`; allowed: one of read, write
function.yaml:6:22: interfaces[1]: the interface `inside` is named twice
function.yaml:6:30: interfaces[2]: found `0`; allowed: a lower-case letter, then lower-case letters, digits, `-` and `_`
function.yaml:7:15: memory_limit: found `4GiB`; allowed: a size from 64KiB to 2GiB, such as `64KiB` (units: B, KiB, MiB, GiB)
function.yaml:8:1: drop_reason: unknown key `drop_reason`; allowed: config, name, version, abi, summary, language, access, interfaces, optional_interfaces, memory_limit, resident, drop_reasons, counters, flow_hash, memory_layout, differences; did you mean `drop_reasons`?
function.yaml:10:47: config.max_flows.default: found `0`; allowed: an integer of at least 1";
    assert_eq!(faults(text).join("\n"), expected);
}

#[test]
fn what_is_populated_is_within_the_limit() {
    let with = |resident: &str| FIREWALL.replace("memory_limit: 128MiB", resident);
    let read = |text: &str| Manifest::parse("function.yaml", text).unwrap().resident;
    assert_eq!(read(FIREWALL), None);
    assert_eq!(read(&with("memory_limit: 128MiB\nresident: 128MiB")), Some(128 << 20));
    assert_eq!(read(&with("memory_limit: 128MiB\nresident: 0B")), Some(0));
    let refused = faults(&with("memory_limit: 128MiB\nresident: 129MiB"));
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(
        refused[0]
            .ends_with("resident: found `129MiB`; allowed: at most 134217728 bytes, its `memory_limit`"),
        "{refused:?}"
    );
}

#[test]
fn what_may_be_left_without_a_wire_is_an_interface() {
    let with = |optional: &str| format!("{FIREWALL}optional_interfaces: [{optional}]\n");
    let read = |text: &str| Manifest::parse("function.yaml", text).unwrap().optional_interfaces;
    assert!(read(FIREWALL).is_empty());
    assert_eq!(read(&with("outside")), ["outside"]);
    let refused = faults(&with("outside, export"));
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(
        refused[0].ends_with("found `export`; allowed: of its interfaces inside, outside"),
        "{refused:?}"
    );
}

#[test]
fn another_versions_manifest_is_refused_for_that_alone() {
    let text = FIREWALL.replace("abi: 1", "abi: 2").replace("name:", "title:");
    assert_eq!(
        faults(&text),
        [
            "function.yaml:3:6: abi: the function is made for version 2 of the contract with the host; allowed: version 1 \
          (build it anew with this version's SDK)"
        ]
    );
}

#[test]
fn oddities() {
    assert_eq!(faults("[a]").len(), 1);
    assert_eq!(faults("").len(), 8);
    assert_eq!(
        faults(&"#".repeat(MAX_TEXT + 1)),
        ["function.yaml:1:1: found 262145 bytes; allowed: at most 262144"]
    );
    assert_eq!(
        faults(&FIREWALL.replace("1.0.0", "1.0.x")),
        [
            "function.yaml:2:10: version: found `1.0.x`; allowed: three numbers with dots between them, such as `1.0.0`"
        ]
    );
    assert_eq!(FunctionName::new("a-b0").map(|n| n.to_string()), Some("a-b0".to_owned()));
    for bad in ["", "0", "-a", "a_b", "A", "é", &"a".repeat(33)] {
        assert_eq!(FunctionName::new(bad), None, "{bad}");
    }
}

proptest! {
    #[test]
    fn a_damaged_manifest_does_not_make_it_panic(at in 0usize..300, with in "\\PC{0,3}", cut in 0usize..20) {
        let mut text = FIREWALL.to_owned();
        let at = at.min(text.len());
        let end = (at + cut).min(text.len());
        text.replace_range(at..end, &with);
        if let Err(faults) = Manifest::parse("f", &text) {
            prop_assert!(!faults.is_empty());
        }
    }
}
