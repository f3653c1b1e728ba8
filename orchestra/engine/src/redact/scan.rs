//! The search for secrets, in all their forms, in a text that arrives in pieces.
//!
//! A text is decoded in four ways at once: unchanged, with its escapes decoded, as quoted-printable, and as the columns
//! of a hexadecimal dump. The text with decoded escapes is also read as base64 and as hexadecimal digits. Each reading
//! feeds an automaton of all secrets with canonical symbols and skips separators, such as the ends of wrapped lines. So
//! the time is linear in the length of the text in any form, and only a possible beginning of a secret is held back.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use aho_corasick::automaton::{Automaton as _, StateID};
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Anchored, BuildError};

use super::decode::{self, Decoded};
use super::forms::{self, Forms};

/// Maximum number of consecutive bytes that separate two symbols of one secret.
const LONGEST_GAP: usize = 128;
/// Maximum number of characters of a secret that may be shown if a line ends after them.
const FEW: usize = 3;
/// Maximum number of bytes after the columns of a dump on the same line.
const LONGEST_TAIL: usize = 256;

/// The automata of all secrets.
pub(super) struct Automata {
    plain: Automaton,
    escaped: Automaton,
    base64: Automaton,
    hex: Automaton,
    shortest: usize,
}

impl Automata {
    pub(super) fn new(forms: &Forms) -> Result<Automata, BuildError> {
        let all = [&forms.plain, &forms.escaped, &forms.base64, &forms.hex];
        let lengths = all.into_iter().flatten().map(Vec::len);
        Ok(Automata {
            shortest: lengths.min().unwrap_or(usize::MAX),
            plain: Automaton::new(&forms.plain)?,
            escaped: Automaton::new(&forms.escaped)?,
            base64: Automaton::new(&forms.base64)?,
            hex: Automaton::new(&forms.hex)?,
        })
    }

    /// Returns the length of the shortest text that can contain a secret.
    pub(super) fn shortest(&self) -> usize {
        self.shortest
    }
}

/// An automaton that maps its states to the number of matched symbols.
struct Automaton {
    transitions: NFA,
    start: StateID,
    depths: HashMap<StateID, usize>,
    /// The length of the longest secret, rounded up to a power of two.
    window: usize,
    /// The symbols with which a secret begins.
    first: [bool; 256],
}

impl Automaton {
    fn new(patterns: &std::collections::BTreeSet<Vec<u8>>) -> Result<Automaton, BuildError> {
        let transitions = NFA::builder().prefilter(false).build(patterns)?;
        let start = transitions.start_state(Anchored::No).unwrap_or_default();
        let mut depths = HashMap::new();
        for pattern in patterns {
            let mut state = start;
            for (position, byte) in pattern.iter().enumerate() {
                state = transitions.next_state(Anchored::No, state, *byte);
                depths.insert(state, position + 1);
            }
        }
        let mut first = [false; 256];
        for byte in patterns.iter().filter_map(|pattern| pattern.first()) {
            first[usize::from(*byte)] = true;
        }
        let longest = patterns.iter().map(Vec::len).max().unwrap_or_default();
        Ok(Automaton {
            transitions,
            start,
            depths,
            window: longest.next_power_of_two(),
            first,
        })
    }
}

/// The state of an automaton in a text.
#[derive(Clone, Debug)]
struct Track {
    state: StateID,
    /// The positions of the last symbols, as a ring buffer.
    begins: Vec<usize>,
    count: usize,
    gap: usize,
}

impl Track {
    fn new(automaton: &Automaton) -> Track {
        Track {
            state: automaton.start,
            begins: Vec::new(),
            count: 0,
            gap: 0,
        }
    }

