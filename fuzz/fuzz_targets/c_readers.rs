//! `harnesses::c_readers`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harnesses::run("c_readers", data));
