//! Virtual devices: each mode and share, on one worker or several, several devices at one port, and changes
//! while packets pass.

use super::stream::Rig;
use super::*;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use virtual_device::{Balance, Device, DeviceSettings, Mode, Opener, PortDevices, Share, SwitchPort};

/// Ports have plugs from 0 on, openers from 100 on.
pub(super) const OPENERS: u16 = 100;

/// Settings with so many ports and so many openers of the whole device, which all receive.
pub(super) fn settings(mode: Mode, share: Share, ports: u16, openers: u16) -> DeviceSettings {
    let opener = |n| Opener { plug: SwitchPort(OPENERS + n), side: None, receives: true };
    let openers = (0..openers).map(opener).collect();
    DeviceSettings::new(mode, share, (0..ports).map(SwitchPort).collect(), openers)
}

/// A device of a fleet.
pub(super) struct Plugs(pub(super) SwitchId);

impl Plugs {
    pub(super) fn of(rig: &Rig, settings: DeviceSettings) -> (Plugs, Arc<Device>) {
        let device = Arc::new(Device::new(settings, None));
        (Plugs(rig.fleet.add_switch("device", device.clone(), None).expect("few devices")), device)
    }
    pub(super) fn port(&self, index: u16) -> End {
        End::Switch(self.0, SwitchPort(index))
    }
    pub(super) fn opener(&self, index: u16) -> End {
        End::Switch(self.0, SwitchPort(OPENERS + index))
    }
}

/// A port with flows of UDP: packets are told apart by their first byte, which is their source port too.
struct Link {
    offers: Vec<u8>,
    sent: Arc<Mutex<Vec<u8>>>,
    is_up: Arc<AtomicBool>,
    counters: PortCounters,
}

/// What a test has of a link.
pub(super) struct Far {
    pub(super) port: FleetPort,
    sent: Arc<Mutex<Vec<u8>>>,
    is_up: Arc<AtomicBool>,
}

impl Far {
    pub(super) fn of(rig: &Rig, worker: usize, pool: usize, offers: Vec<u8>) -> Far {
        let (sent, is_up) = (Arc::default(), Arc::new(AtomicBool::new(true)));
        let counters = PortCounters::default();
        let link = Link { offers, sent: Arc::clone(&sent), is_up: is_up.clone(), counters };
        let port = rig.fleet.add_port(worker, "link", rig.pools[pool].1, Box::new(link)).expect("a worker");
        Far { port, sent, is_up }
    }
    pub(super) fn end(&self) -> End {
        End::Port(self.port)
    }
    /// What it was sent, sorted.
    pub(super) fn take(&self) -> Vec<u8> {
        let mut sent = std::mem::take(&mut *self.sent.lock().expect("not poisoned"));
        sent.sort_unstable();
        sent
    }
}

impl Port for Link {
    fn receive(&mut self, pool: &Pool, _now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        let count = budget.min(self.offers.len());
        for byte in self.offers.drain(..count) {
            self.counters.ledger.received += 1;
            let mut packet = pool.allocate().expect("a large pool");
            let mut frame = [0; 60];
            (frame[0], frame[6]) = (byte, (byte ^ 2) & !1);
            (frame[12], frame[14], frame[17], frame[23], frame[35]) = (8, 0x45, 46, 17, byte);
            pool.write(&mut packet, &frame).expect("it fits");
            out.push(packet);
        }
    }
    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        self.counters.ledger.delivered += packets.len() as u64;
        for packet in packets.drain(..) {
            self.sent.lock().expect("not poisoned").push(pool.to_vec(&packet)[0]);
            pool.free(packet);
        }
    }
    fn wake(&self) -> Wake<'_> {
        Wake::default()
    }
    fn status(&self) -> PortStatus {
        if self.is_up.load(SeqCst) { PortStatus::Up } else { PortStatus::Down("no carrier".into()) }
    }
    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

/// Sends everything back by the interface by which it came.
pub(super) fn echo() -> Manner {
    Manner::deciding(|_, ingress| Action::Give(Verdict::Interface(ingress)))
}

