//! Questions to a registry and their answers: time limits, redirects, credentials, and no byte more than was
//! agreed to.

use crate::authentication::{bearer, challenges};
use crate::url::{Origin, Url};
use crate::{Fault, Reference, Settings, harmless};
use http_client::http::{Error as Unsent, Method, Request, Response, header};
use http_client::{Agent, AsSendBody, Body, BodyFault, Failure};
use serde::Deserialize;
use std::io::Read;
use std::time::{Duration, Instant};

/// How often an address may lead to another.
const REDIRECTS: usize = 5;

/// Most bytes that are read of an answer that says no.
const MAX_REFUSAL: u64 = 8 << 10;

/// Longest answer of a token service, in bytes.
const MAX_TOKEN: u64 = 64 << 10;

/// What is asked for.
pub(crate) struct Ask<'a> {
    pub(crate) method: Method,
    pub(crate) url: Url,
    /// The media type that is wanted.
    pub(crate) accept: Option<&'static str>,
    /// What is sent, and its media type.
    pub(crate) body: Option<(&'static str, &'a [u8])>,
}

impl<'a> Ask<'a> {
    pub(crate) fn new(method: Method, url: Url) -> Ask<'a> {
        Ask { method, url, accept: None, body: None }
    }
}

/// What came back: status and header; the body is still to be read.
pub(crate) struct Answer {
    pub(crate) response: Response<Body>,
    /// Where it came from in the end.
    pub(crate) url: Url,
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// A header, if it is there and is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.response.headers().get(name).and_then(|value| value.to_str().ok())
    }

    /// The media type, without its parameters.
    pub(crate) fn media_type(&self) -> &str {
        let text = self.header("content-type").unwrap_or_default();
        text.split(';').next().unwrap_or_default().trim()
    }
}

/// One push, pull or question, from its first byte to its last.
pub(crate) struct Exchange<'a> {
    agent: &'a Agent,
    settings: &'a Settings,
    reference: &'a Reference,
    /// Whether it writes.
    push: bool,
    deadline: Instant,
    /// For which origin, and what stands in `Authorization`.
    authorization: Option<(Origin, String)>,
}

