//! Messages of applications' protocols, found by what is said and not by port.
//!
//! 1. A [`Session`] belongs to a flow. It recognises the protocol by the first bytes of either direction.
//! 2. HTTP/1 heads and bodies ([`half`]), TLS hellos ([`tls`]) and DNS messages ([`dns`]) are cut out of the
//!    stream; a head or message that lies in one segment is not copied.
//! 3. Each becomes a [`Message`], from which [`Message::parts`] takes the buffers that rules ask for
//!    ([`fields`], [`http`], [`uri`], [`body`]).
//!
//! Limits: heads of 32 KiB, TLS hellos of 16 KiB, bodies as [`Limits`] say; all that is held comes out of one
//! [`Share`] of memory. What exceeds a limit is not read any further, and counted.

pub mod body;
pub mod dns;
pub mod fields;
pub mod half;
pub mod http;
mod recognise;
pub mod tls;
pub mod uri;

use crate::rules::Direction;
use crate::rules::buffer::{App, Buffer};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use fields::Fields;
use half::{Half, Reading};
use http::{Asked, Head, Wanted};

/// Longest hello of TLS, with what surrounds it.
const MAX_HELLO: usize = 16 * 1024;
/// What a session takes, beside what it holds.
const SESSION: usize = 512;

/// Bounds of what is read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Most bytes of a body.
    pub body: usize,
    /// Whether rules ask for bodies of requests and of responses.
    pub bodies: [bool; 2],
    /// Buffers that rules ask for.
    pub wanted: Wanted,
    /// Rules ask for a protocol, or for parts of its messages.
    pub reads: bool,
}

/// Memory that all sessions share.
#[derive(Debug, Default)]
pub struct Share {
    left: usize,
    /// Directions that were not read any further for lack of memory, or because something was too long.
    pub lost: u64,
}

impl Share {
    /// So many bytes.
    pub fn new(bytes: usize) -> Share {
        Share { left: bytes, lost: 0 }
    }

    /// Bytes that are free.
    pub fn left(&self) -> usize {
        self.left
    }

    /// What was held is now as much; false when there is no memory for it, and nothing is held then.
    fn resize(&mut self, before: usize, now: usize) -> bool {
        self.left += before;
        match self.left.checked_sub(now) {
            Some(left) => {
                self.left = left;
                true
            }
            None => {
                self.lost += 1;
                false
            }
        }
    }

    fn release(&mut self, bytes: usize) {
        self.left += bytes;
    }
}

/// A message, or what there is of it.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The protocol.
    pub app: App,
    /// Which end sent it.
    pub direction: Direction,
    /// Its head; all of it where there is no body.
    pub head: &'a [u8],
    /// Its body, when it has ended.
    pub body: Option<&'a [u8]>,
    /// It was not told before.
    pub begins: bool,
    /// Number of its first byte in the stream.
    pub start: u64,
}

impl Message<'_> {
    /// Takes the parts of its head.
    pub fn parts(&self, wanted: Wanted, out: &mut Fields) {
        match (self.app, self.direction) {
            (App::Http, Direction::ToServer) => http::request(self.head, wanted, out),
            (App::Http, Direction::ToClient) => http::response(self.head, wanted, out),
            (App::Dns, Direction::ToServer) => dns::questions(self.head, out),
            (App::Dns, Direction::ToClient) => {}
            (App::Tls, _) => drop(tls::hello(self.head, out)),
        }
    }

    /// Takes its body, without encodings, `limit` bytes of it at most; how many that are.
    pub fn take_body(&self, limit: usize, out: &mut Fields) -> usize {
        let Some(body) = self.body.filter(|body| !body.is_empty() && self.app == App::Http) else { return 0 };
        if self.direction == Direction::ToServer {
            out.add(Buffer::RequestBody, body);
            return body.len();
        }
        let codings = Head::new(self.head).codings();
        let mut decoded = Vec::new();
        for layer in 0..codings {
            decoded = body::decode(if layer == 0 { body } else { &decoded }, limit);
        }
        let body = if codings == 0 { body } else { &decoded };
        out.add(Buffer::ResponseBody, body);
        body.len() * (1 + codings)
    }
}

