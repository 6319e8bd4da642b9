//! Every call, by each kind of client. A new call does not compile here before it is decided which clients
//! may make it.

use super::{Shared, ask};
use api::Kind;
use api_server::Call;
use serde_json::json;
use std::collections::BTreeSet;

/// What tenants get of a call about something of `crimson`'s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    /// Each is answered with what is its own.
    Shown,
    /// The owner is answered, for others there is nothing.
    Own,
    /// The same, and it is a change, or looks into packets.
    Changed,
    /// A tenant is answered that there is nothing of the kind.
    Hidden,
    /// No tenant may.
    Forbidden,
    /// Each is given a link with its own rights.
    Linked,
}

/// Name and body of a good request about something of `crimson`'s, and the decision.
fn login(tenant: &str) -> String {
    json!({"tenant": tenant, "registry": "r.example", "username": "ci", "password": "hush"}).to_string()
}

fn decided(call: Call) -> (&'static str, String, Decision) {
    use Decision::{Changed, Forbidden, Hidden, Linked, Own, Shown};
    let none = String::new;
    let own = |kind| match kind {
        Kind::Workers => "workers",
        Kind::Tenant => "crimson",
        Kind::Port => "crimson-port0",
        Kind::Switch => "hall",
        Kind::Group => "crimson-group",
        Kind::Device => "crimson-device",
        Kind::Function => "crimson-fw",
        Kind::Chain => "crimson-chain",
        Kind::Wire => "crimson-eye:2~crimson-port1",
        Kind::Observer => "crimson-eye",
        Kind::Service => "7",
    };
    let spec = |kind| match kind {
        Kind::Workers => json!(3),
        Kind::Tenant | Kind::Switch => json!({}),
        Kind::Group => json!({"tenant": "crimson", "rules": [{"direction": "in"}]}),
        Kind::Device => json!({"mode": "rootless", "tenant": "crimson"}),
        Kind::Port => json!({"type": "sink", "tenant": "crimson"}),
        Kind::Function => json!({"image": "monitor", "tenant": "crimson"}),
        Kind::Chain => json!(["crimson-port1", "crimson-fw", "crimson-port0"]),
        Kind::Wire => json!(["crimson-port1", "crimson-eye:2"]),
        Kind::Observer => json!({"at": ["crimson-fw:0"]}),
        Kind::Service => json!("crimson-fw:1"),
    };
    match call {
        Call::OpenApi
        | Call::Health
        | Call::Metrics
        | Call::Account
        | Call::Memory
        | Call::Graph
        | Call::History
        | Call::Images
        | Call::Events
        | Call::PastEvents
        | Call::Operations
        | Call::RegistryLogins
        | Call::Snapshots => ("", none(), Shown),
        Call::List(_) => ("", none(), Shown),
        Call::Get(kind) => match kind {
            Kind::Workers | Kind::Switch | Kind::Service => (own(kind), none(), Hidden),
            Kind::Tenant
            | Kind::Port
            | Kind::Group
            | Kind::Device
            | Kind::Function
            | Kind::Chain
            | Kind::Wire
            | Kind::Observer => (own(kind), none(), Own),
        },
        Call::Put(kind) => {
            let body = json!({"spec": spec(kind)}).to_string();
            match kind {
                Kind::Workers | Kind::Tenant | Kind::Port | Kind::Switch | Kind::Service => {
                    (own(kind), body, Forbidden)
                }
                Kind::Function | Kind::Group | Kind::Device | Kind::Chain | Kind::Wire | Kind::Observer => {
                    (own(kind), body, Changed)
                }
            }
        }
        Call::Delete(kind) => match kind {
            Kind::Workers | Kind::Tenant | Kind::Port | Kind::Switch | Kind::Service => {
                (own(kind), none(), Forbidden)
            }
            // Nothing that the fake host knows needs this one.
            Kind::Function => ("crimson-eye", none(), Changed),
            Kind::Group | Kind::Device | Kind::Chain | Kind::Wire | Kind::Observer => {
                (own(kind), none(), Changed)
            }
        },
        Call::Check => {
            let functions = json!({"crimson-fw": {"image": "monitor", "tenant": "crimson"}});
            ("", json!({"superfluid": 1, "functions": functions}).to_string(), Changed)
        }
        Call::Apply => {
            let functions = json!({"crimson-fw": {"image": "monitor", "tenant": "crimson"}});
            ("", json!({"superfluid": 1, "functions": functions}).to_string(), Changed)
        }
        Call::Operation => ("", none(), Own),
        Call::Snapshot => ("crimson-saved", none(), Own),
        Call::DeleteSnapshot => ("crimson-saved", none(), Changed),
        Call::Restore => ("crimson-saved", json!({"function": "crimson-copy"}).to_string(), Changed),
        Call::Pause | Call::Resume | Call::Restart => ("crimson-fw", none(), Changed),
        Call::Upgrade => ("crimson-fw", json!({"image": "monitor"}).to_string(), Changed),
        Call::Save => ("crimson-fw", json!({"name": "crimson-again"}).to_string(), Changed),
        Call::Logs | Call::FunctionEvents | Call::Report => ("crimson-fw", none(), Own),
        Call::Neighbours => ("crimson-device", none(), Own),
        Call::Trace => ("", json!({"count": 1, "for": "1s"}).to_string(), Changed),
        Call::Capture => ("", json!({"at": "crimson-fw"}).to_string(), Changed),
        Call::Adopt => ("crimson-saved", json!({"tenant": "crimson"}).to_string(), Forbidden),
        Call::Tokens | Call::Backup | Call::RotateKey => ("", none(), Forbidden),
        Call::PageLink => ("", none(), Linked),
        Call::Token | Call::DeleteToken => ("crimson-reader", none(), Forbidden),
        Call::IssueToken => ("", json!({"name": "more", "tenant": "crimson"}).to_string(), Forbidden),
        Call::SetRegistryLogin => ("", login("crimson"), Changed),
        Call::DeleteRegistryLogin => ("", none(), Changed),
    }
}

