//! `superfluid registry`: logins at registries, by which images are pulled for a tenant.

use super::columns::{self, cell};
use super::connection::Connection;
use super::failure::{Done, Failure, print};
use super::options::{ShowOptions, Shown};
use crate::Outcome;
use crate::output::{Format, one};
use api::{Name, NewRegistryLogin, Password};
use clap::{Args, Subcommand};
use serde_json::json;
use std::io::Read;
use std::path::Path;

#[derive(Debug, Subcommand)]
pub(crate) enum RegistryCommand {
    /// Set the login at a registry with which images are pulled for a tenant.
    Login(LoginOptions),
    /// List logins, without their passwords.
    #[command(after_help = "Examples:\n  superfluid registry ls\n  superfluid registry ls -o json")]
    Ls(ShowOptions),
    /// Delete a login: nothing is pulled with it any more.
    Logout(LogoutOptions),
}

#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  superfluid registry login registry.example:5000 --username ci --password-file ci.password --token-file red.token\n\nImages that are asked for with a \
                  token are pulled with the logins of its tenant, and without one where it has none. The administrator's own are in the file\nthat the daemon's \
                  --registry-auth-file names. No command and no answer shows a password."
)]
pub(crate) struct LoginOptions {
    /// The registry: HOST or HOST:PORT, as references of images begin.
    pub(crate) registry: String,
    /// The user's name there.
    #[arg(long, value_name = "NAME")]
    pub(crate) username: String,
    /// The file whose first line is the password, or `-` for standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: String,
    /// The tenant, which an administrator has to name.
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,
    #[command(flatten)]
    pub(crate) shown: Shown,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  superfluid registry logout registry.example:5000 --token-file red.token")]
pub(crate) struct LogoutOptions {
    /// The registry.
    pub(crate) registry: String,
    /// The tenant, which an administrator has to name.
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

pub(crate) fn login(options: &LoginOptions) -> Done {
    let tenant = options.tenant.as_deref().map(Name::new).transpose();
    let tenant =
        tenant.map_err(|error| Failure::new(format_args!("--tenant: {error}"), Outcome::BadInput))?;
    let wanted = NewRegistryLogin {
        tenant,
        registry: options.registry.clone(),
        username: options.username.clone(),
        password: password(&options.password_file)?,
    };
    let login = options.connection.client()?.set_registry_login(&wanted)?;
    print(&match options.shown.output {
        Format::Table | Format::Wide => format!(
            "login of tenant/{} at {} set, as {}\n",
            cell(&login.tenant),
            cell(&login.registry),
            cell(&login.username)
        ),
        format => one(&json!(login), format),
    })
}

/// The first line of a file, or of standard input.
fn password(file: &str) -> Result<Password, Failure> {
    let most = Password::MAX as u64 + 2;
    let mut text = String::new();
    let read = match file {
        "-" => std::io::stdin().take(most).read_to_string(&mut text),
        file => {
            local_file::open_given(Path::new(file)).and_then(|file| file.take(most).read_to_string(&mut text))
        }
    };
    read.map_err(|error| Failure::new(format_args!("{file}: {error}"), Outcome::BadInput))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let wrong = format!(
        "{file}: found something else; allowed: a password of 1 to {} bytes on one line",
        Password::MAX
    );
    Password::new(line.strip_suffix('\r').unwrap_or(line))
        .ok_or_else(|| Failure::new(wrong, Outcome::BadInput))
}

pub(crate) fn list(options: &ShowOptions) -> Done {
    let logins = options.connection.client()?.registry_logins()?;
    print(&columns::registry_logins(&logins).printed(options.shown.output))
}

pub(crate) fn logout(options: &LogoutOptions) -> Done {
    options.connection.client()?.delete_registry_login(&options.registry, options.tenant.as_deref())?;
    print(&format!("login at {} deleted\n", cell(&options.registry)))
}
