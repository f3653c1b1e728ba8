//! The rules that the lexer and the parser check.

use crate::page::Page;
use crate::severity::Severity;

/// Declares rules, and the list of all of them.
macro_rules! rules {
    ($($name:ident $code:literal $severity:ident, $summary:literal, $source:literal;)+) => {
        $(pub(crate) static $name: Page = Page {
            code: $code,
            severity: Severity::$severity,
            summary: $summary,
            source: $source,
            text: include_str!(concat!("../../tests/rules/", $code, ".md")),
        };)+

        /// All rules of the lexer and the parser.
        pub(crate) static RULES: &[&Page] = &[$(&$name),+];
    };
}

rules! {
    ATTR_SEPARATOR "attr_separator" Warning, "attributes not separated by `,`", "Attractor 2.3, rule L2";
    EDGE_GROUP "edge_group" Error, "an edge ends in a group in braces", "Attractor 2.2, rule L1";
    HTML_LABEL "html_label" Error, "a value is written as an HTML label", "Attractor 2.3, rule L1";
    INVALID_CHARACTER "invalid_character" Error, "a character is not valid at its position", "Attractor 2.2";
    INVALID_UTF8 "invalid_utf8" Error, "the file is not UTF-8", "rule L10";
    NESTING_LIMIT "nesting_limit" Error, "subgraphs nest too deeply", "rule L10";
    NODE_ID_SYNTAX "node_id_syntax" Error, "a node id is not an identifier", "Attractor 2.3, rule L3";
    PORT "port" Error, "an edge names a port of a node", "Attractor 2.2, rule L1";
    SECOND_GRAPH "second_graph" Error, "a file contains more than one graph", "Attractor 2.3, rule L1";
    SIZE_LIMIT "size_limit" Error, "the file is too large", "rule L10";
    STRICT_GRAPH "strict_graph" Error, "the graph is `strict`", "Attractor 2.3, rule L1";
    STRING_CONCATENATION "string_concatenation" Error, "strings are joined with `+`", "Attractor 2.2, rule L1";
    SYNTAX_ERROR "syntax_error" Error, "the text does not follow the grammar", "Attractor 2.2";
    TEXT_DIRECTION "text_direction" Warning, "a character reverses the text after it", "rule L10";
    UNDIRECTED_EDGE "undirected_edge" Error, "an edge is written `--`", "Attractor 2.3, rule L1";
    UNDIRECTED_GRAPH "undirected_graph" Error, "the graph is undirected", "Attractor 2.3, rule L1";
    UNKNOWN_ESCAPE "unknown_escape" Warning, "a string contains an unknown escape", "Attractor 2.2, rule L5";
    UNTERMINATED_BLOCK "unterminated_block" Error, "a `{` or `[` is never closed", "Attractor 2.2";
    UNTERMINATED_COMMENT "unterminated_comment" Error, "a comment is never closed", "Attractor 2.2";
    UNTERMINATED_STRING "unterminated_string" Error, "a string is never closed", "Attractor 2.2";
}

/// The rules after whose errors statements may be lost.
pub(crate) static LOSSY: &[&Page] = &[
    &SYNTAX_ERROR,
    &UNTERMINATED_STRING,
    &UNTERMINATED_COMMENT,
    &UNTERMINATED_BLOCK,
    &INVALID_CHARACTER,
    &HTML_LABEL,
    &EDGE_GROUP,
    &NESTING_LIMIT,
];
