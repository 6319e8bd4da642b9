//! Images of functions, pinned to what they mean before anything is compared.

use crate::claims::Claimed;
use crate::control::{ImageResolution, Images, Work};
use crate::wanted::Wanted;
use api::Kind;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is wanted, with its images pinned.
pub(crate) struct Pinned {
    pub wanted: Wanted,
    /// Those that were not pinned as they were sent.
    pub images: BTreeMap<String, String>,
}

impl Pinned {
    /// What nothing else may change meanwhile.
    pub fn claimed(&self) -> BTreeSet<Claimed> {
        let objects = self.wanted.objects.iter();
        let snapshots = objects.clone().filter_map(|object| object.snapshot.as_ref());
        let snapshots = snapshots.map(|name| Claimed::Snapshot(name.to_string()));
        objects.map(|object| Claimed::Object(object.id.clone())).chain(snapshots).collect()
    }
}

/// What an operation begins with.
pub(crate) enum First {
    /// Its images are not known yet.
    Resolve(Wanted, ImageResolution),
    Work(Arc<Pinned>, Work),
}

impl First {
    pub fn what(&self) -> &str {
        match self {
            First::Resolve(_, resolution) => &resolution.what,
            First::Work(_, work) => &work.what,
        }
    }
}

/// Functions whose images may have to be pinned.
pub(crate) fn functions(wanted: &Wanted) -> Vec<(&str, &Value)> {
    let functions = wanted.objects.iter().filter(|object| object.id.kind == Kind::Function);
    functions.filter_map(|object| Some((object.id.name.as_str(), object.spec.as_ref()?))).collect()
}

/// Writes down what images mean, in the order of [`functions`].
pub(crate) fn pin(mut wanted: Wanted, resolved: Images) -> Pinned {
    let mut images = BTreeMap::new();
    let functions = wanted.objects.iter_mut().filter(|object| object.id.kind == Kind::Function);
    let specs = functions.filter_map(|object| Some((&object.id.name, object.spec.as_mut()?)));
    for ((name, spec), image) in specs.zip(resolved) {
        if let (Value::Object(spec), Some(image)) = (spec, image) {
            images.insert(name.clone(), image.clone());
            spec.insert("image".to_owned(), image.into());
        }
    }
    Pinned { wanted, images }
}
