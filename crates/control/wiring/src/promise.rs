//! Whether weights and caps give each tenant and instance what is reserved for it. What they give is not
//! worked out here but asked of the scheduler itself, which is told of all that may come to run on a worker.

use crate::{Cpu, Instance, Percent, Wiring};
use cpu_share::{Cap, Claim, EntityId, Scheduler, SchedulerSettings, TenantId, Weight};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use telemetry::clock::Cycles;

/// Most broken promises that are told of one wiring.
const MOST: usize = 100;

/// By how much the sum of what is given may miss what is reserved, because numbers are rounded.
const ROUNDING: f64 = 1e-9;

/// A tenant or an instance for which something is reserved.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claimant {
    /// A tenant, by name.
    Tenant(String),
    /// An instance, by name.
    Instance(String),
}

impl fmt::Display for Claimant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Claimant::Tenant(name) => write!(f, "the tenant `{name}`"),
            Claimant::Instance(name) => write!(f, "`{name}`"),
        }
    }
}

/// A reserve that cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenPromise {
    /// Whose.
    pub whose: Claimant,
    /// How much of a core.
    pub reserve: Cap,
    /// What stands against it.
    pub obstacle: Obstacle,
}

/// What stands against a reserve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The claimant's own cap.
    Cap(Cap),
    /// The cap of an instance's tenant.
    TenantCap {
        /// The tenant.
        tenant: String,
        /// Its cap.
        cap: Cap,
    },
    /// What is reserved on a worker for all together.
    Oversold {
        /// The worker.
        worker: usize,
        /// The sum.
        sum: Percent,
        /// Whether instances are among them that may run on other workers as well.
        roaming: bool,
    },
    /// The weights and caps of those on a worker.
    Weights {
        /// The worker.
        worker: usize,
        /// What they give.
        given: Percent,
        /// What would help.
        remedy: Option<Remedy>,
        /// Whether instances are among them that may run on other workers as well.
        roaming: bool,
    },
}

/// A weight that gives a claimant what is reserved for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// At least this, of its own.
    Weight(Weight),
    /// At least this, of its tenant.
    TenantWeight {
        /// The tenant.
        tenant: String,
        /// The weight.
        weight: Weight,
    },
}

/// In the words of a fault in the operator's file: what was found, and what is allowed.
impl fmt::Display for BrokenPromise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "found `{}`; allowed: at most ", Percent::from(self.reserve))?;
        let roaming = match &self.obstacle {
            Obstacle::Cap(cap) => return write!(f, "{}, its own `cap`", Percent::from(*cap)),
            Obstacle::TenantCap { tenant, cap } => {
                return write!(f, "{}, the `cap` of its tenant `{tenant}`", Percent::from(*cap));
            }
            Obstacle::Oversold { worker, sum, roaming } => {
                write!(f, "100% in all on worker {worker}, where {sum} are reserved")?;
                roaming
            }
            Obstacle::Weights { worker, given, remedy, roaming } => {
                write!(
                    f,
                    "{given}, which is what weights and caps give it on worker {worker} when all there want all \
                           they may have"
                )?;
                match remedy {
                    Some(Remedy::Weight(weight)) => {
                        write!(f, ", or a `weight` of at least {}", weight.get())?;
                    }
                    Some(Remedy::TenantWeight { tenant, weight }) => {
                        write!(f, ", or a `weight` of at least {} for its tenant `{tenant}`", weight.get())?;
                    }
                    None => {}
                }
                roaming
            }
        };
        if *roaming { f.write_str(" (functions without a `worker` count on each)") } else { Ok(()) }
    }
}

impl Wiring {
    /// The reserves that weights and caps do not give: the first hundred, if there are that many. An instance
    /// that stays on no worker counts on all of them, because it may come to run there. What a tenant
    /// reserves is looked at on workers on which it may have instances.
    ///
    /// Takes time in proportion to the reserves of different weights and caps, times all instances of a
    /// worker.
    pub fn broken_promises(&self) -> Vec<BrokenPromise> {
        let mut all = self.tenants.values().map(|tenant| &tenant.cpu);
        let mut of_instances = self.instances.values().map(|instance| &instance.cpu);
        let reserves = |cpu: &Cpu| cpu.reserve.is_some();
        if !all.any(reserves) && !of_instances.any(reserves) {
            return Vec::new();
        }
        let mut broken = self.above_caps();
        let mut told: BTreeSet<Claimant> = broken.iter().map(|promise| promise.whose.clone()).collect();
        let homes = self.homes();
        for worker in 0..self.workers.list.len() {
            if broken.len() >= MOST {
                break;
            }
            let mut bench = Bench::new(self, worker, &homes);
            for promise in bench.oversold().map_or_else(|| bench.not_given(&told), |one| vec![one]) {
                if told.insert(promise.whose.clone()) {
                    broken.push(promise);
                }
            }
        }
        broken.truncate(MOST);
        broken
    }

