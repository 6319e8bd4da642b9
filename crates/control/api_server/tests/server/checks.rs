//! Documents that are checked: what is told of them, and that nothing comes of it.

use crate::Running;
use crate::rights::Shared;
use serde_json::{Value, json};

const YAML: (&str, &str) = ("content-type", "application/yaml");

fn check(server: &Running, query: &str, text: &str) -> Value {
    let got = server.client().ask("POST", &format!("/v1/check{query}"), &[YAML], text);
    assert_eq!(got.status, 200, "{got:?}");
    got.json()
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_nothing_comes_of_it() {
    let server = Running::new();
    let mut client = server.client();
    client.put("/v1/functions/fw", &json!({"image": "tag-a@0"}));
    client.put("/v1/functions/old", &json!({"image": "firewall"}));
    let before = (server.audit().len(), client.get("/v1/functions").text());

    let good =
        check(&server, "", "superfluid: 1\nfunctions:\n  new: {image: firewall}\n  old: {image: firewall}\n");
    assert_eq!(good["faults"], json!([]));
    let difference = &good["difference"];
    assert_eq!(difference["created"], json!([{"kind": "function", "name": "new"}]));
    assert_eq!(difference["unchanged"], json!([{"kind": "function", "name": "old"}]));
    assert_eq!((&difference["dry_run"], &difference["deleted"]), (&json!(true), &json!([])));
    // Those of the whole have a place in it, too.
    let warning = json!({"at": "functions", "message": "nothing is wired", "line": 3, "column": 3});
    assert_eq!(good["warnings"], json!([warning]));
    let pruned = check(&server, "?prune=true", "superfluid: 1\nfunctions:\n  old: {image: firewall}\n");
    assert_eq!(pruned["difference"]["deleted"], json!([{"kind": "function", "name": "fw"}]));

    let bad = check(&server, "", "superfluid: 1\nfunctions:\n  new:\n    image: missing\n");
    assert_eq!(bad.get("difference"), None);
    assert_eq!(
        bad["faults"][0],
        json!({"at": "functions.new.image", "message": "found `missing`; allowed: `firewall`", "line": 4, "column": 12})
    );
    // A key that is not there has no place of its own: as much of the way as there is.
    assert_eq!(
        (&bad["faults"][1]["at"], &bad["faults"][1]["line"]),
        (&json!("functions.new.config"), &json!(4))
    );
    let unknown = check(&server, "", "superfluid: 1\nfonctions: {}\n");
    assert_eq!((&unknown["faults"][0]["line"], &unknown["faults"][0]["column"]), (&json!(2), &json!(1)));

    // Syntax has its place in the message, as with `apply`; limits are those of any body.
    let got = client.ask("POST", "/v1/check", &[YAML], "a: [");
    assert_eq!((got.status, got.problem().as_str()), (400, "malformed"));
    let aliases = client.ask("POST", "/v1/check", &[YAML], "a: &a [x, x]\nb: [*a, *a]\n");
    assert_eq!(aliases.status, 400);
    let deep = format!("superfluid: {}1{}\n", "[".repeat(1000), "]".repeat(1000));
    assert_eq!(client.ask("POST", "/v1/check", &[YAML], &deep).status, 400);
    assert_eq!(client.ask("POST", "/v1/check?dry_run=true", &[YAML], "superfluid: 1\n").status, 400);
    assert_eq!(client.ask("GET", "/v1/check", &[], "").status, 405);

    assert_eq!((server.audit().len(), client.get("/v1/functions").text()), before);
    assert_eq!(client.get("/v1/operations").json()["items"], json!([]));
}

#[test]
fn what_a_fault_is_about_its_kind_says_and_not_its_words() {
    let server = Running::new();
    let worded = check(&server, "", "superfluid: 1\nfunctions:\n  new:\n    image: worded\n");
    let fault = &worded["faults"][0];
    assert_eq!((&fault["line"], &fault["column"]), (&json!(4), &json!(12)), "the value's place: {worded}");
    assert_eq!(worded["warnings"], json!([]));
    let elsewhere = check(&server, "", "superfluid: 1\nfunctions:\n  new:\n    image: elsewhere\n");
    assert_eq!(elsewhere["faults"], json!([]), "{elsewhere}");
    assert_eq!(elsewhere["warnings"][0]["message"], "not here");
    assert!(elsewhere.get("difference").is_some(), "{elsewhere}");
}

#[test]
fn no_registry_is_asked_and_what_is_named_as_it_was_applied_is_that() {
    let server = Running::new();
    let mut client = server.client();
    let digest = "0".repeat(64);
    client.put("/v1/functions/fw", &json!({"image": format!("tag-a@sha256:{digest}")}));
    let asked = server.fake.world().asked;
    let same = check(&server, "", "superfluid: 1\nfunctions: {fw: {image: tag-a}}\n");
    assert_eq!(same["difference"]["unchanged"], json!([{"kind": "function", "name": "fw"}]), "{same}");
    let other =
        check(&server, "", "superfluid: 1\nfunctions: {fw: {image: tag-b}, silent: {image: tag-silent}}\n");
    assert_eq!(other["difference"]["changed"], json!([{"kind": "function", "name": "fw"}]), "{other}");
    assert_eq!(server.fake.world().asked, asked);
}

#[test]
fn a_tenant_checks_what_it_may_change_and_learns_nothing_else() {
    let shared = Shared::new();
    let mut tenant = shared.tenants();
    let crimson = format!("Bearer {}", shared.crimson);
    let mut ask =
        |token: &str, text: &str| tenant.ask("POST", "/v1/check", &[YAML, ("authorization", token)], text);
    let text = |name: &str, image: &str| {
        format!("superfluid: 1\nfunctions:\n  {name}: {{image: {image}, tenant: crimson}}\n")
    };
    let good = ask(&crimson, &text("crimson-new", "monitor")).json();
    assert_eq!(good["difference"]["created"], json!([{"kind": "function", "name": "crimson-new"}]), "{good}");
    let refused = ask(&crimson, &text("crimson-new", "/etc/passwd")).json();
    assert!(
        refused["faults"][0]["message"].as_str().is_some_and(|told| told.starts_with("found a file")),
        "{refused}"
    );
    assert_eq!(refused["faults"][0]["line"], 3);
    // A name is taken, as with any change, and nothing is told of whose.
    let taken = ask(&crimson, &text("azure-fw", "monitor")).json().to_string();
    assert!(taken.contains("is taken") && !taken.contains("\"azure\""), "{taken}");
    let foreign = ask(&crimson, "superfluid: 1\nswitches: {hall: {age: 1s}}\n").json();
    assert!(foreign["faults"][0]["message"].as_str().is_some_and(|told| told.contains("not the tenant's")));
    // A token that reads does not check: messages may be about what is in files.
    for token in [&shared.reading, &shared.watching] {
        let got = ask(&format!("Bearer {token}"), "superfluid: 1\n");
        assert_eq!(got.status, 403, "{got:?}");
    }
}
