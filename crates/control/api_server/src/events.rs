//! Streams: what happens to the objects, and what a function says and finds, line by line, now and as long as
//! the client follows.
//!
//! Lines of JSON and not server-sent events: every language and `jq` read lines, a client that reconnects
//! says itself after which revision, and the socket is not one that a web page could open.

use crate::answer::Answer;
use crate::body::Written;
use crate::request::Asked;
use crate::state::State;
use api::{Event, Happened, Kind, ObjectName, Problem, ProblemType};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use store::{Gone, Revision};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::mpsc;
use tokio::time::{interval, sleep, timeout};

/// Changes that are read from the store at a time.
const BATCH: usize = 256;
/// For how long a tenant's stream waits when it has been told of something, before it looks: what comes
/// meanwhile is looked at once. A tenant has many connections, and its functions can tell something at any
/// rate.
const PACE: Duration = Duration::from_millis(10);
/// Parts of a stream that wait to be written, each of up to [`BATCH`] lines.
const WAITING: usize = 4;
/// The largest number of a revision or a line.
const MOST: u64 = (1 << 53) - 1;
/// Lines of a log in one answer.
const LOG_LINES: (u64, u64) = (100, 10_000);

pub(crate) fn stream(asked: &Asked) -> (mpsc::Sender<Bytes>, Answer) {
    let (lines, written) = mpsc::channel(WAITING);
    let answer =
        Answer { body: Written::Lines(written), ..Answer::bytes(200, asked.content_type, Bytes::new()) };
    (lines, answer)
}

fn line<T: serde::Serialize>(text: &mut Vec<u8>, value: &T) {
    // Text and numbers can always be written.
    if serde_json::to_writer(&mut *text, value).is_ok() {
        text.push(b'\n');
    }
}

/// The events after a revision.
pub(crate) fn events(state: &Arc<State>, asked: &Asked) -> Result<Answer, Problem> {
    let follow = asked.flag("follow")?;
    let after = asked.number("after", 0, MOST)?;
    if let Some(tenant) = asked.rights.tenant() {
        return tenants_events(state, asked, tenant, after, follow);
    }
    let after = after.map_or_else(|| state.store.revision(), Revision);
    let gone = |gone: Gone| Problem::new(ProblemType::Gone, gone.to_string());
    // Clients that come too late are told so before the stream begins.
    state.store.changes_after(after, 1).map_err(gone)?;
    let (lines, answer) = stream(asked);
    let state = state.clone();
    // Before anything is read, so that nothing that happens meanwhile is missed.
    let notices = state.notices.follow();
    let rights = asked.rights.clone();
    tokio::spawn(async move {
        tokio::select! {
            biased;
            // A reader's token that is deleted or expired.
            () = state.tokens.over(&rights) => {}
            () = follow_changes(&state, after, follow, notices, &lines) => {}
        }
    });
    Ok(answer)
}

/// Ends when the client leaves, when it comes too late, or when the server ends.
async fn follow_changes(
    state: &State,
    mut after: Revision,
    follow: bool,
    mut notices: tokio::sync::broadcast::Receiver<Arc<Event>>,
    lines: &mpsc::Sender<Bytes>,
) {
    let mut revision = state.revision.subscribe();
    let mut ending = state.ending.subscribe();
    let mut alive = interval(state.limits.alive);
    alive.reset();
    loop {
        revision.mark_unchanged();
        loop {
            let mut text = Vec::new();
            let end = match state.store.changes_after(after, BATCH) {
                Ok(changes) if changes.is_empty() => break,
                Ok(changes) => {
                    for change in changes {
                        after = change.revision;
                        let Some(kind) = Kind::from_name(&change.kind) else { continue };
                        let happened = match change.happened {
                            store::Happened::Put => Happened::Put,
                            store::Happened::Deleted => Happened::Deleted,
                        };
                        let name = change.name.to_string();
                        line(&mut text, &Event::Changed { revision: after.0, kind, name, happened });
                    }
                    false
                }
                Err(Gone { oldest, newest, .. }) => {
                    line(&mut text, &Event::Gone { oldest: oldest.0, newest: newest.0 });
                    true
                }
            };
            if lines.send(text.into()).await.is_err() || end {
                return;
            }
        }
        if !follow {
            return;
        }
        let mut text = Vec::new();
        tokio::select! {
            changed = revision.changed() => if changed.is_err() { return },
            notice = notices.recv() => match notice {
                Ok(notice) => line(&mut text, &*notice),
                Err(RecvError::Lagged(notices)) => line(&mut text, &Event::Lost { notices }),
                Err(RecvError::Closed) => return,
            },
            _ = alive.tick() => line(&mut text, &Event::Alive { revision: after.0 }),
            _ = ending.wait_for(|ending| *ending) => return,
            () = lines.closed() => return,
        }
        if !text.is_empty() && lines.send(text.into()).await.is_err() {
            return;
        }
    }
}

/// The same of one tenant's objects, as long as its token is taken.
fn tenants_events(
    state: &Arc<State>,
    asked: &Asked,
    tenant: &str,
    after: Option<u64>,
    follow: bool,
) -> Result<Answer, Problem> {
    let after = after.unwrap_or_else(|| state.owners.revision());
    state.owners.remembers(after).map_err(|gone| {
        let (asked, newest) = (Revision(after), Revision(gone.newest));
        Problem::new(ProblemType::Gone, Gone { asked, oldest: Revision(gone.oldest), newest }.to_string())
    })?;
    let (lines, answer) = stream(asked);
    let (state, tenant, rights) = (state.clone(), tenant.to_owned(), asked.rights.clone());
    let notices = state.notices.follow();
    tokio::spawn(async move {
        tokio::select! {
            // What waits to be written is not written either.
            biased;
            () = state.tokens.over(&rights) => {}
            () = follow_tenant(&state, (&tenant, after), follow, notices, &lines) => {}
        }
    });
    Ok(answer)
}

