//! `superfluid get --watch`: a list, and then each object of it that changes.
//!
//! 1. The stream of events begins before the list is asked for, so that nothing is missed between the two;
//!    what changed in between is shown twice.
//! 2. An event names an object. It is read, and shown as it is by then: as a row below the list, or as a line
//!    of JSON.

use super::columns;
use super::events::{ended, streamed};
use super::failure::{Done, Failure, print};
use crate::Outcome;
use crate::output::{Format, Listing};
use api::{DEFAULT_TENANT, Event, Happened, Kind, Object, ObjectName, ProblemType};
use client::{Client, ClientError, harmless};
use serde_json::{Value, json};

/// What is watched: objects of one kind, or of any.
pub(crate) struct Watched<'a> {
    pub(crate) kind: Option<Kind>,
    /// These alone; all without any.
    pub(crate) objects: &'a [ObjectName],
    /// Of this tenant alone.
    pub(crate) tenant: Option<&'a str>,
}

impl Watched<'_> {
    fn has(&self, kind: Kind, name: &str) -> bool {
        let of_kind = self.kind.is_none_or(|watched| watched == kind);
        let named = |id: &ObjectName| id.kind == kind && *id.name == *name;
        of_kind && (self.objects.is_empty() || self.objects.iter().any(named))
    }

    fn listing(&self, objects: &[Object]) -> Listing {
        match self.kind {
            Some(kind) => columns::objects(kind, objects),
            None => columns::mixed(objects),
        }
    }
}

/// Shows what `list` gives, and what changes of it from then on, until the stream ends.
pub(crate) fn watch(
    client: &Client,
    watched: &Watched<'_>,
    format: Format,
    list: impl FnOnce() -> Result<Vec<Object>, Failure>,
) -> Done {
    let events = client.events(None, true)?;
    let mut listing = watched.listing(&list()?);
    match format {
        Format::Json => {
            listing.objects().iter().try_for_each(|object| shown(&streamed(object.clone(), format)))?
        }
        // A list of nothing would be closed: what comes next could not go on with it.
        Format::Yaml if listing.objects().is_empty() => {}
        _ => shown(&listing.printed(format))?,
    }
    for event in events {
        let (kind, name, deleted) = match event? {
            Event::Changed { kind, name, happened, .. } => (kind, name, happened == Happened::Deleted),
            Event::Notice { kind, name, .. } => (kind, name, false),
            Event::Gone { .. } => {
                let wrong = "the changes went by too fast; begin again to see what there is";
                return Err(Failure::new(wrong, Outcome::Failed));
            }
            Event::Lost { .. } | Event::Alive { .. } => continue,
        };
        if !watched.has(kind, &name) {
            continue;
        }
        let object = if deleted { None } else { there(client.object(kind, &name))? };
        match object {
            Some(object) => {
                let of = object.spec.get("tenant").and_then(Value::as_str).unwrap_or(DEFAULT_TENANT);
                if watched.tenant.is_none_or(|tenant| tenant == of) {
                    let one = watched.listing(std::slice::from_ref(&object));
                    shown(&match format {
                        Format::Table | Format::Wide => listing.row_below(&one, format),
                        _ => streamed(json!(object), format),
                    })?;
                }
            }
            // Whose it was is not known any more.
            None => shown(&match format {
                Format::Table | Format::Wide => {
                    let id = ObjectName::new(kind, name.clone()).to_string();
                    let name = if watched.kind.is_some() { name } else { id };
                    format!("{} deleted\n", harmless(&name, 100))
                }
                _ => streamed(json!({"kind": kind, "name": name, "deleted": true}), format),
            })?,
        }
    }
    ended(true)
}

fn shown(text: &str) -> Result<(), Failure> {
    print(text).map(drop)
}

/// An object, if it is still there.
fn there(asked: Result<Object, ClientError>) -> Result<Option<Object>, ClientError> {
    match asked {
        Err(error) if error.problem().and_then(api::Problem::problem_type) == Some(ProblemType::NotFound) => {
            Ok(None)
        }
        asked => asked.map(Some),
    }
}
