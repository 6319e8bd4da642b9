//! `superfluid get`: lists.

use super::columns;
use super::document::document_of;
use super::failure::{Done, Failure, print};
use super::kinds::{Listed, Meant, meant};
use super::options::GetOptions;
use super::watch::{Watched, watch};
use crate::Outcome;
use crate::output::{Format, Listing, one};
use api::{Kind, Object, ObjectName, ProblemType};
use client::{Client, ClientError, Page};
use serde_json::json;
use yaml_document::spelling;

pub(crate) fn get(options: &GetOptions) -> Done {
    let all = meant(&options.what).map_err(|wrong| Failure::new(wrong, Outcome::BadInput))?;
    let of_tenants = |listed: &Listed| matches!(listed, Listed::Objects(Kind::Function | Kind::Port));
    if options.tenant.is_some() && !all.iter().all(|meant| of_tenants(&meant.kind) && meant.names.is_empty())
    {
        let wrong = "--tenant chooses among all functions or all ports; allowed: get functions, get ports";
        return Err(Failure::new(wrong, Outcome::BadInput));
    }
    let client = options.connection.client()?;
    let format = options.shown.output;
    if options.watch {
        return watched(&client, &all, options.tenant.as_deref(), format);
    }
    if options.document {
        return document(&client, &all, options.tenant.as_deref(), format);
    }
    if let [Meant { kind, names }] = all.as_slice() {
        return of_one_kind(&client, *kind, names, options.tenant.as_deref(), format);
    }
    let mut objects = Vec::new();
    for Meant { kind, names } in &all {
        match kind {
            Listed::Objects(kind) => objects.extend(named(&client, *kind, names)?),
            _ => {
                let wrong = "images, snapshots and operations are listed alone";
                return Err(Failure::new(wrong, Outcome::BadInput));
            }
        }
    }
    print(&columns::mixed(&objects).printed(format))
}

/// Shows what they are to be, as one document.
fn document(client: &Client, all: &[Meant], tenant: Option<&str>, format: Format) -> Done {
    let mut objects = Vec::new();
    for Meant { kind, names } in all {
        match (kind, names.as_slice()) {
            (Listed::All, _) => objects.extend(everything(client)?),
            (Listed::Objects(kind), []) => objects.extend(client.all(*kind, tenant)?),
            (Listed::Objects(kind), names) => objects.extend(named(client, *kind, names)?),
            _ => {
                let wrong = "images, snapshots and operations stand in no document; allowed: kinds of objects, and all";
                return Err(Failure::new(wrong, Outcome::BadInput));
            }
        }
    }
    objects.sort_by_key(|object| object.kind);
    let objects: Vec<_> =
        objects.into_iter().map(|object| (ObjectName::new(object.kind, object.name), object.spec)).collect();
    let document = document_of(objects.iter().map(|(id, spec)| (id, spec)));
    let format = if format == Format::Json { format } else { Format::Yaml };
    print(&one(&document, format))
}

/// Shows them, and what changes of them.
fn watched(client: &Client, all: &[Meant], tenant: Option<&str>, format: Format) -> Done {
    let alone = || {
        let wrong = "images, snapshots and operations cannot be watched; allowed: kinds of objects, and all";
        Failure::new(wrong, Outcome::BadInput)
    };
    if let [Meant { kind: Listed::All, .. }] = all {
        let watched = Watched { kind: None, objects: &[], tenant };
        return watch(client, &watched, format, || everything(client));
    }
    let mut objects = Vec::new();
    for Meant { kind, names } in all {
        let Listed::Objects(kind) = kind else { return Err(alone()) };
        for name in names {
            let name = api::check_name(*kind, name)
                .map_err(|error| Failure::new(format_args!("{kind}: {error}"), Outcome::BadInput))?;
            objects.push(ObjectName::new(*kind, name.into_owned()));
        }
    }
    let kind = match all {
        [Meant { kind: Listed::Objects(kind), .. }] => Some(*kind),
        _ => None,
    };
    let watched = Watched { kind, objects: &objects, tenant };
    watch(client, &watched, format, || match (kind, objects.as_slice()) {
        (Some(kind), []) => Ok(client.all(kind, tenant)?),
        (_, named) => {
            let one = |id: &ObjectName| {
                client.object(id.kind, &id.name).map_err(|error| not_found(client, id.kind, &id.name, error))
            };
            named.iter().map(one).collect()
        }
    })
}

/// All objects.
fn everything(client: &Client) -> Result<Vec<Object>, Failure> {
    let mut objects = Vec::new();
    for kind in Kind::ALL {
        objects.extend(client.all(kind, None)?);
    }
    Ok(objects)
}

fn of_one_kind(
    client: &Client,
    kind: Listed,
    names: &[String],
    tenant: Option<&str>,
    format: Format,
) -> Done {
    let listing = match kind {
        Listed::Objects(kind) => {
            let objects = match names {
                [] => client.all(kind, tenant)?,
                names => named(client, kind, names)?,
            };
            if let ([_], [object], Format::Json | Format::Yaml) = (names, objects.as_slice(), format) {
                return print(&one(&json!(object), format));
            }
            columns::objects(kind, &objects)
        }
        Listed::All => columns::mixed(&everything(client)?),
        Listed::Images => {
            chosen(client.images()?, names, |image| &image.reference, "image", columns::images)?
        }
        Listed::Snapshots => {
            chosen(client.snapshots()?, names, |saved| &saved.name, "snapshot", columns::snapshots)?
        }
        Listed::Operations => {
            chosen(client.operations()?, names, |operation| &operation.id, "operation", columns::operations)?
        }
    };
    print(&listing.printed(format))
}

/// Those of a list that have one of these names; all of them without names.
fn chosen<T>(
    mut all: Vec<T>,
    names: &[String],
    name_of: impl Fn(&T) -> &str,
    what: &str,
    listing: impl Fn(&[T]) -> Listing,
) -> Result<Listing, Failure> {
    for name in names {
        if !all.iter().any(|one| name_of(one) == name.as_str()) {
            let meant = near(name, all.iter().map(&name_of));
            let name = spelling::shown(name);
            return Err(Failure::new(format_args!("there is no {what} `{name}`{meant}"), Outcome::Failed));
        }
    }
    all.retain(|one| names.is_empty() || names.iter().any(|name| name.as_str() == name_of(one)));
    Ok(listing(&all))
}

fn named(client: &Client, kind: Kind, names: &[String]) -> Result<Vec<Object>, Failure> {
    let object = |name: &String| {
        let name = api::check_name(kind, name)
            .map_err(|error| Failure::new(format_args!("{kind}: {error}"), Outcome::BadInput))?;
        client.object(kind, &name).map_err(|error| not_found(client, kind, &name, error))
    };
    names.iter().map(object).collect()
}

/// The same error; where an object is not there, with the name that was probably meant.
pub(crate) fn not_found(client: &Client, kind: Kind, name: &str, error: ClientError) -> Failure {
    let missing = error.problem().and_then(api::Problem::problem_type) == Some(ProblemType::NotFound);
    let there = match missing {
        true => client.list(kind, &Page { limit: Some(1000), ..Page::default() }).ok(),
        false => None,
    };
    let near = there.map(|list| near(name, list.items.iter().map(|object| object.name.as_str())));
    Failure::from(error).with(&near.unwrap_or_default())
}

/// What was meant by a name; nothing by one that is there, which is not what is missing then.
fn near<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    spelling::nearest(name, names)
        .filter(|near| *near != name)
        .map(|near| format!("; did you mean `{}`?", spelling::shown(near)))
        .unwrap_or_default()
}
