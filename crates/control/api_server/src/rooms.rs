//! TenantPermits for connections. Each sort of clients has a room of its own, so that none takes places from
//! another:
//! 1. The administrators' socket has one that nothing else uses, and administrators that come by TLS have
//!    another.
//! 2. A connection of which it is not known yet whose it is (its TLS handshake is not done, or it has shown
//!    no token) has a place for a short time, in a room in which each user or address has few.
//! 3. With its first request under a token a connection goes over to the room of the token's tenant, or to
//!    that of the readers of the host.
//! 4. Connections for metrics alone, in the clear on loopback, have a room of theirs.
//!
//! In a room that is full, or of a peer that has as many places as it may, the connection that has rested for
//! longest leaves for the next one. Where none rests the next one is refused: what is being answered is
//! brought to its end.

use crate::settings::Limits;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::{Notify, watch};

/// From so many tenants on, rooms of those are forgotten that have no connection.
const MANY: usize = 64;

/// Where a connection comes from, as far as that can be known without believing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Peer {
    User(u32),
    Address(IpAddr),
}

/// How many a room holds, and how many of one peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub all: usize,
    pub each: usize,
}

/// Connections that are open, in all rooms.
#[derive(Default)]
pub(crate) struct Open {
    count: AtomicUsize,
    none: Notify,
}

impl Open {
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

/// A room.
pub(crate) struct Room {
    size: Size,
    seats: Mutex<Seats>,
}

#[derive(Default)]
struct Seats {
    /// Grows with each that comes or begins to rest.
    next: u64,
    taken: HashMap<u64, Seat>,
    /// Those that rest, the longest first.
    resting: BTreeMap<u64, u64>,
    peers: HashMap<Peer, usize>,
}

struct Seat {
    peer: Peer,
    /// Since when it rests, in the order of all that do.
    rests: Option<u64>,
    leave: watch::Sender<bool>,
}

impl Room {
    pub fn new(size: Size) -> Arc<Room> {
        Arc::new(Room { size, seats: Mutex::default() })
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a connection that rests, if there is one or one can be made.
    fn enter(self: &Arc<Room>, peer: Peer, leave: watch::Sender<bool>) -> Option<u64> {
        let mut seats = self.seats();
        let of_peer = seats.peers.get(&peer).copied().unwrap_or(0);
        if of_peer >= self.size.each {
            seats.evict(Some(peer))?;
        } else if seats.taken.len() >= self.size.all {
            seats.evict(None)?;
        }
        let number = seats.next;
        seats.next += 1;
        seats.resting.insert(number, number);
        *seats.peers.entry(peer).or_default() += 1;
        seats.taken.insert(number, Seat { peer, rests: Some(number), leave });
        Some(number)
    }

    /// Lets the connection leave that has rested for longest, if one rests.
    pub fn evict(&self) -> bool {
        self.seats().evict(None).is_some()
    }
}

impl Seats {
    fn evict(&mut self, peer: Option<Peer>) -> Option<()> {
        let is_it = |number: &u64| {
            peer.is_none_or(|peer| self.taken.get(number).is_some_and(|seat| seat.peer == peer))
        };
        let number = self.resting.values().copied().find(is_it)?;
        if let Some(seat) = self.remove(number) {
            seat.leave.send_replace(true);
        }
        Some(())
    }

    fn remove(&mut self, number: u64) -> Option<Seat> {
        let seat = self.taken.remove(&number)?;
        if let Some(since) = seat.rests {
            self.resting.remove(&since);
        }
        if let Some(count) = self.peers.get_mut(&seat.peer) {
            *count -= 1;
            if *count == 0 {
                self.peers.remove(&seat.peer);
            }
        }
        Some(seat)
    }

