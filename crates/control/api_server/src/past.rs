//! What happened in the last hour: changes of objects and notices, in memory, for clients that come later.
//!
//! 1. [`Past::changed`] is told of each change that is committed, [`Past::notice`] of each notice. An event
//!    is put down with whose its object is at that moment: another tenant's object that comes to have the
//!    name later shows nothing of it.
//! 2. Each owner has a ring of its own, bounded in number and in bytes, so that no tenant pushes out the
//!    events of another; what is no tenant's has one too. All together are bounded: the largest ring gives
//!    way. The ring of a tenant that is deleted is the administrators' alone from then on.
//! 3. [`Past::read`] answers a tenant from its ring, and administrators and readers of the host from all of
//!    them. Events are as old as they are by a clock that nothing sets.
//!
//! What functions find is not kept here: it comes at any rate, and is kept for each function.

use crate::answer::Answer;
use crate::control::ObjectChange;
use crate::owners::{Owned, Owners};
use crate::request::Asked;
use crate::state::State;
use crate::tenancy::deleted_tenants;
use crate::time;
use api::{Kind, ObjectName, PastEvent, PastEvents, Problem};
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How long events are kept.
const HOUR: Duration = Duration::from_secs(3600);
/// Most events of one owner, and most of their bytes.
const OF_ONE: (usize, usize) = (2048, 512 << 10);
/// Most bytes of all.
const OF_ALL: usize = 4 << 20;
/// Most bytes of a text.
const TEXT: usize = 512;
/// Events of an answer: without a word about it, and at most.
const TOLD: u64 = 1000;
pub(crate) const MOST_TOLD: u64 = 8192;

/// Answers with the events of the last hour, or of less.
pub(crate) async fn events(state: &Arc<State>, asked: Asked) -> Result<Answer, Problem> {
    let seconds = asked.number("seconds", 1, HOUR.as_secs())?.unwrap_or(HOUR.as_secs());
    let limit = asked.number("limit", 1, MOST_TOLD)?.unwrap_or(TOLD) as usize;
    let rights = asked.rights.clone();
    let read = move |state: &State| {
        let span = Duration::from_secs(seconds);
        let now = (Instant::now(), SystemTime::now());
        Answer::json(200, &state.past.read(asked.rights.tenant(), span, limit, now))
    };
    state.work_on(&rights, true, read).await
}

/// See the module's documentation.
pub(crate) struct Past {
    owners: Arc<Owners>,
    rings: Mutex<Rings>,
}

impl fmt::Debug for Past {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Past").field("bytes", &self.rings().bytes).finish_non_exhaustive()
    }
}

struct Rings {
    /// What was before is not known.
    began: Instant,
    /// Events so far.
    count: u64,
    bytes: usize,
    of: HashMap<Option<String>, Ring>,
    /// Of tenants that were deleted.
    gone: Vec<Ring>,
}

#[derive(Default)]
struct Ring {
    events: VecDeque<Kept>,
    bytes: usize,
    /// When the latest of those happened that found no room.
    lost: Option<Instant>,
}

struct Kept {
    /// Events of all rings in their order.
    number: u64,
    at: Instant,
    time: SystemTime,
    kind: Kind,
    name: Box<str>,
    what: Box<str>,
    text: Option<Box<str>>,
    revision: Option<u64>,
    /// What is another event for those that see all: an object that passes to another tenant is deleted for
    /// the one that had it.
    for_owner_alone: bool,
}

impl Past {
    pub fn new(owners: Arc<Owners>) -> Past {
        let rings = Rings { began: Instant::now(), count: 0, bytes: 0, of: HashMap::new(), gone: Vec::new() };
        Past { owners, rings: Mutex::new(rings) }
    }

    /// What the events take.
    pub fn memory(&self) -> Value {
        let rings = self.rings();
        let kept: usize = rings.all().map(|ring| ring.events.len()).sum();
        json!({"bytes": rings.bytes, "limit_bytes": OF_ALL, "kept": kept})
    }

    fn rings(&self) -> MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A change was committed.
    pub fn changed(&self, revision: u64, changes: &[ObjectChange], owned: &[Owned]) {
        let (at, time) = (Instant::now(), SystemTime::now());
        let mut rings = self.rings();
        for (change, Owned { before, after }) in changes.iter().zip(owned) {
            let event = |what: &str, for_owner_alone| Kept {
                number: 0,
                at,
                time,
                kind: change.kind,
                name: change.name.as_str().into(),
                what: what.into(),
                text: None,
                revision: Some(revision),
                for_owner_alone,
            };
            if change.spec.is_none() {
                rings.put(before.clone(), event("deleted", false));
                continue;
            }
            rings.put(after.clone(), event("put", false));
            if before.is_some() && before != after {
                rings.put(before.clone(), event("deleted", true));
            }
        }
        // What happened to them is not the next ones' of that name.
        deleted_tenants(changes).for_each(|tenant| rings.end(tenant, at));
    }

    /// Something happened to what runs.
    pub fn notice(&self, time: SystemTime, kind: Kind, name: &str, what: &str, text: &str) {
        if what == "found" {
            return;
        }
        let owner = self.owners.owner(&ObjectName::new(kind, name));
        let event = Kept {
            number: 0,
            at: Instant::now(),
            time,
            kind,
            name: name.into(),
            what: what.into(),
            text: Some(cut(text)),
            revision: None,
            for_owner_alone: false,
        };
        self.rings().put(owner, event);
    }

