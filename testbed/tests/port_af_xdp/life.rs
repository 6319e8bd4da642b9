//! How a port begins and ends: interfaces that come and go, what is not allowed, and what is left behind.

use super::*;
use port_af_xdp::{Mode, OpenError};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use telemetry::DropReason;
use testbed::{Background, SERVER, audit};

/// Names the interface that [`holds_a_port_until_it_is_killed`] is to hold, in the environment of that
/// process.
const HELD: &str = "SUPERFLUID_TESTBED_HELD";

/// Not a test of its own: the process that the next one kills.
#[test]
fn holds_a_port_until_it_is_killed() {
    if let Ok(interface) = std::env::var(HELD) {
        let _port = open(&interface, &small());
        thread::sleep(SECOND * 20);
    }
}

#[test]
fn a_killed_process_leaves_nothing_attached() {
    privileged("life::a_killed_process_leaves_nothing_attached", || {
        let line = Line::new().expect("a line");
        let own = std::env::current_exe().expect("the test's own path");
        let mut holder = line.middle.command(&own.to_string_lossy());
        holder.args(["--exact", "life::holds_a_port_until_it_is_killed"]).env(HELD, "sf-lan");
        let holder = Background::start(&mut holder).expect("a process");
        wait_for(|| is_attached(&line, "sf-lan"));
        drop(holder);
        wait_for(|| !is_attached(&line, "sf-lan"));
        // The queue is free again as well, which takes the kernel a moment.
        open("sf-lan", &small());
    });
}

#[test]
fn a_pool_is_never_lent_away() {
    privileged("life::a_pool_is_never_lent_away", || {
        let line = Line::new().expect("a line");
        let pool = pool(256, BufferSize::DEFAULT);
        let lan = open("sf-lan", &pool);
        assert_eq!(pool.available(), 192, "a quarter, though the ring could hold more");
        let wan = open_with(Settings { receive_ring: 32, ..Settings::new("sf-wan") }, &pool);
        assert_eq!(pool.available(), 160, "what the setting says");
        drop(wan);
        // Half of it to send: a burst that is longer goes out in parts.
        let mut lan = lan;
        let mut far = line.client.enter(|| open("eth0", &small()));
        send(&mut lan, &pool, &vec![frame(60); 190], |_, _| {});
        far.maintain(Nanos(0));
        lan.maintain(Nanos(0));
        let ledger = &lan.counters().ledger;
        assert_eq!((ledger.delivered + lan.in_flight(), ledger.dropped.total()), (190, 0));
        lan.close(&pool).expect("nothing to write");
        assert_eq!(lan.counters().ledger.delivered, 190);
        drop(lan);
        assert_eq!(pool.available(), 256);
    });
}

#[test]
fn what_a_closing_port_holds_is_counted() {
    privileged("life::what_a_closing_port_holds_is_counted", || {
        let line = Line::new().expect("a line");
        let pool = small();
        let mut receiver = open("sf-lan", &pool);
        let mut sender = line.client.enter(|| open("eth0", &pool));
        send(&mut sender, &pool, &vec![frame(100); 7], |_, _| {});
        wait_for(|| {
            sender.maintain(Nanos(0));
            sender.in_flight() == 0
        });
        receiver.close(&pool).expect("nothing to write");
        let ledger = &receiver.counters().ledger;
        assert_eq!((ledger.received, ledger.dropped[DropReason::HeldAtStop]), (7, 7));
        sender.close(&pool).expect("nothing to write");
        assert_eq!(sender.counters().ledger.delivered, 7);
        assert_eq!(pool.available(), 2048);
        assert!(matches!(receiver.status(), PortStatus::Down(_)));
        assert!(receiver.maintain(Nanos(0)).is_empty(), "closed is no event, and it is not opened again");
    });
}

