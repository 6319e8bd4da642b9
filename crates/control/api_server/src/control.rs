//! What the server asks of the host: everything that it does not do itself.

use crate::notices::Notices;
use crate::outlet::Outlet;
use api::{
    Capture, DeviceNeighbours, Fault, FunctionEvent, FunctionReport, Graph, Image, Kind, LogLine, Name,
    ObjectName, Password, RotatedKey, Snapshot, Trace,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use store::Store;

/// The host, as the server sees it. All functions may be called from several threads at once, but for
/// [`begin`](Control::begin), which is called once and first.
///
/// Changes are made ready beside each other ([`prepare`](Control::prepare), [`Prepared::hand_over`]) and may
/// take as long as functions take to start and to hand over. They are carried out one after the other
/// ([`Prepared::fits`] and [`Prepared::carry_out`]); that is short. Of one object, changes of all sorts,
/// pauses and restarts come one after the other from their beginning to their end.
///
/// [`status`](Control::status) and [`logs`](Control::logs) are called on the thread that answers and return
/// at once.
pub trait Control: Send + Sync + 'static {
    /// Starts what the store holds, before any client can ask for anything. `notices` is for what happens
    /// from then on. What cannot be started is returned with the reason; it stays desired, and the rest is
    /// started.
    fn begin(&self, objects: Vec<ObjectChange>, notices: Notices) -> Vec<(ObjectName, Fault)>;

    /// Says what images mean that may come to mean something else: artifacts in registries named by a tag,
    /// and files. `functions` are names and specs of functions as they are wanted. Where it is not to
    /// `resolve`, a tag that a function runs with means what it meant when it was applied, and no registry is
    /// asked. It is called without the order of changes. For a tenant, registries are asked with its own
    /// logins, and an image that this host has counts as had only if an object of the tenant names it
    /// already.
    ///
    /// # Errors
    /// [`Refusal`]: what cannot be had, and why.
    fn resolve_images(
        &self,
        functions: &[(&str, &Value)],
        resolve: bool,
        asker: &Asker,
    ) -> Result<ResolvedImages, Refusal> {
        let _ = (resolve, asker);
        Ok(ResolvedImages::Now(vec![None; functions.len()]))
    }

    /// What of a function that a tenant wants is not a tenant's to want, because it is the host's: an image
    /// in a file, say. Places are within the spec. What is as it is `now` is as an administrator, or an
    /// earlier check, had it. A spec of a snapshot is checked like any other. It is called before
    /// [`resolve_images`](Control::resolve_images), and again with what images mean.
    fn confined(&self, function: &str, spec: &Value, now: Option<&Value>) -> Vec<Fault> {
        let _ = (function, spec, now);
        Vec::new()
    }

    /// What is wrong with a change as far as the objects of one tenant show it; no other object is looked at,
    /// so that nothing of another one can be in the words. It is asked when [`prepare`](Control::prepare) has
    /// refused the change.
    fn own_faults(&self, tenant: &str, changes: &[ObjectChange]) -> Vec<Fault> {
        let _ = (tenant, changes);
        Vec::new()
    }

    /// Whether an object that the store has is not there, because it could not be started.
    fn lacks(&self, object: &ObjectName) -> bool {
        let _ = object;
        false
    }

    /// Whether files that a function's configuration names say something else than when they were read. They
    /// are read for it: it is called without the order of changes.
    fn has_other_files(&self, function: &str) -> bool {
        let _ = function;
        false
    }

    /// Checks a change, and does nothing for it: no image is fetched, pinned or compiled, and nothing is
    /// started. What is allowed but probably not meant is returned. Of a tenant's, files and images are read
    /// that it may have already; another is a fault of the kind
    /// [`ImageElsewhere`](api::FaultKind::ImageElsewhere), at the function's `image`.
    ///
    /// # Errors
    /// [`Refusal`]: all that is wrong with the change.
    fn check(&self, changes: &[ObjectChange], asker: &Asker) -> Result<Vec<Fault>, Refusal> {
        let _ = (changes, asker);
        Ok(Vec::new())
    }

    /// Checks a change, and opens, compiles and starts whatever it needs, without touching what runs.
    /// Dropping what is returned undoes it.
    ///
    /// # Errors
    /// [`Refusal`]: all that is wrong with the change, or the work that has to be done first.
    fn prepare(&self, changes: &[ObjectChange]) -> Result<Box<dyn Prepared>, Refusal>;

    /// Tries changes as [`Control::prepare`] does, and touches nothing of the host. What comes of it says
    /// what would be started again, and is not for [`Prepared::hand_over`].
    ///
    /// # Errors
    /// As [`Control::prepare`].
    fn try_out(&self, changes: &[ObjectChange]) -> Result<Box<dyn Prepared>, Refusal> {
        self.prepare(changes)
    }

    /// Lets a function stand still until it is resumed. To pause one that is paused changes nothing.
    ///
    /// # Errors
    /// [`Refusal`]; the function then runs on.
    fn pause(&self, function: &str) -> Result<(), Refusal>;

    /// Lets a paused function go on. To resume one that runs changes nothing.
    ///
    /// # Errors
    /// [`Refusal`]; the function then stays paused.
    fn resume(&self, function: &str) -> Result<(), Refusal>;

    /// Starts a function anew, without what it knew.
    ///
    /// # Errors
    /// [`Refusal`]; the function then runs on as it was.
    fn restart(&self, function: &str) -> Result<(), Refusal>;

    /// What of the host's own is broken, one line each. It is known already, or found by a look at a folder.
    fn troubles(&self) -> Vec<String> {
        Vec::new()
    }

    /// What does not pass packets as it should, one line each; of a tenant's own, if one asks. It is known
    /// already: nothing is waited for.
    fn warnings(&self, tenant: Option<&str>) -> Vec<String> {
        let _ = tenant;
        Vec::new()
    }

    /// How an object is, if there is something to tell; of a function, a
    /// [`FunctionStatus`](api::FunctionStatus), of a device, a [`DeviceStatus`](api::DeviceStatus). What it
    /// says to a tenant names nothing of others.
    fn status(&self, kind: Kind, name: &str, tenant: Option<&str>) -> Option<Value>;

    /// What a device is on its links, with up to `limit` of its neighbours, of those whose addresses are
    /// behind `after`, and of others with the last one's address. What it says to a tenant names nothing of
    /// others. It waits for no worker. Without effect for one that is not there.
    fn neighbours(
        &self,
        device: &str,
        tenant: Option<&str>,
        after: Option<IpAddr>,
        limit: usize,
    ) -> DeviceNeighbours {
        let _ = (device, tenant, after, limit);
        DeviceNeighbours::default()
    }

    /// Up to `limit` lines of a function's log with numbers above `after`, in order.
    fn logs(&self, function: &str, after: u64, limit: usize) -> Vec<LogLine>;

    /// Up to `limit` events of a function with numbers above `after`, in order.
    fn function_events(&self, function: &str, after: u64, limit: usize) -> Vec<FunctionEvent> {
        let _ = (function, after, limit);
        Vec::new()
    }

    /// What a function reports of itself: a call into it, which takes up to its longest time of a call.
    ///
    /// # Errors
    /// [`Refusal`]: there is none, or it has nothing to report.
    fn report(&self, function: &str) -> Result<FunctionReport, Refusal> {
        Err(Refusal::NotFound(format!("function `{function}` has reported nothing")))
    }

    /// All snapshots, in the order of their names.
    fn snapshots(&self) -> Vec<Snapshot>;

    /// A tenant's own, in that order. What others have makes it take no longer.
    fn snapshots_of(&self, tenant: &str) -> Vec<Snapshot> {
        let own = |saved: &Snapshot| !saved.imported && saved.tenant.as_deref() == Some(tenant);
        self.snapshots().into_iter().filter(own).collect()
    }

    /// Does a job for a tenant's request on another thread: at a low priority, when the tenant's share of
    /// processor time for its requests allows it, and in the account of that. It returns at once; the job is
    /// dropped where it is not to be done any more.
    ///
    /// # Errors
    /// [`Refusal::Busy`]: too much of the tenant waits.
    fn aside(&self, tenant: &str, job: Box<dyn FnOnce() + Send>) -> Result<(), Refusal> {
        let _ = tenant;
        let spawned = std::thread::Builder::new().name("request".into()).spawn(job);
        spawned.map(drop).map_err(|error| Refusal::Busy(format!("a thread: {error}")))
    }

    /// Does a short job for a tenant's request here, at the thread's own priority because others wait for it,
    /// in the same account.
    fn in_account(&self, tenant: &str, job: Box<dyn FnOnce() + '_>) {
        let _ = tenant;
        job();
    }

    /// One snapshot.
    fn snapshot(&self, name: &Name) -> Option<Snapshot>;

    /// Saves a function with what it knows, in a file of at most so many bytes that is on disk when this
    /// returns.
    ///
    /// # Errors
    /// [`Refusal`]; there is no such snapshot then, or the one that was there is as it was.
    fn save(&self, function: &str, name: &Name, most: u64) -> Result<Snapshot, Refusal>;

    /// Gives an imported snapshot to a tenant.
    ///
    /// # Errors
    /// [`Refusal`]; the snapshot is as it was then.
    fn adopt_snapshot(&self, name: &Name, tenant: &Name) -> Result<Snapshot, Refusal>;

    /// Makes a new key for snapshots and seals with it those that are this host's own.
    ///
    /// # Errors
    /// [`Refusal`]; what was believed before is still believed.
    fn rotate_snapshot_key(&self) -> Result<RotatedKey, Refusal>;

    /// Removes a snapshot; says whether there was one.
    ///
    /// # Errors
    /// [`Refusal`]; the snapshot is still there then.
    fn delete_snapshot(&self, name: &Name) -> Result<bool, Refusal>;

    /// The images on this host, in the order of their references.
    fn images(&self) -> Vec<Image>;

    /// The account of every packet, or what of it is one tenant's: an object, as JSON text; `None` when
    /// nothing runs any more.
    fn account(&self, tenant: Option<&str>) -> Option<String>;

    /// Where the host's memory goes, or a tenant's: an object.
    fn memory(&self, tenant: Option<&str>) -> Value;

    /// What is wired to what, with what has passed; of a tenant, its own. `None` when nothing runs any more.
    fn graph(&self, tenant: Option<&str>) -> Option<Graph>;

    /// What passed in the last hour, as JSON: a [`HistoryMoment`](api::HistoryMoment) or a
    /// [`HistoryLine`](api::HistoryLine). Of a tenant, its own.
    ///
    /// # Errors
    /// [`NoHistory`].
    fn history(&self, asked: &HistoryAsked, tenant: Option<&str>) -> Result<Arc<[u8]>, NoHistory>;

    /// Follows packets on their way, and writes a [`TraceLine`](api::TraceLine) for each that has come to its
    /// end, until there are enough or the client stops reading. Returns when it has begun. A tenant follows
    /// packets where every packet is its own, and sees no hop elsewhere; nothing is changed until this
    /// returns, and a change by which packets of others come there ends it.
    ///
    /// # Errors
    /// [`Refusal`]: what is wrong with what is wanted.
    fn trace(&self, wanted: &Trace, tenant: Option<&str>, outlet: Outlet) -> Result<(), Refusal>;

    /// Captures packets, and writes them as pcapng until there are enough or the client stops reading.
    /// Returns when it has begun. Of a tenant, like a [trace](Control::trace).
    ///
    /// # Errors
    /// [`Refusal`]: what is wrong with what is wanted.
    fn capture(&self, wanted: &Capture, tenant: Option<&str>, outlet: Outlet) -> Result<(), Refusal>;

    /// Puts aside what `store` says and what is kept beside it, as they are now, and then writes a backup of
    /// that, until it is whole or the client stops reading. Returns when it has been put aside; until then
    /// nothing is changed.
    ///
    /// # Errors
    /// [`Refusal`]: what stands in the way.
    fn back_up(&self, store: &Store, outlet: Outlet) -> Result<(), Refusal>;

    /// Writes metric families, each as a whole, in one of two notations; of one tenant, those of its
    /// functions and ports.
    fn metrics(&self, exposition: Exposition, tenant: Option<&str>, to: &mut String);
}