fn consume() -> Manner {
    Manner::deciding(|_, _| Action::Give(Verdict::Consume))
}

#[test]
fn a_direct_device_is_like_a_wire() {
    for workers in 1..=3 {
        let rig = Rig::new(workers, 1);
        let (left, right) =
            (Far::of(&rig, 0, 0, (0..100).collect()), Far::of(&rig, workers - 1, 0, vec![200]));
        let f = rig.wire(workers / 2);
        for (interface, link) in [(0, &left), (1, &right)] {
            let (device, _) = Plugs::of(&rig, settings(Mode::Direct, Share::Single, 1, 1));
            rig.link(link.end(), device.port(0));
            rig.link(device.opener(0), End::Instance(f, interface));
        }
        assert_eq!(rig.fleet.consumers(), 2, "it polls the ports, or the relays, itself");
        rig.turn(8);
        assert_eq!((left.take(), right.take()), (vec![200], (0..100).collect()));
        let account = rig.stop();
        assert_eq!((account.ledger.dropped.total(), account.ledger.copied), (0, 0));
        let counted: Vec<_> = account.devices.iter().map(|device| device.counters).collect();
        assert_eq!(
            counted.iter().map(|c| (c.from_ports, c.from_openers)).collect::<Vec<_>>(),
            [(100, 1), (1, 100)]
        );
        assert!(account.switches.is_empty(), "no learning switch is among them");
    }
}

#[test]
fn a_bridge_sends_by_the_opposite_port_wherever_its_opener_is() {
    for workers in 1..=3 {
        let rig = Rig::new(workers, 1);
        let (left, right) = (Far::of(&rig, 0, 0, vec![1, 2]), Far::of(&rig, workers - 1, 0, vec![3]));
        let (device, _) = Plugs::of(&rig, settings(Mode::Bridge, Share::Single, 2, 1));
        rig.link(left.end(), device.port(0));
        rig.link(device.port(1), right.end());
        let f = rig.add(workers / 2, 0, echo()).0;
        rig.link(End::Instance(f, 0), device.opener(0));
        rig.turn(8);
        assert_eq!((left.take(), right.take()), (vec![3], vec![1, 2]));
        assert_eq!(rig.stop().ledger.dropped.total(), 0);
    }
}

#[test]
fn a_bridge_of_three_learns() {
    for workers in 1..=2 {
        let rig = Rig::new(workers, 1);
        let (device, program) = Plugs::of(&rig, settings(Mode::Bridge, Share::Single, 3, 1));
        let f = rig.add(workers - 1, 0, echo()).0;
        rig.link(End::Instance(f, 0), device.opener(0));
        // To station 4 from station 6, and the answer.
        let links: Vec<Far> = [vec![4], vec![], vec![]]
            .into_iter()
            .enumerate()
            .map(|(n, offers)| {
                let link = Far::of(&rig, n % workers, 0, offers);
                rig.link(link.end(), device.port(n as u16));
                link
            })
            .collect();
        rig.turn(6);
        assert_eq!(links.iter().map(Far::take).collect::<Vec<_>>(), [vec![], vec![4], vec![4]]);
        let answer = Far::of(&rig, 0, 0, vec![6]);
        let (old, new, plug) = (links[2].end(), answer.end(), device.port(2));
        rig.fleet
            .change(|change| change.unlink(old, plug).and_then(|()| change.link(new, plug)))
            .expect("not stopped")
            .expect("laid");
        rig.turn(6);
        assert_eq!(
            links.iter().map(Far::take).collect::<Vec<_>>(),
            [vec![6], vec![], vec![]],
            "it was heard there"
        );
        assert_eq!(program.stations(rig.clock.now()).count(), 2);
        let account = rig.stop();
        assert_eq!((account.ledger.copied, account.ledger.dropped.total()), (1, 0));
    }
}

