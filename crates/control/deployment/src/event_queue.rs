//! What workers tell on its way to the thread that handles it, bounded in bytes.
//!
//! A worker never waits: log lines and findings for which there is no room are lost and counted, by function.
//! What happens rarely and matters (faults, restarts, ports) always has room: delays between restarts bound
//! how often it comes.

use engine::Event;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that may wait of one function, unless a single event is larger.
const OF_FUNCTION: usize = 4 << 20;
/// Bytes that may wait of all functions; a function of which nothing waits has room beyond it.
const OF_ALL: usize = 64 << 20;
/// What a text takes beside its bytes.
const OVERHEAD: usize = 64;

/// How much waits. Clones count the same events.
///
/// A sender asks [`admit`](EventQueue::admit) before it hands an event on, the receiver tells
/// [`taken`](EventQueue::taken).
#[derive(Clone, Debug, Default)]
pub struct EventQueue(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    functions: HashMap<String, Waiting>,
    bytes: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    bytes: usize,
    lost: u64,
}

impl EventQueue {
    /// Whether there is room for an event, which is counted then; else it is counted as lost.
    pub fn admit(&self, event: &Event) -> bool {
        let Some((function, size)) = bounded(event) else { return true };
        let mut state = self.lock();
        let all = state.bytes + size;
        let waiting = match state.functions.get_mut(function) {
            Some(waiting) => waiting,
            None => state.functions.entry(function.to_owned()).or_default(),
        };
        if waiting.bytes > 0 && (waiting.bytes + size > OF_FUNCTION || all > OF_ALL) {
            waiting.lost += count(event);
            return false;
        }
        waiting.bytes += size;
        state.bytes = all;
        true
    }

    /// An event was taken out; how many events of its function were lost since this was last asked.
    pub fn taken(&self, event: &Event) -> u64 {
        let Some((function, size)) = bounded(event) else { return 0 };
        let mut state = self.lock();
        state.bytes = state.bytes.saturating_sub(size);
        let Some(waiting) = state.functions.get_mut(function) else { return 0 };
        waiting.bytes = waiting.bytes.saturating_sub(size);
        let lost = std::mem::take(&mut waiting.lost);
        if waiting.bytes == 0 {
            state.functions.remove(function);
        }
        lost
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Events that one message holds.
fn count(event: &Event) -> u64 {
    match event {
        Event::Found { events, .. } => events.lines.len() as u64 + events.lost,
        _ => 1,
    }
}

/// The function of an event of which there may be too many, and about how many bytes it takes.
fn bounded(event: &Event) -> Option<(&str, usize)> {
    match event {
        Event::Log { instance, line } => Some((instance, line.text.len() + OVERHEAD)),
        Event::Found { instance, events } => {
            let lines: usize = events.lines.iter().map(|line| line.len() + OVERHEAD).sum();
            Some((instance, lines + OVERHEAD))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use guest::Events;
    use telemetry::clock::Nanos;

    fn found(function: &str) -> Event {
        let lines = vec!["x".repeat(1 << 20)];
        Event::Found { instance: function.to_owned(), events: Events { lines, lost: 1 } }
    }

    #[test]
    fn what_finds_no_room_is_counted_and_room_comes_back() {
        let queue = EventQueue::default();
        let admitted = (0..10).filter(|_| queue.admit(&found("ids"))).count();
        assert_eq!(admitted, 3, "4 MiB of 1 MiB and a little each");
        assert!(queue.admit(&found("other")), "one function leaves room to the others");
        let fault =
            Event::Fault { instance: "ids".into(), reason: "it trapped".into(), retry_after: Nanos(1) };
        assert!(queue.admit(&fault) && queue.taken(&fault) == 0);
        assert_eq!((queue.taken(&found("ids")), queue.taken(&found("ids"))), (7 * 2, 0));
        assert!(queue.admit(&found("ids")) && queue.admit(&found("ids")) && !queue.admit(&found("ids")));
    }

    #[test]
    fn many_functions_together_are_bounded_and_each_has_room_for_one() {
        let queue = EventQueue::default();
        let functions: Vec<String> = (0..40).map(|n| format!("f{n}")).collect();
        let twice = |name: &String| (queue.admit(&found(name)), queue.admit(&found(name)));
        let admitted: Vec<_> = functions.iter().map(twice).collect();
        assert!(admitted.iter().all(|(first, _)| *first));
        assert_eq!(admitted.iter().filter(|(_, second)| *second).count(), 31);
        let lost: u64 = functions.iter().map(|name| queue.taken(&found(name))).sum();
        assert_eq!(lost, 9 * 2);
    }
}
