//! What one instance is between two calls.

use crate::error::ContentError;
use crate::limits;
use crate::memory::Memory;
use nf_abi::{MAX_BATCH, PacketRecord};

/// An instance, saved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved<'a> {
    /// What it is an instance of.
    pub identity: Identity,
    /// Its private memory.
    pub memory: Memory<'a>,
    /// Its mutable globals, in the order of their names.
    pub globals: Vec<Global>,
    /// What the host keeps for it.
    pub host: HostState,
    /// Packets that wait for it, in the order in which they came, and those that it holds.
    pub packets: Vec<SavedPacket>,
    /// What the engine counted for it, in the order of the names. Nothing depends on it: a reader takes those
    /// that it knows.
    pub tallies: Vec<Tally>,
}

/// What a saved instance is an instance of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// SHA-256 of the image.
    pub image: [u8; 32],
    /// The image's name.
    pub name: String,
    /// Version of the contract that it was made for.
    pub abi: u32,
    /// The configuration in CBOR, as the instance was told it.
    pub config: Vec<u8>,
}

/// A mutable global.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// The name by which it is exported.
    pub name: String,
    /// What is in it.
    pub value: Value,
}

/// What is in a global. Floating point by its bits, so that nothing is lost of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// 32 bits.
    I32(u32),
    /// 64 bits.
    I64(u64),
    /// The bits of a single float.
    F32(u32),
    /// The bits of a double float.
    F64(u64),
    /// 128 bits.
    V128(u128),
}

/// What the host keeps for an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostState {
    /// Where in its memory the records of a batch lie: what `sf_batch` answered.
    pub batch: u32,
    /// The time that it was last told, in nanoseconds since the Unix epoch.
    pub now: u64,
    /// Its next deadline.
    pub deadline: Option<u64>,
    /// Packets that it made and that have not been counted yet.
    pub generated: u64,
    /// The counters named in its manifest, in that order.
    pub counters: Vec<u64>,
    /// Log lines that have not been collected yet.
    pub log: Vec<Line>,
    /// Log lines that found no room.
    pub lines_lost: u64,
    /// Events that have not been collected yet.
    pub events: Vec<String>,
    /// Events that found no room.
    pub events_lost: u64,
}

/// A log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// One of the `LOG_` streams of `nf_abi::stream`.
    pub severity: u32,
    /// The text.
    pub text: String,
}

/// A packet with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedPacket {
    /// Where the instance has it.
    pub state: PacketState,
    /// Its metadata; the buffer and the verdict are 0.
    record: PacketRecord,
    bytes: Vec<u8>,
}

/// Where an instance has a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketState {
    /// It waits to be shown to the function.
    Queued,
    /// It is in a slot.
    Held {
        /// The slot.
        slot: u16,
        /// When it will have been there for too long.
        due: u64,
    },
}

/// A number with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// What was counted.
    pub name: String,
    /// How much of it.
    pub value: u64,
}

impl SavedPacket {
    /// A packet with this metadata and these bytes. Its length becomes that of the bytes; its buffer and
    /// verdict, which mean nothing elsewhere, become 0.
    pub fn new(state: PacketState, record: &PacketRecord, bytes: Vec<u8>) -> SavedPacket {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        SavedPacket { state, record: PacketRecord { length, buffer: 0, verdict: 0, ..*record }, bytes }
    }

    /// As it was read: not checked yet.
    pub(crate) fn read(state: PacketState, record: PacketRecord, bytes: Vec<u8>) -> SavedPacket {
        SavedPacket { state, record, bytes }
    }

    /// Its metadata; the buffer and the verdict are 0.
    pub fn record(&self) -> &PacketRecord {
        &self.record
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Saved<'_> {
    /// The same with memory of its own.
    pub fn into_owned(self) -> Saved<'static> {
        Saved { memory: self.memory.into_owned(), ..self }
    }

