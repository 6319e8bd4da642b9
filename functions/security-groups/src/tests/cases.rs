//! What becomes of packets of connections, case by case.

use super::frames::{A, A6, B, B6, Bench, IN, OUT, config, drop, remote, rule, to_port};
use nf_sdk::Verdict;
use nf_sdk::devices::DeviceEntry;
use nf_sdk::native::Runner;
use nf_sdk::native::frames::{flags, icmp, packet, seal, tcp, udp};

const C: &str = "203.0.113.4";

fn there(port: u16, flags: u8, seq: u32, ack: u32) -> Vec<u8> {
    tcp([(B, port), (A, 443)], flags, seq, ack, 0)
}

fn back(port: u16, flags: u8, seq: u32, ack: u32) -> Vec<u8> {
    tcp([(A, 443), (B, port)], flags, seq, ack, 0)
}

/// Opens a connection from outside.
fn open(bench: &mut Bench, port: u16) {
    assert_eq!(bench.outside(there(port, flags::SYN, 100, 0)), IN);
    assert_eq!(bench.inside(back(port, flags::SYN | flags::ACK, 500, 101)), OUT);
    assert_eq!(bench.outside(there(port, flags::ACK, 101, 501)), IN);
}

fn lives(bench: &mut Bench, port: u16) -> bool {
    let there = bench.outside(there(port, flags::ACK, 101, 501));
    let back = bench.inside(back(port, flags::ACK, 501, 101));
    assert_eq!(there == IN, back == OUT);
    there == IN
}

fn https() -> ConfigRules {
    vec![to_port("in", "tcp", 443)]
}

type ConfigRules = Vec<nf_sdk::native::ConfigValue>;

#[test]
fn nothing_passes_without_a_rule() {
    let mut bench = Bench::of(vec![]);
    assert_eq!(bench.outside(there(1000, flags::SYN, 100, 0)), drop::DENIED);
    assert_eq!(bench.inside(udp(A, 4000, B, 53)), drop::DENIED);
    assert_eq!(bench.inside(udp(A6, 4000, B6, 53)), drop::DENIED);
    assert_eq!(bench.outside(icmp(B, A, [8, 0], [0, 1, 0, 1], &[])), drop::DENIED);
    assert_eq!(bench.report()["tenant"]["default"]["hits"], 4);
    assert_eq!(bench.report()["administrator"], serde_json::Value::Null);
}

#[test]
fn a_rule_is_for_its_direction_and_answers_pass() {
    let mut bench = Bench::of(https());
    open(&mut bench, 1000);
    assert!(lives(&mut bench, 1000));
    assert_eq!(bench.inside(tcp([(A, 1000), (B, 443)], flags::SYN, 1, 0, 0)), drop::DENIED, "out");
    assert_eq!(bench.outside(tcp([(B, 1000), (A, 80)], flags::SYN, 1, 0, 0)), drop::DENIED, "another port");
    let mut bench = Bench::of(vec![to_port("out", "udp", 53)]);
    assert_eq!(bench.inside(udp(A, 4000, B, 53)), OUT);
    assert_eq!(bench.outside(udp(B, 53, A, 4000)), IN);
    assert_eq!(bench.outside(udp(C, 53, A, 4000)), drop::DENIED);
}

#[test]
fn both_layers_have_to_allow() {
    let web = rule("in", &[remote("198.51.100.0/24")]);
    let mut bench = Bench::new(&[("administrator", vec![web]), ("tenant", https())]);
    assert_eq!(bench.outside(there(1000, flags::SYN, 100, 0)), IN);
    assert_eq!(
        bench.outside(tcp([(C, 1000), (A, 443)], flags::SYN, 1, 0, 0)),
        drop::DENIED,
        "the administrator"
    );
    assert_eq!(bench.outside(tcp([(B, 1000), (A, 80)], flags::SYN, 1, 0, 0)), drop::DENIED, "the tenant");
    let report = bench.report();
    assert_eq!(report["administrator"]["default"]["hits"], 1);
    assert_eq!(report["tenant"]["default"]["hits"], 1);
    let mut bench = Bench::new(&[("administrator", vec![]), ("tenant", https())]);
    assert_eq!(bench.outside(there(1000, flags::SYN, 100, 0)), drop::DENIED);
    assert!(Runner::<crate::SecurityGroups>::new(&config(&[], true)).is_err(), "no layer at all");
}

