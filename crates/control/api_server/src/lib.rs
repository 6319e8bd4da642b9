//! The daemon's server: REST over a UNIX socket, and over TCP for clients that show a certificate.
//!
//! The life of a server:
//! 1. [`Server::bind`] finds out that no other process has the socket, reads all objects from the
//!    [`Store`](store::Store), and hands them to the host ([`Control::begin`]), so that packets are served
//!    before anything else. Then it listens.
//! 2. [`Server::serve`] answers, on one thread, until SIGTERM. A request is told apart by the table of
//!    [calls](Call), checked for its form, and answered: what is read comes from the store's memory and from
//!    the host, and what is changed goes through the store and the host, as `change` says in numbered steps.
//!    The thread that answers waits for nothing: what takes its time is done beside it, a tenant's at a low
//!    priority and in the tenant's share of processor time, except for the moments for which workers or
//!    changes of others stand still (`State::promptly`). If it blocks all the same, another thread takes over
//!    (`leader_followers`).
//! 3. Work that takes long, such as compiling an image, is done as an operation beside the requests.
//! 4. Clients that follow the events are told of each change. Each change stands in the audit log.
//! 5. At SIGTERM the socket goes, requests that are under way get their answer, streams end, and `serve`
//!    returns.
//!
//! What it does not know: images, functions, packets. That is behind [`Control`]. The description of the
//! interface, OpenAPI 3.1, is made from the same table that requests are told apart by, and from the types of
//! `api`.
//!
//! Browsers come by an address of their own, with sessions: see `page`.
//!
//! Rights: a client that reaches the administrators' socket, or shows a certificate of theirs, may do
//! everything; one that shows a token may do what the token's tenant may, and sees nothing else. Without
//! either no client gets further than 401. The modules `rights`, `admit`, `owners` and `seen` say how.
//!
//! Limits: all in [`Limits`]; connections, headers, bodies, times, operations, what a tenant may have.
//! [`docs/api.md`](../../../../docs/api.md) is for authors of clients.

#![forbid(unsafe_code)]

// The fake host of the tests says `api_server`.
#[cfg(test)]
extern crate self as api_server;

mod accept;
mod admit;
mod answer;
#[cfg(test)]
mod answering_tests;
mod aside;
mod audit;
mod audit_queue;
mod audit_rate;
mod audit_records;
mod body;
mod call;
mod calls;
mod change;
mod change_calls;
mod check;
mod claims;
mod compare;
mod connection;
mod connection_groups;
mod control;
mod counts;
mod document;
mod error;
mod events;
mod history_calls;
mod host_names;
mod identity;
mod keyed;
mod leader_followers;
mod log;
mod login_calls;
mod logins;
mod notices;
mod openapi;
mod operations;
mod outlet;
mod owners;
mod page;
mod past;
mod pin;
mod precondition;
mod query;
mod request;
mod rights;
mod schemas;
mod scrape;
mod seen;
mod senders;
mod server;
mod settings;
mod sizes;
mod snapshot_calls;
mod socket;
mod spare;
mod spec;
mod state;
mod stored;
mod stream;
mod tenancy;
mod tenant_devices;
mod tenant_permits;
#[cfg(test)]
mod tests;
mod time;
mod timing;
mod tls;
mod token_calls;
mod tokens;
mod told;
mod wanted;

pub use accept::accepted;
pub use call::{Call, Found, Gives, Takes};
pub use control::{
    Asker, Control, Exposition, HistoryAsked, ImageResolution, Images, NoHistory, ObjectChange, Prepared,
    Refusal, ResolvedImages, Work,
};
pub use document::{Language, json_of, objects, read};
pub use error::BindError;
pub use identity::Identity;
pub use notices::Notices;
pub use openapi::document as openapi;
pub use outlet::Outlet;
pub use precondition::Precondition;
pub use query::Query;
pub use rights::bearer;
pub use server::Server;
pub use settings::{Administrator, Audit, Limits, Page, PageFile, Settings, Socket, Tcp};
pub use sizes::{body_too_large, too_large};
pub use stored::spec_of;
pub use tenancy::deleted_tenants;
