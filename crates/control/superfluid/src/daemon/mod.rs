//! `superfluid daemon`: serves what the store says, and lets clients change it while packets pass.
//!
//! 1. The store is opened, and the host made with the workers that it says.
//! 2. The server hands all objects to [`Controller`], which starts them; only then it listens.
//! 3. A service manager that wants to know is told so, and as long as all workers answer.
//! 4. Beside the workers there are threads for the balance between them, for memory that is given back, and
//!    the server's.
//! 5. At SIGTERM the server answers what it was asked, then the host is drained, and the account of every
//!    packet printed.

mod backup;
mod begin;
mod cgroup;
mod change;
mod confine;
mod control;
mod controller;
mod found;
mod images;
mod kept;
mod logs;
mod memory;
mod metrics;
mod notify;
mod of_tenant;
mod port_health;
mod refusal;
mod shelf;
mod status;
mod told;
mod upkeep;
mod watch;

use crate::Outcome;
use crate::cli::{AuditPolicy, DaemonOptions};
use api_server::{Server, Settings, Socket, Tcp};
use control::Handle;
use controller::Controller;
use std::path::Path;
use std::sync::Arc;
use store::Store;

/// Why the daemon does not run.
type Trouble = String;

pub(crate) fn daemon(options: &DaemonOptions) -> Outcome {
    match serve(options) {
        Ok(balanced) if balanced => Outcome::Done,
        Ok(_) => Outcome::Failed,
        Err(trouble) => {
            console::error().line(&format!("superfluid daemon: {trouble}"));
            Outcome::Failed
        }
    }
}

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

/// Serves until it is told to end. Whether the final account balances.
fn serve(options: &DaemonOptions) -> Result<bool, Trouble> {
    // At SIGHUP logs are opened anew; one that comes before that is heard ends nothing.
    signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::default())
        .map_err(|error| format!("signals: {error}"))?;
    private_folder(&options.state)?;
    folder_of_socket(&options.socket)?;
    backup::clean(&options.state)?;
    let store = Store::open(&options.state.join("store")).map_err(|error| error.to_string())?;
    let store = Arc::new(store);
    let controller = Arc::new(Controller::new(&store, options)?);
    let mut settings = Settings::new(&options.socket, options.state.join("audit.jsonl"));
    settings.audit.required = options.audit == AuditPolicy::Required;
    settings.socket.mode = options.mode;
    settings.socket.owner = options.owner;
    settings.socket.group = options.group;
    settings.version = env!("CARGO_PKG_VERSION").to_owned();
    if let (Some(listen), Some(certificate), Some(key), Some(client_ca)) =
        (options.listen, &options.tls_cert, &options.tls_key, &options.tls_client_ca)
    {
        settings.tcp = Some(Tcp {
            listen,
            certificate: certificate.clone(),
            key: key.clone(),
            client_ca: client_ca.clone(),
            administrators: options.tls_admin.clone(),
        });
    }
    settings.metrics = options.metrics;
    if let Some(path) = &options.tenants_socket {
        let (mode, owner, group) = (options.tenants_mode, options.owner, options.group);
        settings.tenants = Some(Socket { path: path.clone(), mode, owner, group });
    }
    let environment = |name: &str| std::env::var(name).ok();
    let spans =
        trace_export::Settings::find(options.otlp_endpoint.as_deref(), environment, &settings.version);
    settings.spans = spans.map_err(|error| error.to_string())?;
    let server = Server::bind(&settings, store, Arc::new(Handle(controller.clone())))
        .map_err(|error| error.to_string())?;
    notify::tell("READY=1");
    notify::watch(&controller);
    server.serve().map_err(|error| error.to_string())?;
    notify::tell("STOPPING=1");
    let account = controller.stop().map_err(|error| error.to_string())?;
    controller.told.end();
    console::output().write(crate::view::final_account(&account, false));
    match account.balance() {
        Ok(()) => Ok(true),
        Err(imbalance) => {
            let what =
                format!("the account does not balance: {imbalance}; this is a defect, please report it");
            console::error().line(&what);
            Ok(false)
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
