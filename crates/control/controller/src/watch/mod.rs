//! Looking at packets on their way, for clients: traces and captures.
//!
//! 1. [`tap_points`] finds what is meant: ports, functions, interfaces, devices, wires, and what can be
//!    reached from there; for a tenant, only where every packet is its own ([`own`]).
//! 2. Taps are put there at one quiet point of the workers. Where there are none, packets pass as ever:
//!    nothing asks whether there is a trace.
//! 3. A thread for each trace and each capture writes what it is handed to the client. What it does not take
//!    in time is lost, counted, and told at the end; no worker on the packets' way waits for it.
//! 4. When there are enough, the time is over, or the client stops reading, the taps are over, and are taken
//!    out.
//!
//! 5. Before a change is carried out, those of tenants are over at whose places packets of others would pass
//!    then.
//!
//! Limits: [`MOST`] traces and captures of administrators at a time, and [`MOST_OF_TENANTS`] of tenants, each
//! at most [`MOST_OF_TENANT`]; where there are as many, a tenant that has fewer ends the oldest of one that
//! has most. A trace looks at [`tap_points::MOST`] places. What is created meanwhile is not looked at.

mod capture;
mod own;
mod place;
mod tap_points;
mod tell;
mod trace;
mod way;

use super::controller::{Controller, lock};
use api::Fault;
use api_server::Refusal;
use deployment::Host;
use engine::{Passage, Tap};
use packet_memory::{Packet, Pool};
pub use place::Hop;
use place::names_at;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tap_points::{TapPoint, View};
use wiring::Plan;

/// Traces and captures of administrators at a time.
const MOST: usize = 8;

/// The same of all tenants together, and of one.
const MOST_OF_TENANTS: usize = 16;
const MOST_OF_TENANT: usize = 2;

/// How often a thread looks whether the client still reads.
const LOOK: Duration = Duration::from_millis(100);

/// Makes taps for a place, one for each thread that packets pass there on.
type MakeTap = Box<dyn FnMut() -> Box<dyn Tap> + Send>;

/// One of the traces and captures that there may be. It is counted by how often it is held.
struct WatchPermit {
    #[expect(dead_code, reason = "it is counted by how often it is held")]
    counted: Option<Arc<()>>,
    /// It is over, because packets of others would be seen.
    over: Arc<AtomicBool>,
}

/// A trace or capture of a tenant that goes on, until its permit is gone.
pub(super) struct TenantWatch {
    tenant: String,
    places: Vec<TapPoint>,
    over: Weak<AtomicBool>,
}

/// Makes room for one more of a tenant: where there are as many as may be, the oldest of a tenant that has
/// most is over, so that none keeps the others out for ever.
///
/// # Errors
/// How many it has; no other has more.
fn make_room(watches: &mut Vec<TenantWatch>, tenant: &str) -> Result<(), usize> {
    let number = |of: &str| watches.iter().filter(|watch| watch.tenant == of).count();
    let own = number(tenant);
    if own >= MOST_OF_TENANT {
        return Err(own);
    }
    if watches.len() < MOST_OF_TENANTS {
        return Ok(());
    }
    // Of those with most the first is the oldest.
    let most = watches.iter().map(|watch| number(&watch.tenant)).max().unwrap_or(0);
    let oldest = watches.iter().position(|watch| number(&watch.tenant) == most);
    match oldest.filter(|_| most > own) {
        Some(oldest) => {
            if let Some(over) = watches.remove(oldest).over.upgrade() {
                over.store(true, Relaxed);
            }
            Ok(())
        }
        None => Err(own),
    }
}

impl WatchPermit {
    fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    /// A tap that sees nothing any more when it is over.
    fn guarded(&self, mut make: MakeTap) -> MakeTap {
        let over = self.over.clone();
        Box::new(move || Box::new(Guarded { inner: make(), over: over.clone() }) as Box<dyn Tap>)
    }
}

/// See [`WatchPermit::guarded`].
struct Guarded {
    inner: Box<dyn Tap>,
    over: Arc<AtomicBool>,
}

impl Tap for Guarded {
    fn see(&mut self, pool: &Pool, packets: &[Packet], passage: Passage) {
        if !self.over.load(Relaxed) {
            self.inner.see(pool, packets, passage);
        }
    }

    fn flush(&mut self) {
        self.inner.flush();
    }

    fn copied(&mut self, original: (&Pool, &Packet), copy: (&Pool, &Packet)) {
        self.inner.copied(original, copy);
    }

    fn is_over(&self) -> bool {
        self.over.load(Relaxed) || self.inner.is_over()
    }
}

