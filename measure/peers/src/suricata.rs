// UNSAFETY: asking for the processor time of children that have ended is a system call without a safe
// wrapper. It writes one struct on the stack; the tests run it.
#![allow(unsafe_code)]
//! Suricata, which reads a capture to its end by one thread.

use crate::error::{file, kernel};
use crate::public_rules::HTTP_PORTS;
use crate::{Cores, Folder, PeerError};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use testbed::{Namespace, run};

/// Longest time for a capture.
const LIMIT: Duration = Duration::from_secs(60);

/// Hyperscan for many patterns and for one, groups of rules as large as they can be, one thread, nothing
/// written but alerts, no parser of protocols that the rules do not ask about, room for all connections,
/// streams inspected in large pieces.
const SETTINGS: &str = "\
%YAML 1.1
---
vars: {address-groups: {HOME_NET: any}, port-groups: {HTTP_PORTS: PORTS}}
mpm-algo: hs
spm-algo: hs
runmode: single
max-pending-packets: 8192
default-packet-size: 1600
detect: {profile: high, sgh-mpm-context: full, inspection-recursion-limit: 3000}
stats: {enabled: no}
outputs: [{fast: {enabled: yes, filename: alerts, append: no}}]
logging: {default-log-level: warning, outputs: [{console: {enabled: yes}}]}
flow: {memcap: 1gb, hash-size: 262144, prealloc: 65536, emergency-recovery: 30, managers: 1, recyclers: 1}
stream:
  memcap: 1gb
  checksum-validation: no
  inline: no
  midstream: false
  prealloc-sessions: 65536
  reassembly: {memcap: 2gb, depth: 0, toserver-chunk-size: 2560, toclient-chunk-size: 2560, randomize-chunk-size: no, raw: yes}
app-layer: {protocols: {PARSERS}}
pcap-file: {checksum-checks: no}
classification-file: CLASSES
reference-config-file: CLASSES
";

/// Protocols that Suricata would parse unless told not to. Rules that look at contents alone need none of
/// them.
pub const PARSERS: &[&str] = &[
    "bittorrent-dht",
    "dcerpc",
    "dhcp",
    "dnp3",
    "dns",
    "enip",
    "ftp",
    "ftp-data",
    "http",
    "http2",
    "ike",
    "imap",
    "krb5",
    "modbus",
    "mqtt",
    "msn",
    "nfs",
    "ntp",
    "pgsql",
    "quic",
    "rdp",
    "rfb",
    "sip",
    "smb",
    "smtp",
    "snmp",
    "ssh",
    "telnet",
    "tftp",
    "tls",
];

/// Parsers that are on for rules about messages: bodies as long as `dpi` looks at them, and decoded as often.
const MESSAGES: &[(&str, &str)] = &[
    (
        "http",
        "{enabled: yes, libhtp: {default-config: {personality: IDS, request-body-limit: 100kb, \
         response-body-limit: 100kb, response-body-decompress-layer-limit: 2, double-decode-path: no, \
         double-decode-query: no}}}",
    ),
    ("tls", "{enabled: yes, detection-ports: {dp: 443}}"),
    (
        "dns",
        "{tcp: {enabled: yes, detection-ports: {dp: 53}}, udp: {enabled: yes, detection-ports: {dp: 53}}}",
    ),
    ("smb", "{enabled: yes, detection-ports: {dp: \"139, 445\"}}"),
];

/// What Suricata parses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsers {
    /// Nothing above TCP: for rules that look at contents alone.
    None,
    /// HTTP, TLS, DNS and SMB.
    Messages,
}

/// Alerts by the rule's number.
pub type Alerts = BTreeMap<u32, u64>;

/// What reading a capture took and gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Processor time of the whole process, from its start on.
    pub time: Duration,
    /// Alerts.
    pub alerts: Alerts,
}

/// Suricata with its configuration and rules, ready to be run.
#[derive(Debug)]
pub struct Suricata {
    /// What it is told.
    pub configuration: String,
    folder: Folder,
    namespace: Namespace,
    core: usize,
}

impl Suricata {
    /// Writes configuration and rules.
    ///
    /// # Errors
    /// [`PeerError`].
    pub fn new(rules: &str, parsers: Parsers, cores: Cores) -> Result<Suricata, PeerError> {
        let folder = Folder::new()?;
        let classes = folder.write("classes", "")?;
        let settings = settings(parsers);
        folder.write("suricata.yaml", &settings.replace("CLASSES", &classes.display().to_string()))?;
        folder.write("rules", rules)?;
        let line = arguments(Path::new(""), Path::new("CAPTURE")).join(" ");
        let configuration = format!("suricata {line}\n{settings}");
        Ok(Suricata { configuration, folder, namespace: Namespace::new()?, core: cores.device })
    }

