//! What the audit log has of a call.

use crate::audit::Free;
use crate::audit_queue::AuditQueue;
use crate::call::Call;
use crate::identity::Identity;
use crate::time;
use api::{Difference, ObjectName, Problem, paths};
use serde_json::{Value, json};

/// Writes down which client changed what, or could not.
pub(crate) fn audit(
    audit: &AuditQueue,
    who: &Identity,
    call: Call,
    name: &str,
    outcome: Result<&Difference, &Problem>,
    about: Option<&Value>,
) {
    let mut record = json!({
        "time": time::now(),
        "who": who.to_json(),
        "method": call.method().as_str(),
        "path": call.path().replace("{name}", &paths::escaped(name)),
    });
    let ids = |list: &[ObjectName]| Value::from(list.iter().map(ObjectName::to_string).collect::<Vec<_>>());
    match outcome {
        Ok(difference) => {
            record["outcome"] = "done".into();
            record["revision"] = difference.revision.into();
            if !difference.images.is_empty() {
                record["images"] = json!(difference.images);
            }
            let lists = [
                ("created", &difference.created),
                ("changed", &difference.changed),
                ("deleted", &difference.deleted),
            ];
            for (list, names) in lists {
                if !names.is_empty() {
                    record[list] = ids(names);
                }
            }
        }
        Err(problem) => {
            record["outcome"] = "refused".into();
            record["status"] = problem.status.into();
            record["problem"] = problem.kind.as_str().into();
            record["detail"] = problem.detail.as_str().into();
        }
    }
    for (key, value) in about.and_then(Value::as_object).into_iter().flatten() {
        record[key] = value.clone();
    }
    let dry_run = record.get("dry_run").is_some();
    match (outcome, who) {
        (_, who) if dry_run && who.has_a_token() => audit.write_free(Free::DryRun, record),
        (Err(_), who) if who.has_a_token() => audit.write_free(Free::Refusal, record),
        _ => audit.write(record),
    }
}

/// Writes down which client was not let in, or was not let do something.
pub(crate) fn audit_refusal(audit: &AuditQueue, who: &Identity, method: &str, path: &str, problem: &Problem) {
    audit.write_free(
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
