//! An attachment to a port.

use crate::devices::Devices;
use crate::owner::Owner;
use native_abi::{Answer, Attached, Descriptor, Hello, MESSAGE_MAX, MessageError, VERSION, flags, words};
use native_ring::{Consuming, OutOfStep, Place, Producing, SharedMemory, sleep};
use nf_abi::DeviceEntry;
use rustix::fs::fstat;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, connect, recvmsg, send, socket_with,
};
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Empty buffers that are asked for at a time, at least.
const AHEAD: u32 = 64;

/// Why a process is not attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The socket cannot be reached, or memory not mapped.
    #[error("{0}")]
    System(#[from] io::Error),
    /// The port does not want this process, for its reason.
    #[error("the port refused: {0}")]
    Refused(String),
    /// The port speaks otherwise.
    #[error("the port's answer: {0}")]
    Message(#[from] MessageError),
}

/// An attachment to a port: its rings, and the pool.
#[derive(Debug)]
pub struct Attachment {
    pub(crate) socket: OwnedFd,
    pub(crate) told: Attached,
    pub(crate) rings: Arc<SharedMemory>,
    /// Shows the engine that this thread lives, for as long as it does.
    _owner: Option<Owner>,
    pool: SharedMemory,
    /// What tells the pool from others: device and number of its file.
    pool_file: (u64, u64),
    packets: Consuming<Place, 4>,
    sent: Producing<Place, 4>,
    returned: Producing<Place, 1>,
    /// Packets that were met on the way to empty buffers.
    pending: VecDeque<Descriptor>,
    stock: Vec<Descriptor>,
    /// Empty buffers that were asked for, and that came.
    wanted: u32,
    came: u32,
    beat: u32,
    /// What is behind the port, and how often the engine had sent something of that when it was last read.
    devices: Devices,
    devices_seen: u32,
    /// The engine's counts were impossible: nothing passes any more.
    broken: bool,
}

impl Attachment {
    /// Attaches to the port at a path.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach(path: &str) -> Result<Attachment, AttachError> {
        let system = |error: rustix::io::Errno| AttachError::System(error.into());
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let socket = socket.map_err(system)?;
        connect(&socket, &SocketAddrUnix::new(path).map_err(system)?).map_err(system)?;
        // A port that refuses by who asks does not wait for this, and its answer is there all the same.
        let _ = send(&socket, &Hello { version: VERSION, devices: true }.to_bytes(), SendFlags::NOSIGNAL);
        let (told, descriptors) = answer(&socket)?;
        let mut descriptors = descriptors.into_iter();
        let (Some(pool), Some(rings), devices) = (descriptors.next(), descriptors.next(), descriptors.next())
        else {
            return Err(io::Error::other("the port's answer came without its two memory files").into());
        };
        let file = fstat(&pool).map_err(system)?;
        let bytes = told.buffers as usize * told.buffer_size as usize;
        let pool = SharedMemory::map(&pool, bytes, told.write)?;
        let rings = Arc::new(SharedMemory::map(&rings, told.layout.bytes(), true)?);
        let place = |ring| Place::new(&rings, ring);
        Ok(Attachment {
            packets: Consuming::new(place(told.layout.packets())),
            sent: Producing::new(place(told.layout.sent())),
            returned: Producing::new(place(told.layout.returned())),
            socket,
            told,
            _owner: Owner::take(&rings),
            rings,
            pool,
            pool_file: (file.st_dev, file.st_ino),
            pending: VecDeque::new(),
            stock: Vec::new(),
            wanted: 0,
            came: 0,
            beat: 0,
            devices: Devices::new(devices),
            devices_seen: 0,
            broken: false,
        })
    }

    /// What the port said when it was attached to.
    pub fn told(&self) -> &Attached {
        &self.told
    }

    /// Whether packets of the other may be sent by this one.
    pub fn shares_pool_with(&self, other: &Attachment) -> bool {
        self.pool_file == other.pool_file
    }

    /// Shows the engine that the process lives. [`Attachment::receive`], [`Attachment::send`] and
    /// [`crate::poll`] do it as well.
    #[inline]
    pub fn beat(&mut self) {
        self.beat = self.beat.wrapping_add(1);
        self.rings.word(words::HEARTBEAT).store(self.beat, Release);
    }

    /// Takes packets, as many as `out` has places; returns how many there were.
    #[inline]
    pub fn receive(&mut self, out: &mut [Descriptor]) -> usize {
        self.beat();
        let mut count = 0;
        while count < out.len() {
            let Some(packet) = self.pending.pop_front() else { break };
            out[count] = packet;
            count += 1;
        }
        if count == out.len() || !self.look() {
            return count;
        }
        while count < out.len() {
            let Some(words) = self.packets.pop() else { break };
            let packet = Descriptor::from_words(words);
            if packet.flags & flags::EMPTY == 0 {
                // The engine's processor has it; all that are taken come at the same time.
                self.pool.fetch(self.place(&packet), self.told.write);
                out[count] = packet;
                count += 1;
            } else {
                self.keep(packet);
            }
        }
        self.packets.release();
        count
    }

    /// Sends packets, in order; returns how many there was room for. The others stay the process's, to be
    /// sent when [`crate::poll`] has waited for room. Of a process that may not write the engine takes
    /// packets as it gave them.
    #[inline]
    pub fn send(&mut self, packets: &[Descriptor]) -> usize {
        self.beat();
        let room = self.sent.room();
        let Ok(room) = self.checked(room) else { return 0 };
        let count = packets.len().min(room as usize);
        for packet in &packets[..count] {
            let _ = self.sent.push(packet.to_words());
        }
        self.sent.publish();
        if count > 0 {
            self.wake();
        }
        count
    }

    /// Gives buffers back; returns how many. There is room for all that the process can have.
    #[inline]
    pub fn release(&mut self, packets: &[Descriptor]) -> usize {
        let room = self.returned.room();
        let Ok(room) = self.checked(room) else { return 0 };
        let count = packets.len().min(room as usize);
        for packet in &packets[..count] {
            let _ = self.returned.push([packet.buffer.into()]);
        }
        self.returned.publish();
        count
    }

    /// Makes packets of empty buffers, as many as `out` has places and the engine has given; returns how
    /// many. What is missing was asked for, and comes when the engine has it. A packet's bytes are what the
    /// buffer held before; its length is the most that it may have.
    pub fn allocate(&mut self, out: &mut [Descriptor]) -> usize {
        if !self.told.write {
            return 0;
        }
        if self.stock.len() < out.len() {
            self.gather();
        }
        let count = out.len().min(self.stock.len());
        for place in &mut out[..count] {
            // There are as many as were counted.
            if let Some(packet) = self.stock.pop() {
                *place = packet;
            }
        }
        let missing = (out.len() - count) as u32;
        let under_way = self.wanted.wrapping_sub(self.came);
        if missing > under_way || (self.stock.is_empty() && under_way == 0) {
            let more = missing.max(AHEAD).min(self.told.held) - under_way.min(missing);
            self.wanted = self.wanted.wrapping_add(more);
            self.rings.word(words::WANTED).store(self.wanted, Release);
        }
        if missing > 0 {
            self.wake();
        }
        count
    }

    /// Where the packet's first byte lies, good for its length; null when it names no place in the pool.
    ///
    /// Other functions of the tenant and the engine may write there at the same time, so that it is a pointer
    /// and no reference. It may be written to only if [`Attachment::told`] says so.
    #[inline]
    pub fn data(&self, packet: &Descriptor) -> *mut u8 {
        let end = u64::from(packet.offset) + u64::from(packet.length);
        if packet.buffer >= self.told.buffers || end > u64::from(self.told.buffer_size) {
            return std::ptr::null_mut();
        }
        self.pool.base().as_ptr().wrapping_add(self.place(packet))
    }

    /// Where a packet's bytes begin in the pool, or would.
    fn place(&self, packet: &Descriptor) -> usize {
        packet.buffer as usize * self.told.buffer_size as usize + packet.offset as usize
    }

    /// Whether what is known of the device behind the port has changed since this was last called; before the
    /// first time, since nothing was known. A look at a word of memory where it has not. [`crate::wait`] ends
    /// when it changes.
    pub fn devices_changed(&mut self) -> bool {
        self.read_devices();
        std::mem::take(&mut self.devices.changed)
    }

    /// What is known of the device behind the port, as [`Attachment::devices_changed`] or [`crate::wait`]
    /// read it last: its interface is 0. Nothing where the port is at no device with addresses, or is of an
    /// older program.
    pub fn devices(&self) -> impl Iterator<Item = DeviceEntry> {
        self.devices.entries()
    }

    /// The same as bytes: `nf_abi::DEVICE_ENTRY` of them for each entry.
    pub(crate) fn device_bytes(&self) -> &[u8] {
        self.devices.bytes()
    }

    /// Asks for the MAC addresses of neighbours; of how many, from the first one on. Where the engine takes
    /// no more at present, or is an older program, not of all. The answer is a change of
    /// [`Attachment::devices`]; a neighbour that is not asked for again is forgotten after five minutes.
    pub fn ask(&self, addresses: &[IpAddr]) -> usize {
        self.devices.ask(addresses)
    }

    /// Reads what has come of devices; whether there is something that [`Attachment::devices_changed`] has
    /// not told yet and that came just now.
    pub(crate) fn read_devices(&mut self) -> bool {
        let sent = self.rings.word(words::DEVICES).load(Acquire);
        if sent == self.devices_seen {
            return false;
        }
        // Before it is read: what is sent meanwhile is looked for again.
        self.devices_seen = sent;
        let was_changed = std::mem::take(&mut self.devices.changed);
        self.devices.read();
        let is_new = self.devices.changed;
        self.devices.changed |= was_changed;
        is_new
    }

    /// Whether something of devices has come that was not read.
    pub(crate) fn has_devices_to_read(&self) -> bool {
        self.rings.word(words::DEVICES).load(Acquire) != self.devices_seen
    }

    /// Whether there is anything to receive.
    pub(crate) fn has_something(&self) -> bool {
        !self.pending.is_empty() || self.packets.waiting() != Ok(0)
    }

    /// Whether there is room to send. What is out of step is found out by sending.
    pub(crate) fn has_room(&self) -> bool {
        self.sent.free() != Ok(0)
    }

    /// The engine is woken if it sleeps.
    #[inline]
    fn wake(&self) {
        if sleep::should_wake(self.rings.word(words::ENGINE_SLEEPS)) {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let _ = send(&self.socket, &Answer::Wake.to_bytes(), flags);
        }
    }

    /// Whether there is something in the ring.
    #[inline]
    fn look(&mut self) -> bool {
        let available = self.packets.available();
        self.checked(available).is_ok_and(|available| available > 0)
    }

    #[inline]
    fn checked(&mut self, count: Result<u32, OutOfStep>) -> Result<u32, OutOfStep> {
        self.broken |= count.is_err();
        if self.broken { Err(OutOfStep) } else { count }
    }

    /// Whether the engine has broken the contract.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Takes everything out of the ring, for the empty buffers among it. No more is pending than the ring
    /// holds.
    fn gather(&mut self) {
        if self.pending.len() >= self.told.layout.packets().size as usize || !self.look() {
            return;
        }
        while let Some(words) = self.packets.pop() {
            let packet = Descriptor::from_words(words);
            if packet.flags & flags::EMPTY == 0 { self.pending.push_back(packet) } else { self.keep(packet) }
        }
        self.packets.release();
    }

    fn keep(&mut self, empty: Descriptor) {
        self.came = self.came.wrapping_add(1);
        self.stock.push(Descriptor { flags: 0, ..empty });
    }
}

