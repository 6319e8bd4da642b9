//! Packets of the pool that lie in the rings of a peer that has the pool.
//!
//! 1. Each entry of a ring has a packet, at all times: [`Lender::lend`] takes as many from the pool as there
//!    are entries.
//! 2. A packet that is sent is exchanged for the one that lies in its entry, which the peer has taken. An
//!    empty one is exchanged for one that the peer has filled. So the worker gets back as many as it gives,
//!    no entry is ever without one, and no count or descriptor of the peer's decides whose a buffer is.
//! 3. When the connection ends its packets are kept for the process that has them in its memory: for its next
//!    connection, and else until it is gone ([`Peers::sweep`]).
//!
//! Limits: a process that shares its memory with others is gone when it is gone itself: what they write
//! reaches packets of its own tenant alone. Whether it is gone is looked at by the threads of ports that
//! share a pool: without one, what it had comes back with the next.

use crate::ring::Descriptor;
use local_socket::Peer;
use packet_memory::{Buffer, Packet, Pool, prefetch};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use telemetry::DropReason;

/// The region that is the pool. The rings are in the one before.
pub(crate) const POOL: u16 = 1;

/// A process that has a pool, or had it and lives.
#[derive(Debug)]
struct Process {
    pid: u32,
    pidfd: OwnedFd,
    pool: Arc<Pool>,
    /// Buffers that were in its rings.
    kept: Mutex<Vec<Buffer>>,
    /// Its connections.
    connections: AtomicUsize,
}

impl Process {
    fn kept(&self) -> MutexGuard<'_, Vec<Buffer>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether its memory is unmapped.
    fn is_gone(&self) -> bool {
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }
}

/// The processes of a host that have pools by ports. Ports of one host are opened with clones of one.
#[derive(Clone, Debug, Default)]
pub struct Peers(Arc<Mutex<Vec<Arc<Process>>>>);

impl Peers {
    fn all(&self) -> MutexGuard<'_, Vec<Arc<Process>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process is connected, which gets this pool.
    pub(crate) fn join(&self, peer: Peer, pool: &Arc<Pool>) -> Connected {
        let mut all = self.all();
        let is_it = |it: &&Arc<Process>| it.pid == peer.pid && Arc::ptr_eq(&it.pool, pool) && !it.is_gone();
        let process = all.iter().find(is_it).cloned().unwrap_or_else(|| {
            let (pid, pidfd, pool) = (peer.pid, peer.pidfd, pool.clone());
            let process =
                Process { pid, pidfd, pool, kept: Mutex::default(), connections: AtomicUsize::new(0) };
            all.push(Arc::new(process));
            all[all.len() - 1].clone()
        });
        process.connections.fetch_add(1, Release);
        Connected(process)
    }

    /// Takes back what processes had that are gone; whether there are processes without a connection.
    pub(crate) fn sweep(&self) -> bool {
        let mut all = self.all();
        all.retain_mut(|process| {
            // A worker may have the ends of its rings yet.
            if process.connections.load(Acquire) > 0 || !process.is_gone() || Arc::get_mut(process).is_none()
            {
                return true;
            }
            process.pool.return_buffers(process.kept().drain(..));
            false
        });
        all.iter().any(|process| process.connections.load(Acquire) == 0)
    }
}

/// A process that is connected.
#[derive(Debug)]
pub(crate) struct Connected(Arc<Process>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Release);
    }
}

impl Connected {
    /// What rings are made with.
    pub fn lender(&self) -> Lender {
        Lender(self.0.clone())
    }
}

/// Gives the rings of a process their packets.
#[derive(Clone, Debug)]
pub struct Lender(Arc<Process>);

