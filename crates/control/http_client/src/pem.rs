//! Certificates and keys: those of the system, and those in files.

use printable::harmless;
use std::io::Read;
use std::path::Path;
use thiserror::Error;
use ureq::tls::{Certificate, PemItem, PrivateKey, parse_pem};

/// What is in a file.
#[derive(Debug, Default)]
pub struct Pem {
    /// Its certificates, in their order.
    pub certificates: Vec<Certificate<'static>>,
    /// Its last private key.
    pub key: Option<PrivateKey<'static>>,
}

/// Why a file was not read.
#[derive(Debug, Error)]
pub enum PemFault {
    /// The system refuses.
    #[error(transparent)]
    File(#[from] std::io::Error),
    /// It is larger than was agreed to.
    #[error("it is larger than {0} bytes")]
    Large(u64),
    /// It is something else.
    #[error("{0}")]
    Other(String),
}

/// Reads the certificates and the key of a file in PEM that has at most so many bytes.
///
/// # Errors
/// [`PemFault`]. That there is nothing in it is none.
pub fn read_pem(path: &Path, most: u64) -> Result<Pem, PemFault> {
    let mut text = Vec::new();
    local_file::open(path)?.take(most.saturating_add(1)).read_to_end(&mut text)?;
    if text.len() as u64 > most {
        return Err(PemFault::Large(most));
    }
    let mut pem = Pem::default();
    for item in parse_pem(&text) {
        match item.map_err(|error| PemFault::Other(harmless(&error.to_string(), 120)))? {
            PemItem::Certificate(certificate) => pem.certificates.push(certificate),
            PemItem::PrivateKey(key) => pem.key = Some(key),
            _ => {}
        }
    }
    Ok(pem)
}

/// The authorities that the system trusts.
pub fn system_roots() -> Vec<Certificate<'static>> {
    // What of the system's certificates cannot be read does not make others less trustworthy.
    let roots = rustls_native_certs::load_native_certs().certs;
    roots.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect()
}
