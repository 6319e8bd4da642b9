//! Which processors the threads of the program run on: workers on those that they are given, all others on
//! the rest.

use engine::ThreadPlan;
use rustix::io::Errno;
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use std::io;
use std::sync::OnceLock;

/// Passes over the threads: one that begins meanwhile may have what the one that begins it had before.
const PASSES: usize = 16;

/// Those that the program was given by its start, whatever its threads have been restricted to since.
pub(crate) fn of_program() -> CpuSet {
    static GIVEN: OnceLock<CpuSet> = OnceLock::new();
    *GIVEN.get_or_init(|| {
        sched_getaffinity(None).unwrap_or_else(|_| {
            // A kernel that does not tell allows what it allows; a worker that asks for another is refused at
            // the start.
            let mut all = CpuSet::new();
            (0..CpuSet::MAX_CPU).for_each(|processor| all.set(processor));
            all
        })
    })
}

/// Restricts all threads that there are, and so those that they begin, to the processors on which no worker
/// is to stay. Without effect where workers may run anywhere, and where they have all processors.
///
/// # Errors
/// The kernel's refusal.
pub(crate) fn leave_to_workers(workers: &[ThreadPlan]) -> io::Result<()> {
    let Some(rest) = rest(&of_program(), workers) else { return Ok(()) };
    for _ in 0..PASSES {
        let mut restricted = false;
        for thread in std::fs::read_dir("/proc/self/task")? {
            let name = thread?.file_name();
            let Some(id) = name.to_str().and_then(|id| id.parse().ok()).and_then(Pid::from_raw) else {
                continue;
            };
            match sched_getaffinity(Some(id)) {
                Ok(present) if present != rest => match sched_setaffinity(Some(id), &rest) {
                    Ok(()) => restricted = true,
                    // It has ended.
                    Err(Errno::SRCH) => {}
                    Err(refusal) => return Err(refusal.into()),
                },
                Ok(_) | Err(Errno::SRCH) => {}
                Err(refusal) => return Err(refusal.into()),
            }
        }
        if !restricted {
            break;
        }
    }
    Ok(())
}

/// What workers leave of some processors; `None` where that is all of them or nothing.
fn rest(given: &CpuSet, workers: &[ThreadPlan]) -> Option<CpuSet> {
    let mut rest = *given;
    for &processor in workers.iter().filter_map(|plan| plan.processors.as_ref()).flatten() {
        if processor < CpuSet::MAX_CPU {
            rest.unset(processor);
        }
    }
    (rest != *given && rest.count() > 0).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_have_what_workers_leave() {
        let set = |processors: &[usize]| {
            let mut set = CpuSet::new();
            processors.iter().for_each(|processor| set.set(*processor));
            set
        };
        let on = |processors: Option<&[usize]>| ThreadPlan {
            name: String::new(),
            processors: processors.map(<[usize]>::to_vec),
        };
        let given = set(&[0, 1, 2, 5]);
        assert_eq!(rest(&given, &[on(Some(&[1])), on(Some(&[2, 5]))]), Some(set(&[0])));
        assert_eq!(rest(&given, &[on(Some(&[1])), on(None)]), Some(set(&[0, 2, 5])), "the worker of ports");
        assert_eq!(rest(&given, &[on(None), on(None)]), None, "they may run anywhere");
        assert_eq!(rest(&given, &[on(Some(&[0, 1, 2, 5]))]), None, "nothing would be left");
        assert_eq!(rest(&given, &[on(Some(&[3, CpuSet::MAX_CPU]))]), None, "none of the program's");
    }
}
