//! Whether a guest still works: a program that is run inside, or a connection to a TCP port of its own.
//!
//! A thread for each guest with a probe asks until the guest ends. What a probe runs is in the guest's
//! control group and counts for its limits; that it is started is the tenant's turn: programs of one tenant's
//! probes are run one after another, and a tenth of the time at most. A guest whose probe has failed as often
//! as its settings say is killed; what follows is what follows each death.

use crate::Refusal;
use crate::guests::Guests;
use crate::request::{Ended, Interface, Probe, Start};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::BTreeMap;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Programs of a tenant's probes run for one part of so many of the time.
const PART: u32 = 10;

/// When programs of each tenant's probes may be run.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<BTreeMap<String, Arc<Mutex<Option<Instant>>>>>);

impl Turns {
    /// Runs a tenant's program when it is its turn.
    fn take<T>(&self, tenant: &str, run: impl FnOnce() -> T) -> T {
        let turn = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // As many as the launcher's file names tenants.
            Arc::clone(all.entry(tenant.to_owned()).or_default())
        };
        let mut earliest = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = Instant::now();
        if let Some(earliest) = *earliest {
            std::thread::sleep(earliest.saturating_duration_since(begin));
        }
        let begin = Instant::now();
        let done = run();
        let end = Instant::now();
        *earliest = Some(after(begin, end));
        done
    }
}

/// When the next program may be run after one that ran from `begin` to `end`.
fn after(begin: Instant, end: Instant) -> Instant {
    end + (end - begin) * (PART - 1)
}

/// Where a guest stands with its probe.
#[derive(Debug, Default)]
struct Health {
    /// It has answered once.
    answered: bool,
    /// Failures in a row.
    failures: u32,
}

impl Health {
    /// Notes what a probe found `since` the guest's start; whether the guest is to end.
    fn note(&mut self, probe: &Probe, failed: bool, since: Duration) -> bool {
        if !failed {
            (self.answered, self.failures) = (true, 0);
            return false;
        }
        // A program that has not answered yet may still be starting.
        if !self.answered && since < Duration::from_millis(probe.start_ms.into()) {
            return false;
        }
        self.failures += 1;
        self.failures >= probe.failures
    }
}

/// Begins to probe a guest whose first process is `pid`, if it has a probe.
pub(crate) fn begin(guests: &Arc<Guests>, start: &Start, pid: u32) -> std::io::Result<()> {
    let Some(probe) = start.probe.clone() else { return Ok(()) };
    let (guests, name, tenant) = (Arc::clone(guests), start.name.clone(), start.tenant.clone());
    let addresses = addresses(&start.interfaces);
    let ask = move || {
        let (begin, mut health) = (Instant::now(), Health::default());
        while !guests.ends_within(&name, pid, Duration::from_millis(probe.every_ms.into())) {
            let within = Duration::from_millis(probe.within_ms.into());
            let found = match probe.tcp {
                Some(port) => connect(pid, &addresses, port, within),
                None => guests.turns().take(&tenant, || guests.run_inside(&name, pid, &probe.exec, within)),
            };
            let failed = found.err();
            if failed.is_none() && !health.answered {
                guests.has_answered(&name, pid);
            }
            if health.note(&probe, failed.is_some(), begin.elapsed()) {
                let reason = format!("its probe failed: {}", failed.unwrap_or_default());
                return guests.condemn(&name, pid, Ended::Probe, &reason);
            }
        }
    };
    Builder::new().name("probe".into()).spawn(ask).map(drop)
}

/// Where a program may listen inside: its own addresses, and loopback.
fn addresses(interfaces: &[Interface]) -> Vec<IpAddr> {
    let own = interfaces.iter().flat_map(|interface| &interface.addresses);
    let own = own.filter_map(|address| Some(crate::permits::parse_address(address)?.0));
    std::iter::once(IpAddr::V4(Ipv4Addr::LOCALHOST)).chain(own).collect()
}

/// Connects to one of these addresses in the guest's network namespace, and ends the connection.
fn connect(pid: u32, addresses: &[IpAddr], port: u16, within: Duration) -> Result<(), String> {
    let inside = File::open(format!("/proc/{pid}/ns/net")).map_err(|error| error.to_string())?;
    // The thread is in the guest's network namespace and in no other.
    let connected = std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            move_into_link_name_space(inside.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|error| error.to_string())?;
            let begin = Instant::now();
            let mut last = "no time is left".to_owned();
            for address in addresses {
                let left = within.saturating_sub(begin.elapsed());
                if left.is_zero() {
                    break;
                }
                match TcpStream::connect_timeout(&SocketAddr::new(*address, port), left) {
                    Ok(_) => return Ok(()),
                    Err(error) => last = error.to_string(),
                }
            }
            Err(last)
        });
        asking.join().unwrap_or_else(|_| Err("the thread ended".to_owned()))
    });
    connected.map_err(|error| format!("port {port}: {error}"))
}

