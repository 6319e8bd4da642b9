//! Traffic for [`crate::public_rules`]: connections of HTTP, TLS and SMB from the first SYN to the last FIN,
//! and questions and answers of DNS. One connection in three carries what a loud rule looks for, in the part
//! of the message that it is about; nothing meets a silent rule.
//!
//! Limits: IPv4, in order, without losses or overlaps.

use crate::PeerError;
use crate::capture::CaptureWriter;
use crate::frames::{Numbers, Segment};
use crate::public_rules::{Part, Port, Rule};
use std::path::Path;

/// Bytes of a full segment.
const SEGMENT: usize = 1460;

const WORDS: &[&str] = &[
    "the", "server", "request", "session", "index", "update", "account", "window", "network", "content",
    "report", "image", "design", "search", "system", "login", "public", "market", "summer", "result",
    "letter", "garden", "number", "person", "moment", "engine", "travel", "office", "script", "function",
    "return", "document", "value", "class", "style", "margin", "href", "https", "width", "color", "data",
];

/// What a capture holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchanges {
    /// Connections, and questions with their answers.
    pub flows: u32,
    /// Those that carry what a rule looks for.
    pub carriers: u32,
    /// Frames.
    pub packets: u64,
    /// Bytes of the frames.
    pub bytes: u64,
}

fn word(numbers: &mut Numbers) -> &'static str {
    WORDS[numbers.below(WORDS.len() as u64) as usize]
}

fn page(length: usize, numbers: &mut Numbers) -> Vec<u8> {
    let mut text = Vec::with_capacity(length + 32);
    while text.len() < length {
        text.extend(word(numbers).as_bytes());
        match numbers.below(12) {
            0 => text.extend(b"</p>\r\n<p class=\"text\">"),
            1 => text.extend(format!("{}", numbers.below(100_000)).bytes()),
            2 => text.extend(b", "),
            3 => text.extend(b"=\"/"),
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

/// What is said, in turns; true for the server.
type Speeches = Vec<(bool, Vec<u8>)>;

/// A request and its response, with what a rule looks for.
fn http(rule: Option<&Rule>, numbers: &mut Numbers, said: &mut Speeches) {
    let sample =
        |part: Part, numbers: &mut Numbers| rule.map_or_else(Vec::new, |rule| rule.sample(part, numbers));
    let method = rule.and_then(|rule| rule.method).unwrap_or("GET");
    let mut request = format!("{method} /{}/{}", word(numbers), word(numbers)).into_bytes();
    request.extend(sample(Part::Uri, numbers));
    request.extend(
        format!(
            " HTTP/1.1\r\nHost: www.{}.example\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) {}/{}\r\nAccept: text/html,*/*;q=0.8\r\n\
             Accept-Language: en-US,en;q=0.5\r\nCookie: session={:x}",
            word(numbers),
            word(numbers),
            numbers.below(100),
            numbers.next(),
        )
        .bytes(),
    );
    let cookie = sample(Part::Cookie, numbers);
    if !cookie.is_empty() {
        request.extend(b"; ");
        request.extend(cookie);
    }
    request.extend(b"\r\n");
    let header = sample(Part::Header, numbers);
    if !header.is_empty() {
        request.extend(b"X-Client: ");
        request.extend(header);
        request.extend(b"\r\n");
    }
    let is_client = rule.is_some_and(|rule| !rule.to_client);
    let mut body = sample(Part::Body, numbers);
    if is_client {
        body.extend(sample(Part::Payload, numbers));
    }
    if method == "POST" && body.is_empty() {
        body.extend(page(100, numbers));
    }
    if !body.is_empty() {
        request.extend(format!("Content-Length: {}\r\n", body.len()).bytes());
    }
    request.extend(b"\r\n");
    request.extend(body);
    said.push((false, request));

    let length = 1_000 + numbers.below(24_000) as usize;
    let mut body = if numbers.below(4) == 0 { binary(length, numbers) } else { page(length, numbers) };
    if !is_client {
        let mut carried = sample(Part::File, numbers);
        carried.extend(sample(Part::Payload, numbers));
        let at = numbers.below(body.len() as u64) as usize;
        body.splice(at..at, carried);
    }
    let status =
        rule.and_then(|rule| rule.status).map_or("200 OK".to_owned(), |status| format!("{status} Not Found"));
    let mut response = format!(
        "HTTP/1.1 {status}\r\nServer: edge\r\nContent-Type: text/html\r\nSet-Cookie: a={:x}\r\n",
        numbers.next()
    )
    .into_bytes();
    if numbers.below(3) == 0 {
        response.extend(b"Transfer-Encoding: chunked\r\n\r\n");
        for chunk in body.chunks(4096) {
            response.extend(format!("{:x}\r\n", chunk.len()).bytes());
            response.extend(chunk);
            response.extend(b"\r\n");
        }
        response.extend(b"0\r\n\r\n");
    } else {
        response.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
        response.extend(body);
    }
    said.push((true, response));
}

fn tls(numbers: &mut Numbers, said: &mut Speeches) {
    let name = format!("www.{}.example", word(numbers)).into_bytes();
    let two = |length: usize| (length as u16).to_be_bytes();
    let mut extension = vec![0, 0];
    extension.extend(two(name.len() + 5));
    extension.extend(two(name.len() + 3));
    extension.push(0);
    extension.extend(two(name.len()));
    extension.extend(name);
    let hello = |kind: u8, middle: &[u8], end: &[u8], numbers: &mut Numbers| {
        let mut body = vec![3, 3];
        body.extend(binary(32, numbers));
        body.extend(middle);
        body.extend(end);
        let mut record = vec![22, 3, 1];
        record.extend(two(body.len() + 4));
        record.extend([kind, 0]);
        record.extend(two(body.len()));
        record.extend(body);
        record
    };
    let mut end = two(extension.len()).to_vec();
    end.extend(extension);
    let first = hello(1, &[0, 0, 4, 0xc0, 0x2f, 0, 0x2f, 1, 0], &end, numbers);
    said.push((false, first));
    let second = hello(2, &[0, 0xc0, 0x2f, 0], &[], numbers);
    said.push((true, second));
    for _ in 0..1 + numbers.below(3) {
        for server in [false, true] {
            let length =
                if server { 2_000 + numbers.below(14_000) } else { 100 + numbers.below(900) } as usize;
            let mut record = vec![23, 3, 3];
            record.extend(two(length));
            record.extend(binary(length, numbers));
            said.push((server, record));
        }
    }
}

fn smb(rule: Option<&Rule>, numbers: &mut Numbers, said: &mut Speeches) {
    for turn in 0..4 + numbers.below(4) {
        for server in [false, true] {
            let mut body = vec![0xfe, b'S', b'M', b'B', 64, 0, 0, 0, 0, 0, 0, 0, 5, 0, 1, 0];
            body.resize(64, 0);
            body.extend(binary(60 + numbers.below(2_000) as usize, numbers));
            if let Some(rule) = rule.filter(|rule| turn == 1 && rule.to_client == server) {
                body.extend(rule.sample(Part::Payload, numbers));
            }
            let mut message = (body.len() as u32).to_be_bytes().to_vec();
            message.extend(body);
            said.push((server, message));
        }
    }
}

/// A question, or its answer.
fn dns(id: u16, is_answer: bool, name: &str) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend(if is_answer {
        [0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]
    } else {
        [1, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    });
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend(label.bytes());
    }
    message.extend([0, 0, 1, 0, 1]);
    if is_answer {
        message.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 0x2c, 0, 4, 192, 0, 2, 7]);
    }
    message
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
        self.write()
    }

    fn datagram(&mut self, segment: &Segment, payload: &[u8]) -> Result<(), PeerError> {
        segment.write_datagram(payload, &mut self.frame);
        self.write()
    }

    fn write(&mut self) -> Result<(), PeerError> {
        self.micros += 10;
        self.packets += 1;
        self.writer.frame(self.micros, &self.frame)
    }
}

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const PUSH: u8 = 0x18;
const FIN: u8 = 0x11;

