//! One connection: requests one after the other, each answered, counted and, if it changes something, written
//! down.

use crate::answer::Answer;
use crate::body::{self, Written};
use crate::call::Call;
use crate::connection_groups::ConnectionSlot;
use crate::identity::Identity;
use crate::log::{Severity, log};
use crate::page::{self, Until};
use crate::precondition::shown;
use crate::request::{self, Asked};
use crate::rights::{self, Door, Rights};
use crate::settings::Limits;
use crate::state::State;
use crate::stream::{Stream, plain};
use crate::timing::Timed;
use crate::{audit_records, calls};
use api::{Difference, Problem, ProblemType};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, EXPECT, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::{sleep, timeout};

/// Serves a connection until the client ends it, takes too long, its slot is given to another, or the server
/// ends.
pub(crate) async fn serve<S>(
    state: Arc<State>,
    stream: S,
    (door, who): (Door, Identity),
    slot: ConnectionSlot,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (who, slot) = (Arc::new(who), Arc::new(slot));
    let limits = &state.limits;
    let io = TokioIo::new(Stream::new(stream, limits.write_time));
    let service = service_fn(|request| {
        let (state, who, slot) = (state.clone(), who.clone(), slot.clone());
        async move {
            // One without a session may be closed for another one while it is answered.
            if door != Door::Page {
                slot.set_idle(false);
            }
            let idle = IdleAfter(slot);
            let (response, until) = match door {
                Door::Page => page::respond(&state, request, &who, &idle.0).await,
                _ => (respond(&state, request, (door, who), None, &idle.0).await, None),
            };
            Ok::<_, Infallible>(response.map(|body| Held { body, until, _idle: idle }))
        }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_headers(limits.headers)
        .max_buf_size(limits.header_bytes.max(8 << 10))
        .half_close(false);
    let mut ending = state.ending.subscribe();
    let mut connection = pin!(builder.serve_connection(io, service));
    // What goes wrong here is the client's affair: it leaves, is too slow, or speaks no HTTP, and was told
    // so.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = slot.left() => return,
        () = unknown(&slot, door, limits) => return,
        _ = ending.wait_for(|ending| *ending) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// Marks a connection idle when it is dropped: its answer has been written then, or its request has gone.
struct IdleAfter(Arc<ConnectionSlot>);

impl Drop for IdleAfter {
    fn drop(&mut self) {
        self.0.set_idle(true);
    }
}

/// An answer's body.
struct Held {
    body: Written,
    /// When it ends, whatever there is still to be written.
    until: Option<Until>,
    _idle: IdleAfter,
}

impl Body for Held {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let streams = matches!(self.body, Written::Lines(_));
        if streams && self.until.as_mut().is_some_and(|until| until.as_mut().poll(cx).is_ready()) {
            (self.body, self.until) = (Written::nothing(), None);
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Comes when a connection has had its time to show a token or a session and has shown none.
async fn unknown(slot: &ConnectionSlot, door: Door, limits: &Limits) {
    // A browser loads the page first.
    let time = if door == Door::Page { limits.header_time } else { limits.unknown_time };
    if door != Door::Administrators {
        sleep(time).await;
        if !slot.has_shown_a_token() {
            return;
        }
    }
    std::future::pending().await
}

/// Tells a client that there are too many, and ends.
pub(crate) async fn refuse<S: AsyncWrite + Unpin>(mut stream: S, connections: usize) {
    let problem = Problem::new(
        ProblemType::Busy,
        format!("{connections} connections are open, which is as many as may be"),
    );
    let _ = timeout(Duration::from_secs(1), async {
        stream.write_all(&plain(&problem)).await?;
        stream.shutdown().await
    })
    .await;
}

/// Answers a request. What a session has given already is `known`.
pub(crate) async fn respond(
    state: &Arc<State>,
    request: Request<Incoming>,
    (door, mut who): (Door, Arc<Identity>),
    known: Option<(Rights, Arc<Identity>)>,
    slot: &ConnectionSlot,
) -> Response<Written> {
    let (timed, path) = (Timed::begin(state, &request), request.uri().path().to_owned());
    let shown_rights = match known {
        Some(known) => Ok(known),
        None => rights::of(state, (door, &who), request.headers()),
    };
    let mut known = None;
    let (head, mut body) = request.into_parts();
    let method = head.method.clone();
    let refused = async |who: &Identity, problem: Problem| -> Answer {
        let method = shown(method.as_str().as_bytes());
        audit_records::audit_refusal(&state.audit, who, &method, &shown(path.as_bytes()), &problem);
        state.audit.written(None).await;
        problem.into()
    };
    // A client that has no right to anything is told so, whatever is asked.
    let rights = shown_rights.and_then(|(rights, of)| {
        who = of;
        // A connection of the administrators' stays where it is.
        let (went, whose) = match (door, &rights, rights.tenant()) {
            (Door::Administrators, ..) => (true, ""),
            (Door::Page, Rights::All, _) => {
                (slot.move_to_browsers(&state.connections.browsers), "administrators' browsers")
            }
            (_, Rights::Reader(_), _) => {
                (slot.move_to_readers(&state.connections.readers), "readers of the host")
            }
            (_, _, Some(tenant)) => (slot.move_to_tenant(tenant, &state.connections.tenants), "the tenant"),
            (_, _, None) => (true, ""),
        };
        if went {
            slot.set_idle(false);
            return Ok(rights);
        }
        let most = state.limits.tenant_connections;
        let detail = format!("{most} connections of {whose} are being answered, which is as many as may be");
        Err(Problem::new(ProblemType::Busy, detail))
    });
    let found = rights.map(|rights| (rights, request::call_of(&head)));
    let mut unread = true;
    let asking = found.as_ref().ok().map(|(rights, _)| rights.clone());
    let mut answer = match found {
        Err(problem) => refused(&who, problem).await,
        Ok((_, Err(answer))) => *answer,
        Ok((rights, Ok((call, name)))) => {
            known = Some(call);
            let read = match rights.may(call) {
                Err(problem) => Err(refused(&who, problem).await),
                Ok(()) => {
                    let (timing, rights) = (timed.timing.clone(), (rights, who.clone()));
                    let read = request::read(state, (&head, &mut body), (call, name), rights, timing).await;
                    read.map_err(Answer::from)
                }
            };
            unread = read.is_err();
            let answer = match read {
                // Not of the connection: what is begun is brought to its end, and written down, when the
                // client leaves.
                Ok(asked) if call.changes() => tokio::spawn(carry_out(state.clone(), asked))
                    .await
                    .unwrap_or_else(|error| Problem::new(ProblemType::Internal, error.to_string()).into()),
                Ok(asked) => calls::answer(state, asked).await.unwrap_or_else(Answer::from),
                Err(answer) => answer,
            };
            if answer.status == 500 {
                let detail =
                    answer.problem.as_ref().map(|problem| problem.detail.as_str()).unwrap_or_default();
                let fields =
                    [("detail", detail.into()), ("who", who.to_json()), ("path", call.path().into())];
                log(Severity::Error, "a request could not be answered", &fields);
            }
            answer
        }
    };
    // What was changed is told all the same.
    if let (Some(rights), false) = (&asking, known.is_some_and(Call::changes)) {
        take_room(state, rights, &mut answer);
    }
    // A client that waits to be asked for the body is not asked for it any more.
    let closes =
        unread && (head.headers.contains_key(EXPECT) || !body::drain(&mut body, &state.limits).await);
    let mut response = finish(state, answer, (timed, known), &path, &who);
    if closes {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Takes room for an answer that a tenant or a reader of the host has not taken yet, or says that there is
/// none: clients that ask and do not read have no more of the daemon's memory than that.
fn take_room(state: &State, rights: &Rights, answer: &mut Answer) {
    let (budget, all, whose) = match (rights, rights.tenant()) {
        (_, Some(tenant)) => {
            (state.tenants_answers.of(tenant), state.limits.tenant_answers_bytes, "of the tenant")
        }
        (Rights::Reader(_), None) => {
            (state.readers_answers.clone(), state.limits.readers_answers_bytes, "of readers of the host")
        }
        (_, None) => return,
    };
    if let Err(found) = answer.body.take_room(&budget, all) {
        let detail = format!(
            "answers {whose} that are not read yet leave no room for one of {found} bytes; allowed: {all} bytes \
             together; read them"
        );
        *answer = Problem::new(ProblemType::Busy, detail).into();
    }
}

/// Bytes of a name in a line of the audit log, about.
const OF_NAME: u64 = 48;

/// Refuses what cannot be written into the audit log before it is done.
async fn may_be_logged(state: &State, asked: &Asked) -> Result<(), Problem> {
    let tries = asked.call.parameters().contains(&"dry_run") && asked.flag("dry_run").unwrap_or(false);
    if tries {
        return Ok(());
    }
    // The line of a document names those of its objects that change, and those that are deleted because it
    // does not name them.
    let deleted = if asked.call == Call::Apply { state.store.standing().objects * OF_NAME } else { 0 };
    let admitted = state.audit.admit(deleted + asked.body_bytes as u64, state.leader_of(&asked.rights)).await;
    admitted.map_err(|why| Problem::new(ProblemType::NoRoom, why))
}

/// Counts an answer, and tells how long it took.
fn finish(
    state: &State,
    answer: Answer,
    (timed, call): (Timed, Option<Call>),
    path: &str,
    who: &Identity,
) -> Response<Written> {
    state.counts.answered(answer.status);
    let mut response = answer.into_response();
    if let Some(call) = call {
        timed.end(state, call, path, who, &mut response);
    }
    response
}

/// Does what changes something, and writes it down; changes of objects write themselves down.
async fn carry_out(state: Arc<State>, asked: Asked) -> Answer {
    let began = asked.timing.now();
    if let Err(problem) = may_be_logged(&state, &asked).await {
        return problem.into();
    }
    asked.timing.step("room", began);
    let (call, name, who) = (asked.call, asked.shown_name().to_owned(), asked.who.clone());
    let leader = state.leader_of(&asked.rights);
    let answer = calls::answer(&state, asked).await.unwrap_or_else(Answer::from);
    if !call.is_a_change_of_objects() {
        let none = Difference { revision: state.store.revision().0, ..Difference::default() };
        let outcome = match &answer.problem {
            Some(problem) => Err(problem),
            None => Ok(answer.difference.as_ref().unwrap_or(&none)),
        };
        audit_records::audit(&state.audit, &who, call, &name, outcome, answer.about.as_ref());
    }
    // What the client is told of is written down.
    state.audit.written(leader).await;
    answer
}
