//! Keeps containers as a client wants them, beside everything else that it does.
//!
//! 1. [`Keeper::want`] says what is to run. It does not wait.
//! 2. One thread follows the launcher's list; what it says and what is wanted is compared in a [`Book`],
//!    which knows no thread and no clock.
//! 3. What has to be done is asked of the launcher, by a thread for each request: one for a tenant at a time,
//!    so that an image that takes long to unpack keeps no other tenant waiting, and [`REQUESTS`] in all. A
//!    tenant has so many starts and changes of limits at once and in a second ([`mod@pace`]), whatever ends
//!    its containers or asks for them.
//! 4. [`Keeper::failed`] says that a process of one does not work any more; the launcher is asked to kill it.
//! 5. A container that has ended is started again after a delay, and its events say why it
//!    ended. Which one of those is active that stand by each other, [`mod@succession`] decides.
//!
//! Containers carry the mark of their keeper: the next one of the same name finds them, goes on with those
//! that are as they are wanted, and ends the others. What has another's mark is left alone.

mod book;
mod pace;
mod succession;
#[cfg(test)]
mod tests;
mod why;

use crate::{Answer, ClientError, Failure, Guest, Kill, Launcher, List, Request, Start};
pub use book::TAKEN;
use book::{Action, Book, Owner};
pub(crate) use book::{is_of, keeper_of};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};
pub use succession::Active;
pub use why::{Why, refusal_for_tenant};

/// Requests at a time, half of the connections that a launcher takes.
const REQUESTS: usize = 32;
/// How long one list waits for a change: so old are at most the memory and the processor time that it tells.
const FOLLOW: Duration = Duration::from_millis(500);
/// How long it is waited before a launcher that is not there is looked for again.
const AGAIN: Duration = Duration::from_secs(1);
/// How long containers have at the end.
const GRACE: Duration = Duration::from_secs(2);

/// A container that is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// How it is started; its mark is the keeper's.
    pub start: Start,
    /// How long after its end it is started again at first; twice as long after each further one.
    pub first_delay: Duration,
    /// Never longer than this. After it has run for so long, the first delay counts again.
    pub longest_delay: Duration,
}

/// What has become of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    /// It ended, or could not be started.
    Ended {
        /// How, or why not.
        reason: Why,
        /// When it is started again.
        again: Duration,
        /// The newest lines of its output.
        log: Vec<String>,
    },
    /// It runs again.
    Restarted,
    /// Its interfaces have come: what is to be opened on their outer ends can be, and these are the queues
    /// of its TAP devices.
    Attached(Queues),
    /// Something that does not end it.
    Noticed(Why),
}

/// Queues of TAP devices, by their outer names.
#[derive(Clone, Debug, Default)]
pub struct Queues(Arc<Vec<(String, OwnedFd)>>);

impl Queues {
    /// Descriptors of one's own.
    ///
    /// # Errors
    /// There are none left.
    pub fn descriptors(&self) -> io::Result<Vec<(String, OwnedFd)>> {
        self.0.iter().map(|(name, queue)| Ok((name.clone(), queue.try_clone()?))).collect()
    }
}

impl PartialEq for Queues {
    fn eq(&self, other: &Queues) -> bool {
        let names = |queues: &Queues| queues.0.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        names(self) == names(other)
    }
}

impl Eq for Queues {}

/// Whether a container runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its first process has been started, and has not ended.
    Runs,
    /// It is being started, or is to be.
    Starting(Why),
    /// It ended or was refused, and waits to be started again; or the launcher does not answer.
    Down(Why),
}

impl Default for Phase {
    fn default() -> Phase {
        Phase::Starting(Why::own("the launcher has not been asked yet"))
    }
}

/// How a container is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// Whether it runs.
    pub phase: Phase,
    /// Since when, as far as it is known.
    pub since: Option<Instant>,
    /// The first processes of it and of those that stand by it, of what runs.
    pub processes: Vec<u32>,
    /// Bytes of memory that it has.
    pub memory: u64,
    /// Processor time that it has had since it was started, in microseconds.
    pub cpu_us: u64,
    /// How often it ended, or could not be started.
    pub faults: u64,
    /// How often it was started again.
    pub restarts: u64,
}

