//! What is asked of a function waits while it is being frozen, which it is a second after its pause, whatever
//! is asked of it then.

use engine::{Fleet, FleetInstance, TakeoverError};
use std::time::{Duration, Instant};

/// Longest time that is waited until a function has its guest again: what it has touched of its memory is
/// copied meanwhile, at a low priority.
const LONGEST: Duration = Duration::from_secs(20);

/// How long to wait before it is looked again, at least, and of what was waited.
const LOOKS: Duration = Duration::from_millis(1);
const PART: u32 = 8;

/// How long to wait after so long before it is looked again. Each look takes the worker away from all that it
/// has, for some microseconds: there are fewer than a hundred.
fn pause(waited: Duration) -> Duration {
    LOOKS.max(waited / PART)
}

/// Waits until a function has its guest, which nothing but a freeze takes away while it is being changed;
/// says whether it has by then.
pub(crate) fn await_present(fleet: &Fleet, id: FleetInstance) -> bool {
    let began = Instant::now();
    let is_away = || matches!(fleet.change(|it| it.check_present(id)), Ok(Err(TakeoverError::Detached(_))));
    offload::waiting(|| {
        while is_away() {
            if began.elapsed() >= LONGEST {
                return false;
            }
            std::thread::sleep(pause(began.elapsed()));
        }
        true
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_long_looks_seldom_and_not_much_too_late() {
        let (mut waited, mut looks) = (Duration::ZERO, 0);
        while waited < LONGEST {
            let next = pause(waited);
            assert!(next <= LOOKS.max(waited / 8));
            (waited, looks) = (waited + next, looks + 1);
        }
        assert!(looks < 100, "{looks}");
    }
}
