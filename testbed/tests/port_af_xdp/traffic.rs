//! What passes: the kernel's own traffic, queues, and each packet accounted for.

use super::*;
use nf_abi::offload;
use port_af_packet::AfPacketPort;
use port_af_xdp::{Mode, UmemChoice};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use telemetry::DropReason;
use testbed::{Account, CLIENT, Iperf, SERVER, audit, echo};

#[test]
fn ping_passes_both_ways() {
    privileged("traffic::ping_passes_both_ways", || {
        let line = Line::new().expect("a line");
        let relay = start(&small());
        let mut outputs = Vec::new();
        for (host, to) in [(&line.client, SERVER), (&line.server, CLIENT)] {
            // With a deadline, ping waits for its last answer longer than for twice a round trip.
            let output = host.run(&format!("ping -c 10 -i 0.05 -w 5 {to}"), SECOND * 10).expect("ping");
            println!("{}", output.stdout.lines().last().unwrap_or_default());
            outputs.push(output.stdout);
        }
        let account = relay.stop();
        audit(&account);
        for output in outputs {
            assert!(output.contains(" 0% packet loss"), "{output}{account:?}");
        }
        // Ten requests, ten answers, twice; and the address resolution before them.
        for port in &account.ports {
            assert!(port.ledger.delivered >= 20, "{account:?}");
            assert_eq!((port.ledger.dropped.total(), port.kernel_lost), (0, 0), "{account:?}");
        }
        assert_eq!(account.ports[0].ledger.received, account.ports[1].ledger.delivered);
        assert_eq!(account.ports[0].received_bytes, account.ports[1].delivered_bytes);
        // A veth pair has no zero-copy: what was tried, what the kernel said, what is used, what would be
        // better.
        for events in &account.events {
            let told = notices(events).join("\n");
            for words in
                ["refused: zero_copy (binding", "not supported", "native is used instead", "saves that"]
            {
                assert!(told.contains(words), "{words}: {told}");
            }
        }
    });
}

/// TCP through a relay between hosts that leave their checksums to their interfaces.
fn tcp_passes(change: impl Fn(&mut Settings), pool: &Arc<Pool>, bytes: usize) -> Account {
    let line = Line::new().expect("a line");
    let relay = start_with(pool, change);
    echo(&line.client, &line.server, bytes);
    let account = relay.stop();
    audit(&account);
    assert_checksums_were_right(&line);
    for details in &account.details {
        assert!(detail(details, "unfinished_checksums") > 100, "{account:?}");
    }
    account
}

#[test]
fn tcp_passes_though_its_checksums_come_unfinished() {
    privileged("traffic::tcp_passes_though_its_checksums_come_unfinished", || {
        let account = tcp_passes(|_| {}, &small(), 16 << 20);
        assert_eq!(account.segmented, 0);
        assert!(account.longest <= 1514, "{account:?}");
    });
}

#[test]
fn iperf3_runs_both_ways() {
    privileged("traffic::iperf3_runs_both_ways", || {
        let line = Line::new().expect("a line");
        let relay = start(&small());
        let mut server = Iperf::serve(&line.server).expect("iperf3");
        for direction in ["", "--reverse"] {
            let rate = server.measure(&line.client, 1, direction).expect("iperf3");
            println!("{:.0} Mbit/s {direction}", rate / 1e6);
        }
        drop(server);
        let account = relay.stop();
        audit(&account);
        assert!(account.ports.iter().all(|port| port.delivered_bytes > 10 << 20), "{account:?}");
    });
}

#[test]
fn memory_of_its_own_does_as_well() {
    privileged("traffic::memory_of_its_own_does_as_well", || {
        let account = tcp_passes(|settings| settings.umem = UmemChoice::Own, &small(), 4 << 20);
        let told = account.events.iter().flat_map(|events| notices(events));
        assert!(!told.clone().any(|words| words.contains("own")), "it was asked for: {told:?}");
    });
}

#[test]
fn buffers_larger_than_a_page_are_lent_as_they_are() {
    privileged("traffic::buffers_larger_than_a_page_are_lent_as_they_are", || {
        let account = tcp_passes(|_| {}, &pool(512, BufferSize::LARGEST), 4 << 20);
        let told = account.events.iter().flat_map(|events| notices(events)).collect::<Vec<_>>().join("\n");
        assert!(!told.contains("own"), "the pool itself is the memory: {told}");
    });
}