#[test]
fn a_bond_balances_and_leaves_out_a_link_that_is_down() {
    for (workers, balance, expected) in [
        (1, Balance::RoundRobin, Some([20, 20])),
        (2, Balance::Flow, None),
        (2, Balance::Flowlet { gap: Nanos(1) }, None),
        (2, Balance::ActiveBackup, Some([40, 0])),
    ] {
        let rig = Rig::new(workers, 1);
        let (device, program) = Plugs::of(&rig, settings(Mode::Bond(balance), Share::Single, 2, 1));
        let links = [Far::of(&rig, 0, 0, vec![]), Far::of(&rig, workers - 1, 0, vec![])];
        rig.link(links[0].end(), device.port(0));
        rig.link(links[1].end(), device.port(1));
        let (source, f) = (Far::of(&rig, 0, 0, (0..40).collect()), rig.wire(workers - 1));
        rig.link(source.end(), End::Instance(f, 0));
        rig.link(End::Instance(f, 1), device.opener(0));
        rig.turn(6);
        let counts = [links[0].take().len(), links[1].take().len()];
        assert_eq!(counts[0] + counts[1], 40, "{balance:?}");
        assert!(expected.is_none_or(|expected| counts == expected), "{balance:?}: {counts:?}");
        assert!(expected.is_some() || counts.iter().all(|count| *count > 5), "{balance:?}: {counts:?}");
        // The first link goes down, which its worker finds out.
        links[0].is_up.store(false, SeqCst);
        rig.start();
        rig.wait("the device knows", || {
            let mut decisions = program.decide(SwitchPort(OPENERS), 1, Nanos(0));
            (0..4).all(|_| decisions.next(0, 0, || [0; 16]) == virtual_device::Way::To(SwitchPort(1)))
        });
        assert_eq!(rig.stop().ledger.dropped.total(), 0);
    }
}

#[test]
fn a_rootless_device_joins_functions() {
    for workers in 1..=2 {
        let rig = Rig::new(workers, 1);
        let (left, right) = (Far::of(&rig, 0, 0, (0..50).collect()), Far::of(&rig, workers - 1, 0, vec![99]));
        let (f, g) = (rig.wire(0), rig.wire(workers - 1));
        let (device, _) = Plugs::of(&rig, settings(Mode::Rootless, Share::Single, 0, 2));
        rig.link(left.end(), End::Instance(f, 0));
        rig.link(End::Instance(f, 1), device.opener(0));
        rig.link(device.opener(1), End::Instance(g, 0));
        rig.link(End::Instance(g, 1), right.end());
        rig.turn(8);
        assert_eq!((left.take(), right.take()), (vec![99], (0..50).collect()));
        assert_eq!(rig.stop().ledger.dropped.total(), 0);
    }
}

#[test]
fn openers_share_what_comes_in() {
    for (share, workers) in
        [(Share::Duplicate, 1), (Share::Duplicate, 3), (Share::Balance, 1), (Share::Balance, 3)]
    {
        let rig = Rig::new(workers, 2);
        let link = Far::of(&rig, 0, 0, (0..90).collect());
        let (device, program) = Plugs::of(&rig, settings(Mode::Direct, share, 1, 3));
        rig.link(link.end(), device.port(0));
        // The last one is another tenant's.
        let openers: Vec<FleetInstance> =
            (0..3u16).map(|n| rig.add(usize::from(n) % workers, usize::from(n) / 2, consume()).0).collect();
        for (n, opener) in (0u16..).zip(&openers) {
            rig.link(End::Instance(*opener, 0), device.opener(n));
        }
        rig.turn(8);
        let account = rig.stop();
        let got: Vec<u64> = account.instances.iter().map(|instance| instance.packets).collect();
        match share {
            Share::Duplicate => {
                assert_eq!(got, [90, 90, 90]);
                // A copy for each further one, and what crosses to the other tenant is copied again.
                assert_eq!((account.ledger.copied, program.counters().copied), (2 * 90 + 90, 2 * 90));
            }
            _ => {
                assert_eq!(got.iter().sum::<u64>(), 90);
                assert!(got.iter().all(|count| *count > 10), "{got:?}");
            }
        }
        assert_eq!(account.ledger.dropped.total(), 0);
    }
}

