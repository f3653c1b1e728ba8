//! `resume_unset`: a waiting run of a locked version lacks a value that is read later (rule U3).

use crate::check::input_unmet::missing_inputs;
use crate::check::maybe_unset::{MissingValues, RESUMED};
use crate::diagnostic::Diagnostic;
use crate::loaded::Loaded;
use crate::page::Page;

/// The rule, whose diagnostics are those of [`MissingValues::resumed`].
pub(crate) static RULE: &Page = &RESUMED;

/// Returns the errors for the declared values that conditions, commands and child pipelines of today's version read, although the
/// runs of a locked version may lack them.
pub(crate) fn diagnostics(locked: &Loaded, today: &Loaded) -> Vec<Diagnostic> {
    let analysis = today.analysis();
    let mut found = Vec::new();
    if let Some(mut missing) = MissingValues::resumed(&analysis, locked) {
        missing.read_by_conditions(&mut found);
        missing.read_by_nodes(&mut found);
        found.extend(missing_inputs(&analysis, &today.children, &mut missing));
    }
    found
}
