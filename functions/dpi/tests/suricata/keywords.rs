//! Every option, alone, with a dialogue that it alerts for and one that it does not: what is expected stands
//! here, and both this function and Suricata have to agree with it.

use crate::capture::{Capture, Conversation};
use crate::chance::Chance;
use crate::peers::{Alert, ours, suricata};

/// Who says what: the client (0) or the server (1).
type Dialogue = Vec<(usize, Vec<u8>)>;

/// A rule's header and options, and what it alerts for and what not.
struct Case {
    protocol: &'static str,
    to_client: bool,
    options: String,
    hit: Dialogue,
    miss: Dialogue,
}

/// Where the first case's server listens: no port that anything is known by.
const FIRST_PORT: u16 = 20_000;

fn request(line: &str, fields: &str, body: &str) -> Dialogue {
    vec![
        (0, format!("{line}\r\nHost: example.test\r\n{fields}\r\n{body}").into_bytes()),
        (1, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()),
    ]
}

fn response(head: &str, body: &[u8]) -> Dialogue {
    let head = format!("{head}Content-Length: {}\r\n\r\n", body.len());
    vec![
        (0, b"GET /index.html HTTP/1.1\r\nHost: example.test\r\n\r\n".to_vec()),
        (1, [head.as_bytes(), body].concat()),
    ]
}

fn get(target: &str) -> Dialogue {
    request(&format!("GET {target} HTTP/1.1"), "", "")
}

fn post(body: &str) -> Dialogue {
    request("POST /form HTTP/1.1", &format!("Content-Length: {}\r\n", body.len()), body)
}

fn page(body: &[u8]) -> Dialogue {
    response("HTTP/1.1 200 OK\r\nServer: test\r\n", body)
}

fn said(text: &[u8]) -> Dialogue {
    vec![(0, text.to_vec()), (1, b"fine\r\n".to_vec())]
}

fn case(options: &str, hit: Dialogue, miss: Dialogue) -> Case {
    Case { protocol: "tcp", to_client: false, options: options.into(), hit, miss }
}

fn answer(options: &str, hit: Dialogue, miss: Dialogue) -> Case {
    Case { to_client: true, ..case(options, hit, miss) }
}

fn targets() -> Vec<Case> {
    let hit = || get("/admin/shell.php?cmd=id");
    let miss = || get("/index.html");
    vec![
        case("http.uri; content:\"/shell.php\";", hit(), miss()),
        case("content:\"/shell.php\"; http_uri;", hit(), miss()),
        case("uricontent:\"/shell.php\";", hit(), miss()),
        case("http.uri.raw; content:\"%41dmin\";", get("/%41dmin"), get("/Admin")),
        case("content:\"%41dmin\"; http_raw_uri;", get("/%41dmin"), get("/Admin")),
        case("http.uri; content:\"/Admin\"; startswith;", get("/%41dmin"), get("/x/%41dmin")),
        case("http.uri; content:\"/a/b\"; startswith; endswith;", get("/a//b"), get("/a/b/c")),
        case("http.uri; content:\"/a/b\"; startswith; endswith;", get("/a/x/../b"), get("/a/x/b")),
        case("http.uri; content:\"/a/b\"; startswith; endswith;", get("/a/./b"), get("/a/.b")),
        case("http.uri; content:\"/a b\"; endswith;", get("/a%20b"), get("/a+b")),
        case("http.uri; content:\"?q=a b\"; endswith;", get("/x?q=a%20b"), get("/x?q=a+b")),
        case("http.uri; content:\"/x?q=1\"; startswith;", get("http://example.test/x?q=1"), get("/y?q=1")),
        case("http.uri; content:\"/a\"; content:\"b\"; distance:2; within:3;", get("/a--b"), get("/a-b")),
        case("http.uri; bsize:4;", get("/abc"), get("/abcd")),
        case("urilen:4; http.uri; content:\"/\";", get("/abc"), get("/abcd")),
        case("urilen:<5; http.uri; content:\"/\";", get("/%61/../bcd"), get("/abcd")),
        case("urilen:4<>8,norm; http.uri; content:\"/a\";", get("/abcde"), get("/abc")),
        case("urilen:>6,raw; http.uri; content:\"/a\";", get("/%61b%63"), get("/abc")),
        case("pcre:\"/^\\/shell\\d+\\.php$/U\";", get("/shell12.php"), get("/x/shell12.php")),
        case("http.uri; content:\"/s\"; pcre:\"/^hell\\d/R\";", get("/shell1"), get("/s/hell1")),
        case("pcre:\"/%41/I\";", get("/%41"), get("/A")),
        case("http.method; content:\"POST\";", post("a=b"), hit()),
        case("content:\"POST\"; http_method;", post("a=b"), hit()),
        case("pcre:\"/^P/M\";", post("a=b"), hit()),
        case("http.request_line; content:\"GET /admin\"; startswith;", hit(), miss()),
        case("http.protocol; content:\"HTTP/1.0\";", request("GET / HTTP/1.0", "", ""), miss()),
        case("http.uri; content:!\"index\"; http.method; content:\"GET\";", hit(), miss()),
        case(
            "content:\"GET\"; http_method; content:\"/shell.php\"; http_uri; content:\"cmd=\"; http_uri;",
            hit(),
            get("/shell.php"),
        ),
        case(
            "content:\"shell\"; http_uri; content:\"Accept: none\";",
            request("GET /shell HTTP/1.1", "Accept: none\r\n", ""),
            get("/shell"),
        ),
    ]
}

