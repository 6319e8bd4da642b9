//! Metrics over plain HTTP on a loopback address, for a collector on the same host that has no certificate.
//!
//! 1. [`listen`] refuses an address that is not loopback. Nothing else than `GET /metrics` is answered here,
//!    and nothing can be changed.
//! 2. Every local user can connect. What they cost is bounded: [`PLACES`] connections in a room of their own,
//!    one request each, [`TIME`] for all of it, and at most one exposition in [`FRESH`], which all share.
//! 3. A connection never counts as being answered: where all places are taken the oldest one is closed for
//!    the next, so that clients that send nothing or read nothing keep no other out.
//! 4. `Host` must be `localhost` or a loopback address: a web page whose name was made to lead to this host
//!    (DNS rebinding) reads nothing.

use crate::accept::accepted;
use crate::answer::{Answer, one_fault};
use crate::body::Written;
use crate::calls::metrics_text;
use crate::connection_groups::ConnectionSlot;
use crate::control::Exposition;
use crate::error::BindError;
use crate::host_names::{is_local, is_loopback};
use crate::request::{OPENMETRICS, PROMETHEUS};
use crate::state::State;
use crate::stream::Stream;
use api::{Fault, Problem, ProblemType};
use bytes::Bytes;
use http_body::Body;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, HOST};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// Connections at a time.
pub(crate) const PLACES: usize = 16;

/// From the first byte of a connection to its last.
const TIME: Duration = Duration::from_secs(10);

/// Time for a request's headers.
const HEADER_TIME: Duration = Duration::from_secs(5);

/// Bytes of a request's headers; the least that the HTTP library takes.
const HEADER_BYTES: usize = 8 << 10;

/// For how long an exposition is given to the next client, too.
const FRESH: Duration = Duration::from_secs(1);

/// The last expositions: Prometheus' text and OpenMetrics.
#[derive(Default)]
pub(crate) struct Kept(Mutex<[Option<(Instant, Bytes)>; 2]>);

/// A listener on a loopback address.
///
/// # Errors
/// Another address, or one that the system refuses.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, BindError> {
    if !is_loopback(address.ip()) {
        return Err(BindError::NotLoopback(address));
    }
    let refused = |source| BindError::Listen { address, source };
    let listener = TcpListener::bind(address).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    Ok(listener)
}

/// Serves a connection: one request.
pub(crate) async fn serve(state: Arc<State>, kept: Arc<Kept>, stream: TcpStream, slot: ConnectionSlot) {
    let io = TokioIo::new(Stream::new(stream, TIME));
    let service = service_fn(|request| {
        let (state, kept) = (state.clone(), kept.clone());
        async move { Ok::<_, Infallible>(respond(&state, &kept, &request).await) }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_headers(state.limits.headers)
        .max_buf_size(HEADER_BYTES)
        .keep_alive(false)
        .half_close(false);
    let mut ending = state.ending.subscribe();
    let mut connection = pin!(timeout(TIME, builder.serve_connection(io, service)));
    tokio::select! {
        // Too slow, or no HTTP: the client's affair.
        _ = connection.as_mut() => {}
        () = slot.left() => {}
        _ = ending.wait_for(|ending| *ending) => {}
    }
}

async fn respond(state: &Arc<State>, kept: &Arc<Kept>, request: &Request<Incoming>) -> Response<Written> {
    let answer = answer(state, kept, request).await.unwrap_or_else(Answer::from);
    state.counts.answered(answer.status);
    answer.into_response()
}

async fn answer(
    state: &Arc<State>,
    kept: &Arc<Kept>,
    request: &Request<Incoming>,
) -> Result<Answer, Problem> {
    let asked = request.uri().path_and_query().map(|path| path.as_str());
    let plain = request.method() == Method::GET && request.body().is_end_stream();
    if !plain || asked != Some("/metrics") || !is_meant(request) {
        let detail = "here is nothing but `GET /metrics`, without a body, with `localhost` or a loopback address as `Host`";
        return Err(Problem::new(ProblemType::NotFound, detail));
    }
    let accept: Vec<_> = request.headers().get_all(ACCEPT).into_iter().collect();
    let accept: Vec<_> = accept.iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
    let content_type = match accept.as_slice() {
        [] => Some(PROMETHEUS),
        accept => accepted(&accept.join(","), &[PROMETHEUS, OPENMETRICS]),
    };
    let content_type = content_type.ok_or_else(|| {
        let fault = Fault::new("Accept", format!("allowed: what includes {PROMETHEUS} or {OPENMETRICS}"));
        one_fault(ProblemType::NotAcceptable, fault)
    })?;
    let text = kept.clone().text(state.clone(), content_type == OPENMETRICS).await?;
    Ok(Answer::bytes(200, content_type, text))
}

/// Whether a request was meant for this host by its sender.
fn is_meant(request: &Request<Incoming>) -> bool {
    let mut hosts = request.headers().get_all(HOST).into_iter();
    let host = match (hosts.next(), hosts.next()) {
        // HTTP/1.0 need not name one; a browser does.
        (None, _) => true,
        (Some(host), None) => host.to_str().is_ok_and(is_local),
        (Some(_), Some(_)) => false,
    };
    host && request.uri().authority().is_none_or(|authority| is_local(authority.as_str()))
}

impl Kept {
    /// The exposition, one second old at most. One is made at a time, and is made to its end when its client
    /// leaves.
    async fn text(self: Arc<Kept>, state: Arc<State>, open: bool) -> Result<Bytes, Problem> {
        let making = async move {
            let mut kept = self.0.lock().await;
            let kept = &mut kept[usize::from(open)];
            if let Some((_, text)) = kept.as_ref().filter(|(made, _)| made.elapsed() < FRESH) {
                return Ok(text.clone());
            }
            let exposition = if open { Exposition::OpenMetrics } else { Exposition::Prometheus };
            let made = tokio::task::spawn_blocking(move || metrics_text(&state, exposition, None)).await?;
            let text = Bytes::from(made);
            *kept = Some((Instant::now(), text.clone()));
            Ok(text)
        };
        let made: Result<Result<Bytes, tokio::task::JoinError>, _> = tokio::spawn(making).await;
        made.and_then(|made| made).map_err(|error| Problem::new(ProblemType::Internal, error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_addresses_are_listened_on() {
        for good in ["127.0.0.1:0", "127.1.2.3:0", "[::ffff:127.0.0.1]:1", "[::1]:0"] {
            let address: SocketAddr = good.parse().expect("an address");
            assert!(is_loopback(address.ip()), "{good}");
        }
        for wrong in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[fe80::1]:0", "[::ffff:10.0.0.1]:0"] {
            let told = listen(wrong.parse().expect("an address")).expect_err("is refused").to_string();
            assert!(told.contains("allowed: a loopback address"), "{told}");
        }
    }
}
