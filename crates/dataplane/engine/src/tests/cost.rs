//! What devices cost on a packet's way, beside a plain wire: `cargo test --release -p engine -- --ignored
//! --nocapture cost`. Each is a test of its own, so that valgrind counts the instructions of one of them:
//! packets and functions are the same in all, and the difference is that of the wires.

use super::*;
use encapsulation::{Encapsulation, Front, LayerKind, LayerSettings, Outer};
use virtual_device::{Device, DeviceSettings, Mode, Opener, PortDevices, Share, SwitchPort, Tunnels};

/// Functions of the chain, and turns in which a batch passes it.
const FUNCTIONS: usize = 8;
const TURNS: usize = 400;

/// Devices at a port of which each gets packets.
const DEVICES: u16 = 1000;

/// Brings a batch at each poll, and takes what it is sent.
#[derive(Default)]
struct Endless(PortCounters);

/// The same with UDP for one of the devices each, in no order.
#[derive(Default)]
struct Mixed(Endless, u32);

impl Port for Mixed {
    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        self.0.receive(pool, now, budget, out);
        for packet in out {
            self.1 = self.1.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let port = (((self.1 >> 16) * u32::from(DEVICES)) >> 16) as u16;
            let mut frame = [0; 60];
            (frame[12], frame[14], frame[17], frame[23]) = (8, 0x45, 46, 17);
            frame[36..38].copy_from_slice(&port.to_be_bytes());
            pool.write(packet, &frame).expect("it fits");
        }
    }
    fn transmit(&mut self, pool: &Pool, now: Nanos, packets: &mut Vec<Packet>) {
        self.0.transmit(pool, now, packets);
    }
    fn wake(&self) -> Wake<'_> {
        Wake::NOW
    }
    fn counters(&self) -> &PortCounters {
        self.0.counters()
    }
}

impl Port for Endless {
    fn receive(&mut self, pool: &Pool, _now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        for _ in 0..budget.min(32) {
            let Some(mut packet) = pool.allocate() else { return };
            pool.write(&mut packet, &[0; 60]).expect("it fits");
            self.0.ledger.received += 1;
            out.push(packet);
        }
    }
    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        self.0.ledger.delivered += packets.len() as u64;
        pool.free_batch(packets.drain(..));
    }
    fn wake(&self) -> Wake<'_> {
        Wake::NOW
    }
    fn counters(&self) -> &PortCounters {
        &self.0
    }
}

fn device(mode: Mode, ports: u16, openers: u16) -> Arc<Device> {
    let opener = |n| Opener { plug: SwitchPort(ports + n), side: None, receives: true };
    let openers = (0..openers).map(opener).collect();
    let ports = (0..ports).map(SwitchPort).collect();
    Arc::new(Device::new(DeviceSettings::new(mode, Share::Single, ports, openers), None))
}

/// Joins two ends by a wire, or by what stands for one.
type Join = fn(&mut Bench, Target, Target);

fn plain(bench: &mut Bench, a: Target, b: Target) {
    bench.link(a, b);
}

fn over(bench: &mut Bench, forwarding: impl Into<Forwarding>, a: Target, b: Target) {
    let id = bench.worker.add_switch("device", forwarding).expect("few");
    bench.link(a, Target::Switch(id, SwitchPort(0)));
    bench.link(Target::Switch(id, SwitchPort(1)), b);
}

fn rootless(bench: &mut Bench, a: Target, b: Target) {
    over(bench, device(Mode::Rootless, 0, 2), a, b);
}

fn direct(bench: &mut Bench, a: Target, b: Target) {
    over(bench, device(Mode::Direct, 1, 1), a, b);
}

/// The devices at a port, of which there is one, and that one.
fn both(bench: &mut Bench, a: Target, b: Target) {
    let rule = classifier::Rule { filter: None, priority: 0, class: 0, observes: false };
    let devices = Arc::new(PortDevices::new(SwitchPort(0), vec![(rule, SwitchPort(1))], None));
    let id = bench.worker.add_switch("port", devices).expect("few");
    bench.link(a, Target::Switch(id, SwitchPort(0)));
    direct(bench, Target::Switch(id, SwitchPort(1)), b);
}