fn fields() -> Vec<Case> {
    let with = |field: &str| request("GET / HTTP/1.1", field, "");
    let without = || get("/");
    let bare = |fields: &str| said(format!("GET / HTTP/1.1\r\n{fields}\r\n").as_bytes());
    vec![
        case("http.header; content:\"X-Bot: yes\";", with("X-Bot:   yes\r\n"), with("X-Bot: no\r\n")),
        case("content:\"X-Bot|3a 20|yes|0d 0a|\"; http_header;", with("X-Bot: yes\r\n"), without()),
        case("http.header; content:\"X: a, b\";", with("X: a\r\nY: c\r\nX: b\r\n"), with("X: a\r\n")),
        case(
            "http.header; content:!\"Cookie\"; content:\"X: a\";",
            with("X: a\r\nCookie: b\r\n"),
            with("X: a\r\nCookies: b\r\n"),
        ),
        case(
            "flow:to_server; http.header.raw; content:\"X-Bot:   yes\";",
            with("X-Bot:   yes\r\n"),
            with("X-Bot: yes\r\n"),
        ),
        case(
            "flow:to_server; content:\"X-Bot|3a|   yes\"; http_raw_header;",
            with("X-Bot:   yes\r\n"),
            with("X-Bot: yes\r\n"),
        ),
        case("http.user_agent; content:!\"evil\";", with("User-Agent:\r\n"), without()),
        case("http.host.raw; content:!\"evil\";", bare("Host:\r\n"), bare("")),
        case("http.host; content:!\"evil\";", without(), bare("Host:\r\n")),
        case("flow:to_server; http.header; content:!\"evil\";", bare("A: b\r\n"), bare("Cookie: a\r\n")),
        case("flow:to_server; http.header_names; content:!\"evil\";", bare("Cookie: a\r\n"), bare("")),
        case("pcre:\"/^X-Bot: \\d+\\r$/Hm\";", with("X-Bot: 12\r\n"), with("X-Bot: a12\r\n")),
        case("flow:to_server; pcre:\"/X-Bot:\\s+\\d/D\";", with("X-Bot:  12\r\n"), with("X-Bot: a12\r\n")),
        case(
            "http.header_names; content:\"|0d 0a|Host|0d 0a|X-Bot|0d 0a 0d 0a|\";",
            with("X-Bot: 1\r\n"),
            with("X-Bot: 1\r\nB: 2\r\n"),
        ),
        case(
            "http.header_names; content:\"|0d 0a|Host|0d 0a|X-Bot|0d 0a|B|0d 0a 0d 0a|\";",
            with("X-Bot: 1\r\nx-bot: 2\r\nB: 2\r\n"),
            with("X-Bot: 1\r\nX-Bots: 2\r\nB: 2\r\n"),
        ),
        case(
            "http.cookie; content:\"id=7\"; startswith;",
            with("Cookie: id=7; a=b\r\n"),
            with("X-Cookie: id=7\r\n"),
        ),
        case("content:\"id=7\"; http_cookie;", with("Cookie: id=7\r\n"), with("X: id=7\r\n")),
        case("pcre:\"/id=\\d/C\";", with("Cookie: id=7\r\n"), with("X: id=7\r\n")),
        case(
            "http.user_agent; content:\"evil\"; startswith; endswith;",
            with("User-Agent: evil\r\n"),
            with("User-Agent: evil 2\r\n"),
        ),
        case("content:\"evil\"; http_user_agent;", with("User-Agent: evil\r\n"), with("X: evil\r\n")),
        case("pcre:\"/^evil\\/\\d$/V\";", with("User-Agent: evil/1\r\n"), with("User-Agent: evil/12\r\n")),
        case("http.referer; content:\"bad\";", with("Referer: http://bad/\r\n"), with("X: bad\r\n")),
        case("http.accept; content:\"x/y\";", with("Accept: x/y\r\n"), with("X: x/y\r\n")),
        case("http.accept_enc; content:\"gzip\";", with("Accept-Encoding: gzip\r\n"), with("X: gzip\r\n")),
        case("http.accept_lang; content:\"en\";", with("Accept-Language: en\r\n"), with("X: en\r\n")),
        case("http.connection; content:\"close\";", with("Connection: close\r\n"), with("X: close\r\n")),
        case(
            "http.content_type; content:\"text/x\";",
            with("Content-Type: text/x\r\n"),
            with("X: text/x\r\n"),
        ),
        case("http.content_len; content:\"0\"; startswith;", with("Content-Length: 0\r\n"), with("X: 0\r\n")),
        case(
            "http.host; content:\"example.test\"; startswith; endswith;",
            without(),
            vec![(0, b"GET / HTTP/1.1\r\nHost: x.example.test\r\n\r\n".to_vec())],
        ),
        case(
            "http.host; content:\"big.test\"; endswith;",
            vec![(0, b"GET / HTTP/1.1\r\nHost: big.test:8080\r\n\r\n".to_vec())],
            without(),
        ),
        case(
            "http.host.raw; content:\"BIG.test:8080\";",
            vec![(0, b"GET / HTTP/1.1\r\nHost: BIG.test:8080\r\n\r\n".to_vec())],
            without(),
        ),
        case(
            "pcre:\"/^ex.*\\.test$/W\";",
            without(),
            vec![(0, b"GET / HTTP/1.1\r\nHost: x.example.test\r\n\r\n".to_vec())],
        ),
    ]
}

