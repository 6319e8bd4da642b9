//! Creating, replacing, deleting and applying, and what they are refused with.

use crate::Running;
use serde_json::{Value, json};
use std::sync::{Arc, Barrier};

#[test]
fn a_put_creates_once_and_the_same_again_changes_nothing() {
    let server = Running::new();
    let mut client = server.client();
    let created = client.put("/v1/functions/fw", &json!({"image": "firewall"}));
    assert_eq!(
        (created.status, created.header("etag"), created.header("location")),
        (201, Some("\"1\""), Some("/v1/functions/fw"))
    );
    let again = client.put("/v1/functions/fw", &json!({"image": "firewall"}));
    assert_eq!((again.status, again.json()["version"].as_u64()), (200, Some(1)));
    assert_eq!(again.json()["status"]["state"], "running");
    let other = client.put("/v1/functions/fw", &json!({"image": "firewall", "config": {"a": 1}}));
    assert_eq!((other.status, other.json()["version"].as_u64()), (200, Some(2)));
    let deleted = client.delete("/v1/functions/fw");
    assert_eq!(
        (deleted.status, &deleted.json()["deleted"]),
        (200, &json!([{"kind": "function", "name": "fw"}]))
    );
    assert_eq!(client.delete("/v1/functions/fw").problem(), "not-found");
    assert_eq!(client.get("/v1/functions/fw").status, 404);
}

#[test]
fn preconditions_hold_or_nothing_happens() {
    let server = Running::new();
    let mut client = server.client();
    let body = |image: &str| json!({"spec": {"image": image}}).to_string();
    let mut put = |header: (&str, &str), image: &str| {
        client.ask("PUT", "/v1/functions/fw", &[header], &body(image)).status
    };
    assert_eq!(put(("if-match", "*"), "a"), 412);
    assert_eq!(put(("if-match", "\"1\""), "a"), 412);
    assert_eq!(put(("if-none-match", "*"), "a"), 201);
    assert_eq!(put(("if-none-match", "*"), "b"), 412);
    assert_eq!(put(("if-match", "\"7\", \"1\""), "b"), 200);
    assert_eq!(put(("if-match", "\"1\""), "c"), 412);
    assert_eq!(put(("if-match", "W/\"2\""), "c"), 412);
    assert_eq!(put(("if-match", "*"), "c"), 200);
    assert_eq!(put(("if-match", "3"), "d"), 400);
    assert_eq!(put(("if-none-match", "\"3\""), "d"), 400);
    let refused = client.ask("DELETE", "/v1/functions/fw", &[("if-match", "\"2\"")], "");
    let fault = &refused.json()["faults"][0];
    assert_eq!(fault["message"], "function/fw: found version 3; allowed: version 2");
    // A weak tag is that of no version, and none is told as what is allowed.
    let refused = client.ask("DELETE", "/v1/functions/fw", &[("if-match", "W/\"3\"")], "");
    let told = refused.json()["faults"][0]["message"].clone();
    assert_eq!(
        told,
        "function/fw: found version 3; allowed: its version in quotes, which no tag of the header is"
    );
    assert_eq!(client.ask("DELETE", "/v1/functions/fw", &[("if-match", "\"3\"")], "").status, 200);
}

#[test]
fn what_is_wrong_in_a_body_is_told_with_its_key() {
    let server = Running::new();
    let mut client = server.client();
    let mut told = |method: &str, path: &str, body: Value| {
        let got = client.ask(method, path, &[], &body.to_string());
        assert_eq!(got.problem(), "invalid", "{got:?}");
        let fault = got.json()["faults"][0].clone();
        [&fault["at"], &fault["message"]].map(|text| text.as_str().expect("text").to_owned())
    };
    let fw = "/v1/functions/fw";
    assert_eq!(told("PUT", fw, json!({})), ["spec", "the required key `spec` is missing"]);
    let [at, message] = told("PUT", fw, json!({"spec": {"image": "x"}, "specs": 1}));
    assert_eq!(
        [at.as_str(), &message],
        ["specs", "unknown key `specs`; allowed: spec; did you mean `spec`?"]
    );
    let [at, message] = told("PUT", fw, json!({"spec": {"image": 5}}));
    assert_eq!(at, "spec");
    assert!(message.starts_with("found `5` as `image`; allowed: text, a stock image's name"), "{message}");
    let [at, message] = told("PUT", "/v1/ports/lan", json!({"spec": {"type": null}}));
    assert_eq!([at.as_str(), &message], ["spec", "found nothing as `type`; allowed: text, the driver"]);
    let wanted = ["count", "found the text \"many\"; allowed: a whole number from 0 on"];
    assert_eq!(told("POST", "/v1/traces", json!({"count": "many"})), wanted);
    assert_eq!(told("POST", "/v1/captures", json!({})), ["at", "the required key `at` is missing"]);
}

