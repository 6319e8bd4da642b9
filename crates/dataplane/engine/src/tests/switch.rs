//! Switches: stations find each other, in one pool or several, on one worker or many.

use super::stream::Rig;
use super::*;
use std::collections::VecDeque;
use virtual_switch::{Switch, SwitchPort, SwitchSettings};

/// The station that floods go to.
const ALL: u8 = 0xff;

/// A station on a wire: it sends frames to others and keeps what it gets.
struct Station {
    number: u8,
    /// To which station, and what.
    sends: Arc<Mutex<VecDeque<(u8, u8)>>>,
    /// From which station, and what.
    got: Arc<Mutex<Vec<(u8, u8)>>>,
    counters: PortCounters,
}

/// What a test has of a station.
#[derive(Clone)]
struct Wires {
    number: u8,
    sends: Arc<Mutex<VecDeque<(u8, u8)>>>,
    got: Arc<Mutex<Vec<(u8, u8)>>>,
}

impl Wires {
    fn send(&self, to: &Wires, what: u8) {
        self.send_to(to.number, what);
    }
    fn send_to(&self, to: u8, what: u8) {
        self.sends.lock().expect("not poisoned").push_back((to, what));
    }
    fn take(&self) -> Vec<(u8, u8)> {
        std::mem::take(&mut self.got.lock().expect("not poisoned"))
    }
}

fn station(number: u8) -> (Box<Station>, Wires) {
    let ends = Wires { number, sends: Arc::default(), got: Arc::default() };
    let (sends, got) = (ends.sends.clone(), ends.got.clone());
    (Box::new(Station { number, sends, got, counters: PortCounters::default() }), ends)
}

fn address(number: u8) -> [u8; 6] {
    if number == ALL { [0xff; 6] } else { [2, 0, 0, 0, 0, number] }
}

impl Port for Station {
    fn receive(&mut self, pool: &Pool, _now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        let mut sends = self.sends.lock().expect("not poisoned");
        let count = budget.min(sends.len());
        for (to, what) in sends.drain(..count) {
            let Some(mut packet) = pool.allocate() else {
                self.counters.ledger.received += 1;
                self.counters.ledger.dropped[DropReason::NoBuffer] += 1;
                continue;
            };
            let frame = [&address(to)[..], &address(self.number), &[0x88, 0xb5, what]].concat();
            pool.write(&mut packet, &frame).expect("it fits");
            self.counters.ledger.received += 1;
            out.push(packet);
        }
    }
    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        self.counters.ledger.delivered += packets.len() as u64;
        for packet in packets.drain(..) {
            let frame = pool.to_vec(&packet);
            self.got.lock().expect("not poisoned").push((frame[11], frame[14]));
            pool.free(packet);
        }
    }
    fn wake(&self) -> Wake<'_> {
        Wake::default()
    }
    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

/// A switch with stations at it, each on a worker, in a pool, and behind a function or not.
struct Lan {
    rig: Rig,
    id: SwitchId,
    table: Arc<Switch>,
    stations: Vec<Wires>,
    ports: Vec<FleetPort>,
}

impl Lan {
    fn new(workers: usize, pools: usize, home: Option<usize>) -> Lan {
        let rig = Rig::new(workers, pools);
        let table = Arc::new(Switch::new(SwitchSettings::default()).expect("good settings"));
        let id = rig.fleet.add_switch("hall", table.clone(), home).expect("few switches");
        Lan { rig, id, table, stations: Vec::new(), ports: Vec::new() }
    }

    fn plug(&mut self) -> End {
        End::Switch(self.id, self.table.attach().expect("few ports"))
    }

    fn station(&mut self, worker: usize, pool: usize) -> Wires {
        let (port, ends) = station(self.stations.len() as u8 + 1);
        let port =
            self.rig.fleet.add_port(worker, "station", self.rig.pools[pool].1, port).expect("a worker");
        let plug = self.plug();
        self.rig.link(End::Port(port), plug);
        self.stations.push(ends.clone());
        self.ports.push(port);
        ends
    }

    /// A station behind a function.
    fn far_station(&mut self, worker: usize, pool: usize, manner: Manner) -> (Wires, FleetInstance) {
        let (port, ends) = station(self.stations.len() as u8 + 1);
        let port =
            self.rig.fleet.add_port(worker, "station", self.rig.pools[pool].1, port).expect("a worker");
        let (f, _) = self.rig.add(worker, pool, manner);
        let plug = self.plug();
        self.rig.link(End::Port(port), End::Instance(f, 0));
        self.rig.link(End::Instance(f, 1), plug);
        self.stations.push(ends.clone());
        self.ports.push(port);
        (ends, f)
    }

