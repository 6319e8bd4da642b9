//! Tunnels of devices: what functions see, what leaves, what is refused.

use super::stream::Rig;
use super::*;
use encapsulation::{Encapsulation, LayerKind, LayerSettings, Outer};
use nf_abi::offload;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use virtual_device::{Device, DeviceSettings, Mode, Opener, Share, SwitchPort, Tunnels};

const OPENER: SwitchPort = SwitchPort(100);

/// A frame with its record.
type Frame = (Vec<u8>, nf_abi::PacketRecord);
/// What was sent.
type Sent = Arc<Mutex<Vec<Frame>>>;

/// A port that has frames, and keeps those it is sent with their records.
struct Wire {
    offers: Vec<Frame>,
    sent: Sent,
    mtu: Option<u32>,
    counters: PortCounters,
}

impl Port for Wire {
    fn receive(&mut self, pool: &Pool, _now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        let count = budget.min(self.offers.len());
        for (frame, record) in self.offers.drain(..count) {
            self.counters.ledger.received += 1;
            let mut packet = pool.allocate().expect("a large pool");
            packet.edit(|own| *own = record);
            pool.write(&mut packet, &frame).expect("it fits");
            out.push(packet);
        }
    }
    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        self.counters.ledger.delivered += packets.len() as u64;
        for packet in packets.drain(..) {
            self.sent.lock().expect("not poisoned").push((pool.to_vec(&packet), packet.shown()));
            pool.free(packet);
        }
    }
    fn wake(&self) -> Wake<'_> {
        Wake::default()
    }
    fn mtu(&self) -> Option<u32> {
        self.mtu
    }
    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

/// An IPv4 packet of UDP, told apart by its first byte and its ports.
fn frame(name: u8) -> Vec<u8> {
    let mut frame = vec![0; 60];
    (frame[0], frame[6], frame[12], frame[14], frame[17], frame[23]) = (name, 2, 8, 0x45, 46, 17);
    (frame[26], frame[30], frame[35]) = (10, 10, name);
    let sum = packet::checksum::of(&frame[14..34]).to_be_bytes();
    frame[24..26].copy_from_slice(&sum);
    frame
}

fn outer(last: u8) -> Outer {
    Outer {
        local: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        remote: IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)),
        ttl: 64,
        services: Some(0),
        dont_fragment: true,
        checksum: false,
        link: ([2, 0, 0, 0, 0, last], [2, 0, 0, 0, 0, 1]),
    }
}

fn vxlan(vni: u32) -> Encapsulation {
    Encapsulation::new(&[LayerSettings::Vxlan { vni, outer: outer(9) }]).expect("one layer")
}

/// A frame with the headers of a tunnel in front, of the flow hash 0.
fn inside(frame: &[u8], of: &Encapsulation) -> Vec<u8> {
    let mut front = encapsulation::Front::NONE;
    of.put_on(frame, frame.len() as u32, 0, 1, &mut front).expect("a frame");
    if front.is_incomplete() {
        front.complete(packet::checksum::Sum::ZERO.add_bytes(&frame[front.removes()..]));
    }
    [front.bytes(), &frame[front.removes()..]].concat()
}

fn tunnels(decapsulate: &[LayerKind], encapsulate: Option<Encapsulation>) -> Arc<Tunnels> {
    Arc::new(Tunnels { decapsulate: decapsulate.to_vec(), encapsulate, next_hop: None })
}

/// A bridge between two ports, over which a function passes what the other end of each is sent.
struct Bridge {
    rig: Rig,
    sent: [Sent; 2],
    /// The first bytes of what the function saw.
    unwrapped: Arc<Mutex<Vec<u8>>>,
}

/// What of a bridge is where: workers of the ports and of the function, pools of the same.
type Places = ([usize; 3], [usize; 3]);
const TOGETHER: Places = ([0; 3], [0; 3]);

