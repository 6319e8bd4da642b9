//! Connections: which hosts they are trusted to lead to, and how long each may take.

use crate::{Settings, SettingsError, harmless};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// Largest file of certificates, in bytes.
const MAX_CA_FILE: u64 = 4 << 20;

/// What keeps connections to registries, with the limits of these settings.
///
/// # Errors
/// [`SettingsError`].
pub(crate) fn agent(settings: &Settings) -> Result<Agent, SettingsError> {
    settings.check()?;
    // What of the system's certificates cannot be read does not make others less trustworthy.
    let mut roots: Vec<_> = rustls_native_certs::load_native_certs()
        .certs
        .iter()
        .map(|certificate| Certificate::from_der(certificate).to_owned())
        .collect();
    if let Some(path) = &settings.ca_file {
        roots.extend(certificates(path)?);
    }
    let tls = TlsConfig::builder().root_certs(RootCerts::Specific(Arc::new(roots))).build();
    let config = Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        // They are followed here, where it is known which hosts are allowed.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .user_agent(concat!("superfluid/", env!("CARGO_PKG_VERSION")))
        .max_response_header_size(32 << 10)
        .timeout_resolve(Some(settings.connect))
        .timeout_connect(Some(settings.connect))
        .timeout_per_read(Some(settings.idle))
        .timeout_per_write(Some(settings.idle))
        .build();
    Ok(config.new_agent())
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, SettingsError> {
    let mut pem = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_CA_FILE + 1).read_to_end(&mut pem))
        .map_err(|source| SettingsError::CaFile { path: path.to_owned(), source })?;
    let wrong =
        |reason: String| SettingsError::Certificates { path: path.to_owned(), reason, most: MAX_CA_FILE };
    if pem.len() as u64 > MAX_CA_FILE {
        return Err(wrong("it is larger".to_owned()));
    }
    let mut found = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) =
            item.map_err(|error| wrong(harmless(&error.to_string(), 120)))?
        {
            found.push(certificate);
        }
    }
    if found.is_empty() {
        return Err(wrong("there is no certificate in it".to_owned()));
    }
    Ok(found)
}
