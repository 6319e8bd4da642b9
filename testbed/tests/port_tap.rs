//! The TAP port, with the kernel's own traffic through devices that were moved into other hosts.

use packet_memory::{BufferSize, Pool};
use port::{Port, PortEvent, PortStatus};
use port_tap::{DeviceState, OpenError, Settings, TapPort};
use std::net::UdpSocket;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use telemetry::DropReason;
use telemetry::clock::{Clock, Nanos};
use testbed::{
    CLIENT, Hosts, Iperf, Namespace, Relay, RunningRelay, SERVER, audit, broadcast_frame as frame, echo,
    isolated, pattern, pool, receive, wait_for,
};

const SECOND: Duration = Duration::from_secs(1);

fn large() -> Pool {
    pool(512, BufferSize::LARGEST)
}

fn small() -> Pool {
    pool(512, BufferSize::DEFAULT)
}

/// A client and a server whose only interfaces will be TAP devices of ours.
fn hosts() -> Hosts {
    Hosts::around(Namespace::here().expect("the test's own")).expect("two hosts")
}

/// Two ports, the kernel's side of each in its host.
fn ports(hosts: &Hosts, change: impl Fn(&mut Settings)) -> [TapPort; 2] {
    let ports = ["tap-lan", "tap-wan"].map(|name| {
        let mut settings = Settings::new(name);
        change(&mut settings);
        TapPort::open(settings).expect("root may make devices")
    });
    hosts.give("tap-lan", "tap-wan").expect("they move");
    ports
}

fn relay(hosts: &Hosts, pool: Pool, change: impl Fn(&mut Settings)) -> RunningRelay {
    let ports = ports(hosts, change).map(|port| -> Box<dyn Port> { Box::new(port) });
    Relay::between(Arc::new(pool), ports).start()
}

/// A port whose device stays in the test's own namespace.
fn alone(settings: Settings) -> (Namespace, TapPort) {
    let middle = Namespace::here().expect("the test's own");
    middle.quiet().expect("loopback");
    let port = TapPort::open(settings).expect("root may make devices");
    (middle, port)
}

fn refused(settings: Settings) -> String {
    TapPort::open(settings).err().expect("it is refused").to_string()
}

