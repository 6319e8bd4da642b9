//! Whose the objects of a store are that name no tenant.
//!
//! They are the tenant `default`'s. Until 1.0 they were the only tenant's where a store had one tenant alone:
//! what was written then keeps the tenant that it had in effect. [`keep_owners`] sees to that at the start,
//! by writing the tenant into their specs. A store that has a tenant says by a [`Change`] of its own, made
//! together with the first tenant, that its objects are read as they are now; without one, nothing is in
//! doubt.

use crate::control::ObjectChange;
use crate::error::BindError;
use crate::stored::Stored;
use api::{DEFAULT_TENANT, Kind, ObjectName};
use serde_json::{Map, Value, json};
use store::{Change, Store};

/// The kind under which a store says how it is to be read. It is no object: no document names it.
pub(crate) const KIND: &str = "reading";
const NAME: &str = "tenants";

/// What is to be written together with `changes`, beside them.
pub(crate) fn mark(store: &Store, changes: &[ObjectChange]) -> Option<Change> {
    let begins = changes.iter().any(|change| change.kind == Kind::Tenant && change.spec.is_some());
    (begins && store.read(KIND, NAME).is_none()).then(marked)
}

/// Tenants that changes delete: what was theirs is not the next ones' of their names. The default tenant is
/// there without an object, too.
pub fn deleted_tenants(changes: &[ObjectChange]) -> impl Iterator<Item = &str> {
    let gone = changes.iter().filter(|change| change.kind == Kind::Tenant && change.spec.is_none());
    gone.map(|change| change.name.as_str()).filter(|name| *name != DEFAULT_TENANT)
}

/// How many entries of the store are of this module, and no objects.
pub(crate) fn beside(store: &Store) -> u64 {
    u64::from(store.read(KIND, NAME).is_some())
}

fn marked() -> Change {
    Change::put(KIND, NAME, json!({"unnamed": DEFAULT_TENANT}).to_string().into_bytes())
}

/// What was taken over by the only tenant that there was.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub tenant: String,
    pub objects: Vec<ObjectName>,
}

/// Lets the objects of an older store keep their tenant; returns which got it written into their specs.
///
/// # Errors
/// The store does not take it.
pub(crate) fn keep_owners(store: &Store, objects: &mut [ObjectChange]) -> Result<Option<Kept>, BindError> {
    let mut tenants = objects.iter().filter(|object| object.kind == Kind::Tenant);
    let Some(first) = tenants.next().map(|tenant| tenant.name.clone()) else { return Ok(None) };
    let alone = tenants.next().is_none() && first != DEFAULT_TENANT;
    if store.read(KIND, NAME).is_some() {
        return Ok(None);
    }
    let mut writes = vec![marked()];
    let mut kept = Kept { tenant: first, objects: Vec::new() };
    for object in objects.iter_mut().filter(|_| alone) {
        let (Kind::Function | Kind::Port, Some(Value::Object(spec))) = (object.kind, &mut object.spec) else {
            continue;
        };
        if names_one(spec) {
            continue;
        }
        spec.insert("tenant".to_owned(), kept.tenant.clone().into());
        let stored = Stored { spec: Value::Object(spec.clone()), paused: object.paused };
        writes.push(Change::put(object.kind.as_str(), object.name.as_str(), stored.to_bytes()));
        kept.objects.push(ObjectName::new(object.kind, object.name.clone()));
    }
    let written = store.commit(&writes);
    written.map_err(|error| BindError::Tenancy(error.to_string()))?;
    Ok((!kept.objects.is_empty()).then_some(kept))
}

