//! Finds secrets in a text that comes in pieces, in whatever form they stand there.
//!
//! A text is read in four ways at once: as it is, with its escapes decoded, as quoted-printable, and as the columns of a
//! hexadecimal dump. What is decoded is read as base64 and as hexadecimal, too. Each reading gives canonical symbols
//! without what only separates them, such as the ends of wrapped lines, to an automaton of all secrets. So the time is
//! linear in the text whatever its form, and no more of it is kept than what may be the beginning of a secret.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use aho_corasick::automaton::{Automaton as _, StateID};
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Anchored, BuildError};

use super::decode::{self, Decoded};
use super::forms::{self, Forms};

/// How many bytes in a row may separate two symbols of one secret.
const LONGEST_GAP: usize = 128;
/// How many characters of a secret may be shown where a line ends behind them.
const FEW: usize = 3;
/// How many bytes may follow the columns of a dump on their line.
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

    /// Returns how long a text must be to hold a secret.
    pub(super) fn shortest(&self) -> usize {
        self.shortest
    }
}

/// One automaton, whose states know how far into a secret they are.
struct Automaton {
    transitions: NFA,
    start: StateID,
    depths: HashMap<StateID, usize>,
    /// The length of the longest secret, as a power of two.
    window: usize,
    /// With which symbols a secret begins.
    first: [bool; 256],
}

