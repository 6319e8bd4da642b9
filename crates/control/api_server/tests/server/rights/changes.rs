//! What a tenant changes, and what it cannot.

use super::{Shared, ask, places};
use serde_json::json;
use std::time::{Duration, Instant};

#[test]
fn a_tenant_makes_what_is_its_own_and_joins_it_with_its_own() {
    let shared = Shared::new();
    let token = &shared.crimson;
    let function = json!({"image": "firewall", "tenant": "crimson", "attach": {"inside": "crimson-port0", "outside": "crimson-fw:1"}});
    assert_eq!(shared.put(token, "/v1/functions/crimson-new", function).status, 201);
    assert_eq!(
        shared.put(token, "/v1/chains/c", json!(["crimson-port0", "crimson-new", "crimson-port1"])).status,
        201
    );
    let document = json!({
        "superfluid": 1,
        // What it has of the administrator may stand there as it is.
        "tenants": {"crimson": {"cpu": {"weight": 300}}},
        "ports": {"crimson-port0": {"type": "null", "tenant": "crimson"}},
        "functions": {"a": {"image": "firewall", "tenant": "crimson"}, "b": {"image": "firewall", "tenant": "crimson"}},
        "chains": {"d": ["crimson-port0", "a", "b", "crimson-port1"]},
    });
    let headers = [("content-type", "application/json")];
    let apply = |query: &str| {
        ask(
            &mut shared.tenants(),
            token,
            "POST",
            &format!("/v1/apply{query}"),
            &headers,
            &document.to_string(),
        )
    };
    let applied = apply("").json();
    assert_eq!(applied["created"].as_array().map(Vec::len), Some(3), "{applied}");
    // Pruned is what is its own: no port, nothing of others, not what joins it with others.
    let objects = |shared: &Shared| {
        let world = shared.server.fake.world();
        world.objects.keys().map(ToString::to_string).collect::<Vec<_>>()
    };
    let before = objects(&shared);
    let pruned = apply("?prune=true").json();
    let deleted: Vec<String> = pruned["deleted"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|id| {
            format!("{}/{}", id["kind"].as_str().unwrap_or_default(), id["name"].as_str().unwrap_or_default())
        })
        .collect();
    let mut sorted = deleted.clone();
    sorted.sort();
    assert_eq!(
        sorted,
        [
            "chain/c",
            "chain/crimson-chain",
            "device/crimson-device",
            "function/crimson-eye",
            "function/crimson-fw",
            "function/crimson-new",
            "group/crimson-group",
            "observer/crimson-eye",
            "wire/crimson-eye:2~crimson-port1"
        ]
    );
    let after = objects(&shared);
    assert_eq!(before.iter().filter(|id| !deleted.contains(id)).cloned().collect::<Vec<_>>(), after);
    assert!(after.iter().any(|id| id == "chain/ochre") && after.iter().any(|id| id == "port/crimson-port0"));
    // It is written down which client did it.
    let audit = shared.server.audit();
    let line = audit.iter().rfind(|line| line["outcome"] == "done").expect("a line");
    assert_eq!(
        (line["who"]["token"].as_str(), line["who"]["tenant"].as_str()),
        (Some("crimson-token"), Some("crimson"))
    );
    assert!(
        line["who"]["uid"].is_u64() && line["deleted"].as_array().is_some_and(|all| all.len() == 9),
        "{line}"
    );
}

#[test]
fn a_tenants_dry_run_is_written_down_as_one() {
    let shared = Shared::new();
    let token = &shared.crimson;
    let function = json!({"image": "firewall", "tenant": "crimson"});
    assert_eq!(shared.put(token, "/v1/functions/tried?dry_run=true", function).status, 200);
    let deleted =
        ask(&mut shared.tenants(), token, "DELETE", "/v1/functions/crimson-fw?dry_run=true", &[], "");
    assert_eq!(deleted.status, 409, "a chain needs it: {deleted:?}");
    let others = json!({"image": "firewall", "tenant": "azure"});
    assert_eq!(shared.put(token, "/v1/functions/tried?dry_run=true", others).status, 403);
    let audit = shared.server.audit();
    let tried: Vec<_> = audit
        .iter()
        .filter(|line| line["dry_run"] == json!(true))
        .map(|line| {
            assert_eq!(
                (line["who"]["token"].as_str(), line["who"]["tenant"].as_str()),
                (Some("crimson-token"), Some("crimson"))
            );
            json!([line["method"], line["path"], line["outcome"], line["created"], line["status"]])
        })
        .collect();
    assert_eq!(
        tried,
        [
            json!(["PUT", "/v1/functions/tried", "done", ["function/tried"], null]),
            json!(["DELETE", "/v1/functions/crimson-fw", "refused", null, 409]),
            json!(["PUT", "/v1/functions/tried", "refused", null, 403]),
        ]
    );
}

