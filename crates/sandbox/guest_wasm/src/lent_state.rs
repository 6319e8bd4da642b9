// UNSAFETY: the host's state of a preemptible guest is reached both from inside its suspended call and from
// outside. Miri runs no compiled code and cannot map the pool that the state holds;
// `tests/sandbox/preemption.rs` runs it.
#![allow(unsafe_code)]
//! The host's state of a guest that can be switched out, and which code may touch it when.

use crate::program::{Linked, Program};
use crate::state::{GuestState, HostState};
use std::cell::UnsafeCell;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use wasmtime::{Store, TypedFunc, WasmParams, WasmResults};

/// One of the two handles on the state of a preemptible guest: one lies in its store, which a suspended call
/// borrows as a whole, the other is its owner's.
///
/// They are used in turns: the store's only by host calls, which end before the call can be switched out and
/// run only inside a call of the owner's that has no reference into the state; the owner's at all other
/// times.
pub(crate) struct LentState(Arc<UnsafeCell<GuestState>>);

// SAFETY: both handles belong to one guest and go from thread to thread with it; the state itself may go.
unsafe impl Send for LentState {}

impl LentState {
    /// The owner's handle and the store's.
    pub(crate) fn pair(state: GuestState) -> (LentState, LentState) {
        #[expect(
            clippy::arc_with_non_send_sync,
            reason = "the handles are sent, see above; one count serves both"
        )]
        let state = Arc::new(UnsafeCell::new(state));
        (LentState(state.clone()), LentState(state))
    }
}

impl HostState for LentState {
    const IS_PREEMPTIBLE: bool = true;

    fn state(&self) -> &GuestState {
        // SAFETY: the handles are used in turns, see the type.
        unsafe { &*self.0.get() }
    }

    fn state_mut(&mut self) -> &mut GuestState {
        // SAFETY: as above, and the handle is borrowed exclusively.
        unsafe { &mut *self.0.get() }
    }

    fn linked(program: &Program) -> &Linked<LentState> {
        &program.preemptible
    }

    /// On the fibre, as all calls of a preemptible guest, so that it is there before packets are. No slice
    /// has been set, so the call is not switched out.
    fn call<P: WasmParams + Sync, R: WasmResults + Sync>(
        store: &mut Store<LentState>,
        function: &TypedFunc<P, R>,
        params: P,
    ) -> wasmtime::Result<R> {
        match pin!(function.call_async(store, params)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result,
            Poll::Pending => wasmtime::bail!("switched out in a call that is not one with packets"),
        }
    }
}
