//! Clients that are slow, endless, malformed or too many.

use crate::Running;
use crate::client::Client;
use crate::rights::{self, Shared};
use serde_json::json;
use std::io::{BufRead, Read, Write};
use std::time::{Duration, Instant};

fn still_serves(server: &Running) {
    assert_eq!(server.client().get("/v1/health").status, 200);
}

#[test]
fn malformed_requests_are_told_with_a_problem() {
    let server = Running::new();
    let cases: [(&[u8], u16, &str); 8] = [
        (b"\x00\x01\x02\x03\r\n\r\n", 400, "malformed"),
        (b"GET / HTTP/9.9\r\n\r\n", 400, "malformed"),
        (b"get\r\n\r\n", 400, "malformed"),
        (b"GET /v1/health HTTP/1.1\r\nho st: a\r\n\r\n", 400, "malformed"),
        (b"GET /v1/health HTTP/1.1\r\nhost: a\r\ncontent-length: x\r\n\r\n", 400, "malformed"),
        (
            b"PUT /v1/functions/a HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\n\xff\xfe\xfd",
            400,
            "malformed",
        ),
        (b"BREW /v1/functions HTTP/1.1\r\nhost: a\r\n\r\n", 405, "method-not-allowed"),
        (b"GET /v1/functions/%ff HTTP/1.1\r\nhost: a\r\n\r\n", 404, "not-found"),
    ];
    for (bytes, status, problem) in cases {
        let mut client = server.client();
        client.write(bytes).expect("writes");
        let got = client.read().unwrap_or_else(|error| panic!("{}: {error}", bytes.escape_ascii()));
        assert_eq!((got.status, got.problem().as_str()), (status, problem), "{}", bytes.escape_ascii());
    }
    still_serves(&server);
}

/// A disk that hangs is a pipe that is full and that nothing reads.
#[test]
fn a_disk_that_hangs_holds_up_only_what_has_to_be_logged() {
    use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("audit");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
    let ends = open(&pipe, OFlags::RDWR | OFlags::NONBLOCK, Mode::empty()).expect("opens");
    let mut ends = std::fs::File::from(ends);
    let server = Running::with(|settings| settings.audit.file.clone_from(&pipe));
    let mut full = 0;
    while let Ok(bytes) = ends.write(&[b'x'; 4096]) {
        full += bytes;
    }
    let spec = json!({"spec": {"image": "firewall"}}).to_string();
    let head = format!(
        "PUT /v1/functions/a HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        spec.len()
    );
    let mut waits = server.client();
    waits.write(format!("{head}{spec}").as_bytes()).expect("writes");
    while server.client().get("/v1/functions/a").status != 200 {}
    // The function is there, its line is not written, and all else is answered.
    for path in ["/v1/health", "/v1/functions", "/metrics", "/v1/operations"] {
        assert_eq!(server.client().get(path).status, 200, "{path}");
    }
    waits.stream.get_ref().set_nonblocking(true).expect("sets");
    let none = waits.stream.fill_buf().err().map(|error| error.kind());
    assert_eq!(none, Some(std::io::ErrorKind::WouldBlock), "it is not answered before its line is written");
    waits.stream.get_ref().set_nonblocking(false).expect("sets");
    let mut taken = vec![0; full];
    ends.read_exact(&mut taken).expect("reads");
    assert_eq!(waits.read().expect("it is answered").status, 201);
    let mut line = vec![0; 4096];
    let bytes = ends.read(&mut line).expect("the line");
    assert!(String::from_utf8_lossy(&line[..bytes]).contains("\"created\":[\"function/a\"]"));
}

