//! What is done for each call.

use crate::answer::{Answer, faulty, one_fault, refused};
use crate::aside::Aside;
use crate::audit::Free;
use crate::audit_queue::AuditQueue;
use crate::call::Call;
use crate::change::{Outcome, WaitLimit, Wanted, WantedObject, not_committed};
use crate::claims::Claimed;
use crate::control::{Control, Exposition, ObjectChange, Refusal};
use crate::document;
use crate::identity::Identity;
use crate::outlet::Outlet;
use crate::precondition::Precondition;
use crate::request::{Asked, OPENMETRICS, body_as};
use crate::rights::Rights;
use crate::seen::{items, missing_snapshot};
use crate::state::{SMALL, State};
use crate::stored::{Stored, answered};
use crate::{events, history_calls, login_calls, page, past, sizes, spec, time, token_calls};
use api::{
    Adopt, DEFAULT_TENANT, Desired, Difference, Fault, Kind, List, Name, Object, ObjectName, Operation,
    Problem, ProblemType, Restore, Save, Upgrade, paths,
};
use serde_json::{Value, json};
use std::sync::Arc;
use store::Change;

/// Objects of a page.
const PAGE: (u64, u64) = (100, 1000);
/// Objects that are looked at for a page of those of one tenant.
const LOOKED_AT: usize = 1000;

