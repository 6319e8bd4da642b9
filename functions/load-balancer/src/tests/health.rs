//! Health checks on a simulated clock.

use super::devices::{entries, neighbour};
use super::*;
use flags::{ACK, RST, SYN};
use nf_sdk::devices::NeighbourState;
use nf_sdk::headers::tcp::View;

fn known() -> Vec<nf_sdk::devices::DeviceEntry> {
    entries(&[
        neighbour(1, "10.0.0.1", NeighbourState::Reachable, 0x51),
        neighbour(1, "10.0.0.2", NeighbourState::Reachable, 0x52),
        neighbour(1, "2001:db8:a::1", NeighbourState::Reachable, 0x56),
    ])
}

fn config(check: &str, more: &str) -> String {
    web(2, &format!(", check: {{{check}}}{more}"))
}

/// What a server makes of the packets that it was sent since the last time: a SYN is answered, an echo
/// request and a datagram too.
fn replies(frame: &[u8]) -> Option<Vec<u8>> {
    let network = dissect(frame).expect("sound").network.expect("IP");
    assert_sound(frame);
    let (from, to) = (network.destination.to_string(), network.source.to_string());
    let message = &frame[network.l4_offset..network.end];
    match network.protocol {
        6 => {
            let view = View::new(message).expect("a segment");
            if view.flags().0 as u8 & SYN == 0 {
                return None;
            }
            let (from, to) = ((from, view.destination_port()), (to, view.source_port()));
            Some(segment(&from, &to, SYN | ACK, view.sequence().wrapping_add(1)))
        }
        17 => {
            let ports = [message[2], message[3], message[0], message[1]];
            let answer = [&ports[..], &[0, 12, 0, 0, 1, 2, 3, 4]].concat();
            Some(packet(&from, &to, 17, &answer))
        }
        protocol => {
            let mut answer = message.to_vec();
            answer[0] = if protocol == 1 { 0 } else { 129 };
            answer[2..4].fill(0);
            Some(packet(&from, &to, protocol, &answer))
        }
    }
}

/// Lets time pass; those servers that `lives` names answer.
fn pass(bench: &mut Bench, seconds: f64, lives: &[&str]) {
    let mut seen = bench.runner.host().emitted().len();
    for _ in 0..(seconds * 100.0) as usize {
        bench.wait(0.01);
        let sent: Vec<Vec<u8>> =
            bench.runner.host().emitted()[seen..].iter().filter_map(|sent| sent.bytes.clone()).collect();
        seen += sent.len();
        for frame in sent {
            let server = dissect(&frame).expect("sound").network.expect("IP").destination.to_string();
            if lives.contains(&server.as_str())
                && let Some(answer) = replies(&frame)
            {
                assert_eq!(bench.show(1, answer).0, Verdict::Consume);
            }
            seen = bench.runner.host().emitted().len();
        }
    }
}

fn up(bench: &Bench) -> u64 {
    bench.report()["services"]["web"]["up"].as_u64().expect("a count")
}

#[test]
fn servers_go_down_and_come_up_again() {
    for check in ["by: tcp", "by: icmp", "by: udp, payload: 'are you there?'", "by: tcp, port: 9"] {
        let mut bench =
            Bench::new(&config(&format!("{check}, interval: 1s, timeout: 500ms, rise: 2, fall: 3"), ""));
        bench.runner.set_devices(&known(), at(0.0));
        pass(&mut bench, 5.0, &["10.0.0.1", "10.0.0.2"]);
        assert_eq!((up(&bench), bench.event("servers-down")), (2, 0), "{check}");
        assert!((8..=12).contains(&bench.event("checks")), "{check}");
        // Two checks are not enough.
        pass(&mut bench, 2.0, &["10.0.0.1"]);
        assert_eq!(up(&bench), 2, "{check}");
        pass(&mut bench, 2.0, &["10.0.0.1"]);
        assert_eq!((up(&bench), bench.event("servers-down")), (1, 1), "{check}");
        let log = bench.runner.host().log().last().expect("a line").1.clone();
        assert_eq!(log, "service web: server 10.0.0.2:8080 is down: its checks are not answered");
        assert_eq!(bench.report()["services"]["web"]["down"][0], "10.0.0.2:8080");
        for number in 0..50 {
            assert_eq!(bench.server(tcp(&client(number), &end(VIP, 80), SYN)).0, "10.0.0.1");
        }
        // One answer is not enough either.
        pass(&mut bench, 1.0, &["10.0.0.1", "10.0.0.2"]);
        assert_eq!(up(&bench), 1, "{check}");
        pass(&mut bench, 2.0, &["10.0.0.1", "10.0.0.2"]);
        assert_eq!((up(&bench), bench.event("servers-up")), (2, 1), "{check}");
        let log = bench.runner.host().log().last().expect("a line").1.clone();
        assert_eq!(log, "service web: server 10.0.0.2:8080 is up again");
    }
}

