//! Frames, one by one: their order and tags, and what becomes of those that are refused or find no room.

use super::*;

#[test]
fn frames_longer_than_a_buffer_are_dropped_and_counted() {
    isolated("frames::frames_longer_than_a_buffer_are_dropped_and_counted", || {
        let line = Line::new().expect("a line");
        for (host, name) in [
            (&line.middle, "sf-lan"),
            (&line.middle, "sf-wan"),
            (&line.client, "eth0"),
            (&line.server, "eth0"),
        ] {
            host.ip(&format!("link set {name} mtu 9000")).expect("a large frame");
        }
        let relay = start(small());
        let server = line.server.enter(|| UdpSocket::bind((SERVER, 9))).expect("a socket");
        let client = line.client.enter(|| UdpSocket::bind((CLIENT, 0))).expect("a socket");
        server.set_read_timeout(Some(SECOND * 5)).expect("a valid limit");
        // 42 bytes of headers; a buffer has room for 1728.
        for (length, passes) in [(1686, true), (1687, false), (4000, false), (8900, false), (100, true)] {
            client.send_to(&vec![7; length], (SERVER, 9)).expect("a datagram");
            if passes {
                let mut received = vec![0; 10_000];
                assert_eq!(server.recv(&mut received).expect("what fits passes"), length);
            }
        }
        let account = relay.stop();
        audit(&account);
        assert_eq!(account.ports[0].ledger.dropped[DropReason::TooLong], 3, "{account:?}");
        let told =
            |event: &&PortEvent| matches!(event, PortEvent::Notice(words) if words.contains("buffer_size"));
        assert_eq!(account.events[0].iter().filter(told).count(), 1, "{account:?}");
    });
}

