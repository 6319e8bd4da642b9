//! Traffic for [`crate::public_rules`]: connections of HTTP, TLS and SMB from the first SYN to the last FIN,
//! and questions and answers of DNS. One flow in three carries what a loud rule looks for, in the part of the
//! message that it is about; nothing meets a silent rule. Rules with each keyword have their turns, so that
//! no keyword is met by less than one flow in a hundred. Bodies come with a length, in chunks and compressed.
//!
//! Limits: IPv4, in order, without losses or overlaps.

use crate::PeerError;
use crate::connection::{Connection, Output};
use crate::frames::{Numbers, Segment};
use crate::public_rules::{COMMON, KEYWORDS, Part, Port, Rule};
use crate::speech::{Speeches, Text, binary};
use std::path::Path;

/// Harmless traffic; contents of rules begin as some of it does.
const TEXT: Text = Text { words: WORDS, marks: &COMMON };

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
    /// Those of them whose rule has the keyword, by [`KEYWORDS`].
    pub hits: [u32; KEYWORDS.len()],
    /// Frames.
    pub packets: u64,
    /// Bytes of the frames.
    pub bytes: u64,
}

/// What stands in a request's first line: a blank would end the target for one reader, and not for another
/// (RFC 9112, section 3.2), and rules look at what is escaped as it was before.
fn target(text: &[u8]) -> Vec<u8> {
    let escaped = |byte: &u8| if *byte == b' ' { b"%20".to_vec() } else { vec![*byte] };
    text.iter().flat_map(escaped).collect()
}

