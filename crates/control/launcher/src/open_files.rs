//! How many open files a process may be given: a limit above one's own is the right of a process with
//! `CAP_SYS_RESOURCE` on the host, and none may have more than `fs.nr_open` (setrlimit(2)).

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};
use std::fs::read_to_string;

/// The least: the runtime itself opens some in the guest's name before it becomes its program, crun one for
/// each mount.
pub(crate) const LEAST: u32 = 64;

/// The kernel's own bound, where it does not say another one.
const KERNEL: u64 = 1 << 20;

/// The most that this launcher's guests may have.
pub(crate) fn most() -> u64 {
    let read = |path| read_to_string(path).ok();
    let kernel = read("/proc/sys/fs/nr_open").and_then(|text| text.trim().parse().ok()).unwrap_or(KERNEL);
    let may_raise = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_RESOURCE));
    // In a user namespace the right is none.
    let own = read("/proc/self/uid_map").is_some_and(|map| is_hosts(&map));
    match getrlimit(Resource::Nofile).maximum {
        Some(hard) if !(may_raise && own) => hard.min(kernel),
        _ => kernel,
    }
}

/// Whether a namespace has all of the host's users as they are.
fn is_hosts(uid_map: &str) -> bool {
    uid_map.split_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_may_have_is_within_the_kernels_bound() {
        assert!((u64::from(LEAST)..=1 << 31).contains(&most()), "{}", most());
        assert!(is_hosts("         0          0 4294967295\n"));
        assert!(!is_hosts("         0       1000          1\n"));
    }
}
