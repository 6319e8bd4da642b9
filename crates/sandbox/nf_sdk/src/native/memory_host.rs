//! A host that remembers everything, in this process.

use crate::{Nanos, Verdict};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use nf_abi::{DeviceEntry, error, stream};

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

/// What the function asked of its host.
#[derive(Debug, Default)]
pub struct Backend {
    counters: Vec<u64>,
    pub(crate) log: Vec<(u32, String)>,
    pub(crate) events: Vec<String>,
    own: BTreeMap<u16, Vec<u8>>,
    /// Held packets; `None` for bytes that the caller keeps.
    kept: BTreeMap<u16, Option<Vec<u8>>>,
    pub(crate) devices: Vec<u8>,
    asks: Vec<(u16, IpAddr)>,
    pub(crate) emitted: Vec<Emitted>,
    deadline: u64,
    pub(crate) refuses_packets: bool,
    pub(crate) config: Vec<u8>,
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

    pub(crate) fn keep(&mut self, slot: u16, bytes: Option<&[u8]>) {
        self.kept.insert(slot, bytes.map(<[u8]>::to_vec));
    }

    pub(crate) fn expire_held(&mut self) -> usize {
        core::mem::take(&mut self.kept).len()
    }

    pub(crate) fn packet_bytes(&mut self, slot: u16) -> Option<&mut [u8]> {
        let found = self.own.get_mut(&slot).or_else(|| self.kept.get_mut(&slot)?.as_mut());
        found.map(Vec::as_mut_slice)
    }

    /// The deadline that is set.
    pub fn deadline(&self) -> Option<Nanos> {
        (self.deadline != 0).then_some(Nanos(self.deadline))
    }

    pub(crate) fn read(&mut self, stream: u32, offset: u32, room: &mut [u8]) -> i32 {
        let whole = match stream {
            stream::CONFIG => &self.config,
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
        if self.refuses_packets || self.own.contains_key(&slot) || self.kept.contains_key(&slot) {
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
        let Some(bytes) = self.own.remove(&slot).map(Some).or_else(|| self.kept.remove(&slot)) else {
            return error::SLOT;
        };
        self.emitted.push(Emitted { slot, verdict, extent, mark, bytes });
        0
    }

    pub(crate) fn timer_set(&mut self, deadline: u64) {
        self.deadline = deadline;
    }
}
