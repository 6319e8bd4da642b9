//! Tokens: kept in the store without their secrets, found by the digest of what is shown.
//!
//! 1. [`Tokens::issue`] draws a secret of 256 bits. The client that asked for the token is told it; the store
//!    gets its SHA-256.
//! 2. [`Tokens::find`] takes the digest of what a client shows and looks it up. What is compared is a digest
//!    that the client cannot choose, so that the time it takes tells nothing of a secret.
//! 3. Code that has a [`Grant`] asks [`Tokens::hold`] each time that it matters, and streams wait for
//!    [`Tokens::over`]: a token that is deleted or expired gives no right from that moment on.

use crate::error::BindError;
use crate::rights::Rights;
use api::{IssuedToken, Kind, NewToken, Problem, ProblemType, TOKEN_PREFIX, Token, check_name};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use store::{Change, Store};
use tokio::sync::watch;
use tokio::time::sleep;

/// The kind of tokens in the store. They are no objects: no document names them.
pub(crate) const KIND: &str = "token";

/// Most tokens.
pub(crate) const TOKENS_MAX: usize = 1024;

/// The longest that a stream sleeps before it looks at its token's time again: the clock may be set.
const LOOK: Duration = Duration::from_secs(30);

/// What the store keeps of a token, beside its name.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    /// None: it reads the whole host. Records from before there were such tokens all have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// Said as well, so that a record without a tenant is taken for no other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    host: bool,
    /// Of the secret, in hexadecimal.
    sha256: String,
    created: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    read_only: bool,
}

/// What a token gives the right to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub token: Token,
    sha256: String,
    expires: Option<SystemTime>,
}

