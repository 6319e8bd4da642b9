//! What a tenant may change, checked when it is asked for and once more while no other change is under way.
//!
//! A tenant's token changes functions and security groups of the tenant, devices of its own
//! ([`mod@crate::tenant_devices`]), and chains, wires and observers that name functions, ports and devices of
//! the tenant alone. The rules of its groups name groups of the tenant alone.
//! What it may not see is as if it were not there, except that a name can be taken. What of a function's spec
//! is the host's, such as an image in a file, is for [`Control::confined`](crate::Control::confined) to say;
//! it stays as an administrator has written it, and so does what may be sent from at a device that security
//! groups bind ([`mod@crate::senders`]).

use crate::answer::faulty;
use crate::document::Faults;
use crate::owners::{base, names_in, size};
use crate::rights::{Rights, may_change};
use crate::senders::Bound;
use crate::state::State;
use crate::stored::Stored;
use crate::tenant_devices::{KnownDevice, Takes, stations_in};
use crate::wanted::{Wanted, WantedObject};
use api::{Fault, Kind, ObjectName, Problem, ProblemType};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A tenant is to have more than it may.
fn no_room(what: &str, tenant: &str, found: usize, allowed: usize) -> Problem {
    let detail = format!("{what} of the tenant `{tenant}`: found {found}; allowed: at most {allowed}");
    Problem::new(ProblemType::NoRoom, detail)
}

/// What a change by a tenant comes to, by what is wrong with it.
#[derive(Default)]
struct Wrong {
    forbidden: Faults,
    taken: Faults,
    invalid: Faults,
}

/// Where an object stands in a document.
fn place(id: &ObjectName) -> String {
    match id.kind {
        Kind::Workers => "workers".to_owned(),
        kind => format!("{}.{}", kind.plural(), id.name),
    }
}

impl State {
    /// Whether all of a change is the tenant's to make.
    ///
    /// # Errors
    /// What is not, or the token is not taken any more.
    pub fn admit(&self, wanted: &Wanted) -> Result<(), Problem> {
        self.tokens.hold(&wanted.rights)?;
        let Some(tenant) = wanted.rights.tenant() else { return Ok(()) };
        self.room_for_new_devices(tenant, wanted)?;
        let mut wrong = Wrong::default();
        let (mut created, mut bytes) = (0_usize, 0_usize);
        let coming = |kind| -> BTreeSet<&str> {
            let of_kind =
                wanted.objects.iter().filter(|object| object.id.kind == kind && object.spec.is_some());
            of_kind.map(|object| object.id.name.as_str()).collect()
        };
        let groups = coming(Kind::Group);
        let bound = Bound::default();
        let come = &coming(Kind::Function) | &coming(Kind::Device);
        for object in &wanted.objects {
            let WantedObject { id, spec, precondition, .. } = object;
            let there = self.store.read(id.kind.as_str(), &id.name);
            let mine = there.as_ref().filter(|there| self.shows(&wanted.rights, id, there));
            let before = mine.map(|there| Stored::of(there).spec);
            if !may_change(tenant, id.kind) {
                // A whole document may name it, as it is.
                if spec.is_none() || before != *spec {
                    let message = format!(
                        "{id} is not the tenant's to change; allowed: functions, groups, devices, chains, wires and observers of `{tenant}`"
                    );
                    wrong.forbidden.push(Fault::new(place(id), message));
                }
                continue;
            }
            let Some(spec) = spec else {
                if mine.is_none() {
                    return Err(Problem::new(ProblemType::NotFound, format!("there is no {id}")));
                }
                self.kept_device(tenant, id, before.as_ref(), &mut wrong);
                continue;
            };
            match id.kind {
                // A whole document may name it, as it is.
                Kind::Device if before.as_ref() == Some(spec) => continue,
                Kind::Device => {
                    self.kept_device(tenant, id, before.as_ref(), &mut wrong);
                    self.device(tenant, id, spec, &mut wrong);
                }
                Kind::Function => {
                    self.function(tenant, object, (before.as_ref(), spec), &come, &mut wrong)?;
                    let function = (id.name.as_str(), before.as_ref(), spec);
                    self.senders_of_function(&place(id), function, (tenant, &bound), &mut wrong.forbidden);
                }
                Kind::Group => self.group(tenant, id, spec, &groups, &mut wrong),
                _ => {
                    self.names(tenant, id, spec, &come, &mut wrong);
                    if before.as_ref() != Some(spec) {
                        let fault = self.senders_of_link(&place(id), (object, spec), (wanted, &bound));
                        wrong.forbidden.extend(fault);
                    }
                }
            }
            // Functions, ports, switches and devices share their names.
            let others: &[Kind] = match id.kind {
                Kind::Function => &[Kind::Port, Kind::Switch, Kind::Device],
                Kind::Device => &[Kind::Port, Kind::Switch, Kind::Function],
                _ => &[],
            };
            let is_there = |kind: &Kind| self.store.read(kind.as_str(), &id.name).is_some();
            let taken = there.is_some() && mine.is_none() || before.is_none() && others.iter().any(is_there);
            if taken && precondition.holds(None) {
                wrong
                    .taken
                    .push(Fault::new(place(id), format!("the name `{}` is taken; choose another", id.name)));
            } else if taken {
                let fault = precondition.not_held(id, None);
                return Err(faulty(ProblemType::PreconditionFailed, vec![fault]));
            }
            created += usize::from(mine.is_none());
            bytes += size(spec).saturating_sub(before.as_ref().map_or(0, size));
        }
        for (of, faults) in [
            (ProblemType::Forbidden, wrong.forbidden),
            (ProblemType::Conflict, wrong.taken),
            (ProblemType::Invalid, wrong.invalid),
        ] {
            let faults = faults.into_vec();
            if !faults.is_empty() {
                return Err(faulty(of, faults));
            }
        }
        self.room(tenant, created, bytes)?;
        self.room_for_devices(tenant, wanted)
    }

