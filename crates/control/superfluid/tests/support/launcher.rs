//! A launcher of a test's own, with the files of a folder, and the processes that it starts.

use super::commands::PROGRAM;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use testbed::{Background, Line};

const LIMIT: Duration = Duration::from_secs(20);
pub const BUSYBOX: &str = "/bin/busybox";

/// What this machine lacks, if it lacks something.
pub fn missing() -> Option<&'static str> {
    let there =
        |program: &str| ["/usr/sbin", "/usr/bin"].iter().any(|it| Path::new(it).join(program).exists());
    if !rustix::process::geteuid().is_root() {
        return Some("root, whose right it is to make namespaces with ranges of users");
    }
    if !there("runc") {
        return Some("runc (Debian: runc)");
    }
    (!Path::new(BUSYBOX).exists()).then_some("busybox (Debian: busybox-static)")
}

/// A folder for a launcher, and one of programs: in `/tmp` guests have files of their own. Users of tenants
/// pass through both.
pub fn folders() -> (TempDir, TempDir) {
    let make = |parent: &Path, mode| {
        let folder = tempfile::Builder::new().prefix("superfluid-test-").tempdir_in(parent);
        let folder = folder.expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).expect("changed");
        folder
    };
    (make(&std::env::temp_dir(), 0o711), make(Path::new("/var/tmp"), 0o755))
}

/// The launcher of a folder, which has its file there.
pub struct Launcher<'a> {
    pub folder: &'a Path,
    /// Where its file says that programs are.
    pub programs: &'a Path,
    pub line: &'a Line,
}

impl Launcher<'_> {
    /// Starts it, in the middle of the line, and waits until it listens.
    pub fn start(&self) -> Background {
        let mut command = self.line.middle.command(PROGRAM);
        command.arg("launcher").arg("--socket").arg(self.folder.join("launcher.sock"));
        command.arg("--permits").arg(self.folder.join("launcher.yaml"));
        command.arg("--state").arg(self.folder.join("state")).arg("--run").arg(self.folder.join("run"));
        command.arg("--guest-sockets").arg(self.folder.join("guests"));
        let group = self.folder.file_name().expect("a name");
        // At SIGTERM it ends its guests, which go on where it is killed.
        let launcher = Background::start_ended_by(command.arg("--cgroup").arg(group), Signal::TERM);
        let launcher = launcher.expect("it starts");
        let begin = Instant::now();
        while self.ask(r#"{"list": {}}"#).is_err() {
            assert!(begin.elapsed() < LIMIT, "the launcher does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        launcher
    }

    /// Arguments of a client of it.
    pub fn arguments(&self) -> [String; 4] {
        let path = |name| self.folder.join(name).display().to_string();
        ["--launcher".into(), path("launcher.sock"), "--guest-sockets".into(), path("guests")]
    }

    /// What it answers, or why it refuses.
    pub fn ask(&self, request: &str) -> Result<String, String> {
        let mut command = Command::new(PROGRAM);
        command
            .arg("launcher")
            .arg("--socket")
            .arg(self.folder.join("launcher.sock"))
            .args(["--ask", request]);
        let output = command.output().expect("it runs");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    /// The first process of the guest of this name, if it runs.
    pub fn pid_of(&self, name: &str) -> Option<u64> {
        let listed: Value =
            serde_json::from_str(&self.ask(r#"{"list": {}}"#).expect("a list")).expect("JSON");
        let guest = listed["guests"].as_array()?.iter().find(|guest| guest["name"] == name)?.clone();
        guest["state"]["running"]["pid"].as_u64()
    }

    /// The first process of the container.
    pub fn pid(&self) -> Option<u64> {
        let listed: Value =
            serde_json::from_str(&self.ask(r#"{"list": {}}"#).expect("a list")).expect("JSON");
        listed["guests"][0]["state"]["running"]["pid"].as_u64()
    }
}

/// Waits for another first process of the container than that.
pub fn another_pid(launcher: &Launcher<'_>, before: Option<u64>) -> u64 {
    let begin = Instant::now();
    loop {
        match launcher.pid().filter(|pid| Some(*pid) != before) {
            Some(pid) => return pid,
            None => assert!(begin.elapsed() < LIMIT, "it is not started"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Kills a process.
pub fn kill(pid: u64) {
    signal(pid, "-KILL");
}

/// Stops a process: it hangs from then on.
pub fn stop(pid: u64) {
    signal(pid, "-STOP");
}

fn signal(pid: u64, signal: &str) {
    let sent = Command::new("kill").args([signal, &pid.to_string()]).status().expect("kill");
    assert!(sent.success());
}

/// Whether a process has ended.
pub fn has_ended(pid: u64) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_err() || stat.is_ok_and(|stat| stat.contains(") Z "))
}