/// Packets pass a chain, joined at its head and between its functions.
fn pass(name: &str, head: Join, between: Join) {
    let mut bench = Bench::new(&[4096]);
    let (from, to) =
        (bench.add_port(0, Box::<Endless>::default()), bench.add_port(0, Box::<Endless>::default()));
    let functions: Vec<_> = (0..FUNCTIONS).map(|_| bench.wire(0)).collect();
    head(&mut bench, from, Target::Instance(functions[0], 0));
    for pair in functions.windows(2) {
        between(&mut bench, Target::Instance(pair[0], 1), Target::Instance(pair[1], 0));
    }
    let last = Target::Instance(functions[FUNCTIONS - 1], 1);
    bench.worker.lead(last, to).expect("free");
    let begin = std::time::Instant::now();
    for _ in 0..TURNS {
        super::pass(&bench.worker.time.clock, LEAST);
        bench.worker.turn();
    }
    let took = begin.elapsed();
    let account = bench.worker.stop();
    assert_whole(&account);
    let packets = account.ledger.delivered;
    println!("{name}: {packets} packets, {:.2} ns each", took.as_nanos() as f64 / packets as f64);
}

#[test]
#[ignore = "a measurement, not a test"]
fn cost_of_wires() {
    pass("wires", plain, plain);
}

#[test]
#[ignore = "a measurement, not a test"]
fn cost_of_rootless_hops() {
    pass("rootless hops", plain, rootless);
}

#[test]
#[ignore = "a measurement, not a test"]
fn cost_of_direct_devices() {
    pass("direct devices", direct, direct);
}

#[test]
#[ignore = "a measurement, not a test"]
fn cost_of_a_device_over_a_port() {
    pass("devices over ports", both, both);
}

/// From a port past so many devices to another port.
fn pass_devices(name: &str, devices: u16) {
    let mut bench = Bench::new(&[4096]);
    let from = bench.add_port(0, Box::<Mixed>::default());
    let to = bench.add_port(0, Box::<Endless>::default());
    let rule = |port: u16| {
        let text = if devices == 1 { "udp".to_owned() } else { format!("udp dst port {port}") };
        let filter = Some(capture::Filter::parse(&text).expect("a filter"));
        (classifier::Rule { filter, priority: 0, class: 0, observes: false }, SwitchPort(port + 1))
    };
    if devices == 0 {
        bench.worker.lead(from, to).expect("free");
    } else {
        let rules = (0..devices).map(rule).collect();
        let at_port = Arc::new(PortDevices::new(SwitchPort(0), rules, None));
        let id = bench.worker.add_switch("port", at_port).expect("few");
        bench.link(from, Target::Switch(id, SwitchPort(0)));
        for plug in 1..=devices {
            let one = bench.worker.add_switch("device", device(Mode::Direct, 1, 1)).expect("few");
            bench.link(Target::Switch(id, SwitchPort(plug)), Target::Switch(one, SwitchPort(0)));
            bench.worker.lead(Target::Switch(one, SwitchPort(1)), to).expect("free");
        }
    }
    let begin = std::time::Instant::now();
    for _ in 0..TURNS {
        super::pass(&bench.worker.time.clock, LEAST);
        bench.worker.turn();
    }
    let took = begin.elapsed();
    let account = bench.worker.stop();
    assert_whole(&account);
    let packets = account.ledger.delivered;
    println!("{name}: {packets} packets, {:.2} ns each", took.as_nanos() as f64 / packets as f64);
}

#[test]
#[ignore = "a measurement, not a test"]
fn cost_of_no_device_at_a_port() {
    pass_devices("no device", 0);
}

#[test]
#[ignore = "a measurement, not a test"]
fn cost_of_one_device_at_a_port() {
    pass_devices("one device", 1);
}

