//! Configurations of stock functions, read as the daemon reads them: text, checked against the manifest.

use manifest::Manifest;
use schema::Files;
use yaml_document::{Document, Location, Position};

/// What reads a function's configurations.
pub(crate) struct Configuration(Manifest);

/// The same for every file that a configuration names.
struct OneFile<'a>(&'a str);

impl Files for OneFile<'_> {
    fn read(&self, _path: &str, _most: u64) -> Result<Vec<u8>, String> {
        Ok(self.0.into())
    }
}

impl Configuration {
    /// Of the function that has this manifest.
    pub(crate) fn of(manifest: &str) -> Configuration {
        Configuration(Manifest::parse("function.yaml", manifest).expect("the manifest"))
    }

    /// A configuration as the function gets it; `file` is what stands in each file that it names.
    pub(crate) fn read(&self, text: &str, file: &str) -> Vec<u8> {
        let document = Document::parse("config", text).expect("YAML");
        let mut faults = Vec::new();
        let place = Location::new("config", "", Position::START);
        let value = self.0.schema.check_with(&place, Some(document.root()), &[], &OneFile(file), &mut faults);
        value.filter(|_| faults.is_empty()).unwrap_or_else(|| panic!("{faults:?}")).to_cbor()
    }
}