#[test]
fn servers_of_ipv6_are_checked() {
    for check in ["tcp", "icmp", "udp"] {
        let config = format!(
            "services: [{{name: web, address: '{VIP6}', protocol: tcp, ports: '80', check: {{by: {check}, interval: 1s}}, \
             servers: [{{address: '2001:db8:a::1'}}]}}]"
        );
        let mut bench = Bench::new(&config);
        bench.runner.set_devices(&known(), at(0.0));
        pass(&mut bench, 5.0, &["2001:db8:a::1"]);
        assert_eq!(up(&bench), 1);
        pass(&mut bench, 5.0, &[]);
        assert_eq!(up(&bench), 0);
        assert_eq!(bench.client(tcp(&end("2001:db8:c::9", 1), &end(VIP6, 80), SYN)), drop(Reason::NoServer));
    }
}

#[test]
fn a_handshake_is_reset_and_what_is_forged_is_no_answer() {
    let mut bench = Bench::new(&config("by: tcp, interval: 1s, timeout: 1s, fall: 2", ""));
    bench.runner.set_devices(&known(), at(0.0));
    bench.wait(0.05);
    let syn = bench.runner.host().emitted()[0].bytes.clone().expect("its own");
    assert_eq!(syn[..12], [2, 0, 0, 0, 0, 0x51, 2, 0, 0, 0, 0, 0x50]);
    let (own, server) = ends(&syn);
    assert_eq!((own.0.as_str(), server.clone()), ("10.0.0.254", end("10.0.0.1", 8080)));
    let sequence = View::new(&syn[34..]).expect("a segment").sequence();
    // Not the acknowledgment of what was sent; a refusal.
    for (flags, acknowledgment) in
        [(SYN | ACK, 7), (SYN | ACK, sequence), (RST | ACK, sequence.wrapping_add(1))]
    {
        assert_eq!(bench.show(1, segment(&server, &own, flags, acknowledgment)).0, Verdict::Consume);
    }
    assert_eq!(bench.runner.host().emitted().len(), 1, "the check alone");
    bench.show(1, segment(&server, &own, SYN | ACK, sequence.wrapping_add(1)));
    let reset = bench.runner.host().emitted()[1].bytes.clone().expect("its own");
    let view = View::new(&reset[34..]).expect("a segment");
    assert_eq!((view.flags().0 as u8, view.sequence()), (RST, sequence.wrapping_add(1)));
    assert_eq!(ends(&reset), (own.clone(), server.clone()));
    assert_sound(&reset);
    // From another source, or to another port, it is no answer at all.
    let other = end("10.0.0.9", 8080);
    assert_eq!(bench.show(1, segment(&other, &own, SYN | ACK, 1)).0, TO_CLIENT);
}

