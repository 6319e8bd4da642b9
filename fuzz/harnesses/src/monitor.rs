//! Any frames are counted in bounded memory, any state is taken or refused, and the report is JSON in each
//! case.

use crate::configuration::Configuration;
use monitor::Monitor;
use nf_sdk::Nanos;
use nf_sdk::native::{Runner, TestPacket};
use std::sync::LazyLock;

static CONFIGURATION: LazyLock<Configuration> =
    LazyLock::new(|| Configuration::of(include_str!("../../../functions/monitor/function.yaml")));

const IPFIX: &str = "
ipfix:
  collector: 192.0.2.9
  source: 192.0.2.1
  collector_mac: 02:00:00:00:00:09
  source_mac: 02:00:00:00:00:01
  active_timeout: 3s
  idle_timeout: 2s
  template_refresh: 5s
  mtu: 576
";

fn check(runner: &Runner<Monitor>) -> serde_json::Value {
    let report = runner.report(Nanos(2)).expect("always");
    serde_json::from_str(&report).expect("JSON")
}

pub fn run(data: &[u8]) {
    let &[flows, top, split, ref data @ ..] = data else { return };
    let exports = flows & 32 != 0;
    let (table, top, both) = (flows % 16 + 1, u16::from(top) + 1, flows & 16 == 0 && !exports);
    let ipfix = if exports { IPFIX } else { "" };
    let text = format!("flows: {table}\ntop: {top}\nbidirectional: {both}{ipfix}");
    let config = CONFIGURATION.read(&text, "");
    let mut runner = Runner::<Monitor>::new(&config).expect("in range");
    let (state, mut frames) = data.split_at(usize::from(split).min(data.len()));
    runner.import_state(state);
    let before = check(&runner)["packets"].as_u64().expect("a number");

    let mut packets = Vec::new();
    while let Some((&length, rest)) = frames.split_first() {
        let (frame, rest) = rest.split_at(usize::from(length).min(rest.len()));
        packets.push(TestPacket::new(frame.to_vec(), u16::from(length)));
        frames = rest;
    }
    // In batches of a few, a second apart, so that flows end meanwhile.
    let mut now = Nanos(1);
    for some in packets.chunks(3) {
        runner.run(some, now);
        now = now.saturating_add(Nanos::from_secs(1));
        while let Some(deadline) = runner.host().deadline().filter(|deadline| *deadline <= now) {
            runner.timer(deadline);
        }
    }
    for emitted in runner.host().emitted() {
        let frame = packet::dissect(emitted.bytes.as_deref().expect("its own")).expect("a frame");
        assert_eq!(frame.flow_key().map(|key| key.destination_port), Some(4739));
    }
    assert_eq!(check(&runner)["packets"].as_u64(), Some(before + packets.len() as u64));

    // What one instance exports another takes.
    let state = runner.export_state().expect("offered");
    let mut other = Runner::<Monitor>::new(&config).expect("in range");
    assert!(other.import_state(&state));
    assert_eq!(check(&other)["bytes"], check(&runner)["bytes"]);
}
