//! What memory a host has promised, and for what it has given it.
//!
//! Nothing here asks the workers anything, and nothing is done when functions come or go but to add to a sum.
//! What functions take is looked at on request: [`engine::InstanceAccount`] says where their memory is, and
//! [`guest_wasm::resident`] how much of it is there.

use crate::Host;
use crate::deployed::own_pool;
use packet_memory::{PageKind, Pool};
use std::sync::Arc;
use wiring::{Instance, InstancePool, RUNTIME, TenantMemory, bytes, page_tables};

/// What is known of a function's memory without looking at it, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionMemory {
    /// Whose it is.
    pub tenant: String,
    /// The most memory that it may have for itself.
    pub limit: u64,
    /// What it may come to take, all together.
    pub promised: u64,
    /// Page tables for what it has for itself now, and for its packets: at most so many.
    pub page_tables: u64,
    /// What the host keeps for it beside: at most so many.
    pub runtime: u64,
}

/// What a tenant is promised, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantPromise {
    /// Its name.
    pub name: String,
    /// What its operator allows it.
    pub memory: TenantMemory,
    /// Its pools, its functions, and the memory of snapshots that they share.
    pub promised: u64,
    /// What its containers may have beside that, in processes of their own.
    pub containers: u64,
    /// Memory that its functions share, which is part of what is promised.
    pub shared: u64,
    /// How many functions it has.
    pub functions: usize,
}

/// A pool's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolMemory {
    /// Its name, as accounts tell it.
    pub name: String,
    /// Whose it is.
    pub tenant: String,
    /// Bytes of its buffers.
    pub bytes: u64,
    /// Whether it is on huge pages.
    pub huge: bool,
}

/// What a host has promised, and what it has given to no tenant in particular.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostMemory {
    /// In the order of the wiring.
    pub tenants: Vec<TenantPromise>,
    /// In the order of their names.
    pub pools: Vec<PoolMemory>,
    /// Images that are compiled and loaded.
    pub programs: usize,
    /// Bytes of their machine code.
    pub code: u64,
    /// Cleared address space that waits for the next functions.
    pub spare_shells: usize,
}

impl HostMemory {
    /// What is promised to all together, with what is kept for tenants that do not ask for it.
    pub fn promised(&self) -> u64 {
        self.tenants.iter().map(|tenant| tenant.promised.max(tenant.memory.reserve)).sum()
    }
}

impl Host {
    /// What is known of a function's memory when it has `private` bytes for itself; frozen ones have neither
    /// page tables nor anything that runs. `None`: there is no such function.
    pub fn function_memory(&self, name: &str, private: u64, frozen: bool) -> Option<FunctionMemory> {
        let deployed = self.deployed();
        let instance: &Instance = deployed.wiring.instances.get(name)?;
        let pool = &deployed.wiring.tenants.get(&instance.tenant)?.pool;
        let window = match &instance.pool {
            InstancePool::Tenant => pool,
            InstancePool::Own(own) => own,
        };
        Some(FunctionMemory {
            tenant: instance.tenant.clone(),
            limit: instance.memory,
            promised: instance.promise(pool),
            page_tables: if frozen { 0 } else { page_tables(private, window) },
            runtime: if frozen { 0 } else { RUNTIME },
        })
    }

    /// What was promised, and what belongs to no tenant in particular.
    pub fn memory(&self) -> HostMemory {
        let deployed = self.deployed();
        let mut functions: std::collections::HashMap<&str, usize> = std::collections::HashMap::new();
        for instance in deployed.wiring.instances.values() {
            *functions.entry(&instance.tenant).or_default() += 1;
        }
        let tenants = deployed.wiring.tenants.iter().map(|(name, tenant)| TenantPromise {
            name: name.clone(),
            memory: tenant.memory,
            promised: bytes(&tenant.pool)
                + deployed.promised.get(name).copied().unwrap_or(0)
                + self.shared_images.bytes_of(name),
            containers: {
                let own = deployed.wiring.containers.values().filter(|container| container.tenant == *name);
                own.map(|container| container.promised_memory()).sum()
            },
            shared: self.shared_images.bytes_of(name),
            functions: functions.get(name.as_str()).copied().unwrap_or(0),
        });
        let pool_of = |owner: &str, tenant: &str| {
            let (pool, _): &(Arc<Pool>, _) = deployed.pools.get(owner)?;
            let huge = pool.memory().pages() == PageKind::Huge;
            let (name, bytes) = (pool.name().to_owned(), pool.memory().len() as u64);
            Some(PoolMemory { name, tenant: tenant.to_owned(), bytes, huge })
        };
        let own = deployed.wiring.instances.iter().filter_map(|(name, instance)| match &instance.pool {
            InstancePool::Own(_) => pool_of(&own_pool(name), &instance.tenant),
            InstancePool::Tenant => None,
        });
        let mut pools: Vec<PoolMemory> =
            deployed.wiring.tenants.keys().filter_map(|name| pool_of(name, name)).chain(own).collect();
        pools.sort_by(|a, b| a.name.cmp(&b.name));
        let (programs, code) = self.workshop.code();
        let tenants = tenants.collect();
        HostMemory { tenants, pools, programs, code, spare_shells: self.workshop.spare_shells() }
    }
}