/// See the module's documentation.
pub struct Keeper {
    shared: Arc<Shared>,
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("socket", &self.shared.socket).finish_non_exhaustive()
    }
}

/// The guest that stands by another one, as its `number`th, from 1 to 9.
pub fn stands_by(name: &str, number: u32) -> String {
    format!("{name}.{number}")
}

/// The guest that this one stands by, or itself.
pub fn first_of(name: &str) -> &str {
    name.split_once('.').map_or(name, |(first, _)| first)
}

/// The number of a guest among those that stand by each other, 0 of the first one.
pub fn number_of(name: &str) -> u8 {
    name.split_once('.').and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
}

/// Takes what has become of the container of a name, and whose it is: by then the name may be another
/// tenant's.
type Tell = dyn Fn(Whose<'_>, Happened) + Send + Sync;

/// The container of which something is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whose<'a> {
    /// Its name, or that of the one that it stands by.
    pub name: &'a str,
    /// The launcher's name for it.
    pub guest: &'a str,
    /// Its tenant.
    pub tenant: &'a str,
}

struct Shared {
    socket: PathBuf,
    table: Mutex<Table>,
    changed: Condvar,
    /// What [`succession`] looks by.
    bell: succession::Bell,
    tell: Box<Tell>,
}

struct Table {
    book: Book,
    /// Tenants of which something is being asked.
    busy: Vec<String>,
    /// Counts connections: what was listed by an earlier one means nothing any more.
    connection: u64,
    ends: bool,
}

/// Whose the guests of a keeper are, as their interfaces say it.
pub fn owner_of(keeper: &str) -> kernel_interface::Owner {
    kernel_interface::Owner::of(keeper)
}

