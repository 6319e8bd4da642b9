//! Registries that hang, lie, die or lead astray: one clear line each time, in time, and nothing of it is
//! kept.

mod containers;
mod server;
#[path = "../support/mod.rs"]
mod support;

use registry::{
    Artifact, Client, Credentials, Digest, Fault, Images, Login, MANIFEST_TYPE, Origin, PullError, Reference,
    RegistryError, Settings, Step,
};
use server::{Act, Asked, Server, honest};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::image;

const TOTAL: Duration = Duration::from_millis(1500);

fn settings(servers: &[&Server]) -> Settings {
    Settings {
        connect: Duration::from_millis(500),
        idle: Duration::from_millis(300),
        total: TOTAL,
        insecure: servers.iter().map(|server| server.host()).collect(),
        ..Settings::default()
    }
}

fn client(servers: &[&Server]) -> Client {
    Client::new(settings(servers)).expect("sound settings")
}

fn reference(server: &Server) -> Reference {
    format!("{}/edge/echo:1", server.host()).parse().expect("a reference")
}

/// Pulls with this client, bounded in time, into a folder in which nothing may be left behind.
fn refused(client: &Client, reference: &Reference) -> RegistryError {
    let folder = tempfile::tempdir().expect("a folder");
    let images = Images::open(&folder.path().join("images"), 1 << 30).expect("opened");
    let begin = Instant::now();
    let error = match images.pull(client, reference) {
        Err(PullError::Registry(error)) => error,
        other => panic!("it is refused: {other:?}"),
    };
    // Busy machines are slow; without the limit it would last for ever.
    assert!(begin.elapsed() < TOTAL * 40, "after {:?}: {error}", begin.elapsed());
    let line = error.to_string();
    assert!(line.starts_with(&reference.to_string()) && !line.contains(['\n', '\u{1b}']), "{line:?}");
    assert_eq!(images.list().expect("listed"), []);
    let left = std::fs::read_dir(folder.path().join("images/blobs/sha256")).expect("a folder").count();
    assert_eq!(left, 0);
    error
}

/// An honest registry but for what `act` answers.
fn lying(act: impl Fn(&Artifact, &Asked) -> Option<Act> + Send + Sync + 'static) -> (Server, Artifact) {
    let artifact = Artifact::of(image(1));
    let kept = artifact.clone();
    (Server::new(move |asked| act(&kept, asked).unwrap_or_else(|| honest(&kept, asked))), artifact)
}

/// The same, asked for once; the step and the fault.
fn fault(act: impl Fn(&Artifact, &Asked) -> Option<Act> + Send + Sync + 'static) -> (Step, Fault) {
    let (server, _) = lying(act);
    let RegistryError { step, fault, .. } = refused(&client(&[&server]), &reference(&server));
    (step, *fault)
}

fn is_layer(artifact: &Artifact, asked: &Asked) -> bool {
    asked.path.ends_with(&Digest::of(artifact.image().wasm()).to_string())
}

fn is_config(artifact: &Artifact, asked: &Asked) -> bool {
    asked.path.ends_with(&Digest::of(artifact.config()).to_string())
}

fn manifest(text: impl Into<Vec<u8>>) -> Act {
    Act::Answer(200, vec![("content-type", MANIFEST_TYPE.to_owned())], text.into())
}

fn head(length: usize) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {MANIFEST_TYPE}\r\ncontent-length: {length}\r\n\r\n")
        .into_bytes()
}

fn chunked() -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {MANIFEST_TYPE}\r\ntransfer-encoding: chunked\r\n\r\n")
        .into_bytes()
}

#[test]
fn an_honest_one_is_believed() {
    let (server, artifact) = lying(|_, _| None);
    let (client, reference) = (client(&[&server]), reference(&server));
    assert_eq!(client.resolve(&reference).expect("resolved"), artifact.digest());
    let pulled = client.pull(&reference).expect("pulled");
    assert_eq!((pulled.digest(), pulled.image()), (artifact.digest(), artifact.image()));
}

