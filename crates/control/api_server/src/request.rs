//! A request, taken apart and checked for its form.

use crate::accept::accepted;
use crate::answer::{Answer, faulty, one_fault};
use crate::body;
use crate::call::{Call, Found, Gives, Names, Takes};
use crate::document::{self, Language};
use crate::identity::Identity;
use crate::keyed;
use crate::precondition::{Precondition, shown};
use crate::query::Query;
use crate::rights::Rights;
use crate::state::{SMALL, State};
use crate::timing::Timing;
use api::{Fault, JSON_LINES, Kind, Name, ObjectName, PCAPNG, Problem, ProblemType, TAR};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, IF_MATCH, IF_NONE_MATCH};
use hyper::http::request::Parts;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use yaml_document::spelling;

/// OpenMetrics' content type.
pub(crate) const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Prometheus' content type.
pub(crate) const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A request of the right form.
pub(crate) struct Asked {
    pub call: Call,
    /// The name in the path, if the call has one there.
    name: Option<Name>,
    pub query: Query,
    pub precondition: Precondition,
    /// The representation that is answered.
    pub content_type: &'static str,
    /// The body; null when the call takes none.
    pub body: Value,
    /// The same as it was sent, where places in it are told.
    pub text: Option<Bytes>,
    /// Its bytes.
    pub body_bytes: usize,
    /// What the body takes of the room for all bodies, for as long as it is worked on.
    pub room: Option<Arc<OwnedSemaphorePermit>>,
    pub who: Arc<Identity>,
    pub rights: Rights,
    pub timing: Timing,
}

/// Which call it is, with the name in its path, or the answer that it is none.
pub(crate) fn call_of(head: &Parts) -> Result<(Call, Option<String>), Box<Answer>> {
    match Call::find(&head.method, head.uri.path()) {
        Found::Call(call, name) => Ok((call, name)),
        Found::Methods(methods) => {
            let allowed = methods.join(", ");
            let detail = format!("found {}; allowed: {allowed}", shown(head.method.as_str().as_bytes()));
            let problem = Problem::new(ProblemType::MethodNotAllowed, detail);
            Err(Box::new(Answer { allow: Some(allowed), ..problem.into() }))
        }
        Found::Nothing => {
            let path = shown(head.uri.path().as_bytes());
            let detail = format!("there is nothing at `{path}`; {} has all paths", api::paths::OPENAPI);
            Err(Box::new(Problem::new(ProblemType::NotFound, detail).into()))
        }
    }
}

/// Checks all of a request that needs no knowledge of what there is.
pub(crate) async fn read(
    state: &Arc<State>,
    (head, body): (&Parts, &mut Incoming),
    (call, name): (Call, Option<String>),
    (rights, who): (Rights, Arc<Identity>),
    timing: Timing,
) -> Result<Asked, Problem> {
    let began = timing.now();
    let name = name.map(|name| checked(call, &name)).transpose()?;
    let query = Query::read(head.uri.query().unwrap_or_default(), call.parameters())
        .map_err(|faults| faulty(ProblemType::Malformed, faults))?;
    let values = |name: HeaderName| head.headers.get_all(name).into_iter().map(|value| value.as_bytes());
    let precondition = if call.conditional() {
        Precondition::read(values(IF_MATCH), values(IF_NONE_MATCH))
            .map_err(|fault| one_fault(ProblemType::Malformed, fault))?
    } else if let Some(name) =
        [IF_MATCH, IF_NONE_MATCH].iter().find(|name| call.changes() && head.headers.contains_key(*name))
    {
        // What is done under a condition that nothing looks at is not what the client asked for.
        let at = if *name == IF_MATCH { "If-Match" } else { "If-None-Match" };
        let message = "found one; allowed: none here, where no object's version is looked at";
        return Err(one_fault(ProblemType::Malformed, Fault::new(at, message)));
    } else {
        Precondition::Any
    };
    let offered: &[&'static str] = match call.gives() {
        Gives::Json => &["application/json"],
        Gives::Lines => &[JSON_LINES],
        Gives::Packets => &[PCAPNG],
        Gives::Archive => &[TAR],
        Gives::Text => &[PROMETHEUS, OPENMETRICS],
    };
    let accept: Vec<String> =
        values(ACCEPT).map(|value| String::from_utf8_lossy(value).into_owned()).collect();
    let content_type = match accept.as_slice() {
        [] => offered.first().copied(),
        accept => accepted(&accept.join(","), offered),
    };
    let content_type = content_type.ok_or_else(|| {
        let found = shown(accept.join(",").as_bytes());
        let message = format!("found `{found}`; allowed: what includes {}", offered.join(" or "));
        one_fault(ProblemType::NotAcceptable, Fault::new("Accept", message))
    })?;
    let mut codings = values(CONTENT_ENCODING).filter(|coding| !coding.eq_ignore_ascii_case(b"identity"));
    if let (false, Some(coding)) = (call.takes() == Takes::Nothing, codings.next()) {
        let message = format!("found `{}`; allowed: none, the body as it is", shown(coding));
        return Err(one_fault(ProblemType::UnsupportedMediaType, Fault::new("Content-Encoding", message)));
    }
    let types: Vec<&[u8]> = values(CONTENT_TYPE).collect();
    let language = match (call.takes(), types.as_slice()) {
        (Takes::Nothing, _) | (_, []) => Language::Json,
        (takes, [value]) => language_of(value, takes)?,
        _ => {
            let fault = Fault::new("Content-Type", "found twice; allowed: once");
            return Err(one_fault(ProblemType::Malformed, fault));
        }
    };
    let room = match (&rights, rights.tenant()) {
        (Rights::Reader(_), _) => &state.readers_bodies,
        (_, Some(tenant)) => &state.tenants_bodies.of(tenant),
        (_, None) => &state.bodies,
    };
    let body::Read { bytes, room } = body::read(body, room, call.most_bytes(), &state.limits).await?;
    let body_bytes = bytes.len();
    let malformed = |fault| one_fault(ProblemType::Malformed, fault);
    let text = (call == Call::Check).then(|| bytes.clone());
    let body = match call.takes() {
        Takes::Nothing if bytes.is_empty() => Value::Null,
        Takes::Nothing => {
            let detail = format!("found a body of {} bytes; allowed: none", bytes.len());
            return Err(Problem::new(ProblemType::Malformed, detail));
        }
        Takes::Json | Takes::Document if bytes.len() <= SMALL => {
            document::read(language, &bytes).map_err(malformed)?
        }
        Takes::Json | Takes::Document => {
            let read = state.work_on(&rights, true, move |_| document::read(language, &bytes));
            read.await?.map_err(malformed)?
        }
    };
    timing.step("parse", began);
    Ok(Asked {
        call,
        name,
        query,
        precondition,
        content_type,
        body,
        text,
        body_bytes,
        room: room.map(Arc::new),
        who,
        rights,
        timing,
    })
}

