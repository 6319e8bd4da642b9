use super::dice::Decision;
use super::*;
use crate::generator::{self, GeneratorPort};
use crate::null::{self, NullPort};
use crate::taking::checked;
use crate::testing::{NOW, Particular, assert_particular, packets, pool};
use nf_abi::offload;
use packet_memory::Packet;
use proptest::prelude::*;
use schema::WHOLE;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use telemetry::DropReason;

const PERCENT: u64 = WHOLE / 100;
const MS: u64 = 1_000_000;

fn at(ms: u64) -> Nanos {
    Nanos(NOW.0 + ms * MS)
}

/// What went out, and when.
type Sent = Arc<Mutex<Vec<(Nanos, Vec<u8>)>>>;

/// A port with so many numbered packets, one in each gap of time, that notes what goes out.
struct Numbered {
    next: u32,
    end: u32,
    gap: u64,
    sent: Sent,
    counters: PortCounters,
}

impl Numbered {
    fn new(end: u32) -> (Box<Numbered>, Sent) {
        let sent = Sent::default();
        let port = Numbered { next: 0, end, gap: 0, sent: sent.clone(), counters: PortCounters::default() };
        (Box::new(port), sent)
    }
}

fn numbered(number: u32, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn number_of(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(*bytes.first_chunk().expect("a number"))
}

impl Port for Numbered {
    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        let came = now.since(NOW).0.checked_div(self.gap).map_or(u64::from(self.end), |gaps| gaps + 1);
        let left = came.min(u64::from(self.end)) as usize - self.next as usize;
        for _ in 0..budget.min(left) {
            let Some(mut packet) = pool.allocate() else { break };
            pool.write(&mut packet, &numbered(self.next, 60)).expect("it fits");
            self.counters.ledger.received += 1;
            self.next += 1;
            out.push(packet);
        }
    }

    fn transmit(&mut self, pool: &Pool, now: Nanos, packets: &mut Vec<Packet>) {
        let mut sent = self.sent.lock().expect("not poisoned");
        sent.extend(packets.iter().map(|packet| (now, pool.to_vec(packet))));
        self.counters.deliver(pool, packets);
    }

    fn wake(&self) -> Wake<'_> {
        Wake::default()
    }

    fn status(&self) -> PortStatus {
        if self.next == self.end { PortStatus::Finished } else { PortStatus::Up }
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

fn receiving(receive: Direction) -> Config {
    Config { receive, ..Config::default() }
}

fn detail(port: &FaultPort, name: &str) -> u64 {
    port.details().into_iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("no {name}")).1
}

/// Receives at each of these times, as much as there is; what came, and when.
fn watch(port: &mut FaultPort, pool: &Pool, times: impl IntoIterator<Item = Nanos>) -> Vec<(Nanos, Vec<u8>)> {
    let mut seen = Vec::new();
    for now in times {
        loop {
            let mut out = Vec::new();
            port.receive(pool, now, 32, &mut out);
            if out.is_empty() {
                break;
            }
            assert!(out.len() <= 32, "the budget is kept");
            seen.extend(out.iter().map(|packet| (now, pool.to_vec(packet))));
            pool.free_batch(out);
        }
    }
    seen
}

