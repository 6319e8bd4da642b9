//! What one worker does with packets.

use super::*;
use proptest::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn a_chain_delivers_in_order_both_ways() {
    let mut bench = Bench::new(&[512]);
    let there: Vec<u8> = (0..200).collect();
    let back: Vec<u8> = (50..120).collect();
    let (left, left_sent) = bench.port(0, there.clone());
    let (right, right_sent) = bench.port(0, back.clone());
    let functions: Vec<_> = (0..5).map(|_| bench.wire(0)).collect();
    bench.chain((left, right), &functions);
    let (account, _) = bench.finish();
    assert_eq!(*right_sent.lock().expect("not poisoned"), there);
    assert_eq!(*left_sent.lock().expect("not poisoned"), back);
    assert_eq!(account.ledger.delivered, 270);
    assert!(account.instances.iter().all(|instance| instance.packets == 270 && instance.cycles > Cycles(0)));
}

#[test]
fn a_loop_ends_when_the_hop_budget_does() {
    let mut bench = Bench::new(&[16]);
    let (port, _) = bench.port(0, vec![1, 2, 3]);
    let (a, b) = (bench.wire(0), bench.function(0, |_, _| Action::Give(Verdict::Interface(0))).0);
    bench.link(port, Target::Instance(a, 0));
    bench.link(Target::Instance(a, 1), Target::Instance(b, 0));
    bench.worker.serve(service(1), Target::Instance(b, 0));
    let (c, _) = bench.function(0, |_, _| Action::Give(Verdict::Service(1)));
    bench.worker.serve(service(2), Target::Instance(c, 0));
    let (d, _) = bench.function(0, |_, _| Action::Give(Verdict::Service(3)));
    bench.worker.serve(service(3), Target::Instance(d, 0));
    let (other, _) = bench.port(0, vec![4, 5]);
    bench.link(other, Target::Instance(d, 1));
    let (account, _) = bench.finish();
    assert_eq!(account.ledger.dropped[DropReason::HopBudget], 2, "d sends to itself");
    assert_eq!(account.ports[0].counters.ledger.delivered, 3, "a and b return what they got");
}

#[test]
fn a_function_reaches_the_services_of_its_own_tenant_alone() {
    let mut bench = Bench::new(&[512]);
    let red = bench.worker.default_tenant();
    let blue = bench.worker.add_tenant(Claim::default());
    let (vault, taken) = bench.port(0, vec![]);
    let (counter, bought) = bench.port(0, vec![]);
    // The same number twice, and one that is blue's alone.
    bench.worker.serve(ServiceId { tenant: blue, number: 7 }, vault);
    bench.worker.serve(ServiceId { tenant: blue, number: 200 }, vault);
    bench.worker.serve(ServiceId { tenant: red, number: 7 }, counter);
    // A hostile function of red sends to every number that there is, high bytes too.
    let (lan, _) = bench.port(0, (0..=255).collect());
    let (hostile, _) = bench.function(0, |byte, _| Action::Give(Verdict::Service(u16::from(byte))));
    bench.link(lan, Target::Instance(hostile, 0));
    let (high, _) = bench.port(0, (0..=254).collect());
    let (other, _) = bench.function(0, |byte, _| Action::Give(Verdict::Service(0xff00 | u16::from(byte))));
    bench.link(high, Target::Instance(other, 0));
    let (account, _) = bench.finish();
    assert_eq!(*taken.lock().expect("not poisoned"), [], "what is blue's is out of reach");
    assert_eq!(*bought.lock().expect("not poisoned"), [7]);
    assert_eq!(account.ledger.dropped[DropReason::UnknownService], 255 + 255);
}

