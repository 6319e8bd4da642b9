//! Cuts: what goes, what stays, and that what a function does stays as it was.

use image::cut::{CutError, Decision, Goal, Pass, Step, Trial};
use image::{BuildError, BuildOptions, Image, Names, assemble, build_smallest};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use wasm_smith::{Config, Module as RandomModule};
use wasmi::{Engine, Linker, Module, Store, Val};

const MANIFEST: &str = "\
# What its author thinks.
name: cut
version: 0.0.1

abi: 1
summary: 'Anything # at all'
language: c
access: write       # it writes
interfaces: [wire]
memory_limit: 2GiB
";

/// An image of a module in text.
fn image(wat: &str) -> Image {
    assemble(&wat::parse_str(wat).unwrap(), MANIFEST, Names::Kept).unwrap().0
}

fn cut(image: &Image, pass: Pass) -> Image {
    pass.apply(image).unwrap_or_else(|error| panic!("{pass:?}: {error}"))
}

const RICH: &str = r#"(module
    (type $unused (func (param f32) (result f64)))
    (type $pick (func (param i32) (result i32)))
    (type $same_pick (func (param i32) (result i32)))
    (import "superfluid_v1" "timer_set" (func $timer_set (param i64) (result i32)))
    (import "superfluid_v1" "write" (func $write (param i32 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (table 8 8 funcref)
    (global $dead (mut i32) (i32.const 7))
    (global $end (export "__heap_base") i32 (i32.const 1024))
    (global $alive (mut i32) (i32.const 9))
    (elem (i32.const 1) $one $never $two)
    (elem (i32.const 6) $never)
    (func (export "sf_batch") (result i32) (i32.const 4096))
    (func (export "sf_init") (result i32) (i32.const 0))
    (func $lost (result i32) (global.get $dead) (drop (call $write (i32.const 0) (i32.const 0) (i32.const 0))))
    (func (export "lost") (result i32) (call $lost))
    (func $one (type $pick) (i32.add (local.get 0) (i32.const 1)))
    (func $never (param i64))
    (func $two (type $same_pick) (i32.add (local.get 0) (i32.const 1)))
    (func (export "sf_process") (param i32 i64)
        (global.set $alive (call_indirect (type $same_pick) (i32.load (i32.const 16)) (i32.const 1)))
        (global.set $alive (i32.add (global.get $alive) (call $two (i32.load (i32.const 300)))))
        (i32.store (i32.const 64) (global.get $alive))
        (drop (call $timer_set (i64.const 5))))
    (data (i32.const 0) "\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\05\00\00\00\00")
    (data (i32.const 24) "\07")
    (data (i32.const 40) "\00\00\00")
    (data (i32.const 300) "\03\00\00\00"))"#;

#[test]
fn what_nothing_leads_to_goes_and_the_rest_stays() {
    let built = image(RICH);
    let image = cut(&cut(&built, Pass::ForeignExports), Pass::Unreachable);
    let facts = image.facts();
    assert_eq!(facts.imports, ["timer_set"]);
    assert_eq!(facts.exports, ["memory", "sf_batch", "sf_init", "sf_process", "sf_global_0"]);
    // sf_batch, sf_init, $one, $two, sf_process.
    assert_eq!((facts.functions, facts.mutable_globals), (5, 1));
    assert_eq!(facts.table_elements, 4, "slots 0 to 3: what lies behind traps either way");
    let text = String::from_utf8_lossy(image.wasm()).into_owned();
    assert!(!text.contains("never") && text.contains("two"), "names follow their functions");
    assert_eq!(memory_after(&built), memory_after(&image));

    let merged = cut(&image, Pass::Identical);
    assert_eq!(merged.facts().functions, 4);
    let trimmed = cut(&merged, Pass::Data);
    assert_eq!(
        trimmed.facts().data_bytes,
        3,
        "5, 7 and 3; seven zeros between two are more than a beginning"
    );
    assert_eq!(memory_after(&built), memory_after(&trimmed));
    assert_eq!(trimmed.manifest(), built.manifest());

    // A second time there is nothing left to do.
    for pass in [Pass::ForeignExports, Pass::Unreachable, Pass::Identical, Pass::Data] {
        assert_eq!(cut(&trimmed, pass).wasm(), trimmed.wasm(), "{pass:?}");
    }
}

#[test]
fn a_table_that_can_be_seen_from_outside_stays_whole() {
    let wat = RICH.replace("(table 8 8 funcref)", "(table (export \"table\") 8 8 funcref)");
    let facts = cut(&image(&wat), Pass::Unreachable).facts().clone();
    assert_eq!(facts.table_elements, 8);
    let facts = cut(&cut(&image(&wat), Pass::ForeignExports), Pass::Unreachable).facts().clone();
    assert_eq!(facts.table_elements, 4);
}

#[test]
fn functions_that_only_look_alike_are_not_merged() {
    // The same bytes, but calls of different types, and of different functions.
    let wat = r#"(module
        (memory (export "memory") 1)
        (table 1 1 funcref)
        (type $a (func (param i32)))
        (type $b (func (param i32) (result i32)))
        (func (export "sf_batch") (result i32) (i32.const 4096))
        (func (export "sf_init") (result i32) (i32.const 0))
        (func (export "sf_process") (param i32 i64))
        (func $x (export "x") (param i32) (call_indirect (type $a) (i32.const 1) (local.get 0)))
        (func $y (export "y") (param i32) (drop (call_indirect (type $b) (i32.const 1) (local.get 0))))
        (func $p (export "p") (param i32) (call $x (local.get 0)))
        (func $q (export "q") (param i32) (call $y (local.get 0)))
        (func $r (export "r") (param i32) (call $x (local.get 0))))"#;
    let built = image(wat);
    assert_eq!(cut(&built, Pass::Identical).facts().functions, built.facts().functions - 1);
}

#[test]
fn comments_of_the_manifest_go_and_what_it_says_stays() {
    // The mark inside the quoted text looks like a comment to a pass that does not read YAML: the cut is
    // taken back.
    let built = image(RICH);
    assert!(matches!(Pass::ManifestComments.apply(&built), Err(CutError::Outcome(_))));
    let plain = MANIFEST.replace("'Anything # at all'", "Anything.");
    let module = wat::parse_str(RICH).unwrap();
    let (built, _) = assemble(&module, &plain, Names::Dropped).unwrap();
    let image = cut(&built, Pass::ManifestComments);
    assert!(!image.manifest().source.contains('#'));
    assert_eq!(image.manifest().source.lines().count(), 8);
    assert_eq!(image.manifest().summary, built.manifest().summary);
}

/// Private memory after one batch.
fn memory_after(image: &Image) -> Vec<u8> {
    calls(image, &["sf_init", "sf_process", "sf_process"]).1
}

/// What these exports answer, one after the other, and memory at the end. Traps end it.
fn calls(image: &Image, names: &[&str]) -> (Vec<Option<String>>, Vec<u8>) {
    let mut config = wasmi::Config::default();
    config.wasm_bulk_memory(false).wasm_reference_types(false).consume_fuel(true);
    let engine = Engine::new(&config);
    let module = Module::new(&engine, image.wasm()).unwrap();
    let mut store = Store::new(&engine, ());
    store.set_fuel(200_000).unwrap();
    let mut linker = Linker::new(&engine);
    let m = nf_abi::IMPORT_MODULE;
    linker.func_wrap(m, "read", |_: i32, _: i32, _: i32, _: i32| 0i32).unwrap();
    linker.func_wrap(m, "write", |_: i32, _: i32, _: i32| 0i32).unwrap();
    linker.func_wrap(m, "counter_add", |_: i32, _: i64| 0i32).unwrap();
    linker.func_wrap(m, "packet_new", |_: i32, _: i32, _: i32| 0i32).unwrap();
    linker.func_wrap(m, "packet_emit", |_: i32, _: i32, _: i32, _: i32, _: i64| 0i32).unwrap();
    linker.func_wrap(m, "timer_set", |_: i64| 0i32).unwrap();
    let instance = linker.instantiate_and_start(&mut store, &module).unwrap();
    let mut answers = Vec::new();
    for name in names {
        let function = instance.get_func(&store, name).unwrap();
        let kind = function.ty(&store);
        let zero = |kind: &wasmi::ValType| Val::default(*kind);
        let parameters: Vec<Val> = kind.params().iter().map(zero).collect();
        let mut results: Vec<Val> = kind.results().iter().map(zero).collect();
        let called = function.call(&mut store, &parameters, &mut results);
        answers.push(called.ok().map(|()| format!("{results:?}")));
        if answers.last() == Some(&None) {
            break;
        }
    }
    let memory = instance.get_memory(&store, "memory").unwrap();
    (answers, memory.data(&store).to_vec())
}

const EXPORTED: &str = r#"(module
    (memory (export "memory") 2)
    (func (export "sf_batch") (result i32) (i32.const 0))
    (func (export "sf_init") (result i32) (i32.const 0))
    (func (export "sf_process") (param i32 i64))
    (func (export "sf_timer") (param i64))
    (func (export "sf_report") (param i64)))"#;

