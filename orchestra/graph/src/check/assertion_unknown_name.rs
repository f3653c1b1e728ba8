//! `assertion_unknown_name`: an assertion names a node, an answer or an outcome that the pipeline does not have.

use crate::assertion::{Assertion, Claim, Counted, Name, parse_assertions};
use crate::attribute::Known;
use crate::attributes::Attribute;
use crate::check::Check;
use crate::check::input::Input;
use crate::choice::{choice_meant, choice_named, graph_choices};
use crate::condition::OUTCOME_WORDS;
use crate::diagnostic::{Diagnostic, did_you_mean};
use crate::flow;
use crate::kind;
use crate::model::NodeIndex;
use crate::page::Page;
use crate::severity::Severity;
use crate::syntax::value_fix;

static RULE: Page = Page {
    code: "assertion_unknown_name",
    severity: Severity::Error,
    summary: "an assertion names a node, an answer or an outcome that does not exist",
    source: "rules V1 to V4",
    text: include_str!("../../tests/rules/assertion_unknown_name.md"),
};

pub(crate) static CHECK: Check = Check {
    rule: &RULE,
    whole: true,
    run,
};

fn run(input: &Input<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let Some(attribute) = input.graph().attributes.get(Known::Assert) else {
        return;
    };
    for (_, resolved) in assertions(input, attribute) {
        if let Err(unknown) = resolved {
            diagnostics.extend(
                unknown
                    .into_iter()
                    .map(|unknown| diagnostic(input, attribute, &unknown)),
            );
        }
    }
}

/// An assertion whose names exist.
pub(super) enum Resolved {
    Requires(flow::Requirement),
    Handled(NodeIndex),
    AtMost(NodeIndex, u64),
    Total(Counted, u64),
}

/// A name that does not exist.
pub(super) struct Unknown {
    name: Name,
    message: String,
    note: Option<String>,
    meant: Option<String>,
}

/// Returns the assertions of an attribute, each with its nodes or with the names that do not exist.
pub(super) fn assertions(
    input: &Input<'_>,
    attribute: &Attribute,
) -> Vec<(Assertion, Result<Resolved, Vec<Unknown>>)> {
    let text = attribute.value.as_str().unwrap_or_default();
    let parsed = parse_assertions(text).into_iter().filter_map(Result::ok);
    parsed
        .map(|assertion| {
            let resolved = resolve(input, &assertion.claim);
            (assertion, resolved)
        })
        .collect()
}

fn resolve(input: &Input<'_>, claim: &Claim) -> Result<Resolved, Vec<Unknown>> {
    let mut unknown = Vec::new();
    let mut node = |name: &Name| {
        let found = input.graph().find(&name.text);
        if found.is_none() {
            unknown.push(Unknown {
                message: format!("the pipeline has no node `{}`", name.text),
                note: None,
                meant: input.near(&name.text).map(|near| input.id(near).to_owned()),
                name: name.clone(),
            });
        }
        found
    };
    match claim {
        Claim::Handled { stage } => match node(stage) {
            Some(stage) => Ok(Resolved::Handled(stage)),
            None => Err(unknown),
        },
        Claim::AtMost { stage, most } => match node(stage) {
            Some(stage) => Ok(Resolved::AtMost(stage, *most)),
            None => Err(unknown),
        },
        Claim::Total { counted, most } => Ok(Resolved::Total(*counted, *most)),
        Claim::Requires {
            target,
            stage,
            result,
            since,
        } => {
            let (target, stage) = (node(target), node(stage));
            let since: Vec<Option<NodeIndex>> = since.iter().map(&mut node).collect();
            let result = match (stage, result) {
                (Some(stage), Some(name)) => match result_of(input, stage, name) {
                    Ok(result) => result,
                    Err(other) => {
                        unknown.push(other);
                        flow::Required::Passed
                    }
                },
                _ => flow::Required::Passed,
            };
            match (target, stage) {
                (Some(target), Some(stage)) if unknown.is_empty() => {
                    Ok(Resolved::Requires(flow::Requirement {
                        target,
                        stage,
                        result,
                        since: since.into_iter().flatten().collect(),
                    }))
                }
                _ => Err(unknown),
            }
        }
    }
}

