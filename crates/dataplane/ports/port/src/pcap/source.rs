//! The side of the port that packets come from.

use super::capture::{Capture, Next, Record};
use super::config::Pace;
use super::error::{Fault, Foreign, OpenError, named};
use super::link::{HEADER, Link};
use crate::unfit::Unfit;
use crate::{PortCounters, PortEvent, Wake};
use packet_memory::{Packet, Pool};
use std::fs::File;
use std::path::PathBuf;
use telemetry::DropReason;
use telemetry::clock::Nanos;

/// Blocks without packets that are passed over in one call, so that a file full of them does not hold up the
/// worker.
const PATIENCE: usize = 256;

/// A capture whose packets are being given.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    capture: Capture<File>,
    /// Read, and waiting for its time or a buffer.
    next: Option<Record>,
    finished: bool,
    /// Passes still to begin; `None`: any number.
    passes_left: Option<u64>,
    timeline: Option<Timeline>,
    spare: Vec<Packet>,
    unfit: Unfit,
    events: Vec<PortEvent>,
    told_fault: bool,
    told_foreign: bool,
    told_replaced: Option<u16>,
    /// A packet with its Ethernet header, on the way to a buffer.
    frame: Vec<u8>,
    pub passes: u64,
    pub cut_short: u64,
}

/// Recorded time laid onto the present.
#[derive(Clone, Copy, Debug)]
struct Timeline {
    percent: u32,
    start: Option<Nanos>,
    /// Recorded nanoseconds from the first packet to the next one, over all passes.
    elapsed: u64,
    last: Option<u64>,
}

impl Timeline {
    /// The next packet has this timestamp. Time that goes backwards stands still.
    fn advance(&mut self, timestamp: Option<u64>) {
        let Some(timestamp) = timestamp else { return };
        let gap = timestamp.saturating_sub(self.last.unwrap_or(timestamp));
        self.elapsed = self.elapsed.saturating_add(gap);
        self.last = Some(timestamp);
    }

    /// When the next packet is due.
    fn due(&self) -> Nanos {
        let Some(start) = self.start else { return Nanos(0) };
        let after = u128::from(self.elapsed) * 100 / u128::from(self.percent.max(1));
        start.saturating_add(Nanos(u64::try_from(after).unwrap_or(u64::MAX)))
    }
}

impl Source {
    /// Opens a capture and reads as far as its first packet.
    pub fn open(path: PathBuf, file: File, pace: Pace, passes: Option<u64>) -> Result<Source, OpenError> {
        let mut capture = match Capture::new(file) {
            Ok(capture) => capture,
            Err(source) => return Err(OpenError::Capture { path, source }),
        };
        let mut fault = None;
        let mut next = None;
        for _ in 0..PATIENCE {
            match capture.step() {
                Ok(Next::Record(record)) if Link::of(record.link_type).is_none() => {
                    return Err(OpenError::Capture { path, source: Foreign::LinkType(record.link_type) });
                }
                Ok(Next::Passed) => continue,
                Ok(Next::Record(record)) => next = Some(record),
                Ok(Next::End) => {}
                Err(broken) => fault = Some(broken),
            }
            break;
        }
        let timeline = match pace {
            Pace::Recorded(percent) => Some(Timeline { percent, start: None, elapsed: 0, last: None }),
            Pace::FlatOut => None,
        };
        let mut source = Source {
            path,
            capture,
            next: None,
            finished: false,
            passes_left: passes.map(|passes| passes.saturating_sub(1)),
            timeline,
            spare: Vec::new(),
            unfit: Unfit::default(),
            events: Vec::new(),
            told_fault: false,
            told_foreign: false,
            told_replaced: None,
            frame: Vec::new(),
            passes: 0,
            cut_short: 0,
        };
        if let Some(fault) = fault {
            source.tell_fault(&fault);
        }
        if let Some(record) = next {
            source.expect(record);
        }
        Ok(source)
    }

