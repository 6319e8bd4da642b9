//! The daemon as its clients see it: a process of its own with its own socket and state, asked over HTTP, one
//! question after the other.

pub(crate) mod changes;
pub(crate) mod churn;
pub(crate) mod clones;
pub(crate) mod containers;
pub(crate) mod create;
pub(crate) mod density;
pub(crate) mod hostile;
pub(crate) mod layer_seven;
pub(crate) mod page;
pub(crate) mod pause;
pub(crate) mod upgrade;

use crate::BenchError;
use api::{FunctionStatus, Kind};
use client::{Address, Answer, Change, Client, Settings, Written};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Longest time that anything of the daemon is waited for.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Functions of one switch.
pub(crate) const PER_SWITCH: usize = 250;

/// A daemon, and a client of it. It ends with this.
pub(crate) struct Daemon {
    child: Child,
    folder: PathBuf,
    /// What it is started with, beside its socket and its state.
    arguments: Vec<String>,
    /// Where it listens on TCP, if it does.
    tcp: SocketAddr,
    pub(crate) client: Client,
}

impl Daemon {
    /// Starts one with an empty store.
    pub(crate) fn start() -> Result<Daemon, BenchError> {
        Daemon::start_with(|_| Ok((Vec::new(), None)))
    }

    /// The same with more arguments, and the address of its TCP socket, which are told from its folder.
    pub(crate) fn start_with(
        arguments: impl FnOnce(&Path) -> Result<(Vec<String>, Option<SocketAddr>), BenchError>,
    ) -> Result<Daemon, BenchError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("superfluid-bench-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).map_err(BenchError::setup)?;
        let (arguments, tcp) = arguments(&folder)?;
        let child = spawn(&folder, &arguments)?;
        let settings = Settings::new(Address::Unix(folder.join("socket")));
        let client = Client::new(settings).map_err(BenchError::setup)?;
        let tcp = tcp.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)));
        let daemon = Daemon { child, folder, arguments, tcp, client };
        daemon.answers()?;
        Ok(daemon)
    }

    /// Ends it and starts it again, with the objects that it has.
    pub(crate) fn restart(&mut self) -> Result<(), BenchError> {
        let number = rustix::process::Pid::from_child(&self.child);
        let signal = rustix::process::Signal::TERM;
        rustix::process::kill_process(number, signal).map_err(BenchError::setup)?;
        self.child.wait().map_err(BenchError::setup)?;
        self.child = spawn(&self.folder, &self.arguments)?;
        self.answers()
    }

    fn answers(&self) -> Result<(), BenchError> {
        let began = Instant::now();
        while let Err(error) = self.client.health() {
            if began.elapsed() > TIME_LIMIT {
                return Err(BenchError::Setup(format!(
                    "the daemon does not answer: {error}; {}",
                    self.log()
                )));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default().trim().to_owned()
    }

    /// The folder of its state and of whatever a bench puts there.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The administrators' socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// The tenants' socket, where it was started with one.
    pub(crate) fn tenants_socket(&self) -> PathBuf {
        self.folder.join("tenants")
    }

    /// Where it listens on TCP, where it was started so.
    pub(crate) fn tcp(&self) -> SocketAddr {
        self.tcp
    }

    /// Creates an object, and waits until it is there.
    pub(crate) fn put(&self, kind: Kind, name: &str, spec: &Value) -> Result<Written, BenchError> {
        match self.client.put(kind, name, spec, &Change::default()).map_err(BenchError::setup)? {
            Answer::Done(written) => Ok(written),
            Answer::Later(operation) => {
                self.client.wait_for(*operation, TIME_LIMIT, |_| {}).map_err(BenchError::setup)?;
                let object = self.client.object(kind, name).map_err(BenchError::setup)?;
                Ok(Written { object, created: true, steps: Vec::new() })
            }
        }
    }

    /// Makes what there is what a document says.
    pub(crate) fn apply(&self, document: &Value) -> Result<(), BenchError> {
        match self.client.apply(document, false, &Change::default()).map_err(BenchError::setup)? {
            Answer::Done(_) => Ok(()),
            Answer::Later(operation) => {
                self.client.wait_for(*operation, TIME_LIMIT, |_| {}).map(drop).map_err(BenchError::setup)
            }
        }
    }

    /// How a function is.
    pub(crate) fn status(&self, function: &str) -> Result<FunctionStatus, BenchError> {
        let object = self.client.object(Kind::Function, function).map_err(BenchError::setup)?;
        let status = object.status.ok_or_else(|| BenchError::Setup(format!("`{function}` has no status")))?;
        serde_json::from_value(status).map_err(BenchError::setup)
    }

    /// Switches for so many functions, and a first function, so that the image has been compiled.
    pub(crate) fn halls(&self, functions: usize) -> Result<(), BenchError> {
        for hall in 0..=functions.div_ceil(PER_SWITCH) {
            self.put(Kind::Switch, &format!("hall{hall}"), &json!({}))?;
        }
        self.put(Kind::Function, "first", &spec(0)).map(drop)
    }

    /// A row of `/proc/PID/FILE`, in KiB.
    pub(crate) fn kib(&self, row: &str) -> Result<f64, BenchError> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).map_err(BenchError::setup)?;
        let line = status.lines().find_map(|line| line.strip_prefix(row)?.strip_prefix(':'));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse().ok());
        kib.ok_or_else(|| BenchError::Setup(format!("/proc/PID/status lacks {row}")))
    }

    /// Pages that functions with shared memory have written, in KiB, as the kernel counts them.
    pub(crate) fn written_by_clones_kib(&self) -> Result<f64, BenchError> {
        let path = format!("/proc/{}/smaps", self.child.id());
        let maps = std::fs::read_to_string(path).map_err(BenchError::setup)?;
        let (mut inside, mut sum) = (false, 0);
        for line in maps.lines() {
            if line.contains("superfluid-clones:") {
                inside = true;
            } else if line.starts_with("VmFlags:") {
                inside = false;
            } else if inside && let Some(rest) = line.strip_prefix("Anonymous:") {
                sum += rest.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap_or(0);
            }
        }
        Ok(sum as f64)
    }

    /// Its threads: their numbers and names.
    pub(crate) fn threads(&self) -> Result<Vec<(String, String)>, BenchError> {
        let tasks =
            std::fs::read_dir(format!("/proc/{}/task", self.child.id())).map_err(BenchError::setup)?;
        let thread = |task: std::io::Result<std::fs::DirEntry>| {
            let task = task.map_err(BenchError::setup)?;
            let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            Ok((task.file_name().to_string_lossy().into_owned(), name.trim().to_owned()))
        };
        tasks.map(thread).collect()
    }

    /// Processor time that it has used so far.
    pub(crate) fn processor_time(&self) -> Result<Duration, BenchError> {
        self.time_of(|_| true)
    }

    /// The same of its threads beside the workers and those of ports. What threads have used that have ended
    /// is not in it.
    pub(crate) fn beside_workers(&self) -> Result<Duration, BenchError> {
        self.time_of(|name| {
            !["worker", "native", "memif", "vhost-user"].iter().any(|other| name.starts_with(other))
        })
    }

    /// The same of threads by their names.
    pub(crate) fn time_of(&self, counts: impl Fn(&str) -> bool) -> Result<Duration, BenchError> {
        let mut sum = 0;
        for (thread, _) in self.threads()?.iter().filter(|(_, name)| counts(name)) {
            let path = format!("/proc/{}/task/{thread}/schedstat", self.child.id());
            let text = std::fs::read_to_string(path).unwrap_or_default();
            sum += text.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
        }
        if sum == 0 {
            let path = format!("/proc/{}/task", self.child.id());
            return Err(BenchError::Setup(format!("{path}: no processor time")));
        }
        Ok(Duration::from_nanos(sum))
    }
}

fn spawn(folder: &Path, arguments: &[String]) -> Result<Child, BenchError> {
    let program = crate::product::superfluid()?;
    let log = std::fs::File::create(folder.join("log")).map_err(BenchError::setup)?;
    let child = Command::new(program)
        .args(["daemon", "--socket"])
        .arg(folder.join("socket"))
        .arg("--state")
        .arg(folder.join("state"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn();
    child.map_err(BenchError::setup)
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // What cannot be removed is in the folder for what is temporary.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A forwarder, with one interface plugged into a switch that it shares with others.
pub(crate) fn spec(number: usize) -> Value {
    json!({"image": "forwarder", "attach": {"left": format!("hall{}", number / PER_SWITCH)}})
}

/// Microseconds that something takes.
pub(crate) fn timed<T>(deed: impl FnOnce() -> Result<T, BenchError>) -> Result<f64, BenchError> {
    let began = Instant::now();
    deed()?;
    Ok(began.elapsed().as_nanos() as f64 / 1e3)
}
