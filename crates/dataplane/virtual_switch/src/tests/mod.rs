use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

mod concurrent;
mod interleavings;

const SECOND: u64 = 1_000_000_000;
const START: Nanos = Nanos(1_700_000_000 * SECOND);
const BROADCAST: [u8; 6] = [0xff; 6];

fn switch(entries: u32) -> Switch {
    Switch::new(SwitchSettings { entries, secret: Some([7, 11]), ..SwitchSettings::default() }).unwrap()
}

fn with_ports(entries: u32, ports: u16) -> Switch {
    let switch = switch(entries);
    (0..ports).for_each(|n| assert_eq!(switch.attach(), Ok(SwitchPort(n))));
    switch
}

fn station(n: u32) -> [u8; 6] {
    let [a, b, c, d] = n.to_be_bytes();
    [2, 0, a, b, c, d]
}

fn frame(destination: [u8; 6], source: [u8; 6], vlan: u16) -> [u8; HEAD] {
    let mut bytes = [destination, source].concat();
    if vlan != 0 {
        bytes.extend([0x81, 0x00]);
        bytes.extend(vlan.to_be_bytes());
    }
    bytes.extend([0x08, 0x00, 0x45, 0x00]);
    head(&bytes)
}

fn assert_account(switch: &Switch, now: Nanos) {
    switch.sweep(now);
    let counters = switch.counters();
    let there = switch.table(now).count() as u64;
    assert_eq!(counters.learned, there + counters.aged + counters.evicted + counters.flushed, "{counters:?}");
}

#[test]
fn learns_and_forwards() {
    let switch = with_ports(4096, 3);
    let [a, b, c] = [0, 1, 2].map(SwitchPort);
    assert_eq!(switch.decide(a, &frame(station(2), station(1), 0), START), Route::Flood);
    assert_eq!(switch.decide(b, &frame(station(1), station(2), 0), START), Route::To(a));
    assert_eq!(switch.decide(a, &frame(station(2), station(1), 0), START), Route::To(b));
    assert_eq!(switch.decide(c, &frame(BROADCAST, station(3), 0), START), Route::Flood);
    assert_eq!(switch.decide(c, &frame([1, 0, 0x5e, 0, 0, 1], station(3), 0), START), Route::Flood);
    // A station behind the port from which the frame comes has had it.
    assert_eq!(switch.decide(b, &frame(station(2), station(4), 0), START), Route::Filter);
    let counters = switch.counters();
    assert_eq!((counters.learned, counters.flooded, counters.returned, counters.filtered()), (4, 3, 1, 1));
    let mut table: Vec<_> = switch.table(START).map(|e| (e.address, e.vlan, e.port, e.age)).collect();
    table.sort_by_key(|(address, ..)| *address);
    let ports = [a, b, c, b];
    let expected: Vec<_> = (1..=4).zip(ports).map(|(n, port)| (station(n), 0, port, Nanos(0))).collect();
    assert_eq!(table, expected);
}

#[test]
fn a_station_that_moved_is_followed_at_once() {
    let switch = with_ports(4096, 3);
    let [a, b, c] = [0, 1, 2].map(SwitchPort);
    switch.decide(a, &frame(BROADCAST, station(1), 0), START);
    switch.decide(b, &frame(BROADCAST, station(1), 0), START);
    assert_eq!(switch.decide(c, &frame(station(1), station(2), 0), START), Route::To(b));
    assert_eq!((switch.counters().learned, switch.counters().moved), (2, 1));
}

#[test]
fn vlans_are_apart_and_priorities_are_none() {
    let switch = with_ports(4096, 2);
    let [a, b] = [0, 1].map(SwitchPort);
    switch.decide(a, &frame(BROADCAST, station(1), 5), START);
    assert_eq!(switch.decide(b, &frame(station(1), station(2), 0), START), Route::Flood);
    assert_eq!(switch.decide(b, &frame(station(1), station(2), 6), START), Route::Flood);
    // Priority 7 and drop eligible, VLAN 5.
    assert_eq!(switch.decide(b, &frame(station(1), station(2), 0xf005), START), Route::To(a));
    switch.decide(a, &frame(BROADCAST, station(3), 0xe000), START);
    assert_eq!(switch.decide(b, &frame(station(3), station(2), 0), START), Route::To(a));
    let mut service = frame(station(1), station(2), 5);
    service[12..14].copy_from_slice(&[0x88, 0xa8]);
    assert_eq!(switch.decide(b, &service, START), Route::To(a));
    assert_eq!(switch.table(START).filter(|entry| entry.vlan == 5).count(), 2);
}