#[test]
fn one_that_hangs_is_left() {
    for part in 0..5 {
        let (step, found) = fault(move |artifact, asked| {
            let manifest = asked.path.contains("/manifests/");
            match part {
                0 if manifest => Some(Act::Hang(Vec::new())),
                1 if manifest => Some(Act::Hang(b"HTTP/1.1 200".to_vec())),
                2 if manifest => Some(Act::Hang(head(700))),
                3 if is_config(artifact, asked) => Some(Act::Hang(Vec::new())),
                4 if is_layer(artifact, asked) => Some(Act::Hang(head(artifact.image().wasm().len()))),
                _ => None,
            }
        });
        assert!(matches!(found, Fault::Silent { .. }), "{part}: {found}");
        assert_eq!(step, [Step::Manifest, Step::Manifest, Step::Manifest, Step::Config, Step::Layer][part]);
    }
}

#[test]
fn one_that_is_never_silent_and_never_done_is_left() {
    let (_, found) = fault(|_, _| Some(Act::Drip(b"HTTP/1.1 200 OK\r\nx: ".to_vec())));
    assert!(matches!(found, Fault::Late { .. } | Fault::NoHttp { .. }), "{found}");
    let (step, found) = fault(|artifact, asked| {
        is_layer(artifact, asked).then(|| Act::Drip(head(artifact.image().wasm().len())))
    });
    assert!(matches!(found, Fault::Late { .. }), "{found}");
    assert_eq!(step, Step::Layer);
}

#[test]
fn one_that_sends_without_end_is_read_no_further_than_agreed() {
    let (_, found) = fault(|_, _| Some(Act::Endless(b"HTTP/1.1 200 OK\r\nx: ".to_vec())));
    assert!(matches!(found, Fault::NoHttp { .. }), "{found}");
    // Without a length, in one chunk of 4 GiB, and with a length that is told.
    let until_end = format!("HTTP/1.1 200 OK\r\ncontent-type: {MANIFEST_TYPE}\r\n\r\n").into_bytes();
    let (step, found) = fault(move |_, _| Some(Act::Endless(until_end.clone())));
    assert!(matches!((step, &found), (Step::Manifest, Fault::Large { found: None, .. })), "{found}");
    let chunk = [chunked(), b"ffffffff\r\n".to_vec()].concat();
    let (_, found) = fault(move |_, _| Some(Act::Endless(chunk.clone())));
    assert!(matches!(found, Fault::Large { found: None, .. }), "{found}");
    let (_, found) = fault(|_, _| Some(Act::Endless(head(1 << 40))));
    assert!(matches!(found, Fault::Large { found: Some(length), .. } if length == 1 << 40), "{found}");
    let (step, found) = fault(|artifact, asked| is_layer(artifact, asked).then(|| Act::Endless(chunked())));
    assert!(matches!(found, Fault::NoHttp { .. } | Fault::Died { .. }), "{found}");
    assert_eq!(step, Step::Layer);
    let chunk = [chunked(), b"ffffffff\r\n".to_vec()].concat();
    let (step, found) =
        fault(move |artifact, asked| is_layer(artifact, asked).then(|| Act::Endless(chunk.clone())));
    assert!(matches!((step, &found), (Step::Layer, Fault::Length { found: None, .. })), "{found}");
}

#[test]
fn one_that_lies_about_content_is_found_out() {
    // A manifest other than the one asked for by digest, and other than the header says.
    let (server, _) = lying(|_, asked| {
        asked.path.contains("/manifests/").then(|| manifest(Artifact::of(image(2)).manifest()))
    });
    let pinned = reference(&server).pinned(Artifact::of(image(1)).digest());
    let error = refused(&client(&[&server]), &pinned);
    assert!(matches!(*error.fault, Fault::Digest { .. }), "{error}");
    let (step, found) = fault(|artifact, asked| {
        let headers = vec![
            ("content-type", MANIFEST_TYPE.to_owned()),
            ("docker-content-digest", Digest::of(b"else").to_string()),
        ];
        asked.path.contains("/manifests/").then(|| Act::Answer(200, headers, artifact.manifest().to_vec()))
    });
    assert!(matches!((step, &found), (Step::Manifest, Fault::Digest { .. })), "{found}");
    // Content with one other byte; too short; too long; of a length that is not what came.
    let layer = |change: fn(&mut Vec<u8>)| {
        fault(move |artifact, asked| {
            let mut bytes = artifact.image().wasm().to_vec();
            change(&mut bytes);
            is_layer(artifact, asked).then(|| Act::Answer(200, vec![], bytes))
        })
    };
    assert!(matches!(layer(|bytes| bytes[9] ^= 1), (Step::Layer, Fault::Digest { .. })));
    assert!(matches!(
        layer(|bytes| {
            bytes.pop();
        }),
        (Step::Layer, Fault::Length { found: Some(_), .. })
    ));
    assert!(matches!(layer(|bytes| bytes.push(0)), (Step::Layer, Fault::Length { found: Some(_), .. })));
    assert!(matches!(layer(Vec::clear), (Step::Layer, Fault::Length { found: Some(0), .. })));
    let (_, found) = fault(|artifact, asked| {
        let half = [head(artifact.config().len()), artifact.config()[..20].to_vec()].concat();
        is_config(artifact, asked).then_some(Act::Raw(half))
    });
    assert!(matches!(found, Fault::Died { .. }), "{found}");
}

