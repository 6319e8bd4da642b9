//! The AF_PACKET port on veth pairs, with the kernel's own traffic.

use clock::{Clock, Nanos};
use nf_abi::offload;
use packet_memory::{BufferSize, Packet, PageKind, Pool, PoolConfig};
use port::{Port, PortEvent, PortStatus};
use port_af_packet::{AfPacketPort, OpenError, Settings};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};
use telemetry::DropReason;
use testbed::{CLIENT, Iperf, Line, Relay, RunningRelay, SERVER, audit, echo, isolated, pattern};

const SECOND: Duration = Duration::from_secs(1);

fn pool(buffers: u32, buffer_size: BufferSize) -> Pool {
    let config = PoolConfig { buffers, buffer_size, headroom: 128, pages: Some(PageKind::Ordinary) };
    Pool::new("testbed", config).expect("a small pool")
}

fn large() -> Pool {
    pool(512, BufferSize::LARGEST)
}

fn small() -> Pool {
    pool(512, BufferSize::DEFAULT)
}

fn start(pool: Pool) -> RunningRelay {
    start_with(pool, |_| {})
}

fn start_with(pool: Pool, change: impl Fn(&mut Settings)) -> RunningRelay {
    let [lan, wan] = ["sf-lan", "sf-wan"].map(|name| {
        let mut settings = Settings::new(name);
        change(&mut settings);
        settings
    });
    Relay::open(pool, lan, wan).expect("both interfaces are there").start()
}

#[test]
fn ping_passes_both_ways() {
    isolated("ping_passes_both_ways", || {
        let line = Line::new().expect("a line");
        let relay = start(small());
        for (host, to) in [(&line.client, SERVER), (&line.server, CLIENT)] {
            let output = host.run(&format!("ping -c 10 -i 0.05 -W 2 {to}"), SECOND * 10).expect("ping");
            assert!(output.stdout.contains(" 0% packet loss"), "{}", output.stdout);
            println!("{}", output.stdout.lines().last().unwrap_or_default());
        }
        let account = relay.stop();
        audit(&account);
        // Ten requests, ten answers, twice; and the address resolution before them.
        for port in &account.ports {
            assert!(port.ledger.delivered >= 20, "{account:?}");
            assert_eq!((port.ledger.dropped.total(), port.kernel_lost), (0, 0));
        }
        assert_eq!(account.ports[0].ledger.received, account.ports[1].ledger.delivered);
        assert_eq!(account.ports[0].received_bytes, account.ports[1].delivered_bytes);
    });
}

#[test]
fn segments_of_64_kib_pass_whole() {
    isolated("segments_of_64_kib_pass_whole", || {
        let line = Line::new().expect("a line");
        let relay = start(large());
        echo(&line.client, &line.server, 32 << 20);
        let account = relay.stop();
        audit(&account);
        assert!(account.segmented > 100 && account.longest > 40_000, "{account:?}");
    });
}

#[test]
fn segments_longer_than_a_buffer_are_cut_and_every_byte_arrives() {
    isolated("segments_longer_than_a_buffer_are_cut_and_every_byte_arrives", || {
        let line = Line::new().expect("a line");
        // The kernel fills the checksums in and the receiver verifies them.
        for name in ["sf-lan", "sf-wan"] {
            line.middle
                .run(&format!("ethtool -K {name} tx off tso off gso off"), SECOND * 5)
                .expect("switches");
        }
        let relay = start(small());
        echo(&line.client, &line.server, 8 << 20);
        let mut server = Iperf::serve(&line.server).expect("iperf3");
        for direction in ["", "--reverse"] {
            let rate = server.measure(&line.client, 1, direction).expect("iperf3");
            println!("{:.2} Gbit/s in buffers of 2 KiB {direction}", rate / 1e9);
        }
        drop(server);
        let account = relay.stop();
        audit(&account);
        assert!(account.longest <= 1728, "{account:?}");
        for port in &account.ports {
            assert!(port.ledger.split > 1000, "{account:?}");
            assert_eq!(port.ledger.dropped[DropReason::TooLong], 0, "{account:?}");
        }
        for host in [&line.client, &line.server] {
            let table =
                host.enter(|| std::fs::read_to_string("/proc/thread-self/net/snmp")).expect("statistics");
            let tcp: Vec<&str> = table.lines().filter(|row| row.starts_with("Tcp:")).collect();
            let column = tcp[0].split(' ').position(|name| name == "InCsumErrors").expect("the column");
            assert_eq!(tcp[1].split(' ').nth(column), Some("0"), "{table}");
        }
    });
}

