//! A rule with its documentation page: the problem that it finds, why it matters and how to fix it.

use crate::severity::Severity;

/// A rule of the language with its documentation page.
///
/// ```
/// let page = orchestra_graph::explain("dead_end").expect("a rule of that name");
/// assert!(page.source.contains("R6"));
/// assert!(page.text.contains("end="));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The stable identifier that diagnostics carry.
    pub code: &'static str,
    /// The highest severity of its diagnostics.
    pub severity: Severity,
    /// The problem that the rule finds, in one line.
    pub summary: &'static str,
    /// The origin of the rule, such as a section of the specification.
    pub source: &'static str,
    /// The page, in Markdown.
    pub text: &'static str,
}

impl Page {
    /// Creates a page for a rule that another crate checks.
    ///
    /// ```
    /// use orchestra_graph::{Page, Severity};
    /// let page = Page::new("no_tabs", Severity::Warning, "a line has a tab", "house style", "# `no_tabs`");
    /// assert_eq!(page.code, "no_tabs");
    /// ```
    pub const fn new(
        code: &'static str,
        severity: Severity,
        summary: &'static str,
        source: &'static str,
        text: &'static str,
    ) -> Page {
        Page {
            code,
            severity,
            summary,
            source,
            text,
        }
    }
}
