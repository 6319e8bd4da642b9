//! One queue of the interface: a socket, its rings, and what lies in them.

use crate::config::Mode;
use crate::ring::{Consumer, Producer};
use crate::socket::{Rings, Socket};
use crate::umem::Umem;
use packet_memory::{Buffer, Packet};
use port::PortCounters;
use std::io;
use telemetry::DropReason;

/// Buffers are lent to receive into when so many are missing, a few cache lines of the fill ring at a time.
const REFILL: u32 = 32;

/// Kernels send at least so many packets in one call.
const SENT_AT_LEAST: u32 = 32;

/// What a queue counted besides packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// System calls made to have the kernel look at a ring.
    pub kicks: u64,
    /// Entries by which the kernel named what it had not been given.
    pub strange: u64,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.kicks += other.kicks;
        self.strange += other.strange;
    }
}

/// One queue.
#[derive(Debug)]
pub(crate) struct Queue {
    socket: Socket,
    rings: Rings,
    mode: Mode,
    /// Buffers lent to receive into, and how many these may be.
    filled: u32,
    target: u32,
    /// Packets lent to send, and how many these may be.
    in_flight: u32,
    most_in_flight: u32,
    /// The kernel left packets in the transmit ring, and looks at it only when called.
    unsent: bool,
    /// Packets of those in flight that the kernel said it dropped.
    failed: u32,
    pub tally: Tally,
    /// Kept empty, for its memory.
    spare: Vec<Buffer>,
}

impl Queue {
    pub fn new(socket: Socket, rings: Rings, mode: Mode, target: u32, most_in_flight: u32) -> Queue {
        Queue {
            socket,
            rings,
            mode,
            filled: 0,
            target,
            in_flight: 0,
            most_in_flight,
            unsent: false,
            failed: 0,
            tally: Tally::default(),
            spare: Vec::new(),
        }
    }

    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Whether it can send; an interface may have more queues to receive by.
    pub fn sends(&self) -> bool {
        self.rings.transmit.is_some()
    }

    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    pub fn unsent(&self) -> bool {
        self.unsent
    }

    /// Takes up to `quota` received packets over; returns how many the kernel had.
    #[inline]
    pub fn receive(&mut self, umem: &mut Umem, quota: u32, out: &mut Vec<Packet>) -> u32 {
        let received = &mut self.rings.received;
        let count = received.available(quota).min(quota);
        if count == 0 {
            return 0;
        }
        // Another core wrote these bytes. Asked for all at once, they come while the first ones are worked
        // on.
        for ahead in 0..count {
            if let Some(descriptor) = received.peek(ahead) {
                umem.prefetch(descriptor);
            }
        }
        for _ in 0..count {
            match received.pop().map(|descriptor| umem.take_received(descriptor)) {
                Some(Ok(packet)) => out.push(packet),
                _ => self.tally.strange += 1,
            }
        }
        received.release();
        self.filled = self.filled.saturating_sub(count);
        count
    }

    /// Lends buffers to receive into, as far as the pool has any.
    #[inline]
    pub fn refill(&mut self, umem: &mut Umem) {
        let missing = self.target - self.filled.min(self.target);
        if missing >= REFILL.min(self.target) {
            self.lend(umem, missing);
        }
    }

    fn lend(&mut self, umem: &mut Umem, missing: u32) {
        let fill = &mut self.rings.fill;
        let wanted = fill.room(missing).min(missing);
        umem.pool().take_buffers(wanted as usize, &mut self.spare);
        for buffer in self.spare.drain(..) {
            // There is room: the ring has as many places as may be lent, and it was looked at.
            if fill.push(umem.lend_empty(buffer)) {
                self.filled += 1;
            }
        }
        fill.publish();
        if self.mode == Mode::ZeroCopy && fill.needs_wakeup() {
            self.tally.kicks += 1;
            // What hinders it shows when the interface is looked at.
            let _ = self.socket.kick_receive();
        }
    }