    /// Processes a symbol at position `begin`. Returns the position of the longest secret that ends with it.
    #[inline]
    fn step(&mut self, automaton: &Automaton, symbol: u8, begin: usize) -> Option<usize> {
        self.gap = 0;
        if self.state == automaton.start && !automaton.first[usize::from(symbol)] {
            return None;
        }
        let transitions = &automaton.transitions;
        self.state = transitions.next_state(Anchored::No, self.state, symbol);
        if self.state == automaton.start {
            return None;
        }
        if self.begins.is_empty() {
            self.begins.resize(automaton.window, 0);
        }
        if let Some(position) = self.begins.get_mut(self.count & (automaton.window - 1)) {
            *position = begin;
        }
        self.count += 1;
        if !transitions.is_match(self.state) {
            return None;
        }
        let ending = (0..transitions.match_len(self.state))
            .map(|index| transitions.pattern_len(transitions.match_pattern(self.state, index)));
        self.begin_of(automaton, ending.max()?)
    }

    /// Processes a byte that only separates symbols. `end` is the position after it.
    #[inline]
    fn separate(&mut self, automaton: &Automaton, byte: u8, end: usize) {
        self.gap += 1;
        if self.gap > LONGEST_GAP {
            self.reset(automaton);
        } else if byte == b'\n' && self.gap <= 2 && self.state != automaton.start {
            self.end_line(automaton, end);
        }
    }

    /// Processes the end of a line. If only a few characters of a possible secret have been matched, they are not held
    /// back, because that would happen in most lines. The secret is still found from the next line on.
    fn end_line(&mut self, automaton: &Automaton, end: usize) {
        let depth = automaton.depths.get(&self.state).copied().unwrap_or_default();
        if depth > FEW {
            return;
        }
        for symbol in self.count.saturating_sub(depth)..self.count {
            if let Some(begin) = self.begins.get_mut(symbol & (automaton.window - 1)) {
                *begin = end;
            }
        }
    }

    /// Processes a byte that is not part of any secret.
    #[inline]
    fn reset(&mut self, automaton: &Automaton) {
        self.state = automaton.start;
        self.gap = 0;
    }

    fn begin_of(&self, automaton: &Automaton, symbols: usize) -> Option<usize> {
        let position = self.count.checked_sub(symbols)?;
        self.begins.get(position & (automaton.window - 1)).copied()
    }

    /// Returns the position of a possible secret that is not complete yet.
    fn held(&self, automaton: &Automaton) -> Option<usize> {
        self.held_in(automaton, (self.state, self.count))
    }

    fn held_in(&self, automaton: &Automaton, (state, count): (StateID, usize)) -> Option<usize> {
        let position = count.checked_sub(*automaton.depths.get(&state)?)?;
        self.begins.get(position & (automaton.window - 1)).copied()
    }
}

/// The state within a line of a dump.
#[derive(Clone, Debug)]
enum Dump {
    /// In the offset at its beginning, after this number of digits.
    Offset(usize),
    /// In its columns. `colon` says whether a colon follows the offset, `blanks` counts the preceding blanks.
    Columns { colon: bool, blanks: usize },
    /// After its columns, by this number of bytes.
    Tail(usize),
}

/// The search for secrets in a text. All positions are offsets in the whole text.
#[derive(Clone)]
pub(super) struct Scan {
    automata: Arc<Automata>,
    /// The position of each reading.
    plain_at: usize,
    escaped_at: usize,
    quoted_at: usize,
    dump_at: usize,
    plain: Track,
    quoted: Track,
    escaped: Track,
    base64: Track,
    hex: Track,
    /// The state before a zero that may begin the prefix `0x`.
    before_zero: Option<(StateID, usize)>,
    dumped: Track,
    dump: Dump,
    /// The position of a secret in a dump whose last line has not ended yet.
    dump_begin: Option<usize>,
    /// The ranges of found secrets, in no particular order.
    pub(super) found: Vec<Range<usize>>,
}

