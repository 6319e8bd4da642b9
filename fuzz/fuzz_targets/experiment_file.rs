//! `harnesses::experiment_file`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harnesses::run("experiment_file", data));
