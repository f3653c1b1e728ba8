//! The rules that this crate checks, each with its explanation page.

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

/// Declares rules, and the list of all of them.
macro_rules! rules {
    ($($name:ident $code:literal $severity:ident, $summary:literal, $source:literal;)+) => {
        $(pub(crate) static $name: Page = Page::new(
            $code,
            Severity::$severity,
            $summary,
            $source,
            include_str!(concat!("../tests/rules/", $code, ".md")),
        );)+

        static PAGES: &[Page] = &[$($name),+];
    };
}

rules! {
    AMBIGUOUS_PROVIDER "ambiguous_provider" Error, "several providers have the model of a stage", "rule F11";
    BACKEND_CAPABILITY "backend_capability" Error, "a backend cannot do what a stage wants of it", "Orchestra, backend selection";
    CONFIG_DUPLICATE_KEY "config_duplicate_key" Error, "a key of the configuration stands twice", "YAML 1.2, 3.2.1.3";
    CONFIG_SYNTAX "config_syntax" Error, "the configuration is not YAML, or cannot be read", "Orchestra, agent configuration";
    CONFIG_UNKNOWN_KEY "config_unknown_key" Error, "a key of the configuration is not known", "Orchestra, agent configuration";
    CONFIG_VALUE "config_value" Error, "a value of the configuration cannot be", "Orchestra, agent configuration";
    LITERAL_TEMPLATE "literal_template" Info, "a prompt that is not a template contains template syntax", "Orchestra, prompt composition";
    PROMPT_LAYER_INVALID "prompt_layer_invalid" Error, "the file of a prompt layer cannot be understood", "Orchestra, prompt composition";
    PROMPT_LAYER_MISSING "prompt_layer_missing" Error, "a layer of a prompt is not there", "Orchestra, file discovery";
    TEMPLATE_SYNTAX "template_syntax" Error, "a task template cannot be understood", "Orchestra, prompt composition";
    TEMPLATE_VARIABLE "template_variable" Error, "nothing sets a variable of a task template", "Orchestra, prompt composition";
    UNKNOWN_AGENT "unknown_agent" Error, "a node names an agent that there is not", "Orchestra, agent configuration";
    UNKNOWN_BACKEND "unknown_backend" Error, "a backend that there is not is named", "Orchestra, backend selection";
    UNKNOWN_PROVIDER "unknown_provider" Error, "a provider that there is not is named, or none is", "Orchestra, model and provider resolution";
    UNKNOWN_REPOSITORY "unknown_repository" Error, "a stage works in a repository that there is not", "Orchestra, workspace";
    UNKNOWN_TOOL "unknown_tool" Error, "a tool that there is not is named", "Orchestra, agent-level tool configuration";
    UNRESOLVED_MODEL "unresolved_model" Error, "a model stage has no model", "Orchestra, model and provider resolution";
    WORKSPACE_JOIN "workspace_join" Error, "branches that may change files meet where nothing can merge them", "Orchestra, workspace";
}
