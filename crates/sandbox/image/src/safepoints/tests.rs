use super::*;
use crate::limits::FEATURES;
use proptest::prelude::*;
use std::fmt::Write;
use wasmparser::{Validator, WasmFeatures};

/// The instructions of each function, polls as one.
fn functions(wasm: &[u8]) -> Vec<Vec<String>> {
    let mut functions = Vec::new();
    for payload in Parser::new(0).parse_all(wasm) {
        if let Payload::CodeSectionEntry(body) = payload.expect("a module") {
            let operators = body.get_operators_reader().expect("operators");
            let named = operators.into_iter().map(|operator| match operator.expect("an operator") {
                Operator::I32AtomicLoad8U { memarg } => format!("poll {}", memarg.offset),
                other => format!("{other:?}").split(' ').next().unwrap_or_default().to_owned(),
            });
            functions.push(named.collect());
        }
    }
    functions
}

fn polled(text: &str) -> Vec<u8> {
    let wasm = wat::parse_str(text).expect("a module");
    let polled = with_safepoints(&wasm, Safepoints::Polls).expect("it has memory");
    let mut validator = Validator::new_with_features(FEATURES.union(WasmFeatures::THREADS));
    validator.validate_all(&polled).expect("a valid module");
    polled
}

#[test]
fn loops_and_functions_that_call_begin_with_a_poll() {
    let text = "(module (import \"a\" \"b\" (func $out)) (memory 1) (table 1 funcref) (func $leaf (nop))
        (func (call $out)) (func (call_indirect (i32.const 0)))
        (func (block (loop (loop (nop)) (br 0))) (if (i32.const 1) (then (loop (call $leaf)))))
        (func (result i32) (i32.const 7) (loop (param i32) (result i32) (nop)))
        (data (i32.const 0) \"kept\"))";
    let poll = ["I32Const", "poll 65535", "Drop"];
    let all = |parts: &[&[&str]]| parts.concat().iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
    let expected = [
        all(&[&["Nop", "End"]]),
        all(&[&poll, &["Call", "End"]]),
        all(&[&poll, &["I32Const", "CallIndirect", "End"]]),
        all(&[
            &poll,
            &["Block", "Loop"],
            &poll,
            &["Loop"],
            &poll,
            &["Nop", "End", "Br", "End", "End", "I32Const", "If", "Loop"],
            &poll,
            &["Call", "End", "End", "End"],
        ]),
        all(&[&["I32Const", "Loop"], &poll, &["Nop", "End", "End"]]),
    ];
    let found = polled(text);
    assert_eq!(functions(&found), expected);
    // All else is as it was.
    assert!(found.windows(4).any(|bytes| bytes == b"kept"));
    let nothing =
        wat::parse_str("(module (memory 1) (func (nop)) (data (i32.const 9) \"x\"))").expect("a module");
    assert_eq!(with_safepoints(&nothing, Safepoints::Polls), Ok(nothing.clone()));
}

#[test]
fn polls_read_what_is_there_from_the_start() {
    let at =
        |memory: &str| functions(&polled(&format!("(module {memory} (func (loop (nop))))")))[0][2].clone();
    assert_eq!(at("(memory 1)"), "poll 65535");
    assert_eq!(at("(memory 2)"), format!("poll {}", crate::STACK_BYTES - 1));
    assert_eq!(at("(memory 2000 3000)"), format!("poll {}", crate::STACK_BYTES - 1));
    let without = |text: &str| with_safepoints(&wat::parse_str(text).expect("a module"), Safepoints::Polls);
    assert_eq!(without("(module (memory 0) (func (loop (nop))))"), Err(SafepointError::NoMemory));
    assert_eq!(without("(module (func $f) (func (call $f)))"), Err(SafepointError::NoMemory));
    assert!(without("(module (memory 0) (func (nop)))").is_ok());
    assert!(without("(module)").is_ok());
}

#[test]
fn what_is_no_module_is_told_where() {
    let whole = wat::parse_str("(module (memory 1) (func (loop (nop))))").expect("a module");
    for length in 0..whole.len() {
        match with_safepoints(&whole[..length], Safepoints::Polls) {
            // Where a section ends, what is left is a module, without functions' bodies.
            Ok(same) => assert_eq!(same, whole[..length]),
            Err(SafepointError::Invalid { offset, .. }) => assert!(offset <= length, "{offset} of {length}"),
            Err(error) => panic!("{length}: {error}"),
        }
    }
    assert!(matches!(
        with_safepoints(b"\0asm", Safepoints::Polls),
        Err(SafepointError::Invalid { offset: 4.., .. })
    ));
    assert!(with_safepoints(b"", Safepoints::Polls).is_err());
}

/// How many safepoints each function has.
fn counts(text: &str, kind: Safepoints) -> Vec<usize> {
    let found = with_safepoints(&wat::parse_str(text).expect("a module"), kind).expect("it has memory");
    let is_one = |operator: &String| match kind {
        Safepoints::Polls => operator.starts_with("poll"),
        Safepoints::Epochs => operator == "Loop",
    };
    functions(&found)
        .iter()
        .map(|function| function.iter().filter(|operator| is_one(operator)).count())
        .collect()
}

#[test]
fn straight_code_has_one_after_each_step() {
    let nops = |count: usize| "(nop)".repeat(count);
    // (the bodies of one function, polls, empty loops)
    for (body, polls, loops) in [
        (nops(200), 0, 0),
        // It begins with one.
        (nops(300), 1, 0),
        (nops(5_000), 2, 1),
        (nops(20_000), 5, 4),
        // Where it is left early there is no less to come.
        (format!("(block {} (br_if 0 (i32.const 1)) {}) {}", nops(4_000), nops(4_000), nops(200)), 3, 2),
        (format!("(block (br 0) {}) {}", nops(4_000), nops(3_900)), 2, 1),
        (format!("(if (i32.const 1) (then {}) (else {})) {}", nops(3_900), nops(3_900), nops(100)), 1, 0),
        (format!("(if (i32.const 1) (then {})) {}", nops(3_900), nops(300)), 2, 1),
        // What was left at a loop's end is what is behind its beginning.
        (
            format!(
                "{} (loop {} (br_if 0 (i32.const 1)) {}) {}",
                nops(4_000),
                nops(2_000),
                nops(10),
                nops(2_000)
            ),
            2,
            0,
        ),
        // Calls of short functions, of long ones, of any, and of the host.
        ("(call $short)".repeat(32), 3, 2),
        ("(call $long)".repeat(32), 1, 0),
        (format!("(call $long) {}", nops(20)), 2, 1),
        ("(call_indirect (i32.const 0))".repeat(4), 4, 3),
        ("(call $out)".repeat(32), 3, 2),
        ("(drop (memory.grow (i32.const 1)))".repeat(32), 3, 2),
    ] {
        let text = format!(
            "(module (import \"a\" \"b\" (func $out)) (memory 1) (table 1 funcref) (func {body})
            (func $short) (func $long {}))",
            nops(300)
        );
        for (kind, expected) in [(Safepoints::Polls, polls), (Safepoints::Epochs, loops)] {
            // An empty loop is one of those that are counted, and one that was there another.
            let loops = usize::from(body.contains("(loop") && kind == Safepoints::Epochs);
            let named: String = body.chars().take(60).collect();
            assert_eq!(counts(&text, kind)[0], expected + loops, "{kind:?}: {named}");
        }
    }
}

