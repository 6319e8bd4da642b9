//! Locks on objects: changes of one object are made one after the other, each from its beginning to its end,
//! in the order in which they came, but administrators' before those of tenants that wait; changes of
//! different objects run concurrently.

use api::{Kind, ObjectName};
use std::collections::{BTreeMap, BTreeSet};
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
    /// In the order of their turns; none overtakes another that wants the same.
    waiting: BTreeMap<Turn, BTreeSet<Claimed>>,
    next: u64,
}

/// Whether it is a tenant's, and its number in the order in which they came. However many changes of a
/// function a tenant asks for, an administrator's comes after the one that is under way.
type Turn = (bool, u64);

/// Held as long as the change lasts.
pub(crate) struct Claim {
    shared: Arc<Shared>,
    held: BTreeSet<Claimed>,
}

/// An entry among the waiting changes; removed when its request ends.
struct Waits<'a>(&'a Shared, Turn);

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether all of it is free, and wanted by nothing whose turn comes before.
    fn is_free(&self, wanted: &BTreeSet<Claimed>, turn: Turn) -> bool {
        wanted.is_disjoint(&self.held)
            && self.waiting.range(..turn).all(|(_, theirs)| theirs.is_disjoint(wanted))
    }
}

impl Claims {
    /// All of it, if nothing else changes any of it, or waits for it and comes before.
    pub fn try_take(&self, of_tenant: bool, wanted: BTreeSet<Claimed>) -> Result<Claim, BTreeSet<Claimed>> {
        let mut state = self.0.state();
        if !state.is_free(&wanted, (of_tenant, u64::MAX)) {
            return Err(wanted);
        }
        state.held.extend(wanted.iter().cloned());
        Ok(Claim { shared: self.0.clone(), held: wanted })
    }

    /// Waits until nothing else changes any of it.
    pub async fn take(&self, of_tenant: bool, wanted: impl IntoIterator<Item = Claimed>) -> Claim {
        let wanted = match self.try_take(of_tenant, wanted.into_iter().collect()) {
            Ok(claim) => return claim,
            Err(wanted) => wanted,
        };
        let shared = &self.0;
        let entry = {
            let mut state = shared.state();
            let turn = (of_tenant, state.next);
            state.next += 1;
            state.waiting.insert(turn, wanted.clone());
            Waits(shared, turn)
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
        self.0.state().waiting.remove(&self.1);
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
        let mut first = pin!(claims.take(true, set(&["a", "b"])));
        let held = poll(first.as_mut(), &mut cx).expect("free");
        let mut second = pin!(claims.take(true, set(&["b", "c"])));
        assert!(poll(second.as_mut(), &mut cx).is_none());
        // `c` is free, and wanted by the one before.
        let mut third = Box::pin(claims.take(true, set(&["c"])));
        assert!(poll(third.as_mut(), &mut cx).is_none());
        let mut other = pin!(claims.take(true, set(&["d"])));
        assert!(poll(other.as_mut(), &mut cx).is_some());
        drop(held);
        assert!(poll(third.as_mut(), &mut cx).is_none());
        let held = poll(second.as_mut(), &mut cx).expect("free");
        drop(held);
        let held = poll(third.as_mut(), &mut cx).expect("free");
        // One that goes away while it waits keeps nothing.
        let mut gone = Box::pin(claims.take(true, set(&["c"])));
        let mut last = pin!(claims.take(true, set(&["c"])));
        assert!(poll(gone.as_mut(), &mut cx).is_none() && poll(last.as_mut(), &mut cx).is_none());
        drop((gone, held));
        assert!(poll(last.as_mut(), &mut cx).is_some());
        assert!(claims.0.state().waiting.is_empty());
    }

    #[test]
    fn an_administrators_change_comes_before_those_of_tenants_that_wait() {
        let claims = Claims::default();
        let mut cx = Context::from_waker(Waker::noop());
        let held = claims.try_take(true, set(&["a"]).into_iter().collect()).expect("free");
        let mut waits: Vec<_> = (0..3).map(|_| Box::pin(claims.take(true, set(&["a"])))).collect();
        waits.iter_mut().for_each(|waits| assert!(waits.as_mut().poll(&mut cx).is_pending()));
        let mut first = pin!(claims.take(false, set(&["a", "b"])));
        assert!(first.as_mut().poll(&mut cx).is_pending(), "what is under way goes on");
        let mut second = pin!(claims.take(false, set(&["a"])));
        assert!(second.as_mut().poll(&mut cx).is_pending());
        drop(held);
        waits.iter_mut().for_each(|waits| assert!(waits.as_mut().poll(&mut cx).is_pending()));
        assert!(second.as_mut().poll(&mut cx).is_pending(), "in the order in which they came");
        assert!(first.as_mut().poll(&mut cx).is_ready(), "it is dropped at once");
        assert!(second.as_mut().poll(&mut cx).is_ready());
        assert!(waits[0].as_mut().poll(&mut cx).is_ready());
    }
}