fn send(port: &mut TapPort, pool: &Pool, frames: &[Vec<u8>], change: impl Fn(&mut nf_abi::PacketRecord)) {
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

#[test]
fn ping_passes_both_ways() {
    isolated("ping_passes_both_ways", || {
        let hosts = hosts();
        let running = relay(&hosts, small(), |_| {});
        for (host, to) in [(&hosts.client, SERVER), (&hosts.server, CLIENT)] {
            let output = host.run(&format!("ping -c 10 -i 0.05 -W 2 {to}"), SECOND * 10).expect("ping");
            assert!(output.stdout.contains(" 0% packet loss"), "{}", output.stdout);
            println!("{}", output.stdout.lines().last().unwrap_or_default());
        }
        let account = running.stop();
        audit(&account);
        for port in &account.ports {
            assert!(port.ledger.delivered >= 20, "{account:?}");
            assert_eq!((port.ledger.dropped.total(), port.kernel_lost), (0, 0));
        }
        assert_eq!(account.ports[0].received_bytes, account.ports[1].delivered_bytes);
    });
}

#[test]
fn udp_passes_unchanged() {
    isolated("udp_passes_unchanged", || {
        let hosts = hosts();
        let running = relay(&hosts, small(), |_| {});
        let server = hosts.server.enter(|| UdpSocket::bind((SERVER, 9))).expect("a socket");
        let client = hosts.client.enter(|| UdpSocket::bind((CLIENT, 0))).expect("a socket");
        server.set_read_timeout(Some(SECOND * 5)).expect("a valid limit");
        for length in [0, 1, 101, 1472] {
            let sent = pattern(length);
            client.send_to(&sent, (SERVER, 9)).expect("a datagram");
            let mut received = vec![0; 2000];
            let (count, _) = server.recv_from(&mut received).expect("the datagram");
            assert_eq!(received[..count], sent);
        }
        audit(&running.stop());
    });
}

/// How TCP comes depends on how long a buffer is: never longer than it has room for.
#[test]
fn segments_are_as_long_as_buffers() {
    isolated("segments_are_as_long_as_buffers", || {
        for (bytes, at_least, at_most) in
            [(64 << 10, 40_000, 65_408), (16 << 10, 10_000, 16_256), (2 << 10, 1_400, 1_514)]
        {
            let hosts = hosts();
            let running = relay(&hosts, pool(512, BufferSize::new(bytes).expect("a size")), |_| {});
            echo(&hosts.client, &hosts.server, 16 << 20);
            let account = running.stop();
            audit(&account);
            assert!((at_least..=at_most).contains(&account.longest), "{bytes}: {account:?}");
            assert_eq!(account.segmented > 0, bytes > 2 << 10, "{bytes}: {account:?}");
            for port in &account.ports {
                let dropped = &port.ledger.dropped;
                assert_eq!(dropped.total(), dropped[DropReason::HeldAtStop], "{bytes}: {account:?}");
            }
        }
    });
}

#[test]
fn without_offloads_everything_is_complete() {
    isolated("without_offloads_everything_is_complete", || {
        let hosts = hosts();
        let running = relay(&hosts, large(), |settings| settings.offload = false);
        echo(&hosts.client, &hosts.server, 1 << 20);
        let account = running.stop();
        audit(&account);
        assert_eq!((account.segmented, account.longest), (0, 1514), "{account:?}");
    });
}

#[test]
fn iperf3_runs_both_ways() {
    isolated("iperf3_runs_both_ways", || {
        let hosts = hosts();
        let running = relay(&hosts, large(), |settings| settings.queues = 2);
        let mut server = Iperf::serve(&hosts.server).expect("iperf3");
        for direction in ["", "--reverse"] {
            let options = format!("--parallel 4 {direction}");
            let bits = server.measure(&hosts.client, 1, &options).expect("iperf3");
            println!("{:.1} Gbit/s", bits / 1e9);
        }
        drop(server);
        let account = running.stop();
        audit(&account);
        assert!(account.ports.iter().all(|port| port.delivered_bytes > 10 << 20), "{account:?}");
    });
}

#[test]
fn flows_stay_in_order_on_several_queues() {
    isolated("flows_stay_in_order_on_several_queues", || {
        const FLOWS: u8 = 16;
        const DATAGRAMS: u32 = 200;
        let hosts = hosts();
        let [mut lan, mut wan] = ports(&hosts, |settings| settings.queues = 4);
        let server = hosts.server.enter(|| UdpSocket::bind((SERVER, 9))).expect("a socket");
        server.set_read_timeout(Some(SECOND * 5)).expect("a valid limit");
        let (pool, clock) = (small(), Clock::calibrate());
        let mut queued = [0u32; 4];
        let pump = |lan: &mut TapPort, wan: &mut TapPort, queued: &mut [u32; 4]| {
            let mut packets = Vec::new();
            for wan_is_first in [false, true] {
                let (from, to) = if wan_is_first { (&mut *wan, &mut *lan) } else { (&mut *lan, &mut *wan) };
                from.receive(&pool, clock.now(), 64, &mut packets);
                for packet in &mut packets {
                    // As the worker does: equal for both directions of a flow. The ports tell the flows
                    // apart.
                    let bytes = pool.to_vec(packet);
                    let ports = bytes.get(34..38).map_or(0, |p| u32::from(p[1]) ^ u32::from(p[3]));
                    let hash = ports.wrapping_mul(0x9e37_79b9);
                    queued[(hash >> 30) as usize] += 1;
                    packet.edit(|record| record.flow_hash = hash);
                }
                to.transmit(&pool, clock.now(), &mut packets);
            }
        };
        let clients: Vec<UdpSocket> = (0..FLOWS)
            .map(|flow| hosts.client.enter(|| UdpSocket::bind((CLIENT, 20_000 + u16::from(flow)))))
            .collect::<Result<_, _>>()
            .expect("sockets");
        server.set_nonblocking(true).expect("a mode");
        let mut next = [0u32; FLOWS as usize];
        let mut received = 0;
        let begin = Instant::now();
        let mut sent = 0;
        while received < DATAGRAMS * u32::from(FLOWS) {
            assert!(begin.elapsed() < SECOND * 20, "{received} datagrams came");
            if sent < DATAGRAMS {
                for client in &clients {
                    client.send_to(&sent.to_be_bytes(), (SERVER, 9)).expect("a datagram");
                }
                sent += 1;
            }
            pump(&mut lan, &mut wan, &mut queued);
            let mut bytes = [0; 4];
            while let Ok((_, from)) = server.recv_from(&mut bytes) {
                let flow = usize::from(from.port() - 20_000);
                assert_eq!(u32::from_be_bytes(bytes), next[flow], "flow {flow}");
                next[flow] += 1;
                received += 1;
            }
        }
        assert!(queued.iter().all(|&count| count > 0), "every queue has a flow: {queued:?}");
        for port in [&mut lan, &mut wan] {
            port.close(&pool).expect("nothing to do");
        }
        assert_eq!(pool.available(), 512);
    });
}

/// The device of a host, opened with queues of its own: what the kernel spreads comes from every queue.
#[test]
fn every_queue_is_received_from() {
    isolated("every_queue_is_received_from", || {
        let (middle, mut port) = alone(Settings { queues: 4, ..Settings::new("tap0") });
        middle.ip("addr add 10.83.0.1/24 dev tap0").expect("an address");
        middle.ip("neigh add 10.83.0.2 lladdr 02:00:00:00:00:01 dev tap0").expect("a neighbour");
        let socket = UdpSocket::bind((CLIENT, 0)).expect("a socket");
        let pool = small();
        let mut packets = Vec::new();
        port.receive(&pool, Nanos(0), 64, &mut packets);
        pool.free_batch(packets.drain(..));
        for to in 0..64u16 {
            socket.send_to(&[7], (SERVER, 1000 + to)).expect("a datagram");
        }
        // A worker asleep is woken by any of them.
        let readable = port.wake().readable.expect("it can be waited for");
        let mut polled = [rustix::event::PollFd::from_borrowed_fd(readable, rustix::event::PollFlags::IN)];
        let soon = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut polled, Some(&soon)), Ok(1));
        let packets = receive(&mut port, &pool, 64);
        let mut to: Vec<Vec<u8>> =
            packets.iter().map(|packet| pool.to_vec(packet)[36..38].to_vec()).collect();
        to.sort();
        to.dedup();
        assert_eq!(to.len(), 64, "each came once");
        pool.free_batch(packets);
    });
}

