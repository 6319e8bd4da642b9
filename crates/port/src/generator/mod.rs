//! A source of packets: so many flows, of such lengths, at such a rate.
//!
//! 1. [`GeneratorPort::new`] prepares one packet for each length, checksums summed up as far as they are known.
//! 2. `receive` takes buffers, chooses flow and length for each, and writes the prepared packet with the flow's
//!    addresses, ports and checksums. A flow is computed from its number, see [`Config::flows`].
//! 3. With a rate, packets are due at fixed times: one that finds no buffer is lost and counted, and a worker that was away
//!    for longer than 10 ms does not make up for all of it (detail `skipped`). Without, there are as many packets as are
//!    asked for and have buffers.
//! 4. After [`Config::count`] packets the port is finished.
//! 5. `transmit` takes what comes back, and with [`Config::check_order`] looks whether it comes in order.
//!
//! Limits: packets are counted as generated, not as received. Without a rate the port always has something to give, so its
//! worker never sleeps. Nothing answers: TCP segments belong to no connection.

mod config;
mod flows;
mod order;
mod pacing;
mod template;
#[cfg(test)]
mod tests;

pub use config::{Config, IMIX, MAX_FLOWS, Order, Protocol, SCHEMA, Size};

use crate::random::{Random, below};
use crate::unfit::Unfit;
use crate::{Port, PortCounters, PortEvent, PortStatus, Wake};
use clock::Nanos;
use flows::FlowSpace;
use order::Numbers;
use pacing::Pacing;
use packet_memory::{Packet, Pool};
use telemetry::DropReason;
use template::{Shape, Template};

/// A source of packets. See the module's documentation.
#[derive(Debug)]
pub struct GeneratorPort {
    shape: Shape,
    order: Order,
    flows: u32,
    space: FlowSpace,
    templates: Vec<Template>,
    /// Index of a template, as often as its weight.
    choices: Vec<u8>,
    longest: u32,
    random: Random,
    next_flow: u32,
    pacing: Option<Pacing>,
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
        Ok(GeneratorPort {
            shape: Shape::of(&config),
            order: config.order,
            flows: config.flows,
            space: FlowSpace::new(&config),
            choices: choices.collect(),
            longest: templates.iter().map(Template::size).max().unwrap_or(0),
            templates,
            random: Random::new(config.seed),
            next_flow: 0,
            pacing: config.rate.map(Pacing::new),
            remaining: config.count,
            numbers: config.check_order.then(|| Numbers::new(config.flows)),
            told_out_of_order: false,
            unfit: Unfit::default(),
            counters: PortCounters::default(),
        })
    }

    /// Writes a packet into each buffer; returns their bytes.
    fn fill(&mut self, pool: &Pool, now: Nanos, packets: &mut [Packet]) -> u64 {
        let mut bytes = 0;
        for packet in packets {
            let (flow, choice) = self.choose();
            let Some(template) = self.templates.get(choice) else { continue };
            let number = self.numbers.as_mut().map(|numbers| [flow, numbers.take(flow)]);
            template.write(pool, packet, self.space.flow(flow), number);
            packet.edit(|record| record.timestamp = now.0);
            bytes += u64::from(template.size());
        }
        bytes
    }

    /// The next packet's flow, and which of the templates it is made from.
    #[inline]
    fn choose(&mut self) -> (u32, usize) {
        let in_turn = self.order == Order::RoundRobin;
        if in_turn && self.templates.len() == 1 {
            return (self.in_turn(), 0);
        }
        let bits = self.random.next();
        let drawn = below((bits >> 32) as u32, self.flows);
        let choice = below(bits as u32, self.choices.len() as u32) as usize;
        let flow = if in_turn { self.in_turn() } else { drawn };
        (flow, self.choices.get(choice).copied().unwrap_or(0).into())
    }

    #[inline]
    fn in_turn(&mut self) -> u32 {
        let flow = self.next_flow;
        self.next_flow = if flow + 1 == self.flows { 0 } else { flow + 1 };
        flow
    }

    fn lose(&mut self, reason: DropReason, packets: u64) {
        self.counters.ledger.generated += packets;
        self.counters.ledger.dropped[reason] += packets;
    }
}

impl Port for GeneratorPort {
    fn receive(&mut self, pool: &Pool, now: Nanos, budget: usize, out: &mut Vec<Packet>) {
        let mut wanted = self.remaining.unwrap_or(u64::MAX).min(budget as u64);
        if let Some(pacing) = &mut self.pacing {
            wanted = wanted.min(pacing.due(now));
        }
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
            if self.pacing.is_some() {
                self.lose(DropReason::NoBuffer, wanted - taken);
            } else {
                done = taken;
            }
        }
        if let Some(pacing) = &mut self.pacing {
            pacing.sent(done);
        }
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
        match &self.pacing {
            _ if self.remaining == Some(0) => Wake::default(),
            Some(pacing) => Wake::at(pacing.next()),
            None => Wake::NOW,
        }
    }

    fn status(&self) -> PortStatus {
        if self.remaining == Some(0) { PortStatus::Finished } else { PortStatus::Up }
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

    fn counters(&self) -> &PortCounters {
        &self.counters
    }

    fn details(&self) -> Vec<(&'static str, u64)> {
        let mut details = Vec::new();
        if let Some(pacing) = &self.pacing {
            details.push(("skipped", pacing.skipped));
        }
        if let Some(numbers) = &self.numbers {
            details.push(("in_order", numbers.in_order));
            details.push(("out_of_order", numbers.out_of_order));
            details.push(("unnumbered", numbers.unnumbered));
        }
        details
    }

    fn close(&mut self, _pool: &Pool) -> Result<(), String> {
        Ok(())
    }
}
