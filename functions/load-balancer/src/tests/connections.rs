//! The table of connections against a map, and their states.

use super::*;
use crate::connection::{Connections, Key, State, Timeouts};
use flags::{ACK, FIN, RST, SYN};
use proptest::prelude::*;
use std::collections::BTreeMap;

const TIMEOUTS: Timeouts = Timeouts { tcp: 1000, closing: 100, udp: 500, opening: 10 };

proptest! {
    #[test]
    fn the_table_is_a_map_with_a_list(
        steps in prop::collection::vec((0u8..4, 0u32..30, any::<bool>(), 1u32..8, 0u32..4), 0..200),
    ) {
        let mut table = Connections::new(20, 8, TIMEOUTS, 9).expect("memory");
        // Server, state, when it ends; and those that are half open, the oldest first.
        let mut model: BTreeMap<u32, (u16, u32, u32)> = BTreeMap::new();
        let mut half_open: Vec<u32> = vec![];
        for (step, number, is_v6, state, later) in steps {
            table.now += later;
            let client = if is_v6 { [number, 2, 3, number % 3] } else { [number, 0, 0, 0] };
            let key = Key { client, ports: 7, service: 1, is_v6 };
            let id = number * 2 + u32::from(is_v6);
            let state_of = State::of(state).expect("one of seven");
            let timeout = [0, 10, 10, 10, 1000, 100, 100, 500][state as usize];
            let found = table.find(&key).map(|found| found.unwrap_or_else(|number| number));
            prop_assert_eq!(found.is_some(), model.contains_key(&id));
            match (step, found) {
                (0, None) => {
                    let put = table.insert(&key, number as u16, state_of);
                    prop_assert_eq!(put.is_some(), model.len() < 20);
                    if put.is_some() {
                        model.insert(id, (number as u16, state, table.now + timeout));
                        if state_of.is_half_open() {
                            half_open.push(id);
                        }
                    }
                }
                (1, Some(entry)) => {
                    table.set_state(entry, state_of);
                    half_open.retain(|other| *other != id);
                    if state_of.is_half_open() {
                        half_open.push(id);
                    }
                    model.insert(id, (number as u16, state, table.now + timeout));
                }
                (2, Some(entry)) => {
                    table.remove(entry);
                    model.remove(&id);
                    half_open.retain(|other| *other != id);
                }
                _ => {}
            }
            prop_assert_eq!((table.len(), table.half_open()), (model.len(), half_open.len()));
            let oldest = table.oldest_half_open().map(|entry| {
                let key = table.key(entry);
                key.client[0] * 2 + u32::from(key.is_v6)
            });
            prop_assert_eq!((oldest, table.is_full()), (half_open.first().copied(), model.len() == 20));
        }
        for (id, (server, state, expires)) in model {
            let (number, is_v6) = (id / 2, id % 2 == 1);
            let client = if is_v6 { [number, 2, 3, number % 3] } else { [number, 0, 0, 0] };
            let key = Key { client, ports: 7, service: 1, is_v6 };
            let found = table.find(&key).expect("in the model");
            let entry = found.unwrap_or_else(|number| number);
            prop_assert_eq!(found.is_ok(), expires > table.now);
            prop_assert_eq!((table.key(entry), table.server(entry)), (key, server));
            prop_assert_eq!(table.state(entry), State::of(state));
        }
    }
}

fn half_open(bench: &Bench) -> u64 {
    bench.report()["connections"]["half_open"].as_u64().expect("a count")
}

fn now(bench: &Bench) -> u64 {
    bench.report()["connections"]["now"].as_u64().expect("a count")
}

#[test]
fn only_the_client_that_saw_the_servers_syn_has_a_connection() {
    let mut bench = Bench::new(&web(3, ""));
    let (from, service) = (client(1), end(VIP, 80));
    let server = bench.server(tcp(&from, &service, SYN));
    bench.answer(tcp(&server, &from, SYN | ACK));
    // A guess.
    bench.server(segment(&from, &service, ACK, 11));
    assert_eq!(half_open(&bench), 1);
    bench.server(segment(&from, &service, ACK, 10));
    assert_eq!((half_open(&bench), now(&bench)), (0, 1));
}

#[test]
fn connections_end_by_their_states_times() {
    let mut bench = Bench::new(&web(3, ""));
    let service = end(VIP, 80);
    // Half open: ten seconds, whatever the client sends again.
    let server = bench.server(tcp(&client(1), &service, SYN));
    bench.wait(8.0);
    assert_eq!(bench.server(tcp(&client(1), &service, SYN)), server);
    bench.wait(4.0);
    assert_eq!(now(&bench), 0);
    // Established: fifteen minutes.
    let server = bench.connect(&client(2), &service);
    bench.wait(890.0);
    bench.server(tcp(&client(2), &service, ACK));
    bench.wait(890.0);
    assert_eq!(now(&bench), 1);
    // Ended: two minutes behind the last packet.
    bench.server(tcp(&client(2), &service, FIN | ACK));
    bench.answer(tcp(&server, &client(2), FIN | ACK));
    bench.server(tcp(&client(2), &service, ACK));
    bench.wait(110.0);
    assert_eq!(now(&bench), 1);
    bench.wait(22.0);
    assert_eq!((now(&bench), bench.event("connections-expired")), (0, 2));
}

