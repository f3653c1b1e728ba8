//! The keys around a position in a YAML text that is being edited, which need not be complete.
//!
//! Only what configurations use is followed: maps and lists in block and flow style, quoted and block scalars.

use orchestra_graph::Span;

/// A position in a YAML text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct YamlCursor {
    /// The keys of the maps around the position, from the outermost one. For a value, the last one is its own key.
    pub(crate) path: Vec<String>,
    pub(crate) part: YamlPart,
    /// The scalar at the position, without quotes; empty if nothing is written there.
    pub(crate) word: Span,
    /// `true` inside of braces or brackets.
    pub(crate) is_flow: bool,
}

/// The part of a map that a position is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum YamlPart {
    Key,
    Value,
    /// An item of a list.
    Item,
    /// A comment, or a text of several lines.
    Text,
}

/// A map or list in flow style.
enum Flow {
    /// With the key whose value is being written.
    Map(Option<String>),
    List,
}

struct Scanner<'t> {
    text: &'t str,
    /// The keys in block style, with their columns.
    block: Vec<(usize, String)>,
    flow: Vec<Flow>,
    /// The column of the key whose value is a text of several lines.
    scalar: Option<usize>,
    /// The keys that were passed, each with the keys around it.
    passed: Vec<Vec<String>>,
}

impl YamlCursor {
    /// Finds the keys around a byte offset.
    pub(crate) fn new(text: &str, offset: u32) -> YamlCursor {
        let mut offset = (offset as usize).min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let before = text.get(..offset).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let mut scanner = Scanner::new(text);
        let mut start = 0;
        for line in before.get(..line_start).unwrap_or_default().split_inclusive('\n') {
            scanner.line(line.trim_end_matches(['\n', '\r']));
            start += line.len();
        }
        scanner.last(start, offset)
    }

    /// Returns the other keys of the map around a position at which a key is written.
    pub(crate) fn other_keys(&self, text: &str) -> Vec<String> {
        let mut scanner = Scanner::new(text);
        text.lines().for_each(|line| scanner.line(line));
        let inside = |path: Vec<String>| {
            let (key, around) = path.split_last()?;
            (around == self.path.as_slice()).then(|| key.clone())
        };
        let mut keys: Vec<String> = scanner.passed.into_iter().filter_map(inside).collect();
        let typed = text.get(self.word.start as usize..self.word.end as usize);
        if self.is_before_colon(text)
            && let Some(own) = keys.iter().position(|key| Some(key.as_str()) == typed)
        {
            keys.remove(own);
        }
        keys
    }

    /// Returns whether a colon follows the word at the position.
    pub(crate) fn is_before_colon(&self, text: &str) -> bool {
        let rest = text.get(self.word.end as usize..).unwrap_or_default();
        rest.trim_start_matches([' ', '"', '\'']).starts_with(':')
    }
}