#[test]
fn segments_of_udp_are_cut_into_datagrams() {
    isolated("segments_of_udp_are_cut_into_datagrams", || {
        let line = Line::new().expect("a line");
        line.middle.run("ethtool -K sf-wan tx off", SECOND * 5).expect("switches");
        let relay = start(small());
        let server = line.server.enter(|| UdpSocket::bind((SERVER, 9))).expect("a socket");
        let client = line.client.enter(|| UdpSocket::bind((CLIENT, 0))).expect("a socket");
        server.set_read_timeout(Some(SECOND * 5)).expect("a valid limit");
        // Address resolution first: what waits for it is cut by the kernel.
        client.send_to(&[1], (SERVER, 9)).expect("a datagram");
        let mut received = vec![0; 2000];
        server.recv(&mut received).expect("the datagram");
        segment_by(&client, 1000);
        let sent = pattern(20_500);
        client.send_to(&sent, (SERVER, 9)).expect("21 datagrams");
        let mut arrived = Vec::<u8>::new();
        while arrived.len() < sent.len() {
            // The receiver verifies the checksums.
            let count = server.recv(&mut received).expect("a datagram");
            assert_eq!(count, if arrived.len() < 20_000 { 1000 } else { 500 });
            arrived.extend(&received[..count]);
        }
        assert!(arrived == sent, "in their order");
        let account = relay.stop();
        audit(&account);
        assert_eq!(account.ports[0].ledger.split, 20, "{account:?}");
    });
}

/// Lets the kernel take datagrams of this size in one call (`UDP_SEGMENT`, udp(7)).
#[allow(unsafe_code, reason = "no safe wrapper has this option")]
fn segment_by(socket: &UdpSocket, size: i32) {
    use std::os::fd::AsRawFd;
    let length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the option is an integer, which the kernel reads during the call.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const size).cast(),
            length,
        )
    };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn checksums_are_right_when_they_are_looked_at() {
    isolated("checksums_are_right_when_they_are_looked_at", || {
        let line = Line::new().expect("a line");
        // Between veth ends an unfinished checksum is believed. Without these offloads the kernel cuts what the relay
        // sends into segments and fills their checksums in, by the state in the record, and the receiver verifies them.
        for name in ["sf-lan", "sf-wan"] {
            let switches = format!("ethtool -K {name} tx off tso off gso off");
            line.middle.run(&switches, SECOND * 5).expect("switches of a veth end");
        }
        let relay = start(large());
        echo(&line.client, &line.server, 8 << 20);
        let account = relay.stop();
        audit(&account);
        assert!(account.segmented > 10, "{account:?}");
        // A wrong checksum would show as segments that were dropped by the receiver and sent again.
        for host in [&line.client, &line.server] {
            let table =
                host.enter(|| std::fs::read_to_string("/proc/thread-self/net/snmp")).expect("statistics");
            let tcp: Vec<&str> = table.lines().filter(|row| row.starts_with("Tcp:")).collect();
            let column = tcp[0].split(' ').position(|name| name == "InCsumErrors").expect("the column");
            assert_eq!(tcp[1].split(' ').nth(column), Some("0"), "{table}");
        }
    });
}

#[test]
fn iperf3_runs_both_ways() {
    isolated("iperf3_runs_both_ways", || {
        let line = Line::new().expect("a line");
        let relay = start(large());
        let mut server = Iperf::serve(&line.server).expect("iperf3");
        for direction in ["", "--reverse"] {
            let rate = server.measure(&line.client, 1, direction).expect("iperf3");
            println!("{:.2} Gbit/s {direction}", rate / 1e9);
        }
        drop(server);
        let account = relay.stop();
        audit(&account);
        assert!(account.ports.iter().all(|port| port.delivered_bytes > 10 << 20), "{account:?}");
    });
}

