//! What a process is told of the device behind its port, and what it asks for.

use super::*;
use native_abi::devices::{DeviceEntry, MAX_DEVICE_ENTRIES};
use nf_abi::NeighbourState;
use std::net::IpAddr;
use superfluid_native::{Woken, wait};

fn neighbour(n: usize, mac: u8) -> DeviceEntry {
    let address = IpAddr::from([10, 0, (n >> 8) as u8, n as u8]);
    let mac = [2, 0, 0, 0, 0, mac];
    DeviceEntry::Neighbour { interface: 0, address, state: NeighbourState::Reachable, mac }
}

fn bytes(entries: &[DeviceEntry]) -> Arc<[u8]> {
    entries.iter().flat_map(|entry| entry.encode()).collect()
}

/// Waits until the process has read this, as a process does.
fn until_told(attachment: &mut Attachment, expected: &[DeviceEntry]) {
    let begun = Instant::now();
    while !attachment.devices().eq(expected.iter().copied()) {
        assert!(begun.elapsed() < LONG, "{} entries", attachment.devices().count());
        match wait(&mut [&mut *attachment], Some(LONG)) {
            Woken::Something => assert!(attachment.devices_changed(), "there is nothing else"),
            other => panic!("{other:?}"),
        }
    }
    assert!(!attachment.devices_changed(), "it is told once");
}

#[test]
fn a_process_is_told_of_its_device_whenever_it_changes_and_asks_for_neighbours() {
    let mut bench = Bench::new(|settings| settings.standby = 1);
    let mut first = bench.attach();
    assert!(!first.devices_changed() && first.devices().count() == 0, "nothing is known yet");
    let link = DeviceEntry::Interface { interface: 0, is_up: true, mac: [2; 6], mtu: 1500 };
    for mac in [1, 2] {
        let entries = [link, neighbour(1, mac)];
        bench.table.tell(bytes(&entries));
        until_told(&mut first, &entries);
    }
    let addresses = [IpAddr::from([10, 0, 0, 7]), IpAddr::from([9u16; 8])];
    assert_eq!(first.ask(&addresses), 2);
    assert_eq!(bench.asked.recv_timeout(LONG).expect("it was asked"), addresses);
    assert_eq!((bench.detail("asks"), bench.detail("message_faults")), (2, 0));

    // One that stands by knows all that it needs to take over, and asks as well.
    let mut second = Attachment::attach(&bench.socket).expect("it stands by");
    until_told(&mut second, &[link, neighbour(1, 2)]);
    assert_eq!(second.ask(&addresses[..1]), 1);
    assert_eq!(bench.asked.recv_timeout(LONG).expect("it was asked"), addresses[..1]);
    drop(first);
    bench.until("it has taken over", |bench| bench.detail("takeovers") == 1);
    bench.table.tell(bytes(&[link]));
    until_told(&mut second, &[link]);
}

#[test]
fn a_table_of_any_length_comes_whole_also_to_one_that_sleeps() {
    let mut bench = Bench::new(|_| ());
    let mut attachment = bench.attach();
    let all: Vec<DeviceEntry> = (0..MAX_DEVICE_ENTRIES).map(|n| neighbour(n, 1)).collect();
    let (table, entries) = (bench.table.clone(), bytes(&all));
    let teller = std::thread::spawn(move || {
        // Most likely it sleeps by then; whether or not, it comes to know.
        std::thread::sleep(Duration::from_millis(20));
        table.tell(entries);
    });
    until_told(&mut attachment, &all);
    teller.join().expect("no panic");
    bench.table.tell(Arc::default());
    until_told(&mut attachment, &[]);
}

#[test]
fn one_that_never_reads_what_it_is_told_has_its_packets_and_others_are_told() {
    let mut bench = Bench::new(|settings| settings.standby = 1);
    let mut deaf = bench.attach();
    let mut hears = Attachment::attach(&bench.socket).expect("it stands by");
    let of = |mac: u8| (0..2_000).map(|n| neighbour(n, mac)).collect::<Vec<_>>();
    for mac in 0..100 {
        bench.table.tell(bytes(&of(mac)));
        until_told(&mut hears, &of(mac));
    }
    bench.transmit(3);
    let begun = Instant::now();
    let mut got = Vec::new();
    while got.len() < 3 {
        assert!(begun.elapsed() < LONG);
        got.extend(take(&mut deaf));
    }
    assert_eq!(deaf.send(&got), 3);
    let mut back = Vec::new();
    bench.until("they are back", |bench| {
        back.extend(bench.receive());
        back.len() == 3
    });
    bench.pool.free_batch(back);
    // When it reads at last, it comes to what is so now.
    until_told(&mut deaf, &of(99));
}
