//! Floods: connections that are established stay where they are, and the table stays within its bounds.

use super::*;
use flags::{ACK, RST, SYN};
use proptest::prelude::*;

/// An attacker's packet: a forged source, and anything that it can say.
#[derive(Clone, Debug)]
enum Attack {
    Syn(u32),
    Ack(u32, u32),
    Reset(u32),
    Udp(u32),
}

fn attack() -> impl Strategy<Value = Attack> {
    let source = || 1000u32..100_000;
    prop_oneof![
        4 => source().prop_map(Attack::Syn),
        2 => (source(), any::<u32>()).prop_map(|(source, number)| Attack::Ack(source, number)),
        // The sources of real clients too.
        1 => (0u32..60).prop_map(Attack::Reset),
        1 => (0u32..60, any::<u32>()).prop_map(|(source, number)| Attack::Ack(source, number)),
        1 => (0u32..60).prop_map(Attack::Syn),
        2 => source().prop_map(Attack::Udp),
    ]
}

const SERVICES: &str = "
services:
  - {name: web, address: 198.51.100.7, protocol: tcp, ports: '80', choose: CHOICE, servers: [SERVERS]}
  - {name: dns, address: 198.51.100.7, protocol: udp, ports: '53', servers: [{address: 10.0.0.1}, {address: 10.0.0.2}]}
max_connections: 80
max_half_open: HALF
";

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    /// Whatever comes with forged sources, connections that clients have agreed to keep their servers, and
    /// none is evicted.
    #[test]
    fn no_flood_breaks_an_established_connection(
        attacks in prop::collection::vec((attack(), any::<bool>(), 0u32..3), 100..600),
        half in prop::sample::select(vec![1usize, 10, 40, 80]),
        choice in prop::sample::select(vec!["maglev", "least-loaded"]),
    ) {
        let servers: Vec<String> = (1..=20).map(|n| format!("{{address: 10.0.0.{n}, port: 8080}}")).collect();
        let config = SERVICES
            .replace("CHOICE", choice)
            .replace("SERVERS", &servers.join(", "))
            .replace("HALF", &half.to_string());
        let mut bench = Bench::new(&config);
        let service = end(VIP, 80);
        let established: Vec<End> = (0..60).map(|number| bench.connect(&client(number), &service)).collect();
        for (attack, is_answered, later) in attacks {
            bench.wait(f64::from(later) / 10.0);
            let (from, frame) = match attack {
                Attack::Syn(source) => (client(source), tcp(&client(source), &service, SYN)),
                Attack::Ack(source, number) => (client(source), segment(&client(source), &service, ACK, number)),
                Attack::Reset(source) => (client(source), tcp(&client(source), &service, RST)),
                Attack::Udp(source) => (client(source), udp(&client(source), &end(VIP, 53))),
            };
            let (verdict, bytes) = bench.show(0, frame);
            prop_assert_eq!(verdict, TO_SERVER);
            // A server answers what it does not know with a reset, and a SYN with another.
            let server = ends(&bytes).1;
            let is_real = (0..60).any(|number| client(number) == from);
            match attack {
                _ if !is_answered || is_real => {}
                Attack::Syn(_) => {
                    bench.answer(tcp(&server, &from, SYN | ACK));
                }
                Attack::Ack(..) => {
                    bench.answer(tcp(&server, &from, RST));
                }
                Attack::Reset(_) | Attack::Udp(_) => {}
            }
            let connections = &bench.report()["connections"];
            prop_assert!(connections["now"].as_u64() <= Some(80));
            prop_assert!(connections["half_open"].as_u64() <= Some(half as u64));
        }
        for (number, server) in (0..60).zip(&established) {
            prop_assert_eq!(&bench.server(tcp(&client(number), &service, ACK)), server);
            prop_assert_eq!(bench.answer(tcp(server, &client(number), ACK)), end(VIP, 80));
        }
    }
}

/// While the half-open ones are as many as they may be, clients still connect: without being remembered until
/// there is room.
#[test]
fn clients_connect_during_a_flood() {
    let mut bench = Bench::new(&format!("{}\nmax_half_open: 10\nmax_connections: 100\n", web(20, "")));
    let service = end(VIP, 80);
    for number in 1000..3000 {
        bench.server(tcp(&client(number), &service, SYN));
    }
    assert_eq!(
        (bench.report()["connections"]["half_open"].clone(), bench.event("stateless")),
        (10.into(), 1990)
    );
    let server = bench.connect(&client(1), &service);
    for _ in 0..3 {
        assert_eq!(bench.server(tcp(&client(1), &service, ACK)), server);
        assert_eq!(bench.answer(tcp(&server, &client(1), ACK)), service);
    }
    assert_eq!(bench.report()["connections"]["now"], 10);
    // The flood is over, and its places are free: the connection is picked up.
    bench.wait(12.0);
    assert_eq!(bench.server(tcp(&client(1), &service, ACK)), server);
    assert_eq!(bench.answer(tcp(&server, &client(1), ACK)), service);
    let connections = &bench.report()["connections"];
    assert_eq!((&connections["now"], &connections["half_open"]), (&1.into(), &0.into()));
}

