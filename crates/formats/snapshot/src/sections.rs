//! What is in each section of version 1, written and read.

use crate::error::DecodeError;
use crate::memory::Page;
use crate::saved::{Global, HostState, Identity, Line, PacketState, SavedPacket, Tally, Value};
use crate::wire::{Reader, Writer};

/// Types of globals, as WebAssembly numbers them (core specification, sections 5.3.1 and 5.3.2).
mod value_type {
    pub(super) const I32: u8 = 0x7f;
    pub(super) const I64: u8 = 0x7e;
    pub(super) const F32: u8 = 0x7d;
    pub(super) const F64: u8 = 0x7c;
    pub(super) const V128: u8 = 0x7b;
}

/// Where a packet is.
mod place {
    pub(super) const QUEUED: u8 = 0;
    pub(super) const HELD: u8 = 1;
}

pub(crate) fn write_identity(identity: &Identity) -> Vec<u8> {
    let mut out = Writer::default();
    out.0.extend_from_slice(&identity.image);
    out.u32(identity.abi);
    out.bytes(identity.name.as_bytes());
    out.bytes(&identity.config);
    out.0
}

pub(crate) fn read_identity(mut from: Reader<'_>) -> Result<Identity, DecodeError> {
    let (image, abi) = (from.digest()?, from.u32()?);
    let identity = Identity { image, abi, name: from.text()?, config: from.bytes()?.to_vec() };
    from.end()?;
    Ok(identity)
}

/// Size and limit of memory, and which parts of it are kept; the kept bytes are a section of their own.
pub(crate) fn write_pages(size: u64, limit: u64, pages: &[Page]) -> Vec<u8> {
    let mut out = Writer(Vec::with_capacity(20 + pages.len() * PAGE_ENTRY));
    out.u64(size);
    out.u64(limit);
    out.count(pages.len());
    for page in pages {
        out.u32(page.number);
        out.u64(page.lines);
    }
    out.0
}

const PAGE_ENTRY: usize = 12;

pub(crate) fn read_pages(mut from: Reader<'_>) -> Result<(u64, u64, Vec<Page>), DecodeError> {
    let (size, limit, count) = (from.u64()?, from.u64()?, from.count(PAGE_ENTRY)?);
    let mut pages = Vec::with_capacity(count);
    for _ in 0..count {
        pages.push(Page { number: from.u32()?, lines: from.u64()? });
    }
    from.end()?;
    Ok((size, limit, pages))
}

pub(crate) fn write_globals(globals: &[Global]) -> Vec<u8> {
    let mut out = Writer::default();
    out.count(globals.len());
    for Global { name, value } in globals {
        out.bytes(name.as_bytes());
        match *value {
            Value::I32(bits) => {
                out.u8(value_type::I32);
                out.u32(bits);
            }
            Value::I64(bits) => {
                out.u8(value_type::I64);
                out.u64(bits);
            }
            Value::F32(bits) => {
                out.u8(value_type::F32);
                out.u32(bits);
            }
            Value::F64(bits) => {
                out.u8(value_type::F64);
                out.u64(bits);
            }
            Value::V128(bits) => {
                out.u8(value_type::V128);
                out.u128(bits);
            }
        }
    }
    out.0
}

pub(crate) fn read_globals(mut from: Reader<'_>) -> Result<Vec<Global>, DecodeError> {
    let count = from.count(9)?;
    let mut globals = Vec::with_capacity(count);
    for _ in 0..count {
        let name = from.text()?;
        let value = match from.u8()? {
            value_type::I32 => Value::I32(from.u32()?),
            value_type::I64 => Value::I64(from.u64()?),
            value_type::F32 => Value::F32(from.u32()?),
            value_type::F64 => Value::F64(from.u64()?),
            value_type::V128 => Value::V128(from.u128()?),
            other => {
                return Err(from.fault(format!("a global of type {other:#x}; allowed: 0x7b to 0x7f")));
            }
        };
        globals.push(Global { name, value });
    }
    from.end()?;
    Ok(globals)
}