/// Does what is asked.
pub(crate) async fn answer(state: &Arc<State>, mut asked: Asked) -> Result<Answer, Problem> {
    let rights = asked.rights.clone();
    match asked.call {
        Call::OpenApi => Ok(Answer::bytes(200, "application/json", state.openapi.clone())),
        // What a tenant has is counted for it, which takes its time where there is much.
        Call::Health if rights.tenant().is_some() => {
            aside(state, &rights, move |state| Answer::json(200, &state.health(&asked.rights))).await
        }
        Call::Health => Ok(Answer::json(200, &state.health(&rights))),
        Call::Metrics => metrics(state, asked).await,
        Call::Account => {
            let text = move |state: &State| match state.control.account(asked.rights.tenant()) {
                Some(text) => Answer::bytes(200, "application/json", text),
                None => Problem::new(ProblemType::Busy, "the daemon ends").into(),
            };
            aside(state, &rights, text).await
        }
        Call::Memory => {
            let text = move |state: &State| {
                let tenant = asked.rights.tenant();
                let mut memory = state.control.memory(tenant);
                if let (None, Some(memory)) = (tenant, memory.as_object_mut()) {
                    memory.insert("events".to_owned(), state.past.memory());
                }
                Answer::json(200, &memory)
            };
            aside(state, &rights, text).await
        }
        Call::Graph => {
            let text = move |state: &State| match state.control.graph(asked.rights.tenant()) {
                Some(graph) => Answer::json(200, &graph),
                None => Problem::new(ProblemType::Busy, "the daemon ends").into(),
            };
            aside(state, &rights, text).await
        }
        Call::History => history_calls::history(state, asked).await,
        Call::Images => aside(state, &rights, move |state| items(&state.images(&asked.rights))).await,
        Call::Events => events::events(state, &asked),
        Call::PastEvents => past::events(state, asked).await,
        Call::Logs => events::logs(state, &asked),
        Call::FunctionEvents => events::function_events(state, &asked),
        Call::Report => report(state, asked).await,
        Call::Neighbours => neighbours(state, asked).await,
        Call::Apply => apply(state, asked).await,
        Call::Check => check(state, asked).await,
        Call::Operations => {
            aside(state, &rights, move |state| items(&state.operations.all(&asked.rights))).await
        }
        Call::Operation => {
            let name = asked.name()?.clone();
            let one = move |state: &State| match state.operations.find(&name, &asked.rights) {
                Some(operation) => Ok(Answer::json(200, &operation)),
                None => Err(missing(&format!("operation `{name}`"))),
            };
            state.work_on(&rights, false, one).await?
        }
        Call::Snapshots => aside(state, &rights, move |state| items(&state.snapshots(&asked.rights))).await,
        Call::Snapshot => {
            let name = asked.name()?.clone();
            aside(state, &rights, move |state| match state.snapshot(&asked.rights, &name) {
                Ok(snapshot) => Answer::json(200, &snapshot),
                Err(problem) => problem.into(),
            })
            .await
        }
        Call::DeleteSnapshot => {
            let name = asked.name()?.clone();
            let claimed = [Claimed::Snapshot(name.to_string())];
            let done = move |state: &State| delete_snapshot(state, &asked.rights, &name);
            aside_alone(state, &rights, claimed, done).await
        }
        Call::Save => save(state, asked).await,
        Call::Restore => restore(state, asked).await,
        Call::Adopt => adopt(state, asked).await,
        Call::RotateKey => {
            let done = |state: &State| match state.control.rotate_snapshot_key() {
                Ok(rotated) => {
                    let about = Some(json!({"key": rotated.key}));
                    Answer { about, ..Answer::json(200, &rotated) }
                }
                Err(refusal) => refused(refusal).into(),
            };
            aside(state, &rights, done).await
        }
        Call::List(kind) => {
            let done = state.work_on(&rights, false, move |state| list(state, &asked, kind));
            done.await?
        }
        Call::Get(kind) => {
            let id = asked.id(kind)?;
            let object = move |state: &State| shown(state, &asked.rights, &id);
            state.work_on(&rights, false, object).await?
        }
        Call::Put(kind) => put(state, asked, kind).await,
        Call::Delete(kind) => {
            let wanted = WantedObject {
                id: asked.id(kind)?,
                spec: None,
                precondition: std::mem::take(&mut asked.precondition),
                snapshot: None,
            };
            let answer = change(state, &asked, vec![wanted], false).await?;
            Ok(answer.into_answer())
        }
        Call::Pause => pause(state, asked, true).await,
        Call::Resume => pause(state, asked, false).await,
        Call::Restart => {
            let id = asked.id(Kind::Function)?;
            state.find(&asked.rights, &id)?;
            let claimed = [Claimed::Object(id.clone())];
            aside_alone(state, &rights, claimed, move |state| {
                let rights = &asked.rights;
                let done = state.is_still(rights, &id).and_then(|()| {
                    state.control.restart(&id.name).map_err(|refusal| state.refused(rights, refusal))
                });
                done.and_then(|()| shown(state, rights, &id)).unwrap_or_else(Answer::from)
            })
            .await
        }
        Call::Upgrade => upgrade(state, asked).await,
        Call::Trace => {
            let wanted: api::Trace = asked.body()?;
            let (theirs, rights) = (state.clone(), rights);
            watch(state, &asked, move |control, outlet| {
                // Whose the places are stays as it is while they are looked up.
                let _turn = rights.tenant().map(|_| theirs.turn());
                theirs.tokens.hold(&rights)?;
                Ok(control.trace(&wanted, rights.tenant(), outlet))
            })
            .await
        }
        Call::Capture => {
            let wanted: api::Capture = asked.body()?;
            let (theirs, rights) = (state.clone(), rights);
            watch(state, &asked, move |control, outlet| {
                let _turn = rights.tenant().map(|_| theirs.turn());
                theirs.tokens.hold(&rights)?;
                Ok(control.capture(&wanted, rights.tenant(), outlet))
            })
            .await
        }
        Call::Backup => {
            // What the store says and what is kept beside it are of one moment.
            let (store, theirs) = (state.store.clone(), state.clone());
            watch(state, &asked, move |control, outlet| {
                let _turn = theirs.turn();
                Ok(control.back_up(&store, outlet))
            })
            .await
        }
        Call::PageLink => page::link(state, &asked),
        Call::Tokens => Ok(items(&state.tokens.list())),
        Call::Token => token_calls::get(state, &asked),
        Call::IssueToken => token_calls::issue(state, asked).await,
        Call::DeleteToken => token_calls::delete(state, &asked).await,
        Call::RegistryLogins => Ok(login_calls::list(state, &asked)),
        Call::SetRegistryLogin => login_calls::set(state, asked).await,
        Call::DeleteRegistryLogin => login_calls::delete(state, &asked).await,
    }
}

