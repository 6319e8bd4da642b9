//! Bounds on connections. Each sort of clients has a group of connection slots of its own, so that none takes
//! slots from another:
//! 1. The administrators' socket has one that nothing else uses, and administrators that come by TLS have
//!    another.
//! 2. A connection of which it is not known yet whose it is (its TLS handshake is not done, or it has shown
//!    no token) has a slot for a short time, in a group in which each user or address has few.
//! 3. With its first request under a token a connection goes over to the group of the token's tenant, or to
//!    that of the readers of the host.
//! 4. Browsers come to the page's own group, and go on in the same way with their session; those of
//!    administrators have a group of theirs. What the page consists of is given to any: a connection without
//!    a session is always one that may be closed for the next, so that clients that read slowly keep no other
//!    out.
//! 5. Connections for metrics alone, in the clear on loopback, have a group of theirs.
//!
//! In a group that is full, or of a peer that has as many slots as it may, the connection that has been idle
//! for longest is closed for the next one. Where none is idle the next one is refused: requests that are
//! being answered are not cut off.

use crate::settings::Limits;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::{Notify, watch};

/// From so many tenants on, groups of those are forgotten that have no connection.
const MANY: usize = 64;

/// Where a connection comes from, as far as that can be known without believing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Peer {
    User(u32),
    Address(IpAddr),
}

/// How many a group holds, and how many of one peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub all: usize,
    pub each: usize,
}

/// Connections that are open, in all groups.
#[derive(Default)]
pub(crate) struct OpenConnections {
    count: AtomicUsize,
    none: Notify,
}

impl OpenConnections {
    pub fn count(&self) -> usize {
        self.count.load(SeqCst)
    }

    /// Comes when all have ended.
    pub async fn none(&self) {
        loop {
            let mut none = std::pin::pin!(self.none.notified());
            none.as_mut().enable();
            if self.count() == 0 {
                return;
            }
            none.await;
        }
    }
}

/// A group.
pub(crate) struct ConnectionGroup {
    size: Size,
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    /// Grows with each that comes or begins to rest.
    next: u64,
    taken: HashMap<u64, Slot>,
    /// Those that rest, the longest first.
    idle_since: BTreeMap<u64, u64>,
    peers: HashMap<Peer, usize>,
}

struct Slot {
    peer: Peer,
    /// Since when it is idle, in the order of all that are.
    idle: Option<u64>,
    leave: watch::Sender<bool>,
}

impl ConnectionGroup {
    pub fn new(size: Size) -> Arc<ConnectionGroup> {
        Arc::new(ConnectionGroup { size, slots: Mutex::default() })
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot for an idle connection, if there is one or one can be made.
    fn take_slot(self: &Arc<ConnectionGroup>, peer: Peer, leave: watch::Sender<bool>) -> Option<u64> {
        let mut slots = self.slots();
        let of_peer = slots.peers.get(&peer).copied().unwrap_or(0);
        if of_peer >= self.size.each {
            slots.evict(Some(peer))?;
        } else if slots.taken.len() >= self.size.all {
            slots.evict(None)?;
        }
        let number = slots.next;
        slots.next += 1;
        slots.idle_since.insert(number, number);
        *slots.peers.entry(peer).or_default() += 1;
        slots.taken.insert(number, Slot { peer, idle: Some(number), leave });
        Some(number)
    }

    /// Lets the connection leave that has been idle for longest, if one is idle.
    pub fn evict(&self) -> bool {
        self.slots().evict(None).is_some()
    }
}

impl Slots {
    fn evict(&mut self, peer: Option<Peer>) -> Option<()> {
        let is_it = |number: &u64| {
            peer.is_none_or(|peer| self.taken.get(number).is_some_and(|slot| slot.peer == peer))
        };
        let number = self.idle_since.values().copied().find(is_it)?;
        if let Some(slot) = self.remove(number) {
            slot.leave.send_replace(true);
        }
        Some(())
    }

    fn remove(&mut self, number: u64) -> Option<Slot> {
        let slot = self.taken.remove(&number)?;
        if let Some(since) = slot.idle {
            self.idle_since.remove(&since);
        }
        if let Some(count) = self.peers.get_mut(&slot.peer) {
            *count -= 1;
            if *count == 0 {
                self.peers.remove(&slot.peer);
            }
        }
        Some(slot)
    }

    fn set_idle(&mut self, number: u64, idle: bool) {
        let next = self.next;
        let Some(slot) = self.taken.get_mut(&number) else { return };
        if let Some(since) = slot.idle.take() {
            self.idle_since.remove(&since);
        }
        if idle {
            slot.idle = Some(next);
            self.idle_since.insert(next, number);
            self.next += 1;
        }
    }
}

/// What the token or session is for that a connection has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shown {
    Tenant(String),
    Host,
    Administrator,
}

