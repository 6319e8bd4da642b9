//! What packets cost in two images, measured in turns.

use crate::run::{fill, moment, pool, start, tell_devices};
use crate::{Case, ImageTest};
use guest::Guest;
use guest_wasm::{Program, Sandbox, WasmGuest};
use packet_memory::{Packet, Pool};
use std::sync::Arc;
use std::time::{Duration, Instant};
use telemetry::clock::Cycles;

/// Packets of a batch, as of a busy engine.
const BATCH: usize = 32;
/// Packets of a turn, about.
const TURN: usize = 8192;
/// Turns of each image.
const TURNS: usize = 25;
/// Turns that are enough when they take long.
const FEWEST_TURNS: usize = 3;
/// Time for all turns, about.
const LONGEST: Duration = Duration::from_secs(5);
/// Time between two batches, in nanoseconds.
const BETWEEN: u64 = 10_000;

/// An instance that is shown the same packets again and again.
struct Side {
    guest: WasmGuest,
    pool: Arc<Pool>,
    packets: Vec<Packet>,
    at: u64,
}

impl Side {
    fn new(case: &Case, program: &Arc<Program>) -> Result<Side, String> {
        let pool = pool(case)?;
        let mut guest = start(case, program, &pool)?;
        tell_devices(&mut guest, case)?;
        let mut packets = Vec::new();
        pool.allocate_batch(BATCH, &mut packets);
        let at = case.packets.last().map_or(0, |shown| shown.at);
        Ok(Side { guest, pool, packets, at })
    }

    /// Cycles inside the function for one turn.
    fn turn(&mut self, case: &Case, batches: usize) -> Result<u64, String> {
        let mut source =
            case.packets.iter().flat_map(|shown| std::iter::repeat_n(shown, shown.times)).cycle();
        let mut spent = 0;
        for _ in 0..batches {
            self.at += BETWEEN;
            let now = moment(self.at);
            for (packet, shown) in self.packets.iter_mut().zip(&mut source) {
                fill(&self.pool, packet, shown, now)?;
            }
            let now = moment(self.at);
            self.guest.process(&mut self.packets, now).map_err(|fault| fault.to_string())?;
            spent += Cycles::now().since(now.cycles).0;
            // Packets that it asks to be held stay here: what counts is that both images do the same.
            self.pool.free_batch(std::mem::take(&mut self.guest.kept_mut().emitted));
            self.guest.kept_mut().take_log();
            self.guest.kept_mut().take_events();
        }
        Ok(spent)
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.pool.free_batch(self.packets.drain(..));
    }
}

/// Cycles of a packet in `cut` over those in `built`: the median over turns, each of which shows all cases to
/// both.
///
/// # Errors
/// A function that does not start, or trapped.
pub(crate) fn ratio(
    test: &ImageTest,
    built: &Arc<Program>,
    cut: &Arc<Program>,
    sandbox: &Sandbox,
) -> Result<f64, String> {
    let mut sides = Vec::new();
    for case in &test.cases {
        sides.push((case, Side::new(case, built)?, Side::new(case, cut)?));
    }
    let pools: Vec<_> = sides.iter().flat_map(|(_, a, b)| [a.pool.clone(), b.pool.clone()]).collect();
    let ratio = median(&mut sides);
    drop(sides);
    pools.iter().for_each(|pool| sandbox.forget_pool(pool));
    ratio
}

fn median(sides: &mut [(&Case, Side, Side)]) -> Result<f64, String> {
    let begin = Instant::now();
    // Fills caches and tables, and says how long a batch takes.
    turn(sides, 0, 1)?;
    turn(sides, 1, 1)?;
    let pair = begin.elapsed().max(Duration::from_nanos(1)) / 2;
    let fit = (LONGEST / TURNS as u32).as_nanos() / pair.as_nanos().max(1);
    let most = (TURN / BATCH / sides.len()).max(1);
    let batches = usize::try_from(fit).unwrap_or(most).clamp(1, most);
    let mut ratios = Vec::with_capacity(TURNS);
    while ratios.len() < TURNS && (ratios.len() < FEWEST_TURNS || begin.elapsed() < LONGEST) {
        ratios.push(turn(sides, ratios.len(), batches)?);
    }
    ratios.sort_by(f64::total_cmp);
    Ok(ratios[ratios.len() / 2])
}

/// Shows so many batches of each case to both; the side that was first is second in the next turn.
fn turn(sides: &mut [(&Case, Side, Side)], number: usize, batches: usize) -> Result<f64, String> {
    let (mut before, mut after) = (0, 0);
    for (case, built, cut) in sides.iter_mut() {
        if number.is_multiple_of(2) {
            before += built.turn(case, batches)?;
            after += cut.turn(case, batches)?;
        } else {
            after += cut.turn(case, batches)?;
            before += built.turn(case, batches)?;
        }
    }
    Ok(after as f64 / before.max(1) as f64)
}
