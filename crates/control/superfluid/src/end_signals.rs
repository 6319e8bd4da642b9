//! The signals that end `superfluid run`.
//!
//! 1. The first of SIGHUP, SIGINT, SIGTERM and SIGQUIT begins the end: packets on their way are delivered
//!    first.
//! 2. The second one, of whichever kind, ends the process at once with status 128 + its number, as a shell
//!    shows an ended process.
//!
//! SIGHUP stays ignored where the parent ignores it: `nohup` does that so that the program outlives its
//! terminal.

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::exit;
use std::io;
use std::thread::Builder;

/// Calls `first` at the first signal, on a thread of its own.
///
/// # Errors
/// The system has no handler or no thread for it.
pub(crate) fn watch(first: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let ignored = ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
    let ends = [SIGHUP, SIGINT, SIGTERM, SIGQUIT].into_iter().filter(|signal| *signal != SIGHUP || !ignored);
    let mut signals = Signals::new(ends)?;
    let watching = move || {
        let mut first = Some(first);
        for signal in signals.forever() {
            match first.take() {
                Some(first) => first(),
                None => exit(128 + signal),
            }
        }
    };
    Builder::new().name("signals".into()).spawn(watching).map(drop)
}

/// Whether `/proc/PID/status` says that SIGHUP is ignored.
fn ignored(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (SIGHUP - 1)) != 0
}

#[cfg(test)]
mod tests {
    use super::ignored;

    #[test]
    fn an_ignored_signal_is_found_in_the_mask() {
        assert!(ignored("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0\n"));
        assert!(!ignored("SigIgn:\t0000000000001000\n"));
        assert!(!ignored(""));
    }
}
