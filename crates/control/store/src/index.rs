//! All objects in memory, in order: what reads are answered from, whatever the disk does.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::object::{Object, Revision};
use crate::settings::PAGE_MAX;

/// What an object takes in memory beside its name and its value, about.
const OVERHEAD: u64 = 160;

/// An object in memory.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The revision at which it was last written.
    pub version: Revision,
    /// Its bytes.
    pub value: Arc<[u8]>,
    /// Its row in the table.
    pub slot: i64,
    /// The checksum of the row.
    pub checksum: u64,
}

/// The objects by kind and name.
#[derive(Debug, Default)]
pub(crate) struct Index {
    kinds: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Entry>>,
    objects: u64,
    bytes: u64,
}

/// Bytes that an object takes in memory, about.
pub(crate) fn weight(name: &str, value: &[u8]) -> u64 {
    (name.len() + value.len()) as u64 + OVERHEAD
}

impl Index {
    pub fn get(&self, kind: &str, name: &str) -> Option<&Entry> {
        self.kinds.get(kind)?.get(name)
    }

    /// Puts an entry and gives back the one that was there.
    pub fn put(&mut self, kind: &Arc<str>, name: &Arc<str>, entry: Entry) -> Option<Entry> {
        self.bytes += weight(name, &entry.value);
        self.objects += 1;
        let names = match self.kinds.get_mut(kind) {
            Some(names) => names,
            None => self.kinds.entry(kind.clone()).or_default(),
        };
        let before = names.insert(name.clone(), entry);
        self.forget(name, before.as_ref());
        before
    }

    pub fn remove(&mut self, kind: &str, name: &str) -> Option<Entry> {
        let names = self.kinds.get_mut(kind)?;
        let before = names.remove(name);
        if names.is_empty() {
            self.kinds.remove(kind);
        }
        self.forget(name, before.as_ref());
        before
    }

    fn forget(&mut self, name: &str, entry: Option<&Entry>) {
        if let Some(entry) = entry {
            self.bytes -= weight(name, &entry.value);
            self.objects -= 1;
        }
    }

    /// The object, as callers see it.
    pub fn object(&self, kind: &str, name: &str) -> Option<Object> {
        let (kind, names) = self.kinds.get_key_value(kind)?;
        let (name, entry) = names.get_key_value(name)?;
        Some(object(kind, name, entry))
    }

    /// Up to `limit` objects from the name `from` on, and the name after them.
    pub fn page(&self, kind: &str, from: &str, limit: usize) -> (Vec<Object>, Option<Arc<str>>) {
        let Some((kind, names)) = self.kinds.get_key_value(kind) else { return (Vec::new(), None) };
        let mut rest = names.range::<str, _>((Bound::Included(from), Bound::Unbounded));
        let limit = limit.min(PAGE_MAX);
        let objects = rest.by_ref().take(limit).map(|(name, entry)| object(kind, name, entry)).collect();
        (objects, rest.next().map(|(name, _)| name.clone()))
    }

    /// Each kind of which there are objects, with their number.
    pub fn kinds(&self) -> Vec<(Arc<str>, usize)> {
        self.kinds.iter().map(|(kind, names)| (kind.clone(), names.len())).collect()
    }

    pub fn objects(&self) -> u64 {
        self.objects
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn object(kind: &Arc<str>, name: &Arc<str>, entry: &Entry) -> Object {
    Object { kind: kind.clone(), name: name.clone(), version: entry.version, value: entry.value.clone() }
}
