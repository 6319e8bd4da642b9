//! Guests that tell what they find, report, or trap.

use image::Names;
use std::path::{Path, PathBuf};

/// What a guest does with each batch before it consumes the packets.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "each test needs some of them")]
pub enum Deed {
    /// One event a batch: `{"alert":"seen"}`.
    Tells,
    /// It traps.
    Traps,
    /// It traps in its report, and otherwise does nothing.
    TrapsInReport,
    /// It never returns from its report, and otherwise does nothing.
    HangsInReport,
}

/// Writes the image of a guest into a folder; its path.
pub fn guest(folder: &Path, name: &str, deed: Deed) -> PathBuf {
    let (deed, report) = match deed {
        Deed::Tells => ("(drop (call $write (i32.const 3) (i32.const 0) (i32.const 16)))", ""),
        Deed::Traps => ("unreachable", ""),
        Deed::TrapsInReport => ("", "unreachable"),
        Deed::HangsInReport => ("", "(loop $again (br $again))"),
    };
    let module = format!(
        r#"(module
            (import "superfluid_v1" "write" (func $write (param i32 i32 i32) (result i32)))
            (memory (export "memory") 1)
            (data (i32.const 0) "{{\"alert\":\"seen\"}}")
            (data (i32.const 64) "{{\"mood\":\"well\"}}")
            (func (export "sf_batch") (result i32) (i32.const 4096))
            (func (export "sf_init") (result i32) (i32.const 0))
            (func (export "sf_report") (param $now i64)
              {report}
              (drop (call $write (i32.const 2) (i32.const 64) (i32.const 15))))
            (func (export "sf_process") (param $count i32) (param $now i64)
              {deed}
              (loop $next
                (local.set $count (i32.sub (local.get $count) (i32.const 1)))
                (i32.store (i32.add (i32.const 4096) (i32.mul (local.get $count) (i32.const 64))) (i32.const 5))
                (br_if $next (local.get $count)))))"#
    );
    let wasm = wat::parse_str(&module).expect("a module");
    let manifest = format!(
        "name: {name}\nversion: 1.0.0\nabi: 1\nsummary: Is tested with.\nlanguage: c\naccess: read\n\
         interfaces: [left, right]\nmemory_limit: 64KiB\n"
    );
    let (image, _) = image::assemble(&wasm, &manifest, Names::Dropped).expect("an image");
    let path = folder.join(format!("{name}.wasm"));
    std::fs::write(&path, image.wasm()).expect("written");
    path
}
