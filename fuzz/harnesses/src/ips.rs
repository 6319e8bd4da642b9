//! Any frames get one verdict, a reset is never answered, what is sent has right checksums and is bounded,
//! and any state is taken or refused.

use crate::configuration::Configuration;
use ips::{INSIDE, Ips, OUTSIDE, SUSPICIOUS};
use nf_abi::PacketRecord;
use nf_sdk::native::{Runner, Script, Step, TestPacket};
use nf_sdk::{Nanos, Verdict};
use packet::{dissect, protocol};
use std::sync::LazyLock;

const CONFIGS: [&str; 2] = [
    "{max_connections: 4, resets: 2, rate: 10pps, burst: 20, udp: unreachable, block: 1s}",
    "{max_connections: 4, sides: inside, others: drop, never: [10.0.0.2/32, '2001:db8::/32']}",
];

static ENCODED: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
    let configuration = Configuration::of(include_str!("../../../functions/ips/function.yaml"));
    CONFIGS.map(|text| configuration.read(text, ""))
});

pub fn run(data: &[u8]) {
    let &[mode, split, ref data @ ..] = data else { return };
    let config = &ENCODED[usize::from(mode) % ENCODED.len()];
    let mut runner = Runner::<Ips>::new(config).expect("in range");
    let (state, frames) = data.split_at(usize::from(split).min(data.len()));
    runner.import_state(state);
    let mut now = Nanos(1 << 60);
    // The choice: an interface with a mark.
    for Step { frame, choice: [interface], now: at, .. } in Script::new(frames, 24) {
        now = at;
        let record = PacketRecord {
            ingress: u16::from(interface & 3),
            mark: u64::from(interface >> 2 & 3),
            ..PacketRecord::default()
        };
        let before = runner.host().emitted().len();
        let out = runner.run(&[TestPacket { bytes: frame.to_vec(), record }], now).remove(0);
        assert_eq!(out.bytes.as_deref(), Some(frame));
        match (record.ingress, out.verdict.expect("a verdict")) {
            (SUSPICIOUS, verdict) => assert_eq!(verdict, Verdict::Consume),
            (INSIDE, Verdict::Interface(to)) => assert_eq!(to, OUTSIDE),
            (OUTSIDE, Verdict::Interface(to)) => assert_eq!(to, INSIDE),
            (_, verdict) => assert!(matches!(verdict, Verdict::Drop(0 | 1)), "{verdict:?}"),
        }
        let is_reset = |bytes: &[u8]| {
            let found = dissect(bytes).ok().and_then(|found| found.network);
            found.is_some_and(|network| {
                network.protocol == protocol::TCP
                    && bytes.get(network.l4_offset + 13).is_some_and(|flags| flags & 4 != 0)
            })
        };
        let made = &runner.host().emitted()[before..];
        assert!(made.len() <= 3 && (made.is_empty() || !is_reset(frame)));
        for one in made {
            let bytes = one.bytes.as_ref().expect("its own");
            let mut sealed = bytes.clone();
            nf_sdk::native::frames::seal(&mut sealed);
            assert_eq!(&sealed, bytes, "checksums");
        }
        assert!(runner.function().connections().len() <= 4);
    }
    let _: serde_json::Value = serde_json::from_str(&runner.report(now).expect("always")).expect("JSON");
    let state = runner.export_state().expect("offered");
    assert!(Runner::<Ips>::new(config).expect("in range").import_state(&state));
}
