//! The kernel's own traffic through two ports: whole segments, pieces of them, and checksums.

use super::*;

#[test]
fn ping_passes_both_ways() {
    isolated("traffic::ping_passes_both_ways", || {
        let line = Line::new().expect("a line");
        let relay = start(small());
        for (host, to) in [(&line.client, SERVER), (&line.server, CLIENT)] {
            let output = host.run(&format!("ping -c 10 -i 0.05 -W 2 {to}"), SECOND * 10).expect("ping");
            assert!(output.stdout.contains(" 0% packet loss"), "{}", output.stdout);
            println!("{}", output.stdout.lines().last().unwrap_or_default());
        }
        let account = relay.stop();
        audit(&account);
        // Ten requests, ten answers, twice; and the address resolution before them.
        for port in &account.ports {
            assert!(port.ledger.delivered >= 20, "{account:?}");
            assert_eq!((port.ledger.dropped.total(), port.kernel_lost), (0, 0));
        }
        assert_eq!(account.ports[0].ledger.received, account.ports[1].ledger.delivered);
        assert_eq!(account.ports[0].received_bytes, account.ports[1].delivered_bytes);
    });
}

#[test]
fn segments_of_64_kib_pass_whole() {
    isolated("traffic::segments_of_64_kib_pass_whole", || {
        let line = Line::new().expect("a line");
        let relay = start(large());
        echo(&line.client, &line.server, 32 << 20);
        let account = relay.stop();
        audit(&account);
        assert!(account.segmented > 100 && account.longest > 40_000, "{account:?}");
    });
}

#[test]
fn segments_longer_than_a_buffer_are_cut_and_every_byte_arrives() {
    isolated("traffic::segments_longer_than_a_buffer_are_cut_and_every_byte_arrives", || {
        let line = Line::new().expect("a line");
        // The kernel fills the checksums in and the receiver verifies them.
        for name in ["sf-lan", "sf-wan"] {
            line.middle
                .run(&format!("ethtool -K {name} tx off tso off gso off"), SECOND * 5)
                .expect("switches");
        }
        let relay = start(small());
        echo(&line.client, &line.server, 8 << 20);
        let mut server = Iperf::serve(&line.server).expect("iperf3");
        for direction in ["", "--reverse"] {
            let rate = server.measure(&line.client, 1, direction).expect("iperf3");
            println!("{:.2} Gbit/s in buffers of 2 KiB {direction}", rate / 1e9);
        }
        drop(server);
        let account = relay.stop();
        audit(&account);
        assert!(account.longest <= 1728, "{account:?}");
        for port in &account.ports {
            assert!(port.ledger.split > 1000, "{account:?}");
            assert_eq!(port.ledger.dropped[DropReason::TooLong], 0, "{account:?}");
        }
        for host in [&line.client, &line.server] {
            let table =
                host.enter(|| std::fs::read_to_string("/proc/thread-self/net/snmp")).expect("statistics");
            let tcp: Vec<&str> = table.lines().filter(|row| row.starts_with("Tcp:")).collect();
            let column = tcp[0].split(' ').position(|name| name == "InCsumErrors").expect("the column");
            assert_eq!(tcp[1].split(' ').nth(column), Some("0"), "{table}");
        }
    });
}

#[test]
fn segments_of_udp_are_cut_into_datagrams() {
    isolated("traffic::segments_of_udp_are_cut_into_datagrams", || {
        let line = Line::new().expect("a line");
        line.middle.run("ethtool -K sf-wan tx off", SECOND * 5).expect("switches");
        let relay = start(small());
        testbed::segments_of_udp((&line.client, CLIENT), (&line.server, SERVER), 1000, false);
        let account = relay.stop();
        audit(&account);
        assert_eq!(account.ports[0].ledger.split, 20, "{account:?}");
    });
}

#[test]
fn checksums_are_right_when_they_are_looked_at() {
    isolated("traffic::checksums_are_right_when_they_are_looked_at", || {
        let line = Line::new().expect("a line");
        // Between veth ends an unfinished checksum is believed. Without these offloads the kernel cuts what
        // the relay sends into segments and fills their checksums in, by the state in the record, and the
        // receiver verifies them.
        for name in ["sf-lan", "sf-wan"] {
            let switches = format!("ethtool -K {name} tx off tso off gso off");
            line.middle.run(&switches, SECOND * 5).expect("switches of a veth end");
        }
        let relay = start(large());
        echo(&line.client, &line.server, 8 << 20);
        let account = relay.stop();
        audit(&account);
        assert!(account.segmented > 10, "{account:?}");
        // A wrong checksum would show as segments that were dropped by the receiver and sent again.
        for host in [&line.client, &line.server] {
            let table =
                host.enter(|| std::fs::read_to_string("/proc/thread-self/net/snmp")).expect("statistics");
            let tcp: Vec<&str> = table.lines().filter(|row| row.starts_with("Tcp:")).collect();
            let column = tcp[0].split(' ').position(|name| name == "InCsumErrors").expect("the column");
            assert_eq!(tcp[1].split(' ').nth(column), Some("0"), "{table}");
        }
    });
}

