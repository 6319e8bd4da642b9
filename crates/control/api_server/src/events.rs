//! Streams: what happens to the objects, and what a function says and finds, line by line, now and as long as
//! the client follows.
//!
//! Lines of JSON and not server-sent events: every language and `jq` read lines, a client that reconnects
//! says itself after which revision, and the socket is not one that a web page could open.

use crate::answer::Answer;
use crate::body::Written;
use crate::owners;
use crate::request::Asked;
use crate::state::State;
use api::{Event, Happened, Kind, ObjectName, Problem, ProblemType};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use store::{Gone, Revision};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{broadcast, mpsc, watch};
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

/// The events after a revision: of all objects, or of those of the tenant that asks.
pub(crate) fn events(state: &Arc<State>, asked: &Asked) -> Result<Answer, Problem> {
    let follow = asked.flag("follow")?;
    let after = asked.number("after", 0, MOST)?;
    let told = Told { state: state.clone(), tenant: asked.rights.tenant().map(str::to_owned) };
    let after = after.unwrap_or_else(|| told.newest());
    // Clients that come too late are told so before the stream begins.
    told.remembers(after).map_err(|gone| Problem::new(ProblemType::Gone, gone.to_string()))?;
    let (lines, answer) = stream(asked);
    // Before anything is read, so that nothing that happens meanwhile is missed.
    let notices = state.notices.follow();
    let rights = asked.rights.clone();
    tokio::spawn(async move {
        tokio::select! {
            // What waits to be written is not written either.
            biased;
            // A token that is deleted or expired.
            () = told.state.tokens.over(&rights) => {}
            () = told.follow(after, follow, notices, &lines) => {}
        }
    });
    Ok(answer)
}

/// What a stream tells of: all objects, or those of a tenant.
struct Told {
    state: Arc<State>,
    tenant: Option<String>,
}

impl Told {
    /// The revision up to which all is known.
    fn newest(&self) -> u64 {
        match self.tenant {
            None => self.state.store.revision().0,
            Some(_) => self.state.owners.revision(),
        }
    }

    /// Changes when there may be something to tell.
    fn wakes(&self) -> watch::Receiver<u64> {
        match self.tenant {
            None => self.state.revision.subscribe(),
            Some(_) => self.state.owners.follow(),
        }
    }

    /// Whether all that happened after a revision is known.
    fn remembers(&self, after: u64) -> Result<(), Gone> {
        match self.tenant {
            None => self.state.store.changes_after(Revision(after), 1).map(drop),
            Some(_) => self.state.owners.remembers(after).map_err(|gone| in_revisions(after, &gone)),
        }
    }

    /// What happened after a revision, the one up to which that is all, and whether there may be more.
    fn changes(&self, after: u64) -> Result<(Vec<Event>, u64, bool), Gone> {
        if let Some(tenant) = &self.tenant {
            let changes = self.state.owners.changes(tenant, after, BATCH);
            let (changes, last) = changes.map_err(|gone| in_revisions(after, &gone))?;
            let is_full = changes.len() >= BATCH;
            return Ok((changes, last, is_full));
        }
        let changes = self.state.store.changes_after(Revision(after), BATCH)?;
        let last = changes.last().map_or(after, |change| change.revision.0);
        let is_full = changes.len() >= BATCH;
        let event = |change: store::Changed| {
            let happened = match change.happened {
                store::Happened::Put => Happened::Put,
                store::Happened::Deleted => Happened::Deleted,
            };
            let (kind, name) = (Kind::from_name(&change.kind)?, change.name.to_string());
            Some(Event::Changed { revision: change.revision.0, kind, name, happened })
        };
        Ok((changes.into_iter().filter_map(event).collect(), last, is_full))
    }

    /// Whether a notice is told: to a tenant, if it is about an object of the tenant's.
    fn tells(&self, notice: &Event) -> bool {
        let Some(tenant) = &self.tenant else { return true };
        let Event::Notice { kind, name, .. } = notice else { return false };
        self.state.owners.is_of(&ObjectName::new(*kind, name.clone()), tenant)
    }

    /// Ends when the client leaves, when it comes too late, or when the server ends.
    async fn follow(
        &self,
        mut after: u64,
        follow: bool,
        mut notices: broadcast::Receiver<Arc<Event>>,
        lines: &mpsc::Sender<Bytes>,
    ) {
        let mut revision = self.wakes();
        let mut ending = self.state.ending.subscribe();
        let mut alive = interval(self.state.limits.alive);
        alive.reset();
        loop {
            revision.mark_unchanged();
            loop {
                let mut text = Vec::new();
                let changes = self.changes(after);
                let is_gone = changes.is_err();
                let (changes, last, is_full) = changes.unwrap_or_else(|Gone { oldest, newest, .. }| {
                    (vec![Event::Gone { oldest: oldest.0, newest: newest.0 }], after, false)
                });
                after = last;
                changes.iter().for_each(|change| line(&mut text, change));
                if !text.is_empty() && lines.send(text.into()).await.is_err() || is_gone {
                    return;
                }
                if !is_full {
                    break;
                }
            }
            if !follow {
                return;
            }
            let mut text = Vec::new();
            let mut heard = true;
            tokio::select! {
                changed = revision.changed() => if changed.is_err() { return },
                notice = notices.recv() => {
                    let mut told = match notice {
                        Ok(notice) => Ok(notice),
                        Err(RecvError::Lagged(notices)) => Err(TryRecvError::Lagged(notices)),
                        Err(RecvError::Closed) => return,
                    };
                    // Those that wait go with it.
                    for n in 1.. {
                        match told {
                            Ok(notice) if self.tells(&notice) => line(&mut text, &*notice),
                            Ok(_) => {}
                            Err(TryRecvError::Lagged(notices)) => line(&mut text, &Event::Lost { notices }),
                            Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                        }
                        if n == BATCH {
                            break;
                        }
                        told = notices.try_recv();
                    }
                },
                _ = alive.tick() => {
                    heard = false;
                    line(&mut text, &Event::Alive { revision: after });
                }
                _ = ending.wait_for(|ending| *ending) => return,
                () = lines.closed() => return,
            }
            if !text.is_empty() && lines.send(text.into()).await.is_err() {
                return;
            }
            if heard && self.tenant.is_some() {
                sleep(PACE).await;
            }
        }
    }
}

fn in_revisions(asked: u64, gone: &owners::Gone) -> Gone {
    Gone { asked: Revision(asked), oldest: Revision(gone.oldest), newest: Revision(gone.newest) }
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
