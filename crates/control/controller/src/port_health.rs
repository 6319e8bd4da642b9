//! Which ports do not do what they are for: they are down, or lose more packets than they pass on.
//!
//! 1. A port says itself when it goes down or comes up ([`PortHealth::went`]), and how it is when it is
//!    opened ([`PortHealth::opened`]); one that is closed is named no more.
//! 2. With each step of the history, once a second where it is not large, [`PortHealth::look`] is shown what
//!    the ports have counted, and what was told and found no room.
//! 3. Over each window of five seconds and more it compares, apart for each direction, what a port lost with
//!    what it passed on.
//! 4. `health` is answered with what is known by then: no request reads counters.

use engine::PortAccount;
use port::PortStatus;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};
use telemetry::DropReason;

/// Counters are compared with those of so long ago.
const WINDOW: Duration = Duration::from_secs(5);
/// Fewer losses in a window are no reason to name a port.
const FEW: u64 = 10;

/// Reasons for which a port loses what was on its way out; all others are of what came in.
const OUTWARD: [DropReason; 3] = [DropReason::PortFull, DropReason::PortDown, DropReason::PortRefused];

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct PortHealth {
    before: HashMap<String, Sample>,
    /// What is wrong with a port, by its name.
    losing: BTreeMap<String, Vec<String>>,
    down: BTreeMap<String, String>,
    /// Ports of which something else than counters told last, when, and whether they are there. Counters that
    /// were asked for before say what was.
    told: HashMap<String, (Instant, bool)>,
}

/// What a port had counted at some time.
#[derive(Clone, Debug)]
struct Sample {
    at: Instant,
    received: u64,
    delivered: u64,
    kernel_lost: u64,
    dropped: Vec<u64>,
}

impl Sample {
    fn of(port: &PortAccount, at: Instant) -> Sample {
        let ledger = &port.counters.ledger;
        Sample {
            at,
            received: ledger.received + ledger.generated + ledger.split,
            delivered: ledger.delivered,
            kernel_lost: port.counters.kernel_lost,
            dropped: DropReason::ALL.iter().map(|reason| ledger.dropped[*reason]).collect(),
        }
    }
}

impl PortHealth {
    /// A port was opened by a change that began at the one time and ended at the other, also in the place of
    /// another one of its name.
    pub fn opened(&mut self, name: &str, status: &PortStatus, (began, now): (Instant, Instant)) {
        self.before.remove(name);
        self.losing.remove(name);
        // What it told itself since is newer.
        if self.told.get(name).is_some_and(|(at, there)| *there && *at >= began) {
            return;
        }
        self.told.insert(name.to_owned(), (now, true));
        match status {
            PortStatus::Down(reason) => drop(self.down.insert(name.to_owned(), reason.clone())),
            PortStatus::Up | PortStatus::Finished => drop(self.down.remove(name)),
        }
    }

    /// A port is no more.
    pub fn closed(&mut self, name: &str, now: Instant) {
        self.before.remove(name);
        self.losing.remove(name);
        self.down.remove(name);
        self.told.insert(name.to_owned(), (now, false));
    }

    /// A port went down, for a reason, or came up. What is told of one that is gone comes too late.
    pub fn went(&mut self, name: &str, down: Option<&str>, now: Instant) {
        if self.told.get(name).is_some_and(|(_, there)| !*there) {
            return;
        }
        self.told.insert(name.to_owned(), (now, true));
        match down {
            Some(reason) => drop(self.down.insert(name.to_owned(), reason.to_owned())),
            None => drop(self.down.remove(name)),
        }
    }

    /// Takes what all ports have counted, which was asked for at this time.
    pub fn look(&mut self, ports: &[PortAccount], now: Instant) {
        let there: HashSet<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        self.told.retain(|_, (at, _)| *at >= now);
        let told = &self.told;
        self.before.retain(|name, _| there.contains(name.as_str()) || told.contains_key(name));
        self.losing.retain(|name, _| there.contains(name.as_str()) || told.contains_key(name));
        self.down.retain(|name, _| told.contains_key(name));
        for port in ports.iter().filter(|port| !told.contains_key(&port.name)) {
            if let PortStatus::Down(reason) = &port.status {
                self.down.insert(port.name.clone(), reason.clone());
            }
            let sample = Sample::of(port, now);
            let Some(before) = self.before.get(&port.name) else {
                self.before.insert(port.name.clone(), sample);
                continue;
            };
            // A port that was made anew under its name counts from the beginning.
            let anew = sample.received < before.received || sample.delivered < before.delivered;
            if !anew && now.duration_since(before.at) < WINDOW {
                continue;
            }
            let found = if anew { Vec::new() } else { losses(before, &sample) };
            match found.is_empty() {
                true => drop(self.losing.remove(&port.name)),
                false => drop(self.losing.insert(port.name.clone(), found)),
            }
            self.before.insert(port.name.clone(), sample);
        }
    }