fn random_image(seed: &[u8]) -> Option<Image> {
    let config = Config {
        exports: Some(wat::parse_str(EXPORTED).ok()?),
        max_imports: 0,
        max_funcs: 12,
        max_instructions: 200,
        max_memories: 0,
        max_memory32_bytes: 1 << 20,
        max_table_elements: 40,
        max_data_segments: 8,
        max_element_segments: 8,
        max_types: 4,
        bulk_memory_enabled: false,
        reference_types_enabled: false,
        relaxed_simd_enabled: false,
        exceptions_enabled: false,
        gc_enabled: false,
        tail_call_enabled: false,
        memory64_enabled: false,
        threads_enabled: false,
        extended_const_enabled: false,
        allow_start_export: false,
        ..Config::default()
    };
    let module = RandomModule::new(config, &mut arbitrary::Unstructured::new(seed)).ok()?.to_bytes();
    Some(assemble(&module, MANIFEST, Names::Dropped).ok()?.0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn random_modules_do_after_all_cuts_what_they_did(seed in prop::collection::vec(any::<u8>(), 64..6000)) {
        let Some(built) = random_image(&seed) else { return Ok(()) };
        let names = ["sf_init", "sf_process", "sf_timer", "sf_batch", "sf_report", "sf_process"];
        let before = calls(&built, &names);
        let mut image = built;
        for pass in Pass::ALL {
            match pass.apply(&image) {
                Ok(cut) => {
                    prop_assert!(pass == Pass::Data || cut.wasm().len() <= image.wasm().len() + 8, "{:?}", pass);
                    prop_assert_eq!(&before, &calls(&cut, &names), "{:?}", pass);
                    image = cut;
                }
                Err(CutError::Unsupported(_)) => {}
                // The mark in the manifest's quoted text.
                Err(CutError::Outcome(_)) if pass == Pass::ManifestComments => {}
                Err(error) => prop_assert!(false, "{:?}: {}", pass, error),
            }
        }
    }
}

#[test]
fn enough_random_modules_are_images_that_run() {
    let mut numbers = 1u64;
    let mut good = 0;
    for _ in 0..60 {
        let seed: Vec<u8> = (0..4000)
            .map(|_| {
                numbers =
                    numbers.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (numbers >> 33) as u8
            })
            .collect();
        let Some(image) = random_image(&seed) else { continue };
        good += usize::from(calls(&image, &["sf_init"]).0 != [None]);
    }
    assert!(good >= 10, "only {good} of 60 seeds make a module that the property says anything about");
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/functions").join(name)
}

fn options() -> BuildOptions {
    let target_directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("functions");
    BuildOptions { target_directory, names: Names::Dropped }
}

/// Answers what it is told to, and counts.
struct Scripted {
    passes: Result<(), String>,
    same: Result<(), String>,
    cost: Result<f64, String>,
    asked: usize,
}

impl Trial for Scripted {
    fn passes(&mut self, _: &Image) -> Result<(), String> {
        self.asked += 1;
        self.passes.clone()
    }
    fn same(&mut self, _: &Image, _: &Image) -> Result<(), String> {
        self.same.clone()
    }
    fn cost(&mut self, _: &Image, _: &Image) -> Result<f64, String> {
        self.cost.clone()
    }
}

fn good() -> Scripted {
    Scripted { passes: Ok(()), same: Ok(()), cost: Ok(1.0), asked: 0 }
}

fn step<'s>(steps: &'s [Step], name: &str) -> &'s Step {
    steps.iter().find(|step| step.name == name).unwrap_or_else(|| panic!("no step `{name}`"))
}

