//! Whose each object is, as the specs say it.
//!
//! A function, a port, a security group and a device are the tenant's that their `tenant` names; without it,
//! `default`'s. A chain, a wire and an observer are a tenant's if all that they name are functions, ports and
//! devices of that tenant. A tenant's object is its own. All else, and what joins tenants or reaches a
//! switch, is the administrator's alone. Which devices a tenant changes itself is another question
//! ([`mod@crate::tenant_devices`]).
//!
//! This is an index of the store, so that what is shown to one tenant costs nothing for what others have, and
//! a history with owners, since the store does not know whose something was that is gone. Where a spec itself
//! is shown, the spec decides and not the index.

use crate::control::ObjectChange;
use crate::tenancy::deleted_tenants;
use crate::tenant_devices::{DeviceIndex, KnownDevice, Takes};
use api::{DEFAULT_TENANT, Event, Happened, Kind, ObjectName};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Changes that are remembered with their owners; as many as the store remembers.
const KEPT: usize = 16_384;

/// See the module's documentation.
pub(crate) struct Owners {
    index: Mutex<Index>,
    /// The last revision that is in here.
    known: watch::Sender<u64>,
}

struct Index {
    tenants: BTreeSet<String>,
    /// Of functions, ports, groups and devices: the tenant that their spec names, and its bytes.
    of: HashMap<ObjectName, (Option<String>, usize)>,
    /// Of devices: other tenants whose functions may open them, one function alone or all.
    open_to: HashMap<String, BTreeSet<(String, Option<String>)>>,
    devices: DeviceIndex,
    /// The same the other way.
    owned: BTreeMap<Option<String>, BTreeSet<ObjectName>>,
    /// Chains, wires and observers, with the names in them, and their bytes.
    links: HashMap<ObjectName, (Vec<String>, usize)>,
    /// The same the other way.
    naming: HashMap<String, BTreeSet<ObjectName>>,
    told: VecDeque<Told>,
    /// All changes after this revision are told.
    oldest: u64,
}

struct Told {
    revision: u64,
    id: ObjectName,
    owned: Owned,
}

/// Whose an object was before a change, and is after it; `None`: no tenant's alone, or it is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owned {
    pub before: Option<String>,
    pub after: Option<String>,
}

impl Owned {
    /// A tenant is deleted: what was its own is not the next one's of that name.
    fn forget(&mut self, tenant: &str) {
        for owner in [&mut self.before, &mut self.after] {
            owner.take_if(|owner| owner == tenant);
        }
    }
}

/// What is no longer told: changes after `oldest` are.
#[derive(Debug)]
pub(crate) struct Gone {
    pub oldest: u64,
    pub newest: u64,
}

impl Owners {
    /// Of the objects that a server begins with.
    pub fn new(objects: &[ObjectChange], revision: u64) -> Owners {
        let mut index = Index {
            tenants: BTreeSet::new(),
            of: HashMap::new(),
            open_to: HashMap::new(),
            devices: DeviceIndex::default(),
            owned: BTreeMap::new(),
            links: HashMap::new(),
            naming: HashMap::new(),
            told: VecDeque::new(),
            oldest: revision,
        };
        objects.iter().for_each(|change| index.take(change));
        Owners { index: Mutex::new(index), known: watch::Sender::new(revision) }
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A change was committed: whose each object was before it, and is now.
    pub fn take(&self, revision: u64, changes: &[ObjectChange]) -> Vec<Owned> {
        let mut index = self.index();
        let id = |change: &ObjectChange| ObjectName::new(change.kind, change.name.clone());
        let owners = |index: &Index| changes.iter().map(|change| index.owner(&id(change))).collect();
        let before: Vec<Option<String>> = owners(&index);
        changes.iter().for_each(|change| index.take(change));
        let after: Vec<Option<String>> = owners(&index);
        let owned: Vec<Owned> =
            before.into_iter().zip(after).map(|(before, after)| Owned { before, after }).collect();
        for (change, owned) in changes.iter().zip(&owned) {
            index.told.push_back(Told { revision, id: id(change), owned: owned.clone() });
        }
        for tenant in deleted_tenants(changes) {
            for Told { owned, .. } in &mut index.told {
                owned.forget(tenant);
            }
        }
        while index.told.len() > KEPT {
            if let Some(told) = index.told.pop_front() {
                index.oldest = told.revision;
            }
        }
        drop(index);
        self.known.send_replace(revision);
        owned
    }

    /// The last revision that is in here.
    pub fn revision(&self) -> u64 {
        *self.known.borrow()
    }

    /// Tells of each later change that it is in here.
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.known.subscribe()
    }

