// UNSAFETY: a signal handler is installed here; it calls only async-signal-safe functions.
// Miri knows no signals; `tests/sandbox/host_faults.rs` runs it.
#![allow(unsafe_code)]
//! A fault outside guest code is a defect of the host: say so and end, rather than go on with broken state.

use std::sync::Once;

static ONCE: Once = Once::new();

/// Installs the report for faults that are no guest's. Call it before the first [`crate::Sandbox`] is made,
/// which passes on to it what it does not recognise as a guest's. Further calls do nothing.
pub fn install_crash_report() {
    ONCE.call_once(|| {
        for signal in [libc::SIGSEGV, libc::SIGBUS] {
            // SAFETY: a zeroed sigaction is valid; the handler has the signature that SA_SIGINFO asks for.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = report as extern "C" fn(_, _, _) as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND;
                libc::sigaction(signal, &action, std::ptr::null_mut());
            }
        }
    });
}

extern "C" fn report(_signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let mut line =
        *b"superfluid: fatal: memory fault outside guest code at address 0x0000000000000000; aborting\n";
    // SAFETY: the kernel passes a valid siginfo_t to a handler installed with SA_SIGINFO.
    let mut address = unsafe { (*info).si_addr() } as usize;
    let end = line.len() - "; aborting\n".len();
    for digit in line[end - 16..end].iter_mut().rev() {
        *digit = b"0123456789abcdef"[address & 15];
        address >>= 4;
    }
    // SAFETY: write(2) and abort(3) are async-signal-safe.
    unsafe {
        libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len());
        libc::abort();
    }
}