impl Scan {
    pub(super) fn new(automata: &Arc<Automata>) -> Scan {
        Scan {
            plain_at: 0,
            escaped_at: 0,
            quoted_at: 0,
            dump_at: 0,
            plain: Track::new(&automata.plain),
            quoted: Track::new(&automata.plain),
            escaped: Track::new(&automata.escaped),
            base64: Track::new(&automata.base64),
            hex: Track::new(&automata.hex),
            before_zero: None,
            dumped: Track::new(&automata.hex),
            dump: Dump::Offset(0),
            dump_begin: None,
            found: Vec::new(),
            automata: automata.clone(),
        }
    }

    /// Continues the search in `text`, which begins at position `base`. `last` is `true` if no text follows.
    pub(super) fn read(&mut self, text: &[u8], base: usize, last: bool) {
        let automata = self.automata.clone();
        self.read_plain(&automata, text, base);
        self.read_quoted(&automata, text, base, last);
        self.read_escaped(&automata, text, base, last);
        self.read_dump(&automata, text, base, last);
    }

    /// Returns the position before which no undetected secret can begin.
    pub(super) fn scanned_upto(&self) -> usize {
        let automata = &*self.automata;
        let held = [
            self.plain.held(&automata.plain),
            self.quoted.held(&automata.plain),
            self.escaped.held(&automata.escaped),
            self.base64.held(&automata.base64),
            self.hex.held(&automata.hex),
            self.before_zero
                .and_then(|before| self.hex.held_in(&automata.hex, before)),
            self.dumped.held(&automata.hex),
            self.dump_begin,
        ];
        let read = [self.plain_at, self.escaped_at, self.quoted_at, self.dump_at];
        held.into_iter().flatten().chain(read).min().unwrap_or_default()
    }

    fn read_plain(&mut self, automata: &Automata, text: &[u8], base: usize) {
        for (position, byte) in text.iter().enumerate().skip(self.plain_at - base) {
            let at = base + position;
            if forms::is_dropped(*byte) {
                self.plain.separate(&automata.plain, *byte, at + 1);
            } else if let Some(begin) = self.plain.step(&automata.plain, *byte, at) {
                self.found.push(begin..at + 1);
            }
        }
        self.plain_at = base + text.len();
    }

    fn read_quoted(&mut self, automata: &Automata, text: &[u8], base: usize, last: bool) {
        let mut position = self.quoted_at - base;
        while let Some(byte) = text.get(position) {
            let (byte, length) = match byte {
                b'=' => match decode::quoted(text.get(position..).unwrap_or_default(), last) {
                    Decoded::Wait => break,
                    Decoded::Bytes { count: 0, length, .. } => (b'\n', length),
                    Decoded::Bytes {
                        bytes: [byte, ..],
                        length,
                        ..
                    } => (byte, length),
                },
                byte => (*byte, 1),
            };
            if forms::is_dropped(byte) {
                self.quoted
                    .separate(&automata.plain, byte, base + position + length);
            } else if let Some(begin) = self.quoted.step(&automata.plain, byte, base + position) {
                self.found.push(begin..base + position + length);
            }
            position += length;
        }
        self.quoted_at = base + position;
    }

    fn read_escaped(&mut self, automata: &Automata, text: &[u8], base: usize, last: bool) {
        let mut position = self.escaped_at - base;
        while let Some(byte) = text.get(position) {
            if !decode::begins_escape(*byte) {
                self.decoded(automata, *byte, base + position..base + position + 1);
                position += 1;
                continue;
            }
            match decode::escape(text.get(position..).unwrap_or_default(), last) {
                Decoded::Wait => break,
                Decoded::Bytes { bytes, count, length } => {
                    for byte in bytes.into_iter().take(count) {
                        self.decoded(automata, byte, base + position..base + position + length);
                    }
                    position += length;
                }
            }
        }
        self.escaped_at = base + position;
    }

