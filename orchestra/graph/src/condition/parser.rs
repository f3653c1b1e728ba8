//! The parser of conditions, from text to [`Expression`]. It reports the first error with its position.

use std::fmt;
use std::ops::Range;

use super::comparison::Comparison;
use super::expression::Expression;
use super::facts::Pattern;
use super::keys::{PLAIN_KEYS, foreign_key};
use crate::diagnostic::did_you_mean;

/// An error in the text of a condition (Attractor 10.2).
///
/// ```
/// use orchestra_graph::condition::parse_condition;
/// let text = "outcme=fail";
/// let error = parse_condition(text).unwrap_err();
/// assert_eq!(&text[error.range.clone()], "outcme");
/// assert_eq!(error.replacement.as_deref(), Some("outcome"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionError {
    /// The description of the error, in one line.
    pub message: String,
    /// The byte range of the error in the text of the condition.
    pub range: Range<usize>,
    /// A hint on how to fix the error; may be empty.
    pub help: String,
    /// The replacement for the range, if it fixes the error.
    pub replacement: Option<String>,
}

impl fmt::Display for ConditionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ConditionError {}

const MAX_DEPTH: usize = 64;

/// Parses a condition. Blank text is the condition that always holds.
///
/// # Errors
/// Returns the first error with its position in the text.
///
/// ```
/// use orchestra_graph::condition::parse_condition;
/// assert!(parse_condition("outcome=success && !(context.mode=dry)").is_ok());
/// assert_eq!(parse_condition("outcme=fail").unwrap_err().range, 0..6);
/// ```
pub fn parse_condition(text: &str) -> Result<Expression, ConditionError> {
    parse(text).0
}

/// A clause of a condition, with the byte ranges of its names in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clause {
    /// The range of the key.
    pub(crate) key: Range<usize>,
    /// The operator; `None` for a key alone and for `matches`.
    pub(crate) comparison: Option<Comparison>,
    /// The range of the literal or regular expression, without its quotes; `None` for a key alone.
    pub(crate) literal: Option<Range<usize>>,
}

/// Returns the clauses of a condition, in the order of the text. Of an invalid condition, returns those that can be read.
pub(crate) fn clauses(text: &str) -> Vec<Clause> {
    parse(text).1
}

/// Returns the byte range of the first clause with a key; `None` if no clause has it.
pub(crate) fn find_key(text: &str, key: &str) -> Option<Range<usize>> {
    let mut keys = clauses(text).into_iter().map(|clause| clause.key);
    keys.find(|range| text.get(range.clone()) == Some(key))
}

/// Returns the byte range of the first compared literal that passes a test, without its quotes. The test receives the
/// key, the operator and the literal. Returns `None` if there is none, or if the condition is invalid.
///
/// ```
/// use orchestra_graph::condition::find_literal;
/// let text = r#"context.mode=dry || outcome = "shipped""#;
/// assert_eq!(find_literal(text, |key, _, _| key == "outcome"), Some(31..38));
/// ```
pub fn find_literal(
    text: &str,
    mut test: impl FnMut(&str, Comparison, &str) -> bool,
) -> Option<Range<usize>> {
    let (expression, clauses) = parse(text);
    let expression = expression.ok()?;
    let compared = clauses.into_iter().filter(|clause| clause.comparison.is_some());
    let mut literals = compared.map(|clause| clause.literal);
    let mut found = None;
    // The parts are visited in the order of the text.
    expression.visit(&mut |part| {
        if let Expression::Compare {
            key,
            comparison,
            literal,
        } = part
        {
            let range = literals.next().flatten();
            if found.is_none() && test(key, *comparison, literal) {
                found = range;
            }
        }
    });
    found
}

/// Parses a condition. Also returns its clauses in the order of the text, those behind an error included.
fn parse(text: &str) -> (Result<Expression, ConditionError>, Vec<Clause>) {
    let (tokens, error) = tokens(text);
    let mut parser = Parser {
        text,
        tokens: &tokens,
        at: 0,
        depth: 0,
        clauses: Vec::new(),
    };
    if tokens.is_empty() {
        let parsed = error.map_or(Ok(Expression::All(Vec::new())), Err);
        return (parsed, Vec::new());
    }
    let mut parsed = parser.any();
    if parsed.is_ok()
        && let Some(token) = parser.peek()
    {
        parsed = Err(parser.unexpected(&token.clone()));
    }
    // Only the clauses of the rest matter.
    while parser.next_clause() {
        let _ = parser.any();
    }
    (error.map_or(parsed, Err), parser.clauses)
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Word,
    Quoted(String),
    And,
    Or,
    Not,
    Open,
    Close,
    Compare(Comparison),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) range: Range<usize>,
}