#[test]
fn generic_mode_passes_what_its_other_end_has_cut() {
    privileged("traffic::generic_mode_passes_what_its_other_end_has_cut", || {
        let line = Line::new().expect("a line");
        let relay = start_with(&small(), |settings| settings.mode = Some(Mode::Generic));
        for host in [&line.client, &line.server] {
            host.run("ethtool -K eth0 tso off gso off", SECOND * 5).expect("the command of the notice");
        }
        echo(&line.client, &line.server, 2 << 20);
        let account = relay.stop();
        audit(&account);
        assert_checksums_were_right(&line);
        let told = notices(&account.events[0]).join("\n");
        assert!(told.contains("`ethtool -K IF tso off gso off`"), "{told}");
    });
}

#[test]
fn whole_segments_of_another_port_are_cut_on_their_way_out() {
    privileged("traffic::whole_segments_of_another_port_are_cut_on_their_way_out", || {
        let line = Line::new().expect("a line");
        let pool = pool(1024, BufferSize::LARGEST);
        let lan = AfPacketPort::open(port_af_packet::Settings::new("sf-lan")).expect("it is there");
        let ports: [Box<dyn Port>; 2] = [Box::new(lan), Box::new(open("sf-wan", &pool))];
        let relay = Relay::between(Arc::clone(&pool), ports).start();
        testbed::segments_of_udp((&line.client, CLIENT), (&line.server, SERVER), 1000, false);
        echo(&line.client, &line.server, 4 << 20);
        let account = relay.stop();
        audit(&account);
        assert_checksums_were_right(&line);
        assert!(account.segmented > 10 && account.ports[1].ledger.split > 100, "{account:?}");
        assert_eq!(account.ports[1].ledger.dropped[DropReason::PortRefused], 0, "{account:?}");
    });
}

#[test]
fn each_queue_has_a_socket_and_each_flow_a_queue() {
    privileged("traffic::each_queue_has_a_socket_and_each_flow_a_queue", || {
        let line = Line::new().expect("a line");
        line.middle.ip("link del sf-lan").expect("it goes");
        line.middle.join_wide("sf-lan", &line.client, "eth0", 4).expect("a wide line");
        let pool = small();
        let mut near = open("sf-lan", &pool);
        let mut far = line.client.enter(|| open("eth0", &pool));
        // 64 flows of 16 packets, one packet of each after the other.
        let frames: Vec<Vec<u8>> = (0..1024u32)
            .map(|n| {
                let mut bytes = frame(60);
                bytes[14..18].copy_from_slice(&n.to_be_bytes());
                bytes
            })
            .collect();
        let mut packets = Vec::new();
        for (n, part) in frames.chunks(256).enumerate() {
            send(&mut near, &pool, part, |k, record| record.flow_hash = ((n * 256 + k) as u32 % 64) << 26);
            packets.extend(receive(&mut far, &pool, part.len()));
        }
        let number = |packet: &Packet| {
            let bytes = pool.to_vec(packet);
            u32::from_be_bytes(*bytes[14..].first_chunk().expect("a number"))
        };
        let numbers: Vec<u32> = packets.iter().map(number).collect();
        pool.free_batch(packets);
        for flow in 0..64 {
            let order: Vec<u32> = numbers.iter().copied().filter(|n| n % 64 == flow).collect();
            assert_eq!(order, (0..16).map(|n| n * 64 + flow).collect::<Vec<_>>());
        }
        assert_eq!(far.counters().ledger.received, 1024);
        far.close(&pool).expect("nothing to write");
        drop(far);

        // A port that takes one queue alone sees a quarter of the flows; the rest is the kernel's.
        let settings = Settings { queues: Some(vec![2]), ..Settings::new("eth0") };
        let mut third = line.client.enter(|| open_with(settings, &pool));
        send(&mut near, &pool, &frames[..64], |n, record| record.flow_hash = (n as u32) << 26);
        let packets = receive(&mut third, &pool, 16);
        let mut numbers: Vec<u32> = packets.iter().map(number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (32..48).collect::<Vec<_>>());
        pool.free_batch(packets);
        near.close(&pool).expect("nothing to write");
        third.close(&pool).expect("nothing to write");
        assert_eq!(pool.available(), 2048);
    });
}

