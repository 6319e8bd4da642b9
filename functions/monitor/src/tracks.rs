//! What of each flow is still to be exported: what was exported before, since when, and the flows that had to
//! give up their places before their turn came.

use crate::flow_id::FlowId;
use crate::flow_table::Flow;
use crate::totals::sum;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Records of flows that left the table; further ones are lost, and counted.
pub(crate) const MOST_DEPARTED: usize = 4096;
/// Bytes of an Ethernet header without a tag.
const LINK_HEADER: u64 = 14;

/// How a packet came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Number of the interface.
    pub(crate) interface: u16,
    /// VLAN identifier, 0 without a tag.
    pub(crate) vlan: u16,
    /// Bytes that are neither the IP packet's nor a plain Ethernet header's: tags, padding.
    pub(crate) extra: u32,
}

/// Why a record was made (IANA, "flowEndReason", element 136).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndReason {
    Idle = 1,
    Active = 2,
    /// The monitor itself ends: "forced end".
    Forced = 4,
    /// Its place was needed.
    LackOfResources = 5,
}

/// A flow as it is exported: what came from `start` to `end`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) id: FlowId,
    pub(crate) packets: u64,
    /// Bytes of IP packets, their headers included.
    pub(crate) octets: u64,
    /// In milliseconds since the Unix epoch.
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) interface: u16,
    pub(crate) vlan: u16,
    pub(crate) reason: EndReason,
}

/// What is known of a flow beside its counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Track {
    /// Exported, or left out.
    packets: u64,
    bytes: u64,
    /// Of the packets since then.
    extra: u64,
    /// Packets when the flow was looked at last.
    seen: u64,
    /// Of the first packet that was not exported, in milliseconds.
    start: u64,
    /// Of the last packet, as far as it was seen.
    last: u64,
    interface: u16,
    vlan: u16,
    /// The first packet that was not exported has come.
    has_begun: bool,
}

impl Track {
    /// Of a flow whose first packet came now.
    pub(crate) fn begun(ms: u64, origin: Origin) -> Track {
        let Origin { interface, vlan, extra } = origin;
        let extra = u64::from(extra);
        Track { start: ms, last: ms, interface, vlan, extra, has_begun: true, ..Track::default() }
    }

    /// Of a flow that another instance saw, which is not exported here.
    pub(crate) fn left_out(flow: &Flow) -> Track {
        Track { packets: flow.packets, bytes: flow.bytes, seen: flow.packets, ..Track::default() }
    }

    /// What there is to export; `None` when nothing came. The flow is of this track.
    fn record(&mut self, flow: &Flow, now: u64, reason: EndReason) -> Option<Record> {
        let packets = flow.packets.checked_sub(self.packets).filter(|packets| *packets > 0)?;
        self.look(flow, now);
        let bytes = flow.bytes.saturating_sub(self.bytes);
        Some(Record {
            id: flow.id,
            packets,
            octets: bytes.saturating_sub(packets * LINK_HEADER).saturating_sub(self.extra),
            start: self.start,
            end: self.last.max(self.start),
            interface: self.interface,
            vlan: self.vlan,
            reason,
        })
    }

    /// Learns when the last packet came.
    fn look(&mut self, flow: &Flow, now: u64) {
        if flow.packets != self.seen {
            (self.seen, self.last) = (flow.packets, flow.id.stamped(now));
        }
    }
}

/// Packets and bytes that were never exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) flows: u64,
    pub(crate) packets: u64,
    pub(crate) octets: u64,
}

/// Tracks by entry of the flow table.
#[derive(Debug)]
pub(crate) struct Tracks {
    list: Vec<Track>,
    departed: VecDeque<Record>,
    lost: Lost,
    /// Now, in milliseconds.
    pub(crate) now: u64,
}

impl Tracks {
    pub(crate) fn new(capacity: usize) -> Tracks {
        Tracks {
            list: Vec::with_capacity(capacity),
            departed: VecDeque::with_capacity(MOST_DEPARTED),
            lost: Lost::default(),
            now: 0,
        }
    }

    /// A flow has come into the table.
    pub(crate) fn push(&mut self, track: Track) {
        self.list.push(track);
    }

    /// Something came that the flow alone does not say.
    #[cold]
    pub(crate) fn note(&mut self, entry: usize, ms: u64, origin: Origin) {
        let Some(track) = self.list.get_mut(entry) else { return };
        if !core::mem::replace(&mut track.has_begun, true) {
            (track.start, track.interface, track.vlan) = (ms, origin.interface, origin.vlan);
        }
        track.extra = sum(track.extra, u64::from(origin.extra));
    }

    /// A flow gives up its place to another.
    pub(crate) fn replace(&mut self, entry: usize, leaving: &Flow, next: Track) {
        let now = self.now;
        let Some(track) = self.list.get_mut(entry) else { return };
        let record = track.record(leaving, now, EndReason::LackOfResources);
        *track = next;
        match record {
            Some(record) if self.departed.len() < MOST_DEPARTED => self.departed.push_back(record),
            Some(record) => {
                self.lost.flows = sum(self.lost.flows, 1);
                self.lost.packets = sum(self.lost.packets, record.packets);
                self.lost.octets = sum(self.lost.octets, record.octets);
            }
            None => {}
        }
    }

    /// What another instance saw of a flow is not exported here.
    pub(crate) fn leave_out(&mut self, entry: usize, theirs: &Flow) {
        if let Some(track) = self.list.get_mut(entry) {
            track.packets = sum(track.packets, theirs.packets);
            track.bytes = sum(track.bytes, theirs.bytes);
            track.seen = sum(track.seen, theirs.packets);
        }
    }

    /// What is to be exported of a flow now, of every one when the monitor `ends`; whether it is still to be
    /// watched otherwise.
    pub(crate) fn due(
        &mut self,
        entry: usize,
        flow: &Flow,
        (idle, active): (u64, u64),
        ends: bool,
    ) -> (Option<Record>, bool) {
        let now = self.now;
        let Some(track) = self.list.get_mut(entry) else { return (None, false) };
        if flow.packets == track.packets {
            return (None, false);
        }
        track.look(flow, now);
        let reason = if now.saturating_sub(track.last) >= idle {
            EndReason::Idle
        } else if now.saturating_sub(track.start) >= active {
            EndReason::Active
        } else if ends {
            EndReason::Forced
        } else {
            return (None, true);
        };
        (track.record(flow, now, reason), true)
    }

    /// The record of this flow was taken; its next packet begins another.
    pub(crate) fn done(&mut self, entry: usize, flow: &mut Flow) {
        if let Some(track) = self.list.get_mut(entry) {
            *track = Track { last: track.last, ..Track::left_out(flow) };
            flow.id.rest();
        }
    }

    /// The oldest record of a flow that left.
    pub(crate) fn departed(&self) -> Option<&Record> {
        self.departed.front()
    }

    /// It was taken.
    pub(crate) fn forget_departed(&mut self) {
        self.departed.pop_front();
    }

    /// Records of flows that left.
    pub(crate) fn waiting(&self) -> usize {
        self.departed.len()
    }

    /// What was never exported.
    pub(crate) fn lost(&self) -> Lost {
        self.lost
    }
}
