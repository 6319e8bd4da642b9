//! Objects as they are in the store.

use crate::control::ObjectChange;
use crate::error::BindError;
use crate::{logins, tenancy, tokens};
use api::{Kind, Object, check_name};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::Store;

/// What is written of an object beside kind, name and version, as JSON. A version of the program that does
/// not know all of it does not start, rather than lose some.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stored {
    /// What the object is to be.
    pub spec: Value,
    /// A function that was paused by request.
    #[serde(default)]
    pub paused: bool,
}

/// The same, as it is written: without a copy of the spec.
#[derive(Serialize)]
struct Written<'a> {
    spec: &'a Value,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    paused: bool,
}

/// What is written of an object with this spec.
pub(crate) fn written(spec: &Value, paused: bool) -> Vec<u8> {
    // Text, numbers and maps with keys of text can always be written.
    serde_json::to_vec(&Written { spec, paused }).unwrap_or_default()
}

impl Stored {
    pub fn to_bytes(&self) -> Vec<u8> {
        written(&self.spec, self.paused)
    }

    /// Of an object that this process wrote, or read when it started.
    pub fn of(object: &store::Object) -> Stored {
        #[cfg(test)]
        if object.value.len() > crate::state::SMALL {
            LARGE_HERE.set(LARGE_HERE.get() + 1);
        }
        serde_json::from_slice(&object.value).unwrap_or(Stored { spec: Value::Null, paused: false })
    }
}

#[cfg(test)]
thread_local! {
    /// Large objects that this thread has taken apart.
    pub(crate) static LARGE_HERE: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// What an object of the store is to be; `None` when that cannot be read.
pub fn spec_of(object: &store::Object) -> Option<Value> {
    serde_json::from_slice::<Stored>(&object.value).ok().map(|stored| stored.spec)
}

/// An object as it is answered, without its status.
pub(crate) fn answered(kind: Kind, object: &store::Object) -> Object {
    let Stored { spec, .. } = Stored::of(object);
    Object { kind, name: object.name.to_string(), version: object.version.0, spec, status: None }
}

/// All that is in the store, checked, in the order of [`Kind::ALL`].
pub(crate) fn all(store: &Store) -> Result<Vec<ObjectChange>, BindError> {
    let wrong =
        |kind: &str, name: &str, what: String| BindError::Object { object: format!("{kind}/{name}"), what };
    for (kind, _) in store.kinds() {
        if Kind::from_name(&kind).is_none() && ![tokens::KIND, tenancy::KIND, logins::KIND].contains(&&*kind)
        {
            let known: Vec<_> = Kind::ALL.map(Kind::as_str).into();
            return Err(wrong(&kind, "", format!("found this kind; allowed: {}", known.join(", "))));
        }
    }
    let mut all = Vec::new();
    for kind in Kind::ALL {
        let mut from = String::new();
        loop {
            let page = store.list(kind.as_str(), &from, store::PAGE_MAX);
            for object in page.objects {
                let name = object.name.to_string();
                match check_name(kind, &name) {
                    Ok(checked) if checked == name => {}
                    Ok(checked) => {
                        return Err(wrong(
                            kind.as_str(),
                            &name,
                            format!("found this name; allowed: `{checked}`"),
                        ));
                    }
                    Err(error) => return Err(wrong(kind.as_str(), &name, error.to_string())),
                }
                let stored: Stored = serde_json::from_slice(&object.value)
                    .map_err(|error| wrong(kind.as_str(), &name, format!("cannot be read: {error}")))?;
                all.push(ObjectChange {
                    kind,
                    name,
                    spec: Some(stored.spec),
                    paused: stored.paused,
                    snapshot: None,
                });
            }
            match page.next {
                Some(next) => from = next.to_string(),
                None => break,
            }
        }
    }
    Ok(all)
}
