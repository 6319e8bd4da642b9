//! The identity of a client.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt;
use std::net::IpAddr;

/// What is at the other end of a connection, as the kernel or TLS says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// A process of this host, as it was when it connected (SO_PEERCRED).
    Process {
        /// Its user.
        user: u32,
        /// Its group.
        group: u32,
        /// Its number.
        process: i32,
    },
    /// A client that has the key of a certificate that was accepted.
    Certificate {
        /// SHA-256 of the certificate, in hexadecimal.
        sha256: String,
        /// The names that it is for (its DNS names).
        names: Vec<String>,
    },
    /// A client that has a token's secret.
    Token {
        /// Its name.
        token: String,
        /// The tenant whose rights it gives; none if it reads the whole host.
        tenant: Option<String>,
        /// What is at the other end.
        by: Box<Identity>,
    },
    /// A browser that shows the page.
    Browser {
        /// Where it connects from.
        address: IpAddr,
        /// Its session, and the client that asked for the session's link; none before it has one.
        session: Option<(String, Box<Identity>)>,
    },
}

impl Identity {
    /// Of a certificate that TLS has verified.
    pub(crate) fn of_certificate(certificate: &rustls::pki_types::CertificateDer<'_>) -> Identity {
        let digest = Sha256::digest(certificate);
        let sha256 = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let names = webpki::EndEntityCert::try_from(certificate)
            .map(|parsed| parsed.valid_dns_names().map(str::to_owned).collect())
            .unwrap_or_default();
        Identity::Certificate { sha256, names }
    }

    /// Whether it has its rights from a token.
    pub(crate) fn has_a_token(&self) -> bool {
        match self {
            Identity::Process { .. } | Identity::Certificate { .. } => false,
            Identity::Token { .. } => true,
            Identity::Browser { session, .. } => session.as_ref().is_some_and(|(_, by)| by.has_a_token()),
        }
    }

    /// As it stands in the audit log.
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Identity::Process { user, group, process } => json!({"uid": user, "gid": group, "pid": process}),
            Identity::Certificate { sha256, names } => json!({"certificate": sha256, "names": names}),
            Identity::Token { token, tenant, by } => {
                let mut told = by.to_json();
                told["token"] = token.as_str().into();
                match tenant {
                    Some(tenant) => told["tenant"] = tenant.as_str().into(),
                    None => told["host"] = true.into(),
                }
                told
            }
            Identity::Browser { address, session } => {
                let mut told = match session {
                    Some((_, by)) => by.to_json(),
                    None => json!({}),
                };
                told["browser"] = address.to_string().into();
                if let Some((session, _)) = session {
                    told["session"] = session.as_str().into();
                }
                told
            }
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Identity::Process { user, process, .. } => write!(f, "uid {user}, pid {process}"),
            Identity::Certificate { sha256, names } => {
                write!(f, "certificate {:.16} ({})", sha256, names.join(", "))
            }
            Identity::Token { token, tenant: Some(tenant), by } => {
                write!(f, "token {token} of {tenant}, {by}")
            }
            Identity::Token { token, tenant: None, by } => write!(f, "token {token} of the host, {by}"),
            Identity::Browser { address, session: None } => write!(f, "a browser at {address}"),
            Identity::Browser { address, session: Some((session, by)) } => {
                write!(f, "session {session} of a browser at {address}, {by}")
            }
        }
    }
}
