//! A host that remembers everything, in this process.

use super::runner::Extent;
use crate::{Nanos, Verdict};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use nf_abi::{DeviceEntry, RANDOM, error, stream};

/// A packet that the function gave up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emitted {
    /// Its slot.
    pub slot: u16,
    /// Where it goes.
    pub verdict: Verdict,
    /// New extent, offset and length, when the function gave one.
    pub extent: Option<(u32, u32)>,
    /// The tenant's mark.
    pub mark: u64,
    /// The packet's bytes; `None` where its caller keeps them, as that of [`Runner::process`] does.
    ///
    /// [`Runner::process`]: super::Runner::process
    pub bytes: Option<Vec<u8>>,
}

/// What a function has told and given up since it was last asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Lines logged: the stream's number (`nf_abi::stream`) and the text.
    pub log: Vec<(u32, String)>,
    /// Events, in order.
    pub events: Vec<String>,
    /// Packets that it gave up, in order.
    pub emitted: Vec<Emitted>,
    /// Interfaces and addresses that it asked for.
    pub asks: Vec<(u16, IpAddr)>,
}

/// A held packet.
#[derive(Debug)]
enum Kept {
    Here(Vec<u8>),
    /// Its caller keeps it; where, if that was said.
    Elsewhere(Option<Extent>),
}

/// What the function asked of its host.
#[derive(Debug, Default)]
pub struct Backend {
    counters: Vec<u64>,
    pub(crate) log: Vec<(u32, String)>,
    pub(crate) events: Vec<String>,
    own: BTreeMap<u16, Vec<u8>>,
    kept: BTreeMap<u16, Kept>,
    pub(crate) devices: Vec<u8>,
    asks: Vec<(u16, IpAddr)>,
    pub(crate) emitted: Vec<Emitted>,
    deadline: u64,
    pub(crate) refuses_packets: bool,
    /// Packets of its own that it may have and give up until it is asked what it has told, and the bytes that
    /// one may have, if they are bounded; its asks are then, too.
    pub(crate) own_most: Option<(usize, usize)>,
    /// Packets of its own that it has given up since.
    own_emitted: usize,
    pub(crate) config: Vec<u8>,
    pub(crate) random: [u8; RANDOM],
    pub(crate) change: Vec<u8>,
    pub(crate) state_in: Vec<u8>,
    pub(crate) state_out: Vec<u8>,
}

impl Backend {
    /// A counter, by its place in the manifest; 0 when it was never added to.
    pub fn counter(&self, index: u32) -> u64 {
        self.counters.get(index as usize).copied().unwrap_or(0)
    }

    /// Lines logged: the stream's number (`nf_abi::stream`) and the text.
    pub fn log(&self) -> &[(u32, String)] {
        &self.log
    }

    /// Events told, in order.
    pub fn events(&self) -> &[String] {
        &self.events
    }

    /// Events told since the last call of this method.
    pub fn take_events(&mut self) -> Vec<String> {
        core::mem::take(&mut self.events)
    }

    /// Packets that the function gave up, in order.
    pub fn emitted(&self) -> &[Emitted] {
        &self.emitted
    }

    /// Interfaces and addresses that the function asked for, in order.
    pub fn asks(&self) -> &[(u16, IpAddr)] {
        &self.asks
    }

    /// Packets that are held.
    pub fn held(&self) -> usize {
        self.kept.len()
    }

    /// What it has told and given up since this was last asked, which is forgotten here.
    pub(crate) fn take_told(&mut self) -> Told {
        self.own_emitted = 0;
        Told {
            log: core::mem::take(&mut self.log),
            events: core::mem::take(&mut self.events),
            emitted: core::mem::take(&mut self.emitted),
            asks: core::mem::take(&mut self.asks),
        }
    }

    /// Packets of its own that it has not given up.
    pub fn own(&self) -> usize {
        self.own.len()
    }

    pub(crate) fn keep(&mut self, slot: u16, bytes: Option<&[u8]>) {
        let kept = bytes.map_or(Kept::Elsewhere(None), |bytes| Kept::Here(bytes.to_vec()));
        self.kept.insert(slot, kept);
    }

    /// Notes where the bytes of a packet are that its caller keeps.
    pub(crate) fn keep_elsewhere(&mut self, slot: u16, extent: Extent) {
        self.kept.insert(slot, Kept::Elsewhere(Some(extent)));
    }