fn bodies() -> Vec<Case> {
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nevi\r\n2;x=y\r\nl \r\n4\r\npage\r\n0\r\n\r\n";
    let plain = |body: &str| page(body.as_bytes());
    let compressed = |coding: &str, body: &[u8]| {
        response(&format!("HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\n"), body)
    };
    let deflated = |text: &[u8]| miniz_oxide::deflate::compress_to_vec(text, 6);
    let gzip = |text: &[u8]| {
        let mut member = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
        member.extend(deflated(text));
        let crc = text.iter().fold(u32::MAX, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ ((crc & 1) * 0xedb8_8320))
        });
        member.extend((!crc).to_le_bytes());
        member.extend((text.len() as u32).to_le_bytes());
        member
    };
    let ask = || (0, b"GET / HTTP/1.1\r\nHost: example.test\r\n\r\n".to_vec());
    vec![
        case("http.request_body; content:\"pass=\";", post("user=a&pass=b"), post("user=a")),
        case("content:\"pass=\"; http_client_body;", post("user=a&pass=b"), post("user=a")),
        case("pcre:\"/pass=\\w+$/P\";", post("user=a&pass=b"), post("pass=b&user=")),
        case(
            "http.method; content:\"POST\"; http.request_body; content:\"pass=\"; depth:5;",
            post("pass=b"),
            post("a=b&pass=b"),
        ),
        case("http.uri; content:\"/form\"; http.request_body; bsize:6;", post("pass=b"), post("pass=bc")),
        answer("file_data; content:\"evil\";", plain("an evil page"), plain("a page")),
        answer(
            "file.data; content:\"evil\"; content:\"page\"; distance:1; within:4;",
            plain("an evil page"),
            plain("an evil  page"),
        ),
        answer("http.response_body; content:\"evil\";", plain("an evil page"), plain("a page")),
        answer("content:\"evil\"; http_server_body;", plain("an evil page"), plain("a page")),
        answer("pcre:\"/ev.l/Q\";", plain("an evil page"), plain("a page")),
        answer(
            "file_data; content:\"evil page\"; startswith; endswith;",
            vec![ask(), (1, chunked.to_vec())],
            plain("evil, page"),
        ),
        answer(
            "file_data; content:\"evil page\";",
            compressed("gzip", &gzip(b"an evil page")),
            compressed("gzip", &gzip(b"a page")),
        ),
        answer(
            "file_data; content:\"evil page\";",
            compressed("deflate", &deflated(b"an evil page")),
            compressed("deflate", &deflated(b"a page")),
        ),
        answer(
            "file_data; content:\"evil\"; http.stat_code; content:\"200\";",
            plain("an evil page"),
            response("HTTP/1.1 404 Not Found\r\n", b"an evil page"),
        ),
        answer(
            "http.stat_code; content:\"404\";",
            response("HTTP/1.1 404 Not Found\r\n", b"x"),
            plain("404"),
        ),
        answer(
            "content:\"404\"; http_stat_code;",
            response("HTTP/1.1 404 Not Found\r\n", b"x"),
            plain("404"),
        ),
        answer("pcre:\"/^40/S\";", response("HTTP/1.1 404 Not Found\r\n", b"x"), plain("404")),
        answer(
            "http.stat_msg; content:\"Not Found\";",
            response("HTTP/1.1 404 Not Found\r\n", b"x"),
            plain("Not Found"),
        ),
        answer(
            "content:\"Not Found\"; http_stat_msg;",
            response("HTTP/1.1 404 Not Found\r\n", b"x"),
            plain("Not Found"),
        ),
        answer("pcre:\"/Found$/Y\";", response("HTTP/1.1 404 Not Found\r\n", b"x"), plain("Found")),
        answer(
            "http.response_line; content:\"HTTP/1.1 404 Not\"; startswith;",
            response("HTTP/1.1 404 Not Found\r\n", b"x"),
            plain("x"),
        ),
        answer(
            "http.server; content:\"odd\";",
            response("HTTP/1.1 200 OK\r\nServer: odd\r\n", b"x"),
            plain("odd"),
        ),
        answer(
            "http.location; content:\"/there\";",
            response("HTTP/1.1 302 Found\r\nLocation: /there\r\n", b"x"),
            plain("/there"),
        ),
        answer(
            "http.cookie; content:\"id=7\";",
            response("HTTP/1.1 200 OK\r\nSet-Cookie: id=7\r\n", b"x"),
            plain("id=7"),
        ),
        answer(
            "http.header; content:\"X: a\";",
            response("HTTP/1.1 200 OK\r\nX: a\r\n", b"x"),
            plain("X: a"),
        ),
        answer(
            "http.content_type; content:\"text/x\";",
            response("HTTP/1.1 200 OK\r\nContent-Type: text/x\r\n", b"x"),
            plain("x"),
        ),
    ]
}

