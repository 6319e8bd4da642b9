//! What is wrong, after RFC 9457.

use crate::{Kind, ObjectName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One thing that is wrong in what was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fault {
    /// Where: the way down from the document's top, `functions.fw.config.rules[2].action`, a parameter,
    /// `limit`, or a header, `If-Match`. Empty for the whole.
    pub at: String,
    /// What was found, and what is allowed.
    pub message: String,
    /// What the message was made from. It is in no answer: it decides what a tenant is told.
    #[serde(skip)]
    pub source: FaultSource,
    /// What it is about. It is in no answer: the message says it for people.
    #[serde(skip)]
    pub kind: FaultKind,
}

/// What a [`Fault`] is about, for those that decide by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FaultKind {
    /// What stands there, or lacks.
    #[default]
    Value,
    /// A key that is none: the key stands where the fault is, and not its value.
    UnknownKey,
    /// A name that no object of these kinds has.
    NotFound {
        /// What was looked for.
        kinds: Box<[Kind]>,
        /// The name.
        name: Box<str>,
    },
    /// An image that is not on this host: it is not known whether anything is wrong.
    ImageElsewhere,
}

/// What the message of a [`Fault`] was made from, and so whose names can stand in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FaultSource {
    /// Objects of all tenants: it can name any of them, or show that they exist.
    #[default]
    Host,
    /// The request itself and nothing else.
    Request,
    /// One object, with what the request says. It names no other object.
    Object(ObjectName),
}

impl Fault {
    /// A fault at a place, found by a look at all objects of the host: [`FaultSource::Host`].
    pub fn new(at: impl Into<String>, message: impl Into<String>) -> Fault {
        let (at, message) = (at.into(), message.into());
        Fault { at, message, source: FaultSource::Host, kind: FaultKind::Value }
    }

    /// A fault whose message was made from the request alone.
    pub fn of_request(at: impl Into<String>, message: impl Into<String>) -> Fault {
        Fault { source: FaultSource::Request, ..Fault::new(at, message) }
    }

    /// A fault whose message was made from one object alone.
    pub fn of_object(object: ObjectName, at: impl Into<String>, message: impl Into<String>) -> Fault {
        Fault { source: FaultSource::Object(object), ..Fault::new(at, message) }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.at.is_empty() {
            write!(f, "{}: ", self.at)?;
        }
        f.write_str(&self.message)
    }
}

/// A problem document (RFC 9457): why a request was not carried out. Nothing was changed then, unless the
/// type says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// What sort of problem: the path of its description, which never changes.
    #[serde(rename = "type")]
    #[schemars(with = "ProblemType")]
    pub kind: String,
    /// The same in a few words.
    pub title: String,
    /// The status of the answer.
    #[schemars(range(min = 400, max = 599))]
    pub status: u16,
    /// What happened this time.
    pub detail: String,
    /// All that is wrong in what was sent, each with its place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
}

impl Problem {
    /// A problem of a type.
    pub fn new(of: ProblemType, detail: impl Into<String>) -> Problem {
        Problem {
            kind: of.uri().to_owned(),
            title: of.title().to_owned(),
            status: of.status(),
            detail: detail.into(),
            faults: Vec::new(),
        }
    }

    /// The same with all that is wrong.
    #[must_use]
    pub fn with(mut self, faults: Vec<Fault>) -> Problem {
        self.faults = faults;
        self
    }

