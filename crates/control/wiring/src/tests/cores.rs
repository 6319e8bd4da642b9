//! Workers and shares of a core.

use super::*;

fn share(percent: u32) -> Option<Cap> {
    Cap::from_millionths(percent * 10_000)
}

fn reserve(percent: u32) -> Cpu {
    Cpu { reserve: share(percent), ..Cpu::default() }
}

fn with(change: impl Fn(&mut Wiring)) -> Wiring {
    let mut wiring = edge();
    change(&mut wiring);
    wiring
}

#[test]
fn shares_are_told_in_percent() {
    let told = |millionths| Percent::from_millionths(millionths).to_string();
    assert_eq!(
        [0, 1, 500, 10_000, 123_450, 1_000_000, 2_500_000].map(told),
        ["0%", "0.0001%", "0.05%", "1%", "12.345%", "100%", "250%"]
    );
    assert_eq!(Percent::of(1.0 / 3.0).to_string(), "33.3333%");
    // 0.29 is a little less than 29 hundredths.
    assert_eq!(Percent::of(0.29).to_string(), "29%");
}

#[test]
fn workers_are_checked() {
    assert_eq!(faults(&with(|w| w.workers.list.clear())), ["there are 0 workers; allowed: 1 to 256"]);
    assert_eq!(
        faults(&with(|w| w.workers.list = vec![WorkerPlan::default(); MAX_WORKERS + 1])),
        ["there are 257 workers; allowed: 1 to 256"]
    );
    assert_eq!(
        faults(&with(|w| w.workers.list.push(WorkerPlan { processors: Some(vec![]) }))),
        ["worker 1 may run on no processor; allowed: one or more"]
    );
    assert_eq!(
        faults(&with(|w| w.instances["fw"].worker = Some(1))),
        ["`fw` is to stay on worker 1, which does not exist"]
    );
    assert_eq!(
        faults(&with(|w| {
            w.workers.list.push(WorkerPlan::default());
            w.instances["fw"].worker = Some(1);
            w.instances["flows"].worker = Some(0);
        })),
        ["`flows` has to run on worker 0 and observes `fw`, which has to run on worker 1"]
    );
}

#[test]
fn an_observer_has_the_home_of_the_observed() {
    assert_eq!(edge().homes(), [].into());
    assert_eq!(with(|w| w.instances["fw"].worker = Some(3)).homes(), [("flows", 3), ("fw", 3)].into());
    assert_eq!(with(|w| w.instances["flows"].worker = Some(3)).homes(), [("flows", 3), ("fw", 3)].into());
    let apart = with(|w| {
        w.instances["fw"].worker = Some(3);
        w.observations.clear();
    });
    assert_eq!(apart.homes(), [("fw", 3)].into());
}

#[test]
fn promises_are_kept_or_told() {
    let two = |fw: Cpu, flows: Cpu| {
        with(|w| {
            w.instances["fw"].cpu = fw;
            w.instances["flows"].cpu = flows;
        })
    };
    assert_eq!(two(reserve(50), reserve(50)).validate(), Ok(()));
    let broken = two(reserve(60), Cpu::default()).broken_promises();
    let [BrokenPromise { whose, reserve: found, obstacle }] = broken.as_slice() else { panic!("{broken:?}") };
    assert_eq!((whose, Some(*found)), (&Claimant::Instance("fw".into()), share(60)));
    let (given, remedy) = (Percent::from_millionths(500_000), Weight::new(150).map(Remedy::Weight));
    assert_eq!(*obstacle, Obstacle::Weights { worker: 0, given, remedy, roaming: false });
    assert_eq!(
        faults(&two(reserve(60), Cpu::default())),
        [
            "what is reserved for `fw`: found `60%`; allowed: at most 50%, which is what weights and caps give it on worker 0 when \
             all there want all they may have, or a `weight` of at least 150"
        ]
    );
    let broken = two(reserve(70), reserve(31)).broken_promises();
    assert!(matches!(&broken[..], [BrokenPromise { obstacle: Obstacle::Oversold { .. }, .. }]), "{broken:?}");
}

#[test]
fn an_instance_alone_on_a_worker_is_promised_all_of_it() {
    let wiring = with(|w| {
        w.observations.clear();
        w.workers.list.push(WorkerPlan::default());
        for (name, worker) in [("fw", 0), ("flows", 1)] {
            w.instances[name].cpu = reserve(100);
            w.instances[name].worker = Some(worker);
        }
    });
    assert_eq!(wiring.broken_promises(), []);
}

#[test]
fn no_more_is_told_than_can_be_read() {
    let wiring = with(|w| {
        for n in 0..300 {
            let cpu = Cpu { weight: Weight::MIN, cap: None, reserve: Cap::from_millionths(3000) };
            w.instances.insert(format!("f{n}"), Instance { cpu, ..instance("default") });
        }
    });
    assert_eq!(wiring.broken_promises().len(), 100);
}

#[test]
fn shares_and_places_change_while_all_runs() {
    let new = with(|w| {
        w.workers.list.push(WorkerPlan::default());
        w.tenants["default"].cpu = Cpu { cap: share(80), ..Cpu::default() };
        w.instances["fw"].cpu = reserve(20);
        w.instances["flows"].worker = Some(1);
    });
    let plan = Plan::between(&edge(), &new);
    let expected = Plan {
        workers: Some(new.workers.clone()),
        adjust_tenants: [("default".to_owned(), Allowance::of(&new.tenants["default"]))].into(),
        adjust_instances: [
            ("fw".to_owned(), Adjustment::of(&new.instances["fw"])),
            ("flows".to_owned(), Adjustment::of(&new.instances["flows"])),
        ]
        .into(),
        ..Plan::default()
    };
    assert_eq!(plan, expected);
    // An instance that is replaced is not adjusted as well.
    let mut other = new.clone();
    other.instances["fw"].interfaces += 1;
    let plan = Plan::between(&edge(), &other);
    assert_eq!(plan.adjust_instances.keys().collect::<Vec<_>>(), ["flows"]);
    assert_eq!(plan.add_instances["fw"].cpu, reserve(20));
    // What it adjusts must be there.
    let error = expected.apply(&mut Wiring::default()).unwrap_err();
    assert_eq!(error.to_string(), "the plan does not fit: tenant `default` is not there");
}