#[test]
fn settings_come_from_the_schema() {
    let config = |text| Config::from_value(&checked(SCHEMA, text).unwrap()).unwrap();
    assert_eq!(config(""), Config::default());
    let all = "{seed: 7, held: 10, receive: {loss: 1%, delay: 5ms, jitter: 1ms, reorder: 0.5%, reorder_by: 2, \
               duplicate: 0.1%, truncate: 20ppm, bit_flip: 0.01%, rate: 100kpps}, transmit: {loss: 100%}}";
    let receive = Direction {
        loss: PERCENT,
        duplicate: PERCENT / 10,
        truncate: WHOLE / 50_000,
        bit_flip: PERCENT / 100,
        reorder: PERCENT / 2,
        reorder_by: 2,
        delay: Nanos(5 * MS),
        jitter: Nanos(MS),
        rate: Some(100_000),
    };
    let transmit = Direction { loss: WHOLE, ..Direction::default() };
    assert_eq!(config(all), Config { seed: 7, held: 10, receive, transmit });
    for wrong in [
        "{receive: {loss: 101%}}",
        "{receive: {loss: 0.5}}",
        "{held: 0}",
        "{transmit: {rate: 0pps}}",
        "{receive: {reorder_by: 65}}",
        "{loss: 1%}",
    ] {
        assert_eq!(checked(SCHEMA, wrong).unwrap_err().len(), 1, "{wrong}");
    }
}

#[test]
fn without_faults_packets_pass_as_they_are() {
    let pool = pool(64);
    let (inner, sent) = Numbered::new(40);
    let mut port = FaultPort::new(inner, Config::default());
    let seen = watch(&mut port, &pool, [NOW]);
    assert_eq!(seen, (0..40).map(|n| (NOW, numbered(n, 60))).collect::<Vec<_>>());
    let mut out = packets(&pool, [&[1u8; 60][..], &[2; 100]]);
    port.transmit(&pool, NOW, &mut out);
    assert!(out.is_empty());
    assert_eq!(*sent.lock().unwrap(), [(NOW, vec![1; 60]), (NOW, vec![2; 100])]);
    assert!(port.details().iter().all(|(_, count)| *count == 0));
    let ledger = &port.counters().ledger;
    assert_eq!((ledger.received, ledger.delivered, ledger.dropped.total()), (40, 2, 0));
}

#[test]
fn each_fault_happens_as_often_as_it_should() {
    const PACKETS: u64 = 200_000;
    for share in [0, PERCENT / 100, PERCENT, 30 * PERCENT, WHOLE] {
        let config = Direction {
            loss: share,
            duplicate: share,
            truncate: share,
            bit_flip: share,
            reorder: share,
            ..Direction::default()
        };
        let mut dice = Dice::new(1, 0);
        let mut counts = [0u64; 5];
        for _ in 0..PACKETS {
            let Decision { lost, duplicated, cut, flip, overtaken_by, .. } = dice.decide(&config);
            let happened = [lost, duplicated, cut.is_some(), flip.is_some(), overtaken_by > 0];
            counts.iter_mut().zip(happened).for_each(|(count, happened)| *count += u64::from(happened));
        }
        let p = share as f64 / WHOLE as f64;
        let (mean, deviation) = (PACKETS as f64 * p, (PACKETS as f64 * p * (1.0 - p)).sqrt());
        for count in counts {
            // Five standard deviations; the dice are the same at every run.
            assert!((count as f64 - mean).abs() <= 5.0 * deviation, "{count} instead of {mean}");
        }
    }
}

#[test]
fn one_fault_does_not_decide_about_another() {
    const PACKETS: u64 = 200_000;
    let config = Direction { loss: 20 * PERCENT, truncate: 30 * PERCENT, ..Direction::default() };
    let more = Direction { loss: 90 * PERCENT, jitter: Nanos(5), ..config };
    let (mut dice, mut other) = (Dice::new(3, 0), Dice::new(3, 0));
    let mut both = 0;
    for _ in 0..PACKETS {
        let (one, two) = (dice.decide(&config), other.decide(&more));
        assert_eq!((one.cut, one.flip), (two.cut, two.flip), "another loss changes no cut");
        assert!(two.lost || !one.lost, "what is lost at 20% is lost at 90%");
        both += u64::from(one.lost && one.cut.is_some());
    }
    let (mean, deviation) = (PACKETS as f64 * 0.06, (PACKETS as f64 * 0.06 * 0.94).sqrt());
    assert!((both as f64 - mean).abs() <= 5.0 * deviation, "{both} instead of {mean}");
}

