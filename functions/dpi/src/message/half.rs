//! One direction of an HTTP/1 connection: heads, bodies, and what follows them.

use super::asked::Queue;
use super::http::{self, Asked, Framing, Head, whole_head};
use super::{Limits, Message, Share};
use crate::rules::Direction;
use crate::rules::buffer::App;
use alloc::vec::Vec;

/// Longest head that is looked at as a whole. Of a longer one the parts are, each with the first line.
const MAX_HEAD: usize = 64 * 1024;
/// As much is kept of a line with a chunk's length: servers pass over what else it says.
const MAX_CHUNK_LINE: usize = 64;

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

/// The length that a line before a chunk says; `None` when it says none. What may stand behind it is blank or
/// an extension.
pub fn chunk_size(line: &[u8]) -> Option<u64> {
    let line = line.trim_ascii();
    let count = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let is_whole = matches!(line.get(count), None | Some(b' ' | b'\t' | b'\r' | b';'));
    if !is_whole || !(1..=16).contains(&count) {
        return None;
    }
    u64::from_str_radix(core::str::from_utf8(&line[..count]).ok()?, 16).ok()
}

/// One direction.
#[derive(Debug, Default)]
pub struct Half {
    state: State,
    /// The length of a body that is no chunks, though its head says so; [`u64::MAX`] without a length.
    unchunked: u64,
    /// There was a message.
    has_begun: bool,
    /// There was a chunk.
    is_in_chunks: bool,
    /// What the parts of a long head say of the body that were looked at.
    framing: Option<Framing>,
    /// As much of the body was there, and 1, when the connection seemed to end, and was looked at.
    told: u32,
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
        self.read(data, position, reading);
        if !reading.share.resize(before, self.held()) {
            self.stop_with(reading, 0);
        }
    }

    fn read(&mut self, data: &[u8], position: u64, reading: &mut Reading<'_, '_>) {
        let mut rest = data;
        while !rest.is_empty() && self.state != State::Done {
            self.position = position + (data.len() - rest.len()) as u64;
            rest = self.step(rest, reading);
        }
    }

    /// The connection has ended, or seems to: what there is of a message may be all. Whether its receiver got
    /// what ended it is not known, so that what comes all the same is read. `is_last`: nothing comes any
    /// more.
    pub fn end(&mut self, is_last: bool, reading: &mut Reading<'_, '_>) {
        if self.state == State::Head && reading.direction == Direction::ToClient && !self.head.is_empty() {
            // A response that is a body alone.
            let body = core::mem::take(&mut self.head);
            reading.share.release(body.capacity());
            self.tell_alone(&body, reading);
            return;
        }
        // Once more only when there is twice as much: what seems to end it may come many times.
        let (told, now) = (self.told, self.body.len() as u32 + 1);
        if self.is_reading() && (now >= 2 * told || is_last && now != told) {
            self.told = now;
            let message = Message { body: Some(&self.body), ..self.begun(reading.direction, &self.head) };
            // Those that wait do so for what may still come.
            (reading.sink)(&message, &mut self.waiting.clone());
        }
    }

    /// The message whose head was told.
    fn begun<'m>(&self, direction: Direction, head: &'m [u8]) -> Message<'m> {
        Message { app: App::Http, direction, head, body: None, begins: false, start: self.start }
    }

    /// Looks at a response without a head.
    fn tell_alone(&mut self, body: &[u8], reading: &mut Reading<'_, '_>) {
        let message = Message { body: Some(body), begins: true, ..self.begun(reading.direction, &[]) };
        (reading.sink)(&message, &mut Vec::new());
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
            State::ChunkLine if !self.is_in_chunks && self.has_no_chunk(data) => {
                let line = core::mem::take(&mut self.line);
                self.no_chunk(&line, self.position - line.len() as u64, reading);
                data
            }
            State::ChunkLine => self.in_line(
                data,
                |half, line, begins, reading| match chunk_size(line) {
                    Some(0) => half.state = State::Trailer,
                    Some(size) => (half.state, half.is_in_chunks) = (State::Chunk(size), true),
                    None => half.no_chunk(line, begins, reading),
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
            State::ChunkEnd => self.in_line(data, |half, _, _, _| half.state = State::ChunkLine, reading),
            State::Trailer => self.in_line(
                data,
                |half, line, _, reading| {
                    if matches!(line, b"\n" | b"\r\n") {
                        half.finish(reading);
                    }
                },
                reading,
            ),
            State::Done => &[],
        }
    }

    /// Takes a line, and the number of its first byte, as soon as there is one as a whole; what is left.
    fn in_line<'d>(
        &mut self,
        data: &'d [u8],
        take: fn(&mut Half, &[u8], u64, &mut Reading<'_, '_>),
        reading: &mut Reading<'_, '_>,
    ) -> &'d [u8] {
        let end = memchr::memchr(b'\n', data);
        let count = end.map_or(data.len(), |end| end + 1);
        let begins = self.position - self.line.len() as u64;
        let room = MAX_CHUNK_LINE.saturating_sub(self.line.len());
        self.line.extend_from_slice(&data[..count.min(room)]);
        if end.is_some() {
            let line = core::mem::take(&mut self.line);
            take(self, &line, begins, reading);
        }
        &data[count..]
    }

    /// Where a chunk should begin there is none. Of the first one some receivers say that the body has no
    /// chunks at all, and go on with it.
    fn no_chunk(&mut self, line: &[u8], begins: u64, reading: &mut Reading<'_, '_>) {
        if core::mem::replace(&mut self.is_in_chunks, true) {
            self.finish(reading);
            return;
        }
        self.state = match self.unchunked {
            u64::MAX => State::UntilClose,
            length => State::Length(length),
        };
        if self.state == State::Length(0) {
            self.finish(reading);
        }
        self.read(line, begins, reading);
    }

    /// Whether the first bytes of a body in chunks are none, however the line goes on.
    fn has_no_chunk(&self, data: &[u8]) -> bool {
        let room = MAX_CHUNK_LINE.saturating_sub(self.line.len()).min(data.len());
        let line = [&self.line, &data[..room]].concat();
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let is_short = line.len() < MAX_CHUNK_LINE && !data.contains(&b'\n');
        chunk_size(line).is_none() && !(is_short && line.trim_ascii().is_empty())
    }

    /// Takes a head, or what there is of it.
    fn head<'d>(&mut self, data: &'d [u8], reading: &mut Reading<'_, '_>) -> &'d [u8] {
        if self.head.is_empty() {
            // Empty lines between messages.
            let blank = data.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            let data = &data[blank..];
            self.start = self.position + blank as u64;
            if self.is_headless(data, reading) {
                return data;
            }
            let end = match self.is_undecided(data, reading) {
                true => None,
                false => whole_head(reading.direction, data, 0),
            };
            let Some(end) = end else {
                self.head.extend_from_slice(&data[..data.len().min(MAX_HEAD)]);
                return self.too_long(&data[data.len().min(MAX_HEAD)..], reading);
            };
            self.message(&data[..end], reading);
            return &data[end..];
        }
        let before = self.head.len();
        if self.is_undecided(&self.head, reading) {
            let start = [&core::mem::take(&mut self.head), data].concat();
            self.read(&start, self.position - before as u64, reading);
            return &[];
        }
        let room = (MAX_HEAD + 1).saturating_sub(before).min(data.len());
        // An end that reaches over the seam is found in both.
        self.head.extend_from_slice(&data[..room]);
        match whole_head(reading.direction, &self.head, before) {
            Some(end) if end >= before => {
                let mut head = core::mem::take(&mut self.head);
                head.truncate(end);
                self.message(&head, reading);
                &data[end - before..]
            }
            _ => self.too_long(&data[room..], reading),
        }
    }

    /// Whether too little of a connection's first response is there to tell if it is a body alone.
    fn is_undecided(&self, start: &[u8], reading: &Reading<'_, '_>) -> bool {
        !self.has_begun && reading.direction == Direction::ToClient && start.len() < http::RESPONSE_START
    }

    /// Whether a connection's first response is a body alone, as old servers send it. Then the body begins.
    fn is_headless(&mut self, start: &[u8], reading: &mut Reading<'_, '_>) -> bool {
        if self.has_begun || reading.direction == Direction::ToServer || !http::is_no_response(start) {
            return false;
        }
        self.message(&[], reading);
        if self.state == State::Head {
            self.state = State::Done;
        }
        true
    }

    /// Looks at what there is of a head when that is as much as is kept, and goes on with its first line and
    /// what was not yet a whole field.
    fn too_long<'d>(&mut self, data: &'d [u8], reading: &mut Reading<'_, '_>) -> &'d [u8] {
        if self.head.len() < MAX_HEAD {
            return data;
        }
        let line = memchr::memchr(b'\n', &self.head).map_or(0, |end| end + 1);
        let end = memchr::memrchr(b'\n', &self.head).map_or(0, |end| end + 1);
        let is_line = end <= line || line.max(self.head.len() - end) > MAX_HEAD / 4;
        let part = &self.head[..if is_line { self.head.len() } else { end }];
        self.framing = self.framing.or(Head::new(part).length());
        let message = Message { begins: true, ..self.begun(reading.direction, part) };
        (reading.sink)(&message, &mut Vec::new());
        if is_line {
            // A line as long as that, no server takes.
            reading.share.lost += 1;
            self.state = State::Done;
            return &[];
        }
        self.head.drain(line..end);
        data
    }

    /// A head is there.
    fn message(&mut self, bytes: &[u8], reading: &mut Reading<'_, '_>) {
        let head = Head::new(bytes);
        self.has_begun = true;
        let before = core::mem::take(&mut self.framing);
        let framing = match reading.direction {
            Direction::ToServer => {
                reading.asked.push(Asked::of(head));
                head.request_framing(before)
            }
            Direction::ToClient => {
                let is_interim = head.is_interim();
                let asked = if is_interim { Some(Asked::Other) } else { reading.asked.pop() };
                let Some(asked) = asked else {
                    // Whether this one has a body is not known any more.
                    reading.share.lost += 1;
                    self.state = State::Done;
                    return;
                };
                head.response_framing(asked, before)
            }
        };
        if framing == Framing::Chunked {
            self.unchunked = head.unchunked(reading.direction);
        }
        (self.is_in_chunks, self.told) = (false, 0);
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
        let message = Message { body: Some(&body), ..self.begun(reading.direction, &head) };
        (reading.sink)(&message, &mut self.waiting);
        self.waiting.clear();
    }
}
