use super::*;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;

const LIMITS: Limits = Limits { connect: Duration::from_secs(20), idle: Duration::from_secs(20) };

/// Answers one question with this text, byte by byte as it is, and ends the connection.
fn answers(mut stream: impl Read + Write, text: &str) {
    let mut asked = [0; 4096];
    let _ = stream.read(&mut asked).expect("a question");
    stream.write_all(text.as_bytes()).expect("it is read");
}

/// Asks over a UNIX socket what is answered so.
fn asked(text: &'static str, most: u64) -> Result<Vec<u8>, BodyFault> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).expect("a socket");
    std::thread::scope(|scope| {
        scope.spawn(|| answers(listener.accept().expect("a connection").0, text));
        let request = http::Request::get("http://localhost/").body(()).expect("a request");
        let response = unix_agent(&path, LIMITS).run(request).map_err(Failure::from)?;
        bytes(response.into_body(), most)
    })
}

#[test]
fn a_body_is_read_as_far_as_was_agreed_to() {
    let four = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfour";
    assert_eq!(asked(four, 4), Ok(b"four".to_vec()));
    assert_eq!(asked(four, 3), Err(BodyFault::Large(Some(4))));
    let unknown = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nfour\r\n0\r\n\r\n";
    assert_eq!(asked(unknown, 4), Ok(b"four".to_vec()));
    assert_eq!(asked(unknown, 3), Err(BodyFault::Large(None)));
}

#[test]
fn what_goes_wrong_is_told_by_what_it_means() {
    let short = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfo";
    assert!(matches!(asked(short, 4), Err(BodyFault::Failed(Failure::Died(_)))));
    assert!(matches!(asked("220 mail\r\n", 4), Err(BodyFault::Failed(Failure::NoHttp(_)))));
    let gone = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let agent = agent(LIMITS, TlsConfig::builder().build(), false);
    let request = http::Request::get(format!("http://{gone}/")).body(()).expect("a request");
    let failure = Failure::from(agent.run(request).expect_err("nothing listens there"));
    assert!(matches!(&failure, Failure::Unreachable { .. }), "{failure:?}");
    let failure = Failure::from(std::io::Error::new(ErrorKind::ConnectionReset, "a\x1b[2Jb"));
    assert!(matches!(&failure, Failure::Died(text) if !text.contains('\x1b')), "{failure:?}");
}

#[test]
fn what_is_in_a_file_of_certificates() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ca.pem");
    assert!(matches!(read_pem(&path, 100), Err(PemFault::File(_))));
    std::fs::write(&path, "nothing").expect("written");
    let pem = read_pem(&path, 100).expect("there is nothing in it");
    assert!(pem.certificates.is_empty() && pem.key.is_none());
    assert!(matches!(read_pem(&path, 6), Err(PemFault::Large(6))));
    std::fs::write(&path, "-----BEGIN CERTIFICATE-----\n%%\n-----END CERTIFICATE-----\n").expect("written");
    assert!(matches!(read_pem(&path, 100), Err(PemFault::Other(_))));
}