#[test]
fn the_two_directions_decide_for_themselves() {
    let half = Direction { loss: 50 * PERCENT, ..Direction::default() };
    let lost = |direction| {
        let mut dice = Dice::new(1, direction);
        (0..64).map(move |_| dice.decide(&half).lost).collect::<Vec<_>>()
    };
    assert_ne!(lost(0), lost(1));
    assert_eq!(lost(0), lost(0));
}

#[test]
fn a_delay_is_waited_for_and_told_to_the_worker() {
    let pool = pool(16);
    let (inner, sent) = Numbered::new(2);
    let delay = Direction { delay: Nanos(5 * MS), ..Direction::default() };
    let mut port = FaultPort::new(inner, Config { receive: delay, transmit: delay, ..Config::default() });
    assert!(watch(&mut port, &pool, [at(0), at(4)]).is_empty());
    assert_eq!((port.wake().at, port.in_flight()), (Some(at(5)), 2));
    assert_eq!(port.status(), PortStatus::Up, "two are still to come");
    let mut out = packets(&pool, [&[1u8; 60][..]]);
    port.transmit(&pool, at(4), &mut out);
    assert!(sent.lock().unwrap().is_empty());
    assert_eq!(watch(&mut port, &pool, [at(5)]).len(), 2);
    assert_eq!(port.wake().at, Some(at(9)));
    assert!(watch(&mut port, &pool, [at(8), at(9)]).is_empty());
    assert_eq!(*sent.lock().unwrap(), [(at(9), vec![1; 60])], "receiving sends what has become due");
    assert_eq!((port.wake().at, port.status()), (None, PortStatus::Finished));
    let mut ledger = port.counters().ledger.clone();
    ledger.generated += 1;
    assert_eq!((ledger.balance(2), pool.available()), (Ok(()), 16), "two are the test's");
}

#[test]
fn what_the_port_says_of_itself_stays_and_what_is_late_wakes_who_waits_for_it() {
    let pool = pool(16);
    let inner = Particular::default();
    let (signals, wants) = (inner.signals.clone(), inner.wants.clone());
    let delay = Direction { delay: Nanos(5 * MS), ..Direction::default() };
    let mut port = FaultPort::new(Box::new(inner), Config { transmit: delay, ..Config::default() });
    assert_particular(&mut port, &signals, &wants);
    port.transmit(&pool, at(0), &mut packets(&pool, [&[1u8; 60][..]]));
    port.signal();
    let before = signals.load(Relaxed);
    assert!(watch(&mut port, &pool, [at(4)]).is_empty() && signals.load(Relaxed) == before);
    assert!(watch(&mut port, &pool, [at(5)]).is_empty() && signals.load(Relaxed) == before + 1);
}

#[test]
fn jitter_reorders_nothing_and_takes_its_whole_range() {
    let pool = pool(512);
    let (mut inner, _) = Numbered::new(400);
    inner.gap = 5 * MS;
    let jitter = Direction { delay: Nanos(5 * MS), jitter: Nanos(10 * MS), ..Direction::default() };
    let mut port = FaultPort::new(inner, receiving(jitter));
    let seen = watch(&mut port, &pool, (0..2100).map(at));
    let seen: Vec<(u64, u32)> =
        seen.iter().map(|(now, bytes)| (now.since(NOW).0 / MS, number_of(bytes))).collect();
    assert_eq!(seen.len(), 400);
    assert!(seen.is_sorted_by_key(|(_, number)| *number));
    let late: Vec<u64> = seen.iter().map(|(ms, number)| ms - u64::from(*number) * 5).collect();
    assert!(late.iter().all(|late| (5..=16).contains(late)), "{late:?}");
    assert!(late.iter().any(|late| *late <= 6) && late.iter().any(|late| *late >= 14), "{late:?}");
}

