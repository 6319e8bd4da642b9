//! Rules about messages by chance, and dialogues of HTTP, DNS and TLS around them: the same rules have to
//! alert for the same flows.
//!
//! A word that a rule looks for is one that dialogues have, in that part of a message or in another, so that
//! rules match here and miss by little there. `DPI_SEEDS=FIRST..LAST` shows others than those that always
//! run, and `DPI_KEEP=FOLDER` keeps rules and captures.

use crate::capture::{Capture, Conversation};
use crate::chance::Chance;
use crate::peers::{Alert, ours, suricata_of_those_that_it_takes};
use std::collections::BTreeMap;

/// Words of all parts.
const WORDS: [&str; 10] =
    ["admin", "evil", "cmd", "id", "shell", "index", "aab", "abab", "user-agent", "exploit"];

/// Parts of requests: sticky, as a modifier, and the flag of an expression; empty where there is none.
const REQUEST: [[&str; 3]; 21] = [
    ["http.uri", "http_uri", "U"],
    ["http.uri", "http_uri", "U"],
    ["http.uri.raw", "http_raw_uri", "I"],
    ["http.method", "http_method", "M"],
    ["http.request_line", "", ""],
    ["http.host", "http_host", "W"],
    ["http.host.raw", "http_raw_host", "Z"],
    ["http.user_agent", "http_user_agent", "V"],
    ["http.referer", "", ""],
    ["http.accept", "", ""],
    ["http.request_body", "http_client_body", "P"],
    ["http.header", "http_header", "H"],
    ["http.header.raw", "http_raw_header", "D"],
    ["http.header_names", "", ""],
    ["http.cookie", "http_cookie", "C"],
    ["http.content_type", "", ""],
    ["http.protocol", "", ""],
    ["http.accept_lang", "", ""],
    ["http.accept_enc", "", ""],
    ["http.connection", "", ""],
    ["http.content_len", "", ""],
];
const RESPONSE: [[&str; 3]; 14] = [
    ["http.stat_code", "http_stat_code", "S"],
    ["http.stat_msg", "http_stat_msg", "Y"],
    ["http.response_line", "", ""],
    ["http.server", "", ""],
    ["http.location", "", ""],
    ["file.data", "", ""],
    ["file.data", "", ""],
    ["http.header", "http_header", "H"],
    ["http.header.raw", "http_raw_header", "D"],
    ["http.cookie", "http_cookie", "C"],
    ["http.content_type", "", ""],
    ["http.protocol", "", ""],
    ["http.connection", "", ""],
    ["http.content_len", "", ""],
];

/// A word that a part may have.
fn word(chance: &mut Chance, part: &str) -> String {
    let of_part: &[&str] = match part {
        "http.method" => &["GET", "POST", "PUT", "ET", "P"],
        "http.stat_code" => &["200", "404", "302", "0", "4"],
        "http.stat_msg" => &["OK", "Not Found", "Found", "o"],
        "http.request_line" => &["GET /", "HTTP/1.1", "POST /", " HTTP/1.0"],
        "http.response_line" => &["HTTP/1.1 200", "404 Not", "HTTP/1.0", "OK"],
        "http.header_names" => &["|0d 0a|Host|0d 0a|", "Cookie", "X-Evil", "|0d 0a|Accept"],
        "http.header" | "http.header.raw" => {
            &["X-Evil|3a| ", "|0d 0a|Accept", "Host|3a|", "Server|3a 20|", "|0d 0a|"]
        }
        "http.content_type" => &["text/", "html", "text/html", "x-"],
        "http.uri" | "http.uri.raw" | "http.location" => {
            &["/", "/admin/", "?id=", ".php", "%", "&", "//", "A"]
        }
        "http.protocol" => &["HTTP/1.1", "HTTP/1.0", "1.", "HTTP/"],
        "http.content_len" => &["1", "2", "3", "0"],
        "http.cookie" => &["id=", "a=b", "|3b 20|"],
        _ => &["admin", "evil shell", "abababab"],
    };
    if chance.one_in(2) { chance.pick(of_part) } else { chance.pick(&WORDS) }.to_owned()
}

