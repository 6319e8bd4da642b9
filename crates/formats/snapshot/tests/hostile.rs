//! Snapshots that were damaged, cut, or made to do harm.

mod support;

use snapshot::format::{ENTRY_BYTES, HEADER_BYTES, REQUIRED, assemble, kind};
use snapshot::{ContentError, DecodeError, Memory, PAGE, PacketState, Saved, SavedPacket, Tally, limits};
use support::{full, least};

#[test]
fn every_damaged_byte_is_found() {
    let good = full().encode().expect("within limits");
    // All of the header, table and small sections, and every so many bytes of the rest.
    let memory = good.len() - full().memory.bytes().len();
    for at in (0..memory).chain((memory..good.len()).step_by(97)) {
        for bit in [0, 5] {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            assert!(Saved::decode(&bad).is_err(), "byte {at}, bit {bit}");
        }
    }
}

#[test]
fn every_cut_is_found_and_so_is_what_was_added() {
    let good = full().encode().expect("within limits");
    for end in (0..400).chain((400..good.len()).step_by(53)) {
        let error = Saved::decode(&good[..end]).expect_err("it was cut");
        let expected =
            matches!((&error, end), (DecodeError::Magic { .. }, 0..8) | (DecodeError::Length { .. }, 8..));
        assert!(expected, "{end}: {error}");
    }
    let mut longer = good.clone();
    longer.push(0);
    let (found, needed) = (longer.len() as u64, good.len() as u64);
    assert_eq!(Saved::decode(&longer), Err(DecodeError::Length { found, needed }));
}

#[test]
fn other_files_are_told_for_what_they_are() {
    let text = |bytes: &[u8]| Saved::decode(bytes).expect_err("no snapshot").to_string();
    assert!(text(b"").contains("it begins with nothing"));
    assert!(text(b"\0asm").contains("it begins with 00 61 73 6d"));
    assert!(text(b"\x89SFN\n\x1a\n and so on").contains("it begins with 89 53 46 4e 0a 1a 0a 20"));
}

/// A whole snapshot with one section replaced, its checksums right.
fn with(replaced: u16, section: &[u8]) -> Result<Saved<'static>, DecodeError> {
    let good = full().encode().expect("within limits");
    let number = |at: usize, count: usize| {
        good[at..at + count].iter().rev().fold(0usize, |value, byte| value << 8 | usize::from(*byte))
    };
    let count = number(12, 4);
    let mut at = HEADER_BYTES + count * ENTRY_BYTES + 8;
    let mut table = Vec::new();
    for n in 0..count {
        let entry = HEADER_BYTES + n * ENTRY_BYTES;
        let (kind, length) = (number(entry, 2) as u16, number(entry + 8, 8));
        let bytes = if kind == replaced { section } else { &good[at..at + length] };
        table.push((kind, REQUIRED, bytes));
        at += length;
    }
    Saved::decode(&assemble((1, 0), &table)).map(Saved::into_owned)
}

#[test]
fn counts_that_nothing_follows_take_no_memory() {
    let most = u32::MAX.to_le_bytes();
    for (kind, before) in [
        (kind::PAGES, 16),
        (kind::GLOBALS, 0),
        (kind::HOST, 29),
        (kind::OUTPUT, 16),
        (kind::PACKETS, 0),
        (kind::TALLIES, 0),
    ] {
        let mut section = vec![0; before];
        section.extend_from_slice(&most);
        section.extend_from_slice(&[0; 7]);
        let error = with(kind, &section).expect_err("four thousand million of them");
        assert!(error.to_string().contains("4294967295 entries should follow, there is room for"), "{error}");
    }
    let mut section = vec![0; 36];
    section.extend_from_slice(&most);
    let error = with(kind::IDENTITY, &section).expect_err("a name of 4 GiB");
    assert!(
        error.to_string().contains("section `identity`, byte 40: 4294967295 bytes should follow"),
        "{error}"
    );
}

#[test]
fn sections_end_where_they_should() {
    let good = full().encode().expect("within limits");
    for kind in
        [kind::IDENTITY, kind::PAGES, kind::GLOBALS, kind::HOST, kind::OUTPUT, kind::PACKETS, kind::TALLIES]
    {
        // From the good one, through the table by hand.
        let mut at = HEADER_BYTES + 8 * ENTRY_BYTES + 8;
        let mut section = Vec::new();
        for n in 0..8 {
            let entry = HEADER_BYTES + n * ENTRY_BYTES;
            let length = u64::from_le_bytes(good[entry + 8..entry + 16].try_into().expect("8")) as usize;
            if good[entry..entry + 2] == kind.to_le_bytes() {
                section = good[at..at + length].to_vec();
            }
            at += length;
        }
        assert_eq!(with(kind, &section), Ok(full()));
        for end in 0..section.len() {
            assert!(with(kind, &section[..end]).is_err(), "section {kind} cut at {end}");
        }
        section.push(0);
        assert!(matches!(with(kind, &section), Err(DecodeError::Malformed { .. })), "section {kind}");
    }
}

