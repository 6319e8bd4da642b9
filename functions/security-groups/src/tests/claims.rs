//! Addresses that the opener forms: what is told of them, and what is not.

use super::frames::{A, A6, B6, Bench, LINK_LOCAL, MAC, OUT, at, discovery, drop, rule};
use super::link::solicitation;
use nf_sdk::devices::DeviceEntry;
use nf_sdk::native::ConfigValue;
use nf_sdk::native::frames::udp;
use std::net::IpAddr;

/// In the network in which the opener may form addresses, and not.
const FORMED: &str = "2001:db8:7::5";
const OUTSIDE: &str = "2001:db8:8::5";

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// A guard that lets everything pass that is honest.
fn forming() -> Bench {
    let network = ConfigValue::Prefix(ip("2001:db8:7::"), 64);
    Bench::new(&[("slaac", vec![network]), ("tenant", vec![rule("in", &[]), rule("out", &[])])])
}

/// The platform tells that these are the device's addresses.
fn told(bench: &mut Bench, addresses: &[&str]) {
    let link = DeviceEntry::Interface { interface: 1, is_up: true, mac: MAC, mtu: 1500 };
    let own = |address: &&str| {
        let address = ip(address);
        DeviceEntry::Address { interface: 1, address, prefix: if address.is_ipv4() { 24 } else { 64 } }
    };
    let entries: Vec<DeviceEntry> = std::iter::once(link).chain(addresses.iter().map(own)).collect();
    bench.runner.set_devices(&entries, at(bench.now));
}

/// What the platform has been told of.
fn claimed(bench: &Bench) -> Vec<(u16, IpAddr)> {
    bench.runner.host().asks().to_vec()
}

#[test]
fn a_claimed_address_is_told_of_and_used_once_it_is_the_devices() {
    for claim in [
        solicitation(135, "::", FORMED, None),
        solicitation(135, FORMED, B6, Some(MAC)),
        solicitation(136, FORMED, FORMED, Some(MAC)),
    ] {
        let mut bench = forming();
        assert_eq!(bench.inside(claim.clone()), drop::SPOOFED, "it is not the device's yet");
        assert_eq!(claimed(&bench), [(0, ip(FORMED))]);
        assert_eq!(bench.inside(udp(FORMED, 1, B6, 2)), drop::SPOOFED);
        told(&mut bench, &[A, A6, FORMED]);
        assert_eq!(bench.inside(claim), OUT);
        assert_eq!(bench.inside(udp(FORMED, 1, B6, 2)), OUT);
        // It goes: nothing passes that was allowed.
        told(&mut bench, &[A, A6]);
        assert_eq!(bench.inside(udp(FORMED, 1, B6, 2)), drop::SPOOFED);
    }
}

#[test]
fn what_claims_nothing_honestly_is_not_told_of() {
    let mut bench = forming();
    let mut router = vec![134, 0, 0, 0, 64, 0xc0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 3, 4, 64, 0xc0];
    router.extend([
        0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x20, 1, 0x0d, 0xb8, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ]);
    for (frame, why) in [
        (udp(FORMED, 1, B6, 2), "a packet alone"),
        (solicitation(135, "::", OUTSIDE, None), "a probe outside of the network"),
        (solicitation(135, OUTSIDE, FORMED, Some(MAC)), "a question from outside of the network"),
        (solicitation(135, FORMED, B6, Some([4; 6])), "another's MAC address"),
        (solicitation(136, FORMED, "2001:db8:7::6", Some(MAC)), "of another's address"),
        (solicitation(136, "::", FORMED, Some(MAC)), "of none"),
        (solicitation(137, FORMED, FORMED, None), "a redirect"),
        (discovery(LINK_LOCAL, "ff02::1", &router), "a router's advertisement that it made up"),
        (discovery(FORMED, "ff02::1", &router), "the same"),
    ] {
        assert_eq!(bench.inside(frame), drop::SPOOFED, "{why}");
    }
    assert_eq!(bench.inside(discovery(FORMED, "ff02::1", &[135, 0, 0, 0, 0, 0, 0, 0])), drop::SPOOFED);
    // Neither by what comes from outside.
    bench.outside(solicitation(135, "::", FORMED, None));
    bench.outside(solicitation(136, FORMED, FORMED, Some([4; 6])));
    assert_eq!(claimed(&bench), []);
    // Nor by anything, where the opener may form no address.
    let mut bench = Bench::of(vec![]);
    assert_eq!(bench.inside(solicitation(135, "::", FORMED, None)), drop::SPOOFED);
    bench.now = 700.0;
    bench.inside(udp(A6, 1, B6, 2));
    assert_eq!(claimed(&bench), []);
}

#[test]
fn a_flood_of_probes_tells_the_platform_of_a_few() {
    let mut bench = forming();
    let probe =
        |n: u32| solicitation(135, "::", &format!("2001:db8:7::{:x}:{:x}", n >> 16, n & 0xffff), None);
    for n in 0..10_000 {
        assert_eq!(bench.inside(probe(n)), drop::SPOOFED);
    }
    assert_eq!(claimed(&bench).len(), 16);
    for n in 0..10_000 {
        bench.now += 0.001;
        bench.inside(probe(20_000 + n));
    }
    let told_of = claimed(&bench).len();
    assert!((16 + 39..=16 + 40).contains(&told_of), "four in a second: {told_of}");
    // The device's own packets are not kept waiting.
    assert_eq!(bench.inside(udp(A6, 1, B6, 2)), OUT);
}

#[test]
fn addresses_in_use_are_told_of_again() {
    let mut bench = forming();
    let addresses = ["2001:db8:7::5", "2001:db8:7::6", A6];
    told(&mut bench, &addresses);
    assert_eq!(bench.inside(udp(FORMED, 1, B6, 2)), OUT);
    for _ in 0..100 {
        bench.now += 5.0;
        bench.inside(udp(FORMED, 1, B6, 2));
        bench.inside(udp(A6, 1, B6, 2));
    }
    assert_eq!(claimed(&bench), []);
    bench.now = 601.0;
    bench.inside(udp(FORMED, 1, B6, 2));
    assert_eq!(claimed(&bench), [(0, ip(FORMED))]);
    // A question of discovery is use, too.
    bench.inside(solicitation(135, "2001:db8:7::6", B6, Some(MAC)));
    bench.now = 1202.0;
    bench.inside(udp(A6, 1, B6, 2));
    assert_eq!(claimed(&bench)[1..], [(0, ip("2001:db8:7::6"))]);
}
