//! What stations get, what goes on, and that nothing is lost on either way.

use super::*;
use crate::testing::{NOW, Particular, assert_conserved, assert_particular, packets, pool};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, RwLock};
use telemetry::DropReason;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// A port whose outside is two lists.
#[derive(Default)]
struct Wire {
    incoming: Arc<Mutex<VecDeque<Vec<u8>>>>,
    outgoing: Arc<Mutex<Vec<Vec<u8>>>>,
    is_down: Arc<AtomicBool>,
    counters: PortCounters,
}

impl Port for Wire {
    fn receive(&mut self, pool: &Pool, _: Nanos, budget: usize, out: &mut Vec<Packet>) {
        for frame in self.incoming.lock().expect("a test").drain(..).take(budget) {
            self.counters.ledger.received += 1;
            out.extend(packets(pool, [&frame[..]]));
        }
    }

    fn transmit(&mut self, pool: &Pool, _: Nanos, packets: &mut Vec<Packet>) {
        self.outgoing.lock().expect("a test").extend(packets.iter().map(|packet| pool.to_vec(packet)));
        self.counters.deliver(pool, packets);
    }

    fn wake(&self) -> Wake<'_> {
        Wake::default()
    }

    fn status(&self) -> PortStatus {
        match self.is_down.load(SeqCst) {
            true => PortStatus::Down("no carrier".to_owned()),
            false => PortStatus::Up,
        }
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }
}

pub(super) struct Bench {
    pool: Pool,
    pub(super) port: StationPort,
    incoming: Arc<Mutex<VecDeque<Vec<u8>>>>,
    pub(super) outgoing: Arc<Mutex<Vec<Vec<u8>>>>,
    is_down: Arc<AtomicBool>,
}

impl Bench {
    pub(super) fn new() -> Bench {
        let wire = Wire::default();
        let (incoming, outgoing) = (wire.incoming.clone(), wire.outgoing.clone());
        let is_down = wire.is_down.clone();
        let port = StationPort::new(Box::new(wire)).expect("descriptors");
        Bench { pool: pool(1024), port, incoming, outgoing, is_down }
    }

    /// Has these come in; what goes on.
    pub(super) fn receive(&mut self, frames: impl IntoIterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
        self.incoming.lock().expect("a test").extend(frames);
        let mut out = Vec::new();
        self.port.receive(&self.pool, NOW, 1024, &mut out);
        assert_conserved(&self.port, &self.pool, 0, out.len());
        let went_on = out.iter().map(|packet| self.pool.to_vec(packet)).collect();
        // What is in the test's hands is counted as delivered elsewhere.
        self.port.ledger.delivered += out.len() as u64;
        self.pool.free_batch(out);
        went_on
    }

    fn is_readable(&self) -> bool {
        let readable = self.port.wake().readable.expect("its own descriptor");
        let mut waits = [rustix::event::PollFd::from_borrowed_fd(readable, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut waits, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1)
    }
}

pub(super) fn identity(addresses: &[&str]) -> Identity {
    let addresses = addresses.iter().map(|text| text.parse::<IpAddr>().expect("an address")).collect();
    Identity {
        mac: MAC,
        dhcp: true,
        is_shared: false,
        addresses: Arc::new(RwLock::new(addresses)),
        awaited: Arc::default(),
        around: Around::Nothing,
    }
}

fn frame(destination: [u8; 6], ethertype: u16, rest: &[u8]) -> Vec<u8> {
    let mut frame = destination.to_vec();
    frame.extend([2, 0, 0, 0, 0, 1]);
    frame.extend(ethertype.to_be_bytes());
    frame.extend(rest);
    frame.resize(frame.len().max(60), 0);
    frame
}

fn ipv4(protocol: u8, destination: [u8; 4], fragment: u8, rest: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 60, 0, 1, fragment, 0, 64, protocol, 0, 0, 192, 0, 2, 1];
    packet.extend(destination);
    packet.extend(rest);
    packet
}

fn ipv6(extension: bool, kind: u8, destination: u8) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 32, if extension { 0 } else { 58 }, 255];
    packet.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    packet.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, destination]);
    if extension {
        packet.extend([58, 0, 5, 2, 0, 0, 1, 0]);
    }
    packet.push(kind);
    packet
}