#[test]
fn every_call_is_answered_to_each_client_as_it_is_decided() {
    for call in Call::all() {
        let (name, body, decision) = decided(call);
        let shared = Shared::new();
        let mut name = name.to_owned();
        if call == Call::Operation {
            // One that crimson has begun.
            let spec = json!({"spec": {"image": "slow-a", "tenant": "crimson"}}).to_string();
            let begun = shared.ask(&shared.crimson, "PUT", "/v1/functions/crimson-fw?wait=false", &spec);
            assert_eq!(begun.status, 202, "{begun:?}");
            name = begun.json()["id"].as_str().expect("an id").to_owned();
        }
        let method = call.method().to_string();
        let mut path = call.path().replace("{name}", &api::paths::escaped(&name));
        let has_login = |shared: &Shared| {
            let mut client = shared.server.client();
            let got = client.ask("POST", api::paths::REGISTRY_LOGINS, &[], &login("crimson"));
            assert_eq!(got.status, 201, "{got:?}");
        };
        if call == Call::DeleteRegistryLogin {
            has_login(&shared);
            path.push_str("?registry=r.example&tenant=crimson");
        }
        let at = format!("{method} {path}");
        let before = shared.server.store.revision();

        // A client without a token.
        let mut stranger = shared.tenants();
        let got = stranger.ask(&method, &path, &[], &body);
        assert_eq!((got.status, got.problem().as_str()), (401, "unauthorized"), "{at} without a token");
        assert!(got.header("www-authenticate").is_some_and(|told| told.starts_with("Bearer")), "{got:?}");
        let wrong = format!("sft_{}", "0".repeat(64));
        for shown in [&wrong, "sft_", "", "x y"] {
            // By the administrators' door no less: a client that shows a token wants its rights.
            for client in [&mut shared.tenants(), &mut shared.server.client()] {
                let got = ask(client, shown, &method, &path, &[], &body);
                assert_eq!(got.status, 401, "{at} with `{shown}`: {got:?}");
            }
        }
        // Another tenant; and one that reads.
        let azure = shared.ask(&shared.azure, &method, &path, &body).status;
        let reading = shared.ask(&shared.reading, &method, &path, &body).status;
        let watching = shared.ask(&shared.watching, &method, &path, &body).status;
        // Of what is no tenant's to read: this is the host's configuration, and no secret.
        let watched = match decision {
            Decision::Shown | Decision::Own | Decision::Hidden => 200,
            Decision::Changed | Decision::Forbidden => 403,
            Decision::Linked => 201,
        };
        assert_eq!(watching, watched, "{at} by a reader of the host");
        let expected = match decision {
            Decision::Shown => (200, 200),
            Decision::Own => (404, 200),
            // A document names things, and does not ask for one: there they are not azure's to make.
            Decision::Changed
                if matches!(call, Call::Apply | Call::Put(Kind::Function | Kind::Group | Kind::Device)) =>
            {
                (403, 403)
            }
            // It sees what is its own, and a place of another's is none.
            Decision::Changed if call == Call::Trace => (200, 403),
            // It is told so, as all that is wrong with a document.
            Decision::Changed if call == Call::Check => (200, 403),
            Decision::Changed if call == Call::Capture => (422, 403),
            // Whose it is, is named in what is sent.
            Decision::Changed if matches!(call, Call::SetRegistryLogin | Call::DeleteRegistryLogin) => {
                (403, 403)
            }
            // A name that is taken, of which all is another's.
            Decision::Changed if matches!(call, Call::Put(_)) => (409, 403),
            Decision::Changed => (404, 403),
            Decision::Hidden => (404, 404),
            Decision::Forbidden => (403, 403),
            Decision::Linked => (201, 201),
        };
        assert_eq!((azure, reading), expected, "{at} by azure and by the reader");
        assert_eq!(shared.server.store.revision(), before, "{at}: nothing was changed");
        let refused = shared.server.audit();
        let refused =
            refused.iter().filter(|line| line["status"] == 401 && line["method"] == method.as_str());
        assert!(refused.count() >= 1, "{at}: a client that had no right to it is written down");
        // The owner, by the administrators' door as well; and an administrator.
        let owner = shared.ask(&shared.crimson, &method, &path, &body).status;
        let fits = match decision {
            Decision::Shown | Decision::Own => owner == 200,
            Decision::Changed => matches!(owner, 200 | 201),
            Decision::Hidden => owner == 404,
            Decision::Forbidden => owner == 403,
            Decision::Linked => owner == 201,
        };
        assert!(fits, "{at} by its owner: {owner}");
        drop(shared);
        if call != Call::Operation {
            let fresh = Shared::new();
            if call == Call::DeleteRegistryLogin {
                has_login(&fresh);
            }
            // A tenant with tokens stays, and so does what chains name.
            let stays = matches!(call, Call::Delete(Kind::Tenant | Kind::Port | Kind::Switch));
            let got = fresh.server.client().ask(&method, &path, &[], &body);
            assert!(matches!(got.status, 200 | 201) || stays && got.status == 409, "{at}: {got:?}");
        }
    }
}

