//! What can go wrong between a host and a registry.

use crate::{Digest, DocumentFault, harmless};
use image::ImageError;
use std::fmt;
use std::time::Duration;
use thiserror::Error;

/// Why nothing was pushed, pulled or resolved: one line that says of what, at which step, what was found and
/// what is allowed.
#[derive(Debug, Error)]
#[error("{reference}: {step}: {fault}")]
pub struct RegistryError {
    /// The reference that was worked on.
    pub reference: String,
    /// What was being done.
    pub step: Step,
    /// What happened.
    pub fault: Box<Fault>,
}

/// What is done for an artifact, in the order in which it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Fetching or sending the manifest.
    Manifest,
    /// Fetching or sending the configuration.
    Config,
    /// Fetching or sending the layer.
    Layer,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Manifest => "manifest",
            Step::Config => "configuration",
            Step::Layer => "layer",
        })
    }
}

impl Fault {
    /// Whether the other side is not to be spoken with, so that it is of no use to ask it for something else.
    pub fn is_silence(&self) -> bool {
        matches!(
            self,
            Fault::Unreachable { .. }
                | Fault::ConnectLate { .. }
                | Fault::Silent { .. }
                | Fault::Late { .. }
                | Fault::Died { .. }
                | Fault::Tls { .. }
                | Fault::NoHttp { .. }
        )
    }
}

/// What happened. Texts that came from outside are short and cannot control a terminal.
#[derive(Debug, Error)]
pub enum Fault {
    /// The host could not be reached.
    #[error("{host} cannot be reached: {reason}")]
    Unreachable {
        /// The host that was asked.
        host: String,
        /// Why.
        reason: String,
    },
    /// There is no connection in time.
    #[error("{host} did not answer within {limit:?}, the limit for connecting")]
    ConnectLate {
        /// The host that was asked.
        host: String,
        /// [`crate::Settings::connect`].
        limit: Duration,
    },
    /// Nothing came.
    #[error("{host} was silent for {limit:?}, the limit for being idle")]
    Silent {
        /// The host that was asked.
        host: String,
        /// [`crate::Settings::idle`].
        limit: Duration,
    },
    /// All in all it takes too long.
    #[error("{host} was not done within {limit:?}, the limit for all")]
    Late {
        /// The host that was asked.
        host: String,
        /// [`crate::Settings::total`].
        limit: Duration,
    },
    /// The connection ended before what was sent.
    #[error("{host} ended the connection: {reason}")]
    Died {
        /// The host that was asked.
        host: String,
        /// What was seen of it.
        reason: String,
    },
    /// There is no trust.
    #[error(
        "{host} cannot be trusted: {reason}; allowed: TLS with a certificate that this system or the given CA file knows, or a host that is listed as insecure"
    )]
    Tls {
        /// The host that was asked.
        host: String,
        /// What was seen.
        reason: String,
    },
    /// The other side speaks something else.
    #[error("{host} does not speak HTTP as it should: {reason}")]
    NoHttp {
        /// The host that was asked.
        host: String,
        /// What was seen.
        reason: String,
    },
    /// The answer is no.
    #[error("{host} answered {status}{message}")]
    Status {
        /// The host that was asked.
        host: String,
        /// HTTP's status.
        status: u16,
        /// What it said, after a colon; often empty.
        message: String,
    },
    /// The client has no right to what it asked for.
    #[error("{host} refuses access with {status}{message}; {hint}")]
    NoAccess {
        /// The host that was asked.
        host: String,
        /// HTTP's status.
        status: u16,
        /// What it said, after a colon; often empty.
        message: String,
        /// Which credentials were used.
        hint: String,
    },
    /// It wants credentials in a way that is not known, or the token is none.
    #[error(
        "{host} asks for credentials in a way that is not known: {reason}; allowed: Basic, or Bearer with a realm"
    )]
    Challenge {
        /// The host that was asked.
        host: String,
        /// What was seen.
        reason: String,
    },
    /// It leads on and on.
    #[error("{host} leads from one address to the next; allowed: {limit} times")]
    Redirects {
        /// The host that was asked last.
        host: String,
        /// How often it may.
        limit: usize,
    },
    /// It leads to where one does not go.
    #[error(
        "{host} leads to `{found}`; allowed: a path, or an address with https, or with http of a host that is listed as insecure"
    )]
    Location {
        /// The host that was asked.
        host: String,
        /// Where to.
        found: String,
    },
    /// The answer is something else than was asked for.
    #[error("{host} sent `{found}`; allowed: {allowed}")]
    Type {
        /// The host that was asked.
        host: String,
        /// The media type of what was sent.
        found: String,
        /// The one that was asked for.
        allowed: &'static str,
    },
    /// It is too large; no more than the limit was read.
    #[error("it has {} bytes; allowed: at most {limit}", found.map_or_else(|| format!("more than {limit}"), |found| found.to_string()))]
    Large {
        /// Its bytes, if it was told.
        found: Option<u64>,
        /// Most bytes.
        limit: u64,
    },
    /// It has another size than the manifest says.
    #[error("it has {} bytes where the manifest says {expected}", found.map_or("more".to_owned(), |found| found.to_string()))]
    Length {
        /// Its bytes; none where the reading ended at what was expected.
        found: Option<u64>,
        /// What the manifest says.
        expected: u64,
    },
    /// It is something else.
    #[error("its digest is {found} where {expected} was asked for")]
    Digest {
        /// Of what came.
        found: Digest,
        /// Of what was wanted.
        expected: Digest,
    },
    /// The document is not as it ought to be.
    #[error(transparent)]
    Document(#[from] DocumentFault),
    /// The tag means a choice of manifests.
    #[error(
        "it is an index of other manifests (`{found}`); allowed: one manifest; name one of them by its digest"
    )]
    Index {
        /// The media type.
        found: String,
    },
    /// A container's image that could not be unpacked.
    #[error("it is no container's image: {0}")]
    Container(container_image::ImageError),
    /// The layer is WebAssembly of another kind, or none.
    #[error("it is no function's image: {}", harmless(&.0.to_string(), 400))]
    Image(ImageError),
    /// What is pushed is not what the reference is pinned to.
    #[error("the image's artifact is {found}; the reference is pinned to {expected}")]
    Pinned {
        /// Of the artifact.
        found: Digest,
        /// Of the reference.
        expected: Digest,
    },
}
