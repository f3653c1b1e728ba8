//! From text to a checked graph: the one way that the macro, the command line, the server and the editor take.

use std::sync::Arc;

use crate::analysis::Analysis;
use crate::ast;
use crate::check::{self, LintRule};
use crate::diagnostic::{Diagnostic, Report, Severity};
use crate::lower::lower;
use crate::model::Graph;
use crate::syntax::{Limits, Parsed, parse, parse_bytes};
use crate::text::Source;
use crate::transform::{Transform, apply_stylesheet, expand_goal};

/// What loading should know beside the text.
#[derive(Clone, Default)]
pub struct LoadOptions {
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
}

/// A loaded pipeline: what was understood, and what is wrong with it.
pub struct Loaded {
    /// The text.
    pub source: Source,
    /// The syntax tree.
    pub file: ast::File,
    /// The graph, transformed.
    pub graph: Graph,
    /// The diagnostics, in the order of the text.
    pub report: Report,
}

/// Parses, lowers, transforms and checks a text.
///
/// ```
/// use orchestra_graph::{LoadOptions, Source, load};
/// let loaded = load(Source::new("a.dot", "digraph a { start -> work -> exit }"), &LoadOptions::default());
/// assert!(!loaded.report.has_errors());
/// assert_eq!(loaded.graph.nodes.len(), 3);
/// ```
pub fn load(source: Source, options: &LoadOptions) -> Loaded {
    load_parsed(parse(&source, &options.limits), options)
}

/// Like [`load`], for bytes that may not be text.
///
/// ```
/// use orchestra_graph::{LoadOptions, load_bytes};
/// assert!(load_bytes("a.dot", b"\xff", &LoadOptions::default()).report.has_errors());
/// ```
pub fn load_bytes(name: &str, bytes: &[u8], options: &LoadOptions) -> Loaded {
    load_parsed(parse_bytes(name, bytes, &options.limits), options)
}

fn load_parsed(parsed: Parsed, options: &LoadOptions) -> Loaded {
    let Parsed {
        source,
        file,
        mut faults,
    } = parsed;
    let unreadable = file.statements.is_empty() && faults.iter().any(Diagnostic::is_error);
    let (mut graph, mut lowering) = lower(&source, &file);
    faults.append(&mut lowering);
    expand_goal(&mut graph);
    apply_stylesheet(&mut graph);
    for transform in &options.transforms {
        graph = transform.apply(graph, &mut faults);
    }
    // A text that gave no statement has no start either; saying so would only hide the real fault.
    if !unreadable {
        check::run(&Analysis::new(&graph, &source), options, &mut faults);
    }
    faults.retain(|fault| fault.is_error() || !options.allow.iter().any(|code| code == fault.code));
    for fault in &mut faults {
        let warning = fault.severity == Severity::Warning;
        let denies = |code: &String| code == fault.code || (warning && code == "warnings");
        if options.deny.iter().any(denies) {
            fault.severity = Severity::Error;
        }
    }
    Loaded {
        report: Report::new(source.clone(), faults),
        source,
        file,
        graph,
    }
}