    pub(crate) fn take_back(&mut self, slot: u16) -> bool {
        self.kept.remove(&slot).is_some()
    }

    pub(crate) fn expire_held(&mut self) -> usize {
        core::mem::take(&mut self.kept).len()
    }

    pub(crate) fn packet_bytes(&mut self, slot: u16) -> Option<&mut [u8]> {
        match self.own.get_mut(&slot) {
            Some(bytes) => Some(bytes),
            None => match self.kept.get_mut(&slot)? {
                Kept::Here(bytes) => Some(bytes),
                Kept::Elsewhere(extent) => extent.as_mut().map(Extent::bytes),
            },
        }
    }

    /// The deadline that is set.
    pub fn deadline(&self) -> Option<Nanos> {
        (self.deadline != 0).then_some(Nanos(self.deadline))
    }

    pub(crate) fn read(&mut self, stream: u32, offset: u32, room: &mut [u8]) -> i32 {
        let whole: &[u8] = match stream {
            stream::CONFIG => &self.config,
            stream::RANDOM => &self.random,
            stream::STATE => &self.state_in,
            stream::DEVICES => &self.devices,
            stream::CHANGE => &self.change,
            _ => return error::STREAM,
        };
        let rest = whole.get(offset as usize..).unwrap_or(&[]);
        let count = rest.len().min(room.len());
        room[..count].copy_from_slice(&rest[..count]);
        i32::try_from(whole.len()).unwrap_or(error::LIMIT)
    }

    pub(crate) fn write(&mut self, stream: u32, bytes: &[u8]) -> i32 {
        match stream {
            stream::STATE => self.state_out.extend_from_slice(bytes),
            stream::EVENT if bytes.len() > nf_abi::MAX_EVENT => return error::LIMIT,
            stream::EVENT => self.events.push(String::from_utf8_lossy(bytes).into_owned()),
            stream::DEVICES if self.own_most.is_some() && self.asks.len() >= nf_abi::MAX_ASKS => {
                return error::LIMIT;
            }
            stream::DEVICES => match bytes.try_into().ok().and_then(DeviceEntry::decode) {
                Some(DeviceEntry::Neighbour { interface, address, .. }) => {
                    self.asks.push((interface, address))
                }
                _ => return error::RANGE,
            },
            stream::LOG_ERROR..=stream::LOG_DEBUG => {
                self.log.push((stream, String::from_utf8_lossy(bytes).into_owned()));
            }
            _ => return error::STREAM,
        }
        0
    }

    #[inline]
    pub(crate) fn counter_add(&mut self, index: u32, amount: u64) {
        let index = index as usize;
        if index >= self.counters.len() {
            self.counters.resize(index + 1, 0);
        }
        self.counters[index] = self.counters[index].wrapping_add(amount);
    }

    pub(crate) fn packet_new(&mut self, slot: u16, bytes: &[u8]) -> i32 {
        let of_own = self.own.len() + self.own_emitted;
        let beyond = self.own_most.is_some_and(|(most, longest)| of_own >= most || bytes.len() > longest);
        if beyond || self.refuses_packets || self.own.contains_key(&slot) || self.kept.contains_key(&slot) {
            return 0;
        }
        self.own.insert(slot, bytes.to_vec());
        1
    }

    pub(crate) fn packet_emit(&mut self, slot: u16, wire: u32, offset: i32, length: u32, mark: u64) -> i32 {
        let Some(verdict) = Verdict::decode(wire) else { return error::VERDICT };
        if matches!(verdict, Verdict::None | Verdict::Hold(_)) {
            return error::VERDICT;
        }
        let extent = u32::try_from(offset).ok().map(|offset| (offset, length));
        let bytes = match (self.own.remove(&slot), self.kept.remove(&slot)) {
            (Some(own), _) => {
                self.own_emitted += 1;
                Some(own)
            }
            (None, Some(Kept::Here(bytes))) => Some(bytes),
            (None, Some(Kept::Elsewhere(_))) => None,
            (None, None) => return error::SLOT,
        };
        self.emitted.push(Emitted { slot, verdict, extent, mark, bytes });
        0
    }

    pub(crate) fn timer_set(&mut self, deadline: u64) {
        self.deadline = deadline;
    }
}
