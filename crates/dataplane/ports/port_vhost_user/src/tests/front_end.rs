//! A front end and its guest, as far as a test plays them: memory in a file, rings in it, messages.

use super::{Bench, LONG, until};
use crate::Settings;
use crate::dirty::DirtyLog;
use crate::features::{EVENT_IDX, LOG_ALL, PROTOCOL, PROTOCOL_FEATURES, header_length};
use crate::message::{DESCRIPTORS_MAX, HEADER};
use crate::message::{Header, Message, Region, Request, RingAddresses, RingFile, RingState};
use local_socket::{Kind, Listener, connect_as};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::time::Timespec;
use std::fs::File;
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

/// Bytes of the guest's memory.
pub const MEMORY: u64 = 4 << 20;
/// Its address for the guest, and for the front end's process.
pub const GUEST: u64 = 0x1000_0000;
pub const USER: u64 = 0x7000_0000_0000;
/// Descriptors of each ring.
pub const SIZE: u16 = 64;
/// Where the rings lie, one behind the other, and the buffers.
const RING: u64 = 0x1_0000;
const AVAILABLE: u64 = 0x1000;
const USED: u64 = 0x2000;
pub const TABLES: u64 = 0x4000;
const BUFFERS: u64 = 0x20_0000;
pub const BUFFER: u64 = 2048;

pub const NEXT: u16 = 1;
pub const WRITE: u16 = 2;
pub const INDIRECT: u16 = 4;

/// One side of a ring: what the guest has of it.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Chains that it has made available, and descriptors that these have.
    available: u16,
    descriptors: u16,
    /// Chains that it knows to be used.
    used: u16,
}

pub struct FrontEnd {
    socket: UnixStream,
    pub memory: File,
    pub features: u64,
    /// Where its own writes are noted, as the kernel does it.
    pub own: Option<DirtyLog>,
    rings: Vec<Counts>,
    pub kicks: Vec<OwnedFd>,
    pub calls: Vec<OwnedFd>,
}

pub fn make_eventfd() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("a descriptor")
}

pub fn memory_file(flags: MemfdFlags, bytes: u64) -> File {
    let file = memfd_create("guest", flags).expect("memory");
    ftruncate(&file, bytes).expect("a size");
    file.into()
}

impl FrontEnd {
    /// Connects to a server's socket.
    pub fn connect(settings: &Settings) -> FrontEnd {
        let mut found = None;
        until("it listens", || {
            found = connect_as(Kind::Stream, &settings.socket).ok();
            found.is_some()
        });
        FrontEnd::on(found.expect("just seen"))
    }

    /// Takes a client's connection.
    pub fn accept(listener: &Listener) -> FrontEnd {
        let mut found = None;
        until("it connects", || {
            found = listener.accept();
            found.is_some()
        });
        FrontEnd::on(found.expect("just seen"))
    }

    fn on(socket: OwnedFd) -> FrontEnd {
        let socket = UnixStream::from(socket);
        socket.set_nonblocking(false).expect("a socket");
        socket.set_read_timeout(Some(LONG)).expect("a socket");
        let memory = memory_file(MemfdFlags::CLOEXEC, MEMORY);
        let (rings, kicks, calls) = (Vec::new(), Vec::new(), Vec::new());
        FrontEnd { socket, memory, features: 0, own: None, rings, kicks, calls }
    }

    /// Sends bytes as they are.
    pub fn send_bytes(&self, bytes: &[u8], files: &[BorrowedFd<'_>]) -> bool {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2 * DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(files.is_empty() || control.push(SendAncillaryMessage::ScmRights(files)));
        sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).is_ok()
    }

