//! One TCP connection through a stateful firewall between two TAP devices, beside the kernel's bridge with
//! the same rules in nftables, and beside Open vSwitch's connection tracking in user space. iperf3 runs
//! through each in turns; what is compared is what arrives.

use crate::between_hosts::{Bridged, Firewalled, Rules, hosts};
use crate::tap::{ALLOWED, SEGMENTS, in_turns};
use crate::{BenchError, Measurement};
use peers::OpenVswitchLine;

/// Huge pages that Open vSwitch needs.
const HUGE_PAGES: u64 = 160;

pub(crate) fn run(
    progress: &mut dyn FnMut(f64, &str),
) -> Result<(Vec<Measurement>, Vec<String>), BenchError> {
    OpenVswitchLine::missing().map_err(BenchError::setup)?;
    let free = peers::free_huge_pages();
    if free < HUGE_PAGES {
        return Err(BenchError::setup(peers::PeerError::HugePages { free, needed: HUGE_PAGES }));
    }
    progress(0.0, "hosts");
    let bridged = Bridged::filtered(ALLOWED)?;
    let mut notes = Vec::new();
    if bridged.rules == Rules::Untracked {
        notes.push(
            "the kernel tracks no connections of a bridge (nf_conntrack_bridge is missing): its rules \
                    name ports both ways"
                .to_owned(),
        );
    }
    progress(0.0, "Open vSwitch");
    let switched = hosts()?;
    let ports = ALLOWED.iter().map(|(_, port)| *port).collect::<Vec<_>>();
    let peer = OpenVswitchLine::start(&switched, &ports).map_err(BenchError::setup)?;
    notes.push(peer.configuration.clone());
    progress(0.0, "the program, with a firewall between two TAP devices");
    let firewalled = Firewalled::start(ALLOWED)?;
    let sides = [
        (&firewalled.hosts, "through the firewall"),
        (&bridged.hosts, "through the bridge"),
        (&switched, "through Open vSwitch"),
    ];
    let [ours, bridge, switch] = in_turns(sides, progress)?;
    firewalled.end()?.expect_segments(SEGMENTS)?;
    let over =
        |theirs: &[f64]| ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect::<Vec<_>>();
    let results = vec![
        Measurement::new("bridge-ratio", "x", &over(&bridge)),
        Measurement::new("ovs-ratio", "x", &over(&switch)),
        Measurement::new("firewall", "Gbit/s", &ours),
        Measurement::new("bridge", "Gbit/s", &bridge),
        Measurement::new("ovs", "Gbit/s", &switch),
    ];
    Ok((results, notes))
}
