//! Assertions: statements about all runs of a pipeline, in its attribute `assert`.

use std::ops::Range;

mod cursor;

pub use cursor::{ASSERTION_FORMS, AssertionCursor};

use crate::diagnostic::did_you_mean;
use crate::syntax::{is_identifier, shorten};
use crate::text::trimmed;

/// An assertion of a pipeline, with the range of its text in the attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assertion {
    pub(crate) range: Range<usize>,
    pub(crate) claim: Claim,
}

/// What an assertion claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// `requires(TARGET, STAGE)`: whenever a run enters the target, the stage has succeeded before, and nothing has
    /// made that success stale.
    Requires {
        target: Name,
        stage: Name,
        /// The answer or the outcome with which the stage must have ended.
        result: Option<Name>,
        /// The nodes whose start makes the success stale.
        since: Vec<Name>,
    },
    /// `handled(STAGE)`: a failure of the stage leads to another node.
    Handled { stage: Name },
    /// `at_most(STAGE, N)`: a run attempts the stage at most so often.
    AtMost { stage: Name, most: u64 },
    /// `total(attempts) <= N` or `total(visits) <= N`: a run has at most so many in all.
    Total { counted: Counted, most: u64 },
}

/// What `total` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    Visits,
    Attempts,
}

/// A name in an assertion, with its range in the text of the attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) range: Range<usize>,
}

/// The reason why a text is not an assertion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AssertionError {
    pub(crate) message: String,
    pub(crate) range: Range<usize>,
    /// The word that was probably meant, as a replacement for the range.
    pub(crate) meant: Option<&'static str>,
}

impl AssertionError {
    fn new(message: impl Into<String>, range: Range<usize>) -> AssertionError {
        AssertionError {
            message: message.into(),
            range,
            meant: None,
        }
    }

    /// Suggests one of some words for the one that was written.
    fn meant(self, written: &str, words: &[&'static str]) -> AssertionError {
        AssertionError {
            meant: did_you_mean(written, words.iter().copied()),
            ..self
        }
    }
}

/// The names of the assertions.
const NAMES: &[&str] = &["requires", "handled", "at_most", "total"];

/// Maximum number of assertions, because each is proved by itself.
const MOST: usize = 100;

/// Parses assertions, separated by `;`. Returns each with its own error, so that one mistake does not hide another.
pub(crate) fn parse_assertions(text: &str) -> Vec<Result<Assertion, AssertionError>> {
    let mut found = Vec::new();
    let mut start = 0;
    for part in split(text, ';', false) {
        let range = trimmed(text, start..start + part.len());
        start += part.len() + 1;
        if range.is_empty() {
            continue;
        }
        if found.len() == MOST {
            let message = format!("a pipeline has at most {MOST} assertions");
            found.push(Err(AssertionError::new(message, range)));
            break;
        }
        found.push(parse(text, range));
    }
    if found.is_empty() {
        found.push(Err(AssertionError::new("`assert` contains no assertion", 0..0)));
    }
    found
}

/// Splits a text at a character outside of quotes, and outside of parentheses if these nest.
fn split(text: &str, at: char, nests: bool) -> Vec<&str> {
    let (mut quote, mut depth) = (None, 0_u32);
    text.split(|c: char| {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '(') => depth += u32::from(nests),
            (None, ')') => depth = depth.saturating_sub(1),
            (None, c) => return c == at && depth == 0,
        }
        false
    })
    .collect()
}

fn parse(text: &str, range: Range<usize>) -> Result<Assertion, AssertionError> {
    let written = text.get(range.clone()).unwrap_or_default();
    let form = "an assertion has the form `NAME(ARGUMENT, ..)`";
    let parentheses = written.find('(').zip(written.rfind(')'));
    let parentheses = parentheses.filter(|(open, close)| open < close);
    let name = |open: usize| trimmed(text, range.start..range.start + open);
    if let Some((open, close)) = parentheses
        && text.get(name(open)) == Some("total")
    {
        let counted = trimmed(text, range.start + open + 1..range.start + close);
        let bound = trimmed(text, range.start + close + 1..range.end);
        let claim = total(text, &range, counted, bound)?;
        return Ok(Assertion { range, claim });
    }
    let Some((open, _)) = parentheses.filter(|_| written.ends_with(')')) else {
        let message = format!("`{}` is not an assertion: {form}", shorten(written));
        return Err(AssertionError::new(message, range));
    };
    let name = name(open);
    let mut arguments = Vec::new();
    let mut start = range.start + open + 1;
    let inner = written.get(open + 1..written.len() - 1).unwrap_or_default();
    for argument in split(inner, ',', true) {
        arguments.push(trimmed(text, start..start + argument.len()));
        start += argument.len() + 1;
    }
    let claim = match text.get(name.clone()).unwrap_or_default() {
        "requires" => requires(text, &range, &arguments)?,
        "handled" => match arguments.as_slice() {
            [stage] => Claim::Handled {
                stage: node(text, stage)?,
            },
            _ => {
                let message = "`handled` takes one node, as in `handled(build)`";
                return Err(AssertionError::new(message, range));
            }
        },
        "at_most" => match arguments.as_slice() {
            [stage, most] => Claim::AtMost {
                stage: node(text, stage)?,
                most: number(text, most)?,
            },
            _ => {
                let message = "`at_most` takes a node and a number, as in `at_most(build, 5)`";
                return Err(AssertionError::new(message, range));
            }
        },
        other => {
            let message = format!("there is no assertion `{}`", shorten(other));
            return Err(AssertionError::new(message, name).meant(other, NAMES));
        }
    };
    Ok(Assertion { range, claim })
}