/// A change that is ready. Dropped, it leaves all as it was; functions that have handed over are taken back.
pub trait Prepared: Send {
    /// Whether it still is what the change comes to, after whatever else was carried out meanwhile. Called in
    /// the order of changes: it starts and reads nothing that takes its time.
    ///
    /// # Errors
    /// [`Refusal`]: what is wrong with the change now.
    fn fits(&mut self) -> Result<bool, Refusal>;

    /// Functions that run and will begin anew, or have instead of handing over, without what they know.
    fn restarted(&self) -> Vec<String>;

    /// The same, with those that would begin anew if they were to hand over.
    fn would_restart(&mut self) -> Vec<String> {
        self.restarted()
    }

    /// Lets functions that change hand over to their successors, with what they know. Those that have nothing
    /// to hand over begin anew if that is allowed.
    ///
    /// # Errors
    /// [`Refusal`]: one does not, and all go on as they were.
    fn hand_over(&mut self, allow_restart: bool) -> Result<(), Refusal> {
        let _ = allow_restart;
        Ok(())
    }

    /// Carries the rest out. It cannot fail: everything that could was done before.
    fn carry_out(self: Box<Self>);
}

/// What becomes of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectChange {
    /// Its kind.
    pub kind: Kind,
    /// Its name, checked with [`api::check_name`].
    pub name: String,
    /// What it is to be, as in the operator's file; `None`: it is deleted.
    pub spec: Option<Value>,
    /// A function that was paused by request, and stays so.
    pub paused: bool,
    /// The snapshot that a function begins with; without one it begins anew, or goes on as it is.
    pub snapshot: Option<Name>,
}

