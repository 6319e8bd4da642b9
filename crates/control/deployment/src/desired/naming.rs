//! The objects that name one of a name.
//!
//! Nearly always it is one: the function that is wired to a function before it. A set of one would take room
//! for eleven keys, for each of tens of thousands of functions.

use super::ObjectKey;
use std::collections::BTreeSet;

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(super) enum Naming {
    One(ObjectKey),
    /// Two and more, or one of what were two.
    Many(BTreeSet<ObjectKey>),
}

impl Naming {
    pub(super) fn insert(&mut self, key: ObjectKey) {
        match self {
            Naming::One(there) if *there == key => {}
            Naming::One(there) => *self = Naming::Many(BTreeSet::from([there.clone(), key])),
            Naming::Many(keys) => drop(keys.insert(key)),
        }
    }

    /// Whether nothing is left.
    pub(super) fn remove(&mut self, key: &ObjectKey) -> bool {
        match self {
            Naming::One(there) => there == key,
            Naming::Many(keys) => {
                keys.remove(key);
                keys.is_empty()
            }
        }
    }

    /// In the order of the keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = &ObjectKey> {
        let (one, many) = match self {
            Naming::One(key) => (Some(key), None),
            Naming::Many(keys) => (None, Some(keys.iter())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Kind;

    #[test]
    fn it_is_a_set_that_is_small_for_one() {
        let key = |name: &str| (Kind::Function, name.to_owned());
        let mut naming = Naming::One(key("b"));
        naming.insert(key("b"));
        assert!(matches!(naming, Naming::One(_)));
        assert!(!naming.clone().remove(&key("a")) && naming.clone().remove(&key("b")));
        naming.insert(key("c"));
        naming.insert(key("a"));
        naming.insert(key("c"));
        let names: Vec<&str> = naming.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert!(!naming.remove(&key("b")) && !naming.remove(&key("a")) && naming.remove(&key("c")));
        assert!(size_of::<Naming>() <= 40, "{}", size_of::<Naming>());
    }
}