#[test]
fn iperf3_runs_both_ways() {
    isolated("traffic::iperf3_runs_both_ways", || {
        let line = Line::new().expect("a line");
        let relay = start(large());
        let mut server = Iperf::serve(&line.server).expect("iperf3");
        for direction in ["", "--reverse"] {
            let rate = server.measure(&line.client, 1, direction).expect("iperf3");
            println!("{:.2} Gbit/s {direction}", rate / 1e9);
        }
        drop(server);
        let account = relay.stop();
        audit(&account);
        assert!(account.ports.iter().all(|port| port.delivered_bytes > 10 << 20), "{account:?}");
    });
}

#[test]
fn without_headers_the_offloads_must_be_off() {
    isolated("traffic::without_headers_the_offloads_must_be_off", || {
        let line = Line::new().expect("a line");
        let off = |name: &str| Settings { offload: false, ..Settings::new(name) };
        let refused =
            AfPacketPort::open(off("sf-lan")).err().expect("checksums are left out here").to_string();
        assert!(refused.contains("ethtool -K sf-lan"), "{refused}");
        assert!(refused.contains("tx off"), "{refused}");

        // The line that the message names, and the same on the other ends, which the port cannot see.
        let (_, switches) = refused.split_once("ethtool -K sf-lan ").expect("a command line");
        let switches = switches.trim_end_matches('`');
        for (host, name) in [
            (&line.middle, "sf-lan"),
            (&line.middle, "sf-wan"),
            (&line.client, "eth0"),
            (&line.server, "eth0"),
        ] {
            host.run(&format!("ethtool -K {name} {switches}"), SECOND * 5).expect("switches of a veth end");
        }
        let relay = start_with(small(), |settings| settings.offload = false);
        echo(&line.client, &line.server, 1 << 20);
        let account = relay.stop();
        audit(&account);
        assert_eq!(account.segmented, 0);
        assert!(account.longest <= 1514, "{account:?}");
    });
}

#[test]
fn frames_without_checksum_are_told_of() {
    isolated("traffic::frames_without_checksum_are_told_of", || {
        let line = Line::new().expect("a line");
        for name in ["sf-lan", "sf-wan"] {
            line.middle.run(&format!("ethtool -K {name} gro off tx off"), SECOND * 5).expect("switches");
        }
        let relay = start_with(small(), |settings| settings.offload = false);
        line.client.ip("neigh add 10.83.0.2 lladdr 02:00:00:00:00:01 dev eth0").expect("a neighbour");
        let socket = line.client.enter(|| UdpSocket::bind((CLIENT, 0))).expect("a socket");
        for _ in 0..3 {
            socket.send_to(&[7; 100], (SERVER, 9)).expect("a datagram");
        }
        thread::sleep(Duration::from_millis(50));
        let account = relay.stop();
        audit(&account);
        assert_eq!(account.ports[0].ledger.dropped[DropReason::Malformed], 3, "{account:?}");
        let told = |event: &&PortEvent| matches!(event, PortEvent::Notice(words) if words.contains("tx off"));
        assert_eq!(account.events[0].iter().filter(told).count(), 1, "{account:?}");
    });
}

#[test]
fn a_partial_checksum_is_completed_for_a_port_without_headers() {
    isolated("traffic::a_partial_checksum_is_completed_for_a_port_without_headers", || {
        let line = Line::new().expect("a line");
        line.middle.run("ethtool -K sf-wan gro off tx off", SECOND * 5).expect("switches");
        let wan = Settings { offload: false, ..Settings::new("sf-wan") };
        let relay = Relay::open(small(), Settings::new("sf-lan"), wan).expect("both are there").start();
        let server = line.server.enter(|| UdpSocket::bind((SERVER, 9))).expect("a socket");
        let client = line.client.enter(|| UdpSocket::bind((CLIENT, 0))).expect("a socket");
        server.set_read_timeout(Some(SECOND * 5)).expect("a valid limit");
        for length in [0, 1, 101, 1400] {
            let sent = pattern(length);
            client.send_to(&sent, (SERVER, 9)).expect("a datagram");
            let mut received = vec![0; 2000];
            // The receiver verifies: the frame came without a word about its checksum.
            let (count, _) = server.recv_from(&mut received).expect("the datagram, checksum verified");
            assert_eq!(received[..count], sent);
        }
        audit(&relay.stop());
    });
}
