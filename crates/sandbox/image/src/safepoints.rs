//! Safepoints: where running code can be stopped.
//!
//! A call is ended by making its memory inaccessible when its time is up: its next access traps. Code that
//! goes on without an access would never find out. So code has *polls*: loads whose outcome is dropped. They
//! are atomic ones, of one byte: compilers keep those, where a plain load of what is known already may be
//! left out. Code that can be switched out has comparisons of epochs instead, which the engine puts in at
//! loops and where functions begin, and elsewhere where an empty loop is.
//!
//! Between two safepoints is so much straight code at most, about, as [`STEP`] bytes are:
//! 1. Each loop begins with one, and each function, except for short ones that call none.
//! 2. Where functions return there is one soon: returns may follow each other as deep as the stack is.
//! 3. Elsewhere there is one after each step of straight code, in which a call of a short function and one of
//!    the host count as much as the longest short function.
//!
//! Images have no safepoints: they are put in when a module is compiled.

use thiserror::Error;
use wasm_encoder::{BlockType, Encode, Instruction, MemArg, SectionId};
use wasmparser::{BinaryReaderError, FunctionBody, Operator, Parser, Payload, TypeRef};

/// Why no safepoints can be put in.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SafepointError {
    /// It is no module.
    #[error("at byte {offset}: {message}")]
    Invalid {
        /// What is wrong.
        message: String,
        /// Where.
        offset: usize,
    },
    /// There is nothing to access, in a module that needs it.
    #[error(
        "its memory has no page when it starts, and it has loops, calls or long functions; allowed: 1 page or more"
    )]
    NoMemory,
}

impl From<BinaryReaderError> for SafepointError {
    fn from(error: BinaryReaderError) -> SafepointError {
        SafepointError::Invalid { message: error.message().to_owned(), offset: error.offset() }
    }
}

/// What code has at its safepoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Safepoints {
    /// An access to memory, which traps when the call is to end. The module then needs the threads proposal
    /// for that one instruction.
    Polls,
    /// A comparison of epochs: it may be switched out there and go on. That costs up to a third more, where
    /// loops are short.
    Epochs,
}

/// Which safepoints these are: code that was compiled with others is not to be used.
pub const SAFEPOINT_VERSION: u32 = 2;

/// Longest straight code without one, in bytes of a module's code. An instruction has one byte at least, and
/// the slowest, a division or one of subnormal numbers, takes tens of nanoseconds with what it needs: so much
/// takes some tens of microseconds at most.
const STEP: usize = 4_096;

/// Longest code of a function that calls none and has no safepoint where it begins.
const SHORT: usize = 256;

/// Most code between a return and the next safepoint.
const AFTER_RETURN: usize = 8;

/// Puts safepoints into a module.
///
/// # Errors
/// [`SafepointError`].
pub fn with_safepoints(wasm: &[u8], kind: Safepoints) -> Result<Vec<u8>, SafepointError> {
    // Where the section before ended, and the present one begins with its number and its length.
    let mut before = 0;
    let (mut memory, mut code, mut imported, mut bodies) = (None, None, 0, Vec::new());
    for payload in Parser::new(0).parse_all(wasm) {
        let payload = payload?;
        match &payload {
            Payload::Version { range, .. } => before = range.end,
            Payload::ImportSection(imports) => {
                for import in imports.clone().into_imports() {
                    imported += usize::from(matches!(import?.ty, TypeRef::Func(_)));
                }
            }
            Payload::MemorySection(memories) => {
                for first in memories.clone().into_iter().take(1) {
                    memory = Some(first?.initial);
                }
            }
            Payload::CodeSectionStart { range, .. } => code = Some((before, range.end)),
            Payload::CodeSectionEntry(body) => {
                bodies.push(body.clone());
                continue;
            }
            _ => {}
        }
        if let Some((_, range)) = payload.as_section() {
            before = range.end;
        }
    }
    let Some((start, end)) = code else { return Ok(wasm.to_vec()) };
    let mut functions = Functions { imported, short: Vec::with_capacity(bodies.len()) };
    for body in &bodies {
        functions.short.push(is_short(body)?);
    }
    let safepoint = match kind {
        Safepoints::Polls => poll(memory.unwrap_or(0)),
        Safepoints::Epochs => Some(encoded(&[Instruction::Loop(BlockType::Empty), Instruction::End])),
    };
    let mut code = Vec::new();
    bodies.len().encode(&mut code);
    for (body, is_short) in bodies.iter().zip(&functions.short) {
        let safepoint = safepoint.as_deref();
        let places = places(body, &functions, kind == Safepoints::Polls, *is_short)?;
        rewrite(wasm, body, &places, safepoint, &mut code)?;
    }
    let mut out = Vec::with_capacity(wasm.len() + wasm.len() / 8);
    out.extend(wasm.get(..start).unwrap_or_default());
    out.push(SectionId::Code as u8);
    // Its length, and what it has.
    code.encode(&mut out);
    out.extend(wasm.get(end..).unwrap_or_default());
    Ok(out)
}