#[test]
fn frames_without_a_stations_source_are_filtered_and_teach_nothing() {
    let switch = with_ports(4096, 1);
    for source in [BROADCAST, [1, 2, 3, 4, 5, 6], [0; 6]] {
        assert_eq!(switch.decide(SwitchPort(0), &frame(station(1), source, 0), START), Route::Filter);
    }
    let whole = frame(BROADCAST, station(1), 0);
    for length in 0..14 {
        assert_eq!(switch.decide(SwitchPort(0), &head(&whole[..length]), START), Route::Filter);
    }
    assert_eq!((switch.counters().no_source, switch.table(START).count()), (17, 0));
    assert_eq!(switch.decide(SwitchPort(0), &head(&whole[..14]), START), Route::Flood);
}

#[test]
fn reserved_addresses_are_not_forwarded() {
    let switch = with_ports(4096, 1);
    for last in 0..=255 {
        let route = switch.decide(SwitchPort(0), &frame([1, 0x80, 0xc2, 0, 0, last], station(1), 0), START);
        assert_eq!(route, if last < 16 { Route::Filter } else { Route::Flood }, "{last}");
    }
    assert_eq!((switch.counters().reserved, switch.counters().learned), (16, 1));
}

#[test]
fn what_is_not_heard_of_is_forgotten() {
    let switch = with_ports(4096, 2);
    let [a, b] = [0, 1].map(SwitchPort);
    let at = |seconds: u64| Nanos(START.0 + seconds * SECOND);
    switch.decide(a, &frame(BROADCAST, station(1), 0), START);
    // Heard of again: from here on.
    switch.decide(a, &frame(BROADCAST, station(1), 0), at(200));
    assert_eq!(switch.decide(b, &frame(station(1), station(2), 0), at(499)), Route::To(a));
    assert_eq!(switch.table(at(499)).find(|e| e.port == a).unwrap().age.0 / SECOND, 299);
    assert_eq!(switch.decide(b, &frame(station(1), station(2), 0), at(501)), Route::Flood);
    assert_eq!((switch.table(at(501)).count(), switch.counters().aged), (1, 0));
    switch.sweep(at(501));
    assert_eq!(switch.counters().aged, 1);
    // One that comes back after its time is learned anew, wherever it is.
    assert_eq!(switch.decide(a, &frame(BROADCAST, station(2), 0), at(900)), Route::Flood);
    let counters = switch.counters();
    assert_eq!((counters.learned, counters.aged, counters.moved), (3, 2, 0));
    assert_account(&switch, at(900));
}

#[test]
fn times_that_run_backward_do_no_harm() {
    let switch = with_ports(8, 2);
    for now in [START, Nanos(0), Nanos::MAX, Nanos(0), START] {
        switch.decide(SwitchPort(0), &frame(BROADCAST, station(1), 0), now);
        switch.decide(SwitchPort(1), &frame(BROADCAST, station(1), 0), now);
    }
    assert_account(&switch, START);
}

#[test]
fn a_detached_port_is_forgotten_and_its_number_given_again() {
    let switch = with_ports(4096, 70);
    let ports: Vec<u16> = switch.ports().map(|port| port.0).collect();
    assert_eq!(ports, (0..70).collect::<Vec<_>>());
    let (gone, left) = (SwitchPort(65), SwitchPort(3));
    for n in 0..100 {
        switch.decide(gone, &frame(BROADCAST, station(n), 0), START);
        switch.decide(left, &frame(BROADCAST, station(1000 + n), 0), START);
    }
    switch.detach(gone);
    switch.detach(gone);
    assert_eq!((switch.table(START).count(), switch.counters().flushed), (100, 100));
    assert_eq!(switch.ports().count(), 69);
    // What it still sends is forwarded and teaches nothing.
    assert_eq!(switch.decide(gone, &frame(station(1000), station(1), 0), START), Route::To(left));
    assert_eq!(switch.table(START).count(), 100);
    assert_eq!(switch.attach(), Ok(gone));
    switch.decide(gone, &frame(BROADCAST, station(1), 0), START);
    assert_eq!(switch.table(START).count(), 101);
    assert_account(&switch, START);
}