    /// What happened to a tenant's objects after a revision, and the revision up to which that is all. What
    /// passes from one tenant to another is deleted for the one and there for the other. After so many events
    /// it goes on to the end of their revision, and the rest comes after that.
    pub fn changes(&self, tenant: &str, after: u64, enough: usize) -> Result<(Vec<Event>, u64), Gone> {
        let index = self.index();
        let newest = self.known_after(&index, after)?;
        let is = |owner: &Option<String>| owner.as_deref() == Some(tenant);
        let first = index.told.partition_point(|told| told.revision <= after);
        let (mut events, mut last) = (Vec::new(), after);
        for told in index.told.range(first..) {
            if events.len() >= enough && told.revision != last {
                return Ok((events, last));
            }
            last = told.revision;
            let Owned { before, after } = &told.owned;
            if is(before) || is(after) {
                events.push(Event::Changed {
                    revision: told.revision,
                    kind: told.id.kind,
                    name: told.id.name.clone(),
                    happened: if is(after) { Happened::Put } else { Happened::Deleted },
                });
            }
        }
        Ok((events, newest))
    }

    /// The last revision, if all changes after another are remembered.
    fn known_after(&self, index: &Index, after: u64) -> Result<u64, Gone> {
        let newest = *self.known.borrow();
        match after < index.oldest || after > newest {
            true => Err(Gone { oldest: index.oldest, newest }),
            false => Ok(newest),
        }
    }

    /// Whether all changes after a revision are remembered.
    pub fn remembers(&self, after: u64) -> Result<(), Gone> {
        self.known_after(&self.index(), after).map(drop)
    }

    /// Whose an object is now; `None`: no tenant's alone, or it is not there.
    pub fn owner(&self, id: &ObjectName) -> Option<String> {
        self.index().owner(id)
    }

    /// Whether an object is a tenant's.
    pub fn is_of(&self, id: &ObjectName, tenant: &str) -> bool {
        self.index().owner(id).as_deref() == Some(tenant)
    }

    /// Whether a function of a tenant may open what has this name: a device that is open to it.
    pub fn may_open(&self, tenant: &str, function: &str, name: &str) -> bool {
        let index = self.index();
        let grants = index.open_to.get(name);
        grants.is_some_and(|grants| {
            let all = (tenant.to_owned(), None);
            grants.contains(&all) || grants.contains(&(all.0, Some(function.to_owned())))
        })
    }

    /// Whether a device with this spec is a tenant's to change.
    pub fn may_change_device(&self, tenant: &str, spec: &Value) -> bool {
        self.tenant_of(spec).as_deref() == Some(tenant)
            && self.index().is_tenants(tenant, &KnownDevice::of(spec))
    }

