//! The part of an assertion that is being typed.

use super::{equation, split};

/// The forms of assertions, each with its description.
///
/// ```
/// use orchestra_graph::ASSERTION_FORMS;
/// assert!(ASSERTION_FORMS.iter().any(|(form, _)| form.starts_with("handled(")));
/// ```
pub static ASSERTION_FORMS: &[(&str, &str)] = &[
    (
        "requires(NODE, STAGE)",
        "Whenever a run enters `NODE`, `STAGE` has passed: it has ended before, and its last end was not `fail`.",
    ),
    (
        "requires(NODE, STAGE=RESULT)",
        "Whenever a run enters `NODE`, the last end of `STAGE` was this outcome or, at a human gate, this answer.",
    ),
    (
        "requires(NODE, STAGE=RESULT, since=OTHER)",
        "As without `since`, and no visit of `OTHER` has begun since that end.",
    ),
    (
        "handled(STAGE)",
        "Every failure of `STAGE` leads to another node.",
    ),
    (
        "at_most(NODE, NUMBER)",
        "A run executes `NODE` at most so often: all attempts of all visits, over all branches and restarts.",
    ),
    (
        "total(attempts) <= NUMBER",
        "A run has at most so many attempts of all nodes together.",
    ),
    (
        "total(visits) <= NUMBER",
        "A run has at most so many visits of all nodes together.",
    ),
];

/// The part of an assertion at the end of an incomplete text.
///
/// ```
/// use orchestra_graph::AssertionCursor;
/// let at_end = AssertionCursor::at_end;
/// assert_eq!(at_end("handled(build); req"), AssertionCursor::Name { word: "req" });
/// assert_eq!(at_end("requires(ship, "), AssertionCursor::Node { word: "" });
/// let result = AssertionCursor::StageResult { stage: "approve", word: "Sh", quote: None };
/// assert_eq!(at_end("requires(ship, approve=Sh"), result);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AssertionCursor<'t> {
    /// The name of an assertion.
    Name {
        /// The text of the name so far.
        word: &'t str,
    },
    /// The id of a node.
    Node {
        /// The text of the id so far.
        word: &'t str,
    },
    /// The outcome or the answer with which a stage must have ended.
    StageResult {
        /// The stage.
        stage: &'t str,
        /// The text of the result so far, without its quote.
        word: &'t str,
        /// The quote that the result begins with.
        quote: Option<char>,
    },
    /// A further argument of `requires`: `since=NODE`.
    Since {
        /// The text of the argument so far.
        word: &'t str,
    },
    /// What `total` counts.
    Counted {
        /// The text so far.
        word: &'t str,
    },
    /// A position at which nothing is named.
    Other,
}

impl<'t> AssertionCursor<'t> {
    /// Finds the part at the end of a text, which is the part of the attribute before the cursor.
    pub fn at_end(text: &'t str) -> AssertionCursor<'t> {
        let written = split(text, ';', false).pop().unwrap_or_default();
        let written = written.trim_start();
        let Some((name, inner)) = written.split_once('(') else {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            return if written.chars().all(is_name) {
                AssertionCursor::Name { word: written }
            } else {
                AssertionCursor::Other
            };
        };
        if is_closed(inner) {
            return AssertionCursor::Other;
        }
        let arguments = split(inner, ',', false);
        let word = arguments.last().copied().unwrap_or_default().trim_start();
        match (name.trim_end(), arguments.len()) {
            ("requires", 1) | ("handled", 1) | ("at_most", 1) => AssertionCursor::Node { word },
            ("requires", 2) => match equation(word, &(0..word.len())) {
                Some((stage, _)) => result(word, stage),
                None => AssertionCursor::Node { word },
            },
            ("requires", _) => match word.split_once('=') {
                Some((key, node)) if key.trim_end() == "since" => AssertionCursor::Node {
                    word: node.trim_start(),
                },
                Some(_) => AssertionCursor::Other,
                None => AssertionCursor::Since { word },
            },
            ("total", 1) => AssertionCursor::Counted { word },
            _ => AssertionCursor::Other,
        }
    }
}

/// Returns whether the parenthesis before a text is closed in it, outside of quotes.
fn is_closed(inner: &str) -> bool {
    let mut quote = None;
    inner.chars().any(|c| {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, ')') => return true,
            _ => {}
        }
        false
    })
}

fn result(word: &str, stage: std::ops::Range<usize>) -> AssertionCursor<'_> {
    let stage = word.get(stage).unwrap_or_default();
    let (_, value) = word.split_once('=').unwrap_or_default();
    let value = value.trim_start();
    let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''));
    let inner = quote.and_then(|quote| value.strip_prefix(quote));
    match (inner, quote) {
        // After the closing quote, nothing is named.
        (Some(inner), Some(quote)) if inner.contains(quote) => AssertionCursor::Other,
        (Some(word), quote) => AssertionCursor::StageResult { stage, word, quote },
        (None, quote) => AssertionCursor::StageResult {
            stage,
            word: value,
            quote,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_an_assertion_is_found() {
        use AssertionCursor::{Counted, Name, Node, Other, Since, StageResult};
        let result = |stage, word, quote| StageResult { stage, word, quote };
        for (text, expected) in [
            ("", Name { word: "" }),
            ("handled(a) ; at", Name { word: "at" }),
            ("requires(", Node { word: "" }),
            ("requires( sh", Node { word: "sh" }),
            ("requires(ship, te", Node { word: "te" }),
            ("requires(ship, test=", result("test", "", None)),
            (
                "requires(ship, ok='[S] Ship; n",
                result("ok", "[S] Ship; n", Some('\'')),
            ),
            ("requires(ship, ok='x'", Other),
            ("requires(ship, ok='x', si", Since { word: "si" }),
            ("requires(ship, ok, since=bu", Node { word: "bu" }),
            ("requires(ship, ok, until=bu", Other),
            ("handled(", Node { word: "" }),
            ("handled(a)", Other),
            ("at_most(a, 5", Other),
            ("total(vis", Counted { word: "vis" }),
            ("total(visits) <= 5; ", Name { word: "" }),
            ("other(x", Other),
            ("two words", Other),
        ] {
            assert_eq!(AssertionCursor::at_end(text), expected, "{text}");
        }
    }

    #[test]
    fn the_forms_are_assertions() {
        for (form, _) in ASSERTION_FORMS {
            let written = form.replace("NUMBER", "5");
            let parsed = super::super::parse_assertions(&written);
            assert!(matches!(parsed.as_slice(), [Ok(_)]), "{form}");
        }
    }
}