    /// Bytes that this value takes, itself included.
    pub fn footprint(&self) -> usize {
        let text = |text: &String| text.capacity() + size_of::<String>();
        size_of::<Self>()
            + self.identity.name.capacity()
            + self.identity.config.capacity()
            + self.memory.footprint()
            + self.globals.capacity() * size_of::<Global>()
            + self.globals.iter().map(|global| global.name.capacity()).sum::<usize>()
            + self.host.counters.capacity() * size_of::<u64>()
            + self.host.log.iter().map(|line| text(&line.text) + size_of::<u64>()).sum::<usize>()
            + self.host.events.iter().map(text).sum::<usize>()
            + self.packets.iter().map(|p| p.bytes.capacity() + size_of::<SavedPacket>()).sum::<usize>()
            + self.tallies.iter().map(|tally| text(&tally.name) + size_of::<u64>()).sum::<usize>()
    }

    /// Whether it can be written, and be read again.
    ///
    /// # Errors
    /// What cannot be, and what is allowed.
    pub fn check(&self) -> Result<(), ContentError> {
        at_most("bytes of the image's name", self.identity.name.len(), limits::NAME_BYTES)?;
        at_most("bytes of configuration", self.identity.config.len(), limits::CONFIG_BYTES)?;
        self.memory.check()?;
        at_most("mutable globals", self.globals.len(), limits::GLOBALS)?;
        for global in &self.globals {
            at_most("bytes of a global's name", global.name.len(), limits::GLOBAL_NAME_BYTES)?;
        }
        in_order("global", self.globals.iter().map(|global| &global.name))?;
        self.host.check(self.memory.size())?;
        at_most("packets", self.packets.len(), limits::PACKETS)?;
        let mut slots = std::collections::HashSet::new();
        for (index, packet) in self.packets.iter().enumerate() {
            packet.check(index)?;
            if let PacketState::Held { slot, .. } = packet.state
                && !slots.insert(slot)
            {
                return Err(ContentError::Slot { slot });
            }
        }
        at_most("tallies", self.tallies.len(), limits::TALLIES)?;
        for tally in &self.tallies {
            at_most("bytes of a tally's name", tally.name.len(), limits::NAME_BYTES)?;
        }
        in_order("tally", self.tallies.iter().map(|tally| &tally.name))
    }
}

impl HostState {
    fn check(&self, memory: u64) -> Result<(), ContentError> {
        let records = (MAX_BATCH * size_of::<PacketRecord>()) as u64;
        let aligned = self.batch.is_multiple_of(align_of::<PacketRecord>() as u32);
        if !aligned || u64::from(self.batch) + records > memory {
            return Err(ContentError::Batch { address: self.batch, size: memory });
        }
        at_most("counters", self.counters.len(), limits::COUNTERS)?;
        at_most("log lines", self.log.len(), limits::LINES)?;
        at_most("events", self.events.len(), limits::LINES)?;
        for line in &self.log {
            at_most("bytes of a log line", line.text.len(), limits::LINE_BYTES)?;
        }
        for event in &self.events {
            at_most("bytes of an event", event.len(), limits::LINE_BYTES)?;
        }
        Ok(())
    }
}

impl SavedPacket {
    fn check(&self, index: usize) -> Result<(), ContentError> {
        let (found, length) = (self.bytes.len(), self.record.length);
        at_most("bytes of a packet", found, limits::PACKET_BYTES)?;
        if found != length as usize {
            return Err(ContentError::PacketLength { index, found, length });
        }
        for (field, found) in [("buffer", self.record.buffer), ("verdict", self.record.verdict)] {
            if found != 0 {
                return Err(ContentError::PacketField { index, field, found });
            }
        }
        Ok(())
    }
}

fn at_most(what: &'static str, found: usize, allowed: usize) -> Result<(), ContentError> {
    if found <= allowed {
        return Ok(());
    }
    Err(ContentError::TooMany { what, found: found as u64, allowed: allowed as u64 })
}

fn in_order<'a>(
    what: &'static str,
    names: impl Iterator<Item = &'a String> + Clone,
) -> Result<(), ContentError> {
    match names.clone().zip(names.skip(1)).find(|(before, name)| before >= name) {
        None => Ok(()),
        Some((before, name)) => Err(ContentError::Order { what, name: name.clone(), before: before.clone() }),
    }
}