    /// Of these ports, those that a device is over, beside the one of this name, which is not a tenant's to
    /// change.
    pub fn under_others<'a>(
        &self,
        tenant: &str,
        ports: impl Iterator<Item = &'a String>,
        beside: &str,
    ) -> BTreeSet<String> {
        let index = self.index();
        // Each device is looked at once, with all of its ports, and not once for each port.
        let mut known: HashMap<&str, bool> = HashMap::new();
        let mut is_others =
            |device| *known.entry(device).or_insert_with(|| !index.changes_device(tenant, device));
        let is_under =
            |port: &&String| index.devices.over(port).any(|device| device != beside && is_others(device));
        ports.filter(is_under).cloned().collect()
    }

    /// What the devices take that a tenant may change, without what these objects take.
    pub fn device_takes(&self, tenant: &str, without: &BTreeSet<&ObjectName>) -> Takes {
        let index = self.index();
        let of = |id: &ObjectName| match id.kind {
            Kind::Device if index.changes_device(tenant, &id.name) => {
                index.devices.device(&id.name).map_or_else(Takes::default, |device| device.takes)
            }
            Kind::Function => {
                let stations = index.devices.stations_of(&id.name).iter();
                let stations = stations.filter(|device| index.changes_device(tenant, device)).count();
                Takes { stations, ..Takes::default() }
            }
            _ => Takes::default(),
        };
        index.owned(tenant).flatten().filter(|id| !without.contains(id)).map(of).sum()
    }

    /// Whether a device that is there is a tenant's to change.
    pub fn changes_device(&self, tenant: &str, device: &str) -> bool {
        self.index().changes_device(tenant, device)
    }

    /// The first of these that is a device which security groups bind.
    pub fn bound_among<'a, T: AsRef<str>>(&self, names: &'a [T]) -> Option<&'a str> {
        let index = self.index();
        names.iter().map(AsRef::as_ref).find(|name| index.devices.bound().contains(*name))
    }

    /// Whether this is a guest whose interfaces have addresses of their own.
    pub fn has_addresses(&self, function: &str) -> bool {
        self.index().devices.has_addresses(function)
    }

    /// All that chains and wires name beside a device that security groups bind and functions of a tenant may
    /// open.
    pub fn joined_with_bound(&self, tenant: &str) -> BTreeSet<String> {
        let index = self.index();
        let may_open = |device: &&String| {
            let is_own =
                index.owner(&ObjectName::new(Kind::Device, device.as_str())).as_deref() == Some(tenant);
            is_own
                || index.open_to.get(*device).is_some_and(|grants| grants.iter().any(|(of, _)| of == tenant))
        };
        let links =
            index.devices.bound().iter().filter(may_open).filter_map(|device| index.naming.get(device));
        let links = links.flatten().filter(|id| matches!(id.kind, Kind::Chain | Kind::Wire));
        links.filter_map(|id| index.links.get(id)).flat_map(|(names, _)| names.clone()).collect()
    }

    /// Whether a name in a chain, a wire or an observer is a function's, a port's or a device's of a tenant.
    pub fn has(&self, tenant: &str, name: &str) -> bool {
        self.index().owner_of_name(name).as_deref() == Some(tenant)
    }

    /// Whose a function, port, group or device with this spec is.
    pub fn tenant_of(&self, spec: &Value) -> Option<String> {
        tenant_in(spec).or_else(|| Some(DEFAULT_TENANT.to_owned()))
    }

    /// Whether there is such a tenant: as an object, or because there always is one of this name.
    pub fn is_tenant(&self, name: &str) -> bool {
        name == DEFAULT_TENANT || self.index().tenants.contains(name)
    }

    pub fn tenants(&self) -> Vec<String> {
        self.index().tenants.iter().cloned().collect()
    }

    /// Up to `limit` names of a tenant's objects of a kind, in their order, behind a name.
    pub fn page(&self, tenant: &str, kind: Kind, after: Option<&str>, limit: usize) -> Vec<String> {
        self.index().page(tenant, kind, after, limit)
    }

    /// How many functions, groups, devices, chains, wires and observers a tenant has, and the bytes of their
    /// specs.
    pub fn size(&self, tenant: &str) -> (usize, usize) {
        let index = self.index();
        let changed = |id: &&ObjectName| matches!(id.kind, Kind::Function | Kind::Group | Kind::Device);
        let own: Vec<&ObjectName> = index.owned(tenant).flatten().filter(changed).collect();
        let bytes: usize = own.iter().filter_map(|id| index.of.get(id)).map(|(_, bytes)| bytes).sum();
        let links = LINKS.into_iter().flat_map(|kind| {
            let names = index.page(tenant, kind, None, usize::MAX);
            names.into_iter().map(move |name| ObjectName::new(kind, name))
        });
        let links = links.filter_map(|id| index.links.get(&id)).map(|(_, bytes)| bytes);
        let (number, of_links) = links.fold((0, 0), |(number, sum), bytes| (number + 1, sum + bytes));
        (own.len() + number, bytes + of_links)
    }
}