impl Keeper {
    /// Begins to keep what is wanted, by name. `name` tells its containers from others', and is the same
    /// each time that the same client begins. `tell` is called on the keeper's threads.
    ///
    /// # Errors
    /// The system has no threads for it.
    pub fn begin(
        socket: &Path,
        name: &str,
        wanted: BTreeMap<String, Wanted>,
        tell: impl Fn(Whose<'_>, Happened) + Send + Sync + 'static,
    ) -> io::Result<Keeper> {
        let mut book = Book::new(name);
        book.want(wanted, Instant::now());
        let table = Table { book, busy: Vec::new(), connection: 0, ends: false };
        let shared = Arc::new(Shared {
            socket: socket.to_owned(),
            table: Mutex::new(table),
            changed: Condvar::new(),
            bell: succession::Bell::new()?,
            tell: Box::new(tell),
        });
        let (following, acting) = (shared.clone(), shared.clone());
        Builder::new().name("containers".into()).spawn(move || following.follow())?;
        Builder::new().name("container-acts".into()).spawn(move || acting.act())?;
        Ok(Keeper { shared })
    }

    /// What is to run from now on, by name.
    pub fn want(&self, wanted: BTreeMap<String, Wanted>) {
        self.shared.table().book.want(wanted, Instant::now());
        self.shared.bell.ring();
        self.shared.changed.notify_all();
    }

    /// Has `tell` called, by a thread of its own, for each function whose guests stand by each other and have
    /// interfaces of the kernel's, when one of them becomes active, and when others become ready or go.
    ///
    /// # Errors
    /// The system has no thread for it.
    pub fn tell_of_active(&self, tell: impl Fn(Active) + Send + 'static) -> io::Result<()> {
        let shared = Arc::downgrade(&self.shared);
        let watch = move || succession::watch(&shared, &tell);
        Builder::new().name("container-turns".into()).spawn(watch).map(drop)
    }

    /// How one is that is wanted; with those that stand by it, together.
    pub fn condition(&self, name: &str) -> Option<Condition> {
        self.shared.table().book.condition(name)
    }

    /// Those of its containers that run, by the launcher's names: one that stands by another is there too.
    pub fn running(&self) -> Vec<String> {
        self.shared.table().book.running()
    }

    /// First processes of those that run, as [`Keeper::running`] names them, in the launcher's PID namespace.
    pub fn processes(&self) -> BTreeMap<String, u32> {
        self.shared.table().book.processes()
    }

    /// Starts one anew, and those that stand by it; false if it is not wanted.
    pub fn restart(&self, name: &str) -> bool {
        let known = self.shared.table().book.restart(name, Instant::now());
        self.shared.changed.notify_all();
        known
    }

    /// Has the one killed that has this process, of those of a name and those that stand by it: it has
    /// failed, which is as a death, and is started again as after one. False if none is wanted. It does not
    /// wait, and what is asked for may get lost with a launcher: it is to be said again as long as the
    /// process is there.
    pub fn failed(&self, name: &str, pid: u32, failure: Failure) -> bool {
        let known = self.shared.table().book.fail(name, pid, failure);
        self.shared.changed.notify_all();
        known
    }

    /// Has one killed that has not attached at its sockets, by the launcher's name and its first process,
    /// unless it has one of the processes at each of them. It is as [`Keeper::failed`], but that what never
    /// attached has not run for long, however long it ran.
    pub fn unattached(&self, guest: &str, pid: u32, attached: Vec<Vec<u32>>, after: Duration) -> bool {
        let ms = u32::try_from(after.as_millis()).unwrap_or(u32::MAX);
        let kill = Kill {
            name: first_of(guest).to_owned(),
            pid,
            unless: attached,
            failure: Failure::Unattached(ms),
        };
        let known = self.shared.table().book.kill(guest, kill);
        self.shared.changed.notify_all();
        known
    }

    /// Lets all of them run, and keeps them no longer.
    pub fn leave(&self) {
        self.shared.table().ends = true;
        self.shared.bell.ring();
        self.shared.changed.notify_all();
    }

    /// Ends all of them, and waits for it, but not longer than `most`.
    pub fn end(&self, most: Duration) {
        self.want(BTreeMap::new());
        let begin = Instant::now();
        let mut table = self.shared.table();
        while table.book.has_some_left() || !table.busy.is_empty() {
            let left = most.saturating_sub(begin.elapsed());
            if left.is_zero() {
                break;
            }
            table = self.shared.wait(table, left);
        }
        drop(table);
        self.leave();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, table: MutexGuard<'a, Table>, most: Duration) -> MutexGuard<'a, Table> {
        self.changed.wait_timeout(table, most).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Follows the launcher's list until the end.
    fn follow(&self) {
        loop {
            // A launcher that nothing is wanted of need not be there.
            let mut table = self.table();
            while !table.ends && table.connection > 0 && !table.book.needs_launcher() {
                table = self.wait(table, Duration::from_secs(3600));
            }
            if table.ends {
                return;
            }
            table.connection += 1;
            let connection = table.connection;
            table.book.forget();
            drop(table);
            let trouble = match self.follow_one(connection) {
                Ok(()) => continue,
                Err(error) => error.to_string(),
            };
            let mut table = self.table();
            let told = table.book.lost(&trouble);
            let told: Vec<_> = told.into_iter().map(|told| (table.book.owner(&told.0), told)).collect();
            drop(table);
            self.changed.notify_all();
            told.into_iter().for_each(|(owner, (name, happened))| self.tell(&name, &owner.tenant, happened));
            let mut table = self.table();
            let begin = Instant::now();
            while !table.ends && begin.elapsed() < AGAIN {
                table = self.wait(table, AGAIN);
            }
        }
    }

    /// Follows it by one connection, as long as it is needed.
    fn follow_one(&self, connection: u64) -> Result<(), ClientError> {
        let mut launcher = Launcher::connect(&self.socket)?;
        let mut after = None;
        loop {
            let wait_ms = u32::try_from(FOLLOW.as_millis()).unwrap_or(u32::MAX);
            match launcher.ask(&Request::List(List { after, wait_ms, log_of: None }))? {
                Answer::Guests(listed) => {
                    after = Some(listed.version);
                    self.take(connection, listed);
                }
                other => return Err(launcher.unexpected(&other)),
            }
            let table = self.table();
            if table.ends || !table.book.needs_launcher() {
                return Ok(());
            }
        }
    }

    /// Takes a list, and tells what it shows to have happened.
    fn take(&self, connection: u64, listed: crate::Listed) {
        let mut table = self.table();
        if table.connection != connection {
            return;
        }
        let happened = table.book.take(listed, Instant::now());
        // By what is true now: when it is told the name may be another's.
        let of = |(name, _): &(String, Happened)| (table.book.has_taps(name), table.book.owner(name));
        let of: Vec<(bool, Owner)> = happened.iter().map(of).collect();
        drop(table);
        self.bell.ring();
        self.changed.notify_all();
        for ((name, happened), (has_taps, owner)) in happened.into_iter().zip(of) {
            let told = match happened {
                Happened::Ended { reason, again, .. } => {
                    Happened::Ended { reason, again, log: self.log_of(&name, &owner) }
                }
                Happened::Attached(_) if has_taps => match Launcher::queues(&self.socket, &name) {
                    Ok(queues) => Happened::Attached(Queues(Arc::new(queues))),
                    Err(error) => {
                        let trouble = Why::launcher(error.to_string()).behind("its TAP devices: ");
                        self.tell(&name, &owner.tenant, Happened::Noticed(trouble));
                        happened
                    }
                },
                other => other,
            };
            self.tell(&name, &owner.tenant, told);
        }
    }

    fn tell(&self, name: &str, tenant: &str, happened: Happened) {
        (self.tell)(Whose { name: first_of(name), guest: name, tenant }, happened);
    }

    /// What a container wrote last; nothing if another one has its name by now.
    fn log_of(&self, name: &str, owner: &Owner) -> Vec<String> {
        let list = Request::List(List { after: None, wait_ms: 0, log_of: Some(name.to_owned()) });
        let answer = Launcher::connect(&self.socket).and_then(|mut launcher| launcher.ask(&list));
        let Ok(Answer::Guests(listed)) = answer else { return Vec::new() };
        let is_it = |guest: &Guest| guest.name == name && guest.mark.as_ref() == Some(&owner.mark);
        listed.guests.into_iter().find(is_it).map(|guest| guest.log).unwrap_or_default()
    }

    /// Has done what is to be done, until the end.
    fn act(self: &Arc<Shared>) {
        let mut table = self.table();
        while !table.ends {
            let now = Instant::now();
            let Table { book, busy, .. } = &mut *table;
            let due = if busy.len() < REQUESTS { book.due(now, busy) } else { None };
            let Some(action) = due else {
                let most = table.book.next(now).unwrap_or(Duration::from_secs(3600));
                table = self.wait(table, most.max(Duration::from_millis(1)));
                continue;
            };
            table.busy.push(action.tenant.clone());
            let connection = table.connection;
            drop(table);
            let this = self.clone();
            let asking = Builder::new().name("container-ask".into());
            let refused = action.clone();
            let spawned = asking.spawn(move || this.ask(&action, connection));
            table = self.table();
            if spawned.is_err() {
                table.busy.retain(|tenant| *tenant != refused.tenant);
                let reason = Why::own("the system has no thread for it");
                let told = table.book.refused(&refused, reason, Instant::now());
                drop(table);
                told.into_iter().for_each(|(name, happened)| self.tell(&name, &refused.tenant, happened));
                table = self.table();
            }
        }
    }

    /// Asks the launcher for one thing, and notes what came of it.
    fn ask(&self, action: &Action, connection: u64) {
        let answer = Launcher::connect(&self.socket).and_then(|mut launcher| {
            let answer = launcher.ask(&action.request)?;
            let listed = launcher.ask(&Request::List(List::default()))?;
            Ok((answer, listed))
        });
        let told = match answer {
            Ok((answer, listed)) => {
                let told = match answer {
                    Answer::Refused(reason) => {
                        self.table().book.refused(action, Why::refused(reason), Instant::now())
                    }
                    Answer::Done | Answer::Guests(_) | Answer::Used(_) | Answer::Queues(_) => {
                        self.table().book.done(action);
                        None
                    }
                };
                // Before the tenant's next turn, which what is true by now decides.
                if let Answer::Guests(listed) = listed {
                    self.take(connection, listed);
                }
                told
            }
            // The thread that follows finds out, and looks for it again.
            Err(error) => {
                self.table().book.put_off(action, &error.to_string(), Instant::now() + AGAIN);
                None
            }
        };
        told.into_iter().for_each(|(name, happened)| self.tell(&name, &action.tenant, happened));
        self.table().busy.retain(|tenant| *tenant != action.tenant);
        self.changed.notify_all();
    }
}
