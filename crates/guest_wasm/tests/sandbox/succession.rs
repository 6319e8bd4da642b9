//! An instance that goes on in another one's place has all that it had, and the other one nothing.

use crate::saving::{busy, call};
use crate::support::*;
use guest::Guest;
use guest_wasm::{Access, InstanceSettings, ProgramFacts, Sandbox, Slice, restore};
use packet_memory::Pool;
use snapshot::Saved;
use std::sync::Arc;

fn started(pool: &Arc<Pool>, layout: [u8; 32], settings: &InstanceSettings) -> Box<dyn Guest> {
    let facts = ProgramFacts { layout, image: layout, ..facts(Access::Read) };
    let sandbox = Sandbox::new().expect("a sandbox");
    let artifact = sandbox.precompile(&wat::parse_str(busy()).expect("sound")).expect("it compiles");
    let program = sandbox.load(&artifact, facts).expect("it loads");
    guest_wasm::start(&program, pool, settings.clone()).expect("an instance")
}

#[test]
fn it_goes_on_where_the_other_one_was_and_back_again() {
    let pool = pool_of(8);
    let mut packet = pool.allocate().expect("a buffer");
    let program = program(&busy(), Access::Read);
    let mut before = guest_wasm::start(&program, &pool, patient()).expect("an instance");
    for mark in [0, 0, 2, 3, 0] {
        call(&mut *before, &mut packet, mark);
    }
    let bytes = before.save().expect("between two calls").encode().expect("within limits");
    let saved = Saved::decode(&bytes).expect("as it was written");
    let mut twin = restore(&program, &pool, patient(), &saved).expect("restored");
    let expected: Vec<u64> = (0..6).map(|_| call(&mut *twin, &mut packet, 0)).collect();
    let mut expected = expected.into_iter();

    let mut next = guest_wasm::start(&program, &pool, patient()).expect("an instance");
    for _ in 0..3 {
        assert!(next.take_place_of(&mut *before).expect("they are alike"));
        assert_eq!(Some(call(&mut *next, &mut packet, 0)), expected.next());
        assert_eq!(next.memory(), 5 * WASM_PAGE as usize);
        assert!(before.take_place_of(&mut *next).expect("they are alike"));
        assert_eq!(Some(call(&mut *before, &mut packet, 0)), expected.next());
    }
    assert_eq!((before.counters(), before.deadline()), (twin.counters(), twin.deadline()));
    assert_eq!((before.take_log().len(), next.take_log().len()), (1, 0));
    // What is left of the other one is empty, and clean for whoever comes next.
    drop(next);
    let mut fresh = guest_wasm::start(&program, &pool, patient()).expect("in a used shell");
    let first = call(&mut *fresh, &mut packet, 0);
    drop(fresh);
    let again =
        call(&mut *guest_wasm::start(&program, &pool, patient()).expect("an instance"), &mut packet, 0);
    assert_eq!(first, again);
    drop((before, twin));
    pool.free(packet);
    assert_eq!(pool.available(), 8);
}

#[test]
fn those_that_are_not_alike_stay_as_they_are() {
    let (pool, elsewhere) = (pool_of(8), pool_of(8));
    let mut packet = pool.allocate().expect("a buffer");
    let mut before = started(&pool, [1; 32], &patient());
    call(&mut *before, &mut packet, 0);
    let slice = Some(Slice(clock::Nanos::from_millis(1_000)));
    let others = [
        started(&pool, [2; 32], &patient()),
        started(&elsewhere, [1; 32], &patient()),
        started(&pool, [1; 32], &InstanceSettings { preemptible: slice, ..patient() }),
        started(&pool, [1; 32], &InstanceSettings { config: vec![0xa1, 0x61, 0x61, 0x01], ..patient() }),
    ];
    for mut other in others {
        assert!(!other.take_place_of(&mut *before).expect("nothing breaks"));
    }
    let next = call(&mut *before, &mut packet, 0);
    let mut alike = started(&pool, [1; 32], &patient());
    assert!(alike.take_place_of(&mut *before).expect("they are alike"));
    assert!(call(&mut *alike, &mut packet, 0) > next);
    pool.free(packet);
}
