//! What a condition says about the presence of context values: the keys that must be set if it holds, and those that it
//! reads although they may be missing.
//!
//! A missing value counts as empty (rule C3). So most comparisons with it are false, and an edge with such a condition
//! proves that the value is set. A comparison that a missing value makes true, such as `context.verdict != approve`,
//! needs the value instead.

use crate::condition::{Comparison, Expression};
use crate::contract::plain_key;

/// The outcome that a condition sees.
#[derive(Clone, Copy)]
pub(crate) enum Seen<'w> {
    /// This outcome.
    Word(&'w str),
    /// Any outcome.
    Any,
}

/// A set of declared keys, as bits at their positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys(Vec<u64>);

impl Keys {
    pub(crate) fn none(count: usize) -> Keys {
        Keys(vec![0; count.div_ceil(64)])
    }

    pub(crate) fn insert(&mut self, key: usize) {
        if let Some(word) = self.0.get_mut(key / 64) {
            *word |= 1 << (key % 64);
        }
    }

    pub(crate) fn remove(&mut self, key: usize) {
        if let Some(word) = self.0.get_mut(key / 64) {
            *word &= !(1 << (key % 64));
        }
    }

    pub(crate) fn contains(&self, key: usize) -> bool {
        self.0
            .get(key / 64)
            .is_some_and(|word| word & 1 << (key % 64) != 0)
    }

    /// Iterates over the positions of the keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        (0..self.0.len() * 64).filter(|key| self.contains(*key))
    }

    /// Adds the keys of another set. Returns whether any was new.
    pub(crate) fn add(&mut self, other: &Keys) -> bool {
        let mut grew = false;
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            grew |= *other & !*own != 0;
            *own |= other;
        }
        grew
    }

    /// Keeps only the keys of another set.
    pub(super) fn intersect(&mut self, other: &Keys) {
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own &= other;
        }
    }
}

/// The declared keys, which conditions are searched for.
pub(crate) struct Declared {
    /// Sorted.
    names: Vec<String>,
}

impl Declared {
    pub(crate) fn new<'k>(names: impl Iterator<Item = &'k str>) -> Declared {
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort_unstable();
        Declared { names }
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns the position of a key.
    pub(crate) fn position(&self, key: &str) -> Option<usize> {
        let key = plain_key(key);
        self.names.binary_search_by(|name| name.as_str().cmp(key)).ok()
    }

    /// Returns the key at a position.
    pub(crate) fn name(&self, key: usize) -> &str {
        self.names.get(key).map_or("", String::as_str)
    }

    pub(crate) fn none(&self) -> Keys {
        Keys::none(self.len())
    }

    /// Returns the keys that are set whenever a condition holds, or does not hold. Returns `None` if it never does after
    /// this outcome.
    pub(crate) fn implied(&self, condition: &Expression, holds: bool, seen: Seen<'_>) -> Option<Keys> {
        let (parts, all) = match condition {
            Expression::All(parts) => (parts, holds),
            Expression::Any(parts) => (parts, !holds),
            Expression::Not(part) => return self.implied(part, !holds, seen),
            leaf => return self.implied_by_leaf(leaf, holds, seen),
        };
        let mut parts = parts.iter().map(|part| self.implied(part, holds, seen));
        if all {
            return parts.try_fold(self.none(), |mut keys, part| {
                keys.add(&part?);
                Some(keys)
            });
        }
        let mut possible = parts.flatten();
        let first = possible.next()?;
        Some(possible.fold(first, |mut keys, part| {
            keys.intersect(&part);
            keys
        }))
    }

    fn implied_by_leaf(&self, leaf: &Expression, holds: bool, seen: Seen<'_>) -> Option<Keys> {
        if let Seen::Word(word) = seen
            && let Some(held) = holds_after(leaf, word)
        {
            return (held == holds).then(|| self.none());
        }
        let mut keys = self.none();
        if let Some((key, held)) = self.if_missing(leaf)
            && held != holds
        {
            keys.insert(key);
        }
        Some(keys)
    }

    /// Returns the declared key that a clause reads, and whether the clause holds if that key is missing.
    fn if_missing(&self, leaf: &Expression) -> Option<(usize, bool)> {
        let (key, held) = match leaf {
            Expression::Truthy(key) => (key, false),
            Expression::Compare {
                key,
                comparison,
                literal,
            } => {
                let held = match comparison {
                    Comparison::Equal | Comparison::Contains => literal.is_empty(),
                    Comparison::NotEqual => !literal.is_empty(),
                    _ => false,
                };
                (key, held)
            }
            Expression::Matches { key, pattern } => (key, pattern.matches_empty()),
            _ => return None,
        };
        Some((self.position(key)?, held))
    }

    /// Returns the keys that a condition needs, although they are not in `present`: those whose absence alone makes one
    /// of its comparisons true.
    pub(crate) fn needed(&self, condition: &Expression, seen: Seen<'_>, present: &Keys) -> Keys {
        let mut needed = self.none();
        self.collect(condition, true, seen, present, &mut needed);
        needed
    }

    fn collect(
        &self,
        condition: &Expression,
        holds: bool,
        seen: Seen<'_>,
        present: &Keys,
        needed: &mut Keys,
    ) {
        let (parts, all) = match condition {
            Expression::All(parts) => (parts, holds),
            Expression::Any(parts) => (parts, !holds),
            Expression::Not(part) => return self.collect(part, !holds, seen, present, needed),
            leaf => {
                if !is_presence_test(leaf)
                    && let Some((key, held)) = self.if_missing(leaf)
                    && held == holds
                    && !present.contains(key)
                {
                    needed.insert(key);
                }
                return;
            }
        };
        // A part matters only where the others do not decide: where they hold, or if one of them is enough, where they do
        // not. Each part may rely on what that proves.
        let proofs = parts.iter().map(|part| self.implied(part, holds == all, seen));
        let proofs: Vec<Option<Keys>> = proofs.collect();
        let before = accumulated(proofs.iter(), present);
        let mut after = accumulated(proofs.iter().rev(), present);
        after.reverse();
        for (part, (before, after)) in parts.iter().zip(before.into_iter().zip(after)) {
            if let (Some(mut present), Some(after)) = (before, after)
                && self.implied(part, holds, seen).is_some()
            {
                present.add(&after);
                self.collect(part, holds, seen, &present, needed);
            }
        }
    }
}