/// The devices at a port: which wants what, and whether it only sees it.
fn at_port(rules: &[(&str, bool)]) -> PortDevices {
    let rule = |(n, (text, observes)): (usize, &(&str, bool))| {
        let filter = (!text.is_empty()).then(|| capture::Filter::parse(text).expect("a filter"));
        (classifier::Rule { filter, priority: 1, class: 0, observes: *observes }, SwitchPort(1 + n as u16))
    };
    PortDevices::new(SwitchPort(0), rules.iter().enumerate().map(rule).collect(), None)
}

/// A port with devices over it, each with a function that answers, or, where a device only sees packets, that
/// observes. What the functions saw comes beside.
pub(super) fn under_devices(
    rig: &Rig,
    link: &Far,
    rules: &[(&str, bool)],
    places: &[usize],
) -> (SwitchId, Vec<(Plugs, scripted::Seen)>) {
    let id = rig.fleet.add_switch("port", Arc::new(at_port(rules)), None).expect("few");
    rig.link(link.end(), End::Switch(id, SwitchPort(0)));
    let device = |(n, place): (u16, &usize)| {
        let (device, _) = Plugs::of(rig, settings(Mode::Direct, Share::Single, 1, 1));
        rig.link(End::Switch(id, SwitchPort(1 + n)), device.port(0));
        let (function, seen) = rig.add(*place, 0, echo());
        if rules[usize::from(n)].1 {
            let at = Place::Switch(device.0, None);
            let done = rig.fleet.change(|change| change.observe(function, at, View::default()));
            done.expect("not stopped").expect("both are there");
        } else {
            rig.link(device.opener(0), End::Instance(function, 0));
        }
        (device, seen)
    };
    let devices = (0u16..).zip(places).map(device).collect();
    (id, devices)
}

#[test]
fn a_port_under_one_device_leads_to_its_function_alone() {
    let rig = Rig::new(1, 1);
    let link = Far::of(&rig, 0, 0, (0..50).collect());
    let (id, devices) = under_devices(&rig, &link, &[("", false)], &[0]);
    assert_eq!(rig.fleet.consumers(), 1, "through both");
    rig.turn(4);
    assert_eq!(link.take(), (0..50).collect::<Vec<_>>());
    // A filter has to be asked packet by packet; without one the function polls the port again.
    let set = |rules: &[(&str, bool)]| {
        let devices = Arc::new(at_port(rules));
        let done = rig.fleet.change(|change| change.set_forwarding(id, devices));
        done.expect("not stopped").expect("of its kind");
        rig.fleet.consumers()
    };
    assert_eq!((set(&[("udp", false)]), set(&[("", false)])), (0, 1));
    assert!(rig.fleet.wrong_consumers().is_empty());
    let device = devices[0].0.0;
    rig.fleet.change(|change| change.remove_switch(device)).expect("not stopped");
    assert_eq!(rig.fleet.consumers(), 0);
    rig.stop();
}

#[test]
fn a_port_is_polled_by_its_only_taker_in_whatever_order_wires_come_and_go() {
    let rig = Rig::new(1, 1);
    let link = Far::of(&rig, 0, 0, Vec::new());
    let function = End::Instance(rig.add(0, 0, echo()).0, 0);
    let (device, _) = Plugs::of(&rig, settings(Mode::Direct, Share::Single, 1, 1));
    let devices = Arc::new(at_port(&[("", false)]));
    let id = rig.fleet.add_switch("at the port", devices, None).expect("few");
    let [outside, inside] = [0, 1].map(|plug| End::Switch(id, SwitchPort(plug)));
    // Through the devices at the port into a device, and the other way round.
    let into = [(link.end(), outside), (inside, device.port(0)), (device.opener(0), function)];
    let out = [(link.end(), device.opener(0)), (device.port(0), outside), (inside, function)];
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let is_polled = |polled: usize, case: &dyn std::fmt::Debug| {
        assert_eq!((rig.fleet.consumers(), rig.fleet.wrong_consumers()), (polled, Vec::new()), "{case:?}");
    };
    for wires in [into, out] {
        for (come, go) in orders.iter().flat_map(|come| orders.map(|go| (come, go))) {
            for (n, wire) in come.iter().enumerate() {
                rig.link(wires[*wire].0, wires[*wire].1);
                is_polled(n / 2, &(wires, come));
            }
            for wire in go {
                let (a, b) = wires[wire];
                rig.fleet
                    .change(move |change| change.unlink(a, b))
                    .expect("not stopped")
                    .expect("it is there");
                is_polled(0, &(wires, go));
            }
        }
    }
    rig.stop();
}

