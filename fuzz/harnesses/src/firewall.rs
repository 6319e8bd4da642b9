//! Any frames get one counted verdict and stay as they are, any state is taken or refused, and what is
//! exported is taken.

use crate::configuration::Configuration;
use firewall::Firewall;
use nf_sdk::native::{Runner, Script, Step, TestPacket};
use nf_sdk::{Nanos, Verdict};
use std::sync::LazyLock;

const RULES: &str = "
max_flows: 40
max_flows_ipv6: 40
rules:
  - {action: accept, from: inside}
  - {action: accept, protocol: tcp, destination_ports: 0-1023, source: 10.0.0.0/8}
  - {action: drop, protocol: icmpv6, icmp_type: 1}
  - {action: accept, destination: \"::/1\"}
";

/// Configurations: stateful with and without picking up, and stateless.
static CONFIGS: LazyLock<[Vec<u8>; 3]> = LazyLock::new(|| {
    let configuration = Configuration::of(include_str!("../../../functions/firewall/function.yaml"));
    ["stateful: true", "stateful: true\npick_up: true", "stateful: false"]
        .map(|mode| configuration.read(&format!("{mode}{RULES}"), ""))
});

pub fn run(data: &[u8]) {
    let &[mode, split, ref data @ ..] = data else { return };
    let config = &CONFIGS[usize::from(mode) % CONFIGS.len()];
    let mut runner = Runner::<Firewall>::new(config).expect("in range");
    let (state, frames) = data.split_at(usize::from(split).min(data.len()));
    runner.import_state(state);

    let (mut now, mut seen) = (Nanos(1 << 60), 0u64);
    // The choice: an interface.
    for Step { frame, choice: [ingress], now: at, .. } in Script::new(frames, 28) {
        now = at;
        let out = runner.run(&[TestPacket::new(frame.to_vec(), u16::from(ingress))], now);
        let onward = Verdict::Interface(1 - u16::from(ingress & 1));
        let verdict = out[0].verdict.expect("a verdict");
        assert!(
            verdict == onward || matches!(verdict, Verdict::Drop(0..=7) | Verdict::Hold(_)),
            "{verdict:?}"
        );
        assert_eq!(out[0].bytes.as_deref(), Some(frame));
        runner.timer_if_due(now);
        seen += 1;
    }
    runner.finish(now);
    assert_eq!((0..9).map(|counter| runner.host().counter(counter)).sum::<u64>(), seen);
    let report: serde_json::Value = serde_json::from_str(&runner.report(now).expect("always")).expect("JSON");
    if let Some(flows) = report.get("flows") {
        assert!(flows["ipv4"].as_u64() <= Some(40) && flows["ipv6"].as_u64() <= Some(40));
        let state = runner.export_state().expect("offered");
        let mut other = Runner::<Firewall>::new(config).expect("in range");
        assert!(other.import_state(&state));
    }
}
