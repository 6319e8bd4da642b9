//! The controller of a host, which is what `superfluid daemon` runs: it keeps running what the store says,
//! and lets clients change it while packets pass.
//!
//! The life of [`serve`]:
//! 1. The store is opened, and the host made with the workers that it says.
//! 2. The server hands all objects to [`Controller`], which starts them; only then it listens.
//! 3. A service manager that wants to know is told so, and as long as all workers answer.
//! 4. Beside the workers there are threads for the balance between them, for the history of the last hour,
//!    for memory that is given back, and the server's.
//! 5. Functions that are containers are kept by the launcher's [keeper](launcher::Keeper), on threads of its
//!    own; they outlive the daemon, and the next one finds them.
//! 6. At SIGTERM the server answers what it was asked, then the host is drained, and the account of every
//!    packet returned.
//!
//! What it does not know: the command line, which fills in [`Settings`], and terminals. It logs to standard
//! error.
//!
//! Limits: one controller for a process and for a folder of state.

#![forbid(unsafe_code)]

mod attaching;
mod attic;
mod backup;
mod begin;
mod cgroup;
mod change;
mod confine;
mod container_account;
mod container_readings;
mod containers;
mod control;
mod controller;
mod device_status;
mod edge_flows;
mod found;
mod function_health;
mod graph;
mod images;
mod kept;
mod launcher_check;
mod launcher_question;
mod logs;
mod memory;
mod metrics;
mod neighbours;
mod notify;
mod of_tenant;
mod port_health;
mod port_looks;
mod refusal;
mod sampling;
mod shares;
mod shelf;
mod standing;
mod status;
mod tenant_images;
mod told;
mod upkeep;
mod watch;

use api_server::Server;
pub use attaching::Attaching;
pub use container_account::{ContainerSources, container_accounts};
pub use containers::{
    concerns_ports, container_events, end_failed, follow_active, keep_queues, keeper_name, wanted_containers,
};
use control::Handle;
use controller::Controller;
use engine::Account;
pub use launcher_question::{LauncherSays, ask_launcher, taken_names};
pub use port_looks::port_looks;
pub use shares::Shares;
pub use shelf::Registries;
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use store::Store;
pub use watch::Hop;

/// What a controller is told when it starts.
#[derive(Debug)]
pub struct Settings {
    /// The folder of what it keeps: objects, images, snapshots.
    pub state: PathBuf,
    /// How clients reach it, and what they may do.
    pub server: api_server::Settings,
    /// Most bytes of memory that may be promised to tenants and functions together; `None`: the limit of the
    /// process's control group, if it has one.
    pub memory: Option<u64>,
    /// Registries that tenants may name images of.
    pub tenant_registries: Vec<String>,
    /// How registries are asked.
    pub registries: Registries,
    /// Most bytes of images that are kept.
    pub keep_images: u64,
    /// Most bytes that the images of a tenant's containers may have.
    pub keep_container_images: u64,
    /// The socket of the launcher, which starts containers and programs.
    pub launcher: PathBuf,
    /// Its folder of sockets for these.
    pub guest_sockets: PathBuf,
    /// Whether perf is told the names of functions inside images.
    pub perf_map: bool,
}

/// Why the controller does not run, in words for the operator.
type Trouble = String;

/// Makes the folder that the socket is to be in, where it is missing: `/run` is empty after each boot. One
/// level, so that a misspelt path is no tree of new folders. Its owner and its group may look into it; the
/// socket's own permissions say which users may connect.
fn folder_of_socket(socket: &Path) -> Result<(), Trouble> {
    use std::os::unix::fs::DirBuilderExt;
    let Some(folder) = socket.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    match std::fs::DirBuilder::new().mode(0o750).create(folder) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(format!(
            "{}: the folder of the socket cannot be made: {error}; --socket names a socket in another folder",
            folder.display()
        )),
    }
}

/// Serves until the process is told to end by a signal. Gives the final account.
///
/// # Errors
/// Why it does not run, in words for the operator.
pub fn serve(settings: &Settings) -> Result<Account, Trouble> {
    let asked = Arc::<AtomicBool>::default();
    let early = EarlySignals::catch(&asked).map_err(|error| format!("signals: {error}"))?;
    private_folder(&settings.state)?;
    folder_of_socket(&settings.server.socket.path)?;
    backup::clean(&settings.state)?;
    let store = Store::open(&settings.state.join("store")).map_err(|error| error.to_string())?;
    let store = Arc::new(store);
    let controller = Arc::new(Controller::new(&store, settings)?);
    let server = Server::bind(&settings.server, store, Arc::new(Handle(controller.clone())))
        .map_err(|error| error.to_string())?;
    notify::tell("READY=1");
    notify::watch(&controller);
    let serving = move || {
        drop(early);
        asked.load(Relaxed)
    };
    server.serve(serving).map_err(|error| error.to_string())?;
    notify::tell("STOPPING=1");
    let account = controller.stop().map_err(|error| error.to_string())?;
    controller.told.end();
    Ok(account)
}

/// What catches signals from the start on until the server does: one that asks for the end is not forgotten,
/// and the host is drained after it as after any. A second one ends the process at once, as a start may take
/// long. At SIGHUP logs are opened anew; one that comes before that ends nothing.
struct EarlySignals(Vec<SigId>);

impl EarlySignals {
    fn catch(asked: &Arc<AtomicBool>) -> std::io::Result<EarlySignals> {
        flag::register(SIGHUP, Arc::default())?;
        let mut ends = EarlySignals(Vec::new());
        for signal in [SIGTERM, SIGINT] {
            // In this order: what the first one sets is looked at by the second one.
            ends.0.push(flag::register_conditional_shutdown(signal, 128 + signal, asked.clone())?);
            ends.0.push(flag::register(signal, asked.clone())?);
        }
        Ok(ends)
    }
}

impl Drop for EarlySignals {
    fn drop(&mut self) {
        for id in &self.0 {
            signal_hook::low_level::unregister(*id);
        }
    }
}

/// Makes the folder of the daemon's state, for its own user alone.
fn private_folder(path: &Path) -> Result<(), Trouble> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    let mode = std::fs::metadata(path).map_err(failed)?.mode() & 0o777;
    if mode & 0o077 == 0 {
        Ok(())
    } else {
        Err(format!(
            "{}: others may look into it (mode {mode:o}); allowed: a folder for its owner alone, mode 700",
            path.display()
        ))
    }
}
