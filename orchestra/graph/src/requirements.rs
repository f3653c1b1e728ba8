//! The requirements of a pipeline on handlers: the kinds and attributes of its nodes, and the outcomes that its edges
//! test.
//! The macro turns them into constant data that is compared with a handler set at compile time. The engine compares
//! them with a registry when a loaded pipeline starts. Both use this module, so the results cannot differ.

use std::collections::HashMap;

use crate::condition::{Comparison, Expression, parse_condition};
use crate::model::{EdgeIndex, NodeIndex};
use crate::table::{Condition, Constant, Pipeline, Role};
use crate::value::parse_duration;

/// The types as which the value of an attribute can be read, as a set of bits.
///
/// ```
/// use orchestra_graph::Readable;
/// use orchestra_graph::table::Constant;
/// let value = Readable::from_constant(Constant::Integer(3));
/// assert!(value.contains(Readable::FLOAT) && !value.contains(Readable::BOOLEAN));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readable(pub u8);

impl Readable {
    /// Text; every value can be read as text.
    pub const STRING: Readable = Readable(1);
    /// A whole number.
    pub const INTEGER: Readable = Readable(2);
    /// A decimal number.
    pub const FLOAT: Readable = Readable(4);
    /// `true` or `false`.
    pub const BOOLEAN: Readable = Readable(8);
    /// A length of time.
    pub const DURATION: Readable = Readable(16);

    /// Returns the types as which a value can be read. Numbers, booleans and durations may be in quotes (rule L6).
    pub fn from_constant(value: Constant<&str>) -> Readable {
        let mut readable = Readable::STRING;
        match value {
            Constant::Integer(number) => {
                readable = readable.and(Readable::INTEGER).and(Readable::FLOAT);
                readable = readable.when(number >= 0, Readable::DURATION);
            }
            Constant::Float(_) => readable = readable.and(Readable::FLOAT),
            Constant::Boolean(_) => readable = readable.and(Readable::BOOLEAN),
            Constant::Duration(_) => readable = readable.and(Readable::DURATION),
            Constant::String(text) => {
                let text = text.trim();
                readable = readable.when(text.parse::<i64>().is_ok(), Readable::INTEGER);
                readable = readable.when(text.parse::<f64>().is_ok(), Readable::FLOAT);
                readable = readable.when(text == "true" || text == "false", Readable::BOOLEAN);
                readable = readable.when(parse_duration(text).is_some(), Readable::DURATION);
            }
        }
        readable
    }

    /// Returns whether this set contains all types of the other.
    pub const fn contains(self, other: Readable) -> bool {
        self.0 & other.0 == other.0
    }

    const fn and(self, other: Readable) -> Readable {
        Readable(self.0 | other.0)
    }

    const fn when(self, holds: bool, other: Readable) -> Readable {
        if holds { self.and(other) } else { self }
    }
}

/// The requirements of a pipeline on handlers (Attractor 4.12).
///
/// ```
/// use orchestra_graph::{Requirements, Source, kind, load};
/// let text = "digraph { start -> ship -> exit; ship [type=deploy] }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let requirements = Requirements::new(&pipeline, |kind| !kind::BUILT_IN.contains(&kind));
/// assert_eq!(pipeline.stage(requirements.nodes[0]).kind(), "deploy");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    /// The nodes of the requested kinds, in the order of the table.
    pub nodes: Vec<NodeIndex>,
    /// The outcomes that edges test.
    pub words: Vec<OutcomeRequirement>,
}

/// An edge that can only be taken if a stage returns one of some outcomes.
///
/// ```
/// use orchestra_graph::{Requirements, Source, load};
/// let text = r#"digraph { start -> ask; ask [type=review]
///     ask -> exit [condition="outcome=yes || outcome=ok"] }"#;
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let requirements = Requirements::new(&pipeline, |kind| kind == "review");
/// let need = &requirements.words[0];
/// assert_eq!(need.words, ["yes", "ok"]);
/// assert_eq!(pipeline.stage(requirements.nodes[need.nodes[0]]).id(), "ask");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutcomeRequirement {
    /// The edge.
    pub edge: EdgeIndex,
    /// The outcomes; any one of them is enough.
    pub words: Vec<String>,
    /// The nodes that may return it, as indices into [`Requirements::nodes`]; any one of them is enough.
    pub nodes: Vec<usize>,
}