fn condition_error(
    message: impl Into<String>,
    range: Range<usize>,
    help: impl Into<String>,
) -> ConditionError {
    ConditionError {
        message: message.into(),
        range,
        help: help.into(),
        replacement: None,
    }
}

/// Returns the tokens of a text up to the first error.
pub(super) fn tokens(text: &str) -> (Vec<Token>, Option<ConditionError>) {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at).copied() {
        // Whitespace of every script separates tokens: a no-break space is easily pasted and hard to see.
        if let Some(blank) = text[at..].chars().next().filter(|c| c.is_whitespace()) {
            at += blank.len_utf8();
            continue;
        }
        let next = bytes.get(at + 1).copied().unwrap_or(0);
        let (kind, length) = match (byte, next) {
            (b'&', b'&') => (Kind::And, 2),
            (b'|', b'|') => (Kind::Or, 2),
            (b'&' | b'|', _) => {
                let double = text[at..=at].repeat(2);
                let error = ConditionError {
                    replacement: Some(double.clone()),
                    ..condition_error(
                        format!("`{}` is not an operator", &text[at..=at]),
                        at..at + 1,
                        format!("write `{double}`"),
                    )
                };
                return (tokens, Some(error));
            }
            (b'!', b'=') => (Kind::Compare(Comparison::NotEqual), 2),
            (b'=', b'=') => {
                let error = ConditionError {
                    replacement: Some("=".to_owned()),
                    ..condition_error("`==` is not an operator", at..at + 2, "equality is written `=`")
                };
                return (tokens, Some(error));
            }
            (b'<', b'=') => (Kind::Compare(Comparison::LessOrEqual), 2),
            (b'>', b'=') => (Kind::Compare(Comparison::GreaterOrEqual), 2),
            (b'=', _) => (Kind::Compare(Comparison::Equal), 1),
            (b'<', _) => (Kind::Compare(Comparison::Less), 1),
            (b'>', _) => (Kind::Compare(Comparison::Greater), 1),
            (b'!', _) => (Kind::Not, 1),
            (b'(', _) => (Kind::Open, 1),
            (b')', _) => (Kind::Close, 1),
            (b'"' | b'\'', _) => {
                let rest = &text[at + 1..];
                let Some(end) = rest.find(byte as char) else {
                    let error = condition_error(
                        "this quoted text is never closed",
                        at..text.len(),
                        "add the closing quote",
                    );
                    return (tokens, Some(error));
                };
                (Kind::Quoted(rest[..end].to_owned()), end + 2)
            }
            _ => {
                let end = text[at..].find(|c: char| c.is_whitespace() || "&|()!=<>\"'".contains(c));
                (Kind::Word, end.unwrap_or(text.len() - at))
            }
        };
        tokens.push(Token {
            kind,
            range: at..at + length,
        });
        at += length;
    }
    (tokens, None)
}

