//! Functions that are replaced, change workers, or get another share, beside others that run on.

use super::*;

#[test]
fn a_function_that_changes_stays_where_it_is_and_the_rest_counts_on() {
    let mut rig = Rig::new(2);
    rig.apply(&chain());
    rig.apply(&[
        put(Kind::Port, "other", json!({"type": "generator", "rate": "50kpps"})),
        function("g", forwarder(json!({"left": "other"}))),
    ]);
    rig.host.start().expect("threads");
    rig.moves("f");
    rig.moves("g");
    let (f, g, counted) = (rig.host.function("f"), rig.host.function("g"), rig.packets("g"));
    let mut changed = forwarder(json!({"left": "source", "right": "out"}));
    changed["config"] = json!({"reflect": true});
    let done = rig.apply(&[function("f", changed)]);
    assert_eq!((done.removed.len(), done.handed.len()), (0, 1));
    assert_eq!(rig.host.function("f"), f, "the same one, with another guest");
    assert_eq!(rig.host.function("g"), g, "the same one");
    assert!(rig.packets("g") >= counted);
    // It has its wires still.
    rig.moves("f");
    rig.moves("g");
    rig.account();
    rig.host.stop().expect("it ran").balance().expect("balanced");
}

#[test]
fn a_function_goes_to_the_worker_that_is_wanted_without_being_replaced() {
    let mut rig = Rig::new(2);
    rig.apply(&chain());
    rig.host.start().expect("threads");
    rig.moves("f");
    let id = rig.host.function("f");
    for worker in [1, 0, 1] {
        let mut spec = forwarder(json!({"left": "source", "right": "out"}));
        spec["worker"] = json!(worker);
        let before = rig.packets("f");
        let done = rig.apply(&[function("f", spec)]);
        assert_eq!(done.removed.len(), 0);
        let account = rig.host.account_of("f").expect("it is there");
        assert_eq!(usize::from(account.worker), worker);
        assert!(account.packets >= before, "it counts on");
        rig.moves("f");
    }
    assert_eq!(rig.host.function("f"), id);
    assert_eq!(rig.account().instances[0].ledger.dropped.total(), 0);
    rig.host.stop().expect("it ran").balance().expect("balanced");
}

#[test]
fn what_comes_is_put_beside_its_neighbours_or_where_there_are_fewest() {
    let mut rig = Rig::new(2);
    rig.apply(&[function("f", json!({"image": "forwarder", "worker": 1}))]);
    rig.apply(&[
        function("g", json!({"image": "forwarder"})),
        function("h", json!({"image": "forwarder", "attach": {"left": "f:right"}})),
    ]);
    let worker = |name: &str| rig.host.account_of(name).expect("it is there").worker;
    assert_eq!((worker("f"), worker("g"), worker("h")), (1, 0, 1));
}

#[test]
fn shares_change_while_it_runs_on() {
    let mut rig = Rig::new(1);
    rig.apply(&chain());
    rig.apply(&[function("g", json!({"image": "forwarder"}))]);
    let id = rig.host.function("g");
    let promised = |rig: &Rig| rig.host.account_of("g").expect("it is there").promised;
    assert!((promised(&rig) - 0.5).abs() < 1e-6, "{}", promised(&rig));
    rig.apply(&[function("g", json!({"image": "forwarder", "cpu": {"weight": 300}}))]);
    assert!((promised(&rig) - 0.75).abs() < 1e-6, "{}", promised(&rig));
    assert_eq!(rig.host.function("g"), id);
}
