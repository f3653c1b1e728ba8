//! `tool_value`: a tool stage cannot give its command a value (rule T6).

use crate::analysis::Analysis;
use crate::attribute::{AttributeFamily, Key, Known};
use crate::attributes::{Attribute, Attributes};
use crate::check::Check;
use crate::check::input::{Input, Once, meant};
use crate::diagnostic::Diagnostic;
use crate::kind;
use crate::model::NodeIndex;
use crate::page::Page;
use crate::severity::Severity;
use crate::text::range_of;
use crate::value_source::{ValueSource, given_variables};

static RULE: Page = Page {
    code: "tool_value",
    severity: Severity::Error,
    summary: "a tool stage cannot give its command this value",
    source: "rule T6",
    text: include_str!("../../tests/rules/tool_value.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: false,
    run,
};

/// Returns the attributes by which a tool stage gives values to its command, those of the graph included. Each has the
/// name of its variable, or `None` for the standard input.
pub(crate) fn given<'g>(analysis: &Analysis<'g>, node: NodeIndex) -> Vec<(Option<&'g str>, &'g Attribute)> {
    let graph = analysis.graph();
    let attributes = &graph.node(node).attributes;
    let all = graph.attributes.iter().chain(attributes.iter());
    let variables = given_variables(all.map(|attribute| (attribute.key.name(), attribute)));
    let variables = variables
        .into_iter()
        .map(|(name, attribute)| (Some(name), attribute));
    let stdin = attributes.get(Known::ToolStdin);
    variables
        .chain(stdin.map(|attribute| (None, attribute)))
        .collect()
}

/// Returns the tool stages.
pub(crate) fn tools(analysis: &Analysis<'_>) -> impl Iterator<Item = NodeIndex> {
    let nodes = analysis.graph().indexed_nodes().map(|(at, _)| at);
    nodes.filter(|at| analysis.kind(*at) == kind::TOOL)
}

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let mut once = Once::default();
    let owner = &input.graph().attributes;
    of_owner(input, owner, None, &mut once, diagnostics);
    for (at, node) in input.nodes() {
        of_owner(input, &node.attributes, Some(at), &mut once, diagnostics);
    }
}

fn of_owner(
    input: &Input<'_>,
    attributes: &Attributes,
    node: Option<NodeIndex>,
    once: &mut Once,
    diagnostics: &mut Vec<Diagnostic>,
) {
    for attribute in attributes.iter() {
        let name = attribute
            .key
            .name()
            .strip_prefix(AttributeFamily::TOOL_ENV_FROM.prefix);
        if name.is_none() && attribute.key != Key::Known(Known::ToolStdin) || !once.first(attribute) {
            continue;
        }
        let conflict = name.and_then(|name| conflict(attributes, attribute, name));
        for diagnostic in source(input, attribute).into_iter().chain(conflict) {
            diagnostics.push(match node {
                Some(node) => diagnostic.node(input.id(node)),
                None => diagnostic,
            });
        }
    }
}

/// Returns the error for a value that is no key, or names no stage.
fn source(input: &Input<'_>, attribute: &Attribute) -> Option<Diagnostic> {
    let key = attribute.key.name();
    let text = attribute.value.as_str().unwrap_or_default();
    match ValueSource::parse(text) {
        Some(ValueSource::Context(_)) => None,
        Some(ValueSource::Stage { node, .. }) => {
            if input.graph().find(node).is_some() {
                return None;
            }
            let range = range_of(text, node)?;
            let span = input.analysis.inside(attribute.value_span, range);
            let near = input.near(node).map(|near| input.id(near));
            let message = format!("`{key}` names the unknown stage `{node}`");
            let diagnostic = Diagnostic::from_rule(&RULE, message, span);
            Some(meant(diagnostic, span, near, "write the id of a stage"))
        }
        None => {
            let message = format!("`{key}` is neither a key of the context nor a text of a stage: `{text}`");
            Some(Diagnostic::from_rule(&RULE, message, attribute.value_span).help(
                "write a key such as `plan`, or `stages.ID.response` or `stages.ID.output`; \
                     `tool_env.NAME` sets a variable to a fixed text",
            ))
        }
    }
}

/// Returns the error for a variable that the same owner also sets to a fixed text.
fn conflict(attributes: &Attributes, attribute: &Attribute, name: &str) -> Option<Diagnostic> {
    let fixed = attributes.find(&format!("{}{name}", AttributeFamily::TOOL_ENV.prefix))?;
    let message = format!("the variable `{name}` has two values");
    Some(
        Diagnostic::from_rule(&RULE, message, attribute.key_span.to(attribute.value_span))
            .related(fixed.key_span.to(fixed.value_span), "its fixed value")
            .help(format!(
                "remove `{}` or `{}`",
                attribute.key.name(),
                fixed.key.name()
            )),
    )
}
