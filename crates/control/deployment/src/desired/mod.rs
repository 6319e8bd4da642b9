//! What the operator wants, as objects: the entries of the operator's file, each by its kind and name.
//!
//! A change is checked as the file would be that it makes of them: the objects are put together to a
//! document, and `config` says what is wrong with it. A few functions, ports, wires and new switches are
//! checked with those objects only that they touch ([`affected`]), so that a change costs the same beside ten
//! functions and beside ten thousand. What is wrong with a change is always told by the check of the whole.

mod affected;
mod document;
mod naming;
mod objects;
mod own;

use crate::Host;
use crate::material::Material;
use crate::prepare::WORKERS_LATER;
use api::{Fault, FaultKind, GuestKind, Kind};
use document::{DOCUMENT, Part, names_in, tree_of};
use manifest::Manifest;
use naming::Naming;
use objects::Objects;
use schema::Schema;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use wiring::{Claimant, Plan, Wiring};
use yaml_document::Document;

/// What becomes of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectChange {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// What it is to be, as in the operator's file; `None`: it is deleted.
    pub spec: Option<Value>,
}

/// Kind and name of an object.
type ObjectKey = (Kind, String);

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub struct Desired {
    /// A copy of all of it has the specs in common: one is looked at for as long as a check takes, a tenant's
    /// at a low priority, and a change is taken over meanwhile.
    objects: Objects,
    /// The objects that name one of this name.
    named: HashMap<String, Naming>,
    /// Objects that ask for a part of a core that they are sure to get.
    reserves: usize,
}

/// A change that fits.
#[derive(Clone, Debug)]
pub struct Checked {
    /// How to get there from what runs.
    pub plan: Plan,
    /// What is allowed but probably not meant; none is told of a change of which only a part was looked at.
    pub warnings: Vec<Fault>,
}

impl Desired {
    /// Takes changes over that were carried out.
    pub fn take_over(&mut self, changes: impl IntoIterator<Item = ObjectChange>) {
        for ObjectChange { kind, name, spec } in changes {
            let key = (kind, name);
            if let Some(before) = self.objects.remove(&key) {
                self.forget(&key, &before);
            }
            if let Some(spec) = spec {
                self.note(&key, &spec);
                self.objects.insert(key, spec);
            }
        }
    }

    fn note(&mut self, key: &ObjectKey, spec: &Value) {
        for name in names_in(key.0, &key.1, spec) {
            match self.named.get_mut(&name) {
                Some(by) => by.insert(key.clone()),
                None => drop(self.named.insert(name, Naming::One(key.clone()))),
            }
        }
        self.reserves += usize::from(reserves(spec));
    }

    fn forget(&mut self, key: &ObjectKey, spec: &Value) {
        for name in names_in(key.0, &key.1, spec) {
            if self.named.get_mut(&name).is_some_and(|by| by.remove(key)) {
                self.named.remove(&name);
            }
        }
        self.reserves -= usize::from(reserves(spec));
    }

    /// What an object is to be.
    pub fn spec(&self, kind: Kind, name: &str) -> Option<Value> {
        self.objects.get(kind, name).cloned()
    }

    /// What the images of functions are called, one for each function in the sandbox.
    pub fn images(&self) -> impl Iterator<Item = &str> {
        self.objects.of(Kind::Function).values().filter_map(|spec| image_of(spec))
    }

    /// What the images of a tenant's functions are called, one for each function.
    pub fn images_of(&self, tenant: &str) -> impl Iterator<Item = &str> {
        let functions = self.objects.of(Kind::Function).values();
        let own = functions.filter(move |spec| own::tenant_in(spec) == tenant);
        own.filter_map(|spec| image_of(spec))
    }

    /// Tenants, and what the images of their containers are called, one for each container.
    pub fn container_images(&self) -> impl Iterator<Item = (&str, &str)> {
        let functions = self.objects.of(Kind::Function).values();
        let containers = functions.filter(|spec| api::guest_of(spec) == GuestKind::Container);
        containers.filter_map(|spec| Some((own::tenant_in(spec), spec.get("image")?.as_str()?)))
    }

    /// Whether there is an object of this name.
    pub fn has(&self, kind: Kind, name: &str) -> bool {
        self.objects.of(kind).contains_key(name)
    }

