use crate::*;
use proptest::prelude::*;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// UDP from 10.1.0.1 port 1000 to 10.2.0.2 port 53, or TCP, with this many bytes behind the header.
fn frame(protocol: u8, tag: Option<u16>) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    if let Some(tag) = tag {
        bytes.extend([0x81, 0x00]);
        bytes.extend(tag.to_be_bytes());
    }
    bytes.extend([0x08, 0x00, 0x45, 0, 0, 60, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 1, 0, 1, 10, 2, 0, 2]);
    bytes.extend(1000u16.to_be_bytes());
    bytes.extend(53u16.to_be_bytes());
    bytes.extend([0, 40, 0, 0, 0, 0, 0, 0, 0x50, 0]);
    bytes.resize(bytes.len() + 26, 7);
    bytes
}

fn matches(filter: &str, bytes: &[u8]) -> bool {
    let filter = Filter::parse(filter).unwrap_or_else(|error| panic!("{filter}: {error}"));
    filter.matches(bytes, bytes.len() as u32, Outcome::Passed)
}

#[test]
fn primitives_say_what_pcap_filter_says() {
    let udp = frame(17, None);
    let tagged = frame(6, Some(0x2007));
    let arp = [
        &[0xff; 6][..],
        &[
            2, 0, 0, 0, 0, 1, 0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 1, 0, 1, 0, 0, 0, 0,
            0, 0,
        ],
        &[10, 2, 0, 2],
    ]
    .concat();
    for (filter, of_udp, of_tagged, of_arp) in [
        ("ip", true, true, false),
        ("ip6", false, false, false),
        ("arp", false, false, true),
        ("udp", true, false, false),
        ("tcp", false, true, false),
        ("vlan", false, true, false),
        ("vlan 7", false, true, false),
        ("vlan 8", false, false, false),
        ("icmp or icmp6", false, false, false),
        ("port 53", true, true, false),
        ("udp port 53", true, false, false),
        ("src port 53", false, false, false),
        ("udp dst port 53", true, false, false),
        ("portrange 900-1000", true, true, false),
        ("dst portrange 900-1000", false, false, false),
        ("host 10.1.0.1", true, true, true),
        ("10.2.0.2", true, true, true),
        ("src host 10.2.0.2", false, false, false),
        ("src 10.1.0.1 or dst 10.9.9.9", true, true, true),
        ("src or dst net 10.2.0.0/16", true, true, true),
        ("src and dst net 10.0.0.0/8", true, true, true),
        ("src and dst net 10.2.0.0/16", false, false, false),
        ("net 0.0.0.0/0", true, true, true),
        ("ip host 10.1.0.1", true, true, true),
        ("host 2001:db8::1", false, false, false),
        ("ether src 2:0:0:0:0:1", true, true, true),
        ("ether host 02:00:00:00:00:02", true, true, false),
        ("ether dst ff:ff:ff:ff:ff:ff", false, false, true),
        ("ether proto 0x0806", false, false, true),
        ("ip proto 17", true, false, false),
        ("proto tcp", false, true, false),
        ("less 76", true, false, true),
        ("greater 77", false, true, false),
        ("passed", true, true, true),
        ("dropped", false, false, false),
        ("not udp", false, true, true),
        ("! (udp || tcp)", false, false, true),
        ("arp or udp and port 53", true, false, false),
        ("arp or (udp and port 9)", false, false, true),
    ] {
        let found = [matches(filter, &udp), matches(filter, &tagged), matches(filter, &arp)];
        assert_eq!(found, [of_udp, of_tagged, of_arp], "{filter}");
    }
}

#[test]
fn filters_that_ask_for_the_outcome_are_told() {
    for (text, uses) in
        [("dropped", true), ("udp and not (tcp or passed)", true), ("not udp or less 90", false)]
    {
        assert_eq!(Filter::parse(text).expect(text).uses_outcome(), uses, "{text}");
    }
}

