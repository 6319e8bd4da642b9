//! Tests of the whole function and of its parts against plainer ones.

mod any_input;
mod choosing;
mod configuration;
mod connections;
mod devices;
mod flood;
mod hand_over;
mod health;
mod related;
mod secrets;
mod translation;

use crate::LoadBalancer;
use crate::metrics::{NAMES, Reason};
use manifest::Manifest;
use nf_sdk::headers::checksum::{self, Endpoints};
use nf_sdk::headers::{Fragment, Transport, dissect};
use nf_sdk::native::frames::packet;
use nf_sdk::native::{Runner, TestPacket};
use nf_sdk::{Nanos, Verdict};
use schema::Files;
use std::format;
use std::net::IpAddr;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;
use yaml_document::{Document, Location, Position};

/// A point in time, from the tests' beginning.
fn at(seconds: f64) -> Nanos {
    Nanos(1_700_000_000_000_000_000 + (seconds * 1e9) as u64)
}

struct OneFile<'a>(&'a str);

impl Files for OneFile<'_> {
    fn read(&self, _path: &str, _max: u64) -> Result<Vec<u8>, String> {
        Ok(self.0.as_bytes().to_vec())
    }
}

/// The configuration as the host hands it over, or what is wrong with it; `file` is in the file that it
/// names.
fn configure(text: &str, file: &str) -> Result<Vec<u8>, String> {
    let manifest = Manifest::parse("function.yaml", include_str!("../../function.yaml"))
        .expect("the manifest is in order");
    let document = Document::parse("config", text).map_err(|fault| format!("{fault}"))?;
    let mut faults = Vec::new();
    let place = Location::new("config", "", Position::START);
    let value = manifest.schema.check_with(&place, Some(document.root()), &[], &OneFile(file), &mut faults);
    match value {
        Some(value) if faults.is_empty() => Ok(value.to_cbor()),
        _ => Err(faults.iter().map(|fault| format!("{fault}\n")).collect()),
    }
}

/// A service `web` with servers at 10.0.0.1 to 10.0.0.`count`, port 8080, and what else is said of it.
fn web(count: usize, more: &str) -> String {
    let servers: Vec<String> = (1..=count).map(|n| format!("{{address: 10.0.0.{n}, port: 8080}}")).collect();
    format!(
        "services: [{{name: web, address: {VIP}, protocol: tcp, ports: '80', servers: [{}]{more}}}]",
        servers.join(", ")
    )
}

/// The virtual addresses of most tests.
const VIP: &str = "198.51.100.7";
const VIP6: &str = "2001:db8:f::7";

/// An end: address and port.
type End = (String, u16);

fn end(address: &str, port: u16) -> End {
    (address.to_owned(), port)
}

mod flags {
    pub const FIN: u8 = 1;
    pub const SYN: u8 = 2;
    pub const RST: u8 = 4;
    pub const ACK: u8 = 16;
}

/// A segment with four bytes of data, sequence number 9 and this acknowledgment.
fn segment(from: &End, to: &End, flags: u8, acknowledgment: u32) -> Vec<u8> {
    let mut payload = vec![];
    payload.extend(from.1.to_be_bytes());
    payload.extend(to.1.to_be_bytes());
    payload.extend(9u32.to_be_bytes());
    payload.extend(acknowledgment.to_be_bytes());
    payload.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0, 1, 2, 3, 4]);
    packet(&from.0, &to.0, 6, &payload)
}

/// The same, with what acknowledges the SYN of the other side.
fn tcp(from: &End, to: &End, flags: u8) -> Vec<u8> {
    segment(from, to, flags, 10)
}

/// A UDP packet with so many bytes of data.
fn datagram(from: &End, to: &End, length: usize) -> Vec<u8> {
    let mut payload = vec![];
    payload.extend(from.1.to_be_bytes());
    payload.extend(to.1.to_be_bytes());
    payload.extend(((8 + length) as u16).to_be_bytes());
    payload.extend([0, 0]);
    payload.extend((0..length).map(|n| n as u8));
    packet(&from.0, &to.0, 17, &payload)
}

