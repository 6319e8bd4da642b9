//! Devices that tenants make for themselves, and those that they may not have.

use super::{Shared, places};
use serde_json::{Value, json};

fn device(more: Value) -> Value {
    let mut spec = json!({"mode": "rootless", "tenant": "crimson"});
    if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
        spec.extend(more);
    }
    spec
}

fn over(ports: Value) -> Value {
    device(json!({"mode": "direct", "over": ports}))
}

impl Shared {
    #[track_caller]
    fn is_refused(&self, path: &str, spec: Value, status: u16, place: &str) -> String {
        let got = self.put(&self.crimson, path, spec);
        assert_eq!((got.status, places(&got)), (status, vec![place.to_owned()]), "{got:?}");
        assert!(!got.text().contains("azure-"), "{got:?}");
        got.text()
    }
}

#[test]
fn a_tenant_makes_changes_and_deletes_devices_of_its_own() {
    let shared = Shared::new();
    let put =
        |name: &str, spec: Value| shared.put(&shared.crimson, &format!("/v1/devices/{name}"), spec).status;
    assert_eq!(put("crimson-pair", device(json!({"share": "duplicate"}))), 201);
    // With all that a tenant may say.
    let all = json!({"mode": "bridge", "tenant": "crimson", "share": "balance", "mtu": 1400, "dhcp": true,
        "addresses": ["192.0.2.9/24"], "gateways": ["192.0.2.1"], "multicast": ["239.1.1.1"], "mac": "02:00:00:00:00:01",
        "over": {"crimson-port0": {"receive": "udp", "priority": 1, "send": "crimson-port1"}, "crimson-port1": {}}});
    assert_eq!(put("crimson-edge", all.clone()), 201);
    assert_eq!(put("crimson-more", over(json!(["crimson-port1"]))), 201, "beside one of its own");
    assert_eq!(put("crimson-pair", device(json!({"share": "balance"}))), 200);
    let shown = shared.ask(&shared.crimson, "GET", "/v1/devices/crimson-edge", "").json();
    assert_eq!(shown["spec"], all);
    // What comes together names each other.
    let document = json!({"superfluid": 1,
        "devices": {"crimson-late": device(json!({}))},
        "functions": {"crimson-end": {"image": "firewall", "tenant": "crimson", "attach": {"inside": "crimson-late"}}},
        "chains": {"crimson-way": ["crimson-late", "crimson-end"]}});
    let got = shared.ask(&shared.crimson, "POST", "/v1/apply", &document.to_string());
    assert_eq!(got.status, 200, "{got:?}");
    for path in ["/v1/devices/crimson-edge", "/v1/devices/crimson-more", "/v1/devices/crimson-pair"] {
        assert_eq!(shared.ask(&shared.azure, "DELETE", path, "").status, 404, "{path}");
        assert_eq!(shared.ask(&shared.reading, "DELETE", path, "").status, 403, "{path}");
        assert_eq!(shared.ask(&shared.crimson, "DELETE", path, "").status, 200, "{path}");
    }
}

#[test]
fn a_tenant_says_nothing_of_a_device_that_binds_it_or_joins_it_with_others() {
    let shared = Shared::new();
    for (key, value) in [
        ("open_to", json!([{"tenant": "azure"}])),
        ("open_to", json!([{"tenant": "none-such"}])),
        ("open_to", json!([{"tenant": "crimson", "function": "crimson-fw"}])),
        ("groups", json!(["crimson-group"])),
        ("groups", json!([])),
        ("zone", json!(7)),
        ("slaac", json!(["2001:db8:7::/64"])),
        ("what_comes_later", json!(true)),
    ] {
        let told =
            shared.is_refused("/v1/devices/x", device(json!({key: value})), 403, &format!("devices.x.{key}"));
        assert!(told.contains("an administrator says this; allowed: mode, tenant, over"), "{told}");
    }
    for (key, value) in [("decapsulate", json!(["vxlan"])), ("encapsulate", json!([{"vlan": {"id": 7}}]))] {
        let spec = over(json!({"crimson-port1": {key: value}}));
        shared.is_refused("/v1/devices/x", spec, 403, &format!("devices.x.over.crimson-port1.{key}"));
    }
    // Nor is it another's.
    for spec in [json!({"mode": "rootless", "tenant": "azure"}), json!({"mode": "rootless"})] {
        shared.is_refused("/v1/devices/x", spec, 403, "devices.x.tenant");
    }
    shared.is_refused(
        "/v1/devices/crimson-device",
        json!({"mode": "rootless", "tenant": "azure"}),
        403,
        "devices.crimson-device.tenant",
    );
}

