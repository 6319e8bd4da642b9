//! A program that runs beside the measurement.

use crate::PeerError;
use crate::cores::{FIRST, read_time};
use crate::error::{file, kernel};
use rustix::process::{Pid, Signal, kill_process, setpriority_process};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use testbed::Background;

/// How often is looked whether something has happened.
const LOOK: Duration = Duration::from_millis(20);

/// A running program; killed with this value.
#[derive(Debug)]
pub(crate) struct Process {
    name: &'static str,
    pid: Pid,
    background: Option<Background>,
}

impl Process {
    /// Starts it.
    pub fn start(name: &'static str, command: &mut Command) -> Result<Process, PeerError> {
        let background = Background::start(command)?;
        let pid = background.id();
        Ok(Process { name, pid, background: Some(background) })
    }

    /// Waits until `ready` gives something.
    pub fn wait_for<T>(
        &mut self,
        what: &'static str,
        limit: Duration,
        mut ready: impl FnMut(&Process) -> Option<T>,
    ) -> Result<T, PeerError> {
        let began = Instant::now();
        loop {
            if let Some(value) = ready(self) {
                return Ok(value);
            }
            if began.elapsed() > limit || !self.lives() {
                let (stdout, stderr) = self.background.take().map(Background::finish).unwrap_or_default();
                return Err(PeerError::NotReady { peer: self.name, what, limit, output: stdout + &stderr });
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Asks it to end, as Ctrl-C does, and waits for that.
    pub fn interrupt(mut self, limit: Duration) -> Result<(), PeerError> {
        let background = self.background.take();
        background.map_or(Ok(()), |running| running.interrupt(limit).map(drop)).map_err(PeerError::from)
    }

    /// Whether it has not ended.
    fn lives(&self) -> bool {
        self.state(self.pid.as_raw_nonzero().get()).is_some_and(|state| state != 'Z' && state != 'X')
    }

    fn state(&self, task: i32) -> Option<char> {
        let path = format!("/proc/{}/task/{task}/stat", self.pid.as_raw_nonzero());
        let stat = fs::read_to_string(path).ok()?;
        // The name may contain anything; what follows its last parenthesis does not.
        stat.rsplit_once(')')?.1.trim_start().chars().next()
    }

    fn tasks(&self) -> Result<Vec<PathBuf>, PeerError> {
        let path = PathBuf::from(format!("/proc/{}/task", self.pid.as_raw_nonzero()));
        let entries = fs::read_dir(&path).map_err(file(&path))?;
        Ok(entries.flatten().map(|entry| entry.path()).collect())
    }

    /// Processor time of the threads whose names begin so, and how many these are.
    pub fn time_of(&self, thread: &str) -> Result<(Duration, usize), PeerError> {
        let mut sum = (Duration::ZERO, 0);
        for task in self.tasks()? {
            let name = fs::read_to_string(task.join("comm")).unwrap_or_default();
            if name.starts_with(thread) {
                sum = (sum.0 + read_time(&task.join("schedstat"))?, sum.1 + 1);
            }
        }
        Ok(sum)
    }

    /// Gives the threads whose names begin so the first claim to their processors.
    pub fn favour(&self, thread: &str) -> Result<(), PeerError> {
        self.each(thread, |number| {
            setpriority_process(Some(number), FIRST).map_err(kernel("raising a thread's priority"))
        })
    }

    /// Moves the threads whose names begin so to a processor, with a priority there.
    pub fn place(&self, thread: &str, core: usize, priority: i32) -> Result<(), PeerError> {
        let mut set = CpuSet::new();
        set.set(core);
        self.each(thread, |number| {
            sched_setaffinity(Some(number), &set).map_err(kernel("moving a thread to a processor"))?;
            setpriority_process(Some(number), priority).map_err(kernel("setting a thread's priority"))
        })
    }

    fn each(&self, thread: &str, act: impl Fn(Pid) -> Result<(), PeerError>) -> Result<(), PeerError> {
        for task in self.tasks()? {
            let name = fs::read_to_string(task.join("comm")).unwrap_or_default();
            let number = task.file_name().and_then(|name| Pid::from_raw(name.to_str()?.parse().ok()?));
            if let Some(number) = number.filter(|_| name.starts_with(thread)) {
                act(number)?;
            }
        }
        Ok(())
    }

    /// Stops all of its threads, and waits until they stand.
    pub fn pause(&self) -> Result<(), PeerError> {
        kill_process(self.pid, Signal::STOP).map_err(kernel("stopping a process"))?;
        let until = Instant::now() + Duration::from_secs(1);
        while Instant::now() < until {
            let running = self.tasks()?.iter().any(|task| {
                let number = task.file_name().and_then(|name| name.to_str()?.parse().ok());
                number.and_then(|number| self.state(number)).is_some_and(|state| state != 'T')
            });
            if !running {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(PeerError::Unexpected { peer: self.name, found: "it does not stop".into() })
    }

    /// Lets it go on.
    pub fn resume(&self) -> Result<(), PeerError> {
        kill_process(self.pid, Signal::CONT).map_err(kernel("letting a process go on"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_process_takes_no_time() {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]);
        let mut process = Process::start("sh", &mut command).expect("a shell");
        let busy = |process: &Process| {
            let (time, threads) = process.time_of("sh").expect("its time");
            (threads == 1 && time > Duration::from_millis(20)).then_some(time)
        };
        process.wait_for("it works", Duration::from_secs(20), busy).expect("a shell that works");
        process.pause().expect("it stops");
        let stopped = process.time_of("sh").expect("its time").0;
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(process.time_of("sh").expect("its time").0, stopped);
        process.resume().expect("it goes on");
        process
            .wait_for("it goes on", Duration::from_secs(20), |process| {
                busy(process).filter(|time| *time > stopped)
            })
            .expect("a shell that works again");
    }

    #[test]
    fn one_that_ends_is_told_with_what_it_printed() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such device; exit 1"]);
        let mut process = Process::start("sh", &mut command).expect("a shell");
        let error = process.wait_for("it is ready", Duration::from_secs(20), |_| None::<()>).unwrap_err();
        assert!(error.to_string().contains("no such device"), "{error}");
    }
}
