//! TLS in which both sides show a certificate.

use crate::error::BindError;
use crate::settings::Tcp;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::Path;
use std::sync::Arc;

/// Largest file of certificates or of a key that is read.
const LARGEST: u64 = 1 << 20;

/// What the files say, for the server: TLS 1.2 or 1.3, a client certificate required.
pub(crate) fn configuration(tcp: &Tcp) -> Result<Arc<ServerConfig>, BindError> {
    let wrong = |path: &Path, what: String| BindError::Tls { path: path.to_owned(), what };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&tcp.client_ca)? {
        let added = roots.add(certificate);
        added.map_err(|error| {
            wrong(&tcp.client_ca, format!("not a certificate that can sign others: {error}"))
        })?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|error| wrong(&tcp.client_ca, error.to_string()))?;
    let key = private_key(&tcp.key)?;
    let mut configuration = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&tcp.certificate, error.to_string()))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates(&tcp.certificate)?, key)
        .map_err(|error| wrong(&tcp.certificate, format!("does not go with its key: {error}")))?;
    configuration.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(configuration))
}

/// What the files say, for the page: TLS 1.2 or 1.3. Browsers show no certificate; they have a session.
pub(crate) fn for_browsers(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, BindError> {
    let wrong = |path: &Path, what: String| BindError::Tls { path: path.to_owned(), what };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let of_key = private_key(key)?;
    let mut configuration = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(certificate, error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(certificates(certificate)?, of_key)
        .map_err(|error| wrong(certificate, format!("does not go with its key: {error}")))?;
    configuration.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(configuration))
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, BindError> {
    PrivateKeyDer::from_pem_slice(&bytes_of(path)?).map_err(|error| BindError::Tls {
        path: path.to_owned(),
        what: format!("not a private key in PEM: {error}"),
    })
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, BindError> {
    local_file::read(path, LARGEST)
        .map_err(|error| BindError::Tls { path: path.to_owned(), what: error.to_string() })
}

pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, BindError> {
    let wrong = |what: String| BindError::Tls { path: path.to_owned(), what };
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes_of(path)?).collect();
    match read {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(wrong("found no certificate; allowed: one or more in PEM".to_owned())),
        Err(error) => Err(wrong(format!("not a certificate in PEM: {error}"))),
    }
}