impl Requirements {
    /// Returns the requirements of a pipeline on the handlers of some kinds.
    ///
    /// An outcome is required only if every stage whose outcome the edge can see is of such a kind. A `diamond` is
    /// transparent: the edge sees the stages before it (rule R4).
    ///
    /// ```
    /// use orchestra_graph::{LoadOptions, Requirements, Source, load};
    /// let text = r#"digraph { start -> ask; ask [type=review]; ask -> exit [condition="outcome=approved"] }"#;
    /// let pipeline = load(Source::new("a.dot", text), &LoadOptions::default()).pipeline().expect("sound");
    /// let requirements = Requirements::new(&pipeline, |kind| kind == "review");
    /// assert_eq!(requirements.words[0].words, ["approved"]);
    /// ```
    pub fn new(pipeline: &Pipeline, of_kind: impl Fn(&str) -> bool) -> Requirements {
        let mut requirements = Requirements::default();
        let mut position: HashMap<NodeIndex, usize> = HashMap::new();
        for at in 0..pipeline.nodes.len() {
            let index = NodeIndex(at as u32);
            if of_kind(pipeline.stage(index).kind()) {
                position.insert(index, requirements.nodes.len());
                requirements.nodes.push(index);
            }
        }
        if requirements.nodes.is_empty() {
            return requirements;
        }
        let mut words: HashMap<u32, Option<Vec<String>>> = HashMap::new();
        let mut sources = Sources::new(pipeline);
        for (at, edge) in pipeline.edges.iter().enumerate() {
            let Some((row, condition)) = edge.condition.zip(pipeline.condition(edge)) else {
                continue;
            };
            let Some(words) = words.entry(row).or_insert_with(|| words_of(condition)) else {
                continue;
            };
            let from = sources.work_before(edge.from);
            let nodes: Option<Vec<usize>> = from.iter().map(|node| position.get(node).copied()).collect();
            let supplied = from.iter().any(|node| given_by_engine(pipeline, *node, words));
            match nodes {
                Some(nodes) if !nodes.is_empty() && !supplied => {
                    requirements.words.push(OutcomeRequirement {
                        edge: EdgeIndex(at as u32),
                        words: words.clone(),
                        nodes,
                    })
                }
                _ => {}
            }
        }
        requirements
    }
}

/// Returns whether the engine itself may produce one of the outcomes for a stage, whatever its handler returns.
fn given_by_engine(pipeline: &Pipeline, node: NodeIndex, words: &[String]) -> bool {
    let stage = pipeline.stage(node);
    words.iter().any(|word| match word.as_str() {
        "fail" => true,
        "partial_success" => stage.flag("allow_partial"),
        "success" => stage.flag("auto_status"),
        _ => false,
    })
}

/// Returns the outcomes of which one is needed for a condition to be true. Returns `None` if the condition does not
/// depend on the outcome alone.
fn words_of(condition: Condition<'_>) -> Option<Vec<String>> {
    match condition.expression() {
        Some(expression) => required(expression),
        None => parse_condition(condition.text())
            .ok()
            .and_then(|parsed| required(&parsed)),
    }
}

fn required(expression: &Expression) -> Option<Vec<String>> {
    match expression {
        Expression::Compare {
            key,
            comparison: Comparison::Equal,
            literal,
        } if key == "outcome" => Some(vec![literal.clone()]),
        Expression::All(parts) => parts.iter().find_map(required),
        Expression::Any(parts) => {
            let all: Option<Vec<Vec<String>>> = parts.iter().map(required).collect();
            all.map(|words| words.concat())
        }
        _ => None,
    }
}

