//! Loading: from text to a checked graph. The macro, the command line, the server and the editor all use it.

use std::sync::Arc;

use crate::analysis::Analysis;
use crate::ast;
use crate::check::{self, LintRule};
use crate::children::{ChildReader, Family, LoadedChild};
use crate::diagnostic::{Diagnostic, Report, Severity};
use crate::lower::lower;
use crate::model::{Edge, Graph};
use crate::prompt_files;
use crate::syntax::{Limits, Parsed, parse, parse_bytes};
use crate::text::Source;
use crate::transform::{Transform, apply_stylesheet, expand_goal};

/// Options for loading a pipeline.
///
/// ```
/// use orchestra_graph::{LoadOptions, Source, load};
/// let text = "digraph { start -> work -> exit; work [lable=Build] }";
/// let errors = |options| load(Source::new("a.dot", text), &options).report.errors().count();
/// assert_eq!(errors(LoadOptions::default()), 0);
/// assert_eq!(errors(LoadOptions { deny: vec!["unknown_attribute".to_owned()], ..LoadOptions::default() }), 1);
/// ```
#[derive(Clone, Default)]
pub struct LoadOptions<'r> {
    /// The limits on the size of a pipeline.
    pub limits: Limits,
    /// Custom transforms, which run after the built-in ones, in order.
    pub transforms: Vec<Arc<dyn Transform>>,
    /// Custom checks, which run after the built-in ones, in order.
    pub rules: Vec<Arc<dyn LintRule>>,
    /// The handler kinds that exist in addition to the built-in ones; `None` if they are not known yet.
    pub kinds: Option<Vec<String>>,
    /// The codes of warnings and notes that are not reported.
    pub allow: Vec<String>,
    /// The codes of warnings and notes that become errors; `warnings` means all warnings.
    pub deny: Vec<String>,
    /// The reader for the files of child pipelines and prompts. If it is `None`, these files are neither looked up nor
    /// loaded. The other options apply to children too.
    pub children: Option<&'r dyn ChildReader>,
}

impl LoadOptions<'_> {
    /// Applies `allow` and `deny` to diagnostics, as loading does to its own.
    ///
    /// ```
    /// use orchestra_graph::{Diagnostic, LoadOptions, Span};
    /// let options = LoadOptions { deny: vec!["warnings".to_owned()], ..LoadOptions::default() };
    /// let mut faults = vec![Diagnostic::warning("mine", "not so good", Span::new(0, 1))];
    /// options.apply_severities(&mut faults);
    /// assert!(faults[0].is_error());
    /// ```
    pub fn apply_severities(&self, diagnostics: &mut Vec<Diagnostic>) {
        diagnostics.retain(|diagnostic| {
            diagnostic.is_error() || !self.allow.iter().any(|code| code == diagnostic.code)
        });
        for diagnostic in diagnostics {
            let warning = diagnostic.severity == Severity::Warning;
            let denies = |code: &String| code == diagnostic.code || (warning && code == "warnings");
            if self.deny.iter().any(denies) {
                diagnostic.severity = Severity::Error;
            }
        }
    }
}

/// A loaded pipeline with its diagnostics.
///
/// ```
/// use orchestra_graph::{LoadOptions, Source, load, render};
/// let loaded = load(Source::new("a.dot", "digraph { start -> wrok; work -> exit }"), &LoadOptions::default());
/// assert!(loaded.pipeline().is_none());
/// assert!(render::concise(&loaded.report).contains("edge points to unknown node `wrok`"));
/// ```
pub struct Loaded {
    /// The text.
    pub source: Source,
    /// The syntax tree.
    pub file: ast::File,
    /// The graph after all transforms.
    pub graph: Graph,
    /// The diagnostics, in the order of the text.
    pub report: Report,
    /// The pipelines that its stages run, each once, in the order in which they are named.
    /// [`descendants`](Loaded::descendants) also returns the pipelines that these run in turn.
    pub children: Vec<LoadedChild>,
    /// The prompt files that its nodes name, each once, whether or not they could be read.
    pub prompt_files: Vec<String>,
}

/// Parses, lowers, transforms and checks a text (Attractor 7.3) and the pipelines that it runs (Attractor 9.4). It
/// never fails: all problems are in the report.
///
/// ```
/// use orchestra_graph::{LoadOptions, Source, load};
/// let loaded = load(Source::new("a.dot", "digraph a { start -> work -> exit }"), &LoadOptions::default());
/// assert!(!loaded.report.has_errors());
/// assert_eq!(loaded.graph.nodes.len(), 3);
/// ```
pub fn load(source: Source, options: &LoadOptions<'_>) -> Loaded {
    load_first(parse(&source, &options.limits), options)
}