#[test]
fn without_headers_the_offloads_must_be_off() {
    isolated("without_headers_the_offloads_must_be_off", || {
        let line = Line::new().expect("a line");
        let off = |name: &str| Settings { offload: false, ..Settings::new(name) };
        let refused =
            AfPacketPort::open(off("sf-lan")).err().expect("checksums are left out here").to_string();
        assert!(refused.contains("ethtool -K sf-lan"), "{refused}");
        assert!(refused.contains("tx off"), "{refused}");

        // The line that the message names, and the same on the other ends, which the port cannot see.
        let (_, switches) = refused.split_once("ethtool -K sf-lan ").expect("a command line");
        let switches = switches.trim_end_matches('`');
        for (host, name) in [
            (&line.middle, "sf-lan"),
            (&line.middle, "sf-wan"),
            (&line.client, "eth0"),
            (&line.server, "eth0"),
        ] {
            host.run(&format!("ethtool -K {name} {switches}"), SECOND * 5).expect("switches of a veth end");
        }
        let relay = start_with(small(), |settings| settings.offload = false);
        echo(&line.client, &line.server, 1 << 20);
        let account = relay.stop();
        audit(&account);
        assert_eq!(account.segmented, 0);
        assert!(account.longest <= 1514, "{account:?}");
    });
}

#[test]
fn frames_without_checksum_are_told_of() {
    isolated("frames_without_checksum_are_told_of", || {
        let line = Line::new().expect("a line");
        for name in ["sf-lan", "sf-wan"] {
            line.middle.run(&format!("ethtool -K {name} gro off tx off"), SECOND * 5).expect("switches");
        }
        let relay = start_with(small(), |settings| settings.offload = false);
        line.client.ip("neigh add 10.83.0.2 lladdr 02:00:00:00:00:01 dev eth0").expect("a neighbour");
        let socket = line.client.enter(|| UdpSocket::bind((CLIENT, 0))).expect("a socket");
        for _ in 0..3 {
            socket.send_to(&[7; 100], (SERVER, 9)).expect("a datagram");
        }
        thread::sleep(Duration::from_millis(50));
        let account = relay.stop();
        audit(&account);
        assert_eq!(account.ports[0].ledger.dropped[DropReason::Malformed], 3, "{account:?}");
        let told = |event: &&PortEvent| matches!(event, PortEvent::Notice(words) if words.contains("tx off"));
        assert_eq!(account.events[0].iter().filter(told).count(), 1, "{account:?}");
    });
}

#[test]
fn a_partial_checksum_is_completed_for_a_port_without_headers() {
    isolated("a_partial_checksum_is_completed_for_a_port_without_headers", || {
        let line = Line::new().expect("a line");
        line.middle.run("ethtool -K sf-wan gro off tx off", SECOND * 5).expect("switches");
        let wan = Settings { offload: false, ..Settings::new("sf-wan") };
        let relay = Relay::open(small(), Settings::new("sf-lan"), wan).expect("both are there").start();
        let server = line.server.enter(|| UdpSocket::bind((SERVER, 9))).expect("a socket");
        let client = line.client.enter(|| UdpSocket::bind((CLIENT, 0))).expect("a socket");
        server.set_read_timeout(Some(SECOND * 5)).expect("a valid limit");
        for length in [0, 1, 101, 1400] {
            let sent = pattern(length);
            client.send_to(&sent, (SERVER, 9)).expect("a datagram");
            let mut received = vec![0; 2000];
            // The receiver verifies: the frame came without a word about its checksum.
            let (count, _) = server.recv_from(&mut received).expect("the datagram, checksum verified");
            assert_eq!(received[..count], sent);
        }
        audit(&relay.stop());
    });
}

