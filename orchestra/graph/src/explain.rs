//! The documentation page of every rule: the problem it finds, why it matters and how to fix it.

use crate::check;
use crate::diagnostic::Severity::{self, Error, Warning};

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
    PAGES.iter().find(|page| page.code == code)
}

/// Returns the pages of all rules, sorted by code.
///
/// ```
/// assert!(orchestra_graph::rules().iter().any(|page| page.code == "dead_end"));
/// ```
pub fn rules() -> &'static [Page] {
    PAGES
}

macro_rules! page {
    ($code:literal, $check:expr) => {
        page!($code, $check.severity, $check.summary, $check.source)
    };
    ($code:literal, $severity:expr, $summary:expr, $source:expr) => {
        Page {
            code: $code,
            severity: $severity,
            summary: $summary,
            source: $source,
            text: include_str!(concat!("../tests/rules/", $code, ".md")),
        }
    };
}

static PAGES: &[Page] = &[
    page!(
        "attr_separator",
        Warning,
        "attributes not separated by `,`",
        "Attractor 2.3, rule L2"
    ),
    page!(
        "attribute_type",
        Error,
        "a known attribute has a value of the wrong type",
        "Attractor 2.4, rule L6"
    ),
    page!(
        "attribute_without_effect",
        &check::attribute_without_effect::CHECK
    ),
    page!(
        "child_cycle",
        Error,
        "a pipeline runs itself, by way of its children",
        "Attractor 9.4"
    ),
    page!(
        "child_invalid",
        Error,
        "a child pipeline has errors",
        "Attractor 9.4"
    ),
    page!("child_missing", &check::child_missing::CHECK),
    page!(
        "child_nesting",
        Error,
        "child pipelines nest too deep, or are too many",
        "rule L10"
    ),
    page!(
        "child_not_found",
        Error,
        "the file of a child pipeline cannot be read",
        "Attractor 4.11 and 9.4"
    ),
    page!("condition_syntax", &check::condition_syntax::CHECK),
    page!(
        "conflicting_aliases",
        Warning,
        "one attribute is set under two spellings",
        "rule L11"
    ),
    page!("contradictory_condition", &check::contradictory_condition::CHECK),
    page!("dead_end", &check::dead_end::CHECK),
    page!("duplicate_choice_key", &check::duplicate_choice_key::CHECK),
    page!(
        "duplicate_node_attribute",
        Warning,
        "one attribute is set twice on one owner",
        "rule L6"
    ),
    page!(
        "edge_group",
        Error,
        "a group in braces stands at the end of an edge",
        "Attractor 2.2, rule L1"
    ),
    page!("edge_target_exists", &check::edge_target_exists::CHECK),
    page!("exit_no_outgoing", &check::exit_no_outgoing::CHECK),
    page!(
        "failure_routed_as_success",
        &check::failure_routed_as_success::CHECK
    ),
    page!("fan_in_without_parallel", &check::fan_in_without_parallel::CHECK),
    page!("fidelity_valid", &check::fidelity_valid::CHECK),
    page!("foreign_context_key", &check::foreign_context_key::CHECK),
    page!("goal_gate_bypass", &check::goal_gate_bypass::CHECK),
    page!("goal_gate_has_retry", &check::goal_gate_has_retry::CHECK),
    page!(
        "html_label",
        Error,
        "a value is written as an HTML label",
        "Attractor 2.3, rule L1"
    ),
    page!("ignored_condition", &check::ignored_condition::CHECK),
    page!("implicit_node", &check::implicit_node::CHECK),
    page!(
        "invalid_character",
        Error,
        "a character has no meaning where it stands",
        "Attractor 2.2"
    ),
    page!("invalid_utf8", Error, "the file is not UTF-8", "rule L10"),
    page!(
        "join_policy_unsatisfiable",
        &check::join_policy_unsatisfiable::CHECK
    ),
    page!("join_policy_unused", &check::join_policy_unused::CHECK),
    page!("nesting_limit", Error, "subgraphs nest too deep", "rule L10"),
    page!("no_path_to_exit", &check::no_path_to_exit::CHECK),
    page!("node_id_case_clash", &check::node_id_case_clash::CHECK),
    page!(
        "node_id_syntax",
        Error,
        "a node id is not an identifier",
        "Attractor 2.3, rule L3"
    ),
    page!(
        "non_exhaustive_conditions",
        &check::non_exhaustive_conditions::CHECK
    ),
    page!("parallel_nesting", &check::parallel_nesting::CHECK),
    page!("parallel_no_join", &check::parallel_no_join::CHECK),
    page!("parallel_reentry", &check::parallel_reentry::CHECK),
    page!(
        "port",
        Error,
        "an edge names a port of a node",
        "Attractor 2.2, rule L1"
    ),
    page!(
        "prompt_file",
        Error,
        "the file of a prompt cannot be read",
        "rule F3"
    ),
    page!("prompt_on_llm_nodes", &check::prompt_on_llm_nodes::CHECK),
    page!("reachability", &check::reachability::CHECK),
    page!("reserved_node_id", &check::reserved_node_id::CHECK),
    page!("retry_target_exists", &check::retry_target_exists::CHECK),
    page!("routing_dialect", &check::routing_dialect::CHECK),
    page!(
        "second_graph",
        Error,
        "a file holds more than one graph",
        "Attractor 2.3, rule L1"
    ),
    page!("shadowed_edge", &check::shadowed_edge::CHECK),
    page!("size_limit", Error, "the file is too large", "rule L10"),
    page!("start_no_incoming", &check::start_no_incoming::CHECK),
    page!("start_node", &check::start_node::CHECK),
    page!(
        "strict_graph",
        Error,
        "the graph is `strict`",
        "Attractor 2.3, rule L1"
    ),
    page!(
        "string_concatenation",
        Error,
        "strings are joined with `+`",
        "Attractor 2.2, rule L1"
    ),
    page!("stylesheet_syntax", &check::stylesheet_syntax::CHECK),
    page!("success_only_into_exit", &check::success_only_into_exit::CHECK),
    page!(
        "syntax_error",
        Error,
        "the text does not follow the grammar",
        "Attractor 2.2"
    ),
    page!("terminal_node", &check::terminal_node::CHECK),
    page!(
        "thread_id_without_full_fidelity",
        &check::thread_id_without_full_fidelity::CHECK
    ),
    page!(
        "tool_env_name",
        Error,
        "an attribute sets an environment variable that the engine itself sets",
        "rule F12"
    ),
    page!("type_known", &check::type_known::CHECK),
    page!(
        "undirected_edge",
        Error,
        "an edge is written `--`",
        "Attractor 2.3, rule L1"
    ),
    page!(
        "undirected_graph",
        Error,
        "the graph is undirected",
        "Attractor 2.3, rule L1"
    ),
    page!(
        "unknown_attribute",
        Warning,
        "an attribute looks like a known one, but is not",
        "rule L7"
    ),
    page!("unknown_default_choice", &check::unknown_default_choice::CHECK),
    page!(
        "unknown_escape",
        Warning,
        "a string holds an escape that does not exist",
        "Attractor 2.2, rule L5"
    ),
    page!("unknown_outcome", &check::unknown_outcome::CHECK),
    page!(
        "unterminated_block",
        Error,
        "a `{` or `[` is never closed",
        "Attractor 2.2"
    ),
    page!(
        "unterminated_comment",
        Error,
        "a comment is never closed",
        "Attractor 2.2"
    ),
    page!(
        "unterminated_string",
        Error,
        "a string is never closed",
        "Attractor 2.2"
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_sorted_and_every_check_has_one() {
        assert!(PAGES.is_sorted_by_key(|page| page.code));
        for check in check::CHECKS {
            let page = explain(check.code).unwrap_or_else(|| panic!("{} has no page", check.code));
            assert_eq!((page.severity, page.summary), (check.severity, check.summary));
        }
    }
}
