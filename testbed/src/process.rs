//! Commands with a limit of time, ended by their own process alone.

use crate::TestbedError;
use crate::starter::start_ended_by;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long one has that is not ended by SIGKILL.
const GRACE: Duration = Duration::from_secs(10);

/// What a command printed.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs a command to its end.
///
/// # Errors
/// [`TestbedError`]: it could not be started, took longer than `limit`, or failed.
pub fn run(command: &mut Command, limit: Duration) -> Result<Finished, TestbedError> {
    Background::start(command)?.complete(limit)
}

/// A command that runs beside the test and is ended with this value.
#[derive(Debug)]
pub struct Background {
    child: Child,
    words: String,
    ends_by: Signal,
    outputs: Option<[JoinHandle<String>; 2]>,
}

impl Background {
    /// Starts a command, which also ends with the test's process.
    ///
    /// # Errors
    /// [`TestbedError::Missing`] or [`TestbedError::Start`].
    pub fn start(command: &mut Command) -> Result<Background, TestbedError> {
        Background::start_ended_by(command, Signal::KILL)
    }

    /// Starts one that is to be ended by this signal, because it ends others then: also with the test's
    /// process, and when a test fails.
    ///
    /// # Errors
    /// [`TestbedError::Missing`] or [`TestbedError::Start`].
    pub fn start_ended_by(command: &mut Command, ends_by: Signal) -> Result<Background, TestbedError> {
        let words = words(command);
        let program = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = start_ended_by(command, ends_by).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => TestbedError::Missing { package: package(&program), program },
            _ => TestbedError::Start { command: words.clone(), source },
        })?;
        let outputs = [reader(child.stdout.take()), reader(child.stderr.take())];
        Ok(Background { child, words, ends_by, outputs: Some(outputs) })
    }

    /// Its number.
    pub fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits for its end; `None` when it had to be killed.
    pub(crate) fn wait(&mut self, limit: Duration) -> Result<Option<std::process::ExitStatus>, TestbedError> {
        let begin = Instant::now();
        let failed = |source| TestbedError::Kernel { what: "waiting for a command", source };
        loop {
            if let Some(status) = self.child.try_wait().map_err(failed)? {
                return Ok(Some(status));
            }
            if begin.elapsed() > limit {
                self.end();
                return Ok(None);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Asks it to end, as Ctrl-C does, and waits for that.
    ///
    /// # Errors
    /// [`TestbedError`]: it did not end within `limit`, or not well.
    pub fn interrupt(self, limit: Duration) -> Result<Finished, TestbedError> {
        // Fails only when it has ended already.
        let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
        self.complete(limit)
    }

    fn complete(mut self, limit: Duration) -> Result<Finished, TestbedError> {
        let status = self.wait(limit)?;
        let words = self.words.clone();
        let (stdout, stderr) = self.collect();
        match status {
            None => Err(TestbedError::TimeOut { command: words, limit, output: stdout + &stderr }),
            Some(status) if !status.success() => {
                Err(TestbedError::Failed { command: words, status, output: stdout + &stderr })
            }
            Some(_) => Ok(Finished { stdout, stderr }),
        }
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends it and returns what it printed on standard output and standard error.
    pub fn finish(mut self) -> (String, String) {
        self.end();
        self.collect()
    }

    fn collect(mut self) -> (String, String) {
        match self.outputs.take() {
            Some([stdout, stderr]) => (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default()),
            None => Default::default(),
        }
    }

    fn end(&mut self) {
        if self.ends_by != Signal::KILL && self.is_running() {
            // Fails only when it has just ended.
            let _ = kill_process(self.id(), self.ends_by);
            let begin = Instant::now();
            while self.is_running() && begin.elapsed() < GRACE {
                thread::sleep(Duration::from_millis(5));
            }
        }
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.end();
    }
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read until an error is what there is to show.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn words(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// The Debian package of a program.
fn package(program: &str) -> &'static str {
    match program {
        "ip" | "tc" => "iproute2",
        "ping" => "iputils-ping",
        "unshare" | "nsenter" => "util-linux",
        "ethtool" => "ethtool",
        "iperf3" => "iperf3",
        _ => "the one that has it",
    }
}