/// A client that has a server keeps it when its connection is not remembered: the handshake goes to one
/// server whether there is room for its packets or not.
#[test]
fn a_client_keeps_its_server_during_a_flood() {
    let config = format!(
        "{}\nmax_half_open: 3\nmax_connections: 100\n",
        web(20, ", choose: least-loaded, affinity: 1h")
    );
    let mut bench = Bench::new(&config);
    let service = end(VIP, 80);
    for number in 1..10 {
        let known = bench.connect(&client(number * 20_000), &service);
        for more in 1..4 {
            bench.server(tcp(&client(2_000_000 + number * 20_000 + more), &service, SYN));
        }
        let again = client(number * 20_000 + 1);
        let before = bench.event("stateless");
        assert_eq!(bench.server(tcp(&again, &service, SYN)), known);
        assert_eq!(bench.event("stateless"), before + 1);
        // The flood is over before the acknowledgment comes.
        bench.wait(12.0);
        assert_eq!(bench.server(tcp(&again, &service, ACK)), known);
        assert_eq!(bench.event("stateless"), before + 1);
        bench.wait(12.0);
    }
}

#[test]
fn a_full_table_gives_up_half_open_ones_the_oldest_first() {
    let mut bench = Bench::new(&format!("{}\nmax_half_open: 50\nmax_connections: 50\n", web(5, "")));
    let service = end(VIP, 80);
    for number in 0..40 {
        bench.connect(&client(number), &service);
    }
    for number in 1000..1030 {
        bench.server(tcp(&client(number), &service, SYN));
    }
    assert_eq!(
        (bench.event("connections-evicted"), bench.report()["connections"]["now"].clone()),
        (20, 50.into())
    );
    for number in 100..110 {
        bench.connect(&client(number), &service);
    }
    // Now there are established ones alone, and the next goes without being remembered.
    assert_eq!(bench.report()["connections"]["half_open"], 0);
    bench.server(tcp(&client(2000), &service, SYN));
    assert_eq!((bench.event("stateless"), bench.event("connections-evicted")), (1, 30));
}

/// Where answers do not pass, forged sources can fill the table: clients that have a place keep their
/// servers, and others have Maglev's, packet for packet.
#[test]
fn forged_connections_without_answers_break_none() {
    let servers: Vec<String> =
        (1..=10).map(|n| format!("{{address: 10.0.0.{n}, mac: 02:00:00:00:00:{n:02}}}")).collect();
    let mut bench = Bench::new(&format!(
        "services: [{{name: web, address: {VIP}, protocol: tcp, ports: '80', forward: direct, choose: least-loaded, \
         servers: [{}]}}]\nmax_connections: 80\nmax_half_open: 20\n",
        servers.join(", ")
    ));
    let server = |bench: &mut Bench, number: u32, flags| -> Vec<u8> {
        let (verdict, bytes) = bench.show(0, tcp(&client(number), &end(VIP, 80), flags));
        assert_eq!(verdict, TO_SERVER);
        bytes[..6].to_vec()
    };
    let connect = |bench: &mut Bench, number| {
        let first = server(bench, number, SYN);
        assert_eq!(server(bench, number, ACK), first);
        first
    };
    let known: Vec<Vec<u8>> = (0..40).map(|number| connect(&mut bench, number)).collect();
    for forged in 1000..2000 {
        connect(&mut bench, forged);
    }
    let connections = bench.report()["connections"].clone();
    assert_eq!((connections["now"].as_u64(), connections["half_open"].as_u64()), (Some(80), Some(0)));
    let later: Vec<Vec<u8>> = (40..60).map(|number| connect(&mut bench, number)).collect();
    for (number, expected) in (0..60).zip(known.iter().chain(&later)) {
        assert_eq!(server(&mut bench, number, ACK), *expected, "{number}");
    }
}

