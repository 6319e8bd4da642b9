//! Any frames get one counted verdict and stay as they are, any state is taken or refused, and what is
//! exported is taken.

use crate::configuration::Configuration;
use nf_abi::PacketRecord;
use nf_sdk::native::{Runner, Script, Step, TestPacket};
use nf_sdk::{Nanos, Verdict};
use policer::Policers;
use std::sync::LazyLock;

const CONFIGS: [&str; 3] = [
    "{max_buckets: 20, policers: [{key: [source, destination, mark], rate: 1kbps, burst: 200B, packet_rate: 3pps}]}",
    "{max_buckets: 20, count: ip, overhead: 24, non_ip: police, policers: [{protocol: udp, source_ports: 0-1023, key: [source_port, \
     vlan], rate: 1kbps, peak_rate: 2kbps}, {source: '::/1', key: [source, protocol, ingress], rate: 1Gbps, excess_burst: 64B, \
     violate: mark}]}",
    "{non_ip: drop, policers: [{mark: 1, packet_rate: 1pps, exceed: mark}, {rate: 1000Gbps, burst: 512MiB, packet_rate: 1Gpps, \
     packet_burst: 1000000000}]}",
];

static ENCODED: LazyLock<[Vec<u8>; 3]> = LazyLock::new(|| {
    let configuration = Configuration::of(include_str!("../../../functions/policer/function.yaml"));
    CONFIGS.map(|text| configuration.read(text, ""))
});

pub fn run(data: &[u8]) {
    let &[mode, split, ref data @ ..] = data else { return };
    let config = &ENCODED[usize::from(mode) % ENCODED.len()];
    let mut runner = Runner::<Policers>::new(config).expect("in range");
    let (state, frames) = data.split_at(usize::from(split).min(data.len()));
    runner.import_state(state);

    let (mut now, mut seen) = (Nanos(1 << 60), 0u64);
    // The choice: an interface and a mark, segmentation.
    for Step { frame, choice: [ingress, gso_type, size], now: at, .. } in Script::new(frames, 26) {
        now = at;
        let record = PacketRecord {
            ingress: u16::from(ingress & 3),
            mark: u64::from(ingress >> 2),
            gso_type,
            gso_size: u16::from(size) << (size & 7),
            ..PacketRecord::default()
        };
        let out = runner.run(&[TestPacket { bytes: frame.to_vec(), record }], now);
        let onward = Verdict::Interface(1 - u16::from(ingress & 1));
        let verdict = out[0].verdict.expect("a verdict");
        assert!(verdict == onward || matches!(verdict, Verdict::Drop(0..=3)), "{verdict:?}");
        assert_eq!(out[0].bytes.as_deref(), Some(frame));
        runner.timer_if_due(now);
        seen += 1;
    }
    let counted: u64 = [0, 2, 3, 4, 5].iter().map(|counter| runner.host().counter(*counter)).sum();
    assert_eq!(counted, seen);
    let report: serde_json::Value = serde_json::from_str(&runner.report(now).expect("always")).expect("JSON");
    assert!(report["buckets"]["live"].as_u64() <= report["buckets"]["max"].as_u64());
    let state = runner.export_state().expect("offered");
    let mut other = Runner::<Policers>::new(config).expect("in range");
    assert!(other.import_state(&state));
}