impl Bridge {
    fn new((workers, pools): Places, offers: [Vec<Frame>; 2], tunnels: [Option<Arc<Tunnels>>; 2]) -> Bridge {
        Bridge::with_mtu(None, (workers, pools), offers, tunnels)
    }

    /// With a link behind the second port that takes packets of so many bytes.
    fn with_mtu(
        mtu: Option<u32>,
        (workers, pools): Places,
        offers: [Vec<Frame>; 2],
        tunnels: [Option<Arc<Tunnels>>; 2],
    ) -> Bridge {
        let rig = Rig::new(workers.iter().max().expect("three") + 1, pools.iter().max().expect("three") + 1);
        rig.pools.iter().for_each(|(pool, _)| pool.keep_headers());
        let opener = Opener { plug: OPENER, side: None, receives: true };
        let ports = vec![SwitchPort(0), SwitchPort(1)];
        let mut settings = DeviceSettings::new(Mode::Bridge, Share::Single, ports, vec![opener]);
        settings.tunnels = tunnels.into_iter().enumerate().filter_map(|(n, it)| Some((n, it?))).collect();
        let device = Arc::new(Device::new(settings, None));
        // Workers find it out at their ports, now and then.
        device.set_mtu(SwitchPort(1), mtu);
        let id = rig.fleet.add_switch("device", device, None).expect("few devices");
        let mut sent = Vec::new();
        for (n, offers) in offers.into_iter().enumerate() {
            let (kept, counters) = (Arc::default(), PortCounters::default());
            let wire = Wire { offers, sent: Arc::clone(&kept), mtu: mtu.filter(|_| n == 1), counters };
            let port = rig.fleet.add_port(workers[n], "wire", rig.pools[pools[n]].1, Box::new(wire));
            rig.link(End::Port(port.expect("a worker")), End::Switch(id, SwitchPort(n as u16)));
            sent.push(kept);
        }
        let unwrapped: Arc<Mutex<Vec<u8>>> = Arc::default();
        let seen = unwrapped.clone();
        let echo = Manner::deciding(move |byte, ingress| {
            seen.lock().expect("not poisoned").push(byte);
            Action::Give(Verdict::Interface(ingress))
        });
        let (function, _) = rig.add(workers[2], pools[2], echo);
        rig.link(End::Switch(id, OPENER), End::Instance(function, 0));
        let sent = sent.try_into().expect("two ports");
        Bridge { rig, sent, unwrapped }
    }

    fn sent(&self, port: usize) -> Vec<Vec<u8>> {
        let sent = self.sent[port].lock().expect("not poisoned");
        sent.iter().map(|(frame, _)| frame.clone()).collect()
    }
}

fn plain(frames: impl IntoIterator<Item = Vec<u8>>) -> Vec<Frame> {
    frames.into_iter().map(|frame| (frame, nf_abi::PacketRecord::default())).collect()
}

fn echo() -> Manner {
    Manner::deciding(|_, ingress| Action::Give(Verdict::Interface(ingress)))
}

/// Each place of ports and function: on one worker or three, of one tenant or two.
const PLACES: [Places; 4] = [TOGETHER, ([0, 1, 2], [0; 3]), ([0; 3], [0, 0, 1]), ([0, 1, 2], [0, 0, 1])];

#[test]
fn what_was_taken_off_is_put_back_by_the_other_port() {
    for places in PLACES {
        let layers = [LayerKind::Vxlan];
        let frames: Vec<_> = (1..=40).map(|name| inside(&frame(name), &vxlan(7))).collect();
        let both = [tunnels(&layers, None), tunnels(&layers, None)].map(Some);
        let bridge = Bridge::new(places, [plain(frames.clone()), Vec::new()], both);
        bridge.rig.turn(12);
        assert_eq!(*bridge.unwrapped.lock().expect("not poisoned"), (1..=40).collect::<Vec<u8>>());
        assert_eq!(bridge.sent(1), frames, "{places:?}");
        assert!(bridge.sent(0).is_empty());
        let account = bridge.rig.stop();
        assert_eq!(account.ledger.dropped.total(), 0, "{places:?}");
    }
}