/// What is known of a flow's protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Known {
    /// Too little was said.
    #[default]
    Nothing,
    /// It is this one.
    Is(App),
    /// It is none of them.
    Other,
}

/// A flow's messages and bits.
#[derive(Debug, Default)]
pub struct Session {
    known: Known,
    /// A stream's beginning, while it is too short to tell; of TLS, until the hello is whole; of DNS, a message.
    start: [Vec<u8>; 2],
    is_over: [bool; 2],
    halves: [Half; 2],
    asked: VecDeque<Asked>,
    /// Bits that rules have set.
    pub bits: crate::bits::Set,
}

impl Session {
    /// The protocol, once it is known; `Some(None)` when it is none that is read.
    pub fn app(&self) -> Option<Option<App>> {
        match self.known {
            Known::Nothing => None,
            Known::Is(app) => Some(Some(app)),
            Known::Other => Some(None),
        }
    }

    /// Which it is of the two directions.
    fn side(direction: Direction) -> usize {
        direction as usize
    }

    /// Looks at a stream's bytes before rules do: afterwards the protocol is known if it can be.
    pub fn recognise(&mut self, direction: Direction, data: &[u8]) {
        if self.known != Known::Nothing || data.is_empty() {
            return;
        }
        let start = &self.start[Session::side(direction)];
        let known = if start.is_empty() {
            recognise::stream(data)
        } else {
            let mut bytes = start.clone();
            bytes.extend_from_slice(&data[..data.len().min(recognise::ENOUGH)]);
            recognise::stream(&bytes)
        };
        if let Some(known) = known {
            self.known = known.map_or(Known::Other, Known::Is);
        }
    }

    /// A datagram is a DNS message.
    pub fn is_dns(&mut self) {
        self.known = Known::Is(App::Dns);
    }