async fn follow_tenant(
    state: &State,
    (tenant, mut after): (&str, u64),
    follow: bool,
    mut notices: tokio::sync::broadcast::Receiver<Arc<Event>>,
    lines: &mpsc::Sender<Bytes>,
) {
    let mut revision = state.owners.follow();
    let mut ending = state.ending.subscribe();
    let mut alive = interval(state.limits.alive);
    alive.reset();
    loop {
        revision.mark_unchanged();
        loop {
            let mut text = Vec::new();
            let (changes, end) = match state.owners.changes(tenant, after, BATCH) {
                Ok((changes, last)) => {
                    after = last;
                    (changes, false)
                }
                Err(gone) => (vec![Event::Gone { oldest: gone.oldest, newest: gone.newest }], true),
            };
            changes.iter().for_each(|change| line(&mut text, change));
            if !text.is_empty() && lines.send(text.into()).await.is_err() || end {
                return;
            }
            if changes.len() < BATCH {
                break;
            }
        }
        if !follow {
            return;
        }
        let mut text = Vec::new();
        let mut heard = false;
        tokio::select! {
            changed = revision.changed() => match changed {
                Ok(()) => heard = true,
                Err(_) => return,
            },
            notice = notices.recv() => {
                heard = true;
                match notice {
                    Ok(notice) => tell_of(state, tenant, &notice, &mut text),
                    Err(RecvError::Lagged(notices)) => line(&mut text, &Event::Lost { notices }),
                    Err(RecvError::Closed) => return,
                }
                // Those that wait go with it.
                for _ in 1..BATCH {
                    match notices.try_recv() {
                        Ok(notice) => tell_of(state, tenant, &notice, &mut text),
                        Err(TryRecvError::Lagged(notices)) => line(&mut text, &Event::Lost { notices }),
                        Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                    }
                }
            },
            _ = alive.tick() => line(&mut text, &Event::Alive { revision: after }),
            _ = ending.wait_for(|ending| *ending) => return,
            () = lines.closed() => return,
        }
        if !text.is_empty() && lines.send(text.into()).await.is_err() {
            return;
        }
        if heard {
            sleep(PACE).await;
        }
    }
}

/// Tells of a notice if it is about an object of a tenant.
fn tell_of(state: &State, tenant: &str, notice: &Event, text: &mut Vec<u8>) {
    if let Event::Notice { kind, name, .. } = notice
        && state.owners.is_of(&ObjectName::new(*kind, name.clone()), tenant)
    {
        line(text, notice);
    }
}

/// What a function said after a line.
pub(crate) fn logs(state: &Arc<State>, asked: &Asked) -> Result<Answer, Problem> {
    numbered(
        state,
        asked,
        |state, function, after, limit| state.control.logs(function, after, limit),
        |line| line.number,
    )
}

/// What a function found and what happened to it after an event.
pub(crate) fn function_events(state: &Arc<State>, asked: &Asked) -> Result<Answer, Problem> {
    let read =
        |state: &State, function: &str, after, limit| state.control.function_events(function, after, limit);
    numbered(state, asked, read, |event| event.number)
}

/// A stream of what is kept of a function, in the order of numbers.
fn numbered<T: serde::Serialize + Send + Sync + 'static>(
    state: &Arc<State>,
    asked: &Asked,
    read: impl Fn(&State, &str, u64, usize) -> Vec<T> + Send + Sync + 'static,
    number: impl Fn(&T) -> u64 + Send + Sync + 'static,
) -> Result<Answer, Problem> {
    let follow = asked.flag("follow")?;
    let limit = asked.number("limit", 1, LOG_LINES.1)?.unwrap_or(LOG_LINES.0) as usize;
    let mut after = asked.number("after", 0, MOST)?.unwrap_or(0);
    let id = asked.id(Kind::Function)?;
    state.find(&asked.rights, &id)?;
    let (lines, answer) = stream(asked);
    let (state, rights) = (state.clone(), asked.rights.clone());
    tokio::spawn(async move {
        let over = state.tokens.over(&rights);
        let follow = async {
            let mut logged = state.notices.follow_function(&id.name);
            let mut ending = state.ending.subscribe();
            // Without `follow`, `limit` lines are all that was asked for.
            let mut left = limit;
            loop {
                logged.mark_unchanged();
                loop {
                    let mut text = Vec::new();
                    let most = left.min(BATCH);
                    let said = read(&state, &id.name, after, most);
                    let full = said.len() >= most;
                    // A function of another tenant may have been given the name.
                    if rights.tenant().is_some() && state.find(&rights, &id).is_err() {
                        return;
                    }
                    for said in &said {
                        after = number(said);
                        line(&mut text, said);
                    }
                    if !text.is_empty() && lines.send(text.into()).await.is_err() {
                        return;
                    }
                    if !follow {
                        left = left.saturating_sub(said.len());
                    }
                    if !full || left == 0 {
                        break;
                    }
                }
                if !follow || state.find(&rights, &id).is_err() {
                    return;
                }
                // Looked at now and then without being told, so that a function that is gone ends the stream.
                tokio::select! {
                    _ = timeout(state.limits.alive, logged.changed()) => {}
                    _ = ending.wait_for(|ending| *ending) => return,
                    () = lines.closed() => return,
                }
                if rights.tenant().is_some() {
                    sleep(PACE).await;
                }
            }
        };
        tokio::select! {
            biased;
            () = over => {}
            () = follow => {}
        }
    });
    Ok(answer)
}
