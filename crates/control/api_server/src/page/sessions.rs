//! Links and sessions of the page, in memory: a restart of the daemon ends them all.
//!
//! Of secrets there are digests alone: what is compared is a digest that a client cannot choose, so that the
//! time it takes tells nothing. An owner (the administrators, the readers of the host, each tenant) has few
//! links and sessions; the oldest link, and the session that has rested for longest, give way to the next.

use crate::identity::Identity;
use crate::rights::Rights;
use crate::settings;
use crate::tokens::{self, Tokens};
use api::LINK_PREFIX;
use hyper::header::{COOKIE, HeaderMap};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::sleep;

/// Links of an owner that were not opened yet.
const LINKS: usize = 16;
/// Sessions of an owner.
const SESSIONS: usize = 16;
/// Cookies of the page's name that are looked at: another program on this host may have set some.
const COOKIES: usize = 4;

/// The header with the second secret.
pub(super) const HEADER: &str = "superfluid-session";

/// Whose links and sessions are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Administrators,
    Readers,
    Tenant(String),
}

impl Owner {
    fn of(rights: &Rights) -> Owner {
        match (rights, rights.tenant()) {
            (Rights::All, _) => Owner::Administrators,
            (_, Some(tenant)) => Owner::Tenant(tenant.to_owned()),
            (_, None) => Owner::Readers,
        }
    }
}

struct Link {
    number: u64,
    owner: Owner,
    rights: Rights,
    by: Arc<Identity>,
    until: Instant,
}

/// A browser with rights.
pub(crate) struct Session {
    /// The digest of its cookie, by which it is found.
    cookie: String,
    /// The digest of its second secret.
    secret: String,
    owner: Owner,
    pub rights: Rights,
    /// The client that asked for the link.
    by: Identity,
    until: Instant,
    used: Mutex<Instant>,
    over: watch::Sender<bool>,
}

impl Session {
    /// As it is named in logs.
    fn name(&self) -> &str {
        self.cookie.get(..12).unwrap_or_default()
    }

    /// The identity of the browser that has it.
    pub(super) fn identity(&self, browser: &Identity) -> Arc<Identity> {
        match browser {
            Identity::Browser { address, .. } => Arc::new(Identity::Browser {
                address: *address,
                session: Some((self.name().to_owned(), Box::new(self.by.clone()))),
            }),
            other => Arc::new(other.clone()),
        }
    }

    fn used(&self) -> MutexGuard<'_, Instant> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long it lasts if nothing comes any more.
    fn left(&self, idle: Duration, now: Instant) -> Duration {
        (*self.used() + idle).min(self.until).saturating_duration_since(now)
    }

