//! Transforms: changes of the graph between parsing and checking (Attractor 9).

use crate::attribute::Known;
use crate::check::type_known;
use crate::diagnostic::Diagnostic;
use crate::kind;
use crate::model::Graph;
use crate::severity::Severity;
use crate::stylesheet::{self, parse_stylesheet};
use crate::value::Value;

/// A change of the graph after parsing and before the checks (Attractor 9.1).
///
/// Custom transforms run after the built-in ones, in the order in which they were registered.
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
    /// Returns the name used in messages.
    fn name(&self) -> &str;

    /// Returns the changed graph. Problems are added to the list of diagnostics.
    ///
    /// Afterwards the loader rebuilds the index of ids, and removes and reports each edge whose nodes no longer exist.
    fn apply(&self, graph: Graph, diagnostics: &mut Vec<Diagnostic>) -> Graph;
}

/// Replaces `$goal` in prompts with the goal of the graph (Attractor 9.2).
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

/// Applies the stylesheet of the graph. The check `stylesheet_syntax` reports its errors.
pub(crate) fn apply_stylesheet(graph: &mut Graph) {
    let Some(text) = graph.attributes.filled(Known::ModelStylesheet) else {
        return;
    };
    let (rules, _) = parse_stylesheet(text);
    stylesheet::apply(graph, &rules);
}

/// Lets the shape select the handler of nodes whose `type` has none (Attractor 4.2).
///
/// The node needs an explicit shape that selects a built-in kind other than a model stage, because a misspelt type must
/// not call a model. Each such node raises the warning `type_known`.
///
/// ```
/// use orchestra_graph::{LoadOptions, ShapeFallback, Source, load};
/// let text = r#"digraph { start -> t -> exit; t [type="notes", shape=parallelogram, tool_command="true"] }"#;
/// let transforms: Vec<std::sync::Arc<dyn orchestra_graph::Transform>> = vec![std::sync::Arc::new(ShapeFallback::new([]))];
/// let loaded = load(Source::new("a.dot", text), &LoadOptions { transforms, ..LoadOptions::default() });
/// assert_eq!(loaded.graph.node(loaded.graph.find("t").unwrap()).kind(), "tool");
/// ```
#[derive(Clone, Debug, Default)]
pub struct ShapeFallback {
    kinds: Vec<String>,
    noted: bool,
}

impl ShapeFallback {
    /// Creates a fallback for all types except the built-in ones and these.
    pub fn new(kinds: impl IntoIterator<Item = String>) -> ShapeFallback {
        ShapeFallback {
            kinds: kinds.into_iter().collect(),
            noted: false,
        }
    }

    /// Reports the types as notes instead of warnings. Use this if a program that handles them may run the pipeline.
    ///
    /// ```
    /// use orchestra_graph::{LoadOptions, Severity, ShapeFallback, Source, load};
    /// let text = r#"digraph { start -> t -> exit; t [type="notes", shape=parallelogram, tool_command="true"] }"#;
    /// let transforms: Vec<std::sync::Arc<dyn orchestra_graph::Transform>> =
    ///     vec![std::sync::Arc::new(ShapeFallback::new([]).noted())];
    /// let loaded = load(Source::new("a.dot", text), &LoadOptions { transforms, ..LoadOptions::default() });
    /// assert_eq!(loaded.report.diagnostics[0].severity, Severity::Info);
    /// ```
    #[must_use]
    pub fn noted(mut self) -> ShapeFallback {
        self.noted = true;
        self
    }
}

impl Transform for ShapeFallback {
    fn name(&self) -> &str {
        "shape_fallback"
    }

    fn apply(&self, mut graph: Graph, diagnostics: &mut Vec<Diagnostic>) -> Graph {
        for node in &mut graph.nodes {
            let known = |ty: &str| kind::BUILT_IN.contains(&ty) || self.kinds.iter().any(|kind| kind == ty);
            let Some(ty) = node
                .attributes
                .get(Known::Type)
                .filter(|ty| !ty.value.as_str().is_none_or(known))
            else {
                continue;
            };
            let shape = node.attributes.filled(Known::Shape).map(str::to_owned);
            let Some((shape, stand_in)) =
                shape.and_then(|shape| kind::of_shape(&shape).map(|kind| (shape, kind)))
            else {
                continue;
            };
            if stand_in == kind::CODERGEN {
                continue;
            }
            let severity = if self.noted {
                Severity::Info
            } else {
                type_known::RULE.severity
            };
            diagnostics.push(
                Diagnostic::from_rule(
                    &type_known::RULE,
                    format!(
                        "there is no handler for the type `{}`, so `{}` runs as a `{stand_in}`",
                        ty.value, node.id
                    ),
                    ty.value_span,
                )
                .severity(severity)
                .label(format!("the shape `{shape}` decides"))
                .note("a program that has a handler for the type runs it instead")
                .help("compile the pipeline into a program that has the handler, or remove the type")
                .node(&*node.id),
            );
            node.attributes.remove(Known::Type);
        }
        graph
    }
}
