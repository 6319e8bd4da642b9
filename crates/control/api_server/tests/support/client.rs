//! A client that does no more than it is told, so that it can be told to do wrong.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// An answer, taken apart.
#[derive(Debug)]
pub struct Got {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Got {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The type of the problem document that it must be.
    #[track_caller]
    pub fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{problem}");
        problem["type"].as_str().and_then(|of| of.strip_prefix("/problems/")).unwrap_or_default().to_owned()
    }
}

pub struct Client {
    pub stream: BufReader<UnixStream>,
}

impl Client {
    pub fn connect(socket: &Path) -> Client {
        Client::try_connect(socket).unwrap_or_else(|error| panic!("{}: {error}", socket.display()))
    }

    pub fn try_connect(socket: &Path) -> std::io::Result<Client> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        stream.set_write_timeout(Some(Duration::from_secs(20)))?;
        Ok(Client { stream: BufReader::new(stream) })
    }

    pub fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    pub fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> std::io::Result<()> {
        let mut text = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        self.write(&[text.as_bytes(), body].concat())
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }

    /// Status and headers.
    pub fn head(&mut self) -> std::io::Result<Got> {
        let broken = || std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "no answer");
        let first = self.line()?;
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(broken)?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(Got { status, headers, body: Vec::new() })
    }

    /// One part of a body that comes in parts; empty at its end.
    pub fn chunk(&mut self) -> std::io::Result<Vec<u8>> {
        let broken = |_| std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "no chunk");
        let size = usize::from_str_radix(&self.line()?, 16).map_err(broken)?;
        let mut chunk = vec![0; size];
        self.stream.read_exact(&mut chunk)?;
        self.line()?;
        Ok(chunk)
    }

    pub fn read(&mut self) -> std::io::Result<Got> {
        let mut got = self.head()?;
        if got.header("transfer-encoding") == Some("chunked") {
            loop {
                match self.chunk()? {
                    chunk if chunk.is_empty() => break,
                    chunk => got.body.extend(chunk),
                }
            }
        } else if let Some(length) = got.header("content-length").and_then(|length| length.parse().ok()) {
            got.body = vec![0; length];
            self.stream.read_exact(&mut got.body)?;
        }
        Ok(got)
    }

    #[track_caller]
    pub fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Got {
        self.try_ask(method, path, headers, body).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    pub fn try_ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> std::io::Result<Got> {
        self.send(method, path, headers, body.as_bytes())?;
        self.read()
    }

    #[track_caller]
    pub fn get(&mut self, path: &str) -> Got {
        self.ask("GET", path, &[], "")
    }

    #[track_caller]
    pub fn put(&mut self, path: &str, spec: &Value) -> Got {
        self.ask(
            "PUT",
            path,
            &[("content-type", "application/json")],
            &serde_json::json!({"spec": spec}).to_string(),
        )
    }

    #[track_caller]
    pub fn delete(&mut self, path: &str) -> Got {
        self.ask("DELETE", path, &[], "")
    }

    #[track_caller]
    pub fn post(&mut self, path: &str, body: &str) -> Got {
        self.ask("POST", path, &[], body)
    }
}