/// A connection's slot.
pub(crate) struct ConnectionSlot {
    peer: Peer,
    at: Mutex<(Arc<ConnectionGroup>, u64, Option<Shown>)>,
    leave: watch::Receiver<bool>,
    tell: watch::Sender<bool>,
    open: Arc<OpenConnections>,
}

impl ConnectionSlot {
    /// A slot in a group; `None`: there is none.
    pub fn take(
        group: &Arc<ConnectionGroup>,
        peer: Peer,
        open: &Arc<OpenConnections>,
    ) -> Option<ConnectionSlot> {
        let (tell, leave) = watch::channel(false);
        let number = group.take_slot(peer, tell.clone())?;
        open.count.fetch_add(1, SeqCst);
        Some(ConnectionSlot {
            peer,
            at: Mutex::new((group.clone(), number, None)),
            leave,
            tell,
            open: open.clone(),
        })
    }

    fn at(&self) -> MutexGuard<'_, (Arc<ConnectionGroup>, u64, Option<Shown>)> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is idle between two requests.
    pub fn set_idle(&self, idle: bool) {
        let at = self.at();
        at.0.slots().set_idle(at.1, idle);
    }

    /// Moves to another group; false if that has no slot.
    pub fn move_to(&self, group: &Arc<ConnectionGroup>) -> bool {
        let mut at = self.at();
        if Arc::ptr_eq(&at.0, group) {
            return true;
        }
        let Some(number) = group.take_slot(self.peer, self.tell.clone()) else { return false };
        at.0.slots().remove(at.1);
        (at.0, at.1) = (group.clone(), number);
        group.slots().set_idle(number, false);
        true
    }

    /// Moves to the group of a tenant whose token it has shown, if it is not there; false if that has no
    /// slot.
    pub fn move_to_tenant(&self, tenant: &str, groups: &TenantGroups) -> bool {
        if matches!(&self.at().2, Some(Shown::Tenant(shown)) if shown == tenant) {
            return true;
        }
        self.move_to_owner(&groups.of(tenant), Shown::Tenant(tenant.to_owned()))
    }

    /// Moves to the group of readers of the host, if it is not there; false if that has no slot.
    pub fn move_to_readers(&self, group: &Arc<ConnectionGroup>) -> bool {
        self.move_to_owner(group, Shown::Host)
    }

    /// Moves to the group of administrators' browsers, if it is not there; false if that has no slot.
    pub fn move_to_browsers(&self, group: &Arc<ConnectionGroup>) -> bool {
        self.move_to_owner(group, Shown::Administrator)
    }

    fn move_to_owner(&self, group: &Arc<ConnectionGroup>, shown: Shown) -> bool {
        let went = self.move_to(group);
        if went {
            self.at().2 = Some(shown);
        }
        went
    }

    /// Whether it has shown a token.
    pub fn has_shown_a_token(&self) -> bool {
        self.at().2.is_some()
    }

    /// Completes when the slot is given to another connection.
    pub async fn left(&self) {
        let mut leave = self.leave.clone();
        // It is held here, too, and so never gone.
        let _ = leave.wait_for(|leave| *leave).await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let at = self.at();
        at.0.slots().remove(at.1);
        if self.open.count.fetch_sub(1, SeqCst) == 1 {
            self.open.none.notify_waiters();
        }
    }
}

/// All groups of a server.
pub(crate) struct ConnectionGroups {
    /// Of the administrators' socket.
    pub administrators: Arc<ConnectionGroup>,
    /// Of administrators that come by TLS.
    pub administrators_tls: Arc<ConnectionGroup>,
    /// Of connections by TCP before the client is known.
    pub handshakes: Arc<ConnectionGroup>,
    /// Of connections that have shown no token.
    pub unknown: Arc<ConnectionGroup>,
    /// Of browsers that have shown no session.
    pub page: Arc<ConnectionGroup>,
    /// Of browsers with a session of an administrator.
    pub browsers: Arc<ConnectionGroup>,
    /// Of collectors that come for metrics alone.
    pub metrics: Arc<ConnectionGroup>,
    pub tenants: TenantGroups,
    /// Of those that have shown a token for reading the host.
    pub readers: Arc<ConnectionGroup>,
    pub open: Arc<OpenConnections>,
}

impl ConnectionGroups {
    pub fn new(limits: &Limits) -> ConnectionGroups {
        let alone = |all: usize| ConnectionGroup::new(Size { all, each: all });
        let unknown = Size { all: limits.tenants_connections, each: limits.unknown_connections };
        ConnectionGroups {
            administrators: alone(limits.connections),
            administrators_tls: alone(limits.connections),
            handshakes: ConnectionGroup::new(unknown),
            unknown: ConnectionGroup::new(unknown),
            page: ConnectionGroup::new(unknown),
            browsers: alone(limits.tenant_connections),
            metrics: alone(crate::scrape::PLACES),
            tenants: TenantGroups::new(limits.tenant_connections),
            readers: alone(limits.tenant_connections),
            open: Arc::default(),
        }
    }

