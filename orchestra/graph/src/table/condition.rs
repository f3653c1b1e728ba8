//! A condition of a table, with access to its texts and its executable form.

use super::pipeline::Pipeline;
use super::rows::{ConditionRow, EdgeRow, NodeRow};
use crate::condition::{Expression, Facts};

/// A condition of a [`Pipeline`], with access to its texts and its executable form.
///
/// ```
/// use orchestra_graph::condition::Facts;
/// use orchestra_graph::{Source, load};
/// let text = r#"digraph { start -> exit [condition="outcome=success"] }"#;
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let condition = pipeline.condition(&pipeline.edges[0]).expect("the edge has one");
/// assert_eq!(condition.text(), "outcome=success");
/// assert!(condition.keys().eq(["outcome"]));
/// assert!(!condition.holds(&Facts { outcome: "fail", ..Facts::default() }));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Condition<'p> {
    pipeline: &'p Pipeline,
    index: usize,
    row: &'p ConditionRow,
}

impl<'p> Condition<'p> {
    /// Returns the text as written.
    pub fn text(&self) -> &'p str {
        self.pipeline.text(self.row.text)
    }

    /// Iterates over the keys that the condition reads.
    pub fn keys(&self) -> impl Iterator<Item = &'p str> + use<'p> {
        let pipeline = self.pipeline;
        let keys = pipeline.keys.get(self.row.keys.range()).unwrap_or_default();
        keys.iter().map(move |key| pipeline.text(*key))
    }

    /// Returns `true` if the condition can hold only after a failure.
    pub fn needs_failure(&self) -> bool {
        self.row.needs_failure
    }

    /// Returns `true` if the condition holds.
    pub fn holds(&self, facts: &Facts<'_>) -> bool {
        self.pipeline.predicates.holds(self.index, facts)
    }

    /// Returns the expression tree; `None` in a compiled pipeline.
    pub fn expression(&self) -> Option<&'p Expression> {
        self.pipeline.predicates.expression(self.index)
    }
}

impl Pipeline {
    /// Returns the condition of an edge; `None` if it has none.
    pub fn condition(&self, edge: &EdgeRow) -> Option<Condition<'_>> {
        self.condition_at(edge.condition?)
    }

    /// Returns the condition of a goal gate; `None` if it has none of its own.
    pub fn goal_condition(&self, node: &NodeRow) -> Option<Condition<'_>> {
        self.condition_at(node.goal_condition?)
    }

    /// Returns the condition with this index; `None` if there is none.
    fn condition_at(&self, index: u32) -> Option<Condition<'_>> {
        let index = index as usize;
        Some(Condition {
            pipeline: self,
            index,
            row: self.conditions.get(index)?,
        })
    }

    /// Iterates over the conditions.
    pub fn conditions(&self) -> impl Iterator<Item = Condition<'_>> {
        let rows = self.conditions.iter().enumerate();
        rows.map(move |(index, row)| Condition {
            pipeline: self,
            index,
            row,
        })
    }
}