    /// How long it lasts at most.
    pub(super) fn longest(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

/// A session that was opened, and its secrets.
pub(super) struct Opened {
    pub session: Arc<Session>,
    pub cookie: String,
    pub secret: String,
}

#[derive(Default)]
struct All {
    /// Counts links.
    next: u64,
    /// By the digests of their secrets.
    links: HashMap<String, Link>,
    /// By the digests of their cookies.
    sessions: HashMap<String, Arc<Session>>,
}

/// See the module's documentation.
pub(crate) struct Sessions {
    link_time: Duration,
    idle: Duration,
    longest: Duration,
    all: Mutex<All>,
}

impl Sessions {
    pub(super) fn new(settings: &settings::Page) -> Sessions {
        let settings::Page { link_time, idle, longest, .. } = *settings;
        Sessions { link_time, idle, longest, all: Mutex::default() }
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn link_time(&self) -> Duration {
        self.link_time
    }

    /// For how long a session may rest.
    pub(super) fn idle(&self) -> Duration {
        self.idle
    }

    /// How many sessions there are.
    pub(crate) fn count(&self) -> usize {
        self.all().sessions.len()
    }

    /// The secret of a new link with these rights.
    ///
    /// # Errors
    /// The system has no random numbers, in words.
    pub(super) fn link(&self, rights: Rights, by: Arc<Identity>) -> Result<String, String> {
        let secret = tokens::secret(LINK_PREFIX)?;
        let (now, owner) = (Instant::now(), Owner::of(&rights));
        let mut all = self.all();
        all.links.retain(|_, link| link.until > now);
        let of_owner = all.links.iter().filter(|(_, link)| link.owner == owner);
        if of_owner.clone().count() >= LINKS {
            let oldest = of_owner.min_by_key(|(_, link)| link.number).map(|(digest, _)| digest.clone());
            if let Some(digest) = oldest {
                all.links.remove(&digest);
            }
        }
        let number = all.next;
        all.next += 1;
        let until = now + self.link_time;
        all.links.insert(tokens::digest(&secret), Link { number, owner, rights, by, until });
        Ok(secret)
    }

    /// Opens a session by a link, which is used up. `None`: there is no such link, or none any more.
    ///
    /// # Errors
    /// The system has no random numbers, in words.
    pub(super) fn open(&self, link: &str, tokens: &Tokens) -> Result<Option<Opened>, String> {
        let now = Instant::now();
        let found = self.all().links.remove(&tokens::digest(link));
        let Some(Link { owner, rights, by, .. }) =
            found.filter(|link| link.until > now && tokens.hold(&link.rights).is_ok())
        else {
            return Ok(None);
        };
        let (cookie, secret) = (tokens::secret("")?, tokens::secret("")?);
        let session = Arc::new(Session {
            cookie: tokens::digest(&cookie),
            secret: tokens::digest(&secret),
            owner,
            rights,
            by: (*by).clone(),
            until: now + self.longest,
            used: Mutex::new(now),
            over: watch::Sender::new(false),
        });
        let mut all = self.all();
        let done = |session: &Session| {
            session.left(self.idle, now).is_zero() || tokens.hold(&session.rights).is_err()
        };
        let mut ended: Vec<Arc<Session>> =
            all.sessions.extract_if(|_, session| done(session)).map(|(_, session)| session).collect();
        let of_owner = all.sessions.values().filter(|there| there.owner == session.owner);
        if of_owner.clone().count() >= SESSIONS {
            let rested = of_owner.min_by_key(|there| *there.used()).cloned();
            ended.extend(rested.and_then(|rested| all.sessions.remove(&rested.cookie)));
        }
        all.sessions.insert(session.cookie.clone(), session.clone());
        drop(all);
        for session in ended {
            session.over.send_replace(true);
        }
        Ok(Some(Opened { session, cookie, secret }))
    }

    /// The session of a request: by its cookie, if the header has the secret of the same one.
    pub(super) fn find(&self, name: &str, headers: &HeaderMap) -> Option<Arc<Session>> {
        let mut shown = headers.get_all(HEADER).into_iter();
        let (Some(secret), None) = (shown.next(), shown.next()) else { return None };
        let secret = tokens::digest(secret.to_str().ok()?);
        let cookies = headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok());
        let pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let own = pairs.filter(|(of, _)| *of == name).take(COOKIES);
        let (all, now) = (self.all(), Instant::now());
        let mut found = own.filter_map(|(_, cookie)| all.sessions.get(&tokens::digest(cookie)));
        let session = found.find(|session| session.secret == secret).cloned()?;
        drop(all);
        if session.left(self.idle, now).is_zero() {
            self.end(&session);
            return None;
        }
        *session.used() = now;
        Some(session)
    }

    /// Ends a session.
    pub(super) fn end(&self, session: &Session) {
        self.all().sessions.remove(&session.cookie);
        session.over.send_replace(true);
    }

    /// Comes when a session is over.
    pub(super) async fn over(&self, session: &Session, tokens: &Tokens) {
        let mut ended = session.over.subscribe();
        loop {
            let left = session.left(self.idle, Instant::now());
            if left.is_zero() {
                return self.end(session);
            }
            tokio::select! {
                _ = ended.wait_for(|over| *over) => return,
                () = tokens.over(&session.rights) => return self.end(session),
                () = sleep(left) => {}
            }
        }
    }
}
