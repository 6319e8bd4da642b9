//! What a tenant asks the daemon for, all the time: documents as large as may be, and lists of what it has.

use super::super::Daemon;
use crate::BenchError;
use crate::guests::module;
use api::{Kind, Name, NewToken};
use client::Change;
use serde_json::{Value, json};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// The largest body that is taken.
const BODY: usize = 4 << 20;
/// Functions of the documents.
const FUNCTIONS: usize = 4000;
/// How often a client looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);
/// Clients that follow the log of one function.
const FOLLOWERS: usize = 16;
/// Bytes of that function's specification.
const SPEC: usize = 4_000_000;
const CHATTY: &str = "chatty";

/// A token of the tenant that is to be noticed, in place of the one of this name from a span before.
pub(super) fn token(daemon: &Daemon, name: &str) -> Result<String, BenchError> {
    let [name, tenant] = [name, "blue"].map(|name| Name::new(name).map_err(BenchError::setup));
    let token = NewToken { name: name?, tenant: Some(tenant?), host: false, expires: None, read_only: false };
    let _ = daemon.client.delete_token(&token.name);
    Ok(daemon.client.issue_token(&token).map_err(BenchError::setup)?.secret)
}

/// A request of a tenant, on a connection of its own.
fn request(secret: &str, method: &str, path: &str, content_type: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {secret}\r\n\
         Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn connect(tenants: &Path) -> std::io::Result<UnixStream> {
    let stream = UnixStream::connect(tenants)?;
    stream.set_read_timeout(Some(LOOK))?;
    stream.set_write_timeout(Some(LOOK))?;
    Ok(stream)
}

/// Whether a read or write is to be tried again.
fn goes_on(error: &std::io::Error, ends: &AtomicBool) -> bool {
    let waits = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted);
    waits && !ends.load(Relaxed)
}

/// Sends a request and reads the whole answer; its status, unless the connection breaks or it is to end.
fn exchanged(tenants: &Path, request: &[u8], ends: &AtomicBool) -> Option<u16> {
    let mut stream = connect(tenants).ok()?;
    let mut left = request;
    while !left.is_empty() {
        match stream.write(left) {
            Ok(written) => left = &left[written..],
            Err(error) if goes_on(&error, ends) => {}
            // It may have been answered before all of it was read.
            Err(_) => break,
        }
    }
    let (mut answer, mut part) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(read) if answer.len() < 12 => answer.extend_from_slice(&part[..read]),
            Ok(_) => {}
            Err(error) if goes_on(&error, ends) => {}
            Err(_) => break,
        }
    }
    std::str::from_utf8(answer.get(9..12)?).ok()?.parse().ok()
}

/// A document of functions, as large as may be.
fn document() -> Value {
    let functions: serde_json::Map<String, Value> = (0..FUNCTIONS)
        .map(|n| (format!("asked{n}"), json!({"image": "forwarder", "tenant": "blue"})))
        .collect();
    json!({"superfluid": 1, "functions": functions})
}

/// The same in YAML, filled up with comments to the largest size.
fn yaml() -> Vec<u8> {
    let mut text = "superfluid: 1\nfunctions:\n".to_owned();
    let comment = "x".repeat(BODY / FUNCTIONS - 80);
    for n in 0..FUNCTIONS {
        text.push_str(&format!("  # {comment}\n  asked{n}: {{image: forwarder, tenant: blue}}\n"));
    }
    text.into_bytes()
}

/// Clients that check, try and list, one request after the other each.
pub(super) fn clients(
    daemon: &Daemon,
    ends: &Arc<AtomicBool>,
    asked: &Arc<AtomicU64>,
) -> Result<Vec<JoinHandle<()>>, BenchError> {
    let secret = token(daemon, "requests")?;
    let mut json = document().to_string().into_bytes();
    json.resize(BODY, b' ');
    let requests = [
        request(&secret, "POST", "/v1/check", "application/yaml", &yaml()),
        request(&secret, "POST", "/v1/apply?dry_run=true", "application/json", &json),
        request(&secret, "GET", "/v1/functions?limit=1000", "application/json", b""),
    ];
    let client = |request: Vec<u8>| {
        let (ends, asked, tenants) = (ends.clone(), asked.clone(), daemon.tenants_socket());
        std::thread::spawn(move || {
            while !ends.load(Relaxed) {
                match exchanged(&tenants, &request, &ends) {
                    // Whatever is answered cost the daemon something.
                    Some(_) => {
                        asked.fetch_add(1, Relaxed);
                    }
                    None => std::thread::sleep(LOOK),
                }
            }
        })
    };
    Ok(requests.into_iter().map(client).collect())
}

/// Followers of the log of a function that says something all the time, and has a large specification.
pub(super) struct Followers<'a> {
    daemon: &'a Daemon,
    ends: Arc<AtomicBool>,
    heard: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl<'a> Followers<'a> {
    /// They come; `image` is where the function's image may be written.
    pub(super) fn gather(daemon: &'a Daemon, image: PathBuf) -> Result<Followers<'a>, BenchError> {
        std::fs::write(&image, module(CHATTY)?.wasm()).map_err(BenchError::setup)?;
        let config = json!({"note": "x".repeat(SPEC)});
        let spec = json!({"image": image.display().to_string(), "tenant": "blue", "config": config});
        daemon.put(Kind::Function, CHATTY, &spec)?;
        let secret = token(daemon, "followers")?;
        let path = format!("/v1/functions/{CHATTY}/logs?follow=true");
        let request = Arc::new(request(&secret, "GET", &path, "application/json", b""));
        let (ends, heard) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let follow = |_| {
            let (ends, heard, request) = (ends.clone(), heard.clone(), request.clone());
            let tenants = daemon.tenants_socket();
            std::thread::spawn(move || {
                let Ok(mut stream) = connect(&tenants) else { return };
                if stream.write_all(&request).is_err() {
                    return;
                }
                let mut part = vec![0; 4096];
                loop {
                    match stream.read(&mut part) {
                        Ok(0) => return,
                        Ok(_) => {
                            heard.fetch_add(1, Relaxed);
                        }
                        Err(error) if goes_on(&error, &ends) => {}
                        Err(_) => return,
                    }
                }
            })
        };
        let threads = (0..FOLLOWERS).map(follow).collect();
        Ok(Followers { daemon, ends, heard, threads })
    }

    /// They leave.
    ///
    /// # Errors
    /// [`BenchError::Invalid`]: they were told nothing.
    pub(super) fn leave(self) -> Result<(), BenchError> {
        self.ends.store(true, Relaxed);
        for thread in self.threads {
            thread.join().map_err(|_| BenchError::Setup("a follower broke".to_owned()))?;
        }
        self.daemon.client.delete(Kind::Function, CHATTY, &Change::default()).map_err(BenchError::setup)?;
        match self.heard.load(Relaxed) {
            heard if heard > FOLLOWERS as u64 * 10 => Ok(()),
            heard => Err(BenchError::Invalid(format!("{FOLLOWERS} followers heard {heard} parts"))),
        }
    }
}
