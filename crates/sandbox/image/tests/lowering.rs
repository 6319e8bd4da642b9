//! The two generated functions against the instructions that they stand for, both run by an interpreter.

use image::rewrite;
use proptest::prelude::*;
use std::cell::RefCell;
use std::sync::LazyLock;
use wasmi::{Engine, Instance, Linker, Memory, Module, Store, TypedFunc};

const PAGES: usize = 2;
const BYTES: usize = PAGES << 16;

const SOURCE: &str = r#"(module
    (memory (export "memory") 2)
    (func (export "copy") (param i32 i32 i32)
        (memory.copy (local.get 0) (local.get 1) (local.get 2)))
    (func (export "fill") (param i32 i32 i32)
        (memory.fill (local.get 0) (local.get 1) (local.get 2))))"#;

struct Machine {
    store: Store<()>,
    memory: Memory,
    instance: Instance,
}

impl Machine {
    fn new(wasm: &[u8]) -> Machine {
        let engine = Engine::default();
        let module = Module::new(&engine, wasm).unwrap();
        let mut store = Store::new(&engine, ());
        let instance = Linker::new(&engine).instantiate_and_start(&mut store, &module).unwrap();
        let memory = instance.get_memory(&store, "memory").unwrap();
        Machine { store, memory, instance }
    }

    /// What became of the memory, which begins as noise, and how the call ended.
    fn run(&mut self, name: &str, arguments: (u32, u32, u32)) -> (Vec<u8>, Result<(), String>) {
        self.memory.data_mut(&mut self.store).copy_from_slice(&NOISE);
        let called: TypedFunc<(u32, u32, u32), ()> = self.instance.get_typed_func(&self.store, name).unwrap();
        let outcome =
            called.call(&mut self.store, arguments).map_err(|error| format!("{:?}", error.as_trap_code()));
        (self.memory.data(&self.store).to_vec(), outcome)
    }
}

static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(BYTES).collect()
});

struct Pair {
    original: Machine,
    lowered: Machine,
}

impl Pair {
    fn new() -> Pair {
        let original = wat::parse_str(SOURCE).unwrap();
        let lowered = rewrite(&original).unwrap();
        Pair { original: Machine::new(&original), lowered: Machine::new(&lowered) }
    }

    fn agree(&mut self, name: &str, arguments: (u32, u32, u32)) -> Result<(), TestCaseError> {
        let (expected, expected_outcome) = self.original.run(name, arguments);
        let (found, outcome) = self.lowered.run(name, arguments);
        prop_assert_eq!(&outcome, &expected_outcome, "{} {:x?}", name, arguments);
        if found != expected {
            let difference = found.iter().zip(&expected).position(|(a, b)| a != b);
            prop_assert_eq!(difference, None, "{} {:x?} differs at this byte", name, arguments);
        }
        Ok(())
    }
}

/// Addresses near each other, near the end of the memory, near the end of the address space, and anywhere.
fn address() -> impl Strategy<Value = u32> {
    let end = BYTES as u32;
    prop_oneof![4 => 0..1000u32, 4 => end - 400..=end + 20, 2 => 0..end, 1 => u32::MAX - 200..=u32::MAX, 1 => any::<u32>()]
}

fn length() -> impl Strategy<Value = u32> {
    let end = BYTES as u32;
    prop_oneof![
        6 => 0..=200u32,
        2 => 0..=end,
        1 => u32::MAX - 200..=u32::MAX,
        1 => any::<u32>(),
    ]
}

/// An empty range beyond the memory is allowed by the lowered form only, and says so in its documentation.
fn traps_for_nothing(arguments: (u32, u32, u32), copies: bool) -> bool {
    let beyond = |address: u32| address as usize > BYTES;
    arguments.2 == 0 && (beyond(arguments.0) || (copies && beyond(arguments.1)))
}

#[test]
fn copies_as_the_instruction_does() {
    let pair = RefCell::new(Pair::new());
    proptest!(ProptestConfig::with_cases(4_000), |(to in address(), from in address(), length in length())| {
        prop_assume!(!traps_for_nothing((to, from, length), true));
        pair.borrow_mut().agree("copy", (to, from, length))?;
    });
}

#[test]
fn fills_as_the_instruction_does() {
    let pair = RefCell::new(Pair::new());
    proptest!(ProptestConfig::with_cases(4_000), |(to in address(), value: u32, length in length())| {
        prop_assume!(!traps_for_nothing((to, value, length), false));
        pair.borrow_mut().agree("fill", (to, value, length))?;
    });
}

#[test]
fn every_short_length_and_overlap_is_right() {
    let mut pair = Pair::new();
    for length in 0..=200 {
        pair.agree("fill", (1000, 0xab, length)).unwrap();
        pair.agree("fill", (BYTES as u32 - length, 0xab, length)).unwrap();
        pair.agree("copy", (0, BYTES as u32 - length, length)).unwrap();
        pair.agree("copy", (BYTES as u32 - length, 0, length)).unwrap();
    }
    for length in [1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 192, 200, 1000] {
        for shift in (0..=80).chain([length - 1, length, length + 1]) {
            pair.agree("copy", (1000 + shift, 1000, length)).unwrap();
            pair.agree("copy", (1000, 1000 + shift, length)).unwrap();
        }
    }
}

#[test]
fn ranges_at_the_end_of_memory_and_of_the_address_space_trap_before_anything_is_written() {
    let mut pair = Pair::new();
    let end = BYTES as u32;
    for length in [1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 1000, 70_000, u32::MAX] {
        for before in [0, 1, 2, 7, 8, 15, 16, 31, 63, 64, 65] {
            for border in [end, 0] {
                let edge = border.wrapping_sub(before);
                pair.agree("copy", (edge, 0, length)).unwrap();
                pair.agree("copy", (0, edge, length)).unwrap();
                pair.agree("copy", (edge, edge, length)).unwrap();
                pair.agree("copy", (edge, edge.wrapping_sub(9), length)).unwrap();
                pair.agree("fill", (edge, 7, length)).unwrap();
            }
        }
    }
}

#[test]
fn nothing_is_moved_for_a_length_of_zero_wherever_it_points() {
    let mut pair = Pair::new();
    for address in [0, BYTES as u32, BYTES as u32 + 1, 0x8000_0000, u32::MAX] {
        for name in ["copy", "fill"] {
            let (memory, outcome) = pair.lowered.run(name, (address, address, 0));
            assert_eq!(outcome, Ok(()));
            assert!(memory == *NOISE);
        }
    }
}