/// All tokens.
#[derive(Debug)]
pub(crate) struct Tokens {
    all: Mutex<All>,
    /// Moves when one goes.
    gone: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct All {
    by_name: BTreeMap<String, Arc<Grant>>,
    by_digest: HashMap<String, Arc<Grant>>,
}

impl Tokens {
    /// Those of a store.
    pub fn load(store: &Store) -> Result<Tokens, BindError> {
        let tokens = Tokens { all: Mutex::default(), gone: watch::Sender::new(()) };
        let mut from = String::new();
        loop {
            let page = store.list(KIND, &from, store::PAGE_MAX);
            for object in page.objects {
                let name = object.name.to_string();
                let wrong = |what: String| BindError::Object { object: format!("{KIND}/{name}"), what };
                check_name(Kind::Function, &name).map_err(|error| wrong(error.to_string()))?;
                let record: Record = serde_json::from_slice(&object.value)
                    .map_err(|error| wrong(format!("cannot be read: {error}")))?;
                let grant = Grant::of(name.clone(), record).map_err(wrong)?;
                tokens.keep(Arc::new(grant));
            }
            match page.next {
                Some(next) => from = next.to_string(),
                None => return Ok(tokens),
            }
        }
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new one, what is to be written of it, and what the client that asked for it is told. It is not taken
    /// before it is [kept](Tokens::keep).
    ///
    /// # Errors
    /// The system has no random numbers, or the time is none, in words.
    pub fn issue(wanted: NewToken) -> Result<(Arc<Grant>, Change, IssuedToken), String> {
        let secret = secret(TOKEN_PREFIX)?;
        let NewToken { name, tenant, host, expires, read_only } = wanted;
        let (name, tenant, read_only) = (String::from(name), tenant.map(String::from), read_only || host);
        let sha256 = digest(&secret);
        let record = Record { tenant, host, sha256, created: crate::time::now(), expires, read_only };
        // Text can always be written.
        let change =
            Change::put(KIND, name.as_str(), serde_json::to_vec(&record).map_err(|error| error.to_string())?);
        let grant = Arc::new(Grant::of(name, record)?);
        let issued = IssuedToken { token: grant.token.clone(), secret };
        Ok((grant, change, issued))
    }

    /// It is taken from now on.
    pub fn keep(&self, grant: Arc<Grant>) {
        let mut all = self.all();
        all.by_digest.insert(grant.sha256.clone(), grant.clone());
        all.by_name.insert(grant.token.name.clone(), grant);
    }

    /// It is not taken any more.
    pub fn forget(&self, name: &str) {
        let mut all = self.all();
        if let Some(grant) = all.by_name.remove(name) {
            all.by_digest.remove(&grant.sha256);
        }
        drop(all);
        self.gone.send_replace(());
    }

    /// The one with this secret.
    ///
    /// # Errors
    /// There is none, or it has expired: one answer for both.
    pub fn find(&self, secret: &str) -> Result<Arc<Grant>, Problem> {
        let found = self.all().by_digest.get(&digest(secret)).cloned();
        found.filter(|grant| !grant.is_over(SystemTime::now())).ok_or_else(not_taken)
    }

    /// Whether a right still is one.
    ///
    /// # Errors
    /// Its token is deleted or expired.
    pub fn hold(&self, rights: &Rights) -> Result<(), Problem> {
        let Some(grant) = rights.grant() else { return Ok(()) };
        let there = self.all().by_digest.get(&grant.sha256).is_some_and(|there| there == grant);
        if there && !grant.is_over(SystemTime::now()) { Ok(()) } else { Err(not_taken()) }
    }

    /// Comes when a right is none any more.
    pub async fn over(&self, rights: &Rights) {
        let Some(grant) = rights.grant() else { return std::future::pending().await };
        let mut gone = self.gone.subscribe();
        while self.hold(rights).is_ok() {
            let left = grant
                .expires
                .map_or(LOOK, |end| end.duration_since(SystemTime::now()).unwrap_or_default().min(LOOK));
            tokio::select! {
                _ = gone.changed() => {}
                () = sleep(left) => {}
            }
        }
    }

    /// All of them, in the order of their names.
    pub fn list(&self) -> Vec<Token> {
        self.all().by_name.values().map(|grant| grant.token.clone()).collect()
    }

    pub fn get(&self, name: &str) -> Option<Token> {
        self.all().by_name.get(name).map(|grant| grant.token.clone())
    }

    pub fn count(&self) -> usize {
        self.all().by_name.len()
    }

    /// Names of those of a tenant.
    pub fn of(&self, tenant: &str) -> Vec<String> {
        let all = self.all();
        let of = all.by_name.values().filter(|grant| grant.token.tenant.as_deref() == Some(tenant));
        of.map(|grant| grant.token.name.clone()).collect()
    }
}

impl Grant {
    fn of(name: String, record: Record) -> Result<Grant, String> {
        let Record { tenant, host, sha256, created, expires, read_only } = record;
        if tenant.is_none() != host || (host && !read_only) {
            return Err("is neither of a tenant nor for reading the host".to_owned());
        }
        let time = expires.as_deref().map(instant).transpose()?;
        Ok(Grant { token: Token { name, tenant, host, created, expires, read_only }, sha256, expires: time })
    }

