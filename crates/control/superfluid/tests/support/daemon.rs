//! The daemon's process.

use super::cache::compiled;
use super::commands::{Commands, PROGRAM};
use super::http::{self, Socket};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::ops::Deref;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Its socket, in its folder.
pub const SOCKET: &str = "s.sock";

/// How a daemon is to be.
#[derive(Clone)]
pub struct Options {
    folder: PathBuf,
    launcher: Vec<OsString>,
    tenants_socket: Option<&'static str>,
    state: String,
    cache: PathBuf,
    more: Vec<String>,
    limit: Duration,
}

impl Options {
    /// In a folder: its socket, its state, what it compiled, and what it says in the file `log`.
    pub fn new(folder: &Path) -> Options {
        Options {
            folder: folder.to_owned(),
            launcher: vec![PROGRAM.into()],
            tenants_socket: None,
            state: "state".to_owned(),
            cache: folder.join("cache"),
            more: Vec::new(),
            limit: Duration::from_secs(30),
        }
    }

    /// A command that becomes the daemon; the program's path and its arguments are put behind.
    pub fn launcher(mut self, command: impl IntoIterator<Item = impl Into<OsString>>) -> Options {
        self.launcher = command.into_iter().map(Into::into).chain([PROGRAM.into()]).collect();
        self
    }

    /// A socket for tenants as well.
    pub fn tenants_socket(mut self, name: &'static str) -> Options {
        self.tenants_socket = Some(name);
        self
    }

    /// Another place in the folder for what is kept.
    pub fn state(mut self, state: &str) -> Options {
        state.clone_into(&mut self.state);
        self
    }

    /// What is compiled is kept in [`compiled`], not in the daemon's folder.
    pub fn shared_cache(mut self) -> Options {
        compiled().clone_into(&mut self.cache);
        self
    }

    /// More arguments.
    pub fn arguments(mut self, arguments: impl IntoIterator<Item = impl Into<String>>) -> Options {
        self.more.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Longest time until it listens, and for what is waited for.
    pub fn limit(mut self, limit: Duration) -> Options {
        self.limit = limit;
        self
    }

    /// One that listens.
    pub fn start(&self) -> Daemon {
        self.spawn().listening()
    }

    /// One that has just been started.
    pub fn spawn(&self) -> Daemon {
        let mut command = Command::new(&self.launcher[0]);
        command
            .args(&self.launcher[1..])
            .args(["daemon", "--socket", SOCKET, "--state", &self.state])
            .args(self.tenants_socket.map(|name| ["--tenants-socket", name]).into_iter().flatten())
            .args(&self.more)
            .current_dir(&self.folder)
            .env("XDG_CACHE_HOME", &self.cache)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(self.folder.join("log")).expect("a file"));
        let commands = Commands::new(&self.folder).asking(SOCKET).variable("XDG_CACHE_HOME", &self.cache);
        let child = testbed::start(&mut command).expect("the program starts");
        Daemon { child, options: self.clone(), commands }
    }
}

/// A daemon that ends with the test, however that ends; commands that ask it.
pub struct Daemon {
    child: Child,
    options: Options,
    commands: Commands,
}

impl Daemon {
    /// Waits until it listens.
    fn listening(mut self) -> Daemon {
        let began = Instant::now();
        for name in [SOCKET].into_iter().chain(self.options.tenants_socket) {
            while UnixStream::connect(self.path(name)).is_err() {
                let ended = self.child.try_wait().expect("a child");
                let in_time = ended.is_none() && began.elapsed() < self.options.limit;
                assert!(in_time, "it does not listen ({ended:?}): {}", self.log());
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        self
    }

    /// Waits until a condition holds.
    #[track_caller]
    pub fn wait(&self, what: &str, mut until: impl FnMut() -> bool) {
        let began = Instant::now();
        while !until() {
            assert!(began.elapsed() < self.options.limit, "{what}: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// A connection that is kept.
    pub fn connect(&self) -> Socket {
        Socket::connect(&self.path(SOCKET)).expect("it listens")
    }

    fn exchange(&self, method: &str, path: &str, body: Option<Value>) -> (u16, String) {
        http::exchange(&self.path(SOCKET), None, method, path, body.as_ref())
    }

    /// What it answers.
    pub fn ask(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let (status, answer) = self.exchange(method, path, body);
        (status, serde_json::from_str(&answer).unwrap_or(Value::Null))
    }

    /// The text that is there.
    #[track_caller]
    pub fn text(&self, path: &str) -> String {
        let (status, answer) = self.exchange("GET", path, None);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    /// What is there.
    #[track_caller]
    pub fn get(&self, path: &str) -> Value {
        let (status, answer) = self.ask("GET", path, None);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    /// Has an object as it is to be, and waits until it is there.
    #[track_caller]
    pub fn put(&self, path: &str, spec: Value) -> Value {
        let (status, answer) = self.ask("PUT", &format!("{path}?wait=true"), Some(json!({"spec": spec})));
        assert!(matches!(status, 200 | 201), "{path}: {status} {answer}");
        answer
    }

    /// Does what has to be done.
    #[track_caller]
    pub fn post(&self, path: &str, body: Option<Value>) -> Value {
        let (status, answer) = self.ask("POST", path, body);
        assert!(matches!(status, 200..=204), "{path}: {status} {answer}");
        answer
    }

    /// Ends it as an operator does; what it printed.
    pub fn end(self) -> String {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a process");
        kill_process(pid, Signal::TERM).expect("it runs");
        self.ended()
    }

    /// Waits until it has ended, which was asked for; what it printed.
    pub fn ended(mut self) -> String {
        let mut printed = String::new();
        self.child.stdout.take().expect("piped").read_to_string(&mut printed).expect("text");
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}: {printed} {}", self.log());
        printed
    }

    /// Ends it as a fault does; how to start it again.
    pub fn kill(mut self) -> Options {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
        self.options.clone()
    }

    /// The next one, after a kill.
    pub fn again(self) -> Daemon {
        self.kill().start()
    }

    /// Waits until it listens; what it said, if it ends instead, which it has to do without success.
    pub fn listens(mut self) -> Result<Daemon, String> {
        let began = Instant::now();
        while UnixStream::connect(self.path(SOCKET)).is_err() {
            if let Some(status) = self.child.try_wait().expect("a child") {
                assert!(!status.success(), "{}", self.log());
                return Err(self.log());
            }
            assert!(began.elapsed() < self.options.limit, "it does neither: {}", self.log());
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(self)
    }

    /// Waits until it ends by itself, which it has to do without success; what it said.
    pub fn fails(mut self) -> String {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                assert!(!status.success(), "{}", self.log());
                return self.log();
            }
            assert!(began.elapsed() < self.options.limit, "it runs: {}", self.log());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Deref for Daemon {
    type Target = Commands;

    fn deref(&self) -> &Commands {
        &self.commands
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // One that has ended needs no end.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}