/// An object as a client is shown it.
fn shown(state: &State, rights: &Rights, id: &ObjectName) -> Result<Answer, Problem> {
    Ok(Answer::object(200, &state.object(rights, id)?))
}

/// There is no such thing.
pub(crate) fn missing(what: &str) -> Problem {
    Problem::new(ProblemType::NotFound, format!("there is no {what}"))
}

/// Asks the host on a thread of its own, because it may take some milliseconds.
async fn aside(
    state: &Arc<State>,
    rights: &Rights,
    ask: impl FnOnce(&State) -> Answer + Send + 'static,
) -> Result<Answer, Problem> {
    state.work_on(rights, true, ask).await
}

/// The same while nothing else changes what is claimed.
async fn aside_alone(
    state: &Arc<State>,
    rights: &Rights,
    claimed: impl IntoIterator<Item = Claimed>,
    ask: impl FnOnce(&State) -> Answer + Send + 'static,
) -> Result<Answer, Problem> {
    let claim = state.claim(claimed).await?;
    let asked = move |state: &State| {
        let answer = ask(state);
        drop(claim);
        answer
    };
    state.promptly(rights, false, asked).await
}

/// Lets the host write a stream until the client stops reading.
async fn watch(
    state: &Arc<State>,
    asked: &Asked,
    begin: impl FnOnce(&dyn Control, Outlet) -> Result<Result<(), Refusal>, Problem> + Send + 'static,
) -> Result<Answer, Problem> {
    let (bytes, answer) = events::stream(asked);
    let outlet = Outlet::new(bytes, ending(state, &asked.rights));
    let rights = asked.rights.clone();
    let begun = move |state: &State| match begin(&*state.control, outlet) {
        Ok(Ok(())) => answer,
        Ok(Err(refusal)) => state.refused(&rights, refusal).into(),
        Err(problem) => problem.into(),
    };
    state.promptly(&asked.rights, false, begun).await
}

/// Tells when a stream ends: with the server, and with the token that it was asked for by.
fn ending(state: &Arc<State>, rights: &Rights) -> tokio::sync::watch::Receiver<bool> {
    let mut server = state.ending.subscribe();
    if rights.grant().is_none() {
        return server;
    }
    let (ends, ending) = tokio::sync::watch::channel(false);
    let (state, rights) = (state.clone(), rights.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = state.tokens.over(&rights) => {}
            _ = server.wait_for(|ends| *ends) => {}
            // Nothing is written any more.
            () = ends.closed() => {}
        }
        ends.send_replace(true);
    });
    ending
}

/// Lets a function report, on a thread of its own: it is called for that.
async fn report(state: &Arc<State>, asked: Asked) -> Result<Answer, Problem> {
    let (id, rights) = (asked.id(Kind::Function)?, asked.rights.clone());
    state.find(&asked.rights, &id)?;
    let report = move |state: &State| {
        let reported = state.control.report(&id.name);
        // Another tenant's function may have come to have the name.
        match state.find(&asked.rights, &id) {
            Ok(()) => reported.map_or_else(
                |refusal| state.refused(&asked.rights, refusal).into(),
                |it| Answer::json(200, &it),
            ),
            Err(problem) => problem.into(),
        }
    };
    state.promptly(&rights, false, report).await
}

/// A device on its links. A tenant is shown its own alone.
async fn neighbours(state: &Arc<State>, asked: Asked) -> Result<Answer, Problem> {
    let id = asked.id(Kind::Device)?;
    let limit = asked.number("limit", 1, PAGE.1)?.unwrap_or(PAGE.0) as usize;
    let after = asked.address("after")?;
    state.find(&asked.rights, &id)?;
    let rights = asked.rights.clone();
    // It holds what packets of the device's links wait for.
    let told = move |state: &State| {
        let told = state.control.neighbours(&id.name, asked.rights.tenant(), after, limit);
        // Another tenant's device may have come to have the name.
        state.find(&asked.rights, &id).map_or_else(Answer::from, |()| Answer::json(200, &told))
    };
    state.promptly(&rights, false, told).await
}

