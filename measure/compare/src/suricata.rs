//! Suricata's alerts about a capture.

use crate::Error;
use crate::child;
use crate::eve;
use crate::rules::{Rules, VARIABLES};
use crate::table::Alerts;
use peers::Folder;
use peers::PARSERS;
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

/// Longest time for a capture.
const LIMIT: Duration = Duration::from_secs(900);

/// What both sides are told alike: streams in full, checksums verified, no connection whose beginning was not
/// seen, HTTP, TLS and DNS read with the same limits.
const SETTINGS: &str = "\
%YAML 1.1
---
default-log-dir: FOLDER
outputs: [{eve-log: {enabled: yes, filetype: regular, filename: eve.json, types: [alert]}}]
logging: {default-log-level: info, outputs: [{console: {enabled: yes}}]}
packet-alert-max: 255
stats: {enabled: no}
stream:
  memcap: 512mb
  checksum-validation: yes
  midstream: false
  reassembly: {memcap: 1gb, depth: 0, toserver-chunk-size: 65000, toclient-chunk-size: 65000, randomize-chunk-size: no}
flow: {memcap: 512mb, hash-size: 65536, prealloc: 10000, emergency-recovery: 30}
classification-file: FOLDER/classification.config
reference-config-file: FOLDER/reference.config
threshold-file: FOLDER/threshold.config
app-layer:
  protocols:
    http:
      enabled: yes
      libhtp:
        default-config: {personality: IDS, request-body-limit: 100kb, response-body-limit: 100kb, response-body-decompress-layer-limit: 2, double-decode-path: no, double-decode-query: no}
    tls: {enabled: yes, detection-ports: {dp: 443}}
    dns: {tcp: {enabled: yes, detection-ports: {dp: 53}}, udp: {enabled: yes, detection-ports: {dp: 53}}}
";

/// Protocols that `dpi` reads, too.
const READ: [&str; 3] = ["http", "tls", "dns"];

fn settings(folder: &Path) -> String {
    let mut text = SETTINGS.replace("FOLDER", &folder.display().to_string());
    for name in PARSERS.iter().filter(|name| !READ.contains(name)) {
        text += &format!("    {name}: {{enabled: no}}\n");
    }
    let group = |ports: bool| -> String {
        let names = VARIABLES.iter().filter(|(name, _)| name.ends_with("_PORTS") == ports);
        names.map(|(name, value)| format!("    {name}: \"{value}\"\n")).collect()
    };
    text + "vars:\n  address-groups:\n" + &group(false) + "  port-groups:\n" + &group(true)
}

/// Alerts, and how many rules were accepted.
#[derive(Debug)]
pub struct Read {
    /// By rule and flow.
    pub alerts: Alerts,
    /// Rules that it loaded; `None` when it did not say.
    pub loaded: Option<u64>,
}

/// Reads a capture by these rules. What Suricata refuses of them is left out.
///
/// # Errors
/// [`Error`]: it failed, or did not end in time.
pub fn read(capture: &Path, rules: &Rules) -> Result<Read, Error> {
    let folder = Folder::new()?;
    for empty in ["classification.config", "reference.config", "threshold.config"] {
        folder.write(empty, "")?;
    }
    let settings = folder.write("suricata.yaml", &settings(folder.path()))?;
    let file = folder.write("all.rules", &rules.text)?;
    let mut command = child::bounded("suricata");
    command.args(["--runmode", "single", "-k", "all", "-c"]).arg(settings).arg("-S").arg(file);
    command.arg("-r").arg(capture).arg("-l").arg(folder.path());
    let said = folder.file("said");
    let output = File::create(&said).map_err(|source| Error::file(&said, source))?;
    child::run_into("Suricata", &mut command, output, LIMIT)?;
    let said = fs::read_to_string(&said).map_err(|source| Error::file(&said, source))?;
    Ok(Read { alerts: eve::read(&folder.file("eve.json"), |_, _| None)?, loaded: loaded(&said) })
}

/// Of "2500 rules successfully loaded".
fn loaded(said: &str) -> Option<u64> {
    let (before, _) = said.split_once(" rules successfully loaded")?;
    before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_loaded_rules_is_read_from_what_it_says() {
        let said = "i: detect: 1 rule files processed. 2500 rules successfully loaded, 3 rules failed, 0";
        assert_eq!((loaded(said), loaded("nothing")), (Some(2500), None));
    }

    #[test]
    fn variables_stand_in_the_group_of_their_kind() {
        let text = settings(Path::new("/f"));
        let (addresses, ports) = text.split_once("port-groups:").expect("both groups");
        assert!(
            addresses.contains("HOME_NET: \"[10.0.0.0/8") && !addresses.contains("HTTP_PORTS:"),
            "{text}"
        );
        assert!(ports.contains("HTTP_PORTS: \"[80,8000:8080]\""), "{text}");
        assert!(!text.contains("FOLDER"), "{text}");
    }
}