#[test]
fn a_tenants_device_is_over_ports_of_the_tenant_that_no_other_device_is_over() {
    let shared = Shared::new();
    let mut admin = shared.server.client();
    let host = json!({"type": "null"});
    assert_eq!(admin.put("/v1/ports/host-port", &host).status, 201);
    // What is another's, the host's, no port, or not there is told in the same words.
    for name in ["azure-port0", "host-port", "hall", "crimson-fw", "azure-device", "none"] {
        let list = shared.put(&shared.crimson, "/v1/devices/x", over(json!([name])));
        assert_eq!((list.status, places(&list)), (422, vec!["devices.x.over[0]".to_owned()]), "{list:?}");
        let message = list.json()["faults"][0]["message"].as_str().unwrap_or_default().replace(name, "NAME");
        assert_eq!(message, "found `NAME`; allowed: ports of `crimson`");
        let map = shared.put(
            &shared.crimson,
            "/v1/devices/x",
            over(json!({name: {"receive": "udp"}, "crimson-port0": {}})),
        );
        assert_eq!((map.status, places(&map)), (422, vec![format!("devices.x.over.{name}")]), "{map:?}");
    }
    // A name can be taken, as a function, a port, a switch or a device; that is all that is told.
    for name in ["azure-fw", "azure-port0", "azure-device", "hall", "host-port"] {
        let got = shared.put(&shared.crimson, &format!("/v1/devices/{name}"), device(json!({})));
        assert_eq!(got.status, 409, "{got:?}");
        assert!(got.text().contains("is taken; choose another"), "{got:?}");
    }
    // An administrator has put a device of another tenant over the port, or one of the same that it binds.
    for spec in [
        json!({"mode": "direct", "tenant": "azure", "over": {"crimson-port0": {"receive": "tcp"}}}),
        json!({"mode": "direct", "tenant": "crimson", "over": ["crimson-port0"], "groups": ["base"], "zone": 1}),
        json!({"mode": "bridge", "tenant": "crimson", "over": ["crimson-port0", "host-port"]}),
    ] {
        assert_eq!(admin.put("/v1/devices/given", &spec).status, 201, "{spec}");
        for first in [json!({}), json!({"priority": 0}), json!({"receive": "udp"})] {
            let told = shared.is_refused(
                "/v1/devices/x",
                over(json!({"crimson-port0": first})),
                403,
                "devices.x.over.crimson-port0",
            );
            assert!(!told.contains("given"), "{told}");
        }
        assert_eq!(shared.put(&shared.crimson, "/v1/devices/x", over(json!(["crimson-port1"]))).status, 201);
        shared.is_refused("/v1/devices/x", over(json!(["crimson-port0"])), 403, "devices.x.over[0]");
        assert_eq!(shared.ask(&shared.crimson, "DELETE", "/v1/devices/x", "").status, 200);
        assert_eq!(admin.delete("/v1/devices/given").status, 200);
    }
}

