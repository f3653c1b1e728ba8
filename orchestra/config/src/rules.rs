//! The rules that this crate checks, each with its explanation page.

use orchestra_graph::{Page, Severity};

/// Returns the page of a diagnostic code, or `None` if the code does not belong to this crate.
///
/// ```
/// let page = orchestra_config::explain("unknown_agent").expect("a code of this crate");
/// assert!(page.text.contains("## How to fix it"));
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
    BACKEND_CAPABILITY "backend_capability" Error, "a backend lacks a feature that a stage needs", "Orchestra, backend selection";
    CONFIG_DUPLICATE_KEY "config_duplicate_key" Error, "a key of the configuration occurs twice", "YAML 1.2, 3.2.1.3";
    CONFIG_SYNTAX "config_syntax" Error, "the configuration is not valid YAML, or cannot be read", "Orchestra, agent configuration";
    CONFIG_UNKNOWN_KEY "config_unknown_key" Error, "unknown key in the configuration", "Orchestra, agent configuration";
    CONFIG_VALUE "config_value" Error, "invalid value in the configuration", "Orchestra, agent configuration";
    LITERAL_TEMPLATE "literal_template" Info, "a prompt that is not a template contains template syntax", "Orchestra, prompt composition";
    MCP_LOCK_INVALID "mcp_lock_invalid" Error, "the lock file of MCP servers is invalid", "Orchestra, MCP servers";
    MCP_NOT_LOCKED "mcp_not_locked" Error, "the tools of an MCP server are not locked", "Orchestra, MCP servers";
    MCP_UNKNOWN_TOOL "mcp_unknown_tool" Error, "an MCP server does not have a tool", "Orchestra, MCP servers";
    PROMPT_LAYER_INVALID "prompt_layer_invalid" Error, "the file of a prompt layer is invalid", "Orchestra, prompt composition";
    PROMPT_LAYER_MISSING "prompt_layer_missing" Error, "a prompt layer does not exist", "Orchestra, file discovery";
    TEMPLATE_SYNTAX "template_syntax" Error, "a task template is invalid", "Orchestra, prompt composition";
    TEMPLATE_VARIABLE "template_variable" Error, "nothing sets a variable of a task template", "Orchestra, prompt composition";
    UNKNOWN_AGENT "unknown_agent" Error, "a node names an unknown agent", "Orchestra, agent configuration";
    UNKNOWN_BACKEND "unknown_backend" Error, "unknown backend", "Orchestra, backend selection";
    UNKNOWN_PROVIDER "unknown_provider" Error, "unknown or missing provider", "Orchestra, model and provider resolution";
    UNKNOWN_REPOSITORY "unknown_repository" Error, "a stage works in an unknown repository", "Orchestra, workspace";
    UNKNOWN_TOOL "unknown_tool" Error, "unknown tool", "Orchestra, agent-level tool configuration";
    UNRESOLVED_MODEL "unresolved_model" Error, "a model stage has no model", "Orchestra, model and provider resolution";
    WORKSPACE_JOIN "workspace_join" Error, "branches that may change files join where nothing can merge them", "Orchestra, workspace";
}
