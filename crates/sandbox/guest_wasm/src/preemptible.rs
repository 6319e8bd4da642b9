//! A running instance whose calls with packets can be switched out and go on later.
//!
//! Each has a stack of its own, a fibre, on which its functions run. The life of a call with packets:
//! 1. [`Guest::process`] writes the records and begins the call. The call takes the instance's store with it.
//! 2. When a stretch has lasted for the slice, the [watchdog](crate::watchdog) says so; guest code notices at
//!    its next safepoint, and control comes back: [`Progress::Suspended`].
//! 3. The next [`Guest::process`] goes on exactly there, for another slice, as often as it takes. The time of
//!    the stretches, and of nothing else, counts towards `max_call`; a call that has used it up is stopped as
//!    any other.
//! 4. When the function returns, its answers are read into the packets' records, and the store is back.
//!
//! To drop or empty a suspended instance ends its call: the guest's frames are left without running any more
//! of its code, then the store goes, then the shell is cleared for the next one.
//!
//! A suspended call may go on on another thread: nothing on its stack belongs to a thread, the time of a
//! stretch is watched by the thread that runs it, and only one thread at a time has the guest.
//!
//! Limits: only guest code notices the end of a slice, at its next safepoint ([`image::with_safepoints`]). A
//! host call runs on, which copies for microseconds.

use crate::body::{Body, limits};
use crate::error::InstanceError;
use crate::lent_state::LentState;
use crate::program::Program;
use crate::settings::{InstanceSettings, Slice};
use crate::state::{GuestState, HostState};
use crate::watchdog::{self, Spent, Terms};
use guest::{
    Frozen, Guest, GuestFault, HandOutFault, Kept, NotFrozen, Offer, Progress, SaveError, SlotConfig,
};
use packet_memory::{Packet, Pool};
use snapshot::Saved;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, Waker};
use telemetry::clock::{Cycles, Moment, Nanos};

/// A call in progress: it has the store, and gives it back with its result.
type Call = Pin<Box<dyn Future<Output = (Box<Body<LentState>>, wasmtime::Result<()>)> + Send>>;

enum Stage {
    Ready(Box<Body<LentState>>),
    Suspended {
        call: Call,
        /// Packets in the batch.
        count: usize,
        /// Time that the call has had.
        spent: Spent,
    },
    /// Its call was ended; nothing of it runs any more.
    Ended,
}

/// A function running in a sandbox, on a stack of its own.
pub struct PreemptibleGuest {
    /// Before the state, so that a suspended call is gone when the state goes.
    stage: Stage,
    state: LentState,
    slice: Cycles,
    /// The same, as it was asked for.
    kept_slice: Slice,
    max_call: Cycles,
    limit: Nanos,
    /// The terms of the stretch in progress.
    stretch: Terms,
    /// Bytes of private memory, as last seen.
    bytes: usize,
    _fibre: Counted,
}

/// Counts as one stack while it lives.
struct Counted(Arc<Program>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.sandbox.fibres.fetch_sub(1, Relaxed);
    }
}

impl PreemptibleGuest {
    /// Makes an instance and starts it.
    ///
    /// # Errors
    /// [`InstanceError`]; everything taken is given back.
    pub fn new(
        program: &Arc<Program>,
        pool: &Arc<Pool>,
        settings: InstanceSettings,
        slice: Slice,
    ) -> Result<PreemptibleGuest, InstanceError> {
        let limits = limits(&settings);
        let state = GuestState::new(program.facts(), pool, settings);
        PreemptibleGuest::around(program, state, slice, |lent| Body::start(program, pool, lent, limits))
    }

    /// A guest around the body that `make` makes with one of the handles on the state.
    pub(crate) fn around<E>(
        program: &Arc<Program>,
        state: GuestState,
        slice: Slice,
        make: impl FnOnce(LentState) -> Result<Body<LentState>, E>,
    ) -> Result<PreemptibleGuest, E> {
        program.sandbox.fibres.fetch_add(1, Relaxed);
        let fibre = Counted(program.clone());
        let (state, lent) = LentState::pair(state);
        let body = make(lent)?;
        let (clock, limit) = (watchdog::clock(), body.limits.0);
        let max_call = clock.cycles(limit);
        let stretch = Terms::new(body.calls.reach(), max_call);
        Ok(PreemptibleGuest {
            stage: Stage::Ready(Box::new(body)),
            state,
            slice: clock.cycles(slice.0),
            kept_slice: slice,
            max_call,
            limit,
            stretch,
            bytes: 0,
            _fibre: fibre,
        })
    }

    /// Bytes of private memory now; `None` while a call is suspended, whose they are.
    pub fn private_bytes(&self) -> Option<usize> {
        match &self.stage {
            Stage::Ready(body) => Some(body.private_bytes()),
            Stage::Suspended { .. } | Stage::Ended => None,
        }
    }

    /// Log lines that found no room.
    pub fn log_lines_lost(&self) -> u64 {
        self.state.state().lines_lost
    }

    fn ready(&mut self) -> Result<&mut Body<LentState>, GuestFault> {
        let why = "a call of it is suspended and has to go on first, or was ended";
        self.quiet().map_err(|_| GuestFault::Contract(why.to_owned()))
    }

