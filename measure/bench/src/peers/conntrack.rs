//! Functions that track connections, fed from memory, against Open vSwitch's connection tracking fed from
//! captures in memory.

use super::device::Device;
use super::{Pairs, Stage, WARM_UP, WINDOW};
use crate::feed::{Feed, Opened, Stamped};
use crate::guests::{configuration, pool, stock};
use crate::{BenchError, Measurement};
use engine::Account;
use peers::frames::{EACH_WAY, Established};
use peers::{FlowCaches, OpenVswitch, Tracked, Window};
use port::Port;

/// Picks connections up whose beginning it did not see, as the peer does: neither side is shown any
/// handshake.
const FIREWALL: &str = "stateful: true\npick_up: true\ndefault_action: drop\nrules:\n  - {action: accept, protocol: tcp, \
                        from: inside, destination_ports: \"443\"}\n";

/// The administrator allows TCP both ways, the tenant these connections by the last of ten rules.
const GROUPS: &str = "
addresses: [192.0.2.9/24]
administrator: [{direction: in, protocol: tcp}, {direction: out, protocol: tcp}]
tenant:
  - {direction: in, protocol: tcp, ports: \"8001\"}
  - {direction: in, protocol: tcp, ports: \"8002\"}
  - {direction: in, protocol: tcp, ports: \"8003\"}
  - {direction: in, protocol: tcp, ports: \"8004\"}
  - {direction: in, protocol: tcp, ports: \"8005\"}
  - {direction: in, protocol: tcp, ports: \"8006\"}
  - {direction: in, protocol: tcp, ports: \"8007\"}
  - {direction: in, protocol: tcp, ports: \"8008\"}
  - {direction: in, protocol: udp, ports: \"53\"}
  - {direction: out, protocol: tcp, ports: \"443\", remote: 198.18.0.0/15}
";

/// One comparison.
struct Comparison {
    /// Of the result.
    name: &'static str,
    /// Our function and its configuration.
    image: &'static str,
    config: &'static str,
    /// What the peer decides.
    tracked: Tracked,
    caches: FlowCaches,
    frames: Established,
    /// Whether our function is shown how the connections began.
    opening: bool,
}

pub(super) fn run(stage: &mut Stage<'_>) {
    let sizes = [
        ("conntrack-1024", 1024, FlowCaches::Both, 0.1),
        ("conntrack-65536", 65_536, FlowCaches::Signatures, 0.25),
    ];
    for (name, flows, caches, done) in sizes {
        let frames = Established::new(flows);
        let (tracked, opening) = (Tracked::Firewall, false);
        compare(
            stage,
            &Comparison { name, image: "firewall", config: FIREWALL, tracked, caches, frames, opening },
            done,
        );
    }
}

/// `groups/ovs-ratio`, by a stage of its own; what cannot be measured costs this result alone.
pub(crate) fn groups(
    progress: &mut dyn FnMut(f64, &str),
    into: &mut Vec<Measurement>,
) -> Result<Vec<String>, BenchError> {
    let mut stage = Stage::open(progress)?;
    let comparison = Comparison {
        name: "ovs",
        image: "security-groups",
        config: GROUPS,
        tracked: Tracked::Groups,
        caches: FlowCaches::Signatures,
        frames: Established::of_device(65_536),
        opening: true,
    };
    compare(&mut stage, &comparison, 0.5);
    into.append(&mut stage.results);
    Ok(stage.notes)
}

fn compare(stage: &mut Stage<'_>, comparison: &Comparison, done: f64) {
    let measured = measure(stage, comparison, done);
    stage.note_failure(comparison.name, measured);
}

fn measure(stage: &mut Stage<'_>, comparison: &Comparison, done: f64) -> Result<(), BenchError> {
    let Comparison { name, frames, .. } = comparison;
    (stage.progress)(done, &format!("{name}: Open vSwitch"));
    let peer = OpenVswitch::start(frames, comparison.tracked, comparison.caches, stage.cores)
        .map_err(BenchError::setup)?;
    let (inside, outside) = (Stamped(frames.inside.clone()), Stamped(frames.outside.clone()));
    let ports: [Box<dyn Port>; 2] = match comparison.opening {
        false => [Box::new(Feed::open(inside)), Box::new(Feed::open(outside))],
        true => {
            let (asked, answered) = frames.opening();
            [
                Box::new(Feed::open(Opened { opening: asked, established: inside })),
                Box::new(Feed::open(Opened { opening: answered, established: outside })),
            ]
        }
    };
    let image = stock(comparison.image)?;
    let config = configuration(&image, comparison.config)?;
    let mut ours = Device::new(&stage.sandbox, &image, config, pool(2048, None)?, ports, stage.cores)?;
    stage.notes.push(format!("{name}, peer: {}", peer.configuration.trim_end()));
    stage.notes.push(format!(
        "{name}, superfluid: the same frames from memory, function {}: {}",
        comparison.image,
        comparison.config.trim()
    ));
    // Every connection is opened, and seen in both directions, twice, before anything is measured.
    let seen = |account: &Account| {
        account.ports.iter().all(|port| port.counters.ledger.generated >= 5 * u64::from(EACH_WAY))
    };
    while !seen(&ours.account()) {
        ours.work(WARM_UP)?;
    }
    let opened = ours.account();
    // The peer's ports are asked one after the other while it works, so that its counts are some percent
    // apart.
    let whole = |window: &Window, part| {
        window.packets > 0 && window.received.abs_diff(window.packets) <= window.received / part
    };
    let check = |ours: &Window, theirs: &Window| match whole(ours, 1000) && whole(theirs, 5) {
        true => Ok(()),
        false => Err(BenchError::Invalid(format!("packets were lost: {ours:?}, peer {theirs:?}"))),
    };
    let pairs = Pairs::measure(
        &peer.polling,
        || {
            ours.work(WARM_UP)?;
            ours.measure(WINDOW)
        },
        check,
    )?;
    let tracked = peer.connections().map_err(BenchError::setup)?;
    let account = ours.end()?;
    let counted = account.instances.iter().flat_map(|instance| &instance.counters);
    let own: u64 = counted.filter(|(name, _)| name == "flows-opened").map(|(_, count)| count).sum();
    let flows = u64::from(frames.connections);
    if (own, tracked) != (flows, flows) {
        return Err(BenchError::Invalid(format!(
            "of {flows} connections {} opened {own}, and the peer tracks {tracked}",
            comparison.image
        )));
    }
    let lost = account.ledger.dropped.total() - opened.ledger.dropped.total();
    if lost > 0 {
        let reasons: Vec<_> = account.instances.iter().flat_map(|instance| &instance.own_drops).collect();
        let reasons =
            format!("{lost} packets of established connections were dropped; all drops: {reasons:?}");
        return Err(BenchError::Invalid(reasons));
    }
    pairs.report(name, &mut stage.results);
    Ok(())
}
