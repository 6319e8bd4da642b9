//! The guest functions that stand for `memory.copy` and `memory.fill`.
//!
//! Both move 64 bytes per turn of their loop and have no byte loop at all: whatever is no multiple of 64 is
//! covered by a second, overlapping piece at the other end of the range. A copy reads everything that it
//! could overwrite before it overwrites it, so that one pass in the right direction is a correct `memmove`.
//!
//! Bounds: an address range that leaves the 32-bit address space traps as an out-of-bounds access and nothing
//! is written. In a memory without holes the same is true of every range that ends beyond the memory, because
//! both ends are touched before the first store. In an engine whose memory has holes or read-only parts (the
//! packet window lies beyond a gap), a range across a border may be written up to that border before the
//! trap. A length of zero is always allowed, wherever the addresses point; the instructions trap for
//! addresses beyond the memory even then.

use wasm_encoder::{BlockType, Function, InstructionSink, MemArg, ValType};

const DESTINATION: u32 = 0;
const SOURCE: u32 = 1;
const VALUE: u32 = 1;
const LENGTH: u32 = 2;

const VECTOR: u64 = 16;
const BLOCK: u64 = 4 * VECTOR;
const VECTORS: [u32; 4] = [0, 1, 2, 3];

/// `(destination: i32, source: i32, length: i32)`: the bytes of `source` as they were, to `destination`.
pub(super) fn memory_copy() -> Function {
    const AT: u32 = 3;
    const HEAD: u32 = 4;
    const TAIL: u32 = 5;
    const KEPT: u32 = 6;
    const MOVING: u32 = KEPT + 4;
    let mut function = Function::new([(1, ValType::I32), (2, ValType::I64), (8, ValType::V128)]);
    let f = &mut function.instructions();
    return_when_empty(f);
    trap_when_wrapping(f, &[DESTINATION, SOURCE]);

    when_length_above(f, BLOCK, |f| {
        end_of(f, DESTINATION, 1).i32_load8_u(at(0)).drop();
        // Destination inside the source's range, or equal to it: from the end towards the start.
        f.local_get(DESTINATION)
            .local_get(SOURCE)
            .i32_sub()
            .local_get(LENGTH)
            .i32_lt_u()
            .if_(BlockType::Empty);
        for vector in VECTORS {
            f.local_get(SOURCE).v128_load(block_at(vector)).local_set(KEPT + vector);
        }
        f.local_get(LENGTH).local_set(AT).loop_(BlockType::Empty);
        f.local_get(AT).i32_const(BLOCK as i32).i32_sub().local_set(AT);
        for vector in VECTORS {
            f.local_get(SOURCE)
                .local_get(AT)
                .i32_add()
                .v128_load(block_at(vector))
                .local_set(MOVING + vector);
        }
        for vector in VECTORS {
            f.local_get(DESTINATION)
                .local_get(AT)
                .i32_add()
                .local_get(MOVING + vector)
                .v128_store(block_at(vector));
        }
        f.local_get(AT).i32_const(BLOCK as i32).i32_gt_u().br_if(0).end();
        for vector in VECTORS {
            f.local_get(DESTINATION).local_get(KEPT + vector).v128_store(block_at(vector));
        }
        f.return_().end();

        // From the start towards the end; the length becomes the address of the destination's last block.
        for vector in VECTORS {
            end_of(f, SOURCE, BLOCK).v128_load(block_at(vector)).local_set(KEPT + vector);
        }
        end_of(f, DESTINATION, BLOCK).local_set(LENGTH);
        f.loop_(BlockType::Empty);
        for vector in VECTORS {
            f.local_get(SOURCE).v128_load(block_at(vector)).local_set(MOVING + vector);
        }
        for vector in VECTORS {
            f.local_get(DESTINATION).local_get(MOVING + vector).v128_store(block_at(vector));
        }
        f.local_get(SOURCE).i32_const(BLOCK as i32).i32_add().local_set(SOURCE);
        f.local_get(DESTINATION).i32_const(BLOCK as i32).i32_add().local_tee(DESTINATION);
        f.local_get(LENGTH).i32_lt_u().br_if(0).end();
        for vector in VECTORS {
            f.local_get(LENGTH).local_get(KEPT + vector).v128_store(block_at(vector));
        }
    });
    when_length_above(f, 2 * VECTOR, |f| {
        for vector in [0, 1] {
            f.local_get(SOURCE).v128_load(block_at(vector)).local_set(KEPT + vector);
        }
        for vector in [0, 1] {
            end_of(f, SOURCE, 2 * VECTOR).v128_load(block_at(vector)).local_set(MOVING + vector);
        }
        for vector in [1, 0] {
            end_of(f, DESTINATION, 2 * VECTOR).local_get(MOVING + vector).v128_store(block_at(vector));
        }
        for vector in [0, 1] {
            f.local_get(DESTINATION).local_get(KEPT + vector).v128_store(block_at(vector));
        }
    });
    when_length_above(f, VECTOR, |f| {
        f.local_get(SOURCE).v128_load(at(0)).local_set(KEPT);
        end_of(f, SOURCE, VECTOR).v128_load(at(0)).local_set(MOVING);
        end_of(f, DESTINATION, VECTOR).local_get(MOVING).v128_store(at(0));
        f.local_get(DESTINATION).local_get(KEPT).v128_store(at(0));
    });
    // The 64-bit locals carry the narrower pieces as well; what lies above a piece's width is never stored.
    when_length_above(f, 7, |f| {
        f.local_get(SOURCE).i64_load(at(0)).local_set(HEAD);
        end_of(f, SOURCE, 8).i64_load(at(0)).local_set(TAIL);
        end_of(f, DESTINATION, 8).local_get(TAIL).i64_store(at(0));
        f.local_get(DESTINATION).local_get(HEAD).i64_store(at(0));
    });
    when_length_above(f, 3, |f| {
        f.local_get(SOURCE).i64_load32_u(at(0)).local_set(HEAD);
        end_of(f, SOURCE, 4).i64_load32_u(at(0)).local_set(TAIL);
        end_of(f, DESTINATION, 4).local_get(TAIL).i64_store32(at(0));
        f.local_get(DESTINATION).local_get(HEAD).i64_store32(at(0));
    });
    when_length_above(f, 1, |f| {
        f.local_get(SOURCE).i64_load16_u(at(0)).local_set(HEAD);
        end_of(f, SOURCE, 2).i64_load16_u(at(0)).local_set(TAIL);
        end_of(f, DESTINATION, 2).local_get(TAIL).i64_store16(at(0));
        f.local_get(DESTINATION).local_get(HEAD).i64_store16(at(0));
    });
    f.local_get(DESTINATION).local_get(SOURCE).i32_load8_u(at(0)).i32_store8(at(0));
    f.end();
    function
}