impl Lender {
    /// The pool that the process has.
    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.0.pool
    }

    /// Packets for so many rings, in which a descriptor names at most so many bytes.
    ///
    /// # Errors
    /// The pool has fewer, in words for the operator.
    pub(crate) fn lend(&self, rings: usize, entries: usize, each: u32) -> Result<Vec<Lent>, String> {
        let Process { pool, .. } = &*self.0;
        let mut buffers = std::mem::take(&mut *self.0.kept());
        let kept = buffers.len();
        pool.take_buffers((rings * entries).saturating_sub(kept), &mut buffers);
        if buffers.len() < rings * entries {
            let found = buffers.len();
            pool.return_buffers(buffers.drain(kept..));
            self.0.kept().append(&mut buffers);
            return Err(format!("found: {found} free buffers in the pool; needed: {}", rings * entries));
        }
        let headroom = pool.config().headroom;
        let mut packets = Vec::with_capacity(rings * entries);
        for buffer in buffers.drain(..rings * entries) {
            packets.extend(pool.into_packet(buffer, headroom, 0).ok());
        }
        self.0.kept().append(&mut buffers);
        let mut packets = packets.into_iter();
        let ring = |_| Lent { packets: packets.by_ref().take(entries).collect(), each, lender: self.clone() };
        Ok((0..rings).map(ring).collect())
    }
}

/// The packets of a ring, one for each entry.
#[derive(Debug)]
pub struct Lent {
    packets: Vec<Packet>,
    /// Most bytes that a descriptor names: peers may have no more room for them.
    each: u32,
    lender: Lender,
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Process { pool, .. } = &*self.lender.0;
        self.lender.0.kept().extend(self.packets.drain(..).map(|packet| pool.into_buffer(packet)));
    }
}

impl Lent {
    #[inline]
    fn pool(&self) -> &Pool {
        &self.lender.0.pool
    }

    /// Where a packet begins in the region that is the pool, which has at most 1 GiB.
    ///
    /// # Panics
    /// When it is of another pool.
    #[inline]
    fn start(&self, packet: &Packet) -> u32 {
        (self.pool().data(packet).addr() - self.pool().memory().base().addr().get()) as u32
    }

    /// Has the processor fetch what an entry's packet begins with.
    #[inline]
    pub(crate) fn fetch(&self, entry: usize) {
        prefetch(self.pool().data(&self.packets[entry]));
    }

    /// The descriptor of an entry whose packet is to be filled.
    #[inline]
    pub(crate) fn empty(&self, entry: usize) -> Descriptor {
        let packet = &self.packets[entry];
        let (length, offset) = (self.pool().buffer_size() - packet.offset(), self.start(packet));
        Descriptor { flags: 0, region: POOL, length, offset }
    }

    /// Entries that a packet takes.
    #[inline]
    pub(crate) fn parts(&self, packet: &Packet) -> u16 {
        packet.length().div_ceil(self.each) as u16
    }

    /// The descriptor of a part of a packet that is sent.
    #[inline]
    pub(crate) fn part(&self, packet: &Packet, part: u16, goes_on: bool) -> Descriptor {
        let at = u32::from(part) * self.each;
        let length = (packet.length() - at).min(self.each);
        let flags = if goes_on { Descriptor::NEXT } else { 0 };
        Descriptor { flags, region: POOL, length, offset: self.start(packet) + at }
    }

    /// Puts a packet into an entry, which the peer has taken, for the one that lay there.
    #[inline]
    pub(crate) fn exchange(&mut self, entry: usize, packet: &mut Packet) {
        std::mem::swap(&mut self.packets[entry], packet);
    }

    /// Appends what the peer has filled of an entry's packet: an empty packet is exchanged for it. The rest
    /// of a chain is copied.
    ///
    /// # Errors
    /// The peer says that it has filled more than there is, or it does not fit.
    #[inline]
    pub(crate) fn append(
        &mut self,
        entry: usize,
        length: u32,
        packet: &mut Packet,
    ) -> Result<(), DropReason> {
        let pool = &*self.lender.0.pool;
        let filled = &mut self.packets[entry];
        pool.set_length(filled, length as usize).map_err(|_| DropReason::Malformed)?;
        let end = packet.length() as usize;
        if end == 0 {
            std::mem::swap(filled, packet);
            return Ok(());
        }
        let part = pool.to_vec(filled);
        let appended =
            pool.set_length(packet, end + part.len()).and_then(|()| pool.patch(packet, end, &part));
        appended.map_err(|_| DropReason::TooLong)
    }
}