impl<'t> Scanner<'t> {
    fn new(text: &'t str) -> Scanner<'t> {
        Scanner {
            text,
            block: Vec::new(),
            flow: Vec::new(),
            scalar: None,
            passed: Vec::new(),
        }
    }

    /// Leaves the maps that do not contain a column.
    fn leave(&mut self, column: usize) {
        while self.block.last().is_some_and(|(own, _)| *own >= column) {
            self.block.pop();
        }
    }

    /// Returns whether a line belongs to a text of several lines.
    fn is_text(&mut self, line: &str) -> bool {
        let Some(column) = self.scalar else {
            return false;
        };
        let indent = line.len() - line.trim_start_matches(' ').len();
        if line.trim().is_empty() || indent > column {
            return true;
        }
        self.scalar = None;
        false
    }

    /// Follows a complete line.
    fn line(&mut self, line: &str) {
        if self.flow.is_empty() {
            if self.is_text(line) || line.trim_start().starts_with('#') || line.trim().is_empty() {
                return;
            }
            let (column, content) = entry(line);
            self.leave(column);
            match key_of(content) {
                Some((key, value)) => {
                    self.block.push((column, key.to_owned()));
                    self.passed.push(self.path());
                    let value = value.trim_start();
                    if value.starts_with(['|', '>']) {
                        self.scalar = Some(column);
                    } else if value.starts_with(['{', '[']) {
                        self.follow(value);
                    }
                }
                None if content.starts_with(['{', '[']) => {
                    self.follow(content);
                }
                None => {}
            }
        } else {
            self.follow(line);
        }
    }

    /// Follows text in flow style. Returns the offset of the scalar at its end, and whether that is open in quotes.
    fn follow(&mut self, text: &str) -> (usize, bool) {
        let mut scalar = 0;
        let mut quote: Option<char> = None;
        let mut characters = text.char_indices().peekable();
        while let Some((at, character)) = characters.next() {
            match (quote, character) {
                (Some('"'), '\\') => {
                    characters.next();
                }
                (Some(open), character) if open == character => quote = None,
                (Some(_), _) => {}
                (None, '"' | '\'')
                    if text
                        .get(scalar..at)
                        .is_some_and(|before| before.trim().is_empty()) =>
                {
                    quote = Some(character);
                    scalar = at;
                }
                (None, '#')
                    if text
                        .get(..at)
                        .is_some_and(|before| before.is_empty() || before.ends_with(' ')) =>
                {
                    return (text.len(), false);
                }
                (None, '{') => {
                    self.flow.push(Flow::Map(None));
                    scalar = at + 1;
                }
                (None, '[') => {
                    self.flow.push(Flow::List);
                    scalar = at + 1;
                }
                (None, '}' | ']') => {
                    self.flow.pop();
                    scalar = at + 1;
                }
                (None, ',') => {
                    if let Some(Flow::Map(key)) = self.flow.last_mut() {
                        *key = None;
                    }
                    scalar = at + 1;
                }
                (None, ':') if characters.peek().is_none_or(|(_, next)| next.is_whitespace()) => {
                    if let Some(Flow::Map(key @ None)) = self.flow.last_mut() {
                        *key = Some(plain(text.get(scalar..at).unwrap_or_default()).to_owned());
                        scalar = at + 1;
                        self.passed.push(self.path());
                    }
                }
                _ => {}
            }
        }
        (scalar, quote.is_some())
    }

    /// Returns the cursor in the line that begins at an offset.
    fn last(&mut self, start: usize, offset: usize) -> YamlCursor {
        let line = self.text.get(start..offset).unwrap_or_default();
        let text_cursor = |path| YamlCursor {
            path,
            part: YamlPart::Text,
            word: Span::new(offset as u32, offset as u32),
            is_flow: false,
        };
        let indent = line.len() - line.trim_start_matches(' ').len();
        if self.flow.is_empty() {
            let is_deeper = self.scalar.is_some_and(|column| indent > column);
            if is_deeper || line.trim_start().starts_with('#') || line.contains(" #") {
                return text_cursor(self.path());
            }
            let (column, content) = entry(line);
            let is_item = line.trim_start().starts_with("- ") || line.trim_start() == "-";
            self.leave(column);
            let begin = offset - content.len();
            let found = key_of(content).map(|(key, value)| (key.to_owned(), value));
            return match found {
                Some((key, value)) => {
                    self.block.push((column, key));
                    let value_start = offset - value.len();
                    let written = value.trim_start();
                    if written.starts_with(['{', '[']) {
                        let begin = value_start + (value.len() - written.len());
                        let (scalar, _) = self.follow(written);
                        self.in_flow(begin + scalar, offset)
                    } else {
                        self.cursor(self.path(), YamlPart::Value, value_start, offset)
                    }
                }
                None if content.starts_with(['{', '[']) => {
                    let (scalar, _) = self.follow(content);
                    self.in_flow(begin + scalar, offset)
                }
                None if is_item => self.cursor(self.path(), YamlPart::Item, begin, offset),
                None => self.cursor(self.path(), YamlPart::Key, begin, offset),
            };
        }
        let (scalar, _) = self.follow(line);
        self.in_flow(start + scalar, offset)
    }

    fn in_flow(&self, start: usize, offset: usize) -> YamlCursor {
        let part = match self.flow.last() {
            Some(Flow::Map(None)) => YamlPart::Key,
            Some(Flow::Map(Some(_))) => YamlPart::Value,
            Some(Flow::List) => YamlPart::Item,
            None => YamlPart::Text,
        };
        self.cursor(self.path(), part, start, offset)
    }

    /// Returns the keys around the position.
    fn path(&self) -> Vec<String> {
        let block = self.block.iter().map(|(_, key)| key.clone());
        let flow = self.flow.iter().filter_map(|flow| match flow {
            Flow::Map(key) => key.clone(),
            Flow::List => None,
        });
        block.chain(flow).collect()
    }

    /// Returns the cursor in a scalar that begins at or after an offset.
    fn cursor(&self, path: Vec<String>, part: YamlPart, start: usize, offset: usize) -> YamlCursor {
        let before = self.text.get(start..offset).unwrap_or_default();
        let mut begin = offset - before.trim_start().len();
        let quote = self
            .text
            .get(begin..)
            .and_then(|text| text.chars().next())
            .filter(|c| matches!(c, '"' | '\''));
        let rest = self.text.get(offset..).unwrap_or_default();
        let length = match quote {
            Some(quote) if begin < offset => {
                begin += 1;
                rest.find([quote, '\n']).unwrap_or(rest.len())
            }
            _ => rest
                .find(|c: char| c.is_whitespace() || ",{}[]:#\"'".contains(c))
                .unwrap_or(rest.len()),
        };
        YamlCursor {
            path,
            part,
            word: Span::new(begin as u32, (offset + length) as u32),
            is_flow: !self.flow.is_empty(),
        }
    }
}

/// Returns the column of the content of a line after the marks of list items, and the content.
fn entry(line: &str) -> (usize, &str) {
    let mut content = line.trim_start_matches(' ');
    while let Some(rest) = content.strip_prefix("- ") {
        content = rest.trim_start_matches(' ');
    }
    if content == "-" {
        content = "";
    }
    (line.len() - content.len(), content)
}

/// Splits `key: value`, if the content of a line begins with a key.
fn key_of(content: &str) -> Option<(&str, &str)> {
    let quote = content.chars().next().filter(|c| matches!(c, '"' | '\''));
    let from = match quote {
        Some(quote) => content.get(1..)?.find(quote)? + 2,
        None => 0,
    };
    let rest = content.get(from..)?;
    if quote.is_none() && rest.starts_with(['{', '[', '#', '&', '*', '!', '|', '>']) {
        return None;
    }
    let colon = rest.match_indices(':').map(|(at, _)| at).find(|at| {
        let next = rest.get(at + 1..).and_then(|rest| rest.chars().next());
        next.is_none_or(char::is_whitespace)
    })?;
    let (key, value) = content.split_at_checked(from + colon)?;
    Some((plain(key), value.get(1..)?))
}

/// Returns a scalar without white space and quotes around it.
fn plain(text: &str) -> &str {
    let text = text.trim();
    let unquoted = ['"', '\'']
        .iter()
        .find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    unquoted.unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the cursor at the mark `|` as text: the path, the part and the word.
    fn shown(text: &str) -> String {
        let offset = text.find('¦').unwrap();
        let text = text.replacen('¦', "", 1);
        let cursor = YamlCursor::new(&text, offset as u32);
        let word = &text[cursor.word.start as usize..cursor.word.end as usize];
        format!("{:?} {} {word}", cursor.part, cursor.path.join("/"))
    }

    #[test]
    fn keys_and_values_are_found() {
        for (text, expected) in [
            ("¦", "Key  "),
            ("age¦", "Key  age"),
            ("agents:\n  ¦", "Key agents "),
            ("agents:\n  critic:\n    ro¦", "Key agents/critic ro"),
            (
                "agents:\n  critic:\n    role: cri¦tic\n",
                "Value agents/critic/role critic",
            ),
            ("agents:\n  critic:\n    role: ¦\n", "Value agents/critic/role "),
            ("agents:\n  critic:\n    role: a\n  ¦", "Key agents "),
            (
                "agents:\n  critic: {role: a, mo¦del: b}",
                "Key agents/critic model",
            ),
            (
                "agents:\n  critic: {role: a, model: sm¦}",
                "Value agents/critic/model sm",
            ),
            ("agents: {critic: {tools: [a, b¦]}}", "Item agents/critic/tools b"),
            (
                "agents: {critic: {\n  tools: [a,\n  b¦",
                "Item agents/critic/tools b",
            ),
            ("agents: {a: {x: 1}, ¦", "Key agents "),
            ("environment:\n  - CI\n  - ¦", "Item environment "),
            ("environment:\n- CI\n- TO¦", "Item environment TO"),
            ("a:\n  - b: 1\n    c¦: 2", "Key a c"),
            ("a: |\n  text¦", "Text a "),
            ("a: |\n  text: x\nb¦", "Key  b"),
            ("# a: ¦", "Text  "),
            ("a: b # c¦", "Text  "),
            ("a: \"x y¦ z\"", "Value a x y z"),
            ("\"a b\": ¦", "Value a b "),
            ("a: https://x¦", "Value a https://x"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn the_other_keys_of_a_map_are_found() {
        for (text, expected) in [
            ("a: 1\nb¦\nc: {d: 2}\n", "a c"),
            ("x:\n  a: {z: 1}\n  ¦\n  b: |\n    c: 1\ny: 2", "a b"),
            ("x: {a: 1, b¦, c: {d: 1}}", "a c"),
            ("x: {a: 1, b¦: 3, c: {d: 1}}", "a c"),
            ("a¦: 1\na: 2\n", "a"),
            ("x:\n  a: 1\ny:\n  ¦", ""),
        ] {
            let offset = text.find('¦').unwrap();
            let text = text.replacen('¦', "", 1);
            let keys = YamlCursor::new(&text, offset as u32).other_keys(&text);
            assert_eq!(keys.join(" "), expected, "{text}");
        }
    }

    #[test]
    fn no_text_makes_it_panic() {
        let text = "a: {b: [\"x\\\", 'ä', {]}\n- - c: |\n   d\n: ::\n\"\n'\r\n\t#";
        for (end, _) in text.char_indices() {
            for offset in 0..=text.len() + 1 {
                YamlCursor::new(&text[..end], offset as u32);
                YamlCursor::new(text, offset as u32);
            }
        }
    }
}