async fn metrics(state: &Arc<State>, asked: Asked) -> Result<Answer, Problem> {
    let exposition = match asked.content_type {
        OPENMETRICS => Exposition::OpenMetrics,
        _ => Exposition::Prometheus,
    };
    let content_type = asked.content_type;
    let rights = asked.rights;
    aside(state, &rights.clone(), move |state| {
        let text = metrics_text(state, exposition, rights.tenant());
        Answer::bytes(200, content_type, text)
    })
    .await
}

/// The whole exposition: of a tenant, or of the host.
pub(crate) fn metrics_text(state: &State, exposition: Exposition, tenant: Option<&str>) -> String {
    let mut text = String::new();
    state.control.metrics(exposition, tenant, &mut text);
    // What the server counts of itself is of all clients.
    if tenant.is_none() {
        let revision = state.store.revision().0;
        let spans = state.spans.as_ref().map(trace_export::Exporter::counts).unwrap_or_default();
        let sessions = state.page.as_ref().map_or(0, |page| page.sessions.count());
        let unended = (state.operations.unended(), sessions);
        state.counts.write(exposition, unended, revision, spans, state.audit.lost(), &mut text);
    }
    if matches!(exposition, Exposition::OpenMetrics) {
        text.push_str("# EOF\n");
    }
    text
}

fn list(state: &State, asked: &Asked, kind: Kind) -> Result<Answer, Problem> {
    let limit = asked.number("limit", 1, PAGE.1)?.unwrap_or(PAGE.0) as usize;
    let tenant = asked.named("tenant", Kind::Tenant)?;
    let tenant = tenant.as_deref();
    let after = asked.named("after", kind)?;
    let after = after.as_deref();
    if let Some(own) = asked.rights.tenant() {
        let other = tenant.is_some_and(|tenant| tenant != own);
        let limit = if other { 0 } else { limit };
        let mut list = state.list_of(&asked.rights, own, kind, after, limit);
        list.next = list.next.filter(|_| !other);
        return Ok(Answer::json(200, &list));
    }
    // Names have no zeros: this is the first that comes after.
    let from = after.map(|after| format!("{after}\0")).unwrap_or_default();
    let looked_at = if tenant.is_some() { LOOKED_AT } else { limit };
    let page = state.store.list(kind.as_str(), &from, looked_at);
    let mut items = Vec::new();
    let mut next = None;
    let seen = page.objects.len();
    for (n, stored) in page.objects.iter().enumerate() {
        let mut object = answered(kind, stored);
        let of = object.spec.get("tenant").and_then(Value::as_str).unwrap_or(DEFAULT_TENANT);
        if tenant.is_none_or(|tenant| tenant == of) {
            object.status = state.control.status(kind, &object.name, None);
            items.push(object);
        }
        let more = n + 1 < seen || page.next.is_some();
        if more && (items.len() == limit || n + 1 == seen) {
            next = Some(stored.name.to_string());
            break;
        }
    }
    Ok(Answer::json(200, &List { items, revision: page.revision.0, next }))
}

/// How a change was answered, before it is an answer.
enum Changed {
    Done(Difference),
    Later(Box<Operation>),
}

