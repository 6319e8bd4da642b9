use crate::*;
use cpu_share::{Cap, Weight};
use packet_memory::{BufferSize, PageKind};
use proptest::prelude::*;
use proptest::sample::select;

mod cores;
mod devices;
mod loops;
mod memory;
mod switches;

fn instance(tenant: &str) -> Instance {
    Instance {
        tenant: tenant.to_owned(),
        payer: None,
        image: "firewall".to_owned(),
        config: Value::empty(),
        interfaces: 2,
        access: Access::Read,
        pool: InstancePool::Tenant,
        max_call: Nanos::from_millis(10),
        fail: FailMode::Closed,
        restart: RestartDelays { first: Nanos::from_millis(10), longest: Nanos::from_millis(5000) },
        quota: Fraction::new(1, 16).unwrap(),
        longest_hold: Nanos::from_millis(1000),
        events: None,
        cpu: Cpu::default(),
        worker: None,
        memory: 1 << 20,
        resident: None,
        preemptible: false,
        pauses: Vec::new(),
        stations: BTreeMap::new(),
        members: BTreeMap::new(),
    }
}

fn port(tenant: &str) -> Port {
    Port {
        tenant: tenant.to_owned(),
        driver: "null".to_owned(),
        settings: Value::empty(),
        fault: None,
        io: PortIo::Inline,
        bypass: None,
    }
}

fn at(text: &str) -> Endpoint {
    match text.rsplit_once(':') {
        Some((name, number)) => Endpoint::Interface(name.to_owned(), number.parse().unwrap()),
        None => Endpoint::Port(text.to_owned()),
    }
}

fn service(number: u16) -> Service {
    Service { tenant: "default".to_owned(), number }
}

/// An observer of all that passes a place.
fn seen(observer: &str, at: Watched) -> Observation {
    Observation { observer: observer.into(), at, filter: None, one_of: 1 }
}

/// lan - fw - wan, watched by `flows`, with a service.
fn edge() -> Wiring {
    Wiring {
        tenants: [(
            "default".to_owned(),
            Tenant { pool: PoolConfig::default(), cpu: Cpu::default(), memory: TenantMemory::default() },
        )]
        .into(),
        ports: [("lan".to_owned(), port("default")), ("wan".to_owned(), port("default"))].into(),
        instances: [("fw".to_owned(), instance("default")), ("flows".to_owned(), instance("default"))].into(),
        edges: [Edge::new(at("lan"), at("fw:0")), Edge::new(at("fw:1"), at("wan"))].into(),
        observations: [seen("flows", Watched::Instance("fw".into(), None))].into(),
        services: [(service(10), at("fw:0"))].into(),
        ..Wiring::default()
    }
}

