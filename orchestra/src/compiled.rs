//! The types of the modules that [`pipeline!`](crate::pipeline) generates, besides their tables.

use std::fmt;

use orchestra_core::GateChoice;
use orchestra_engine::{Answer, AnswerRefused, Question, QuestionOption};
use orchestra_graph::condition::Facts;
use orchestra_graph::did_you_mean;
use orchestra_graph::table::{EdgeRow, Pipeline};

/// The edges of a compiled pipeline, with their ends as values of the module's `Node`.
///
/// ```
/// orchestra::pipeline! {
///     mod tiny = digraph tiny {
///         start -> work
///         work -> exit [condition="outcome=success"]
///         work -> mend [condition="outcome!=success"]
///         mend -> work
///     }
/// }
/// use orchestra::graph::condition::Facts;
///
/// let facts = Facts { outcome: "success", ..Facts::default() };
/// let open: Vec<tiny::Node> = tiny::TRANSITIONS
///     .from(tiny::Node::Work)
///     .filter(|edge| edge.holds(&facts))
///     .map(|edge| edge.to)
///     .collect();
/// assert_eq!(open, [tiny::Node::Exit]);
/// ```
pub struct Transitions<N: 'static> {
    pipeline: &'static Pipeline,
    nodes: &'static [N],
}

/// An edge of a compiled pipeline.
///
/// ```
/// orchestra::pipeline! {
///     mod tiny = digraph tiny {
///         start -> work
///         work -> exit [condition="outcome=success", weight=2]
///         work -> mend [condition="outcome!=success"]
///         mend -> work
///     }
/// }
///
/// let edge = tiny::TRANSITIONS.from(tiny::Node::Work).next().expect("it has two");
/// assert_eq!((edge.from, edge.to), (tiny::Node::Work, tiny::Node::Exit));
/// assert_eq!((edge.label(), edge.condition(), edge.row.weight), ("", Some("outcome=success"), 2));
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Transition<N> {
    /// The source node.
    pub from: N,
    /// The target node.
    pub to: N,
    /// The row of the edge in the table: weight, position in the file.
    pub row: &'static EdgeRow,
    pipeline: &'static Pipeline,
}

impl<N: Copy + PartialEq> Transitions<N> {
    /// Used by generated code.
    #[doc(hidden)]
    pub const fn new(pipeline: &'static Pipeline, nodes: &'static [N]) -> Transitions<N> {
        Transitions { pipeline, nodes }
    }

    /// Returns all edges, grouped by source node, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = Transition<N>> + use<N> {
        let (pipeline, nodes) = (self.pipeline, self.nodes);
        pipeline.edges.iter().filter_map(move |row| {
            Some(Transition {
                from: *nodes.get(row.from.at())?,
                to: *nodes.get(row.to.at())?,
                row,
                pipeline,
            })
        })
    }

    /// Returns the edges out of a node, in the order of the file.
    pub fn from(&self, node: N) -> impl Iterator<Item = Transition<N>> + use<N> {
        self.iter().filter(move |edge| edge.from == node)
    }
}

impl<N> Transition<N> {
    /// Returns the label as written; empty if the edge has none.
    pub fn label(&self) -> &'static str {
        self.pipeline.text(self.row.label)
    }

    /// Returns the condition as written, or `None` if the edge has no condition.
    pub fn condition(&self) -> Option<&'static str> {
        self.pipeline
            .condition(self.row)
            .map(|condition| condition.text())
    }

    /// Returns whether the condition holds. An edge without a condition always holds.
    pub fn holds(&self, facts: &Facts<'_>) -> bool {
        self.pipeline
            .condition(self.row)
            .is_none_or(|condition| condition.holds(facts))
    }
}

impl<N> fmt::Debug for Transitions<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Transitions").field(&self.pipeline.name).finish()
    }
}

/// The maximum number of visits and attempts of a node in a run (rule V4). The constant `LIMITS` of a module returns them.
///
/// ```
/// orchestra::pipeline! {
///     mod tiny = digraph tiny {
///         start -> work; work -> test; test -> exit
///         test -> work [condition="outcome=fail"]
///         work [max_visits=3, max_retries=1]
///     }
/// }
///
/// const _: () = assert!(tiny::LIMITS.attempts(tiny::Node::Work) <= 6);
/// const _: () = assert!(tiny::LIMITS.total_attempts() <= 11);
/// let limit = tiny::LIMITS.node(tiny::Node::Work);
/// assert_eq!((limit.visits, limit.attempts, limit.by_default), (3, 6, false));
/// assert_eq!(limit.reason, "`max_visits=3` of `work`; up to 2 attempts each");
/// ```
///
/// A program whose pipeline may exceed a number does not compile:
///
/// ```compile_fail,E0080
/// orchestra::pipeline! { mod tiny = digraph tiny { start -> work -> exit; work [max_retries=2] } }
/// const _: () = assert!(tiny::LIMITS.attempts(tiny::Node::Work) <= 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeLimit {
    /// The maximum number of visits. [`u64::MAX`] if there is no limit.
    pub visits: u64,
    /// The maximum number of attempts. [`u64::MAX`] if there is no limit.
    pub attempts: u64,
    /// The reason for the limit.
    pub reason: &'static str,
    /// `true` if only the default of `max_node_visits` limits the node.
    pub by_default: bool,
}

