//! `harnesses::link_types`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harnesses::run("link_types", data));