fn requires(text: &str, range: &Range<usize>, arguments: &[Range<usize>]) -> Result<Claim, AssertionError> {
    let [target, stage, rest @ ..] = arguments else {
        let message = "`requires` takes two nodes, as in `requires(ship, approve=Ship, since=build)`";
        return Err(AssertionError::new(message, range.clone()));
    };
    let (stage, result) = match equation(text, stage) {
        Some((stage, result)) => (stage, Some(value(text, result)?)),
        None => (stage.clone(), None),
    };
    let mut since = Vec::new();
    for argument in rest {
        match equation(text, argument) {
            Some((key, node_range)) if text.get(key.clone()) == Some("since") => {
                since.push(node(text, &node_range)?);
            }
            other => {
                let message = "after its two nodes, `requires` takes only `since=NODE`";
                let key = other.map(|(key, _)| key);
                let word = key.clone().and_then(|key| text.get(key)).unwrap_or_default();
                let error = AssertionError::new(message, argument.clone()).meant(word, &["since"]);
                return Err(match (error.meant, key) {
                    (Some(_), Some(range)) => AssertionError { range, ..error },
                    _ => error,
                });
            }
        }
    }
    Ok(Claim::Requires {
        target: node(text, target)?,
        stage: node(text, &stage)?,
        result,
        since,
    })
}

/// Reads `total(WHAT) <= N`.
fn total(
    text: &str,
    range: &Range<usize>,
    counted: Range<usize>,
    bound: Range<usize>,
) -> Result<Claim, AssertionError> {
    let counted = match text.get(counted.clone()).unwrap_or_default() {
        "visits" => Counted::Visits,
        "attempts" => Counted::Attempts,
        other => {
            let error = AssertionError::new("`total` counts `visits` or `attempts`", counted);
            return Err(error.meant(other, &["visits", "attempts"]));
        }
    };
    let written = text.get(bound.clone()).unwrap_or_default();
    if !written.starts_with("<=") {
        let message = "`total` needs a limit, as in `total(attempts) <= 60`";
        return Err(AssertionError::new(message, range.clone()));
    }
    let most = number(text, &trimmed(text, bound.start + 2..bound.end))?;
    Ok(Claim::Total { counted, most })
}

fn number(text: &str, range: &Range<usize>) -> Result<u64, AssertionError> {
    let written = text.get(range.clone()).unwrap_or_default();
    let digits = !written.is_empty() && written.bytes().all(|byte| byte.is_ascii_digit());
    let number = written.parse().ok().filter(|_| digits);
    number.ok_or_else(|| {
        let message = format!("`{}` is not a whole number", shorten(written));
        AssertionError::new(message, range.clone())
    })
}

/// Splits `KEY=VALUE`.
fn equation(text: &str, range: &Range<usize>) -> Option<(Range<usize>, Range<usize>)> {
    let at = text.get(range.clone())?.find('=')?;
    let key = trimmed(text, range.start..range.start + at);
    let value = trimmed(text, range.start + at + 1..range.end);
    Some((key, value))
}

fn node(text: &str, range: &Range<usize>) -> Result<Name, AssertionError> {
    let written = text.get(range.clone()).unwrap_or_default();
    if is_identifier(written) {
        return Ok(Name {
            text: written.to_owned(),
            range: range.clone(),
        });
    }
    let message = format!("`{}` is not the id of a node", shorten(written));
    Err(AssertionError::new(message, range.clone()))
}