    /// Ends a connection that is idle and of which it is not known whose it is, or one that comes for
    /// metrics, if there is one.
    pub fn make_room(&self) -> bool {
        self.handshakes.evict() || self.unknown.evict() || self.page.evict() || self.metrics.evict()
    }
}

/// A group for each tenant.
pub(crate) struct TenantGroups {
    each: usize,
    groups: Mutex<HashMap<String, Weak<ConnectionGroup>>>,
}

impl TenantGroups {
    /// Groups of so many slots.
    pub fn new(each: usize) -> TenantGroups {
        TenantGroups { each, groups: Mutex::default() }
    }

    fn of(&self, tenant: &str) -> Arc<ConnectionGroup> {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(group) = groups.get(tenant).and_then(Weak::upgrade) {
            return group;
        }
        if groups.len() >= MANY {
            groups.retain(|_, group| group.strong_count() > 0);
        }
        let group = ConnectionGroup::new(Size { all: self.each, each: self.each });
        groups.insert(tenant.to_owned(), Arc::downgrade(&group));
        group
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Peer = Peer::User(1);
    const OTHER: Peer = Peer::User(2);

    fn has_left(slot: &ConnectionSlot) -> bool {
        *slot.leave.borrow()
    }

    #[test]
    fn the_connection_at_rest_for_longest_leaves_and_what_is_answered_stays() {
        let (group, open) =
            (ConnectionGroup::new(Size { all: 3, each: 3 }), Arc::<OpenConnections>::default());
        let take = |peer| ConnectionSlot::take(&group, peer, &open);
        let slots: Vec<ConnectionSlot> = (0..3).filter_map(|_| take(ONE)).collect();
        slots[0].set_idle(false);
        slots[1].set_idle(false);
        slots[1].set_idle(true);
        // The third has been idle for longest by now.
        let next = take(OTHER).expect("a slot");
        let left = |slots: &[ConnectionSlot]| slots.iter().map(has_left).collect::<Vec<_>>();
        assert_eq!(left(&slots), [false, false, true]);
        next.set_idle(false);
        let last = take(OTHER).expect("a slot");
        assert_eq!(left(&slots), [false, true, true]);
        last.set_idle(false);
        assert!(take(OTHER).is_none(), "all are being answered");
        assert_eq!(open.count(), 5, "those that are to leave have not yet");
        drop(slots);
        assert!(take(OTHER).is_some());
        drop((next, last));
        let slots = group.slots();
        assert_eq!((open.count(), slots.taken.len(), slots.peers.len()), (0, 0, 0));
    }

    #[test]
    fn a_peer_has_few_places_and_takes_none_from_others() {
        let (group, open) =
            (ConnectionGroup::new(Size { all: 4, each: 2 }), Arc::<OpenConnections>::default());
        let take = |peer| ConnectionSlot::take(&group, peer, &open).expect("a slot");
        let other = take(OTHER);
        let many: Vec<ConnectionSlot> = (0..10).map(|_| take(ONE)).collect();
        assert!(!has_left(&other));
        assert_eq!(many.iter().filter(|slot| !has_left(slot)).count(), 2);
    }

    #[test]
    fn with_a_token_a_connection_goes_to_its_tenants_room() {
        let (group, open) =
            (ConnectionGroup::new(Size { all: 1, each: 1 }), Arc::<OpenConnections>::default());
        let tenants = TenantGroups::new(2);
        let slot = ConnectionSlot::take(&group, ONE, &open).expect("a slot");
        slot.set_idle(false);
        assert!(slot.move_to_tenant("red", &tenants) && slot.move_to_tenant("red", &tenants));
        let next = ConnectionSlot::take(&group, ONE, &open).expect("the slot is free again");
        next.set_idle(false);
        assert!(next.move_to_tenant("red", &tenants));
        let third = ConnectionSlot::take(&group, ONE, &open).expect("a slot");
        third.set_idle(false);
        assert!(!third.move_to_tenant("red", &tenants), "all of the tenant's are being answered");
        assert!(third.move_to_tenant("blue", &tenants), "and none of another's");
        slot.set_idle(true);
        assert!(third.move_to_tenant("red", &tenants) && has_left(&slot));
        let readers = ConnectionGroup::new(Size { all: 1, each: 1 });
        assert!(
            third.has_shown_a_token() && third.move_to_readers(&readers) && third.move_to_readers(&readers)
        );
        assert!(!next.move_to_readers(&readers), "it is being answered");
        assert!(next.move_to_tenant("red", &tenants) && third.move_to_tenant("red", &tenants));
        drop((slot, next, third));
        assert!(readers.slots().taken.is_empty());
        assert_eq!(open.count(), 0);
        assert!(group.slots().taken.is_empty());
    }
}