#[test]
fn lies_within_good_sections_are_found() {
    let one = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut section = vec![0; 20];
        section[..8].copy_from_slice(&65_536u64.to_le_bytes());
        section[8..16].copy_from_slice(&65_536u64.to_le_bytes());
        change(&mut section);
        with(kind::PAGES, &section).expect_err("a lie")
    };
    let page = |number: u32, lines: u64| {
        move |section: &mut Vec<u8>| {
            section[16] += 1;
            section.extend_from_slice(&number.to_le_bytes());
            section.extend_from_slice(&lines.to_le_bytes());
        }
    };
    let text = |error: DecodeError| error.to_string();
    assert!(text(one(&page(16, 1))).contains("page 16 is saved; allowed here: a page from 0 to 15"));
    assert!(text(one(&page(3, 0))).contains("page 3 is saved"));
    assert!(text(one(&|s| (page(3, 1)(s), page(3, 1)(s), ()).2)).contains("a page from 4 to 15"));
    assert!(text(one(&|s| (page(3, 1)(s), page(2, 1)(s), ()).2)).contains("page 2 is saved"));
    assert!(text(one(&|s| s[0] = 1)).contains("a memory of 65537 bytes"));
    assert!(
        text(one(&|s| s[2] = 2))
            .contains("a memory of 131072 bytes; allowed: a multiple of 65536 up to its limit of 65536")
    );
    assert!(
        text(one(&|s| s[12] = 1))
            .contains("4295032832 bytes as the limit of memory; allowed: at most 2147483648")
    );
    assert!(text(one(&|_| ())).contains("bytes of memory; the pages that are named have 0"));

    let mut tampered = full();
    tampered.globals.swap(0, 1);
    let order = "global `sf_global_0` comes after `sf_global_1`";
    assert!(tampered.encode().expect_err("out of order").to_string().contains(order));
}

#[test]
fn nothing_beyond_the_limits_is_written() {
    let too_many = |change: &dyn Fn(&mut Saved<'static>)| {
        let mut saved = least();
        change(&mut saved);
        saved.encode().map(drop).expect_err("too much").to_string()
    };
    let record = nf_abi::PacketRecord::default();
    let packet = |place, length: usize| SavedPacket::new(place, &record, vec![0; length]);
    for (change, expected) in [
        (
            &(|s: &mut Saved| s.identity.name = "n".repeat(limits::NAME_BYTES + 1))
                as &dyn Fn(&mut Saved<'static>),
            "257 bytes of the image's name; allowed: at most 256",
        ),
        (&|s| s.host.counters = vec![0; limits::COUNTERS + 1], "65536 counters; allowed: at most 65535"),
        (&|s| s.host.events = vec!["e".repeat(limits::LINE_BYTES + 1)], "65537 bytes of an event"),
        (&|s| s.host.batch = 8, "records at 0x8"),
        (&|s| s.host.batch = 65_536 - 4032, "records at 0xf040"),
        (
            &|s| s.packets.push(packet(PacketState::Queued, limits::PACKET_BYTES + 1)),
            "65537 bytes of a packet",
        ),
        (
            &|s| (0..2).for_each(|_| s.packets.push(packet(PacketState::Held { slot: 4, due: 0 }, 1))),
            "two packets in slot 4",
        ),
        (
            &|s| (0..2).for_each(|value| s.tallies.push(Tally { name: "same".to_owned(), value })),
            "tally `same` comes after `same`",
        ),
        (&|s| s.memory = Memory::new(1 << 32, 1 << 32), "bytes as the limit of memory"),
        (
            &|s| {
                s.memory = Memory::new(65_536, 65_536);
                s.memory.keep(16, &[1; PAGE]);
            },
            "page 16 is saved",
        ),
    ] {
        let found = too_many(change);
        assert!(found.contains(expected), "{found}");
    }
    assert_eq!(
        Saved { host: snapshot::HostState { batch: 65_536 - 4096, ..Default::default() }, ..least() }.check(),
        Ok::<_, ContentError>(())
    );
}
