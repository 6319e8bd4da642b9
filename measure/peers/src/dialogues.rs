//! Traffic to inspect and rules to inspect it by: TCP connections from the first SYN to the last FIN, that
//! carry requests and pages, mail-like text and binary data, and one thousand contents to look for, of which
//! each connection carries one.
//!
//! 1. [`Ruleset::new`] draws the contents: paths of scripts, header lines, commands, words in any case, and
//!    bytes. Many begin as harmless traffic does.
//! 2. [`Ruleset::text`] writes them as rules in the subset that both sides read.
//! 3. [`Dialogues::write`] writes connections to a capture. Each carries one of the contents, once, somewhere
//!    inside one segment: one packet in forty. So it is known how many alerts there have to be.
//!
//! Limits: IPv4, in order, without losses or overlaps, and no content across two segments, of which Suricata
//! misses some; what streams may look like otherwise is for the tests of `dpi`.

use crate::PeerError;
use crate::connection::{Connection, Output, SEGMENT};
use crate::frames::{Numbers, Segment};
use crate::speech::{Speeches, Text, binary};
use std::path::Path;

/// Harmless traffic.
const TEXT: Text = Text { words: WORDS, marks: BEGINNINGS };

const WORDS: &[&str] = &[
    "the", "server", "request", "session", "index", "update", "account", "window", "network", "content",
    "report", "image", "design", "search", "system", "login", "public", "market", "summer", "result",
    "letter", "garden", "number", "market", "person", "moment", "engine", "travel", "office", "script",
    "cmd", "exec", "select", "union", "admin", "passwd",
];

/// What contents begin with; harmless traffic has these as well.
const BEGINNINGS: &[&str] = &[
    "/cgi-bin/",
    "/admin/",
    "User-Agent: ",
    "cmd.exe /c ",
    "GET /",
    "POST /",
    "<script>",
    "Host: ",
    "SELECT ",
    "/etc/",
];

const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789-_";

/// One content to look for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Whether letters match in either case.
    pub any_case: bool,
}

/// The rules.
#[derive(Clone, Debug)]
pub struct Ruleset(Vec<Content>);

impl Ruleset {
    /// So many rules, always the same.
    pub fn new(count: usize) -> Ruleset {
        let mut numbers = Numbers(0x5eed);
        Ruleset((0..count).map(|n| content(n, &mut numbers)).collect())
    }

    /// The rules, one a line; the numbers begin with 1.
    pub fn text(&self) -> String {
        let rule = |(n, content): (usize, &Content)| {
            format!(
                "alert tcp any any -> any any (msg:\"content {n}\"; content:\"{}\"; {}sid:{n}; rev:1;)\n",
                escaped(&content.bytes),
                if content.any_case { "nocase; " } else { "" }
            )
        };
        (1..).zip(&self.0).map(rule).collect()
    }

    /// The contents, in the order of the rules.
    pub fn contents(&self) -> &[Content] {
        &self.0
    }
}

fn content(n: usize, numbers: &mut Numbers) -> Content {
    let mut bytes = Vec::new();
    if n % 5 == 4 {
        // Machine code, or a protocol's magic.
        bytes.extend((0..6 + numbers.below(10)).map(|_| numbers.next() as u8));
        return Content { bytes, any_case: false };
    }
    if n % 5 < 3 {
        bytes.extend(BEGINNINGS[numbers.below(BEGINNINGS.len() as u64) as usize].as_bytes());
    }
    bytes.extend((0..8 + numbers.below(12)).map(|_| LETTERS[numbers.below(LETTERS.len() as u64) as usize]));
    Content { bytes, any_case: n % 5 == 3 }
}

/// A content as rules have it: anything but letters and digits in hexadecimal.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b' ' | b'<' | b'>' => {
                text.push(char::from(*byte));
            }
            other => text += &format!("|{other:02x}|"),
        }
    }
    text
}

/// What was written to a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dialogues {
    /// Connections.
    pub connections: u32,
    /// Connections that carry a content, once.
    pub carriers: u32,
    /// Frames.
    pub packets: u64,
    /// Bytes of the frames.
    pub bytes: u64,
}

impl Dialogues {
    /// Writes a capture of `connections` connections, `AT_ONCE` of which are open at a time.
    ///
    /// # Errors
    /// [`PeerError::File`].
    pub fn write(path: &Path, rules: &Ruleset, connections: u32) -> Result<Dialogues, PeerError> {
        const AT_ONCE: u32 = 64;
        let mut output = Output::create(path)?;
        let mut numbers = Numbers(0xd1a1);
        let mut carriers = 0;
        let mut open: Vec<Connection> = Vec::new();
        let mut begun = 0;
        while begun < connections || !open.is_empty() {
            while begun < connections && open.len() < AT_ONCE as usize {
                let carried = rules.0.get(numbers.below(rules.0.len() as u64) as usize);
                carriers += u32::from(carried.is_some());
                open.push(self::open(begun, carried, &mut numbers, &mut output)?);
                begun += 1;
            }
            let which = numbers.below(open.len() as u64) as usize;
            if !open[which].go_on(&mut output)? {
                open.swap_remove(which);
            }
        }
        let packets = output.packets;
        Ok(Dialogues { connections, carriers, packets, bytes: output.finish()? })
    }
}