#[test]
fn what_leaves_by_another_kind_of_port_gets_its_headers() {
    for places in PLACES {
        let frames: Vec<_> = (1..=40).map(|name| inside(&frame(name), &vxlan(7))).collect();
        let tagged = Encapsulation::new(&[LayerSettings::Vlan { id: 5, priority: 0, service: false }]);
        let tagged = tagged.expect("one layer");
        let sides = [tunnels(&[LayerKind::Vxlan], Some(vxlan(7))), tunnels(&[LayerKind::Vlan], Some(tagged))];
        let back: Vec<_> = (100..=120).map(|name| inside(&frame(name), &tagged)).collect();
        let bridge = Bridge::new(places, [plain(frames), plain(back)], sides.map(Some));
        bridge.rig.turn(12);
        assert_eq!(bridge.sent(1), (1..=40).map(|name| inside(&frame(name), &tagged)).collect::<Vec<_>>());
        let (sent, record) = bridge.sent[0].lock().expect("not poisoned")[0].clone();
        assert_eq!(sent.len(), frame(1).len() + 50);
        assert_eq!((sent[14 + 9], &sent[36..38], &sent[46..49]), (17, &[0x12, 0xb5][..], &[0, 0, 7][..]));
        assert_eq!(sent[50..], frame(100), "{places:?}");
        assert_eq!(record.vlan, 5, "{places:?}");
        // Flows have source ports of their own, although nothing reads the flow hash of packets that come in.
        let ports: BTreeSet<[u8; 2]> = bridge.sent(0).iter().map(|frame| [frame[34], frame[35]]).collect();
        assert!(ports.len() > 15 && ports.iter().all(|port| port[0] >= 0xc0), "{ports:?}");
        assert!(!bridge.rig.fleet.computes_flow_hash(0));
        assert_eq!(bridge.rig.stop().ledger.dropped.total(), 0);
    }
}

#[test]
fn records_say_what_was_taken_off() {
    let both = [Some(tunnels(&[LayerKind::Vxlan], None)), None];
    let mut frames = plain([inside(&frame(1), &vxlan(0xabcdef))]);
    // Nothing inside was verified.
    frames[0].1.offload_flags = offload::CHECKSUM_VALID;
    let bridge = Bridge::new(TOGETHER, [frames, Vec::new()], both);
    bridge.rig.turn(4);
    let (sent, record) = bridge.sent[1].lock().expect("not poisoned")[0].clone();
    assert_eq!((sent, record.tunnel_type, record.tunnel_key), (frame(1), nf_abi::tunnel::VXLAN, 0xabcdef));
    assert_eq!(record.offload_flags, 0);
    bridge.rig.stop();
}

/// A function that may write can move any of a packet's bytes to where a checksum is still to be written.
#[test]
fn what_a_function_moved_under_a_checksum_is_written_before_another_tenant_looks() {
    let at = |csum_start, csum_offset| nf_abi::PacketRecord {
        offload_flags: offload::NEEDS_CHECKSUM,
        csum_start,
        csum_offset,
        ..Default::default()
    };
    // The checksum of UDP, the port that it goes to, a place outside of the packet.
    let offers = [at(34, 6), at(34, 2), at(34, 90)].map(|record| (frame(1), record));
    let bridge = Bridge::new(([0; 3], [0, 0, 1]), [offers.to_vec(), Vec::new()], [None, None]);
    bridge.rig.turn(8);
    let sent = bridge.sent[1].lock().expect("not poisoned").clone();
    let [(later, unfinished), (now, done)] = sent.as_slice() else { panic!("{} went on", sent.len()) };
    assert_eq!((later, unfinished.offload_flags), (&frame(1), offload::NEEDS_CHECKSUM));
    assert_eq!((now[36..38] == frame(1)[36..38], done.offload_flags), (false, 0));
    let dropped = bridge.rig.stop().ledger.dropped;
    assert_eq!((dropped[DropReason::Malformed], dropped.total()), (1, 1));
}