#[test]
fn a_port_under_several_devices_is_classified() {
    for workers in 1..=3 {
        let rig = Rig::new(workers, 1);
        let link = Far::of(&rig, 0, 0, (0..40).collect());
        let rules = [("src portrange 0-9", false), ("udp src portrange 0-19", false), ("src port 5", true)];
        let places = [0, workers - 1, workers / 2];
        let (_, _) = under_devices(&rig, &link, &rules, &places);
        rig.turn(8);
        assert_eq!(link.take(), (0..20).collect::<Vec<_>>());
        let account = rig.stop();
        let got: Vec<u64> = account.instances.iter().map(|instance| instance.packets).collect();
        assert_eq!(got, [10, 10, 1], "the last one sees what another takes");
        let copied = u64::from(workers > 1);
        assert_eq!((account.ledger.copied, account.ledger.consumed), (copied, copied));
        assert_eq!(account.ledger.dropped[DropReason::NoDevice], 20);
        assert_eq!(account.ledger.dropped.total(), 20);
        let at_port = account.port_devices[0].counters;
        assert_eq!((at_port.received, at_port.transmitted, at_port.unwanted, at_port.seen), (40, 20, 20, 1));
    }
}

/// Keeps the batches that it is sent, by the first bytes of their packets.
#[derive(Default)]
struct Batches(Arc<Mutex<Vec<Vec<u8>>>>, PortCounters);

impl Port for Batches {
    fn receive(&mut self, _pool: &Pool, _now: Nanos, _budget: usize, _out: &mut Vec<Packet>) {}
    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        self.1.ledger.delivered += packets.len() as u64;
        let bytes = packets.iter().map(|packet| pool.to_vec(packet)[0]).collect();
        self.0.lock().expect("not poisoned").push(bytes);
        pool.free_batch(packets.drain(..));
    }
    fn wake(&self) -> Wake<'_> {
        Wake::default()
    }
    fn counters(&self) -> &PortCounters {
        &self.1
    }
}

/// Packets for many devices stay together where the devices lead to one end, in their order, but for those of
/// a device that is watched.
#[test]
fn packets_for_devices_that_lead_to_one_end_go_there_as_one_batch() {
    let rig = Rig::new(1, 1);
    let offers: Vec<u8> = (0..40u16).map(|n| (n * 7 % 40) as u8).collect();
    let link = Far::of(&rig, 0, 0, offers.clone());
    let rules = ["src portrange 0-9", "src portrange 10-19", "src portrange 20-29", "src portrange 30-34"];
    let rules = rules.map(|rule| (rule, false));
    let id = rig.fleet.add_switch("port", Arc::new(at_port(&rules)), None).expect("few");
    rig.link(link.end(), End::Switch(id, SwitchPort(0)));
    let end = || {
        let (port, batches) = (Batches::default(), Arc::default());
        let port = Batches(Arc::clone(&batches), port.1);
        (rig.fleet.add_port(0, "end", rig.pools[0].1, Box::new(port)).expect("a worker"), batches)
    };
    let ((one, batches), (other, others)) = (end(), end());
    let mut programs = Vec::new();
    for (plug, port) in [(1, one), (2, one), (3, one), (4, other)] {
        let (device, program) = Plugs::of(&rig, settings(Mode::Direct, Share::Single, 1, 1));
        rig.link(End::Switch(id, SwitchPort(plug)), device.port(0));
        rig.fleet.lead(device.opener(0), End::Port(port)).expect("free");
        if plug == 3 {
            let (observer, _) = rig.add(0, 0, consume());
            let at = Place::Switch(device.0, None);
            let done = rig.fleet.change(|change| change.observe(observer, at, View::default()));
            done.expect("not stopped").expect("both are there");
        }
        programs.push(program);
    }
    rig.turn(8);
    let of = |from: u8, to: u8| offers.iter().copied().filter(|n| (from..to).contains(n)).collect();
    let mut got: Vec<Vec<u8>> = batches.lock().expect("not poisoned").clone();
    got.sort_by_key(Vec::len);
    let expected: [Vec<u8>; 2] = [of(20, 30), of(0, 20)];
    assert_eq!(got, expected, "one batch for two devices");
    let last: Vec<u8> = of(30, 35);
    assert_eq!(*others.lock().expect("not poisoned"), [last]);
    let counted: Vec<_> = programs.iter().map(|program| program.counters()).collect();
    let counted: Vec<_> = counted.iter().map(|it| (it.from_ports, it.bytes_from_ports)).collect();
    assert_eq!(counted, [(10, 600), (10, 600), (10, 600), (5, 300)]);
    let account = rig.stop();
    assert_eq!(account.ledger.dropped[DropReason::NoDevice], 5);
    assert_eq!(account.instances[0].packets, 10);
}

