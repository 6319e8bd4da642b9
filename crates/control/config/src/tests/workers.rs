//! Which workers do what, and on which processors.

use super::*;
use schema::Kind;
use wiring::{MAX_WORKERS, PortIo, Workers};

fn head(text: &str) -> String {
    format!("superfluid: 1\nworkers: {text}\n")
}

fn processors(workers: &Workers) -> Vec<Option<Vec<usize>>> {
    workers.list.iter().map(|worker| worker.processors.clone()).collect()
}

#[test]
fn the_schema_has_the_wirings_bounds_and_defaults() {
    let most = MAX_WORKERS as i64;
    assert_eq!(workers_schema().key("count").unwrap().kind, Kind::Integer { min: 1, max: most });
    assert_eq!(function_schema().key("worker").unwrap().kind, Kind::Integer { min: 0, max: most - 1 });
    assert_eq!(good(&head("{}")).wiring.workers, Workers::default());
    assert_eq!(good(&head("1")).wiring.workers, Workers::default());
    assert_eq!(good("superfluid: 1\n").wiring.workers, Workers::default());
}

#[test]
fn workers_are_a_number_or_a_map() {
    let workers = |text: &str| good(&head(text)).wiring.workers;
    assert_eq!(processors(&workers("3")), [None, None, None]);
    assert_eq!(processors(&workers("{count: 2}")), [None, None]);
    assert_eq!(processors(&workers("{processors: [0, 6]}")), [Some(vec![0]), Some(vec![6])]);
    assert_eq!(
        processors(&workers("{count: 2, processors: [[0, 1], 2]}")),
        [Some(vec![0, 1]), Some(vec![2])]
    );
    let all = workers(
        "{slice: 50us, slack: 0ns, quantum: 1ms, spin: 1ms, spin_share: 5%, moderation: 0us, balance: false}",
    );
    assert_eq!((all.slice.0, all.slack.0, all.quantum.0, all.spin.0), (50_000, 0, 1_000_000, 1_000_000));
    assert_eq!((all.spin_percent, all.moderation.0, all.balance), (5, 0, false));
}

#[test]
fn workers_that_cannot_be() {
    let keys = "processors, count, slice, slack, quantum, spin, spin_share, moderation, balance";
    for (text, found) in [("0", "`0`"), ("257", "`257`"), ("two", "`two`"), ("[0, 1]", "a list")] {
        bad(
            &head(text),
            &format!(
                "f.yaml:2:10: workers: found {found}; allowed: an integer from 1 to 256, or a map of these keys: {keys}\n"
            ),
        );
    }
    let listed = "a list of 1 to 256, for each worker a processor or a list of processors, such as `[0, 1]` or `[[0, 1], [2, 3]]`";
    let allowed = "the processors that this program may run on, 0-3, 6";
    let cases = [
        (
            "{processors: []}",
            format!("f.yaml:2:23: workers.processors: found a list of 0; allowed: {listed}\n"),
        ),
        ("{processors: 0-3}", format!("f.yaml:2:23: workers.processors: found `0-3`; allowed: {listed}\n")),
        (
            "{processors: [0, [1, []]]}",
            format!("f.yaml:2:31: workers.processors[1][1]: found a list; allowed: {allowed}\n"),
        ),
        (
            "{processors: [[]]}",
            "f.yaml:2:24: workers.processors[0]: found an empty list; allowed: one processor or more\n"
                .into(),
        ),
        ("{processors: [4]}", format!("f.yaml:2:24: workers.processors[0]: found `4`; allowed: {allowed}\n")),
        (
            "{processors: [-1]}",
            format!("f.yaml:2:24: workers.processors[0]: found `-1`; allowed: {allowed}\n"),
        ),
        (
            "{processors: [[1, 2, 1]]}",
            "f.yaml:2:31: workers.processors[0][2]: found `1` twice; allowed: each processor once\n".into(),
        ),
        (
            "{count: 3, processors: [0, 1]}",
            "f.yaml:2:33: workers.processors: found 2 items; allowed: 3, one for each worker of `count`\n"
                .into(),
        ),
        (
            "{spin_share: 12.5%}",
            "f.yaml:2:23: workers.spin_share: found `12.5%`; allowed: whole percent, such as `12%`\n".into(),
        ),
        (
            "{slice: 9us}",
            "f.yaml:2:18: workers.slice: found `9us`; allowed: a duration from 10us to 10ms, such as `10ms` \
             (units: ns, us, ms, s, m, h, d)\n"
                .into(),
        ),
        (
            "{procesors: [0]}",
            format!(
                "f.yaml:2:11: workers.procesors: unknown key `procesors`; allowed: {keys}; did you mean `processors`?\n"
            ),
        ),
    ];
    for (text, expected) in cases {
        bad(&head(text), &expected);
    }
}

