//! What a tenant is told of a change that the check of all objects refuses.
//!
//! The change is checked once more, with the tenant's objects and nothing else. What is read there holds no
//! other object, so that no fault can name one or show that it exists, whatever its words are:
//! 1. Functions and ports of the tenant are in it, without the wires that an administrator gave them to what
//!    is not the tenant's.
//! 2. Devices of the tenant are in it that are over ports of the tenant alone, and of which nothing is said
//!    that only an administrator says, before the change and after it.
//! 3. Chains, wires and observers are in it if all that they name is the tenant's, before the change and
//!    after it.
//! 4. The tenant itself and the workers are in it; switches, services and other tenants are not.

use super::document::{DOCUMENT, Part, names_in, tree_of};
use super::{Desired, ObjectChange, Running};
use crate::Host;
use crate::material::Material;
use api::{DEFAULT_TENANT, Fault, FaultSource, Kind};
use serde_json::Value;
use yaml_document::Document;

impl Desired {
    /// The faults that changes have when only the objects of a tenant are looked at. As for
    /// [`check`](Desired::check), nothing is read for it: `material` may have to be gathered.
    pub fn own_faults(
        &self,
        tenant: &str,
        changes: &[ObjectChange],
        host: &Host,
        material: &Material<'_>,
    ) -> Vec<Fault> {
        let mut next = self.clone();
        next.take_over(changes.iter().cloned());
        let runs = host.wiring();
        let running = Running { material, runs: &runs, changes };
        let faults = config::check_part(DOCUMENT, &next.document_of_tenant(self, tenant), &running).err();
        let told = |fault: yaml_document::Fault| {
            // The number of a wire is that among the tenant's, which no request names.
            let mut fault = super::told(fault);
            if fault.at.starts_with("wires[") {
                fault.at = "wires".to_owned();
            }
            Fault { source: FaultSource::Request, ..fault }
        };
        faults.unwrap_or_default().into_iter().map(told).collect()
    }

    fn document_of_tenant(&self, before: &Desired, tenant: &str) -> Document {
        let own = self.objects.iter();
        let own = own.filter(|(kind, name, spec)| self.is_of_tenant(before, tenant, (*kind, name), spec));
        let own = own.map(|(kind, name, spec)| {
            let mut spec = Value::clone(spec);
            if let Some(attach) = spec.get_mut("attach").and_then(Value::as_object_mut) {
                attach.retain(|_, end| {
                    let end = api::attached_to(end).unwrap_or_default();
                    self.is_end_of_tenant(before, tenant, end.split_once(':').map_or(end, |(name, _)| name))
                });
            }
            (kind, name, spec)
        });
        let own: Vec<(Kind, &str, Value)> = own.collect();
        tree_of(own.iter().map(|(kind, name, spec)| (*kind, *name, Part::whole(spec))))
    }

    fn is_of_tenant(&self, before: &Desired, tenant: &str, (kind, name): (Kind, &str), spec: &Value) -> bool {
        match kind {
            Kind::Workers => true,
            Kind::Tenant => name == tenant,
            Kind::Function | Kind::Port | Kind::Group => tenant_in(spec) == tenant,
            Kind::Chain | Kind::Wire | Kind::Observer => {
                names_in(kind, name, spec).iter().all(|name| self.is_end_of_tenant(before, tenant, name))
            }
            Kind::Device => self.is_end_of_tenant(before, tenant, name),
            Kind::Switch | Kind::Service => false,
        }
    }

    /// Whether a name is that of functions, ports and devices of a tenant and of nothing else, as they are
    /// and as they were `before`.
    fn is_end_of_tenant(&self, before: &Desired, tenant: &str, name: &str) -> bool {
        let specs =
            |kind| [self, before].into_iter().filter_map(move |objects| objects.objects.get(kind, name));
        let simple = specs(Kind::Function).chain(specs(Kind::Port)).map(|spec| tenant_in(spec) == tenant);
        let devices = specs(Kind::Device).map(|spec| self.is_device_of_tenant(before, tenant, spec));
        let mut own = simple.chain(devices).peekable();
        specs(Kind::Switch).next().is_none() && own.peek().is_some() && own.all(|own| own)
    }

    /// Whether a device's spec is a tenant's own, over ports that are the tenant's and were it `before`.
    fn is_device_of_tenant(&self, before: &Desired, tenant: &str, spec: &Value) -> bool {
        let is_own = |(_, port): (String, String)| {
            let specs =
                [self, before].into_iter().filter_map(|objects| objects.objects.get(Kind::Port, &port));
            let mut own = specs.map(|spec| tenant_in(spec) == tenant).peekable();
            own.peek().is_some() && own.all(|own| own)
        };
        tenant_in(spec) == tenant
            && api::kept_from_tenants(spec).is_empty()
            && api::ports_under(spec).into_iter().all(is_own)
    }
}

pub(super) fn tenant_in(spec: &Value) -> &str {
    spec.get("tenant").and_then(Value::as_str).unwrap_or(DEFAULT_TENANT)
}
