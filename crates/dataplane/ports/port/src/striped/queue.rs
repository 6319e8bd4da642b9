//! Packets on their way from one port of a pair to the other.

use super::PACKETS;
use crate::Wake;
use crate::event::Event;
use packet_memory::Packet;
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use telemetry::clock::Nanos;

/// At most [`PACKETS`] packets, in order.
pub(super) struct Queue {
    state: Mutex<State>,
    /// Signalled when packets come while their taker sleeps.
    event: Event,
}

#[derive(Default)]
struct State {
    packets: VecDeque<Packet>,
    /// Their taker found none and may sleep.
    sleeps: bool,
    is_signalled: bool,
}

impl Queue {
    pub(super) fn new() -> io::Result<Queue> {
        Ok(Queue { state: Mutex::default(), event: Event::new()? })
    }

    /// Packets that there is room for.
    pub(super) fn room(&self) -> usize {
        PACKETS.saturating_sub(self.len())
    }

    /// Packets in it.
    pub(super) fn len(&self) -> usize {
        self.state().packets.len()
    }

    /// Puts in what there is room for, the first packets first; the rest stays.
    pub(super) fn put(&self, packets: &mut Vec<Packet>) {
        if packets.is_empty() {
            return;
        }
        let mut state = self.state();
        let count = packets.len().min(PACKETS.saturating_sub(state.packets.len()));
        state.packets.extend(packets.drain(..count));
        if std::mem::take(&mut state.sleeps) {
            state.is_signalled = true;
            self.event.signal();
        }
    }

    /// Takes out the first packets.
    pub(super) fn take(&self, budget: usize, out: &mut Vec<Packet>) {
        let mut state = self.state();
        let count = budget.min(state.packets.len());
        out.extend(state.packets.drain(..count));
        state.sleeps = false;
        if std::mem::take(&mut state.is_signalled) {
            self.event.clear();
        }
    }

    /// What a taker waits for that has nothing else to do.
    pub(super) fn wake(&self) -> Wake<'_> {
        let mut state = self.state();
        state.sleeps = state.packets.is_empty();
        let at = (!state.sleeps).then_some(Nanos(0));
        Wake { readable: Some(self.event.as_fd()), at, ..Wake::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
