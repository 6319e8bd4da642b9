//! What the audit log has of a call.

use crate::audit_queue::AuditQueue;
use crate::audit_rate::{Free, Group};
use crate::call::Call;
use crate::identity::Identity;
use crate::time;
use api::{Difference, ObjectName, Problem, paths};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What is written down of a call, in this order.
#[derive(Serialize)]
struct Record<'a> {
    time: String,
    who: Value,
    method: &'a str,
    path: String,
    outcome: &'static str,
    #[serde(flatten)]
    comes_to: ComesTo<'a>,
    #[serde(flatten)]
    about: Option<&'a Map<String, Value>>,
}

/// What a call came to.
#[derive(Serialize)]
#[serde(untagged)]
enum ComesTo<'a> {
    Done {
        revision: u64,
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        images: &'a BTreeMap<String, String>,
        #[serde(skip_serializing_if = "Names::is_empty")]
        created: Names<'a>,
        #[serde(skip_serializing_if = "Names::is_empty")]
        changed: Names<'a>,
        #[serde(skip_serializing_if = "Names::is_empty")]
        deleted: Names<'a>,
    },
    Refused {
        status: u16,
        problem: &'a str,
        detail: &'a str,
    },
}

/// Objects, each as `function/fw`.
struct Names<'a>(&'a [ObjectName]);

impl Names<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Names<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(ObjectName::to_string))
    }
}

/// Writes down which client changed what, or could not.
pub(crate) fn audit(
    audit: &AuditQueue,
    who: &Identity,
    call: Call,
    name: &str,
    outcome: Result<&Difference, &Problem>,
    about: Option<&Value>,
) {
    let (told, comes_to) = match outcome {
        Ok(Difference { revision, images, created, changed, deleted, .. }) => {
            let [created, changed, deleted] = [created, changed, deleted].map(|list| Names(list));
            ("done", ComesTo::Done { revision: *revision, images, created, changed, deleted })
        }
        Err(Problem { status, kind, detail, .. }) => {
            ("refused", ComesTo::Refused { status: *status, problem: kind.as_str(), detail })
        }
    };
    let (method, about) = (call.method(), about.and_then(Value::as_object));
    let record = Record {
        time: time::now(),
        who: who.to_json(),
        method: method.as_str(),
        path: call.path().replace("{name}", &paths::escaped(name)),
        outcome: told,
        comes_to,
        about,
    };
    let free = match (outcome, about.is_some_and(|about| about.contains_key("dry_run"))) {
        _ if !who.has_a_token() => None,
        (_, true) => Some(Free::DryRun),
        (Err(_), false) => Some(Free::Refusal),
        (Ok(to), false) if matches!(call, Call::Put(_) | Call::Apply) && is_empty(to) => {
            Some(Free::Unchanged)
        }
        (Ok(_), false) => None,
    };
    match free {
        Some(kind) => {
            audit.write_free(Group::of(who), kind, serde_json::to_value(record).unwrap_or_default())
        }
        None => audit.write(&record),
    }
}

/// Whether all is as it was before.
fn is_empty(difference: &Difference) -> bool {
    let Difference { created, changed, deleted, restarted, .. } = difference;
    created.is_empty() && changed.is_empty() && deleted.is_empty() && restarted.is_empty()
}

/// Writes down which client was not let in, or was not let do something.
pub(crate) fn audit_refusal(audit: &AuditQueue, who: &Identity, method: &str, path: &str, problem: &Problem) {
    audit.write_free(
        Group::of(who),
        Free::Refusal,
        json!({
            "time": time::now(),
            "who": who.to_json(),
            "method": method,
            "path": path,
            "outcome": "refused",
            "status": problem.status,
            "problem": problem.kind,
            "detail": problem.detail,
        }),
    );
}