/// A client that sends the body later than the head hears the answer, and may ask on; if not, it is told.
#[test]
fn a_client_that_is_refused_before_its_body_has_come_may_ask_on() {
    let server = Running::new();
    let refused: [(&str, u16); 5] = [
        ("PUT /v1/functions/a%20b HTTP/1.1\r\n", 400),
        ("PUT /v1/functions/a?what=1 HTTP/1.1\r\n", 400),
        ("PUT /v1/functions/a HTTP/1.1\r\nif-none-match: null\r\n", 400),
        ("PUT /v1/nothing HTTP/1.1\r\n", 404),
        ("BREW /v1/functions HTTP/1.1\r\n", 405),
    ];
    let later = Duration::from_millis(20);
    for (head, status) in refused {
        let mut client = server.client();
        client.write(format!("{head}host: a\r\ncontent-length: 2\r\n\r\n").as_bytes()).expect("writes");
        std::thread::sleep(later);
        client.write(b"{}").unwrap_or_else(|error| panic!("{head}: {error}"));
        let got = client.read().unwrap_or_else(|error| panic!("{head}: {error}"));
        assert_eq!((got.status, got.header("connection")), (status, None), "{head}");
        assert_eq!(client.get("/v1/health").status, 200, "{head}");
    }
    // More than is listened to, and what has to be asked for first.
    for more in ["content-length: 10000000\r\n", "content-length: 2\r\nexpect: 100-continue\r\n"] {
        let mut client = server.client();
        client
            .write(format!("PUT /v1/nothing HTTP/1.1\r\nhost: a\r\n{more}\r\n").as_bytes())
            .expect("writes");
        let got = client.read().unwrap_or_else(|error| panic!("{more}: {error}"));
        assert_eq!((got.status, got.header("connection")), (404, Some("close")), "{more}");
    }
    still_serves(&server);
}