    /// One line for each that is wrong with a port that is `shown`.
    pub fn warnings(&self, shown: impl Fn(&str) -> bool) -> Vec<String> {
        let down = self.down.iter().map(|(name, reason)| (name, format!("port `{name}` is down: {reason}")));
        let losing = self
            .losing
            .iter()
            .flat_map(|(name, found)| found.iter().map(move |what| (name, format!("port `{name}` {what}"))));
        down.chain(losing).filter(|(name, _)| shown(name)).map(|(_, text)| text).collect()
    }
}

/// The directions in which more was lost than passed on.
fn losses(before: &Sample, now: &Sample) -> Vec<String> {
    let mut lost = [0_u64; 2];
    let mut most = [None::<(u64, &str)>; 2];
    let mut add = |direction: usize, count: u64, reason: &'static str| {
        lost[direction] += count;
        if count > most[direction].map_or(0, |(count, _)| count) {
            most[direction] = Some((count, reason));
        }
    };
    for ((reason, before), now) in DropReason::ALL.iter().zip(&before.dropped).zip(&now.dropped) {
        add(usize::from(OUTWARD.contains(reason)), now.saturating_sub(*before), reason.name());
    }
    let kernel_lost = now.kernel_lost.saturating_sub(before.kernel_lost);
    let received = now.received.saturating_sub(before.received);
    let passed =
        [received.saturating_sub(lost_of(before, now)), now.delivered.saturating_sub(before.delivered)];
    add(0, kernel_lost, "lost in the kernel");
    let words = [("receives", "passes on"), ("transmits", "delivers")];
    let seconds = now.at.duration_since(before.at).as_secs();
    let named = words.into_iter().zip(lost).zip(passed).zip(most);
    named
        .filter(|(((_, lost), passed), _)| *lost >= FEW && lost > passed)
        .map(|((((does, passes), lost), passed), most)| {
            let (count, reason) = most.unwrap_or_default();
            format!(
                "loses more of what it {does} than it {passes}: {lost} lost and {passed} passed in {seconds} s, {count} as `{reason}`"
            )
        })
        .collect()
}