    fn rest(&mut self, number: u64, rests: bool) {
        let next = self.next;
        let Some(seat) = self.taken.get_mut(&number) else { return };
        if let Some(since) = seat.rests.take() {
            self.resting.remove(&since);
        }
        if rests {
            seat.rests = Some(next);
            self.resting.insert(next, number);
            self.next += 1;
        }
    }
}

/// What the token is for that a connection has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shown {
    Tenant(String),
    Host,
}

/// A connection's place.
pub(crate) struct Place {
    peer: Peer,
    at: Mutex<(Arc<Room>, u64, Option<Shown>)>,
    leave: watch::Receiver<bool>,
    tell: watch::Sender<bool>,
    open: Arc<Open>,
}

impl Place {
    /// A place in a room; `None`: there is none.
    pub fn take(room: &Arc<Room>, peer: Peer, open: &Arc<Open>) -> Option<Place> {
        let (tell, leave) = watch::channel(false);
        let number = room.enter(peer, tell.clone())?;
        open.count.fetch_add(1, SeqCst);
        Some(Place { peer, at: Mutex::new((room.clone(), number, None)), leave, tell, open: open.clone() })
    }

    fn at(&self) -> MutexGuard<'_, (Arc<Room>, u64, Option<Shown>)> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it rests between two requests.
    pub fn rest(&self, rests: bool) {
        let at = self.at();
        at.0.seats().rest(at.1, rests);
    }

    /// Goes over to another room; false if that has no place.
    pub fn go_to(&self, room: &Arc<Room>) -> bool {
        let mut at = self.at();
        if Arc::ptr_eq(&at.0, room) {
            return true;
        }
        let Some(number) = room.enter(self.peer, self.tell.clone()) else { return false };
        at.0.seats().remove(at.1);
        (at.0, at.1) = (room.clone(), number);
        room.seats().rest(number, false);
        true
    }

    /// Goes over to the room of a tenant whose token it has shown, if it is not there; false if that has no
    /// place.
    pub fn go_to_tenant(&self, tenant: &str, rooms: &TenantRooms) -> bool {
        if matches!(&self.at().2, Some(Shown::Tenant(shown)) if shown == tenant) {
            return true;
        }
        self.go_to_owner(&rooms.of(tenant), Shown::Tenant(tenant.to_owned()))
    }

    /// Goes over to the room of readers of the host, if it is not there; false if that has no place.
    pub fn go_to_readers(&self, room: &Arc<Room>) -> bool {
        self.go_to_owner(room, Shown::Host)
    }

    fn go_to_owner(&self, room: &Arc<Room>, shown: Shown) -> bool {
        let went = self.go_to(room);
        if went {
            self.at().2 = Some(shown);
        }
        went
    }

    /// Whether it has shown a token.
    pub fn has_shown_a_token(&self) -> bool {
        self.at().2.is_some()
    }

    /// Comes when the place is another's.
    pub async fn left(&self) {
        let mut leave = self.leave.clone();
        // It is held here, too, and so never gone.
        let _ = leave.wait_for(|leave| *leave).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let at = self.at();
        at.0.seats().remove(at.1);
        if self.open.count.fetch_sub(1, SeqCst) == 1 {
            self.open.none.notify_waiters();
        }
    }
}

/// All rooms of a server.
pub(crate) struct Rooms {
    /// Of the administrators' socket.
    pub administrators: Arc<Room>,
    /// Of administrators that come by TLS.
    pub administrators_tls: Arc<Room>,
    /// Of connections by TCP before the client is known.
    pub handshakes: Arc<Room>,
    /// Of connections that have shown no token.
    pub unknown: Arc<Room>,
    /// Of collectors that come for metrics alone.
    pub metrics: Arc<Room>,
    pub tenants: TenantRooms,
    /// Of those that have shown a token for reading the host.
    pub readers: Arc<Room>,
    pub open: Arc<Open>,
}

impl Rooms {
    pub fn new(limits: &Limits) -> Rooms {
        let alone = |all: usize| Room::new(Size { all, each: all });
        let unknown = Size { all: limits.tenants_connections, each: limits.unknown_connections };
        Rooms {
            administrators: alone(limits.connections),
            administrators_tls: alone(limits.connections),
            handshakes: Room::new(unknown),
            unknown: Room::new(unknown),
            metrics: alone(crate::scrape::PLACES),
            tenants: TenantRooms::new(limits.tenant_connections),
            readers: alone(limits.tenant_connections),
            open: Arc::default(),
        }
    }