    /// Reads a capture to its end. Nothing else that this process started may end meanwhile.
    ///
    /// # Errors
    /// [`PeerError`]: it failed, or did not end in time.
    pub fn read(&self, capture: &Path) -> Result<Reading, PeerError> {
        let alerts = self.folder.file("alerts");
        // Absent at the first time.
        let _ = fs::remove_file(&alerts);
        let mut command: Command = self.namespace.command("suricata");
        command.args(arguments(self.folder.path(), capture));
        let before = children_time()?;
        {
            let _claim = Cores::claim(self.core)?;
            run(&mut command, LIMIT)?;
        }
        let time = children_time()? - before;
        let text = fs::read(&alerts).map_err(file(&alerts))?;
        Ok(Reading { time, alerts: alerts_in(&String::from_utf8_lossy(&text)) })
    }
}

/// The alerts that are written as lines such as `TIME  [**] [GID:SID:REV] MESSAGE ...`.
pub(crate) fn alerts_in(text: &str) -> Alerts {
    let mut alerts = Alerts::new();
    for line in text.lines() {
        let sid = line.split_once("[**] [").and_then(|(_, rest)| rest.split(':').nth(1)?.parse().ok());
        // What cannot be read is of no rule, and no comparison takes it for one.
        *alerts.entry(sid.unwrap_or(0)).or_default() += 1;
    }
    alerts
}

pub(crate) fn settings(parsers: Parsers) -> String {
    let read = if parsers == Parsers::Messages { MESSAGES } else { &[] };
    let parser = |name: &&str| {
        let setting = read.iter().find(|(known, _)| known == name).map(|(_, setting)| *setting);
        format!("{name}: {}", setting.unwrap_or("{enabled: no}"))
    };
    let all: Vec<String> = PARSERS.iter().map(parser).collect();
    let ports = format!("HTTP_PORTS: \"{HTTP_PORTS}\"");
    SETTINGS.replace("PARSERS", &all.join(", ")).replace("HTTP_PORTS: PORTS", &ports)
}

fn arguments(folder: &Path, capture: &Path) -> Vec<String> {
    let at = |name: &str| folder.join(name).display().to_string();
    let words =
        ["-c", &at("suricata.yaml"), "-S", &at("rules"), "-l", &folder.display().to_string(), "-k", "none"];
    let run = ["--runmode", "single", "-r", &capture.display().to_string()];
    words.iter().chain(&run).map(|word| (*word).to_owned()).collect()
}

/// Processor time of all children that have ended.
fn children_time() -> Result<Duration, PeerError> {
    // SAFETY: all-zero is a valid `rusage`, and the kernel writes one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        if libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) != 0 {
            return Err(kernel("asking for the children's time")(io::Error::last_os_error()));
        }
        usage
    };
    let span = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.max(0) as u64) + Duration::from_micros(time.tv_usec.max(0) as u64)
    };
    Ok(span(usage.ru_utime) + span(usage.ru_stime))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_child_is_counted_when_it_has_ended() {
        let before = children_time().expect("the time");
        let mut command = Command::new("sh");
        command.args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"]);
        run(&mut command, Duration::from_secs(30)).expect("a shell");
        assert!(children_time().expect("the time") > before);
    }

    #[test]
    fn no_parser_is_on_unless_rules_are_about_messages() {
        let none = settings(Parsers::None);
        assert!(none.contains("{bittorrent-dht: {enabled: no}, "), "{none}");
        assert_eq!(none.matches("{enabled: no}").count(), PARSERS.len() + 1);
        assert!(!none.contains("PARSERS") && !none.contains("PORTS\""), "{none}");
        let some = settings(Parsers::Messages);
        assert_eq!(some.matches("{enabled: no}").count(), PARSERS.len() + 1 - MESSAGES.len());
        assert!(some.contains("dns: {tcp: {enabled: yes"), "{some}");
    }

    #[test]
    fn alerts_are_counted_by_rule() {
        let text = "01/01/1970-00:00:00.000010  [**] [1:17:1] rule 17 [**] [Priority: 3] {TCP} 10.0.0.1:1 -> 10.0.0.2:2\n\
                    01/01/1970-00:00:00.000020  [**] [1:4:1] rule 4 [**] [Priority: 3] {TCP} 10.0.0.1:1 -> 10.0.0.2:2\n\
                    01/01/1970-00:00:00.000020  [**] [1:17:1] rule 17 [**] [Priority: 3] {TCP} 10.0.0.1:1 -> 10.0.0.2:2\n";
        assert_eq!(alerts_in(text), Alerts::from([(4, 1), (17, 2)]));
        assert_eq!(alerts_in("what is this\n"), Alerts::from([(0, 1)]));
    }

    #[test]
    fn the_command_line_names_what_the_folder_holds() {
        let line = arguments(Path::new("/f"), Path::new("/c.pcap")).join(" ");
        assert_eq!(line, "-c /f/suricata.yaml -S /f/rules -l /f -k none --runmode single -r /c.pcap");
        let settings = settings(Parsers::Messages);
        assert!(settings.contains("port-groups: {HTTP_PORTS: \"[80,8080]\"}}"), "{settings}");
    }
}