/// A part of a function.
#[derive(Clone, Debug)]
enum Part {
    Straight(usize),
    Call(usize),
    Indirect,
    Block(Vec<Part>),
    Loop(Vec<Part>),
    If(Vec<Part>, Vec<Part>),
    Leave(usize),
    LeaveIf(usize),
    Choose(usize, usize),
    Return,
}

const FUNCTIONS: usize = 5;

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let part = prop_oneof![
        4 => prop_oneof![0..20_usize, 0..3_000_usize].prop_map(Part::Straight),
        3 => (0..FUNCTIONS).prop_map(Part::Call),
        1 => Just(Part::Indirect),
        1 => (0..4_usize).prop_map(Part::Leave),
        2 => (0..4_usize).prop_map(Part::LeaveIf),
        1 => (0..4_usize, 0..4_usize).prop_map(|(a, b)| Part::Choose(a, b)),
        1 => Just(Part::Return),
    ];
    let part = part.prop_recursive(4, 40, 6, |inner| {
        let parts = || proptest::collection::vec(inner.clone(), 0..6);
        prop_oneof![
            parts().prop_map(Part::Block),
            parts().prop_map(Part::Loop),
            (parts(), parts()).prop_map(|(then, otherwise)| Part::If(then, otherwise)),
        ]
    });
    proptest::collection::vec(part, 0..8)
}

fn text(parts: &[Part], depth: usize, out: &mut String) {
    for part in parts {
        let _ = match part {
            Part::Straight(count) => write!(out, "{}", "(nop)".repeat(*count)),
            Part::Call(function) => write!(out, "(call {function})"),
            Part::Indirect => write!(out, "(call_indirect (i32.const 0))"),
            Part::Leave(to) => write!(out, "(br {})", to % (depth + 1)),
            Part::LeaveIf(to) => write!(out, "(br_if {} (i32.const 0))", to % (depth + 1)),
            Part::Choose(a, b) => {
                write!(out, "(br_table {} {} (i32.const 0))", a % (depth + 1), b % (depth + 1))
            }
            Part::Return => write!(out, "(return)"),
            Part::Block(inner) | Part::Loop(inner) => {
                out.push_str(if matches!(part, Part::Block(_)) { "(block " } else { "(loop " });
                text(inner, depth + 1, out);
                write!(out, ")")
            }
            Part::If(then, otherwise) => {
                out.push_str("(if (i32.const 0) (then ");
                text(then, depth + 1, out);
                out.push_str(") (else ");
                text(otherwise, depth + 1, out);
                write!(out, "))")
            }
        };
    }
}

/// A function that is walked through.
struct Walked<'a> {
    /// Its instructions, how long each is, and where the block ends, or goes on, that begins with it.
    code: Vec<(Operator<'a>, usize, usize)>,
}

