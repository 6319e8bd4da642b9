//! Messages of applications' protocols, found by what is said and not by port.
//!
//! 1. A [`Session`] belongs to a flow. It recognises the protocol by the first bytes of either direction.
//! 2. HTTP/1 heads and bodies ([`half`]), TLS hellos ([`tls`]) and DNS messages ([`dns`]) are cut out of the
//!    stream; a head or message that lies in one segment is not copied.
//! 3. Each becomes a [`Message`], from which [`Message::parts`] takes the buffers that rules ask for
//!    ([`fields`], [`http`], [`uri`], [`body`]).
//!
//! Limits: heads of 64 KiB and parts of longer ones, TLS hellos of 132 KiB, bodies as [`Limits`] say; all
//! that is held comes out of one [`Share`] of memory, of which a client has a part when it is scarce. What
//! exceeds a limit is not read any further, and counted.

pub mod asked;
pub mod body;
pub mod dns;
pub mod fields;
pub mod half;
mod head_lines;
pub mod http;
mod recognise;
pub mod tls;
pub mod uri;

use crate::rules::Direction;
use crate::rules::buffer::{App, Buffer};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use asked::Queue;
use fields::Fields;
use half::{Half, Reading};
use http::{Head, Wanted};
use nf_sdk::Nanos;

/// Longest hello of TLS, with what surrounds it.
const MAX_HELLO: usize = 132 * 1024;
/// Most layers of encodings that are undone.
const MAX_LAYERS: usize = 4;
/// What a session takes, beside what it holds.
const SESSION: usize = 528;

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

/// Kinds of sources that memory is counted for.
const SOURCES: usize = 256;
/// What a source may have of the memory when less than that is left, and when holders begin to give up
/// theirs: a fraction of it.
const PART: usize = 4;
const SCARCE: usize = 16;
/// Sessions that are looked at for one that gives up what it holds, and the least that it holds.
const CANDIDATES: usize = 16;
const HOLDS: usize = 1024;

/// Memory that all sessions share.
#[derive(Debug)]
pub struct Share {
    total: usize,
    left: usize,
    /// Of clients whose addresses have this number, and the number of the client that memory is taken for.
    used: Box<[usize]>,
    source: u8,
    /// Directions that were not read any further for lack of memory, or because something was too long.
    pub lost: u64,
    /// Of these, those for lack of memory.
    pub refused: u64,
}

impl Share {
    /// So many bytes.
    pub fn new(bytes: usize) -> Share {
        let used = vec![0; SOURCES].into_boxed_slice();
        Share { total: bytes, left: bytes, used, source: 0, lost: 0, refused: 0 }
    }

    /// Bytes that are free.
    pub fn left(&self) -> usize {
        self.left
    }

    /// A client has more than its part while memory is scarce.
    fn is_greedy(&self, source: u8) -> bool {
        self.left < self.total / PART && self.used[usize::from(source)] > self.total / PART
    }

    /// What was held is now as much; false when there is no memory for it, and nothing is held then.
    fn resize(&mut self, before: usize, now: usize) -> bool {
        self.release(before);
        let used = &mut self.used[usize::from(self.source)];
        let is_allowed = now <= before || self.left >= self.total / PART || *used + now <= self.total / PART;
        match self.left.checked_sub(now).filter(|_| is_allowed) {
            Some(left) => {
                (self.left, *used) = (left, *used + now);
                true
            }
            None => {
                self.lost += 1;
                self.refused += 1;
                false
            }
        }
    }

