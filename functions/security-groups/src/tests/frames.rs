//! A device's filter, and frames to show to it. The device is [`MAC`] with [`A`] and [`A6`]; the rest of the
//! world is [`B`], [`B6`] and whatever a test says.

use crate::SecurityGroups;
use nf_sdk::native::frames::packet;
use nf_sdk::native::{ConfigValue, Runner};
use nf_sdk::{Nanos, Verdict};

pub const A: &str = "192.0.2.9";
pub const A6: &str = "2001:db8::9";
pub const B: &str = "198.51.100.7";
pub const B6: &str = "2001:db8:1::7";
/// The source of the frames of [`packet`].
pub const MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// What follows from it.
pub const LINK_LOCAL: &str = "fe80::ff:fe00:2";

pub const OUT: Verdict = Verdict::Interface(1);
pub const IN: Verdict = Verdict::Interface(0);

/// The verdicts of the manifest's drop reasons.
pub mod drop {
    use nf_sdk::Verdict;
    pub const DENIED: Verdict = Verdict::Drop(0);
    pub const MALFORMED: Verdict = Verdict::Drop(1);
    pub const NO_FLOW: Verdict = Verdict::Drop(2);
    pub const TABLE_FULL: Verdict = Verdict::Drop(4);
    pub const FRAGMENT: Verdict = Verdict::Drop(5);
    pub const NON_IP: Verdict = Verdict::Drop(6);
    pub const SPOOFED: Verdict = Verdict::Drop(8);
    pub const MISADDRESSED: Verdict = Verdict::Drop(9);
}

/// A rule from pairs; what is absent is as in the manifest.
pub fn rule(direction: &str, pairs: &[(&str, ConfigValue)]) -> ConfigValue {
    let mut all = vec![("direction", ConfigValue::text(direction))];
    all.extend(pairs.iter().cloned());
    if !pairs.iter().any(|(name, _)| *name == "protocol") {
        all.push(("protocol", ConfigValue::text("any")));
    }
    ConfigValue::map(all)
}

/// A rule for a protocol's port.
pub fn to_port(direction: &str, protocol: &str, port: u16) -> ConfigValue {
    rule(
        direction,
        &[("protocol", ConfigValue::text(protocol)), ("ports", ConfigValue::PortRange(port, port))],
    )
}

/// A prefix for a rule.
pub fn remote(text: &str) -> (&'static str, ConfigValue) {
    let (address, length) = text.split_once('/').expect("address/length");
    let address = address.parse().expect("an address");
    ("remote", ConfigValue::Prefix(address, length.parse().expect("a length")))
}

/// A configuration in CBOR: the manifest's defaults with small tables, the device's addresses, these layers.
pub fn config(layers: &[(&str, Vec<ConfigValue>)], with_identity: bool) -> Vec<u8> {
    let seconds = |s: i64| ConfigValue::Integer(s * 1_000_000_000);
    let addresses = [format!("{A}/24"), format!("{A6}/64")].map(|text| ConfigValue::text(&text));
    let mut all = vec![
        ("max_flows", ConfigValue::Integer(1000)),
        ("max_flows_ipv6", ConfigValue::Integer(1000)),
        ("tcp_opening_timeout", seconds(60)),
        ("tcp_established_timeout", seconds(7440)),
        ("tcp_closing_timeout", seconds(240)),
        ("tcp_reset_timeout", seconds(10)),
        ("udp_timeout", seconds(30)),
        ("udp_answered_timeout", seconds(180)),
        ("icmp_timeout", seconds(60)),
        ("other_timeout", seconds(600)),
        ("fragment_timeout", seconds(30)),
        ("addresses", ConfigValue::List(if with_identity { addresses.to_vec() } else { vec![] })),
    ];
    if with_identity {
        all.push(("mac", ConfigValue::Mac(MAC)));
    }
    all.extend(layers.iter().map(|(key, rules)| (*key, ConfigValue::List(rules.clone()))));
    ConfigValue::map(all).to_cbor()
}

pub struct Bench {
    pub runner: Runner<SecurityGroups>,
    pub now: f64,
}

/// A point in time, from the tests' beginning.
pub fn at(seconds: f64) -> Nanos {
    Nanos(1_700_000_000_000_000_000 + (seconds * 1e9) as u64)
}

impl Bench {
    /// With these layers of rules.
    pub fn new(layers: &[(&str, Vec<ConfigValue>)]) -> Bench {
        Bench { runner: Runner::new(&config(layers, true)).expect("a good configuration"), now: 0.0 }
    }

    /// With the tenant's rules alone.
    pub fn of(rules: Vec<ConfigValue>) -> Bench {
        Bench::new(&[("tenant", rules)])
    }

    /// Another instance with other rules, and the connections of this one.
    pub fn change(mut self, layers: &[(&str, Vec<ConfigValue>)]) -> Bench {
        let state = self.runner.export_state().expect("offered");
        let mut next = Bench { now: self.now, ..Bench::new(layers) };
        assert!(next.runner.import_state(&state));
        next
    }

    pub fn show(&mut self, ingress: u16, frame: Vec<u8>) -> Verdict {
        self.runner.verdict_of(frame, ingress, at(self.now))
    }

    pub fn inside(&mut self, frame: Vec<u8>) -> Verdict {
        self.show(0, frame)
    }

    pub fn outside(&mut self, frame: Vec<u8>) -> Verdict {
        self.show(1, frame)
    }

    pub fn report(&self) -> serde_json::Value {
        serde_json::from_str(&self.runner.report(at(self.now)).expect("a report")).expect("JSON")
    }
}

/// ICMPv6 of neighbour discovery, with the hop limit that it has on a link.
pub fn discovery(source: &str, destination: &str, message: &[u8]) -> Vec<u8> {
    let mut frame = packet(source, destination, 58, message);
    frame[21] = 255;
    frame
}
