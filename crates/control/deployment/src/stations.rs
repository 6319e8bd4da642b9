//! What the platform is on the links of devices that have addresses, and for interfaces that open devices with addresses
//! of their own: it answers for them, knows their neighbours, and tells the functions that open them.
//!
//! 1. [`Stations::follow`] compares the devices and openers of a wiring with what is there, after each change: stations
//!    come, change and go, at ports that packets pass meanwhile.
//! 2. One thread, beside the workers, takes the frames that ports hand over, does what is due, and hands the
//!    answers out. It sleeps until a port or a function has something, or something is due.
//! 3. What functions read ([`nf_abi::DeviceEntry`]) is made anew when it changed, and given to each that opens the
//!    device; what they ask for comes by [`Stations::asked`].
//! 4. [`Stations::end`] gives back what stations hold of others, and ends the thread.
//!
//! Limits: bounds on frames are those of [`port::station`] and [`neighbours::Limits`], for each station; 1,024
//! messages with asks wait, and functions ask again for what is lost. Addresses that are on no network of a station
//! are told to be unreachable for 20 s, 256 of each station. Functions are told 100 times in a second at most, eight
//! times at once ([`mod@pace`]).

mod entries;
mod feed;
mod pace;
mod shown;
mod station;
#[cfg(test)]
mod tests;

pub use shown::{ShownDevice, ShownNeighbour, ShownStation, StationReading};

use crate::devices::NextHops;
use engine::{Fleet, FleetInstance};
use feed::Feed;
use guest::Ask;
use guest_wasm::watchdog;
use neighbours::Settings;
use pace::Pace;
use port::station as at_port;
use station::Station;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;
use telemetry::clock::Nanos;
use wiring::{Edge, Endpoint, Wiring};

/// Messages with asks that wait.
const ASKS: usize = 1024;

/// The longest sleep: what no other thread tells of is found then.
const LONGEST: Nanos = Nanos::from_millis(1_000);

/// What functions asked for: their name, and which addresses.
type Asked = (String, Vec<Ask>);

/// See the module's documentation.
pub(crate) struct Stations {
    shared: Arc<Shared>,
    asks: SyncSender<Asked>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    asks: Mutex<Receiver<Asked>>,
    /// The thread, once there is one.
    sleeper: Arc<OnceLock<Thread>>,
}

/// A device's station, or that of an interface that opens it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct StationName {
    device: String,
    /// The function, and the number of its interface.
    interface: Option<(String, u16)>,
}

/// In words, for the operator.
impl fmt::Display for StationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((function, number)) = &self.interface {
            write!(f, "interface `{function}:{number}` at ")?;
        }
        write!(f, "device `{}`", self.device)
    }
}

#[derive(Default)]
struct State {
    stations: BTreeMap<StationName, Station>,
    /// By function.
    feeds: HashMap<String, Feed>,
    ends: bool,
}

/// What a station is to be.
struct Wanted<'a> {
    device: &'a wiring::Device,
    settings: &'a Settings,
    /// It is at this port of the device alone.
    port: Option<&'a String>,
}

/// The stations of a wiring.
fn wanted(wiring: &Wiring) -> BTreeMap<StationName, Wanted<'_>> {
    let mut wanted = BTreeMap::new();
    for (name, device) in &wiring.devices {
        if let Some(settings) = &device.station {
            let name = StationName { device: name.clone(), interface: None };
            wanted.insert(name, Wanted { device, settings, port: None });
        }
    }
    for (end, opening) in wiring.edges.iter().filter_map(Edge::opening) {
        let Endpoint::Interface(function, number) = end else { continue };
        let settings = wiring.instances.get(function).and_then(|instance| instance.stations.get(number));
        let (Some(settings), Some(device)) = (settings, wiring.devices.get(&opening.device)) else {
            continue;
        };
        let interface = Some((function.clone(), *number));
        let name = StationName { device: opening.device.clone(), interface };
        wanted.insert(name, Wanted { device, settings, port: opening.port.as_ref() });
    }
    wanted
}

/// What is there of a wiring.
pub(crate) struct There<'a> {
    pub(crate) wiring: &'a Wiring,
    pub(crate) instances: &'a HashMap<String, FleetInstance>,
    pub(crate) ports: &'a HashMap<String, Arc<at_port::Stations>>,
    pub(crate) next_hops: &'a HashMap<String, NextHops>,
}

impl Stations {
    pub(crate) fn new() -> Stations {
        let (asks, receiver) = sync_channel(ASKS);
        let shared = Shared { state: Mutex::default(), asks: Mutex::new(receiver), sleeper: Arc::default() };
        Stations { shared: Arc::new(shared), asks, thread: Mutex::default() }
    }

    /// Functions asked for addresses. Does not wait.
    pub(crate) fn asker(&self) -> impl Fn(String, Vec<Ask>) + Send + Sync + use<> {
        let (asks, sleeper) = (self.asks.clone(), self.shared.sleeper.clone());
        move |instance, asked| {
            // What finds no room is asked for again.
            if asks.try_send((instance, asked)).is_ok() {
                wake(&sleeper);
            }
        }
    }