fn faults(wiring: &Wiring) -> Vec<String> {
    wiring.validate().unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn a_good_wiring_is_valid() {
    assert_eq!(edge().validate(), Ok(()));
    assert_eq!(Wiring::default().validate(), Ok(()));
    assert_eq!(edge().peer(&at("lan")), Some(&at("fw:0")));
    assert_eq!(edge().peer(&at("fw:0")), Some(&at("lan")));
    assert_eq!(edge().peer(&at("fw:2")), None);
}

#[test]
fn each_invariant_is_checked() {
    let with = |change: &dyn Fn(&mut Wiring)| {
        let mut wiring = edge();
        change(&mut wiring);
        faults(&wiring)
    };
    assert_eq!(
        with(&|w| w.ports["lan"].tenant = "red".into()),
        ["`lan` is of the tenant `red`, which does not exist"]
    );
    assert_eq!(
        with(&|w| {
            w.ports.insert("fw".into(), port("default"));
        }),
        ["`fw` is the name of a port and of a function"]
    );
    assert_eq!(
        with(&|w| w.tenants["default"].pool.buffers = (1 << 19) + 1),
        [
            "the pool of `default` is not possible: allowed are 1 buffer to 1 GiB, headroom of up to half a buffer"
        ]
    );
    assert_eq!(
        with(&|w| w.instances["fw"].pool =
            InstancePool::Own(PoolConfig { headroom: 1025, ..PoolConfig::default() })),
        ["the pool of `fw` is not possible: allowed are 1 buffer to 1 GiB, headroom of up to half a buffer"]
    );
    assert_eq!(
        with(&|w| {
            w.edges.insert(Edge::new(at("fw:2"), at("fw:3")));
        }),
        ["`fw:2` does not exist", "`fw:3` does not exist"]
    );
    assert_eq!(
        with(&|w| {
            w.edges.insert(Edge::new(at("lan"), at("wan")));
        }),
        ["`lan` has two wires: to `wan` and to `fw:0`", "`wan` has two wires: to `lan` and to `fw:1`"]
    );
    assert_eq!(
        with(&|w| {
            w.services.insert(service(11), at("fw:9"));
        }),
        ["`fw:9` does not exist"]
    );
    assert_eq!(
        with(&|w| {
            w.services.insert(Service { tenant: "red".into(), number: 11 }, at("fw:0"));
        }),
        ["`red:11` is of the tenant `red`, which does not exist"]
    );
    assert_eq!(
        with(&|w| w.instances["flows"].access = Access::Write),
        ["`flows` is an observer, but its image may write to packets"]
    );
    assert_eq!(
        with(&|w| {
            w.services.insert(service(11), at("flows:0"));
        }),
        ["`flows` is an observer and is wired, observed or a service as well"]
    );
    assert_eq!(
        with(&|w| {
            w.observations = [seen("flows", Watched::Instance("fw".into(), Some(2)))].into();
        }),
        ["the observer `flows` or what it observes, `fw:2`, does not exist"]
    );
    assert_eq!(
        with(&|w| {
            w.tenants.insert(
                "red".into(),
                Tenant { pool: PoolConfig::default(), cpu: Cpu::default(), memory: TenantMemory::default() },
            );
            w.instances["flows"].tenant = "red".into();
        }),
        ["`flows` observes `fw`, which is another tenant's"]
    );
}

#[test]
fn an_endpoint_wired_to_itself_is_wired_twice() {
    let mut wiring = edge();
    wiring.ports.insert("loop".into(), port("default"));
    wiring.edges.insert(Edge::new(at("loop"), at("loop")));
    assert_eq!(faults(&wiring), ["`loop` has two wires: to `loop` and to `loop`"]);
}

#[test]
fn packets_are_copied_between_pools_only() {
    let mut wiring = edge();
    assert!(!wiring.copies(&at("lan"), &at("fw:0")));
    wiring.instances["fw"].pool = InstancePool::Own(PoolConfig::default());
    assert!(wiring.copies(&at("lan"), &at("fw:0")));
    assert!(!wiring.copies(&at("fw:0"), &at("fw:1")));
    wiring.instances["flows"].tenant = "red".into();
    assert!(wiring.copies(&at("flows:0"), &at("lan")));
}

#[test]
fn fractions() {
    assert_eq!(Fraction::parse("1/16").map(|f| f.of(1024)), Some(64));
    assert_eq!(Fraction::parse("1").map(|f| f.of(u32::MAX)), Some(u32::MAX));
    assert_eq!(Fraction::parse("1/4000000000").map(|f| f.of(8)), Some(1));
    for bad in ["", "/", "0/1", "2/1", "1/0", "-1/2", "+1/2", "1/2/3", "0.5", "1/5000000000"] {
        assert_eq!(Fraction::parse(bad), None, "{bad}");
    }
}

#[test]
fn a_changed_function_is_replaced_and_its_neighbours_are_not() {
    let mut new = edge();
    new.instances["fw"].interfaces += 1;
    let plan = Plan::between(&edge(), &new);
    assert_eq!(plan.remove_instances, ["fw".to_owned()].into());
    assert_eq!(plan.add_instances.keys().collect::<Vec<_>>(), ["fw"]);
    assert_eq!(plan.unwire, edge().edges);
    assert_eq!(plan.wire, edge().edges);
    assert_eq!(plan.unobserve.len(), 1);
    assert_eq!(plan.add_services.len(), 1);
    assert!(plan.remove_ports.is_empty() && plan.remove_tenants.is_empty());
}

#[test]
fn a_function_whose_guest_changes_stays_where_it_is() {
    let changes: [fn(&mut Instance); 4] = [
        |fw| fw.image = "another".into(),
        |fw| fw.config = schema::Value::Boolean(false),
        |fw| fw.memory += 1,
        |fw| fw.preemptible = !fw.preemptible,
    ];
    for change in changes {
        let mut new = edge();
        new.instances["fw"].config = schema::Value::Boolean(true);
        let old = new.clone();
        change(&mut new.instances["fw"]);
        let plan = Plan::between(&old, &new);
        let change_instances = [("fw".to_owned(), new.instances["fw"].clone())].into_iter().collect();
        assert_eq!(plan, Plan { change_instances, ..Plan::default() });
    }
    // What bounds its calls and packets, and what becomes of it after faults, needs no other guest.
    let changes: [fn(&mut Instance); 5] = [
        |fw| fw.max_call = Nanos(1),
        |fw| fw.longest_hold = Nanos(1),
        |fw| fw.quota = Fraction::parse("1/7").unwrap(),
        |fw| fw.fail = FailMode::Open,
        |fw| fw.restart.first = Nanos(1),
    ];
    for change in changes {
        let mut new = edge();
        change(&mut new.instances["fw"]);
        let plan = Plan::between(&edge(), &new);
        let adjust_instances = [("fw".to_owned(), Adjustment::of(&new.instances["fw"]))].into();
        assert_eq!(plan, Plan { adjust_instances, ..Plan::default() });
    }
    // Both at once, and it begins anew only when it is told to.
    let mut new = edge();
    (new.instances["fw"].image, new.instances["fw"].max_call) = ("another".into(), Nanos(1));
    let mut plan = Plan::between(&edge(), &new);
    assert!(plan.change_instances.contains_key("fw") && plan.adjust_instances.contains_key("fw"));
    plan.replace(&new, "fw");
    assert!(plan.change_instances.is_empty() && plan.adjust_instances.is_empty());
    assert!(plan.remove_instances.contains("fw") && plan.add_instances.contains_key("fw"));
    // A tenant's pool takes its functions with it.
    new.tenants["default"].pool.buffers += 1;
    let plan = Plan::between(&edge(), &new);
    assert!(plan.change_instances.is_empty() && plan.remove_instances.contains("fw"));
}

#[test]
fn a_plan_for_another_wiring_changes_nothing() {
    let plan = Plan::between(&edge(), &Wiring::default());
    let mut wiring = edge();
    wiring.services.clear();
    let before = wiring.clone();
    let error = plan.apply(&mut wiring).unwrap_err();
    assert_eq!(error.to_string(), "the plan does not fit: service `default:10` is not there");
    assert_eq!(wiring, before);
}

fn endpoint() -> impl Strategy<Value = Endpoint> {
    prop_oneof![
        select(vec!["p0", "p1", "p2"]).prop_map(|name| Endpoint::Port(name.into())),
        select(vec!["s0", "s1"]).prop_map(|name| Endpoint::Switch(name.into())),
        select(vec!["d0", "d1"]).prop_map(|name| Endpoint::Device(Opening::of(name, None))),
        (select(vec!["f0", "f1", "f2"]), 0u16..2).prop_map(|(name, n)| Endpoint::Interface(name.into(), n)),
    ]
}

fn cpu() -> impl Strategy<Value = Cpu> {
    let share = || proptest::option::of((1u32..=10).prop_map(|n| Cap::from_millionths(n * 100_000).unwrap()));
    (select(vec![1, 100, 10_000]), share(), share()).prop_map(|(weight, cap, reserve)| Cpu {
        weight: Weight::new(weight).unwrap(),
        cap,
        reserve,
    })
}

fn wiring() -> impl Strategy<Value = Wiring> {
    use proptest::collection::{btree_map, btree_set, vec};
    let tenant_name = || select(vec!["red", "blue"]);
    let tenant = (1u32..3, cpu()).prop_map(|(buffers, cpu)| Tenant {
        cpu,
        memory: TenantMemory { limit: (buffers == 1).then_some(1 << 30), reserve: 0 },
        pool: PoolConfig {
            buffers,
            buffer_size: BufferSize::LARGEST,
            headroom: 0,
            pages: Some(PageKind::Huge),
        },
    });
    let placed = (cpu(), proptest::option::of(0usize..3));
    let tenants = (tenant_name(), proptest::option::of(tenant_name().prop_map(str::to_owned)));
    let instance = (tenants, 0u64..2, placed).prop_map(|((tenant, payer), n, (cpu, worker))| Instance {
        payer,
        max_call: Nanos(n),
        cpu,
        worker,
        ..instance(tenant)
    });
    let switch = (1u32..3).prop_map(|n| Switch { entries: 8 * n, ..Switch::default() });
    let device = (tenant_name(), 0usize..3).prop_map(|(tenant, ports)| devices::device(tenant, ports));
    let workers = (0usize..3)
        .prop_map(|count| Workers { list: vec![WorkerPlan::default(); count], ..Workers::default() });
    let observation = (select(vec!["f0", "f1"]), select(vec!["f1", "f2"]), proptest::option::of(0u16..2))
        .prop_map(|(observer, at, interface)| seen(observer, Watched::Instance(at.into(), interface)));
    (
        vec((tenant_name(), tenant), 0..3),
        vec((select(vec!["p0", "p1", "p2"]), tenant_name().prop_map(port)), 0..4),
        vec((select(vec!["f0", "f1", "f2"]), instance), 0..4),
        btree_set((endpoint(), endpoint()).prop_map(|(a, b)| Edge::new(a, b)), 0..5),
        btree_set(observation, 0..3),
        btree_map(
            (tenant_name(), 0u16..2)
                .prop_map(|(tenant, number)| Service { tenant: tenant.to_owned(), number }),
            endpoint(),
            0..4,
        ),
        (vec((select(vec!["s0", "s1"]), switch), 0..3), vec((select(vec!["d0", "d1"]), device), 0..3)),
        workers,
    )
        .prop_map(
            |(tenants, ports, instances, edges, observations, services, (switches, devices), workers)| {
                Wiring {
                    workers,
                    devices: devices.into_iter().map(|(name, thing)| (name.to_owned(), thing)).collect(),
                    switches: switches.into_iter().map(|(name, thing)| (name.to_owned(), thing)).collect(),
                    tenants: tenants.into_iter().map(|(name, thing)| (name.to_owned(), thing)).collect(),
                    ports: ports.into_iter().map(|(name, thing)| (name.to_owned(), thing)).collect(),
                    instances: instances.into_iter().map(|(name, thing)| (name.to_owned(), thing)).collect(),
                    containers: indexmap::IndexMap::new(),
                    edges,
                    observations,
                    services,
                }
            },
        )
}

proptest! {
    #[test]
    fn a_plan_leads_from_the_old_to_the_new(old in wiring(), new in wiring()) {
        let mut changed = old.clone();
        Plan::between(&old, &new).apply(&mut changed).unwrap();
        prop_assert_eq!(changed, new);
    }

    #[test]
    fn nothing_is_to_be_done_for_what_is_the_same(one in wiring()) {
        prop_assert!(Plan::between(&one, &one).is_empty());
    }

    #[test]
    fn what_is_the_same_is_untouched(old in wiring(), new in wiring()) {
        let plan = Plan::between(&old, &new);
        let pool = |wiring: &Wiring, name: &String| wiring.tenants.get(name).map(|tenant| tenant.pool);
        let same_pool = |name: &String| pool(&old, name) == pool(&new, name);
        for (name, port) in &old.ports {
            if new.ports.get(name) == Some(port) && same_pool(&port.tenant) {
                prop_assert!(!plan.remove_ports.contains(name) && !plan.add_ports.contains_key(name));
            }
        }
        for (name, instance) in &old.instances {
            let adjusted = |other: &Instance| {
                let mut other = other.clone();
                Adjustment::of(instance).apply(&mut other);
                other
            };
            let stands = same_pool(&instance.tenant) && instance.payer.iter().all(same_pool);
            if new.instances.get(name).map(adjusted).as_ref() == Some(instance) && stands {
                prop_assert!(!plan.remove_instances.contains(name) && !plan.add_instances.contains_key(name));
                prop_assert!(!plan.change_instances.contains_key(name));
            }
        }
        let kept = |name: &str| {
            ![&plan.remove_ports, &plan.remove_instances, &plan.remove_switches].iter().any(|set| set.contains(name))
                && !plan.add_switches.contains_key(name)
                && !plan.add_ports.contains_key(name)
                && !plan.add_instances.contains_key(name)
        };
        for edge in old.edges.intersection(&new.edges) {
            let untouched = !plan.unwire.contains(edge) && !plan.wire.contains(edge);
            prop_assert_eq!(untouched, edge.ends().iter().all(|end| kept(end.name())));
        }
        for observation in old.observations.intersection(&new.observations) {
            let untouched = !plan.unobserve.contains(observation) && !plan.observe.contains(observation);
            prop_assert_eq!(untouched, kept(&observation.observer) && observation.at.names().all(kept));
        }
    }

    #[test]
    fn what_stands_on_something_replaced_is_replaced(old in wiring(), new in wiring()) {
        let plan = Plan::between(&old, &new);
        for (name, instance) in &old.instances {
            let mut tenants = std::iter::once(&instance.tenant).chain(&instance.payer);
            if tenants.any(|tenant| plan.remove_tenants.contains(tenant)) {
                prop_assert!(plan.remove_instances.contains(name));
            }
        }
        for service in old.services.keys().filter(|service| plan.remove_tenants.contains(&service.tenant)) {
            prop_assert!(plan.remove_services.contains(service), "its tenant has another number then");
        }
        for edge in &old.edges {
            let gone = |end: &&Endpoint| match end {
                Endpoint::Port(name) => plan.remove_ports.contains(name),
                Endpoint::Switch(name) => plan.remove_switches.contains(name),
                // What is laid for it is found out anew.
                Endpoint::Device(_) => false,
                Endpoint::Interface(name, _) => plan.remove_instances.contains(name),
            };
            if edge.ends().iter().any(gone) {
                prop_assert!(plan.unwire.contains(edge));
            }
        }
    }

    #[test]
    fn validation_never_panics(one in wiring()) {
        let _ = one.validate();
    }
}

#[test]
fn a_function_that_is_to_begin_anew_is_replaced_with_all_that_is_connected_to_it() {
    let wiring = edge();
    let mut plan = Plan::between(&wiring, &wiring);
    plan.replace(&wiring, "fw");
    assert!(plan.remove_instances.contains("fw") && plan.add_instances.contains_key("fw"));
    assert_eq!((plan.unwire.len(), plan.wire.len()), (2, 2));
    assert_eq!((plan.unobserve.len(), plan.observe.len()), (1, 1));
    assert!(plan.remove_services.contains(&service(10)) && plan.add_services.contains_key(&service(10)));
    assert!(!plan.remove_instances.contains("flows"), "others go on");
    let mut after = wiring.clone();
    plan.apply(&mut after).expect("it fits");
    assert_eq!(after, wiring);
    let mut twice = plan.clone();
    twice.replace(&wiring, "fw");
    twice.replace(&wiring, "absent");
    assert_eq!(twice, plan);
    // What comes anyway is not taken off first.
    let mut new = Plan::between(&Wiring::default(), &wiring);
    let before = new.clone();
    new.replace(&wiring, "fw");
    assert_eq!(new, before);
}
