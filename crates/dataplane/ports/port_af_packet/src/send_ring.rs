// UNSAFETY: slots of the transmit ring are written while they are ours, and the kernel is told by a system
// call without safe wrapper. Its other side is the kernel, so neither loom nor Miri can run it; the
// end-to-end tests do.
#![allow(unsafe_code)]
//! The transmit ring: slots that we fill, one packet each, and that the kernel gives back when the packet is
//! done with.
//!
//! A packet is sent from the ring by one copy into a slot and one into the kernel's buffer: its virtio-net
//! header says that all of it is to be copied, otherwise the kernel would hang the rest on by pages, and most
//! receivers copy those once more. One system call hands any number of slots over. A socket with such a ring
//! sends nothing else, so it is one of its own.

use crate::slots::{self, SLOT, Slots};
use packet_memory::{Packet, Pool};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use virtio_net::VnetHeader;

/// Blocks in the ring: 1 MiB, 564 packets. What is not completed by then is rather sent by message.
pub(crate) const BLOCKS: usize = 4;

/// Where in a slot's header the length is.
const LENGTH_OFFSET: usize = 4;

/// Where in a slot the virtio-net header begins, and the packet behind it (af_packet.c,
/// `tpacket_parse_header`).
const DATA: usize = libc::TPACKET2_HDRLEN - size_of::<libc::sockaddr_ll>();
const PACKET: usize = DATA + VnetHeader::LENGTH;

/// Longest packet that fits into a slot.
pub(crate) const ROOM: usize = SLOT - PACKET;

/// What became of the packets that were put.
#[derive(Debug)]
pub(crate) struct Submitted {
    /// How many the kernel took, the first ones.
    pub taken: usize,
    /// Why it took no more.
    pub error: Option<io::Error>,
}

/// Packets that are done with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Completed {
    /// How many.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A socket with a mapped transmit ring.
#[derive(Debug)]
pub(crate) struct SendRing {
    fd: OwnedFd,
    slots: Slots,
    /// Whether the kernel is told of unfinished checksums.
    offload: bool,
    /// Bytes of the packet in each slot.
    lengths: Box<[u32]>,
    /// The next slot, ours and the kernel's.
    head: usize,
    /// Slots before `head` whose packets were taken and not counted as completed yet.
    held: usize,
    /// Slots from `head` on with packets that the kernel was not told of.
    put: usize,
}

impl SendRing {
    /// A ring of [`BLOCKS`] blocks for a socket that has none and carries virtio-net headers.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn new(fd: OwnedFd, offload: bool) -> io::Result<SendRing> {
        kernel_interface::socket::set(&fd, libc::SOL_PACKET, libc::PACKET_TX_RING, &slots::request(BLOCKS))?;
        let slots = Slots::map(fd.as_fd(), BLOCKS)?;
        let lengths = vec![0; slots.count()].into();
        Ok(SendRing { fd, slots, offload, lengths, head: 0, held: 0, put: 0 })
    }

    /// Has what is put go out by this interface.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn bind(&self, interface: i32) -> io::Result<()> {
        crate::system::bind(&self.fd, interface, 0)
    }

    /// Packets that the kernel took and has not completed, as far as is known.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Puts a packet of at most [`ROOM`] bytes into the next slot. False when there is none, because the
    /// kernel still has it.
    ///
    /// # Panics
    /// When the packet is longer.
    #[inline]
    pub fn put(&mut self, pool: &Pool, packet: &Packet) -> bool {
        if self.held + self.put == self.slots.count() {
            return false;
        }
        let slot = self.at(self.put);
        let length = packet.length() as usize;
        let start = self.slots.start(slot);
        // SAFETY: the slot lies in the mapping, and is ours: it is neither held nor put, so the kernel
        // completed it or never had it, and only `submit` hands it over. The status in its first word is not
        // part of the slice.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start.add(LENGTH_OFFSET), SLOT - LENGTH_OFFSET) };
        let in_all = (length + VnetHeader::LENGTH) as u32;
        bytes[..4].copy_from_slice(&in_all.to_ne_bytes());
        let state = if self.offload { VnetHeader::of(packet.record()) } else { VnetHeader::default() };
        let header = VnetHeader { header_length: length as u16, ..state };
        bytes[DATA - LENGTH_OFFSET..PACKET - LENGTH_OFFSET].copy_from_slice(&header.to_bytes());
        pool.read(packet, 0, &mut bytes[PACKET - LENGTH_OFFSET..][..length]);
        self.lengths[slot] = length as u32;
        self.slots.status(slot).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
        self.put += 1;
        true
    }

    /// Hands over what was put. Afterwards nothing is put: what the kernel did not take is ours again.
    pub fn submit(&mut self) -> Submitted {
        let put = std::mem::take(&mut self.put);
        // SAFETY: no pointers.
        let result = unsafe {
            libc::sendto(self.fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
        };
        let error = (result < 0).then(io::Error::last_os_error);
        // What it returns does not say how many it took, the slots do: it goes through them in order, stops
        // at the first that it does not take, and does not look at any before the next call.
        let untouched = libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_WRONG_FORMAT;
        let is_taken = |slot: usize| self.slots.status(slot).load(Ordering::Acquire) & untouched == 0;
        let taken = (0..put).take_while(|&n| is_taken(self.at(n))).count();
        for n in taken..put {
            self.slots.status(self.at(n)).store(libc::TP_STATUS_AVAILABLE, Ordering::Release);
        }
        self.head = self.at(taken);
        self.held += taken;
        Submitted { taken, error }
    }

    /// Packets that were completed since the last call, oldest first up to one that was not.
    #[inline]
    pub fn complete(&mut self) -> Completed {
        let mut completed = Completed::default();
        while self.held > 0 {
            let slot = self.oldest();
            if !self.is_completed(slot) {
                break;
            }
            completed.packets += 1;
            completed.bytes += u64::from(self.lengths[slot]);
            self.held -= 1;
        }
        completed
    }

    /// Ends the ring: packets that are completed, in any order, and how many are not.
    pub fn finish(&mut self) -> (Completed, u64) {
        let (mut completed, mut lost) = (Completed::default(), 0);
        while self.held > 0 {
            let slot = self.oldest();
            if self.is_completed(slot) {
                completed.packets += 1;
                completed.bytes += u64::from(self.lengths[slot]);
            } else {
                lost += 1;
            }
            self.held -= 1;
        }
        (completed, lost)
    }

    /// The slot `n` after the head.
    #[inline]
    fn at(&self, n: usize) -> usize {
        let (slot, count) = (self.head + n, self.slots.count());
        if slot >= count { slot - count } else { slot }
    }

    #[inline]
    fn oldest(&self) -> usize {
        self.at(self.slots.count() - self.held)
    }

    #[inline]
    fn is_completed(&self, slot: usize) -> bool {
        let busy = libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_SENDING;
        self.slots.status(slot).load(Ordering::Acquire) & busy == 0
    }
}
