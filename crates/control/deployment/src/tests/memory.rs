//! What memory is promised, and that nothing more is.

use super::*;

const MIB: u64 = 1 << 20;

/// A tenant with a pool of 1 MiB.
fn tenant(memory: Value) -> ObjectChange {
    put(Kind::Tenant, "default", json!({"pool": {"buffers": 512, "pages": "ordinary"}, "memory": memory}))
}

/// The message of the one fault that there is, and its place.
fn refused(rig: &Rig, changes: &[ObjectChange]) -> (String, String) {
    let faults = rig.check(changes).expect_err("there is not so much");
    assert_eq!(faults.len(), 1, "{faults:?}");
    (faults[0].at.clone(), faults[0].message.clone())
}

fn promised(rig: &Rig) -> u64 {
    let memory = rig.host.memory();
    assert_eq!(memory.promised(), memory.tenants[0].promised);
    let wiring = rig.host.wiring();
    assert_eq!(wiring.promised()["default"], memory.promised(), "the sums are those of the whole");
    memory.promised()
}

#[test]
fn a_tenants_limit_is_enforced_and_what_goes_makes_room() {
    let mut rig = Rig::new(1);
    rig.apply(&[tenant(json!({"limit": "4MiB"}))]);
    let begin = promised(&rig);
    assert_eq!(begin, MIB);
    let small = || json!({"image": "forwarder", "memory": "512KiB"});
    let mut count = 0;
    while rig.check(&[function(&format!("f{count}"), small())]).is_ok() {
        rig.apply(&[function(&format!("f{count}"), small())]);
        count += 1;
    }
    assert_eq!(count, 5, "each is promised a little more than half a MiB");
    // The one that comes is refused, and not one that is there, whatever their names are.
    for name in ["a", "z"] {
        let (at, message) = refused(&rig, &[function(name, small())]);
        assert_eq!(at, format!("functions.{name}.memory"));
        assert!(
            message.contains("of the 4MiB of its tenant `default` are left; allowed: a `memory`"),
            "{message}"
        );
    }
    // Nor may one grow that is there.
    let (at, _) = refused(&rig, &[function("f1", json!({"image": "forwarder"}))]);
    assert_eq!(at, "functions.f1.memory");
    let (at, message) = refused(&rig, &[tenant(json!({"limit": "2MiB"}))]);
    assert_eq!(at, "tenants.default.memory.limit", "{message}");
    // Replaced by as much, or exchanged for another at once, there is room.
    rig.apply(&[function(
        "f0",
        json!({"image": "forwarder", "memory": "512KiB", "config": {"reflect": true}}),
    )]);
    rig.apply(&[delete(Kind::Function, "f1"), function("z", small())]);
    rig.apply(&[delete(Kind::Function, "z")]);
    rig.apply(&[function("a", small())]);
    assert!(promised(&rig) <= 4 * MIB);
    // More is allowed without a function that is touched.
    let id = rig.host.function("a");
    rig.apply(&[tenant(json!({"limit": "8MiB"}))]);
    rig.apply(&[function("b", small())]);
    assert_eq!(rig.host.function("a"), id);
    for name in ["a", "b", "f0", "f2", "f3", "f4"] {
        rig.apply(&[delete(Kind::Function, name)]);
    }
    assert_eq!(promised(&rig), begin);
}

#[test]
fn the_hosts_limit_is_enforced() {
    let mut rig = Rig::new(1);
    rig.catalog = Catalog::new(Path::new(".")).promising(Some(6 * MIB));
    rig.apply(&[tenant(json!({}))]);
    rig.apply(&[function("f", json!({"image": "forwarder"}))]);
    let other = |reserve: &str| {
        put(
            Kind::Tenant,
            "other",
            json!({"pool": {"buffers": 512, "pages": "ordinary"}, "memory": {"reserve": reserve}}),
        )
    };
    let (at, message) = refused(&rig, &[other("5MiB")]);
    assert!(at.starts_with("tenants.other") && message.contains("on this host"), "{at}: {message}");
    rig.apply(&[other("3MiB")]);
    let (at, message) = refused(&rig, &[function("g", json!({"image": "forwarder"}))]);
    assert_eq!(at, "functions.g.memory");
    assert!(message.contains("of the 6MiB that may be promised on this host"), "{message}");
    // What is kept for the other one is there for it.
    rig.apply(&[function("h", json!({"image": "forwarder", "tenant": "other"}))]);
    assert_eq!(rig.host.memory().promised(), rig.host.memory().tenants[0].promised + 3 * MIB);
}

