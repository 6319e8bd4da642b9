//! The manifest is in order, agrees with the code, and its schema's defaults are a configuration that the
//! function takes.

use dpi::Dpi;
use dpi::metrics::NAMES;
use manifest::Manifest;
use nf_sdk::native::Runner;
use schema::Files;
use yaml_document::{Document, Location, Position};

#[test]
fn the_manifest_is_in_order_and_its_defaults_work() {
    let manifest = Manifest::parse("function.yaml", include_str!("../function.yaml")).expect("in order");
    assert_eq!(manifest.interfaces, ["inside", "outside", "suspicious"]);
    assert_eq!(manifest.counters, NAMES);
    // Reasons are counted behind what is accepted, in their order.
    assert_eq!(manifest.drop_reasons, NAMES[1..=manifest.drop_reasons.len()]);
    let text = "rules: RULES\nvariables:\n  - {name: HOME_NET, value: 10.0.0.0/8}\n";
    let document = Document::parse("edge.yaml", text).expect("YAML");
    let place = Location::new("edge.yaml", "", Position::START);
    let mut faults = Vec::new();
    let value = manifest.schema.check_with(&place, Some(document.root()), &[], &OneFile, &mut faults);
    assert!(faults.is_empty(), "{faults:?}");
    Runner::<Dpi>::new(&value.expect("in order").to_cbor()).expect("the defaults");
}

/// Every file has one rule.
struct OneFile;

impl Files for OneFile {
    fn read(&self, _path: &str, _most: u64) -> Result<Vec<u8>, String> {
        Ok(b"alert tcp $HOME_NET any -> any any (content:\"abc\"; sid:1;)\n".to_vec())
    }
}
