//! Sends flows to a collector: a bounded piece of the table at a time, in messages of its own making.
//!
//! 1. The timer goes over the flow table, [`PIECE`] flows at a time. A flow that was idle or active for long
//!    enough becomes a record; what left the table before comes first.
//! 2. Records gather in a message until it is full or the table was gone over once.
//! 3. A full message becomes a frame, Ethernet, IP and UDP, and is handed to the host. One that the host
//!    refuses waits, and nothing else is done until it takes it: what is to be exported stays where it is
//!    counted.
//!
//! Templates come first, and again at an interval, because UDP may lose them. When the program stops,
//! everything that was not exported is.
//!
//! Time is that of the packets: of a capture that is read as fast as it goes, the recorded time.

use crate::config::Ipfix;
use crate::flow_table::FlowTable;
use crate::ipfix::Message;
use crate::tracks::{Lost, MOST_DEPARTED};
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use nf_sdk::{Host, Nanos, Severity, Verdict};
use packet::checksum::Endpoints;
use packet::{ethernet, ipv4, ipv6, protocol, udp};

/// The interface that messages leave by.
const EXPORT: Verdict = Verdict::Interface(2);
/// Flows that are looked at in one call.
const PIECE: usize = 4096;
/// Messages that are sent in one call.
pub(crate) const MESSAGES: usize = 16;
/// Until the next piece, until the next messages, and until a refused message is tried again.
const NEXT_PIECE: Nanos = Nanos::from_millis(10);
const NEXT_MESSAGES: Nanos = Nanos::from_millis(2);
const NEXT_TRY: Nanos = Nanos::from_millis(20);
/// Until the next time over the table.
const NEXT_ROUND: Nanos = Nanos::from_millis(250);
const MILLISECOND: u64 = 1_000_000;

/// The exporting process.
#[derive(Debug)]
pub(crate) struct Exporter {
    settings: Ipfix,
    message: Message,
    /// A frame that the host refused.
    refused: Option<Vec<u8>>,
    /// The entry that is looked at next.
    place: usize,
    /// Whether a flow of this round is still to be exported.
    watching: bool,
    /// Every flow is exported: the program stops.
    ending: bool,
    sequence: u32,
    identification: u16,
    templates_due: Nanos,
    /// When the timer is to be called next; none before the first packet.
    pub(crate) deadline: Option<Nanos>,
    /// Messages, records and octets that were sent.
    sent: [u64; 3],
    /// Flows among the records: the collector is told of these.
    flows: u64,
    refusals: u64,
}

/// What stopped the work.
enum Stop {
    Refused,
    /// So many messages are enough for one call.
    Enough,
}

impl Exporter {
    pub(crate) fn new(settings: Ipfix) -> Exporter {
        Exporter {
            settings,
            message: Message::default(),
            refused: None,
            place: 0,
            watching: false,
            ending: false,
            sequence: 0,
            identification: 0,
            templates_due: Nanos(0),
            deadline: None,
            sent: [0; 3],
            flows: 0,
            refusals: 0,
        }
    }

    pub(crate) fn settings(&self) -> &Ipfix {
        &self.settings
    }

    /// Messages, records and octets that were sent.
    pub(crate) fn sent(&self) -> [u64; 3] {
        self.sent
    }

    /// How often the host refused a message.
    pub(crate) fn refusals(&self) -> u64 {
        self.refusals
    }

    /// Packets have come, and so many records wait: whether the timer is to be set anew.
    #[inline(always)]
    pub(crate) fn wake(&mut self, now: Nanos, waiting: usize) -> bool {
        let wait = if waiting < MOST_DEPARTED / 8 { NEXT_ROUND } else { NEXT_MESSAGES };
        let due = now.saturating_add(wait);
        let sooner = self.deadline.is_none_or(|deadline| deadline > due);
        if sooner {
            self.deadline = Some(due);
        }
        sooner
    }

    /// A packet of this time is about to be counted: what was due before is done first. Recorded time runs
    /// ahead of the timer, and by any length: flows are looked at when they were to be, then now.
    #[inline(always)]
    pub(crate) fn catch_up(&mut self, table: &mut FlowTable, host: &mut Host, now: Nanos) {
        if let Some(due) = self.deadline
            && due < now
        {
            self.overdue(table, host, due, now);
        }
    }

    #[cold]
    fn overdue(&mut self, table: &mut FlowTable, host: &mut Host, due: Nanos, now: Nanos) {
        self.work(table, host, due);
        if self.deadline.is_some_and(|due| due < now) {
            self.work(table, host, now);
        }
    }

    /// Does a piece of work, and says when the next is due.
    pub(crate) fn work(&mut self, table: &mut FlowTable, host: &mut Host, now: Nanos) {
        let wait = match self.piece(table, host, now) {
            Ok(true) => NEXT_PIECE,
            Ok(false) if self.watching => NEXT_ROUND,
            // Nothing is left to be exported. The next packet wakes.
            Ok(false) => self.templates_due.since(now).max(NEXT_ROUND),
            Err(Stop::Enough) => NEXT_MESSAGES,
            Err(Stop::Refused) => NEXT_TRY,
        };
        self.deadline = Some(now.saturating_add(wait));
    }

    /// Exports what was not exported before, a piece at a time. Whether there is more.
    pub(crate) fn finish(&mut self, table: &mut FlowTable, host: &mut Host, now: Nanos) -> bool {
        if !self.ending {
            (self.ending, self.place) = (true, 0);
        }
        !matches!(self.piece(table, host, now), Ok(false))
    }

