//! Captures: files that packets come from and go to, and what is captured beside.

use super::*;

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
fn captures_of_hops_that_are_not_there_are_refused_before_anything_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("test.yaml");
    fs::write(&file, CHAIN).expect("written");
    let file = file.display().to_string();
    let capture = |what: &str| format!("{what}={}", folder.path().join("x.pcapng").display());
    for (arguments, message) in [
        (
            vec!["--capture".to_owned(), capture("gaet")],
            "--capture gaet: there is no port, device or function `gaet`; allowed: source, end, gate, swap, flows; did you mean `gate`",
        ),
        (vec!["--capture".to_owned(), capture("flows")], "`flows` is an observer"),
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

/// What is captured at a hop, and how many packets that were.
fn captured(lines: &[Value], hop: &str, folder: &Path) -> (u64, String) {
    let told = lines.iter().find(|line| line["event"] == "captured" && line["hop"] == hop).expect(hop);
    let count = |key: &str| told[key].as_u64().expect("a number");
    let file = fs::read(folder.join(told["file"].as_str().expect("a file"))).expect("written");
    (count("written") + count("lost"), text(&file))
}

#[test]
fn devices_sides_of_devices_and_wires_are_hops() {
    let yaml = "
superfluid: 1
ports:
  source: {type: generator, flows: 500, count: 8000, rate: 50kpps, destination_ports: 50-57}
  end: {type: sink}
  asked: {type: sink}
devices:
  edge: {mode: bridge, over: {source: {receive: udp and not port 53}, end: {}}}
  names: {mode: direct, over: {source: {receive: udp port 53}}}
  pair: {mode: rootless}
functions:
  gate: {image: forwarder, config: {reflect: true}, attach: {left: edge}}
  first: {image: forwarder, attach: {left: names, right: pair}}
  last: {image: forwarder, attach: {left: pair, right: asked}}
";
    let folder = tempfile::tempdir().expect("a folder");
    let hops = ["edge", "edge:end", "edge:source", "names", "pair", "first:1~pair", "last:left"];
    let mut more = Vec::new();
    for (n, hop) in hops.iter().enumerate() {
        more.extend([
            "--capture".to_owned(),
            format!("{hop}={}", folder.path().join(format!("{n}")).display()),
        ]);
    }
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let (lines, output) = run_in(folder.path(), yaml, &more);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let delivered =
        |port: &str| last(&lines)["ports"][port]["packets"]["delivered"].as_u64().expect("a count");
    let (end, asked) = (delivered("end"), delivered("asked"));
    assert!(end > 0 && asked > 0 && end + asked == 8000, "{end} {asked}");
    let at = |hop: &str| captured(&lines, hop, folder.path());
    // A packet passes the device twice: to its opener, and from it to the other port.
    let (number, file) = at("edge");
    assert_eq!(number, 2 * end);
    assert!(
        file.contains("edge: from source: to gate:left") && file.contains("edge: from gate:left: to end")
    );
    let (number, file) = at("edge:end");
    assert_eq!(number, end);
    assert!(!file.contains("from source"));
    let (number, file) = at("edge:source");
    assert_eq!(number, end);
    assert!(file.contains("edge: from source: to gate:left") && !file.contains("to end"));
    assert_eq!(at("names").0, asked);
    for hop in ["pair", "first:1~pair", "last:left"] {
        assert_eq!(at(hop).0, asked, "{hop}");
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
