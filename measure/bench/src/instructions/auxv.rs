// UNSAFETY: a filter of system calls is handed to the kernel, for which the kernel wants a pointer. It is a
// system call and nothing else; the bench itself runs it.
#![allow(unsafe_code)]
//! Has this process read its auxiliary vector where valgrind shows its own.
//!
//! Libraries that ask the kernel for the vector (`PR_GET_AUXV`) are given that of valgrind itself, which
//! names memory that this process does not have. Where the kernel knows no such request, as before Linux 6.4,
//! they read `/proc/self/auxv`, which valgrind answers itself.

use std::io;

/// `PR_GET_AUXV`, from linux/prctl.h.
const PR_GET_AUXV: u32 = 0x4155_5856;

/// From now on this process and its children have a kernel that does not know `PR_GET_AUXV`.
///
/// # Errors
/// The kernel filters no system calls.
pub(super) fn take_from_file() -> io::Result<()> {
    let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let answer = libc::BPF_RET | libc::BPF_K;
    // Of the call's record (linux/seccomp.h): its number, and the lower half of its first argument.
    let mut filter = [
        step(load, 0, 0, 0),
        step(equal, 0, 3, libc::SYS_prctl as u32),
        step(load, 0, 0, 16),
        step(equal, 0, 1, PR_GET_AUXV),
        step(answer, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EINVAL as u32),
        step(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: plain numbers, and a pointer to a program that outlives the call, which copies it.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
            || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0
    };
    if refused { Err(io::Error::last_os_error()) } else { Ok(()) }
}
