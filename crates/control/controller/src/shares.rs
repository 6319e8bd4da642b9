//! Limits of processors that hold for a container's processes and for what the engine does for its packets,
//! together.
//!
//! 1. A thread beside all others looks every [`LOOK`], where there are containers with a cap or a worker;
//!    else every [`IDLE`], whether there are any.
//! 2. It reads what the engine has used for each (no worker stops for that), what the launcher says that
//!    their processes have used, and how long workers ran and waited for a processor, which the kernel
//!    counts.
//! 3. An [`Apportionment`] works out what each may use next. The launcher sets the quotas of the control
//!    groups, the meters in the engine hold back the packets, and tenants beside a container that is short
//!    are held to what they are promised.
//! 4. What is promised is worked out by the worker itself, once in [`PROMISES`]: it stops for some
//!    microseconds.
//!
//! A quota that is not said again ends in the launcher: containers go on without the daemon, within their
//! caps.

mod apportion;

use apportion::{Apportionment, ContainerSpan, Decision, WorkerSpan};
use deployment::{BesideReading, Host};
use guest_wasm::watchdog;
use launcher::keeper::{Keeper, first_of};
use launcher::{Answer, ClientError, Launcher, Request, Share};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use telemetry::clock::Cycles;

/// From one look to the next.
const LOOK: Duration = Duration::from_millis(200);
/// The same where there is nothing to be seen to.
const IDLE: Duration = Duration::from_secs(1);
/// How long a promise is taken to be the same.
const PROMISES: Duration = Duration::from_secs(1);
/// Quotas that differ by less, in thousandths of a processor, are left: each that is set begins a period
/// anew.
const STEP: u32 = 5;
/// The least quota, in thousandths of a processor.
const LEAST: u32 = 10;

/// Guests in one request: with names of 34 bytes and seven digits, a third of what a request may be.
const AT_ONCE: usize = 400;

/// See the module's documentation.
#[derive(Debug)]
pub struct Shares {
    socket: PathBuf,
    launcher: Option<Launcher>,
    /// What was read the last time.
    before: Option<Read>,
    /// By worker; `None`: of containers that run anywhere.
    parts: BTreeMap<Option<usize>, Apportionment>,
    /// Quotas as they were set, by the launcher's names.
    quotas: BTreeMap<String, Option<u32>>,
    promises: HashMap<String, f64>,
    promised_at: Option<Instant>,
    held: BTreeSet<usize>,
}

/// So many at a time as fit into one request, whatever their names.
fn in_requests(most: BTreeMap<String, Option<u32>>) -> Vec<BTreeMap<String, Option<u32>>> {
    let all: Vec<_> = most.into_iter().collect();
    all.chunks(AT_ONCE).map(|some| some.iter().cloned().collect()).collect()
}

/// What was read at a time.
#[derive(Debug, Default)]
struct Read {
    at: Option<Instant>,
    /// Of each container: the engine's cycles, and its processes' microseconds.
    used: BTreeMap<String, (Cycles, u64)>,
    /// Of each worker's thread: nanoseconds on a processor, and waiting for one.
    workers: BTreeMap<usize, (u64, u64)>,
}

impl Shares {
    /// With the launcher at a socket.
    pub fn new(socket: &Path) -> Shares {
        Shares {
            socket: socket.to_owned(),
            launcher: None,
            before: None,
            parts: BTreeMap::new(),
            quotas: BTreeMap::new(),
            promises: HashMap::new(),
            promised_at: None,
            held: BTreeSet::new(),
        }
    }

    /// What containers were promised of their workers' cores when that was last worked out.
    pub fn promised(&self) -> &HashMap<String, f64> {
        &self.promises
    }

    /// Looks once, and sets what follows. Returns when to look again.
    pub fn look(&mut self, host: &Host, keeper: &Keeper) -> Duration {
        let anew = self.promised_at.is_none_or(|at| at.elapsed() >= PROMISES);
        let mut beside = host.beside(anew);
        beside.retain(|_, reading| reading.worker.is_some() || reading.cap.is_some());
        if anew {
            self.promised_at = Some(Instant::now());
            self.promises =
                beside.iter().filter_map(|(name, reading)| Some((name.clone(), reading.promised?))).collect();
        }
        let running: BTreeSet<String> =
            keeper.running().into_iter().filter(|name| beside.contains_key(first_of(name))).collect();
        beside.retain(|name, _| running.iter().any(|it| first_of(it) == name));
        if beside.is_empty() {
            self.rest(host);
            return IDLE;
        }
        if self.look_at(host, &beside, &running, anew).is_err() {
            // The keeper tells of a launcher that is gone, and looks for the next one.
            (self.launcher, self.before) = (None, None);
            self.quotas.clear();
            return IDLE;
        }
        LOOK
    }

