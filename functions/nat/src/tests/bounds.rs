//! Full tables, limits of a host, and hand-over.

use super::frames::*;
use flags::{ACK, SYN};
use nf_sdk::native::{ConfigValue, Runner};

/// Connections that both sides have agreed to.
fn established(bench: &mut Bench, count: u16) {
    for port in 0..count {
        bench.mapped(tcp((A, 2000 + port), (R, 80), SYN));
        bench.inward(tcp((R, 80), (EXT, 2000 + port), SYN | ACK));
    }
}

#[test]
fn a_storm_of_new_sessions_ends_no_established_one() {
    let mut bench = Bench::new(&[("max_sessions", ConfigValue::Integer(100))]);
    established(&mut bench, 60);
    for n in 0..1000u16 {
        let host = format!("10.1.{}.{}", n / 200, n % 200 + 1);
        assert_eq!(bench.inside(tcp((&host, 3000), (S, 80), SYN)), OUT);
    }
    for port in 0..60 {
        assert_eq!(bench.mapped(tcp((A, 2000 + port), (R, 80), ACK)), end(EXT, 2000 + port));
        bench.inward(tcp((R, 80), (EXT, 2000 + port), ACK));
    }
    let report = bench.report();
    assert_eq!((&report["sessions"]["now"], &report["sessions"]["evicted"]), (&100.into(), &960.into()));
    // Forty of the storm are left, the newest.
    let host = |n: u16| format!("10.1.{}.{}", n / 200, n % 200 + 1);
    assert_eq!(bench.inside(tcp((&host(999), 3000), (S, 80), ACK)), OUT);
    assert_eq!(bench.inside(tcp((&host(959), 3000), (S, 80), ACK)), drop::NO_SESSION);
}

#[test]
fn with_established_sessions_alone_there_is_no_room() {
    let mut bench = Bench::new(&[("max_sessions", ConfigValue::Integer(60))]);
    established(&mut bench, 60);
    assert_eq!(bench.inside(tcp((B, 3000), (S, 80), SYN)), drop::TABLE_FULL);
    assert_eq!(bench.inside(udp((B, 3000), (S, 80))), drop::TABLE_FULL);
    assert_eq!(bench.outside(tcp((S, 80), (EXT, 2000), SYN)), drop::TABLE_FULL);
    assert_eq!(bench.report()["mappings"]["now"], 60);
    assert_eq!(bench.report()["mappings"]["hosts"], 1);
}

/// Room for a connection from outside may be that of the last session of its mapping, which goes with it.
#[test]
fn room_for_a_connection_from_outside_is_made_with_care() {
    let mut bench = Bench::new(&[("max_sessions", ConfigValue::Integer(3))]);
    bench.mapped(tcp((A, 2000), (R, 80), SYN));
    bench.mapped(tcp((A, 2001), (R, 80), SYN));
    bench.mapped(tcp((A, 2001), (S, 80), SYN));
    assert_eq!(bench.outside(tcp((S, 1000), (EXT, 2000), SYN)), drop::NO_MAPPING);
    assert_eq!(bench.report()["mappings"]["now"], 1);
    // What takes the place of that mapping keeps it, whatever ends.
    for port in 3000..3003 {
        bench.mapped(tcp((B, port), (R, 80), SYN));
    }
    assert_eq!(bench.outside(tcp((S, 1000), (EXT, 2000), SYN)), drop::NO_MAPPING);
    assert_eq!(bench.inward(tcp((R, 80), (EXT, 3000), SYN | ACK)), end(B, 3000));
    assert_eq!(bench.inward(tcp((S, 80), (EXT, 3000), SYN)), end(B, 3000));
    bench.wait(8000.0);
    assert_eq!(
        (&bench.report()["sessions"]["now"], &bench.report()["mappings"]["now"]),
        (&0.into(), &0.into())
    );
}

#[test]
fn a_storm_from_outside_takes_nothing_of_a_hosts_limit() {
    let mut bench = Bench::new(&[("host_sessions", ConfigValue::Integer(10))]);
    established(&mut bench, 5);
    for port in 0..500 {
        assert_eq!(bench.outside(tcp((S, 1000 + port), (EXT, 2000), SYN)), IN);
    }
    for port in 0..5 {
        assert_eq!(bench.inside(tcp((A, 2100 + port), (R, 80), SYN)), OUT);
    }
    assert_eq!(bench.inside(tcp((A, 2105), (R, 80), SYN)), drop::HOST_LIMIT);
    assert_eq!(bench.inside(tcp((B, 2105), (R, 80), SYN)), OUT);
}