#[test]
fn a_rate_is_kept_to_the_nanosecond() {
    let pool = pool(1024);
    // 300,000 in a second: 3,333 and a third nanoseconds between two.
    let rate = Direction { rate: Some(300_000), ..Direction::default() };
    let (inner, _) = Numbered::new(901);
    let mut port = FaultPort::new(inner, receiving(rate));
    let mut out = Vec::new();
    // All come at once, and one is given.
    port.receive(&pool, NOW, 1000, &mut out);
    assert_eq!(out.len(), 1);
    let mut times = vec![NOW];
    while let Some(next) = port.wake().at {
        assert!(next > times[times.len() - 1], "two at a time");
        port.receive(&pool, Nanos(next.0 - 1), 1000, &mut out);
        assert_eq!(out.len(), times.len(), "none is early");
        port.receive(&pool, next, 1000, &mut out);
        times.push(next);
        assert_eq!(out.len(), times.len());
    }
    assert_eq!(times.len(), 901);
    assert_eq!(
        times[900].since(NOW),
        Nanos(3 * MS),
        "900 packets take three milliseconds, nothing is rounded away"
    );
    pool.free_batch(out);
}

#[test]
fn what_comes_while_too_many_wait_is_dropped() {
    let pool = pool(64);
    let (inner, _) = Numbered::new(50);
    let delay = Direction { delay: Nanos(MS), ..Direction::default() };
    let mut port = FaultPort::new(inner, Config { held: 10, receive: delay, ..Config::default() });
    assert!(watch(&mut port, &pool, [NOW]).is_empty());
    let mut out = Vec::new();
    port.receive(&pool, NOW, 50, &mut out);
    assert_eq!((out.len(), port.in_flight()), (0, 10));
    assert_eq!(port.counters().ledger.dropped[DropReason::PortFull], 40);
    assert_eq!(detail(&port, "receive_overflowed"), 40);
    let seen = watch(&mut port, &pool, [at(1)]);
    assert_eq!(
        seen.iter().map(|(_, bytes)| number_of(bytes)).collect::<Vec<_>>(),
        (0..10).collect::<Vec<_>>()
    );
}

#[test]
fn overtaking_is_bounded_and_ends() {
    let pool = pool(512);
    let (inner, _) = Numbered::new(300);
    let reorder = Direction { reorder: 10 * PERCENT, reorder_by: 4, ..Direction::default() };
    let mut port = FaultPort::new(inner, receiving(reorder));
    // The last ones find too few to be overtaken by, and go after a while.
    let seen = watch(&mut port, &pool, [at(0), at(9), at(10)]);
    let order: Vec<u32> = seen.iter().map(|(_, bytes)| number_of(bytes)).collect();
    assert_eq!(order.len(), 300);
    let mut overtaken = 0;
    for (place, number) in order.iter().enumerate() {
        let by = order[..place].iter().filter(|before| *before > number).count();
        overtaken += u64::from(by > 0);
        // As many as it waits for, and those that were set aside with it and let go at the same time.
        assert!(by <= 4 + 64, "{number} was overtaken by {by}");
    }
    assert!(overtaken > 10, "{order:?}");
    let counted = detail(&port, "receive_reordered");
    assert!(counted.abs_diff(overtaken) <= 2, "{counted} counted, {overtaken} seen");
    // A single one that no other follows.
    let (inner, _) = Numbered::new(1);
    let always = Direction { reorder: WHOLE, ..Direction::default() };
    let mut port = FaultPort::new(inner, receiving(always));
    assert!(watch(&mut port, &pool, [at(0), at(9)]).is_empty());
    assert_eq!(port.wake().at, Some(at(10)));
    assert_eq!(watch(&mut port, &pool, [at(10)]).len(), 1);
    assert_eq!(detail(&port, "receive_reordered"), 0, "no packet overtook it");
}

