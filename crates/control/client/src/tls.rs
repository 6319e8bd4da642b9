//! TCP with TLS, in which both sides show a certificate.

use crate::{Settings, SettingsError, Tls};
use http_client::{Agent, ClientCert, Pem, PemFault, RootCerts, TlsConfig, http, read_pem};
use std::path::Path;
use std::sync::Arc;

/// Largest file of certificates or keys, in bytes.
const LARGEST: u64 = 1 << 20;

pub(crate) fn agent(tls: &Tls, settings: &Settings) -> Result<Agent, SettingsError> {
    let host = &tls.host;
    let port = host.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok()).filter(|port| *port > 0);
    let named = host.parse::<http::uri::Authority>().is_ok_and(|host| !host.host().is_empty());
    if port.is_none() || !named || host.contains('@') {
        return Err(SettingsError::Host(host.clone()));
    }
    let (roots, chain) = (read(&tls.ca)?.certificates, read(&tls.certificate)?.certificates);
    let wanting = |path: &Path, wanted| {
        let reason = "there is none in it".to_owned();
        SettingsError::Pem { path: path.to_owned(), reason, wanted }
    };
    let key = read(&tls.key)?.key;
    if roots.is_empty() {
        return Err(wanting(&tls.ca, "certificates"));
    }
    if chain.is_empty() {
        return Err(wanting(&tls.certificate, "certificates"));
    }
    let key = key.ok_or_else(|| wanting(&tls.key, "a private key"))?;
    let trust = TlsConfig::builder()
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .client_cert(Some(ClientCert::new_with_certs(&chain, key)))
        .build();
    Ok(http_client::agent(settings.limits(), trust, true))
}

fn read(path: &Path) -> Result<Pem, SettingsError> {
    read_pem(path, LARGEST).map_err(|fault| match fault {
        PemFault::File(source) => SettingsError::File { path: path.to_owned(), source },
        fault => {
            let (path, reason) = (path.to_owned(), fault.to_string());
            SettingsError::Pem { path, reason, wanted: "certificates and keys" }
        }
    })
}
