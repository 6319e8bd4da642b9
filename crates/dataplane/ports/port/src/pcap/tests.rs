//! Captures are built byte by byte here; what the port writes is read back by this reader and by
//! `pcap-parser`.

use super::testing::{Builder, FORMATS, Folder, Order, contents, ethernet, frame, read, three};
use super::*;
use crate::taking::checked;
use crate::testing::{NOW, assert_conserved, packets, pool, receive_all};
use ::capture::Target;
use packet_memory::{BufferSize, PageKind, PoolConfig};
use pcap_parser::traits::PcapReaderIterator;
use proptest::prelude::*;
use std::io::{Cursor, Write};
use std::sync::{Arc, Mutex};

#[test]
fn settings_come_from_the_schema() {
    let config = |text| Config::from_value(&checked(SCHEMA, text).unwrap());
    let all = config("{read: a.pcap, write: b.pcapng, pace: recorded, speed: 200, loop: 3}").unwrap();
    let (read, write) = (Some("a.pcap".into()), Some("b.pcapng".into()));
    assert_eq!(
        all,
        Config { read: read.clone(), write, pace: Pace::Recorded(200), passes: Some(3), ..Config::default() }
    );
    let flat_out = config("{read: a.pcap, pace: flat_out, loop: 0}").unwrap();
    assert_eq!(
        flat_out,
        Config { read, write: None, pace: Pace::FlatOut, passes: None, ..Config::default() }
    );
    assert!(config("{pace: flat_out}").unwrap_err().contains("found neither"));
}

#[test]
fn reads_both_formats_in_both_byte_orders_and_units() {
    for format in FORMATS {
        let (all, fault) = read(&three(format));
        assert!(fault.is_none(), "{format}: {fault:?}");
        let expected: Vec<_> = [(1u8, 1_000_005_000_000u64), (2, 1_000_006_000_000), (3, 1_000_008_000_000)]
            .map(|(n, at)| (ethernet(Some(at), frame(n).len()), frame(n)))
            .into();
        assert_eq!(all, expected, "{format}");
    }
}

#[test]
fn sections_interfaces_and_kinds_of_packets() {
    let mut builder = Builder::sections(Order::Little);
    builder.interface(1, 64, None);
    builder.interface(113, 0, Some(0x8a));
    builder.simple(&frame(7)[..64], frame(7).len());
    builder.enhanced(1, 2048, &frame(1), frame(1).len());
    builder.enhanced(0, 3_000_000, &frame(2)[..60], frame(2).len());
    // A longer block than the window, of a kind that is not known.
    builder.block(0xbad, &vec![0; input::CAPACITY + 100]);
    builder.section(Order::Big);
    builder.interface(1, 0, Some(9));
    builder.enhanced(0, 4, &frame(3), frame(3).len());
    let mut obsolete = vec![0, 0, 0, 0];
    obsolete.extend([[0u8, 0, 0, 0], [0, 0, 0, 9], [0, 0, 0, 60], [0, 0, 0, 60]].concat());
    obsolete.extend([5; 60]);
    builder.block(2, &obsolete);
    let (all, fault) = read(&builder.bytes);
    assert!(fault.is_none(), "{fault:?}");
    let record = |timestamp, length, original_length, link_type| Record {
        timestamp,
        length,
        original_length,
        link_type,
    };
    let expected = [
        (record(None, 64, 67, 1), frame(7)[..64].to_vec()),
        (record(Some(2_000_000_000), 61, 61, 113), frame(1)),
        (record(Some(3_000_000_000), 60, 62, 1), frame(2)[..60].to_vec()),
        (record(Some(4), 63, 63, 1), frame(3)),
        (record(Some(9), 60, 60, 1), vec![5; 60]),
    ];
    assert_eq!(all, expected);
}

