//! Which program runs where, and how much processor time that took.

use crate::PeerError;
use crate::error::{file, kernel};
use rustix::process::{getpriority_process, getuid, setpriority_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The two processors of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// The program that is measured.
    pub device: usize,
    /// Everything else.
    pub sender: usize,
}

impl Cores {
    /// The last and the first that this process may use.
    ///
    /// # Errors
    /// [`PeerError::Cores`], or [`PeerError::NotRoot`].
    pub fn find() -> Result<Cores, PeerError> {
        if !getuid().is_root() {
            return Err(PeerError::NotRoot);
        }
        let set = sched_getaffinity(None).map_err(kernel("asking for the own processors"))?;
        let mut allowed = (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core));
        match (allowed.next(), allowed.next_back()) {
            (Some(sender), Some(device)) => Ok(Cores { device, sender }),
            _ => Err(PeerError::Cores { found: set.count() as usize }),
        }
    }

    /// Keeps the calling thread on one processor, and other programs off it as far as priority can, until the
    /// value is dropped. What it starts meanwhile inherits both.
    ///
    /// # Errors
    /// [`PeerError::Kernel`].
    pub fn claim(core: usize) -> Result<Claim, PeerError> {
        let before = sched_getaffinity(None).map_err(kernel("asking for the own processors"))?;
        let priority = getpriority_process(None).map_err(kernel("asking for the own priority"))?;
        let claim = Claim { before, priority };
        let mut set = CpuSet::new();
        set.set(core);
        sched_setaffinity(None, &set).map_err(kernel("keeping a thread on a processor"))?;
        setpriority_process(None, FIRST).map_err(kernel("raising a thread's priority"))?;
        Ok(claim)
    }
}

/// The priority of the program that is measured, and of senders.
pub(crate) const FIRST: i32 = -20;

/// A thread that has a processor to itself, as far as that can be.
#[derive(Debug)]
pub struct Claim {
    before: CpuSet,
    priority: i32,
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Both were so before.
        let _ = sched_setaffinity(None, &self.before);
        let _ = setpriority_process(None, self.priority);
    }
}

/// Huge pages of 2 MiB that are not in use.
pub fn free_huge_pages() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = meminfo.lines().find_map(|line| line.strip_prefix("HugePages_Free:"));
    free.and_then(|free| free.trim().parse().ok()).unwrap_or(0)
}

/// Processor time of the calling thread, what the kernel did in its name included.
///
/// # Errors
/// [`PeerError`].
pub fn thread_time() -> Result<Duration, PeerError> {
    read_time(Path::new("/proc/thread-self/schedstat"))
}

/// The kernel's own thread that finishes what interrupts of a processor began; its time is charged to no
/// process.
#[derive(Debug)]
pub struct SoftirqThread(Option<PathBuf>);

impl SoftirqThread {
    /// That of this processor. Where it cannot be seen its time is zero, for both sides alike.
    pub fn of(core: usize) -> SoftirqThread {
        let name = format!("ksoftirqd/{core}");
        let Ok(entries) = fs::read_dir("/proc") else { return SoftirqThread(None) };
        let mut paths = entries.flatten().map(|entry| entry.path());
        let found = paths
            .find(|path| fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim_end() == name));
        SoftirqThread(found.map(|path| path.join("schedstat")))
    }

    /// Its processor time until now.
    pub fn time(&self) -> Duration {
        self.0.as_deref().and_then(|path| read_time(path).ok()).unwrap_or(Duration::ZERO)
    }
}

/// The first number of a `schedstat`: nanoseconds on a processor.
pub(crate) fn read_time(path: &Path) -> Result<Duration, PeerError> {
    let text = fs::read_to_string(path).map_err(file(path))?;
    let nanos = text.split_whitespace().next().and_then(|first| first.parse().ok());
    nanos.map(Duration::from_nanos).ok_or_else(|| PeerError::Unexpected {
        peer: "kernel",
        found: format!("no time in {}: `{}`", path.display(), text.trim_end()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_time_goes_on_while_working_and_hardly_while_sleeping() {
        let began = thread_time().expect("the kernel counts");
        std::thread::sleep(Duration::from_millis(30));
        let slept = thread_time().expect("the kernel counts") - began;
        let mut sum = 0u64;
        while thread_time().expect("the kernel counts") - began < Duration::from_millis(40) {
            sum = (0..10_000u64).fold(sum, |sum, n| sum.wrapping_mul(31).wrapping_add(n));
        }
        assert!(slept < Duration::from_millis(20), "{slept:?} in a sleep ({sum})");
    }
}
