//! Two bonds between which the test carries frames, as links do.

use super::*;
use crate::testing::{NOW, pool};
use nf_abi::offload;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use stripe::{WAIT, WINDOW};

struct Bond {
    inside: Inside,
    outside: Outside,
}

impl Bond {
    fn new(session: u32) -> Bond {
        let unknown = Arc::new(AtomicU32::new(u32::MAX));
        let (inside, outside) =
            pair(EtherType::default(), Session(session), unknown).expect("two descriptors");
        Bond { inside, outside }
    }

    /// Sends frames; what leaves by the links.
    fn send(&mut self, pool: &Pool, mut packets: Vec<Packet>) -> Vec<Packet> {
        let mut sent = Vec::new();
        self.inside.transmit(pool, NOW, &mut packets);
        assert!(packets.is_empty());
        self.outside.receive(pool, NOW, usize::MAX, &mut sent);
        sent
    }

    /// What the openers get when links bring this.
    fn arrive(&mut self, pool: &Pool, now: Nanos, mut packets: Vec<Packet>) -> Vec<Packet> {
        self.outside.transmit(pool, now, &mut packets);
        assert!(packets.is_empty());
        self.given_on(pool, now)
    }

    fn given_on(&mut self, pool: &Pool, now: Nanos) -> Vec<Packet> {
        let mut out = Vec::new();
        self.outside.receive(pool, now, 0, &mut out);
        assert!(out.is_empty());
        self.inside.receive(pool, now, usize::MAX, &mut out);
        out
    }

    fn dropped(&self, reason: DropReason) -> u64 {
        let ports: [&dyn Port; 2] = [&self.inside, &self.outside];
        ports.iter().map(|port| port.counters().ledger.dropped[reason]).sum()
    }

    fn in_flight(&self) -> u64 {
        self.inside.in_flight() + self.outside.in_flight()
    }
}

/// A frame of so many bytes, with a number in it.
fn frame(number: u8, length: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.resize(length, number);
    frame
}

fn packet(pool: &Pool, bytes: &[u8]) -> Packet {
    let mut packet = pool.allocate().expect("a buffer");
    pool.write(&mut packet, bytes).expect("room");
    packet
}

fn frames(pool: &Pool, count: u8) -> Vec<Packet> {
    (0..count).map(|n| packet(pool, &frame(n, 60 + usize::from(n)))).collect()
}

fn bytes(pool: &Pool, packets: &[Packet]) -> Vec<Vec<u8>> {
    packets.iter().map(|packet| pool.to_vec(packet)).collect()
}

#[test]
fn packets_that_overtake_each_other_on_links_come_out_as_they_went_in() {
    let pool = pool(64);
    let (mut here, mut there) = (Bond::new(1), Bond::new(2));
    let packets = frames(&pool, 20);
    let before = bytes(&pool, &packets);
    let sent = here.send(&pool, packets);
    let on_link = bytes(&pool, &sent);
    assert_eq!(on_link[3][..16], [&before[3][..12], &[0x88, 0xb5, 1, 0]].concat()[..]);
    assert_eq!(on_link[3][16..24], [0, 0, 0, 1, 0, 0, 0, 3]);
    assert_eq!(on_link[3][24..], before[3][12..]);
    // All of the second link's come first.
    let (even, odd): (Vec<_>, Vec<_>) = sent.into_iter().enumerate().partition(|(n, _)| n % 2 == 0);
    let first = there.arrive(&pool, NOW, odd.into_iter().map(|(_, packet)| packet).collect());
    assert_eq!((first.len(), there.in_flight()), (0, 10));
    let all = there.arrive(&pool, NOW, even.into_iter().map(|(_, packet)| packet).collect());
    assert_eq!((bytes(&pool, &all), there.in_flight()), (before, 0));
    pool.free_batch(all);
    assert_eq!(pool.available(), 64);
}

