//! Tests of the whole function and of its parts against plainer ones.

mod answers;
mod any_input;
mod changes;
mod configuration;
mod devices;
mod forwarding;
mod lookup;
mod paths;

use crate::Router;
use manifest::Manifest;
use nf_sdk::native::frames::{packet, seal};
use nf_sdk::native::{Outcome, Runner, TestPacket};
use nf_sdk::{Nanos, Verdict};
use schema::Files;
use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;
use yaml_document::{Document, Location, Position};

/// When a test begins.
const START: u64 = 1 << 60;

fn at(nanos: u64) -> Nanos {
    Nanos(START + nanos)
}

/// Files that a configuration names.
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

/// Interfaces and neighbours of most tests.
const LINKS: &str = "
interfaces:
  - {name: a, mac: '02:00:00:00:00:01', addresses: [192.0.2.1/24, '2001:db8:a::1/64', 'fe80::1/64']}
  - {name: b, mac: '02:00:00:00:00:0b', addresses: [198.51.100.1/24, '2001:db8:b::1/64'], mtu: 1400}
neighbours:
  - {address: 192.0.2.9, mac: '02:00:00:00:09:09'}
  - {address: '2001:db8:a::9', mac: '02:00:00:00:09:09'}
  - {address: 198.51.100.2, mac: '02:00:00:00:00:b2'}
  - {address: 198.51.100.3, mac: '02:00:00:00:00:b3'}
  - {address: '2001:db8:b::2', mac: '02:00:00:00:00:b6'}
";

/// A router with [`LINKS`] and what else is said.
fn router(more: &str) -> Runner<Router> {
    with_file(more, "")
}

fn with_file(more: &str, file: &str) -> Runner<Router> {
    let config = configure(&format!("{LINKS}{more}"), file).expect("the schema allows it");
    Runner::new(&config).unwrap_or_else(|error| panic!("{error}"))
}

/// Why there is no such router.
fn refusal(more: &str, file: &str) -> String {
    let config = configure(&format!("{LINKS}{more}"), file).expect("the schema allows it");
    match Runner::<Router>::new(&config) {
        Ok(_) => String::from("nothing is wrong"),
        Err(error) => format!("{error}"),
    }
}

/// What becomes of one packet that comes in by `a`.
fn ask(runner: &mut Runner<Router>, frame: &[u8], now: Nanos) -> Outcome {
    runner.run(&[TestPacket::new(frame.to_vec(), 0)], now).remove(0)
}

fn verdict(runner: &mut Runner<Router>, frame: &[u8]) -> Verdict {
    ask(runner, frame, at(0)).verdict.expect("a verdict")
}

fn drop(reason: crate::metrics::Reason) -> Verdict {
    Verdict::Drop(reason as u16)
}

/// A UDP packet with a payload of so many bytes, to port 9.
fn udp(source: &str, destination: &str, payload: usize) -> Vec<u8> {
    let mut datagram = vec![0x30, 0x39, 0, 9];
    datagram.extend(((8 + payload) as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend((0..payload).map(|n| n as u8));
    packet(source, destination, 17, &datagram)
}

/// Changes a byte and puts the checksums right again.
fn changed(mut frame: Vec<u8>, place: usize, byte: u8) -> Vec<u8> {
    frame[place] = byte;
    seal(&mut frame);
    frame
}

/// A packet's time to live or hop limit.
fn hops(frame: Vec<u8>, hops: u8) -> Vec<u8> {
    let place = if frame[14] >> 4 == 4 { 22 } else { 21 };
    changed(frame, place, hops)
}

fn report(runner: &Runner<Router>) -> serde_json::Value {
    serde_json::from_str(&runner.report(at(0)).expect("always")).expect("JSON")
}

fn counted(runner: &Runner<Router>, name: &str) -> u64 {
    let place = crate::metrics::NAMES.iter().position(|known| *known == name).expect("a counter");
    runner.host().counter(place as u32)
}