fn walked(wasm: &[u8]) -> Vec<Walked<'_>> {
    let mut functions = Vec::new();
    for payload in Parser::new(0).parse_all(wasm) {
        let Payload::CodeSectionEntry(body) = payload.expect("a module") else { continue };
        let mut operators = body.get_operators_reader().expect("operators");
        let (mut code, mut open) = (Vec::new(), vec![0]);
        while !operators.eof() {
            let (operator, at) = operators.read_with_offset().expect("an operator");
            let here = code.len();
            match operator {
                Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => open.push(here),
                Operator::Else => {
                    let begin = open.pop().expect("an `if`");
                    let (_, _, end): &mut (Operator<'_>, usize, usize) = &mut code[begin];
                    *end = here;
                    open.push(here);
                }
                Operator::End => {
                    let begin = open.pop().expect("a block");
                    if let Some((_, _, end)) = code.get_mut(begin) {
                        *end = here;
                    }
                }
                _ => {}
            }
            code.push((operator, operators.original_position() - at, usize::MAX));
        }
        functions.push(Walked { code });
    }
    functions
}

/// Walks through functions by chance; the most straight code that it comes by between two safepoints.
fn longest(functions: &[Walked<'_>], kind: Safepoints, depth: usize, seed: u64) -> usize {
    let mut random = seed | 1;
    let mut chance = |of: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as usize % of
    };
    // (function, next instruction, beginnings of its blocks)
    let mut frames = vec![(0, 0, Vec::new())];
    let (mut straight, mut most) = (0, 0);
    for _ in 0..30_000 {
        let deep = frames.len() < depth;
        let Some((function, next, blocks)) = frames.last_mut() else { break };
        let code = &functions[*function].code;
        let Some((operator, bytes, end)) = code.get(*next) else {
            frames.pop();
            continue;
        };
        straight += bytes;
        most = most.max(straight);
        *next += 1;
        let leave = |depth: u32, next: &mut usize, blocks: &mut Vec<usize>| {
            let Some(kept) = blocks.len().checked_sub(depth as usize + 1) else {
                *next = code.len();
                return;
            };
            let begin = blocks[kept];
            blocks.truncate(kept);
            if let (Operator::Loop { .. }, ..) = code[begin] {
                *next = begin;
                return;
            }
            *next = code[begin].2;
            if let (Operator::Else, _, end) = code[*next] {
                *next = end;
            }
            *next += 1;
        };
        let mut called = None;
        match operator {
            Operator::I32AtomicLoad8U { .. } => straight = 0,
            Operator::Block { .. } => blocks.push(*next - 1),
            Operator::Loop { .. } => {
                blocks.push(*next - 1);
                if kind == Safepoints::Epochs {
                    straight = 0;
                }
            }
            Operator::If { .. } => {
                blocks.push(*next - 1);
                if chance(2) == 0 {
                    // Behind its `else`, or at its end.
                    let is_else = matches!(code[*end].0, Operator::Else);
                    *next = *end + usize::from(is_else);
                }
            }
            Operator::Else => *next = *end,
            Operator::End => drop(blocks.pop()),
            Operator::Br { relative_depth } => leave(*relative_depth, next, blocks),
            Operator::BrIf { relative_depth } if chance(2) == 0 => leave(*relative_depth, next, blocks),
            Operator::BrTable { targets } => {
                let all: Vec<u32> = targets
                    .targets()
                    .chain([Ok(targets.default())])
                    .map(|to| to.expect("a target"))
                    .collect();
                leave(all[chance(all.len())], next, blocks);
            }
            Operator::Return => *next = code.len(),
            Operator::Call { function_index } => called = Some(*function_index as usize),
            Operator::CallIndirect { .. } => called = Some(chance(functions.len())),
            _ => {}
        }
        if let Some(function) = called.filter(|_| deep) {
            frames.push((function, 0, Vec::new()));
            if kind == Safepoints::Epochs {
                straight = 0;
            }
        }
    }
    most
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_way_through_a_module_is_longer_than_a_step_without_one(
        functions in proptest::collection::vec(parts(), FUNCTIONS),
        seeds in proptest::collection::vec(any::<u64>(), 8),
    ) {
        const DEPTH: usize = 30;
        let mut module = "(module (memory 1) (table 1 funcref)".to_owned();
        for parts in &functions {
            module.push_str("(func ");
            text(parts, 0, &mut module);
            module.push(')');
        }
        module.push(')');
        let wasm = wat::parse_str(&module).expect("a module");
        for kind in [Safepoints::Polls, Safepoints::Epochs] {
            let found = with_safepoints(&wasm, kind).expect("it has memory");
            Validator::new_with_features(FEATURES.union(WasmFeatures::THREADS))
                .validate_all(&found)
                .expect("a valid module");
            let walked = walked(&found);
            for seed in &seeds {
                let most = longest(&walked, kind, DEPTH, *seed);
                // What polls are made of counts here, too.
                let allowed = STEP + SHORT + DEPTH * (AFTER_RETURN + 8) + 16;
                prop_assert!(most <= allowed, "{kind:?}: {most} of {allowed}");
            }
        }
    }
}
