//! Names and passwords for registries, as other tools keep them: `auths` of Docker's `config.json` and of
//! containers-auth.json(5).
//!
//! Programs that keep credentials (`credHelpers`, `credsStore`) are not run: a file that another user may be
//! able to write must not decide what a daemon executes. An operator who needs such a program lets it write a
//! file.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Under which name Docker keeps credentials for `docker.io`.
const DOCKER_HUB: &str = "index.docker.io";

/// A name and a password. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    name: String,
    password: String,
}

impl Login {
    /// A name and its password.
    pub fn new(name: &str, password: &str) -> Login {
        Login { name: name.to_owned(), password: password.to_owned() }
    }

    /// As `Authorization: Basic` carries it (RFC 7617).
    pub(crate) fn basic(&self) -> String {
        format!("Basic {}", STANDARD.encode(format!("{}:{}", self.name, self.password)))
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(...)")
    }
}

/// The login for each registry. Empty by default: anonymous everywhere.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    everywhere: Option<Login>,
    logins: BTreeMap<String, Login>,
    /// Hosts whose credentials a program keeps.
    helped: Vec<String>,
    /// Whether a program keeps those of all hosts.
    all_helped: bool,
}

/// Why a file gives no credentials. It does not show what is in the file.
#[derive(Debug, Error)]
pub enum CredentialsError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is too large.
    #[error("{}: larger than allowed; allowed: {MAX_FILE} bytes", path.display())]
    Large {
        /// Which.
        path: PathBuf,
    },
    /// It is not what it should be.
    #[error("{}: line {line}, column {column}: not as Docker's config.json; allowed: {{\"auths\": {{HOST: {{\"auth\": BASE64}}}}}}", path.display())]
    Format {
        /// Which.
        path: PathBuf,
        /// Where, from 1.
        line: usize,
        /// Where in it, from 1.
        column: usize,
    },
    /// An entry is none.
    #[error("{}: auths: `{host}`: {reason}; allowed: \"auth\" with the Base64 of NAME:PASSWORD, or \"username\" and \"password\"", path.display())]
    Entry {
        /// The file.
        path: PathBuf,
        /// The entry.
        host: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct File {
    auths: BTreeMap<String, Entry>,
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
}

impl Credentials {
    /// The same login for whatever registry is asked; it goes before those of a file.
    pub fn with_login(mut self, login: Login) -> Credentials {
        self.everywhere = Some(login);
        self
    }

    /// The same with a login for one registry, `HOST` or `HOST:PORT`.
    pub fn with_login_at(mut self, registry: &str, login: Login) -> Credentials {
        self.logins.insert(registry.to_owned(), login);
        self
    }

    /// Those of a file.
    ///
    /// # Errors
    /// [`CredentialsError`]; a file that is not there is an error too.
    pub fn from_file(path: &Path) -> Result<Credentials, CredentialsError> {
        let failed = |source| CredentialsError::File { path: path.to_owned(), source };
        let mut bytes = Vec::new();
        local_file::open(path)
            .and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes))
            .map_err(failed)?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(CredentialsError::Large { path: path.to_owned() });
        }
        Credentials::parse(path, &bytes)
    }

    /// Those of the user: of `$REGISTRY_AUTH_FILE`, or else of `config.json` in `$DOCKER_CONFIG` or
    /// `~/.docker`, if there is one.
    ///
    /// # Errors
    /// [`CredentialsError`]; a file that `$REGISTRY_AUTH_FILE` names must be there.
    pub fn from_environment() -> Result<Credentials, CredentialsError> {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(path) = set("REGISTRY_AUTH_FILE") {
            return Credentials::from_file(&path);
        }
        let folder = set("DOCKER_CONFIG").or_else(|| set("HOME").map(|home| home.join(".docker")));
        match folder.map(|folder| Credentials::from_file(&folder.join("config.json"))) {
            None => Ok(Credentials::default()),
            Some(Err(CredentialsError::File { source, .. })) if source.kind() == ErrorKind::NotFound => {
                Ok(Credentials::default())
            }
            Some(read) => read,
        }
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Credentials, CredentialsError> {
        let file: File = serde_json::from_slice(bytes).map_err(|error| CredentialsError::Format {
            path: path.to_owned(),
            line: error.line(),
            column: error.column(),
        })?;
        let mut logins = BTreeMap::new();
        for (host, entry) in file.auths {
            let login = login(&entry).map_err(|reason| CredentialsError::Entry {
                path: path.to_owned(),
                host: crate::harmless(&host, 80),
                reason,
            })?;
            // An entry without anything in it is how Docker notes that a program keeps the credentials.
            logins.extend(login.map(|login| (place(&host), login)));
        }
        let helped = file.cred_helpers.keys().map(|host| place(host)).collect();
        Ok(Credentials { everywhere: None, logins, helped, all_helped: file.creds_store.is_some() })
    }

    /// The login for a repository: that of the longest entry that leads to it.
    pub(crate) fn login(&self, host: &str, repository: &str) -> Option<&Login> {
        if self.everywhere.is_some() {
            return self.everywhere.as_ref();
        }
        let full = format!("{host}/{repository}");
        let mut place = full.as_str();
        loop {
            if let Some(login) = self.logins.get(place) {
                return Some(login);
            }
            match place.rsplit_once('/') {
                Some((shorter, _)) => place = shorter,
                None if host == "docker.io" => return self.logins.get(DOCKER_HUB),
                None => return None,
            }
        }
    }

    /// Whether a program that is not run may keep the credentials for this host.
    pub(crate) fn is_helped(&self, host: &str) -> bool {
        self.all_helped || self.helped.iter().any(|helped| helped == host)
    }
}