#[test]
fn functions_that_begin_as_one_snapshot_share_its_memory_and_their_tenant_pays_for_it_once() {
    let mut rig = Rig::new(1);
    rig.catalog = Catalog::new(Path::new(".")).counting(rig.host.shared_images());
    let red = |limit: Value| {
        put(Kind::Tenant, "red", json!({"pool": {"buffers": 512, "pages": "ordinary"}, "memory": limit}))
    };
    rig.apply(&[tenant(json!({})), red(json!({}))]);
    let filter = |tenant: &str| {
        let config = json!({"default_action": "accept", "max_flows": 4096});
        json!({"image": "firewall", "memory": "8MiB", "config": config, "tenant": tenant})
    };
    rig.apply(&[function("f", filter("red"))]);
    let saved = rig.host.save("f").expect("it can be saved");
    let pages = 4096 * saved.memory.pages().len() as u64;
    assert!(pages > 0);
    let shared = |rig: &Rig, tenant: &str| rig.host.shared_images().bytes_of(tenant);
    let begin = |rig: &mut Rig, name: &str, tenant: &str| {
        let beginning = Beginning { paused: false, saved: Some(saved.clone()) };
        rig.apply_with(&[function(name, filter(tenant))], [(name.to_owned(), beginning)].into());
        assert_eq!(rig.host.save(name).expect("it can be saved").memory, saved.memory);
    };
    let promise = |rig: &Rig| rig.host.memory().tenants[1].promised;
    let before = promise(&rig);
    begin(&mut rig, "one", "red");
    let one = promise(&rig) - before;
    begin(&mut rig, "two", "red");
    assert_eq!((shared(&rig, "red"), shared(&rig, "default")), (pages, 0));
    assert_eq!(promise(&rig) - before - one, one - pages, "it is promised once");
    // Another tenant has its own.
    begin(&mut rig, "other", "default");
    assert_eq!((shared(&rig, "red"), shared(&rig, "default")), (pages, pages));
    // It is counted where others ask for memory.
    let functions = promise(&rig) - pages;
    let (at, message) = refused(&rig, &[red(json!({"limit": format!("{}KiB", functions / 1024)}))]);
    assert_eq!(at, "tenants.red.memory.limit", "{message}");
    // And goes with the last one that has it.
    drop(rig.apply(&[delete(Kind::Function, "one")]));
    assert_eq!(shared(&rig, "red"), pages);
    drop(rig.apply(&[delete(Kind::Function, "two")]));
    wait("the memory is given back", || shared(&rig, "red") == 0);
    // Without room for it, each has a copy.
    let limit = promise(&rig) + one - pages;
    rig.apply(&[red(json!({"limit": format!("{}KiB", limit / 1024)}))]);
    begin(&mut rig, "one", "red");
    assert_eq!(shared(&rig, "red"), 0);
}

#[test]
fn a_function_gets_no_more_than_its_entry_allows() {
    let mut rig = Rig::new(1);
    rig.apply(&[tenant(json!({}))]);
    let filter = |memory: &str| {
        let config = json!({"default_action": "accept", "max_flows": 500_000});
        function("f", json!({"image": "firewall", "memory": memory, "config": config}))
    };
    let plan = rig.check(&[filter("2MiB")]).expect("right as far as can be seen");
    let error = rig.host.prepare(plan, HashMap::new(), &rig.catalog).err().expect("it asks for more");
    assert!(error.to_string().starts_with("function `f`: "), "{error}");
    rig.apply(&[filter("256MiB")]);
    let account = rig.host.account_of("f").expect("it is there");
    assert!(account.memory > 2 * MIB);
    let there = guest_wasm::resident(account.memory_place, account.memory as usize);
    assert!(there > 0 && there <= account.memory, "{there} of {}", account.memory);
    let known = rig.host.function_memory("f", account.memory, false).expect("it is there");
    assert!(known.page_tables > 0 && known.promised > known.limit, "{known:?}");
}
