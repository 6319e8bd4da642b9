//! Faults in front of TAP devices, as the hosts see them.

use packet_memory::{BufferSize, PageKind, Pool, PoolConfig};
use port::Port;
use port::fault::{Config, Direction, FaultPort};
use port_tap::{Settings, TapPort};
use schema::WHOLE;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;
use telemetry::DropReason;
use telemetry::clock::Nanos;
use testbed::{CLIENT, Hosts, Namespace, Relay, RunningRelay, SERVER, audit, echo, isolated};

const SECOND: Duration = Duration::from_secs(1);

/// Two hosts joined by TAP devices; what happens to the client's packets is said here.
fn joined(receive: Direction, transmit: Direction) -> (Hosts, RunningRelay) {
    let hosts = Hosts::around(Namespace::here().expect("the test's own")).expect("two hosts");
    let open = |name| Box::new(TapPort::open(Settings::new(name)).expect("root may make devices"));
    let config = Config { receive, transmit, ..Config::default() };
    let ports: [Box<dyn Port>; 2] = [Box::new(FaultPort::new(open("tap-lan"), config)), open("tap-wan")];
    hosts.give("tap-lan", "tap-wan").expect("they move");
    let sizes = PoolConfig {
        buffers: 512,
        buffer_size: BufferSize::LARGEST,
        headroom: 128,
        pages: Some(PageKind::Ordinary),
    };
    let pool = Pool::new("testbed", sizes).expect("a small pool");
    let relay = Relay::between(Arc::new(pool), ports).start();
    (hosts, relay)
}

fn ping(hosts: &Hosts, count: u32) -> String {
    let command = format!("ping -c {count} -i 0.05 -W 1 {SERVER}");
    hosts.client.run(&command, SECOND * 10).map(|output| output.stdout).unwrap_or_default()
}

#[test]
fn a_delay_is_felt_both_ways() {
    isolated("a_delay_is_felt_both_ways", || {
        let delay = Direction { delay: Nanos::from_millis(15), ..Direction::default() };
        let (hosts, relay) = joined(delay, delay);
        let output = ping(&hosts, 10);
        assert!(output.contains(" 0% packet loss"), "{output}");
        let times = output
            .lines()
            .filter_map(|line| line.split_once("time=")?.1.split(' ').next()?.parse::<f64>().ok());
        let times: Vec<f64> = times.collect();
        assert_eq!(times.len(), 10, "{output}");
        assert!(times.iter().all(|ms| *ms >= 30.0), "{times:?}");
        // Woken when the next one is due, and not only when the relay looks round, which is each 100 ms.
        let mut sorted = times.clone();
        sorted.sort_by(f64::total_cmp);
        assert!(sorted[5] < 80.0, "{times:?}");
        audit(&relay.stop());
    });
}

#[test]
fn what_is_to_be_lost_is_lost_and_counted() {
    isolated("what_is_to_be_lost_is_lost_and_counted", || {
        let loss = Direction { loss: WHOLE, ..Direction::default() };
        let (hosts, relay) = joined(Direction::default(), loss);
        // Answered, and the answers are lost; the first of them is that of address resolution.
        assert_eq!(ping(&hosts, 2), "");
        let account = relay.stop();
        audit(&account);
        let lan = &account.ports[0].ledger;
        assert!(lan.dropped[DropReason::InjectedFault] > 0 && lan.delivered == 0, "{account:?}");
    });
}

#[test]
fn tcp_survives_a_bad_line() {
    isolated("tcp_survives_a_bad_line", || {
        let bad = Direction {
            loss: WHOLE / 100,
            duplicate: WHOLE / 100,
            truncate: WHOLE / 200,
            reorder: WHOLE / 50,
            jitter: Nanos(200_000),
            ..Direction::default()
        };
        let (hosts, relay) = joined(bad, bad);
        echo(&hosts.client, &hosts.server, 4 << 20);
        let account = relay.stop();
        audit(&account);
        let lan = &account.ports[0].ledger;
        assert!(lan.copied > 0 && lan.dropped[DropReason::InjectedFault] > 0, "{account:?}");
    });
}

#[test]
fn a_flipped_bit_is_found_by_the_receiver() {
    isolated("a_flipped_bit_is_found_by_the_receiver", || {
        let flips = Direction { bit_flip: WHOLE, ..Direction::default() };
        let (hosts, relay) = joined(flips, Direction::default());
        // Address resolution has no checksum; it is done beforehand.
        let shown = hosts.server.run("ip -brief link show eth0", SECOND).expect("the device").stdout;
        let mac = shown.split_whitespace().nth(2).expect("its address");
        hosts.client.ip(&format!("neigh add {SERVER} lladdr {mac} dev eth0")).expect("a neighbour");
        let server = hosts.server.enter(|| UdpSocket::bind((SERVER, 9))).expect("a socket");
        let client = hosts.client.enter(|| UdpSocket::bind((CLIENT, 0))).expect("a socket");
        server.set_read_timeout(Some(SECOND / 2)).expect("a valid limit");
        for _ in 0..200 {
            client.send_to(&[7; 1000], (SERVER, 9)).expect("a datagram");
        }
        let (mut whole, mut bytes) = (0, [0; 2000]);
        while let Ok(length) = server.recv(&mut bytes) {
            assert_eq!(bytes[..length], [7; 1000], "a wrong bit came through");
            // One in the sender's Ethernet address changes nothing for the receiver.
            whole += 1;
        }
        assert!(whole < 20, "{whole} of 200 came");
        let account = relay.stop();
        audit(&account);
        assert!(account.ports[1].ledger.delivered >= 200, "{account:?}");
    });
}
