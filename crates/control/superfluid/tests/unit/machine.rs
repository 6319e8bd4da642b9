//! A machine of namespaces, in which systemd is the first process; see `boot.sh`.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SYSTEMD: &str = "/usr/lib/systemd/systemd";

/// It goes with all that runs in it.
pub struct Machine {
    child: Child,
    systemd: u32,
    cgroup: PathBuf,
    /// `/run/given` in it.
    pub given: tempfile::TempDir,
}

impl Machine {
    /// Boots; the repository is at `/run/source` then, and the program at `/run/program`.
    pub fn boot() -> Machine {
        Machine::boot_with(&[])
    }

    /// The same, and packages can be installed.
    pub fn boot_for_packages() -> Machine {
        Machine::boot_with(&["packages"])
    }

    fn boot_with(further: &[&str]) -> Machine {
        assert!(Path::new(SYSTEMD).exists(), "{SYSTEMD} is missing; `scripts/setup test` installs it");
        let root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
        assert!(root, "only root can boot a systemd that gives a unit another user: run this test as root");
        let given = tempfile::tempdir().expect("a folder");
        let cgroup = cgroup().join(format!("superfluid-unit-{}-{}", std::process::id(), given_name(&given)));
        fs::create_dir(&cgroup).unwrap_or_else(|error| panic!("{}: {error}", cgroup.display()));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
        let unshare = "echo $$ >\"$0/cgroup.procs\" && exec unshare --pid --fork --kill-child --mount --net --uts --ipc \
                       --cgroup --mount-proc \"$@\"";
        let child = Command::new("bash")
            .args(["-c", unshare])
            .arg(&cgroup)
            .arg(Path::new(source).join("crates/control/superfluid/tests/unit/boot.sh"))
            .args([
                given.path().as_os_str(),
                OsStr::new(source),
                OsStr::new(env!("CARGO_BIN_EXE_superfluid")),
            ])
            .args(further)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(given.path().join("boot.log")).expect("a file"))
            .spawn()
            .expect("bash");
        let mut machine = Machine { child, systemd: 0, cgroup, given };
        machine.wait("systemd runs", |machine| machine.find());
        machine.wait("it has booted", |machine| {
            machine.attempt("systemctl is-active --quiet test.target").is_ok()
        });
        machine
    }

    /// Looks for the first process of the namespaces, which has to be systemd already.
    fn find(&mut self) -> bool {
        let shell = self.child.id();
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap_or_default();
        let Some(first) = children.split_whitespace().next().and_then(|id| id.parse().ok()) else {
            return false;
        };
        self.systemd = first;
        fs::read_to_string(format!("/proc/{first}/comm")).is_ok_and(|name| name == "systemd\n")
    }

    /// Waits until a condition holds, for 20 s at most.
    pub fn wait(&mut self, what: &str, mut until: impl FnMut(&mut Machine) -> bool) {
        let began = Instant::now();
        while !until(self) {
            assert!(began.elapsed() < Duration::from_secs(20), "{what}: {}", self.logs());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Runs commands in it, as root; what they print, or what was wrong.
    pub fn attempt(&self, script: &str) -> Result<String, String> {
        let output = Command::new("timeout")
            .args(["--kill-after=1", "25", "nsenter", "--target", &self.systemd.to_string()])
            .args(["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--"])
            .args([
                "env",
                "-i",
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin",
                "HOME=/root",
                "LC_ALL=C.UTF-8",
            ])
            .args(["bash", "-euo", "pipefail", "-c", &format!("cd /run/given; {script}")])
            .stdin(Stdio::null())
            .output()
            .expect("nsenter");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            Ok(printed)
        } else {
            Err(format!("{script}\n{printed}{errors}{}", output.status))
        }
    }

    /// The same for what has to go well.
    pub fn run(&self, script: &str) -> String {
        self.attempt(script).unwrap_or_else(|failed| panic!("{failed}\n{}", self.logs()))
    }

    /// What was written down, to find out what went wrong.
    pub fn logs(&self) -> String {
        let mut text = String::new();
        for entry in fs::read_dir(self.given.path()).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|ending| ending == "log") {
                let log = fs::read_to_string(entry.path()).unwrap_or_default();
                text.push_str(&format!("\n{}:\n{log}", entry.path().display()));
            }
        }
        text
    }
}

fn given_name(given: &tempfile::TempDir) -> String {
    given.path().file_name().unwrap_or_default().to_string_lossy().trim_start_matches('.').to_owned()
}

/// Where cgroups of version 2 are, alone or beside those of version 1.
fn cgroup() -> PathBuf {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
    let found =
        mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|fields| fields[2] == "cgroup2");
    PathBuf::from(found.expect("a mounted cgroup2 file system, which systemd needs")[1])
}

impl Drop for Machine {
    fn drop(&mut self) {
        // With its first process the kernel ends all others of the machine, and with them go mounts and
        // interfaces.
        let _ = self.child.kill().and_then(|()| self.child.wait());
        let began = Instant::now();
        while remove(&self.cgroup).is_err() && began.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Removes a cgroup and those below.
fn remove(cgroup: &Path) -> std::io::Result<()> {
    for below in fs::read_dir(cgroup)?.flatten() {
        if below.path().is_dir() {
            remove(&below.path())?;
        }
    }
    fs::remove_dir(cgroup)
}
