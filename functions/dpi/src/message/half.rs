//! One direction of an HTTP/1 connection: heads, bodies, and what follows them.

use super::asked::Queue;
use super::http::{Asked, Framing, Head, head_end};
use super::{Limits, Message, Share};
use crate::rules::Direction;
use crate::rules::buffer::App;
use alloc::vec::Vec;

/// Longest head.
const MAX_HEAD: usize = 32 * 1024;
/// Longest line with a chunk's length.
const MAX_CHUNK_LINE: usize = 256;

/// What is expected next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    Length(u64),
    ChunkLine,
    Chunk(u64),
    /// The line end behind a chunk.
    ChunkEnd,
    Trailer,
    UntilClose,
    /// Nothing that is read.
    Done,
}

/// One direction.
#[derive(Debug, Default)]
pub struct Half {
    state: State,
    /// A head of which the end is missing, or that of the body that is being read; or a chunk's line.
    head: Vec<u8>,
    line: Vec<u8>,
    body: Vec<u8>,
    /// The body's inspection is over, and what follows of it is passed over.
    is_told: bool,
    /// Numbers of the next byte in the stream, and of the message's first.
    position: u64,
    start: u64,
    /// Rules that wait for the message's end.
    pub waiting: Vec<u32>,
}

/// What a half is read with.
pub struct Reading<'a, 'b> {
    /// Which end sends.
    pub direction: Direction,
    /// Bounds of heads and bodies.
    pub limits: &'a Limits,
    /// Memory that is shared with others.
    pub share: &'a mut Share,
    /// Requests that wait for their response.
    pub asked: &'a mut Queue,
    /// What takes messages, and rules that wait for their ends.
    pub sink: &'a mut (dyn FnMut(&Message<'_>, &mut Vec<u32>) + 'b),
}

impl Half {
    /// Bytes that it holds.
    pub fn held(&self) -> usize {
        self.head.capacity() + self.line.capacity() + self.body.capacity()
    }

    /// Nothing more is read.
    pub fn stop(&mut self, share: &mut Share) {
        let held = self.held();
        *self = Half { state: State::Done, ..Half::default() };
        share.release(held);
    }

    /// A message has begun whose end rules wait for.
    pub fn is_reading(&self) -> bool {
        !self.is_told && !matches!(self.state, State::Head | State::Done)
    }

    /// Goes on with more of the stream, of which the first byte has this number.
    pub fn feed(&mut self, data: &[u8], position: u64, reading: &mut Reading<'_, '_>) {
        let before = self.held();
        let mut rest = data;
        while !rest.is_empty() && self.state != State::Done {
            self.position = position + (data.len() - rest.len()) as u64;
            rest = self.step(rest, reading);
        }
        if !reading.share.resize(before, self.held()) {
            self.stop_with(reading, 0);
        }
    }

    /// The connection has ended: so has the message.
    pub fn end(&mut self, reading: &mut Reading<'_, '_>) {
        let held = self.held();
        if !matches!(self.state, State::Head | State::Done) {
            self.finish(reading);
        }
        self.stop_with(reading, held);
    }

    fn stop_with(&mut self, reading: &mut Reading<'_, '_>, held: usize) {
        *self = Half { state: State::Done, ..Half::default() };
        reading.share.release(held);
    }