/// What is asked of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryAsked {
    /// All objects at a step; without one, at the last.
    Moment {
        /// The step.
        at: Option<u64>,
        /// The layout whose names the client knows.
        layout: Option<u64>,
    },
    /// One object over time.
    Line {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// For so many seconds up to the last step.
        seconds: u64,
    },
}

/// Why there is no history of something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoHistory {
    /// The step is not known any more, or not yet.
    Gone {
        /// The first that is known.
        first: u64,
        /// The last.
        last: u64,
    },
    /// There is no such object.
    NotFound,
    /// Nothing has been counted yet, or nothing runs any more.
    Nothing,
}

/// Who asks for images, and so whose logins registries are shown.
#[derive(Clone, Debug)]
pub enum Asker {
    /// An administrator: with the host's logins.
    Administrator,
    /// A tenant, with its own.
    Tenant {
        /// Its name.
        name: String,
        /// User names and passwords by registry, `HOST` or `HOST:PORT`.
        logins: BTreeMap<String, (String, Password)>,
    },
}

/// For each function, what stands for its image from now on; `None`: its image is as it was written.
pub type Images = Vec<Option<String>>;

/// What images mean.
pub enum ResolvedImages {
    /// It is known.
    Now(Images),
    /// A registry or a file has to be asked first.
    After(ImageResolution),
}