#[test]
fn what_an_administrator_says_of_a_tenants_device_keeps_the_tenant_from_it() {
    let shared = Shared::new();
    let mut admin = shared.server.client();
    assert_eq!(admin.put("/v1/ports/host-port", &json!({"type": "null"})).status, 201);
    let given = [
        json!({"mode": "direct", "tenant": "crimson", "over": ["host-port"], "groups": ["base"], "zone": 1, "addresses": ["192.0.2.9/24"]}),
        json!({"mode": "direct", "tenant": "crimson", "over": {"host-port": {"receive": "udp"}}}),
        json!({"mode": "rootless", "tenant": "crimson", "open_to": [{"tenant": "azure"}]}),
        json!({"mode": "direct", "tenant": "crimson", "over": {"crimson-port0": {"decapsulate": ["vxlan"]}}}),
    ];
    for spec in given {
        assert_eq!(admin.put("/v1/devices/given", &spec).status, 201, "{spec}");
        // It takes nothing off it, and puts another in its place by no way.
        for other in [device(json!({})), over(json!(["crimson-port1"]))] {
            let told = shared.is_refused("/v1/devices/given", other, 403, "devices.given");
            assert!(told.contains("as an administrator has made it"), "{told}");
        }
        let gone = shared.ask(&shared.crimson, "DELETE", "/v1/devices/given", "");
        assert_eq!((gone.status, places(&gone)), (403, vec!["devices.given".to_owned()]), "{gone:?}");
        // A whole document may have it as it is, and prunes what is the tenant's own.
        let own = shared.put(&shared.crimson, "/v1/devices/crimson-pair", device(json!({})));
        assert_eq!(own.status, 201, "{own:?}");
        let document = json!({"superfluid": 1, "devices": {"given": spec}});
        let applied = shared.ask(&shared.crimson, "POST", "/v1/apply", &document.to_string());
        assert_eq!(applied.status, 200, "{applied:?}");
        let empty = json!({"superfluid": 1, "functions": {
            "crimson-fw": {"image": "firewall", "tenant": "crimson"}, "crimson-eye": {"image": "firewall", "tenant": "crimson"}},
            "chains": {"crimson-chain": ["crimson-port0", "crimson-fw", "crimson-port1"]}});
        let pruned =
            shared.ask(&shared.crimson, "POST", "/v1/apply?prune=true&dry_run=true", &empty.to_string());
        assert_eq!(pruned.status, 200, "{pruned:?}");
        let deleted = pruned.json()["deleted"].to_string();
        assert!(deleted.contains("crimson-pair") && !deleted.contains("given"), "{deleted}");
        assert_eq!(admin.get("/v1/devices/given").json()["spec"], spec);
        assert_eq!(admin.delete("/v1/devices/given").status, 200);
        assert_eq!(shared.ask(&shared.crimson, "DELETE", "/v1/devices/crimson-pair", "").status, 200);
    }
}

/// Of `more` those keys that are there, beside an image.
fn function(more: Value) -> Value {
    let mut spec = json!({"image": "firewall", "tenant": "crimson"});
    if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
        spec.extend(more);
    }
    spec
}

#[test]
fn what_may_be_sent_from_at_a_device_that_groups_bind_is_the_administrators_to_say() {
    let shared = Shared::new();
    let mut admin = shared.server.client();
    assert_eq!(admin.put("/v1/ports/host-port", &json!({"type": "null"})).status, 201);
    let bound = |tenant: &str| {
        json!({"mode": "direct", "tenant": tenant, "over": ["host-port"], "groups": ["base"], "zone": 1,
        "open_to": [{"tenant": "crimson"}]})
    };
    let free = json!({"mode": "direct", "tenant": "crimson", "over": ["host-port"]});
    for (name, spec) in [("given", bound("crimson")), ("lent", bound("azure")), ("free", free)] {
        assert_eq!(admin.put(&format!("/v1/devices/{name}"), &spec).status, 201, "{name}");
    }
    let attached = |to: &str, more: Value| {
        let mut end = json!({"to": to});
        if let (Value::Object(end), Value::Object(more)) = (&mut end, more) {
            end.extend(more);
        }
        function(json!({"attach": {"inside": end}}))
    };
    let claims = [
        ("addresses", json!(["192.0.2.10/24"])),
        ("mac", json!("02:00:00:00:00:01")),
        ("dhcp", json!(true)),
        ("slaac", json!(["2001:db8:7::/64"])),
    ];
    let path = "/v1/functions/crimson-new";
    for (key, value) in &claims {
        for to in ["given", "given:host-port", "lent"] {
            let told = shared.is_refused(
                path,
                attached(to, json!({*key: value})),
                403,
                &format!("functions.crimson-new.attach.inside.{key}"),
            );
            assert!(
                told.contains("security groups bind") && told.contains("allowed: nothing, as it is"),
                "{told}"
            );
        }
        assert_eq!(
            shared.put(&shared.crimson, path, attached("free", json!({*key: value}))).status,
            201,
            "{key}"
        );
        // Taken along to a device that is bound.
        let place = format!("functions.crimson-new.attach.inside.{key}");
        shared.is_refused(path, attached("given", json!({*key: value})), 403, &place);
        assert_eq!(shared.ask(&shared.crimson, "DELETE", path, "").status, 200);
    }
    // What an administrator has said stays, or becomes less; what says nothing of that is the tenant's.
    let said = json!({"addresses": ["192.0.2.10/24"], "mac": "02:00:00:00:00:01"});
    assert_eq!(admin.put(path, &attached("given", said.clone())).status, 201);
    let mut routed = said.clone();
    routed["gateways"] = json!(["192.0.2.1"]);
    assert_eq!(shared.put(&shared.crimson, path, attached("given", routed)).status, 200);
    let more = json!({"addresses": ["192.0.2.9/24", "192.0.2.10/24"]});
    assert_eq!(admin.put(path, &attached("given", more)).status, 200);
    let less = json!({"addresses": ["192.0.2.10/24"]});
    assert_eq!(shared.put(&shared.crimson, path, attached("given", less)).status, 200);
    let other = json!({"addresses": ["192.0.2.10/24", "192.0.2.11/24"]});
    let told = shared.is_refused(
        path,
        attached("given", other),
        403,
        "functions.crimson-new.attach.inside.addresses",
    );
    assert!(told.contains("192.0.2.10/24") && told.contains("as it is"), "{told}");
    assert_eq!(shared.put(&shared.crimson, path, attached("given", json!({}))).status, 200);
    let again = json!({"addresses": said["addresses"]});
    shared.is_refused(path, attached("given", again), 403, "functions.crimson-new.attach.inside.addresses");
}