/// Returns the result that a name means at a stage: a choice of a human gate, or an outcome.
fn result_of(input: &Input<'_>, stage: NodeIndex, name: &Name) -> Result<flow::Required, Unknown> {
    let id = input.id(stage);
    if input.kind(stage) == kind::WAIT_HUMAN {
        let choices = graph_choices(input.analysis, stage);
        let names = choices
            .iter()
            .map(|choice| [&*choice.key, &*choice.label, input.id(choice.to)]);
        if let Some(choice) = choice_named(names.clone(), &name.text) {
            if choices.get(choice).is_some_and(|choice| choice.freeform) {
                return Err(Unknown {
                    message: format!("the choice `{}` of the gate `{id}` is any text", name.text),
                    note: Some("an answer by free text says nothing about what it contains".to_owned()),
                    meant: None,
                    name: name.clone(),
                });
            }
            return Ok(flow::Required::Answer(choice));
        }
        let labels = choices.iter().map(|choice| &*choice.label);
        let listed: Vec<String> = labels.take(8).map(|label| format!("`{label}`")).collect();
        return Err(Unknown {
            message: format!("the gate `{id}` has no choice `{}`", name.text),
            note: Some(format!("its choices are {}", listed.join(", "))),
            meant: choice_meant(names, &name.text).map(str::to_owned),
            name: name.clone(),
        });
    }
    let declared = input.node(stage).attributes.words(Known::Outcomes);
    let words: Vec<&str> = OUTCOME_WORDS.iter().copied().chain(declared).collect();
    if words.contains(&name.text.as_str()) {
        return Ok(flow::Required::Outcome(name.text.clone()));
    }
    Err(Unknown {
        message: format!("the stage `{id}` has no outcome `{}`", name.text),
        note: Some("a stage has the built-in outcomes and those that its `outcomes` name".to_owned()),
        meant: did_you_mean(&name.text, words).map(str::to_owned),
        name: name.clone(),
    })
}

fn diagnostic(input: &Input<'_>, attribute: &Attribute, unknown: &Unknown) -> Diagnostic {
    let span = input
        .analysis
        .inside(attribute.value_span, unknown.name.range.clone());
    let mut diagnostic =
        Diagnostic::from_rule(&RULE, unknown.message.clone(), span).label("here in the assertion");
    if let Some(note) = &unknown.note {
        diagnostic = diagnostic.note(note.clone());
    }
    let Some(meant) = &unknown.meant else {
        return diagnostic.help("name what the pipeline has, or remove the assertion");
    };
    let text = attribute.value.as_str().unwrap_or_default();
    let written = text.get(unknown.name.range.clone()).unwrap_or_default();
    let replacement = name_like(written, meant);
    let range = unknown.name.range.clone();
    let fix = value_fix(input.analysis.source(), attribute.value_span, range, &replacement);
    diagnostic
        .help(format!("did you mean `{meant}`?"))
        .fix(fix.span, fix.replacement)
}

/// Returns a name in the quotes of the one that it replaces, or in quotes of its own if it needs them.
fn name_like(written: &str, name: &str) -> String {
    let quote = written.chars().next().filter(|first| matches!(first, '\'' | '"'));
    let is_special = |c: char| matches!(c, ',' | ';' | '=' | '(' | ')' | '\'' | '"') || c.is_whitespace();
    let quote = match quote {
        None if !name.contains(is_special) => return name.to_owned(),
        None => '\'',
        Some(quote) => quote,
    };
    // No escape exists, so the other quote surrounds a name that contains this one.
    let quote = match (name.contains(quote), quote) {
        (true, '\'') => '"',
        (true, _) => '\'',
        (false, quote) => quote,
    };
    format!("{quote}{name}{quote}")
}
