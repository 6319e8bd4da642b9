use crate::*;
use proptest::prelude::*;
use serde_json::json;

#[test]
fn kinds_are_found_by_both_their_names() {
    for kind in Kind::ALL {
        assert_eq!(Kind::from_name(kind.as_str()), Some(kind));
        assert_eq!(Kind::from_plural(kind.plural()), Some(kind));
        assert_eq!(serde_json::to_value(kind).ok(), Some(json!(kind.as_str())), "{kind}");
    }
    assert_eq!(Kind::from_name("functions"), None);
    assert_eq!(Kind::from_plural("function"), None);
}

#[test]
fn names_are_checked() {
    let fine = [
        (Kind::Function, "fw"),
        (Kind::Function, "Edge_firewall-2.b"),
        (Kind::Port, "_"),
        (Kind::Workers, "workers"),
        (Kind::Service, "65535"),
        (Kind::Service, "red:10"),
        (Kind::Wire, "a:1~b:0"),
        (Kind::Wire, "fw:outside~lan"),
    ];
    for (kind, name) in fine {
        assert_eq!(check_name(kind, name).as_deref(), Ok(name), "{kind} {name}");
    }
    let long = "x".repeat(NAME_MAX + 1);
    let wrong = [
        (Kind::Function, ""),
        (Kind::Function, "a/b"),
        (Kind::Function, "a b"),
        (Kind::Function, ".."),
        (Kind::Function, "-o"),
        (Kind::Function, "ä"),
        (Kind::Function, "a~b"),
        (Kind::Function, "a:0"),
        (Kind::Tenant, &long),
        (Kind::Workers, "others"),
        (Kind::Service, "0"),
        (Kind::Service, "010"),
        (Kind::Service, "+1"),
        (Kind::Service, "65536"),
        (Kind::Service, "red:0"),
        (Kind::Service, ":10"),
        (Kind::Service, "10:red"),
        (Kind::Service, "a:red:10"),
        (Kind::Wire, "a"),
        (Kind::Wire, "a~"),
        (Kind::Wire, "a~b~c"),
        (Kind::Wire, "a:~b"),
        (Kind::Wire, "a:0:1~b"),
    ];
    for (kind, name) in wrong {
        assert!(check_name(kind, name).is_err(), "{kind} {name:?} is no name");
    }
}

#[test]
fn faults_in_names_say_what_was_found_and_what_is_allowed() {
    let told = |kind, name: &str| check_name(kind, name).expect_err("no name").to_string();
    assert_eq!(
        told(Kind::Port, "a b"),
        "found ` ` as character 2 of a name; allowed: letters of ASCII, digits, `_`, `-` and `.`, the first a letter, a digit or `_`"
    );
    assert_eq!(told(Kind::Port, ""), "found a name of 0 characters; allowed: 1 to 128");
    let hostile = "\u{1b}[2J".repeat(1000);
    assert!(
        told(Kind::Service, &hostile).len() < 400,
        "long and unprintable names are shown short and escaped"
    );
    assert!(!told(Kind::Service, &hostile).contains('\u{1b}'));
}

#[test]
fn a_problem_says_type_status_and_all_faults() {
    let problem = Problem::new(ProblemType::Invalid, "function/fw cannot be made")
        .with(vec![Fault::new("functions.fw.image", "found `fire`; allowed: `firewall`")]);
    let wire = serde_json::to_value(&problem).expect("plain data");
    assert_eq!(
        wire,
        json!({
            "type": "/problems/invalid",
            "title": "Something in what was sent is wrong",
            "status": 422,
            "detail": "function/fw cannot be made",
            "faults": [{"at": "functions.fw.image", "message": "found `fire`; allowed: `firewall`"}],
        })
    );
    assert_eq!(problem.problem_type(), Some(ProblemType::Invalid));
    assert_eq!(
        problem.to_string(),
        "Something in what was sent is wrong: function/fw cannot be made\n  functions.fw.image: found `fire`; allowed: `firewall`"
    );
}

