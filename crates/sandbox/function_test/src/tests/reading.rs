//! What a test may say, and what is told of one that says something else.

use super::{manifest, test};
use crate::{ImageTest, MAX_TEXT, TEST_FILE, TestError};
use proptest::prelude::*;
use schema::{NoFiles, Schema};

fn faults(text: &str) -> Vec<String> {
    match ImageTest::parse("image.yaml", text, &manifest(), &NoFiles) {
        Ok(test) => panic!("accepted: {test:?}"),
        Err(faults) => faults.iter().map(ToString::to_string).collect(),
    }
}

const GOOD: &str = "\
cases:
  - name: all
    config: {limit: 10}
    packets:
      - {from: right, hex: '00 11', length: 4, mark: 5, times: 3, to: left}
      - {length: 9, at: 2ms, service: 7}
      - {hex: 'Ff', hold: 9, becomes: '0a', becomes_length: 2, becomes_mark: 1}
    counters: {seen: 4}
";

#[test]
fn the_schema_of_cases_is_one() {
    let schema = Schema::from_text("case.yaml", include_str!("../case.yaml")).expect("a schema");
    assert_eq!(schema.keys().len(), 3);
}

#[test]
fn a_test_is_read() {
    let test = test(GOOD);
    assert_eq!((test.cases(), test.packets()), (1, 5));
    let case = &test.cases[0];
    assert_eq!(case.config, [0xa1, 0x65, b'l', b'i', b'm', b'i', b't', 10]);
    assert_eq!(case.counters, [(1, "seen".to_owned(), 4)]);
    let [first, second, third] = &case.packets[..] else { panic!("three packets") };
    assert_eq!((first.ingress, first.mark, first.at, first.times, first.line), (1, 5, 0, 3, 5));
    assert_eq!(first.bytes, [0, 0x11, 0, 0]);
    assert_eq!((second.at, third.at), (2_000_000, 2_000_000));
    assert_eq!(third.becomes.as_deref(), Some(&[10][..]));
    assert_eq!((third.becomes_length, third.becomes_mark), (Some(2), Some(1)));
}

#[test]
fn all_faults_are_told_at_once() {
    let text = "\
cases:
  - name: all
    config: {limit: 0}
    packets:
      - {hex: '0g', to: left}
      - {hex: '0', to: left}
      - {to: left}
      - {length: 1, hex: 0011, to: left}
      - {length: 9, to: middle}
      - {length: 9, drop: too-lang}
      - {length: 9}
      - {length: 9, to: left, consume: true}
      - {length: 9, consume: false}
      - {from: lefd, length: 9, to: left}
      - {at: 2s, length: 9, to: left}
      - {at: 1s, length: 9, to: left}
    counters: {sean: 4, passed: -1}
more: 1
";
    let told = faults(text);
    let expected = [
        ":3:21: cases[0].config.limit: found `0`; allowed: an integer from 1 to 100",
        ":5:9: cases[0].packets[0].hex: found `g`; allowed: hexadecimal digits",
        ":6:9: cases[0].packets[1].hex: found 1 digits; allowed: two for each byte",
    ];
    for expected in expected {
        let expected = format!("image.yaml{expected}");
        assert!(told.contains(&expected), "no `{expected}` in\n{}", told.join("\n"));
    }
    assert!(told.iter().any(|fault| fault.contains("more")), "{told:?}");
    assert!(
        told.iter()
            .any(|fault| fault.contains("no counter `sean`") && fault.contains("did you mean `seen`?")),
        "{told:?}"
    );
}

#[test]
fn packets_that_make_no_sense_are_told() {
    for (packet, expected) in [
        ("{to: left}", "the packet has no bytes"),
        ("{length: 1, hex: '0011', to: left}", "a length of 1 with 2 bytes in `hex`"),
        ("{length: 9, to: middle}", "no interface `middle`"),
        ("{length: 9, drop: too-lang}", "did you mean `too-long`?"),
        ("{length: 9}", "none of to, drop, service, hold, consume is there"),
        ("{length: 9, to: left, consume: true}", "several of to, drop, service, hold, consume is there"),
        ("{length: 9, consume: false}", "found `false`; allowed: true"),
        ("{from: lefd, length: 9, to: left}", "did you mean `left`?"),
        ("{at: 1ms, length: 9, to: left}\n      - {at: 1us, length: 9, to: left}", "`at` is before"),
        ("{length: 9001, to: left}", "an integer from 1 to 9000"),
        ("{length: 9, times: 5000, to: left}", "an integer from 1 to 4096"),
    ] {
        let told = faults(&format!("cases:\n  - name: a\n    packets:\n      - {packet}\n")).join("\n");
        assert!(told.contains(expected), "no `{expected}` in `{told}`");
    }
    for (text, expected) in [
        ("", "the required key `cases` is missing"),
        ("cases: []", "found 0 cases; allowed: a list of 1 to 64 cases"),
        ("cases: 7", "found `7`; allowed: a list of 1 to 64 cases"),
        ("cases: [7]", "found `7`"),
        ("cases: [{name: a, packets: []}]", "packets"),
    ] {
        let told = faults(text).join("\n");
        assert!(told.contains(expected), "no `{expected}` in `{told}`");
    }
    let packet = "      - {length: 9, to: left, times: 4096}\n";
    let many = format!("cases:\n  - name: a\n    packets:\n{}", packet.repeat(17));
    assert!(faults(&many).join("").contains("found 69632 packets"));
    assert!(faults(&"#".repeat(MAX_TEXT + 1)).join("").contains("at most 1048576"));
}

#[test]
fn a_folder_without_a_test_has_none_and_one_that_cannot_be_read_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(matches!(ImageTest::open(folder.path(), &manifest()), Ok(None)));
    std::fs::create_dir_all(folder.path().join(TEST_FILE)).expect("a folder in its place");
    assert!(matches!(ImageTest::open(folder.path(), &manifest()), Err(TestError::File { .. })));
    // What is no file is not waited for.
    let test = folder.path().join(TEST_FILE);
    std::fs::remove_dir_all(&test).or_else(|_| std::fs::remove_file(&test)).expect("removed");
    assert!(std::process::Command::new("mkfifo").arg(&test).status().expect("mkfifo").success());
    let told = ImageTest::open(folder.path(), &manifest()).expect_err("a FIFO").to_string();
    assert!(told.contains("found a FIFO; allowed: a regular file"), "{told}");
}

proptest! {
    #[test]
    fn a_damaged_test_does_not_make_it_panic(at in 0usize..400, with in "\\PC{0,3}", cut in 0usize..20) {
        let mut bytes = GOOD.as_bytes().to_vec();
        let at = at.min(bytes.len());
        let end = (at + cut).min(bytes.len());
        bytes.splice(at..end, with.into_bytes());
        if let Err(faults) = ImageTest::parse("f", &String::from_utf8_lossy(&bytes), &manifest(), &NoFiles) {
            prop_assert!(!faults.is_empty());
        }
    }
}