    /// Whether one more packet can be put into the transmit ring.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        self.in_flight < self.most_in_flight
            && self.rings.transmit.as_mut().is_some_and(|transmit| transmit.room(1) > 0)
    }

    /// Puts a packet into the transmit ring, which was just seen to have room.
    #[inline]
    pub fn push(&mut self, umem: &mut Umem, packet: Packet) {
        if let Some(transmit) = &mut self.rings.transmit {
            let pushed = transmit.push(umem.lend_packet(packet));
            debug_assert!(pushed, "a packet for a full ring");
            self.in_flight += 1;
        }
    }

    /// Has the kernel send what is in the transmit ring, and takes back what it has sent.
    ///
    /// # Errors
    /// The socket has lost its interface.
    pub fn send(&mut self, umem: &mut Umem, counters: &mut PortCounters) -> io::Result<()> {
        let Some(transmit) = &mut self.rings.transmit else { return Ok(()) };
        transmit.publish();
        let sent = match self.mode {
            Mode::ZeroCopy => self.wake_driver(),
            Mode::Native | Mode::Generic => self.have_copied(umem, counters),
        };
        self.reap(umem, counters);
        sent
    }

    /// The driver takes packets out of the ring by itself, once it is awake.
    fn wake_driver(&mut self) -> io::Result<()> {
        if !self.rings.transmit.as_ref().is_some_and(Producer::needs_wakeup) {
            return Ok(());
        }
        self.tally.kicks += 1;
        match self.socket.kick_transmit() {
            Err(error) if is_gone(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// In copy mode the kernel takes packets out of the ring within the call: one call for a burst, more
    /// where it says that it stopped before the end.
    fn have_copied(&mut self, umem: &mut Umem, counters: &mut PortCounters) -> io::Result<()> {
        let mut pending = self.pending();
        let tries = 8 + pending / SENT_AT_LEAST;
        self.unsent = true;
        for _ in 0..tries {
            self.tally.kicks += 1;
            let error = match self.socket.kick_transmit() {
                Ok(()) => {
                    self.unsent = false;
                    return Ok(());
                }
                Err(error) => error,
            };
            match error.raw_os_error() {
                // It has sent as many as it does in one call, or has no room: then there is no sense in
                // asking again.
                Some(libc::EAGAIN) => {
                    self.reap(umem, counters);
                    if self.pending() >= pending {
                        return Ok(());
                    }
                    pending = self.pending();
                }
                // It dropped the packet that it took last, and stopped there.
                Some(libc::EBUSY) => {
                    self.failed += 1;
                    self.reap(umem, counters);
                }
                Some(libc::EINTR) => {}
                _ if is_gone(&error) => return Err(error),
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    fn pending(&self) -> u32 {
        self.rings.transmit.as_ref().map_or(0, Producer::pending)
    }

    /// Takes back what the kernel has sent.
    #[inline]
    pub fn reap(&mut self, umem: &mut Umem, counters: &mut PortCounters) {
        let reaped = reap(&mut self.rings.completed, umem, counters, self.failed, &mut self.spare);
        self.failed -= reaped.failed;
        self.in_flight = self.in_flight.saturating_sub(reaped.done);
        self.tally.strange += reaped.strange;
    }

    /// What the kernel counted, zero where it does not say.
    pub fn statistics(&self) -> Losses {
        self.socket.statistics().map_or(Losses::default(), |kernel| Losses {
            no_buffer_or_too_long: kernel.rx_dropped,
            ring_full: kernel.rx_ring_full,
            fill_ring_empty: kernel.rx_fill_ring_empty_descs,
        })
    }

    /// Closes the socket, takes back what was sent, and returns how many received packets are left in the
    /// rings. The buffers lent stay with the [`Umem`] until the kernel cannot reach them any more.
    pub fn close(self, umem: &mut Umem, counters: &mut PortCounters) -> (u64, Tally) {
        let Queue { socket, rings: Rings { mut received, mut completed, .. }, failed, mut tally, .. } = self;
        // When this returns the kernel has stopped using the rings; their memory is still mapped here.
        drop(socket);
        tally.strange += reap(&mut completed, umem, counters, failed, &mut Vec::new()).strange;
        (u64::from(received.available(u32::MAX)), tally)
    }
}

/// What was found in a completion ring.
struct Reaped {
    done: u32,
    failed: u32,
    strange: u64,
}

/// Takes back what the kernel has sent. Of these the last `failed` are those that it said it dropped.
#[inline]
fn reap(
    completed: &mut Consumer<u64>,
    umem: &mut Umem,
    counters: &mut PortCounters,
    failed: u32,
    spare: &mut Vec<Buffer>,
) -> Reaped {
    let count = completed.available(u32::MAX);
    let mut reaped = Reaped { done: 0, failed: failed.min(count), strange: 0 };
    if count == 0 {
        return reaped;
    }
    for left in (0..count).rev() {
        match completed.pop().map(|address| umem.take_sent(address)) {
            Some(Ok((buffer, length))) => {
                spare.push(buffer);
                reaped.done += 1;
                if left >= reaped.failed {
                    counters.ledger.delivered += 1;
                    counters.delivered_bytes += u64::from(length);
                } else {
                    counters.ledger.dropped[DropReason::PortFull] += 1;
                }
            }
            _ => reaped.strange += 1,
        }
    }
    completed.release();
    umem.pool().return_buffers(spare.drain(..));
    reaped
}

/// What the kernel lost before the port saw it, by its own counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    /// No buffer was in the fill ring, or the frame was longer than one has room for.
    pub no_buffer_or_too_long: u64,
    /// The receive ring was full.
    pub ring_full: u64,
    /// How often the fill ring was empty; not frames.
    pub fill_ring_empty: u64,
}

impl Losses {
    /// Frames.
    pub fn frames(&self) -> u64 {
        self.no_buffer_or_too_long + self.ring_full
    }

    /// What came to them since `earlier`.
    pub fn since(&self, earlier: &Losses) -> Losses {
        Losses {
            no_buffer_or_too_long: self.no_buffer_or_too_long.saturating_sub(earlier.no_buffer_or_too_long),
            ring_full: self.ring_full.saturating_sub(earlier.ring_full),
            fill_ring_empty: self.fill_ring_empty.saturating_sub(earlier.fill_ring_empty),
        }
    }

    pub fn add(&mut self, other: &Losses) {
        self.no_buffer_or_too_long += other.no_buffer_or_too_long;
        self.ring_full += other.ring_full;
        self.fill_ring_empty += other.fill_ring_empty;
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENETDOWN | libc::ENXIO | libc::ENODEV))
}
