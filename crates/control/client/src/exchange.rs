//! A question and its answer: time limits, content types, and no byte more than was agreed to.

use crate::{Address, Client, ClientError, harmless};
use api::{Fault, PROBLEM_JSON, Problem, paths};
use http_client::http::{Error as Unsent, Method, Request, Response, header};
use http_client::{AsSendBody, Body, BodyFault, Failure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// Content type of bodies.
pub(crate) const JSON: &str = "application/json";

/// Largest problem document, in bytes: a thousand faults with room.
const LARGEST_PROBLEM: u64 = 4 << 20;
/// Most faults of a problem that are told.
const MOST_FAULTS: usize = 1001;
/// Longest text of a problem that is told, in characters.
const LONGEST_TEXT: usize = 2000;

/// What is asked.
pub(crate) struct Ask {
    method: Method,
    path: String,
    /// What is sent, and its content type.
    body: Option<(&'static str, Vec<u8>)>,
    condition: Option<(header::HeaderName, String)>,
    accept: &'static str,
    /// How long each step takes is to be told.
    timed: bool,
}

impl Ask {
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Ask {
        Ask { method, path: path.into(), body: None, condition: None, accept: JSON, timed: false }
    }

    pub(crate) fn get(path: impl Into<String>) -> Ask {
        Ask::new(Method::GET, path)
    }

    /// With a parameter behind `?`.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Ask {
        let lead = if self.path.contains('?') { '&' } else { '?' };
        self.path.push(lead);
        self.path.push_str(name);
        self.path.push('=');
        self.path.push_str(&paths::escaped(value));
        self
    }

    pub(crate) fn with_flag(self, name: &str, given: bool) -> Ask {
        if given { self.with(name, "true") } else { self }
    }

    pub(crate) fn with_json(mut self, value: &impl Serialize) -> Ask {
        // Maps with keys of text can always be written.
        self.body = Some((JSON, serde_json::to_vec(value).unwrap_or_default()));
        self
    }

    pub(crate) fn only_if(mut self, name: header::HeaderName, value: String) -> Ask {
        self.condition = Some((name, value));
        self
    }

    pub(crate) fn timed(mut self, timed: bool) -> Ask {
        self.timed = timed;
        self
    }

    pub(crate) fn accepting(mut self, accept: &'static str) -> Ask {
        self.accept = accept;
        self
    }
}

/// How long an answer may take.
#[derive(Clone, Copy)]
pub(crate) enum TimeLimit {
    /// As the settings say.
    Usual,
    /// A stream: without an end, and at most so long without a byte.
    Stream(Option<Duration>),
}

impl Client {
    /// The daemon that is asked, in words.
    pub(crate) fn daemon(&self) -> String {
        match &self.settings.address {
            Address::Unix(path) => format!("the daemon at {}", path.display()),
            Address::Tls(tls) => format!("the daemon at {}", tls.host),
        }
    }

    /// Asks for JSON. The status is one that means yes.
    pub(crate) fn ask<T: DeserializeOwned>(&self, ask: Ask) -> Result<T, ClientError> {
        let response = self.send(ask, TimeLimit::Usual)?;
        self.json(response)
    }

    /// Asks; the body is still to be read, and of the type that was wanted.
    pub(crate) fn send(&self, ask: Ask, limit: TimeLimit) -> Result<Response<Body>, ClientError> {
        let (scheme, host) = match &self.settings.address {
            // HTTP needs a host, and over a socket it has no meaning.
            Address::Unix(_) => ("http", "localhost"),
            Address::Tls(tls) => ("https", tls.host.as_str()),
        };
        let unsent = |error: Unsent| self.fault(http_client::Error::from(error));
        let wanted = ask.accept;
        let mut request = Request::builder()
            .method(&ask.method)
            .uri(format!("{scheme}://{host}{}", ask.path))
            .header(header::ACCEPT, format!("{wanted}, {PROBLEM_JSON};q=0.9"));
        if let Some((name, value)) = &ask.condition {
            request = request.header(name, value);
        }
        if let Some(token) = &self.settings.token {
            let shown = header::HeaderValue::try_from(token.header()).map(|mut value| {
                value.set_sensitive(true);
                value
            });
            request = request.header(header::AUTHORIZATION, shown.map_err(|error| unsent(error.into()))?);
        }
        if ask.timed {
            request = request.header("prefer", "server-timing");
        }
        let answered = match ask.body {
            Some((content_type, bytes)) => {
                let request = request.header(header::CONTENT_TYPE, content_type);
                self.run(request.body(bytes).map_err(unsent)?, limit)
            }
            None if ask.method == Method::POST => self.run(request.body(Vec::new()).map_err(unsent)?, limit),
            None => self.run(request.body(()).map_err(unsent)?, limit),
        };
        let response = answered.map_err(|error| self.fault(error))?;
        let found = content_type(&response);
        match response.status().as_u16() {
            200..=299 if found == wanted => Ok(response),
            200..=299 => {
                Err(ClientError::Type { daemon: self.daemon(), found: named(&found), allowed: wanted })
            }
            status => Err(self.refusal(status, response, &found)),
        }
    }

    fn run(
        &self,
        request: Request<impl AsSendBody>,
        limit: TimeLimit,
    ) -> Result<Response<Body>, http_client::Error> {
        let request = self.agent.configure_request(request);
        let request = match limit {
            TimeLimit::Usual => request.timeout_global(Some(self.settings.total)),
            TimeLimit::Stream(idle) => {
                request.timeout_recv_response(Some(self.settings.total)).timeout_per_read(idle)
            }
        };
        self.agent.run(request.build())
    }

    /// A body as JSON.
    pub(crate) fn json<T: DeserializeOwned>(&self, response: Response<Body>) -> Result<T, ClientError> {
        let bytes = self.bytes(response, self.settings.largest_answer, "as an answer")?;
        serde_json::from_slice(&bytes).map_err(|error| self.unreadable(&error))
    }

    pub(crate) fn unreadable(&self, error: &serde_json::Error) -> ClientError {
        ClientError::Unreadable { daemon: self.daemon(), reason: harmless(&error.to_string(), 160) }
    }

    /// Reads a body, if it has at most so many bytes.
    pub(crate) fn bytes(
        &self,
        response: Response<Body>,
        most: u64,
        what: &'static str,
    ) -> Result<Vec<u8>, ClientError> {
        http_client::bytes(response.into_body(), most).map_err(|fault| match fault {
            BodyFault::Large(_) => ClientError::Large { daemon: self.daemon(), what, limit: most },
            BodyFault::Failed(failure) => self.fault(failure),
        })
    }

    /// What an answer means that is not yes.
    fn refusal(&self, status: u16, response: Response<Body>, found: &str) -> ClientError {
        let other = |found| ClientError::Status { daemon: self.daemon(), status, found };
        if found != PROBLEM_JSON {
            return other(named(found));
        }
        let bytes = match self.bytes(response, LARGEST_PROBLEM, "as a problem document") {
            Ok(bytes) => bytes,
            Err(error) => return error,
        };
        match serde_json::from_slice::<Problem>(&bytes) {
            Ok(problem) => ClientError::Refused(Box::new(shown(problem))),
            Err(error) => other(format!(
                "a problem document that cannot be read: {}",
                harmless(&error.to_string(), 160)
            )),
        }
    }

    /// A failure with the daemon that was asked.
    pub(crate) fn fault(&self, failure: impl Into<Failure>) -> ClientError {
        let (daemon, settings) = (self.daemon(), &self.settings);
        match failure.into() {
            Failure::Unreachable { reason, kind } => ClientError::Unreachable { daemon, reason, kind },
            Failure::ConnectLate => ClientError::ConnectLate { daemon, limit: settings.connect },
            Failure::Silent => ClientError::Silent { daemon, limit: settings.idle },
            Failure::Late => ClientError::Late { daemon, limit: settings.total },
            Failure::Died(reason) => ClientError::Died { daemon, reason },
            Failure::Tls(reason) => ClientError::Tls { daemon, reason },
            Failure::NoHttp(reason) => ClientError::NoHttp { daemon, reason },
        }
    }
}

/// The content type, without its parameters.
fn content_type(response: &Response<Body>) -> String {
    let text = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    text.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn named(found: &str) -> String {
    match found {
        "" => "something without a content type".to_owned(),
        found => format!("`{}`", harmless(found, 80)),
    }
}

/// A problem whose texts can be shown.
pub(crate) fn shown(mut problem: Problem) -> Problem {
    problem.faults.truncate(MOST_FAULTS);
    for Fault { at, message, .. } in &mut problem.faults {
        *at = harmless(at, LONGEST_TEXT);
        // What a function says of its configuration has several lines; none can pass for another fault.
        let lines = message.split('\n').map(|line| harmless(line.trim(), LONGEST_TEXT));
        *message = lines.collect::<Vec<_>>().join("\n  ");
    }
    problem.title = harmless(&problem.title, LONGEST_TEXT);
    problem.detail = harmless(&problem.detail, LONGEST_TEXT);
    problem
}
