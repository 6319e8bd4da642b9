// UNSAFETY: what the kernel takes to change the protection of pages can only be measured on pages, which are
// mapped, written by a volatile store, and unmapped here. Nothing else has an address of them.
#![allow(unsafe_code)]
//! What it costs to keep functions of one tenant from writing to packets that they do not have (MVMP section
//! 3.2): a pool of their own, or changing the protection of the packets' pages around each batch.
//!
//! 1. A chain of [`HOPS`] functions that do nothing, in one pool; and the same chain where every second
//!    function has a pool of its own, so that each packet is copied into it and out of it again. The
//!    difference for each such function is the cost.
//! 2. Pages of 4 KiB, each with a packet, that are made writable for a batch and read-only after it. Buffers
//!    that share a page would be writable together.
//! 3. The same pages under one protection key (`pku`), opened and closed around each batch without a system
//!    call, where the processor has keys. All pages of a key are open together: a key stands for a pool and
//!    not for a packet.

use crate::chain::{Factory, setup};
use crate::feed::{Counter, Feed, Frames};
use crate::frames::{BATCH, DISTINCT};
use crate::guests::{configuration, module, pool, program};
use crate::native::InTurn;
use crate::{BenchError, Measurement, RUNS};
use cpu_share::TenantId;
use engine::{GuestFactory, InstanceSetup, Target, Worker, WorkerSettings};
use guest_wasm::{InstanceSettings, Sandbox};
use image::Image;
use packet_memory::Pool;
use port::Port;
use std::io::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use telemetry::clock::Clock;

/// Functions in a chain; it begins and ends in the tenant's pool.
const HOPS: usize = 21;
/// Those of them with a pool of their own in the second chain.
const OWN: usize = HOPS / 2;
/// Buffers of a function's own pool.
const BUFFERS: u32 = 2048;
/// Bytes of packets.
const SIZES: [usize; 2] = [64, 1500];
/// Pages whose protection is changed.
const PAGES: usize = 2048;
const PAGE: usize = 4096;
/// Batches in a run.
const BATCHES: usize = 400;

/// Where a chain's packets come from.
#[derive(Clone, Copy)]
enum Source {
    /// The next batch comes when those before have come out.
    InTurn,
    /// There is always another one.
    #[cfg_attr(not(test), expect(dead_code, reason = "a flood, which is a test's"))]
    Endless,
}

/// A chain of functions that do nothing.
struct Chain {
    worker: Worker,
    delivered: Arc<AtomicU64>,
}

impl Chain {
    /// In one pool, or with every second function in one of its own with so many buffers.
    fn new(
        sandbox: &Sandbox,
        image: &Image,
        own: Option<u32>,
        size: usize,
        source: Source,
    ) -> Result<Chain, BenchError> {
        let program = program(sandbox, image)?;
        let settings = InstanceSettings { config: configuration(image, "")?, ..InstanceSettings::default() };
        let mut worker =
            Worker::new(WorkerSettings::default(), Clock::calibrate(), |_| {}).map_err(BenchError::setup)?;
        let shared = pool(BUFFERS, None)?;
        let shared_id = worker.add_pool(shared.clone()).map_err(BenchError::setup)?;
        let delivered = Arc::new(AtomicU64::new(0));
        // Another tenant's pool applies no backpressure: a source that always has packets has some of them
        // lost.
        let other = TenantId(u32::from(matches!(source, Source::Endless)));
        let feed = Feed::open(Frames::Computed { size }).at_most(BATCH);
        let feed: Box<dyn Port> = match source {
            Source::InTurn => Box::new(InTurn { feed, delivered: delivered.clone() }),
            Source::Endless => Box::new(feed),
        };
        let mut last = Target::Port(worker.add_port("feed", shared_id, feed));
        for hop in 0..HOPS {
            let (place, pool): (_, Arc<Pool>) = if let Some(buffers) = own.filter(|_| hop % 2 == 1) {
                let pool = pool(buffers, None)?;
                (worker.add_pool_of(other, pool.clone()).map_err(BenchError::setup)?, pool)
            } else {
                (shared_id, shared.clone())
            };
            let factory = Factory { program: program.clone(), pool, settings: settings.clone() };
            let guest = factory.start().map_err(BenchError::Setup)?;
            let setup = InstanceSetup {
                name: format!("hop-{hop}"),
                ..setup(image, Box::new(factory), worker.default_tenant(), place)
            };
            let id = worker.add_instance(setup, guest);
            worker.link(last, Target::Instance(id, 0)).map_err(BenchError::setup)?;
            last = Target::Instance(id, 1);
        }
        let out = worker.add_port("sink", shared_id, Box::new(Counter::new(delivered.clone())));
        worker.link(last, Target::Port(out)).map_err(BenchError::setup)?;
        Ok(Chain { worker, delivered })
    }

