//! Frames for tests, and a firewall to show them to.

use crate::Firewall;
use crate::metrics::NAMES;
pub use nf_sdk::native::frames::{flags, icmp, packet, tcp, udp};
use nf_sdk::native::{ConfigValue, Runner};
use nf_sdk::{Nanos, Verdict};
use std::net::IpAddr;

/// An address.
pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Puts VLAN tags behind the addresses, all but the innermost of the providers' type.
pub fn tagged(frame: &[u8], vlans: &[u16]) -> Vec<u8> {
    let mut out = frame[..12].to_vec();
    for (n, vlan) in vlans.iter().enumerate() {
        out.extend(if n + 1 < vlans.len() { [0x88, 0xa8] } else { [0x81, 0x00] });
        out.extend(vlan.to_be_bytes());
    }
    out.extend(&frame[12..]);
    out
}

/// A rule from pairs; what is absent is as in the manifest.
pub fn rule(action: &str, pairs: &[(&str, ConfigValue)]) -> ConfigValue {
    let mut all = vec![("action", ConfigValue::text(action))];
    all.extend(pairs.iter().cloned());
    for (key, default) in [("from", "any"), ("protocol", "any")] {
        if !pairs.iter().any(|(name, _)| *name == key) {
            all.push((key, ConfigValue::text(default)));
        }
    }
    ConfigValue::map(all)
}

/// A prefix for a rule.
pub fn prefix(text: &str) -> ConfigValue {
    let (address, length) = text.split_once('/').expect("address/length");
    ConfigValue::Prefix(ip(address), length.parse().expect("a length"))
}

/// A configuration in CBOR: the manifest's defaults with small tables, then `changes`.
pub fn config(rules: Vec<ConfigValue>, changes: &[(&str, ConfigValue)]) -> Vec<u8> {
    let seconds = |s: i64| ConfigValue::Integer(s * 1_000_000_000);
    let mut all = vec![
        ("default_action", ConfigValue::text("drop")),
        ("non_ip", ConfigValue::text("accept")),
        ("neighbor_discovery", ConfigValue::text("accept")),
        ("stateful", ConfigValue::Boolean(true)),
        ("pick_up", ConfigValue::Boolean(false)),
        ("established", ConfigValue::text("recheck")),
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
        ("rules", ConfigValue::List(rules)),
    ];
    for (key, value) in changes {
        match all.iter_mut().find(|(name, _)| name == key) {
            Some(place) => place.1 = value.clone(),
            None => all.push((key, value.clone())),
        }
    }
    ConfigValue::map(all).to_cbor()
}

/// A point in time, from the tests' beginning.
pub fn at(seconds: f64) -> Nanos {
    Nanos(1_700_000_000_000_000_000 + (seconds * 1e9) as u64)
}

/// A firewall under test.
pub struct Bench {
    pub runner: Runner<Firewall>,
    pub now: f64,
}

/// The verdicts of the manifest's drop reasons.
pub mod drop {
    use nf_sdk::Verdict;
    pub const DENIED: Verdict = Verdict::Drop(0);
    pub const MALFORMED: Verdict = Verdict::Drop(1);
    pub const NO_FLOW: Verdict = Verdict::Drop(2);
    pub const BAD_STATE: Verdict = Verdict::Drop(3);
    pub const TABLE_FULL: Verdict = Verdict::Drop(4);
    pub const FRAGMENT: Verdict = Verdict::Drop(5);
    pub const NON_IP: Verdict = Verdict::Drop(6);
    pub const UNREADABLE: Verdict = Verdict::Drop(7);
}

/// On to the outside.
pub const OUT: Verdict = Verdict::Interface(1);
/// On to the inside.
pub const IN: Verdict = Verdict::Interface(0);

impl Bench {
    pub fn new(rules: Vec<ConfigValue>, changes: &[(&str, ConfigValue)]) -> Bench {
        let runner = Runner::new(&config(rules, changes)).expect("a good configuration");
        Bench { runner, now: 0.0 }
    }

    /// Shows it one frame.
    pub fn show(&mut self, ingress: u16, frame: Vec<u8>) -> Verdict {
        self.runner.verdict_of(frame, ingress, at(self.now))
    }

    pub fn inside(&mut self, frame: Vec<u8>) -> Verdict {
        self.show(0, frame)
    }

    pub fn outside(&mut self, frame: Vec<u8>) -> Verdict {
        self.show(1, frame)
    }

    /// Lets time pass, with the timers that are due.
    pub fn wait(&mut self, seconds: f64) {
        let end = self.now + seconds;
        self.runner.timers_until(at(end));
        self.now = end;
    }

    /// Packets of any verdict, by the function's own counters.
    pub fn counted(&self) -> u64 {
        (0..NAMES.len() as u32).map(|counter| self.runner.host().counter(counter)).sum()
    }

    pub fn report(&self) -> serde_json::Value {
        serde_json::from_str(&self.runner.report(at(self.now)).expect("a report")).expect("JSON")
    }
}

#[test]
fn frames_are_what_they_say() {
    let frame = udp("10.0.0.1", 1, "10.0.0.2", 2);
    assert_eq!(usize::from(u16::from_be_bytes([frame[16], frame[17]])), frame.len() - 14);
}