#[test]
fn a_device_that_is_removed_is_made_again() {
    isolated("a_device_that_is_removed_is_made_again", || {
        let (middle, mut port) = alone(Settings { queues: 2, ..Settings::new("tap0") });
        let pool = small();
        middle.ip("link del tap0").expect("it goes");
        // Before the port looked, a packet finds out.
        send(&mut port, &pool, &[frame(60), frame(60)], |_| {});
        assert_eq!(port.counters().ledger.dropped[DropReason::PortDown], 2);
        assert!(matches!(port.status(), PortStatus::Down(reason) if reason.contains("`tap0` was removed")));
        assert!(port.wake().readable.is_none(), "what is always readable is not waited for");
        let events = port.maintain(Nanos(0));
        assert!(matches!(&events[..], [PortEvent::WentDown(_), PortEvent::CameUp(_)]), "{events:?}");
        send(&mut port, &pool, &[frame(60)], |_| {});
        assert_eq!(port.counters().ledger.delivered, 1);

        // Found out by a look alone, or by a read.
        middle.ip("link del tap0").expect("it goes");
        let events = port.maintain(Nanos(0));
        assert!(matches!(&events[..], [PortEvent::WentDown(_), PortEvent::CameUp(_)]), "{events:?}");
        middle.ip("link del tap0").expect("it goes");
        port.receive(&pool, Nanos(0), 64, &mut Vec::new());
        assert!(matches!(port.status(), PortStatus::Down(_)));

        port.maintain(Nanos(0));
        middle.ip("link set tap0 down").expect("switched off");
        send(&mut port, &pool, &[frame(60)], |_| {});
        port.maintain(Nanos(0));
        assert!(matches!(port.status(), PortStatus::Down(reason) if reason.contains("ip link set tap0 up")));
        middle.ip("link set tap0 up").expect("switched on");
        assert!(matches!(&port.maintain(Nanos(0))[..], [PortEvent::CameUp(_)]));
        assert_eq!(port.status(), PortStatus::Up);
        assert_eq!(pool.available(), 512);
    });
}

