//! What time it is, in the two units that the data path knows: processor cycles for accounting, nanoseconds
//! for everything else.
//!
//! 1. [`Clock::calibrate`] measures the time-stamp counter against the kernel's clocks once, at start.
//! 2. [`Clock::read`] reads the counter (about 9 ns); [`Clock::nanos`] turns a reading into nanoseconds since
//!    the Unix epoch without a system call.
//! 3. A test makes a [`Clock::simulated`] one instead: its time passes only when the test, or code that the
//!    test calls, says so.
//!
//! The counter is the time-stamp counter of x86-64, which must be invariant, and the virtual counter of
//! aarch64. Its rate is measured, so that both serve alike; the latter's is often 25 MHz to 1 GHz, and short
//! spans are that much coarser.
//!
//! Limits: wall-clock steps after calibration are not followed, so that
//! timestamps never run backwards. State machines take the time as an argument and never ask this crate.

use std::ops::{Add, AddAssign, Sub};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A point in time or a span, in nanoseconds. Points count from the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Largest value: a deadline that never comes.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// A span of whole milliseconds.
    pub const fn from_millis(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    /// The span from `earlier` to here, zero when `earlier` is later.
    pub const fn since(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// The sum, or [`Nanos::MAX`].
    pub const fn saturating_add(self, span: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(span.0))
    }

    /// In seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl From<Duration> for Nanos {
    fn from(span: Duration) -> Nanos {
        Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(span: Nanos) -> Duration {
        Duration::from_nanos(span.0)
    }
}

/// A reading of, or a span on, the processor's counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cycles(pub u64);

impl Cycles {
    /// Reads the counter.
    #[inline(always)]
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    pub fn now() -> Cycles {
        // SAFETY: RDTSC has no preconditions on x86-64 outside of sandboxes that forbid it by CR4.TSD.
        Cycles(unsafe { core::arch::x86_64::_rdtsc() })
    }

    /// Reads the counter.
    #[inline(always)]
    #[cfg(target_arch = "aarch64")]
    #[allow(unsafe_code)]
    pub fn now() -> Cycles {
        let ticks: u64;
        // SAFETY: reads the virtual counter (Arm ARM, D13.11.15), which Linux lets processes read; touches no
        // memory and no flags.
        unsafe {
            core::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags))
        };
        Cycles(ticks)
    }

    /// The span from `earlier` to here, zero when the counter of another core was behind.
    #[inline]
    pub const fn since(self, earlier: Cycles) -> Cycles {
        Cycles(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Cycles {
    type Output = Cycles;
    #[inline]
    fn add(self, other: Cycles) -> Cycles {
        Cycles(self.0.wrapping_add(other.0))
    }
}

impl Sub for Cycles {
    type Output = Cycles;
    #[inline]
    fn sub(self, other: Cycles) -> Cycles {
        self.since(other)
    }
}

impl AddAssign for Cycles {
    #[inline]
    fn add_assign(&mut self, other: Cycles) {
        self.0 = self.0.wrapping_add(other.0);
    }
}

/// One instant in both units, so that code that needs either does not read the counter again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The counter.
    pub cycles: Cycles,
    /// The time since the Unix epoch.
    pub nanos: Nanos,
}

/// Turns cycles into nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    cycles_at_start: Cycles,
    nanos_at_start: Nanos,
    /// Nanoseconds per cycle in 32.32 fixed point.
    scale: u64,
    /// What is read instead of the counter.
    simulated: Option<&'static SimulatedTime>,
}

/// Time that passes as it is told to, one cycle a nanosecond. One is shared by all copies of its [`Clock`].
#[derive(Debug)]
pub struct SimulatedTime {
    now: AtomicU64,
    had: AtomicU64,
    /// Where sleeps end at the latest.
    horizon: AtomicU64,
    stands: AtomicBool,
}

impl SimulatedTime {
    /// Lets time pass in which threads have their processors.
    pub fn advance(&self, span: Nanos) {
        self.had.fetch_add(span.0, Relaxed);
        self.withhold(span);
    }

    /// Lets time pass in which the kernel runs something else.
    pub fn withhold(&self, span: Nanos) {
        self.now.fetch_add(span.0, Relaxed);
    }

    /// Goes to a point in time, an earlier one too: what simulates several threads in one gives each its turn
    /// from where it was.
    pub fn set(&self, now: Nanos) {
        self.now.store(now.0, Relaxed);
    }

    /// Has sleeps end there at the latest: what simulates has something else to do then.
    pub fn set_horizon(&self, horizon: Nanos) {
        self.horizon.store(horizon.0, Relaxed);
    }

    /// Lets the time of a sleep pass that nothing ends before.
    pub fn sleep(&self, span: Nanos) {
        let now = self.now.load(Relaxed);
        let until = now.saturating_add(span.0).min(self.horizon.load(Relaxed)).max(now);
        self.withhold(Nanos(until - now));
    }

    /// Has no sleep end by itself from now on: threads that sleep wait to be woken, for ever if nothing does.
    pub fn stand(&self) {
        self.stands.store(true, Relaxed);
    }

    /// Whether no sleep ends by itself.
    pub fn stands(&self) -> bool {
        self.stands.load(Relaxed)
    }

    /// Processor time that threads had, all that are simulated in one together.
    pub fn processor_time(&self) -> Nanos {
        Nanos(self.had.load(Relaxed))
    }
}