#[test]
fn there_are_as_many_ports_as_numbers() {
    let switch = with_ports(8, u16::MAX);
    assert_eq!(switch.attach(), Ok(SwitchPort(u16::MAX)));
    assert_eq!(switch.attach(), Err(NoPortLeft));
    switch.decide(SwitchPort(u16::MAX), &frame(BROADCAST, station(1), 0), START);
    let route = switch.decide(SwitchPort(0), &frame(station(1), station(2), 0), START);
    assert_eq!(route, Route::To(SwitchPort(u16::MAX)));
    switch.detach(SwitchPort(u16::MAX));
    assert_eq!(switch.attach(), Ok(SwitchPort(u16::MAX)));
}

#[test]
fn settings_out_of_bounds_are_refused_in_words() {
    let words = |settings| Switch::new(settings).unwrap_err().to_string();
    for entries in [0, 4, 12, 4095, 1 << 17] {
        let error = words(SwitchSettings { entries, ..SwitchSettings::default() });
        assert_eq!(error, format!("entries: found {entries}; allowed: a power of two from 8 to 65536"));
    }
    for age in [Nanos(0), Nanos(MIN_AGE.0 - 1), Nanos(MAX_AGE.0 + 1), Nanos::MAX] {
        let error = words(SwitchSettings { age, ..SwitchSettings::default() });
        assert_eq!(error, format!("age: found {} ns; allowed: 1 s to 1000000 s", age.0));
    }
    for entries in [8, MAX_ENTRIES] {
        assert!(Switch::new(SwitchSettings { entries, ..SwitchSettings::default() }).is_ok());
    }
}

#[test]
fn secrets_differ_between_switches() {
    let secrets: std::collections::HashSet<_> =
        (0..8).map(|_| Switch::new(SwitchSettings::default()).unwrap().table.secret()).collect();
    assert_eq!(secrets.len(), 8);
}

#[test]
fn a_full_set_gives_up_its_oldest() {
    // One set: eight entries. No port has half of it.
    let switch = with_ports(8, 9);
    let at = |n: u16| Nanos(START.0 + u64::from(n) * SECOND);
    for n in 0..8 {
        switch.decide(SwitchPort(n), &frame(BROADCAST, station(n.into()), 0), at(n));
    }
    // The first is heard of again, so that the second is the oldest.
    switch.decide(SwitchPort(0), &frame(BROADCAST, station(0), 0), at(8));
    switch.decide(SwitchPort(8), &frame(BROADCAST, station(8), 0), at(9));
    let known = |n| switch.decide(SwitchPort(8), &frame(station(n), station(8), 0), at(10));
    assert_eq!(
        (known(0), known(1), known(2)),
        (Route::To(SwitchPort(0)), Route::Flood, Route::To(SwitchPort(2)))
    );
    assert_eq!((switch.counters().evicted, switch.table(at(10)).count()), (1, 8));
    // One that has aged goes before: only the second to the seventh are so old.
    switch.decide(SwitchPort(1), &frame(BROADCAST, station(9), 0), at(308));
    assert_eq!((switch.counters().evicted, switch.counters().aged), (1, 1));
    assert_account(&switch, at(308));
}

#[test]
fn a_station_that_makes_up_addresses_evicts_its_own() {
    let switch = with_ports(4096, 3);
    let [honest, attacker, other] = [0, 1, 2].map(SwitchPort);
    // An eighth of the table: hardly a set has more than four of these, which is what others leave it.
    let stations = 0..512;
    for n in stations.clone() {
        switch.decide(honest, &frame(BROADCAST, station(n), 0), START);
    }
    for n in 0..100_000 {
        let now = Nanos(START.0 + u64::from(n) * 1_000_000);
        switch.decide(attacker, &frame(BROADCAST, station(0x1000_0000 + n), 0), now);
    }
    let now = Nanos(START.0 + 101 * SECOND);
    let lost = stations
        .filter(|n| switch.decide(other, &frame(station(*n), station(999_999), 0), now) != Route::To(honest))
        .count();
    assert!(lost <= 5, "{lost} of 512");
    let mine = switch.table(now).filter(|entry| entry.port == attacker).count();
    assert!((2048..=3584).contains(&mine), "{mine}");
    assert_account(&switch, now);
}

