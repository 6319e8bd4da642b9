use super::*;
use crate::images::test_image;
use serde_json::{Value, json};

fn document() -> Value {
    serde_json::from_slice(Artifact::of(test_image(1)).manifest()).expect("JSON")
}

fn fault(document: &Value) -> DocumentFault {
    Manifest::parse(document.to_string().as_bytes()).expect_err("refused")
}

#[test]
fn an_artifact_is_laid_out_as_the_guide_says() {
    let image = test_image(1);
    let artifact = Artifact::of(image.clone());
    let wasm = Digest::of(image.wasm()).to_string();
    let manifest = document();
    assert_eq!(manifest["schemaVersion"], 2);
    assert_eq!(manifest["mediaType"], "application/vnd.oci.image.manifest.v1+json");
    assert_eq!(manifest["config"]["mediaType"], "application/vnd.wasm.config.v0+json");
    assert_eq!(manifest["config"]["digest"], Digest::of(artifact.config()).to_string());
    assert_eq!(manifest["layers"].as_array().map(Vec::len), Some(1));
    assert_eq!(manifest["layers"][0]["mediaType"], "application/wasm");
    assert_eq!(manifest["layers"][0]["digest"], wasm);
    assert_eq!(manifest["layers"][0]["size"], image.wasm().len());
    assert_eq!(manifest["annotations"]["org.opencontainers.image.version"], "1.2.3");
    let config: Value = serde_json::from_slice(artifact.config()).expect("JSON");
    assert_eq!(
        config,
        json!({"created": "1970-01-01T00:00:00Z", "architecture": "wasm", "os": "wasip1", "layerDigests": [wasm]})
    );
}

#[test]
fn what_is_written_is_read_and_always_the_same() {
    let artifact = Artifact::of(test_image(1));
    let manifest = Manifest::parse(artifact.manifest()).expect("sound");
    assert_eq!(manifest.config, Descriptor::of(CONFIG_TYPE, artifact.config()));
    assert_eq!(manifest.layer, Descriptor::of(LAYER_TYPE, artifact.image().wasm()));
    assert_eq!(check_config(artifact.config(), &manifest.layer), Ok(()));
    assert_eq!(Artifact::of(test_image(1)).digest(), artifact.digest());
    assert_ne!(Artifact::of(test_image(2)).digest(), artifact.digest());
}

#[test]
fn other_manifests_are_refused_by_what_is_wrong_with_them() {
    let change = |at: &str, value: Value| {
        let mut document = document();
        *document.pointer_mut(at).expect("it is there") = value;
        fault(&document)
    };
    assert_eq!(change("/schemaVersion", json!(1)), DocumentFault::Version(1));
    let found =
        |part| move |fault: DocumentFault| matches!(fault, DocumentFault::Type { part: p, .. } if p == part);
    assert!(found("own text")(change("/mediaType", json!("application/vnd.oci.image.index.v1+json"))));
    assert!(found("configuration")(change(
        "/config/mediaType",
        json!("application/vnd.oci.image.config.v1+json")
    )));
    assert!(found("layer")(change("/layers/0/mediaType", json!("application/vnd.oci.image.layer.v1.tar"))));
    assert_eq!(change("/layers", json!([])), DocumentFault::Layers(0));
    let layer = document()["layers"][0].clone();
    assert_eq!(change("/layers", json!([layer, layer])), DocumentFault::Layers(2));
    for (at, value) in [
        ("/layers/0/size", json!(-1)),
        ("/layers/0/size", json!(1.5)),
        ("/layers/0/digest", json!("sha256:00")),
        ("/config", json!(null)),
        ("/config/digest", json!("md5:\u{1b}")),
    ] {
        let DocumentFault::Json(reason) = change(at, value) else { panic!("{at} is read") };
        assert!(!reason.contains('\u{1b}'));
    }
    assert!(matches!(Manifest::parse(b"<html>"), Err(DocumentFault::Json(_))));
    let twice = br#"{"schemaVersion": 2, "schemaVersion": 2}"#;
    assert!(matches!(Manifest::parse(twice), Err(DocumentFault::Json(_))));
}

#[test]
fn a_configuration_may_say_less_but_nothing_else() {
    let layer = Descriptor::of(LAYER_TYPE, b"x");
    assert_eq!(check_config(b"{}", &layer), Ok(()));
    let check = |document: Value| check_config(document.to_string().as_bytes(), &layer);
    assert_eq!(check(json!({"architecture": "wasm", "os": "wasip2", "component": {}})), Ok(()));
    assert_eq!(check(json!({"architecture": "amd64"})), Err(DocumentFault::Architecture("amd64".to_owned())));
    assert_eq!(check(json!({"layerDigests": []})), Err(DocumentFault::OtherLayers(layer.digest)));
    let other = json!({"layerDigests": [Digest::of(b"y")]});
    assert_eq!(check(other), Err(DocumentFault::OtherLayers(layer.digest)));
    assert!(matches!(check(json!([])), Err(DocumentFault::Json(_))));
}
