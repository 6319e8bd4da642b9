//! What each of eight observers costs a chain for a packet, beyond its own call, by the packet's size.
//!
//! Observers do nothing with packets: whatever they did would be their own call. What that call costs is
//! taken in the same run, of as many guests with the same batches and nothing between them.

use super::line::{Line, ROUNDS};
use crate::feed::{Feed, Frames};
use crate::frames::{BATCH, DISTINCT};
use crate::guests::{instance, module, pool, program};
use crate::{BenchError, Measurement};
use guest::Guest;
use guest_wasm::{Sandbox, WasmGuest};
use packet_memory::Pool;
use port::Port;
use std::sync::Arc;
use std::time::{Duration, Instant};
use telemetry::clock::Clock;

/// Observers at the device.
const OBSERVERS: usize = 8;
/// Packets of one run.
const PACKETS: usize = 4 * DISTINCT;

pub(super) fn run(
    sandbox: &Sandbox,
    progress: &mut dyn FnMut(f64, &str),
    into: &mut Vec<Measurement>,
) -> Result<(), BenchError> {
    let image = module("empty")?;
    let packets = pool(2048, None)?;
    for (n, size) in [64, 256, 1500].into_iter().enumerate() {
        progress(0.13 * n as f64, "eight observers");
        let mut alone = Line::new(sandbox, &image, size, 0, &packets)?;
        let mut watched = Line::new(sandbox, &image, size, OBSERVERS, &packets)?;
        let program = program(sandbox, &image)?;
        let guests = (0..OBSERVERS).map(|_| instance(&program, &image, &packets, ""));
        let mut calls = Calls {
            guests: guests.collect::<Result<_, _>>()?,
            feed: Feed::open(Frames::Computed { size }).at_most(BATCH),
            pool: packets.clone(),
        };
        let (mut costs, mut own) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let (without, with, call) = (alone.run(PACKETS)?, watched.run(PACKETS)?, calls.run(PACKETS)?);
            if round > 0 {
                costs.push((with - without) / OBSERVERS as f64 - call);
                own.push(call);
            }
        }
        alone.check()?;
        watched.check()?;
        into.push(Measurement::new(&format!("observer-{size}-ns"), "ns", &costs));
        into.push(Measurement::new(&format!("observer-{size}-call-ns"), "ns", &own));
    }
    Ok(())
}

/// Calls of observers, one after another, with nothing between.
struct Calls {
    guests: Vec<WasmGuest>,
    feed: Feed<Frames>,
    pool: Arc<Pool>,
}

impl Calls {
    /// Nanoseconds of one call for a packet.
    fn run(&mut self, packets: usize) -> Result<f64, BenchError> {
        let clock = Clock::calibrate();
        let mut batch = Vec::with_capacity(BATCH);
        let (mut took, mut done) = (Duration::ZERO, 0);
        while done < packets {
            let now = clock.moment();
            self.feed.receive(&self.pool, now.nanos, BATCH, &mut batch);
            let began = Instant::now();
            for guest in &mut self.guests {
                guest.observe(&batch, now).map_err(|fault| BenchError::Invalid(fault.to_string()))?;
            }
            took += began.elapsed();
            done += batch.len();
            self.feed.transmit(&self.pool, now.nanos, &mut batch);
        }
        Ok(took.as_nanos() as f64 / (done * self.guests.len()) as f64)
    }
}
