//! Where every packet is one tenant's.
//!
//! | place | when |
//! |---|---|
//! | a function | it is the tenant's, and no guard: what comes to it is in the tenant's memory, and the function may read it |
//! | a device | it is the tenant's, and so is all that opens it, or is wired to its guard; it takes packets, and does not just see those of others |
//! | a port | it is the tenant's, and so is what is wired to it, each device over it, and each service that leads there; or the one device over it is the tenant's and takes all, so that it is laid as wires |
//! | an interface of a container that opens a device | the container is the tenant's: as of a function |
//!
//! At a switch packets of all meet, so that neither it nor a port at it is one tenant's.

use super::tap_points::TapPoint;
use wiring::{DeviceLayout, Edge, Endpoint, Wiring, guarded_by};

/// Whether something of this name is a tenant's: what a tenant is told of at all.
pub(super) fn is_of(wiring: &Wiring, tenant: &str, name: &str) -> bool {
    let instance =
        wiring.instances.get(name).filter(|_| guarded_by(name).is_none()).map(|there| &there.tenant);
    let port = wiring.ports.get(name).map(|there| &there.tenant);
    let device = wiring.devices.get(name).map(|there| &there.tenant);
    let container = wiring.containers.get(name).map(|there| &there.tenant);
    [instance, port, device, container].into_iter().flatten().any(|owner| owner == tenant)
}

/// Whether every packet at a place is a tenant's.
pub(super) fn is_own(wiring: &Wiring, layout: &DeviceLayout, tenant: &str, place: &TapPoint) -> bool {
    match place {
        TapPoint::Function(name) => is_function_of(wiring, tenant, name),
        TapPoint::Port(name) => is_own_port(wiring, layout, tenant, name),
        TapPoint::Device(name, _) => is_own_device(wiring, layout, tenant, name),
    }
}

fn is_function_of(wiring: &Wiring, tenant: &str, name: &str) -> bool {
    // An observer is shown what passes somewhere else, and what passes a guard is of a device's tenant.
    guarded_by(name).is_none()
        && wiring.instances.get(name).is_some_and(|there| there.tenant == tenant)
        && !wiring.observations.iter().any(|seen| seen.observer == name)
}

fn is_own_device(wiring: &Wiring, layout: &DeviceLayout, tenant: &str, name: &str) -> bool {
    let of_tenant = |end: &Endpoint| wiring.tenant_of_opener(end) == Some(tenant);
    let opened = |end: &Endpoint| matches!(end, Endpoint::Device(opening) if opening.device == name);
    wiring.devices.get(name).is_some_and(|device| device.tenant == tenant)
        && !layout.only_seeing.iter().any(|(device, _)| device == name)
        && wiring
            .edges
            .iter()
            .filter_map(Edge::opening)
            .filter(|(_, opening)| opening.device == name)
            .filter_map(|(end, _)| wiring.behind_guard(end))
            .all(of_tenant)
        && wiring.services.iter().all(|(service, end)| !opened(end) || service.tenant == tenant)
}

fn is_own_port(wiring: &Wiring, layout: &DeviceLayout, tenant: &str, name: &str) -> bool {
    let this = Endpoint::Port(name.to_owned());
    let at_end = match wiring.peer(&this) {
        None => true,
        Some(Endpoint::Interface(guard, _)) if guarded_by(guard).is_some() => this.is_opener(),
        Some(Endpoint::Interface(function, _)) => {
            wiring.instances.get(function).is_some_and(|there| there.tenant == tenant)
        }
        Some(Endpoint::Port(other)) => wiring.ports.get(other).is_some_and(|there| there.tenant == tenant),
        Some(Endpoint::Device(_)) => this.is_opener(),
        Some(Endpoint::Switch(_)) => false,
    };
    let over: Vec<&String> = wiring
        .devices
        .iter()
        .filter(|(_, device)| device.over.contains_key(name))
        .map(|(name, _)| name)
        .collect();
    // As with functions: what a port is given that observes has passed somewhere else.
    at_end
        && !wiring.observations.iter().any(|seen| seen.observer == name)
        && wiring.ports.get(name).is_some_and(|port| port.tenant == tenant)
        && wiring.services.iter().all(|(service, end)| *end != this || service.tenant == tenant)
        && over.into_iter().all(|device| is_own_device(wiring, layout, tenant, device))
}
