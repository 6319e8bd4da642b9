//! Any frames are counted in bounded memory, any state is taken or refused, and the report is JSON in each
//! case.

use monitor::Monitor;
use nf_sdk::Nanos;
use nf_sdk::native::{ConfigValue, Runner, TestPacket};

fn ipfix() -> ConfigValue {
    let second = 1_000_000_000;
    ConfigValue::map([
        ("collector", ConfigValue::Address([192, 0, 2, 9].into())),
        ("collector_port", ConfigValue::Integer(4739)),
        ("source", ConfigValue::Address([192, 0, 2, 1].into())),
        ("source_port", ConfigValue::Integer(4739)),
        ("collector_mac", ConfigValue::Mac([2, 0, 0, 0, 0, 9])),
        ("source_mac", ConfigValue::Mac([2, 0, 0, 0, 0, 1])),
        ("domain", ConfigValue::Integer(1)),
        ("active_timeout", ConfigValue::Integer(3 * second)),
        ("idle_timeout", ConfigValue::Integer(2 * second)),
        ("template_refresh", ConfigValue::Integer(5 * second)),
        ("mtu", ConfigValue::Integer(576)),
    ])
}

fn check(runner: &Runner<Monitor>) -> serde_json::Value {
    let report = runner.report(Nanos(2)).expect("always");
    serde_json::from_str(&report).expect("JSON")
}

pub fn run(data: &[u8]) {
    let &[flows, top, split, ref data @ ..] = data else { return };
    let exports = flows & 32 != 0;
    let mut keys = vec![
        ("flows", ConfigValue::Integer(i64::from(flows % 16) + 1)),
        ("top", ConfigValue::Integer(i64::from(top) + 1)),
        ("bidirectional", ConfigValue::Boolean(flows & 16 == 0 && !exports)),
    ];
    if exports {
        keys.push(("ipfix", ipfix()));
    }
    let config = ConfigValue::map(keys);
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
    // In batches of a few, a second apart, so that flows end meanwhile.
    let mut now = Nanos(1);
    for some in packets.chunks(3) {
        runner.run(some, now);
        now = now.saturating_add(Nanos::from_secs(1));
        while let Some(deadline) = runner.host().deadline().filter(|deadline| *deadline <= now) {
            runner.timer(deadline);
        }
    }
    for emitted in runner.host().emitted() {
        let frame = packet::dissect(emitted.bytes.as_deref().expect("its own")).expect("a frame");
        assert_eq!(frame.flow_key().map(|key| key.destination_port), Some(4739));
    }
    assert_eq!(check(&runner)["packets"].as_u64(), Some(before + packets.len() as u64));

    // What one instance exports another takes.
    let state = runner.export_state().expect("offered");
    let mut other = Runner::<Monitor>::new(&config.to_cbor()).expect("in range");
    assert!(other.import_state(&state));
    assert_eq!(check(&other)["bytes"], check(&runner)["bytes"]);
}
