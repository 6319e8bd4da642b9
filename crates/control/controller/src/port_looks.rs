//! Looks at ports because of containers: when their interfaces have come or gone, or another guest is active.

use engine::Fleet;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// From one look at ports because of containers to the next, on average: for each all workers stop, and look
/// after all of their ports.
const LOOKS_APART: Duration = Duration::from_millis(100);
/// So many looks need not wait for the ones before them: a container that is started again, say, is two.
const LOOKS_AT_ONCE: u32 = 8;

/// What is called when interfaces of a container have come or gone. Ports are looked at soon: at once, unless
/// that was done a moment ago. It does not wait.
///
/// # Errors
/// The system has no thread for it.
pub fn port_looks(fleet: Arc<Fleet>) -> std::io::Result<impl Fn() + Send + Sync> {
    let look = move || {
        // Workers that have stopped have no ports any more.
        let _ = fleet.change(|change| change.look_at_ports());
    };
    let mut pauses = Pauses::default();
    coalesced(look, move || std::thread::sleep(pauses.after(Instant::now())))
}

/// How long is paused after each look (the generic cell rate algorithm).
#[derive(Default)]
struct Pauses {
    /// When all looks up to now would have been, each [`LOOKS_APART`] from the one before.
    due: Option<Instant>,
}

impl Pauses {
    /// The pause after a look that was now.
    fn after(&mut self, now: Instant) -> Duration {
        let due = self.due.map_or(now, |due| due.max(now)) + LOOKS_APART;
        self.due = Some(due);
        due.duration_since(now).saturating_sub(LOOKS_APART * LOOKS_AT_ONCE)
    }
}

/// A call that has `work` done by a thread of its own, which pauses after each time: calls meanwhile are one.
fn coalesced(
    work: impl Fn() + Send + 'static,
    mut pause: impl FnMut() + Send + 'static,
) -> std::io::Result<impl Fn() + Send + Sync> {
    let (ask, asked) = sync_channel(1);
    std::thread::Builder::new().name("container-ports".into()).spawn(move || {
        while asked.recv().is_ok() {
            work();
            pause();
        }
    })?;
    Ok(move || {
        // One that waits already is for this as well.
        let _ = ask.try_send(());
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn any_number_of_calls_during_a_pause_are_one() {
        let (done, times) = channel();
        let (go, pause) = channel::<()>();
        let work = move || {
            let _ = done.send(());
        };
        let wait = move || {
            let _ = pause.recv();
        };
        let call = coalesced(work, wait).expect("a thread");
        let patience = Duration::from_secs(20);
        call();
        assert_eq!(times.recv_timeout(patience), Ok(()), "the first one at once");
        (0..1_000).for_each(|_| call());
        assert!(times.try_recv().is_err());
        go.send(()).expect("it pauses");
        assert_eq!(times.recv_timeout(patience), Ok(()), "none is forgotten");
        go.send(()).expect("it pauses");
        call();
        assert_eq!(times.recv_timeout(patience), Ok(()));
        drop(go);
        assert!(times.try_recv().is_err());
    }

    #[test]
    fn a_few_looks_wait_for_nothing_and_many_are_so_far_apart() {
        let mut pauses = Pauses::default();
        let mut now = Instant::now();
        for look in 0..LOOKS_AT_ONCE {
            assert_eq!(pauses.after(now), Duration::ZERO, "look {look}");
        }
        for _ in 0..3 {
            let pause = pauses.after(now);
            assert_eq!(pause, LOOKS_APART);
            now += pause;
        }
        // What was not used for a while is there again, and no more than that.
        now += LOOKS_APART * 2;
        let soon = (0..4).map(|_| pauses.after(now)).collect::<Vec<_>>();
        assert_eq!(soon, [Duration::ZERO, Duration::ZERO, LOOKS_APART, LOOKS_APART * 2]);
        now += LOOKS_APART * LOOKS_AT_ONCE * 9;
        let soon = (0..=LOOKS_AT_ONCE).map(|_| pauses.after(now)).filter(Duration::is_zero).count();
        assert_eq!(soon, LOOKS_AT_ONCE as usize);
    }
}