#[test]
fn what_is_missing_is_waited_for_until_it_is_due_and_counted_when_it_comes_later() {
    let pool = pool(64);
    let (mut here, mut there) = (Bond::new(1), Bond::new(2));
    let mut sent = here.send(&pool, frames(&pool, 4));
    let late = sent.remove(1);
    let first = there.arrive(&pool, NOW, sent);
    assert_eq!(bytes(&pool, &first), [frame(0, 60)]);
    let due = NOW.saturating_add(WAIT);
    assert_eq!(there.outside.wake().at, Some(due));
    assert!(there.given_on(&pool, Nanos(due.0 - 1)).is_empty());
    assert!(there.given_on(&pool, due).is_empty(), "the links are looked at once more");
    let rest = there.given_on(&pool, due);
    assert_eq!(bytes(&pool, &rest), [frame(2, 62), frame(3, 63)]);
    assert_eq!(there.outside.wake().at, None);
    assert!(there.arrive(&pool, due, vec![late]).is_empty());
    assert_eq!(there.dropped(DropReason::OutOfSequence), 1);
    assert_eq!(there.outside.details(), [("stripe_waited", 2), ("stripe_given_up", 1)]);
    pool.free_batch(first.into_iter().chain(rest));
    assert_eq!(pool.available(), 64);
}

#[test]
fn frames_of_others_are_refused() {
    let pool = pool(64);
    let mut there = Bond::new(2);
    let number = |ether_type: [u8; 2], version| {
        [&frame(0, 12)[..12], &ether_type, &[version, 0, 0, 0, 0, 1, 0, 0, 0, 0, 8, 0, 1, 2]].concat()
    };
    let forged = [
        frame(1, 60),
        frame(1, 14),
        vec![1; 5],
        number([0x88, 0xb5], 2),
        number([0x88, 0xb6], 1),
        number([0x88, 0xb5], 1)[..23].to_vec(),
    ];
    let packets = forged.iter().map(|bytes| packet(&pool, bytes)).collect();
    assert!(there.arrive(&pool, NOW, packets).is_empty());
    assert_eq!(there.dropped(DropReason::NoSequence), 6);
    // Several packets in one, and a checksum that begins within the header.
    let mut whole = packet(&pool, &number([0x88, 0xb5], 1));
    whole.edit(|record| (record.gso_type, record.gso_size) = (offload::GSO_TCPV4, 1));
    let mut outer = packet(&pool, &number([0x88, 0xb5], 1));
    outer.edit(|record| (record.offload_flags, record.csum_start) = (offload::NEEDS_CHECKSUM, 4));
    assert!(there.arrive(&pool, NOW, vec![whole, outer]).is_empty());
    assert_eq!((there.dropped(DropReason::NoSequence), pool.available()), (8, 64));
    let good = there.arrive(&pool, NOW, vec![packet(&pool, &number([0x88, 0xb5], 1))]);
    assert_eq!(bytes(&pool, &good), [[&frame(0, 14)[..], &[1, 2]].concat()]);
    pool.free_batch(good);
}

#[test]
fn what_finds_no_room_is_counted_and_the_rest_is_as_it_was() {
    let pool = pool(4096);
    let (mut here, mut there) = (Bond::new(1), Bond::new(2));
    let mut packets = Vec::new();
    for n in 0..PACKETS + 10 {
        packets.push(packet(&pool, &frame(n as u8, 60)));
    }
    here.inside.transmit(&pool, NOW, &mut packets);
    assert_eq!(here.dropped(DropReason::QueueFull), 10);
    assert_eq!(here.inside.in_flight(), PACKETS as u64);
    let mut sent = Vec::new();
    here.outside.receive(&pool, NOW, 32, &mut sent);
    assert_eq!(sent.len(), 32);
    here.outside.receive(&pool, NOW, usize::MAX, &mut sent);
    // The other end, which nothing takes packets from.
    sent.extend(here.send(&pool, frames(&pool, 10)));
    there.outside.transmit(&pool, NOW, &mut sent);
    assert_eq!((there.in_flight(), there.dropped(DropReason::QueueFull)), (PACKETS as u64, 10));
    there.outside.close(&pool).expect("nothing to fail");
    there.inside.close(&pool).expect("nothing to fail");
    assert_eq!((there.in_flight(), there.dropped(DropReason::HeldAtStop)), (0, PACKETS as u64));
    assert_eq!(pool.available(), 4096);
}

#[test]
fn what_waits_ends_with_its_port() {
    let pool = pool(1024);
    let (mut here, mut there) = (Bond::new(1), Bond::new(2));
    let mut sent = Vec::new();
    for _ in 0..4 {
        sent.extend(here.send(&pool, frames(&pool, 100)));
    }
    pool.free(sent.remove(0));
    pool.free_batch(sent.drain(WINDOW..));
    assert!(there.arrive(&pool, NOW, sent).is_empty());
    assert_eq!(there.in_flight(), WINDOW as u64);
    let mut rest = frames(&pool, 7);
    here.inside.transmit(&pool, NOW, &mut rest);
    for bond in [&mut here, &mut there] {
        bond.outside.close(&pool).expect("nothing to fail");
        bond.inside.close(&pool).expect("nothing to fail");
        assert_eq!(bond.in_flight(), 0);
    }
    assert_eq!((here.dropped(DropReason::HeldAtStop), there.dropped(DropReason::HeldAtStop)), (7, 256));
    assert_eq!(pool.available(), 1024);
}

