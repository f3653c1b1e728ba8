//! Patterns, conditions and JSON values that are parsed on first use.

use std::sync::OnceLock;

use orchestra_graph::condition::{Expression, Facts, Pattern, parse_condition};
use serde_json::Value;

/// A pattern that is compiled on first use.
pub struct LazyPattern {
    text: &'static str,
    pattern: OnceLock<Option<Pattern>>,
}

impl LazyPattern {
    /// Creates a pattern from a text that was checked at build time.
    pub const fn new(text: &'static str) -> LazyPattern {
        LazyPattern {
            text,
            pattern: OnceLock::new(),
        }
    }

    /// Returns whether the pattern matches any part of a key's text.
    pub fn matches(&self, facts: &Facts<'_>, key: &str) -> bool {
        let pattern = self.pattern.get_or_init(|| Pattern::new(self.text).ok());
        pattern
            .as_ref()
            .is_some_and(|pattern| facts.matches(key, pattern))
    }
}

/// A condition that is too long for generated code and is parsed on first use.
pub struct LazyCondition {
    text: &'static str,
    expression: OnceLock<Option<Expression>>,
}

impl LazyCondition {
    /// Creates a condition from a text that was checked at build time.
    pub const fn new(text: &'static str) -> LazyCondition {
        LazyCondition {
            text,
            expression: OnceLock::new(),
        }
    }

    /// Returns whether the condition holds.
    pub fn holds(&self, facts: &Facts<'_>) -> bool {
        let expression = self.expression.get_or_init(|| parse_condition(self.text).ok());
        expression
            .as_ref()
            .is_some_and(|expression| expression.holds(facts))
    }
}

/// A JSON value that is parsed on first use.
pub struct LazyJson {
    text: &'static str,
    value: OnceLock<Value>,
}

impl LazyJson {
    /// Creates a value from a text that was checked at build time.
    pub const fn new(text: &'static str) -> LazyJson {
        LazyJson {
            text,
            value: OnceLock::new(),
        }
    }

    /// Returns whether the output of the stage contains a key with this value.
    pub fn is(&self, facts: &Facts<'_>, key: &str) -> bool {
        let value = || serde_json::from_str(self.text).unwrap_or(Value::Null);
        facts.output_is(key, self.value.get_or_init(value))
    }
}