#[test]
fn a_station_gets_neighbour_protocols_and_nothing_else() {
    const ALL: [u8; 6] = [0xff; 6];
    const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 8];
    let station = identity(&["192.0.2.9", "fe80::9"]);
    let dhcp = [0, 67, 0, 68];
    for (what, destination, kind, rest, expected) in [
        ("ARP for all", ALL, 0x0806, vec![], Take::Copy),
        ("an ARP reply", MAC, 0x0806, vec![], Take::All),
        ("an ARP reply for another", OTHER, 0x0806, vec![], Take::Pass),
        ("tagged ARP", ALL, 0x8100, vec![0, 1, 8, 6], Take::Pass),
        ("a ping", MAC, 0x0800, ipv4(1, [192, 0, 2, 9], 0, &[8]), Take::All),
        ("a ping with DF", MAC, 0x0800, ipv4(1, [192, 0, 2, 9], 0x40, &[8]), Take::All),
        ("a ping of another address", MAC, 0x0800, ipv4(1, [192, 0, 2, 7], 0, &[8]), Take::Pass),
        ("a fragment of a ping", MAC, 0x0800, ipv4(1, [192, 0, 2, 9], 0x20, &[8]), Take::Pass),
        ("a ping's answer", MAC, 0x0800, ipv4(1, [192, 0, 2, 9], 0, &[0]), Take::Pass),
        ("an IGMP query", [1, 0, 0x5e, 0, 0, 1], 0x0800, ipv4(2, [224, 0, 0, 1], 0, &[0x11]), Take::Copy),
        ("a DHCP offer", MAC, 0x0800, ipv4(17, [192, 0, 2, 9], 0, &dhcp), Take::All),
        ("a DNS answer", MAC, 0x0800, ipv4(17, [192, 0, 2, 9], 0, &[0, 53, 0, 68]), Take::Pass),
        ("TCP", MAC, 0x0800, ipv4(6, [192, 0, 2, 9], 0, &[0; 20]), Take::Pass),
        ("a solicitation", [0x33, 0x33, 0xff, 0, 0, 9], 0x86dd, ipv6(false, 135, 9), Take::Copy),
        ("an advertisement", MAC, 0x86dd, ipv6(false, 136, 9), Take::All),
        ("an MLD query", [0x33, 0x33, 0, 0, 0, 1], 0x86dd, ipv6(true, 130, 1), Take::Copy),
        ("a ping of IPv6", MAC, 0x86dd, ipv6(false, 128, 9), Take::All),
        ("a ping of another", MAC, 0x86dd, ipv6(false, 128, 7), Take::Pass),
        ("too big", MAC, 0x86dd, ipv6(false, 2, 9), Take::Pass),
    ] {
        let mut frame = frame(destination, kind, &rest);
        frame.truncate(HEAD);
        assert_eq!(station.select(&frame), expected, "{what}");
        // However short, it is looked at without going beyond its end.
        for length in 0..frame.len() {
            station.select(&frame[..length]);
        }
    }
    let without = Identity { dhcp: false, ..identity(&[]) };
    assert_eq!(without.select(&frame(MAC, 0x0800, &ipv4(17, [192, 0, 2, 9], 0, &dhcp))), Take::Pass);
}

#[test]
fn answers_go_on_to_what_shares_the_stations_address() {
    let shared = Identity { is_shared: true, ..identity(&["192.0.2.9", "fe80::9"]) };
    for (what, kind, rest, expected) in [
        ("an ARP reply", 0x0806, vec![0, 1, 8, 0, 6, 4, 0, 2], Take::Copy),
        ("an ARP question", 0x0806, vec![0, 1, 8, 0, 6, 4, 0, 1], Take::All),
        ("an advertisement", 0x86dd, ipv6(false, 136, 9), Take::Copy),
        ("a router's advertisement", 0x86dd, ipv6(false, 134, 9), Take::Copy),
        ("a solicitation", 0x86dd, ipv6(false, 135, 9), Take::All),
        ("a ping of IPv6", 0x86dd, ipv6(false, 128, 9), Take::All),
        ("too big", 0x86dd, ipv6(false, 2, 9), Take::Pass),
    ] {
        let frame = frame(MAC, kind, &rest);
        assert_eq!(shared.select(&frame), expected, "{what}");
        for length in 0..frame.len() {
            shared.select(&frame[..length]);
        }
    }
}

#[test]
fn a_port_without_stations_hands_everything_through() {
    let mut bench = Bench::new();
    assert_eq!(bench.receive([frame([0xff; 6], 0x0806, &[])]).len(), 1);
    assert!(bench.port.counters.is_none() && bench.port.details().is_empty());
    assert!(!bench.is_readable());
}

