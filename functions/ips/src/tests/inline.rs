//! Between the two sides.

use super::*;

#[test]
fn what_comes_of_a_connection_all_the_same_is_dropped_and_told_again() {
    let mut runner = ips("{resets: 2, block: 10s}");
    let more = request(7, 50, 60);
    assert_eq!(passing(&mut runner, &more, INSIDE, at(0)), Verdict::Interface(OUTSIDE));
    suspicious(&mut runner, &request(7, 1, 1), 1, at(0));
    assert_eq!(made(&runner).len(), 3);
    assert_eq!(passing(&mut runner, &more, INSIDE, at(1)), Verdict::Drop(0));
    let again = made(&runner)[3..].to_vec();
    assert_eq!(again.iter().map(|reset| reset.sequence).collect::<Vec<_>>(), [50, 54, 60]);
    assert_eq!(again.iter().map(|reset| reset.interface).collect::<Vec<_>>(), [OUTSIDE, OUTSIDE, INSIDE]);
    // Both ways, and often enough.
    let answer = segment((SERVER, 80), (CLIENT, 7), Flags::ACK, 60, 50, b"answer");
    assert_eq!(passing(&mut runner, &answer, OUTSIDE, at(2)), Verdict::Drop(0));
    assert_eq!((made(&runner).len(), counted(&runner, "enough")), (6, 1));
    // Another connection goes on, and this one when its time is over.
    assert_eq!(passing(&mut runner, &request(8, 1, 1), INSIDE, at(3)), Verdict::Interface(OUTSIDE));
    let tagged = nf_sdk::native::frames::tagged(&more, &[9]);
    assert_eq!(passing(&mut runner, &tagged, INSIDE, at(3)), Verdict::Interface(OUTSIDE));
    assert_eq!(passing(&mut runner, &more, INSIDE, at(10_001)), Verdict::Interface(OUTSIDE));
    assert_eq!((counted(&runner, "blocked"), counted(&runner, "connections-ended")), (2, 1));
}

#[test]
fn connections_of_some_addresses_are_never_ended() {
    let mut runner = ips("{never: [10.0.0.2/32, '2001:db8::/32']}");
    suspicious(&mut runner, &request(7, 1, 1), 1, at(0));
    let six = segment(("2001:db8::7", 1), ("2001:db9::1", 2), Flags::ACK, 1, 1, b"evil");
    suspicious(&mut runner, &six, 1, at(0));
    assert_eq!((counted(&runner, "never"), made(&runner).len()), (2, 0));
    assert!(runner.function().connections.is_empty());
    suspicious(&mut runner, &segment((CLIENT, 1), ("10.0.0.3", 2), Flags::ACK, 1, 1, b"x"), 1, at(0));
    assert_eq!(counted(&runner, "reset"), 1);
}

#[test]
fn a_mark_names_the_side_unless_there_is_only_one() {
    let mut runner = ips("{}");
    suspicious(&mut runner, &request(7, 1, 1), 0, at(0));
    suspicious(&mut runner, &request(7, 1, 1), 3, at(0));
    assert_eq!((counted(&runner, "unsided"), made(&runner).len()), (2, 0));
    let mut runner = ips("{sides: inside, others: drop}");
    suspicious(&mut runner, &request(7, 1, 1), 0, at(0));
    assert_eq!(made(&runner).len(), 3);
    assert!(made(&runner).iter().all(|reset| reset.interface == INSIDE));
    assert_eq!(passing(&mut runner, &request(8, 1, 1), INSIDE, at(0)), Verdict::Drop(1));
    assert_eq!(counted(&runner, "other"), 1);
}

#[test]
fn another_instance_takes_the_connections_over() {
    let mut runner = ips("{resets: 1}");
    suspicious(&mut runner, &request(7, 1, 1), 1, at(0));
    suspicious(
        &mut runner,
        &segment(("2001:db8::7", 1), ("2001:db9::1", 2), Flags::ACK, 1, 1, b"x"),
        1,
        at(0),
    );
    let state = runner.export_state().expect("offered");
    let mut next = ips("{resets: 1}");
    assert!(next.import_state(&state));
    assert_eq!(next.function().connections.len(), 2);
    assert_eq!(passing(&mut next, &request(7, 5, 1), INSIDE, at(1)), Verdict::Drop(0));
    assert_eq!((counted(&next, "enough"), made(&next).len()), (1, 0));
}

#[test]
fn an_operator_reads_what_was_ended() {
    let mut runner = ips("{}");
    suspicious(&mut runner, &request(7, 1, 1), 1, at(0));
    suspicious(&mut runner, &request(7, 9, 1), 1, at(0));
    assert_eq!(runner.host().log().len(), 1);
    assert_eq!(runner.host().log()[0].1, "ends TCP from 10.0.0.1 port 7 to 10.0.0.2 port 80");
    let report: serde_json::Value =
        serde_json::from_str(&runner.report(at(0)).expect("always")).expect("JSON");
    assert_eq!((&report["connections"]["now"], &report["packets"]["reset"]), (&1.into(), &2.into()));
}

#[test]
fn fragments_of_a_blocked_connection_do_not_come_together() {
    let mut runner = ips("{resets: 1}");
    suspicious(&mut runner, &request(7, 1, 1), 1, at(0));
    let fragment = |port: u16, field: u16| {
        let mut frame = request(port, 5, 1);
        frame[20..22].copy_from_slice(&field.to_be_bytes());
        nf_sdk::native::frames::seal(&mut frame);
        frame
    };
    assert_eq!(passing(&mut runner, &fragment(7, 0x2000), INSIDE, at(1)), Verdict::Drop(0));
    assert_eq!(passing(&mut runner, &fragment(8, 0x2000), INSIDE, at(1)), Verdict::Interface(OUTSIDE));
    assert_eq!(passing(&mut runner, &fragment(7, 3), INSIDE, at(1)), Verdict::Interface(OUTSIDE));
    assert_eq!((counted(&runner, "blocked"), made(&runner).len()), (1, 3), "its ends are not told");
    suspicious(&mut runner, &fragment(9, 0x2000), 1, at(2));
    assert_eq!((counted(&runner, "unreadable"), made(&runner).len()), (1, 3));
}