impl<'a> Exchange<'a> {
    /// Begins; from now on the time counts.
    pub(crate) fn new(
        agent: &'a Agent,
        settings: &'a Settings,
        reference: &'a Reference,
        push: bool,
    ) -> Exchange<'a> {
        let deadline = Instant::now() + settings.total;
        Exchange { agent, settings, reference, push, deadline, authorization: None }
    }

    /// An address of the reference's repository; `path` is what stands behind its name.
    pub(crate) fn url(&self, path: &str) -> Result<Url, Fault> {
        let path = format!("/v2/{}{path}", self.reference.repository());
        Url::of_registry(self.settings, self.reference.host(), &path)
    }

    /// The address that an answer's `Location` names.
    pub(crate) fn location(&self, answer: &Answer) -> Result<Url, Fault> {
        answer.url.join(self.settings, answer.header("location").unwrap_or_default())
    }

    /// Asks, with credentials if they are wanted, and goes where the answer is.
    pub(crate) fn ask(&mut self, mut ask: Ask<'_>) -> Result<Answer, Fault> {
        let (mut redirects, mut refused) = (0, false);
        loop {
            let answer = self.once(&ask, self.authorization_for(&ask.url))?;
            match answer.status() {
                401 if !refused => {
                    refused = true;
                    if !self.authorize(&answer)? {
                        return Ok(answer);
                    }
                }
                301 | 302 | 303 | 307 | 308
                    if ask.body.is_none() && matches!(ask.method, Method::GET | Method::HEAD) =>
                {
                    redirects += 1;
                    if redirects > REDIRECTS {
                        return Err(Fault::Redirects { host: ask.url.host().to_owned(), limit: REDIRECTS });
                    }
                    ask.url = self.location(&answer)?;
                }
                _ => return Ok(answer),
            }
        }
    }

    fn authorization_for(&self, url: &Url) -> Option<&str> {
        let (origin, value) = self.authorization.as_ref()?;
        (origin == url.origin()).then_some(value.as_str())
    }

    fn once(&self, ask: &Ask<'_>, authorization: Option<&str>) -> Result<Answer, Fault> {
        let host = ask.url.host();
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(self.late(host));
        }
        let mut request = Request::builder().method(&ask.method).uri(ask.url.as_str());
        for (name, value) in [
            (header::ACCEPT, ask.accept),
            (header::AUTHORIZATION, authorization),
            (header::CONTENT_TYPE, ask.body.map(|(media_type, _)| media_type)),
        ] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        let unsent = |error: Unsent| self.fault(host, http_client::Error::from(error));
        let asked = match ask.body {
            Some((_, bytes)) => self.run(request.body(bytes).map_err(unsent)?, left),
            None => self.run(request.body(()).map_err(unsent)?, left),
        };
        Ok(Answer { response: asked.map_err(|error| self.fault(host, error))?, url: ask.url.clone() })
    }

    fn run(
        &self,
        request: Request<impl AsSendBody>,
        left: Duration,
    ) -> Result<Response<Body>, http_client::Error> {
        self.agent.run(self.agent.configure_request(request).timeout_global(Some(left)).build())
    }

    /// Gets what answers a challenge. `false`: there is nothing better to say than before.
    fn authorize(&mut self, refusal: &Answer) -> Result<bool, Fault> {
        // Credentials are for the registry itself; where it leads to has its own ways.
        let registry = self.url("")?;
        if refusal.url.origin() != registry.origin() {
            return Ok(false);
        }
        let login = self.settings.credentials.login(self.reference.host(), self.reference.repository());
        let basic = login.map(|login| login.basic());
        let host = registry.host().to_owned();
        let unknown = |reason: &str| Fault::Challenge { host: host.clone(), reason: reason.to_owned() };
        let headers = refusal.response.headers().get_all(header::WWW_AUTHENTICATE);
        let asked: Vec<_> =
            headers.iter().filter_map(|value| value.to_str().ok()).flat_map(challenges).collect();
        let value = if let Some(challenge) = asked.iter().find(|challenge| challenge.scheme == "bearer") {
            let realm = challenge.parameter("realm").ok_or_else(|| unknown("Bearer without a realm"))?;
            let mut url = refusal.url.join(self.settings, realm)?;
            if let Some(service) = challenge.parameter("service") {
                url = url.with_parameter("service", service);
            }
            let actions = if self.push { "pull,push" } else { "pull" };
            let scope = format!("repository:{}:{actions}", self.reference.repository());
            self.token(url.with_parameter("scope", &scope), basic.as_deref())?
        } else if asked.iter().any(|challenge| challenge.scheme == "basic") {
            match basic {
                Some(basic) => basic,
                None => return Ok(false),
            }
        } else {
            let schemes: Vec<_> = asked.iter().map(|challenge| challenge.scheme.as_str()).collect();
            return Err(unknown(&harmless(&format!("`{}`", schemes.join(", ")), 80)));
        };
        let same = self.authorization.as_ref().is_some_and(|(_, before)| *before == value);
        self.authorization = Some((registry.origin().clone(), value));
        Ok(!same)
    }

    fn token(&self, url: Url, basic: Option<&str>) -> Result<String, Fault> {
        let answer = self.once(&Ask::new(Method::GET, url), basic)?;
        if answer.status() != 200 {
            return Err(self.refusal(answer));
        }
        let host = answer.url.host().to_owned();
        let bytes = self.body(answer, MAX_TOKEN)?;
        bearer(&bytes).map_err(|reason| Fault::Challenge { host, reason: reason.to_owned() })
    }

    /// The body as it comes, which ends where it says.
    pub(crate) fn reader(&self, answer: Answer, most: u64) -> impl Read + use<> {
        answer.response.into_body().into_with_config().limit(most.saturating_add(2)).reader()
    }

    /// What an error of such a reader means.
    pub(crate) fn broken(&self, host: &str, error: std::io::Error) -> Fault {
        self.fault(host, error)
    }

    /// Reads a body, if it has at most so many bytes.
    pub(crate) fn body(&self, answer: Answer, most: u64) -> Result<Vec<u8>, Fault> {
        http_client::bytes(answer.response.into_body(), most).map_err(|fault| match fault {
            BodyFault::Large(found) => Fault::Large { found, limit: most },
            BodyFault::Failed(failure) => self.fault(answer.url.host(), failure),
        })
    }

    /// What an answer means that is not the one which was hoped for.
    pub(crate) fn refusal(&self, answer: Answer) -> Fault {
        #[derive(Deserialize)]
        struct Told {
            errors: Vec<One>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct One {
            code: String,
            message: String,
        }
        let (host, status) = (answer.url.host().to_owned(), answer.status());
        // What it says beside the status is shown if it can be had.
        let told = self.body(answer, MAX_REFUSAL).ok();
        let told = told.and_then(|bytes| serde_json::from_slice::<Told>(&bytes).ok());
        let message = match told.as_ref().and_then(|told| told.errors.first()) {
            Some(One { code, message }) => harmless(&format!(": {code}: {message}"), 200),
            None => String::new(),
        };
        if !matches!(status, 401 | 403) {
            return Fault::Status { host, status, message };
        }
        let (credentials, registry) = (&self.settings.credentials, self.reference.host());
        let hint = match credentials.login(registry, self.reference.repository()) {
            Some(_) => format!("the credentials for {registry} were given"),
            None if credentials.is_helped(registry) => {
                format!(
                    "those for {registry} are kept by a program, which is not run: give a file or a login that has them"
                )
            }
            None => format!("there are no credentials for {registry}"),
        };
        Fault::NoAccess { host, status, message, hint }
    }

    fn late(&self, host: &str) -> Fault {
        Fault::Late { host: host.to_owned(), limit: self.settings.total }
    }

    /// What went wrong, with which host.
    fn fault(&self, host: &str, failure: impl Into<Failure>) -> Fault {
        let host = host.to_owned();
        match failure.into() {
            Failure::Unreachable { reason, .. } => Fault::Unreachable { host, reason },
            Failure::ConnectLate => Fault::ConnectLate { host, limit: self.settings.connect },
            Failure::Silent => Fault::Silent { host, limit: self.settings.idle },
            Failure::Late => self.late(&host),
            Failure::Died(reason) => Fault::Died { host, reason },
            Failure::Tls(reason) => Fault::Tls { host, reason },
            Failure::NoHttp(reason) => Fault::NoHttp { host, reason },
        }
    }
}