#[test]
fn a_body_in_another_coding_is_refused() {
    let server = Running::new();
    let mut client = server.client();
    let document = json!({"superfluid": 1}).to_string();
    for (coding, status) in [("gzip", 415), ("identity", 200), ("Identity", 200)] {
        let got = client.ask("POST", "/v1/apply", &[("content-encoding", coding)], &document);
        assert_eq!(got.status, status, "{coding}: {got:?}");
        if status == 415 {
            assert_eq!(got.json()["faults"][0]["at"], "Content-Encoding");
        }
    }
}

#[test]
fn of_writers_with_the_same_version_one_wins() {
    let server = Running::new();
    server.client().put("/v1/functions/fw", &json!({"image": "begin"}));
    let (writers, rounds) = (4, 25);
    let barrier = Arc::new(Barrier::new(writers));
    let threads: Vec<_> = (0..writers)
        .map(|writer| {
            let (mut client, barrier) = (server.client(), barrier.clone());
            std::thread::spawn(move || {
                let mut won = Vec::new();
                for round in 0..rounds {
                    let version = client.get("/v1/functions/fw").json()["version"].to_string();
                    barrier.wait();
                    let body = json!({"spec": {"image": format!("{writer}-{round}")}}).to_string();
                    let tag = format!("\"{version}\"");
                    let got = client.ask("PUT", "/v1/functions/fw", &[("if-match", &tag)], &body);
                    assert!(got.status == 200 || got.problem() == "precondition-failed", "{got:?}");
                    won.push(got.status == 200);
                    barrier.wait();
                }
                won
            })
        })
        .collect();
    let won: Vec<Vec<bool>> = threads.into_iter().map(|thread| thread.join().expect("ends")).collect();
    for round in 0..rounds {
        assert_eq!(won.iter().filter(|won| won[round]).count(), 1, "round {round}");
    }
    assert_eq!(server.client().get("/v1/functions/fw").json()["version"], 1 + rounds);
}

#[test]
fn what_the_host_refuses_is_told_in_full_and_changes_nothing() {
    let server = Running::new();
    let mut client = server.client();
    let invalid = client.put("/v1/functions/fw", &json!({"image": "missing"}));
    assert_eq!((invalid.status, invalid.problem().as_str()), (422, "invalid"));
    assert_eq!(invalid.json()["faults"].as_array().map(Vec::len), Some(2));
    assert_eq!(invalid.json()["faults"][0]["at"], "functions.fw.image");
    assert_eq!(client.put("/v1/functions/fw", &json!({"image": "huge"})).status, 507);
    client.put("/v1/ports/lan", &json!({"type": "null"}));
    client.put("/v1/chains/main", &json!(["lan", "lan"]));
    assert_eq!(client.delete("/v1/ports/lan").problem(), "conflict");
    assert_eq!(client.get("/v1/functions").json()["items"], json!([]));
    assert_eq!(
        server.fake.open.load(std::sync::atomic::Ordering::SeqCst),
        0,
        "nothing that was prepared is left"
    );
}

