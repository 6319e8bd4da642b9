//! A line on the terminal about what takes longer than a second: what is being done, and for how long.
//!
//! 1. [`Progress::begin`] starts a thread, which writes nothing in the first second.
//! 2. From then on the thread draws the line over itself once a second. [`Progress::now`] changes what it
//!    says.
//! 3. When the [`Progress`] is dropped the line is erased, before the command prints its result.
//!
//! Nothing is written unless standard error is a terminal, and nothing for output that a program reads.

use crate::output::Format;
use std::io::{IsTerminal, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// How long nothing is shown, and the time between two lines from then on.
const INTERVAL: Duration = Duration::from_secs(1);
/// Takes the cursor to the beginning of the line and erases the line.
const ERASE: &str = "\r\x1b[K";
/// Columns of a terminal that does not tell.
const COLUMNS: usize = 80;

/// See the module's documentation.
pub(crate) struct Progress(Option<Running>);

struct Running {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    ended: Condvar,
}

struct State {
    what: String,
    ended: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress {
    /// Shows that `what` is being done, unless the result is for a program.
    pub(crate) fn begin(what: &str, format: Format) -> Progress {
        let read_by_people = matches!(format, Format::Table | Format::Wide);
        if !read_by_people || !std::io::stderr().is_terminal() {
            return Progress(None);
        }
        let columns = rustix::termios::tcgetwinsize(std::io::stderr()).ok();
        let columns = columns.map(|size| usize::from(size.ws_col)).filter(|&columns| columns > 0);
        Progress::to(std::io::stderr(), columns.unwrap_or(COLUMNS), INTERVAL, what)
    }

    fn to(mut out: impl Write + Send + 'static, columns: usize, interval: Duration, what: &str) -> Progress {
        let state = Mutex::new(State { what: what.to_owned(), ended: false });
        let shared = Arc::new(Shared { state, ended: Condvar::new() });
        let theirs = shared.clone();
        let thread = Builder::new().name("progress".into());
        // Without a thread nothing is shown, and the command does its work all the same.
        let thread = thread.spawn(move || show(&theirs, &mut out, columns, interval)).ok();
        Progress(Some(Running { shared, thread }))
    }

    /// What is being done from now on.
    pub(crate) fn now(&self, what: &str) {
        if let Some(running) = &self.0 {
            what.clone_into(&mut running.shared.state().what);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let Some(running) = &mut self.0 else { return };
        running.shared.state().ended = true;
        running.shared.ended.notify_all();
        if let Some(thread) = running.thread.take() {
            // It ends by itself; a panic of it concerns a line on a terminal alone.
            let _ = thread.join();
        }
    }
}

/// Draws the line until the end. A terminal that cannot be written to is left alone.
fn show(shared: &Shared, out: &mut impl Write, columns: usize, interval: Duration) {
    let began = Instant::now();
    let mut drawn = false;
    let mut state = shared.state();
    for count in 1_u32.. {
        let next = interval.saturating_mul(count);
        while !state.ended && began.elapsed() < next {
            let left = next.saturating_sub(began.elapsed());
            state = shared.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.ended {
            break;
        }
        drawn = true;
        let line = line(&state.what, next, columns);
        if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
            return;
        }
    }
    if drawn {
        // Nothing can be done about a terminal that has gone.
        let _ = out.write_all(ERASE.as_bytes()).and_then(|()| out.flush());
    }
}

/// `applying edge.yaml ... 3s`, in one row of the terminal.
fn line(what: &str, elapsed: Duration, columns: usize) -> String {
    let time = format!(" ... {}", humantime::format_duration(Duration::from_secs(elapsed.as_secs())));
    let room = columns.saturating_sub(time.chars().count() + 1);
    let what: String = printable::harmless(what, usize::MAX).chars().take(room).collect();
    format!("{ERASE}{what}{time}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    struct Terminal(Sender<String>);

    impl Write for Terminal {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.0.send(text).map_err(std::io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_line_is_drawn_over_itself_and_erased_at_the_end() {
        let (sender, written) = channel();
        let progress = Progress::to(Terminal(sender), 80, Duration::from_millis(1), "saving function/fw");
        let next = || written.recv().expect("it is drawn again and again");
        assert_eq!(next(), "\r\x1b[Ksaving function/fw ... 0s");
        progress.now("compiling firewall");
        let changed = (0..).map(|_| next()).find(|line| line.contains("compiling firewall"));
        assert_eq!(changed.as_deref(), Some("\r\x1b[Kcompiling firewall ... 0s"));
        drop(progress);
        assert_eq!(written.iter().last().as_deref(), Some("\r\x1b[K"));
    }

    #[test]
    fn what_ends_before_the_first_line_leaves_nothing() {
        let (sender, written) = channel();
        drop(Progress::to(Terminal(sender), 80, Duration::from_secs(3600), "saving function/fw"));
        assert_eq!(written.iter().next(), None);
    }

    #[test]
    fn a_line_has_one_row_and_no_character_that_moves_the_cursor() {
        let long = line(&"x\n\x1b[2J".repeat(40), Duration::from_secs(75), 40);
        let shown = long.strip_prefix(ERASE).expect("drawn over");
        assert!(shown.ends_with(" ... 1m 15s") && shown.chars().count() < 40, "{shown:?}");
        assert!(!shown.contains(char::is_control), "{shown:?}");
    }
}
