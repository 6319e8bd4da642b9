//! The calls that save, restore, give and delete snapshots.

use crate::answer::{Answer, one_fault, refused};
use crate::calls::aside_alone;
use crate::change_calls::change_one;
use crate::claims::Claimed;
use crate::owners::size;
use crate::request::Asked;
use crate::rights::Rights;
use crate::seen::missing_snapshot;
use crate::state::State;
use crate::stored::Stored;
use crate::wanted::WantedObject;
use api::{Adopt, Fault, Kind, Name, ObjectName, Problem, ProblemType, Restore, Save, paths};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) async fn save(state: &Arc<State>, mut asked: Asked) -> Result<Answer, Problem> {
    let Save { name } = asked.body_with(&["name"])?;
    let (function, rights, precondition) = (asked.id(Kind::Function)?, asked.rights, asked.precondition);
    state.find(&rights, &function)?;
    look_first(state, &rights, &name, true).await?;
    let of = rights.tenant().map(|tenant| Claimed::SnapshotsOf(tenant.to_owned()));
    let claimed = [Claimed::function(&function.name), Claimed::Snapshot(name.to_string())];
    let claimed = claimed.into_iter().chain(of);
    aside_alone(state, &rights.clone(), claimed, move |state| {
        if let Err(problem) = state.is_still_what(&rights, &function, &precondition) {
            return problem.into();
        }
        let most = match room_for_snapshot(state, &rights, &function) {
            Ok(most) => most,
            Err(problem) => return problem.into(),
        };
        if state.control.snapshot(&name).is_some() {
            return is_there(&name).into();
        }
        match state.control.save(&function.name, &name, most) {
            Ok(snapshot) => {
                let location = Some(paths::snapshot(&snapshot.name));
                Answer { location, ..Answer::json(201, &snapshot) }
            }
            Err(refusal) => state.refused(&rights, refusal).into(),
        }
    })
    .await
}

fn is_there(name: &Name) -> Problem {
    let what = format!("the snapshot `{name}` is there already; choose another name, or delete it");
    Problem::new(ProblemType::Conflict, what)
}

/// Refuses a tenant the name of a snapshot that is another's, or, unless it may be `free`, of none, before it
/// stands for it: another tenant's change would come after it, even while it waits for its turn.
pub(crate) async fn look_first(
    state: &Arc<State>,
    rights: &Rights,
    name: &Name,
    free: bool,
) -> Result<(), Problem> {
    if rights.tenant().is_none() {
        return Ok(());
    }
    let (theirs, named) = (rights.clone(), name.clone());
    let looked = move |state: &State| match state.snapshot(&theirs, &named) {
        Err(_) if free && state.control.snapshot(&named).is_some() => Err(is_there(&named)),
        Err(_) if free => Ok(()),
        found => found.map(drop),
    };
    state.work_on(rights, true, looked).await?
}

/// Bytes that a further snapshot, of this function, may have.
///
/// # Errors
/// There may be none.
fn room_for_snapshot(state: &State, rights: &Rights, function: &ObjectName) -> Result<u64, Problem> {
    if rights.tenant().is_none() {
        return Ok(u64::MAX);
    }
    let there = state.snapshots(rights);
    let bytes: u64 = there.iter().map(|snapshot| snapshot.bytes).sum();
    let (number, all) = (state.limits.tenant_snapshots, state.limits.tenant_snapshot_bytes);
    if there.len() >= number {
        let what = format!("the tenant has {number} snapshots, which is as many as it may have; delete some");
        return Err(Problem::new(ProblemType::NoRoom, what));
    }
    if bytes >= all {
        let what = format!("the tenant's snapshots have {bytes} bytes; allowed: {all} bytes; delete some");
        return Err(Problem::new(ProblemType::NoRoom, what));
    }
    let specs =
        there.iter().map(|snapshot| size(&snapshot.spec)).sum::<usize>() + state.stored_bytes(function);
    let allowed = state.limits.tenant_snapshot_specs;
    if specs > allowed {
        let what = format!(
            "the specs of the tenant's snapshots would have {specs} bytes; allowed: {allowed} bytes; delete some"
        );
        return Err(Problem::new(ProblemType::NoRoom, what));
    }
    Ok(all - bytes)
}

pub(crate) async fn restore(state: &Arc<State>, mut asked: Asked) -> Result<Answer, Problem> {
    let Restore { function } = asked.body_with(&["function"])?;
    let id = ObjectName::new(Kind::Function, function);
    let (rights, name, named) = (asked.rights.clone(), asked.name()?.clone(), id.clone());
    let precondition = std::mem::take(&mut asked.precondition);
    // What the snapshot is, is read from disk.
    let restored = state.work_on(&asked.rights, true, move |state| {
        let snapshot = state.snapshot(&rights, &name)?;
        let mut spec = snapshot.spec;
        let there = state.read(&rights, &named).ok().map(|there| Stored::of(&there).spec);
        let returns = there.is_none() && snapshot.function == *named.name;
        if let Value::Object(spec) = &mut spec
            && !returns
        {
            // Wires are of the place and not of the function that was saved there, as chains are: one that is
            // there has its own, which may be others by now, and one of another name none yet.
            match there.and_then(|there| there.get("attach").cloned()) {
                Some(attach) => drop(spec.insert("attach".to_owned(), attach)),
                None => drop(spec.remove("attach")),
            }
        }
        let (copy, snapshot) = (spec.clone(), Some(snapshot.name));
        Ok::<_, Problem>((WantedObject { id: named, spec: Some(spec), precondition, snapshot }, copy))
    });
    let (wanted, spec) = restored.await??;
    change_one(state, &asked, wanted, spec, true).await
}

/// Gives an imported snapshot to a tenant.
pub(crate) async fn adopt(state: &Arc<State>, mut asked: Asked) -> Result<Answer, Problem> {
    let Adopt { tenant } = asked.body_with(&["tenant"])?;
    let (rights, name) = (asked.rights.clone(), asked.name()?.clone());
    let tenants = Claimed::Object(ObjectName::new(Kind::Tenant, tenant.to_string()));
    let claimed = [Claimed::Snapshot(name.to_string()), tenants];
    aside_alone(state, &asked.rights, claimed, move |state| {
        let snapshot = match state.snapshot(&rights, &name) {
            Ok(snapshot) => snapshot,
            Err(problem) => return problem.into(),
        };
        if !snapshot.imported {
            if snapshot.tenant.as_ref() == Some(&tenant) {
                return Answer::json(200, &snapshot);
            }
            let what = format!("the snapshot `{name}` has a tenant; allowed: one that is imported");
            return Problem::new(ProblemType::Conflict, what).into();
        }
        if !state.owners.is_tenant(&tenant) {
            let message = format!("there is no tenant `{tenant}`");
            return one_fault(ProblemType::Invalid, Fault::new("tenant", message)).into();
        }
        match state.control.adopt_snapshot(&name, &tenant) {
            Ok(snapshot) => {
                let about = Some(json!({"tenant": tenant}));
                Answer { about, ..Answer::json(200, &snapshot) }
            }
            Err(refusal) => refused(refusal).into(),
        }
    })
    .await
}

pub(crate) fn delete_snapshot(state: &State, rights: &Rights, name: &Name) -> Answer {
    let shown = state.tokens.hold(rights).and_then(|()| state.snapshot(rights, name));
    if let Err(problem) = shown {
        return problem.into();
    }
    match state.control.delete_snapshot(name) {
        Ok(true) => Answer::json(200, &json!({"deleted": name})),
        Ok(false) => missing_snapshot(name).into(),
        Err(refusal) => state.refused(rights, refusal).into(),
    }
}
