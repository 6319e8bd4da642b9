// UNSAFETY: calls of `sched_setattr` and `sched_getattr`, which `rustix` does not have. The tests
// below run them.
#![allow(unsafe_code)]
//! Threads that others wait for, and threads that can wait.

use rustix::thread::{CapabilitySet, capabilities};

/// The calling thread's slices are short from now on (`sched_setattr`, since Linux 6.12): when it is woken,
/// it takes the processor from a thread whose slice is longer, and need not wait until that has been used up.
/// It gets no more time by it. Where the kernel refuses, all is as before.
pub fn be_prompt() {
    const SLICE_NANOS: u64 = 100_000;
    let mut attributes = nothing();
    attributes.sched_policy = libc::SCHED_OTHER as u32;
    attributes.sched_runtime = SLICE_NANOS;
    set(0, &attributes);
}

/// A thread that has a processor only where nothing else wants it (`SCHED_IDLE`), until this is dropped.
#[derive(Debug)]
pub struct Idling {
    thread: u32,
    before: libc::sched_attr,
}

impl Idling {
    /// The first thread of a process; `None` where it is no ordinary thread, or this program could not take
    /// it back (`CAP_SYS_NICE`).
    pub fn begin(pid: u32) -> Option<Idling> {
        if !capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_NICE)) {
            return None;
        }
        let mut before = nothing();
        // SAFETY: the kernel writes at most `size` bytes.
        let got =
            unsafe { libc::syscall(libc::SYS_sched_getattr, pid, &raw mut before, before.size as usize, 0) };
        if got != 0 || before.sched_policy != libc::SCHED_OTHER as u32 {
            return None;
        }
        let idle = libc::sched_attr { sched_policy: libc::SCHED_IDLE as u32, ..before };
        set(pid, &idle).then_some(Idling { thread: pid, before })
    }

    /// The thread is gone: the number may soon be another one's.
    pub fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Idling {
    fn drop(&mut self) {
        set(self.thread, &self.before);
    }
}

fn nothing() -> libc::sched_attr {
    // SAFETY: all of its fields are numbers, for which 0 is a value.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    attributes.size = size_of::<libc::sched_attr>() as u32;
    attributes
}

fn set(thread: u32, attributes: &libc::sched_attr) -> bool {
    // SAFETY: the kernel reads as many bytes as `size` says.
    unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const *attributes, 0) == 0 }
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

    /// Of what it may not take back it takes nothing.
    #[test]
    fn a_process_that_can_wait_has_its_own_policy_again() {
        let policy = |pid: u32| {
            // SAFETY: a number is given, and a number comes back.
            unsafe { libc::sched_getscheduler(pid.cast_signed()) }
        };
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("it is there");
        let idling = Idling::begin(child.id());
        let may = capabilities(None).expect("known").effective.contains(CapabilitySet::SYS_NICE);
        assert_eq!(policy(child.id()), if may { libc::SCHED_IDLE } else { libc::SCHED_OTHER });
        drop(idling);
        assert_eq!(policy(child.id()), libc::SCHED_OTHER);
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        assert!(Idling::begin(child.id()).is_none(), "it is gone");
    }
}
