//! Words of a command: quotes, expansions and substitutions.

use std::rc::Rc;

use super::syntax::{Operation, Parameter, Part, Text, Word};

/// Maximum depth of nested substitutions. A command that is nested deeper is not scanned.
pub(super) const MAX_DEPTH: usize = 64;

/// The reason for which a command is not scanned further.
#[derive(Debug)]
pub(super) struct Unsure;

pub(super) type Parsed<T> = Result<T, Unsure>;

/// A position in the text of a command.
pub(super) struct Cursor<'t> {
    pub(super) text: &'t Text,
    pub(super) at: usize,
    pub(super) depth: usize,
    /// The delimiters of the here-documents that begin after this line, and whether tabs before them are removed.
    pub(super) heredocs: Vec<(String, bool)>,
}

/// The end of a word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// White space or an operator.
    Blank,
    /// The brace that closes a parameter expansion.
    Brace,
}

impl<'t> Cursor<'t> {
    pub(super) fn new(text: &'t Text, depth: usize) -> Parsed<Cursor<'t>> {
        if depth > MAX_DEPTH {
            return Err(Unsure);
        }
        Ok(Cursor {
            text,
            at: 0,
            depth,
            heredocs: Vec::new(),
        })
    }

    pub(super) fn rest(&self) -> &'t str {
        self.text.text.get(self.at..).unwrap_or_default()
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.at += character.len_utf8();
        Some(character)
    }