#[test]
fn traffic_of_many_flows_comes_by_several_queues() {
    privileged("traffic::traffic_of_many_flows_comes_by_several_queues", || {
        let line = Line::new().expect("a line");
        line.middle.ip("link del sf-lan").expect("it goes");
        line.middle.join_wide("sf-lan", &line.client, "eth0", 4).expect("a wide line");
        line.client.ip(&format!("addr add {CLIENT}/24 dev eth0")).expect("an address");
        let relay = start(&small());
        let server = line.server.enter(|| UdpSocket::bind((SERVER, 9)).expect("a socket"));
        server.set_read_timeout(Some(SECOND * 2)).expect("a valid limit");
        for n in 0..64u8 {
            let client = line.client.enter(|| UdpSocket::bind((CLIENT, 0)).expect("a socket"));
            client.send_to(&[n; 100], (SERVER, 9)).expect("a datagram");
            let mut bytes = [0; 200];
            assert_eq!(server.recv(&mut bytes).expect("the datagram"), 100);
            assert_eq!(bytes[..100], [n; 100]);
        }
        audit(&relay.stop());
    });
}

#[test]
fn queues_take_turns() {
    privileged("traffic::queues_take_turns", || {
        let line = Line::new().expect("a line");
        line.middle.ip("link del sf-lan").expect("it goes");
        line.middle.join_wide("sf-lan", &line.client, "eth0", 4).expect("a wide line");
        let pool = small();
        let (mut near, mut far) = (open("sf-lan", &pool), line.client.enter(|| open("eth0", &pool)));
        // 100 packets wait in the first queue, 10 in the second and none in the others. The length tells the
        // queue.
        for (queue, count) in [(0u32, 100), (1, 10)] {
            let frames = vec![frame(60 + queue as usize); count];
            send(&mut near, &pool, &frames, |_, record| record.flow_hash = queue << 30 | 1);
        }
        wait_for(|| {
            near.maintain(Nanos(0));
            near.in_flight() == 0
        });
        let mut packets = Vec::new();
        far.receive(&pool, Nanos(0), 64, &mut packets);
        let of =
            |packets: &[Packet], length| packets.iter().filter(|packet| packet.length() == length).count();
        assert_eq!(of(&packets, 61), 10, "those of the quiet queue do not wait");
        assert!(of(&packets, 60) >= 16);
        let mut rounds = 0;
        while of(&packets, 60) < 100 {
            rounds += 1;
            assert!(rounds < 10, "what others leave of their part of the budget is used");
            far.receive(&pool, Nanos(0), 64, &mut packets);
        }
        pool.free_batch(packets);
    });
}

#[test]
fn a_flood_is_accounted_for() {
    privileged("traffic::a_flood_is_accounted_for", || {
        let line = Line::new().expect("a line");
        for umem in [UmemChoice::Pool, UmemChoice::Own] {
            let relay = start_with(&pool(256, BufferSize::DEFAULT), |settings| {
                (settings.umem, settings.receive_ring, settings.transmit_ring) = (umem, 64, 64);
            });
            let command = format!("iperf3 --client {SERVER} --udp --bitrate 0 --length 64 --time 1");
            let server = Iperf::serve(&line.server).expect("iperf3");
            // Whether iperf3 finds its way through such losses is not the question.
            let _ = line.client.run(&command, SECOND * 10);
            drop(server);
            let account = relay.stop();
            audit(&account);
            let [lan, _] = &account.ports;
            assert!(lan.ledger.received > 1000, "{account:?}");
        }
    });
}

