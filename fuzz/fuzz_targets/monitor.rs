//! Any frames are counted in bounded memory, any state is taken or refused, and the report is JSON in each case.
#![no_main]

use libfuzzer_sys::fuzz_target;
use monitor::Monitor;
use nf_sdk::Nanos;
use nf_sdk::native::{ConfigValue, Runner, TestPacket};

fn check(runner: &Runner<Monitor>) -> serde_json::Value {
    let report = runner.report(Nanos(2)).expect("always");
    serde_json::from_str(&report).expect("JSON")
}

fuzz_target!(|data: &[u8]| {
    let &[flows, top, split, ref data @ ..] = data else { return };
    let config = ConfigValue::map([
        ("flows", ConfigValue::Integer(i64::from(flows % 16) + 1)),
        ("top", ConfigValue::Integer(i64::from(top) + 1)),
        ("bidirectional", ConfigValue::Boolean(flows & 16 == 0)),
    ]);
    let mut runner = Runner::<Monitor>::new(&config.to_cbor()).expect("in range");
    let (state, mut frames) = data.split_at(usize::from(split).min(data.len()));
    runner.import_state(state);
    let before = check(&runner)["packets"].as_u64().expect("a number");

    let mut packets = Vec::new();
    while let Some((&length, rest)) = frames.split_first() {
        let (frame, rest) = rest.split_at(usize::from(length).min(rest.len()));
        packets.push(TestPacket::new(frame.to_vec(), u16::from(length)));
        frames = rest;
    }
    runner.run(&packets, Nanos(1));
    assert_eq!(check(&runner)["packets"].as_u64(), Some(before + packets.len() as u64));

    // What one instance exports another takes.
    let state = runner.export_state().expect("offered");
    let mut other = Runner::<Monitor>::new(&config.to_cbor()).expect("in range");
    assert!(other.import_state(&state));
    assert_eq!(check(&other)["bytes"], check(&runner)["bytes"]);
});
