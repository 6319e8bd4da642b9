//! The program as its user meets it: files in, tables and JSON out, exit status. Needs no privileges.

#[path = "support/cache.rs"]
mod cache;

use cache::compiled;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn superfluid() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_superfluid"));
    command.env("XDG_CACHE_HOME", compiled());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(arguments: &[&str]) -> Output {
    superfluid().args(arguments).stdin(Stdio::null()).output().expect("the program starts")
}

/// Writes a file and runs it; the JSON lines.
fn run_file(yaml: &str, more: &[&str]) -> (Vec<Value>, Output) {
    let folder = tempfile::tempdir().expect("a folder");
    run_in(folder.path(), yaml, more)
}

fn run_in(folder: &Path, yaml: &str, more: &[&str]) -> (Vec<Value>, Output) {
    let file = folder.join("test.yaml");
    fs::write(&file, yaml).expect("written");
    let output = superfluid()
        .args(["run", &file.display().to_string(), "--json"])
        .args(more)
        .output()
        .expect("the program starts");
    let lines = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
        .collect();
    (lines, output)
}

fn last(lines: &[Value]) -> &Value {
    let last = lines.last().expect("a final account");
    assert_eq!(last["event"], "final");
    assert_eq!(last["balanced"], true, "{last}");
    assert_eq!(last["in_flight"], 0, "{last}");
    for (name, pool) in last["pools"].as_object().expect("pools") {
        assert_eq!(pool["buffers"], pool["free"], "buffers of {name} are missing");
    }
    last
}

const CHAIN: &str = "
superfluid: 1
ports:
  source: {type: generator, flows: 500, count: 20000, rate: 50kpps}
  end: {type: sink, check: checksums}
functions:
  gate:
    image: firewall
    config:
      stateful: false
      rules:
        - {name: first-half, action: drop, protocol: udp, source: 198.18.0.0/17}
        - {name: the-rest, action: accept, protocol: udp}
  swap: {image: forwarder, config: {mode: swap}}
  flows: {image: monitor}
chains:
  main: [source, gate, swap, end]
observers:
  flows: {at: [gate]}
";

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
    assert!(of("devices", "suspects").is_null(), "a wire does what it does");
}

