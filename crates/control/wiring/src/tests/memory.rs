//! What memory is promised.

use super::*;

const MIB: u64 = 1 << 20;

/// A pool of 1 MiB on ordinary pages.
fn small() -> PoolConfig {
    PoolConfig { buffers: 512, pages: Some(PageKind::Ordinary), ..PoolConfig::default() }
}

/// A tenant with some memory, and functions that may grow to so many bytes.
fn tenant(limit: Option<u64>, reserve: u64, functions: &[u64]) -> Wiring {
    let memory = TenantMemory { limit, reserve };
    let mut wiring = Wiring {
        tenants: [("t".to_owned(), Tenant { pool: small(), cpu: Cpu::default(), memory })].into(),
        ..Wiring::default()
    };
    for (n, memory) in functions.iter().enumerate() {
        wiring.instances.insert(format!("f{n}"), Instance { memory: *memory, ..instance("t") });
    }
    wiring
}

fn told(wiring: &Wiring, host: Option<u64>) -> Vec<String> {
    let name = |whose: &Claimant| match whose {
        Claimant::Tenant(name) | Claimant::Instance(name) => name.clone(),
    };
    let overdrafts = wiring.overdrafts(host, |_| 0, |_| false);
    overdrafts.iter().map(|overdraft| format!("{}: {overdraft}", name(&overdraft.whose))).collect()
}

#[test]
fn page_tables_are_computed_of_what_is_mapped() {
    let huge = PoolConfig { pages: Some(PageKind::Huge), ..small() };
    // One page for private memory, one for its gigabyte, one for the window's.
    assert_eq!(page_tables(1, &huge), 3 * 4096);
    assert_eq!(page_tables(2 * MIB, &small()), 4 * 4096);
    assert_eq!(page_tables(2 * MIB + 1, &small()), 5 * 4096);
    assert_eq!(page_tables(2048 * MIB, &small()), (1024 + 1 + 2 + 1) * 4096);
}

#[test]
fn a_function_is_promised_all_that_it_may_come_to_take() {
    let mut function = Instance { memory: MIB, ..instance("t") };
    assert_eq!(function.promise(&small()), MIB + 4 * 4096 + RUNTIME);
    function.pool = InstancePool::Own(small());
    assert_eq!(function.promise(&PoolConfig::default()), MIB + 4 * 4096 + RUNTIME + MIB);
}

#[test]
fn what_does_not_fit_is_told_with_what_is_left_and_allowed() {
    let each = MIB + 4 * 4096 + RUNTIME;
    // Its pool and two functions.
    let limit = MIB + 2 * each;
    assert_eq!(told(&tenant(Some(limit), 0, &[MIB, MIB]), None), [""; 0]);
    assert_eq!(
        told(&tenant(Some(limit + MIB / 2), 0, &[MIB, MIB, MIB]), None),
        [
            "f2: may grow to 1MiB, and 48KiB beside it for its packets and what the host keeps for it; 512KiB of the 3680KiB of \
          its tenant `t` are left; allowed: a `memory` of at most 448KiB"
        ]
    );
    // What is refused to one is left for others.
    assert_eq!(
        told(&tenant(Some(limit), 0, &[100 * MIB, MIB, MIB, 64 << 10]), None),
        [
            "f0: may grow to 100MiB, and 244KiB beside it for its packets and what the host keeps for it; 2144KiB of the 3168KiB \
             of its tenant `t` are left; allowed: a `memory` of at most 1856KiB",
            "f3: may grow to 64KiB, and 48KiB beside it for its packets and what the host keeps for it; 0B of the 3168KiB of its \
             tenant `t` are left; allowed: nothing more"
        ]
    );
    assert_eq!(
        told(&tenant(Some(MIB / 2), 0, &[]), None),
        ["t: found `512KiB`; allowed: at least 1MiB, which its pools, functions and containers are promised"]
    );
}

#[test]
fn what_is_reserved_is_kept_from_others() {
    let each = MIB + 4 * 4096 + RUNTIME;
    let mut wiring = tenant(None, 8 * MIB, &[]);
    let other = Tenant { pool: small(), cpu: Cpu::default(), memory: TenantMemory::default() };
    wiring.tenants.insert("other".to_owned(), other);
    wiring.instances.insert("a".to_owned(), Instance { memory: MIB, ..instance("other") });
    assert_eq!(told(&wiring, Some(9 * MIB + each)), [""; 0]);
    let refused = told(&wiring, Some(9 * MIB + each - 4096));
    assert!(refused[0].starts_with("a: ") && refused[0].contains("that may be promised on this host"));
    // Its own functions take from it.
    for n in 0..6 {
        wiring.instances.insert(format!("f{n}"), Instance { memory: MIB, ..instance("t") });
    }
    assert_eq!(told(&wiring, Some(9 * MIB + each)), [""; 0]);
    wiring.instances.insert("f6".to_owned(), Instance { memory: MIB, ..instance("t") });
    assert_eq!(told(&wiring, Some(9 * MIB + each)).len(), 1);
}

