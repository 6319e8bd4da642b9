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
use crate::capture::CaptureWriter;
use crate::frames::{Numbers, Segment};
use std::path::Path;

/// Bytes of a full segment.
const SEGMENT: usize = 1460;

/// Words of harmless traffic.
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
        let mut output =
            Output { writer: CaptureWriter::create(path)?, frame: Vec::new(), micros: 0, packets: 0 };
        let mut numbers = Numbers(0xd1a1);
        let mut carriers = 0;
        let mut open: Vec<Connection> = Vec::new();
        let mut begun = 0;
        while begun < connections || !open.is_empty() {
            while begun < connections && open.len() < AT_ONCE as usize {
                let carried = rules.0.get(numbers.below(rules.0.len() as u64) as usize);
                carriers += u32::from(carried.is_some());
                open.push(Connection::new(begun, carried, &mut numbers, &mut output)?);
                begun += 1;
            }
            let which = numbers.below(open.len() as u64) as usize;
            if !open[which].go_on(&mut output)? {
                open.swap_remove(which);
            }
        }
        let packets = output.packets;
        Ok(Dialogues { connections, carriers, packets, bytes: output.writer.finish()? })
    }
}

struct Output {
    writer: CaptureWriter,
    frame: Vec<u8>,
    micros: u64,
    packets: u64,
}

impl Output {
    fn put(&mut self, segment: &Segment, payload: &[u8]) -> Result<(), PeerError> {
        segment.write(payload, &mut self.frame);
        self.micros += 10;
        self.packets += 1;
        self.writer.frame(self.micros, &self.frame)
    }
}

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const PUSH: u8 = 0x18;
const FIN: u8 = 0x11;

/// A connection on its way: what client and server still have to say.
struct Connection {
    /// As the client sends.
    segment: Segment,
    /// From which side (the server: true), and what.
    speeches: Vec<(bool, Vec<u8>)>,
    at: usize,
}

impl Connection {
    /// Shakes hands.
    fn new(
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
        let mut segment = Segment {
            source: 0x0a00_0000 | (number & 0xff_ffff),
            destination: 0xc633_6400 | server,
            source_port: 1024 + (number.wrapping_mul(7919) % 60_000) as u16,
            destination_port: [80, 8080, 25, 9000][server as usize % 4],
            sequence: numbers.next() as u32,
            acknowledged: 0,
            flags: SYN,
        };
        output.put(&segment, &[])?;
        segment.acknowledged = numbers.next() as u32;
        segment.sequence = segment.sequence.wrapping_add(1);
        output.put(&Segment { flags: SYN | ACK, ..segment }.reverse(), &[])?;
        segment.acknowledged = segment.acknowledged.wrapping_add(1);
        segment.flags = ACK;
        output.put(&segment, &[])?;
        speeches.reverse();
        Ok(Connection { segment, speeches, at: 0 })
    }

    /// Sends the next segment, acknowledges every second one, ends when all is said; whether there is more.
    fn go_on(&mut self, output: &mut Output) -> Result<bool, PeerError> {
        let Some((back, speech)) = self.speeches.last() else {
            return self.end(output).map(|()| false);
        };
        let back = *back;
        let payload = &speech[self.at..speech.len().min(self.at + SEGMENT)];
        let sender = Segment { flags: PUSH, ..self.segment };
        output.put(&if back { sender.reverse() } else { sender }, payload)?;
        let length = payload.len() as u32;
        let moved = if back { &mut self.segment.acknowledged } else { &mut self.segment.sequence };
        *moved = moved.wrapping_add(length);
        self.at += payload.len();
        let done = self.at == speech.len();
        if done || (self.at / SEGMENT).is_multiple_of(2) {
            let answer = self.segment;
            output.put(&if back { answer } else { answer.reverse() }, &[])?;
        }
        if done {
            self.speeches.pop();
            self.at = 0;
        }
        Ok(true)
    }

    fn end(&mut self, output: &mut Output) -> Result<(), PeerError> {
        output.put(&Segment { flags: FIN, ..self.segment }, &[])?;
        self.segment.sequence = self.segment.sequence.wrapping_add(1);
        output.put(&Segment { flags: FIN, ..self.segment }.reverse(), &[])?;
        self.segment.acknowledged = self.segment.acknowledged.wrapping_add(1);
        output.put(&self.segment, &[])
    }
}

/// The place itself, or the nearest before it where so many bytes do not lie across the end of a segment.
fn within_a_segment(place: usize, length: usize) -> usize {
    let end = (place / SEGMENT + 1) * SEGMENT;
    if place + length > end { end.saturating_sub(length) } else { place }
}

/// What is said on a connection, in turns, the client first.
fn speeches(numbers: &mut Numbers) -> Vec<(bool, Vec<u8>)> {
    let mut said = Vec::new();
    match numbers.below(10) {
        // Requests and pages.
        0..6 => {
            for _ in 0..1 + numbers.below(3) {
                said.push((false, request(numbers)));
                let length = 2_000 + numbers.below(30_000) as usize;
                let body =
                    if numbers.below(4) == 0 { binary(length, numbers) } else { page(length, numbers) };
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
            said.push((false, page(1_000 + numbers.below(20_000) as usize, numbers)));
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

fn word(numbers: &mut Numbers) -> &'static str {
    WORDS[numbers.below(WORDS.len() as u64) as usize]
}

fn request(numbers: &mut Numbers) -> Vec<u8> {
    let folder = ["/cgi-bin/", "/admin/", "/static/", "/"][numbers.below(4) as usize];
    let mut text = format!(
        "GET {folder}{}/{}.html?{}={} HTTP/1.1\r\nHost: www.{}.example\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) {}\r\n\
         Accept: text/html,application/xhtml+xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\nCookie: id=",
        word(numbers),
        word(numbers),
        word(numbers),
        numbers.below(100_000),
        word(numbers),
        word(numbers),
    )
    .into_bytes();
    text.extend((0..40).map(|_| LETTERS[numbers.below(36) as usize]));
    text.extend(b"\r\nConnection: keep-alive\r\n\r\n");
    text
}

fn page(length: usize, numbers: &mut Numbers) -> Vec<u8> {
    let mut text = Vec::with_capacity(length + 32);
    while text.len() < length {
        text.extend(word(numbers).as_bytes());
        match numbers.below(12) {
            0 => text.extend(b"</p>\r\n<p class=\"text\">"),
            1 => text.extend(BEGINNINGS[numbers.below(BEGINNINGS.len() as u64) as usize].as_bytes()),
            2 => text.extend(b", "),
            _ => text.push(b' '),
        }
    }
    text
}

fn binary(length: usize, numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend(numbers.next().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Folder;
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

    /// A capture's frames.
    fn frames(path: &Path) -> Vec<Vec<u8>> {
        let bytes = std::fs::read(path).expect("the capture");
        let mut rest = &bytes[24..];
        let mut frames = Vec::new();
        while !rest.is_empty() {
            let length = u32::from_le_bytes(rest[8..12].try_into().expect("four bytes")) as usize;
            frames.push(rest[16..16 + length].to_vec());
            rest = &rest[16 + length..];
        }
        frames
    }

    #[test]
    fn streams_are_whole_and_each_connection_carries_one_content_once() {
        let folder = Folder::new().expect("a folder");
        let path = folder.file("x.pcap");
        let rules = Ruleset::new(1000);
        let written = Dialogues::write(&path, &rules, 12).expect("a capture");
        let frames = frames(&path);
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
