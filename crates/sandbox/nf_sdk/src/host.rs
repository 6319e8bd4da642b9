//! What a function asks of its host.

use crate::slots::{Slot, SlotAllocator};
use crate::{Nanos, Verdict};
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use nf_abi::{DeviceEntry, PacketRecord, error, stream};

#[cfg(not(target_arch = "wasm32"))]
use crate::native::memory_host as backend;
#[cfg(target_arch = "wasm32")]
#[path = "host_calls.rs"]
mod backend;

/// Why the host refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostRefusal {
    /// The range is not in private memory.
    Range,
    /// No such stream, or not at this time.
    Stream,
    /// No such counter in the manifest.
    Counter,
    /// The slot is empty (a held packet was taken back after the longest hold, say), taken, or beyond the
    /// quota.
    Slot,
    /// A verdict that may not be given here.
    Verdict,
    /// A bound on how much may be written, sent or logged was reached.
    Limit,
    /// Something this version of the contract does not name.
    Unknown(i32),
}

impl HostRefusal {
    fn check(answer: i32) -> Result<u32, HostRefusal> {
        match answer {
            error::RANGE => Err(HostRefusal::Range),
            error::STREAM => Err(HostRefusal::Stream),
            error::COUNTER => Err(HostRefusal::Counter),
            error::SLOT => Err(HostRefusal::Slot),
            error::VERDICT => Err(HostRefusal::Verdict),
            error::LIMIT => Err(HostRefusal::Limit),
            _ => u32::try_from(answer).map_err(|_| HostRefusal::Unknown(answer)),
        }
    }
}

/// How serious a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The function cannot do its work.
    Error,
    /// Something is not as it should be.
    Warning,
    /// Worth knowing.
    Info,
    /// For the function's author.
    Debug,
}

impl Severity {
    fn stream(self) -> u32 {
        match self {
            Severity::Error => stream::LOG_ERROR,
            Severity::Warning => stream::LOG_WARNING,
            Severity::Info => stream::LOG_INFO,
            Severity::Debug => stream::LOG_DEBUG,
        }
    }
}

/// A packet that is given up in the call that it came with: no host has it in its slot yet.
struct GivenUp {
    slot: Slot,
    verdict: u32,
    mark: u64,
    extent: Option<(u32, u32)>,
}

/// The host, as far as a function may ask something of it.
pub struct Host {
    backend: backend::Backend,
    slots: SlotAllocator,
    /// Slots for packets to be held, taken since the last batch ended.
    taken: Vec<u16>,
    given_up: Vec<GivenUp>,
}

impl Host {
    /// The host of the sandbox that this code runs in.
    #[cfg(target_arch = "wasm32")]
    pub(crate) const fn in_sandbox() -> Host {
        Host::new(backend::Backend)
    }

