//! What the platform is on the links of devices that have addresses, and for interfaces that open devices
//! with addresses of their own: it answers for them, knows their neighbours, and tells the functions that
//! open them.
//!
//! 1. [`Stations::follow`] compares the devices and openers of a wiring with what is there, after each
//!    change: stations come, change and go, at ports that packets pass meanwhile.
//! 2. One thread, beside the workers, takes the frames that ports hand over, does what is due, and hands the
//!    answers out. It sleeps until a port or a function has something, or something is due.
//! 3. What functions read ([`nf_abi::DeviceEntry`]) is made anew when it changed, and given to each that
//!    opens the device; what they ask for comes by [`Stations::asked`]. What a guard asks for behind its
//!    opener's interface is an address that the opener claims ([`claims`]).
//! 4. Native processes that open devices are told the same, and ask the same: a port is one interface of
//!    theirs ([`Stations::table`]), under the bounds of their tenants.
//! 5. [`Stations::end`] gives back what stations hold of others, and ends the thread.
//!
//! Limits: bounds on frames are those of [`port::station`] and [`neighbours::Limits`], for each station.
//! Functions of a tenant ask for 2,000 addresses in a second, 4,096 at once, whose places in a station's
//! table and turns are the tenant's ([`neighbours::Asker`]), and are told those alone; functions ask again
//! for what is lost. Addresses that are on no network of a station are told to be unreachable for 20 s, 256
//! of each station, shared in the same way. Functions are told 100 times in a second at most, eight times at
//! once, and those of a tenant 200,000 entries in a second ([`mod@tenants`]).

mod asks;
mod claims;
mod entries;
mod feed;
mod frames;
mod off_link;
mod pace;
mod shown;
mod station;
mod tenants;
#[cfg(test)]
mod tests;

pub use frames::{DeviceFrames, StationFrames};
pub use shown::{ShownDevice, ShownNeighbour, ShownStation, StationReading};

use crate::devices::NextHops;
use asks::{Asked, Asks};
use engine::{Fleet, FleetInstance};
use feed::{Feed, Reader, is_read};
use guest::Ask;
use guest_wasm::watchdog;
use neighbours::Settings;
use nf_abi::DEVICE_ENTRY;
use pace::Pace;
use port::station as at_port;
use port_native::DeviceTable;
use station::Station;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;
use telemetry::clock::Nanos;
use tenants::Tenants;
use wiring::{INSIDE, OUTSIDE, Wiring, guarded_by};

/// A reader, and the entries that it is told.
type Told = (Reader, Arc<[u8]>);

/// Asks that are worked off before others have their turn at the stations.
const ASKS_AT_ONCE: usize = 1024;

/// From one time that functions are told to the next, in the long run, and how many times may follow one
/// another.
const TOLD_APART: Nanos = Nanos::from_millis(10);
const TOLD_AT_ONCE: u64 = 8;

/// The longest sleep: what no other thread tells of is found then.
const LONGEST: Nanos = Nanos::from_millis(1_000);

/// See the module's documentation.
pub(crate) struct Stations {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    asks: Arc<Asks>,
    /// What processes at ports are told, by the names of these, for as long as anything has it.
    tables: Mutex<HashMap<String, Weak<DeviceTable>>>,
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
    /// Addresses that guests answer for.
    guests: Vec<claims::OfGuest>,
    /// By function.
    feeds: HashMap<String, Feed>,
    tenants: Tenants,
    /// How often addresses had changed when claimed ones were last compared with the others.
    compared: u64,
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
    for (end, opening) in wiring.openers() {
        let (Some(station), Some(device)) = (wiring.station_of(end), wiring.devices.get(&opening.device))
        else {
            continue;
        };
        // Two that answer for one address would be a conflict to each host on the link.
        if station.answers_itself {
            continue;
        }
        let settings = station.settings;
        let interface = Some((station.function.to_owned(), station.interface));
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
        let shared = Shared::default();
        Stations { shared: Arc::new(shared), thread: Mutex::default() }
    }