impl Clock {
    /// Measures the counter's rate; takes about 10 ms.
    pub fn calibrate() -> Clock {
        let (wall, begin, begin_cycles) = (SystemTime::now(), Instant::now(), Cycles::now());
        // Asleep: the counter goes on, and a start costs no processor time.
        std::thread::sleep(Duration::from_millis(10));
        let (elapsed, cycles) = (begin.elapsed(), Cycles::now() - begin_cycles);
        let scale = (elapsed.as_nanos() << 32) / u128::from(cycles.0.max(1));
        let since_epoch = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock {
            cycles_at_start: begin_cycles,
            nanos_at_start: Nanos::from(since_epoch),
            scale: u64::try_from(scale).unwrap_or(u64::MAX),
            simulated: None,
        }
    }

    /// A clock for tests, whose time passes by [`Clock::simulation`] alone. It lives as long as the process.
    pub fn simulated() -> Clock {
        // Not zero, as a counter is not when a worker starts.
        let now = 1 << 40;
        let time = Box::leak(Box::new(SimulatedTime {
            now: now.into(),
            had: AtomicU64::new(0),
            horizon: u64::MAX.into(),
            stands: AtomicBool::new(false),
        }));
        let (cycles_at_start, nanos_at_start) = (Cycles(now), Nanos(now));
        Clock { cycles_at_start, nanos_at_start, scale: 1 << 32, simulated: Some(time) }
    }

    /// What lets the time of a simulated clock pass; `None`: it is a real one.
    pub fn simulation(&self) -> Option<&'static SimulatedTime> {
        self.simulated
    }

    /// Reads the counter.
    #[inline]
    pub fn read(&self) -> Cycles {
        match self.simulated {
            None => Cycles::now(),
            Some(time) => Cycles(time.now.load(Relaxed)),
        }
    }

    /// The same clock, on which time passes so many times slower: for a process that is, as under valgrind,
    /// and that must not do other things for it.
    pub fn slowed(self, times: u64) -> Clock {
        Clock { scale: (self.scale / times.max(1)).max(1), ..self }
    }

    /// The point in time of a reading.
    #[inline]
    pub fn nanos(&self, at: Cycles) -> Nanos {
        Nanos(self.nanos_at_start.0.wrapping_add(self.span(at.since(self.cycles_at_start)).0))
    }

    /// The length of a span.
    #[inline]
    pub fn span(&self, cycles: Cycles) -> Nanos {
        Nanos(((u128::from(cycles.0) * u128::from(self.scale)) >> 32) as u64)
    }

    /// How many cycles a span takes.
    pub fn cycles(&self, span: Nanos) -> Cycles {
        let cycles = (u128::from(span.0) << 32) / u128::from(self.scale.max(1));
        Cycles(u64::try_from(cycles).unwrap_or(u64::MAX))
    }

    /// Now, in both units.
    #[inline]
    pub fn moment(&self) -> Moment {
        let cycles = self.read();
        Moment { cycles, nanos: self.nanos(cycles) }
    }

    /// Now.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.nanos(self.read())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_kernels_clock() {
        let clock = Clock::calibrate();
        let (before, began, after) = (Instant::now(), clock.now(), Instant::now());
        std::thread::sleep(Duration::from_millis(50));
        let (least, ours, most) = (after.elapsed(), clock.now().since(began).0 as f64, before.elapsed());
        // Loose on purpose: this guards against a wrong unit. What a busy machine adds lies within both
        // readings.
        let (least, most) = (least.as_nanos() as f64 * 0.5, most.as_nanos() as f64 * 2.0);
        assert!(least < ours && ours < most, "{ours} ns for {least} to {most} ns");
    }

    #[test]
    fn a_sleep_on_simulated_time_ends_at_the_horizon() {
        let clock = Clock::simulated();
        let (time, began) = (clock.simulation().expect("it is one"), clock.now());
        time.sleep(Nanos(70));
        time.set_horizon(began.saturating_add(Nanos(100)));
        time.sleep(Nanos(70));
        assert_eq!(clock.now().since(began), Nanos(100));
        time.advance(Nanos(5));
        time.sleep(Nanos(70));
        assert_eq!(clock.now().since(began), Nanos(105), "what works may pass it");
        time.set(began);
        assert_eq!(clock.now(), began);
    }

    #[test]
    fn a_slowed_clock_takes_as_many_more_cycles_for_a_span() {
        let clock = Clock::calibrate();
        let (span, slowed) = (Nanos(1_000_000), clock.slowed(1000));
        let ratio = slowed.cycles(span).0 as f64 / clock.cycles(span).0 as f64;
        assert!((999.0..1001.0).contains(&ratio), "{ratio}");
    }

    #[test]
    fn simulated_time_passes_as_it_is_told_to() {
        let clock = Clock::simulated();
        let (copy, before) = (clock, clock.moment());
        let time = copy.simulation().expect("it is simulated");
        assert_eq!(clock.moment(), before);
        time.advance(Nanos(100));
        time.withhold(Nanos(30));
        let now = clock.moment();
        assert_eq!(
            (now.nanos.since(before.nanos), now.cycles.since(before.cycles)),
            (Nanos(130), Cycles(130))
        );
        time.sleep(Nanos(20));
        assert_eq!(time.processor_time(), Nanos(100));
        assert!(Clock::calibrate().simulation().is_none());
    }

    #[test]
    fn spans_convert_both_ways() {
        let clock = Clock::calibrate();
        let there_and_back = clock.span(clock.cycles(Nanos(1_000_000)));
        // A counter may be as slow as a cycle every 16 ns.
        let cycle = clock.span(Cycles(1)).0;
        assert!(there_and_back.0.abs_diff(1_000_000) < 10 + cycle, "{there_and_back:?}");
    }
}
