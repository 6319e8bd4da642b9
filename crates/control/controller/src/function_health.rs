//! Which functions do not do what they are for: they are down, have failed within the last minute, or have
//! given packets verdicts that are none. One that is started again after each fault runs whenever it is
//! looked at.
//!
//! [`FunctionHealth::look`] is shown all functions with each step of the history, as
//! [`PortHealth`](super::port_health::PortHealth) is shown the ports; `health` is answered with what is known
//! by then.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// For so long after its last fault or wrong verdict a function is named.
const RECENT: Duration = Duration::from_secs(60);

/// See the module's documentation. Of functions that have never failed it knows nothing.
#[derive(Debug, Default)]
pub(super) struct FunctionHealth(BTreeMap<String, Failing>);

#[derive(Debug)]
struct Failing {
    faults: Recent,
    /// Packets with wrong verdicts.
    wrong: Recent,
    /// Why it is down now.
    down: Option<Down>,
    /// Seen in the look that is under way.
    seen: bool,
}

/// What is counted of a function.
#[derive(Clone, Copy, Debug)]
struct Recent {
    /// All, as counted.
    all: u64,
    /// Those that came not longer than [`RECENT`] after one another, and when the last one was seen.
    recent: u64,
    last: Instant,
}

impl Recent {
    /// One of which nothing was known.
    fn new(count: u64, now: Instant) -> Recent {
        Recent { all: count, recent: count, last: now }
    }

    fn look(&mut self, count: u64, now: Instant) {
        // One that was made anew under its name counts from the beginning.
        let more = if count < self.all { count } else { count - self.all };
        let ended = count < self.all || now.duration_since(self.last) >= RECENT;
        self.recent = if ended { more } else { self.recent + more };
        if more > 0 {
            self.last = now;
        }
        self.all = count;
    }
}

/// A function, as it is looked at.
#[derive(Debug)]
pub(super) struct Looked<'a> {
    pub name: &'a str,
    pub faults: u64,
    /// Packets that it lost by verdicts that are none.
    pub wrong: u64,
    pub down: Option<Down>,
}

/// Why a function is down, for administrators and for its tenant.
#[derive(Clone, Debug)]
pub(super) struct Down {
    pub host: String,
    pub tenant: String,
}

impl From<&str> for Down {
    /// What both may know.
    fn from(why: &str) -> Down {
        Down { host: why.to_owned(), tenant: why.to_owned() }
    }
}

impl FunctionHealth {
    /// Takes what all functions have counted at this time.
    pub fn look<'a>(&mut self, functions: impl Iterator<Item = Looked<'a>>, now: Instant) {
        self.0.values_mut().for_each(|failing| failing.seen = false);
        for Looked { name, faults, wrong, down } in
            functions.filter(|looked| looked.faults > 0 || looked.wrong > 0 || looked.down.is_some())
        {
            let Some(failing) = self.0.get_mut(name) else {
                let (faults, wrong) = (Recent::new(faults, now), Recent::new(wrong, now));
                self.0.insert(name.to_owned(), Failing { faults, wrong, down, seen: true });
                continue;
            };
            failing.faults.look(faults, now);
            failing.wrong.look(wrong, now);
            (failing.down, failing.seen) = (down, true);
        }
        self.0.retain(|_, failing| failing.seen);
    }

    /// One line for each function that is `shown`, and down or failing; as its tenant may read it if one
    /// asks.
    pub fn warnings(&self, of_tenant: bool, shown: impl Fn(&str) -> bool) -> Vec<String> {
        let named = self.0.iter().filter(|(name, _)| shown(name));
        let told = named.flat_map(|(name, failing)| {
            let failed = match (&failing.down, failing.faults.recent) {
                (Some(Down { host, tenant }), _) => {
                    Some(format!("function `{name}` is down: {}", if of_tenant { tenant } else { host }))
                }
                (None, 0) => None,
                (None, faults) => {
                    let times = if faults == 1 { "once".to_owned() } else { format!("{faults} times") };
                    Some(format!(
                        "function `{name}` failed {times}, the last time within a minute; `superfluid function events {name}` says why"
                    ))
                }
            };
            let wrong = match failing.wrong.recent {
                0 => None,
                packets => Some(format!(
                    "function `{name}` lost {packets} packets by verdicts that are none (`bad-verdict`, `no-verdict`), the last within a minute"
                )),
            };
            failed.into_iter().chain(wrong)
        });
        told.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_named_while_it_is_down_and_for_a_minute_after_its_last_fault() {
        let (mut health, began) = (FunctionHealth::default(), Instant::now());
        let mut look = |seconds: u64, functions: &[(&str, u64, Option<&str>)]| {
            let functions = functions.iter().map(|(name, faults, down)| {
                let down = down.map(Down::from);
                Looked { name, faults: *faults, wrong: 0, down }
            });
            health.look(functions, began + Duration::from_secs(seconds));
            health.warnings(false, |name| name != "hidden")
        };
        let failed = |times: &str| {
            let says = "the last time within a minute; `superfluid function events fw` says why";
            vec![format!("function `fw` failed {times}, {says}")]
        };
        assert_eq!(look(0, &[("fw", 0, None), ("nat", 0, None)]), [""; 0]);
        assert_eq!(look(1, &[("fw", 1, None), ("hidden", 7, None)]), failed("once"));
        assert_eq!(look(30, &[("fw", 4, None)]), failed("4 times"));
        let down = ["function `fw` is down: it trapped".to_owned()];
        assert_eq!(look(31, &[("fw", 5, Some("it trapped"))]), down);
        assert_eq!(look(90, &[("fw", 5, None)]), failed("5 times"));
        assert_eq!(look(91, &[("fw", 5, None)]), [""; 0], "a minute after the last one");
        assert_eq!(look(100, &[("fw", 6, None)]), failed("once"), "those of before are over");
        // Made anew under its name, and gone.
        assert_eq!(look(101, &[("fw", 0, None)]), [""; 0]);
        assert_eq!(look(102, &[("fw", 2, None)]), failed("2 times"));
        assert_eq!(look(103, &[]), [""; 0]);
        let down = Down { host: "of the host".to_owned(), tenant: "of its own".to_owned() };
        health.look([Looked { name: "fw", faults: 0, wrong: 0, down: Some(down) }].into_iter(), began);
        assert_eq!(health.warnings(true, |_| true), ["function `fw` is down: of its own"]);
        assert_eq!(health.warnings(false, |_| true), ["function `fw` is down: of the host"]);
    }

    #[test]
    fn a_function_that_gives_wrong_verdicts_is_named_for_a_minute_after_the_last_one() {
        let (mut health, began) = (FunctionHealth::default(), Instant::now());
        let mut look = |seconds: u64, faults: u64, wrong: u64| {
            let looked = Looked { name: "fw", faults, wrong, down: None };
            health.look([looked].into_iter(), began + Duration::from_secs(seconds));
            health.warnings(true, |_| true)
        };
        let lost = |packets: u64| {
            format!(
                "function `fw` lost {packets} packets by verdicts that are none (`bad-verdict`, `no-verdict`), the last within a minute"
            )
        };
        assert_eq!(look(0, 0, 0), [""; 0]);
        assert_eq!(look(1, 0, 5), [lost(5)]);
        assert_eq!(look(30, 0, 7), [lost(7)]);
        assert_eq!(look(90, 0, 7), [""; 0], "a minute after the last one");
        assert_eq!(look(91, 1, 8).len(), 2, "it failed as well");
    }
}