fn numbers() -> Vec<Case> {
    vec![
        case("content:\"LEN\"; byte_test:2,>,100,0,relative;", said(b"LEN\x00\x65x"), said(b"LEN\x00\x64x")),
        case(
            "content:\"LEN\"; byte_test:2,=,100,1,relative,little;",
            said(b"LEN-\x64\x00x"),
            said(b"LEN-\x00\x64x"),
        ),
        case(
            "pcre:\"/a\\v\\h\\x{41}[\\v]\\V\\H\\R$/\";",
            said(b"a\x0b\xa0A\x85bc\x85"),
            said(b"a\x0b\xa0A\x85b\xa0\x85"),
        ),
        case("CONTENT:\"ab\"; isdataat:3; NoCase; depth:3;", said(b"xABc"), said(b"xxABc")),
        case("content:\"L\"; content:\"X\"; distance:3; within:70000;", said(b"L...X"), said(b"L..X.")),
        case("byte_test:1,!=,65,0;", said(b"B...."), said(b"A....")),
        case("content:\"B\"; byte_test:1,&,0x80,1;", said(b"B\x81..."), said(b"B\x01...")),
        case("content:\"N=\"; byte_test:3,>=,500,0,relative,string,dec;", said(b"N=500;"), said(b"N=499;")),
        case("content:\"N=\"; byte_test:4,=,0x1f,0,relative,string,hex;", said(b"N=001f;"), said(b"N=002f;")),
        case("content:\"N\"; byte_test:1,=,3,0,relative,bitmask 0xf0;", said(b"N\x3a--"), said(b"N\x4a--")),
        case(
            "content:\"L\"; byte_jump:1,0,relative; content:\"X\"; distance:0; within:1;",
            said(b"L\x03abcX"),
            said(b"L\x02abcX"),
        ),
        case(
            "byte_jump:2,0; content:\"X\"; distance:0; within:1;",
            said(b"\x00\x02abX"),
            said(b"\x00\x01abX"),
        ),
        case(
            "content:\"L\"; byte_jump:1,0,relative,multiplier 2; content:\"X\"; distance:0; within:1;",
            said(b"L\x02abcdX"),
            said(b"L\x02abX-"),
        ),
        case(
            "content:\"L\"; byte_jump:1,0,relative,align; content:\"X\"; distance:0; within:1;",
            said(b"L\x03abcdX"),
            said(b"L\x03abcX-"),
        ),
        case(
            "content:\"L\"; byte_jump:1,0,relative,from_beginning; content:\"X\"; distance:0; within:1;",
            said(b"L\x04..X"),
            said(b"L\x03..X"),
        ),
        case(
            "content:\"L\"; byte_jump:1,0,relative,post_offset 1; content:\"X\"; distance:0; within:1;",
            said(b"L\x01abX"),
            said(b"L\x01aX-"),
        ),
        case(
            "content:\"L\"; byte_extract:1,0,size,relative; content:\"X\"; distance:size; within:1;",
            said(b"L\x02abX"),
            said(b"L\x03abX--"),
        ),
        case(
            "byte_extract:1,0,at; content:\"X\"; offset:at; depth:1;",
            said(b"\x03abX--"),
            said(b"\x02abX--"),
        ),
        case(
            "byte_extract:1,0,size; byte_test:1,=,size,1; content:\"--\";",
            said(b"\x03\x03--"),
            said(b"\x02\x03--"),
        ),
        case(
            "content:\"L\"; byte_extract:1,0,size,relative; isdataat:size,relative;",
            said(b"L\x02abcd"),
            said(b"L\x09abcd"),
        ),
        case("content:\"USER\"; isdataat:4,relative;", said(b"USER abcd"), said(b"USER ab")),
        case("content:\"USER\"; isdataat:!4,relative;", said(b"USER ab"), said(b"USER abcd")),
        case("content:\"a\"; pcre:\"/(\\w)\\1{3}/\";", said(b"a xxxx"), said(b"a xxyy")),
        case("content:\"a\"; pcre:\"/user(?!name)/\";", said(b"a user=x"), said(b"a username")),
        case("content:\"a\"; pcre:\"/(?<=x)secret/i\";", said(b"a xSECRET"), said(b"a ySECRET")),
        case("content:\"a\"; pcre:\"/\\<b\\>[\\w.-]+\\x0$/s\";", said(b"a<b>x-.\x00"), said(b"a<b>x-.!\x00")),
    ]
}