#[test]
fn stations_come_and_go_while_packets_pass() {
    let mut bench = Bench::new();
    let told = Arc::new(AtomicUsize::new(0));
    let stations = bench.port.stations().expect("room for stations");
    let tell = told.clone();
    let mut link = stations.attach(identity(&[]), move || {
        tell.fetch_add(1, SeqCst);
    });
    assert!(bench.is_readable(), "the worker is woken");
    let (all, own, other) =
        (frame([0xff; 6], 0x0806, &[1]), frame(MAC, 0x0806, &[2]), frame([2, 9, 9, 9, 9, 9], 0x0806, &[3]));
    let went_on = bench.receive([all.clone(), own.clone(), other.clone()]);
    assert_eq!(went_on, [all.clone(), other.clone()]);
    assert_eq!(
        (link.next_frame(), link.next_frame(), link.next_frame()),
        (Some(all.clone()), Some(own.clone()), None)
    );
    assert_eq!((told.load(SeqCst), bench.port.counters().ledger.consumed), (1, 1));
    assert!(!bench.is_readable());

    assert!(link.send(other.clone()));
    assert!(bench.is_readable());
    bench.receive([]);
    assert_eq!(bench.outgoing.lock().expect("a test")[..], [other]);
    assert_eq!(bench.port.counters().ledger.generated, 1);

    // What it has left is sent after it.
    assert!(link.send(own.clone()));
    drop(link);
    assert_eq!(bench.receive([own.clone()]), [own], "it is a function's from now on");
    assert_eq!(bench.outgoing.lock().expect("a test").len(), 2);
}

#[test]
fn a_station_is_told_when_its_port_goes_down_and_comes_up() {
    let mut bench = Bench::new();
    let told = Arc::new(AtomicUsize::new(0));
    let tell = told.clone();
    let stations = bench.port.stations().expect("room for stations");
    let link = stations.attach(identity(&[]), move || {
        tell.fetch_add(1, SeqCst);
    });
    bench.receive([]);
    assert!(link.is_up());
    for (is_down, times) in [(true, 1), (true, 1), (false, 2)] {
        bench.is_down.store(is_down, SeqCst);
        bench.port.maintain(NOW);
        assert_eq!((link.is_up(), told.load(SeqCst)), (!is_down, times));
    }
    // One that comes while the port is down knows it.
    bench.is_down.store(true, SeqCst);
    bench.port.maintain(NOW);
    assert!(!stations.attach(identity(&[]), || ()).is_up());
}

#[test]
fn what_is_beyond_the_bounds_is_counted() {
    let mut bench = Bench::new();
    let mut link = bench.port.stations().expect("room").attach(identity(&[]), || ());
    let went_on = bench.receive((0..300).map(|_| frame(MAC, 0x0806, &[])));
    assert!(went_on.is_empty());
    let ledger = bench.port.counters().ledger.clone();
    assert_eq!((ledger.consumed, ledger.dropped[DropReason::PortFull]), (256, 44));
    assert_eq!((link.missed(), std::iter::from_fn(|| link.next_frame()).count()), (44, 256));
    // There is room again, and no token: it has had its rate. Copies are not made, and their packets go on.
    assert_eq!(bench.receive([frame([0xff; 6], 0x0806, &[])]).len(), 1);
    assert_eq!((link.missed(), link.next_frame()), (45, None));

    assert!((0..256).all(|_| link.send(frame([0xff; 6], 0x0806, &[]))));
    assert!(!link.send(vec![0; 60]), "as many wait as may");
    (0..8).for_each(|_| drop(bench.receive([])));
    assert_eq!(bench.outgoing.lock().expect("a test").len(), 256, "32 at each look");
    assert!(!bench.is_readable());
}

#[test]
fn a_storm_leaves_other_packets_alone() {
    const RACKET: usize = 500;
    let mut bench = Bench::new();
    let mut link = bench.port.stations().expect("room").attach(identity(&["192.0.2.9"]), || ());
    // Each claims to be another neighbour.
    let spoofed = |n: usize| frame(MAC, 0x0806, &(n as u32).to_be_bytes());
    let other = frame(MAC, 0x0800, &ipv4(17, [192, 0, 2, 9], 0, &[1, 187, 200, 0]));
    let mut read = 0;
    for round in 0..40 {
        let storm = (0..RACKET).flat_map(|n| {
            let packet = n.is_multiple_of(10).then(|| other.clone());
            packet.into_iter().chain([spoofed(round * RACKET + n)])
        });
        let went_on = bench.receive(storm);
        assert_eq!(went_on.len(), RACKET / 10, "all packets that are not the station's, and no other");
        assert!(went_on.iter().all(|packet| *packet == other));
        read += std::iter::from_fn(|| link.next_frame()).count();
    }
    // The time of the bench stands still: what the station gets is its burst, whether it is read or not.
    assert_eq!((read, link.missed()), (FRAMES, (40 * RACKET - FRAMES) as u64));
    let ledger = &bench.port.counters().ledger;
    assert_eq!((ledger.consumed, ledger.dropped[DropReason::PortFull]), (read as u64, link.missed()));
    let missed = link.missed();
    drop(link);
    assert_eq!(bench.receive([spoofed(0)]).len(), 1, "no station, nothing that is taken");
    assert_eq!(bench.port.details()[0], ("station_frames_missed", missed), "what was counted stays");
}

