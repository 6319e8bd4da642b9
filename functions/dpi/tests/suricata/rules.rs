//! Rules by chance.

use crate::chance::Chance;

/// What captures of datagrams are made of.
pub const WORDS: [&str; 12] = [
    "admin",
    "password",
    "xmrig",
    "cmd.exe",
    "select",
    "ab",
    "abc",
    "aab",
    "baba",
    "/etc/shadow",
    "union",
    "eicar",
];

/// What captures of streams are made of.
pub const TCP_WORDS: [&str; 12] = [
    "admin",
    "password=",
    "xmrig",
    "cmd.exe",
    "union select",
    "abcabd",
    "ababab",
    "/etc/shadow",
    "User-Agent",
    "X5O!P%@AP",
    "meterpreter",
    "<script>",
];

/// What rules are about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// UDP, everything that is decided by a packet.
    Datagram,
    /// TCP, with options that make rules look at packets.
    Segment,
    /// TCP, contents alone.
    Stream,
    /// UDP with thresholds.
    Threshold,
    /// ICMP.
    Message,
}

fn words(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Segment | Kind::Stream => &TCP_WORDS,
        Kind::Threshold => &WORDS[..6],
        Kind::Datagram | Kind::Message => &WORDS,
    }
}

/// A content's text: a word or a part of it, with some bytes in hexadecimal.
fn text(chance: &mut Chance, kind: Kind) -> (String, usize) {
    let word = chance.pick(words(kind)).as_bytes();
    let start = if chance.one_in(3) { chance.below(word.len() as u64) as usize } else { 0 };
    let end = if chance.one_in(3) {
        start + 1 + chance.below((word.len() - start) as u64) as usize
    } else {
        word.len()
    };
    let bytes = &word[start..end];
    let mut out = String::new();
    for byte in bytes {
        if chance.one_in(8) {
            out += &format!("|{byte:02x}|");
        } else {
            out.push(char::from(*byte));
        }
    }
    (out.replace("||", " "), bytes.len())
}

/// Adds a content; whether the next one may be relative to what is before it.
fn content(chance: &mut Chance, kind: Kind, is_first: bool, may_be_relative: bool, out: &mut String) -> bool {
    let (text, length) = text(chance, kind);
    let in_stream = kind == Kind::Stream;
    let is_negated = !in_stream && !is_first && chance.one_in(4);
    *out += &format!("content:{}\"{text}\"; ", if is_negated { "!" } else { "" });
    if chance.one_in(3) {
        *out += "nocase; ";
    }
    let form = chance.below(5);
    match form {
        0 if !is_first && may_be_relative => {
            *out += &format!("distance:{}; ", chance.below(30) as i64 - 8);
            if chance.one_in(2) {
                *out += &format!("within:{}; ", length as u64 + chance.below(40));
            }
        }
        1 if !is_first && may_be_relative => {
            *out += &format!("within:{}; ", length as u64 + chance.below(60))
        }
        2 => {
            if chance.one_in(2) {
                *out += &format!("offset:{}; ", chance.below(20));
            }
            if chance.one_in(2) {
                *out += &format!("depth:{}; ", length as u64 + chance.below(30));
            }
        }
        3 if chance.one_in(3) => *out += "startswith; ",
        4 if !in_stream && !is_negated && chance.one_in(3) => *out += "endswith; ",
        _ => {}
    }
    // Behind one that must not be anywhere, Suricata goes on from the first match before it alone.
    !is_negated || may_be_relative && form < 2
}

fn expression(chance: &mut Chance, kind: Kind, is_first: bool) -> String {
    let word = chance.pick(words(kind)).replace(['.', '/', '%', '!', '=', '<', '>', ' '], ".");
    let body = match chance.below(5) {
        0 => format!("{word}.{{0,10}}[a-c]+"),
        1 => format!("(?:{word}|ad+min)\\w"),
        2 => format!("[{}-z]{word}", chance.pick(&["a", "m"])),
        3 => format!("a+b{word}"),
        _ => format!("{}.*?x", &word[..3.min(word.len())]),
    };
    let relative = if !is_first && chance.one_in(3) { "R" } else { "" };
    let flags = chance.pick(&["", "i", "s", "is"]);
    format!("pcre:\"/{body}/{flags}{relative}\"; ")
}

/// So many rules, one a line.
pub fn generate(chance: &mut Chance, kind: Kind, count: u32) -> String {
    (1..=count).map(|sid| rule(chance, kind, sid)).collect()
}