fn protocols() -> Vec<Case> {
    let hello = |name: &str, version: u8| vec![(0, client_hello(name, version)), (1, server_hello(version))];
    vec![
        Case {
            protocol: "http",
            ..case("content:\"evil\";", get("/evil"), said(b"evil GET / HTTP/1.1\r\n\r\n"))
        },
        case("app-layer-protocol:http; content:\"evil\";", get("/evil"), said(b"an evil one")),
        case("app-layer-protocol:!http; content:\"evil\";", hello("evil", 3), get("/evil")),
        case("tls.sni; content:\"bad.test\"; endswith;", hello("very.bad.test", 3), hello("bad.test.org", 3)),
        Case {
            protocol: "tls",
            ..case("tls.sni; content:\"bad.test\";", hello("bad.test", 3), hello("good.test", 3))
        },
        Case { protocol: "tls", ..case("content:\"bad.test\";", hello("bad.test", 3), said(b"bad.test")) },
        Case {
            protocol: "tls",
            ..case("tls.version:1.1; tls.sni; content:\"a\";", hello("a.test", 2), hello("a.test", 3))
        },
    ]
}

pub fn client_hello(name: &str, version: u8) -> Vec<u8> {
    let name = name.as_bytes();
    let length = |bytes: usize| (bytes as u16).to_be_bytes();
    let mut extension = vec![0, 0];
    extension.extend(length(name.len() + 5));
    extension.extend(length(name.len() + 3));
    extension.push(0);
    extension.extend(length(name.len()));
    extension.extend(name);
    let mut body = vec![3, version];
    body.extend([7; 32]);
    body.extend([0, 0, 4, 0xc0, 0x2f, 0, 0x2f, 1, 0]);
    body.extend(length(extension.len()));
    body.extend(extension);
    handshake(1, &body)
}