/// ARP, an answer of 192.0.2.x; a neighbour advertisement of fe80::x; an offer of the exchange x.
pub(super) fn answers(x: u8) -> [Vec<u8>; 3] {
    let arp = [&[0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 1, 192, 0, 2, x][..], &MAC, &[192, 0, 2, 9]].concat();
    let mut advertisement = ipv6(false, 136, 9);
    advertisement.extend([0, 0, 0, 0x60, 0, 0, 0, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, x]);
    let dhcp = ipv4(17, [192, 0, 2, 9], 0, &[0, 67, 0, 68, 0, 20, 0, 0, 2, 1, 6, 0, 0, 0, 0, x]);
    [frame(MAC, 0x0806, &arp), frame(MAC, 0x86dd, &advertisement), frame(MAC, 0x0800, &dhcp)]
}

#[test]
fn a_storm_starves_no_answer_that_is_awaited() {
    let mut bench = Bench::new();
    let identity = identity(&["192.0.2.9"]);
    let awaited = identity.awaited.clone();
    let mut link = bench.port.stations().expect("room").attach(identity, || ());
    *awaited.write().expect("a test") = Awaited {
        addresses: ["192.0.2.7", "fe80::7"].map(|text| text.parse().expect("an address")).into(),
        exchange: Some(7),
    };
    // Requests for all and for the device, and answers that were not asked for: more than there is room for.
    let request = |to| frame(to, 0x0806, &[0, 1, 8, 0, 6, 4, 0, 1]);
    let storm: Vec<_> = (0..600)
        .flat_map(|n| answers(100 + (n % 100) as u8).into_iter().chain([request(MAC), request([0xff; 6])]))
        .collect();
    for _ in 0..3 {
        bench.receive(storm.iter().cloned());
    }
    assert_eq!(bench.receive(answers(7)).len(), 0);
    let got: Vec<_> = std::iter::from_fn(|| link.next_frame()).collect();
    assert_eq!(got.len(), FRAMES + 3);
    assert_eq!(got[FRAMES..], answers(7), "whether the station is slow or not");
    // What answers has a bound too.
    let flood = (0..1000).flat_map(|_| answers(7));
    bench.receive(flood);
    assert_eq!(std::iter::from_fn(|| link.next_frame()).count(), FRAMES - 3);
    // However short, they are looked at without going beyond their ends.
    let identity = super::tests::identity(&[]);
    for answer in answers(7) {
        (0..answer.len()).for_each(|length| assert!(!identity.awaits(&answer[..length])));
    }
}

#[test]
fn a_station_is_in_one_network() {
    let tagged =
        |id: u16, frame: &[u8]| [&frame[..12], &[0x81, 0], &id.to_be_bytes()[..], &frame[12..]].concat();
    let mut bench = Bench::new();
    let around = Around::Tag(Tag { ethertype: 0x8100, control: 0x6007 });
    let mut link = bench.port.stations().expect("room").attach(Identity { around, ..identity(&[]) }, || ());
    let [arp, ..] = answers(7);
    // Another priority is the same network; another number, another ethertype and none are not.
    let service = [&arp[..12], &[0x88, 0xa8, 0, 7], &arp[12..]].concat();
    let others = [tagged(8, &arp), arp.clone(), service, tagged(7, &tagged(9, &arp))];
    assert_eq!(bench.receive(others.clone()), others);
    assert_eq!(bench.receive([tagged(0x8007, &arp), tagged(7, &arp)]).len(), 0);
    assert_eq!(
        [link.next_frame(), link.next_frame(), link.next_frame()],
        [Some(arp.clone()), Some(arp.clone()), None]
    );
    assert!(link.send(arp.clone()));
    bench.receive([]);
    assert_eq!(bench.outgoing.lock().expect("a test")[..], [tagged(0x6007, &arp)]);
}

#[test]
fn what_the_port_says_of_itself_stays_and_a_stations_frame_wakes_who_waits_for_it() {
    let pool = pool(16);
    let inner = Particular::default();
    let (signals, wants) = (inner.signals.clone(), inner.wants.clone());
    let mut port = StationPort::new(Box::new(inner)).expect("descriptors");
    assert_particular(&mut port, &signals, &wants);
    let mut link = port.stations().expect("its own").attach(identity(&["192.0.2.9"]), || ());
    assert!(link.send(frame([0xff; 6], 0x0806, &[])));
    let before = signals.load(SeqCst);
    port.receive(&pool, NOW, 32, &mut Vec::new());
    assert_eq!(signals.load(SeqCst), before + 1);
    port.receive(&pool, NOW, 32, &mut Vec::new());
    assert_eq!(signals.load(SeqCst), before + 1, "nothing was sent");
}