#[test]
fn vlan_tags_are_put_back() {
    isolated("frames::vlan_tags_are_put_back", || {
        let line = Line::new().expect("a line");
        let pool = small();
        let mut sender = line.client.enter(|| AfPacketPort::open(Settings::new("eth0"))).expect("a sender");
        let mut receiver = AfPacketPort::open(Settings::new("sf-lan")).expect("a receiver");
        // The kernel takes the outer tag off every frame that it receives.
        let tagged = |tags: &[u8]| {
            let mut bytes = frame(100);
            let header = [8, 0, 0x45, 0, 0, 86, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
            bytes.splice(12..34, tags.iter().copied().chain(header));
            bytes
        };
        let frames =
            [tagged(&[]), tagged(&[0x81, 0, 0x20, 0x64]), tagged(&[0x88, 0xa8, 0x60, 0x05, 0x81, 0, 0, 7])];
        // Where TCP's header begins depends on the tags.
        let transport = |bytes: &Vec<u8>| bytes.len() as u16 - 66;
        for bytes in &frames {
            send(&mut sender, &pool, std::slice::from_ref(bytes), |record| {
                record.offload_flags = offload::NEEDS_CHECKSUM;
                (record.csum_start, record.csum_offset) = (transport(bytes), 16);
            });
        }
        assert_eq!(sender.counters().ledger.delivered, 3);
        let packets = receive(&mut receiver, &pool, 3);
        for (packet, sent) in packets.iter().zip(&frames) {
            assert_eq!(pool.to_vec(packet), *sent);
            assert_eq!((packet.record().csum_start, packet.record().csum_offset), (transport(sent), 16));
        }
        assert_eq!(
            receiver.counters().received_bytes,
            frames.iter().map(|bytes| bytes.len() as u64).sum::<u64>()
        );
        pool.free_batch(packets);
    });
}

#[test]
fn own_frames_do_not_come_back() {
    isolated("frames::own_frames_do_not_come_back", || {
        let line = Line::new().expect("a line");
        let pool = small();
        let mut near = AfPacketPort::open(Settings::new("sf-lan")).expect("one end");
        let mut far = line.client.enter(|| AfPacketPort::open(Settings::new("eth0"))).expect("the other end");
        send(&mut near, &pool, &[frame(60), frame(60)], |_| {});
        let packets = receive(&mut far, &pool, 2);
        pool.free_batch(packets);
        // What the far end sends now would come after the own frames.
        send(&mut far, &pool, &[frame(99)], |_| {});
        let packets = receive(&mut near, &pool, 1);
        assert_eq!(packets.iter().map(Packet::length).collect::<Vec<_>>(), [99]);
        pool.free_batch(packets);
    });
}

#[test]
fn what_the_kernel_refuses_is_counted_alone() {
    isolated("frames::what_the_kernel_refuses_is_counted_alone", || {
        let _line = Line::new().expect("a line");
        let pool = small();
        let mut port = AfPacketPort::open(Settings::new("sf-lan")).expect("it is there");
        // Longer than the interface's 1,500 bytes of payload, and shorter than a header.
        send(&mut port, &pool, &[frame(60), frame(1600), frame(60), vec![7; 5], frame(1514)], |_| {});
        let ledger = &port.counters().ledger;
        assert_eq!((ledger.delivered, ledger.dropped[DropReason::PortRefused]), (3, 2));
        assert_eq!(port.status(), PortStatus::Up);
        assert_eq!(pool.available(), 512);
    });
}

#[test]
fn a_checksum_outside_of_its_packet_is_refused_alone() {
    isolated("frames::a_checksum_outside_of_its_packet_is_refused_alone", || {
        let line = Line::new().expect("a line");
        let pool = small();
        let mut sender = AfPacketPort::open(Settings::new("sf-lan")).expect("it is there");
        let mut receiver =
            line.client.enter(|| AfPacketPort::open(Settings::new("eth0"))).expect("the other end");
        // More rounds than the ring has slots: a side that lost count of them would stop here.
        for round in 0..300 {
            let mut packets: Vec<Packet> = [60, 61, 62, 63, 64, 65]
                .iter()
                .map(|&length| {
                    let mut packet = pool.allocate().expect("a buffer");
                    pool.write(&mut packet, &frame(length)).expect("it fits");
                    packet
                })
                .collect();
            for n in [0, 3, 5].into_iter().skip(round % 3) {
                packets[n].edit(|record| {
                    record.offload_flags = offload::NEEDS_CHECKSUM;
                    (record.csum_start, record.csum_offset) = (5_000, 6);
                });
            }
            let good: Vec<u32> = packets
                .iter()
                .filter(|packet| packet.record().offload_flags == 0)
                .map(Packet::length)
                .collect();
            sender.transmit(&pool, Nanos(0), &mut packets);
            let packets = receive(&mut receiver, &pool, good.len());
            assert_eq!(packets.iter().map(Packet::length).collect::<Vec<_>>(), good, "round {round}");
            pool.free_batch(packets);
        }
        let ledger = &sender.counters().ledger;
        assert_eq!((ledger.delivered, ledger.dropped[DropReason::PortRefused]), (1_200, 600));
        assert_eq!((sender.in_flight(), pool.available()), (0, 512));

        // A port that tells the kernel nothing of checksums sends it as it is.
        line.middle.run("ethtool -K sf-lan gro off tx off", SECOND * 5).expect("switches");
        let settings = Settings { offload: false, ..Settings::new("sf-lan") };
        let mut sender = AfPacketPort::open(settings).expect("it is there");
        send(&mut sender, &pool, &[frame(60), frame(61)], |record| {
            record.offload_flags = offload::NEEDS_CHECKSUM;
            (record.csum_start, record.csum_offset) = (5_000, 6);
        });
        assert_eq!(sender.counters().ledger.delivered, 2);
        let packets = receive(&mut receiver, &pool, 2);
        assert_eq!(
            packets.iter().map(|packet| pool.to_vec(packet)).collect::<Vec<_>>(),
            [frame(60), frame(61)]
        );
        pool.free_batch(packets);
    });
}

#[test]
fn long_and_short_frames_keep_their_order() {
    isolated("frames::long_and_short_frames_keep_their_order", || {
        let line = Line::new().expect("a line");
        for (host, name) in [(&line.middle, "sf-lan"), (&line.client, "eth0")] {
            host.ip(&format!("link set {name} mtu 9000")).expect("a large frame");
            host.run(&format!("ethtool -K {name} gro off lro off gso off tso off tx off"), SECOND * 5)
                .expect("switches of a veth end");
        }
        let pool = large();
        for offload in [true, false] {
            let settings = |name| Settings { offload, ..Settings::new(name) };
            let mut sender = line.client.enter(|| AfPacketPort::open(settings("eth0"))).expect("a sender");
            let mut receiver = AfPacketPort::open(settings("sf-lan")).expect("a receiver");
            // Around the lengths that fit into slots of either ring, and far away from them; each third one
            // tagged.
            let lengths = [60, 1514, 1780, 1781, 100, 9010, 1814, 1815, 14, 4000, 64, 65, 3000, 3001, 1779];
            let frames: Vec<Vec<u8>> = (0..lengths.len() * 3)
                .map(|n| {
                    let mut bytes = frame(lengths[n % lengths.len()].max(20));
                    bytes[14..18].copy_from_slice(&(n as u32).to_be_bytes());
                    if n % 3 == 0 {
                        bytes.splice(12..12, [0x81, 0, 0, n as u8]);
                    }
                    bytes
                })
                .collect();
            for frames in frames.chunks(7) {
                send(&mut sender, &pool, frames, |_| {});
            }
            let packets = receive(&mut receiver, &pool, frames.len());
            for (n, (packet, sent)) in packets.iter().zip(&frames).enumerate() {
                assert!(pool.to_vec(packet) == *sent, "frame {n} of {} bytes: {packet:?}", sent.len());
            }
            assert_eq!(packets.len(), frames.len());
            pool.free_batch(packets);
            for port in [&sender, &receiver] {
                assert_eq!((port.counters().ledger.dropped.total(), port.counters().kernel_lost), (0, 0));
            }
        }
        assert_eq!(pool.available(), 512);
    });
}

#[test]
fn long_frames_that_find_no_room_are_counted() {
    isolated("frames::long_frames_that_find_no_room_are_counted", || {
        let line = Line::new().expect("a line");
        for (host, name) in [(&line.middle, "sf-lan"), (&line.client, "eth0")] {
            host.ip(&format!("link set {name} mtu 65000")).expect("a large frame");
        }
        let pool = large();
        let settings = Settings { ring: 512 << 10, ..Settings::new("sf-lan") };
        let mut receiver = AfPacketPort::open(settings).expect("a receiver");
        let mut sender = line.client.enter(|| AfPacketPort::open(Settings::new("eth0"))).expect("a sender");
        // Fewer than slots, and more bytes than the queue may hold.
        for _ in 0..27 {
            send(&mut sender, &pool, &vec![frame(60_000); 10], |_| {});
        }
        assert_eq!(sender.counters().ledger.delivered, 270);
        let mut packets = Vec::new();
        receiver.receive(&pool, Nanos(0), 300, &mut packets);
        let counters = receiver.counters();
        assert!(counters.kernel_lost > 20 && packets.len() > 20, "{counters:?}");
        assert_eq!(packets.len() as u64 + counters.kernel_lost, 270);
        assert!(packets.iter().all(|packet| pool.to_vec(packet) == frame(60_000)));
        pool.free_batch(packets.drain(..));
        let told =
            |event: &PortEvent| matches!(event, PortEvent::Notice(words) if words.contains("rmem_max"));
        assert_eq!(receiver.maintain(Nanos(0)).into_iter().filter(told).count(), 1);
        // The two have not lost step.
        send(&mut sender, &pool, &[frame(60), frame(8_000), frame(61)], |_| {});
        let packets = receive(&mut receiver, &pool, 3);
        assert_eq!(packets.iter().map(Packet::length).collect::<Vec<_>>(), [60, 8_000, 61]);
        pool.free_batch(packets);
    });
}

#[test]
fn what_the_ring_cannot_hold_is_counted() {
    isolated("frames::what_the_ring_cannot_hold_is_counted", || {
        let line = Line::new().expect("a line");
        let pool = small();
        let settings = Settings { ring: 512 << 10, ..Settings::new("sf-lan") };
        let mut receiver = AfPacketPort::open(settings).expect("a receiver");
        let mut sender = line.client.enter(|| AfPacketPort::open(Settings::new("eth0"))).expect("a sender");
        for _ in 0..100 {
            send(&mut sender, &pool, &vec![frame(1000); 10], |_| {});
        }
        assert_eq!(sender.counters().ledger.delivered, 1000);
        let mut packets = Vec::new();
        wait_for(|| {
            receiver.receive(&pool, Nanos(0), 64, &mut packets);
            pool.free_batch(packets.drain(..));
            receiver.maintain(Nanos(0));
            let counters = receiver.counters();
            counters.kernel_lost > 100 && counters.ledger.received + counters.kernel_lost == 1000
        });
    });
}
