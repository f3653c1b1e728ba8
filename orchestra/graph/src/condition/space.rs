//! The finitely many cases that some conditions can distinguish, as points.
//!
//! Each key gets values that represent all others: the literals it is compared with, numbers at and between its bounds,
//! the empty text, and a text that equals no literal. Clauses that cannot be enumerated like this (`contains`,
//! `matches`, keys of a stage's output) are free: each may be true or false at any point. A statement about all points
//! is thus a statement about all runs. However, free clauses may create points that no run can reach, so checks use a
//! space only if that is safe.

use super::{Comparison, Expression, OUTCOME_WORDS, VISITS, equal, is_label, number, stage_outcome};
use crate::label::normalize_label;

/// Maximum number of points. If there are more, a check reports nothing.
const MAX_POINTS: usize = 4_096;
/// Maximum number of clauses, because building the points compares each pair of them.
const MAX_CLAUSES: usize = 64;

/// A text that equals no literal of a file, because it contains a character that a value cannot contain.
const OTHER: &str = "\u{0}";

/// The points of some conditions.
pub(crate) struct Space<'e> {
    keys: Vec<(&'e str, Vec<String>)>,
    free: Vec<&'e Expression>,
    /// `true` if the set of possible outcomes is given.
    closed: bool,
}

/// A point: a value for each key, and the truth of each free clause.
#[derive(Clone)]
pub(crate) struct Point<'s, 'e> {
    space: &'s Space<'e>,
    values: Vec<usize>,
    free: u32,
}

/// The value of a key at a point.
pub(crate) struct Sample<'s> {
    pub(crate) key: &'s str,
    /// The text of the value; empty if it is missing. `None` for a value that equals no literal.
    pub(crate) text: Option<&'s str>,
    /// The texts of this key at all points.
    all: &'s [String],
}

impl Sample<'_> {
    /// Returns whether the key has this text at another point.
    pub(crate) fn is_sampled(&self, text: &str) -> bool {
        self.all.iter().any(|sample| sample == text)
    }

    /// Returns whether conditions compare the key with another operator than `=` and `!=`, so that there are numbers on all
    /// sides of its bounds.
    pub(crate) fn has_all_numbers(&self) -> bool {
        // Only such numbers have a second spelling.
        self.all
            .iter()
            .any(|sample| sample.contains('e') && number(sample).is_some())
    }
}

