//! What a balancer of HTTP in a container takes of memory: haproxy alone, and for each connection that is
//! open through it.
//!
//! A connection is a client's and the one to a server that belongs to it, with a request under way that the
//! server has not answered yet. What is counted is what the daemon tells of the container, which is what its
//! control group has: the kernel's memory for its sockets among it.

use super::TIME_LIMIT;
use super::containers::{ASKED, Asking, Folder, OWN};
use crate::{BenchError, Measurement};
use api::Kind;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const HAPROXY: &str = "/usr/sbin/haproxy";
const RUNTIME: &str = "/usr/sbin/runc";
const NAME: &str = "balancer";
/// Where haproxy finds its server.
const SERVER: u16 = 8080;
/// Connections in one round, and rounds, each with a container of its own.
const CONNECTIONS: usize = 1000;
const ROUNDS: usize = 3;
/// So long memory is looked at until it stays.
const LOOK: Duration = Duration::from_millis(600);
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: l7.example\r\n\r\n";

pub(crate) fn run(progress: &mut dyn FnMut(f64, &str)) -> Result<Vec<Measurement>, BenchError> {
    for program in [RUNTIME, HAPROXY] {
        if !Path::new(program).exists() {
            return Err(BenchError::Setup(format!("there is no {program} (Debian: runc, haproxy)")));
        }
    }
    let limit = getrlimit(Resource::Nofile);
    // Both ends of all connections are this process's.
    let wanted = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, wanted).map_err(BenchError::setup)?;
    let folder = Folder::make(&files()?)?;
    let text = format!(
        "global\n nbthread 1\n maxconn {}\ndefaults\n mode http\n timeout connect 20s\n timeout client 300s\n timeout \
         server 300s\nfrontend web\n bind {ASKED}:80\n default_backend pages\nbackend pages\n balance leastconn\n \
         server p1 {OWN}:{SERVER}\n",
        2 * CONNECTIONS
    );
    fs::write(folder.path().join("l7.cfg"), text).map_err(BenchError::setup)?;
    let asking = Asking::begin(&folder)?;
    let (mut base, mut each) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        progress(round as f64 / ROUNDS as f64, "connections through haproxy in a container");
        let (alone, loaded) = asking.namespace.enter(|| one(&asking, folder.path()))?;
        base.push(alone as f64 / f64::from(1 << 20));
        each.push(loaded.saturating_sub(alone) as f64 / CONNECTIONS as f64 / 1024.0);
    }
    Ok(vec![Measurement::new("base-mib", "MiB", &base), Measurement::new("connection-kib", "KiB", &each)])
}

/// Bytes of a container without connections, and with all of them.
fn one(asking: &Asking, folder: &Path) -> Result<(u64, u64), BenchError> {
    let listener = TcpListener::bind((OWN, SERVER)).map_err(BenchError::setup)?;
    let spec = json!({
        "guest": "container", "image": folder.join("image"), "command": [HAPROXY, "-db", "-f", "/etc/l7.cfg"],
        "mounts": {"/etc/l7.cfg": folder.join("l7.cfg")}, "memory": "256MiB", "files": 16384,
        "interfaces": {"in": {"addresses": [format!("{ASKED}/24")]}}, "attach": {"in": "lan"},
    });
    asking.daemon.put(Kind::Function, NAME, &spec)?;
    // One passes, so that all that is needed at first is there.
    let first = connect(asking)?;
    let answered = accept(&listener)?;
    drop((first, answered));
    let alone = settled(asking)?;
    let mut open = Vec::with_capacity(2 * CONNECTIONS);
    for _ in 0..CONNECTIONS {
        open.push(connect(asking)?);
        let mut server = accept(&listener)?;
        // The request has come through.
        server.set_read_timeout(Some(TIME_LIMIT)).map_err(BenchError::setup)?;
        let mut head = [0; 4];
        server.read_exact(&mut head).map_err(BenchError::setup)?;
        open.push(server);
    }
    let loaded = settled(asking)?;
    drop(open);
    asking
        .daemon
        .client
        .delete(Kind::Function, NAME, &client::Change::default())
        .map_err(BenchError::setup)?;
    let began = Instant::now();
    while folder.join("run/runtime").join(NAME).exists() {
        if began.elapsed() > TIME_LIMIT {
            return Err(BenchError::Setup("the container does not end".to_owned()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok((alone, loaded))
}

/// A connection with a request.
fn connect(asking: &Asking) -> Result<TcpStream, BenchError> {
    let began = Instant::now();
    let address = format!("{ASKED}:80").parse().map_err(BenchError::setup)?;
    loop {
        match TcpStream::connect_timeout(&address, Duration::from_secs(1)) {
            Ok(mut stream) => {
                stream.write_all(REQUEST).map_err(BenchError::setup)?;
                return Ok(stream);
            }
            Err(error) if began.elapsed() > TIME_LIMIT => {
                let reason = asking.daemon.status(NAME)?.reason;
                return Err(BenchError::Setup(format!("haproxy takes no connection: {error}; {reason:?}")));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// The connection that haproxy makes to its server.
fn accept(listener: &TcpListener) -> Result<TcpStream, BenchError> {
    let began = Instant::now();
    listener.set_nonblocking(true).map_err(BenchError::setup)?;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).map_err(BenchError::setup)?;
                return Ok(stream);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock && began.elapsed() < TIME_LIMIT => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(BenchError::Setup(format!("haproxy does not ask its server: {error}"))),
        }
    }
}

/// Its memory, when it does not change any more.
fn settled(asking: &Asking) -> Result<u64, BenchError> {
    let began = Instant::now();
    let mut before = 0;
    loop {
        std::thread::sleep(LOOK);
        let found = asking.daemon.status(NAME)?.memory.private;
        if found > 0 && found.abs_diff(before) < 256 << 10 {
            return Ok(found);
        }
        if began.elapsed() > TIME_LIMIT {
            return Err(BenchError::Setup(format!("the container's memory does not settle: {found} bytes")));
        }
        before = found;
    }
}

/// haproxy and what it loads, by their paths in an image.
fn files() -> Result<Vec<(PathBuf, PathBuf)>, BenchError> {
    let output = Command::new("ldd").arg(HAPROXY).output().map_err(BenchError::setup)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let libraries = text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from);
    let inside = |path: &Path| path.strip_prefix("/").unwrap_or(path).to_owned();
    let all = libraries.chain([PathBuf::from(HAPROXY)]);
    Ok(all.map(|path| (path.clone(), inside(&path))).collect())
}
