//! Images and files that a check needs, read before it and not within it: a check is done under locks, and a
//! file may be as slow as whatever is behind it.
//!
//! 1. A check asks a [`Material`] for images and files. What has not been read yet is noted as missing, and
//!    the check's outcome is void.
//! 2. [`Material::gather`] reads what was missing, with no lock held, and the check is done again. A file
//!    that does not come in time is a fault of what names it.
//! 3. What was read stays for later checks of the same change, so that each of them comes to the same.

use crate::catalog::Catalog;
use crate::slow_files::WITHIN;
use image::Image;
use manifest::Manifest;
use schema::{Schema, Value};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Files that are read at a time.
const TOGETHER: usize = 16;

/// See the module's documentation.
pub struct Material<'a> {
    catalog: &'a Catalog,
    read: Mutex<Gathered>,
}

/// What was read for the checks of a change.
#[derive(Clone, Default)]
pub struct Gathered {
    images: HashMap<String, Result<Image, String>>,
    /// By path and the most bytes that are wanted.
    files: HashMap<(String, u64), Result<Vec<u8>, String>>,
    missing: BTreeSet<Missing>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Missing {
    Image(String),
    File(String, u64),
}

impl<'a> Material<'a> {
    /// Nothing is read yet.
    pub fn of(catalog: &'a Catalog) -> Material<'a> {
        Material { catalog, read: Mutex::default() }
    }

    /// What was read for an earlier check of the same change is there.
    pub fn again(catalog: &'a Catalog, gathered: &Gathered) -> Material<'a> {
        Material { catalog, read: Mutex::new(gathered.clone()) }
    }

    /// What has been read, for a later check.
    pub fn gathered(self) -> Gathered {
        self.read.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what an image is, or why it is not to be had, so that it is not read.
    pub fn put(&self, text: &str, image: Result<Image, String>) {
        self.read().images.insert(text.to_owned(), image);
    }

    /// Whether it is known what an image is, or why it is not to be had.
    pub fn has_image(&self, text: &str) -> bool {
        self.read().images.contains_key(text) || self.catalog.loaded(text).is_some()
    }

    /// Reads what was missing since the last call. Whether there was any: the check is to be done again then.
    pub fn gather(&self) -> bool {
        let missing = std::mem::take(&mut self.read().missing);
        let mut files = Vec::new();
        for one in &missing {
            match one {
                Missing::Image(text) => {
                    let image = self.catalog.load(text);
                    self.read().images.insert(text.clone(), image);
                }
                Missing::File(path, most) => files.push((path.clone(), *most)),
            }
        }
        // One that does not come is waited for together with others.
        for together in files.chunks(TOGETHER) {
            let begun =
                together.iter().map(|(path, most)| self.catalog.reading(&self.catalog.path(path), *most));
            let begun: Vec<_> = begun.collect();
            let until = Instant::now() + WITHIN;
            for (key, reading) in together.iter().zip(begun) {
                let file = reading.end(until).and_then(|read| read);
                self.read().files.insert(key.clone(), file);
            }
        }
        !missing.is_empty()
    }

    /// Whether something is missing: the outcome of the check means nothing.
    pub fn is_missing(&self) -> bool {
        !self.read().missing.is_empty()
    }

    /// The image that the text of an `image` names.
    ///
    /// # Errors
    /// Why there is none, or that it has not been read yet.
    pub(crate) fn load(&self, text: &str) -> Result<Image, String> {
        let mut read = self.read();
        if let Some(known) = read.images.get(text) {
            return known.clone();
        }
        if let Some(image) = self.catalog.loaded(text) {
            return Ok(image);
        }
        read.missing.insert(Missing::Image(text.to_owned()));
        Err("it has not been read yet".to_owned())
    }

    fn read(&self) -> MutexGuard<'_, Gathered> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl config::Catalog for Material<'_> {
    fn image(&self, reference: &str) -> Result<Arc<Manifest>, String> {
        self.load(reference).map(|image| image.shared_manifest())
    }

    fn file(&self, path: &str, most: u64) -> Result<Vec<u8>, String> {
        let key = (path.to_owned(), most);
        let mut read = self.read();
        if let Some(known) = read.files.get(&key) {
            return known.clone();
        }
        read.missing.insert(Missing::File(key.0, key.1));
        Err("it has not been read yet".to_owned())
    }

    fn container_image(&self, text: &str) -> Result<(), String> {
        self.catalog.container_image(text)
    }

    fn image_names(&self) -> Vec<&str> {
        self.catalog.image_names()
    }

    fn driver(&self, name: &str) -> Option<&Schema> {
        self.catalog.driver(name)
    }

    fn check_port(&self, driver: &str, settings: &Value, fault: Option<&Value>) -> Result<(), String> {
        self.catalog.check_port(driver, settings, fault)
    }

    fn faults(&self) -> &Schema {
        self.catalog.faults()
    }

    fn driver_names(&self) -> Vec<&str> {
        self.catalog.driver_names()
    }

    fn processors(&self) -> Vec<usize> {
        self.catalog.processors()
    }

    fn memory(&self) -> Option<u64> {
        self.catalog.memory()
    }

    fn beside(&self, tenant: &str) -> u64 {
        self.catalog.beside(tenant)
    }
}