    /// Nanoseconds a packet.
    fn run(&mut self, packets: usize) -> Result<f64, BenchError> {
        let before = self.delivered.load(Relaxed);
        let passed = |delivered: &AtomicU64| delivered.load(Relaxed) - before;
        let began = Instant::now();
        // What is copied waits at its receiver: a batch may take a turn for each of the functions, and more.
        for _ in 0..4 * HOPS * packets {
            if passed(&self.delivered) >= packets as u64 {
                return Ok(began.elapsed().as_nanos() as f64 / passed(&self.delivered) as f64);
            }
            self.worker.turn();
        }
        Err(BenchError::Invalid(format!(
            "{} packets of {packets} came out: {:?}",
            passed(&self.delivered),
            self.worker.account(false)
        )))
    }

    /// Checks that nothing was lost, and that each packet was copied as often as it has to be.
    fn check(mut self, copies: u64) -> Result<(), BenchError> {
        let account = self.worker.account(false);
        account.balance().map_err(BenchError::setup)?;
        let ledger = &account.ledger;
        let (lost, copied) = (ledger.dropped.total(), ledger.copied);
        let range = ledger.delivered * copies..=ledger.generated * copies;
        if lost > 0 || !range.contains(&copied) {
            return Err(BenchError::Invalid(format!(
                "{lost} packets were lost, {} delivered, {copied} copies made of them",
                ledger.delivered
            )));
        }
        Ok(())
    }
}

/// Pages of a memory mapping; unmapped with this value.
struct Pages(*mut libc::c_void);

impl Pages {
    /// Maps them and touches them all.
    fn new() -> Result<Pages, BenchError> {
        let (read, write) = (libc::PROT_READ, libc::PROT_WRITE);
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), PAGES * PAGE, read | write, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(BenchError::setup(Error::last_os_error()));
        }
        let pages = Pages(base);
        (0..PAGES).try_for_each(|page| pages.protect(page, false))?;
        Ok(pages)
    }

    fn protect(&self, page: usize, writable: bool) -> Result<(), BenchError> {
        let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        // SAFETY: a page of the mapping, which nothing refers to.
        let failed = unsafe { libc::mprotect(self.0.byte_add(page % PAGES * PAGE), PAGE, protection) };
        if failed == 0 { Ok(()) } else { Err(BenchError::setup(Error::last_os_error())) }
    }

    /// What a function does to a packet at the least: it writes to the first line.
    fn write(&self, page: usize) {
        // SAFETY: inside of a page of the mapping, which was made writable.
        unsafe { self.0.byte_add(page % PAGES * PAGE).cast::<u64>().write_volatile(page as u64) };
    }

    /// Opens and closes all pages around each batch by a protection key; nanoseconds a packet. `None` where
    /// the processor has none.
    fn run_with_key(&self) -> Option<Result<f64, BenchError>> {
        (0..PAGES).try_for_each(|page| self.protect(page, true)).ok()?;
        let key = Key::allocate(self)?;
        let began = Instant::now();
        for batch in 0..BATCHES {
            key.open(true);
            (0..BATCH).for_each(|n| self.write((batch * BATCH + n) * 7));
            key.open(false);
        }
        Some(Ok(began.elapsed().as_nanos() as f64 / (BATCHES * BATCH) as f64))
    }

    /// Makes the pages of each batch writable, writes to them, and makes them read-only; nanoseconds a
    /// packet.
    fn run(&self) -> Result<f64, BenchError> {
        let began = Instant::now();
        for batch in 0..BATCHES {
            // Buffers come back in any order: no two of a batch are neighbours.
            let pages = || (0..BATCH).map(|n| (batch * BATCH + n) * 7);
            pages().try_for_each(|page| self.protect(page, true))?;
            pages().for_each(|page| self.write(page));
            pages().try_for_each(|page| self.protect(page, false))?;
        }
        Ok(began.elapsed().as_nanos() as f64 / (BATCHES * BATCH) as f64)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, given back once.
        unsafe { libc::munmap(self.0, PAGES * PAGE) };
    }
}

/// A protection key that guards [`Pages`].
struct Key(u32);