#[test]
fn nothing_that_a_tenant_reads_has_a_trace_of_another() {
    let shared = Shared::new();
    for tenant in ["crimson", "azure"] {
        let got = shared.server.client().ask("POST", api::paths::REGISTRY_LOGINS, &[], &login(tenant));
        assert!(got.status == 201 && !got.text().contains("hush"), "{got:?}");
    }
    // Something of each kind of history.
    for tenant in ["crimson", "azure"] {
        let token = if tenant == "crimson" { &shared.crimson } else { &shared.azure };
        for n in 0..30 {
            let spec = json!({"image": "firewall", "tenant": tenant});
            assert_eq!(shared.put(token, &format!("/v1/functions/{tenant}-{n:02}"), spec).status, 201);
        }
        let path = format!("/v1/functions/{tenant}-late?wait=false");
        // Each has an image of its own: one that the other had compiled before would be made at once.
        let image = if tenant == "crimson" { "slow-a" } else { "slow-b" };
        assert_eq!(shared.put(token, &path, json!({"image": image, "tenant": tenant})).status, 202);
        assert_eq!(shared.ask(token, "DELETE", &format!("/v1/functions/{tenant}-07"), "").status, 200);
    }
    for (token, own, other) in [
        (&shared.crimson, "crimson", "azure"),
        (&shared.azure, "azure", "crimson"),
        (&shared.reading, "crimson", "azure"),
    ] {
        let mut has = BTreeSet::new();
        for call in Call::all().filter(|call| call.method() == "GET" && !call.path().contains("{name}")) {
            let query = if call == Call::Events { "?after=0" } else { "" };
            let got = shared.ask(token, "GET", &format!("{}{query}", call.path()), "");
            if call.path() == api::paths::TOKENS {
                assert_eq!(got.status, 403);
                continue;
            }
            assert_eq!(got.status, 200, "{call:?}");
            let text = got.text();
            assert!(!text.contains(other) && !text.contains("ochre"), "{call:?} by {own}: {text}");
            assert!(!text.contains("superfluid_daemon_") && !text.contains("hush"), "{text}");
            if text.contains(own) {
                has.insert(call.path());
            }
        }
        let expected = [
            "/metrics",
            "/v1/account",
            "/v1/chains",
            "/v1/devices",
            "/v1/events",
            "/v1/functions",
            "/v1/graph",
            "/v1/groups",
            "/v1/history",
            "/v1/memory",
            "/v1/observers",
            "/v1/operations",
            "/v1/past-events",
            "/v1/ports",
            "/v1/registry-logins",
            "/v1/snapshots",
            "/v1/tenants",
            "/v1/wires",
        ];
        // What it has begun is told by the function's name nowhere but in the difference.
        let has: BTreeSet<&str> = has.iter().map(String::as_str).chain(["/v1/operations"]).collect();
        assert_eq!(has, BTreeSet::from(expected), "{own} sees its own");
    }
    // Page after page, with the names of its own alone to go on by.
    let mut seen: Vec<String> = Vec::new();
    let mut after = String::new();
    loop {
        let page = shared.ask(&shared.azure, "GET", &format!("/v1/functions?limit=7{after}"), "").json();
        let names = page["items"].as_array().expect("a list").iter();
        seen.extend(names.map(|item| item["name"].as_str().expect("a name").to_owned()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    let all = (0..30).filter(|n| *n != 7).map(|n| format!("azure-{n:02}"));
    let mut all: BTreeSet<String> = all.chain(["azure-fw".into(), "azure-eye".into()]).collect();
    if seen.contains(&"azure-late".to_owned()) {
        all.insert("azure-late".to_owned());
    }
    assert_eq!(seen, all.into_iter().collect::<Vec<_>>());
    let of = |tenant: &str| {
        let list = shared.ask(&shared.azure, "GET", &format!("/v1/functions?tenant={tenant}"), "").json();
        list["items"].as_array().expect("a list").len()
    };
    assert_eq!((of("crimson"), of("azure") > 0), (0, true));
}

#[test]
fn a_reader_of_the_host_reads_what_administrators_do_and_no_secret() {
    let shared = Shared::new();
    shared.server.fake.say("something");
    let mut admin = shared.server.client();
    for call in Call::all().filter(|call| call.method() == "GET") {
        let (name, _, decision) = decided(call);
        // Nothing has an operation to show, or a name for one.
        if call == Call::Operation {
            continue;
        }
        let path = call.path().replace("{name}", &api::paths::escaped(name));
        let path = if call == Call::Events { format!("{path}?after=0") } else { path };
        let got = shared.ask(&shared.watching, "GET", &path, "");
        let (status, text) = (got.status, got.text());
        if decision == Decision::Forbidden {
            assert_eq!(status, 403, "{path}");
            assert!(text.contains("`watcher`"), "{text}");
            continue;
        }
        let same = admin.get(&path);
        assert_eq!((status, same.status), (200, 200), "{path}");
        // What counts requests and connections, or tells the time, has moved on between the two.
        if !matches!(call, Call::Metrics | Call::PastEvents) {
            assert!(text == same.text(), "{path}: another answer");
        }
        let secrets = [&shared.crimson, &shared.azure, &shared.reading, &shared.watching];
        assert!(!secrets.iter().any(|secret| text.contains(&secret[4..])), "{path} has a secret");
        assert!(!text.contains("watcher"), "{path} has tokens");
        if matches!(call, Call::List(Kind::Function | Kind::Port) | Call::Events | Call::PastEvents) {
            assert!(text.contains("crimson") && text.contains("azure"), "{path}: {text}");
        }
    }
    let metrics = shared.ask(&shared.watching, "GET", "/metrics", "").text();
    assert!(metrics.contains("superfluid_daemon_requests"), "{metrics}");
    // Nor is trying something reading.
    let body = r#"{"spec": {"image": "monitor", "tenant": "crimson"}}"#;
    let tried = shared.ask(&shared.watching, "PUT", "/v1/functions/crimson-fw?dry_run=true", body);
    assert_eq!((tried.status, tried.problem().as_str()), (403, "forbidden"));
    let audit = shared.server.audit();
    let refused: Vec<_> = audit.iter().filter(|line| line["who"]["token"] == "watcher").collect();
    assert!(refused.iter().all(|line| line["who"]["host"] == true && line["who"].get("tenant").is_none()));
    assert!(refused.iter().any(|line| line["status"] == 403), "{audit:?}");
}