#[test]
fn what_has_no_such_headers_and_what_needs_some_is_dropped_with_a_reason() {
    for places in PLACES {
        let vxlans = [LayerKind::Vxlan];
        let offers = [plain([frame(1), inside(&frame(2), &vxlan(7))]), plain([frame(3)])];
        // What came untouched by the second port has nothing to put on at the first, and the configuration
        // says nothing.
        let bridge = Bridge::new(places, offers, [Some(tunnels(&vxlans, None)), None]);
        bridge.rig.turn(12);
        assert_eq!((bridge.sent(0), bridge.sent(1)), (vec![], vec![frame(2)]));
        let dropped = bridge.rig.stop().ledger.dropped;
        let reasons = (dropped[DropReason::BadTunnel], dropped[DropReason::NoEncapsulation], dropped.total());
        assert_eq!(reasons, (1, 1, 2), "{places:?}");
    }
}

/// Headers are for where they came from: back by the same port they would lead here again.
#[test]
fn what_goes_back_by_its_port_gets_the_ports_own_headers() {
    for own in [None, Some(vxlan(8))] {
        let opener = Opener { plug: OPENER, side: Some(0), receives: true };
        let rig = Rig::new(1, 1);
        rig.pools[0].0.keep_headers();
        let mut settings =
            DeviceSettings::new(Mode::Direct, Share::Single, vec![SwitchPort(0)], vec![opener]);
        settings.tunnels = [(0, tunnels(&[LayerKind::Vxlan], own))].into();
        let id = rig.fleet.add_switch("device", Arc::new(Device::new(settings, None)), None).expect("few");
        let sent = Arc::default();
        let offers = plain([inside(&frame(1), &vxlan(7))]);
        let wire = Wire { offers, sent: Arc::clone(&sent), mtu: None, counters: PortCounters::default() };
        let port = rig.fleet.add_port(0, "wire", rig.pools[0].1, Box::new(wire)).expect("a worker");
        rig.link(End::Port(port), End::Switch(id, SwitchPort(0)));
        let (function, _) = rig.add(0, 0, echo());
        rig.link(End::Switch(id, OPENER), End::Instance(function, 0));
        rig.turn(4);
        let dropped = rig.stop().ledger.dropped;
        let sent = sent.lock().expect("not poisoned");
        match own {
            None => assert_eq!((sent.len(), dropped[DropReason::NoEncapsulation]), (0, 1)),
            Some(_) => assert_eq!((sent[0].0[46..49].to_vec(), dropped.total()), (vec![0, 0, 8], 0)),
        }
    }
}

/// TCP that is still to be cut: a tunnel carries segments.
#[test]
fn what_is_still_to_be_cut_is_cut_before_it_gets_headers() {
    let mut whole = vec![0; 54 + 1500];
    (whole[0], whole[6], whole[12], whole[14], whole[23], whole[46]) = (1, 2, 8, 0x45, 6, 0x50);
    whole[16..18].copy_from_slice(&1540u16.to_be_bytes());
    let record = nf_abi::PacketRecord {
        gso_type: offload::GSO_TCPV4,
        gso_size: 700,
        offload_flags: offload::NEEDS_CHECKSUM,
        csum_start: 34,
        csum_offset: 16,
        ..nf_abi::PacketRecord::default()
    };
    for places in PLACES {
        let offers = [vec![(whole.clone(), record)], Vec::new()];
        let bridge = Bridge::new(places, offers, [None, Some(tunnels(&[], Some(vxlan(7))))]);
        bridge.rig.turn(12);
        let sent = bridge.sent[1].lock().expect("not poisoned").clone();
        let lengths: Vec<_> = sent.iter().map(|(frame, _)| frame.len()).collect();
        assert_eq!(lengths, [804, 804, 204], "{places:?} {:?}", bridge.rig.balanced().ledger);
        for (frame, record) in &sent {
            assert_eq!(record.gso_type, offload::GSO_NONE);
            assert_eq!((record.csum_start, record.csum_offset), (84, 16), "inside of the tunnel");
            let total = u16::from_be_bytes([frame[16], frame[17]]);
            assert_eq!(usize::from(total) + 14, frame.len(), "the outer header speaks of the segment");
        }
        let account = bridge.rig.stop();
        assert_eq!((account.ledger.split, account.ledger.dropped.total()), (2, 0), "{places:?}");
    }
}

