//! The calls that change objects.

use crate::answer::{Answer, faulty, one_fault};
use crate::aside::Aside;
use crate::audit_records::audit;
use crate::calls::shown;
use crate::change::{Outcome, WaitLimit, not_committed};
use crate::claims::Claimed;
use crate::control::{ObjectChange, Refusal};
use crate::precondition::Precondition;
use crate::request::{Asked, body_as};
use crate::rights::Rights;
use crate::state::{SMALL, State};
use crate::stored::Stored;
use crate::wanted::{Wanted, WantedObject};
use crate::{document, sizes, spec};
use api::{
    DEFAULT_TENANT, Desired, Difference, Fault, Kind, Name, ObjectName, Operation, Problem, ProblemType,
    Upgrade, paths,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use store::Change;

/// How a change was answered, before it is an answer.
pub(crate) enum Changed {
    Done(Difference),
    Later(Box<Operation>),
}

impl Changed {
    pub(crate) fn into_answer(self) -> Answer {
        match self {
            Changed::Done(difference) => {
                Answer { difference: Some(difference.clone()), ..Answer::json(200, &difference) }
            }
            Changed::Later(operation) => {
                let location = Some(paths::operation(&operation.id));
                Answer { location, ..Answer::json(202, &*operation) }
            }
        }
    }
}

/// Makes a change, as the parameters say.
pub(crate) async fn change(
    state: &Arc<State>,
    asked: &Asked,
    objects: Vec<WantedObject>,
    large: bool,
) -> Result<Changed, Problem> {
    let limits = &state.limits;
    let limit = match asked.choice("wait")? {
        None => WaitLimit::For(limits.default_wait),
        Some(true) => WaitLimit::For(limits.longest_wait),
        Some(false) => WaitLimit::Not,
    };
    let durable = asked.flag("durable")?;
    let dry_run = asked.call.parameters().contains(&"dry_run") && asked.flag("dry_run")?;
    let prune = asked.call.parameters().contains(&"prune") && asked.flag("prune")?;
    let resolve = asked.call.parameters().contains(&"resolve") && asked.flag("resolve")?;
    let timing = asked.timing.clone();
    let (rights, resolve) = (asked.rights.clone(), resolve || !dry_run);
    let allow_restart = asked.call.parameters().contains(&"allow_restart") && asked.flag("allow_restart")?;
    let wanted = Wanted {
        objects,
        prune,
        dry_run,
        resolve,
        rights,
        others: BTreeSet::new(),
        allow_restart,
        timing: timing.clone(),
        large,
        _room: asked.room.clone(),
    };
    let (who, call, name) = (asked.who.clone(), asked.call, asked.shown_name().to_owned());
    let audited = state.clone();
    let outcome = state
        .change(wanted, limit, move |outcome| {
            let about = dry_run.then(|| json!({"dry_run": true}));
            audit(&audited.audit, &who, call, &name, outcome, about.as_ref());
        })
        .await?;
    match outcome {
        Outcome::Done(difference) => {
            if durable && !dry_run {
                let began = timing.now();
                state.durable(difference.revision).await?;
                timing.step("durable", began);
            }
            Ok(Changed::Done(difference))
        }
        Outcome::Later(operation) => Ok(Changed::Later(operation)),
    }
}

pub(crate) async fn put(state: &Arc<State>, mut asked: Asked, kind: Kind) -> Result<Answer, Problem> {
    let id = asked.id(kind)?;
    let (rights, body, from) = (asked.rights.clone(), asked.body.take(), asked.word("from")?);
    let precondition = std::mem::take(&mut asked.precondition);
    // What stands at a snapshot's beginning is read from disk.
    let bytes = if from.is_some() { usize::MAX } else { asked.body_bytes };
    let named = id.clone();
    let read = state.look(&asked.rights, bytes, move |state| {
        let Desired { spec } = body_as(body)?;
        spec::check(kind, &named.name, &spec)
            .map_err(|what| one_fault(ProblemType::Invalid, Fault::new("spec", what)))?;
        let snapshot = from.map(|name| begins_with(state, &rights, &name, &spec)).transpose()?;
        let wanted = WantedObject { id: named, spec: Some(spec.clone()), precondition, snapshot };
        Ok::<_, Problem>((wanted, spec))
    });
    let (wanted, spec) = read.await??;
    change_one(state, &asked, wanted, spec, asked.body_bytes > SMALL).await
}

/// The snapshot that a function with this spec is to begin with. What a tenant's function knew is for that
/// tenant's functions.
fn begins_with(state: &State, rights: &Rights, name: &Name, spec: &Value) -> Result<Name, Problem> {
    let snapshot = state.snapshot(rights, name)?;
    let tenant = spec.get("tenant").and_then(Value::as_str).unwrap_or(DEFAULT_TENANT);
    match &snapshot.tenant {
        Some(owner) if !snapshot.imported && **owner != *tenant => {
            let found = yaml_document::spelling::shown(tenant).to_string();
            let message = format!("found `{found}`; allowed: `{owner}`, whose snapshot `{name}` is");
            Err(one_fault(ProblemType::Invalid, Fault::new("spec.tenant", message)))
        }
        _ => Ok(snapshot.name),
    }
}

/// Changes one object, and answers with it as it is then. Another client may have changed it again already;
/// the answer is then what this change wrote.
pub(crate) async fn change_one(
    state: &Arc<State>,
    asked: &Asked,
    wanted: WantedObject,
    spec: Value,
    large: bool,
) -> Result<Answer, Problem> {
    let (id, spec) = (wanted.id.clone(), Aside::new(spec, large));
    let changed = change(state, asked, vec![wanted], large).await?;
    let (rights, named) = (asked.rights.clone(), id.clone());
    let answer = move |state: &State| {
        let spec = spec.take();
        let difference = match changed {
            Changed::Done(difference) if !difference.dry_run => difference,
            other => return other.into_answer(),
        };
        let status = if difference.created.is_empty() { 200 } else { 201 };
        let object = state.changed_object(&rights, &named, spec, &difference);
        let location = (status == 201).then(|| paths::object(named.kind, &named.name));
        Answer { difference: Some(difference), location, ..Answer::object(status, &object) }
    };
    state.look_at(&asked.rights, &id, answer).await
}

pub(crate) async fn apply(state: &Arc<State>, mut asked: Asked) -> Result<Answer, Problem> {
    let body = asked.body.take();
    let read = |body| {
        let objects = document::objects(body)?;
        let faults = sizes::too_large(&objects);
        if faults.is_empty() { Ok(objects) } else { Err(faults) }
    };
    // Of one that took a thread to be read, the objects take one, too.
    let large = asked.body_bytes > SMALL;
    let objects = match large {
        true => state.work_on(&asked.rights, true, move |_| read(body)).await?,
        false => read(body),
    };
    let objects = objects.map_err(|faults| faulty(ProblemType::Invalid, faults))?;
    let objects = objects
        .into_iter()
        .map(|(id, spec)| WantedObject {
            id,
            spec: Some(spec),
            precondition: Precondition::Any,
            snapshot: None,
        })
        .collect();
    let changed = change(state, &asked, objects, large).await?;
    Ok(changed.into_answer())
}

pub(crate) async fn check(state: &Arc<State>, mut asked: Asked) -> Result<Answer, Problem> {
    let (body, text) = (asked.body.take(), asked.text.take().unwrap_or_default());
    let (rights, prune, timing) = (asked.rights.clone(), asked.flag("prune")?, asked.timing.clone());
    // It reads files and images: never on the thread that answers.
    let checked =
        state.work_on(&asked.rights, true, move |state| state.check(rights, body, prune, timing, &text));
    Ok(Answer::json(200, &checked.await??))
}

pub(crate) async fn upgrade(state: &Arc<State>, mut asked: Asked) -> Result<Answer, Problem> {
    let id = asked.id(Kind::Function)?;
    let (rights, body, named) = (asked.rights.clone(), asked.body.take(), id.clone());
    let precondition = std::mem::take(&mut asked.precondition);
    let upgraded = move |state: &State| {
        let Upgrade { image, config } = body_as(body)?;
        let mut there = state.object(&rights, &named)?;
        let Some(spec) = there.spec.as_object_mut() else {
            let detail = format!("the spec of {named} is no map; replace it first");
            return Err(Problem::new(ProblemType::Conflict, detail));
        };
        spec.insert("image".to_owned(), image.into());
        if let Some(config) = config {
            spec.insert("config".to_owned(), config);
        }
        // What is upgraded is what was read, unless the client says what it read itself.
        let precondition = match precondition {
            Precondition::Any | Precondition::Present => Precondition::Versions(vec![there.version]),
            other => other,
        };
        let spec = there.spec;
        Ok((WantedObject { id: named, spec: Some(spec.clone()), precondition, snapshot: None }, spec))
    };
    let (wanted, spec) = match asked.body_bytes > SMALL {
        true => state.work_on(&asked.rights, true, upgraded).await??,
        false => state.look_at(&asked.rights, &id, upgraded).await??,
    };
    let large = asked.body_bytes > SMALL || state.stored_bytes(&id) > SMALL;
    change_one(state, &asked, wanted, spec, large).await
}

/// A pause is part of what is desired: a function that was paused is paused after a restart.
pub(crate) async fn pause(state: &Arc<State>, mut asked: Asked, paused: bool) -> Result<Answer, Problem> {
    let durable = asked.flag("durable")?;
    let id = asked.id(Kind::Function)?;
    // Another tenant's change would come after it, even while it waits for its turn.
    state.find(&asked.rights, &id)?;
    let claimed = [Claimed::Object(id.clone())];
    let (claim, permit) = state.claim_when_due(&asked.rights, claimed).await?;
    let (rights, function) = (asked.rights.clone(), id.clone());
    let precondition = std::mem::take(&mut asked.precondition);
    let done = state.promptly_within(&asked.rights, permit, false, move |state| {
        let still = state.is_still_what(&rights, &function, &precondition);
        let done = still.and_then(|()| pause_now(state, &rights, &function, paused));
        drop(claim);
        done
    });
    let (same, revision) = done.await??;
    if durable {
        state.durable(revision).await?;
    }
    let changed = if same { Vec::new() } else { vec![id.clone()] };
    let difference = Some(Difference { revision, changed, ..Difference::default() });
    let (rights, named) = (asked.rights.clone(), id.clone());
    let object = move |state: &State| shown(state, &rights, &named);
    Ok(Answer { difference, ..state.look_at(&asked.rights, &id, object).await?? })
}

/// Whether it was so before, and the revision since which it is written down. The caller has claimed the
/// function and seen that it is the client's: to thaw one takes its time, for which no other change waits.
fn pause_now(state: &State, rights: &Rights, id: &ObjectName, paused: bool) -> Result<(bool, u64), Problem> {
    let set = |paused| match paused {
        true => state.control.pause(&id.name),
        false => state.control.resume(&id.name),
    };
    set(paused).map_err(|refusal| state.refused(rights, refusal))?;
    let _turn = state.turn();
    // A change that does not name it may have deleted it meanwhile.
    let stored = state.read(rights, id)?;
    let Stored { spec, paused: before } = Stored::of(&stored);
    let (wanted, same) = (Stored { spec, paused }, before == paused);
    if !same {
        let write = Change::put(id.kind.as_str(), id.name.as_str(), wanted.to_bytes());
        let change = ObjectChange {
            kind: id.kind,
            name: id.name.clone(),
            spec: Some(wanted.spec),
            paused,
            snapshot: None,
        };
        if let Err(error) = state.commit(&[write], &[change]) {
            // What could not be written down is taken back.
            match set(!paused) {
                Ok(()) => {}
                Err(refusal) => {
                    return Err(state.refused(rights, Refusal::Broken(format!("{error}; and {:?}", refusal))));
                }
            }
            return Err(not_committed(&error));
        }
    }
    Ok((same, state.store.revision().0))
}
