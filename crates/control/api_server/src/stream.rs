//! A connection's bytes: a client that does not take what it is sent is given up, and what is no HTTP is
//! answered with a problem document like everything else.

use api::{PROBLEM_JSON, Problem, ProblemType};
use std::future::Future;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// A stream that fails when nothing could be written for a while.
pub(crate) struct Stream<S> {
    inner: S,
    write_time: Duration,
    /// Runs while the other side takes nothing.
    stuck: Option<Pin<Box<Sleep>>>,
    /// Of a problem document that is sent instead of an answer without one: what is still to be written.
    instead: Vec<u8>,
    /// Bytes of the answer that it replaces.
    replaced: usize,
}

impl<S> Stream<S> {
    pub fn new(inner: S, write_time: Duration) -> Stream<S> {
        Stream { inner, write_time, stuck: None, instead: Vec::new(), replaced: 0 }
    }

    fn watched<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stuck = None;
            return polled;
        }
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(self.write_time)));
        ready!(stuck.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(ErrorKind::TimedOut, "the client took nothing for too long")))
    }
}

/// The HTTP library answers what is no HTTP by itself, with a status and nothing else, and closes the
/// connection. This finds such an answer, by its beginning and by being without a body, and says the same
/// with a problem document.
fn bare_refusal(answer: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(answer).ok()?;
    let (head, "") = text.split_once("\r\n\r\n")? else { return None };
    let mut lines = head.split("\r\n");
    let of = match lines.next()?.get(9..12)? {
        "400" => ProblemType::Malformed,
        "414" | "431" => ProblemType::HeadersTooLarge,
        _ => return None,
    };
    lines.find(|line| line.eq_ignore_ascii_case("content-length: 0"))?;
    let detail = match of {
        ProblemType::Malformed => "the request is no HTTP/1.1",
        _ => "the request's line and headers are too large or too many",
    };
    Some(plain(&Problem::new(of, detail)))
}

/// An answer as it is written, for connections on which nothing more is read.
pub(crate) fn plain(problem: &Problem) -> Vec<u8> {
    let body = serde_json::to_string(problem).unwrap_or_default();
    let status = hyper::StatusCode::from_u16(problem.status).unwrap_or(hyper::StatusCode::BAD_REQUEST);
    let reason = status.canonical_reason().unwrap_or("Error");
    let retry = if problem.status == 503 { "retry-after: 1\r\n" } else { "" };
    format!(
        "HTTP/1.1 {} {reason}\r\ncontent-type: {PROBLEM_JSON}\r\n{retry}connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        problem.status,
        body.len()
    )
    .into_bytes()
}

impl<S: AsyncRead + Unpin> AsyncRead for Stream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.instead.is_empty()
            && let Some(instead) = bare_refusal(buf)
        {
            this.instead = instead;
            this.replaced = buf.len();
        }
        if this.instead.is_empty() {
            let polled = Pin::new(&mut this.inner).poll_write(cx, buf);
            return this.watched(cx, polled);
        }
        while !this.instead.is_empty() {
            let polled = Pin::new(&mut this.inner).poll_write(cx, &this.instead);
            let written = ready!(this.watched(cx, polled))?;
            this.instead.drain(..written);
        }
        Poll::Ready(Ok(this.replaced))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.inner).poll_flush(cx);
        this.watched(cx, polled)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.inner).poll_shutdown(cx);
        this.watched(cx, polled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_without_a_body_gets_one_and_nothing_else_does() {
        let bare =
            b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let told = String::from_utf8(bare_refusal(bare).expect("is one")).expect("text");
        assert!(told.starts_with("HTTP/1.1 431 ") && told.contains("/problems/headers-too-large"), "{told}");
        for other in [
            &b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"[..],
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}",
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n",
            b"\xff\xfe",
            b"",
        ] {
            assert_eq!(bare_refusal(other), None);
        }
    }
}
