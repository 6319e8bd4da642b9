//! Messages of applications: however they are cut into segments, and within limits.

use super::frames::{Bench, CLIENT, NONE, SERVER, flags, tcp, udp};
use crate::message::{http, uri};
use nf_sdk::Verdict;
use nf_sdk::native::ConfigValue;
use proptest::prelude::*;

const RULES: &str = "alert http any any -> any any (http.uri; content:\"/shell.php\"; http.cookie; content:\"id=7\"; sid:1;)\n\
                     alert tcp any any -> any any (http.request_body; content:\"pass=\"; sid:2;)\n\
                     alert tcp any any -> any any (file_data; content:\"evil page\"; sid:3;)\n\
                     alert tcp any any -> any any (http.stat_code; content:\"404\"; sid:4;)\n\
                     alert tls any any -> any any (tls.sni; content:\"bad.test\"; tls.version:1.2; sid:5;)\n\
                     alert tcp any any -> any any (http.method; content:\"POST\"; pkt_data; content:\"pass=\"; sid:6;)";

const REQUESTS: &[u8] =
    b"\r\nPOST /a/../shell.php HTTP/1.1\r\nCookie: id=7\r\nContent-Length: 6\r\n\r\npass=b\
                          GET /x HTTP/1.1\nHost: a\n\n";
const RESPONSES: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n\
                           5\r\nevil \r\n4;a=b\r\npage\r\n0\r\nX: y\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nevil page";

/// Both directions in pieces; the sids of all alerts, sorted.
fn dialogue(bench: &mut Bench, pieces: &[usize]) -> Vec<u64> {
    bench.handshake();
    let mut sids = vec![];
    let mut cuts = pieces.iter().copied().cycle();
    for (data, is_server) in [(REQUESTS, false), (RESPONSES, true)] {
        let mut at = 0;
        while at < data.len() {
            let end = data.len().min(at + cuts.next().unwrap_or(1));
            let piece = &data[at..end];
            sids.extend(if is_server {
                bench.server(at as u32, piece)
            } else {
                bench.client(at as u32, piece)
            });
            at = end;
        }
    }
    sids.sort_unstable();
    sids
}

/// What the whole dialogue alerts for.
const ALL: [u64; 6] = [1, 2, 3, 3, 4, 6];

#[test]
fn in_single_bytes_and_as_a_whole() {
    for cut in [1, 2, 3, 7, 50, 1000] {
        assert_eq!(dialogue(&mut Bench::new(RULES, &[]), &[cut]), ALL, "pieces of {cut}");
    }
}

/// Rules that each of these requests is compared with.
fn many_rules() -> String {
    let rule = |n: usize| {
        format!(
            "alert http any any -> any any (http.method; content:\"GET\"; http.uri; content:\"/{n}/\"; sid:{n};)\n"
        )
    };
    (1..100).map(rule).collect()
}

#[test]
fn many_messages_in_a_segment_cost_no_more_than_allowed() {
    let mut bench = Bench::new(&many_rules(), &[]);
    bench.handshake();
    let segment = b"GET P\n\r\n".repeat(180);
    let counts: Vec<u64> = (0..8)
        .map(|n| {
            assert_eq!(bench.client((n * segment.len()) as u32, &segment), NONE);
            bench.count("overloads")
        })
        .collect();
    // The first ones live on what was kept.
    assert_eq!(counts, [0, 0, 1, 2, 3, 4, 5, 6]);
    // With `overload: drop` a segment passes only when its last request was looked at, too.
    let mut bench = Bench::new(&many_rules(), &[("overload", ConfigValue::text("drop"))]);
    bench.handshake();
    let all = [&segment[..], b"GET /7/ HTTP/1.1\r\n\r\n"].concat();
    for n in 0..6 {
        let frame = tcp(CLIENT, SERVER, flags::ACK, 100 + n * all.len() as u32, 500, &all);
        let (verdict, sids) = bench.show(0, frame);
        assert_eq!(verdict == Verdict::Interface(1), sids == [7], "{n}: {verdict:?}, {sids:?}");
    }
    assert!((1..6).contains(&bench.count("overload")));
    // What is usual is looked at to the end.
    let mut bench = Bench::new(&many_rules(), &[]);
    bench.handshake();
    let request = format!("GET /7/{} HTTP/1.1\r\n\r\n", "x".repeat(1000));
    for n in 0..8 {
        assert_eq!(bench.client((n * request.len()) as u32, request.as_bytes()), [7]);
    }
    assert_eq!(bench.count("overloads"), 0);
}

