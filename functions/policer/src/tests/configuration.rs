//! What is accepted, and what is told otherwise.

use super::{configure, function};
use crate::Policers;
use manifest::Manifest;
use nf_sdk::native::Runner;
use std::format;
use std::string::ToString;
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
    let config = node(&["functions", "limits", "config"]);
    let value = manifest.schema.check("README.md", "", Some(config), &mut faults);
    assert_eq!(faults, []);
    let runner = Runner::<Policers>::new(&value.expect("without faults").to_cbor()).expect("it works");
    assert_eq!(super::report(&runner)["policers"].as_array().map(std::vec::Vec::len), Some(3));
}

#[test]
fn contradictions_are_told() {
    for (policer, wanted) in [
        ("{}", "no limit; allowed: rate, packet_rate or both"),
        ("{packet_rate: 1pps, burst: 64KiB}", "burst without rate; allowed: with it"),
        ("{rate: 1Mbps, packet_burst: 3}", "packet_burst without packet_rate; allowed: with it"),
        ("{packet_rate: 1pps, peak_rate: 1Mbps}", "peak_rate without rate; allowed: with it"),
        ("{rate: 1Mbps, peak_burst: 64KiB}", "peak_burst without peak_rate; allowed: with it"),
        ("{packet_rate: 1pps, excess_burst: 64KiB}", "excess_burst without rate; allowed: with it"),
        (
            "{rate: 2Mbps, peak_rate: 1Mbps}",
            "peak_rate: 1000000 bit/s; allowed: rate, 2000000 bit/s, or more",
        ),
        (
            "{rate: 1Mbps, peak_rate: 2Mbps, excess_burst: 1KiB}",
            "peak_rate and excess_burst; allowed: one of them",
        ),
        (
            "{rate: 1Mbps, peak_rate: 2Mbps, packet_rate: 1pps}",
            "peak_rate and packet_rate; allowed: one of them",
        ),
        (
            "{rate: 1Mbps, excess_burst: 1KiB, packet_rate: 1pps}",
            "excess_burst and packet_rate; allowed: one of them",
        ),
        (
            "{rate: 1Mbps, violate: mark}",
            "violate without a third colour; allowed: with peak_rate or excess_burst",
        ),
        (
            "{rate: 1Mbps, exceed: mark, exceed_mark: 256}",
            "exceed_mark: 256; allowed: bits of mark_mask, 255",
        ),
        ("{rate: 1Mbps, key: [source, source]}", "key: `source` is named twice"),
        (
            "{rate: 1Mbps, source: 10.0.0.0/8, destination: '::/0'}",
            "source is IPv4 and destination IPv6; allowed: both of one family",
        ),
        (
            "{rate: 1Mbps, protocol: icmp, source_ports: 1}",
            "protocol: `icmp` with ports; allowed: tcp, udp, 33, 132 or 136",
        ),
        (
            "{rate: 1Mbps, destination_ports: 1}",
            "protocol: `any` with ports; allowed: tcp, udp, 33, 132 or 136",
        ),
        ("{rate: 1Mbps, protocol: tpc}", "protocol: `tpc` is none of tcp, udp, icmp, icmpv6, any, 0 to 255"),
        (
            "{rate: 1Mbps, key: [source, destination, mark], source_prefix_ipv6: 65, destination_prefix_ipv6: 65}",
            "key: no room for the mark beside two whole IPv6 addresses; allowed: a prefix of at most 64 bits for one",
        ),
    ] {
        let config =
            configure(&format!("policers: [{{rate: 1kbps}}, {policer}]")).expect("the schema allows it");
        let error = Runner::<Policers>::new(&config).err().expect("a contradiction");
        assert_eq!(error.to_string(), format!("policers[1]: {wanted}"));
    }
}

#[test]
fn the_schema_keeps_the_rest_out() {
    for wrong in [
        "{}",
        "policers: []",
        "policers: [{rate: 0bps}]",
        "policers: [{rate: 1001Gbps}]",
        "policers: [{rate: 1Mbps, burst: 513MiB}]",
        "policers: [{rate: 1Mbps, key: [addresses]}]",
        "policers: [{rate: 1Mbps, source_prefix_ipv4: 33}]",
        "{max_buckets: 2000001, policers: [{rate: 1Mbps}]}",
    ] {
        assert!(configure(wrong).is_err(), "{wrong}");
    }
    for garbage in [&[][..], &[0xa0], &[0xff], &[0xa1, 0x68]] {
        assert!(Runner::<Policers>::new(garbage).is_err());
    }
}

#[test]
fn everything_that_the_schema_offers_is_taken() {
    let runner = function(
        "
max_buckets: 1000
count: ip
overhead: 24
non_ip: police
top: 3
policers:
  - {name: web, from: outside, protocol: tcp, destination: 192.0.2.0/24, destination_ports: 80-443, source_ports: 1024-65535,
     key: [source, source_port, ingress], source_prefix_ipv4: 24, rate: 10Mbps, burst: 64KiB, packet_rate: 1kpps, packet_burst: 100}
  - {name: two, vlan: 7, mark: 3, key: [destination, vlan, mark], rate: 1Mbps, peak_rate: 2Mbps, peak_burst: 1MiB, exceed: mark,
     violate: mark, exceed_mark: 16, violate_mark: 32, mark_mask: 48}
  - {name: one, source: '2001:db8::/32', key: [source, destination, protocol, source_port, destination_port],
     destination_prefix_ipv6: 128, source_prefix_ipv6: 128, rate: 1Gbps, excess_burst: 1MiB}
  - {packet_rate: 5pps}
",
    );
    let report = super::report(&runner);
    assert_eq!(report["policers"].as_array().map(std::vec::Vec::len), Some(4));
    assert_eq!(report["policers"][1]["violate"]["action"], "mark");
    assert_eq!(report["policers"][2]["exceed"]["action"], "mark");
    assert_eq!(report["policers"][2]["violate"]["action"], "drop");
    assert_eq!(report["policers"][3]["exceed"]["action"], "drop");
}
