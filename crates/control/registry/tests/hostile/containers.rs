//! Images of containers, of a registry that is honest but for one thing at a time.

use super::server::{Act, Asked, Server};
use registry::{Client, ContainerImages, Digest, Fault, ImagesError, PullError, Reference, Settings, Step};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const DOCKER: &str = "application/vnd.docker.distribution.manifest.v2+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const LIMIT: u64 = 64 << 10;

/// What a registry has: manifests with their media types, and other content.
#[derive(Clone, Default)]
struct Content {
    manifests: BTreeMap<String, (String, Vec<u8>)>,
    blobs: BTreeMap<String, Vec<u8>>,
}

fn named(media_type: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": Digest::of(bytes), "size": bytes.len()})
}

fn machine() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}

impl Content {
    fn blob(&mut self, media_type: &str, bytes: &[u8]) -> Value {
        self.blobs.insert(Digest::of(bytes).to_string(), bytes.to_vec());
        named(media_type, bytes)
    }

    fn manifest(&mut self, media_type: &str, text: &Value) -> Value {
        let bytes = text.to_string().into_bytes();
        let entry = named(media_type, &bytes);
        self.manifests.insert(Digest::of(&bytes).to_string(), (media_type.to_owned(), bytes));
        entry
    }

    fn tag(&mut self, tag: &str, entry: &Value) {
        let digest = entry["digest"].as_str().expect("a digest");
        self.manifests.insert(tag.to_owned(), self.manifests[digest].clone());
    }

