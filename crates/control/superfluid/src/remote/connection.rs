//! Which daemon is asked.

use super::failure::Failure;
use crate::Outcome;
use clap::Args;
use client::{Address, Client, Secret, Settings, SettingsError, Tls};
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
#[command(next_help_heading = "Which daemon")]
pub(crate) struct Connection {
    /// Its UNIX socket.
    #[arg(
        long,
        value_name = "PATH",
        env = "SUPERFLUID_SOCKET",
        hide_env_values = true,
        default_value = "/run/superfluid/superfluid.sock"
    )]
    socket: PathBuf,
    /// Show it the token in this file, which only this user may be able to read: what is asked is then asked
    /// with its tenant's rights.
    #[arg(long, value_name = "FILE", env = "SUPERFLUID_TOKEN_FILE", hide_env_values = true)]
    token_file: Option<PathBuf>,
    /// Ask one over TCP instead, with certificates on both sides.
    #[arg(long, value_name = "HOST:PORT", requires_all = ["tls_ca", "tls_cert", "tls_key"])]
    connect: Option<String>,
    /// The authority that signs its certificate, PEM.
    #[arg(long, value_name = "FILE", requires = "connect")]
    tls_ca: Option<PathBuf>,
    /// The certificate to show, PEM.
    #[arg(long, value_name = "FILE", requires = "connect")]
    tls_cert: Option<PathBuf>,
    /// Its key, PEM.
    #[arg(long, value_name = "FILE", requires = "connect")]
    tls_key: Option<PathBuf>,
}

impl Connection {
    /// The daemon of this host, at its usual place.
    pub(crate) fn local() -> Connection {
        let socket = PathBuf::from("/run/superfluid/superfluid.sock");
        Connection { socket, token_file: None, connect: None, tls_ca: None, tls_cert: None, tls_key: None }
    }

    /// A client of it. Nothing is asked yet.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let address = match (&self.connect, &self.tls_ca, &self.tls_cert, &self.tls_key) {
            (Some(host), Some(ca), Some(certificate), Some(key)) => Address::Tls(Tls {
                host: host.clone(),
                ca: ca.clone(),
                certificate: certificate.clone(),
                key: key.clone(),
            }),
            _ => Address::Unix(self.socket.clone()),
        };
        let wrong = |error: SettingsError| Failure::new(error, Outcome::BadInput);
        let token = self.token_file.as_deref().map(Secret::read).transpose().map_err(wrong)?;
        Client::new(Settings { token, ..Settings::new(address) }).map_err(wrong)
    }

    /// A path that is meant from `folder`, as the daemon finds it, if it is another then. One on another host
    /// finds what is there.
    pub(crate) fn whole(&self, folder: &Path, path: &str) -> Option<String> {
        if self.connect.is_some() || path.starts_with('/') {
            return None;
        }
        let whole = folder.join(path.strip_prefix("./").unwrap_or(path));
        std::path::absolute(whole).ok()?.to_str().map(str::to_owned)
    }
}
