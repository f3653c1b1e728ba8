//! Transforms: changes of the graph between parsing and checking (Attractor 9).

use crate::attribute::Known;
use crate::diagnostic::Diagnostic;
use crate::model::Graph;
use crate::stylesheet::{self, parse_stylesheet};
use crate::value::Value;

/// A change of the graph after parsing and before the checks (Attractor 9.1).
///
/// Users' own transforms run after the built-in ones, in the order in which they were given.
///
/// ```
/// use orchestra_graph::{Diagnostic, Graph, Known, LoadOptions, Source, Transform, Value, load};
///
/// struct Shout;
/// impl Transform for Shout {
///     fn name(&self) -> &str {
///         "shout"
///     }
///     fn apply(&self, mut graph: Graph, _: &mut Vec<Diagnostic>) -> Graph {
///         graph.name = graph.name.to_uppercase();
///         graph
///     }
/// }
///
/// let options = LoadOptions { transforms: vec![std::sync::Arc::new(Shout)], ..LoadOptions::default() };
/// assert_eq!(load(Source::new("a.dot", "digraph quiet { start -> exit }"), &options).graph.name, "QUIET");
/// ```
pub trait Transform: Send + Sync {
    /// The name, for messages.
    fn name(&self) -> &str;

    /// Gives the changed graph; what is wrong with it goes to the list.
    fn apply(&self, graph: Graph, faults: &mut Vec<Diagnostic>) -> Graph;
}

/// Replaces `$goal` in prompts by the graph's goal (Attractor 9.2).
pub(crate) fn expand_goal(graph: &mut Graph) {
    let goal = graph.goal().to_owned();
    for node in &mut graph.nodes {
        let Some(prompt) = node
            .attributes
            .text(Known::Prompt)
            .filter(|prompt| prompt.contains("$goal"))
        else {
            continue;
        };
        let expanded = prompt.replace("$goal", &goal);
        if let Some(mut attribute) = node.attributes.get(Known::Prompt).cloned() {
            attribute.value = Value::String(expanded.into());
            node.attributes.set(attribute);
        }
    }
}

/// Applies the graph's stylesheet; its faults are found by the check `stylesheet_syntax`.
pub(crate) fn apply_stylesheet(graph: &mut Graph) {
    let Some(text) = graph.attributes.filled(Known::ModelStylesheet) else {
        return;
    };
    let (rules, _) = parse_stylesheet(text);
    stylesheet::apply(graph, &rules);
}
