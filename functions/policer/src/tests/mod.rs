//! Tests of the whole function and of its parts against plainer ones.

mod any_input;
mod configuration;
mod lengths;
mod metering;
mod policing;
mod secrets;
mod table;

use crate::Policers;
use manifest::Manifest;
use nf_sdk::native::frames::{packet, tagged};
use nf_sdk::native::{Runner, TestPacket};
use nf_sdk::{Nanos, Verdict};
use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;
use yaml_document::Document;

/// When a test begins.
const START: u64 = 1 << 60;

fn at(nanos: u64) -> Nanos {
    Nanos(START + nanos)
}

/// The configuration as the host hands it over, or what is wrong with it.
fn configure(text: &str) -> Result<Vec<u8>, String> {
    let manifest = Manifest::parse("function.yaml", include_str!("../../function.yaml"))
        .expect("the manifest is in order");
    let document = Document::parse("config", text).map_err(|fault| format!("{fault}"))?;
    let mut faults = Vec::new();
    let value = manifest.schema.check("config", "", Some(document.root()), &mut faults);
    match value {
        Some(value) if faults.is_empty() => Ok(value.to_cbor()),
        _ => Err(faults.iter().map(|fault| format!("{fault}\n")).collect()),
    }
}

fn function(text: &str) -> Runner<Policers> {
    Runner::new(&configure(text).expect("the schema allows it")).unwrap_or_else(|error| panic!("{error}"))
}

fn report(runner: &Runner<Policers>) -> serde_json::Value {
    serde_json::from_str(&runner.report(at(0)).expect("always")).expect("JSON")
}

/// A UDP packet whose frame has `length` bytes.
fn udp(source: &str, ports: [u16; 2], destination: &str, length: usize) -> Vec<u8> {
    let headers = if source.contains(':') { 54 } else { 34 };
    let mut payload = vec![0; length - headers];
    payload[..2].copy_from_slice(&ports[0].to_be_bytes());
    payload[2..4].copy_from_slice(&ports[1].to_be_bytes());
    packet(source, destination, 17, &payload)
}

/// The verdict of one packet that came in by `ingress`.
fn ask(runner: &mut Runner<Policers>, frame: Vec<u8>, ingress: u16, now: Nanos) -> Verdict {
    runner.run(&[TestPacket::new(frame, ingress)], now)[0].verdict.expect("a verdict")
}

const PASS: Verdict = Verdict::Interface(1);
const EXCEEDED: Verdict = Verdict::Drop(0);