    fn above_caps(&self) -> Vec<BrokenPromise> {
        let above = |cpu: &Cpu, cap: Option<Cap>| cpu.reserve.zip(cap).filter(|(reserve, cap)| reserve > cap);
        let tenants = self.tenants.iter().filter_map(|(name, tenant)| {
            let (reserve, cap) = above(&tenant.cpu, tenant.cpu.cap)?;
            Some(BrokenPromise {
                whose: Claimant::Tenant(name.clone()),
                reserve,
                obstacle: Obstacle::Cap(cap),
            })
        });
        let instances = self.instances.iter().filter_map(|(name, Instance { cpu, tenant, .. })| {
            let of_tenant = self.tenants.get(tenant).and_then(|tenant| tenant.cpu.cap);
            let (reserve, obstacle) = match (above(cpu, cpu.cap), above(cpu, of_tenant)) {
                (Some((reserve, cap)), _) => (reserve, Obstacle::Cap(cap)),
                (None, Some((reserve, cap))) => {
                    (reserve, Obstacle::TenantCap { tenant: tenant.clone(), cap })
                }
                (None, None) => return None,
            };
            Some(BrokenPromise { whose: Claimant::Instance(name.clone()), reserve, obstacle })
        });
        tenants.chain(instances).take(MOST).collect()
    }
}

/// All that may come to run on a worker, as its scheduler would see them.
struct Bench<'a> {
    wiring: &'a Wiring,
    worker: usize,
    scheduler: Scheduler,
    tenants: BTreeMap<&'a str, TenantId>,
    /// In the order of the wiring.
    instances: Vec<(&'a str, &'a Instance, EntityId)>,
    roaming: bool,
}

