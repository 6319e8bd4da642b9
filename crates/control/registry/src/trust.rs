//! Connections: which hosts they are trusted to lead to, and how long each may take.

use crate::{Settings, SettingsError};
use http_client::{Agent, Certificate, Limits, PemFault, RootCerts, TlsConfig, read_pem};
use std::path::Path;
use std::sync::Arc;

/// Largest file of certificates, in bytes.
const MAX_CA_FILE: u64 = 4 << 20;

/// What keeps connections to registries, with the limits of these settings. Redirects are followed by the
/// caller, where it is known which hosts are allowed.
///
/// # Errors
/// [`SettingsError`].
pub(crate) fn agent(settings: &Settings) -> Result<Agent, SettingsError> {
    settings.check()?;
    let mut roots = http_client::system_roots();
    if let Some(path) = &settings.ca_file {
        roots.extend(certificates(path)?);
    }
    let trust = TlsConfig::builder().root_certs(RootCerts::Specific(Arc::new(roots))).build();
    let limits = Limits { connect: settings.connect, idle: settings.idle };
    Ok(http_client::agent(limits, trust, false))
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, SettingsError> {
    let wrong =
        |reason: String| SettingsError::Certificates { path: path.to_owned(), reason, most: MAX_CA_FILE };
    let found = read_pem(path, MAX_CA_FILE).map_err(|fault| match fault {
        PemFault::File(source) => SettingsError::CaFile { path: path.to_owned(), source },
        PemFault::Large(_) => wrong("it is larger".to_owned()),
        PemFault::Other(reason) => wrong(reason),
    })?;
    if found.certificates.is_empty() {
        return Err(wrong("there is no certificate in it".to_owned()));
    }
    Ok(found.certificates)
}
