//! Which job is next: a fair queue by tenant, as a state machine without a clock of its own.

use crate::share::{Bucket, Share};
use std::collections::{BTreeMap, VecDeque};
use telemetry::clock::Nanos;

/// Lanes of idle tenants that are kept; beyond, those that nothing is known of but their counts are dropped.
const IDLE_LANES: usize = 1024;

/// What was done for one tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time that was charged.
    pub used: Nanos,
    /// Jobs that wait for a thread.
    pub waiting: usize,
    /// Jobs that run.
    pub running: usize,
    /// Jobs that have ended.
    pub done: u64,
    /// Jobs that were refused because too many waited.
    pub refused: u64,
    /// It has used more than its share, and waits.
    pub overdrawn: bool,
}

/// What a thread does next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<Job> {
    /// This, for that tenant.
    Run(String, Job),
    /// Nothing before that time, unless something comes.
    Wait(Nanos),
    /// Nothing, unless something comes or ends.
    Idle,
}

/// The jobs of one tenant.
#[derive(Debug)]
struct Lane<Job> {
    jobs: VecDeque<Job>,
    running: usize,
    /// Jobs that have begun and wait for something.
    away: usize,
    /// Processor time used, raised to the present when the tenant had no work.
    age: u128,
    /// `None`: without a bound.
    bucket: Option<Bucket>,
    /// The bound was set for this tenant alone.
    own_share: bool,
    used: Nanos,
    done: u64,
    refused: u64,
}

impl<Job> Lane<Job> {
    fn new(age: u128, share: Option<Share>, now: Nanos) -> Lane<Job> {
        Lane {
            jobs: VecDeque::new(),
            running: 0,
            away: 0,
            age,
            bucket: share.map(|share| Bucket::new(share, now)),
            own_share: false,
            used: Nanos(0),
            done: 0,
            refused: 0,
        }
    }

    fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.running == 0 && self.away == 0
    }
}

/// Bounds of a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Jobs of one tenant that wait at most.
    pub(crate) waiting: usize,
    /// Jobs of one tenant that run at once at most.
    pub(crate) running: usize,
    /// What a tenant may use; `None`: without a bound.
    pub(crate) share: Option<Share>,
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct FairQueue<Job> {
    bounds: Bounds,
    lanes: BTreeMap<String, Lane<Job>>,
    /// The age of the tenant whose job was taken last.
    present: u128,
}

impl<Job> FairQueue<Job> {
    pub(crate) fn new(bounds: Bounds) -> FairQueue<Job> {
        FairQueue { bounds, lanes: BTreeMap::new(), present: 0 }
    }

    fn lane(&mut self, tenant: &str, now: Nanos) -> &mut Lane<Job> {
        if !self.lanes.contains_key(tenant) {
            self.tidy(now);
        }
        let (present, share) = (self.present, self.bounds.share);
        self.lanes.entry(tenant.to_owned()).or_insert_with(|| Lane::new(present, share, now))
    }

    /// Drops the lanes of tenants that are as good as new, once there are many.
    fn tidy(&mut self, now: Nanos) {
        if self.lanes.len() >= IDLE_LANES {
            self.lanes.retain(|_, lane| {
                let full = lane.bucket.as_ref().is_none_or(|bucket| bucket.is_full(now));
                !lane.is_idle() || lane.own_share || !full
            });
        }
    }

    /// Takes a job in.
    ///
    /// # Errors
    /// How many wait already, where that is the bound; the job is dropped.
    pub(crate) fn push(&mut self, tenant: &str, job: Job, now: Nanos) -> Result<(), usize> {
        let (present, most) = (self.present, self.bounds.waiting);
        let lane = self.lane(tenant, now);
        if lane.jobs.len() >= most {
            lane.refused += 1;
            return Err(most);
        }
        if lane.is_idle() {
            lane.age = lane.age.max(present);
        }
        lane.jobs.push_back(job);
        Ok(())
    }

