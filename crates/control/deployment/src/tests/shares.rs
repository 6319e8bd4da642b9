//! What a request has guests do is in their tenant's account, and waits for the tenant's share.

use super::*;
use offload::Share;
use telemetry::clock::Nanos;

/// A host with a chain of `default` and a function of another tenant at work.
fn two_tenants() -> Rig {
    let mut rig = Rig::new(1);
    rig.apply(&chain());
    let pool = json!({"pool": {"buffers": 256, "pages": "ordinary"}});
    rig.apply(&[put(Kind::Tenant, "blue", pool), function("b", of_blue("accept"))]);
    rig.host.start().expect("threads");
    rig
}

fn of_blue(action: &str) -> Value {
    json!({"image": "firewall", "tenant": "blue", "max_call": "10s", "config": {"default_action": action}})
}

fn jobs(rig: &Rig, tenant: &str) -> u64 {
    rig.host.offload().usage(tenant).done
}

#[test]
fn starts_restarts_and_hand_overs_are_charged_to_their_tenant() {
    let mut rig = two_tenants();
    // A job counts a little after it has given what it was to give.
    wait("its start is charged", || jobs(&rig, "blue") == 1);
    let (blue, others) = (1, jobs(&rig, "default"));
    rig.host.restart("b", &rig.catalog).expect("it starts");
    wait("the restart is charged", || jobs(&rig, "blue") == blue + 1);

    let change = function("b", of_blue("drop"));
    let plan = rig.check(std::slice::from_ref(&change)).expect("right");
    let mut prepared = rig.host.prepare(plan, HashMap::new(), &rig.catalog).expect("it starts");
    prepared.hand_over(false).expect("it hands over");
    assert_eq!(rig.host.carry_out(prepared).expect("it has not stopped").troubles, [""; 0]);
    rig.desired.take_over([change]);
    wait("the start and the hand-over are charged", || jobs(&rig, "blue") == blue + 3);
    assert!(rig.host.offload().usage("blue").used > Nanos(0));
    assert_eq!(jobs(&rig, "default"), others);
}

#[test]
fn freezing_thawing_saving_and_cloning_are_charged_to_their_tenant() {
    let mut rig = two_tenants();
    wait("its start is charged", || jobs(&rig, "blue") == 1);
    let others = jobs(&rig, "default");
    let frozen = |rig: &Rig| rig.account().instances.iter().find(|it| it.name == "b").map(|it| it.frozen);
    rig.host.set_paused("b", true).expect("it runs");
    assert_eq!(rig.host.freeze_paused(Duration::ZERO, 10), 1);
    wait("freezing is charged", || jobs(&rig, "blue") == 2);
    assert_eq!(frozen(&rig), Some(true));
    rig.host.set_paused("b", false).expect("it is thawed");
    assert_eq!(frozen(&rig), Some(false));
    wait("thawing is charged", || jobs(&rig, "blue") == 3);
    rig.host.set_paused("b", false).expect("it runs");
    let saved = rig.host.save("b").expect("it can be saved");
    wait("saving is charged, and there was nothing more to thaw", || jobs(&rig, "blue") == 4);
    // To share the snapshot's memory is a part of the start.
    let beginning = Beginning { paused: false, saved: Some(saved) };
    rig.apply_with(&[function("twin", of_blue("accept"))], [("twin".to_owned(), beginning)].into());
    wait("the clone is charged", || jobs(&rig, "blue") == 5);
    assert!(rig.host.shared_images().bytes_of("blue") > 0);
    assert_eq!(jobs(&rig, "default"), others);
}

#[test]
fn functions_of_a_tenant_that_has_used_its_share_are_frozen_later() {
    let rig = two_tenants();
    let offload = rig.host.offload();
    wait("its start is charged", || jobs(&rig, "blue") == 1);
    offload.set_share("blue", Some(Share { permille: 1, burst: Nanos(1) }));
    offload.charge("blue", Nanos::from_millis(1_000_000));
    let frozen = |name: &str| {
        let account = rig.account();
        account.instances.iter().any(|it| it.name == name && it.frozen)
    };
    for name in ["b", "f"] {
        rig.host.set_paused(name, true).expect("it runs");
    }
    assert_eq!(rig.host.freeze_paused(Duration::ZERO, 10), 2);
    assert!(frozen("f") && !frozen("b"), "another tenant's waits for nothing");
    assert_eq!(offload.usage("blue").waiting, 1);
    // It goes on at once, and what waits does nothing any more.
    rig.host.set_paused("b", false).expect("it is not frozen");
    offload.set_share("blue", None);
    wait("the job is done", || jobs(&rig, "blue") == 2);
    assert!(!frozen("b"));
}

#[test]
fn a_tenant_that_has_used_its_share_waits_and_others_do_not() {
    let rig = two_tenants();
    let offload = rig.host.offload();
    offload.set_share("blue", Some(Share { permille: 1, burst: Nanos(1) }));
    offload.charge("blue", Nanos::from_millis(1_000_000));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| rig.host.restart("b", &rig.catalog));
        wait("it waits", || offload.usage("blue").waiting == 1);
        rig.host.restart("f", &rig.catalog).expect("another tenant's starts at once");
        assert!(!waits.is_finished());
        offload.set_share("blue", None);
        waits.join().expect("no panic").expect("it starts");
    });
}

#[test]
fn a_function_that_works_for_another_tenant_is_in_its_claim_and_account() {
    let mut rig = Rig::new(1);
    rig.apply(&chain());
    let blue = json!({"pool": {"buffers": 256, "pages": "ordinary"}, "cpu": {"weight": 300}});
    rig.apply(&[put(Kind::Tenant, "blue", blue)]);
    rig.host.start().expect("threads");
    let others = jobs(&rig, "default");
    // As guards of devices that a function of `blue` opens.
    let of_platform = |action: &str| {
        function("g", json!({"image": "firewall", "max_call": "10s", "config": {"default_action": action}}))
    };
    let carry_out = |plan| {
        let mut prepared = rig.host.prepare(plan, HashMap::new(), &rig.catalog).expect("it starts");
        prepared.hand_over(false).expect("it hands over");
        assert_eq!(rig.host.carry_out(prepared).expect("it has not stopped").troubles, [""; 0]);
    };
    let mut plan = rig.check(&[of_platform("accept")]).expect("right");
    let guard = plan.add_instances.get_mut("g").expect("it is new");
    guard.payer = Some("blue".to_owned());
    let guard = guard.clone();
    carry_out(plan);
    wait("its start is charged", || jobs(&rig, "blue") == 1);
    let promised = |account: Account| {
        let of = |name: &str| account.instances.iter().find(|it| it.name == name).map(|it| it.promised);
        [of("f"), of("g")].map(|share| share.map(|share| (share * 100.0).round()))
    };
    assert_eq!(promised(rig.account()), [Some(25.0), Some(75.0)]);

    let config = rig.check(&[of_platform("drop")]).expect("right").add_instances["g"].config.clone();
    let plan = Plan {
        change_instances: [("g".to_owned(), wiring::Instance { config, ..guard })].into(),
        ..Plan::default()
    };
    carry_out(plan);
    wait("the start and the hand-over are charged", || jobs(&rig, "blue") == 3);
    assert!(rig.host.offload().usage("blue").used > Nanos(0));
    assert_eq!(jobs(&rig, "default"), others);
}