/// Like [`load`], for bytes that may not be valid UTF-8.
///
/// ```
/// use orchestra_graph::{LoadOptions, load_bytes};
/// assert!(load_bytes("a.dot", b"\xff", &LoadOptions::default()).report.has_errors());
/// ```
pub fn load_bytes(name: &str, bytes: &[u8], options: &LoadOptions<'_>) -> Loaded {
    load_first(parse_bytes(name, bytes, &options.limits), options)
}

fn load_first(parsed: Parsed, options: &LoadOptions<'_>) -> Loaded {
    let mut family = Family::new(parsed.source.name(), options);
    load_parsed(parsed, &mut family).0
}

/// Returns the error for an edge whose end a transform removed.
fn torn(transform: &str, edge: &Edge) -> Diagnostic {
    Diagnostic::error(
        "edge_target_exists",
        format!("the transform `{transform}` left an edge without one of its ends"),
        edge.span(),
    )
    .help("take away the edges of a node together with the node")
}

/// Loads the file opened last. Returns it and the nesting depth of its children.
pub(crate) fn load_parsed(parsed: Parsed, family: &mut Family<'_>) -> (Loaded, usize) {
    let options = family.options;
    let Parsed {
        source,
        file,
        mut diagnostics,
    } = parsed;
    let unreadable = file.statements.is_empty() && diagnostics.iter().any(Diagnostic::is_error);
    let (mut graph, mut lowering) = lower(&source, &file);
    diagnostics.append(&mut lowering);
    let prompt_files = match options.children {
        Some(reader) => prompt_files::read(
            &mut graph,
            source.name(),
            reader,
            options.limits.bytes,
            &mut diagnostics,
        ),
        None => Vec::new(),
    };
    expand_goal(&mut graph);
    apply_stylesheet(&mut graph);
    for transform in &options.transforms {
        graph = transform.apply(graph, &mut diagnostics);
        diagnostics.extend(graph.settle().iter().map(|edge| torn(transform.name(), edge)));
    }
    // A text without any statement has no start either, but reporting that would hide the real error.
    let (mut children, mut height) = (Vec::new(), 0);
    if !unreadable {
        let analysis = Analysis::new(&graph, &source);
        check::run(&analysis, options, &mut diagnostics);
        (children, height) = family.children(&analysis, &mut diagnostics);
    }
    options.apply_severities(&mut diagnostics);
    let loaded = Loaded {
        report: Report::new(source.clone(), diagnostics),
        source,
        file,
        graph,
        children,
        prompt_files,
    };
    (loaded, height)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NodeIndex;

    /// A transform that removes the last node, but not its edges.
    struct Careless;

    impl Transform for Careless {
        fn name(&self) -> &str {
            "careless"
        }

        fn apply(&self, mut graph: Graph, _: &mut Vec<Diagnostic>) -> Graph {
            graph.nodes.pop();
            graph
        }
    }

    #[test]
    fn an_edge_that_a_transform_left_without_an_end_is_a_fault_and_no_panic() {
        let options = LoadOptions {
            transforms: vec![Arc::new(Careless)],
            ..LoadOptions::default()
        };
        let loaded = load(
            Source::new("a.dot", "digraph { start -> exit -> work }"),
            &options,
        );
        let torn: Vec<&str> = loaded
            .report
            .errors()
            .map(|diagnostic| diagnostic.message.as_str())
            .collect();
        assert_eq!(
            torn,
            ["the transform `careless` left an edge without one of its ends"]
        );
        assert_eq!(loaded.graph.find("work"), None);
        assert_eq!(loaded.graph.edges.len(), 1);
    }

    #[test]
    fn a_graph_changed_by_hand_can_be_analysed() {
        let mut loaded = load(
            Source::new("a.dot", "digraph { start -> exit }"),
            &LoadOptions::default(),
        );
        loaded.graph.edges[0].to = NodeIndex(9);
        let analysis = Analysis::new(&loaded.graph, &loaded.source);
        assert!(analysis.outgoing(NodeIndex(0)).is_empty());
        assert_eq!(analysis.kind(NodeIndex(9)), crate::kind::CODERGEN);
        assert!(crate::Pipeline::from_analysis(&analysis).is_some_and(|pipeline| pipeline.edges.is_empty()));
    }
}
