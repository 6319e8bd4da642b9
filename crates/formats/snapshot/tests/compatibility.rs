//! Versions live together: what was written once is read for ever, and what is written now is read by every
//! reader of version 1, whatever newer versions add.

mod support;

use snapshot::format::{self, ENTRY_BYTES, HEADER_BYTES, MAJOR, MINOR, REQUIRED, assemble, kind};
use snapshot::{DecodeError, Saved};
use support::{full, least};

const FULL: &[u8] = include_bytes!("golden/1.0-full.snapshot");
const LEAST: &[u8] = include_bytes!("golden/1.0-least.snapshot");

#[test]
fn the_old_files_are_read() {
    assert_eq!(Saved::decode(FULL), Ok(full()));
    assert_eq!(Saved::decode(LEAST), Ok(least()));
}

/// While the minor version is 0, what is written is those files to the byte: a reader of version 1.0 is this
/// reader.
#[test]
fn what_is_written_now_is_what_old_readers_know() {
    assert_eq!(
        (MAJOR, MINOR),
        (1, 0),
        "a new minor version gets golden files of its own, beside the old ones"
    );
    assert_eq!(full().encode().as_deref(), Ok(FULL));
    assert_eq!(least().encode().as_deref(), Ok(LEAST));
}

/// The sections of a snapshot, read by hand.
fn sections(bytes: &[u8]) -> Vec<(u16, u16, &[u8])> {
    let number = |at: usize, count: usize| {
        bytes[at..at + count].iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
    };
    let count = number(12, 4) as usize;
    let mut at = HEADER_BYTES + count * ENTRY_BYTES + format::CHECKSUM_BYTES;
    (0..count)
        .map(|n| {
            let entry = HEADER_BYTES + n * ENTRY_BYTES;
            let length = number(entry + 8, 8) as usize;
            at += length;
            (number(entry, 2) as u16, number(entry + 2, 2) as u16, &bytes[at - length..at])
        })
        .collect()
}

#[test]
fn the_files_are_built_as_the_documentation_says() {
    let found = sections(FULL);
    let kinds: Vec<(u16, u16)> = found.iter().map(|(kind, flags, _)| (*kind, *flags)).collect();
    assert_eq!(
        kinds,
        [
            (kind::IDENTITY, REQUIRED),
            (kind::PAGES, REQUIRED),
            (kind::GLOBALS, REQUIRED),
            (kind::HOST, REQUIRED),
            (kind::OUTPUT, 0),
            (kind::PACKETS, REQUIRED),
            (kind::TALLIES, 0),
            (kind::MEMORY, REQUIRED),
        ]
    );
    assert_eq!(assemble((1, 0), &found), FULL);
    assert_eq!(&FULL[..8], b"\x89SFN\r\n\x1a\n");
    // XXH3 of nothing, seed 0, as the reference implementation has it.
    assert_eq!(format::checksum(&[]), 0x2d06_8005_38d3_94c2);
}

#[test]
fn what_a_newer_minor_version_adds_is_passed_over() {
    let mut table = sections(FULL);
    table.insert(0, (900, 0, b"something new"));
    table.insert(5, (u16::MAX, 0, b""));
    table.push((0, 0, b"kind zero is unknown as well"));
    // An unknown flag makes even a known kind an unknown one.
    table.push((kind::TALLIES, 0x4000, b"tallies of another kind"));
    assert_eq!(Saved::decode(&assemble((MAJOR, 7), &table)), Ok(full()));
    // The order of the sections means nothing.
    table.reverse();
    assert_eq!(Saved::decode(&assemble((MAJOR, u16::MAX), &table)), Ok(full()));
}

#[test]
fn what_cannot_be_passed_over_is_named() {
    for (kind, flags) in [(900, REQUIRED), (0, REQUIRED), (kind::HOST, REQUIRED | 2), (u16::MAX, u16::MAX)] {
        let mut table = sections(FULL);
        table.push((kind, flags, b"without this the function would go wrong"));
        let error = Saved::decode(&assemble((MAJOR, 7), &table)).expect_err("it is required");
        assert_eq!(error, DecodeError::Unknown { kind, flags, version: "1.0".to_owned() });
        assert!(error.to_string().contains("a newer version of Superfluid saved it"), "{error}");
    }
}

#[test]
fn another_major_version_is_told_before_anything_else() {
    for major in [0, 2, u16::MAX] {
        // Nothing behind the version is looked at: it may be built in any way.
        let mut bytes = FULL.to_vec();
        bytes[8..10].copy_from_slice(&major.to_le_bytes());
        bytes.truncate(200);
        let error = Saved::decode(&bytes).expect_err("another version");
        assert_eq!(error, DecodeError::Version { major, minor: 0, allowed: 1 });
        let text = error.to_string();
        assert!(text.contains(&format!("format version {major}.0; this program reads version 1")), "{text}");
    }
}

#[test]
fn optional_sections_may_be_missing_and_others_not() {
    for (index, (kind, flags, _)) in sections(FULL).into_iter().enumerate() {
        let mut table = sections(FULL);
        table.remove(index);
        let read = Saved::decode(&assemble((1, 0), &table)).map(Saved::into_owned);
        let mut expected = full();
        match kind {
            kind::OUTPUT => {
                (expected.host.log, expected.host.events) = (vec![], vec![]);
                (expected.host.lines_lost, expected.host.events_lost) = (0, 0);
            }
            kind::TALLIES => expected.tallies.clear(),
            // Required of readers; a snapshot without packets has none.
            kind::PACKETS => expected.packets.clear(),
            _ => {
                assert_eq!(flags, REQUIRED);
                assert!(matches!(read, Err(DecodeError::Missing { .. })), "section {kind}: {read:?}");
                continue;
            }
        }
        assert_eq!(read, Ok(expected), "section {kind}");
    }
}

#[test]
fn a_section_comes_once() {
    for (kind, flags, bytes) in sections(FULL) {
        let mut table = sections(FULL);
        table.push((kind, flags, bytes));
        assert_eq!(Saved::decode(&assemble((1, 0), &table)), Err(DecodeError::Twice { kind }));
    }
}

/// Writes the golden files of this version; they are committed once and then only read.
#[test]
#[ignore = "writes files: for a new version of the format"]
fn write_golden_files() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
    for (name, saved) in [("full", full()), ("least", least())] {
        let path = format!("{folder}/{MAJOR}.{MINOR}-{name}.snapshot");
        assert!(!std::path::Path::new(&path).exists(), "{path} is there and stays as it is");
        std::fs::write(&path, saved.encode().expect("within limits")).expect("a writable folder");
    }
}
