//! `superfluid bench compare` with a handful of seeded dialogues: this program beside Suricata, tshark and
//! nft.

use compare::frames::Inside;
use compare::rules::Rules;
use compare::table::Verdicts;
use compare::{Settings, captures};
use peers::CaptureWriter;
use peers::frames::Segment;
use std::fs;
use std::path::Path;

/// Needs Suricata, tshark and nft, and says where they are missing.
#[test]
fn seeded_dialogues_give_the_same_alerts_flows_and_verdicts_and_a_broken_capture_is_named() {
    if let Err(error) = compare::missing() {
        println!("skipped: {error}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let rules = Rules::generate(400);
    // With rules that Suricata takes and this program leaves out, and one in two revisions.
    let more = [
        "tcp.window:1; sid:900001;",
        "flow:no_frag; sid:900002;",
        "classtype:of-my-own; sid:900003; rev:1;",
        "classtype:of-my-own; sid:900003; rev:2;",
    ]
    .map(|options| format!("alert tcp any any -> any any (content:\"it is never seen\"; {options})\n"));
    fs::write(folder.path().join("all.rules"), rules.text.clone() + &more.concat()).expect("rules");
    captures::seeded(&folder.path().join("a.pcap"), &rules, 90).expect("a capture");
    fs::write(folder.path().join("b.pcap"), "no capture").expect("a file");
    let settings = Settings {
        program: env!("CARGO_BIN_EXE_superfluid").into(),
        captures: Some(folder.path().to_owned()),
        rules: Some(folder.path().to_owned()),
        flows: 0,
    };
    let found = compare::run(&settings, &mut |_, _| ()).expect("captures and rules");
    assert!(found.alerts.agreement.union > 10, "{found:#?}");
    assert_eq!(found.alerts.differences, []);
    assert!(found.flows.agreement.union > 150 && found.tshark_flows == 90, "{found:#?}");
    assert_eq!(found.flows.differences, []);
    assert_eq!((found.rules, found.accepted), (404, Some(401)));
    assert!(found.suricata_accepted >= Some(403), "{:?}", found.suricata_accepted);
    assert_eq!(found.lacking, [("flow:no_frag".to_owned(), 1), ("tcp.window".to_owned(), 1)]);
    assert!(found.verdicts.agreement.union > 1_000, "{found:#?}");
    assert_eq!(found.verdicts.differences, []);
    let failures: Vec<_> = found.failures.iter().map(ToString::to_string).collect();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0].contains("b.pcap:") && failures[0].contains("no capture"), "{failures:?}");
}

/// What was not asked for from inside is dropped by both, what answers passes, and so does what follows.
#[test]
fn both_firewalls_drop_what_was_not_asked_for() {
    if let Err(error) = compare::missing() {
        println!("skipped: {error}");
        return;
    }
    const SYN: u8 = 2;
    const ACK: u8 = 16;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.pcap");
    let mut writer = CaptureWriter::create(&path).expect("a capture");
    let from_inside = Segment {
        source: 0x0a00_0001,
        destination: 0xc633_6401,
        source_port: 4_000,
        destination_port: 80,
        sequence: 100,
        acknowledged: 0,
        flags: SYN,
    };
    let answer = Segment { sequence: 101, acknowledged: 500, flags: SYN | ACK, ..from_inside }.reverse();
    let follows = Segment { sequence: 101, acknowledged: 501, flags: ACK, ..from_inside };
    let other = Segment { source_port: 4_001, ..from_inside };
    let (unasked, midst) = (Segment { flags: SYN, ..other.reverse() }, Segment { flags: ACK, ..other });
    let mut frame = Vec::new();
    for (time, segment) in (1..).zip([unasked, from_inside, answer, follows, midst]) {
        segment.write(&[], &mut frame);
        writer.frame(time, &frame).expect("a frame");
    }
    writer.finish().expect("the capture");
    let inside = Inside::of(&path).expect("a capture").expect("an inner network");
    assert_eq!(inside.prefix(), "10.0.0.0/8");
    let expected: Verdicts = (1..).zip([false, true, true, true, false]).collect();
    let program = Path::new(env!("CARGO_BIN_EXE_superfluid"));
    assert_eq!(compare::nft::read(&path, inside).expect("nft"), expected);
    assert_eq!(compare::firewall::read(program, &path, inside).expect("superfluid run"), expected);
}
