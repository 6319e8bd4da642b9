//! The port's hold on an interface: the program, the sockets, the memory.

use crate::config::Mode;
use crate::program::Program;
use crate::queue::{Losses, Queue, Tally};
use crate::umem::Umem;
use packet_memory::Packet;
use port::PortCounters;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::Duration;
use telemetry::DropReason;

/// A driver with zero-copy lets go of its buffers a while after the socket is closed (the kernel tears the
/// queue's memory down in a work queue), and nothing says when.
const ZERO_COPY_RELEASE: Duration = Duration::from_millis(100);

/// What a link is made of.
pub(crate) struct Parts {
    pub index: i32,
    pub mode: Mode,
    pub program: Program,
    pub umem: Umem,
    /// At least one.
    pub queues: Vec<Queue>,
    /// Readable when one of several sockets is.
    pub several: Option<OwnedFd>,
    pub promiscuous: Option<OwnedFd>,
}

/// An opened interface.
#[derive(Debug)]
pub(crate) struct Link {
    pub index: i32,
    pub mode: Mode,
    program: Program,
    pub umem: Umem,
    queues: Vec<Queue>,
    /// Places in `queues` of those that can send.
    senders: Vec<usize>,
    /// Which queue is first when receiving next.
    turn: usize,
    several: Option<OwnedFd>,
    _promiscuous: Option<OwnedFd>,
    /// Payload of the longest frame that is sent.
    pub mtu: u32,
    /// Received packets are looked at for unfinished checksums.
    pub finds_unfinished: bool,
    /// To be told once.
    pub notices: Vec<String>,
    /// What the kernel had lost when it was asked last.
    lost: Losses,
}

impl Link {
    pub fn new(parts: Parts, notice: Option<String>) -> Link {
        let Parts { index, mode, program, umem, queues, several, promiscuous } = parts;
        let senders = (0..queues.len()).filter(|&n| queues[n].sends()).collect();
        Link {
            index,
            mode,
            program,
            umem,
            queues,
            senders,
            turn: 0,
            several,
            _promiscuous: promiscuous,
            mtu: 0,
            finds_unfinished: false,
            notices: notice.into_iter().collect(),
            lost: Losses::default(),
        }
    }

    /// The number of the interface, while the program hangs on it.
    pub fn bound_to(&self) -> Option<i32> {
        self.program.attached_to().filter(|&index| index == self.index)
    }

    /// Readable when there is something to receive.
    pub fn readable(&self) -> Option<BorrowedFd<'_>> {
        match &self.several {
            Some(any) => Some(any.as_fd()),
            None => self.queues.first().map(|queue| queue.socket().as_fd()),
        }
    }

    /// Takes up to `budget` packets over, in the queues' turns: each gets its part of the budget, and what
    /// others leave of theirs.
    #[inline]
    pub fn receive(&mut self, budget: u32, out: &mut Vec<Packet>) -> u32 {
        let count = self.queues.len();
        let mut left = budget;
        for n in 0..count {
            if left == 0 {
                break;
            }
            let quota = left.div_ceil((count - n) as u32);
            let queue = &mut self.queues[(self.turn + n) % count];
            left -= queue.receive(&mut self.umem, quota, out);
            queue.refill(&mut self.umem);
        }
        self.turn = (self.turn + 1) % count.max(1);
        budget - left
    }

    /// The queue that a packet goes out by: all of a flow by the same one, so that they stay in order.
    #[inline]
    pub fn queue_of(&self, packet: &Packet) -> usize {
        let place = (u64::from(packet.record().flow_hash) * self.senders.len() as u64) >> 32;
        self.senders.get(place as usize).copied().unwrap_or(0)
    }

    /// Whether a queue takes one more packet.
    #[inline]
    pub fn has_room(&mut self, queue: usize) -> bool {
        self.queues[queue].has_room()
    }

    /// Has the kernel send what a full queue holds; whether it takes one more packet then.
    #[cold]
    pub fn make_room(&mut self, queue: usize, counters: &mut PortCounters) -> bool {
        let queue = &mut self.queues[queue];
        // Sockets that have lost their interface make no room, which shows again when all is sent.
        queue.send(&mut self.umem, counters).is_ok() && queue.has_room()
    }

    /// Puts a packet into a transmit ring that was just seen to have room.
    #[inline]
    pub fn push(&mut self, queue: usize, packet: Packet) {
        self.queues[queue].push(&mut self.umem, packet);
    }

    /// Has the kernel send what was pushed.
    ///
    /// # Errors
    /// The sockets have lost their interface.
    pub fn send(&mut self, counters: &mut PortCounters) -> io::Result<()> {
        for &queue in &self.senders {
            self.queues[queue].send(&mut self.umem, counters)?;
        }
        Ok(())
    }

    /// Takes back what was sent, and has the kernel try again where it left something.
    ///
    /// # Errors
    /// The sockets have lost their interface.
    pub fn tidy(&mut self, counters: &mut PortCounters) -> io::Result<()> {
        for &queue in &self.senders {
            let queue = &mut self.queues[queue];
            if queue.unsent() {
                queue.send(&mut self.umem, counters)?;
            } else if queue.in_flight() > 0 {
                queue.reap(&mut self.umem, counters);
            }
        }
        Ok(())
    }

    /// Packets handed to the kernel and not given back.
    pub fn in_flight(&self) -> u64 {
        self.queues.iter().map(|queue| u64::from(queue.in_flight())).sum()
    }

    /// The kernel left something in a transmit ring.
    pub fn unsent(&self) -> bool {
        self.queues.iter().any(Queue::unsent)
    }

    /// What the kernel has lost since the last call.
    pub fn losses(&mut self) -> Losses {
        let mut now = Losses::default();
        for queue in &self.queues {
            now.add(&queue.statistics());
        }
        let new = now.since(&self.lost);
        self.lost = now;
        new
    }

    /// What the queues counted since the last call.
    pub fn take_tally(&mut self) -> Tally {
        let mut sum = Tally::default();
        for queue in &mut self.queues {
            sum.add(std::mem::take(&mut queue.tally));
        }
        sum
    }

    /// Lets the interface go. Received packets that are left in the rings are dropped as `reason`. Returns
    /// what the kernel lost and the queues counted since they were asked last.
    pub fn close(mut self, counters: &mut PortCounters, reason: DropReason) -> (Losses, Tally) {
        let losses = self.losses();
        let mut tally = self.take_tally();
        let Link { program, mut umem, queues, mode, .. } = self;
        // From here on frames go to the kernel's stack.
        drop(program);
        for queue in queues {
            let (unseen, more) = queue.close(&mut umem, counters);
            counters.ledger.received += unseen;
            counters.ledger.dropped[reason] += unseen;
            tally.add(more);
        }
        if mode == Mode::ZeroCopy {
            thread::sleep(ZERO_COPY_RELEASE);
        }
        counters.ledger.dropped[reason] += umem.take_all();
        (losses, tally)
    }
}