    /// Whether what is to come are no more devices than a tenant may have: more are refused before each of
    /// them is looked at.
    fn room_for_new_devices(&self, tenant: &str, wanted: &Wanted) -> Result<(), Problem> {
        let devices = wanted.objects.iter().filter(|object| object.id.kind == Kind::Device);
        let new = devices.filter(|object| {
            object.spec.is_some() && self.store.read(Kind::Device.as_str(), &object.id.name).is_none()
        });
        let (new, allowed) = (new.count(), self.limits.tenant_devices);
        if new <= allowed {
            return Ok(());
        }
        let found = self.owners.device_takes(tenant, &BTreeSet::new()).devices + new;
        Err(no_room("devices", tenant, found, allowed))
    }

    /// Whether a tenant may have devices that take so much more of the host.
    fn room_for_devices(&self, tenant: &str, wanted: &Wanted) -> Result<(), Problem> {
        let come = wanted.objects.iter().filter(|object| object.id.kind == Kind::Device);
        let come = come.filter_map(|object| Some((object.id.name.as_str(), object.spec.as_ref()?)));
        let come: BTreeMap<&str, &Value> =
            come.filter(|(_, spec)| self.owners.may_change_device(tenant, spec)).collect();
        let its = |device: &String| {
            come.contains_key(device.as_str()) || self.owners.changes_device(tenant, device)
        };
        let functions = wanted.objects.iter().filter(|object| object.id.kind == Kind::Function);
        let stations = functions.filter_map(|object| object.spec.as_ref()).flat_map(stations_in);
        let stations = Takes { stations: stations.filter(its).count(), ..Takes::default() };
        let more = come.values().map(|spec| KnownDevice::of(spec).takes).sum::<Takes>() + stations;
        if more == Takes::default() {
            return Ok(());
        }
        let named: BTreeSet<&ObjectName> = wanted.objects.iter().map(|object| &object.id).collect();
        let before = self.owners.device_takes(tenant, &BTreeSet::new());
        let after = self.owners.device_takes(tenant, &named) + more;
        let limits = &self.limits;
        for (what, before, found, allowed) in [
            ("devices", before.devices, after.devices, limits.tenant_devices),
            ("bytes of `receive` of devices", before.receive, after.receive, limits.tenant_receive),
            (
                "devices with addresses, and interfaces with addresses at them,",
                before.stations,
                after.stations,
                limits.tenant_stations,
            ),
        ] {
            // What is too much already can become less.
            if found > allowed && found > before {
                return Err(no_room(what, tenant, found, allowed));
            }
        }
        Ok(())
    }

