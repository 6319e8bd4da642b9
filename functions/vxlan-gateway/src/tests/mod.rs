//! Tests of the whole function, most of them of two gateways that talk to each other.

mod any_input;
mod checks;
mod configuration;
mod devices;
mod endpoints;
mod flooding;
mod passing;
mod sizes;

use crate::metrics::{NAMES, Reason};
use crate::{Gateway, VLAN, VXLAN};
use manifest::Manifest;
use nf_sdk::native::frames::packet;
use nf_sdk::native::{Outcome, Runner, TestPacket};
use nf_sdk::{Nanos, Verdict};
use std::format;
use std::string::String;
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
    let value = manifest.schema.check("config", "config", Some(document.root()), &mut faults);
    match value {
        Some(value) if faults.is_empty() => Ok(value.to_cbor()),
        _ => Err(faults.iter().map(|fault| format!("{fault}\n")).collect()),
    }
}

/// This endpoint, with three others behind it. VLAN 10 is network 7, frames without a tag are network 8.
const FIRST: &str = "
local: 192.0.2.1
mac: '02:00:00:00:01:01'
neighbours:
  - {address: 192.0.2.2, mac: '02:00:00:00:01:02'}
  - {address: 192.0.2.3, mac: '02:00:00:00:01:03'}
  - {address: 192.0.2.4, mac: '02:00:00:00:01:04'}
networks:
  - {vni: 7, vlan: 10, remotes: [192.0.2.2]}
  - {vni: 8, remotes: [192.0.2.2, 192.0.2.3, 192.0.2.4]}
endpoints: 16
";
/// The endpoint at the other end of network 7.
const SECOND: &str = "
local: 192.0.2.2
mac: '02:00:00:00:01:02'
neighbours: [{address: 192.0.2.1, mac: '02:00:00:00:01:01'}]
networks: [{vni: 7, vlan: 10, remotes: [192.0.2.1]}, {vni: 8, remotes: [192.0.2.1]}]
";
/// The same two over IPv6.
const FIRST_V6: &str = "
local: 2001:db8::1
mac: '02:00:00:00:01:01'
neighbours: [{address: '2001:db8::2', mac: '02:00:00:00:01:02'}]
networks: [{vni: 7, vlan: 10, remotes: ['2001:db8::2']}, {vni: 8, remotes: ['2001:db8::2']}]
";
const SECOND_V6: &str = "
local: 2001:db8::2
mac: '02:00:00:00:01:02'
neighbours: [{address: '2001:db8::1', mac: '02:00:00:00:01:01'}]
networks: [{vni: 7, vlan: 10, remotes: ['2001:db8::1']}, {vni: 8, remotes: ['2001:db8::1']}]
";

fn gateway(text: &str) -> Runner<Gateway> {
    let config = configure(text).unwrap_or_else(|error| panic!("{error}"));
    Runner::new(&config).unwrap_or_else(|error| panic!("{error}"))
}

/// What becomes of a frame from the VLAN side.
fn from_vlan(runner: &mut Runner<Gateway>, frame: &[u8], now: Nanos) -> Outcome {
    runner.run(&[TestPacket::new(frame.to_vec(), VLAN)], now).remove(0)
}

/// What becomes of a packet from the side of the tunnels.
fn from_vxlan(runner: &mut Runner<Gateway>, packet: &[u8], now: Nanos) -> Outcome {
    runner.run(&[TestPacket::new(packet.to_vec(), VXLAN)], now).remove(0)
}

/// The bytes that leave by an interface.
fn sent(outcome: &Outcome, interface: u16) -> Vec<u8> {
    assert_eq!(outcome.verdict, Some(Verdict::Interface(interface)));
    outcome.bytes.clone().expect("within its buffer")
}

fn dropped(outcome: &Outcome, reason: Reason) {
    assert_eq!(outcome.verdict, Some(Verdict::Drop(reason as u16)), "{reason:?} is expected");
}

fn counted(runner: &Runner<Gateway>, name: &str) -> u64 {
    let place = NAMES.iter().position(|known| *known == name).expect("a counter");
    runner.host().counter(place as u32)
}

/// An Ethernet address of a host, by its number.
fn host(number: u32) -> [u8; 6] {
    let [a, b, c, d] = number.to_be_bytes();
    [2, 7, a, b, c, d]
}

const ALL: [u8; 6] = [0xff; 6];

/// A UDP packet in a frame between two hosts.
fn frame(to: [u8; 6], from: [u8; 6], payload: usize) -> Vec<u8> {
    let mut datagram = Vec::from([0x30, 0x39, 0, 9]);
    datagram.extend(((8 + payload) as u16).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend((0..payload).map(|n| n as u8));
    let mut frame = packet("10.0.0.1", "10.0.0.2", 17, &datagram);
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&from);
    frame
}

/// The same in VLAN 10.
fn tagged(to: [u8; 6], from: [u8; 6], payload: usize) -> Vec<u8> {
    nf_sdk::native::frames::tagged(&frame(to, from, payload), &[10])
}

/// A frame in VXLAN from the second endpoint to the first, without a checksum.
fn in_vxlan(vni: u32, from: &str, frame: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::from([0xc3, 0x50, 0x12, 0xb5]);
    datagram.extend(((16 + frame.len()) as u16).to_be_bytes());
    datagram.extend([0, 0, 8, 0, 0, 0]);
    datagram.extend((vni << 8).to_be_bytes());
    datagram.extend(frame);
    let to = if from.contains(':') { "2001:db8::1" } else { "192.0.2.1" };
    let mut packet = packet(from, to, 17, &datagram);
    packet[..12].copy_from_slice(&[2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 1, 2]);
    let place = if from.contains(':') { 60 } else { 40 };
    packet[place..place + 2].fill(0);
    packet
}