    /// Processes a decoded byte and its range in the text.
    #[inline]
    fn decoded(&mut self, automata: &Automata, byte: u8, at: Range<usize>) {
        match forms::escaped_symbol(byte) {
            None => self.escaped.separate(&automata.escaped, byte, at.end),
            Some(symbol) => {
                if let Some(begin) = self.escaped.step(&automata.escaped, symbol, at.start) {
                    self.found.push(begin..at.end);
                }
            }
        }
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' | b'-' | b'_' => {
                let symbol = forms::base64_symbol(byte);
                if let Some(begin) = self.base64.step(&automata.base64, symbol, at.start) {
                    self.found.push(begin..at.end);
                }
            }
            b'\t'..=b'\r' | b' ' | b'\\' => self.base64.separate(&automata.base64, byte, at.end),
            _ => self.base64.reset(&automata.base64),
        }
        match byte {
            b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F' => {
                self.before_zero = (byte == b'0').then_some((self.hex.state, self.hex.count));
                let symbol = byte.to_ascii_lowercase();
                if let Some(begin) = self.hex.step(&automata.hex, symbol, at.start) {
                    self.found.push(begin..at.end);
                }
            }
            b'x' | b'X' => {
                if let Some((state, count)) = self.before_zero.take() {
                    (self.hex.state, self.hex.count) = (state, count);
                }
                self.hex.separate(&automata.hex, byte, at.end);
            }
            b'\t'..=b'\r'
            | b' '
            | b':'
            | b'-'
            | b','
            | b';'
            | b'.'
            | b'_'
            | b'\\'
            | b'"'
            | b'\''
            | b'+'
            | b'('
            | b')'
            | b'['
            | b']'
            | b'{'
            | b'}' => self.hex.separate(&automata.hex, byte, at.end),
            _ => {
                self.before_zero = None;
                self.hex.reset(&automata.hex);
            }
        }
    }

    fn read_dump(&mut self, automata: &Automata, text: &[u8], base: usize, last: bool) {
        for (position, byte) in text.iter().enumerate().skip(self.dump_at - base) {
            let at = base + position;
            if *byte == b'\n' {
                self.end_of_dump(at);
                self.dump = Dump::Offset(0);
                continue;
            }
            let next = match (&self.dump, byte) {
                (Dump::Offset(0), b' ' | b'\t') => continue,
                (Dump::Offset(digits), b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') if *digits < 16 => {
                    Dump::Offset(digits + 1)
                }
                (Dump::Offset(4..), b':' | b' ') => Dump::Columns {
                    colon: *byte == b':',
                    blanks: 0,
                },
                (Dump::Offset(_), _) => {
                    self.dumped.reset(&automata.hex);
                    Dump::Tail(0)
                }
                // Two blanks end the columns of `xxd`. Those of `hexdump` and `od` end with another byte.
                (
                    Dump::Columns {
                        colon: true,
                        blanks: 1..,
                    },
                    b' ',
                ) => Dump::Tail(0),
                (Dump::Columns { colon, blanks }, b' ') => Dump::Columns {
                    colon: *colon,
                    blanks: blanks + 1,
                },
                (Dump::Columns { colon, .. }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                    let colon = *colon;
                    let symbol = byte.to_ascii_lowercase();
                    if let Some(begin) = self.dumped.step(&automata.hex, symbol, at) {
                        self.dump_begin = Some(self.dump_begin.map_or(begin, |known| known.min(begin)));
                    }
                    Dump::Columns { colon, blanks: 0 }
                }
                (Dump::Columns { .. }, _) => Dump::Tail(0),
                (Dump::Tail(length), _) if *length < LONGEST_TAIL => Dump::Tail(length + 1),
                (Dump::Tail(_), _) => {
                    self.dumped.reset(&automata.hex);
                    self.end_of_dump(at);
                    continue;
                }
            };
            self.dump = next;
        }
        self.dump_at = base + text.len();
        if last {
            self.end_of_dump(self.dump_at);
        }
    }

    /// Ends a line of a dump. Extends a secret to the end of the line, because the text after the columns repeats them.
    fn end_of_dump(&mut self, at: usize) {
        self.found.extend(self.dump_begin.take().map(|begin| begin..at));
    }
}
