//! Numbers as characters of a byte string. rustc checks one byte string far faster than a list of numbers, of which each
//! is an expression.

/// The first of 64 characters that stand for themselves in a raw byte string.
pub(super) const ZERO: u8 = b'#';

/// Appends a number, five bits a character, the lowest first; all characters but the last have bit 5.
pub(super) fn push(mut number: u32, bytes: &mut Vec<u8>) {
    while number >= 0x20 {
        bytes.push(ZERO + (number as u8 & 0x1f | 0x20));
        number >>= 5;
    }
    bytes.push(ZERO + number as u8);
}

/// Takes the next number. A macro, because a constant that calls a function for each number takes longer to evaluate.
macro_rules! next {
    ($bytes:ident, $at:ident) => {{
        let mut digit = $bytes[*$at] - $crate::table::digits::ZERO;
        *$at += 1;
        let mut number = (digit & 0x1f) as u32;
        let mut shift = 5;
        while digit >= 0x20 {
            digit = $bytes[*$at] - $crate::table::digits::ZERO;
            *$at += 1;
            number |= ((digit & 0x1f) as u32) << shift;
            shift += 5;
        }
        number
    }};
}
pub(super) use next;