/// Kinds that are whose all that they name are.
const LINKS: [Kind; 3] = [Kind::Chain, Kind::Wire, Kind::Observer];

impl Index {
    fn take(&mut self, change: &ObjectChange) {
        let id = ObjectName::new(change.kind, change.name.clone());
        match change.kind {
            Kind::Tenant => match change.spec {
                Some(_) => drop(self.tenants.insert(id.name)),
                None => drop(self.tenants.remove(&id.name)),
            },
            Kind::Function | Kind::Port | Kind::Group | Kind::Device => {
                if change.kind == Kind::Device {
                    self.open_to.remove(&id.name);
                    let grants = change.spec.as_ref().map(grants_in).filter(|grants| !grants.is_empty());
                    self.open_to.extend(grants.map(|grants| (id.name.clone(), grants)));
                    self.devices.take_device(&id.name, change.spec.as_ref());
                }
                if change.kind == Kind::Function {
                    self.devices.take_function(&id.name, change.spec.as_ref());
                }
                if let Some((before, _)) = self.of.remove(&id)
                    && let Some(owned) = self.owned.get_mut(&before)
                {
                    owned.remove(&id);
                    if owned.is_empty() {
                        self.owned.remove(&before);
                    }
                }
                if let Some(spec) = &change.spec {
                    let tenant = tenant_in(spec);
                    self.owned.entry(tenant.clone()).or_default().insert(id.clone());
                    self.of.insert(id, (tenant, size(spec)));
                }
            }
            Kind::Chain | Kind::Wire | Kind::Observer => {
                for name in self.links.remove(&id).unwrap_or_default().0 {
                    if let Some(naming) = self.naming.get_mut(&name) {
                        naming.remove(&id);
                        if naming.is_empty() {
                            self.naming.remove(&name);
                        }
                    }
                }
                if let Some(spec) = &change.spec {
                    let names = names_in(change.kind, &change.name, spec);
                    for name in &names {
                        self.naming.entry(name.clone()).or_default().insert(id.clone());
                    }
                    self.links.insert(id, (names, size(spec)));
                }
            }
            Kind::Workers | Kind::Switch | Kind::Service => {}
        }
    }

    fn owner(&self, id: &ObjectName) -> Option<String> {
        match id.kind {
            Kind::Tenant => self.tenants.get(&id.name).cloned(),
            Kind::Function | Kind::Port | Kind::Group | Kind::Device => {
                let (tenant, _) = self.of.get(id)?;
                tenant.clone().or_else(|| Some(DEFAULT_TENANT.to_owned()))
            }
            Kind::Chain | Kind::Wire | Kind::Observer => {
                let mut owners = self.links.get(id)?.0.iter().map(|name| self.owner_of_name(name));
                let first = owners.next()??;
                owners.all(|owner| owner.as_ref() == Some(&first)).then_some(first)
            }
            Kind::Workers | Kind::Switch | Kind::Service => None,
        }
    }

    /// Whether a device that is there is a tenant's to change.
    fn changes_device(&self, tenant: &str, device: &str) -> bool {
        self.owner(&ObjectName::new(Kind::Device, device)).as_deref() == Some(tenant)
            && self.devices.device(device).is_some_and(|known| self.is_tenants(tenant, known))
    }

    /// Whether a tenant says all of a device, and has all ports that it is over.
    fn is_tenants(&self, tenant: &str, device: &KnownDevice) -> bool {
        let is_own =
            |port: &String| self.owner(&ObjectName::new(Kind::Port, port.clone())).as_deref() == Some(tenant);
        !device.is_kept && device.over.iter().all(is_own)
    }