    /// Goes on with more of a stream, of which the first byte has this number.
    pub fn feed(
        &mut self,
        direction: Direction,
        (data, position): (&[u8], u64),
        limits: &Limits,
        share: &mut Share,
        sink: &mut dyn FnMut(&Message<'_>, &mut Vec<u32>),
    ) {
        let side = Session::side(direction);
        if self.is_over[side] || data.is_empty() {
            return;
        }
        match self.known {
            Known::Other => self.is_over = [true; 2],
            Known::Nothing => {
                // Few bytes: with more, something would be known.
                let before = self.start[side].capacity();
                self.start[side].extend_from_slice(data);
                let now = self.start[side].capacity();
                if !share.resize(before, now) {
                    (self.known, self.start[side]) = (Known::Other, Vec::new());
                }
            }
            Known::Is(app) => {
                let start = core::mem::take(&mut self.start[side]);
                share.release(start.capacity());
                if start.is_empty() {
                    self.go_on(app, direction, (data, position), limits, share, sink);
                } else {
                    let mut bytes = start;
                    let position = position.saturating_sub(bytes.len() as u64);
                    bytes.extend_from_slice(data);
                    self.go_on(app, direction, (&bytes, position), limits, share, sink);
                }
            }
        }
    }

    fn go_on(
        &mut self,
        app: App,
        direction: Direction,
        (data, position): (&[u8], u64),
        limits: &Limits,
        share: &mut Share,
        sink: &mut dyn FnMut(&Message<'_>, &mut Vec<u32>),
    ) {
        let side = Session::side(direction);
        let mut waiting = Vec::new();
        let mut tell = |head: &[u8]| {
            let message = Message { app, direction, head, body: Some(&[]), begins: true, start: position };
            sink(&message, &mut waiting);
        };
        let mut left = data;
        match app {
            App::Http => {
                let Session { halves, asked, .. } = self;
                let mut reading = Reading { direction, limits, share, asked, sink };
                halves[side].feed(data, position, &mut reading);
                return;
            }
            App::Tls => match tls::hello(data, &mut Fields::default()) {
                tls::Hello::Partial if data.len() < MAX_HELLO => {}
                tls::Hello::Partial => {
                    share.lost += 1;
                    self.is_over[side] = true;
                }
                tls::Hello::None => self.is_over[side] = true,
                tls::Hello::Whole => {
                    tell(data);
                    self.is_over[side] = true;
                }
            },
            App::Dns => {
                // RFC 7766: a length before each message.
                while let Some((length, rest)) = left.split_first_chunk() {
                    let Some(message) = rest.get(..usize::from(u16::from_be_bytes(*length))) else { break };
                    if dns::recognise(message).is_none() {
                        self.is_over[side] = true;
                        break;
                    }
                    tell(message);
                    left = &rest[message.len()..];
                }
            }
        }
        if !self.is_over[side] && !left.is_empty() {
            let kept = left.to_vec();
            if share.resize(0, kept.capacity()) {
                self.start[side] = kept;
            } else {
                self.is_over[side] = true;
            }
        }
    }

    /// A direction's connection has ended: what there is of a message is all there will be.
    pub fn end(
        &mut self,
        direction: Direction,
        limits: &Limits,
        share: &mut Share,
        sink: &mut dyn FnMut(&Message<'_>, &mut Vec<u32>),
    ) {
        let side = Session::side(direction);
        if self.known == Known::Is(App::Http) && !self.is_over[side] {
            let Session { halves, asked, .. } = self;
            halves[side].end(&mut Reading { direction, limits, share, asked, sink });
        }
        self.is_over[side] = true;
    }

    /// Bytes of a direction are missing: what follows cannot be told apart.
    pub fn gap(&mut self, direction: Direction, share: &mut Share) {
        let side = Session::side(direction);
        if self.is_over[side] {
            return;
        }
        if self.known != Known::Other {
            share.lost += 1;
        }
        self.halves[side].stop(share);
        share.release(core::mem::take(&mut self.start[side]).capacity());
        self.is_over[side] = true;
    }

    /// A message has begun and not ended, of which rules would look at the body.
    pub fn is_reading(&self) -> bool {
        self.halves.iter().any(Half::is_reading)
    }

    fn held(&self) -> usize {
        let halves: usize = self.halves.iter().map(Half::held).sum();
        halves + self.start.iter().map(Vec::capacity).sum::<usize>()
    }
}

/// Sessions of all flows, by number, counted from 1.
#[derive(Debug, Default)]
pub struct Sessions {
    list: Vec<Session>,
    free: Vec<u32>,
    /// Memory for them.
    pub share: Share,
}

impl Sessions {
    /// In so many bytes.
    pub fn new(bytes: usize) -> Sessions {
        Sessions { list: Vec::new(), free: Vec::new(), share: Share::new(bytes) }
    }

    /// How many are in use.
    pub fn in_use(&self) -> usize {
        self.list.len() - self.free.len()
    }

    /// A session.
    pub fn get(&self, number: u32) -> Option<&Session> {
        self.list.get((number as usize).checked_sub(1)?)
    }

    /// A session, and the memory that it takes from.
    pub fn get_mut(&mut self, number: u32) -> Option<(&mut Session, &mut Share)> {
        Some((self.list.get_mut((number as usize).checked_sub(1)?)?, &mut self.share))
    }

    /// Takes one; `None` for lack of memory.
    pub fn take(&mut self) -> Option<u32> {
        if !self.share.resize(0, SESSION) {
            return None;
        }
        if let Some(number) = self.free.pop() {
            return Some(number + 1);
        }
        self.list.push(Session::default());
        Some(self.list.len() as u32)
    }

    /// Gives one back.
    pub fn give_back(&mut self, number: u32) {
        let Some(place) = number.checked_sub(1) else { return };
        if let Some(session) = self.list.get_mut(place as usize) {
            let held = session.held();
            *session = Session::default();
            self.share.release(held + SESSION);
            self.free.push(place);
        }
    }
}
