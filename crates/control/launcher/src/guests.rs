//! All guests: changing them, ending them, and finding those of the launcher before. [`starting`] starts
//! them.

use crate::cgroup::{Cgroups, Usage};
use crate::images::{Images, passable};
use crate::kvm::Kvm;
use crate::log::Log;
use crate::probe::{self, Turns};
use crate::record::{self, Record};
use crate::request::{Ended, Guest, Kill, Limit, List, Listed, Share, Start, State, Stop};
use crate::runtime::Runtime;
use crate::sockets::Sockets;
use crate::{LauncherError, Permits, Refusal, Settings, bundle, interfaces, watch};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Signal, pidfd_send_signal};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

mod starting;
#[cfg(test)]
mod tests;

/// The longest that a stop waits for a killed guest.
const END: Duration = Duration::from_secs(30);
/// The longest that a change of a name is waited for: as long as the runtime may take for one.
const LONGEST_CHANGE: Duration = Duration::from_secs(60);
const GRACE_MAX: u32 = 10_000;
const WAIT_MAX: u32 = 30_000;
/// The most processes that may spare a guest.
const UNLESS_MAX: usize = 256;
/// How long a share holds that is not said again: then its client has ended, and no worker of it is there.
pub const SHARE_HOLDS: Duration = Duration::from_secs(4);
/// The most of a share, in thousandths of one processor.
const MOST_SHARE: u32 = 1_000_000;

/// All guests, and what is needed to start one.
#[derive(Debug)]
pub(crate) struct Guests {
    permits: Permits,
    images: Images,
    runtime: Runtime,
    folder: PathBuf,
    sockets: Sockets,
    cgroups: Cgroups,
    table: Mutex<Table>,
    changed: Condvar,
    turns: Turns,
    kvm: Kvm,
}

/// What a guest may use of the processors for a while.
#[derive(Clone, Copy, Debug)]
struct Lease {
    quota: Option<u32>,
    until: Instant,
}

#[derive(Debug, Default)]
struct Table {
    /// A thread sees to the end of leases.
    leases: bool,
    version: u64,
    /// The launcher ends: none is started any more.
    closing: bool,
    guests: BTreeMap<String, Entry>,
    /// Names of which something is being changed by the name alone, and how many changes: none is started by
    /// one of them, or it would get what was allowed for the guest before it.
    changing: BTreeMap<String, usize>,
    /// Names of guests in which a program is being run: none is started by one of them either, or it would be
    /// run in that.
    entered: BTreeMap<String, usize>,
}

#[derive(Debug)]
struct Entry {
    start: Start,
    state: State,
    /// Its unpacked image.
    root: Option<PathBuf>,
    /// To send signals to its first process while it runs.
    held: Option<OwnedFd>,
    /// Its network namespace, where there are TAP devices in it.
    network: Option<Arc<File>>,
    /// When its first process was started.
    began: Option<u64>,
    /// Its probe has been answered.
    answered: bool,
    /// It is being killed, and this is how it will have ended.
    condemned: Option<Ended>,
    /// What it may use of the processors until the share is over.
    share: Option<Lease>,
    /// What it wrote. It is locked for that alone: a guest that writes without end keeps the table from no
    /// other.
    log: Arc<Mutex<Log>>,
}

impl Entry {
    fn is_being_started(&self) -> bool {
        matches!(self.state, State::Starting | State::Attached)
    }

