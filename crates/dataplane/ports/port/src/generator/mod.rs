//! A source of packets: so many flows, of such lengths, at such a rate.
//!
//! 1. [`GeneratorPort::new`] prepares one packet for each length, checksums summed up as far as they are
//!    known.
//! 2. `receive` takes buffers, chooses flow and length for each, and writes the prepared packet with the
//!    flow's addresses, ports and checksums. A flow is computed from its number, see [`Config::flows`].
//! 3. With a rate, packets are due at fixed times: one that finds no buffer is lost and counted, and a worker
//!    that was away for longer than 10 ms does not make up for all of it (detail `skipped`). Without, there
//!    are as many packets as are asked for and have buffers. A [`Config::schedule`] says the rate of each
//!    second and of which flows its packets are.
//! 4. After [`Config::count`] packets, or at its schedule's end, the port is finished.
//! 5. `transmit` takes what comes back, and with [`Config::check_order`] looks whether it comes in order.
//!
//! Limits: packets are counted as generated, not as received. Without a rate the port always has something to
//! give, so its worker never sleeps. Nothing answers: TCP segments belong to no connection.

mod config;
mod flows;
mod offered;
mod order;
mod pacing;
mod schedule;
#[cfg(test)]
mod schedule_tests;
mod template;
#[cfg(test)]
mod tests;

pub use config::{
    Config, IMIX, Load, MAX_BATCH, MAX_FLOWS, MAX_LOADS, MAX_LOADS_AT_ONCE, MAX_SCHEDULE, Order, Protocol,
    SCHEMA, Size,
};
pub use offered::{MAX_SECONDS, Offered};

use crate::random::{Random, below};
use crate::unfit::Unfit;
use crate::{Port, PortCounters, PortEvent, PortStatus, Wake};
use flows::FlowSpace;
use order::Numbers;
use pacing::Pacing;
use packet_memory::{Packet, Pool};
use std::sync::Arc;
use telemetry::DropReason;
use telemetry::clock::Nanos;
use template::{Shape, Template};

/// A source of packets. See the module's documentation.
#[derive(Debug)]
pub struct GeneratorPort {
    shape: Shape,
    order: Order,
    space: FlowSpace,
    templates: Vec<Template>,
    /// Index of a template, as often as its weight.
    choices: Vec<u8>,
    longest: u32,
    random: Random,
    /// Flows of a port without a schedule.
    all: Turn,
    /// Flows of each load of the schedule.
    loads: Vec<Turn>,
    pacing: Pacing,
    /// Packets still to come, when that is limited.
    remaining: Option<u64>,
    numbers: Option<Numbers>,
    told_out_of_order: bool,
    unfit: Unfit,
    counters: PortCounters,
}

impl GeneratorPort {
    /// Prepares the packets.
    ///
    /// # Errors
    /// As [`Config::check`].
    pub fn new(config: Config) -> Result<GeneratorPort, String> {
        config.check()?;
        let templates = config.sizes.iter().map(|size| Template::new(&config, size.bytes));
        let templates: Vec<Template> =
            templates.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        let choices =
            (0..).zip(&config.sizes).flat_map(|(n, size)| std::iter::repeat_n(n, size.weight as usize));
        let load = |load: &Load| {
            let (first, count) = load.flows.unwrap_or((0, config.flows));
            Turn::new(first, count)
        };
        Ok(GeneratorPort {
            shape: Shape::of(&config),
            order: config.order,
            space: FlowSpace::new(&config),
            choices: choices.collect(),
            longest: templates.iter().map(Template::size).max().unwrap_or(0),
            templates,
            random: Random::new(config.seed),
            all: Turn::new(0, config.flows),
            loads: config.schedule.iter().map(load).collect(),
            pacing: Pacing::new(&config),
            remaining: config.count,
            numbers: config.check_order.then(|| Numbers::new(config.flows)),
            told_out_of_order: false,
            unfit: Unfit::default(),
            counters: PortCounters::default(),
        })
    }

    /// Writes a packet into each buffer, stamped with the time at which the first of them was due; returns
    /// their bytes.
    fn fill(&mut self, pool: &Pool, now: Nanos, packets: &mut [Packet]) -> u64 {
        let due = self.pacing.next().filter(|_| self.pacing.is_paced()).map_or(now, |due| due.min(now));
        let mut bytes = 0;
        for packet in packets {
            let (flow, choice) = self.choose();
            let Some(template) = self.templates.get(choice) else { continue };
            let number = self.numbers.as_mut().map(|numbers| [flow, numbers.take(flow)]);
            template.write(pool, packet, self.space.flow(flow), number);
            packet.edit(|record| record.timestamp = due.0);
            bytes += u64::from(template.size());
        }
        bytes
    }