    /// As [`crate::Port::receive`].
    pub fn receive(
        &mut self,
        counters: &mut PortCounters,
        pool: &Pool,
        now: Nanos,
        budget: usize,
        out: &mut Vec<Packet>,
    ) {
        if self.finished || budget == 0 {
            return;
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.start.get_or_insert(now);
            if self.next.is_some() && timeline.due() > now {
                return;
            }
        }
        pool.allocate_batch(budget, &mut self.spare);
        // Taken from the end: the lowest first, as they came from the pool.
        self.spare.reverse();
        for _ in 0..budget {
            let Some(record) = self.peek() else { break };
            if self.timeline.is_some_and(|timeline| timeline.due() > now) {
                break;
            }
            let link = Link::of(record.link_type);
            let replaced = link.filter(|link| *link != Link::Ethernet).map(|link| {
                self.tell_replaced(record.link_type);
                link.replace(self.capture.bytes())
            });
            let length = match replaced {
                Some(Some(replaced)) => record.length - replaced.skip as u32 + HEADER as u32,
                _ => record.length,
            };
            let loss = if link.is_none() {
                self.tell_foreign(record.link_type);
                Some(DropReason::Malformed)
            } else if replaced == Some(None) {
                Some(DropReason::Malformed)
            } else if self.unfit.applies(pool, length) {
                Some(DropReason::TooLong)
            } else if self.spare.is_empty() {
                // A file can wait, a schedule cannot.
                if self.timeline.is_none() {
                    break;
                }
                Some(DropReason::NoBuffer)
            } else {
                None
            };
            self.next = None;
            counters.ledger.received += 1;
            counters.received_bytes += u64::from(length);
            self.cut_short += u64::from(record.length < record.original_length);
            match (loss, self.spare.pop()) {
                (None, Some(mut packet)) => {
                    // Cannot fail: the length was just compared with the pool's.
                    let _ = match replaced.flatten() {
                        None => pool.write(&mut packet, self.capture.bytes()),
                        Some(replaced) => {
                            self.frame.clear();
                            self.frame.extend_from_slice(&replaced.header);
                            self.frame.extend(self.capture.bytes().iter().skip(replaced.skip));
                            pool.write(&mut packet, &self.frame)
                        }
                    };
                    let timestamp = match self.timeline {
                        Some(_) => now.0,
                        None => record.timestamp.unwrap_or(now.0),
                    };
                    packet.edit(|record| record.timestamp = timestamp);
                    out.push(packet);
                }
                (loss, unused) => {
                    counters.ledger.dropped[loss.unwrap_or(DropReason::NoBuffer)] += 1;
                    self.spare.extend(unused);
                }
            }
        }
        pool.free_batch(self.spare.drain(..));
        if self.timeline.is_some() {
            // So that the time to wake is known.
            self.peek();
        }
    }

    /// The next packet; none at the end, or when many blocks in a row were no packets.
    fn peek(&mut self) -> Option<Record> {
        if self.next.is_some() || self.finished {
            return self.next;
        }
        for _ in 0..PATIENCE {
            match self.capture.step() {
                Ok(Next::Record(record)) => {
                    self.expect(record);
                    return self.next;
                }
                Ok(Next::Passed) => {}
                Ok(Next::End) => self.end_pass(),
                Err(fault) => self.tell_fault(&fault),
            }
            if self.finished {
                return None;
            }
        }
        None
    }

    fn expect(&mut self, record: Record) {
        if let Some(timeline) = &mut self.timeline {
            timeline.advance(record.timestamp);
        }
        self.next = Some(record);
    }

    fn end_pass(&mut self) {
        self.passes += 1;
        if self.passes == 1 && self.cut_short > 0 {
            let (path, cut) = (self.path.display(), self.cut_short);
            self.events.push(PortEvent::Notice(format!("{path}: {cut} packets were captured only in part")));
        }
        // Without a packet in it, again and again would be for ever.
        if self.passes_left == Some(0) || self.capture.records() == 0 {
            self.finished = true;
            return;
        }
        self.passes_left = self.passes_left.map(|left| left - 1);
        if let Some(timeline) = &mut self.timeline {
            timeline.last = None;
        }
        if let Err(error) = self.capture.rewind() {
            self.events.push(PortEvent::Notice(format!("{}: {error}", self.path.display())));
            self.finished = true;
        }
    }

    fn tell_fault(&mut self, fault: &Fault) {
        if !self.told_fault {
            self.told_fault = true;
            let (path, records) = (self.path.display(), self.capture.records());
            self.events.push(PortEvent::Notice(format!(
                "{path} breaks {fault}; the {records} packets before are used, the rest is not"
            )));
        }
    }

    fn tell_foreign(&mut self, link_type: u16) {
        if !self.told_foreign {
            self.told_foreign = true;
            let (path, what) = (self.path.display(), Foreign::LinkType(link_type));
            self.events.push(PortEvent::Notice(format!("{path}: {what}; they are dropped as malformed")));
        }
    }

    fn tell_replaced(&mut self, link_type: u16) {
        if self.told_replaced.is_none() {
            self.told_replaced = Some(link_type);
            let (path, what) = (self.path.display(), named(link_type));
            self.events.push(PortEvent::Notice(format!(
                "{path}: packets of link type {what} are given an Ethernet header, with addresses made up where \
                 the capture has none"
            )));
        }
    }

    /// As [`crate::Port::wake`].
    pub fn wake(&self) -> Wake<'static> {
        match &self.timeline {
            _ if self.finished => Wake::default(),
            Some(timeline) if self.next.is_some() => Wake::at(timeline.due()),
            _ => Wake::NOW,
        }
    }

    /// Whether there is nothing more to come.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// What is to be told.
    pub fn take_events(&mut self) -> Vec<PortEvent> {
        self.events.extend(self.unfit.take());
        std::mem::take(&mut self.events)
    }
}