#[test]
fn each_step_begins_where_the_one_before_left_off() {
    for name in ["mirror_rust", "mirror_c"] {
        let mut trial = good();
        let smallest = build_smallest(&fixture(name), &options(), Goal::Speed, Some(&mut trial)).unwrap();
        assert!(trial.asked > 1, "the test was run before and after");
        let steps = &smallest.steps;
        for pair in steps.windows(2) {
            let kept = matches!(pair[0].decision, Decision::Kept { .. });
            let left = if kept { pair[0].after } else { pair[0].before };
            assert_eq!(left, pair[1].before, "{name}: {} to {}", pair[0].name, pair[1].name);
        }
        assert_eq!(steps.last().unwrap().before, smallest.image.wasm().len());
        assert_eq!(smallest.report.image_bytes, smallest.image.wasm().len());
        let saved: i64 = steps.iter().map(Step::saved).sum();
        assert_eq!(steps[0].before as i64 - saved, smallest.image.wasm().len() as i64);
        assert!(matches!(step(steps, "foreign exports").decision, Decision::Kept { .. }), "{steps:?}");
        assert!(!smallest.image.facts().exports("kept"));
    }
}

#[test]
fn what_fails_or_costs_too_much_is_taken_back() {
    let build = |goal, trial: &mut Scripted| {
        build_smallest(&fixture("mirror_c"), &options(), goal, Some(trial)).unwrap()
    };
    let whole = build_smallest(&fixture("mirror_c"), &options(), Goal::Speed, None).unwrap();
    let (refused, dear) = ("a packet is not as before".to_owned(), 1.03);

    let smallest = build(Goal::Speed, &mut Scripted { same: Err(refused.clone()), ..good() });
    assert_eq!(
        step(&smallest.steps, "foreign exports").decision,
        Decision::Refused { why: refused, cost: None }
    );
    assert_eq!(smallest.image, whole.image, "nothing stayed");

    let smallest = build(Goal::Speed, &mut Scripted { cost: Ok(dear), ..good() });
    let why = "packets cost 3.0% more".to_owned();
    assert_eq!(
        step(&smallest.steps, "foreign exports").decision,
        Decision::Refused { why, cost: Some(dear) }
    );
    let smallest = build(Goal::Size, &mut Scripted { cost: Ok(dear), ..good() });
    assert_eq!(step(&smallest.steps, "foreign exports").decision, Decision::Kept { cost: Some(dear) });
    assert!(smallest.image.wasm().len() < whole.image.wasm().len());
}

#[test]
fn without_a_test_nothing_is_cut_that_code_could_notice() {
    let smallest = build_smallest(&fixture("mirror_c"), &options(), Goal::Speed, None).unwrap();
    let why = "the function has no test".to_owned();
    for name in ["foreign exports", "unreachable code", "identical functions", "zeros in data", "opt-level s"]
    {
        assert_eq!(step(&smallest.steps, name).decision, Decision::NotTried { why: why.clone() }, "{name}");
    }
    assert!(smallest.image.facts().exports("kept"));
}

#[test]
fn an_image_that_fails_its_test_as_it_was_built_is_no_image() {
    let mut trial = Scripted { passes: Err("found `no verdict`".into()), ..good() };
    let error = build_smallest(&fixture("mirror_c"), &options(), Goal::Speed, Some(&mut trial)).unwrap_err();
    assert!(matches!(&error, BuildError::Test { why, .. } if why == "found `no verdict`"), "{error}");
}