/// The place that a key of `auths` means: a host with or without a path; old files have whole addresses of a
/// registry's API.
fn place(key: &str) -> String {
    match key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")) {
        Some(address) => address.split('/').next().unwrap_or_default().to_owned(),
        None => key.trim_end_matches('/').to_owned(),
    }
}

fn login(entry: &Entry) -> Result<Option<Login>, &'static str> {
    match entry {
        Entry { auth: Some(auth), .. } if !auth.is_empty() => {
            let bytes = STANDARD.decode(auth.trim()).map_err(|_| "its `auth` is no Base64")?;
            let text = String::from_utf8(bytes).map_err(|_| "its `auth` is no text")?;
            // A name has no colon (RFC 7617); old versions of Docker pad with zeroes.
            let (name, password) = text.split_once(':').ok_or("its `auth` has no colon")?;
            Ok(Some(Login::new(name, password.trim_end_matches('\0'))))
        }
        Entry { username: Some(name), password: Some(password), .. } => Ok(Some(Login::new(name, password))),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Credentials, CredentialsError> {
        Credentials::parse(Path::new("config.json"), text.as_bytes())
    }

    #[test]
    fn the_longest_entry_that_leads_to_a_repository_counts() {
        let file = r#"{"auths": {
            "a.example": {"auth": "YTox"}, "a.example/edge": {"auth": "Yjoy"}, "a.example/edge/fw": {"username": "c", "password": "3:4"},
            "https://b.example:5000/v1/": {"auth": "ZDo1"}, "https://index.docker.io/v1/": {"auth": "ZTo2"}, "c.example": {}
        }, "credHelpers": {"d.example": "x"}, "HttpHeaders": {}}"#;
        let credentials = parse(file).expect("sound");
        let name = |host, repository| credentials.login(host, repository).map(|login| login.name.clone());
        assert_eq!(name("a.example", "x").as_deref(), Some("a"));
        assert_eq!(name("a.example", "edgy").as_deref(), Some("a"));
        assert_eq!(name("a.example", "edge/x").as_deref(), Some("b"));
        assert_eq!(name("a.example", "edge/fw").as_deref(), Some("c"));
        assert_eq!(name("b.example:5000", "x").as_deref(), Some("d"));
        assert_eq!(name("docker.io", "library/x").as_deref(), Some("e"));
        assert_eq!(name("b.example", "x"), None);
        assert_eq!(name("c.example", "x"), None);
        assert!(credentials.is_helped("d.example") && !credentials.is_helped("a.example"));
        assert!(parse(r#"{"credsStore": "desktop"}"#).expect("sound").is_helped("a.example"));

        let login = credentials.login("a.example", "edge/fw").expect("there");
        assert_eq!(login.basic(), "Basic YzozOjQ=");
        let explicit = credentials.clone().with_login(Login::new("me", "secret"));
        assert_eq!(explicit.login("b.example", "x"), Some(&Login::new("me", "secret")));
        assert!(!format!("{explicit:?}").contains("secret"));
    }

    #[test]
    fn what_is_wrong_is_told_without_the_secrets() {
        for (text, wanted) in [
            ("{\"auths\": {\n \"a\": \"c2VjcmV0\"}}", "config.json: line 2, column"),
            ("[", "config.json: line 1"),
            (
                r#"{"auths": {"a.b": {"auth": "c2VjcmV0"}}}"#,
                "config.json: auths: `a.b`: its `auth` has no colon",
            ),
            (r#"{"auths": {"a.b": {"auth": "%secret%"}}}"#, "its `auth` is no Base64"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(wanted), "{error}");
            assert!(!error.contains("secret") && !error.contains("c2Vj") && !error.contains('\n'), "{error}");
        }
    }
}
