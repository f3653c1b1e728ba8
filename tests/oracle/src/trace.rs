//! What happened in a run, in words: the form in which two readings of the rules are compared.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

/// A run from start to end.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// What happened, in order.
    pub steps: Vec<Step>,
    /// How it ended.
    pub end: End,
    /// The latest recorded outcome word of each stage that ran.
    pub outcomes: BTreeMap<String, String>,
    /// The context at the end, without the mirrored attributes of the graph.
    pub context: BTreeMap<String, Value>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A node was entered.
    Visit(String),
    /// A stage gave an outcome; the word is the one that routing sees.
    Outcome(String),
    /// The way on was chosen.
    Choice {
        /// The node whose edges were chosen from.
        from: String,
        /// The way.
        way: Way,
        /// The word of the rule that decided.
        rule: String,
        /// The edges whose conditions were tested, by their place among the node's edges, and what came of it.
        tested: Vec<(usize, bool)>,
    },
}

/// Where a choice leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// Along an edge.
    Edge {
        /// Its place among the edges of its node.
        place: usize,
        /// Its target.
        to: String,
    },
    /// To a retry target.
    Jump(String),
    /// The run ends here, as intended.
    End(bool),
    /// Nothing leads on.
    Fail(&'static str),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With success.
    Success,
    /// A stage failed, and nothing took its failure.
    StageFailed {
        /// The stage.
        node: String,
        /// Its reason.
        reason: String,
    },
    /// No edge of the node could be taken.
    NoMatchingEdge(String),
    /// The node has no edge and is not the exit.
    DeadEnd(String),
    /// The node is marked as a failure's end.
    FailureEnd(String),
    /// The node would have been visited too often.
    MaxVisits {
        /// The node.
        node: String,
        /// The bound.
        limit: u32,
        /// The attribute that sets it.
        attribute: String,
    },
    /// The stage failed in the same way too often.
    FailureBreaker {
        /// The stage.
        node: String,
        /// Its reason.
        reason: String,
        /// How often.
        count: u32,
    },
    /// An edge led back without being allowed to.
    Circular {
        /// Where it comes from.
        from: String,
        /// Where it leads.
        to: String,
    },
    /// Anything that the rules tested here do not speak of.
    Other(String),
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            match step {
                Step::Visit(node) => writeln!(f, "visit {node}")?,
                Step::Outcome(word) => writeln!(f, "  outcome {word}")?,
                Step::Choice {
                    way, rule, tested, ..
                } => writeln!(f, "  {way:?} by {rule}, tested {tested:?}")?,
            }
        }
        writeln!(f, "end {:?}", self.end)?;
        writeln!(f, "outcomes {:?}", self.outcomes)?;
        write!(f, "context {:?}", self.context)
    }
}
