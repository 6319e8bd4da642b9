//! The side of the port that packets come from.

use super::capture::{Capture, Next, Record};
use super::config::Pace;
use super::error::{Fault, Foreign, OpenError, named};
use super::link::{HEADER, Link, Replaced};
use super::sides::{Side, SideFinder, Sides};
use super::timeline::Timeline;
use crate::unfit::Unfit;
use crate::{PortCounters, PortEvent, Wake};
use packet_memory::{Packet, Pool};
use std::fs::File;
use std::path::PathBuf;
use telemetry::DropReason;
use telemetry::clock::Nanos;

/// Blocks without packets that are passed over in one call, so that a file full of them does not hold up the
/// worker.
const BLOCKS_AT_ONCE: usize = 256;

/// How long packets of one side wait for those of the other to have left the chain, at most.
const TURN: Nanos = Nanos::from_millis(10);

/// A capture whose packets are being given.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    capture: Capture<File>,
    /// Read, and waiting for its time, its turn or a buffer.
    next: Option<Waiting>,
    sides: Option<SideFinder>,
    /// Whether a port takes the packets from outside.
    outside_taken: bool,
    run: Option<Run>,
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
    /// The next packet with its Ethernet header, where it was given one.
    frame: Vec<u8>,
    pub passes: u64,
    /// Packets of which the capture has only a part.
    pub cut_short: u64,
    /// Packets of which it has nothing.
    pub empty: u64,
    /// Packets from outside that no port took.
    pub other_side: u64,
}

/// A packet that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    record: Record,
    link: Option<Link>,
    /// Its Ethernet header, when it was given one; `Some(None)` when it could not be.
    replaced: Option<Option<Replaced>>,
    side: Side,
}

/// Packets of one side, given one after the other.
#[derive(Clone, Copy, Debug)]
struct Run {
    side: Side,
    /// Buffers that were free before.
    free: usize,
    last: Nanos,
}

/// How a capture is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub pace: Pace,
    /// `None`: again and again.
    pub passes: Option<u64>,
    pub sides: Option<Sides>,
}

impl Source {
    /// Opens a capture and reads as far as its first packet.
    pub fn open(path: PathBuf, file: File, reading: Reading) -> Result<Source, OpenError> {
        let Reading { pace, passes, sides } = reading;
        let mut capture = match Capture::new(file) {
            Ok(capture) => capture,
            Err(source) => return Err(OpenError::Capture { path, source }),
        };
        let mut fault = None;
        let mut next = None;
        for _ in 0..BLOCKS_AT_ONCE {
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
            Pace::Recorded(percent) => Some(Timeline::new(percent)),
            Pace::FlatOut => None,
        };
        let mut source = Source {
            path,
            capture,
            next: None,
            sides: sides.map(SideFinder::new),
            outside_taken: false,
            run: None,
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
            empty: 0,
            other_side: 0,
        };
        if let Some(fault) = fault {
            source.tell_fault(&fault);
        }
        if let Some(record) = next {
            source.expect(record);
        }
        Ok(source)
    }

    /// Whether a port takes the packets of a side.
    pub fn set_taken(&mut self, side: Side, taken: bool) {
        if side == Side::Outside {
            self.outside_taken = taken;
        }
    }

