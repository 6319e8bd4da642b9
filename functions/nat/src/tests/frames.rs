//! Frames for tests, and a translator to show them to.

use crate::Nat;
use nf_sdk::headers::checksum::{self, Endpoints};
use nf_sdk::headers::{Transport, dissect};
pub use nf_sdk::native::frames::packet;
use nf_sdk::native::{ConfigValue, Runner, TestPacket};
use nf_sdk::{Nanos, Verdict};
use std::net::IpAddr;

pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// An end: address and port.
pub type End<'a> = (&'a str, u16);

/// A UDP packet with eight bytes of data.
pub fn udp(from: End<'_>, to: End<'_>) -> Vec<u8> {
    let mut payload = vec![];
    payload.extend(from.1.to_be_bytes());
    payload.extend(to.1.to_be_bytes());
    payload.extend([0, 20, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    packet(from.0, to.0, 17, &payload)
}

pub mod flags {
    pub const FIN: u8 = 1;
    pub const SYN: u8 = 2;
    pub const RST: u8 = 4;
    pub const ACK: u8 = 16;
}

/// A TCP segment with four bytes of data.
pub fn tcp(from: End<'_>, to: End<'_>, flags: u8) -> Vec<u8> {
    let mut payload = vec![];
    payload.extend(from.1.to_be_bytes());
    payload.extend(to.1.to_be_bytes());
    payload.extend([0, 0, 0, 9, 0, 0, 0, 8, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0, 1, 2, 3, 4]);
    packet(from.0, to.0, 6, &payload)
}

/// An ICMP message: type, code, the four bytes behind the checksum, and what follows.
pub fn icmp(from: &str, to: &str, kind: [u8; 2], rest: [u8; 4], body: &[u8]) -> Vec<u8> {
    let mut payload = vec![kind[0], kind[1], 0, 0];
    payload.extend(rest);
    payload.extend(body);
    packet(from, to, if ip(from).is_ipv4() { 1 } else { 58 }, &payload)
}

/// An echo request (8, 128) or reply (0, 129).
pub fn echo(from: &str, to: &str, kind: u8, identifier: u16) -> Vec<u8> {
    let [a, b] = identifier.to_be_bytes();
    icmp(from, to, [kind, 0], [a, b, 0, 1], &[7; 20])
}

/// The IPv4 packet of a frame, as an ICMP error carries it: the header and so many bytes.
pub fn carried(frame: &[u8], bytes: usize) -> Vec<u8> {
    frame[14..(34 + bytes).min(frame.len())].to_vec()
}

pub fn pool(text: &str) -> ConfigValue {
    let (address, length) = text.split_once('/').unwrap_or((text, "32"));
    ConfigValue::List(vec![ConfigValue::Prefix(ip(address), length.parse().expect("a length"))])
}

/// A configuration: the manifest's defaults with small tables and a pool of one address, then `changes`.
pub fn config(changes: &[(&str, ConfigValue)]) -> Vec<u8> {
    let seconds = |s: i64| ConfigValue::Integer(s * 1_000_000_000);
    let mut all = vec![
        ("pool", pool(EXT)),
        ("filtering", ConfigValue::text("endpoint-independent")),
        ("pooling", ConfigValue::text("paired")),
        ("ports", ConfigValue::PortRange(1, 65_535)),
        ("preserve_ports", ConfigValue::Boolean(true)),
        ("udp_timeout", seconds(300)),
        ("udp_inbound_refresh", ConfigValue::Boolean(false)),
        ("tcp_established_timeout", seconds(7440)),
        ("tcp_transitory_timeout", seconds(240)),
        ("icmp_timeout", seconds(60)),
        ("fragment_timeout", seconds(5)),
        ("unsolicited", ConfigValue::text("answer")),
        ("nat64_mtu", ConfigValue::Integer(1280)),
        ("max_sessions", ConfigValue::Integer(1000)),
        ("max_hosts", ConfigValue::Integer(100)),
        ("host_sessions", ConfigValue::Integer(1000)),
        ("host_ports", ConfigValue::Integer(1000)),
    ];
    for (key, value) in changes {
        match all.iter_mut().find(|(name, _)| name == key) {
            Some(place) => place.1 = value.clone(),
            None => all.push((key, value.clone())),
        }
    }
    ConfigValue::map(all).to_cbor()
}

/// A forwarded port.
pub fn forward(protocol: &str, outside: &str, ports: (u16, u16), inside: End<'_>) -> ConfigValue {
    ConfigValue::map([
        ("protocol", ConfigValue::text(protocol)),
        ("outside", ConfigValue::Address(ip(outside))),
        ("ports", ConfigValue::PortRange(ports.0, ports.1)),
        ("inside", ConfigValue::Address(ip(inside.0))),
        ("inside_port", ConfigValue::Integer(i64::from(inside.1))),
    ])
}

/// A point in time, from the tests' beginning.
pub fn at(seconds: f64) -> Nanos {
    Nanos(1_700_000_000_000_000_000 + (seconds * 1e9) as u64)
}

/// An outside address, two inside hosts, two remote ones.
pub const EXT: &str = "198.51.100.7";
pub const A: &str = "10.0.0.1";
pub const B: &str = "10.0.0.2";
pub const R: &str = "203.0.113.9";
pub const S: &str = "203.0.113.10";

/// The verdicts of the manifest's drop reasons.
pub mod drop {
    use nf_sdk::Verdict;
    pub const MALFORMED: Verdict = Verdict::Drop(0);
    pub const PROTOCOL: Verdict = Verdict::Drop(1);
    pub const NO_MAPPING: Verdict = Verdict::Drop(2);
    pub const FILTERED: Verdict = Verdict::Drop(3);
    pub const NO_SESSION: Verdict = Verdict::Drop(4);
    pub const TABLE_FULL: Verdict = Verdict::Drop(5);
    pub const HOST_LIMIT: Verdict = Verdict::Drop(6);
    pub const NO_PORT: Verdict = Verdict::Drop(7);
    pub const FRAGMENT: Verdict = Verdict::Drop(8);
    pub const UNTRANSLATABLE: Verdict = Verdict::Drop(9);
}

pub const OUT: Verdict = Verdict::Interface(1);
pub const IN: Verdict = Verdict::Interface(0);

/// Source and destination of a frame; the port of an ICMP query is its identifier.
pub fn ends(frame: &[u8]) -> ((String, u16), (String, u16)) {
    let found = dissect(frame).expect("a good frame");
    let network = found.network.expect("IP");
    let (source, destination) = match network.transport {
        Transport::Ports { source, destination } => (source, destination),
        Transport::Icmp { identifier, .. } => (identifier, identifier),
        Transport::Opaque => (0, 0),
    };
    ((network.source.to_string(), source), (network.destination.to_string(), destination))
}

/// All checksums of a frame are right.
pub fn assert_sound(frame: &[u8]) {
    let found = dissect(frame).expect("a good frame");
    let network = found.network.expect("IP");
    if network.source.is_ipv4() {
        assert!(checksum::verify(&frame[found.l3_offset..network.l4_offset]), "IPv4 header");
    }
    if network.fragment != nf_sdk::headers::Fragment::Whole {
        return;
    }
    let segment = &frame[network.l4_offset..network.end];
    match network.protocol {
        1 => assert!(checksum::verify(segment), "ICMP"),
        17 if segment[6..8] == [0, 0] => {}
        // ICMPv6 over IPv4 is any protocol, whose checksum nobody knows.
        protocol @ (6 | 17 | 58) if protocol != 58 || network.source.is_ipv6() => {
            let ends = Endpoints::new(network.source, network.destination).expect("one family");
            assert!(ends.verify(protocol, segment), "transport");
        }
        _ => {}
    }
}

pub struct Bench {
    pub runner: Runner<Nat>,
    pub now: f64,
}

impl Bench {
    pub fn new(changes: &[(&str, ConfigValue)]) -> Bench {
        Bench { runner: Runner::new(&config(changes)).expect("a good configuration"), now: 0.0 }
    }

    /// With one setting that is a text.
    pub fn with(key: &str, value: &str) -> Bench {
        Bench::new(&[(key, ConfigValue::text(value))])
    }

    /// Shows it one frame: the verdict and the frame afterwards.
    pub fn show(&mut self, ingress: u16, frame: Vec<u8>) -> (Verdict, Vec<u8>) {
        let mut out = self.runner.run(&[TestPacket::new(frame, ingress)], at(self.now));
        let outcome = out.remove(0);
        let (verdict, bytes) = (outcome.verdict.expect("a verdict"), outcome.bytes.expect("an extent"));
        if matches!(verdict, Verdict::Interface(_)) {
            assert_sound(&bytes);
        }
        (verdict, bytes)
    }

    /// A frame from inside that goes out: its ends then.
    pub fn out(&mut self, frame: Vec<u8>) -> ((String, u16), (String, u16)) {
        let (verdict, bytes) = self.show(0, frame);
        assert_eq!(verdict, OUT);
        ends(&bytes)
    }

    /// The outside end that a frame from inside gets.
    pub fn mapped(&mut self, frame: Vec<u8>) -> (String, u16) {
        self.out(frame).0
    }

    /// A frame from outside that goes in: the inside end that it goes to.
    pub fn inward(&mut self, frame: Vec<u8>) -> (String, u16) {
        let (verdict, bytes) = self.show(1, frame);
        assert_eq!(verdict, IN);
        ends(&bytes).1
    }

    pub fn inside(&mut self, frame: Vec<u8>) -> Verdict {
        self.show(0, frame).0
    }

    pub fn outside(&mut self, frame: Vec<u8>) -> Verdict {
        self.show(1, frame).0
    }

    /// Lets time pass, with the timers that are due.
    pub fn wait(&mut self, seconds: f64) {
        let end = self.now + seconds;
        self.runner.timers_until(at(end));
        self.now = end;
    }

    pub fn report(&self) -> serde_json::Value {
        serde_json::from_str(&self.runner.report(at(self.now)).expect("a report")).expect("JSON")
    }
}

pub fn end(address: &str, port: u16) -> (String, u16) {
    (address.to_owned(), port)
}