    /// The next job. [`FairQueue::done`] is to be called when it has ended.
    pub(crate) fn next(&mut self, now: Nanos) -> Next<Job> {
        let most = self.bounds.running;
        let mut earliest = None;
        let mut chosen: Option<(&String, &mut Lane<Job>)> = None;
        for (name, lane) in &mut self.lanes {
            if lane.jobs.is_empty() || lane.running >= most {
                continue;
            }
            if let Some(bucket) = lane.bucket.as_ref().filter(|bucket| !bucket.allows(now)) {
                let at = bucket.release();
                earliest = Some(earliest.map_or(at, |earliest: Nanos| earliest.min(at)));
                continue;
            }
            let key = (lane.running, lane.age);
            if chosen.as_ref().is_none_or(|(_, best)| key < (best.running, best.age)) {
                chosen = Some((name, lane));
            }
        }
        if let Some((name, lane)) = chosen
            && let Some(job) = lane.jobs.pop_front()
        {
            lane.running += 1;
            self.present = self.present.max(lane.age);
            return Next::Run(name.clone(), job);
        }
        earliest.map_or(Next::Idle, Next::Wait)
    }

    /// Whether any job waits.
    pub(crate) fn has_jobs(&self) -> bool {
        self.lanes.values().any(|lane| !lane.jobs.is_empty())
    }

    /// A job of the tenant that runs waits for something and uses no processor: it does not count as running.
    pub(crate) fn waits(&mut self, tenant: &str) {
        if let Some(lane) = self.lanes.get_mut(tenant) {
            lane.running = lane.running.saturating_sub(1);
            lane.away += 1;
        }
    }

    /// It goes on.
    pub(crate) fn goes_on(&mut self, tenant: &str) {
        if let Some(lane) = self.lanes.get_mut(tenant) {
            lane.away = lane.away.saturating_sub(1);
            lane.running += 1;
        }
    }

    /// A job of the tenant has ended and used so much processor time.
    pub(crate) fn done(&mut self, tenant: &str, used: Nanos, now: Nanos) {
        let lane = self.lane(tenant, now);
        lane.running = lane.running.saturating_sub(1);
        lane.done += 1;
        self.charge(tenant, used, now);
    }

    /// Processor time that was used on behalf of the tenant.
    pub(crate) fn charge(&mut self, tenant: &str, used: Nanos, now: Nanos) {
        let lane = self.lane(tenant, now);
        lane.age += u128::from(used.0);
        lane.used = lane.used.saturating_add(used);
        if let Some(bucket) = &mut lane.bucket {
            bucket.charge(used, now);
        }
    }

    /// Whether there is a bound on what a tenant may use.
    pub(crate) fn is_bounded(&self, tenant: &str) -> bool {
        self.lanes.get(tenant).map_or(self.bounds.share.is_some(), |lane| lane.bucket.is_some())
    }

    /// Another share for one tenant; `None`: without a bound.
    pub(crate) fn set_share(&mut self, tenant: &str, share: Option<Share>, now: Nanos) {
        let lane = self.lane(tenant, now);
        lane.own_share = true;
        match (&mut lane.bucket, share) {
            (Some(bucket), Some(share)) => bucket.set(share, now),
            (bucket, share) => *bucket = share.map(|share| Bucket::new(share, now)),
        }
    }

    /// Drops the jobs of a tenant that wait, for the caller to drop without the lock, and what is known of it
    /// if nothing of it runs.
    pub(crate) fn forget(&mut self, tenant: &str) -> VecDeque<Job> {
        let Some(lane) = self.lanes.get_mut(tenant) else { return VecDeque::new() };
        let jobs = std::mem::take(&mut lane.jobs);
        if lane.running == 0 && lane.away == 0 {
            self.lanes.remove(tenant);
        }
        jobs
    }

    /// Takes all jobs out that wait.
    pub(crate) fn clear(&mut self) -> Vec<Job> {
        self.lanes.values_mut().flat_map(|lane| std::mem::take(&mut lane.jobs)).collect()
    }

    pub(crate) fn usage(&self, tenant: &str, now: Nanos) -> Usage {
        self.lanes.get(tenant).map_or_else(Usage::default, |lane| usage_of(lane, now))
    }

    pub(crate) fn usages(&self, now: Nanos) -> BTreeMap<String, Usage> {
        self.lanes.iter().map(|(name, lane)| (name.clone(), usage_of(lane, now))).collect()
    }
}

fn usage_of<Job>(lane: &Lane<Job>, now: Nanos) -> Usage {
    Usage {
        used: lane.used,
        waiting: lane.jobs.len(),
        running: lane.running + lane.away,
        done: lane.done,
        refused: lane.refused,
        overdrawn: lane.bucket.as_ref().is_some_and(|bucket| !bucket.allows(now)),
    }
}