#[test]
fn stations_that_make_up_addresses_together_evict_their_own() {
    let switch = with_ports(4096, 4);
    let (honest, other) = (SwitchPort(0), SwitchPort(3));
    // Hardly a set has more than two of these, which is what two others leave it.
    let stations = 0..128;
    for n in stations.clone() {
        switch.decide(honest, &frame(BROADCAST, station(n), 0), START);
    }
    for n in 0..100_000u32 {
        let now = Nanos(START.0 + u64::from(n) * 1_000_000);
        let attacker = SwitchPort(1 + (n % 2) as u16);
        switch.decide(attacker, &frame(BROADCAST, station(0x1000_0000 + n), 0), now);
    }
    let now = Nanos(START.0 + 101 * SECOND);
    let lost = stations
        .filter(|n| switch.decide(other, &frame(station(*n), station(999_999), 0), now) != Route::To(honest))
        .count();
    assert!(lost <= 5, "{lost} of 128");
    // A port that comes to a full set gets its part of it.
    for n in 0..64 {
        switch.decide(other, &frame(BROADCAST, station(5_000 + n), 0), now);
    }
    let known = (0..64).filter(|n| {
        let to = frame(station(5_000 + n), station(999_999), 0);
        switch.decide(honest, &to, now) == Route::To(other)
    });
    // Few sets are asked for more than that.
    assert!(known.count() >= 60);
    assert_account(&switch, now);
}

#[test]
fn a_table_holds_what_it_says() {
    let switch = with_ports(4096, 64);
    for n in 0..2048 {
        switch.decide(SwitchPort((n % 64) as u16), &frame(BROADCAST, station(n), 0), START);
    }
    // Half of the entries, by chance: few sets are asked for more than they have.
    assert!(switch.counters().evicted < 40, "{:?}", switch.counters());
}

/// What a switch is to do, without bounds and without batches.
#[derive(Default)]
struct Model {
    stations: HashMap<(u16, [u8; 6]), (SwitchPort, Nanos)>,
}

impl Model {
    /// All routes that are right: within a second before its age an address may be forgotten or not.
    fn decide(&mut self, from: SwitchPort, head: &[u8; HEAD], now: Nanos) -> Vec<Route> {
        let address = |at: usize| <[u8; 6]>::try_from(&head[at..at + 6]).unwrap();
        let tagged = matches!(head[12..14], [0x81, 0x00] | [0x88, 0xa8]);
        let vlan = if tagged { u16::from_be_bytes([head[14], head[15]]) % 4096 } else { 0 };
        let (destination, source) = (address(0), address(6));
        if source[0] % 2 == 1 || source == [0; 6] {
            return vec![Route::Filter];
        }
        self.stations.insert((vlan, source), (from, now));
        if destination[..5] == [1, 0x80, 0xc2, 0, 0] && destination[5] < 16 {
            return vec![Route::Filter];
        }
        let known = self.stations.get(&(vlan, destination)).filter(|_| destination[0] % 2 == 0);
        let Some((port, heard)) = known else { return vec![Route::Flood] };
        let age = now.since(*heard).0;
        let route = if *port == from { Route::Filter } else { Route::To(*port) };
        let limits = (300 * SECOND - SECOND - (1 << 21), 300 * SECOND + (1 << 21));
        match age {
            age if age < limits.0 => vec![route],
            age if age > limits.1 => vec![Route::Flood],
            _ => vec![route, Route::Flood],
        }
    }
}

