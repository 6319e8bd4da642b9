mod devices;
mod judging;
mod reading;
mod stock;

use crate::ImageTest;
use image::{Image, Names, assemble};
use manifest::Manifest;
use schema::NoFiles;

/// Passes what is shorter than 64 bytes, drops the rest, and counts what passes.
pub(crate) const MANIFEST: &str = "\
name: gate
version: 1.0.0
abi: 1
summary: Drops what is long.
language: c
access: write
interfaces: [left, right]
memory_limit: 1MiB
drop_reasons: [other, too-long]
counters: [passed, seen]
config:
  limit: {type: integer, min: 1, max: 100, default: 64}
";

pub(crate) fn manifest() -> Manifest {
    Manifest::parse("function.yaml", MANIFEST).expect("a manifest")
}

pub(crate) fn test(text: &str) -> ImageTest {
    ImageTest::parse("image.yaml", text, &manifest(), &NoFiles).unwrap_or_else(|faults| panic!("{faults:?}"))
}

/// The function, with `before` done to each packet and `verdict` for what passes.
pub(crate) fn gate(before: &str, verdict: u32) -> Image {
    let wat = format!(
        r#"(module
        (import "superfluid_v1" "counter_add" (func $counter_add (param i32 i64) (result i32)))
        (memory (export "memory") 1)
        (func (export "sf_batch") (result i32) (i32.const 1024))
        (func (export "sf_init") (result i32) (i32.const 0))
        (func (export "sf_process") (param $n i32) (param i64) (local $r i32) (local $k i32)
            (local.set $r (i32.const 1024))
            (loop $next
                {before}
                (if (i32.lt_u (i32.load offset=8 (local.get $r)) (i32.const 64))
                    (then (i32.store (local.get $r) (i32.const {verdict}))
                          (drop (call $counter_add (i32.const 0) (i64.const 1))))
                    (else (i32.store (local.get $r) (i32.const 0x101))))
                (local.set $r (i32.add (local.get $r) (i32.const 64)))
                (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))))"#
    );
    assemble(&wat::parse_str(&wat).expect("text"), MANIFEST, Names::Dropped).expect("an image").0
}

/// To the interface `right`.
pub(crate) const RIGHT: u32 = 0x102;