#[test]
fn a_duplicate_follows_its_original() {
    let pool = pool(64);
    let (inner, _) = Numbered::new(20);
    let twice = Direction { duplicate: WHOLE, ..Direction::default() };
    let mut port = FaultPort::new(inner, receiving(twice));
    let seen = watch(&mut port, &pool, [NOW]);
    let order: Vec<u32> = seen.iter().map(|(_, bytes)| number_of(bytes)).collect();
    assert_eq!(order, (0..20).flat_map(|n| [n, n]).collect::<Vec<_>>());
    let ledger = &port.counters().ledger;
    assert_eq!((ledger.received, ledger.copied), (20, 20));
    // What marks a packet marks its twin.
    let transmit = Config { transmit: twice, ..Config::default() };
    let mut port = FaultPort::new(Box::new(NullPort::new(null::Config::default())), transmit);
    let mut out = packets(&pool, [&[1u8; 60][..]]);
    out[0].edit(|record| record.mark = 77);
    port.transmit.put(&pool, NOW, out.pop().unwrap());
    port.transmit.take(NOW, 9, &mut out);
    assert_eq!(out.iter().map(|packet| packet.record().mark).collect::<Vec<_>>(), [77, 77]);
    port.transmit(&pool, NOW, &mut out);
    // Those two again twice.
    assert_eq!(port.counters().ledger.delivered, 4);
    // Without a buffer there is no second one.
    let pool = crate::testing::pool(1);
    let mut out = packets(&pool, [&[1u8; 60][..]]);
    port.transmit(&pool, NOW, &mut out);
    assert_eq!((detail(&port, "transmit_not_duplicated"), pool.available()), (1, 1));
}

/// A TCP segment of 200 bytes whose checksum is to be completed, over 4 bytes of headers and payload.
fn partial(pool: &Pool, gso: u8) -> Packet {
    let mut packet = pool.allocate().expect("a buffer");
    let bytes: Vec<u8> = (0..200).map(|n| n as u8 ^ 0x5a).collect();
    pool.write(&mut packet, &bytes).expect("it fits");
    packet.edit(|record| {
        record.offload_flags = offload::NEEDS_CHECKSUM;
        (record.csum_start, record.csum_offset) = (34, 16);
        (record.gso_type, record.gso_size) = (gso, if gso == 0 { 0 } else { 100 });
    });
    packet
}

fn bits(one: &[u8], two: &[u8]) -> u32 {
    assert_eq!(one.len(), two.len());
    one.iter().zip(two).map(|(a, b)| (a ^ b).count_ones()).sum()
}

proptest! {
    #[test]
    fn one_bit_is_flipped_where_the_receiver_finds_out(bit: u64, gso in prop::sample::select(vec![0, offload::GSO_TCPV4])) {
        let pool = pool(4);
        let [mut spoiled, mut whole] = [(), ()].map(|()| partial(&pool, gso));
        prop_assert!(spoil::flip(&pool, &mut spoiled, bit));
        let before = pool.to_vec(&whole);
        let after = pool.to_vec(&spoiled);
        if gso == 0 {
            // Of the finished packet one bit is wrong, and no later step will finish it again.
            prop_assert!(virtio_net::complete_checksum(&pool, &mut whole));
            prop_assert_eq!(bits(&pool.to_vec(&whole), &after), 1);
            prop_assert_eq!(spoiled.record().offload_flags, 0);
        } else {
            prop_assert_eq!(bits(&before, &after), 1);
            prop_assert_eq!(bits(&before[50..52], &after[50..52]), 1);
            prop_assert_eq!(spoiled.record().gso_type, gso);
        }
        pool.free_batch([spoiled, whole]);
    }

    #[test]
    fn a_cut_packet_says_nothing_of_what_it_lost(place: u32, length in 0usize..300) {
        let pool = pool(4);
        let mut packet = partial(&pool, offload::GSO_TCPV4);
        pool.set_length(&mut packet, length).expect("it fits");
        let cut = spoil::cut(&pool, &mut packet, place);
        prop_assert_eq!(cut, length > 14);
        if cut {
            let left = packet.length() as usize;
            prop_assert!((14..length).contains(&left));
            prop_assert_eq!((packet.record().gso_type, packet.record().gso_size), (0, 0));
            let complete = packet.record().offload_flags & offload::NEEDS_CHECKSUM == 0;
            prop_assert_eq!(complete, left < 52, "the checksum stands at 50");
        }
        pool.free(packet);
    }
}