#[test]
fn the_groups_of_a_tenant_are_its_own_and_the_administrators_are_not() {
    let shared = Shared::new();
    let token = &shared.crimson;
    let group = |tenant: &str, end: &str, named: &str| json!({"tenant": tenant, "rules": [{"direction": "in"}, {"direction": "in", end: {"group": named}}]});
    let before = shared.server.store.revision();
    for (path, spec, status, at) in [
        ("/v1/groups/x", json!({"rules": []}), 403, "groups.x.tenant"),
        ("/v1/groups/x", group("azure", "from", "crimson-group"), 403, "groups.x.tenant"),
        ("/v1/groups/x", group("default", "from", "crimson-group"), 403, "groups.x.tenant"),
        ("/v1/groups/x", group("crimson", "from", "azure-group"), 422, "groups.x.rules[1].from"),
        ("/v1/groups/x", group("crimson", "to", "base"), 422, "groups.x.rules[1].to"),
        ("/v1/groups/x", group("crimson", "from", "absent"), 422, "groups.x.rules[1].from"),
        ("/v1/groups/azure-group", group("crimson", "from", "crimson-group"), 409, "groups.azure-group"),
        ("/v1/groups/base", group("crimson", "from", "crimson-group"), 409, "groups.base"),
    ] {
        let got = shared.put(token, path, spec);
        assert_eq!((got.status, places(&got)), (status, vec![at.to_owned()]), "{path}: {got:?}");
    }
    assert_eq!(shared.ask(token, "DELETE", "/v1/groups/base", "").status, 404);
    assert_eq!(shared.ask(token, "GET", "/v1/groups/base", "").status, 404);
    assert_eq!(shared.server.store.revision(), before);
    // What comes with the same change is there.
    let document = json!({"superfluid": 1, "groups": {
        "crimson-web": group("crimson", "from", "crimson-late"), "crimson-late": group("crimson", "to", "crimson-group")}});
    let headers = [("content-type", "application/json")];
    let got = ask(&mut shared.tenants(), token, "POST", "/v1/apply", &headers, &document.to_string());
    assert_eq!(got.json()["created"].as_array().map(Vec::len), Some(2), "{got:?}");
    // The groups of `default` bind all tenants: its token is no administrator's.
    let made = shared.server.client().post("/v1/tokens", r#"{"name": "base", "tenant": "default"}"#);
    let default = made.json()["secret"].as_str().expect("a secret").to_owned();
    let got = shared.put(&default, "/v1/groups/base", json!({"rules": [{"direction": "in"}]}));
    assert_eq!((got.status, places(&got)), (403, vec!["groups.base".to_owned()]), "{got:?}");
    assert_eq!(shared.ask(&default, "DELETE", "/v1/groups/base", "").status, 403);
    let nothing = json!({"superfluid": 1}).to_string();
    let pruned = ask(&mut shared.tenants(), &default, "POST", "/v1/apply?prune=true", &headers, &nothing);
    assert_eq!(pruned.status, 200, "{pruned:?}");
    assert_eq!(shared.server.client().ask("GET", "/v1/groups/base", &[], "").status, 200);
}

#[test]
fn what_is_others_or_the_hosts_is_refused_with_its_place() {
    let shared = Shared::new();
    let token = &shared.crimson;
    let before = shared.server.store.revision();
    let refused = |path: &str, spec: serde_json::Value, status: u16, at: &str| {
        let got = shared.put(token, path, spec);
        assert_eq!(got.status, status, "{path}: {got:?}");
        assert_eq!(places(&got), [at], "{path}: {got:?}");
        let text = got.text();
        assert!(!text.contains("there is no"), "{text}");
        got
    };
    let of = |tenant: &str| json!({"image": "firewall", "tenant": tenant});
    refused("/v1/functions/x", of("azure"), 403, "functions.x.tenant");
    refused("/v1/functions/x", of("absent"), 403, "functions.x.tenant");
    refused("/v1/functions/x", json!({"image": "firewall"}), 403, "functions.x.tenant");
    refused("/v1/functions/crimson-fw", of("azure"), 403, "functions.crimson-fw.tenant");
    refused(
        "/v1/functions/x",
        json!({"image": "/etc/passwd", "tenant": "crimson"}),
        403,
        "functions.x.image",
    );
    let upgrade =
        shared.ask(token, "POST", "/v1/functions/crimson-fw/upgrade", r#"{"image": "/etc/passwd"}"#);
    assert_eq!((upgrade.status, places(&upgrade)), (403, vec!["functions.crimson-fw.image".to_owned()]));
    // What is another's and what does not exist are told in the same words.
    for name in ["azure-port0", "azure-fw:0", "azure-device", "hall", "none"] {
        let spec = json!({"image": "firewall", "tenant": "crimson", "attach": {"inside": name}});
        let got = refused("/v1/functions/x", spec, 422, "functions.x.attach.inside");
        let detail = got.json()["faults"][0]["message"].as_str().unwrap_or_default().replace(name, "NAME");
        assert_eq!(detail, "found `NAME`; allowed: functions, ports and devices of the tenant");
        refused("/v1/chains/x", json!(["crimson-port0", name]), 422, "chains.x");
        let (first, second) =
            if "crimson-fw:1" < name { ("crimson-fw:1", name) } else { (name, "crimson-fw:1") };
        refused(
            &format!("/v1/wires/{first}~{second}"),
            json!([first, second]),
            422,
            &format!("wires.{first}~{second}"),
        );
        refused("/v1/observers/crimson-fw", json!({"at": [name]}), 422, "observers.crimson-fw");
    }
    refused("/v1/observers/azure-fw", json!({"at": ["crimson-fw"]}), 422, "observers.azure-fw");
    // A name can be taken, as a function, a port a switch or a device; that is all that is told.
    for name in ["azure-fw", "azure-port0", "azure-device", "hall"] {
        let got = refused(&format!("/v1/functions/{name}"), of("crimson"), 409, &format!("functions.{name}"));
        assert!(got.text().contains("is taken"), "{got:?}");
    }
    for name in ["azure-chain", "ochre"] {
        refused(
            &format!("/v1/chains/{name}"),
            json!(["crimson-port0", "crimson-fw", "crimson-port1"]),
            409,
            &format!("chains.{name}"),
        );
    }
    // Preconditions are about what is there, and for a tenant that is its own.
    let body = json!({"spec": of("crimson")}).to_string();
    let put = |header: (&str, &str)| {
        ask(&mut shared.tenants(), token, "PUT", "/v1/functions/azure-fw", &[header], &body)
    };
    let (hidden, none) = (
        put(("if-match", "*")),
        ask(&mut shared.tenants(), token, "PUT", "/v1/functions/none", &[("if-match", "*")], &body),
    );
    assert_eq!((hidden.status, none.status), (412, 412), "{hidden:?}");
    let told = |got: &crate::client::Got, name: &str| got.text().replace(name, "NAME");
    assert_eq!(told(&hidden, "azure-fw"), told(&none, "none"), "the same in the same words");
    assert_eq!(put(("if-none-match", "*")).status, 409);
    // Documents: all of it or nothing.
    let headers = [("content-type", "application/json")];
    let document = json!({
        "superfluid": 1, "workers": 9, "switches": {"mine": {}}, "services": {"9": "crimson-fw:0"},
        "ports": {"crimson-port0": {"type": "pcap", "tenant": "crimson"}, "mine": {"type": "null", "tenant": "crimson"}},
        "functions": {"good": {"image": "firewall", "tenant": "crimson"}},
    });
    let got = ask(&mut shared.tenants(), token, "POST", "/v1/apply", &headers, &document.to_string());
    assert_eq!(got.status, 403);
    assert_eq!(places(&got), ["workers", "ports.crimson-port0", "ports.mine", "switches.mine", "services.9"]);
    assert_eq!(shared.server.store.revision(), before, "nothing was changed");
    assert_eq!(shared.server.fake.world().asked, 0, "no registry was asked for an image");
}

#[test]
fn no_registry_is_asked_for_an_image_that_a_tenant_may_not_have() {
    let shared = Shared::new();
    let spec = json!({"image": "tag-a", "tenant": "azure"});
    assert_eq!(shared.put(&shared.crimson, "/v1/functions/x?wait=true", spec).status, 403);
    let spec = json!({"image": "tag-a", "tenant": "crimson", "attach": {"inside": "hall"}});
    assert_eq!(shared.put(&shared.crimson, "/v1/functions/x?dry_run=true", spec).status, 422);
    assert_eq!(shared.server.fake.world().asked, 0);
    let spec = json!({"image": "tag-a", "tenant": "crimson"});
    assert_eq!(shared.put(&shared.crimson, "/v1/functions/x?wait=true", spec).status, 201);
    assert_eq!(shared.server.fake.world().asked, 1);
}

#[test]
fn what_an_administrator_has_written_stays_as_it_is() {
    let shared = Shared::new();
    let mut admin = shared.server.client();
    let given = json!({"image": "/srv/fw.wasm", "tenant": "crimson", "attach": {"inside": "hall"}});
    assert_eq!(admin.put("/v1/functions/crimson-given", &given).status, 201);
    let mut changed = given.clone();
    changed["config"] = json!({"top": 5});
    assert_eq!(shared.put(&shared.crimson, "/v1/functions/crimson-given", changed.clone()).status, 200);
    changed["image"] = json!("/srv/other.wasm");
    assert_eq!(shared.put(&shared.crimson, "/v1/functions/crimson-given", changed.clone()).status, 403);
    changed["image"] = json!("/srv/fw.wasm");
    changed["attach"] = json!({"inside": "hall", "outside": "hall"});
    assert_eq!(shared.put(&shared.crimson, "/v1/functions/crimson-given", changed).status, 422);
    // A snapshot of it is the tenant's too; wires are of the place. What it says is checked like what a
    // client says: a file of the host stays where an administrator has written it, and comes nowhere else.
    let save =
        shared.ask(&shared.crimson, "POST", "/v1/functions/crimson-given/snapshots", r#"{"name": "g"}"#);
    assert_eq!(save.status, 201);
    let restore = |token: &str, function: &str| {
        shared
            .ask(token, "POST", "/v1/snapshots/g/restore", &json!({"function": function}).to_string())
            .status
    };
    assert_eq!((restore(&shared.azure, "x"), restore(&shared.crimson, "azure-fw")), (404, 403));
    assert_eq!(
        (restore(&shared.crimson, "crimson-given"), restore(&shared.crimson, "crimson-twin")),
        (200, 403)
    );
    let restore = json!({"function": "crimson-twin"}).to_string();
    let saved = "/v1/snapshots/crimson-saved/restore";
    assert_eq!(shared.ask(&shared.crimson, "POST", saved, &restore).status, 201);
    let others = json!({"function": "azure-fw"}).to_string();
    assert_eq!(shared.ask(&shared.crimson, "POST", saved, &others).status, 409);
    // Its own name it may delete; what others have wired to it is in the way, and not told.
    let chain = json!(["hall", "crimson-twin", "azure-port0"]);
    assert_eq!(admin.put("/v1/chains/secret", &chain).status, 201);
    let got = shared.ask(&shared.crimson, "DELETE", "/v1/functions/crimson-twin", "");
    assert_eq!(got.status, 409);
    assert_eq!(admin.delete("/v1/chains/secret").status, 200);
    assert_eq!(shared.ask(&shared.crimson, "DELETE", "/v1/functions/crimson-twin", "").status, 200);
}

#[test]
fn the_owner_is_looked_at_again_when_an_object_is_changed() {
    let shared = Shared::new();
    let mut admin = shared.server.client();
    let kept = |name: &str| json!({"image": format!("kept-compiling-{name}"), "tenant": "crimson"});
    let begun = shared.put(&shared.crimson, "/v1/functions/crimson-fw?wait=false", kept("x"));
    assert_eq!(begun.status, 202);
    // Meanwhile it becomes another's.
    assert_eq!(admin.put("/v1/functions/crimson-fw", &json!({"image": "z", "tenant": "azure"})).status, 200);
    shared.server.fake.let_go("kept-compiling-x");
    let ended = ended(&shared, &begun.json()["id"]);
    assert_eq!(
        (ended["state"].as_str(), ended["problem"]["status"].as_u64()),
        (Some("failed"), Some(409)),
        "{ended}"
    );
    assert_eq!(admin.get("/v1/functions/crimson-fw").json()["spec"]["image"], "z");
    // A token that goes meanwhile changes nothing either.
    let begun = shared.put(&shared.crimson, "/v1/functions/crimson-eye?wait=false", kept("y"));
    assert_eq!(begun.status, 202);
    assert_eq!(admin.delete("/v1/tokens/crimson-token").status, 200);
    shared.server.fake.let_go("kept-compiling-y");
    let ended = self::ended(&shared, &begun.json()["id"]);
    assert_eq!(ended["problem"]["status"], 401, "{ended}");
}

/// A snapshot that this host has not sealed has no tenant until an administrator gives it to one, whatever
/// its spec says.
#[test]
fn an_imported_snapshot_belongs_to_no_tenant() {
    let shared = Shared::new();
    let name = api::Name::new("crimson-saved").expect("a name");
    if let Some(saved) = shared.server.fake.world().snapshots.get_mut(&name) {
        (saved.imported, saved.tenant) = (true, None);
    }
    let mut admin = shared.server.client();
    let shown = |token: &str| {
        let items = shared.ask(token, "GET", "/v1/snapshots", "").json()["items"].clone();
        items.as_array().expect("a list").len()
    };
    assert_eq!((shown(&shared.crimson), shown(&shared.azure)), (0, 1));
    for (method, path, body) in [
        ("GET", "/v1/snapshots/crimson-saved", ""),
        ("DELETE", "/v1/snapshots/crimson-saved", ""),
        ("POST", "/v1/snapshots/crimson-saved/restore", r#"{"function": "x"}"#),
    ] {
        assert_eq!(shared.ask(&shared.crimson, method, path, body).status, 404, "{method} {path}");
    }
    let adopt = "/v1/snapshots/crimson-saved/adopt";
    for token in [&shared.crimson, &shared.azure] {
        assert_eq!(shared.ask(token, "POST", adopt, r#"{"tenant": "crimson"}"#).status, 403);
        assert_eq!(shared.ask(token, "POST", "/v1/snapshot-keys", "").status, 403);
    }
    assert_eq!(admin.get("/v1/snapshots/crimson-saved").json()["imported"], true);
    assert_eq!(admin.post(adopt, r#"{"tenant": "absent"}"#).status, 422);
    assert_eq!(admin.post(adopt, r#"{"tenant": "crimson"}"#).json()["tenant"], "crimson");
    assert_eq!(admin.post(adopt, r#"{"tenant": "azure"}"#).status, 409, "it has one");
    assert_eq!((shown(&shared.crimson), shown(&shared.azure)), (1, 1));
    assert_eq!(admin.post("/v1/snapshot-keys", "").json()["sealed"], 2);
}

fn ended(shared: &Shared, id: &serde_json::Value) -> serde_json::Value {
    let began = Instant::now();
    loop {
        let path = format!("/v1/operations/{}", id.as_str().expect("an id"));
        let operation = shared.server.client().get(&path).json();
        if operation["ended"].is_string() {
            return operation;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{operation}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_tenant_has_only_so_much_and_keeps_nothing_from_others() {
    let shared = Shared::with(|settings| {
        settings.limits.tenant_objects = 8;
        settings.limits.tenant_bytes = 4000;
        settings.limits.tenant_snapshots = 2;
        settings.limits.tenant_operations = 2;
        settings.limits.operations_at_once = 1;
    });
    let of = |n: usize| format!("/v1/functions/crimson-{n}");
    let spec = json!({"image": "firewall", "tenant": "crimson"});
    // Seven there are.
    assert_eq!(shared.put(&shared.crimson, &of(0), spec.clone()).status, 201);
    let full = shared.put(&shared.crimson, &of(1), spec.clone());
    assert_eq!(full.problem(), "no-room");
    assert!(full.text().contains("found 9; allowed: at most 8"), "{full:?}");
    assert_eq!(shared.ask(&shared.crimson, "DELETE", &of(0), "").status, 200);
    // An observer with many places is room that its tenant has, too.
    let places = json!({"at": vec!["crimson-fw"; 500]});
    let full = shared.put(&shared.crimson, "/v1/observers/crimson-eye", places);
    assert_eq!(full.problem(), "no-room");
    assert!(full.text().contains("bytes of specs"), "{full:?}");
    let mut large = spec.clone();
    large["config"] = json!({"x": "x".repeat(4000)});
    assert_eq!(shared.put(&shared.crimson, &of(0), large.clone()).problem(), "no-room");
    assert_eq!(shared.server.client().put(&of(0), &large).status, 201, "an administrator may");
    // What is too much already can become less, and other than more.
    assert_eq!(shared.put(&shared.crimson, &of(0), spec.clone()).status, 200);
    let save = |n: usize| {
        let name = json!({"name": format!("s{n}")}).to_string();
        shared.ask(&shared.crimson, "POST", "/v1/functions/crimson-fw/snapshots", &name)
    };
    assert_eq!((save(0).status, save(1).problem()), (201, "no-room".to_owned()));
    assert_eq!(shared.ask(&shared.crimson, "DELETE", "/v1/snapshots/s0", "").status, 200);
    assert_eq!(save(0).status, 201, "the one that was deleted made room");
    // Two wait or are worked on; the third has to come again.
    let slow = |token: &str, tenant: &str, n: usize| {
        let spec = json!({"image": format!("kept-compiling-{tenant}{n}"), "tenant": tenant});
        shared.put(token, &format!("/v1/functions/{tenant}-fw?wait=false"), spec).status
    };
    let crimson: Vec<u16> = (0..4).map(|n| slow(&shared.crimson, "crimson", n)).collect();
    assert_eq!(crimson, [202, 202, 503, 503]);
    assert_eq!(slow(&shared.azure, "azure", 0), 202);
    for image in ["crimson0", "crimson1", "azure0"] {
        shared.server.fake.let_go(&format!("kept-compiling-{image}"));
    }
}

/// They are listed with what they were told, in one answer.
#[test]
fn the_specs_of_a_tenants_snapshots_have_only_so_many_bytes() {
    let shared = Shared::with(|settings| settings.limits.tenant_snapshot_specs = 100_000);
    let config = json!({"note": "x".repeat(30_000)});
    let large = json!({"image": "firewall", "tenant": "crimson", "config": config});
    assert_eq!(shared.put(&shared.crimson, "/v1/functions/crimson-large", large).status, 201);
    let save = |function: &str, name: &str| {
        let path = format!("/v1/functions/{function}/snapshots");
        shared.ask(&shared.crimson, "POST", &path, &json!({"name": name}).to_string())
    };
    let statuses = ["a", "b", "c", "d"].map(|name| save("crimson-large", name).status);
    assert_eq!(statuses, [201, 201, 201, 507]);
    assert!(save("crimson-large", "d").text().contains("allowed: 100000 bytes; delete some"));
    assert_eq!(save("crimson-fw", "e").status, 201, "a small one has room");
    assert_eq!(shared.ask(&shared.crimson, "DELETE", "/v1/snapshots/a", "").status, 200);
    assert_eq!(save("crimson-large", "d").status, 201);
}

#[test]
fn a_tenants_snapshots_have_only_so_many_bytes() {
    // The fake's have 64 KiB each.
    let shared = Shared::with(|settings| settings.limits.tenant_snapshot_bytes = 200_000);
    let save = |token: Option<&str>, name: &str| {
        let (path, body) = ("/v1/functions/crimson-fw/snapshots", json!({"name": name}).to_string());
        match token {
            Some(token) => shared.ask(token, "POST", path, &body),
            None => shared.server.client().post(path, &body),
        }
    };
    // One there is.
    let crimson = Some(shared.crimson.as_str());
    assert_eq!([save(crimson, "a").status, save(crimson, "b").status], [201, 201]);
    let full = save(crimson, "c");
    assert_eq!(full.problem(), "no-room");
    assert!(full.text().contains("found 65536 bytes; allowed: at most 3392"), "{full:?}");
    assert_eq!(save(None, "d").status, 201, "an administrator may");
    let full = save(crimson, "e");
    assert!(full.text().contains("the tenant's snapshots have 262144 bytes; allowed: 200000"), "{full:?}");
    for name in ["a", "d"] {
        assert_eq!(shared.ask(&shared.crimson, "DELETE", &format!("/v1/snapshots/{name}"), "").status, 200);
    }
    assert_eq!(save(crimson, "e").status, 201);
}

/// What was answered with an operation is in memory until that has ended, and so is its room.
#[test]
fn what_waits_in_an_operation_has_the_room_of_its_body() {
    let shared = Shared::with(|settings| {
        settings.limits.body_bytes = 64 << 10;
        settings.limits.tenant_bodies_bytes = 64 << 10;
        settings.limits.body_time = Duration::from_millis(500);
    });
    let put = |token: &str, tenant: &str, name: &str, image: &str| {
        let config = json!({"note": "x".repeat(40 << 10)});
        let spec = json!({"image": image, "tenant": tenant, "config": config});
        shared.put(token, &format!("/v1/functions/{tenant}-{name}?wait=false"), spec).status
    };
    let crimson = |name: &str, image: &str| put(&shared.crimson, "crimson", name, image);
    assert_eq!(crimson("a", "kept-compiling-a"), 202);
    assert_eq!(crimson("b", "firewall"), 408, "the room is the operation's");
    assert_eq!(put(&shared.azure, "azure", "b", "firewall"), 201, "another tenant has its own");
    shared.server.fake.let_go("kept-compiling-a");
    let began = Instant::now();
    while crimson("b", "firewall") == 408 {
        assert!(began.elapsed() < Duration::from_secs(20), "the room stays away after the operation's end");
    }
}

#[test]
fn a_function_begins_with_a_snapshot_of_its_tenant_alone() {
    let shared = Shared::new();
    let spec = |tenant: &str| json!({"spec": {"image": "firewall", "tenant": tenant}}).to_string();
    let put = |token: &str, name: &str, from: &str, tenant: &str| {
        let path = format!("/v1/functions/{name}?from={from}");
        shared.ask(token, "PUT", &path, &spec(tenant))
    };
    let made = put(&shared.crimson, "crimson-two", "crimson-saved", "crimson");
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.json()["spec"]["tenant"], "crimson");
    // What is another's is not there.
    for name in ["crimson-saved", "none"] {
        let refused = put(&shared.azure, "azure-two", name, "azure");
        assert_eq!((refused.status, refused.problem().as_str()), (404, "not-found"), "{refused:?}");
        assert!(refused.text().contains(&format!("there is no snapshot `{name}`")), "{refused:?}");
    }
    for token in [&shared.reading, &shared.watching] {
        assert_eq!(put(token, "crimson-three", "crimson-saved", "crimson").status, 403);
    }
    // Nor does an administrator give what one tenant's function knew to another's by mistake.
    let mut admin = shared.server.client();
    let path = "/v1/functions/azure-two?from=crimson-saved";
    let wrong = admin.put(path, &json!({"image": "firewall", "tenant": "azure"}));
    assert_eq!((wrong.status, places(&wrong)), (422, vec!["spec.tenant".to_owned()]), "{wrong:?}");
    assert_eq!(admin.get("/v1/functions/azure-two").status, 404);
    let path = "/v1/functions/crimson-three?from=crimson-saved";
    assert_eq!(admin.put(path, &json!({"image": "firewall", "tenant": "crimson"})).status, 201);
    // Names are names, and other kinds begin with nothing.
    let odd = admin.put("/v1/functions/f?from=%2Fetc%2Fpasswd", &json!({"image": "firewall"}));
    assert_eq!(odd.problem(), "malformed", "{odd:?}");
    assert_eq!(admin.put("/v1/ports/p?from=crimson-saved", &json!({"type": "null"})).problem(), "malformed");
}

#[test]
fn a_tenant_opens_devices_that_are_open_to_it() {
    let shared = Shared::new();
    let mut admin = shared.server.client();
    let function = |device: &str| json!({"image": "firewall", "tenant": "crimson", "attach": {"inside": {"to": device, "order": 2}}});
    let mut open = |name: &str, grants: serde_json::Value| {
        let spec = json!({"mode": "rootless", "tenant": "azure", "share": "duplicate", "open_to": grants});
        assert_eq!(admin.put(&format!("/v1/devices/{name}"), &spec).status, 201);
    };
    open("to-all", json!([{"tenant": "crimson"}]));
    open("to-one", json!([{"tenant": "crimson", "function": "ids"}]));
    let status = |name: &str, device: &str| {
        shared.put(&shared.crimson, &format!("/v1/functions/{name}"), function(device)).status
    };
    assert_eq!(status("own", "crimson-device"), 201);
    assert_eq!(status("a", "to-all"), 201);
    assert_eq!(status("ids", "to-one"), 201);
    assert_eq!(status("b", "to-one"), 422, "not this one");
    assert_eq!(status("b", "azure-device"), 422);
    // What was granted goes with the device's spec.
    let closed = json!({"mode": "rootless", "tenant": "azure"});
    assert_eq!(admin.put("/v1/devices/to-all", &closed).status, 200);
    assert_eq!(status("c", "to-all"), 422);
}