#[test]
#[ignore = "a measurement, not a test"]
fn cost_of_a_thousand_devices_at_a_port() {
    pass_devices("a thousand devices", DEVICES);
}

/// Brings a frame in each packet.
struct Framed(Endless, Vec<u8>);

impl Port for Framed {
    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        self.0.receive(pool, now, budget, out);
        out.iter_mut().for_each(|packet| pool.write(packet, &self.1).expect("it fits"));
    }
    fn transmit(&mut self, pool: &Pool, now: Nanos, packets: &mut Vec<Packet>) {
        self.0.transmit(pool, now, packets);
    }
    fn wake(&self) -> Wake<'_> {
        Wake::NOW
    }
    fn counters(&self) -> &PortCounters {
        self.0.counters()
    }
}

fn vxlan() -> Encapsulation {
    let outer = Outer {
        local: [192, 0, 2, 1].into(),
        remote: [192, 0, 2, 2].into(),
        ttl: 64,
        services: None,
        dont_fragment: true,
        checksum: false,
        link: ([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]),
    };
    Encapsulation::new(&[LayerSettings::Vxlan { vni: 7, outer }]).expect("one layer")
}

/// Through a device between two ports, with VXLAN around packets of the first one or not.
fn pass_tunnel(name: &str, with_tunnel: bool, tunnels: Option<Tunnels>, is_outward: bool) {
    let mut inside = vec![2; 60];
    inside[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
    let mut front = Front::NONE;
    vxlan().put_on(&inside, 60, 9, 1, &mut front).expect("a frame");
    let frame = if with_tunnel { [front.bytes(), &inside].concat() } else { inside };
    let mut bench = Bench::new(&[4096]);
    bench.pools[0].0.keep_headers();
    let from = bench.add_port(0, Box::new(Framed(Endless::default(), frame)));
    let to = bench.add_port(0, Box::<Endless>::default());
    let opener = Opener { plug: SwitchPort(1), side: None, receives: true };
    let mut settings = DeviceSettings::new(Mode::Direct, Share::Single, vec![SwitchPort(0)], vec![opener]);
    settings.tunnels.extend(tunnels.map(|tunnels| (0, Arc::new(tunnels))));
    let id = bench.worker.add_switch("device", Arc::new(Device::new(settings, None))).expect("few");
    let (first, second) = if is_outward { (1, 0) } else { (0, 1) };
    bench.worker.lead(from, Target::Switch(id, SwitchPort(first))).expect("free");
    bench.worker.lead(Target::Switch(id, SwitchPort(second)), to).expect("free");
    let begin = std::time::Instant::now();
    for _ in 0..TURNS {
        super::pass(&bench.worker.time.clock, LEAST);
        bench.worker.turn();
    }
    let took = begin.elapsed();
    let account = bench.worker.stop();
    assert_whole(&account);
    assert_eq!(account.ledger.dropped.total(), 0);
    let packets = account.ledger.delivered;
    println!("{name}: {packets} packets, {:.2} ns each", took.as_nanos() as f64 / packets as f64);
}

#[test]
#[ignore = "a measurement, not a test"]
fn cost_of_no_tunnel_inward() {
    pass_tunnel("inward without a tunnel", true, None, false);
}

#[test]
#[ignore = "a measurement, not a test"]
fn cost_of_taking_vxlan_off() {
    let tunnels = Tunnels { decapsulate: vec![LayerKind::Vxlan], encapsulate: None, next_hop: None };
    pass_tunnel("vxlan off", true, Some(tunnels), false);
}

#[test]
#[ignore = "a measurement, not a test"]
fn cost_of_no_tunnel_outward() {
    pass_tunnel("outward without a tunnel", false, None, true);
}

#[test]
#[ignore = "a measurement, not a test"]
fn cost_of_putting_vxlan_on() {
    let tunnels = Tunnels { decapsulate: Vec::new(), encapsulate: Some(vxlan()), next_hop: None };
    pass_tunnel("vxlan on", false, Some(tunnels), true);
}
