//! A server that answers each request with the next bytes of a script, whatever was asked, and remembers what
//! was.

use client::{Address, Client, Settings};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// What is done with a request.
#[derive(Clone)]
pub enum Act {
    /// These bytes are sent, and the next request is awaited.
    Send(Vec<u8>),
    /// These bytes are sent, and the connection ends.
    End(Vec<u8>),
    /// These bytes are sent, and then these again until the client leaves.
    Repeat(Vec<u8>, Vec<u8>),
    /// These bytes are sent, and then nothing.
    Rest(Vec<u8>),
}

pub struct Stub {
    pub client: Client,
    pub asked: Arc<Mutex<Vec<String>>>,
    ended: Arc<AtomicUsize>,
    _folder: tempfile::TempDir,
}

impl Stub {
    /// Answers with these one after the other, over as many connections as the client makes.
    pub fn new(acts: impl IntoIterator<Item = Act>) -> Stub {
        Stub::within(acts, Duration::from_secs(20))
    }

    /// The same for a client that waits for so long, and three times that for all of an answer.
    pub fn within(acts: impl IntoIterator<Item = Act>, idle: Duration) -> Stub {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).expect("bound");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (asking, mut acts) = (asked.clone(), acts.into_iter().collect::<Vec<_>>().into_iter());
        let ended = Arc::new(AtomicUsize::new(0));
        let ending = ended.clone();
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                serve(stream, &mut acts, &asking);
                ending.fetch_add(1, SeqCst);
            }
        });
        let settings = Settings {
            connect: Duration::from_secs(20),
            idle,
            total: idle * 3,
            largest_answer: 64 << 10,
            ..Settings::new(Address::Unix(path))
        };
        Stub { client: Client::new(settings).expect("a client"), asked, ended, _folder: folder }
    }

    /// Waits until this many connections have been ended by the server.
    pub fn has_ended(&self, connections: usize) {
        let began = Instant::now();
        while self.ended.load(SeqCst) < connections {
            assert!(began.elapsed() < Duration::from_secs(20), "no connection ends");
            thread::yield_now();
        }
    }

    /// The requests so far, header and body.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("not poisoned").clone()
    }
}

fn serve(mut stream: UnixStream, acts: &mut impl Iterator<Item = Act>, asked: &Mutex<Vec<String>>) {
    while let Some(request) = request(&mut stream) {
        asked.lock().expect("not poisoned").push(request);
        let Some(act) = acts.next() else { return };
        // A client that has left does not hear what is sent.
        match act {
            Act::Send(bytes) => drop(stream.write_all(&bytes)),
            Act::End(bytes) => return drop(stream.write_all(&bytes)),
            Act::Repeat(first, again) => {
                let mut sent = stream.write_all(&first);
                while sent.is_ok() {
                    sent = stream.write_all(&again);
                }
                return;
            }
            Act::Rest(bytes) => {
                drop(stream.write_all(&bytes));
                drop(stream.read(&mut [0; 1]));
                return;
            }
        }
    }
}

/// A request as a whole.
fn request(stream: &mut UnixStream) -> Option<String> {
    let (mut bytes, mut byte) = (Vec::new(), [0; 1]);
    while !bytes.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        bytes.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&bytes).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    bytes.extend(body);
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// An answer with a body of this type.
pub fn answer(status: &str, content_type: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// An answer with JSON.
pub fn json(body: &str) -> Act {
    Act::Send(answer("200 OK", "application/json", body))
}

/// The head of a stream in chunks, and one chunk.
pub fn stream(text: &str) -> Vec<u8> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/jsonl\r\ntransfer-encoding: chunked\r\n\r\n";
    [head.as_bytes(), &chunk(text)].concat()
}

pub fn chunk(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
}
