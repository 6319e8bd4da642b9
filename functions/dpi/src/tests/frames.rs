//! Frames for tests, and a function to show them to.

use crate::Dpi;
pub use nf_sdk::native::frames::{packet, seal, tagged};
use nf_sdk::native::{ConfigValue, Outcome, Runner, TestPacket};
use nf_sdk::{Nanos, PacketRecord, Verdict};

/// TCP flags.
pub mod flags {
    pub const FIN: u8 = 1;
    pub const SYN: u8 = 2;
    pub const RST: u8 = 4;
    pub const PSH: u8 = 8;
    pub const ACK: u8 = 16;
    pub const URG: u8 = 32;
}

/// No alert.
pub const NONE: [u64; 0] = [];
pub const CLIENT: (&str, u16) = ("10.0.0.1", 40_000);
pub const SERVER: (&str, u16) = ("192.0.2.1", 80);

/// A datagram.
pub fn udp(from: (&str, u16), to: (&str, u16), data: &[u8]) -> Vec<u8> {
    let mut payload = vec![];
    payload.extend(from.1.to_be_bytes());
    payload.extend(to.1.to_be_bytes());
    payload.extend(((8 + data.len()) as u16).to_be_bytes());
    payload.extend([0, 0]);
    payload.extend(data);
    packet(from.0, to.0, 17, &payload)
}

/// A segment.
pub fn tcp(from: (&str, u16), to: (&str, u16), flags: u8, seq: u32, ack: u32, data: &[u8]) -> Vec<u8> {
    let mut payload = vec![];
    payload.extend(from.1.to_be_bytes());
    payload.extend(to.1.to_be_bytes());
    payload.extend(seq.to_be_bytes());
    payload.extend(ack.to_be_bytes());
    payload.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    payload.extend(data);
    packet(from.0, to.0, 6, &payload)
}

/// A segment with a window, and with options of a multiple of four bytes.
pub fn segment(
    from: (&str, u16),
    flags: u8,
    [seq, ack]: [u32; 2],
    window: u16,
    options: &[u8],
    data: &[u8],
) -> Vec<u8> {
    let to = if from == CLIENT { SERVER } else { CLIENT };
    let mut frame = tcp(from, to, flags, seq, ack, &[options, data].concat());
    frame[46] = (5 + options.len() as u8 / 4) << 4;
    frame[48..50].copy_from_slice(&window.to_be_bytes());
    seal(&mut frame);
    frame
}

/// The option with a timestamp.
pub fn stamp(value: u32) -> Vec<u8> {
    [[1, 1, 8, 10], value.to_be_bytes(), [0; 4]].concat()
}

/// A datagram's fragments: those parts of what lies behind the IP header, and `id`.
pub fn fragments(frame: &[u8], id: u16, parts: &[std::ops::Range<usize>]) -> Vec<Vec<u8>> {
    let data = &frame[34..];
    let part = |part: &std::ops::Range<usize>| {
        let mut out = [&frame[..34], &data[part.clone()]].concat();
        out[16..18].copy_from_slice(&(20 + part.len() as u16).to_be_bytes());
        out[18..20].copy_from_slice(&id.to_be_bytes());
        let more = u16::from(part.end < data.len()) << 13;
        out[20..22].copy_from_slice(&((part.start as u16 / 8) | more).to_be_bytes());
        seal(&mut out);
        out
    };
    parts.iter().map(part).collect()
}

/// An ICMP or ICMPv6 message.
pub fn icmp(from: &str, to: &str, kind: u8, code: u8, data: &[u8]) -> Vec<u8> {
    let mut payload = vec![kind, code, 0, 0, 0, 1, 0, 1];
    payload.extend(data);
    packet(from, to, if from.contains(':') { 58 } else { 1 }, &payload)
}