#[test]
fn a_spec_of_the_wrong_form_is_refused_for_each_kind() {
    let server = Running::new();
    let mut client = server.client();
    let wrong = [
        ("workers/workers", json!(0)),
        ("tenants/a", json!([])),
        ("ports/a", json!({})),
        ("switches/a", json!("x")),
        ("functions/a", json!({"image": ""})),
        ("chains/a", json!(["one"])),
        ("wires/a~b", json!(["a", "c"])),
        ("wires/a~b", json!(["a", "b", "c"])),
        ("observers/a", json!({"at": [1]})),
        ("services/1", json!(1)),
    ];
    for (path, spec) in wrong {
        let got = client.put(&format!("/v1/{path}"), &spec);
        assert_eq!(got.problem(), "invalid", "{path} {spec}");
        assert_eq!(got.json()["faults"][0]["at"], "spec");
    }
    assert_eq!(
        client.put("/v1/wires/b:1~a", &json!(["a", "b:1"])).json()["name"],
        "a~b:1",
        "a wire has one name"
    );
    assert_eq!(client.get("/v1/wires/b:1~a").status, 200);
}

#[test]
fn apply_touches_what_it_names_and_prunes_only_when_asked() {
    let server = Running::new();
    let mut client = server.client();
    let yaml = "superfluid: 1\nports:\n  lan: {type: generator, rate: 100kpps, flows: 1000}\n  wan: {type: sink}\nfunctions:\n  fw: {image: firewall}\n\
                chains:\n  main: [lan, fw, wan]\nservices: {10: 'fw:0'}\nwires: [[fw:1, x], [y, fw:2]]\n";
    let mut apply = |query: &str, kind: &str, body: &str| {
        let got = client.ask("POST", &format!("/v1/apply{query}"), &[("content-type", kind)], body);
        assert_eq!(got.status, 200, "{got:?}");
        got.json()
    };
    let tried = apply("?dry_run=true", "application/yaml", yaml);
    assert_eq!((tried["created"].as_array().map(Vec::len), tried["revision"].as_u64()), (Some(7), Some(0)));
    let first = apply("", "application/yaml", yaml);
    assert_eq!((&first["created"], first["revision"].as_u64()), (&tried["created"], Some(1)));
    let again = apply("?durable=true", "application/yaml", yaml);
    assert_eq!((again["unchanged"].as_array().map(Vec::len), again["revision"].as_u64()), (Some(7), Some(1)));
    let json = json!({"superfluid": 1, "ports": {"lan": {"type": "generator", "rate": "100kpps", "flows": 1000}}, "functions": {"fw": {"image": "monitor"}}});
    let merged = apply("?allow_restart=true", "application/json", &json.to_string());
    assert_eq!(merged["unchanged"], json!([{"kind": "port", "name": "lan"}]), "YAML and JSON say the same");
    assert_eq!(merged["changed"], json!([{"kind": "function", "name": "fw"}]));
    assert_eq!((&merged["deleted"], &merged["restarted"]), (&json!([]), &json!(["fw"])));
    let tried = apply("?prune=true&dry_run=true", "application/json", &json.to_string());
    assert_eq!(tried["deleted"].as_array().map(Vec::len), Some(5));
    let pruned = apply("?prune=true", "application/json", r#"{"superfluid": 1, "switches": {"s": {}}}"#);
    assert_eq!(pruned["deleted"].as_array().map(Vec::len), Some(7));
    assert_eq!(server.fake.world().objects.len(), 1);
}

#[test]
fn a_document_with_faults_is_refused_with_all_of_them() {
    let server = Running::new();
    let mut client = server.client();
    let faulty = json!({"superfluid": 2, "function": {}, "ports": {"a b": {"type": "null"}}, "services": {"0": "x"}, "wires": [["a"], ["a", "b"], ["b", "a"]], "chains": 3});
    let got = client.post("/v1/apply", &faulty.to_string());
    assert_eq!(got.problem(), "invalid");
    let faults: Vec<_> =
        got.json()["faults"].as_array().expect("faults").iter().map(|fault| fault["at"].clone()).collect();
    assert_eq!(
        faults,
        ["superfluid", "ports.a b", "chains", "wires[0]", "wires[2]", "services.0", "function"]
    );
    let near = got.json()["faults"][6]["message"].as_str().expect("text").to_owned();
    assert!(near.contains("unknown key `function`") && near.contains("functions"), "{near}");
    for (body, at) in
        [("{\"superfluid\": 1, \"superfluid\": 1}", "stands twice"), ("{\"superfluid\": 1} x", "trailing")]
    {
        let got = client.post("/v1/apply", body);
        assert_eq!(got.problem(), "malformed");
        assert!(got.json()["detail"].as_str().is_some_and(|detail| detail.contains(at)), "{got:?}");
    }
    assert_eq!(client.post("/v1/apply?dryrun=true", "{}").json()["faults"][0]["at"], "dryrun");
}

#[test]
fn work_is_waited_for_or_told_as_an_operation() {
    let server = Running::new();
    let mut client = server.client();
    assert_eq!(
        client.put("/v1/functions/a", &json!({"image": "slow-a"})).status,
        201,
        "50 ms are waited for"
    );
    let later = client.put("/v1/functions/b?wait=false", &json!({"image": "kept-compiling-b"}));
    assert_eq!(later.status, 202);
    assert_eq!(client.get("/v1/functions/b").status, 404, "not yet");
    server.fake.let_go("kept-compiling-b");
    let path = later.header("location").expect("where").to_owned();
    let operation = loop {
        let operation = client.get(&path).json();
        if operation.get("ended").is_some() {
            break operation;
        }
    };
    assert_eq!(
        (&operation["state"], &operation["difference"]["created"][0]["name"]),
        (&json!("done"), &json!("b"))
    );
    assert_eq!(client.get("/v1/functions/b").status, 200);
    let failed = client.put("/v1/functions/c?wait=true", &json!({"image": "slow-broken"}));
    assert_eq!(failed.problem(), "invalid");
    assert_eq!(client.get("/v1/operations").json()["items"].as_array().map(Vec::len), Some(3));
    let audit = server.audit();
    let outcomes: Vec<_> = audit.iter().map(|line| line["outcome"].as_str().unwrap_or("")).collect();
    assert_eq!(outcomes, ["done", "done", "refused"]);
}

#[test]
fn images_are_pinned_before_anything_is_compared() {
    let server = Running::new();
    let mut client = server.client();
    let spec = json!({"image": "tag-a"});
    let made = client.put("/v1/functions/f", &spec);
    assert_eq!((made.status, &made.json()["spec"]["image"]), (201, &json!("tag-a@0")));
    // As it is, and as it was read.
    for image in ["tag-a", "tag-a@0"] {
        let again = client.put("/v1/functions/f", &json!({"image": image}));
        assert_eq!((again.status, &again.json()["version"]), (200, &json!(1)), "{image}");
    }
    server.fake.world().tags.insert("tag-a".to_owned(), 1);
    let document = json!({"superfluid": 1, "functions": {"f": spec}}).to_string();
    let tried = |client: &mut crate::client::Client, more: &str| {
        client.post(&format!("/v1/apply?dry_run=true{more}"), &document).json()
    };
    let asked = server.fake.world().asked;
    assert_eq!(tried(&mut client, "")["changed"], json!([]));
    assert_eq!(server.fake.world().asked, asked, "no registry is asked");
    let moved = tried(&mut client, "&resolve=true");
    assert_eq!((&moved["changed"][0]["name"], &moved["images"]), (&json!("f"), &json!({"f": "tag-a@1"})));
    assert_eq!(client.get("/v1/functions/f").json()["spec"]["image"], "tag-a@0");
    assert_eq!(client.put("/v1/functions/f", &spec).json()["spec"]["image"], "tag-a@1");
    server.fake.world().tags.insert("tag-a".to_owned(), 2);
    let upgraded = client.post("/v1/functions/f/upgrade", &spec.to_string());
    assert_eq!((upgraded.status, &upgraded.json()["spec"]["image"]), (200, &json!("tag-a@2")));

    let silent = client.put("/v1/functions/g", &json!({"image": "tag-silent"}));
    assert_eq!((silent.status, silent.problem().as_str()), (502, "registry"));
    assert_eq!(silent.json()["faults"][0]["at"], "functions.g.image");
    let later = client.put("/v1/functions/g?wait=false", &json!({"image": "tag-b"}));
    assert_eq!((later.status, &later.json()["what"]), (202, &json!("fetching")));
    let audit = server.audit();
    assert!(audit.iter().any(|line| line["images"] == json!({"f": "tag-a@2"})), "{audit:?}");
}

#[test]
fn what_could_not_be_started_is_started_when_it_is_wanted_again() {
    let server = Running::new();
    let mut client = server.client();
    let spec = json!({"image": "x"});
    assert_eq!(client.put("/v1/functions/lost", &spec).status, 201);
    assert_eq!(client.put("/v1/functions/lost", &spec).json()["version"], 2);
    assert_eq!(client.put("/v1/functions/f", &spec).json()["version"], 3);
    assert_eq!(client.put("/v1/functions/f", &spec).json()["version"], 3);
}

#[test]
fn operations_are_bounded() {
    let server = Running::with(|settings| settings.limits.operations = 2);
    let mut client = server.client();
    let statuses: Vec<_> = (0..4)
        .map(|n| {
            let spec = json!({"image": format!("kept-compiling-{n}")});
            client.put(&format!("/v1/functions/f{n}?wait=false"), &spec).status
        })
        .collect();
    assert_eq!(statuses, [202, 202, 503, 503]);
    (0..2).for_each(|n| server.fake.let_go(&format!("kept-compiling-{n}")));
}

#[test]
fn a_store_without_room_refuses_and_the_host_is_untouched() {
    let folder = tempfile::tempdir().expect("a folder");
    let server =
        Running::within(folder, store::Settings { max_bytes: 2000, ..store::Settings::default() }, |_| {});
    let mut client = server.client();
    assert_eq!(client.put("/v1/functions/a", &json!({"image": "x"})).status, 201);
    let full = client.put("/v1/functions/b", &json!({"image": "x".repeat(3000)}));
    assert_eq!((full.status, full.problem().as_str()), (507, "no-room"));
    assert_eq!(server.fake.world().objects.len(), 1);
    assert_eq!(server.fake.open.load(std::sync::atomic::Ordering::SeqCst), 0);
    let full = client.post("/v1/functions/a/upgrade", &json!({"image": "x".repeat(3000)}).to_string());
    assert_eq!(full.status, 507);
    let there = client.get("/v1/functions/a").json();
    assert_eq!(there["spec"]["image"], "x");
    let world = server.fake.world();
    assert!(world.objects.values().all(|(spec, _)| spec["image"] == "x"), "the old image runs again");
}

/// The launcher starts it whatever was said of the function before, and no request could resume it.
#[test]
fn what_becomes_a_container_is_not_paused_any_more() {
    let server = Running::new();
    let mut client = server.client();
    client.put("/v1/functions/fw", &json!({"image": "a"}));
    client.post("/v1/functions/fw/pause", "");
    let paused = || {
        let stored = server.store.read("function", "fw").expect("is there");
        String::from_utf8_lossy(&stored.value).contains("\"paused\":true")
    };
    client.put("/v1/functions/fw", &json!({"image": "b"}));
    assert!(paused());
    let container = json!({"guest": "container", "image": "/srv/c", "memory": "16MiB"});
    assert_eq!(client.put("/v1/functions/fw", &container).status, 200);
    assert!(!paused());
    client.put("/v1/functions/fw", &json!({"image": "a"}));
    assert!(!paused());
}

#[test]
fn each_change_is_written_down_with_its_client() {
    let server = Running::new();
    let mut client = server.client();
    client.put("/v1/functions/fw", &json!({"image": "a"}));
    client.put("/v1/functions/fw?dry_run=true", &json!({"image": "b"}));
    client.put("/v1/functions/fw", &json!({"image": "missing"}));
    client.post("/v1/functions/fw/pause", "");
    client.post("/v1/functions/fw/restart", "");
    client.get("/v1/functions");
    let audit = server.audit();
    let seen: Vec<_> = audit
        .iter()
        .map(|line| {
            (
                line["method"].as_str().unwrap_or(""),
                line["path"].as_str().unwrap_or(""),
                line["outcome"].as_str().unwrap_or(""),
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("PUT", "/v1/functions/fw", "done"),
            ("PUT", "/v1/functions/fw", "done"),
            ("PUT", "/v1/functions/fw", "refused"),
            ("POST", "/v1/functions/fw/pause", "done"),
            ("POST", "/v1/functions/fw/restart", "done"),
        ]
    );
    assert_eq!((&audit[0]["created"], &audit[0]["revision"]), (&json!(["function/fw"]), &json!(1)));
    assert_eq!(audit[0]["who"]["pid"], std::process::id());
    let tried: Vec<_> = audit.iter().map(|line| line["dry_run"] == json!(true)).collect();
    assert_eq!(tried, [false, true, false, false, false]);
}

#[test]
fn a_dry_run_is_written_down_as_one() {
    let server = Running::new();
    let mut client = server.client();
    assert_eq!(client.put("/v1/functions/fw", &json!({"image": "a"})).status, 201);
    let document = json!({"superfluid": 1, "functions": {"new": {"image": "a"}}}).to_string();
    let json: &[(&str, &str)] = &[("content-type", "application/json")];
    let statuses = [
        client.put("/v1/functions/fw?dry_run=true", &json!({"image": "b"})).status,
        client.put("/v1/functions/fw?dry_run=true", &json!({"image": "missing"})).status,
        client.delete("/v1/functions/fw?dry_run=true").status,
        client.ask("POST", "/v1/apply?dry_run=true&prune=true", json, &document).status,
    ];
    assert_eq!(statuses, [200, 422, 200, 200]);
    let audit = server.audit();
    let tried: Vec<_> = audit.iter().filter(|line| line["dry_run"] == json!(true)).collect();
    let seen: Vec<_> =
        tried.iter().map(|line| json!([line["method"], line["path"], line["outcome"]])).collect();
    assert_eq!(
        seen,
        [
            json!(["PUT", "/v1/functions/fw", "done"]),
            json!(["PUT", "/v1/functions/fw", "refused"]),
            json!(["DELETE", "/v1/functions/fw", "done"]),
            json!(["POST", "/v1/apply", "done"]),
        ]
    );
    assert!(tried.iter().all(|line| line["who"]["pid"] == std::process::id()), "{tried:?}");
    assert_eq!(tried[0]["changed"], json!(["function/fw"]));
    assert_eq!(tried[1]["status"], 422);
    assert_eq!(tried[3]["created"], json!(["function/new"]));
    assert_eq!(audit.len(), tried.len() + 1, "one line for each");
}

#[test]
fn what_would_begin_anew_is_refused_unless_it_is_allowed() {
    let server = Running::new();
    let mut client = server.client();
    for name in ["a", "b"] {
        assert_eq!(client.put(&format!("/v1/functions/{name}"), &json!({"image": "firewall"})).status, 201);
    }
    let both = json!({"superfluid": 1, "functions": {"a": {"image": "anew-1"}, "b": {"image": "other"}}})
        .to_string();
    let json: &[(&str, &str)] = &[("content-type", "application/json")];
    let tried = client.ask("POST", "/v1/apply?dry_run=true", json, &both);
    assert_eq!((tried.status, &tried.json()["restarted"]), (200, &json!(["a"])));
    let before = server.fake.world().objects.clone();
    let put = &json!({"image": "anew-1"});
    for refused in [
        client.ask("POST", "/v1/apply", json, &both),
        client.put("/v1/functions/a", put),
        client.put("/v1/functions/a?allow_restart=false", put),
        client.post("/v1/functions/a/upgrade", r#"{"image": "anew-1"}"#),
    ] {
        assert_eq!((refused.status, refused.problem()), (409, "conflict".to_owned()));
        assert_eq!(refused.json()["faults"][0]["at"], "functions.a");
        assert_eq!(server.fake.world().objects, before, "nothing is half applied");
    }
    let allowed = client.ask("POST", "/v1/apply?allow_restart=true", json, &both);
    assert_eq!((allowed.status, &allowed.json()["restarted"]), (200, &json!(["a"])));
    assert_eq!(client.put("/v1/functions/a?allow_restart=true", &json!({"image": "anew-2"})).status, 200);
    assert_eq!(
        client.post("/v1/functions/a/upgrade?allow_restart=true", r#"{"image": "anew-3"}"#).status,
        200
    );
    // What begins with nothing to lose needs no leave.
    assert_eq!(client.put("/v1/functions/c", put).status, 201);
}
