//! Severities of diagnostics.

/// The severity of a [`Diagnostic`](crate::Diagnostic) (Attractor 7.1). More severe variants compare as greater.
///
/// ```
/// use orchestra_graph::{Severity, Source, load};
/// let report = load(Source::new("a.dot", "digraph { start -> exit "), &Default::default()).report;
/// let gravest = report.diagnostics.iter().map(|diagnostic| diagnostic.severity).max();
/// assert_eq!(gravest, Some(Severity::Error));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// A note that needs no action.
    Info,
    /// The pipeline runs, but may not behave as intended.
    Warning,
    /// The pipeline does not run.
    Error,
}

impl Severity {
    /// Returns the name shown to the user: `error`, `warning` or `note`.
    pub const fn word(self) -> &'static str {
        match self {
            Severity::Info => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}