/// Rules that are looked for by a content of the payload: one in a message alone, one in the next, one that
/// only another message has.
#[test]
fn contents_beside_a_method_are_found_in_its_message_however_it_is_cut() {
    let rule = |sid: u64, method: &str, content: &str| {
        format!(
            "alert tcp any any -> any any (http.method; content:\"{method}\"; pkt_data; content:\"{content}\"; sid:{sid};)\n"
        )
    };
    let rules = [
        rule(1, "POST", "/shell.php"),
        rule(2, "GET", "x HTTP/1.1|0a|"),
        rule(3, "GET", "/shell.php"),
        rule(4, "POST", "6|0d 0a 0d 0a|pass=b"),
    ];
    for cut in [1, 2, 3, 7, 50, 90, 1000] {
        let mut bench = Bench::new(&rules.concat(), &[]);
        assert_eq!(dialogue(&mut bench, &[cut]), [1, 2, 4], "pieces of {cut}");
    }
}

/// Rules of which only the method is in a request, and nothing else of them in its packet.
#[test]
fn what_a_method_alone_names_costs_a_request_nothing() {
    let rule = |n: usize| {
        format!(
            "alert http any any -> any any (http.method; content:\"GET\"; pkt_data; content:\"behind-{n}/\"; sid:{n};)\n"
        )
    };
    let mut bench = Bench::new(&(1..100).map(rule).collect::<String>(), &[]);
    bench.handshake();
    let segment = b"GET /a-path/as-long-as-paths-are HTTP/1.1\r\nHost: a\r\n\r\n".repeat(24);
    for n in 0..8 {
        assert_eq!(bench.client((n * segment.len()) as u32, &segment), NONE);
    }
    assert_eq!(bench.count("overloads"), 0);
    let last = b"GET /behind-77/ HTTP/1.1\r\n\r\n";
    assert_eq!(bench.client((8 * segment.len()) as u32, last), [77]);
}

proptest! {
    #[test]
    fn cut_anywhere(pieces in prop::collection::vec(1usize..90, 1..12)) {
        prop_assert_eq!(dialogue(&mut Bench::new(RULES, &[]), &pieces), ALL);
    }

    #[test]
    fn any_head_and_target_is_read(bytes in prop::collection::vec(prop::sample::select(b"GET /.%2e:\r\n ?#\\@[]".to_vec()), 0..200)) {
        let mut fields = crate::message::fields::Fields::default();
        http::request(&bytes, u32::MAX, 256, &mut fields);
        http::response(&bytes, u32::MAX, 256, &mut fields);
        let mut path = vec![];
        uri::normalise(&bytes, &mut path);
        prop_assert!(path.len() <= bytes.len() + 1);
        // What is straight stays so.
        if !path.contains(&b'%') {
            let mut again = vec![];
            uri::normalise(&path, &mut again);
            prop_assert_eq!(&again, &path);
        }
    }

    #[test]
    fn any_stream_is_read(
        data in prop::collection::vec(any::<u8>(), 0..400),
        start in prop::sample::select(vec![&b"GET / HTTP/1.1\r\n"[..], b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"\x16\x03\x01\x00\x30\x01", b"\x00\x1d\x12\x34\x01\x00\x00\x01"]),
        cuts in prop::collection::vec(1usize..60, 1..9),
    ) {
        let mut bench = Bench::new(RULES, &[]);
        bench.handshake();
        let data = [start, &data].concat();
        let (mut at, mut cuts) = (0, cuts.iter().cycle());
        while at < data.len() {
            let end = data.len().min(at + cuts.next().copied().unwrap_or(1));
            bench.client(at as u32, &data[at..end]);
            bench.server(at as u32, &data[at..end]);
            at = end;
        }
    }
}

#[test]
fn targets_as_servers_see_them() {
    let straight = |target: &str| {
        let mut out = vec![];
        uri::normalise(uri::split(target.as_bytes()).1, &mut out);
        String::from_utf8(out).expect("ASCII")
    };
    for (target, path) in [
        ("/a/b", "/a/b"),
        ("/a//b", "/a/b"),
        ("/a/./b/../c", "/a/c"),
        ("/../../a", "/a"),
        // Before the first slash there is nothing to leave.
        ("./a/b", "a/b"),
        ("../.././a", "a"),
        ("%2e%2e/a/../b", "/b"),
        ("..", ""),
        ("a/..", "/"),
        ("/a/..", "/"),
        ("/a/.", "/a/"),
        ("/%2e%2e/%41", "/A"),
        ("/a%2fb", "/a/b"),
        ("\\a\\b", "/a/b"),
        ("/a%zz%4", "/a%zz%4"),
        ("/a?b=%41&c=//x/../y", "/a?b=A&c=//x/../y"),
        ("/%u0041%uff21", "/AA"),
        ("http://user@host:80/a", "/a"),
        ("*", "*"),
        ("", ""),
    ] {
        assert_eq!(straight(target), path, "{target}");
    }
}

