//! `harnesses::flow_counts`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harnesses::run("flow_counts", data));