#[test]
fn one_that_promises_too_much_is_not_asked_for_it() {
    let (server, artifact) = lying(|artifact, asked| {
        let size = format!("\"size\":{}", artifact.image().wasm().len());
        let text = String::from_utf8_lossy(artifact.manifest()).replace(&size, "\"size\":33554433");
        asked.path.contains("/manifests/").then(|| manifest(text))
    });
    let error = refused(&client(&[&server]), &reference(&server));
    assert!(matches!(*error.fault, Fault::Large { found: Some(33_554_433), limit: 33_554_432 }), "{error}");
    assert!(server.asked().iter().all(|asked| !is_layer(&artifact, asked)));
}

#[test]
fn other_things_than_images_are_refused_by_their_type() {
    let page = |media_type: &'static str| {
        fault(move |_, _| {
            Some(Act::Answer(200, vec![("content-type", media_type.to_owned())], b"<html>log in".to_vec()))
        })
    };
    assert!(matches!(page("text/html; charset=utf-8").1, Fault::Type { found, .. } if found == "text/html"));
    assert!(matches!(page("application/vnd.oci.image.index.v1+json").1, Fault::Index { .. }));
    assert!(matches!(page(MANIFEST_TYPE).1, Fault::Document(_)));
    let (step, found) = fault(|artifact, asked| {
        let text =
            String::from_utf8_lossy(artifact.manifest()).replace("application/wasm", "application/x-tar");
        asked.path.contains("/manifests/").then(|| manifest(text))
    });
    assert!(matches!((step, &found), (Step::Manifest, Fault::Document(_))), "{found}");
    // All digests agree, and yet it is no function's image.
    let wasm = b"\0asm\x01\0\0\0";
    let (step, found) = fault(move |artifact, asked| {
        if asked.path.ends_with(&Digest::of(wasm).to_string()) {
            return Some(Act::Answer(200, vec![], wasm.to_vec()));
        }
        let config = br#"{"architecture":"wasm"}"#;
        if asked.path.ends_with(&Digest::of(config).to_string()) {
            return Some(Act::Answer(200, vec![], config.to_vec()));
        }
        let named = |bytes: &[u8]| format!("\"digest\":\"{}\",\"size\":{}", Digest::of(bytes), bytes.len());
        let text = String::from_utf8_lossy(artifact.manifest())
            .replace(&named(artifact.image().wasm()), &named(wasm))
            .replace(&named(artifact.config()), &named(config));
        Some(manifest(text))
    });
    assert!(matches!((step, &found), (Step::Layer, Fault::Image(_))), "{found}");
}

#[test]
fn one_that_dies_or_talks_nonsense_is_told() {
    let (_, found) = fault(|_, _| Some(Act::Raw(Vec::new())));
    assert!(matches!(found, Fault::Died { .. }), "{found}");
    let (_, found) = fault(|_, _| Some(Act::Raw(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec())));
    assert!(matches!(found, Fault::NoHttp { .. }), "{found}");
    let (_, found) = fault(|_, _| Some(Act::Answer(500, vec![], b"<html>\x1b[2J".to_vec())));
    assert!(matches!(found, Fault::Status { status: 500, .. }), "{found}");
    let told = br#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"no \u001b[2J\n such"}]}"#;
    let (_, found) = fault(|_, _| Some(Act::Answer(404, vec![], told.to_vec())));
    assert!(found.to_string().contains("answered 404: MANIFEST_UNKNOWN: no \\u{1b}[2J\\n such"), "{found}");
}

#[test]
fn one_that_is_not_there_is_told() {
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
        listener.local_addr().expect("an address").to_string()
    };
    let client = Client::new(Settings { insecure: vec![gone.clone()], ..settings(&[]) }).expect("sound");
    let error = refused(&client, &format!("{gone}/x:1").parse().expect("a reference"));
    assert!(matches!(*error.fault, Fault::Unreachable { .. }), "{error}");
    let error = refused(&client, &"no-such-host.invalid/x:1".parse().expect("a reference"));
    assert!(matches!(*error.fault, Fault::Unreachable { .. } | Fault::ConnectLate { .. }), "{error}");
}

