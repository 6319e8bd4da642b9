//! What each client sees and changes: administrators, tenants with their tokens, and no others.

mod changes;
mod devices;
mod matrix;
mod streams;
mod tokens;
mod turns;

use crate::Running;
use crate::client::{Client, Got};
use api_server::{Page, Settings, Socket};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;

/// A server with two tenants that have one of everything, and what is neither's. All that is the one's has
/// `crimson` in its name, and all that is the other's `azure`.
pub struct Shared {
    pub server: Running,
    /// Changes and reads what is `crimson`'s.
    pub crimson: String,
    /// Reads it.
    pub reading: String,
    pub azure: String,
    /// Reads the whole host.
    pub watching: String,
}

impl Shared {
    pub fn new() -> Shared {
        Shared::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut Settings)) -> Shared {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tenants");
        let server = Running::within(folder, store::Settings::default(), |settings| {
            settings.tenants = Some(Socket { path, mode: 0o666, owner: None, group: None });
            settings.page = Some(Page::new(SocketAddr::from(([127, 0, 0, 1], 0)), None, &[]));
            change(settings);
        });
        let mut admin = server.client();
        let mut put = |path: &str, spec: Value| {
            let got = admin.put(path, &spec);
            assert_eq!(got.status, 201, "{path}: {got:?}");
        };
        put("/v1/workers/workers", json!(2));
        put("/v1/switches/hall", json!({}));
        put("/v1/groups/base", json!({}));
        for tenant in ["crimson", "azure"] {
            put(&format!("/v1/tenants/{tenant}"), json!({"cpu": {"weight": 300}}));
            for n in 0..2 {
                put(&format!("/v1/ports/{tenant}-port{n}"), json!({"type": "null", "tenant": tenant}));
            }
            let rootless = json!({"mode": "rootless", "tenant": tenant});
            put(&format!("/v1/devices/{tenant}-device"), rootless);
            put(&format!("/v1/groups/{tenant}-group"), json!({"tenant": tenant}));
            let image = json!({"image": "firewall", "tenant": tenant});
            put(&format!("/v1/functions/{tenant}-fw"), image.clone());
            put(&format!("/v1/functions/{tenant}-eye"), image);
            let ends = [format!("{tenant}-port0"), format!("{tenant}-fw"), format!("{tenant}-port1")];
            put(&format!("/v1/chains/{tenant}-chain"), json!(ends));
            let ends = [format!("{tenant}-eye:2"), format!("{tenant}-port1")];
            put(&format!("/v1/wires/{}~{}", ends[0], ends[1]), json!(ends));
            put(&format!("/v1/observers/{tenant}-eye"), json!({"at": [format!("{tenant}-fw")]}));
        }
        put("/v1/chains/ochre", json!(["crimson-port0", "azure-fw", "hall"]));
        put("/v1/services/7", json!("crimson-fw:0"));
        for tenant in ["crimson", "azure"] {
            let saved = admin.post(
                &format!("/v1/functions/{tenant}-fw/snapshots"),
                &json!({"name": format!("{tenant}-saved")}).to_string(),
            );
            assert_eq!(saved.status, 201);
        }
        let mut token = |name: &str, tenant: &str, read_only: bool| {
            let wanted = json!({"name": name, "tenant": tenant, "read_only": read_only});
            let made = admin.post("/v1/tokens", &wanted.to_string());
            assert_eq!(made.status, 201, "{made:?}");
            made.json()["secret"].as_str().expect("a secret").to_owned()
        };
        let crimson = token("crimson-token", "crimson", false);
        let reading = token("crimson-reader", "crimson", true);
        let azure = token("azure-token", "azure", false);
        let made = admin.post("/v1/tokens", r#"{"name": "watcher", "host": true}"#);
        assert_eq!(made.status, 201, "{made:?}");
        let watching = made.json()["secret"].as_str().expect("a secret").to_owned();
        Shared { server, crimson, reading, azure, watching }
    }

    pub fn door(&self) -> PathBuf {
        self.server.folder.path().join("tenants")
    }

    /// A client of the tenants' socket.
    pub fn tenants(&self) -> Client {
        Client::connect(&self.door())
    }

    #[track_caller]
    pub fn ask(&self, token: &str, method: &str, path: &str, body: &str) -> Got {
        ask(&mut self.tenants(), token, method, path, &[], body)
    }

    #[track_caller]
    pub fn put(&self, token: &str, path: &str, spec: Value) -> Got {
        self.ask(token, "PUT", path, &json!({"spec": spec}).to_string())
    }
}

#[track_caller]
pub fn ask(
    client: &mut Client,
    token: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Got {
    let shown = format!("Bearer {token}");
    let mut all = vec![("authorization", shown.as_str())];
    all.extend(headers);
    client.ask(method, path, &all, body)
}

/// Places of the faults of a problem.
pub fn places(got: &Got) -> Vec<String> {
    let problem = got.json();
    let faults = problem["faults"].as_array().cloned().unwrap_or_default();
    faults.iter().map(|fault| fault["at"].as_str().unwrap_or_default().to_owned()).collect()
}
