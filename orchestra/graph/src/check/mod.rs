//! The checks: one file a rule (Attractor 7.2 and Orchestra's own).

pub(crate) mod attribute_type;
pub(crate) mod conflicting_aliases;
pub(crate) mod duplicate_node_attribute;
pub(crate) mod unknown_attribute;

use crate::analysis::Analysis;
use crate::diagnostic::Diagnostic;
use crate::load::LoadOptions;

/// A check of a pipeline (Attractor 7.4). Users' own run after the built-in ones.
///
/// ```
/// use orchestra_graph::{Analysis, Diagnostic, LintRule, LoadOptions, Source, load};
///
/// struct Named;
/// impl LintRule for Named {
///     fn code(&self) -> &'static str {
///         "named"
///     }
///     fn check(&self, analysis: &Analysis<'_>, faults: &mut Vec<Diagnostic>) {
///         if analysis.graph().name.is_empty() {
///             faults.push(Diagnostic::warning(self.code(), "the graph has no name", analysis.graph().span));
///         }
///     }
/// }
///
/// let options = LoadOptions { rules: vec![std::sync::Arc::new(Named)], ..LoadOptions::default() };
/// let loaded = load(Source::new("a.dot", "digraph { start -> work -> exit }"), &options);
/// assert!(loaded.report.diagnostics.iter().any(|fault| fault.code == "named"));
/// ```
pub trait LintRule: Send + Sync {
    /// The stable identifier of the rule.
    fn code(&self) -> &'static str;

    /// Reports what the rule finds.
    fn check(&self, analysis: &Analysis<'_>, faults: &mut Vec<Diagnostic>);
}

/// Runs all checks.
pub(crate) fn run(analysis: &Analysis<'_>, options: &LoadOptions, faults: &mut Vec<Diagnostic>) {
    for rule in &options.rules {
        rule.check(analysis, faults);
    }
}
