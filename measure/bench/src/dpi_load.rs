//! Rules and payloads for the function `dpi`: patterns as rule sets have them, and traffic that seldom meets
//! one.

use crate::frames::Numbers;
use nf_sdk::native::frames::seal;
use packet::checksum;

/// Bytes of an IP packet.
pub(crate) const PACKET: usize = 1500;
/// Bytes of a segment's data.
pub(crate) const PAYLOAD: usize = PACKET - 40;

/// Parts that paths, commands and names in rules are made of.
const PARTS: [&str; 48] = [
    "admin",
    "upload",
    "shell",
    "config",
    "backup",
    "wp-content",
    "cgi-bin",
    "setup",
    "update",
    "gate",
    "panel",
    "login",
    "invoke",
    "eval",
    "base64",
    "powershell",
    "cmd.exe",
    "passwd",
    "shadow",
    "proxy",
    "tunnel",
    "beacon",
    "stage",
    "loader",
    "inject",
    "exploit",
    "payload",
    "vbscript",
    "document",
    "getElement",
    "unescape",
    "fromCharCode",
    "union",
    "select",
    "concat",
    "xp_",
    "utl_",
    "jndi",
    "ldap",
    "rmi",
    "struts",
    "ognl",
    "runtime",
    "getClass",
    "miner",
    "stratum",
    "wallet",
    "bot",
];
const EXTENSIONS: [&str; 12] =
    [".php", ".asp", ".jsp", ".exe", ".dll", ".cgi", ".bin", ".dat", ".js", ".zip", ".scr", ".ps1"];
/// What pages and requests are made of.
const WORDS: [&str; 64] = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "is",
    "that",
    "for",
    "it",
    "as",
    "was",
    "with",
    "be",
    "by",
    "on",
    "not",
    "he",
    "this",
    "are",
    "or",
    "his",
    "from",
    "at",
    "which",
    "but",
    "have",
    "an",
    "had",
    "they",
    "you",
    "were",
    "their",
    "one",
    "all",
    "we",
    "can",
    "her",
    "has",
    "there",
    "been",
    "if",
    "more",
    "when",
    "will",
    "would",
    "who",
    "so",
    "no",
    "<div class=\"",
    "</div>",
    "<a href=\"/",
    "</a>",
    "<span>",
    "</span>",
    "<p>",
    "</p>",
    "<li>",
    "</li>",
    "content",
    "image",
    "title",
    "width=\"100\"",
    "style",
    "script",
];

fn pick<'a>(numbers: &mut Numbers, all: &[&'a str]) -> &'a str {
    all[numbers.below(all.len() as u64) as usize]
}

/// A pattern in a rule's notation: a path, a header, a command, or bytes.
fn pattern(numbers: &mut Numbers) -> String {
    let (a, b) = (pick(numbers, &PARTS), pick(numbers, &PARTS));
    let number = numbers.below(100_000);
    match numbers.below(10) {
        0..4 => format!("/{a}/{b}{number}{}", pick(numbers, &EXTENSIONS)),
        4 => format!("{a}={b}{number}&"),
        5 => format!("X-{a}{number}|3a 20|"),
        6 => format!("{a}({b}{}", number % 1000),
        7 => format!("{a}{number}"),
        _ => {
            let length = 4 + numbers.below(20);
            let bytes = (0..length).map(|_| format!("{:02x} ", numbers.next() as u8)).collect::<String>();
            format!("|{}|", bytes.trim_end())
        }
    }
}

/// So many rules with a content each, every tenth with a second one, every third without regard to case.
pub(crate) fn rules(count: usize, numbers: &mut Numbers) -> String {
    (1..=count)
        .map(|sid| {
            let mut options = format!("content:\"{}\"; ", pattern(numbers));
            if numbers.below(3) == 0 {
                options += "nocase; ";
            }
            if numbers.below(10) == 0 {
                options += &format!("content:\"{}\"; distance:0; ", pattern(numbers));
            }
            format!(
                "alert tcp any any -> any any (msg:\"pattern {sid}\"; flow:established; {options}sid:{sid}; rev:1;)\n"
            )
        })
        .collect()
}

/// A payload of text with markup, or, of every fourth packet, of compressed data, which is as good as noise.
pub(crate) fn payload(length: usize, numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 16);
    if numbers.below(4) == 0 {
        while bytes.len() < length {
            bytes.extend(numbers.next().to_le_bytes());
        }
    } else {
        while bytes.len() < length {
            bytes.extend_from_slice(pick(numbers, &WORDS).as_bytes());
            bytes.push(b' ');
            if numbers.below(24) == 0 {
                bytes.extend_from_slice(b"\r\n");
            }
        }
    }
    bytes.truncate(length);
    bytes
}

