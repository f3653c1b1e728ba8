//! What a pipeline asks of handlers: the kinds it names, the attributes it gives them, the outcome words it waits for.
//!
//! The macro turns this into constant data that is compared with a handler set when the program is built; the engine
//! compares it with a registry when a loaded pipeline starts. Both ask here, so that they cannot differ.

use std::collections::HashMap;

use crate::condition::{Comparison, Expression, parse_condition};
use crate::model::{EdgeIndex, NodeIndex};
use crate::table::{ConditionRow, Constant, Pipeline, Role, Test};
use crate::value::parse_duration;

/// The types as which an attribute's value can be read.
///
/// ```
/// use orchestra_graph::Readable;
/// use orchestra_graph::table::Constant;
/// let value = Readable::of(&Constant::Integer(3));
/// assert!(value.contains(Readable::FLOAT) && !value.contains(Readable::BOOLEAN));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readable(pub u8);

impl Readable {
    /// As text; every value can be.
    pub const STRING: Readable = Readable(1);
    /// As a whole number.
    pub const INTEGER: Readable = Readable(2);
    /// As a decimal number.
    pub const FLOAT: Readable = Readable(4);
    /// As `true` or `false`.
    pub const BOOLEAN: Readable = Readable(8);
    /// As a span of time.
    pub const DURATION: Readable = Readable(16);

