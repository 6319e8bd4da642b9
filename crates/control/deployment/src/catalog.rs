//! What the program knows beside the file: images, by name, in files or kept from registries, and port
//! drivers.

use crate::active_guests::ActiveGuests;
use crate::drivers;
use crate::named::Named;
use crate::processors;
use crate::regular_file;
use crate::shared_images::SharedImages;
use crate::slow_files::{Look, SlowFiles, WITHIN};
use image::Image;
use kernel_interface::Owner;
use manifest::Manifest;
use registry::{Digest, Images, ImagesError};
use rustix::thread::CpuSet;
use schema::{Schema, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Largest image file that is read.
const LARGEST_IMAGE: u64 = 32 << 20;

/// A kind of port: how its settings look, and how it is opened.
pub struct Driver {
    pub name: &'static str,
    pub schema: Schema,
}

/// Images and drivers. Images are read once, so that what was checked is what runs.
pub struct Catalog {
    /// Paths in the file are relative to the file.
    directory: PathBuf,
    images: Mutex<BTreeMap<String, Image>>,
    /// Where images are kept by their digests, if they are.
    kept: Option<Arc<Images>>,
    drivers: Vec<Driver>,
    faults: Schema,
    /// What may be promised to all together.
    memory: Option<u64>,
    /// What tenants have of that beside their pools and functions.
    shared: Arc<SharedImages>,
    /// Where ports meet that share a capture.
    meetings: port::pcap::Meetings,
    /// Where the ports of containers meet that packets pass by.
    bypasses: port::bypass::Bypasses,
    /// Processes that are attached to native ports.
    processes: port_native::Processes,
    /// Processes that have pools by memif ports.
    memif_peers: port_memif::Peers,
    /// Queues of guests' TAP devices.
    taps: port_tap::Handed,
    /// Which guests are active, of those that stand by each other.
    active_guests: ActiveGuests,
    /// The launcher's folder of guests' sockets.
    guest_sockets: PathBuf,
    owner: Option<Owner>,
    /// What is looked at of the host's files.
    files: SlowFiles,
}

/// The launcher's folder of guests' sockets, if nothing else is said.
const GUEST_SOCKETS: &str = "/run/superfluid-guests";

impl Catalog {
    /// A catalog for a file in this folder.
    pub fn new(directory: &Path) -> Catalog {
        Catalog::with_kept(directory, None)
    }

    /// The same, with a folder of images that references to registries and pinned files mean.
    pub fn with_kept(directory: &Path, kept: Option<Arc<Images>>) -> Catalog {
        let schema = |name, text| {
            Schema::from_text(name, text).unwrap_or_else(|faults| {
                unreachable!("the settings of port `{name}` are this program's own and tested: {faults:?}")
            })
        };
        let driver = |name, text| Driver { name, schema: schema(name, text) };
        let drivers = vec![
            driver("af_packet", port_af_packet::SCHEMA),
            driver("af_xdp", port_af_xdp::SCHEMA),
            driver("generator", port::generator::SCHEMA),
            driver("memif", port_memif::SCHEMA),
            driver("native", port_native::SCHEMA),
            driver("null", port::null::SCHEMA),
            driver("pcap", port::pcap::SCHEMA),
            driver("sink", port::sink::SCHEMA),
            driver("tap", port_tap::SCHEMA),
            driver("vhost-user", port_vhost_user::SCHEMA),
        ];
        let faults = schema("fault", port::fault::SCHEMA);
        Catalog {
            directory: directory.to_owned(),
            images: Mutex::default(),
            kept,
            drivers,
            faults,
            memory: None,
            shared: Arc::default(),
            meetings: port::pcap::Meetings::default(),
            bypasses: port::bypass::Bypasses::default(),
            processes: port_native::Processes::default(),
            memif_peers: port_memif::Peers::default(),
            taps: port_tap::Handed::default(),
            active_guests: ActiveGuests::default(),
            guest_sockets: GUEST_SOCKETS.into(),
            owner: None,
            files: SlowFiles::default(),
        }
    }

    /// The same for a host that may promise so many bytes of memory; `None`: any number.
    pub fn promising(self, memory: Option<u64>) -> Catalog {
        Catalog { memory, ..self }
    }

    /// The same for a host whose functions share this memory.
    pub fn counting(self, shared: &Arc<SharedImages>) -> Catalog {
        Catalog { shared: shared.clone(), ..self }
    }

    /// The image that the text of an `image` names.
    ///
    /// # Errors
    /// Why there is none, in words for the operator.
    pub fn load(&self, text: &str) -> Result<Image, String> {
        if let Some(image) = self.images().get(text) {
            return Ok(image.clone());
        }
        let image = self.read(text)?;
        self.images().insert(text.to_owned(), image.clone());
        Ok(image)
    }

    /// The same if it was asked for before: nothing is read.
    pub(crate) fn loaded(&self, text: &str) -> Option<Image> {
        self.images().get(text).cloned()
    }

    /// Where ports meet that share a capture.
    pub(crate) fn meetings(&self) -> &port::pcap::Meetings {
        &self.meetings
    }

    /// Where the ports of containers meet that packets pass by.
    pub(crate) fn bypasses(&self) -> &port::bypass::Bypasses {
        &self.bypasses
    }

    /// Processes that have pools by memif ports.
    pub(crate) fn memif_peers(&self) -> &port_memif::Peers {
        &self.memif_peers
    }

    /// Processes that are attached to native ports.
    pub fn processes(&self) -> &port_native::Processes {
        &self.processes
    }

    /// Has `tell` called for each process of a guest that is to be ended, and again from time to time while
    /// it lives. It must not wait.
    pub fn when_guests_fail(&self, tell: impl Fn(port_native::Failed) + Send + Sync + 'static) {
        self.processes.when_failed(tell);
    }

    /// Where the ports of guests' TAP devices find the queues of these.
    pub fn taps(&self) -> &port_tap::Handed {
        &self.taps
    }

    /// Where the ports of guests find which one is active.
    pub fn active_guests(&self) -> &ActiveGuests {
        &self.active_guests
    }

    /// The same for a launcher that has another folder of guests' sockets than usual.
    pub fn with_guest_sockets(self, folder: &Path) -> Catalog {
        // Ports need the whole path. Without a present folder it stays as it is, and they say what is wrong.
        let guest_sockets = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        Catalog { guest_sockets, ..self }
    }

    /// The same for a program whose guests are told by this from those of another one.
    pub fn with_owner(self, owner: Owner) -> Catalog {
        Catalog { owner: Some(owner), ..self }
    }

    /// Whose guests its ports are for.
    pub(crate) fn owner(&self) -> Option<Owner> {
        self.owner
    }

    /// The launcher's folder of guests' sockets: one folder for each guest in it.
    pub(crate) fn guest_sockets(&self) -> &Path {
        &self.guest_sockets
    }

    /// A path as it stands in the file.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.directory.join(path)
    }

    /// All images that were asked for and are good, by what names them, and the stock images.
    pub fn known(&self) -> Vec<(String, Image)> {
        for name in stock_images::names() {
            // What is no good is told when it is asked for.
            let _ = self.load(name);
        }
        self.images().iter().map(|(text, image)| (text.clone(), image.clone())).collect()
    }

    /// Forgets the images whose names do not stay, so that they are read anew when they are next asked for.
    pub fn retain(&self, stays: impl Fn(&str) -> bool) {
        self.images().retain(|text, _| stays(text));
    }

    /// Knows an image under a name from now on.
    pub fn learn(&self, text: &str, image: Image) {
        self.images().insert(text.to_owned(), image);
    }

    fn images(&self) -> MutexGuard<'_, BTreeMap<String, Image>> {
        self.images.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, text: &str) -> Result<Image, String> {
        match Named::read(text)? {
            Named::Stock(name) => stock(name),
            Named::File { path, digest: None } => self.read_file(path),
            Named::File { path, digest: Some(digest) } => self.read_pinned_file(path, digest),
            Named::Artifact(reference) => {
                let Some(kept) = &self.kept else {
                    return Err(format!(
                        "images in registries are for the daemon; allowed here: a file, such as that of `superfluid image pull {reference} \
                         --output FILE`"
                    ));
                };
                let told = |error: ImagesError| error.to_string();
                match kept.find(&reference).map_err(told)? {
                    Some(digest) => kept.get(digest).map_err(told)?,
                    None => None,
                }
                .ok_or_else(|| {
                    "this image is not on this host any more; apply it again, so that it is fetched"
                        .to_owned()
                })
            }
        }
    }

    /// Reads an image out of a file.
    ///
    /// # Errors
    /// What the system says, and what is wrong with the image.
    pub fn read_file(&self, path: &str) -> Result<Image, String> {
        let path = self.path(path);
        let bytes = self
            .reading(&path, LARGEST_IMAGE)
            .end(Instant::now() + WITHIN)
            .and_then(|read| read)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Image::load(&bytes).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Looks at something about a file, in time.
    ///
    /// # Errors
    /// Why nothing was found: what is behind the file did not answer.
    pub fn look<T: Send + 'static>(
        &self,
        path: &Path,
        look: impl FnOnce(&Path) -> T + Send + 'static,
    ) -> Result<T, String> {
        self.files.begin(path, look).end(Instant::now() + WITHIN)
    }

    /// Whether something else is in one of these files than was, as far as they come in time; one that is
    /// not there, or cannot be read, is as it was.
    pub fn any_differs(&self, files: Vec<(String, Vec<u8>)>) -> bool {
        let begin = |(path, was): (String, Vec<u8>)| {
            self.files.begin(&self.path(&path), move |path| regular_file::differs(path, &was))
        };
        let begun: Vec<_> = files.into_iter().map(begin).collect();
        let until = Instant::now() + WITHIN;
        // Each is waited for: one that is not would not be known to be late.
        begun.into_iter().map(|look| look.end(until)).filter(|found| *found == Ok(Ok(true))).count() > 0
    }

    /// Begins to read a file of at most so many bytes.
    pub(crate) fn reading(&self, path: &Path, most: u64) -> Look<Result<Vec<u8>, String>> {
        self.files.begin(path, move |path| regular_file::read(path, most))
    }

    /// What was in the file when it was pinned: out of the folder, or out of the file if it has not changed.
    fn read_pinned_file(&self, path: &str, digest: Digest) -> Result<Image, String> {
        if let Some(kept) = &self.kept
            && let Some(image) = kept.get_single(digest).map_err(|error| error.to_string())?
        {
            return Ok(image);
        }
        let image = self.read_file(path)?;
        let found = Digest::from(image.digest());
        if found == digest {
            return Ok(image);
        }
        Err(format!("{}: found {found}; allowed: what it is pinned to, {digest}", self.path(path).display()))
    }
}

