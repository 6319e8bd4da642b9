//! The most that a sender who knows the rules makes `dpi` spend, searched for.
//!
//! 1. A payload is a unit that is said over and over in a stream, cut into segments of one size. The first
//!    units are made of what rules look for: their contents alone, all but the last, in order and in reverse,
//!    in heads of requests, and many rules' contents side by side.
//! 2. Those that cost most by byte are kept, joined, cut, stretched and mixed with what other rules look for,
//!    and the costliest are kept again. What seems to cost so much is tried [`SURE`] times before it is kept:
//!    the least time counts, so that a unit that was slow once by chance falls back, and one that is slow
//!    stays where it is.
//! 3. Of the costliest unit of each size [`PACKETS`] consecutive segments are shown [`RUNS`] times. The work
//!    of a batch is the same each time, so that the least time counts: in others the processor did something
//!    else meanwhile.
//!
//! What ordinary traffic costs is the median over [`PACKETS`] consecutive packets each of the traffic that
//! goes with the rules.

use crate::dpi_load::Streams;
use crate::dpi_rules::{self, Passes, Traffic};
use crate::frames::{BATCH, Numbers, fill};
use crate::guests::{patient_instance, pool, program, stock};
use crate::statistics::median;
use crate::{BenchError, Measurement, RUNS};
use guest::Guest;
use guest_wasm::{Sandbox, WasmGuest, watchdog};
use packet_memory::{Packet, Pool};
use peers::public_rules::{self, Part, Rule};
use std::sync::Arc;
use telemetry::clock::{Cycles, Moment, Nanos};

/// Consecutive packets that a figure is about.
const PACKETS: usize = 1000;
/// Bytes of data in the segments that are searched: few, so that what a packet may cost weighs most, and as
/// many as there can be.
const SIZES: [usize; 2] = [256, 1460];
/// Segments that a unit is tried with, and units that are kept.
const TRIED: usize = 2 * BATCH;
const KEPT: usize = 24;
/// Times that a unit is tried before it is kept.
const SURE: usize = 8;
/// Rounds of changes, and how many changed units each tries.
const ROUNDS: usize = 5;
const CHANGED: usize = 240;
/// After so long nothing is known any more of an idle connection.
const FORGOTTEN: Nanos = Nanos::from_millis(4 * 3600 * 1000);
/// Longest unit.
const LONGEST: usize = 2000;

/// A unit and what it costs.
#[derive(Clone, Debug, PartialEq)]
struct Tried {
    unit: Vec<u8>,
    /// Nanoseconds of each batch: the least that were seen, which are never less than what it costs.
    least: Vec<f64>,
    times: usize,
}

impl Tried {
    /// Of all batches; as many for each unit of a size.
    fn nanos(&self) -> f64 {
        self.least.iter().sum()
    }

    /// It took as long once more.
    fn took(&mut self, batches: &[f64]) {
        self.times += 1;
        lower(&mut self.least, batches);
    }
}

/// Takes the less of both, batch by batch.
fn lower(least: &mut [f64], again: &[f64]) {
    least.iter_mut().zip(again).for_each(|(least, again)| *least = least.min(*again));
}

/// What the costliest unit of a size costs.
struct Worst {
    ns_per_byte: f64,
    call_us: f64,
}

/// The function.
struct Prober {
    guest: WasmGuest,
    pool: Arc<Pool>,
    buffers: Vec<Packet>,
    /// By how much its time is ahead: a connection begins so late that the one before it has been forgotten.
    ahead: Nanos,
}

impl Prober {
    /// Shows a batch; nanoseconds.
    fn show(&mut self, frames: &[Vec<u8>], ingress: &[u16]) -> Result<f64, BenchError> {
        let clock = watchdog::clock();
        let batch = &mut self.buffers[..frames.len()];
        fill(&self.pool, batch, frames, |n| ingress[n]);
        let nanos = clock.now().saturating_add(self.ahead);
        for packet in batch.iter_mut() {
            packet.edit(|record| record.timestamp = nanos.0);
        }
        let began = Cycles::now();
        self.guest.process(batch, Moment { cycles: began, nanos }).map_err(BenchError::setup)?;
        let spent = clock.span(Cycles::now().since(began));
        // Room for the next alerts.
        self.guest.kept_mut().take_events();
        Ok(spent.0 as f64)
    }

