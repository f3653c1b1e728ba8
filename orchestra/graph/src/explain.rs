//! The list of all rules, with their documentation pages.

use std::sync::LazyLock;

use crate::check;
use crate::page::Page;
use crate::syntax;

/// Returns the page of a rule by its code.
///
/// ```
/// use orchestra_graph::{Severity, explain};
/// let page = explain("start_node").expect("a rule of that name");
/// assert_eq!(page.severity, Severity::Error);
/// assert!(page.text.contains("Mdiamond"));
/// assert!(explain("no_such_rule").is_none());
/// ```
pub fn explain(code: &str) -> Option<&'static Page> {
    rules().iter().find(|page| page.code == code)
}

/// Returns the pages of all rules, sorted by code.
///
/// ```
/// assert!(orchestra_graph::rules().iter().any(|page| page.code == "dead_end"));
/// ```
pub fn rules() -> &'static [Page] {
    static PAGES: LazyLock<Vec<Page>> = LazyLock::new(|| {
        let all = check::rules().chain(syntax::rules::RULES.iter().copied());
        let mut pages: Vec<Page> = all.copied().collect();
        pages.sort_by_key(|page| page.code);
        pages
    });
    &PAGES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_belongs_to_one_rule() {
        assert!(rules().is_sorted_by(|page, next| page.code < next.code));
    }
}