#[test]
fn each_type_of_problem_has_a_path_of_its_own_that_the_schema_knows() {
    let schema = serde_json::to_value(schemars::schema_for!(ProblemType)).expect("plain data").to_string();
    let mut paths = std::collections::BTreeSet::new();
    for of in ProblemType::ALL {
        assert!(of.uri().starts_with("/problems/") && paths.insert(of.uri()), "{of:?}");
        assert!((400..600).contains(&of.status()), "{of:?}");
        assert!(schema.contains(&format!("\"{}\"", of.uri())), "{of:?} is in the schema");
    }
}

#[test]
fn events_are_told_apart_by_their_first_key() {
    let event =
        Event::Changed { revision: 7, kind: Kind::Port, name: "lan".into(), happened: Happened::Deleted };
    let line = serde_json::to_string(&event).expect("plain data");
    assert_eq!(line, r#"{"event":"changed","revision":7,"kind":"port","name":"lan","happened":"deleted"}"#);
    assert_eq!(serde_json::from_str::<Event>(&line).ok(), Some(event));
}

#[test]
fn what_a_client_misspells_is_refused() {
    assert!(serde_json::from_value::<Desired>(json!({"spec": {}, "verson": 3})).is_err());
    assert!(serde_json::from_value::<Desired>(json!({})).is_err());
    assert!(serde_json::from_value::<Upgrade>(json!({"image": "x", "confg": {}})).is_err());
    assert!(serde_json::from_value::<Save>(json!({"nane": "x"})).is_err());
    assert!(serde_json::from_value::<Restore>(json!({"function": "x", "y": 1})).is_err());
}

proptest! {
    #[test]
    fn any_segment_comes_back_from_a_path(segment in any::<String>()) {
        let escaped = paths::escaped(&segment);
        prop_assert!(escaped.is_ascii() && !escaped.contains(['/', '?', '#', ' ']));
        prop_assert_eq!(paths::unescaped(&escaped), Some(segment));
    }

    #[test]
    fn no_segment_breaks_the_reader(segment in "(%|[0-9a-f]|.){0,12}") {
        if let Some(read) = paths::unescaped(&segment) {
            prop_assert_eq!(paths::unescaped(&paths::escaped(&read)), Some(read));
        }
    }

    #[test]
    fn no_name_breaks_the_check_and_what_passes_stays(name in "[a~:0-9%/ ä-]{0,9}") {
        for kind in Kind::ALL {
            if let Ok(checked) = check_name(kind, &name) {
                prop_assert_eq!(check_name(kind, &checked), Ok(checked.clone()));
                prop_assert_eq!(paths::escaped(&checked), checked.to_string(), "names need no escapes");
            }
        }
    }

    #[test]
    fn a_wire_has_one_name_whichever_end_is_first(a in "[a-c]{1,2}(:[0-2])?", b in "[a-c]{1,2}(:[0-2])?") {
        let name = wire_name(&a, &b).expect("ends");
        prop_assert_eq!(&name, &wire_name(&b, &a).expect("ends"));
        let turned = format!("{b}~{a}");
        prop_assert_eq!(check_name(Kind::Wire, &turned), Ok(name.into()));
    }
}

#[test]
fn secrets_have_one_form() {
    let digits = "0123456789abcdef".repeat(4);
    assert!(is_secret(&format!("{TOKEN_PREFIX}{digits}")));
    let wrong = [
        String::new(),
        digits.clone(),
        format!("sft_{digits}0"),
        format!("sft_{}", &digits[1..]),
        format!("SFT_{digits}"),
        format!("sft_{}", digits.to_uppercase()),
        format!("sft_{}é", &digits[2..]),
        format!(" sft_{digits}"),
    ];
    for text in wrong {
        assert!(!is_secret(&text), "{text:?}");
    }
}

#[test]
fn a_secret_is_not_shown_by_mistake() {
    let token = Token {
        name: "ci".into(),
        tenant: Some("red".into()),
        host: false,
        created: "2026-01-02T03:04:05Z".into(),
        expires: None,
        read_only: false,
    };
    let issued = IssuedToken { token, secret: "sft_hush".into() };
    assert!(!format!("{issued:?}").contains("hush"));
    let written = serde_json::to_value(&issued).expect("JSON");
    assert_eq!((&written["name"], &written["tenant"]), (&"ci".into(), &"red".into()));
    assert!(written.get("host").is_none(), "as tokens of tenants were written before");
    assert_eq!(serde_json::from_value::<IssuedToken>(written).expect("is one"), issued);
}