#[test]
fn sources_are_the_devices() {
    let everything = || vec![rule("in", &[]), rule("out", &[])];
    let mut bench = Bench::of(everything());
    assert_eq!(bench.inside(udp(A, 1, B, 2)), OUT);
    assert_eq!(bench.inside(udp(C, 1, B, 2)), drop::SPOOFED);
    assert_eq!(bench.inside(udp("2001:db8::8", 1, B6, 2)), drop::SPOOFED);
    let mut frame = udp(A, 1, B, 2);
    frame[11] ^= 1;
    assert_eq!(
        bench.inside(frame.clone()),
        drop::SPOOFED,
        "the Ethernet address, of a connection that is known"
    );
    frame[13] = 7;
    assert_eq!(bench.inside(frame), drop::SPOOFED);
    assert_eq!(bench.outside(udp(B, 2, A, 1)), IN);
    assert_eq!(bench.outside(udp(B, 2, C, 1)), drop::MISADDRESSED);
    assert_eq!(bench.outside(udp(B, 1, "224.0.0.251", 5353)), IN);
    assert_eq!(bench.outside(udp(B, 1, "192.0.2.255", 5353)), IN, "broadcast");
    assert_eq!(bench.outside(udp(B6, 1, "ff02::fb", 5353)), IN);
    assert_eq!(bench.inside(udp("224.0.0.251", 5353, B, 1)), drop::SPOOFED, "what is for many opens nothing");
    let mut bench = Bench::of(vec![to_port("in", "udp", 5353)]);
    assert_eq!(bench.outside(udp(B, 1, "224.0.0.251", 5353)), IN);
    assert_eq!(bench.outside(udp(B, 1, "224.0.0.251", 5354)), drop::DENIED);
}

#[test]
fn a_rule_that_goes_ends_what_it_alone_allowed() {
    let from_b = || rule("in", &[remote("198.51.100.7/32")]);
    let mut bench = Bench::of(vec![to_port("in", "tcp", 443), to_port("in", "udp", 53), from_b()]);
    open(&mut bench, 1000);
    assert_eq!(bench.outside(udp(C, 9, A, 53)), IN);
    // Another rule allows the first connection too.
    let mut bench = bench.change(&[("tenant", vec![to_port("in", "udp", 53), from_b()])]);
    assert!(lives(&mut bench, 1000));
    assert_eq!(bench.inside(udp(A, 53, C, 9)), OUT);
    // A rule that comes breaks nothing, and neither does an order.
    let mut bench = bench.change(&[("tenant", vec![https().remove(0), from_b(), to_port("in", "udp", 53)])]);
    assert!(lives(&mut bench, 1000));
    assert_eq!(bench.inside(udp(A, 53, C, 9)), OUT);
    let mut bench = bench.change(&[("tenant", vec![to_port("in", "udp", 53)])]);
    assert!(!lives(&mut bench, 1000), "nothing allows it any more");
    assert_eq!(bench.inside(udp(A, 53, C, 9)), OUT, "and no other ends");
    // A layer that comes is asked too.
    let mut bench = bench.change(&[("administrator", vec![]), ("tenant", vec![to_port("in", "udp", 53)])]);
    assert_eq!(bench.inside(udp(A, 53, C, 9)), drop::DENIED);
}