    /// Makes stations what the wiring says. What could not be done, one line each.
    pub(crate) fn follow(&self, there: &There<'_>, fleet: &Arc<Fleet>) -> Vec<String> {
        let mut troubles = Vec::new();
        {
            let now = watchdog::clock().now();
            let mut state = self.shared.lock();
            if state.stations.is_empty() && wanted(there.wiring).is_empty() {
                return troubles;
            }
            let sleeper = &self.shared.sleeper;
            state.follow(
                there,
                now,
                &|| {
                    let sleeper = sleeper.clone();
                    Box::new(move || wake(&sleeper))
                },
                &mut troubles,
            );
        }
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let (shared, fleet) = (self.shared.clone(), fleet.clone());
            let started = std::thread::Builder::new().name("neighbours".to_owned());
            match started.spawn(move || shared.run(&fleet)) {
                Ok(handle) => {
                    // It is started once.
                    let _ = self.shared.sleeper.set(handle.thread().clone());
                    *thread = Some(handle);
                }
                Err(error) => troubles.push(format!("the thread for neighbours: {error}")),
            }
        }
        drop(thread);
        wake(&self.shared.sleeper);
        troubles
    }

    /// Gives back what stations hold of others, and ends the thread.
    pub(crate) fn end(&self) {
        {
            let mut state = self.shared.lock();
            let now = watchdog::clock().now();
            state.stations.values_mut().for_each(|station| station.stop(now));
            state.ends = true;
        }
        wake(&self.shared.sleeper);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // It has ended by a panic or by itself.
            let _ = thread.join();
        }
    }
}

impl Drop for Stations {
    fn drop(&mut self) {
        self.end();
    }
}

/// Wakes the thread, if there is one. Called by workers: it waits for no lock.
fn wake(sleeper: &OnceLock<Thread>) {
    if let Some(thread) = sleeper.get() {
        thread.unpark();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, fleet: &Fleet) {
        let mut pace = Pace::default();
        loop {
            let now = watchdog::clock().now();
            let asked: Vec<Asked> =
                self.asks.lock().unwrap_or_else(PoisonError::into_inner).try_iter().take(ASKS).collect();
            let (due, told) = {
                let mut state = self.lock();
                if state.ends {
                    return;
                }
                let due = state.work(asked, now);
                let may_tell = pace.ready() <= now;
                (due, if may_tell { state.changed() } else { Vec::new() })
            };
            if !told.is_empty() {
                pace.told(now);
            }
            // Without the lock: the function's worker comes to a stop for it.
            for (instance, entries) in told {
                if fleet.set_devices(instance, entries).is_err() {
                    return;
                }
            }
            // What changed and is not told yet is looked at then.
            let next = Some(pace.ready()).filter(|ready| *ready > now);
            let due = [due, next].into_iter().flatten().min();
            let span = due.unwrap_or(now.saturating_add(LONGEST)).since(now).min(LONGEST);
            std::thread::park_timeout(Duration::from_nanos(span.0));
        }
    }
}

impl State {
    fn follow(
        &mut self,
        there: &There<'_>,
        now: Nanos,
        waker: &dyn Fn() -> Box<dyn Fn() + Send>,
        troubles: &mut Vec<String>,
    ) {
        let wanted = wanted(there.wiring);
        self.stations.retain(|name, station| {
            let stays = wanted.contains_key(name);
            if !stays {
                station.stop(now);
            }
            stays
        });
        for (name, Wanted { device, settings, port }) in wanted {
            let followed = match self.stations.get_mut(&name) {
                Some(station) => station.change(settings, now),
                None => Station::new(&name, settings, now)
                    .map(|made| drop(self.stations.insert(name.clone(), made))),
            };
            if let Err(error) = followed {
                troubles.push(format!("{name}: {error}"));
            }
            if let Some(station) = self.stations.get_mut(&name) {
                station.stand_at((&name, device, port), there.ports, waker);
                station.lead(there.next_hops.get(&name.device).filter(|_| name.interface.is_none()));
            }
        }
        let mut before = std::mem::take(&mut self.feeds);
        for (name, interfaces) in feed::openers(there.wiring) {
            let Some(id) = there.instances.get(&name).copied() else { continue };
            let feed = before.remove(&name).filter(|feed| feed.id == id);
            let mut feed = feed.unwrap_or_else(|| Feed::new(id));
            feed.interfaces = interfaces;
            self.feeds.insert(name, feed);
        }
        // One that opens no station any more knows of none.
        let left = before.into_iter().filter(|(name, feed)| there.instances.get(name) == Some(&feed.id));
        for (name, mut feed) in left {
            feed.interfaces.iter_mut().for_each(|interface| *interface = None);
            self.feeds.insert(name, feed);
        }
    }

    /// Does what there is to do; when something is due next.
    fn work(&mut self, asked: Vec<Asked>, now: Nanos) -> Option<Nanos> {
        for (function, asks) in asked {
            let Some(feed) = self.feeds.get(&function) else { continue };
            for Ask { interface, address } in asks {
                let device = feed.interfaces.get(usize::from(interface)).and_then(Option::as_ref);
                if let Some(station) = device.and_then(|device| self.stations.get_mut(device)) {
                    station.resolve(address, now);
                }
            }
        }
        self.stations.values_mut().filter_map(|station| station.work(now)).min()
    }

    /// What functions are to be told, because it is not what they were told before.
    fn changed(&mut self) -> Vec<(FleetInstance, Arc<[u8]>)> {
        let stations = &self.stations;
        self.feeds.values_mut().filter_map(|feed| Some((feed.id, feed.changed(stations)?))).collect()
    }
}
