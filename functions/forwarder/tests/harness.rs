//! The host in memory that tests of functions in C have, `include/superfluid_test.h`: `harness.c` tries it.

use std::path::Path;
use std::process::Command;

#[test]
fn the_tests_host_of_functions_in_c_does_what_it_says() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("harness");
    let done = Command::new("clang-19")
        .args(["-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-DSF_NATIVE", "-I"])
        .arg(here.join("../../include"))
        .arg("-o")
        .arg(&program)
        .arg(here.join("tests/harness.c"))
        .output()
        .expect("clang-19 is needed: apt-get install clang-19 lld-19");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let ran = Command::new(&program).output().expect("it was just made");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let expected = "values: good\npackets: good\nrandom: good\ninstances: good\n";
    assert_eq!(String::from_utf8_lossy(&ran.stdout), expected);
}
