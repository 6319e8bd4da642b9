//! The OCI runtime's command line (runc(8), crun(1)): create, start, update, delete.

use crate::Refusal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The longest that one command may take.
const LIMIT: Duration = Duration::from_secs(60);
/// How soon what takes too long is ended again.
const AGAIN: Duration = Duration::from_millis(50);
/// How many times: where a guest has no room for another process the runtime waits without end, whether it
/// has told the number by then or not. What is left of it is the launcher's child ([`crate::orphans`]).
const LOOKS: u32 = 40;
/// How many characters of what the runtime says are told.
const TOLD: usize = 512;
/// How much of the end of its log is looked at.
const LOOKED_AT: u64 = 16 << 10;

/// Namespaces that each guest has, as the kernel names their bounds.
const NAMESPACES: [&str; 7] = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];

/// Whether the host lets namespaces be made (namespaces(7)); a kernel that has no bounds says nothing.
pub(crate) fn has_namespaces(bounds: &Path) -> Result<(), Refusal> {
    let file = |kind: &&&str| bounds.join(format!("max_{kind}_namespaces"));
    let is_none = |kind: &&&str| std::fs::read_to_string(file(kind)).is_ok_and(|text| text.trim() == "0");
    match NAMESPACES.iter().find(is_none) {
        None => Ok(()),
        Some(kind) => Err(Refusal::new(format!(
            "namespaces: {} is 0, so that the host refuses them; allowed: one or more for each guest",
            file(&kind).display()
        ))),
    }
}

#[derive(Debug)]
pub(crate) struct Runtime {
    program: PathBuf,
    /// Where it keeps what it knows of its containers.
    pub(crate) state: PathBuf,
}

impl Runtime {
    pub(crate) fn new(program: &Path, state: &Path) -> Runtime {
        Runtime { program: program.to_owned(), state: state.to_owned() }
    }

    /// Whether its program is there.
    pub(crate) fn is_there(&self) -> Result<(), Refusal> {
        let found = std::fs::metadata(&self.program).map_err(|error| error.to_string());
        let found = found.and_then(|found| match found.is_file() {
            true => Ok(()),
            false => Err("it is no file".to_owned()),
        });
        found.map_err(|why| {
            Refusal::new(format!(
                "runtime: {}: {why}; allowed: runc or crun, by `runtime` of the launcher's file",
                self.program.display()
            ))
        })
    }

    /// Creates the container of a bundle; what it writes goes to `output`. Its first process waits for
    /// [`Runtime::start`], its number is in `pid_file`.
    pub(crate) fn create(
        &self,
        name: &str,
        bundle: &Path,
        pid_file: &Path,
        output: &File,
    ) -> Result<(), Refusal> {
        let mut command = self.command("create");
        command.arg("--bundle").arg(bundle).arg("--pid-file").arg(pid_file).arg(name);
        let output = || output.try_clone().map_err(Refusal::of("the guest's output"));
        command.stdout(output()?).stderr(output()?);
        self.run(command, "create", None)
    }

    pub(crate) fn start(&self, name: &str) -> Result<(), Refusal> {
        let mut command = self.command("start");
        command.arg(name);
        self.run(command, "start", None)
    }

    /// Runs a program in a container that runs, as what its `config.json` says; its number is written to
    /// `pid_file`. What it writes is lost. One that takes too long is for `late` to end: the runtime,
    /// which is its parent, waits for it, and the container's process namespace for that.
    pub(crate) fn exec(
        &self,
        name: &str,
        program: &[String],
        pid_file: &Path,
        within: Duration,
        late: &dyn Fn(),
    ) -> Result<(), Refusal> {
        let mut command = self.command("exec");
        command.arg("--pid-file").arg(pid_file).arg(name).args(program);
        self.run_within(command, "exec", None, (within, Some(late)))
    }

    /// Changes limits, given as `linux.resources`.
    pub(crate) fn update(&self, name: &str, resources: &str) -> Result<(), Refusal> {
        let mut command = self.command("update");
        command.args(["--resources", "-", name]);
        self.run(command, "update", Some(resources))
    }

