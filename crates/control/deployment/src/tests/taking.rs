//! Functions that take what has changed about a file while they run, and those that do not.

use super::*;
use image::Names;
use snapshot::Global;
use std::fs;

/// Counts its calls of `sf_change` and the bytes that it read in them. In the third call it does what `last`
/// says.
fn taker(rig: &Rig, last: &str) {
    let manifest = "name: taker\nversion: 1.0.0\nabi: 1\nsummary: Takes files.\nlanguage: c\naccess: read\ninterfaces: [left, right]\n\
                    memory_limit: 4MiB\ncounters: [calls, bytes]\ndifferences: [list]\n\
                    config:\n  list: {type: file, max: 64KiB, required: true, help: A list.}\n  n: {type: integer, min: 0, max: 9, default: 0, help: A number.}\n";
    let wat = format!(
        r#"(module
            (import "superfluid_v1" "read" (func $read (param i32 i32 i32 i32) (result i32)))
            (import "superfluid_v1" "write" (func $write (param i32 i32 i32) (result i32)))
            (import "superfluid_v1" "counter_add" (func $count (param i32 i64) (result i32)))
            (memory (export "memory") 2)
            (global $calls (mut i32) (i32.const 0))
            (func $length (param $stream i32) (result i64)
              (i64.extend_i32_s (call $read (local.get $stream) (i32.const 0) (i32.const 0) (i32.const 0))))
            (func (export "sf_batch") (result i32) (i32.const 1024))
            (func (export "sf_init") (result i32) (i32.const 0))
            (func (export "sf_process") (param i32 i64))
            (func (export "sf_change") (param i64) (result i32)
              (drop (call $count (i32.const 0) (i64.const 1)))
              (drop (call $count (i32.const 1) (call $length (i32.const 6))))
              (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
              (if (i32.lt_u (global.get $calls) (i32.const 3)) (then (return (i32.const 1))))
              {last})
            (func (export "sf_export_state") (result i32) (call $write (i32.const 1) (i32.const 512) (i32.const 8)))
            (func (export "sf_import_state") (result i32) (i32.const 0)))"#
    );
    let wasm = wat::parse_str(wat).expect("sound");
    let (image, _) = image::assemble(&wasm, manifest, Names::Dropped).expect("it keeps the contract");
    rig.catalog.learn("./taker.wasm", image);
}

/// A host on which a taker runs, with a file of these lines.
fn rig(last: &str, folder: &tempfile::TempDir) -> Rig {
    let mut rig = Rig::new(1);
    taker(&rig, last);
    rig.apply(&chain());
    rig.apply(&[with(folder, "one\ntwo\n", 0)]);
    rig.host.start().expect("threads");
    rig.moves("f");
    rig
}

/// The taker with a file of these lines.
fn with(folder: &tempfile::TempDir, lines: &str, n: u64) -> ObjectChange {
    let path = folder.path().join("list");
    fs::write(&path, lines).expect("written");
    let spec = json!({"image": "./taker.wasm", "config": {"list": path, "n": n}, "restart": {"first_delay": "10ms", "longest_delay": "10ms"}});
    function("t", spec)
}

fn change(rig: &mut Rig, change: ObjectChange) -> Result<TakenAs, String> {
    let plan = rig.check(std::slice::from_ref(&change)).expect("right");
    let mut prepared =
        rig.host.prepare(plan, HashMap::new(), &rig.catalog).map_err(|error| error.to_string())?;
    prepared.hand_over(false).map_err(|error| error.to_string())?;
    let carried = prepared
        .taken_over()
        .iter()
        .all(|taken| [Succession::TookFile, Succession::Carried].contains(&taken.how));
    assert_eq!(rig.host.carry_out(prepared).expect("it has not stopped").troubles, [""; 0]);
    rig.desired.take_over([change]);
    Ok(TakenAs { carried, counted: counted(rig) })
}

#[derive(Debug, PartialEq, Eq)]
struct TakenAs {
    carried: bool,
    counted: [u64; 3],
}

/// Calls, bytes read in them, and the calls of the guest that is there now.
fn counted(rig: &Rig) -> [u64; 3] {
    let account = rig.account();
    let taker = account.instances.iter().find(|instance| instance.name == "t").expect("it is there");
    let of =
        |name: &str| taker.counters.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count);
    let globals = rig.host.save("t").expect("it stands still between packets").globals;
    let calls = match globals.as_slice() {
        [Global { value: snapshot::Value::I32(calls), .. }] => u64::from(*calls),
        others => panic!("{others:?}"),
    };
    [of("calls"), of("bytes"), calls]
}

fn file(rig: &Rig) -> Vec<u8> {
    let config = rig.host.instance("t").expect("it is there").config;
    config.get("list").and_then(schema::Value::as_file).expect("a file").1.to_vec()
}

/// What the stream has when `two` went and `three` came, three times.
const READ: u64 = 3 * "list\n-two\n+three\n".len() as u64;

#[test]
fn what_has_changed_is_taken_by_the_guest_that_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut rig = rig("(i32.const 0)", &folder);
    assert_eq!(counted(&rig), [0, 0, 0]);
    let taken = change(&mut rig, with(&folder, "one\nthree\n", 0)).expect("it takes it");
    assert_eq!(taken, TakenAs { carried: true, counted: [3, READ, 3] });
    assert_eq!(file(&rig), b"one\nthree\n");
    // With anything else that has changed, another guest reads the whole file.
    let taken = change(&mut rig, with(&folder, "one\nthree\nfour\n", 1)).expect("it hands over");
    assert_eq!(taken, TakenAs { carried: true, counted: [3, READ, 0] });
    rig.moves("f");
}

#[test]
fn one_that_refuses_gets_another_guest() {
    for refuses in ["(i32.const 2)", "(i32.const -7)"] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut rig = rig(refuses, &folder);
        let taken = change(&mut rig, with(&folder, "one\nthree\n", 0)).expect("it hands over");
        assert_eq!(taken, TakenAs { carried: true, counted: [3, READ, 0] });
        assert_eq!(file(&rig), b"one\nthree\n");
    }
}

#[test]
fn one_that_ends_in_the_middle_has_the_whole_file_afterwards() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut rig = rig("(unreachable)", &folder);
    // It is started again meanwhile, or gets its guest here.
    change(&mut rig, with(&folder, "one\nthree\n", 0)).expect("it goes on");
    assert_eq!(file(&rig), b"one\nthree\n");
    let taker = || rig.account().instances.into_iter().find(|it| it.name == "t").expect("it is there");
    wait("it runs", || taker().down.is_none());
    assert_eq!(taker().faults, 1);
    rig.moves("f");
}

#[test]
fn a_change_that_is_given_up_leaves_the_function_with_the_file_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let rig = rig("(i32.const 0)", &folder);
    let plan = rig.check(&[with(&folder, "one\nthree\n", 0)]).expect("right");
    let mut prepared = rig.host.prepare(plan, HashMap::new(), &rig.catalog).expect("it can be made");
    prepared.hand_over(false).expect("it takes it");
    assert_eq!(counted(&rig), [3, READ, 3]);
    drop(prepared);
    assert_eq!(counted(&rig), [3, READ, 0], "another guest, with the file before");
    assert_eq!(file(&rig), b"one\ntwo\n");
}