/// The byte that polls of a module read whose memory has so many pages when it starts: the last of the stack,
/// as functions built here have it, which is in use anyway; or, where that is further than the memory goes,
/// the memory's last. `None`: it has no page.
pub fn poll_address(pages: u64) -> Option<u64> {
    pages.saturating_mul(crate::limits::PAGE_BYTES).min(u64::from(crate::STACK_BYTES)).checked_sub(1)
}

/// A poll's instructions; `None`: there is nothing that it could read.
fn poll(pages: u64) -> Option<Vec<u8>> {
    let offset = poll_address(pages)?;
    let load = Instruction::I32AtomicLoad8U(MemArg { offset, align: 0, memory_index: 0 });
    Some(encoded(&[Instruction::I32Const(0), load, Instruction::Drop]))
}

fn encoded(instructions: &[Instruction<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    instructions.iter().for_each(|instruction| instruction.encode(&mut bytes));
    bytes
}

/// The functions of a module.
struct Functions {
    /// How many are imported: their numbers come first.
    imported: usize,
    /// Which of the others are short.
    short: Vec<bool>,
}

impl Functions {
    /// Whether a call of this one comes back soon, and passes no safepoint for certain.
    fn is_short(&self, index: u32) -> bool {
        let own = (index as usize).checked_sub(self.imported);
        own.is_none_or(|own| self.short.get(own) == Some(&true))
    }
}

/// Whether a function is short, and calls none and not the host.
fn is_short(body: &FunctionBody<'_>) -> Result<bool, BinaryReaderError> {
    if body.range().len() > SHORT {
        return Ok(false);
    }
    for operator in body.get_operators_reader()? {
        if let Operator::Call { .. } | Operator::CallIndirect { .. } | Operator::MemoryGrow { .. } = operator?
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A block that has begun.
#[derive(Default)]
struct Block {
    /// The most straight code behind which it is left.
    left: usize,
    /// Of an `if` of which no `else` was found: that behind which it was reached.
    otherwise: usize,
    /// A branch to it goes back to its beginning.
    is_loop: bool,
}

/// The places of safepoints in a function's body, in the order of the code. What there is at loops and where
/// a function begins is left out where the engine puts it in by itself.
fn places(
    body: &FunctionBody<'_>,
    functions: &Functions,
    all: bool,
    short: bool,
) -> Result<Vec<usize>, BinaryReaderError> {
    let mut operators = body.get_operators_reader()?;
    let (mut places, mut blocks) = (Vec::new(), vec![Block::default()]);
    if all && !short {
        places.push(operators.original_position());
    }
    // The most straight code since a safepoint, on any way to here.
    let mut straight = 0;
    while !operators.eof() {
        let (operator, at) = operators.read_with_offset()?;
        let after = operators.original_position();
        let cost = match operator {
            Operator::Call { function_index } if functions.is_short(function_index) => SHORT,
            // It may be of a short one.
            Operator::CallIndirect { .. } | Operator::MemoryGrow { .. } => SHORT,
            _ => after - at,
        };
        if straight + cost > STEP {
            places.push(at);
            straight = 0;
        }
        straight += cost;
        let mut leave = |depth: u32, straight| {
            let block = blocks.len().checked_sub(depth as usize + 1).and_then(|block| blocks.get_mut(block));
            if let Some(block) = block.filter(|block| !block.is_loop) {
                block.left = block.left.max(straight);
            }
        };
        match operator {
            Operator::Block { .. } => blocks.push(Block::default()),
            Operator::If { .. } => blocks.push(Block { otherwise: straight, ..Block::default() }),
            Operator::Loop { .. } => {
                if all {
                    places.push(after);
                }
                straight = 0;
                blocks.push(Block { is_loop: true, ..Block::default() });
            }
            Operator::Else => {
                leave(0, straight);
                straight = blocks.last_mut().map_or(0, |block| std::mem::take(&mut block.otherwise));
            }
            Operator::End => {
                let Block { left, otherwise, .. } = blocks.pop().unwrap_or_default();
                straight = straight.max(left).max(otherwise);
            }
            Operator::Br { relative_depth } | Operator::BrIf { relative_depth } => {
                leave(relative_depth, straight)
            }
            Operator::BrTable { targets } => {
                leave(targets.default(), straight);
                for target in targets.targets() {
                    leave(target?, straight);
                }
            }
            Operator::Call { function_index } if functions.is_short(function_index) => {}
            Operator::Call { .. } | Operator::CallIndirect { .. } => straight = STEP - AFTER_RETURN,
            _ => {}
        }
    }
    Ok(places)
}

/// Writes a function's body with safepoints in these places.
fn rewrite(
    wasm: &[u8],
    body: &FunctionBody<'_>,
    places: &[usize],
    safepoint: Option<&[u8]>,
    out: &mut Vec<u8>,
) -> Result<(), SafepointError> {
    let (range, safepoint) = match (places, safepoint) {
        ([], _) => (body.range(), [].as_slice()),
        (_, safepoint) => (body.range(), safepoint.ok_or(SafepointError::NoMemory)?),
    };
    (range.len() + places.len() * safepoint.len()).encode(out);
    let mut from = range.start;
    for place in places {
        out.extend(wasm.get(from..*place).unwrap_or_default());
        out.extend(safepoint);
        from = *place;
    }
    out.extend(wasm.get(from..range.end).unwrap_or_default());
    Ok(())
}

#[cfg(test)]
mod tests;