/// What has to be done before it is known what images mean.
pub struct ImageResolution {
    /// In words for the operator: `pulling registry.example/nf/firewall:1.2`.
    pub what: String,
    /// Does it, on a thread of its own.
    pub run: Box<dyn FnOnce() -> Result<Images, Refusal> + Send>,
}

/// Why something is not done. What runs is untouched.
pub enum Refusal {
    /// Something in what is wanted is wrong: all of it, with places such as
    /// `functions.fw.config.rules[2].action`.
    Invalid(Vec<Fault>),
    /// It does not go with what there is: something else has the name, or needs what is to be deleted.
    Conflict(Vec<Fault>),
    /// There is no such thing, in words.
    NotFound(String),
    /// There is no room, in words that say of what.
    NoRoom(String),
    /// It is more than was allowed for it, in words about what was asked alone.
    TooMuch(String),
    /// Not now, in words that say why; it may be tried again in a moment.
    Busy(String),
    /// Registries do not give what is wanted, each with its place.
    Registry(Vec<Fault>),
    /// The launcher does not start what is wanted.
    Launcher {
        /// Why, each with its place.
        all: Vec<Fault>,
        /// What a tenant is told in their place: nothing of the host's files and the launcher's.
        of_tenant: Vec<Fault>,
    },
    /// Something broke, in words.
    Broken(String),
    /// Something takes time, such as compiling an image. When it is done the same is asked again.
    Work(Work),
}

/// What has to be done before something can be done at once.
pub struct Work {
    /// In words for the operator: `compiling firewall`.
    pub what: String,
    /// Does it, on a thread of its own. What it cannot do it refuses, but not with more work.
    pub run: Box<dyn FnOnce() -> Result<(), Refusal> + Send>,
}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Invalid(faults) => f.debug_tuple("Invalid").field(faults).finish(),
            Refusal::Conflict(faults) => f.debug_tuple("Conflict").field(faults).finish(),
            Refusal::NotFound(what) => f.debug_tuple("NotFound").field(what).finish(),
            Refusal::NoRoom(what) => f.debug_tuple("NoRoom").field(what).finish(),
            Refusal::TooMuch(what) => f.debug_tuple("TooMuch").field(what).finish(),
            Refusal::Busy(what) => f.debug_tuple("Busy").field(what).finish(),
            Refusal::Registry(faults) => f.debug_tuple("Registry").field(faults).finish(),
            Refusal::Launcher { all, .. } => f.debug_tuple("Launcher").field(all).finish(),
            Refusal::Broken(what) => f.debug_tuple("Broken").field(what).finish(),
            Refusal::Work(work) => f.debug_tuple("Work").field(&work.what).finish(),
        }
    }
}

/// How metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposition {
    /// Prometheus' text, version 0.0.4: a counter's family has the sample's name, `_total` included.
    Prometheus,
    /// OpenMetrics 1.0: a counter's family is named without `_total`. The server writes `# EOF`.
    OpenMetrics,
}
