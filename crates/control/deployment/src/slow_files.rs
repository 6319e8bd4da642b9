//! Looks at files of the host that end in time, whatever is behind a file: a file system over a network may
//! never answer, and then neither a request nor the daemon's start may wait for it.
//!
//! 1. [`SlowFiles::begin`] looks at a file on a thread of its own ([`Apart`]); several looks may begin before
//!    the first is waited for.
//! 2. [`Look::end`] waits for it, until a moment that is the same for all of them. A look that is late by
//!    then goes on by itself.
//! 3. As long as one is late, its file is not looked at again: that is told at once.
//!
//! Limits: [`MOST_LATE`] looks are late at a time, then no file is looked at.

use offload::{Apart, NoResult};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long looks are waited for that began together. A file of 128 MiB, the longest that a function may
/// have, comes from a slow disk in that time.
pub(crate) const WITHIN: Duration = Duration::from_secs(20);
/// Most looks that are late.
const MOST_LATE: usize = 64;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct SlowFiles {
    late: Arc<Mutex<BTreeSet<PathBuf>>>,
}

/// Whether a look is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waited,
    Late,
    Done,
}

/// A look that has begun, or why it has not.
pub(crate) struct Look<T> {
    path: PathBuf,
    phase: Arc<Mutex<Phase>>,
    late: Arc<Mutex<BTreeSet<PathBuf>>>,
    apart: Result<Apart<T>, String>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SlowFiles {
    /// Begins to look at a file.
    pub(crate) fn begin<T: Send + 'static>(
        &self,
        path: &Path,
        look: impl FnOnce(&Path) -> T + Send + 'static,
    ) -> Look<T> {
        let (path, phase) = (path.to_owned(), Arc::new(Mutex::new(Phase::Waited)));
        let refused = {
            let late = lock(&self.late);
            match (late.contains(&path), late.len() >= MOST_LATE) {
                (true, _) => {
                    Some("an earlier look at it has not ended; it is tried again when it has".to_owned())
                }
                (_, true) => {
                    Some(format!("{MOST_LATE} looks at other files have not ended; allowed: as many"))
                }
                _ => None,
            }
        };
        let apart = match refused {
            Some(why) => Err(why),
            None => {
                let (path, phase, late) = (path.clone(), phase.clone(), self.late.clone());
                let look = move || {
                    let found = look(&path);
                    let before = std::mem::replace(&mut *lock(&phase), Phase::Done);
                    if before == Phase::Late {
                        lock(&late).remove(&path);
                    }
                    found
                };
                Apart::begin(look).map_err(|error| format!("a thread for it: {error}"))
            }
        };
        Look { path, phase, late: self.late.clone(), apart }
    }
}

impl<T: Send + 'static> Look<T> {
    /// What was found, once it is or the moment has come.
    ///
    /// # Errors
    /// Why nothing was.
    pub(crate) fn end(self, until: Instant) -> Result<T, String> {
        let apart = self.apart?;
        match apart.wait(until) {
            Ok(found) => return Ok(found),
            Err(NoResult::Broken) => return Err(NoResult::Broken.to_string()),
            Err(NoResult::Late) => {}
        }
        {
            let mut phase = lock(&self.phase);
            if *phase == Phase::Waited {
                *phase = Phase::Late;
                lock(&self.late).insert(self.path);
                return Err(format!("it did not come within {} s", WITHIN.as_secs()));
            }
        }
        // It ended just now, and its result is on the way.
        apart.wait(Instant::now() + WITHIN).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(20)
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    #[test]
    fn a_file_that_does_not_come_keeps_nothing_waiting() {
        let files = SlowFiles::default();
        let (hung, other) = (Path::new("/hung"), Path::new("/other"));
        let (go, wait) = channel::<()>();
        let slow = files.begin(hung, move |_| wait.recv().is_ok());
        // Another one that began with it comes all the same.
        let quick = files.begin(other, |path| path.to_owned());
        assert_eq!(slow.end(soon()), Err("it did not come within 20 s".to_owned()));
        assert_eq!(quick.end(later()).as_deref(), Ok(other));
        // No second thread is lost to it.
        let again = files.begin(hung, |_| true).end(later());
        assert!(again.is_err_and(|why| why.starts_with("an earlier look at it has not ended")));
        assert_eq!(lock(&files.late).len(), 1);
        go.send(()).expect("it waits");
        let begin = Instant::now();
        while files.begin(hung, |_| true).end(later()).is_err() {
            assert!(begin.elapsed() < WITHIN, "it is looked at again");
            std::thread::yield_now();
        }
        assert!(lock(&files.late).is_empty());
    }

    #[test]
    fn only_so_many_are_late() {
        let files = SlowFiles::default();
        let (go, wait) = channel::<()>();
        let wait = Arc::new(Mutex::new(wait));
        let looks = (0..MOST_LATE).map(|n| {
            let wait = wait.clone();
            files.begin(Path::new(&format!("/{n}")), move |_| lock(&wait).recv().is_ok())
        });
        let looks: Vec<Look<bool>> = looks.collect();
        for look in looks {
            assert!(look.end(soon()).is_err());
        }
        let told = files.begin(Path::new("/one"), |_| ()).end(later()).expect_err("one too many");
        assert!(told.starts_with("64 looks at other files have not ended"), "{told}");
        drop(go);
        let begin = Instant::now();
        while files.begin(Path::new("/one"), |_| ()).end(later()).is_err() {
            assert!(begin.elapsed() < WITHIN, "there is room again");
            std::thread::yield_now();
        }
    }
}