/// A connection on its way.
struct Connection {
    segment: Segment,
    speeches: Speeches,
    at: usize,
}

impl Connection {
    fn open(
        mut segment: Segment,
        mut speeches: Speeches,
        output: &mut Output,
    ) -> Result<Connection, PeerError> {
        let answer = segment.acknowledged;
        output.put(&Segment { flags: SYN, acknowledged: 0, ..segment }, &[])?;
        segment.sequence = segment.sequence.wrapping_add(1);
        output.put(&Segment { flags: SYN | ACK, acknowledged: answer, ..segment }.reverse(), &[])?;
        segment.acknowledged = answer.wrapping_add(1);
        segment.flags = ACK;
        output.put(&segment, &[])?;
        speeches.reverse();
        Ok(Connection { segment, speeches, at: 0 })
    }

    /// Sends the next segment; whether there is more.
    fn go_on(&mut self, output: &mut Output) -> Result<bool, PeerError> {
        let Some((back, speech)) = self.speeches.last() else {
            output.put(&Segment { flags: FIN, ..self.segment }, &[])?;
            self.segment.sequence = self.segment.sequence.wrapping_add(1);
            output.put(&Segment { flags: FIN, ..self.segment }.reverse(), &[])?;
            self.segment.acknowledged = self.segment.acknowledged.wrapping_add(1);
            output.put(&self.segment, &[])?;
            return Ok(false);
        };
        let back = *back;
        let payload = &speech[self.at..speech.len().min(self.at + SEGMENT)];
        let sender = Segment { flags: PUSH, ..self.segment };
        output.put(&if back { sender.reverse() } else { sender }, payload)?;
        let moved = if back { &mut self.segment.acknowledged } else { &mut self.segment.sequence };
        *moved = moved.wrapping_add(payload.len() as u32);
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
}

impl Exchanges {
    /// Writes a capture of so many flows, sixty-four of which are open at a time.
    ///
    /// # Errors
    /// [`PeerError::File`].
    pub fn write(path: &Path, rules: &[Rule], flows: u32) -> Result<Exchanges, PeerError> {
        const AT_ONCE: usize = 64;
        let writer = CaptureWriter::create(path)?;
        let mut output = Output { writer, frame: Vec::new(), micros: 0, packets: 0 };
        let mut numbers = Numbers(0xe8c4);
        let loud = |is_udp: bool| -> Vec<&Rule> {
            rules.iter().filter(|rule| rule.is_loud && rule.is_udp == is_udp).collect()
        };
        let (streams, datagrams) = (loud(false), loud(true));
        let (mut open, mut begun, mut carriers): (Vec<Connection>, u32, u32) = (Vec::new(), 0, 0);
        while begun < flows || !open.is_empty() {
            while begun < flows && open.len() < AT_ONCE {
                let carries = numbers.below(3) == 0;
                let kind = numbers.below(10);
                let from = if kind < 2 { &datagrams } else { &streams };
                let rule = from.get(numbers.below(from.len() as u64) as usize).copied().filter(|_| carries);
                let segment = Segment {
                    source: 0x0a00_0000 | (begun & 0xff_ffff),
                    destination: 0xc633_6400 | numbers.below(200) as u32,
                    source_port: 1024 + (begun.wrapping_mul(7919) % 60_000) as u16,
                    destination_port: 0,
                    sequence: numbers.next() as u32,
                    acknowledged: numbers.next() as u32,
                    flags: 0,
                };
                carriers += u32::from(rule.is_some());
                begun += 1;
                if let Some(connection) = begin(kind, rule, segment, &mut numbers, &mut output)? {
                    open.push(connection);
                }
            }
            if open.is_empty() {
                continue;
            }
            let which = numbers.below(open.len() as u64) as usize;
            if !open[which].go_on(&mut output)? {
                open.swap_remove(which);
            }
        }
        let packets = output.packets;
        Ok(Exchanges { flows, carriers, packets, bytes: output.writer.finish()? })
    }
}

/// Begins a flow; `None` when it is over at once.
fn begin(
    kind: u64,
    rule: Option<&Rule>,
    mut segment: Segment,
    numbers: &mut Numbers,
    output: &mut Output,
) -> Result<Option<Connection>, PeerError> {
    let port = |otherwise: u16| match rule.map(|rule| rule.port) {
        Some(Port::One(port)) => port,
        _ => otherwise,
    };
    if kind < 2 {
        segment.destination_port = port(53);
        let name = format!("{}.{}.example", word(numbers), word(numbers));
        let mut question = dns(segment.sequence as u16, false, &name);
        if let Some(rule) = rule {
            question = binary(24, numbers);
            question.extend(rule.sample(Part::Payload, numbers));
        }
        output.datagram(&segment, &question)?;
        if rule.is_none() {
            output.datagram(&segment.reverse(), &dns(segment.sequence as u16, true, &name))?;
        }
        return Ok(None);
    }
    let mut speeches = Vec::new();
    let is_http = rule.is_none_or(Rule::is_http) || rule.is_some_and(|rule| rule.port == Port::Http);
    match kind {
        _ if rule.is_some() && !is_http => {
            segment.destination_port = port(445);
            smb(rule, numbers, &mut speeches);
        }
        2..4 if rule.is_none() => {
            segment.destination_port = 443;
            tls(numbers, &mut speeches);
        }
        4 if rule.is_none() => {
            segment.destination_port = 445;
            smb(None, numbers, &mut speeches);
        }
        _ => {
            segment.destination_port = port([80, 8080][numbers.below(2) as usize]);
            let count = 1 + numbers.below(3);
            let carrier = numbers.below(count);
            for turn in 0..count {
                http(rule.filter(|_| turn == carrier), numbers, &mut speeches);
            }
        }
    }
    Connection::open(segment, speeches, output).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Folder;
    use crate::public_rules::rules;

    #[test]
    fn captures_are_the_same_each_time_and_carry_what_loud_rules_look_for() {
        let (folder, rules) = (Folder::new().expect("a folder"), rules(500));
        let captures = ["a.pcap", "b.pcap"].map(|name| {
            let path = folder.file(name);
            let written = Exchanges::write(&path, &rules, 300).expect("a capture");
            (written, std::fs::read(path).expect("the capture"))
        });
        let [(first, bytes), (second, others)] = captures;
        assert_eq!(first, second);
        assert!(bytes == others, "the same rules and number of flows, and another capture");
        assert!((60..140).contains(&first.carriers), "{first:?}");
        let (mut rest, mut packets, mut length) = (&bytes[24..], 0, 0);
        while !rest.is_empty() {
            let frame = u32::from_le_bytes(rest[8..12].try_into().expect("four bytes")) as usize;
            (rest, packets, length) = (&rest[16 + frame..], packets + 1, length + frame as u64);
        }
        assert_eq!((first.packets, first.bytes), (packets, length));
        for protocol in [&b"HTTP/1.1 200 OK"[..], b"\xfeSMB", b"\x16\x03\x01", b"\x07example\x00"] {
            assert!(bytes.windows(protocol.len()).any(|window| window == protocol), "{protocol:?}");
        }
    }
}
