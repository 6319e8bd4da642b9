//! Polls: accesses to memory by which running code can be stopped.
//!
//! A call is ended by making its memory inaccessible when its time is up: its next access traps. Code that
//! goes round without an access would never find out. So each loop, and each function that calls others,
//! begins with a poll: a load whose outcome is dropped. It is an atomic one, of one byte: compilers keep
//! those, where a plain load of what is known already may be left out.
//!
//! Images have no polls: they are put in when a module is compiled.

use thiserror::Error;
use wasm_encoder::{Encode, Instruction, MemArg, SectionId};
use wasmparser::{BinaryReaderError, FunctionBody, Operator, Parser, Payload};

/// Why no polls can be put in.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PollError {
    /// It is no module.
    #[error("at byte {offset}: {message}")]
    Invalid {
        /// What is wrong.
        message: String,
        /// Where.
        offset: usize,
    },
    /// There is nothing to access, in a module with loops or calls.
    #[error("its memory has no page when it starts, and it has loops or calls; allowed: 1 page or more")]
    NoMemory,
}

impl From<BinaryReaderError> for PollError {
    fn from(error: BinaryReaderError) -> PollError {
        PollError::Invalid { message: error.message().to_owned(), offset: error.offset() }
    }
}

/// Puts polls into a module, which then needs the threads proposal for its one instruction.
///
/// # Errors
/// [`PollError`].
pub fn with_polls(wasm: &[u8]) -> Result<Vec<u8>, PollError> {
    let mut out = Vec::with_capacity(wasm.len() + wasm.len() / 8);
    let (mut code, mut code_end) = (Vec::new(), None);
    // Where the section before ended, and the present one begins with its number and its length.
    let mut before = 0;
    let mut memory = None;
    for payload in Parser::new(0).parse_all(wasm) {
        let payload = payload?;
        match &payload {
            Payload::Version { range, .. } => before = range.end,
            Payload::MemorySection(memories) => {
                for first in memories.clone().into_iter().take(1) {
                    memory = Some(first?.initial);
                }
            }
            Payload::CodeSectionStart { count, range, .. } => {
                out.extend(wasm.get(..before).unwrap_or_default());
                count.encode(&mut code);
                code_end = Some(range.end);
            }
            Payload::CodeSectionEntry(body) => {
                rewrite(wasm, body, memory.unwrap_or(0), &mut code)?;
                continue;
            }
            _ => {}
        }
        if let Some((_, range)) = payload.as_section() {
            before = range.end;
        }
    }
    let Some(end) = code_end else { return Ok(wasm.to_vec()) };
    out.push(SectionId::Code as u8);
    // Its length, and what it has.
    code.encode(&mut out);
    out.extend(wasm.get(end..).unwrap_or_default());
    Ok(out)
}

/// Which polls these are: code that was compiled with others is not to be used.
pub const POLL_VERSION: u32 = 1;

/// The byte that polls of a module read whose memory has so many pages when it starts: the last of the stack,
/// as functions built here have it, which is in use anyway; or, where that is further than the memory goes,
/// the memory's last. `None`: it has no page.
pub fn poll_address(pages: u64) -> Option<u64> {
    pages.saturating_mul(crate::limits::PAGE_BYTES).min(u64::from(crate::STACK_BYTES)).checked_sub(1)
}

/// A poll's instructions.
fn poll(pages: u64) -> Result<Vec<u8>, PollError> {
    let offset = poll_address(pages).ok_or(PollError::NoMemory)?;
    let load = Instruction::I32AtomicLoad8U(MemArg { offset, align: 0, memory_index: 0 });
    let mut poll = Vec::new();
    [Instruction::I32Const(0), load, Instruction::Drop].iter().for_each(|part| part.encode(&mut poll));
    Ok(poll)
}

/// Writes a function's body with polls: in front of what it does, if it calls, and at the beginning of each
/// loop.
fn rewrite(wasm: &[u8], body: &FunctionBody<'_>, pages: u64, out: &mut Vec<u8>) -> Result<(), PollError> {
    let (range, mut operators) = (body.range(), body.get_operators_reader()?);
    let first = operators.original_position();
    let (mut places, mut calls) = (Vec::new(), false);
    while !operators.eof() {
        match operators.read()? {
            Operator::Loop { .. } => places.push(operators.original_position()),
            Operator::Call { .. } | Operator::CallIndirect { .. } => calls = true,
            _ => {}
        }
    }
    if calls {
        places.insert(0, first);
    }
    let poll = if places.is_empty() { Vec::new() } else { poll(pages)? };
    (range.len() + places.len() * poll.len()).encode(out);
    let mut from = range.start;
    for place in places {
        out.extend(wasm.get(from..place).unwrap_or_default());
        out.extend(&poll);
        from = place;
    }
    out.extend(wasm.get(from..range.end).unwrap_or_default());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::FEATURES;
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
        let polled = with_polls(&wasm).expect("it has memory");
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
        let all =
            |parts: &[&[&str]]| parts.concat().iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
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
        assert_eq!(with_polls(&nothing), Ok(nothing.clone()));
    }

    #[test]
    fn polls_read_what_is_there_from_the_start() {
        let at = |memory: &str| {
            functions(&polled(&format!("(module {memory} (func (loop (nop))))")))[0][2].clone()
        };
        assert_eq!(at("(memory 1)"), "poll 65535");
        assert_eq!(at("(memory 2)"), format!("poll {}", crate::STACK_BYTES - 1));
        assert_eq!(at("(memory 2000 3000)"), format!("poll {}", crate::STACK_BYTES - 1));
        let without = |text: &str| with_polls(&wat::parse_str(text).expect("a module"));
        assert_eq!(without("(module (memory 0) (func (loop (nop))))"), Err(PollError::NoMemory));
        assert_eq!(without("(module (func $f) (func (call $f)))"), Err(PollError::NoMemory));
        assert!(without("(module (memory 0) (func (nop)))").is_ok());
        assert!(without("(module)").is_ok());
    }

    #[test]
    fn what_is_no_module_is_told_where() {
        let whole = wat::parse_str("(module (memory 1) (func (loop (nop))))").expect("a module");
        for length in 0..whole.len() {
            match with_polls(&whole[..length]) {
                // Where a section ends, what is left is a module, without functions' bodies.
                Ok(same) => assert_eq!(same, whole[..length]),
                Err(PollError::Invalid { offset, .. }) => assert!(offset <= length, "{offset} of {length}"),
                Err(error) => panic!("{length}: {error}"),
            }
        }
        assert!(matches!(with_polls(b"\0asm"), Err(PollError::Invalid { offset: 4.., .. })));
        assert!(with_polls(b"").is_err());
    }
}