    /// Whether the round goes on.
    fn piece(&mut self, table: &mut FlowTable, host: &mut Host, now: Nanos) -> Result<bool, Stop> {
        let mut left = MESSAGES;
        if let Some(frame) = self.refused.take() {
            self.hand_over(frame, host, &mut left)?;
        }
        let Some((tracks, flows)) = table.tracked() else { return Ok(false) };
        tracks.now = tracks.now.max(now.0 / MILLISECOND);
        if now >= self.templates_due {
            self.flush(host, now, &mut left)?;
            let Lost { flows, packets, octets } = tracks.lost();
            self.message.templates();
            let [messages, _, sent] = self.sent;
            let sent = [messages, self.flows, sent];
            self.message.statistics(self.settings.domain, sent, [flows, packets, octets]);
            self.templates_due = now.saturating_add(self.settings.template_refresh);
            self.flush(host, now, &mut left)?;
        }
        let limit = self.settings.message_limit();
        while let Some(record) = tracks.departed() {
            if self.message.flow(record, limit) {
                tracks.forget_departed();
            } else {
                self.flush(host, now, &mut left)?;
            }
        }
        let (idle, active) = (self.settings.idle_timeout, self.settings.active_timeout);
        let (idle, active) = (idle.0 / MILLISECOND, active.0 / MILLISECOND);
        if self.place == 0 {
            self.watching = false;
        }
        let end = flows.len().min(self.place + PIECE);
        while let Some(flow) = flows.get_mut(self.place).filter(|_| self.place < end) {
            let (record, watched) = tracks.due(self.place, flow, (idle, active), self.ending);
            if let Some(record) = record {
                while !self.message.flow(&record, limit) {
                    self.flush(host, now, &mut left)?;
                }
                tracks.done(self.place, flow);
            }
            self.watching |= watched;
            self.place += 1;
        }
        if self.place < flows.len() {
            return Ok(true);
        }
        self.place = 0;
        self.flush(host, now, &mut left)?;
        Ok(false)
    }

    /// Sends what has gathered.
    fn flush(&mut self, host: &mut Host, now: Nanos, left: &mut usize) -> Result<(), Stop> {
        if self.message.is_empty() {
            return Ok(());
        }
        let message = core::mem::take(&mut self.message);
        let (records, flows) = (message.records(), message.flows());
        let bytes = message.finish((now.0 / 1_000_000_000) as u32, self.sequence, self.settings.domain);
        self.sequence = self.sequence.wrapping_add(records);
        self.identification = self.identification.wrapping_add(1);
        self.sent[0] += 1;
        self.sent[1] += u64::from(records);
        self.flows += u64::from(flows);
        self.sent[2] += bytes.len() as u64;
        let frame = frame(&self.settings, self.identification, &bytes);
        self.hand_over(frame, host, left)
    }

    fn hand_over(&mut self, frame: Vec<u8>, host: &mut Host, left: &mut usize) -> Result<(), Stop> {
        let handed = host.packet_new(&frame).and_then(|slot| host.emit(slot, EXPORT, 0));
        if handed.is_err() {
            if self.refusals.is_power_of_two() || self.refusals == 0 {
                host.log(
                    Severity::Warning,
                    "the host takes no message for the collector (quota, or mtu); trying again",
                );
            }
            self.refusals += 1;
            self.refused = Some(frame);
            return Err(Stop::Refused);
        }
        *left -= 1;
        if *left == 0 { Err(Stop::Enough) } else { Ok(()) }
    }
}

/// A message on its way: Ethernet, IPv4 or IPv6, UDP.
pub(crate) fn frame(settings: &Ipfix, identification: u16, message: &[u8]) -> Vec<u8> {
    let Ipfix { source, collector, .. } = *settings;
    let datagram = udp::HEADER_LENGTH + message.len();
    let network = if source.is_ipv4() { ipv4::HEADER_LENGTH } else { ipv6::HEADER_LENGTH };
    let (l3, l4) = (ethernet::HEADER_LENGTH, ethernet::HEADER_LENGTH + network);
    let mut frame = vec![0; l4 + udp::HEADER_LENGTH];
    frame.extend_from_slice(message);
    let link = ethernet::Repr {
        destination: settings.collector_mac,
        source: settings.source_mac,
        tags: ethernet::Tags::NONE,
        ethertype: if source.is_ipv4() { ethernet::ethertype::IPV4 } else { ethernet::ethertype::IPV6 },
    };
    // The settings are checked: addresses are of one family, and the message is shorter than 64 KiB.
    let _ = link.emit(&mut frame);
    if let Some(packet) = frame.get_mut(l3..) {
        let _ = match (source, collector) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => ipv4::Repr {
                traffic_class: 0,
                identification,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                ttl: 64,
                protocol: protocol::UDP,
                source,
                destination,
                options: &[],
                payload_length: datagram,
            }
            .emit(packet),
            (IpAddr::V6(source), IpAddr::V6(destination)) => ipv6::Repr {
                traffic_class: 0,
                flow_label: 0,
                payload_length: datagram as u16,
                next_header: protocol::UDP,
                hop_limit: 64,
                source,
                destination,
            }
            .emit(packet),
            _ => Ok(()),
        };
    }
    let ports = udp::Repr {
        source_port: settings.source_port,
        destination_port: settings.collector_port,
        payload_length: message.len(),
    };
    if let (Some(segment), Some(endpoints)) = (frame.get_mut(l4..), Endpoints::new(source, collector)) {
        let _ = ports.emit(segment, &endpoints);
    }
    frame
}
