//! Whether a worker polls on, sleeps, or moderates its wake-ups although packets come: so that the processor
//! time that it uses follows its load.
//!
//! Polling in vain is charged to no instance, sleeping costs a system call and time to wake. So:
//! 1. A worker earns time to poll by working, a fixed part of it, and sleeps when that is used up, has been
//!    in vain, or has lasted for as long as sleeping and waking would have cost. That is little where
//!    processes use the worker's processor while it sleeps, and much where the processor sleeps as well.
//! 2. Turns that bring only a few packets cost nearly as much as turns that bring many. When much of the
//!    worker's time goes into such turns, or into sleeping and waking, its wake-ups are moderated: it sleeps
//!    for an interval whatever comes, and finds more then (interrupt moderation). What sleeping costs is
//!    measured: 3 us on a machine, 40 us in some virtual ones.
//! 3. A sender that waits for an answer before it sends again sends less when wake-ups are moderated, and
//!    nothing is won. So each longer interval is a probe: when fewer packets come than before, nothing is
//!    moderated, and nothing probed for a second.
//! 4. What came is compared between two moments at which all was fetched: a worker that has waited for its
//!    processor, as it does beside processes that always want it, finds more afterwards, and has fetched
//!    less before, of packets that come as ever.
//! 5. Nothing is moderated while a worker would hardly be busy without: what little comes is answered at
//!    once.
//! 6. Nor while it works for most of the time: there is little to be saved, and queues are long enough.
//! 7. No packet is lost by it: not more come together than wait outside of any port without loss.

use crate::worker::WorkerSettings;
use telemetry::clock::{Clock, Cycles, Nanos};

/// A turn that brings fewer packets is a poor one.
const FEW: usize = 16;
/// What sleeping and waking are taken to cost the worker's processor before it is known.
const SLEEP_COST: Nanos = Nanos(5_000);
/// One of so many short sleeps is measured: to ask the kernel for the thread's processor time, twice, takes
/// as long as six other system calls.
const MEASURED: u64 = 8;
/// How long a window is measured before something is changed, and for how many intervals at least.
const WINDOW: Nanos = Nanos(5_000_000);
const INTERVALS: u64 = 16;
/// A worker that works for so much of the time, in percent, is not moderated.
const MUCH: u64 = 65;
/// The shortest interval that is worth anything, beside the time that waking takes.
const SHORTEST: Nanos = Nanos(25_000);
/// No probe for so long after one that failed.
const PAUSE: Nanos = Nanos::from_millis(1_000);

/// What happened in a window, in cycles and packets.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    began: Cycles,
    packets: u64,
    /// In turns that brought much.
    good: Cycles,
    /// In turns that brought little or nothing.
    poor: Cycles,
    asleep: Cycles,
    sleeps: u64,
}

/// See the module's documentation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moderation {
    longest_spin: Cycles,
    /// That is longer than by default.
    asked_for: bool,
    /// Longest time to poll in vain: what the settings say, and unless they ask for more than they do by
    /// themselves no longer than sleeping costs.
    longest_look: Cycles,
    percent: u64,
    /// Time to poll that was earned and not used.
    credit: Cycles,
    /// Since when turns have been poor.
    poor_since: Option<Cycles>,
    window: Window,
    /// How long it sleeps whatever comes; zero when wake-ups are not moderated.
    interval: Nanos,
    longest: Nanos,
    /// Packets of the window before the last lengthening, for each cycle of it, while that is a probe.
    probe: Option<f64>,
    /// No probe before.
    not_before: Cycles,
    /// What sleeping and waking cost, as measured.
    sleep_cost: Cycles,
    /// Packets that may gather during one interval.
    backlog: u64,
    clock: Clock,
    window_length: Cycles,
    /// The length of [`INTERVALS`] of them.
    intervals: Cycles,
    pause: Cycles,
}

impl Moderation {
    pub(crate) fn new(settings: &WorkerSettings, clock: &Clock) -> Moderation {
        Moderation {
            longest_spin: clock.cycles(settings.spin),
            asked_for: settings.spin > WorkerSettings::default().spin,
            longest_look: clock.cycles(settings.spin),
            percent: u64::from(settings.spin_percent),
            credit: Cycles(0),
            poor_since: None,
            window: Window::default(),
            interval: Nanos(0),
            longest: settings.moderation,
            probe: None,
            not_before: Cycles(0),
            sleep_cost: clock.cycles(SLEEP_COST),
            backlog: u64::MAX,
            clock: *clock,
            window_length: clock.cycles(WINDOW),
            intervals: Cycles(0),
            pause: clock.cycles(PAUSE),
        }
    }