    fn release(&mut self, bytes: usize) {
        self.left += bytes;
        let used = &mut self.used[usize::from(self.source)];
        *used = used.saturating_sub(bytes);
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

/// What was taken of a message's body.
#[derive(Clone, Copy, Debug, Default)]
pub struct TakenBody<'a> {
    /// How many bytes were looked at.
    pub bytes: usize,
    /// There is more than the limit.
    pub is_cut: bool,
    /// The body itself, where it has no encodings.
    pub plain: Option<(Buffer, &'a [u8])>,
}

impl<'a> Message<'a> {
    /// Takes the parts of its head, `most` lines of it at most; how many were read.
    pub fn parts(&self, wanted: Wanted, most: usize, out: &mut Fields) -> usize {
        match (self.app, self.direction) {
            (App::Http, Direction::ToServer) => return http::request(self.head, wanted, most, out),
            (App::Http, Direction::ToClient) => return http::response(self.head, wanted, most, out),
            (App::Dns, Direction::ToServer) => dns::questions(self.head, out),
            (App::Dns, Direction::ToClient) => {}
            (App::Tls, _) => drop(tls::parts(self.head, out)),
        }
        0
    }

    /// Takes its body, without encodings, `limit` bytes of it at most.
    pub fn take_body(&self, limit: usize, out: &mut Fields) -> TakenBody<'a> {
        let Some(body) = self.body.filter(|body| !body.is_empty() && self.app == App::Http) else {
            return TakenBody::default();
        };
        if self.direction == Direction::ToServer {
            let plain = Some((Buffer::RequestBody, body));
            return TakenBody { bytes: body.len(), is_cut: false, plain };
        }
        let head = Head::new(self.head);
        let codings = head.codings();
        let mut taken = TakenBody::default();
        if codings == 0 {
            (taken.bytes, taken.plain) = (body.len(), Some((Buffer::ResponseBody, body)));
        } else {
            taken.undo(body, codings, limit, out);
        }
        if head.may_have_no_chunks() {
            let body = body::without_chunks(body);
            if codings == 0 {
                taken.bytes += body.len();
                out.put(Buffer::ResponseBody, body);
            } else {
                taken.undo(&body, codings, limit, out);
            }
        }
        taken
    }
}

impl TakenBody<'_> {
    /// Takes a body without its encodings: what it makes of all layers together is limited.
    fn undo(&mut self, body: &[u8], codings: usize, limit: usize, out: &mut Fields) {
        let mut decoded = Vec::new();
        let mut left = limit.saturating_mul(2);
        for layer in 0..codings.min(MAX_LAYERS) {
            let room = left.min(limit);
            let inner = out.inflater.decode(if layer == 0 { body } else { &decoded }, room);
            out.inflater.take_back(core::mem::replace(&mut decoded, inner));
            self.is_cut |= decoded.len() >= room;
            self.bytes += decoded.len();
            left -= decoded.len();
        }
        self.is_cut |= codings > MAX_LAYERS;
        self.bytes += decoded.len();
        out.put(Buffer::ResponseBody, decoded);
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
    /// What a direction has said is of no protocol that is read.
    is_none: [bool; 2],
    /// A stream's beginning, while it is too short to tell; of DNS, a message until it is whole.
    start: [Vec<u8>; 2],
    hellos: [tls::Hello; 2],
    is_over: [bool; 2],
    halves: [Half; 2],
    asked: Queue,
    /// Bits that rules have set.
    pub bits: crate::bits::Set,
    /// When there was something to read, and the number of the client.
    last: Nanos,
    source: u8,
}

impl Session {
    /// The application's protocol, once it is known; `Some(None)` when what this direction says is none that
    /// is read.
    pub fn app(&self, direction: Option<Direction>) -> Option<Option<App>> {
        match self.known {
            Known::Nothing if direction.is_some_and(|side| self.is_none[Session::side(side)]) => Some(None),
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
        let side = Session::side(direction);
        if self.known != Known::Nothing || self.is_none[side] || data.is_empty() {
            return;
        }
        let start = &self.start[side];
        let known = if start.is_empty() {
            recognise::stream(direction, data)
        } else {
            let mut bytes = start.clone();
            bytes.extend_from_slice(&data[..data.len().min(recognise::LONGEST_LINE)]);
            recognise::stream(direction, &bytes)
        };
        match known {
            Some(Some(app)) => self.known = Known::Is(app),
            Some(None) => {
                self.is_none[side] = true;
                // What the other direction says may still tell.
                if self.is_none[1 - side] {
                    self.known = Known::Other;
                }
            }
            None => {}
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
            Known::Other => {
                self.drop_starts(share);
                self.is_over = [true; 2];
            }
            Known::Nothing if self.is_none[side] => {
                share.release(core::mem::take(&mut self.start[side]).capacity());
            }
            Known::Nothing => {
                // Few bytes: with more, something would be known.
                let start = &mut self.start[side];
                let before = start.capacity();
                let blank = if start.is_empty() { recognise::blank(direction, data) } else { 0 };
                start.extend_from_slice(&data[blank..]);
                if !share.resize(before, start.capacity()) {
                    self.start[side] = Vec::new();
                    self.is_over[side] = true;
                }
            }
            Known::Is(App::Dns) => self.dns(direction, (data, position), share, sink),
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
        if app == App::Http {
            let Session { halves, asked, .. } = self;
            let mut reading = Reading { direction, limits, share, asked, sink };
            halves[side].feed(data, position, &mut reading);
            return;
        }
        let hello = &mut self.hellos[side];
        let before = hello.message.capacity();
        let progress = hello.take(data, MAX_HELLO);
        if progress == tls::Progress::Partial && share.resize(before, hello.message.capacity()) {
            return;
        }
        let tls::Hello { message, .. } = core::mem::take(hello);
        self.is_over[side] = true;
        match progress {
            tls::Progress::Whole => {
                let head = &message;
                let hello = Message { app, direction, head, body: Some(&[]), begins: true, start: position };
                sink(&hello, &mut Vec::new());
            }
            tls::Progress::TooLong => share.lost += 1,
            // There is nothing of it, or it was counted and given back.
            tls::Progress::Partial => return,
            tls::Progress::None => {}
        }
        share.release(before);
    }

    /// DNS messages with their lengths before them (RFC 7766).
    fn dns(
        &mut self,
        direction: Direction,
        (data, position): (&[u8], u64),
        share: &mut Share,
        sink: &mut dyn FnMut(&Message<'_>, &mut Vec<u32>),
    ) {
        let side = Session::side(direction);
        let mut kept = core::mem::take(&mut self.start[side]);
        let (before, start) = (kept.capacity(), position.saturating_sub(kept.len() as u64));
        if !kept.is_empty() {
            kept.extend_from_slice(data);
        }
        let all = if kept.is_empty() { data } else { &kept };
        let mut left = all;
        while let Some((length, rest)) = left.split_first_chunk() {
            let Some(message) = rest.get(..usize::from(u16::from_be_bytes(*length))) else { break };
            left = &rest[message.len()..];
            if dns::recognise(message).is_none() {
                // Servers refuse it, and go on with the next one.
                continue;
            }
            let body = Some(&[][..]);
            let message = Message { app: App::Dns, direction, head: message, body, begins: true, start };
            sink(&message, &mut Vec::new());
        }
        if kept.is_empty() {
            kept = left.to_vec();
        } else {
            let taken = kept.len() - left.len();
            kept.drain(..taken);
        }
        if share.resize(before, kept.capacity()) {
            self.start[side] = kept;
        } else {
            self.is_over[side] = true;
        }
    }

    /// A direction's connection seems to have ended: what there is of a message may be all there will be.
    pub fn end(
        &mut self,
        (direction, is_last): (Direction, bool),
        limits: &Limits,
        share: &mut Share,
        sink: &mut dyn FnMut(&Message<'_>, &mut Vec<u32>),
    ) {
        let side = Session::side(direction);
        if self.known == Known::Is(App::Http) && !self.is_over[side] {
            let Session { halves, asked, .. } = self;
            halves[side].end(is_last, &mut Reading { direction, limits, share, asked, sink });
        }
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
        self.stop(side, share);
    }

    /// Nothing more of a direction is read.
    fn stop(&mut self, side: usize, share: &mut Share) {
        self.halves[side].stop(share);
        share.release(core::mem::take(&mut self.start[side]).capacity());
        share.release(core::mem::take(&mut self.hellos[side]).message.capacity());
        self.is_over[side] = true;
    }

    fn drop_starts(&mut self, share: &mut Share) {
        for start in &mut self.start {
            share.release(core::mem::take(start).capacity());
        }
    }

    /// A message has begun and not ended, of which rules would look at the body.
    pub fn is_reading(&self) -> bool {
        self.halves.iter().any(Half::is_reading)
    }

    /// Bytes that it holds.
    fn held(&self) -> usize {
        let halves: usize = self.halves.iter().map(Half::held).sum();
        let hellos: usize = self.hellos.iter().map(|hello| hello.message.capacity()).sum();
        halves + hellos + self.start.iter().map(Vec::capacity).sum::<usize>()
    }
}

/// Sessions of all flows, by number, counted from 1.
#[derive(Debug)]
pub struct Sessions {
    list: Vec<Session>,
    free: Vec<u32>,
    hand: usize,
    /// Memory for them.
    pub share: Share,
}

impl Sessions {
    /// In so many bytes.
    pub fn new(bytes: usize) -> Sessions {
        Sessions { list: Vec::new(), free: Vec::new(), hand: 0, share: Share::new(bytes) }
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
        let session = self.list.get_mut((number as usize).checked_sub(1)?)?;
        self.share.source = session.source;
        Some((session, &mut self.share))
    }

    /// Notes that there is something to read for a session, and where memory is scarce has another one give
    /// up what it holds: of a few, one whose client has more than its part, or else the one that was idle the
    /// longest.
    pub fn touch(&mut self, number: u32, now: Nanos) {
        if let Some(session) = self.list.get_mut((number as usize).wrapping_sub(1)) {
            session.last = now;
        }
        if self.share.left < self.share.total / SCARCE {
            self.make_room(number);
        }
    }

    #[cold]
    fn make_room(&mut self, but: u32) {
        let count = self.list.len();
        if count == 0 {
            return;
        }
        let hand = self.hand;
        self.hand = (hand + CANDIDATES) % count;
        let candidates = (0..CANDIDATES.min(count)).map(|step| (hand + step) % count);
        let holders =
            candidates.filter(|place| *place as u32 + 1 != but && self.list[*place].held() >= HOLDS);
        let Some(place) = holders.min_by_key(|place| {
            let session = &self.list[*place];
            (!self.share.is_greedy(session.source), session.last)
        }) else {
            return;
        };
        let session = &mut self.list[place];
        self.share.source = session.source;
        for side in 0..2 {
            if !session.is_over[side] {
                self.share.lost += 1;
                session.stop(side, &mut self.share);
            }
        }
    }

    /// Takes one for a client with this number; `None` for lack of memory.
    pub fn take(&mut self, source: u8) -> Option<u32> {
        self.share.source = source;
        if !self.share.resize(0, SESSION) {
            return None;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.list.push(Session::default());
            self.list.len() as u32 - 1
        });
        if let Some(session) = self.list.get_mut(number as usize) {
            session.source = source;
        }
        Some(number + 1)
    }

    /// Gives one back.
    pub fn give_back(&mut self, number: u32) {
        let Some(place) = number.checked_sub(1) else { return };
        if let Some(session) = self.list.get_mut(place as usize) {
            let held = session.held();
            self.share.source = session.source;
            *session = Session::default();
            self.share.release(held + SESSION);
            self.free.push(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_takes_as_much_as_is_counted() {
        assert!(size_of::<Session>() <= SESSION, "{} bytes", size_of::<Session>());
    }
}
