//! The kernel's bridge between two hosts.

use super::{Allowed, hosts};
use crate::BenchError;
use std::fmt::Write;
use std::time::Duration;
use testbed::Hosts;

/// Longest time for `nft`.
const SETUP: Duration = Duration::from_secs(10);

/// What a bridge lets pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Everything; no rule is looked at.
    None,
    /// What belongs to a connection that the client opened, which the kernel tracks.
    Tracked,
    /// The ports of the server, both ways: this kernel tracks no connections of a bridge.
    Untracked,
}

/// Two hosts with the kernel's bridge between them.
pub(crate) struct Bridged {
    pub(crate) hosts: Hosts,
    pub(crate) rules: Rules,
}

impl Bridged {
    /// A bridge that passes everything.
    pub(crate) fn open() -> Result<Bridged, BenchError> {
        let hosts = hosts()?;
        hosts.bridge().map_err(BenchError::setup)?;
        Ok(Bridged { hosts, rules: Rules::None })
    }

    /// A bridge with the rules that [`Firewalled`](super::Firewalled) has, as far as the kernel can.
    pub(crate) fn filtered(allowed: &[Allowed]) -> Result<Bridged, BenchError> {
        peers::missing_of(&[("nft", "nftables")]).map_err(BenchError::setup)?;
        let mut bridged = Bridged::open()?;
        let folder = peers::Folder::new().map_err(BenchError::setup)?;
        let mut load = |rules| {
            let path = folder.write("rules.nft", &ruleset(allowed, rules)).map_err(BenchError::setup)?;
            let command = format!("nft --file {}", path.display());
            bridged.hosts.middle.run(&command, SETUP).map_err(BenchError::setup)?;
            bridged.rules = rules;
            Ok(())
        };
        // Connections of a bridge are tracked by a module of the kernel that not all have.
        load(Rules::Tracked).or_else(|_: BenchError| load(Rules::Untracked))?;
        Ok(bridged)
    }
}

fn ruleset(allowed: &[Allowed], rules: Rules) -> String {
    let mut text =
        "table bridge edge {\n chain forward {\n  type filter hook forward priority 0; policy drop;\n  \
                    ether type arp accept\n"
            .to_owned();
    if rules == Rules::Tracked {
        text += "  ct state established,related accept\n";
    }
    for (protocol, port) in allowed {
        let _ = writeln!(text, "  iifname \"br-lan\" {protocol} dport {port} accept");
        if rules == Rules::Untracked {
            let _ = writeln!(text, "  iifname \"br-wan\" {protocol} sport {port} accept");
        }
    }
    text + " }\n}\n"
}