#[test]
fn what_guests_may_send_from_at_a_device_that_groups_bind_is_the_administrators_to_say() {
    let shared = Shared::new();
    let mut admin = shared.server.client();
    assert_eq!(admin.put("/v1/ports/host-port", &json!({"type": "null"})).status, 201);
    let bound =
        json!({"mode": "direct", "tenant": "crimson", "over": ["host-port"], "groups": ["base"], "zone": 1});
    assert_eq!(admin.put("/v1/devices/given", &bound).status, 201);
    let guest = |interface: Value, more: Value| {
        let mut spec = function(json!({"guest": "container", "interfaces": {"in": interface}}));
        if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
            spec.extend(more);
        }
        spec
    };
    let own = || json!({"addresses": ["192.0.2.10/24"]});
    let path = "/v1/functions/crimson-new";
    let place = "functions.crimson-new.interfaces.in.addresses";
    // By what it is attached to.
    let attach = || json!({"attach": {"in": "given"}});
    shared.is_refused(path, guest(own(), attach()), 403, place);
    // By its number as well, however it is written.
    for number in ["0", "00"] {
        shared.is_refused(path, guest(own(), json!({"attach": {number: "given"}})), 403, place);
    }
    assert_eq!(shared.put(&shared.crimson, path, guest(json!({}), attach())).status, 201);
    shared.is_refused(path, guest(own(), attach()), 403, place);
    let mac = json!({"mac": "02:00:00:00:00:01"});
    shared.is_refused(path, guest(mac, attach()), 403, "functions.crimson-new.interfaces.in.mac");
    assert_eq!(admin.put(path, &guest(own(), attach())).status, 200);
    assert_eq!(
        shared
            .put(&shared.crimson, path, guest(own(), json!({"memory": "8MiB", "attach": {"in": "given"}})))
            .status,
        200
    );
    // By a wire or a chain that comes, or is there.
    assert_eq!(shared.put(&shared.crimson, path, guest(own(), json!({}))).status, 200);
    let ends = json!(["crimson-new:in", "given"]);
    shared.is_refused("/v1/chains/c", ends.clone(), 403, "chains.c");
    shared.is_refused("/v1/wires/crimson-new:in~given", ends.clone(), 403, "wires.crimson-new:in~given");
    let document = json!({"superfluid": 1, "chains": {"c": ends}, "functions": {"crimson-late": guest(own(), json!({})),
        "crimson-new": guest(json!({}), json!({}))}});
    let got = shared.ask(&shared.crimson, "POST", "/v1/apply", &document.to_string());
    assert_eq!(got.status, 200, "nothing joins what has addresses with what is bound: {got:?}");
    shared.is_refused(path, guest(own(), json!({})), 403, place);
    let late = json!({"superfluid": 1, "chains": {"d": ["crimson-late:in", "given:host-port"]}});
    let got = shared.ask(&shared.crimson, "POST", "/v1/apply", &late.to_string());
    assert_eq!((got.status, places(&got)), (403, vec!["chains.d".to_owned()]), "{got:?}");
    // Both at once.
    let both = json!({"superfluid": 1, "chains": {"d": ["crimson-last:in", "given"]}, "functions": {"crimson-last": guest(own(), json!({}))}});
    let got = shared.ask(&shared.crimson, "POST", "/v1/apply", &both.to_string());
    assert_eq!((got.status, places(&got)), (403, vec!["chains.d".to_owned()]), "{got:?}");
    // What an administrator has joined is a whole document's to name.
    assert_eq!(admin.put("/v1/chains/d", &json!(["crimson-late:in", "given"])).status, 201);
    let same = json!({"superfluid": 1, "chains": {"d": ["crimson-late:in", "given"]}, "functions": {"crimson-late": guest(own(), json!({}))}});
    let got = shared.ask(&shared.crimson, "POST", "/v1/apply", &same.to_string());
    assert_eq!(got.status, 200, "{got:?}");
}