impl<'a> Bench<'a> {
    fn new(wiring: &'a Wiring, worker: usize, homes: &BTreeMap<&str, usize>) -> Bench<'a> {
        // What a claimant is promised depends on neither.
        let settings =
            SchedulerSettings { slack: Cycles(0), quantum: Cycles(0), wakeup: Cycles(0), period: Cycles(0) };
        let mut scheduler = Scheduler::new(settings, Cycles(0));
        let mut tenants: BTreeMap<&str, TenantId> = BTreeMap::new();
        let mut roaming = false;
        let mut instances = Vec::new();
        for (name, instance) in &wiring.instances {
            let home = homes.get(name.as_str());
            let Some(tenant) = wiring.tenants.get(&instance.tenant) else { continue };
            if home.is_some_and(|home| *home != worker) {
                continue;
            }
            let id =
                *tenants.entry(&instance.tenant).or_insert_with(|| scheduler.add_tenant(tenant.cpu.claim()));
            roaming |= home.is_none() && wiring.workers.list.len() > 1;
            instances.push((name.as_str(), instance, scheduler.add(id, instance.cpu.claim())));
        }
        // A container that stays there is there like a tenant with one instance.
        for container in wiring.containers.values().filter(|container| container.worker == Some(worker)) {
            let tenant = scheduler.add_tenant(container.claim());
            scheduler.add(tenant, Claim::default());
        }
        Bench { wiring, worker, scheduler, tenants, instances, roaming }
    }

    /// What is reserved of a core, tenant by tenant: what it reserves for itself holds what it reserves for
    /// instances.
    fn oversold(&self) -> Option<BrokenPromise> {
        let mut own: BTreeMap<&str, u64> = BTreeMap::new();
        let mut of_instances: BTreeMap<&str, u64> = BTreeMap::new();
        let (mut sum, mut first) = (0, None);
        let mut add = |tenant, whose: Claimant, reserve: Cap| {
            let [own, parts] = match whose {
                Claimant::Tenant(_) => [&mut own, &mut of_instances],
                Claimant::Instance(_) => [&mut of_instances, &mut own],
            };
            let (mine, other) =
                (own.entry(tenant).or_default(), parts.get(tenant).copied().unwrap_or_default());
            let before = (*mine).max(other);
            *mine += u64::from(reserve.get());
            sum += (*mine).max(other) - before;
            if sum > u64::from(Cap::WHOLE) && first.is_none() {
                first = Some((whose, reserve));
            }
        };
        for (name, tenant) in
            self.wiring.tenants.iter().filter(|(name, _)| self.tenants.contains_key(name.as_str()))
        {
            if let Some(reserve) = tenant.cpu.reserve {
                add(name.as_str(), Claimant::Tenant(name.clone()), reserve);
            }
        }
        for (name, instance, _) in &self.instances {
            if let Some(reserve) = instance.cpu.reserve {
                add(instance.tenant.as_str(), Claimant::Instance((*name).to_owned()), reserve);
            }
        }
        let (whose, reserve) = first?;
        let sum = Percent::from_millionths(sum);
        let obstacle = Obstacle::Oversold { worker: self.worker, sum, roaming: self.roaming };
        Some(BrokenPromise { whose, reserve, obstacle })
    }

    /// The claimants that do not get what is reserved for them, but for those that are `told` already.
    fn not_given(&mut self, told: &BTreeSet<Claimant>) -> Vec<BrokenPromise> {
        let mut broken = Vec::new();
        for (name, tenant) in &self.wiring.tenants {
            let Some((reserve, id)) = tenant.cpu.reserve.zip(self.tenants.get(name.as_str()).copied()) else {
                continue;
            };
            let given = self.given_to_tenant(name);
            let whose = Claimant::Tenant(name.clone());
            if !enough(given, reserve) && !told.contains(&whose) {
                let remedy =
                    self.tenant_weight(name, id, |bench| enough(bench.given_to_tenant(name), reserve));
                broken.push(self.weights(whose, reserve, given, remedy.map(Remedy::Weight)));
            }
        }
        // Instances with one claim in one tenant get the same.
        let mut known: BTreeMap<(&str, Weight, Option<Cap>), f64> = BTreeMap::new();
        for (name, instance, id) in self.instances.clone() {
            let Some(reserve) = instance.cpu.reserve else { continue };
            let kind = (instance.tenant.as_str(), instance.cpu.weight, instance.cpu.cap);
            let given = *known.entry(kind).or_insert_with(|| self.scheduler.promised(id));
            let whose = Claimant::Instance(name.to_owned());
            if broken.len() < MOST && !enough(given, reserve) && !told.contains(&whose) {
                let remedy = self.remedy(instance, id, reserve);
                broken.push(self.weights(whose, reserve, given, remedy));
            }
        }
        broken
    }

    fn given_to_tenant(&self, tenant: &str) -> f64 {
        let own = self.instances.iter().filter(|(_, instance, _)| instance.tenant == tenant);
        let mut known: BTreeMap<(Weight, Option<Cap>), f64> = BTreeMap::new();
        own.map(|(_, Instance { cpu, .. }, id)| {
            *known.entry((cpu.weight, cpu.cap)).or_insert_with(|| self.scheduler.promised(*id))
        })
        .sum()
    }

    fn weights(&self, whose: Claimant, reserve: Cap, given: f64, remedy: Option<Remedy>) -> BrokenPromise {
        let (worker, given, roaming) = (self.worker, Percent::of(given), self.roaming);
        BrokenPromise { whose, reserve, obstacle: Obstacle::Weights { worker, given, remedy, roaming } }
    }

    /// What would help an instance: more weight of its own, or else of its tenant.
    fn remedy(&mut self, instance: &Instance, id: EntityId, reserve: Cap) -> Option<Remedy> {
        let claim = instance.cpu.claim();
        let own = least_weight(|weight| {
            self.scheduler.set_claim(id, Claim { weight, ..claim });
            enough(self.scheduler.promised(id), reserve)
        });
        self.scheduler.set_claim(id, claim);
        if let Some(weight) = own {
            return Some(Remedy::Weight(weight));
        }
        let tenant = instance.tenant.clone();
        let owner = *self.tenants.get(tenant.as_str())?;
        let weight =
            self.tenant_weight(&tenant, owner, |bench| enough(bench.scheduler.promised(id), reserve))?;
        Some(Remedy::TenantWeight { tenant, weight })
    }

    /// The least weight of a tenant with which something is so.
    fn tenant_weight(&mut self, name: &str, id: TenantId, is_so: impl Fn(&Self) -> bool) -> Option<Weight> {
        let claim = self.wiring.tenants.get(name)?.cpu.claim();
        let least = least_weight(|weight| {
            self.scheduler.set_tenant_claim(id, Claim { weight, ..claim });
            is_so(self)
        });
        self.scheduler.set_tenant_claim(id, claim);
        least
    }
}

fn enough(given: f64, reserve: Cap) -> bool {
    given + ROUNDING >= reserve.as_share()
}

/// The least weight that suffices, of which every larger one does too.
fn least_weight(mut suffices: impl FnMut(Weight) -> bool) -> Option<Weight> {
    if !suffices(Weight::MAX) {
        return None;
    }
    let (mut below, mut enough) = (0, Weight::MAX);
    while below + 1 < enough.get() {
        let middle = Weight::new((below + enough.get()) / 2)?;
        if suffices(middle) { enough = middle } else { below = middle.get() }
    }
    Some(enough)
}