/// The one file that a configuration names.
pub(crate) struct OneFile(pub(crate) String);

impl schema::Files for OneFile {
    fn read(&self, _path: &str, _most: u64) -> Result<Vec<u8>, String> {
        Ok(self.0.clone().into_bytes())
    }
}

/// Connections.
const FLOWS: usize = 256;
/// Segments of one pass.
const SEGMENTS: usize = 16_384;
/// Where the sequence number and the checksum are in a frame.
const SEQUENCE: std::ops::Range<usize> = 38..42;
const CHECKSUM: std::ops::Range<usize> = 50..52;

/// Clients that send without an end.
pub(crate) struct Streams {
    next: Vec<u32>,
    /// Whose turn it is.
    order: Vec<usize>,
}

impl Streams {
    pub(crate) fn new(numbers: &mut Numbers) -> Streams {
        Streams {
            next: (0..FLOWS).map(|_| numbers.next() as u32).collect(),
            order: (0..SEGMENTS).map(|_| numbers.below(FLOWS as u64) as usize).collect(),
        }
    }

    /// A segment; one of a handshake has the option of the largest windows.
    fn frame(flow: usize, is_answer: bool, flags: u8, seq: u32, ack: u32, data: &[u8]) -> Vec<u8> {
        let options: &[u8] = if flags & 0x02 == 0 { &[] } else { &[1, 3, 3, 14] };
        let ends = [([10, 0, 0, 1], 20_000 + flow as u16), ([198, 18, 0, 1], 80)];
        let (from, to) = if is_answer { (ends[1], ends[0]) } else { (ends[0], ends[1]) };
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00, 0x45, 0];
        frame.extend((40 + (options.len() + data.len()) as u16).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        frame.extend(from.0);
        frame.extend(to.0);
        frame.extend(from.1.to_be_bytes());
        frame.extend(to.1.to_be_bytes());
        frame.extend(seq.to_be_bytes());
        frame.extend(ack.to_be_bytes());
        frame.extend([0x50 + 4 * options.len() as u8, flags, 0xff, 0xff, 0, 0, 0, 0]);
        frame.extend(options);
        frame.extend(data);
        seal(&mut frame);
        frame
    }

    /// A handshake behind which the client's first byte has the number `next`, and the interface that each
    /// frame comes in by.
    pub(crate) fn handshake(flow: usize, next: u32) -> ([Vec<u8>; 4], [u16; 4]) {
        const SERVER: u32 = 5000;
        let frames = [
            Streams::frame(flow, false, 0x02, next.wrapping_sub(1), 0, &[]),
            Streams::frame(flow, true, 0x12, SERVER, next, &[]),
            Streams::frame(flow, false, 0x10, next, SERVER + 1, &[]),
            Streams::frame(flow, true, 0x10, SERVER + 1, next, &[]),
        ];
        (frames, [0, 1, 0, 1])
    }

    /// What the client says from the byte of this number on.
    pub(crate) fn segment(flow: usize, seq: u32, data: &[u8]) -> Vec<u8> {
        Streams::frame(flow, false, 0x10, seq, 5001, data)
    }

    /// All handshakes, and the interface that each frame comes in by.
    pub(crate) fn opening(&self) -> (Vec<Vec<u8>>, Vec<u16>) {
        let all = || self.next.iter().enumerate().map(|(flow, next)| Streams::handshake(flow, *next));
        (all().flat_map(|(frames, _)| frames).collect(), all().flat_map(|(_, ingress)| ingress).collect())
    }

    /// The segments of a pass; [`Streams::advance`] gives them their places.
    pub(crate) fn segments(&self, numbers: &mut Numbers) -> (Vec<Vec<u8>>, Vec<u16>) {
        let frame = |flow: &usize| {
            let data = payload(PAYLOAD, numbers);
            Streams::segment(*flow, 0, &data)
        };
        (self.order.iter().map(frame).collect(), vec![0; SEGMENTS])
    }

    /// Makes of the same data what the streams go on with.
    pub(crate) fn advance(&mut self, frames: &mut [Vec<u8>]) {
        for (flow, frame) in self.order.iter().zip(frames) {
            let (mut before, next) = ([0; 4], self.next[*flow].to_be_bytes());
            before.copy_from_slice(&frame[SEQUENCE]);
            let sum = u16::from_be_bytes([frame[CHECKSUM.start], frame[CHECKSUM.start + 1]]);
            let sum = checksum::update(sum, &before, &next);
            frame[CHECKSUM].copy_from_slice(&sum.to_be_bytes());
            frame[SEQUENCE].copy_from_slice(&next);
            self.next[*flow] = self.next[*flow].wrapping_add(PAYLOAD as u32);
        }
    }
}