impl Controller {
    /// One of the traces and captures that may run at a time, at these places. What runs must not change
    /// until it is given to the taps.
    fn watch_permit(&self, tenant: Option<&str>, places: &[TapPoint]) -> Result<WatchPermit, Refusal> {
        let over = Arc::<AtomicBool>::default();
        let Some(tenant) = tenant else {
            let counted = self.watching.clone();
            // The controller holds it, too.
            if Arc::strong_count(&counted) > MOST + 1 {
                return Err(Refusal::Busy(format!(
                    "there are {MOST} traces and captures, which is as many as may be"
                )));
            }
            return Ok(WatchPermit { counted: Some(counted), over });
        };
        let mut watches = lock(&self.tenant_watches);
        watches.retain(|watch| watch.over.strong_count() > 0);
        make_room(&mut watches, tenant)
            .map_err(|own| Refusal::Busy(format!("the tenant has {own} traces and captures")))?;
        let (tenant, places) = (tenant.to_owned(), places.to_vec());
        watches.push(TenantWatch { tenant, places, over: Arc::downgrade(&over) });
        Ok(WatchPermit { counted: None, over })
    }

    /// Ends traces and captures of tenants at places where packets of others pass once a plan is carried out.
    pub(super) fn end_watches_of_others(&self, plan: &Plan) {
        let mut watches = lock(&self.tenant_watches);
        watches.retain(|watch| watch.over.strong_count() > 0);
        if watches.is_empty() {
            return;
        }
        let mut then = Arc::unwrap_or_clone(self.host.wiring());
        let is_known = plan.apply(&mut then).is_ok();
        for watch in watches.iter() {
            let view = View::new(&then, &self.catalog, Some(&watch.tenant));
            if let Some(over) = watch.over.upgrade()
                && !(is_known && watch.places.iter().all(|place| view.may_see(place)))
            {
                over.store(true, Relaxed);
            }
        }
    }

    /// Takes those taps out that are over.
    fn end_taps(&self) {
        let fleet = self.host.fleet().clone();
        // Workers that have stopped see nothing any more.
        let _ = fleet.change(|change| change.flush_taps());
    }
}

/// Puts taps to places, which see nothing any more when the permit is over.
fn put(host: &Host, permit: &WatchPermit, taps: Vec<(TapPoint, MakeTap)>) -> Result<(), Refusal> {
    let taps = taps.into_iter().map(|(place, make)| (place, permit.guarded(make))).collect();
    place::put(host, taps).map_err(|error| Refusal::Busy(error.to_string()))
}

fn invalid(at: &str, message: impl Into<String>) -> Refusal {
    Refusal::Invalid(vec![Fault::of_request(at, message.into())])
}

fn filter(text: Option<&str>) -> Result<Option<::capture::Filter>, Refusal> {
    let parsed = text.map(::capture::Filter::parse).transpose();
    parsed.map_err(|error| invalid("filter", error.to_string()))
}

/// When a time from now on is over.
fn until(time: Option<&str>) -> Result<Option<Instant>, Refusal> {
    let Some(text) = time else { return Ok(None) };
    let nanos = schema::duration(text).filter(|nanos| *nanos > 0);
    let wrong = || {
        let shown = yaml_document::spelling::shown(text);
        invalid(
            "for",
            format!("found `{shown}`; allowed: a number and ns, us, ms, s, m, h or d, such as 10s"),
        )
    };
    Ok(Instant::now().checked_add(Duration::from_nanos(nanos.ok_or_else(wrong)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_of_tenants_keeps_another_from_a_trace() {
        let (mut watches, mut held) = (Vec::new(), Vec::new());
        let mut begin = |tenant: &str| {
            make_room(&mut watches, tenant)?;
            let over = Arc::<AtomicBool>::default();
            let (tenant, places) = (tenant.to_owned(), Vec::new());
            watches.push(TenantWatch { tenant, places, over: Arc::downgrade(&over) });
            held.push(over);
            Ok::<_, usize>(held.len() - 1)
        };
        for n in 0..MOST_OF_TENANTS {
            assert_eq!(begin(&format!("t{}", n / MOST_OF_TENANT)), Ok(n));
        }
        assert_eq!(begin("t0"), Err(MOST_OF_TENANT), "it has as many as it may");
        // One that has none gets both of its own, of those that have most the oldest first.
        let (first, second) = (begin("late"), begin("late"));
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(begin("late"), Err(MOST_OF_TENANT));
        let over: Vec<usize> = (0..held.len()).filter(|n| held[*n].load(Relaxed)).collect();
        assert_eq!(over, [0, 2]);
        assert_eq!(watches.len(), MOST_OF_TENANTS);
    }
}
