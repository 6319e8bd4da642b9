//! What is accepted, and what is told otherwise.

use super::*;
use crate::metrics::{EVENTS, REASONS};

#[test]
fn names_of_counters_and_reasons_are_the_manifests() {
    let manifest = Manifest::parse("function.yaml", include_str!("../../function.yaml")).expect("in order");
    let counters: Vec<&str> = manifest.counters.iter().map(|name| name.as_str()).collect();
    assert_eq!(counters, [&NAMES[..], &EVENTS[..]].concat());
    let reasons: Vec<&str> = manifest.drop_reasons.iter().map(|name| name.as_str()).collect();
    assert_eq!(reasons, NAMES[REASONS..]);
}

/// Why there is no such balancer.
fn refusal(config: &str, file: &str) -> String {
    let config = configure(config, file).unwrap_or_else(|faults| panic!("{faults}"));
    match Runner::<LoadBalancer>::new(&config) {
        Ok(_) => String::from("nothing is wrong"),
        Err(error) => format!("{error}"),
    }
}

#[test]
fn contradictions_are_told() {
    let service = |more: &str| format!("{{name: web, address: {VIP}, protocol: tcp, ports: '80'{more}}}");
    let one = |more: &str| format!("services: [{}]", service(more));
    for (config, wanted) in [
        (
            one(", servers: [{address: '2001:db8::1'}]"),
            "services: entry 1: web: servers: 2001:db8::1 is not of the version of IP that 198.51.100.7 has",
        ),
        (
            one(", servers: [{address: 10.0.0.1}, {address: 10.0.0.1, port: 80}]"),
            "services: entry 1: web: servers: 10.0.0.1 port 80 is there twice",
        ),
        (
            one(", servers: [{address: 224.0.0.1}]"),
            "services: entry 1: web: servers: 224.0.0.1 is not the address of a host",
        ),
        (
            one(", servers: [{address: 10.0.0.1, mac: '01:00:00:00:00:00'}]"),
            "services: entry 1: web: servers: 10.0.0.1: mac: allowed is the address of one host",
        ),
        (
            one(", forward: direct, servers: [{address: 10.0.0.1, port: 81}]"),
            "services: entry 1: web: servers: 10.0.0.1 has a port; allowed with `forward: direct` is the one that clients send to",
        ),
        (
            one(", servers: [{address: 10.0.0.1, port: 81}]").replace("'80'", "80-81"),
            "services: entry 1: web: servers: 10.0.0.1 has a port; with several `ports` each server has them all",
        ),
        (
            one("").replace("'80'", "0-5"),
            "services: entry 1: web: ports: 0 is no port; allowed are ranges within 1-65535",
        ),
        (
            one("").replace(VIP, "0.0.0.0"),
            "services: entry 1: web: address: 0.0.0.0 is not the address of a host",
        ),
        (
            one(", check: {interval: 1s, timeout: 2s}"),
            "services: entry 1: web: check: timeout: 2000 ms; allowed: at most `interval`, 1000 ms",
        ),
        (
            one(", check: {by: udp}").replace("'80'", "80-81"),
            "services: entry 1: web: check: with several `ports` a `port` is needed",
        ),
        (format!("services: [{}, {}]", service(""), service("")), "services: `web` is there twice"),
        (
            format!(
                "services: [{}, {}]",
                service(""),
                service("").replace("web", "shop").replace("'80'", "79-81")
            ),
            "services: `shop` and `web` share an address and port",
        ),
        (
            format!(
                "services: [{}, {}]",
                service(", servers: [{address: 10.0.0.1, port: 81}]"),
                service(", servers: [{address: 10.0.0.1}]").replace("web", "shop").replace("'80'", "'81'")
            ),
            "services: `web` and `shop` share the server 10.0.0.1 and its port, so that its answers could be of either; \
             allowed are different ports, or `forward: direct`",
        ),
    ] {
        assert_eq!(refusal(&config, ""), wanted);
    }
}

#[test]
fn faults_of_the_file_are_told_with_their_lines() {
    let config =
        format!("services: [{{name: web, address: {VIP}, protocol: tcp, ports: '80'}}]\nservers_file: list");
    for (file, wanted) in [
        (
            "web 10.0.0.1\n\nweb",
            "line 3: allowed is a service and a server, such as `web 10.0.0.1:8080`: `web`",
        ),
        ("shop 10.0.0.1 # no such", "line 1: no service is named so; there are web: `shop 10.0.0.1`"),
        (
            "web 10.0.0.1:0",
            "line 1: the server is no address, nor an address and port such as 10.0.0.1:80 or [2001:db8::1]:80: `web 10.0.0.1:0`",
        ),
        (
            "web 10.0.0.1 weight 257",
            "line 1: `weight` needs a number from 0 to 256: `web 10.0.0.1 weight 257`",
        ),
        (
            "web 10.0.0.1 mac 2:0:0:0:0:1",
            "line 1: `mac` needs an address such as 02:00:00:00:00:01: `web 10.0.0.1 mac 2:0:0:0:0:1`",
        ),
        (
            "web 10.0.0.1 heavy",
            "line 1: allowed behind the server: `weight NUMBER`, `drain`, `mac ADDRESS`: `web 10.0.0.1 heavy`",
        ),
        ("web 10.0.0.1\nweb 10.0.0.1:80", "line 2: 10.0.0.1 port 80 is there twice: `web 10.0.0.1:80`"),
    ] {
        assert_eq!(refusal(&config, file), format!("servers_file: list: {wanted}"));
    }
    let good = "# two\nweb 10.0.0.1:8080 weight 2 mac 02:00:00:00:00:01\n web\t10.0.0.2 drain\n";
    assert_eq!(Bench::with_file(&config, good).report()["services"]["web"]["servers"], 2);
    let six = config.replace(VIP, "'2001:db8:f::7'");
    assert_eq!(
        Bench::with_file(&six, "web [2001:db8::1]:8080\nweb 2001:db8::2").report()["services"]["web"]["servers"],
        2
    );
}

#[test]
fn the_example_of_the_readme_is_one() {
    let (_, rest) = include_str!("../../README.md").split_once("```yaml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let document = Document::parse("README.md", example).expect("YAML");
    let node = |keys: &[&str]| keys.iter().fold(document.root(), |node, key| node.get(key).expect("a key"));
    let manifest = Manifest::parse("function.yaml", include_str!("../../function.yaml")).expect("in order");
    let mut faults = vec![];
    let config = node(&["functions", "front", "config"]);
    let value = manifest.schema.check("README.md", "", Some(config), &mut faults);
    assert_eq!(faults, []);
    let runner = Runner::<LoadBalancer>::new(&value.expect("without faults").to_cbor()).expect("it works");
    let report: serde_json::Value =
        serde_json::from_str(&runner.report(at(0.0)).expect("always")).expect("JSON");
    assert_eq!(report["services"]["web"]["servers"], 3);
}
