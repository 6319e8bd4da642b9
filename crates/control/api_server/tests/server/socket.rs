//! The socket's file.

use crate::Running;
use crate::client::Client;
use api_server::{BindError, Server, Settings};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use store::Store;

fn try_bind(settings: &Settings) -> Result<Server, BindError> {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Arc::new(Store::open(folder.path()).expect("opens"));
    Server::bind(settings, store, Arc::new(crate::fake::Fake::default()))
}

#[test]
fn it_has_the_mode_and_owner_that_are_asked_for_and_goes_at_the_end() {
    let user = rustix::process::getuid().as_raw();
    let mut server = Running::with(|settings| {
        settings.socket.mode = 0o660;
        settings.socket.owner = Some(user);
        settings.socket.group = Some(rustix::process::getgid().as_raw());
    });
    let path = server.socket();
    let made = std::fs::symlink_metadata(&path).expect("is there");
    assert_eq!((made.permissions().mode() & 0o777, made.uid()), (0o660, user));
    assert!(!server.folder.path().join("socket.new").exists());
    server.join();
    assert!(!path.exists());
}

#[test]
fn a_second_server_is_refused_and_the_first_goes_on() {
    let server = Running::new();
    let settings = Settings::new(server.socket(), server.folder.path().join("other"));
    assert!(matches!(try_bind(&settings).err(), Some(BindError::InUse(_))));
    assert_eq!(server.client().get("/v1/health").status, 200);
    // Also one that knows nothing of the lock.
    let path = server.folder.path().join("foreign");
    let _foreign = UnixListener::bind(&path).expect("binds");
    let settings = Settings::new(&path, server.folder.path().join("other"));
    assert!(matches!(try_bind(&settings).err(), Some(BindError::InUse(_))));
}

#[test]
fn a_stale_socket_is_replaced_and_other_files_are_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    drop(UnixListener::bind(&path).expect("binds"));
    assert!(path.exists(), "left behind");
    let server = Running::within(folder, store::Settings::default(), |_| {});
    assert_eq!(Client::connect(&path).get("/v1/health").status, 200);
    let file = server.folder.path().join("file");
    std::fs::write(&file, "precious").expect("writes");
    let settings = Settings::new(&file, server.folder.path().join("other"));
    assert!(matches!(try_bind(&settings).err(), Some(BindError::NotASocket(_))));
    assert_eq!(std::fs::read_to_string(&file).expect("reads"), "precious");
    let long = server.folder.path().join("x".repeat(120));
    let told = try_bind(&Settings::new(long, "audit")).err().map(|error| error.to_string());
    assert!(told.is_some_and(|told| told.contains("allowed for a socket: at most 101")));
}

#[test]
fn a_store_with_what_is_no_object_is_not_served() {
    let folder = tempfile::tempdir().expect("a folder");
    for (kind, name, value) in [
        ("gadget", "a", "{}"),
        ("function", "a/b", "{\"spec\":1}"),
        ("function", "a", "{\"spec\":1,\"new\":2}"),
    ] {
        let state = folder.path().join(format!("{kind}{}", value.len() + name.len()));
        let store = Arc::new(Store::open(&state).expect("opens"));
        store.commit(&[store::Change::put(kind, name, value.as_bytes())]).expect("commits");
        let settings = Settings::new(folder.path().join("socket"), folder.path().join("audit"));
        let told = Server::bind(&settings, store, Arc::new(crate::fake::Fake::default())).err();
        assert!(matches!(told, Some(BindError::Object { .. })), "{kind} {name}: {told:?}");
    }
}