#[test]
fn one_host_cannot_take_all_ports() {
    let mut bench = Bench::new(&[("host_ports", ConfigValue::Integer(10))]);
    for port in 0..10 {
        bench.mapped(udp((A, 2000 + port), (R, 80)));
    }
    assert_eq!(bench.inside(udp((A, 2010), (R, 80))), drop::HOST_LIMIT);
    // More sessions of the same ports are no more ports.
    assert_eq!(bench.mapped(udp((A, 2000), (S, 80))), end(EXT, 2000));
    assert_eq!(bench.mapped(udp((B, 2010), (R, 80))), end(EXT, 2010));
    bench.wait(320.0);
    assert_eq!(bench.mapped(udp((A, 2010), (R, 80))), end(EXT, 2010));
}

#[test]
fn the_oldest_unanswered_session_gives_its_port_up() {
    let mut bench = Bench::new(&[("ports", ConfigValue::PortRange(5000, 5003))]);
    for port in 5000..5004 {
        bench.mapped(tcp((A, port), (R, 80), SYN));
    }
    bench.inward(tcp((R, 80), (EXT, 5000), SYN | ACK));
    assert_eq!(bench.mapped(tcp((B, 9), (R, 80), SYN)), end(EXT, 5001));
    assert_eq!(bench.mapped(tcp((A, 5000), (R, 80), ACK)), end(EXT, 5000));
    assert_eq!(bench.inside(tcp((A, 5001), (R, 80), ACK)), drop::NO_SESSION);
}

#[test]
fn too_many_hosts_are_refused() {
    let mut bench = Bench::new(&[]);
    for host in 0..100 {
        assert_eq!(bench.inside(udp((&format!("10.0.1.{host}"), 2000 + host), (R, 80))), OUT);
    }
    assert_eq!(bench.inside(udp(("10.0.2.1", 2), (R, 80))), drop::TABLE_FULL);
    bench.wait(320.0);
    assert_eq!(bench.inside(udp(("10.0.2.1", 2), (R, 80))), OUT);
}

#[test]
fn connections_survive_a_change() {
    let mut old = Bench::new(&[("preserve_ports", ConfigValue::Boolean(false))]);
    let mapped = old.mapped(tcp((A, 4000), (R, 80), SYN));
    old.inward(tcp((R, 80), (EXT, mapped.1), SYN | ACK));
    let asked = old.mapped(udp((B, 4000), (R, 53)));
    old.wait(200.0);
    let state = old.runner.export_state().expect("offered");
    let filtering = ("filtering", ConfigValue::text("address-dependent"));
    let mut new = Bench::new(&[filtering]);
    new.now = old.now;
    assert!(new.runner.import_state(&state));
    assert_eq!(new.mapped(tcp((A, 4000), (R, 80), ACK)), mapped);
    assert_eq!(new.inward(tcp((R, 80), (EXT, mapped.1), ACK)), end(A, 4000));
    // What an inside end has sent to is known too, and the time that was left.
    assert_eq!(new.inward(udp((R, 54), (EXT, asked.1))), end(B, 4000));
    assert_eq!(new.outside(udp((S, 53), (EXT, asked.1))), drop::FILTERED);
    new.wait(102.0);
    assert_eq!(new.outside(udp((R, 53), (EXT, asked.1))), drop::NO_MAPPING);
    assert_eq!(new.report()["sessions"]["opened"], 0);
    // A pool without the address ends what had it.
    let mut other = Bench::new(&[("pool", pool("192.0.2.1"))]);
    assert!(other.runner.import_state(&state));
    assert_eq!(other.report()["sessions"]["now"], 0);
    assert_eq!(other.report()["mappings"]["hosts"], 0);
}

#[test]
fn state_that_is_none_is_refused_and_leaves_nothing() {
    let mut old = Bench::new(&[]);
    old.mapped(udp((A, 4000), (R, 53)));
    old.mapped(udp((A, 4001), (R, 53)));
    let state = old.runner.export_state().expect("offered");
    for at in 0..state.len() {
        let mut wrong = state.clone();
        wrong.truncate(at);
        let mut new = Runner::<crate::Nat>::new(&config(&[])).expect("a good configuration");
        let taken = new.import_state(&wrong);
        assert_eq!(taken, at == 0 || at == state.len() / 2, "{at}");
    }
    // A state of another protocol.
    let mut wrong = state.clone();
    let value = 8 + 30;
    wrong[value + 12] = 3;
    assert!(!Bench::new(&[]).runner.import_state(&wrong));
}
