//! Logins of tenants at registries, as the store keeps them.
//!
//! 1. A tenant sets them; the store has all of one tenant under its name, with their passwords, which the
//!    registry needs as they are.
//! 2. [`Logins::asker`] says with which of them images are pulled: those of the tenant that asks, and of no
//!    other.
//! 3. They go with their tenant: one that is called so later begins without them.
//!
//! No answer, log line or audit line holds a password. The store's files are their owner's alone, and so is a
//! backup, which has them.

use crate::control::{Asker, ObjectChange};
use crate::error::BindError;
use crate::rights::Rights;
use crate::tenancy::deleted_tenants;
use api::{NewRegistryLogin, Password, RegistryLogin};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use store::{Change, Store};

/// The kind of logins in the store. They are no objects: no document names them.
pub(crate) const KIND: &str = "registry_logins";

/// Most logins of a tenant.
pub(crate) const MOST: usize = 16;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    username: String,
    password: Password,
    set: String,
}

/// Logins of a tenant, by registry.
type OfTenant = BTreeMap<String, Record>;

/// The logins of all tenants.
#[derive(Debug, Default)]
pub(crate) struct Logins(Mutex<BTreeMap<String, OfTenant>>);

impl Logins {
    /// Those of a store.
    pub fn load(store: &Store) -> Result<Logins, BindError> {
        let (mut all, mut from) = (BTreeMap::new(), String::new());
        loop {
            let page = store.list(KIND, &from, store::PAGE_MAX);
            for object in page.objects {
                let of: OfTenant = serde_json::from_slice(&object.value).map_err(|error| {
                    // Where it stands, without what is there.
                    let what = format!("cannot be read: line {}, column {}", error.line(), error.column());
                    BindError::Object { object: format!("{KIND}/{}", object.name), what }
                })?;
                all.insert(object.name.to_string(), of);
            }
            match page.next {
                Some(next) => from = next.to_string(),
                None => return Ok(Logins(Mutex::new(all))),
            }
        }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, OfTenant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many entries of the store are of this module.
    pub fn count(&self) -> usize {
        self.all().len()
    }

    /// Those of one tenant, or of all, without their passwords.
    pub fn list(&self, tenant: Option<&str>) -> Vec<RegistryLogin> {
        let all = self.all();
        let of = all.iter().filter(|(name, _)| tenant.is_none_or(|tenant| tenant == *name));
        of.flat_map(|(tenant, logins)| {
            logins.iter().map(|(registry, record)| shown(tenant, registry, record))
        })
        .collect()
    }

    /// What the store is to hold when a tenant has one more, and what is shown of it; `None`: the tenant has
    /// as many as it may.
    pub fn with(&self, tenant: &str, login: NewRegistryLogin) -> Option<(Update, RegistryLogin)> {
        let mut of = self.all().get(tenant).cloned().unwrap_or_default();
        let NewRegistryLogin { registry, username, password, .. } = login;
        let record = Record { username, password, set: crate::time::now() };
        let shown = shown(tenant, &registry, &record);
        of.insert(registry, record);
        (of.len() <= MOST).then(|| (Update { tenant: tenant.to_owned(), of }, shown))
    }

    /// The same when it has one less; `None`: there is no such login.
    pub fn without(&self, tenant: &str, registry: &str) -> Option<Update> {
        let mut of = self.all().get(tenant).cloned()?;
        of.remove(registry)?;
        Some(Update { tenant: tenant.to_owned(), of })
    }

    /// What the store holds is so from now on.
    pub fn keep(&self, Update { tenant, of }: Update) {
        let mut all = self.all();
        if of.is_empty() {
            all.remove(&tenant);
        } else {
            all.insert(tenant, of);
        }
    }

    /// What the store loses with tenants that are deleted.
    pub fn of_gone(&self, changes: &[ObjectChange]) -> Vec<Change> {
        let all = self.all();
        let gone = deleted_tenants(changes).filter(|tenant| all.contains_key(*tenant));
        gone.map(|tenant| Change::delete(KIND, tenant)).collect()
    }

    /// The tenants are deleted.
    pub fn forget_gone(&self, changes: &[ObjectChange]) {
        let mut all = self.all();
        deleted_tenants(changes).for_each(|tenant| drop(all.remove(tenant)));
    }

    /// With whose logins images are pulled that are asked for with these rights.
    pub fn asker(&self, rights: &Rights) -> Asker {
        let Some(tenant) = rights.tenant() else { return Asker::Administrator };
        let all = self.all();
        let of = all.get(tenant).into_iter().flatten();
        let logins = of.map(|(registry, Record { username, password, .. })| {
            (registry.clone(), (username.clone(), password.clone()))
        });
        Asker::Tenant { name: tenant.to_owned(), logins: logins.collect() }
    }
}

/// What a tenant's logins are to be.
#[derive(Debug)]
pub(crate) struct Update {
    tenant: String,
    of: OfTenant,
}

impl Update {
    /// For the store.
    pub fn write(&self) -> Change {
        if self.of.is_empty() {
            return Change::delete(KIND, self.tenant.as_str());
        }
        // A map with keys of text can always be written.
        Change::put(KIND, self.tenant.as_str(), serde_json::to_vec(&self.of).unwrap_or_default())
    }
}

fn shown(tenant: &str, registry: &str, record: &Record) -> RegistryLogin {
    RegistryLogin {
        tenant: tenant.to_owned(),
        registry: registry.to_owned(),
        username: record.username.clone(),
        set: record.set.clone(),
    }
}