#[test]
fn what_is_no_expression_is_told_with_its_column() {
    for (text, error) in [
        ("", "column 1: it ends here; allowed: ip, ip6,"),
        ("tpc", "column 1: found `tpc`; allowed: ip, ip6,"),
        ("tcp port http", "column 10: found `http`; allowed: a port, 0 to 65535"),
        ("port 65536", "column 6: found `65536`; allowed: a port"),
        ("portrange 9-8", "column 11: found `9-8`; allowed: a range"),
        ("tcp and", "column 8: it ends here"),
        ("(tcp", "column 5: it ends here; allowed: `)`"),
        ("tcp)", "column 4: found `)`; allowed: and, or, or the end"),
        ("tcp udp", "column 5: found `udp`; allowed: and, or"),
        ("host 10.0.0.0/8", "column 6: found `10.0.0.0/8`; allowed: an IP address"),
        ("net 10.0.0.1/8", "column 5: found `10.0.0.1/8`; allowed: a prefix"),
        ("ip6 host 10.0.0.1", "column 10: found `10.0.0.1`; allowed: an IP address"),
        ("ether src 1:2:3", "column 11: found `1:2:3`; allowed: an Ethernet address"),
        ("tcp host 10.0.0.1", "column 5: found `host`; allowed: `tcp host` is no combination"),
        ("less x", "column 6: found `x`; allowed: a length in bytes"),
        ("ip src", "column 7: it ends here; allowed: host, net"),
    ] {
        let found = Filter::parse(text).expect_err(text).to_string();
        assert!(found.starts_with(error), "{text}: {found}");
    }
    let deep = format!("{}tcp", "not ".repeat(200));
    assert!(Filter::parse(&deep).expect_err("deep").message.contains("levels"));
    assert!(Filter::parse(&"(".repeat(5000)).expect_err("long").message.contains("too long"));
}

proptest! {
    #[test]
    fn no_expression_and_no_packet_makes_it_panic(
        text in "((tcp|udp|ip|ether|src|dst|host|net|port|or|and|not|!|\\(|\\)|10\\.0\\.0\\.1|7|vlan|\\PC) ?){0,12}",
        bytes in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        match Filter::parse(&text) {
            Ok(filter) => {
                let inverse = Filter::parse(&format!("not ({text})")).expect("it was an expression");
                let length = bytes.len() as u32;
                prop_assert_ne!(
                    filter.matches(&bytes, length, Outcome::Dropped),
                    inverse.matches(&bytes, length, Outcome::Dropped)
                );
            }
            Err(error) => prop_assert!(error.column >= 1 && error.column <= text.chars().count() + 1),
        }
    }
}

/// Length, kept bytes, time, options.
type Found = (u32, Vec<u8>, u64, Vec<(u16, Vec<u8>)>);

/// What an independent reader finds.
fn read(bytes: &[u8]) -> Vec<Found> {
    use pcap_parser::traits::PcapReaderIterator;
    use pcap_parser::{Block, PcapBlockOwned, PcapError, PcapNGReader};
    let mut reader = PcapNGReader::new(1 << 20, bytes).expect("a capture");
    let mut packets = Vec::new();
    loop {
        match reader.next() {
            Ok((offset, block)) => {
                if let PcapBlockOwned::NG(Block::EnhancedPacket(packet)) = block {
                    let options = packet.options.iter().filter(|option| option.code.0 != 0);
                    let options =
                        options.map(|option| (option.code.0, option.value[..option.len as usize].to_vec()));
                    packets.push((
                        packet.origlen,
                        packet.data[..packet.caplen as usize].to_vec(),
                        u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low),
                        options.collect(),
                    ));
                }
                reader.consume(offset);
            }
            Err(PcapError::Eof) => return packets,
            Err(PcapError::Incomplete(_)) => reader.refill().expect("memory"),
            Err(error) => panic!("{error:?}"),
        }
    }
}

fn sighting(timestamp: u64, length: u32, comment: &str) -> Sighting<'_> {
    Sighting {
        timestamp,
        length,
        snapped: 0,
        direction: Direction::Inbound,
        outcome: Outcome::Dropped,
        comment,
    }
}

#[test]
fn what_is_recorded_is_in_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("at.pcapng");
    let settings = Settings {
        place: "edge_firewall".into(),
        filter: Some(Filter::parse("udp").expect("a filter")),
        snap_length: 50,
        ..Settings::default()
    };
    let (mut recorder, capture) = begin(&path, settings).expect("a capture");
    let (udp, tcp) = (frame(17, None), frame(6, None));
    for n in 0..10_000u64 {
        let bytes = if n % 2 == 0 { &udp } else { &tcp };
        recorder.record(
            &sighting(1_760_000_000_000_000_000 + n, bytes.len() as u32, "drop:denied"),
            |room| {
                room.copy_from_slice(&bytes[..room.len()]);
            },
        );
        if n % 100 == 0 {
            // The disk may be slower than this loop, and the recorder never waits for it.
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
    }
    drop(recorder);
    let summary = capture.finish();
    assert_eq!(summary, Summary { path: path.clone(), written: 5000, lost: 0, ended: None });
    let bytes = std::fs::read(path).expect("read");
    let packets = read(&bytes);
    assert_eq!(packets.len(), 5000);
    for (n, (length, kept, timestamp, options)) in packets.into_iter().enumerate() {
        assert_eq!((length as usize, kept.as_slice()), (udp.len(), &udp[..50]));
        assert_eq!(timestamp, 1_760_000_000_000_000_000 + 2 * n as u64);
        assert_eq!(options, [(2, vec![1, 0, 0, 0]), (1, b"drop:denied".to_vec())]);
    }
    let text = String::from_utf8_lossy(&bytes[..300]).into_owned();
    assert!(text.contains("edge_firewall") && text.contains("\0udp") && text.contains("superfluid"));
}