#[test]
fn connections_of_a_server_that_is_down_are_reset_or_moved() {
    for (more, moves) in [("", false), (", on_down: move", true)] {
        let mut bench = Bench::new(&config("interval: 1s, timeout: 500ms, fall: 1", more));
        bench.runner.set_devices(&known(), at(0.0));
        let service = end(VIP, 80);
        let servers: Vec<End> = (0..40).map(|number| bench.connect(&client(number), &service)).collect();
        assert!(servers.iter().any(|server| server.0 == "10.0.0.2"));
        pass(&mut bench, 3.0, &["10.0.0.1"]);
        assert_eq!(up(&bench), 1);
        for (number, server) in (0..40).zip(&servers) {
            let before = bench.runner.host().emitted().len();
            let (verdict, bytes) = bench.show(0, tcp(&client(number), &service, ACK));
            if server.0 == "10.0.0.1" || moves {
                assert_eq!((verdict, ends(&bytes).1), (TO_SERVER, end("10.0.0.1", 8080)));
                continue;
            }
            assert_eq!(verdict, drop(Reason::ServerDown));
            let reset = bench.runner.host().emitted()[before].clone();
            let bytes = reset.bytes.expect("its own");
            assert_sound(&bytes);
            let view = View::new(&bytes[34..]).expect("a segment");
            assert_eq!((reset.verdict, ends(&bytes)), (TO_CLIENT, (service.clone(), client(number))));
            assert_eq!((view.flags().0 as u8, view.sequence()), (RST, 10));
            // What comes next begins anew.
            assert_eq!(bench.server(tcp(&client(number), &service, SYN)).0, "10.0.0.1");
        }
        let on_second = servers.iter().filter(|server| server.0 == "10.0.0.2").count() as u64;
        let expected = if moves { (0, on_second) } else { (on_second, 0) };
        assert_eq!((bench.event("resets"), bench.event("moved")), expected);
    }
}

#[test]
fn without_a_device_nothing_is_checked() {
    let mut bench = Bench::new(&config("interval: 1s", ""));
    bench.server(tcp(&client(1), &end(VIP, 80), SYN));
    bench.wait(60.0);
    assert_eq!((up(&bench), bench.event("checks")), (2, 0));
    let lines = bench.runner.host().log();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].1, "no server is checked: the interface `servers` has no address of a device");
}

/// What the host does not take is checked a moment later; for less than an interval that is no failure.
#[test]
fn a_check_that_is_put_off_for_an_interval_has_failed() {
    let mut bench = Bench::new(&config("interval: 1s, timeout: 500ms, rise: 1, fall: 2", ""));
    bench.runner.refuse_packets(true);
    bench.runner.set_devices(&known(), at(0.0));
    bench.wait(0.9);
    bench.runner.refuse_packets(false);
    pass(&mut bench, 5.0, &["10.0.0.1", "10.0.0.2"]);
    assert_eq!((up(&bench), bench.event("servers-down")), (2, 0));
    bench.runner.refuse_packets(true);
    bench.wait(1.9);
    assert_eq!(up(&bench), 2);
    bench.wait(2.2);
    assert_eq!((up(&bench), bench.event("servers-down")), (0, 2));
    bench.runner.refuse_packets(false);
    pass(&mut bench, 2.0, &["10.0.0.1", "10.0.0.2"]);
    assert_eq!(up(&bench), 2);
}

/// A device without an address, as it is between two leases.
fn without_addresses() -> Vec<nf_sdk::devices::DeviceEntry> {
    let is_address = |entry: &nf_sdk::devices::DeviceEntry| {
        matches!(entry, nf_sdk::devices::DeviceEntry::Address { interface: 1, .. })
    };
    known().into_iter().filter(|entry| !is_address(entry)).collect()
}

#[test]
fn servers_are_up_when_the_device_has_no_address_any_more() {
    let text = config("interval: 1s, timeout: 500ms, rise: 2, fall: 1", "");
    let mut bench = Bench::new(&text);
    bench.runner.set_devices(&known(), at(0.0));
    pass(&mut bench, 3.0, &[]);
    assert_eq!(up(&bench), 0);
    let state = bench.runner.export_state().expect("offered");
    bench.runner.set_devices(&without_addresses(), at(bench.now));
    assert_eq!((up(&bench), bench.event("servers-up")), (2, 2));
    bench.wait(10.0);
    bench.server(tcp(&client(1), &end(VIP, 80), SYN));
    // With an address they are checked again.
    bench.runner.set_devices(&known(), at(bench.now));
    pass(&mut bench, 3.0, &["10.0.0.1"]);
    assert_eq!(
        (up(&bench), bench.report()["services"]["web"]["down"][0].as_str()),
        (1, Some("10.0.0.2:8080"))
    );
    // An instance without a device takes none over as down.
    let mut after = Bench::new(&text);
    assert!(after.runner.import_state(&state));
    assert_eq!(up(&after), 0);
    after.server(tcp(&client(1), &end(VIP, 80), SYN));
    assert_eq!(up(&after), 2);
}