#[test]
fn no_host_is_spoken_to_in_the_clear_that_is_not_listed() {
    let (server, _) = lying(|_, _| None);
    let error = refused(&client(&[]), &reference(&server));
    assert!(matches!(*error.fault, Fault::Tls { .. }), "{error}");
    assert!(error.to_string().contains("listed as insecure"), "{error}");
    assert!(server.asked().is_empty());
}

#[test]
fn redirects_are_followed_within_bounds() {
    let to = |place: String| Some(Act::Answer(307, vec![("location", place)], Vec::new()));
    let (_, found) = fault(move |_, asked| to(asked.path.clone()));
    assert!(matches!(found, Fault::Redirects { limit: 5, .. }), "{found}");
    for place in ["", "ftp://x.example/", "http://127.0.0.1:9/", "http://169.254.169.254/latest"] {
        let (_, found) = fault(move |_, _| to(place.to_owned()));
        assert!(matches!(found, Fault::Location { .. }), "{place}: {found}");
    }
    // A registry that keeps blobs elsewhere: it gets the credentials, the other place does not.
    let artifact = Artifact::of(image(1));
    let (there, kept) = (artifact.clone(), artifact.clone());
    let other = Server::new(move |asked| honest(&there, asked));
    let place = format!("http://{}", other.host());
    let server = Server::new(move |asked| match (&asked.authorization, asked.path.contains("/blobs/")) {
        (None, _) => Act::Answer(401, vec![("www-authenticate", "Basic realm=x".to_owned())], Vec::new()),
        (_, true) => Act::Answer(302, vec![("location", format!("{place}{}", asked.path))], Vec::new()),
        _ => honest(&kept, asked),
    });
    let credentials = Credentials::default().with_login(Login::new("me", "secret"));
    let client = Client::new(Settings { credentials, ..settings(&[&server, &other]) }).expect("sound");
    assert_eq!(client.pull(&reference(&server)).expect("pulled").digest(), artifact.digest());
    assert_eq!(server.asked()[1].authorization.as_deref(), Some("Basic bWU6c2VjcmV0"));
    assert_eq!(other.asked().len(), 2);
    assert!(other.asked().iter().all(|asked| asked.authorization.is_none()));
}

#[test]
fn credentials_are_given_as_they_are_asked_for() {
    let artifact = Artifact::of(image(1));
    let service = Server::new(|asked| match asked.authorization.as_deref() {
        Some("Basic bWU6c2VjcmV0") => Act::Answer(200, vec![], br#"{"token":"t0ken"}"#.to_vec()),
        _ => Act::Answer(403, vec![], Vec::new()),
    });
    let (realm, kept) = (service.host(), artifact.clone());
    let server = Server::new(move |asked| match asked.authorization.as_deref() {
        Some("Bearer t0ken") => honest(&kept, asked),
        _ => {
            let challenge =
                format!("Bearer realm=\"http://{realm}/token\",service=\"r\",scope=\"registry:catalog:*\"");
            Act::Answer(401, vec![("www-authenticate", challenge)], Vec::new())
        }
    });
    let with = |credentials| {
        Client::new(Settings { credentials, ..settings(&[&server, &service]) }).expect("sound settings")
    };
    let login = Credentials::default().with_login(Login::new("me", "secret"));
    assert_eq!(with(login).pull(&reference(&server)).expect("pulled").digest(), artifact.digest());
    // Once, for this repository and nothing else, whatever the registry would like.
    let asked = service.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].path, "/token?service=r&scope=repository%3Aedge%2Fecho%3Apull");

    let error = refused(&with(Credentials::default()), &reference(&server));
    assert!(matches!(*error.fault, Fault::NoAccess { status: 403, .. }), "{error}");
    assert!(error.to_string().contains("there are no credentials for"), "{error}");
    // A client that is refused with what was asked for does not ask for ever.
    for challenge in
        ["Basic realm=x", "Bearer realm=\"/x\"", "Negotiate", "Bearer", "Bearer realm=\"http://a.example/\""]
    {
        let (server, _) = lying(|_, _| None);
        drop(server);
        let refuser = Server::new(move |asked| match asked.path.starts_with("/x") {
            true => Act::Answer(200, vec![], br#"{"token":"x"}"#.to_vec()),
            false => Act::Answer(401, vec![("www-authenticate", challenge.to_owned())], Vec::new()),
        });
        let credentials = Credentials::default().with_login(Login::new("me", "secret"));
        let client = Client::new(Settings { credentials, ..settings(&[&refuser]) }).expect("sound");
        let error = refused(&client, &reference(&refuser));
        let known =
            matches!(*error.fault, Fault::NoAccess { .. } | Fault::Challenge { .. } | Fault::Location { .. });
        assert!(known && !error.to_string().contains("secret"), "{challenge}: {error}");
        assert!(refuser.asked().len() <= 3);
    }
}

