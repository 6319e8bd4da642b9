use crate::accept::accepted;
use crate::document::{Language, objects, read};
use crate::precondition::Precondition;
use crate::query::Query;
use proptest::prelude::*;
use serde_json::{Value, json};

fn precondition(if_match: &[&str], if_none_match: &[&str]) -> Result<Precondition, String> {
    let bytes = |values: &[&str]| values.iter().map(|value| value.as_bytes().to_vec()).collect::<Vec<_>>();
    let (if_match, if_none_match) = (bytes(if_match), bytes(if_none_match));
    Precondition::read(if_match.iter().map(Vec::as_slice), if_none_match.iter().map(Vec::as_slice))
        .map_err(|fault| fault.to_string())
}

#[test]
fn preconditions_are_read() {
    assert_eq!(precondition(&[], &[]), Ok(Precondition::Any));
    assert_eq!(precondition(&[" * "], &[]), Ok(Precondition::Present));
    assert_eq!(precondition(&[], &["*"]), Ok(Precondition::Absent));
    assert_eq!(precondition(&["\"1\", \"2\"", "\"3\""], &[]), Ok(Precondition::Versions(vec![1, 2, 3])));
    for never in ["W/\"1\"", "\"x\"", "\"01\"", "\"\"", "\"99999999999999999999999\""] {
        let read = precondition(&[never], &[]).expect("well-formed");
        assert!(!read.holds(Some(1)) && !read.holds(None), "{never} matches nothing");
    }
    let many = "\"1\",".repeat(40) + "\"1\"";
    for wrong in ["1", "", "\"1", "\"1\",", "*, \"1\"", "'1'", many.as_str()] {
        assert!(
            precondition(&[wrong], &[]).is_err_and(|told| told.starts_with("If-Match: found ")),
            "{wrong}"
        );
    }
    assert!(precondition(&["*"], &["*"]).is_err());
    assert!(precondition(&["*", "\"1\""], &[]).is_err());
    assert!(precondition(&[], &["\"1\""]).is_err());
}

#[test]
fn parameters_are_known_and_given_once() {
    let known: &[&str] = &["limit", "after"];
    let query = Query::read("limit=5&after=a%20b+c&", known).expect("well-formed");
    assert_eq!((query.number("limit", 1, 9), query.text("after")), (Ok(Some(5)), Some("a b+c")));
    assert!(query.number("limit", 6, 9).is_err_and(|fault| fault.message.contains("from 6 to 9")));
    let faults = Query::read("limt=5&after=1&after=2&%ff=1&after=%zz", known).expect_err("faults");
    assert_eq!(faults.len(), 4);
    assert!(faults[0].message.contains("unknown parameter `limt`") && faults[0].message.contains("limit"));
    for wrong in ["limit=+5", "limit=", "limit=-1", "limit=1e1", "limit=99999999999999999999"] {
        assert!(
            Query::read(wrong, known).expect("well-formed").number("limit", 0, u64::MAX).is_err(),
            "{wrong}"
        );
    }
    assert!(Query::read(&"x&".repeat(10_000), &[]).expect_err("faults").len() <= 21);
}

#[test]
fn representations_are_chosen_by_quality_and_precision() {
    let (text, open) = ("text/plain; version=0.0.4", "application/openmetrics-text; version=1.0.0");
    let of = |accept: &str| accepted(accept, &[text, open]);
    assert_eq!(of("*/*"), Some(text));
    assert_eq!(of("application/*"), Some(open));
    assert_eq!(of("text/plain;q=0.5, application/openmetrics-text"), Some(open));
    assert_eq!(of("*/*, text/plain;q=0"), Some(open));
    for none in ["image/png", "", "*", "text/plain;q=0", "text/plain;q=x", ",;,"] {
        assert_eq!(of(none), None, "{none}");
    }
}

#[test]
fn json_is_read_strictly() {
    let told = |text: &str| read(Language::Json, text.as_bytes()).expect_err("a fault").message;
    assert_eq!(
        told("{\"a\": {\"b\": 1, \"b\": 2}}"),
        "line 1, column 18: the key `b` stands twice; allowed: once"
    );
    assert!(told("{").starts_with("this is no JSON: line 1, column 1: EOF"));
    assert!(told("1 2").contains("trailing"));
    assert!(told(&"[".repeat(1000)).ends_with("nested too deeply; allowed: 127 levels"));
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert!(read(Language::Json, nested(127).as_bytes()).is_ok());
    assert!(read(Language::Json, nested(128).as_bytes()).is_err());
    assert!(read(Language::Json, b"\"\xff\"").is_err());
}

#[test]
fn yaml_means_what_json_does() {
    let yaml = "a: 1\nb: true\nc: 100kpps\nd: '1'\ne: [1.5, 0x10, 010, 1_000, null, ~]\nf:\n";
    let json = json!({"a": 1, "b": true, "c": "100kpps", "d": "1", "e": [1.5, "0x10", "010", "1_000", null, null], "f": null});
    assert_eq!(read(Language::Yaml, yaml.as_bytes()), Ok(json));
    assert!(read(Language::Yaml, b"a: &x 1").is_err(), "no anchors");
    assert!(read(Language::Yaml, b"a: 1\na: 2").is_err(), "no key twice");
    assert!(read(Language::Yaml, b"\xff").is_err());
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..8).prop_map(Value::from_iter),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_as_json_is_read_again(value in value()) {
        prop_assert_eq!(read(Language::Json, value.to_string().as_bytes()), Ok(value));
    }

    #[test]
    fn no_document_breaks_the_reader(text in "[\\[\\]{}:,\"'a-c0-9~\\- \n&*!]{0,60}") {
        for language in [Language::Json, Language::Yaml] {
            if let Ok(document) = read(language, text.as_bytes()) {
                let _ = objects(document);
            }
        }
    }

    #[test]
    fn objects_of_a_document_have_names_of_their_own(value in value()) {
        let document = json!({"superfluid": 1, "functions": value, "wires": [["a", "b"]]});
        if let Ok(objects) = objects(document) {
            let mut names: Vec<_> = objects.iter().map(|(name, _)| name.clone()).collect();
            names.sort();
            names.dedup();
            prop_assert_eq!(names.len(), objects.len());
        }
    }
}