#[cfg(target_arch = "x86_64")]
impl Key {
    /// `None` where the processor or the kernel has no keys.
    fn allocate(pages: &Pages) -> Option<Key> {
        // SAFETY: numbers alone.
        let key = unsafe { libc::syscall(libc::SYS_pkey_alloc, 0, 0) };
        let key = Key(u32::try_from(key).ok()?);
        let (length, protection) = (PAGES * PAGE, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: the mapping's own range; its bytes stay as they are.
        let failed = unsafe { libc::syscall(libc::SYS_pkey_mprotect, pages.0, length, protection, key.0) };
        (failed == 0).then_some(key)
    }

    /// Whether its pages may be written by this thread.
    fn open(&self, open: bool) {
        let deny_write = 2u32 << (2 * self.0);
        let (mut rights, high): (u32, u32);
        // SAFETY: keys were allocated, so the processor has the instructions; no key but this one changes,
        // and nothing but [`Pages::write`] writes to its pages.
        unsafe {
            std::arch::asm!("rdpkru", in("ecx") 0, out("eax") rights, out("edx") high);
            let _ = high;
            rights = if open { rights & !deny_write } else { rights | deny_write };
            std::arch::asm!("wrpkru", in("ecx") 0, in("eax") rights, in("edx") 0);
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Drop for Key {
    fn drop(&mut self) {
        self.open(true);
        // SAFETY: numbers alone; the pages are not used under it any more.
        unsafe { libc::syscall(libc::SYS_pkey_free, self.0) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl Key {
    fn allocate(_pages: &Pages) -> Option<Key> {
        None
    }

    fn open(&self, _open: bool) {
        let _ = self.0;
    }
}

pub(crate) fn run(
    progress: &mut dyn FnMut(f64, &str),
) -> Result<(Vec<Measurement>, Vec<String>), BenchError> {
    let sandbox = Sandbox::new().map_err(BenchError::setup)?;
    let image = module("empty")?;
    let mut results = Vec::new();
    for (place, size) in SIZES.into_iter().enumerate() {
        let mut shared = Chain::new(&sandbox, &image, None, size, Source::InTurn)?;
        let mut own = Chain::new(&sandbox, &image, Some(BUFFERS), size, Source::InTurn)?;
        let (mut cost, mut hop) = (Vec::new(), Vec::new());
        for run in 0..=RUNS {
            progress(0.4 * (place as f64 + run as f64 / RUNS as f64), "pools of functions");
            let (without, with) = (shared.run(4 * DISTINCT)?, own.run(4 * DISTINCT)?);
            // The first one warms up.
            if run > 0 {
                cost.push((with - without) / OWN as f64);
                hop.push(without / HOPS as f64);
            }
        }
        shared.check(0)?;
        own.check(2 * OWN as u64)?;
        results.push(Measurement::new(&format!("own-pool-{size}-ns"), "ns", &cost));
        results.push(Measurement::new(&format!("hop-{size}-ns"), "ns", &hop));
    }
    progress(0.9, "protection of pages");
    let pages = Pages::new()?;
    let mut remap = Vec::new();
    for run in 0..=RUNS {
        let nanos = pages.run()?;
        if run > 0 {
            remap.push(nanos);
        }
    }
    results.push(Measurement::new("remap-ns", "ns", &remap));
    let keys = (0..=RUNS).map_while(|_| pages.run_with_key()).collect::<Result<Vec<f64>, _>>()?;
    if let Some(keys) = keys.get(1..) {
        results.push(Measurement::new("keys-ns", "ns", keys));
    }
    let no_keys = "keys: this processor has no protection keys (`pku`)".to_owned();
    let mut notes = vec![
        format!(
            "own pool: a chain of {HOPS} functions that do nothing, {OWN} of them in pools of their own of {BUFFERS} buffers, beside the same \
             chain in one pool"
        ),
        format!("remap: pages of {PAGE} bytes, one for each packet, by mprotect around batches of {BATCH}"),
    ];
    notes.extend(keys.is_empty().then_some(no_keys));
    Ok((results, notes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_function_has_its_packets_copied_twice() {
        let sandbox = Sandbox::new().expect("a sandbox");
        let image = module("empty").expect("an image");
        let mut own = Chain::new(&sandbox, &image, Some(BUFFERS), 64, Source::InTurn).expect("a chain");
        own.run(1000).expect("packets pass");
        own.check(2 * OWN as u64).expect("two copies of each packet");
        let mut shared = Chain::new(&sandbox, &image, None, 64, Source::InTurn).expect("a chain");
        shared.run(1000).expect("packets pass");
        assert!(shared.check(1).is_err(), "nothing is copied in one pool");
    }

    /// What is copied into a pool that is full is the sender's time: the receiver's would be used up by it.
    #[test]
    fn a_flood_into_a_small_pool_leaves_its_receiver_time() {
        let sandbox = Sandbox::new().expect("a sandbox");
        let image = module("empty").expect("an image");
        let mut own = Chain::new(&sandbox, &image, Some(256), 64, Source::Endless).expect("a chain");
        own.run(1000).expect("packets pass");
        let account = own.worker.account(false);
        account.balance().expect("balanced");
        assert!(account.ledger.dropped.total() > 0, "its queue has more room than its pool");
    }
}
