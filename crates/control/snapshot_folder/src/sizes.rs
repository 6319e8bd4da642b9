//! What is asked of a host's own snapshots without a look at their files: bytes by function, and by tenant
//! their names and the images that they need.

use api::Snapshot;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

#[derive(Debug, Default)]
pub(crate) struct Sizes {
    /// By snapshot, the function that it is of, its bytes, and its tenant.
    snapshots: HashMap<String, (String, u64, Option<String>)>,
    /// By function, the bytes of all of them.
    functions: HashMap<String, u64>,
    /// By tenant, its snapshots with what their images are called.
    tenants: HashMap<String, BTreeMap<String, Option<String>>>,
}

impl Sizes {
    pub(crate) fn of(&self, function: &str) -> u64 {
        self.functions.get(function).copied().unwrap_or(0)
    }

    pub(crate) fn forget(&mut self, name: &str) {
        let Some((function, bytes, tenant)) = self.snapshots.remove(name) else { return };
        if let Some(tenant) = tenant
            && let Some(own) = self.tenants.get_mut(&tenant)
        {
            own.remove(name);
            if own.is_empty() {
                self.tenants.remove(&tenant);
            }
        }
        if let Some(sum) = self.functions.get_mut(&function) {
            *sum = sum.saturating_sub(bytes);
            if *sum == 0 {
                self.functions.remove(&function);
            }
        }
    }

    /// One that is imported is no function's of this host.
    pub(crate) fn note(&mut self, told: &Snapshot) {
        self.forget(&told.name);
        if told.imported {
            return;
        }
        let function = told.function.to_string();
        *self.functions.entry(function.clone()).or_default() += told.bytes;
        let tenant = told.tenant.as_ref().map(ToString::to_string);
        if let Some(tenant) = &tenant {
            let image = told.spec.get("image").and_then(Value::as_str).map(str::to_owned);
            self.tenants.entry(tenant.clone()).or_default().insert(told.name.to_string(), image);
        }
        self.snapshots.insert(told.name.to_string(), (function, told.bytes, tenant));
    }

    /// The names of a tenant's, in their order, and what their images are called.
    pub(crate) fn of_tenant(&self, tenant: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
        let own = self.tenants.get(tenant).into_iter().flatten();
        own.map(|(name, image)| (name.as_str(), image.as_deref()))
    }
}
