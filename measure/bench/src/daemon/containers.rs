//! How soon a container answers: from the request for a function to the first packet that it answers, beside
//! what the runtime alone takes for the same container.
//!
//! Each run asks the daemon for a container that is wired to a port, asks it over that port each millisecond
//! until it answers, and deletes it; then the runtime creates and starts the same bundle by itself.

use super::{Daemon, TIME_LIMIT};
use crate::{BenchError, Measurement};
use api::Kind;
use client::Change;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};
use std::fs;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testbed::{Background, Namespace};

/// Starts of each kind, beside a first one that is not counted.
const STARTS: usize = 20;
const RUNTIME: &str = "/usr/sbin/runc";
pub(crate) const BUSYBOX: &str = "/bin/busybox";
/// Where packets come from, and the port's end.
const ASKING: &str = "sf-ask";
const PORT: &str = "sf-port";
pub(super) const OWN: &str = "192.0.2.9";
pub(super) const ASKED: &str = "192.0.2.1";
/// Nobody listens there: the kernel of the container answers that.
const CLOSED: u16 = 9;
/// How often it is asked.
const EACH: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
/// Longest time of one command of the runtime's or of `ip`.
const COMMAND: Duration = Duration::from_secs(20);

pub(crate) fn run(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    installed()?;
    let folder = Folder::make(&[(BUSYBOX.into(), "bin/sleep".into())])?;
    let Asking { namespace, daemon, _launcher } = Asking::begin(&folder)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for run in 0..=STARTS {
        progress(run as f64 / (STARTS + 1) as f64, "containers that are started");
        let began = Instant::now();
        let took = namespace.enter(|| first_answer(&daemon, &folder.0, began))?;
        if run == 0 {
            // Its neighbours know it from then on: its address is the same each time.
            keep_neighbour(&namespace)?;
            prepare_bundle(&folder.0)?;
        }
        daemon.client.delete(Kind::Function, "box", &Change::default()).map_err(BenchError::setup)?;
        until_gone(&folder.0)?;
        let alone = alone(&folder.0)?;
        if run > 0 {
            ours.push(took.as_secs_f64() * 1e3);
            theirs.push(alone.as_secs_f64() * 1e3);
        }
    }
    let ratios: Vec<f64> = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
    Ok(vec![
        Measurement::new("start-ratio", "x", &ratios),
        Measurement::new("start-ms", "ms", &ours),
        Measurement::new("runtime-ms", "ms", &theirs),
    ])
}

/// Says what is missing, if anything is.
pub(crate) fn installed() -> Result<(), BenchError> {
    match [RUNTIME, BUSYBOX].iter().find(|program| !Path::new(program).exists()) {
        Some(program) => {
            Err(BenchError::Setup(format!("there is no {program} (Debian: runc, busybox-static)")))
        }
        None => Ok(()),
    }
}

/// Where containers are asked from: a namespace with a launcher, and a daemon with the port `lan`, at whose
/// other end is [`OWN`].
pub(super) struct Asking {
    pub(super) daemon: Daemon,
    _launcher: Launcher,
    pub(super) namespace: Namespace,
}

impl Asking {
    pub(super) fn begin(folder: &Folder) -> Result<Asking, BenchError> {
        let namespace = Namespace::new().map_err(BenchError::setup)?;
        namespace.ip(&format!("link add {ASKING} type veth peer name {PORT}")).map_err(BenchError::setup)?;
        for line in [
            format!("link set {ASKING} up"),
            format!("link set {PORT} up"),
            format!("address add {OWN}/24 dev {ASKING}"),
        ] {
            namespace.ip(&line).map_err(BenchError::setup)?;
        }
        let program = crate::product::superfluid()?;
        let launcher = namespace.enter(|| Launcher::start(&program, &folder.0))?;
        let socket = folder.0.join("launcher.sock").display().to_string();
        let daemon =
            namespace.enter(|| Daemon::start_with(|_| Ok((vec!["--launcher".to_owned(), socket], None))))?;
        daemon.put(Kind::Port, "lan", &json!({"type": "af_packet", "interface": PORT}))?;
        Ok(Asking { daemon, _launcher: launcher, namespace })
    }
}

/// Asks for the container, and over the wire until it answers.
fn first_answer(daemon: &Daemon, folder: &Path, began: Instant) -> Result<Duration, BenchError> {
    let socket = UdpSocket::bind((OWN, 0)).map_err(BenchError::setup)?;
    socket.connect((ASKED, CLOSED)).map_err(BenchError::setup)?;
    socket.set_nonblocking(true).map_err(BenchError::setup)?;
    let spec = json!({
        "guest": "container", "image": folder.join("image"), "command": ["/bin/sleep", "100000"],
        "memory": "64MiB", "interfaces": {"in": {"addresses": [format!("{ASKED}/24")]}}, "attach": {"in": "lan"},
    });
    daemon.put(Kind::Function, "box", &spec)?;
    let mut answer = [0];
    loop {
        // A port without a peer loses it.
        let sent = socket.send(&[0]);
        // A time-out of the socket's would be one or two ticks of the kernel, 8 ms.
        let _ = poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&EACH));
        let heard = sent.and_then(|_| socket.recv(&mut answer));
        if heard.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused) {
            return Ok(began.elapsed());
        }
        if began.elapsed() > TIME_LIMIT {
            let status = daemon.status("box")?;
            return Err(BenchError::Setup(format!("the container does not answer: {:?}", status.reason)));
        }
    }
}

