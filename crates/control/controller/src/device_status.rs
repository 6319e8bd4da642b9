//! How devices are.

use super::controller::Controller;
use super::neighbours::frames;
use api::{DeviceAddress, DeviceOpener, DevicePort, DeviceState, DeviceStatus, Traffic};
use deployment::{Catalog, DeviceReading, Host, OpenerReading, SideReading, TightLink};
use guest_wasm::watchdog;
use virtual_device::Entered;
use wiring::{Endpoint, Opener, Shadowed, container_port};

impl Controller {
    /// How one is; to a tenant, without what is others'. `None`: it is not there.
    pub(super) fn device_status(&self, name: &str, tenant: Option<&str>) -> Option<DeviceStatus> {
        let time_ns = watchdog::clock().now().0;
        let reading = self.host.device(name)?;
        let shown = |opener: &&OpenerReading| tenant.is_none_or(|tenant| opener.tenant == tenant);
        let openers = reading.openers.iter().filter(shown);
        let openers: Vec<DeviceOpener> = openers.map(|opener| self.opener(opener)).collect();
        let warnings = reading.shadowed.iter().map(|found| self.warning(name, found, tenant));
        let warnings = warnings.chain(reading.tight.iter().map(TightLink::in_words));
        let ports: Vec<DevicePort> = reading.sides.iter().map(|side| self.side(side)).collect();
        let (state, reason) = state(&ports);
        let station = reading.station.as_ref();
        let addresses = station.map(|station| &station.addresses[..]).unwrap_or_default();
        Some(DeviceStatus {
            time_ns,
            state,
            reason,
            ports,
            other_openers: (reading.openers.len() - openers.len()) as u64,
            openers,
            copied: reading.copied,
            drops: drops(&reading),
            addresses: addresses
                .iter()
                .map(|(prefix, state)| DeviceAddress {
                    address: prefix.to_string(),
                    state: state.name().to_owned(),
                })
                .collect(),
            neighbours: station.map_or(0, |station| station.neighbours as u64),
            frames: station.map(|station| frames(&station.frames)),
            warnings: warnings.collect(),
        })
    }

    fn side(&self, side: &SideReading) -> DevicePort {
        let SideReading { port, received, sent, .. } = side;
        let account = self.host.account_of_port(port);
        let (state, reason) = match &account {
            Some(account) => ::metrics::json::port_state(&account.status),
            // It is being taken away.
            None => ("down", None),
        };
        DevicePort {
            port: port.clone(),
            state: state.to_owned(),
            reason: reason.cloned(),
            received: received.map(traffic),
            sent: sent.map(traffic),
        }
    }

    fn opener(&self, reading: &OpenerReading) -> DeviceOpener {
        let OpenerReading { opener, opening, guarded, tenant, observes, sent, received } = reading;
        DeviceOpener {
            opener: match (guarded, opener) {
                (Some(end), _) | (None, Opener::Interface(end)) => self.end_in_words(end),
                (None, Opener::Service(service)) => format!("service {}", service.number),
            },
            tenant: tenant.clone(),
            side: opening.port.clone(),
            order: opening.order,
            observes: *observes,
            sent: sent.map(traffic),
            received: received.map(traffic),
        }
    }

    /// An end of a wire, its interface by name: `fw:inside`.
    pub(super) fn end_in_words(&self, end: &Endpoint) -> String {
        end_in_words(&self.host, &self.catalog, end)
    }

    /// What policies lose; the names of others' devices are nothing to a tenant.
    fn warning(&self, device: &str, found: &Shadowed, tenant: Option<&str>) -> String {
        let named = |name: &str| {
            let is_shown = name == device
                || tenant.is_none_or(|tenant| self.host.tenant_of_device(name).as_deref() == Some(tenant));
            if is_shown { format!("`{name}`") } else { "another tenant's device".to_owned() }
        };
        found.told(&named(&found.first), &named(&found.second))
    }
}

/// An end of a wire, its interface by name: `fw:inside`.
pub(crate) fn end_in_words(host: &Host, catalog: &Catalog, end: &Endpoint) -> String {
    let Endpoint::Interface(function, number) = end else { return end.to_string() };
    if let Some(container) = host.container(function) {
        let name = container.interfaces.get(usize::from(*number)).map(|it| &it.name);
        return name.map_or_else(|| end.to_string(), |name| container_port(function, name));
    }
    let image = host.image_of(function).and_then(|image| catalog.load(&image).ok());
    let name = image.and_then(|image| image.manifest().interfaces.get(usize::from(*number)).cloned());
    name.map_or_else(|| end.to_string(), |name| format!("{function}:{name}"))
}

/// Whether a device with these ports is up, and why it is not.
fn state(ports: &[DevicePort]) -> (DeviceState, Option<String>) {
    let mut not_up = ports.iter().filter(|port| port.state != "up");
    let Some(first) = not_up.next() else { return (DeviceState::Up, None) };
    let state = match not_up.count() + 1 == ports.len() {
        true => DeviceState::Down,
        false => DeviceState::Degraded,
    };
    let because = first.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    (state, Some(format!("port `{}` is {}{because}", first.port, first.state)))
}

pub(super) fn traffic(entered: Entered) -> Traffic {
    Traffic { packets: entered.packets, bytes: entered.bytes }
}

/// What was lost in it, by reason, without what did not occur.
fn drops(reading: &DeviceReading) -> std::collections::BTreeMap<String, u64> {
    let mut all = std::collections::BTreeMap::new();
    for (reason, count) in reading.drops.iter().filter(|(_, count)| *count > 0) {
        *all.entry(reason.name().to_owned()).or_default() += count;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_as_its_ports_are() {
        let port = |(name, state, reason): (&str, &str, Option<&str>)| DevicePort {
            port: name.to_owned(),
            state: state.to_owned(),
            reason: reason.map(str::to_owned),
            received: None,
            sent: None,
        };
        let (a, b) = (("a", "up", None), ("b", "down", Some("no carrier")));
        for (ports, expected, why) in [
            (vec![], DeviceState::Up, None),
            (vec![a, a], DeviceState::Up, None),
            (vec![a, b], DeviceState::Degraded, Some("port `b` is down: no carrier")),
            (vec![b, ("c", "finished", None)], DeviceState::Down, Some("port `b` is down: no carrier")),
            (vec![("c", "finished", None)], DeviceState::Down, Some("port `c` is finished")),
        ] {
            let ports: Vec<DevicePort> = ports.into_iter().map(port).collect();
            assert_eq!(state(&ports), (expected, why.map(str::to_owned)));
        }
    }
}