    /// The next packet's flow, and which of the templates it is made from.
    #[inline]
    fn choose(&mut self) -> (u32, usize) {
        let load = self.pacing.next_load().and_then(|load| self.loads.get_mut(load));
        let turn = load.unwrap_or(&mut self.all);
        let in_turn = self.order == Order::RoundRobin;
        if in_turn && self.templates.len() == 1 {
            return (turn.next(), 0);
        }
        let bits = self.random.next();
        let drawn = turn.drawn((bits >> 32) as u32);
        let choice = below(bits as u32, self.choices.len() as u32) as usize;
        let flow = if in_turn { turn.next() } else { drawn };
        (flow, self.choices.get(choice).copied().unwrap_or(0).into())
    }

    /// What was offered in each second so far; it can be read while the port is in use.
    pub fn offered(&self) -> Arc<Offered> {
        Arc::clone(&self.pacing.offered)
    }

    fn is_finished(&self) -> bool {
        self.remaining == Some(0) || self.pacing.has_ended()
    }

    fn lose(&mut self, reason: DropReason, packets: u64) {
        self.counters.ledger.generated += packets;
        self.counters.ledger.dropped[reason] += packets;
    }
}

/// Flows that have packets one after another.
#[derive(Clone, Copy, Debug)]
struct Turn {
    first: u32,
    count: u32,
    next: u32,
}

impl Turn {
    fn new(first: u32, count: u32) -> Turn {
        Turn { first, count, next: 0 }
    }

    #[inline]
    fn next(&mut self) -> u32 {
        let flow = self.first + self.next;
        self.next = if self.next + 1 == self.count { 0 } else { self.next + 1 };
        flow
    }

    #[inline]
    fn drawn(self, bits: u32) -> u32 {
        self.first + below(bits, self.count)
    }
}

impl Port for GeneratorPort {
    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        let most = self.remaining.unwrap_or(u64::MAX).min(budget as u64);
        let wanted = self.pacing.due(now).min(most);
        if wanted == 0 {
            return;
        }
        let first = out.len();
        let mut done = wanted;
        if self.unfit.applies(pool, self.longest) {
            self.lose(DropReason::TooLong, wanted);
        } else {
            let taken = pool.allocate_batch(wanted as usize, out) as u64;
            let bytes = self.fill(pool, now, &mut out[first..]);
            self.counters.ledger.generated += taken;
            self.counters.received_bytes += bytes;
            if self.pacing.is_paced() {
                self.lose(DropReason::NoBuffer, wanted - taken);
            } else {
                done = taken;
            }
        }
        self.pacing.sent(done);
        if let Some(remaining) = &mut self.remaining {
            *remaining -= done;
        }
    }

    fn transmit(&mut self, pool: &Pool, _now: Nanos, packets: &mut Vec<Packet>) {
        if let Some(numbers) = &mut self.numbers {
            for packet in packets.iter() {
                numbers.returned(Template::number_of(self.shape, pool, packet));
            }
        }
        self.counters.deliver(pool, packets);
    }

    fn wake(&self) -> Wake<'_> {
        match self.pacing.next() {
            _ if self.is_finished() => Wake::default(),
            Some(_) if !self.pacing.is_paced() => Wake::NOW,
            Some(at) => Wake::at(at),
            None => Wake::default(),
        }
    }

    fn status(&self) -> PortStatus {
        if self.is_finished() { PortStatus::Finished } else { PortStatus::Up }
    }

    fn maintain(&mut self, _now: Nanos) -> Vec<PortEvent> {
        let out_of_order = self.numbers.as_ref().map_or(0, |numbers| numbers.out_of_order);
        let reordered = (out_of_order > 0 && !self.told_out_of_order).then(|| {
            self.told_out_of_order = true;
            PortEvent::Notice(format!(
                "{out_of_order} packets came back out of order; further ones are only counted"
            ))
        });
        self.unfit.take().into_iter().chain(reordered).collect()
    }

    fn backlog(&self) -> usize {
        usize::MAX
    }

    fn counters(&self) -> &PortCounters {
        &self.counters
    }

    fn details(&self) -> Vec<(&'static str, u64)> {
        let mut details = Vec::new();
        if self.pacing.is_paced() {
            details.push(("skipped", self.pacing.skipped));
        }
        if let Some(numbers) = &self.numbers {
            details.push(("in_order", numbers.in_order));
            details.push(("out_of_order", numbers.out_of_order));
            details.push(("unnumbered", numbers.unnumbered));
        }
        details
    }
}