    /// Checks changes against all else that is wanted and what runs. Functions that are to begin `anew` do,
    /// even if nothing about them changes. Nothing is read for it: if `material` lacks something, the outcome
    /// means nothing, and it is to be [gathered](Material::gather).
    ///
    /// # Errors
    /// All that is wrong, each with its place, such as `functions.fw.config.rules[2].action`.
    pub fn check(
        &self,
        changes: &[ObjectChange],
        anew: &[String],
        host: &Host,
        material: &Material<'_>,
    ) -> Result<Checked, Vec<Fault>> {
        if let Some(plan) = self.check_affected(changes, anew, &host.deployed(), material) {
            return Ok(Checked { plan, warnings: Vec::new() });
        }
        // All of it takes its time, for which others look at what runs.
        let runs = host.wiring();
        let mut next = self.clone();
        next.take_over(changes.iter().cloned());
        let running = Running { material, runs: &runs, changes };
        let (mut wiring, mut warnings) = read(&next.document(), &running)?;
        keep_same_images(&mut wiring, &runs, material);
        let mut plan = Plan::between(&runs, &wiring);
        for name in anew {
            plan.replace(&wiring, name);
        }
        if plan.workers.as_ref().is_some_and(|workers| workers != host.workers()) {
            warnings.push(Fault::new("workers", WORKERS_LATER));
        }
        Ok(Checked { plan, warnings })
    }

    /// All objects as one document.
    fn document(&self) -> Document {
        tree_of(self.objects.iter().map(|(kind, name, spec)| (kind, name, Part::whole(spec))))
    }
}

/// The image of a function that runs in the sandbox.
fn image_of(spec: &Value) -> Option<&str> {
    spec.get("image")?.as_str().filter(|_| api::guest_of(spec) == GuestKind::Wasm)
}

/// Whether an object asks for a part of a core that it is sure to get.
fn reserves(spec: &Value) -> bool {
    spec.get("cpu").is_some_and(|cpu| cpu.get("reserve").is_some())
}

/// The catalog, and what runs already: of the claims on memory, those of what runs come first.
struct Running<'a> {
    material: &'a Material<'a>,
    runs: &'a Wiring,
    changes: &'a [ObjectChange],
}

impl config::Catalog for Running<'_> {
    fn image(&self, reference: &str) -> Result<Arc<Manifest>, String> {
        self.material.image(reference)
    }

    fn file(&self, path: &str, most: u64) -> Result<Vec<u8>, String> {
        self.material.file(path, most)
    }

    fn container_image(&self, text: &str) -> Result<(), String> {
        self.material.container_image(text)
    }

    fn image_names(&self) -> Vec<&str> {
        self.material.image_names()
    }

    fn driver(&self, name: &str) -> Option<&Schema> {
        self.material.driver(name)
    }

    fn check_port(
        &self,
        driver: &str,
        settings: &schema::Value,
        fault: Option<&schema::Value>,
    ) -> Result<(), String> {
        self.material.check_port(driver, settings, fault)
    }

    fn faults(&self) -> &Schema {
        self.material.faults()
    }

    fn driver_names(&self) -> Vec<&str> {
        self.material.driver_names()
    }

    fn processors(&self) -> Vec<usize> {
        self.material.processors()
    }

    fn memory(&self) -> Option<u64> {
        self.material.memory()
    }

    fn beside(&self, tenant: &str) -> u64 {
        self.material.beside(tenant)
    }

    fn is_there(&self, whose: &Claimant) -> bool {
        let (kind, name, is_there) = match whose {
            Claimant::Tenant(name) => (Kind::Tenant, name, self.runs.tenants.contains_key(name)),
            Claimant::Instance(name) => {
                let runs = self.runs.instances.contains_key(name) || self.runs.containers.contains_key(name);
                (Kind::Function, name, runs)
            }
        };
        is_there && !self.changes.iter().any(|change| change.kind == kind && &change.name == name)
    }
}

/// A function whose image is named otherwise than before, and is the same, goes on with it.
fn keep_same_images(wiring: &mut Wiring, runs: &Wiring, material: &Material<'_>) {
    let digest = |image: &str| material.load(image).ok().map(|image| image.digest());
    for (name, instance) in &mut wiring.instances {
        let Some(there) = runs.instances.get(name).filter(|there| there.image != instance.image) else {
            continue;
        };
        let found = digest(&instance.image);
        if found.is_some() && found == digest(&there.image) {
            instance.image.clone_from(&there.image);
        }
    }
}