    /// Takes some of the bytes; what is left.
    fn step<'d>(&mut self, data: &'d [u8], reading: &mut Reading<'_, '_>) -> &'d [u8] {
        match self.state {
            State::Head => self.head(data, reading),
            State::Length(left) => {
                let count = usize::try_from(left).unwrap_or(usize::MAX).min(data.len());
                self.take(&data[..count], reading);
                match left - count as u64 {
                    0 => self.finish(reading),
                    left => self.state = State::Length(left),
                }
                &data[count..]
            }
            State::UntilClose => {
                self.take(data, reading);
                &[]
            }
            State::ChunkLine => self.in_line(
                data,
                |half, line, reading| {
                    let digits = line.trim_ascii();
                    let size = digits.iter().map_while(|byte| char::from(*byte).to_digit(16));
                    let size = size
                        .fold(0u64, |size, digit| size.saturating_mul(16).saturating_add(u64::from(digit)));
                    match () {
                        () if digits.first().is_none_or(|byte| !byte.is_ascii_hexdigit()) => {
                            half.finish(reading)
                        }
                        () if size == 0 => half.state = State::Trailer,
                        () => half.state = State::Chunk(size),
                    }
                },
                reading,
            ),
            State::Chunk(left) => {
                let count = usize::try_from(left).unwrap_or(usize::MAX).min(data.len());
                self.take(&data[..count], reading);
                self.state = match left - count as u64 {
                    0 => State::ChunkEnd,
                    left => State::Chunk(left),
                };
                &data[count..]
            }
            State::ChunkEnd => self.in_line(data, |half, _, _| half.state = State::ChunkLine, reading),
            State::Trailer => self.in_line(
                data,
                |half, line, reading| {
                    if line.trim_ascii().is_empty() {
                        half.finish(reading);
                    }
                },
                reading,
            ),
            State::Done => &[],
        }
    }

    /// Takes a line, as soon as there is one as a whole; what is left.
    fn in_line<'d>(
        &mut self,
        data: &'d [u8],
        take: fn(&mut Half, &[u8], &mut Reading<'_, '_>),
        reading: &mut Reading<'_, '_>,
    ) -> &'d [u8] {
        let end = memchr::memchr(b'\n', data);
        let count = end.map_or(data.len(), |end| end + 1);
        if self.line.len() + count > MAX_CHUNK_LINE {
            // No server would go on with this either.
            self.finish(reading);
            self.state = State::Done;
            return &[];
        }
        self.line.extend_from_slice(&data[..count]);
        if end.is_some() {
            let line = core::mem::take(&mut self.line);
            take(self, &line, reading);
        }
        &data[count..]
    }

    /// Takes a head, or what there is of it.
    fn head<'d>(&mut self, data: &'d [u8], reading: &mut Reading<'_, '_>) -> &'d [u8] {
        if self.head.is_empty() {
            // Empty lines between messages.
            let blank = data.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            let data = &data[blank..];
            self.start = self.position + blank as u64;
            let Some(end) = head_end(data, 0) else {
                self.keep(data, reading);
                return &[];
            };
            self.message(&data[..end], reading);
            return &data[end..];
        }
        let before = self.head.len();
        // An end that reaches over the seam is found in both.
        self.head.extend_from_slice(&data[..data.len().min(MAX_HEAD)]);
        match head_end(&self.head, before) {
            Some(end) if end >= before => {
                let mut head = core::mem::take(&mut self.head);
                head.truncate(end);
                self.message(&head, reading);
                &data[end - before..]
            }
            _ if self.head.len() > MAX_HEAD => {
                reading.share.lost += 1;
                self.state = State::Done;
                &[]
            }
            _ => &[],
        }
    }

    fn keep(&mut self, data: &[u8], reading: &mut Reading<'_, '_>) {
        if data.len() > MAX_HEAD {
            reading.share.lost += 1;
            self.state = State::Done;
        } else {
            self.head.extend_from_slice(data);
        }
    }

    /// A head is there.
    fn message(&mut self, bytes: &[u8], reading: &mut Reading<'_, '_>) {
        let head = Head::new(bytes);
        let framing = match reading.direction {
            Direction::ToServer => {
                reading.asked.push(Asked::of(head));
                head.request_framing()
            }
            Direction::ToClient => {
                let is_interim = matches!(head.parts()[1], [b'1', _, _]) && head.parts()[1] != b"101";
                let asked = if is_interim { Some(Asked::Other) } else { reading.asked.pop() };
                let Some(asked) = asked else {
                    // Whether this one has a body is not known any more.
                    reading.share.lost += 1;
                    self.state = State::Done;
                    return;
                };
                head.response_framing(asked)
            }
        };
        let wants_body = reading.limits.bodies[reading.direction as usize] && framing != Framing::Tunnel;
        let is_end = framing == Framing::Length(0) || framing == Framing::Tunnel;
        let message = Message {
            app: App::Http,
            direction: reading.direction,
            head: bytes,
            body: is_end.then_some(&[]),
            begins: true,
            start: self.start,
        };
        self.waiting.clear();
        (reading.sink)(&message, &mut self.waiting);
        self.is_told = is_end || !wants_body && self.waiting.is_empty();
        self.state = match framing {
            Framing::Length(0) => State::Head,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::ChunkLine,
            Framing::UntilClose => State::UntilClose,
            Framing::Tunnel => State::Done,
        };
        if !self.is_told {
            self.head.clear();
            self.head.extend_from_slice(bytes);
        }
    }

    /// More of a body.
    fn take(&mut self, data: &[u8], reading: &mut Reading<'_, '_>) {
        if self.is_told {
            return;
        }
        let room = reading.limits.body.saturating_sub(self.body.len());
        let count = data.len().min(room);
        self.body.extend_from_slice(&data[..count]);
        if self.body.len() >= reading.limits.body {
            self.tell(reading);
        }
    }

    /// The message has ended.
    fn finish(&mut self, reading: &mut Reading<'_, '_>) {
        self.tell(reading);
        (self.state, self.is_told) = (State::Head, false);
    }

    fn tell(&mut self, reading: &mut Reading<'_, '_>) {
        if self.is_told {
            return;
        }
        self.is_told = true;
        let (head, body) = (core::mem::take(&mut self.head), core::mem::take(&mut self.body));
        let message = Message {
            app: App::Http,
            direction: reading.direction,
            head: &head,
            body: Some(&body),
            begins: false,
            start: self.start,
        };
        (reading.sink)(&message, &mut self.waiting);
        self.waiting.clear();
    }
}
