//! Both sides, and their alerts.

use crate::capture::{BEGINNING, Capture};
use dpi::Dpi;
use nf_sdk::native::{ConfigValue, Runner, TestPacket};
use nf_sdk::{Nanos, PacketRecord};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Rule, and the packet's ends and protocol.
pub type Alert = (u64, String, u64, String, u64, String);

fn alert(line: &str) -> Option<Alert> {
    let event: Value = serde_json::from_str(line).expect("a line of JSON");
    let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
    let number = |key: &str| event[key].as_u64().unwrap_or_default();
    (event["event_type"] == "alert").then(|| {
        let sid = event["alert"]["signature_id"].as_u64().expect("a sid");
        (sid, text("src_ip"), number("src_port"), text("dest_ip"), number("dest_port"), text("proto"))
    })
}

/// A folder that is gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder =
            std::env::temp_dir().join(format!("dpi-{}-{}", std::process::id(), name.replace(' ', "-")));
        std::fs::create_dir_all(&folder).expect("a folder for temporary files");
        Folder(folder)
    }

    fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, contents).expect("a file in the temporary folder");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn settings(folder: &Path, reads_messages: bool) -> String {
    let folder = folder.display();
    let protocols = [
        "http",
        "http2",
        "tls",
        "dns",
        "smtp",
        "ftp",
        "ssh",
        "smb",
        "nfs",
        "tftp",
        "ike",
        "krb5",
        "snmp",
        "ntp",
        "dhcp",
        "sip",
        "rdp",
        "rfb",
        "mqtt",
        "pgsql",
        "telnet",
        "quic",
        "modbus",
        "dnp3",
        "enip",
        "imap",
        "bittorrent-dht",
        "dcerpc",
    ];
    let mut text = format!(
        "%YAML 1.1\n---\nmpm-algo: ac\nvars:\n  address-groups:\n    HOME_NET: \"[10.0.0.0/8]\"\n    EXTERNAL_NET: \"!$HOME_NET\"\n  port-groups:\n    \
         HTTP_PORTS: \"[80,8000:8080]\"\ndefault-log-dir: {folder}\noutputs:\n  - eve-log:\n      enabled: yes\n      filetype: regular\n      \
         filename: eve.json\n      types:\n        - alert\nstream:\n  memcap: 256mb\n  checksum-validation: yes\n  midstream: false\n  \
         reassembly:\n    memcap: 256mb\n    depth: 0\n    toserver-chunk-size: 65000\n    toclient-chunk-size: 65000\n    \
         randomize-chunk-size: no\nclassification-file: {folder}/classification.config\n\
         reference-config-file: {folder}/reference.config\nthreshold-file: {folder}/threshold.config\npacket-alert-max: 255\napp-layer:\n  protocols:\n"
    );
    let read = ["http", "tls", "dns"];
    for protocol in protocols {
        if reads_messages && read.contains(&protocol) {
            continue;
        }
        text += &format!("    {protocol}:\n      enabled: no\n");
    }
    if reads_messages {
        text += "    http:\n      enabled: yes\n      libhtp:\n        default-config:\n          personality: IDS\n          \
                 request-body-limit: 100kb\n          response-body-limit: 100kb\n          response-body-decompress-layer-limit: 2\n          \
                 double-decode-path: no\n          double-decode-query: no\n    tls:\n      enabled: yes\n    dns:\n      tcp:\n        \
                 enabled: yes\n        detection-ports:\n          dp: 53\n      udp:\n        enabled: yes\n        \
                 detection-ports:\n          dp: 53\n";
    }
    text
}

/// Suricata's alerts; `reads_messages`: with its readers of HTTP, TLS and DNS.
pub fn suricata(name: &str, rules: &str, capture: &Capture, reads_messages: bool) -> Vec<Alert> {
    told(name, rules, capture, reads_messages).unwrap_or_else(|said| panic!("suricata refuses:\n{said}"))
}

/// The same of the rules that Suricata takes, and what is left of the rules: a comment stands for each other.
pub fn suricata_of_those_that_it_takes(name: &str, rules: &str, capture: &Capture) -> (String, Vec<Alert>) {
    let said = match told(name, rules, capture, true) {
        Ok(alerts) => return (rules.to_owned(), alerts),
        Err(said) => said,
    };
    let line = |text: &str| text.split_whitespace().next()?.parse().ok();
    let refused: Vec<usize> = said.split(" at line ").skip(1).filter_map(line).collect();
    assert!(!refused.is_empty() && refused.len() < rules.lines().count() / 4, "suricata refuses:\n{said}");
    let keep = |(place, rule): (usize, &str)| {
        if refused.contains(&(place + 1)) { "#\n".to_owned() } else { format!("{rule}\n") }
    };
    let rules: String = rules.lines().enumerate().map(keep).collect();
    let alerts = suricata(name, &rules, capture, true);
    (rules, alerts)
}

/// The lines of a file of rules that Suricata refuses, with all of its readers.
pub fn refused(name: &str, rules: &str) -> Vec<usize> {
    let folder = Folder::new(name);
    for empty in ["classification.config", "reference.config", "threshold.config"] {
        folder.write(empty, "");
    }
    let text = settings(&folder.0, true).replace("enabled: no", "enabled: yes");
    let text = text + "    quic:\n      enabled: yes\n";
    let (config, rules) = (folder.write("suricata.yaml", text), folder.write("test.rules", rules));
    let mut command = Command::new("suricata");
    command.arg("-T").arg("-c").arg(config).arg("-S").arg(rules).arg("-l").arg(&folder.0);
    let output = command.output().expect("suricata (7.0, in bookworm-backports)");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    // What it says of rules for other versions has a line, too.
    let is_refusal = |line: &&str| line.contains("error parsing signature");
    let line = |text: &str| text.rsplit_once(" at line ")?.1.trim().parse().ok();
    said.lines().filter(is_refusal).filter_map(line).collect()
}