    /// Ends a container and forgets it; one that is not there is no error.
    pub(crate) fn delete(&self, name: &str) -> Result<(), Refusal> {
        let mut command = self.command("delete");
        command.args(["--force", name]);
        let deleted = self.run(command, "delete", None);
        if self.state.join(name).exists() { deleted } else { Ok(()) }
    }

    fn command(&self, what: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.current_dir("/").arg("--root").arg(&self.state);
        command.arg("--log").arg(self.log(what)).args(["--log-format", "json", what]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn log(&self, what: &str) -> PathBuf {
        let number = format!("{:?}", std::thread::current().id());
        let number: String = number.chars().filter(char::is_ascii_digit).collect();
        self.state.with_extension(format!("{what}-{number}.log"))
    }

    fn run(&self, command: Command, what: &str, input: Option<&str>) -> Result<(), Refusal> {
        self.run_within(command, what, input, (LIMIT, None))
    }

    fn run_within(
        &self,
        mut command: Command,
        what: &str,
        input: Option<&str>,
        (within, late): (Duration, Option<&dyn Fn()>),
    ) -> Result<(), Refusal> {
        let log = self.log(what);
        let _ = std::fs::remove_file(&log);
        let program = self.program.display();
        let failed =
            |error: std::io::Error| Refusal::new(format!("the OCI runtime {program} {what}: {error}"));
        if input.is_some() {
            command.stdin(Stdio::piped());
        }
        let mut child = command.spawn().map_err(failed)?;
        if let (Some(text), Some(mut to)) = (input, child.stdin.take()) {
            to.write_all(text.as_bytes()).map_err(failed)?;
        }
        let held =
            pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).map_err(|error| failed(error.into()))?;
        let ends_within = |span: Duration| {
            let span = Timespec { tv_sec: span.as_secs() as i64, tv_nsec: span.subsec_nanos().into() };
            // A signal is handled by another thread.
            retry_on_intr(|| poll(&mut [PollFd::new(&held, PollFlags::IN)], Some(&span)))
        };
        if ends_within(within).map_err(|error| failed(error.into()))? == 0 {
            if let Some(late) = late {
                // The number may not be known yet.
                for _ in 0..LOOKS {
                    late();
                    if ends_within(AGAIN) != Ok(0) {
                        break;
                    }
                }
            }
            let _ = child.kill();
            let _ = child.wait();
            let _ = std::fs::remove_file(&log);
            return Err(Refusal::new(format!(
                "the OCI runtime {program} {what}: no answer within {within:?}"
            )));
        }
        let status = child.wait().map_err(failed)?;
        let said = last(&log);
        let _ = std::fs::remove_file(&log);
        if status.success() {
            return Ok(());
        }
        Err(Refusal::new(format!("the OCI runtime {program} {what}: {status}: {}", said.trim())))
    }
}

/// The last message of a log, whose lines are JSON.
fn last(path: &Path) -> String {
    let mut bytes = Vec::new();
    if let Ok(mut file) = local_file::open(path) {
        let length = file.metadata().map_or(0, |it| it.len());
        let _ = file.seek(std::io::SeekFrom::Start(length.saturating_sub(LOOKED_AT)));
        let _ = file.take(LOOKED_AT).read_to_end(&mut bytes);
    }
    message(&String::from_utf8_lossy(&bytes))
}

/// What a log's last line says: its `msg`, or all of one that is not read.
fn message(log: &str) -> String {
    let line = log.trim().lines().next_back().unwrap_or_default();
    let read = serde_json::from_str::<serde_json::Value>(line).ok();
    let text = read.as_ref().and_then(|read| read.get("msg")?.as_str()).unwrap_or(line);
    let skipped = text.chars().count().saturating_sub(TOLD);
    text.chars().skip(skipped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_runtime_said_last_is_told() {
        let line = |text: &str| format!("{{\"level\":\"error\",\"msg\":{text:?},\"time\":\"2026-01-01\"}}\n");
        let log = [line("a warning"), line("exec: \"/bin/x\": no such file")].concat();
        assert_eq!(message(&log), "exec: \"/bin/x\": no such file");
        assert_eq!(message(&line("next\nline")), "next\nline");
        assert_eq!(message("2026-01-01 some text\n"), "2026-01-01 some text");
        assert_eq!(message(""), "");
        assert_eq!(message(&format!("x{}end", "y".repeat(TOLD))).len(), TOLD);
    }
}