#[test]
fn a_capture_cut_anywhere_gives_what_is_before() {
    for format in FORMATS {
        let bytes = three(format);
        let (whole, _) = read(&bytes);
        for length in 0..bytes.len() {
            let Ok(mut capture) = Capture::new(Cursor::new(&bytes[..length])) else {
                assert!(length < 28, "{format}: {length}");
                continue;
            };
            let mut found = Vec::new();
            let fault = loop {
                match capture.step() {
                    Ok(Next::Record(record)) => found.push((record, capture.bytes().to_vec())),
                    Ok(Next::Passed) => {}
                    Ok(Next::End) => break None,
                    Err(fault) => break Some(fault),
                }
            };
            assert_eq!(found, whole[..found.len()]);
            if let Some(fault) = &fault {
                assert!(matches!(fault.cause, Cause::Ends { .. }), "{format}, {length}: {fault}");
                assert!(fault.offset < length as u64 && fault.record == found.len() as u64 + 1);
            }
            assert!(matches!(capture.step(), Ok(Next::End)));
        }
    }
}

#[test]
fn faults_say_where_and_what() {
    let broken = |bytes: &[u8]| {
        let (all, fault) = read(bytes);
        (all.len(), fault.unwrap().to_string())
    };
    let mut classic = three(0);
    let second = 24 + 16 + 61;
    classic[second + 8..second + 12].copy_from_slice(&300_000u32.to_le_bytes());
    let words = format!("at byte {second}, in record 2: an impossible length of 300000 bytes for a packet");
    assert_eq!(broken(&classic), (1, words));

    let mut builder = Builder::sections(Order::Little);
    builder.interface(1, 0, None);
    let start = builder.bytes.len();
    builder.enhanced(5, 0, &frame(1), 61);
    let words = format!("at byte {start}, in record 1: interface 5 of 1");
    assert_eq!(broken(&builder.bytes), (0, words));

    let mut builder = Builder::sections(Order::Little);
    builder.interface(1, 0, None);
    let start = builder.bytes.len();
    builder.enhanced(0, 0, &frame(1), 61);
    let (mut lying, mut trailer) = (builder.bytes.clone(), builder.bytes);
    lying[start + 20] = 200;
    assert!(broken(&lying).1.contains("an impossible length of 200 bytes for a packet"));
    let end = trailer.len();
    trailer[end - 4] = 0;
    assert!(broken(&trailer).1.contains("at its end 0"), "{}", broken(&trailer).1);

    let mut odd = three(4);
    odd.extend([1, 0, 0, 0, 13, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(broken(&odd).0, 3);
}

#[test]
fn what_cannot_be_read_is_refused_in_words() {
    let folder = Folder::new();
    let refusal = |name: &str, bytes: &[u8]| {
        let config = Config { read: Some(folder.file(name, bytes)), ..Config::default() };
        PcapPort::open(config).err().unwrap().to_string()
    };
    assert!(refusal("text", b"hello").contains("neither pcap nor pcapng"));
    assert!(refusal("empty", b"").contains("neither pcap nor pcapng"));
    let wireless = refusal("wireless", &Builder::classic(Order::Big, false, 105).bytes);
    assert!(wireless.ends_with(
        "packets of link type 105 (wireless LAN); allowed: Ethernet (1), Linux cooked (113, 276), IP (12, 14, \
         101, 228, 229), loopback (0, 108)"
    ));
    let mut usb = Builder::sections(Order::Little);
    usb.interface(220, 0, None);
    usb.enhanced(0, 0, &frame(1), 61);
    assert!(refusal("usb", &usb.bytes).contains("link type 220"));
    let open = |read: PathBuf, write| PcapPort::open(Config { read: Some(read), write, ..Config::default() });
    let folder_itself = open(folder.0.clone(), None);
    assert!(matches!(folder_itself, Err(OpenError::NotRegular { .. })));
    assert!(matches!(open(folder.path("none"), None), Err(OpenError::File { .. })));
    let three = folder.file("three", &three(0));
    std::fs::hard_link(&three, folder.path("link")).unwrap();
    assert!(matches!(open(three.clone(), Some(folder.path("link"))), Err(OpenError::SameFile { .. })));
    assert!(std::fs::metadata(&three).unwrap().len() > 24, "the file to be read was emptied");
    assert!(matches!(PcapPort::open(Config::default()), Err(OpenError::NoPath)));
}

#[test]
fn flat_out_gives_everything_at_once_with_recorded_times() {
    let folder = Folder::new();
    let pool = pool(64);
    for format in FORMATS {
        let read = Some(folder.file("in", &three(format)));
        let config = Config { read, pace: Pace::FlatOut, passes: Some(2), ..Config::default() };
        let mut port = PcapPort::open(config).unwrap();
        assert_eq!((port.wake().at, port.status()), (Some(Nanos(0)), PortStatus::Up));
        let mut all = receive_all(&mut port, &pool, NOW);
        assert_eq!(contents(&pool, &all), [1, 2, 3, 1, 2, 3].map(frame));
        assert_eq!(all[1].record().timestamp, 1_000_006_000_000);
        assert_eq!((port.wake().at, port.status()), (None, PortStatus::Finished));
        assert_conserved(&port, &pool, 0, 6);
        port.transmit(&pool, NOW, &mut all);
        assert_conserved(&port, &pool, 0, 0);
        assert_eq!(port.details()[..2], [("passes", 2), ("cut_short", 0)]);
        assert_eq!(port.counters().received_bytes, 2 * (61 + 62 + 63));
        assert!(port.maintain(NOW).is_empty());
    }
}

#[test]
fn recorded_times_are_kept_and_said_beforehand() {
    let folder = Folder::new();
    let pool = pool(64);
    for (percent, times) in
        [(100, [0, 1_000_000, 3_000_000]), (200, [0, 500_000, 1_500_000]), (50, [0, 2_000_000, 6_000_000])]
    {
        let read = Some(folder.file("in", &three(3)));
        let config = Config { read, pace: Pace::Recorded(percent), passes: None, ..Config::default() };
        let mut port = PcapPort::open(config).unwrap();
        // Passes follow each other directly: the last packet of one and the first of the next are due
        // together.
        for (pass, n) in (0..9u64).map(|n| (n / 3, n as usize % 3)) {
            let due = Nanos(NOW.0 + pass * times[2] + times[n]);
            let mut batch = Vec::new();
            if times[n] > 0 {
                assert_eq!(port.wake().at, Some(due));
                port.receive(&pool, Nanos(due.0 - 1), 1, &mut batch);
                assert!(batch.is_empty());
            }
            port.receive(&pool, due, 1, &mut batch);
            assert_eq!(contents(&pool, &batch), [frame(n as u8 + 1)]);
            assert_eq!(batch[0].record().timestamp, due.0);
            port.transmit(&pool, due, &mut batch);
        }
        assert_conserved(&port, &pool, 0, 0);
    }
}

#[test]
fn time_that_jumps_back_stands_still() {
    let mut builder = Builder::classic(Order::Little, false, 1);
    for seconds in [100, 50, 51] {
        builder.classic_packet(seconds, 0, &frame(1), 61);
    }
    let folder = Folder::new();
    let pool = pool(8);
    let read = Some(folder.file("in", &builder.bytes));
    let mut port = PcapPort::open(Config { read, passes: Some(2), ..Config::default() }).unwrap();
    // Within a pass, and from the end of one to the beginning of the next.
    for (seconds, packets) in [(0, 2), (1, 3), (2, 1)] {
        let due = Nanos(NOW.0 + seconds * 1_000_000_000);
        let mut batch = receive_all(&mut port, &pool, due);
        assert_eq!(batch.len(), packets);
        let next = (seconds < 2).then_some(Nanos(due.0 + 1_000_000_000));
        assert_eq!(port.wake().at, next);
        port.transmit(&pool, NOW, &mut batch);
    }
}

#[test]
fn a_broken_capture_is_told_once_and_used_up_to_there() {
    let folder = Folder::new();
    let pool = pool(64);
    for (passes, expected) in [(Some(1), 2), (Some(3), 6)] {
        let bytes = three(2);
        let read = Some(folder.file("in", &bytes[..bytes.len() - 1]));
        let config = Config { read, pace: Pace::FlatOut, passes, ..Config::default() };
        let mut port = PcapPort::open(config).unwrap();
        let mut all = receive_all(&mut port, &pool, NOW);
        assert_eq!((all.len(), port.status()), (expected, PortStatus::Finished));
        let [PortEvent::Notice(text)] = &port.maintain(NOW)[..] else { panic!("one notice") };
        let offset = 24 + 16 + 61 + 16 + 62;
        assert!(
            text.contains(&format!(
                "breaks at byte {offset}, in record 3: the file ends after 78 of 79 bytes"
            )),
            "{text}"
        );
        port.transmit(&pool, NOW, &mut all);
        assert_conserved(&port, &pool, 0, 0);
    }
    // Broken from the beginning, again and again: it ends all the same.
    let read = Some(folder.file("in", &three(0)[..30]));
    let config = Config { read, pace: Pace::FlatOut, passes: None, ..Config::default() };
    let mut port = PcapPort::open(config).unwrap();
    assert!(receive_all(&mut port, &pool, NOW).is_empty());
    assert_eq!((port.status(), port.maintain(NOW).len()), (PortStatus::Finished, 1));
}

#[test]
fn without_buffers_a_schedule_loses_packets_and_a_file_waits() {
    let folder = Folder::new();
    let pool = pool(2);
    let open = |pace| {
        PcapPort::open(Config { read: Some(folder.file("in", &three(0))), pace, ..Config::default() })
            .unwrap()
    };
    let mut port = open(Pace::FlatOut);
    let mut held = receive_all(&mut port, &pool, NOW);
    assert_eq!((held.len(), port.counters().ledger.received), (2, 2));
    port.transmit(&pool, NOW, &mut held);
    let mut rest = receive_all(&mut port, &pool, NOW);
    assert_eq!(contents(&pool, &rest), [frame(3)]);
    port.transmit(&pool, NOW, &mut rest);
    assert_conserved(&port, &pool, 0, 0);

    let mut port = open(Pace::Recorded(100));
    let (mut held, later) = (Vec::new(), Nanos(NOW.0 + 10_000_000));
    port.receive(&pool, NOW, 32, &mut held);
    port.receive(&pool, later, 32, &mut held);
    assert_eq!(held.len(), 2);
    assert_eq!(port.counters().ledger.dropped[DropReason::NoBuffer], 1);
    assert_conserved(&port, &pool, 0, 2);
    port.transmit(&pool, NOW, &mut held);
}

#[test]
fn packets_that_cannot_be_taken_are_counted_and_told() {
    let mut builder = Builder::sections(Order::Little);
    builder.interface(1, 0, None);
    builder.interface(105, 0, None);
    builder.enhanced(0, 0, &frame(1)[..50], 61);
    builder.enhanced(1, 0, &frame(1), 61);
    builder.enhanced(0, 0, &[0; 1921], 1921);
    builder.enhanced(0, 0, &[0; 1728], 1728);
    builder.enhanced(0, 0, &[], 0);
    let folder = Folder::new();
    let pool = pool(8);
    let read = Some(folder.file("in", &builder.bytes));
    let mut port = PcapPort::open(Config { read, pace: Pace::FlatOut, ..Config::default() }).unwrap();
    let mut all = receive_all(&mut port, &pool, NOW);
    assert_eq!(all.iter().map(Packet::length).collect::<Vec<_>>(), [50, 1728]);
    let dropped = &port.counters().ledger.dropped;
    assert_eq!((dropped[DropReason::Malformed], dropped[DropReason::TooLong]), (2, 1), "another link, empty");
    assert_conserved(&port, &pool, 0, 2);
    port.transmit(&pool, NOW, &mut all);
    assert_conserved(&port, &pool, 0, 0);
    let events: Vec<String> = port.maintain(NOW).iter().map(|event| format!("{event:?}")).collect();
    assert_eq!(events.len(), 3, "{events:?}");
    assert!(
        events[0].contains("link type 105")
            && events[1].contains("only in part")
            && events[2].contains("1921")
    );
}

#[test]
fn many_blocks_without_packets_do_not_hold_up_the_worker() {
    let mut builder = Builder::sections(Order::Little);
    builder.interface(1, 0, None);
    for _ in 0..5000 {
        builder.block(5, &[0; 8]);
    }
    builder.enhanced(0, 0, &frame(1), 61);
    let folder = Folder::new();
    let pool = pool(8);
    let read = Some(folder.file("in", &builder.bytes));
    let mut port = PcapPort::open(Config { read, ..Config::default() }).unwrap();
    let mut calls = 0;
    let mut batch = Vec::new();
    while batch.is_empty() && calls < 100 {
        assert!(port.wake().at.is_some_and(|at| at <= NOW));
        port.receive(&pool, NOW, 32, &mut batch);
        calls += 1;
    }
    assert!((5..100).contains(&calls), "{calls}");
    port.transmit(&pool, NOW, &mut batch);
    assert_conserved(&port, &pool, 0, 0);
}

/// Packets as another reader finds them: nanoseconds and bytes.
fn read_by_others(bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut reader = pcap_parser::PcapNGReader::new(1 << 20, Cursor::new(bytes)).unwrap();
    let mut all = Vec::new();
    let mut interfaces = 0;
    loop {
        let size = match reader.next() {
            Ok((size, pcap_parser::PcapBlockOwned::NG(block))) => {
                match block {
                    pcap_parser::Block::InterfaceDescription(interface) => {
                        interfaces += 1;
                        assert_eq!((interface.linktype.0, interface.if_tsresol), (1, 9));
                    }
                    pcap_parser::Block::EnhancedPacket(packet) => {
                        assert_eq!((packet.if_id, packet.caplen, interfaces), (0, packet.origlen, 1));
                        let at = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                        all.push((at, packet.data[..packet.caplen as usize].to_vec()));
                    }
                    _ => {}
                }
                size
            }
            Err(pcap_parser::PcapError::Eof) => return all,
            Err(pcap_parser::PcapError::Incomplete(_)) => {
                reader.refill().unwrap();
                0
            }
            Err(error) => panic!("{error:?}"),
            Ok(_) => panic!("not pcapng"),
        };
        reader.consume(size);
    }
}

#[test]
fn what_is_written_is_what_was_sent() {
    let folder = Folder::new();
    let large = PoolConfig {
        buffers: 64,
        buffer_size: BufferSize::LARGEST,
        headroom: 128,
        pages: Some(PageKind::Ordinary),
    };
    let pool = Pool::new("large", large).unwrap();
    let path = folder.file("out", b"something longer that was there before");
    let mut port = PcapPort::open(Config { write: Some(path.clone()), ..Config::default() }).unwrap();
    let mut expected = Vec::new();
    // The fourth batch is more than is collected before it is written.
    for (n, lengths) in
        [&[0usize, 1, 2, 3, 4, 60][..], &[], &[1514, 65_000], &[65_000; 10]].into_iter().enumerate()
    {
        let contents: Vec<Vec<u8>> = lengths.iter().map(|&length| vec![n as u8; length]).collect();
        let mut batch = packets(&pool, contents.iter().map(Vec::as_slice));
        for (k, packet) in batch.iter_mut().enumerate() {
            packet.edit(|record| record.timestamp = if k == 0 { 0 } else { k as u64 + (1 << 33) });
        }
        for (k, bytes) in contents.into_iter().enumerate() {
            expected.push((if k == 0 { 0 } else { k as u64 + (1 << 33) }, bytes));
        }
        port.transmit(&pool, NOW, &mut batch);
        assert!(batch.is_empty());
    }
    assert_conserved(&port, &pool, expected.len() as u64, 0);
    assert_eq!(port.details(), [("written", expected.len() as u64)]);
    port.close(&pool).unwrap();
    let written = std::fs::read(path).unwrap();
    assert_eq!(read_by_others(&written), expected);
    let (ours, fault) = read(&written);
    assert!(fault.is_none());
    let ours: Vec<_> = ours.into_iter().map(|(record, bytes)| (record.timestamp.unwrap(), bytes)).collect();
    assert_eq!(ours, expected);
    // After the end everything is lost, and counted.
    let mut late = packets(&pool, [&[1u8; 60][..]]);
    port.transmit(&pool, NOW, &mut late);
    assert_eq!(port.counters().ledger.dropped[DropReason::PortDown], 1);
    assert_conserved(&port, &pool, expected.len() as u64 + 1, 0);
}

/// A disk with room for so many bytes.
struct SmallDisk {
    room: usize,
    contents: Arc<Mutex<Vec<u8>>>,
}

impl Write for SmallDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut contents = self.contents.lock().unwrap();
        // In pieces, as a kernel may.
        let count = bytes.len().min(self.room - contents.len()).min(1000);
        contents.extend(&bytes[..count]);
        if count == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(count) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Target for SmallDisk {
    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.contents.lock().unwrap().truncate(length as usize);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_ends_the_writing_and_every_packet_is_accounted_for() {
    let pool = pool(64);
    for room in (80..12_000).step_by(97) {
        let contents = Arc::new(Mutex::new(Vec::new()));
        let writer = Writer::new(Box::new(SmallDisk { room, contents: contents.clone() })).unwrap();
        let mut port = PcapPort {
            reader: None,
            output: Output::Writing("out".into(), writer),
            written: 0,
            events: Vec::new(),
            counters: PortCounters::default(),
        };
        for batch in 0..3 {
            let frames: Vec<_> = (0..40).map(|n| frame(batch * 40 + n)).collect();
            port.transmit(&pool, NOW, &mut packets(&pool, frames.iter().map(Vec::as_slice)));
            assert_conserved(&port, &pool, u64::from(batch + 1) * 40, 0);
        }
        let ledger = &port.counters().ledger;
        assert_eq!(ledger.delivered + ledger.dropped[DropReason::PortDown], 120);
        // The file ends with a whole packet, and has exactly those that count as delivered.
        let found = read_by_others(&contents.lock().unwrap());
        assert_eq!(found.len() as u64, ledger.delivered);
        let bytes: u64 = found.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        assert_eq!(port.counters().delivered_bytes, bytes);
        let events = port.maintain(NOW);
        let [PortEvent::WentDown(text)] = &events[..] else { panic!("{events:?}") };
        assert!(text.contains(&format!("ended after {} packets", found.len())), "{text}");
        assert_eq!(port.status(), PortStatus::Down(text.clone()));
        assert_eq!(port.close(&pool), Ok(()));
    }
}

#[test]
fn a_file_is_as_it_was_until_the_port_is_used() {
    let folder = Folder::new();
    let (there, made) = (folder.file("there", b"kept"), folder.path("made"));
    let open = |path: &Path| PcapPort::open(Config { write: Some(path.to_owned()), ..Config::default() });
    for path in [&there, &made] {
        drop(open(path).unwrap());
        drop((open(path).unwrap().maintain(NOW), open(path).unwrap().status()));
    }
    assert_eq!(std::fs::read(&there).unwrap(), b"kept");
    assert!(!made.exists(), "what was made for a port that was never used is gone with it");
    let pool = pool(8);
    for path in [&there, &made] {
        let mut port = open(path).unwrap();
        port.receive(&pool, NOW, 0, &mut Vec::new());
        port.close(&pool).unwrap();
        let (packets, fault) = read(&std::fs::read(path).unwrap());
        assert!(packets.is_empty() && fault.is_none(), "a capture without packets");
    }
}

#[test]
fn a_capture_goes_through_unchanged() {
    let folder = Folder::new();
    let pool = pool(8);
    let (read_path, write) = (Some(folder.file("in", &three(5))), Some(folder.path("out")));
    let config = Config { read: read_path, write, pace: Pace::FlatOut, ..Config::default() };
    let mut port = PcapPort::open(config).unwrap();
    let mut all = receive_all(&mut port, &pool, NOW);
    port.transmit(&pool, NOW, &mut all);
    port.close(&pool).unwrap();
    assert_conserved(&port, &pool, 0, 0);
    assert_eq!(read(&std::fs::read(folder.path("out")).unwrap()).0, read(&three(5)).0);
}

/// Runs through arbitrary bytes; whatever they are, it ends, and packets lie within bounds.
fn run_through(bytes: &[u8]) {
    let Ok(mut capture) = Capture::new(Cursor::new(bytes)) else { return };
    for _ in 0..=bytes.len() {
        match capture.step() {
            Ok(Next::Record(record)) => assert_eq!(capture.bytes().len(), record.length as usize),
            Ok(Next::Passed) => {}
            Ok(Next::End) => return,
            Err(fault) => assert!(fault.offset <= bytes.len() as u64),
        }
    }
    panic!("more steps than bytes");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn damaged_captures_end(format in FORMATS, damage in proptest::collection::vec(any::<(u16, u8)>(), 1..6)) {
        let mut bytes = three(format);
        for (at, value) in damage {
            let at = usize::from(at) % bytes.len();
            bytes[at] = value;
        }
        run_through(&bytes);
    }

    #[test]
    fn arbitrary_bytes_behind_a_header_end(format in FORMATS, tail in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut bytes = three(format);
        bytes.truncate(if format < 4 { 24 } else { 28 });
        bytes.extend(tail);
        run_through(&bytes);
    }

    #[test]
    fn both_readers_agree(frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..20), order: bool) {
        let mut builder = Builder::sections(if order { Order::Little } else { Order::Big });
        builder.interface(1, 0, Some(9));
        for (n, frame) in frames.iter().enumerate() {
            builder.enhanced(0, n as u64, frame, frame.len());
        }
        let ours: Vec<_> =
            read(&builder.bytes).0.into_iter().map(|(record, bytes)| (record.timestamp.unwrap(), bytes)).collect();
        prop_assert_eq!(ours, read_by_others(&builder.bytes));
    }
}

/// Prints what a packet costs: `cargo test --release -p port -- --ignored --nocapture cost`.
#[test]
#[ignore = "a measurement, not a test"]
fn cost_of_reading_and_writing() {
    let folder = Folder::new();
    let pool = pool(256);
    let mut builder = Builder::sections(Order::Little);
    builder.interface(1, 0, Some(9));
    for n in 0..200_000 {
        builder.enhanced(0, n, &[n as u8; 64], 64);
    }
    let path = folder.file("in", &builder.bytes);
    for write in [None, Some(folder.path("out"))] {
        let mut costs: Vec<f64> = (0..7)
            .map(|_| {
                let (read, write) = (Some(path.clone()), write.clone());
                let mut port =
                    PcapPort::open(Config { read, write, pace: Pace::FlatOut, ..Config::default() }).unwrap();
                let mut batch = Vec::new();
                let begin = std::time::Instant::now();
                while port.status() == PortStatus::Up {
                    port.receive(&pool, NOW, 64, &mut batch);
                    port.transmit(&pool, NOW, &mut batch);
                }
                begin.elapsed().as_nanos() as f64 / 200_000.0
            })
            .collect();
        costs.sort_by(f64::total_cmp);
        let what = if write.is_some() { "read and written" } else { "read" };
        println!("{:6.2} ns ({:.2} to {:.2}) {what}", costs[3], costs[0], costs[6]);
    }
}
