//! HTTP as servers and clients read it, where they are less strict than a reader would be: none of it hides a
//! message. TLS and DNS likewise.

use super::frames::{Bench, CLIENT, NONE, SERVER, flags, tcp, udp};
use crate::message::{dns, http, tls};
use miniz_oxide::deflate::compress_to_vec;

const RULES: &str = "alert http any any -> any any (http.uri; content:\"/evil\"; sid:1;)\n\
                     alert http any any -> any any (file_data; content:\"evil page\"; sid:2;)\n\
                     alert http any any -> any any (http.request_body; content:\"pass=\"; sid:3;)\n\
                     alert http any any -> any any (http.header; content:\"X-Evil\"; sid:4;)\n\
                     alert http any any -> any any (http.stat_code; content:\"404\"; sid:5;)\n\
                     alert dns any any -> any any (dns.query; content:\"evil.test\"; sid:6;)\n\
                     alert tls any any -> any any (tls.sni; content:\"evil.test\"; sid:7;)";

/// The sids of the alerts for what the client says, and then the server, each in pieces of `cut` bytes.
fn said_in(cut: usize, client: &[u8], server: &[u8]) -> Vec<u64> {
    let mut bench = Bench::new(RULES, &[]);
    bench.handshake();
    let mut sids = vec![];
    for (number, piece) in client.chunks(cut).enumerate() {
        sids.extend(bench.client((number * cut) as u32, piece));
        let next = 100 + (number * cut + piece.len()) as u32;
        sids.extend(bench.show(1, tcp(SERVER, CLIENT, flags::ACK, 500, next, &[])).1);
    }
    for (number, piece) in server.chunks(cut).enumerate() {
        sids.extend(bench.server((number * cut) as u32, piece));
    }
    let end = tcp(
        SERVER,
        CLIENT,
        flags::FIN | flags::ACK,
        500 + server.len() as u32,
        100 + client.len() as u32,
        &[],
    );
    sids.extend(bench.show(1, end).1);
    sids
}

fn said(client: &[u8], server: &[u8]) -> Vec<u64> {
    let whole = said_in(1400, client, server);
    for cut in [7, 64, 900] {
        assert_eq!(said_in(cut, client, server), whole, "in pieces of {cut}");
    }
    whole
}

/// A response to a plain request.
fn response(head: &str, body: &[u8]) -> Vec<u64> {
    said(b"GET /x HTTP/1.1\r\n\r\n", &[head.as_bytes(), body].concat())
}

#[test]
fn requests_without_a_version() {
    for line in ["GET /evil\r\n", "GET /evil\n", "GET  /evil \r\n"] {
        assert_eq!(said(line.as_bytes(), b""), [1], "{line}");
    }
    assert_eq!(said(b"GET /evil\r\nHost: a\r\n\r\n", b"a page"), [1]);
    assert_eq!(said(b"GET /x HTTP/1.1\r\n\r\nGET /evil\r\n", b""), [1]);
}

#[test]
fn targets_with_blanks() {
    for line in ["GET /x /evil HTTP/1.1", "GET /x\t/evil HTTP/1.1", "GET /x /evil  http/1.1 "] {
        assert_eq!(said(format!("{line}\r\n\r\n").as_bytes(), b""), [1], "{line}");
    }
    let parts = |line: &str| {
        http::Head::new(line.as_bytes())
            .request_parts()
            .map(|part| String::from_utf8_lossy(part).into_owned())
    };
    assert_eq!(parts("GET /a HTTP/1.1"), ["GET", "/a", "HTTP/1.1"]);
    assert_eq!(parts("GET /a b  c HTTP/1.0 "), ["GET", "/a b  c", "HTTP/1.0"]);
    assert_eq!(parts("GET /a b"), ["GET", "/a", "b"]);
    assert_eq!(parts("GET /a"), ["GET", "/a", ""]);
    assert_eq!(parts(""), ["", "", ""]);
}

/// Apache takes heads of more than 800 KiB, nginx any number of fields in 32.
#[test]
fn long_heads_and_many_fields() {
    let padding = |count: usize| format!("X-Padding: {}\r\n", "x".repeat(1000)).repeat(count);
    let many = "a: b\r\n".repeat(1000);
    for padding in [padding(30), padding(80), padding(200), many] {
        let request = format!(
            "POST /evil HTTP/1.1\r\n{padding}X-Evil: y\r\nContent-Length: 6\r\n\r\npass=xGET /evil HTTP/1.1\r\n\r\n"
        );
        let mut sids = said_in(1400, request.as_bytes(), b"");
        // Each part of a long head has the first line.
        sids.sort_unstable();
        sids.dedup();
        assert_eq!(sids, [1, 3, 4], "{}", padding.len());
    }
    // What it says of the body counts from any part.
    let request = format!(
        "POST /x HTTP/1.1\r\nContent-Length: 6\r\n{}\r\npass=xGET /evil HTTP/1.1\r\n\r\n",
        padding(100)
    );
    assert_eq!(said_in(1400, request.as_bytes(), b""), [1, 3]);
    // A line that no server takes is looked at as far as it goes.
    let request = format!("GET /evil HTTP/1.1\r\nX-Evil: {}\r\n\r\n", "x".repeat(100_000));
    assert_eq!(said_in(1400, request.as_bytes(), b""), [1, 4]);
}

