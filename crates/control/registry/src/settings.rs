//! How far a registry is trusted, and how long it is waited for.

use crate::reference::check_host;
use crate::{Credentials, ReferenceFault};
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// Settings of a [`crate::Client`].
#[derive(Clone, Debug)]
pub struct Settings {
    /// Largest image that is fetched, in bytes; the engine takes no more than [`image::limits::IMAGE_BYTES`].
    pub largest_image: u64,
    /// Longest time to find a host by its name, and longest time to connect to it, TLS included.
    pub connect: Duration,
    /// Longest time without a byte.
    pub idle: Duration,
    /// Longest time that one push, pull or question may take in all.
    pub total: Duration,
    /// Hosts (`HOST[:PORT]`, as references write them) that are spoken to without TLS. There are no others;
    /// the host's own loopback addresses are none either: any user that may bind a port there would be given
    /// credentials.
    pub insecure: Vec<String>,
    /// A file of certificates in PEM that are trusted beside the system's.
    pub ca_file: Option<PathBuf>,
    /// The logins there.
    pub credentials: Credentials,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            largest_image: image::limits::IMAGE_BYTES as u64,
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(15),
            total: Duration::from_secs(300),
            insecure: Vec::new(),
            ca_file: None,
            credentials: Credentials::default(),
        }
    }
}

/// Why there is no client with these settings.
#[derive(Debug, Error)]
pub enum SettingsError {
    /// The file of certificates cannot be read.
    #[error("{}: {source}", path.display())]
    CaFile {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is no certificate in it.
    #[error("{}: {reason}; allowed: certificates in PEM, at most {most} bytes", path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// What was found.
        reason: String,
        /// Largest file that is read.
        most: u64,
    },
    /// A host that is to be spoken to without TLS is none.
    #[error("insecure host: {0}")]
    Insecure(ReferenceFault),
    /// A limit that nothing could keep.
    #[error("{name} is {found:?}; allowed: more than nothing")]
    Zero {
        /// Which.
        name: &'static str,
        /// What was found.
        found: Duration,
    },
}

impl Settings {
    /// Whether this host is spoken to without TLS.
    pub(crate) fn is_plain(&self, host: &str) -> bool {
        self.insecure.iter().any(|insecure| insecure.eq_ignore_ascii_case(host))
    }

    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        self.insecure.iter().try_for_each(|host| check_host(host)).map_err(SettingsError::Insecure)?;
        for (name, found) in [("connect", self.connect), ("idle", self.idle), ("total", self.total)] {
            if found.is_zero() {
                return Err(SettingsError::Zero { name, found });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Client;
    use std::fs;

    #[test]
    fn settings_that_cannot_be_kept_are_refused() {
        let refused = |settings: Settings| Client::new(settings).expect_err("refused").to_string();
        let found =
            refused(Settings { insecure: vec!["localhost:5000/x".to_owned()], ..Settings::default() });
        assert!(found.contains("insecure host: `5000/x` is no port"), "{found}");
        let found = refused(Settings { idle: Duration::ZERO, ..Settings::default() });
        assert!(found.contains("idle is 0ns"), "{found}");
        let folder = tempfile::tempdir().expect("a folder");
        let ca_file = Some(folder.path().join("ca.pem"));
        let settings = Settings { ca_file: ca_file.clone(), ..Settings::default() };
        assert!(refused(settings.clone()).contains("ca.pem: No such file"));
        for text in ["", "no certificate", "-----BEGIN CERTIFICATE-----\n%%\n-----END CERTIFICATE-----\n"] {
            fs::write(folder.path().join("ca.pem"), text).expect("written");
            let found = refused(settings.clone());
            assert!(found.contains("ca.pem: ") && found.contains("allowed: certificates in PEM"), "{found}");
        }
    }
}