#[test]
fn malformed_bodies_parameters_and_headers_are_told_with_their_place() {
    let server = Running::new();
    let mut client = server.client();
    let mut put = |path: &str, headers: &[(&str, &str)], body: &str| {
        let got = client.ask("PUT", path, headers, body);
        let at = got.json()["faults"][0]["at"].as_str().unwrap_or_default().to_owned();
        (got.status, got.problem(), at)
    };
    let told = |status: u16, problem: &str, at: &str| (status, problem.to_owned(), at.to_owned());
    assert_eq!(put("/v1/functions/a", &[], ""), told(400, "malformed", ""));
    assert_eq!(put("/v1/functions/a", &[], "{"), told(400, "malformed", ""));
    assert_eq!(put("/v1/functions/a", &[], &"[".repeat(100_000)), told(400, "malformed", ""));
    assert_eq!(put("/v1/functions/a", &[], "[1]"), told(422, "invalid", ""));
    assert_eq!(put("/v1/functions/a", &[], r#"{"spec": {}, "sepc": 1}"#), told(422, "invalid", "sepc"));
    assert_eq!(
        put("/v1/functions/a", &[("content-type", "text/plain")], "{}"),
        told(415, "unsupported-media-type", "Content-Type")
    );
    assert_eq!(
        put("/v1/functions/a", &[("accept", "image/png")], "{}"),
        told(406, "not-acceptable", "Accept")
    );
    assert_eq!(
        put("/v1/functions/a?durable=yes", &[], r#"{"spec": {"image": "x"}}"#),
        told(400, "malformed", "durable")
    );
    assert_eq!(
        put("/v1/functions/a?durable=true&durable=true", &[], "{}"),
        told(400, "malformed", "durable")
    );
    assert_eq!(put("/v1/functions/a%20b", &[], "{}"), told(400, "malformed", "name"));
    assert_eq!(put("/v1/functions/a", &[("if-match", "x")], "{}"), told(400, "malformed", "If-Match"));
    assert_eq!(client.get("/v1/functions?limit=0").json()["faults"][0]["at"], "limit");
    assert_eq!(client.post("/v1/functions/a/pause", "{}").problem(), "malformed");
    let got = client.ask("DELETE", "/v1/functions", &[], "");
    assert_eq!((got.problem().as_str(), got.header("allow")), ("method-not-allowed", Some("GET, HEAD")));
    assert_eq!(server.fake.world().objects.len(), 0);
}

#[test]
fn endless_headers_and_huge_bodies_end() {
    let server = Running::with(|settings| settings.limits.body_bytes = 100_000);
    let mut client = server.client();
    client.write(b"GET /v1/health HTTP/1.1\r\nx: ").expect("writes");
    while client.write(&[b'a'; 4096]).is_ok() {}
    let mut told = Vec::new();
    let _ = client.stream.read_to_end(&mut told);
    assert!(told.is_empty() || told.starts_with(b"HTTP/1.1 431 "), "{}", told.escape_ascii());

    let mut client = server.client();
    let many: String = (0..200).map(|n| format!("x{n}: y\r\n")).collect();
    client.write(format!("GET /v1/health HTTP/1.1\r\n{many}\r\n").as_bytes()).expect("writes");
    assert_eq!(client.read().expect("answers").problem(), "headers-too-large");

    let mut client = server.client();
    client
        .write(b"PUT /v1/functions/a HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999\r\n\r\n")
        .expect("writes");
    assert_eq!(client.read().expect("answers").problem(), "too-large");

    let mut client = server.client();
    client
        .write(b"PUT /v1/functions/a HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
        .expect("writes");
    let chunk = [b"1000\r\n".as_slice(), &[b' '; 4096], b"\r\n"].concat();
    for _ in 0..26 {
        if client.write(&chunk).is_err() {
            break;
        }
    }
    assert_eq!(client.read().expect("answers").problem(), "too-large");
    still_serves(&server);
}

/// What only administrators' calls with few keys take apart is small; a body that is kept as it is may be
/// large.
#[test]
fn bodies_are_as_large_as_their_call_needs() {
    let server = Running::new();
    let mut client = server.client();
    let large = json!({"name": "x".repeat(20_000)}).to_string();
    for path in
        ["/v1/tokens", "/v1/traces", "/v1/captures", "/v1/functions/a/snapshots", "/v1/functions/a/pause"]
    {
        let got = client.post(path, &large);
        assert_eq!((got.status, got.problem().as_str()), (413, "too-large"), "{path}");
        assert!(got.text().contains("at most 16384 bytes"), "{}", got.text());
    }
    let spec = json!({"image": "firewall", "config": {"note": "x".repeat(20_000)}});
    assert_eq!(client.put("/v1/functions/a", &spec).status, 201);
}

#[test]
fn the_slow_are_ended_and_the_others_served() {
    let short = Duration::from_millis(300);
    let server = Running::with(|settings| {
        settings.limits.header_time = short;
        settings.limits.body_time = short;
        settings.limits.write_time = short;
    });
    let begun = Instant::now();
    let mut slow_header = server.client();
    slow_header.write(b"GET /v1/hea").expect("writes");
    let mut slow_body = server.client();
    slow_body
        .write(b"PUT /v1/functions/a HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n{")
        .expect("writes");
    let mut idle = server.client();
    assert_eq!(idle.get("/v1/health").status, 200);
    // Asks for much and takes nothing.
    let mut deaf = server.client();
    let request = b"GET /v1/openapi.json HTTP/1.1\r\nhost: a\r\n\r\n";
    let _ = deaf.stream.get_ref().set_write_timeout(Some(Duration::from_millis(100)));
    for _ in 0..1000 {
        if deaf.write(request).is_err() {
            break;
        }
    }
    still_serves(&server);
    assert_eq!(slow_body.read().expect("answers").problem(), "timeout");
    let mut rest = Vec::new();
    let _ = slow_header.stream.read_to_end(&mut rest);
    let _ = idle.stream.read_to_end(&mut rest);
    assert!(begun.elapsed() < Duration::from_secs(60), "all are ended in time");
    let gone = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        deaf.write(request).is_err_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    });
    assert!(gone, "a client that takes nothing is cut off");
    still_serves(&server);
}

#[test]
fn the_longest_at_rest_leaves_for_the_next_and_what_is_answered_stays() {
    let server = Running::with(|settings| settings.limits.connections = 3);
    let mut open: Vec<Client> = (0..3).map(|_| server.client()).collect();
    for client in &mut open {
        assert_eq!(client.get("/v1/health").status, 200);
    }
    still_serves(&server);
    let mut rest = Vec::new();
    assert_eq!(open[0].stream.read_to_end(&mut rest).expect("its end"), 0, "the first has left");
    // Clients that follow something are being answered for as long as they do.
    let mut streams: Vec<Client> = (0..3).map(|_| server.client()).collect();
    for stream in &mut streams {
        stream.send("GET", "/v1/events?follow=true", &[], b"").expect("writes");
        assert_eq!(stream.head().expect("answers").status, 200);
    }
    let mut refused = server.client();
    let got = refused.read().expect("is told");
    assert_eq!((got.problem().as_str(), got.header("retry-after")), ("busy", Some("1")));
    streams.pop();
    let served = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        server.client().try_ask("GET", "/v1/health", &[], "").is_ok_and(|got| got.status == 200)
    });
    assert!(served, "a place that is free again is given away");
}

