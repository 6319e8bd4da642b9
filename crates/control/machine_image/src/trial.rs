//! A machine that is booted to see whether its program works: QEMU, with a network of its own to which ports
//! of this host's loopback lead, which needs no rights. Emulated, so that what is found holds everywhere.

use crate::BuildError;
use crate::reduce::Outcome;
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// QEMU's program, its machine, and the console's name for Linux.
pub const ARCHITECTURE: (&str, &str, &str) = if cfg!(target_arch = "aarch64") {
    ("qemu-system-aarch64", "virt", "ttyAMA0")
} else {
    ("qemu-system-x86_64", "q35", "ttyS0")
};
const PACKAGE: &str = if cfg!(target_arch = "aarch64") { "qemu-system-arm" } else { "qemu-system-x86" };
/// Of QEMU's network in user space.
const GUEST: &str = "10.0.2.15";
/// Between two runs of a test.
const AGAIN: Duration = Duration::from_millis(200);

/// How a machine is booted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its kernel.
    pub kernel: PathBuf,
    /// Its first root.
    pub initramfs: PathBuf,
    /// Mebibytes of memory.
    pub memory: u32,
    /// Ports of the guest that the test reaches.
    pub ports: Vec<u16>,
    /// More for the kernel's command line.
    pub append: String,
}

/// A machine that runs, until this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    console: PathBuf,
    ports: Vec<(u16, u16)>,
    started: Instant,
    /// Why it has ended.
    why: Option<String>,
}

impl Machine {
    /// Boots it; what the guest writes to its console is in this file.
    ///
    /// # Errors
    /// QEMU is not there.
    pub fn boot(&self, console: &Path) -> Result<Running, BuildError> {
        let (program, machine, name) = ARCHITECTURE;
        let mut network = "user,id=net,restrict=on".to_owned();
        let mut ports = Vec::new();
        // Held all at once, so that they differ.
        let held: Result<Vec<TcpListener>, _> =
            self.ports.iter().map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect();
        for (inside, listener) in
            self.ports.iter().zip(held.map_err(BuildError::file(Path::new("127.0.0.1")))?)
        {
            let outside = listener.local_addr().map_err(BuildError::file(Path::new("127.0.0.1")))?.port();
            network.push_str(&format!(",hostfwd=tcp:127.0.0.1:{outside}-{GUEST}:{inside}"));
            ports.push((*inside, outside));
        }
        let append = format!(
            "console={name} quiet panic=-1 superfluid.address={GUEST}/24 superfluid.gateway=10.0.2.2 {}",
            self.append
        );
        // A machine ends with this process, however that ends.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", program]);
        command.args([
            "-machine",
            machine,
            "-accel",
            "tcg",
            "-cpu",
            "max",
            "-m",
            &format!("{}M", self.memory),
        ]);
        command.args(["-nodefaults", "-display", "none", "-no-reboot"]);
        command.args(["-serial", &format!("file:{}", console.display())]);
        command.arg("-kernel").arg(&self.kernel).arg("-initrd").arg(&self.initramfs);
        command.args(["-append", append.trim_end(), "-netdev", &network]);
        command.args(["-device", "virtio-net-pci,netdev=net,vectors=0"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let path = std::env::var_os("PATH").unwrap_or_default();
        if !std::env::split_paths(&path).any(|folder| folder.join(program).is_file()) {
            return Err(BuildError::Missing { program: program.to_owned(), package: PACKAGE });
        }
        let started = Instant::now();
        let child = command.spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                BuildError::Missing { program: "setpriv".to_owned(), package: "util-linux" }
            }
            _ => BuildError::file(Path::new(program))(error),
        })?;
        Ok(Running { child, console: console.to_owned(), ports, started, why: None })
    }
}

impl Running {
    /// The port of this host's loopback that leads to a port of the guest.
    pub fn port(&self, inside: u16) -> Option<u16> {
        self.ports.iter().find(|(of, _)| *of == inside).map(|(_, outside)| *outside)
    }

