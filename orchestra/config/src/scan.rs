//! The names that a template uses, with their positions. The template engine reports which variables a template does
//! not set itself, but neither where they are used nor whether its filters, tests and functions exist.

use std::ops::Range;

/// The syntactic role of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Variable,
    Function,
    Filter,
    Test,
}

/// A name in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) what: Use,
    /// A variable with its attributes: `human.gate.text`, also if it is written `human['gate'].text`.
    pub(crate) path: Vec<String>,
    /// The leading part of the path that is written with dots, including a method that is called on it.
    pub(crate) dotted: String,
    /// The byte range in the template.
    pub(crate) range: Range<usize>,
    /// The byte range of each part of the path, without quotes.
    pub(crate) parts: Vec<Range<usize>>,
}

/// Returns all names of a template, in order.
pub(crate) fn names(template: &str) -> Vec<Name> {
    let mut names = Vec::new();
    for tag in Tags::new(template) {
        // The content of a raw block is plain text.
        if !tag.is("raw") {
            names.extend(names_of(&tag.tokens, tag.statement));
        }
    }
    names
}

/// A tag: an expression or a statement.
pub(crate) struct Tag {
    pub(crate) start: usize,
    pub(crate) statement: bool,
    pub(crate) tokens: Vec<Token>,
}

impl Tag {
    /// Returns whether the tag is a statement of a name.
    pub(crate) fn is(&self, word: &str) -> bool {
        self.statement && self.tokens.first().is_some_and(|token| token.is_word(word))
    }

    /// Returns `true` if the tag opens a block, `false` if it closes one, and `None` otherwise.
    pub(crate) fn block(&self) -> Option<bool> {
        if !self.statement {
            return None;
        }
        match self.tokens.first()?.word()? {
            "if" | "for" | "with" | "filter" | "autoescape" => Some(true),
            "set" => self
                .tokens
                .iter()
                .all(|token| !token.is_mark('='))
                .then_some(true),
            word => word.starts_with("end").then_some(false),
        }
    }

    /// Returns the nesting depth of the brackets.
    pub(crate) fn brackets(&self) -> usize {
        let (mut open, mut most) = (0usize, 0usize);
        for token in &self.tokens {
            match token.kind {
                Kind::Mark('(' | '[' | '{') => open += 1,
                Kind::Mark(')' | ']' | '}') => open = open.saturating_sub(1),
                _ => {}
            }
            most = most.max(open);
        }
        most
    }
}

/// An iterator over the tags of a template.
pub(crate) struct Tags<'t> {
    template: &'t str,
    at: usize,
}

impl<'t> Tags<'t> {
    pub(crate) fn new(template: &'t str) -> Tags<'t> {
        Tags { template, at: 0 }
    }
}

impl Iterator for Tags<'_> {
    type Item = Tag;

    fn next(&mut self) -> Option<Tag> {
        let template = self.template;
        loop {
            let start = self.at + template.get(self.at..)?.find('{')?;
            let rest = template.get(start..)?;
            if rest.starts_with("{#") {
                self.at = rest.find("#}").map_or(template.len(), |end| start + end + 2);
                continue;
            }
            let statement = rest.starts_with("{%");
            if !statement && !rest.starts_with("{{") {
                self.at = start + 1;
                continue;
            }
            let (tokens, end) = tokens(template, start + 2, if statement { "%}" } else { "}}" });
            let tag = Tag {
                start,
                statement,
                tokens,
            };
            self.at = if tag.is("raw") && tag.tokens.len() == 1 {
                after_raw(template, end)
            } else {
                end
            };
            return Some(tag);
        }
    }
}

/// Returns the offset at which a raw block ends.
fn after_raw(template: &str, start: usize) -> usize {
    let mut at = start;
    while let Some(open) = template.get(at..).and_then(|rest| rest.find("{%")) {
        at += open + 2;
        let word = template.get(at..).unwrap_or_default();
        if word
            .trim_start_matches(['-', '+'])
            .trim_start()
            .starts_with("endraw")
        {
            return at;
        }
    }
    template.len()
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Word(String),
    Text(String),
    Number(u64),
    Mark(char),
}

