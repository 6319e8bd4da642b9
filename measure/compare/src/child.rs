//! Programs with bounds of time and memory, ended by their own process alone.

use crate::Error;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Most address space of a peer, in bytes.
const MEMORY: u64 = 8 << 30;
/// Most processor time of a program, in seconds: an end for what this process could not end.
const PROCESSOR_TIME: u64 = 1800;
/// Bytes of standard error that are kept.
const WORDS: u64 = 64 << 10;

/// A peer with a bound of memory.
pub(crate) fn bounded(program: &str) -> Command {
    let mut command = Command::new("prlimit");
    command.args([&format!("--cpu={PROCESSOR_TIME}"), &format!("--as={MEMORY}"), "--", program]);
    command
}

/// The product: sandboxes reserve addresses that they never use, so that its memory is bounded by what its
/// file says.
pub(crate) fn product(program: &Path) -> Command {
    let mut command = Command::new("prlimit");
    command.arg(format!("--cpu={PROCESSOR_TIME}")).arg("--").arg(program);
    command
}

/// A running program; killed with this value.
pub(crate) struct Running {
    child: Child,
    program: &'static str,
    stderr: Option<JoinHandle<String>>,
}

impl Running {
    /// Starts it with its standard output in a file.
    pub fn start(program: &'static str, command: &mut Command, output: File) -> Result<Running, Error> {
        command.stdin(Stdio::null()).stdout(output).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|source| Error::Start { program, source })?;
        let stderr = child.stderr.take().map(|mut pipe| {
            thread::spawn(move || {
                let mut kept = Vec::new();
                // What is beyond is read as well, so that the program is not held up.
                let _ = pipe.by_ref().take(WORDS).read_to_end(&mut kept);
                let _ = std::io::copy(&mut pipe, &mut std::io::sink());
                String::from_utf8_lossy(&kept).into_owned()
            })
        });
        Ok(Running { child, program, stderr })
    }

    /// Whether it has not ended.
    pub fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks it to end, as Ctrl-C does.
    pub fn interrupt(&self) {
        // Fails only when it has ended already.
        let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
    }

    /// Waits for its end.
    pub fn finish(mut self, limit: Duration) -> Result<(), Error> {
        let begin = Instant::now();
        let mut status: Option<ExitStatus> = None;
        while status.is_none() && begin.elapsed() < limit {
            status =
                self.child.try_wait().map_err(|source| Error::Start { program: self.program, source })?;
            if status.is_none() {
                thread::sleep(Duration::from_millis(10));
            }
        }
        self.end();
        let words = self.stderr.take().and_then(|reader| reader.join().ok()).unwrap_or_default();
        let program = self.program;
        match status {
            None => Err(Error::TimeOut { program, limit }),
            Some(status) if !status.success() => Err(Error::Failed { program, status, words }),
            Some(_) => Ok(()),
        }
    }

    fn end(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Runs a program to its end.
pub(crate) fn run_into(
    program: &'static str,
    command: &mut Command,
    output: File,
    limit: Duration,
) -> Result<(), Error> {
    Running::start(program, command, output)?.finish(limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use peers::Folder;

    fn shell(script: &str) -> Command {
        let mut command = bounded("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_fails_or_hangs_is_told_and_nothing_waits() {
        let folder = Folder::new().expect("a folder");
        let output = || File::create(folder.file("out")).expect("a file");
        run_into("sh", &mut shell("echo good"), output(), Duration::from_secs(60)).expect("it ends well");
        assert_eq!(std::fs::read_to_string(folder.file("out")).expect("the file"), "good\n");
        let failed = run_into("sh", &mut shell("echo bad >&2; exit 3"), output(), Duration::from_secs(60));
        assert!(matches!(&failed, Err(Error::Failed { words, .. }) if words == "bad\n"), "{failed:?}");
        let crashed = run_into("sh", &mut shell("kill -SEGV $$"), output(), Duration::from_secs(60));
        assert!(matches!(crashed, Err(Error::Failed { .. })), "{crashed:?}");
        let hung = run_into("sh", &mut shell("while :; do :; done"), output(), Duration::from_millis(200));
        assert!(matches!(hung, Err(Error::TimeOut { .. })), "{hung:?}");
    }

    #[test]
    fn memory_is_bounded() {
        let folder = Folder::new().expect("a folder");
        let output = File::create(folder.file("out")).expect("a file");
        run_into("sh", &mut shell("ulimit -v; ulimit -t"), output, Duration::from_secs(60)).expect("a shell");
        let limits = std::fs::read_to_string(folder.file("out")).expect("the file");
        assert_eq!(limits, format!("{}\n{PROCESSOR_TIME}\n", MEMORY >> 10));
    }
}
