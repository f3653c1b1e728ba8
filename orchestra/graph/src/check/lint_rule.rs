//! Custom checks of programs.

use crate::analysis::Analysis;
use crate::diagnostic::Diagnostic;

/// A custom check of a pipeline (Attractor 7.4). Custom checks run after the built-in ones.
///
/// ```
/// use orchestra_graph::{Analysis, Diagnostic, LintRule, LoadOptions, Source, load};
///
/// struct Named;
/// impl LintRule for Named {
///     fn code(&self) -> &'static str {
///         "named"
///     }
///     fn check(&self, analysis: &Analysis<'_>, diagnostics: &mut Vec<Diagnostic>) {
///         if analysis.graph().name.is_empty() {
///             diagnostics.push(Diagnostic::warning(self.code(), "the graph has no name", analysis.graph().span));
///         }
///     }
/// }
///
/// let options = LoadOptions { rules: vec![std::sync::Arc::new(Named)], ..LoadOptions::default() };
/// let loaded = load(Source::new("a.dot", "digraph { start -> work -> exit }"), &options);
/// assert!(loaded.report.diagnostics.iter().any(|diagnostic| diagnostic.code == "named"));
/// ```
pub trait LintRule: Send + Sync {
    /// Returns the stable identifier of the rule.
    fn code(&self) -> &'static str;

    /// Adds a diagnostic for each problem that the rule finds.
    fn check(&self, analysis: &Analysis<'_>, diagnostics: &mut Vec<Diagnostic>);
}