/// Bytes of a content.
fn length(text: &str) -> u64 {
    text.split('|')
        .enumerate()
        .map(|(place, part)| if place % 2 == 1 { part.split(' ').count() } else { part.len() })
        .sum::<usize>() as u64
}

/// Contents and conditions of a part; whether some content is there that is not negated.
fn looked_for(chance: &mut Chance, part: [&str; 3], as_modifier: bool, out: &mut String) {
    let [sticky, modifier, flag] = part;
    if !as_modifier {
        *out += sticky;
        *out += "; ";
    }
    let mut may_be_relative = false;
    for place in 0..1 + chance.below(3) {
        let mut text = word(chance, sticky);
        if matches!(sticky, "http.method" | "http.host" | "http.host.raw") {
            text = text.trim().to_owned();
        }
        let is_negated = place > 0 && chance.one_in(4) || chance.one_in(12);
        let length = length(&text);
        *out += &format!("content:{}\"{text}\"; ", if is_negated { "!" } else { "" });
        if chance.one_in(3) && !sticky.starts_with("http.host") {
            *out += "nocase; ";
        }
        let mut is_relative = false;
        match chance.below(7) {
            0 if may_be_relative && !as_modifier => {
                is_relative = true;
                *out += &format!("distance:{}; ", chance.below(20) as i64 - 5);
                if chance.one_in(2) {
                    *out += &format!("within:{}; ", length + chance.below(30));
                }
            }
            1 if may_be_relative && !as_modifier => {
                is_relative = true;
                *out += &format!("within:{}; ", length + chance.below(30));
            }
            2 => {
                let offset = chance.one_in(2);
                if offset {
                    *out += &format!("offset:{}; ", chance.below(12));
                }
                if chance.one_in(2) || !offset {
                    *out += &format!("depth:{}; ", length + chance.below(20));
                }
            }
            3 => *out += "startswith; ",
            4 if !is_negated => *out += "endswith; ",
            _ => {}
        }
        if as_modifier {
            *out += &format!("{modifier}; ");
        }
        may_be_relative = !is_negated || may_be_relative && is_relative;
    }
    match chance.below(10) {
        0 | 1 if !flag.is_empty() && as_modifier => *out += &expression(chance, sticky, flag),
        0 if !as_modifier => *out += &expression(chance, sticky, ""),
        1 if !as_modifier && may_be_relative => *out += &expression(chance, sticky, "R"),
        2 if !as_modifier => {
            let length = chance.below(30);
            *out += &match chance.below(3) {
                0 => format!("bsize:>{length}; "),
                1 => format!("bsize:<{}; ", length + 1),
                _ => format!("bsize:{length}<>{}; ", length + 2 + chance.below(20)),
            };
        }
        3 if !as_modifier && may_be_relative => {
            // `!1` is the last content's `endswith` for Suricata, also of one that is negated.
            *out += &format!("isdataat:{}{},relative; ", chance.pick(&["", "!"]), 2 + chance.below(20));
        }
        // Suricata may look at the first bytes of a compressed body before the others are there.
        4 if !as_modifier && sticky != "file.data" => {
            *out += &format!("isdataat:{}{}; ", chance.pick(&["", "!"]), chance.below(30))
        }
        _ => {}
    }
}

/// An expression; of `file.data`, which may be long, none that goes back and forth or is searched for in all
/// of it from each place.
fn expression(chance: &mut Chance, part: &str, flag: &str) -> String {
    let word = chance.pick(&WORDS);
    let is_long = part == "file.data";
    let body = match chance.below(if is_long { 4 } else { 6 }) {
        0 => format!("{word}.{{0,9}}[a-c]"),
        1 => format!("(?:{word}|ad+min)\\W"),
        2 => format!("^.?{word}"),
        3 => format!("{word}$"),
        4 => "(a+b)\\1".to_owned(),
        _ => format!("[?&\\/]{word}(?!x)"),
    };
    format!("pcre:\"/{body}/{}{flag}\"; ", chance.pick(&["", "i", "s", if is_long { "" } else { "m" }]))
}