#[test]
fn what_is_no_http_is_no_message() {
    let mut bench = Bench::new(RULES, &[]);
    bench.handshake();
    let text =
        b"GETX /shell.php HTTX/1.1\r\nCookie: id=7\r\n\r\n, and so on until it is long enough to be told";
    assert_eq!(bench.client(0, text), NONE);
}

#[test]
fn behind_a_gap_nothing_is_read() {
    let mut bench = Bench::new(RULES, &[]);
    bench.handshake();
    assert_eq!(bench.client(0, b"POST /x HTTP/1.1\r\nContent-Length: 99\r\n\r\n"), NONE);
    let request = b"GET /shell.php HTTP/1.1\r\nCookie: id=7\r\n\r\n";
    bench.client(60, request);
    // The server has what never came by here.
    bench.show(1, tcp(SERVER, CLIENT, flags::ACK, 500, 160 + request.len() as u32, &[]));
    assert_eq!(bench.count("messages-lost"), 1);
}

#[test]
fn bodies_and_memory_are_bounded() {
    let limit = ("body_limit", ConfigValue::Integer(8));
    assert_eq!(dialogue(&mut Bench::new(RULES, &[limit]), &[1000]), [1, 2, 4, 6]);
    let tiny = ("message_memory", ConfigValue::Integer(65_536));
    let mut bench = Bench::new(RULES, &[tiny]);
    for port in 0..400u16 {
        let client = ("10.0.0.9", 1000 + port);
        bench.sids(tcp(client, SERVER, flags::SYN, 9, 0, &[]));
        bench.show(1, tcp(SERVER, client, flags::SYN | flags::ACK, 99, 10, &[]));
        bench.sids(tcp(client, SERVER, flags::ACK, 10, 100, &[]));
        bench.sids(tcp(client, SERVER, flags::ACK, 10, 100, b"GET /without-an-end HTTP/1.1\r\n"));
    }
    let report = bench.report();
    assert!(report["messages"]["sessions"].as_u64() < Some(129), "{}", report["messages"]);
    assert!(bench.count("messages-lost") > 200);
}

#[test]
fn memory_comes_back_with_its_flows() {
    let mut bench = Bench::new(RULES, &[]);
    let free = |bench: &Bench| bench.report()["messages"]["free_bytes"].as_u64().expect("a number");
    let before = free(&bench);
    bench.handshake();
    bench.client(0, b"POST /x HTTP/1.1\r\nContent-Length: 900\r\n\r\nabc");
    assert!(free(&bench) < before);
    bench.now += 8000.0;
    for _ in 0..64 {
        let now = super::frames::at(bench.now);
        bench.runner.timer(now);
        bench.now += 0.5;
    }
    assert_eq!((free(&bench), bench.report()["messages"]["sessions"].as_u64()), (before, Some(0)));
}

#[test]
fn what_is_not_supported_is_left_out_and_told() {
    let rules = "alert tcp any any -> any any (tls.cert_subject; content:\"a\"; sid:1;)\n\
                 alert smb any any -> any any (content:\"b\"; sid:2;)\n\
                 alert udp any any -> any any (content:\"c\"; sid:3;)\n\
                 alert tcp any any -> any any (tls.cert_subject; content:\"d\"; nocase; ja3.hash; sid:4;)";
    let mut bench = Bench::new(rules, &[("unsupported", ConfigValue::text("skip"))]);
    assert_eq!(bench.sids(udp(CLIENT, SERVER, b"c")), [3]);
    let skipped = &bench.report()["rules"]["skipped"];
    assert_eq!(skipped["total"], 3);
    assert_eq!(skipped["lacking"], serde_json::json!({"protocol smb": 1, "tls.cert_subject": 2}));
    assert_eq!(skipped["rules"][1], serde_json::json!({"line": 2, "sid": 2, "lacks": "protocol smb"}));
    let logged =
        bench.runner.host().log().iter().filter(|(_, line)| line.contains("3 rules are left out")).count();
    assert_eq!(logged, 1);
    let line = "test.rules: 3 rules are left out, which ask for what this function does not have (the report has each of \
                them, and `superfluid check --all` lists them with `unsupported: refuse`): 2 tls.cert_subject, 1 protocol smb";
    assert_eq!(bench.runner.host().log()[0].1, line);
    // Without leaving them out, the file is refused, and the first line says how many ask for what.
    let config =
        super::frames::config(&format!("{rules}\nalert tcp any any -> any any (contnet:\"a\"; sid:5;)"), &[]);
    let error = nf_sdk::native::Runner::<crate::Dpi>::new(&config).err().expect("refused");
    let message = error.message();
    let lines: Vec<&str> = message.lines().collect();
    let counts = "test.rules: 3 rules ask for what this function does not have, and `unsupported: skip` leaves them \
                  out: 2 tls.cert_subject, 1 protocol smb";
    assert_eq!((lines[0], lines.len()), (counts, 6), "{lines:#?}");
}