impl<'e> Space<'e> {
    /// Creates the points of some conditions. If `words` are given, they are the possible outcomes. Returns `None` if
    /// there are too many clauses or points.
    pub(crate) fn new(expressions: &[&'e Expression], words: Option<&[&str]>) -> Option<Space<'e>> {
        let mut leaves = Vec::new();
        for expression in expressions {
            expression.visit(&mut |part| {
                if !matches!(part, Expression::All(_) | Expression::Any(_) | Expression::Not(_)) {
                    leaves.push(part);
                }
            });
        }
        if leaves.len() > MAX_CLAUSES {
            return None;
        }
        let mut space = Space {
            keys: Vec::new(),
            free: Vec::new(),
            closed: words.is_some(),
        };
        if let Some(words) = words {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            space.keys.push(("outcome", words));
        }
        for leaf in &leaves {
            match space.key_of(leaf) {
                Some(key) if space.values(key).is_none() => {
                    let values = values(key, &leaves);
                    space.keys.push((key, values));
                }
                Some(_) => {}
                None if space.free.contains(leaf) => {}
                None => space.free.push(leaf),
            }
        }
        (space.size() <= MAX_POINTS).then_some(space)
    }

    /// Returns the number of points.
    pub(crate) fn size(&self) -> usize {
        let choices = self.keys.iter().map(|(_, values)| values.len());
        let choices = choices.chain(std::iter::once(1 << self.free.len().min(20)));
        choices.fold(1, usize::saturating_mul)
    }

    fn values(&self, key: &str) -> Option<&[String]> {
        self.keys
            .iter()
            .find(|(known, _)| *known == key)
            .map(|(_, values)| values.as_slice())
    }

    /// Returns the key whose value decides a clause, or `None` for a free clause.
    fn key_of(&self, leaf: &'e Expression) -> Option<&'e str> {
        match leaf {
            Expression::Failed(_) => Some("outcome"),
            Expression::Truthy(key) => Some(key),
            Expression::Compare {
                key,
                comparison: Comparison::Contains,
                ..
            }
            | Expression::Matches { key, .. } => (self.closed && key == "outcome").then_some(key),
            Expression::Compare { key, .. } => Some(key),
            _ => None,
        }
    }

    /// Returns the first point that passes a test.
    pub(crate) fn find(&self, mut test: impl FnMut(&Point<'_, 'e>) -> bool) -> Option<Point<'_, 'e>> {
        let mut point = Point {
            space: self,
            values: vec![0; self.keys.len()],
            free: 0,
        };
        loop {
            if test(&point) {
                return Some(point);
            }
            point.free += 1;
            if point.free < 1 << self.free.len() {
                continue;
            }
            point.free = 0;
            let mut carried = true;
            // The first key, the outcome, changes last, so the first match has the simplest outcome.
            for (value, (_, values)) in point.values.iter_mut().zip(&self.keys).rev() {
                *value += 1;
                if *value < values.len() {
                    carried = false;
                    break;
                }
                *value = 0;
            }
            if carried {
                return None;
            }
        }
    }
}

impl<'s, 'e> Point<'s, 'e> {
    /// Returns the outcome at this point.
    pub(crate) fn outcome(&self) -> &str {
        self.text("outcome")
    }

    /// Returns the same point with a full success. Returns `None` unless the outcome is a partial success (rule R12).
    pub(crate) fn as_success(&self) -> Option<Point<'s, 'e>> {
        if self.outcome() != "partial_success" {
            return None;
        }
        let (_, words) = self.space.keys.first().filter(|(key, _)| *key == "outcome")?;
        let mut point = self.clone();
        *point.values.first_mut()? = words.iter().position(|word| word == "success")?;
        Some(point)
    }

    /// Iterates over the values of the keys.
    pub(crate) fn samples(&self) -> impl Iterator<Item = Sample<'_>> {
        let keys = self.space.keys.iter().zip(&self.values);
        keys.filter_map(|((key, all), at)| {
            let text = all.get(*at)?;
            Some(Sample {
                key,
                text: (text != OTHER).then_some(text),
                all,
            })
        })
    }

    fn text(&self, key: &str) -> &str {
        let keys = self.space.keys.iter().zip(&self.values);
        keys.into_iter()
            .find(|((known, _), _)| *known == key)
            .and_then(|((_, values), at)| values.get(*at))
            .map_or("", String::as_str)
    }

    /// Returns whether a condition is true at this point.
    pub(crate) fn holds(&self, expression: &Expression) -> bool {
        match expression {
            Expression::All(parts) => parts.iter().all(|part| self.holds(part)),
            Expression::Any(parts) => parts.iter().any(|part| self.holds(part)),
            Expression::Not(part) => !self.holds(part),
            Expression::Failed(failed) => (self.outcome() == "fail") == *failed,
            Expression::Truthy(key) => !matches!(self.text(key), "" | "false" | "0"),
            Expression::Compare {
                key,
                comparison: Comparison::Contains,
                literal,
            } if self.is_closed(key) => self.text(key).contains(literal.as_str()),
            Expression::Matches { key, pattern } if self.is_closed(key) => crate::condition::Facts {
                outcome: self.outcome(),
                ..Default::default()
            }
            .matches(key, pattern),
            Expression::Compare {
                key,
                comparison,
                literal,
            } if *comparison != Comparison::Contains => compare(key, self.text(key), *comparison, literal),
            other => {
                let at = self.space.free.iter().position(|free| *free == other);
                at.is_some_and(|at| self.free & 1 << at != 0)
            }
        }
    }

    fn is_closed(&self, key: &str) -> bool {
        self.space.closed && key == "outcome"
    }

    /// Returns a human-readable description of the point.
    pub(crate) fn describe(&self) -> String {
        const MAX: usize = 4;
        let keys = self.space.keys.iter().zip(&self.values);
        let mut parts: Vec<String> = keys
            .filter_map(|((key, values), at)| {
                let shown = crate::syntax::shorten(key);
                let subject = if *key == "outcome" {
                    "the outcome".to_owned()
                } else {
                    format!("`{shown}`")
                };
                Some(match values.get(*at)?.as_str() {
                    "" => format!("{subject} is missing"),
                    OTHER => format!("{subject} is something else"),
                    value => format!("{subject} is `{}`", crate::syntax::shorten(value)),
                })
            })
            .collect();
        for (at, part) in self.space.free.iter().enumerate() {
            let not = if self.free & 1 << at == 0 {
                " does not hold"
            } else {
                " holds"
            };
            parts.push(format!("{}{not}", show(part)));
        }
        parts.truncate(MAX);
        parts.join(" and ")
    }
}

/// Returns a single clause as written.
fn show(part: &Expression) -> String {
    let text = match part {
        Expression::Compare {
            key,
            comparison,
            literal,
        } => format!("{key} {} {literal}", comparison.sign()),
        Expression::Matches { key, pattern } => format!("{key} matches {}", pattern.as_str()),
        Expression::HasOutput(key) => format!("output `{key}`"),
        Expression::OutputIs { key, value } => format!("output {key} = {value}"),
        Expression::Truthy(key) => key.clone(),
        _ => "a clause".to_owned(),
    };
    format!("`{}`", crate::syntax::shorten(&text))
}

fn compare(key: &str, value: &str, comparison: Comparison, literal: &str) -> bool {
    match comparison {
        Comparison::Equal => equal(key, value, literal),
        Comparison::NotEqual => !equal(key, value, literal),
        _ => {
            let (Some(left), Some(right)) = (number(value), number(literal)) else {
                return false;
            };
            match comparison {
                Comparison::Less => left < right,
                Comparison::LessOrEqual => left <= right,
                Comparison::Greater => left > right,
                _ => left >= right,
            }
        }
    }
}

/// Returns numbers of visits that represent all numbers: those at and next to the bounds.
fn counts(key: &str, leaves: &[&Expression]) -> Vec<String> {
    let mut counts: std::collections::BTreeSet<u64> = [0, 1].into();
    for leaf in leaves {
        if let Expression::Compare {
            key: own, literal, ..
        } = leaf
            && own == key
            && let Some(bound) = number(literal)
        {
            // A bound outside the range of `u64` saturates; such a bound does not distinguish any counts.
            let bound = bound.floor() as u64;
            counts.extend([bound.saturating_sub(1), bound, bound.saturating_add(1)]);
        }
    }
    counts.into_iter().map(|count| count.to_string()).collect()
}

/// Returns values that represent all values of a key.
fn values(key: &str, leaves: &[&Expression]) -> Vec<String> {
    if key.starts_with(VISITS) {
        return counts(key, leaves);
    }
    let mut values: Vec<String> = Vec::new();
    if key == "outcome" || stage_outcome(key).is_some() {
        values.extend(OUTCOME_WORDS.iter().map(|word| (*word).to_owned()));
    }
    values.extend(["".to_owned(), OTHER.to_owned()]);
    let (mut bounds, mut numeric) = (Vec::new(), false);
    for leaf in leaves {
        match leaf {
            Expression::Truthy(own) if own == key => {
                values.extend(["0", "false", "true"].map(str::to_owned));
            }
            Expression::Compare {
                key: own,
                comparison,
                literal,
            } if own == key => {
                bounds.extend(number(literal));
                match comparison {
                    Comparison::Equal | Comparison::NotEqual if is_label(key) => {
                        values.push(normalize_label(literal));
                    }
                    Comparison::Equal | Comparison::NotEqual => values.push(literal.clone()),
                    Comparison::Contains => {}
                    _ => numeric = true,
                }
            }
            _ => {}
        }
    }
    if numeric {
        bounds.sort_by(f64::total_cmp);
        bounds.dedup();
        let between = bounds.windows(2).map(|pair| pair[0].midpoint(pair[1]));
        let ends = [
            bounds.first().map(|first| first - 1.0),
            bounds.last().map(|last| last + 1.0),
        ];
        let numbers: Vec<f64> = bounds
            .iter()
            .copied()
            .chain(between)
            .chain(ends.into_iter().flatten())
            .collect();
        for number in numbers {
            // Two spellings, because one may be excluded as text while the number itself is allowed.
            values.push(number.to_string());
            values.push(format!("{number:e}"));
        }
    }
    let mut seen = std::collections::HashSet::new();
    values.retain(|value| seen.insert(value.clone()));
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::parse_condition;

    fn possible(text: &str) -> bool {
        let expression = parse_condition(text).unwrap();
        let space = Space::new(&[&expression], None).unwrap();
        space.find(|point| point.holds(&expression)).is_some()
    }

    #[test]
    fn contradictions_are_found_and_nothing_else() {
        for text in [
            "outcome=success && outcome=fail",
            "context.a=1 && context.a!=1",
            "context.n<3 && context.n>=3",
            "context.n>2 && context.n<2",
            "context.a && context.a=false",
            "context.n>5 && context.n=4",
            "context.a contains x && !(context.a contains x)",
            "context.n<abc",
            "preferred_label=Approve && preferred_label!=\"[A] approve\"",
            "visits.work<0",
            "visits.work>2 && visits.work<3",
            "!visits.work && visits.work>0",
            "visits.work=none",
        ] {
            assert!(!possible(text), "{text}");
        }
        for text in [
            "outcome!=success && outcome!=fail",
            "context.n>2 && context.n<3",
            "context.n>=3 && context.n<=3 && context.n!=3",
            "context.n>-1 && context.n<1 && context.n",
            "context.a && context.a!=true",
            "context.a contains x && context.a matches y",
            "!(context.a=1) && !context.a",
            "outcome=approved",
            "preferred_label=Approve && preferred_label!=approval",
            "visits.work>2 && visits.work<4",
            "visits.work=7",
            "stages.work.outcome=fail && outcome=success",
        ] {
            assert!(possible(text), "{text}");
        }
    }

    #[test]
    fn many_keys_are_left_alone() {
        let text: Vec<String> = (0..40).map(|key| format!("context.k{key}=1")).collect();
        let expression = parse_condition(&text.join(" && ")).unwrap();
        assert!(Space::new(&[&expression], None).is_none());
    }
}
