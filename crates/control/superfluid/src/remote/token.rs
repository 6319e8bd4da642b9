//! `superfluid token`: tokens of tenants, and of those that read the whole host.

use super::columns::{self, cell};
use super::connection::Connection;
use super::failure::{Done, Failure, print};
use super::options::{RemoveOptions, ShowOptions, Shown};
use crate::Outcome;
use crate::cli::time;
use crate::output::{Format, one};
use api::{IssuedToken, Name, NewToken, ProblemType, Token};
use clap::{Args, Subcommand};
use client::{Client, ClientError};
use serde_json::json;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use yaml_document::spelling;

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token of a tenant, or one that reads the whole host, and print its secret: it is shown this
    /// once.
    Create(CreateTokenOptions),
    /// List tokens, without their secrets.
    #[command(after_help = "Examples:\n  superfluid token ls\n  superfluid token ls -o json")]
    Ls(ShowOptions),
    /// Delete tokens: they are not taken any more, and streams by them end.
    #[command(after_help = "Example:\n  superfluid token delete ci")]
    Delete(RemoveOptions),
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  superfluid token create ci --tenant red --file red.token\n  superfluid token create watcher --tenant red --read-only --expires \
                  30d\n  superfluid token create prometheus --host --file prometheus.token\n\nWith --token-file or SUPERFLUID_TOKEN_FILE, a tenant's token shows and \
                  changes what is the tenant's, and nothing else. One of --host shows what administrators\nare shown, of all tenants, except tokens, packets and backups, and \
                  changes nothing."
)]
pub(crate) struct CreateTokenOptions {
    /// The token's name.
    pub(crate) name: String,
    /// The tenant whose rights it gives.
    #[arg(long, value_name = "TENANT", required_unless_present = "host", conflicts_with = "host")]
    pub(crate) tenant: Option<String>,
    /// It reads the whole host, for monitoring, and changes nothing.
    #[arg(long)]
    pub(crate) host: bool,
    /// It is not taken any more after this time (12h, 30d); without it, it is until it is deleted.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) expires: Option<Duration>,
    /// It shows what there is, and changes nothing.
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Write the secret into this file, which must not be there yet, for its owner alone, and do not print
    /// it.
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) shown: Shown,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

/// A name that was given, if it is one.
fn checked(given: &str, name: &str) -> Result<Name, Failure> {
    Name::new(name).map_err(|error| Failure::new(format!("{given}: {error}"), Outcome::BadInput))
}

pub(crate) fn create(options: &CreateTokenOptions) -> Done {
    let client = options.connection.client()?;
    let expires = options.expires.map(|time| SystemTime::now() + time);
    let wanted = NewToken {
        name: checked("NAME", &options.name)?,
        tenant: options.tenant.as_deref().map(|tenant| checked("--tenant", tenant)).transpose()?,
        host: options.host,
        expires: expires.map(|time| humantime::format_rfc3339_seconds(time).to_string()),
        read_only: options.read_only || options.host,
    };
    // What could not be written would be lost.
    let file = options.file.as_deref().map(|path| make(path).map(|file| (path, file))).transpose()?;
    let issued = client.issue_token(&wanted).inspect_err(|_| {
        if let Some((path, _)) = &file {
            let _ = std::fs::remove_file(path);
        }
    })?;
    let IssuedToken { token, secret } = &issued;
    if let Some((path, mut file)) = file {
        let written = writeln!(file, "{secret}").and_then(|()| file.sync_all());
        if let Err(error) = written {
            // The secret is lost.
            let undone =
                client.delete_token(&token.name).map_or("it is still there", |()| "it is deleted again");
            let text = format!(
                "{}: {error}; the token `{}` cannot be used, and {undone}",
                path.display(),
                cell(&token.name)
            );
            return Err(Failure::new(text, Outcome::Failed));
        }
        return match options.shown.output {
            Format::Table | Format::Wide => print(&told(token)),
            format => print(&one(&json!(token), format)),
        };
    }
    match options.shown.output {
        Format::Table | Format::Wide => {
            // The secret alone goes where it can be redirected to.
            console::error().write(told(token));
            print(&format!("{secret}\n"))
        }
        format => print(&one(&json!(issued), format)),
    }
}

fn told(token: &Token) -> String {
    let of = match &token.tenant {
        Some(tenant) if token.read_only => format!("for tenant/{}, for reading alone", cell(tenant)),
        Some(tenant) => format!("for tenant/{}", cell(tenant)),
        None => "for reading the whole host".to_owned(),
    };
    let until = token.expires.as_ref().map(|time| format!(", until {}", cell(time))).unwrap_or_default();
    format!("token/{} created {of}{until}\n", cell(&token.name))
}

fn make(path: &Path) -> Result<std::fs::File, Failure> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    made.map_err(|error| Failure::new(format_args!("{}: {error}", path.display()), Outcome::BadInput))
}

pub(crate) fn list(options: &ShowOptions) -> Done {
    let client = options.connection.client()?;
    print(&columns::tokens(&client.tokens()?).printed(options.shown.output))
}

pub(crate) fn delete(options: &RemoveOptions) -> Done {
    let client = options.connection.client()?;
    for name in &options.names {
        client.delete_token(name).map_err(|error| missing(&client, name, error))?;
        print(&format!("token/{} deleted\n", cell(name)))?;
    }
    Ok(Outcome::Done)
}

/// The same error; where there is no such token, with the one that was probably meant.
fn missing(client: &Client, name: &str, error: ClientError) -> Failure {
    let missing = error.problem().and_then(api::Problem::problem_type) == Some(ProblemType::NotFound);
    let there = if missing { client.tokens().unwrap_or_default() } else { Vec::new() };
    let near = spelling::nearest(name, there.iter().map(|token| token.name.as_str()));
    let near = near.map(|near| format!("; did you mean `{}`?", spelling::shown(near)));
    Failure::from(error).with(&near.unwrap_or_default())
}