impl Changed {
    fn into_answer(self) -> Answer {
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
async fn change(
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

async fn put(state: &Arc<State>, mut asked: Asked, kind: Kind) -> Result<Answer, Problem> {
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
async fn change_one(
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
        let object = match state.object(&rights, &named) {
            Ok(there) if there.version <= difference.revision => there,
            _ => Object {
                kind: named.kind,
                name: named.name.clone(),
                version: difference.revision,
                spec,
                status: None,
            },
        };
        let location = (status == 201).then(|| paths::object(named.kind, &named.name));
        Answer { difference: Some(difference), location, ..Answer::object(status, &object) }
    };
    state.look_at(&asked.rights, &id, answer).await
}

async fn apply(state: &Arc<State>, mut asked: Asked) -> Result<Answer, Problem> {
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

async fn check(state: &Arc<State>, mut asked: Asked) -> Result<Answer, Problem> {
    let (body, text) = (asked.body.take(), asked.text.take().unwrap_or_default());
    let (rights, prune, timing) = (asked.rights.clone(), asked.flag("prune")?, asked.timing.clone());
    // It reads files and images: never on the thread that answers.
    let checked =
        state.work_on(&asked.rights, true, move |state| state.check(rights, body, prune, timing, &text));
    Ok(Answer::json(200, &checked.await??))
}

async fn upgrade(state: &Arc<State>, mut asked: Asked) -> Result<Answer, Problem> {
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

async fn save(state: &Arc<State>, mut asked: Asked) -> Result<Answer, Problem> {
    let Save { name } = asked.body_with(&["name"])?;
    let (function, rights) = (asked.id(Kind::Function)?, asked.rights);
    state.find(&rights, &function)?;
    let of = rights.tenant().map(|tenant| Claimed::SnapshotsOf(tenant.to_owned()));
    let claimed = [Claimed::function(&function.name), Claimed::Snapshot(name.to_string())];
    let claimed = claimed.into_iter().chain(of);
    aside_alone(state, &rights.clone(), claimed, move |state| {
        if let Err(problem) = state.is_still(&rights, &function) {
            return problem.into();
        }
        let allowed = state.limits.tenant_snapshots;
        if rights.tenant().is_some() && state.snapshots(&rights).len() >= allowed {
            let what =
                format!("the tenant has {allowed} snapshots, which is as many as it may have; delete some");
            return Problem::new(ProblemType::NoRoom, what).into();
        }
        if state.control.snapshot(&name).is_some() {
            let what = format!("the snapshot `{name}` is there already; choose another name, or delete it");
            return Problem::new(ProblemType::Conflict, what).into();
        }
        match state.control.save(&function.name, &name) {
            Ok(snapshot) => {
                let location = Some(paths::snapshot(&snapshot.name));
                Answer { location, ..Answer::json(201, &snapshot) }
            }
            Err(refusal) => state.refused(&rights, refusal).into(),
        }
    })
    .await
}

async fn restore(state: &Arc<State>, mut asked: Asked) -> Result<Answer, Problem> {
    let Restore { function } = asked.body_with(&["function"])?;
    let id = ObjectName::new(Kind::Function, function);
    let (rights, name, named) = (asked.rights.clone(), asked.name()?.clone(), id.clone());
    let precondition = std::mem::take(&mut asked.precondition);
    // What the snapshot is, is read from disk.
    let restored = state.work_on(&asked.rights, true, move |state| {
        let snapshot = state.snapshot(&rights, &name)?;
        let mut spec = snapshot.spec;
        if snapshot.function != *named.name
            && let Value::Object(spec) = &mut spec
        {
            // Wires are of the place and not of the function that was saved there: another one has its own,
            // or none.
            let there = state.read(&rights, &named);
            let attach = there.ok().and_then(|there| Stored::of(&there).spec.get("attach").cloned());
            match attach {
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
async fn adopt(state: &Arc<State>, mut asked: Asked) -> Result<Answer, Problem> {
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

fn delete_snapshot(state: &State, rights: &Rights, name: &Name) -> Answer {
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

/// A pause is part of what is desired: a function that was paused is paused after a restart.
async fn pause(state: &Arc<State>, asked: Asked, paused: bool) -> Result<Answer, Problem> {
    let durable = asked.flag("durable")?;
    let id = asked.id(Kind::Function)?;
    let claim = state.claim([Claimed::Object(id.clone())]).await?;
    let (rights, function) = (asked.rights.clone(), id.clone());
    let done = state.promptly(&asked.rights, false, move |state| {
        let done = pause_now(state, &rights, &function, paused);
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
/// function: to thaw one takes its time, for which no other change waits.
fn pause_now(state: &State, rights: &Rights, id: &ObjectName, paused: bool) -> Result<(bool, u64), Problem> {
    state.tokens.hold(rights)?;
    state.find(rights, id)?;
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
