//! What carries packets: chains, tenants, devices, workers, switches and pools.

use super::*;

#[test]
fn a_chain_runs_to_its_end_and_every_packet_is_accounted_for() {
    let (lines, output) = run_file(CHAIN, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(lines[0]["event"], "running");
    assert!(lines.iter().any(|line| line["event"] == "finished"));
    let account = last(&lines);
    let gate = &account["functions"]["gate"];
    let (denied, passed) = (gate["drops"]["denied"].as_u64().unwrap_or(0), 20_000);
    let delivered = account["ports"]["end"]["packets"]["delivered"].as_u64().expect("a count");
    assert_eq!(delivered + denied, passed, "{account}");
    let hits: Vec<u64> = gate["report"]["rules"]
        .as_array()
        .expect("rules")
        .iter()
        .map(|rule| rule["hits"].as_u64().expect("hits"))
        .collect();
    assert_eq!(hits, [denied, delivered]);
    assert_eq!(account["functions"]["swap"]["packets"], delivered);
    let seen = &account["functions"]["flows"];
    assert_eq!(
        seen["packets"].as_u64().expect("a count") + seen["missed"].as_u64().expect("a count"),
        passed
    );
    assert_eq!(account["packets"]["dropped"].get("function").and_then(Value::as_u64).unwrap_or(0), denied);
}

#[test]
fn two_tenants_exchange_copies() {
    let yaml = fs::read_to_string(root().join("examples/tenants.yaml")).expect("the example");
    let (lines, output) = run_file(&yaml.replace("rate: 50kpps", "rate: 50kpps, count: 5000"), &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let account = last(&lines);
    let red = &account["functions"]["red_forwarder"];
    assert_eq!(account["functions"]["blue_forwarder"]["ledger"]["consumed"], 5000);
    assert_eq!(red["ledger"]["copied"], 5000);
    assert_eq!(account["ports"]["end"]["packets"]["delivered"], 5000);
}

#[test]
fn inside_hosts_share_an_outside_address() {
    let yaml = fs::read_to_string(root().join("examples/nat.yaml")).expect("the example");
    let (lines, output) = run_file(&yaml.replace("rate: 200kpps", "rate: 200kpps, count: 5000"), &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let account = last(&lines);
    let report = &account["functions"]["home"]["report"];
    assert_eq!(report["packets"]["outward"], 5000, "{account}");
    assert_eq!(report["sessions"]["now"], 1000);
    // The sink has looked at every checksum.
    assert_eq!(account["ports"]["end"]["packets"]["delivered"], 5000);
    assert_eq!(account["ports"]["end"]["packets"]["dropped"], serde_json::json!({}));
}

/// Flows go to the servers that have weight, by their weights.
#[test]
fn servers_share_the_flows_of_a_virtual_address() {
    let folder = tempfile::tempdir().expect("a folder");
    let servers = fs::read_to_string(root().join("examples/load-balancer.servers")).expect("the example");
    fs::write(folder.path().join("load-balancer.servers"), &servers).expect("written");
    let yaml = fs::read_to_string(root().join("examples/load-balancer.yaml")).expect("the example");
    let file = folder.path().join("load-balancer.yaml");
    fs::write(&file, yaml.replace("rate: 100kpps", "rate: 100kpps, count: 8192")).expect("written");
    let output = run(&["run", &file.display().to_string(), "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
        .collect();
    let account = last(&lines);
    let report = &account["functions"]["front"]["report"];
    assert_eq!(report["packets"]["forwarded"], 8192, "{account}");
    let dns = &report["services"]["dns"];
    assert_eq!((&dns["servers"], &dns["connections"]), (&4.into(), &4096.into()));
    let most = dns["most"].as_u64().expect("a count");
    assert!((1900..2200).contains(&most), "half of them: {most}");
    // The sink has looked at every checksum.
    assert_eq!(account["ports"]["farm"]["packets"]["delivered"], 8192);
    assert_eq!(account["ports"]["farm"]["packets"]["dropped"], serde_json::json!({}));
}

#[test]
fn devices_share_a_port_and_openers_share_a_device() {
    let yaml = fs::read_to_string(root().join("examples/devices.yaml")).expect("the example");
    let (lines, output) = run_file(&yaml.replace("rate: 100kpps", "rate: 100kpps, count: 8000"), &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let account = last(&lines);
    let of = |kind: &str, name: &str| account[kind][name].clone();
    let delivered = |port: &str| of("ports", port)["packets"]["delivered"].as_u64().expect("a count");
    let packets = |function: &str| of("functions", function)["packets"].as_u64().expect("a count");
    assert_eq!(delivered("nic2") + delivered("nic3"), 8000, "{account}");
    assert!(delivered("nic3") > 0);
    assert_eq!((packets("gate"), packets("resolver")), (delivered("nic2"), delivered("nic3")));
    assert_eq!(packets("ids"), packets("gate"), "copies of all that the gate got");
    assert_eq!(packets("watcher"), packets("ids"));
    assert_eq!(of("devices", "edge")["copied"].as_u64(), Some(packets("gate")));
    assert_eq!(of("port_devices", "nic1")["received"], 8000);
    assert_eq!(of("ports", "nic1")["packets"]["dropped"], serde_json::json!({}));
    assert_eq!(of("devices", "suspects")["from_openers"], packets("ids"), "one that is no more than a wire");
}

/// MVMP, figure 3 and table 1: every packet goes where the table says. What comes by `nic1` is in VXLAN, and
/// what leaves by it; of `nic5` two VLANs are wanted and a third one is not.
#[test]
fn the_wiring_of_the_paper_carries_packets_as_its_table_says() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["mvmp-vxlan.pcap", "mvmp-vlan.pcap"] {
        fs::copy(root().join("examples").join(name), folder.path().join(name)).expect("copied");
    }
    let yaml = fs::read_to_string(root().join("examples/mvmp.yaml")).expect("the example");
    let limited = yaml
        .replace("rate: 50kpps", "rate: 50kpps, count: 2000")
        .replace("mvmp-vxlan.pcap, loop: 0", "mvmp-vxlan.pcap, loop: 50, write: nic1.pcapng")
        .replace("mvmp-vlan.pcap, loop: 0", "mvmp-vlan.pcap, loop: 50")
        .replace("suspicious: {type: sink}", "suspicious: {type: pcap, write: suspicious.pcapng}")
        .replace("seen: {type: sink}", "seen: {type: pcap, write: seen.pcapng}");
    let (lines, output) = run_in(folder.path(), &limited, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let account = last(&lines);
    let number = |value: &serde_json::Value| value.as_u64().expect("a count");
    let port = |name: &str, key: &str| number(&account["ports"][name]["packets"][key]);
    let bytes = |name: &str, key: &str| number(&account["ports"][name][key]);
    let packets = |function: &str| number(&account["functions"][function]["packets"]);
    // Of the first row 400 packets, and of the second one 2000 for this device.
    assert_eq!((packets("vx_gw"), port("nic1", "delivered"), port("nic2", "delivered")), (2400, 2000, 400));
    let headers = 50;
    assert_eq!(bytes("nic1", "delivered_bytes"), bytes("nic2", "received_bytes") + 2000 * headers);
    assert_eq!(bytes("nic2", "delivered_bytes"), bytes("nic1", "received_bytes") - 400 * headers);
    assert_eq!((packets("ids"), packets("dpi"), port("suspicious", "delivered")), (4000, 4000, 4000));
    assert_eq!((packets("firewall"), packets("ips"), port("seen", "delivered")), (400, 400, 400));
    let dropped = serde_json::json!({"no-device": 100});
    assert_eq!(
        (&account["packets"]["dropped"], &account["ports"]["nic5"]["packets"]["dropped"]),
        (&dropped, &dropped)
    );
    // By the sources: bridge0 has what it wants of nic2, bond0 the rest of what it wants there.
    let among = |name: &str, wanted: &dyn Fn(&[u8]) -> bool| {
        let capture = fs::read(folder.path().join(name)).expect("a capture");
        let word =
            |at: usize| u32::from_le_bytes(capture[at..at + 4].try_into().expect("four bytes")) as usize;
        let (mut at, mut count) = (0, 0);
        while at < capture.len() {
            // An enhanced packet block.
            if word(at) == 6 {
                let frame = &capture[at + 28..at + 28 + word(at + 20)];
                assert!(wanted(frame), "{name}: {frame:02x?}");
                count += 1;
            }
            at += word(at + 4);
        }
        count
    };
    let in_vxlan = |frame: &[u8]| frame[36..38] == [0x12, 0xb5] && frame[76..78] == [192, 168];
    assert_eq!(among("nic1.pcapng", &in_vxlan), 2000);
    assert_eq!(
        among("suspicious.pcapng", &|frame| frame[26] == 192 || frame[26..29] == [198, 51, 100]),
        4000
    );
    assert_eq!(
        among("seen.pcapng", &|frame| frame[12..15] == [0x81, 0, 0] && matches!(frame[15], 1 | 2)),
        400
    );
}

#[test]
fn a_router_leads_each_packet_by_the_longest_prefix() {
    let folder = tempfile::tempdir().expect("a folder");
    let routes = fs::read_to_string(root().join("examples/router.routes")).expect("the example");
    fs::write(folder.path().join("router.routes"), &routes).expect("written");
    let yaml = fs::read_to_string(root().join("examples/router.yaml")).expect("the example");
    let file = folder.path().join("router.yaml");
    fs::write(&file, yaml.replace("rate: 100kpps", "count: 8192")).expect("written");
    let output = run(&["run", &file.display().to_string(), "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
        .collect();
    let account = last(&lines);
    let delivered = |port: &str| account["ports"][port]["packets"]["delivered"].as_u64().expect("a count");
    let counters = &account["functions"]["core"]["counters"];
    assert_eq!(counters["forwarded"].as_u64(), Some(delivered("north") + delivered("east")), "{account}");
    assert_eq!(
        counters["forwarded"].as_u64().map(|n| n + counters["blackhole"].as_u64().unwrap_or(0)),
        Some(8192)
    );
    assert!(delivered("north") > 0 && delivered("east") > 0 && counters["blackhole"].as_u64() > Some(0));

    // A line that is none keeps the router from starting, and is named.
    fs::write(folder.path().join("router.routes"), format!("{routes}10.0.0.0/8 via\n")).expect("written");
    let output = run(&["run", &file.display().to_string()]);
    assert!(!output.status.success());
    let error = text(&output.stderr);
    assert!(
        error.contains("routes_file: ") && error.contains("router.routes: line 8: allowed after"),
        "{error}"
    );
}

#[test]
fn a_vxlan_gateway_sends_what_is_for_all_to_each_endpoint() {
    let yaml = fs::read_to_string(root().join("examples/vxlan-gateway.yaml")).expect("the example");
    let (lines, output) = run_file(&yaml.replace("rate: 100kpps", "rate: 100kpps, count: 5000"), &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let account = last(&lines);
    let counters = &account["functions"]["gateway"]["counters"];
    let number = |name: &str| counters[name].as_u64().unwrap_or(0);
    assert_eq!((number("flooded"), number("copies") + number("copies-lost")), (5000, 5000), "{account}");
    // The sink has looked at the checksums of all of them.
    assert_eq!(account["ports"]["wan"]["packets"]["delivered"].as_u64(), Some(5000 + number("copies")));
    assert_eq!(account["packets"]["dropped"], serde_json::json!({}));
}

#[test]
fn tenants_and_their_functions_get_the_processor_that_they_were_promised() {
    let yaml = fs::read_to_string(root().join("examples/shares.yaml")).expect("the example");
    let (lines, output) = run_file(&yaml, &["--for", "3s"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let functions = &last(&lines)["functions"];
    let cycles = |name: &str| functions[name]["cycles"].as_f64().expect("cycles");
    let promised = |name: &str| functions[name]["promised_share"].as_f64().expect("a share");
    // Shares of what all got: whatever else the machine does, it takes from all alike. The throttled function
    // gets a part of the time that passes, and its tenant's other function the rest of what is the tenant's.
    let iron = |of: &dyn Fn(&str) -> f64| of("iron_plain") + of("iron_held");
    let all = cycles("gold_large") + cycles("gold_small") + iron(&cycles);
    let due = promised("gold_large") + promised("gold_small") + iron(&promised);
    let shares = [
        ("gold_large", cycles("gold_large"), promised("gold_large")),
        ("gold_small", cycles("gold_small"), promised("gold_small")),
        ("iron", iron(&cycles), iron(&promised)),
    ];
    for (name, got, wanted) in shares {
        let (got, wanted) = (got / all, wanted / due);
        assert!((got - wanted).abs() < 0.03, "{name}: {got:.3} of what all got, {wanted:.3} promised");
    }
    assert!((promised("gold_large") - 0.5).abs() < 1e-6 && (promised("iron_held") - 0.05).abs() < 1e-6);
    let worker = &last(&lines)["workers"][0];
    let others = ["overhead_cycles", "asleep_cycles", "withheld_cycles"];
    let others: f64 = others.map(|time| worker[time].as_f64().expect("cycles")).iter().sum();
    let part = cycles("iron_held") / (all + others);
    assert!(part < 0.055, "the cap of 5% holds: {part:.3} of the time that passed");
    assert!(functions["iron_held"]["throttled_cycles"].as_u64() > Some(0));
}

#[test]
fn two_workers_share_chains_and_a_switch_joins_what_is_plugged_into_it() {
    let yaml = "
superfluid: 1
workers: {count: 2, balance: true}
switches:
  hall: {}
ports:
  source: {type: generator, flows: 500, count: 20000, rate: 50kpps}
  other: {type: generator, flows: 500, count: 20000, rate: 50kpps}
  behind: {type: sink}
  apart: {type: sink, io: thread}
functions:
  here: {image: forwarder, worker: 0}
  there: {image: forwarder, worker: 1}
chains:
  one: [source, here, hall]
  two: [hall, there, behind]
  three: [other, apart]
";
    let (lines, output) = run_file(yaml, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let account = last(&lines);
    // There is no answer, so the switch floods, and there is one other port.
    assert_eq!(account["ports"]["behind"]["packets"]["delivered"], 20_000, "{account}");
    assert_eq!(account["ports"]["apart"]["packets"]["delivered"], 20_000, "{account}");
    assert_eq!(account["functions"]["here"]["worker"], 0);
    assert_eq!(account["functions"]["there"]["worker"], 1);
    assert_eq!(
        account["workers"].as_array().map(Vec::len),
        Some(3),
        "two, and one for the port with a thread"
    );
}

#[test]
fn accounts_show_what_a_switch_knows_and_counted() {
    let yaml = "
superfluid: 1
switches:
  hall: {}
ports:
  source: {type: generator, flows: 500, count: 2000, rate: 20kpps}
  end: {type: sink}
chains:
  one: [source, hall]
  two: [hall, end]
";
    let folder = tempfile::tempdir().expect("a folder");
    let (lines, output) = run_in(folder.path(), yaml, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let hall = &last(&lines)["switches"]["hall"];
    // There is no answer, so the switch floods; the frames have one source.
    assert_eq!((&hall["ports"], &hall["flooded"]), (&2.into(), &2_000.into()), "{hall}");
    assert_eq!((&hall["stations"], &hall["learned"], &hall["aged"]), (&1.into(), &1.into(), &0.into()));
    let told = text(&run(&["run", &folder.path().join("test.yaml").display().to_string()]).stdout);
    let expected = "  switch hall: 2 ports, 1 stations known; 2000 frames flooded, 1 addresses learned";
    assert!(told.lines().any(|line| line == expected), "{told}");
}

#[test]
fn observers_see_ports_devices_and_wires_and_take_nothing() {
    let yaml = "
superfluid: 1
ports:
  source: {type: generator, rate: 100kpps, flows: 500, count: 1000}
  end: {type: sink}
devices:
  edge: {mode: bridge, over: [source, end]}
  half: {mode: direct, over: {source: {receive: 'src net 198.18.0.0/17'}}}
functions:
  gate: {image: forwarder, config: {reflect: true}, attach: {left: edge}}
  both: {image: monitor}
  near: {image: monitor, pool: own}
  some: {image: monitor}
  wanted: {image: monitor}
observers:
  both: {at: ['edge~gate:left']}
  near: {at: ['edge:end', end], filter: 'not src net 198.18.0.0/17'}
  some: {at: [source], sample: 1/10}
  wanted: {at: [half]}
";
    let (lines, output) = run_file(yaml, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let account = last(&lines);
    let seen = |name: &str| {
        let of = |key: &str| account["functions"][name][key].as_u64().expect("a count");
        of("packets") + of("missed")
    };
    // All that there are find room in the function's queue: a port that feeds several is polled whether one
    // of them has room or not, so that with more packets some are lost where the program gets no processor
    // for a while.
    assert_eq!(account["ports"]["end"]["packets"]["delivered"], 1_000, "{account}");
    assert_eq!(account["packets"]["dropped"], serde_json::json!({}), "{account}");
    assert_eq!(seen("both"), 2_000, "to the function, and from it");
    assert_eq!(seen("wanted") * 2 + seen("near"), 2_000, "one half, and the other one at two places");
    assert!((50..150).contains(&seen("some")), "one of ten: {}", seen("some"));
    let near = &account["functions"]["near"];
    assert_eq!(near["ledger"]["copied"], near["packets"], "in another pool it gets copies");
}

#[test]
fn a_function_with_a_pool_of_its_own_gets_copies() {
    let yaml = CHAIN.replace("swap: {image: forwarder,", "swap: {image: forwarder, pool: own,");
    let (lines, output) = run_file(&yaml, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let account = last(&lines);
    assert_eq!(account["functions"]["swap"]["ledger"]["copied"], account["functions"]["swap"]["packets"]);
    assert_eq!(account["pools"].as_object().expect("pools").len(), 2);
}
