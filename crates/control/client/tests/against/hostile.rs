//! Answers that no daemon gives.

use crate::stub::{Act, Stub, answer, chunk, stream};
use api::Kind;
use client::{Address, Client, ClientError, Settings};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

fn object(act: Act) -> ClientError {
    let waits =
        if matches!(act, Act::Rest(_)) { Duration::from_millis(300) } else { Duration::from_secs(20) };
    let stub = Stub::within([act], waits);
    let began = Instant::now();
    let error = stub.client.object(Kind::Function, "fw").expect_err("no answer");
    assert!(began.elapsed() < Duration::from_secs(60), "it is bounded in time: {error}");
    let shown = error.to_string();
    assert!(shown.lines().count() == 1 && !shown.contains('\u{1b}'), "{shown:?}");
    error
}

#[test]
fn what_is_not_what_was_asked_for_is_not_taken() {
    let ok = |content_type: &str, body: &str| Act::Send(answer("200 OK", content_type, body));
    let page = "<html>\u{1b}[2J</html>";
    let error = object(ok("text/html; charset=utf-8", page)).to_string();
    assert!(error.contains("sent `text/html`; allowed: application/json"), "{error}");
    let error = object(Act::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_vec())).to_string();
    assert!(error.contains("without a content type"), "{error}");
    for body in ["", "{", "[]", r#"{"kind":"function","name":"fw","version":-1,"spec":{}}"#, "\u{1b}"] {
        let error = object(ok("application/json", body));
        assert!(matches!(error, ClientError::Unreadable { .. }), "{body:?}: {error}");
    }
    let error = object(Act::Send(answer("502 Bad Gateway", "text/html", page))).to_string();
    assert!(error.contains("answered 502 with `text/html`"), "{error}");
    let error = object(Act::Send(answer("500 No", "application/problem+json", "{}"))).to_string();
    assert!(error.contains("answered 500 with a problem document that cannot be read"), "{error}");
    let elsewhere = b"HTTP/1.1 302 Found\r\nlocation: http://localhost:1/\r\ncontent-length: 0\r\n\r\n";
    let error = object(Act::Send(elsewhere.to_vec())).to_string();
    assert!(error.contains("answered 302"), "no redirect is followed: {error}");
}

#[test]
fn what_does_not_end_is_not_waited_for() {
    let head = |length: &str| {
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{length}\r\n\r\n").into_bytes()
    };
    let endless = Act::Repeat(head("transfer-encoding: chunked"), chunk(&"[".repeat(8192)));
    assert!(matches!(object(endless), ClientError::Large { limit: 65536, .. }));
    let told = Act::Rest(head("content-length: 1099511627776"));
    assert!(matches!(object(told), ClientError::Large { limit: 65536, .. }), "no byte is waited for");
    let endless_head = Act::Repeat(b"HTTP/1.1 200 OK\r\n".to_vec(), b"x-more: and more\r\n".to_vec());
    assert!(matches!(object(endless_head), ClientError::NoHttp { .. }));
    let problem =
        b"HTTP/1.1 400 No\r\ncontent-type: application/problem+json\r\ntransfer-encoding: chunked\r\n\r\n";
    let problem = Act::Repeat(problem.to_vec(), chunk(&" ".repeat(65536)));
    assert!(matches!(object(problem), ClientError::Large { .. } | ClientError::Late { .. }));
    assert!(matches!(object(Act::Rest(Vec::new())), ClientError::Silent { .. }));
    assert!(matches!(object(Act::Rest(head("content-length: 5"))), ClientError::Silent { .. }));
}

#[test]
fn what_is_cut_off_is_not_taken_for_whole() {
    let whole =
        answer("200 OK", "application/json", r#"{"kind":"function","name":"fw","version":1,"spec":{}}"#);
    for end in [0, 1, 20, 80, whole.len() - 1] {
        let error = object(Act::End(whole[..end].to_vec()));
        assert!(matches!(error, ClientError::Died { .. } | ClientError::NoHttp { .. }), "{end}: {error:?}");
    }
    let error = object(Act::End(b"SSH-2.0-OpenSSH_9.2\r\n\r\n".to_vec()));
    assert!(matches!(error, ClientError::NoHttp { .. }), "{error:?}");

    // A stream without its last chunk, in a line and between lines.
    let line = "{\"event\":\"alive\",\"revision\":1}\n";
    for text in [line.to_owned(), format!("{line}{{\"event\"")] {
        let stub = Stub::new([Act::End(stream(&text))]);
        let mut events = stub.client.events(None, true).expect("begun");
        assert!(events.next().expect("a line").is_ok());
        let error = events.next().expect("an error").expect_err("cut off");
        assert!(matches!(error, ClientError::Died { .. }), "{error:?}");
        assert!(events.next().is_none(), "an error is the last");
    }
    let stub = Stub::new([Act::Send([stream("{\"event\":\"alive\""), chunk("")].concat())]);
    let error =
        stub.client.events(None, true).expect("begun").next().expect("an error").expect_err("cut off");
    assert!(error.to_string().contains("in the middle of a line"), "{error}");
}

#[test]
fn lines_of_streams_are_bounded_and_must_be_what_they_should() {
    let stub = Stub::new([Act::Repeat(stream("{"), chunk(&" ".repeat(65536)))]);
    let error =
        stub.client.events(None, true).expect("begun").next().expect("an error").expect_err("too long");
    assert!(matches!(error, ClientError::Large { what: "in a line", .. }), "{error:?}");
    for line in ["nonsense\n", "{\"event\":\"changed\"}\n", "[]\n", "\u{1b}\n"] {
        let stub = Stub::new([Act::Send([stream(line), chunk("")].concat())]);
        let mut events = stub.client.events(None, true).expect("begun");
        let error = events.next().expect("an error").expect_err("no event");
        assert!(matches!(error, ClientError::Unreadable { .. }), "{line:?}: {error:?}");
        assert!(!error.to_string().contains('\u{1b}') && events.next().is_none());
    }
}

#[test]
fn a_daemon_that_is_not_there_or_does_not_listen_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let limit = Duration::from_millis(200);
    let client = |path: &std::path::Path| {
        let settings = Settings { connect: limit, ..Settings::new(Address::Unix(path.to_owned())) };
        Client::new(settings).expect("a client")
    };
    let error = client(&path).health().expect_err("no socket");
    assert!(error.is_unreachable() && error.to_string().contains("No such file"), "{error}");
    let long = folder.path().join("x".repeat(200));
    let error = client(&long).health().expect_err("no socket");
    assert!(error.is_unreachable() && error.to_string().contains("too long"), "{error}");

    // One that takes no connections: there is room for one that waits, and none for the next.
    let listener = UnixListener::bind(&path).expect("bound");
    rustix::net::listen(&listener, 0).expect("a short queue");
    let waiting = UnixStream::connect(&path).expect("waits to be taken");
    let error = client(&path).health().expect_err("the connection is not taken");
    assert!(error.to_string().contains("did not take the connection within 200ms"), "{error}");
    drop(waiting);
    drop(listener);
    let error = client(&path).health().expect_err("no listener");
    assert!(error.to_string().contains("refused"), "{error}");
}
