//! Standard output and standard error of a process that carries packets: writing never blocks and never
//! panics.
//!
//! 1. [`Console::write`] puts text into a bounded queue and returns at once. Text that finds the queue full
//!    is lost, and its lines are counted.
//! 2. A thread for each stream writes the queue in order. Text that the system does not take (a closed pipe,
//!    a full disk) is lost and counted as well; the next text is tried again, and begins a line of its own.
//! 3. The first loss on standard output is reported once on standard error.
//! 4. [`end`] waits before the process ends until both queues are written, as long as their readers take
//!    something.
//! 5. Lines of standard error that are wider than its terminal are wrapped. A pipe and a file get each as
//!    one.
//!
//! The macros of the standard library panic where a write fails, and block where a pipe is full. A program
//! that uses this crate denies them with `clippy::print_stdout` and `clippy::print_stderr`.
//!
//! Limits: [`QUEUE`] bytes wait for each stream; a single longer text is taken if the queue is empty.

#![forbid(unsafe_code)]

mod wrap;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Bytes that may wait for a stream.
pub const QUEUE: usize = 4 << 20;

/// Bytes written at a time: whether a reader takes anything is seen in steps of this size.
const CHUNK: usize = 16 << 10;

/// For how long [`end`] waits for a reader that takes nothing.
pub const FLUSH_LIMIT: Duration = Duration::from_secs(5);

static OUTPUT: LazyLock<Console> = LazyLock::new(|| {
    Console::new("standard output", io::stdout(), |first| {
        error()
            .line(&format!("{first}; what cannot be written there is lost and counted, and packets go on"));
    })
});

static ERROR: LazyLock<Console> =
    LazyLock::new(|| Console::new("standard error", io::stderr(), |_| {}).wrapping());

/// Standard output.
#[must_use]
pub fn output() -> &'static Console {
    &OUTPUT
}

/// Standard error.
#[must_use]
pub fn error() -> &'static Console {
    &ERROR
}

/// Writes what waits, before the process ends; gives up on a stream whose reader takes nothing for
/// [`FLUSH_LIMIT`]. Lines of standard output that were lost are counted on standard error.
pub fn end() {
    output().flush(FLUSH_LIMIT);
    let lost = output().lost();
    if lost > 0 {
        error().line(&format!("standard output: {lost} lines were lost"));
    }
    error().flush(FLUSH_LIMIT);
}

/// A stream that is written without waiting for its reader.
pub struct Console {
    shared: Arc<Shared>,
    /// Whether lines are wrapped where the stream is a terminal.
    wraps: bool,
}

struct Shared {
    name: &'static str,
    stream: Box<dyn AsFd + Send + Sync>,
    queue: Mutex<Queue>,
    /// Wakes the thread that writes.
    work: Condvar,
    /// Wakes those that wait in [`Console::flush`].
    progress: Condvar,
    /// Is called with the reason of the first loss.
    on_loss: fn(&str),
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<String>,
    /// Bytes of `waiting`, and of the text that is being written.
    bytes: usize,
    /// Bytes written so far.
    written: u64,
    /// Lines lost so far.
    lost: u64,
    thread: bool,
}

impl Console {
    /// A console on a stream; `on_loss` is called with the reason of the first loss.
    pub fn new(name: &'static str, stream: impl AsFd + Send + Sync + 'static, on_loss: fn(&str)) -> Console {
        let shared = Shared {
            name,
            stream: Box::new(stream),
            queue: Mutex::default(),
            work: Condvar::new(),
            progress: Condvar::new(),
            on_loss,
        };
        Console { shared: Arc::new(shared), wraps: false }
    }

    /// One whose lines are wrapped at the width of its terminal, if it is one: for messages, not for tables.
    #[must_use]
    pub fn wrapping(self) -> Console {
        Console { wraps: true, ..self }
    }

