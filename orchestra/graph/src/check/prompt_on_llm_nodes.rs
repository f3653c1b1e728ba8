//! `prompt_on_llm_nodes`: a model stage has no instruction (Attractor 7.2).

use crate::attribute::{Key, Known, Scope};
use crate::attributes::Attribute;
use crate::check::Check;
use crate::check::input::Input;
use crate::check::unknown_attribute::{self, Suggestion};
use crate::diagnostic::Diagnostic;
use crate::kind;
use crate::page::Page;
use crate::severity::Severity;

static RULE: Page = Page {
    code: "prompt_on_llm_nodes",
    severity: Severity::Warning,
    summary: "a model stage has neither prompt nor label",
    source: "Attractor 7.2",
    text: include_str!("../../tests/rules/prompt_on_llm_nodes.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: true,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let sources = [
        Known::Prompt,
        Known::Label,
        Known::Agent,
        Known::AgentTask,
        Known::AgentRole,
    ];
    for (at, node) in input.nodes() {
        if input.kind(at) != kind::CODERGEN || input.is_implicit(at) || unsound(input, at) {
            continue;
        }
        let has_instructions = input.has(at, &sources)
            && sources
                .iter()
                .any(|known| node.attributes.filled(*known).is_some());
        if has_instructions || node.attributes.iter().any(is_misspelt_prompt) {
            continue;
        }
        diagnostics.push(
            Diagnostic::from_rule(
                &RULE,
                format!("model stage `{}` has no prompt", node.id),
                node.span,
            )
            .label("the model would receive only this id")
            .note("a model stage receives its `prompt`, else its `label`")
            .help(format!(
                "add `prompt=\"..\"` to `{}`, or a shape if it is not a model stage",
                node.id
            ))
            .node(&*node.id),
        );
    }
}

/// Returns whether an unknown attribute was probably meant to be the prompt, which `unknown_attribute` reports.
fn is_misspelt_prompt(attribute: &Attribute) -> bool {
    let Key::Other(name) = &attribute.key else {
        return false;
    };
    let prompt = Known::Prompt.name();
    matches!(
        unknown_attribute::suggest(name, Scope::Node),
        Some(Suggestion::Spelling(meant) | Suggestion::Foreign(meant)) if meant == prompt
    )
}

/// Returns whether the node may be the missing start or exit of the pipeline.
fn unsound(input: &Input<'_>, at: crate::model::NodeIndex) -> bool {
    input.exit_candidate() == Some(at)
        || (input.analysis.starts().is_empty() && input.analysis.incoming(at).is_empty())
}