#[test]
fn what_is_there_comes_first() {
    let each = MIB + 4 * 4096 + RUNTIME;
    let wiring = tenant(Some(MIB + each), 0, &[MIB, MIB]);
    let there = |whose: &Claimant| !matches!(whose, Claimant::Instance(name) if name == "f0");
    let overdrafts = wiring.overdrafts(None, |_| 0, there);
    assert_eq!(overdrafts.len(), 1);
    assert_eq!(overdrafts[0].whose, Claimant::Instance("f0".to_owned()));
}

proptest! {
    #[test]
    fn what_is_not_refused_fits(
        limit in prop::option::of(MIB..20 * MIB),
        reserve in 0..20 * MIB,
        host in prop::option::of(MIB..40 * MIB),
        functions in prop::collection::vec(1..4 * MIB, 0..12),
        there in prop::collection::vec(any::<bool>(), 12),
    ) {
        let mut wiring = tenant(limit, reserve, &functions);
        let number = |name: &str| name[1..].parse::<usize>().unwrap_or(0);
        let is_there = |whose: &Claimant| match whose {
            Claimant::Tenant(_) => true,
            Claimant::Instance(name) => there[number(name)],
        };
        let refused = wiring.overdrafts(host, |_| 0, is_there);
        let tenant_refused = refused.iter().any(|one| matches!(one.whose, Claimant::Tenant(_)));
        for one in &refused {
            prop_assert!(!matches!(&one.whose, Claimant::Instance(_)) || !is_there(&one.whose));
            if let Claimant::Instance(name) = &one.whose {
                wiring.instances.shift_remove(name);
            }
        }
        if !tenant_refused {
            let promised = wiring.promised()["t"];
            prop_assert!(limit.is_none_or(|limit| promised.max(reserve) <= limit));
            prop_assert!(host.is_none_or(|host| promised.max(reserve) <= host));
            prop_assert!(wiring.overdrafts(host, |_| 0, is_there).is_empty());
        }
    }
}

#[test]
fn containers_count_for_their_tenants_limit_and_not_for_the_hosts() {
    let container = |memory| Container {
        tenant: "t".to_owned(),
        kind: ContainerKind::Container,
        image: "./a".to_owned(),
        digest: None,
        command: Vec::new(),
        interfaces: Vec::new(),
        mounts: BTreeMap::new(),
        memory,
        standby: 0,
        weight: 100,
        cap: None,
        worker: None,
        processes: 1,
        files: 16,
        kvm: Default::default(),
        restart: instance("t").restart,
        probe: None,
        attach_within: None,
        stations: BTreeMap::new(),
    };
    let with = |limit, containers: &[u64]| {
        let mut wiring = tenant(Some(limit), 0, &[]);
        for (n, memory) in containers.iter().enumerate() {
            wiring.containers.insert(format!("c{n}"), container(*memory));
        }
        wiring
    };
    // The pool has one of them.
    assert_eq!(told(&with(4 * MIB, &[MIB, 2 * MIB]), Some(MIB)), [""; 0]);
    assert_eq!(
        told(&with(4 * MIB, &[MIB, 3 * MIB]), None),
        [
            "c1: may grow to 3MiB; 2MiB of the 4MiB of its tenant `t` are left; allowed: a `memory` of at most 2MiB"
        ]
    );
    let there = |whose: &Claimant| *whose == Claimant::Instance("c1".to_owned());
    let refused = with(4 * MIB, &[MIB, 3 * MIB]).overdrafts(None, |_| 0, there);
    assert_eq!(refused[0].whose, Claimant::Instance("c0".to_owned()), "what is there comes first");
    // A function that comes has what they leave.
    let mut wiring = with(4 * MIB, &[2 * MIB]);
    wiring.instances.insert("f".to_owned(), Instance { memory: MIB, ..instance("t") });
    let refused = wiring.overdrafts(None, |_| 0, |whose| *whose == Claimant::Instance("c0".to_owned()));
    assert_eq!((refused.len(), refused[0].left), (1, MIB));
    // A limit below what they have is told at the tenant.
    assert!(told(&with(MIB / 2, &[]), None)[0].contains("t: found `512KiB`"));
}