/// Reads an answer or an outcome, which may be quoted.
fn value(text: &str, range: Range<usize>) -> Result<Name, AssertionError> {
    let written = text.get(range.clone()).unwrap_or_default();
    let unquoted = ['\'', '"'].iter().find_map(|quote| {
        let inner = written.strip_prefix(*quote)?.strip_suffix(*quote)?;
        Some(inner.trim())
    });
    let value = unquoted.unwrap_or(written);
    if value.is_empty() {
        let message = "`=` needs an answer or an outcome after it";
        return Err(AssertionError::new(message, range));
    }
    Ok(Name {
        text: value.to_owned(),
        range,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(text: &str) -> Vec<Result<Claim, String>> {
        let parsed = parse_assertions(text).into_iter();
        parsed
            .map(|found| match found {
                Ok(assertion) => {
                    assert!(text[assertion.range.clone()].ends_with([')', '0']));
                    Ok(assertion.claim)
                }
                Err(error) => Err(format!("{} @ {}", error.message, &text[error.range])),
            })
            .collect()
    }

    #[test]
    fn names_are_found_where_they_are_written() {
        let text =
            " requires( ship , approve = '[S] Ship; now' , since=build, since = plan ); handled(build);";
        let found = claims(text);
        let [
            Ok(Claim::Requires {
                target,
                stage,
                result: Some(result),
                since,
            }),
            Ok(Claim::Handled { stage: handled }),
        ] = found.as_slice()
        else {
            panic!("{found:?}");
        };
        assert_eq!((target.text.as_str(), stage.text.as_str()), ("ship", "approve"));
        assert_eq!(result.text, "[S] Ship; now");
        let since: Vec<&str> = since.iter().map(|name| &text[name.range.clone()]).collect();
        assert_eq!(since, ["build", "plan"]);
        assert_eq!(&text[handled.range.clone()], "build");
    }

    #[test]
    fn limits_are_whole_numbers() {
        let text = "at_most( build , 5 ); total( attempts )<=60; total(visits) <= 0";
        let found = claims(text);
        let [
            Ok(Claim::AtMost { stage, most: 5 }),
            Ok(Claim::Total {
                counted: Counted::Attempts,
                most: 60,
            }),
            Ok(Claim::Total {
                counted: Counted::Visits,
                most: 0,
            }),
        ] = found.as_slice()
        else {
            panic!("{found:?}");
        };
        assert_eq!(&text[stage.range.clone()], "build");
    }

    #[test]
    fn the_number_of_assertions_is_limited() {
        let text = "handled(a);".repeat(MOST + 2);
        let found = claims(&text);
        assert_eq!(found.iter().filter(|found| found.is_ok()).count(), MOST);
        let last = format!("a pipeline has at most {MOST} assertions @ handled(a)");
        assert_eq!(found.last(), Some(&Err(last)));
    }

    #[test]
    fn each_mistake_is_reported_where_it_is() {
        for (text, message) in [
            (" ; ", "`assert` contains no assertion @ "),
            (
                "requires",
                "`requires` is not an assertion: an assertion has the form `NAME(ARGUMENT, ..)` @ requires",
            ),
            ("require(a, b)", "there is no assertion `require` @ require"),
            ("handled()", "`` is not the id of a node @ "),
            (
                "handled(a, b)",
                "`handled` takes one node, as in `handled(build)` @ handled(a, b)",
            ),
            (
                "requires(a)",
                "`requires` takes two nodes, as in `requires(ship, approve=Ship, since=build)` @ requires(a)",
            ),
            (
                "requires(a, b, c)",
                "after its two nodes, `requires` takes only `since=NODE` @ c",
            ),
            ("requires(a, b=)", "`=` needs an answer or an outcome after it @ "),
            (
                "at_most(a)",
                "`at_most` takes a node and a number, as in `at_most(build, 5)` @ at_most(a)",
            ),
            ("at_most(a, -1)", "`-1` is not a whole number @ -1"),
            ("at_most(a, +1)", "`+1` is not a whole number @ +1"),
            (
                "at_most(a, 99999999999999999999)",
                "`99999999999999999999` is not a whole number @ 99999999999999999999",
            ),
            (
                "total(calls) <= 5",
                "`total` counts `visits` or `attempts` @ calls",
            ),
            (
                "total(visits) < 5",
                "`total` needs a limit, as in `total(attempts) <= 60` @ total(visits) < 5",
            ),
            (
                "total(visits)",
                "`total` needs a limit, as in `total(attempts) <= 60` @ total(visits)",
            ),
            ("total(visits) <= ", "`` is not a whole number @ "),
            (
                "at_most(a, 5) <= 5",
                "`at_most(a, 5) <= 5` is not an assertion: an assertion has the form `NAME(ARGUMENT, ..)` @ at_most(a, 5) <= 5",
            ),
            ("requires(a b, c)", "`a b` is not the id of a node @ a b"),
        ] {
            assert_eq!(claims(text), [Err(message.to_owned())], "{text}");
        }
    }
}