/// A packet of UDP with so much payload, that may be fragmented or not.
fn datagram(payload: usize, may: bool) -> Vec<u8> {
    let mut frame = frame(1);
    (frame[0], frame[20]) = (2, if may { 0 } else { 0x40 });
    frame[16..18].copy_from_slice(&(28 + payload as u16).to_be_bytes());
    frame[24..26].copy_from_slice(&[0, 0]);
    let sum = packet::checksum::of(&frame[14..34]).to_be_bytes();
    frame[24..26].copy_from_slice(&sum);
    frame.resize(42 + payload, 7);
    frame
}

#[test]
fn what_is_longer_than_the_link_ahead_is_fragmented_if_it_may_be() {
    for places in PLACES {
        for (tunnel, added) in [(None, 0), (Some(tunnels(&[], Some(vxlan(7)))), 50)] {
            let offers = [plain([datagram(1200, true), datagram(900, true)]), Vec::new()];
            let bridge = Bridge::with_mtu(Some(1000), places, offers, [None, tunnel]);
            bridge.rig.turn(12);
            let sent = bridge.sent(1);
            let lengths: Vec<_> = sent.iter().map(Vec::len).collect();
            let most = (1000 - added - 20) / 8 * 8;
            let parts = [34 + added + most, 34 + added + (1208 - most), 42 + added + 900];
            assert_eq!(lengths, parts, "{places:?}");
            assert!(lengths.iter().all(|length| *length <= 1014));
            let account = bridge.rig.stop();
            assert_eq!((account.ledger.split, account.ledger.dropped.total()), (1, 0), "{places:?}");
        }
    }
}

#[test]
fn the_sender_of_what_is_longer_than_the_link_ahead_is_told() {
    for places in PLACES {
        for (tunnel, added) in [(None, 0), (Some(tunnels(&[], Some(vxlan(7)))), 50)] {
            let offers = [plain([datagram(1200, false)]), Vec::new()];
            let bridge = Bridge::with_mtu(Some(1000), places, offers, [None, tunnel]);
            bridge.rig.turn(12);
            assert!(bridge.sent(1).is_empty());
            let answers = bridge.sent(0);
            let [answer] = &answers[..] else { panic!("one answer: {answers:?}") };
            let mtu: u16 = 1000 - added;
            assert_eq!(
                (answer[34], answer[35], &answer[40..42]),
                (3, 4, &mtu.to_be_bytes()[..]),
                "{places:?}"
            );
            let ledger = bridge.rig.stop().ledger;
            assert_eq!(
                (ledger.generated, ledger.dropped[DropReason::TooLong], ledger.dropped.total()),
                (1, 1, 1)
            );
        }
    }
}

/// Datagrams of so much payload each, still to be cut, which may be fragmented or not.
fn whole(payload: usize, each: u16, may: bool) -> Frame {
    let mut frame = datagram(payload, may);
    frame[38..40].copy_from_slice(&(8 + payload as u16).to_be_bytes());
    let record = nf_abi::PacketRecord {
        offload_flags: offload::NEEDS_CHECKSUM,
        csum_start: 34,
        csum_offset: 6,
        gso_type: offload::GSO_UDP_L4,
        gso_size: each,
        ..nf_abi::PacketRecord::default()
    };
    (frame, record)
}