    fn runs(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    /// The unpacked image that it needs.
    fn used(&self) -> Option<PathBuf> {
        self.root.clone().filter(|_| !matches!(self.state, State::Ended(_)))
    }
}

impl Guests {
    /// Opens the launcher's folders, and finds what ran.
    pub(crate) fn open(settings: &Settings, permits: Permits) -> Result<Arc<Guests>, LauncherError> {
        let folder = settings.run.join("guests");
        let state = settings.run.join("runtime");
        for made in [&settings.run, &folder, &state] {
            passable(made).map_err(LauncherError::file(made))?;
        }
        let guests = Arc::new(Guests {
            images: Images::open(&settings.state.join("images"))?,
            runtime: Runtime::new(&permits.runtime, &state),
            permits,
            sockets: Sockets::open(&settings.sockets).map_err(LauncherError::file(&settings.sockets))?,
            folder,
            cgroups: Cgroups { root: settings.cgroups.clone(), parent: settings.group.clone() },
            table: Mutex::default(),
            changed: Condvar::new(),
            turns: Turns::default(),
            kvm: Kvm::new(settings),
        });
        guests.find().map_err(LauncherError::file(&guests.folder))?;
        Ok(guests)
    }

    pub(crate) fn permits(&self) -> &Permits {
        &self.permits
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, table: &mut Table) {
        table.version += 1;
        self.changed.notify_all();
    }

