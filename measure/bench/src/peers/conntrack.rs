//! The stateful firewall fed from memory, against Open vSwitch's connection tracking fed from captures in
//! memory.

use super::device::Device;
use super::{Pairs, Stage, WARM_UP, WINDOW};
use crate::BenchError;
use crate::feed::{Feed, Stamped};
use crate::guests::{configuration, pool, stock};
use engine::Account;
use peers::frames::{EACH_WAY, Established, Frame};
use peers::{FlowCaches, OpenVswitch, Window};
use port::Port;

/// Picks connections up whose beginning it did not see, as the peer does: neither side is shown any
/// handshake.
const CONFIG: &str = "stateful: true\npick_up: true\ndefault_action: drop\nrules:\n  - {action: accept, protocol: tcp, \
                      from: inside, destination_ports: \"443\"}\n";

/// What is promised of the ratio.
const LEAST: f64 = 3.0;

pub(super) fn run(stage: &mut Stage<'_>) {
    for (flows, caches, done) in [(1024, FlowCaches::Both, 0.1), (65_536, FlowCaches::Signatures, 0.25)] {
        let name = format!("conntrack-{flows}");
        let done = compare(stage, &name, flows, caches, done);
        stage.note_failure(&name, LEAST, done);
    }
}

fn compare(
    stage: &mut Stage<'_>,
    name: &str,
    flows: u32,
    caches: FlowCaches,
    done: f64,
) -> Result<(), BenchError> {
    (stage.progress)(done, &format!("{name}: Open vSwitch"));
    let frames = Established::new(flows);
    let peer = OpenVswitch::start(&frames, caches, stage.cores).map_err(BenchError::setup)?;
    let feed = |frames: &[Frame]| -> Box<dyn Port> { Box::new(Feed::open(Stamped(frames.to_vec()))) };
    let image = stock("firewall")?;
    let mut ours = Device::new(
        &stage.sandbox,
        &image,
        configuration(&image, CONFIG)?,
        pool(2048, None)?,
        [feed(&frames.inside), feed(&frames.outside)],
        stage.cores,
    )?;
    stage.notes.push(format!("{name}, peer: {}", peer.configuration.trim_end()));
    stage.notes.push(format!(
        "{name}, superfluid: the same frames from memory, function firewall {{stateful: true, pick_up: true, one rule}}"
    ));
    // Every connection is seen in both directions, twice, before anything is measured.
    let seen = |account: &Account| {
        account.ports.iter().all(|port| port.counters.ledger.generated >= 2 * u64::from(EACH_WAY))
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
    if (own, tracked) != (u64::from(flows), u64::from(flows)) {
        return Err(BenchError::Invalid(format!(
            "of {flows} connections the firewall opened {own}, and the peer tracks {tracked}"
        )));
    }
    let lost = account.ledger.dropped.total() - opened.ledger.dropped.total();
    if lost > 0 {
        let reasons: Vec<_> = account.instances.iter().flat_map(|instance| &instance.own_drops).collect();
        let reasons =
            format!("{lost} packets of established connections were dropped; all drops: {reasons:?}");
        return Err(BenchError::Invalid(reasons));
    }
    pairs.report(name, LEAST, &mut stage.results);
    Ok(())
}