#[test]
fn a_device_is_followed_to_its_host() {
    isolated("a_device_is_followed_to_its_host", || {
        let hosts = hosts();
        let mut port = TapPort::open(Settings::new("tap0")).expect("root may make devices");
        hosts.middle.give("tap0", &hosts.client, "inside").expect("it moves");
        port.maintain(Nanos(0));
        let there =
            |port: &TapPort| matches!(port.status(), PortStatus::Down(why) if why.contains("moved to"));
        assert!(there(&port), "{:?}", port.status());
        hosts.client.ip("link set inside up").expect("it comes up");
        assert!(matches!(&port.maintain(Nanos(0))[..], [PortEvent::CameUp(_)]));
        // Another one of the old name is none of ours.
        hosts.middle.ip("link add tap0 type bridge").expect("another device");
        assert!(port.maintain(Nanos(0)).is_empty());
        assert_eq!(port.status(), PortStatus::Up);
        // Its host ends, and the device with it; the name is taken meanwhile.
        drop(hosts.client);
        wait_for(|| {
            port.maintain(Nanos(0));
            matches!(port.status(), PortStatus::Down(why) if why.contains("bridge"))
        });
        hosts.middle.ip("link del tap0").expect("it goes");
        assert!(matches!(&port.maintain(Nanos(0))[..], [PortEvent::CameUp(_)]));
    });
}

#[test]
fn traffic_goes_on_through_a_device_that_was_made_again() {
    isolated("traffic_goes_on_through_a_device_that_was_made_again", || {
        let hosts = hosts();
        let running = relay(&hosts, small(), |_| {});
        let ping = || hosts.client.run(&format!("ping -c 3 -i 0.05 -W 1 {SERVER}"), SECOND * 10);
        ping().expect("the hosts are joined");
        hosts.server.ip("link del eth0").expect("it goes");
        wait_for(|| hosts.middle.ip("link show tap-wan").is_ok());
        hosts.give_server("tap-wan").expect("it moves");
        hosts.client.ip("neigh flush dev eth0").expect("the new one has another address");
        wait_for(|| ping().is_ok());
        let account = running.stop();
        audit(&account);
        let [lan, wan] = &account.events;
        assert!(matches!(wan[..2], [PortEvent::WentDown(_), PortEvent::CameUp(_)]), "{lan:?} {wan:?}");
    });
}

#[test]
fn nothing_to_do_is_nothing_done() {
    isolated("nothing_to_do_is_nothing_done", || {
        for change in [None, Some("link set eth0 down"), Some("link del eth0")] {
            for queues in [1, 3] {
                let hosts = hosts();
                let running = relay(&hosts, small(), |settings| settings.queues = queues);
                thread::sleep(Duration::from_millis(200));
                if let Some(change) = change {
                    hosts.server.ip(change).expect("a change");
                }
                thread::sleep(Duration::from_millis(800));
                let account = running.stop();
                // About one round for each maintenance, and a few around a change; a relay that spins has a
                // million.
                assert!(account.rounds < 80, "{} rounds in a second after {change:?}", account.rounds);
            }
        }
    });
}

#[test]
fn packets_longer_than_a_buffer_are_dropped_and_counted() {
    isolated("packets_longer_than_a_buffer_are_dropped_and_counted", || {
        let hosts = hosts();
        let running = relay(&hosts, small(), |settings| settings.mtu = Some(9000));
        let server = hosts.server.enter(|| UdpSocket::bind((SERVER, 9))).expect("a socket");
        let client = hosts.client.enter(|| UdpSocket::bind((CLIENT, 0))).expect("a socket");
        server.set_read_timeout(Some(SECOND * 5)).expect("a valid limit");
        // 42 bytes of headers; a buffer has room for 1728.
        for (length, passes) in [(1686, true), (1687, false), (4000, false), (8900, false), (100, true)] {
            client.send_to(&vec![7; length], (SERVER, 9)).expect("a datagram");
            if passes {
                let mut received = vec![0; 10_000];
                assert_eq!(server.recv(&mut received).expect("what fits passes"), length);
            }
        }
        let account = running.stop();
        audit(&account);
        assert_eq!(account.ports[0].ledger.dropped[DropReason::TooLong], 3, "{account:?}");
        let told =
            |event: &&PortEvent| matches!(event, PortEvent::Notice(words) if words.contains("1729 bytes"));
        assert_eq!(account.events[0].iter().filter(told).count(), 1, "{account:?}");
    });
}