    /// Whether a tenant may have so much more.
    fn room(&self, tenant: &str, created: usize, bytes: usize) -> Result<(), Problem> {
        if created == 0 && bytes == 0 {
            return Ok(());
        }
        let limits = &self.limits;
        let (objects, all) = self.owners.size(tenant);
        let full = |what: &str, found: usize, allowed: usize| Err(no_room(what, tenant, found, allowed));
        if objects + created > limits.tenant_objects {
            return full(
                "functions, groups, devices, chains, wires and observers",
                objects + created,
                limits.tenant_objects,
            );
        }
        if all + bytes > limits.tenant_bytes {
            return full(
                "bytes of specs of functions, groups, devices, chains, wires and observers",
                all + bytes,
                limits.tenant_bytes,
            );
        }
        Ok(())
    }

    fn function(
        &self,
        tenant: &str,
        object: &WantedObject,
        (before, spec): (Option<&Value>, &Value),
        come: &BTreeSet<&str>,
        wrong: &mut Wrong,
    ) -> Result<(), Problem> {
        let at = place(&object.id);
        self.own(tenant, &at, spec, wrong);
        // It may have gone, or become another tenant's, since it was asked for.
        if let Some(name) = &object.snapshot {
            self.snapshot_of(tenant, name)?;
        }
        // What an administrator has written stays; what a snapshot says is checked like what a client says.
        if let Some(ends) = spec.get("attach").and_then(Value::as_object) {
            for (interface, end) in ends {
                let there = before.and_then(|before| before.pointer("/attach")?.get(interface));
                let same = there == Some(end);
                let end = api::attached_to(end).unwrap_or_default();
                let opens = || self.owners.may_open(tenant, &object.id.name, base(end));
                if !same && !self.joins(tenant, base(end), come) && !opens() {
                    wrong.invalid.push(Fault::new(format!("{at}.attach.{interface}"), not_there(end)));
                }
            }
        }
        let confined = self.control.confined(&object.id.name, spec, before);
        wrong.forbidden.extend(confined.into_iter().map(|fault| {
            let inner = if fault.at.is_empty() { at.clone() } else { format!("{at}.{}", fault.at) };
            Fault::new(inner, fault.message)
        }));
        Ok(())
    }

    /// Whether what names its tenant names this one.
    fn own(&self, tenant: &str, at: &str, spec: &Value, wrong: &mut Wrong) {
        if self.owners.tenant_of(spec).as_deref() == Some(tenant) {
            return;
        }
        let found = match spec.get("tenant") {
            Some(named) => format!("found {}", crate::document::found(named)),
            None => "found nothing, which means the default tenant".to_owned(),
        };
        let message = format!("{found}; allowed: `{tenant}`, whose token it is");
        wrong.forbidden.push(Fault::new(format!("{at}.tenant"), message));
    }

    /// A group that is the tenant's, whose rules name groups of the tenant.
    fn group(&self, tenant: &str, id: &ObjectName, spec: &Value, come: &BTreeSet<&str>, wrong: &mut Wrong) {
        let at = place(id);
        self.own(tenant, &at, spec, wrong);
        let rules = spec.get("rules").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for (n, rule) in rules.iter().enumerate() {
            for end in ["from", "to"] {
                let Some(name) = rule.get(end).and_then(|end| end.get("group")?.as_str()) else { continue };
                let named = ObjectName::new(Kind::Group, name);
                if !come.contains(name) && !self.owners.is_of(&named, tenant) {
                    let name = yaml_document::spelling::shown(name);
                    let message = format!("found `{name}`; allowed: groups of `{tenant}`");
                    wrong.invalid.push(Fault::new(format!("{at}.rules[{n}].{end}"), message));
                }
            }
        }
    }

