//! Any schema and any value: what passes the check is written out, read back and is the same.

use schema::{Kind, Schema};
use yaml_document::Document;

pub fn run(data: &[u8]) {
    let Ok(text) = yaml_document::text("f", data) else { return };
    let (schema, value) = text.split_once('\u{c}').unwrap_or((text, ""));
    let Ok(schema) = Schema::from_text("schema", schema) else { return };
    let _ = schema.to_markdown();
    let Ok(document) = Document::parse("value", value) else { return };
    let mut faults = Vec::new();
    let Some(value) = schema.check("value", "", Some(document.root()), &mut faults) else {
        assert!(!faults.is_empty());
        return;
    };
    assert!(faults.is_empty());
    assert!(!value.to_cbor().is_empty());
    let spelled = Kind::Map(schema.clone()).spelled(&value);
    let again = Document::parse("again", &spelled).expect("a checked value is no YAML");
    assert_eq!(schema.check("again", "", Some(again.root()), &mut faults), Some(value), "{spelled}");
}
