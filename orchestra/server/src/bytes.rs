//! Hexadecimal digits, and the comparison of secrets.

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// Returns bytes as hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the bytes that hexadecimal digits stand for. Returns `None` for other texts.
pub(crate) fn from_hexadecimal(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
        _ => None,
    });
    pairs.collect()
}

/// Returns whether two secrets are the same, in a time that does not depend on the difference.
pub(crate) fn is_same_secret(own: &[u8], other: &[u8]) -> bool {
    let [own, other] = [own, other].map(Sha256::digest);
    own.as_slice().ct_eq(other.as_slice()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_stand_for_bytes() {
        let bytes = [0, 15, 16, 255];
        assert_eq!(hexadecimal(&bytes), "000f10ff");
        assert_eq!(from_hexadecimal(b"000f10FF").as_deref(), Some(&bytes[..]));
        for text in ["0", "0g", "+1", "é"] {
            assert_eq!(from_hexadecimal(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn secrets_are_the_same_only_as_a_whole() {
        assert!(is_same_secret(b"abc", b"abc"));
        assert!(!is_same_secret(b"abc", b"ab") && !is_same_secret(b"abc", b"abd"));
    }
}