/// All of the host's state but what the instance wrote for people and programs to read.
pub(crate) fn write_host(host: &HostState) -> Vec<u8> {
    let mut out = Writer::default();
    out.u32(host.batch);
    out.u64(host.now);
    out.u8(u8::from(host.deadline.is_some()));
    out.u64(host.deadline.unwrap_or(0));
    out.u64(host.generated);
    out.count(host.counters.len());
    host.counters.iter().for_each(|counter| out.u64(*counter));
    out.0
}

pub(crate) fn read_host(mut from: Reader<'_>) -> Result<HostState, DecodeError> {
    let (batch, now) = (from.u32()?, from.u64()?);
    let deadline = match (from.u8()?, from.u64()?) {
        (0, 0) => None,
        (1, deadline) => Some(deadline),
        (flag, deadline) => {
            let found = format!("deadline {deadline} with mark {flag}");
            return Err(from.fault(format!("{found}; allowed: mark 1, or mark 0 and deadline 0")));
        }
    };
    let generated = from.u64()?;
    let count = from.count(8)?;
    let counters = (0..count).map(|_| from.u64()).collect::<Result<_, _>>()?;
    from.end()?;
    Ok(HostState { batch, now, deadline, generated, counters, ..HostState::default() })
}

/// Log lines and events.
pub(crate) fn write_output(host: &HostState) -> Vec<u8> {
    let mut out = Writer::default();
    out.u64(host.lines_lost);
    out.u64(host.events_lost);
    out.count(host.log.len());
    for line in &host.log {
        out.u32(line.severity);
        out.bytes(line.text.as_bytes());
    }
    out.count(host.events.len());
    host.events.iter().for_each(|event| out.bytes(event.as_bytes()));
    out.0
}

pub(crate) fn read_output(mut from: Reader<'_>, host: &mut HostState) -> Result<(), DecodeError> {
    (host.lines_lost, host.events_lost) = (from.u64()?, from.u64()?);
    for _ in 0..from.count(8)? {
        host.log.push(Line { severity: from.u32()?, text: from.text()? });
    }
    for _ in 0..from.count(4)? {
        host.events.push(from.text()?);
    }
    from.end()
}

const PACKET_ENTRY: usize = 1 + 2 + 8 + 64 + 4;

pub(crate) fn write_packets(packets: &[SavedPacket]) -> Vec<u8> {
    let bytes = packets.iter().map(|packet| PACKET_ENTRY + packet.bytes().len()).sum::<usize>();
    let mut out = Writer(Vec::with_capacity(4 + bytes));
    out.count(packets.len());
    for packet in packets {
        let (place, slot, due) = match packet.state {
            PacketState::Queued => (place::QUEUED, 0, 0),
            PacketState::Held { slot, due } => (place::HELD, slot, due),
        };
        out.u8(place);
        out.u16(slot);
        out.u64(due);
        out.record(packet.record());
        out.bytes(packet.bytes());
    }
    out.0
}

pub(crate) fn read_packets(mut from: Reader<'_>) -> Result<Vec<SavedPacket>, DecodeError> {
    let count = from.count(PACKET_ENTRY)?;
    let mut packets = Vec::with_capacity(count);
    for _ in 0..count {
        let place = match (from.u8()?, from.u16()?, from.u64()?) {
            (place::QUEUED, 0, 0) => PacketState::Queued,
            (place::HELD, slot, due) => PacketState::Held { slot, due },
            (place, slot, due) => {
                let found = format!("a packet at place {place}, slot {slot}, due {due}");
                return Err(
                    from.fault(format!("{found}; allowed: place 0 without slot and time, or place 1"))
                );
            }
        };
        packets.push(SavedPacket::read(place, from.record()?, from.bytes()?.to_vec()));
    }
    from.end()?;
    Ok(packets)
}

pub(crate) fn write_tallies(tallies: &[Tally]) -> Vec<u8> {
    let mut out = Writer::default();
    out.count(tallies.len());
    for tally in tallies {
        out.bytes(tally.name.as_bytes());
        out.u64(tally.value);
    }
    out.0
}

pub(crate) fn read_tallies(mut from: Reader<'_>) -> Result<Vec<Tally>, DecodeError> {
    let count = from.count(12)?;
    let mut tallies = Vec::with_capacity(count);
    for _ in 0..count {
        tallies.push(Tally { name: from.text()?, value: from.u64()? });
    }
    from.end()?;
    Ok(tallies)
}