    /// Each sends to each, first to those that are not known yet; the station that is meant gets it.
    fn each_station_reaches_each(&self) {
        for _ in 0..3 {
            for from in &self.stations {
                for to in self.stations.iter().filter(|to| to.number != from.number) {
                    from.send(to, to.number);
                    self.rig.turn(6);
                    let got: Vec<_> =
                        self.stations.iter().map(|station| (station.number, station.take())).collect();
                    for (number, got) in &got {
                        let meant = [(from.number, to.number)];
                        let expected = if *number == to.number { &meant[..] } else { &[] };
                        // A station that is not known is looked for everywhere, but none gets it twice.
                        let flooded = *number != from.number && got.len() <= 1;
                        assert!(got == expected || (flooded && got == &meant), "{number}: {got:?}");
                    }
                    assert!(got.iter().any(|(number, got)| *number == to.number && got.len() == 1));
                }
            }
        }
        // By now all are known.
        for from in &self.stations {
            for to in self.stations.iter().filter(|to| to.number != from.number) {
                from.send(to, 99);
            }
        }
        self.rig.turn(8);
        for station in &self.stations {
            let mut got = station.take();
            got.sort_unstable();
            let others = self.stations.iter().filter(|other| other.number != station.number);
            assert_eq!(got, others.map(|other| (other.number, 99)).collect::<Vec<_>>());
        }
    }
}

#[test]
fn stations_find_each_other_wherever_they_and_the_switch_are() {
    for home in [None, Some(0), Some(1)] {
        for workers in [1, 2, 3] {
            if home.is_some_and(|home| home >= workers) {
                continue;
            }
            let mut lan = Lan::new(workers, 2, home);
            lan.station(0, 0);
            lan.station(workers - 1, 1);
            lan.far_station(workers / 2, 0, Manner::wire());
            lan.far_station(0, 1, Manner::wire());
            lan.each_station_reaches_each();
            let account = lan.rig.stop();
            assert_eq!(account.ledger.dropped.total(), 0);
        }
    }
}

#[test]
fn two_stations_on_two_workers_learn_and_nothing_floods_afterwards() {
    for home in [None, Some(0)] {
        let mut lan = Lan::new(2, 1, home);
        let (a, b) = (lan.station(0, 0), lan.station(1, 0));
        a.send(&b, 1);
        lan.rig.turn(5);
        b.send(&a, 2);
        lan.rig.turn(5);
        a.send(&b, 3);
        lan.rig.turn(5);
        assert_eq!((a.take(), b.take()), (vec![(2, 2)], vec![(1, 1), (1, 3)]));
        assert_eq!(lan.table.counters().flooded, 1, "the first one");
        let account = lan.rig.stop();
        let [hall] = &account.switches[..] else { panic!("one switch: {:?}", account.switches) };
        assert_eq!((hall.name.as_str(), hall.ports, hall.counters.entries()), ("hall", 2, 2));
        assert_eq!(hall.counters, lan.table.counters());
    }
}

#[test]
fn a_station_silent_for_long_is_not_counted_as_known() {
    let rig = Rig::new(2, 1);
    let settings = SwitchSettings { age: virtual_switch::MIN_AGE, ..SwitchSettings::default() };
    let table = Arc::new(Switch::new(settings).expect("good settings"));
    let id = rig.fleet.add_switch("hall", table.clone(), None).expect("few switches");
    let mut lan = Lan { rig, id, table, stations: Vec::new(), ports: Vec::new() };
    let (a, b) = (lan.station(0, 0), lan.station(1, 0));
    a.send(&b, 1);
    lan.rig.turn(5);
    let counters = || lan.rig.balanced().switches[0].counters;
    assert_eq!((counters().entries(), counters().aged), (1, 0));
    lan.rig.start();
    lan.rig.wait("it is forgotten", || {
        lan.rig.fleet.sweep_switches().expect("it has not stopped");
        counters().entries() == 0
    });
    assert_eq!((counters().learned, counters().aged), (1, 1));
    lan.rig.stop();
}

#[test]
fn a_flood_gives_each_other_port_one_copy_and_the_ledgers_say_so() {
    let mut lan = Lan::new(2, 2, None);
    let all: Vec<_> = (0..5).map(|n| lan.station(n % 2, n % 2)).collect();
    all[0].send_to(ALL, 7);
    lan.rig.turn(6);
    assert!(all[0].take().is_empty());
    for station in &all[1..] {
        assert_eq!(station.take(), [(1, 7)]);
    }
    let account = lan.rig.stop();
    assert_eq!((account.ledger.received, account.ledger.delivered), (1, 4));
    // Three copies for the flood, and one more for each of the two in the other pool, whose originals end.
    assert_eq!((account.ledger.copied, account.ledger.consumed), (5, 2));
}