#[test]
fn a_tenant_that_goes_takes_its_services_along() {
    let rig = super::stream::Rig::new(2, 1);
    let (sink, sent) = rig.script(0, 0, vec![]);
    let before = rig.fleet.change(|change| change.add_tenant(Claim::default())).expect("it has not stopped");
    rig.fleet.serve(ServiceId { tenant: before, number: 7 }, End::Port(sink)).expect("it is there");
    let after = rig.fleet.change(move |change| {
        change.remove_tenant(before);
        change.add_tenant(Claim::default())
    });
    let after = after.expect("it has not stopped");
    assert_eq!(after, before, "numbers are given again");
    for worker in 0..2 {
        let (port, _) = rig.script(worker, 0, vec![1; 3]);
        let (mut setup, guest) = instance(
            &rig.pools[0],
            after,
            Manner::deciding(|_, _| Action::Give(Verdict::Service(7))),
            &Seen::default(),
            rig.clock,
        );
        setup.queue = 16;
        let heir = rig.fleet.add_instance(worker, setup, guest).expect("a worker");
        rig.link(End::Port(port), End::Instance(heir, 0));
    }
    rig.turn(5);
    assert_eq!(*sent.lock().expect("not poisoned"), []);
    assert_eq!(rig.stop().ledger.dropped[DropReason::UnknownService], 6);
}

#[test]
fn verdicts_end_packets_for_the_right_reason() {
    let mut bench = Bench::new(&[64]);
    let (port, _) = bench.port(0, (0..8).collect());
    let (f, _) = bench.function(0, |byte, _| {
        Action::Give(match byte {
            0 => Verdict::Drop(0),
            1 => Verdict::None,
            2 => Verdict::Consume,
            3 => Verdict::Interface(1),
            4 => Verdict::Service(77),
            5 | 6 => Verdict::Hold(9),
            _ => Verdict::Interface(0),
        })
    });
    bench.link(port, Target::Instance(f, 0));
    let (account, _) = bench.finish();
    let f = &account.instances[0];
    assert_eq!(f.own_drops, [("own".to_owned(), 1)]);
    assert_eq!(f.ledger.consumed, 1);
    let dropped: Vec<_> = f.ledger.dropped.nonzero().collect();
    for (reason, count) in [
        (DropReason::Function, 1),
        (DropReason::NoVerdict, 1),
        (DropReason::NoRoute, 1),
        (DropReason::UnknownService, 1),
        (DropReason::HoldQuota, 1),
    ] {
        assert!(dropped.contains(&(reason, count)), "{reason}: {dropped:?}");
    }
    let held = f.ledger.dropped[DropReason::HoldExpired] + f.ledger.dropped[DropReason::HeldAtStop];
    assert_eq!(held, 1, "{dropped:?}");
    assert_eq!(account.ledger.delivered, 1);
}

#[test]
fn a_fault_loses_the_batch_and_the_function_comes_back() {
    for fail in [FailPolicy::Closed, FailPolicy::Open] {
        let mut bench = Bench::new(&[512]);
        bench.fail = fail;
        let mut offers = vec![9; 64];
        offers.push(0);
        offers.extend([9; 63]);
        offers.extend([9; 64]);
        let (left, _) = bench.port(0, offers);
        let (right, _) = bench.port(0, vec![]);
        let (f, _) = bench.function(0, |byte, ingress| match byte {
            0 => Action::Fault,
            _ => Action::Give(Verdict::Interface(1 - ingress)),
        });
        bench.chain((left, right), &[f]);
        let (account, events) = bench.finish();
        let f = &account.instances[0];
        assert_eq!(f.ledger.dropped[DropReason::FunctionTrapped], 64);
        let down = f.ledger.dropped[DropReason::FunctionDown];
        assert!(if fail == FailPolicy::Open { down == 0 } else { down == 64 || down == 0 });
        assert_eq!(account.ledger.delivered + down, 128);
        assert_eq!((f.faults, f.restarts), (1, 1), "{events:?}");
    }
}