#[test]
fn fragments_and_errors_follow_what_is_allowed() {
    let mut bench = Bench::of(vec![to_port("out", "udp", 53)]);
    let fragment = |source: &str, destination: &str, offset: u16, more: bool| {
        let mut frame = udp(source, 4000, destination, 53);
        frame[20..22].copy_from_slice(&((offset / 8) | (u16::from(more) << 13)).to_be_bytes());
        seal(&mut frame);
        frame
    };
    assert_eq!(bench.inside(fragment(C, B, 24, false)), drop::SPOOFED, "it does not wait");
    assert_eq!(bench.outside(fragment(B, C, 24, false)), drop::MISADDRESSED);
    assert_eq!(bench.inside(fragment(A, B, 24, false)), Verdict::Hold(0), "before the first");
    assert_eq!(bench.inside(fragment(A, B, 0, true)), OUT);
    let given_up: Vec<Verdict> = bench.runner.host().emitted().iter().map(|packet| packet.verdict).collect();
    assert_eq!(given_up, [OUT], "it waited for the first");
    assert_eq!(bench.inside(fragment(A, B, 8, false)), drop::FRAGMENT, "it overlaps the first");
    assert_eq!(bench.inside(fragment(A, B, 24, false)), OUT);
    assert_eq!(bench.inside(fragment(C, B, 24, false)), drop::SPOOFED);
    let question = udp(A, 4000, B, 53);
    assert_eq!(bench.outside(icmp(C, A, [3, 3], [0; 4], &question[14..])), IN);
    assert_eq!(bench.outside(icmp(C, A, [3, 3], [0; 4], &udp(A, 4001, B, 53)[14..])), drop::NO_FLOW);
    assert_eq!(bench.outside(packet(C, A, 47, &[0; 8])), drop::DENIED);
    assert_eq!(bench.outside(vec![0; 13]), drop::MALFORMED);
}

#[test]
fn addresses_of_the_device_are_followed() {
    let everything = config(&[("tenant", vec![rule("out", &[])])], false);
    let mut bench = Bench { runner: Runner::new(&everything).expect("good"), now: 0.0 };
    assert_eq!(bench.inside(udp(A, 1, B, 2)), drop::SPOOFED, "no address is known");
    let mac = [2, 0, 0, 0, 0, 2];
    let device = |addresses: &[&str]| {
        let link = DeviceEntry::Interface { interface: 1, is_up: true, mac, mtu: 1500 };
        let own = addresses.iter().map(|address| DeviceEntry::Address {
            interface: 1,
            address: address.parse().expect("an address"),
            prefix: 24,
        });
        std::iter::once(link).chain(own).collect::<Vec<_>>()
    };
    bench.runner.set_devices(&device(&[A]), super::frames::at(0.0));
    assert_eq!(bench.inside(udp(A, 1, B, 2)), OUT);
    assert_eq!(bench.outside(udp(B, 2, A, 1)), IN);
    let mut other = udp(A, 1, B, 2);
    other[6] = 6;
    assert_eq!(bench.inside(other), drop::SPOOFED, "its MAC address");
    bench.runner.set_devices(&device(&[C]), super::frames::at(0.0));
    assert_eq!(bench.inside(udp(A, 1, B, 2)), drop::SPOOFED, "even of a connection that is known");
    assert_eq!(bench.outside(udp(B, 2, A, 1)), drop::MISADDRESSED);
    assert_eq!(bench.inside(udp(C, 1, B, 2)), OUT);
}

/// What the platform tells of the device, which has its address, and of what members of groups learned, by
/// list.
fn told(bench: &mut Bench, members: &[(u32, &str)]) {
    let ip = |text: &str| text.parse().expect("an address");
    let link = DeviceEntry::Interface { interface: 1, is_up: true, mac: [2, 0, 0, 0, 0, 2], mtu: 1500 };
    let own = DeviceEntry::Address { interface: 1, address: ip(A), prefix: 24 };
    let members =
        members.iter().map(|(list, address)| DeviceEntry::Member { list: *list, address: ip(address) });
    let entries: Vec<DeviceEntry> = [link, own].into_iter().chain(members).collect();
    bench.runner.set_devices(&entries, super::frames::at(bench.now));
}

fn of_members(direction: &str, list: u32) -> nf_sdk::native::ConfigValue {
    rule(direction, &[("members", nf_sdk::native::ConfigValue::Integer(i64::from(list)))])
}

#[test]
fn what_members_learned_counts_from_then_on() {
    let mut bench = Bench::of(vec![of_members("in", 7), of_members("out", 8), to_port("in", "udp", 53)]);
    assert_eq!(bench.outside(there(1000, flags::SYN, 100, 0)), drop::DENIED, "nothing is learned yet");
    told(&mut bench, &[(8, B), (9, B)]);
    assert_eq!(bench.outside(there(1000, flags::SYN, 100, 0)), drop::DENIED, "on another list");
    assert_eq!(bench.inside(udp(A, 1, B, 2)), OUT);
    assert_eq!(bench.inside(udp(A, 1, C, 2)), drop::DENIED);
    told(&mut bench, &[(7, B), (7, B6), (8, B)]);
    open(&mut bench, 1000);
    assert_eq!(bench.outside(udp(B6, 9, A6, 9)), IN);
    assert_eq!(bench.outside(udp("2001:db8:1::8", 9, A6, 9)), drop::DENIED);
    assert_eq!(bench.outside(udp(C, 9, A, 9)), drop::DENIED);
    let report = bench.report();
    let members = &report["tenant"]["members"];
    assert_eq!((&members[0]["addresses"], &members[0]["hits"]), (&2.into(), &2.into()), "{report}");
    assert_eq!((&members[1]["addresses"], &members[1]["hits"]), (&1.into(), &1.into()), "{report}");
    assert_eq!(report["tenant"]["default"]["hits"], 5, "a member's rule decided, not the default");
}