    /// The latest events of a tenant, or of all, not older than `span`.
    pub fn read(
        &self,
        tenant: Option<&str>,
        span: Duration,
        limit: usize,
        (now, present): (Instant, SystemTime),
    ) -> PastEvents {
        let rings = self.rings();
        let (shown, all_see): (Vec<&Ring>, bool) = match tenant {
            Some(tenant) => (rings.of.get(&Some(tenant.to_owned())).into_iter().collect(), false),
            None => (rings.all().collect(), true),
        };
        let span = span.min(HOUR);
        let age = |at: Instant| now.saturating_duration_since(at);
        let mut found: Vec<&Kept> = shown
            .iter()
            .flat_map(|ring| &ring.events)
            .filter(|event| age(event.at) <= span && !(all_see && event.for_owner_alone))
            .collect();
        found.sort_unstable_by_key(|event| event.number);
        let more = found.len().saturating_sub(limit);
        let before = [Some(rings.began), now.checked_sub(span)];
        let omitted = more.checked_sub(1).and_then(|last| found.get(last)).map(|event| event.at);
        let since = shown.iter().map(|ring| ring.lost).chain(before).chain([omitted]).flatten().max();
        let ago = since.map_or(Duration::ZERO, age);
        let told = |event: &&Kept| PastEvent {
            time: time::told(event.time),
            age_ms: u64::try_from(age(event.at).as_millis()).unwrap_or(u64::MAX),
            kind: event.kind,
            name: event.name.to_string(),
            what: event.what.to_string(),
            text: event.text.as_deref().map(str::to_owned),
            revision: event.revision,
        };
        PastEvents {
            since: time::told(present.checked_sub(ago).unwrap_or(present)),
            items: found.iter().skip(more).map(told).collect(),
        }
    }
}

impl Rings {
    fn put(&mut self, owner: Option<String>, mut event: Kept) {
        self.count += 1;
        event.number = self.count;
        let now = event.at;
        let ring = self.of.entry(owner).or_default();
        let before = ring.bytes;
        ring.bytes += event.bytes();
        ring.events.push_back(event);
        ring.age(now);
        while ring.events.len() > OF_ONE.0 || ring.bytes > OF_ONE.1 {
            ring.lose();
        }
        self.bytes = self.bytes + ring.bytes - before;
        if self.bytes > OF_ALL {
            self.make_room(now);
        }
    }

    /// All of them.
    fn all(&self) -> impl Iterator<Item = &Ring> {
        self.of.values().chain(&self.gone)
    }

    /// A tenant is deleted: from now on its events are those of administrators alone.
    fn end(&mut self, tenant: &str, now: Instant) {
        self.gone.extend(self.of.remove(&Some(tenant.to_owned())));
        for ring in &mut self.gone {
            let before = ring.bytes;
            ring.age(now);
            self.bytes -= before - ring.bytes;
        }
        self.gone.retain(|ring| ring.is_needed(now));
    }

    /// Nothing that is too old is kept, and of the largest ring no more than its later half, until all have
    /// room.
    fn make_room(&mut self, now: Instant) {
        self.of.values_mut().chain(&mut self.gone).for_each(|ring| ring.age(now));
        self.of.retain(|_, ring| ring.is_needed(now));
        self.gone.retain(|ring| ring.is_needed(now));
        self.bytes = self.all().map(|ring| ring.bytes).sum();
        while self.bytes > OF_ALL {
            let rings = self.of.values_mut().chain(&mut self.gone);
            let Some(largest) = rings.max_by_key(|ring| ring.bytes) else { return };
            for _ in 0..largest.events.len().div_ceil(2) {
                largest.lose();
            }
            self.bytes = self.all().map(|ring| ring.bytes).sum();
        }
    }
}

impl Ring {
    /// Whether it has events, or lost some that are not too old.
    fn is_needed(&self, now: Instant) -> bool {
        let lost = self.lost.is_some_and(|at| now.saturating_duration_since(at) <= HOUR);
        lost || !self.events.is_empty()
    }

    /// Forgets what is older than an hour.
    fn age(&mut self, now: Instant) {
        while let Some(first) = self.events.front()
            && now.saturating_duration_since(first.at) > HOUR
        {
            self.bytes -= first.bytes();
            self.events.pop_front();
        }
    }

    /// Loses the oldest for want of room.
    fn lose(&mut self) {
        if let Some(first) = self.events.pop_front() {
            self.bytes -= first.bytes();
            self.lost = Some(first.at);
        }
    }
}

impl Kept {
    fn bytes(&self) -> usize {
        let text = self.text.as_ref().map_or(0, |text| text.len());
        size_of::<Kept>() + self.name.len() + self.what.len() + text
    }
}

/// A text that is not too long, or its beginning.
fn cut(text: &str) -> Box<str> {
    if text.len() <= TEXT {
        return text.into();
    }
    let sign = '…';
    let end = text.floor_char_boundary(TEXT - sign.len_utf8());
    format!("{}{sign}", &text[..end]).into()
}

#[cfg(test)]
#[path = "past_tests.rs"]
mod tests;