/// What was lost of what a port received itself.
fn lost_of(before: &Sample, now: &Sample) -> u64 {
    let counts = DropReason::ALL.iter().zip(&before.dropped).zip(&now.dropped);
    let inward = counts.filter(|((reason, _), _)| !OUTWARD.contains(reason));
    inward.map(|((_, before), now)| now.saturating_sub(*before)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::PortCounters;
    use telemetry::Latencies;

    fn account(name: &str, counted: &[(DropReason, u64)], received: u64, delivered: u64) -> PortAccount {
        let mut counters = PortCounters::default();
        counters.ledger.received = received;
        counters.ledger.delivered = delivered;
        for (reason, count) in counted {
            counters.ledger.dropped[*reason] = *count;
        }
        PortAccount {
            name: name.to_owned(),
            status: PortStatus::Up,
            counters,
            in_flight: 0,
            details: Vec::new(),
            latencies: Latencies::default(),
        }
    }

    #[test]
    fn a_port_that_loses_more_than_it_passes_on_is_named_with_the_reason_and_only_as_long() {
        let (mut health, mut now) = (PortHealth::default(), Instant::now());
        let mut look = |ports: &[PortAccount]| {
            now += WINDOW;
            health.look(ports, now);
            health.warnings(|_| true)
        };
        let long = |count| [(DropReason::TooLong, count), (DropReason::NoBuffer, 5)];
        assert_eq!(
            look(&[account("lan", &long(10_000), 20_000, 0)]),
            [""; 0],
            "what was before the first look"
        );
        let told = "port `lan` loses more of what it receives than it passes on: 90 lost and 60 passed in 5 s, 90 as `too-long`";
        assert_eq!(look(&[account("lan", &long(10_090), 20_150, 0)]), [told]);
        assert_eq!(look(&[account("lan", &long(10_180), 20_400, 0)]), [""; 0], "most of it passes");
        assert_eq!(look(&[account("lan", &long(10_189), 20_409, 0)]), [""; 0], "a few packets");
        let refused =
            [(DropReason::PortRefused, 20), (DropReason::TooLong, 10_189), (DropReason::NoBuffer, 5)];
        let told = "port `lan` loses more of what it transmits than it delivers: 20 lost and 19 passed in 5 s, 20 as `port-refused`";
        assert_eq!(look(&[account("lan", &refused, 21_000, 19)]), [told]);
        // One of its name that begins anew, and none.
        assert_eq!(look(&[account("lan", &[], 0, 0)]), [""; 0]);
        assert_eq!(look(&[]), [""; 0]);
    }

    #[test]
    fn what_is_lost_in_the_kernel_counts_and_short_windows_do_not() {
        let (mut health, now) = (PortHealth::default(), Instant::now());
        let mut port = account("wan", &[], 100, 0);
        health.look(std::slice::from_ref(&port), now);
        (port.counters.ledger.received, port.counters.kernel_lost) = (150, 200);
        health.look(std::slice::from_ref(&port), now + WINDOW / 2);
        assert_eq!(health.warnings(|_| true), [""; 0]);
        health.look(std::slice::from_ref(&port), now + WINDOW);
        let told = health.warnings(|_| true);
        assert!(told[0].ends_with("200 lost and 50 passed in 5 s, 200 as `lost in the kernel`"), "{told:?}");
        assert_eq!(health.warnings(|name| name != "wan"), [""; 0], "another tenant's");
    }

    #[test]
    fn a_port_that_is_down_is_named_as_long_as_it_is() {
        let (mut health, now) = (PortHealth::default(), Instant::now());
        let mut port = account("lan", &[], 0, 0);
        port.status = PortStatus::Down("interface `x0` is not there; waiting for it".to_owned());
        health.look(std::slice::from_ref(&port), now);
        assert_eq!(
            health.warnings(|_| true),
            ["port `lan` is down: interface `x0` is not there; waiting for it"]
        );
        port.status = PortStatus::Up;
        health.look(std::slice::from_ref(&port), now);
        assert_eq!(health.warnings(|_| true), [""; 0]);
    }

    #[test]
    fn a_port_is_known_as_it_told_last_whatever_was_counted_before() {
        let (mut health, began) = (PortHealth::default(), Instant::now());
        let at = |ms: u64| began + Duration::from_millis(ms);
        let absent = PortStatus::Down("interface `x0` is not there; waiting for it".to_owned());
        health.opened("lan", &absent, (at(0), at(1)));
        let told = "port `lan` is down: interface `x0` is not there; waiting for it";
        assert_eq!(health.warnings(|_| true), [told], "from when it is opened");
        health.went("lan", None, at(10));
        assert_eq!(health.warnings(|_| true), [""; 0], "from when it comes up");
        // Counters that were asked for before it came up are read by now.
        let mut port = account("lan", &[], 0, 0);
        port.status = absent.clone();
        health.look(std::slice::from_ref(&port), at(5));
        assert_eq!(health.warnings(|_| true), [""; 0]);
        // What was told and found no room is seen with the next step.
        health.look(std::slice::from_ref(&port), at(1_000));
        assert_eq!(health.warnings(|_| true), [told]);
        health.look(&[account("lan", &[], 0, 0)], at(2_000));
        health.went("lan", Some("it broke"), at(2_010));
        assert_eq!(health.warnings(|_| true), ["port `lan` is down: it broke"]);
        health.closed("lan", at(2_020));
        health.went("lan", Some("it ended"), at(2_021));
        health.look(std::slice::from_ref(&port), at(2_015));
        assert_eq!(health.warnings(|_| true), [""; 0], "it is gone, whatever comes late");
        health.look(&[], at(3_000));
        assert_eq!((health.told.len(), health.before.len()), (0, 0), "and is forgotten");
    }

    #[test]
    fn what_a_port_tells_as_soon_as_it_is_opened_is_newer_than_how_it_was_opened() {
        let (mut health, began) = (PortHealth::default(), Instant::now());
        let waits = PortStatus::Down("no peer is connected".to_owned());
        health.went("wan", None, began + Duration::from_millis(1));
        health.opened("wan", &waits, (began, began + Duration::from_millis(2)));
        assert_eq!(health.warnings(|_| true), [""; 0]);
        // What one of its name told before is not.
        let later = began + Duration::from_millis(3);
        health.opened("wan", &waits, (later, later));
        assert_eq!(health.warnings(|_| true), ["port `wan` is down: no peer is connected"]);
    }

    #[test]
    fn a_port_in_the_place_of_another_one_has_lost_nothing() {
        let (mut health, mut now) = (PortHealth::default(), Instant::now());
        health.look(&[account("lan", &[], 0, 0)], now);
        now += WINDOW;
        health.look(&[account("lan", &[(DropReason::TooLong, 90)], 100, 0)], now);
        assert_eq!(health.warnings(|_| true).len(), 1);
        health.opened("lan", &PortStatus::Up, (now, now));
        assert_eq!(health.warnings(|_| true), [""; 0]);
    }
}
