//! Translates the functions that exist for measuring alone from text to binary.

use std::path::Path;

const MODULES: [&str; 13] = [
    "burn",
    "call",
    "chatty",
    "empty",
    "hold",
    "slow",
    "slow_export",
    "slow_start",
    "spin",
    "timer_storm",
    "touch",
    "trap",
    "work",
];

fn main() {
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    for name in MODULES {
        let source = format!("src/modules/{name}.wat");
        println!("cargo::rerun-if-changed={source}");
        let binary = wat::parse_file(&source).unwrap_or_else(|error| panic!("{source}: {error}"));
        std::fs::write(Path::new(&out).join(format!("{name}.wasm")), binary).expect("OUT_DIR is writable");
    }
}