fn udp(from: &End, to: &End) -> Vec<u8> {
    datagram(from, to, 12)
}

/// Source and destination of a frame.
fn ends(frame: &[u8]) -> (End, End) {
    let network = dissect(frame).expect("a good frame").network.expect("IP");
    let (source, destination) = match network.transport {
        Transport::Ports { source, destination } => (source, destination),
        _ => (0, 0),
    };
    ((network.source.to_string(), source), (network.destination.to_string(), destination))
}

/// All checksums of a frame are right.
fn assert_sound(frame: &[u8]) {
    let found = dissect(frame).expect("a good frame");
    let Some(network) = found.network else { return };
    if network.source.is_ipv4() {
        assert!(checksum::verify(&frame[found.l3_offset..network.l4_offset]), "IPv4 header");
    }
    if network.fragment != Fragment::Whole {
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

const TO_SERVER: Verdict = Verdict::Interface(1);
const TO_CLIENT: Verdict = Verdict::Interface(0);

fn drop(reason: Reason) -> Verdict {
    Verdict::Drop(reason as u16)
}

/// A balancer and its time.
struct Bench {
    runner: Runner<LoadBalancer>,
    now: f64,
}

impl Bench {
    fn new(config: &str) -> Bench {
        Bench::with_file(config, "")
    }

    fn with_file(config: &str, file: &str) -> Bench {
        let config = configure(config, file).unwrap_or_else(|faults| panic!("{faults}"));
        Bench { runner: Runner::new(&config).unwrap_or_else(|error| panic!("{error}")), now: 0.0 }
    }

    /// Shows it one frame: the verdict and the frame afterwards.
    fn show(&mut self, ingress: u16, frame: Vec<u8>) -> (Verdict, Vec<u8>) {
        let outcome = self.runner.run(&[TestPacket::new(frame, ingress)], at(self.now)).remove(0);
        let (verdict, bytes) = (outcome.verdict.expect("a verdict"), outcome.bytes.expect("an extent"));
        if matches!(verdict, Verdict::Interface(_)) {
            assert_sound(&bytes);
        }
        (verdict, bytes)
    }

    /// A client's frame that goes to a server: the server's end.
    fn server(&mut self, frame: Vec<u8>) -> End {
        let (verdict, bytes) = self.show(0, frame);
        assert_eq!(verdict, TO_SERVER);
        ends(&bytes).1
    }

    /// What becomes of a client's frame.
    fn client(&mut self, frame: Vec<u8>) -> Verdict {
        self.show(0, frame).0
    }

    /// A server's frame that goes to a client: its source then.
    fn answer(&mut self, frame: Vec<u8>) -> End {
        let (verdict, bytes) = self.show(1, frame);
        assert_eq!(verdict, TO_CLIENT);
        ends(&bytes).0
    }

    /// The handshake of a connection to the first service; its server.
    fn connect(&mut self, client: &End, service: &End) -> End {
        let server = self.server(tcp(client, service, flags::SYN));
        assert_eq!(self.answer(tcp(&server, client, flags::SYN | flags::ACK)), *service);
        assert_eq!(self.server(tcp(client, service, flags::ACK)), server);
        server
    }

    /// Lets time pass, with the timers that are due.
    fn wait(&mut self, seconds: f64) {
        let end = self.now + seconds;
        self.runner.timers_until(at(end));
        self.now = end;
    }

    fn report(&self) -> serde_json::Value {
        serde_json::from_str(&self.runner.report(at(self.now)).expect("a report")).expect("JSON")
    }

    fn event(&self, name: &str) -> u64 {
        self.report()["events"][name].as_u64().expect("an event")
    }

    /// All packets that were counted.
    fn counted(&self) -> u64 {
        (0..NAMES.len() as u32).map(|place| self.runner.host().counter(place)).sum()
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// The end of a client by number.
fn client(number: u32) -> End {
    let [_, a, b, c] = (number / 20_000).to_be_bytes();
    (format!("192.{}.{a}.{}", 100 + b, c), 1024 + (number % 20_000) as u16 * 3)
}