#[test]
fn a_forged_reset_ends_nothing_and_the_next_connection_has_the_same_server() {
    let mut bench = Bench::new(&web(3, ""));
    let service = end(VIP, 80);
    let server = bench.connect(&client(1), &service);
    bench.server(tcp(&client(1), &service, RST));
    bench.answer(tcp(&server, &client(1), ACK));
    bench.wait(600.0);
    assert_eq!((now(&bench), bench.server(tcp(&client(1), &service, ACK))), (1, server.clone()));
    bench.server(tcp(&client(1), &service, FIN | ACK));
    assert_eq!(bench.connect(&client(1), &service), server);
    assert_eq!(bench.event("connections-opened"), 1);
    bench.wait(600.0);
    assert_eq!(now(&bench), 1);
}

#[test]
fn a_server_that_refuses_frees_the_place() {
    let mut bench = Bench::new(&web(3, ""));
    let service = end(VIP, 80);
    let server = bench.server(tcp(&client(1), &service, SYN));
    assert_eq!(bench.answer(tcp(&server, &client(1), RST | ACK)), service);
    assert_eq!(now(&bench), 0);
}

#[test]
fn the_middle_of_a_connection_goes_where_its_beginning_went() {
    let mut bench = Bench::new(&web(30, ""));
    let service = end(VIP, 80);
    let servers: Vec<End> = (0..100).map(|number| bench.connect(&client(number), &service)).collect();
    let mut other = Bench::new(&web(30, ""));
    for (number, server) in (0..100).zip(&servers) {
        assert_eq!(other.server(tcp(&client(number), &service, ACK)), *server);
    }
    assert_eq!(half_open(&other), 100);
    for (number, server) in (0..100).zip(&servers) {
        assert_eq!(other.answer(tcp(server, &client(number), ACK)), service);
    }
    assert_eq!(half_open(&other), 0);
}

/// Where answers do not pass, the second packet is enough, and a flow lasts as one that is answered.
#[test]
fn flows_of_udp_that_are_answered_directly_last_too() {
    let config = format!(
        "services: [{{name: dns, address: {VIP}, protocol: udp, ports: '53', forward: direct, servers: [{{address: \
         10.0.0.1, mac: '02:00:00:00:00:51'}}]}}]"
    );
    let mut bench = Bench::new(&config);
    bench.client(udp(&client(1), &end(VIP, 53)));
    assert_eq!(half_open(&bench), 1);
    bench.client(udp(&client(1), &end(VIP, 53)));
    assert_eq!((half_open(&bench), now(&bench)), (0, 1));
    bench.wait(290.0);
    assert_eq!(now(&bench), 1);
}

#[test]
fn flows_of_udp_last_while_packets_come() {
    let config = format!(
        "services: [{{name: dns, address: {VIP}, protocol: udp, ports: '53', servers: [{{address: 10.0.0.1}}, \
         {{address: 10.0.0.2}}]}}]"
    );
    let mut bench = Bench::new(&config);
    let service = end(VIP, 53);
    let server = bench.server(udp(&client(1), &service));
    assert_eq!(server.1, 53);
    for _ in 0..5 {
        bench.wait(8.0);
        assert_eq!(bench.server(udp(&client(1), &service)), server);
    }
    assert_eq!((half_open(&bench), bench.event("connections-opened")), (1, 1));
    assert_eq!(bench.answer(udp(&server, &client(1))), service);
    assert_eq!(half_open(&bench), 0);
    bench.wait(290.0);
    assert_eq!(now(&bench), 1);
    bench.wait(25.0);
    assert_eq!(now(&bench), 0);
}

#[test]
fn idle_times_are_those_that_are_configured() {
    let config = format!(
        "services:\n\
         - {{name: web, address: {VIP}, protocol: tcp, ports: '80', servers: [{{address: 10.0.0.1}}]}}\n\
         - {{name: dns, address: {VIP}, protocol: udp, ports: '53', servers: [{{address: 10.0.0.1}}]}}\n\
         opening_timeout: 50s\ntcp_timeout: 200s\ntcp_closing_timeout: 80s\nudp_timeout: 140s"
    );
    let (from, web, dns) = (client(1), end(VIP, 80), end(VIP, 53));
    let begin = |bench: &mut Bench, kind: &str| match kind {
        "opening" => {
            bench.server(tcp(&from, &web, SYN));
        }
        "established" => {
            bench.connect(&from, &web);
        }
        "closing" => {
            bench.connect(&from, &web);
            bench.server(tcp(&from, &web, FIN | ACK));
        }
        _ => {
            let server = bench.server(udp(&from, &dns));
            bench.answer(udp(&server, &from));
        }
    };
    for (kind, seconds) in [("opening", 50.0), ("established", 200.0), ("closing", 80.0), ("answered", 140.0)]
    {
        let mut bench = Bench::new(&config);
        begin(&mut bench, kind);
        bench.wait(seconds - 1.0);
        assert_eq!(now(&bench), 1, "{kind}");
        bench.wait(25.0);
        assert_eq!(now(&bench), 0, "{kind}");
    }
}
