//! `superfluid delete`: by name, or as a file names them.

use super::change::{Acts, Made};
use super::document::File;
use super::failure::{Done, Failure, print};
use super::get::not_found;
use super::kinds::objects;
use super::options::DeleteOptions;
use crate::Outcome;
use crate::output::Format;
use crate::progress::Progress;
use api::{ObjectName, ProblemType};
use client::Client;

pub(crate) fn delete(options: &DeleteOptions) -> Done {
    let named: Vec<ObjectName> = match &options.file {
        // Those first that others are not made from.
        Some(file) => File::read(file)?.objects().iter().rev().cloned().collect(),
        None => {
            let named = objects(&options.what).map_err(|wrong| Failure::new(wrong, Outcome::BadInput))?;
            let mut named: Vec<_> =
                named.into_iter().map(|(kind, name)| ObjectName::new(kind, name)).collect();
            named.sort_by_key(|name| std::cmp::Reverse(name.kind));
            named
        }
    };
    let client = options.connection.client()?;
    let mut acts = Acts::new();
    let ended = all(&client, named, options, &mut acts);
    let shown = acts.print(options.shown.output);
    ended.map(|()| shown)
}

/// What came of one.
enum Deleted {
    /// It is gone, or goes.
    Gone,
    /// Another object needs it: why it stays.
    Needed(Failure),
}

/// Deletes them. Of one kind, too, some need others: those that are needed come after the rest, as long as
/// that goes on.
fn all(
    client: &Client,
    mut left: Vec<ObjectName>,
    options: &DeleteOptions,
    acts: &mut Acts,
) -> Result<(), Failure> {
    loop {
        let (before, mut needed, mut first) = (left.len(), Vec::new(), None);
        for name in left {
            if let Deleted::Needed(why) = one(client, &name, options, acts)? {
                first.get_or_insert(why);
                needed.push(name);
            }
        }
        match first {
            None => return Ok(()),
            Some(why) if needed.len() == before => return Err(why),
            // The other way round: a row of them takes two turns, whichever of its ends comes first.
            Some(_) => left = needed.into_iter().rev().collect(),
        }
    }
}

fn one(
    client: &Client,
    name: &ObjectName,
    options: &DeleteOptions,
    acts: &mut Acts,
) -> Result<Deleted, Failure> {
    let progress = Progress::begin(&format!("deleting {name}"), options.shown.output);
    let answer = match client.delete(name.kind, &name.name, &options.waiting.change()) {
        Ok(answer) => answer,
        Err(error) => {
            let kind = error.problem().and_then(api::Problem::problem_type);
            let faults = error.problem().is_some_and(|problem| !problem.faults.is_empty());
            if kind == Some(ProblemType::Conflict) && faults {
                // The faults are of those that name it.
                let why = Failure::from(error).below(&format!("{name} is still needed, and is not deleted:"));
                return Ok(Deleted::Needed(why));
            }
            let missing = kind == Some(ProblemType::NotFound);
            if missing && options.missing_ok {
                drop(progress);
                return tell(name, "not there", options.shown.output, acts).map(|()| Deleted::Gone);
            }
            return Err(not_found(client, name.kind, &name.name, error));
        }
    };
    let outcome = match options.waiting.until_made(client, &progress, answer)? {
        Made::Now(_) | Made::InTime(_) => "deleted",
        Made::Left(_) => "goes on",
    };
    drop(progress);
    tell(name, outcome, options.shown.output, acts).map(|()| Deleted::Gone)
}

/// Says what was done as soon as it is: what comes after may fail.
fn tell(name: &ObjectName, outcome: &str, format: Format, acts: &mut Acts) -> Result<(), Failure> {
    acts.add(name, outcome);
    if matches!(format, Format::Table | Format::Wide) {
        print(&format!("{name} {outcome}\n"))?;
    }
    Ok(())
}
