//! Objects by kind and name.
//!
//! A change looks up what it names as a port, a switch, a device and a function, and most hosts have few of
//! the first three: each kind is a tree of its own, so that one switch is not looked for among ten thousand
//! functions, nor a name copied for it.

use super::ObjectKey;
use api::Kind;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub(super) struct Objects([BTreeMap<String, Arc<Value>>; Kind::ALL.len()]);

impl Objects {
    /// Those of a kind, in the order of their names.
    pub(super) fn of(&self, kind: Kind) -> &BTreeMap<String, Arc<Value>> {
        &self.0[kind as usize]
    }

    pub(super) fn get(&self, kind: Kind, name: &str) -> Option<&Value> {
        self.of(kind).get(name).map(|spec| &**spec)
    }

    /// The same with the name that is kept here.
    pub(super) fn entry(&self, kind: Kind, name: &str) -> Option<(&str, &Value)> {
        self.of(kind).get_key_value(name).map(|(name, spec)| (name.as_str(), &**spec))
    }

    pub(super) fn insert(&mut self, (kind, name): ObjectKey, spec: Value) {
        self.0[kind as usize].insert(name, Arc::new(spec));
    }

    pub(super) fn remove(&mut self, (kind, name): &ObjectKey) -> Option<Arc<Value>> {
        self.0[*kind as usize].remove(name)
    }

    /// All of them, in the order of their kinds and names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Kind, &str, &Value)> {
        Kind::ALL.into_iter().flat_map(move |kind| {
            self.of(kind).iter().map(move |(name, spec)| (kind, name.as_str(), &**spec))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_kind_has_a_place_of_its_own_in_their_order() {
        let mut objects = Objects::default();
        for kind in Kind::ALL.into_iter().rev() {
            for name in ["b", "a"] {
                objects.insert((kind, name.to_owned()), json!(kind.as_str()));
            }
        }
        let found: Vec<(Kind, String)> =
            objects.iter().map(|(kind, name, _)| (kind, name.to_owned())).collect();
        let mut expected: Vec<(Kind, String)> =
            Kind::ALL.into_iter().flat_map(|kind| ["a", "b"].map(|name| (kind, name.to_owned()))).collect();
        assert_eq!(found, expected);
        expected.sort();
        assert_eq!(found, expected, "as kinds are compared");
        assert!(objects.iter().all(|(kind, _, spec)| *spec == kind.as_str()));
        assert_eq!(objects.remove(&(Kind::Port, "a".to_owned())).as_deref(), Some(&json!("port")));
        assert!(objects.get(Kind::Port, "a").is_none() && objects.get(Kind::Port, "b").is_some());
        assert_eq!(objects.entry(Kind::Wire, "a"), Some(("a", &json!("wire"))));
    }
}