fn rule(chance: &mut Chance, kind: Kind, sid: u32) -> String {
    let protocol = match kind {
        Kind::Datagram | Kind::Threshold => chance.pick(&["udp", "udp", "udp", "ip"]),
        Kind::Segment | Kind::Stream => "tcp",
        Kind::Message => "icmp",
    };
    let address = |chance: &mut Chance| {
        chance.pick(&[
            "any",
            "any",
            "any",
            "any",
            "$HOME_NET",
            "$EXTERNAL_NET",
            "10.0.0.1",
            "!10.0.0.2",
            "192.0.2.0/30",
            "[10.0.0.0/8,!10.0.0.3]",
            "[192.0.2.1,192.0.2.2,10.0.0.4]",
        ])
    };
    let port = |chance: &mut Chance| {
        if protocol == "icmp" || protocol == "ip" {
            return "any";
        }
        chance.pick(&[
            "any",
            "any",
            "any",
            "any",
            "80",
            "!80",
            "[53,80]",
            "1000:3010",
            "$HTTP_PORTS",
            ":1023",
        ])
    };
    let direction = if chance.one_in(5) { "<>" } else { "->" };
    let (mut source, source_port) = (address(chance), port(chance));
    let (mut destination, mut destination_port) = (address(chance), port(chance));
    if direction == "<>" {
        // Where a packet fits in both ways, Suricata alerts twice.
        (source, destination) =
            (chance.pick(&["$HOME_NET", "10.0.0.1", "any"]), chance.pick(&["$EXTERNAL_NET", "192.0.2.0/30"]));
        if source == "any" {
            (destination, destination_port) = ("any", source_port);
        }
    }
    let mut options = String::new();
    if kind != Kind::Message && chance.one_in(3) {
        let direction = chance.pick(&["to_server", "to_client", "from_client", "from_server"]);
        options += &match chance.below(3) {
            0 => format!("flow:{direction}; "),
            1 => "flow:established; ".to_owned(),
            _ => format!("flow:established,{direction}; "),
        };
    }
    if kind == Kind::Threshold {
        let track = chance.pick(&["by_src", "by_dst"]);
        let form = chance.pick(&["limit", "threshold", "both"]);
        let (count, seconds) = (1 + chance.below(5), 1 + chance.below(30));
        options += &format!("threshold:type {form}, track {track}, count {count}, seconds {seconds}; ");
    }
    let contents = if kind == Kind::Stream { 1 + chance.below(3) } else { chance.below(4) };
    let (mut has_any, mut may_be_relative) = (false, true);
    for _ in 0..contents {
        may_be_relative = content(chance, kind, !has_any, may_be_relative, &mut options);
        has_any = true;
    }
    if has_any && may_be_relative && kind != Kind::Threshold && chance.one_in(6) {
        options += &expression(chance, kind, false);
    }
    if has_any && matches!(kind, Kind::Datagram | Kind::Segment) && chance.one_in(6) {
        let sign = chance.pick(&["", "!"]);
        let relative = if may_be_relative { chance.pick(&["", ",relative"]) } else { "" };
        options += &format!("isdataat:{sign}{}{relative}; ", chance.below(40));
    }
    let must = !has_any;
    match kind {
        Kind::Segment => match chance.below(2) {
            0 => {
                options += &format!(
                    "flags:{}; ",
                    chance.pick(&["S", "SA", "A", "+P", "*PA", "!PA", "A+", "PA", "S,12"])
                )
            }
            _ => options += &size(chance, has_any),
        },
        Kind::Message => match chance.below(3) {
            0 => options += &format!("itype:{}; ", chance.pick(&["8", "0", ">3", "<11", "0<>11"])),
            1 => options += &format!("itype:3; icode:{}; ", chance.pick(&["1", "<2", ">1"])),
            _ => options += &size(chance, has_any),
        },
        Kind::Datagram if must || chance.one_in(3) => match chance.below(3) {
            0 => options += &format!("ttl:{}; ", chance.pick(&["64", "<50", ">70", "30-60"])),
            1 if protocol == "ip" && has_any => {
                options += &format!("ip_proto:{}; ", chance.pick(&["17", "!6", "udp"]))
            }
            _ => options += &size(chance, has_any),
        },
        Kind::Threshold if must => options += &size(chance, false),
        _ => {}
    }
    format!(
        "alert {protocol} {source} {source_port} {direction} {destination} {destination_port} (msg:\"rule {sid}\"; {options}sid:{sid}; rev:1;)\n"
    )
}

/// With contents, only what Suricata takes for possible beside them.
fn size(chance: &mut Chance, has_contents: bool) -> String {
    let low = chance.below(30);
    match chance.below(4) {
        _ if has_contents => format!("dsize:>{low}; "),
        0 => format!("dsize:{low}; "),
        1 => format!("dsize:>{low}; "),
        2 => format!("dsize:<{}; ", low + 1),
        _ => format!("dsize:{low}<>{}; ", low + 2 + chance.below(60)),
    }
}
