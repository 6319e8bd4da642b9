//! `harnesses::virtio_segments`, guided by coverage.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| harnesses::run("virtio_segments", data));
