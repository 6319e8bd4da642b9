//! A port with its interface: opened, passed by, gone and back, with packets in flight.

use super::*;

/// Lets about one frame through, and keeps the others.
const SLOW: &str = "tc qdisc add dev sf-lan root tbf rate 8kbit burst 1600 limit 100000";

/// What was sent is delivered, dropped or in flight.
fn assert_accounted(port: &AfPacketPort, sent: u64) {
    let ledger = &port.counters().ledger;
    assert_eq!(ledger.delivered + ledger.dropped.total() + port.in_flight(), sent, "{ledger:?}");
}

#[test]
fn packets_are_in_flight_until_the_kernel_completes_them() {
    isolated("life::packets_are_in_flight_until_the_kernel_completes_them", || {
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
    isolated("life::an_interface_may_go_while_packets_are_in_flight", || {
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
        events_until_up(&mut port);
        let mut far = line.client.enter(|| AfPacketPort::open(Settings::new("eth0"))).expect("the other end");
        send(&mut port, &pool, &[frame(77)], |_| {});
        pool.free_batch(receive(&mut far, &pool, 1));

        // Closed over a queue that does not move.
        line.middle.run(SLOW, SECOND * 5).expect("a queue");
        send(&mut port, &pool, &vec![frame(1000); 40], |_| {});
        let begin = Instant::now();
        port.close(&pool).expect("nothing to be written");
        assert!(begin.elapsed() < SECOND * 20);
        assert_eq!(port.in_flight(), 0);
        assert!(port.counters().ledger.dropped[DropReason::HeldAtStop] > 30);
        assert_accounted(&port, 82);
        assert_eq!(pool.available(), 512);
    });
}

#[test]
fn a_queue_is_passed_by_when_asked_for() {
    isolated("life::a_queue_is_passed_by_when_asked_for", || {
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
    isolated("life::an_interface_that_goes_is_taken_up_when_it_returns", || {
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
        let events = events_until_up(&mut wan);
        assert!(matches!(&events[..], [PortEvent::CameUp(_)]), "{events:?}");
        let mut far = line.server.enter(|| AfPacketPort::open(Settings::new("eth0"))).expect("the other end");
        send(&mut wan, &pool, &[frame(77)], |_| {});
        let packets = receive(&mut far, &pool, 1);
        pool.free_batch(packets);

        // Replaced between two looks.
        line.middle.ip("link del sf-wan").expect("it goes");
        line.join_server().expect("it returns");
        let mut events = wan.maintain(Nanos(0));
        events.extend(events_until_up(&mut wan));
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
        events_until_up(&mut wan);
        assert_eq!(pool.available(), 512);
    });
}

#[test]
fn traffic_goes_on_through_an_interface_that_returned() {
    isolated("life::traffic_goes_on_through_an_interface_that_returned", || {
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
    isolated("life::a_port_may_wait_for_its_interface", || {
        let mut port = AfPacketPort::waiting(Settings::new("sf-lan")).expect("it may wait");
        assert!(matches!(port.status(), PortStatus::Down(_)));
        let line = Line::new().expect("a line");
        // The kernel takes its time for the rings: a worker begins it, and is woken.
        assert_eq!(port.maintain(Nanos(0)), []);
        assert_eq!(port.status(), PortStatus::Down("interface `sf-lan` is being opened".into()));
        let readable = port.wake().readable.expect("it tells when it is there");
        let span = Timespec { tv_sec: 20, tv_nsec: 0 };
        let woken = poll(&mut [PollFd::from_borrowed_fd(readable, PollFlags::IN)], Some(&span));
        assert_eq!(woken, Ok(1));
        let pool = small();
        let mut out = Vec::new();
        port.receive(&pool, Nanos(0), 1, &mut out);
        assert_eq!((port.status(), out.len()), (PortStatus::Up, 0));
        assert!(matches!(&port.maintain(Nanos(0))[..], [PortEvent::CameUp(_)]));
        let mut far = line.client.enter(|| AfPacketPort::open(Settings::new("eth0"))).expect("the other end");
        send(&mut far, &pool, &[frame(60)], |_| {});
        pool.free_batch(receive(&mut port, &pool, 1));
    });
}

/// Rings that are mapped in this process, which has one port.
fn rings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("this process's own");
    maps.lines().filter(|line| line.contains("socket:[")).count()
}

/// Packet sockets of this network namespace.
fn sockets() -> usize {
    let table = std::fs::read_to_string("/proc/thread-self/net/packet").expect("the kernel's table");
    table.lines().count() - 1
}

#[test]
fn rings_are_there_before_their_interface_and_go_with_the_port() {
    isolated("life::rings_are_there_before_their_interface_and_go_with_the_port", || {
        let pool = small();
        let begin = || AfPacketPort::waiting(Settings::new("sf-lan")).expect("it may wait");
        // No interface has come.
        let mut port = begin();
        wait_for(|| rings() == 2);
        port.close(&pool).expect("nothing to be written");
        wait_for(|| (rings(), sockets()) == (0, 0));
        drop(port);

        let mut port = begin();
        wait_for(|| rings() == 2);
        let line = Line::new().expect("a line");
        events_until_up(&mut port);
        assert_eq!((rings(), sockets()), (2, 2), "none was set up anew");
        // The next ones are there as soon as it is seen to be gone.
        line.middle.ip("link del sf-lan").expect("it goes");
        port.maintain(Nanos(0));
        assert!(
            matches!(port.status(), PortStatus::Down(reason) if reason.contains("`sf-lan` is not there"))
        );
        wait_for(|| (rings(), sockets()) == (2, 2));
        line.join_client().expect("it returns");
        events_until_up(&mut port);
        let mut far = line.client.enter(|| AfPacketPort::open(Settings::new("eth0"))).expect("the other end");
        for (from, to) in [(0, 1), (1, 0)] {
            let ports = [&mut port, &mut far];
            send(ports[from], &pool, &[frame(60 + from)], |_| {});
            pool.free_batch(receive(ports[to], &pool, 1));
        }
        port.close(&pool).expect("nothing to be written");
        drop(far);
        wait_for(|| (rings(), sockets()) == (0, 0));
        assert_eq!(pool.available(), 512);
    });
}

#[test]
fn nothing_to_do_is_nothing_done() {
    isolated("life::nothing_to_do_is_nothing_done", || {
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
            // About one round for each maintenance, and a few around a change. An error within a millisecond
            // of the last look for errors keeps the relay awake until the next look; one that spins for good
            // has hundreds of thousands.
            assert!(account.rounds < 10_000, "{} rounds in a second after {change:?}", account.rounds);
            line.middle.ip("link set sf-wan up").ok();
        }
    });
}

#[test]
fn without_the_capability_the_message_names_it() {
    isolated("life::without_the_capability_the_message_names_it", || {
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
    isolated("life::interfaces_that_cannot_be_ports_are_refused", || {
        let _line = Line::new().expect("a line");
        let refused = AfPacketPort::open(Settings::new("lo")).err();
        assert!(matches!(refused, Some(OpenError::NotEthernet { .. })), "{refused:?}");
        let refused = AfPacketPort::open(Settings::new("sf-wam")).err().expect("there is none").to_string();
        assert!(refused.contains("present: ") && refused.contains("sf-wan"), "{refused}");
    });
}

/// Two daemons with containers of one name: the second one to come had the packets of the first one's.
#[test]
fn an_interface_of_another_programs_guest_is_not_opened() {
    isolated("life::an_interface_of_another_programs_guest_is_not_opened", || {
        let line = Line::new().expect("a line");
        let (own, another) = (Owner::of("/var/lib/superfluid"), Owner::of("/home/me/lab.yaml"));
        let has = |owner: Owner| {
            let address = owner.address().map(|byte| format!("{byte:02x}")).join(":");
            line.middle.ip(&format!("link set sf-lan address {address}")).expect("set");
        };
        has(another);
        let settings = Settings::new("sf-lan").of_guest(Some(own), None);
        let opened = AfPacketPort::open(settings.clone()).expect("it waits");
        for mut port in [opened, AfPacketPort::waiting(settings).expect("it waits")] {
            has(another);
            for _ in 0..10 {
                port.maintain(Nanos(0));
                let status = port.status();
                let told = "interface `sf-lan` is that of another program's guest";
                assert!(matches!(&status, PortStatus::Down(why) if why.starts_with(told)), "{status:?}");
                thread::sleep(Duration::from_millis(5));
            }
            has(own);
            wait_for(|| {
                port.maintain(Nanos(0));
                port.status() == PortStatus::Up
            });
        }
    });
}

#[test]
fn an_interface_that_is_refused_says_why_while_it_is_tried_again() {
    isolated("life::an_interface_that_is_refused_says_why_while_it_is_tried_again", || {
        // Without offloads it takes none that leaves checksums to others.
        let settings = Settings { offload: false, ..Settings::new("sf-lan") };
        let mut port = AfPacketPort::waiting(settings).expect("it may wait");
        let line = Line::new().expect("a line");
        let says = |port: &mut AfPacketPort, what: &str| {
            port.maintain(Nanos(0));
            matches!(port.status(), PortStatus::Down(why) if why.contains(what))
        };
        wait_for(|| says(&mut port, "tx off"));
        for _ in 0..10 {
            thread::sleep(Duration::from_millis(5));
            assert!(says(&mut port, "tx off"), "{:?}", port.status());
        }
        line.middle.ip("link del sf-lan").expect("it goes");
        wait_for(|| says(&mut port, "is not there"));
    });
}
