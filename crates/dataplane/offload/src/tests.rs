use crate::queue::{Bounds, FairQueue, Next};
use crate::{Apart, NoResult, Offload, Refused, Settings, Share, waiting};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use telemetry::clock::Nanos;

const MS: u64 = 1_000_000;

/// Threads that take jobs and use processor time on a simulated clock.
struct Simulation {
    queue: FairQueue<u64>,
    /// When each thread is done, with whose job and its time.
    threads: Vec<Option<(u64, String, u64)>>,
    now: u64,
    /// When jobs began: whose, and the time.
    began: Vec<(String, u64)>,
    used: BTreeMap<String, u64>,
}

impl Simulation {
    fn new(threads: usize, share: Option<Share>) -> Simulation {
        let bounds = Bounds { waiting: 1 << 20, running: threads - 1, share };
        Simulation {
            queue: FairQueue::new(bounds),
            threads: vec![None; threads],
            now: 0,
            began: Vec::new(),
            used: BTreeMap::new(),
        }
    }

    fn push(&mut self, tenant: &str, time: u64) {
        self.queue.push(tenant, time, Nanos(self.now)).unwrap();
    }

    /// Goes on until a time, or until nothing is left to do.
    fn run(&mut self, until: u64) {
        loop {
            let mut wait = None;
            for thread in self.threads.iter_mut().filter(|thread| thread.is_none()) {
                match self.queue.next(Nanos(self.now)) {
                    Next::Run(tenant, time) => {
                        self.began.push((tenant.clone(), self.now));
                        *thread = Some((self.now + time, tenant, time));
                    }
                    Next::Wait(at) => wait = Some(at.0),
                    Next::Idle => {}
                }
            }
            let ends = self.threads.iter().flatten().map(|(at, _, _)| *at).min();
            let Some(next) = ends.into_iter().chain(wait).min() else { return };
            if next > until {
                self.now = until;
                return;
            }
            self.now = next;
            for thread in &mut self.threads {
                if let Some((_, tenant, time)) = thread.take_if(|(at, _, _)| *at <= self.now) {
                    self.queue.done(&tenant, Nanos(time), Nanos(self.now));
                    *self.used.entry(tenant).or_default() += time;
                }
            }
        }
    }
}

#[test]
fn a_backlog_delays_the_first_job_of_another_by_one_job_at_most() {
    let mut all = Simulation::new(2, None);
    (0..1000).for_each(|_| all.push("many", 10 * MS));
    all.run(95 * MS);
    all.push("one", MS);
    all.run(200 * MS);
    let (_, at) = all.began.iter().find(|(tenant, _)| tenant == "one").unwrap();
    assert!(*at <= 105 * MS, "began at {at}");
}

#[test]
fn one_tenant_never_has_all_threads() {
    let mut all = Simulation::new(4, None);
    (0..100).for_each(|_| all.push("slow", 5_000 * MS));
    all.run(MS);
    assert_eq!(all.threads.iter().flatten().count(), 3);
    all.push("quick", MS);
    all.run(2 * MS);
    assert!(all.began.contains(&("quick".to_owned(), MS)), "{:?}", all.began);
}

#[test]
fn a_tenant_that_overdraws_its_share_waits_and_others_do_not() {
    let share = Share { permille: 250, burst: Nanos(100 * MS) };
    let mut all = Simulation::new(2, Some(share));
    for _ in 0..10_000 {
        all.push("greedy", 10 * MS);
        all.push("modest", MS);
    }
    all.run(10_000 * MS);
    // A quarter of ten seconds, the burst, and the job that overdrew it.
    assert!(all.used["greedy"] <= 2_610 * MS, "{}", all.used["greedy"]);
    assert!(all.used["greedy"] >= 2_500 * MS, "{}", all.used["greedy"]);
    assert!(all.used["modest"] >= 2_500 * MS, "{}", all.used["modest"]);
}

#[test]
fn a_share_of_its_own_holds_at_once() {
    let mut all = Simulation::new(2, Some(Share { permille: 10, burst: Nanos(0) }));
    (0..1000).for_each(|_| all.push("operator", 10 * MS));
    all.queue.set_share("operator", None, Nanos(0));
    all.run(1_000 * MS);
    assert_eq!(all.used["operator"], 1_000 * MS);
    all.queue.set_share("operator", Some(Share { permille: 100, burst: Nanos(0) }), Nanos(all.now));
    (0..1000).for_each(|_| all.push("operator", 10 * MS));
    all.run(2_000 * MS);
    assert!(all.used["operator"] <= 1_120 * MS, "{}", all.used["operator"]);
}