pub fn server_hello(version: u8) -> Vec<u8> {
    let mut body = vec![3, version];
    body.extend([9; 32]);
    body.extend([0, 0xc0, 0x2f, 0]);
    handshake(2, &body)
}

fn handshake(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut record = vec![22, 3, 1];
    record.extend((body.len() as u16 + 4).to_be_bytes());
    record.extend([kind, 0]);
    record.extend((body.len() as u16).to_be_bytes());
    record.extend(body);
    record
}

/// Shows both sides all cases, each with a server's port of its own, and compares them with what is expected.
fn check(name: &str, cases: &[Case]) {
    let (mut rules, mut capture, mut chance) = (String::new(), Capture::default(), Chance(7));
    for (place, case) in cases.iter().enumerate() {
        let port = FIRST_PORT + place as u16;
        let ends =
            if case.to_client { format!("any {port} -> any any") } else { format!("any any -> any {port}") };
        rules += &format!("alert {} {ends} ({} sid:{};)\n", case.protocol, case.options, place + 1);
        for (client, dialogue) in [(1000, &case.hit), (2000, &case.miss)] {
            let mut conversation =
                Conversation::new(([10, 0, 0, 1], client), ([192, 0, 2, 1], port), &mut chance);
            conversation.open(&mut capture);
            for (side, text) in dialogue {
                conversation.say(&mut capture, *side, text);
            }
            conversation.close(&mut capture);
        }
    }
    let (theirs, ours) = (suricata(name, &rules, &capture, true), ours(&rules, &capture));
    let rule = |place: usize| rules.lines().nth(place).unwrap_or_default();
    let mut wrong = vec![];
    for place in 0..cases.len() {
        let tell = |alerts: &[Alert], client: u64| {
            let is_here =
                |alert: &&Alert| alert.0 == place as u64 + 1 && (alert.2 == client || alert.4 == client);
            alerts.iter().filter(is_here).count()
        };
        let counts = |alerts: &[Alert]| (tell(alerts, 1000), tell(alerts, 2000));
        let (theirs, ours) = (counts(&theirs), counts(&ours));
        // Suricata may look at the same bytes in a packet and once more in a chunk of the stream.
        if theirs.0 == 0 || theirs.1 != 0 || ours != (1, 0) {
            wrong.push(format!("Suricata {theirs:?}, this function {ours:?}: {}", rule(place)));
        }
    }
    assert!(wrong.is_empty(), "{name}, expected (1, 0):\n{}", wrong.join("\n"));
}