    /// There is nothing to be divided.
    fn rest(&mut self, host: &Host) {
        (self.launcher, self.before) = (None, None);
        self.parts.clear();
        self.quotas.clear();
        let held = std::mem::take(&mut self.held);
        held.into_iter().for_each(|worker| hold(host, worker, false));
    }

    fn look_at(
        &mut self,
        host: &Host,
        beside: &HashMap<String, BesideReading>,
        running: &BTreeSet<String>,
        anew: bool,
    ) -> Result<(), ClientError> {
        self.quotas.retain(|name, _| running.contains(name));
        let known = running.iter().map(|name| (name.clone(), self.quotas.get(name).copied().flatten()));
        let used = self.share(known.collect())?;
        let read = Read::now(beside, &used);
        let Some(before) = self.before.replace(read) else { return Ok(()) };
        let Some((seconds, spans)) = self.spans(&before, beside) else { return Ok(()) };
        let workers: BTreeSet<Option<usize>> = beside.values().map(|reading| reading.worker).collect();
        self.parts.retain(|worker, _| workers.contains(worker));
        let mut next = BTreeMap::new();
        for worker in workers {
            let own = spans.iter().filter(|(name, _)| beside[*name].worker == worker);
            let own: BTreeMap<String, ContainerSpan> =
                own.map(|(name, span)| (name.clone(), *span)).collect();
            let span = worker.and_then(|worker| self.worker_span(&before, host, worker, seconds));
            let decision = self.parts.entry(worker).or_default().decide(seconds, span.as_ref(), &own);
            self.set(host, worker, beside, &decision, anew);
            next.extend(decision.grants);
        }
        let quotas: BTreeMap<String, Option<u32>> = running
            .iter()
            .filter_map(|name| Some((name.clone(), next.get(first_of(name))?.processes.map(thousandths))))
            .collect();
        let differs = |(name, quota): &(&String, &Option<u32>)| match (self.quotas.get(*name), quota) {
            (Some(Some(before)), Some(quota)) => before.abs_diff(*quota) >= STEP,
            (before, quota) => before.copied() != Some(**quota),
        };
        let changed: BTreeMap<String, Option<u32>> =
            quotas.iter().filter(differs).map(|(name, quota)| (name.clone(), *quota)).collect();
        if !changed.is_empty() {
            self.share(changed.clone())?;
            self.quotas.extend(changed);
        }
        Ok(())
    }

    /// Sets quotas, and reads what groups have used.
    fn share(&mut self, most: BTreeMap<String, Option<u32>>) -> Result<BTreeMap<String, u64>, ClientError> {
        let launcher = match &mut self.launcher {
            Some(launcher) => launcher,
            none => none.insert(Launcher::connect(&self.socket)?),
        };
        let mut all = BTreeMap::new();
        for most in in_requests(most) {
            match launcher.ask(&Request::Share(Share { most }))? {
                Answer::Used(used) => all.extend(used),
                other => return Err(launcher.unexpected(&other)),
            }
        }
        Ok(all)
    }

    /// What containers did since they were read before, in processors; `None`: no time has passed.
    fn spans(
        &self,
        before: &Read,
        beside: &HashMap<String, BesideReading>,
    ) -> Option<(f64, BTreeMap<String, ContainerSpan>)> {
        let read = self.before.as_ref()?;
        let seconds = read.at?.duration_since(before.at?).as_secs_f64();
        let clock = watchdog::clock();
        let span = |(name, reading): (&String, &BesideReading)| {
            // One that was started meanwhile begins with the next span.
            let (now, then) = (read.used.get(name)?, before.used.get(name)?);
            let engine = clock.span(now.0.since(then.0)).as_secs_f64() / seconds;
            let processes = now.1.saturating_sub(then.1) as f64 / 1e6 / seconds;
            let promised = self.promises.get(name).copied().filter(|_| reading.worker.is_some());
            let (weight, cap) = (f64::from(reading.weight), reading.cap);
            Some((name.clone(), ContainerSpan { weight, cap, promised, engine, processes }))
        };
        (seconds > 0.01).then(|| (seconds, beside.iter().filter_map(span).collect()))
    }

