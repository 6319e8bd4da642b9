use crate::{
    Document, Location, MAX_DEPTH, MAX_FAULTS, MAX_NODES, MAX_TEXT, NodeValue, Position, spelling, text,
};
use proptest::prelude::*;

fn fault(source: &str) -> String {
    match Document::parse("f.yaml", source) {
        Ok(document) => panic!("accepted: {document:?}"),
        Err(fault) => fault.to_string(),
    }
}

#[test]
fn nodes_know_where_they_are() {
    let source = "ports:\n  lan: {type: 'pcap', at: [1, ~]}\n  wan:\n";
    let document = Document::parse("f.yaml", source).unwrap();
    let ports = document.root().get("ports").unwrap();
    let (key, lan) = ports.entry("lan").unwrap();
    assert_eq!((key.position.line, key.position.column), (2, 3));
    assert_eq!((lan.position.line, lan.position.column), (2, 8));
    let kind = lan.get("type").unwrap();
    assert_eq!((kind.position.line, kind.position.column), (2, 15));
    assert_eq!(kind.value, NodeValue::Scalar { text: "pcap".into(), quoted: true });
    let items = lan.get("at").unwrap().as_list().unwrap();
    assert_eq!(items[0].value, NodeValue::Scalar { text: "1".into(), quoted: false });
    assert_eq!((items[1].position.line, items[1].position.column), (2, 31));
    assert!(items[1].is_null());
    assert!(ports.get("wan").unwrap().is_null());
    assert!(Document::parse("f.yaml", "").unwrap().root().is_null());
    assert!(Document::parse("f.yaml", "# nothing\n").unwrap().root().is_null());
}

#[test]
fn what_is_refused_is_told_with_its_place() {
    let cases = [
        (
            "a: 1\nb:\n  c: 1\n  c: 2\n",
            "f.yaml:4:3: b.c: key `c` is given twice; the first is in line 3, column 3",
        ),
        (
            "a: &x 1\nb: *x\n",
            "f.yaml:1:4: a: anchors (`&name`) and aliases (`*name`) are not allowed; write the value out",
        ),
        ("a: [1, !!str 2]\n", "f.yaml:1:8: a[1]: a tag (`!name`) is not allowed here; leave it out"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2:1: a second document begins; allowed: one"),
        ("a:\n\tb: 1\n", "f.yaml:2:1: a: found a tab; allowed: spaces to indent a line"),
        ("? [1, 2]\n: 3\n", "f.yaml:1:3: found a list or map as a key; allowed: text"),
    ];
    for (source, line) in cases {
        assert_eq!(fault(source), line, "{source:?}");
    }
    assert!(fault("a: [1, 2\nb: 3\n").contains("this is not YAML"), "{}", fault("a: [1, 2\nb: 3\n"));
    assert!(fault("a: \"x\n").contains("this is not YAML"));
}

#[test]
fn bounds_hold() {
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    assert!(Document::parse("f", &deep(MAX_DEPTH)).is_ok());
    assert!(
        fault(&deep(MAX_DEPTH + 1)).ends_with("lists and maps are nested too deeply; allowed: 64 levels")
    );
    let endless = fault(&"[".repeat(MAX_TEXT));
    assert!(endless.contains("too deeply"), "{endless}");
    assert!(fault(&"#".repeat(MAX_TEXT + 1)).ends_with("found 4194305 bytes; allowed: at most 4194304"));
    let wide = format!("[{}]", "1,".repeat(MAX_NODES + 1));
    assert!(fault(&wide).ends_with("there are too many values; allowed: 1000000 in one file"));
}

#[test]
fn faults_are_told_up_to_a_bound() {
    let place = Location::new("f", "rules", Position::START);
    let mut faults = Vec::new();
    for n in 0..2 * MAX_FAULTS {
        place.item(n, Position::START).report(&mut faults, || "wrong".to_owned());
    }
    assert_eq!(faults.len(), MAX_FAULTS);
    assert_eq!(faults[3].to_string(), "f:1:1: rules[3]: wrong");
    assert_eq!(faults[MAX_FAULTS - 1].message, "there are more faults; only the first 1000 are told");
}

#[test]
fn bytes_that_are_no_text_are_told_with_their_place() {
    let fault = text("f", b"a: 1\nb: \xff\n").unwrap_err();
    assert_eq!(fault.to_string(), "f:2:4: found the byte 0xff; allowed: text in UTF-8");
    assert_eq!(text("f", b"\xff").unwrap_err().position, Position::START);
    assert_eq!(text("f", b"a\n\xff").unwrap_err().position, Position { line: 2, column: 1 });
}

#[test]
fn spelling() {
    let names = ["interface", "type", "mtu"];
    assert_eq!(
        spelling::choices("intreface", names),
        "; allowed: interface, type, mtu; did you mean `interface`?"
    );
    assert_eq!(spelling::nearest("Type", names), Some("type"));
    assert_eq!(spelling::nearest("tyep", names), Some("type"));
    assert_eq!(spelling::nearest("mtr", names), Some("mtu"));
    assert_eq!(spelling::nearest("speed", names), None);
    assert_eq!(spelling::nearest("kps", ["pps", "kpps", "Mpps"]), Some("kpps"), "it begins as that");
    assert_eq!(spelling::nearest("x", ["y"]), None);
    assert_eq!(spelling::listed([]), "none");
    assert_eq!(spelling::shown("a\nb\u{202e}"), "a\\nb\\u{202e}");
    assert_eq!(spelling::shown(&"x".repeat(100)), format!("{}...", "x".repeat(64)));
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(source in "[-?:,\\[\\]{}#&*!|>'\"%@` a-c0\t\n~\u{e9}\u{feff}]{0,80}") {
        if let Err(fault) = Document::parse("f", &source) {
            prop_assert_eq!(fault.to_string().lines().count(), 1);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(source) = text("f", &bytes) {
            let _ = Document::parse("f", source);
        }
    }
}