#[test]
fn requests_and_their_targets() {
    check("targets", &targets());
}

#[test]
fn fields_of_heads() {
    check("fields", &fields());
}

#[test]
fn bodies_and_responses() {
    check("bodies", &bodies());
}

#[test]
fn numbers_and_expressions() {
    check("numbers", &numbers());
}

#[test]
fn protocols_by_content() {
    check("protocols", &protocols());
}

/// Both sides' counts of alerts by rule have to be these.
fn expect(name: &str, rules: &str, capture: &Capture, expected: &[(u64, usize)]) {
    let count = |alerts: &[Alert]| -> Vec<(u64, usize)> {
        let mut sids: Vec<u64> = alerts.iter().map(|alert| alert.0).collect();
        sids.sort_unstable();
        sids.chunk_by(|a, b| a == b).map(|same| (same[0], same.len())).collect()
    };
    assert_eq!(count(&suricata(name, rules, capture, true)), expected, "{name}: Suricata");
    assert_eq!(count(&ours(rules, capture)), expected, "{name}: this function");
}

/// A DNS message that asks for names, or that answers.
pub fn dns(names: &[&str], is_response: bool) -> Vec<u8> {
    let mut message =
        vec![0x12, 0x34, if is_response { 0x81 } else { 1 }, 0, 0, names.len() as u8, 0, 0, 0, 0, 0, 0];
    for name in names {
        for label in name.split('.') {
            message.push(label.len() as u8);
            message.extend(label.bytes());
        }
        message.extend([0, 0, 1, 0, 1]);
    }
    message
}

#[test]
fn names_that_are_asked_for() {
    let rules = "alert dns any any -> any any (dns.query; content:\"bad.test\"; nocase; endswith; sid:1;)\n\
                 alert udp any any -> any any (dns_query; content:\"very.\"; startswith; bsize:13; sid:2;)\n\
                 alert dns any any -> any any (dns.query; content:\"one\"; dns.query; content:\"two\"; sid:3;)\n\
                 alert dns any any -> any any (dns.query; pcre:\"/^x{3}\\./\"; sid:4;)\n\
                 alert dns any any -> any any (content:\"|03|xxx|04|\"; sid:5;)\n\
                 alert tcp any any -> any any (dns.query; content:\"tcp.test\"; sid:6;)";
    let mut capture = Capture::default();
    let (client, server) = ([10, 0, 0, 1], [192, 0, 2, 53]);
    let asked: [&[&str]; 6] =
        [&["very.BAD.test"], &["bad.test.org"], &["xxx.test"], &["one.test"], &["xxx.other"], &["good.test"]];
    for (place, names) in asked.into_iter().enumerate() {
        let ends = ((client, 1000 + place as u16), (server, 53));
        capture.udp(place as u64 * 1000, ends.0, ends.1, 64, &dns(names, false));
        capture.udp(place as u64 * 1000 + 500, ends.1, ends.0, 64, &dns(names, true));
    }
    let mut conversation = Conversation::new((client, 4000), (server, 53), &mut Chance(1));
    conversation.open(&mut capture);
    let message = dns(&["tcp.test"], false);
    conversation.say(&mut capture, 0, &[&(message.len() as u16).to_be_bytes()[..], &message].concat());
    conversation.close(&mut capture);
    expect("dns", rules, &capture, &[(1, 1), (2, 1), (4, 2), (5, 2), (6, 1)]);
}

