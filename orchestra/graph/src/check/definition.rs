//! The definition of a check: its rule, and the function that checks it.

use crate::check::input::Input;
use crate::diagnostic::Diagnostic;
use crate::page::Page;

/// A built-in check. Its time is linear in the number of nodes and edges.
pub(crate) struct Check {
    /// The rule that it checks.
    pub(crate) rule: &'static Page,
    /// `true` if the check reports something missing. Such a check is skipped if parsing may have lost statements.
    pub(crate) whole: bool,
    /// Adds a diagnostic for each problem found.
    pub(crate) run: fn(&Input<'_>, &mut Vec<Diagnostic>),
}