    /// Queues text; returns at once. The text is written as a whole or, where there is no room for it, lost
    /// and counted.
    pub fn write(&self, text: impl Into<String>) {
        let text = text.into();
        if text.is_empty() {
            return;
        }
        let mut queue = self.shared.lock();
        if !queue.thread {
            let shared = self.shared.clone();
            queue.thread = Builder::new().name("console".into()).spawn(move || shared.run()).is_ok();
        }
        let full = queue.bytes > 0 && queue.bytes + text.len() > QUEUE;
        if full || !queue.thread {
            let why = if full { "its reader is too slow" } else { "there is no thread that writes it" };
            return self.shared.lose(queue, text.as_bytes(), why);
        }
        queue.bytes += text.len();
        queue.waiting.push_back(text);
        self.shared.work.notify_one();
    }

    /// Queues a line, or several, with hidden characters as escapes; its end is added. Messages tell names of
    /// files, and others may have chosen these.
    pub fn line(&self, line: &str) {
        let line = printable::lines(line);
        let columns = if self.wraps { wrap::columns(&self.shared.stream) } else { None };
        let mut text = columns.map_or_else(|| line.to_string(), |columns| wrap::wrapped(&line, columns));
        text.push('\n');
        self.write(text);
    }

    /// Lines lost so far.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.shared.lock().lost
    }

    /// Waits until the queue is written; false when nothing was taken for `limit`, or no thread writes.
    pub fn flush(&self, limit: Duration) -> bool {
        let mut queue = self.shared.lock();
        let (mut before, mut since) = (queue.written, Instant::now());
        while queue.bytes > 0 {
            let left = limit.saturating_sub(since.elapsed());
            if left.is_zero() {
                return false;
            }
            (queue, _) =
                self.shared.progress.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner);
            if queue.written != before {
                (before, since) = (queue.written, Instant::now());
            }
        }
        true
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a text that is lost; the first loss is reported.
    fn lose(&self, mut queue: MutexGuard<'_, Queue>, text: &[u8], why: &str) {
        let first = queue.lost == 0;
        // A text without a line end is a line as well.
        queue.lost += (text.iter().filter(|byte| **byte == b'\n').count() as u64).max(1);
        drop(queue);
        if first {
            (self.on_loss)(&format!("{}: {why}", self.name));
        }
    }

    /// Writes what is queued, for as long as the process runs.
    fn run(&self) {
        let mut torn = false;
        loop {
            let mut queue = self.lock();
            let text = loop {
                match queue.waiting.pop_front() {
                    Some(text) => break text,
                    None => queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(queue);
            let ended = if torn { self.put(b"\n").map_err(|(_, error)| (0, error)) } else { Ok(()) };
            let written = ended.and_then(|()| {
                torn = false;
                self.put(text.as_bytes())
            });
            let mut queue = self.lock();
            queue.bytes -= text.len();
            self.progress.notify_all();
            if let Err((done, error)) = written {
                let (put, left) = text.as_bytes().split_at(done);
                torn |= put.last().is_some_and(|last| *last != b'\n');
                self.lose(queue, left, &error.to_string());
            }
        }
    }

    /// Writes all of it, or says how many bytes were written before which error.
    fn put(&self, bytes: &[u8]) -> Result<(), (usize, Errno)> {
        let mut done = 0;
        while done < bytes.len() {
            let end = bytes.len().min(done + CHUNK);
            match rustix::io::write(self.stream.as_fd(), &bytes[done..end]) {
                Ok(0) => return Err((done, Errno::IO)),
                Ok(written) => {
                    done += written;
                    self.lock().written += written as u64;
                    self.progress.notify_all();
                }
                Err(Errno::INTR) => {}
                // Another process made the stream non-blocking.
                Err(Errno::AGAIN) => {
                    let stream = self.stream.as_fd();
                    match poll(&mut [PollFd::new(&stream, PollFlags::OUT)], None) {
                        Ok(_) | Err(Errno::INTR) => {}
                        Err(error) => return Err((done, error)),
                    }
                }
                Err(error) => return Err((done, error)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{PipeReader, Read};
    use std::sync::atomic::{AtomicU64, Ordering};

    fn piped() -> (PipeReader, Console) {
        let (reader, writer) = io::pipe().expect("a pipe");
        (reader, Console::new("a pipe", writer, |_| {}))
    }

    #[test]
    fn text_comes_whole_and_in_order() {
        let (mut reader, console) = piped();
        console.write("a\nb");
        console.line("c");
        assert!(console.flush(FLUSH_LIMIT));
        let mut bytes = [0; 5];
        reader.read_exact(&mut bytes).expect("written");
        assert_eq!((&bytes, console.lost()), (b"a\nbc\n", 0));
    }

    #[test]
    fn a_line_controls_no_terminal() {
        let (mut reader, console) = piped();
        console.line("a\u{1b}[2J\u{202e}b\nc");
        assert!(console.flush(FLUSH_LIMIT));
        let told = "a\\u{1b}[2J\\u{202e}b\nc\n";
        let mut bytes = vec![0; told.len()];
        reader.read_exact(&mut bytes).expect("written");
        assert_eq!(bytes, told.as_bytes());
    }

    #[test]
    fn a_reader_that_does_not_read_stops_nothing_and_what_is_lost_is_counted() {
        let (mut reader, console) = piped();
        let line = format!("{}\n", "x".repeat(1023));
        let lines = 3 * (QUEUE / line.len()) as u64;
        for _ in 0..lines {
            console.write(line.as_str());
        }
        let lost = console.lost();
        assert!(lost > 0 && lost < lines, "{lost} of {lines}");
        assert!(!console.flush(Duration::from_millis(20)), "nothing is read");
        // All that was not lost comes once it is read.
        let reading = std::thread::spawn(move || {
            let (mut lines, mut bytes) = (0, vec![0; 1 << 16]);
            loop {
                match reader.read(&mut bytes).expect("readable") {
                    0 => return lines,
                    count => lines += bytes[..count].iter().filter(|byte| **byte == b'\n').count() as u64,
                }
                if lines + lost == 3 * (QUEUE / 1024) as u64 {
                    return lines;
                }
            }
        });
        assert!(console.flush(FLUSH_LIMIT));
        assert_eq!(reading.join().expect("read") + lost, lines);
        assert_eq!(console.lost(), lost);
    }

    #[test]
    fn a_closed_pipe_loses_and_is_reported_once() {
        static REPORTS: AtomicU64 = AtomicU64::new(0);
        let (reader, writer) = io::pipe().expect("a pipe");
        let console = Console::new("a pipe", writer, |why| {
            assert_eq!(why, "a pipe: Broken pipe (os error 32)");
            REPORTS.fetch_add(1, Ordering::Relaxed);
        });
        drop(reader);
        console.write("a\nb\n");
        console.line("c");
        assert!(console.flush(FLUSH_LIMIT));
        assert_eq!(console.lost(), 3);
        // It is reported behind the lock.
        while REPORTS.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        console.line("d");
        assert!(console.flush(FLUSH_LIMIT));
        assert_eq!((console.lost(), REPORTS.load(Ordering::Relaxed)), (4, 1));
    }

    #[test]
    fn a_full_disk_loses() {
        let full = File::options().write(true).open("/dev/full").expect("there is one");
        let console = Console::new("a file", full, |_| {});
        console.line("a");
        console.flush(FLUSH_LIMIT);
        assert_eq!(console.lost(), 1);
    }

    #[test]
    fn a_text_longer_than_the_queue_is_taken_when_the_queue_is_empty() {
        let (mut reader, console) = piped();
        let length = QUEUE + 10;
        console.write("y".repeat(length));
        let mut bytes = vec![0; length];
        reader.read_exact(&mut bytes).expect("written");
        assert_eq!(console.lost(), 0);
    }
}
