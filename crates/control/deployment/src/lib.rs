//! A host: everything of a wiring, running on this machine. It makes pools, starts functions, opens ports,
//! connects them, and takes them away again while the rest goes on.
//!
//! The life of a host:
//! 1. [`Host::new`] makes the workers; [`Host::start`] gives them their threads, before or after there is
//!    something to do.
//! 2. [`Host::prepare`] takes a [`Plan`](wiring::Plan) and makes all that it adds: memory, programs, started
//!    functions, opened ports. Whatever can fail fails here, and nothing that runs has been touched; what was
//!    [`Prepared`] may be dropped.
//! 3. [`Host::carry_out`] does the whole plan at one quiescent point of the workers.
//! 4. [`Host::fleet`] is what runs: accounts, pauses. [`Host::stop`] drains it and gives the final account.
//!
//! [`Catalog`] knows the images and port drivers that there are; [`compile`] makes machine code of images in
//! a process of its own. [`Desired`] is what the operator wants, as the daemon keeps it: objects, of which
//! plans are made. [`EventQueue`] bounds what the workers tell, [`HopTap`] records what passes at a hop.
//!
//! Limits: the number of workers is fixed for a host's life. Plans are prepared beside each other and carried
//! out one at a time.

mod active_guests;
mod beside;
mod carry_out;
mod catalog;
pub mod compile;
mod copy_on_write;
mod deployed;
mod desired;
mod device_reading;
mod devices;
mod difference;
mod drivers;
mod event_queue;
mod function;
mod hand_over;
mod hop_tap;
mod initial_placement;
mod inject;
mod lives;
mod material;
mod memory;
mod named;
mod observers;
mod prepare;
mod present;
mod processors;
mod programs;
mod regular_file;
mod shared_images;
mod slow_files;
mod stations;
mod stripes;
mod taking;
#[cfg(test)]
mod tests;
mod tight_links;
mod workshop;

pub use active_guests::ActiveGuests;
pub use beside::BesideReading;
pub use carry_out::CarriedOut;
pub use catalog::Catalog;
pub use desired::{Checked, Desired, ObjectChange};
pub use device_reading::{DevicePlace, DeviceReading, OpenerReading, Plugged, SideReading, passed};
pub use drivers::{missing_interfaces, unusable_captures};
pub use event_queue::EventQueue;
pub use guest_wasm::LOG_LINES;
pub use hand_over::{HAND_OVER, Succession, TakenOver};
pub use hop_tap::{HopNames, HopPackets, HopTap};
pub use inject::InjectError;
pub use material::{Gathered, Material};
pub use memory::{FunctionMemory, HostMemory, PoolMemory, TenantPromise};
pub use named::{Named, pinned_file};
pub use offload::Refused;
pub use port_native::{Failed, Failure, Processes};
pub use port_tap::Handed;
pub use prepare::{Beginning, PrepareError, Prepared, WORKERS_LATER, rehearse};
pub use shared_images::SharedImages;
pub use stations::{DeviceFrames, ShownDevice, ShownNeighbour, ShownStation, StationFrames, StationReading};
pub use tight_links::{TightLink, Told};
pub use workshop::{Workshop, cache_directory};

use api::DEFAULT_TENANT;
use deployed::Deployed;
use engine::{Account, Balancer, Event, Fleet, FleetInstance, FleetPort, Stopped, ThreadPlan};
use guest_wasm::watchdog;
use hand_over::Handing;
use offload::Offload;
use packet_memory::{PageKind, Pool, PoolConfig};
use stations::Stations;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use telemetry::clock::Nanos;
use wiring::{Wiring, Workers};

/// Why there is no host.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The sandbox cannot be set up.
    #[error("the sandbox: {0}")]
    Sandbox(String),
    /// The kernel refuses what workers need.
    #[error("workers: {0}")]
    Workers(#[from] io::Error),
    /// There is no memory for a pool.
    #[error("packet memory: {0}")]
    Memory(String),
}

/// See the module's documentation.
pub struct Host {
    fleet: Arc<Fleet>,
    offload: Arc<Offload>,
    threads: Vec<ThreadPlan>,
    workers: Workers,
    deployed: Arc<Mutex<Deployed>>,
    handing: Arc<Handing>,
    workshop: Arc<Workshop>,
    shared_images: Arc<SharedImages>,
    /// Stands in for pools that were given back.
    stand_in: Arc<Pool>,
    notices: Mutex<Vec<String>>,
    stations: Stations,
}