    /// Which type it is, if this version knows it.
    pub fn problem_type(&self) -> Option<ProblemType> {
        ProblemType::ALL.into_iter().find(|of| of.uri() == self.kind)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.title, self.detail)?;
        for fault in &self.faults {
            write!(f, "\n  {fault}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

/// The types of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema)]
pub enum ProblemType {
    /// The request itself is wrong: a header, a parameter, or what should be JSON or YAML and is not.
    #[schemars(rename = "/problems/malformed")]
    Malformed,
    /// No token was shown where one is needed, or one that is unknown, deleted or expired.
    #[schemars(rename = "/problems/unauthorized")]
    Unauthorized,
    /// The token does not give the right to it; `faults` says where, if it is about a part of what was sent.
    #[schemars(rename = "/problems/forbidden")]
    Forbidden,
    /// There is nothing of this name, or nothing at this path.
    #[schemars(rename = "/problems/not-found")]
    NotFound,
    /// The path does not take this method; `Allow` has those that it takes.
    #[schemars(rename = "/problems/method-not-allowed")]
    MethodNotAllowed,
    /// There is no representation of what was asked for that `Accept` takes.
    #[schemars(rename = "/problems/not-acceptable")]
    NotAcceptable,
    /// The request did not come in time.
    #[schemars(rename = "/problems/timeout")]
    Timeout,
    /// The change does not go with what there is: something else has the name or needs the object.
    #[schemars(rename = "/problems/conflict")]
    Conflict,
    /// The events asked for are no longer known: list the objects anew and follow from there.
    #[schemars(rename = "/problems/gone")]
    Gone,
    /// `If-Match` or `If-None-Match` does not hold: another client was faster, or the object is not there or
    /// is there.
    #[schemars(rename = "/problems/precondition-failed")]
    PreconditionFailed,
    /// The body is too large.
    #[schemars(rename = "/problems/too-large")]
    TooLarge,
    /// The body's content type is not one that is read here.
    #[schemars(rename = "/problems/unsupported-media-type")]
    UnsupportedMediaType,
    /// What was sent is well-formed, and something in it is wrong; `faults` has all of it.
    #[schemars(rename = "/problems/invalid")]
    Invalid,
    /// The request's headers are too large.
    #[schemars(rename = "/problems/headers-too-large")]
    HeadersTooLarge,
    /// The daemon broke; its log says more.
    #[schemars(rename = "/problems/internal")]
    Internal,
    /// A registry that has to be asked for an image does not answer, has no such image, or lies; `faults` has
    /// all of it.
    #[schemars(rename = "/problems/registry")]
    Registry,
    /// Too much is under way, or the daemon ends; `Retry-After` says when to try again.
    #[schemars(rename = "/problems/busy")]
    Busy,
    /// The change was made, and it is not known to be on disk: the disk fails.
    #[schemars(rename = "/problems/not-durable")]
    NotDurable,
    /// The host has no room for it: memory or disk.
    #[schemars(rename = "/problems/no-room")]
    NoRoom,
}

impl ProblemType {
    /// All types.
    pub const ALL: [ProblemType; 19] = [
        ProblemType::Malformed,
        ProblemType::Unauthorized,
        ProblemType::Forbidden,
        ProblemType::NotFound,
        ProblemType::MethodNotAllowed,
        ProblemType::NotAcceptable,
        ProblemType::Timeout,
        ProblemType::Conflict,
        ProblemType::Gone,
        ProblemType::PreconditionFailed,
        ProblemType::TooLarge,
        ProblemType::UnsupportedMediaType,
        ProblemType::Invalid,
        ProblemType::HeadersTooLarge,
        ProblemType::Internal,
        ProblemType::Registry,
        ProblemType::Busy,
        ProblemType::NotDurable,
        ProblemType::NoRoom,
    ];

    const fn row(self) -> (&'static str, u16, &'static str) {
        match self {
            ProblemType::Malformed => ("/problems/malformed", 400, "The request is malformed"),
            ProblemType::Unauthorized => ("/problems/unauthorized", 401, "A valid token is needed"),
            ProblemType::Forbidden => ("/problems/forbidden", 403, "The token gives no right to it"),
            ProblemType::NotFound => ("/problems/not-found", 404, "Not found"),
            ProblemType::MethodNotAllowed => {
                ("/problems/method-not-allowed", 405, "The path does not take this method")
            }
            ProblemType::NotAcceptable => ("/problems/not-acceptable", 406, "No acceptable representation"),
            ProblemType::Timeout => ("/problems/timeout", 408, "The request did not come in time"),
            ProblemType::Conflict => ("/problems/conflict", 409, "The change does not go with what there is"),
            ProblemType::Gone => ("/problems/gone", 410, "The events are no longer known"),
            ProblemType::PreconditionFailed => {
                ("/problems/precondition-failed", 412, "The precondition does not hold")
            }
            ProblemType::TooLarge => ("/problems/too-large", 413, "The body is too large"),
            ProblemType::UnsupportedMediaType => {
                ("/problems/unsupported-media-type", 415, "The content type is not read here")
            }
            ProblemType::Invalid => ("/problems/invalid", 422, "Something in what was sent is wrong"),
            ProblemType::HeadersTooLarge => ("/problems/headers-too-large", 431, "The headers are too large"),
            ProblemType::Internal => ("/problems/internal", 500, "The daemon broke"),
            ProblemType::Registry => ("/problems/registry", 502, "A registry does not give the image"),
            ProblemType::Busy => ("/problems/busy", 503, "Too much is under way"),
            ProblemType::NotDurable => ("/problems/not-durable", 500, "Not known to be on disk"),
            ProblemType::NoRoom => ("/problems/no-room", 507, "No room"),
        }
    }

    /// The path of its description: `type` of a problem document.
    pub const fn uri(self) -> &'static str {
        self.row().0
    }

    /// The status of answers with it.
    pub const fn status(self) -> u16 {
        self.row().1
    }

    /// In a few words.
    pub const fn title(self) -> &'static str {
        self.row().2
    }
}
