//! The forms of secrets in the automata, without bytes that only separate symbols.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::decode::{self, Decoded};

/// Minimum length of a secret in bytes. Shorter values occur everywhere.
const SHORTEST: usize = 4;
/// Common words, which never count as secrets.
const WORDS: [&str; 6] = ["true", "false", "null", "none", "None", "undefined"];
/// Minimum length in bytes of a secret with encoded forms. Shorter forms would match unrelated texts.
const SHORTEST_ENCODED: usize = 6;
/// Minimum length of a piece of base64.
const SHORTEST_BASE64: usize = 6;
/// Minimum length in bytes of a secret that is also searched in reverse.
const SHORTEST_REVERSED: usize = 8;
/// Minimum length in bytes of a line that counts as a secret of its own.
const SHORTEST_LINE: usize = 16;
/// The length in bytes of the pieces of a longer secret. It bounds the text that is held back.
const PIECE: usize = 128;

/// The forms of some secrets, grouped by the reading in which they are searched.
#[derive(Default)]
pub(super) struct Forms {
    /// The forms in the unchanged bytes of a text.
    pub(super) plain: BTreeSet<Vec<u8>>,
    /// The forms in the text with decoded escapes, as [`escaped_symbol`]s.
    pub(super) escaped: BTreeSet<Vec<u8>>,
    /// The forms in base64, as [`base64_symbol`]s.
    pub(super) base64: BTreeSet<Vec<u8>>,
    /// The forms in hexadecimal digits, in lower case.
    pub(super) hex: BTreeSet<Vec<u8>>,
}

impl Forms {
    pub(super) fn is_empty(&self) -> bool {
        self.plain.is_empty()
    }

    /// Adds a secret and each of its longer lines.
    pub(super) fn add(&mut self, secret: &str) {
        let secret = secret.trim();
        if secret.len() < SHORTEST || WORDS.contains(&secret) {
            return;
        }
        self.add_pieces(secret.as_bytes());
        let lines = secret.lines().map(str::trim);
        for line in lines.filter(|line| line.len() >= SHORTEST_LINE && line.len() < secret.len()) {
            self.add_pieces(line.as_bytes());
        }
        self.add_utf16(secret);
    }

    fn add_pieces(&mut self, secret: &[u8]) {
        let mut rest = secret;
        while rest.len() >= 2 * PIECE {
            let (piece, after) = rest.split_at(PIECE);
            self.add_piece(piece);
            rest = after;
        }
        self.add_piece(rest);
    }

    fn add_piece(&mut self, piece: &[u8]) {
        let plain: Vec<u8> = piece.iter().copied().filter(|byte| !is_dropped(*byte)).collect();
        insert(&mut self.escaped, escaped(piece));
        if piece.len() >= SHORTEST_ENCODED {
            self.add_base64(piece);
            insert(&mut self.hex, hex(piece.iter()));
            // In words of two bytes with the lower byte first, as `hexdump` and `od -x` write them on most machines.
            for from in [0, 1] {
                let words = piece.get(from..).unwrap_or_default().chunks_exact(2);
                if words.len() * 2 >= SHORTEST_ENCODED {
                    insert(&mut self.hex, hex(words.flat_map(|word| word.iter().rev())));
                }
            }
        }
        if piece.len() >= SHORTEST_REVERSED {
            insert(&mut self.plain, plain.iter().rev().copied().collect());
        }
        insert(&mut self.plain, plain);
    }

    /// Adds the part of the base64 of any surrounding text that depends only on the secret, for each alignment to three
    /// bytes.
    fn add_base64(&mut self, secret: &[u8]) {
        for shift in 0..3 {
            let mut shifted = vec![0; shift];
            shifted.extend_from_slice(secret);
            // The first and the last characters also depend on the adjacent text.
            let first = (shift * 8).div_ceil(6);
            let whole = shifted.len() * 8 / 6;
            let encoded = STANDARD_NO_PAD.encode(&shifted);
            let inner = encoded.get(first..whole).unwrap_or_default();
            if inner.len() >= SHORTEST_BASE64 {
                self.base64.insert(inner.as_bytes().to_vec());
            }
        }
    }

    fn add_utf16(&mut self, secret: &str) {
        let piece = secret.floor_char_boundary(PIECE);
        let units: Vec<u16> = secret.get(..piece).unwrap_or_default().encode_utf16().collect();
        let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
        let big = units.iter().flat_map(|unit| unit.to_be_bytes());
        let without = |bytes: &mut dyn Iterator<Item = u8>| bytes.filter(|byte| !is_dropped(*byte)).collect();
        if units.len() >= SHORTEST_ENCODED {
            self.add_base64(&little);
            insert(&mut self.plain, without(&mut little.into_iter()));
            insert(&mut self.plain, without(&mut big.into_iter()));
        }
    }
}

/// Returns whether a byte is skipped: the end of a wrapped line, or the second byte of a letter in UTF-16.
#[inline]
pub(super) fn is_dropped(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r' | 0)
}

/// Returns the symbol of a decoded byte, or `None` if it is skipped. A plus means a blank in web forms. Backslashes are
/// skipped because their number depends on how often the text is encoded.
#[inline]
pub(super) fn escaped_symbol(byte: u8) -> Option<u8> {
    match byte {
        b'\\' => None,
        b'+' => Some(b' '),
        byte => (!is_dropped(byte)).then_some(byte),
    }
}

/// Maps a letter of the URL alphabet of base64 to that of the standard alphabet.
#[inline]
pub(super) fn base64_symbol(byte: u8) -> u8 {
    match byte {
        b'-' => b'+',
        b'_' => b'/',
        byte => byte,
    }
}

fn escaped(secret: &[u8]) -> Vec<u8> {
    let (mut rest, mut symbols) = (secret, Vec::with_capacity(secret.len()));
    while let Some((first, after)) = rest.split_first() {
        if !decode::begins_escape(*first) {
            symbols.extend(escaped_symbol(*first));
            rest = after;
            continue;
        }
        let Decoded::Bytes { bytes, count, length } = decode::escape(rest, true) else {
            break;
        };
        symbols.extend(bytes.into_iter().take(count).filter_map(escaped_symbol));
        rest = rest.get(length..).unwrap_or_default();
    }
    symbols
}

fn hex<'b>(bytes: impl Iterator<Item = &'b u8>) -> Vec<u8> {
    let digits = bytes.flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .map(|digit| digit as u8)
        .collect()
}

fn insert(forms: &mut BTreeSet<Vec<u8>>, form: Vec<u8>) {
    if form.len() >= SHORTEST {
        forms.insert(form);
    }
}