#[test]
fn nothing_stays_attached() {
    privileged("life::nothing_stays_attached", || {
        let line = Line::new().expect("a line");
        let pool = small();
        for closes in [true, false] {
            for mode in [Mode::Native, Mode::Generic] {
                let mut port = open_with(Settings { mode: Some(mode), ..Settings::new("sf-lan") }, &pool);
                assert!(is_attached(&line, "sf-lan"), "{mode:?}");
                if closes {
                    port.close(&pool).expect("nothing to write");
                } else {
                    drop(port);
                }
                assert!(!is_attached(&line, "sf-lan"), "{mode:?}");
                assert_eq!(pool.available(), 2048);
            }
        }
        // An attempt that fails leaves nothing either.
        let refused =
            AfXdpPort::open(Settings { mode: Some(Mode::ZeroCopy), ..Settings::new("sf-lan") }, pool);
        let refused = refused.err().expect("a veth has no zero-copy").to_string();
        assert!(
            refused.contains("refused: zero_copy (binding") && refused.contains("not supported"),
            "{refused}"
        );
        assert!(!is_attached(&line, "sf-lan"));
    });
}

#[test]
fn two_ports_on_one_interface_are_one_too_many() {
    privileged("life::two_ports_on_one_interface_are_one_too_many", || {
        let _line = Line::new().expect("a line");
        let pool = small();
        let _first = open("sf-lan", &pool);
        let refused = AfXdpPort::open(Settings::new("sf-lan"), Arc::clone(&pool)).err();
        assert!(matches!(refused, Some(OpenError::ProgramAttached { .. })), "{refused:?}");
    });
}

#[test]
fn an_interface_that_goes_is_taken_up_when_it_returns() {
    privileged("life::an_interface_that_goes_is_taken_up_when_it_returns", || {
        let line = Line::new().expect("a line");
        let pool = small();
        let mut lan = open("sf-lan", &pool);
        let mut wan = open("sf-wan", &pool);
        lan.maintain(Nanos(0));
        wan.maintain(Nanos(0));
        line.middle.ip("link del sf-wan").expect("it goes");

        // Before the port looked, a packet finds out.
        send(&mut wan, &pool, &[frame(60), frame(60)], |_, _| {});
        assert_eq!(wan.counters().ledger.dropped[DropReason::PortDown], 2);
        assert_eq!(pool.available(), 2048 - 512, "what was lent to the interface is back");
        let events = wan.maintain(Nanos(0));
        assert!(matches!(&events[..], [PortEvent::WentDown(_)]), "{events:?}");
        assert!(matches!(wan.status(), PortStatus::Down(reason) if reason.contains("`sf-wan` is not there")));
        assert!(lan.maintain(Nanos(0)).is_empty());
        assert_eq!(lan.status(), PortStatus::Up);
        assert!(wan.maintain(Nanos(0)).is_empty(), "it is told once");

        line.join_server().expect("it returns");
        let told = changes(&events_until_up(&mut wan));
        assert!(matches!(&told[..], [PortEvent::CameUp(_)]), "{told:?}");
        let mut far = line.server.enter(|| open("eth0", &pool));
        send(&mut wan, &pool, &[frame(77)], |_, _| {});
        let packets = receive(&mut far, &pool, 1);
        pool.free_batch(packets);

        // Replaced between two looks.
        drop(far);
        line.middle.ip("link del sf-wan").expect("it goes");
        line.join_server().expect("it returns");
        let told = changes(&events_until_up(&mut wan));
        assert!(matches!(&told[..], [PortEvent::WentDown(_), PortEvent::CameUp(_)]), "{told:?}");

        // Switched off, which a packet finds out first, and on again.
        line.middle.ip("link set sf-wan down").expect("switched off");
        send(&mut wan, &pool, &[frame(60)], |_, _| {});
        assert_eq!(wan.counters().ledger.dropped[DropReason::PortDown], 3);
        wan.maintain(Nanos(0));
        assert!(matches!(wan.status(), PortStatus::Down(reason) if reason.contains("ip link set sf-wan up")));
        line.middle.ip("link set sf-wan up").expect("switched on");
        line.server.ip("link set eth0 down").expect("the other end off");
        // The kernel lets go of the old socket's queue within milliseconds.
        wait_for(|| {
            wan.maintain(Nanos(0));
            matches!(wan.status(), PortStatus::Down(reason) if reason.contains("carrier"))
        });
        line.server.ip("link set eth0 up").expect("the other end on");
        events_until_up(&mut wan);
        let mut far = line.server.enter(|| open("eth0", &pool));
        send(&mut wan, &pool, &[frame(78)], |_, _| {});
        pool.free_batch(receive(&mut far, &pool, 1));
        for mut port in [lan, wan, far] {
            port.close(&pool).expect("nothing to write");
        }
        assert_eq!(pool.available(), 2048);
    });
}