    /// An image of one layer.
    fn image(&mut self, media_type: &str, layer: &[u8]) -> Value {
        let layer = self.blob(LAYER, layer);
        let config = json!({"os": "linux", "architecture": machine(), "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}});
        let config = self.blob("application/vnd.oci.image.config.v1+json", config.to_string().as_bytes());
        self.manifest(media_type, &json!({"schemaVersion": 2, "config": config, "layers": [layer]}))
    }

    fn answer(&self, asked: &Asked) -> Act {
        let name = asked.path.rsplit('/').next().unwrap_or_default();
        let typed = |media_type: &str, bytes: &[u8]| {
            Act::Answer(200, vec![("content-type", media_type.to_owned())], bytes.to_vec())
        };
        match (self.manifests.get(name), self.blobs.get(name)) {
            (Some((media_type, text)), _) if asked.path.contains("/manifests/") => typed(media_type, text),
            (_, Some(bytes)) if asked.path.contains("/blobs/") => typed("application/octet-stream", bytes),
            _ => Act::Answer(404, vec![], Vec::new()),
        }
    }

    fn serve(self) -> Server {
        Server::new(move |asked| self.answer(asked))
    }
}

fn reference(server: &Server, tag: &str) -> Reference {
    format!("{}/edge/ids:{tag}", server.host()).parse().expect("a reference")
}

fn client(server: &Server) -> Client {
    Client::new(Settings { insecure: vec![server.host()], ..super::settings(&[server]) }).expect("sound")
}

fn open(folder: &TempDir) -> ContainerImages {
    ContainerImages::open(&folder.path().join("containers"), LIMIT).expect("opened")
}

/// Pulls a tag for a tenant that needs nothing else.
fn pull(images: &ContainerImages, server: &Server, tenant: &str, tag: &str) -> Result<Reference, PullError> {
    let needed = |pinned: &Reference| BTreeSet::from_iter(pinned.digest());
    images.pull(&client(server), tenant, &reference(server, tag), needed)
}

/// Nothing of what was not finished is left, and nothing but that is there for the tenant.
fn is_clean(folder: &TempDir, tenant: &str, images: usize) {
    let count = |path: &Path| std::fs::read_dir(path).map_or(0, |entries| entries.count());
    let path = folder.path().join("containers");
    assert_eq!((count(&path.join(".unfinished")), count(&path.join(tenant))), (0, images));
}

/// Why a tag is not pulled, of a registry whose answers are changed.
fn refused(
    make: impl Fn(&mut Content) -> Value,
    lie: impl Fn(&Asked) -> Option<Act> + Send + Sync + 'static,
) -> (Step, Fault) {
    let mut content = Content::default();
    let entry = make(&mut content);
    content.tag("1", &entry);
    let server = Server::new(move |asked| lie(asked).unwrap_or_else(|| content.answer(asked)));
    let folder = tempfile::tempdir().expect("a folder");
    let error = match pull(&open(&folder), &server, "red", "1") {
        Err(PullError::Registry(error)) => error,
        other => panic!("it is refused: {other:?}"),
    };
    is_clean(&folder, "red", 0);
    (error.step, *error.fault)
}

#[test]
fn one_with_platforms_is_pulled_and_pinned_to_its_index() {
    let mut content = Content::default();
    let mut here = content.image(MANIFEST, b"layer");
    here["platform"] = json!({"os": "linux", "architecture": machine()});
    let other = json!({"mediaType": MANIFEST, "digest": Digest::of(b"x"), "size": 1, "platform": {"os": "linux", "architecture": "s390x"}});
    let index = content.manifest(INDEX, &json!({"schemaVersion": 2, "manifests": [other, here]}));
    let docker = content.image(DOCKER, b"another");
    content.tag("1", &index);
    content.tag("2", &docker);
    let server = content.serve();
    let folder = tempfile::tempdir().expect("a folder");
    let images = open(&folder);
    for (tag, entry) in [("1", &index), ("2", &docker)] {
        let pinned = pull(&images, &server, "red", tag).expect("pulled");
        let digest = pinned.digest().expect("pinned");
        assert_eq!(digest.to_string(), entry["digest"]);
        assert!(images.has("red", digest) && !images.has("blue", digest));
        let layout = std::fs::File::open(images.layout("red", digest)).expect("there");
        let wanted = container_image::Digest::try_from(digest.to_string()).expect("a digest");
        container_image::Layout::open(layout.into(), Some(&wanted)).expect("a layout");
    }
    is_clean(&folder, "red", 2);
    // What is there is not fetched again, but the registry says whether it may be had.
    let before = server.asked().len();
    pull(&images, &server, "red", "1").expect("there");
    assert_eq!(server.asked().len(), before + 1);
    // What a tenant has is not another's.
    pull(&images, &server, "blue", "1").expect("pulled");
    assert!(server.asked().len() > before + 2);
    images.retain(&BTreeSet::from(["blue"])).expect("retained");
    is_clean(&folder, "red", 0);
    is_clean(&folder, "blue", 1);
}

#[test]
fn what_lies_is_refused_and_nothing_of_it_kept() {
    let whole = |content: &mut Content| content.image(MANIFEST, b"layer");
    let layer = Digest::of(b"layer").to_string();
    let answers = |bytes: &'static [u8]| {
        let layer = layer.clone();
        move |asked: &Asked| {
            asked.path.ends_with(&layer).then(|| Act::Answer(200, Vec::new(), bytes.to_vec()))
        }
    };
    let (step, fault) = refused(whole, answers(b"other"));
    assert!(matches!((step, &fault), (Step::Layer, Fault::Digest { .. })), "{fault}");
    let (_, fault) = refused(whole, answers(b"lay"));
    assert!(matches!(fault, Fault::Length { found: Some(3), expected: 5 }), "{fault}");
    let (_, fault) = refused(whole, answers(b"layer and more"));
    assert!(matches!(fault, Fault::Length { found: None, expected: 5 }), "{fault}");
    let name = layer.clone();
    let (_, fault) = refused(whole, move |asked| {
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nla".to_vec();
        asked.path.ends_with(&name).then_some(Act::Hang(head))
    });
    assert!(matches!(fault, Fault::Silent { .. }), "{fault}");
    let (_, fault) = refused(whole, move |asked| {
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nla".to_vec();
        asked.path.ends_with(&layer).then_some(Act::Raw(head))
    });
    assert!(matches!(fault, Fault::Died { .. }), "{fault}");
}

#[test]
fn what_could_not_be_unpacked_is_refused() {
    let none = |_: &Asked| None;
    let told = |make: fn(&mut Content) -> Value| {
        let (_, fault) = refused(make, none);
        fault.to_string()
    };
    let wasm = told(|content| {
        let config = content.blob("application/vnd.wasm.config.v0+json", b"{}");
        let layer = content.blob("application/wasm", b"layer");
        content.manifest(MANIFEST, &json!({"schemaVersion": 2, "config": config, "layers": [layer]}))
    });
    assert!(wasm.contains("layer 1 is of the type `application/wasm`; allowed: tar"), "{wasm}");
    let other = told(|content| {
        let layer = content.blob(LAYER, b"layer");
        let config =
            json!({"os": "linux", "architecture": "s390x", "rootfs": {"diff_ids": [layer["digest"]]}});
        let config = content.blob("application/json", config.to_string().as_bytes());
        content.manifest(MANIFEST, &json!({"schemaVersion": 2, "config": config, "layers": [layer]}))
    });
    assert!(other.contains("the image is for linux/s390x"), "{other}");
    let nested = told(|content| {
        let one = content.image(MANIFEST, b"layer");
        let index = content.manifest(INDEX, &json!({"schemaVersion": 2, "manifests": [one]}));
        content.manifest(INDEX, &json!({"schemaVersion": 2, "manifests": [index]}))
    });
    assert!(nested.contains("what the index names is of the type"), "{nested}");
    let many = told(|content| {
        let layer = content.blob(LAYER, b"layer");
        let config = content.blob("application/json", b"{}");
        let layers = vec![layer; 129];
        content.manifest(MANIFEST, &json!({"schemaVersion": 2, "config": config, "layers": layers}))
    });
    assert!(many.contains("129 layers"), "{many}");
    let large = told(|content| {
        let mut layer = content.blob(LAYER, b"layer");
        layer["size"] = json!(u64::MAX);
        let config = content.blob("application/json", b"{}");
        content.manifest(MANIFEST, &json!({"schemaVersion": 2, "config": config, "layers": [layer]}))
    });
    assert!(large.contains("allowed: at most 65536"), "{large}");
}

#[test]
fn what_is_not_needed_leaves_when_there_is_no_room() {
    let mut content = Content::default();
    for tag in ["1", "2", "3"] {
        let entry = content.image(MANIFEST, &vec![tag.as_bytes()[0]; 30_000]);
        content.tag(tag, &entry);
    }
    let server = content.serve();
    let folder = tempfile::tempdir().expect("a folder");
    let images = open(&folder);
    let digest = |tag| pull(&images, &server, "red", tag).expect("pulled").digest().expect("pinned");
    let (first, second) = (digest("1"), digest("2"));
    assert!(images.has("red", first) && images.has("red", second));
    let third = digest("3");
    assert!(!images.has("red", first) && images.has("red", second) && images.has("red", third));
    // What is needed stays, and what does not fit beside it is not fetched.
    let needed = |pinned: &Reference| BTreeSet::from_iter([second, third].into_iter().chain(pinned.digest()));
    let error = images.pull(&client(&server), "red", &reference(&server, "1"), needed).expect_err("no room");
    assert!(matches!(error, PullError::Images(ImagesError::Full { .. })), "{error}");
    is_clean(&folder, "red", 2);
    // Another tenant's room is its own.
    pull(&images, &server, "blue", "1").expect("pulled");
}

#[test]
fn small_images_do_not_fill_the_folder() {
    let mut content = Content::default();
    for n in 0..70 {
        let entry = content.image(MANIFEST, format!("{n}").as_bytes());
        content.tag(&n.to_string(), &entry);
    }
    let (server, folder) = (content.serve(), tempfile::tempdir().expect("a folder"));
    let path = folder.path().join("containers");
    let images = ContainerImages::open(&path, 1 << 30).expect("opened");
    for n in 0..70 {
        pull(&images, &server, "red", &n.to_string()).expect("pulled");
    }
    let left = std::fs::read_dir(path.join("red")).expect("a folder").count();
    assert_eq!(left, 65, "64 that nothing needs, and the last one");
}

#[test]
fn a_tenant_of_any_name_keeps_its_images() {
    let mut content = Content::default();
    let entry = content.image(MANIFEST, b"layer");
    content.tag("1", &entry);
    let (server, folder) = (content.serve(), tempfile::tempdir().expect("a folder"));
    for tenant in ["unfinished", "red"] {
        pull(&open(&folder), &server, tenant, "1").expect("pulled");
    }
    drop(open(&folder));
    for tenant in ["unfinished", "red"] {
        is_clean(&folder, tenant, 1);
    }
}

#[test]
fn two_that_pull_the_same_both_have_it() {
    let mut content = Content::default();
    let entry = content.image(MANIFEST, b"layer");
    content.tag("1", &entry);
    let (server, folder) = (Arc::new(content.serve()), tempfile::tempdir().expect("a folder"));
    let images = Arc::new(open(&folder));
    let pulls: Vec<_> = (0..8)
        .map(|_| {
            let (images, server) = (images.clone(), server.clone());
            std::thread::spawn(move || pull(&images, &server, "red", "1").map(drop))
        })
        .collect();
    pulls.into_iter().for_each(|pull| pull.join().expect("no panic").expect("pulled"));
    is_clean(&folder, "red", 1);
    // What a killed daemon was fetching goes.
    let left = folder.path().join("containers/.unfinished/7/blobs");
    std::fs::create_dir_all(&left).expect("made");
    drop(open(&folder));
    is_clean(&folder, "red", 1);
}