/// A configuration in CBOR: the manifest's defaults with small tables, then `changes`.
pub fn config(rules: &str, changes: &[(&str, ConfigValue)]) -> Vec<u8> {
    let seconds = |s: i64| ConfigValue::Integer(s * 1_000_000_000);
    let variables = [("HOME_NET", "10.0.0.0/8"), ("EXTERNAL_NET", "!$HOME_NET"), ("HTTP_PORTS", "[80,8080]")];
    let variables = variables.map(|(name, value)| {
        ConfigValue::map([("name", ConfigValue::text(name)), ("value", ConfigValue::text(value))])
    });
    let mut all = vec![
        ("rules", ConfigValue::File("test.rules".into(), rules.as_bytes().to_vec())),
        ("variables", ConfigValue::List(variables.into())),
        ("inline", ConfigValue::text("drop")),
        ("drop_scope", ConfigValue::text("flow")),
        ("suspicious", ConfigValue::text("none")),
        ("overload", ConfigValue::text("accept")),
        ("malformed", ConfigValue::text("accept")),
        ("fragments", ConfigValue::text("accept")),
        ("ignored", ConfigValue::text("accept")),
        ("sides", ConfigValue::text("apart")),
        ("checksums", ConfigValue::text("verify")),
        ("overlap", ConfigValue::text("linux")),
        ("min_ttl", ConfigValue::Integer(0)),
        ("fragment_memory", ConfigValue::Integer(1 << 20)),
        ("fragment_timeout", seconds(30)),
        ("max_flows", ConfigValue::Integer(1000)),
        ("pick_up", ConfigValue::Boolean(false)),
        ("stream_window", ConfigValue::Integer(2048)),
        ("stream_memory", ConfigValue::Integer(4 << 20)),
        ("message_memory", ConfigValue::Integer(4 << 20)),
        ("body_limit", ConfigValue::Integer(100 << 10)),
        ("unsupported", ConfigValue::text("refuse")),
        ("reorder_limit", ConfigValue::Integer(65_536)),
        ("max_thresholds", ConfigValue::Integer(1024)),
        ("opening_timeout", seconds(60)),
        ("established_timeout", seconds(7440)),
        ("other_timeout", seconds(300)),
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

/// A function under test.
pub struct Bench {
    pub runner: Runner<Dpi>,
    pub now: f64,
    /// What the port says about the checksums of the next frames.
    pub offload_flags: u8,
    /// Where that begins whose checksum is still to be computed.
    pub csum_start: u16,
    /// How they are still to be cut.
    pub gso_type: u8,
    /// How much of them a capture left out.
    pub gso_size: u16,
    told: usize,
}

impl Bench {
    pub fn new(rules: &str, changes: &[(&str, ConfigValue)]) -> Bench {
        let runner = Runner::new(&config(rules, changes)).unwrap_or_else(|error| panic!("{error}"));
        Bench { runner, now: 0.0, offload_flags: 0, csum_start: 0, gso_type: 0, gso_size: 0, told: 0 }
    }

    /// Shows it one frame: the verdict, and the sids of the alerts.
    pub fn show(&mut self, ingress: u16, frame: Vec<u8>) -> (Verdict, Vec<u64>) {
        let &mut Bench { offload_flags, csum_start, gso_type, gso_size, now, .. } = self;
        let timestamp = at(now).0;
        let record = PacketRecord {
            csum_offset: 16,
            timestamp,
            ingress,
            offload_flags,
            csum_start,
            gso_type,
            gso_size,
            ..PacketRecord::default()
        };
        let out = self.runner.run(&[TestPacket { bytes: frame, record }], at(self.now));
        let [Outcome { verdict: Some(verdict), .. }] = out.as_slice() else { panic!("{out:?}") };
        (
            *verdict,
            self.told().iter().map(|event| event["alert"]["signature_id"].as_u64().expect("a sid")).collect(),
        )
    }

    /// The alerts since it was asked last.
    pub fn told(&mut self) -> Vec<serde_json::Value> {
        let events = self.runner.host().events();
        let new = events[self.told..].iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        self.told = events.len();
        new
    }

    /// The sids of a frame's alerts.
    pub fn sids(&mut self, frame: Vec<u8>) -> Vec<u64> {
        self.show(0, frame).1
    }

    pub fn report(&self) -> serde_json::Value {
        serde_json::from_str(&self.runner.report(at(self.now)).expect("a report")).expect("JSON")
    }

    pub fn count(&self, name: &str) -> u64 {
        self.report()["counters"][name].as_u64().unwrap_or_else(|| panic!("no counter {name}"))
    }

    /// The handshake of [`CLIENT`] and [`SERVER`]: the client begins with 100, the server with 500.
    pub fn handshake(&mut self) {
        for (ingress, frame) in [
            (0, tcp(CLIENT, SERVER, flags::SYN, 99, 0, &[])),
            (1, tcp(SERVER, CLIENT, flags::SYN | flags::ACK, 499, 100, &[])),
            (0, tcp(CLIENT, SERVER, flags::ACK, 100, 500, &[])),
        ] {
            assert_eq!(self.show(ingress, frame).1, NONE);
        }
    }

    /// Data of the client, `at` bytes into its stream: the sids of the alerts.
    pub fn client(&mut self, at: u32, data: &[u8]) -> Vec<u64> {
        self.sids(tcp(CLIENT, SERVER, flags::ACK | flags::PSH, 100u32.wrapping_add(at), 500, data))
    }

    /// Data of the server.
    pub fn server(&mut self, at: u32, data: &[u8]) -> Vec<u64> {
        let frame = tcp(SERVER, CLIENT, flags::ACK | flags::PSH, 500u32.wrapping_add(at), 100, data);
        self.show(1, frame).1
    }
}