#[test]
fn traffic_goes_on_through_an_interface_that_returned() {
    privileged("life::traffic_goes_on_through_an_interface_that_returned", || {
        let line = Line::new().expect("a line");
        let relay = start(&small());
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
        assert!(changes(lan).is_empty(), "{lan:?}");
        assert!(matches!(&changes(wan)[..], [PortEvent::WentDown(_), PortEvent::CameUp(_)]), "{wan:?}");
    });
}

#[test]
fn a_port_may_wait_for_its_interface() {
    privileged("life::a_port_may_wait_for_its_interface", || {
        let pool = small();
        let mut port = AfXdpPort::waiting(Settings::new("sf-lan"), Arc::clone(&pool)).expect("it may wait");
        assert!(matches!(port.status(), PortStatus::Down(_)));
        let line = Line::new().expect("a line");
        let changes = changes(&events_until_up(&mut port));
        assert!(matches!(&changes[..], [PortEvent::CameUp(_)]), "{changes:?}");
        let mut far = line.client.enter(|| open("eth0", &pool));
        send(&mut far, &pool, &[frame(60)], |_, _| {});
        pool.free_batch(receive(&mut port, &pool, 1));
    });
}

#[test]
fn nothing_to_do_is_nothing_done() {
    privileged("life::nothing_to_do_is_nothing_done", || {
        let line = Line::new().expect("a line");
        // Up; switched off under the port; and gone.
        for change in [None, Some("link set sf-wan down"), Some("link del sf-wan")] {
            let relay = start(&small());
            thread::sleep(Duration::from_millis(200));
            if let Some(change) = change {
                line.middle.ip(change).expect("a change");
            }
            thread::sleep(Duration::from_millis(800));
            let account = relay.stop();
            // About one round for each maintenance, and a few around a change; a relay that spins has a
            // million.
            assert!(account.rounds < 60, "{} rounds in a second after {change:?}", account.rounds);
            line.middle.ip("link set sf-wan up").ok();
        }
    });
}

#[test]
fn frames_too_long_for_the_driver_are_told_of() {
    privileged("life::frames_too_long_for_the_driver_are_told_of", || {
        let line = Line::new().expect("a line");
        for (host, name) in [(&line.middle, "sf-lan"), (&line.client, "eth0")] {
            host.ip(&format!("link set {name} mtu 9000")).expect("a large frame");
        }
        let pool = small();
        let native = Settings { mode: Some(Mode::Native), ..Settings::new("sf-lan") };
        let refused = AfXdpPort::open(native, Arc::clone(&pool)).err().expect("frames of several pages");
        assert!(refused.to_string().contains("`ip link set dev sf-lan mtu 1500`"), "{refused}");
        let mut port = open("sf-lan", &pool);
        let events = port.maintain(Nanos(0));
        let told = notices(&events).join("\n");
        assert!(told.contains("refused: zero_copy and native (attaching"), "{told}");
        assert!(told.contains("generic is used instead"), "{told}");
        assert!(told.contains("of which a buffer takes 1792"), "{told}");
    });
}

