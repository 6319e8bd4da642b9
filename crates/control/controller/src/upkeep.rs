//! What is looked after for as long as the host runs.

use super::controller::{Controller, lock};
use api::Kind;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// A function that has been paused for so long is frozen: it takes next to no memory then.
const FREEZE_AFTER: Duration = Duration::from_secs(1);
/// Most functions that are frozen in one go, while nothing can be changed.
const FREEZE_AT_ONCE: usize = 16;
/// How often shells are made for functions to come, while functions come, and while none do.
const REFILL_EVERY: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));
/// How often what switches have learned is aged.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

impl Controller {
    /// Keeps workers equally busy, switches up to date and shells ready, and freezes functions that stand
    /// still, until the end.
    pub(super) fn look_after(self: &Arc<Self>) {
        let this = Arc::downgrade(self);
        let ends = self.ends.clone();
        let looking = std::thread::Builder::new().name("balance".into()).spawn(move || {
            let mut swept = Instant::now();
            while !ends.load(Relaxed) {
                let Some(this) = this.upgrade() else { return };
                let fleet = this.host.fleet().clone();
                let pause = match lock(&this.balancer).as_mut() {
                    Some(balancer) => {
                        if let Some(moved) = balancer.look(&fleet)
                            && let Some(notices) = this.told.sink.notices.get()
                        {
                            let text = format!("{} moved to worker {}", moved.names.join(", "), moved.to);
                            notices.tell(Kind::Workers, "workers", "moved", &text);
                        }
                        balancer.pause()
                    }
                    None => SWEEP_EVERY,
                };
                let frozen = this.host.freeze_paused(FREEZE_AFTER, FREEZE_AT_ONCE);
                if swept.elapsed() >= SWEEP_EVERY {
                    swept = Instant::now();
                    // Workers that have stopped have nothing to sweep.
                    let _ = fleet.sweep_switches();
                }
                drop(this);
                // Where many wait to be frozen, they are not kept waiting.
                std::thread::sleep(if frozen == FREEZE_AT_ONCE { Duration::from_millis(1) } else { pause });
            }
        });
        let (workshop, ends) = (self.workshop.clone(), self.ends.clone());
        let making = std::thread::Builder::new().name("shells".into()).spawn(move || {
            while !ends.load(Relaxed) {
                let busy = workshop.refill_shells();
                std::thread::sleep(if busy { REFILL_EVERY.0 } else { REFILL_EVERY.1 });
            }
        });
        let dividing = self.divide_processors();
        let attaching = self.see_to_attaching();
        let threads = looking.into_iter().chain(making).chain(self.sample()).chain(dividing);
        lock(&self.threads).extend(threads.chain(attaching));
    }
}
