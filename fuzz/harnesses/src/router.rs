//! Any frames get one counted verdict, what is forwarded has one hop less and right checksums, and any state
//! and file of routes is taken or refused.

use crate::configuration::Configuration;
use nf_abi::PacketRecord;
use nf_sdk::native::{ConfigValue, Runner, TestPacket};
use nf_sdk::{Config, Nanos, Verdict};
use router::Router;
use router::metrics::{DROPPED, ICMP_SENT, NAMES};
use router::settings::Settings;
use std::sync::LazyLock;

const LINKS: &str = "interfaces: [{name: a, mac: '02:00:00:00:00:02', addresses: [10.0.0.2/16, '2001:db8::2/64']}, \
                     {name: b, mac: '02:00:00:00:00:01', addresses: [192.0.2.1/24, 'fe80::1/64'], mtu: 1280}], \
                     neighbours: [{address: 192.0.2.2, mac: '02:00:00:00:00:b2'}, {address: 10.0.0.1, mac: '02:00:00:00:00:a1'}, \
                     {address: '2001:db8::1', mac: '02:00:00:00:00:a1'}]";
const CONFIGS: [&str; 2] = [
    "routes: [{to: 0.0.0.0/0, via: 192.0.2.2}, {to: '::/0', via: '2001:db8::1'}], icmp_burst: 3",
    "routes: [{to: 10.0.0.0/8, via: 192.0.2.2}, {to: 10.0.0.0/8, via: 10.0.0.1}, {to: 10.0.1.0/24, action: reject}, \
     {to: '2001:db8::/32', interface: a}], echo: false",
];

static ENCODED: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
    let configuration = Configuration::of(include_str!("../../../functions/router/function.yaml"));
    CONFIGS.map(|text| configuration.read(&format!("{{{LINKS}, {text}}}"), ""))
});

pub fn run(data: &[u8]) {
    let &[mode, split, ref data @ ..] = data else { return };
    if mode & 0x80 != 0 {
        return file(data);
    }
    let config = &ENCODED[usize::from(mode) % ENCODED.len()];
    let mut runner = Runner::<Router>::new(config).expect("in range");
    let (state, mut frames) = data.split_at(usize::from(split).min(data.len()));
    runner.import_state(state);
    let (mut now, mut seen, mut dropped) = (Nanos(1 << 60), 0u64, 0u64);
    // A length, an interface, segmentation, and how much later the packet comes.
    while let &[length, ingress, gso_type, size, later, ref rest @ ..] = frames {
        let (frame, rest) = rest.split_at(usize::from(length).min(rest.len()));
        frames = rest;
        now = now.saturating_add(Nanos(u64::from(later) << 22));
        let mut bytes = frame.to_vec();
        if size & 1 != 0 {
            // Long enough to be cut.
            bytes.resize(bytes.len() + 8 * usize::from(size), 7);
        }
        let before = bytes.clone();
        let record = PacketRecord {
            ingress: u16::from(ingress & 3),
            gso_type,
            gso_size: u16::from(size) << (size & 7),
            ..PacketRecord::default()
        };
        let out = runner.run(&[TestPacket { bytes, record }], now).remove(0);
        let after = out.bytes.expect("its extent is as it was");
        assert_eq!(after.len(), before.len());
        match out.verdict.expect("a verdict") {
            Verdict::Drop(reason) => {
                assert!(reason <= 16);
                dropped += 1;
            }
            Verdict::Interface(interface) => {
                assert!(interface < 2);
                if after.get(12..14) == Some(&[8, 0]) {
                    let header = packet::ipv4::View::captured(&after[14..]).expect("a header");
                    assert!(header.verify_checksum());
                }
            }
            verdict => assert_eq!(verdict, Verdict::Consume),
        }
        seen += 1;
    }
    let counters: Vec<u64> = (0..NAMES.len() as u32).map(|place| runner.host().counter(place)).collect();
    assert_eq!(counters[..ICMP_SENT].iter().sum::<u64>(), seen);
    assert_eq!(counters[DROPPED..ICMP_SENT].iter().sum::<u64>(), dropped);
    let _: serde_json::Value = serde_json::from_str(&runner.report(now).expect("always")).expect("JSON");
    let state = runner.export_state().expect("offered");
    assert!(Runner::<Router>::new(config).expect("in range").import_state(&state));
}

/// The bytes are a file of routes.
fn file(text: &[u8]) {
    let text_of = |text: &str| ConfigValue::text(text);
    let interface = ConfigValue::map([
        ("name", text_of("a")),
        ("mac", ConfigValue::Mac([2, 0, 0, 0, 0, 1])),
        ("addresses", ConfigValue::List(vec![text_of("10.0.0.2/16"), text_of("2001:db8::2/64")])),
        ("mtu", ConfigValue::Integer(1500)),
    ]);
    let config = ConfigValue::map([
        ("interfaces", ConfigValue::List(vec![interface])),
        ("neighbours", ConfigValue::List(vec![])),
        ("routes", ConfigValue::List(vec![])),
        ("routes_file", ConfigValue::File("routes".to_owned(), text.to_vec())),
        ("icmp_rate", ConfigValue::Integer(1)),
        ("icmp_burst", ConfigValue::Integer(1)),
        ("echo", ConfigValue::Boolean(true)),
    ]);
    let config = Config::from_cbor(config.to_cbor()).expect("well-formed");
    match Settings::read(&config) {
        Ok(settings) => {
            // Whatever is looked up, the answer is a set that there is.
            for address in [[10, 0, 0, 9], [10, 200, 1, 1], [255; 4], [0; 4]] {
                let set = settings.table.lookup(address.into());
                assert!(usize::from(set) <= settings.hops.sets());
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