#[test]
fn a_tenants_devices_take_only_so_much() {
    let shared = Shared::with(|settings| {
        settings.limits.tenant_devices = 3;
        settings.limits.tenant_receive = 20;
        settings.limits.tenant_stations = 2;
    });
    let put = |name: &str, spec: Value| shared.put(&shared.crimson, &format!("/v1/devices/{name}"), spec);
    let full = |got: crate::client::Got, told: &str| {
        assert_eq!((got.status, got.problem().as_str()), (507, "no-room"), "{got:?}");
        assert!(got.text().contains(told), "{got:?}");
    };
    // One there is.
    assert_eq!(put("a", device(json!({}))).status, 201);
    assert_eq!(put("b", device(json!({}))).status, 201);
    full(put("c", device(json!({}))), "devices of the tenant `crimson`: found 4; allowed: at most 3");
    // Of a document with more, none is looked at: one that names no tenant would be another's to make.
    let many: serde_json::Map<String, Value> =
        (0..4).map(|n| (format!("many{n}"), json!({"mode": "rootless"}))).collect();
    let document = json!({"superfluid": 1, "devices": many}).to_string();
    full(
        shared.ask(&shared.crimson, "POST", "/v1/apply", &document),
        "devices of the tenant `crimson`: found 7; allowed: at most 3",
    );
    let long = over(json!({"crimson-port0": {"receive": "udp port 53 or udp port 54"}}));
    full(put("b", long.clone()), "bytes of `receive` of devices of the tenant `crimson`: found 26");
    assert_eq!(shared.server.client().put("/v1/devices/b", &long).status, 200, "an administrator may");
    let less = over(json!({"crimson-port0": {"receive": "udp port 53 or port 54"}}));
    assert_eq!(put("b", less).status, 200, "what is too much already can become less");
    let addressed = |n: u8| {
        device(json!({"mode": "direct", "over": ["crimson-port0"], "addresses": [format!("192.0.2.{n}/24")]}))
    };
    assert_eq!(put("a", addressed(1)).status, 200);
    assert_eq!(put("b", addressed(2)).status, 200);
    let at = |to: &str| json!({"image": "firewall", "tenant": "crimson", "attach": {"inside": {"to": to, "addresses": ["192.0.2.9/24"]}}});
    let function = |to: &str| shared.put(&shared.crimson, "/v1/functions/crimson-new", at(to));
    full(
        function("a"),
        "interfaces with addresses at them, of the tenant `crimson`: found 3; allowed: at most 2",
    );
    assert_eq!(put("b", device(json!({}))).status, 200);
    assert_eq!(function("a").status, 201);
    // Those at what an administrator has given count for nothing of this.
    let mut admin = shared.server.client();
    assert_eq!(admin.put("/v1/ports/host-port", &json!({"type": "null"})).status, 201);
    let given =
        json!({"mode": "direct", "tenant": "crimson", "over": ["host-port"], "addresses": ["192.0.2.8/24"]});
    assert_eq!(admin.put("/v1/devices/given", &given).status, 201);
    let got = shared.put(&shared.crimson, "/v1/functions/crimson-other", at("given"));
    assert_eq!(got.status, 201, "{got:?}");
    // What goes makes room.
    assert_eq!(shared.ask(&shared.crimson, "DELETE", "/v1/devices/crimson-device", "").status, 200);
    assert_eq!(put("c", device(json!({}))).status, 201);
}