/// A fault of a document, as one found by a look at all objects.
fn told(fault: yaml_document::Fault) -> Fault {
    let kind = match fault.kind {
        yaml_document::FaultKind::Value => FaultKind::Value,
        yaml_document::FaultKind::UnknownKey => FaultKind::UnknownKey,
        yaml_document::FaultKind::NotFound { sections, name } => {
            let kinds = Kind::ALL.into_iter().filter(|kind| sections.contains(&kind.plural())).collect();
            FaultKind::NotFound { kinds, name: name.into() }
        }
    };
    Fault { kind, ..Fault::new(fault.key, fault.message) }
}

/// Reads a document as the operator's file.
fn read(document: &Document, catalog: &dyn config::Catalog) -> Result<(Wiring, Vec<Fault>), Vec<Fault>> {
    match config::check_document(DOCUMENT, document, catalog) {
        Ok(read) => Ok((read.wiring, read.warnings.into_iter().map(told).collect())),
        Err(faults) => Err(faults.into_iter().map(told).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployed::Deployed;
    use serde_json::json;

    #[test]
    fn what_is_taken_over_beside_a_look_copies_no_spec() {
        let put = |name: &str| ObjectChange {
            kind: Kind::Function,
            name: name.to_owned(),
            spec: Some(json!({"image": "forwarder", "config": vec!["x"; 1000]})),
        };
        let mut desired = Desired::default();
        desired.take_over([put("a"), put("b")]);
        let looked_at = desired.clone();
        desired.take_over([put("b")]);
        let same = |name: &str| {
            let of = |desired: &Desired| desired.objects.of(Kind::Function)[name].clone();
            Arc::ptr_eq(&of(&desired), &of(&looked_at))
        };
        assert!(same("a") && !same("b"));
    }

    /// A change checked with what it touches, beside the same checked with all objects:
    /// `cargo test --release -p deployment --lib -- --ignored --nocapture what_checks_cost`.
    #[test]
    #[ignore = "prints what checks cost"]
    fn what_checks_cost() {
        let catalog = crate::catalog::Catalog::new(std::path::Path::new("."));
        let put = |name: &str| ObjectChange {
            kind: Kind::Function,
            name: name.to_owned(),
            spec: Some(json!({"image": "forwarder"})),
        };
        let median = |mut took: Vec<std::time::Duration>| {
            took.sort();
            took[took.len() / 2]
        };
        for count in [10, 100, 1_000, 10_000] {
            let mut desired = Desired::default();
            desired.take_over((0..count).map(|n| put(&format!("f{n}"))));
            let (material, changes) = (Material::of(&catalog), [put("new")]);
            let read_all = |desired: &Desired, runs: &Wiring| {
                let running = Running { material: &material, runs, changes: &changes };
                read(&desired.document(), &running).ok()
            };
            let _ = read_all(&desired, &Wiring::default());
            material.gather();
            let (wiring, _) = read_all(&desired, &Wiring::default()).expect("nothing is wrong");
            let deployed = Deployed { wiring: wiring.into(), ..Deployed::default() };
            let (mut affected, mut all) = (Vec::new(), Vec::new());
            for _ in 0..21 {
                let began = std::time::Instant::now();
                let plan = desired.check_affected(&changes, &[], &deployed, &material);
                affected.push(began.elapsed());
                assert_eq!(plan.expect("it is enough").add_instances.len(), 1);
            }
            for _ in 0..21 {
                let began = std::time::Instant::now();
                let mut next = desired.clone();
                next.take_over(changes.iter().cloned());
                let (wiring, _) = read_all(&next, &deployed.wiring).expect("nothing is wrong");
                let plan = Plan::between(&deployed.wiring, &wiring);
                all.push(began.elapsed());
                assert_eq!(plan.add_instances.len(), 1);
            }
            let (affected, all) = (median(affected), median(all));
            println!(
                "one function more than {count}: {affected:.0?} with what it touches, {all:.0?} with all"
            );
        }
    }
}
