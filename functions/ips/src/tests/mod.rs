//! Tests of the whole function.

mod any_input;
mod bounds;
mod ends;
mod inline;

use crate::metrics::NAMES;
use crate::{INSIDE, Ips, OUTSIDE, SUSPICIOUS};
use manifest::Manifest;
use nf_sdk::native::frames::packet;
use nf_sdk::native::{Runner, TestPacket};
use nf_sdk::{Nanos, PacketRecord, Verdict};
use packet::tcp::Flags;
use packet::{dissect, protocol, tcp};
use std::format;
use std::string::String;
use std::vec::Vec;
use yaml_document::Document;

/// When a test begins.
const START: u64 = 1 << 60;
const CLIENT: &str = "10.0.0.1";
const SERVER: &str = "10.0.0.2";

fn at(millis: u64) -> Nanos {
    Nanos(START + millis * 1_000_000)
}

/// The configuration as the host hands it over.
fn configure(text: &str) -> Result<Vec<u8>, String> {
    let manifest = Manifest::parse("function.yaml", include_str!("../../function.yaml"))
        .expect("the manifest is in order");
    assert_eq!(manifest.counters, NAMES);
    let document = Document::parse("config", text).map_err(|fault| format!("{fault}"))?;
    let mut faults = Vec::new();
    let value = manifest.schema.check("config", "config", Some(document.root()), &mut faults);
    match value {
        Some(value) if faults.is_empty() => Ok(value.to_cbor()),
        _ => Err(faults.iter().map(|fault| format!("{fault}\n")).collect()),
    }
}

fn ips(text: &str) -> Runner<Ips> {
    let config = configure(text).unwrap_or_else(|error| panic!("{error}"));
    Runner::new(&config).unwrap_or_else(|error| panic!("{error}"))
}

/// A segment in a frame.
fn segment(
    (from, from_port): (&str, u16),
    (to, to_port): (&str, u16),
    flags: Flags,
    sequence: u32,
    acknowledgment: u32,
    data: &[u8],
) -> Vec<u8> {
    let mut segment = Vec::new();
    segment.extend(from_port.to_be_bytes());
    segment.extend(to_port.to_be_bytes());
    segment.extend(sequence.to_be_bytes());
    segment.extend(acknowledgment.to_be_bytes());
    segment.extend((5 << 12 | flags.0).to_be_bytes());
    segment.extend([0xff, 0xff, 0, 0, 0, 0]);
    segment.extend(data);
    packet(from, to, protocol::TCP, &segment)
}

/// Data from the client, which is inside, to the server.
fn request(port: u16, sequence: u32, acknowledgment: u32) -> Vec<u8> {
    segment((CLIENT, port), (SERVER, 80), Flags::ACK.with(Flags::PSH), sequence, acknowledgment, b"evil")
}

/// Shows it a suspicious packet with this mark.
fn suspicious(runner: &mut Runner<Ips>, frame: &[u8], mark: u64, now: Nanos) {
    let record = PacketRecord { ingress: SUSPICIOUS, mark, ..PacketRecord::default() };
    let out = runner.run(&[TestPacket { bytes: frame.to_vec(), record }], now).remove(0);
    assert_eq!(out.verdict, Some(Verdict::Consume));
}

/// What becomes of a packet between the two sides.
fn passing(runner: &mut Runner<Ips>, frame: &[u8], side: u16, now: Nanos) -> Verdict {
    runner.run(&[TestPacket::new(frame.to_vec(), side)], now).remove(0).verdict.expect("a verdict")
}

/// A reset that it made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Made {
    interface: u16,
    to: std::net::IpAddr,
    flags: Flags,
    sequence: u32,
    acknowledgment: u32,
}

/// All resets that it made, with right checksums.
fn made(runner: &Runner<Ips>) -> Vec<Made> {
    let all = runner.host().emitted().iter();
    all.map(|one| {
        let bytes = one.bytes.as_ref().expect("its own");
        let Verdict::Interface(interface) = one.verdict else { panic!("{one:?}") };
        let network = dissect(bytes).expect("sound").network.expect("IP");
        let mut sealed = bytes.clone();
        nf_sdk::native::frames::seal(&mut sealed);
        assert_eq!(&sealed, bytes, "checksums");
        let view = tcp::View::new(&bytes[network.l4_offset..network.end]).expect("a segment");
        Made {
            interface,
            to: network.destination,
            flags: view.flags(),
            sequence: view.sequence(),
            acknowledgment: view.acknowledgment(),
        }
    })
    .collect()
}

fn counted(runner: &Runner<Ips>, name: &str) -> u64 {
    let place = NAMES.iter().position(|known| *known == name).expect("a counter");
    runner.host().counter(place as u32)
}
