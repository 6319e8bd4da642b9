//! Addresses that openers form: what may become one, for how long, and what attacks come to.

use super::discovery::{advertisement, prefix_option, router, solicitation, states, v6};
use super::*;
use crate::discovery::ALL_NODES;
use crate::{AddressState, Input, Origin, SettingsError, Unformed};
use std::net::Ipv6Addr;

const HOUR: Nanos = Nanos(3_600 * SECOND.0);
/// In which addresses may be formed.
const NETWORK: &str = "2001:db8:7::";
/// What the device forms itself.
const OWN: &str = "2001:db8:7::ff:fe00:1";

fn with_networks(networks: &[&str]) -> Settings {
    let slaac = networks.iter().map(|text| prefix(text)).collect();
    Settings { ipv6: true, slaac, ..settings(OURS, &[]) }
}

/// A device with an advertised network for 30 days, in which its opener may form addresses.
fn advertised() -> Bench {
    let mut bench = Bench::settled(with_networks(&["2001:db8:7::/64"]));
    advertise(&mut bench, NETWORK, 30 * 24 * 3600);
    bench.run(Nanos(10 * SECOND.0));
    bench
}

fn advertise(bench: &mut Bench, network: &str, valid: u32) {
    let frame = router(1800, &[prefix_option(network, (valid, valid))]);
    assert_eq!(bench.input(&frame).0, Input::Taken);
}

fn claim(bench: &mut Bench, address: Ipv6Addr) -> Result<(), Unformed> {
    let outcome = bench.device.claim(address, || false, bench.now);
    bench.device.poll(bench.now);
    outcome
}

fn nth(n: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(v6("2001:db8:7::5000:0").to_bits() + u128::from(n))
}

/// What the device has of openers.
fn formed(bench: &Bench) -> Vec<(IpAddr, AddressState)> {
    let of_opener = states(bench).into_iter().filter(|(_, origin, _)| *origin == Origin::Opener);
    of_opener.map(|(address, _, state)| (address, state)).collect()
}

#[test]
fn an_address_is_probed_for_before_it_is_used() {
    let mut bench = advertised();
    let address = v6("2001:db8:7::5");
    assert_eq!(claim(&mut bench, address), Ok(()));
    assert_eq!(formed(&bench), [(address.into(), AddressState::Tentative)]);
    let question = solicitation(THEIRS, "fe80::2", "2001:db8:7::5");
    assert!(bench.input(&question).1.iter().all(|frame| frame[54] != 136), "no answer yet");
    bench.run(Nanos(3 * SECOND.0));
    assert_eq!(formed(&bench), [(address.into(), AddressState::Valid)]);
    assert!(bench.input(&question).1.iter().any(|frame| frame[54] == 136), "an advertisement");
    // What the device sends itself comes from its own addresses.
    assert_eq!(bench.device.addresses.source_for(ip("2001:db8:7::9")), Some(ip(OWN)));
}

#[test]
fn addresses_outside_of_what_is_allowed_and_advertised_are_none() {
    let mut bench = Bench::settled(with_networks(&["2001:db8:7::/64"]));
    assert_eq!(claim(&mut bench, v6("2001:db8:7::5")), Err(Unformed::NotAdvertised), "no router yet");
    // A router that anyone may have made up, with a network of its own.
    advertise(&mut bench, "2001:db8:66::", 3600);
    assert_eq!(claim(&mut bench, v6("2001:db8:66::5")), Err(Unformed::Network));
    assert_eq!(claim(&mut bench, v6("2001:db8:7::5")), Err(Unformed::NotAdvertised));
    advertise(&mut bench, NETWORK, 3600);
    for outside in
        ["2001:db8:8::5", "fe80::5", "::1", "ff02::1", "2001:db8:7::", "2001:db8:7:0:fdff:ffff:ffff:ff80"]
    {
        assert_eq!(claim(&mut bench, v6(outside)), Err(Unformed::Network), "{outside}");
    }
    // What the device forms itself stays its own.
    assert_eq!(claim(&mut bench, v6(OWN)), Ok(()));
    assert_eq!(formed(&bench), []);
    let taken = bench.device.claim(v6("2001:db8:7::5"), || true, bench.now);
    assert_eq!((taken, formed(&bench)), (Err(Unformed::Taken), vec![]));
}