/// `(destination: i32, value: i32, length: i32)`: the low byte of `value`, `length` times.
pub(super) fn memory_fill() -> Function {
    const PIECE: u32 = 3;
    const VECTOR_PIECE: u32 = 4;
    let mut function = Function::new([(1, ValType::I64), (1, ValType::V128)]);
    let f = &mut function.instructions();
    return_when_empty(f);
    trap_when_wrapping(f, &[DESTINATION]);

    f.local_get(VALUE).i8x16_splat().local_set(VECTOR_PIECE);
    when_length_above(f, BLOCK, |f| {
        for vector in VECTORS.into_iter().rev() {
            end_of(f, DESTINATION, BLOCK).local_get(VECTOR_PIECE).v128_store(block_at(vector));
        }
        // The length becomes the address of the last block, which is filled already.
        end_of(f, DESTINATION, BLOCK).local_set(LENGTH);
        f.loop_(BlockType::Empty);
        // Read back in every turn: a vector that lives across a turn would be saved and restored around the
        // check of the deadline, which takes longer than the four stores.
        f.local_get(LENGTH).v128_load(at(0)).local_set(VECTOR_PIECE);
        for vector in VECTORS {
            f.local_get(DESTINATION).local_get(VECTOR_PIECE).v128_store(block_at(vector));
        }
        f.local_get(DESTINATION).i32_const(BLOCK as i32).i32_add().local_tee(DESTINATION);
        f.local_get(LENGTH).i32_lt_u().br_if(0).end();
    });
    when_length_above(f, 2 * VECTOR, |f| {
        for vector in [1, 0] {
            end_of(f, DESTINATION, 2 * VECTOR).local_get(VECTOR_PIECE).v128_store(block_at(vector));
        }
        for vector in [0, 1] {
            f.local_get(DESTINATION).local_get(VECTOR_PIECE).v128_store(block_at(vector));
        }
    });
    when_length_above(f, VECTOR, |f| {
        end_of(f, DESTINATION, VECTOR).local_get(VECTOR_PIECE).v128_store(at(0));
        f.local_get(DESTINATION).local_get(VECTOR_PIECE).v128_store(at(0));
    });
    f.local_get(VECTOR_PIECE).i64x2_extract_lane(0).local_set(PIECE);
    when_length_above(f, 7, |f| {
        end_of(f, DESTINATION, 8).local_get(PIECE).i64_store(at(0));
        f.local_get(DESTINATION).local_get(PIECE).i64_store(at(0));
    });
    when_length_above(f, 3, |f| {
        end_of(f, DESTINATION, 4).local_get(PIECE).i64_store32(at(0));
        f.local_get(DESTINATION).local_get(PIECE).i64_store32(at(0));
    });
    when_length_above(f, 1, |f| {
        end_of(f, DESTINATION, 2).local_get(PIECE).i64_store16(at(0));
        f.local_get(DESTINATION).local_get(PIECE).i64_store16(at(0));
    });
    f.local_get(DESTINATION).local_get(VALUE).i32_store8(at(0));
    f.end();
    function
}

