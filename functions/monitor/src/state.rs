//! State on its way to another instance: one entry with everything but the flows, and one for each flow.
//!
//! | key | value |
//! |---|---|
//! | `totals` | version 3, number of flows, a number that versions before took as a seed, floor, then the sums, all little-endian `u64` |
//! | 40 bytes of a flow's identity | packets, bytes, most missed, as `u64`, and in a tunnel its path |
//!
//! The sums are: since, until, all, malformed, tagged, fragments and other EtherTypes (packets and bytes
//! each), number of EtherTypes, these (number, packets, bytes), 256 protocols (packets, bytes), the classes
//! of size, since version 2 packets in tunnels, by kind, and since version 3 packets that were there only in
//! part and those with an IPv4 length of 0.

use crate::config::MOST_FLOWS;
use crate::flow_id::FlowId;
use crate::flow_table::Flow;
use crate::monitor::Monitor;
use crate::totals::{Count, LARGEST, MOST_ETHERTYPES, Totals};
use alloc::vec::Vec;
use nf_sdk::{Nanos, StateReader, StateWriter};
use packet::tunnel::Path;

const TOTALS: &[u8] = b"totals";
const VERSION: u64 = 3;
/// The versions before: without tunnels, and without packets in part.
const WITHOUT_TUNNELS: u64 = 1;
const WITHOUT_SNAPPED: u64 = 2;

/// What another instance saw.
#[derive(Debug)]
pub(crate) struct State {
    /// The most that a flow weighed which was not in its table.
    pub(crate) floor: u64,
    pub(crate) totals: Totals,
    pub(crate) flows: Vec<(Flow, u64)>,
}

pub(crate) fn write(monitor: &Monitor, out: &mut StateWriter<'_>) -> bool {
    let (totals, table) = (monitor.totals(), monitor.table());
    let mut value = Vec::new();
    let mut put = |numbers: &[u64]| numbers.iter().for_each(|n| value.extend_from_slice(&n.to_le_bytes()));
    put(&[VERSION, table.flows().len() as u64, table.seed(), table.floor()]);
    put(&[totals.since.0, totals.until.0]);
    for sum in [totals.all, totals.malformed, totals.tagged, totals.fragments, totals.other_ethertypes] {
        put(&[sum.packets.min(LARGEST), sum.bytes.min(LARGEST)]);
    }
    put(&[totals.ethertypes.len() as u64]);
    for (number, sum) in &totals.ethertypes {
        put(&[u64::from(*number), sum.packets.min(LARGEST), sum.bytes.min(LARGEST)]);
    }
    for sum in &totals.protocols {
        put(&[sum.packets.min(LARGEST), sum.bytes.min(LARGEST)]);
    }
    put(&totals.sizes.map(|packets| packets.min(LARGEST)));
    for sum in totals.tunnels.iter().chain([&totals.snapped, &totals.unsegmented]) {
        put(&[sum.packets.min(LARGEST), sum.bytes.min(LARGEST)]);
    }

    out.entry(TOTALS, &value)
        && table.flows().iter().enumerate().all(|(entry, flow)| {
            let numbers = [flow.packets, flow.bytes, flow.missed].map(|number| number.min(LARGEST));
            let mut value = [0; 32];
            for (place, number) in
                value.chunks_exact_mut(8).zip(numbers.into_iter().chain([table.path(entry)]))
            {
                place.copy_from_slice(&number.to_le_bytes());
            }
            let length = if flow.id.is_inside() { 32 } else { 24 };
            out.entry(&flow.id.to_bytes(), value.get(..length).unwrap_or_default())
        })
}

impl State {
    /// Reads all entries; `None`, and nothing is changed, when they are none that this version wrote.
    pub(crate) fn read(entries: &mut StateReader<'_>) -> Option<State> {
        let (key, value) = entries.next()?;
        if key != TOTALS {
            return None;
        }
        let (mut state, count) = State::read_totals(&mut Numbers(value))?;
        state.flows.reserve_exact(count);
        while let Some((key, value)) = entries.next() {
            let mut numbers = Numbers(value);
            let flow = Flow {
                id: FlowId::from_bytes(key)?,
                packets: numbers.sum()?,
                bytes: numbers.sum()?,
                missed: numbers.sum()?,
            };
            let path = if flow.id.is_inside() { Path::from_bits(numbers.next()?)?.to_bits() } else { 0 };
            if !numbers.is_empty()
                || flow.id.is_inside() != (path != 0)
                || flow.missed > state.floor
                || state.flows.len() == count
            {
                return None;
            }
            state.flows.push((flow, path));
        }
        (!entries.is_broken() && state.flows.len() == count).then_some(state)
    }

    fn read_totals(numbers: &mut Numbers<'_>) -> Option<(State, usize)> {
        let version = numbers.next()?;
        if !(WITHOUT_TUNNELS..=VERSION).contains(&version) {
            return None;
        }
        let count = usize::try_from(numbers.next()?).ok().filter(|count| *count <= MOST_FLOWS)?;
        let (_seed, floor) = (numbers.next()?, numbers.sum()?);
        let mut totals = Totals::new();
        (totals.since, totals.until) = (Nanos(numbers.next()?), Nanos(numbers.next()?));
        totals.all = numbers.count()?;
        totals.malformed = numbers.count()?;
        totals.tagged = numbers.count()?;
        totals.fragments = numbers.count()?;
        totals.other_ethertypes = numbers.count()?;
        let ethertypes = numbers.next()?;
        if ethertypes > MOST_ETHERTYPES as u64 {
            return None;
        }
        for _ in 0..ethertypes {
            totals.ethertypes.push((u16::try_from(numbers.next()?).ok()?, numbers.count()?));
        }
        for sum in &mut totals.protocols {
            *sum = numbers.count()?;
        }
        for packets in &mut totals.sizes {
            *packets = numbers.sum()?;
        }
        if version > WITHOUT_TUNNELS {
            for sum in &mut totals.tunnels {
                *sum = numbers.count()?;
            }
        }
        if version > WITHOUT_SNAPPED {
            totals.snapped = numbers.count()?;
            totals.unsegmented = numbers.count()?;
        }
        numbers.is_empty().then_some((State { floor, totals, flows: Vec::new() }, count))
    }
}

/// Takes numbers off the front of bytes.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn next(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn sum(&mut self) -> Option<u64> {
        self.next().filter(|number| *number <= LARGEST)
    }

    fn count(&mut self) -> Option<Count> {
        Some(Count { packets: self.sum()?, bytes: self.sum()? })
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
