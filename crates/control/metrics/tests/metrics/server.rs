//! A Prometheus of a test's own, and what it scrapes.

use metrics::Notation;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long to wait for what must come.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Ends the test because a program is not installed.
pub fn missing(program: &str, package: &str, error: &std::io::Error) -> ! {
    panic!("{program} cannot be run ({error}); install the package `{package}`, or run scripts/setup test")
}

/// Answers requests with what `text` makes of their paths, one request a connection, until the test's process
/// ends.
pub fn serve(text: impl Fn(&str) -> (Notation, String) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        // A scraper that goes away is not the test's concern; one that misses something is.
        listener.incoming().flatten().for_each(|stream| {
            let _ = answer(stream, &text);
        });
    });
    address
}

fn answer(mut stream: TcpStream, text: &impl Fn(&str) -> (Notation, String)) -> std::io::Result<()> {
    stream.set_read_timeout(Some(LIMIT))?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let (notation, text) = text(request.split(' ').nth(1).unwrap_or_default());
    let (length, kind) = (text.len(), notation.content_type());
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n")?;
    write!(stream, "Connection: close\r\n\r\n{text}")
}

/// One that runs until it is dropped, or this test ends in whatever way.
pub struct Prometheus {
    process: Child,
    address: String,
    _folder: TempDir,
}

impl Prometheus {
    /// One with this configuration, which may name a file of `rules` as `rules.yml`.
    pub fn start(config: &str, rules: &str) -> Prometheus {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("prometheus.yml");
        std::fs::write(&path, config).expect("written");
        std::fs::write(folder.path().join("rules.yml"), rules).expect("written");
        let mut process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "prometheus", "--web.listen-address=127.0.0.1:0"])
            .arg(format!("--config.file={}", path.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| missing("setpriv", "util-linux", &error));
        let log = process.stderr.take().expect("piped");
        let (sender, receiver) = mpsc::channel();
        // Reads to the end, so that Prometheus never waits for its log.
        thread::spawn(move || {
            let mut all = String::new();
            for line in BufReader::new(log).lines().map_while(Result::ok) {
                if let Some((_, address)) = line.split_once("msg=\"Listening on\" address=") {
                    let _ = sender.send(Ok(address.to_owned()));
                }
                all.push_str(&line);
                all.push('\n');
            }
            let _ = sender.send(Err(all));
        });
        let address = match receiver.recv_timeout(LIMIT) {
            Ok(Ok(address)) => address,
            said => {
                let _ = process.kill();
                let _ = process.wait();
                panic!(
                    "prometheus does not listen; install the package `prometheus`, or run scripts/setup test: {said:?}"
                )
            }
        };
        Prometheus { process, address, _folder: folder }
    }

    /// `data` of what it answers; `None` while it is not ready.
    pub fn ask(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a socket");
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        head.contains(" 200 ").then(|| serde_json::from_str::<Value>(body).expect("JSON")["data"].take())
    }

    /// What it answers to a question in its language, if that is in order.
    pub fn query(&self, query: &str) -> Option<Value> {
        self.ask(&question(query))
    }

    /// Asks until `found` finds what it looks for in `data` of the answer.
    pub fn wait<T>(&self, path: &str, limit: Duration, mut found: impl FnMut(&Value) -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            let data = self.ask(path).unwrap_or_default();
            if let Some(found) = found(&data) {
                return found;
            }
            assert!(begin.elapsed() < limit, "{path} still answers {data:#}");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The path at which a question in its language is answered.
pub fn question(query: &str) -> String {
    let spelled: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
    format!("/api/v1/query?query={spelled}")
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
