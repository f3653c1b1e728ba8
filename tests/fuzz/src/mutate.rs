//! Mutations of texts and bytes.

use crate::Random;

/// Characters that parsers tend to forget: other spaces, marks, both directions, surrogates' neighbours, case changes
/// that alter the length.
const ODD: &[&str] = &[
    "\0",
    "\u{7f}",
    "\u{85}",
    "\u{a0}",
    "\u{ad}",
    "\u{200b}",
    "\u{200d}",
    "\u{202e}",
    "\u{2028}",
    "\u{2029}",
    "\u{2066}",
    "\u{feff}",
    "\u{fffd}",
    "\u{ffff}",
    "\u{10ffff}",
    "\u{3000}",
    "é",
    "e\u{301}",
    "ß",
    "İ",
    "ǆ",
    "ﬃ",
    "大",
    "😀",
    "👩‍👩‍👧",
    "\u{1b}[31m",
    "\u{9b}",
    "\u{8}",
    "\r",
    "\r\n",
    "\t",
    "\u{b}",
    "\u{c}",
];

/// Numbers at the edges of the types that hold them.
const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "-1",
    "1",
    "00",
    "127",
    "128",
    "255",
    "256",
    "32768",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "4294967295",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999",
    "1e308",
    "1e309",
    "-1e309",
    "1e-400",
    "0.1",
    ".5",
    "5.",
    "1e",
    "0x10",
    "1_000",
    "٣",
    "NaN",
    "inf",
];

/// What opens something, for nesting.
const OPENERS: &[&str] = &[
    "{",
    "[",
    "(",
    "<",
    "\"",
    "'",
    "!",
    "!(",
    "[[",
    "{\"a\":",
    "[{",
    "- ",
    "/*",
    "{{",
    "{% if a %}",
    "subgraph {",
    "((",
];

/// Bytes that mean something to one language or another.
const SIGNS: &[u8] = b"{}[]()<>\"'`\\;,:=-+*/#.|&!?%$@~^_ \t\r\n\0\x1b\xff\xc0\x80a0Z9";

/// Changes a text in one to six places.
pub fn mutate(mut bytes: Vec<u8>, random: &mut Random, words: &[&str], corpus: &[Vec<u8>]) -> Vec<u8> {
    for _ in 0..=random.weighted(&[40, 25, 15, 10, 6, 4]) {
        one(&mut bytes, random, words, corpus);
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}

fn one(bytes: &mut Vec<u8>, random: &mut Random, words: &[&str], corpus: &[Vec<u8>]) {
    let at = random.below(bytes.len() + 1);
    let length = 1 + match random.below(4) {
        0 => random.below(400),
        _ => random.below(24),
    };
    let end = (at + length).min(bytes.len());
    let inserted = |random: &mut Random, all: &[&str]| random.pick(all).as_bytes().to_vec();
    match random.weighted(&[10, 10, 12, 10, 12, 8, 12, 6, 6, 4, 2, 2, 1, 1, 4]) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        1 if at < bytes.len() => bytes[at] = *random.pick(SIGNS),
        0 | 1 => bytes.push(*random.pick(SIGNS)),
        2 => drop(bytes.drain(at..end)),
        3 => {
            let copy = bytes[at..end].to_vec();
            let to = random.below(bytes.len() + 1);
            bytes.splice(to..to, copy);
        }
        4 if !words.is_empty() => drop(bytes.splice(at..at, inserted(random, words))),
        5 => swap(bytes, random),
        6 if !words.is_empty() => {
            let all = tokens(bytes);
            if let Some(&(start, end)) = pick(random, &all) {
                drop(bytes.splice(start..end, inserted(random, words)));
            }
        }
        7 => drop(bytes.splice(at..at, inserted(random, ODD))),
        8 => {
            let all = tokens(bytes);
            let numbers: Vec<_> = all
                .into_iter()
                .filter(|(start, _)| bytes[*start].is_ascii_digit())
                .collect();
            let (start, end) = pick(random, &numbers).copied().unwrap_or((at, at));
            drop(bytes.splice(start..end, inserted(random, NUMBERS)));
        }
        9 => bytes.truncate(at),
        10 => *bytes = other_line_ends(bytes),
        11 => drop(bytes.splice(0..0, *b"\xef\xbb\xbf")),
        12 => {
            let opener = inserted(random, OPENERS);
            let times = 1 << random.below(11);
            drop(bytes.splice(at..at, opener.repeat(times)));
        }
        13 => {
            let copy = bytes[at..end].repeat(1 << random.below(9));
            drop(bytes.splice(at..at, copy));
        }
        _ => {
            if let Some(other) = pick(random, corpus) {
                let from = random.below(other.len() + 1);
                let part = &other[from..(from + length).min(other.len())];
                drop(bytes.splice(at..end, part.iter().copied()));
            }
        }
    }
}

/// Bytes of one class, words of the target, or anything.
pub fn raw(random: &mut Random, words: &[&str]) -> Vec<u8> {
    let length = match random.below(10) {
        0 => random.below(2_000),
        1 => random.below(3),
        _ => random.below(80),
    };
    let mut bytes = Vec::new();
    let class = random.below(4);
    while bytes.len() < length {
        match class {
            0 => bytes.push(random.below(256) as u8),
            1 => bytes.push(*random.pick(SIGNS)),
            2 => bytes.push(b' ' + random.below(95) as u8),
            _ => match random.below(8) {
                0 => bytes.extend_from_slice(random.pick(ODD).as_bytes()),
                1 => bytes.extend_from_slice(random.pick(NUMBERS).as_bytes()),
                2 => bytes.push(*random.pick(SIGNS)),
                _ if words.is_empty() => bytes.push(b' '),
                _ => {
                    bytes.extend_from_slice(random.pick(words).as_bytes());
                    if random.chance(60) {
                        bytes.push(b' ');
                    }
                }
            },
        }
    }
    bytes
}

fn pick<'t, T>(random: &mut Random, all: &'t [T]) -> Option<&'t T> {
    (!all.is_empty()).then(|| random.pick(all))
}

fn swap(bytes: &mut Vec<u8>, random: &mut Random) {
    let all = tokens(bytes);
    let (Some(&one), Some(&two)) = (pick(random, &all), pick(random, &all)) else {
        return;
    };
    let (first, second) = (one.min(two), one.max(two));
    if first.1 <= second.0 {
        let moved = [
            &bytes[second.0..second.1],
            &bytes[first.1..second.0],
            &bytes[first.0..first.1],
        ]
        .concat();
        drop(bytes.splice(first.0..second.1, moved));
    }
}

fn other_line_ends(bytes: &[u8]) -> Vec<u8> {
    let lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    lines.join(&b"\r\n"[..])
}

/// The bounds of a text's words and signs.
fn tokens(text: &[u8]) -> Vec<(usize, usize)> {
    let class = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80 => 0,
        byte if byte.is_ascii_whitespace() => 1,
        _ => 2,
    };
    let mut found = Vec::new();
    let mut start = 0;
    for at in 1..=text.len() {
        if at == text.len() || class(text[at]) != class(text[start]) || class(text[at]) == 2 {
            found.push((start, at));
            start = at;
        }
    }
    found
}