    /// How long the worker sleeps at least, whatever comes.
    pub(crate) fn length(&self) -> Nanos {
        self.interval
    }

    /// A turn from `began` to `now` brought so many packets; `busy`: there is work still. True when it is
    /// time to sleep.
    #[inline]
    pub(crate) fn turned(
        &mut self,
        began: Cycles,
        now: Cycles,
        packets: usize,
        busy: bool,
        worked: bool,
    ) -> bool {
        if self.longest_spin == Cycles(u64::MAX) {
            return false;
        }
        let spent = now.since(began);
        self.window.packets += packets as u64;
        if packets >= FEW || busy {
            self.window.good += spent;
            self.poor_since = None;
            let earned = self.credit.0 + spent.0 * self.percent / 100;
            // What was earned long ago is not saved up for polling in vain for long.
            self.credit = Cycles(earned.min(self.longest_spin.0.saturating_mul(4)));
            return false;
        }
        // What came until then has been fetched.
        if began.since(self.window.began) >= self.window_length.max(self.intervals) {
            self.change(began);
        }
        self.window.poor += spent;
        let looked = now.since(*self.poor_since.get_or_insert(began));
        // As long as there is something to do and no interval, going on is all there is.
        if worked && self.interval == Nanos(0) {
            return false;
        }
        let enough = looked >= self.longest_look.min(self.credit);
        if enough {
            self.credit = self.credit.since(looked);
            self.poor_since = None;
        }
        enough
    }

    /// Takes note of what sleeping costs.
    fn set_sleep_cost(&mut self, cost: Cycles) {
        self.sleep_cost = cost;
        self.longest_look =
            if self.asked_for { self.longest_spin } else { self.longest_spin.min(self.sleep_cost) };
    }

    /// So many packets wait outside of every port without loss while it sleeps.
    pub(crate) fn set_backlog(&mut self, packets: usize) {
        self.backlog = packets as u64;
    }

    /// The same, when there is one port more.
    pub(crate) fn lower_backlog(&mut self, packets: usize) {
        self.backlog = self.backlog.min(packets as u64);
    }

    /// Whether the next sleep's cost is to be measured.
    pub(crate) fn measures(&self) -> bool {
        self.window.sleeps.is_multiple_of(MEASURED)
    }

    /// What sleeping and waking cost, as far as it was measured.
    pub(crate) fn sleep_cost(&self) -> Cycles {
        self.sleep_cost
    }

    /// It slept so long, at such a cost if that was measured.
    pub(crate) fn slept(&mut self, cycles: Cycles, cost: Option<Cycles>) {
        if let Some(cost) = cost {
            self.set_sleep_cost(Cycles((self.sleep_cost.0 * 3 + cost.0) / 4));
        }
        self.window.asleep += cycles.since(cost.unwrap_or(self.sleep_cost));
        self.window.sleeps += 1;
    }

    /// The end of a window.
    #[cold]
    fn change(&mut self, now: Cycles) {
        let Window { began, packets, good, poor, asleep, sleeps } = self.window;
        self.window = Window { began: now, ..Window::default() };
        let length = now.since(began);
        let rate = packets as f64 / length.0.max(1) as f64;
        let failed = self.probe.take().is_some_and(|before| rate < before * 0.85);
        let much = self.interval > Nanos(0) && good.0 > length.0 / 100 * MUCH;
        if failed || much {
            self.set(Nanos(0));
            self.not_before = now + self.pause;
            return;
        }
        let awake = length.since(asleep);
        // Each packet would have woken it.
        let unmoderated = awake.0 + packets.saturating_sub(sleeps) * self.sleep_cost.0;
        let wasted = poor.0 + sleeps * self.sleep_cost.0;
        let shorter = if self.interval > SHORTEST { Nanos(self.interval.0 / 2) } else { Nanos(0) };
        // Packets of one interval, as long as it is now.
        let together = packets / sleeps.max(1);
        if packets == 0 || unmoderated < length.0 / 20 {
            self.set(Nanos(0));
        } else if self.interval > Nanos(0) && together > self.backlog / 2 {
            self.set(shorter);
        } else if wasted > good.0 / 5 && wasted > length.0 / 50 && now >= self.not_before {
            if self.interval < self.longest && together <= self.backlog / 4 {
                self.probe = Some(rate);
                self.set(Nanos(self.interval.0 * 2).max(SHORTEST).min(self.longest));
            }
        } else if wasted < good.0 / 12 {
            self.set(shorter);
        }
    }

