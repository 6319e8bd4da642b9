//! A dialogue in HTTP/1 tells the same messages however it is cut into segments, and what was held for it is
//! given back. One that is written from messages tells those: which head each has, where it begins, and what
//! its body is without chunks.

use dpi::message::asked::Queue;
use dpi::message::half::{Half, Reading};
use dpi::message::{Limits, Message, Share};
use dpi::rules::Direction;

const MEMORY: usize = 1 << 20;
/// Few bytes of a body are looked at, so that short ones reach the limit.
const LIMITS: Limits = Limits { body: 64, bodies: [true; 2], wanted: 0, reads: true };

/// A message as it is told: by the server, its head, its body, whether it was not told before, and where it
/// begins.
type Told = (bool, Vec<u8>, Option<Vec<u8>>, bool, u64);

/// What is told of what both say, in pieces of so many bytes.
fn told(dialogue: [&[u8]; 2], piece: usize) -> Vec<Told> {
    let (mut all, mut share, mut asked) = (Vec::new(), Share::new(MEMORY), Queue::default());
    for (direction, said) in [Direction::ToServer, Direction::ToClient].into_iter().zip(dialogue) {
        let mut half = Half::default();
        let mut sink = |message: &Message<'_>, _: &mut Vec<u32>| {
            let is_servers = message.direction == Direction::ToClient;
            let body = message.body.map(<[u8]>::to_vec);
            all.push((is_servers, message.head.to_vec(), body, message.begins, message.start));
        };
        let mut reading =
            Reading { direction, limits: &LIMITS, share: &mut share, asked: &mut asked, sink: &mut sink };
        for (number, data) in said.chunks(piece).enumerate() {
            half.feed(data, (number * piece) as u64, &mut reading);
        }
        half.end(true, &mut reading);
        half.stop(reading.share);
        assert_eq!(half.held(), 0);
    }
    assert_eq!(share.left(), MEMORY);
    all
}

/// Most messages of each side of a dialogue that is written.
const MESSAGES: usize = 24;

/// Says what to write next; zero for ever behind the end.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn next(&mut self, below: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first) % below
    }

    fn of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.next(texts.len())]
    }

    /// A word for a path or a value.
    fn word(&mut self) -> String {
        (0..1 + self.next(9)).map(|_| char::from(b"abcXYZ019/-._~%+"[self.next(16)])).collect()
    }

    /// Bytes of a body, which may look like heads.
    fn body(&mut self) -> Vec<u8> {
        let parts = ["GET / HTTP/1.1\r\n\r\n", "\r\n", "0\r\n\r\n", "evil", "\0", "HTTP/1.1 200 OK\r\n\r\n"];
        (0..self.next(8)).flat_map(|_| self.of(&parts).bytes()).collect()
    }
}

/// One side of a dialogue, and what is told of it.
#[derive(Default)]
struct Side {
    text: Vec<u8>,
    told: Vec<Told>,
}

impl Side {
    /// Writes a message. `without`: it has no body, whatever its fields say. Whether others may follow it.
    fn write(&mut self, is_servers: bool, line: &str, without: bool, choices: &mut Choices<'_>) -> bool {
        let end = choices.of(&["\r\n", "\n"]);
        let mut head = format!("{line}{end}");
        for _ in 0..choices.next(4) {
            let (name, value) = (choices.of(&["Host", "Cookie", "x-y", "Server", "Accept"]), choices.word());
            // A value may go on in the next line.
            let fold = if choices.next(4) == 0 { format!("{end}\t more") } else { String::new() };
            head += &format!("{name}: {value}{fold}{end}");
        }
        let body = choices.body();
        let mut raw = Vec::new();
        let is_until_close = match choices.next(3) {
            0 => is_servers,
            1 => {
                head +=
                    &format!("{}: {}{end}", choices.of(&["Content-Length", "content-length"]), body.len());
                raw.clone_from(&body);
                false
            }
            _ => {
                head += &format!("{}: chunked{end}", choices.of(&["Transfer-Encoding", "transfer-encoding"]));
                let mut rest = &body[..];
                while !rest.is_empty() {
                    let (chunk, behind) = rest.split_at((1 + choices.next(40)).min(rest.len()));
                    let zeros = "0".repeat(choices.next(4));
                    let size = match choices.next(2) {
                        0 => format!("{zeros}{:x}", chunk.len()),
                        _ => format!("{zeros}{:X}", chunk.len()),
                    };
                    raw.extend_from_slice(format!("{size}{}\r\n", choices.of(&["", " ", ";a=b"])).as_bytes());
                    raw.extend_from_slice(chunk);
                    raw.extend_from_slice(b"\r\n");
                    rest = behind;
                }
                raw.extend_from_slice(b"0\r\n");
                (0..choices.next(3)).for_each(|_| raw.extend_from_slice(b"X-Trailer: yes\r\n"));
                raw.extend_from_slice(b"\r\n");
                false
            }
        };
        head += end;
        let start = self.text.len() as u64;
        self.text.extend_from_slice(head.as_bytes());
        let head = head.into_bytes();
        let has_body = !without && (is_until_close || !raw.is_empty());
        // A body that is known to be empty is there with the head.
        self.told.push((is_servers, head.clone(), (!has_body).then(Vec::new), true, start));
        if has_body {
            self.text.extend_from_slice(if is_until_close { &body } else { &raw });
            let body = body[..body.len().min(LIMITS.body)].to_vec();
            self.told.push((is_servers, head, Some(body), false, start));
        }
        without || !is_until_close
    }
}

/// Writes what client and server say, with what is told of it.
fn written(choices: &mut Choices<'_>) -> [Side; 2] {
    let [mut client, mut server] = [Side::default(), Side::default()];
    for _ in 0..1 + choices.next(MESSAGES) {
        let method = choices.of(&["GET", "POST", "HEAD", "PUT"]);
        client.write(false, &format!("{method} /{} HTTP/1.1", choices.word()), false, choices);
        if choices.next(8) == 0 {
            server.write(true, "HTTP/1.1 100 Continue", true, choices);
        }
        let status = choices.of(&["200 OK", "404 Not Found", "204 No Content", "304 Not Modified", "500 "]);
        let without = method == "HEAD" || status.starts_with("204") || status.starts_with("304");
        if !server.write(true, &format!("HTTP/1.1 {status}"), without, choices) {
            break;
        }
    }
    [client, server]
}

pub fn run(data: &[u8]) {
    let &[piece, share, ref data @ ..] = data else { return };
    let [client, server] = written(&mut Choices(data));
    let expected: Vec<Told> = client.told.into_iter().chain(server.told).collect();
    assert_eq!(told([&client.text, &server.text], 1 + usize::from(piece)), expected);
    let dialogue = data.split_at(data.len() * usize::from(share) / 255);
    let dialogue = [dialogue.0, dialogue.1];
    assert_eq!(told(dialogue, 1 + usize::from(piece)), told(dialogue, usize::MAX));
}