/// Returns for each position what all earlier proofs prove together with `start`; `None` after one that is impossible.
fn accumulated<'k>(proofs: impl Iterator<Item = &'k Option<Keys>>, start: &Keys) -> Vec<Option<Keys>> {
    let mut so_far = Some(start.clone());
    let before = proofs.map(|proof| {
        let now = so_far.clone();
        so_far = match (so_far.take(), proof) {
            (Some(mut keys), Some(proof)) => {
                keys.add(proof);
                Some(keys)
            }
            _ => None,
        };
        now
    });
    before.collect()
}

/// Returns whether a clause about the outcome holds after an outcome. Returns `None` for any other clause.
fn holds_after(leaf: &Expression, word: &str) -> Option<bool> {
    match leaf {
        Expression::Failed(failed) => Some((word == "fail") == *failed),
        Expression::Compare {
            key,
            comparison: comparison @ (Comparison::Equal | Comparison::NotEqual),
            literal,
        } if key == "outcome" => Some((word == literal) == (*comparison == Comparison::Equal)),
        _ => None,
    }
}

/// Returns whether a clause asks only if a value is there. Such a clause does not need the value.
fn is_presence_test(leaf: &Expression) -> bool {
    match leaf {
        Expression::Truthy(_) => true,
        Expression::Compare {
            comparison: Comparison::Equal | Comparison::NotEqual,
            literal,
            ..
        } => literal.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::parse_condition;

    /// Returns the keys that a condition implies after an outcome, and those that it needs.
    fn keys(condition: &str, word: Option<&str>) -> (Option<String>, String) {
        let declared = Declared::new(["a", "b", "c"].into_iter());
        let condition = parse_condition(condition).unwrap();
        let seen = word.map_or(Seen::Any, Seen::Word);
        let shown = |keys: &Keys| {
            let names = declared.names.iter().enumerate();
            let names = names
                .filter(|(at, _)| keys.contains(*at))
                .map(|(_, name)| name.as_str());
            names.collect::<String>()
        };
        let implied = declared.implied(&condition, true, seen);
        let needed = declared.needed(&condition, seen, &declared.none());
        (implied.map(|keys| shown(&keys)), shown(&needed))
    }

    #[test]
    fn a_condition_proves_what_a_missing_value_would_make_false() {
        for (condition, implied) in [
            ("context.a", "a"),
            ("context.a = x", "a"),
            ("context.a != \"\"", "a"),
            ("context.a >= 3 && context.b < 2", "ab"),
            ("context.a = x || context.b = y", ""),
            ("context.a = x && context.b || context.a = y", "a"),
            ("!(context.a != x)", "a"),
            ("!(context.a != x || context.b = y)", "a"),
            ("context.a contains x", "a"),
            ("context.a matches \"^v\"", "a"),
            ("context.a matches \"v*\"", ""),
            ("!(context.a matches \"v*\")", "a"),
            ("!context.a", ""),
            ("outcome=success", ""),
            ("context.other = x", ""),
            ("context.context.a", "a"),
        ] {
            assert_eq!(
                keys(condition, None),
                (Some(implied.to_owned()), keys(condition, None).1),
                "{condition}"
            );
        }
    }

    #[test]
    fn a_condition_needs_what_a_missing_value_would_make_true() {
        for (condition, needed) in [
            ("context.a != x", "a"),
            ("!(context.a = x)", "a"),
            ("!(context.a >= 3)", "a"),
            ("!(context.a contains x)", "a"),
            ("context.a && context.a != x", ""),
            ("context.a != x && context.a", ""),
            ("context.a != x || context.b", "a"),
            ("!context.a || context.a != x", ""),
            ("context.a != x || !context.a", ""),
            ("!(context.a && context.a = x)", ""),
            ("!context.b || context.a != x", "a"),
            ("context.a = '' || context.a != x", ""),
            ("context.a != '' && context.a != x", ""),
            ("context.b && (context.a != x || context.b != y)", "a"),
            ("context.a = \"\"", ""),
            ("!context.a", ""),
            ("context.a = x", ""),
            ("!(context.a = x && context.b = y)", "ab"),
        ] {
            assert_eq!(keys(condition, None).1, needed, "{condition}");
        }
    }

    #[test]
    fn parts_that_the_outcome_rules_out_count_for_nothing() {
        let both = "outcome=success && context.a != x || outcome=fail && context.b = y";
        assert_eq!(keys(both, Some("success")), (Some(String::new()), "a".to_owned()));
        assert_eq!(keys(both, Some("fail")), (Some("b".to_owned()), String::new()));
        assert_eq!(keys(both, Some("skipped")), (None, String::new()));
        assert_eq!(keys("outcome!=fail && context.a", Some("fail")).0, None);
    }
}