    fn owner_of_name(&self, name: &str) -> Option<String> {
        let of = |kind| self.owner(&ObjectName::new(kind, name));
        of(Kind::Function).or_else(|| of(Kind::Port)).or_else(|| of(Kind::Device))
    }

    /// Functions, ports, groups and devices of a tenant: those that name it, and, of `default`, those that
    /// name none.
    fn owned<'a>(&'a self, tenant: &str) -> impl Iterator<Item = &'a BTreeSet<ObjectName>> {
        let unnamed = (tenant == DEFAULT_TENANT).then_some(None);
        let keys = [Some(Some(tenant.to_owned())), unnamed];
        keys.into_iter().flatten().filter_map(|named| self.owned.get(&named))
    }

    fn page(&self, tenant: &str, kind: Kind, after: Option<&str>, limit: usize) -> Vec<String> {
        let from = match after {
            Some(after) => Bound::Excluded(ObjectName::new(kind, after)),
            None => Bound::Included(ObjectName::new(kind, "")),
        };
        let names: BTreeSet<&ObjectName> = match kind {
            Kind::Tenant => {
                let there = self.tenants.contains(tenant) && after.is_none_or(|after| tenant > after);
                return if there && limit > 0 { vec![tenant.to_owned()] } else { Vec::new() };
            }
            Kind::Function | Kind::Port | Kind::Group | Kind::Device => self
                .owned(tenant)
                .flat_map(|set| {
                    let rest = set.range((from.clone(), Bound::Unbounded));
                    rest.take_while(|id| id.kind == kind).take(limit)
                })
                .collect(),
            Kind::Chain | Kind::Wire | Kind::Observer => {
                let of = self.owned(tenant).flatten().filter_map(|id| self.naming.get(&id.name)).flatten();
                of.filter(|id| id.kind == kind && self.owner(id).as_deref() == Some(tenant)).collect()
            }
            Kind::Workers | Kind::Switch | Kind::Service => BTreeSet::new(),
        };
        let rest = names.range((from, Bound::Unbounded)).take(limit);
        rest.map(|id| id.name.clone()).collect()
    }
}

/// The tenant that a spec names.
fn tenant_in(spec: &Value) -> Option<String> {
    spec.get("tenant")?.as_str().map(str::to_owned)
}

/// To which tenants, or functions of theirs, a device with this spec is open.
fn grants_in(spec: &Value) -> BTreeSet<(String, Option<String>)> {
    let items = spec.get("open_to").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let text = |item: &Value, key| item.get(key).and_then(Value::as_str).map(str::to_owned);
    items.iter().filter_map(|item| Some((text(item, "tenant")?, text(item, "function")))).collect()
}

/// Bytes of a spec, about.
pub(crate) fn size(spec: &Value) -> usize {
    match spec {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(|item| size(item) + 1).sum::<usize>() + 2,
        Value::Object(entries) => {
            entries.iter().map(|(key, value)| key.len() + size(value) + 4).sum::<usize>() + 2
        }
        _ => 8,
    }
}

/// The names of functions, ports, switches and devices in a chain, a wire or an observer.
pub(crate) fn names_in(kind: Kind, name: &str, spec: &Value) -> Vec<String> {
    let of = |list: Option<&Value>| -> Vec<String> {
        let items = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        items.iter().map(|item| base(item.as_str().unwrap_or_default()).to_owned()).collect()
    };
    match kind {
        Kind::Chain | Kind::Wire => of(Some(spec)),
        Kind::Observer => {
            let items = spec.get("at").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let at = items.iter().flat_map(|item| api::names_at(item.as_str().unwrap_or_default()));
            std::iter::once(name).chain(at).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

/// Of `gate:1`, `gate`.
pub(crate) fn base(end: &str) -> &str {
    end.split_once(':').map_or(end, |(name, _)| name)
}

#[cfg(test)]
#[path = "owners_tests.rs"]
mod tests;