/// What counts of a packet that is still to be cut is how long its segments are.
#[test]
fn segments_that_are_longer_than_the_link_ahead_do_not_leave_whole() {
    // They fit, to the byte.
    let bridge =
        Bridge::with_mtu(Some(1000), TOGETHER, [vec![whole(1800, 972, false)], Vec::new()], [None, None]);
    bridge.rig.turn(12);
    assert_eq!(bridge.sent(1).iter().map(Vec::len).collect::<Vec<_>>(), [42 + 1800]);
    bridge.rig.stop();

    let bridge =
        Bridge::with_mtu(Some(1000), TOGETHER, [vec![whole(1800, 973, false)], Vec::new()], [None, None]);
    bridge.rig.turn(12);
    let answers = bridge.sent(0);
    let [answer] = &answers[..] else { panic!("one answer: {answers:?}") };
    assert_eq!((answer[34], answer[35], &answer[40..42]), (3, 4, &1000u16.to_be_bytes()[..]));
    let ledger = bridge.rig.stop().ledger;
    assert_eq!((ledger.dropped[DropReason::TooLong], ledger.dropped.total()), (1, 1));

    // Two datagrams, of which the second fits; of the first come two fragments.
    let bridge =
        Bridge::with_mtu(Some(1000), TOGETHER, [vec![whole(1800, 1200, true)], Vec::new()], [None, None]);
    bridge.rig.turn(12);
    let lengths: Vec<_> = bridge.sent(1).iter().map(Vec::len).collect();
    assert_eq!(lengths, [34 + 976, 34 + 1208 - 976, 42 + 600]);
    let ledger = bridge.rig.stop().ledger;
    assert_eq!((ledger.split, ledger.dropped.total()), (2, 0));
}

/// A sender that does not listen is told so often and no more.
#[test]
fn answers_are_limited() {
    let offers = [plain((0..200).map(|_| datagram(1200, false))), Vec::new()];
    let bridge = Bridge::with_mtu(Some(1000), TOGETHER, offers, [None, None]);
    bridge.rig.turn(40);
    let told = bridge.sent(0).len();
    assert!((50..200).contains(&told), "{told}");
    let ledger = bridge.rig.stop().ledger;
    assert_eq!((ledger.generated, ledger.dropped[DropReason::TooLong]), (told as u64, 200));
}

/// A direct device over a port, with what its packets have around them.
fn direct(rig: &Rig, offers: Vec<Frame>, tunnels: Arc<Tunnels>, mtu: Option<u32>) -> (End, Sent) {
    let opener = Opener { plug: OPENER, side: None, receives: true };
    let mut settings = DeviceSettings::new(Mode::Direct, Share::Single, vec![SwitchPort(0)], vec![opener]);
    settings.tunnels = [(0, tunnels)].into();
    let device = Arc::new(Device::new(settings, None));
    device.set_mtu(SwitchPort(0), mtu);
    let id = rig.fleet.add_switch("device", device, None).expect("few devices");
    let sent = Sent::default();
    let wire = Wire { offers, sent: sent.clone(), mtu, counters: PortCounters::default() };
    let port = rig.fleet.add_port(0, "wire", rig.pools[0].1, Box::new(wire)).expect("a worker");
    rig.link(End::Port(port), End::Switch(id, SwitchPort(0)));
    (End::Switch(id, OPENER), sent)
}

/// Each is the first port of its device, and another port all the same.
#[test]
fn what_was_taken_off_at_one_device_is_put_back_at_another() {
    let rig = Rig::new(1, 1);
    rig.pools[0].0.keep_headers();
    let frames: Vec<_> = (1..=9).map(|name| inside(&frame(name), &vxlan(7))).collect();
    let (left, _) = direct(&rig, plain(frames.clone()), tunnels(&[LayerKind::Vxlan], None), None);
    let (right, sent) = direct(&rig, Vec::new(), tunnels(&[LayerKind::Vxlan], None), None);
    let between = rig.wire(0);
    rig.link(left, End::Instance(between, 0));
    rig.link(End::Instance(between, 1), right);
    rig.turn(4);
    let sent = sent.lock().expect("not poisoned");
    assert_eq!(sent.iter().map(|(frame, _)| frame.clone()).collect::<Vec<_>>(), frames);
    assert_eq!(rig.stop().ledger.dropped.total(), 0);
}