impl Probe {
    /// Whether it is one, and within bounds.
    pub(crate) fn check(&self, arguments: usize) -> Result<(), Refusal> {
        let Probe { exec, tcp, every_ms, within_ms, failures, start_ms } = self;
        if exec.is_empty() != tcp.is_some() {
            return Err(Refusal::new("probe: allowed: one of `exec` and `tcp`"));
        }
        if exec.len() > arguments || exec.iter().any(|text| text.contains('\0')) {
            return Err(Refusal::new(format!(
                "probe.exec: {} arguments; allowed: at most {arguments}, without zeros",
                exec.len()
            )));
        }
        let bounds = [
            ("tcp", tcp.map_or(1, u32::from), 1, 65_535),
            ("every_ms", *every_ms, if tcp.is_some() { 100 } else { 1_000 }, 3_600_000),
            ("within_ms", *within_ms, 10, 60_000),
            ("failures", *failures, 1, 100),
            ("start_ms", *start_ms, 0, 3_600_000),
        ];
        for (key, found, least, most) in bounds {
            if !(least..=most).contains(&found) {
                return Err(Refusal::new(format!("probe.{key}: found {found}; allowed: {least} to {most}")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn probe() -> Probe {
        Probe { exec: Vec::new(), tcp: Some(1), every_ms: 100, within_ms: 100, failures: 2, start_ms: 1000 }
    }

    #[test]
    fn a_guest_ends_when_it_fails_in_a_row_and_not_while_it_starts() {
        let (mut health, probe) = (Health::default(), probe());
        let at = Duration::from_millis;
        assert!(!health.note(&probe, true, at(900)) && !health.note(&probe, true, at(999)), "it starts");
        assert!(!health.note(&probe, true, at(1000)));
        assert!(!health.note(&probe, false, at(1100)), "it answers in between");
        assert!(!health.note(&probe, true, at(1200)));
        assert!(health.note(&probe, true, at(1300)));
        let mut health = Health::default();
        assert!(!health.note(&probe, false, at(10)));
        // One that has answered is not starting any more.
        assert!(!health.note(&probe, true, at(20)) && health.note(&probe, true, at(30)));
    }

    #[test]
    fn a_port_answers_or_does_not() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let own = [IpAddr::V4(Ipv4Addr::LOCALHOST)];
        // Without root there is no other namespace to go to; the own one needs the right as well.
        if !rustix::process::geteuid().is_root() {
            println!("skipped: there is no root, whose right it is to enter network namespaces");
            return;
        }
        let within = Duration::from_secs(20);
        assert_eq!(connect(std::process::id(), &own, port, within), Ok(()));
        drop(listener);
        let refused = connect(std::process::id(), &own, port, within).expect_err("nothing listens");
        assert!(refused.starts_with(&format!("port {port}: ")), "{refused}");
    }

    #[test]
    fn a_tenants_programs_take_turns_and_leave_time_between() {
        let begin = Instant::now();
        let ten = Duration::from_millis(10);
        assert_eq!(after(begin, begin + ten), begin + 10 * ten);
        let turns = Turns::default();
        turns.take("a", || {
            // Another tenant's turn does not wait for this one; the same tenant's would.
            turns.take("b", || ());
            let table = turns.0.lock().expect("not poisoned");
            assert!(table["a"].try_lock().is_err() && table["b"].try_lock().is_ok());
        });
        let table = turns.0.lock().expect("not poisoned");
        let next = table["a"].lock().expect("not poisoned");
        assert!(next.is_some_and(|next| next > begin));
    }

    #[test]
    fn a_probe_is_one_thing_within_bounds() {
        assert_eq!(probe().check(8), Ok(()));
        for (change, key) in [
            (Probe { tcp: None, ..probe() }, "probe: "),
            (Probe { exec: vec!["a".into()], ..probe() }, "probe: "),
            (Probe { tcp: Some(0), ..probe() }, "probe.tcp"),
            (Probe { every_ms: 99, ..probe() }, "probe.every_ms"),
            (Probe { exec: vec!["a".into()], tcp: None, ..probe() }, "probe.every_ms"),
            (Probe { exec: vec!["a".into(); 9], tcp: None, every_ms: 1000, ..probe() }, "probe.exec"),
            (Probe { exec: vec!["a\0".into()], tcp: None, every_ms: 1000, ..probe() }, "probe.exec"),
            (Probe { within_ms: 60_001, ..probe() }, "probe.within_ms"),
            (Probe { failures: 0, ..probe() }, "probe.failures"),
            (Probe { start_ms: 3_600_001, ..probe() }, "probe.start_ms"),
        ] {
            let refused = change.check(8).expect_err(key).to_string();
            assert!(refused.starts_with(key) && refused.contains("allowed"), "{refused}");
        }
    }
}