    /// A host in this process's memory.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn in_memory() -> Host {
        Host::new(backend::Backend::default())
    }

    const fn new(backend: backend::Backend) -> Host {
        Host { backend, slots: SlotAllocator::new(), taken: Vec::new(), given_up: Vec::new() }
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn backend(&self) -> &backend::Backend {
        &self.backend
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn backend_mut(&mut self) -> &mut backend::Backend {
        &mut self.backend
    }

    /// Adds to a counter, by its place in the manifest's `counters`. A call costs about as much as looking at
    /// a packet does: gather over the batch. An amount of 0 costs nothing; a counter that the manifest lacks
    /// counts nothing.
    #[inline(always)]
    pub fn counter_add(&mut self, index: u32, amount: u64) {
        if amount != 0 {
            self.backend.counter_add(index, amount);
        }
    }

    /// Logs one line. The host bounds how many it takes; what is beyond is lost.
    #[cold]
    pub fn log(&mut self, severity: Severity, line: &str) {
        self.backend.write(severity.stream(), line.as_bytes());
    }

    /// The same of bytes that may end within a character.
    #[cfg(target_arch = "wasm32")]
    #[cold]
    pub(crate) fn log_bytes(&mut self, severity: Severity, line: &[u8]) {
        self.backend.write(severity.stream(), line);
    }

    /// Tells the operator what was found, one JSON object in UTF-8 of at most 8 KiB: an alert, say. Unlike a
    /// log line it is made for programs, and goes where the operator said (`events`).
    ///
    /// # Errors
    /// [`HostRefusal::Limit`]: it is too long, or there have been too many since the host last looked. Count
    /// those.
    pub fn event(&mut self, json: &str) -> Result<(), HostRefusal> {
        self.write(stream::EVENT, json.as_bytes())
    }

    /// Sets the one next deadline.
    #[inline]
    pub fn timer_set(&mut self, deadline: Nanos) {
        self.backend.timer_set(deadline.0);
    }

    /// Takes the deadline back.
    #[inline]
    pub fn timer_cancel(&mut self) {
        self.backend.timer_set(0);
    }

    /// Takes a free slot for a packet of this batch to be held; `None` when all 65,536 are taken. The host's
    /// quota may end earlier: a packet held beyond it is dropped by the host, and [`Host::emit`] tells so.
    pub fn slot(&mut self) -> Option<Slot> {
        let slot = self.slots.take()?;
        self.taken.push(slot.number());
        Some(slot)
    }

    /// Gives a slot back whose packet the host has taken away.
    pub fn release(&mut self, slot: Slot) {
        self.taken.retain(|number| *number != slot.number());
        self.slots.give_back(slot);
    }

    /// Makes a packet with these bytes, which are in the function's own memory and not another packet's: of
    /// that, make a copy. It stays in its slot until [`Host::emit`].
    ///
    /// # Errors
    /// [`HostRefusal::Slot`]: no slot, quota or buffer is left, or the bytes do not fit a buffer or are a
    /// packet's.
    pub fn packet_new(&mut self, bytes: &[u8]) -> Result<Slot, HostRefusal> {
        let slot = self.slots.take().ok_or(HostRefusal::Slot)?;
        if self.backend.packet_new(slot.number(), bytes) == 0 {
            self.slots.give_back(slot);
            return Err(HostRefusal::Slot);
        }
        Ok(slot)
    }

    /// Gives a held or own packet up with a verdict, as it is. The slot is free afterwards in any case. A
    /// packet of this batch, which is in its slot only when the call has returned, gets that verdict in place
    /// of the hold.
    ///
    /// # Errors
    /// [`HostRefusal::Slot`] when the slot is empty, because the packet was held too long;
    /// [`HostRefusal::Verdict`] for a verdict that is none ([`Verdict::None`], [`Verdict::Hold`]).
    pub fn emit(&mut self, slot: Slot, verdict: Verdict, mark: u64) -> Result<(), HostRefusal> {
        self.give_up(GivenUp { slot, verdict: verdict.encode(), mark, extent: None })
    }

    /// Gives a held or own packet up with a new extent: `offset` from the buffer's first byte, `length` in
    /// bytes. What the packet's record said when it was held is the way to know them.
    ///
    /// # Errors
    /// As [`Host::emit`].
    pub fn emit_part(
        &mut self,
        slot: Slot,
        verdict: Verdict,
        mark: u64,
        offset: u32,
        length: u32,
    ) -> Result<(), HostRefusal> {
        self.give_up(GivenUp { slot, verdict: verdict.encode(), mark, extent: Some((offset, length)) })
    }

    fn give_up(&mut self, packet: GivenUp) -> Result<(), HostRefusal> {
        let (offset, length) = match packet.extent {
            None => (-1, 0),
            // The host refuses what is no distance in a buffer.
            Some((offset, length)) => (i32::try_from(offset).unwrap_or(i32::MAX), length),
        };
        let number = packet.slot.number();
        let answer = self.backend.packet_emit(number, packet.verdict, offset, length, packet.mark);
        if answer == error::SLOT && self.taken.contains(&number) {
            self.given_up.push(packet);
            return Ok(());
        }
        self.slots.give_back(packet.slot);
        HostRefusal::check(answer).map(drop)
    }

    /// A batch ends: packets that were held and given up in it get their verdicts. Whether slots were taken
    /// for packets of it.
    #[inline(always)]
    pub(crate) fn end_batch(&mut self, records: &mut [PacketRecord]) -> bool {
        let is_any_taken = !self.taken.is_empty();
        if is_any_taken {
            self.settle(records);
        }
        is_any_taken
    }

    #[cold]
    fn settle(&mut self, records: &mut [PacketRecord]) {
        self.taken.clear();
        for GivenUp { slot, verdict, mark, extent } in self.given_up.drain(..) {
            let hold = Verdict::Hold(slot.number()).encode();
            if let Some(record) = records.iter_mut().find(|record| record.verdict == hold) {
                (record.verdict, record.mark) = (verdict, mark);
                (record.offset, record.length) = extent.unwrap_or((record.offset, record.length));
            }
            self.slots.give_back(slot);
        }
    }

    /// The bytes of a held or own packet, from its first byte to its last; `None` when the slot is empty,
    /// because the packet was held too long or came with this batch. Only an image that declares `access:
    /// write` may write to them.
    pub fn held(&mut self, slot: &Slot) -> Option<&mut [u8]> {
        self.backend.packet_bytes(slot.number())
    }

    /// Asks the platform for the MAC address of a neighbour. The answer comes with a change of the
    /// [devices](crate::devices).
    ///
    /// # Errors
    /// [`HostRefusal::Limit`]: too much was asked since the host last looked; [`HostRefusal::Range`]: there
    /// is no such interface.
    pub fn ask(&mut self, interface: u16, address: IpAddr) -> Result<(), HostRefusal> {
        self.write(stream::DEVICES, &DeviceEntry::ask(interface, address).encode())
    }

    pub(crate) fn write(&mut self, stream: u32, bytes: &[u8]) -> Result<(), HostRefusal> {
        HostRefusal::check(self.backend.write(stream, bytes)).map(drop)
    }

    /// Fills `room` from the stream; the stream's whole length.
    pub(crate) fn read(&mut self, stream: u32, offset: u32, room: &mut [u8]) -> Result<u32, HostRefusal> {
        HostRefusal::check(self.backend.read(stream, offset, room))
    }

    pub(crate) fn stream_length(&mut self, stream: u32) -> u32 {
        self.read(stream, 0, &mut []).unwrap_or(0)
    }

    pub(crate) fn read_all(&mut self, stream: u32) -> Result<Vec<u8>, HostRefusal> {
        let mut bytes = vec![0; self.stream_length(stream) as usize];
        self.read(stream, 0, &mut bytes)?;
        Ok(bytes)
    }
}
