//! The manifest is in order, and its schema's defaults are a configuration that the function takes.

use forwarder::Forwarder;
use manifest::Manifest;

#[test]
fn the_manifest_is_in_order_and_its_defaults_work() {
    let manifest = Manifest::parse("function.yaml", include_str!("../function.yaml")).expect("in order");
    assert_eq!(manifest.interfaces, ["left", "right"]);
    assert_eq!(manifest.drop_reasons, ["runt"]);
    let mut faults = Vec::new();
    let value = manifest.schema.check("edge.yaml", "", None, &mut faults).expect("only defaults");
    assert!(faults.is_empty(), "{faults:?}");
    Forwarder::new(&value.to_cbor()).expect("the defaults");
}