impl Automaton {
    fn new(patterns: &std::collections::BTreeSet<Vec<u8>>) -> Result<Automaton, BuildError> {
        let transitions = NFA::builder().prefilter(false).build(patterns)?;
        let start = transitions.start_state(Anchored::No).unwrap_or_default();
        let mut depths = HashMap::new();
        for pattern in patterns {
            let mut state = start;
            for (place, byte) in pattern.iter().enumerate() {
                state = transitions.next_state(Anchored::No, state, *byte);
                depths.insert(state, place + 1);
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
    /// Where the last symbols begin.
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

    /// Takes a symbol that begins at `begin`, and returns where the longest secret begins that ends with it.
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
        if let Some(place) = self.begins.get_mut(self.count & (automaton.window - 1)) {
            *place = begin;
        }
        self.count += 1;
        if !transitions.is_match(self.state) {
            return None;
        }
        let ending = (0..transitions.match_len(self.state))
            .map(|index| transitions.pattern_len(transitions.match_pattern(self.state, index)));
        self.begin_of(automaton, ending.max()?)
    }

    /// Takes a byte that only separates symbols, and ends at `end`.
    #[inline]
    fn separate(&mut self, automaton: &Automaton, byte: u8, end: usize) {
        self.gap += 1;
        if self.gap > LONGEST_GAP {
            self.reset(automaton);
        } else if byte == b'\n' && self.gap <= 2 && self.state != automaton.start {
            self.end_line(automaton, end);
        }
    }

    /// Ends a line. Its last characters are not held back when they are few, since they would be in most lines; a secret of
    /// which they are the beginning is found from the next line on.
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

    /// Takes a byte that is part of no secret.
    #[inline]
    fn reset(&mut self, automaton: &Automaton) {
        self.state = automaton.start;
        self.gap = 0;
    }

    fn begin_of(&self, automaton: &Automaton, symbols: usize) -> Option<usize> {
        let place = self.count.checked_sub(symbols)?;
        self.begins.get(place & (automaton.window - 1)).copied()
    }

    /// Returns where a secret may begin of which the end is not known yet.
    fn held(&self, automaton: &Automaton) -> Option<usize> {
        self.held_in(automaton, (self.state, self.count))
    }

    fn held_in(&self, automaton: &Automaton, (state, count): (StateID, usize)) -> Option<usize> {
        let place = count.checked_sub(*automaton.depths.get(&state)?)?;
        self.begins.get(place & (automaton.window - 1)).copied()
    }
}

/// Where a line of a dump is read.
#[derive(Clone, Debug)]
enum Dump {
    /// In the number at its beginning, of so many digits by now.
    Offset(usize),
    /// In its columns; the number was followed by a colon, and so many blanks come before this.
    Columns { colon: bool, blanks: usize },
    /// Behind its columns, by so many bytes.
    Tail(usize),
}

/// A text in which secrets are sought. Positions count from its beginning, whatever pieces it comes in.
#[derive(Clone)]
pub(super) struct Scan {
    automata: Arc<Automata>,
    /// How far each reading has come.
    plain_at: usize,
    escaped_at: usize,
    quoted_at: usize,
    dump_at: usize,
    plain: Track,
    quoted: Track,
    escaped: Track,
    base64: Track,
    hex: Track,
    /// The state before a zero which may begin the prefix `0x`.
    before_zero: Option<(StateID, usize)>,
    dumped: Track,
    dump: Dump,
    /// Where a secret begins whose last line in a dump is not over yet.
    dump_begin: Option<usize>,
    /// Where secrets were found, in no order.
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

    /// Reads on in `text`, which begins at the position `base`; `last` says that nothing follows.
    pub(super) fn read(&mut self, text: &[u8], base: usize, last: bool) {
        let automata = self.automata.clone();
        self.read_plain(&automata, text, base);
        self.read_quoted(&automata, text, base, last);
        self.read_escaped(&automata, text, base, last);
        self.read_dump(&automata, text, base, last);
    }

    /// Returns the position before which nothing can be part of a secret that is not found yet.
    pub(super) fn settled(&self) -> usize {
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
        for (place, byte) in text.iter().enumerate().skip(self.plain_at - base) {
            let at = base + place;
            if forms::is_dropped(*byte) {
                self.plain.separate(&automata.plain, *byte, at + 1);
            } else if let Some(begin) = self.plain.step(&automata.plain, *byte, at) {
                self.found.push(begin..at + 1);
            }
        }
        self.plain_at = base + text.len();
    }

    fn read_quoted(&mut self, automata: &Automata, text: &[u8], base: usize, last: bool) {
        let mut place = self.quoted_at - base;
        while let Some(byte) = text.get(place) {
            let (byte, length) = match byte {
                b'=' => match decode::quoted(text.get(place..).unwrap_or_default(), last) {
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
                self.quoted.separate(&automata.plain, byte, base + place + length);
            } else if let Some(begin) = self.quoted.step(&automata.plain, byte, base + place) {
                self.found.push(begin..base + place + length);
            }
            place += length;
        }
        self.quoted_at = base + place;
    }

    fn read_escaped(&mut self, automata: &Automata, text: &[u8], base: usize, last: bool) {
        let mut place = self.escaped_at - base;
        while let Some(byte) = text.get(place) {
            if !decode::begins_escape(*byte) {
                self.decoded(automata, *byte, base + place..base + place + 1);
                place += 1;
                continue;
            }
            match decode::escape(text.get(place..).unwrap_or_default(), last) {
                Decoded::Wait => break,
                Decoded::Bytes { bytes, count, length } => {
                    for byte in bytes.into_iter().take(count) {
                        self.decoded(automata, byte, base + place..base + place + length);
                    }
                    place += length;
                }
            }
        }
        self.escaped_at = base + place;
    }

    /// Takes a byte that stands at these positions, decoded.
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
        for (place, byte) in text.iter().enumerate().skip(self.dump_at - base) {
            let at = base + place;
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
                // Two blanks end the columns of `xxd`; those of `hexdump` and `od` end with another byte.
                (Dump::Columns { colon, blanks }, b' ') => match colon {
                    true if *blanks > 0 => Dump::Tail(0),
                    colon => Dump::Columns {
                        colon: *colon,
                        blanks: blanks + 1,
                    },
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

    /// Ends a line of a dump: what stands behind its columns tells the same as they do.
    fn end_of_dump(&mut self, at: usize) {
        self.found.extend(self.dump_begin.take().map(|begin| begin..at));
    }
}