    /// As [`crate::Port::receive`], of one side's packets.
    pub fn receive(
        &mut self,
        side: Side,
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
            timeline.begin(now);
        }
        let free = pool.available();
        if self.peek().is_some() && !self.may_give(side, free, now) {
            return;
        }
        pool.allocate_batch(budget, &mut self.spare);
        // Taken from the end: the lowest first, as they came from the pool.
        self.spare.reverse();
        for _ in 0..budget {
            let Some(waiting) = self.peek() else { break };
            if !self.may_give(side, free, now) || !self.give(&waiting, counters, pool, now, out) {
                break;
            }
            let run = self.run.get_or_insert(Run { side, free, last: now });
            if run.side != side {
                *run = Run { side, free, last: now };
            }
            run.last = now;
        }
        pool.free_batch(self.spare.drain(..));
        if self.timeline.is_some() {
            // So that the time to wake is known.
            self.peek();
        }
    }

    /// Whether the next packet, if there is one, is this side's and due, and the packets of the other side
    /// that came before it have left the chain, as far as the pool's free buffers tell.
    fn may_give(&self, side: Side, free: usize, now: Nanos) -> bool {
        let Some(next) = &self.next else { return true };
        if next.side != side || self.timeline.is_some_and(|timeline| timeline.due() > now) {
            return false;
        }
        self.run.is_none_or(|run| run.side == side || free >= run.free || now.since(run.last) >= TURN)
    }

    /// Gives the packet that waits, or drops it; false when it waits on for a buffer.
    fn give(
        &mut self,
        waiting: &Waiting,
        counters: &mut PortCounters,
        pool: &Pool,
        now: Nanos,
        out: &mut Vec<Packet>,
    ) -> bool {
        let Waiting { record, link, replaced, .. } = *waiting;
        let length = match replaced {
            Some(Some(replaced)) => record.length - replaced.skip as u32 + HEADER as u32,
            _ => record.length,
        };
        if replaced.is_some() {
            self.tell_replaced(record.link_type);
        }
        let loss = if link.is_none() {
            self.tell_foreign(record.link_type);
            Some(DropReason::Malformed)
        } else if replaced == Some(None) || record.length == 0 {
            Some(DropReason::Malformed)
        } else if self.unfit.applies(pool, length) {
            Some(DropReason::TooLong)
        } else if self.spare.is_empty() {
            // A file can wait, a schedule cannot.
            if self.timeline.is_none() {
                return false;
            }
            Some(DropReason::NoBuffer)
        } else {
            None
        };
        self.next = None;
        counters.ledger.received += 1;
        counters.received_bytes += u64::from(length);
        let left_out = record.original_length.saturating_sub(record.length);
        self.empty += u64::from(record.length == 0);
        self.cut_short += u64::from(record.length > 0 && left_out > 0);
        match (loss, self.spare.pop()) {
            (None, Some(mut packet)) => {
                let bytes = if replaced.is_some() { &self.frame } else { self.capture.bytes() };
                // Cannot fail: the length was just compared with the pool's.
                let _ = pool.write(&mut packet, bytes);
                let timestamp = match self.timeline {
                    Some(_) => now.0,
                    None => record.timestamp.unwrap_or(now.0),
                };
                packet.edit(|record| {
                    record.timestamp = timestamp;
                    record.gso_size = u16::try_from(left_out).unwrap_or(u16::MAX);
                });
                out.push(packet);
            }
            (loss, unused) => {
                counters.ledger.dropped[loss.unwrap_or(DropReason::NoBuffer)] += 1;
                self.spare.extend(unused);
            }
        }
        true
    }

    /// The next packet; none at the end, or when many blocks in a row were no packets that a port takes.
    fn peek(&mut self) -> Option<Waiting> {
        for _ in 0..BLOCKS_AT_ONCE {
            if self.next.is_some_and(|next| next.side == Side::Outside) && !self.outside_taken {
                self.other_side += 1;
                self.next = None;
            }
            if self.finished || self.next.is_some() {
                return self.next;
            }
            match self.capture.step() {
                Ok(Next::Record(record)) => self.expect(record),
                Ok(Next::Passed) => {}
                Ok(Next::End) => self.end_pass(),
                Err(fault) => self.tell_fault(&fault),
            }
        }
        None
    }

    fn expect(&mut self, record: Record) {
        if let Some(timeline) = &mut self.timeline {
            timeline.advance(record.timestamp);
        }
        let link = Link::of(record.link_type);
        let replaced =
            link.filter(|link| *link != Link::Ethernet).map(|link| link.replace(self.capture.bytes()));
        if let Some(Some(replaced)) = replaced {
            self.frame.clear();
            self.frame.extend_from_slice(&replaced.header);
            self.frame.extend_from_slice(self.capture.bytes().get(replaced.skip..).unwrap_or_default());
        }
        let side = match &mut self.sides {
            None => Side::Inside,
            Some(sides) => sides.of(match replaced {
                Some(Some(_)) => &self.frame,
                _ => self.capture.bytes(),
            }),
        };
        self.next = Some(Waiting { record, link, replaced, side });
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
            timeline.next_pass();
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