#[test]
fn sleep_earns_nothing() {
    let mut all = Simulation::new(2, None);
    (0..100).for_each(|_| all.push("steady", 10 * MS));
    all.run(1_000 * MS);
    (0..100).for_each(|_| all.push("steady", 10 * MS));
    (0..100).for_each(|_| all.push("late", 10 * MS));
    let before = all.used["steady"];
    all.run(2_000 * MS);
    let (steady, late) = (all.used["steady"] - before, all.used["late"]);
    assert!(steady.abs_diff(late) <= 20 * MS, "{steady} and {late}");
}

proptest! {
    /// Tenants with any backlogs: each has its even part of the threads until it has nothing left, within a
    /// job for each thread; nothing is lost or done twice; no thread idles while a tenant may use it.
    #[test]
    fn tenants_are_served_evenly(
        threads in 2usize..5,
        tenants in prop::collection::vec((1u64..20, 1usize..60), 2..6),
    ) {
        let mut all = Simulation::new(threads, None);
        for (index, (time, jobs)) in tenants.iter().enumerate() {
            (0..*jobs).for_each(|_| all.push(&index.to_string(), time * MS));
        }
        all.run(u64::MAX);
        let sum: u64 = tenants.iter().map(|(time, jobs)| time * MS * *jobs as u64).sum();
        prop_assert_eq!(all.used.values().sum::<u64>(), sum);
        prop_assert_eq!(all.began.len(), tenants.iter().map(|(_, jobs)| jobs).sum::<usize>());
        // The first job of each began before any tenant had more than its limit, and after one job of each
        // other at most.
        let longest = tenants.iter().map(|(time, _)| time * MS).max().unwrap();
        for index in 0..tenants.len() {
            let (_, at) = all.began.iter().find(|(tenant, _)| *tenant == index.to_string()).unwrap();
            prop_assert!(*at <= longest * tenants.len() as u64, "{} began at {}", index, at);
        }
    }
}

fn two() -> Settings {
    Settings { threads: 2, nice: 1, waiting: 3, share: None }
}

#[test]
fn jobs_are_done_at_a_low_priority_those_that_threads_take_over_too() {
    let nice = || rustix::process::getpriority_process(None).expect("its own");
    let least = nice();
    for settings in [two(), Settings::default()] {
        let offload = Arc::new(Offload::new(&settings).unwrap());
        let wanted = settings.nice.max(least);
        assert_eq!(offload.run("a", nice), Ok(wanted));
        // While one waits for others of its tenant, a thread more takes its place.
        let again = offload.clone();
        let jobs = offload.run("a", move || (0..4).map(|_| again.run("a", nice)).collect::<Vec<_>>());
        assert_eq!(jobs, Ok(vec![Ok(wanted); 4]));
    }
    assert_eq!(nice(), least, "the thread that asks goes on as before");
}

#[test]
fn more_than_may_wait_is_refused_and_told() {
    let offload = Offload::new(&two()).unwrap();
    let (go, gate) = channel::<()>();
    let (started, has_started) = channel::<()>();
    offload
        .submit("a", move || {
            started.send(()).unwrap();
            let _ = gate.recv();
        })
        .unwrap();
    has_started.recv().unwrap();
    (0..3).for_each(|_| offload.submit("a", || {}).unwrap());
    let refused = offload.submit("a", || {}).unwrap_err();
    assert_eq!(refused, Refused::Full { tenant: "a".to_owned(), waiting: 3 });
    assert!(refused.to_string().contains("tenant `a`"), "{refused}");
    assert_eq!(offload.run("b", || 5), Ok(5), "another tenant's work goes on");
    let usage = offload.usage("a");
    assert_eq!((usage.waiting, usage.running, usage.refused), (3, 1, 1));
    go.send(()).unwrap();
}

#[test]
fn a_panic_ends_the_job_and_not_its_thread() {
    let offload = Offload::new(&two()).unwrap();
    for _ in 0..10 {
        assert_eq!(offload.run("a", || panic!("on purpose")), Err::<(), _>(Refused::Broken));
    }
    assert_eq!(offload.run("a", || 7), Ok(7));
}

#[test]
fn processor_time_is_charged_to_the_tenant_it_was_used_for() {
    let offload = Offload::new(&two()).unwrap();
    let before = offload.usage("a").used;
    offload.run("a", || (0..3_000_000u64).fold(0, |sum, n| std::hint::black_box(sum ^ n))).unwrap();
    // The charge is entered after the result was given.
    while offload.usage("a").running > 0 {
        std::thread::yield_now();
    }
    let used = offload.usage("a").used.since(before);
    assert!(used > Nanos(0));
    offload.charge("a", Nanos(500));
    assert_eq!(offload.usage("a").used.since(before), used.saturating_add(Nanos(500)));
    assert_eq!(offload.usage("b").used, Nanos(0));
}

