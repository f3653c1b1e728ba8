//! The operators of comparisons.

/// The operator of a comparison (rules C1, C3, C5).
///
/// ```
/// use orchestra_graph::condition::{Comparison, Facts};
/// let context = std::collections::BTreeMap::from([("tries".to_owned(), 9.into())]);
/// let facts = Facts { context: &context, ..Facts::default() };
/// assert!(facts.compare("context.tries", Comparison::Less, "10"));
/// assert!(!facts.compare("context.tries", Comparison::Less, "ten"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`: equal text.
    Equal,
    /// `!=`: different text.
    NotEqual,
    /// `<`, both sides numeric.
    Less,
    /// `<=`, both sides numeric.
    LessOrEqual,
    /// `>`, both sides numeric.
    Greater,
    /// `>=`, both sides numeric.
    GreaterOrEqual,
    /// `contains`: substring, or member of a list.
    Contains,
}

impl Comparison {
    /// Returns the operator as written.
    pub const fn sign(self) -> &'static str {
        match self {
            Comparison::Equal => "=",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
            Comparison::Contains => "contains",
        }
    }
}
