// UNSAFETY: one call of `sched_setattr`, which `rustix` does not have. It is run by the tests of
// `port_native`.
#![allow(unsafe_code)]
//! Threads that others wait for.

/// The calling thread's slices are short from now on (`sched_setattr`, since Linux 6.12): when it is woken,
/// it takes the processor from a thread whose slice is longer, and need not wait until that has been used up.
/// It gets no more time by it. Where the kernel refuses, all is as before.
pub fn be_prompt() {
    const SLICE_NANOS: u64 = 100_000;
    // SAFETY: all of its fields are numbers, for which 0 is a value.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    attributes.size = size_of::<libc::sched_attr>() as u32;
    attributes.sched_policy = libc::SCHED_OTHER as u32;
    attributes.sched_runtime = SLICE_NANOS;
    // SAFETY: the kernel reads as many bytes as `size` says, for the thread that calls.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Since Linux 6.12 the kernel says what the slices of an ordinary thread are, and nothing before.
    #[test]
    fn a_prompt_thread_has_short_slices() {
        let release = rustix::system::uname();
        let release = release.release().to_string_lossy();
        let mut numbers = release.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        be_prompt();
        // SAFETY: as above.
        let mut now: libc::sched_attr = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::sched_attr>();
        // SAFETY: the kernel writes at most `size` bytes.
        let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut now, size, 0) };
        assert_eq!((got, now.sched_policy), (0, libc::SCHED_OTHER as u32));
        assert_eq!(now.sched_runtime, if version >= (6, 12) { 100_000 } else { 0 }, "{release}");
    }
}