fn stock(name: &str) -> Result<Image, String> {
    let bytes = stock_images::stock(name).ok_or_else(|| {
        let names: Vec<_> = stock_images::names().collect();
        format!(
            "no stock image has this name; allowed: {}, the path of a file, or HOST/REPOSITORY:TAG in a registry",
            names.join(", ")
        )
    })?;
    Image::load(bytes).map_err(|error| error.to_string())
}

impl config::Catalog for Catalog {
    fn memory(&self) -> Option<u64> {
        self.memory
    }

    fn beside(&self, tenant: &str) -> u64 {
        self.shared.bytes_of(tenant)
    }

    fn processors(&self) -> Vec<usize> {
        let given = processors::of_program();
        (0..CpuSet::MAX_CPU).filter(|processor| given.is_set(*processor)).collect()
    }

    fn image(&self, text: &str) -> Result<Arc<Manifest>, String> {
        self.load(text).map(|image| image.shared_manifest())
    }

    fn file(&self, path: &str, most: u64) -> Result<Vec<u8>, String> {
        self.reading(&self.path(path), most).end(Instant::now() + WITHIN)?
    }

    fn container_image(&self, text: &str) -> Result<(), String> {
        match (Named::of_container(text)?, &self.kept) {
            (Named::Artifact(_), None) => Err(
                "images in registries are for the daemon; allowed here: the folder of an OCI image layout"
                    .to_owned(),
            ),
            _ => Ok(()),
        }
    }

