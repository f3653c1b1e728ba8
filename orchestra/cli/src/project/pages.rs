//! The documentation pages of all diagnostics.

use orchestra_graph::{Page, Severity};

/// The rule for pipelines that the engine refuses to start.
pub(crate) static CANNOT_START: Page = Page::new(
    "cannot_start",
    Severity::Error,
    "a run of the pipeline would be refused",
    "Attractor 4.2, 4.10 and 4.11",
    include_str!("../../pages/cannot_start.md"),
);

/// Returns the pages of all diagnostics, sorted by code.
pub(crate) fn pages() -> Vec<&'static Page> {
    let mut pages: Vec<&Page> = orchestra_graph::rules().iter().collect();
    pages.extend(orchestra_config::rules());
    pages.push(&CANNOT_START);
    pages.sort_by_key(|page| page.code);
    pages
}
