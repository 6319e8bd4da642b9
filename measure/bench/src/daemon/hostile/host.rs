//! What the host takes from this machine while all of its processors are busy, and another program on it:
//! delays that the daemon cannot keep away.

use crate::BenchError;
use rustix::thread::CpuSet;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the processors are kept busy.
const SPAN: Duration = Duration::from_secs(3);
/// Shorter gaps are interrupts and other threads' turns.
const GAP: Duration = Duration::from_millis(2);

/// What threads that do nothing but read the clock, one pinned to each processor, miss of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Withheld {
    /// The longest span in which one of them did not run.
    pub(super) longest: Duration,
    /// Spans of more than 2 ms, in percent of the time.
    pub(super) percent: f64,
}

/// What keeps all processors but one busy, as another program on the machine would, until it is dropped.
pub(super) struct OtherProgram {
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl OtherProgram {
    pub(super) fn start() -> OtherProgram {
        let ends = Arc::<AtomicBool>::default();
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let spin = |ends: Arc<AtomicBool>| {
            while !ends.load(Relaxed) {
                spin_loop();
            }
        };
        let threads = (1..processors.max(2)).map(|_| {
            let ends = ends.clone();
            thread::spawn(move || spin(ends))
        });
        OtherProgram { threads: threads.collect(), ends }
    }
}

impl Drop for OtherProgram {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            // It does nothing that could break.
            let _ = thread.join();
        }
    }
}

/// Keeps all processors busy and looks at the clock meanwhile.
pub(super) fn withheld() -> Result<Withheld, BenchError> {
    let allowed = rustix::thread::sched_getaffinity(None).map_err(BenchError::setup)?;
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|n| allowed.is_set(*n)).collect();
    let watch = |processor: usize| {
        let mut set = CpuSet::new();
        set.set(processor);
        rustix::thread::sched_setaffinity(None, &set).map_err(BenchError::setup)?;
        let begun = Instant::now();
        let (mut last, mut longest, mut missed) = (begun, Duration::ZERO, Duration::ZERO);
        while last.duration_since(begun) < SPAN {
            let now = Instant::now();
            let gap = now.duration_since(last);
            longest = longest.max(gap);
            missed += if gap > GAP { gap } else { Duration::ZERO };
            last = now;
        }
        Ok::<_, BenchError>((longest, missed))
    };
    let watched: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = processors.iter().map(|n| scope.spawn(move || watch(*n))).collect();
        threads
            .into_iter()
            .map(|thread| {
                thread.join().map_err(|_| BenchError::setup("a thread that looks at the clock broke"))?
            })
            .collect::<Result<_, _>>()
    })?;
    let missed: Duration = watched.iter().map(|(_, missed)| *missed).sum();
    Ok(Withheld {
        longest: watched.iter().map(|(longest, _)| *longest).max().unwrap_or_default(),
        percent: 100.0 * missed.as_secs_f64() / (SPAN.as_secs_f64() * processors.len() as f64),
    })
}
