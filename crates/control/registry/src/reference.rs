//! What names an artifact in a registry: `HOST[:PORT]/REPOSITORY[:TAG][@sha256:DIGEST]`.
//!
//! The grammar of repositories, tags and digests is that of the OCI distribution specification 1.1 ("Pulling
//! manifests") and of the image specification ("Digests"). The host must be there, so that a reference means
//! the same on every machine, and so that it is never taken for a file or for a stock image.

use crate::Digest;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use thiserror::Error;

/// Longest reference that is read, in bytes.
pub const MAX_REFERENCE: usize = 512;

/// Longest host and repository together, in bytes; many registries and clients allow no more.
const MAX_NAME: usize = 255;

/// Longest tag, in bytes.
const MAX_TAG: usize = 128;

/// What a reference without tag and digest means.
const DEFAULT_TAG: &str = "latest";

/// A checked reference. Shown, it is the text that reads back as the same reference.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reference {
    host: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// Why a text is no reference.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` names no image in a registry: {fault}")]
pub struct ReferenceError {
    /// The text, without what could control a terminal.
    text: String,
    /// What is wrong with it.
    pub fault: ReferenceFault,
}

/// What can be wrong with a reference.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReferenceFault {
    /// It is too long to be looked at.
    #[error("it has {found} bytes; allowed: at most {MAX_REFERENCE}")]
    Long {
        /// Its bytes.
        found: usize,
    },
    /// It does not begin with a host.
    #[error(
        "it does not begin with a host; allowed: HOST[:PORT]/REPOSITORY[:TAG][@sha256:DIGEST], where HOST has a dot or \
         a port or is localhost, such as registry.example.org/edge/firewall:1.2.0"
    )]
    NoHost,
    /// The host is none.
    #[error(
        "`{found}` is no host; allowed: letters, digits and `-` between dots, an IPv4 address, or an IPv6 address in []"
    )]
    Host {
        /// What stands in its place.
        found: String,
    },
    /// The port is none.
    #[error("`{found}` is no port; allowed: 1 to 65535")]
    Port {
        /// What stands in its place.
        found: String,
    },
    /// The repository is none.
    #[error(
        "`{found}` is no repository; allowed: names of lower-case letters and digits, with `.`, `_`, `__` or `-` within, and `/` \
         between names"
    )]
    Repository {
        /// What stands in its place.
        found: String,
    },
    /// Host and repository are longer together than registries take.
    #[error("host and repository have {found} bytes; allowed: at most {MAX_NAME}")]
    LongName {
        /// Their bytes.
        found: usize,
    },
    /// The tag is none.
    #[error(
        "`{found}` is no tag; allowed: 1 to {MAX_TAG} letters, digits, `_`, `.` and `-`, the first not `.` or `-`"
    )]
    Tag {
        /// What stands in its place.
        found: String,
    },
    /// The digest is none.
    #[error("`{found}` is no digest; allowed: sha256: and 64 digits of 0-9 and a-f")]
    Digest {
        /// What stands in its place.
        found: String,
    },
}

impl Reference {
    /// The host with its port, as written.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The repository.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag; `latest` where neither tag nor digest are given.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest of the manifest, when the reference is pinned.
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// The same reference, which from now on means this manifest alone.
    pub fn pinned(&self, digest: Digest) -> Reference {
        Reference { digest: Some(digest), ..self.clone() }
    }

    /// The name under which a store keeps what the reference means: the tag where there is one, or else the
    /// digest.
    pub(crate) fn store_name(&self) -> String {
        match (&self.tag, self.digest) {
            (Some(tag), _) => format!("{}/{}:{tag}", self.host, self.repository),
            (None, Some(digest)) => format!("{}/{}@{digest}", self.host, self.repository),
            (None, None) => unreachable!("a reference has a tag or a digest"),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        self.digest.iter().try_for_each(|digest| write!(f, "@{digest}"))
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Reference, ReferenceError> {
        read(text).map_err(|fault| ReferenceError { text: shown(text), fault })
    }
}

/// As much of a faulty text as a message shows.
fn shown(text: &str) -> String {
    crate::harmless(text, 80)
}

fn read(text: &str) -> Result<Reference, ReferenceFault> {
    if text.len() > MAX_REFERENCE {
        return Err(ReferenceFault::Long { found: text.len() });
    }
    let (host, rest) = text.split_once('/').ok_or(ReferenceFault::NoHost)?;
    // As everywhere: `edge/firewall` is a path without a host, `edge.net/firewall` has one.
    if !(host.contains(['.', ':', '[']) || host == "localhost") || host.starts_with('.') {
        return Err(ReferenceFault::NoHost);
    }
    check_host(host)?;
    let (name, digest) = match rest.split_once('@') {
        Some((name, digest)) => {
            let found = || ReferenceFault::Digest { found: shown(digest) };
            (name, Some(digest.parse::<Digest>().map_err(|_| found())?))
        }
        None => (rest, None),
    };
    let (repository, tag) = match name.split_once(':') {
        Some((repository, tag)) => (repository, Some(tag)),
        None => (name, None),
    };
    if !repository.split('/').all(is_component) {
        return Err(ReferenceFault::Repository { found: shown(repository) });
    }
    let found = host.len() + 1 + repository.len();
    if found > MAX_NAME {
        return Err(ReferenceFault::LongName { found });
    }
    if let Some(tag) = tag.filter(|tag| !is_tag(tag)) {
        return Err(ReferenceFault::Tag { found: shown(tag) });
    }
    let tag = tag.or_else(|| digest.is_none().then_some(DEFAULT_TAG));
    Ok(Reference {
        host: host.to_owned(),
        repository: repository.to_owned(),
        tag: tag.map(str::to_owned),
        digest,
    })
}

/// Host and port.
pub(crate) fn check_host(text: &str) -> Result<(), ReferenceFault> {
    let bad = || ReferenceFault::Host { found: shown(text) };
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']').ok_or_else(bad)?;
        address.parse::<Ipv6Addr>().map_err(|_| bad())?;
        (None, if port.is_empty() { None } else { Some(port.strip_prefix(':').ok_or_else(bad)?) })
    } else {
        match text.split_once(':') {
            Some((host, port)) => (Some(host), Some(port)),
            None => (Some(text), None),
        }
    };
    if let Some(host) = host {
        let label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        // What looks like an address has to be one: 127.1 and 0x7f.1 are read differently by different
        // programs.
        let numeric = host
            .rsplit('.')
            .next()
            .is_some_and(|last| last.starts_with(|first: char| first.is_ascii_digit()));
        let sound = host.split('.').all(label) && (!numeric || host.parse::<Ipv4Addr>().is_ok());
        if !sound {
            return Err(bad());
        }
    }
    if let Some(port) = port {
        let digits = (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit());
        if !digits || port.starts_with('0') || port.parse::<u16>().is_err() {
            return Err(ReferenceFault::Port { found: shown(port) });
        }
    }
    Ok(())
}

/// One name of a repository: `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`.
fn is_component(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let ends =
        bytes.first().is_some_and(|first| plain(*first)) && bytes.last().is_some_and(|last| plain(*last));
    ends && bytes.split(|byte| plain(*byte)).all(|separator| {
        matches!(separator, b"" | b"." | b"_" | b"__") || separator.iter().all(|byte| *byte == b'-')
    })
}

/// `[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}`.
fn is_tag(text: &str) -> bool {
    (1..=MAX_TAG).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
        && !text.starts_with(['.', '-'])
}

#[cfg(test)]
#[path = "reference/tests.rs"]
mod tests;