impl NodeLimit {
    /// Reads the limit of a node from the text of a module: for each node four numbers, each with a space after it. Used
    /// by generated code.
    #[doc(hidden)]
    pub const fn read(numbers: &[u8], reasons: &[&'static str], node: usize) -> NodeLimit {
        let mut found = [0_u64; 4];
        let (mut at, mut spaces) = (0, 0);
        while at < numbers.len() && spaces < 4 * (node + 1) {
            if numbers[at] == b' ' {
                spaces += 1;
            } else if spaces >= 4 * node {
                let digit = (numbers[at] - b'0') as u64;
                found[spaces % 4] = found[spaces % 4] * 10 + digit;
            }
            at += 1;
        }
        let reason = found[2] as usize;
        NodeLimit {
            visits: found[0],
            attempts: found[1],
            reason: if reason < reasons.len() {
                reasons[reason]
            } else {
                ""
            },
            by_default: found[3] == 1,
        }
    }
}

/// The error for a text that is not the id of a node.
///
/// ```
/// orchestra::pipeline! { mod tiny = digraph tiny { start -> work -> exit } }
/// let error = "wrk".parse::<tiny::Node>().unwrap_err();
/// assert_eq!(error.to_string(), "pipeline `tiny` has no node `wrk`; did you mean `work`?");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownNode {
    id: String,
    pipeline: &'static str,
    near: Option<&'static str>,
}

impl UnknownNode {
    pub(crate) fn new(pipeline: &'static Pipeline, id: &str) -> UnknownNode {
        UnknownNode {
            id: id.to_owned(),
            pipeline: &pipeline.name,
            near: did_you_mean(id, pipeline.stages().map(|stage| stage.id())),
        }
    }

    /// Returns the text that was parsed.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Display for UnknownNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pipeline `{}` has no node `{}`", self.pipeline, self.id)?;
        self.near
            .map_or(Ok(()), |near| write!(f, "; did you mean `{near}`?"))
    }
}

impl std::error::Error for UnknownNode {}

/// A choice of a human gate. Each variant of a module's choice enums dereferences to its choice.
///
/// A variant also converts into an [`Answer`] to the gate's question. It can be parsed from a text, such
/// as `human.gate.selected` of the context; the text may be any answer that the gate itself accepts.
///
/// ```
/// orchestra::pipeline! {
///     mod gate = digraph gate {
///         start -> review -> exit [label="[A] Approve"]
///         review [shape=hexagon]
///         review -> review [label="[F] Fix it"]
///     }
/// }
/// use gate::choices::Review;
///
/// assert_eq!(Review::FixIt.key(), "F");
/// assert_eq!(Review::Approve.target(), gate::Node::Exit);
/// assert!(matches!("fix it".parse(), Ok(Review::FixIt)));
/// assert_eq!(orchestra::Answer::from(Review::FixIt), orchestra::Answer::choice("F"));
/// let queue = orchestra::engine::QueueInterviewer::new().answers_for("review", [Review::FixIt, Review::Approve]);
/// # assert_eq!(queue.len(), 2);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice<N> {
    label: &'static str,
    key: &'static str,
    target: N,
}

impl<N: Copy> Choice<N> {
    /// Used by generated code.
    #[doc(hidden)]
    pub const fn new(label: &'static str, key: &'static str, target: N) -> Choice<N> {
        Choice { label, key, target }
    }

    /// Returns the index of the choice that a text names, by the rules of the gate's question. Used by generated code.
    #[doc(hidden)]
    pub fn named(choices: &[Choice<N>], text: &str) -> Result<usize, AnswerRefused>
    where
        N: fmt::Display,
    {
        let options: Vec<QuestionOption> = choices
            .iter()
            .map(|choice| {
                let mut option = QuestionOption::new(choice.key, choice.label);
                option.to = Some(choice.target.to_string());
                option
            })
            .collect();
        let accepted = Question::select("", options.iter().cloned()).accept(&Answer::choice(text))?;
        let named = |option: &QuestionOption| accepted.options.first() == Some(option);
        Ok(options.iter().position(named).unwrap_or_default())
    }

    /// Returns the label as written in the file, or the id of the target if the edge has no label.
    pub fn label(&self) -> &'static str {
        self.label
    }

    /// Returns the key that selects this choice.
    pub fn key(&self) -> &'static str {
        self.key
    }

    /// Returns the node that the choice leads to.
    pub fn target(&self) -> N {
        self.target
    }
}

impl<N> GateChoice for Choice<N> {
    fn key(&self) -> &str {
        self.key
    }
}