impl Host {
    /// A host with so many workers and nothing to do, and, if `io`, one more for ports that want a thread of
    /// their own. `tell` is called with what happens, on the workers' threads: it must not wait.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn new(
        workers: &Workers,
        io: bool,
        tell: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<Host, HostError> {
        let (settings, threads) = initial_placement::threads(workers, io);
        let offload = Arc::new(Offload::new(&offload::Settings::default())?);
        // Without tenants all is the operator's, who waits for no share.
        offload.set_share(DEFAULT_TENANT, None);
        let stations = Stations::new();
        let asked = stations.asker();
        let tell = move |event| match event {
            Event::Asked { instance, asks } => asked(instance, asks),
            event => tell(event),
        };
        let fleet = Fleet::new(&settings, *watchdog::clock(), tell)?.with_background(offload.clone());
        let (workshop, notices) = Workshop::open().map_err(HostError::Sandbox)?;
        let small = PoolConfig { buffers: 1, pages: Some(PageKind::Ordinary), ..PoolConfig::default() };
        let stand_in = Pool::new("removed", small).map_err(|error| HostError::Memory(error.to_string()))?;
        Ok(Host {
            fleet: Arc::new(fleet),
            offload,
            threads,
            workers: workers.clone(),
            deployed: Arc::default(),
            handing: Arc::default(),
            workshop: Arc::new(workshop),
            shared_images: Arc::default(),
            stand_in: Arc::new(stand_in),
            notices: Mutex::new(notices),
            stations,
        })
    }

    /// Gives the workers their threads. Where they have processors of their own, all other threads of the
    /// program keep off these, if that leaves any.
    ///
    /// # Errors
    /// The kernel's refusal of a thread, or of a processor.
    pub fn start(&self) -> io::Result<()> {
        processors::leave_to_workers(&self.threads)?;
        self.fleet.start(&self.threads)
    }

    /// What runs.
    pub fn fleet(&self) -> &Arc<Fleet> {
        &self.fleet
    }

    /// Where work that takes long is done for tenants, beside the workers.
    pub fn offload(&self) -> &Arc<Offload> {
        &self.offload
    }

    /// What has been compiled. It can be asked to compile while the host is at work.
    pub fn workshop(&self) -> &Arc<Workshop> {
        &self.workshop
    }

    /// Memory of snapshots that functions share. Catalogs that changes are checked against
    /// [count](Catalog::counting) it.
    pub fn shared_images(&self) -> &Arc<SharedImages> {
        &self.shared_images
    }

    /// The workers that it was made with.
    pub fn workers(&self) -> &Workers {
        &self.workers
    }

    /// Whether others are wanted than run, as [`WORKERS_LATER`] says.
    pub fn awaits_workers(&self) -> bool {
        self.deployed().wiring.workers != self.workers
    }

    /// What is to be told to the operator since the last call.
    pub fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut *self.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The wiring that runs, as far as it was carried out: as it is now. To keep it makes the next change
    /// copy all of it.
    pub fn wiring(&self) -> Arc<Wiring> {
        self.deployed().wiring.now()
    }

    /// The function of a name.
    pub fn function(&self, name: &str) -> Option<FleetInstance> {
        self.deployed().instances.get(name).copied()
    }

    /// The port of a name.
    pub fn port(&self, name: &str) -> Option<FleetPort> {
        self.deployed().ports.get(name).copied()
    }

    /// The balancer that keeps the workers equally busy, if the operator wants that and there are several.
    pub fn balancer(&self) -> Option<Balancer> {
        let workers = self.workers.list.len();
        (self.workers.balance && workers > 1).then(|| Balancer::new(workers))
    }

    /// Drains everything, closes ports, ends the threads, and gives the final account.
    ///
    /// # Errors
    /// [`Stopped`]: it was before.
    pub fn stop(&self) -> Result<Account, Stopped> {
        self.stations.end();
        self.fleet.stop().map_err(|_| Stopped)
    }

    fn deployed(&self) -> MutexGuard<'_, Deployed> {
        self.deployed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A span in which a function is paused, and when it goes on, in the order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// After the start.
    pub at: Nanos,
    /// Whose.
    pub instance: FleetInstance,
    /// It is paused; else it goes on.
    pub pauses: bool,
}

/// Adds copies of the files in a value.
fn add_files(value: &schema::Value, files: &mut Vec<(String, Vec<u8>)>) {
    match value {
        schema::Value::File(path, contents) => files.push((path.clone(), contents.clone())),
        schema::Value::List(list) => list.iter().for_each(|value| add_files(value, files)),
        schema::Value::Map(map) => map.iter().for_each(|(_, value)| add_files(value, files)),
        _ => {}
    }
}

impl Host {
    /// The files that a function's configuration names: their paths, and what was in them when they were
    /// read.
    pub fn files_of(&self, function: &str) -> Vec<(String, Vec<u8>)> {
        let mut files = Vec::new();
        if let Some(instance) = self.deployed().wiring.instances.get(function) {
            add_files(&instance.config, &mut files);
        }
        files
    }

    /// All pauses that the wiring says, the first one last.
    pub fn turns(&self) -> Vec<Turn> {
        let deployed = self.deployed();
        let mut turns = Vec::new();
        for (name, instance) in &deployed.wiring.instances {
            let Some(id) = deployed.instances.get(name).copied() else { continue };
            for pause in &instance.pauses {
                turns.push(Turn { at: pause.from, instance: id, pauses: true });
                turns.push(Turn { at: pause.to, instance: id, pauses: false });
            }
        }
        // Of two at one time that which ends comes first: a function that is paused again stays paused.
        turns.sort_by_key(|turn| (std::cmp::Reverse(turn.at), !turn.pauses));
        turns
    }
}
