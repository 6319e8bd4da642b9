//! Answers, as they are made before they are HTTP.

use crate::body::Written;
use crate::control::Refusal;
use api::{Difference, Fault, Object, PROBLEM_JSON, Problem, ProblemType};
use bytes::Bytes;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE,
};
use hyper::{Response, StatusCode};
use serde::Serialize;

/// An answer, and what the audit log says of it.
pub(crate) struct Answer {
    pub status: u16,
    pub content_type: &'static str,
    pub body: Written,
    pub version: Option<u64>,
    pub location: Option<String>,
    pub allow: Option<String>,
    /// What was changed, for the audit log.
    pub difference: Option<Difference>,
    /// More for the audit log.
    pub about: Option<serde_json::Value>,
    /// Why nothing was, for the audit log.
    pub problem: Option<Problem>,
}

impl Answer {
    /// JSON.
    pub fn json(status: u16, value: &impl Serialize) -> Answer {
        match serde_json::to_vec(value) {
            Ok(bytes) => Answer::bytes(status, "application/json", bytes),
            // Only a map whose keys are no text cannot be written, and there are none.
            Err(error) => Problem::new(ProblemType::Internal, error.to_string()).into(),
        }
    }

    pub fn bytes(status: u16, content_type: &'static str, bytes: impl Into<Bytes>) -> Answer {
        let body = Written::Whole(bytes.into(), None);
        Answer {
            status,
            content_type,
            body,
            version: None,
            location: None,
            allow: None,
            difference: None,
            about: None,
            problem: None,
        }
    }

    /// An object, with its version as entity tag.
    pub fn object(status: u16, object: &Object) -> Answer {
        Answer { version: Some(object.version), ..Answer::json(status, object) }
    }

    pub fn into_response(self) -> Response<Written> {
        let mut response = Response::new(self.body);
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        let texts = [
            (ETAG, self.version.map(|version| format!("\"{version}\""))),
            (LOCATION, self.location),
            (ALLOW, self.allow),
            (WWW_AUTHENTICATE, (self.status == 401).then(|| "Bearer realm=\"superfluid\"".to_owned())),
            (RETRY_AFTER, (self.status == 503).then(|| "1".to_owned())),
        ];
        for (name, text) in texts {
            if let Some(value) = text.and_then(|text| HeaderValue::try_from(text).ok()) {
                headers.insert(name, value);
            }
        }
        response
    }
}

impl From<Problem> for Answer {
    fn from(problem: Problem) -> Answer {
        // A problem is text and numbers, which can always be written.
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        Answer { problem: Some(problem.clone()), ..Answer::bytes(problem.status, PROBLEM_JSON, body) }
    }
}

/// A problem with one fault, which is its detail too.
pub(crate) fn one_fault(of: ProblemType, fault: Fault) -> Problem {
    faulty(of, vec![fault])
}

/// A problem with faults.
pub(crate) fn faulty(of: ProblemType, faults: Vec<Fault>) -> Problem {
    let detail = match faults.as_slice() {
        [one] => one.to_string(),
        several => format!("{} faults", several.len()),
    };
    Problem::new(of, detail).with(faults)
}

/// What the host refuses, in the words of the interface. Work is for the caller to take out before.
pub(crate) fn refused(refusal: Refusal) -> Problem {
    match refusal {
        Refusal::Invalid(faults) => faulty(ProblemType::Invalid, faults),
        Refusal::Conflict(faults) => faulty(ProblemType::Conflict, faults),
        Refusal::NotFound(what) => Problem::new(ProblemType::NotFound, what),
        Refusal::NoRoom(what) | Refusal::TooMuch(what) => Problem::new(ProblemType::NoRoom, what),
        Refusal::Busy(what) => Problem::new(ProblemType::Busy, what),
        Refusal::Registry(faults) => faulty(ProblemType::Registry, faults),
        Refusal::Launcher { all, .. } => faulty(ProblemType::Invalid, all),
        Refusal::Broken(what) => Problem::new(ProblemType::Internal, what),
        Refusal::Work(work) => Problem::new(
            ProblemType::Internal,
            format!("{} leads to more work, and nothing is done", work.what),
        ),
    }
}