#[test]
fn a_burst_is_one_system_call() {
    privileged("traffic::a_burst_is_one_system_call", || {
        let line = Line::new().expect("a line");
        let (pool, sender_pool) = (pool(8192, BufferSize::DEFAULT), small());
        let (mut lan, mut wan) = (open("sf-lan", &pool), open("sf-wan", &pool));
        let mut sender = line.client.enter(|| open("eth0", &sender_pool));
        let mut unicast = frame(60);
        unicast[..6].copy_from_slice(&[2, 0, 0, 0, 0, 77]);
        let stop = AtomicBool::new(false);
        let (mut bursts, mut packets) = (0, Vec::with_capacity(64));
        let begin = Instant::now();
        let (time, received) = thread::scope(|scope| {
            scope.spawn(|| {
                let burst = vec![unicast.clone(); 64];
                while !stop.load(Ordering::Relaxed) {
                    send(&mut sender, &sender_pool, &burst, |_, _| {});
                }
            });
            let before = clock_gettime(ClockId::ThreadCPUTime);
            while begin.elapsed() < SECOND {
                lan.receive(&pool, Nanos(0), 64, &mut packets);
                if packets.is_empty() {
                    let wake = lan.wake().readable.expect("a descriptor");
                    let limit = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
                    poll(&mut [PollFd::from_borrowed_fd(wake, PollFlags::IN)], Some(&limit))
                        .expect("a sleep");
                } else {
                    bursts += 1;
                    wan.transmit(&pool, Nanos(0), &mut packets);
                }
            }
            let after = clock_gettime(ClockId::ThreadCPUTime);
            stop.store(true, Ordering::Relaxed);
            let nanos = |time: Timespec| time.tv_sec * 1_000_000_000 + time.tv_nsec;
            (nanos(after) - nanos(before), lan.counters().ledger.received)
        });
        println!(
            "{received} packets in {bursts} bursts, {} ns of processor time each, sleep and wake included",
            time / received.max(1) as i64
        );
        wan.maintain(Nanos(0));
        let kicks = detail(&wan.details(), "kicks");
        // Before Linux 6.17 a call takes 32 packets.
        assert!(kicks >= bursts && kicks <= 3 * bursts + 10, "{kicks} calls for {bursts} bursts");
        for port in [&mut lan, &mut wan] {
            port.close(&pool).expect("nothing to write");
        }
        let mut ledger = lan.counters().ledger.clone();
        ledger.merge(&wan.counters().ledger);
        ledger.balance(0).expect("every packet is accounted for");
        assert!(wan.counters().ledger.delivered > 1000);
        assert_eq!(pool.available(), 8192);
    });
}

#[test]
fn what_comes_while_no_buffer_is_there_is_counted() {
    privileged("traffic::what_comes_while_no_buffer_is_there_is_counted", || {
        let line = Line::new().expect("a line");
        let pool = small();
        let mut receiver = open_with(Settings { receive_ring: 64, ..Settings::new("sf-lan") }, &pool);
        let mut sender = line.client.enter(|| open("eth0", &pool));
        for _ in 0..100 {
            send(&mut sender, &pool, &vec![frame(1000); 10], |_, _| {});
        }
        wait_for(|| {
            sender.maintain(Nanos(0));
            sender.in_flight() == 0
        });
        assert_eq!(sender.counters().ledger.delivered, 1000);
        let mut packets = Vec::new();
        wait_for(|| {
            receiver.receive(&pool, Nanos(0), 64, &mut packets);
            pool.free_batch(packets.drain(..));
            receiver.maintain(Nanos(0));
            let counters = receiver.counters();
            counters.kernel_lost > 900 && counters.ledger.received + counters.kernel_lost == 1000
        });
        assert_eq!(
            detail(&receiver.details(), "kernel_no_buffer_or_too_long"),
            receiver.counters().kernel_lost
        );
        // The buffers that were used up are lent again.
        send(&mut sender, &pool, &vec![frame(1000); 10], |_, _| {});
        pool.free_batch(self::receive(&mut receiver, &pool, 10));
    });
}

#[test]
fn packets_that_cannot_go_out_are_refused_alone() {
    privileged("traffic::packets_that_cannot_go_out_are_refused_alone", || {
        let line = Line::new().expect("a line");
        let pool = small();
        let mut port = open("sf-lan", &pool);
        let mut far = line.client.enter(|| open("eth0", &pool));
        port.maintain(Nanos(0));
        let mut tagged = frame(1518);
        tagged[12..14].copy_from_slice(&[0x81, 0]);
        let mut longer = frame(1519);
        longer[12..14].copy_from_slice(&[0x81, 0]);
        let frames = [
            frame(60),
            frame(1515),
            vec![7; 13],
            frame(1514),
            tagged.clone(),
            longer,
            frame(14),
            frame(200),
            frame(61),
        ];
        send(&mut port, &pool, &frames, |n, record| {
            if n == 7 {
                (record.gso_type, record.gso_size) = (offload::GSO_TCPV4, 100);
            }
        });
        let packets = receive(&mut far, &pool, 5);
        let lengths: Vec<u32> = packets.iter().map(Packet::length).collect();
        assert_eq!(lengths, [60, 1514, 1518, 14, 61]);
        assert_eq!(pool.to_vec(&packets[2]), tagged, "the tag is where it was");
        pool.free_batch(packets);
        let ledger = &port.counters().ledger;
        assert_eq!((ledger.delivered, ledger.dropped[DropReason::PortRefused]), (5, 4));
        let events = port.maintain(Nanos(0));
        let told = notices(&events);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("a packet of 1515 bytes") && told[0].contains("1500"), "{told:?}");
        assert!(told[1].contains("segments") && told[1].contains("ethtool -K"), "{told:?}");
    });
}

