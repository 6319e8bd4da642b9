//! How the disk is that commits are written to: whether it answers, and whether it has room for the next one,
//! by what it refused last and what it says is free.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Less than so much room is as good as none: a few changes take it.
const LITTLE: u64 = 256 << 10;

/// A disk that has not taken a commit for so long is told of.
const LONG: Duration = Duration::from_secs(5);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Something was refused; looked at by each commit, which takes no lock for it.
    is_refused: AtomicBool,
    refused: Mutex<Option<Refused>>,
    /// Since when a commit is being written.
    writing: Mutex<Option<Instant>>,
}

/// A commit for which there was no room.
#[derive(Debug)]
struct Refused {
    what: String,
    /// Bytes that the disk said were free then.
    free: Option<u64>,
}

impl Room {
    fn state(&self) -> MutexGuard<'_, Option<Refused>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a commit; one is written at a time.
    pub fn while_written<T>(&self, write: impl FnOnce() -> T) -> T {
        *self.since() = Some(Instant::now());
        let written = write();
        *self.since() = None;
        written
    }

    /// A commit was refused.
    pub fn refused(&self, folder: &Path, what: &str) {
        *self.state() = Some(Refused { what: what.to_owned(), free: free(folder) });
        self.is_refused.store(true, Relaxed);
    }

    /// A commit was taken.
    pub fn taken(&self) {
        if self.is_refused.swap(false, Relaxed) {
            *self.state() = None;
        }
    }

    /// Why the next commit waits, is refused, or is as good as refused.
    pub fn trouble(&self, folder: &Path) -> Option<String> {
        let waits = self.since().map(|since| since.elapsed());
        if let Some(waits) = waits.filter(|waits| *waits >= LONG) {
            return Some(format!(
                "{}: the disk has not taken a change for {} s; changes wait until it does",
                folder.display(),
                waits.as_secs()
            ));
        }
        trouble(folder, self.state().as_ref(), free(folder))
    }
}

fn trouble(folder: &Path, refused: Option<&Refused>, free: Option<u64>) -> Option<String> {
    let folder = folder.display();
    // What a quota refuses is free on the disk, before and after.
    let still = |refused: &&Refused| {
        let more = |free: u64| refused.free.is_some_and(|then| free >= then.saturating_add(LITTLE));
        !free.is_some_and(more)
    };
    match (refused.filter(still), free.filter(|free| *free < LITTLE)) {
        (Some(Refused { what, .. }), _) => {
            Some(format!("{folder}: the disk is full: {what}; changes are refused until it has room"))
        }
        (None, Some(free)) => Some(format!(
            "{folder}: the disk is full but for {} KiB; changes are refused when it has no room for them",
            free >> 10
        )),
        (None, None) => None,
    }
}

/// Bytes that are free on a folder's disk for this process; nothing where that is not known.
fn free(folder: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(folder).ok()?;
    // Some blocks are root's alone.
    let blocks = if rustix::process::geteuid().is_root() { found.f_bfree } else { found.f_bavail };
    // Some file systems have no blocks, and no end.
    (found.f_blocks > 0).then(|| blocks.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_until_it_has_room() {
        let at = |refused: Option<u64>, free| {
            let refused = refused.map(|free| Refused { what: "no space".to_owned(), free: Some(free) });
            trouble(Path::new("store"), refused.as_ref(), free)
        };
        let refused = "store: the disk is full: no space; changes are refused until it has room";
        assert_eq!(at(Some(4096), Some(4096)).as_deref(), Some(refused));
        // By a quota, and where the disk says nothing.
        assert_eq!(at(Some(1 << 30), Some(1 << 30)).as_deref(), Some(refused));
        assert_eq!(at(Some(4096), None).as_deref(), Some(refused));
        assert_eq!(at(Some(4096), Some(LITTLE + 4096)), None, "there is room again");
        let little =
            "store: the disk is full but for 8 KiB; changes are refused when it has no room for them";
        assert_eq!(at(None, Some(8192)).as_deref(), Some(little));
        assert_eq!((at(None, Some(LITTLE)), at(None, None)), (None, None));
        let room = Room::default();
        room.refused(Path::new("."), "no space");
        assert!(room.trouble(Path::new(".")).is_some_and(|told| told.contains("no space")));
        room.taken();
        assert!(!room.trouble(Path::new(".")).is_some_and(|told| told.contains("no space")));
    }

    #[test]
    fn a_disk_that_hangs_is_told() {
        let room = Room::default();
        let told = room.while_written(|| {
            assert!(!room.trouble(Path::new(".")).is_some_and(|told| told.contains("has not taken")));
            *room.since() = Instant::now().checked_sub(LONG * 2);
            room.trouble(Path::new("store"))
        });
        let waits = "store: the disk has not taken a change for 10 s; changes wait until it does";
        assert_eq!(told.as_deref(), Some(waits));
        assert!(!room.trouble(Path::new(".")).is_some_and(|told| told.contains("has not taken")));
    }
}
