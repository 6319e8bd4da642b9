//! Any frames get one counted verdict and stay as they are, what leaves claims nothing but the device's own,
//! any state is taken or refused, and what is exported is taken.

use crate::configuration::Configuration;
use nf_sdk::native::{Runner, Script, Step, TestPacket};
use nf_sdk::{Nanos, Verdict};
use security_groups::SecurityGroups;
use std::sync::LazyLock;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

const IDENTITY: &str = "
max_flows: 40
max_flows_ipv6: 40
mac: 02:00:00:00:00:02
addresses: [192.0.2.9/24, \"2001:db8::9/64\"]
";

const RULES: [&str; 3] = [
    "tenant: []",
    "tenant: [{direction: out}, {direction: in, protocol: tcp, ports: 0-1023, remote: 198.51.100.0/24}]",
    "administrator: [{direction: in}, {direction: out, protocol: udp}]\ntenant: [{direction: in}, {direction: out}]",
];

static ENCODED: LazyLock<[Vec<u8>; 3]> = LazyLock::new(|| {
    let configuration = Configuration::of(include_str!("../../../functions/security-groups/function.yaml"));
    RULES.map(|rules| configuration.read(&format!("{rules}{IDENTITY}"), ""))
});

/// Whether a frame claims nothing that is not the device's: its addresses, none of them, or the link-local
/// one; no VLAN; not to be a DHCP server. Of neighbour advertisements, the target.
fn is_own(frame: &[u8]) -> bool {
    let is_v4 = |at: usize, may_be_none: bool| {
        frame[at..at + 4] == [192, 0, 2, 9] || may_be_none && frame[at..at + 4] == [0; 4]
    };
    let is_v6 = |at: usize, may_be_none: bool| {
        let octets: [u8; 16] = frame[at..at + 16].try_into().expect("16 bytes");
        let address = std::net::Ipv6Addr::from(octets);
        let own = ["2001:db8::9", "fe80::ff:fe00:2"]
            .map(|own| own.parse::<std::net::Ipv6Addr>().expect("an address"));
        own.contains(&address) || may_be_none && address.is_unspecified()
    };
    let is_from_server = |protocol: usize, ports: usize, wanted: [u8; 4]| {
        frame[protocol] == 17 && frame.get(ports..ports + 4) == Some(&wanted)
    };
    frame[6..12] == MAC
        && match [frame[12], frame[13]] {
            [8, 6] => frame[22..28] == MAC && is_v4(28, true),
            [8, 0] => {
                let transport = 14 + usize::from(frame[14] & 15) * 4;
                let is_first = frame[20] & 0x1f == 0 && frame[21] == 0;
                is_v4(26, true) && !(is_first && is_from_server(23, transport, [0, 67, 0, 68]))
            }
            [0x86, 0xdd] => {
                let is_advertisement = frame[20] == 58 && frame[21] == 255 && frame[54..56] == [136, 0];
                is_v6(22, true)
                    && !is_from_server(20, 54, [2, 35, 2, 34])
                    && (!is_advertisement || is_v6(62, false))
            }
            _ => false,
        }
}

pub fn run(data: &[u8]) {
    let &[mode, split, ref data @ ..] = data else { return };
    let config = &ENCODED[usize::from(mode) % ENCODED.len()];
    let mut runner = Runner::<SecurityGroups>::new(config).expect("in range");
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
            verdict == onward || matches!(verdict, Verdict::Drop(0..=9) | Verdict::Hold(_)),
            "{verdict:?}"
        );
        assert!(verdict != Verdict::Interface(1) || is_own(frame), "{verdict:?}");
        assert_eq!(out[0].bytes.as_deref(), Some(frame));
        runner.timer_if_due(now);
        seen += 1;
    }
    runner.finish(now);
    assert_eq!((0..11).map(|counter| runner.host().counter(counter)).sum::<u64>(), seen);
    let report: serde_json::Value = serde_json::from_str(&runner.report(now).expect("always")).expect("JSON");
    assert!(report["flows"]["ipv4"].as_u64() <= Some(40) && report["flows"]["ipv6"].as_u64() <= Some(40));
    let state = runner.export_state().expect("offered");
    let mut other = Runner::<SecurityGroups>::new(config).expect("in range");
    assert!(other.import_state(&state));
}