#[test]
fn tenants_exchange_copies_and_observers_see_everything() {
    let mut bench = Bench::new(&[512, 512]);
    let offers: Vec<u8> = (0..100).collect();
    let (left, _) = bench.port(0, offers.clone());
    let (right, sent) = bench.port(1, vec![]);
    let (here, there) = (bench.wire(0), bench.wire(1));
    bench.chain((left, right), &[here, there]);
    let (near, near_saw) = bench.function(0, |_, _| Action::Fault);
    let (far, far_saw) = bench.function(1, |_, _| Action::Fault);
    let at = Target::Instance(here, 0);
    bench.worker.observe(near, at, View::default()).expect("both are there");
    bench.worker.observe(far, at, View::default()).expect("both are there");
    let (account, _) = bench.finish();
    assert_eq!(*sent.lock().expect("not poisoned"), offers);
    assert_eq!(near_saw.bytes(), offers);
    let missed = account.instances[3].missed as usize;
    assert_eq!(far_saw.bytes().len() + missed, offers.len());
    assert_eq!(account.instances[1].ledger.copied, 100, "the receiver's");
    assert_eq!(account.instances[0].ledger.consumed, 100, "ended at the boundary");
}

#[test]
fn a_full_queue_is_counted() {
    let mut bench = Bench::new(&[512]);
    bench.queue = 10;
    let (left, _) = bench.port(0, vec![1; 64]);
    let (right, _) = bench.port(0, vec![]);
    let f = bench.wire(0);
    bench.chain((left, right), &[f]);
    let (account, _) = bench.finish();
    assert_eq!(account.instances[0].ledger.dropped[DropReason::QueueFull], 54);
    assert_eq!(account.ledger.delivered, 10);
}

#[test]
fn wires_that_cannot_be_are_refused_whole() {
    let mut bench = Bench::new(&[16]);
    let (port, _) = bench.port(0, vec![]);
    let f = bench.wire(0);
    assert_eq!(
        bench.worker.link(port, Target::Instance(f, 2)),
        Err(WireError::NoInterface { interface: 2, interfaces: 2 })
    );
    bench.link(port, Target::Instance(f, 0));
    let (other, _) = bench.port(0, vec![]);
    assert_eq!(bench.worker.link(other, Target::Instance(f, 0)), Err(WireError::Taken));
    assert_eq!(bench.worker.link(other, other), Err(WireError::Taken));
    bench.link(other, Target::Instance(f, 1));
    bench.finish();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn whatever_functions_decide_every_packet_is_accounted_for(
        offers in prop::collection::vec(any::<u8>(), 0..300),
        buffers in (8u32..128, 8u32..64),
        seed in any::<u8>(),
        second_tenant in any::<bool>(),
        queue in 1usize..100,
    ) {
        let mut bench = Bench::new(&[buffers.0, buffers.1]);
        bench.queue = queue;
        let decide = move |byte: u8, ingress: u16| match byte.wrapping_mul(37).wrapping_add(seed) % 16 {
            0 => Action::Give(Verdict::Drop(u16::from(byte))),
            1 => Action::Give(Verdict::None),
            2 => Action::Give(Verdict::Consume),
            3 => Action::Give(Verdict::Interface(u16::from(byte))),
            4 => Action::Give(Verdict::Service(u16::from(byte % 3))),
            5 => Action::Give(Verdict::Hold(u16::from(byte))),
            6 if byte.is_multiple_of(5) => Action::Fault,
            _ => Action::Give(Verdict::Interface(1 - ingress)),
        };
        let half = offers.len() / 2;
        let (left, _) = bench.port(0, offers[..half].to_vec());
        let (right, _) = bench.port(usize::from(second_tenant), offers[half..].to_vec());
        let manner = Manner { hold: Nanos(10_000), ..Manner::deciding(decide) };
        let (a, _) = bench.add(0, manner.clone());
        let (b, _) = bench.add(usize::from(second_tenant), manner);
        let (eye, _) = bench.function(0, |_, _| Action::Fault);
        bench.chain((left, right), &[a, b]);
        let at = Target::Instance(b, 0);
        bench.worker.observe(eye, at, View::default()).expect("both are there");
        bench.worker.serve(service(1), Target::Instance(a, 0));
        bench.worker.serve(service(2), right);
        bench.finish();
    }
}