#[derive(Clone, Debug)]
pub(crate) struct Token {
    kind: Kind,
    pub(crate) range: Range<usize>,
}

impl Token {
    pub(crate) fn is_word(&self, word: &str) -> bool {
        self.word() == Some(word)
    }

    pub(crate) fn word(&self) -> Option<&str> {
        match &self.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    /// Returns the value of a number, or `u64::MAX` if it is larger.
    pub(crate) fn number(&self) -> Option<u64> {
        match &self.kind {
            Kind::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn is_text(&self) -> bool {
        matches!(self.kind, Kind::Text(_))
    }

    pub(crate) fn is_mark(&self, mark: char) -> bool {
        self.kind == Kind::Mark(mark)
    }
}

/// Returns the tokens of a tag, and the offset at which the tag ends.
fn tokens(template: &str, start: usize, closing: &str) -> (Vec<Token>, usize) {
    let mut tokens = Vec::new();
    let mut at = start;
    // The closing delimiter does not close the tag inside brackets.
    let mut open = 0i64;
    while let Some(rest) = template.get(at..).filter(|rest| !rest.is_empty()) {
        if open == 0 && rest.starts_with(closing) {
            return (tokens, at + closing.len());
        }
        let Some(first) = rest.chars().next() else {
            break;
        };
        let length = if first == '_' || first.is_alphabetic() {
            let word = |c: char| c == '_' || c.is_alphanumeric();
            rest.find(|c| !word(c)).unwrap_or(rest.len())
        } else if first.is_ascii_digit() {
            let number = |c: char| c == '_' || c.is_ascii_alphanumeric();
            rest.find(|c| !number(c)).unwrap_or(rest.len())
        } else if first == '"' || first == '\'' {
            quoted(rest, first)
        } else {
            first.len_utf8()
        };
        open += match first {
            '(' | '[' | '{' => 1,
            ')' | ']' | '}' => -1,
            _ => 0,
        };
        let range = at..at + length;
        let text = rest.get(..length).unwrap_or_default();
        at += length;
        let kind = match first {
            '"' | '\'' => Kind::Text(text.trim_matches(first).to_owned()),
            _ if first == '_' || first.is_alphabetic() => Kind::Word(text.to_owned()),
            _ if first.is_ascii_digit() => Kind::Number(number(text)),
            // A sign at the start of a tag controls whitespace and is not an operator.
            '-' | '+' if range.start == start => continue,
            _ if first.is_whitespace() => continue,
            _ => Kind::Mark(first),
        };
        tokens.push(Token { kind, range });
    }
    (tokens, template.len())
}

/// Returns the value of a number, or `u64::MAX` if it is larger or has another format.
fn number(text: &str) -> u64 {
    let digits = text.replace('_', "");
    let (digits, radix) = match digits.get(..2) {
        Some("0x" | "0X") => (digits.get(2..), 16),
        Some("0o" | "0O") => (digits.get(2..), 8),
        Some("0b" | "0B") => (digits.get(2..), 2),
        _ => (Some(&*digits), 10),
    };
    u64::from_str_radix(digits.unwrap_or_default(), radix).unwrap_or(u64::MAX)
}

/// Returns the length of a quoted text in bytes, including its quotes.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

const KEYWORDS: &[&str] = &[
    "and", "else", "elif", "false", "False", "for", "if", "in", "is", "none", "None", "not", "or", "true",
    "True",
];

pub(crate) fn names_of(tokens: &[Token], statement: bool) -> Vec<Name> {
    let mut names = Vec::new();
    // The first word of a statement is its keyword.
    let mut at = usize::from(statement);
    while let Some(token) = tokens.get(at) {
        let before = at.checked_sub(1).and_then(|before| tokens.get(before));
        let Kind::Word(word) = &token.kind else {
            at += 1;
            continue;
        };
        if before.is_some_and(|before| before.is_mark('.')) || KEYWORDS.contains(&word.as_str()) {
            at += 1;
            continue;
        }
        let block = at == 1 && before.is_some_and(|before| before.is_word("filter"));
        let what = if block || before.is_some_and(|before| before.is_mark('|')) {
            Use::Filter
        } else if tests(tokens, at) {
            Use::Test
        } else if tokens.get(at + 1).is_some_and(|next| next.is_mark('(')) {
            Use::Function
        } else {
            Use::Variable
        };
        let (name, next) = match what {
            Use::Variable => variable(tokens, at, word),
            _ => (name(what, word, token.range.clone()), at + 1),
        };
        names.push(name);
        at = next;
    }
    names
}

fn name(what: Use, word: &str, range: Range<usize>) -> Name {
    Name {
        what,
        path: vec![word.to_owned()],
        dotted: word.to_owned(),
        parts: vec![range.clone()],
        range,
    }
}

/// Returns whether the word at an index is a test, which follows `is` or `is not`.
fn tests(tokens: &[Token], at: usize) -> bool {
    let word = |back: usize, word: &str| {
        let token = at.checked_sub(back).and_then(|at| tokens.get(at));
        token.is_some_and(|token| token.is_word(word))
    };
    word(1, "is") || (word(1, "not") && word(2, "is"))
}

/// Returns the variable at an index with its attributes, and the index of the token that follows it.
fn variable(tokens: &[Token], start: usize, word: &str) -> (Name, usize) {
    let range = tokens.get(start).map_or(0..0, |token| token.range.clone());
    let mut found = name(Use::Variable, word, range);
    let mut at = start + 1;
    let mut only_dots = true;
    loop {
        let part = (tokens.get(at), tokens.get(at + 1), tokens.get(at + 2));
        let (part, range, length) = match part {
            (
                Some(dot),
                Some(Token {
                    kind: Kind::Word(part),
                    range,
                }),
                behind,
            ) if dot.is_mark('.') => {
                if only_dots {
                    found.dotted.push('.');
                    found.dotted.push_str(part);
                }
                // A method is not an attribute.
                if behind.is_some_and(|behind| behind.is_mark('(')) {
                    return (found, at + 2);
                }
                (part, range.clone(), 2)
            }
            (
                Some(open),
                Some(Token {
                    kind: Kind::Text(part),
                    range,
                }),
                Some(close),
            ) if open.is_mark('[') && close.is_mark(']') => {
                only_dots = false;
                (part, range.start + 1..range.end.saturating_sub(1), 3)
            }
            _ => return (found, at),
        };
        found.path.push(part.clone());
        found.parts.push(range);
        at += length;
        if let Some(last) = tokens.get(at - 1) {
            found.range.end = last.range.end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(template: &str) -> Vec<String> {
        let names = names(template).into_iter();
        names
            .map(|name| {
                format!(
                    "{:?} {} `{}`",
                    name.what,
                    name.path.join("."),
                    &template[name.range.clone()]
                )
            })
            .collect()
    }

    #[test]
    fn names_are_found_with_what_they_are() {
        let template =
            "{{ a.b['c.d'].e | upper }} {%- if x is not defined and f(y) %}{% filter trim %}{{ z.items() }}";
        assert_eq!(
            shown(template),
            [
                "Variable a.b.c.d.e `a.b['c.d'].e`",
                "Filter upper `upper`",
                "Variable x `x`",
                "Test defined `defined`",
                "Function f `f`",
                "Variable y `y`",
                "Filter trim `trim`",
                "Variable z `z`",
            ]
        );
    }

    #[test]
    fn text_comments_and_raw_blocks_hold_no_names() {
        let template = "a { b } {# {{ c }} #}{% raw %}{{ d }}{% endraw %}{{ 'e | f }}' }} {{ 1e5 }}{{";
        let names = shown(template);
        assert_eq!(names, Vec::<String>::new());
    }

    #[test]
    fn a_tag_ends_where_its_brackets_are_closed() {
        assert_eq!(shown("{{ {'a': {}}}} b {{ c }}"), ["Variable c `c`"]);
    }
}
