//! Conditions in words, for people.

use super::comparison::Comparison;
use super::expression::Expression;

impl Expression {
    /// Returns the condition in words, in Markdown.
    ///
    /// ```
    /// use orchestra_graph::condition::parse_condition;
    /// let words = |text| parse_condition(text).map(|condition| condition.describe());
    /// assert_eq!(words("outcome=fail && visits.work<3")?, "`outcome` is `fail`, and `visits.work` is less than 3");
    /// assert_eq!(words("!(context.dry_run || context.mode=test)")?,
    ///     "not (`context.dry_run` is set and neither `false` nor `0`, or `context.mode` is `test`)");
    /// assert_eq!(words("")?, "always");
    /// # Ok::<(), orchestra_graph::condition::ConditionError>(())
    /// ```
    pub fn describe(&self) -> String {
        match self {
            Expression::All(parts) if parts.is_empty() => "always".to_owned(),
            Expression::All(parts) => joined(parts, ", and "),
            Expression::Any(parts) if parts.is_empty() => "never".to_owned(),
            Expression::Any(parts) => joined(parts, ", or "),
            Expression::Not(part) => format!("not ({})", part.describe()),
            Expression::Truthy(key) => format!("`{key}` is set and neither `false` nor `0`"),
            Expression::Compare {
                key,
                comparison,
                literal,
            } => {
                let (how, plain) = match comparison {
                    Comparison::Equal if literal.is_empty() => return format!("`{key}` is empty"),
                    Comparison::NotEqual if literal.is_empty() => return format!("`{key}` is not empty"),
                    Comparison::Equal => ("is", false),
                    Comparison::NotEqual => ("is not", false),
                    Comparison::Less => ("is less than", true),
                    Comparison::LessOrEqual => ("is at most", true),
                    Comparison::Greater => ("is greater than", true),
                    Comparison::GreaterOrEqual => ("is at least", true),
                    Comparison::Contains => ("contains", false),
                };
                let mark = if plain { "" } else { "`" };
                format!("`{key}` {how} {mark}{literal}{mark}")
            }
            Expression::Matches { key, pattern } => {
                format!("`{key}` matches the regular expression `{}`", pattern.as_str())
            }
            Expression::HasOutput(key) => format!("the output of the stage contains `{key}`"),
            Expression::OutputIs { key, value } => {
                format!("the output of the stage contains `{key}` with the value `{value}`")
            }
            Expression::Failed(true) => "the stage failed".to_owned(),
            Expression::Failed(false) => "the stage did not fail".to_owned(),
        }
    }
}

/// Joins the descriptions of parts. A part that is itself joined otherwise is put in parentheses.
fn joined(parts: &[Expression], with: &str) -> String {
    let described = parts.iter().map(|part| match part {
        Expression::All(inner) | Expression::Any(inner) if inner.len() > 1 && parts.len() > 1 => {
            format!("({})", part.describe())
        }
        _ => part.describe(),
    });
    described.collect::<Vec<String>>().join(with)
}