#[test]
fn a_packet_over_the_end_of_a_chunk_goes_out_as_a_copy() {
    privileged("traffic::a_packet_over_the_end_of_a_chunk_goes_out_as_a_copy", || {
        let line = Line::new().expect("a line");
        let pool = pool(64, BufferSize::LARGEST);
        let mut port = open("sf-lan", &pool);
        let mut far = line.client.enter(|| open("eth0", &pool));
        let mut packets = Vec::new();
        for offset in [0, 3000, 4090, 4096, 60_000] {
            let mut packet = pool.allocate().expect("a buffer");
            assert!(packet.set_extent(offset, 0, 65_536));
            pool.write(&mut packet, &frame(1000)).expect("it fits");
            packets.push(packet);
        }
        port.transmit(&pool, Nanos(0), &mut packets);
        let packets = receive(&mut far, &pool, 5);
        assert!(packets.iter().all(|packet| pool.to_vec(packet) == frame(1000)));
        pool.free_batch(packets);
        port.close(&pool).expect("nothing to write");
        assert_eq!(port.counters().ledger.delivered, 5);
        far.close(&pool).expect("nothing to write");
        assert_eq!(pool.available(), 64);
    });
}

#[test]
fn a_checksum_left_to_the_port_is_finished() {
    privileged("traffic::a_checksum_left_to_the_port_is_finished", || {
        let line = Line::new().expect("a line");
        let pool = small();
        let mut port = open("sf-wan", &pool);
        let server = line.server.enter(|| UdpSocket::bind((SERVER, 9)).expect("a socket"));
        server.set_read_timeout(Some(SECOND * 2)).expect("a valid limit");
        for length in [0usize, 1, 101, 1400] {
            let payload = pattern(length);
            let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
            let header = packet::ipv4::Repr {
                traffic_class: 0,
                identification: 7,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                ttl: 64,
                protocol: 17,
                source: CLIENT.parse().expect("an address"),
                destination: SERVER.parse().expect("an address"),
                options: &[],
                payload_length: 8 + length,
            };
            bytes.resize(34, 0);
            header.emit(&mut bytes[14..]).expect("room");
            bytes.extend([0x30, 0x39, 0, 9]);
            bytes.extend((8 + length as u16).to_be_bytes());
            let pseudo = packet::checksum::Sum::ZERO.add_pseudo_v4(
                header.source,
                header.destination,
                17,
                8 + length as u16,
            );
            bytes.extend(pseudo.folded().to_be_bytes());
            bytes.extend(&payload);
            send(&mut port, &pool, &[bytes], |_, record| {
                record.offload_flags = offload::NEEDS_CHECKSUM;
                (record.csum_start, record.csum_offset) = (34, 6);
            });
            let mut received = vec![0; 2000];
            let count = server.recv(&mut received).expect("the datagram, checksum verified");
            assert_eq!(received[..count], payload);
        }
    });
}

#[test]
fn what_the_interface_drops_is_not_delivered() {
    privileged("traffic::what_the_interface_drops_is_not_delivered", || {
        let line = Line::new().expect("a line");
        let pool = small();
        let mut port = open("sf-lan", &pool);
        send(&mut port, &pool, &vec![frame(60); 3], |_, _| {});
        // Before the port looked, the kernel says so of each packet.
        line.client.ip("link set eth0 down").expect("the other end off");
        send(&mut port, &pool, &vec![frame(100); 40], |_, _| {});
        for _ in 0..10 {
            port.maintain(Nanos(0));
        }
        assert_eq!((port.in_flight(), pool.available()), (0, 2048 - 512));
        let counters = port.counters();
        assert_eq!((counters.ledger.delivered, counters.delivered_bytes), (3, 180), "{counters:?}");
        assert_eq!(counters.ledger.dropped[DropReason::PortFull], 40, "{counters:?}");
    });
}