#[test]
fn a_push_that_is_refused_or_lied_to_is_told() {
    let artifact = Artifact::of(image(1));
    let push = |act: Arc<dyn Fn(&Asked) -> Act + Send + Sync>| {
        let server = Server::new(move |asked| act(asked));
        client(&[&server]).push(&reference(&server), &artifact).expect_err("it is refused")
    };
    let start = |place: &'static str| {
        move |asked: &Asked| match asked.method.as_str() {
            "HEAD" => Act::Answer(404, vec![], Vec::new()),
            "POST" => Act::Answer(202, vec![("location", place.to_owned())], Vec::new()),
            _ => Act::Answer(413, vec![], Vec::new()),
        }
    };
    let error = push(Arc::new(start("/upload?x=1")));
    assert!(matches!(*error.fault, Fault::Status { status: 413, .. }), "{error}");
    assert_eq!(error.step, Step::Config);
    let error = push(Arc::new(start("http://169.254.169.254/")));
    assert!(matches!(*error.fault, Fault::Location { .. }), "{error}");
    let error = push(Arc::new(|asked: &Asked| match asked.method.as_str() {
        "HEAD" => Act::Answer(200, vec![], Vec::new()),
        _ => Act::Answer(201, vec![("docker-content-digest", Digest::of(b"else").to_string())], Vec::new()),
    }));
    assert!(matches!((error.step, &*error.fault), (Step::Manifest, Fault::Digest { .. })), "{error}");
    let error = push(Arc::new(|_: &Asked| Act::Answer(405, vec![], Vec::new())));
    assert!(matches!(*error.fault, Fault::Status { status: 405, .. }), "{error}");
    let error = push(Arc::new(|_: &Asked| Act::Hang(Vec::new())));
    assert!(matches!(*error.fault, Fault::Silent { .. }), "{error}");

    let (server, artifact) = lying(|_, _| None);
    let pinned = reference(&server).pinned(Digest::of(b"else"));
    let error = client(&[&server]).push(&pinned, &artifact).expect_err("it is something else");
    assert!(matches!(*error.fault, Fault::Pinned { .. }), "{error}");
    assert!(server.asked().is_empty());
}

#[test]
fn what_is_kept_needs_no_registry_and_what_is_damaged_is_fetched_again() {
    let (server, artifact) = lying(|_, _| None);
    let (client, tagged) = (client(&[&server]), reference(&server));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("images");
    let images = Images::open(&path, 1 << 20).expect("opened");
    let pulled = images.pull(&client, &tagged).expect("pulled");
    assert_eq!((pulled.origin, &pulled.image), (Origin::Registry, artifact.image()));
    assert_eq!(pulled.reference, tagged.pinned(artifact.digest()));
    let questions = server.asked().len();
    // By digest there is no request; by tag for the manifest alone.
    let again = images.pull(&client, &pulled.reference).expect("pulled");
    assert_eq!((again.origin, server.asked().len()), (Origin::Folder, questions));
    assert_eq!(images.pull(&client, &tagged).expect("pulled").origin, Origin::Folder);
    assert_eq!(server.asked().len(), questions + 1);

    let digits = Digest::of(artifact.image().wasm()).to_string().replace("sha256:", "");
    let file = path.join("blobs/sha256").join(digits);
    std::fs::write(&file, b"damaged").expect("written");
    let error = images.get(artifact.digest()).expect_err("damaged").to_string();
    assert!(error.contains("damaged") && error.contains(&file.display().to_string()), "{error}");
    assert_eq!(images.pull(&client, &pulled.reference).expect("pulled").origin, Origin::Registry);
    assert_eq!(images.get(artifact.digest()).expect("sound").as_ref(), Some(artifact.image()));
}