    /// Holds what the launcher before started and still runs, and ends everything else of it.
    fn find(self: &Arc<Guests>) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let folder = entry?.path();
            let Ok(record) = Record::read(&folder) else {
                // Its start got no further than its folder.
                fs::remove_dir_all(&folder)?;
                continue;
            };
            let name = record.start.name.clone();
            let entry = Entry {
                start: record.start.clone(),
                state: State::Starting,
                root: record.root.clone(),
                held: None,
                network: None,
                began: record.process.map(|(_, began)| began),
                answered: false,
                condemned: None,
                share: None,
                log: Arc::default(),
            };
            self.table().guests.insert(name.clone(), entry);
            if self.adopt(&folder, &record).is_none() {
                self.has_ended(&name, Ended::Unknown);
            }
        }
        let known: Vec<String> = self.table().guests.keys().cloned().collect();
        for name in self.cgroups.names().into_iter().filter(|name| !known.contains(name)) {
            self.clear(&name, &[]);
        }
        let folders = self.table().guests.values().map(|it| it.start.folder().to_owned()).collect::<Vec<_>>();
        self.sockets.retain(&folders)
    }

    /// Watches a guest again that runs.
    fn adopt(self: &Arc<Guests>, folder: &Path, record: &Record) -> Option<()> {
        let (pid, _) = record.process?;
        let (held, watched) = (record.hold()?, record.hold()?);
        let output = reader(folder).ok()?;
        let name = &record.start.name;
        let has_taps = interfaces::taps(&record.start.interfaces).next().is_some();
        let network = if has_taps { Some(interfaces::network(pid).ok()?) } else { None };
        let log = {
            let mut table = self.table();
            let entry = table.guests.get_mut(name)?;
            // By its number, behind the descriptor that says that it is still this process.
            entry.network = network.map(Arc::new);
            entry.held = Some(held);
            entry.state = State::Running { pid };
            let log = entry.log.clone();
            self.note(&mut table);
            log
        };
        // A share that the launcher before was told ended with it.
        self.cgroups.set_quota(name, record.start.limits.cap);
        watch::begin(self, name, watched, output, log).ok()?;
        // One that cannot be asked how it is runs on; nothing else is lost with the thread that there is none
        // for.
        let _ = probe::begin(self, &record.start, pid);
        Some(())
    }

    /// Takes a name for a change of what has it, when no other change has it and it is free for this one.
    fn claim<'a>(
        &'a self,
        name: &str,
        is_free: impl Fn(&Table) -> bool,
    ) -> Result<(ByName<'a>, MutexGuard<'a, Table>), Refusal> {
        let is_free = |table: &Table| !table.changing.contains_key(name) && is_free(table);
        let mut table = self.wait(self.table(), LONGEST_CHANGE, is_free);
        if !is_free(&table) {
            return Err(Refusal::new(format!("name: `{name}` is being changed; allowed: to ask again")));
        }
        Ok((self.change(&mut table, name), table))
    }

    /// Begins a change of what has a name, or had it.
    fn change(&self, table: &mut Table, name: &str) -> ByName<'_> {
        let of: Counted = |table| &mut table.changing;
        *of(table).entry(name.to_owned()).or_default() += 1;
        ByName { guests: self, name: name.to_owned(), of }
    }

    /// Begins to run something in the guest with this first process, if it runs.
    fn enter(&self, name: &str, pid: u32) -> Option<ByName<'_>> {
        let mut table = self.table();
        let of: Counted = |table| &mut table.entered;
        runs_as(&table, name, pid).then(|| {
            *of(&mut table).entry(name.to_owned()).or_default() += 1;
            ByName { guests: self, name: name.to_owned(), of }
        })
    }

    /// Ends whatever is left of a guest on this host.
    fn clear(&self, name: &str, links: &[crate::Interface]) {
        let killed = self.cgroups.kill(name);
        if let Err(refused) = self.runtime.delete(name) {
            console::error().line(&format!("superfluid launcher: `{name}`: {refused}"));
        }
        self.cgroups.remove(name);
        interfaces::remove(links);
        if !killed {
            let left = "processes of it are left after SIGKILL; the next start of the launcher tries again";
            console::error().line(&format!("superfluid launcher: `{name}`: {left}"));
        }
    }

    /// Removes the TAP devices of a guest that has ended; returns its interfaces.
    fn remove_taps(&self, name: &str) -> Vec<crate::Interface> {
        let taken =
            self.table().guests.get_mut(name).map(|it| (it.start.interfaces.clone(), it.network.take()));
        let (links, network) = taken.unwrap_or_default();
        if let Some(network) = network {
            interfaces::remove_taps(&network, &links);
        }
        links
    }

    /// A guest's first process is gone.
    pub(crate) fn has_ended(&self, name: &str, ended: Ended) {
        let links = self.remove_taps(name);
        // Its control group goes with it. One that the kernel ended for another reason, after it had ended
        // another of its processes for want of memory, is told of as if that had been the reason.
        let ended = match ended {
            Ended::Signal(9) if self.cgroups.killed_for_memory(name) > 0 => Ended::Memory,
            ended => ended,
        };
        self.clear(name, &links);
        let mut table = self.table();
        if let Some(entry) = table.guests.get_mut(name) {
            entry.state = State::Ended(entry.condemned.unwrap_or(ended));
            (entry.held, entry.share) = (None, None);
        }
        self.note(&mut table);
    }

    /// The guest with this first process has answered its probe for the first time.
    pub(crate) fn has_answered(&self, name: &str, pid: u32) {
        let mut table = self.table();
        if runs_as(&table, name, pid)
            && let Some(entry) = table.guests.get_mut(name)
        {
            entry.answered = true;
            self.note(&mut table);
        }
    }

    /// Whose turn it is to run programs of probes.
    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Whether the guest with this first process ends within so long, or has ended.
    pub(crate) fn ends_within(&self, name: &str, pid: u32, most: Duration) -> bool {
        let runs = |table: &Table| runs_as(table, name, pid);
        let table = self.wait(self.table(), most, |table| !runs(table));
        !runs(&table)
    }

    /// Runs a program in the guest with this first process, as its first process was started.
    pub(crate) fn run_inside(
        &self,
        name: &str,
        pid: u32,
        program: &[String],
        within: Duration,
    ) -> Result<(), String> {
        let Some(_entered) = self.enter(name, pid) else { return Ok(()) };
        let pid_file = self.folder.join(name).join("probe");
        let late = || {
            if let Some(number) = record::number(&pid_file).ok().and_then(|number| number.try_into().ok()) {
                self.cgroups.kill_one(name, number);
            }
        };
        let done = self.runtime.exec(name, program, &pid_file, within, &late);
        let _ = fs::remove_file(&pid_file);
        done.map_err(|refused| refused.to_string())
    }

    /// Kills the guest of this name that one of these processes is of, or one that stands by it.
    pub(crate) fn kill(&self, kill: &Kill) -> Result<(), Refusal> {
        let found: usize = kill.unless.iter().map(|these| these.len().max(1)).sum();
        if found > UNLESS_MAX {
            return Err(Refusal::new(format!(
                "unless: found {found} processes; allowed: at most {UNLESS_MAX}"
            )));
        }
        let running = |(name, entry): (&String, &Entry)| match entry.state {
            State::Running { pid } if entry.start.folder() == kill.name => Some((name.clone(), pid)),
            _ => None,
        };
        let running: Vec<(String, u32)> = self.table().guests.iter().filter_map(running).collect();
        let Some((name, pid)) = running.into_iter().find(|(name, _)| self.cgroups.has(name, kill.pid)) else {
            return Err(Refusal::new(format!(
                "pid: found {}; allowed: a process of `{}` or of a guest that stands by it, which runs",
                kill.pid, kill.name
            )));
        };
        let has_one = |these: &Vec<u32>| these.iter().any(|pid| self.cgroups.has(&name, *pid));
        if !kill.unless.is_empty() && kill.unless.iter().all(has_one) {
            return Err(Refusal::new(format!(
                "unless: found a process of `{name}` at each socket; allowed: to kill it when there is none at one"
            )));
        }
        self.condemn(&name, pid, Ended::Failed(kill.failure), &kill.failure.to_string());
        Ok(())
    }

    /// Kills the guest with this first process, which will have ended like this.
    pub(crate) fn condemn(&self, name: &str, pid: u32, ended: Ended, reason: &str) {
        let mut table = self.table();
        if !runs_as(&table, name, pid) {
            return;
        }
        let Some(entry) = table.guests.get_mut(name) else { return };
        entry.condemned = Some(ended);
        let mut log = entry.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.take(format!("superfluid: {reason}\n").as_bytes());
        drop(log);
        if let Some(held) = &entry.held {
            // It may be gone already.
            let _ = pidfd_send_signal(held, Signal::KILL);
        }
    }

    /// The queues of a guest's TAP devices, by their outer names.
    pub(crate) fn queues(&self, name: &str) -> Result<Vec<(String, OwnedFd)>, Refusal> {
        let (network, interfaces) = {
            let table = self.table();
            let entry = table.guests.get(name).ok_or_else(|| none(name))?;
            (entry.network.clone(), entry.start.interfaces.clone())
        };
        match network {
            Some(network) => interfaces::queues(&network, &interfaces),
            None => Err(Refusal::new(format!(
                "name: `{name}` has no TAP devices now; allowed: a guest that runs and has some"
            ))),
        }
    }

    /// Changes limits.
    pub(crate) fn limit(&self, limit: &Limit) -> Result<(), Refusal> {
        let Limit { name, limits } = limit;
        let (_changing, table) = self.claim(name, |_| true)?;
        let entry = table.guests.get(name).ok_or_else(|| none(name))?;
        self.permits.check_limits(&entry.start.tenant, limits)?;
        if !matches!(entry.state, State::Running { .. }) {
            return Err(Refusal::new(format!("name: `{name}` does not run; allowed: one that does")));
        }
        drop(table);
        // By its name: until this is done no other guest has it.
        self.runtime.update(name, &bundle::resources(limits, false).to_string())?;
        let mut table = self.table();
        let entry = table.guests.get_mut(name).ok_or_else(|| none(name))?;
        entry.start.limits = crate::Limits { files: entry.start.limits.files, ..*limits };
        // The runtime has written another quota.
        entry.share = None;
        // The next launcher goes on with these. As long as the guest is in the table, its folder is there.
        let folder = self.folder.join(name);
        let mut record = Record::read(&folder).map_err(own)?;
        record.start.limits = entry.start.limits;
        record.write(&folder).map_err(own)
    }

    /// Sets what guests may use of the processors for [`SHARE_HOLDS`], and says what they have used.
    pub(crate) fn share(self: &Arc<Guests>, share: &Share) -> Result<BTreeMap<String, u64>, Refusal> {
        let mut changed = Vec::new();
        let mut table = self.table();
        for (name, most) in &share.most {
            if let Some(found) = most.filter(|most| !(10..=MOST_SHARE).contains(most)) {
                return Err(Refusal::new(format!(
                    "most.{name}: found {found}; allowed: 10 to {MOST_SHARE} thousandths of a processor, or null"
                )));
            }
        }
        for (name, most) in &share.most {
            let Some(entry) = table.guests.get_mut(name) else { continue };
            if !matches!(entry.state, State::Running { .. }) {
                continue;
            }
            let cap = entry.start.limits.cap;
            let quota = most.map_or(cap, |most| Some(cap.map_or(most, |cap| cap.min(most))));
            let before = entry.share.map(|lease| lease.quota);
            entry.share = Some(Lease { quota, until: Instant::now() + SHARE_HOLDS });
            if before != Some(quota) {
                changed.push((name.clone(), quota));
            }
        }
        let begins = !table.leases && table.guests.values().any(|entry| entry.share.is_some());
        table.leases |= begins;
        drop(table);
        // What the kernel does for this takes no time to speak of, and no process.
        changed.iter().for_each(|(name, quota)| self.cgroups.set_quota(name, *quota));
        if begins {
            let this = self.clone();
            let ends = move || this.end_leases();
            if let Err(error) = std::thread::Builder::new().name("shares".into()).spawn(ends) {
                // The next share asks for one again.
                self.table().leases = false;
                return Err(own(error));
            }
        }
        let used = |name: &String| Some((name.clone(), self.cgroups.usage(name).cpu_us?));
        Ok(share.most.keys().filter_map(used).collect())
    }

    /// Gives guests what their limits say when no share has been set for too long, until none has one.
    fn end_leases(&self) {
        loop {
            std::thread::sleep(SHARE_HOLDS / 4);
            let mut table = self.table();
            let now = Instant::now();
            let mut over = Vec::new();
            for (name, entry) in &mut table.guests {
                if entry.share.is_some_and(|lease| lease.until <= now) {
                    entry.share = None;
                    over.push((name.clone(), entry.start.limits.cap));
                }
            }
            table.leases = table.guests.values().any(|entry| entry.share.is_some());
            let goes_on = table.leases;
            drop(table);
            over.iter().for_each(|(name, cap)| self.cgroups.set_quota(name, *cap));
            if !goes_on {
                return;
            }
        }
    }

    /// Ends a guest and forgets it.
    pub(crate) fn stop(&self, stop: &Stop) -> Result<(), Refusal> {
        let Stop { name, grace_ms } = stop;
        let ended =
            |table: &Table| table.guests.get(name).is_none_or(|entry| matches!(entry.state, State::Ended(_)));
        let table = self.table();
        let entry = table.guests.get(name).ok_or_else(|| none(name))?;
        if entry.is_being_started() {
            return Err(Refusal::new(format!(
                "name: `{name}` is being started; allowed: to wait until it runs"
            )));
        }
        let grace = Duration::from_millis((*grace_ms).min(GRACE_MAX).into());
        let send = |table: &Table, signal| {
            if let Some(held) = table.guests.get(name).and_then(|entry| entry.held.as_ref()) {
                // It may be gone already.
                let _ = pidfd_send_signal(held, signal);
            }
        };
        if !grace.is_zero() {
            send(&table, Signal::TERM);
        }
        let table = self.wait(table, grace, ended);
        send(&table, Signal::KILL);
        let mut table = self.wait(table, END, ended);
        if !ended(&table) {
            return Err(Refusal::new(format!("`{name}` has been killed and has not ended within {END:?}")));
        }
        // Its folders are by its name, too.
        let _changing = self.change(&mut table, name);
        let removed = table.guests.remove(name);
        self.note(&mut table);
        drop(table);
        removed.iter().for_each(|entry| self.sockets.leave(entry.start.folder()));
        fs::remove_dir_all(self.folder.join(name)).map_err(Refusal::of("the guest's folder"))
    }

    /// Ends all guests, at the launcher's own end.
    pub(crate) fn stop_all(&self) {
        let mut table = self.table();
        table.closing = true;
        let starting = |table: &Table| table.guests.values().any(Entry::is_being_started);
        let table = self.wait(table, END, |table| !starting(table));
        let names: Vec<String> = table.guests.keys().cloned().collect();
        drop(table);
        for name in names {
            if let Err(refused) = self.stop(&Stop { name: name.clone(), grace_ms: 0 }) {
                console::error().line(&format!("superfluid launcher: `{name}`: {refused}"));
            }
        }
        self.cgroups.remove_parent();
    }

    /// Waits until something holds, for so long.
    fn wait<'a>(
        &self,
        mut table: MutexGuard<'a, Table>,
        most: Duration,
        until: impl Fn(&Table) -> bool,
    ) -> MutexGuard<'a, Table> {
        let begin = Instant::now();
        while !until(&table) {
            let left = most.saturating_sub(begin.elapsed());
            if left.is_zero() {
                break;
            }
            table = self.changed.wait_timeout(table, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        table
    }

    /// What there is.
    pub(crate) fn list(&self, list: &List) -> Listed {
        let most = Duration::from_millis(list.wait_ms.min(WAIT_MAX).into());
        let table =
            self.wait(self.table(), most, |table| list.after.is_none_or(|after| table.version > after));
        let guests = table.guests.iter().map(|(name, entry)| {
            let written = entry.log.lock().unwrap_or_else(PoisonError::into_inner);
            let log = if list.log_of.as_ref() == Some(name) { written.lines() } else { Vec::new() };
            Guest {
                name: name.clone(),
                tenant: entry.start.tenant.clone(),
                state: entry.state.clone(),
                mark: entry.start.mark.clone(),
                memory: None,
                killed_for_memory: 0,
                cpu_us: None,
                began: entry.began.filter(|_| entry.runs()),
                ready: entry.runs() && (entry.answered || entry.start.probe.is_none()),
                log,
                log_lost: written.lost,
            }
        });
        let (version, mut guests) = (table.version, guests.collect::<Vec<_>>());
        drop(table);
        // Some files of the kernel's for each: no start waits for that, however often a client asks.
        for guest in &mut guests {
            let Usage { memory, cpu_us } = self.cgroups.usage(&guest.name);
            (guest.memory, guest.cpu_us) = (memory, cpu_us);
            guest.killed_for_memory = self.cgroups.killed_for_memory(&guest.name);
        }
        Listed { version, guests }
    }
}

/// Which of the tables of names with counts.
type Counted = fn(&mut Table) -> &mut BTreeMap<String, usize>;

/// Something is being done to the guest of this name, until this is dropped. It must not be while the table
/// is locked.
struct ByName<'a> {
    guests: &'a Guests,
    name: String,
    of: Counted,
}

impl Drop for ByName<'_> {
    fn drop(&mut self) {
        let mut table = self.guests.table();
        let counts = (self.of)(&mut table);
        if let Some(count) = counts.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.name);
            }
        }
        self.guests.changed.notify_all();
    }
}

fn own(error: io::Error) -> Refusal {
    Refusal::new(format!("the guest's folder: {error}"))
}

fn runs_as(table: &Table, name: &str, pid: u32) -> bool {
    table.guests.get(name).is_some_and(|entry| entry.state == State::Running { pid })
}

fn none(name: &str) -> Refusal {
    Refusal::new(format!("name: there is no guest `{name}`; allowed: one that `list` shows"))
}

/// The reading end, open for writing too: a container that closes its output ends no wait.
fn reader(folder: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::open(folder.join("output"), flags, Mode::empty())?.into())
}