/// Finds the stages whose outcome is visible at a node: the node itself, or for a routing node the stages before it.
struct Sources<'p> {
    pipeline: &'p Pipeline,
    incoming: HashMap<NodeIndex, Vec<NodeIndex>>,
    known: HashMap<NodeIndex, Vec<NodeIndex>>,
}

impl Sources<'_> {
    fn new(pipeline: &Pipeline) -> Sources<'_> {
        let mut incoming: HashMap<NodeIndex, Vec<NodeIndex>> = HashMap::new();
        for edge in pipeline.edges.iter() {
            if pipeline.stage(edge.to).row().role == Role::Routing {
                incoming.entry(edge.to).or_default().push(edge.from);
            }
        }
        // A routing node that is a join sees the outcome of the whole block.
        for (at, row) in (0..).map(NodeIndex).zip(pipeline.nodes.iter()) {
            if let Some(fan_out) = &row.fan_out {
                incoming.entry(fan_out.join).or_default().push(at);
            }
        }
        Sources {
            pipeline,
            incoming,
            known: HashMap::new(),
        }
    }

    fn work_before(&mut self, node: NodeIndex) -> Vec<NodeIndex> {
        if let Some(known) = self.known.get(&node) {
            return known.clone();
        }
        let mut found = Vec::new();
        let mut seen = vec![node];
        let mut open = vec![node];
        while let Some(at) = open.pop() {
            if self.pipeline.stage(at).row().role != Role::Routing {
                found.push(at);
                continue;
            }
            for before in self.incoming.get(&at).into_iter().flatten() {
                if !seen.contains(before) {
                    seen.push(*before);
                    open.push(*before);
                }
            }
        }
        found.sort();
        self.known.insert(node, found.clone());
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LoadOptions, Source, load};

    fn requirements(body: &str) -> (Requirements, Pipeline) {
        let text = format!("digraph {{ start -> a; a [type=x]; b [type=x]; {body} }}");
        let loaded = load(Source::new("a.dot", text), &LoadOptions::default());
        let pipeline = loaded.pipeline().expect("the graph is sound");
        (Requirements::new(&pipeline, |kind| kind == "x"), pipeline)
    }

    #[test]
    fn a_word_is_seen_through_a_diamond_from_every_stage_before_it() {
        let (requirements, pipeline) = requirements(
            r#"a -> d; start -> b -> d; d [shape=diamond]; d -> exit [condition="outcome=yes"]; d -> a [condition="outcome=fail"]"#,
        );
        assert_eq!(requirements.words.len(), 1);
        let from: Vec<&str> = requirements.words[0]
            .nodes
            .iter()
            .map(|at| pipeline.stage(requirements.nodes[*at]).id())
            .collect();
        assert_eq!(from, ["a", "b"]);
    }

    #[test]
    fn a_word_beside_another_way_to_hold_is_not_needed() {
        let (requirements, _) = requirements(
            r#"a -> exit [condition="outcome=yes || context.force"]; a -> b [condition="outcome=yes || outcome=no"]; b -> exit"#,
        );
        assert_eq!(requirements.words.len(), 1);
        assert_eq!(requirements.words[0].words, ["yes", "no"]);
    }

    #[test]
    fn a_stage_of_another_kind_before_the_diamond_may_return_anything() {
        let (requirements, _) = requirements(
            r#"a -> d; start -> m -> d; d [shape=diamond]; d -> exit [condition="outcome=yes"]; start -> b -> exit"#,
        );
        assert!(requirements.words.is_empty());
    }
    #[test]
    fn a_diamond_that_joins_branches_sees_the_block_and_not_their_stages() {
        let (requirements, _) = requirements(
            r#"a -> p; p [shape=component]; p -> b -> d; p -> c -> d; c [type=x]; d [shape=diamond]
            d -> exit [condition="outcome=partial_success"]; d -> exit [condition="outcome!=partial_success"]"#,
        );
        assert!(requirements.words.is_empty());
    }
}
