//! A launcher in a process of its own, and an image made of this machine's busybox.

use launcher::{
    Answer, Guest, GuestKind, KvmUse, Launcher, Limits, List, Listed, Request, Settings, Start, State, Stop,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Names the folder of the launcher that this test executable is to be.
const FOLDER: &str = "SUPERFLUID_TEST_LAUNCHER";
const BUSYBOX: &str = "/bin/busybox";
/// The host's first user of the tenant `blue`.
pub const UIDS: u32 = 2_000_000_000;
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// The runtimes that a launcher starts containers by.
pub const RUNTIMES: [&str; 2] = ["runc", "crun"];

pub fn is_there(program: &str) -> bool {
    ["/usr/sbin", "/usr/bin"].iter().any(|it| Path::new(it).join(program).exists())
}

/// Runs what it is given where version 1 of control groups is seen alone, if version 2 has controllers beside
/// it, which crun refuses.
const WITHOUT_UNIFIED_HIERARCHY: &str = "
    if [ -e /sys/fs/cgroup/unified/cgroup.controllers ]; then
        all=$(mktemp -d) && mount -t tmpfs none $all || exit 1
        for it in $(ls /sys/fs/cgroup); do
            [ $it = unified ] || { mkdir $all/$it && mount --bind /sys/fs/cgroup/$it $all/$it; } || exit 1
        done
        mount --move $all /sys/fs/cgroup && rmdir $all || exit 1
    fi
    exec \"$0\" \"$@\"";

/// What this machine lacks, if it lacks something.
pub fn missing() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("root, whose right it is to make users' namespaces with ranges of users");
    }
    if !is_there("runc") {
        return Some("runc (Debian: runc)");
    }
    (!Path::new(BUSYBOX).exists()).then_some("busybox (Debian: busybox-static)")
}

/// Whether a process runs. One whose launcher was killed may wait for its new parent to take note of its end.
pub fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, behind)| !behind.starts_with('Z')))
}

