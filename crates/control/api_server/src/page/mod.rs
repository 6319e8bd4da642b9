//! The page: the host in a browser, on an address of its own.
//!
//! The life of a session:
//! 1. A client of the API asks for a link ([`link`]). It has the rights of that client, and is taken once,
//!    within a minute.
//! 2. A browser opens it. The secret stands in the fragment, which browsers send to no server; the page takes
//!    it out of the address, and sends it by `POST /session`.
//! 3. The answer opens a [session](sessions::Session): one secret in a cookie that no script reads, another
//!    one in the body, which the page sends as `Superfluid-Session`. Cookies do not know ports: what another
//!    program on this host is sent has the first secret and not the second.
//! 4. Requests to the API are answered as those of the client that asked for the link, as long as the session
//!    lasts: until it is left, rests for too long, is too old, or its token is deleted or over. Streams end
//!    then.
//!
//! [`guard`] refuses what another web page had the browser send, [`files`] gives what the page consists of.
//! Each answer has [`HEADERS`].

mod files;
mod guard;
mod session_calls;
mod sessions;

use crate::answer::{Answer, one_fault};
use crate::audit_records;
use crate::body::Written;
use crate::calls::missing;
use crate::connection;
use crate::connection_groups::ConnectionSlot;
use crate::error::BindError;
use crate::host_names::is_loopback;
use crate::identity::Identity;
use crate::precondition::shown;
use crate::request::Asked;
use crate::rights::Door;
use crate::settings;
use crate::state::State;
use crate::tls;
use api::{PageLink, Problem, ProblemType};
use guard::Guard;
pub(crate) use guard::REFUSALS;
use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Method, Request, Response};
use rustls::ServerConfig;
use sessions::{Session, Sessions};
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::SystemTime;

/// What each answer on the page's address has: nothing is loaded from elsewhere, run inline, framed, or
/// guessed.
const HEADERS: [(&str, &str); 6] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; \
         worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

/// What is behind the page's address.
pub(crate) struct Page {
    guard: Guard,
    pub sessions: Sessions,
    files: &'static [settings::PageFile],
    /// How its address begins: `http://127.0.0.1:8800`.
    base: String,
    /// The name of its cookie, which has the port in it: browsers send cookies to all ports of a host.
    cookie: String,
    encrypted: bool,
}

/// The end of a session, for what is still being answered then.
pub(crate) type Until = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Page {
    /// Listens, and says what is behind the address.
    ///
    /// # Errors
    /// The address is neither loopback nor encrypted, or something of it cannot be used.
    pub fn listen(
        settings: &settings::Page,
    ) -> Result<(TcpListener, Option<Arc<ServerConfig>>, Page), BindError> {
        let address = settings.listen;
        let loopback = is_loopback(address.ip());
        let tls = match (&settings.tls, loopback) {
            // A browser on this host needs none.
            (_, true) => None,
            (Some((certificate, key)), false) => Some((certificate, tls::for_browsers(certificate, key)?)),
            (None, false) => return Err(BindError::PageInTheClear(address)),
        };
        let refused = |source| BindError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let (guard, host) = match &tls {
            None => (Guard::loopback(), address.to_string()),
            Some((certificate, _)) => {
                let (guard, name) = Guard::certified(certificate)?;
                let host =
                    name.map_or_else(|| address.to_string(), |name| format!("{name}:{}", address.port()));
                (guard, host)
            }
        };
        let (scheme, prefix) = if tls.is_some() { ("https", "__Host-") } else { ("http", "") };
        let page = Page {
            guard,
            sessions: Sessions::new(settings),
            files: settings.files,
            base: format!("{scheme}://{host}"),
            cookie: format!("{prefix}superfluid-{}", address.port()),
            encrypted: tls.is_some(),
        };
        Ok((listener, tls.map(|(_, configuration)| configuration), page))
    }
}

