//! A server that does what a test tells it to, right or wrong.

use registry::{Artifact, Digest, MANIFEST_TYPE};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What came.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub authorization: Option<String>,
    pub body: Vec<u8>,
}

/// What is to be done.
pub enum Act {
    /// Answer: status, headers, body; the length is told as it is.
    Answer(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// Send these bytes and end the connection.
    Raw(Vec<u8>),
    /// Send these bytes, and then nothing.
    Hang(Vec<u8>),
    /// Send these bytes, and then zeroes for ever.
    Endless(Vec<u8>),
    /// Send these bytes, and then one more now and then.
    Drip(Vec<u8>),
}

pub struct Server {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    end: Arc<AtomicBool>,
}

impl Server {
    pub fn new(act: impl Fn(&Asked) -> Act + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let address = listener.local_addr().expect("an address");
        let (asked, end) = (Arc::<Mutex<Vec<Asked>>>::default(), Arc::new(AtomicBool::new(false)));
        let (act, log, ended) = (Arc::new(act), asked.clone(), end.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(stream), act, log, ended) = (stream, act.clone(), log.clone(), ended.clone()) else {
                    continue;
                };
                thread::spawn(move || serve(stream, &*act, &log, &ended));
            }
        });
        Server { address, asked, end }
    }

    /// Host and port.
    pub fn host(&self) -> String {
        self.address.to_string()
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no panic").clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(stream: TcpStream, act: &dyn Fn(&Asked) -> Act, log: &Mutex<Vec<Asked>>, end: &AtomicBool) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let mut stream = stream;
    while let Some(asked) = read(&mut reader) {
        log.lock().expect("no panic").push(asked.clone());
        let pause = |end: &AtomicBool| {
            thread::sleep(Duration::from_millis(20));
            !end.load(Ordering::Relaxed)
        };
        // The client may have gone: then the answer cannot be sent.
        let _ = match act(&asked) {
            Act::Answer(status, headers, body) => {
                let mut head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n", body.len());
                for (name, value) in headers {
                    head.push_str(&format!("{name}: {value}\r\n"));
                }
                let body = if asked.method == "HEAD" { &[] } else { &body[..] };
                if stream
                    .write_all(format!("{head}\r\n").as_bytes())
                    .and_then(|()| stream.write_all(body))
                    .is_ok()
                {
                    continue;
                }
                Ok(())
            }
            Act::Raw(bytes) => stream.write_all(&bytes),
            Act::Hang(bytes) => stream.write_all(&bytes).map(|()| while pause(end) {}),
            Act::Endless(bytes) => {
                let mut sent = stream.write_all(&bytes);
                while sent.is_ok() && !end.load(Ordering::Relaxed) {
                    sent = stream.write_all(&[0; 4096]);
                }
                sent
            }
            Act::Drip(bytes) => {
                let mut sent = stream.write_all(&bytes);
                while sent.is_ok() && pause(end) {
                    sent = stream.write_all(b"0");
                }
                sent
            }
        };
        let _ = stream.shutdown(Shutdown::Both);
        return;
    }
    // As servers do that are spoken to in TLS and know none.
    let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut asked = Asked::default();
    let mut length = 0;
    for number in 0.. {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if number == 0 {
            let mut words = line.split(' ');
            asked.method = words.next()?.to_owned();
            asked.path = words.next()?.to_owned();
        } else if line.is_empty() {
            break;
        } else if let Some((name, value)) = line.split_once(": ") {
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().ok()?,
                "authorization" => asked.authorization = Some(value.to_owned()),
                _ => {}
            }
        }
    }
    asked.body = vec![0; length];
    reader.read_exact(&mut asked.body).ok()?;
    Some(asked)
}

/// What an honest registry answers that has this artifact under every tag.
pub fn honest(artifact: &Artifact, asked: &Asked) -> Act {
    let name = asked.path.rsplit('/').next().unwrap_or_default();
    let typed = |media_type: &str, bytes: &[u8]| {
        Act::Answer(200, vec![("content-type", media_type.to_owned())], bytes.to_vec())
    };
    if asked.path.contains("/manifests/") {
        return typed(MANIFEST_TYPE, artifact.manifest());
    }
    let blobs = [artifact.config(), artifact.image().wasm()];
    match blobs.into_iter().find(|bytes| Digest::of(bytes).to_string() == name) {
        Some(bytes) => typed("application/octet-stream", bytes),
        None => {
            Act::Answer(404, vec![], br#"{"errors":[{"code":"BLOB_UNKNOWN","message":"unknown"}]}"#.to_vec())
        }
    }
}