#[test]
fn a_limit_ends_the_capture_and_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("at.pcapng");
    let (mut recorder, capture) =
        begin(&path, Settings { limit: 1 << 20, ..Settings::default() }).expect("a capture");
    let bytes = frame(17, None);
    for n in 0..40_000 {
        recorder
            .record(&sighting(n, bytes.len() as u32, ""), |room| room.copy_from_slice(&bytes[..room.len()]));
    }
    drop(recorder);
    let summary = capture.finish();
    assert_eq!(summary.written + summary.lost, 40_000);
    let length = std::fs::metadata(&path).expect("there").len();
    assert!(length <= 1 << 20, "{length}");
    assert_eq!(read(&std::fs::read(&path).expect("read")).len() as u64, summary.written);
    assert!(summary.ended.is_some_and(|why| why.contains("limit")) || summary.lost == 0);
}

#[test]
fn a_full_disk_ends_the_capture_alone() {
    let mut file = Vec::new();
    for room in [0, 100, 1000, 5000] {
        let disk = Disk { room, bytes: Arc::default() };
        let bytes = disk.bytes.clone();
        match CaptureFile::begin(Box::new(disk), &Interface::default()) {
            Err(error) => assert_eq!((room, error.kind()), (0, io::ErrorKind::StorageFull)),
            Ok(mut capture) => {
                let mut blocks = Blocks::default();
                for n in 0..100 {
                    let entry = Entry {
                        timestamp: n,
                        length: 60,
                        kept: 60,
                        direction: Direction::Unknown,
                        lost: 0,
                        comment: "x",
                    };
                    blocks.packet(&entry, |room| room.fill(1));
                }
                let (written, error) = capture.append(&blocks);
                assert_eq!(error.expect("no room").kind(), io::ErrorKind::StorageFull);
                file = bytes.lock().expect("sound").clone();
                assert_eq!(read(&file).len(), written, "the file ends with a whole packet");
            }
        }
    }
    assert!(read(&file).len() > 30);
    assert!(begin(std::path::Path::new("/dev/full"), Settings::default()).is_err());
}

