use super::*;
use serde_json::json;

fn change(kind: Kind, name: &str, spec: Option<Value>) -> ObjectChange {
    ObjectChange { kind, name: name.to_owned(), spec, paused: false, snapshot: None }
}

fn put(kind: Kind, name: &str, spec: Value) -> ObjectChange {
    change(kind, name, Some(spec))
}

fn id(kind: Kind, name: &str) -> ObjectName {
    ObjectName::new(kind, name)
}

fn two_tenants() -> Owners {
    let objects = [
        put(Kind::Tenant, "red", json!({})),
        put(Kind::Tenant, "blue", json!({})),
        put(Kind::Port, "lan", json!({"type": "null", "tenant": "red"})),
        put(Kind::Port, "wan", json!({"type": "null", "tenant": "blue"})),
        put(Kind::Switch, "hall", json!({})),
        put(Kind::Function, "fw", json!({"image": "a", "tenant": "red"})),
        put(Kind::Function, "nat", json!({"image": "a", "tenant": "blue"})),
        put(Kind::Function, "lost", json!({"image": "a"})),
        put(Kind::Chain, "mine", json!(["lan", "fw", "lan"])),
        put(Kind::Chain, "joined", json!(["lan", "fw", "wan"])),
        put(Kind::Wire, "fw:0~hall", json!(["fw:0", "hall"])),
        put(Kind::Wire, "fw:1~lan", json!(["fw:1", "lan"])),
        put(Kind::Observer, "fw", json!({"at": ["fw:0"]})),
        put(Kind::Observer, "nat", json!({"at": ["fw"]})),
        put(Kind::Service, "7", json!("fw:0")),
    ];
    Owners::new(&objects, 5)
}

#[test]
fn what_joins_tenants_or_reaches_what_has_none_has_none() {
    let owners = two_tenants();
    for mine in [
        id(Kind::Tenant, "red"),
        id(Kind::Port, "lan"),
        id(Kind::Function, "fw"),
        id(Kind::Chain, "mine"),
        id(Kind::Wire, "fw:1~lan"),
        id(Kind::Observer, "fw"),
    ] {
        assert!(owners.is_of(&mine, "red") && !owners.is_of(&mine, "blue"), "{mine}");
    }
    for nobodys in [
        id(Kind::Chain, "joined"),
        id(Kind::Wire, "fw:0~hall"),
        id(Kind::Observer, "nat"),
        id(Kind::Service, "7"),
        id(Kind::Switch, "hall"),
        // The default tenant's.
        id(Kind::Function, "lost"),
        id(Kind::Function, "none"),
    ] {
        assert!(!owners.is_of(&nobodys, "red") && !owners.is_of(&nobodys, "blue"), "{nobodys}");
    }
    assert_eq!(owners.size("red").0, 4);
    assert!(owners.size("red").1 > owners.size("none").1);
    // What a chain, a wire or an observer says counts as well.
    let before = owners.size("red").1;
    let at: Vec<String> = (0..100).map(|n| format!("fw:{n}")).collect();
    owners.take(2, &[put(Kind::Observer, "fw", json!({"at": at}))]);
    assert!(owners.size("red").1 >= before + 400, "{before} and {}", owners.size("red").1);
}

#[test]
fn what_names_no_tenant_is_the_default_ones_whatever_tenants_come() {
    let owners = Owners::new(&[put(Kind::Function, "f", json!({"image": "a"}))], 0);
    assert!(owners.is_tenant("default") && !owners.is_tenant("red"));
    assert!(owners.is_of(&id(Kind::Function, "f"), "default"));
    for (revision, tenant) in ["red", "blue", "default"].into_iter().enumerate() {
        // The first tenant gets nothing of what is there.
        owners.take(1 + revision as u64, &[put(Kind::Tenant, tenant, json!({}))]);
        assert!(owners.is_tenant("default") && owners.is_tenant(tenant));
        assert!(owners.is_of(&id(Kind::Function, "f"), "default") && owners.size("red").0 == 0);
        assert_eq!(owners.page("default", Kind::Function, None, 9), ["f"]);
    }
}

#[test]
fn pages_have_what_is_the_tenants_and_in_order() {
    let mut objects = vec![put(Kind::Tenant, "red", json!({})), put(Kind::Tenant, "default", json!({}))];
    for n in 0..100 {
        let spec = match n % 3 {
            0 => json!({"image": "a", "tenant": "red"}),
            1 => json!({"image": "a"}),
            _ => json!({"image": "a", "tenant": "default"}),
        };
        objects.push(put(Kind::Function, &format!("f{n:02}"), spec));
        objects.push(put(Kind::Chain, &format!("c{n:02}"), json!([format!("f{n:02}")])));
    }
    let owners = Owners::new(&objects, 0);
    for (tenant, has) in [("red", 0..1), ("default", 1..3)] {
        for (kind, letter) in [(Kind::Function, 'f'), (Kind::Chain, 'c')] {
            let mut seen: Vec<String> = Vec::new();
            loop {
                let page = owners.page(tenant, kind, seen.last().map(String::as_str), 7);
                assert!(page.len() <= 7);
                if page.is_empty() {
                    break;
                }
                seen.extend(page);
            }
            let all = (0..100).filter(|n| has.contains(&(n % 3))).map(|n| format!("{letter}{n:02}"));
            assert_eq!(seen, all.collect::<Vec<_>>(), "{tenant} {kind}");
        }
    }
}