fn rule(chance: &mut Chance, sid: u32) -> String {
    let to_client = chance.one_in(3);
    let mut options = match (chance.below(3), to_client) {
        (0, false) => "flow:to_server; ",
        (0, true) => "flow:to_client; ",
        (_, false) => "flow:established,to_server; ",
        (_, true) => "flow:established,to_client; ",
    }
    .to_owned();
    let parts: &[[&str; 3]] = if to_client { &RESPONSE } else { &REQUEST };
    // Modifiers stand before sticky names, or alone.
    let mut modifiers = [0, 0, 1, 3][chance.below(4) as usize];
    for _ in 0..1 + chance.below(3) {
        let part = parts[chance.below(parts.len() as u64) as usize];
        // Of these two Suricata misses some.
        if part[0] == "file.data" && options.contains("raw")
            || part[0] == "http.header.raw" && options.contains("file.data")
        {
            continue;
        }
        let as_modifier = modifiers > 0 && !part[1].is_empty();
        modifiers = if as_modifier { modifiers - 1 } else { 0 };
        looked_for(chance, part, as_modifier, &mut options);
    }
    if !options.contains("content") {
        return rule(chance, sid);
    }
    if !to_client && chance.one_in(8) {
        let length = chance.below(30);
        options += &format!(
            "urilen:{}{}{}; ",
            chance.pick(&["", "<", ">"]),
            length + 1,
            chance.pick(&["", ",norm", ",raw"])
        );
    }
    let protocol = chance.pick(&["tcp", "http"]);
    format!("alert {protocol} any any -> any any (msg:\"{sid}\"; {options}sid:{sid};)\n")
}

/// Words, in other cases too, and what stands between them.
fn text(chance: &mut Chance, most: u64, between: &[&str]) -> String {
    let mut out = String::new();
    for place in 0..1 + chance.below(most) {
        if place > 0 {
            out += chance.pick(between);
        }
        let word = chance.pick(&WORDS);
        out += &if chance.one_in(6) { word.to_uppercase() } else { word.to_owned() };
    }
    out
}

fn target(chance: &mut Chance) -> String {
    let mut out = String::from("/");
    out += &text(chance, 4, &["/", "/", "//", "/./", "/../", "%2f", ".php"]);
    if chance.one_in(2) {
        out += "?";
        out += &text(chance, 4, &["=", "&", "%20", "+", "%41", "/../", "?id="]);
    }
    out
}

fn fields(chance: &mut Chance, names: &[&str]) -> String {
    let mut out = String::new();
    for name in names {
        for _ in 0..[0, 0, 1, 1, 1, 2][chance.below(6) as usize] {
            let blank = chance.pick(&[" ", " ", " ", "", "  "]);
            out += &format!("{name}:{blank}{}\r\n", text(chance, 3, &[" ", "; ", "=", ", ", "/"]));
        }
    }
    out
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    out.extend(miniz_oxide::deflate::compress_to_vec(data, 6));
    out.extend(crc32(data).to_le_bytes());
    out.extend((data.len() as u32).to_le_bytes());
    out
}