/// Writes down who is asked, so that no question for its address is waited for.
fn keep_neighbour(namespace: &Namespace) -> Result<(), BenchError> {
    let known = namespace.run(&format!("ip -j neigh show {ASKED}"), COMMAND).map_err(BenchError::setup)?;
    let known: Value = serde_json::from_str(&known.stdout).map_err(BenchError::setup)?;
    let mac = known[0]["lladdr"].as_str().unwrap_or_default();
    let line = format!("neigh replace {ASKED} lladdr {mac} dev {ASKING} nud permanent");
    namespace.ip(&line).map_err(BenchError::setup)
}

/// The bundle of the running container, for the runtime alone.
fn prepare_bundle(folder: &Path) -> Result<(), BenchError> {
    let text = fs::read_to_string(folder.join("run/guests/box/config.json")).map_err(BenchError::setup)?;
    let mut config: Value = serde_json::from_str(&text).map_err(BenchError::setup)?;
    config["linux"]["cgroupsPath"] = json!(format!("/{}-alone", group(folder)));
    let bundle = folder.join("alone");
    fs::create_dir(&bundle).map_err(BenchError::setup)?;
    fs::write(bundle.join("config.json"), config.to_string()).map_err(BenchError::setup)
}

/// What the runtime takes for the same by itself.
fn alone(folder: &Path) -> Result<Duration, BenchError> {
    let runtime = |arguments: &[&str]| -> Result<(), BenchError> {
        let mut command = Command::new(RUNTIME);
        command
            .arg("--root")
            .arg(folder.join("alone-state"))
            .args(arguments)
            .current_dir(folder.join("alone"));
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        match status.map_err(BenchError::setup)?.success() {
            true => Ok(()),
            false => Err(BenchError::Setup(format!("{RUNTIME} {}: failed", arguments.join(" ")))),
        }
    };
    let began = Instant::now();
    runtime(&["create", "alone"])?;
    runtime(&["start", "alone"])?;
    let took = began.elapsed();
    runtime(&["delete", "--force", "alone"])?;
    Ok(took)
}

/// Waits until the launcher has ended it.
fn until_gone(folder: &Path) -> Result<(), BenchError> {
    let began = Instant::now();
    while folder.join("run/runtime/box").exists() {
        if began.elapsed() > TIME_LIMIT {
            return Err(BenchError::Setup("the container does not end".to_owned()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// The group that the launcher's control groups are below.
pub(crate) fn group(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The folder of the launcher, with an image of a few files; it goes with this.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// `files`: of the host, by their paths in the image.
    pub(crate) fn make(files: &[(PathBuf, PathBuf)]) -> Result<Folder, BenchError> {
        let folder = Folder(std::env::temp_dir().join(format!("superfluid-bench-{}", std::process::id())));
        fs::create_dir(&folder.0).map_err(BenchError::setup)?;
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o711)).map_err(BenchError::setup)?;
        folder.image(files).map_err(BenchError::setup)?;
        let permits = format!(
            "superfluid_launcher: 1\nclients: [0]\ntenants: {{default: {{uids: 2100000000, images: ['{0}'], mounts: ['{0}']}}}}\n",
            folder.0.display()
        );
        fs::write(folder.0.join("launcher.yaml"), permits).map_err(BenchError::setup)?;
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// An OCI image layout with these files in it.
    fn image(&self, files: &[(PathBuf, PathBuf)]) -> std::io::Result<()> {
        let root = self.0.join("root");
        for name in ["bin", "dev", "proc", "sys", "tmp", "run"] {
            fs::create_dir_all(root.join(name))?;
        }
        for (from, to) in files {
            let to = root.join(to);
            fs::create_dir_all(to.parent().unwrap_or(&root))?;
            fs::copy(from, to)?;
        }
        let tar = Command::new("tar")
            .args(["--owner=0", "--group=0", "-cf", "-", "-C"])
            .arg(&root)
            .arg(".")
            .output()?;
        let blobs = self.0.join("image/blobs/sha256");
        fs::create_dir_all(&blobs)?;
        let blob = |kind: &str, bytes: &[u8]| -> std::io::Result<Value> {
            let digest = registry::Digest::of(bytes).to_string();
            fs::write(blobs.join(digest.trim_start_matches("sha256:")), bytes)?;
            Ok(
                json!({"mediaType": format!("application/vnd.oci.image.{kind}"), "digest": digest, "size": bytes.len()}),
            )
        };
        let layer = blob("layer.v1.tar", &tar.stdout)?;
        let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        let config = json!({"os": "linux", "architecture": architecture, "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}});
        let config = blob("config.v1+json", config.to_string().as_bytes())?;
        let manifest = json!({"schemaVersion": 2, "config": config, "layers": [layer]});
        let manifest = blob("manifest.v1+json", manifest.to_string().as_bytes())?;
        let index = json!({"schemaVersion": 2, "manifests": [manifest]});
        fs::write(self.0.join("image/index.json"), index.to_string())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is in the folder for what is temporary.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A launcher, which ends what it started when it is ended.
pub(crate) struct Launcher(Option<Background>);

impl Launcher {
    pub(crate) fn start(program: &Path, folder: &Path) -> Result<Launcher, BenchError> {
        let mut command = Command::new(program);
        command.arg("launcher").arg("--socket").arg(folder.join("launcher.sock"));
        command.arg("--permits").arg(folder.join("launcher.yaml")).arg("--state").arg(folder.join("state"));
        command.arg("--run").arg(folder.join("run")).arg("--cgroup").arg(group(folder));
        let launcher = Launcher(Some(Background::start(&mut command).map_err(BenchError::setup)?));
        let began = Instant::now();
        while !folder.join("launcher.sock").exists() {
            if began.elapsed() > TIME_LIMIT {
                return Err(BenchError::Setup("the launcher does not listen".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(launcher)
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        // One that does not end is killed.
        let _ = self.0.take().map(|launcher| launcher.interrupt(COMMAND));
    }
}
