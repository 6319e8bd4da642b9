//! Locks on objects: changes of one object are made one after the other, each from its beginning to its end,
//! in the order in which they came; changes of different objects run concurrently.

use api::{Kind, ObjectName};
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// What one change at a time may hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claimed {
    Object(ObjectName),
    /// A snapshot, by its name.
    Snapshot(String),
    /// The number of a tenant's snapshots.
    SnapshotsOf(String),
}

impl Claimed {
    pub fn function(name: &str) -> Claimed {
        Claimed::Object(ObjectName::new(Kind::Function, name))
    }
}

/// See the module's documentation.
#[derive(Clone, Default)]
pub(crate) struct Claims(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Something is free again.
    freed: Notify,
}

#[derive(Default)]
struct State {
    held: BTreeSet<Claimed>,
    /// In the order in which they came; none overtakes another that wants the same.
    waiting: VecDeque<(u64, BTreeSet<Claimed>)>,
    next: u64,
}

/// Held as long as the change lasts.
pub(crate) struct Claim {
    shared: Arc<Shared>,
    held: BTreeSet<Claimed>,
}

/// An entry among the waiting changes; removed when its request ends.
struct Waits<'a>(&'a Shared, u64);

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether all of it is free, and wanted by nothing that came before `number`.
    fn is_free(&self, wanted: &BTreeSet<Claimed>, number: u64) -> bool {
        let before = self.waiting.iter().take_while(|(other, _)| *other < number);
        wanted.is_disjoint(&self.held) && before.into_iter().all(|(_, theirs)| theirs.is_disjoint(wanted))
    }
}

impl Claims {
    /// All of it, if nothing else changes any of it, or waits for it.
    pub fn try_take(&self, wanted: BTreeSet<Claimed>) -> Result<Claim, BTreeSet<Claimed>> {
        let mut state = self.0.state();
        if !state.is_free(&wanted, u64::MAX) {
            return Err(wanted);
        }
        state.held.extend(wanted.iter().cloned());
        Ok(Claim { shared: self.0.clone(), held: wanted })
    }

    /// Waits until nothing else changes any of it.
    pub async fn take(&self, wanted: impl IntoIterator<Item = Claimed>) -> Claim {
        let wanted = match self.try_take(wanted.into_iter().collect()) {
            Ok(claim) => return claim,
            Err(wanted) => wanted,
        };
        let shared = &self.0;
        let entry = {
            let mut state = shared.state();
            let number = state.next;
            state.next += 1;
            state.waiting.push_back((number, wanted.clone()));
            Waits(shared, number)
        };
        loop {
            // Asked for before it is looked, so that nothing is missed.
            let mut freed = std::pin::pin!(shared.freed.notified());
            freed.as_mut().enable();
            {
                let mut state = shared.state();
                if state.is_free(&wanted, entry.1) {
                    state.held.extend(wanted.iter().cloned());
                    drop(state);
                    return Claim { shared: shared.clone(), held: wanted };
                }
            }
            freed.await;
        }
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.state().waiting.retain(|(number, _)| *number != self.1);
        self.0.freed.notify_waiters();
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.held.retain(|held| !self.held.contains(held));
        drop(state);
        self.shared.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn set(names: &[&str]) -> Vec<Claimed> {
        names.iter().map(|name| Claimed::function(name)).collect()
    }

    #[test]
    fn one_changes_at_a_time_in_the_order_of_asking_and_others_do_not_wait() {
        let claims = Claims::default();
        let mut cx = Context::from_waker(Waker::noop());
        let poll = |mut take: std::pin::Pin<&mut dyn Future<Output = Claim>>, cx: &mut Context<'_>| match take
            .as_mut()
            .poll(cx)
        {
            std::task::Poll::Ready(claim) => Some(claim),
            std::task::Poll::Pending => None,
        };
        let mut first = pin!(claims.take(set(&["a", "b"])));
        let held = poll(first.as_mut(), &mut cx).expect("free");
        let mut second = pin!(claims.take(set(&["b", "c"])));
        assert!(poll(second.as_mut(), &mut cx).is_none());
        // `c` is free, and wanted by the one before.
        let mut third = Box::pin(claims.take(set(&["c"])));
        assert!(poll(third.as_mut(), &mut cx).is_none());
        let mut other = pin!(claims.take(set(&["d"])));
        assert!(poll(other.as_mut(), &mut cx).is_some());
        drop(held);
        assert!(poll(third.as_mut(), &mut cx).is_none());
        let held = poll(second.as_mut(), &mut cx).expect("free");
        drop(held);
        let held = poll(third.as_mut(), &mut cx).expect("free");
        // One that goes away while it waits keeps nothing.
        let mut gone = Box::pin(claims.take(set(&["c"])));
        let mut last = pin!(claims.take(set(&["c"])));
        assert!(poll(gone.as_mut(), &mut cx).is_none() && poll(last.as_mut(), &mut cx).is_none());
        drop((gone, held));
        assert!(poll(last.as_mut(), &mut cx).is_some());
        assert!(claims.0.state().waiting.is_empty());
    }
}
