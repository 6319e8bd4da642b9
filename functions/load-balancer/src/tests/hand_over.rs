//! What goes over to another instance.

use super::*;
use flags::{ACK, SYN};
use proptest::prelude::*;

/// A file of servers changes while connections exist: those of servers that stay go on.
#[test]
fn a_server_that_goes_breaks_no_connection_of_others() {
    let config = format!(
        "services: [{{name: web, address: {VIP}, protocol: tcp, ports: '80'}}]\nservers_file: web.servers"
    );
    let servers = |left_out: u32| -> String {
        (1..=100).filter(|n| *n != left_out).map(|n| format!("web 10.0.0.{n}:8080\n")).collect()
    };
    let mut before = Bench::with_file(&config, &servers(0));
    let service = end(VIP, 80);
    let of: Vec<End> = (0..3000).map(|number| before.connect(&client(number), &service)).collect();
    let state = before.runner.export_state().expect("offered");
    let mut after = Bench::with_file(&config, &servers(42));
    assert!(after.runner.import_state(&state));
    let (mut own, mut broken) = (0, 0);
    for (number, server) in (0..3000).zip(&of) {
        let now = after.server(tcp(&client(number), &service, ACK));
        assert_ne!(now.0, "10.0.0.42");
        own += usize::from(server.0 == "10.0.0.42");
        broken += usize::from(server.0 != "10.0.0.42" && now != *server);
    }
    assert_eq!(broken, 0);
    assert!((10..60).contains(&own), "{own}");
    // Servers in another order are the same servers.
    let mut turned: Vec<String> = servers(0).lines().map(|line| format!("{line}\n")).collect();
    turned.reverse();
    let mut after = Bench::with_file(&config, &turned.concat());
    assert!(after.runner.import_state(&state));
    for (number, server) in (0..3000).zip(&of) {
        assert_eq!(after.server(tcp(&client(number), &service, ACK)), *server);
    }
}

#[test]
fn times_states_and_clients_go_over() {
    let config = web(5, ", choose: least-loaded, affinity: 1h");
    let mut before = Bench::new(&config);
    let service = end(VIP, 80);
    let server = before.connect(&client(1), &service);
    let opening = before.server(tcp(&client(2), &service, SYN));
    before.answer(tcp(&opening, &client(2), SYN | ACK));
    before.wait(5.0);
    let state = before.runner.export_state().expect("offered");
    let mut after = Bench::new(&config);
    after.now = before.now;
    assert!(after.runner.import_state(&state));
    let connections = &after.report()["connections"];
    assert_eq!((&connections["now"], &connections["half_open"]), (&2.into(), &1.into()));
    // The handshake goes on.
    assert_eq!(after.server(segment(&client(2), &service, ACK, 10)), opening);
    assert_eq!(after.report()["connections"]["half_open"], 0);
    // The client keeps its server.
    let again = end(&client(1).0, 7);
    assert_eq!(after.server(tcp(&again, &service, SYN)), server);
    after.wait(896.0);
    assert_eq!(after.server(tcp(&client(2), &service, ACK)), opening);
    after.wait(10.0);
    assert_eq!(after.report()["connections"]["now"], 1);
}

/// A balancer with a small table: many are made.
fn small(servers: usize) -> String {
    format!("{}\nmax_connections: 100\n", web(servers, ", affinity: 60s"))
}

#[test]
fn services_that_are_gone_take_their_connections_along() {
    let mut before = Bench::new(&web(5, ""));
    before.connect(&client(1), &end(VIP, 80));
    let state = before.runner.export_state().expect("offered");
    for other in [web(5, "").replace("'80'", "'81'"), web(5, "").replace("tcp", "udp"), web(0, "")] {
        let mut after = Bench::new(&other);
        assert!(after.runner.import_state(&state));
        assert_eq!(after.report()["connections"]["now"], 0);
    }
}

#[test]
fn state_that_is_none_is_refused_and_leaves_nothing() {
    let mut before = Bench::new(&small(2));
    before.connect(&client(1), &end(VIP, 80));
    before.connect(&client(2), &end(VIP, 80));
    let state = before.runner.export_state().expect("offered");
    let mut taken = 0;
    for length in 0..state.len() {
        let mut after = Bench::new(&small(2));
        if after.runner.import_state(&state[..length]) {
            taken += 1;
        } else {
            assert_eq!(after.report()["connections"]["now"], 0);
        }
    }
    // A service, two servers, two connections and a client: between the entries it is another state.
    assert_eq!(taken, 6);
}

proptest! {
    #[test]
    fn any_state_is_refused_or_taken(
        state in prop::collection::vec(any::<u8>(), 0..300),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let config = small(3);
        let _ = Bench::new(&config).runner.import_state(&state);
        let mut before = Bench::new(&config);
        for number in 0..5 {
            before.connect(&client(number), &end(VIP, 80));
        }
        let mut state = before.runner.export_state().expect("offered");
        for (place, byte) in changes {
            let place = place.index(state.len());
            state[place] = byte;
        }
        let mut after = Bench::new(&config);
        after.runner.import_state(&state);
        prop_assert!(after.report()["connections"]["now"].as_u64() <= Some(5));
        after.connect(&client(99), &end(VIP, 80));
    }
}
