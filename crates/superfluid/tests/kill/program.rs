//! The daemon's process, and a client that keeps its connection.

use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest time for anything.
const LIMIT: Duration = Duration::from_secs(30);

/// A daemon that runs, and ends with the test.
pub struct Daemon {
    child: Child,
    folder: PathBuf,
}

impl Daemon {
    /// One that answers.
    pub fn start(folder: &Path) -> Daemon {
        Daemon::listening(Daemon::spawn(folder))
    }

    /// One that has just been started.
    pub fn spawn(folder: &Path) -> Daemon {
        Daemon::spawn_with(Command::new(env!("CARGO_BIN_EXE_superfluid")), folder, &[])
    }

    /// One that a command starts, with more arguments.
    pub fn spawn_with(mut command: Command, folder: &Path, more: &[&str]) -> Daemon {
        let child = command
            .env("XDG_CACHE_HOME", std::env::temp_dir().join("superfluid-test-kill"))
            .args(["daemon", "--socket"])
            .arg(folder.join("s.sock"))
            .arg("--state")
            .arg(folder.join("state"))
            .args(more)
            .stdout(Stdio::piped())
            .stderr(File::create(folder.join("log")).expect("a file"))
            .spawn()
            .expect("the program starts");
        Daemon { child, folder: folder.to_owned() }
    }

    /// Waits until it answers.
    pub fn listening(mut self) -> Daemon {
        let began = Instant::now();
        while self.connect().is_none() {
            let ended = self.child.try_wait().expect("a child");
            let log = self.log();
            assert!(ended.is_none() && began.elapsed() < LIMIT, "it does not listen ({ended:?}): {log}");
            std::thread::sleep(Duration::from_millis(2));
        }
        self
    }

    /// A connection, if it listens.
    pub fn connect(&self) -> Option<Socket> {
        let stream = UnixStream::connect(self.folder.join("s.sock")).ok()?;
        stream.set_read_timeout(Some(LIMIT)).ok()?;
        Some(Socket { reader: BufReader::new(stream.try_clone().ok()?), stream })
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has said.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Ends it at once.
    pub fn kill(mut self) {
        self.child.kill().expect("a child");
        self.child.wait().expect("it ends");
    }

    /// Ends it in a while.
    pub fn kill_after(self, time: Duration) {
        std::thread::sleep(time);
        self.kill();
    }

    /// Waits until it ends by itself, which it has to do without success; what it said.
    pub fn fails(mut self) -> String {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                assert!(!status.success(), "{}", self.log());
                return self.log();
            }
            assert!(began.elapsed() < LIMIT, "it runs: {}", self.log());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends it as an operator does; what it printed.
    pub fn end(mut self) -> String {
        let pid = rustix::process::Pid::from_raw(self.child.id() as i32).expect("a process");
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        let status = self.child.wait().expect("it ends");
        let mut printed = String::new();
        self.child.stdout.take().expect("piped").read_to_string(&mut printed).expect("text");
        assert!(status.success(), "{status}: {printed} {}", self.log());
        printed
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // One that has ended needs no end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection to a daemon.
pub struct Socket {
    stream: UnixStream,
    reader: BufReader<UnixStream>,
}

impl Socket {
    /// What it answers; `None`: it is gone.
    pub fn ask(&mut self, method: &str, path: &str, body: Option<&Value>) -> Option<(u16, Value)> {
        let (status, body) = self.exchange(method, path, body)?;
        Some((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
    }

    fn exchange(&mut self, method: &str, path: &str, body: Option<&Value>) -> Option<(u16, Vec<u8>)> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.write_all(head.as_bytes()).ok()?;
        let (mut status, mut length) = (None, 0);
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(rest) = line.strip_prefix("http/1.1 ") {
                status = rest.get(..3).and_then(|status| status.parse().ok());
            } else if let Some(rest) = line.strip_prefix("content-length:") {
                length = rest.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body).ok()?;
        Some((status?, body))
    }

    /// What is there.
    pub fn get(&mut self, path: &str) -> Value {
        let (status, answer) = self.ask("GET", path, None).expect("it answers");
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    /// The text that is there.
    pub fn text(&mut self, path: &str) -> Vec<u8> {
        let (status, answer) = self.exchange("GET", path, None).expect("it answers");
        assert_eq!(status, 200, "{path}");
        answer
    }

    /// Does what has to be done.
    pub fn done(&mut self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let (status, answer) = self.ask(method, path, body).expect("it answers");
        assert!(matches!(status, 200..=204), "{method} {path}: {status} {answer}");
        answer
    }
}