#[test]
fn frames_longer_than_a_buffer_are_dropped_and_counted() {
    isolated("frames_longer_than_a_buffer_are_dropped_and_counted", || {
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

/// Receives until there are `wanted` packets; fails after a second.
fn receive(port: &mut AfPacketPort, pool: &Pool, wanted: usize) -> Vec<Packet> {
    let (clock, begin, mut packets) = (Clock::calibrate(), Instant::now(), Vec::new());
    while packets.len() < wanted {
        assert!(begin.elapsed() < SECOND, "{} of {wanted} packets came", packets.len());
        port.receive(pool, clock.now(), 64, &mut packets);
        thread::sleep(Duration::from_micros(200));
    }
    packets
}

fn wait_for(mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < SECOND * 5, "it did not come to pass");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The kernel takes its time, a second at most, to tell of a carrier that has returned.
fn wait_until_up(port: &mut AfPacketPort) {
    wait_for(|| {
        port.maintain(Nanos(0));
        port.status() == PortStatus::Up
    });
}

fn send(
    port: &mut AfPacketPort,
    pool: &Pool,
    frames: &[Vec<u8>],
    change: impl Fn(&mut nf_abi::PacketRecord),
) {
    let mut packets = Vec::new();
    for frame in frames {
        let mut packet = pool.allocate().expect("a buffer");
        pool.write(&mut packet, frame).expect("it fits");
        packet.edit(&change);
        packets.push(packet);
    }
    port.transmit(pool, Nanos(0), &mut packets);
    assert!(packets.is_empty());
}

/// A broadcast frame of the local experimental type (IEEE 802, 0x88b5).
fn frame(length: usize) -> Vec<u8> {
    let mut frame = pattern(length);
    frame[..6].fill(0xff);
    frame[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 9, 0x88, 0xb5]);
    frame
}

#[test]
fn vlan_tags_are_put_back() {
    isolated("vlan_tags_are_put_back", || {
        let line = Line::new().expect("a line");
        let pool = small();
        let mut sender = line.client.enter(|| AfPacketPort::open(Settings::new("eth0"))).expect("a sender");
        let mut receiver = AfPacketPort::open(Settings::new("sf-lan")).expect("a receiver");
        // The kernel takes the outer tag off every frame that it receives.
        let tagged = |tags: &[u8]| {
            let mut bytes = frame(100);
            bytes.splice(12..12, tags.iter().copied());
            bytes
        };
        let frames =
            [tagged(&[]), tagged(&[0x81, 0, 0x20, 0x64]), tagged(&[0x88, 0xa8, 0x60, 0x05, 0x81, 0, 0, 7])];
        send(&mut sender, &pool, &frames, |record| {
            // Checksumming from the payload on: where that is depends on the tags.
            record.offload_flags = offload::NEEDS_CHECKSUM;
            (record.csum_start, record.csum_offset) = (40, 6);
        });
        assert_eq!(sender.counters().ledger.delivered, 3);
        let packets = receive(&mut receiver, &pool, 3);
        for (packet, sent) in packets.iter().zip(&frames) {
            assert_eq!(pool.to_vec(packet), *sent);
            assert_eq!((packet.record().csum_start, packet.record().csum_offset), (40, 6));
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
    isolated("own_frames_do_not_come_back", || {
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
    isolated("what_the_kernel_refuses_is_counted_alone", || {
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
    isolated("a_checksum_outside_of_its_packet_is_refused_alone", || {
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
    isolated("long_and_short_frames_keep_their_order", || {
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
            // Around the lengths that fit into slots of either ring, and far away from them; each third one tagged.
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
    isolated("long_frames_that_find_no_room_are_counted", || {
        let line = Line::new().expect("a line");
        for (host, name) in [(&line.middle, "sf-lan"), (&line.client, "eth0")] {
            host.ip(&format!("link set {name} mtu 9000")).expect("a large frame");
        }
        let pool = large();
        let settings = Settings { ring: 512 << 10, ..Settings::new("sf-lan") };
        let mut receiver = AfPacketPort::open(settings).expect("a receiver");
        let mut sender = line.client.enter(|| AfPacketPort::open(Settings::new("eth0"))).expect("a sender");
        // Fewer than slots, and more bytes than the queue may hold.
        for _ in 0..27 {
            send(&mut sender, &pool, &vec![frame(9000); 10], |_| {});
        }
        assert_eq!(sender.counters().ledger.delivered, 270);
        let mut packets = Vec::new();
        receiver.receive(&pool, Nanos(0), 300, &mut packets);
        let counters = receiver.counters();
        assert!(counters.kernel_lost > 20 && packets.len() > 20, "{counters:?}");
        assert_eq!(packets.len() as u64 + counters.kernel_lost, 270);
        assert!(packets.iter().all(|packet| pool.to_vec(packet) == frame(9000)));
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

/// Lets about one frame through, and keeps the others.
const SLOW: &str = "tc qdisc add dev sf-lan root tbf rate 8kbit burst 1600 limit 100000";

/// What was sent is delivered, dropped or in flight.
fn assert_accounted(port: &AfPacketPort, sent: u64) {
    let ledger = &port.counters().ledger;
    assert_eq!(ledger.delivered + ledger.dropped.total() + port.in_flight(), sent, "{ledger:?}");
}

#[test]
fn packets_are_in_flight_until_the_kernel_completes_them() {
    isolated("packets_are_in_flight_until_the_kernel_completes_them", || {
        let line = Line::new().expect("a line");
        let pool = small();
        let mut port = AfPacketPort::open(Settings::new("sf-lan")).expect("it is there");
        line.middle.run(SLOW, SECOND * 5).expect("a queue");
        send(&mut port, &pool, &vec![frame(1000); 40], |_| {});
        assert!((30..40).contains(&port.in_flight()), "{}", port.in_flight());
        assert_accounted(&port, 40);
        assert_eq!(pool.available(), 512, "the slots have copies");

        // More than there are slots: the rest goes by message, as far as the queue has room.
        for _ in 0..20 {
            send(&mut port, &pool, &vec![frame(60); 50], |_| {});
        }
        assert_accounted(&port, 1040);
        let ledger = port.counters().ledger.clone();
        assert!(port.in_flight() > 500 && ledger.delivered > 300, "{} {ledger:?}", port.in_flight());

        // Without the queue everything is completed, and the ring is of use again.
        line.middle.run("tc qdisc del dev sf-lan root", SECOND * 5).expect("no queue");
        port.maintain(Nanos(0));
        assert_eq!(port.in_flight(), 0);
        assert_accounted(&port, 1040);
        let mut far = line.client.enter(|| AfPacketPort::open(Settings::new("eth0"))).expect("the other end");
        for length in 100..800 {
            send(&mut port, &pool, &[frame(length)], |_| {});
        }
        let packets = receive(&mut far, &pool, 500);
        assert!(packets.iter().zip(100..).all(|(packet, length)| packet.length() == length));
        pool.free_batch(packets);
        assert_eq!(port.in_flight(), 0);
        assert_accounted(&port, 1740);
    });
}

#[test]
fn an_interface_may_go_while_packets_are_in_flight() {
    isolated("an_interface_may_go_while_packets_are_in_flight", || {
        let line = Line::new().expect("a line");
        let pool = small();
        let mut port = AfPacketPort::open(Settings::new("sf-lan")).expect("it is there");
        line.middle.run(SLOW, SECOND * 5).expect("a queue");
        send(&mut port, &pool, &vec![frame(1000); 40], |_| {});
        assert!(port.in_flight() > 30);
        line.middle.ip("link del sf-lan").expect("it goes");
        send(&mut port, &pool, &[frame(60)], |_| {});
        port.maintain(Nanos(0));
        assert!(matches!(port.status(), PortStatus::Down(_)));
        assert_eq!(port.in_flight(), 0, "the kernel gave up what it had");
        assert_accounted(&port, 41);

        line.join_client().expect("it returns");
        wait_until_up(&mut port);
        let mut far = line.client.enter(|| AfPacketPort::open(Settings::new("eth0"))).expect("the other end");
        send(&mut port, &pool, &[frame(77)], |_| {});
        pool.free_batch(receive(&mut far, &pool, 1));

        // Closed over a queue that does not move.
        line.middle.run(SLOW, SECOND * 5).expect("a queue");
        send(&mut port, &pool, &vec![frame(1000); 40], |_| {});
        let begin = Instant::now();
        port.close(&pool).expect("nothing to be written");
        assert!(begin.elapsed() < SECOND);
        assert_eq!(port.in_flight(), 0);
        assert!(port.counters().ledger.dropped[DropReason::HeldAtStop] > 30);
        assert_accounted(&port, 82);
        assert_eq!(pool.available(), 512);
    });
}

#[test]
fn a_queue_is_passed_by_when_asked_for() {
    isolated("a_queue_is_passed_by_when_asked_for", || {
        let line = Line::new().expect("a line");
        let pool = small();
        let settings = Settings { qdisc_bypass: true, ..Settings::new("sf-lan") };
        let mut port = AfPacketPort::open(settings).expect("it is there");
        let mut far = line.client.enter(|| AfPacketPort::open(Settings::new("eth0"))).expect("the other end");
        line.middle.run(SLOW, SECOND * 5).expect("a queue");
        // Both ways of sending: longer than the MTU allows without a tag, a packet goes by message.
        let mut tagged = frame(1514);
        tagged.splice(12..12, [0x81, 0, 0, 7]);
        send(&mut port, &pool, &vec![frame(1000); 40], |_| {});
        send(&mut port, &pool, &[tagged.clone()], |_| {});
        let packets = receive(&mut far, &pool, 41);
        assert_eq!(pool.to_vec(&packets[40]), tagged);
        pool.free_batch(packets);
        assert_eq!(port.in_flight(), 0);
        assert_accounted(&port, 41);
    });
}

#[test]
fn an_interface_that_goes_is_taken_up_when_it_returns() {
    isolated("an_interface_that_goes_is_taken_up_when_it_returns", || {
        let line = Line::new().expect("a line");
        let pool = small();
        let mut lan = AfPacketPort::open(Settings::new("sf-lan")).expect("it is there");
        let mut wan = AfPacketPort::open(Settings::new("sf-wan")).expect("it is there");
        line.middle.ip("link del sf-wan").expect("it goes");

        // Before the port looked, a packet finds out.
        send(&mut wan, &pool, &[frame(60), frame(60)], |_| {});
        assert_eq!(wan.counters().ledger.dropped[DropReason::PortDown], 2);
        let events = wan.maintain(Nanos(0));
        assert!(matches!(&events[..], [PortEvent::WentDown(_)]), "{events:?}");
        assert!(matches!(wan.status(), PortStatus::Down(reason) if reason.contains("`sf-wan` is not there")));
        assert!(lan.maintain(Nanos(0)).is_empty());
        assert_eq!(lan.status(), PortStatus::Up);
        assert!(wan.maintain(Nanos(0)).is_empty(), "it is told once");

        line.join_server().expect("it returns");
        let events = wan.maintain(Nanos(0));
        assert!(matches!(&events[..], [PortEvent::CameUp(_)]), "{events:?}");
        let mut far = line.server.enter(|| AfPacketPort::open(Settings::new("eth0"))).expect("the other end");
        send(&mut wan, &pool, &[frame(77)], |_| {});
        let packets = receive(&mut far, &pool, 1);
        pool.free_batch(packets);

        // Replaced between two looks.
        line.middle.ip("link del sf-wan").expect("it goes");
        line.join_server().expect("it returns");
        let events = wan.maintain(Nanos(0));
        assert!(matches!(&events[..], [PortEvent::WentDown(_), PortEvent::CameUp(_)]), "{events:?}");

        line.middle.ip("link set sf-wan down").expect("switched off");
        wan.maintain(Nanos(0));
        assert!(matches!(wan.status(), PortStatus::Down(reason) if reason.contains("ip link set sf-wan up")));
        line.middle.ip("link set sf-wan up").expect("switched on");
        line.server.ip("link set eth0 down").expect("the other end off");
        wait_for(|| {
            wan.maintain(Nanos(0));
            matches!(wan.status(), PortStatus::Down(reason) if reason.contains("carrier"))
        });
        line.server.ip("link set eth0 up").expect("the other end on");
        wait_until_up(&mut wan);
        assert_eq!(pool.available(), 512);
    });
}

#[test]
fn traffic_goes_on_through_an_interface_that_returned() {
    isolated("traffic_goes_on_through_an_interface_that_returned", || {
        let line = Line::new().expect("a line");
        let relay = start(small());
        let ping = || line.client.run(&format!("ping -c 3 -i 0.05 -W 1 {SERVER}"), SECOND * 10);
        ping().expect("the line works");
        line.middle.ip("link del sf-wan").expect("it goes");
        assert!(ping().is_err(), "nothing is there to answer");
        line.join_server().expect("it returns");
        wait_for(|| ping().is_ok());
        let account = relay.stop();
        audit(&account);
        assert!(account.ports[1].ledger.dropped[DropReason::PortDown] > 0);
        let [lan, wan] = &account.events;
        assert!(lan.is_empty(), "{lan:?}");
        assert!(matches!(&wan[..], [PortEvent::WentDown(_), PortEvent::CameUp(_)]), "{wan:?}");
    });
}

#[test]
fn a_port_may_wait_for_its_interface() {
    isolated("a_port_may_wait_for_its_interface", || {
        let mut port = AfPacketPort::waiting(Settings::new("sf-lan")).expect("it may wait");
        assert!(matches!(port.status(), PortStatus::Down(_)));
        let line = Line::new().expect("a line");
        assert!(matches!(&port.maintain(Nanos(0))[..], [PortEvent::CameUp(_)]));
        let pool = small();
        let mut far = line.client.enter(|| AfPacketPort::open(Settings::new("eth0"))).expect("the other end");
        send(&mut far, &pool, &[frame(60)], |_| {});
        pool.free_batch(receive(&mut port, &pool, 1));
    });
}

#[test]
fn nothing_to_do_is_nothing_done() {
    isolated("nothing_to_do_is_nothing_done", || {
        let line = Line::new().expect("a line");
        // Up; switched off under the port, which leaves an error in its socket; and gone.
        for change in [None, Some("link set sf-wan down"), Some("link del sf-wan")] {
            let relay = start(small());
            thread::sleep(Duration::from_millis(200));
            if let Some(change) = change {
                line.middle.ip(change).expect("a change");
            }
            thread::sleep(Duration::from_millis(800));
            let account = relay.stop();
            // About one round for each maintenance, and a few around a change. An error within a millisecond of the last look
            // for errors keeps the relay awake until the next look; one that spins for good has hundreds of thousands.
            assert!(account.rounds < 10_000, "{} rounds in a second after {change:?}", account.rounds);
            line.middle.ip("link set sf-wan up").ok();
        }
    });
}

#[test]
fn what_the_ring_cannot_hold_is_counted() {
    isolated("what_the_ring_cannot_hold_is_counted", || {
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

#[test]
fn without_the_capability_the_message_names_it() {
    isolated("without_the_capability_the_message_names_it", || {
        let line = Line::new().expect("a line");
        let mut sets = capabilities(None).expect("own capabilities");
        sets.effective.remove(CapabilitySet::NET_RAW);
        let message = line.middle.enter(|| {
            set_capabilities(None, sets).expect("less is always allowed");
            AfPacketPort::open(Settings::new("sf-lan")).err().expect("it is not allowed").to_string()
        });
        assert!(message.contains("CAP_NET_RAW") && message.contains("sf-lan"), "{message}");
    });
}

#[test]
fn interfaces_that_cannot_be_ports_are_refused() {
    isolated("interfaces_that_cannot_be_ports_are_refused", || {
        let _line = Line::new().expect("a line");
        let refused = AfPacketPort::open(Settings::new("lo")).err();
        assert!(matches!(refused, Some(OpenError::NotEthernet { .. })), "{refused:?}");
        let refused = AfPacketPort::open(Settings::new("sf-wam")).err().expect("there is none").to_string();
        assert!(refused.contains("present: ") && refused.contains("sf-wan"), "{refused}");
    });
}
