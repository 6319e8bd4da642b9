//! `superfluid apply` and `superfluid diff`: what a file says, and what there is.

use super::change::{Made, show};
use super::compare::compare;
use super::document::File;
use super::failure::{Done, Failure, print};
use super::options::{ApplyOptions, DiffOptions, Waiting};
use crate::Outcome;
use crate::output::{Format, one};
use crate::progress::Progress;
use api::{Difference, Kind};
use client::{Change, Client, harmless};
use serde_json::{Map, Value, json};
use std::time::Duration;

pub(crate) fn apply(options: &ApplyOptions) -> Done {
    let file = File::read(&options.file)?;
    let document = file.as_json(&options.connection);
    let client = options.connection.client()?;
    let progress = Progress::begin(&format!("applying {}", options.file.display()), options.shown.output);
    let answer = if options.dry_run {
        client.difference(&document, options.prune, true)
    } else {
        let change = Change { allow_restart: options.allow_restart, ..options.waiting.change() };
        client.apply(&document, options.prune, &change)
    };
    let made = answer.and_then(|answer| options.waiting.until_made(&client, &progress, answer));
    let made = made.map_err(|error| file.placed(error))?;
    drop(progress);
    show(made, options.shown.output)
}

pub(crate) fn diff(options: &DiffOptions) -> Done {
    let file = File::read(&options.file)?;
    let document = file.as_json(&options.connection);
    let client = options.connection.client()?;
    let waiting = Waiting { durable: false, no_wait: false, timeout: Duration::from_secs(600) };
    let progress = Progress::begin(&format!("checking {}", options.file.display()), options.shown.output);
    let answer = client.difference(&document, options.prune, options.resolve);
    let made = answer.and_then(|answer| waiting.until_made(&client, &progress, answer));
    let difference = match made.map_err(|error| file.placed(error))? {
        Made::Now(difference) | Made::InTime(difference) => difference,
        Made::Left(operation) => return super::change::show_operation(&operation, options.shown.output),
    };
    let details = details(&client, &file, &document, &difference)?;
    drop(progress);
    print(&shown(&difference, &details, options.shown.output))?;
    Ok(if difference.is_empty() { Outcome::Done } else { Outcome::Failed })
}

/// For each object that would be another: what differs.
fn details(
    client: &Client,
    file: &File,
    document: &Value,
    difference: &Difference,
) -> Result<Vec<(String, Vec<String>)>, Failure> {
    let mut details = Vec::new();
    for object in &difference.changed {
        let before = client.object(object.kind, &object.name)?.spec;
        let mut after = file.spec(document, object);
        if let (Kind::Function, Some(image)) = (object.kind, difference.images.get(&object.name)) {
            after["image"] = image.as_str().into();
        }
        let lines = compare(&before, &after);
        details.push((object.to_string(), lines.iter().map(|line| harmless(line, 2000)).collect()));
    }
    Ok(details)
}

fn shown(difference: &Difference, details: &[(String, Vec<String>)], format: Format) -> String {
    match format {
        Format::Table | Format::Wide => {
            let mut text = String::new();
            let mut tell = |sign: &str, object: &dyn std::fmt::Display| {
                text.push_str(&format!("{sign} {}\n", harmless(&object.to_string(), 300)));
            };
            difference.created.iter().for_each(|object| tell("+", object));
            difference.deleted.iter().for_each(|object| tell("-", object));
            for (object, lines) in details {
                let name = object.strip_prefix("function/");
                let anew = name.is_some_and(|name| difference.restarted.iter().any(|anew| anew == name));
                let object = if anew { format!("{object}, begins anew") } else { object.clone() };
                tell("~", &object);
                lines.iter().for_each(|line| tell("   ", line));
            }
            if text.is_empty() { "nothing differs\n".to_owned() } else { text }
        }
        Format::Json | Format::Yaml => {
            let mut value = json!(difference);
            let details: Map<_, _> =
                details.iter().map(|(object, lines)| (object.clone(), json!(lines))).collect();
            value["differences"] = details.into();
            one(&value, format)
        }
    }
}
