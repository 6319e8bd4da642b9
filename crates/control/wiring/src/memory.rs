//! What memory is promised to which tenant and instance, and whether it can be: promised is what it may come
//! to take, not what it has.

use crate::{Claimant, Container, Instance, InstancePool, Tenant, Wiring};
use packet_memory::{PageKind, PoolConfig};
use std::collections::HashMap;
use std::fmt;

/// What the host keeps for a function beside its memory and its page tables: the sandbox's and the engine's
/// records of it, its queue, its stack.
pub const RUNTIME: u64 = 32 << 10;

/// Memory comes in units of this.
const UNIT: u64 = 64 << 10;
const PAGE: u64 = 4 << 10;
/// What one page of page tables covers: with ordinary pages, and with huge ones.
const COVERED: [u64; 2] = [2 << 20, 1 << 30];

/// What a tenant may have of the host's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantMemory {
    /// The most that it is promised, in bytes: its pools, its functions and its containers together. `None`:
    /// no bound of its own.
    pub limit: Option<u64>,
    /// Bytes that are kept for it, whether it asks for them or not.
    pub reserve: u64,
}

/// At most so many bytes of page tables for a function: for its private memory, and for the window on its
/// packets. A page of them is taken for each 2 MiB on ordinary pages and each 1 GiB of both; what covers 512
/// GiB is shared by many functions and counts for none.
pub fn page_tables(private: u64, window: &PoolConfig) -> u64 {
    let on = |bytes: u64, level: usize| bytes.div_ceil(COVERED[level]);
    let ordinary = window.pages != Some(PageKind::Huge);
    let small = on(private, 0) + if ordinary { on(bytes(window), 0) } else { 0 };
    PAGE * (small + on(private, 1) + on(bytes(window), 1))
}

/// A pool's bytes.
pub fn bytes(pool: &PoolConfig) -> u64 {
    u64::from(pool.buffers) * u64::from(pool.buffer_size.bytes())
}

impl Instance {
    /// What it may come to take, all together; `pool` is its tenant's.
    pub fn promise(&self, pool: &PoolConfig) -> u64 {
        self.memory + self.beside(pool)
    }

    /// What it may come to take beside its private memory.
    fn beside(&self, pool: &PoolConfig) -> u64 {
        let (window, own) = match &self.pool {
            InstancePool::Tenant => (pool, 0),
            InstancePool::Own(own) => (own, bytes(own)),
        };
        page_tables(self.memory, window) + RUNTIME + own
    }
}

/// Whose memory does not suffice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purse {
    /// A tenant's.
    Tenant(String),
    /// The host's.
    Host,
}

/// More is asked for than can be promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overdraft {
    /// The claimant.
    pub whose: Claimant,
    /// For how many bytes, all together.
    pub asked: u64,
    /// How many of them are a function's private memory.
    pub memory: Option<u64>,
    /// Where they would have to come from.
    pub of: Purse,
    /// What may be promised from there.
    pub limit: u64,
    /// How much of that is left.
    pub left: u64,
}

/// In the words of a fault in the operator's file: what was asked, what is left, what is allowed.
impl fmt::Display for Overdraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (limit, left) = (Size(self.limit), Size(self.left));
        let purse = match &self.of {
            Purse::Tenant(name) => format!("the {limit} of its tenant `{name}`"),
            Purse::Host => format!("the {limit} that may be promised on this host"),
        };
        match (&self.whose, self.memory) {
            (Claimant::Tenant(_), _) if matches!(self.of, Purse::Tenant(_)) => write!(
                f,
                "found `{limit}`; allowed: at least {}, which its pools, functions and containers are promised",
                Size(self.asked)
            ),
            (Claimant::Tenant(_), _) => write!(
                f,
                "asks for {} (its pools and functions, or its `reserve`), and {left} of {purse} are left; allowed: no more than \
                 is left",
                Size(self.asked)
            ),
            (Claimant::Instance(_), memory) => {
                let beside = self.asked - memory.unwrap_or(0);
                let most = self.left.saturating_sub(beside) / UNIT * UNIT;
                write!(f, "may grow to {}", Size(self.asked - beside))?;
                if beside > 0 {
                    write!(
                        f,
                        ", and {} beside it for its packets and what the host keeps for it",
                        Size(beside)
                    )?;
                }
                write!(f, "; {left} of {purse} are left; allowed: ")?;
                if most == 0 {
                    f.write_str("nothing more")
                } else {
                    write!(f, "a `memory` of at most {}", Size(most))
                }
            }
        }
    }
}

