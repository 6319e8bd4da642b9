// UNSAFETY: a fault of the host is provoked here, in a process of its own.
#![allow(unsafe_code)]
//! A fault outside guest code ends the process, with a report, however many guests' faults came before.

use crate::support::*;
use guest_wasm::{Access, install_crash_report};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

const MARKER: &str = "GUEST_WASM_TEST_FAULTS";

/// Does nothing but in the process that the next test starts.
#[test]
fn faulting_process() {
    if std::env::var_os(MARKER).is_none() {
        return;
    }
    install_crash_report(); // Before the first sandbox, as in the product.
    let mut room = Room::new();
    let program = program(&process("(i32.store (local.get $a) (i32.const 1))"), Access::Read);
    for _ in 0..10 {
        assert_trap(room.run(&program, WINDOW), "a guest's fault");
    }
    room.assert_goes_on();
    println!("guests faulted");
    // SAFETY: none; the fault is the point.
    unsafe { std::ptr::without_provenance_mut::<u8>(0x5f5f_0000).write_volatile(1) };
    println!("still here");
}

#[test]
fn a_fault_of_the_host_is_reported_and_ends_it() {
    let output = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "host_faults::faulting_process", "--nocapture", "--test-threads=1"])
        .env(MARKER, "1")
        .output()
        .expect("it starts");
    let (told, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("guests faulted") && !told.contains("still here"), "{told}\n{said}");
    assert!(said.contains("memory fault outside guest code at address 0x000000005f5f0000"), "{said}");
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{said}");
}