    fn set(&mut self, interval: Nanos) {
        self.interval = interval;
        self.intervals = self.clock.cycles(Nanos(interval.0 * INTERVALS));
    }
}

#[cfg(test)]
impl Moderation {
    /// Moderates from now on.
    pub(crate) fn begin(&mut self, interval: Nanos) {
        self.interval = interval;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cycles are nanoseconds here.
    fn moderation() -> Moderation {
        let settings =
            WorkerSettings { spin_percent: 10, moderation: Nanos(200_000), ..WorkerSettings::default() };
        Moderation {
            longest_spin: Cycles(50_000),
            sleep_cost: Cycles(5_000),
            intervals: Cycles(0),
            window_length: Cycles(5_000_000),
            pause: Cycles(1_000_000_000),
            ..Moderation::new(&settings, &Clock::calibrate())
        }
    }

    /// Time for a worker whose turns cost so much, and so much for each packet.
    struct Load {
        moderation: Moderation,
        now: u64,
        /// Packets that wait.
        waiting: u64,
        awake: u64,
        /// In turns that brought little, and how often it slept.
        looked: u64,
        sleeps: u64,
        /// Of sleeping, of a turn, and of each packet.
        cost: u64,
        turn: u64,
        packet: u64,
        /// Bits by which others take the processor from it, which want it all the time, unless they are zero;
        /// and by how much it is ahead of them.
        others: u64,
        ahead: u64,
    }

    impl Load {
        fn new() -> Load {
            Load {
                moderation: moderation(),
                now: 1_000_000,
                waiting: 0,
                awake: 0,
                looked: 0,
                sleeps: 0,
                cost: 5_000,
                turn: 400,
                packet: 20,
                others: 0,
                ahead: 0,
            }
        }

        /// For how much of a second it is awake, after so long.
        fn percent_awake(&mut self, before: u64, every: u64) -> u64 {
            self.run(before, every, false);
            self.awake = 0;
            self.run(1_000_000_000, every, false);
            self.awake / 10_000_000
        }

        /// When a worker wakes that was awake before it slept: one that is ahead of others waits for as long
        /// as they have the processor.
        fn wakes(&mut self, awake: u64, slept: u64) -> u64 {
            self.ahead = (self.ahead + awake).saturating_sub(2 * (slept - self.cost));
            if self.others == 0 || self.ahead < 3_000_000 {
                return self.now + slept;
            }
            self.others ^= self.others << 13;
            self.others ^= self.others >> 7;
            self.others ^= self.others << 17;
            self.ahead = 0;
            self.now + slept + 1_000_000 + self.others % 3_000_000
        }

        /// Goes on for so long, with packets coming in every so often; of a `closed` load the next one comes
        /// when the last one was answered.
        fn run(&mut self, time: u64, every: u64, closed: bool) {
            let until = self.now + time;
            let (mut came, mut woke) = (self.now / every, self.awake);
            self.waiting = u64::from(closed);
            while self.now < until {
                let took = self.waiting.min(32);
                let began = self.now;
                self.now += self.turn + took * self.packet;
                self.awake += self.now - began;
                self.looked += if took < FEW as u64 { self.now - began } else { 0 };
                self.waiting -= took;
                if closed {
                    self.waiting += took;
                }
                let sleep = self.moderation.turned(
                    Cycles(began),
                    Cycles(self.now),
                    took as usize,
                    self.waiting > 32,
                    took > 0,
                );
                if sleep {
                    let next = if closed { self.now } else { (came + 1) * every };
                    let slept = (self.now + self.moderation.length().0).max(next) - self.now + self.cost;
                    self.awake += self.cost;
                    let wakes = self.wakes(self.awake - woke, slept);
                    self.sleeps += 1;
                    let cost = self.moderation.measures().then_some(Cycles(self.cost));
                    self.moderation.slept(Cycles(wakes - self.now), cost);
                    (self.now, woke) = (wakes, self.awake);
                }
                if !closed {
                    self.waiting += self.now / every - came;
                    came = self.now / every;
                }
            }
        }
    }

    #[test]
    fn time_to_look_is_earned_by_working() {
        let mut moderation = moderation();
        assert!(moderation.turned(Cycles(0), Cycles(100), 0, false, false), "nothing was earned");
        assert!(!moderation.turned(Cycles(100), Cycles(20_100), 64, false, true));
        assert!(!moderation.turned(Cycles(20_100), Cycles(21_000), 0, false, false));
        assert!(
            moderation.turned(Cycles(21_000), Cycles(22_100), 0, false, false),
            "a tenth of what was worked"
        );
        assert!(moderation.turned(Cycles(22_100), Cycles(22_200), 0, false, false), "and it is used up");
    }

    #[test]
    fn few_of_many_sleeps_are_measured() {
        let mut moderation = moderation();
        let (mut now, mut measured) = (0, 0);
        for _ in 0..80 {
            now += 30_000;
            let cost = moderation.measures().then_some(Cycles(40_000));
            measured += u32::from(cost.is_some());
            moderation.turned(Cycles(now - 400), Cycles(now), 0, false, false);
            moderation.slept(Cycles(50_000), cost);
        }
        assert_eq!(measured, 10);
        assert!(moderation.sleep_cost() > Cycles(37_000), "{:?}", moderation.sleep_cost());
        // Rare ones all are: what they cost may have changed.
        for _ in 0..10 {
            now += 10_000_000;
            moderation.turned(Cycles(now - 400), Cycles(now), 0, false, false);
            assert!(moderation.measures());
            moderation.slept(Cycles(9_000_000), Some(Cycles(3_000)));
        }
    }

    #[test]
    fn looking_takes_no_longer_than_sleeping_costs() {
        let mut moderation = moderation();
        for cost in [5_000, 40_000] {
            moderation.set_sleep_cost(Cycles(cost));
            moderation.turned(Cycles(0), Cycles(1_000_000), 64, false, true);
            let looked = (1..).find(|n| {
                let began = 1_000_000 + (n - 1) * 1_000;
                moderation.turned(Cycles(began), Cycles(began + 1_000), 0, false, false)
            });
            assert_eq!(looked, Some(cost / 1_000), "a tenth of what was worked is more");
        }
        let settings = WorkerSettings { spin: Nanos(60_000), ..WorkerSettings::default() };
        let mut asked_for = Moderation::new(&settings, &Clock::simulated());
        asked_for.set_sleep_cost(Cycles(5_000));
        assert_eq!(asked_for.longest_look, Cycles(60_000));
    }

    /// A container's processes have the processor while the worker sleeps, so that falling asleep and waking
    /// are cheap: what the worker takes from them by looking is bounded by that.
    #[test]
    fn where_processes_want_the_processor_little_is_taken_from_them_by_looking() {
        let mut load = Load::new();
        load.cost = 1_000;
        load.run(100_000_000, 100, false);
        (load.looked, load.sleeps) = (0, 0);
        load.run(100_000_000, 100, false);
        assert!(load.sleeps > 100, "{}", load.sleeps);
        // One turn more than that takes.
        let most = load.sleeps * (load.cost + 400 + 15 * 20);
        assert!(load.looked <= most, "{} in {} sleeps", load.looked, load.sleeps);
    }

    #[test]
    fn frequent_packets_are_gathered_and_time_follows_load() {
        let mut load = Load::new();
        // Two packets in a microsecond: each for itself would take all of the time.
        load.run(50_000_000, 500, false);
        assert!(load.moderation.length() >= Nanos(50_000), "{:?}", load.moderation);
        load.awake = 0;
        load.run(50_000_000, 500, false);
        assert!(load.awake < 50_000_000 / 5, "{} of 50 ms for a load of 4%", load.awake);
    }

    /// A load whose turns cost as much as those of a port of the kernel's.
    fn load_of_a_system_call(cost: u64, others: u64) -> Load {
        let mut load = Load { cost, others, turn: 2_000, packet: 800, ..Load::new() };
        load.moderation.longest = Nanos(2_000_000);
        load
    }

    #[test]
    fn waiting_for_the_processor_fails_no_probe() {
        for every in [5_000, 8_000, 12_500, 25_000] {
            for (cost, others) in
                [5_000, 12_000, 20_000, 30_000].into_iter().flat_map(|cost| [(cost, 1), (cost, 2)])
            {
                let percent = load_of_a_system_call(cost, others).percent_awake(1_000_000_000, every);
                assert!(
                    percent < 25,
                    "{percent}% for packets each {every} ns, where sleeping takes {cost} ns"
                );
            }
        }
    }

    #[test]
    fn a_light_load_keeps_its_interval() {
        for every in [25_000, 50_000, 100_000] {
            for cost in [5_000, 12_000, 30_000] {
                let percent = load_of_a_system_call(cost, 0).percent_awake(200_000_000, every);
                assert!(
                    percent < 8,
                    "{percent}% for packets each {every} ns, where sleeping takes {cost} ns"
                );
            }
        }
    }

    #[test]
    fn many_probes_that_failed_do_not_delay_the_next() {
        let mut load = load_of_a_system_call(5_000, 0);
        load.run(9_000_000_000, 1, true);
        assert_eq!(load.moderation.length(), Nanos(0));
        load.run(1_200_000_000, 12_500, false);
        assert!(load.moderation.length() > Nanos(0));
    }

    #[test]
    fn rare_packets_are_answered_at_once() {
        let mut load = Load::new();
        load.run(100_000_000, 1_000_000, false);
        assert_eq!(load.moderation.length(), Nanos(0));
        assert!(load.awake < 2_000_000, "{}", load.awake);
    }

    #[test]
    fn a_sender_that_waits_for_an_answer_is_not_delayed() {
        let mut load = Load::new();
        load.run(1_000_000_000, 1, true);
        // Probes cost little: nearly all of the time goes into answers.
        assert!(load.awake > 980_000_000, "{}", load.awake);
    }

    #[test]
    fn where_sleeping_is_dear_intervals_are_longer_and_never_longer_than_packets_can_wait() {
        let mut load = Load::new();
        load.moderation.longest = Nanos(2_000_000);
        load.run(50_000_000, 500, false);
        let cheap = load.moderation.length();
        load.cost = 40_000;
        load.run(500_000_000, 500, false);
        assert!(load.moderation.length() > cheap, "{:?} after {cheap:?}", load.moderation.length());
        load.moderation.set_backlog(256);
        load.run(500_000_000, 500, false);
        assert!(
            load.moderation.length() <= Nanos(64_000),
            "128 packets at most: {:?}",
            load.moderation.length()
        );
    }

    /// Packets that a sender with so many on their way is answered in a second. `sleep` is told of each turn,
    /// and says for how long the worker sleeps after it.
    fn answered(window: u64, mut sleep: impl FnMut(u64, u64) -> u64) -> u64 {
        let (mut now, mut packets) = (1_000_000, 0);
        while now < 1_001_000_000 {
            let began = now;
            now += 400 + window * 20;
            packets += window;
            now += sleep(began, now);
        }
        packets
    }

    /// What `docs/decisions/054-moderation-keeps-its-probes.md` compares: an interval of half the backlog
    /// over the rate, up to a budget, where as many packets gather in it as are worth a turn.
    #[test]
    fn an_interval_by_rate_alone_stops_a_sender_that_waits_for_answers() {
        for window in [8, 32] {
            let unmoderated = answered(window, |_, _| 0);
            let (mut since, mut packets, mut interval) = (1_000_000, 0, 0.0);
            let by_rate = answered(window, |_, now| {
                packets += window;
                if now - since >= WINDOW.0 {
                    let rate = packets as f64 / (now - since) as f64;
                    interval = (128.0 / rate).min(2_000_000.0);
                    interval = if interval * rate < FEW as f64 { 0.0 } else { interval };
                    (since, packets) = (now, 0);
                }
                interval as u64
            });
            let mut moderation = moderation();
            moderation.longest = Nanos(2_000_000);
            let by_probes = answered(window, |began, now| {
                if !moderation.turned(Cycles(began), Cycles(now), window as usize, false, true) {
                    return 0;
                }
                let slept = moderation.length().0.max(5_000);
                moderation.slept(Cycles(slept), Some(Cycles(5_000)));
                slept
            });
            let percent = |packets: u64| packets * 100 / unmoderated;
            println!("window {window}: by rate {}%, by probes {}%", percent(by_rate), percent(by_probes));
            assert!(percent(by_rate) < 30, "{window}: {}%", percent(by_rate));
            assert!(percent(by_probes) > 90, "{window}: {}%", percent(by_probes));
        }
    }

    #[test]
    fn a_load_that_ends_leaves_no_interval_behind() {
        let mut load = Load::new();
        load.run(50_000_000, 500, false);
        assert!(load.moderation.length() > Nanos(0));
        load.run(20_000_000, 5_000_000, false);
        assert_eq!(load.moderation.length(), Nanos(0));
    }
}
