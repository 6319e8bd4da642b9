//! One connection: requests one after the other, each answered, counted and, if it changes something, written down.

use crate::answer::Answer;
use crate::body::Written;
use crate::calls;
use crate::identity::Identity;
use crate::log::{Severity, log};
use crate::request;
use crate::state::State;
use crate::stream::{Stream, plain};
use api::{Difference, Problem, ProblemType};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// Serves a connection until the client ends it, takes too long, or the server ends.
pub(crate) async fn serve<S>(state: Arc<State>, stream: S, who: Identity)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let who = Arc::new(who);
    let limits = &state.limits;
    let io = TokioIo::new(Stream::new(stream, limits.write_time));
    let service = service_fn(|request| {
        let (state, who) = (state.clone(), who.clone());
        async move { Ok::<_, Infallible>(respond(&state, request, who).await) }
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
    // What goes wrong here is the client's affair: it leaves, is too slow, or speaks no HTTP, and was told so.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = ending.wait_for(|ending| *ending) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
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

async fn respond(state: &Arc<State>, request: Request<Incoming>, who: Arc<Identity>) -> Response<Written> {
    let answer = match request::call_of(&request) {
        Err(answer) => *answer,
        Ok((call, name)) => {
            let audited = call.changes() && !call.is_a_change_of_objects();
            let in_path = name.clone().unwrap_or_default();
            let answered = match request::read(state, request, (call, name), who.clone()).await {
                Ok(asked) => {
                    let answered = calls::answer(state, asked).await.unwrap_or_else(Answer::from);
                    if audited {
                        let none = Difference { revision: state.store.revision().0, ..Difference::default() };
                        let outcome = match &answered.problem {
                            Some(problem) => Err(problem),
                            None => Ok(answered.difference.as_ref().unwrap_or(&none)),
                        };
                        calls::audit(&state.audit, &who, call, &in_path, outcome);
                    }
                    answered
                }
                Err(problem) => problem.into(),
            };
            if answered.status == 500 {
                let detail =
                    answered.problem.as_ref().map(|problem| problem.detail.as_str()).unwrap_or_default();
                let fields =
                    [("detail", detail.into()), ("who", who.to_json()), ("path", call.path().into())];
                log(Severity::Error, "a request could not be answered", &fields);
            }
            answered
        }
    };
    state.counts.answered(answer.status);
    answer.into_response()
}
