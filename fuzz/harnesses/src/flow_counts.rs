//! Packets of few flows through `monitor`, whose table may be too small for them, against a map that counts
//! every flow.

use crate::configuration::Configuration;
use monitor::Monitor;
use nf_sdk::Nanos;
use nf_sdk::native::{Runner, TestPacket, frames};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;

static CONFIGURATION: LazyLock<Configuration> =
    LazyLock::new(|| Configuration::of(include_str!("../../../functions/monitor/function.yaml")));

/// What a packet weighs beside its bytes.
const PACKET_WEIGHT: u64 = 512;
/// Tables of as many flows at most are one group, to which the theorems about the whole stream apply.
const ONE_GROUP: usize = 13;

/// Protocol, source and destination, as the report tells them.
type Flow = (u64, (String, u64), (String, u64));

/// Packets and bytes.
type Counts = (u64, u64);

/// What a flow weighs.
fn weight((packets, bytes): Counts) -> u64 {
    packets * PACKET_WEIGHT + bytes
}

fn counts(value: &Value) -> Counts {
    let number = |key: &str| value[key].as_u64().expect("a number");
    (number("packets"), number("bytes"))
}

/// A packet of one of a few hundred flows, and the flow.
fn packet([ends, ports, kind, length]: [u8; 4]) -> (Vec<u8>, Flow) {
    let name =
        |number: u8| if kind & 1 == 0 { format!("10.0.0.{number}") } else { format!("2001:db8::{number:x}") };
    // Not 0, which is written otherwise.
    let (from, to) = (name(ends % 5 + 1), name(ends / 5 % 5 + 1));
    let (source, destination) = (1000 + u16::from(ports & 7), 1000 + u16::from(ports >> 3 & 7));
    let protocol = if kind & 2 == 0 { 17 } else { 6 };
    let mut payload = Vec::new();
    payload.extend(source.to_be_bytes());
    payload.extend(destination.to_be_bytes());
    // Long enough to be a header of either.
    payload.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, 16, 0, 0, 0, 0, 0, 0]);
    payload.resize(payload.len() + 4 * usize::from(length), 0);
    if protocol == 17 {
        let length = (payload.len() as u16).to_be_bytes();
        payload[4..6].copy_from_slice(&length);
    }
    let frame = frames::packet(&from, &to, protocol, &payload);
    (frame, (u64::from(protocol), (from, u64::from(source)), (to, u64::from(destination))))
}

/// The same flow whichever end sends, as a table of both directions has it.
fn merged((protocol, source, destination): Flow) -> Flow {
    // Ends are told apart by their addresses first; those here are in the order of their last digit.
    let (source, destination) =
        if source <= destination { (source, destination) } else { (destination, source) };
    (protocol, source, destination)
}

/// The size of the table and whether directions are apart; then four bytes a packet.
pub fn run(data: &[u8]) {
    let Some((&table, steps)) = data.split_first() else { return };
    let (capacity, both) = (usize::from(table % 64) + 1, table & 64 == 0);
    let config = CONFIGURATION.read(&format!("flows: {capacity}\ntop: 64\nbidirectional: {both}"), "");
    let mut runner = Runner::<Monitor>::new(&config).expect("in range");
    let mut exact: BTreeMap<Flow, Counts> = BTreeMap::new();
    let mut packets = Vec::new();
    for step in steps.as_chunks::<4>().0 {
        let (frame, flow) = packet(*step);
        let entry = exact.entry(if both { merged(flow) } else { flow }).or_default();
        *entry = (entry.0 + 1, entry.1 + frame.len() as u64);
        packets.push(TestPacket::new(frame, u16::from(step[2] >> 7)));
    }
    // A batch at a time, so that packets of one batch meet a table that becomes full meanwhile.
    for (number, some) in packets.chunks(19).enumerate() {
        runner.run(some, Nanos(1 + number as u64));
    }
    let report: Value = serde_json::from_str(&runner.report(Nanos(9)).expect("always")).expect("JSON");
    let flows = &report["flows"];
    assert_eq!(flows["tracked"].as_u64(), Some(exact.len().min(capacity) as u64));
    assert_eq!(flows["exact"].as_bool(), Some(exact.len() <= capacity));

    let mut tracked: BTreeMap<Flow, Counts> = BTreeMap::new();
    for flow in report["top_by_bytes"].as_array().expect("a list") {
        let end = |side: &str, port: &str| {
            (flow[side].as_str().expect("an address").to_owned(), flow[port].as_u64().expect("a port"))
        };
        let name = (
            flow["protocol"].as_u64().expect("a number"),
            end("source", "source_port"),
            end("destination", "destination_port"),
        );
        let name = if both { merged(name) } else { name };
        let (seen, all) = (counts(flow), exact[&name]);
        let missed = flow.get("missed_at_most").map_or((0, 0), counts);
        assert!(seen.0 <= all.0 && seen.1 <= all.1, "{name:?}: {seen:?} of {all:?}");
        assert!(
            all.0 <= seen.0 + missed.0 && all.1 <= seen.1 + missed.1,
            "{name:?}: {seen:?}, {missed:?}, {all:?}"
        );
        assert_eq!(tracked.insert(name, seen), None, "told twice");
    }
    assert_eq!(tracked.len(), exact.len().min(capacity));
    let floor = counts(&flows["untracked_at_most"]);
    let total: u64 = exact.values().copied().map(weight).sum();
    for (name, all) in &exact {
        if !tracked.contains_key(name) {
            assert!(all.0 <= floor.0 && all.1 <= floor.1, "{name:?}: {all:?}, {floor:?}");
            // SpaceSaving keeps every flow that weighs more than its part.
            let part = total / capacity as u64;
            assert!(capacity > ONE_GROUP || weight(*all) <= part, "{name:?}: {all:?} of {total}");
        }
    }
    if exact.len() <= capacity {
        assert_eq!(tracked, exact);
    }
}