    /// The types as which a value can be read: numbers, booleans and durations also in quotes (rule L6).
    pub fn of(value: &Constant) -> Readable {
        let mut readable = Readable::STRING;
        match value {
            Constant::Integer(number) => {
                readable = readable.and(Readable::INTEGER).and(Readable::FLOAT);
                readable = readable.when(*number >= 0, Readable::DURATION);
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

    /// Whether all of the other's types are among these.
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

/// What a pipeline asks of handlers (Attractor 4.12).
///
/// ```
/// use orchestra_graph::{Needs, Source, kind, load};
/// let text = "digraph { start -> ship -> exit; ship [type=deploy] }";
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let needs = Needs::of(&pipeline, |kind| !kind::BUILT_IN.contains(&kind));
/// assert_eq!(pipeline.stage(needs.nodes[0]).kind(), "deploy");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The nodes whose kind was asked for, in the order of the table.
    pub nodes: Vec<NodeIndex>,
    /// The outcome words that edges wait for.
    pub words: Vec<WordNeed>,
}

/// An edge that can only be taken when one of some outcome words is returned.
///
/// ```
/// use orchestra_graph::{Needs, Source, load};
/// let text = r#"digraph { start -> ask; ask [type=review]
///     ask -> exit [condition="outcome=yes || outcome=ok"] }"#;
/// let pipeline = load(Source::new("a.dot", text), &Default::default()).pipeline().expect("sound");
/// let needs = Needs::of(&pipeline, |kind| kind == "review");
/// let need = &needs.words[0];
/// assert_eq!(need.words, ["yes", "ok"]);
/// assert_eq!(pipeline.stage(needs.nodes[need.nodes[0]]).id(), "ask");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordNeed {
    /// The edge.
    pub edge: EdgeIndex,
    /// The words; any of them is enough.
    pub words: Vec<String>,
    /// The nodes that may return it, as indices of [`Needs::nodes`]; any of them is enough.
    pub nodes: Vec<usize>,
}

impl Needs {
    /// What a pipeline asks of the handlers of some kinds.
    ///
    /// A word is asked for only where every stage whose outcome the edge can see is of such a kind; the stages before
    /// a `diamond` are seen through it (rule R4).
    ///
    /// ```
    /// use orchestra_graph::{LoadOptions, Needs, Source, load};
    /// let text = r#"digraph { start -> ask; ask [type=review]; ask -> exit [condition="outcome=approved"] }"#;
    /// let pipeline = load(Source::new("a.dot", text), &LoadOptions::default()).pipeline().expect("sound");
    /// let needs = Needs::of(&pipeline, |kind| kind == "review");
    /// assert_eq!(needs.words[0].words, ["approved"]);
    /// ```
    pub fn of(pipeline: &Pipeline, of_kind: impl Fn(&str) -> bool) -> Needs {
        let mut needs = Needs::default();
        let mut place: HashMap<NodeIndex, usize> = HashMap::new();
        for at in 0..pipeline.nodes.len() {
            let index = NodeIndex(at as u32);
            if of_kind(pipeline.stage(index).kind()) {
                place.insert(index, needs.nodes.len());
                needs.nodes.push(index);
            }
        }
        if needs.nodes.is_empty() {
            return needs;
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
            let from = sources.of(edge.from);
            let nodes: Option<Vec<usize>> = from.iter().map(|node| place.get(node).copied()).collect();
            let supplied = from.iter().any(|node| given_by_engine(pipeline, *node, words));
            match nodes {
                Some(nodes) if !nodes.is_empty() && !supplied => needs.words.push(WordNeed {
                    edge: EdgeIndex(at as u32),
                    words: words.clone(),
                    nodes,
                }),
                _ => {}
            }
        }
        needs
    }
}

/// Whether the engine itself may give a stage one of the words, whatever its handler returns.
fn given_by_engine(pipeline: &Pipeline, node: NodeIndex, words: &[String]) -> bool {
    let stage = pipeline.stage(node);
    words.iter().any(|word| match word.as_str() {
        "fail" => true,
        "partial_success" => stage.flag("allow_partial"),
        "success" => stage.flag("auto_status"),
        _ => false,
    })
}

/// The words of which one is needed for a condition to hold; `None` where it does not depend on the word alone.
fn words_of(condition: &ConditionRow) -> Option<Vec<String>> {
    match &condition.test {
        Test::Tree(expression) => required(expression),
        Test::Closure(_) => parse_condition(&condition.text)
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

/// The stages whose outcome is seen at a node: itself, or for a routing point the stages before it.
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
        // A routing point that is a join sees the outcome of the whole block.
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

    fn of(&mut self, node: NodeIndex) -> Vec<NodeIndex> {
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

    fn needs(body: &str) -> (Needs, Pipeline) {
        let text = format!("digraph {{ start -> a; a [type=x]; b [type=x]; {body} }}");
        let loaded = load(Source::new("a.dot", text), &LoadOptions::default());
        let pipeline = loaded.pipeline().expect("the graph is sound");
        (Needs::of(&pipeline, |kind| kind == "x"), pipeline)
    }

    #[test]
    fn a_word_is_seen_through_a_diamond_from_every_stage_before_it() {
        let (needs, pipeline) = needs(
            r#"a -> d; start -> b -> d; d [shape=diamond]; d -> exit [condition="outcome=yes"]; d -> a [condition="outcome=fail"]"#,
        );
        assert_eq!(needs.words.len(), 1);
        let from: Vec<&str> = needs.words[0]
            .nodes
            .iter()
            .map(|at| pipeline.stage(needs.nodes[*at]).id())
            .collect();
        assert_eq!(from, ["a", "b"]);
    }

    #[test]
    fn a_word_beside_another_way_to_hold_is_not_needed() {
        let (needs, _) = needs(
            r#"a -> exit [condition="outcome=yes || context.force"]; a -> b [condition="outcome=yes || outcome=no"]; b -> exit"#,
        );
        assert_eq!(needs.words.len(), 1);
        assert_eq!(needs.words[0].words, ["yes", "no"]);
    }

    #[test]
    fn a_stage_of_another_kind_before_the_diamond_may_return_anything() {
        let (needs, _) = needs(
            r#"a -> d; start -> m -> d; d [shape=diamond]; d -> exit [condition="outcome=yes"]; start -> b -> exit"#,
        );
        assert!(needs.words.is_empty());
    }
    #[test]
    fn a_diamond_that_joins_branches_sees_the_block_and_not_their_stages() {
        let (needs, _) = needs(
            r#"a -> p; p [shape=component]; p -> b -> d; p -> c -> d; c [type=x]; d [shape=diamond]
            d -> exit [condition="outcome=partial_success"]; d -> exit [condition="outcome!=partial_success"]"#,
        );
        assert!(needs.words.is_empty());
    }
}