/// Administrators are answered, and so is another tenant, whatever clients do that are not known yet.
#[test]
fn connections_that_say_nothing_keep_no_client_out() {
    let shared = Shared::new();
    let silent: Vec<Client> = (0..300).map(|_| Client::connect(&shared.door())).collect();
    still_serves(&shared.server);
    assert_eq!(shared.ask(&shared.azure, "GET", "/v1/health", "").status, 200);
    // Connections that have shown a token take no places from those of another tenant, either.
    let mut many = Vec::new();
    for _ in 0..80 {
        let mut client = shared.tenants();
        let got = rights::ask(&mut client, &shared.crimson, "GET", "/v1/health", &[], "");
        assert_eq!(got.status, 200);
        many.push(client);
    }
    assert_eq!(shared.ask(&shared.azure, "GET", "/v1/health", "").status, 200);
    still_serves(&shared.server);
    drop((silent, many));
}

/// Bodies that are announced and do not come take no room, and those that come slowly none of another tenant.
#[test]
fn slow_uploads_keep_no_other_body_out() {
    let shared = Shared::new();
    let length = 4 << 20;
    let mut slow = Vec::new();
    for n in 0..40 {
        let token = if n % 2 == 0 { None } else { Some(&shared.crimson) };
        let mut client = if token.is_some() { shared.tenants() } else { shared.server.client() };
        let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        let head = format!("POST /v1/apply HTTP/1.1\r\nhost: a\r\n{token}content-length: {length}\r\n\r\n");
        client.write(head.as_bytes()).expect("writes");
        client.write(&[b' '; 100]).expect("writes");
        slow.push(client);
    }
    let mut whole = json!({"superfluid": 1}).to_string();
    whole.extend(std::iter::repeat_n(' ', length - whole.len()));
    assert_eq!(shared.server.client().ask("POST", "/v1/apply", &[], &whole).status, 200);
    for token in [&shared.azure, &shared.crimson] {
        assert_eq!(shared.ask(token, "POST", "/v1/apply", &whole).status, 200);
    }
    still_serves(&shared.server);
    drop(slow);
}