/// The name in a call's path, checked as what it names there.
fn checked(call: Call, name: &str) -> Result<Name, Problem> {
    let checked = match call.names() {
        Names::Object(kind) => Name::of(kind, name),
        Names::Word => Name::new(name),
    };
    checked.map_err(|error| one_fault(ProblemType::Malformed, Fault::new("name", error.to_string())))
}

fn language_of(value: &[u8], takes: Takes) -> Result<Language, Problem> {
    let text = String::from_utf8_lossy(value).to_ascii_lowercase();
    let mut parts = text.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let utf8 = parts.all(|part| match part.split_once('=') {
        Some(("charset", charset)) => charset.trim_matches('"') == "utf-8",
        _ => true,
    });
    match (name, takes) {
        ("application/json", _) if utf8 => Ok(Language::Json),
        ("application/yaml", Takes::Document) if utf8 => Ok(Language::Yaml),
        _ => {
            let allowed = match takes {
                Takes::Document => "application/json, application/yaml, in UTF-8",
                _ => "application/json, in UTF-8",
            };
            let message = format!("found `{}`; allowed: {allowed}", shown(value));
            Err(one_fault(ProblemType::UnsupportedMediaType, Fault::new("Content-Type", message)))
        }
    }
}

/// A body as what a call takes.
pub(crate) fn body_as<T: DeserializeOwned>(body: Value) -> Result<T, Problem> {
    let read = match body {
        Value::Object(map) => keyed::read(map),
        // A list of values, one for each key, is none.
        other => Err(Fault::new("", format!("found {}; allowed: a map", document::found(&other)))),
    };
    read.map_err(|fault| one_fault(ProblemType::Invalid, fault))
}

impl Asked {
    /// The object in the path.
    pub fn id(&self, kind: Kind) -> Result<ObjectName, Problem> {
        Ok(ObjectName::new(kind, self.name()?.as_str()))
    }

    /// The name in the path.
    ///
    /// # Errors
    /// The call has none there: a defect of the table of calls.
    pub fn name(&self) -> Result<&Name, Problem> {
        let none = || Problem::new(ProblemType::Internal, "the path of this call has no name");
        self.name.as_ref().ok_or_else(none)
    }

    /// The name in the path, or nothing, for the audit log.
    pub fn shown_name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// A parameter that is the name of an object of a kind.
    pub fn named(&self, parameter: &str, kind: Kind) -> Result<Option<Name>, Problem> {
        let text = self.query.text(parameter);
        text.map(|text| Name::of(kind, text))
            .transpose()
            .map_err(|error| one_fault(ProblemType::Malformed, Fault::new(parameter, error.to_string())))
    }

    /// A parameter that is one word, such as the name of a snapshot. A call that takes none has none.
    pub fn word(&self, parameter: &str) -> Result<Option<Name>, Problem> {
        let text = self.query.text(parameter);
        text.map(Name::new)
            .transpose()
            .map_err(|error| one_fault(ProblemType::Malformed, Fault::new(parameter, error.to_string())))
    }

    /// A parameter that is an IP address.
    pub fn address(&self, parameter: &str) -> Result<Option<IpAddr>, Problem> {
        let address = |text: &str| {
            text.parse().map_err(|_| {
                let message = format!("found `{}`; allowed: an IPv4 or IPv6 address", spelling::shown(text));
                one_fault(ProblemType::Malformed, Fault::new(parameter, message))
            })
        };
        self.query.text(parameter).map(address).transpose()
    }

    /// The body as what the call takes.
    pub fn body<T: DeserializeOwned>(&mut self) -> Result<T, Problem> {
        body_as(self.body.take())
    }

    /// The same of a body with names in it; a fault says which of these `keys` has it.
    pub fn body_with<T: DeserializeOwned>(&mut self, keys: &[&str]) -> Result<T, Problem> {
        for key in keys {
            if let Some(Value::String(text)) = self.body.get(key) {
                Name::new(text.as_str())
                    .map_err(|error| one_fault(ProblemType::Invalid, Fault::new(*key, error.to_string())))?;
            }
        }
        self.body()
    }

    pub fn flag(&self, name: &str) -> Result<bool, Problem> {
        self.query.flag(name).map_err(|fault| one_fault(ProblemType::Malformed, fault))
    }

    pub fn choice(&self, name: &str) -> Result<Option<bool>, Problem> {
        self.query.choice(name).map_err(|fault| one_fault(ProblemType::Malformed, fault))
    }

    pub fn number(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>, Problem> {
        self.query.number(name, least, most).map_err(|fault| one_fault(ProblemType::Malformed, fault))
    }
}
