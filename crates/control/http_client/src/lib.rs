//! The one HTTP client of the program: what its clients of the daemon, of registries and of collectors of
//! spans have in common, over `ureq`.
//!
//! The life of a question:
//! 1. An [`Agent`] is made, which keeps connections: [`agent`] for TCP, with what is trusted in its
//!    [`TlsConfig`], or [`unix_agent`] for a UNIX socket. What it may take is in its [`Limits`].
//! 2. The caller makes a request with the types of [`http`] and has the agent [`run`](Agent::run) it.
//! 3. [`bytes`] reads the answer's body, as far as was agreed to.
//! 4. What goes wrong is a [`Failure`]: what it means, in words that can be shown.
//!
//! Redirects are not followed and proxies not used: where a question may lead is known to the caller alone. A
//! status is no error.
//!
//! Limits: a header of 32 KiB; blocking calls.

#![forbid(unsafe_code)]

mod failure;
mod pem;
#[cfg(test)]
mod tests;
mod unix;

pub use failure::{BodyFault, Failure, bytes};
pub use pem::{Pem, PemFault, read_pem, system_roots};
pub use unix::unix_agent;
pub use ureq::tls::{Certificate, ClientCert, RootCerts, TlsConfig};
pub use ureq::{Agent, AsSendBody, Body, BodyReader, Error, http};

use std::time::Duration;
use ureq::config::ConfigBuilder;
use ureq::typestate::AgentScope;

/// What stands in `User-Agent`.
const NAME: &str = concat!("superfluid/", env!("CARGO_PKG_VERSION"));

/// How long an agent waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest time to find a host by its name, and longest time to connect to it, TLS included.
    pub connect: Duration,
    /// Longest time without a byte.
    pub idle: Duration,
}

/// What speaks HTTP over TCP; `only_encrypted`: to no address that begins otherwise than with `https`.
pub fn agent(limits: Limits, trust: TlsConfig, only_encrypted: bool) -> Agent {
    configured(limits).tls_config(trust).https_only(only_encrypted).build().new_agent()
}

fn configured(limits: Limits) -> ConfigBuilder<AgentScope> {
    Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .user_agent(NAME)
        .max_response_header_size(32 << 10)
        .timeout_resolve(Some(limits.connect))
        .timeout_connect(Some(limits.connect))
        .timeout_per_read(Some(limits.idle))
        .timeout_per_write(Some(limits.idle))
}