/// Its alerts, or what it says when it refuses the rules.
fn told(name: &str, rules: &str, capture: &Capture, reads_messages: bool) -> Result<Vec<Alert>, String> {
    let folder = Folder::new(name);
    for empty in ["classification.config", "reference.config", "threshold.config"] {
        folder.write(empty, "");
    }
    let config = folder.write("suricata.yaml", settings(&folder.0, reads_messages));
    let rules = folder.write("test.rules", rules);
    let pcap = folder.write("test.pcap", capture.pcap());
    let output = Command::new("suricata")
        .args(["--runmode", "single", "-k", "all", "--init-errors-fatal"])
        .arg("-c")
        .arg(config)
        .arg("-S")
        .arg(rules)
        .arg("-r")
        .arg(pcap)
        .arg("-l")
        .arg(&folder.0)
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => panic!(
            "suricata cannot be run ({error}); install the package `suricata` (7.0, in bookworm-backports), or run \
             scripts/setup test"
        ),
    };
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        return Err(String::from_utf8_lossy(&said).into_owned());
    }
    let log = std::fs::read_to_string(folder.0.join("eve.json")).expect("Suricata's log");
    Ok(log.lines().filter_map(alert).collect())
}

/// A configuration with the manifest's defaults, but for the rules and what the captures need.
fn configuration(rules: &str) -> Vec<u8> {
    let seconds = |s: i64| ConfigValue::Integer(s * 1_000_000_000);
    let variable = |name: &str, value: &str| {
        ConfigValue::map([("name", ConfigValue::text(name)), ("value", ConfigValue::text(value))])
    };
    ConfigValue::map([
        ("rules", ConfigValue::File("test.rules".into(), rules.as_bytes().to_vec())),
        (
            "variables",
            ConfigValue::List(vec![
                variable("HOME_NET", "[10.0.0.0/8]"),
                variable("EXTERNAL_NET", "!$HOME_NET"),
                variable("HTTP_PORTS", "[80,8000:8080]"),
            ]),
        ),
        ("inline", ConfigValue::text("alert")),
        ("drop_scope", ConfigValue::text("flow")),
        ("suspicious", ConfigValue::text("none")),
        ("overload", ConfigValue::text("accept")),
        ("malformed", ConfigValue::text("accept")),
        ("fragments", ConfigValue::text("accept")),
        ("ignored", ConfigValue::text("accept")),
        ("sides", ConfigValue::text("apart")),
        ("checksums", ConfigValue::text("verify")),
        ("overlap", ConfigValue::text("linux")),
        ("min_ttl", ConfigValue::Integer(0)),
        ("fragment_memory", ConfigValue::Integer(8 << 20)),
        ("fragment_timeout", seconds(30)),
        ("max_flows", ConfigValue::Integer(65_536)),
        ("pick_up", ConfigValue::Boolean(false)),
        ("stream_window", ConfigValue::Integer(16_384)),
        ("stream_memory", ConfigValue::Integer(64 << 20)),
        ("message_memory", ConfigValue::Integer(64 << 20)),
        ("body_limit", ConfigValue::Integer(100 << 10)),
        ("unsupported", ConfigValue::text("refuse")),
        ("reorder_limit", ConfigValue::Integer(262_144)),
        ("max_thresholds", ConfigValue::Integer(65_536)),
        ("opening_timeout", seconds(60)),
        ("established_timeout", seconds(7440)),
        ("other_timeout", seconds(300)),
    ])
    .to_cbor()
}

/// This function's alerts.
pub fn ours(rules: &str, capture: &Capture) -> Vec<Alert> {
    let mut runner =
        Runner::<Dpi>::new(&configuration(rules)).unwrap_or_else(|error| panic!("refused:\n{error}"));
    for (time, frame) in &capture.frames {
        let now = Nanos(BEGINNING * 1_000_000_000 + time * 1000);
        let record = PacketRecord { timestamp: now.0, ..PacketRecord::default() };
        runner.run(&[TestPacket { bytes: frame.clone(), record }], now);
    }
    runner.host().events().iter().filter_map(|line| alert(line)).collect()
}

/// Shows both sides the same, and compares what `view` makes of their alerts.
pub fn compare(name: &str, rules: &str, capture: &Capture, view: fn(Vec<Alert>) -> Vec<Alert>) {
    let (theirs, ours) = (view(suricata(name, rules, capture, false)), view(ours(rules, capture)));
    let mut difference: BTreeMap<Alert, i64> = BTreeMap::new();
    for alert in &theirs {
        *difference.entry(alert.clone()).or_default() -= 1;
    }
    for alert in &ours {
        *difference.entry(alert.clone()).or_default() += 1;
    }
    difference.retain(|_, count| *count != 0);
    let rule =
        |sid: u64| rules.lines().find(|line| line.contains(&format!("sid:{sid};"))).unwrap_or_default();
    let lines: Vec<String> = difference
        .iter()
        .take(12)
        .map(|(alert, count)| {
            format!("{count:+} (ours more than Suricata's): {alert:?}\n    {}", rule(alert.0))
        })
        .collect();
    assert!(
        difference.is_empty(),
        "{name}: {} of {} alerts differ\n{}",
        difference.len(),
        theirs.len(),
        lines.join("\n")
    );
    // Nothing on both sides would be agreement too.
    assert!(theirs.len() > 20, "{name}: only {} alerts", theirs.len());
}
