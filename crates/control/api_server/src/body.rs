//! Bodies: those that are read, as a whole and bounded, and those that are written, as a whole or line by
//! line.

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

/// So many bytes in units of room.
pub(crate) fn units(bytes: usize) -> usize {
    bytes.div_ceil(UNIT).max(1)
}

/// Room for bodies of so many bytes together, and for one of any size that is allowed.
pub(crate) fn room(bytes: usize, limits: &Limits) -> usize {
    units(bytes.max(limits.body_bytes))
}

/// A body that was read, and the room that it takes.
pub(crate) struct Read {
    pub bytes: Bytes,
    pub room: Option<OwnedSemaphorePermit>,
}

/// Reads a body of at most so many bytes, and of as many as any may have. It takes room as it comes: one that
/// is announced and does not come takes none.
pub(crate) async fn read(
    body: &mut Incoming,
    budget: &Arc<Semaphore>,
    most: Option<usize>,
    limits: &Limits,
) -> Result<Read, Problem> {
    let allowed = most.unwrap_or(usize::MAX).min(limits.body_bytes);
    let too_large = |found: String| {
        Problem::new(
            ProblemType::TooLarge,
            format!("found a body of {found}; allowed: at most {allowed} bytes"),
        )
    };
    let hint = body.size_hint();
    if hint.lower() > allowed as u64 {
        return Err(too_large(format!("{} bytes", hint.lower())));
    }
    match timeout(limits.body_time, collect(body, budget, allowed)).await {
        Ok(Ok(Some(read))) => Ok(read),
        Ok(Ok(None)) => Err(too_large("more than is allowed".to_owned())),
        Ok(Err(problem)) => Err(problem),
        Err(_) => {
            let seconds = limits.body_time.as_secs_f32();
            let detail = format!("the body did not come within {seconds} s, or there was no room for it");
            Err(Problem::new(ProblemType::Timeout, detail))
        }
    }
}

async fn collect(body: &mut Incoming, budget: &Arc<Semaphore>, most: usize) -> Result<Option<Read>, Problem> {
    let (mut whole, mut room) = (BytesMut::new(), None::<OwnedSemaphorePermit>);
    let broken = |error: hyper::Error| {
        Problem::new(ProblemType::Malformed, format!("the body is broken off or malformed: {error}"))
    };
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        if whole.len() + data.len() > most {
            return Ok(None);
        }
        whole.extend_from_slice(&data);
        let has = room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let more = u32::try_from(whole.len().div_ceil(UNIT).saturating_sub(has)).unwrap_or(u32::MAX);
        let ends = |_| Problem::new(ProblemType::Busy, "the daemon ends");
        let taken = budget.clone().acquire_many_owned(more).await.map_err(ends)?;
        match &mut room {
            Some(room) => room.merge(taken),
            None => room = Some(taken),
        }
    }
    Ok(Some(Read { bytes: whole.freeze(), room }))
}

impl Written {
    /// Nothing.
    pub const fn nothing() -> Written {
        Written::Whole(Bytes::new(), None)
    }

    /// Takes room for all of it, as long as the client has not taken it, or says how many bytes it has. One
    /// of any size has all the room. What comes bit by bit, and what is small, takes none.
    pub fn take_room(&mut self, budget: &Arc<Semaphore>, all: usize) -> Result<(), usize> {
        let Written::Whole(bytes, room) = self else { return Ok(()) };
        if bytes.len() <= PIECE {
            return Ok(());
        }
        let wanted = u32::try_from(units(bytes.len().min(all))).unwrap_or(u32::MAX);
        *room = Some(budget.clone().try_acquire_many_owned(wanted).map_err(|_| bytes.len())?);
        Ok(())
    }
}

/// For how long a body is listened to whose request has been refused already.
const LISTEN: Duration = Duration::from_secs(1);

/// Takes what is left of a body whose request has been refused, and forgets it: a client that still sends
/// hears the answer, and its next request. False when it is more than any request may have, or comes too
/// slowly: the connection is to be closed then.
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

/// Bytes of an answer that go to the connection at a time, which copies them: the rest stays in the answer,
/// and its room with it, until the client has taken those before.
const PIECE: usize = 64 << 10;

/// The body of an answer.
pub(crate) enum Written {
    /// What of it is still to go, and the room that it takes, if it takes some.
    Whole(Bytes, Option<OwnedSemaphorePermit>),
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
            Written::Whole(bytes, _) => {
                let piece = bytes.split_to(bytes.len().min(PIECE));
                Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece))))
            }
            Written::Lines(lines) => lines.poll_recv(cx).map(|line| line.map(|line| Ok(Frame::data(line)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Written::Whole(bytes, _) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Written::Whole(bytes, _) => SizeHint::with_exact(bytes.len() as u64),
            Written::Lines(_) => SizeHint::default(),
        }
    }
}
