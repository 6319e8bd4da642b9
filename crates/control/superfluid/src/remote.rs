//! The commands that ask a daemon: what it is to run, what runs, and what happens.
//!
//! 1. [`options`] is their command line; [`connection`] finds the daemon.
//! 2. A file is read by [`document`], which remembers where everything stands, so that the daemon's faults
//!    have a line and a column.
//! 3. Each command has a file. What they ask goes through the crate `client`.
//! 4. [`change`] waits for what takes long; [`failure`] says what went wrong, and with which exit status.
//! 5. Lists are shown as `-o` says; [`columns`] has what is told of each kind, [`tree`] shows what has no
//!    columns of its own.

mod account;
mod apply;
mod backup;
mod capture;
mod change;
mod columns;
mod compare;
mod connection;
mod delete;
mod describe;
mod describe_device;
mod document;
mod edit;
mod events;
mod failure;
mod frame;
mod function;
mod function_events;
mod get;
mod given;
mod graph;
mod host_wide;
pub(crate) mod kinds;
mod names;
mod neighbours;
mod numbers;
pub(crate) mod options;
mod page;
mod paths;
mod registry_login;
mod snapshot;
mod token;
mod top;
mod trace;
mod tree;
mod watch;

use crate::Outcome;
pub(crate) use connection::Connection;
pub(crate) use document::File;
use options::{FunctionCommand, RemoteCommand, SnapshotCommand};
use registry_login::RegistryCommand;
use token::TokenCommand;

/// Carries a command out.
pub(crate) fn remote(command: &RemoteCommand) -> Outcome {
    let done = match command {
        RemoteCommand::Apply(options) => apply::apply(options),
        RemoteCommand::Diff(options) => apply::diff(options),
        RemoteCommand::Page(options) => page::page(options),
        RemoteCommand::Get(options) => get::get(options),
        RemoteCommand::Describe(options) => describe::describe(options),
        RemoteCommand::Edit(options) => edit::edit(options),
        RemoteCommand::Graph(options) => graph::graph(options),
        RemoteCommand::Delete(options) => delete::delete(options),
        RemoteCommand::Function(FunctionCommand::Create(options)) => function::create(options),
        RemoteCommand::Function(FunctionCommand::Pause(options)) => function::pause(options),
        RemoteCommand::Function(FunctionCommand::Resume(options)) => function::resume(options),
        RemoteCommand::Function(FunctionCommand::Restart(options)) => function::restart(options),
        RemoteCommand::Function(FunctionCommand::Logs(options)) => events::logs(options),
        RemoteCommand::Function(FunctionCommand::Events(options)) => function_events::events(options),
        RemoteCommand::Function(FunctionCommand::Report(options)) => function_events::report(options),
        RemoteCommand::Upgrade(options) => function::upgrade(options),
        RemoteCommand::Snapshot(SnapshotCommand::Save(options)) => snapshot::save(options),
        RemoteCommand::Snapshot(SnapshotCommand::Restore(options)) => snapshot::restore(options),
        RemoteCommand::Snapshot(SnapshotCommand::Ls(options)) => snapshot::list(options),
        RemoteCommand::Snapshot(SnapshotCommand::Rm(options)) => snapshot::remove(options),
        RemoteCommand::Snapshot(SnapshotCommand::Adopt(options)) => snapshot::adopt(options),
        RemoteCommand::Snapshot(SnapshotCommand::RotateKey(options)) => snapshot::rotate_key(options),
        RemoteCommand::Token(TokenCommand::Create(options)) => token::create(options),
        RemoteCommand::Token(TokenCommand::Ls(options)) => token::list(options),
        RemoteCommand::Token(TokenCommand::Delete(options)) => token::delete(options),
        RemoteCommand::Registry(RegistryCommand::Login(options)) => registry_login::login(options),
        RemoteCommand::Registry(RegistryCommand::Ls(options)) => registry_login::list(options),
        RemoteCommand::Registry(RegistryCommand::Logout(options)) => registry_login::logout(options),
        RemoteCommand::Neighbours(options) => neighbours::neighbours(options),
        RemoteCommand::Top(options) => top::top(options),
        RemoteCommand::Events(options) => events::events(options),
        RemoteCommand::Trace(options) => trace::trace(options),
        RemoteCommand::Capture(options) => capture::capture(options),
        RemoteCommand::Memory(options) => host_wide::memory(options),
        RemoteCommand::Account(options) => account::account(options),
        RemoteCommand::Names(options) => names::names(options),
        RemoteCommand::Backup(options) => backup::backup(options),
        RemoteCommand::Health(options) => host_wide::health(options),
    };
    done.unwrap_or_else(|failure| failure.told())
}
