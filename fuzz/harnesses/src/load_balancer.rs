//! Any frames get one counted verdict and keep their length; any state and any file of servers is taken or
//! refused, and what is exported is taken.

use crate::configuration::Configuration;
use load_balancer::LoadBalancer;
use load_balancer::metrics::NAMES;
use load_balancer::servers_file;
use load_balancer::settings::{Choice, Service};
use nf_abi::{PacketRecord, offload};
use nf_sdk::devices::{DeviceEntry, NeighbourState};
use nf_sdk::native::{Runner, Script, Step, TestPacket};
use nf_sdk::{Nanos, Verdict};
use std::sync::LazyLock;

const CONFIGS: [&str; 3] = [
    "{services: [{name: web, address: 198.51.100.7, protocol: tcp, ports: '80', servers: [{address: 10.0.0.1, port: 8080}]}, \
     {name: dns, address: 198.51.100.7, protocol: udp, ports: 53-54, choose: least-loaded, servers: [{address: 10.0.0.1}, \
     {address: 10.0.0.2}]}, {name: six, address: '2001:db8:f::7', protocol: udp, ports: '53', servers: \
     [{address: '2001:db8:a::1', port: 54}]}], max_connections: 9, max_half_open: 4}",
    "{services: [{name: web, address: 198.51.100.7, protocol: tcp, ports: '80', affinity: 5s, check: {interval: 200ms, \
     timeout: 100ms, fall: 1}, servers: [{address: 10.0.0.1, port: 8080}, {address: 10.0.0.2, weight: 0}]}, {name: near, \
     address: 198.51.100.8, protocol: tcp, ports: '80', forward: direct, servers: [{address: 10.0.0.1}]}, {name: dns, \
     address: 198.51.100.7, protocol: udp, ports: '53', check: {by: icmp, interval: 1s}, servers: [{address: 10.0.0.1}]}], \
     unmatched: drop, max_clients: 4, max_connections: 40}",
    "{services: [{name: web, address: 198.51.100.7, protocol: tcp, ports: '80', on_down: move, check: {by: udp, interval: 1s}, \
     servers: [{address: 10.0.0.1, port: 8080}]}], max_connections: 40}",
];

static ENCODED: LazyLock<[Vec<u8>; 3]> = LazyLock::new(|| {
    let configuration = Configuration::of(include_str!("../../../functions/load-balancer/function.yaml"));
    CONFIGS.map(|text| configuration.read(text, ""))
});

/// Devices on both sides, of which a server's neighbour is known and another one's is not.
fn devices() -> Vec<DeviceEntry> {
    let link = |interface, last| DeviceEntry::Interface {
        interface,
        is_up: true,
        mac: [2, 0, 0, 0, 0, last],
        mtu: 1500,
    };
    let own =
        |interface, address: [u8; 4]| DeviceEntry::Address { interface, address: address.into(), prefix: 24 };
    let state = NeighbourState::Reachable;
    let neighbour = |interface, address: [u8; 4], last| DeviceEntry::Neighbour {
        interface,
        address: address.into(),
        state,
        mac: [2, 0, 0, 0, 0, last],
    };
    vec![
        link(0, 1),
        own(0, [198, 51, 100, 7]),
        DeviceEntry::Gateway { interface: 0, address: [198, 51, 100, 1].into() },
        neighbour(0, [198, 51, 100, 1], 9),
        link(1, 2),
        own(1, [10, 0, 0, 254]),
        neighbour(1, [10, 0, 0, 1], 3),
    ]
}

pub fn run(data: &[u8]) {
    let &[mode, split, ref data @ ..] = data else { return };
    if mode & 0x80 != 0 {
        return file(data);
    }
    let config = &ENCODED[usize::from(mode & 0x3f) % ENCODED.len()];
    let mut runner = Runner::<LoadBalancer>::new(config).expect("in range");
    let (state, frames) = data.split_at(usize::from(split).min(data.len()));
    runner.import_state(state);
    let (mut now, mut seen) = (Nanos(1 << 60), 0u64);
    if mode & 0x40 != 0 {
        runner.set_devices(&devices(), now);
    }
    // The choice: an interface with the state of the checksum.
    for Step { frame, choice: [ingress], now: at, .. } in Script::new(frames, 26) {
        now = at;
        let record = PacketRecord {
            ingress: u16::from(ingress & 1),
            offload_flags: if ingress & 2 == 0 { 0 } else { offload::NEEDS_CHECKSUM },
            csum_start: 34,
            csum_offset: u16::from(ingress >> 2),
            ..PacketRecord::default()
        };
        let out = runner.run(&[TestPacket { bytes: frame.to_vec(), record }], now).remove(0);
        let verdict = out.verdict.expect("a verdict");
        let is_known = matches!(
            verdict,
            Verdict::Interface(0 | 1) | Verdict::Drop(0..=7) | Verdict::Hold(_) | Verdict::Consume
        );
        assert!(is_known, "{verdict:?}");
        assert_eq!(out.bytes.expect("within its buffer").len(), frame.len());
        runner.timer_if_due(now);
        seen += 1;
    }
    let state = runner.export_state().expect("offered");
    runner.finish(now);
    assert_eq!((0..NAMES.len() as u32).map(|counter| runner.host().counter(counter)).sum::<u64>(), seen);
    let report: serde_json::Value = serde_json::from_str(&runner.report(now).expect("always")).expect("JSON");
    let connections = &report["connections"];
    assert!(connections["now"].as_u64() <= connections["max"].as_u64());
    assert!(connections["half_open"].as_u64() <= connections["now"].as_u64());
    let mut other = Runner::<LoadBalancer>::new(config).expect("in range");
    assert!(other.import_state(&state));
}

/// The bytes are a file of servers.
fn file(text: &[u8]) {
    let service = |name: &str, address: [u8; 4]| Service {
        name: name.to_owned(),
        address: address.into(),
        protocol: 6,
        ports: (80, 80),
        choose: Choice::Maglev,
        is_direct: false,
        affinity: None,
        moves: false,
        check: None,
        servers: Vec::new(),
    };
    let mut services = [service("web", [198, 51, 100, 7]), service("dns", [198, 51, 100, 8])];
    match servers_file::read(text, &mut services) {
        Ok(()) => {
            assert!(services.iter().flat_map(|service| &service.servers).all(|server| server.weight <= 256))
        }
        Err(fault) => assert!(fault.starts_with("line ")),
    }
}