/// MVMP, figure 3 and table 1: every packet goes where the table says, and what leaves by `nic1` is in VXLAN.
#[test]
fn the_wiring_of_the_paper_carries_packets_as_its_table_says() {
    let yaml = fs::read_to_string(root().join("examples/mvmp.yaml")).expect("the example");
    let limited = yaml
        .replace("rate: 50kpps", "rate: 50kpps, count: 2000")
        .replace("rate: 10kpps", "rate: 10kpps, count: 500");
    let (lines, output) = run_file(&limited, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let account = last(&lines);
    let number = |value: &serde_json::Value| value.as_u64().expect("a count");
    let port = |name: &str, key: &str| number(&account["ports"][name]["packets"][key]);
    let packets = |function: &str| number(&account["functions"][function]["packets"]);
    assert_eq!((packets("vx_gw"), port("nic1", "delivered")), (2000, 2000));
    let bytes = |name: &str, key: &str| number(&account["ports"][name][key]);
    assert_eq!(
        bytes("nic1", "delivered_bytes"),
        bytes("nic2", "received_bytes") + 2000 * 50,
        "headers of VXLAN"
    );
    assert_eq!((packets("ids"), packets("dpi"), port("suspicious", "delivered")), (4000, 4000, 4000));
    assert_eq!((packets("firewall"), packets("ips"), port("seen", "delivered")), (500, 500, 500));
    assert_eq!(account["packets"]["dropped"], serde_json::json!({}));
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
fn a_function_with_a_pool_of_its_own_gets_copies() {
    let yaml = CHAIN.replace("swap: {image: forwarder,", "swap: {image: forwarder, pool: own,");
    let (lines, output) = run_file(&yaml, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let account = last(&lines);
    assert_eq!(account["functions"]["swap"]["ledger"]["copied"], account["functions"]["swap"]["packets"]);
    assert_eq!(account["pools"].as_object().expect("pools").len(), 2);
}

#[test]
fn a_capture_goes_in_and_another_comes_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let record =
        CHAIN.replace("end: {type: sink, check: checksums}", "end: {type: pcap, write: first.pcapng}");
    let (lines, _) = run_in(folder.path(), &record, &[]);
    let written = last(&lines)["ports"]["end"]["packets"]["delivered"].clone();
    assert!(written.as_u64().expect("a count") > 0);
    let replay = "
superfluid: 1
ports:
  tape: {type: pcap, read: first.pcapng, write: back.pcapng, pace: flat_out}
  end: {type: pcap, write: second.pcapng}
functions:
  swap: {image: forwarder, config: {mode: swap}}
chains:
  main: [tape, swap, end]
";
    let (lines, output) = run_in(folder.path(), replay, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(last(&lines)["ports"]["end"]["packets"]["delivered"], written);
    let (first, second) =
        (fs::metadata(folder.path().join("first.pcapng")), fs::metadata(folder.path().join("second.pcapng")));
    assert_eq!(first.expect("written").len(), second.expect("written").len());

    // A capture that ends in the middle: what could be read is processed, and where it broke is told.
    let whole = fs::read(folder.path().join("first.pcapng")).expect("readable");
    fs::write(folder.path().join("first.pcapng"), &whole[..whole.len() / 2]).expect("written");
    let (lines, output) = run_in(folder.path(), replay, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let half = last(&lines)["ports"]["tape"]["packets"]["received"].as_u64().expect("a count");
    assert!(half > 0 && half < written.as_u64().expect("a count"));
    let told: Vec<_> =
        lines.iter().filter(|line| line["event"] == "port" && line["what"] == "notice").collect();
    assert!(
        told.iter().any(|line| line["text"].as_str().is_some_and(|text| text.contains("byte"))),
        "{lines:?}"
    );
}

#[test]
fn a_wrong_file_is_told_whole_and_nothing_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("wrong.yaml");
    let yaml = CHAIN
        .replace("flows: 500", "flows: none")
        .replace("stateful: false", "statefull: false")
        .replace("protocol: udp, source: 198.18.0.0/17", "protocol: udp, source: 198.18.0.0/99")
        .replace("[source, gate, swap, end]", "[source, gaet, swap, end]");
    fs::write(&file, yaml).expect("written");
    for command in ["check", "run"] {
        let output = run(&[command, &file.display().to_string()]);
        assert_eq!(output.status.code(), Some(2));
        let errors = text(&output.stderr);
        for (line, what) in [(4, "flows"), (10, "statefull"), (12, "source"), (17, "gaet")] {
            let place = format!("wrong.yaml:{line}:");
            assert!(
                errors.lines().any(|error| error.contains(&place) && error.contains(what)),
                "no fault at line {line} about {what}:\n{errors}"
            );
        }
        assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    }
}

#[test]
fn files_that_are_no_files_and_images_that_are_none_are_refused() {
    let missing = run(&["run", "/no/such.yaml"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("/no/such.yaml"));

    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("bad.wasm"), b"\0asm\x01\0\0\0garbage").expect("written");
    let (lines, output) = run_in(folder.path(), &CHAIN.replace("image: monitor", "image: ./bad.wasm"), &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(lines.is_empty());
    assert!(text(&output.stderr).contains("bad.wasm"), "{}", text(&output.stderr));

    let inspected = run(&["image", "inspect", &folder.path().join("bad.wasm").display().to_string()]);
    assert_eq!(inspected.status.code(), Some(2));
    for name in ["dpi", "firewall", "forwarder", "monitor", "policer", "router"] {
        let inspected = run(&["image", "inspect", name]);
        assert!(inspected.status.success());
        assert!(text(&inspected.stdout).contains(name));
    }
}

/// What measures is another program, which may not be there.
#[test]
fn bench_starts_the_program_beside_it_or_says_that_there_is_none() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let program = folder.path().join("superfluid");
    std::fs::hard_link(env!("CARGO_BIN_EXE_superfluid"), &program).expect("in the same file system");
    let bench = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.arg("bench").args(arguments).env("PATH", "").output().expect("it runs")
    };
    let missing = bench(&["call"]);
    assert_eq!(missing.status.code(), Some(3));
    assert!(text(&missing.stderr).contains("superfluid-bench"), "{}", text(&missing.stderr));
    let beside = folder.path().join("superfluid-bench");
    std::fs::write(&beside, "#!/bin/sh\necho \"$@\"\nexit 7\n").expect("written");
    std::fs::set_permissions(&beside, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("set");
    let started = bench(&["call", "--json", "--help"]);
    assert_eq!((text(&started.stdout).trim(), started.status.code()), ("call --json --help", Some(7)));
}

#[test]
fn an_interface_that_is_not_there_is_told_and_the_rest_goes_on() {
    let yaml = CHAIN
        .replace(
            "chains:",
            "  spare: {image: forwarder, config: {mode: swap}}\nchains:\n  other: [wire, spare, nothing]",
        )
        .replace(
            "functions:",
            "  wire: {type: af_packet, interface: sf-not-there}\n  nothing: {type: \"null\"}\nfunctions:",
        );
    let (lines, output) = run_file(&yaml, &["--for", "1s"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("sf-not-there"), "{}", text(&output.stderr));
    let account = last(&lines);
    assert_eq!(account["ports"]["wire"]["status"], "down");
    assert!(account["ports"]["end"]["packets"]["delivered"].as_u64().expect("a count") > 0);
}

#[test]
fn signals_drain_report_and_end_well() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("test.yaml");
    fs::write(&file, CHAIN.replace("count: 20000, ", "")).expect("written");
    for signal in ["INT", "TERM"] {
        let mut child = superfluid()
            .args(["run", &file.display().to_string(), "--json", "--every", "100ms"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let id = child.id().to_string();
        let said = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut said = said.map(|line| serde_json::from_str::<Value>(&line.expect("text")).expect("JSON"));
        let two = said.by_ref().filter(|line| line["event"] == "account").take(2).count();
        assert_eq!(two, 2, "accounts while it runs");
        let killed = Command::new("kill").args([&format!("-{signal}"), &id]).status().expect("kill");
        assert!(killed.success());
        let began = Instant::now();
        let lines: Vec<Value> = said.collect();
        assert!(child.wait().expect("it ends").success());
        assert!(began.elapsed() < Duration::from_secs(60), "it took its time");
        last(&lines);
    }
}

#[test]
fn the_view_for_people_says_what_matters() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("test.yaml");
    fs::write(&file, CHAIN.replace("count: 20000, ", "")).expect("written");
    let output = run(&["run", &file.display().to_string(), "--for", "700ms", "--every", "200ms"]);
    assert!(output.status.success());
    let shown = text(&output.stdout);
    for what in ["running", "gate", "final account", "the account balances", "the-rest"] {
        assert!(shown.contains(what), "`{what}` is missing:\n{shown}");
    }
}

#[test]
fn every_example_and_every_file_in_the_documents_is_good() {
    for entry in fs::read_dir(root().join("examples")).expect("examples") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let output = run(&["check", &path.display().to_string()]);
            assert!(output.status.success(), "{}", text(&output.stderr));
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut files = 0;
    for document in ["README.md", "docs/configuration.md"] {
        let document = fs::read_to_string(root().join(document)).expect("the document");
        for block in document.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            if block.contains("superfluid: 1") {
                files += 1;
                let file = folder.path().join(format!("{files}.yaml"));
                fs::write(&file, block).expect("written");
                let output = run(&["check", &file.display().to_string()]);
                assert!(output.status.success(), "{block}\n{}", text(&output.stderr));
            }
        }
    }
    assert!(files >= 2, "the documents' files were not found");
}

#[test]
fn the_functions_of_the_readme_build_and_run() {
    let readme = fs::read_to_string(root().join("README.md")).expect("the document");
    let block = |after: &str, language: &str| {
        let rest = readme.split_once(after).unwrap_or_else(|| panic!("no `{after}`")).1;
        let rest = rest.split_once(&format!("```{language}\n")).expect("a block").1;
        rest.split_once("```").expect("an end").0.to_owned()
    };
    let folder = tempfile::tempdir().expect("a folder");
    let hello = folder.path().join("hello");
    fs::create_dir_all(hello.join("src")).expect("a folder");
    fs::write(hello.join("function.yaml"), block("`function.yaml`", "yaml")).expect("written");
    fs::write(hello.join("src/lib.rs"), block("`src/lib.rs`", "rust")).expect("written");
    let sdk = root().join("crates/sandbox/nf_sdk").canonicalize().expect("the SDK").display().to_string();
    let manifest = block("`Cargo.toml`", "toml").replace("../superfluid/crates/sandbox/nf_sdk", &sdk);
    fs::write(hello.join("Cargo.toml"), manifest).expect("written");
    let image = folder.path().join("hello.wasm");
    let built =
        run(&["image", "build", &hello.display().to_string(), "--output", &image.display().to_string()]);
    assert!(built.status.success(), "{}", text(&built.stderr));
    let (lines, output) = run_in(
        folder.path(),
        "
superfluid: 1
ports:
  source: {type: generator, sizes: [{size: 100}, {size: 800}], count: 1000, rate: 100kpps}
  end: {type: sink}
functions:
  hello: {image: ./hello.wasm, config: {limit: 500}}
chains:
  main: [source, hello, end]
",
        &[],
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let account = last(&lines);
    let dropped = account["functions"]["hello"]["drops"]["too-big"].as_u64().expect("some are too big");
    assert!(dropped > 300 && dropped < 700, "{dropped} of 1000");
    assert_eq!(account["ports"]["end"]["packets"]["delivered"].as_u64().expect("a count") + dropped, 1000);
}

#[test]
fn help_has_an_example_for_every_command() {
    for arguments in [
        &["run"][..],
        &["check"],
        &["new"],
        &["completions"],
        &["man"],
        &["image", "build"],
        &["image", "inspect"],
        &[],
    ] {
        let output = run(&[arguments, &["--help"]].concat());
        assert!(output.status.success());
        assert!(text(&output.stdout).contains("Example"), "{arguments:?}");
    }
}

/// Runs a command in a folder; its standard output.
fn command_in(folder: &Path, program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .env_remove("CARGO_TARGET_DIR")
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{program} {arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_new_function_builds_runs_in_a_chain_and_has_a_test() {
    let folder = tempfile::tempdir().expect("a folder");
    for (language, name, tests) in
        [("rust", "length-limit", ["cargo", "test", "--quiet"].as_slice()), ("c", "gate", &["make", "test"])]
    {
        let place = folder.path().join(name);
        let made = run(&["new", name, "--lang", language, "--path", &place.display().to_string()]);
        assert!(made.status.success(), "{}", text(&made.stderr));
        command_in(&place, tests[0], &tests[1..]);
        let image = place.join(format!("{name}.wasm"));
        let built =
            run(&["image", "build", &place.display().to_string(), "--output", &image.display().to_string()]);
        assert!(built.status.success(), "{}", text(&built.stderr));
        assert!(text(&built.stderr).contains("tests/image.yaml: passed (1 cases, 3 packets)"));
        assert!(text(&built.stdout).lines().any(|line| line.starts_with("foreign exports")));
        image_builds_are_tested_and_cut(&place, name);
        let captured = place.join("dropped.pcapng").display().to_string();
        let output = run(&[
            "run",
            &place.join("example.yaml").display().to_string(),
            "--json",
            "--capture",
            &format!("{name}={captured}"),
            "--capture-filter",
            "dropped",
        ]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let lines: Vec<Value> = text(&output.stdout)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
            .collect();
        let function = &last(&lines)["functions"][name];
        let (passed, dropped) = (&function["counters"]["passed"], &function["drops"]["too-long"]);
        assert_eq!(passed.as_u64().unwrap_or(0) + dropped.as_u64().unwrap_or(0), 100_000);
        assert!(dropped.as_u64() > Some(10_000), "{function}");
        let capture = lines.iter().find(|line| line["event"] == "captured").expect("told");
        assert_eq!(&capture["written"], dropped, "{capture}");
        let comment = format!("{name}: from left: drop too-long");
        let bytes = fs::read(&captured).expect("a capture");
        assert!(bytes.windows(comment.len()).any(|window| window == comment.as_bytes()));

        let again = run(&["new", name, "--lang", language, "--path", &place.display().to_string()]);
        assert_eq!(again.status.code(), Some(2));
        assert!(text(&again.stderr).contains("is there already"), "{}", text(&again.stderr));
    }
    for bad in ["Hello", "fn", "9lives", "", "null", "../x"] {
        let refused = run(&["new", bad, "--path", &folder.path().join("bad").display().to_string()]);
        assert_eq!(refused.status.code(), Some(2), "{bad}");
        assert!(text(&refused.stderr).contains("no name for a function"), "{}", text(&refused.stderr));
    }
    assert!(!folder.path().join("bad").exists());
}

#[test]
fn a_panic_tells_its_place_and_text_and_its_backtrace() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("fragile");
    let made = run(&["new", "fragile", "--lang", "rust", "--path", &place.display().to_string()]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let source = place.join("src/lib.rs");
    let code = fs::read_to_string(&source).expect("its source");
    let first = "for mut packet in batch.packets() {";
    assert_eq!(code.matches(first).count(), 1);
    let code = code.replace(first, &format!("{first}\n            checked(packet.len(), self.longest);"));
    let panics = "#[inline(never)]\nfn checked(length: usize, longest: usize) {\n    \
                  assert!(length <= longest, \"{length} bytes are more than {longest}\");\n}\n";
    fs::write(&source, format!("{code}\n{panics}")).expect("its source");
    let (from, image) = (place.display().to_string(), place.join("fragile.wasm").display().to_string());
    let built = run(&["image", "build", &from, "--no-cut", "--names", "--output", &image]);
    assert!(built.status.success(), "{}", text(&built.stderr));

    let output = run(&["run", &place.join("example.yaml").display().to_string(), "--json", "--perf-map"]);
    let events: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
        .collect();
    let find = |kind: &str| events.iter().find(|event| event["event"] == kind);
    let log = find("log").unwrap_or_else(|| panic!("no log: {}", text(&output.stdout)));
    let said = log["text"].as_str().unwrap_or_default();
    assert!(said.starts_with("panicked at src/lib.rs:"), "{said}");
    assert!(said.ends_with(": 800 bytes are more than 500"), "{said}");
    assert_eq!(log["severity"], "error");
    let fault = find("fault").unwrap_or_else(|| panic!("no fault: {}", text(&output.stdout)));
    let reason = fault["reason"].as_str().unwrap_or_default();
    let (checked, process) = (reason.find("checked"), reason.find("sf_process"));
    assert!(checked.is_some() && checked < process, "{reason}");

    let notice = text(&output.stderr);
    let (_, path) = notice.split_once("named to perf in ").unwrap_or_else(|| panic!("{notice}"));
    let path = path.lines().next().unwrap_or_default();
    let map = fs::read_to_string(path).expect("a map");
    fs::remove_file(path).expect("its own file");
    let line = map.lines().find(|line| line.contains("fragile::") && line.contains("checked"));
    let fields: Vec<&str> = line.unwrap_or_else(|| panic!("{map}")).split(' ').collect();
    let [address, length, _] = fields.as_slice() else { panic!("three fields: {fields:?}") };
    assert!(u64::from_str_radix(address, 16).is_ok_and(|it| it > 0), "{address}");
    assert!(u64::from_str_radix(length, 16).is_ok_and(|it| it > 0), "{length}");
}

/// Builds the function once more in other ways: without its test, without cuts, and with a test that it
/// fails.
fn image_builds_are_tested_and_cut(place: &Path, name: &str) {
    let folder = place.display().to_string();
    let image = place.join("other.wasm").display().to_string();
    let build = |more: &[&str]| run(&[&["image", "build", &folder, "--output", &image], more].concat());
    let size = || fs::metadata(&image).expect("an image").len();

    let listed = build(&["-o", "json", "--for", "size"]);
    assert!(listed.status.success(), "{}", text(&listed.stderr));
    let steps: Vec<Value> = serde_json::from_slice(&listed.stdout).expect("a list and nothing else");
    let saved: i64 = steps.iter().map(|step| step["saved_bytes"].as_i64().expect("a number")).sum();
    let first = steps[0]["before_bytes"].as_i64().expect("a number");
    assert_eq!(first - saved, size() as i64, "{name}: what was saved is what is missing");
    assert!(steps.iter().any(|step| step["kept"] == true && step["cost_ratio"].is_f64()), "{steps:?}");
    let smallest = size();

    let whole = build(&["--no-cut"]);
    assert!(whole.status.success() && !text(&whole.stdout).contains("CUT"), "{}", text(&whole.stdout));
    assert!(size() > smallest, "{} bytes without cuts, {smallest} with", size());

    let test = place.join("tests/image.yaml");
    let wanted = fs::read_to_string(&test).expect("the test");
    fs::write(&test, wanted.replace("passed: 2", "passed: 3")).expect("written");
    let failed = build(&[]);
    assert_eq!(failed.status.code(), Some(2));
    assert!(text(&failed.stderr).contains("the counter `passed` is 2, wanted 3"), "{}", text(&failed.stderr));
    fs::write(&test, wanted.replace("too-long", "too-lang")).expect("written");
    let wrong = build(&[]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("tests/image.yaml:8:"), "{}", text(&wrong.stderr));

    fs::remove_file(&test).expect("removed");
    let untested = build(&[]);
    assert!(untested.status.success());
    assert!(text(&untested.stderr).contains("has no test of its image"), "{}", text(&untested.stderr));
    assert!(text(&untested.stdout).contains("the function has no test"), "{}", text(&untested.stdout));
    fs::write(&test, wanted).expect("written");
}

#[test]
fn captures_of_hops_that_are_not_there_are_refused_before_anything_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("test.yaml");
    fs::write(&file, CHAIN).expect("written");
    let file = file.display().to_string();
    let capture = |what: &str| format!("{what}={}", folder.path().join("x.pcapng").display());
    for (arguments, message) in [
        (vec!["--capture".to_owned(), capture("gaet")], "there is no such hop"),
        (vec!["--capture".to_owned(), capture("flows")], "it is an observer"),
        (vec!["--capture".to_owned(), "gate=/no/such/folder/x.pcapng".to_owned()], "No such file"),
        (
            vec!["--capture".to_owned(), capture("gate"), "--capture".to_owned(), capture("end")],
            "two captures into one file",
        ),
        (
            vec![
                "--capture".to_owned(),
                capture("gate"),
                "--capture-filter".to_owned(),
                "tcp prot 1".to_owned(),
            ],
            "column 5: found `prot`",
        ),
        (vec!["--capture-filter".to_owned(), "tcp".to_owned()], "--capture"),
    ] {
        let mut all = vec!["run".to_owned(), file.clone()];
        all.extend(arguments);
        let output = superfluid().args(&all).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{all:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(message), "{}", text(&output.stderr));
    }
}

#[test]
fn a_capture_that_reaches_its_limit_ends_and_the_traffic_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("small.pcapng").display().to_string();
    let capture = format!("gate={path}");
    let (lines, output) = run_in(folder.path(), CHAIN, &["--capture", &capture, "--capture-limit", "1MiB"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(last(&lines)["functions"]["gate"]["packets"], 20_000);
    let captured = lines.iter().find(|line| line["event"] == "captured").expect("told");
    let count = |key: &str| captured[key].as_u64().expect("a number");
    assert_eq!(count("written") + count("lost"), 20_000, "{captured}");
    assert!(count("lost") > 0 && captured["ended"].as_str().expect("why").contains("limit"), "{captured}");
    assert!(fs::metadata(path).expect("there").len() <= 1 << 20);
}

#[test]
fn completions_and_manual_pages_are_of_all_commands() {
    for (shell, sign) in
        [("bash", "complete -F _superfluid"), ("zsh", "#compdef superfluid"), ("fish", "complete -c")]
    {
        let script = run(&["completions", shell]);
        assert!(script.status.success());
        assert!(text(&script.stdout).contains(sign), "{shell}");
        assert!(text(&script.stdout).contains("capture-filter"), "{shell}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let written = run(&["man", "--output", &folder.path().display().to_string()]);
    assert!(written.status.success(), "{}", text(&written.stderr));
    for page in ["superfluid.1", "superfluid-run.1", "superfluid-image-build.1", "superfluid-new.1"] {
        let page = fs::read_to_string(folder.path().join(page)).expect(page);
        assert!(page.contains(".TH") && page.contains(".SH"), "{page}");
    }
    assert!(!folder.path().join("superfluid-compile-module.1").exists(), "hidden commands have no page");
}

#[test]
fn a_capture_file_goes_in_and_alerts_and_what_passed_come_out() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["pcap.yaml", "pcap.rules", "pcap-input.pcapng"] {
        fs::copy(root().join("examples").join(name), folder.path().join(name)).expect(name);
    }
    let output = run(&["run", &folder.path().join("pcap.yaml").display().to_string(), "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
        .collect();
    let alerts = fs::read_to_string(folder.path().join("pcap-alerts.json")).expect("alerts");
    let found: Vec<Value> =
        alerts.lines().map(|line| serde_json::from_str(line).expect("an alert is JSON")).collect();
    let mut told: Vec<_> = found
        .iter()
        .map(|alert| {
            assert_eq!(alert["event_type"], "alert", "{alert}");
            (
                alert["alert"]["signature_id"].as_u64(),
                alert["alert"]["action"].as_str(),
                alert["dest_port"].as_u64(),
            )
        })
        .collect();
    told.sort();
    assert_eq!(
        told,
        [
            (Some(1_000_001), Some("allowed"), Some(53)),
            (Some(1_000_002), Some("blocked"), Some(8080)),
            (Some(1_000_003), Some("allowed"), Some(80)),
        ]
    );
    let account = last(&lines);
    let (received, passed) = (
        &account["ports"]["input"]["packets"]["received"],
        &account["ports"]["output"]["packets"]["delivered"],
    );
    assert_eq!(
        (received.as_u64(), account["functions"]["detection"]["drops"]["rule"].as_u64()),
        (Some(26), Some(1))
    );
    assert!(passed.as_u64() < Some(26) && passed.as_u64() > Some(20), "{passed}");
    let written = lines.iter().find(|line| line["event"] == "events-written").expect("told");
    assert_eq!((&written["written"], &written["lost"]), (&Value::from(3), &Value::from(0)));
    let kept = fs::read(folder.path().join("pcap-passed.pcapng")).expect("what passed");
    assert!(!kept.windows(8).any(|window| window == b"calc.exe"), "what was dropped is not in it");
}

#[test]
fn a_capture_of_both_directions_enters_a_stateful_chain_at_both_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["two-sides.yaml", "pcap-input.pcapng"] {
        fs::copy(root().join("examples").join(name), folder.path().join(name)).expect(name);
    }
    let file = folder.path().join("two-sides.yaml");
    let output = run(&["run", &file.display().to_string(), "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
        .collect();
    let account = last(&lines);
    let packets = |port: &str, what: &str| account["ports"][port]["packets"][what].as_u64();
    assert_eq!((packets("inside", "received"), packets("outside", "received")), (Some(18), Some(8)));
    // An answer that came before its request would be dropped.
    assert_eq!((packets("outside", "delivered"), packets("inside", "delivered")), (Some(18), Some(8)));
    let sizes = ["two-sides-requests.pcapng", "two-sides-answers.pcapng"]
        .map(|name| fs::metadata(folder.path().join(name)).expect(name).len());
    assert!(sizes[0] > sizes[1] && sizes[1] > 8 * 54, "{sizes:?}");

    // What it is the other side of has to be there.
    let yaml = fs::read_to_string(&file).expect("the example");
    fs::write(&file, yaml.replace("side_of: inside", "side_of: outside")).expect("written");
    for command in ["check", "run"] {
        let output = run(&[command, &file.display().to_string()]);
        assert!(!output.status.success(), "{command}");
        let error = text(&output.stderr);
        assert!(error.contains("side_of: found `outside`; allowed: a pcap port"), "{command}: {error}");
    }
}

#[test]
fn flows_of_a_capture_are_exported_before_the_program_ends_with_recorded_time() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::copy(root().join("examples/pcap-input.pcapng"), folder.path().join("in.pcapng")).expect("copied");
    let file = folder.path().join("test.yaml");
    let yaml = r#"
superfluid: 1
ports:
  input: {type: pcap, read: in.pcapng, pace: flat_out}
  output: {type: sink}
  collector: {type: pcap, write: out.pcapng}
functions:
  flows:
    image: monitor
    config:
      bidirectional: false
      ipfix: {collector: 192.0.2.9, collector_mac: "02:00:00:00:09:09", source: 192.0.2.1, source_mac: "02:00:00:00:01:01"}
chains: {main: [input, flows, output]}
wires: [[flows:export, collector]]
"#;
    fs::write(&file, yaml).expect("written");
    let output = run(&["run", &file.display().to_string(), "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
        .collect();
    let report = &last(&lines)["functions"]["flows"]["report"];
    let flows = report["flows"]["tracked"].as_u64();
    assert_eq!((flows, report["ipfix"]["records"].as_u64() >= flows), (Some(8), true), "{report}");
    // What it has exported is in the file, and says when the packets were recorded: the last one's second.
    let until = report["until_ns"].as_u64().expect("a time") / 1_000_000;
    let exported = fs::read(folder.path().join("out.pcapng")).expect("what was exported");
    assert!(exported.windows(8).any(|window| window == until.to_be_bytes()), "{report}");
    assert_eq!(until, 1_760_000_000_039, "the capture's last packet");
}

#[test]
fn a_rule_file_with_mistakes_is_told_line_by_line_and_nothing_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(
        folder.path().join("bad.rules"),
        "alert tcp any any -> any any (msg:\"good\"; content:\"x\"; sid:1;)\n\
         alert tpc any any -> any any (msg:\"bad\"; content:\"x\"; sid:2;)\n\
         alert tcp any any -> any any (msg:\"bad\"; contnet:\"x\"; sid:3;)\n",
    )
    .expect("written");
    let file = folder.path().join("test.yaml");
    let yaml = "superfluid: 1\nports: {a: {type: \"null\"}, b: {type: \"null\"}}\n\
                functions: {ids: {image: dpi, config: {rules: bad.rules}}}\nchains: {main: [a, ids, b]}\n";
    fs::write(&file, yaml).expect("written");
    for command in ["check", "run"] {
        let output = run(&[command, &file.display().to_string()]);
        assert_eq!(output.status.code(), Some(2), "{command}");
        let errors = text(&output.stderr);
        for place in ["bad.rules:2:7: ", "bad.rules:3:"] {
            assert!(errors.contains(place), "{command}: {errors}");
        }
        assert!(errors.lines().count() >= 3 && !errors.contains("bad.rules:1:"), "{errors}");
    }
}