#[test]
fn a_device_without_a_receiver_counts_what_it_loses() {
    let rig = Rig::new(1, 1);
    let link = Far::of(&rig, 0, 0, vec![1, 2, 3]);
    let (device, program) = Plugs::of(&rig, settings(Mode::Direct, Share::Duplicate, 1, 0));
    rig.link(link.end(), device.port(0));
    rig.turn(2);
    assert_eq!(program.counters().unreceived, 3);
    assert_eq!(rig.stop().ledger.dropped[DropReason::NoDevice], 3);
}

#[test]
fn wires_that_lead_round_and_round_end() {
    let rig = Rig::new(1, 1);
    let link = Far::of(&rig, 0, 0, vec![1, 2, 3]);
    let (device, _) = Plugs::of(&rig, settings(Mode::Direct, Share::Duplicate, 2, 2));
    let id = rig.fleet.add_switch("port", Arc::new(at_port(&[("", false)])), None).expect("few");
    rig.link(link.end(), device.port(1));
    rig.link(device.opener(0), End::Switch(id, SwitchPort(0)));
    rig.link(device.port(0), End::Switch(id, SwitchPort(1)));
    rig.turn(2);
    let account = rig.stop();
    assert!(account.ledger.dropped[DropReason::HopBudget] > 0);
    assert_eq!(account.ledger.delivered, 0);
}

#[test]
fn devices_are_wired_to_ports_devices_alone_and_stay_what_they_are() {
    let rig = Rig::new(1, 1);
    let (one, _) = Plugs::of(&rig, settings(Mode::Direct, Share::Single, 1, 1));
    let (other, program) = Plugs::of(&rig, settings(Mode::Direct, Share::Single, 1, 1));
    let id = rig.fleet.add_switch("port", Arc::new(at_port(&[])), None).expect("few");
    let refused = rig.fleet.link(one.port(0), other.port(0));
    assert!(matches!(refused, Err(FleetError::Wire(WireError::TwoSwitches))), "{refused:?}");
    rig.link(one.port(0), End::Switch(id, SwitchPort(1)));
    let set = rig.fleet.change(|change| change.set_forwarding(id, program)).expect("not stopped");
    assert!(matches!(set, Err(FleetError::Wire(WireError::AnotherKind))), "{set:?}");
    rig.stop();
}