#[test]
fn without_buffers_packets_are_lost_here_and_counted() {
    isolated("without_buffers_packets_are_lost_here_and_counted", || {
        let (middle, mut port) = alone(Settings { queue_length: Some(16), ..Settings::new("tap0") });
        middle.ip("addr add 10.83.0.1/24 dev tap0").expect("an address");
        middle.ip("neigh add 10.83.0.2 lladdr 02:00:00:00:00:01 dev tap0").expect("a neighbour");
        let pool = pool(2, BufferSize::DEFAULT);
        let mut packets = Vec::new();
        port.receive(&pool, Nanos(0), 64, &mut packets);
        pool.free_batch(packets.drain(..));
        let before = port.counters().ledger.received;
        let socket = UdpSocket::bind((CLIENT, 0)).expect("a socket");
        for _ in 0..5 {
            socket.send_to(&[7; 100], (SERVER, 9)).expect("a datagram");
        }
        port.receive(&pool, Nanos(0), 64, &mut packets);
        let ledger = &port.counters().ledger;
        assert_eq!((packets.len(), ledger.received - before), (2, 5));
        assert_eq!(ledger.dropped[DropReason::NoBuffer], 3);
        pool.free_batch(packets.drain(..));
        // What the queue of 16 has no room for is lost in the kernel.
        for _ in 0..20 {
            socket.send_to(&[7; 100], (SERVER, 9)).expect("a datagram");
        }
        port.maintain(Nanos(0));
        assert_eq!(port.counters().kernel_lost, 4);
        // What it still holds at the end is counted.
        port.close(&pool).expect("nothing to do");
        let ledger = &port.counters().ledger;
        assert_eq!(ledger.dropped[DropReason::HeldAtStop], 16);
        ledger.balance(2).expect("two were delivered by us");
        assert_eq!(pool.available(), 2);
    });
}

#[test]
fn what_the_kernel_refuses_is_counted_alone() {
    isolated("what_the_kernel_refuses_is_counted_alone", || {
        let (_, mut port) = alone(Settings::new("tap0"));
        let pool = small();
        send(&mut port, &pool, &[frame(60), vec![7; 5], frame(60)], |_| {});
        // A checksum outside of the packet, a segmentation that there is not.
        send(&mut port, &pool, &[frame(60)], |record| {
            record.offload_flags = nf_abi::offload::NEEDS_CHECKSUM;
            record.csum_start = 1000;
        });
        send(&mut port, &pool, &[frame(60)], |record| record.gso_type = 77);
        let ledger = &port.counters().ledger;
        assert_eq!((ledger.delivered, ledger.dropped[DropReason::PortRefused]), (2, 3));
        assert_eq!(port.status(), PortStatus::Up);
        assert_eq!(pool.available(), 512);
    });
}

