//! Clients that take what the daemon's sockets have to give: idle connections, slow uploads, large bodies.

use super::super::Daemon;
use super::certificates::Certificates;
use super::requests;
use crate::BenchError;
use client::{Address, Client, Settings, Tls};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const IDLE: usize = 256;
const UPLOADS: usize = 40;
/// The largest body that is taken.
const BODY: usize = 4 << 20;
/// Between two bytes of a slow upload.
const PAUSE: Duration = Duration::from_millis(200);

/// The clients; they leave when this ends.
pub(super) struct Crowd {
    ends: Arc<AtomicBool>,
    /// Large bodies that were answered.
    answered: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
    _idle: Vec<TcpStream>,
}

/// The start of a request of the tenant's to apply a document of so many bytes.
fn head(secret: &str, bytes: usize) -> String {
    format!(
        "POST /v1/apply?dry_run=true HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {secret}\r\n\
         Content-Type: application/json\r\nContent-Length: {bytes}\r\n\r\n"
    )
}

impl Crowd {
    /// All of them come.
    pub(super) fn gather(daemon: &Daemon) -> Result<Crowd, BenchError> {
        let secret = requests::token(daemon, "crowd")?;
        let address = daemon.tcp();
        let idle = (0..IDLE).map(|_| TcpStream::connect(address));
        let idle = idle.collect::<Result<Vec<_>, _>>().map_err(BenchError::setup)?;
        let (ends, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let tenants = daemon.tenants_socket();
        let uploads = {
            let (ends, secret, tenants) = (ends.clone(), secret.clone(), tenants.clone());
            std::thread::spawn(move || upload_slowly(&tenants, &secret, &ends))
        };
        let bodies = {
            let (ends, answered) = (ends.clone(), answered.clone());
            std::thread::spawn(move || send_large_bodies(&tenants, &secret, &ends, &answered))
        };
        Ok(Crowd { ends, answered, threads: vec![uploads, bodies], _idle: idle })
    }

    /// They leave. Whether their large bodies were answered.
    pub(super) fn leave(self) -> Result<(), BenchError> {
        self.ends.store(true, Relaxed);
        for thread in self.threads {
            thread.join().map_err(|_| BenchError::Setup("a client of the crowd broke".to_owned()))?;
        }
        match self.answered.load(Relaxed) {
            0 => Err(BenchError::Invalid("no large body was answered".to_owned())),
            _ => Ok(()),
        }
    }
}

/// Keeps so many uploads going, each a byte at a time; a connection that is cut off begins again.
fn upload_slowly(tenants: &Path, secret: &str, ends: &AtomicBool) {
    let mut uploads: Vec<Option<UnixStream>> = (0..UPLOADS).map(|_| None).collect();
    while !ends.load(Relaxed) {
        for upload in &mut uploads {
            let gone = match upload {
                Some(stream) => stream.write_all(b" ").is_err(),
                None => true,
            };
            if gone {
                *upload = UnixStream::connect(tenants).ok().and_then(|mut stream| {
                    stream.write_all(head(secret, BODY).as_bytes()).is_ok().then_some(stream)
                });
            }
        }
        std::thread::sleep(PAUSE);
    }
}

/// Sends documents as large as may be, one after the other.
fn send_large_bodies(tenants: &Path, secret: &str, ends: &AtomicBool, answered: &AtomicU64) {
    let functions: serde_json::Map<String, serde_json::Value> =
        (0..50_000).map(|n| (format!("large{n}"), json!({"image": "forwarder", "tenant": "blue"}))).collect();
    let mut body = json!({"superfluid": 1, "functions": functions}).to_string().into_bytes();
    body.resize(BODY, b' ');
    while !ends.load(Relaxed) {
        let answer = (|| {
            let mut stream = UnixStream::connect(tenants)?;
            stream.set_read_timeout(Some(Duration::from_secs(60)))?;
            stream.write_all(head(secret, body.len()).as_bytes())?;
            stream.write_all(&body)?;
            stream.read_exact(&mut [0; 12])
        })();
        match answer {
            Ok(()) => {
                answered.fetch_add(1, Relaxed);
            }
            // It is busy, or closes the connection: in vain, and again.
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// How long so many requests for health take, each on a connection of its own, on the socket and on TLS in
/// turns; in milliseconds.
pub(super) fn health_times(
    daemon: &Daemon,
    certificates: &Certificates,
    requests: usize,
) -> Result<(Vec<f64>, Vec<f64>), BenchError> {
    let tls = Tls {
        host: format!("localhost:{}", daemon.tcp().port()),
        ca: certificates.authority.clone(),
        certificate: certificates.administrator.clone(),
        key: certificates.administrator_key.clone(),
    };
    let (mut socket, mut encrypted) = (Vec::new(), Vec::new());
    for _ in 0..requests {
        socket.push(health_time(Address::Unix(daemon.socket()))?);
        encrypted.push(health_time(Address::Tls(tls.clone()))?);
    }
    Ok((socket, encrypted))
}

fn health_time(address: Address) -> Result<f64, BenchError> {
    let client = Client::new(Settings::new(address)).map_err(BenchError::setup)?;
    let began = Instant::now();
    client.health().map_err(BenchError::setup)?;
    Ok(began.elapsed().as_secs_f64() * 1e3)
}