    /// Functions asked for addresses. Does not wait.
    pub(crate) fn asker(&self) -> impl Fn(String, Vec<Ask>) + Send + Sync + use<> {
        let (asks, sleeper) = (self.shared.asks.clone(), self.shared.sleeper.clone());
        move |function, asked| {
            asks.put(function, asked);
            wake(&sleeper);
        }
    }

    /// What processes at a port of this name are told of its device. It is the same for the next port of the
    /// name, while the one before is there.
    pub(crate) fn table(&self, port: &str) -> Arc<DeviceTable> {
        let mut tables = self.shared.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.retain(|_, table| table.strong_count() > 0);
        if let Some(table) = tables.get(port).and_then(Weak::upgrade) {
            return table;
        }
        let (asked, name) = (self.asker(), port.to_owned());
        let table = Arc::new(DeviceTable::new(move |addresses| {
            asked(name.clone(), addresses.into_iter().map(|address| Ask { interface: 0, address }).collect());
        }));
        tables.insert(port.to_owned(), Arc::downgrade(&table));
        table
    }

    /// Makes stations what the wiring says. What could not be done, one line each.
    pub(crate) fn follow(&self, there: &There<'_>, fleet: &Arc<Fleet>) -> Vec<String> {
        let mut troubles = Vec::new();
        {
            let now = watchdog::clock().now();
            let mut state = self.shared.lock();
            let has_none = there.wiring.devices.is_empty() || wanted(there.wiring).is_empty();
            if state.stations.is_empty() && has_none {
                return troubles;
            }
            let sleeper = &self.shared.sleeper;
            state.follow(
                there,
                &|port| self.table(port),
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
        let mut pace = Pace::new(TOLD_APART, TOLD_AT_ONCE);
        let mut asked = VecDeque::new();
        loop {
            let now = watchdog::clock().now();
            if asked.is_empty() {
                asked = self.asks.take();
            }
            let may_tell = pace.ready() <= now;
            let (due, (told, later)) = {
                let mut state = self.lock();
                if state.ends {
                    return;
                }
                let due = state.work(&mut asked, now);
                (due, if may_tell { state.changed(now) } else { (Vec::new(), None) })
            };
            if !told.is_empty() {
                pace.spend(1, now);
                let mut functions = Vec::new();
                for (reader, entries) in told {
                    match reader {
                        Reader::Function(id) => functions.push((id, entries)),
                        Reader::Port(table) => table.tell(entries),
                    }
                }
                // Without the lock: workers come to a stop for it.
                if !functions.is_empty() && fleet.set_devices(functions).is_err() {
                    return;
                }
            }
            // What changed and is not told yet is looked at then.
            let next = Some(pace.ready()).filter(|ready| *ready > now);
            let more = (!asked.is_empty()).then_some(now);
            let due = [due, next, later, more].into_iter().flatten().min();
            let span = due.unwrap_or(now.saturating_add(LONGEST)).since(now).min(LONGEST);
            std::thread::park_timeout(Duration::from_nanos(span.0));
        }
    }
}

impl State {
    fn follow(
        &mut self,
        there: &There<'_>,
        table: &dyn Fn(&str) -> Arc<DeviceTable>,
        now: Nanos,
        waker: &dyn Fn() -> Box<dyn Fn() + Send>,
        troubles: &mut Vec<String>,
    ) {
        let wanted = wanted(there.wiring);
        self.guests = claims::of_guests(there.wiring);
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
                let next_hops = there.next_hops.get(&name.device);
                station.stand_at((&name, device, port), (there.ports, next_hops), waker);
                station.lead(next_hops.filter(|_| name.interface.is_none()));
            }
        }
        let mut before = std::mem::take(&mut self.feeds);
        for (name, interfaces) in feed::openers(there.wiring) {
            let (reader, tenant) = match (there.wiring.instances.get(&name), there.wiring.ports.get(&name)) {
                (Some(instance), _) => {
                    let Some(id) = there.instances.get(&name).copied() else { continue };
                    (Reader::Function(id), &instance.tenant)
                }
                (None, Some(port)) => (Reader::Port(table(&name)), &port.tenant),
                (None, None) => continue,
            };
            let feed = before.remove(&name).filter(|feed| feed.reader == reader && feed.tenant == *tenant);
            let mut feed = feed.unwrap_or_else(|| Feed::new(reader, tenant));
            feed.interfaces = interfaces;
            feed.members = there.wiring.instances.get(&name).map(feed::members).unwrap_or_default();
            self.feeds.insert(name, feed);
        }
        // One that opens no station any more knows of none.
        let left = before.into_iter().filter(|(name, feed)| match &feed.reader {
            Reader::Function(id) => there.instances.get(name) == Some(id),
            Reader::Port(_) => is_read(there.wiring, name),
        });
        for (name, mut feed) in left {
            feed.interfaces.iter_mut().for_each(|interface| *interface = None);
            feed.members.clear();
            self.feeds.insert(name, feed);
        }
        self.compared = u64::MAX;
        let askers = self.tenants.follow(&self.feeds.values().map(|feed| feed.tenant.as_str()).collect());
        self.stations.values_mut().for_each(|station| station.keep_askers(&askers));
    }