/// Counts the packets of each passage.
struct Counting(Arc<Mutex<Vec<(Passage, usize)>>>);

impl Tap for Counting {
    fn see(&mut self, _pool: &Pool, packets: &[Packet], passage: Passage) {
        let mut seen = self.0.lock().expect("not poisoned");
        match seen.iter_mut().find(|(known, _)| *known == passage) {
            Some((_, count)) => *count += packets.len(),
            None => seen.push((passage, packets.len())),
        }
    }
    fn flush(&mut self) {}
}

#[test]
fn taps_see_every_packet_and_what_becomes_of_it() {
    let mut bench = Bench::new(&[64]);
    let (left, _) = bench.port(0, (0..20).collect());
    let (right, _) = bench.port(0, vec![]);
    let (f, _) = bench
        .function(0, |byte, _| Action::Give(if byte < 5 { Verdict::Drop(0) } else { Verdict::Interface(1) }));
    bench.chain((left, right), &[f]);
    let seen: Vec<_> = (0..3).map(|_| Arc::new(Mutex::new(Vec::new()))).collect();
    for (port, seen) in [left, right].into_iter().zip(&seen) {
        let Target::Port(port) = port else { unreachable!("a port") };
        bench.worker.tap_port(port, Box::new(Counting(seen.clone())));
    }
    bench.worker.tap_instance(f, Box::new(Counting(seen[2].clone())));
    bench.finish();
    let seen: Vec<_> = seen.iter().map(|seen| seen.lock().expect("not poisoned").clone()).collect();
    assert_eq!(seen[0], [(Passage::Received, 20)]);
    assert_eq!(seen[1], [(Passage::Transmitted, 15)]);
    let lost = Passage::Lost(DropReason::Function);
    assert_eq!(seen[2], [(Passage::Arrived, 20), (Passage::Decided, 20), (lost, 5)]);
}

/// Wants to see one packet, and says which copies were made.
struct One {
    seen: Arc<Mutex<Vec<Passage>>>,
    copies: Arc<Mutex<usize>>,
    most: usize,
}

impl Tap for One {
    fn see(&mut self, _pool: &Pool, packets: &[Packet], passage: Passage) {
        self.seen.lock().expect("not poisoned").extend(packets.iter().map(|_| passage));
    }
    fn flush(&mut self) {}
    fn copied(&mut self, (here, original): (&Pool, &Packet), (there, copy): (&Pool, &Packet)) {
        assert!(!std::ptr::eq(here, there) && original.length() == copy.length());
        *self.copies.lock().expect("not poisoned") += 1;
    }
    fn is_over(&self) -> bool {
        self.seen.lock().expect("not poisoned").len() >= self.most
    }
}

#[test]
fn taps_are_told_of_copies_and_leave_when_they_are_over() {
    let mut bench = Bench::new(&[32, 32]);
    let (left, _) = bench.port(0, (0..4).collect());
    let (right, _) = bench.port(1, vec![]);
    let (f, _) = bench.function(0, |_, _| Action::Give(Verdict::Interface(1)));
    bench.chain((left, right), &[f]);
    let (seen, copies) = (Arc::default(), Arc::default());
    bench
        .worker
        .tap_instance(f, Box::new(One { seen: Arc::clone(&seen), copies: Arc::clone(&copies), most: 8 }));
    assert!(bench.worker.upkeep.tapped);
    bench.worker.flush_taps();
    assert!(bench.worker.upkeep.tapped, "it is not over");
    while bench.worker.turn() {}
    let seen: Vec<Passage> = seen.lock().expect("not poisoned").clone();
    assert_eq!(seen, [[Passage::Arrived; 4], [Passage::Decided; 4]].concat());
    assert_eq!(*copies.lock().expect("not poisoned"), 4, "each went to the other pool");
    bench.worker.flush_taps();
    assert!(!bench.worker.upkeep.tapped && bench.worker.instances[f.index()].taps.is_empty());
    bench.finish();
}