    /// Since QEMU was started.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// QEMU's process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Why it has ended, if it has.
    pub fn ended(&mut self) -> Option<String> {
        if self.why.is_some() {
            return self.why.clone();
        }
        let status = self.child.try_wait().ok().flatten()?;
        let mut said = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            // QEMU has ended: what it said is all there.
            let _ = std::io::Read::read_to_string(&mut errors, &mut said);
        }
        let last = said.lines().last().unwrap_or_default();
        let why = format!("QEMU ended ({status}) {last}{}", self.last_line());
        self.why = Some(printable::harmless(&why, 500));
        self.why.clone()
    }

    /// What the guest said last.
    fn last_line(&self) -> String {
        let said = fs::read(&self.console).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
        last.map(|line| format!("; the guest said last: {line}")).unwrap_or_default()
    }

    /// Runs a shell's command until it ends with 0, or the machine ends, or the time is over. It finds the
    /// port that leads to the guest's port 80 in `PORT_80`, and `HOST`, which is this host's loopback.
    ///
    /// # Errors
    /// There is no shell.
    pub fn test(&mut self, command: &str, most: Duration) -> Result<Outcome, BuildError> {
        loop {
            if let Some(why) = self.ended() {
                return Ok(Outcome::Fails(why));
            }
            let left = most.saturating_sub(self.age());
            if left.is_zero() {
                let why = format!("no success within {} s{}", most.as_secs(), self.last_line());
                return Ok(Outcome::Fails(printable::harmless(&why, 500)));
            }
            if self.try_once(command, left)? {
                return Ok(Outcome::Works);
            }
            std::thread::sleep(AGAIN.min(most.saturating_sub(self.age())));
        }
    }

    fn try_once(&mut self, command: &str, most: Duration) -> Result<bool, BuildError> {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).env("HOST", "127.0.0.1").process_group(0);
        self.ports.iter().for_each(|(inside, outside)| {
            shell.env(format!("PORT_{inside}"), outside.to_string());
        });
        shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = shell.spawn().map_err(BuildError::file(Path::new("sh")))?;
        let begun = Instant::now();
        loop {
            if let Some(status) = child.try_wait().map_err(BuildError::file(Path::new("sh")))? {
                return Ok(status.success());
            }
            if begun.elapsed() >= most || self.ended().is_some() {
                // With what it has started; it has not been waited for, so that the number is its own.
                let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
                let _ = child.wait();
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process in place of QEMU.
    fn running(script: &str) -> Running {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stderr(Stdio::piped());
        let child = command.spawn().expect("a shell");
        Running {
            child,
            console: "/nowhere/console".into(),
            ports: vec![(80, 4080)],
            started: Instant::now(),
            why: None,
        }
    }

    #[test]
    fn a_test_is_repeated_until_it_passes_or_its_machine_ends_or_its_time_is_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let count = folder.path().join("count");
        let mut machine = running("exec sleep 100");
        let third =
            format!("echo $HOST:$PORT_80 >>{0}; [ $(grep -c 127.0.0.1:4080 {0}) = 3 ]", count.display());
        assert_eq!(machine.test(&third, Duration::from_secs(20)).expect("run"), Outcome::Works);
        assert_eq!(fs::read_to_string(&count).expect("there").lines().count(), 3);
        let hangs = machine.test("sleep 100", Duration::from_millis(300)).expect("run");
        assert!(matches!(hangs, Outcome::Fails(why) if why.starts_with("no success within")));
        let mut machine = running("echo bad kernel >&2; exit 3");
        let ended = machine.test("false", Duration::from_secs(20)).expect("run");
        assert!(
            matches!(&ended, Outcome::Fails(why) if why.contains("bad kernel") && why.contains('3')),
            "{ended:?}"
        );
    }
}