    /// Does what there is to do; when something is due next. Of what was asked, a part.
    fn work(&mut self, asked: &mut VecDeque<Asked>, now: Nanos) -> Option<Nanos> {
        let mut worked_off = 0;
        while worked_off < ASKS_AT_ONCE
            && let Some((function, asks)) = asked.pop_front()
        {
            let Some(feed) = self.feeds.get(&function) else { continue };
            let Some(tenant) = self.tenants.by_name.get_mut(&feed.tenant) else { continue };
            let guarded =
                guarded_by(&function).and_then(|_| feed.interfaces.get(usize::from(OUTSIDE))?.clone());
            for Ask { interface, address } in asks {
                if let (Some(station), INSIDE) = (&guarded, interface) {
                    claims::claim(&mut self.stations, &self.guests, station, address, now);
                    worked_off += 1;
                    continue;
                }
                let device = feed.interfaces.get(usize::from(interface)).and_then(Option::as_ref);
                let Some(station) = device.and_then(|device| self.stations.get_mut(device)) else { continue };
                if !tenant.asks.take(now) {
                    break;
                }
                station.resolve(tenant.asker, address, now);
                worked_off += 1;
            }
        }
        let due = self.stations.values_mut().filter_map(|station| station.work(now)).min();
        let changes = self.stations.values().map(Station::addresses_version).sum();
        if self.compared != changes {
            self.compared = changes;
            if claims::compare(&mut self.stations, &self.guests) {
                return Some(now);
            }
        }
        due
    }

    /// What functions are to be told now, because it is not what they were told before; and when to look
    /// again for those of tenants that were told as much as they may be.
    fn changed(&mut self, now: Nanos) -> (Vec<Told>, Option<Nanos>) {
        let (mut told, mut later): (Vec<_>, Option<Nanos>) = (Vec::new(), None);
        let mut spent: BTreeMap<&str, u64> = BTreeMap::new();
        for feed in self.feeds.values_mut() {
            let Some(tenant) = self.tenants.by_name.get(&feed.tenant) else { continue };
            let ready = tenant.told.ready();
            if ready > now {
                later = Some(later.map_or(ready, |other| other.min(ready)));
            } else if let Some(entries) = feed.changed(tenant.asker, &self.stations) {
                *spent.entry(&feed.tenant).or_default() += (entries.len() / DEVICE_ENTRY) as u64;
                told.push((feed.reader.clone(), entries));
            }
        }
        for (name, entries) in spent {
            if let Some(tenant) = self.tenants.by_name.get_mut(name) {
                tenant.told.spend(entries, now);
            }
        }
        (told, later)
    }
}