#[test]
fn an_observer_at_a_plug_of_a_switch_sees_what_leaves_by_it_too() {
    let mut lan = Lan::new(1, 1, None);
    let (a, b, c) = (lan.station(0, 0), lan.station(0, 0), lan.station(0, 0));
    let (eye, seen) = lan.rig.add(0, 0, Manner::deciding(|_, _| Action::Fault));
    let place = Place::Switch(lan.id, Some(SwitchPort(1)));
    let observed = lan.rig.fleet.change(|change| change.observe(eye, place, View::default()));
    observed.expect("not stopped").expect("both are there");
    for (from, to) in [(&a, ALL), (&b, ALL), (&c, ALL), (&a, b.number), (&a, c.number), (&b, c.number)] {
        from.send_to(to, 1);
        lan.rig.turn(5);
    }
    // The first byte is that of where a frame goes to.
    assert_eq!(seen.bytes(), [0xff, 0xff, 0xff, 2, 2], "its own and the others' floods, to it and from it");
    assert_eq!((a.take().len(), b.take().len(), c.take().len()), (2, 3, 4));
    lan.rig.stop();
}

#[test]
fn a_full_queue_behind_a_switch_is_its_owners_loss() {
    let mut lan = Lan::new(1, 1, None);
    lan.rig.queue = 10;
    let a = lan.station(0, 0);
    let b = lan.station(0, 0);
    let (c, f) = lan.far_station(0, 0, Manner::wire());
    lan.rig.fleet.pause(f).expect("it has not stopped");
    for n in 0..30 {
        a.send_to(ALL, n);
    }
    lan.rig.turn(5);
    assert_eq!(b.take().len(), 30, "the others get it all the same");
    lan.rig.fleet.resume(f).expect("it has not stopped");
    lan.rig.turn(5);
    assert_eq!(c.take().len(), 10);
    let account = lan.rig.stop();
    assert_eq!(account.instances[0].ledger.dropped[DropReason::QueueFull], 20);
}

#[test]
fn stations_that_move_are_still_found_and_the_old_way_is_forgotten() {
    for home in [None, Some(0)] {
        let mut lan = Lan::new(3, 1, home);
        lan.station(0, 0);
        let (_, f) = lan.far_station(0, 0, Manner::wire());
        lan.station(1, 0);
        for (part, worker) in [
            (End::Port(lan.ports[0]), 1),
            (End::Instance(f, 0), 2),
            (End::Port(lan.ports[2]), 2),
            (End::Port(lan.ports[0]), 2),
            (End::Instance(f, 0), 0),
        ] {
            lan.each_station_reaches_each();
            lan.rig.fleet.move_to(&[part], worker).expect("it moves");
        }
        lan.each_station_reaches_each();
        lan.rig.stop();
    }
}

#[test]
fn a_service_may_be_a_switch_also_from_workers_without_a_station() {
    let mut lan = Lan::new(3, 1, None);
    let (a, b) = (lan.station(0, 0), lan.station(1, 0));
    let plug = lan.plug();
    lan.rig.fleet.serve(service(5), plug).expect("it is there");
    let (port, c) = station(9);
    let port = lan.rig.fleet.add_port(2, "station", lan.rig.pools[0].1, port).expect("a worker");
    let (f, _) = lan.rig.add(2, 0, Manner::deciding(|_, _| Action::Give(Verdict::Service(5))));
    lan.rig.link(End::Port(port), End::Instance(f, 0));
    for place in [0, 1, 2, 0] {
        lan.rig.fleet.move_to(&[End::Port(lan.ports[0])], place).expect("it moves");
        c.send_to(ALL, 1);
        c.send(&a, 2);
        lan.rig.turn(6);
        assert!(a.take().ends_with(&[(9, 1), (9, 2)]));
        assert!(b.take().contains(&(9, 1)));
        a.send(&b, 0);
        lan.rig.turn(6);
    }
    lan.rig.stop();
}

