//! Certificates for a daemon that listens on TCP, made anew for each run.

use crate::BenchError;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::path::{Path, PathBuf};

/// The name that makes a certificate an administrator's.
pub(super) const ADMINISTRATOR: &str = "ops.example";

/// Files in PEM.
pub(super) struct Certificates {
    pub(super) authority: PathBuf,
    pub(super) server: PathBuf,
    pub(super) server_key: PathBuf,
    pub(super) administrator: PathBuf,
    pub(super) administrator_key: PathBuf,
}

impl Certificates {
    /// Makes an authority, the daemon's certificate for `localhost`, and an administrator's, in this folder.
    pub(super) fn make(folder: &Path) -> Result<Certificates, BenchError> {
        let mut parameters = CertificateParams::new(Vec::new()).map_err(BenchError::setup)?;
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().map_err(BenchError::setup)?;
        let issuer = CertifiedIssuer::self_signed(parameters, key).map_err(BenchError::setup)?;
        let write = |name: &str, text: String| {
            let path = folder.join(name);
            std::fs::write(&path, text).map(|()| path).map_err(BenchError::setup)
        };
        let sign = |name: &str, file: &str| {
            let key = KeyPair::generate().map_err(BenchError::setup)?;
            let parameters = CertificateParams::new(vec![name.to_owned()]).map_err(BenchError::setup)?;
            let certificate = parameters.signed_by(&key, &issuer).map_err(BenchError::setup)?;
            Ok::<_, BenchError>((
                write(&format!("{file}.pem"), certificate.pem())?,
                write(&format!("{file}.key"), key.serialize_pem())?,
            ))
        };
        let (server, server_key) = sign("localhost", "server")?;
        let (administrator, administrator_key) = sign(ADMINISTRATOR, "administrator")?;
        let authority = write("authority.pem", issuer.pem())?;
        Ok(Certificates { authority, server, server_key, administrator, administrator_key })
    }
}
