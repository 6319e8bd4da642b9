//! Plans, carried out and given up.

use super::*;
use packet_memory::Pool;
use std::sync::{Arc, Weak};
use wiring::Wiring;

#[test]
fn what_is_wanted_runs_and_what_is_not_wanted_any_more_is_gone() {
    let mut rig = Rig::new(2);
    rig.apply(&chain());
    rig.host.start().expect("threads");
    rig.moves("f");
    // Beside it come a tenant with a pool, a switch, and functions, one with a pool of its own.
    let pool: Value = json!({"buffers": 256, "pages": "ordinary"});
    let more = [
        put(Kind::Tenant, "guests", json!({"pool": pool.clone()})),
        put(Kind::Switch, "hall", json!({})),
        function("a", json!({"image": "forwarder", "tenant": "guests", "attach": {"left": "hall"}})),
        function(
            "b",
            json!({"image": "forwarder", "tenant": "guests", "pool": pool, "attach": {"left": "hall"}}),
        ),
        function("eye", json!({"image": "monitor", "tenant": "guests"})),
        put(Kind::Observer, "eye", json!({"at": ["a:left"]})),
    ];
    rig.apply(&more);
    let account = rig.account();
    let names: Vec<&str> = account.instances.iter().map(|instance| instance.name.as_str()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    assert_eq!(account.switches[0].ports, 2);
    rig.moves("f");
    let gone: Vec<ObjectChange> =
        more.iter().chain(&chain()).map(|change| delete(change.kind, &change.name)).collect();
    let done = rig.apply(&gone);
    assert_eq!(done.removed.len(), 4);
    drop(done);
    // A file in which nothing stands has the tenant `default`, which has a pool.
    let empty = config::check("nothing", "superfluid: 1", &rig.catalog).expect("right").wiring;
    assert_eq!(*rig.host.wiring(), Wiring { workers: rig.host.workers().clone(), ..empty });
    let account = rig.account();
    assert!(account.ports.is_empty() && account.instances.is_empty() && account.switches.is_empty());
    rig.host.stop().expect("it ran").balance().expect("balanced");
}

#[test]
fn dropping_what_was_prepared_leaves_all_as_it_was() {
    let mut rig = Rig::new(2);
    rig.apply(&chain());
    let before = rig.picture();
    let changes = [
        put(Kind::Tenant, "guests", json!({"pool": {"buffers": 256, "pages": "ordinary"}})),
        put(Kind::Switch, "hall", json!({})),
        put(Kind::Port, "more", json!({"type": "null"})),
        function("a", json!({"image": "forwarder", "tenant": "guests", "attach": {"left": "hall"}})),
        // Another configuration and another wire.
        function("f", json!({"image": "forwarder", "config": {"reflect": true}, "attach": {"left": "more"}})),
        delete(Kind::Port, "out"),
        put(Kind::Service, "7", json!("a:left")),
    ];
    let plan = rig.check(&changes).expect("right");
    assert!(plan.change_instances.contains_key("f") && plan.remove_instances.is_empty(), "{plan:?}");
    let prepared = rig.host.prepare(plan.clone(), HashMap::new(), &rig.catalog).expect("it can be made");
    assert_eq!(rig.picture(), before, "what is ready touches nothing");
    let pools: Vec<Weak<Pool>> = prepared.pools.values().map(Arc::downgrade).collect();
    assert_eq!(pools.len(), 1);
    drop(prepared);
    assert_eq!(rig.picture(), before);
    assert!(pools.iter().all(|pool| pool.upgrade().is_none()), "its memory is given back");
    // Nothing of it stays in the way.
    rig.apply(&changes);
    assert!(rig.host.function("a").is_some() && rig.host.port("out").is_none());
}

#[test]
fn what_cannot_be_made_is_told_with_its_name_and_changes_nothing() {
    let mut rig = Rig::new(1);
    rig.apply(&chain());
    let before = rig.picture();
    let refused = [
        // Its configuration fits the schema, and the function refuses it.
        (
            function("x", json!({"image": "forwarder", "config": {"source": "02:00:00:00:00:01"}})),
            "function `x`: it refuses its configuration",
        ),
        (put(Kind::Port, "p", json!({"type": "pcap", "read": "/no/such.pcap"})), "port `p`: "),
    ];
    for (change, says) in refused {
        let good = put(Kind::Tenant, "t", json!({"pool": {"buffers": 64, "pages": "ordinary"}}));
        let plan = rig.check(&[good, change]).expect("right as far as can be seen");
        let error = rig.host.prepare(plan, HashMap::new(), &rig.catalog).err().expect("refused").to_string();
        assert!(error.starts_with(says), "{error}");
        assert_eq!(rig.picture(), before);
    }
}

#[test]
fn workers_that_are_wanted_later_are_told_of_and_named_by_no_function_before() {
    let mut rig = Rig::new(1);
    rig.apply(&chain());
    assert!(!rig.host.awaits_workers());
    let two = put(Kind::Workers, "workers", json!(2));
    rig.apply(&[two]);
    assert!(rig.host.awaits_workers() && rig.host.workers().list.len() == 1);
    assert_eq!(rig.host.take_notices(), [format!("workers: {WORKERS_LATER}")]);
    let before = rig.picture();
    for change in [
        function("x", json!({"image": "forwarder", "worker": 1})),
        // One that runs, too.
        function(
            "f",
            json!({"image": "forwarder", "worker": 1, "attach": {"left": "source", "right": "out"}}),
        ),
    ] {
        let plan = rig.check(&[change]).expect("right as far as can be seen");
        let error = rig.host.prepare(plan, HashMap::new(), &rig.catalog).err().expect("refused").to_string();
        assert!(error.contains("worker 1 comes when the daemon starts again; 1 run now"), "{error}");
        assert_eq!(rig.picture(), before);
    }
    // Those that run are wanted again.
    rig.apply(&[put(Kind::Workers, "workers", json!(1))]);
    assert!(!rig.host.awaits_workers());
}

#[test]
fn a_tenants_memory_goes_with_it() {
    let mut rig = Rig::new(2);
    rig.apply(&chain());
    let guests = [
        put(Kind::Tenant, "guests", json!({"pool": {"buffers": 256, "pages": "ordinary"}})),
        put(Kind::Port, "in", json!({"type": "generator", "tenant": "guests", "rate": "10kpps"})),
        function("a", json!({"image": "forwarder", "tenant": "guests", "attach": {"left": "in"}})),
    ];
    rig.apply(&guests);
    rig.host.start().expect("threads");
    rig.moves("a");
    let pool = Arc::downgrade(&rig.host.deployed().pools["guests"].0);
    // What is left of a function waits for the next one of its pool, which must not keep the pool.
    drop(rig.apply(&[delete(Kind::Function, "a")]));
    assert!(pool.upgrade().is_some());
    drop(rig.apply(&[delete(Kind::Port, "in"), delete(Kind::Tenant, "guests")]));
    assert!(pool.upgrade().is_none(), "{} still use it", pool.strong_count());
    let pools: Vec<String> = rig.account().pools.into_iter().map(|(name, ..)| name).collect();
    assert_eq!(pools, ["default"]);
    rig.moves("f");
}
