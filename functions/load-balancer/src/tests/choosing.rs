//! How servers are chosen.

use super::*;
use crate::least::{NEVER, Tournament, load};
use crate::maglev::{LONGEST_WALK, Maglev, Member, name, size};
use crate::services::Services;
use crate::settings::Settings;
use flags::{ACK, SYN};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn members(weights: &[u32]) -> Vec<Member> {
    let member = |(number, weight): (usize, &u32)| {
        let name = name([number as u32 * 77 + 1, 0, 0, 0], 80);
        Member { number: number as u16, name, weight: *weight }
    };
    weights.iter().enumerate().map(member).collect()
}

fn shares(table: &Maglev) -> BTreeMap<u16, usize> {
    table.places().iter().fold(BTreeMap::new(), |mut shares, number| {
        *shares.entry(*number).or_default() += 1;
        shares
    })
}

/// Figure "Pseudocode 1" of the paper, for servers of one weight.
fn of_the_paper(size: usize, members: &[Member]) -> Vec<u16> {
    use nf_sdk::index::finish;
    let permutation = |member: &Member| -> Vec<usize> {
        let offset = finish(member.name, 2, 0) % size as u64;
        let skip = finish(member.name, 3, 0) % (size as u64 - 1) + 1;
        (0..size as u64).map(|j| ((offset + j * skip) % size as u64) as usize).collect()
    };
    let permutations: Vec<Vec<usize>> = members.iter().map(permutation).collect();
    let mut next = vec![0; members.len()];
    let mut entry: Vec<Option<u16>> = vec![None; size];
    let mut n = 0;
    loop {
        for i in 0..members.len() {
            let mut c = permutations[i][next[i]];
            while entry[c].is_some() {
                next[i] += 1;
                c = permutations[i][next[i]];
            }
            entry[c] = Some(members[i].number);
            next[i] += 1;
            n += 1;
            if n == size {
                return entry.into_iter().flatten().collect();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn the_table_is_the_papers(count in 1usize..12) {
        let members = members(&vec![1; count]);
        let table = Maglev::new(1021, &members);
        prop_assert_eq!(table.places(), of_the_paper(1021, &members));
    }

    /// Places are shared out by weight, to within a hundredth of the table; and a server that goes takes few
    /// places of others along.
    #[test]
    fn weights_are_kept_and_few_places_change(weights in prop::collection::vec(0u32..5, 1..20), gone in 0usize..20) {
        let all = members(&weights);
        let size = size(weights.len());
        let table = Maglev::new(size, &all);
        let total: u32 = weights.iter().sum();
        if total == 0 {
            prop_assert_eq!(table.choose(7, |_| true), None);
            return Ok(());
        }
        let shares = shares(&table);
        for (number, weight) in weights.iter().enumerate() {
            let share = shares.get(&(number as u16)).copied().unwrap_or(0) as f64;
            let wanted = size as f64 * f64::from(*weight) / f64::from(total);
            prop_assert!((share - wanted).abs() <= 1.0 + 0.02 * size as f64, "{share} {wanted}");
        }
        let gone = (gone % weights.len()) as u16;
        let left: Vec<Member> = all.iter().copied().filter(|member| member.number != gone).collect();
        let after = Maglev::new(size, &left);
        if !after.places().is_empty() {
            let pairs = || table.places().iter().zip(after.places()).filter(|(before, _)| **before != gone);
            let moved = pairs().filter(|(before, after)| before != after).count();
            prop_assert!(moved * 4 <= pairs().count().max(4), "{moved} of {}", pairs().count());
        }
    }

    #[test]
    fn the_tournament_finds_the_least(steps in prop::collection::vec((0u16..13, prop::option::of(0u64..50)), 0..60)) {
        let mut tournament = Tournament::new(13);
        let mut loads = [NEVER; 13];
        for (number, load) in steps {
            let load = load.unwrap_or(NEVER);
            tournament.set(number, load);
            loads[usize::from(number)] = load;
            let least = *loads.iter().min().expect("13");
            let best = tournament.best();
            prop_assert_eq!(best.map_or(NEVER, |best| loads[usize::from(best)]), least);
            prop_assert_eq!(best.is_none(), least == NEVER);
        }
    }
}

/// However few servers may be chosen, a call looks at few places.
#[test]
fn a_walk_through_the_table_is_bounded() {
    let table = Maglev::new(65_537, &members(&[1; 700]));
    let looks = std::cell::Cell::new(0);
    let none = table.choose(7 << 32, |_| {
        looks.set(looks.get() + 1);
        false
    });
    assert_eq!((none, looks.get()), (None, LONGEST_WALK));
}

/// A table that was made when all were down has no place of any server; until it is made anew, those that are
/// up again get what comes.
#[test]
fn a_server_that_comes_up_is_chosen_before_the_table_is_made_anew() {
    for choose in ["maglev", "least-loaded"] {
        let config = configure(&web(3, &format!(", choose: {choose}")), "").expect("in order");
        let config = nf_sdk::Config::from_cbor(config).expect("in order");
        let settings = Settings::read(&config).unwrap_or_else(|error| panic!("{error}"));
        let mut services = Services::new(settings.services).expect("in order");
        for server in 0..3 {
            services.set_up(server, false);
        }
        assert_eq!((services.by_hash(0, 7 << 40), services.for_new(0, 7 << 40)), (None, None));
        services.refresh();
        assert_eq!(services.by_hash(0, 7 << 40), None);
        services.set_up(1, true);
        services.set_up(1, true);
        assert_eq!((services.by_hash(0, 7 << 40), services.for_new(0, 7 << 40)), (Some(1), Some(1)));
    }
}

#[test]
fn loads_are_by_weight() {
    assert_eq!(load(7, 0), NEVER);
    assert!(load(3, 2) < load(2, 1) && load(2, 2) < load(1, 1) + 1 && load(0, 1) < load(1, 1));
    let mut one = Tournament::new(1);
    assert_eq!(one.best(), None);
    one.set(0, 5);
    assert_eq!(one.best(), Some(0));
}

/// Connections of each server.
fn spread(bench: &mut Bench, count: u32) -> BTreeMap<String, u32> {
    (0..count).fold(BTreeMap::new(), |mut spread, number| {
        let server = bench.server(tcp(&client(number), &end(VIP, 80), SYN));
        *spread.entry(server.0).or_default() += 1;
        spread
    })
}

#[test]
fn maglev_spreads_connections() {
    let spread = spread(&mut Bench::new(&web(10, "")), 4000);
    assert_eq!(spread.len(), 10);
    assert!(spread.values().all(|count| (300..500).contains(count)), "{spread:?}");
}

#[test]
fn least_loaded_is_by_weight_and_follows_what_ends() {
    let config = format!(
        "services: [{{name: web, address: {VIP}, protocol: tcp, ports: '80', choose: least-loaded, servers: [\
         {{address: 10.0.0.1, weight: 3}}, {{address: 10.0.0.2}}, {{address: 10.0.0.3, weight: 0}}]}}]"
    );
    let mut bench = Bench::new(&config);
    let spread = spread(&mut bench, 400);
    assert_eq!(spread, BTreeMap::from([("10.0.0.1".to_owned(), 300), ("10.0.0.2".to_owned(), 100)]));
    // What the second has ends: it gets what comes until both have as many by weight.
    for number in 0..400 {
        bench.runner.run(
            &[TestPacket::new(tcp(&end("10.0.0.2", 80), &client(number), flags::RST | ACK), 1)],
            at(0.0),
        );
    }
    assert_eq!(bench.report()["connections"]["now"], 300);
    let server = bench.server(tcp(&end("203.0.113.9", 5), &end(VIP, 80), SYN));
    assert_eq!(server, end("10.0.0.2", 80));
}

#[test]
fn a_client_keeps_its_server_as_long_as_the_affinity_lasts() {
    let mut bench = Bench::new(&web(10, ", choose: least-loaded, affinity: 60s"));
    let from = |port: u16| end("203.0.113.9", port);
    let first = bench.connect(&from(1000), &end(VIP, 80));
    for port in 1001..1020 {
        assert_eq!(bench.connect(&from(port), &end(VIP, 80)), first);
    }
    assert_ne!(bench.server(tcp(&end("203.0.113.10", 1), &end(VIP, 80), SYN)), first);
    bench.wait(70.0);
    assert_ne!(bench.server(tcp(&from(2000), &end(VIP, 80), SYN)), first);
    // What was never agreed to is not remembered: forged sources push out nothing.
    let other = end("203.0.113.77", 1);
    let server = bench.server(tcp(&other, &end(VIP, 80), SYN));
    let next = bench.server(tcp(&end("203.0.113.77", 2), &end(VIP, 80), SYN));
    assert_ne!(server, next);
}

/// Where answers do not pass nothing shows that a client's address is not forged: none is noted, and a
/// client's connections go together by its address.
#[test]
fn with_direct_forwarding_affinity_is_by_address_and_notes_no_client() {
    for choose in ["maglev", "least-loaded"] {
        let servers: Vec<String> =
            (1..=10).map(|n| format!("{{address: 10.0.0.{n}, mac: 02:00:00:00:00:{n:02}}}")).collect();
        let mut bench = Bench::new(&format!(
            "services: [{{name: web, address: {VIP}, protocol: tcp, ports: '80', forward: direct, affinity: 1h, \
             choose: {choose}, servers: [{}]}}]",
            servers.join(", ")
        ));
        let mac = |bench: &mut Bench, from: &End, flags| -> Vec<u8> {
            let (verdict, bytes) = bench.show(0, tcp(from, &end(VIP, 80), flags));
            assert_eq!(verdict, TO_SERVER);
            bytes[..6].to_vec()
        };
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..30 {
            let address = client(number * 20_000).0;
            let first = mac(&mut bench, &end(&address, 1000), SYN);
            assert_eq!(mac(&mut bench, &end(&address, 1000), ACK), first);
            for port in 1001..1005 {
                assert_eq!(mac(&mut bench, &end(&address, port), SYN), first);
                assert_eq!(mac(&mut bench, &end(&address, port), ACK), first);
            }
            seen.insert(first);
        }
        assert!(seen.len() > 5, "{seen:?}");
        assert_eq!(bench.runner.function().balancer.affinity.iter(0).count(), 0);
    }
}

#[test]
fn a_drained_server_keeps_what_it_has() {
    let mut bench = Bench::new(&web(3, ""));
    let service = end(VIP, 80);
    let servers: Vec<End> = (0..60).map(|number| bench.connect(&client(number), &service)).collect();
    let state = bench.runner.export_state().expect("offered");
    let drained =
        web(3, "").replace("{address: 10.0.0.2, port: 8080}", "{address: 10.0.0.2, port: 8080, weight: 0}");
    let mut after = Bench::new(&drained);
    assert!(after.runner.import_state(&state));
    for (number, server) in (0..60).zip(&servers) {
        assert_eq!(after.server(tcp(&client(number), &service, ACK)), *server);
    }
    assert!(servers.iter().any(|server| server.0 == "10.0.0.2"));
    for number in 100..300 {
        assert_ne!(after.server(tcp(&client(number), &service, SYN)).0, "10.0.0.2");
    }
}
