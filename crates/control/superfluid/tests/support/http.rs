//! Requests over a daemon's sockets: one by one, or over a connection that is kept.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Longest time for an answer over a connection of its own.
const ANSWER: Duration = Duration::from_secs(60);
/// The same over one that is kept.
const KEPT: Duration = Duration::from_secs(30);

/// A request in one piece: the daemon may say no and hang up before it has seen the body. More lines of its
/// head each end as lines there do.
fn request(method: &str, path: &str, more: &str, body: Option<&Value>) -> String {
    let body = body.map(Value::to_string).unwrap_or_default();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\n{more}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Sends a request, and leaves the answer to be read.
pub fn begin(
    socket: &Path,
    token: Option<&str>,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> UnixStream {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    stream.set_read_timeout(Some(ANSWER)).expect("a time limit");
    let shown = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = request(method, path, &format!("Connection: close\r\n{shown}"), body);
    stream.write_all(request.as_bytes()).expect("sent");
    stream
}

/// Sends a request; status and body of the answer.
pub fn exchange(
    socket: &Path,
    token: Option<&str>,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> (u16, String) {
    let mut answer = String::new();
    begin(socket, token, method, path, body).read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, body.to_owned())
}

/// A connection that is kept, to a daemon that may go.
pub struct Socket {
    stream: UnixStream,
    reader: BufReader<UnixStream>,
}

impl Socket {
    /// One, if there is a listener.
    pub fn connect(socket: &Path) -> Option<Socket> {
        let stream = UnixStream::connect(socket).ok()?;
        stream.set_read_timeout(Some(KEPT)).ok()?;
        Some(Socket { reader: BufReader::new(stream.try_clone().ok()?), stream })
    }

    /// What it answers; `None`: it is gone.
    pub fn ask(&mut self, method: &str, path: &str, body: Option<&Value>) -> Option<(u16, Value)> {
        let (status, body) = self.exchange(method, path, body)?;
        Some((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
    }

    fn exchange(&mut self, method: &str, path: &str, body: Option<&Value>) -> Option<(u16, Vec<u8>)> {
        self.stream.write_all(request(method, path, "", body).as_bytes()).ok()?;
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
    #[track_caller]
    pub fn get(&mut self, path: &str) -> Value {
        let (status, answer) = self.ask("GET", path, None).expect("it answers");
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    /// The text that is there.
    #[track_caller]
    pub fn text(&mut self, path: &str) -> Vec<u8> {
        let (status, answer) = self.exchange("GET", path, None).expect("it answers");
        assert_eq!(status, 200, "{path}");
        answer
    }

    /// What it answers to an object as it is to be, when that is there.
    #[track_caller]
    pub fn put(&mut self, path: &str, spec: &Value) -> (u16, Value) {
        let body = serde_json::json!({ "spec": spec });
        self.ask("PUT", &format!("/v1/{path}?wait=true"), Some(&body)).expect("it answers")
    }

    /// Does what has to be done.
    #[track_caller]
    pub fn done(&mut self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let (status, answer) = self.ask(method, path, body).expect("it answers");
        assert!(matches!(status, 200..=204), "{method} {path}: {status} {answer}");
        answer
    }
}
