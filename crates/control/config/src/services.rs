//! Reading the section `services`: which tenant's functions reach what by which service ID.
//!
//! An entry is a service of the tenant whose port or function it leads to, or of the one that its key names,
//! `red:10`. Functions of other tenants reach it only where its `for` names them. What comes out is one table
//! for each tenant, so that the path of a packet looks into its sender's alone.

use crate::format::service_schema;
use crate::read::Reader;
use api::DEFAULT_TENANT;
use std::collections::BTreeMap;
use wiring::{Endpoint, Service};
use yaml_document::{Location, Node, Position, spelling};

/// Tenants that a service is granted to, and where each is named: its number in the list, and the place.
type Granted = Vec<(String, usize, Position)>;

/// An entry whose parts are good.
struct Entry {
    service: Service,
    endpoint: Endpoint,
    granted: Granted,
    key: String,
    position: Position,
}

impl Reader<'_> {
    /// Reads the section `services`.
    pub(crate) fn services(&mut self, root_place: &Location<'_>, root: &Node) {
        let Some((_, node)) = root.entry("services") else { return };
        let section = root_place.key("services", node.position);
        let mut entries = Vec::new();
        for (key, node) in self.entries(&section, node) {
            let place = section.key(&key.text, node.position);
            let at_key = place.at(key.position);
            let name = self.service_name(&at_key, &key.text);
            let Some((endpoint, granted)) = self.service_spec(&place, node) else { continue };
            if self.is_under_device(&place, &endpoint) {
                continue;
            }
            self.serving.entry(endpoint.name().to_owned()).or_insert(node.position);
            let Some((named, number)) = name else { continue };
            if let Some(tenant) = self.service_owner(&at_key, named, &endpoint) {
                let (key, position) = (key.text.clone(), key.position);
                let service = Service { tenant, number };
                entries.push(Entry { service, endpoint, granted, key, position });
            }
        }
        self.enter_services(&section, &entries);
    }

    /// A service's key: its number, or `TENANT:NUMBER`.
    fn service_name(&mut self, place: &Location<'_>, text: &str) -> Option<(Option<String>, u16)> {
        let (tenant, digits) = match text.split_once(':') {
            Some((tenant, digits)) => (Some(tenant), digits),
            None => (None, text),
        };
        let number = digits.parse::<u16>().ok().filter(|number| *number > 0 && number.to_string() == digits);
        let Some(number) = number else {
            place.report(&mut self.faults, || {
                format!(
                    "found the service ID `{}`; allowed: an integer from 1 to 65535, or one behind its tenant's name, such as \
                     `red:10`",
                    spelling::shown(text)
                )
            });
            return None;
        };
        let Some(tenant) = tenant else { return Some((None, number)) };
        Some((Some(self.known_tenant(place, tenant)?), number))
    }

    /// Where a service leads, and to which tenants it is granted.
    fn service_spec(&mut self, place: &Location<'_>, node: &Node) -> Option<(Endpoint, Granted)> {
        if node.as_map().is_none() {
            let text = self.reference(place, node)?;
            return Some((self.names.endpoint(place, text, &mut self.faults)?, Vec::new()));
        }
        service_schema().check_at(place, Some(node), &[], &mut self.faults)?;
        let to = node.get("to")?;
        let at_to = place.key("to", to.position);
        let endpoint = self.names.endpoint(&at_to, to.as_text()?, &mut self.faults);
        let mut granted = Vec::new();
        if let Some((_, list)) = node.entry("for") {
            let place = place.key("for", list.position);
            for (n, item) in list.as_list().unwrap_or_default().iter().enumerate() {
                let tenant = self.known_tenant(&place.item(n, item.position), item.as_text()?);
                granted.extend(tenant.map(|tenant| (tenant, n, item.position)));
            }
        }
        Some((endpoint?, granted))
    }

    /// Whose service it is that leads to an end. `None` when that is a fault, or the end has one already.
    fn service_owner(
        &mut self,
        place: &Location<'_>,
        named: Option<String>,
        endpoint: &Endpoint,
    ) -> Option<String> {
        let of_end = match endpoint {
            // A switch may be wired by every tenant, so it has no tenant of its own.
            Endpoint::Switch(_) => {
                return match named {
                    Some(named) => Some(named),
                    None => self.known_tenant(place, DEFAULT_TENANT),
                };
            }
            Endpoint::Port(name) => self.wiring.ports.get(name)?.tenant.clone(),
            Endpoint::Device(opening) => self.wiring.devices.get(&opening.device)?.tenant.clone(),
            Endpoint::Interface(name, _) => self.names.function(name)?.tenant.clone()?,
        };
        if let Some(named) = named.filter(|named| *named != of_end) {
            place.report(&mut self.faults, || {
                format!(
                    "`{endpoint}` is the tenant `{of_end}`'s; allowed: a service of `{of_end}`, with `for: [{named}]` if functions of \
                     `{named}` may send there"
                )
            });
            return None;
        }
        Some(of_end)
    }

    /// Makes each tenant's table: its own services, and those of others that are granted to it.
    fn enter_services(&mut self, section: &Location<'_>, entries: &[Entry]) {
        let mut own: BTreeMap<&Service, Position> = BTreeMap::new();
        for Entry { service, endpoint, key, position, .. } in entries {
            if let Some(first) = own.get(service) {
                section.key(key, *position).report(&mut self.faults, || {
                    let Service { tenant, number } = service;
                    format!("the tenant `{tenant}` has a service {number} already{}", first.in_line(" "))
                });
                continue;
            }
            own.insert(service, *position);
            self.wiring.services.insert(service.clone(), endpoint.clone());
        }
        let mut grants: BTreeMap<Service, &Service> = BTreeMap::new();
        for Entry { service, endpoint, granted, key, position } in entries {
            for (tenant, n, at) in granted.iter().filter(|(tenant, ..)| *tenant != service.tenant) {
                let place = section.key(key, *position);
                let place = place.key("for", *at);
                let place = place.item(*n, *at);
                let number = service.number;
                let theirs = Service { tenant: tenant.clone(), number };
                if own.contains_key(&theirs) {
                    place.report(&mut self.warnings, || {
                        format!("the tenant `{tenant}` has a service {number} of its own, which is the one that its functions reach")
                    });
                } else if let Some(other) = grants.get(&theirs).filter(|other| **other != service) {
                    place.report(&mut self.faults, || {
                        format!(
                            "the tenant `{tenant}` is granted two services {number}: of `{}` and of `{}`; allowed: one",
                            other.tenant, service.tenant
                        )
                    });
                } else {
                    grants.insert(theirs.clone(), service);
                    self.wiring.services.insert(theirs, endpoint.clone());
                }
            }
        }
    }
}
