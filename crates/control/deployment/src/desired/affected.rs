//! Changes that are checked with what they touch, and with nothing else.
//!
//! What a change of a function, a port or a wire can make wrong, or has to do, shows in the objects that it
//! affects:
//! 1. It *touches* what it changes and what its wires lead to, before and after it. Of switches, which take
//!    any number of wires, only new ones are touched.
//! 2. Affected are objects that are touched and objects that name one of these: two wires at one end are
//!    found.
//! 3. What those name is affected as well, without its own wires: it must exist.
//! 4. Tenants and workers are always affected.
//!
//! The affected objects do not show what is promised to all: memory is counted, and where shares of cores are
//! reserved all objects are checked. So they are where wires may lead round ([`leads_round`]). The same holds
//! for observers, services, chains and all else that such a change concerns.

use super::document::{DOCUMENT, Part, names_in, tree_of};
use super::naming::Naming;
use super::{Desired, ObjectChange, ObjectKey, keep_same_images, reserves};
use crate::deployed::Deployed;
use crate::material::Material;
use api::Kind;
use config::Catalog as _;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use wiring::{Edge, Endpoint, Plan, Wiring};
use yaml_document::Document;

/// More changes at a time are a file, most of which is new: that is checked as a whole.
const MOST_TOGETHER: usize = 64;
/// What has a name that wires lead to.
const ENDS: [Kind; 3] = [Kind::Port, Kind::Switch, Kind::Function];

/// See the module's documentation.
struct Affected<'a> {
    /// What changes; `None`: it goes.
    changed: BTreeMap<ObjectKey, Option<&'a Value>>,
    /// Names of what is touched.
    touched: BTreeSet<String>,
    /// What stays and is affected, with its wires.
    whole: BTreeMap<(Kind, &'a str), &'a Value>,
}

impl Desired {
    /// Checks changes with what they touch. `None`: everything has to be looked at, also because something is
    /// wrong: what there is to choose from is told with it.
    pub(super) fn check_affected(
        &self,
        changes: &[ObjectChange],
        anew: &[String],
        deployed: &Deployed,
        material: &Material<'_>,
    ) -> Option<Plan> {
        if changes.len() > MOST_TOGETHER || self.reserves > 0 {
            return None;
        }
        let affected = self.affected(changes)?;
        let wiring = config::check_part(DOCUMENT, &self.document_of(&affected), material).ok()?.wiring;
        let (old, mut new) = (affected.running(deployed), affected.wanted(wiring));
        let owners = new.ports.values().map(|port| &port.tenant);
        let mut owners = owners.chain(new.instances.values().map(|instance| &instance.tenant));
        if !owners.all(|tenant| deployed.wiring.tenants.contains_key(tenant))
            || !deployed.has_room_for(
                new.instances.values(),
                old.instances.values(),
                material.memory(),
                |tenant| material.beside(tenant),
            )
        {
            return None;
        }
        if leads_round(&old, &new, deployed) {
            return None;
        }
        keep_same_images(&mut new, &deployed.wiring, material);
        let mut plan = Plan::between(&old, &new);
        for name in anew {
            plan.replace(&new, name);
        }
        Some(plan)
    }

    fn affected<'a>(&'a self, changes: &'a [ObjectChange]) -> Option<Affected<'a>> {
        let (mut changed, mut touched) = (BTreeMap::new(), BTreeSet::new());
        for ObjectChange { kind, name, spec } in changes {
            let key = (*kind, name.clone());
            let before = self.objects.get(*kind, name);
            match kind {
                Kind::Function | Kind::Port
                    if self.has(Kind::Switch, name) || self.has(Kind::Device, name) =>
                {
                    return None;
                }
                Kind::Switch if before.is_some() || self.has(Kind::Device, name) => return None,
                Kind::Function | Kind::Port | Kind::Switch => touched.extend([name.clone()]),
                Kind::Wire => {}
                _ => return None,
            }
            for spec in before.into_iter().chain(spec) {
                let named = names_in(*kind, name, spec);
                // What opens a device is checked with all else that does.
                if named.iter().any(|name| self.has(Kind::Device, name)) {
                    return None;
                }
                touched.extend(named.into_iter().filter(|name| !self.has(Kind::Switch, name)));
            }
            if spec.as_ref().is_some_and(reserves) {
                return None;
            }
            changed.insert(key, spec.as_ref());
        }
        // The ports of a container are not objects, nor are those of a program.
        let is_container = |spec: &Value| api::guest_of(spec).is_launched();
        let containers = changed.values().flatten().any(|spec| is_container(spec));
        if containers || touched.iter().any(|name| self.function_is(name, is_container)) {
            return None;
        }
        let mut whole = BTreeMap::new();
        for name in &touched {
            let by = self.named.get(name).into_iter().flat_map(Naming::iter);
            let itself = ENDS.map(|kind| (kind, name.clone()));
            for key in by.chain(&itself).filter(|key| !changed.contains_key(*key)) {
                if !matches!(key.0, Kind::Function | Kind::Port | Kind::Switch | Kind::Wire | Kind::Chain) {
                    return None;
                }
                let there = self.objects.entry(key.0, &key.1);
                whole.extend(there.map(|(name, spec)| ((key.0, name), spec)));
            }
        }
        Some(Affected { changed, touched, whole })
    }

    fn function_is(&self, name: &str, what: impl Fn(&Value) -> bool) -> bool {
        self.objects.get(Kind::Function, name).is_some_and(what)
    }