#[test]
fn processors_that_are_shared_are_a_warning() {
    let warnings = |text: &str| lines(&good(&head(text)).warnings);
    assert_eq!(
        warnings("{processors: [1, [0, 1]]}"),
        "f.yaml:2:31: workers.processors[1][1]: processor 1 is both worker 0's and worker 1's; while both run on it, each has less \
         than the core that shares are of\n"
    );
    let crowded = "6 workers on 5 of the machine's processors: some of them share one\n";
    assert_eq!(warnings("6"), format!("f.yaml:2:10: workers: {crowded}"));
    assert_eq!(warnings("{count: 6}"), format!("f.yaml:2:10: workers: {crowded}"));
    assert_eq!(warnings("5"), "");
}

#[test]
fn a_function_stays_on_a_worker_that_there_is() {
    let text = |workers: &str, worker: &str| {
        format!("superfluid: 1\nworkers: {workers}\nfunctions: {{f: {{image: monitor, worker: {worker}}}}}\n")
    };
    assert_eq!(good(&text("2", "1")).wiring.instances["f"].worker, Some(1));
    bad(
        &text("2", "2"),
        "f.yaml:3:41: functions.f.worker: found `2`; allowed: 0 to 1, as there are 2 `workers`\n",
    );
    bad(
        &text("", "1"),
        "f.yaml:3:41: functions.f.worker: found `1`; allowed: 0, as there is one worker (see `workers`)\n",
    );
    bad(&text("2", "-1"), "f.yaml:3:41: functions.f.worker: found `-1`; allowed: an integer from 0 to 255\n");
    // Of workers that are not known, nothing is said.
    let faults = check("f.yaml", &text("0", "7"), &shelf()).unwrap_err();
    assert_eq!(faults.len(), 1, "{}", lines(&faults));
}

#[test]
fn observers_stay_with_what_they_observe() {
    let text = |fw: &str, nat: &str, flows: &str, at: &str| {
        format!(
            "superfluid: 1\nworkers: 2\nfunctions:\n  fw: {{image: firewall, {fw}}}\n  nat: {{image: forwarder, {nat}}}\n  \
             flows: {{image: monitor, {flows}}}\nobservers: {{flows: {{at: [{at}]}}}}\n"
        )
    };
    let Configuration { wiring, .. } = good(&text("worker: 1", "", "", "fw, nat"));
    assert_eq!(wiring.homes(), [("flows", 1), ("fw", 1), ("nat", 1)].into());
    bad(
        &text("worker: 1", "", "worker: 0", "nat, fw"),
        "f.yaml:7:31: observers.flows.at[1]: `fw` has to run on worker 1 and the observer on worker 0; allowed: one `worker` for \
         an observer and all that it observes\n",
    );
    let faults = check("f.yaml", &text("worker: 1", "worker: 0", "", "nat, fw"), &shelf()).unwrap_err();
    assert_eq!(faults.len(), 1, "{}", lines(&faults));
}

#[test]
fn ports_have_their_work_done_inline_or_by_a_thread() {
    let text = |io: &str| {
        format!(
            "superfluid: 1\nports: {{a: {{type: 'null', io: {io}}}, b: {{type: 'null'}}}}\nwires: [[a, b]]\n"
        )
    };
    let io = |text: &str| {
        let wiring = good(text).wiring;
        (wiring.ports["a"].io, wiring.ports["b"].io)
    };
    assert_eq!(io(&text("thread")), (PortIo::Thread, PortIo::Inline));
    assert_eq!(io(&text("inline")), (PortIo::Inline, PortIo::Inline));
    bad(
        &text("tread"),
        "f.yaml:2:31: ports.a.io: found `tread`; allowed: inline, thread; did you mean `thread`?\n",
    );
    bad(&text("[thread]"), "f.yaml:2:31: ports.a.io: found a list; allowed: inline, thread\n");
}
