//! A core that is played here, span by span, and the apportionment that divides it.

use super::*;

/// One span, as the daemon's loop has it.
const SPAN: f64 = 0.2;

/// A container that wants so much, and what it may have.
#[derive(Clone, Copy)]
struct Wants {
    weight: f64,
    cap: Option<f64>,
    promised: Option<f64>,
    /// For its packets, and for its processes.
    engine: f64,
    processes: f64,
}

fn beside(promised: f64, engine: f64, processes: f64) -> Wants {
    Wants { weight: 100.0 * promised, cap: None, promised: Some(promised), engine, processes }
}

/// One processor, and a worker that comes first on it.
struct Core {
    apportionment: Apportionment,
    last: Decision,
    /// What functions want of the worker, and what they are promised together.
    functions: f64,
    functions_promised: f64,
    /// What the worker needs for itself.
    overhead: f64,
    /// How much more or less than its quota a group gets, as kernels do.
    quota_error: f64,
    containers: Vec<(&'static str, Wants)>,
    now: u64,
}

/// What all got over the last spans, in processors: containers in their order, then the functions.
struct Got(Vec<f64>, f64);

impl Core {
    fn new(functions: f64, containers: &[(&'static str, Wants)]) -> Core {
        let promised: f64 = containers.iter().filter_map(|(_, wants)| wants.promised).sum();
        Core {
            apportionment: Apportionment::default(),
            last: Decision::default(),
            functions,
            functions_promised: 1.0 - promised,
            overhead: 0.02,
            quota_error: 1.0,
            containers: containers.to_vec(),
            now: 0,
        }
    }

    /// One span: the worker takes what it wants, containers what is left, by weight and within their quotas.
    fn span(&mut self) -> Got {
        self.now += 1;
        let grant = |name: &str| self.last.grants.get(name).copied().unwrap_or_default();
        let engine: Vec<f64> = self
            .containers
            .iter()
            .map(|(name, wants)| wants.engine.min(grant(name).engine.unwrap_or(f64::INFINITY)))
            .collect();
        let mut left = (1.0 - self.overhead - engine.iter().sum::<f64>()).max(0.0);
        let most = if self.last.hold { self.functions_promised } else { f64::INFINITY };
        let quotas: Vec<(f64, f64)> = self
            .containers
            .iter()
            .map(|(name, wants)| {
                let quota = grant(name).processes.map_or(f64::INFINITY, |quota| quota * self.quota_error);
                (wants.weight, wants.processes.min(quota))
            })
            .collect();
        // Half of a thread's weight stands against the worker, as far as quotas allow.
        let against = quotas.iter().map(|(_, most)| most).sum::<f64>().min(1.0 / 3.0);
        let functions = self.functions.min(most).min((left - against).max(0.0));
        left -= functions;
        let level = level(left, quotas.clone());
        let processes: Vec<f64> = quotas.iter().map(|(weight, most)| (weight * level).min(*most)).collect();
        let spans = self.containers.iter().enumerate().map(|(n, (name, wants))| {
            let (engine, processes) = (engine[n], processes[n]);
            let Wants { weight, cap, promised, .. } = *wants;
            ((*name).to_owned(), ContainerSpan { weight, cap, promised, engine, processes })
        });
        let spans: BTreeMap<String, ContainerSpan> = spans.collect();
        let ran = self.overhead + engine.iter().sum::<f64>() + functions;
        let wanted = self.functions.min(most);
        let waited = (wanted - functions).max(0.0).min(1.0 - ran);
        let worker = WorkerSpan { processors: 1.0, ran, waited };
        let any = self.containers.iter().any(|(_, wants)| wants.promised.is_some());
        self.last = self.apportionment.decide(SPAN, any.then_some(&worker), &spans);
        Got(spans.values().map(|span| span.engine + span.processes).collect(), functions)
    }

    /// So many spans pass; what all got on average over the last of them.
    fn pass(&mut self, spans: usize, counted: usize) -> Got {
        let mut sum = Got(vec![0.0; self.containers.len()], 0.0);
        for n in 0..spans {
            let got = self.span();
            if n >= spans - counted {
                sum.0.iter_mut().zip(&got.0).for_each(|(sum, got)| *sum += got / counted as f64);
                sum.1 += got.1 / counted as f64;
            }
        }
        sum
    }
}

fn near(got: f64, expected: f64, within: f64) {
    assert!((got - expected).abs() <= within, "{got} where {expected} is due");
}

#[test]
fn seventy_and_thirty_are_shared_with_their_packets_in_them() {
    for (a, b) in [(0.0, 0.0), (0.3, 0.05), (0.05, 0.25), (0.4, 0.2)] {
        let mut core = Core::new(0.0, &[("a", beside(0.7, a, 9.0)), ("b", beside(0.3, b, 9.0))]);
        core.overhead = 0.01;
        let Got(got, _) = core.pass(100, 50);
        near(got[0], 0.7, 0.03);
        near(got[1], 0.3, 0.03);
    }
}

#[test]
fn caps_hold_for_packets_and_processes_together() {
    let capped =
        |cap, engine, processes| Wants { weight: 100.0, cap: Some(cap), promised: None, engine, processes };
    for (engine, processes) in [(0.0, 9.0), (0.1, 9.0), (9.0, 9.0), (9.0, 0.0), (9.0, 0.05)] {
        let mut core = Core::new(0.0, &[("a", capped(0.3, engine, processes))]);
        let Got(got, _) = core.pass(100, 50);
        near(got[0], 0.3, 0.01);
    }
    // One that wants less gets that.
    let mut core = Core::new(0.0, &[("a", capped(0.5, 0.1, 0.1))]);
    near(core.pass(100, 50).0[0], 0.2, 0.001);
}

#[test]
fn packets_are_left_half_of_what_a_container_is_due_whatever_its_processes_want() {
    let mut core = Core::new(9.0, &[("a", beside(0.4, 9.0, 9.0))]);
    core.pass(100, 1);
    let grant = core.last.grants["a"];
    near(grant.engine.expect("it has one"), 0.2, 0.03);
    near(grant.processes.expect("it has one"), 0.2, 0.03);
}

#[test]
fn functions_and_containers_get_their_promises_when_all_want_more() {
    for promised in [0.1, 0.3, 0.5, 0.8] {
        let mut core = Core::new(9.0, &[("hog", beside(promised, 0.02, 9.0))]);
        let Got(got, functions) = core.pass(200, 100);
        near(got[0], promised, 0.03);
        assert!(functions >= 0.95 * (1.0 - promised) - core.overhead, "{functions} beside {promised}");
    }
}

#[test]
fn what_functions_leave_goes_to_containers_and_is_theirs_again_at_once() {
    let mut core = Core::new(0.1, &[("hog", beside(0.3, 0.0, 9.0))]);
    assert!(core.pass(50, 10).0[0] > 0.8);
    assert!(!core.last.hold);
    core.functions = 9.0;
    let Got(_, functions) = core.pass(3, 1);
    assert!(functions > 0.6, "{functions} after two spans");
    // And the other way round: what the container leaves is the functions'.
    core.containers[0].1.processes = 0.0;
    let Got(_, functions) = core.pass(10, 2);
    assert!(functions > 0.9 && !core.last.hold, "{functions}");
}

#[test]
fn what_one_container_leaves_goes_to_the_others() {
    let mut core = Core::new(0.0, &[("a", beside(0.7, 0.0, 0.1)), ("b", beside(0.3, 0.0, 9.0))]);
    let Got(got, _) = core.pass(50, 10);
    near(got[0], 0.1, 0.001);
    assert!(got[1] > 0.75, "{}", got[1]);
    core.containers[0].1.processes = 9.0;
    let Got(got, _) = core.pass(60, 30);
    near(got[0], 0.7, 0.03);
}

#[test]
fn a_kernel_that_gives_less_or_more_than_a_quota_is_made_up_for() {
    for error in [0.9, 1.1] {
        let mut core = Core::new(0.0, &[("a", beside(0.6, 0.1, 9.0)), ("b", beside(0.2, 0.0, 9.0))]);
        core.functions = 9.0;
        core.quota_error = error;
        let Got(got, _) = core.pass(200, 100);
        near(got[0], 0.6, 0.03);
        near(got[1], 0.2, 0.03);
    }
}

#[test]
fn what_is_owed_has_an_end() {
    let mut core = Core::new(0.0, &[("a", beside(0.5, 0.0, 0.0)), ("b", beside(0.5, 0.0, 9.0))]);
    core.pass(10_000, 1);
    core.containers[0].1.processes = 9.0;
    let mut most: f64 = 0.0;
    for _ in 0..20 {
        most = most.max(core.span().0[0]);
    }
    assert!(most < 0.8, "one that did not want anything has earned nothing: {most}");
}

#[test]
fn those_that_may_have_all_are_not_bounded_and_those_that_go_are_forgotten() {
    let free = Wants { weight: 100.0, cap: None, promised: None, engine: 0.1, processes: 0.5 };
    let mut core = Core::new(0.0, &[("a", free)]);
    core.pass(5, 1);
    assert_eq!(core.last.grants["a"], Grant::default());
    core.containers.clear();
    core.pass(1, 1);
    assert!(core.apportionment.known.is_empty() && core.last == Decision::default());
}