fn at(offset: u64) -> MemArg {
    MemArg { offset, align: 0, memory_index: 0 }
}

fn block_at(vector: u32) -> MemArg {
    at(u64::from(vector) * VECTOR)
}

/// Pushes the address that lies `bytes` before the end of the range that begins at `start`. The sum may be
/// 2^32 and wrap to zero; the difference is right all the same.
fn end_of<'f, 'a>(f: &'f mut InstructionSink<'a>, start: u32, bytes: u64) -> &'f mut InstructionSink<'a> {
    f.local_get(start).local_get(LENGTH).i32_add().i32_const(bytes as i32).i32_sub()
}

fn return_when_empty(f: &mut InstructionSink<'_>) {
    f.local_get(LENGTH).i32_eqz().if_(BlockType::Empty).return_().end();
}

/// Traps as an out-of-bounds access when a range that is not empty would leave the 32-bit address space.
fn trap_when_wrapping(f: &mut InstructionSink<'_>, starts: &[u32]) {
    for (position, start) in starts.iter().enumerate() {
        // start + length > 2^32, in 32 bits: length - 1 > !start.
        f.local_get(LENGTH).i32_const(1).i32_sub().local_get(*start).i32_const(-1).i32_xor().i32_gt_u();
        if position > 0 {
            f.i32_or();
        }
    }
    // A load of eight bytes at the last address is out of bounds in every 32-bit memory.
    f.if_(BlockType::Empty).i32_const(-1).i64_load(at(0)).drop().unreachable().end();
}

/// What `then` emits is done, and the function left, when the length is greater than `bytes`.
fn when_length_above(f: &mut InstructionSink<'_>, bytes: u64, then: impl FnOnce(&mut InstructionSink<'_>)) {
    f.local_get(LENGTH).i32_const(bytes as i32).i32_gt_u().if_(BlockType::Empty);
    then(f);
    f.return_().end();
}
