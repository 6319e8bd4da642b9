//! Bodies: those that are read, as a whole and bounded, and those that are written, as a whole or line by line.

use crate::settings::Limits;
use api::{Problem, ProblemType};
use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;

/// What is counted of [`Limits::all_bodies_bytes`].
const UNIT: usize = 1 << 10;

/// A place among all bodies, of which there may be so many bytes.
pub(crate) fn budget(limits: &Limits) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(limits.all_bodies_bytes.max(limits.body_bytes).div_ceil(UNIT)))
}

/// A body that was read; as long as it is there, it counts.
pub(crate) struct Read {
    pub bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

/// Reads a body.
pub(crate) async fn read(
    body: &mut Incoming,
    budget: &Arc<Semaphore>,
    limits: &Limits,
) -> Result<Read, Problem> {
    let too_large = |found: String| {
        let allowed = limits.body_bytes;
        Problem::new(
            ProblemType::TooLarge,
            format!("found a body of {found}; allowed: at most {allowed} bytes"),
        )
    };
    let hint = body.size_hint();
    if hint.lower() > limits.body_bytes as u64 {
        return Err(too_large(format!("{} bytes", hint.lower())));
    }
    let most = hint.upper().map_or(limits.body_bytes, |upper| upper.min(limits.body_bytes as u64) as usize);
    let all = async {
        let units = u32::try_from(most.div_ceil(UNIT)).unwrap_or(u32::MAX);
        let room = budget
            .clone()
            .acquire_many_owned(units)
            .await
            .map_err(|_| Problem::new(ProblemType::Busy, "the daemon ends"))?;
        Ok::<_, Problem>((room, collect(body, limits.body_bytes).await))
    };
    match timeout(limits.body_time, all).await {
        Ok(Ok((room, Ok(Some(bytes))))) => Ok(Read { bytes, _room: room }),
        Ok(Ok((_, Ok(None)))) => Err(too_large("more than is allowed".to_owned())),
        Ok(Ok((_, Err(error)))) => {
            Err(Problem::new(ProblemType::Malformed, format!("the body is broken off or malformed: {error}")))
        }
        Ok(Err(problem)) => Err(problem),
        Err(_) => {
            let seconds = limits.body_time.as_secs_f32();
            Err(Problem::new(ProblemType::Timeout, format!("the body did not come within {seconds} s")))
        }
    }
}

async fn collect(body: &mut Incoming, most: usize) -> Result<Option<Bytes>, hyper::Error> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            if whole.len() + data.len() > most {
                return Ok(None);
            }
            whole.extend_from_slice(&data);
        }
    }
    Ok(Some(whole.freeze()))
}

/// For how long a body is listened to whose request has been refused already.
const LISTEN: Duration = Duration::from_secs(1);

/// Takes what is left of a body whose request has been refused, and forgets it: a client that still sends hears the answer, and its
/// next request. False when it is more than any request may have, or comes too slowly: the connection is to be closed then.
pub(crate) async fn drain(body: &mut Incoming, limits: &Limits) -> bool {
    let enough = body.size_hint().lower() <= limits.body_bytes as u64;
    let all = async {
        let mut heard = 0;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            heard += frame.data_ref().map_or(0, Bytes::len);
            if heard > limits.body_bytes {
                return false;
            }
        }
        true
    };
    enough && timeout(LISTEN, all).await.unwrap_or(false)
}

/// The body of an answer.
pub(crate) enum Written {
    Whole(Option<Bytes>),
    /// Comes as it comes; the sender waits when the client does not take it.
    Lines(mpsc::Receiver<Bytes>),
}

impl Body for Written {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Written::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Written::Lines(lines) => lines.poll_recv(cx).map(|line| line.map(|line| Ok(Frame::data(line)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Written::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Written::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Written::Lines(_) => SizeHint::default(),
        }
    }
}
