//! The guide's program in C, of the native library.

use std::path::Path;
use std::process::Command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

/// Compiles it as the guide says, with what else the linker is to be told.
pub fn compile(program: &Path, more: &[&str]) {
    let here = std::env::current_exe().expect("this test");
    let libraries = here.parent().expect("a folder");
    let done = Command::new("clang-19")
        .args(["-O2", "-Iinclude", "examples/native/forwarder.c", "-L"])
        .arg(libraries)
        .args(["-l:libsuperfluid_native.a", "-o"])
        .arg(program)
        .args(more)
        .current_dir(ROOT)
        .output()
        .expect("clang-19 is needed: apt-get install clang-19 lld-19");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}