#[test]
fn a_device_is_as_the_settings_say() {
    isolated("a_device_is_as_the_settings_say", || {
        let settings = Settings {
            queues: 3,
            state: DeviceState::Down,
            persist: true,
            user: Some("65534".into()),
            group: Some("root".into()),
            mtu: Some(4000),
            mac: Some([2, 0, 0, 0, 0, 7]),
            queue_length: Some(77),
            ..Settings::new("tap0")
        };
        drop(alone(settings.clone()));
        let (middle, mut port) = alone(settings.clone());
        assert!(matches!(port.status(), PortStatus::Down(reason) if reason.contains("ip link set tap0 up")));
        assert!(
            middle
                .run("ip -details link show tap0", SECOND * 5)
                .expect("it is there")
                .stdout
                .contains("persist off"),
            "one that was never used does not stay"
        );
        port.receive(&small(), Nanos(0), 0, &mut Vec::new());
        let show = || {
            let shown = middle.run("ip -details link show tap0", SECOND * 5);
            shown.map(|shown| shown.stdout)
        };
        let text = show().expect("it is there");
        for words in [
            "mtu 4000",
            "02:00:00:00:00:07",
            "qlen 77",
            "multi_queue",
            "vnet_hdr on",
            "persist on",
            "user nobody",
            "group root",
            "numqueues 3",
            "state DOWN",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        drop(port);
        assert!(show().expect("it stays").contains("numqueues 0"));
        // A process that opens it next leaves alone what it does not set.
        let again = TapPort::open(Settings { queues: 2, ..Settings::new("tap0") }).expect("it is taken");
        assert_eq!(again.status(), PortStatus::Up);
        let text = show().expect("it is there");
        assert!(text.contains("mtu 4000") && text.contains("numqueues 2"), "{text}");
        drop(again);
        middle.ip("link del tap0").expect("it stayed until now");
        drop(TapPort::open(Settings::new("tap0")).expect("it is made"));
        assert!(show().is_err(), "one that is not to stay does not");
    });
}

#[test]
fn a_device_goes_with_its_port_and_not_while_that_is_closed() {
    isolated("a_device_goes_with_its_port_and_not_while_that_is_closed", || {
        let (middle, mut port) = alone(Settings::new("tap0"));
        let is_there = || middle.ip("link show tap0").is_ok();
        port.close(&small()).expect("nothing to be written");
        assert!(is_there(), "the kernel takes its time to remove it, and a worker closes ports");
        assert!(matches!(port.status(), PortStatus::Down(reason) if reason.contains("was closed")));
        assert!(port.wake().readable.is_none() && port.maintain(Nanos(0)).is_empty());
        drop(port);
        assert!(!is_there(), "what has the port waits for it");
    });
}

#[test]
fn a_port_may_wait_for_a_device_of_another_program() {
    isolated("a_port_may_wait_for_a_device_of_another_program", || {
        let settings = Settings { create: false, queues: 2, ..Settings::new("tap0") };
        let message = refused(settings.clone());
        assert!(message.contains("create: false") && message.contains("present: "), "{message}");
        let mut port = TapPort::waiting(settings).expect("it may wait");
        assert!(matches!(port.status(), PortStatus::Down(reason) if reason.contains("none of this name")));
        let middle = Namespace::here().expect("the test's own");
        let (_, command) = message.split_once("run `ip ").expect("a command line");
        let (command, _) = command.split_once('`').expect("its end");
        middle.ip(command).expect("the command that the message names");
        assert!(matches!(&port.maintain(Nanos(0))[..], [PortEvent::CameUp(_)]));
    });
}

#[test]
fn devices_that_do_not_fit_are_refused_with_what_helps() {
    isolated("devices_that_do_not_fit_are_refused_with_what_helps", || {
        let middle = Namespace::here().expect("the test's own");
        middle.ip("link add br0 type bridge").expect("a bridge");
        let message = refused(Settings::new("br0"));
        assert!(message.contains("`bridge`") && message.contains("af_packet"), "{message}");
        let message = refused(Settings::new("lo"));
        assert!(message.contains("no virtual one"), "{message}");

        middle.ip("tuntap add dev tap0 mode tap user 65534").expect("a device with a single queue");
        middle.ip("tuntap add dev tun0 mode tun").expect("a device without Ethernet");
        for (name, queues, why) in [("tap0", 2, "`queues: 2`"), ("tun0", 1, "TUN device")] {
            let settings = Settings { queues, ..Settings::new(name) };
            let message = refused(settings.clone());
            assert!(message.contains(why), "{message}");
            let (_, command) = message.split_once("run `").expect("a command line");
            for command in command.trim_end_matches('`').split(" && ") {
                middle.run(command, SECOND * 5).expect("the commands that the message names");
            }
            let port = TapPort::open(settings).expect("it fits now");
            assert_eq!(port.status(), PortStatus::Up);
        }

        // One queue suffices for a device with a single one, and no other process may have it then.
        middle.ip("tuntap add dev tap1 mode tap").expect("a device with a single queue");
        let port = TapPort::open(Settings::new("tap1")).expect("it is taken");
        let message = refused(Settings::new("tap1"));
        assert!(message.contains("another process has the only queue"), "{message}");
        drop(port);

        for (change, words) in [
            (
                Settings { user: Some("no-such-user".into()), ..Settings::new("tap2") },
                "user: there is no `no-such-user`",
            ),
            (
                Settings { group: Some("no-such".into()), ..Settings::new("tap2") },
                "group: there is no `no-such`",
            ),
            (Settings { mtu: Some(65_535), ..Settings::new("tap2") }, "mtu: "),
        ] {
            let message = refused(change);
            assert!(message.contains(words), "{message}");
            assert!(middle.ip("link show tap2").is_err(), "nothing is half applied");
        }
    });
}

#[test]
fn without_privileges_the_message_says_what_gives_them() {
    isolated("without_privileges_the_message_says_what_gives_them", || {
        let middle = Namespace::here().expect("the test's own");
        middle.ip("tuntap add dev other mode tap user 1 multi_queue").expect("a device of another user");
        middle.ip("tuntap add dev own mode tap user 0 multi_queue").expect("a device of this user");
        middle.ip("link set own up").expect("switched on");
        let opened = |settings: Settings| {
            middle.enter(|| {
                let mut sets = rustix::thread::capabilities(None).expect("own capabilities");
                sets.effective.remove(rustix::thread::CapabilitySet::NET_ADMIN);
                rustix::thread::set_capabilities(None, sets).expect("less is always allowed");
                TapPort::open(settings)
            })
        };
        let message = |settings: Settings| opened(settings).err().expect("it is not allowed").to_string();
        let text = message(Settings::new("tap0"));
        assert!(text.contains("CAP_NET_ADMIN") && text.contains("ip tuntap add dev tap0"), "{text}");
        let text = message(Settings::new("other"));
        assert!(text.contains("belongs to user 1"), "{text}");
        let text = message(Settings { mtu: Some(2000), ..Settings::new("own") });
        assert!(text.contains("mtu: ") && text.contains("`ip link set own mtu 2000`"), "{text}");
        let mut port = opened(Settings::new("own")).expect("the owner may");
        assert_eq!(port.status(), PortStatus::Up);
        // Segments may not be limited: single packets come, and that is told with what helps.
        middle.enter(|| {
            let mut sets = rustix::thread::capabilities(None).expect("own capabilities");
            sets.effective.remove(rustix::thread::CapabilitySet::NET_ADMIN);
            rustix::thread::set_capabilities(None, sets).expect("less is always allowed");
            let mut packets = Vec::new();
            let pool = large();
            port.receive(&pool, Nanos(0), 64, &mut packets);
            pool.free_batch(packets);
            let events = port.maintain(Nanos(0));
            assert!(
                matches!(&events[..], [PortEvent::Notice(words)] if words.contains("gso_max_size 65405")),
                "{events:?}"
            );
        });
    });
}

#[test]
fn a_device_has_no_more_queues_than_the_kernel_allows() {
    isolated("a_device_has_no_more_queues_than_the_kernel_allows", || {
        let mut port =
            TapPort::open(Settings { queues: 16, ..Settings::new("tap0") }).expect("sixteen queues");
        let others: Vec<TapPort> = (0..15)
            .map(|_| TapPort::open(Settings { queues: 16, ..Settings::new("tap0") }).expect("further queues"))
            .collect();
        let error = TapPort::open(Settings::new("tap0")).err().expect("256 are the most");
        assert!(matches!(&error, OpenError::Busy { why, .. } if why.contains("no further queue")), "{error}");
        drop(others);
        assert!(port.maintain(Nanos(0)).is_empty());
    });
}

/// Not a promise, and nothing to fail on a busy machine: what a relay between two TAP devices moves, beside
/// the kernel's bridge between two veth pairs.
/// `cargo test --release -p testbed --test port_tap -- --ignored --nocapture`
#[test]
#[ignore = "takes long and is only to be read"]
fn throughput_beside_the_kernels_bridge() {
    isolated("throughput_beside_the_kernels_bridge", || {
        let taps = hosts();
        let bytes = std::env::var("BUFFER").ok().and_then(|text| text.parse().ok()).unwrap_or(64 << 10);
        let running = relay(&taps, pool(2048, BufferSize::new(bytes).expect("a size")), |_| {});
        let bridged = hosts();
        bridged.bridge().expect("a bridge");
        let mut servers =
            [&taps, &bridged].map(|hosts| (hosts, Iperf::serve(&hosts.server).expect("iperf3")));
        let measured = |(hosts, server): &mut (&Hosts, Iperf), options: &str| {
            server.measure(&hosts.client, 1, options).expect("iperf3")
        };
        for options in ["", "--reverse", "--parallel 4"] {
            let mut pairs: Vec<[f64; 2]> =
                (0..5).map(|_| servers.each_mut().map(|side| measured(side, options))).collect();
            pairs.sort_by(|a, b| (a[0] / a[1]).total_cmp(&(b[0] / b[1])));
            let [tap, bridge] = pairs[2].map(|bits| bits / 1e9);
            println!(
                "{options:12} TAP {tap:.1} Gbit/s, bridge {bridge:.1} Gbit/s, ratio {:.2}",
                tap / bridge
            );
        }
        drop(servers);
        let account = running.stop();
        audit(&account);
        println!("{account:?}");
    });
}