#[test]
fn a_wire_that_leads_one_way_brings_nothing_back() {
    let mut bench = Bench::new(&[32]);
    let (source, _) = bench.port(0, (0..5).collect());
    let (collector, collected) = bench.port(0, (100..110).collect());
    let (f, _) = bench.function(0, |_, _| Action::Give(Verdict::Interface(1)));
    bench.link(source, Target::Instance(f, 0));
    bench.worker.lead(Target::Instance(f, 1), collector).expect("a free wire");
    assert_eq!(bench.worker.lead(Target::Instance(f, 1), source), Err(WireError::Taken));
    let (account, _) = bench.finish();
    assert_eq!(*collected.lock().expect("not poisoned"), [0, 1, 2, 3, 4]);
    assert_eq!(account.instances[0].packets, 5, "the collector is not heard");
}

#[test]
fn it_is_counted_how_long_packets_took_to_the_end_of_verdicts_and_to_ports() {
    let mut bench = Bench::new(&[64]);
    let (left, _) = bench.port(0, (0..20).collect());
    let (right, _) = bench.port(0, vec![]);
    let (drops, _) = bench
        .function(0, |byte, _| Action::Give(if byte < 5 { Verdict::Drop(0) } else { Verdict::Interface(1) }));
    let last = bench.wire(0);
    bench.chain((left, right), &[drops, last]);
    let (account, _) = bench.finish();
    let counts: Vec<u64> = account.instances.iter().map(|instance| instance.latencies.count()).collect();
    assert_eq!(counts, [20, 15], "what is dropped took its time as well");
    assert!(account.instances[1].latencies.sum() > account.instances[0].latencies.sum() / 20 * 15);
    assert_eq!((account.ports[0].latencies.count(), account.ports[1].latencies.count()), (0, 15));
    assert!(account.ports[1].latencies.quantile(0.99) >= account.instances[0].latencies.quantile(0.0));
}

#[test]
fn what_comes_from_another_worker_goes_on_before_more_comes_in() {
    let mut bench = Bench::new(&[port::relay::RELAY_PACKETS as u32]);
    let bell = || Arc::new(port::Bell::new().expect("an event descriptor"));
    let (mut other, here) = port::relay::one_way(bell(), bell());
    let pool = bench.pools[0].0.clone();
    let relay = bench.add_port(0, Box::new(here));
    let (collector, collected) = bench.port(0, vec![]);
    bench.worker.lead(relay, collector).expect("a free wire");
    // Batches that do not fit together into what is received at once.
    let length = nf_abi::MAX_BATCH / 2 + 1;
    let packets = port::relay::RELAY_PACKETS / length * length;
    for _ in 0..packets / length {
        let mut batch = Vec::new();
        pool.allocate_batch(length, &mut batch);
        for packet in &mut batch {
            pool.write(packet, &[0; 14]).expect("it fits");
        }
        other.transmit(&pool, Nanos(0), &mut batch);
    }
    assert_eq!(other.room(), port::relay::RELAY_PACKETS - packets);
    bench.worker.turn();
    assert_eq!(other.room(), port::relay::RELAY_PACKETS, "all of it went on in one turn");
    assert_eq!(collected.lock().expect("not poisoned").len(), packets);
}

#[test]
fn what_makes_a_slower_core_is_called_after_a_turn_that_brought_something() {
    static TURNS: AtomicU32 = AtomicU32::new(0);
    fn rest(worked: Cycles) {
        assert!(worked > Cycles(0));
        TURNS.fetch_add(1, Ordering::Relaxed);
    }
    let mut bench = Bench::new(&[16]);
    let (left, _) = bench.port(0, vec![1, 2, 3]);
    let (right, sent) = bench.port(0, vec![]);
    let f = bench.wire(0);
    bench.chain((left, right), &[f]);
    bench.worker.settings.rest = Some(rest);
    bench.worker.step();
    assert_eq!(*sent.lock().expect("not poisoned"), [1, 2, 3]);
    assert_eq!(TURNS.load(Ordering::Relaxed), 1);
    bench.finish();
}