#[test]
fn what_a_member_has_no_more_ends_what_it_alone_allowed() {
    let mut bench = Bench::of(vec![of_members("in", 7), to_port("in", "udp", 53), of_members("out", 7)]);
    told(&mut bench, &[(7, B), (7, C), (7, B6)]);
    open(&mut bench, 1000);
    assert_eq!(bench.outside(udp(B, 9, A, 53)), IN);
    assert_eq!(bench.outside(tcp([(C, 1000), (A, 443)], flags::SYN, 100, 0, 0)), IN);
    assert_eq!(bench.outside(udp(B6, 9, A6, 9)), IN);
    told(&mut bench, &[(7, C)]);
    assert!(!lives(&mut bench, 1000));
    assert_eq!(bench.inside(udp(A, 53, B, 9)), OUT, "another rule allows it too");
    let answer = flags::SYN | flags::ACK;
    assert_eq!(bench.inside(tcp([(A, 443), (C, 1000)], answer, 500, 101, 0)), OUT, "another member's");
    assert_eq!(bench.inside(udp(A6, 9, B6, 9)), drop::DENIED);
    assert_eq!(bench.report()["flows"]["expired"], 2);
    // Back again, it begins anew.
    told(&mut bench, &[(7, C), (7, B)]);
    assert!(!lives(&mut bench, 1000));
    open(&mut bench, 1001);
}

#[test]
fn connections_of_members_are_taken_over() {
    let rules = || vec![of_members("in", 7)];
    let mut bench = Bench::of(rules());
    told(&mut bench, &[(7, B), (8, C)]);
    open(&mut bench, 1000);
    // The next instance is told of the devices after it has taken over.
    let mut bench = bench.change(&[("tenant", rules())]);
    told(&mut bench, &[(7, B), (8, C)]);
    assert!(lives(&mut bench, 1000));
    // What went meanwhile is found out then.
    let mut bench = bench.change(&[("tenant", rules())]);
    told(&mut bench, &[(8, C)]);
    assert!(!lives(&mut bench, 1000));
    // An instance with other rules has nothing for the list.
    told(&mut bench, &[(7, B)]);
    open(&mut bench, 1001);
    let mut bench = bench.change(&[("tenant", vec![of_members("in", 8)])]);
    told(&mut bench, &[(7, B), (8, C)]);
    assert!(!lives(&mut bench, 1001));
}

#[test]
fn members_that_cannot_be_are_not_taken_over() {
    let entry = |key: &[u8], value: &[u8]| {
        let lengths = [key.len() as u32, value.len() as u32].map(u32::to_le_bytes).concat();
        [&lengths[..], key, value].concat()
    };
    let mut bench = Bench::of(vec![of_members("in", 7)]);
    for state in [entry(&[5, 7, 0, 0], &[1; 4]), entry(&[5, 7, 0, 0, 0], &[1; 5]), entry(&[5; 6], &[1; 4])] {
        assert!(!bench.runner.import_state(&state), "{state:?}");
    }
    let [a, b, c, d] = [198, 51, 100, 7];
    assert!(bench.runner.import_state(&entry(&[5, 7, 0, 0, 0], &[a, b, c, d])));
    open(&mut bench, 1000);
    let both = rule("in", &[remote("0.0.0.0/0"), ("members", nf_sdk::native::ConfigValue::Integer(7))]);
    let config = config(&[("tenant", vec![both])], true);
    let refused = Runner::<crate::SecurityGroups>::new(&config).err().expect("both name the other end");
    assert!(format!("{refused}").contains("`members` and `remote`"), "{refused}");
}
