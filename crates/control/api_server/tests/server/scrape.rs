//! Metrics in the clear on loopback, with clients that mean no good beside one that does.

use crate::Running;
use serde_json::json;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

fn running() -> (Running, SocketAddr) {
    let running = Running::with(|settings| settings.metrics = Some(SocketAddr::from(([127, 0, 0, 1], 0))));
    let address = running.metrics.expect("it listens");
    (running, address)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    stream
}

/// The whole answer to these bytes.
fn ask(address: SocketAddr, request: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).expect("writes");
    let mut told = String::new();
    stream.read_to_string(&mut told).expect("reads");
    told
}

fn scrape(address: SocketAddr) -> String {
    ask(address, &format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\n\r\n"))
}

#[test]
fn the_hosts_metrics_are_given_and_nothing_else() {
    let (running, address) = running();
    assert_eq!(running.client().put("/v1/functions/fw", &json!({"image": "a"})).status, 201);
    let told = scrape(address);
    assert!(told.starts_with("HTTP/1.1 200 ") && told.contains("connection: close"), "{told}");
    assert!(told.contains("function=\"fw\"") && told.contains("superfluid_daemon_requests_total"), "{told}");
    let open = "GET /metrics HTTP/1.1\r\nhost: localhost\r\naccept: application/openmetrics-text\r\n\r\n";
    let told = ask(address, open);
    assert!(told.starts_with("HTTP/1.1 200 ") && told.ends_with("# EOF\n"), "{told}");
    let neither = "GET /metrics HTTP/1.1\r\nhost: localhost\r\naccept: image/png\r\n\r\n";
    assert!(ask(address, neither).starts_with("HTTP/1.1 406 "));
    let wrong = [
        "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "GET /v1/health HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "GET /v1/functions/fw HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "GET /metrics/ HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "GET /metrics?tenant=a HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "DELETE /v1/functions/fw HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "POST /metrics HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n",
        "HEAD /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nhost: localhost\r\ncontent-length: 3\r\n\r\nabc",
        "GET /metrics HTTP/1.1\r\nhost: evil.example\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n\r\n",
        "GET http://evil.example/metrics HTTP/1.1\r\nhost: localhost\r\n\r\n",
    ];
    for request in wrong {
        let told = ask(address, request);
        assert!(told.starts_with("HTTP/1.1 404 ") && !told.contains("superfluid_"), "{request}: {told}");
    }
    assert_eq!(running.client().get("/v1/functions/fw").status, 200, "nothing was changed");
}

#[test]
fn however_often_it_is_asked_for_one_exposition_is_made_in_a_second() {
    let (running, address) = running();
    let began = Instant::now();
    let mut made: Vec<String> = Vec::new();
    for _ in 0..20 {
        // Each request counts, so that no two expositions are the same.
        assert_eq!(running.client().get("/v1/health").status, 200);
        let told = scrape(address);
        let (_, exposition) = told.split_once("\r\n\r\n").expect("headers and a body");
        made.push(exposition.to_owned());
    }
    made.dedup();
    // Each holds for a second from when it was made, on a machine that is slow too.
    assert!(made.len() as u64 <= began.elapsed().as_secs() + 1, "{} were made", made.len());
}

#[test]
fn clients_that_hold_every_place_keep_no_collector_out() {
    let (running, address) = running();
    // More than there are places: silent ones, ones that send half a request, and ones that do not read.
    let held: Vec<TcpStream> = (0..60)
        .map(|n| {
            let mut stream = connect(address);
            let half =
                ["", "GET /metrics HTTP/1.1\r\nhost: lo", "GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n"];
            // It may have been closed for the next already.
            let _ = stream.write_all(half[n % 3].as_bytes());
            // Those before are waited for by now, and hold their places.
            assert!(scrape(address).starts_with("HTTP/1.1 200 "), "beside {n} others");
            stream
        })
        .collect();
    // The administrators' places are others.
    assert_eq!(running.client().get("/v1/health").status, 200);
    // Those that came first had to leave: their connection ends.
    let mut first = held.into_iter().next().expect("one");
    let mut told = Vec::new();
    let ended = first.read_to_end(&mut told);
    assert!(told.is_empty() && ended.is_ok_and(|bytes| bytes == 0));
}

#[test]
fn headers_without_an_end_are_cut_off() {
    let (_running, address) = running();
    let mut stream = connect(address);
    let huge = format!("GET /metrics HTTP/1.1\r\nhost: localhost\r\nx: {}", "a".repeat(1 << 16));
    // The server may have closed it before all was written.
    let _ = stream.write_all(huge.as_bytes());
    let mut told = Vec::new();
    let _ = stream.read_to_end(&mut told);
    assert!(!String::from_utf8_lossy(&told).contains("200 OK"));
    assert!(scrape(address).starts_with("HTTP/1.1 200 "));
}
