//! Texts for people, in Markdown: the documentation of attributes and kinds.

use orchestra_config::{Agent, Configuration};
use orchestra_graph::{AttributeFamily, AttributeSpec, kind};

use crate::protocol::{MarkupContent, MarkupKind};

/// The maximum number of lines of a prompt or command that are shown.
const LINES: usize = 6;
/// The maximum number of characters of such a line.
const COLUMNS: usize = 100;

/// Wraps a text in Markdown.
pub(crate) fn markup(value: impl Into<String>) -> MarkupContent {
    MarkupContent {
        kind: MarkupKind::Markdown,
        value: value.into(),
    }
}

/// Returns a text as code, whatever it contains.
pub(crate) fn code(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest + 1);
    let pad = if longest > 0 { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// Returns texts as code, separated by commas.
pub(crate) fn codes<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let texts: Vec<String> = texts.into_iter().map(|text| code(text.as_ref())).collect();
    texts.join(", ")
}

/// Returns the first lines of a text, as a block of code.
pub(crate) fn block(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines().take(LINES) {
        let shown: String = line.chars().take(COLUMNS).collect();
        let rest = if shown.len() < line.len() { "…" } else { "" };
        lines.push(format!("{shown}{rest}"));
    }
    if text.lines().nth(LINES).is_some() {
        lines.push("…".to_owned());
    }
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}text\n{}\n{fence}", lines.join("\n"))
}

/// Returns a short description of the values and the default of an attribute.
pub(crate) fn values(spec: &AttributeSpec) -> String {
    match spec.default {
        Some(default) => format!("{}; default {}", spec.ty.describe(), code(&default.to_string())),
        None => spec.ty.describe(),
    }
}

/// Returns the documentation of an attribute.
pub(crate) fn attribute(spec: &AttributeSpec) -> String {
    let mut text = format!("**{}**: {}\n\n{}", spec.name, values(spec), spec.doc);
    let of = [
        (spec.scopes.graph, "the graph"),
        (spec.scopes.node, "nodes"),
        (spec.scopes.edge, "edges"),
    ];
    let of: Vec<&str> = of
        .into_iter()
        .filter(|(holds, _)| *holds)
        .map(|(_, of)| of)
        .collect();
    text.push_str(&format!("\n\nOn {}.", of.join(", ")));
    if spec.scopes.node {
        let readers: Vec<&str> = kind::BUILT_IN
            .iter()
            .copied()
            .filter(|kind| spec.known.is_read_by(kind))
            .collect();
        if readers.len() < kind::BUILT_IN.len() {
            let titles: Vec<&str> = readers.into_iter().map(kind::title).collect();
            text.push_str(&format!(" Read by: {}.", titles.join(", ")));
        }
    }
    if !spec.aliases.is_empty() {
        text.push_str(&format!(" Also accepted as {}.", codes(spec.aliases)));
    }
    text
}

/// Returns the documentation of an attribute family.
pub(crate) fn family(family: &AttributeFamily) -> String {
    format!("**{}{}**: text\n\n{}", family.prefix, family.member, family.doc)
}

/// Returns the documentation of a kind of node, with the shapes that select it.
pub(crate) fn kind_doc(kind: &str) -> String {
    let shapes: Vec<&str> = kind::shapes_of(kind).collect();
    let title = kind::title(kind);
    if shapes.is_empty() {
        format!("{title} (`type={kind}`)")
    } else {
        format!(
            "{title} (`type={kind}`, or {})",
            codes(shapes.iter().map(|shape| format!("shape={shape}")))
        )
    }
}

/// Returns the documentation of an agent: its layers, its model and its tools.
pub(crate) fn agent(name: &str, agent: &Agent, configuration: &Configuration) -> String {
    let mut lines = vec![format!("**agent** {}", code(name)), String::new()];
    let mut line = |key: &str, value: Option<&str>| {
        if let Some(value) = value {
            lines.push(format!("- {key}: {}", code(value)));
        }
    };
    let text = |located: &Option<orchestra_config::Located<String>>| {
        located.as_ref().map(|value| value.value.clone())
    };
    line("role", text(&agent.role).as_deref());
    line("persona", text(&agent.persona).as_deref());
    line("personality", text(&agent.personality).as_deref());
    line("task", text(&agent.task).as_deref());
    line("backend", text(&agent.backend).as_deref());
    line("provider", text(&agent.provider).as_deref());
    line(
        "model",
        text(&agent.model)
            .map(|model| meaning(&model, agent, configuration))
            .as_deref(),
    );
    line(
        "reasoning effort",
        agent.reasoning_effort.as_ref().map(|effort| effort.value.word()),
    );
    line("mode", agent.mode.as_ref().map(|mode| mode.value.word()));
    for (key, tools) in [("further tools", &agent.tools), ("only tools", &agent.only_tools)] {
        if let Some(tools) = tools {
            let tools = codes(tools.iter().map(|tool| tool.value.as_str()));
            lines.push(format!(
                "- {key}: {}",
                if tools.is_empty() { "none" } else { &tools }
            ));
        }
    }
    lines.join("\n")
}

/// Returns the documentation of a model: what the providers understand by its name.
pub(crate) fn model(name: &str, configuration: &Configuration) -> String {
    let mut text = format!("**model** {}\n", code(name));
    for (provider, found) in &configuration.providers.named {
        if let Some(model) = found.value.models.get(name) {
            text.push_str(&format!("\n- of {}: {}", code(provider), code(&model.value)));
        }
    }
    text
}

/// Returns a model with the model that it is an alias for.
fn meaning(model: &str, agent: &Agent, configuration: &Configuration) -> String {
    let providers = &configuration.providers;
    let provider = agent.provider.as_ref().or(providers.default.as_ref());
    let named = provider.and_then(|provider| providers.named.get(provider.value.as_str()));
    match named.and_then(|provider| provider.models.get(model)) {
        Some(own) => format!("{model} = {}", own.value),
        None => model.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_can_be_shown_as_code() {
        assert_eq!(code("a"), "`a`");
        assert_eq!(code("a`b"), "`` a`b ``");
        assert_eq!(code("``"), "``` `` ```");
    }
}
