//! A real registry: Debian's docker-registry, with its storage in a folder of the test.

#[path = "support/debian.rs"]
mod debian;
mod support;

use debian::Registry;
use registry::{Artifact, Client, Credentials, Digest, Fault, Images, Login, Origin, Reference, Settings};
use std::fs;
use std::path::PathBuf;
use support::image;
use tempfile::TempDir;

/// `me:secret`, as htpasswd(1) writes it with bcrypt.
const HTPASSWD: &str = "me:$2b$04$Sh6sJ.ctVzV8DNgaUxE4k.n/rrMj6On0EcuDg/Pp1VNZ.toLUTHUm\n";

fn client(registry: &Registry) -> Client {
    let settings = Settings { insecure: vec![registry.host.clone()], ..Settings::default() };
    Client::new(settings).expect("sound settings")
}

fn reference(registry: &Registry, name: &str) -> Reference {
    format!("{}/{name}", registry.host).parse().expect("a reference")
}

/// A certificate for 127.0.0.1 that vouches for itself: its file and its key's.
fn certificate(folder: &TempDir) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    let paths = (folder.path().join("ca.pem"), folder.path().join("key.pem"));
    fs::write(&paths.0, made.cert.pem()).expect("written");
    fs::write(&paths.1, made.signing_key.serialize_pem()).expect("written");
    paths
}

fn open(folder: &TempDir) -> Images {
    Images::open(&folder.path().join("images"), 64 << 20).expect("opened")
}

#[test]
fn what_is_pushed_by_tag_is_pulled_by_tag_and_by_digest() {
    let (registry, folder) = (Registry::start("", ""), tempfile::tempdir().expect("a folder"));
    let (client, tagged, artifact) =
        (client(&registry), reference(&registry, "edge/echo:1.2.3"), Artifact::of(image(1)));
    let pushed = client.push(&tagged, &artifact).expect("pushed");
    assert_eq!(pushed.reference, tagged.pinned(artifact.digest()));
    assert!(!pushed.was_there);
    // Pushed again it is the same, and its content is not sent again.
    let again = client.push(&tagged, &artifact).expect("pushed");
    assert!(again.was_there && again.reference == pushed.reference);
    assert_eq!(client.resolve(&tagged).expect("resolved"), artifact.digest());

    let images = open(&folder);
    let by_tag = images.pull(&client, &tagged).expect("pulled");
    assert_eq!((by_tag.origin, by_tag.digest), (Origin::Registry, artifact.digest()));
    assert_eq!(by_tag.image.wasm(), artifact.image().wasm());
    let elsewhere = tempfile::tempdir().expect("a folder");
    let by_digest: Reference =
        format!("{}/edge/echo@{}", registry.host, artifact.digest()).parse().expect("a reference");
    let by_digest = open(&elsewhere).pull(&client, &by_digest).expect("pulled");
    assert_eq!((by_digest.origin, by_digest.image.wasm()), (Origin::Registry, artifact.image().wasm()));

    let error = client.pull(&reference(&registry, "edge/echo:2")).expect_err("there is none");
    assert!(matches!(*error.fault, Fault::Status { status: 404, .. }), "{error}");
    assert!(error.to_string().contains("MANIFEST_UNKNOWN"), "{error}");
}

#[test]
fn a_pinned_reference_keeps_its_meaning_when_the_tag_moves_and_when_the_registry_is_gone() {
    let (registry, folder) = (Registry::start("", ""), tempfile::tempdir().expect("a folder"));
    let (client, tagged) = (client(&registry), reference(&registry, "echo"));
    let (first, second) = (Artifact::of(image(1)), Artifact::of(image(2)));
    let pinned = client.push(&tagged, &first).expect("pushed").reference;
    client.push(&tagged, &second).expect("pushed");
    assert_eq!(client.resolve(&tagged).expect("resolved"), second.digest());
    let images = open(&folder);
    assert_eq!(images.pull(&client, &pinned).expect("pulled").image, *first.image());
    assert_eq!(images.pull(&client, &tagged).expect("pulled").image, *second.image());
    drop(registry);
    for wanted in [&first, &second] {
        let pulled = images.pull(&client, &tagged.pinned(wanted.digest())).expect("it is in the folder");
        assert_eq!((pulled.origin, &pulled.image), (Origin::Folder, wanted.image()));
    }
    let error = images.pull(&client, &tagged).expect_err("what the tag means now is not known").to_string();
    assert!(error.contains("cannot be reached"), "{error}");
}

#[test]
fn content_that_rots_in_the_registry_is_found_out() {
    let registry = Registry::start("", "");
    let (client, tagged, artifact) =
        (client(&registry), reference(&registry, "echo:1"), Artifact::of(image(1)));
    client.push(&tagged, &artifact).expect("pushed");
    let digits = Digest::of(artifact.image().wasm()).to_string().replace("sha256:", "");
    let blob = format!("storage/docker/registry/v2/blobs/sha256/{}/{digits}/data", &digits[..2]);
    let blob = registry.folder.path().join(blob);
    let mut bytes = fs::read(&blob).expect("the registry's file");
    bytes[20] ^= 1;
    fs::write(&blob, bytes).expect("written");
    let error = client.pull(&tagged).expect_err("it is something else");
    assert!(matches!(*error.fault, Fault::Digest { .. }), "{error}");
}

#[test]
fn one_needs_the_right_credentials_and_trust() {
    let folder = tempfile::tempdir().expect("a folder");
    let (ca, key) = certificate(&folder);
    let passwords = folder.path().join("htpasswd");
    fs::write(&passwords, HTPASSWD).expect("written");
    let registry = Registry::start(
        &format!("  tls:\n    certificate: {}\n    key: {}\n", ca.display(), key.display()),
        &format!("auth:\n  htpasswd:\n    realm: x\n    path: {}\n", passwords.display()),
    );
    let (tagged, artifact) = (reference(&registry, "edge/echo:1"), Artifact::of(image(1)));
    let push = |settings: Settings| Client::new(settings).expect("sound settings").push(&tagged, &artifact);
    let login = |password| Credentials::default().with_login(Login::new("me", password));

    let error = push(Settings { credentials: login("secret"), ..Settings::default() }).expect_err("no trust");
    assert!(matches!(*error.fault, Fault::Tls { .. }), "{error}");
    let trusting = Settings { ca_file: Some(ca), ..Settings::default() };
    for (credentials, hint) in
        [(login("wrong"), "were given"), (Credentials::default(), "there are no credentials")]
    {
        let error = push(Settings { credentials, ..trusting.clone() }).expect_err("no access");
        assert!(matches!(*error.fault, Fault::NoAccess { status: 401, .. }), "{error}");
        assert!(error.to_string().contains(hint), "{error}");
    }
    // In the clear to a registry that speaks TLS.
    let error =
        push(Settings { insecure: vec![registry.host.clone()], ..trusting.clone() }).expect_err("no HTTP");
    assert!(matches!(*error.fault, Fault::Status { status: 400, .. }), "{error}");

    let file = folder.path().join("config.json");
    let entry = format!("{{\"auths\": {{\"{}\": {{\"auth\": \"bWU6c2VjcmV0\"}}}}}}", registry.host);
    fs::write(&file, entry).expect("written");
    let credentials = Credentials::from_file(&file).expect("sound");
    push(Settings { credentials: credentials.clone(), ..trusting.clone() }).expect("pushed");
    let client = Client::new(Settings { credentials, ..trusting }).expect("sound settings");
    assert_eq!(client.pull(&tagged).expect("pulled").image(), artifact.image());
}