fn names_one(spec: &Map<String, Value>) -> bool {
    spec.get("tenant").is_some_and(|tenant| !tenant.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored;

    fn object(kind: Kind, name: &str, spec: Value) -> Change {
        Change::put(kind.as_str(), name, Stored { spec, paused: name == "slow" }.to_bytes())
    }

    fn specs(store: &Store) -> Vec<(String, Value, bool)> {
        let all = stored::all(store).expect("good objects");
        all.into_iter().map(|object| (object.name, object.spec.expect("is there"), object.paused)).collect()
    }

    /// What is kept of a store with these objects that an older program wrote.
    fn started(objects: &[Change]) -> (Store, tempfile::TempDir, Option<Kept>) {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path()).expect("a store");
        store.commit(objects).expect("commits");
        let mut all = stored::all(&store).expect("good objects");
        let kept = keep_owners(&store, &mut all).expect("commits");
        let now = stored::all(&store).expect("good objects");
        assert_eq!(all, now, "what the server begins with is what is written");
        (store, folder, kept)
    }

    #[test]
    fn objects_of_an_older_store_keep_the_only_tenant_that_they_had() {
        let (store, _folder, kept) = started(&[
            object(Kind::Tenant, "red", json!({})),
            object(Kind::Function, "slow", json!({"image": "forwarder"})),
            object(Kind::Function, "other", json!({"image": "forwarder", "tenant": "red"})),
            object(Kind::Port, "lan", json!({"type": "null"})),
            object(Kind::Switch, "hall", json!({})),
        ]);
        let objects = vec![ObjectName::new(Kind::Port, "lan"), ObjectName::new(Kind::Function, "slow")];
        assert_eq!(kept, Some(Kept { tenant: "red".into(), objects }));
        let mut now = specs(&store);
        now.retain(|(name, ..)| name != "red" && name != "hall");
        assert_eq!(
            now,
            [
                ("lan".into(), json!({"type": "null", "tenant": "red"}), false),
                ("other".into(), json!({"image": "forwarder", "tenant": "red"}), false),
                ("slow".into(), json!({"image": "forwarder", "tenant": "red"}), true),
            ]
        );
        // From now on it is read as it says: nothing is taken over at the next start.
        store.commit(&[object(Kind::Port, "wan", json!({"type": "null"}))]).expect("commits");
        let mut all = stored::all(&store).expect("good objects");
        assert_eq!(keep_owners(&store, &mut all).expect("nothing to do"), None);
    }

    #[test]
    fn without_an_only_tenant_all_that_names_none_is_the_default_ones() {
        for tenants in [&[][..], &["default"], &["blue", "red"], &["default", "red"]] {
            let mut objects = vec![object(Kind::Port, "lan", json!({"type": "null"}))];
            objects.extend(tenants.iter().map(|name| object(Kind::Tenant, name, json!({}))));
            let (store, _folder, kept) = started(&objects);
            assert_eq!(kept, None, "{tenants:?}");
            assert!(specs(&store).contains(&("lan".into(), json!({"type": "null"}), false)), "{tenants:?}");
        }
    }

    #[test]
    fn a_store_says_with_its_first_tenant_how_it_is_read() {
        let (store, _folder, _) = started(&[object(Kind::Port, "lan", json!({"type": "null"}))]);
        let change =
            |kind, spec| ObjectChange { kind, name: "red".into(), spec, paused: false, snapshot: None };
        assert_eq!(mark(&store, &[change(Kind::Port, Some(json!({})))]), None);
        assert_eq!(mark(&store, &[change(Kind::Tenant, None)]), None);
        let begins = [change(Kind::Tenant, Some(json!({})))];
        let written = mark(&store, &begins).expect("the first tenant");
        store.commit(&[written, object(Kind::Tenant, "red", json!({}))]).expect("commits");
        assert_eq!(mark(&store, &begins), None, "once is enough");
        let mut all = stored::all(&store).expect("good objects");
        assert_eq!(keep_owners(&store, &mut all).expect("nothing to do"), None, "the port stays");
        assert_eq!(
            all.iter().find(|object| object.name == "lan").and_then(|o| o.spec.clone()),
            Some(json!({"type": "null"}))
        );
    }
}