fn direction() -> impl Strategy<Value = Direction> {
    let share = || prop_oneof![Just(0), Just(WHOLE), 0..WHOLE];
    let shares = (share(), share(), share(), share(), share(), 0u32..70);
    let times = (0..20 * MS, 0..20 * MS, prop::option::of(1u64..2_000_000));
    (shares, times).prop_map(
        |((loss, duplicate, truncate, bit_flip, reorder, reorder_by), (delay, jitter, rate))| Direction {
            loss,
            duplicate,
            truncate,
            bit_flip,
            reorder,
            reorder_by,
            delay: Nanos(delay),
            jitter: Nanos(jitter),
            rate,
        },
    )
}

fn config() -> impl Strategy<Value = Config> {
    let held = prop_oneof![1u32..100, Just(4096)];
    (any::<u64>(), held, direction(), direction()).prop_map(|(seed, held, receive, transmit)| Config {
        seed,
        held,
        receive,
        transmit,
    })
}

proptest! {
    /// Whatever is asked for and however time goes by: every packet and every buffer is somewhere.
    #[test]
    fn nothing_is_lost_without_a_reason(
        config in config(),
        steps in prop::collection::vec((0..10 * MS, 0usize..64, 0usize..64), 1..40),
    ) {
        let pool = pool(300);
        let flows = generator::Config { count: Some(1500), ..generator::Config::default() };
        let generator = GeneratorPort::new(flows).expect("sound settings");
        let mut port = FaultPort::new(Box::new(generator), config.clone());
        let (mut now, mut held) = (NOW, Vec::new());
        for (time, budget, back) in steps {
            now.0 += time;
            let before = held.len();
            port.receive(&pool, now, budget, &mut held);
            prop_assert!(held.len() - before <= budget);
            assert_conserved(&port, &pool, held.len());
            let mut out: Vec<Packet> = held.drain(..back.min(held.len())).collect();
            port.transmit(&pool, now, &mut out);
            prop_assert!(out.is_empty());
            assert_conserved(&port, &pool, held.len());
            prop_assert!(port.in_flight() <= 2 * u64::from(config.held));
        }
        port.close(&pool).expect("nothing to write");
        prop_assert_eq!(port.in_flight(), 0);
        assert_conserved(&port, &pool, held.len());
        pool.free_batch(held);
        prop_assert_eq!(pool.available(), 300);
    }

    /// The same seed and packets: the same again, whenever the worker looks.
    #[test]
    fn the_same_seed_decides_the_same(config in config(), looks in prop::collection::vec(1..10 * MS, 50)) {
        let config = Config { held: 100_000, ..config };
        let run = |times: Vec<Nanos>| {
            let pool = pool(400);
            let (inner, _) = Numbered::new(150);
            let mut port = FaultPort::new(inner, config.clone());
            let mut out = Vec::new();
            // All packets come at the same time in every run.
            port.receive(&pool, NOW, 150, &mut out);
            let mut seen: Vec<(Nanos, Vec<u8>)> = out.iter().map(|p| (NOW, pool.to_vec(p))).collect();
            pool.free_batch(out);
            seen.extend(watch(&mut port, &pool, times));
            (seen, port.details())
        };
        let end = [Nanos(NOW.0 + 300 * 1_000_000_000)];
        let often = || {
            let mut now = NOW;
            let steps = looks.iter().map(move |step| { now.0 += step; now });
            steps.chain(end).chain(end.map(|end| Nanos(end.0 + 20 * MS))).collect::<Vec<_>>()
        };
        let (first, counted) = run(often());
        prop_assert_eq!(&run(often()), &(first.clone(), counted.clone()));
        // Looking seldom makes packets later, and changes nothing else about them.
        let contents = |seen: &[(Nanos, Vec<u8>)]| {
            let mut all: Vec<Vec<u8>> = seen.iter().map(|(_, bytes)| bytes.clone()).collect();
            all.sort();
            all
        };
        let (seldom, _) = run(end.into_iter().chain(end.map(|end| Nanos(end.0 + 20 * MS))).collect());
        prop_assert_eq!(contents(&seldom), contents(&first));
    }

    #[test]
    fn no_packet_is_earlier_than_its_delay(direction in direction(), gaps in prop::collection::vec(0..3 * MS, 1..100)) {
        // Numbers must survive.
        let direction = Direction { truncate: 0, bit_flip: 0, ..direction };
        let pool = pool(400);
        let (inner, _) = Numbered::new(gaps.len() as u32);
        let mut port = FaultPort::new(inner, receiving(direction));
        let (mut now, mut came) = (NOW, Vec::new());
        for gap in gaps {
            now.0 += gap;
            came.push(now);
            let mut out = Vec::new();
            port.receive(&pool, now, 1, &mut out);
            for packet in &out {
                let number = number_of(&pool.to_vec(packet)) as usize;
                prop_assert!(now.since(came[number]) >= direction.delay);
            }
            pool.free_batch(out);
        }
        // The worker wakes when it is told to, and no earlier is anything to be had.
        while let Some(next) = port.wake().at {
            let mut out = Vec::new();
            if next > now {
                port.receive(&pool, Nanos(next.0 - 1), 100, &mut out);
                prop_assert!(out.is_empty(), "{} packets before their time", out.len());
                now = next;
            }
            let before = port.in_flight();
            port.receive(&pool, now, 100, &mut out);
            for packet in &out {
                let number = number_of(&pool.to_vec(packet)) as usize;
                prop_assert!(now.since(came[number]) >= direction.delay);
            }
            prop_assert!(!out.is_empty() || port.wake().at > Some(now), "{before} wait for nothing");
            pool.free_batch(out);
        }
        prop_assert_eq!(pool.available(), 400);
    }
}