/// A client that asks and does not read has a bounded part of the daemon's memory, and takes none of others'.
#[test]
fn answers_that_are_not_read_are_bounded_by_tenant() {
    let shared = Shared::with(|settings| settings.limits.tenant_answers_bytes = 4 << 20);
    // More than the kernel keeps for a connection.
    let config = json!({"note": "x".repeat(1 << 20)});
    for tenant in ["crimson", "azure"] {
        let spec = json!({"image": "firewall", "tenant": tenant, "config": config});
        let path = format!("/v1/functions/{tenant}-large");
        assert_eq!(shared.server.client().put(&path, &spec).status, 201);
    }
    let ask = |client: &mut Client, token: &str, tenant: &str| {
        let shown = format!("Bearer {token}");
        let path = format!("/v1/functions/{tenant}-large");
        client.send("GET", &path, &[("authorization", &shown)], b"").expect("asks");
        client.head().expect("a head").status
    };
    let mut unread: Vec<Client> = (0..6).map(|_| shared.tenants()).collect();
    let statuses: Vec<u16> =
        unread.iter_mut().map(|client| ask(client, &shared.crimson, "crimson")).collect();
    assert_eq!(statuses, [200, 200, 200, 503, 503, 503]);
    let full = shared.ask(&shared.crimson, "GET", "/v1/functions", "");
    assert_eq!(full.problem(), "busy");
    assert!(full.text().contains("allowed: 4194304 bytes together; read them"), "{full:?}");
    // What is small is answered, what is changed is told, and others have their own room.
    assert_eq!(shared.ask(&shared.crimson, "GET", "/v1/functions/crimson-fw", "").status, 200);
    let changed = json!({"image": "firewall", "tenant": "crimson", "config": config});
    assert_eq!(shared.put(&shared.crimson, "/v1/functions/crimson-other", changed).status, 201);
    assert_eq!(ask(&mut shared.tenants(), &shared.azure, "azure"), 200);
    // One that is read, or given up, makes room.
    unread.remove(0);
    let began = Instant::now();
    while shared.ask(&shared.crimson, "GET", "/v1/functions/crimson-large", "").status != 200 {
        assert!(began.elapsed() < Duration::from_secs(20), "the room stays away after its client");
    }
    still_serves(&shared.server);
}

#[test]
fn a_part_of_a_list_ends_when_it_is_large() {
    let shared = Shared::with(|settings| settings.limits.list_bytes = 300_000);
    let config = json!({"note": "x".repeat(100_000)});
    for n in 0..8 {
        let spec = json!({"image": "firewall", "tenant": "crimson", "config": config});
        assert_eq!(shared.put(&shared.crimson, &format!("/v1/functions/crimson-l{n}"), spec).status, 201);
    }
    for token in [Some(&shared.crimson), None] {
        let (mut after, mut parts, mut names) = (String::new(), Vec::new(), Vec::new());
        loop {
            let path = format!("/v1/functions?limit=1000&tenant=crimson{after}");
            let part = match token {
                Some(token) => shared.ask(token, "GET", &path, ""),
                None => shared.server.client().get(&path),
            };
            let part = part.json();
            let items = part["items"].as_array().expect("a list");
            parts.push(items.len());
            names.extend(items.iter().map(|item| item["name"].as_str().expect("a name").to_owned()));
            match part["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => break,
            }
        }
        let all = (0..8).map(|n| format!("crimson-l{n}"));
        let all: Vec<String> =
            ["crimson-eye", "crimson-fw"].map(str::to_owned).into_iter().chain(all).collect();
        assert_eq!((names, parts), (all, vec![5, 3, 2]));
    }
}