#[test]
fn a_flood_of_claims_takes_no_more_than_its_places() {
    let mut bench = advertised();
    let outcomes: Vec<_> = (0..1000).map(|n| claim(&mut bench, nth(n))).collect();
    assert!(outcomes[..16].iter().all(Result::is_ok));
    assert!(outcomes[16..].iter().all(|outcome| *outcome == Err(Unformed::Full)));
    bench.run(Nanos(60 * SECOND.0));
    assert_eq!(formed(&bench).len(), 16);
    // The address that is used stays, whatever comes after it; others give way after 20 minutes.
    for round in 1..10 {
        bench.run(Nanos(1_260 * SECOND.0));
        assert_eq!(claim(&mut bench, nth(3)), Ok(()), "{round}");
        for n in 0..100 {
            let _ = claim(&mut bench, nth(1000 * round + n));
        }
        let all = formed(&bench);
        assert_eq!(all.len(), 16, "{round}");
        assert!(all.contains(&(nth(3).into(), AddressState::Valid)), "{round}");
        assert!(!all.iter().any(|(address, _)| *address == IpAddr::V6(nth(0))), "{round}");
    }
    // Nor do they take places of other addresses.
    let more: Vec<String> = (1..=64).map(|n| format!("2001:db8:9::{n:x}/64")).collect();
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let changed =
        Settings { addresses: settings(OURS, &more).addresses, ..with_networks(&["2001:db8:7::/64"]) };
    bench.device.change(changed, bench.now).expect("allowed");
    assert_eq!(states(&bench).iter().filter(|(_, origin, _)| *origin == Origin::Static).count(), 64);
}

#[test]
fn an_address_of_which_nothing_is_seen_goes_and_none_outlives_its_network() {
    let mut bench = advertised();
    for n in [1, 2] {
        assert_eq!(claim(&mut bench, nth(n)), Ok(()));
    }
    for _ in 0..5 {
        bench.run(HOUR);
        assert_eq!(claim(&mut bench, nth(2)), Ok(()));
    }
    assert_eq!(formed(&bench), [(nth(2).into(), AddressState::Valid)]);
    // The router takes the network back, which holds for two hours from then on at least.
    advertise(&mut bench, NETWORK, 60);
    bench.run(HOUR);
    assert_eq!(claim(&mut bench, nth(2)), Ok(()));
    bench.run(Nanos(HOUR.0 + SECOND.0));
    assert_eq!(formed(&bench), []);
    assert_eq!(claim(&mut bench, nth(2)), Err(Unformed::NotAdvertised));
    // The operator does.
    let mut bench = advertised();
    assert_eq!(claim(&mut bench, nth(1)), Ok(()));
    bench.device.change(with_networks(&["2001:db8:8::/64"]), bench.now).expect("allowed");
    assert_eq!(formed(&bench), []);
}

#[test]
fn an_address_that_another_station_answers_for_is_not_used() {
    let mut bench = advertised();
    assert_eq!(claim(&mut bench, nth(1)), Ok(()));
    bench.input(&advertisement(THEIRS, "2001:db8:7::5000:1", ALL_NODES, 0x20));
    assert_eq!(formed(&bench), [(nth(1).into(), AddressState::Duplicate)]);
    bench.run(Nanos(30 * SECOND.0));
    // Claiming it again does not keep it.
    assert_eq!(claim(&mut bench, nth(1)), Ok(()));
    assert_eq!(formed(&bench), [(nth(1).into(), AddressState::Duplicate)]);
    bench.run(Nanos(31 * SECOND.0));
    assert_eq!(formed(&bench), [], "another try may be made after a minute");
    // One that is used is defended, and kept.
    assert_eq!(claim(&mut bench, nth(2)), Ok(()));
    bench.run(Nanos(5 * SECOND.0));
    bench.input(&advertisement(THEIRS, "2001:db8:7::5000:2", ALL_NODES, 0x20));
    assert_eq!(formed(&bench), [(nth(2).into(), AddressState::Valid)]);
    bench.device.disown(nth(2).into());
    bench.device.disown(ip(OWN));
    assert_eq!(formed(&bench), []);
    assert!(states(&bench).iter().any(|(address, ..)| *address == ip(OWN)), "that is the device's own");
}

#[test]
fn networks_are_of_ipv6_and_of_64_bits() {
    let check = |networks: &[&str]| with_networks(networks).check();
    assert_eq!(check(&["2001:db8:7::/64", "2001:db8:8::/64"]), Ok(()));
    for wrong in ["2001:db8:7::/63", "2001:db8:7::1/64", "fe80::/64", "ff02::/64", "192.0.2.0/24"] {
        assert_eq!(check(&[wrong]), Err(SettingsError::Slaac(prefix(wrong))), "{wrong}");
    }
    assert_eq!(check(&["2001:db8:7::/64"; 2]), Err(SettingsError::Twice(ip(NETWORK))));
    let many: Vec<String> = (0..17).map(|n| format!("2001:db8:{n:x}::/64")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(check(&many), Err(SettingsError::TooManyNetworks(17)));
    let deaf = Settings { router_advertisements: false, ..with_networks(&["2001:db8:7::/64"]) };
    assert_eq!(deaf.check(), Err(SettingsError::NoIpv6(ip(NETWORK))));
}
