//! Any operator's file and any manifest: refused with faults of one line each, or a wiring that is valid.

use config::Catalog;
use manifest::Manifest;
use schema::Schema;
use std::sync::Arc;

const FIREWALL: &str = "{name: firewall, version: 1.0.0, abi: 1, summary: s, language: c, access: read, \
                        interfaces: [inside, outside], memory_limit: 1MiB, config: {rate: {type: rate, default: 1pps}}}";

/// One stock image and one driver; an image named by path has the fuzzer's manifest.
struct Shelf<'a> {
    driver: Schema,
    manifest: &'a str,
}

impl Catalog for Shelf<'_> {
    fn image(&self, reference: &str) -> Result<Arc<Manifest>, String> {
        let text = if reference == "firewall" { FIREWALL } else { self.manifest };
        Manifest::parse(reference, text).map(Arc::new).map_err(|faults| faults[0].to_string())
    }

    fn file(&self, path: &str, most: u64) -> Result<Vec<u8>, String> {
        let bytes = self.manifest.as_bytes();
        if bytes.len() as u64 <= most {
            Ok(bytes.to_vec())
        } else {
            Err(format!("{path}: larger than allowed"))
        }
    }

    fn image_names(&self) -> Vec<&str> {
        vec!["firewall"]
    }

    fn driver(&self, name: &str) -> Option<&Schema> {
        (name == "null").then_some(&self.driver)
    }

    fn faults(&self) -> &Schema {
        &self.driver
    }

    fn driver_names(&self) -> Vec<&str> {
        vec!["null"]
    }

    fn processors(&self) -> Vec<usize> {
        vec![0, 1, 4]
    }
}

pub fn run(data: &[u8]) {
    let Ok(text) = yaml_document::text("f", data) else { return };
    // What follows a form feed is the manifest of the images named by path.
    let (text, manifest) = text.split_once('\u{c}').unwrap_or((text, ""));
    match config::check("f", text, &Shelf { driver: Schema::default(), manifest }) {
        Ok(configuration) => assert_eq!(configuration.wiring.validate(), Ok(())),
        Err(faults) => {
            assert!(!faults.is_empty());
            assert!(faults.iter().all(|fault| fault.to_string().lines().count() == 1));
        }
    }
}
