//! What the program knows beside the file: images, by name or in files, and port drivers.

use image::Image;
use manifest::Manifest;
use rustix::thread::{CpuSet, sched_getaffinity};
use schema::Schema;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    images: Mutex<BTreeMap<String, Result<Image, String>>>,
    drivers: Vec<Driver>,
    faults: Schema,
    /// What may be promised to all together.
    memory: Option<u64>,
}

impl Catalog {
    /// A catalog for a file in this folder.
    pub fn new(directory: &Path) -> Catalog {
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
            driver("null", port::null::SCHEMA),
            driver("pcap", port::pcap::SCHEMA),
            driver("sink", port::sink::SCHEMA),
            driver("tap", port_tap::SCHEMA),
        ];
        let faults = schema("fault", port::fault::SCHEMA);
        Catalog { directory: directory.to_owned(), images: Mutex::default(), drivers, faults, memory: None }
    }

    /// The same for a host that may promise so many bytes of memory; `None`: any number.
    pub fn promising(self, memory: Option<u64>) -> Catalog {
        Catalog { memory, ..self }
    }

    /// The image that a reference names.
    ///
    /// # Errors
    /// Why there is none, in words for the operator.
    pub fn load(&self, reference: &str) -> Result<Image, String> {
        self.images().entry(reference.to_owned()).or_insert_with(|| self.read(reference)).clone()
    }

    /// A path as it stands in the file.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.directory.join(path)
    }

    /// All images that were asked for and are good, by their references, and the stock images.
    pub fn known(&self) -> Vec<(String, Image)> {
        for name in stock_images::names() {
            // What is no good is told to whoever asks for it.
            let _ = self.load(name);
        }
        let images = self.images();
        let good = images.iter().filter_map(|(reference, image)| Some((reference, image.as_ref().ok()?)));
        good.map(|(reference, image)| (reference.clone(), image.clone())).collect()
    }

    /// Reads an image anew when it is next asked for.
    pub fn forget(&self, reference: &str) {
        self.images().remove(reference);
    }

    fn images(&self) -> MutexGuard<'_, BTreeMap<String, Result<Image, String>>> {
        self.images.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, reference: &str) -> Result<Image, String> {
        if !reference.contains(['/', '.']) {
            let bytes = stock_images::stock(reference).ok_or_else(|| {
                let names: Vec<_> = stock_images::names().collect();
                format!("no stock image has this name; allowed: {}, or the path of a file", names.join(", "))
            })?;
            return Image::load(bytes).map_err(|error| error.to_string());
        }
        let path = self.path(reference);
        let mut bytes = Vec::new();
        std::fs::File::open(&path)
            .and_then(|file| file.take(LARGEST_IMAGE + 1).read_to_end(&mut bytes))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        Image::load(&bytes).map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl config::Catalog for Catalog {
    fn memory(&self) -> Option<u64> {
        self.memory
    }

    fn processors(&self) -> Vec<usize> {
        // A kernel that does not tell allows what it allows; a worker that asks for another is refused at the start.
        let Ok(allowed) = sched_getaffinity(None) else { return (0..CpuSet::MAX_CPU).collect() };
        (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor)).collect()
    }

    fn image(&self, reference: &str) -> Result<Manifest, String> {
        self.load(reference).map(|image| image.manifest().clone())
    }

    fn file(&self, path: &str, most: u64) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        std::fs::File::open(self.path(path))
            .and_then(|file| file.take(most.saturating_add(1)).read_to_end(&mut bytes))
            .map_err(|error| error.to_string())?;
        if bytes.len() as u64 > most { Err("larger than allowed".to_owned()) } else { Ok(bytes) }
    }

    fn image_names(&self) -> Vec<&str> {
        stock_images::names().collect()
    }

    fn driver(&self, name: &str) -> Option<&Schema> {
        self.drivers.iter().find(|driver| driver.name == name).map(|driver| &driver.schema)
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
    }
}