#[test]
fn without_the_capabilities_the_message_names_them() {
    privileged("life::without_the_capabilities_the_message_names_them", || {
        let line = Line::new().expect("a line");
        for (removed, named) in [
            (CapabilitySet::NET_RAW, "CAP_NET_RAW"),
            (CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN, "CAP_NET_ADMIN"),
            (CapabilitySet::BPF | CapabilitySet::SYS_ADMIN, "CAP_BPF"),
        ] {
            let mut sets = capabilities(None).expect("own capabilities");
            sets.effective.remove(removed);
            let message = line.middle.enter(|| {
                set_capabilities(None, sets).expect("less is always allowed");
                AfXdpPort::open(Settings::new("sf-lan"), small())
                    .err()
                    .expect("it is not allowed")
                    .to_string()
            });
            assert!(
                message.contains(&format!("missing: {named}")) && message.contains("sf-lan"),
                "{message}"
            );
            assert!(!is_attached(&line, "sf-lan"));
        }
    });
}

#[test]
fn a_limit_of_locked_memory_leads_to_memory_of_its_own() {
    privileged("life::a_limit_of_locked_memory_leads_to_memory_of_its_own", || {
        let line = Line::new().expect("a line");
        let pool = small();
        let mut sets = capabilities(None).expect("own capabilities");
        sets.effective.remove(CapabilitySet::IPC_LOCK);
        let limit = Rlimit { current: Some(1 << 20), maximum: Some(1 << 20) };
        let mut port = line.middle.enter(|| {
            setrlimit(Resource::Memlock, limit).expect("less is always allowed");
            set_capabilities(None, sets).expect("less is always allowed");
            // What the default rings need is too much as well.
            let refused = AfXdpPort::open(Settings::new("sf-lan"), Arc::clone(&pool)).err();
            let message = refused.expect("6 MiB").to_string();
            assert!(message.contains("ulimit -l unlimited") && message.contains("CAP_IPC_LOCK"), "{message}");
            open_with(Settings { receive_ring: 64, transmit_ring: 64, ..Settings::new("sf-lan") }, &pool)
        });
        let events = events_until_up(&mut port);
        let told = notices(&events).join("\n");
        assert!(told.contains("registering the pool as UMEM") && told.contains("port's own"), "{told}");
        let far_pool = small();
        let mut far = line.client.enter(|| open("eth0", &far_pool));
        send(&mut far, &far_pool, &[frame(60), frame(1514)], |_, _| {});
        let packets = receive(&mut port, &pool, 2);
        assert_eq!(pool.to_vec(&packets[1]), frame(1514));
        pool.free_batch(packets);
        send(&mut port, &pool, &[frame(99)], |_, _| {});
        let packets = receive(&mut far, &far_pool, 1);
        assert_eq!(far_pool.to_vec(&packets[0]), frame(99));
        far_pool.free_batch(packets);
        assert_eq!(pool.available(), 2048);
    });
}

#[test]
fn interfaces_that_cannot_be_ports_are_refused() {
    privileged("life::interfaces_that_cannot_be_ports_are_refused", || {
        let _line = Line::new().expect("a line");
        let refused = AfXdpPort::open(Settings::new("lo"), small()).err();
        assert!(matches!(refused, Some(OpenError::NotEthernet { .. })), "{refused:?}");
        let refused = AfXdpPort::open(Settings::new("sf-wam"), small()).err().expect("none").to_string();
        assert!(refused.contains("present: ") && refused.contains("sf-wan"), "{refused}");
        let absent = Settings { queues: Some(vec![0, 7]), ..Settings::new("sf-lan") };
        let refused = AfXdpPort::open(absent, small()).err().expect("one queue").to_string();
        assert!(refused.contains("there is no queue 7; it has 1 queues to receive by"), "{refused}");
    });
}