/// A tag of the packet's own is inside of the tunnel, and counts; in front of the frame it does not.
#[test]
fn tags_count_inside_of_a_tunnel() {
    let tagged = |payload: usize| {
        let frame = datagram(payload, false);
        [&frame[..12], &[0x81, 0, 0, 9], &frame[12..]].concat()
    };
    for (tunnel, fits) in [(None, 1000 - 28), (Some(tunnels(&[], Some(vxlan(7)))), 1000 - 28 - 50 - 4)] {
        let offers = [plain([tagged(fits), tagged(fits + 1)]), Vec::new()];
        let bridge = Bridge::with_mtu(Some(1000), TOGETHER, offers, [None, tunnel]);
        bridge.rig.turn(8);
        let (passed, answers) = (bridge.sent(1), bridge.sent(0));
        let is_answer = |answer: &Vec<u8>| answer[44..46] == (fits as u16 + 28).to_be_bytes();
        assert_eq!((passed.len(), answers.len()), (1, 1), "{fits}");
        assert!(is_answer(&answers[0]), "{:?}", &answers[0][38..50]);
        bridge.rig.stop();
    }
}

/// Over IPv6, where a receiver drops what has none: put back anew, with the checksum inside complete or not.
#[test]
fn checksums_of_udp_are_verified_and_put_back() {
    let outer =
        Outer { local: IpAddr::from([1; 16]), remote: IpAddr::from([2; 16]), checksum: true, ..outer(9) };
    let around = Encapsulation::new(&[LayerSettings::Geneve { vni: 7, outer }]).expect("one layer");
    // The checksum of what is inside, and what its sender leaves there to be completed.
    let udp = 14 + 20;
    let mut complete = frame(3);
    complete[udp + 4..udp + 6].copy_from_slice(&26u16.to_be_bytes());
    let unfinished = [0x12, 0x34];
    complete[udp + 6..udp + 8].copy_from_slice(&unfinished);
    let sum = packet::checksum::of(&complete[udp..]).to_be_bytes();
    complete[udp + 6..udp + 8].copy_from_slice(&sum);
    let whole = inside(&complete, &around);
    let at = whole.len() - complete.len() + udp;
    let mut to_finish = whole.clone();
    to_finish[at + 6..at + 8].copy_from_slice(&unfinished);
    let partial = nf_abi::PacketRecord {
        offload_flags: offload::NEEDS_CHECKSUM,
        csum_start: at as u16,
        csum_offset: 6,
        ..Default::default()
    };
    let mut wrong = inside(&frame(2), &around);
    *wrong.last_mut().expect("bytes") ^= 1;
    let valid = nf_abi::PacketRecord { offload_flags: offload::CHECKSUM_VALID, ..Default::default() };
    for places in PLACES {
        let good = inside(&frame(1), &around);
        let mut offers = plain([good.clone(), wrong.clone()]);
        offers.extend([(to_finish.clone(), partial), (wrong.clone(), valid)]);
        let both = [tunnels(&[LayerKind::Geneve], None), tunnels(&[LayerKind::Geneve], None)].map(Some);
        let bridge = Bridge::new(places, [offers, Vec::new()], both);
        bridge.rig.turn(12);
        let sent = bridge.sent(1);
        assert_eq!(sent[..2], [good, to_finish.clone()], "{places:?}");
        // What was verified before it came is put back with a right one.
        assert_eq!((sent.len(), sent[2][60..62] == wrong[60..62]), (3, false));
        let dropped = bridge.rig.stop().ledger.dropped;
        assert_eq!((dropped[DropReason::BadTunnel], dropped.total()), (1, 1), "{places:?}");
    }
}
