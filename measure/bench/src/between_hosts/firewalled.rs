//! The product between two hosts.

use super::{Allowed, hosts};
use crate::BenchError;
use serde_json::Value;
use std::fmt::Write;
use std::time::{Duration, Instant};
use testbed::{Background, Hosts};

/// Longest time until the program has compiled the firewall and opened its ports, and until it has ended.
const START: Duration = Duration::from_secs(120);
const END: Duration = Duration::from_secs(30);

/// The chain, but for the rules.
const CHAIN: &str = "\
superfluid: 1
tenants: {default: {pool: {buffers: 2048, buffer_size: 64KiB}}}
ports:
  lan: {type: tap, interface: tap-lan}
  wan: {type: tap, interface: tap-wan}
chains: {edge: [lan, edge_firewall, wan]}
functions:
  edge_firewall:
    image: firewall
    config:
      default_action: drop
      rules:
";

/// Two hosts with the stateful firewall between them: the client may open the connections that are allowed.
pub(crate) struct Firewalled {
    pub(crate) hosts: Hosts,
    program: Background,
    // It is read again when the program is told to; it goes last.
    _folder: peers::Folder,
}

impl Firewalled {
    /// Starts the program in a namespace of its own, and gives its devices to the hosts.
    pub(crate) fn start(allowed: &[Allowed]) -> Result<Firewalled, BenchError> {
        let hosts = hosts()?;
        let mut file = CHAIN.to_owned();
        for (protocol, port) in allowed {
            let rule =
                format!("{{action: accept, from: inside, protocol: {protocol}, destination_ports: {port}}}");
            let _ = writeln!(file, "      - {rule}");
        }
        let folder = peers::Folder::new().map_err(BenchError::setup)?;
        let path = folder.write("chain.yaml", &file).map_err(BenchError::setup)?;
        let program = crate::product::superfluid()?;
        let mut command = hosts.middle.command(&program.to_string_lossy());
        command.arg("run").arg(path).args(["--json", "--every", "1h"]);
        let mut program = Background::start(&mut command).map_err(BenchError::setup)?;
        let begin = Instant::now();
        // Switching a device on is the last that is done to it.
        let is_up = |name: &&str| {
            let shown = hosts.middle.run(&format!("ip link show {name} up"), END);
            shown.is_ok_and(|shown| !shown.stdout.is_empty())
        };
        while !["tap-lan", "tap-wan"].iter().all(is_up) {
            if !program.is_running() || begin.elapsed() > START {
                let (stdout, stderr) = program.finish();
                let words = if stderr.trim().is_empty() { stdout } else { stderr };
                return Err(BenchError::Setup(format!(
                    "the program opened no TAP devices; it said: {}",
                    words.trim()
                )));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        hosts.give("tap-lan", "tap-wan").map_err(BenchError::setup)?;
        Ok(Firewalled { hosts, program, _folder: folder })
    }

    /// Asks the program to end. The account that it printed: a figure without a balanced one is worth
    /// nothing.
    pub(crate) fn end(self) -> Result<Account, BenchError> {
        Account::read(&self.program.interrupt(END).map_err(BenchError::setup)?.stdout)
    }
}

/// What passed from the client to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
}

impl Account {
    /// The account that a program printed at its end: everything passed by the firewall, and every packet is
    /// accounted for.
    fn read(output: &str) -> Result<Account, BenchError> {
        let lines = output.lines().rev().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let account = lines
            .into_iter()
            .find(|line| line["event"] == "final")
            .ok_or_else(|| BenchError::Invalid("the program printed no final account".into()))?;
        let bytes = account["ports"]["lan"]["received_bytes"].as_u64().unwrap_or(0);
        let packets = account["ports"]["lan"]["packets"]["received"].as_u64().unwrap_or(0);
        let judged = account["functions"]["edge_firewall"]["bytes"].as_u64().unwrap_or(0);
        if account["balanced"] != true {
            return Err(BenchError::Invalid(format!("the account does not balance: {account}")));
        }
        if judged < bytes || packets == 0 {
            return Err(BenchError::Invalid(format!(
                "the firewall saw {judged} of {bytes} bytes, in {packets} packets"
            )));
        }
        Ok(Account { bytes, packets })
    }

    /// Refuses packets that are shorter than so many bytes on average.
    pub(crate) fn expect_segments(self, bytes: u64) -> Result<(), BenchError> {
        if self.bytes / self.packets.max(1) >= bytes {
            return Ok(());
        }
        let found = format!("{} bytes came in {} packets: no large segments", self.bytes, self.packets);
        Err(BenchError::Invalid(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn output(balanced: bool, packets: u64, judged: u64) -> String {
        let account = json!({
            "event": "final", "balanced": balanced,
            "ports": {"lan": {"received_bytes": 1 << 30, "packets": {"received": packets}}},
            "functions": {"edge_firewall": {"bytes": judged}},
        });
        format!("{}\nnot json\n{account}\n", json!({"event": "account"}))
    }

    #[test]
    fn a_figure_is_only_taken_from_a_sound_run() {
        let sound = Account::read(&output(true, 30_000, 1 << 30)).expect("sound");
        assert!(sound.expect_segments(8 << 10).is_ok());
        assert!(sound.expect_segments(64 << 10).is_err());
        for (unsound, why) in [
            (output(false, 30_000, 1 << 30), "balance"),
            (output(true, 0, 1 << 30), "in 0 packets"),
            (output(true, 30_000, 1 << 29), "the firewall saw"),
            (String::new(), "no final account"),
        ] {
            let error = Account::read(&unsound).expect_err(why).to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