    /// Nanoseconds of each batch when these packets are shown.
    fn batches(&mut self, frames: &[Vec<u8>], ingress: &[u16]) -> Result<Vec<f64>, BenchError> {
        let batches = frames.chunks(BATCH).zip(ingress.chunks(BATCH));
        batches.map(|(frames, ingress)| self.show(frames, ingress)).collect()
    }

    /// Nanoseconds of each batch when a client says a unit over and over, in so many segments of a new
    /// connection.
    fn say(&mut self, unit: &[u8], size: usize, segments: usize) -> Result<Vec<f64>, BenchError> {
        self.ahead = self.ahead.saturating_add(FORGOTTEN);
        let (frames, ingress) = Streams::handshake(0, 1);
        self.batches(&frames, &ingress)?;
        let mut said = unit.iter().copied().cycle();
        let segment = |n: usize| {
            let data: Vec<u8> = said.by_ref().take(size).collect();
            Streams::segment(0, 1 + (n * size) as u32, &data)
        };
        let frames: Vec<Vec<u8>> = (0..segments).map(segment).collect();
        self.batches(&frames, &vec![0; segments])
    }

    /// Tries a unit.
    fn attempt(&mut self, unit: Vec<u8>, size: usize) -> Result<Tried, BenchError> {
        let least = self.say(&unit, size, TRIED)?;
        Ok(Tried { unit, least, times: 1 })
    }

    /// Leaves the costliest.
    fn keep(&mut self, tried: &mut Vec<Tried>, size: usize) -> Result<(), BenchError> {
        keep(tried, |unit| self.say(unit, size, TRIED))
    }

    /// The costliest unit of a size.
    fn search(&mut self, rules: &[Rule], size: usize, numbers: &mut Numbers) -> Result<Vec<u8>, BenchError> {
        let mut tried = Vec::new();
        for unit in first_units(rules, numbers) {
            tried.push(self.attempt(unit, size)?);
        }
        self.keep(&mut tried, size)?;
        for _ in 0..ROUNDS {
            for _ in 0..CHANGED {
                let unit = changed(&tried, rules, numbers);
                if tried.iter().all(|known| known.unit != unit) {
                    tried.push(self.attempt(unit, size)?);
                }
            }
            self.keep(&mut tried, size)?;
        }
        Ok(tried.swap_remove(0).unit)
    }

    /// What a unit costs: the least of several times for each batch.
    fn measure(&mut self, unit: &[u8], size: usize) -> Result<Worst, BenchError> {
        let mut least = self.say(unit, size, PACKETS)?;
        for _ in 1..RUNS {
            lower(&mut least, &self.say(unit, size, PACKETS)?);
        }
        let longest = least.iter().copied().fold(0.0, f64::max);
        let ns_per_byte = least.iter().sum::<f64>() / (PACKETS * size) as f64;
        Ok(Worst { ns_per_byte, call_us: longest / 1000.0 })
    }

    /// What the traffic that goes with the rules costs for each byte of data.
    fn ordinary(&mut self, traffic: &mut Traffic) -> Result<f64, BenchError> {
        let mut passes = Passes::new();
        let mut least: Vec<f64> = Vec::new();
        for pass in 0..3 {
            passes.advance(&mut traffic.frames);
            let times = self.batches(&traffic.frames, &traffic.ingress)?;
            match pass {
                // Caches are empty.
                0 => {}
                1 => least = times,
                _ => lower(&mut least, &times),
            }
        }
        let bytes: Vec<f64> = traffic
            .frames
            .chunks(BATCH)
            .map(|frames| frames.iter().map(|frame| dpi_rules::data_length(frame)).sum::<usize>() as f64)
            .collect();
        let some = PACKETS.div_ceil(BATCH);
        let windows = least.chunks_exact(some).zip(bytes.chunks_exact(some));
        let costs: Vec<f64> =
            windows.map(|(times, bytes)| times.iter().sum::<f64>() / bytes.iter().sum::<f64>()).collect();
        Ok(median(&costs))
    }
}

