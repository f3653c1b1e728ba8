//! Options for loading a pipeline.

use std::sync::Arc;

use crate::check::LintRule;
use crate::child_reader::ChildReader;
use crate::diagnostic::Diagnostic;
use crate::severity::Severity;
use crate::syntax::Limits;
use crate::transform::Transform;

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
    /// let mut diagnostics = vec![Diagnostic::warning("mine", "not so good", Span::new(0, 1))];
    /// options.apply_severities(&mut diagnostics);
    /// assert!(diagnostics[0].is_error());
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
