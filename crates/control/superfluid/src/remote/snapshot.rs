//! `superfluid snapshot`.

use super::change::{Made, show_operation};
use super::columns::{self, cell};
use super::failure::{Done, Failure, print};
use super::get::not_found;
use super::numbers::bytes;
use super::options::{AdoptOptions, RemoveOptions, RestoreOptions, SaveOptions, ShowOptions};
use crate::Outcome;
use crate::output::{Format, one};
use crate::progress::Progress;
use api::{Kind, ProblemType};
use client::{Client, ClientError};
use serde_json::json;
use yaml_document::spelling;

pub(crate) fn save(options: &SaveOptions) -> Done {
    let client = options.connection.client()?;
    let progress = Progress::begin(&format!("saving function/{}", options.function), options.shown.output);
    let saved = client.save(&options.function, &options.name);
    drop(progress);
    let saved = saved.map_err(|error| not_found(&client, Kind::Function, &options.function, error))?;
    match options.shown.output {
        Format::Table | Format::Wide => {
            let size = bytes(saved.bytes as f64);
            print(&format!(
                "snapshot/{} saved of function/{}, {size}\n",
                cell(&saved.name),
                cell(&saved.function)
            ))
        }
        format => print(&one(&json!(saved), format)),
    }
}

pub(crate) fn restore(options: &RestoreOptions) -> Done {
    let client = options.connection.client()?;
    let function = match &options.function {
        Some(function) => function.clone(),
        None => {
            let saved = client.snapshot(&options.name);
            saved.map_err(|error| missing(&client, &options.name, error))?.function.to_string()
        }
    };
    let progress = Progress::begin(&format!("restoring snapshot/{}", options.name), options.shown.output);
    let answer = client
        .restore(&options.name, &function, &options.waiting.change())
        .map_err(|error| missing(&client, &options.name, error))?;
    let made = options.waiting.until_made(&client, &progress, answer)?;
    drop(progress);
    let object = match made {
        Made::Now(written) => written.object,
        Made::InTime(_) => client.object(Kind::Function, &function)?,
        Made::Left(operation) => return show_operation(&operation, options.shown.output),
    };
    match options.shown.output {
        Format::Table | Format::Wide => print(&format!(
            "{} restored of snapshot/{}\n",
            cell(&object.id().to_string()),
            cell(&options.name)
        )),
        format => print(&one(&json!(object), format)),
    }
}

pub(crate) fn list(options: &ShowOptions) -> Done {
    let client = options.connection.client()?;
    print(&columns::snapshots(&client.snapshots()?).printed(options.shown.output))
}

pub(crate) fn remove(options: &RemoveOptions) -> Done {
    let client = options.connection.client()?;
    for name in &options.names {
        client.delete_snapshot(name).map_err(|error| missing(&client, name, error))?;
        print(&format!("snapshot/{} removed\n", cell(name)))?;
    }
    Ok(Outcome::Done)
}

pub(crate) fn adopt(options: &AdoptOptions) -> Done {
    let client = options.connection.client()?;
    let saved = client
        .adopt_snapshot(&options.name, &options.tenant)
        .map_err(|error| missing(&client, &options.name, error))?;
    match options.shown.output {
        Format::Table | Format::Wide => print(&format!(
            "snapshot/{} belongs to tenant/{}\n",
            cell(&saved.name),
            cell(saved.tenant.as_deref().unwrap_or_default())
        )),
        format => print(&one(&json!(saved), format)),
    }
}

pub(crate) fn rotate_key(options: &ShowOptions) -> Done {
    let rotated = options.connection.client()?.rotate_snapshot_key()?;
    match options.shown.output {
        Format::Table | Format::Wide => print(&format!(
            "key {} seals {} of this host's own; {} imported\n",
            cell(&rotated.key),
            counted(rotated.sealed, "snapshot"),
            rotated.imported
        )),
        format => print(&one(&json!(rotated), format)),
    }
}

fn counted(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// The same error; where there is no such snapshot, with the one that was probably meant.
pub(crate) fn missing(client: &Client, name: &str, error: ClientError) -> Failure {
    let missing = error.problem().and_then(api::Problem::problem_type) == Some(ProblemType::NotFound);
    let there = if missing { client.snapshots().unwrap_or_default() } else { Vec::new() };
    let near = spelling::nearest(name, there.iter().map(|saved| saved.name.as_str()));
    let near = near.map(|near| format!("; did you mean `{}`?", spelling::shown(near)));
    Failure::from(error).with(&near.unwrap_or_default())
}