#[test]
fn a_move_with_full_wires_on_both_sides_of_a_switchs_own_worker_loses_nothing() {
    let mut lan = Lan::new(3, 1, Some(1));
    let (a, b) = (lan.station(0, 0), lan.station(2, 0));
    b.send(&a, 0);
    lan.rig.turn(6);
    a.take();
    for n in 0..2000u32 {
        a.send(&b, n as u8);
    }
    // Fill the wire behind the switch, then the one before it.
    for _ in 0..20 {
        lan.rig.fleet.turn(0);
        lan.rig.fleet.turn(1);
    }
    for _ in 0..20 {
        lan.rig.fleet.turn(0);
    }
    assert!(lan.rig.balanced().in_flight > 1500, "both wires are full");
    lan.rig.fleet.move_to(&[End::Port(lan.ports[1])], 0).expect("it moves");
    lan.rig.turn(60);
    let expected: Vec<_> = (0..2000u32).map(|n| (1, n as u8)).collect();
    assert!(b.take() == expected, "all, in order");
    assert_eq!(lan.rig.stop().ledger.dropped.total(), 0);
}

#[test]
fn two_switches_cannot_be_wired_to_each_other() {
    let lan = Lan::new(1, 1, None);
    let other = lan.rig.fleet.add_switch("other", lan.table.clone(), None).expect("few switches");
    let refused = lan.rig.fleet.link(End::Switch(lan.id, SwitchPort(0)), End::Switch(other, SwitchPort(0)));
    assert!(matches!(refused, Err(FleetError::Wire(WireError::TwoSwitches))));
    lan.rig.stop();
}

#[test]
fn a_port_that_only_sends_into_a_switch_may_be_on_any_worker() {
    for home in [None, Some(0)] {
        let mut lan = Lan::new(3, 1, home);
        let (a, b) = (lan.station(0, 0), lan.station(1, 0));
        let (port, c) = station(9);
        let port = lan.rig.fleet.add_port(2, "mute", lan.rig.pools[0].1, port).expect("a worker");
        let plug = lan.plug();
        lan.rig.fleet.lead(End::Port(port), plug).expect("a free wire");
        for worker in [2, 0, 1, 2] {
            lan.rig.fleet.move_to(&[End::Port(port)], worker).expect("it moves");
            c.send_to(ALL, 1);
            lan.rig.turn(6);
            a.send(&c, 2);
            lan.rig.turn(6);
            assert_eq!((a.take(), b.take(), c.take()), (vec![(9, 1)], vec![(9, 1)], vec![]));
        }
        let account = lan.rig.stop();
        assert_eq!(account.ledger.dropped[DropReason::NoRoute], 4, "nothing leads back");
    }
}

#[test]
fn a_port_whose_frames_all_end_in_the_switch_is_polled_again() {
    let mut bench = Bench::new(&[256]);
    let table = Arc::new(Switch::new(SwitchSettings::default()).expect("good settings"));
    let id = bench.worker.add_switch("hall", table.clone()).expect("few switches");
    let plug = || Target::Switch(id, table.attach().expect("few ports"));
    // The first batch has no source address, the second one has.
    let (port, _) = bench.port(0, [[2; 64], [4; 64]].concat());
    let (f, seen) = bench.function(0, |_, _| Action::Give(Verdict::Consume));
    bench.link(port, plug());
    bench.link(Target::Instance(f, 0), plug());
    let (account, _) = bench.finish();
    assert_eq!(account.ledger.dropped[DropReason::SwitchFiltered], 64);
    assert_eq!((account.ledger.consumed, seen.calls().len()), (64, 2), "one call, and the report");
}

#[test]
fn a_receiver_that_takes_nothing_from_a_switch_throttles_no_sender_to_others() {
    for worker in 0..2 {
        let mut lan = Lan::new(2, 1, None);
        let (sender, _) = lan.far_station(0, 0, Manner::wire());
        let (stuck, slow) = lan.far_station(worker, 0, Manner::wire());
        let (other, _) = lan.far_station(1 - worker, 0, Manner::wire());
        stuck.send_to(ALL, 0);
        other.send_to(ALL, 0);
        lan.rig.turn(10);
        lan.rig.fleet.pause(slow).expect("it has not stopped");
        for round in 0..100 {
            (0..20).for_each(|_| sender.send(&stuck, 1));
            sender.send(&other, round);
            lan.rig.turn(2);
        }
        // It is waited for no longer than a wire on which nothing moves.
        let (mut got, begin) = (0, std::time::Instant::now());
        while got < 100 {
            lan.rig.turn(1);
            got += other.take().into_iter().filter(|(from, _)| *from == sender.number).count();
            let waited = begin.elapsed() >= std::time::Duration::from_secs(20);
            assert!(!waited, "{got} of those to another station, on worker {}", 1 - worker);
        }
        let account = lan.rig.stop();
        assert!(account.ledger.dropped[DropReason::QueueFull] > 0, "2,000 to one that takes none");
    }
}