/// Of a file that is taken, before the first packet.
#[test]
fn revisions_and_class_types_are_told() {
    let rules = "alert ip any any -> any any (classtype:trojan-activty; sid:1;)\n\
                 alert ip any any -> any any (classtype:of-my-own; sid:2; rev:1;)\n\
                 alert udp any any -> any any (content:\"c\"; classtype:of-my-own; sid:2; rev:2;)";
    let mut bench = Bench::new(rules, &[]);
    let lines: Vec<&str> = bench.runner.host().log().iter().map(|(_, line)| line.as_str()).collect();
    let classes = "test.rules: 2 rules have a class type that is not known, and priority 3: 1 of-my-own, 1 trojan-activty \
                   (did you mean `trojan-activity`?)";
    assert_eq!(lines, ["test.rules: 1 rules are left out, of which the file has newer revisions", classes]);
    bench.show(0, udp(CLIENT, SERVER, b"c"));
    let events = bench.runner.host().events().iter();
    let alerts: Vec<serde_json::Value> =
        events.map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let told = alerts.iter().find(|event| event["alert"]["signature_id"] == 2).expect("an alert");
    assert_eq!((&told["alert"]["category"], &told["alert"]["severity"]), (&"".into(), &3.into()));
    let report = &bench.report()["rules"];
    let classes = serde_json::json!({"of-my-own": 1, "trojan-activty": 1});
    assert_eq!((&report["replaced"], &report["unknown_classtypes"]), (&1.into(), &classes));
}

#[test]
fn mistakes_are_no_lack() {
    let rules = "alert tcp any any -> any any (tls.cert_subject; contnet:\"a\"; sid:1;)";
    let config = super::frames::config(rules, &[("unsupported", ConfigValue::text("skip"))]);
    let error = nf_sdk::native::Runner::<crate::Dpi>::new(&config).err().expect("refused");
    assert!(error.message().contains("did you mean `content`?"), "{}", error.message());
}

/// Whatever stands before a request, and whatever its method is.
#[test]
fn requests_are_known_behind_empty_lines_and_with_any_method() {
    let request = |method: &str| format!("{method} /shell.php HTTP/1.1\r\nCookie: id=7\r\n\r\n");
    let found = |pieces: &[&str]| {
        let mut bench = Bench::new(RULES, &[]);
        bench.handshake();
        let mut at = 0;
        let mut found = vec![];
        for piece in pieces {
            found.extend(bench.client(at, piece.as_bytes()));
            at += piece.len() as u32;
        }
        found
    };
    for method in ["GET", "GETX", "X", "M-SEARCH"] {
        let request = request(method);
        let (first, rest) = request.split_at(1);
        assert_eq!(found(&[&request]), [1], "{method}");
        assert_eq!(found(&[&"\r\n".repeat(40), &request]), [1], "{method} behind a segment");
        assert_eq!(found(&[&("\r\n".repeat(40) + &request)]), [1], "{method} behind lines");
        assert_eq!(found(&[first, rest]), [1], "{method} in two pieces");
        let bytes: Vec<&str> = request.split("").filter(|byte| !byte.is_empty()).collect();
        assert_eq!(found(&bytes), [1], "{method} in single bytes");
    }
    assert_eq!(found(&[&request("a method")]), NONE);
    assert_eq!(found(&[&request(&"x".repeat(40))]), NONE);
}