#[test]
fn what_rules_remember() {
    let rules = "alert udp any any -> any any (content:\"isset\"; flowbits:isset,seen; sid:1;)\n\
                 alert udp any any -> any any (content:\"first\"; flowbits:set,seen; sid:2;)\n\
                 alert udp any any -> any any (content:\"quiet\"; flowbits:set,quiet; flowbits:noalert; sid:3;)\n\
                 alert udp any any -> any any (content:\"isnotset\"; flowbits:isnotset,seen; sid:4;)\n\
                 alert udp any any -> any any (content:\"unset\"; flowbits:unset,seen; sid:5;)\n\
                 alert udp any any -> any any (content:\"toggle\"; flowbits:toggle,seen; sid:6;)\n\
                 alert udp any any -> any any (content:\"either\"; flowbits:isset,seen|quiet; sid:7;)\n\
                 alert udp any any -> any any (content:\"mark\"; xbits:set,marked,track ip_src,expire 60; sid:8;)\n\
                 alert udp any any -> any any (content:\"known\"; xbits:isset,marked,track ip_src; sid:9;)\n\
                 alert udp any any -> any any (content:\"stranger\"; xbits:isnotset,marked,track ip_src; sid:10;)\n\
                 alert http any any -> any any (http.uri; content:\"/one\"; flowbits:set,one; noalert; sid:11;)\n\
                 alert http any any -> any any (http.uri; content:\"/two\"; flowbits:isset,one; sid:12;)";
    let mut capture = Capture::default();
    let mut time = 0;
    let mut dialogue = |address: u8, port: u16, lines: &[&str]| {
        for line in lines {
            time += 1000;
            capture.udp(time, ([10, 0, 0, address], port), ([192, 0, 2, 1], 9000), 64, line.as_bytes());
        }
    };
    dialogue(1, 1000, &["isset", "first", "isset", "isnotset", "unset", "isset"]);
    dialogue(1, 1001, &["either", "quiet", "either"]);
    dialogue(1, 1002, &["toggle", "isset", "toggle", "isset"]);
    dialogue(2, 1003, &["stranger", "known", "mark", "known", "stranger"]);
    dialogue(3, 1004, &["known"]);
    dialogue(2, 1005, &["known", "isnotset"]);
    let mut conversation = Conversation::new(([10, 0, 0, 4], 1006), ([192, 0, 2, 1], 9000), &mut Chance(1));
    conversation.open(&mut capture);
    for target in ["/two", "/one", "/two"] {
        conversation.say(&mut capture, 0, format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        conversation.say(&mut capture, 1, b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx");
    }
    conversation.close(&mut capture);
    let expected = [(1, 2), (2, 1), (4, 1), (5, 1), (6, 2), (7, 1), (8, 1), (9, 2), (10, 1), (12, 1)];
    expect("bits", rules, &capture, &expected);
}

#[test]
fn how_often() {
    let rules = "alert udp any any -> any any (content:\"knock\"; detection_filter:track by_src, count 2, seconds 60; sid:1;)\n\
                 alert udp any any -> any any (content:\"knock\"; threshold:type limit, track by_both, count 1, seconds 60; sid:2;)\n\
                 alert udp any any -> any any (content:\"knock\"; threshold:type threshold, track by_rule, count 3, seconds 60; sid:3;)\n\
                 alert udp any any -> any any (content:\"knock\"; detection_filter:track by_dst, count 3, seconds 1; sid:4;)";
    let mut capture = Capture::default();
    for n in 0..10u8 {
        let client = ([10, 0, 0, 1 + n % 2], 1000);
        capture.udp(u64::from(n) * 300_000, client, ([192, 0, 2, 1], 7), 64, b"knock");
    }
    expect("frequency", rules, &capture, &[(1, 6), (2, 2), (3, 3), (4, 2)]);
}
