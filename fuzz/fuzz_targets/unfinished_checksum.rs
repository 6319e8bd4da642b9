//! `harnesses::unfinished_checksum`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harnesses::run("unfinished_checksum", data));
