//! `superfluid daemon`: the controller with the command line's settings, and its final account.

use crate::Outcome;
use crate::cli::{AuditPolicy, DaemonOptions};
use crate::{page_files, view};
use api_server::{Page, Socket, Tcp};
use controller::Registries;

/// Carries the command out.
pub(crate) fn daemon(options: &DaemonOptions) -> Outcome {
    let account = match settings(options).and_then(|settings| controller::serve(&settings)) {
        Ok(account) => account,
        Err(trouble) => {
            console::error().line(&format!("superfluid daemon: {trouble}"));
            return Outcome::Failed;
        }
    };
    console::output().write(view::final_account(&account, (&[], account.at), false));
    match account.balance() {
        Ok(()) => Outcome::Done,
        Err(imbalance) => {
            let what =
                format!("the account does not balance: {imbalance}; this is a defect, please report it");
            console::error().line(&what);
            Outcome::Failed
        }
    }
}

fn settings(options: &DaemonOptions) -> Result<controller::Settings, String> {
    Ok(controller::Settings {
        state: options.state.clone(),
        server: server_settings(options)?,
        memory: options.memory,
        tenant_registries: options.tenant_registry.clone(),
        registries: Registries {
            insecure: options.registry_insecure.clone(),
            ca_file: options.registry_ca_file.clone(),
            auth_file: options.registry_auth_file.clone(),
            timeout: options.registry_timeout,
        },
        keep_images: options.keep_images,
        keep_container_images: options.keep_container_images,
        launcher: options.launcher.clone(),
        guest_sockets: options.guest_sockets.clone(),
        perf_map: options.perf_map,
    })
}

fn server_settings(options: &DaemonOptions) -> Result<api_server::Settings, String> {
    let mut settings = api_server::Settings::new(&options.socket, options.state.join("audit.jsonl"));
    settings.audit.required = options.audit == AuditPolicy::Required;
    settings.socket.mode = options.mode;
    settings.socket.owner = options.owner;
    settings.socket.group = options.group;
    settings.limits.tenant_snapshot_bytes = options.keep_snapshots;
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
    let certified = options.tls_cert.clone().zip(options.tls_key.clone());
    if certified.is_some() && options.listen.is_none() && options.page.is_none() {
        return Err("--tls-cert is for --listen and --page, and neither is there".to_owned());
    }
    settings.page = options.page.map(|address| Page::new(address, certified, page_files::FILES));
    settings.metrics = options.metrics;
    if let Some(path) = &options.tenants_socket {
        let (mode, owner, group) = (options.tenants_mode, options.owner, options.group);
        settings.tenants = Some(Socket { path: path.clone(), mode, owner, group });
    }
    let environment = |name: &str| std::env::var(name).ok();
    let spans =
        trace_export::Settings::find(options.otlp_endpoint.as_deref(), environment, &settings.version);
    settings.spans = spans.map_err(|error| error.to_string())?;
    Ok(settings)
}