/// A request and its response, with what a rule looks for.
fn http(rule: Option<&Rule>, numbers: &mut Numbers, said: &mut Speeches) {
    let sample =
        |part: Part, numbers: &mut Numbers| rule.map_or_else(Vec::new, |rule| rule.sample(part, numbers));
    let method = rule.and_then(|rule| rule.method).unwrap_or("GET");
    let mut request = format!("{method} /{}/{}", TEXT.word(numbers), TEXT.word(numbers)).into_bytes();
    request.extend(target(&sample(Part::Uri, numbers)));
    request.extend(
        format!(
            " HTTP/1.1\r\nHost: www.{}.example\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) {}/{}\r\nAccept: text/html,*/*;q=0.8\r\n\
             Accept-Language: en-US,en;q=0.5\r\nCookie: session={:x}",
            TEXT.word(numbers),
            TEXT.word(numbers),
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
        body.extend(TEXT.page(100, numbers));
    }
    if !body.is_empty() {
        request.extend(format!("Content-Length: {}\r\n", body.len()).bytes());
    }
    request.extend(b"\r\n");
    request.extend(body);
    said.push((false, request));

    let length = 1_000 + numbers.below(24_000) as usize;
    let is_text = numbers.below(4) != 0;
    let mut body = if is_text { TEXT.page(length, numbers) } else { binary(length, numbers) };
    if !is_client {
        let mut carried = sample(Part::File, numbers);
        let payload = sample(Part::Payload, numbers);
        // What a rule looks for in the payload lies in one segment, and in one chunk: in the first.
        let at = numbers.below(body.len() as u64) as usize * usize::from(payload.is_empty());
        carried.extend(payload);
        body.splice(at..at, carried);
    }
    let status =
        rule.and_then(|rule| rule.status).map_or("200 OK".to_owned(), |status| format!("{status} Not Found"));
    let mut response = format!(
        "HTTP/1.1 {status}\r\nServer: edge\r\nContent-Type: text/html\r\nSet-Cookie: a={:x}\r\n",
        numbers.next()
    )
    .into_bytes();
    // What a rule looks for in the payload would not be there any more.
    let is_free = |rule: &Rule| rule.contents.iter().all(|content| content.part != Part::Payload);
    if is_text && numbers.below(3) == 0 && rule.is_none_or(is_free) {
        body = gzip(&body);
        response.extend(b"Content-Encoding: gzip\r\n");
    }
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

/// A member as RFC 1952 has it.
fn gzip(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    out.extend(miniz_oxide::deflate::compress_to_vec(data, 6));
    out.extend(crc32fast::hash(data).to_le_bytes());
    out.extend((data.len() as u32).to_le_bytes());
    out
}

fn tls(numbers: &mut Numbers, said: &mut Speeches) {
    let name = format!("www.{}.example", TEXT.word(numbers)).into_bytes();
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
            let data = binary(60 + numbers.below(2_000) as usize, numbers);
            if let Some(rule) = rule.filter(|rule| turn == 1 && rule.to_client == server) {
                body.extend(rule.sample(Part::Payload, numbers));
            }
            body.extend(data);
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

impl Exchanges {
    /// Writes a capture of so many flows, sixty-four of which are open at a time.
    ///
    /// # Errors
    /// [`PeerError::File`].
    pub fn write(path: &Path, rules: &[Rule], flows: u32) -> Result<Exchanges, PeerError> {
        const AT_ONCE: usize = 64;
        let mut output = Output::create(path)?;
        let mut numbers = Numbers(0xe8c4);
        let loud = |keyword: &&str| -> Vec<&Rule> {
            rules.iter().filter(|rule| rule.is_loud && rule.text().contains(keyword)).collect()
        };
        // Each keyword has its turn, however few rules have it.
        let loud: Vec<Vec<&Rule>> = KEYWORDS.iter().map(loud).filter(|rules| !rules.is_empty()).collect();
        let (mut open, mut begun, mut carriers): (Vec<Connection>, u32, u32) = (Vec::new(), 0, 0);
        let mut hits = [0; KEYWORDS.len()];
        while begun < flows || !open.is_empty() {
            while begun < flows && open.len() < AT_ONCE {
                let carries = numbers.below(3) == 0;
                let turn = loud.get(carriers as usize % loud.len().max(1)).filter(|_| carries);
                let rule = turn.map(|rules| rules[numbers.below(rules.len() as u64) as usize]);
                let kind = rule.map_or_else(|| numbers.below(10), |rule| if rule.is_udp { 0 } else { 9 });
                let segment = Segment {
                    source: 0x0a00_0000 | (begun & 0xff_ffff),
                    destination: rule
                        .and_then(|rule| rule.address)
                        .unwrap_or(0xc633_6400 | numbers.below(200) as u32),
                    source_port: 1024 + (begun.wrapping_mul(7919) % 60_000) as u16,
                    destination_port: 0,
                    sequence: numbers.next() as u32,
                    acknowledged: numbers.next() as u32,
                    flags: 0,
                };
                carriers += u32::from(rule.is_some());
                let text = rule.map(Rule::text).unwrap_or_default();
                for (hits, keyword) in hits.iter_mut().zip(KEYWORDS) {
                    *hits += u32::from(text.contains(keyword));
                }
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
        Ok(Exchanges { flows, carriers, hits, packets, bytes: output.finish()? })
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
        let name = format!("{}.{}.example", TEXT.word(numbers), TEXT.word(numbers));
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
    let is_http = rule.is_none_or(|rule| rule.is_http() || rule.port == Port::Http);
    match kind {
        _ if !is_http => {
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
        let frames = crate::read_frames(&folder.file("a.pcap")).expect("frames");
        let length = frames.iter().map(|frame| frame.len() as u64).sum();
        assert_eq!((first.packets, first.bytes), (frames.len() as u64, length));
        for protocol in [
            &b"HTTP/1.1 200 OK"[..],
            b"\xfeSMB",
            b"\x16\x03\x01",
            b"\x07example\x00",
            b"Transfer-Encoding: chunked\r\n\r\n",
            b"Content-Encoding: gzip\r\n",
        ] {
            assert!(bytes.windows(protocol.len()).any(|window| window == protocol), "{protocol:?}");
        }
    }

    #[test]
    fn every_keyword_is_met_by_one_flow_in_a_hundred_and_nine_rules_in_ten_are_silent() {
        let (folder, rules) = (Folder::new().expect("a folder"), rules(2500));
        let written = Exchanges::write(&folder.file("x.pcap"), &rules, 1500).expect("a capture");
        for (keyword, hits) in KEYWORDS.iter().zip(written.hits) {
            assert!(hits * 100 >= written.flows, "{keyword}: {hits} of {} flows", written.flows);
        }
        let silent = rules.iter().filter(|rule| !rule.is_loud).count();
        assert!(silent * 10 >= rules.len() * 9, "{silent} of {} rules", rules.len());
    }

    #[test]
    fn what_rules_look_for_in_a_payload_is_in_one_segment_and_targets_have_no_blanks() {
        let mut rules = rules(2500);
        for rule in &mut rules {
            let part = if rule.to_client { Part::Payload } else { Part::Uri };
            rule.is_loud = rule.contents.iter().any(|content| content.part == part);
        }
        let folder = Folder::new().expect("a folder");
        Exchanges::write(&folder.file("x.pcap"), &rules, 1500).expect("a capture");
        let frames = crate::read_frames(&folder.file("x.pcap")).expect("frames");
        // Behind a head, or the header of SMB.
        let begins = |frame: &[u8]| {
            let text = frame.get(54..).unwrap_or_default();
            [&b"HTTP/1.1 "[..], b"GET /", b"POST /"].iter().any(|start| text.starts_with(start))
                || text.get(4..).is_some_and(|text| text.starts_with(b"\xfeSMB"))
        };
        let loud = rules.iter().filter(|rule| rule.is_loud && rule.to_client).flat_map(|rule| &rule.contents);
        let loud = loud.filter(|content| content.part == Part::Payload && !content.nocase);
        let mut met = 0;
        for content in loud.filter(|content| content.bytes.len() > 20).take(80) {
            let has =
                |frame: &&Vec<u8>| frame.windows(content.bytes.len()).any(|window| window == content.bytes);
            let frames: Vec<_> = frames.iter().filter(has).collect();
            met += usize::from(!frames.is_empty());
            assert!(frames.iter().all(|frame| begins(frame)), "{}", content.bytes.escape_ascii());
        }
        assert!(met > 5, "{met}");
        let mut escaped = 0;
        for frame in &frames {
            let text = frame.get(54..).unwrap_or_default();
            let line = text.split(|byte| *byte == b'\r').next().unwrap_or_default();
            if text.starts_with(b"GET /") || text.starts_with(b"POST /") {
                assert_eq!(line.iter().filter(|byte| **byte == b' ').count(), 2, "{}", line.escape_ascii());
                escaped += usize::from(line.windows(3).any(|three| three == b"%20"));
            }
        }
        assert!(escaped > 0);
    }

    #[test]
    fn compressed_bodies_are_members_of_gzip() {
        // Of `printf abc | gzip -n`, the system's field aside.
        let member = gzip(b"abc");
        assert_eq!(member[..9], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0]);
        assert_eq!(member[member.len() - 8..], [0xc2, 0x41, 0x24, 0x35, 3, 0, 0, 0]);
        let data = miniz_oxide::inflate::decompress_to_vec(&member[10..member.len() - 8]).expect("data");
        assert_eq!(data, b"abc");
    }
}