/// Every packet that came is given, sent, dropped for a reason or held, and so is every buffer.
fn assert_conserved(port: &FaultPort, pool: &Pool, held: usize) {
    let held_by_port = port.in_flight();
    assert_eq!(port.counters().ledger.balance(held_by_port + held as u64), Ok(()));
    assert_eq!(pool.available() + held + held_by_port as usize, pool.config().buffers as usize);
}

/// `cargo test --release -p port -- --ignored --nocapture cost`
#[test]
#[ignore = "only to be read"]
fn cost_of_standing_between() {
    let pool = pool(1024);
    let supply = || Box::new(NullPort::new(null::Config { supply: true, size: 60 }));
    let faulty = |receive| -> Box<dyn Port> { Box::new(FaultPort::new(supply(), receiving(receive))) };
    let some = Direction { loss: PERCENT, delay: Nanos(1), ..Direction::default() };
    for (name, mut port) in [
        ("without", supply() as Box<dyn Port>),
        ("nothing happens", faulty(Direction::default())),
        ("loss and delay", faulty(some)),
    ] {
        let (begin, mut out, mut given) = (std::time::Instant::now(), Vec::new(), 0u32);
        for round in 0..100_000 {
            port.receive(&pool, Nanos(NOW.0 + round), 32, &mut out);
            given += out.len() as u32;
            pool.free_batch(out.drain(..));
        }
        println!("{name}: {:.1} ns for a packet", begin.elapsed().as_nanos() as f64 / f64::from(given));
    }
}