    pub fn send(&self, request: Request, files: &[BorrowedFd<'_>]) {
        self.send_bytes(&Message { request, need_reply: false }.to_bytes(), files);
    }

    /// Sends a request and reads its answer's payload; `None`: the connection was closed.
    pub fn ask(&mut self, request: Request, files: &[BorrowedFd<'_>]) -> Option<Vec<u8>> {
        let number = request.name().1;
        self.send_bytes(&Message { request, need_reply: true }.to_bytes(), files);
        let mut header = [0; HEADER];
        self.socket.read_exact(&mut header).ok()?;
        let word = |at: usize| u32::from_ne_bytes(header[at..at + 4].try_into().expect("four"));
        assert_eq!((word(0), word(4)), (number, 5), "an answer of version 1");
        // As a request it would be refused: only requests are read here otherwise.
        assert!(Header::from_bytes(&header).is_err());
        let mut payload = vec![0; word(8) as usize];
        self.socket.read_exact(&mut payload).ok()?;
        Some(payload)
    }

    pub fn number(&mut self, request: Request) -> u64 {
        let payload = self.ask(request, &[]).expect("an answer");
        u64::from_ne_bytes(payload.try_into().expect("eight bytes"))
    }

    /// Carries a request out, and waits until it was.
    pub fn done(&mut self, request: Request, files: &[BorrowedFd<'_>]) {
        let name = request.name().0;
        assert_eq!(self.ask(request, files), Some(vec![0; 8]), "{name}");
    }

    /// All of the handshake for so many pairs of rings.
    pub fn start(&mut self, features: u64, pairs: usize) {
        self.agree(features);
        self.share();
        self.start_rings(pairs);
    }

    pub fn start_rings(&mut self, pairs: usize) {
        for index in 0..2 * pairs {
            self.rings.push(Counts::default());
            self.kicks.push(make_eventfd());
            self.calls.push(make_eventfd());
            self.start_ring(index);
        }
    }

    pub fn agree(&mut self, features: u64) {
        let offered = self.number(Request::GetFeatures);
        assert_ne!(offered & PROTOCOL_FEATURES, 0);
        let bits = self.number(Request::GetProtocolFeatures);
        assert_eq!(bits, PROTOCOL);
        self.send(Request::SetProtocolFeatures(bits), &[]);
        self.done(Request::SetOwner, &[]);
        self.features = features | PROTOCOL_FEATURES;
        self.done(Request::SetFeatures(self.features), &[]);
    }

    pub fn share(&mut self) {
        let file = self.memory.try_clone().expect("a file");
        let halves = [0, MEMORY / 2].map(|offset| Region {
            guest: GUEST + offset,
            size: MEMORY / 2,
            user: USER + offset,
            offset,
        });
        self.done(Request::SetMemTable(halves.to_vec()), &[file.as_fd(), file.as_fd()]);
    }

    pub fn start_ring(&mut self, index: usize) {
        let state = |number| RingState { index: index as u32, number };
        let file = RingFile { index: index as u32, none: false };
        let (kick, call) = (self.kicks[index].try_clone(), self.calls[index].try_clone());
        self.done(Request::SetVringNum(state(u32::from(SIZE))), &[]);
        self.done(Request::SetVringBase(state(self.rings[index].used.into())), &[]);
        self.done(Request::SetVringAddr(self.addresses(index)), &[]);
        self.done(Request::SetVringCall(file), &[call.expect("a descriptor").as_fd()]);
        self.done(Request::SetVringKick(file), &[kick.expect("a descriptor").as_fd()]);
        self.done(Request::SetVringEnable(state(1)), &[]);
        // The call with which it begins.
        self.called(index);
    }

    pub fn addresses(&self, index: usize) -> RingAddresses {
        let ring = USER + index as u64 * RING;
        let logs = self.features & LOG_ALL != 0;
        RingAddresses {
            index: index as u32,
            flags: logs.into(),
            descriptors: ring,
            used: ring + USED,
            available: ring + AVAILABLE,
            log: if logs { GUEST + self.used_at(index) } else { 0 },
        }
    }

    /// Stops a ring; where it would go on.
    pub fn stop_ring(&mut self, index: usize) -> u32 {
        let payload = self.ask(Request::GetVringBase(RingState { index: index as u32, number: 0 }), &[]);
        let bytes: [u8; 8] = payload.expect("an answer").try_into().expect("eight bytes");
        (u64::from_ne_bytes(bytes) >> 32) as u32
    }

    /// Whether the guest was woken at a ring, since this was last asked.
    pub fn called(&self, index: usize) -> bool {
        let mut count = [0; 8];
        rustix::io::read(&self.calls[index], &mut count).is_ok()
    }

    pub fn is_called(&self, index: usize) -> bool {
        let mut fds = [PollFd::new(&self.calls[index], PollFlags::IN)];
        let span = Timespec { tv_sec: 30, tv_nsec: 0 };
        poll(&mut fds, Some(&span)).expect("polled");
        self.called(index)
    }

    pub fn kick(&self, index: usize) {
        rustix::io::write(&self.kicks[index], &1u64.to_ne_bytes()).expect("room");
    }

    pub fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).expect("within the memory");
        if let Some(log) = &self.own {
            log.note(GUEST + at, bytes.len() as u64);
        }
    }

    pub fn read(&self, at: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.memory.read_exact_at(&mut bytes, at).expect("within the memory");
        bytes
    }

    pub fn half(&self, at: u64) -> u16 {
        u16::from_le_bytes(self.read(at, 2).try_into().expect("two"))
    }

    /// Where a part of a ring lies in the memory.
    pub fn available_at(&self, index: usize) -> u64 {
        index as u64 * RING + AVAILABLE
    }

    pub fn used_at(&self, index: usize) -> u64 {
        index as u64 * RING + USED
    }

    pub fn tables_at(&self, index: usize) -> u64 {
        index as u64 * RING + TABLES
    }

    /// Where the buffer of a descriptor lies in the memory.
    pub fn buffer_at(&self, index: usize, descriptor: u16) -> u64 {
        BUFFERS + (index as u64 * u64::from(SIZE) + u64::from(descriptor % SIZE)) * BUFFER
    }

    pub fn descriptor(guest: u64, length: u32, flags: u16, next: u16) -> [u8; 16] {
        let number = u128::from(guest) | u128::from(length) << 64;
        (number | u128::from(flags) << 96 | u128::from(next) << 112).to_le_bytes()
    }

    /// Makes a chain available: guest's addresses, lengths and flags. Returns its first descriptor.
    pub fn post(&mut self, index: usize, parts: &[(u64, u32, u16)]) -> u16 {
        let first = self.rings[index].descriptors % SIZE;
        for (n, (guest, length, flags)) in parts.iter().enumerate() {
            let place = self.rings[index].descriptors % SIZE;
            let goes_on = n + 1 < parts.len();
            let flags = flags | if goes_on { NEXT } else { 0 };
            let bytes = FrontEnd::descriptor(*guest, *length, flags, (place + 1) % SIZE);
            self.write(index as u64 * RING + u64::from(place) * 16, &bytes);
            self.rings[index].descriptors = self.rings[index].descriptors.wrapping_add(1);
        }
        self.offer(index, first);
        first
    }

    /// Makes the chain that begins with this descriptor available.
    pub fn offer(&mut self, index: usize, head: u16) {
        let (at, count) = (self.available_at(index), &mut self.rings[index].available);
        let place = u64::from(*count % SIZE);
        *count = count.wrapping_add(1);
        let count = *count;
        self.write(at + 4 + place * 2, &head.to_le_bytes());
        self.write(at + 2, &count.to_le_bytes());
    }

    /// Posts so many empty buffers of `length` bytes, each in one descriptor.
    pub fn post_empty(&mut self, index: usize, count: u16, length: u32) {
        for _ in 0..count {
            let place = self.rings[index].descriptors;
            let guest = GUEST + self.buffer_at(index, place);
            self.post(index, &[(guest, length, WRITE)]);
        }
    }

    /// Posts a frame behind a header, in parts of these lengths; what is left lies in the last.
    pub fn post_frame(&mut self, index: usize, header: &[u8], frame: &[u8], parts: &[usize]) {
        assert_eq!(header.len(), header_length(self.features) as usize);
        let bytes = [header, frame].concat();
        let mut rest = &bytes[..];
        let (mut chain, mut at) = (Vec::new(), self.buffer_at(index, self.rings[index].descriptors));
        for part in parts.iter().copied().chain([usize::MAX]) {
            let (some, other) = rest.split_at(part.min(rest.len()));
            if some.is_empty() {
                continue;
            }
            self.write(at, some);
            chain.push((GUEST + at, some.len() as u32, 0));
            at += some.len() as u64;
            rest = other;
        }
        self.post(index, &chain);
        // The buffers that it lies in beside its own.
        let more = (bytes.len() as u64 / BUFFER) as u16;
        self.rings[index].descriptors = self.rings[index].descriptors.wrapping_add(more);
    }

    /// What this side has used since this was last asked: first descriptors and bytes written.
    pub fn used(&mut self, index: usize) -> Vec<(u32, u32)> {
        let at = self.used_at(index);
        let count = self.half(at + 2);
        let mut used = Vec::new();
        while self.rings[index].used != count {
            let place = u64::from(self.rings[index].used % SIZE);
            let bytes = self.read(at + 4 + place * 8, 8);
            let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
            used.push((word(0), word(4)));
            self.rings[index].used = self.rings[index].used.wrapping_add(1);
        }
        if self.features & EVENT_IDX != 0 {
            // It wants to be woken at the next one.
            let event = self.rings[index].used;
            self.write(self.available_at(index) + 4 + u64::from(SIZE) * 2, &event.to_le_bytes());
        }
        used
    }

    /// Frames that came, with their headers, in buffers that [`FrontEnd::post_empty`] has posted.
    pub fn frames(&mut self, index: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let header = header_length(self.features) as usize;
        let used = self.used(index);
        let mut frames: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut more = 0;
        for (descriptor, length) in used {
            let bytes = self.read(self.buffer_at(index, descriptor as u16), length as usize);
            if more == 0 {
                more = if header == 12 { u16::from_le_bytes([bytes[10], bytes[11]]) } else { 1 };
                assert!(more > 0, "a packet lies in one buffer at least");
                frames.push((bytes[..header].to_vec(), bytes[header..].to_vec()));
            } else if let Some((_, frame)) = frames.last_mut() {
                frame.extend(bytes);
            }
            more -= 1;
        }
        assert_eq!(more, 0, "packets are there whole");
        frames
    }
}

/// A server's port and its front end, with so many pairs of rings.
pub fn pair(folder: &tempfile::TempDir, features: u64, pairs: usize) -> (Bench, FrontEnd) {
    let settings =
        Settings { queues: pairs as u32, ..Settings::new(crate::Role::Server, &super::path(folder)) };
    let bench = Bench::new(settings.clone());
    with(bench, &settings, features, pairs)
}

pub fn with(mut bench: Bench, settings: &Settings, features: u64, pairs: usize) -> (Bench, FrontEnd) {
    let mut front = FrontEnd::connect(settings);
    front.start(features, pairs);
    until("it is up", || bench.is_up());
    (bench, front)
}