    fn worker_span(&self, before: &Read, host: &Host, worker: usize, seconds: f64) -> Option<WorkerSpan> {
        let (now, then) = (self.before.as_ref()?.workers.get(&worker)?, before.workers.get(&worker)?);
        let part = |now: u64, then: u64| now.saturating_sub(then) as f64 / 1e9 / seconds;
        let own = host.workers().list.get(worker)?.processors.as_ref().map(Vec::len);
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        let processors = own.unwrap_or_else(all) as f64;
        Some(WorkerSpan { processors, ran: part(now.0, then.0), waited: part(now.1, then.1) })
    }

    /// Sets what is to be set in the engine.
    fn set(
        &mut self,
        host: &Host,
        worker: Option<usize>,
        beside: &HashMap<String, BesideReading>,
        decision: &Decision,
        anew: bool,
    ) {
        for (name, grant) in &decision.grants {
            let millionths = grant.engine.map(|engine| (engine * f64::from(cpu_share::meter::WHOLE)) as u32);
            beside[name].meter.set_rate(millionths);
        }
        let Some(worker) = worker else { return };
        // What joins, or claims something else, is held from the next time on.
        if decision.hold && (self.held.insert(worker) || anew) {
            hold(host, worker, true);
        } else if !decision.hold && self.held.remove(&worker) {
            hold(host, worker, false);
        }
    }
}

/// Holds a worker's tenants to what they are promised, or not.
fn hold(host: &Host, worker: usize, hold: bool) {
    // Workers that have stopped have no tenants any more.
    let _ = host.fleet().change(|change| change.hold_to_promises(worker, hold));
}

fn thousandths(processors: f64) -> u32 {
    ((processors * 1e3).round() as u32).max(LEAST)
}

impl Read {
    /// Of containers, of which the launcher's guests have used so much.
    fn now(beside: &HashMap<String, BesideReading>, used: &BTreeMap<String, u64>) -> Read {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for (name, used) in used {
            *sums.entry(first_of(name).to_owned()).or_default() += used;
        }
        let with_engine = |(name, processes): (String, u64)| {
            Some((name.clone(), (beside.get(&name)?.meter.used(), processes)))
        };
        let workers: BTreeSet<usize> = beside.values().filter_map(|reading| reading.worker).collect();
        Read {
            at: Some(Instant::now()),
            used: sums.into_iter().filter_map(with_engine).collect(),
            workers: worker_threads(&workers),
        }
    }
}

/// Nanoseconds that workers' threads had a processor, and waited for one (proc(5), `schedstat`).
fn worker_threads(workers: &BTreeSet<usize>) -> BTreeMap<usize, (u64, u64)> {
    let mut found = BTreeMap::new();
    if workers.is_empty() {
        return found;
    }
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let number = read("comm").trim().strip_prefix("worker-").and_then(|number| number.parse().ok());
        if let Some(number) = number.filter(|number| workers.contains(number)) {
            found.extend(times(&read("schedstat")).map(|times| (number, times)));
        }
    }
    found
}

fn times(schedstat: &str) -> Option<(u64, u64)> {
    let mut numbers = schedstat.split_whitespace().map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_times_are_read() {
        assert_eq!(times("2519318331 108041527 11214\n"), Some((2_519_318_331, 108_041_527)));
        assert_eq!(times(""), None);
        assert!(worker_threads(&BTreeSet::from([250])).is_empty());
        let named = std::thread::Builder::new().name("worker-251".into());
        let read = named.spawn(|| worker_threads(&BTreeSet::from([251]))).expect("a thread").join();
        assert_eq!(read.expect("it ends").len(), 1);
    }

    /// One request of all of them would be refused, and nothing divided any more.
    #[test]
    fn any_number_of_guests_is_asked_about_in_requests_that_the_launcher_reads() {
        let names = (0..3000).map(|number| (format!("{number:a>32}.1"), Some(1_000_000)));
        let most: BTreeMap<String, Option<u32>> = names.collect();
        let requests = in_requests(most.clone());
        for most in &requests {
            let text = serde_json::to_vec(&Request::Share(Share { most: most.clone() })).expect("a text");
            assert!(text.len() < launcher::REQUEST_MAX / 2, "{}", text.len());
        }
        assert_eq!(requests.into_iter().flatten().collect::<BTreeMap<_, _>>(), most);
        assert_eq!(in_requests(BTreeMap::new()).len(), 0);
    }

    #[test]
    fn quotas_are_whole_thousandths_and_never_less_than_the_kernels_least() {
        assert_eq!([0.0, 0.004, 0.0124, 0.5, 2.0].map(thousandths), [10, 10, 12, 500, 2000]);
    }
}