#[test]
fn a_tenant_is_told_of_its_own_alone_also_of_what_is_gone() {
    let owners = two_tenants();
    owners.take(6, &[put(Kind::Function, "fw", json!({"image": "b", "tenant": "blue"}))]);
    owners.take(7, &[change(Kind::Function, "fw", None), change(Kind::Chain, "mine", None)]);
    owners.take(8, &[put(Kind::Switch, "hall", json!({}))]);
    let told = |tenant| {
        let (events, newest) = owners.changes(tenant, 5, usize::MAX).expect("known");
        assert_eq!(newest, 8);
        let short = events.into_iter().map(|event| match event {
            Event::Changed { revision, name, happened, .. } => (revision, name, happened),
            other => panic!("{other:?}"),
        });
        short.collect::<Vec<_>>()
    };
    // It passed from the one to the other.
    assert_eq!(told("red"), [(6, "fw".to_owned(), Happened::Deleted)]);
    assert_eq!(told("blue"), [(6, "fw".to_owned(), Happened::Put), (7, "fw".to_owned(), Happened::Deleted)]);
    assert_eq!(owners.changes("red", 4, usize::MAX).expect_err("before all that is known").oldest, 5);
    assert!(owners.changes("red", 9, usize::MAX).is_err());
    for n in 0..KEPT as u64 {
        owners.take(9 + n, &[put(Kind::Switch, "hall", json!({}))]);
    }
    let gone = owners.changes("red", 5, usize::MAX).expect_err("too long ago");
    assert!(owners.changes("red", gone.oldest, usize::MAX).is_ok());
}

#[test]
fn what_a_tenant_had_is_not_told_to_the_next_one_of_its_name() {
    let owners = two_tenants();
    owners.take(6, &[put(Kind::Function, "fw", json!({"image": "b", "tenant": "blue"}))]);
    let gone = ["red", "default"].map(|tenant| change(Kind::Tenant, tenant, None));
    owners.take(7, &[change(Kind::Port, "lan", None), change(Kind::Function, "lost", None)]);
    owners.take(8, &gone);
    owners.take(9, &[put(Kind::Tenant, "red", json!({}))]);
    let told = |tenant| {
        let (events, newest) = owners.changes(tenant, 5, usize::MAX).expect("known");
        assert_eq!(newest, 9);
        let name = |event| match event {
            Event::Changed { revision, name, .. } => (revision, name),
            other => panic!("{other:?}"),
        };
        events.into_iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(told("red"), [(9, "red".to_owned())]);
    assert_eq!(told("blue"), [(6, "fw".to_owned())]);
    // The default tenant is there without an object, too.
    assert_eq!(told("default"), [(7, "lost".to_owned())]);
}

#[test]
fn what_goes_leaves_nothing_behind() {
    let owners = two_tenants();
    let ids: Vec<ObjectName> = {
        let index = owners.index();
        index.of.keys().chain(index.links.keys()).cloned().collect()
    };
    let all: Vec<ObjectChange> = ids.iter().map(|id| change(id.kind, &id.name, None)).collect();
    owners.take(6, &all);
    let index = owners.index();
    assert!(index.of.is_empty() && index.owned.is_empty() && index.links.is_empty());
    assert!(index.naming.is_empty());
}

#[test]
fn a_device_is_its_tenants_to_change_if_nothing_of_it_is_an_administrators() {
    let owners = two_tenants();
    let device = |name: &str, spec: Value| owners.take(6, &[put(Kind::Device, name, spec)]);
    device("pair", json!({"mode": "rootless", "tenant": "red"}));
    device("own", json!({"mode": "direct", "tenant": "red", "over": {"lan": {"receive": "udp"}}}));
    device("granted", json!({"mode": "rootless", "tenant": "red", "open_to": [{"tenant": "blue"}]}));
    device("given", json!({"mode": "direct", "tenant": "red", "over": ["wan"]}));
    let changes = |name: &str| owners.changes_device("red", name);
    assert_eq!(["pair", "own", "granted", "given", "none"].map(changes), [true, true, false, false, false]);
    assert!(!owners.changes_device("blue", "pair") && !owners.changes_device("blue", "given"));
    // By what is over a port, the device itself left out.
    let under = |tenant: &str, beside: &str| {
        let ports = ["lan", "wan", "none"].map(str::to_owned);
        owners.under_others(tenant, ports.iter(), beside).into_iter().collect::<Vec<_>>()
    };
    assert_eq!(
        (under("red", "another"), under("blue", "another")),
        (vec!["wan".to_owned()], vec!["lan".to_owned(), "wan".to_owned()])
    );
    assert!(under("red", "own") == ["wan"] && under("red", "given").is_empty());
    // Addresses at its own devices count, wherever they are said.
    owners.take(7, &[put(
        Kind::Function,
        "fw",
        json!({"image": "a", "tenant": "red", "attach": {"inside": {"to": "own:lan", "addresses": ["192.0.2.9/24"]},
            "outside": {"to": "given", "dhcp": true}, "third": {"to": "own", "dhcp": false}}}),
    )]);
    let takes = |devices, receive, stations| Takes { devices, receive, stations };
    assert_eq!(owners.device_takes("red", &BTreeSet::new()), takes(2, 3, 1));
    assert_eq!(owners.device_takes("red", &BTreeSet::from([&id(Kind::Device, "own")])), takes(1, 0, 1));
    // The port is another tenant's now: the device over it is an administrator's to change.
    owners.take(8, &[put(Kind::Port, "lan", json!({"type": "null", "tenant": "blue"}))]);
    assert!(!changes("own") && under("red", "") == ["lan", "wan"]);
    assert_eq!(owners.device_takes("red", &BTreeSet::new()), takes(1, 0, 0));
    owners.take(9, &[change(Kind::Device, "own", None), change(Kind::Function, "fw", None)]);
    assert!(under("red", "") == ["wan"]);
}
