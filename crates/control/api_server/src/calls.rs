//! What is done for each call.

use crate::answer::{Answer, refused};
use crate::call::Call;
use crate::claims::Claimed;
use crate::control::{Control, Exposition, Refusal};
use crate::outlet::Outlet;
use crate::request::{Asked, OPENMETRICS};
use crate::rights::Rights;
use crate::seen::items;
use crate::state::State;
use crate::stored::answered;
use crate::wanted::WantedObject;
use crate::{change_calls, events, history_calls, login_calls, page, past, snapshot_calls, token_calls};
use api::{DEFAULT_TENANT, Kind, List, ObjectName, Problem, ProblemType};
use serde_json::{Value, json};
use std::sync::Arc;

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
        Call::Apply => change_calls::apply(state, asked).await,
        Call::Check => change_calls::check(state, asked).await,
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
            snapshot_calls::look_first(state, &rights, &name, false).await?;
            let claimed = [Claimed::Snapshot(name.to_string())];
            let done = move |state: &State| snapshot_calls::delete_snapshot(state, &asked.rights, &name);
            aside_alone(state, &rights, claimed, done).await
        }
        Call::Save => snapshot_calls::save(state, asked).await,
        Call::Restore => snapshot_calls::restore(state, asked).await,
        Call::Adopt => snapshot_calls::adopt(state, asked).await,
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
        Call::Put(kind) => change_calls::put(state, asked, kind).await,
        Call::Delete(kind) => {
            let wanted = WantedObject {
                id: asked.id(kind)?,
                spec: None,
                precondition: std::mem::take(&mut asked.precondition),
                snapshot: None,
            };
            let answer = change_calls::change(state, &asked, vec![wanted], false).await?;
            Ok(answer.into_answer())
        }
        Call::Pause => change_calls::pause(state, asked, true).await,
        Call::Resume => change_calls::pause(state, asked, false).await,
        Call::Restart => {
            let id = asked.id(Kind::Function)?;
            state.find(&asked.rights, &id)?;
            let claimed = [Claimed::Object(id.clone())];
            aside_alone(state, &rights, claimed, move |state| {
                let rights = &asked.rights;
                let still = state.is_still_what(rights, &id, &asked.precondition);
                let done = still.and_then(|()| {
                    state.control.restart(&id.name).map_err(|refusal| state.refused(rights, refusal))
                });
                done.and_then(|()| shown(state, rights, &id)).unwrap_or_else(Answer::from)
            })
            .await
        }
        Call::Upgrade => change_calls::upgrade(state, asked).await,
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
pub(crate) fn shown(state: &State, rights: &Rights, id: &ObjectName) -> Result<Answer, Problem> {
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
pub(crate) async fn aside_alone(
    state: &Arc<State>,
    rights: &Rights,
    claimed: impl IntoIterator<Item = Claimed>,
    ask: impl FnOnce(&State) -> Answer + Send + 'static,
) -> Result<Answer, Problem> {
    let (claim, permit) = state.claim_when_due(rights, claimed).await?;
    let asked = move |state: &State| {
        let answer = ask(state);
        drop(claim);
        answer
    };
    state.promptly_within(rights, permit, true, asked).await
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
    state.promptly(&asked.rights, begun).await
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
    state.promptly(&rights, report).await
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
    state.promptly(&rights, told).await
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
    let (seen, mut bytes) = (page.objects.len(), 0);
    for (n, stored) in page.objects.iter().enumerate() {
        let mut object = answered(kind, stored);
        let of = object.spec.get("tenant").and_then(Value::as_str).unwrap_or(DEFAULT_TENANT);
        if tenant.is_none_or(|tenant| tenant == of) {
            object.status = state.control.status(kind, &object.name, None);
            items.push(object);
            bytes += stored.value.len();
        }
        let more = n + 1 < seen || page.next.is_some();
        let is_full = items.len() == limit || bytes >= state.limits.list_bytes;
        if more && (is_full || n + 1 == seen) {
            next = Some(stored.name.to_string());
            break;
        }
    }
    Ok(Answer::json(200, &List { items, revision: page.revision.0, next }))
}