/// Makes a link for a client of the API.
pub(crate) fn link(state: &Arc<State>, asked: &Asked) -> Result<Answer, Problem> {
    let Some(page) = &state.page else {
        let detail = "this daemon serves no page; `superfluid daemon --page ADDRESS:PORT` does";
        return Err(Problem::new(ProblemType::NotFound, detail));
    };
    // A session would make others that outlive it.
    if matches!(*asked.who, Identity::Browser { .. }) {
        let detail =
            "a link is made by a client of the API, and not by the page itself; `superfluid page` makes one";
        return Err(Problem::new(ProblemType::Forbidden, detail));
    }
    state.tokens.hold(&asked.rights)?;
    let secret = page
        .sessions
        .link(asked.rights.clone(), asked.who.clone())
        .map_err(|what| Problem::new(ProblemType::Internal, what))?;
    let expires = humantime::format_rfc3339_seconds(SystemTime::now() + page.sessions.link_time());
    let link = PageLink { url: format!("{}/#link={secret}", page.base), expires: expires.to_string() };
    Ok(Answer::json(201, &link))
}

/// Answers a request on the page's address.
pub(crate) async fn respond(
    state: &Arc<State>,
    request: Request<Incoming>,
    who: &Arc<Identity>,
    slot: &ConnectionSlot,
) -> (Response<Written>, Option<Until>) {
    let Some(page) = &state.page else {
        // No connection comes in by this door then.
        return (Answer::from(missing("page")).into_response(), None);
    };
    let (mut response, until) = answer(state, page, request, who, slot).await;
    for (name, value) in HEADERS {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    (response, until)
}

async fn answer(
    state: &Arc<State>,
    page: &Page,
    request: Request<Incoming>,
    who: &Arc<Identity>,
    slot: &ConnectionSlot,
) -> (Response<Written>, Option<Until>) {
    let path = request.uri().path().to_owned();
    let of_api = path == api::paths::METRICS || path.starts_with("/v1/");
    let of_session = path == session_calls::PATH;
    let guarded =
        page.guard.check(request.method(), request.uri(), request.headers(), !of_api && !of_session);
    if let Err(fault) = guarded {
        state.counts.page_refusals[guard::CROSS_SITE].fetch_add(1, Relaxed);
        return (refuse(state, who, &request, one_fault(ProblemType::Forbidden, fault)).await, None);
    }
    if of_session {
        return (session_calls::answer(state, page, request, who).await, None);
    }
    if !of_api {
        let (response, status) = files::answer(page.files, &request);
        state.counts.answered(status);
        return (response, None);
    }
    match page.session(state, &request) {
        Ok(session) => {
            let theirs = state.clone();
            let ends = session.clone();
            let until: Until = Box::pin(async move {
                if let Some(page) = &theirs.page {
                    page.sessions.over(&ends, &theirs.tokens).await;
                }
            });
            let known = Some((session.rights.clone(), session.identity(who)));
            (connection::respond(state, request, (Door::Page, who.clone()), known, slot).await, Some(until))
        }
        Err(problem) => (refuse(state, who, &request, problem).await, None),
    }
}

impl Page {
    /// The session that a request belongs to.
    ///
    /// # Errors
    /// It has none, or one that is over.
    fn session<B>(&self, state: &State, request: &Request<B>) -> Result<Arc<Session>, Problem> {
        let found = self.sessions.find(&self.cookie, request.headers());
        let held = found.filter(|session| {
            let held = state.tokens.hold(&session.rights).is_ok();
            if !held {
                self.sessions.end(session);
            }
            held
        });
        held.ok_or_else(|| {
            state.counts.page_refusals[guard::NO_SESSION].fetch_add(1, Relaxed);
            let detail = "no session, or one that is over; `superfluid page` prints a link to a new one";
            Problem::new(ProblemType::Unauthorized, detail)
        })
    }
}

/// Refuses a request, and writes that down.
async fn refuse<B>(
    state: &State,
    who: &Identity,
    request: &Request<B>,
    problem: Problem,
) -> Response<Written> {
    let (method, path) =
        (shown(request.method().as_str().as_bytes()), shown(request.uri().path().as_bytes()));
    audit_records::audit_refusal(&state.audit, who, &method, &path, &problem);
    state.audit.written(None).await;
    state.counts.answered(problem.status);
    Answer::from(problem).into_response()
}

/// Whether a method changes nothing.
fn only_reads(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}