prop_compose! {
    /// Few stations, groups among them, so that they meet.
    fn address()(kind in 0u8..20, n in 0u32..12, last in 0u8..32) -> [u8; 6] {
        match kind {
            0 => BROADCAST,
            1 => [1, 0x80, 0xc2, 0, 0, last],
            2 => [0; 6],
            3 => [0x33, 0x33, 0, 0, 0, last],
            _ => station(n),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Frame { port: u16, destination: [u8; 6], source: [u8; 6], vlan: u16 },
    Wait(u64),
    Detach(u16),
    Sweep,
}

fn step() -> impl Strategy<Value = Step> {
    let frame = (0u16..4, address(), address(), prop::sample::select(vec![0, 0, 0, 1, 0x1001, 0xfff]));
    prop_oneof![
        20 => frame.prop_map(|(port, destination, source, vlan)| Step::Frame { port, destination, source, vlan }),
        3 => prop_oneof![0..SECOND, 0..150 * SECOND, 290 * SECOND..310 * SECOND].prop_map(Step::Wait),
        1 => (0u16..4).prop_map(Step::Detach),
        1 => Just(Step::Sweep),
    ]
}

proptest! {
    #[test]
    fn agrees_with_a_simple_model(steps in prop::collection::vec(step(), 1..200)) {
        let switch = with_ports(4096, 4);
        let mut model = Model::default();
        let mut now = START;
        for step in steps {
            match step {
                Step::Frame { port, destination, source, vlan } => {
                    let head = frame(destination, source, vlan);
                    let route = switch.decide(SwitchPort(port), &head, now);
                    let right = model.decide(SwitchPort(port), &head, now);
                    prop_assert!(right.contains(&route), "{route:?}, not of {right:?}");
                }
                Step::Wait(span) => now = now.saturating_add(Nanos(span)),
                Step::Detach(port) => {
                    switch.detach(SwitchPort(port));
                    prop_assert_eq!(switch.attach(), Ok(SwitchPort(port)));
                    model.stations.retain(|_, (at, _)| at.0 != port);
                }
                Step::Sweep => switch.sweep(now),
            }
        }
        prop_assert_eq!(switch.counters().evicted, 0);
        assert_account(&switch, now);
    }

    /// A table that is far too small knows less than the model, and nothing else.
    #[test]
    fn a_small_table_only_forgets(
        frames in prop::collection::vec((0u16..8, 0u32..40, 0u32..40), 1..300),
    ) {
        let switch = with_ports(8, 8);
        let mut model = Model::default();
        let mut now = START;
        for (port, destination, source) in frames {
            let head = frame(station(destination), station(source), 0);
            let route = switch.decide(SwitchPort(port), &head, now);
            let right = model.decide(SwitchPort(port), &head, now);
            prop_assert!(route == Route::Flood || right.contains(&route), "{route:?}, not of {right:?}");
            now = now.saturating_add(Nanos(1_000_000));
        }
        assert_account(&switch, now);
    }

    #[test]
    fn a_batch_goes_where_its_frames_go(
        batches in prop::collection::vec((0u16..4, prop::collection::vec((address(), address()), 0..20)), 1..20),
        entries in prop::sample::select(vec![8u32, 4096]),
    ) {
        let (one_by_one, at_once) = (with_ports(entries, 4), with_ports(entries, 4));
        for (n, (port, frames)) in batches.into_iter().enumerate() {
            let now = Nanos(START.0 + n as u64 * SECOND);
            let heads: Vec<_> = frames.into_iter().map(|(to, from)| frame(to, from, 0)).collect();
            let expected: Vec<_> =
                heads.iter().map(|head| one_by_one.decide(SwitchPort(port), head, now)).collect();
            let routes: Vec<_> = at_once.decide_batch(SwitchPort(port), heads.into_iter(), now).collect();
            prop_assert_eq!(routes, expected);
        }
        prop_assert_eq!(one_by_one.counters(), at_once.counters());
    }
}

/// Prints what a decision costs: `cargo test --release -p virtual_switch -- --ignored --nocapture cost`.
#[test]
#[ignore = "a measurement, not a test"]
fn cost_of_a_decision() {
    for stations in [2u32, 64, 1024, 4096] {
        let switch = with_ports(4096, 64);
        let port = |n: u32| SwitchPort((n % 64) as u16);
        (0..stations).for_each(|n| _ = switch.decide(port(n), &frame(BROADCAST, station(n), 0), START));
        let pairs: Vec<_> = (0..4096u32)
            .map(|n| (n % stations, (n.wrapping_mul(2_654_435_761) % stations) ^ 1))
            .map(|(from, to)| (port(from), frame(station(to), station(from), 0)))
            .collect();
        let measure = |name: &str, round: &mut dyn FnMut()| {
            let mut costs: Vec<f64> = (0..21)
                .map(|_| {
                    let begin = std::time::Instant::now();
                    (0..32).for_each(|_| round());
                    begin.elapsed().as_nanos() as f64 / (32.0 * pairs.len() as f64)
                })
                .collect();
            costs.sort_by(f64::total_cmp);
            println!(
                "{:6.2} ns ({:.2} to {:.2}) {name}, {stations} stations",
                costs[10], costs[0], costs[20]
            );
        };
        measure("one by one", &mut || {
            for (from, head) in &pairs {
                std::hint::black_box(switch.decide(*from, head, START));
            }
        });
        let mut routes = Vec::with_capacity(32);
        measure("batches of 32 of a flow", &mut || {
            for chunk in pairs.chunks(32) {
                let (from, head) = chunk[0];
                routes.clear();
                let heads = chunk.iter().map(|_| std::hint::black_box(head));
                routes.extend(switch.decide_batch(from, heads, START));
                std::hint::black_box(&routes);
            }
        });
    }
}
