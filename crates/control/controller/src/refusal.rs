//! Why a change is refused, with its places.

use api::{Fault, Kind, ObjectName};
use api_server::{ObjectChange, Refusal};
use deployment::{PrepareError, Refused};

/// Keys of functions that only `superfluid run` knows.
const ONLY_RUN: [(&str, &str); 2] = [
    ("events", "none: what functions find is among the daemon's events"),
    ("pauses", "none: functions are paused and resumed by request"),
];

pub(super) fn as_host(change: &ObjectChange) -> deployment::ObjectChange {
    deployment::ObjectChange { kind: change.kind, name: change.name.clone(), spec: change.spec.clone() }
}

pub(super) fn into_host(change: ObjectChange) -> deployment::ObjectChange {
    deployment::ObjectChange { kind: change.kind, name: change.name, spec: change.spec }
}

/// What may stand in a file, and means nothing here.
pub(super) fn unknown_here(changes: &[ObjectChange]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for change in changes.iter().filter(|change| change.kind == Kind::Function) {
        for (key, allowed) in ONLY_RUN {
            if change.spec.as_ref().is_some_and(|spec| spec.get(key).is_some()) {
                let message = format!("`{key}` is for `superfluid run`; allowed here: {allowed}");
                faults.push(Fault::of_request(format!("functions.{}.{key}", change.name), message));
            }
        }
    }
    faults
}

pub(super) fn refused(error: PrepareError) -> Refusal {
    match &error {
        PrepareError::Part { what, name, reason } => {
            let kind = match *what {
                "function" => Some(Kind::Function),
                "port" => Some(Kind::Port),
                "switch" => Some(Kind::Switch),
                "pool" => Some(Kind::Tenant),
                _ => None,
            };
            let fault = match kind {
                Some(kind) => {
                    let at = format!("{}.{name}", kind.plural());
                    Fault::of_object(ObjectName::new(kind, name), at, reason)
                }
                None => Fault::new(format!("{what}.{name}"), reason),
            };
            Refusal::Invalid(vec![fault])
        }
        PrepareError::Refused(Refused::Broken) => Refusal::Broken(error.to_string()),
        PrepareError::Refused(_) => Refusal::Busy(error.to_string()),
        PrepareError::Placement(_) => Refusal::Broken(error.to_string()),
    }
}

pub(super) fn faults_of(refusal: Refusal) -> Vec<Fault> {
    let whole = |message: String| vec![Fault::new("", message)];
    match refusal {
        Refusal::Invalid(faults) | Refusal::Conflict(faults) | Refusal::Registry(faults) => faults,
        Refusal::Launcher { all, .. } => all,
        Refusal::NotFound(text)
        | Refusal::NoRoom(text)
        | Refusal::TooMuch(text)
        | Refusal::Busy(text)
        | Refusal::Broken(text) => whole(text),
        Refusal::Work(work) => whole(work.what),
    }
}

/// Whether a fault's place is in an object.
pub(super) fn is_about(fault: &Fault, object: &ObjectChange) -> bool {
    let place = match object.kind {
        Kind::Workers => "workers".to_owned(),
        kind => format!("{}.{}", kind.plural(), object.name),
    };
    fault.at == place || fault.at.strip_prefix(&place).is_some_and(|rest| rest.starts_with(['.', '[']))
}