#[test]
fn bodies_whose_framing_receivers_take_apart() {
    let ok = "HTTP/1.1 200 OK\r\n";
    let chunks = b"5\r\nevil \r\n4\r\npage\r\n0\r\n\r\n";
    for (fields, body) in [
        ("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", &chunks[..]),
        ("Transfer-Encoding: gzip, Chunked\r\n", chunks),
        ("Transfer-Encoding: xchunked\r\n", b"evil page"),
        ("Transfer-Encoding: xchunked\r\nContent-Length: 9\r\n", b"evil page"),
        ("Transfer-Encoding: chunked\r\n", b"not in chunks: evil page"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 31\r\n", b"not in chunks\n and an evil page"),
        ("Content-Length: none\r\n", b"evil page"),
        ("Content-Length: 0x9\r\n", b"evil page"),
        ("Content-Length:\r\n", b"evil page"),
    ] {
        assert_eq!(response(&format!("{ok}{fields}\r\n"), body), [2], "{fields}");
    }
    // A chunk's line of any length.
    let extension = format!(
        "5;x={}\r\nevil \r\n4\r\npage\r\n0\r\n{}: y\r\n\r\nHTTP/1.1 404 No\r\n\r\n",
        "y".repeat(900),
        "z".repeat(900)
    );
    assert_eq!(response(&format!("{ok}Transfer-Encoding: chunked\r\n\r\n"), extension.as_bytes()), [2, 5]);
    // HTTP/1.0 knew no chunks: some clients read them, and some do not.
    let old = "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(response(old, chunks), [2]);
    assert_eq!(response(old, b"1\r\nx\r\n0\r\n\r\nevil page"), [2]);
    // What only looks like an interim response.
    assert_eq!(response("HTTP/1.1 1xx OK\r\n\r\n", b"evil page"), [2]);
}

#[test]
fn responses_without_a_status_line() {
    assert_eq!(response("", b"an evil page"), [2]);
    assert_eq!(response("", b"a page\r\n\r\nan evil page"), [2]);
    assert_eq!(response("", b"evil"), NONE);
    assert_eq!(response("ICY 200 OK\r\n\r\n", b"evil page"), [2]);
    assert_eq!(response("\0\0HTTP/1.1 404 No\r\n\r\n", b"evil page"), [5, 2]);
    assert_eq!(said(b"HEAD /x HTTP/1.1\r\n\r\n", b"no response at all"), NONE);
}

#[test]
fn encodings_that_clients_undo() {
    let member = |data: &[u8]| {
        [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3], &compress_to_vec(data, 6)[..], &[0; 8]].concat()
    };
    let two = [member(b"evil "), member(b"page")].concat();
    let ok = "HTTP/1.1 200 OK\r\n";
    for (fields, body) in [
        ("Content-Encoding: gzip\r\n", two),
        ("Content-Encoding: identity\r\nContent-Encoding: gzip\r\n", member(b"evil page")),
        ("Content-Encoding: gzip\r\nContent-Encoding: gzip\r\n", member(&member(b"evil page"))),
        (
            "Content-Encoding: gzip, deflate, x-gzip, gzip\r\n",
            member(&member(&member(&member(b"evil page")))),
        ),
    ] {
        assert_eq!(response(&format!("{ok}{fields}\r\n"), &body), [2], "{fields}");
    }
}

/// A question for `evil.test`.
fn question(flags: [u8; 2], answers: u8, padding: usize) -> Vec<u8> {
    let mut message = vec![7, 7, flags[0], flags[1], 0, 1, 0, answers, 0, 0, 0, 0];
    message.extend(b"\x04evil\x04test\0\0\x01\0\x01");
    message.extend(vec![0; padding]);
    message
}

#[test]
fn questions_that_servers_answer() {
    for (flags, answers) in [([1, 0], 0), ([1, 0x40], 0), ([1, 0x70], 1)] {
        let message = question(flags, answers, 0);
        assert_eq!(dns::recognise(&message), Some(false));
        let mut bench = Bench::new(RULES, &[]);
        assert_eq!(bench.sids(udp(CLIENT, SERVER, &message)), [6]);
    }
    let framed = |message: &[u8]| [&(message.len() as u16).to_be_bytes()[..], message].concat();
    // Long, and behind one that is refused.
    assert_eq!(said(&framed(&question([1, 0], 0, 9000)), b""), [6]);
    let refused = question([0x30, 0], 0, 0);
    let mut stream = framed(&question([1, 0], 0, 0));
    stream.extend(framed(&refused));
    stream.extend(framed(&question([1, 0], 0, 0)));
    assert_eq!(said(&stream, b""), [6, 6]);
}

#[test]
fn hellos_that_servers_take() {
    let hello = |version: u8, padding: usize, first: usize| {
        let names = [&[1, 0, 1, b'x'][..], &[0, 0, 9], b"evil.test"].concat();
        let names = [&(names.len() as u16).to_be_bytes()[..], &names].concat();
        let mut extensions = vec![];
        if padding > 0 {
            extensions.extend([0, 21]);
            extensions.extend((padding as u16).to_be_bytes());
            extensions.extend(vec![0; padding]);
        }
        extensions.extend([0, 0]);
        extensions.extend((names.len() as u16).to_be_bytes());
        extensions.extend(names);
        let mut body = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0]].concat();
        body.extend((extensions.len() as u16).to_be_bytes());
        body.extend(extensions);
        let message = [&[1, 0][..], &(body.len() as u16).to_be_bytes(), &body].concat();
        let mut out = [22, 3, version, 0, 0].repeat(first);
        for part in message.chunks(16_000) {
            out.extend([22, 3, version]);
            out.extend((part.len() as u16).to_be_bytes());
            out.extend(part);
        }
        out
    };
    for (version, padding, first) in [(1, 0, 0), (9, 0, 0), (1, 0, 3), (1, 50_000, 0)] {
        let hello = hello(version, padding, first);
        assert_eq!(tls::recognise(&hello), Some(true));
        assert_eq!(said_in(1400, &hello, b""), [7], "{version}, {padding}, {first}");
    }
}
