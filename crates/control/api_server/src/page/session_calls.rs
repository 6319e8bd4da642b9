//! `/session`: a session is opened by a link, looked at, and left.

use super::guard::BAD_LINK;
use super::sessions::{Opened, Session};
use super::{Page, refuse};
use crate::answer::{Answer, one_fault};
use crate::body::Written;
use crate::identity::Identity;
use crate::rights::Rights;
use crate::state::State;
use crate::time;
use api::{Fault, Problem, ProblemType};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue, SET_COOKIE};
use hyper::{Method, Request, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};
use tokio::time::timeout;

/// Where it is.
pub(super) const PATH: &str = "/session";

/// Bytes of a body.
const BODY: usize = 1 << 10;
/// Time for a body to come.
const BODY_TIME: Duration = Duration::from_secs(5);

/// What opens a session.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Open {
    link: String,
}

pub(super) async fn answer(
    state: &Arc<State>,
    page: &Page,
    request: Request<Incoming>,
    who: &Identity,
) -> Response<Written> {
    match *request.method() {
        Method::POST => open(state, page, request, who).await,
        Method::GET | Method::HEAD => match page.session(state, &request) {
            Ok(session) => given(state, document(state, page, &session)),
            Err(problem) => refuse(state, who, &request, problem).await,
        },
        Method::DELETE => match page.session(state, &request) {
            Ok(session) => {
                page.sessions.end(&session);
                audit(state, &session.identity(who), "DELETE").await;
                state.counts.answered(204);
                let mut response = Response::new(Written::nothing());
                *response.status_mut() = hyper::StatusCode::NO_CONTENT;
                set_cookie(page, &mut response, "", "; Max-Age=0");
                response
            }
            Err(problem) => refuse(state, who, &request, problem).await,
        },
        _ => {
            let detail = format!("allowed at {PATH}: GET, POST, DELETE");
            state.counts.answered(405);
            let mut response =
                Answer::from(Problem::new(ProblemType::MethodNotAllowed, detail)).into_response();
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD, POST, DELETE"));
            response
        }
    }
}

async fn open(
    state: &Arc<State>,
    page: &Page,
    request: Request<Incoming>,
    who: &Identity,
) -> Response<Written> {
    let (head, body) = request.into_parts();
    let request = Request::from_parts(head, ());
    let opened = match link(&request, body).await {
        Ok(link) => page.sessions.open(&link, &state.tokens),
        Err(problem) => return refuse(state, who, &request, problem).await,
    };
    match opened {
        Ok(Some(Opened { session, cookie, secret })) => {
            audit(state, &session.identity(who), "POST").await;
            let mut told = document(state, page, &session);
            told["secret"] = secret.into();
            let mut response = given(state, told);
            set_cookie(page, &mut response, &cookie, "");
            response
        }
        Ok(None) => {
            state.counts.page_refusals[BAD_LINK].fetch_add(1, Relaxed);
            let detail = "the link is unknown, was used, or is over; `superfluid page` prints a new one";
            refuse(state, who, &request, Problem::new(ProblemType::Unauthorized, detail)).await
        }
        Err(what) => refuse(state, who, &request, Problem::new(ProblemType::Internal, what)).await,
    }
}

/// The link in a body. A form of another page can send text, but not as JSON.
async fn link(request: &Request<()>, body: Incoming) -> Result<String, Problem> {
    let is_json = request.headers().get(CONTENT_TYPE).is_some_and(|value| value == "application/json");
    if !is_json {
        let fault = Fault::of_request("Content-Type", "allowed: application/json");
        return Err(one_fault(ProblemType::UnsupportedMediaType, fault));
    }
    let read = timeout(BODY_TIME, Limited::new(body, BODY).collect()).await;
    let read = read.map_err(|_| Problem::new(ProblemType::Timeout, "the body did not come"))?;
    let wrong = || {
        let message = format!("allowed: {{\"link\": \"…\"}}, at most {BODY} bytes");
        one_fault(ProblemType::Malformed, Fault::of_request("", message))
    };
    let bytes = read.map_err(|_| wrong())?.to_bytes();
    // What was found is not told: it may be a secret.
    serde_json::from_slice(&bytes).map(|open: Open| open.link).map_err(|_| wrong())
}

/// What a session is, without its secret.
fn document(state: &State, page: &Page, session: &Session) -> Value {
    let left = match session.rights.grant().and_then(|grant| grant.token.expires.as_deref()) {
        Some(expires) => {
            let end = crate::tokens::instant(expires).unwrap_or(SystemTime::UNIX_EPOCH);
            end.duration_since(SystemTime::now()).unwrap_or_default().min(session.longest())
        }
        None => session.longest(),
    };
    let rights = match (&session.rights, session.rights.tenant()) {
        (Rights::All, _) => "administrator",
        (_, Some(_)) => "tenant",
        (_, None) => "reader",
    };
    let mut told = json!({
        "rights": rights,
        "read_only": session.rights.grant().is_some_and(|grant| grant.token.read_only),
        "idle_seconds": page.sessions.idle().as_secs(),
        "expires": humantime::format_rfc3339_seconds(SystemTime::now() + left).to_string(),
        "version": state.version,
        "started": state.started,
    });
    if let Some(grant) = session.rights.grant() {
        told["token"] = grant.token.name.as_str().into();
    }
    if let Some(tenant) = session.rights.tenant() {
        told["tenant"] = tenant.into();
    }
    told
}

fn given(state: &State, told: Value) -> Response<Written> {
    state.counts.answered(200);
    Answer::json(200, &told).into_response()
}

fn set_cookie(page: &Page, response: &mut Response<Written>, value: &str, more: &str) {
    let secure = if page.encrypted { "; Secure" } else { "" };
    let cookie = format!("{}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{more}", page.cookie);
    if let Ok(value) = HeaderValue::try_from(cookie) {
        response.headers_mut().insert(SET_COOKIE, value);
    }
}

/// Writes down that a session was opened or left.
async fn audit(state: &State, who: &Identity, method: &str) {
    state.audit.write(&json!({
        "time": time::now(),
        "who": who.to_json(),
        "method": method,
        "path": PATH,
        "outcome": "done",
    }));
    state.audit.written(None).await;
}