    /// The body, when it is between two calls.
    fn quiet(&mut self) -> Result<&mut Body<LentState>, SaveError> {
        match &mut self.stage {
            Stage::Ready(body) => Ok(body),
            Stage::Suspended { .. } => Err(SaveError::Suspended),
            Stage::Ended => Err(SaveError::Ended),
        }
    }

    /// A call with these packets, which takes the body with it.
    fn begin(mut body: Box<Body<LentState>>, packets: &[Packet], now: Nanos) -> Call {
        body.show(packets);
        let count = packets.len() as u32;
        Box::pin(async move {
            let result = body.process.call_async(&mut body.store, (count, now.0)).await;
            (body, result)
        })
    }
}

impl Guest for PreemptibleGuest {
    /// Lets a call run for a slice, or until it has ended.
    fn process(&mut self, packets: &mut [Packet], now: Moment) -> Result<Progress, GuestFault> {
        let (mut call, before) = match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Ready(body) => (PreemptibleGuest::begin(body, packets, now.nanos), Spent::default()),
            Stage::Suspended { call, count, spent } if count == packets.len() => (call, spent),
            _ => return Err(GuestFault::Contract("its call is of another batch, or was ended".to_owned())),
        };
        self.kept_mut().now = now.nanos;
        self.stretch.stretch(self.slice, self.max_call, before);
        let stretch = watchdog::begin(&self.stretch, now.cycles);
        let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let (spent, overdue) = stretch.end_stretch(before);
        let Poll::Ready((mut body, result)) = polled else {
            self.stage = Stage::Suspended { call, count: packets.len(), spent };
            return Ok(Progress::Suspended);
        };
        let result = body.ended(overdue, result, self.limit);
        let result = result.map(|()| Progress::Done(body.take_over(packets)));
        if body.limits.0 != self.limit {
            body.set_limits((self.limit, body.limits.1));
        }
        self.stage = Stage::Ready(body);
        result
    }

    fn suspended(&self) -> bool {
        matches!(self.stage, Stage::Suspended { .. })
    }

    fn observe(&mut self, packets: &[Packet], now: Moment) -> Result<(), GuestFault> {
        self.ready()?.observe(packets, now)
    }

    fn kept(&self) -> &Kept {
        &self.state.state().kept
    }

    fn kept_mut(&mut self) -> &mut Kept {
        &mut self.state.state_mut().kept
    }

    fn offer(&mut self, offer: &Arc<Offer>) -> bool {
        self.kept_mut().offer(offer)
    }

    fn timer(&mut self, now: Moment) -> Result<(), GuestFault> {
        self.ready()?.timer(now)
    }

    fn finish(&mut self, now: Moment) -> Result<bool, GuestFault> {
        self.ready()?.finish(now)
    }

    fn memory(&mut self) -> usize {
        // In the middle of a call it is what it was when it could last be looked at.
        if let Ok(body) = self.quiet() {
            self.bytes = body.private_bytes();
        }
        self.bytes
    }

    fn memory_place(&mut self) -> usize {
        self.quiet().map_or(0, |body| body.private_place())
    }

    fn surrender(&mut self, out: &mut Vec<Packet>) {
        if let Stage::Suspended { .. } = self.stage {
            self.stage = Stage::Ended;
        }
        self.kept_mut().surrender(out);
    }

    fn report(&mut self, now: Moment) -> Result<Option<String>, GuestFault> {
        self.ready()?.report(now)
    }

    fn export_state(&mut self) -> Result<Option<Vec<u8>>, GuestFault> {
        self.ready()?.export_state()
    }

    fn import_state(&mut self, state: Vec<u8>) -> Result<bool, GuestFault> {
        self.ready()?.import_state(state)
    }

    fn hand_out(&mut self, limit: Nanos) -> Result<Option<Vec<u8>>, HandOutFault> {
        match self.ready() {
            Ok(body) => body.hand_out(limit),
            Err(fault) => Err(HandOutFault { fault, finished: false }),
        }
    }

    fn hand_in(&mut self, state: Vec<u8>, limit: Nanos) -> Result<bool, GuestFault> {
        self.ready()?.hand_in(state, limit)
    }

    fn set_limits(&mut self, max_call: Nanos, slots: SlotConfig) {
        // A call that is switched out keeps the body; its time is counted here.
        (self.max_call, self.limit) = (watchdog::clock().cycles(max_call), max_call);
        if let Stage::Ready(body) = &mut self.stage {
            body.set_limits((max_call, body.limits.1));
        }
        self.state.state_mut().set_slots(slots);
    }

    fn save(&mut self) -> Result<Saved<'static>, SaveError> {
        self.quiet()?.save()
    }

    fn freeze(self: Box<Self>) -> Result<Box<dyn Frozen>, NotFrozen> {
        let mut guest = self;
        let slice = guest.kept_slice;
        match guest.quiet().and_then(|body| body.freeze(Some(slice))) {
            Ok(frozen) => Ok(Box::new(frozen)),
            Err(error) => Err(NotFrozen { guest, error }),
        }
    }
}

impl std::fmt::Debug for PreemptibleGuest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PreemptibleGuest")
            .field("facts", &self.state.state().facts)
            .field("suspended", &self.suspended())
            .finish_non_exhaustive()
    }
}