    /// Ends a connection that rests and of which it is not known whose it is, or one that comes for metrics,
    /// if there is one.
    pub fn make_room(&self) -> bool {
        self.handshakes.evict() || self.unknown.evict() || self.metrics.evict()
    }
}

/// A room for each tenant.
pub(crate) struct TenantRooms {
    each: usize,
    rooms: Mutex<HashMap<String, Weak<Room>>>,
}

impl TenantRooms {
    /// Rooms of so many places.
    pub fn new(each: usize) -> TenantRooms {
        TenantRooms { each, rooms: Mutex::default() }
    }

    fn of(&self, tenant: &str) -> Arc<Room> {
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(room) = rooms.get(tenant).and_then(Weak::upgrade) {
            return room;
        }
        if rooms.len() >= MANY {
            rooms.retain(|_, room| room.strong_count() > 0);
        }
        let room = Room::new(Size { all: self.each, each: self.each });
        rooms.insert(tenant.to_owned(), Arc::downgrade(&room));
        room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Peer = Peer::User(1);
    const OTHER: Peer = Peer::User(2);

    fn has_left(place: &Place) -> bool {
        *place.leave.borrow()
    }

    #[test]
    fn the_connection_at_rest_for_longest_leaves_and_what_is_answered_stays() {
        let (room, open) = (Room::new(Size { all: 3, each: 3 }), Arc::<Open>::default());
        let take = |peer| Place::take(&room, peer, &open);
        let places: Vec<Place> = (0..3).filter_map(|_| take(ONE)).collect();
        places[0].rest(false);
        places[1].rest(false);
        places[1].rest(true);
        // The third has rested for longest by now.
        let next = take(OTHER).expect("a place");
        let left = |places: &[Place]| places.iter().map(has_left).collect::<Vec<_>>();
        assert_eq!(left(&places), [false, false, true]);
        next.rest(false);
        let last = take(OTHER).expect("a place");
        assert_eq!(left(&places), [false, true, true]);
        last.rest(false);
        assert!(take(OTHER).is_none(), "all are being answered");
        assert_eq!(open.count(), 5, "those that are to leave have not yet");
        drop(places);
        assert!(take(OTHER).is_some());
        drop((next, last));
        let seats = room.seats();
        assert_eq!((open.count(), seats.taken.len(), seats.peers.len()), (0, 0, 0));
    }

    #[test]
    fn a_peer_has_few_places_and_takes_none_from_others() {
        let (room, open) = (Room::new(Size { all: 4, each: 2 }), Arc::<Open>::default());
        let take = |peer| Place::take(&room, peer, &open).expect("a place");
        let other = take(OTHER);
        let many: Vec<Place> = (0..10).map(|_| take(ONE)).collect();
        assert!(!has_left(&other));
        assert_eq!(many.iter().filter(|place| !has_left(place)).count(), 2);
    }

    #[test]
    fn with_a_token_a_connection_goes_to_its_tenants_room() {
        let (room, open) = (Room::new(Size { all: 1, each: 1 }), Arc::<Open>::default());
        let tenants = TenantRooms::new(2);
        let place = Place::take(&room, ONE, &open).expect("a place");
        place.rest(false);
        assert!(place.go_to_tenant("red", &tenants) && place.go_to_tenant("red", &tenants));
        let next = Place::take(&room, ONE, &open).expect("the place is free again");
        next.rest(false);
        assert!(next.go_to_tenant("red", &tenants));
        let third = Place::take(&room, ONE, &open).expect("a place");
        third.rest(false);
        assert!(!third.go_to_tenant("red", &tenants), "all of the tenant's are being answered");
        assert!(third.go_to_tenant("blue", &tenants), "and none of another's");
        place.rest(true);
        assert!(third.go_to_tenant("red", &tenants) && has_left(&place));
        let readers = Room::new(Size { all: 1, each: 1 });
        assert!(third.has_shown_a_token() && third.go_to_readers(&readers) && third.go_to_readers(&readers));
        assert!(!next.go_to_readers(&readers), "it is being answered");
        assert!(next.go_to_tenant("red", &tenants) && third.go_to_tenant("red", &tenants));
        drop((place, next, third));
        assert!(readers.seats().taken.is_empty());
        assert_eq!(open.count(), 0);
        assert!(room.seats().taken.is_empty());
    }
}