#[test]
fn true_is_no_name_that_a_tenant_says_past_what_looks_for_names() {
    let shared = Shared::new();
    let mut admin = shared.server.client();
    for (path, spec) in
        [("/v1/ports/true", json!({"type": "null", "tenant": "azure"})), ("/v1/tenants/false", json!({}))]
    {
        assert_eq!(admin.put(path, &spec).status, 201, "{path}");
    }
    let made = admin.post("/v1/tokens", r#"{"name": "plain", "tenant": "default"}"#);
    let plain = made.json()["secret"].as_str().expect("a secret").to_owned();
    let function = |key: &str, value: Value| json!({"image": "firewall", key: value});
    for (token, path, spec, place) in [
        // The configuration would read the port `true`, and the tenant `false`.
        (&shared.crimson, "devices/x", over(json!(["crimson-port0", true])), "over[1]"),
        (&plain, "devices/x", json!({"mode": "rootless", "tenant": false}), "tenant"),
        (&plain, "functions/x", function("tenant", json!(false)), "tenant"),
        (&plain, "functions/x", function("attach", json!({"inside": true})), "attach.inside"),
        (&plain, "functions/x", function("attach", json!({"inside": {"to": true}})), "attach.inside"),
        (&plain, "groups/x", json!({"tenant": false, "rules": []}), "tenant"),
    ] {
        let got = shared.put(token, &format!("/v1/{path}"), spec.clone());
        assert_eq!((got.status, places(&got)), (422, vec!["spec".to_owned()]), "{got:?}");
        assert!(got.text().contains(&format!("as `{place}`; allowed: a name, as text")), "{got:?}");
        let (kind, name) = path.split_once('/').expect("both");
        let document = json!({"superfluid": 1, kind: {name: spec}}).to_string();
        for call in ["/v1/apply", "/v1/check"] {
            let got = shared.ask(token, "POST", call, &document);
            assert!(
                got.text().contains(&format!("as `{place}`; allowed: a name, as text")),
                "{call}: {got:?}"
            );
        }
    }
    // In quotation marks it is a name like others.
    shared.is_refused("/v1/devices/x", over(json!(["true"])), 422, "devices.x.over[0]");
    assert_eq!(
        admin.put("/v1/devices/x", &json!({"mode": "direct", "over": ["true"], "tenant": "false"})).status,
        201
    );
}

#[test]
fn names_that_stand_in_a_device_again_and_again_are_looked_at_once() {
    let shared = Shared::new();
    let given = json!({"mode": "direct", "tenant": "azure", "over": ["crimson-port0"]});
    assert_eq!(shared.server.client().put("/v1/devices/given", &given).status, 201);
    let again = |name: &str| over(json!(vec![name; 20_000]));
    shared.is_refused("/v1/devices/x", again("crimson-port0"), 403, "devices.x.over[0]");
    shared.is_refused("/v1/devices/x", again("none"), 422, "devices.x.over[0]");
    // Of many that are wrong the first thousand are told.
    let many: Vec<String> = (0..20_000).map(|n| format!("n{n}")).collect();
    let keys: serde_json::Map<String, Value> = many.iter().map(|name| (name.clone(), json!(1))).collect();
    for (path, spec, status) in [
        ("devices/x", over(json!(many)), 422),
        ("devices/x", device(Value::Object(keys)), 403),
        ("chains/x", json!(many), 422),
    ] {
        let got = shared.put(&shared.crimson, &format!("/v1/{path}"), spec);
        let faults = places(&got);
        assert_eq!((got.status, faults.len(), faults.last().map(String::as_str)), (status, 1001, Some("")));
    }
}
