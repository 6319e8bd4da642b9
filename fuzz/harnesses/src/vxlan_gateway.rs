//! Any frames get one counted verdict, what leaves by the side of the tunnels is VXLAN with right checksums
//! and comes back from another gateway as it was, no table grows over its bound, and any state is taken or
//! refused.

use crate::configuration::Configuration;
use nf_abi::PacketRecord;
use nf_sdk::native::{Runner, Script, Step, TestPacket};
use nf_sdk::{Nanos, Verdict};
use std::sync::LazyLock;
use vxlan_gateway::metrics::{DROPPED, EXTRA, NAMES};
use vxlan_gateway::{Gateway, VLAN, VXLAN};

const CONFIGS: [&str; 3] = [
    "{local: 192.0.2.1, mac: '02:00:00:00:01:01', neighbours: [{address: 192.0.2.2, mac: '02:00:00:00:01:02'}], endpoints: 16, \
     networks: [{vni: 7, vlan: 10, remotes: [192.0.2.2]}, {vni: 8, remotes: [192.0.2.2, 192.0.2.3], accept: any}]}",
    "{local: '2001:db8::1', mac: '02:00:00:00:01:01', neighbours: [{address: '2001:db8::2', mac: '02:00:00:00:01:02'}], endpoints: 16, \
     udp6_zero_checksum: true, networks: [{vni: 7, vlan: 10, remotes: ['2001:db8::2']}]}",
    "{local: 192.0.2.1, mac: '02:00:00:00:01:01', endpoints: 16, tagged: keep, mtu: 1280, ageing: 10s, \
     networks: [{vni: 7, vlan: 10, group: 239.1.1.1}]}",
];
/// The other end of network 7 of the first.
const OTHER: &str =
    "{local: 192.0.2.2, mac: '02:00:00:00:01:02', networks: [{vni: 7, vlan: 10, remotes: [192.0.2.1]}]}";

static ENCODED: LazyLock<[Vec<u8>; 4]> = LazyLock::new(|| {
    let configuration = Configuration::of(include_str!("../../../functions/vxlan-gateway/function.yaml"));
    [CONFIGS[0], CONFIGS[1], CONFIGS[2], OTHER].map(|text| configuration.read(text, ""))
});

pub fn run(data: &[u8]) {
    let &[mode, split, ref data @ ..] = data else { return };
    let mode = usize::from(mode) % CONFIGS.len();
    let mut runner = Runner::<Gateway>::new(&ENCODED[mode]).expect("in range");
    let mut other = Runner::<Gateway>::new(&ENCODED[3]).expect("in range");
    let (state, frames) = data.split_at(usize::from(split).min(data.len()));
    runner.import_state(state);
    let (mut now, mut seen, mut dropped) = (Nanos(1 << 60), 0u64, 0u64);
    // The choice: an interface with the state of the checksum.
    for Step { frame, choice: [interface], later, now: at, .. } in Script::new(frames, 28) {
        now = at;
        let record = PacketRecord {
            ingress: u16::from(interface & 1),
            offload_flags: interface >> 1 & 3,
            csum_start: u16::from(interface >> 3) * 2,
            csum_offset: 6,
            gso_type: if later == 255 { 1 } else { 0 },
            gso_size: 40,
            ..PacketRecord::default()
        };
        let out = runner.run(&[TestPacket { bytes: frame.to_vec(), record }], now).remove(0);
        let after = out.bytes.expect("within its buffer");
        match out.verdict.expect("a verdict") {
            Verdict::Drop(reason) => {
                assert!(reason <= 15);
                dropped += 1;
            }
            Verdict::Interface(VXLAN) => {
                assert_eq!(record.ingress, VLAN, "never from one endpoint to another");
                if mode == 0 && after[33] == 2 && after[48] == 7 && record.offload_flags == 0 {
                    let back = other.run(&[TestPacket::new(after, VXLAN)], now).remove(0);
                    match back.verdict {
                        // A VLAN's tag says no priority behind the tunnel.
                        Some(Verdict::Interface(VLAN)) => {
                            let back = back.bytes.expect("within its buffer");
                            assert_eq!((&back[..14], &back[16..]), (&frame[..14], &frame[16..]));
                        }
                        verdict => assert!(matches!(verdict, Some(Verdict::Drop(_))), "{verdict:?}"),
                    }
                }
            }
            Verdict::Interface(interface) => assert_eq!((interface, record.ingress), (VLAN, VXLAN)),
            Verdict::Hold(_) => {}
            verdict => assert_eq!(verdict, Verdict::Consume),
        }
        seen += 1;
    }
    let counters: Vec<u64> = (0..NAMES.len() as u32).map(|place| runner.host().counter(place)).collect();
    assert_eq!(counters[..EXTRA].iter().sum::<u64>(), seen);
    assert_eq!(counters[DROPPED..EXTRA].iter().sum::<u64>(), dropped);
    let report: serde_json::Value = serde_json::from_str(&runner.report(now).expect("always")).expect("JSON");
    for network in report["networks"].as_array().expect("a list") {
        assert!(network["endpoints"].as_u64() <= Some(16));
    }
    let state = runner.export_state().expect("offered");
    assert!(Runner::<Gateway>::new(&ENCODED[mode]).expect("in range").import_state(&state));
}
