//! The executable forms of the conditions of a table.

use crate::condition::{Expression, Facts};

/// A condition as a function.
pub type Predicate = fn(&Facts<'_>) -> bool;

/// The conditions of a pipeline in executable form, in the order of
/// [`Pipeline::conditions`](crate::Pipeline::conditions).
///
/// ```
/// use orchestra_graph::table::Predicates;
/// use orchestra_graph::{Source, load};
/// let text = r#"digraph { start -> exit [condition="outcome=success"] }"#;
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let Predicates::Expressions(expressions) = &pipeline.predicates else { panic!("this one is loaded") };
/// assert_eq!(expressions[0].keys(), ["outcome"]);
/// ```
#[derive(Clone, Debug)]
pub enum Predicates {
    /// Functions, in a compiled pipeline.
    Functions(&'static [Predicate]),
    /// Expression trees, in a loaded pipeline.
    Expressions(Vec<Expression>),
}

impl Predicates {
    /// Returns `true` if the condition with this index holds; `false` if there is none.
    pub(super) fn holds(&self, index: usize, facts: &Facts<'_>) -> bool {
        match self {
            Predicates::Functions(functions) => functions.get(index).is_some_and(|function| function(facts)),
            Predicates::Expressions(expressions) => expressions
                .get(index)
                .is_some_and(|expression| expression.holds(facts)),
        }
    }

    /// Returns the expression tree of the condition with this index; `None` in a compiled pipeline.
    pub(super) fn expression(&self, index: usize) -> Option<&Expression> {
        match self {
            Predicates::Functions(_) => None,
            Predicates::Expressions(expressions) => expressions.get(index),
        }
    }
}