/// Leaves the costliest, each tried [`SURE`] times. What a unit costs is never more than what was seen of it:
/// one that costs more than those that are left is left as well, and tried again before it can fall back.
fn keep(
    tried: &mut Vec<Tried>,
    mut say: impl FnMut(&[u8]) -> Result<Vec<f64>, BenchError>,
) -> Result<(), BenchError> {
    loop {
        tried.sort_by(|a, b| b.nanos().total_cmp(&a.nanos()));
        let Some(unsure) = tried.iter_mut().take(KEPT).find(|unit| unit.times < SURE) else { break };
        unsure.took(&say(&unsure.unit)?);
    }
    tried.truncate(KEPT);
    Ok(())
}

/// A head of a request with these bytes in a place where rules look for them.
fn request(part: Part, bytes: &[u8]) -> Vec<u8> {
    let (before, after): (&[u8], &[u8]) = match part {
        Part::Uri => (b"GET /", b" HTTP/1.1\r\nHost: h\r\n\r\n"),
        Part::Cookie => (b"GET / HTTP/1.1\r\nCookie: ", b"\r\n\r\n"),
        Part::Body => (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n", b"\r\n0\r\n\r\n"),
        Part::Header | Part::Payload | Part::File => (b"GET / HTTP/1.1\r\nX: ", b"\r\n\r\n"),
    };
    [before, bytes, after].concat()
}

/// What rules look for, without what would complete it, and beside that of others.
fn first_units(rules: &[Rule], numbers: &mut Numbers) -> Vec<Vec<u8>> {
    let mut units: Vec<Vec<u8>> =
        [&b"a"[..], b"/", b"\r\n", b"0", b"%2e/", b"GET / HTTP/1.1\r\n\r\n", b"A: b\r\n", b"\0"]
            .map(<[u8]>::to_vec)
            .to_vec();
    // Heads of many fields, each with a name of its own.
    for fields in [33u8, 60, 200] {
        let names = (0..fields).flat_map(|n| match n {
            0..=25 => vec![b'a' + n, b':', b'\n'],
            _ => vec![b'a' + n / 26, b'a' + n % 26, b':', b'\n'],
        });
        units.push([&b"X / HTTP/1.\n"[..], &names.collect::<Vec<u8>>(), b"\n"].concat());
        units.push([&b"GET /\n"[..], &b"a:\n".repeat(usize::from(fields)), b"\n"].concat());
    }
    for rule in rules.iter().filter(|rule| !rule.contents.is_empty()) {
        let all: Vec<&[u8]> = rule.contents.iter().map(|content| content.bytes.as_slice()).collect();
        let wanted = rule.fast.and_then(|fast| all.get(fast)).unwrap_or(&all[0]);
        units.push(wanted.to_vec());
        if let [before @ .., _] = all.as_slice()
            && !before.is_empty()
        {
            units.push(before.concat());
        }
        if let Some((before, _)) = &rule.pcre {
            units.push(
                [all.concat(), vec![b'~'], before.clone().into_bytes(), b"0123456789".to_vec()].concat(),
            );
        }
        let reversed: Vec<u8> = all.iter().rev().copied().flatten().copied().collect();
        let part = rule.contents[0].part;
        units.push(if part == Part::Payload { reversed } else { request(part, &all.concat()) });
    }
    for _ in 0..200 {
        let count = 4 + numbers.below(60);
        units.push((0..count).flat_map(|_| any_content(rules, numbers)).take(LONGEST).collect());
    }
    units.sort_unstable();
    units.dedup();
    units
}

/// A content of any rule.
fn any_content(rules: &[Rule], numbers: &mut Numbers) -> Vec<u8> {
    let rule = &rules[numbers.below(rules.len() as u64) as usize];
    let count = rule.contents.len() as u64;
    rule.contents.get(numbers.below(count) as usize).map(|content| content.bytes.clone()).unwrap_or_default()
}

/// A change of one of these, which are never none.
fn changed(tried: &[Tried], rules: &[Rule], numbers: &mut Numbers) -> Vec<u8> {
    let any = |numbers: &mut Numbers| &tried[numbers.below(tried.len().min(KEPT) as u64) as usize].unit;
    let mut unit = any(numbers).clone();
    let at = numbers.below(unit.len() as u64 + 1) as usize;
    match numbers.below(6) {
        0 => unit.extend_from_slice(any(numbers)),
        1 => {
            unit.truncate(at.max(1));
            unit.extend_from_slice(any(numbers));
        }
        2 => {
            let part = unit[at / 2..at].repeat(1 + numbers.below(8) as usize);
            drop(unit.splice(at..at, part));
        }
        3 => drop(unit.splice(at..at, any_content(rules, numbers))),
        4 => drop(unit.drain(at / 2..at)),
        _ => {
            unit = (0..1 + numbers.below(40)).flat_map(|_| any_content(rules, numbers)).chain(unit).collect()
        }
    }
    unit.truncate(LONGEST);
    if unit.is_empty() { any_content(rules, numbers) } else { unit }
}

/// The results.
pub(crate) fn run(sandbox: &Sandbox, into: &mut Vec<Measurement>) -> Result<(), BenchError> {
    let image = stock("dpi")?;
    let rules = public_rules::rules(dpi_rules::RULES);
    let config = dpi_rules::configuration(&image, &rules)?;
    let pool = pool(64, None)?;
    let guest = patient_instance(&program(sandbox, &image)?, &pool, config)?;
    let mut buffers = Vec::new();
    pool.allocate_batch(BATCH, &mut buffers);
    let mut prober = Prober { guest, pool, buffers, ahead: Nanos(0) };
    let ordinary = prober.ordinary(&mut Traffic::new(&rules)?)?;
    let mut numbers = Numbers(17);
    let mut found = Vec::new();
    for size in SIZES {
        let unit = prober.search(&rules, size, &mut numbers)?;
        found.push(prober.measure(&unit, size)?);
    }
    let most = |cost: fn(&Worst) -> f64| found.iter().map(cost).fold(0.0, f64::max);
    let worst = most(|worst| worst.ns_per_byte);
    into.push(Measurement::new("dpi-ordinary-ns-per-byte", "ns", &[ordinary]));
    into.push(Measurement::new("dpi-worst-ns-per-byte", "ns", &[worst]));
    into.push(Measurement::new("dpi-worst-ratio", "x", &[worst / ordinary]));
    into.push(Measurement::new("dpi-worst-call-us", "us", &[most(|worst| worst.call_us)]));
    prober.pool.free_batch(prober.buffers.drain(..));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Units that cost what their two bytes say, each measured while now and then something else runs.
    #[test]
    fn what_was_slow_by_chance_is_not_kept_and_what_is_slow_is_not_lost() {
        let mut chance = Numbers(3);
        let mut disturbed = 0;
        let mut say = |unit: &[u8]| {
            let cost = f64::from(u16::from_le_bytes([unit[0], unit[1]]));
            let mut batch = || match chance.below(4) {
                0 => {
                    disturbed += 1;
                    cost + 50_000.0
                }
                _ => cost,
            };
            Ok(vec![batch(), batch()])
        };
        let mut tried = Vec::new();
        for cost in 0..1000u16 {
            let unit = cost.to_le_bytes().to_vec();
            let least = say(&unit).expect("it never fails");
            tried.push(Tried { unit, least, times: 1 });
        }
        keep(&mut tried, say).expect("it never fails");
        let costliest: Vec<Vec<u8>> = (0..KEPT as u16).map(|n| (999 - n).to_le_bytes().to_vec()).collect();
        assert_eq!(tried.iter().map(|unit| unit.unit.clone()).collect::<Vec<_>>(), costliest);
        assert!(tried.iter().zip(0..).all(|(unit, n)| unit.nanos() == 2.0 * f64::from(999 - n)));
        assert!(disturbed > 400, "{disturbed}");
    }
}