#[test]
fn a_server_that_no_address_can_check_is_up() {
    let config = format!(
        "services: [{{name: web, address: '{VIP6}', protocol: tcp, ports: '80', check: {{interval: 1s, fall: 1}}, \
         servers: [{{address: '2001:db8:a::1'}}, {{address: '2001:db8:a::2'}}]}}]"
    );
    let is_v6 = |entry: &nf_sdk::devices::DeviceEntry| matches!(entry, nf_sdk::devices::DeviceEntry::Address { address, .. } if address.is_ipv6());
    let v4_alone: Vec<_> = known().into_iter().filter(|entry| !is_v6(entry)).collect();
    let mut bench = Bench::new(&config);
    bench.runner.set_devices(&v4_alone, at(0.0));
    bench.wait(10.0);
    assert_eq!((up(&bench), bench.event("checks")), (2, 0));
    let lines = bench.runner.host().log();
    let line = "service web: server 2001:db8:a::1 is not checked: the device behind `servers` has no address to reach \
                it from (said of the first such server alone)";
    assert_eq!(lines.iter().map(|line| line.1.as_str()).collect::<Vec<_>>(), [line]);
    // With one that can, they are.
    bench.runner.set_devices(&known(), at(bench.now));
    pass(&mut bench, 4.0, &["2001:db8:a::1"]);
    assert_eq!(up(&bench), 1);
}

/// The answer that makes a server come up has its table made anew soon, whenever the next check is.
#[test]
fn a_table_is_made_anew_soon_after_a_server_came_up() {
    let mut bench = Bench::new(&config("by: icmp, interval: 10s, timeout: 9s, rise: 1, fall: 1", ""));
    bench.runner.set_devices(&known(), at(0.0));
    bench.wait(30.0);
    assert_eq!(up(&bench), 0);
    bench.wait(1.0);
    let sent = bench.runner.host().emitted().last().expect("a check").bytes.clone().expect("its own");
    let answer = replies(&sent).expect("an answer");
    assert_eq!(bench.show(1, answer).0, Verdict::Consume);
    assert_eq!(up(&bench), 1);
    assert!(bench.runner.function().balancer.services.has_stale());
    bench.wait(0.011);
    assert!(!bench.runner.function().balancer.services.has_stale());
}

/// Many servers go down at once: what the tables choose until they are made anew is passed over.
#[test]
fn no_server_that_is_down_is_chosen_while_tables_are_stale() {
    for choose in ["maglev", "least-loaded"] {
        let service = |service: u32| {
            let server = |n: u32| format!("{{address: 10.{service}.{}.{}}}", n / 200, n % 200 + 1);
            let servers: Vec<String> = (0..300).map(server).collect();
            format!(
                "{{name: s{service}, address: 198.51.100.{}, protocol: tcp, ports: '80', choose: {choose}, check: \
                 {{interval: 100ms, timeout: 10ms, fall: 1}}, servers: [{}]}}",
                service + 1,
                servers.join(", ")
            )
        };
        let services: Vec<String> = (0..4).map(service).collect();
        let mut bench = Bench::new(&format!("services: [{}]", services.join(", ")));
        let live = neighbour(1, "10.3.0.7", NeighbourState::Reachable, 0x57);
        bench.runner.set_devices(&entries(&[live]), at(0.0));
        let mut was_stale = 0;
        for step in 0..14 {
            pass(&mut bench, 0.01, &["10.3.0.7"]);
            let services = &bench.runner.function().balancer.services;
            was_stale += u32::from(services.has_stale());
            let up: Vec<String> =
                (900..1200).filter(|n| services.is_up(*n)).map(|n| services.name(n)).collect();
            let server = ends(&bench.show(0, tcp(&client(step), &end("198.51.100.4", 80), SYN)).1).1;
            assert!(up.contains(&server.0), "{server:?}");
        }
        assert!(was_stale > 3, "{was_stale}");
        assert_eq!(bench.server(tcp(&client(999), &end("198.51.100.4", 80), SYN)).0, "10.3.0.7");
    }
}