struct Parser<'t> {
    text: &'t str,
    tokens: &'t [Token],
    at: usize,
    depth: usize,
    /// The clauses so far, in the order of the text.
    clauses: Vec<Clause>,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn eat(&mut self, kind: &Kind) -> bool {
        let found = self.peek().is_some_and(|token| token.kind == *kind);
        self.at += usize::from(found);
        found
    }

    /// Skips to the word behind the next `&&` or `||`. Returns `false` if there is none.
    fn next_clause(&mut self) -> bool {
        let rest = self.tokens.get(self.at..).unwrap_or_default();
        let Some(joint) = rest
            .iter()
            .position(|token| matches!(token.kind, Kind::And | Kind::Or))
        else {
            return false;
        };
        let rest = rest.get(joint..).unwrap_or_default();
        let word = rest.iter().position(|token| token.kind == Kind::Word);
        self.at += joint + word.unwrap_or(rest.len());
        self.depth = 0;
        word.is_some()
    }

    fn word(&self, token: &Token) -> &str {
        &self.text[token.range.clone()]
    }

    fn end(&self) -> Range<usize> {
        let end = self.text.trim_end().len();
        end.saturating_sub(1)..end
    }

    fn unexpected(&self, token: &Token) -> ConditionError {
        let word = self.word(token);
        let shown = crate::syntax::shorten(word);
        let (help, replacement) = match word.to_ascii_lowercase().as_str() {
            "and" => ("write `&&`", Some("&&")),
            "or" => ("write `||`", Some("||")),
            ")" => ("remove it, or add the opening parenthesis", None),
            "not" => (
                "write `!` before the clause, such as `!context.log contains \"error\"`",
                None,
            ),
            "startswith" | "starts_with" => ("write `matches \"^TEXT\"`", None),
            "endswith" | "ends_with" => ("write `matches \"TEXT$\"`", None),
            "in" => ("write one clause for each value, joined by `||`", None),
            _ => (
                "join clauses with `&&` or `||`; put text with blanks in quotes",
                None,
            ),
        };
        ConditionError {
            replacement: replacement.map(str::to_owned),
            ..condition_error(format!("unexpected `{shown}`"), token.range.clone(), help)
        }
    }

    fn any(&mut self) -> Result<Expression, ConditionError> {
        let mut parts = vec![self.all()?];
        while self.eat(&Kind::Or) {
            parts.push(self.all()?);
        }
        Ok(one_or(parts, Expression::Any))
    }

    fn all(&mut self) -> Result<Expression, ConditionError> {
        let mut parts = vec![self.unary()?];
        while self.eat(&Kind::And) {
            // An empty clause, such as after a trailing `&&`, has no effect (Attractor 10.5).
            if self.peek().is_none() {
                break;
            }
            parts.push(self.unary()?);
        }
        Ok(one_or(parts, Expression::All))
    }

    fn unary(&mut self) -> Result<Expression, ConditionError> {
        let Some(token) = self.peek().cloned() else {
            return Err(condition_error(
                "a clause is missing at the end",
                self.end(),
                "write a clause such as `outcome=success`",
            ));
        };
        match token.kind {
            Kind::Not | Kind::Open => {
                if self.depth >= MAX_DEPTH {
                    return Err(condition_error(
                        format!("the condition nests deeper than {MAX_DEPTH}"),
                        token.range,
                        "simplify it",
                    ));
                }
                self.at += 1;
                self.depth += 1;
                let inner = if token.kind == Kind::Not {
                    Expression::Not(Box::new(self.unary()?))
                } else {
                    let inner = self.any()?;
                    if !self.eat(&Kind::Close) {
                        let found = self.peek().cloned();
                        return Err(match found {
                            Some(found) => self.unexpected(&found),
                            None => {
                                condition_error("this parenthesis is never closed", token.range, "add `)`")
                            }
                        });
                    }
                    inner
                };
                self.depth -= 1;
                Ok(inner)
            }
            Kind::Word => {
                self.at += 1;
                self.clause(&token)
            }
            _ => Err(condition_error(
                format!(
                    "expected a key, found `{}`",
                    crate::syntax::shorten(self.word(&token))
                ),
                token.range,
                "a clause is `key=value`, `key!=value` or a key alone",
            )),
        }
    }

    fn clause(&mut self, token: &Token) -> Result<Expression, ConditionError> {
        let key = self.key(token)?;
        let (comparison, operator) = match self.peek() {
            Some(Token {
                kind: Kind::Compare(comparison),
                range,
            }) => (Some(*comparison), range.clone()),
            Some(found) if found.kind == Kind::Word && self.word(found) == "contains" => {
                (Some(Comparison::Contains), found.range.clone())
            }
            Some(found) if found.kind == Kind::Word && self.word(found) == "matches" => {
                (None, found.range.clone())
            }
            _ => {
                self.clauses.push(Clause {
                    key: token.range.clone(),
                    comparison: None,
                    literal: None,
                });
                return Ok(Expression::Truthy(key));
            }
        };
        self.at += 1;
        let literal = self.literal(&operator);
        // The range of a quoted literal includes the quotes.
        let unquoted = literal.as_ref().ok().map(|(literal, range)| {
            let quotes = (range.len() - literal.len()) / 2;
            range.start + quotes..range.end - quotes
        });
        self.clauses.push(Clause {
            key: token.range.clone(),
            comparison,
            literal: unquoted,
        });
        let (literal, range) = literal?;
        match comparison {
            Some(comparison) => Ok(Expression::Compare {
                key,
                comparison,
                literal,
            }),
            None => match Pattern::new(&literal) {
                Ok(pattern) => Ok(Expression::Matches { key, pattern }),
                Err(error) => {
                    let first = error
                        .lines()
                        .last()
                        .unwrap_or_default()
                        .trim_start_matches("error: ")
                        .to_owned();
                    Err(condition_error(
                        format!("the regular expression is invalid: {first}"),
                        range,
                        "fix the expression",
                    ))
                }
            },
        }
    }

    fn key(&self, token: &Token) -> Result<String, ConditionError> {
        let word = self.word(token);
        let shaped = word.split('.').all(|part| {
            !part.is_empty()
                && part
                    .chars()
                    .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | ':'))
        });
        if shaped && (word.contains('.') || PLAIN_KEYS.contains(&word)) {
            return Ok(word.to_owned());
        }
        let shown = crate::syntax::shorten(word);
        if let Some(foreign) = foreign_key(word) {
            let comparison = match self.peek().map(|token| &token.kind) {
                Some(Kind::Compare(comparison)) => Some(*comparison),
                _ => None,
            };
            return Err(ConditionError {
                replacement: Some(foreign.meant(comparison).to_owned()),
                ..condition_error(
                    format!("unknown key `{shown}`"),
                    token.range.clone(),
                    foreign.help,
                )
            });
        }
        if word == "not" {
            return Err(condition_error(
                "`not` is not an operator",
                token.range.clone(),
                "write `!` before the clause, such as `!outcome=fail`",
            ));
        }
        let near = did_you_mean(word, PLAIN_KEYS.iter().copied());
        let (help, replacement) = match near {
            Some(near) => (format!("did you mean `{near}`?"), Some(near.to_owned())),
            None if shaped => (
                format!(
                    "keys are {}, and `context.NAME`; did you mean `context.{shown}`?",
                    PLAIN_KEYS.join(", ")
                ),
                Some(format!("context.{word}")),
            ),
            None => (
                "a key is made of words joined by dots, such as `context.tests_passed`".to_owned(),
                None,
            ),
        };
        Err(ConditionError {
            replacement,
            ..condition_error(format!("unknown key `{shown}`"), token.range.clone(), help)
        })
    }

    /// Parses a literal: quoted text, or bare words up to the next operator.
    fn literal(&mut self, operator: &Range<usize>) -> Result<(String, Range<usize>), ConditionError> {
        let missing = || {
            condition_error(
                format!("a value is missing after `{}`", &self.text[operator.clone()]),
                operator.clone(),
                "write a value; an empty one is written `\"\"`",
            )
        };
        let first = self.peek().cloned().ok_or_else(missing)?;
        match first.kind {
            Kind::Quoted(text) => {
                self.at += 1;
                Ok((text, first.range))
            }
            Kind::Word => {
                self.at += 1;
                let mut range = first.range;
                while let Some(next) = self.peek() {
                    let joins = next.kind == Kind::Word
                        && !matches!(
                            self.word(next),
                            "and" | "or" | "AND" | "OR" | "contains" | "matches"
                        )
                        && !matches!(
                            self.tokens.get(self.at + 1),
                            Some(Token {
                                kind: Kind::Compare(_),
                                ..
                            })
                        );
                    if !joins {
                        break;
                    }
                    range.end = next.range.end;
                    self.at += 1;
                }
                Ok((self.text[range.clone()].to_owned(), range))
            }
            _ => Err(missing()),
        }
    }
}

fn one_or(mut parts: Vec<Expression>, many: fn(Vec<Expression>) -> Expression) -> Expression {
    match parts.len() {
        1 => parts.remove(0),
        _ => many(parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_is_found_where_it_is_compared() {
        let text = r#"!(context.ok=x && outcome=ok) || outcome="a b" || outcome!='ok' && outcome=two words"#;
        let found = |comparison, wanted: &str| {
            let range = find_literal(text, |key, found, literal| {
                (key, found, literal) == ("outcome", comparison, wanted)
            });
            range.map(|range| (range.start, &text[range]))
        };
        assert_eq!(found(Comparison::Equal, "ok"), Some((26, "ok")));
        assert_eq!(found(Comparison::NotEqual, "ok"), Some((60, "ok")));
        assert_eq!(found(Comparison::Equal, "two words"), Some((75, "two words")));
        assert_eq!(found(Comparison::Equal, "a b"), Some((42, "a b")));
        assert_eq!(found(Comparison::Less, "ok"), None);
        assert_eq!(find_literal("outcome=(", |_, _, _| true), None);
    }
}
