//! What is looked after for as long as the host runs.

use super::controller::{Controller, lock};
use api::Kind;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// How often what switches have learned is aged.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

impl Controller {
    /// Keeps workers equally busy and switches up to date, until the end.
    pub(super) fn look_after(self: &Arc<Self>) {
        let this = Arc::downgrade(self);
        let ends = self.ends.clone();
        let looking = std::thread::Builder::new().name("balance".into()).spawn(move || {
            let mut swept = Instant::now();
            while !ends.load(Relaxed) {
                let Some(this) = this.upgrade() else { return };
                let fleet = lock(&this.host).fleet().clone();
                let pause = match lock(&this.balancer).as_mut() {
                    Some(balancer) => {
                        if let Some(moved) = balancer.look(&fleet)
                            && let Some(notices) = this.told.notices.get()
                        {
                            let text = format!("{} moved to worker {}", moved.names.join(", "), moved.to);
                            notices.tell(Kind::Workers, "workers", "moved", &text);
                        }
                        balancer.pause()
                    }
                    None => SWEEP_EVERY,
                };
                if swept.elapsed() >= SWEEP_EVERY {
                    swept = Instant::now();
                    // Workers that have stopped have nothing to sweep.
                    let _ = fleet.sweep_switches();
                }
                drop(this);
                std::thread::sleep(pause);
            }
        });
        if let Ok(thread) = looking {
            lock(&self.threads).push(thread);
        }
    }
}
