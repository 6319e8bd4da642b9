//! Any frames get one counted verdict and, without another version of IP, keep their length; any state is
//! taken or refused, and what is exported is taken.

use crate::configuration::Configuration;
use nat::Nat;
use nf_abi::{PacketRecord, offload};
use nf_sdk::native::{Runner, Script, Step, TestPacket};
use nf_sdk::{Nanos, Verdict};
use std::sync::LazyLock;

const CONFIGS: [&str; 4] = [
    "{pool: [198.51.100.7/32], max_sessions: 40, max_hosts: 9}",
    "{pool: [198.51.100.0/30], max_sessions: 40, filtering: address-dependent, host_sessions: 9, ports: 1000-1009, \
     preserve_ports: false, forwards: [{protocol: tcp, outside: 198.51.100.1, ports: 80-81, inside: 192.0.2.10}]}",
    "{pool: [198.51.100.7/32], inside: [192.0.2.0/24], filtering: address-and-port-dependent, pooling: arbitrary, \
     udp_inbound_refresh: true, unsolicited: ignore, fragment_timeout: 2s}",
    "{pool: [198.51.100.7/32], max_sessions: 40, nat64_prefix: '64:ff9b::/96'}",
];

static ENCODED: LazyLock<[Vec<u8>; 4]> = LazyLock::new(|| {
    let configuration = Configuration::of(include_str!("../../../functions/nat/function.yaml"));
    CONFIGS.map(|text| configuration.read(text, ""))
});

pub fn run(data: &[u8]) {
    let &[mode, split, ref data @ ..] = data else { return };
    let config = &ENCODED[usize::from(mode) % ENCODED.len()];
    let mut runner = Runner::<Nat>::new(config).expect("in range");
    let (state, frames) = data.split_at(usize::from(split).min(data.len()));
    runner.import_state(state);

    let (mut now, mut seen) = (Nanos(1 << 60), 0u64);
    // The choice: an interface with the state of the checksum.
    for Step { frame, choice: [ingress], now: at, .. } in Script::new(frames, 28) {
        now = at;
        let record = PacketRecord {
            ingress: u16::from(ingress & 1),
            offload_flags: if ingress & 2 == 0 { 0 } else { offload::NEEDS_CHECKSUM },
            csum_start: 34,
            csum_offset: u16::from(ingress >> 2),
            ..PacketRecord::default()
        };
        let out = runner.run(&[TestPacket { bytes: frame.to_vec(), record }], now);
        let verdict = out[0].verdict.expect("a verdict");
        let is_known = matches!(verdict, Verdict::Interface(0 | 1) | Verdict::Drop(0..=9) | Verdict::Hold(_));
        assert!(is_known, "{verdict:?}");
        let length = out[0].bytes.as_ref().expect("within its buffer").len();
        assert!(length == frame.len() || usize::from(mode) % ENCODED.len() == 3);
        runner.timer_if_due(now);
        seen += 1;
    }
    let state = runner.export_state().expect("offered");
    runner.finish(now);
    assert_eq!((0..14).map(|counter| runner.host().counter(counter)).sum::<u64>(), seen);
    let report: serde_json::Value = serde_json::from_str(&runner.report(now).expect("always")).expect("JSON");
    assert!(report["sessions"]["now"].as_u64() <= report["sessions"]["max"].as_u64());
    let mut other = Runner::<Nat>::new(config).expect("in range");
    assert!(other.import_state(&state));
}