    fn is_over(&self, now: SystemTime) -> bool {
        self.expires.is_some_and(|end| end <= now)
    }
}

/// A time after RFC 3339, in UTC.
///
/// # Errors
/// What was found, and what is allowed.
pub(crate) fn instant(text: &str) -> Result<SystemTime, String> {
    humantime::parse_rfc3339(text).map_err(|_| {
        let found = yaml_document::spelling::shown(text);
        format!("found `{found}`; allowed: a time after RFC 3339 in UTC, such as `2027-01-31T12:00:00Z`")
    })
}

/// A new secret of 256 bits, in hexadecimal, behind a prefix.
///
/// # Errors
/// The system has no random numbers, in words.
pub(crate) fn secret(prefix: &str) -> Result<String, String> {
    let mut bits = [0_u8; 32];
    let random = rustls::crypto::ring::default_provider().secure_random;
    random.fill(&mut bits).map_err(|_| "the system has no random numbers".to_owned())?;
    Ok(format!("{prefix}{}", hexadecimal(&bits)))
}

/// What is kept of a secret.
pub(crate) fn digest(secret: &str) -> String {
    hexadecimal(&Sha256::digest(secret))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// One answer for tokens that never were, are no more, or are over: a client that guesses learns nothing.
fn not_taken() -> Problem {
    Problem::new(ProblemType::Unauthorized, "the token is unknown, deleted or expired")
}

/// The rights of a token of a tenant.
#[cfg(test)]
pub(crate) fn rights_of(tenant: &str) -> Rights {
    let token = Token {
        name: "t".to_owned(),
        tenant: Some(tenant.to_owned()),
        host: false,
        created: String::new(),
        expires: None,
        read_only: false,
    };
    Rights::Of(Arc::new(Grant { token, sha256: String::new(), expires: None }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rights::Rights;

    fn wanted(name: &str, expires: Option<&str>) -> NewToken {
        NewToken {
            name: api::Name::new(name).expect("a name"),
            tenant: Some(api::Name::new("red").expect("a name")),
            host: false,
            expires: expires.map(str::to_owned),
            read_only: false,
        }
    }

    #[test]
    fn a_token_is_found_by_its_secret_until_it_goes_and_the_store_has_no_secret() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path()).expect("opens");
        let (grant, change, issued) = Tokens::issue(wanted("ci", None)).expect("issues");
        assert!(api::is_secret(&issued.secret), "{}", issued.secret);
        store.commit(&[change]).expect("commits");
        let written = store.read(KIND, "ci").expect("is there");
        let written = String::from_utf8_lossy(&written.value).into_owned();
        assert!(!written.contains(&issued.secret[TOKEN_PREFIX.len()..]), "{written}");
        let tokens = Tokens::load(&store).expect("reads");
        let found = tokens.find(&issued.secret).expect("is taken");
        assert_eq!(found, grant, "as it was made");
        let other = Tokens::issue(wanted("ci", None)).expect("issues").2.secret;
        assert_ne!(other, issued.secret);
        assert!(tokens.find(&other).is_err());
        let rights = Rights::of(found);
        assert!(tokens.hold(&rights).is_ok());
        tokens.forget("ci");
        assert!(tokens.hold(&rights).is_err() && tokens.find(&issued.secret).is_err());
        // One of the same name is another one.
        tokens.keep(Tokens::issue(wanted("ci", None)).expect("issues").0);
        assert!(tokens.hold(&rights).is_err());
    }

    #[test]
    fn records_say_what_a_token_is_for_and_those_of_before_are_a_tenants() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path()).expect("opens");
        let wanted = NewToken { tenant: None, host: true, ..wanted("watch", None) };
        let (grant, change, issued) = Tokens::issue(wanted).expect("issues");
        assert!(grant.token.read_only, "whatever was asked for");
        // As it was written before there were tokens of the host.
        let old = r#"{"tenant":"red","sha256":"00","created":"2026-01-02T03:04:05Z","read_only":false}"#;
        store.commit(&[change, Change::put(KIND, "old", old.as_bytes().to_vec())]).expect("commits");
        let tokens = Tokens::load(&store).expect("reads");
        assert_eq!(tokens.find(&issued.secret).expect("is taken"), grant, "as it was made");
        let old = tokens.get("old").expect("is there");
        assert_eq!((old.tenant.as_deref(), old.host, old.read_only), (Some("red"), false, false));
        assert_eq!(tokens.of("red"), ["old"], "the host's is no tenant's");
        for wrong in [
            r#"{"sha256":"00","created":"","read_only":true}"#,
            r#"{"host":true,"sha256":"00","created":"","read_only":false}"#,
            r#"{"host":true,"tenant":"red","sha256":"00","created":"","read_only":true}"#,
        ] {
            store.commit(&[Change::put(KIND, "wrong", wrong.as_bytes().to_vec())]).expect("commits");
            assert!(Tokens::load(&store).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_token_whose_time_is_over_is_not_taken() {
        let tokens = Tokens { all: Mutex::default(), gone: watch::Sender::new(()) };
        let (grant, _, issued) = Tokens::issue(wanted("old", Some("2020-01-01T00:00:00Z"))).expect("issues");
        tokens.keep(grant.clone());
        let told = tokens.find(&issued.secret).expect_err("is over").detail;
        assert_eq!(
            told,
            tokens.find("sft_").expect_err("never was").detail,
            "a client that guesses learns nothing"
        );
        assert!(tokens.hold(&Rights::of(grant)).is_err());
        assert_eq!(tokens.list().len(), 1, "it is shown until it is deleted");
        assert!(Tokens::issue(wanted("x", Some("tomorrow"))).is_err());
    }
}
