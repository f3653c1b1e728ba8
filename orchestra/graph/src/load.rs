//! From text to a checked graph: the one way that the macro, the command line, the server and the editor take.

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

/// What loading should know beside the text.
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
    /// How large a pipeline may be.
    pub limits: Limits,
    /// Users' own transforms; they run after the built-in ones, in order.
    pub transforms: Vec<Arc<dyn Transform>>,
    /// Users' own checks; they run after the built-in ones, in order.
    pub rules: Vec<Arc<dyn LintRule>>,
    /// The handler kinds that exist beside the built-in ones; `None` where they cannot be known yet.
    pub kinds: Option<Vec<String>>,
    /// Codes of warnings and notes that are not reported.
    pub allow: Vec<String>,
    /// Codes whose warnings and notes are errors; `warnings` means all warnings.
    pub deny: Vec<String>,
    /// How the files of child pipelines are read; without it they are neither looked for nor loaded. What else these
    /// options say holds for children too.
    pub children: Option<&'r dyn ChildReader>,
}

/// A loaded pipeline: what was understood, and what is wrong with it.
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
    /// The graph, transformed.
    pub graph: Graph,
    /// The diagnostics, in the order of the text.
    pub report: Report,
    /// The pipelines that its stages run, each once, in the order in which they are named; see
    /// [`descendants`](Loaded::descendants) for all that these run in turn.
    pub children: Vec<LoadedChild>,
    /// The files with prompts that its nodes name, each once: those that were read, and those that were looked for.
    pub prompt_files: Vec<String>,
}

/// Parses, lowers, transforms and checks a text (Attractor 7.3), and the pipelines that it runs (Attractor 9.4). It
/// never fails: what is wrong stands in the report.
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

/// Like [`load`], for bytes that may not be text.
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

/// The fault of an edge whose end a transform took away.
fn torn(transform: &str, edge: &Edge) -> Diagnostic {
    Diagnostic::error(
        "edge_target_exists",
        format!("the transform `{transform}` left an edge without one of its ends"),
        edge.span(),
    )
    .help("take away the edges of a node together with the node")
}

/// Loads the file that was opened last, and says how deep its children nest.
pub(crate) fn load_parsed(parsed: Parsed, family: &mut Family<'_>) -> (Loaded, usize) {
    let options = family.options;
    let Parsed {
        source,
        file,
        mut faults,
    } = parsed;
    let unreadable = file.statements.is_empty() && faults.iter().any(Diagnostic::is_error);
    let (mut graph, mut lowering) = lower(&source, &file);
    faults.append(&mut lowering);
    let prompt_files = match options.children {
        Some(reader) => prompt_files::read(
            &mut graph,
            source.name(),
            reader,
            options.limits.bytes,
            &mut faults,
        ),
        None => Vec::new(),
    };
    expand_goal(&mut graph);
    apply_stylesheet(&mut graph);
    for transform in &options.transforms {
        graph = transform.apply(graph, &mut faults);
        faults.extend(graph.settle().iter().map(|edge| torn(transform.name(), edge)));
    }
    // A text that gave no statement has no start either; saying so would only hide the real fault.
    let (mut children, mut height) = (Vec::new(), 0);
    if !unreadable {
        let analysis = Analysis::new(&graph, &source);
        check::run(&analysis, options, &mut faults);
        (children, height) = family.children(&analysis, &mut faults);
    }
    faults.retain(|fault| fault.is_error() || !options.allow.iter().any(|code| code == fault.code));
    for fault in &mut faults {
        let warning = fault.severity == Severity::Warning;
        let denies = |code: &String| code == fault.code || (warning && code == "warnings");
        if options.deny.iter().any(denies) {
            fault.severity = Severity::Error;
        }
    }
    let loaded = Loaded {
        report: Report::new(source.clone(), faults),
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

    /// Takes away the last node, but not its edges.
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
            .map(|fault| fault.message.as_str())
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
        assert!(crate::Pipeline::of(&analysis).is_some_and(|pipeline| pipeline.edges.is_empty()));
    }
}
