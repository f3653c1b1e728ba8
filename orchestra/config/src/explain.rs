//! The explanation page of each diagnostic code of this crate.

use orchestra_graph::{Page, Severity};

/// Returns the page of a diagnostic code, or `None` if the code does not belong to this crate.
///
/// ```
/// let page = orchestra_config::explain("unknown_agent").expect("a code of this crate");
/// assert!(page.text.contains("## How to mend it"));
/// assert!(orchestra_config::explain("dead_end").is_none(), "that is one of the language");
/// ```
pub fn explain(code: &str) -> Option<&'static Page> {
    PAGES.iter().find(|page| page.code == code)
}

/// Returns the pages of all codes of this crate, sorted by code.
///
/// ```
/// assert!(orchestra_config::rules().iter().any(|page| page.code == "template_variable"));
/// ```
pub fn rules() -> &'static [Page] {
    PAGES
}

macro_rules! page {
    ($code:literal, $summary:literal, $source:literal) => {
        page!($code, Error, $summary, $source)
    };
    ($code:literal, $severity:ident, $summary:literal, $source:literal) => {
        Page::new(
            $code,
            Severity::$severity,
            $summary,
            $source,
            include_str!(concat!("../tests/rules/", $code, ".md")),
        )
    };
}

static PAGES: &[Page] = &[
    page!(
        "ambiguous_provider",
        "several providers have the model of a stage",
        "rule F11"
    ),
    page!(
        "backend_capability",
        "a backend cannot do what a stage wants of it",
        "Orchestra, backend selection"
    ),
    page!(
        "config_duplicate_key",
        "a key of the configuration stands twice",
        "YAML 1.2, 3.2.1.3"
    ),
    page!(
        "config_syntax",
        "the configuration is not YAML, or cannot be read",
        "Orchestra, agent configuration"
    ),
    page!(
        "config_unknown_key",
        "a key of the configuration is not known",
        "Orchestra, agent configuration"
    ),
    page!(
        "config_value",
        "a value of the configuration cannot be",
        "Orchestra, agent configuration"
    ),
    page!(
        "literal_template",
        Info,
        "a prompt that is not a template contains template syntax",
        "Orchestra, prompt composition"
    ),
    page!(
        "prompt_layer_invalid",
        "the file of a prompt layer cannot be understood",
        "Orchestra, prompt composition"
    ),
    page!(
        "prompt_layer_missing",
        "a layer of a prompt is not there",
        "Orchestra, file discovery"
    ),
    page!(
        "template_syntax",
        "a task template cannot be understood",
        "Orchestra, prompt composition"
    ),
    page!(
        "template_variable",
        "nothing sets a variable of a task template",
        "Orchestra, prompt composition"
    ),
    page!(
        "unknown_agent",
        "a node names an agent that there is not",
        "Orchestra, agent configuration"
    ),
    page!(
        "unknown_backend",
        "a backend that there is not is named",
        "Orchestra, backend selection"
    ),
    page!(
        "unknown_provider",
        "a provider that there is not is named, or none is",
        "Orchestra, model and provider resolution"
    ),
    page!(
        "unknown_repository",
        "a stage works in a repository that there is not",
        "Orchestra, workspace"
    ),
    page!(
        "unknown_tool",
        "a tool that there is not is named",
        "Orchestra, agent-level tool configuration"
    ),
    page!(
        "unresolved_model",
        "a model stage has no model",
        "Orchestra, model and provider resolution"
    ),
    page!(
        "workspace_join",
        "branches that may change files meet where nothing can merge them",
        "Orchestra, workspace"
    ),
];