/// A disk with so many bytes left.
struct Disk {
    room: usize,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self.bytes.lock().expect("sound");
        match bytes.len().min(self.room - file.len()) {
            0 => Err(io::ErrorKind::StorageFull.into()),
            count => {
                file.extend(&bytes[..count]);
                Ok(count)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Target for Disk {
    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.bytes.lock().expect("sound").truncate(length as usize);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A reader that takes nothing beyond the headers before it is let.
struct Slow {
    disk: Disk,
    begun: bool,
    let_on: std::sync::mpsc::Receiver<()>,
}

impl Write for Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if std::mem::replace(&mut self.begun, true) {
            // The other end is gone when there is nothing more to wait for.
            let _ = self.let_on.recv();
        }
        self.disk.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Target for Slow {
    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.disk.cut(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What the packets of a file say was lost before them, and what its last block says was.
fn told_as_lost(file: &[u8]) -> (Vec<u64>, u64) {
    let mut splitter = Splitter::default();
    splitter.feed(file);
    let (mut before, mut in_all) = (Vec::new(), 0);
    while let Some(block) = splitter.next_block().expect("pcapng") {
        before.extend(block.packet().map(|seen| seen.lost));
        in_all = block.statistics().map_or(in_all, |told| told.lost);
    }
    (before, in_all)
}

#[test]
fn what_a_slow_reader_loses_is_said_by_the_packet_that_comes_next() {
    let disk = Disk { room: 64 << 20, bytes: Arc::default() };
    let file = disk.bytes.clone();
    let (go, let_on) = std::sync::mpsc::channel();
    let slow = Slow { disk, begun: false, let_on };
    let (mut recorder, capture) =
        begin_to(Box::new(slow), std::path::Path::new("the client"), Settings::default()).expect("a capture");
    let mut record = |n: u64| {
        recorder.record(&sighting(n, 4096, ""), |room| room.fill(1));
        recorder.hand_over();
    };
    // One that the thread holds, as many as may wait, and some that are lost.
    let seen = WAITING as u64 + 10;
    (0..seen).for_each(&mut record);
    drop(go);
    // The reader is there again, and takes what waited.
    while file.lock().expect("sound").len() < WAITING * 4096 {
        std::thread::yield_now();
    }
    record(seen);
    drop(recorder);
    let summary = capture.finish();
    assert!(summary.lost >= 9 && summary.ended.is_none(), "{summary:?}");
    let (before, in_all) = told_as_lost(&file.lock().expect("sound"));
    assert_eq!(before.len() as u64, summary.written);
    assert_eq!((before.iter().sum::<u64>(), in_all), (summary.lost, summary.lost), "{before:?}");
}

#[test]
fn a_count_ends_the_capture_and_what_comes_bit_by_bit_is_found_again() {
    let disk = Disk { room: 1 << 20, bytes: Arc::default() };
    let file = disk.bytes.clone();
    let settings = Settings { count: 3, snap_length: 40, ..Settings::default() };
    let (mut recorder, capture) =
        begin_to(Box::new(disk), std::path::Path::new("the client"), settings).expect("a capture");
    let mut other = recorder.another();
    let bytes = frame(17, None);
    for n in 0..10 {
        let recorder = if n % 2 == 0 { &mut recorder } else { &mut other };
        let fill = |room: &mut [u8]| room.copy_from_slice(&bytes[..room.len()]);
        recorder.record(&sighting(n, bytes.len() as u32, "fw: drop"), fill);
    }
    assert!(capture.is_over() && recorder.is_over() && other.is_over());
    drop((recorder, other));
    let summary = capture.finish();
    assert_eq!((summary.written, summary.lost, summary.ended), (3, 0, None));
    let file = file.lock().expect("sound").clone();
    assert_eq!(read(&file).len(), 3);
    for step in [1, 7, 64, file.len()] {
        let (mut splitter, mut blocks) = (Splitter::default(), Vec::new());
        for part in file.chunks(step) {
            splitter.feed(part);
            while let Some(block) = splitter.next_block().expect("pcapng") {
                blocks.push(block);
            }
        }
        assert!(!splitter.is_within_block());
        assert_eq!(blocks.iter().map(|block| block.bytes.clone()).collect::<Vec<_>>().concat(), file);
        let packets: Vec<Seen<'_>> = blocks.iter().filter_map(Block::packet).collect();
        assert_eq!(packets.len(), 3);
        let Seen { length, bytes: kept, direction, comment, .. } = packets[0];
        assert_eq!((length, kept, direction, comment), (74, &bytes[..40], Direction::Inbound, "fw: drop"));
        let told = blocks.last().and_then(Block::statistics).expect("the last block");
        assert_eq!((told.written, told.lost), (3, 0));
        assert!(told.timestamp > 1_700_000_000_000_000_000);
    }
}

proptest! {
    #[test]
    fn no_bytes_break_the_splitter(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0u8..4) {
        let mut splitter = Splitter::default();
        // Some that look like a block of a packet.
        let mut block = vec![6, 0, 0, 0, 64, 0, 0, 0];
        block.extend(&bytes);
        block.resize(60, at);
        block.extend([64, 0, 0, 0]);
        for bytes in [&block, &bytes] {
            splitter.feed(bytes);
            while let Ok(Some(block)) = splitter.next_block() {
                let _ = (block.packet(), block.statistics());
            }
        }
        let _ = words(&bytes, 1);
    }
}

#[test]
fn packets_are_told_in_words() {
    assert_eq!(words(&frame(17, None), 64), "10.1.0.1:1000 > 10.2.0.2:53 UDP, 64 bytes");
    let mut tcp = frame(6, Some(7));
    tcp[18 + 20 + 13] = 0x12;
    assert_eq!(words(&tcp, 68), "10.1.0.1:1000 > 10.2.0.2:53 TCP SYN ACK, 68 bytes");
    assert_eq!(words(&frame(1, None), 64), "10.1.0.1 > 10.2.0.2 ICMP type 3 code 232, 64 bytes");
    assert_eq!(words(&frame(99, None), 64), "10.1.0.1 > 10.2.0.2 protocol 99, 64 bytes");
    assert_eq!(words(&[0; 4], 4), "malformed, 4 bytes");
}
