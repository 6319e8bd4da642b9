//! Which functions do not do what they are for: they are down, or have failed within the last minute. One
//! that is started again after each fault runs whenever it is looked at.
//!
//! [`FunctionHealth::look`] is shown all functions with each step of the history, as
//! [`PortHealth`](super::port_health::PortHealth) is shown the ports; `health` is answered with what is known
//! by then.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// For so long after its last fault a function is named.
const RECENT: Duration = Duration::from_secs(60);

/// See the module's documentation. Of functions that have never failed it knows nothing.
#[derive(Debug, Default)]
pub(super) struct FunctionHealth(BTreeMap<String, Failing>);

#[derive(Debug)]
struct Failing {
    /// All faults, as counted.
    faults: u64,
    /// Those of them that came not longer than [`RECENT`] after one another, and when the last one was seen.
    recent: u64,
    last: Instant,
    /// Why it is down now.
    down: Option<Down>,
    /// Seen in the look that is under way.
    seen: bool,
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
    /// Takes what all functions have counted at this time: name, faults, and why they are down.
    pub fn look<'a>(&mut self, functions: impl Iterator<Item = (&'a str, u64, Option<Down>)>, now: Instant) {
        self.0.values_mut().for_each(|failing| failing.seen = false);
        for (name, faults, down) in functions.filter(|(_, faults, down)| *faults > 0 || down.is_some()) {
            let Some(failing) = self.0.get_mut(name) else {
                let failing = Failing { faults, recent: faults, last: now, down, seen: true };
                self.0.insert(name.to_owned(), failing);
                continue;
            };
            // One that was made anew under its name counts from the beginning.
            let more = if faults < failing.faults { faults } else { faults - failing.faults };
            let ended = faults < failing.faults || now.duration_since(failing.last) >= RECENT;
            failing.recent = if ended { more } else { failing.recent + more };
            if more > 0 {
                failing.last = now;
            }
            (failing.faults, failing.down, failing.seen) = (faults, down, true);
        }
        self.0.retain(|_, failing| failing.seen);
    }

    /// One line for each function that is `shown`, and down or failing; as its tenant may read it if one
    /// asks.
    pub fn warnings(&self, of_tenant: bool, shown: impl Fn(&str) -> bool) -> Vec<String> {
        let named = self.0.iter().filter(|(name, _)| shown(name));
        let told = named.filter_map(|(name, failing)| match (&failing.down, failing.recent) {
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
            let functions =
                functions.iter().map(|(name, faults, down)| (*name, *faults, down.map(Down::from)));
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
        health.look([("fw", 0, Some(down))].into_iter(), began);
        assert_eq!(health.warnings(true, |_| true), ["function `fw` is down: of its own"]);
        assert_eq!(health.warnings(false, |_| true), ["function `fw` is down: of the host"]);
    }
}
