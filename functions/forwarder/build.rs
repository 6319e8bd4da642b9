//! Compiles the function's C source natively, and the checks of the header beside it.

use std::process::Command;

/// The compiler of the function's module as well, so that a comparison compares sandboxes and not compilers.
const COMPILER: &str = "clang-19";

fn main() {
    let works = Command::new(COMPILER).arg("--version").output().is_ok_and(|output| output.status.success());
    let compile = |source: &str, library: &str| {
        println!("cargo::rerun-if-changed={source}");
        let mut build = cc::Build::new();
        if works && std::env::var_os("CC").is_none() {
            build.compiler(COMPILER);
        }
        build
            .file(source)
            .include("../../include")
            .std("c11")
            .opt_level(3)
            .warnings(true)
            .extra_warnings(true);
        build.define("SF_NATIVE", None).define("SF_NATIVE_PREFIX", "forwarder_");
        if std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64") {
            build.flag("-march=x86-64-v3");
        }
        // A fuzzer watches the C code as well, not only what calls it.
        let sanitizers = std::env::var("CARGO_CFG_SANITIZE").unwrap_or_default();
        if works && sanitizers.split(',').any(|one| one == "address") {
            build.flag("-fsanitize=address,fuzzer-no-link");
        }
        build.compile(library);
    };
    compile("src/forwarder.c", "forwarder_function");
    compile("tests/header.c", "forwarder_header_checks");
    println!("cargo::rerun-if-changed=../../include/superfluid.h");
    println!("cargo::rerun-if-env-changed=CC");
}