    /// Whether a device that is there is the tenant's to change, or to delete.
    fn kept_device(&self, tenant: &str, id: &ObjectName, before: Option<&Value>, wrong: &mut Wrong) {
        let Some(before) = before.filter(|_| id.kind == Kind::Device) else { return };
        if !self.owners.may_change_device(tenant, before) {
            let message = format!(
                "{id} is as an administrator has made it, with more than a tenant may say, or over ports that are not the \
                 tenant's; allowed: as it is"
            );
            wrong.forbidden.push(Fault::new(place(id), message));
        }
    }

    /// A device of which the tenant may say all that it says, over ports of the tenant that no other's device
    /// is over.
    fn device(&self, tenant: &str, id: &ObjectName, spec: &Value, wrong: &mut Wrong) {
        let at = place(id);
        self.own(tenant, &at, spec, wrong);
        wrong.forbidden.extend(api::kept_from_tenants(spec).into_iter().map(|(key, allowed)| {
            let message = format!("an administrator says this; allowed: {}", allowed.join(", "));
            Fault::new(format!("{at}.{key}"), message)
        }));
        // A name may stand there as often as the document has room for it.
        let mut places = BTreeMap::new();
        for (key, port) in api::ports_under(spec) {
            places.entry(port).or_insert(key);
        }
        let others = self.owners.under_others(tenant, places.keys(), &id.name);
        for (port, key) in places {
            let shown = yaml_document::spelling::shown(&port);
            if !self.owners.is_of(&ObjectName::new(Kind::Port, port.clone()), tenant) {
                let message = format!("found `{shown}`; allowed: ports of `{tenant}`");
                wrong.invalid.push(Fault::new(format!("{at}.{key}"), message));
            } else if others.contains(&port) {
                let message = format!(
                    "a device that is not the tenant's to change is over `{shown}`; allowed: ports of `{tenant}` that no such \
                     device is over"
                );
                wrong.forbidden.push(Fault::new(format!("{at}.{key}"), message));
            }
        }
    }

    fn names(&self, tenant: &str, id: &ObjectName, spec: &Value, come: &BTreeSet<&str>, wrong: &mut Wrong) {
        for name in names_in(id.kind, &id.name, spec) {
            if !self.joins(tenant, &name, come) {
                wrong.invalid.push(Fault::new(place(id), not_there(&name)));
            }
        }
    }

    /// Whether a tenant may connect something with what has this name.
    fn joins(&self, tenant: &str, name: &str, come: &BTreeSet<&str>) -> bool {
        come.contains(name) || self.owners.has(tenant, name)
    }

    /// What a tenant has and may delete, by kind in their order.
    pub fn prunable(&self, tenant: &str) -> Vec<ObjectName> {
        let kinds = Kind::ALL.into_iter().filter(|kind| may_change(tenant, *kind));
        let own = kinds.flat_map(|kind| {
            let names = self.owners.page(tenant, kind, None, usize::MAX);
            names.into_iter().map(move |name| ObjectName::new(kind, name))
        });
        let changes =
            |id: &ObjectName| id.kind != Kind::Device || self.owners.changes_device(tenant, &id.name);
        own.filter(changes).collect()
    }

    /// Of functions, those that a client is shown.
    pub fn shown_functions(&self, rights: &Rights, mut functions: Vec<String>) -> Vec<String> {
        if let Some(tenant) = rights.tenant() {
            functions
                .retain(|name| self.owners.is_of(&ObjectName::new(Kind::Function, name.clone()), tenant));
        }
        functions
    }
}

fn not_there(name: &str) -> String {
    let name = yaml_document::spelling::shown(name);
    format!("found `{name}`; allowed: functions, ports and devices of the tenant")
}
