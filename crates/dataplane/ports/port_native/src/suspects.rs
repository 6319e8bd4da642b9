//! Processes of guests that have lost their packets for what they did, and live: each is to be ended, unless
//! it comes back first.

use crate::processes::Process;
use crate::pulse::{Failure, Pulse};
use crate::session::Line;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// So many of one port are looked at, the last ones.
const MOST: usize = 8;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Suspects(Vec<Suspect>);

#[derive(Debug)]
struct Suspect {
    line: Arc<Line>,
    pulse: Pulse,
    cut_off: bool,
}

impl Suspects {
    /// One that hung, whose signs of life these are.
    pub fn hung(&mut self, line: Arc<Line>, pulse: Pulse) {
        self.add(Suspect { line, pulse, cut_off: false });
    }

    /// One that was cut off just now.
    pub fn cut_off(&mut self, line: Arc<Line>, now: Instant) {
        self.add(Suspect { line, pulse: Pulse::new(now), cut_off: true });
    }

    fn add(&mut self, suspect: Suspect) {
        self.0.truncate(MOST - 1);
        self.0.insert(0, suspect);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that are to be ended, and why. One that is gone, has shown that it lives or `is_back`, attached
    /// again, is none any more.
    pub fn look(
        &mut self,
        heartbeat: Duration,
        now: Instant,
        is_back: impl Fn(&Arc<Process>) -> bool,
    ) -> Vec<(u32, Failure)> {
        self.0.retain_mut(|Suspect { line, pulse, cut_off }| {
            let lives = !*cut_off && pulse.silence(line.heartbeat(), now).is_zero();
            !lives && !line.process.is_gone() && !is_back(&line.process)
        });
        let due = |Suspect { line, pulse, cut_off }: &mut Suspect| {
            let failure = match cut_off {
                true => pulse.is_over(heartbeat, now).then_some(Failure::CutOff),
                false => pulse.is_lost(heartbeat, now).map(Failure::Silent),
            };
            failure.map(|failure| (line.process.pid, failure))
        };
        self.0.iter_mut().filter_map(due).collect()
    }
}