#[test]
fn what_waits_at_the_end_is_told_so() {
    let offload = std::sync::Arc::new(Offload::new(&two()).unwrap());
    let (go, gate) = channel::<()>();
    let (started, has_started) = channel::<()>();
    offload
        .submit("a", move || {
            started.send(()).unwrap();
            let _ = gate.recv();
        })
        .unwrap();
    has_started.recv().unwrap();
    let (there, waiter) = (offload.clone(), std::thread::spawn);
    let waiter = waiter(move || there.run("a", || 1));
    while offload.usage("a").waiting == 0 {
        std::thread::yield_now();
    }
    offload.forget("a");
    assert_eq!(waiter.join().unwrap(), Err(Refused::Stopped));
    go.send(()).unwrap();
    assert_eq!(offload.run("a", || 2), Ok(2));
}

#[test]
fn a_slot_does_jobs_in_turn_on_one_thread_that_is_charged_to_its_tenant() {
    let offload = Offload::new(&Settings { share: None, ..Settings::default() }).unwrap();
    let slot = offload.slot("red").unwrap();
    assert_eq!(offload.usage("red").running, 1);
    let thread = || std::thread::current().id();
    let first = slot.run(thread).unwrap();
    let spent = slot.run(|| {
        let began = crate::pool::processor_time();
        while crate::pool::processor_time().since(began) < Nanos(2 * MS) {}
    });
    assert_eq!((spent, slot.run(thread)), (Ok(()), Ok(first)));
    drop(slot);
    // The thread notices by itself that it is not needed any more.
    while offload.usage("red").running > 0 {
        std::thread::yield_now();
    }
    let usage = offload.usage("red");
    assert!(usage.used >= Nanos(2 * MS) && usage.done == 1, "{usage:?}");

    let broken = offload.slot("red").unwrap();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let outcomes = (broken.run::<()>(|| panic!("as a job may")), broken.run(|| 1));
    std::panic::set_hook(hook);
    assert_eq!(outcomes, (Err(Refused::Broken), Err(Refused::Broken)));
    // The thread serves on.
    assert_eq!(offload.run("red", || 2), Ok(2));
}

/// With two threads, one of each tenant: without a place that is given up nothing of the last one would be
/// done.
#[test]
fn a_job_that_waits_gives_up_its_place_and_a_job_may_wait_for_jobs() {
    let (outer, inner) = (Arc::new(Offload::new(&two()).unwrap()), Arc::new(Offload::new(&two()).unwrap()));
    let (go, gate) = channel::<()>();
    let gate = Arc::new(std::sync::Mutex::new(gate));
    let (tell, told) = channel();
    for tenant in ["a", "b"] {
        for _ in 0..3 {
            let (gate, tell, inner) = (gate.clone(), tell.clone(), inner.clone());
            outer
                .submit(tenant, move || {
                    tell.send(()).unwrap();
                    // A job of this pool, and one that does not end before the test says so.
                    inner.run(tenant, move || gate.lock().unwrap().recv().is_err()).unwrap();
                })
                .unwrap();
        }
    }
    (0..6).for_each(|_| told.recv().unwrap());
    assert_eq!(outer.usage("a").running, 3, "they count as running for those that look");
    assert_eq!(outer.run("c", || 7), Ok(7));
    let again = outer.clone();
    assert_eq!(outer.run("c", move || again.run("c", || 8)), Ok(Ok(8)), "within a pool as well");
    drop(go);
    while outer.usage("a").running + outer.usage("b").running > 0 {
        std::thread::yield_now();
    }
    // Threads that are too many end when they are free.
    while outer.threads() > 2 {
        assert_eq!(outer.run("d", || 1), Ok(1));
    }
    assert_eq!(waiting(|| 5), 5, "elsewhere it is just done");
}

#[test]
fn work_apart_may_be_late_and_is_charged_to_the_tenant_of_the_job() {
    let offload = Offload::new(&Settings { share: None, ..Settings::default() }).unwrap();
    let (go, gate) = channel::<()>();
    let far = || Instant::now() + Duration::from_secs(20);
    let late = offload.run("red", move || {
        let spent = Apart::begin(|| {
            let began = crate::pool::processor_time();
            while crate::pool::processor_time().since(began) < Nanos(2 * MS) {}
        });
        assert_eq!(spent.unwrap().wait(far()), Ok(()));
        let hung = Apart::begin(move || gate.recv().is_err()).unwrap();
        assert_eq!(hung.wait(Instant::now()), Err(NoResult::Late));
        hung
    });
    let usage = offload.usage("red");
    assert!(usage.used >= Nanos(2 * MS), "{usage:?}");
    drop(go);
    assert_eq!(late.unwrap().wait(far()), Ok(true), "it has gone on by itself");
}