#[test]
fn requests_in_one_go_are_answered_in_order() {
    let server = Running::new();
    let mut client = server.client();
    let mut all = Vec::new();
    for n in 0..50 {
        let body = json!({"spec": {"image": format!("i{n}")}}).to_string();
        all.extend(
            format!(
                "PUT /v1/functions/f{n} HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
            .into_bytes(),
        );
    }
    client.write(&all).expect("writes");
    for n in 0..50 {
        let got = client.read().expect("answers");
        assert_eq!((got.status, &got.json()["name"]), (201, &json!(format!("f{n}"))));
    }
}

#[test]
fn a_client_that_leaves_does_not_stop_what_it_began() {
    let server = Running::new();
    let leaves = |method: &str, path: &str, body: &str, kept: &str| {
        let mut client = server.client();
        client.send(method, path, &[], body.as_bytes()).expect("writes");
        server.fake.has_begun(kept);
        drop(client);
        server.fake.let_go(kept);
    };
    let body = json!({"spec": {"image": "kept-compiling-left"}}).to_string();
    leaves("PUT", "/v1/functions/fw?wait=true", &body, "kept-compiling-left");
    let there = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        server.client().get("/v1/functions/fw").status == 200
    });
    assert!(there);
    // Also what is not an operation: a large change, and a pause.
    let mut functions: serde_json::Map<_, _> =
        (0..499).map(|n| (format!("f{n}"), json!({"image": "x"}))).collect();
    functions.insert("p".to_owned(), json!({"image": "kept-pausing-left"}));
    functions.insert("s".to_owned(), json!({"image": "kept-starting-left"}));
    let document = json!({"superfluid": 1, "functions": functions}).to_string();
    leaves("POST", "/v1/apply", &document, "kept-starting-left");
    let there = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        server.client().get("/v1/functions/p").status == 200
    });
    assert!(there);
    leaves("POST", "/v1/functions/p/pause", "", "kept-pausing-left");
    let written = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        let audit = server.audit();
        let has = |path| audit.iter().any(|line| line["path"] == path && line["outcome"] == "done");
        has("/v1/apply") && has("/v1/functions/p/pause")
    });
    assert!(written, "both were made and written down");
    let stored = server.store.read("function", "p").expect("is there");
    assert!(String::from_utf8_lossy(&stored.value).contains("\"paused\":true"));
    assert_eq!(server.fake.world().objects.len(), 502);
}

/// Names that would leave a folder, name something else in it, or look like another name, wherever a request
/// has a name.
#[test]
fn no_name_that_is_none_gets_beyond_the_reader_of_requests() {
    let server = Running::new();
    let mut client = server.client();
    let long = "n".repeat(600);
    let hostile = [
        "..%2F..%2Fetc%2Fpasswd",
        "%2Fetc%2Fpasswd",
        "..",
        "%2e%2e",
        ".hidden",
        "a%00b",
        "a%0Ab",
        "a%2Fb",
        "a%20b",
        "a%E2%80%AEb",
        "-rf",
        long.as_str(),
    ];
    for name in hostile {
        for (method, path, body) in [
            ("GET", format!("/v1/snapshots/{name}"), ""),
            ("DELETE", format!("/v1/snapshots/{name}"), ""),
            ("POST", format!("/v1/snapshots/{name}/restore"), r#"{"function": "x"}"#),
            ("POST", format!("/v1/snapshots/{name}/adopt"), r#"{"tenant": "default"}"#),
            ("GET", format!("/v1/tokens/{name}"), ""),
            ("DELETE", format!("/v1/tokens/{name}"), ""),
            ("GET", format!("/v1/operations/{name}"), ""),
            ("GET", format!("/v1/functions/{name}"), ""),
            ("POST", format!("/v1/functions/{name}/pause"), ""),
            ("GET", format!("/v1/functions/{name}/logs"), ""),
            ("GET", format!("/v1/functions?after={name}"), ""),
            ("GET", format!("/v1/functions?tenant={name}"), ""),
        ] {
            let got = client.ask(method, &path, &[], body);
            assert_eq!((got.status, got.problem().as_str()), (400, "malformed"), "{method} {path}");
        }
        let name = api::paths::unescaped(name).expect("escaped as it should be");
        for (path, body) in [
            ("/v1/functions/fw/snapshots", json!({"name": name})),
            ("/v1/snapshots/s/restore", json!({"function": name})),
            ("/v1/snapshots/s/adopt", json!({"tenant": name})),
            ("/v1/tokens", json!({"name": name, "tenant": "default"})),
            ("/v1/tokens", json!({"name": "t", "tenant": name})),
        ] {
            let got = client.post(path, &body.to_string());
            assert_eq!((got.status, got.problem().as_str()), (422, "invalid"), "{path} {body}");
        }
    }
    still_serves(&server);
}