/// Bytes for people: in the largest unit that does not round, or in tenths of MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Size(bytes) = *self;
        for (unit, name) in [(1 << 30, "GiB"), (1 << 20, "MiB")] {
            if bytes >= unit && bytes.is_multiple_of(unit) {
                return write!(f, "{}{name}", bytes / unit);
            }
        }
        match bytes {
            0 => f.write_str("0B"),
            10_485_760.. => write!(f, "{:.1}MiB", bytes as f64 / (1 << 20) as f64),
            1024.. => write!(f, "{}KiB", bytes / 1024),
            _ => write!(f, "{bytes}B"),
        }
    }
}

impl Wiring {
    /// What each tenant is promised: its pool, and its functions with theirs.
    pub fn promised(&self) -> HashMap<&str, u64> {
        let mut sums: HashMap<&str, u64> =
            self.tenants.iter().map(|(name, tenant)| (name.as_str(), bytes(&tenant.pool))).collect();
        for instance in self.instances.values() {
            if let (Some(sum), Some(promise)) =
                (sums.get_mut(instance.tenant.as_str()), self.promise_of(instance))
            {
                *sum += promise;
            }
        }
        sums
    }

    fn promise_of(&self, instance: &Instance) -> Option<u64> {
        Some(instance.promise(&self.tenants.get(&instance.tenant)?.pool))
    }

    /// The claims that ask for more than there is, when the host may promise `host` bytes. Claimants that are
    /// `there` already come first, then the others in their order; what is refused to one is left for those
    /// after it. A tenant has so many bytes `beside` its pools and functions. Containers count for their
    /// tenant's limit and not for the host's: their processes are not this one, and the launcher bounds them.
    pub fn overdrafts(
        &self,
        host: Option<u64>,
        beside: impl Fn(&str) -> u64,
        there: impl Fn(&Claimant) -> bool,
    ) -> Vec<Overdraft> {
        if host.is_none() && self.tenants.values().all(|tenant| tenant.memory.limit.is_none()) {
            return Vec::new();
        }
        let (run, start): (Vec<_>, Vec<_>) =
            self.containers.iter().partition(|(name, _)| there(&Claimant::Instance((*name).clone())));
        let mut contained: HashMap<&str, u64> = HashMap::new();
        for (_, container) in run {
            *contained.entry(&container.tenant).or_default() += container.promised_memory();
        }
        let mut ledger =
            Ledger { wiring: self, host, sums: HashMap::new(), contained, used: 0, refused: Vec::new() };
        let is_there = |name: &String| there(&Claimant::Instance(name.clone()));
        let tenant_there = |name: &String| there(&Claimant::Tenant(name.clone()));
        let (old, new): (Vec<_>, Vec<_>) = self.instances.iter().partition(|(name, _)| is_there(name));
        let mut have: HashMap<&str, u64> = HashMap::new();
        for (_, instance) in old {
            *have.entry(&instance.tenant).or_default() += self.promise_of(instance).unwrap_or(0);
        }
        let (before, after): (Vec<_>, Vec<_>) = self.tenants.iter().partition(|(name, _)| tenant_there(name));
        for (name, tenant) in before.into_iter().chain(after) {
            ledger.tenant(name, tenant, have.get(name.as_str()).copied().unwrap_or(0) + beside(name));
        }
        for (name, instance) in new {
            ledger.function(name, instance);
        }
        for (name, container) in start {
            ledger.container(name, container);
        }
        ledger.refused
    }
}