/// What one direction says first keeps the other one from being read only when that is none either.
#[test]
fn a_direction_that_says_something_else_hides_no_response() {
    let mut bench = Bench::new(RULES, &[]);
    bench.handshake();
    assert_eq!(
        bench.client(0, b"hello there, who are you?\r\n\r\n and more of the same, and more\r\n"),
        NONE
    );
    assert_eq!(bench.server(0, b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"), [4]);
    let mut bench = Bench::new(RULES, &[]);
    bench.handshake();
    assert_eq!(bench.server(0, b"220 a greeting that is no response\r\n"), NONE);
    assert_eq!(bench.client(0, b"GET /shell.php HTTP/1.1\r\nCookie: id=7\r\n\r\n"), [1]);
}

/// One client's messages, however many and however long, leave memory for those of others.
#[test]
fn messages_without_an_end_take_no_memory_from_others() {
    let memory = ("message_memory", ConfigValue::Integer(256 << 10));
    let mut bench = Bench::new(RULES, &[memory]);
    let open = |bench: &mut Bench, client: (&str, u16)| {
        bench.show(0, tcp(client, SERVER, flags::SYN, 99, 0, &[]));
        bench.show(1, tcp(SERVER, client, flags::SYN | flags::ACK, 499, 100, &[]));
        bench.show(0, tcp(client, SERVER, flags::ACK, 100, 500, &[]));
    };
    let head = [&b"POST /x HTTP/1.1\r\nContent-Length: 90000\r\n\r\n"[..], &[b'x'; 8000]].concat();
    for source in 0..60u16 {
        // From one address, then from several.
        let address = format!("10.0.9.{}", source.saturating_sub(30));
        let client = (address.as_str(), 1000 + source);
        open(&mut bench, client);
        for (number, piece) in head.chunks(1400).enumerate() {
            let seq = 100 + 1400 * number as u32;
            bench.show(0, tcp(client, SERVER, flags::ACK, seq, 500, piece));
        }
        // Meanwhile others have messages in pieces.
        let client = ("10.0.0.77", 2000 + source);
        open(&mut bench, client);
        let first = b"POST /x HTTP/1.1\r\nContent-Length: 10\r\n\r\npass=";
        assert_eq!(bench.sids(tcp(client, SERVER, flags::ACK, 100, 500, first)), [6], "{source}");
        let next = 100 + first.len() as u32;
        assert_eq!(bench.sids(tcp(client, SERVER, flags::ACK, next, 500, b"12345")), [2], "{source}");
    }
    assert!(bench.count("messages-lost") > 0);
}

/// What is left of a body because of a limit is known to have been left.
#[test]
fn bodies_that_are_cut_are_told() {
    use crate::message::Message;
    use crate::message::fields::Fields;
    use crate::rules::Direction;
    use crate::rules::buffer::App;
    let packed = miniz_oxide::deflate::compress_to_vec_zlib(&[b'x'; 5000], 6);
    let head = b"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\n\r\n";
    let message = Message {
        app: App::Http,
        direction: Direction::ToClient,
        head,
        body: Some(&packed),
        begins: true,
        start: 0,
    };
    let taken = |limit| {
        let taken = message.take_body(limit, &mut Fields::default());
        (taken.bytes, taken.is_cut)
    };
    assert_eq!((taken(4000), taken(6000)), ((8000, true), (10_000, false)));
}

/// What its bytes were allowed when they came is there when it has ended, so that rules are compared with all
/// of it.
#[test]
fn long_bodies_are_looked_at_to_their_end() {
    let rule = |options: &str| format!("alert tcp any any -> any any (file_data; {options})\n");
    let plain = rule("content:\"evil\"; pcre:\"/evil p\\w{1,4}/\"; sid:1;");
    // Each of ten thousand places is followed by none of these, but for the last ones.
    let here = rule("content:\"evil\"; nocase; pcre:\"/^.?shell/Rs\"; sid:2;");
    let behind = rule("content:\"evil\"; nocase; pcre:\"/\\d shell/R\"; sid:3;");
    for (rules, fill, expected) in [
        (plain.clone() + &here, "a page ", vec![1, 2]),
        (plain.clone() + &here, "EVIL ", vec![1, 2]),
        (plain + &behind, "EVIL ", vec![1]),
    ] {
        let mut bench = Bench::new(&rules, &[]);
        bench.handshake();
        let body = fill.repeat(50_000 / fill.len()) + "evil shell, evil page";
        let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let mut sids = vec![];
        for (place, piece) in text.as_bytes().chunks(1400).enumerate() {
            sids.extend(bench.server(place as u32 * 1400, piece));
        }
        sids.sort_unstable();
        assert_eq!((sids, bench.count("overloads")), (expected, 0), "{rules}");
    }
}
