//! What a chain does when somebody in it has more than it can do.

use super::shares::Endless;
use super::*;

/// Functions in the chain: more batches than a queue holds would be under way if each were told one batch later than the next.
const LONG: usize = 40;

/// A chain behind a port that always has more, at whose end somebody works slowly.
fn slow_at_the_end(bench: &mut Bench, each: Nanos) -> Vec<InstanceId> {
    let burn_each = bench.worker.clock.cycles(each);
    let source = bench.add_port(0, Endless::boxed(1));
    let (sink, _) = bench.port(0, vec![]);
    let mut functions: Vec<InstanceId> = (1..LONG).map(|_| bench.wire(0)).collect();
    functions.push(bench.add(0, Manner { burn_each, ..Manner::wire() }).0);
    bench.chain((source, sink), &functions);
    functions
}

fn works_for(bench: &mut Bench, span: Duration) {
    let began = std::time::Instant::now();
    while began.elapsed() < span {
        bench.worker.turn();
    }
}

#[test]
fn a_long_chain_takes_in_no_more_than_its_slowest_function_has_room_for() {
    let mut bench = Bench::with(WorkerSettings { slice: Nanos(100_000), ..patient() }, &[8192]);
    let functions = slow_at_the_end(&mut bench, Nanos(20_000));
    works_for(&mut bench, Duration::from_millis(200));
    let last = bench.worker.instances[functions[LONG - 1].index()].batch;
    assert!(last < 20, "it gets a few packets at once: {last}");
    let account = bench.worker.stop();
    assert_whole(&account);
    assert!(account.ledger.delivered > 0);
    for (number, instance) in account.instances.iter().enumerate() {
        // What is still on its way when the time to stop is over is not lost to congestion.
        let lost = instance.ledger.dropped.nonzero().filter(|(reason, _)| *reason != DropReason::HeldAtStop);
        let lost: Vec<_> = lost.collect();
        assert!(lost.is_empty(), "function {number} of {} packets: {lost:?}", account.ledger.delivered);
    }
}

#[test]
fn who_was_held_up_goes_on_when_the_congestion_is_over() {
    let mut bench = Bench::with(WorkerSettings { slice: Nanos(100_000), ..patient() }, &[8192]);
    let functions = slow_at_the_end(&mut bench, Nanos(5_000));
    works_for(&mut bench, Duration::from_millis(100));
    let worker = &mut bench.worker;
    let packets = |worker: &mut Worker| worker.account(false).instances[0].packets;
    let before = packets(worker);
    let held = |worker: &Worker| {
        functions.iter().filter(|id| worker.instances[id.index()].held_up_by.is_some()).count()
    };
    // As soon as the queue at the end is short, the head fetches again, and nobody bears a mark of what is over.
    let mut free = false;
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_secs(10) && !(free && packets(worker) > before) {
        worker.turn();
        free |= held(worker) == 0;
    }
    assert!(free, "{} are held up", held(worker));
    assert!(packets(worker) > before);
    assert_whole(&bench.worker.stop());
}