/// Where answers do not pass, a table that forged sources have filled is not lost to clients for the idle
/// time of a connection: those that have sent nothing for as long as a handshake may take make room, and a
/// client that comes then keeps its server when servers come.
#[test]
fn forged_connections_without_answers_make_room_when_they_are_idle() {
    for choose in ["maglev", "least-loaded"] {
        let config = |servers: u32| {
            let server = |n| format!("{{address: 10.0.0.{n}, mac: 02:00:00:00:00:{n:02}}}");
            format!(
                "services: [{{name: web, address: {VIP}, protocol: tcp, ports: '80', forward: direct, choose: {choose}, \
                 servers: [{}]}}]\nmax_connections: 200\nmax_half_open: 20\n",
                (1..=servers).map(server).collect::<Vec<_>>().join(", ")
            )
        };
        let mut bench = Bench::new(&config(4));
        let server = |bench: &mut Bench, number: u32, flags| -> Vec<u8> {
            let (verdict, bytes) = bench.show(0, tcp(&client(number), &end(VIP, 80), flags));
            assert_eq!(verdict, TO_SERVER);
            bytes[..6].to_vec()
        };
        let connect = |bench: &mut Bench, number| {
            let first = server(bench, number, SYN);
            assert_eq!(server(bench, number, ACK), first);
            first
        };
        for forged in 1000..2000 {
            connect(&mut bench, forged);
        }
        assert_eq!(bench.report()["connections"]["now"], 200);
        bench.wait(11.0);
        // Those that go on while the attacker does keep their places.
        let clients: Vec<Vec<u8>> = (0..50).map(|number| connect(&mut bench, number)).collect();
        for round in 1..6 {
            for forged in 0..60 {
                connect(&mut bench, 1000 + round * 1000 + forged);
            }
            bench.wait(6.0);
            for (number, expected) in (0..50).zip(&clients) {
                assert_eq!(server(&mut bench, number, ACK), *expected, "{choose}: {number}");
            }
        }
        let mut after = Bench::new(&config(40));
        after.now = bench.now;
        assert!(after.runner.import_state(&bench.runner.export_state().expect("offered")));
        let broken =
            (0..50).zip(&clients).filter(|(number, expected)| server(&mut after, *number, ACK) != **expected);
        assert_eq!(broken.count(), 0, "{choose}");
    }
}

/// What a flood evicts from a full table goes the same way without being remembered: the handshakes of
/// clients that come meanwhile are not torn between two servers, whichever way servers are chosen and answer.
#[test]
fn handshakes_that_a_flood_evicts_keep_their_servers() {
    for (choose, forward) in
        [("maglev", "translate"), ("least-loaded", "translate"), ("least-loaded", "direct")]
    {
        let servers: Vec<String> =
            (1..=20).map(|n| format!("{{address: 10.0.0.{n}, mac: 02:00:00:00:00:{n:02}}}")).collect();
        let mut bench = Bench::new(&format!(
            "services: [{{name: web, address: {VIP}, protocol: tcp, ports: '80', forward: {forward}, choose: {choose}, \
             servers: [{}]}}]\nmax_connections: 100\nmax_half_open: 20\n",
            servers.join(", ")
        ));
        let server = |bench: &mut Bench, number: u32, flags| -> Vec<u8> {
            let (verdict, bytes) = bench.show(0, tcp(&client(number), &end(VIP, 80), flags));
            assert_eq!(verdict, TO_SERVER);
            bytes[..6].to_vec()
        };
        let answer = |bench: &mut Bench, number: u32, server: &[u8]| {
            if forward == "translate" {
                let from = end(&format!("10.0.0.{:x}", server[5]), 80);
                bench.answer(tcp(&from, &client(number), SYN | ACK));
            }
        };
        let connect = |bench: &mut Bench, number: u32| {
            let first = server(bench, number, SYN);
            answer(bench, number, &first);
            assert_eq!(server(bench, number, ACK), first, "{choose}, {forward}: {number}");
            first
        };
        // Established ones are as many as leave room for fewer half-open ones than there may be.
        let known: Vec<Vec<u8>> = (0..90).map(|number| connect(&mut bench, number)).collect();
        let mut forged = 1000..;
        let mut flood = |bench: &mut Bench, count| {
            for number in forged.by_ref().take(count) {
                server(bench, number, SYN);
            }
        };
        let mut met = vec![];
        for honest in 200..260 {
            // It begins while the flood fills the table and while the table is full of it, and its second
            // packet comes when others have taken its place.
            let first = server(&mut bench, honest, SYN);
            answer(&mut bench, honest, &first);
            flood(&mut bench, 30);
            assert_eq!(server(&mut bench, honest, ACK), first, "{choose}, {forward}: {honest}");
            met.push((honest, first));
            if honest % 10 == 0 {
                bench.wait(12.0);
            }
        }
        for (number, server_of) in (0..90).zip(known).chain(met) {
            assert_eq!(server(&mut bench, number, ACK), server_of, "{choose}, {forward}: {number}");
        }
        let connections = &bench.report()["connections"];
        assert!(connections["now"].as_u64() <= Some(100) && connections["half_open"].as_u64() <= Some(20));
        assert!(bench.event("connections-evicted") > 0, "{choose}, {forward}");
    }
}