    fn image_names(&self) -> Vec<&str> {
        stock_images::names().collect()
    }

    fn driver(&self, name: &str) -> Option<&Schema> {
        self.drivers.iter().find(|driver| driver.name == name).map(|driver| &driver.schema)
    }

    fn check_port(&self, driver: &str, settings: &Value, fault: Option<&Value>) -> Result<(), String> {
        drivers::check(driver, settings, fault)
    }

    fn faults(&self) -> &Schema {
        &self.faults
    }

    fn driver_names(&self) -> Vec<&str> {
        self.drivers.iter().map(|driver| driver.name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stock_image_and_driver_is_sound() {
        let catalog = Catalog::new(Path::new("."));
        for name in stock_images::names() {
            assert_eq!(catalog.load(name).expect("sound").manifest().name.as_str(), name);
        }
        assert!(stock_images::names().count() >= 3);
        assert!(catalog.load("fire").expect_err("unknown").contains("firewall"));
        assert!(catalog.load("./no/such.wasm").expect_err("absent").contains("no/such.wasm"));
        let refused = catalog.load("r.example/fw:1").expect_err("no registries");
        assert!(refused.contains("image pull r.example/fw:1"), "{refused}");
        let container = |text| config::Catalog::container_image(&catalog, text);
        assert_eq!((container("./ids"), container("/srv/r.example/ids:7")), (Ok(()), Ok(())));
        assert!(container("r.example/ids:7").expect_err("no registries").contains("an OCI image layout"));
    }

    #[test]
    fn a_pinned_file_means_what_was_kept_and_never_anything_else() {
        let folder = tempfile::tempdir().expect("a folder");
        let images = Arc::new(Images::open(&folder.path().join("images"), 64 << 20).expect("opened"));
        let stock = Catalog::new(folder.path()).load("forwarder").expect("sound");
        let digest = Digest::from(stock.digest());
        let file = folder.path().join("f.wasm");
        std::fs::write(&file, stock.wasm()).expect("written");
        let pinned = crate::named::pinned_file("f.wasm", digest);
        let load = |kept: bool| {
            let kept = kept.then(|| images.clone());
            Catalog::with_kept(folder.path(), kept).load(&pinned).map(|image| image.digest())
        };
        // Not kept, but unchanged.
        assert_eq!((load(true), load(false)), (Ok(stock.digest()), Ok(stock.digest())));
        images.pin("daemon", &[digest]).expect("pinned");
        images.keep(&stock).expect("kept");
        let other = Catalog::new(folder.path()).load("monitor").expect("sound");
        std::fs::write(&file, other.wasm()).expect("written");
        assert_eq!(load(true), Ok(stock.digest()));
        let refused = load(false).expect_err("another file");
        assert!(refused.contains(&format!("found {}", Digest::from(other.digest()))), "{refused}");
        std::fs::remove_file(&file).expect("removed");
        assert_eq!(load(true), Ok(stock.digest()));
        assert!(load(false).expect_err("no file").contains("f.wasm"));
    }

    #[test]
    fn a_reference_means_what_is_kept_of_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let images = Arc::new(Images::open(&folder.path().join("images"), 64 << 20).expect("opened"));
        let catalog = Catalog::with_kept(folder.path(), Some(images.clone()));
        assert!(catalog.load("r.example/fw:1").expect_err("absent").contains("apply it again"));
        let artifact = registry::Artifact::of(catalog.load("forwarder").expect("sound"));
        images.add(&"r.example/fw:1".parse().expect("a reference"), &artifact).expect("added");
        let digest = artifact.digest();
        for text in
            [format!("r.example/fw:1@{digest}"), format!("r.example/fw@{digest}"), "r.example/fw:1".into()]
        {
            assert_eq!(catalog.load(&text).expect("kept").digest(), artifact.image().digest(), "{text}");
        }
        catalog.retain(|text| text == "forwarder");
        assert_eq!(catalog.known().len(), stock_images::names().count());
    }
}
