//! What the host keeps for a function, whatever the function runs in.

use crate::{Ask, Events, LeftOver, LogLine, Offer, SlotConfig, SlotTable};
use nf_abi::MAX_ASKS;
use packet_memory::Packet;
use std::sync::Arc;
use telemetry::clock::Nanos;

/// Asks of a function are told once in this time at most.
const ASKS_APART: Nanos = Nanos::from_millis(1);

/// What the host keeps for a function: what it holds, gave up, counted and said, and when it is due. A guest
/// fills it in its calls, and the engine takes out of it between them.
#[derive(Debug)]
pub struct Kept {
    /// The packets that it keeps.
    pub slots: SlotTable,
    /// Packets that it gave up or made during the last call, each with its verdict in the record. They are
    /// taken out after every call.
    pub emitted: Vec<Packet>,
    /// Packets that it made since this was last taken.
    pub generated: u64,
    /// The counters named in the manifest, in its order.
    pub counters: Vec<u64>,
    /// The time of its last call.
    pub now: Nanos,
    /// When its timer is to run.
    pub deadline: Option<Nanos>,
    /// What it reads of the devices behind its interfaces from its next timer on.
    pub new_devices: Option<Arc<[u8]>>,
    /// A changed file of its configuration that it is to take.
    pub change: Option<Arc<Offer>>,
    /// Lines that it logged since they were last taken.
    pub log: Vec<LogLine>,
    /// What it found since that was last taken, and the bytes of that.
    pub events: Events,
    /// See `events`.
    pub event_bytes: usize,
    /// A call of it has left something to be done since [`Kept::left_over`] was last asked.
    pub has_left_over: bool,
    /// Addresses that it asks for; since there are some, when they are to be told.
    asks: Vec<Ask>,
    asks_due: Option<Nanos>,
    /// When asks may be told again.
    asks_from: Nanos,
}

impl Kept {
    /// Of a function with so many counters that has done nothing yet.
    pub fn new(slots: SlotConfig, counters: usize) -> Kept {
        Kept {
            slots: SlotTable::new(slots),
            emitted: Vec::new(),
            generated: 0,
            counters: vec![0; counters],
            now: Nanos(0),
            deadline: None,
            new_devices: None,
            change: None,
            log: Vec::new(),
            events: Events::default(),
            event_bytes: 0,
            has_left_over: false,
            asks: Vec::new(),
            asks_due: None,
            asks_from: Nanos(0),
        }
    }

    /// Of no function, where one is to be: nothing is kept for it.
    pub fn nothing() -> Kept {
        Kept::new(SlotConfig { quota: 0, longest_hold: Nanos(0) }, 0)
    }

    /// How many packets it has: those that it keeps, and those given up in the current call.
    #[inline]
    pub fn packets(&self) -> usize {
        self.slots.len() + self.emitted.len()
    }

    /// What is left to be done: when the guest is due next, by its own deadline or that of a packet that it
    /// holds, and whether it gave packets up.
    pub fn left_over(&mut self) -> LeftOver {
        self.has_left_over = false;
        let due = self.due().into_iter().chain(self.slots.next_expiry()).min();
        LeftOver { due: due.unwrap_or(Nanos::MAX), has_emitted: !self.emitted.is_empty() }
    }

    /// When its timer is due: by the deadline that the function set, or at once when there is something new
    /// of its devices, or of a file that it takes; and when its asks are, which comes before.
    pub fn due(&self) -> Option<Nanos> {
        let asks = self.asks_due.filter(|_| !self.asks.is_empty());
        match self.new_devices.is_some() || self.change.is_some() {
            true => Some(Nanos(0)),
            false => [asks, self.deadline].into_iter().flatten().min(),
        }
    }

    /// Notes an address that it asks for: told as soon as its call has ended, but once in a millisecond at
    /// most. Whether there was room: for [`MAX_ASKS`].
    pub fn ask(&mut self, ask: Ask) -> bool {
        let has_room = self.asks.len() < MAX_ASKS;
        if has_room {
            self.asks.push(ask);
            self.asks_due.get_or_insert(self.asks_from.max(self.now));
            self.has_left_over = true;
        }
        has_room
    }

    /// What it asked for since this was last called, at most [`MAX_ASKS`].
    pub fn take_asks(&mut self) -> Vec<Ask> {
        if self.asks_due.take().is_some() {
            self.asks_from = self.now.saturating_add(ASKS_APART);
        }
        std::mem::take(&mut self.asks)
    }

    /// The lines that it logged since this was last called.
    pub fn take_log(&mut self) -> Vec<LogLine> {
        std::mem::take(&mut self.log)
    }

    /// What it found since this was last called.
    pub fn take_events(&mut self) -> Events {
        self.event_bytes = 0;
        std::mem::take(&mut self.events)
    }

    /// Keeps a changed file that it is to take, if it has none yet.
    pub fn offer(&mut self, offer: &Arc<Offer>) -> bool {
        let is_free = self.change.is_none();
        if is_free {
            self.change = Some(offer.clone());
        }
        is_free
    }

    /// Takes every packet out.
    pub fn surrender(&mut self, out: &mut Vec<Packet>) {
        out.append(&mut self.emitted);
        self.slots.surrender(out);
    }
}
