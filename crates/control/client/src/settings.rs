//! Where the daemon is, and how long it is waited for.

use crate::Secret;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// Settings of a [`crate::Client`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the daemon is.
    pub address: Address,
    /// The token to show: it gives its tenant's rights, and no others.
    pub token: Option<Secret>,
    /// Longest time to connect, TLS included.
    pub connect: Duration,
    /// Longest time without a byte.
    pub idle: Duration,
    /// Longest time that one question may take in all. Streams take as long as they like.
    pub total: Duration,
    /// Largest answer in bytes.
    pub largest_answer: u64,
}

impl Settings {
    pub(crate) fn limits(&self) -> http_client::Limits {
        http_client::Limits { connect: self.connect, idle: self.idle }
    }

    /// The usual, for a daemon at this address.
    pub fn new(address: Address) -> Settings {
        Settings {
            address,
            token: None,
            connect: Duration::from_secs(5),
            idle: Duration::from_secs(60),
            total: Duration::from_secs(120),
            largest_answer: 256 << 20,
        }
    }

    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        for (name, found) in [("connect", self.connect), ("idle", self.idle), ("total", self.total)] {
            if found.is_zero() {
                return Err(SettingsError::Zero { name });
            }
        }
        Ok(())
    }
}

/// Where a daemon is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Its UNIX socket.
    Unix(PathBuf),
    /// TCP, with certificates on both sides.
    Tls(Tls),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => path.display().fmt(f),
            Address::Tls(tls) => f.write_str(&tls.host),
        }
    }
}

/// TCP, with certificates on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// `HOST:PORT`; the daemon's certificate must be for this host.
    pub host: String,
    /// The authority that signs the daemon's certificate, as PEM. No other is trusted, the system's
    /// authorities neither.
    pub ca: PathBuf,
    /// The certificate that is shown, and those between it and the root, as PEM.
    pub certificate: PathBuf,
    /// Its key, as PEM.
    pub key: PathBuf,
}

/// Why there is no client with these settings.
#[derive(Debug, Error)]
pub enum SettingsError {
    /// Not a host and a port.
    #[error("`{}` is no address; allowed: HOST:PORT, such as edge1.example:8443 or [2001:db8::1]:8443", crate::harmless(.0, 80))]
    Host(String),
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A token's file that others may look into.
    #[error("{}: others may look into it (mode {mode:o}); allowed: 600, for its owner alone", path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A token's file without one.
    #[error("{}: there is no token in it; allowed: `sft_` and 64 hexadecimal digits, and nothing else", path.display())]
    NoToken {
        /// Which.
        path: PathBuf,
    },
    /// A file does not hold what it should.
    #[error("{}: {reason}; allowed: {wanted} in PEM", path.display())]
    Pem {
        /// Which.
        path: PathBuf,
        /// What was found.
        reason: String,
        /// What should be in it.
        wanted: &'static str,
    },
    /// A limit that nothing could keep.
    #[error("{name} is 0; allowed: more than nothing")]
    Zero {
        /// Which.
        name: &'static str,
    },
}