fn crc32(data: &[u8]) -> u32 {
    !data.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

/// A request; its method.
fn request(chance: &mut Chance) -> (&'static str, Vec<u8>) {
    let method = chance.pick(&["GET", "GET", "POST", "PUT", "HEAD"]);
    let version = chance.pick(&["1.1", "1.1", "1.1", "1.0"]);
    let host = chance.pick(&WORDS);
    let end = if chance.one_in(8) { "\n" } else { "\r\n" };
    let authority = if chance.one_in(10) { format!("http://{host}.test") } else { String::new() };
    let mut out = format!("{method} {authority}{} HTTP/{version}\r\nHost: {host}.test\r\n", target(chance));
    out += &fields(
        chance,
        &[
            "User-Agent",
            "Referer",
            "Accept",
            "Cookie",
            "X-Evil",
            "Content-Type",
            "Accept-Language",
            "Accept-Encoding",
            "X-Other",
        ],
    );
    let body = match method {
        "GET" | "HEAD" => return (method, (out + "\r\n").replace("\r\n", end).into_bytes()),
        _ => text(chance, 20, &["=", "&", " ", "\r\n"]),
    };
    // Suricata counts the line behind the last chunk to the head.
    if version == "1.1" && end != "\n" && chance.one_in(4) {
        let size = 1 + chance.below(60) as usize;
        let mut out = (out + "Transfer-Encoding: chunked\r\n\r\n").replace("\r\n", end).into_bytes();
        out.extend(in_chunks(body.as_bytes(), size));
        return (method, out);
    }
    let head = (out + &format!("Content-Length: {}\r\n\r\n", body.len())).replace("\r\n", end);
    (method, (head + &body).into_bytes())
}

fn in_chunks(body: &[u8], size: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in body.chunks(size) {
        out.extend(format!("{:x}\r\n", chunk.len()).bytes());
        out.extend(chunk);
        out.extend(b"\r\n");
    }
    out.extend(b"0\r\n\r\n");
    out
}

/// What answers a request with this method; `is_last`: the connection may end it.
fn response(chance: &mut Chance, method: &str, is_last: bool) -> Vec<u8> {
    let status = chance.pick(&["200 OK", "200 OK", "200 OK", "404 Not Found", "302 Found", "204 No Content"]);
    let mut out = format!("HTTP/1.1 {status}\r\n");
    out += &fields(chance, &["Server", "Location", "Set-Cookie", "X-Evil", "Content-Type", "Connection"]);
    if status.starts_with("204") {
        return (out + "\r\n").into_bytes();
    }
    // Longer ones that are compressed would take more work than there is for 200 rules.
    let most = [30, 30, 30, 400][chance.below(4) as usize];
    let mut body = text(chance, most, &[" ", "\r\n", "<", "="]).into_bytes();
    match chance.below(6) {
        0 | 1 => {
            body = gzip(&body);
            out += "Content-Encoding: gzip\r\n";
        }
        2 => {
            body = miniz_oxide::deflate::compress_to_vec(&body, 6);
            out += "Content-Encoding: deflate\r\n";
        }
        3 if chance.one_in(2) => {
            body = miniz_oxide::deflate::compress_to_vec_zlib(&body, 6);
            out += "Content-Encoding: deflate\r\n";
        }
        _ => {}
    }
    if method == "HEAD" {
        return (out + &format!("Content-Length: {}\r\n\r\n", body.len())).into_bytes();
    }
    if is_last && chance.one_in(8) {
        return [(out + "\r\n").into_bytes(), body].concat();
    }
    let (fields, body) = if chance.one_in(3) {
        // Of a zlib stream in chunks of a few bytes Suricata does not undo all.
        let size = 20 + chance.below(300) as usize;
        ("Transfer-Encoding: chunked\r\n\r\n".to_owned(), in_chunks(&body, size))
    } else {
        (format!("Content-Length: {}\r\n\r\n", body.len()), body)
    };
    [(out + &fields).into_bytes(), body].concat()
}

/// Says something whole, or in pieces of all sizes and orders.
fn say(
    conversation: &mut Conversation,
    capture: &mut Capture,
    side: usize,
    said: &[u8],
    chance: &mut Chance,
) {
    if chance.one_in(2) {
        conversation.say_in_pieces(capture, side, said, chance);
    } else {
        for piece in said.chunks(1400) {
            conversation.say(capture, side, piece);
        }
    }
}

/// Seeds that are shown.
pub fn seeds(usual: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let Ok(asked) = std::env::var("DPI_SEEDS") else { return usual };
    let (first, last) = asked.split_once("..").expect("DPI_SEEDS=FIRST..LAST");
    first.parse().expect("the first seed")..last.parse().expect("the seed behind the last")
}

/// Rules and clients' ports, each once.
fn flows(alerts: Vec<Alert>) -> BTreeMap<(u64, u64), ()> {
    alerts.into_iter().map(|alert| ((alert.0, alert.2.max(alert.4)), ())).collect()
}

/// Shows both sides the same; a line for each difference.
pub fn differences(name: &str, rules: &str, capture: &Capture) -> Vec<String> {
    if let Ok(folder) = std::env::var("DPI_KEEP") {
        let path = format!("{folder}/{}", name.replace(' ', "-"));
        std::fs::write(format!("{path}.rules"), rules).expect("rules");
        std::fs::write(format!("{path}.pcap"), capture.pcap()).expect("a capture");
    }
    let (rules, theirs) = suricata_of_those_that_it_takes(name, rules, capture);
    let rules = rules.as_str();
    let (theirs, ours) = (flows(theirs), flows(ours(rules, capture)));
    assert!(theirs.len() > 20, "{name}: only {} alerts", theirs.len());
    let rule = |sid: u64| rules.lines().nth(sid as usize - 1).unwrap_or_default();
    let only = |who: &str, one: &BTreeMap<(u64, u64), ()>, other: &BTreeMap<(u64, u64), ()>| {
        let missing: Vec<_> = one.keys().filter(|key| !other.contains_key(key)).copied().collect();
        let mut by_rule: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (sid, port) in missing {
            by_rule.entry(sid).or_default().push(port);
        }
        let line = |(sid, ports): (u64, Vec<u64>)| {
            format!("{name}: only {who}, {} flows such as {}: {}", ports.len(), ports[0], rule(sid))
        };
        by_rule.into_iter().map(line).collect::<Vec<_>>()
    };
    let mut lines = only("this function", &ours, &theirs);
    lines.extend(only("Suricata", &theirs, &ours));
    lines
}

#[test]
fn messages_by_chance() {
    let mut wrong = vec![];
    for seed in seeds(600..606) {
        let mut chance = Chance(seed);
        let rules: String = (1..=200).map(|sid| rule(&mut chance, sid)).collect();
        let mut capture = Capture::default();
        for n in 0..120 {
            let client = ([10, 0, 0, 1 + n as u8 % 4], 30_000 + n);
            let mut conversation = Conversation::new(client, ([192, 0, 2, 1], 80), &mut chance);
            conversation.open(&mut capture);
            let turns = 1 + u64::from(chance.one_in(4));
            let asked: Vec<_> = (0..turns).map(|_| request(&mut chance)).collect();
            let answers: Vec<_> = asked
                .iter()
                .enumerate()
                .map(|(turn, (method, _))| response(&mut chance, method, turn + 1 == asked.len()))
                .collect();
            if chance.one_in(4) {
                // All requests before the first answer.
                let asked: Vec<u8> = asked.into_iter().flat_map(|(_, text)| text).collect();
                say(&mut conversation, &mut capture, 0, &asked, &mut chance);
                say(&mut conversation, &mut capture, 1, &answers.concat(), &mut chance);
            } else {
                for ((_, asked), answer) in asked.iter().zip(&answers) {
                    say(&mut conversation, &mut capture, 0, asked, &mut chance);
                    say(&mut conversation, &mut capture, 1, answer, &mut chance);
                }
            }
            conversation.close(&mut capture);
        }
        wrong.extend(differences(&format!("messages by chance {seed}"), &rules, &capture));
    }
    assert!(wrong.is_empty(), "{} rules differ\n{}", wrong.len(), wrong.join("\n"));
}
