//! The part of a condition that is being typed.

use super::comparison::Comparison;
use super::parser::{Kind, Token, tokens};

/// The part of a condition at the end of an incomplete text.
///
/// ```
/// use orchestra_graph::condition::{Comparison, ConditionCursor};
/// assert_eq!(ConditionCursor::at_end("outcome=fail && con"), ConditionCursor::Key { word: "con" });
/// let literal = ConditionCursor::Literal {
///     key: "outcome",
///     comparison: Some(Comparison::Equal),
///     word: "par",
///     quote: None,
/// };
/// assert_eq!(ConditionCursor::at_end("outcome=par"), literal);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConditionCursor<'t> {
    /// A key.
    Key {
        /// The text of the key so far.
        word: &'t str,
    },
    /// The operator after a key, or a connective.
    Operator {
        /// The key.
        key: &'t str,
        /// The text of the operator so far, if it is a word.
        word: &'t str,
    },
    /// The literal that a key is compared with.
    Literal {
        /// The key.
        key: &'t str,
        /// The operator; `None` for `matches`.
        comparison: Option<Comparison>,
        /// The text of the literal so far, without its quote.
        word: &'t str,
        /// The quote that the literal begins with.
        quote: Option<char>,
    },
    /// A connective after a clause: `&&` or `||`.
    Connective,
    /// Text that is not part of a condition.
    Invalid,
}

/// What may follow the tokens so far.
#[derive(Clone, Copy)]
enum State<'t> {
    Key,
    Operator(&'t str),
    Literal(&'t str, Option<Comparison>),
    Connective,
}

impl<'t> ConditionCursor<'t> {
    /// Finds the part at the end of a text, which is the part of a condition before the cursor.
    pub fn at_end(text: &'t str) -> ConditionCursor<'t> {
        let (mut tokens, error) = tokens(text);
        let is_typed = |token: &Token| token.kind == Kind::Word && token.range.end == text.len();
        let typed = match error {
            None => tokens.pop_if(|token| is_typed(token)),
            Some(_) => None,
        };
        let state = after(text, &tokens);
        if let Some(error) = error {
            // Only an open quote is a text that may become valid by typing on.
            let open = text.get(error.range.start..).unwrap_or_default();
            let quote = open.chars().next().filter(|quote| matches!(quote, '"' | '\''));
            return match (state, quote) {
                (State::Literal(key, comparison), Some(quote)) => ConditionCursor::Literal {
                    key,
                    comparison,
                    word: open.strip_prefix(quote).unwrap_or(open),
                    quote: Some(quote),
                },
                _ => ConditionCursor::Invalid,
            };
        }
        let word = typed.and_then(|token| text.get(token.range)).unwrap_or_default();
        match state {
            State::Key => ConditionCursor::Key { word },
            State::Operator(key) => ConditionCursor::Operator { key, word },
            State::Literal(key, comparison) => ConditionCursor::Literal {
                key,
                comparison,
                word,
                quote: None,
            },
            State::Connective if word.is_empty() => ConditionCursor::Connective,
            State::Connective => ConditionCursor::Invalid,
        }
    }
}

/// Follows complete tokens. A token that cannot stand where it is changes nothing.
fn after<'t>(text: &'t str, tokens: &[Token]) -> State<'t> {
    let mut state = State::Key;
    for token in tokens {
        let word = text.get(token.range.clone()).unwrap_or_default();
        state = match (&token.kind, state) {
            (Kind::And | Kind::Or | Kind::Not | Kind::Open, _) => State::Key,
            (Kind::Close, _) => State::Connective,
            (Kind::Compare(comparison), State::Operator(key)) => State::Literal(key, Some(*comparison)),
            (Kind::Word, State::Key) => State::Operator(word),
            (Kind::Word, State::Operator(key)) if word == "contains" => {
                State::Literal(key, Some(Comparison::Contains))
            }
            (Kind::Word, State::Operator(key)) if word == "matches" => State::Literal(key, None),
            (Kind::Word | Kind::Quoted(_), State::Literal(..)) => State::Connective,
            (_, state) => state,
        };
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_condition_is_found() {
        use ConditionCursor::{Connective, Invalid, Key, Operator};
        let literal = |key, comparison, word, quote| ConditionCursor::Literal {
            key,
            comparison,
            word,
            quote,
        };
        let equal = Some(Comparison::Equal);
        let cases = [
            ("", Key { word: "" }),
            ("out", Key { word: "out" }),
            ("context.", Key { word: "context." }),
            ("!(context.a", Key { word: "context.a" }),
            (
                "outcome ",
                Operator {
                    key: "outcome",
                    word: "",
                },
            ),
            (
                "outcome con",
                Operator {
                    key: "outcome",
                    word: "con",
                },
            ),
            ("outcome=", literal("outcome", equal, "", None)),
            ("outcome = fa", literal("outcome", equal, "fa", None)),
            ("outcome='fa", literal("outcome", equal, "fa", Some('\''))),
            ("outcome=\"a b", literal("outcome", equal, "a b", Some('"'))),
            (
                "context.a matches \"^x",
                literal("context.a", None, "^x", Some('"')),
            ),
            (
                "context.log contains er",
                literal("context.log", Some(Comparison::Contains), "er", None),
            ),
            ("outcome=fail ", Connective),
            ("outcome='fail'", Connective),
            ("outcome=fail && ", Key { word: "" }),
            ("outcome=fail ||context.x", Key { word: "context.x" }),
            ("(outcome=fail) ", Connective),
            ("outcome==", Invalid),
            ("outcome=fail and", Invalid),
            ("'", Invalid),
        ];
        for (text, expected) in cases {
            assert_eq!(ConditionCursor::at_end(text), expected, "{text}");
        }
    }
}
