//! What holds in every wiring that can be carried out.

use crate::{Edge, Endpoint, InstancePool, Observation, Wiring};
use manifest::Access;
use packet_memory::PoolConfig;
use std::collections::{BTreeMap, BTreeSet};

/// Something in a wiring that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WiringFault {
    /// No such tenant.
    #[error("`{owner}` is of the tenant `{tenant}`, which does not exist")]
    UnknownTenant {
        /// The port or instance.
        owner: String,
        /// Its tenant.
        tenant: String,
    },
    /// A port and an instance have one name.
    #[error("`{0}` is the name of a port and of a function")]
    SharedName(String),
    /// A pool of no buffers, of more than [`nf_abi::WINDOW_MAX`] bytes, or with too much headroom.
    #[error(
        "the pool of `{0}` is not possible: allowed are 1 buffer to 1 GiB, headroom of up to half a buffer"
    )]
    ImpossiblePool(String),
    /// No such port, instance or interface.
    #[error("`{0}` does not exist")]
    UnknownEndpoint(Endpoint),
    /// Two edges have one end.
    #[error("`{endpoint}` has two wires: to `{first}` and to `{second}`")]
    WiredTwice {
        /// The end.
        endpoint: Endpoint,
        /// The other end of one.
        first: Endpoint,
        /// The other end of the other.
        second: Endpoint,
    },
    /// An observation names an instance or interface that does not exist.
    #[error("the observer `{}` or what it observes, `{}`, does not exist", .0.observer, .0.at)]
    UnknownObservation(Observation),
    /// An observer that has edges by which packets would pass through it, or services, or is observed.
    #[error("`{0}` is an observer and is wired, observed or a service as well")]
    ObserverInline(String),
    /// An observer whose image may write.
    #[error("`{0}` is an observer, but its image may write to packets")]
    ObserverWrites(String),
    /// An observer that is shown another tenant's packets.
    #[error("`{}` observes `{}`, which is another tenant's", .0.observer, .0.at)]
    ForeignObserver(Observation),
}

impl Wiring {
    /// Everything about this wiring that cannot be carried out.
    ///
    /// # Errors
    /// One fault or more.
    pub fn validate(&self) -> Result<(), Vec<WiringFault>> {
        let mut faults = Vec::new();
        self.owners(&mut faults);
        self.connections(&mut faults);
        self.observers(&mut faults);
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    fn owners(&self, faults: &mut Vec<WiringFault>) {
        let ports = self.ports.iter().map(|(name, port)| (name, &port.tenant));
        let instances = self.instances.iter().map(|(name, instance)| (name, &instance.tenant));
        for (owner, tenant) in ports.chain(instances) {
            if !self.tenants.contains_key(tenant) {
                faults.push(WiringFault::UnknownTenant { owner: owner.clone(), tenant: tenant.clone() });
            }
        }
        let shared = self.ports.keys().filter(|name| self.instances.contains_key(*name));
        faults.extend(shared.map(|name| WiringFault::SharedName(name.clone())));
        let tenants = self.tenants.iter().map(|(name, tenant)| (name, &tenant.pool));
        let own = self.instances.iter().filter_map(|(name, instance)| match &instance.pool {
            InstancePool::Own(pool) => Some((name, pool)),
            InstancePool::Tenant => None,
        });
        let impossible = tenants.chain(own).filter(|(_, pool)| !is_possible(pool));
        faults.extend(impossible.map(|(name, _)| WiringFault::ImpossiblePool(name.clone())));
    }

    fn connections(&self, faults: &mut Vec<WiringFault>) {
        let mut peers: BTreeMap<&Endpoint, &Endpoint> = BTreeMap::new();
        for [a, b] in self.edges.iter().map(Edge::ends) {
            for (endpoint, peer) in [(a, b), (b, a)] {
                if !self.exists(endpoint) {
                    faults.push(WiringFault::UnknownEndpoint(endpoint.clone()));
                } else if let Some(first) = peers.insert(endpoint, peer) {
                    faults.push(WiringFault::WiredTwice {
                        endpoint: endpoint.clone(),
                        first: first.clone(),
                        second: peer.clone(),
                    });
                }
            }
        }
        let unknown = self.services.values().filter(|endpoint| !self.exists(endpoint));
        faults.extend(unknown.map(|endpoint| WiringFault::UnknownEndpoint(endpoint.clone())));
    }

    fn observers(&self, faults: &mut Vec<WiringFault>) {
        let in_line = self.edges.iter().flat_map(Edge::ends).filter(|end| end.is_in_line());
        let wired = in_line.chain(self.services.values()).map(Endpoint::name);
        let inline: BTreeSet<&str> = wired.chain(self.observations.iter().map(|o| o.at.as_str())).collect();
        for observation in &self.observations {
            let observer = self.instances.get(&observation.observer);
            let at = self.instances.get(&observation.at);
            let (Some(observer), Some(at)) = (observer, at) else {
                faults.push(WiringFault::UnknownObservation(observation.clone()));
                continue;
            };
            if observation.interface.is_some_and(|number| number >= at.interfaces) {
                faults.push(WiringFault::UnknownObservation(observation.clone()));
            }
            if observer.tenant != at.tenant {
                faults.push(WiringFault::ForeignObserver(observation.clone()));
            }
            if observer.access == Access::Write {
                faults.push(WiringFault::ObserverWrites(observation.observer.clone()));
            }
            if inline.contains(observation.observer.as_str()) {
                faults.push(WiringFault::ObserverInline(observation.observer.clone()));
            }
        }
    }

    /// Is there such a port or interface?
    pub fn exists(&self, endpoint: &Endpoint) -> bool {
        match endpoint {
            Endpoint::Port(name) => self.ports.contains_key(name),
            Endpoint::Interface(name, number) => {
                self.instances.get(name).is_some_and(|instance| *number < instance.interfaces)
            }
        }
    }
}

fn is_possible(pool: &PoolConfig) -> bool {
    let size = pool.buffer_size.bytes();
    let bytes = u64::from(pool.buffers) * u64::from(size);
    bytes > 0 && bytes <= u64::from(nf_abi::WINDOW_MAX) && pool.headroom <= size / 2
}