    pub(super) fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// Skips blanks, continued lines and comments, but no line breaks.
    pub(super) fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t') => self.at += 1,
                Some('\\') if self.rest().starts_with("\\\n") => self.at += 2,
                Some('#') => self.at += self.rest().find('\n').unwrap_or(self.rest().len()),
                _ => return,
            }
        }
    }

    /// Parses a word. Returns `None` if an operator, a line break or the end comes first.
    pub(super) fn word(&mut self) -> Parsed<Option<Word>> {
        let begin = self.at;
        let word = self.parts(Until::Blank, false)?;
        Ok((self.at > begin).then_some(word))
    }

    fn parts(&mut self, until: Until, quoted: bool) -> Parsed<Word> {
        let mut word = Word::default();
        let mut literal = Text::default();
        while let Some(character) = self.peek() {
            let at = self.text.position(self.at);
            match (character, until) {
                (' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')', Until::Blank) => break,
                ('<' | '>', Until::Blank) => {
                    if !self.rest().starts_with("<(") && !self.rest().starts_with(">(") {
                        break;
                    }
                    flush(&mut word, &mut literal);
                    self.at += 1;
                    word.parts.push(self.substitution()?);
                }
                ('}', Until::Brace) => break,
                ('\\', _) => {
                    self.at += 1;
                    match self.next() {
                        Some('\n') => {}
                        Some(escaped) => literal.push(escaped, at + 1),
                        None => literal.push('\\', at),
                    }
                }
                ('\'', _) if !quoted => {
                    self.at += 1;
                    loop {
                        let at = self.text.position(self.at);
                        match self.next().ok_or(Unsure)? {
                            '\'' => break,
                            other => literal.push(other, at),
                        }
                    }
                    // Keeps an empty quoted word.
                    if literal.text.is_empty() {
                        word.parts.push(Part::Literal(Text::default()));
                    }
                }
                ('"', _) => {
                    self.at += 1;
                    flush(&mut word, &mut literal);
                    word.parts.push(Part::Literal(Text::default()));
                    self.double_quoted(&mut word)?;
                }
                ('`', _) => {
                    flush(&mut word, &mut literal);
                    word.parts.push(self.backquoted(quoted)?);
                }
                ('$', _) => {
                    flush(&mut word, &mut literal);
                    word.parts.push(self.dollar(quoted)?);
                }
                (other, _) => {
                    self.at += other.len_utf8();
                    literal.push(other, at);
                }
            }
        }
        flush(&mut word, &mut literal);
        Ok(word)
    }

    /// Parses to the closing double quote.
    fn double_quoted(&mut self, word: &mut Word) -> Parsed<()> {
        let mut literal = Text::default();
        loop {
            let at = self.text.position(self.at);
            match self.peek().ok_or(Unsure)? {
                '"' => {
                    self.at += 1;
                    flush(word, &mut literal);
                    return Ok(());
                }
                '\\' => {
                    self.at += 1;
                    match self.next().ok_or(Unsure)? {
                        '\n' => {}
                        escaped @ ('$' | '`' | '"' | '\\') => literal.push(escaped, at + 1),
                        other => {
                            literal.push('\\', at);
                            literal.push(other, at + 1);
                        }
                    }
                }
                '`' => {
                    flush(word, &mut literal);
                    word.parts.push(self.backquoted(true)?);
                }
                '$' => {
                    flush(word, &mut literal);
                    word.parts.push(self.dollar(true)?);
                }
                other => {
                    self.at += other.len_utf8();
                    literal.push(other, at);
                }
            }
        }
    }

    /// Parses what a dollar sign begins.
    fn dollar(&mut self, quoted: bool) -> Parsed<Part> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Unsure);
        }
        let part = self.expansion(quoted);
        self.depth -= 1;
        part
    }

    fn expansion(&mut self, quoted: bool) -> Parsed<Part> {
        let begin = self.at;
        self.at += 1;
        let rest = self.rest();
        if rest.starts_with("((") {
            return self.arithmetic("((", "))").map(Part::Arithmetic);
        }
        if rest.starts_with('(') {
            return self.substitution();
        }
        if rest.starts_with('{') {
            self.at += 1;
            return self.braced(begin, quoted);
        }
        // `$'..'` and `$".."` mean different things in different shells.
        if !quoted && rest.starts_with(['\'', '"']) {
            let mark = self.next();
            loop {
                let next = self.next().ok_or(Unsure)?;
                if next == '\\' {
                    self.next();
                } else if Some(next) == mark {
                    return Ok(Part::Unknown);
                }
            }
        }
        let name = self.name();
        let name = match (name, self.peek()) {
            ("", Some(special)) if "0123456789@*#?-$!".contains(special) => {
                self.at += 1;
                special.to_string()
            }
            ("", _) => {
                let mut text = Text::default();
                text.push('$', self.text.position(begin));
                return Ok(Part::Literal(text));
            }
            (name, _) => name.to_owned(),
        };
        Ok(self.parameter(name, begin, quoted, Operation::Value))
    }

    fn parameter(&self, name: String, begin: usize, quoted: bool, operation: Operation) -> Part {
        let last = self.at.saturating_sub(1);
        Part::Parameter(Parameter {
            name,
            range: self.text.position(begin)..self.text.position(last) + 1,
            quoted,
            operation,
        })
    }

    /// Parses the name of a variable; empty if there is none.
    pub(super) fn name(&mut self) -> &'t str {
        let rest = self.rest();
        let is_name =
            |(at, c): &(usize, char)| c.is_ascii_alphabetic() || *c == '_' || *at > 0 && c.is_ascii_digit();
        let length = rest.char_indices().take_while(is_name).count();
        self.at += length;
        rest.get(..length).unwrap_or_default()
    }

    /// Parses `${..}` after its opening brace.
    fn braced(&mut self, begin: usize, quoted: bool) -> Parsed<Part> {
        let is_length = self.rest().starts_with('#') && !self.rest().starts_with("#}");
        let is_indirect = self.rest().starts_with('!');
        self.at += usize::from(is_length || is_indirect);
        let mut name = self.name().to_owned();
        if name.is_empty() {
            let special = self.next().ok_or(Unsure)?;
            if !"0123456789@*#?-$".contains(special) {
                return Err(Unsure);
            }
            name.push(special);
            while let Some(digit) = self.peek().filter(char::is_ascii_digit) {
                self.at += 1;
                name.push(digit);
            }
        }
        let mut index = None;
        if self.rest().starts_with('[') {
            index = Some(self.arithmetic("[", "]")?);
        }
        let rest = self.rest();
        let mut operation = if is_length {
            Operation::Other
        } else if is_indirect {
            // `${!X*}` and `${!A[@]}` list names.
            match rest.starts_with(['*', '@']) || index.is_some() {
                true => Operation::Other,
                false => Operation::Executed,
            }
        } else {
            Operation::Value
        };
        let is_word = |operator: &str| {
            let rest = operator.trim_start_matches(':');
            matches!(rest, "-" | "=" | "+" | "?")
        };
        let operator = [":-", ":=", ":+", ":?", "-", "=", "+", "?"]
            .into_iter()
            .find(|operator| rest.starts_with(operator));
        if let Some(operator) = operator.filter(|operator| is_word(operator)) {
            self.at += operator.len();
            let word = self.parts(Until::Brace, quoted)?;
            if matches!(operation, Operation::Value) {
                operation = match operator.trim_start_matches(':') {
                    "+" => Operation::Instead(word),
                    "?" => Operation::Value,
                    _ => Operation::Or(word),
                };
            }
        } else if rest.starts_with(':') {
            index.get_or_insert_default().extend(self.substring()?);
        } else if rest.starts_with('@') {
            operation = match rest.get(1..2) {
                Some("P") => Operation::Executed,
                Some("U" | "u" | "L" | "E") => Operation::Value,
                _ => Operation::Other,
            };
            self.parts(Until::Brace, quoted)?;
        } else if rest.starts_with(['%', '#', '/', '^', ',', '*']) {
            let pattern = self.parts(Until::Brace, quoted)?;
            // A pattern may leave only the harmless part of the value. A fixed text, or another case, does not.
            let is_fixed = || {
                pattern
                    .plain()
                    .is_some_and(|text| !text.contains(['*', '?', '[', '(']))
            };
            let keeps = rest.starts_with(['^', ',']) || rest.starts_with(['%', '#']) && is_fixed();
            if matches!(operation, Operation::Value) && !keeps {
                operation = Operation::Other;
            }
        }
        if !self.eat("}") {
            return Err(Unsure);
        }
        if let (Some(index), false) = (index, matches!(operation, Operation::Executed)) {
            operation = Operation::Index(index);
        }
        Ok(self.parameter(name, begin, quoted, operation))
    }

    /// Parses the offset and the length of a substring, to the closing brace. Bare names are variables too.
    fn substring(&mut self) -> Parsed<Vec<Part>> {
        let mut parts = self.arithmetic(":", "}")?;
        // The brace closes the expansion.
        self.at -= 1;
        parts.retain(|part| !matches!(part, Part::Literal(_)));
        Ok(parts)
    }

    /// Parses `(..)`, the commands of a substitution.
    fn substitution(&mut self) -> Parsed<Part> {
        self.at += 1;
        let mut inner = Cursor::new(self.text, self.depth + 1)?;
        inner.at = self.at;
        let script = inner.script(&[])?;
        self.at = inner.at;
        if !self.eat(")") {
            return Err(Unsure);
        }
        Ok(Part::Command(Rc::new(script)))
    }

    /// Parses the commands between backquotes, in which a backslash escapes some characters.
    fn backquoted(&mut self, quoted: bool) -> Parsed<Part> {
        self.at += 1;
        let mut inner = Text::default();
        loop {
            let at = self.text.position(self.at);
            match self.next().ok_or(Unsure)? {
                '`' => break,
                '\\' => match self.next().ok_or(Unsure)? {
                    escaped @ ('`' | '\\' | '$') => inner.push(escaped, at + 1),
                    '"' if quoted => inner.push('"', at + 1),
                    other => {
                        inner.push('\\', at);
                        inner.push(other, at + 1);
                    }
                },
                other => inner.push(other, at),
            }
        }
        let mut cursor = Cursor::new(&inner, self.depth + 1)?;
        let script = cursor.script(&[])?;
        if cursor.at < inner.text.len() {
            return Err(Unsure);
        }
        Ok(Part::Command(Rc::new(script)))
    }

    /// Parses an arithmetic expression between two marks. Bare names are variables too.
    pub(super) fn arithmetic(&mut self, open: &str, close: &str) -> Parsed<Vec<Part>> {
        if !self.eat(open) {
            return Err(Unsure);
        }
        let mut parts = Vec::new();
        let mut nested = 0_usize;
        loop {
            if nested == 0 && self.eat(close) {
                return Ok(parts);
            }
            let begin = self.at;
            match self.peek().ok_or(Unsure)? {
                '$' => parts.push(self.dollar(true)?),
                '`' => parts.push(self.backquoted(true)?),
                '\\' => return Err(Unsure),
                '(' | '[' => {
                    nested += 1;
                    self.at += 1;
                }
                ')' | ']' => {
                    nested = nested.checked_sub(1).ok_or(Unsure)?;
                    self.at += 1;
                }
                c if c.is_ascii_digit() => {
                    // `0xff` and `16#ff` are numbers.
                    while self.peek().is_some_and(|c| c.is_ascii_alphanumeric() || c == '#') {
                        self.at += 1;
                    }
                }
                _ => match self.name() {
                    "" => {
                        self.next();
                    }
                    name => {
                        let part = self.parameter(name.to_owned(), begin, true, Operation::Value);
                        parts.push(part);
                    }
                },
            }
        }
    }
}

fn flush(word: &mut Word, literal: &mut Text) {
    if !literal.text.is_empty() {
        word.parts.push(Part::Literal(std::mem::take(literal)));
    }
}
