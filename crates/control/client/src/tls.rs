//! TCP with TLS, in which both sides show a certificate.

use crate::exchange::configured;
use crate::{Settings, SettingsError, Tls};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use ureq::Agent;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

/// Largest file of certificates or keys, in bytes.
const LARGEST: u64 = 1 << 20;

pub(crate) fn agent(tls: &Tls, settings: &Settings) -> Result<Agent, SettingsError> {
    let host = &tls.host;
    let port = host.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok()).filter(|port| *port > 0);
    let named = host.parse::<ureq::http::uri::Authority>().is_ok_and(|host| !host.host().is_empty());
    if port.is_none() || !named || host.contains('@') {
        return Err(SettingsError::Host(host.clone()));
    }
    let (roots, _) = read(&tls.ca)?;
    let (chain, _) = read(&tls.certificate)?;
    let (_, key) = read(&tls.key)?;
    let wanting = |path: &Path, wanted| {
        let reason = "there is none in it".to_owned();
        SettingsError::Pem { path: path.to_owned(), reason, wanted }
    };
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
    Ok(configured(settings).https_only(true).tls_config(trust).build().new_agent())
}

/// The certificates and the last key of a file.
fn read(path: &Path) -> Result<(Vec<Certificate<'static>>, Option<PrivateKey<'static>>), SettingsError> {
    let mut pem = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(LARGEST + 1).read_to_end(&mut pem))
        .map_err(|source| SettingsError::File { path: path.to_owned(), source })?;
    let wanted = "certificates and keys";
    let wrong = |reason: String| SettingsError::Pem { path: path.to_owned(), reason, wanted };
    if pem.len() as u64 > LARGEST {
        return Err(wrong(format!("it is larger than {LARGEST} bytes")));
    }
    let (mut certificates, mut key) = (Vec::new(), None);
    for item in parse_pem(&pem) {
        match item.map_err(|error| wrong(crate::harmless(&error.to_string(), 120)))? {
            PemItem::Certificate(certificate) => certificates.push(certificate),
            PemItem::PrivateKey(found) => key = Some(found),
            _ => {}
        }
    }
    Ok((certificates, key))
}