    /// The affected objects as a document, after the changes.
    fn document_of(&self, affected: &Affected<'_>) -> Document {
        let always = [Kind::Tenant, Kind::Workers].into_iter().flat_map(|kind| {
            self.objects.of(kind).iter().map(move |(name, spec)| ((kind, name.as_str()), &**spec))
        });
        let wired = affected.whole.iter().map(|(key, spec)| (*key, *spec));
        let changed = affected.changed.iter();
        let changed = changed.filter_map(|((kind, name), spec)| Some(((*kind, name.as_str()), (*spec)?)));
        let whole = always.chain(wired).chain(changed);
        let mut objects: BTreeMap<(Kind, &str), Part<'_>> =
            whole.map(|(key, spec)| (key, Part::whole(spec))).collect();
        let named = objects.iter().flat_map(|((kind, name), part)| names_in(*kind, name, part.spec));
        let named: BTreeSet<String> = named.collect();
        for key in named.into_iter().flat_map(|name| ENDS.map(|kind| (kind, name.clone()))) {
            if affected.changed.contains_key(&key) {
                continue;
            }
            let Some((name, spec)) = self.objects.entry(key.0, &key.1) else { continue };
            objects.entry((key.0, name)).or_insert(Part { spec, bare: key.0 == Kind::Function });
        }
        tree_of(objects.into_iter().map(|((kind, name), part)| (kind, name, part)))
    }
}

/// Most functions that are passed on the way to a switch: what is further is looked at as a whole.
const FAR: usize = 1024;

/// Where one side of a function leads to.
enum Reached<'a> {
    Switch(&'a str),
    /// The function itself, or what is not looked at any further.
    Other,
}

/// Whether what passes a function that wires change comes from a switch, or the function, and back to it, by
/// wires that change or that run. Ways are as long as chains are, and are walked for each of their functions
/// that comes: nothing is copied but the name of the function that is passed.
fn leads_round<'a>(old: &Wiring, new: &'a Wiring, deployed: &'a Deployed) -> bool {
    let ends = new.edges.iter().map(Edge::ends);
    let changed: BTreeMap<&Endpoint, &'a Endpoint> = ends.flat_map(|[a, b]| [(a, b), (b, a)]).collect();
    let peer = |end: &Endpoint| -> Option<&'a Endpoint> {
        changed.get(end).copied().or_else(|| {
            let edge = deployed.wired.get(end).filter(|edge| !old.edges.contains(&***edge))?;
            let [a, b] = edge.ends();
            Some(if a == end { b } else { a })
        })
    };
    // The switch, or the function itself, that is reached by one side of it.
    let reached = |function: &str, side: u16| -> Option<Reached<'a>> {
        let mut out = Endpoint::Interface(function.to_owned(), side);
        for _ in 0..FAR {
            match peer(&out)? {
                Endpoint::Interface(next, number) if next != function && *number < 2 => {
                    out = Endpoint::Interface(next.clone(), 1 - number);
                }
                Endpoint::Port(_) => return None,
                Endpoint::Switch(name) => return Some(Reached::Switch(name)),
                Endpoint::Interface(..) | Endpoint::Device(_) => return Some(Reached::Other),
            }
        }
        Some(Reached::Other)
    };
    let functions: BTreeSet<&str> = new
        .edges
        .iter()
        .flat_map(Edge::ends)
        .filter_map(|end| match end {
            Endpoint::Interface(name, _) => Some(name.as_str()),
            _ => None,
        })
        .collect();
    functions.into_iter().any(|function| match [0, 1].map(|side| reached(function, side)) {
        [Some(Reached::Switch(a)), Some(Reached::Switch(b))] => a == b,
        [Some(Reached::Other), Some(Reached::Other)] => true,
        _ => false,
    })
}

impl Affected<'_> {
    fn changes(&self, kind: Kind, name: &str) -> bool {
        self.changed.contains_key(&(kind, name.to_owned()))
    }

    fn touches(&self, edge: &Edge) -> bool {
        edge.ends().iter().any(|end| self.touched.contains(end.name()))
    }

    /// What is to change, and the wires that may, as they run.
    fn running(&self, deployed: &Deployed) -> Wiring {
        let mut old = Wiring::default();
        for (kind, name) in self.changed.keys() {
            let owned = || name.clone();
            match kind {
                Kind::Port => {
                    old.ports.extend(deployed.wiring.ports.get(name).map(|port| (owned(), port.clone())))
                }
                Kind::Function => {
                    let there = deployed.wiring.instances.get(name);
                    old.instances.extend(there.map(|instance| (owned(), instance.clone())));
                }
                _ => {}
            }
        }
        for name in &self.touched {
            let interfaces = deployed.wiring.instances.get(name).map_or(0, |instance| instance.interfaces);
            let interfaces = (0..interfaces).map(|number| Endpoint::Interface(name.clone(), number));
            let ends = std::iter::once(Endpoint::Port(name.clone())).chain(interfaces);
            old.edges.extend(ends.filter_map(|end| deployed.wired.get(&end).map(|edge| Edge::clone(edge))));
        }
        old
    }

    /// The same as they are to be, of what was read of the document.
    fn wanted(&self, wiring: Wiring) -> Wiring {
        let Wiring { mut ports, mut switches, mut instances, mut edges, .. } = wiring;
        ports.retain(|name, _| self.changes(Kind::Port, name));
        switches.retain(|name, _| self.changes(Kind::Switch, name));
        instances.retain(|name, _| self.changes(Kind::Function, name));
        edges.retain(|edge| self.touches(edge));
        Wiring { ports, switches, instances, edges, ..Wiring::default() }
    }
}