/// A connection of one's own client with a server.
fn open(
    number: u32,
    carried: Option<&Content>,
    numbers: &mut Numbers,
    output: &mut Output,
) -> Result<Connection, PeerError> {
    let server = numbers.below(200) as u32;
    let mut speeches = speeches(numbers);
    if let Some(content) = carried {
        let which = numbers.below(speeches.len() as u64) as usize;
        let text = &mut speeches[which].1;
        let at = within_a_segment(numbers.below(text.len() as u64 + 1) as usize, content.bytes.len());
        let mut bytes = content.bytes.clone();
        if content.any_case && numbers.below(2) == 0 {
            bytes.make_ascii_uppercase();
        }
        text.splice(at..at, bytes);
    }
    let segment = Segment {
        source: 0x0a00_0000 | (number & 0xff_ffff),
        destination: 0xc633_6400 | server,
        source_port: 1024 + (number.wrapping_mul(7919) % 60_000) as u16,
        destination_port: [80, 8080, 25, 9000][server as usize % 4],
        sequence: numbers.next() as u32,
        acknowledged: numbers.next() as u32,
        flags: 0,
    };
    Connection::open(segment, speeches, output)
}

/// The place itself, or the nearest before it where so many bytes do not lie across the end of a segment.
fn within_a_segment(place: usize, length: usize) -> usize {
    let end = (place / SEGMENT + 1) * SEGMENT;
    if place + length > end { end.saturating_sub(length) } else { place }
}

/// What is said on a connection, in turns, the client first.
fn speeches(numbers: &mut Numbers) -> Speeches {
    let mut said = Vec::new();
    match numbers.below(10) {
        // Requests and pages.
        0..6 => {
            for _ in 0..1 + numbers.below(3) {
                said.push((false, request(numbers)));
                let length = 2_000 + numbers.below(30_000) as usize;
                let body =
                    if numbers.below(4) == 0 { binary(length, numbers) } else { TEXT.page(length, numbers) };
                let mut answer = format!(
                    "HTTP/1.1 200 OK\r\nServer: edge\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                )
                .into_bytes();
                answer.extend(body);
                said.push((true, answer));
            }
        }
        // Mail and logs.
        6..8 => {
            said.push((true, b"220 ready\r\n".to_vec()));
            said.push((false, TEXT.page(1_000 + numbers.below(20_000) as usize, numbers)));
            said.push((true, b"250 accepted\r\n".to_vec()));
        }
        // Data.
        _ => {
            said.push((false, binary(64 + numbers.below(512) as usize, numbers)));
            said.push((true, binary(4_000 + numbers.below(40_000) as usize, numbers)));
        }
    }
    said
}

fn request(numbers: &mut Numbers) -> Vec<u8> {
    let folder = ["/cgi-bin/", "/admin/", "/static/", "/"][numbers.below(4) as usize];
    let mut text = format!(
        "GET {folder}{}/{}.html?{}={} HTTP/1.1\r\nHost: www.{}.example\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) {}\r\n\
         Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\nCookie: id=",
        TEXT.word(numbers),
        TEXT.word(numbers),
        TEXT.word(numbers),
        numbers.below(100_000),
        TEXT.word(numbers),
        TEXT.word(numbers),
    )
    .into_bytes();
    text.extend((0..40).map(|_| LETTERS[numbers.below(36) as usize]));
    text.extend(b"\r\nConnection: keep-alive\r\n\r\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Folder;
    use crate::connection::SYN;
    use std::collections::{HashMap, HashSet};

    #[test]
    fn rules_differ_and_are_written_without_anything_that_would_end_a_content() {
        let rules = Ruleset::new(1000);
        assert_eq!(rules.contents().iter().map(|content| &content.bytes).collect::<HashSet<_>>().len(), 1000);
        let text = rules.text();
        assert_eq!(text.lines().count(), 1000);
        assert!(text.contains("nocase; sid:4; "), "{}", text.lines().nth(3).unwrap_or_default());
        for line in text.lines() {
            assert_eq!(line.matches('"').count(), 4, "{line}");
            assert_eq!(line.matches(';').count(), 4 + usize::from(line.contains("nocase")), "{line}");
        }
        assert_eq!(escaped(b"a:\"\\;|\xff"), "a|3a||22||5c||3b||7c||ff|");
    }

    #[test]
    fn streams_are_whole_and_each_connection_carries_one_content_once() {
        let folder = Folder::new().expect("a folder");
        let path = folder.file("x.pcap");
        let rules = Ruleset::new(1000);
        let written = Dialogues::write(&path, &rules, 12).expect("a capture");
        let frames = crate::read_frames(&path).expect("frames");
        assert_eq!((written.connections, written.carriers, written.packets), (12, 12, frames.len() as u64));
        assert_eq!(written.bytes, frames.iter().map(|frame| frame.len() as u64).sum::<u64>());
        let mut streams: HashMap<Vec<u8>, (Option<u32>, Vec<u8>)> = HashMap::new();
        for frame in &frames {
            let (next, text) = streams.entry(frame[26..38].to_vec()).or_default();
            let sequence = u32::from_be_bytes(frame[38..42].try_into().expect("four bytes"));
            assert!(next.is_none_or(|next| next == sequence), "in order, without gaps");
            text.extend(&frame[54..]);
            let flags = u32::from(frame[47] & SYN != 0) + u32::from(frame[47] & 1);
            *next = Some(sequence.wrapping_add(frame.len() as u32 - 54 + flags));
        }
        assert_eq!(streams.len(), 24);
        assert_eq!(
            [0, 1450, 1455, 1460, 2919].map(|place| within_a_segment(place, 6)),
            [0, 1450, 1454, 1460, 2914]
        );
        let mut found = 0;
        for (_, text) in streams.values() {
            let lower = text.to_ascii_lowercase();
            for content in rules.contents() {
                let times = if content.any_case {
                    lower.windows(content.bytes.len()).filter(|window| *window == content.bytes).count()
                } else {
                    text.windows(content.bytes.len()).filter(|window| *window == content.bytes).count()
                };
                found += times;
            }
        }
        assert_eq!(found, 12);
    }
}