/// What has gathered outside while the worker stood comes no faster than it is worked off, where the port
/// feeds several and no one of them may hold it up.
#[test]
fn what_gathered_at_a_port_of_several_waits_outside() {
    const COUNT: usize = 3_000;
    let rig = Rig::simulated(1);
    let link = Far::of(&rig, 0, 0, (0..COUNT).map(|n| n as u8).collect());
    let (device, _) = Plugs::of(&rig, settings(Mode::Direct, Share::Duplicate, 1, 2));
    rig.link(link.end(), device.port(0));
    // Of what is polled in one turn it works off a part before the ports are looked at again.
    let slow = Manner { burn_each: rig.clock.cycles(Nanos(500)), ..consume() };
    for (n, manner) in [(0, slow), (1, consume())] {
        let opener = rig.add(0, 0, manner).0;
        rig.link(End::Instance(opener, 0), device.opener(n));
    }
    rig.turn(COUNT);
    let account = rig.stop();
    let got: Vec<u64> = account.instances.iter().map(|instance| instance.packets).collect();
    assert_eq!((got, account.ledger.dropped.total()), (vec![COUNT as u64; 2], 0));
}

/// Devices, openers and policies come and go while flows pass both ways over two devices, on one worker or
/// two, and what the devices count is what passes.
#[test]
fn changes_lose_no_packet() {
    for workers in [1, 2] {
        let rig = Rig::new(workers, 1);
        let total = 40_000;
        let ports = [rig.stream(0, 0, 0, total, 200), rig.stream(workers - 1, 0, 1, total, 200)];
        let f = rig.wire(workers - 1);
        let mut devices = Vec::new();
        for (n, port) in (0u16..).zip(ports) {
            let id = rig.fleet.add_switch("port", Arc::new(at_port(&[("", false)])), None).expect("few");
            let (device, program) = Plugs::of(&rig, settings(Mode::Direct, Share::Duplicate, 1, 1));
            rig.link(End::Port(port), End::Switch(id, SwitchPort(0)));
            rig.link(End::Switch(id, SwitchPort(1)), device.port(0));
            rig.link(device.opener(0), End::Instance(f, n));
            devices.push((id, device, program));
        }
        rig.start();
        for round in 0..60 {
            let (at, device, program) = &mut devices[round % 2];
            // A second opener, which gets copies, and a second device at the port, which sees everything.
            let seen = rig.add(round % workers, 0, consume()).0;
            let (second, _) = Plugs::of(&rig, settings(Mode::Direct, Share::Single, 1, 1));
            let two = Arc::new(Device::new(settings(Mode::Direct, Share::Duplicate, 1, 2), Some(program)));
            let one = Arc::new(Device::new(settings(Mode::Direct, Share::Duplicate, 1, 1), Some(&two)));
            let (at, id, extra) = (*at, device.0, device.opener(1));
            let plug = End::Switch(at, SwitchPort(2));
            let come = rig.fleet.change(|change| {
                change.set_forwarding(at, Arc::new(at_port(&[("", false), ("", true)])))?;
                change.link(plug, second.port(0))?;
                change.link(second.opener(0), End::Instance(seen, 1))?;
                change.link(extra, End::Instance(seen, 0))?;
                change.set_forwarding(id, two)
            });
            come.expect("not stopped").expect("it comes");
            let before = rig.flows.arrived(0);
            rig.wait("flows go on", || rig.flows.arrived(0) >= total.min(before + 100));
            rig.fleet.move_to(&[End::Instance(f, 0)], round / 2 % workers).expect("it moves");
            *program = one.clone();
            let go = rig.fleet.change(|change| {
                change.set_forwarding(id, one)?;
                change.set_forwarding(at, Arc::new(at_port(&[("", false)])))?;
                change.remove_switch(second.0);
                change.remove_instance(seen).map(|_| ())
            });
            go.expect("not stopped").expect("it goes");
        }
        rig.arrive(&[0, 1], total);
        let account = rig.stop();
        let lost: Vec<_> = account
            .ledger
            .dropped
            .nonzero()
            .filter(|(reason, _)| *reason != DropReason::HeldAtStop)
            .collect();
        assert!(lost.iter().all(|(reason, _)| *reason == DropReason::QueueFull), "{lost:?}");
        assert!(account.devices[0].counters.copied > 0, "the second opener got copies");
        for (port, device) in account.ports.iter().zip(&account.devices) {
            let (ledger, counted) = (&port.counters.ledger, device.counters);
            let passed = (ledger.received, ledger.delivered);
            assert_eq!((counted.from_ports, counted.from_openers), passed, "on {workers} workers");
        }
    }
}