/// The port's answer, and the descriptors that came with it.
fn answer(socket: &OwnedFd) -> Result<(Attached, Vec<OwnedFd>), AttachError> {
    let mut message = vec![0; MESSAGE_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(&mut message)];
    let received = recvmsg(socket, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC);
    let length = received.map_err(io::Error::from)?.bytes;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = message {
            descriptors.extend(some);
        }
    }
    if length == 0 {
        return Err(io::Error::from(io::ErrorKind::ConnectionReset).into());
    }
    match Answer::from_bytes(&message[..length])? {
        Answer::Attached(told) => Ok((told, descriptors)),
        Answer::Refused(reason) => Err(AttachError::Refused(reason)),
        Answer::Wake => Err(MessageError::Unknown.into()),
    }
}

/// The word that says that this process sleeps until there is something to receive.
pub(crate) fn sleeps(attachment: &Attachment) -> &native_ring::AtomicU32 {
    attachment.rings.word(words::PROCESS_SLEEPS)
}

/// The word that says that this process sleeps until there is room to send.
pub(crate) fn sender_sleeps(attachment: &Attachment) -> &native_ring::AtomicU32 {
    attachment.rings.word(words::SENDER_SLEEPS)
}

/// What the engine sent to wake this process is read off; whether the socket is still open.
pub(crate) fn drain(attachment: &Attachment) -> bool {
    let mut message = [0u8; 8];
    loop {
        match rustix::net::recv(&attachment.socket, &mut message[..], RecvFlags::DONTWAIT) {
            Ok((_, 1..)) => {}
            Ok((_, 0)) => return false,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return true,
            Err(_) => return false,
        }
    }
}

/// How long a process may sleep and still show that it lives.
pub(crate) fn longest_sleep(attachment: &Attachment) -> u32 {
    (attachment.told.heartbeat / 3).max(1)
}