#[test]
fn each_segment_of_a_long_packet_has_a_number_and_its_checksum_in_its_place() {
    let pool = pool(64);
    let mut here = Bond::new(1);
    let mut long = vec![0; 54 + 1500];
    (long[0], long[6], long[12], long[14], long[23], long[46]) = (2, 2, 8, 0x45, 6, 0x50);
    long[16..18].copy_from_slice(&1540u16.to_be_bytes());
    let mut long = packet(&pool, &long);
    long.edit(|record| {
        (record.gso_type, record.gso_size) = (offload::GSO_TCPV4, 700);
        (record.offload_flags, record.csum_start, record.csum_offset) = (offload::NEEDS_CHECKSUM, 34, 16);
    });
    let sent = here.send(&pool, vec![long]);
    assert_eq!(sent.iter().map(Packet::length).collect::<Vec<_>>(), [766, 766, 166]);
    assert_eq!(here.inside.counters().ledger.split, 2);
    for (n, packet) in sent.iter().enumerate() {
        assert_eq!((packet.record().csum_start, packet.record().gso_type), (46, offload::GSO_NONE));
        assert_eq!(pool.to_vec(packet)[20..24], [0, 0, 0, n as u8]);
    }
    let mut there = Bond::new(2);
    let arrived = there.arrive(&pool, NOW, sent);
    assert_eq!(arrived.iter().map(Packet::length).collect::<Vec<_>>(), [754, 754, 154]);
    assert!(arrived.iter().all(|packet| packet.record().csum_start == 34));
    pool.free_batch(arrived);
    assert_eq!(pool.available(), 64);
}

#[test]
fn a_packet_that_gets_no_header_leaves_no_gap() {
    let pool = pool(64);
    let (mut here, mut there) = (Bond::new(1), Bond::new(2));
    let mut packets = frames(&pool, 3);
    let length = packets[1].length();
    assert!(packets[1].set_extent(4, length, pool.buffer_size()), "a function moved it to the front");
    packets.insert(0, packet(&pool, &[1; 13]));
    let sent = here.send(&pool, packets);
    assert_eq!((here.dropped(DropReason::TooLong), here.dropped(DropReason::Malformed)), (1, 1));
    let arrived = there.arrive(&pool, NOW, sent);
    assert_eq!(bytes(&pool, &arrived), [frame(0, 60), frame(2, 62)]);
    pool.free_batch(arrived);
    assert_eq!(pool.available(), 64);
}

#[test]
fn a_taker_that_sleeps_is_woken_once() {
    let pool = pool(64);
    let mut here = Bond::new(1);
    let is_readable = |port: &dyn Port| {
        let wake = port.wake();
        let fd = wake.readable.expect("it is woken");
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("poll") > 0
    };
    assert!(!is_readable(&here.outside) && here.outside.wake().at.is_none());
    here.inside.transmit(&pool, NOW, &mut frames(&pool, 2));
    assert!(is_readable(&here.outside));
    assert_eq!(here.outside.wake().at, Some(Nanos(0)));
    let mut sent = Vec::new();
    here.outside.receive(&pool, NOW, usize::MAX, &mut sent);
    assert!(!is_readable(&here.outside), "it has taken all");
    pool.free_batch(sent);
    // One that is awake is not woken.
    here.outside.receive(&pool, NOW, usize::MAX, &mut Vec::new());
    here.inside.transmit(&pool, NOW, &mut frames(&pool, 2));
    assert!(!is_readable(&here.outside));
    assert_eq!(here.outside.wake().at, Some(Nanos(0)));
    here.inside.close(&pool).expect("nothing to fail");
}

#[test]
fn packets_may_be_as_long_as_links_take_with_the_header() {
    let mtu = Arc::new(AtomicU32::new(u32::MAX));
    let (inside, _) = pair(EtherType::default(), Session(1), mtu.clone()).expect("two descriptors");
    assert_eq!(inside.mtu(), None);
    mtu.store(1500, Relaxed);
    assert_eq!(inside.mtu(), Some(1488));
}