/// A child of a process, as soon as it has one.
pub fn child(of: u32) -> u32 {
    let is_child = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Behind the name, which may have anything in it: the state, and the parent.
        let parent = stat.rsplit_once(") ").and_then(|(_, behind)| behind.split(' ').nth(1)?.parse().ok());
        parent == Some(of)
    };
    let begin = Instant::now();
    loop {
        let entries = std::fs::read_dir("/proc").expect("processes").flatten();
        let found = entries.filter_map(|it| it.file_name().to_str()?.parse().ok()).find(is_child);
        match found {
            Some(pid) => return pid,
            None => assert!(begin.elapsed() < TIME_LIMIT, "it has no child"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Is the launcher, where the test executable was started for that; else does nothing.
pub fn be_launcher() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    // With a test that is killed it ends, and its guests with it.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
        .expect("a valid signal");
    let served = launcher::serve(&settings(Path::new(&folder)));
    std::process::exit(i32::from(served.inspect_err(|error| eprintln!("{error}")).is_err()));
}

fn settings(folder: &Path) -> Settings {
    Settings {
        permits: folder.join("launcher.yaml"),
        socket: folder.join("run/launcher.sock"),
        state: folder.join("state"),
        run: folder.join("run"),
        sockets: folder.join("guests"),
        qemu: folder.join("qemu"),
        group: folder.file_name().expect("a name").to_string_lossy().into_owned(),
        ..Settings::default()
    }
}

/// A launcher and its files.
pub struct Host {
    folder: TempDir,
    /// A folder of programs; in `/tmp` guests have files of their own.
    programs: TempDir,
    runtime: &'static str,
    process: Child,
}

impl Host {
    /// Starts one for the tenant `blue`, with the image `busybox` and a runtime.
    pub fn new(runtime: &'static str) -> Host {
        let folder = tempfile::Builder::new().prefix("superfluid-test-").tempdir().expect("a folder");
        // Tenants' users pass through it.
        Command::new("chmod").arg("711").arg(folder.path()).status().expect("chmod");
        let programs = tempfile::Builder::new().prefix("superfluid-test-").tempdir_in("/var/tmp");
        let programs = programs.expect("a folder");
        Command::new("chmod").arg("755").arg(programs.path()).status().expect("chmod");
        std::fs::copy(BUSYBOX, programs.path().join("busybox")).expect("copied");
        let root = folder.path().display();
        let text = format!(
            "superfluid_launcher: 1\nclients: [998]\nruntime: {root}/runtime\ntenants:\n  blue: {{uids: {UIDS}, images: \
             [{root}/images], mounts: [{root}/files], programs: [/usr, {}], kvm: true, guests: 2}}\n  green: {{uids: {}, \
             images: [{root}/images], memory: 16MiB}}\n",
            programs.path().display(),
            UIDS + 65_536
        );
        // Changes limits and runs programs of probes only when the file `held` is gone, and says that it
        // would; runs none where there is `hangs`.
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *' update '*|*' exec '*) if [ -e {root}/held ]; then touch {root}/updating; while [ -e \
             {root}/held ]; do sleep 0.01; done; fi;; esac\ncase \"$*\" in *' exec '*) if [ -e {root}/hangs ]; then exec sleep \
             1000; fi;; esac\nexec {runtime} \"$@\"\n"
        );
        std::fs::write(folder.path().join("runtime"), script).expect("written");
        Command::new("chmod").arg("755").arg(folder.path().join("runtime")).status().expect("chmod");
        std::fs::write(folder.path().join("launcher.yaml"), text).expect("written");
        std::fs::create_dir(folder.path().join("files")).expect("made");
        image(&folder.path().join("images/busybox"));
        // Says that KVM runs guests, as the machine does that finds it out.
        let qemu = folder.path().join("qemu");
        std::fs::write(&qemu, "#!/bin/sh\nexit 99\n").expect("written");
        Command::new("chmod").arg("755").arg(&qemu).status().expect("chmod");
        let process = run(folder.path(), runtime);
        Host { folder, programs, runtime, process }
    }

    /// A path below the host's folder.
    pub fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    /// The control group that guests' are below.
    pub fn group(&self) -> String {
        settings(self.folder.path()).group
    }

    /// A guest that runs this line of the shell.
    pub fn guest(&self, name: &str, line: &str) -> Start {
        Start {
            name: name.into(),
            tenant: "blue".into(),
            guest: GuestKind::Container,
            sockets_of: None,
            image: self.path("images/busybox").display().to_string(),
            digest: None,
            command: ["/bin/sh", "-c", line].map(str::to_owned).into(),
            interfaces: Vec::new(),
            mounts: Default::default(),
            limits: Limits { memory: 32 << 20, weight: 100, cap: Some(500), processes: 16, files: 64 },
            beside: None,
            kvm: KvmUse::No,
            probe: None,
            mark: None,
        }
    }

    /// A guest that is a program of the host, and runs this line of the shell.
    pub fn program(&self, name: &str, line: &str) -> Start {
        let shell = self.programs.path().join("busybox").display().to_string();
        Start {
            guest: GuestKind::Program,
            image: String::new(),
            command: [&shell, "sh", "-c", line].map(|it| it.to_owned()).into(),
            ..self.guest(name, line)
        }
    }

    /// Asks the launcher.
    pub fn ask(&self, request: Request) -> Answer {
        let mut launcher = Launcher::connect(&self.path("run/launcher.sock")).expect("a launcher");
        launcher.ask(&request).expect("an answer")
    }

    /// Starts a guest.
    pub fn start(&self, start: Start) {
        assert_eq!(self.ask(Request::Start(Box::new(start))), Answer::Done);
    }

    /// What the launcher says of a changed guest that it refuses.
    pub fn ask_refused(&self, change: impl FnOnce(&mut Start)) -> String {
        let mut start = self.guest("one", "sleep 1000");
        change(&mut start);
        match self.ask(Request::Start(Box::new(start))) {
            Answer::Refused(why) => why,
            other => panic!("{other:?}"),
        }
    }

    /// Ends a guest.
    pub fn stop(&self, name: &str) -> Answer {
        self.ask(Request::Stop(Stop { name: name.into(), grace_ms: 0 }))
    }

    /// All guests, with the log of `one`.
    pub fn list(&self) -> Listed {
        match self.ask(Request::List(List { log_of: Some("one".into()), ..List::default() })) {
            Answer::Guests(listed) => listed,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until a guest is so.
    pub fn await_guest(&self, name: &str, is_so: impl Fn(&Guest) -> bool) -> Guest {
        let begin = Instant::now();
        loop {
            let found = self.list().guests.into_iter().find(|guest| guest.name == name).expect("a guest");
            if is_so(&found) {
                return found;
            }
            assert!(begin.elapsed() < TIME_LIMIT, "{found:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Its first process.
    pub fn pid(&self, name: &str) -> u32 {
        let guest = self.await_guest(name, |guest| matches!(guest.state, State::Running { .. }));
        match guest.state {
            State::Running { pid } => pid,
            other => panic!("{other:?}"),
        }
    }

    /// Kills the launcher and starts another.
    pub fn replace(&mut self) {
        self.process.kill().expect("killed");
        self.process.wait().expect("ended");
        self.process = run(self.folder.path(), self.runtime);
    }

    /// Ends the launcher as a service manager does.
    pub fn end(&mut self) {
        let ended = Command::new("kill").arg(self.process.id().to_string()).status().expect("kill");
        assert!(ended.success());
        assert!(self.process.wait().expect("ended").success());
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            self.end();
        }
    }
}

fn run(folder: &Path, runtime: &str) -> Child {
    let this = std::env::current_exe().expect("this program");
    let mut command = Command::new(if runtime == "crun" { Path::new("unshare") } else { &this });
    if runtime == "crun" {
        command.args(["--mount", "sh", "-c", WITHOUT_UNIFIED_HIERARCHY]).arg(&this);
    }
    command.args(["--exact", "serves", "--nocapture"]).env(FOLDER, folder).stdout(Stdio::null());
    let child = command.spawn().expect("a process");
    let begin = Instant::now();
    while Launcher::connect(&folder.join("run/launcher.sock")).is_err() {
        assert!(begin.elapsed() < TIME_LIMIT, "the launcher does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

/// An OCI image layout with busybox in it.
fn image(layout: &Path) {
    let blobs = layout.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).expect("made");
    let mut layer = tar::Builder::new(Vec::new());
    let mut put = |kind: tar::EntryType, name: &str, to: &str, content: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o755);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(content.len() as u64);
        if !to.is_empty() {
            header.set_link_name(to).expect("a name");
        }
        layer.append_data(&mut header, name, content).expect("appended");
    };
    let busybox = std::fs::read(BUSYBOX).expect("busybox");
    put(tar::EntryType::Regular, "bin/busybox", "", &busybox);
    for tool in
        ["sh", "cat", "grep", "id", "ls", "mount", "sleep", "touch", "yes", "nc", "head", "kill", "test"]
    {
        put(tar::EntryType::Symlink, &format!("bin/{tool}"), "busybox", b"");
    }
    for folder in ["etc", "dev", "proc", "sys", "tmp", "run"] {
        put(tar::EntryType::Directory, folder, "", b"");
    }
    let layer = layer.into_inner().expect("a layer");
    let blob = |kind: &str, bytes: &[u8]| -> Value {
        let digits: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        std::fs::write(blobs.join(&digits), bytes).expect("written");
        json!({"mediaType": format!("application/vnd.oci.image.{kind}"), "digest": format!("sha256:{digits}"), "size": bytes.len()})
    };
    let layer = blob("layer.v1.tar", &layer);
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let config = json!({"os": "linux", "architecture": architecture, "config": {"Cmd": ["/bin/sleep", "1000"]},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}});
    let config = blob("config.v1+json", config.to_string().as_bytes());
    let manifest = json!({"schemaVersion": 2, "config": config, "layers": [layer]});
    let manifest = blob("manifest.v1+json", manifest.to_string().as_bytes());
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    std::fs::write(layout.join("index.json"), index.to_string()).expect("written");
}
