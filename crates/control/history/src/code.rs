//! A number in 12 bits: exact below 128, and above that its highest seven bits, so that it is wrong by at
//! most one part in 128.

/// Numbers below this are exact.
const EXACT: u64 = 128;
/// Bits behind the first.
const BITS: u32 = 6;

/// The code of a number.
#[must_use]
pub fn encode(value: u64) -> u16 {
    if value < EXACT {
        return value as u16;
    }
    let exponent = 63 - value.leading_zeros();
    let shift = exponent - BITS;
    // The nearest; the one above all is a power of two of its own.
    let rounded = (value >> shift) + ((value >> (shift - 1)) & 1);
    let (exponent, rest) = match rounded {
        128 => (exponent + 1, 0),
        seven => (exponent, seven - 64),
    };
    (EXACT + u64::from(exponent - 7) * 64 + rest) as u16
}

/// The number of a code.
#[must_use]
pub fn decode(code: u16) -> u64 {
    let code = u64::from(code);
    if code < EXACT {
        return code;
    }
    let (exponent, rest) = ((code - EXACT) / 64 + 7, (code - EXACT) % 64);
    // The largest code stands for 2^64 and is shown as the largest number.
    match exponent {
        64.. => u64::MAX,
        _ => (64 + rest) << (exponent - u64::from(BITS)),
    }
}
