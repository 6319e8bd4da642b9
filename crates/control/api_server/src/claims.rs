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

/// A place among the changes that wait, in their order; given up when it is dropped. Nothing is held by it,
/// so that a tenant's change may stand in it until the tenant's turn comes, and an administrator's still
/// finds all of it free.
pub(crate) struct Place {
    shared: Arc<Shared>,
    turn: Turn,
    wanted: BTreeSet<Claimed>,
}

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

    /// A place behind all that wait now and do not come after.
    pub fn stand(&self, of_tenant: bool, wanted: impl IntoIterator<Item = Claimed>) -> Place {
        let wanted: BTreeSet<Claimed> = wanted.into_iter().collect();
        let mut state = self.0.state();
        let turn = (of_tenant, state.next);
        state.next += 1;
        state.waiting.insert(turn, wanted.clone());
        Place { shared: self.0.clone(), turn, wanted }
    }
}

impl Place {
    /// Waits until nothing else changes any of it, nor wants it and comes before.
    pub async fn is_first(&self) {
        loop {
            // Asked for before it is looked, so that nothing is missed.
            let mut freed = std::pin::pin!(self.shared.freed.notified());
            freed.as_mut().enable();
            if self.shared.state().is_free(&self.wanted, self.turn) {
                return;
            }
            freed.await;
        }
    }

    /// All of it, if it is still free; else the place again.
    pub fn take(self) -> Result<Claim, Place> {
        let mut state = self.shared.state();
        if !state.is_free(&self.wanted, self.turn) {
            drop(state);
            return Err(self);
        }
        state.held.extend(self.wanted.iter().cloned());
        drop(state);
        Ok(Claim { shared: self.shared.clone(), held: self.wanted.clone() })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.state().waiting.remove(&self.turn);
        self.shared.freed.notify_waiters();
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

    async fn take(claims: &Claims, of_tenant: bool, names: &[&str]) -> Claim {
        let mut place = claims.stand(of_tenant, set(names));
        loop {
            place.is_first().await;
            match place.take() {
                Ok(claim) => return claim,
                Err(again) => place = again,
            }
        }
    }

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
        let mut first = pin!(take(&claims, true, &["a", "b"]));
        let held = poll(first.as_mut(), &mut cx).expect("free");
        let mut second = pin!(take(&claims, true, &["b", "c"]));
        assert!(poll(second.as_mut(), &mut cx).is_none());
        // `c` is free, and wanted by the one before.
        let mut third = Box::pin(take(&claims, true, &["c"]));
        assert!(poll(third.as_mut(), &mut cx).is_none());
        let mut other = pin!(take(&claims, true, &["d"]));
        assert!(poll(other.as_mut(), &mut cx).is_some());
        drop(held);
        assert!(poll(third.as_mut(), &mut cx).is_none());
        let held = poll(second.as_mut(), &mut cx).expect("free");
        drop(held);
        let held = poll(third.as_mut(), &mut cx).expect("free");
        // One that goes away while it waits keeps nothing.
        let mut gone = Box::pin(take(&claims, true, &["c"]));
        let mut last = pin!(take(&claims, true, &["c"]));
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
        let mut waits: Vec<_> = (0..3).map(|_| Box::pin(take(&claims, true, &["a"]))).collect();
        waits.iter_mut().for_each(|waits| assert!(waits.as_mut().poll(&mut cx).is_pending()));
        let mut first = pin!(take(&claims, false, &["a", "b"]));
        assert!(first.as_mut().poll(&mut cx).is_pending(), "what is under way goes on");
        let mut second = pin!(take(&claims, false, &["a"]));
        assert!(second.as_mut().poll(&mut cx).is_pending());
        drop(held);
        waits.iter_mut().for_each(|waits| assert!(waits.as_mut().poll(&mut cx).is_pending()));
        assert!(second.as_mut().poll(&mut cx).is_pending(), "in the order in which they came");
        assert!(first.as_mut().poll(&mut cx).is_ready(), "it is dropped at once");
        assert!(second.as_mut().poll(&mut cx).is_ready());
        assert!(waits[0].as_mut().poll(&mut cx).is_ready());
    }

    #[test]
    fn a_place_keeps_nothing_from_an_administrator_and_its_order_among_tenants() {
        let claims = Claims::default();
        let mut cx = Context::from_waker(Waker::noop());
        let tenants = claims.stand(true, set(&["a"]));
        let next = claims.stand(true, set(&["a"]));
        assert!(pin!(tenants.is_first()).poll(&mut cx).is_ready());
        // Its turn has not come yet.
        let held = pin!(take(&claims, false, &["a"])).poll(&mut cx);
        assert!(held.is_ready());
        let Err(tenants) = tenants.take() else { panic!("an administrator has it") };
        assert!(pin!(tenants.is_first()).poll(&mut cx).is_pending());
        drop(held);
        assert!(pin!(tenants.is_first()).poll(&mut cx).is_ready());
        let Err(next) = next.take() else { panic!("another comes before") };
        let held = tenants.take();
        assert!(held.is_ok() && pin!(next.is_first()).poll(&mut cx).is_pending());
        drop(held);
        assert!(next.take().is_ok() && claims.0.state().waiting.is_empty());
    }
}