/// What has been promised so far.
struct Ledger<'a> {
    wiring: &'a Wiring,
    host: Option<u64>,
    /// By tenant.
    sums: HashMap<&'a str, u64>,
    /// What containers have, by tenant.
    contained: HashMap<&'a str, u64>,
    /// All together, with what is kept for tenants that do not ask for it.
    used: u64,
    refused: Vec<Overdraft>,
}

impl<'a> Ledger<'a> {
    fn contained(&self, tenant: &str) -> u64 {
        self.contained.get(tenant).copied().unwrap_or(0)
    }

    fn container(&mut self, name: &str, container: &'a Container) {
        let (tenant, asked) = (container.tenant.as_str(), container.promised_memory());
        let limit = self.wiring.tenants.get(tenant).and_then(|tenant| tenant.memory.limit);
        let before = self.sums.get(tenant).copied().unwrap_or(0) + self.contained(tenant);
        if let Some(limit) = limit.filter(|limit| before + asked > *limit) {
            self.refused.push(Overdraft {
                whose: Claimant::Instance(name.to_owned()),
                asked,
                memory: Some(asked),
                of: Purse::Tenant(tenant.to_owned()),
                limit,
                left: limit.saturating_sub(before),
            });
        } else {
            *self.contained.entry(tenant).or_default() += asked;
        }
    }

    /// A tenant with its pool, and `have` for functions that it has.
    fn tenant(&mut self, name: &'a str, tenant: &Tenant, have: u64) {
        let whose = || Claimant::Tenant(name.to_owned());
        let sum = bytes(&tenant.pool) + have;
        let least = sum.max(tenant.memory.reserve);
        let with_containers = least.max(sum + self.contained(name));
        if let Some(limit) = tenant.memory.limit.filter(|limit| with_containers > *limit) {
            let (of, asked) = (Purse::Tenant(name.to_owned()), with_containers);
            self.refused.push(Overdraft { whose: whose(), asked, memory: None, of, limit, left: 0 });
        } else if let Some(limit) = self.host.filter(|limit| self.used + least > *limit) {
            let left = limit.saturating_sub(self.used);
            self.refused.push(Overdraft {
                whose: whose(),
                asked: least,
                memory: None,
                of: Purse::Host,
                limit,
                left,
            });
            return;
        }
        self.used += least;
        self.sums.insert(name, sum);
    }

    fn function(&mut self, name: &str, instance: &'a Instance) {
        // Of a tenant that is refused there is enough to tell.
        let contained = self.contained(&instance.tenant);
        let Some(sum) = self.sums.get_mut(instance.tenant.as_str()) else { return };
        let Some(tenant) = self.wiring.tenants.get(&instance.tenant) else { return };
        let asked = instance.promise(&tenant.pool);
        let (before, after) = (*sum, *sum + asked);
        let reserve = tenant.memory.reserve;
        let more = after.max(reserve) - before.max(reserve);
        let whose = Claimant::Instance(name.to_owned());
        let refused =
            |of, limit: u64, left| Overdraft { whose, asked, memory: Some(instance.memory), of, limit, left };
        if let Some(limit) = tenant.memory.limit.filter(|limit| after + contained > *limit) {
            let of = Purse::Tenant(instance.tenant.clone());
            self.refused.push(refused(of, limit, limit.saturating_sub(before + contained)));
        } else if let Some(limit) = self.host.filter(|limit| self.used + more > *limit) {
            // What is kept for its tenant is left to it as well.
            let left = limit.saturating_sub(self.used) + reserve.saturating_sub(before);
            self.refused.push(refused(Purse::Host, limit, left));
        } else {
            *sum = after;
            self.used += more;
        }
    }
}
